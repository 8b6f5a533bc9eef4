"""An image's instructions: disassembled, each with its functions and its owner; and what Thumb instructions do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from qcgen.cross import succeed
from qcgen.emulate.image import ELF, Image
from qcgen.ir.plan import Plan

OUTSIDE = 0
"""The owner of what belongs to no node: the harness's call, NAME_run between nodes. Node i is owner i + 1."""

SHARED = -1
"""Code that serves whoever calls it: the C library, the compiler's library, support functions of the generated file."""

_LABEL = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\t([0-9a-f ]+?)\s*(?:\t(\S*)(?:\t(.*))?)?$")  # the mnemonic is blank where unknown
_SYMBOL = re.compile(r"^([0-9a-f]+) .{7} (\S+)\t([0-9a-f]+) (?:0x\S+ |\.\w+ )*(\S+)$")
_CLONE = re.compile(r"\.(constprop|isra|part|cold|lto_priv)\b.*")


@dataclass(frozen=True)
class Instruction:
    """An instruction, or a word of data among code; ``function`` as the linker knows it, ``section`` of the image."""

    address: int
    bytes: int
    mnemonic: str
    operands: str
    function: str
    section: str

    @property
    def is_data(self) -> bool:
        """Whether this is a constant in the code, such as a literal or a jump table."""
        return self.mnemonic.startswith(".")


@dataclass(frozen=True)
class Symbol:
    """A function or an object of the image."""

    address: int
    bytes: int
    section: str


@dataclass(frozen=True)
class Listing:
    """All ``instructions`` by address, ascending; ``owners`` by address; ``symbols`` of the image.

    ``chains``: by address the functions that an instruction of the generated code was inlined from, outermost first.

    ``flash_bytes``: the sections that the generated code and the library code it needs take in flash.
    """

    instructions: dict[int, Instruction]
    owners: dict[int, int]
    symbols: dict[str, Symbol]
    flash_bytes: int
    chains: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def before(self, instruction: Instruction) -> Instruction | None:
        """The instruction that ends where this one begins; None if there is none."""
        found = (self.instructions.get(instruction.address - size) for size in (4, 2))
        return next((each for each in found if each and each.address + each.bytes == instruction.address), None)

    def constant_bytes(self, owner: str) -> int:
        """The size of a node's tables in the image: what the compiler has left of them. ``owner`` is its C symbol."""
        return sum(
            symbol.bytes
            for name, symbol in self.symbols.items()
            if name.startswith(f"{owner}_") and symbol.section in (".constants", ".data")
        )

    def code_bytes(self, owner: int) -> int:
        """The size of an owner's code, the harness's left out."""
        return sum(
            instruction.bytes
            for address, instruction in self.instructions.items()
            if self.owners[address] == owner and instruction.section != ".harness"
        )


def listing(image: Image, plan: Plan) -> Listing:
    """What an image holds that was made of one model."""
    objdump = [f"{image.target.tools}objdump", "-w", ELF]
    instructions = _disassembled(succeed([*objdump, "-d"], image.folder).splitlines())
    chains = _inlined(image, plan, instructions.values())
    return Listing(
        instructions,
        _owners(plan, instructions.values(), chains),
        _symbols(succeed([*objdump, "-t"], image.folder)),
        _flash_bytes(succeed([*objdump, "-h"], image.folder)),
        chains,
    )


def _disassembled(lines: Iterable[str]) -> dict[int, Instruction]:
    instructions: dict[int, Instruction] = {}
    function, section = "", ""
    for line in lines:
        if line.startswith("Disassembly of section"):
            section = line.split()[-1].rstrip(":")
        elif label := _LABEL.match(line):
            function = label[2]
        elif found := _LINE.match(line):
            address, size = int(found[1], 16), len(found[2].replace(" ", "")) // 2
            operands = re.split(r"[;@#<]\s", found[4] or "")[0].strip()
            instructions[address] = Instruction(address, size, found[3], operands, function, section)
    return dict(sorted(instructions.items()))


def _symbols(text: str) -> dict[str, Symbol]:
    found = (_SYMBOL.match(line) for line in text.splitlines())
    return {each[4]: Symbol(int(each[1], 16), int(each[3], 16), each[2]) for each in found if each}


def _flash_bytes(text: str) -> int:
    """The sum of the sections' sizes in what objdump -h prints."""
    words = [line.split() for line in text.splitlines()]
    return sum(int(each[2], 16) for each in words if len(each) > 2 and each[1] in (".text", ".constants", ".data"))


def _inlined(image: Image, plan: Plan, instructions: Iterable[Instruction]) -> dict[int, list[str]]:
    """For each address of the generated code the functions it comes from, the outermost first."""
    addresses = [i.address for i in instructions if i.function.startswith(f"{plan.prefix}_") and not i.is_data]
    text = "\n".join(f"{address:#x}" for address in addresses)
    printed = succeed([f"{image.target.tools}addr2line", "-e", ELF, "-a", "-f", "-i"], image.folder, text=text)
    chains: dict[int, list[str]] = {}
    names: list[str] = []
    is_function = True
    for line in printed.splitlines():
        if line.startswith("0x"):
            names = chains.setdefault(int(line, 16), [])
            is_function = True
        else:
            if is_function:
                names.insert(0, _CLONE.sub("", line))
            is_function = not is_function
    return chains


def _owners(plan: Plan, instructions: Iterable[Instruction], chains: dict[int, list[str]]) -> dict[int, int]:
    owners: dict[int, int] = {}
    last = SHARED, ""  # the owner of the instruction before, and its function
    for instruction in instructions:
        if instruction.is_data and last[1] == instruction.function:
            owner = last[0]  # literals belong to the code before them
        else:
            owner = _owner(plan, instruction, chains.get(instruction.address, []))
        owners[instruction.address] = owner
        last = owner, instruction.function
    return owners


def _owner(plan: Plan, instruction: Instruction, chain: Sequence[str]) -> int:
    function = _CLONE.sub("", instruction.function)
    for name in (function, *chain):
        for index, call in enumerate(plan.calls):
            if name == call.symbol or name.startswith(f"{call.symbol}_"):
                return index + 1
    public = {f"{plan.prefix}_{name}" for name in ("run", "begin", "push_row", "end")}
    is_outside = instruction.section == ".harness" or function in public
    return OUTSIDE if is_outside else SHARED


# What an instruction of Thumb does to registers, memory and the flow of control, as far as bounds need it.

FLAGS = "flags"

_REGISTER = re.compile(r"\b(r\d+|sb|sl|fp|ip|sp|lr|pc)\b")
_RANGE = re.compile(r"\br(\d+)-r(\d+)\b")
_FLOATS = re.compile(r"\b[sdq]\d+\b")
_CONDITIONS = "eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
_BRANCH = re.compile(rf"^b({_CONDITIONS})?$")
_IF_THEN = re.compile(r"^it([te]{0,3})$")
_CONDITIONAL = re.compile(rf"^(.+?)({_CONDITIONS})(\.f32|\.f64)?$")
_ADDRESS = re.compile(r"\[(\w+)(?:, ([^\]]+))?\](!?)(?:, (.+))?$")
_COMPARES = ("cmp", "cmn", "tst", "teq")
_SETS_FLAGS = frozenset("mov mvn add adc sub sbc rsb neg and orr orn eor bic lsl lsr asr ror mul".split())
_READS_FLAGS = frozenset("adc sbc adcs sbcs rrx rrxs sel".split())
_TWO_RESULTS = frozenset("smull umull smlal umlal umaal smlald smlaldx smlsld smlsldx".split())
_PURE = frozenset("mov movs movw mvn mvns neg negs sxtb sxth uxtb uxth sxtb16 uxtb16 rev rev16 revsh clz rbit".split())
_NOT_FOLLOWED = frozenset("bkpt svc udf msr cpsid cpsie wfi le letp dls dlstp wls wlstp bf bfl bfx bxns blxns".split())
_KEEPS_NOTHING = frozenset("nop nop.w dsb isb dmb pld".split())


class NotUnderstood(Exception):
    """An instruction whose effect is not known; the text says which."""


@dataclass(frozen=True)
class Access:
    """Memory at ``base`` plus ``index`` plus ``offset``, None if not known; ``words`` from there, 0 if less than 1."""

    base: str
    offset: int | None
    index: tuple[str, ...]
    words: int


@dataclass(frozen=True)
class ThumbStep:
    """An instruction: ``writes`` from ``reads``; ``goes`` is "on", "branch", "jump", "call", "return" or "computed".

    ``sources`` are registers that a store writes, in order. ``may``: whether it acts only under a condition.
    ``moved``: by how much it moves its base register besides, None if by an unknown number. ``size``: bytes.
    """

    address: int
    size: int
    name: str
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    goes: str = "on"
    target: int | None = None
    may: bool = False
    load: Access | None = None
    store: Access | None = None
    sources: tuple[str, ...] = ()
    moved: tuple[str, int | None] | None = None
    moves_first: bool = False
    constant: int | None = None
    has_float: bool = False

    @property
    def next(self) -> int:
        """The address behind it."""
        return self.address + self.size

    @property
    def uses(self) -> frozenset[str]:
        """The registers that it reads, those of addresses among them; of float instructions none is known."""
        places = [place for place in (self.load, self.store) if place]
        named = [name for place in places for name in (place.base, *place.index)]
        return frozenset((*self.reads, *self.sources, *named, *([self.moved[0]] if self.moved else [])))


def steps(instructions: Iterable[Instruction]) -> dict[int, ThumbStep | NotUnderstood]:
    """By address what each instruction does, or why that is not known; data among code are left out."""
    found: dict[int, ThumbStep | NotUnderstood] = {}
    conditions = 0
    for each in instructions:
        if each.is_data:
            conditions = 0
            continue
        mnemonic = each.mnemonic.removesuffix(".n").removesuffix(".w")
        if block := _IF_THEN.match(mnemonic):
            conditions = 1 + len(block[1])
            found[each.address] = ThumbStep(each.address, each.bytes, mnemonic)
            continue
        may, conditions = conditions > 0, max(conditions - 1, 0)
        if may and (parts := _CONDITIONAL.match(mnemonic)):
            mnemonic = parts[1] + (parts[3] or "")
        try:
            found[each.address] = _step(each, mnemonic, may)
        except NotUnderstood as problem:
            found[each.address] = problem
    return found


def _registers(text: str) -> tuple[str, ...]:
    spread = _RANGE.sub(lambda found: ", ".join(f"r{i}" for i in range(int(found[1]), int(found[2]) + 1)), text)
    return tuple(_REGISTER.findall(spread))


def _number(text: str | None) -> int | None:
    found = re.fullmatch(r"#(-?(?:0x[0-9a-f]+|\d+))", (text or "#0").strip())
    return int(found[1], 0) if found else None


def _step(each: Instruction, name: str, may: bool) -> ThumbStep:
    flow = _flow(each, name, may)
    if flow is not None:
        return flow
    if name in _KEEPS_NOTHING:
        return ThumbStep(each.address, each.bytes, name)
    if name.startswith("v"):
        return _float(each, name, may)
    if name.startswith(("ldm", "stm", "push", "pop")):
        return _multiple(each, name, may)
    if name.startswith(("ldr", "str")):
        return _single(each, name, may)
    if (name == "add" and ", pc, #" in each.operands) or name == "adr":
        return ThumbStep(each.address, each.bytes, "adr", _registers(each.operands)[:1], may=may)
    if name in _NOT_FOLLOWED or "[" in each.operands or "pc" in each.operands:
        raise NotUnderstood(f"'{each.mnemonic} {each.operands}'")
    return _computation(each, name, may)


def _flow(each: Instruction, name: str, may: bool) -> ThumbStep | None:
    """What goes elsewhere; None for all else."""
    words = each.operands.split()
    if name in ("cbz", "cbnz"):
        [register] = _registers(words[0])
        return ThumbStep(each.address, each.bytes, name, reads=(register,), goes="branch", target=int(words[1], 16))
    if found := _BRANCH.match(name):
        is_branch = may or found[1]
        goes, reads = ("branch", (FLAGS,)) if is_branch else ("jump", ())
        return ThumbStep(each.address, each.bytes, name, reads=reads, goes=goes, target=int(words[0], 16), may=may)
    if name == "bl":
        return ThumbStep(each.address, each.bytes, name, goes="call", target=int(words[0], 16), may=may)
    if name == "bx" and each.operands == "lr":
        return ThumbStep(each.address, each.bytes, name, reads=(FLAGS,) if may else (), goes="return", may=may)
    if name in ("blx", "bx", "tbb", "tbh") or (name == "mov" and each.operands.startswith("pc")):
        return ThumbStep(each.address, each.bytes, name, goes="computed")
    return None


def _float(each: Instruction, name: str, may: bool) -> ThumbStep:
    """Floating-point registers are not followed: what comes from them may depend on the input."""
    head = name.split(".")[0]
    if head in ("vpush", "vpop"):
        count = _float_bytes(each.operands)
        by = -count if head == "vpush" else count
        store = Access("sp", 0, (), count // 4) if head == "vpush" else None
        return ThumbStep(
            each.address, each.bytes, name, store=store, moved=("sp", by), moves_first=True, may=may, has_float=True
        )
    if head == "vmrs":
        return ThumbStep(each.address, each.bytes, name, writes=(FLAGS,), has_float=True, may=may)
    if head in ("vldr", "vstr"):
        at = _ADDRESS.search(each.operands)
        if at is None or at[3] or at[4]:
            raise NotUnderstood(f"'{each.mnemonic} {each.operands}'")
        access = Access(at[1], _number(at[2]), (), 2 if each.operands.startswith("d") else 1)
        store = access if head == "vstr" else None
        return ThumbStep(each.address, each.bytes, name, store=store, has_float=True, may=may)
    if head in ("vldmia", "vstmia"):
        base = each.operands.split("!")[0].split(",")[0].strip()
        moved = (base, _float_bytes(each.operands.split("{")[1])) if "!" in each.operands else None
        store = Access(base, None, (), 0) if head == "vstmia" else None
        return ThumbStep(each.address, each.bytes, name, store=store, moved=moved, has_float=True, may=may)
    first = each.operands.split(",")[0]
    is_result = head == "vmov" and not _FLOATS.match(first)
    writes = tuple(r for r in _registers(each.operands)) if is_result else ()
    return ThumbStep(each.address, each.bytes, name, writes=writes, has_float=True, may=may)


def _float_bytes(text: str) -> int:
    total = 0
    for part in text.strip("{}").split(","):
        first, _, last = part.strip().strip("{}").partition("-")
        total += (int(last[1:]) - int(first[1:]) + 1 if last else 1) * {"s": 4, "d": 8, "q": 16}[first[0]]
    return total


def _multiple(each: Instruction, name: str, may: bool) -> ThumbStep:
    listed = _registers(each.operands[each.operands.index("{") :])
    base, is_kept = "sp", False
    if not name.startswith(("push", "pop")):
        base = each.operands.split(",")[0].rstrip("!").strip()
        is_kept = not each.operands.split(",")[0].endswith("!")
        # The 16-bit ldmia shows no "!" where its base is among what it loads.
    is_load = name.startswith(("pop", "ldm"))
    is_down = name.startswith("push") or (name.endswith(("db", "fd")) and not is_load)
    if (is_load and name.endswith(("db", "ea"))) or (not is_load and name.endswith("fd") and not is_down):
        raise NotUnderstood(f"'{each.mnemonic} {each.operands}'")
    count = 4 * len(listed)
    access = Access(base, 0, (), len(listed))
    moved = None if is_kept else (base, -count if is_down else count)
    if is_load and "pc" in listed:
        rest = tuple(r for r in listed if r != "pc")
        if base != "sp":
            return ThumbStep(each.address, each.bytes, name, goes="computed")
        reads = (FLAGS,) if may else ()
        return ThumbStep(
            each.address,
            each.bytes,
            name,
            rest,
            reads,
            "return",
            may=may,
            load=access,
            moved=moved,
            moves_first=is_down,
        )
    if is_load:
        return ThumbStep(each.address, each.bytes, name, listed, may=may, load=access, moved=moved, moves_first=is_down)
    return ThumbStep(
        each.address, each.bytes, name, may=may, store=access, sources=listed, moved=moved, moves_first=is_down
    )


def _single(each: Instruction, name: str, may: bool) -> ThumbStep:
    at = _ADDRESS.search(each.operands)
    if at is None:
        raise NotUnderstood(f"'{each.mnemonic} {each.operands}'")
    registers = _registers(each.operands[: at.start()])
    words = {"ldr": 1, "str": 1, "ldrd": 2, "strd": 2}.get(name, 0)
    index = tuple(_registers(at[2] or ""))
    offset = _number(at[2]) if not index else 0 if "," not in at[2] else None  # a shift is not followed
    if (not index and offset is None) or (at[4] and _number(at[4]) is None):
        raise NotUnderstood(f"'{each.mnemonic} {each.operands}'")
    moved = None
    if at[3] or at[4]:
        moved = at[1], offset if at[3] else _number(at[4])
        offset = 0
    access = Access(at[1], offset, index, words)
    is_first = bool(at[3])
    if name.startswith("str"):
        return ThumbStep(
            each.address, each.bytes, name, may=may, store=access, sources=registers, moved=moved, moves_first=is_first
        )
    if "pc" in registers:
        if (at[1], at[4]) != ("sp", "#4"):
            return ThumbStep(each.address, each.bytes, name, goes="computed")
        return ThumbStep(each.address, each.bytes, name, (), (FLAGS,) if may else (), "return", may=may, moved=moved)
    return ThumbStep(each.address, each.bytes, name, registers, may=may, load=access, moved=moved, moves_first=is_first)


def _computation(each: Instruction, name: str, may: bool) -> ThumbStep:
    registers = _registers(each.operands)
    reads_flags = (FLAGS,) if name in _READS_FLAGS or "rrx" in each.operands else ()
    if name in _COMPARES:
        # In an IT block it compares only sometimes: the flags before count, too.
        return ThumbStep(each.address, each.bytes, name, (FLAGS,), (*registers, *reads_flags), may=may)
    if not registers:
        raise NotUnderstood(f"'{each.mnemonic} {each.operands}'")
    count = 2 if name in _TWO_RESULTS or name.startswith("smlal") else 1
    is_setting = name.endswith("s") and name[:-1] in _SETS_FLAGS
    # Results are read, too: some accumulate, two operands name the first of the sources; too much is never wrong.
    is_pure = name in _PURE or (
        len(registers) > count and not name.startswith(("sml", "uml", "uma", "bfi", "movt"))
        and len(each.operands.split(",")) > 2
    )  # fmt: skip
    reads = registers[count:] if is_pure else registers
    constant = _number(each.operands.split(",")[-1]) if name != "mov" or "," in each.operands else None
    writes = (*registers[:count], *((FLAGS,) if is_setting else ()))
    return ThumbStep(each.address, each.bytes, name, writes, (*reads, *reads_flags), may=may, constant=constant)
