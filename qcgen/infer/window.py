"""Shapes of convolutions and poolings."""

from __future__ import annotations

from qcgen.convolutions import CONVOLUTIONS, NHWC_DOMAIN, ConvKind, layout_of
from qcgen.geometry import Window, window_of
from qcgen.infer.facts import Facts, Shape, TensorType
from qcgen.ir.graph import Dim
from qcgen.ir.types import DType, Layout


def convolution(facts: Facts) -> tuple[TensorType, ...]:
    """Y of any convolution: (N, M, output...) or, channels last, (N, output..., M)."""
    spelling = CONVOLUTIONS[facts.node.domain, facts.node.op_type]
    roles = [name.lower() for name in spelling.inputs]
    x, w = facts.shape(roles.index("x")), facts.shape(roles.index("w"))
    match spelling.kind:
        case ConvKind.QUANTIZED:
            dtype = facts.dtype(roles.index("y_zero_point"))
        case ConvKind.INTEGER:
            dtype = DType.INT32
        case ConvKind.FLOAT:
            dtype = facts.dtype(roles.index("x"))
    if x is None:
        return (TensorType(dtype, None),)
    kernel = _conv_kernel(facts, w, len(x) - 2)
    channels = None if w is None else w[0]
    last = layout_of(facts.node, spelling) is Layout.CHANNELS_LAST
    return (TensorType(dtype, _slide(facts, x, kernel, channels, channels_last=last)),)


def _conv_kernel(facts: Facts, w: Shape | None, rank: int) -> tuple[int, ...] | None:
    if w is None:
        return facts.integers("kernel_shape")
    kernel = tuple(dim for dim in w[2:] if isinstance(dim, int))
    if len(kernel) != len(w) - 2 or len(w) != rank + 2:
        raise ValueError("x and w have different ranks")
    return kernel


def pooling(facts: Facts) -> tuple[TensorType, ...]:
    """Y of MaxPool and AveragePool, and the indices of MaxPool."""
    last = facts.node.domain == NHWC_DOMAIN or facts.node.op_type == "NhwcMaxPool"
    return _pool(facts, facts.dtype(0), channels_last=last)


def quantized_pooling(facts: Facts) -> tuple[TensorType, ...]:
    """QLinearAveragePool, whose layout an attribute gives."""
    return _pool(facts, facts.dtype(0), channels_last=facts.integer("channels_last", 0) == 1)


def _pool(facts: Facts, dtype: DType | None, *, channels_last: bool) -> tuple[TensorType, ...]:
    x, kernel = facts.shape(0), facts.integers("kernel_shape")
    if x is None or kernel is None:
        return (TensorType(dtype, None), TensorType(DType.INT64, None))
    shape = _slide(facts, x, kernel, x[-1] if channels_last else x[1], channels_last=channels_last)
    return (TensorType(dtype, shape), TensorType(DType.INT64, shape))


def _slide(
    facts: Facts, x: Shape, kernel: tuple[int, ...] | None, channels: Dim, *, channels_last: bool
) -> Shape | None:
    if kernel is None or len(kernel) != len(x) - 2:
        return None
    window = window_of(facts.node, kernel)
    if window.why_not() is not None:
        return None
    sizes = x[1:-1] if channels_last else x[2:]
    output = tuple(_output(window, index, size) for index, size in enumerate(sizes))
    return (x[0], *output, channels) if channels_last else (x[0], channels, *output)


def _output(window: Window, index: int, size: Dim) -> Dim:
    return window.axis(index, size).output if isinstance(size, int) else None


def global_pooling(facts: Facts) -> tuple[TensorType, ...]:
    """GlobalAveragePool and GlobalMaxPool: every spatial axis shrinks to 1."""
    return _global(facts, channels_last=facts.node.domain == NHWC_DOMAIN)


def quantized_global_pooling(facts: Facts) -> tuple[TensorType, ...]:
    """QLinearGlobalAveragePool, whose layout an attribute gives."""
    return _global(facts, channels_last=facts.integer("channels_last", 0) == 1)


def _global(facts: Facts, *, channels_last: bool) -> tuple[TensorType, ...]:
    x = facts.shape(0)
    if x is None:
        return (TensorType(facts.dtype(0), None),)
    ones: Shape = (1,) * (len(x) - 2)
    return (TensorType(facts.dtype(0), (x[0], *ones, x[-1]) if channels_last else (x[0], x[1], *ones)),)
