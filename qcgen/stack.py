"""The stack that functions of a linked image need at most, from their instructions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_LABEL = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_LINE = re.compile(r"^\s*[0-9a-f]+:\t(\S+)(?:\t(.*))?$")
_TARGET = re.compile(r"<([^>+]+)(?:\+0x[0-9a-f]+)?>")
_PUSHED = re.compile(r"^(?:push|stmdb|stmfd|vpush|vstmdb)\S*\s+(?:sp!, )?\{(.+)\}$")
_LOWERED = re.compile(r"^(?:sub\S*\s+sp, (?:sp, )?#|addi?\s+sp,sp,-|strd?\S*\s+.*\[sp, #-)(0x[0-9a-f]+|\d+)")
_BY_REGISTER = re.compile(r"^(?:add|sub)\S*\s+sp,\s?(?:sp,\s?)?(?!sp,)[a-z]")
_INDIRECT_CALL = re.compile(r"^(?:blx|jalr)\s")
_BRANCH = re.compile(r"^(?:b|bl|blx|j|jal|jalr|cb|tail|call)[a-z.]*$")

# Of libraries for RISC-V that are built with -msave-restore: the first lower the stack pointer for their caller, by 16
# words at most, the others raise it.
_SAVE, _SAVED_BYTES, _RESTORE = "__riscv_save_", 64, "__riscv_restore_"


class NoBound(Exception):
    """What is asked for has no bound that the instructions show; the text says why."""


@dataclass
class _FunctionFrame:
    """``own``: all bytes by which instructions lower the stack pointer, as if each ran; those of assembly, too.

    ``calls``: functions that it calls or jumps into. ``obstacle``: why that is not all; "" if it is.
    """

    own: int = 0
    calls: set[str] = field(default_factory=set)
    obstacle: str = ""


def stack_bytes(listing: str, roots: Iterable[str]) -> int:
    """The most bytes of stack below the call of any of ``roots``, in a listing that objdump -d makes of an image.

    Each function counts with everything that it pushes anywhere, and calls with all that they lead to, those of
    libraries too. That is never too little where each push of a path runs once before its pop, as compilers and the
    assembly of the templates have it. Raises NoBound where functions call themselves, are called by an address that
    is computed, or lower the stack pointer by a register.
    """
    functions = _functions(listing)
    return max(_deepest(functions, root, ()) for root in roots)


def _deepest(functions: Mapping[str, _FunctionFrame], name: str, path: tuple[str, ...]) -> int:
    if name in path:
        raise NoBound(f"{name} calls itself")
    function = functions.get(name)
    if function is None:
        raise NoBound(f"{name} is not in the image")
    if function.obstacle:
        raise NoBound(f"{name} has {function.obstacle}")
    return function.own + max((_deepest(functions, each, (*path, name)) for each in function.calls), default=0)


def _functions(listing: str) -> dict[str, _FunctionFrame]:
    found: dict[str, _FunctionFrame] = {}
    name = ""
    for line in listing.splitlines():
        if label := _LABEL.match(line):
            name = label[1]
            found[name] = _FunctionFrame()
        elif name and (parts := _LINE.match(line)):
            _add(found[name], name, parts[1], parts[2] or "")
    return found


def _add(function: _FunctionFrame, name: str, mnemonic: str, operands: str) -> None:
    """What an instruction adds to its function."""
    text = f"{mnemonic} {operands.split('@')[0].strip()}"
    target = _TARGET.search(operands)
    if pushed := _PUSHED.match(text):
        function.own += _bytes(pushed[1])
    elif lowered := _LOWERED.match(text):
        function.own += int(lowered[1], 0)
    elif _BY_REGISTER.match(text):
        function.obstacle = f"'{text}'"
    elif _BRANCH.match(mnemonic) and target is not None:
        if target[1].startswith(_SAVE):
            function.own += _SAVED_BYTES
        elif target[1] != name and not target[1].startswith(_RESTORE):
            function.calls.add(target[1])
    elif _INDIRECT_CALL.match(text):
        function.obstacle = f"'{text}'"


def _bytes(registers: str) -> int:
    """The size of a list of registers: "r4, r5, lr", "d8-d15"."""
    total = 0
    for each in registers.split(","):
        first, _, last = each.strip().partition("-")
        count = int(last[1:]) - int(first[1:]) + 1 if last else 1
        total += count * (8 if first.startswith("d") else 4)
    return total
