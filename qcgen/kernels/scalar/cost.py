"""Instructions that the scalar kernels take, for gcc -O3: what they do, counted, times what each of it takes."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import prod

from qcgen.ir.program import Conv
from qcgen.kernels.packing import Packed
from qcgen.kernels.scalar.sums import Loop
from qcgen.kernels.scalar.window import Window


@dataclass(frozen=True)
class Work:
    """How often a call does what takes instructions, or the instructions that each of it takes.

    ``runs`` of windows that are looked for, ``gathered`` elements of those that are collected at the border,
    ``elements`` that are widened, each of them for two windows, ``outputs``, and ``windowed`` ones: all of them if some
    channel has a tie window, because there are fewer registers then.
    """

    runs: float
    gathered: float
    elements: float
    outputs: float
    windowed: float


@dataclass(frozen=True)
class DenseWork:
    """Instructions of scalar/dense: of two elements against four packed weights each, and of all else.

    ``block`` of channels besides the loop over words; ``element`` that is widened; ``output``, and what a tie window
    adds to it.
    """

    packed: float
    block: float
    element: float
    output: float
    windowed: float


CONV = {
    "cortex-m0": Work(runs=7.8, gathered=3.7, elements=8, outputs=40, windowed=5.7),
    "cortex-m3": Work(runs=7.7, gathered=3.3, elements=3.9, outputs=12.1, windowed=3.2),
    "rv32imc": Work(runs=8.2, gathered=9.3, elements=4.0, outputs=16.6, windowed=2.3),
}
"""scalar/conv by core, besides the loops over words."""

DENSE = {
    "cortex-m0": DenseWork(packed=25.5, block=60, element=10, output=35, windowed=5),
    "cortex-m3": DenseWork(packed=14.4, block=24, element=5, output=10, windowed=5),
    "rv32imc": DenseWork(packed=25.6, block=32, element=5, output=13, windowed=5),
}
"""scalar/dense by core."""

ROUND = {"cortex-m0": 6, "cortex-m3": 2, "rv32imc": 6}
"""Instructions of a round of a loop over words besides its groups: a branch, pointers, values that find no register."""

OTHER_OUTPUTS: dict[str, float] = {"raw": 4, "narrow": 16, "wide": 24, "emulated": 120}
"""Instructions of an output step other than *high word*, roughly."""


def conv_work(op: Conv, packed: Packed, window: Window, block: int) -> Work:
    """What scalar/conv does in a call."""
    g = op.geometry
    pixels = prod(g.output)
    blocks = g.batch * -(-pixels // block)
    windows = blocks * block
    inside = prod(axis.inside_end - axis.inside_begin for axis in window.axes) / pixels
    outputs = blocks * min(pixels, block) * g.out_channels
    return Work(
        runs=windows * window.runs if window.is_walked else 0,
        gathered=windows * (1 - inside) * g.taps if window.is_gathered else 0,
        elements=windows / 2 * g.taps,
        outputs=outputs,
        windowed=outputs if packed.epilogue.guarded.size else 0,
    )


def estimate(work: Work, each: Work, loops: float, kind: str) -> float:
    """Instructions of a call whose loops over words take ``loops``."""
    total = sum(count * cost for count, cost in zip(astuple(work), astuple(each), strict=True))
    return float(total + loops + work.outputs * (OTHER_OUTPUTS.get(kind, each.outputs) - each.outputs))


def output_instructions(usual: float, packed: Packed) -> float:
    """Instructions of one output, given those of *high word*."""
    return OTHER_OUTPUTS.get(packed.epilogue.output.kind, usual)


def loop_instructions(core: str, loop: Loop, width: int) -> float:
    """One pass of a block of ``width`` channels over the words of its windows."""
    inside = sum(group.elements / group.size * _group(core, group.size, width) for group in loop.copies)
    behind = sum(_group(core, group.size, width) for group in loop.rest_groups)
    around = ROUND[core] * loop.steps.count if loop.steps.count > 1 else 0
    return around + loop.steps.count * inside + behind


def _group(core: str, size: int, width: int) -> float:
    """A group of elements, as templates/support/scalar_group and scalar_channel write it."""
    match core:
        case "cortex-m3":
            return 3 * size + max(size - 1, 1) + 4
        case "cortex-m0":
            return 4 * size + max(size - 1, 1) + 2 * (size - 1) + 8
        case _:
            return width * (5 * size + 6) + 2 * size
