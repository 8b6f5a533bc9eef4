"""The programs that emulation needs: found or named with the package that brings them, and started."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from qcgen.cores import Machine, Target
from qcgen.errors import EmulationFailed, ToolMissing

COMPILERS = ("gcc", "clang")
"""Which compiler builds the generated code; gcc always links."""

_QEMU_VERSION = re.compile(r"version (\d+)")


def machine_of(target: Target) -> Machine:
    """The target's machine; ValueError if it has none."""
    if target.machine is None:
        raise ValueError(f"{target.name} is no target that an emulated core runs")
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
