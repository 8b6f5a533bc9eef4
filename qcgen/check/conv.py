"""What is accepted of convolutions, in whatever spelling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isnan, prod

from qcgen.check import limits, ranges
from qcgen.check.node import FLOAT, Q8, NodeView, Spec, number_kind
from qcgen.check.signature import INTEGER, NUMBERS, TEXT, Signature, fits, of_onnx
from qcgen.convolutions import ACTIVATIONS, CONVOLUTIONS, ConvKind, ConvSpelling
from qcgen.errors import Problem
from qcgen.geometry import AUTO_PADS
from qcgen.infer.facts import counted, shape_text
from qcgen.ir.types import DType

PER_TENSOR = ("x_scale", "x_zero_point", "y_scale", "y_zero_point")
PER_CHANNEL = ("w_scale", "w_zero_point")
DOUBLE_ACTIVATIONS = ("", "Clip", "Relu")


def without_sum(view: NodeView) -> Iterator[Problem]:
    """The input Z of FusedConv is absent."""
    for name in CONVOLUTIONS[view.node.domain, view.node.op_type].refused:
        if view.has(name):
            what = f"input {name}, which is added to the result, is not supported"
            yield view.problem(what, "save the model without fusing the addition into the convolution")


def padded_once(view: NodeView) -> Iterator[Problem]:
    """Padding is told by pads or by auto_pad."""
    value = view.node.attributes.get("auto_pad", "NOTSET")
    if isinstance(value, str) and value in AUTO_PADS[1:] and "pads" in view.node.attributes:
        yield view.problem(f"it has pads and auto_pad {value}", "give one of them")


def activates(view: NodeView) -> Iterator[Problem]:
    """The activation of a fused convolution is one that is known, with as many parameters as it has."""
    kind, params = view.node.attributes.get("activation", ""), view.node.attributes.get("activation_params", ())
    if view.dtype(0) is DType.FLOAT64 and kind not in DOUBLE_ACTIVATIONS:
        yield view.problem(f"activation {kind!r} of double is not supported", "use float, or Relu or Clip")
    if not isinstance(kind, str) or not isinstance(params, tuple) or not fits(NUMBERS, params) or not kind:
        return
    names = ACTIVATIONS.get(kind)
    if names is None:
        yield view.problem(f"the activation {kind!r} is unknown", f"use one of {', '.join(ACTIVATIONS)}")
    elif names and len(params) != len(names):
        what = f"the activation {kind} has {counted(len(params), 'parameter')}, but needs {len(names)}"
        yield view.problem(what, f"give {' and '.join(names)} in activation_params")
    elif any(isinstance(value, float) and isnan(value) for value in params):
        yield view.problem("activation_params holds NaN", "export the model again")


def parameters_fit(view: NodeView) -> Iterator[Problem]:
    """Scales and zero points of w, and the bias: one element, or one for every output channel."""
    w, title = view.shape("w"), view.signature.inputs[0].replace("x", "w").replace("X", "W")
    channels = w[0] if w and isinstance(w[0], int) else None
    for role in (*PER_CHANNEL, "B"):
        shape, is_bias = view.fixed_shape(role), role == "B"
        hint = f"give one {number_kind(role)}, or one per output channel"
        if is_bias:
            hint = "give one bias per output channel"
        if shape is None:
            continue
        if len(shape) > 1 or (is_bias and not shape):
            must = "a vector" if is_bias else "a number or a vector"
            yield view.problem(f"{role} has shape {shape_text(shape)}, but must be {must}", hint)
        elif channels is not None and prod(shape) not in ((channels,) if is_bias else (1, channels)):
            what = f"{role} has {counted(prod(shape), 'element')}, but {title} has {channels} output channels"
            yield view.problem(what, hint)


RULES = (without_sum, limits.auto_pad_exists, padded_once, parameters_fit)
QUANTIZED = Spec(
    (Q8, FLOAT, Q8, Q8, FLOAT, Q8, FLOAT, Q8, (DType.INT32,)),
    constant=(*PER_TENSOR, "w", *PER_CHANNEL, "B"),
    numbers=PER_TENSOR,
    scales=("x_scale", "w_scale", "y_scale"),
    same=(("x_zero_point", "x"), ("w_zero_point", "w")),
    extra=(*RULES, limits.flag("channels_last", 0, 1), ranges.multiplier_in_range("x_scale", "w_scale", "y_scale")),
    bears=True,
)
OF_KINDS = {
    ConvKind.QUANTIZED: QUANTIZED,
    ConvKind.INTEGER: Spec(
        (Q8, Q8, Q8, Q8),
        constant=("w", "w_zero_point"),
        numbers=("x_zero_point",),
        same=QUANTIZED.same,
        extra=RULES,
        bears=True,
    ),
    ConvKind.FLOAT: Spec(
        ((*FLOAT, DType.FLOAT64),) * 3,
        constant=("W", "B"),
        same=(("W", "X"), ("B", "X")),
        extra=(*RULES, activates, limits.finite_constants, ranges.multiplier_between_in_range),
        bears=True,
    ),
}
"""What is accepted of those that compute with the same."""

LIKE = {ConvKind.QUANTIZED: "QLinearConv", ConvKind.INTEGER: "ConvInteger", ConvKind.FLOAT: "Conv"}
"""ai.onnx's convolutions, of which those of other domains are spellings."""


def conv_spec(spelling: ConvSpelling) -> Spec:
    """What is accepted of a convolution that is spelt so."""
    like = of_onnx(LIKE[spelling.kind])
    attributes = dict(like.attributes)
    if spelling.channels_last is None:
        attributes["channels_last"] = INTEGER
    if spelling.activations:
        attributes |= {"activation": TEXT, "activation_params": NUMBERS}
    return replace(OF_KINDS[spelling.kind], signature=Signature(spelling.inputs, like.required, attributes))
