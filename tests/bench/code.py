"""Code and stack of whole networks on five cores: part of ``make bench-flash``.

Bytes of code by gcc at -Os and at -O2, tables left out, and bytes of stack of one inference at -O2.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from onnx import ModelProto

import qcgen
from qcgen.artifact import Artifact
from qcgen.cli.terminal import number, table
from qcgen.emulate import measure, random_feeds
from qcgen.errors import ToolMissing
from tests.bench.compiling import mobilenet_v2
from tests.bench.pages import DOCS, write_table
from tests.bench.whole import DIGITS, networks

DOCUMENT = DOCS / "generated-code.md"
BEGIN, END = "<!-- bench-code -->", "<!-- end of code -->"
CORES = ("cortex-m4", "cortex-m55", "cortex-m3", "cortex-m0", "rv32imc")
HEAD = ("network", "core", "-Os", "-O2", "stack")


def models() -> Iterator[tuple[str, Path | ModelProto]]:
    """The networks that are there, the digits of the README, and a larger one with random weights."""
    known = networks()
    yield from ((each.title, each.path) for each in known)
    if DIGITS[0] not in known:
        yield DIGITS[0].title, DIGITS[0].path
    yield "MobileNetV2-0.35 96x96", mobilenet_v2(0.35, 96)


def row(title: str, model: Path | ModelProto, core: str) -> tuple[str, ...]:
    """One network on one core."""
    artifact = qcgen.compile(model, name="net", target=core, io="quantized")
    sizes = artifact.report.code_bytes
    assert sizes is not None, "a compiler for the core is installed"
    return title, core, number(sizes["-Os"]), number(sizes["-O2"]), _stack(artifact)


def _stack(artifact: Artifact) -> str:
    """Bytes of stack of one inference; a dash where the emulated board has too little flash for the network."""
    try:
        counted = measure(artifact, random_feeds(artifact.plan, 1), flags=("-O2",))
    except ToolMissing as failed:
        if "will not fit" not in str(failed):
            raise
        return "-"
    return number(counted.outcome.stack_bytes)


def main() -> None:
    """Prints the table; with --write, into docs/generated-code.md, too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    rows = [row(title, model, core) for title, model in models() for core in CORES]
    text = table(HEAD, rows, HEAD[2:])
    print(text)
    if parser.parse_args().write:
        write_table(DOCUMENT, BEGIN, END, text)


if __name__ == "__main__":
    main()
