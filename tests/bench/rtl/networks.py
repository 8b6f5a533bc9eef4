"""``make bench-rtl``: cycles of whole networks on the RTL of real cores, beside what ``qcgen bench`` estimates."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import qcgen
from qcgen.artifact import Artifact
from qcgen.cli.terminal import number, table
from qcgen.cores import RISCV_CORES
from qcgen.emulate import measure
from qcgen.ir.types import Array
from qcgen.reference import evaluate_all
from qcgen.verification.running import from_boundary, to_boundary
from tests.bench.cortex_text import RTL_BEGIN, RTL_END
from tests.bench.pages import DOCS, write_table
from tests.bench.rtl.simulator import CORES, missing, run, simulator
from tests.bench.whole import DIGITS, Network, networks
from tests.tools import install

NETWORKS = (*(each for each in networks() if each not in DIGITS), DIGITS[0])
OPTIMIZE = ("speed", "size")
HEAD = ("network", "--optimize", "core", "cycles", "instructions", "CPI", "estimate", "off")


@dataclass(frozen=True)
class Task:
    """A network to be run on a core."""

    network: Network
    optimize: str
    core: str


@dataclass(frozen=True)
class Figures:
    """What was measured, ``counted`` instructions and ``estimate`` by ``qcgen bench``; ``wrong`` outputs differ."""

    task: Task
    instructions: int
    counted: int
    cycles: int
    estimate: int
    wrong: int

    @property
    def off(self) -> float:
        """How far the estimate is from the cycles, relative."""
        return self.estimate / self.cycles - 1

    @property
    def is_sound(self) -> bool:
        """Whether all outputs are right and the instructions those that QEMU counts, to within one."""
        return not self.wrong and abs(self.instructions - self.counted) <= 1


def main() -> int:
    """Prints the table; 1 if outputs are wrong or instructions are not those that QEMU counts."""
    parser = argparse.ArgumentParser(prog="make bench-rtl", description=__doc__)
    parser.add_argument("--core", choices=tuple(CORES), action="append", help="(default: all)")
    parser.add_argument("--only", default="", metavar="NAME", help="networks whose name contains this")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md: all cores and networks")
    args = parser.parse_args()
    if args.write and (args.core or args.only or len(NETWORKS) == 1):
        parser.error("--write is for all cores and networks")
    if missing():
        print(f"missing: {', '.join(missing())}: {install(*missing())}", file=sys.stderr)
        return 1
    chosen = [each for each in NETWORKS if args.only in each.title]
    cores = args.core or tuple(CORES)
    tasks = [Task(network, optimize, core) for network in chosen for optimize in OPTIMIZE for core in cores]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(simulator, cores))  # each is built once
        found = list(pool.map(measured, tasks))
    text = table(HEAD, [_row(each) for each in found], right=HEAD[3:])
    print(text)
    if args.write:
        write_table(DOCS / "benchmarks.md", RTL_BEGIN, RTL_END, text)
    for each in found:
        if not each.is_sound:
            print(f"WRONG: {each}", file=sys.stderr)
    return 0 if all(each.is_sound for each in found) else 1


def measured(task: Task) -> Figures:
    """One inference on the first recorded input, or a random one where none is of the C function's types."""
    artifact, feeds, expected = subject(task.network, task.optimize)
    counted = measure(artifact, feeds, table=RISCV_CORES[task.core])
    ran = run(task.core, artifact, feeds)
    outputs = from_boundary(artifact.plan, ran.outcome.outputs)
    wrong = sum(int((outputs[name] != y).sum()) for name, y in expected.items())
    return Figures(task, ran.instructions, counted.instructions, ran.cycles, counted.cycles, wrong)


def subject(network: Network, optimize: str) -> tuple[Artifact, Mapping[str, Array], Mapping[str, Array]]:
    """A compiled network, inputs in the shapes of the C function and outputs in the model's own."""
    options = {"layout": "nhwc", "optimize": optimize, "io": "quantized"}
    artifact = qcgen.compile(network.path, name="net", target="rv32imc", **options)
    return artifact, *case(artifact, network.path.with_suffix(".npz"))


def case(artifact: Artifact, recording: Path) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
    """Inputs in the shapes of the C function and outputs in the model's own: recorded, or of the reference."""
    plan, program = artifact.plan, artifact.program
    with np.load(recording) as arrays:
        feeds = {x.name: arrays.get(f"in0.{x.name}") for x in program.inputs}
        expected = {y.name: arrays.get(f"out0.{y.name}") for y in program.outputs}
    if all(
        array is not None and array.dtype == x.dtype.numpy
        for x, array in zip(program.inputs, feeds.values(), strict=True)
    ):
        return to_boundary(plan, feeds), expected
    rng = np.random.default_rng(1)
    feeds = {x.name: rng.integers(x.dtype.low, x.dtype.high + 1, x.shape).astype(x.dtype.numpy) for x in program.inputs}
    values = evaluate_all(program, feeds)
    return to_boundary(plan, feeds), {y.name: values[y.name] for y in program.outputs}


def _row(each: Figures) -> tuple[str, ...]:
    cells = [number(each.cycles), number(each.instructions), f"{each.cycles / each.instructions:.2f}"]
    cells += [number(each.estimate), f"{100 * each.off:+.2f} %"]
    return (each.task.network.title, each.task.optimize, each.task.core, *cells)
