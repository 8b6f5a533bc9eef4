"""Functions of one number as tables of codes, by TensorFlow Lite Micro's fixed point or its float32."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import frexp
from typing import Literal, TypeAlias

import numpy as np

from qcgen.arithmetic import doubled_high, near_reciprocal, round_twice
from qcgen.errors import Problem
from qcgen.ir.program import (
    ChannelLookup,
    Dequantize,
    FloatActivation,
    FloatUnary,
    Int64s,
    IntegerUnary,
    Lookup,
    Operator,
    Quantize,
    Scaled,
    Sigmoid,
    Tensor,
    inputs_of,
)
from qcgen.ir.types import DType
from qcgen.reference import evaluate_operator
from qcgen.tflite.fixed_point import exp_of_negative, half_away, multiplier_of
from qcgen.tflite.graph import AGAIN, CONVERT_INT8, Refused, TfliteOperands

INPUT_BITS = 4
"""Above the point, of what LOGISTIC and TANH are taken of."""

ANY_CODE = (DType.INT8, DType.UINT8, DType.INT16)

_TableOf: TypeAlias = Callable[[TfliteOperands, Tensor, Tensor], Int64s]


def lower_function(source: TfliteOperands) -> tuple[Operator, ...]:
    """ABS, ELU, HARD_SWISH, LEAKY_RELU, LOGISTIC, QUANTIZE, RELU, RELU6, RSQRT, TANH: a table, made by qcgen."""
    if source.is_wide:
        return lower_wide_function(source)
    types = (DType.INT8, DType.UINT8) if source.node.op_type == "QUANTIZE" else (DType.INT8,)
    if source.node.op_type == "ELU" and (number := source.x_in_float()) is not None:
        result = source.y_in_float()
        if number.shape != result.shape:
            raise Refused(f"its output has the shape {result.shape}, its input {number.shape}", AGAIN)
        return (FloatUnary(source.node.name, "ELU", number, result, FloatActivation("Elu", (1.0,))),)
    x, y = source.x(types=types), source.y(types=types)
    if x.shape != y.shape:
        raise Refused(f"its output has the shape {y.shape}, its input {x.shape}", AGAIN)
    table = np.clip(FUNCTIONS[source.node.op_type](source, x, y), y.dtype.low, y.dtype.high)
    return (Lookup(source.node.name, source.node.op_type, x, y, table),)


def lower_wide_function(source: TfliteOperands) -> tuple[Operator, ...]:
    """ABS, LEAKY_RELU, LOGISTIC, RELU, RELU6, TANH of int16 codes; QUANTIZE of them to others, int32 among them.

    Source: QuantizePrepare in micro/kernels/quantize_common.cc, CalculateOpDataLeakyRelu in leaky_relu_common.cc.
    """
    others = (DType.INT8, DType.INT16, DType.INT32) if source.node.op_type == "QUANTIZE" else (DType.INT16,)
    x, y = source.x(types=(DType.INT16,)), source.y(types=others)
    if x.shape != y.shape:
        raise Refused(f"its output has the shape {y.shape}, its input {x.shape}", AGAIN)
    scale = float(_scale(x)) / float(_scale(y))
    function: Scaled | Sigmoid
    match source.node.op_type:
        case "LOGISTIC" | "TANH" as kind:
            function = _sigmoid("tanh" if kind == "TANH" else "logistic", x, y)
        case "LEAKY_RELU":
            function = Scaled(multiplier_of(scale), multiplier_of(_alpha_scale(source, x, y)))
        case "RELU":
            function = Scaled(multiplier_of(scale), (0, 0))
        case "ABS":
            number, exponent = multiplier_of(scale)
            function = Scaled((number, exponent), (-number, exponent))
        case "RELU6":
            six = min(half_away(float(np.float32(6) / _scale(x))), x.dtype.high)
            codes = np.arange(x.dtype.low, x.dtype.high + 1)
            return (Lookup(source.node.name, source.node.op_type, x, y, np.clip(codes, 0, six)),)
        case _:
            function = Scaled(multiplier_of(scale), multiplier_of(scale))
    exponents = (function.above[1], function.below[1]) if isinstance(function, Scaled) else (0,)
    if max(exponents) > 13 or (y.zero_point and y.dtype is DType.INT32):
        raise Refused(f"its codes become {scale:g} times as large", "quantize with the range that its output has")
    return (IntegerUnary(source.node.name, source.node.op_type, x, y, function, y.dtype.low, y.dtype.high),)


def _sigmoid(kind: Literal["logistic", "tanh"], x: Tensor, y: Tensor) -> Sigmoid:
    """What a sigmoid of int16 codes is taken of: of a power of 2 about, exactly, else in 15 bits.

    Source: LogisticPrepare in micro/kernels/logistic_common.cc, TanhPrepare in micro/kernels/tanh.cc.
    """
    if y.scale != 2.0**-15:
        raise Refused(f"the scale of its output is {y.scale}, not 1/32768", AGAIN)
    fraction, power = frexp(x.scale or 1)
    left = power - 1 + 12
    if fraction == 0.5 and left in ((0,) if kind == "logistic" else (0, 1)):
        return Sigmoid(kind, 3 << left, 0)
    multiplier, shift = float(x.scale or 1) * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2 and shift <= 30:
        multiplier, shift = multiplier * 2, shift + 1
    if not 1 <= multiplier < 2**15:
        raise Refused(f"the scale of its input is {x.scale}", AGAIN)
    return Sigmoid(kind, int(multiplier), shift)


def lower_prelu(source: TfliteOperands) -> tuple[Operator, ...]:
    """PRELU: constant slopes, one or one for each place of the last axis.

    Source: PreluPrepare in micro/kernels/prelu_common.cc, BroadcastPrelu4DSlow in kernels/internal/reference/prelu.h.
    """
    x, y = source.x(), source.y()
    slopes, by = source.slopes()
    if x.shape != y.shape or not x.shape or slopes.size not in (1, x.shape[-1]) or slopes.size != slopes.shape[-1]:
        raise Refused(f"its slopes have the shape {slopes.shape}, its input {x.shape}", AGAIN)
    codes, scale = _differences(x), float(_scale(x)) / float(_scale(y))
    products = (slopes.reshape(-1, 1).astype(np.int64) - int(by.zero_points[0])) * codes
    below = _scaled(products, float(_scale(x)) * float(by.scales[0]) / float(_scale(y)))
    tables = np.where(codes >= 0, _scaled(codes, scale), below) + (y.zero_point or 0)
    tables = np.clip(tables, y.dtype.low, y.dtype.high)
    name, op_type = source.node.name, source.node.op_type
    if slopes.size == 1:
        return (Lookup(name, op_type, x, y, tables[0]),)
    return (ChannelLookup(name, op_type, x, y, len(x.shape) - 1, tables),)


def _differences(x: Tensor) -> Int64s:
    """(256,): all codes less the zero point."""
    return np.arange(x.dtype.low, x.dtype.high + 1) - (x.zero_point or 0)


def _scaled(value: Int64s, scale: float) -> Int64s:
    """Codes times a scale, in two roundings."""
    multiplier, exponent = multiplier_of(scale)
    if exponent > 14:
        raise Refused(f"its codes become {scale} times as large", "quantize with the range that its output has")
    return round_twice(value, np.array(multiplier), np.array(exponent))


def _scale(tensor: Tensor) -> np.float32:
    return np.float32(tensor.scale or 1)


def _requantized(_source: TfliteOperands, x: Tensor, y: Tensor) -> Int64s:
    """Source: Requantize in kernels/internal/reference/requantize.h."""
    if DType.UINT8 in (x.dtype, y.dtype) and x.dtype is y.dtype:
        raise Refused("it makes uint8 of uint8, which TensorFlow Lite Micro does not", AGAIN)
    return _scaled(_differences(x), float(_scale(x)) / float(_scale(y))) + (y.zero_point or 0)


def _abs(_source: TfliteOperands, x: Tensor, y: Tensor) -> Int64s:
    """Source: AbsEvalQuantized in micro/kernels/elementwise.cc."""
    return _scaled(np.abs(_differences(x)), float(_scale(x)) / float(_scale(y))) + (y.zero_point or 0)


ROOT_SHIFT = 20
"""Bits below the point of a reciprocal root, until it is scaled."""


def _rsqrt(_source: TfliteOperands, x: Tensor, y: Tensor) -> Int64s:
    """1 / sqrt(x), the largest code at 0. Source: RsqrtEvalQuantized in micro/kernels/elementwise.cc."""
    if x.zero_point != x.dtype.low:
        what = f"the zero point of its input is {x.zero_point}: TensorFlow Lite Micro stops at codes below it"
        raise Refused(what, f"quantize its input, which has no negative numbers, with the zero point {x.dtype.low}")
    multiplier, exponent = multiplier_of(1 / (float(_scale(x)) ** 0.5 * float(_scale(y))))
    if exponent > 30:
        raise Refused(f"the scale of its output is {y.scale}", "quantize with the range that its output has")
    codes = _differences(x)
    roots = np.array([_reciprocal_root(int(code)) for code in codes])
    found = round_twice(roots, np.array(multiplier), np.array(exponent - ROOT_SHIFT))
    return np.where(codes == 0, y.dtype.high, found + (y.zero_point or 0))


def _reciprocal_root(value: int) -> int:
    """1 / sqrt(value) in units of 2^-20, of a code; of 0 as of 1. Five steps of Newton's method from 1.

    Source: GetInvSqrtQuantizedMultiplierExp in kernels/internal/common.cc.
    """
    if value <= 1:
        return int(round_twice(np.array(1), np.array(2**31 - 1), np.array(ROOT_SHIFT)))
    pairs = (31 - value.bit_length()) // 2 - 1
    number = np.array((value << 2 * pairs) >> 1)  # three bits above the point
    half, x = (number + 1) >> 1, np.array(2**28)
    for _ in range(5):
        cube = doubled_high(doubled_high(x, x), x) << 6
        x = (doubled_high(np.array(2**28 + 2**27), x) - doubled_high(half, cube)) << 3
    x = doubled_high(x, 1518500250)
    right = 11 - pairs
    return int(round_twice(np.array(1), x << max(-right, 0), np.array(ROOT_SHIFT - max(right, 0))))


def _relu(source: TfliteOperands, x: Tensor, y: Tensor) -> Int64s:
    """Source: ReluQuantized in micro/kernels/activations.cc."""
    return np.maximum(_requantized(source, x, y), y.zero_point or 0)


def _relu6(_source: TfliteOperands, x: Tensor, _y: Tensor) -> Int64s:
    """The codes between those of 0 and 6, by the scale of the input, as they are.

    Source: Relu6Quantized in micro/kernels/activations.cc.
    """
    zero = x.zero_point or 0
    six = zero + half_away(float(np.float32(6) / _scale(x)))
    return np.clip(np.arange(x.dtype.low, x.dtype.high + 1), zero, min(six, x.dtype.high))


def _leaky_relu(source: TfliteOperands, x: Tensor, y: Tensor) -> Int64s:
    """Source: CalculateOpDataLeakyRelu in micro/kernels/leaky_relu_common.cc."""
    codes, scale = _differences(x), float(_scale(x)) / float(_scale(y))
    below = _scaled(codes, _alpha_scale(source, x, y))
    return np.where(codes >= 0, _scaled(codes, scale), below) + (y.zero_point or 0)


def _alpha_scale(source: TfliteOperands, x: Tensor, y: Tensor) -> float:
    """What codes below zero are multiplied by, in float64, though alpha has 32 bits."""
    alpha = source.node.attributes["alpha"]
    assert isinstance(alpha, int | float), "the reader gives a number"
    if not abs(alpha) <= 2**16:  # NaN is not, either
        raise Refused(f"its alpha is {alpha}", AGAIN)
    return float(_scale(x)) * float(np.float32(alpha)) / float(_scale(y))


def _elu(_source: TfliteOperands, x: Tensor, y: Tensor) -> Int64s:
    """Float32 numbers, rounded half away. Source: PopulateLookupTable in micro/kernels/elu.cc."""
    given = _scale(x) * _differences(x).astype(np.float32)
    below = np.exp(np.minimum(given, 0).astype(np.float64)).astype(np.float32) - np.float32(1)
    result = np.where(given < 0, below, given) * (np.float32(1) / _scale(y))
    return _nearest_away(np.clip(result, -(2**20), 2**20)) + (y.zero_point or 0)


def _nearest_away(value: np.typing.NDArray[np.float32]) -> Int64s:
    return (np.sign(value) * np.floor(np.abs(value.astype(np.float64)) + 0.5)).astype(np.int64)


def _in_fixed_point(x: Tensor) -> tuple[Int64s, Int64s]:
    """(256,): all codes in units of 2^-27, clamped to less than 16 in magnitude, and on which side they were beyond.

    Source: LogisticPrepare in micro/kernels/logistic_common.cc.
    """
    multiplier, exponent = multiplier_of(float(_scale(x)) * 2.0 ** (31 - INPUT_BITS))
    if not 0 <= exponent <= 31:
        raise Refused(f"the scale of its input is {x.scale}", AGAIN)
    radius = ((1 << INPUT_BITS) - 1) << (31 - INPUT_BITS) >> exponent
    codes = _differences(x)
    beyond = np.where(codes <= -radius, -1, np.where(codes >= radius, 1, 0))
    inside = np.where(beyond == 0, codes, 0)
    return round_twice(inside, np.array(multiplier), np.array(exponent)), beyond


def _logistic(_source: TfliteOperands, x: Tensor, y: Tensor) -> Int64s:
    """1 / (1 + exp(-x)), in units of 1 / 256.

    Source: Logistic in kernels/internal/reference/integer_ops/logistic.h, and logistic of gemmlowp.
    """
    if y.zero_point != -128:
        raise Refused(f"the zero point of its output is {y.zero_point}, not -128", AGAIN)
    given, beyond = _in_fixed_point(x)
    above = np.clip(near_reciprocal(exp_of_negative(-np.abs(given), INPUT_BITS)) << 1, -(2**31), 2**31 - 1)
    one = 2**31 - 1
    part = np.where(given == 0, 2**30, np.where(given > 0, above, one - above))
    return np.where(beyond, beyond * 256, (part + 2**22) >> 23) - 128


def _tanh(_source: TfliteOperands, x: Tensor, _y: Tensor) -> Int64s:
    """(1 - exp(-2 x)) / (1 + exp(-2 x)), in units of 1 / 128.

    Source: Tanh in kernels/internal/reference/integer_ops/tanh.h, and tanh of gemmlowp.
    """
    given, beyond = _in_fixed_point(x)
    quotient = near_reciprocal(exp_of_negative(-np.abs(given), INPUT_BITS + 1)) - 2**29
    above = np.clip(quotient << 2, -(2**31), 2**31 - 1)
    part = np.sign(given) * above
    return np.where(beyond, beyond * 256, np.sign(part) * ((np.abs(part) + 2**23) >> 24))


def _hard_swish(_source: TfliteOperands, x: Tensor, y: Tensor) -> Int64s:
    """x times a part of 0 to 1, both of 16 bits.

    Source: HardSwish in kernels/internal/reference/hard_swish.h; its Prepare in micro/kernels/hard_swish_common.cc.
    """
    fine = np.float32(1 / 128) * _scale(x)
    y_multiplier, y_exponent = _short_multiplier(float(fine / _scale(y)))
    multiplier, exponent = _short_multiplier(float(fine / (np.float32(3) / np.float32(32768))))
    if y_exponent > 0 or exponent > 30:
        raise Refused("the scale of its output is too small for its input", "quantize with the range that it has")
    given = _differences(x) << 7
    value = _short_product(given, y_multiplier)
    part = _short(given << max(exponent - 1, 0))
    part = _short_product(part, multiplier)
    part = _short(part << 1) if exponent > 0 else _halved_away(part, -exponent)
    product = ((part + 2**15) >> 1) * value
    toward_zero = np.sign(product) * (np.abs(product) >> 15)
    return _halved_away(toward_zero, -y_exponent) + (y.zero_point or 0)


def _short_multiplier(scale: float) -> tuple[int, int]:
    """A multiplier of 16 bits, and the exponent."""
    multiplier, exponent = multiplier_of(scale)
    return min((multiplier + 2**15) >> 16, 2**15 - 1), exponent


def _short(value: Int64s) -> Int64s:
    return np.clip(value, -(2**15), 2**15 - 1)


def _short_product(a: Int64s, b: int) -> Int64s:
    return (a * b + 2**14) >> 15


def _halved_away(value: Int64s, times: int) -> Int64s:
    return np.asarray(np.sign(value) * ((np.abs(value) + (1 << times >> 1)) >> times))


FUNCTIONS: dict[str, _TableOf] = {
    "ABS": _abs,
    "ELU": _elu,
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky_relu,
    "LOGISTIC": _logistic,
    "QUANTIZE": _requantized,
    "RELU": _relu,
    "RELU6": _relu6,
    "RSQRT": _rsqrt,
    "TANH": _tanh,
}
"""What each function's table is."""


# Functions of float32 numbers between DEQUANTIZE and QUANTIZE: tables of codes.


def in_tables(operators: Sequence[Operator], outputs: Collection[str]) -> tuple[list[Operator], list[Problem]]:
    """The operators with each DEQUANTIZE, function, QUANTIZE as one table; which functions are not between these."""
    makers = {op.y.name: op for op in operators}
    read_by_others = {x.name for op in operators if not isinstance(op, Quantize) for x in inputs_of(op)} | {*outputs}
    tables = {op.y.name: table for op in operators if (table := _table(op, makers)) is not None}
    joined = [tables.get(op.y.name, op) for op in operators]
    functions = [op for op in operators if isinstance(op, FloatUnary)]
    problems = [
        Problem(f"node {op.name!r}", "it computes in float32, not between DEQUANTIZE and QUANTIZE", CONVERT_INT8)
        for op in functions
        if op.y.name in read_by_others or not isinstance(makers.get(op.x.name), Dequantize)
    ]
    kept = [op for op in joined if not isinstance(op, FloatUnary)]
    read = {x.name for op in kept for x in inputs_of(op)} | {*outputs}
    unread = {op.x.name for op in functions} - read
    return [op for op in kept if op.y.name not in unread], problems


def _table(op: Operator, makers: dict[str, Operator]) -> Lookup | None:
    """The codes of a Quantize as a table of those that its function's numbers come from."""
    function = makers.get(op.x.name) if isinstance(op, Quantize) else None
    first = makers.get(function.x.name) if isinstance(function, FloatUnary) else None
    if function is None or not isinstance(first, Dequantize):
        return None
    codes = np.arange(first.x.dtype.low, first.x.dtype.high + 1).astype(first.x.dtype.numpy)
    for step in (first, function, op):
        codes = evaluate_operator(step, codes)
    return Lookup(op.name, op.op_type, first.x, op.y, codes.astype(np.int64), (function.name,))
