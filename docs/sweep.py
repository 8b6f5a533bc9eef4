"""Compiles every candidate for every target and budget; prints the figures as a table and draws the Pareto front.

On all processors of this machine, or on the machines of a Dask cluster: only the executor differs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

import qcgen

AIMS = ({"optimize": "size"}, {"flash": 40000}, {"optimize": "speed"})
ARENAS = ({}, {"arena": "least"})


@dataclass(frozen=True)
class Row:
    """A candidate: bytes of flash and of RAM, cycles of an inference; ``problem``: why it could not be compiled."""

    name: str
    target: str
    options: str
    flash: int = 0
    ram: int = 0
    cycles: int = 0
    problem: str = ""

    def beats(self, other: Row) -> bool:
        """Whether it takes no more of anything, and less of something."""
        own, others = (self.flash, self.ram, self.cycles), (other.flash, other.ram, other.cycles)
        return self.target == other.target and own != others and all(a <= b for a, b in zip(own, others))


def figures(name: str, model: bytes, options: dict[str, Any]) -> Row:
    """One candidate, in any process on any machine: the model comes as bytes, since its file may not be there."""
    rest = {key: value for key, value in options.items() if key != "target"}
    row = (name, options["target"], ", ".join(f"{key}={value}" for key, value in rest.items()))
    try:
        artifact = qcgen.compile(model, name="net", layout="nhwc", io="quantized", **options)
    except qcgen.ModelRejected as rejection:
        return Row(*row, problem=str(rejection).splitlines()[0])
    estimate = artifact.estimate  # qcgen.bench(artifact) counts on the emulated core, and takes longer
    return Row(*row, round(estimate.flash), artifact.report.ram_bytes, round(estimate.cycles))


def sweep(models: Iterable[Path], targets: Iterable[str], executor: Executor) -> list[Row]:
    """The rows of all candidates, each target's fastest first."""
    files = [(path.stem, path.read_bytes()) for path in models]
    tasks = [(*each, {"target": t, **aim, **arena}) for each, t, aim, arena in product(files, targets, AIMS, ARENAS)]
    rows = executor.map(figures, *zip(*tasks))
    return sorted(rows, key=lambda row: (row.target, bool(row.problem), row.cycles, row.flash, row.ram))


def front(rows: Sequence[Row]) -> list[Row]:
    """The rows that no other one of their target beats."""
    done = [row for row in rows if not row.problem]
    return [row for row in done if not any(other.beats(row) for other in done)]


def table(rows: Sequence[Row]) -> str:
    """A line for each row; * marks the front."""
    best = front(rows)
    lines = [f"{'':2}{'network':17}{'target':11}{'options':31}{'flash':>7}{'RAM':>7}{'cycles':>9}"]
    for row in rows:
        start = f"{'*' if row in best else ' '} {row.name:17}{row.target:11}{row.options:31}"
        lines.append(start + (row.problem or f"{row.flash:7}{row.ram:7}{row.cycles:9}"))
    return "\n".join(line.rstrip() for line in lines)


STYLE = """text{font:13px system-ui,sans-serif;fill:#1f2328}.card{fill:#fff;stroke:#d1d9e0}.grid{stroke:#d1d9e0}
.title{font-size:16px;font-weight:600}.front{fill:#0969da;fill-opacity:.55;stroke:#0969da}
.line{fill:none;stroke:#0969da}.beaten{fill:none;stroke:#818b98}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.card{fill:#0d1117;stroke:#3d444d}.grid{stroke:#3d444d}
.front{fill:#4493f8;stroke:#4493f8}.line{stroke:#4493f8}.beaten{stroke:#9198a1}}"""
LEFT, RIGHT, TOP, BOTTOM = 80, 770, 96, 400


def chart(rows: Sequence[Row]) -> str:
    """Flash to the right, cycles upwards, RAM as a circle's area; filled circles are the front, a line a target."""
    done = [row for row in rows if not row.problem]
    flash, cycles, ram = (rounded(max(getattr(row, each) for row in done)) for each in ("flash", "cycles", "ram"))
    best = front(rows)
    parts = []
    for tick in range(5):
        x, y = LEFT + (RIGHT - LEFT) * tick / 4, BOTTOM - (BOTTOM - TOP) * tick / 4
        parts += [f'<path class="grid" d="M{LEFT} {y:.0f}H{RIGHT}M{x:.0f} {BOTTOM}v5"/>']
        parts += [f'<text x="{x:.0f}" y="{BOTTOM + 20}" text-anchor="middle">{flash * tick / 4e3:.1f}</text>']
        parts += [f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{cycles * tick / 4e6:.2f}</text>']
    for target in dict.fromkeys(row.target for row in best):
        own = sorted(place(row, flash, cycles) for row in best if row.target == target)
        parts += [f'<polyline class="line" points="{" ".join(f"{x:.0f},{y:.0f}" for x, y in own)}"/>']
        parts += [f'<text x="{own[-1][0]:.0f}" y="{own[-1][1] - 20:.0f}" text-anchor="middle">{escape(target)}</text>']
    for row in done:
        x, y = place(row, flash, cycles)
        told = f"{row.name}, {row.target}, {row.options}: {row.flash} B flash, {row.ram} B RAM, {row.cycles} cycles"
        kind = "front" if row in best else "beaten"
        circle = f'<circle class="{kind}" cx="{x:.0f}" cy="{y:.0f}" r="{14 * (row.ram / ram) ** 0.5:.1f}">'
        parts += [f"{circle}<title>{escape(told)}</title></circle>"]
    title = "Flash, RAM and cycles of every candidate"
    note = "filled: the Pareto front; a circle's area is its RAM"
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {RIGHT + 30} 440" role="img"><title>{title}</title>',
        f'<style>{STYLE}</style><rect class="card" x=".5" y=".5" width="{RIGHT + 29}" height="439" rx="6"/>',
        f'<text class="title" x="20" y="32">{title}</text><text x="20" y="52">{note}</text>',
        f'<text x="20" y="{TOP - 14}">cycles, millions</text>',
        f'<text x="{RIGHT}" y="{BOTTOM + 36}" text-anchor="end">flash, KB</text>',
    ]
    return "\n".join([*head, *parts, "</svg>\n"])


def rounded(largest: float) -> float:
    """Where an axis ends on which this value lies: at a round number, of which a quarter is round, too."""
    return next(step * 10**digits for digits in range(12) for step in (1, 2, 4, 6, 8) if step * 10**digits > largest)


def place(row: Row, flash: float, cycles: float) -> tuple[float, float]:
    """Where a row stands in the chart, whose axes end at ``flash`` and ``cycles``."""
    return LEFT + (RIGHT - LEFT) * row.flash / flash, BOTTOM - (BOTTOM - TOP) * row.cycles / cycles


def main() -> None:
    """Reads the arguments, compiles, prints and draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", metavar="MODEL.onnx", nargs="+", type=Path)
    parser.add_argument("--target", dest="targets", action="append", required=True, help="may be repeated")
    parser.add_argument("--chart", metavar="FILE.svg", type=Path, help="where to draw")
    parser.add_argument("--dask", metavar="tcp://HOST:PORT", help="the scheduler of a Dask cluster")
    args = parser.parse_args()
    if args.dask is None:
        with ProcessPoolExecutor() as processes:
            rows = sweep(args.models, args.targets, processes)
    else:
        from distributed import Client

        with Client(args.dask) as client:
            rows = sweep(args.models, args.targets, client.get_executor())
    print(table(rows))
    if args.chart is not None and front(rows):
        args.chart.write_text(chart(rows))


if __name__ == "__main__":
    main()
