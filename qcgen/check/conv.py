"""Rules for convolutions: what inputs there are, of which types and shapes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from qcgen.check.attributes import conv_attribute_problems, group_of, window_problems
from qcgen.check.model import MAX_ELEMENTS
from qcgen.check.node import (
    FLOAT,
    Q8,
    NodeView,
    Spec,
    arity_problems,
    constant_problems,
    number_kind,
    number_problems,
    type_problems,
)
from qcgen.check.operands import ConvOperands
from qcgen.check.ranges import multiplier_between_in_range, multiplier_in_range
from qcgen.convolutions import ConvKind, layout_of
from qcgen.errors import Problem
from qcgen.infer.facts import counted, shape_text
from qcgen.ir.types import DType, Layout

FLOAT_OR_DOUBLE = (DType.FLOAT32, DType.FLOAT64)
ZERO_POINTS = (("x_zero_point", "x"), ("w_zero_point", "w"))
PER_TENSOR = ("x_scale", "x_zero_point", "y_scale", "y_zero_point")
PER_CHANNEL = ("w_scale", "w_zero_point")
SCALES = ("x_scale", "w_scale", "y_scale")

OPERANDS: dict[ConvKind, Spec] = {
    ConvKind.QUANTIZED: Spec(
        (Q8, FLOAT, Q8, Q8, FLOAT, Q8, FLOAT, Q8, (DType.INT32,)),
        constant=(*PER_TENSOR, "w", *PER_CHANNEL, "B"),
        numbers=PER_TENSOR,
        scales=SCALES,
        same=ZERO_POINTS,
    ),
    ConvKind.INTEGER: Spec((Q8, Q8, Q8, Q8), constant=("w", "w_zero_point"), numbers=PER_TENSOR, same=ZERO_POINTS),
    ConvKind.FLOAT: Spec((FLOAT_OR_DOUBLE, FLOAT_OR_DOUBLE, FLOAT_OR_DOUBLE), constant=("W", "B")),
}
"""What the operands may be."""


def check_conv(view: NodeView) -> Iterator[Problem]:
    """Everything that is wrong with a convolution of any spelling."""
    it = ConvOperands(view.graph, view.node, view.signature, view.already_reported)
    operands = OPERANDS[it.spelling.kind]
    yield from arity_problems(it)
    yield from _arity(it)
    if it.array("x") is not None:
        what = f"{it.title('x')} is constant, so there is nothing to compute at run time"
        yield it.problem(what, "replace the node by its result")
    yield from constant_problems(it, operands)
    yield from type_problems(it, operands)
    yield from _float_types(it) if it.is_float else ()
    yield from conv_attribute_problems(it)
    yield from _image(it)
    yield from _weights(it)
    yield from number_problems(it, operands)
    yield from _parameters(it)
    yield from window_problems(it)
    if it.is_quantized:
        yield from multiplier_in_range(*SCALES)(it)
    if it.is_float:
        yield from _finite(it)
        yield from multiplier_between_in_range(it)


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


DOUBLE_ACTIVATIONS = ("", "Clip", "Relu")


def _float_types(it: ConvOperands) -> Iterator[Problem]:
    """All operands of one type; of double with few activations."""
    x, activation = it.dtype("x"), it.node.attributes.get("activation", "")
    for role in ("W", "B"):
        dtype = it.dtype(role)
        if x in FLOAT_OR_DOUBLE and dtype in FLOAT_OR_DOUBLE and dtype is not x and x and dtype:
            yield it.problem(f"{role} is {dtype.value}, but X is {x.value}", f"give {role} the type of X")
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
    """Scales and zero points of w, and the bias: one element, or one for every output channel."""
    for role in (*PER_CHANNEL, "B"):
        shape, is_bias = it.fixed_shape(role), role == "B"
        hint = "give one bias per output channel"
        if not is_bias:
            hint = f"give one {number_kind(role)}, or one per output channel"
        if shape is None:
            continue
        if len(shape) > 1 or (is_bias and not shape):
            must = "a vector" if is_bias else "a number or a vector"
            yield it.problem(f"{role} has shape {shape_text(shape)}, but must be {must}", hint)
        elif it.channels is not None and prod(shape) not in ((it.channels,) if is_bias else (1, it.channels)):
            channels = f"{it.title('w')} has {it.channels} output channels"
            yield it.problem(f"{role} has {counted(prod(shape), 'element')}, but {channels}", hint)


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
