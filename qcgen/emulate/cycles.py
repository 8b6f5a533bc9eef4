"""Estimated cycles: instructions sorted into classes, and a table of cycles per class for each core.

An estimate for memory without wait states: of RISC-V cores held against their RTL (``make bench-rtl``), of Arm's from
their manuals where they tell, not checked on hardware.
What a board's flash adds is modelled by the emulator's plugin.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from qcgen.cores import TARGETS, CycleTable
from qcgen.emulate.listing import Instruction

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


def class_of(instruction: Instruction) -> str:
    """The class of an instruction, a field of CycleTable or "transfer".

    >>> class_of(Instruction(0, 4, "ldrd", "r0, r1, [r2]", "f", ".text"))
    'transfer'
    >>> class_of(Instruction(0, 2, "ldrsb.w", "r0, [r2]", "f", ".text"))
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
    kinds = [class_of(instruction) for instruction in block]
    cycles = []
    for i, (instruction, kind) in enumerate(zip(block, kinds, strict=True)):
        before = kinds[i - 1] if i else ""
        waits = i > 0 and kind in _MEMORY and not _results(block[i - 1], before).isdisjoint(_address(instruction))
        if kind == "transfer":
            cost = table.transfer_start + table.transfer_each * registers(instruction)
        elif kind == "load" and before == "load" and not waits:
            moves = bool(_UPDATES.search(instruction.operands))
            cost = table.load_update if table.load_update and moves else table.load_in_row
        elif kind == "store" and before != "load" and _INDEXED.search(instruction.operands):
            cost = table.store if table.store_indexed is None else table.store_indexed
        else:
            cost = int(getattr(table, kind))
        cost += table.late_address if waits and before not in _MEMORY else 0
        cycles.append(cost + (late_cycles(table, block[i - 1], instruction) if i else 0))
    return cycles


def late_cycles(table: CycleTable, before: Instruction | None, instruction: Instruction) -> int:
    """What an instruction waits for the result of the one just before it; an address is counted by itself."""
    if before is None:
        return 0
    if table.late_result:
        return table.late_result if _is_late(before) and _results(before, class_of(before)) & _taken(instruction) else 0
    if not (table.late_load or table.late_store) or class_of(before) != "load":
        return 0
    loaded = before.operands.split(",")[0]
    stored, _, others = instruction.operands.partition(",")
    if class_of(instruction) != "store":
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
    return class_of(instruction) == "plain" and bool(_SHIFTED.search(instruction.operands))


def _taken(instruction: Instruction) -> set[str]:
    """The registers that an Arm instruction computes with or stores."""
    kind, operands = class_of(instruction), instruction.operands.split(",")
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


def registers(instruction: Instruction) -> int:
    """How many registers a transfer moves.

    >>> registers(Instruction(0, 4, "ldmia.w", "r0!, {r1, r4-r6, sl, lr}", "f", ".text"))
    6
    >>> registers(Instruction(0, 4, "ldrd", "r0, r1, [r2]", "f", ".text"))
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
