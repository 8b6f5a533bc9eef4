"""The 20 standard layers of the benchmarks: those of the MLPerf Tiny networks and a few others, as ONNX models.

Geometry, zero points and SAME padding as in the published CMSIS-NN measurements that the benchmarks compare with:
int8, per-channel weight scales, input zero point -11, output zero point -3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Layer:
    """A convolution: input height, width, channels; output channels; kernel, stride, dilation per axis."""

    name: str
    depthwise: bool
    image: tuple[int, int, int]
    out_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)

    @property
    def macs(self) -> int:
        height, width, channels = self.image
        out = -(-height // self.stride[0]) * -(-width // self.stride[1])
        return out * self.out_channels * self.kernel[0] * self.kernel[1] * (1 if self.depthwise else channels)


LAYERS = (
    Layer("ic_conv_32x32x3_16_3x3s1", False, (32, 32, 3), 16, (3, 3)),
    Layer("ic_conv_32x32x16_16_3x3s1", False, (32, 32, 16), 16, (3, 3)),
    Layer("ic_conv_32x32x16_32_3x3s2", False, (32, 32, 16), 32, (3, 3), (2, 2)),
    Layer("ic_conv_32x32x16_32_1x1s2", False, (32, 32, 16), 32, (1, 1), (2, 2)),
    Layer("ic_conv_16x16x32_32_3x3s1", False, (16, 16, 32), 32, (3, 3)),
    Layer("ic_conv_8x8x64_64_3x3s1", False, (8, 8, 64), 64, (3, 3)),
    Layer("kws_conv_49x10x1_64_10x4s2", False, (49, 10, 1), 64, (10, 4), (2, 2)),
    Layer("kws_dw_25x5x64_3x3s1", True, (25, 5, 64), 64, (3, 3)),
    Layer("kws_pw_25x5x64_64_1x1", False, (25, 5, 64), 64, (1, 1)),
    Layer("vww_conv_96x96x3_8_3x3s2", False, (96, 96, 3), 8, (3, 3), (2, 2)),
    Layer("vww_dw_48x48x8_3x3s1", True, (48, 48, 8), 8, (3, 3)),
    Layer("vww_pw_48x48x8_16_1x1", False, (48, 48, 8), 16, (1, 1)),
    Layer("vww_dw_24x24x32_3x3s2", True, (24, 24, 32), 32, (3, 3), (2, 2)),
    Layer("vww_pw_12x12x64_64_1x1", False, (12, 12, 64), 64, (1, 1)),
    Layer("vww_pw_6x6x128_128_1x1", False, (6, 6, 128), 128, (1, 1)),
    Layer("vww_dw_3x3x256_3x3s1", True, (3, 3, 256), 256, (3, 3)),
    Layer("vww_pw_3x3x256_256_1x1", False, (3, 3, 256), 256, (1, 1)),
    Layer("conv1d_1x128x32_32_k5", False, (1, 128, 32), 32, (1, 5)),
    Layer("conv_16x16x16_16_3x3d2", False, (16, 16, 16), 16, (3, 3), (1, 1), (2, 2)),
    Layer("fc_640_128", False, (1, 1, 640), 128, (1, 1)),
)

GOAL = Layer("goal_16x16x64_64_3x3s1", False, (16, 16, 64), 64, (3, 3))
"""The layer that the goals for the host are stated for."""


def model_of(layer: Layer, x_type: type[np.generic] = np.int8, seed: int = 1) -> bytes:
    """A QLinearConv model of a layer with seeded random weights; scales are such that outputs use their whole range."""
    rng = np.random.default_rng(seed)
    height, width, channels = layer.image
    weights = rng.integers(-127, 128, (layer.out_channels, 1 if layer.depthwise else channels, *layer.kernel), np.int8)
    taps = int(np.prod(weights.shape[1:]))
    w_scale = (rng.uniform(0.5, 1.0, layer.out_channels) * 0.02).astype(np.float32)
    y_scale = np.float32(0.02 * 0.02 * 74 * 74 * np.sqrt(taps) / 40)
    zero = 117 if x_type is np.uint8 else -11
    initializers = {
        "x_scale": np.float32(0.02),
        "x_zero_point": x_type(zero),
        "w": weights,
        "w_scale": w_scale,
        "w_zero_point": np.zeros(layer.out_channels, np.int8),
        "y_scale": y_scale,
        "y_zero_point": x_type(zero + 8),
        "bias": rng.integers(-4000, 4001, layer.out_channels, np.int32),
    }
    node = helper.make_node(
        "QLinearConv",
        ["x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", "bias"],
        ["y"],
        name="conv",
        pads=_same_pads(layer),
        strides=layer.stride,
        dilations=layer.dilation,
        group=channels if layer.depthwise else 1,
    )
    element = TensorProto.UINT8 if x_type is np.uint8 else TensorProto.INT8
    out = [-(-size // stride) for size, stride in zip((height, width), layer.stride, strict=True)]
    graph = helper.make_graph(
        [node],
        layer.name,
        [helper.make_tensor_value_info("x", element, [1, channels, height, width])],
        [helper.make_tensor_value_info("y", element, [1, layer.out_channels, *out])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in initializers.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def _same_pads(layer: Layer) -> list[int]:
    """SAME_UPPER, as explicit pads: onnxruntime refuses auto_pad together with dilation."""
    begin, end = [], []
    for size, kernel, stride, dilation in zip(layer.image, layer.kernel, layer.stride, layer.dilation, strict=False):
        need = max(0, (-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size)
        begin.append(need // 2)
        end.append(need - need // 2)
    return begin + end
