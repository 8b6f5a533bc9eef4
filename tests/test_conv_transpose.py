"""ConvTranspose between DequantizeLinear and QuantizeLinear: exact sums, requantized as those of convolutions are."""

from itertools import product

import numpy as np
import pytest
from computed import computed
from judged import assert_judged
from models import graph_model
from onnx import ModelProto, helper, numpy_helper

import qcgen
from qcgen import arithmetic
from qcgen.errors import ModelRejected
from qcgen.verification import verify

X_SCALE, Y_SCALE, X_ZERO, Y_ZERO = np.float32(0.05), np.float32(0.2), 3, -5
CASES = {
    "2x2, stride 2": {"kernel": (2, 2), "strides": [2, 2]},
    "4x4, stride 2, cut": {"kernel": (4, 4), "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "3x3, stride 2, more": {"kernel": (3, 3), "strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    "depthwise": {"kernel": (3, 3), "strides": [2, 2], "pads": [0, 1, 1, 0], "group": 4, "channels": 4},
    "two groups": {"kernel": (3, 2), "strides": [3, 3], "group": 2},
    "strides of two sizes": {"kernel": (3, 5), "strides": [1, 3], "pads": [1, 2, 0, 1]},
    "dilated": {"kernel": (2, 3), "strides": [2, 2], "dilations": [3, 2], "pads": [1, 1, 2, 2]},
    "stride 1": {"kernel": (3, 3), "pads": [1, 1, 1, 1]},
    "kernel smaller than stride": {"kernel": (1, 1), "strides": [2, 3], "output_padding": [1, 2]},
    "one axis": {"kernel": (4,), "strides": [2], "pads": [1, 1]},
    "per tensor, no bias": {"kernel": (4, 4), "strides": [2, 2], "is_plain": True},
}


class Transposed:
    """A ConvTranspose with random weights, and what it computes, from the definition."""

    def __init__(self, kernel, *, channels=4, group=1, is_plain=False, **attributes):
        rng, rank = np.random.default_rng(5), len(kernel)
        self.image = (1, 4, *((3, 5) if rank == 2 else (7,)))
        self.w = rng.integers(-127, 128, (4, channels // group, *kernel)).astype(np.int8)
        scales = rng.uniform(0.005, 0.02, channels // group).astype(np.float32)
        self.w_scale = np.float32(0.01) if is_plain else scales
        self.bias = np.zeros(channels, np.int32) if is_plain else rng.integers(-3000, 3000, channels).astype(np.int32)
        self.group, self.attributes, self.has_bias = group, attributes, not is_plain

    def model(self) -> ModelProto:
        wide = np.tile(self.w_scale, self.group) if self.has_bias else self.w_scale
        constants = {"xs": X_SCALE, "xz": np.int8(X_ZERO), "ys": Y_SCALE, "yz": np.int8(Y_ZERO), "w": self.w}
        constants |= {"ws": self.w_scale, "wz": np.zeros_like(self.w_scale, np.int8)}
        constants |= {"b": self.bias, "bs": X_SCALE * wide, "bz": np.zeros_like(wide, np.int32)}
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"], name="dx"),
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], name="dw", axis=1),
            helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["bf"], name="db", axis=0),
            helper.make_node("ConvTranspose", ["xf", "wf", "bf"][: 2 + self.has_bias], ["yf"], name="up",
                             group=self.group, **self.attributes),
            helper.make_node("QuantizeLinear", ["yf", "ys", "yz"], ["y"], name="q"),
        ]  # fmt: skip
        return graph_model(nodes, {"x": ("int8", self.image)}, {"y": None}, constants, opset=17)

    def expected(self, x: np.ndarray) -> np.ndarray:
        """Every input times every tap, added where it belongs."""
        rank, kernel = self.w.ndim - 2, self.w.shape[2:]
        strides, dilations = (self.attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
        pads = self.attributes.get("pads", [0] * 2 * rank)
        more = self.attributes.get("output_padding", [0] * rank)
        whole = [s * (n - 1) + (k - 1) * d + 1 + m
                 for s, n, k, d, m in zip(strides, x.shape[2:], kernel, dilations, more, strict=True)]  # fmt: skip
        per_group, inputs = self.w.shape[1], 4 // self.group
        sums = np.zeros((1, per_group * self.group, *whole), np.int64)
        sums += self.bias.reshape(-1, *[1] * rank)
        codes = x.astype(np.int64) - X_ZERO
        for tap in product(*map(range, kernel)):
            places = tuple(
                slice(t * d, t * d + s * (n - 1) + 1, s)
                for t, d, s, n in zip(tap, dilations, strides, x.shape[2:], strict=True)
            )
            for c in range(4):
                first = c // inputs * per_group
                own = self.w[(c, slice(None), *tap)].astype(np.int64).reshape(-1, *[1] * rank)
                sums[(0, slice(first, first + per_group), *places)] += own * codes[0, c]
        cut = tuple(slice(pads[i], size - pads[rank + i]) for i, size in enumerate(whole))
        scale = np.float32(X_SCALE * self.w_scale) / Y_SCALE
        wide = np.tile(scale, self.group).reshape(-1, *[1] * rank) if self.has_bias else scale
        return arithmetic.requantize(sums[(slice(None), slice(None), *cut)], np.asarray(wide), Y_ZERO, -128, 127)


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_definitions_sum(name):
    case = Transposed(**CASES[name])
    x = np.random.default_rng(6).integers(-128, 128, case.image).astype(np.int8)
    [y] = computed(case.model(), {"x": x})
    np.testing.assert_array_equal(y, case.expected(x))


def windows():
    """Attributes of one axis of 3 elements, of all kinds that say where the image ends."""
    for kernel, stride, dilation, more in ((1, 2, 1, 0), (2, 3, 1, 2), (3, 2, 1, 1), (3, 1, 2, 0), (4, 3, 1, 0)):
        reached = 2 * stride + (kernel - 1) * dilation + 1
        own = {"strides": [stride], "dilations": [dilation], "output_padding": [more]}
        for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            yield kernel, own | {"auto_pad": pad}
            yield kernel, own | {"auto_pad": pad, "output_shape": [reached + more - 1]}
        for length in (1, reached + more - 3, reached + stride - 1):
            yield kernel, own | {"output_shape": [length]}


def test_pads_that_follow_are_where_onnxruntime_has_them():
    x, rng = np.arange(1, 13, dtype=np.float32).reshape(1, 4, 3) / 16, np.random.default_rng(7)
    weights, nodes, outputs = {}, [], {}
    for number, (kernel, attributes) in enumerate(windows()):
        weights[f"w{number}"] = (rng.integers(-8, 9, (4, 2, kernel)) / 16).astype(np.float32)
        nodes.append(helper.make_node("ConvTranspose", ["x", f"w{number}"], [f"y{number}"], **attributes))
        outputs[f"y{number}"] = None
    model = graph_model(nodes, {"x": ("float", x.shape)}, outputs, weights, opset=17)
    assert_judged(model, {"x": x}, named=None, exact=True)


@pytest.mark.parametrize(
    "attributes",
    [
        {"output_shape": [6, 10], "strides": [2, 2]},
        {"output_shape": [5, 9], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "VALID", "strides": [2, 2], "output_padding": [1, 0]},
    ],
)
def test_codes_are_onnxruntimes_wherever_the_pads_come_from(attributes):
    assert_judged(Transposed((3, 3), **attributes).model(), named=None, exact=True)


def test_verify_measures_its_sums():
    artifact = qcgen.compile(Transposed(**CASES["4x4, stride 2, cut"]).model(), name="up", target="cortex-m4")
    assert verify(artifact, cases=2).is_right


@pytest.mark.parametrize(
    "attributes",
    [
        {"auto_pad": "SAME", "strides": [2, 2]},
        {"pads": [0, 0, 0, 0], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"output_shape": [8, 10], "strides": [2, 2]},
        {"output_shape": [6], "strides": [2, 2]},
        {"strides": [10**5, 10**5]},
        {"strides": [0, 2]},
        {"pads": [9, 9, 0, 0]},
        {"strides": 2},
        {"dilations": [0, 0]},
        {"output_padding": [-1, 0]},
    ],
)
def test_the_attribute_is_named_for_which_one_is_refused(attributes):
    model = Transposed((2, 2)).model()
    [node] = [node for node in model.graph.node if node.op_type == "ConvTranspose"]
    del node.attribute[:]
    node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    with pytest.raises(ModelRejected, match=f"'up' \\(ConvTranspose\\): .*{next(iter(attributes))}"):
        qcgen.compile(model)


@pytest.mark.parametrize("attributes", [{"group": 3}])
def test_other_forms_are_refused(attributes):
    model = Transposed((2, 2)).model()
    [node] = [node for node in model.graph.node if node.op_type == "ConvTranspose"]
    del node.attribute[:]
    node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    with pytest.raises(ModelRejected):
        qcgen.compile(model)


@pytest.mark.parametrize("is_float", [False, True])
def test_weights_of_another_rank_are_refused(is_float):
    model = Transposed((2, 2)).model()
    flat = {tensor.name: tensor for tensor in model.graph.initializer}["w"]
    flat.dims[:] = [4, 16]
    if is_float:
        [node] = [node for node in model.graph.node if node.op_type == "ConvTranspose"]
        flat.CopyFrom(numpy_helper.from_array(np.zeros((), np.float32), "w"))
        node.input[1] = "w"
    with pytest.raises(ModelRejected, match="'up' \\(ConvTranspose\\)"):
        qcgen.compile(model)


def test_missing_weights_are_refused():
    model = Transposed((2, 2)).model()
    [node] = [node for node in model.graph.node if node.op_type == "ConvTranspose"]
    del node.input[1:]
    with pytest.raises(ModelRejected, match="'up' \\(ConvTranspose\\)"):
        qcgen.compile(model)
