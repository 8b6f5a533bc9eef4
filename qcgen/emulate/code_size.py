"""How much code the files of a model become, where a compiler for the target is installed."""

from __future__ import annotations

from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.cores import TARGETS
from qcgen.emulate.image import compile_command
from qcgen.emulate.tools import missing_tools, succeed, temporary_folder

LEVELS = ("-Os", "-O2")
"""The levels of optimization that are measured."""


def code_bytes(artifact: Artifact) -> dict[str, int] | None:
    """Bytes of code of NAME.c by level, tables left out; None if no compiler for the target is there.

    What it calls of the C library and the compiler's is not counted. ToolMissing if the compiler fails.
    """
    target = TARGETS[artifact.plan.options.target]
    if how_to_measure(artifact) is not None:
        return None
    constants = artifact.report.constants_bytes
    found = {}
    with temporary_folder() as folder:
        artifact.write(folder)
        for level in LEVELS:
            succeed([*compile_command(target, (level,), "gcc"), f"{artifact.plan.prefix}.c", "-o", "_.o"], Path(folder))
            sizes = succeed([f"{target.tools}size", "_.o"], Path(folder)).splitlines()[1].split()
            found[level] = int(sizes[0]) + int(sizes[1]) - constants
    return found


def how_to_measure(artifact: Artifact) -> str | None:
    """What the user has to do to have code measured; None if nothing."""
    target = TARGETS[artifact.plan.options.target]
    if target.machine is None:
        return "it depends on the core; --target names one"
    missing = [tool for tool in missing_tools(target) if tool != target.machine.emulator]
    packages = [target.machine.packages[tool] for tool in missing]
    return f"apt-get install {' '.join(packages)} (Debian) has it measured" if packages else None
