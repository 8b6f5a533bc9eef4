"""How every supported convolution operator is spelt: its inputs in order, its types, its layout."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from qcgen.ir.graph import Node
from qcgen.ir.types import Layout

NHWC_DOMAIN = "com.ms.internal.nhwc"


class ConvKind(Enum):
    """What a convolution computes with."""

    QUANTIZED = "quantized"
    INTEGER = "integer"
    FLOAT = "float"


@dataclass(frozen=True)
class ConvSpelling:
    """One operator: ``inputs`` in ONNX's order.

    ``channels_last`` says that x and y are (N, spatial axes, C); None if the attribute channels_last of the node says
    so. Weights are (M, C/group, k...) in every spelling. ``activations`` is whether activation and activation_params
    are attributes. An input in ``refused`` has no meaning here.
    """

    kind: ConvKind
    inputs: tuple[str, ...]
    channels_last: bool | None = False
    activations: bool = False
    refused: tuple[str, ...] = ()


_QLINEAR = ("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", "B")
_FUSED = ("X", "W", "B", "Z")

CONVOLUTIONS: dict[tuple[str, str], ConvSpelling] = {
    ("", "Conv"): ConvSpelling(ConvKind.FLOAT, ("X", "W", "B")),
    ("", "ConvInteger"): ConvSpelling(ConvKind.INTEGER, ("x", "w", "x_zero_point", "w_zero_point")),
    ("", "QLinearConv"): ConvSpelling(ConvKind.QUANTIZED, _QLINEAR),
    ("com.microsoft", "QLinearConv"): ConvSpelling(ConvKind.QUANTIZED, _QLINEAR, channels_last=None),
    ("com.microsoft", "FusedConv"): ConvSpelling(ConvKind.FLOAT, _FUSED, activations=True, refused=("Z",)),
    ("com.microsoft", "NhwcFusedConv"): ConvSpelling(
        ConvKind.FLOAT, _FUSED, channels_last=True, activations=True, refused=("Z",)
    ),
    (NHWC_DOMAIN, "Conv"): ConvSpelling(ConvKind.FLOAT, ("X", "W", "B"), channels_last=True, activations=True),
    (NHWC_DOMAIN, "QLinearConv"): ConvSpelling(ConvKind.QUANTIZED, _QLINEAR, channels_last=True),
}
"""Every convolution that can be compiled, by (domain, op_type)."""


ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}
"""The activations of fused float convolutions with their parameters; those without any ignore what is given."""


def spelling_of(node: Node) -> ConvSpelling | None:
    """How this node spells a convolution, None if it is none."""
    return CONVOLUTIONS.get((node.domain, node.op_type))


def layout_of(node: Node, spelling: ConvSpelling) -> Layout:
    """Where the channels of this convolution's x and y are."""
    last = spelling.channels_last
    if last is None:
        value = node.attributes.get("channels_last", 0)
        last = isinstance(value, int) and value == 1
    return Layout.CHANNELS_LAST if last else Layout.CHANNELS_FIRST


def layout_of_pool(node: Node) -> Layout:
    """Where the channels of a pooling's x and y are."""
    is_last = node.domain == NHWC_DOMAIN or node.op_type == "NhwcMaxPool" or node.attributes.get("channels_last") == 1
    return Layout.CHANNELS_LAST if is_last else Layout.CHANNELS_FIRST
