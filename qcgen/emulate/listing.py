"""An image's instructions: disassembled, each with the functions that it was inlined into and with its owner."""

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
