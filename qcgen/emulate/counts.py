"""Exact counts of the instructions that a model executes on an emulated core, node by node, with estimated cycles."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.build import host_compiler
from qcgen.cores import TARGETS, Board, CycleTable, Target
from qcgen.cross import lasting_folder, machine_of, qemu_major, require_tools, succeed, temporary_folder
from qcgen.emulate.image import EmulatedOutcome, Image, Trial, cross_build, emulate
from qcgen.emulate.listing import OUTSIDE, SHARED, Instruction, Listing, listing
from qcgen.errors import EmulationFailed, naming
from qcgen.ir.program import macs_of
from qcgen.ir.types import Array
from qcgen.library import templates
from qcgen.options import spelt
from qcgen.progress import report_progress

# Estimated cycles: instructions sorted into classes, and a table of cycles per class for each core. An estimate for
# memory without wait states: of RISC-V cores held against their RTL (``make bench-rtl``), of Arm's from their manuals
# where they tell, not checked on hardware. What a board's flash adds is modelled by the emulator's plugin.

CYCLES = {name: target.cycles for name, target in TARGETS.items() if target.machine}
"""The table of each emulated target."""

_CONDITION = "(eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al|hs|lo)?"

_CLASSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(f"({pattern}){_CONDITION}(\\.[a-z0-9.]+)?"))
    for name, pattern in (
        ("transfer", "ldm(ia|db|fd|ea)?|stm(ia|db|fd|ea)?|push|pop|ldrd|strd|vldm(ia|db)?|vstm(ia|db)?|vpush|vpop"),
        ("load", "ldr(b|h|sb|sh|t|bt|ht|ex)?|vldr|lw|lh|lhu|lb|lbu|flw"),
        ("store", "str(b|h|t|bt|ht|ex)?|vstr|sw|sh|sb|fsw"),
        ("long_accumulate", "smlal|umlal|umaal"),
        ("long_multiply", "smull|umull|mulh|mulhu|mulhsu"),
        ("accumulate", "mla|mls"),
        ("multiply", "mul|muls"),
        ("divide", "sdiv|udiv|div|divu|rem|remu"),
        ("root", "vdiv|vsqrt"),
    )
)
"""Tried in this order; what fits none is plain. SMLAD and its like are plain on every core that has them."""

_VECTOR_REGISTER = re.compile(r"\bq[0-7]\b")
_REGISTER_NUMBERS = {"sb": 9, "sl": 10, "fp": 11, "ip": 12, "sp": 13, "lr": 14, "pc": 15}


def _class_of(instruction: Instruction) -> str:
    """The class of an instruction, a field of CycleTable or "transfer".

    >>> _class_of(Instruction(0, 4, "ldrd", "r0, r1, [r2]", "f", ".text"))
    'transfer'
    >>> _class_of(Instruction(0, 2, "ldrsb.w", "r0, [r2]", "f", ".text"))
    'load'
    """
    if instruction.mnemonic.startswith("v") and _VECTOR_REGISTER.search(instruction.operands):
        return "vector"
    for name, pattern in _CLASSES:
        if pattern.fullmatch(instruction.mnemonic):
            return name
    return "plain"


def block_cycles(table: CycleTable, block: Sequence[Instruction]) -> list[int]:
    """The cycles of each instruction of a straight run of instructions, without what jumps add."""
    kinds = [_class_of(instruction) for instruction in block]
    cycles = []
    for i, (instruction, kind) in enumerate(zip(block, kinds, strict=True)):
        before = kinds[i - 1] if i else ""
        waits = i > 0 and kind in _MEMORY and not _results(block[i - 1], before).isdisjoint(_address(instruction))
        if kind == "transfer":
            cost = table.transfer_start + table.transfer_each * _registers(instruction)
        elif kind == "load" and before == "load" and not waits:
            moves = bool(_UPDATES.search(instruction.operands))
            cost = table.load_update if table.load_update and moves else table.load_in_row
        elif kind == "store" and before != "load" and _INDEXED.search(instruction.operands):
            cost = table.store if table.store_indexed is None else table.store_indexed
        else:
            cost = int(getattr(table, kind))
        cost += table.late_address if waits and before not in _MEMORY else 0
        cycles.append(cost + (_late_cycles(table, block[i - 1], instruction) if i else 0))
    return cycles


def _late_cycles(table: CycleTable, before: Instruction | None, instruction: Instruction) -> int:
    """What an instruction waits for the result of the one just before it; an address is counted by itself."""
    if before is None:
        return 0
    if table.late_result:
        return (
            table.late_result if _is_late(before) and _results(before, _class_of(before)) & _taken(instruction) else 0
        )
    if not (table.late_load or table.late_store) or _class_of(before) != "load":
        return 0
    loaded = before.operands.split(",")[0]
    stored, _, others = instruction.operands.partition(",")
    if _class_of(instruction) != "store":
        is_source = instruction.mnemonic.startswith("b") or instruction.mnemonic in ("jr", "jalr")
        return table.late_load if loaded in _words(instruction.operands if is_source else others) else 0
    return table.late_load if loaded in _words(others) else table.late_store if loaded == stored else 0


def entry_cycles(table: CycleTable, target: Instruction) -> int:
    """What is added to a jump because of where it leads."""
    return table.unaligned if target.bytes == 4 and target.address % 4 else 0


def jump_cycles(table: CycleTable, last: Instruction, jumps: int, repeats: int) -> int:
    """What is added for all jumps from behind an instruction, of which ``repeats`` were the last jump back before."""
    if (table.taken is None and table.repeated is None) or not last.mnemonic.startswith("b"):
        return jumps * table.jump
    taken = table.jump if table.taken is None else table.taken
    return (jumps - repeats) * taken + repeats * (taken if table.repeated is None else table.repeated)


def _words(operands: str) -> list[str]:
    return re.findall(r"\w+", operands)


_MEMORY = ("load", "store", "transfer")
_REGISTER = re.compile(r"\b(r\d+|s[blp]|fp|ip|lr)\b")
_WITHOUT_RESULT = re.compile(r"cmp|cmn|tst|teq|cbn?z|it|nop|b(l|x|lx)?")


_INDEXED = re.compile(r"\[\w+, [^#]")
_UPDATES = re.compile(r"\](!|, )")
_LATE = re.compile(
    "muls?|ml[as]|[su]ml.*|sm[mu].*|umull|umaal|[su]div|u?q.*|[su]h?(add|sub|asx|sax)(8|16)?|[su]bfx|[su]sat(16)?"
    "|usada?8|uxta.*"
)
_SHIFTED = re.compile(r", (lsl|lsr|asr|ror) #\d+$")
_MOVES = re.compile("mov|mvn|neg|rev|clz|[su]xt")
_ACCUMULATES = re.compile("[su]mlal.*|umaal|bfi|movt")


def _is_late(instruction: Instruction) -> bool:
    """Whether other instructions of Arm that compute have their result a cycle earlier."""
    if _LATE.fullmatch(instruction.mnemonic.partition(".")[0]):
        return True
    return _class_of(instruction) == "plain" and bool(_SHIFTED.search(instruction.operands))


def _taken(instruction: Instruction) -> set[str]:
    """The registers that an Arm instruction computes with or stores."""
    kind, operands = _class_of(instruction), instruction.operands.split(",")
    if kind in ("load", "transfer", "vector"):
        return set()
    if kind == "store":
        return set(_REGISTER.findall(operands[0]))
    mnemonic = instruction.mnemonic.partition(".")[0]
    takes_all = not _results(instruction, kind) or (len(operands) < 3 and not _MOVES.match(mnemonic))
    if not takes_all and not _ACCUMULATES.fullmatch(mnemonic):
        del operands[0]
    return set(_REGISTER.findall(",".join(operands)))


def _address(instruction: Instruction) -> set[str]:
    """The registers that an Arm instruction's address is made of."""
    if instruction.mnemonic.startswith(("push", "pop")):
        return {"sp"}
    inside = re.search(r"\[(.*?)\]", instruction.operands)
    return set(_REGISTER.findall(inside[1] if inside else instruction.operands.split(",")[0]))


def _results(instruction: Instruction, kind: str) -> set[str]:
    """The registers that a single load or an instruction on data writes, the address of a load left out."""
    if kind in ("store", "transfer") or _WITHOUT_RESULT.fullmatch(instruction.mnemonic.partition(".")[0]):
        return set()
    written = instruction.operands.split(",")[: 2 if kind.startswith("long") else 1]
    return set(_REGISTER.findall(",".join(written)))


def _registers(instruction: Instruction) -> int:
    """How many registers a transfer moves.

    >>> _registers(Instruction(0, 4, "ldmia.w", "r0!, {r1, r4-r6, sl, lr}", "f", ".text"))
    6
    >>> _registers(Instruction(0, 4, "ldrd", "r0, r1, [r2]", "f", ".text"))
    2
    """
    listed = re.search(r"\{(.*)\}", instruction.operands)
    if not listed:
        return 2
    count = 0
    for item in listed[1].split(","):
        ends = [_number(name.strip()) for name in item.split("-")]
        count += ends[-1] - ends[0] + 1
    return count


def _number(register: str) -> int:
    return _REGISTER_NUMBERS.get(register) or int(register.lstrip("rsd"))


# The QEMU plugin that counts: built from its source, once in a process.

SOURCE = "count_blocks.c"


@cache
def plugin(emulator: str) -> Path:
    """The plugin for this emulator, in a folder that is removed when the process ends.

    ToolMissing without a C compiler for the host.
    """
    interface = 2 if qemu_major(emulator) >= 9 else 1
    command = [*host_compiler(), "-O2", "-shared", "-fPIC", f"-DQEMU_PLUGIN_VERSION={interface}"]
    command += ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    # Nothing is kept from run to run: building takes less than half a second, and what lies there need not be trusted.
    folder = lasting_folder()
    built = folder / "count_blocks.so"
    succeed([*command, str(templates() / "emulate" / SOURCE), "-o", built.name], folder)
    return built


BEGIN, END = "_measure_begin", "_measure_end"


@dataclass(frozen=True)
class Block:
    """A straight run of instructions from the address ``first`` on, run ``runs`` times for ``owner``.

    After ``jumps`` of the runs the core did not go on behind it; after ``repeats`` of those it went back from where the
    last jump back did. To ``entries`` of the runs a jump led.
    """

    first: int
    instructions: int
    owner: int
    runs: int
    jumps: int
    repeats: int
    entries: int


@dataclass(frozen=True)
class Cost:
    """Executed ``instructions``, estimated ``cycles`` without wait states, and ``code_bytes`` in flash.

    ``waits``: by the name of a board how many cycles it waits for flash besides.
    """

    instructions: int
    cycles: int
    code_bytes: int
    waits: Mapping[str, int] = field(kw_only=True, default_factory=dict)


@dataclass(frozen=True)
class NodeCost(Cost):
    """One node: library code that it calls is counted in ``instructions`` and ``cycles``, not in ``code_bytes``."""

    name: str
    op: str
    kernel: str
    macs: int
    constant_bytes: int
    scratch_bytes: int

    @property
    def flash_bytes(self) -> int:
        """The node's own code and constants."""
        return self.code_bytes + self.constant_bytes


@dataclass(frozen=True, repr=False)
class Measurement:
    """One call of a model on a core, built with ``command``, with ``outcome``; cycles are estimated by ``table``.

    ``outside``: the call itself and NAME_run between its nodes. ``library_bytes``: code that several nodes or the C
    library share. ``flash_bytes``: all code and constants that the model brings into an image.
    """

    target: str
    table: CycleTable
    command: tuple[str, ...]
    nodes: tuple[NodeCost, ...]
    outside: Cost
    library_bytes: int
    flash_bytes: int
    arena_bytes: int
    outcome: EmulatedOutcome

    def __repr__(self) -> str:
        what = f"{self.instructions} instructions, about {self.cycles} cycles, {self.flash_bytes} B of flash"
        return f"<qcgen.Measurement on {self.target}: {what}>"

    @cached_property
    def instructions(self) -> int:
        """From the call of NAME_run to its return."""
        return self.outside.instructions + sum(node.instructions for node in self.nodes)

    @cached_property
    def cycles(self) -> int:
        """The estimate for all instructions, without wait states."""
        return self.outside.cycles + sum(node.cycles for node in self.nodes)

    @property
    def boards(self) -> tuple[str, ...]:
        """The boards that were modelled."""
        return tuple(self.outside.waits)

    def cycles_on(self, board: str) -> int:
        """The estimate for a board that was modelled, waits for flash included."""
        return self.cycles + sum(cost.waits[board] for cost in (self.outside, *self.nodes))

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of all nodes."""
        return sum(node.macs for node in self.nodes)


COUNTED_FLAGS = {"gcc": ("-g", "-fno-ipa-icf"), "clang": ("-g",)}
"""Flags by the compiler's name, for code whose instructions are counted by function: debugging information has those
that were inlined, and gcc would make one of two functions that are alike."""


def measure(
    artifact: Artifact,
    feeds: Mapping[str, Array],
    *,
    flags: Sequence[str] = ("-O3",),
    compiler: str = "gcc",
    timeout: float | None = None,
    boards: Sequence[Board] = (),
    core: str | None = None,
    table: CycleTable | None = None,
) -> Measurement:
    """Builds a model for its target and counts one call with ``feeds``, in the shapes of the C function.

    The waits for flash are modelled for each of ``boards``, from empty caches on. ``core`` names the target that builds
    and runs it where that is not its own: portable C on some core. ``table`` is that of the core whose cycles are
    estimated where it is not the target's own.

    Raises ToolMissing, and EmulationFailed if the code faults or does not end.
    """
    name = core or artifact.plan.options.target
    cycles = table or CYCLES[name]
    require_tools(TARGETS[name], compiler, counting=True)
    with temporary_folder() as folder:
        report_progress(f"building for {name}")
        image = cross_build(name, [artifact], (*flags, *COUNTED_FLAGS[compiler]), Path(folder), compiler)
        listed = listing(image, artifact.plan)
        report_progress(f"running on an emulated {name}")
        [outcome] = emulate(image, [Trial(feeds)], plugin=counting(image, listed, cycles, boards), timeout=timeout)
        if outcome.status:
            what = "the function returns 1, as Orion panics on these inputs"
            raise EmulationFailed(f"{what}: count others with {spelt('seed')}")
        text = (image.folder / "counts.txt").read_text(encoding="utf-8")
        return _measurement(artifact, image, listed, cycles, read_blocks(text), _read_waits(text, boards), outcome)


def counting(image: Image, listed: Listing, table: CycleTable, boards: Sequence[Board]) -> list[str]:
    """The emulator's arguments that load the plugin."""
    code = list(listed.instructions.values())
    lines = [
        f"{each.address:x} {each.bytes} {listed.owners[each.address]} {cycles}\n"
        for each, cycles in zip(code, block_cycles(table, code), strict=True)
    ]
    rows = [f"{_board_row(image.target, board, table.jump)}\n" for board in boards]
    for name, text in (("code.txt", lines), ("flash.txt", rows)):
        with naming(image.folder / name):
            (image.folder / name).write_text("".join(text), encoding="utf-8")
    library = plugin(machine_of(image.target).emulator)
    options = {
        "begin": f"{listed.symbols[BEGIN].address:x}",
        "end": f"{listed.symbols[END].address:x}",
        "code": "code.txt",
        "out": "counts.txt",
        "flash": "flash.txt",
    }
    return [
        "-plugin",
        ",".join([str(library).replace(",", ",,"), *(f"{key}={value}" for key, value in options.items())]),
    ]


def _board_row(target: Target, board: Board, jump: int) -> str:
    """A board as the plugin reads it: the emulated machine's ROM is its flash."""
    rom = machine_of(target).rom
    numbers = [board.wait_states, board.word_bytes, board.line_bytes, int(board.has_prefetch), int(board.is_unified)]
    numbers += [board.code.bytes, board.code.ways, board.data.bytes, board.data.ways, jump]
    return " ".join([f"{rom.begin:x} {rom.begin + rom.bytes:x}", *(str(number) for number in numbers)])


def read_blocks(text: str) -> list[Block]:
    """What the plugin wrote."""
    blocks = []
    for line in text.splitlines():
        first, *numbers = line.split()
        if first != "waits":
            blocks.append(Block(int(first, 16), *(int(number) for number in numbers)))
    return blocks


def _read_waits(text: str, boards: Sequence[Board]) -> dict[int, dict[str, int]]:
    """For each owner the waits by board."""
    waits: dict[int, dict[str, int]] = {}
    for line in text.splitlines():
        if line.startswith("waits "):
            index, owner, cycles = (int(number) for number in line.split()[1:])
            waits.setdefault(owner, {})[boards[index].name] = cycles
    return waits


def _measurement(
    artifact: Artifact,
    image: Image,
    listed: Listing,
    table: CycleTable,
    blocks: Sequence[Block],
    waits: Mapping[int, Mapping[str, int]],
    outcome: EmulatedOutcome,
) -> Measurement:
    plan = artifact.plan
    instructions, cycles = [0] * (len(plan.calls) + 1), [0] * (len(plan.calls) + 1)
    for block in blocks:
        for owner, (executed, taken) in _shares(table, listed, block).items():
            instructions[owner] += executed
            cycles[owner] += taken
    nodes = tuple(
        NodeCost(
            instructions=instructions[index],
            cycles=cycles[index],
            code_bytes=listed.code_bytes(index),
            name=call.op.name,
            op=call.op.op_type,
            kernel=call.kernel,
            macs=macs_of(call.op),
            constant_bytes=listed.constant_bytes(call.symbol),
            scratch_bytes=call.scratch_bytes,
            waits=waits.get(index, {}),
        )
        for index, call in enumerate(plan.calls, start=1)
    )
    return Measurement(
        target=image.target.name,
        table=table,
        command=image.command,
        nodes=nodes,
        outside=Cost(instructions[OUTSIDE], cycles[OUTSIDE], listed.code_bytes(OUTSIDE), waits=waits.get(OUTSIDE, {})),
        library_bytes=listed.code_bytes(SHARED),
        flash_bytes=listed.flash_bytes,
        arena_bytes=plan.arena_bytes,
        outcome=outcome,
    )


def _shares(table: CycleTable, listed: Listing, block: Block) -> dict[int, tuple[int, int]]:
    """Instructions and cycles of a block by owner; code that is shared counts for whom it ran."""
    run = run_of(listed, block)
    owners = [listed.owners[each.address] for each in run]
    charged = [block.owner if owner == SHARED else owner for owner in owners]
    shares: dict[int, tuple[int, int]] = {}
    for owner, cost in zip(charged, block_cycles(table, run), strict=True):
        executed, taken = shares.get(owner, (0, 0))
        shares[owner] = (executed + block.runs, taken + block.runs * cost)
    passed = block.runs - block.entries  # runs behind the instruction before
    entered = block.entries * entry_cycles(table, run[0]) + passed * _late_cycles(table, listed.before(run[0]), run[0])
    left = jump_cycles(table, run[-1], block.jumps, block.repeats)
    for owner, cost in ((charged[0], entered), (charged[-1], left)):
        shares[owner] = (shares[owner][0], shares[owner][1] + cost)
    return shares


def run_of(listed: Listing, block: Block) -> list[Instruction]:
    """A block's instructions."""
    found, address = [], block.first
    for _ in range(block.instructions):
        found.append(listed.instructions[address])
        address += found[-1].bytes
    return found
