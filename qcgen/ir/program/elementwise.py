"""Operators that work element by element, or only move elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qcgen.ir.program.operands import FloatActivation, Int64s, Tensor
from qcgen.ir.types import Array


@dataclass(frozen=True)
class Lookup:
    """y = table[x]: any function of a single quantized number.

    ``table`` (256,) int64 holds the output code of each input code, from the smallest of x's type to the largest. Of
    codes of 16 bits it has 65,536 and is a clamp. ``joined`` names the operators in front of this one that the table
    computes, too, in execution order.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    table: Int64s
    joined: tuple[str, ...] = ()


@dataclass(frozen=True)
class Embedding:
    """y[i..., ...] = table[x[i...], ...]: rows of a constant table (Gather along axis 0), x int32 or int64.

    Numbers below 0 count from the end. onnxruntime fails where there is no such row; here numbers beyond either end
    take the first or the last one. ``table`` (rows, ...) is in y's type.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    table: Array


@dataclass(frozen=True)
class ChannelLookup:
    """y = tables[channel, x]: a function of a single quantized number for each place of ``axis``.

    ``tables`` (C, 256) int64 holds the output code of each input code, from the smallest of x's type to the largest.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    axis: int
    tables: Int64s


BinaryKind = Literal["add", "mul", "squared_difference", "sub"]

Scaling = tuple[int, int]
"""A multiplier in [2^30, 2^31), or 0, and the exponent e of a scale multiplier * 2^(e - 31)."""


@dataclass(frozen=True)
class IntegerBinary:
    """TensorFlow Lite's sums, differences, their squares and products, in integers (arithmetic.binary_in_integers).

    ``a`` and ``b`` scale the operands of sums, times 2^``shift``; ``y`` scales the result. ``low`` and ``high`` are the
    bounds of the output's type, or tighter where an activation clips.
    """

    shift: int
    a: Scaling
    b: Scaling
    y: Scaling
    low: int
    high: int


@dataclass(frozen=True)
class Scaled:
    """A code less its zero point, times ``above``, or times ``below`` where it is negative, each rounded twice."""

    above: Scaling
    below: Scaling


@dataclass(frozen=True)
class Sigmoid:
    """The logistic function or the hyperbolic tangent in units of 2^-15, by lines between the numbers of a table.

    Of the code less its zero point times ``multiplier`` / 2^``shift``, rounded half up: in units of 3/4 * 2^-14, about.
    """

    kind: Literal["logistic", "tanh"]
    multiplier: int
    shift: int


@dataclass(frozen=True)
class IntegerUnary:
    """y = clamp(function(x - x's zero point) + y's zero point, low, high), in TensorFlow Lite's integers.

    Functions of a code of 16 bits, for which a table would be too large (arithmetic.unary_in_integers). y may be int32,
    whose zero point is 0. ``low`` and ``high`` are the bounds of y's type, or tighter where an activation clips.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    function: Scaled | Sigmoid
    low: int
    high: int


@dataclass(frozen=True)
class QuantizedBinary:
    """y = a + b or a * b of quantized tensors, with numpy's broadcasting, by arithmetic.add or arithmetic.multiply.

    Where a tensor has 16 bits, by arithmetic.add_floats, multiply_floats or subtract_floats: only such are subtracted.
    Scales and zero points are those of the tensors. An operand may be a constant of the program. ``by`` says that it is
    TensorFlow Lite's operator, which may be a difference or its square, too.
    """

    name: str
    op_type: str
    kind: BinaryKind
    a: Tensor
    b: Tensor
    y: Tensor
    by: IntegerBinary | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest code of y."""
        return (self.y.dtype.low, self.y.dtype.high) if self.by is None else (self.by.low, self.by.high)

    @property
    def is_wide(self) -> bool:
        """Whether a tensor has 16 bits."""
        return any(tensor.dtype.is_16_bit for tensor in (self.a, self.b, self.y))


@dataclass(frozen=True)
class Quantize:
    """y = clamp(round_half_even(x / y_scale) + y_zero_point), x float32 (QuantizeLinear, per tensor).

    ``is_away``: half away from zero instead, as TensorFlow Lite rounds.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    is_away: bool = False


@dataclass(frozen=True)
class Dequantize:
    """y = (x - x_zero_point) * x_scale in float32 (DequantizeLinear, per tensor); x is int8, uint8 or int32.

    ``in_float``: x are sums, which onnxruntime adds up in float32.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    in_float: bool = False


@dataclass(frozen=True)
class Convert:
    """y = x in another type (Cast): exact, or rounded half to even; to an integer truncated and saturated, NaN lowest.

    From float64 to float16 by way of float32, as in onnxruntime. To bool: whether x is not 0.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class FloatUnary:
    """An activation of float32 numbers, element by element; Relu of float64, too."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    activation: FloatActivation


@dataclass(frozen=True)
class FloatBinary:
    """a + b, a - b, a * b, a / b, the larger, the smaller, a to the power b, or a where it is at least 0, else b * a.

    In float32, with numpy's broadcasting; an operand may be a program's constant.
    """

    name: str
    op_type: str
    kind: Literal["add", "sub", "mul", "div", "max", "min", "pow", "prelu"]
    a: Tensor
    b: Tensor
    y: Tensor


Comparison = Literal["greater", "greater or equal", "less", "less or equal", "equal"]
"""How two numbers are compared; NaN is none of these to any number."""


@dataclass(frozen=True)
class Select:
    """c where a compares so to b, else d: ``xs`` are (a, b, c, d), float32, with numpy's broadcasting.

    ``is_negated``: c where a does not compare so to b. Of c the sign of zero is lost: -0 becomes 0; that of d is kept.
    Operands may be constants of the program, and the same tensor may be several of them.
    """

    name: str
    op_type: str
    comparison: Comparison
    xs: tuple[Tensor, Tensor, Tensor, Tensor]
    y: Tensor
    is_negated: bool = False


# Operators that only move elements.


@dataclass(frozen=True)
class Transpose:
    """Axis i of y is axis ``perm[i]`` of x."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    perm: tuple[int, ...]


@dataclass(frozen=True)
class Reshape:
    """The same elements in the same order under another shape (Reshape, Flatten, Squeeze, Unsqueeze, Identity)."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Concat:
    """The inputs one after the other along ``axis``; all of y's type, scale and zero point."""

    name: str
    op_type: str
    xs: tuple[Tensor, ...]
    y: Tensor
    axis: int


@dataclass(frozen=True)
class Slice:
    """y[i, j, ...] = x[starts[0] + i * steps[0], ...], one entry per axis; steps may be negative (Slice, Split)."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Pad:
    """x with ``before[i]`` elements of ``value`` (a code, or a float) in front on axis i, the rest of y behind."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    before: tuple[int, ...]
    value: float


@dataclass(frozen=True)
class Resize:
    """y[i, j, ...] = x[places[0][i], places[1][j], ...], one tuple of places per axis.

    Nearest-neighbour resizing (Resize), elements at constant indices (Gather), repeated ones (Expand, Tile).
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    places: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class GatherElements:
    """y[..., i, ...] = x[..., places[..., i, ...], ...] along ``axis``; places, int32 or int64, have y's shape.

    Numbers below 0 count from the end. onnxruntime fails beyond either end; here the first or the last one is taken.
    """

    name: str
    op_type: str
    x: Tensor
    places: Tensor
    y: Tensor
    axis: int


@dataclass(frozen=True)
class Between:
    """Where the places of an axis of y lie in x: behind the place ``first``, ``part`` 1,024ths of the way to the next.

    Both are integers, one for each place of y; ``part`` is 0 at the last place of x.
    """

    first: tuple[int, ...]
    part: tuple[int, ...]


@dataclass(frozen=True)
class Interpolate:
    """Images (N, H, W, C) of codes, resized bilinearly (arithmetic.interpolate); x and y have the same meaning.

    ``down`` and ``across`` are the axes 1 and 2. ``truncates``: what is between two codes goes toward 0, not to the
    nearer one.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    down: Between
    across: Between
    truncates: bool = False


Movement = Transpose | Reshape | Concat | Slice | Pad | Resize
"""The operators that only move elements."""
