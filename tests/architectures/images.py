"""Networks whose output lies in an image: objects, parts, poses, other images."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from architectures.builder import Net

HALF_PIXEL = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}


def _image(size: int, channels: int = 3, *, width: int = 0) -> Net:
    net = Net()
    net.input(1, channels, size, width or size)
    return net


def _flat(b: Net, x: str, numbers: int) -> str:
    """A detector's output as rows of ``numbers``."""
    last = b.node("Transpose", x, perm=[0, 2, 3, 1])
    return b.having(b.reshape(last, 1, -1, numbers), 1)


def fomo_mbv2_96() -> ModelProto:
    b = _image(96)
    x = b.conv_act("x", 16, 3, 2, "ReLU6")
    for out, stride in ((8, 1), (16, 2), (16, 1), (24, 2)):
        x = b.inverted_residual(x, out, stride=stride, expand=3, kind="ReLU6")
    x = b.conv(b.conv_act(x, 32, 1), 3, 1)
    return b.model(b.node("Softmax", b.node("Transpose", x, perm=[0, 2, 3, 1]), axis=-1))


def ssd_lite_64() -> ModelProto:
    b = _image(64)
    x = b.conv_act("x", 16, 3, 2)
    boxes, scores = [], []
    for out in (24, 32):
        x = b.conv_act(b.relu(b.depthwise(x, 3, 2)), out, 1)
        boxes.append(_flat(b, b.conv(b.relu(b.depthwise(x)), 12, 1), 4))
        scores.append(_flat(b, b.conv(b.relu(b.depthwise(x)), 9, 1), 3))
    return b.model(b.concat(*boxes), b.node("Softmax", b.concat(*scores), axis=-1))


def unet_nearest_softmax_48() -> ModelProto:
    b = _image(48)
    top = b.conv_act("x", 8)
    low = b.conv_act(b.max_pool(top), 16)
    x = b.conv_act(b.concat(b.upsample(b.conv_act(b.max_pool(low), 24)), low), 16)
    x = b.conv_act(b.concat(b.upsample(x), top), 8)
    return b.model(b.node("Softmax", b.conv(x, 4, 1), axis=1))


def yolov3_leaky_96() -> ModelProto:
    b = _image(96)
    x, kept = "x", []
    for out in (8, 16, 24, 32):
        x = b.node("LeakyRelu", b.conv(x, out, 3, 2), alpha=0.1)
        kept.append(x)
    low = b.conv(x, 24, 1)
    high = b.concat(b.upsample(b.node("LeakyRelu", b.conv(x, 16, 1), alpha=0.1)), kept[2])
    return b.model(low, b.conv(b.node("LeakyRelu", b.conv(high, 24), alpha=0.1), 24, 1))


def yolov8_pico_dfl_96() -> ModelProto:
    """Distances as means over a distribution: Softmax, then a convolution with the numbers 0 to 7."""
    b = _image(96)
    x = b.conv_act(b.conv_act("x", 8, 3, 2, "SiLU"), 16, 3, 2, "SiLU")
    left, right = b.split(b.conv_act(x, 16, 1, kind="SiLU"), 2)
    inner = b.add(right, b.conv_act(b.conv_act(right, 8, kind="SiLU"), 8, kind="SiLU"))
    x = b.conv_act(b.concat(left, right, inner), 16, 3, 2, "SiLU")
    shares = b.reshape(b.conv(x, 32, 1), 1, 4, 8, 144)
    shares = b.node("Softmax", b.node("Transpose", shares, perm=[0, 2, 1, 3]), axis=1)
    numbers = b.constant(np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1))
    distances = b.reshape(b.node("Conv", shares, numbers), 1, 4, 144)
    classes = b.node("Sigmoid", b.reshape(b.conv(x, 3, 1), 1, 3, 144))
    return b.model(b.node("Concat", distances, classes, axis=1))


def _yunet(width: int) -> ModelProto:
    b = _image(96)
    x, heads = b.conv_act("x", width, 3, 2), []
    for out in (width, 2 * width, 2 * width):
        x = b.relu(b.depthwise(b.conv(b.max_pool(x), out, 1)))
        heads.append(x)
    fine = b.add(heads[-2], b.upsample(heads[-1]))
    outputs = []
    for x in (fine, heads[-1]):
        for numbers, kind in ((1, "Sigmoid"), (4, ""), (10, "")):
            y = b.depthwise(b.conv(x, numbers, 1))
            y = _flat(b, y, numbers)
            outputs.append(b.node(kind, y) if kind else y)
    return b.model(*outputs)


def yunet_n() -> ModelProto:
    return _yunet(16)


def yunet_s() -> ModelProto:
    return _yunet(8)


def _face_detector(normalized: bool) -> ModelProto:
    """Ultra-light face detection: receptive field blocks and heads at several sizes."""
    b = _image(96, width=128)
    x = b.conv_act("x", 16, 3, 2)
    for out, stride in ((16, 1), (32, 2), (32, 1)):
        x = b.conv_act(b.relu(b.depthwise(x, 3, stride)), out, 1)
    if normalized:
        branches = [b.conv(b.conv_act(b.conv(x, 8, 1), 8), 8, 3, dilation=d, pads=[d] * 4) for d in (2, 3, 5)]
        x = b.relu(b.add(b.normal(b.conv(b.normal(b.concat(*branches)), 32, 1)), b.conv(x, 32, 1)))
    boxes, scores = [], []
    for _ in range(2):
        boxes.append(_flat(b, b.conv(b.relu(b.depthwise(x)), 12, 1), 4))
        scores.append(_flat(b, b.conv(b.relu(b.depthwise(x)), 6, 1), 2))
        x = b.conv_act(b.relu(b.depthwise(x, 3, 2)), 32, 1)
    return b.model(b.node("Softmax", b.concat(*scores), axis=2), b.concat(*boxes))


def face_slim() -> ModelProto:
    return _face_detector(False)


def face_rfb() -> ModelProto:
    return _face_detector(True)


# Those that were refused once.


def fastest_det() -> ModelProto:
    """Shuffled channels taken by Gather, pyramid pooling of one level, a head of several parts."""
    b = _image(96)
    x = b.max_pool(b.conv_act("x", 16, 3, 2), 3, 2, pads=[1] * 4)
    pairs = b.reshape(x, 1, 8, 2, 24, 24)
    left, right = (b.having(b.node("Gather", pairs, b.constant(np.int64(i)), axis=2), 8) for i in range(2))
    x = b.concat(left, b.conv_act(b.depthwise(b.conv_act(right, 8, 1)), 8, 1))
    low = b.conv_act(b.depthwise(x, 3, 2), 24, 1)
    pooled = b.node("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = b.conv_act(b.concat(pooled, low, b.depthwise(low, 5)), 24, 1)
    found = b.node("Sigmoid", b.conv(x, 1, 1))
    kinds = b.node("Softmax", b.conv(x, 5, 1), axis=1)
    return b.model(b.node("Concat", found, b.conv(x, 4, 1), kinds, axis=1))


def centernet_topk_64() -> ModelProto:
    """Peaks are where a number equals its neighbours' largest; TopK is left to the application."""
    b = _image(64)
    x = b.conv_act(b.conv_act("x", 16, 3, 2), 24, 3, 2)
    heat = b.node("Sigmoid", b.conv(b.conv_act(x, 16), 2, 1))
    largest = b.max_pool(heat, 3, 1, pads=[1] * 4)
    peaks = b.node("Mul", heat, b.node("Cast", b.node("Equal", heat, largest), to=1))
    rows = b.reshape(peaks, 1, 2 * 256)
    best = b.node("TopK", rows, b.integers(10), axis=-1, outputs=2)
    size = b.conv(b.conv_act(x, 16), 2, 1)
    return b.model(best, f"{best}_1", size, cut=[heat, size])


def deeplab_aspp_48() -> ModelProto:
    b = _image(48)
    x = b.conv_act(b.conv_act("x", 16, 3, 2), 24, 3, 2)
    parts = [b.conv_act(x, 8, 1)] + [b.conv_act(x, 8, 3, dilation=d) for d in (2, 4)]
    whole = b.conv_act(b.node("GlobalAveragePool", x), 8, 1)
    parts.append(b.upsample(whole, 12, **HALF_PIXEL))
    x = b.conv(b.conv_act(b.concat(*parts), 16, 1), 4, 1)
    return b.model(b.upsample(x, 4, **HALF_PIXEL))


def espcn_pixelshuffle_24() -> ModelProto:
    b = _image(24, 1)
    x = b.conv_act(b.conv_act("x", 16, 5, kind="Tanh"), 8, 3, kind="Tanh")
    return b.model(b.node("DepthToSpace", b.conv(x, 9), blocksize=3, mode="CRD"))


def instancenorm_style_32() -> ModelProto:
    b = _image(32)
    x = "x"
    for out, stride in ((8, 1), (16, 2), (16, 1)):
        x = b.conv(x, out, 3, stride)
        x = b.relu(b.node("InstanceNormalization", x, b.weights(out), b.weights(out, size=0.1)))
    return b.model(b.node("Tanh", b.conv(b.upsample(x), 3, 9)))


def nms_tail_64() -> ModelProto:
    """A detector whose last node is NonMaxSuppression, and the boxes that it chooses."""
    b = _image(64)
    x = b.conv_act(b.conv_act(b.conv_act("x", 16, 3, 2), 24, 3, 2), 32, 3, 2)
    boxes = _flat(b, b.conv(x, 4, 1), 4)
    scores = b.node("Transpose", b.node("Sigmoid", _flat(b, b.conv(x, 2, 1), 2)), perm=[0, 2, 1])
    limits = [b.constant(np.int64([5])), b.constant(np.float32([0.5])), b.constant(np.float32([0.3]))]
    chosen = b.node("NonMaxSuppression", boxes, scores, *limits)
    which = b.node("Gather", chosen, b.constant(np.int64(2)), axis=1)
    return b.model(b.node("Gather", boxes, which, axis=1), chosen, cut=[boxes, scores])


def pose_heatmap_softargmax_64() -> ModelProto:
    """Where a joint is, as a mean of places weighted by a softmax."""
    b = _image(64)
    x = b.conv_act(b.conv_act("x", 16, 3, 2), 24, 3, 2)
    heat = b.reshape(b.conv(x, 5, 1), 1, 5, 256)
    shares = b.reshape(b.node("Softmax", heat, axis=-1), 1, 5, 16, 16)
    places = np.linspace(-1, 1, 16, dtype=np.float32)
    ends = []
    for other in (3, 2):
        along = b.node("ReduceSum", shares, b.integers(other), keepdims=0)
        where = b.node("ReduceSum", b.node("Mul", along, b.constant(places)), b.integers(2), keepdims=1)
        ends.append(where)
    return b.model(b.node("Concat", *ends, axis=2))


def unet_bilinear_argmax_48() -> ModelProto:
    b = _image(48)
    top = b.conv_act("x", 8)
    low = b.conv_act(b.max_pool(top), 16)
    x = b.conv_act(b.concat(b.upsample(low, **HALF_PIXEL), top), 8)
    return b.model(b.node("ArgMax", b.conv(x, 4, 1), axis=1, keepdims=0))


def unet_convtranspose_48() -> ModelProto:
    b = _image(48)
    top = b.conv_act("x", 8)
    low = b.conv_act(b.max_pool(top), 16)
    x = b.relu(b.conv_transpose(b.conv_act(b.max_pool(low), 24), 16))
    x = b.relu(b.conv_transpose(b.conv_act(b.concat(x, low), 16), 8))
    return b.model(b.node("Sigmoid", b.conv(b.concat(x, top), 1, 1)))


def yolov5_pico_96() -> ModelProto:
    """Sigmoid of all, then (2s - 0.5 + place) * stride for centres and (2s) ** 2 * anchor for sizes."""
    b = _image(96)
    x = b.conv_act(b.conv_act(b.conv_act("x", 8, 3, 2, "SiLU"), 16, 3, 2, "SiLU"), 24, 3, 2, "SiLU")
    pools = [x]
    for _ in range(3):
        pools.append(b.max_pool(pools[-1], 5, 1, pads=[2] * 4))
    x = b.conv_act(b.concat(*pools), 24, 1, kind="SiLU")
    raw = b.node("Transpose", b.reshape(b.conv(x, 16, 1), 1, 2, 8, 12, 12), perm=[0, 1, 3, 4, 2])
    s = b.node("Sigmoid", raw)
    xy, wh, rest = (_columns(b, s, *ends) for ends in ((0, 2), (2, 4), (4, 8)))
    grid = np.stack(np.meshgrid(np.arange(12), np.arange(12)), -1).astype(np.float32).reshape(1, 1, 12, 12, 2) - 0.5
    xy = b.node("Mul", b.add(b.node("Mul", xy, b.number(2)), b.constant(grid)), b.number(8))
    anchors = b.constant(np.float32([[10, 13], [30, 23]]).reshape(1, 2, 1, 1, 2))
    wh = b.node("Mul", b.node("Pow", b.node("Mul", wh, b.number(2)), b.number(2)), anchors)
    return b.model(b.reshape(b.node("Concat", xy, wh, rest, axis=4), 1, 288, 8))


def _columns(b: Net, x: str, start: int, end: int) -> str:
    return b.node("Slice", x, b.integers(start), b.integers(end), b.integers(4))
