"""Rules for products of matrices: shapes, columns, what is added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

import numpy as np

from qcgen.check.node import NodeView
from qcgen.check.ranges import between
from qcgen.errors import Problem
from qcgen.infer.facts import counted, shape_text
from qcgen.intervals import INT32_MAX
from qcgen.ir.types import Array, DType


def is_weights(view: NodeView) -> bool:
    """Whether input b is one constant matrix, whose columns may have scales of their own."""
    array = view.array("b")
    return array is not None and array.ndim == 2


B_NUMBERS = ("b_scale", "b_zero_point")


def products(view: NodeView) -> Iterator[Problem]:
    """Inputs a and b of codes: b is one constant matrix, or both have leading axes, and their sums fit int32."""
    if is_weights(view):
        yield from columns(view)
        return
    yield from no_vectors(view)
    for role in B_NUMBERS:
        array = view.array(role)
        if array is not None and array.size != 1:
            what = f"{role} has shape {shape_text(array.shape)}, but its operand is not a constant matrix"
            yield view.problem(what, "give one number: only weights have scales of columns")
    yield from _too_long(view, [(view.dtype(role), view.array(f"{role}_zero_point")) for role in ("a", "b")])


def no_vectors(view: NodeView) -> Iterator[Problem]:
    """An operand may be a vector where it is computed alone."""
    for place, role in (("first", "a"), ("second", "b")):
        array = view.array(role)
        if array is not None and array.ndim == 1:
            yield view.problem(f"the {place} operand has shape {shape_text(array.shape)}", "give a matrix")


def computed_zero_point(view: NodeView) -> Iterator[Problem]:
    """The zero point of a is known, or b is one constant matrix."""
    if view.has("a_zero_point") and view.array("a_zero_point") is None and not is_weights(view):
        what = f"a_zero_point is not constant ({view.source('a_zero_point')}), nor is the second operand"
        yield view.problem(what, "quantize the model statically (onnxruntime: quantize_static)")


def sums_between_fit(view: NodeView) -> Iterator[Problem]:
    """The same rule for a product of two computed operands between codes of 8 bits."""
    makers = [view.graph.dequantizer(view.node.input(index)) for index in (0, 1)]
    codes = [view.beside(maker) for maker in makers if maker is not None]
    if None not in between(2)(view) and not is_weights(view):
        yield from _too_long(view, [(each.dtype(0), each.array(2)) for each in codes])


def _too_long(view: NodeView, ends: Sequence[tuple[DType | None, Array | None]]) -> Iterator[Problem]:
    shape, largest = view.fixed_shape("a"), 1
    for dtype, array in ends:
        if dtype is None or not dtype.is_quantized or (array is not None and array.size != 1):
            return
        zero = 0 if array is None else int(array.reshape(()))
        largest *= max(dtype.high - zero, zero - dtype.low)
    if shape and shape[-1] * largest > INT32_MAX:
        what = f"sums of {shape[-1]} products of codes can exceed int32"
        yield view.problem(what, f"split the product: {INT32_MAX // largest} terms fit for every input")


def _columns_of(view: NodeView) -> int | None:
    """How many columns a product with b has."""
    shape = view.fixed_shape("b")
    return None if shape is None or len(shape) != 2 else shape[0 if view.integer("transB", 0) else 1]


def columns(view: NodeView) -> Iterator[Problem]:
    """Scales and zero points of b have one element, or one for every column of the product."""
    count = _columns_of(view)
    for role in B_NUMBERS:
        array = view.array(role)
        if (
            array is not None
            and count is not None
            and (array.size not in (1, count) or array.size != max(array.shape, default=1))
        ):
            what = f"{role} has shape {shape_text(array.shape)}, but the product has {counted(count, 'column')}"
            yield view.problem(what, "give one number, or one for every column")


def bias_of_columns(view: NodeView) -> Iterator[Problem]:
    """The matrix that is added is the same in every row."""
    array, count = view.array("c"), _columns_of(view)
    if array is None or count is None:
        return
    rows = array if array.ndim == 2 else array.reshape(1, -1)
    if array.ndim > 2 or array.shape[-1:] not in ((), (1,), (count,)):
        what = f"C has shape {shape_text(array.shape)}, but the product has {counted(count, 'column')}"
        yield view.problem(what, "give one bias for every column")
    elif (rows != rows[:1]).any():
        yield view.problem("C differs from row to row", "add it in a node of its own")


def quantized_once(view: NodeView) -> Iterator[Problem]:
    """QGemm without y_scale gives floats; with it, it needs y_zero_point, which tells the type."""
    for role, other in (("y_scale", "y_zero_point"), ("y_zero_point", "y_scale")):
        if view.has(role) and not view.has(other):
            yield view.problem(f"it has {role}, but no {other}", "give both, or none of them")
    weights = view.array("b_scale")
    if not view.has("y_scale") and weights is not None and weights.size != 1:
        yield view.problem("its result is float, but b_scale has one number for every column", "give it a y_scale")


def finite_factors(view: NodeView) -> Iterator[Problem]:
    """Gemm: alpha and beta are multiplied into the constants, which are written into C as numbers."""
    for name, role in (("alpha", "b"), ("beta", "c")):
        factor, array = view.node.attributes.get(name, 1.0), view.array(role)
        if not isinstance(factor, float | int) or array is None or array.dtype != np.float32:
            continue
        with np.errstate(all="ignore"):
            folded = array * np.float32(factor)
        if np.isfinite(array).all() and not np.isfinite(folded).all():
            yield view.problem(f"{name} is {factor:.6g}: its product with a constant is not finite", f"correct {name}")


def positive_alpha(view: NodeView) -> Iterator[Problem]:
    """QGemm: alpha scales the result as the scales do."""
    alpha = view.node.attributes.get("alpha", 1.0)
    if isinstance(alpha, float | int) and not (isfinite(alpha) and np.float32(alpha) > 0):
        yield view.problem(f"alpha is {alpha:.6g}, but must be positive and finite", "correct alpha")
