"""Documents that can run, run: commands in README.md and docs/ are executed, and what they print is compared.

In a ``console`` block a line that starts with "$ " is a command, the lines below it are what it prints; if its fence
names a core (``console cortex-m4``), they need the tools for it. Another block whose fence names a file (``c main.c``)
is that file, for the commands below it. The blocks of a document share one folder, in which the repository's ``tests``
and ``docs`` can be reached; it lies at ``~/qcgen``, too. Run as a program, this rewrites what the commands print.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qcgen.cores import TARGETS
from qcgen.emulate import missing_tools

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """A command of a document; ``start`` and ``end`` is where the text that it ``prints`` stands in the document.

    ``core``: the emulated core that it needs.
    """

    line: str
    prints: str
    start: int
    end: int
    core: str | None = None


@dataclass(frozen=True)
class File:
    """A file that a document shows."""

    name: str
    text: str


def documents(*, core: bool = False) -> list[Path]:
    """README.md and everything in docs/ that has a command, with ``core`` one that needs a core."""
    every = [ROOT / "README.md", *sorted(ROOT.joinpath("docs").rglob("*.md"))]
    return [path for path in every if any(_is_command(step, core=core) for step in steps(path.read_text()))]


def _is_command(step: Command | File, *, core: bool) -> bool:
    return isinstance(step, Command) and (not core or step.core is not None)


def steps(text: str) -> Iterator[Command | File]:
    """The commands and files of a document, in order."""
    for fence in FENCE.finditer(text):
        language, name, body = fence.groups()
        if language == "console":
            for found in COMMAND.finditer(body):
                start = fence.start(3) + found.start(2)
                yield Command(found[1], found[2], start, start + len(found[2]), name)
        elif name is not None:
            yield File(name, body)


def prepare(folder: Path) -> dict[str, str]:
    """Makes the folder for the commands of a document; returns their environment."""
    for name in ("tests", "docs"):
        folder.joinpath(name).symlink_to(ROOT / name)
    home = folder / ".home"
    home.mkdir()
    home.joinpath("qcgen").symlink_to(ROOT)
    programs = folder / ".bin"
    programs.mkdir()
    programs.joinpath("qcgen").write_text('#!/bin/sh\nexec python3 -m qcgen "$@"\n')
    programs.joinpath("qcgen").chmod(0o755)
    programs.joinpath("python3").symlink_to(sys.executable)
    environment = {key: value for key, value in os.environ.items() if key not in ("CC", "CFLAGS", "MAKEFLAGS")}
    environment["PATH"] = os.pathsep.join([str(programs), str(Path(sys.executable).parent), environment["PATH"]])
    environment["HOME"] = str(home)
    # A symlink to the interpreter of a virtual environment no longer finds its packages.
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])
    return environment


def printed(command: Command, folder: Path, environment: dict[str, str]) -> str:
    """What a command prints, errors included; raises CalledProcessError if it fails."""
    result = subprocess.run(
        ["bash", "-c", command.line],
        cwd=folder,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode:
        raise subprocess.CalledProcessError(result.returncode, command.line, result.stdout)
    return result.stdout


def run(path: Path, folder: Path, *, cores: bool = True) -> Iterator[tuple[Command, str]]:
    """Runs a document in a new folder; yields each command with what it printed; without ``cores`` not all of them."""
    environment = prepare(folder)
    for step in steps(path.read_text()):
        if isinstance(step, File):
            folder.joinpath(step.name).write_text(step.text)
        elif cores or step.core is None:
            yield step, printed(step, folder, environment)


def main() -> int:
    """Rewrites what the commands of all documents print."""
    for path in documents():
        cores = {step.core for step in steps(path.read_text()) if isinstance(step, Command) and step.core}
        missing = sorted({tool for core in cores for tool in missing_tools(TARGETS[core])})
        if missing:
            print(f"{path.relative_to(ROOT)}: left out what needs {', '.join(missing)}")
        with tempfile.TemporaryDirectory() as folder:
            results = list(run(path, Path(folder), cores=not missing))
        text = path.read_text()
        for command, output in reversed(results):
            text = text[: command.start] + output + text[command.end :]
        path.write_text(text)
        print(f"{path.relative_to(ROOT)}: {len(results)} commands")
    return 0


if __name__ == "__main__":
    sys.exit(main())
