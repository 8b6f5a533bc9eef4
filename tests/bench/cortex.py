"""``make bench-cortex``: instructions per layer on emulated cores beside CMSIS-NN's.

Counts are exact and the same on every machine with the same compiler; cycles are estimates. Every output is compared
with the reference. CMSIS-NN's figures were counted in the same way once and are in cmsis_nn.json. Whole networks,
beside the records of MLPerf Tiny, come last, then a transformer and a recurrent network if onnxruntime is there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import qcgen
from qcgen.cores import EMULATED, TARGETS
from qcgen.emulate import measure, missing_tools, random_feeds
from qcgen.reference import evaluate_operator
from tests.bench import cortex_networks, cortex_sequences, espressif, tflite_mlperf
from tests.bench.cortex_text import CMSIS_NN, OPTIMIZE, Figures, Results, document, section, summary
from tests.bench.layers import LAYERS, Layer, model_of

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = 2
CORES = tuple(core for core in EMULATED if core in CMSIS_NN["instructions"][LAYERS[0].name])
"""Those that CMSIS-NN was measured on; the others have the code of one of them."""


@dataclass(frozen=True)
class Task:
    """A layer to be measured on a core."""

    core: str
    layer: Layer
    optimize: str
    compiler: str
    flags: tuple[str, ...]


def main() -> int:
    """Prints the tables; writes docs/benchmarks.md if asked to."""
    parser = argparse.ArgumentParser(prog="make bench-cortex", description=__doc__)
    parser.add_argument("--cores", type=cores_named, help="for example m4,m0 (default: all whose tools are installed)")
    parser.add_argument("--only", default="", metavar="NAME", help="layers and networks whose name contains this")
    parser.add_argument("--compiler", choices=("gcc", "clang"), default="gcc", help="(default: %(default)s)")
    parser.add_argument("--cflags", default="-O3", help="(default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md: all cores and layers")
    args = parser.parse_args()
    if args.write and (args.cores or args.only or args.compiler != "gcc" or args.cflags != "-O3"):
        parser.error("--write is for all cores and layers, gcc -O3")
    cores = args.cores or CORES
    missing = {core: missing_tools(TARGETS[core], args.compiler, counting=True) for core in cores}
    for core, tools in missing.items():
        if tools:
            print(f"{core} is left out; missing: {_packages(core, tools)}", file=sys.stderr)
    present = [core for core in cores if not missing[core]]
    if args.write and len(present) < len(CORES):
        print("docs/benchmarks.md stays as it is: it holds all cores", file=sys.stderr)
        args.write = False
    return _bench(args, present) if present else 1


def cores_named(text: str) -> tuple[str, ...]:
    """The targets meant by "m4,rv32"."""
    found = []
    for word in text.split(","):
        names = [name for name in CORES if name in (word, f"cortex-{word}", f"{word}imc")]
        if not names:
            raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(CORES)}")
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
        for core in cores if layers else ():
            tasks = [
                Task(core, layer, optimize, args.compiler, tuple(args.cflags.split()))
                for layer in layers
                for optimize in OPTIMIZE
            ]
            for task, figures in zip(tasks, pool.map(measured, tasks), strict=True):
                results[core, task.layer.name, task.optimize] = figures
            sections.append(section(core, layers, results))
            print(f"{core}, {args.compiler} {args.cflags}\n\n{sections[-1]}\n", flush=True)
        network = partial(cortex_networks.measured, flags=tuple(args.cflags.split()), compiler=args.compiler)
        whole = list(pool.map(network, cortex_networks.chosen(cores, args.only)))
        sequence = partial(cortex_sequences.measured, flags=tuple(args.cflags.split()), compiler=args.compiler)
        sequences = list(pool.map(sequence, cortex_sequences.chosen(cores, args.only)))
    is_beside = espressif.CORE in cores and args.only in espressif.NETWORK.title
    beside = espressif.measured(tuple(args.cflags.split()), args.compiler) if is_beside else []
    files = tflite_mlperf.measured(tuple(args.cflags.split()), args.compiler) if tflite_mlperf.CORE in cores else []
    total = summary(cores, layers, results) if layers else ""
    parts = (
        cortex_networks.section(whole),
        cortex_sequences.section(sequences),
        espressif.section(beside),
        tflite_mlperf.section(files),
    )
    networks = "\n\n".join(filter(None, parts))
    print("\n\n".join(filter(None, [total, networks, f"{time.monotonic() - start:.0f} s"])))
    if args.write:
        ROOT.joinpath("docs").mkdir(exist_ok=True)
        ROOT.joinpath("docs", "benchmarks.md").write_text(document(cores, sections, total, networks))
    wrong = [" ".join(key) for key, figures in results.items() if figures.wrong]
    wrong += [each.network.title for each in whole if each.wrong]
    wrong += [f"{each.task.name} on {each.task.core}" for each in sequences if each.wrong]
    for key in wrong:
        print(f"WRONG OUTPUTS: {key}", file=sys.stderr)
    return 1 if wrong else 0


def measured(task: Task) -> Figures:
    """Counts one call of the layer on random inputs, and compares its outputs with the reference's."""
    model = model_of(task.layer)
    artifact = qcgen.compile(model, name="layer", layout="nhwc", target=task.core, optimize=task.optimize)
    feeds = random_feeds(artifact.plan, seed=1)
    found = measure(artifact, feeds, flags=task.flags, compiler=task.compiler)
    [op] = artifact.program.operators
    expected = np.moveaxis(evaluate_operator(op, np.moveaxis(feeds["x"], -1, 1)), 1, -1)
    wrong = int((found.outcome.outputs["y"] != expected).sum())
    [node] = found.nodes
    return Figures(node.kernel, found.instructions, found.cycles, found.flash_bytes, found.arena_bytes, wrong)


if __name__ == "__main__":
    sys.exit(main())
