"""Products of two computed matrices: their sums, the output step, and where rows, columns and terms lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from qcgen.errors import prove
from qcgen.intervals import INT32_MAX, INT32_MIN, AccumulatorInterval, partial_sums
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import FloatActivation, MatMul, Operator, RawAccumulator, Tensor
from qcgen.kernels.epilogue import Output, OutputStep, prepare_raw, prepare_requantize
from qcgen.kernels.kernel import Constants, Order, Setting
from qcgen.kernels.loop_nest import Dimension, LoopNest, broadcast_strides, loop_nest, strides

PRODUCT_SCALE = "a_scale * b_scale / y_scale"
"""What the sums are requantized by."""

NAMES = ("a", "b", "y")

FEWEST, MOST = 8, 4096
"""Terms of packed products: fewer do not pay, of more a sum with the zero points in it could leave int32."""


@dataclass(frozen=True)
class Operands(Context):
    """What is multiplied, and the loops over the leading axes."""

    given: tuple[str, ...]  # the operands that are not constants
    constant: tuple[str, ...]  # those that are
    nest: LoopNest  # over the first elements of the matrices


@dataclass(frozen=True)
class Matrices(Context):
    """Two matrices and their product, in elements."""

    operands: Operands
    rows: int  # of a and y
    columns: int  # of b and y
    terms: int  # the columns of a, the rows of b
    a_row: int  # from one row of a to the next
    b_term: int  # from one term of a column of b to the next
    b_column: int  # from one column of b to the next
    y_row: int  # from one row of y to the next
    y_column: int  # from one column of y to the next


@dataclass(frozen=True)
class ProductCodes(Context):
    """What the elements of two matrices of codes and of their product are."""

    types: Mapping[str, str]  # of C, by "a", "b" and "y"
    a_zero_point: int  # of a, taken from each code
    b_zero_point: int  # of b


@dataclass(frozen=True)
class Tile:
    """The loop over the tiles of one axis of y: its ``variable`` in C, ``count`` the number of all in C.

    ``size`` of them, with the ``numbers`` 0, 1, ..., are a tile; ``overlaps``: the last tile repeats some of the one
    before it.
    """

    variable: str
    count: str
    size: int
    overlaps: bool
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Sums:
    """The output step of the sums, and where they ``start``."""

    start: int
    epilogue: OutputStep
    certificate: Certificate

    @property
    def output(self) -> Output:
        """What templates show of the output step."""
        return self.epilogue.output


def why_no_product(op: Operator) -> str | None:
    """The operator is not a product of two computed matrices of codes."""
    if not isinstance(op, MatMul):
        return f"{op.op_type} is not a product of two computed matrices"
    return "the matrices are float32" if op.is_float else None


def why_no_packed_product(op: Operator, setting: Setting) -> str | None:
    """The terms are too few or too many for kernels that pack columns of b, or those of a lie apart."""
    reason = why_no_product(op)
    if reason is not None:
        return reason
    assert isinstance(op, MatMul)
    if not FEWEST <= op.terms <= MOST:
        return f"sums of {op.terms} products: {FEWEST} to {MOST} are served"
    if a_term(op, setting) != 1:
        return "the terms of a row of the first operand do not lie side by side"
    return None


def prepare_sums(op: MatMul, setting: Setting) -> Sums:
    """The output step of the sums, with its certificate."""
    lo, hi = op.accumulator_range or partial_sums(op)
    if isinstance(op.epilogue, FloatActivation):
        raise AssertionError("a product of codes is requantized, or raw")
    interval = AccumulatorInterval(np.array([lo]), np.array([hi]), False)
    if isinstance(op.epilogue, RawAccumulator):
        epilogue = prepare_raw(op.y.dtype.c, interval)
    else:
        features = setting.features
        epilogue = prepare_requantize(op.epilogue, op.y.dtype.c, interval, features, scale=PRODUCT_SCALE, is_alone=True)
    start = int(epilogue.addend[0])
    prove(start + lo >= INT32_MIN and start + hi <= INT32_MAX, "no partial sum leaves int32")
    numbers = {**epilogue.certificate.numbers, "kind": "product"} if epilogue.certificate.numbers else {}
    return Sums(start, epilogue, replace(epilogue.certificate, word=None, numbers=numbers))


def matrices_of(op: MatMul, setting: Setting) -> tuple[Matrices, tuple[Constants, ...]]:
    """Where the matrices lie, and the tables of the operands that are constants."""
    tables = tuple(_table(name, x, setting) for name, x in (("a", op.a), ("b", op.b)) if x.name in setting.constants)
    orders = dict(zip(NAMES, (*setting.xs, setting.y), strict=True))
    for table in tables:
        orders[table.role] = tuple(range(table.values.ndim))
    steps = {name: strides(x.shape, orders[name]) for name, x in zip(NAMES, (op.a, op.b, op.y), strict=True)}
    constant = tuple(table.role for table in tables)
    matrices = Matrices(
        operands=Operands(tuple(name for name in ("a", "b") if name not in constant), constant, _leading(op, orders)),
        rows=op.a.shape[-2],
        columns=op.b.shape[-1],
        terms=op.terms,
        a_row=steps["a"][-2],
        b_term=steps["b"][-2],
        b_column=steps["b"][-1],
        y_row=steps["y"][-2],
        y_column=steps["y"][-1],
    )
    return matrices, tables


def codes_of(op: MatMul) -> ProductCodes:
    """The types and zero points of a product of codes."""
    types = {"a": op.a.dtype.c, "b": op.b.dtype.c, "y": op.y.dtype.c}
    return ProductCodes(types, op.a_zero_point, op.b_zero_point)


def a_term(op: MatMul, setting: Setting) -> int:
    """The distance from one term of a row of a to the next, in elements; constants lie row-major."""
    order = tuple(range(len(op.a.shape))) if op.a.name in setting.constants else setting.xs[0]
    return strides(op.a.shape, order)[-1]


def _table(name: str, tensor: Tensor, setting: Setting) -> Constants:
    return Constants(name, tensor.dtype.c, setting.constants[tensor.name], f"the operand {tensor.name}, a constant.")


def _leading(op: MatMul, orders: Mapping[str, Order]) -> LoopNest:
    """The loops over the matrices: those of y, to which the operands' leading axes are broadcast."""
    batch = op.y.shape[:-2]
    found = {}
    for name, x in zip(NAMES, (op.a, op.b, op.y), strict=True):
        spread = broadcast_strides(x.shape[:-2], tuple(range(len(x.shape) - 2)), batch)
        own = strides(x.shape, orders[name])[:-2]
        missing = len(batch) - len(own)
        found[name] = tuple(0 if step == 0 else own[axis - missing] for axis, step in enumerate(spread))
    dimensions = [Dimension(size, {name: found[name][axis] for name in NAMES}) for axis, size in enumerate(batch)]
    return loop_nest(dimensions, NAMES, {})


def tile(variable: str, count: int, most: int) -> Tile:
    """Tiles of ``most`` rows or columns, or of all if there are fewer."""
    size = min(most, count)
    return Tile(variable, f"{variable.upper()}S", size, count % size != 0, tuple(range(size)))
