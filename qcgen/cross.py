"""Compilers and emulators for other cores: found or named with their packages, started; their code and its stack."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from qcgen.build import STRICT_FLAGS
from qcgen.cores import TARGETS, Machine, Target
from qcgen.errors import EmulationFailed, ToolMissing
from qcgen.ir.plan import Plan
from qcgen.options import CompilerName, spelt
from qcgen.report import Measured
from qcgen.write import write_files

COMPILERS = get_args(CompilerName)
"""Which compiler builds the generated code; gcc always links."""

LEVELS = ("-Os", "-O2")
"""The levels of optimization at which code is measured."""

_QEMU_VERSION = re.compile(r"version (\d+)")


def machine_of(target: Target) -> Machine:
    """The target's machine; ValueError if it has none."""
    if target.machine is None:
        raise ValueError(f"{target.name} is not a target that an emulated core runs")
    return target.machine


def missing_tools(target: Target, compiler: str = "gcc", counting: bool = False) -> tuple[str, ...]:
    """What is not installed of the tools that building, running and, if wanted, counting need."""
    machine = machine_of(target)
    wanted = [target.compiler, machine.emulator]
    wanted += ["clang"] if compiler == "clang" else []
    wanted += [f"{target.tools}objdump", f"{target.tools}addr2line"] if counting else []
    missing = [tool for tool in wanted if shutil.which(tool) is None]
    if target.compiler not in missing and not _has_library(target, machine):
        missing.append(machine.library)
    return tuple(missing)


def require_tools(target: Target, compiler: str = "gcc", counting: bool = False) -> None:
    """Raises ToolMissing with every tool that is missing and its package."""
    missing = missing_tools(target, compiler, counting)
    if missing:
        machine = machine_of(target)
        packages = [machine.packages[tool] for tool in missing]
        named = ", ".join(missing)
        install = " ".join(dict.fromkeys(packages))
        raise ToolMissing(f"{target.name} needs tools that were not found: {named} (Debian: apt-get install {install})")


def _has_library(target: Target, machine: Machine) -> bool:
    """Whether the compiler finds the C library: it answers with a path, or else with the bare name."""
    found = run([target.compiler, f"-print-file-name={machine.library}"], Path(), timeout=20).stdout.strip()
    return found != machine.library


def qemu_major(emulator: str) -> int:
    """The emulator's major version; 0 if it does not tell."""
    found = _QEMU_VERSION.search(run([emulator, "--version"], Path(), timeout=20).stdout)
    return int(found[1]) if found else 0


def run(
    command: Sequence[str], folder: Path, *, timeout: float, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """A program's outcome, ``text`` on its standard input; EmulationFailed if it runs longer than ``timeout`` s."""
    try:
        return subprocess.run(
            list(command),
            cwd=folder,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EmulationFailed(f"{command[0]} was stopped: it had not come to its end after {timeout:.0f} s") from None
    except OSError as error:
        raise ToolMissing(f"{command[0]} cannot be run: {error.strerror}") from None


def succeed(command: Sequence[str], folder: Path, *, timeout: float = 600, text: str | None = None) -> str:
    """What a tool prints; ToolMissing with its messages if it fails."""
    result = run(command, folder, timeout=timeout, text=text)
    if result.returncode:
        raise ToolMissing(f"{command[0]} failed:\n{result.stderr.strip()}")
    return result.stdout


def temporary_folder() -> AbstractContextManager[str]:
    """A folder that is removed at the end."""
    return tempfile.TemporaryDirectory(prefix="qcgen-")


def lasting_folder() -> Path:
    """A folder that is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="qcgen-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def compile_command(target: Target, flags: Sequence[str], compiler: str) -> tuple[str, ...]:
    """The command to which the names of generated files are added."""
    start = ("clang", *target.clang) if compiler == "clang" else (target.compiler, *target.flags)
    return (*start, *STRICT_FLAGS, *flags, "-c")


def compiled_bytes(plan: Plan, files: Mapping[str, str]) -> int | None:
    """Bytes of code that NAME.c becomes at -O2, in half the time of ``measured``; None and ToolMissing as there."""
    if how_to_measure(plan) is not None:
        return None
    with temporary_folder() as name:
        folder = Path(name)
        write_files(folder, files)
        return _compile(plan, "-O2", folder)


def measured(plan: Plan, files: Mapping[str, str]) -> Measured | None:
    """What NAME.c becomes by level; None if no compiler for the target is there; ToolMissing if it fails.

    Code of the C library and the compiler's is not counted in bytes of code, but in those of the stack.
    """
    target = TARGETS[plan.options.target]
    if how_to_measure(plan) is not None:
        return None
    code, stack = {}, {}
    with temporary_folder() as name:
        folder = Path(name)
        write_files(folder, files)
        for level in LEVELS:
            code[level] = _compile(plan, level, folder)
            stack[level] = _stack(target, plan, folder)
        functions = _function_bytes(target, folder)  # of the last level, -O2
        version = succeed([target.compiler, "-dumpfullversion"], folder).strip()
    return Measured(code, stack, " ".join((target.compiler, version, *target.flags)), functions)


def _compile(plan: Plan, level: str, folder: Path) -> int:
    """Makes _.o of NAME.c; the bytes of its code."""
    target = TARGETS[plan.options.target]
    succeed([*compile_command(target, (level,), "gcc"), f"{plan.prefix}.c", "-o", "_.o"], folder)
    sizes = succeed([f"{target.tools}size", "_.o"], folder).splitlines()[1].split()
    return int(sizes[0]) + int(sizes[1]) - plan.constant_bytes


def _function_bytes(target: Target, folder: Path) -> dict[str, int]:
    """Bytes of each function of the object file; what compilers make of one, such as a clone, counts for it."""
    found: dict[str, int] = {}
    for line in succeed([f"{target.tools}nm", "-S", "--defined-only", "_.o"], folder).splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tT":
            name = words[3].split(".")[0]
            found[name] = found.get(name, 0) + int(words[1], 16)
    return found


def _stack(target: Target, plan: Plan, folder: Path) -> int | None:
    """The most bytes of stack below the call of any public function; None if the instructions show no bound."""
    link = [target.compiler, *target.flags, "-nostartfiles", "-Wl,-e,0", "_.o", "-lm", "-o", "_.elf"]
    succeed(link, folder)
    listing = succeed([f"{target.tools}objdump", "-d", "--no-show-raw-insn", "_.elf"], folder)
    parts = ("run",) if plan.pushed is None else ("begin", "push_row", "end")
    try:
        return stack_bytes(listing, [f"{plan.prefix}_{part}" for part in parts])
    except NoBound:
        return None


def how_to_measure(plan: Plan) -> str | None:
    """What the user has to do to have code measured; None if nothing."""
    target = TARGETS[plan.options.target]
    if target.machine is None:
        return f"it depends on the core; {spelt('target')} names one"
    missing = [tool for tool in missing_tools(target) if tool != target.machine.emulator]
    packages = [target.machine.packages[tool] for tool in missing]
    return f"apt-get install {' '.join(packages)} (Debian) has it measured" if packages else None


# The stack that functions of a linked image need at most, from their instructions.

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
