"""Operators on the rows of a tensor, along its last axis: a function of the library for each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import Operator, Tensor, inputs_of
from qcgen.ir.types import DType
from qcgen.kernels.kernel import Setting
from qcgen.kernels.loop_nest import Dimension, LoopNest, loop_nest, strides


@dataclass(frozen=True)
class RowsCall(Context):
    """A loop over rows."""

    template: ClassVar[str] = "kernels/portable/rows.c.jinja"

    nest: LoopNest  # over the first elements of the rows
    x_type: str  # of C
    y_type: str  # of C
    row: str  # the library's function for a row
    cast: str  # of y for that function, in C
    layer: Struct
    line: Struct | None  # a fixed-point form of codes, if there is one
    has_deviations: bool  # the function gets scratch memory for those of a row


def rows_call(
    op: Operator, setting: Setting, row: str, layer: Struct, line: Struct | None = None, *, has_deviations: bool = False
) -> RowsCall:
    """The loop over the rows of an operator. The layer gets their length and the steps along them.

    ``row``: the function's name, without the letters for the type of bytes.
    """
    [x, *_], y = inputs_of(op), op.y
    x_steps, y_steps = strides(x.shape, setting.xs[0]), strides(y.shape, setting.y)
    dimensions = [Dimension(size, {"x": i, "y": o}) for size, i, o in zip(x.shape[:-1], x_steps, y_steps, strict=False)]
    sizes: Mapping[str, int] = {"length": x.shape[-1], "x_along": x_steps[-1], "y_along": y_steps[-1]}
    return RowsCall(
        nest=loop_nest(dimensions, ("x", "y"), {}),
        x_type=x.dtype.c,
        y_type=y.dtype.c,
        row=f"{row}{of_bytes(x.dtype)}",
        cast="(uint8_t *)" if y.dtype is DType.INT8 else "",
        layer=replace(layer, numbers={**sizes, **layer.numbers}),
        line=line,
        has_deviations=has_deviations,
    )


def of_bytes(dtype: DType) -> str:
    """How the names of the library's functions of bytes end."""
    return {DType.INT8: "_s8", DType.UINT8: "_u8"}.get(dtype, "")


def in_place(x: Tensor, setting: Setting) -> tuple[int, ...]:
    """A row is read to its end before the first element of it is written, and each element before it is."""
    return (0,) if strides(x.shape, setting.xs[0]) == strides(x.shape, setting.y) else ()
