"""The memory of networks, whole and row by row, and what it costs: ``make bench-memory``.

Instructions and stack are those of one inference on an emulated Cortex-M4, built with gcc -O3; outputs are compared
with the reference. Networks of more than MOST multiply-adds are placed and not run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto

import qcgen
from qcgen.artifact import Artifact
from qcgen.cli.terminal import number, table
from qcgen.emulate import measure
from qcgen.reference import evaluate_all
from qcgen.verification.running import from_boundary, to_boundary
from tests.bench.compiling import mcunet, mobilenet_v2
from tests.bench.whole import DIGITS, MLPERF

CORE = "cortex-m4"
MOST = 40_000_000
DOCUMENT = Path(__file__).parents[2] / "docs" / "memory.md"
HEAD = (
    "network",
    "--arena",
    "arena",
    "RAM in all",
    "multiply-adds",
    "instructions",
    "more",
    "flash",
    "stack",
    "wrong",
)
MOBILENETS = {"MobileNetV2-0.5 128x128": (0.5, 128), "MobileNetV2-0.35 96x96": (0.35, 96)}
MOBILENETS |= {"MobileNetV2-0.35 144x144": (0.35, 144), "MobileNetV2-1.0 224x224": (1.0, 224)}
ROWS = "rows"  # the least arena, and an input that comes row by row
CURVE = "visual wake words"  # of which budgets between the ends are shown
BUDGETS = {"keyword spotting": (8400, 8192)}  # with moves of whole tensors, and below what these reach
PUBLISHED = """\
Published figures for scale, on other machines and counted in other ways: for MobileNetV2-0.35 at 144x144 msf-CNN's
optimizer gives 83,065 B at 1.9 % more multiply-adds, 15,340 B at 38 % and 7,887 B at 68 %; TinyEngine needs 308 kB.
Rows alone take no multiply-add more."""
BOUNDS = """\
Keyword spotting in less than 8,320 B holds no tensor of 8,000 B as a whole: each layer reads rows of 320 B that the
one before computes, from the input to the mean. No step lies between this chain and moves of whole tensors, so every
budget from 4,744 to 8,319 B gives the same code.

MCUNet and MobileNetV2-0.5 are bounded by their first chain, and what it keeps fills the arena:

| rows of | MCUNet | MobileNetV2-0.5 |
|---|---|---|
| the output of the chain, whole | 20,480 | 16,384 |
| the widest tensor, three rows of 48 channels | 11,520 | 9,216 |
| the first convolution's output, three rows | 3,840 | 3,072 |
| the input, three rows | 1,440 | 1,152 |
| the narrow tensor, one row | 640 | 512 |
| scratch memory | 112 | 112 |
| in all | 38,032 | 30,448 |"""


@dataclass(frozen=True)
class Row:
    """One network in one arena; what was counted is None where it was not run."""

    title: str
    way: str
    artifact: Artifact
    instructions: int | None = None
    flash: int | None = None
    stack: int | None = None
    wrong: int | None = None


def models() -> dict[str, Callable[[], Path | ModelProto]]:
    """The networks that are there, and those with random weights."""
    known = MLPERF if all(each.path.is_file() for each in MLPERF) else DIGITS
    found: dict[str, Callable[[], Path | ModelProto]] = {each.title: lambda path=each.path: path for each in known}
    found["MCUNet 128x160"] = mcunet
    return found | {title: lambda of=of: mobilenet_v2(*of) for title, of in MOBILENETS.items()}


def rows(title: str, model: Path | ModelProto, *, runs: bool) -> Iterator[Row]:
    """The network as it is, in the least arena, and in some between."""
    options = {"name": "net", "target": CORE, "layout": "nhwc", "io": "quantized"}
    whole, least = (qcgen.compile(model, arena=arena, **options) for arena in (None, "least"))
    yield counted(Row(title, "", whole), runs=runs)
    if title == CURVE:
        span = whole.plan.arena_bytes - least.plan.arena_bytes
        for part in (3, 2, 1):
            budget = least.plan.arena_bytes + span * part // 4
            yield counted(Row(title, str(budget), qcgen.compile(model, arena=budget, **options)), runs=runs)
    for budget in BUDGETS.get(title, ()):
        yield counted(Row(title, str(budget), qcgen.compile(model, arena=budget, **options)), runs=runs)
    yield counted(Row(title, "least", least), runs=runs)
    if len(least.program.inputs[0].shape) == 4:
        options |= {"arena": "least", "input": "rows", "io_memory": "arena"}
        yield counted(Row(title, ROWS, qcgen.compile(model, **options)), runs=runs)


def counted(row: Row, *, runs: bool) -> Row:
    """The row with what one inference takes."""
    artifact = row.artifact
    if not runs or artifact.report.macs > MOST:
        return row
    rng = np.random.default_rng(1)
    feeds = {
        x.name: rng.integers(x.dtype.low, x.dtype.high + 1, x.shape).astype(x.dtype.numpy)
        for x in artifact.program.inputs
    }
    found = measure(artifact, to_boundary(artifact.plan, feeds), flags=("-O3",), compiler="gcc")
    values = evaluate_all(artifact.program, feeds)
    outputs = from_boundary(artifact.plan, found.outcome.outputs)
    wrong = sum(int((y != values[name]).sum()) for name, y in outputs.items())
    return Row(row.title, row.way, artifact, found.instructions, found.flash_bytes, found.outcome.stack_bytes, wrong)


def cells(row: Row, first: Row) -> tuple[str, ...]:
    """A line of the table; ``first`` is the same network as it is."""
    report = row.artifact.report
    counts = ("", "", "", "", "")
    if row.instructions is not None and first.instructions is not None:
        more = f"{row.instructions / first.instructions - 1:+.1%}" if row is not first else ""
        counts = (
            number(row.instructions),
            more,
            number(row.flash or 0),
            number(row.stack or 0),
            number(row.wrong or 0),
        )
    return (row.title, row.way, number(report.arena_bytes), number(report.ram_bytes), number(report.macs), *counts)


def document(lines: list[tuple[str, ...]]) -> str:
    """docs/memory.md."""
    parts = [
        "# Memory",
        "",
        "`make bench-memory` writes this page: `--target cortex-m4 --layout nhwc --io quantized --optimize size`,",
        "built with gcc -O3 and run on an emulated core where there are figures of instructions. RAM in all is arena,",
        "inputs and outputs. Without `--arena` outputs lie over inputs; with it, layers run row by row. `rows` is",
        "`--arena least --input rows --io-memory arena`: the caller pushes rows of the image, of which one counts as",
        "RAM, and outputs lie in the arena. MCUNet and MobileNetV2 have random weights.",
        "",
        "```text",
        table(HEAD, lines, right=HEAD[2:]),
        "```",
        "",
        PUBLISHED,
        "",
        BOUNDS,
        "",
    ]
    return "\n".join(parts)


def main() -> None:
    """Prints the table; writes it, too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/memory.md")
    parser.add_argument("--no-runs", action="store_true", help="place only")
    arguments = parser.parse_args()
    lines = []
    for title, make in models().items():
        found = list(rows(title, make(), runs=not arguments.no_runs))
        lines += [cells(row, found[0]) for row in found]
        print(table(HEAD, [cells(row, found[0]) for row in found], right=HEAD[2:]), flush=True)
    if arguments.write:
        DOCUMENT.write_text(document(lines))


if __name__ == "__main__":
    main()
