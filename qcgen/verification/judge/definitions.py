"""Operators that onnx.reference lacks, or has for some ranks or opsets only: codes become float64, and codes again.

Each is what onnxruntime's docs/ContribOperators.md or ONNX's Operators.md say. Inputs and attributes are the operator's
own, in its order and by its names, None where they are absent; s are scales, z zero points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from qcgen.ir.types import Array

MICROSOFT = "com.microsoft"
Optional = Array | None


def _real(x: Array, s: Array, z: Optional, axis: int = 0) -> Array:
    """(x - zero_point) * scale in float64; scale and zero point for all elements, or along an axis."""
    zero = np.zeros((), np.int64) if z is None else z.astype(np.int64)
    shifted = x.astype(np.int64) - _along(zero, x.ndim, axis)
    return np.asarray(shifted * _along(s.astype(np.float64), x.ndim, axis))


def _along(values: Array, rank: int, axis: int) -> Array:
    if values.size == 1:
        return values.reshape(())
    return values.reshape([-1 if each == axis % rank else 1 for each in range(rank)])


def _codes(y: Array, s: Array, z: Optional, like: Array) -> Array:
    """The codes of numbers: the nearest one, ties to even, the lowest for NaN."""
    dtype = like.dtype if z is None else z.dtype
    ends = np.iinfo(dtype)
    codes = np.rint(np.asarray(y, np.float64) / np.float64(s.reshape(()))) + (0 if z is None else int(z.reshape(())))
    return np.asarray(np.nan_to_num(np.clip(codes, ends.min, ends.max), nan=ends.min).astype(dtype))


def _evaluated(op_type: str, *inputs: Optional, **attributes: Any) -> Array:
    """The only output of an operator of ai.onnx, as onnx.reference computes it."""
    names = ["" if each is None else f"i{index}" for index, each in enumerate(inputs)]
    given = {name: value for name, value in attributes.items() if value is not None}
    node = helper.make_node(op_type, names, ["y"], **given)
    feeds = {name: each for name, each in zip(names, inputs, strict=True) if name}
    [y] = ReferenceEvaluator(node).run(None, feeds)
    return np.asarray(y)


def _of_images(op_type: str, x: Array, *inputs: Optional, channels_last: int = 0, **attributes: Any) -> Array:
    """The same of images whose channels may be the last axis."""
    if not channels_last:
        return _evaluated(op_type, x, *inputs, **attributes)
    return np.moveaxis(_evaluated(op_type, np.moveaxis(x, -1, 1), *inputs, **attributes), 1, -1)


def quantize_linear(x: Array, s: Array, z: Optional = None, **attributes: Any) -> Array:
    """onnx.reference wraps what leaves 32 bits, where the specification saturates."""
    limit = 2.0**30 * s.max()
    inside = np.nan_to_num(np.clip(x.astype(np.float64), -limit, limit), nan=-limit)
    return _evaluated("QuantizeLinear", inside, s.astype(np.float64), z, **_of_blocks(**attributes))


def dequantize_linear(x: Array, s: Array, z: Optional = None, **attributes: Any) -> Array:
    """onnx.reference has it from opset 19 on."""
    return _evaluated("DequantizeLinear", x, s, z, **_of_blocks(**attributes))


def _of_blocks(axis: int = 1, block_size: int = 0, output_dtype: int = 0, **_: Any) -> Mapping[str, int]:
    given = {"axis": axis, "block_size": block_size, "output_dtype": output_dtype}
    return {name: value for name, value in given.items() if name == "axis" or value}


def qlinear_conv(
    x: Array, sx: Array, zx: Optional, w: Array, sw: Array, zw: Optional, sy: Array, zy: Optional,
    bias: Optional = None, **attributes: Any,
) -> Array:  # fmt: skip
    """onnx.reference has scales per channel for two spatial axes only."""
    unit = np.float64(sx.reshape(())) * sw.reshape(-1).astype(np.float64)
    added = None if bias is None else bias * unit
    return _codes(_of_images("Conv", _real(x, sx, zx), _real(w, sw, zw), added, **attributes), sy, zy, x)


def conv_integer(x: Array, w: Array, zx: Optional = None, zw: Optional = None, **attributes: Any) -> Array:
    """onnx.reference has zero points per channel for two spatial axes only; sums are modulo 2^32."""
    one = np.ones(())
    sums = _evaluated("Conv", _real(x, one, zx), _real(w, one, zw), **attributes)
    return np.asarray(sums.astype(np.int64).astype(np.int32))


def batch_normalization(
    x: Array, scale: Array, bias: Array, mean: Array, var: Array, epsilon: float = 1e-5, **_: Any
) -> Array:
    """Inference; before opset 14 onnx.reference trains."""
    factor, offset, middle, spread = (_along(each.astype(np.float64), x.ndim, 1) for each in (scale, bias, mean, var))
    return np.asarray((factor * (x - middle) / np.sqrt(spread + epsilon) + offset).astype(x.dtype))


def max_pool(x: Array, **attributes: Any) -> Array:
    """onnx.reference pads with NaN, which integers have not."""
    return np.asarray(_of_images("MaxPool", x.astype(np.float64), **attributes).astype(x.dtype))


def nhwc_max_pool(x: Array, **attributes: Any) -> Array:
    """MaxPool of images with channels last."""
    return max_pool(x, channels_last=1, **attributes)


def qlinear_add(
    a: Array, sa: Array, za: Optional, b: Array, sb: Array, zb: Optional, s: Array, z: Optional = None
) -> Array:
    """a + b."""
    return _codes(_real(a, sa, za) + _real(b, sb, zb), s, z, a)


def qlinear_mul(
    a: Array, sa: Array, za: Optional, b: Array, sb: Array, zb: Optional, s: Array, z: Optional = None
) -> Array:
    """a * b."""
    return _codes(_real(a, sa, za) * _real(b, sb, zb), s, z, a)


def qgemm(
    a: Array, sa: Array, za: Optional, b: Array, sb: Array, zb: Optional,
    c: Optional = None, s: Optional = None, z: Optional = None, alpha: float = 1.0, **transposed: int,
) -> Array:  # fmt: skip
    """alpha * A * B + C, C in units of alpha * a_scale * b_scale; codes where y_scale is given, else float32."""
    left = _real(a, sa, za)
    right = _real(b, sb, zb, axis=0 if transposed.get("transB") else 1)
    y = alpha * (left.T if transposed.get("transA") else left) @ (right.T if transposed.get("transB") else right)
    if c is not None:
        y = y + c * (alpha * np.float64(sa.reshape(())) * sb.reshape(-1).astype(np.float64))
    return np.asarray(y.astype(np.float32)) if s is None else _codes(y, s, z, a)


def qlinear_sigmoid(x: Array, sx: Array, zx: Optional, s: Array, z: Optional = None) -> Array:
    """1 / (1 + exp(-x))."""
    return _codes(1 / (1 + np.exp(-_real(x, sx, zx))), s, z, x)


def qlinear_leaky_relu(x: Array, sx: Array, zx: Optional, s: Array, z: Optional = None, alpha: float = 0.01) -> Array:
    """x, or alpha * x below 0."""
    real = _real(x, sx, zx)
    return _codes(np.where(real < 0, alpha * real, real), s, z, x)


def qlinear_softmax(x: Array, sx: Array, zx: Optional, s: Array, z: Optional, axis: int = -1, opset: int = 13) -> Array:
    """Softmax along an axis; before opset 13 along all axes from that one on."""
    real = _real(x, sx, zx)
    axes = tuple(range(axis % x.ndim, x.ndim)) if opset < 13 else axis
    powers = np.exp(real - real.max(axis=axes, keepdims=True))
    return _codes(powers / powers.sum(axis=axes, keepdims=True), s, z, x)


def softmax_of_rows(x: Array, axis: int = 1) -> Array:
    """Softmax of opsets before 13: along all axes from one on."""
    return np.asarray(np.exp(_log_softmax_of_rows(x, axis)).astype(x.dtype))


def log_softmax_of_rows(x: Array, axis: int = 1) -> Array:
    """The logarithm of that."""
    return np.asarray(_log_softmax_of_rows(x, axis).astype(x.dtype))


def _log_softmax_of_rows(x: Array, axis: int) -> Array:
    axes = tuple(range(axis % x.ndim, x.ndim))
    shifted = x.astype(np.float64) - x.max(axis=axes, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axes, keepdims=True)))


def qlinear_concat(s: Array, z: Array, *inputs: Array, axis: int) -> Array:
    """The numbers of several tensors, one behind the other."""
    parts = [_real(inputs[index], inputs[index + 1], inputs[index + 2]) for index in range(0, len(inputs), 3)]
    return _codes(np.concatenate(parts, axis), s, z, inputs[0])


def qlinear_global_average_pool(
    x: Array, sx: Array, zx: Optional, s: Array, z: Optional, channels_last: int = 0
) -> Array:
    """The mean of each channel."""
    axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    return _codes(_real(x, sx, zx).mean(axis=axes, keepdims=True), s, z, x)


def qlinear_average_pool(x: Array, sx: Array, zx: Optional, s: Array, z: Optional = None, **attributes: Any) -> Array:
    """The mean of each window."""
    return _codes(_of_images("AveragePool", _real(x, sx, zx), **attributes), s, z, x)


def gelu(x: Array, **_: Any) -> Array:
    """x / 2 * (1 + erf(x / sqrt(2)))."""
    halves = x.astype(np.float64) * (1 + np.vectorize(erf, [np.float64])(x / np.sqrt(2.0)))
    return np.asarray((halves / 2).astype(x.dtype))


def quick_gelu(x: Array, alpha: float = 1.702) -> Array:
    """x / (1 + exp(-alpha * x))."""
    return np.asarray((x.astype(np.float64) / (1 + np.exp(-alpha * x.astype(np.float64)))).astype(x.dtype))


DEFINITIONS: Mapping[tuple[str, str], Callable[..., Array]] = {
    ("", "BatchNormalization"): batch_normalization,
    ("", "ConvInteger"): conv_integer,
    ("", "DequantizeLinear"): dequantize_linear,
    ("", "MaxPool"): max_pool,
    ("", "QLinearConv"): qlinear_conv,
    ("", "QuantizeLinear"): quantize_linear,
    (MICROSOFT, "DequantizeLinear"): dequantize_linear,
    (MICROSOFT, "Gelu"): gelu,
    (MICROSOFT, "NhwcMaxPool"): nhwc_max_pool,
    (MICROSOFT, "QGemm"): qgemm,
    (MICROSOFT, "QLinearAdd"): qlinear_add,
    (MICROSOFT, "QLinearAveragePool"): qlinear_average_pool,
    (MICROSOFT, "QLinearConcat"): qlinear_concat,
    (MICROSOFT, "QLinearConv"): qlinear_conv,
    (MICROSOFT, "QLinearGlobalAveragePool"): qlinear_global_average_pool,
    (MICROSOFT, "QLinearLeakyRelu"): qlinear_leaky_relu,
    (MICROSOFT, "QLinearMul"): qlinear_mul,
    (MICROSOFT, "QLinearSigmoid"): qlinear_sigmoid,
    (MICROSOFT, "QLinearSoftmax"): qlinear_softmax,
    (MICROSOFT, "QuantizeLinear"): quantize_linear,
    (MICROSOFT, "QuickGelu"): quick_gelu,
}
"""By domain and type."""


BEFORE_13: Mapping[tuple[str, str], Callable[..., Array]] = {
    ("", "LogSoftmax"): log_softmax_of_rows,
    ("", "Softmax"): softmax_of_rows,
}
"""Operators of older opsets that onnx.reference takes for those of opset 13."""


def evaluators(opset: int) -> list[type[OpRun]]:
    """The definitions for an opset of ai.onnx as onnx.reference takes them: it finds a class by its domain and name."""
    chosen = DEFINITIONS if opset >= 13 else {**DEFINITIONS, **BEFORE_13}
    return [_evaluator(domain, name, define) for (domain, name), define in chosen.items()]


def _evaluator(domain: str, name: str, define: Callable[..., Array]) -> type[OpRun]:
    def run(self: OpRun, *inputs: Optional, **attributes: Any) -> tuple[Array]:
        given = {each.name for each in self.onnx_node.attribute}  # the others are defaults of the newest opset
        return (define(*inputs, **{name: value for name, value in attributes.items() if name in given}),)

    return type(name, (OpRun,), {"op_domain": domain, "_run": run})
