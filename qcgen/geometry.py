"""How convolutions are spelt, and where sliding windows and resized images take their elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import prod

import numpy as np

from qcgen.ir.graph import Attribute, Node
from qcgen.ir.types import Array, Layout

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


AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
"""The values of auto_pad, exactly as they are spelt."""


@dataclass(frozen=True)
class WindowAxis:
    """One spatial axis: padding before and after the image, the number of windows, and how far apart they are.

    ``output`` is zero or negative where the window does not fit into the padded image. ``stride`` is the node's; where
    there is one window, the smallest that leaves no second one, since a larger one has no effect: so windows of stride
    1 leave no element out, and no stride is larger than the padded image. ``crop`` is the number of elements before the
    first window, where SAME_UPPER or SAME_LOWER leaves some out.
    """

    pad_begin: int
    pad_end: int
    output: int
    stride: int
    crop: int = 0


@dataclass(frozen=True)
class Window:
    """What a node says of its window, one entry per spatial axis; absent attributes have their defaults."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    auto_pad: str
    ceil_mode: bool = False
    is_pooling: bool = False

    def why_not(self) -> str | None:
        """Why no output size can be computed, None if one can."""
        rank = len(self.kernel)
        if any(len(part) != rank for part in (self.strides, self.dilations, self.pads_begin, self.pads_end)):
            return "kernel, strides, dilations and pads have different lengths"
        if self.auto_pad not in AUTO_PADS:
            return f"auto_pad is {self.auto_pad!r}"
        if min(self.kernel + self.strides + self.dilations, default=1) < 1:
            return "kernel, strides and dilations must be positive"
        if min(self.pads_begin + self.pads_end, default=0) < 0:
            return "pads must not be negative"
        return None

    def axis(self, index: int, size: int) -> WindowAxis:
        """The explicit geometry of one axis of an image of this size; only if ``why_not()`` is None.

        Source: the operator documents of Conv and MaxPool. Where the stride exceeds the kernel, SAME can leave elements
        out; how many of them before the first window is onnxruntime's choice, and not the same for convolutions and
        poolings. Checked: all of 4 to 15 elements, 1 to 3 taps and strides up to 8.
        """
        stride = self.strides[index]
        extent = (self.kernel[index] - 1) * self.dilations[index] + 1
        match self.auto_pad:
            case "SAME_UPPER" | "SAME_LOWER":
                output = -(-size // stride)
                need = (output - 1) * stride + extent - size
                is_lower = self.auto_pad == "SAME_LOWER"
                if need < 0:
                    crop = max(0, -need - is_lower - (not self.is_pooling)) // 2
                    return WindowAxis(0, 0, output, _effective(stride, output, -need - crop), crop)
                begin = (need + 1) // 2 if is_lower else need // 2
                return WindowAxis(begin, need - begin, output, _effective(stride, output, 0))
            case "VALID":
                begin, end = 0, 0
            case _:
                begin, end = self.pads_begin[index], self.pads_end[index]
        room = size + begin + end - extent
        output = self._windows(room, size + begin, stride)
        return WindowAxis(begin, end, output, _effective(stride, output, room))

    def _windows(self, room: int, end: int, stride: int) -> int:
        """The number of windows that start at 0 to ``room``; the end padding starts at ``end``.

        With ceil_mode the last one may reach out, but must not start in the end padding.
        """
        if not self.ceil_mode:
            return room // stride + 1
        windows = -(-room // stride) + 1
        return windows - 1 if (windows - 1) * stride >= end else windows


def _effective(stride: int, windows: int, room: int) -> int:
    """The stride of windows that could start at 0 to ``room``; of a single one the smallest that leaves it alone."""
    return stride if windows > 1 else max(1, min(stride, room + 1))


def window_of(node: Node, kernel: tuple[int, ...]) -> Window:
    """The window that the node's attributes describe, for a kernel of this shape.

    Attributes of a wrong type raise ValueError or TypeError; wrong lengths and values are kept for ``why_not()``.
    """
    rank = len(kernel)
    pads = _integers(node, "pads", (0,) * (2 * rank))
    if len(pads) % 2:
        raise ValueError(f"pads has {len(pads)} elements")
    half = len(pads) // 2
    return Window(
        kernel,
        strides=_integers(node, "strides", (1,) * rank),
        dilations=_integers(node, "dilations", (1,) * rank),
        pads_begin=pads[:half],
        pads_end=pads[half:],
        auto_pad=str(node.attributes.get("auto_pad", "NOTSET")),
        ceil_mode=_is_one(node.attributes.get("ceil_mode")),
        is_pooling="Pool" in node.op_type,
    )


def _integers(node: Node, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    given = node.integers(name)
    return default if given is None else given


def _is_one(value: Attribute) -> bool:
    return isinstance(value, int) and value == 1


MOST_PHASES = 256
"""Of a transposed convolution: each takes weights of its own, so that no small model becomes a large one."""


@dataclass(frozen=True)
class TransposedAxis:
    """One spatial axis of a ConvTranspose: y[q - pad] sums x[i] w[k] over all i * stride + k * dilation = q.

    With q = stride * t + r, y's phase r at t sums x[t - j] w[k] over all j with stride * j + r = k * dilation: a
    convolution of ``reach`` taps. ``pad`` is that in front, ``outputs`` how many are wanted.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    outputs: int

    @property
    def reach(self) -> int:
        """The taps of the convolution."""
        return ((self.kernel - 1) * self.dilation + self.stride) // self.stride

    @property
    def t_first(self) -> int:
        """The first t of which an output is wanted, or an earlier one: convolutions have no negative pads."""
        return min(self.pad // self.stride, self.reach - 1)

    @property
    def first(self) -> int:
        """The first output that is wanted, of those from ``stride * t_first`` on."""
        return self.pad - self.stride * self.t_first

    @property
    def pads(self) -> tuple[int, int]:
        """Of the convolution; it may compute more than is wanted, but no less."""
        before = self.reach - 1 - self.t_first
        count = -(-(self.first + self.outputs) // self.stride)
        return before, max(0, count - (self.size + before - self.reach + 1))

    @property
    def is_cut(self) -> bool:
        """Whether the convolution computes more than is wanted."""
        count = self.size + sum(self.pads) - self.reach + 1
        return self.first > 0 or count * self.stride != self.outputs

    def taps(self, phase: int) -> list[tuple[int, int]]:
        """The taps of a phase: where each is in the convolution's window, and which one of the operator's it is."""
        found = [((phase + self.stride * j) / self.dilation, self.reach - 1 - j) for j in range(self.reach)]
        return [(place, int(k)) for k, place in found if k.is_integer() and k < self.kernel]


def transposed_axes(node: Node, x: tuple[int, ...], w: tuple[int, ...]) -> tuple[TransposedAxis, ...]:
    """The spatial axes of a ConvTranspose of tensors of these shapes; raises ValueError(what, hint) of an attribute.

    Where output_shape or SAME decides, the odd pad is in front but for SAME_UPPER. Source: onnxruntime's
    ComputeTransposePadAndOutputShape, checked along one axis of 3 and 4 elements for all small windows.
    """
    rank, auto_pad = len(x) - 2, str(node.attributes.get("auto_pad", "NOTSET"))
    strides, dilations = (_of_rank(node, name, (1,) * rank, 1) for name in ("strides", "dilations"))
    more, pads = _of_rank(node, "output_padding", (0,) * rank), _of_rank(node, "pads", (0,) * 2 * rank)
    wanted = _of_rank(node, "output_shape", (0,) * rank, 1) if "output_shape" in node.attributes else None
    if auto_pad not in AUTO_PADS:
        raise ValueError(f"auto_pad is {auto_pad!r}, which does not exist", _corrected("auto_pad"))
    if auto_pad != "NOTSET" and "pads" in node.attributes:
        raise ValueError(f"it has pads and auto_pad {auto_pad}, of which onnxruntime takes one", "remove either")
    if (phases := prod(strides)) > MOST_PHASES:
        what = f"strides are {strides}, whose product {phases} is more than {MOST_PHASES}"
        raise ValueError(what, _corrected("strides"))
    found = []
    for i, size in enumerate(x[2:]):
        extent = (w[2 + i] - 1) * dilations[i] + 1
        whole = strides[i] * (size - 1) + more[i] + extent
        begin, end, by = pads[i], pads[rank + i], "pads"
        if wanted is not None or auto_pad.startswith("SAME"):
            by = "auto_pad" if wanted is None else "output_shape"
            total = max(0, whole - (size * strides[i] if wanted is None else wanted[i]))
            begin = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            end = total - begin
        outputs = whole - begin - end if wanted is None else wanted[i]
        axis = TransposedAxis(size, w[2 + i], strides[i], dilations[i], begin, outputs)
        if wanted is not None and (outputs + begin + end - extent) // strides[i] + 1 != size:
            most = strides[i] * size + extent - 1
            what = f"output_shape is {wanted}, but spatial axis {i} has at most {most} elements"
            raise ValueError(what, _corrected("output_shape"))
        if outputs < 1:
            what = f"{by} cuts {begin} and {end} elements from spatial axis {i}, which has {whole}"
            raise ValueError(what, _corrected(by))
        found.append(axis)
    return tuple(found)


def _of_rank(node: Node, name: str, default: tuple[int, ...], least: int = 0) -> tuple[int, ...]:
    """An attribute with as many numbers as its default has, none of them less than ``least``."""
    value: object = node.attributes.get(name, default)
    if not isinstance(value, tuple) or len(value) != len(default) or not all(isinstance(each, int) for each in value):
        raise ValueError(f"{name} is {value!r}, but must be {len(default)} integers", _corrected(name))
    if min(value) < least:
        raise ValueError(f"{name} is {value}, but every number must be at least {least}", _corrected(name))
    return value


def _corrected(name: str) -> str:
    return f"correct {name}, or give pads alone"


HALF = np.float32(0.5)

ResizedCoordinate = Callable[[Array, np.float32, int, int], Array]

COORDINATES: Mapping[str, ResizedCoordinate] = {
    "align_corners": lambda at, _scale, size, length: at * np.float32(size - 1) / np.float32(max(length - 1, 1)),
    "asymmetric": lambda at, scale, _size, _length: np.asarray(at / scale),
    "half_pixel": lambda at, scale, _size, _length: np.asarray((at + HALF) / scale - HALF),
    "pytorch_half_pixel": lambda at, scale, _size, length: ((at + HALF) / scale - HALF) * (length > 1),
    "tf_half_pixel_for_nn": lambda at, scale, _size, _length: np.asarray((at + HALF) / scale),
}
"""Where elements of a resized axis lie in the one before, in float32: of their places, the scale and both sizes.

Source: the operator document of Resize, and onnxruntime's UpsampleBase for the order of float operations.
"""
