"""``make bench-cortex``: instructions per layer on emulated cores beside CMSIS-NN's.

Counts are exact and the same on every machine with the same compiler; cycles are estimates. Every output is compared
with the reference. CMSIS-NN's figures were counted in the same way once and are in cmsis_nn.json.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import qcgen
from qcgen.cli.table import number, table
from qcgen.emulate import CYCLES, measure, missing_tools, random_feeds
from qcgen.reference import evaluate_operator
from qcgen.targets import EMULATED, TARGETS
from tests.bench.layers import LAYERS, Layer, model_of

ROOT = Path(__file__).resolve().parents[2]
CMSIS_NN = json.loads(Path(__file__).with_name("cmsis_nn.json").read_text())
OPTIMIZE = ("size", "speed")
PROCESSES = 2

DSP_CORES = ("cortex-m4", "cortex-m7", "cortex-m33")
"""CMSIS-NN takes the same path on them: its scratch was recorded for the first."""


@dataclass(frozen=True)
class Task:
    """A layer to be measured on a core."""

    core: str
    layer: Layer
    optimize: str
    compiler: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Figures:
    """What was measured; ``wrong`` outputs differ from the reference."""

    kernel: str
    instructions: int
    cycles: int
    flash: int
    scratch: int
    wrong: int


Results = dict[tuple[str, str, str], Figures]
"""By core, layer and --optimize."""


def main() -> int:
    """Prints the tables; writes docs/benchmarks.md if asked to."""
    parser = argparse.ArgumentParser(prog="make bench-cortex", description=__doc__)
    parser.add_argument("--cores", type=_cores, help="for example m4,m0 (default: all whose tools are installed)")
    parser.add_argument("--only", default="", metavar="NAME", help="layers whose name contains this")
    parser.add_argument("--compiler", choices=("gcc", "clang"), default="gcc", help="(default: %(default)s)")
    parser.add_argument("--cflags", default="-O3", help="(default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md: all cores and layers")
    args = parser.parse_args()
    if args.write and (args.cores or args.only or args.compiler != "gcc" or args.cflags != "-O3"):
        parser.error("--write is for all cores and layers, gcc -O3")
    cores = args.cores or EMULATED
    missing = {core: missing_tools(TARGETS[core], args.compiler, counting=True) for core in cores}
    for core, tools in missing.items():
        if tools:
            print(f"{core} is left out; missing: {_packages(core, tools)}", file=sys.stderr)
    present = [core for core in cores if not missing[core]]
    if args.write and len(present) < len(EMULATED):
        print("docs/benchmarks.md stays as it is: it holds all cores", file=sys.stderr)
        args.write = False
    return _bench(args, present) if present else 1


def _cores(text: str) -> tuple[str, ...]:
    """The targets meant by "m4,rv32"."""
    found = []
    for word in text.split(","):
        names = [name for name in EMULATED if name in (word, f"cortex-{word}", f"{word}imc")]
        if not names:
            raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(EMULATED)}")
        found += names
    return tuple(found)


def _packages(core: str, tools: Sequence[str]) -> str:
    machine = TARGETS[core].machine
    assert machine is not None
    return f"{', '.join(tools)} (Debian: apt-get install {' '.join(dict.fromkeys(machine.packages[t] for t in tools))})"


def _bench(args: argparse.Namespace, cores: Sequence[str]) -> int:
    start = time.monotonic()
    layers = [layer for layer in LAYERS if args.only in layer.name]
    results: Results = {}
    sections = []
    with ProcessPoolExecutor(PROCESSES) as pool:
        for core in cores:
            tasks = [
                Task(core, layer, optimize, args.compiler, tuple(args.cflags.split()))
                for layer in layers
                for optimize in OPTIMIZE
            ]
            for task, figures in zip(tasks, pool.map(_measure, tasks), strict=True):
                results[core, task.layer.name, task.optimize] = figures
            sections.append(_section(core, layers, results))
            print(f"{core}, {args.compiler} {args.cflags}\n\n{sections[-1]}\n", flush=True)
    summary = _summary(cores, layers, results)
    print(f"{summary}\n\n{time.monotonic() - start:.0f} s")
    if args.write:
        ROOT.joinpath("docs").mkdir(exist_ok=True)
        ROOT.joinpath("docs", "benchmarks.md").write_text(_document(cores, sections, summary))
    wrong = [key for key, figures in results.items() if figures.wrong]
    for key in wrong:
        print(f"WRONG OUTPUTS: {' '.join(key)}", file=sys.stderr)
    return 1 if wrong else 0


def _measure(task: Task) -> Figures:
    model = model_of(task.layer)
    artifact = qcgen.compile(model, name="layer", layout="nhwc", target=task.core, optimize=task.optimize)
    feeds = random_feeds(artifact.plan, seed=1)
    found = measure(artifact, feeds, flags=task.flags, compiler=task.compiler)
    [op] = artifact.program.operators
    expected = np.moveaxis(evaluate_operator(op, np.moveaxis(feeds["x"], -1, 1)), 1, -1)
    wrong = int((found.outcome.outputs["y"] != expected).sum())
    [node] = found.nodes
    return Figures(node.kernel, found.instructions, found.cycles, found.flash_bytes, found.arena_bytes, wrong)


_HEAD = (
    "layer", "MAC", "CMSIS-NN", "size", "i/MAC", "ratio", "speed", "i/MAC ", "ratio ", "cycles size", "cycles speed",
    "scratch: CMSIS-NN", "size ", "speed ", "flash: CMSIS-NN", "size  ", "speed  ",
)  # fmt: skip


def _section(core: str, layers: Sequence[Layer], results: Results) -> str:
    """One core's table."""
    rows = [_row(core, layer, results) for layer in layers]
    means = {optimize: _ratios(core, layers, results, optimize) for optimize in OPTIMIZE}
    for title, of in (("geometric mean", _geometric_mean), ("lowest", min)):
        size, speed = (f"{of(means[optimize]):.2f}" for optimize in OPTIMIZE)
        rows.append((title, "", "", "", "", size, "", "", speed, *[""] * 8))
    kernels = [
        f"{layer.name}: {', '.join(dict.fromkeys(results[core, layer.name, o].kernel for o in OPTIMIZE))}"
        for layer in layers
    ]
    return table(_HEAD, rows, right=_HEAD[1:]) + "\n\n" + "\n".join(kernels)


def _row(core: str, layer: Layer, results: Results) -> tuple[str, ...]:
    theirs = CMSIS_NN["instructions"][layer.name][core]
    size, speed = (results[core, layer.name, optimize] for optimize in OPTIMIZE)
    cells = [layer.name, number(layer.macs), number(theirs)]
    for figures in (size, speed):
        mark = " WRONG" if figures.wrong else ""
        ratio = f"{theirs / figures.instructions:.2f}{mark}"
        cells += [number(figures.instructions), f"{figures.instructions / layer.macs:.3f}", ratio]
    cells += [number(size.cycles), number(speed.cycles)]
    cells += [_their_scratch(core, layer), number(size.scratch), number(speed.scratch)]
    cells += [number(_their_constants(layer)), number(size.flash), number(speed.flash)]
    return tuple(cells)


def _their_scratch(core: str, layer: Layer) -> str:
    recorded = CMSIS_NN["scratch_bytes"][layer.name].get("cortex-m4" if core in DSP_CORES else core)
    return "-" if recorded is None else number(recorded)


def _their_constants(layer: Layer) -> int:
    """Weights, and the bias, multiplier and shift of each channel; CMSIS-NN's code comes on top."""
    channels = 1 if layer.depthwise else layer.image[2]
    return layer.out_channels * (channels * layer.kernel[0] * layer.kernel[1] + 12)


def _ratios(core: str, layers: Sequence[Layer], results: Results, optimize: str) -> list[float]:
    return [
        CMSIS_NN["instructions"][layer.name][core] / results[core, layer.name, optimize].instructions
        for layer in layers
    ]


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _summary(cores: Sequence[str], layers: Sequence[Layer], results: Results) -> str:
    rows = []
    for core in cores:
        size, speed = (_ratios(core, layers, results, optimize) for optimize in OPTIMIZE)
        means = [f"{value:.2f}" for value in (_geometric_mean(size), min(size), _geometric_mean(speed), min(speed))]
        rows.append((core, *means))
    head = ("CMSIS-NN / qcgen", "size: geometric mean", "lowest", "speed: geometric mean", "lowest ")
    return table(head, rows, right=head[1:])


def _document(cores: Sequence[str], sections: Sequence[str], summary: str) -> str:
    """The text of docs/benchmarks.md."""
    compilers = [_version(compiler) for compiler in dict.fromkeys(TARGETS[core].compiler for core in cores)]
    emulators = [TARGETS[core].machine for core in cores]
    versions = [*compilers, *(_version(name) for name in dict.fromkeys(m.emulator for m in emulators if m))]
    flags = CMSIS_NN["flags"].removesuffix(" and those of the core, below")
    parts = [
        "# Instructions on emulated cores, beside CMSIS-NN",
        "",
        "Written by `make bench-cortex`. Instruction counts are exact: they come from a QEMU plugin and are the same",
        "on every machine with the same compiler. Cycles are estimates for memory without wait states, from a table",
        "for each core; none was checked on hardware. Every output was compared with the reference, bit for bit.",
        "",
        "Layers: int8, channels last, weight scales per channel, padding SAME, random weights and inputs. qcgen's C",
        f"was built with `-O3`. Tools: {'; '.join(versions)}.",
        "",
        f"CMSIS-NN: {CMSIS_NN['library']} {CMSIS_NN['version']}, commit `{CMSIS_NN['commit']}`,",
        f"{CMSIS_NN['compiler']}, flags `{flags}`;",
        f"{CMSIS_NN['count']}.",
        "Its scratch is the buffer that it asks the caller for (recorded on Cortex-M4, which stands for M7 and M33,",
        "and on Cortex-M55); its flash is weights, bias, multipliers and shifts without its code. qcgen's flash is",
        "code and constants together.",
        "",
        "`size` and `speed` are `--optimize`; a ratio is CMSIS-NN's instructions through qcgen's.",
        "",
        "```text",
        summary,
        "```",
    ]
    for core, section in zip(cores, sections, strict=True):
        target = TARGETS[core]
        flags = " ".join(target.flags)
        parts += ["", f"## {target.description}", "", f"`{flags}`. Cycles: {CYCLES[core].source}.", ""]
        parts += ["```text", section, "```"]
    return "\n".join(parts) + "\n"


def _version(tool: str) -> str:
    return subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
