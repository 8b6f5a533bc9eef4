"""Code built with -Os beside -O2 on emulated cores: a part of ``make bench-cortex``.

Instructions of one inference at -Os through those at -O2, by gcc and, where it is installed, by clang: the standard
layers with ``--optimize size`` and whole networks with ``--optimize speed``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import qcgen
from qcgen.cli.terminal import table
from qcgen.cores import TARGETS
from qcgen.emulate import COMPILERS, measure, missing_tools, random_feeds
from tests.bench.layers import LAYERS, model_of
from tests.bench.whole import networks

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc")
"""One of each family of kernels."""

PROCESSES = 2


@dataclass(frozen=True)
class Task:
    """A layer or a network to be built for a core by some compilers."""

    title: str
    model: bytes | Path
    optimize: str
    core: str
    compilers: tuple[str, ...]


def tasks(cores: tuple[str, ...], only: str) -> Iterator[Task]:
    """What to measure on these cores, of the layers and networks whose names contain ``only``."""
    models: list[tuple[str, bytes | Path, str]] = [(each.name, model_of(each), "size") for each in LAYERS]
    models += [(each.title, each.path, "speed") for each in networks()]
    for title, model, optimize in models:
        for core in cores:
            present = tuple(name for name in COMPILERS if not missing_tools(TARGETS[core], name, counting=True))
            if only in title and present:
                yield Task(title, model, optimize, core, present)


def ratios(task: Task) -> dict[str, float]:
    """By compiler the instructions at -Os through those at -O2."""
    options = {"layout": "nhwc", "io": "quantized", "optimize": task.optimize}
    artifact = qcgen.compile(task.model, name="net", target=task.core, **options)
    feeds = random_feeds(artifact.plan, seed=1)
    found = {}
    for compiler in task.compilers:
        small, fast = (measure(artifact, feeds, flags=(level,), compiler=compiler) for level in ("-Os", "-O2"))
        found[compiler] = small.instructions / fast.instructions
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=lambda text: tuple(text.split(",")), default=CORES)
    parser.add_argument("--only", default="", metavar="NAME", help="layers and networks whose name contains this")
    args = parser.parse_args()
    chosen = list(tasks(args.cores, args.only))
    with ProcessPoolExecutor(PROCESSES) as pool:
        found = dict(zip(((each.title, each.core) for each in chosen), pool.map(ratios, chosen), strict=True))
    columns = [(core, compiler) for core in args.cores for compiler in COMPILERS]
    rows = [
        (
            title,
            *(
                f"{found[title, core][compiler]:.2f}" if compiler in found.get((title, core), {}) else "-"
                for core, compiler in columns
            ),
        )
        for title in dict.fromkeys(each.title for each in chosen)
    ]
    head = ("-Os / -O2", *(f"{core.removeprefix('cortex-')} {compiler}" for core, compiler in columns))
    print(table(head, rows, head[1:]))


if __name__ == "__main__":
    main()
