"""The gallery of generated C in ``generated/``: small models, chosen to be read; ``make generated`` rewrites it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gallery_networks import (
    attention,
    batch_normalization,
    dynamic,
    dynamic_in_rows,
    dynamic_lstm,
    embedding,
    float16,
    float_norms,
    float_sums,
    float_tail,
    gru,
    in_rows,
    instance_norm,
    layer_norm,
    lstm,
    network_16_bits,
    network_qdq,
    network_qop,
    network_tflite,
    of_several_sizes,
    of_windows_and_pixels,
    peaks,
    recurrent_tflite,
    reductions,
    resized_tflite,
    segmentation,
    sum_and_mean,
    wide_tflite,
    within_flash,
)
from models import NHWC, conv_integer, float_conv, node_model, qlinear_conv
from onnx import ModelProto

import qcgen
from qcgen.artifact import Artifact

GENERATED = Path(__file__).resolve().parents[1] / "generated"


@dataclass(frozen=True)
class Entry:
    """One model: ``shows`` is what to look for in its C; ``options`` are those of qcgen.compile."""

    name: str
    shows: str
    model: Callable[[], ModelProto | bytes]
    options: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> bytes:
        """The model as a file."""
        model = self.model()
        if isinstance(model, bytes):
            return model
        model.graph.name = self.name
        return model.SerializeToString(deterministic=True)

    def compile(self) -> Artifact:
        """The C of this entry."""
        return qcgen.compile(self.content(), name=self.name, **self.options)


def weights(shape: tuple[int, ...], dtype: str = "int8", seed: int = 1) -> np.ndarray:
    """Weights like those of trained layers: most of them small, a few at the ends of the type."""
    # RandomState's numbers are the same in every version of numpy, which default_rng does not promise.
    values = np.random.RandomState(seed).laplace(0, 0.18, shape)
    if dtype == "float32":
        return np.round(values, 4).astype(np.float32)
    bounds = np.iinfo(dtype)
    middle = (int(bounds.min) + int(bounds.max) + 1) // 2
    return np.clip(np.rint(values * 127) + middle, bounds.min, bounds.max).astype(dtype)


def bias(channels: int, reach: int = 3000, seed: int = 2) -> np.ndarray:
    """An int32 bias within ``reach`` of 0."""
    return np.random.RandomState(seed).randint(-reach, reach + 1, channels).astype(np.int32)


def scales(channels: int, about: float, seed: int = 3) -> np.ndarray:
    """Weight scales of output channels, within a factor of two of each other."""
    return (about * np.random.RandomState(seed).uniform(0.7, 1.4, channels)).astype(np.float32)


def conv3x3(outputs: int = 8, size: int = 8) -> ModelProto:
    return qlinear_conv(
        (1, 4, size, size), weights((outputs, 4, 3, 3)), x_type="int8", y_type="int8", x_scale=0.024, x_zero_point=-12,
        w_scale=scales(outputs, 0.008), w_zero_point=np.zeros(outputs), y_scale=0.031, y_zero_point=5,
        bias=bias(outputs), pads=[1, 1, 1, 1],
    )  # fmt: skip


def conv_uint8() -> ModelProto:
    return qlinear_conv(
        (1, 3, 9, 7), weights((6, 3, 3, 2), "uint8"), x_scale=0.018, x_zero_point=117, w_scale=0.011,
        w_zero_point=131, y_scale=0.042, y_zero_point=64, bias=bias(6), strides=[2, 1], pads=[0, 1, 1, 0],
    )  # fmt: skip


def matmul() -> ModelProto:
    operands = {"a": ("int8", (2, 9, 18)), "a_scale": np.array(0.021, np.float32), "a_zero": np.array(-9, np.int8)}
    operands |= {"b": ("int8", (2, 18, 7)), "b_scale": np.array(0.017, np.float32), "b_zero": np.array(4, np.int8)}
    return node_model(
        "QLinearMatMul", operands | {"y_scale": np.array(0.06, np.float32), "y_zero": np.array(3, np.int8)}
    )


def max_pool() -> ModelProto:
    return node_model("MaxPool", {"x": ("int8", (1, 32, 8, 8))}, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def depthwise(x_type: str = "int8") -> ModelProto:
    low = -128 if x_type == "int8" else 0
    return qlinear_conv(
        (1, 8, 10, 10), weights((8, 1, 3, 3), seed=4), x_type=x_type, y_type=x_type, x_scale=0.023,
        x_zero_point=low, w_scale=scales(8, 0.009), w_zero_point=np.zeros(8), y_scale=0.017, y_zero_point=low,
        bias=bias(8), group=8, auto_pad="SAME_UPPER", strides=[2, 2],
    )  # fmt: skip


def depthwise_of_many_taps() -> ModelProto:
    return qlinear_conv(
        (1, 8, 9, 8), weights((8, 1, 5, 5), seed=4), x_type="int8", y_type="int8", x_scale=0.023, x_zero_point=-7,
        w_scale=scales(8, 0.009), w_zero_point=np.zeros(8), y_scale=0.05, y_zero_point=4, bias=bias(8), group=8,
        pads=[2, 2, 2, 2], strides=[2, 2],
    )  # fmt: skip


def pointwise() -> ModelProto:
    return qlinear_conv(
        (1, 16, 5, 5), weights((8, 16, 1, 1), seed=5), x_type="int8", y_type="int8", x_scale=0.02, x_zero_point=-128,
        w_scale=scales(8, 0.006), w_zero_point=np.zeros(8), y_scale=0.025, y_zero_point=-3, bias=bias(8),
    )  # fmt: skip


def pointwise_of_few() -> ModelProto:
    return qlinear_conv(
        (1, 6, 5, 4), weights((8, 6, 1, 1), seed=5), x_type="int8", y_type="int8", x_scale=0.02, x_zero_point=-128,
        w_scale=scales(8, 0.006), w_zero_point=np.zeros(8), y_scale=0.025, y_zero_point=-3, bias=bias(8),
    )  # fmt: skip


def grouped_integer() -> ModelProto:
    return conv_integer(
        (2, 4, 6, 6), weights((4, 2, 3, 3), seed=6), x_type="uint8", x_zero_point=100, w_zero_point=[0, 1, -2, 0],
        group=2, dilations=[2, 2],
    )  # fmt: skip


def float_nhwc() -> ModelProto:
    bias = np.array([0.5, -0.25, 0.125, 0.0], np.float32)
    return float_conv(
        (1, 6, 6, 3), weights((4, 3, 3, 3), "float32", seed=7), bias, domain=NHWC, pads=[1, 1, 1, 1],
        activation="HardSigmoid", activation_params=[0.2, 0.5],
    )  # fmt: skip


def orion() -> ModelProto:
    return qlinear_conv(
        (1, 2, 5, 5), weights((3, 2, 3, 3), seed=8), x_type="int8", y_type="int8", x_scale=0.03, x_zero_point=4,
        w_scale=0.01, w_zero_point=0, y_scale=0.05, y_zero_point=-7, bias=bias(3, 300),
    )  # fmt: skip


def orion_status() -> ModelProto:
    return qlinear_conv(
        (1, 4, 4, 4), weights((4, 2, 3, 3), seed=8), x_type="int8", y_type="int8", x_scale=520.0, x_zero_point=2,
        w_scale=1.5, w_zero_point=0, y_scale=0.9, y_zero_point=-7, group=2, pads=[1, 1, 1, 1],
    )  # fmt: skip


def conv1d() -> ModelProto:
    return qlinear_conv(
        (1, 4, 24), weights((6, 4, 3), seed=9), x_type="int8", y_type="int8", x_scale=0.02, x_zero_point=3,
        w_scale=scales(6, 0.008), w_zero_point=np.zeros(6), y_scale=0.03, y_zero_point=-9, bias=bias(6),
        dilations=[4], pads=[8, 0],
    )  # fmt: skip


def conv3d() -> ModelProto:
    return qlinear_conv(
        (1, 2, 4, 5, 6), weights((3, 2, 2, 3, 3), seed=10), x_type="uint8", y_type="int8", x_scale=0.02,
        x_zero_point=128, w_scale=scales(3, 0.01), w_zero_point=np.zeros(3), y_scale=0.04, y_zero_point=0,
        pads=[0, 1, 1, 1, 1, 1],
    )  # fmt: skip


def guard_band() -> ModelProto:
    return qlinear_conv(
        (1, 8, 4, 4), weights((4, 8, 1, 1), seed=11), x_type="int8", y_type="int8", x_scale=2.0**-5, x_zero_point=0,
        w_scale=2.0**-np.array([7.0, 8.0, 6.0, 7.0]), w_zero_point=np.zeros(4), y_scale=2.0**-4, y_zero_point=0,
        bias=bias(4),
    )  # fmt: skip


def wide() -> ModelProto:
    w = np.clip(weights((4, 8, 1, 1), seed=12), -12, 12)
    return qlinear_conv(
        (1, 8, 4, 4), w, x_type="int8", y_type="int8", x_scale=0.05, x_zero_point=-1, w_scale=scales(4, 0.9),
        w_zero_point=np.zeros(4), y_scale=0.06, y_zero_point=2, bias=bias(4, 40),
    )  # fmt: skip


def narrow() -> ModelProto:
    return qlinear_conv(
        (1, 4, 4, 4), weights((4, 4, 1, 1), seed=13), x_type="int8", y_type="int8", x_scale=0.1, x_zero_point=-128,
        w_scale=scales(4, 0.02), w_zero_point=np.zeros(4), y_scale=0.02, y_zero_point=-128, bias=bias(4, 50),
    )  # fmt: skip


def dense(inputs: int = 11) -> ModelProto:
    return qlinear_conv(
        (1, inputs, 1, 1), np.maximum(weights((8, inputs, 1, 1), seed=14), -127), x_type="int8", y_type="int8",
        x_scale=0.02, x_zero_point=-128, w_scale=scales(8, 0.006), w_zero_point=np.zeros(8), y_scale=0.025,
        y_zero_point=-3, bias=bias(8),
    )  # fmt: skip


def dense_of_large_weights() -> ModelProto:
    w = np.clip(4 * weights((8, 11, 1, 1), seed=14).astype(np.int32), -127, 127).astype(np.int8)
    return qlinear_conv(
        (1, 11, 1, 1), w, x_type="int8", y_type="int8", x_scale=0.02, x_zero_point=-128, w_scale=scales(8, 0.0015),
        w_zero_point=np.zeros(8), y_scale=0.025, y_zero_point=-3, bias=bias(8),
    )  # fmt: skip


def conv2x2() -> ModelProto:
    return qlinear_conv(
        (1, 3, 8, 8), np.maximum(weights((4, 3, 2, 2), seed=15), -127), x_type="int8", y_type="int8", x_scale=0.024,
        x_zero_point=-12, w_scale=scales(4, 0.008), w_zero_point=np.zeros(4), y_scale=0.02, y_zero_point=5,
        bias=bias(4), pads=[1, 1, 1, 1], strides=[2, 2],
    )  # fmt: skip


def conv2x2_of_large_weights() -> ModelProto:
    w = np.clip(4 * weights((4, 3, 2, 2), seed=15).astype(np.int32), -127, 127).astype(np.int8)
    return qlinear_conv(
        (1, 3, 8, 8), w, x_type="int8", y_type="int8", x_scale=0.024, x_zero_point=-12, w_scale=scales(4, 0.002),
        w_zero_point=np.zeros(4), y_scale=0.02, y_zero_point=5, bias=bias(4), pads=[1, 1, 1, 1], strides=[2, 2],
    )  # fmt: skip


def pointwise_4_bits() -> ModelProto:
    codes = (weights((10, 15, 1, 1), seed=18).astype(np.int32) % 16).astype(np.uint8)
    return qlinear_conv(
        (1, 15, 3, 3), codes, x_type="uint8", y_type="uint8", x_scale=0.02, x_zero_point=3, w_scale=scales(10, 0.08),
        w_zero_point=np.arange(10) + 3, y_scale=0.05, y_zero_point=7, bias=bias(10),
    )  # fmt: skip


def dense_4_bits() -> ModelProto:
    codes = np.clip(weights((16, 8, 1, 1), seed=19).astype(np.int32) // 8, -8, 7).astype(np.int8)
    return qlinear_conv(
        (1, 8, 1, 1), codes, x_type="int8", y_type="int8", x_scale=0.03, x_zero_point=-5, w_scale=scales(16, 0.09),
        w_zero_point=np.zeros(16), y_scale=0.12, y_zero_point=2, bias=bias(16, 200),
    )  # fmt: skip


def conv_4_bits() -> ModelProto:
    codes = np.clip(weights((8, 8, 3, 3), seed=20).astype(np.int32) // 8, -8, 7).astype(np.int8)
    return qlinear_conv(
        (1, 8, 6, 6), codes, x_type="int8", y_type="int8", x_scale=0.024, x_zero_point=-12, w_scale=scales(8, 0.08),
        w_zero_point=np.zeros(8), y_scale=0.15, y_zero_point=5, bias=bias(8, 300), pads=[1, 1, 1, 1],
    )  # fmt: skip


def pointwise_of_two_kinds() -> ModelProto:
    w = weights((6, 16, 1, 1), seed=17)
    w[1::3, 5:7] = 127
    return qlinear_conv(
        (1, 16, 3, 3), w, x_type="uint8", y_type="uint8", x_scale=0.02, x_zero_point=3, w_scale=scales(6, 0.006),
        w_zero_point=np.zeros(6), y_scale=0.025, y_zero_point=0, bias=bias(6),
    )  # fmt: skip


def conv3x3_in_tiles(outputs: int = 4, channels: int = 4) -> ModelProto:
    return qlinear_conv(
        (1, channels, 10, 10), weights((outputs, channels, 3, 3), seed=16), x_type="int8", y_type="int8", x_scale=0.024,
        x_zero_point=-12, w_scale=scales(outputs, 0.008), w_zero_point=np.zeros(outputs), y_scale=0.05, y_zero_point=5,
        bias=bias(outputs),
    )  # fmt: skip


NHWC_LAYOUT = {"layout": "nhwc"}
CORTEX_M4 = {"layout": "nhwc", "target": "cortex-m4"}
CORTEX_M55 = {"layout": "nhwc", "target": "cortex-m55"}
CORTEX_M3 = {"layout": "nhwc", "target": "cortex-m3"}

LAYERS = (
    Entry(
        "conv3x3_int8",
        "QLinearConv, int8, weights per channel, channels last: windows copied four at a time, border and interior"
        " apart, the *multiply-high* output step",
        conv3x3,
        NHWC_LAYOUT,
    ),
    Entry(
        "weights_apart",
        "the same with `--weights`: tables are members of a block, which the header declares and"
        " weights_apart_weights.h defines; every channel may have a guard band",
        conv3x3,
        {**NHWC_LAYOUT, "weights": "weights_apart.bin"},
    ),
    Entry(
        "conv_uint8_nchw",
        "QLinearConv, uint8, channels first, both zero points in the middle: weights shifted into int8 with a"
        " correction by the sum of the window's taps; pads and strides differ per axis",
        conv_uint8,
    ),
    Entry(
        "depthwise_nhwc",
        "depthwise 3x3, channels last, stride 2, SAME: all channels of a pixel in one loop, every tap written out; a"
        " pixel of zero points stands for the border",
        depthwise,
        NHWC_LAYOUT,
    ),
    Entry(
        "depthwise_nchw",
        "the same layer for uint8 images with channels first: one padded plane after the other",
        lambda: depthwise("uint8"),
    ),
    Entry(
        "conv_host",
        "`--target host`: sixteen channels in the lanes of vectors, for instructions that the compiler's flags choose,"
        " with portable C beside them; eight windows at a time",
        lambda: conv3x3(8, 6),
        {"layout": "nhwc", "target": "host"},
    ),
    Entry(
        "dense_host",
        "the same for one window, a dense layer: two chains of sums, so that instructions need not wait",
        dense,
        {"layout": "nhwc", "target": "host"},
    ),
    Entry("pointwise_nhwc", "1x1 convolution, channels last: nothing is copied, no scratch", pointwise, NHWC_LAYOUT),
    Entry(
        "pointwise_speed",
        "the same for `--optimize speed`, channels first: the pixels of a block are transposed into int16",
        pointwise,
        {"optimize": "speed"},
    ),
    Entry(
        "pointwise_4_bits",
        "weights of 4 bits (uint4, a zero point for each channel), two to a byte: what zero points take out of 4 bits"
        " is corrected by the sum of the window's taps",
        pointwise_4_bits,
        NHWC_LAYOUT,
    ),
    Entry(
        "conv_integer",
        "ConvInteger: two images, two groups, dilation 2, zero points per channel, the int32 sums as they are",
        grouped_integer,
    ),
    Entry("float_nhwc", "com.ms.internal.nhwc Conv in float32 with a fused HardSigmoid", float_nhwc),
    Entry(
        "orion_fp16x16",
        "QLinearConv in Orion's arithmetic: truncated products, an output step that searches a table of thresholds",
        orion,
        {"numerics": "orion-fp16x16"},
    ),
    Entry(
        "orion_status",
        "the same where Orion panics on some inputs: what can leave 32 bits is tested, and `NAME_run` returns 1 then",
        orion_status,
        {"numerics": "orion-fp16x16"},
    ),
    Entry(
        "conv1d_causal",
        "one spatial axis, channels last: taps 4 apart, padding on one side only (a causal filter)",
        conv1d,
        NHWC_LAYOUT,
    ),
    Entry("conv3d", "three spatial axes, uint8 in, int8 out, no bias, padding that differs per axis", conv3d),
    Entry(
        "guard_band",
        "scales that are powers of two, so that accumulators hit exact ties: the line, the *guard band* around the"
        " steps and the emulation of float32 inside it",
        guard_band,
        NHWC_LAYOUT,
    ),
    Entry(
        "constant_time_cortex_m4",
        "the same with `--constant-time`: the channels that have a *guard band* compute both roundings of every sum, so"
        " that a call takes as many instructions for every input",
        guard_band,
        {"layout": "nhwc", "target": "cortex-m4", "constant_time": True},
    ),
    Entry("wide", "scales above 1/2: the *wide* output step, a 64-bit product and one shift", wide, NHWC_LAYOUT),
    Entry(
        "narrow_cortex_m0",
        "`--target cortex-m0`, a core without a 64-bit product: the *narrow* output step, all of it in 32 bits",
        narrow,
        {"layout": "nhwc", "target": "cortex-m0"},
    ),
    Entry(
        "conv_cortex_m4",
        "`--target cortex-m4`, a core with the DSP extension: two windows are widened to pairs of 16 bits; a word holds"
        " four weights, two of each of two channels",
        conv2x2,
        CORTEX_M4,
    ),
    Entry(
        "dense_cortex_m4",
        "the same core, a matrix times a vector: eight channels at a time, no scratch",
        partial(dense, inputs=8),
        CORTEX_M4,
    ),
    Entry(
        "dense_4_bits_cortex_m4",
        "the same core, weights of 4 bits: two of each of four channels in a word, which two instructions take apart"
        " for all four",
        dense_4_bits,
        CORTEX_M4,
    ),
    Entry(
        "conv_4_bits_cortex_m4",
        "the same for the windows of two pixels",
        conv_4_bits,
        CORTEX_M4,
    ),
    Entry(
        "pointwise_cortex_m4",
        "the same core, a matrix times each pixel: the same sums, no scratch",
        pointwise,
        CORTEX_M4,
    ),
    Entry(
        "short_window_cortex_m4",
        "the same core, `--optimize speed`: the pairs of two pixels stay in registers, and the channels pass by",
        pointwise_of_few,
        CORTEX_M4 | {"optimize": "speed"},
    ),
    Entry(
        "depthwise_cortex_m4",
        "the same core, no scratch: one channel after the other with its weights in registers, each column of the image"
        " read once for all outputs that it is under",
        depthwise,
        CORTEX_M4,
    ),
    Entry(
        "depthwise_rows_cortex_m4",
        "the same core, depthwise 5x5, no scratch: four outputs at a time, one row of the kernel after the other",
        depthwise_of_many_taps,
        CORTEX_M4,
    ),
    Entry(
        "depthwise_planes_cortex_m4",
        "the same core, depthwise 5x5, `--optimize speed`: four channels parted into padded planes of 16 bits, then one"
        " channel after the other",
        depthwise_of_many_taps,
        CORTEX_M4 | {"optimize": "speed"},
    ),
    Entry(
        "winograd_cortex_m4",
        "the same core, `--optimize speed`: tiles of outputs by the algorithms of Toom-Cook and Winograd, in integers",
        partial(conv3x3_in_tiles, outputs=2),
        CORTEX_M4 | {"optimize": "speed"},
    ),
    Entry(
        "depthwise_cortex_m0",
        "`--target cortex-m0`, a core with eight registers: one channel copied into a padded plane, four outputs at a"
        " time; the *split* output step, two products of 32 bits in place of one of 64",
        depthwise,
        {"layout": "nhwc", "target": "cortex-m0"},
    ),
    Entry(
        "winograd_cortex_m0",
        "the same core, `--optimize speed`: Winograd's F(2x2, 3x3), one output channel at a time"
        " by Thumb-1 instructions",
        partial(conv3x3_in_tiles, outputs=2, channels=16),
        {"layout": "nhwc", "target": "cortex-m0", "optimize": "speed"},
    ),
    Entry(
        "depthwise_cortex_m3",
        "`--target cortex-m3`, which multiplies and adds one product at a time: four channels copied, a whole row of"
        " one of them at a time",
        depthwise,
        CORTEX_M3,
    ),
    Entry(
        "winograd_cortex_m3",
        "the same core, `--optimize speed`: Winograd's F(2x2, 3x3), exact in integers",
        conv3x3_in_tiles,
        CORTEX_M3 | {"optimize": "speed"},
    ),
    Entry(
        "conv_cortex_m3",
        "`--target cortex-m3`, a core without SIMD: two pixels in the halves of a word, so that one product makes two;"
        " how many may be added before they are taken apart follows from the weights",
        pointwise_of_two_kinds,
        {"layout": "nhwc", "target": "cortex-m3"},
    ),
    Entry(
        "conv_cortex_m0",
        "`--target cortex-m0`, the same; some channels admit larger groups than the others",
        pointwise_of_two_kinds,
        {"layout": "nhwc", "target": "cortex-m0"},
    ),
    Entry(
        "conv_by_word_cortex_m0",
        "`--target cortex-m0 --optimize speed`, groups of two elements: a shift's carry rounds a word's upper half",
        conv2x2_of_large_weights,
        {"layout": "nhwc", "target": "cortex-m0", "optimize": "speed"},
    ),
    Entry(
        "dense_cortex_m0",
        "`--target cortex-m0 --optimize speed`, a matrix times a vector: two output channels in the halves of a word,"
        " whose upper half is rounded by the carry of a shift",
        dense_of_large_weights,
        {"layout": "nhwc", "target": "cortex-m0", "optimize": "speed"},
    ),
    Entry(
        "dense_cortex_m3",
        "`--target cortex-m3 --optimize speed`, the same: elements are words, which LDRD loads two at a time",
        dense_of_large_weights,
        {"layout": "nhwc", "target": "cortex-m3", "optimize": "speed"},
    ),
    Entry(
        "dense_rv32imc",
        "`--target rv32imc`, a matrix times a vector: two output channels in the halves of a word, parted from bytes",
        dense,
        {"layout": "nhwc", "target": "rv32imc"},
    ),
    Entry(
        "dense_of_eight_rv32imc",
        "the same with `--optimize speed`: eight channels at a time, whose weights are words of two",
        dense,
        {"layout": "nhwc", "target": "rv32imc", "optimize": "speed"},
    ),
    Entry(
        "depthwise_cortex_m55",
        "`--target cortex-m55`, a core with Helium: four rows are interleaved, so one product of sixteen bytes sums"
        " the window of a channel",
        depthwise,
        CORTEX_M55 | {"optimize": "speed"},
    ),
    Entry(
        "matmul_cortex_m4",
        "`--target cortex-m4`, two computed matrices: columns are widened to pairs once for all rows, rows as they are"
        " read; the zero point of the first is taken from the start of the sums",
        matmul,
        CORTEX_M4,
    ),
    Entry(
        "matmul_cortex_m55",
        "`--target cortex-m55`, the same product: four columns are packed, which rows meet two at a time,"
        " sixteen products in an instruction",
        matmul,
        {"target": "cortex-m55"},
    ),
    Entry(
        "dense_cortex_m55",
        "the same core, a matrix times a vector: four channels at a time, 16 bytes of each",
        dense,
        CORTEX_M55,
    ),
    Entry(
        "max_pool_cortex_m55",
        "the same core: the largest of sixteen channels at a time, at -Os, too, where gcc makes no vectors of loops",
        max_pool,
        CORTEX_M55,
    ),
)
"""Single layers."""

NETWORKS = (
    Entry(
        "network_qop",
        "a whole network of QOperator nodes, int8: convolutions with a residual sum, pooling, mean, dense layer; the"
        " arena, a sum written over its operand, a flattened image that is not copied; softmax without floating point",
        network_qop,
        NHWC_LAYOUT,
    ),
    Entry(
        "network_in_rows",
        "`--arena least`: layers that run row by row, as a table of turns says, and keep a few rows of each tensor",
        in_rows,
        {**NHWC_LAYOUT, "arena": "least"},
    ),
    Entry(
        "network_pushed",
        "`--input rows --io-memory arena`: the caller pushes rows of an image that is never there as a whole, and finds"
        " the output in the arena",
        in_rows,
        {**NHWC_LAYOUT, "arena": "least", "input": "rows", "io_memory": "arena"},
    ),
    Entry(
        "network_within_flash",
        "`--target cortex-m4 --flash 5000`: what flash buys most with is fast, here a 3x3 layer in tiles whose weights"
        " are transformed when it runs, a block of channels at a time for a group of tiles",
        within_flash,
        {**CORTEX_M4, "flash": 5000},
    ),
    Entry(
        "sizes_cortex_m4",
        "`--target cortex-m4`: two convolutions of different sizes run through one function, which reads its sizes and"
        " its tables from the const struct of each layer",
        of_several_sizes,
        CORTEX_M4,
    ),
    Entry(
        "conv_cortex_m55",
        "`--target cortex-m55`: windows are copied by a tail-predicated loop, pixels read in place; two of them meet"
        " four channels, 16 bytes at a time; four output codes at once",
        of_windows_and_pixels,
        CORTEX_M55,
    ),
    Entry(
        "network_16_bits",
        "activations of 16 bits, weights of 8: sums requantized by one exact product in 64 bits, a sum and a product in"
        " float32 as onnxruntime computes them, a MaxPool and a Relu on the codes",
        network_16_bits,
        NHWC_LAYOUT,
    ),
    Entry(
        "sum_and_mean_cortex_m4",
        "`--target cortex-m4`: a sum, four elements at a time with a saturating step; means of four channels at a time,"
        " summed in pairs of 16 bits",
        sum_and_mean,
        CORTEX_M4,
    ),
    Entry(
        "network_qdq",
        "a whole network of QDQ nodes, uint8, fused to integer operators: a Clip inside the convolution's clamp, a"
        " sigmoid as a table, a product proved for all pairs of codes, both poolings, Concat, Resize, Pad; a Transpose"
        " that costs nothing; float at the boundary",
        network_qdq,
        NHWC_LAYOUT,
    ),
    Entry(
        "attention",
        "self-attention, int8: products of two computed matrices where queries, keys and values lie, so that the"
        " transpositions around them cost nothing",
        attention,
        {"io": "quantized"},
    ),
    Entry(
        "batch_normalization",
        "a BatchNormalization alone: an integer line for each channel, equal to onnxruntime's float32 at all codes; a"
        " PRelu with a slope for each channel: tables, because codes times 1/4 meet ties, which no line follows",
        batch_normalization,
        {"io": "quantized"},
    ),
    Entry(
        "layer_norm",
        "LayerNormalization of codes in fixed point; next to a step onnxruntime's float32 operations, in integers",
        layer_norm,
        {"io": "quantized"},
    ),
    Entry(
        "instance_norm",
        "InstanceNormalization of codes, likewise: each code of a channel is squared, and its output found, once",
        instance_norm,
        {"io": "quantized", **NHWC_LAYOUT},
    ),
    Entry(
        "float_norms",
        "normalizations of float32 numbers by onnxruntime's operations in their order: means that are exact or"
        " rounded as there, and products kept apart from sums",
        float_norms,
    ),
    Entry(
        "lstm",
        "one frame of an LSTM in float32 whose weights stay int8 in flash, with its states as inputs and outputs",
        lstm,
    ),
    Entry(
        "gru",
        "a sequence through a GRU in both directions, in float32, with float weights",
        gru,
    ),
    Entry(
        "float_sums",
        "means of rows of float32 numbers, then sums over the second axis, added up in onnxruntime's order",
        float_sums,
    ),
    Entry(
        "peaks",
        "the five highest scores of an image, and the numbers of their pixels: TopK",
        peaks,
        {"io": "quantized", **NHWC_LAYOUT},
    ),
    Entry(
        "reductions",
        "reductions along axes, int8: the mean and the largest channel of each pixel, side by side, and sums of rows;"
        " the largest is requantized by a table after it is found",
        reductions,
        {"io": "quantized", **NHWC_LAYOUT},
    ),
    Entry(
        "segmentation",
        "channels that become blocks of pixels by one copy, and the best class of each pixel, as int64",
        segmentation,
        {"io": "quantized", **NHWC_LAYOUT},
    ),
    Entry(
        "embedding",
        "rows of a table of codes by int64 numbers, which are an input; whatever they are, no other memory is read",
        embedding,
    ),
    Entry(
        "float16",
        "float16 numbers at the boundary, as words, and a double: converted in integers, computed in float",
        float16,
    ),
    Entry(
        "network_tflite",
        "a .tflite file: a convolution, a mean, a dense layer and softmax, by the integers of TensorFlow Lite Micro",
        network_tflite,
    ),
    Entry(
        "recurrent_tflite",
        "a .tflite file: an LSTM in integers, whose state and cell stay in the arena from call to call, shares of 16"
        " bits, and what they are in 8",
        recurrent_tflite,
    ),
    Entry(
        "recurrent_cortex_m4",
        "the same for `--target cortex-m4`: two products in an instruction, four terms of the four gates at a time",
        recurrent_tflite,
        CORTEX_M4,
    ),
    Entry(
        "wide_tflite",
        "a .tflite file of int16 codes and int8 weights: sums in 64 bits rounded once, a sum rounded four times, tanh"
        " and softmax by lines between the numbers of tables",
        wide_tflite,
    ),
    Entry(
        "resized_tflite",
        "a .tflite file: an image resized bilinearly, the square of its difference from a constant, log softmax",
        resized_tflite,
    ),
    Entry(
        "float_tail",
        "an integer layer whose result goes on in float: dequantized, Tanh in place, a product with a constant per"
        " channel, a sum, which is kept where it is large, a product with a constant matrix for each channel",
        float_tail,
        NHWC_LAYOUT,
    ),
    Entry(
        "dynamic",
        "a convolution as quantize_dynamic writes it: scale and zero point are found for each input; what that point"
        " adds to sums, which is less at the border, is subtracted in the loop that makes them floats",
        dynamic,
        NHWC_LAYOUT,
    ),
    Entry(
        "network_twice",
        "`--arena least`: a layer between dynamic quantizations is computed twice, row by row, for the range of its"
        " floats and for their codes, which alone are kept; rows outside the image hold the zero point",
        dynamic_in_rows,
        {**NHWC_LAYOUT, "arena": "least"},
    ),
    Entry(
        "mean_of_float_rows",
        "`--arena least`: the mean of a layer's floats, added up in onnxruntime's order while their rows come",
        partial(dynamic_in_rows, averages=True),
        {**NHWC_LAYOUT, "arena": "least"},
    ),
    Entry(
        "dynamic_lstm",
        "an LSTM as quantize_dynamic writes it, there and back: its state is quantized before each step, and each"
        " operation in float is rounded as onnxruntime rounds it",
        dynamic_lstm,
        NHWC_LAYOUT,
    ),
)
"""Whole networks."""

ENTRIES = (*LAYERS, *NETWORKS)
"""What the gallery holds, in the order in which its README lists it."""


def readme(artifacts: Mapping[str, Artifact]) -> str:
    """The README of the gallery."""
    lines = [
        "# Generated C, to be read",
        "",
        "Written by `make generated` from the small models in `tests/gallery.py`; a test compares every byte. A change"
        " that moves",
        "these files says in its commit why.",
        "",
        "## Whole networks",
        "",
        "| file | what it shows |",
        "|---|---|",
        *(f"| {_link(entry)} | {entry.shows} |" for entry in NETWORKS),
        "",
        "## Single layers",
        "",
        "| file | kernel | what it shows |",
        "|---|---|---|",
        *(f"| {_link(entry)} | `{artifacts[entry.name].plan.calls[0].kernel}` | {entry.shows} |" for entry in LAYERS),
    ]
    return "\n".join(lines) + "\n"


def _link(entry: Entry) -> str:
    return f"[`{entry.name}.c`]({entry.name}.c)"


def gallery() -> dict[str, str]:
    """Every file of ``generated/`` by name."""
    artifacts = {entry.name: entry.compile() for entry in ENTRIES}
    files = {name: text for artifact in artifacts.values() for name, text in artifact.files.items()}
    return {"README.md": readme(artifacts), **files}


def main() -> int:
    """Rewrites ``generated/``; files that no entry makes any more are removed."""
    files = gallery()
    for old in GENERATED.glob("*"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        GENERATED.joinpath(name).write_text(text)
    print(f"{len(files)} files in {GENERATED.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
