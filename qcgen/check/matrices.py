"""Rules for products of matrices: shapes, columns, what is added."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

import numpy as np

from qcgen.check.model import counted, shape_text
from qcgen.check.node import Extra, NodeView, broadcast_problems
from qcgen.errors import Problem
from qcgen.intervals import INT32_MAX


def matrices(a: int, b: int) -> Extra:
    """A rule: input ``b`` is a matrix whose rows fit the columns of ``a``, transposed as transA and transB say."""

    def rule(view: NodeView) -> Iterator[Problem]:
        first, second = view.shape(a), view.shape(b)
        if second is not None and len(second) != 2:
            what = f"the second operand has shape {shape_text(second)}, but must be a matrix"
            yield view.problem(what, "use a convolution, or split the product")
            return
        is_gemm = "Gemm" in view.node.op_type
        if first is not None and (len(first) != 2 if is_gemm else not first):
            yield view.problem(f"the first operand has shape {shape_text(first)}", "give a matrix")
            return
        if first is None or second is None:
            return
        inner = first[0] if is_gemm and view.integer("transA", 0) else first[-1]
        rows = second[1] if view.integer("transB", 0) else second[0]
        if isinstance(inner, int) and isinstance(rows, int) and inner != rows:
            yield view.problem(f"the first operand has {inner} columns, the second {rows} rows", "correct the weights")

    return rule


def is_weights(view: NodeView, b: int) -> bool:
    """Whether input ``b`` is one constant matrix, whose columns may have scales of their own."""
    array = view.array(b)
    return array is not None and array.ndim == 2


def products(a: int, b: int, a_zero_point: int, b_roles: tuple[tuple[str, int], ...]) -> Extra:
    """A rule: inputs ``a`` and ``b`` can be multiplied; b is one constant matrix, or both have leading axes.

    ``b_roles``: b's scale, if it has one, and last its zero point, by name and input; ``a_zero_point``: that of a.
    """
    weights, numbers = matrices(a, b), columns(b, b_roles)

    def rule(view: NodeView) -> Iterator[Problem]:
        if is_weights(view, b):
            yield from (*weights(view), *numbers(view))
            return
        yield from _shapes_fit(view, a, b)
        for role, index in b_roles:
            array = view.array(index)
            if array is not None and array.size != 1:
                what = f"{role} has shape {shape_text(array.shape)}, but its operand is not a constant matrix"
                yield view.problem(what, "give one number: only weights have scales of columns")
        yield from _overflows(view, a, ((a, a_zero_point), (b, b_roles[-1][1])))

    return rule


def computed_zero_point(b: int, zero_point: int) -> Extra:
    """A rule: a's zero point at input ``zero_point`` is known, or b is one constant matrix."""

    def rule(view: NodeView) -> Iterator[Problem]:
        if not view.has(zero_point) or view.array(zero_point) is not None:
            return
        if not is_weights(view, b):
            what = f"a_zero_point is not constant ({view.source(zero_point)}), nor is the second operand"
            yield view.problem(what, "quantize the model statically (onnxruntime: quantize_static)")

    return rule


def float_products(a: int, b: int) -> Extra:
    """A rule: inputs ``a`` and ``b`` of float32 numbers can be multiplied; each may be constant."""
    weights = matrices(a, b)

    def rule(view: NodeView) -> Iterator[Problem]:
        yield from weights(view) if is_weights(view, b) else _shapes_fit(view, a, b)

    return rule


def _shapes_fit(view: NodeView, a: int, b: int) -> Iterator[Problem]:
    """Both operands are matrices with leading axes, or vectors, as numpy multiplies them."""
    first, second = view.shape(a), view.shape(b)
    if first is None or second is None:
        return
    for place, index, shape in (("first", a, first), ("second", b, second)):
        if not shape or (len(shape) == 1 and view.array(index) is not None):
            yield view.problem(f"the {place} operand has shape {shape_text(shape)}", "give a matrix")
            return
    inner, rows = first[-1], second[-2] if len(second) > 1 else second[0]
    if isinstance(inner, int) and isinstance(rows, int) and inner != rows:
        yield view.problem(f"the first operand has {inner} columns, the second {rows} rows", "correct the operands")
    yield from broadcast_problems(view, (first[:-2], second[:-2]), (first, second))


def _overflows(view: NodeView, a: int, operands: tuple[tuple[int, int], ...]) -> Iterator[Problem]:
    """Sums of products of two computed operands that some codes would take beyond int32."""
    shape, largest = view.fixed_shape(a), 1
    for index, zero_point in operands:
        dtype, array = view.dtype(index), view.array(zero_point)
        if dtype is None or not dtype.is_quantized or (array is not None and array.size != 1):
            return
        zero = 0 if array is None else int(array.reshape(()))
        largest *= max(dtype.high - zero, zero - dtype.low)
    if shape and shape[-1] * largest > INT32_MAX:
        what = f"sums of {shape[-1]} products of codes can exceed int32"
        yield view.problem(what, f"split the product: {INT32_MAX // largest} terms fit for every input")


def _columns_of(view: NodeView, b: int) -> int | None:
    """How many columns a product with input ``b`` has."""
    shape = view.fixed_shape(b)
    return None if shape is None or len(shape) != 2 else shape[0 if view.integer("transB", 0) else 1]


def columns(b: int, roles: tuple[tuple[str, int], ...]) -> Extra:
    """A rule: these inputs have one element, or one for every column of the product with input ``b``."""

    def rule(view: NodeView) -> Iterator[Problem]:
        count = _columns_of(view, b)
        for role, index in roles:
            array = view.array(index)
            if (
                count is not None
                and array is not None
                and (array.size not in (1, count) or array.size != max(array.shape, default=1))
            ):
                what = f"{role} has shape {shape_text(array.shape)}, but the product has {counted(count, 'column')}"
                yield view.problem(what, "give one number, or one for every column")

    return rule


def bias_of_columns(c: int, b: int) -> Extra:
    """A rule: the matrix that is added is the same in every row."""

    def rule(view: NodeView) -> Iterator[Problem]:
        array, count = view.array(c), _columns_of(view, b)
        if array is None or count is None:
            return
        rows = array if array.ndim == 2 else array.reshape(1, -1)
        if array.ndim > 2 or array.shape[-1:] not in ((), (1,), (count,)):
            what = f"C has shape {shape_text(array.shape)}, but the product has {counted(count, 'column')}"
            yield view.problem(what, "give one bias for every column")
        elif (rows != rows[:1]).any():
            yield view.problem("C differs from row to row", "add it in a node of its own")

    return rule


def quantized_once(view: NodeView) -> Iterator[Problem]:
    """QGemm without y_scale gives floats; with it, it needs y_zero_point, which tells the type."""
    if view.has(7) and not view.has(8):
        yield view.problem("it has y_scale, but no y_zero_point", "give both, or none of them")
    elif view.has(8) and not view.has(7):
        yield view.problem("it has y_zero_point, but no y_scale", "give both, or none of them")
    weights = view.array(4)
    if not view.has(7) and weights is not None and weights.size != 1:
        yield view.problem("its result is float, but b_scale has one number for every column", "give it a y_scale")


def finite_factors(view: NodeView) -> Iterator[Problem]:
    """Gemm: alpha and beta are multiplied into the constants, which are written into C as numbers."""
    for name, index in (("alpha", 1), ("beta", 2)):
        factor, array = view.node.attributes.get(name, 1.0), view.array(index)
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
