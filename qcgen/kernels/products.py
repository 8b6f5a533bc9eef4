"""Products of two computed matrices: their sums, the output step, and where rows, columns and terms lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from qcgen.errors import prove
from qcgen.intervals import INT32_MAX, INT32_MIN, AccumulatorInterval, partial_sums
from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import FloatActivation, MatMul, Operator, RawAccumulator, Tensor
from qcgen.ir.types import DType
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
class CodeProduct(Context):
    """A product of two matrices of codes, as functions of the library take it."""

    operands: Operands
    types: Mapping[str, str]  # of C, by "a", "b" and "y"
    kinds: Mapping[str, str]  # how the names of functions end that read them, by the same
    sizes: Struct
    output: Output


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


def matrices_of(op: MatMul, setting: Setting) -> tuple[Operands, dict[str, int], tuple[Constants, ...]]:
    """Where the matrices lie, by the names of the library's structs, and the tables of operands that are constants."""
    tables = tuple(_table(name, x, setting) for name, x in (("a", op.a), ("b", op.b)) if x.name in setting.constants)
    orders = dict(zip(NAMES, (*setting.xs, setting.y), strict=True))
    for table in tables:
        orders[table.role] = tuple(range(table.values.ndim))
    steps = {name: strides(x.shape, orders[name]) for name, x in zip(NAMES, (op.a, op.b, op.y), strict=True)}
    constant = tuple(table.role for table in tables)
    operands = Operands(tuple(name for name in ("a", "b") if name not in constant), constant, _leading(op, orders))
    numbers = {"rows": op.a.shape[-2], "columns": op.b.shape[-1], "terms": op.terms}
    numbers |= {"a_row": steps["a"][-2], "a_term": steps["a"][-1]}
    numbers |= {"b_term": steps["b"][-2], "b_column": steps["b"][-1]}
    return operands, numbers | {"y_row": steps["y"][-2], "y_column": steps["y"][-1]}, tables


def prepare_product(op: MatMul, setting: Setting) -> tuple[CodeProduct, tuple[Constants, ...], Certificate]:
    """The product with its tables and its certificate."""
    sums = prepare_sums(op, setting)
    operands, numbers, tables = matrices_of(op, setting)
    numbers |= {"start": sums.start, "a_zero_point": op.a_zero_point, "b_zero_point": op.b_zero_point}
    numbers["y_bytes"] = op.y.dtype.bytes
    kinds = {name: "u8" if x.dtype is DType.UINT8 else "s8" for name, x in (("a", op.a), ("b", op.b))}
    types = {"a": op.a.dtype.c, "b": op.b.dtype.c, "y": op.y.dtype.c}
    product = CodeProduct(operands, types, kinds, Struct("matrices", (), numbers), sums.output)
    return product, (*tables, *sums.epilogue.constants), sums.certificate


def tile_operations(op: MatMul) -> float:
    """What a function of the library becomes that sums up to 2 x 2 outputs at a time: fitted to what gcc -O2 makes."""
    outputs = min(op.a.shape[-2], 2) * min(op.b.shape[-1], 2)
    return 36.0 + (2.0 if isinstance(op.epilogue, RawAccumulator) else 7.0) * outputs


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
