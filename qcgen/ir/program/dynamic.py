"""Quantization whose scale and zero point depend on the numbers of each call (DynamicQuantizeLinear)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qcgen.ir.program.elementwise import Convert, FloatBinary, FloatUnary
from qcgen.ir.program.tensor import Int64s, Tensor


@dataclass(frozen=True)
class Extremes:
    """y (2,) = the smallest and the largest of all numbers of x and 0, x float32 of any shape; NaN is neither."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class DynamicParameter:
    """The scale () float32, or the zero point () uint8, for numbers between the extremes x (2,)."""

    name: str
    op_type: str
    kind: Literal["scale", "zero point"]
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class DynamicQuantize:
    """y = clamp(round_half_even(x / scale) + zero_point), x float32, y uint8; both parameters () are computed."""

    name: str
    op_type: str
    x: Tensor
    scale: Tensor
    zero_point: Tensor
    y: Tensor


@dataclass(frozen=True)
class ZeroPointCorrection:
    """y = x - zero_point * sums[...]: the sums of a layer, as they are for codes that have the zero point.

    x are those for zero point 0, int32; ``zero_point`` is one computed code of 8 bits. ``sums`` of weights have the
    rank of y; ``places`` say for each axis of y which of them each position takes: windows differ at the border. No sum
    of products with codes is beyond ``bound`` in magnitude; where that is not int32, all is modulo 2^32.
    """

    name: str
    op_type: str
    x: Tensor
    zero_point: Tensor
    y: Tensor
    sums: Int64s
    places: tuple[tuple[int, ...], ...]
    bound: int


@dataclass(frozen=True)
class FloatOutput:
    """What becomes of the integer sums x in float32, element by element: ``steps``, each on what the one before gave.

    The planner makes it of operators of the program: a correction of the zero point, if there is one, the Cast, then
    sums, differences, products and quotients with other operands, at most one activation at the end. x, y and all
    tensors in between have one shape.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    steps: tuple[ZeroPointCorrection | Convert | FloatBinary | FloatUnary, ...]

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """What the steps read besides, in their order."""
        found: list[Tensor] = []
        number = self.x.name
        for step in self.steps:
            match step:
                case ZeroPointCorrection():
                    found.append(step.zero_point)
                case FloatBinary():
                    found.append(step.b if step.a.name == number else step.a)
            number = step.y.name
        return tuple(found)

    @property
    def joined(self) -> tuple[str, ...]:
        """The names of the nodes between the sums and the last one, in execution order."""
        return tuple(step.name for step in self.steps[:-1] if not isinstance(step, ZeroPointCorrection))
