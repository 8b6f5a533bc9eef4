"""Rules for convolutions: what inputs there are, of which types and shapes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from qcgen.arithmetic import requantization_scale
from qcgen.check.attributes import conv_attribute_problems, group_of, window_problems
from qcgen.check.model import MAX_ELEMENTS, counted, shape_text
from qcgen.check.node import CODES, Q8, NodeView, arity_problems
from qcgen.check.operands import ConvOperands
from qcgen.convolutions import ConvKind, layout_of
from qcgen.errors import Problem
from qcgen.ir.program import Float32s
from qcgen.ir.types import DType, Layout

# Rules for the scales of quantized convolutions, and for the multiplier that they give together.

SCALES = ("x_scale", "w_scale", "y_scale")


def scale_problems(it: ConvOperands) -> Iterator[Problem]:
    """Scales that are not positive and finite; if all are, multipliers that overflow."""
    problems = [problem for role in SCALES for problem in _values(it, role)]
    yield from problems
    if not problems:
        yield from _multiplier(it)


def _scale(it: ConvOperands, role: str) -> Float32s | None:
    """The elements of a scale, None if it cannot be judged."""
    array = it.array(role)
    return None if array is None or array.dtype != np.float32 else array.reshape(-1)


def _values(it: ConvOperands, role: str) -> Iterator[Problem]:
    scale = _scale(it, role)
    if scale is None or not scale.size:
        return
    wrong = _wrong(scale)
    if wrong.size:
        what = f"{_subject(role, scale, wrong)} is {scale[wrong[0]]}; a scale must be positive and finite"
        yield it.problem(what, "quantize the model again, with data that makes every channel differ from zero")


def _multiplier(it: ConvOperands) -> Iterator[Problem]:
    x, w, y = (_scale(it, role) for role in SCALES)
    if x is None or w is None or y is None or x.size != 1 or y.size != 1 or not w.size:
        return
    scale = requantization_scale(x, w, y)
    wrong = _wrong(scale)
    if wrong.size:
        what = f"{_subject('x_scale * w_scale / y_scale', scale, wrong)} is {scale[wrong[0]]} in float32"
        yield it.problem(what, "the scales are too far apart: quantize the model again")


def _wrong(scale: Float32s) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The indices of the elements that are not positive and finite."""
    return np.flatnonzero(~(np.isfinite(scale) & (scale > 0)))


def _subject(name: str, scale: Float32s, wrong: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
    """The first wrong element, and how many there are besides."""
    if scale.size == 1:
        return name
    more = f" (as of {wrong.size - 1} more)" if wrong.size > 1 else ""
    return f"{name} of output channel {wrong[0]}{more}"


TYPES: dict[ConvKind, dict[str, tuple[DType, ...]]] = {
    ConvKind.QUANTIZED: {
        "x": Q8,
        "x_scale": (DType.FLOAT32,),
        "x_zero_point": Q8,
        "w": Q8,
        "w_scale": (DType.FLOAT32,),
        "w_zero_point": Q8,
        "y_scale": (DType.FLOAT32,),
        "y_zero_point": Q8,
        "B": (DType.INT32,),
    },
    ConvKind.INTEGER: {"x": Q8, "w": Q8, "x_zero_point": Q8, "w_zero_point": Q8},
    ConvKind.FLOAT: dict.fromkeys(("X", "W", "B"), (DType.FLOAT32, DType.FLOAT64)),
}
"""The element types that each operand may have."""

PER_TENSOR = ("x_scale", "x_zero_point", "y_scale", "y_zero_point")
PER_CHANNEL = ("w_scale", "w_zero_point")


def check_conv(view: NodeView) -> Iterator[Problem]:
    """Everything that is wrong with a convolution of any spelling."""
    it = ConvOperands(view.graph, view.node, view.signature, view.already_reported)
    yield from arity_problems(it)
    yield from _arity(it)
    yield from _constants(it)
    yield from _types(it)
    yield from conv_attribute_problems(it)
    yield from _image(it)
    yield from _weights(it)
    yield from _parameters(it)
    yield from window_problems(it)
    if it.is_quantized:
        yield from scale_problems(it)
    if it.is_float:
        yield from _finite(it)


def _arity(it: ConvOperands) -> Iterator[Problem]:
    for name in it.spelling.refused:
        if it.tensor(name):
            what = f"input {name}, which is added to the result, is not supported"
            yield it.problem(what, "save the model without fusing the addition into the convolution")
    outputs = len([name for name in it.node.outputs if name])
    if outputs != 1:
        yield it.problem(f"it has {counted(outputs, 'output')}, but must have one", "export the model again")
    elif not it.node.outputs[0]:
        yield it.problem("its first output has no name, and it has no second one", "export the model again")


def _constants(it: ConvOperands) -> Iterator[Problem]:
    """x is computed at run time; of everything else most is known when the code is generated."""
    for role in it.spelling.inputs:
        name = it.tensor(role)
        if not name or role in it.spelling.refused:
            continue
        if role.lower() == "x":
            if name in it.graph.constants:
                what = f"{role} is constant, so there is nothing to compute at run time"
                yield it.problem(what, "replace the node by its result")
        elif role not in it.spelling.computed and name not in {*it.graph.constants, *it.already_reported}:
            hint = "store its values in the model as an initializer"
            yield it.problem(f"{role} is not constant: {it.source(role)}", hint)


def _types(it: ConvOperands) -> Iterator[Problem]:
    for role, allowed in TYPES[it.spelling.kind].items():
        dtype = it.dtype(role)
        if dtype is not None and dtype not in allowed and it.tensor(role) not in it.already_reported:
            must = " or ".join(kind.value for kind in allowed)
            yield it.problem(f"{role} is {dtype.value}, but must be {must}", f"export the model with {role} as {must}")
    if it.is_float:
        yield from _float_types(it)
    for role in () if it.is_float else ("x", "w"):
        dtype, zero_point = it.dtype(role), it.dtype(f"{role}_zero_point")
        if dtype in CODES and zero_point in CODES and dtype is not zero_point and dtype and zero_point:
            what = f"{role}_zero_point is {zero_point.value}, but {role} is {dtype.value}"
            yield it.problem(what, f"give {role}_zero_point the type of {role}")


DOUBLE_ACTIVATIONS = ("", "Clip", "Relu")


def _float_types(it: ConvOperands) -> Iterator[Problem]:
    """All operands of one type; of double with few activations."""
    x = it.dtype("X")
    for role in ("W", "B"):
        dtype = it.dtype(role)
        if x is not None and x.is_float and dtype is not None and dtype.is_float and dtype is not x:
            yield it.problem(f"{role} is {dtype.value}, but X is {x.value}", f"give {role} the type of X")
    activation = it.node.attributes.get("activation", "")
    if x is DType.FLOAT64 and it.spelling.activations and activation not in DOUBLE_ACTIVATIONS:
        yield it.problem(f"activation {activation!r} of double is not supported", "use float, or Relu or Clip")


def _image(it: ConvOperands) -> Iterator[Problem]:
    """The rank and the size of x, its channels against w and the group."""
    x, title = it.shape("x"), it.title("x")
    if x is None:
        return
    if not 3 <= len(x) <= 6:
        what = f"{title} has shape {shape_text(x)}: {counted(len(x), 'dimension')}, but must have 3 to 6"
        yield it.problem(what, "a convolution works on batch, channels and 1 to 4 spatial axes")
        return
    sizes = [dim for dim in x if isinstance(dim, int)]
    if prod(sizes) > MAX_ELEMENTS:
        yield it.problem(f"{title} has {prod(sizes)} elements, more than {MAX_ELEMENTS}", "use smaller images")
    w, group = it.shape("w"), group_of(it)
    if w is None or group is None or len(w) < 2:
        return
    channels = x[-1] if layout_of(it.node, it.spelling) is Layout.CHANNELS_LAST else x[1]
    if isinstance(channels, int) and isinstance(w[1], int) and channels != w[1] * group:
        groups = f"{group} groups of {w[1]}" if group > 1 else f"{w[1]}"
        what = f"{title} has {channels} channels, but {it.title('w')} needs {groups}"
        yield it.problem(what, "correct the weights or the attribute group")


def _weights(it: ConvOperands) -> Iterator[Problem]:
    """The rank of w and its output channels against the group."""
    w, x, title = it.shape("w"), it.shape("x"), it.title("w")
    if w is None:
        return
    if x is not None and len(x) != len(w) and 3 <= len(x) <= 6:
        what = f"{title} has shape {shape_text(w)}: {counted(len(w), 'dimension')}, but {it.title('x')} has {len(x)}"
        yield it.problem(what, "weights are stored as (M, C/group, kernel), with one kernel axis per spatial axis")
    elif x is None and not 3 <= len(w) <= 6:
        what = f"{title} has shape {shape_text(w)}: {counted(len(w), 'dimension')}, but must have 3 to 6"
        yield it.problem(what, "weights are stored as (M, C/group, kernel)")
    elif any(isinstance(dim, int) and dim < 1 for dim in w):
        what = f"{title} has shape {shape_text(w)}; every dimension must be at least 1"
        yield it.problem(what, "export the model again")
    group, channels = group_of(it), it.channels
    if group is not None and channels is not None and channels % group:
        what = f"{title} has {channels} output channels, which cannot be divided into {group} groups"
        yield it.problem(what, "correct the weights or the attribute group")


def _parameters(it: ConvOperands) -> Iterator[Problem]:
    """Scales, zero points and the bias: one element, or one for every output channel."""
    channels, w = it.channels, it.title("w")
    for role in it.spelling.inputs:
        shape = it.shape(role)
        if shape is None or any(not isinstance(dim, int) for dim in shape):
            continue
        count, per_channel = prod(dim for dim in shape if isinstance(dim, int)), channels is not None
        if role in PER_TENSOR and (count != 1 or len(shape) > 1):
            yield it.problem(f"{role} has shape {shape_text(shape)}, but must be one number", f"give one {_kind(role)}")
        elif role in PER_CHANNEL and len(shape) > 1:
            what = f"{role} has shape {shape_text(shape)}, but must be a number or a vector"
            yield it.problem(what, f"give one {_kind(role)}, or one per output channel")
        elif role in PER_CHANNEL and per_channel and count not in (1, channels):
            what = f"{role} has {counted(count, 'element')}, but {w} has {channels} output channels"
            yield it.problem(what, f"give one {_kind(role)}, or one per output channel")
        elif role == "B" and len(shape) != 1:
            yield it.problem(
                f"B has shape {shape_text(shape)}, but must be a vector", "give one bias per output channel"
            )
        elif role == "B" and per_channel and count != channels:
            what = f"B has {counted(count, 'element')}, but {w} has {channels} output channels"
            yield it.problem(what, "give one bias per output channel")


def _kind(role: str) -> str:
    return "scale" if role.endswith("scale") else "zero point"


def _finite(it: ConvOperands) -> Iterator[Problem]:
    """Float weights and biases are written into C as numbers."""
    for role in ("W", "B"):
        array = it.array(role)
        if array is None or array.dtype not in (np.float32, np.float64):
            continue
        broken = int(np.count_nonzero(~np.isfinite(array)))
        if broken:
            what = f"{counted(broken, 'element')} of {role} {'is' if broken == 1 else 'are'} not finite"
            yield it.problem(what, "train or export the model again")
