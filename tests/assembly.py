"""Statements of inline assembly in C, read far enough to tell which operands share registers where they must not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

STATEMENT = re.compile(r"__asm__\s*(?:volatile)?\s*\(")
STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
OPERAND = re.compile(r'(?:\[(\w+)\]\s*)?"([^"]+)"\s*\((\w*)')
REFERENCE = re.compile(r"%[a-zA-Z]?(?:(\d+)|\[(\w+)\])")
REGISTER = re.compile(r"\b(?:r\d+|lr)\b")
LABEL = re.compile(r"(\d+):")
BACK = re.compile(r"\b(\d+)b$")

WRITES = {
    **dict.fromkeys("b bne beq cmp subs.w str strb strh strd vstrb.8 wlstp.8 letp push".split(), 0),
    **dict.fromkeys("ldrd".split(), 2),
    **dict.fromkeys("ldr ldrb ldrsb ldrh ldrsh lb lbu lh lhu lw vldrb.8 vldrw.u32".split(), 1),
    **dict.fromkeys(
        "add adds adcs sub subs mul muls mla and ands srli srai lsls lsrs asrs mov movs negs uxth sxtb sxth".split(), 1
    ),
    **dict.fromkeys("smlad smuad smmul smmla pkhbt pkhtb sxtb16 uxtb16 sxtab16 uxtab16".split(), 1),
    **dict.fromkeys("veor vmladav.s8 vmladava.s8 vqrshrnb.s32 vqmovnb.s16 vqmovunb.s16".split(), 1),
    "vmov": 2,  # two lanes, from two registers
    "ldmia": 1,  # the list, written behind the address
    "stmia": 1,  # the address, which moves
    "pop": 1,
}
"""How many operands an instruction writes, the first ones; an address that moves is one more."""


@dataclass(frozen=True)
class Operand:
    """An operand of a statement: its number, name, constraint and variable, which may be called like its register."""

    number: int
    name: str
    constraint: str
    variable: str = ""

    @property
    def is_input(self) -> bool:
        return self.constraint[0] not in "=+"

    def may_share(self, other: Operand) -> bool:
        """Whether a register can hold both: "w" are vectors, the registers "l" are none of "h", and "i" is a number."""
        banks = {self.constraint[-1], other.constraint[-1]}
        return "i" not in banks and banks != {"l", "h"} and (banks == {"w"} or "w" not in banks)


@dataclass(frozen=True)
class Statement:
    """A statement: its instructions in the order in which they run, loops twice."""

    instructions: tuple[str, ...]
    operands: tuple[Operand, ...]
    clobbers: frozenset[str]

    @property
    def held(self) -> frozenset[str]:
        """Registers of variables, and those that are kept on the stack at first and restored at last."""
        moves = [re.fullmatch(r"mov (r\d+), (r\d+)", each) for each in self.instructions]
        kept = {match[2] for match in moves[1:5] if match} if self.instructions[0].startswith("push") else set()
        restored = (
            {match[1] for match in moves[-5:-1] if match} if self.instructions[-1].startswith("add sp") else set()
        )
        whole = _listed(self.instructions[0], "push") & _listed(self.instructions[-1], "pop")
        return frozenset({each.variable for each in self.operands} | (kept & restored) | whole)

    @property
    def problems(self) -> Iterator[str]:
        """Operands that are written before an input is read that may be in the same register, and what is not told."""
        for index, instruction in enumerate(self.instructions):
            later = {reference for each in self.instructions[index + 1 :] for reference in REFERENCE.findall(each)}
            waiting = [each for each in self.operands if each.is_input and is_among(each, later)]
            for each in self.operands:
                if is_among(each, written(instruction)) and "&" not in each.constraint:
                    yield from (
                        f"{instruction}: writes {each.constraint} while {other.name or other.number} waits"
                        for other in waiting
                        if each.may_share(other)
                    )
            for register in set(REGISTER.findall(instruction)) - self.clobbers - self.held:
                yield f"{instruction}: {register} is not among the clobbered registers"


def _listed(instruction: str, mnemonic: str) -> set[str]:
    """The registers in the list of an instruction, if it is this one."""
    return set(REGISTER.findall(instruction)) if instruction.startswith(f"{mnemonic} ") else set()


def is_among(operand: Operand, references: set[tuple[str, str]]) -> bool:
    return (str(operand.number), "") in references or (bool(operand.name) and ("", operand.name) in references)


def written(instruction: str) -> set[tuple[str, str]]:
    """The references to operands that an instruction writes."""
    mnemonic, _, text = instruction.partition(" ")
    operands = [each.strip() for each in re.split(r",(?![^\[{]*[\]}])", text)]
    if mnemonic == "ldmia":
        return set(REFERENCE.findall(text))
    found = set(REFERENCE.findall(" ".join(operands[: WRITES[mnemonic]])))
    for operand, behind in zip(operands, [*operands[1:], ""], strict=True):
        if operand.startswith("[") and (operand.endswith("!") or behind):
            found |= set(REFERENCE.findall(operand))
    return found


def statements(code: str) -> Iterator[Statement]:
    """The statements of a preprocessed C file; not the names of registers in declarations."""
    for match in STATEMENT.finditer(code):
        parts = _parts(code[match.end() :])
        if len(parts) > 1:
            yield _statement(*parts, *[""] * (4 - len(parts)))


def _statement(text: str, outputs: str, inputs: str, clobbers: str) -> Statement:
    lines = "".join(STRING.findall(text)).replace("\\t", " ").split("\\n")
    found = [*OPERAND.findall(outputs), *OPERAND.findall(inputs)]
    operands = tuple(Operand(number, *each) for number, each in enumerate(found))
    return Statement(tuple(_run(lines)), operands, frozenset(STRING.findall(clobbers)))


def _run(lines: list[str]) -> Iterator[str]:
    """The instructions in the order in which they run; a branch back is taken once."""
    body: dict[str, list[str]] = {}
    for line in (line.strip() for line in lines):
        if not line or line.startswith("."):
            continue
        if label := LABEL.fullmatch(line):
            body[label[1]] = []
            continue
        for each in body.values():
            each.append(line)
        yield line
        if back := BACK.search(line):
            yield from body[back[1]]


def _parts(text: str) -> list[str]:
    """What stands between the colons of a statement, up to the parenthesis that closes it."""
    parts, depth, is_quoted = [""], 0, False
    for index, c in enumerate(text):
        is_quoted ^= c == '"' and text[index - 1] != "\\"
        depth += 0 if is_quoted else (c == "(") - (c == ")")
        if depth < 0:
            break
        if c == ":" and not is_quoted and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts
