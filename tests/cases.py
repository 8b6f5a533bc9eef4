"""The one table of named convolutions that every suite of kernels and generated C runs over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from typing import Any
from zlib import crc32

import numpy as np
from models import MICROSOFT, NHWC, conv_integer, float_conv, qlinear_conv, random_weights
from onnx import ModelProto

from qcgen.compiler import read
from qcgen.ir.graph import Graph

Q8 = ("int8", "uint8")
SHORT = {"int8": "s8", "uint8": "u8"}
X_ZERO_POINT = {"int8": -5, "uint8": 121}
W_ZERO_POINT = {"int8": 0, "uint8": 128}
Y_ZERO_POINT = {"int8": 3, "uint8": 131}


@dataclass(frozen=True)
class Case:
    """A model of one convolution, or one ``node`` of a model; ``name`` is an identifier that no other case has."""

    name: str
    build: Callable[[], ModelProto]
    numerics: str = "onnxruntime"
    node: str | None = None

    @property
    def graph(self) -> Graph:
        """The model with every type and shape, ready for compile_graph."""
        return _graph(self)


def grouped(x_shape: Sequence[int], w_shape: Sequence[int], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with the groups that follow from the channels, which lie first unless there is a domain."""
    group = x_shape[1] // w_shape[1]
    return {"group": group, **options} if group > 1 and "domain" not in options else dict(options)


@cache
def _graph(case: Case) -> Graph:
    return read(case.build())


def quantized(
    name: str,
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    types: tuple[str, str, str] = ("int8", "int8", "int8"),
    *,
    scale: float | Sequence[float] | None = None,
    per_channel: bool = True,
    w: np.ndarray | None = None,
    bias: Sequence[int] | np.ndarray | bool = True,
    **options: Any,
) -> Case:
    """A QLinearConv of types (x, w, y).

    ``scale`` is x_scale * w_scale / y_scale, one for all channels or one for each; by default random inputs give
    outputs over the whole range. ``bias`` True makes a random one, False none. ``options`` go to qlinear_conv.
    """

    def build() -> ModelProto:
        rng = np.random.default_rng(crc32(name.encode()))
        x_type, w_type, y_type = types
        weights = random_weights(w_shape, w_type, seed=crc32(name.encode())) if w is None else w
        spread = 4300 * prod(w_shape[1:]) ** 0.5  # the standard deviation of a sum of random products, roughly
        factors = rng.uniform(0.5, 2, w_shape[0]) if per_channel else np.ones(())
        multiplier = 60 / spread * factors if scale is None else np.asarray(scale, np.float64)
        if isinstance(bias, bool):
            added = rng.integers(-spread, spread, w_shape[0]).tolist() if bias else None
        else:
            added = np.asarray(bias, np.int64).tolist()
        given: dict[str, Any] = {
            "x_type": x_type,
            "y_type": y_type,
            "x_zero_point": X_ZERO_POINT[x_type],
            "w_zero_point": W_ZERO_POINT[w_type],
            "y_zero_point": Y_ZERO_POINT[y_type],
            "x_scale": 0.25,
            "w_scale": multiplier,
            "y_scale": 0.25,
            "bias": added,
        }
        return qlinear_conv(x_shape, weights, **(given | grouped(x_shape, w_shape, options)))

    return Case(name, build)


def integer(
    name: str,
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    types: tuple[str, str],
    full: bool = False,
    w: np.ndarray | None = None,
    **options: Any,
) -> Case:
    """A ConvInteger of types (x, w); ``full`` makes every weight the largest of its type."""

    def build() -> ModelProto:
        x_type, w_type = types
        weights = random_weights(w_shape, w_type, seed=crc32(name.encode())) if w is None else w
        weights = np.full_like(weights, np.iinfo(w_type).max) if full else weights
        return conv_integer(x_shape, weights, x_type=x_type, **grouped(x_shape, w_shape, options))

    return Case(name, build)


def real(name: str, x_shape: Sequence[int], w_shape: Sequence[int], bias: bool = True, **options: Any) -> Case:
    """A float convolution; ``options`` go to float_conv."""

    def build() -> ModelProto:
        seed = crc32(name.encode())
        added = random_weights(w_shape[:1], "float32", seed + 1) if bias else None
        weights = random_weights(w_shape, "float32", seed)
        return float_conv(x_shape, weights, added, **grouped(x_shape, w_shape, options))

    return Case(name, build)


def orion(name: str, numerics: str, x_shape: Sequence[int], w_shape: Sequence[int], **options: Any) -> Case:
    """A QLinearConv in Orion's arithmetic."""

    def build() -> ModelProto:
        w = random_weights(w_shape, "int8", seed=crc32(name.encode()))
        given: dict[str, Any] = {
            "x_type": "int8",
            "y_type": "int8",
            "x_scale": 0.02,
            "x_zero_point": -3,
            "w_scale": 0.01,
            "w_zero_point": 5,
            "y_scale": 0.5,
            "y_zero_point": 2,
            "bias": list(range(-100, 100, 200 // w_shape[0]))[: w_shape[0]],
        }
        return qlinear_conv(x_shape, w, **(given | options))

    return Case(name, build, numerics)


def named(name: str, x: str, y: str, node: str, **options: Any) -> Case:
    """A convolution whose tensors and node have these names."""

    def build() -> ModelProto:
        model = quantized(name, (1, 3, 4, 5), (4, 3, 3, 3), pads=[1, 1, 1, 1], **options).build()
        renamed = {"x": x, "y": y}
        model.graph.input[0].name, model.graph.output[0].name, model.graph.node[0].name = x, y, node
        for names in (model.graph.node[0].input, model.graph.node[0].output):
            names[:] = [renamed.get(old, f"constant {old}") for old in names]
        for initializer in model.graph.initializer:
            initializer.name = f"constant {initializer.name}"
        return model

    return Case(name, build)


S8, U8 = ("int8", "int8", "int8"), ("uint8", "uint8", "uint8")
U8S8 = ("uint8", "int8", "uint8")

GEOMETRIES = (
    quantized("line", (1, 3, 11), (4, 3, 3)),
    quantized("line_padded_strided", (2, 3, 11), (5, 3, 4), U8, pads=[2, 3], strides=[2]),
    quantized("line_dilated", (1, 2, 12), (3, 2, 3), U8S8, pads=[3, 0], dilations=[4]),
    quantized("plane", (1, 3, 6, 7), (5, 3, 3, 3), U8),
    quantized("plane_padded", (1, 4, 6, 7), (6, 4, 3, 3), U8S8, pads=[1, 1, 1, 1]),
    quantized("strides_differ", (1, 3, 9, 10), (4, 3, 3, 2), strides=[2, 3], pads=[1, 0, 0, 1]),
    quantized("stride_exceeds_kernel", (1, 2, 11, 10), (3, 2, 2, 1), U8, strides=[4, 3]),
    quantized("dilations_differ", (1, 2, 9, 8), (3, 2, 3, 2), dilations=[2, 3], pads=[2, 0, 1, 3]),
    quantized("pads_asymmetric", (1, 3, 7, 9), (5, 3, 3, 2), U8, pads=[0, 2, 3, 1], strides=[2, 3]),
    quantized("pads_exceed_kernel", (1, 3, 3, 2), (4, 3, 2, 2), pads=[4, 3, 3, 5]),
    quantized("windows_wholly_in_padding", (1, 2, 1, 1), (3, 2, 1, 1), U8, pads=[2, 2, 2, 2], strides=[2, 2]),
    quantized("kernel_exceeds_image", (1, 2, 2, 2), (3, 2, 3, 5), pads=[2, 2, 2, 2]),
    quantized("same_upper", (1, 2, 8, 7), (3, 2, 4, 3), auto_pad="SAME_UPPER", strides=[3, 2]),
    quantized("same_lower", (1, 2, 8, 7), (3, 2, 4, 3), U8, auto_pad="SAME_LOWER", strides=[3, 2]),
    quantized("same_with_dilation", (1, 2, 8, 7), (3, 2, 2, 2), auto_pad="SAME_UPPER", dilations=[3, 2]),
    quantized("same_with_stride_beyond_kernel", (1, 2, 8, 9), (3, 2, 2, 1), auto_pad="SAME_LOWER", strides=[5, 3]),
    quantized("valid", (1, 2, 8, 7), (3, 2, 4, 3), U8S8, auto_pad="VALID", strides=[1, 2]),
    quantized("batch_of_3", (3, 3, 5, 4), (4, 3, 3, 3), U8, pads=[1, 0, 0, 1]),
    quantized("groups", (1, 6, 5, 6), (4, 3, 3, 3), pads=[1, 1, 1, 1]),
    quantized("groups_of_3_in_5_out", (2, 6, 5, 4), (10, 3, 2, 2), U8S8),
    quantized("groups_dilated", (1, 4, 7, 7), (6, 2, 3, 3), U8, dilations=[2, 1], pads=[2, 1, 2, 1]),
    quantized("kernel_10_by_4", (1, 1, 25, 10), (8, 1, 10, 4), pads=[4, 1, 5, 1], strides=[2, 2]),
    quantized("kernel_is_the_image", (1, 4, 5, 6), (10, 4, 5, 6), U8S8),
    quantized("taps_700", (1, 28, 6, 5), (5, 28, 5, 5), U8),
    quantized("image_of_three_colours", (1, 3, 12, 12), (8, 3, 3, 3), U8S8, pads=[0, 0, 1, 1], strides=[2, 2]),
    quantized("volume", (2, 2, 4, 3, 5), (3, 2, 2, 3, 2), pads=[0, 1, 1, 1, 1, 0], strides=[1, 2, 1]),
    quantized("volume_in_groups", (1, 4, 3, 4, 3), (4, 2, 2, 2, 3), U8, dilations=[2, 1, 1]),
    quantized("four_axes", (1, 2, 3, 2, 3, 4), (4, 1, 2, 1, 2, 3), U8, pads=[1, 0, 0, 1, 0, 1, 1, 0]),
    quantized("four_axes_dilated", (1, 3, 3, 2, 4, 4), (2, 3, 2, 2, 2, 2), dilations=[1, 1, 2, 3]),
    quantized("one_product", (1, 1, 1), (1, 1, 1), U8),
    quantized("no_bias", (1, 3, 5, 5), (4, 3, 3, 3), U8S8, bias=False),
    quantized("a_single_channel", (1, 1, 6, 6), (1, 1, 3, 3), pads=[1, 1, 1, 1]),
)

POINTWISES = (
    quantized("one_by_one", (1, 7, 3, 5), (4, 7, 1, 1)),
    quantized("one_by_one_stride_2", (1, 5, 6, 7), (4, 5, 1, 1), U8, strides=[2, 2]),
    quantized("one_by_one_strides_differ", (2, 5, 7, 6), (4, 5, 1, 1), strides=[1, 3]),
    quantized("one_by_one_batch_of_3", (3, 4, 3, 3), (6, 4, 1, 1), U8S8),
    quantized("one_by_one_groups", (2, 8, 3, 3), (6, 4, 1, 1), U8),
    quantized("one_by_one_padded", (1, 4, 2, 3), (3, 4, 1, 1), pads=[1, 0, 0, 2]),
    quantized("one_tap_on_a_line", (1, 6, 9), (5, 6, 1)),
    quantized("one_tap_in_a_volume", (1, 3, 2, 3, 2), (4, 3, 1, 1, 1), U8),
    quantized("one_tap_on_four_axes_strided", (1, 3, 3, 2, 3, 2), (4, 3, 1, 1, 1, 1), strides=[2, 1, 2, 1]),
    quantized("one_by_one_dilation_without_effect", (1, 3, 4, 4), (2, 3, 1, 1), dilations=[3, 2]),
)

BLOCKS = tuple(
    quantized(f"output_pixels_{pixels}_kernel_{kernel}", (1, 5, 1, pixels + kernel - 1), (7, 5, 1, kernel), types)
    for pixels in (1, 2, 3, 5)
    for kernel, types in ((1, S8), (3, U8S8))
)

DEPTHWISES = (
    quantized("depthwise", (1, 5, 6, 5), (5, 1, 3, 3), pads=[1, 1, 1, 1]),
    quantized("depthwise_valid", (1, 5, 6, 5), (5, 1, 3, 3), U8),
    quantized("depthwise_5_by_5", (1, 4, 9, 8), (4, 1, 5, 5), U8S8, pads=[2, 2, 2, 2]),
    quantized("depthwise_strided", (1, 4, 9, 8), (4, 1, 3, 3), pads=[0, 1, 1, 0], strides=[2, 3]),
    quantized("depthwise_dilated", (1, 4, 9, 8), (4, 1, 3, 3), U8, pads=[2, 0, 1, 3], dilations=[2, 3]),
    quantized("depthwise_batch_of_3", (3, 3, 4, 5), (3, 1, 3, 2), pads=[1, 0, 1, 1]),
    quantized("depthwise_pads_exceed_kernel", (1, 3, 2, 3), (3, 1, 2, 2), U8, pads=[4, 3, 3, 5]),
    quantized("depthwise_rest_unread", (1, 3, 8, 9), (3, 1, 2, 2), strides=[4, 5], pads=[1, 1, 0, 0]),
    quantized("depthwise_in_padding_only", (1, 2, 1, 1), (2, 1, 1, 1), pads=[2, 2, 2, 2], strides=[2, 2]),
    quantized("depthwise_begins_in_padding_only", (1, 2, 3, 3), (2, 1, 1, 1), U8, pads=[3, 0, 0, 3], strides=[9, 1]),
    quantized("depthwise_line", (1, 6, 11), (6, 1, 4), U8S8, pads=[2, 1], strides=[2]),
    quantized("depthwise_volume", (1, 3, 4, 3, 5), (3, 1, 2, 3, 2), pads=[0, 1, 1, 1, 1, 0]),
    quantized("depthwise_four_axes", (1, 2, 3, 3, 2, 3), (2, 1, 2, 2, 1, 3), U8, pads=[1, 0, 0, 1, 0, 1, 1, 0]),
    quantized("depthwise_kernel_is_the_image", (1, 4, 4, 3), (4, 1, 4, 3)),
    quantized("depthwise_one_tap", (1, 4, 3, 3), (4, 1, 1, 1), U8),
    quantized("depthwise_65_taps", (1, 3, 14, 6), (3, 1, 13, 5)),
    quantized("depth_multiplier_2", (1, 3, 6, 5), (6, 1, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1]),
)

KINDS = (
    ("window", (1, 3, 5, 4), (5, 3, 3, 3), [1, 1, 1, 1]),
    ("pointwise", (1, 9, 3, 3), (5, 9, 1, 1), [0, 0, 0, 0]),
    ("depthwise", (1, 5, 5, 4), (5, 1, 3, 3), [1, 1, 1, 1]),
)
TYPES = tuple(
    quantized(f"{kind}_{'_'.join(SHORT[kind_] for kind_ in types)}", x_shape, w_shape, types, pads=pads)
    for types in product(Q8, repeat=3)
    for kind, x_shape, w_shape, pads in KINDS
)

UNEVEN = {"int8": [0, 127, -128, 1, -77], "uint8": [0, 255, 128, 1, 77]}
ZERO_POINTS = (
    *(
        quantized(f"{kind}_w_zero_points_differ_{SHORT[types[1]]}", x_shape, w_shape, types, w_zero_point=zeros)
        for kind, x_shape, w_shape, _ in KINDS
        for types, zeros in ((U8S8, UNEVEN["int8"]), (("int8", "uint8", "int8"), UNEVEN["uint8"]))
    ),
    *(
        quantized(f"{kind}_w_zero_point_{zero}", x_shape, w_shape, U8, w_zero_point=zero, per_channel=False)
        for kind, x_shape, w_shape, _ in KINDS
        for zero in (0, 255)
    ),
    quantized(
        "scale_scalar_zero_points_vector",
        (1, 3, 5, 4),
        (5, 3, 3, 3),
        S8,
        per_channel=False,
        w_zero_point=UNEVEN["int8"],
    ),
    quantized("scale_scalar_zero_point_scalar", (1, 3, 5, 4), (5, 3, 3, 3), U8, per_channel=False),
    quantized(
        "parameters_in_vectors_of_one",
        (1, 3, 5, 4),
        (5, 3, 3, 3),
        S8,
        scale=[0.003],
        w_zero_point=[7],
        x_zero_point=[9],
        y_zero_point=[-1],
    ),
    quantized("corrected_and_padded", (1, 3, 4, 4), (5, 3, 3, 3), U8, w_zero_point=UNEVEN["uint8"], pads=[2, 2, 2, 2]),
    quantized("corrected_in_groups", (2, 4, 4, 4), (6, 2, 3, 3), U8, w_zero_point=3, pads=[1, 0, 1, 0]),
    *(
        quantized(
            f"x_zero_point_{SHORT[t]}_{'low' if zero <= 0 else 'high'}",
            (1, 3, 4, 4),
            (4, 3, 3, 3),
            (t, "int8", t),
            x_zero_point=zero,
            y_zero_point=zero,
            pads=[1, 1, 1, 1],
        )
        for t, zeros in (("int8", (-128, 127)), ("uint8", (0, 255)))
        for zero in zeros
    ),
)

ONE = [1, 3, -1, 2, -3, 0]  # weights of channels whose accumulators are few enough to meet every tie
REQUANTIZATIONS = (
    quantized("clamped_at_the_zero_point_s8", (1, 4, 5, 5), (6, 4, 3, 3), S8, y_zero_point=-128),
    quantized("clamped_at_the_zero_point_u8", (1, 4, 5, 5), (6, 4, 3, 3), U8, y_zero_point=0),
    quantized(
        "ties",
        (1, 1, 16, 16),
        (6, 1, 1, 1),
        S8,
        w=np.int8(ONE).reshape(6, 1, 1, 1),
        scale=2.0**-3,
        bias=[4, 0, 1, 5, 2, 4],
    ),
    quantized(
        "ties_u8",
        (1, 1, 16, 16),
        (6, 1, 1, 1),
        U8S8,
        w=np.int8(ONE).reshape(6, 1, 1, 1),
        scale=2.0**-1,
        bias=[1, 2, 3, 4, 5, 6],
        y_zero_point=7,
    ),
    quantized(
        "ties_in_windows", (1, 2, 6, 6), (4, 2, 3, 3), S8, scale=[2.0**-8, 2.0**-9, 2.0**-8, 0.003], pads=[1, 1, 1, 1]
    ),
    quantized(
        "ties_depthwise",
        (2, 6, 5, 5),
        (6, 1, 3, 3),
        S8,
        scale=[2.0**-7, 0.003, 2.0**-8, 0.002, 0.004, 2.0**-9],
        pads=[1, 1, 1, 1],
    ),
    quantized("ties_depthwise_valid", (1, 3, 5, 6), (3, 1, 2, 2), U8, scale=2.0**-7),
    quantized("ties_pointwise", (1, 5, 4, 5), (4, 5, 1, 1), U8, scale=[2.0**-9, 0.001, 2.0**-8, 2.0**-8]),
    quantized(
        "scale_1",
        (1, 1, 5, 5),
        (3, 1, 1, 2),
        U8S8,
        w=np.int8([[1, -1], [1, 1], [0, 2]]).reshape(3, 1, 1, 2),
        scale=1.0,
        bias=[0, -300, 5],
    ),
    quantized(
        "scale_above_half",
        (1, 1, 5, 5),
        (3, 1, 1, 2),
        S8,
        w=np.int8([[1, -1], [1, 1], [0, 2]]).reshape(3, 1, 1, 2),
        bias=[10, -7, 0],
        scale=[0.73, 0.51, 1.9],
    ),
    quantized("scale_2_1", (1, 2, 5, 5), (3, 2, 2, 2), S8, scale=2.1),
    quantized("scale_1e10", (1, 2, 5, 5), (3, 2, 2, 2), S8, scale=[1e10, 0.003, 1e30], bias=[7, -5, 0]),
    quantized("scale_1e10_depthwise", (1, 3, 5, 5), (3, 1, 2, 2), U8, scale=1e10, pads=[1, 1, 1, 1]),
    quantized("scale_1e10_pointwise", (1, 3, 5, 5), (3, 3, 1, 1), S8, scale=[1e12, 3e9, 2e9], bias=False),
    quantized("scale_huge", (1, 2, 5, 5), (3, 2, 2, 2), U8, scale=30000.0),
    quantized("scale_tiny", (1, 2, 5, 5), (3, 2, 2, 2), S8, scale=3.7e-12),
    quantized("scales_far_apart", (1, 2, 5, 5), (6, 2, 2, 2), U8S8, scale=[1e-9, 1e-5, 0.003, 0.4, 3.0, 200.0]),
    quantized(
        "scales_far_apart_depthwise",
        (1, 6, 5, 5),
        (6, 1, 2, 2),
        S8,
        scale=[1e-9, 1e-5, 0.003, 0.4, 3.0, 200.0],
        pads=[0, 1, 0, 1],
    ),
    quantized(
        "dead_channels",
        (1, 2, 4, 4),
        (4, 2, 3, 3),
        S8,
        w=np.zeros((4, 2, 3, 3), np.int8),
        scale=0.004,
        bias=[2**31 - 1, -(2**31), 0, 3000],
    ),
    quantized(
        "one_live_channel",
        (1, 2, 4, 4),
        (3, 2, 1, 1),
        S8,
        w=np.int8([0, 0, 5, -9, 0, 0]).reshape(3, 2, 1, 1),
        scale=[0.5, 0.03, 1e-7],
        bias=[100, 0, -(2**30)],
    ),
    quantized(
        "sums_beyond_2_to_24",
        (1, 2, 4, 5),
        (3, 2, 3, 3),
        S8,
        scale=[3e-6, 2.0**-18, 1e-6],
        bias=[20_000_000, -30_000_000, 2**24],
    ),
    quantized(
        "sums_beyond_2_to_24_depthwise",
        (1, 3, 4, 5),
        (3, 1, 3, 3),
        U8,
        scale=[3e-6, 2.0**-18, 1e-6],
        bias=[20_000_000, -30_000_000, 2**24],
    ),
    *(
        quantized(
            f"{kind}_wraps",
            x_shape,
            w_shape,
            types,
            pads=pads,
            scale=[6e-8, 5e-8, 2.0**-24],
            bias=[2**31 - 1, -(2**31), 2**31 - 70_000],
        )
        for kind, x_shape, w_shape, types, pads in (
            ("window", (1, 3, 5, 4), (3, 3, 3, 3), S8, [1, 1, 1, 1]),
            ("pointwise", (1, 9, 3, 3), (3, 9, 1, 1), U8S8, [0, 0, 0, 0]),
            ("depthwise", (1, 3, 5, 4), (3, 1, 3, 3), U8, [1, 1, 1, 1]),
        )
    ),
    quantized(
        "corrected_pointwise_and_wraps",
        (1, 9, 2, 3),
        (3, 9, 1, 1),
        ("int8", "uint8", "int8"),
        w_zero_point=[0, 255, 3],
        scale=6e-8,
        bias=[2**31 - 1, -(2**31), 2**31 - 9000],
    ),
    quantized(
        "corrected_and_wraps",
        (1, 3, 4, 4),
        (3, 3, 3, 3),
        U8,
        w_zero_point=[0, 255, 3],
        scale=6e-8,
        bias=[2**31 - 1, -(2**31), 0],
    ),
)


def just_within_int32(
    name: str,
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    w_zero_point: int = 0,
    w_type: str = "int8",
    **options: Any,
) -> Case:
    """Two channels whose biases put one end of their interval at an end of int32, so that partial sums may leave it."""
    w = random_weights(w_shape, w_type, seed=crc32(name.encode()))
    flat = w.reshape(2, -1).astype(np.int64) - w_zero_point
    x_low, x_high = -128 - X_ZERO_POINT["int8"], 127 - X_ZERO_POINT["int8"]
    most = (np.maximum(flat, 0) * x_high + np.minimum(flat, 0) * x_low).sum(axis=1)
    least = (np.maximum(flat, 0) * x_low + np.minimum(flat, 0) * x_high).sum(axis=1)
    given = {"w": w, "scale": [6e-8, 5e-8], "bias": [2**31 - 1 - int(most[0]), -(2**31) - int(least[1])]}
    return quantized(name, x_shape, w_shape, ("int8", w_type, "int8"), w_zero_point=w_zero_point, **given, **options)


BRINKS = (
    just_within_int32("window_just_within_int32", (1, 3, 5, 4), (2, 3, 3, 3), pads=[1, 1, 1, 1]),
    just_within_int32("pointwise_just_within_int32", (1, 9, 3, 3), (2, 9, 1, 1)),
    just_within_int32("corrected_low_just_within_int32", (1, 3, 5, 4), (2, 3, 3, 3), 255, "uint8", pads=[1, 1, 1, 1]),
    just_within_int32("corrected_high_just_within_int32", (1, 9, 3, 3), (2, 9, 1, 1), 0, "uint8"),
    just_within_int32("depthwise_just_within_int32", (1, 2, 5, 4), (2, 1, 3, 3), pads=[1, 1, 1, 1]),
)

INTEGERS = (
    *(
        integer(f"integer_{SHORT[x]}_{SHORT[w]}", (1, 3, 5, 4), (5, 3, 3, 3), (x, w), pads=[1, 1, 1, 1])
        for x, w in product(Q8, repeat=2)
    ),
    *(
        integer(
            f"integer_{SHORT[x]}_{SHORT[w]}_zero_points",
            (2, 3, 5, 4),
            (5, 3, 2, 3),
            (x, w),
            pads=[1, 0, 1, 2],
            x_zero_point=X_ZERO_POINT[x],
            w_zero_point=W_ZERO_POINT[w] + 1,
        )
        for x, w in product(Q8, repeat=2)
    ),
    *(
        integer(
            f"integer_w_zero_points_differ_{SHORT[w]}",
            (1, 3, 5, 4),
            (5, 3, 2, 3),
            ("uint8", w),
            x_zero_point=7,
            w_zero_point=UNEVEN[w],
        )
        for w in Q8
    ),
    integer(
        "integer_pointwise",
        (1, 9, 3, 3),
        (5, 9, 1, 1),
        ("uint8", "uint8"),
        x_zero_point=255,
        w_zero_point=UNEVEN["uint8"],
    ),
    integer(
        "integer_depthwise",
        (1, 5, 5, 4),
        (5, 1, 3, 3),
        ("int8", "uint8"),
        pads=[1, 1, 1, 1],
        x_zero_point=-128,
        w_zero_point=UNEVEN["uint8"],
    ),
    integer("integer_only_w_zero_point", (1, 4, 9), (4, 2, 3), ("int8", "int8"), w_zero_point=-128),
    integer("integer_wraps_pointwise", (1, 33100, 1, 2), (1, 33100, 1, 1), ("uint8", "uint8"), full=True),
    integer(
        "integer_wraps_window",
        (1, 16600, 3),
        (1, 16600, 2),
        ("uint8", "int8"),
        full=True,
        x_zero_point=255,
        w_zero_point=-128,
    ),
)

SPELLINGS = (
    quantized("qlinear_nhwc", (1, 6, 5, 3), (4, 3, 3, 2), S8, domain=NHWC, pads=[1, 0, 1, 1]),
    quantized("qlinear_nhwc_groups", (2, 5, 5, 4), (6, 2, 3, 2), U8, domain=NHWC, group=2, pads=[1, 0, 1, 1]),
    quantized("qlinear_nhwc_depthwise", (1, 5, 5, 4), (4, 1, 3, 3), U8S8, domain=NHWC, group=4, auto_pad="SAME_UPPER"),
    quantized("qlinear_microsoft_last", (1, 6, 5, 3), (4, 3, 1, 1), U8, domain=MICROSOFT, channels_last=1),
    quantized("qlinear_microsoft_first", (1, 3, 6, 5), (4, 3, 1, 1), U8, domain=MICROSOFT, channels_last=0),
)

ACTIVATIONS: tuple[tuple[str, list[float]], ...] = (
    ("Relu", []),
    ("Relu", [-0.5, 1.25]),
    ("Tanh", []),
    ("Sigmoid", []),
    ("HardSwish", []),
    ("LeakyRelu", [0.125]),
    ("Clip", [-1.0, 0.75]),
    ("HardSigmoid", [0.3, 0.45]),
)
FLOATS = (
    real("float_plane", (1, 4, 7, 9), (6, 4, 3, 3), pads=[1, 1, 1, 1], opset=22),
    real("float_line", (2, 3, 9), (4, 3, 4), pads=[2, 3], strides=[2], opset=11),
    real("float_groups", (2, 6, 5, 6), (4, 3, 3, 3), pads=[1, 1, 1, 1], opset=7),
    real("float_depthwise", (1, 5, 6, 5), (5, 1, 3, 3), auto_pad="SAME_LOWER", strides=[2, 1]),
    real("float_pointwise", (1, 7, 3, 5), (4, 7, 1, 1), bias=False),
    real("float_volume", (1, 2, 4, 3, 5), (3, 2, 2, 3, 2), pads=[0, 1, 1, 1, 1, 0]),
    real("float_four_axes", (1, 2, 3, 2, 3, 4), (4, 1, 2, 1, 2, 3), dilations=[1, 1, 2, 1]),
    real("float_nhwc", (1, 7, 6, 3), (5, 3, 3, 2), domain=NHWC, opsets={NHWC: 11}, pads=[0, 2, 3, 1]),
    *(
        real(
            f"float_{kind}_{len(params)}",
            (1, 3, 5, 5),
            (4, 3, 3, 3),
            op_type="FusedConv",
            domain=MICROSOFT,
            activation=kind,
            activation_params=params,
        )
        if params
        else real(
            f"float_{kind}", (1, 5, 5, 3), (4, 3, 3, 3), op_type="NhwcFusedConv", domain=MICROSOFT, activation=kind
        )
        for kind, params in ACTIVATIONS
    ),
)

ORIONS = (
    orion("orion16_plane", "orion-fp16x16", (1, 3, 6, 5), (4, 3, 3, 3), pads=[1, 0, 1, 2], strides=[1, 2]),
    orion("orion16_line", "orion-fp16x16", (2, 4, 9), (4, 2, 3), group=2, dilations=[2]),
    orion("orion16_depthwise", "orion-fp16x16", (1, 3, 5, 5), (3, 1, 3, 3), group=3, auto_pad="SAME_UPPER"),
    orion("orion23_plane", "orion-fp8x23", (1, 2, 5, 5), (3, 2, 2, 2), x_scale=0.01, y_scale=0.1),
    orion(
        "orion23_volume",
        "orion-fp8x23",
        (1, 2, 3, 4, 3),
        (2, 2, 2, 2, 2),
        x_scale=0.005,
        y_scale=0.1,
        pads=[1, 0, 0, 0, 1, 1],
    ),
)

LONG = "layer_with_a_very_long_name/" * 11
NAMES = (
    named("named_for_and_arena", "for", "arena", "run"),
    named("named_alike_but_for_case", "x", "X", "window"),
    named("named_with_comment_ends", "a*/b", "/*a", "*/ int i; /*"),
    named("named_in_other_scripts", "输入", "输出", "свёртка"),
    named("named_at_length", LONG, LONG + "2", LONG),
    named("named_alike_after_sanitising", "a.b", "a_b", "a-b"),
    named("named_with_line_breaks", "a\nb", "a\\", "conv\n#error no\\"),
    named("named_with_trigraphs", "a??/", "??/", "??/\n"),
    named("named_with_digits_first", "1", "2", "3"),
    named("named_like_support", "size", "scale", "soft_float_code", scale=2.1),
    named("named_like_parts", "int8_t", "NULL", "requantize"),
    named("named_nothing", " ", "_", ""),
    named("named_like_locals", "m", "acc", "weights"),
    named("named_like_macros", "arena_bytes", "const_attr", "to_int32"),
)


def nibbles(
    name: str, x_shape: Sequence[int], w_shape: Sequence[int], types: tuple[str, str, str] = S8, **options: Any
) -> Case:
    """Weights of 4 bits, both ends among them, so many that they are packed two to a byte."""
    w = random_weights(w_shape, types[1], seed=crc32(name.encode())) >> 4
    return quantized(name, x_shape, w_shape, types, w=w, **{"w_zero_point": 0, "scale": 0.004} | options)


OF_4_BITS = (
    nibbles("nibbles_line_of_odd_taps", (1, 5, 8), (6, 5, 5), pads=[2, 2]),
    nibbles("nibbles_window", (1, 3, 5, 4), (5, 3, 3, 3), U8S8, pads=[1, 1, 1, 1]),
    nibbles("nibbles_in_groups", (2, 6, 4, 3), (6, 3, 3, 3), U8, w_zero_point=8, pads=[1, 0, 1, 0]),
    nibbles("nibbles_pointwise", (1, 11, 3, 3), (13, 11, 1, 1)),
    nibbles("nibbles_dense", (1, 40, 1, 1), (5, 40, 1, 1), U8, w_zero_point=0),
    nibbles(
        "nibbles_with_zero_points", (1, 3, 4, 4), (5, 3, 3, 3), U8, w_zero_point=[0, 15, 8, 3, 7], pads=[1, 1, 1, 1]
    ),
    nibbles("nibbles_pointwise_with_zero_points", (1, 15, 3, 3), (9, 15, 1, 1), U8, w_zero_point=[0, 15, 8] * 3),
    nibbles(
        "nibbles_wrap",
        (1, 15, 2, 3),
        (9, 15, 1, 1),
        U8,
        w_zero_point=[0, 15, 8] * 3,
        scale=6e-8,
        bias=[2**31 - 1, -(2**31), 2**31 - 9000] * 3,
    ),
    nibbles("nibbles_of_other_codes", (1, 9, 3, 3), (15, 9, 1, 1), w_zero_point=-20),
)

CASES: tuple[Case, ...] = (
    *GEOMETRIES,
    *POINTWISES,
    *BLOCKS,
    *DEPTHWISES,
    *TYPES,
    *ZERO_POINTS,
    *REQUANTIZATIONS,
    *BRINKS,
    *OF_4_BITS,
    *INTEGERS,
    *SPELLINGS,
    *FLOATS,
    *ORIONS,
    *NAMES,
)

assert len({case.name.upper() for case in CASES}) == len(CASES), "two cases have one name"
