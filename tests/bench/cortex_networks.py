"""Whole networks on an emulated Cortex-M4 beside the fastest published figures: a part of ``make bench-cortex``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import qcgen
from qcgen.cli.table import number, table
from qcgen.emulate import CYCLES, measure
from qcgen.reference import evaluate_all
from qcgen.verify.boundary import from_boundary, to_boundary
from tests.bench.whole import MEGAHERTZ, MLPERF, RECORD, Network, networks

CORE = "cortex-m4"
HEAD = (
    "network", "MAC", "instructions", "i/MAC", "cycles", f"runs/s at {MEGAHERTZ} MHz", "record, cycles",
    "of the record", "flash", "arena",
)  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """What was measured of a network; ``wrong`` outputs differ from the reference."""

    network: Network
    macs: int
    instructions: int
    cycles: int
    flash: int
    arena: int
    wrong: int


def chosen(cores: Sequence[str], only: str) -> list[Network]:
    """The networks to be measured if these cores are, and those whose names contain ``only``."""
    return [each for each in networks() if CORE in cores and only in each.title]


def measured(network: Network, flags: tuple[str, ...], compiler: str) -> Figures:
    """Counts one inference on random inputs."""
    artifact = qcgen.compile(network.path, name="net", target=CORE, layout="nhwc", optimize="speed", io="quantized")
    rng = np.random.default_rng(1)
    feeds = {
        x.name: rng.integers(x.dtype.low, x.dtype.high + 1, x.shape).astype(x.dtype.numpy)
        for x in artifact.program.inputs
    }
    found = measure(artifact, to_boundary(artifact.plan, feeds), flags=flags, compiler=compiler)
    values = evaluate_all(artifact.program, feeds)
    outputs = from_boundary(artifact.plan, found.outcome.outputs)
    wrong = sum(int((y != values[name]).sum()) for name, y in outputs.items())
    macs = artifact.report.unsimplified.macs
    return Figures(network, macs, found.instructions, found.cycles, found.flash_bytes, found.arena_bytes, wrong)


def section(whole: Sequence[Figures]) -> str:
    """The part of docs/benchmarks.md, "" without any figures."""
    if not whole:
        return ""
    source = [f"The record: {RECORD}."] if any(each.network in MLPERF for each in whole) else []
    parts = [
        "## Whole networks on an emulated Cortex-M4",
        "",
        "`--target cortex-m4 --optimize speed --layout nhwc --io quantized`, built with `-O3`; one inference on random",
        "inputs, outputs compared with the reference, bit for bit. MAC: those of the network as it was given.",
        f"Cycles: {CYCLES[CORE].source}.",
        *source,
        "",
        "```text",
        table(HEAD, [_row(each) for each in whole], right=HEAD[1:]),
        "```",
    ]
    return "\n".join(parts)


def _row(each: Figures) -> tuple[str, ...]:
    record = each.network.record
    mark = " WRONG" if each.wrong else ""
    cells = [number(each.macs), number(each.instructions), f"{each.instructions / each.macs:.3f}", number(each.cycles)]
    cells.append(f"{MEGAHERTZ * 1e6 / each.cycles:.1f}")
    cells += (
        ["-", "-"] if record is None else [number(round(record * 1e6)), f"{each.cycles / (record * 1e6):.0%}{mark}"]
    )
    return (each.network.title, *cells, number(each.flash), number(each.arena))
