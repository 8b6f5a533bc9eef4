"""How far a float32 output may lie from the reference's: rounding errors in proportion to what was summed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import (
    AveragePool,
    Concat,
    Conv,
    Convert,
    Dequantize,
    DynamicParameter,
    Embedding,
    Extremes,
    FloatActivation,
    FloatBinary,
    FloatUnary,
    GatherElements,
    GlobalAveragePool,
    InstanceNorm,
    LayerNorm,
    MatMul,
    MaxPool,
    Operator,
    Pad,
    Program,
    Recurrent,
    Reduce,
    Reshape,
    Resize,
    Select,
    Slice,
    Tensor,
    Transpose,
    inputs_of,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.reference.elementwise import FUNCTIONS, OWN, activate, evaluate_movement
from qcgen.reference.recurrent import terms
from qcgen.reference.reduction import convolve

RELATIVE = 2e-6
"""The error allowed of a single operator for each unit of magnitude: 33 half units of the last place of a float32."""

TO_DOUBLE = 2.0**-29
"""The last place of a float64 beside that of a float32."""

NETWORK = 1e-5
"""The error allowed of operators in a row for each unit of magnitude, which is at least 1."""


def magnitude(op: Conv, x: Array) -> Array:
    """sum |x| |w| + |bias| of every output, float64 in y's own shape and layout: what cancellation cannot hide."""
    rows = x.reshape(op.geometry.batch, *op.geometry.input, -1) if op.x.layout is None else x
    image = rows if op.x.layout is Layout.CHANNELS_FIRST else np.moveaxis(rows, -1, 1)
    sums = convolve(op.geometry, np.abs(image.astype(np.float64)), np.abs(op.weights.astype(np.float64)))
    sums += np.abs(op.bias.astype(np.float64)).reshape((-1,) + (1,) * op.geometry.rank)
    if op.y.layout is Layout.CHANNELS_FIRST:
        return sums
    last = np.moveaxis(sums, 1, -1)
    return last.reshape(op.y.shape) if op.y.layout is None else last


def tolerance(op: Operator, x: Array, y: Array) -> Array:
    """The largest |error| of every output y for the input x: 0 for integers, else

    2e-6 * max(slope * (sum |x| |w| + |bias|) + offset, |y|), of float64 2^-29 of that

    with the greatest slope of the activation, and the offset that it adds.
    """
    if not isinstance(op, Conv) or not isinstance(op.epilogue, FloatActivation):
        return np.zeros(y.shape)
    return RELATIVE * (TO_DOUBLE if op.y.dtype is DType.FLOAT64 else 1) * _reach(op, x, y)


@np.errstate(invalid="ignore")  # numbers may be infinite
def tolerances(
    program: Program, values: Mapping[str, Array], *, is_alike: bool = True, is_judge: bool = False
) -> dict[str, Array]:
    """The largest |error| of every tensor that is computed, where ``values`` are the reference's.

    0 for those in ``exact``. A program of one operator has that operator's ``tolerance``; in longer ones it is 1e-5
    times what the numbers were made of, or times 1 if that is more. Where large terms cancel each other, so that a sum
    may be off by more than 1, that goes on through the operators that read it.
    """
    known = exact(program, is_alike=is_alike, is_judge=is_judge)
    producers = {op.y.name: op for op in program.operators}
    is_alone = len(program.operators) == 1
    allowed: dict[str, Array] = {}
    lost: dict[str, float] = {}
    for op in program.operators:
        xs, y = [values[x.name] for x in inputs_of(op)], values[op.y.name]
        if op.y.name in known:
            allowed[op.y.name] = np.zeros(y.shape)
        elif isinstance(op, Conv) and (is_alone or (op.y.dtype is DType.FLOAT64 and op.x.name in known)):
            allowed[op.y.name] = tolerance(op, xs[0], y)
        elif is_alone and isinstance(op, MatMul):
            allowed[op.y.name] = RELATIVE * _scale(op, xs, y)
        elif isinstance(op, Dequantize):
            allowed[op.y.name] = NETWORK * np.maximum(1.0, _summed(op, producers[op.x.name], values))
        elif isinstance(op, Convert):
            allowed[op.y.name] = _converted(op, xs[0], allowed[op.x.name])
            lost[op.y.name] = lost.get(op.x.name, 0.0)
        elif isinstance(op, GatherElements):
            allowed[op.y.name] = np.full(y.shape, allowed.get(op.x.name, np.zeros(1)).max(initial=0))
            lost[op.y.name] = lost.get(op.x.name, 0.0)
        elif isinstance(op, Transpose | Reshape | Concat | Slice | Resize):
            of_xs = [allowed.get(x.name, np.zeros(x.shape)) for x in inputs_of(op)]
            allowed[op.y.name] = evaluate_movement(op, *of_xs)
            lost[op.y.name] = max(lost.get(x.name, 0.0) for x in inputs_of(op))
        else:
            errors = [allowed.get(x.name, np.zeros(())) for x in inputs_of(op)]
            passed = _passed_on(op, xs, [lost.get(x.name, 0.0) for x in inputs_of(op)], errors)
            allowed[op.y.name] = NETWORK * np.maximum(1.0, _scale(op, xs, y)) + passed
            # NaN is only right where the reference has it, and says nothing about other numbers.
            allowed[op.y.name] = np.where(np.isnan(y), 0.0, allowed[op.y.name])
            most = float((allowed[op.y.name] - NETWORK * np.abs(np.nan_to_num(y))).max(initial=0.0))
            lost[op.y.name] = 0.0 if most <= 1 else most
    return allowed


def exact(program: Program, *, is_alike: bool = True, is_judge: bool = False) -> frozenset[str]:
    """The tensors that must be equal bit for bit: inputs, integers, dequantized integers, and these moved about.

    And what is made of these by operations that are each rounded as onnxruntime rounds them, beside what ``is_alike``:
    the C, the reference, onnxruntime itself with fused multiply-add. ``is_judge``: onnxruntime is one of the two, which
    adds some products of codes up in float32, and joins a MatMul with the Add or the factor behind it: of many terms
    each part is then scaled, or added to the bias; the sum of numbers that are codes may be one of codes, by QGemm.
    It joins a Conv with the Add behind it as well, whose other image is then the first to be summed.
    """
    sums_alike = is_alike and not is_judge
    known = {tensor.name for tensor in program.inputs} | program.constants.keys()
    of_codes, joined, summed = set[str](), set[str](), set[str]()
    makers = {op.y.name: op for op in program.operators}
    for op in program.operators:
        if isinstance(op, Dequantize) or (isinstance(op, Transpose | Slice | Reshape) and op.x.name in of_codes):
            of_codes.add(op.y.name)
        is_product = isinstance(op, MatMul) and op.is_in_order and op.b.name not in program.constants
        if isinstance(op, MatMul) and (op.terms > op.block or of_codes.issuperset((op.a.name, op.b.name))):
            joined.add(op.y.name)
        if isinstance(op, Conv) and op.sums is not None and op.epilogue == FloatActivation():
            summed.add(op.y.name)
        if is_judge and isinstance(op, MatMul) and _reads_scaled_columns(op, makers):
            is_product = False
        is_part = is_judge and isinstance(op, FloatBinary) and not joined.isdisjoint((op.a.name, op.b.name))
        if isinstance(op, FloatBinary) and not summed.isdisjoint((op.a.name, op.b.name)):
            is_factor = op.kind == "mul" and not program.constants.keys().isdisjoint((op.a.name, op.b.name))
            is_part |= is_judge and (op.kind == "add" or is_factor)
        is_steady = _keeps(op) or (is_alike and (_is_dynamic(op) or (_rounds_once(op) and not is_part) or is_product))
        if (
            _is_exact(op.y)
            or isinstance(op, Embedding)
            or (isinstance(op, Dequantize) and (sums_alike or not op.in_float))
            or (is_steady and known.issuperset(x.name for x in inputs_of(op)))
        ):
            known.add(op.y.name)
    return frozenset(known)


def _reads_scaled_columns(op: MatMul, makers: Mapping[str, Operator]) -> bool:
    """Whether an operand is transposed behind a factor: onnxruntime may scale the product instead."""
    moved = [each for x in (op.a, op.b) if isinstance(each := makers.get(x.name), Transpose)]
    scaled = [each for by in moved if isinstance(each := makers.get(by.x.name), FloatBinary)]
    return any(by.kind in ("mul", "div") and 1 in (prod(by.a.shape), prod(by.b.shape)) for by in scaled)


def _summed(op: Dequantize, product: Operator, values: Mapping[str, Array]) -> Array:
    """What the products have in all that onnxruntime adds up in float, their magnitudes."""
    assert isinstance(product, Conv), "sums of products are dequantized"
    zeros = product.w_zero_point.reshape(-1, *(1,) * (product.weights.ndim - 1))
    numbers = replace(product, weights=product.weights.astype(np.float64) - zeros)
    x = values[product.x.name].astype(np.float64) - product.x_zero_point
    return magnitude(numbers, x) * float(op.x.scale or 1)


def _is_dynamic(op: Operator) -> bool:
    """Whether it belongs to quantization at run time, whose numbers are each rounded as onnxruntime rounds them."""
    return isinstance(op, Extremes | DynamicParameter) or (isinstance(op, Recurrent) and op.scale is not None)


ROUNDED_ONCE = ("Abs", "Ceil", "Clip", "Floor", "LeakyRelu", "Neg", "Reciprocal", "Relu", "Round", "Sign", "Sqrt")
"""Activations that are one operation of IEEE 754, or choose."""


def _rounds_once(op: Operator) -> bool:
    """Whether every number is one operation of IEEE 754 on others, one of them, or rounded as onnxruntime rounds it."""
    match op:
        case Conv(epilogue=FloatActivation() as activation):
            return op.sums is not None and activation.kind in ("", *ROUNDED_ONCE, *OWN)
        case FloatBinary():
            return op.kind != "pow"
        case FloatUnary():
            return op.activation.kind in (*ROUNDED_ONCE, *OWN)
        case Reduce():
            return op.is_in_order and op.requantize is None
        case GlobalAveragePool():
            return op.requantize is None
        case AveragePool():
            return op.x.dtype is DType.FLOAT32
        case Recurrent():
            return op.is_in_order
        case _:
            return isinstance(op, MaxPool | Select)


def _is_exact(tensor: Tensor) -> bool:
    return not tensor.dtype.is_float


def _keeps(op: Operator) -> bool:
    """Whether the operator moves numbers, or rounds each of them once."""
    return isinstance(op, Transpose | Reshape | Concat | Slice | Pad | Resize | GatherElements | Convert)


@np.errstate(over="ignore")
def _converted(op: Convert, x: Array, error: Array) -> Array:
    """How far numbers that are off by ``error`` may be off in another type: numbers apart may round apart."""
    if not op.x.dtype.is_float or op.y.dtype.bytes > op.x.dtype.bytes:
        return error
    ends = [np.abs(x.astype(np.float64)) + by for by in (error, -error)]
    top, bottom = (arithmetic.convert(np.maximum(end, 0), op.y.dtype.numpy) for end in ends)
    unit = np.abs(np.spacing(np.where(np.isinf(top), np.finfo(top.dtype).max, top))).astype(np.float64)
    # What one side rounds to infinity, the other may round to the largest number.
    return np.where(error == 0, 0.0, np.where(np.isinf(top) & ~np.isinf(bottom), np.inf, error + unit))


def _scale(op: Operator, xs: list[Array], y: Array) -> Array:
    """The magnitude of what each float output was made of."""
    own: Array = np.abs(y.astype(np.float64))
    match op:
        case Conv():
            return _reach(op, xs[0], y)
        case MatMul():
            a, b = (np.abs(x.astype(np.float64)) for x in xs)
            return np.asarray(np.matmul(a, b))
        case FloatBinary(kind="add" | "sub"):
            a, b = (np.abs(x.astype(np.float64)) for x in xs)
            return np.maximum(own, np.maximum(a, b))
        case Recurrent():
            return np.maximum(own, terms(op, *xs))
        case Reduce(kind="sum" | "mean"):
            total: Array = np.abs(xs[0].astype(np.float64)).sum(axis=op.axes).reshape(y.shape)
            return total if op.kind == "sum" else total / op.count
        case _:
            return own


def _passed_on(op: Operator, xs: list[Array], lost: list[float], errors: list[Array]) -> Array | float:
    """How far y may be off at most because its inputs are off by ``lost``, where that is more than 1.

    Functions may be steep, so what they make of smaller ``errors`` counts, too.
    """
    if isinstance(op, FloatUnary) and op.activation.kind in FUNCTIONS:
        return _spread(op, xs[0].astype(np.float64), errors[0])
    if isinstance(op, LayerNorm | InstanceNorm):
        return normalized_error(op, xs[0].astype(np.float64), errors[0])
    if not any(lost):
        return 0.0
    match op:
        case Conv(epilogue=FloatActivation() as activation):
            weights = np.abs(op.weights.astype(np.float64)).reshape(len(op.weights), -1).sum(axis=1)
            return _slope(activation) * float(weights.max(initial=0.0)) * lost[0]
        case FloatUnary():
            return _slope(op.activation) * lost[0]
        case FloatBinary(kind="add" | "sub"):
            return sum(lost)
        case FloatBinary(kind="mul") | MatMul():
            a, b = (float(np.abs(x).max(initial=0.0)) for x in xs)
            products = op.terms if isinstance(op, MatMul) else 1
            return products * (a * lost[1] + b * lost[0] + lost[0] * lost[1])
        case Recurrent():
            return np.inf  # a state may turn on the last place of a number
        case Reduce(kind="product" | "squares"):
            return np.inf
        case Reduce(kind="sum" | "l1" | "l2"):
            return op.count * lost[0]
        case FloatBinary(kind="max" | "min"):
            return max(lost)
        case FloatBinary(kind="prelu"):
            return lost[0] * max(1.0, float(np.abs(xs[1]).max(initial=0.0))) + lost[1] * float(np.abs(xs[0]).max())
        case Select() if any(lost[:2]):
            return np.inf  # the other number may be chosen
        case FloatBinary():
            return np.inf  # the divisor may be 0
        case _:
            return max(lost)  # means, largest elements and Softmax are off by no more than what they are of


@np.errstate(all="ignore")
def _spread(op: FloatUnary, x: Array, error: Array) -> Array:
    """How far the function of x can move where x moves by the error; infinite where it has no value."""
    middle = activate(op.activation, x)
    ends = [np.abs(activate(op.activation, x + by) - middle) for by in (error, -error)]
    return np.where(error == 0, 0.0, np.nan_to_num(np.maximum(*ends), nan=np.inf))


@np.errstate(all="ignore")
def normalized_error(op: LayerNorm | InstanceNorm, x: Array, error: Array) -> Array | float:
    """How far normalized numbers may move where x moves by the error: the more alike numbers are, the further.

    With s^2 the variance plus epsilon of n numbers, d the distance of one of them from their mean, and e the largest
    error, that is at most (2 + d / s) * e / max(s - e, sqrt(epsilon)), and never more than 2 * sqrt(n).
    InstanceNormalization rounds x / s and mean / s before it subtracts one from the other.
    """
    if not error.any():
        return 0.0
    rank, is_layer = x.ndim, isinstance(op, LayerNorm)
    channel = rank - 1 if is_layer or op.x.layout is Layout.CHANNELS_LAST else 1
    axes = (channel,) if is_layer else tuple(axis for axis in range(1, rank) if axis != channel)
    mean, most = x.mean(axis=axes, keepdims=True), np.broadcast_to(error, x.shape).max(axis=axes, keepdims=True)
    if isinstance(op, LayerNorm) and not op.is_centered:
        mean = np.zeros_like(mean)
    root = np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + op.epsilon)
    slowest = np.maximum(root - most, np.sqrt(op.epsilon))
    moved = np.minimum((2 + np.abs(x - mean) / root) * most / slowest, 2 * np.sqrt(x.size / mean.size))
    if not is_layer:
        moved += 2.0**-22 * (np.abs(x) + np.abs(mean) + 2 * most) / slowest
    by = np.abs(op.scale).reshape([-1 if axis == channel else 1 for axis in range(rank)])
    return np.where(np.isnan(moved), np.inf, moved * by)


def _slope(activation: FloatActivation) -> float:
    return max(1.0, _steepness(activation)[0])


def _reach(op: Conv, x: Array, y: Array) -> Array:
    """max(slope * (sum |x| |w| + |bias|) + offset, |y|)."""
    assert isinstance(op.epilogue, FloatActivation), "only float convolutions have an error"
    slope, offset = _steepness(op.epilogue)
    return np.maximum(slope * magnitude(op, x) + offset, np.abs(y.astype(np.float64)))


def _steepness(activation: FloatActivation) -> tuple[float, float]:
    params = activation.params
    match activation.kind:
        case "LeakyRelu":
            return max(1.0, abs(params[0])), 0.0
        case "HardSigmoid":
            return abs(params[0]), abs(params[1])
        case "HardSwish":
            return 2.0, 0.0  # 1.5 for the product's slope, 0.5 for the rounding of its second factor
        case _:
            return 1.0, 0.0
