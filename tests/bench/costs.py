"""Predicted instructions beside measured ones, kernel by kernel, on emulated cores; finds the kernels' figures anew.

``python -m tests.bench.costs --cores m4 --only arm_dsp`` prints how far predictions are off over random layers. With
``--write`` it fits the figures to other random layers and rewrites the tables in the source, for these cores alone:
what is to be done after a kernel was changed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from qcgen.artifact import Artifact
from qcgen.cli.table import number, table
from qcgen.emulate import measure, missing_tools, random_feeds
from qcgen.intervals import annotate
from qcgen.ir.plan import Options
from qcgen.ir.program import Conv, Operator, Program, inputs_of
from qcgen.kernels import KERNELS, Kernel, Setting
from qcgen.kernels.cost import Estimate, Terms
from qcgen.plan import plan
from qcgen.render import render
from qcgen.targets import EMULATED, TARGETS
from tests.bench.cortex import cores_named
from tests.bench.cost_layers import FAMILIES, operators

ROOT = Path(__file__).resolve().parents[2]
FIT_SEED, CHECK_SEED = 1, 2
FIT_LAYERS, CHECK_LAYERS = 40, 12
MORE_OF = {
    "arm_dsp/winograd": 4,
    "arm_dsp/short_window": 4,
    "arm_dsp/depthwise": 4,
    "arm_dsp/depthwise_direct": 3,
    "arm_dsp/depthwise_rows": 2,
    "arm_dsp/pointwise": 2,
    "portable/conv": 4,
    "portable/pointwise": 4,
    "portable/depthwise_nhwc": 3,
    "portable/depthwise_nchw": 3,
    "portable/copy": 3,
    "portable/max_pool": 3,
    "portable/average_pool": 3,
}
"""Times as many layers: some refuse all that are for --optimize size, or speed, and more; some have loops of many
shapes."""
IMAGE_OPERATORS = 20  # three tensors each, which the memory holds at the same time
IMAGE_BYTES = 150_000  # of constants: what fits the smallest memory of the emulated machines, code included
SMALL = 5000  # instructions below which a few more or less matter to nobody

TYPICAL = {
    "multiply": 1.0,
    "load": 1.0,
    "operation": 2.0,
    "step": 3.0,
    "raw output": 2.0,
    "output": 6.0,
    "high word output": 12.0,
    "wide output": 16.0,
    "narrow output": 14.0,
    "emulated output": 20.0,
    "exact output": 300.0,
    "always exact output": 20.0,
    "exact addition": 60.0,
    "emulation": 150.0,
    "repeated output": 20.0,
    "own multipliers": 1.0,
    "own offsets": 1.0,
    "clamp": 2.0,
    "call": 20.0,
    "two windows": 25.0,
    "border window": 40.0,
    "gathered row": 25.0,
    "found window": 12.0,
    "border window apart": 40.0,
    "gathered row apart": 25.0,
    "gathered byte apart": 1.0,
    "word of one window": 6.0,
    "parted word": 15.0,
    "parted border word": 15.0,
    "parted outside word": 10.0,
    "planes": 40.0,
    "channel": 25.0,
    "tile": 40.0,
    "channel of a tile": 20.0,
    "point": 6.0,
    "interpolate": 1.2,
    "interpolated column": 8.0,
    "column of pixels at 4 points": 60.0,
    "column of pixels at 6 points": 90.0,
    "row of values at 4 points": 30.0,
    "row of values at 6 points": 50.0,
    "lone axis at 4 points": 60.0,
    "lone axis at 6 points": 90.0,
    "gathered pixel": 15.0,
    "gathered element": 8.0,
    "gathered byte": 1.0,
    "byte of a block": 0.5,
    "filled byte": 0.5,
    "moved byte": 0.5,
    "block": 20.0,
    "product": 1.0,
    "weight": 1.0,
    "read element": 1.0,
    "product beyond 3 windows": 1.0,
    "split output": 14.0,
    "tie window": 2.0,
    "signed code": 3.0,
    "window": 15.0,
    "position": 6.0,
    "tap of 1 in a loop": 5.0,
    "tap of 2 in a loop": 7.0,
    "tap of 4 in a loop": 11.0,
    "tap of 4 in a long loop": 11.0,
    "signed tap of 1 in a loop": 5.0,
    "signed tap of 2 in a loop": 7.0,
    "signed tap of 4 in a loop": 11.0,
    "signed tap of 4 in a long loop": 11.0,
    "wide tap of 1 in a loop": 5.0,
    "wide tap of 2 in a loop": 7.0,
    "wide tap of 4 in a loop": 11.0,
    "wide tap of 4 in a long loop": 11.0,
    "tap of 1 written out": 3.0,
    "tap of 2 written out": 5.0,
    "tap of 4 written out": 9.0,
    "tap of 4 few written out": 9.0,
    "tap of 4 raw sums written out": 8.0,
    "division": 5.0,
    "tap kept for all channels": 1.5,
    "shifted word in a loop": 5.0,
    "shifted word written out": 3.0,
    "shifted byte in a loop": 4.0,
    "shifted byte written out": 3.0,
    "widened tap written out": 2.0,
    "shifted tap": 1.0,
    "moved word": 2.0,
    "padded word": 1.0,
    "padded byte": 1.0,
    "padded tap written out": 1.0,
    "run moved by memcpy": 25.0,
    "run filled by memset": 25.0,
    "byte moved by memcpy": 0.5,
    "byte filled by memset": 0.5,
}
OTHER = 4.0
DRAWN = 1e-4
"""What work takes on a core of 32 bits, roughly, and how strongly figures are drawn to it where layers tell little."""

BY_KERNEL = {"portable/softmax": 300.0, "portable/quantize": 100.0, "portable/dequantize": 30.0}


@dataclass(frozen=True)
class Sample:
    """An operator as a kernel got it, and the instructions that it took."""

    kernel: str
    op: Operator
    setting: Setting
    measured: int


def samples(core: str, kernel: Kernel, optimize: str, ops: Sequence[Operator]) -> list[Sample]:
    """Measures operators with the one kernel, as many in an image as its memory holds; leaves out what it refuses."""
    found: list[Sample] = []
    for batch in _batches(ops):
        settings: dict[str, tuple[Operator, Setting]] = {}

        def noted(op: Operator, setting: Setting, settings: dict = settings) -> None:
            settings[op.name] = op, setting

        artifact = _compiled(core, replace(kernel, cost=noted), optimize, batch)
        if artifact is None:
            continue
        measured = measure(artifact, random_feeds(artifact.plan, seed=1))
        found += [Sample(kernel.name, *settings[node.name], node.instructions) for node in measured.nodes]
    return found


def _batches(ops: Iterable[Operator]) -> Iterable[list[Operator]]:
    batch: list[Operator] = []
    held = 0
    for op in ops:
        size = 4 * op.weights.size if isinstance(op, Conv) else 2000
        if batch and (held + size > IMAGE_BYTES or len(batch) == IMAGE_OPERATORS):
            yield batch
            batch, held = [], 0
        batch.append(op)
        held += size
    yield batch


def _compiled(core: str, kernel: Kernel, optimize: str, ops: Sequence[Operator]) -> Artifact | None:
    """A program of operators side by side, all that the kernel accepts; None if there are none."""
    options = Options(target=core, optimize=optimize)
    accepted = [op for op in ops if _accepts(kernel, op, options)]
    if not accepted:
        return None
    with patch("qcgen.plan.KERNELS", (kernel,)):
        return _planned(accepted, options)


def _accepts(kernel: Kernel, op: Operator, options: Options) -> bool:
    try:
        with patch("qcgen.plan.KERNELS", (kernel,)):
            plan(annotate(_program([op])), options, "bench", "bench")
    except AssertionError:
        return False
    return True


def _program(ops: Sequence[Operator]) -> Program:
    inputs = tuple(x for op in ops for x in dict.fromkeys(inputs_of(op)))
    return Program("bench", inputs, tuple(op.y for op in ops), tuple(ops), "")


def _planned(ops: Sequence[Operator], options: Options) -> Artifact:
    program = _program(ops)
    annotated = annotate(program)
    own = plan(annotated, options, "bench", "bench")
    return Artifact(program, annotated, own, render(own))


def measured(core: str, kernel: Kernel, seed: int, count: int) -> list[Sample]:
    """Random layers of a seed; half of them with --optimize size, half with speed."""
    ops = operators(kernel.name, seed, count * MORE_OF.get(kernel.name, 1))
    return [each for i, aim in enumerate(("size", "speed")) for each in samples(core, kernel, aim, ops[i::2])]


def terms_of(estimate: Estimate, sample: Sample) -> Terms:
    """The work that the kernel counts."""
    return estimate.terms(sample.op, estimate.prepare(sample.op, sample.setting))


def fitted(estimate: Estimate, found: Sequence[Sample]) -> dict[str, float]:
    """The figures with the least relative errors, in squares; none is negative. Errors of small layers count less."""
    terms = [terms_of(estimate, sample) for sample in found]
    kinds = sorted({kind for each in terms for kind in each})
    other = BY_KERNEL.get(found[0].kernel, OTHER)
    typical = np.array([other if kind == "element" else TYPICAL.get(kind, OTHER) for kind in kinds])
    weights = np.array([1 / (sample.measured + SMALL / 5) for sample in found])
    rows = np.array([[each.get(kind, 0.0) for kind in kinds] for each in terms]) * typical * weights[:, None]
    wanted = np.array([sample.measured for sample in found]) * weights
    drawn = np.sqrt(DRAWN) * np.eye(len(kinds))
    solution = _least_squares(np.concatenate([rows, drawn]), np.concatenate([wanted, drawn.sum(axis=1)]))
    return dict(zip(kinds, (solution * typical).tolist(), strict=True))


def _least_squares(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Without negative unknowns, one unknown after the other until nothing moves."""
    squares, products = rows.T @ rows, rows.T @ wanted
    found = np.maximum(np.linalg.solve(squares, products), 0)
    for _ in range(20_000):
        before = found.copy()
        for i in range(len(found)):
            found[i] = max(0.0, found[i] + (products[i] - squares[i] @ found) / squares[i, i])
        if np.abs(found - before).max() < 1e-7:
            break
    return found


def error(kernel: Kernel, sample: Sample) -> float:
    """Predicted through measured, less 1."""
    predicted = kernel.cost(sample.op, sample.setting)
    return float("nan") if predicted is None else predicted / sample.measured - 1


_HEAD = ("kernel", "layers", "mean error", "largest", "within 15 %", "of", "largest above 5 000", "layer of that")


def summary(kernel: Kernel, found: Sequence[Sample]) -> tuple[str, ...]:
    """One kernel's row."""
    errors = np.array([error(kernel, sample) for sample in found])
    large = [(abs(error(kernel, sample)), sample) for sample in found if sample.measured >= SMALL]
    worst, at = max(large, key=lambda pair: pair[0], default=(0.0, None))
    good = sum(each <= 0.15 for each, _ in large)
    means = (f"{100 * value:.1f} %" for value in (np.abs(errors).mean(), np.abs(errors).max()))
    what = f"{at.op.name}, {number(at.measured)} instructions" if at else ""
    return kernel.name, str(len(found)), *means, str(good), str(len(large)), f"{100 * worst:.1f} %", what


def table_text(family: str, figures: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """The source of a family's table; ``figures`` by kernel, core and kind of work."""
    cores = [core for core in EMULATED if any(core in by_core for by_core in figures.values())]
    lines = [f'"""Instructions that each kind of work of the {family} kernels takes, by core, compiled by gcc -O3.', ""]
    lines += [
        "Written by ``python -m tests.bench.costs --write``. None: there is no such work on the core, or it has not"
    ]
    lines += ["been measured.", '"""', "", "from qcgen.kernels.cost import by_core", ""]
    lines += ["CORES = (" + ", ".join(f'"{core}"' for core in cores) + ")", "", "FIGURES = {"]
    for name, by_core in figures.items():
        lines += [f'    "{name}": by_core(', "        CORES,", "        {"]
        for kind in sorted({kind for each in by_core.values() for kind in each}):
            row = ", ".join(_value(by_core.get(core, {}).get(kind)) for core in cores)
            lines.append(f'            "{kind}": ({row}{"," if len(cores) == 1 else ""}),')
        lines += ["        },", "    ),"]
    return "\n".join([*lines, "}", ""])


def _value(figure: float | None) -> str:
    return "None" if figure is None else f"{figure:.2f}"


def write(kernels: Iterable[Kernel], new: Mapping[str, Mapping[str, dict[str, float]]]) -> None:
    """Rewrites the tables of the families that ``new`` (by kernel and core) belongs to; other figures stay."""
    families: dict[str, dict[str, dict[str, Mapping[str, float]]]] = {}
    for kernel in kernels:
        if isinstance(kernel.cost, Estimate):
            family = kernel.name.split("/")[0]
            known = {core: each for core, each in kernel.cost.figures.items() if each}
            families.setdefault(family, {})[kernel.name] = {**known, **new.get(kernel.name, {})}
    for family in {name.split("/")[0] for name in new}:
        path = ROOT / "qcgen" / "kernels" / family / "figures.py"
        path.write_text(table_text(family, families[family]))


def _kernels(core: str, only: str) -> Iterator[Kernel]:
    for kernel in KERNELS:
        if kernel.needs <= TARGETS[core].features and kernel.name in FAMILIES and only in kernel.name:
            yield kernel


def main() -> int:
    """Prints the errors; fits and writes the figures before, if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.costs", description=__doc__)
    parser.add_argument("--cores", type=cores_named, default=EMULATED, help="for example m4,m0 (default: all)")
    parser.add_argument("--only", default="", metavar="NAME", help="kernels whose name contains this")
    parser.add_argument("--write", action="store_true", help="fit the figures and write them into the source")
    args = parser.parse_args()
    new: dict[str, dict[str, dict[str, float]]] = {}
    for core in args.cores:
        if missing := missing_tools(TARGETS[core], counting=True):
            print(f"{core} is left out; missing: {', '.join(missing)}", file=sys.stderr)
            continue
        rows = []
        for kernel in _kernels(core, args.only):
            cost = kernel.cost
            if args.write and isinstance(cost, Estimate):
                found = fitted(cost, measured(core, kernel, FIT_SEED, FIT_LAYERS))
                new.setdefault(kernel.name, {})[core] = found
                cost = replace(cost, figures={**cost.figures, core: found})
            rows.append(summary(replace(kernel, cost=cost), measured(core, kernel, CHECK_SEED, CHECK_LAYERS)))
        print(f"{core}\n\n{table(_HEAD, rows, _HEAD[1:-1])}\n", flush=True)
    if new:
        write(KERNELS, new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
