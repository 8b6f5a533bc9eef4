"""Whole networks on emulated cores beside the fastest published figures: a part of ``make bench-cortex``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import qcgen
from qcgen.cli.terminal import number, table
from qcgen.cores import BOARDS
from qcgen.emulate import CYCLES, measure
from qcgen.reference import evaluate_all
from qcgen.verification.running import from_boundary, to_boundary
from tests.bench.whole import MLPERF, RECORD, RECORD_CORES, Network, networks

CORE = "cortex-m4"
MODELLED = tuple(board for board in BOARDS.values() if CORE in board.cores)
HEAD = (
    "network", "--optimize", "MAC", "zero wait", *(board.name for board in MODELLED), "record", "instructions", "i/MAC",
    "flash", "arena",
)  # fmt: skip
OTHER_HEAD = ("network", "core", "zero wait", "kind", "board", "with waits", "record", "instructions", "flash", "arena")

OTHER_RIGHT = (OTHER_HEAD[2], *OTHER_HEAD[5:])


@dataclass(frozen=True)
class Task:
    """A network to be measured on a core."""

    network: Network
    core: str
    optimize: str


@dataclass(frozen=True)
class Figures:
    """What was measured of a network; ``boards`` are cycles by board; ``wrong`` outputs differ from the reference."""

    task: Task
    macs: int
    instructions: int
    cycles: int
    boards: Mapping[str, int]
    flash: int
    arena: int
    wrong: int

    @property
    def network(self) -> Network:
        """Which network."""
        return self.task.network


def chosen(cores: Sequence[str], only: str) -> list[Task]:
    """What to measure if these cores are measured, of the networks whose names contain ``only``.

    A Cortex-M85 runs where a Cortex-M55 does.
    """
    found = [each for each in networks() if only in each.title]
    tasks = [Task(each, CORE, optimize) for each in found for optimize in ("speed", "size") if CORE in cores]
    others = [core for core in RECORD_CORES if core != CORE and core.replace("85", "55") in cores]
    return tasks + [Task(each, core, "speed") for core in others for each in found if core in each.records]


def measured(task: Task, flags: tuple[str, ...], compiler: str) -> Figures:
    """Counts one inference on random inputs."""
    options = {"layout": "nhwc", "optimize": task.optimize, "io": "quantized"}
    artifact = qcgen.compile(task.network.path, name="net", target=task.core, **options)
    rng = np.random.default_rng(1)
    feeds = {
        x.name: rng.integers(x.dtype.low, x.dtype.high + 1, x.shape).astype(x.dtype.numpy)
        for x in artifact.program.inputs
    }
    boards = [board for board in BOARDS.values() if task.core in board.cores]
    found = measure(artifact, to_boundary(artifact.plan, feeds), flags=flags, compiler=compiler, boards=boards)
    values = evaluate_all(artifact.program, feeds)
    outputs = from_boundary(artifact.plan, found.outcome.outputs)
    wrong = sum(int((y != values[name]).sum()) for name, y in outputs.items())
    cycles = {board.name: found.cycles_on(board.name) for board in boards}
    macs = artifact.report.unsimplified.macs
    sizes = found.flash_bytes, found.arena_bytes
    return Figures(task, macs, found.instructions, found.cycles, cycles, *sizes, wrong)


def section(whole: Sequence[Figures]) -> str:
    """The part of docs/benchmarks.md, "" without any figures."""
    on_core = [each for each in whole if each.task.core == CORE]
    others = [each for each in whole if each.task.core != CORE]
    parts = [_on_core(on_core)] if on_core else []
    parts += [_others(others)] if others else []
    return "\n\n".join(parts)


def _on_core(whole: Sequence[Figures]) -> str:
    parts = [
        "## Whole networks on an emulated Cortex-M4",
        "",
        "`--target cortex-m4 --layout nhwc --io quantized`, built with `-O3`; one inference on random inputs, outputs",
        "compared with the reference, bit for bit. MAC: those of the network as it was given. `flash`: code and",
        "constants. `arena`: with `--optimize speed` it grows where that saves 5 % of the estimated cycles.",
        "",
        f"* `zero wait`: estimated cycles without wait states. {CYCLES[CORE].source}.",
        *(
            f"* `{each.name}`: estimated cycles at {each.megahertz} MHz with waits for flash, by the model of"
            f" [flash-model.md](flash-model.md)."
            for each in MODELLED
        ),
        *_record(whole),
        "",
        "```text",
        table(HEAD, [_row(each) for each in whole], right=HEAD[2:]),
        "```",
    ]
    return "\n".join(parts)


def _record(whole: Sequence[Figures]) -> list[str]:
    if not any(each.network in MLPERF for each in whole):
        return []
    return [f"* `record`: {RECORD}. A measurement, beside estimates on an emulated core."]


def _others(whole: Sequence[Figures]) -> str:
    parts = [
        "## Whole networks on other emulated cores",
        "",
        "As above with `--optimize speed`; Cortex-M0 stands for Cortex-M0+. `with waits`: estimated cycles on a board,",
        "by the model of [flash-model.md](flash-model.md). The records are of other boards, which are not modelled.",
        *_record(whole),
        "",
        "```text",
        table(OTHER_HEAD, [row for each in whole for row in _other_rows(each)], right=OTHER_RIGHT),
        "```",
    ]
    return "\n".join(parts)


def _row(each: Figures) -> tuple[str, ...]:
    cells = [each.task.optimize, number(each.macs), number(each.cycles), *map(number, each.boards.values())]
    counts = number(each.instructions), f"{each.instructions / each.macs:.3f}"
    return (each.network.title, *cells, _record_cell(each), *counts, number(each.flash), number(each.arena))


def _other_rows(each: Figures) -> list[tuple[str, ...]]:
    """A row, and one more for each board but the first."""
    kind = "upper bound" if CYCLES[each.task.core].is_upper_bound else "estimate"
    sizes = number(each.instructions), number(each.flash), number(each.arena)
    boards = [(name, number(cycles)) for name, cycles in each.boards.items()] or [("-", "-")]
    first = (each.network.title, each.task.core, number(each.cycles), kind, *boards[0], _record_cell(each), *sizes)
    return [first, *(("", "", "", "", *board, "", "", "", "") for board in boards[1:])]


def _record_cell(each: Figures) -> str:
    record = each.network.records.get(each.task.core)
    text = "-" if record is None else number(round(record * 1e6))
    return f"{text} WRONG" if each.wrong else text
