"""Bytes of an operation in C and cycles of each kernel, counted on emulated cores: writes qcgen/plan/measured.csv.

Built with gcc -O2, each layer with functions of its own, for size and for speed.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from unittest.mock import patch

import numpy as np
from onnx import ModelProto

import qcgen
import qcgen.plan
from qcgen.emulate import measure, random_feeds
from qcgen.errors import ToolMissing
from qcgen.estimate import operations
from qcgen.ir.program import inputs_of, macs_of
from qcgen.kernels import SIZE, SPEED, TRANSFORMING_MORE
from tests.bench.compiling import mcunet, mobilenet_v2
from tests.bench.whole import DIGITS, MLPERF

CORES = {
    "cortex-m0": ("cortex-m0",),
    "cortex-m3": ("cortex-m3", "portable"),
    "cortex-m4": ("cortex-m4",),
    "cortex-m55": ("cortex-m55",),
    "rv32imc": ("rv32imc",),
}
"""The targets that are measured on each core: portable code, too, where its kernels do not serve anyway."""

ONLY_TRANSFORMING = {"arm_dsp/winograd_in_ram"}
"""Kernels that neither --optimize size nor speed chooses, but --flash."""

DOCUMENT = Path(__file__).parents[2] / "qcgen" / "plan" / "measured.csv"
HEAD = "core,kernel,optimize,code,per_mac,per_element"


@dataclass(frozen=True)
class Layer:
    """What was counted of one layer."""

    kernel: str
    optimize: str
    operations: float
    code: int
    macs: int
    elements: int
    cycles: int


def models() -> Iterator[Callable[[], Path | ModelProto]]:
    """The networks that are there, and two with random weights."""
    for each in (*MLPERF, *DIGITS):
        if each.path.is_file():
            yield lambda path=each.path: path
    yield mcunet
    yield lambda: mobilenet_v2(0.35, 96)


def layers(target: str, core: str) -> Iterator[Layer]:
    """Of all networks."""
    for model, form in product(models(), (SIZE, SPEED, TRANSFORMING_MORE)):
        with (
            patch.object(qcgen.plan, "share", lambda works, *_: list(works)),
            patch.object(qcgen.plan, "SPEED", form),
        ):
            artifact = qcgen.compile(
                model(), name="net", target=target, layout="nhwc", optimize=form.optimize, io="quantized"
            )
        plan = artifact.plan
        counted = operations(plan, joins=False)
        try:
            measured = measure(artifact, random_feeds(plan, 1), flags=("-O2",), core=core)
        except ToolMissing as error:
            if "will not fit" not in str(error):
                raise
            continue  # the emulated board has less flash
        for call, node, own in zip(plan.calls, measured.nodes, counted[:-1], strict=True):
            elements = call.op.y.size + max(x.size for x in inputs_of(call.op))
            if own and (form is not TRANSFORMING_MORE or call.kernel in ONLY_TRANSFORMING):
                yield Layer(call.kernel, form.optimize, own, node.code_bytes, macs_of(call.op), elements, node.cycles)


def rows(core: str) -> Iterator[str]:
    """The numbers of a core, in lines of the file."""
    found: dict[tuple[str, str], list[Layer]] = defaultdict(list)
    for target in CORES[core]:
        known = set(found)
        for layer in layers(target, core):
            if (layer.kernel, layer.optimize) not in known:
                found[layer.kernel, layer.optimize].append(layer)
    for (kernel, optimize), own in sorted(found.items()):
        code = fitted([[layer.operations] for layer in own], [layer.code for layer in own])
        time = fitted([[layer.macs, layer.elements] for layer in own], [layer.cycles for layer in own])
        yield f"{core},{kernel},{optimize},{code[0]:.2f},{time[0]:.2f},{time[1]:.2f}"


def fitted(features: list[list[float]], counts: list[int]) -> list[float]:
    """The factors of the features, none below 0, with the least squares of relative errors."""
    weights = 1 / np.maximum(counts, 1.0)
    a, y = np.array(features, float) * weights[:, None], np.array(counts, float) * weights
    best, factors = np.inf, np.zeros(a.shape[1])
    for count in range(1, a.shape[1] + 1):
        for chosen in combinations(range(a.shape[1]), count):
            own = np.linalg.lstsq(a[:, chosen], y, rcond=None)[0]
            error = float(np.sum((a[:, chosen] @ own - y) ** 2))
            if own.min() >= 0 and error < best:
                best, factors = error, np.zeros(a.shape[1])
                factors[list(chosen)] = own
    return [float(each) for each in factors]


def main() -> None:
    """Measures the cores that are named, all by default; --write needs all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--core", choices=tuple(CORES), action="append")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if args.write and args.core:
        parser.error("--write needs all cores")
    lines = [HEAD]
    for core in args.core or CORES:
        lines += rows(core)
        print(lines[-1], file=sys.stderr)
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
