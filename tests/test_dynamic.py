"""Dynamic quantization: scales and zero points that are found for each input, against onnxruntime, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from judged import judge
from marks import share_at_first
from models import graph_model, node_model
from network_units import Unit
from network_units import artifact as unit_artifact
from onnx import ModelProto, TensorProto, helper
from tools import require

import qcgen
from qcgen.ir.program import Extremes, Tensor, Transpose
from qcgen.ir.types import DType
from qcgen.reference import evaluate, evaluate_operator

COUNT = 256
FUSING = ("-O3", "-march=native", "-ffp-contract=fast")
"""Flags that allow a product and a sum to become one operation."""


def quantizer(shape: tuple[int, ...] = (COUNT,)) -> ModelProto:
    """DynamicQuantizeLinear alone, with all three results."""
    return node_model("DynamicQuantizeLinear", {"x": ("float", shape)}, {"y": None, "s": None, "z": None})


def half_steps(zero: int, scale: float, generator: np.random.Generator) -> np.ndarray:
    """Numbers on half steps between codes and next to them, with this zero point."""
    ends = np.float32([-zero, 255 - zero]) * np.float32(scale)
    width = ends[1] - ends[0]
    exact = width / np.float32(255)
    x = (generator.integers(-zero, 255 - zero, COUNT) + 0.5).astype(np.float32) * exact
    x[1::3], x[2::3] = (np.nextafter(x[at::3], np.float32(to)) for at, to in ((1, np.inf), (2, -np.inf)))
    x[:2] = ends
    return np.clip(x, *ends)


def tensors() -> Iterator[np.ndarray]:
    generator = np.random.default_rng(0)
    drawn = generator.standard_normal(COUNT).astype(np.float32)
    yield from (drawn, np.abs(drawn), -np.abs(drawn), drawn * 0, drawn * -0.0, np.full(COUNT, 3, np.float32))
    yield from (np.full(COUNT, -3, np.float32), drawn * np.float32(1e38), drawn * np.float32(1e-38))
    yield np.where(np.arange(COUNT) == 7, np.float32(1e6), drawn)
    yield np.where(np.arange(COUNT) == 7, np.float32(np.inf), drawn)
    for zero in range(0, 256, 15):
        for scale in (1, 0.5, 0.0371, 3e-5):
            yield half_steps(zero, scale, generator)
    for _ in range(40):  # zero points on a tie: -least / scale is a whole number and a half
        zero = generator.integers(0, 254) + 0.5
        x = generator.uniform(-zero, 255 - zero, COUNT).astype(np.float32)
        x[:2] = -zero, 255 - zero
        yield x


def test_codes_scales_and_zero_points_are_those_of_onnxruntime():
    require("gcc")
    model = quantizer()
    artifact = qcgen.compile(model)
    on_host = artifact.load()
    for number, x in enumerate(tensors()):
        expected = judge(model, {"x": x})
        got = on_host.run(None, {"x": x})
        own = evaluate(artifact.program, {"x": x})
        for name, one, other, wanted in zip("ysz", got, own.values(), expected, strict=True):
            assert np.array_equal(one, wanted), (number, name)
            assert np.array_equal(other, wanted), (number, name)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_the_smallest_of_numbers_above_0_is_not_minus_0(zero):
    require("gcc")
    x = Tensor("x", DType.FLOAT32, (3,))
    op = Extremes("d", "D", x, Tensor("y", DType.FLOAT32, (2,)))
    unit = Unit("extremes", op, (np.float32([zero, 7, zero]),))
    [y] = unit_artifact(unit).load().run(None, {"x": unit.feeds[0]})
    assert y.tobytes() == evaluate_operator(op, *unit.feeds).tobytes() == np.float32([0, 7]).tobytes()


WINDOWS = {
    "line": ((1, 3, 11), (4, 3, 3), {"pads": [2, 1], "strides": [2]}),
    "square": ((2, 4, 7, 6), (5, 4, 3, 2), {"pads": [1, 1, 1, 1]}),
    "no padding": ((1, 4, 5, 6), (3, 4, 2, 2), {}),
    "pointwise": ((1, 4, 3, 3), (5, 4, 1, 1), {}),
    "dilated groups": ((1, 4, 9, 8), (6, 2, 3, 3), {"pads": [2, 3, 1, 3], "dilations": [2, 3], "group": 2}),
    "depthwise": ((1, 6, 8, 8), (6, 1, 3, 3), {"pads": [0, 0, 1, 1], "strides": [2, 2], "group": 6}),
    "volume": ((1, 2, 4, 5, 3), (3, 2, 2, 3, 2), {"pads": [1, 0, 1, 0, 2, 0]}),
    "only padding": ((1, 2, 2, 3), (3, 2, 2, 2), {"pads": [2, 0, 3, 1], "strides": [2, 1]}),
}
PRODUCTS = {"row": ((1, 9), (9, 5)), "rows": ((2, 3, 4), (4, 6)), "vector": ((7,), (7, 3))}


def layer(op_type: str, shape: tuple[int, ...], weights: np.ndarray, w_zero: np.ndarray, **attributes) -> ModelProto:
    """A layer whose input has a zero point that is an input, too."""
    operands = {"x": ("uint8", shape), "w": weights, "z": ("uint8", ()), "w_zero": w_zero}
    return node_model(op_type, operands, **attributes)


def layers() -> Iterator[tuple[str, ModelProto, tuple[int, ...]]]:
    generator = np.random.default_rng(1)
    for dtype in (np.int8, np.uint8):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        for name, (shape, w_shape, attributes) in WINDOWS.items():
            weights = generator.integers(low, high + 1, w_shape).astype(dtype)
            zero = np.asarray(generator.integers(low, high + 1), dtype)
            yield f"{name} {dtype.__name__}", layer("ConvInteger", shape, weights, zero, **attributes), shape
        for name, (shape, w_shape) in PRODUCTS.items():
            weights = generator.integers(low, high + 1, w_shape).astype(dtype)
            zero = generator.integers(low, high + 1, w_shape[1]).astype(dtype)
            yield f"{name} {dtype.__name__}", layer("MatMulInteger", shape, weights, zero), shape


LAYERS = {name: (model, shape) for name, model, shape in layers()}


@pytest.mark.parametrize("name", share_at_first(list(LAYERS), 5))
def test_sums_with_a_zero_point_that_is_an_input_are_those_of_onnxruntime(name):
    require("gcc")
    model, shape = LAYERS[name]
    generator = np.random.default_rng(2)
    for layout in ("nchw", "nhwc"):
        on_host = qcgen.compile(model, layout=layout).load()
        for zero in (0, 131, 255):
            x = generator.integers(0, 256, shape).astype(np.uint8)
            [expected] = judge(model, {"x": x, "z": np.asarray(zero, np.uint8)})
            last = layout == "nhwc" and model.graph.node[0].op_type == "ConvInteger"
            given = np.moveaxis(x, 1, -1) if last else x
            feeds = {"x": np.ascontiguousarray(given), "z": np.asarray(zero, np.uint8)}
            [got] = on_host.run(None, feeds)
            assert np.array_equal(np.moveaxis(got, -1, 1) if last else got, expected), (layout, zero)


def test_sums_are_cast_as_onnxruntime_casts_them():
    require("gcc")
    model = node_model("Cast", {"x": ("int32", (9, 3))}, to=TensorProto.FLOAT)
    near = [2**24 + 1, 2**24 + 3, 2**25 + 2, 2**25 + 6, 2**30 + 64, 2**30 + 192, 2**31 - 2, 7, -3]
    x = np.int32([[number - 1 + by for by in range(3)] for number in near])
    for values in (x, -x):
        [got] = qcgen.compile(model).load().run(None, {"x": values})
        [expected] = judge(model, {"x": values})
        assert np.array_equal(got, expected)


@pytest.mark.parametrize(
    ("op_type", "operands", "what"),
    [
        ("MatMulInteger", {"x": ("uint8", (2, 3)), "w": ("uint8", (3, 4))}, "nor is the second operand"),
        ("MatMulInteger", {"x": ("uint8", (2, 3)), "w": np.ones((3, 4), np.int8)}, "must be one number"),
        ("ConvInteger", {"x": ("uint8", (1, 2, 3, 3)), "w": np.ones((4, 2, 1, 1), np.int8)}, "must be one number"),
    ],
)
def test_zero_points_that_are_not_one_number_or_of_two_computed_operands_are_refused(op_type, operands, what):
    shape = () if what.startswith("nor") else (2,)
    with pytest.raises(qcgen.ModelRejected, match=what):
        qcgen.compile(node_model(op_type, {**operands, "z": ("uint8", shape)}))


def network(*, between: str = "Relu") -> ModelProto:
    """A padded convolution and a product of matrices, as quantize_dynamic writes them, with a function in between."""
    generator = np.random.default_rng(3)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"], "quantize"),
        helper.make_node("ConvInteger", ["xq", "w", "xz"], ["sums"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["sums"], ["real"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["xs", "ws"], ["scale"], "scale"),
        helper.make_node("Mul", ["real", "scale"], ["scaled"], "mul"),
        helper.make_node("Add", ["scaled", "bias"], ["added"], "add"),
        helper.make_node(between, ["added"], ["hidden"], "function"),
        helper.make_node("Flatten", ["hidden"], ["flat"], "flat"),
        helper.make_node("DynamicQuantizeLinear", ["flat"], ["hq", "hs", "hz"], "again"),
        helper.make_node("MatMulInteger", ["hq", "v", "hz"], ["products"], "product"),
        helper.make_node("Cast", ["products"], ["floats"], "cast2", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["hs", "vs"], ["scale2"], "scales"),
        helper.make_node("Mul", ["floats", "scale2"], ["y"], "last"),
    ]
    constants = {
        "w": generator.integers(-127, 128, (4, 2, 3, 3)).astype(np.int8),
        "ws": np.float32(0.0123),
        "bias": generator.standard_normal((1, 4, 1, 1)).astype(np.float32),
        "v": generator.integers(-127, 128, (100, 3)).astype(np.int8),
        "vs": np.float32([0.011, 0.023, 0.007]),
    }
    return graph_model(nodes, {"x": ("float", (1, 2, 5, 5))}, {"y": None}, constants)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_network_is_onnxruntimes_in_every_bit_and_says_so(layout):
    require("gcc")
    model = network()
    artifact = qcgen.compile(model, layout=layout)
    assert artifact.report.inexact == ()
    copies = [call.op.x.name for call in artifact.plan.calls if isinstance(call.op, Transpose)]
    # For Flatten, and codes for their convolution, channels last; a product with a scale keeps the order.
    assert copies == (["hidden"] if layout == "nhwc" else ["xq", "hidden"])
    told = "scale and zero point of 2 tensors are known at run time only; all sums are bounded for every input"
    assert told in next(each.advice for each in artifact.report.fallbacks if each.kind == "float")
    assert told in re.sub(r"\n \* +", " ", artifact.files["graph.c"])
    on_host = artifact.load(FUSING)
    generator = np.random.default_rng(4)
    for spread in (1, 1e-4, 1e3, 0):
        x = (generator.standard_normal((1, 2, 5, 5)) * spread).astype(np.float32)
        given = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if layout == "nhwc" else x
        assert np.array_equal(on_host.run(None, {"x": given})[0], judge(model, {"x": x})[0])


@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=pytest.mark.all)])
def test_floats_of_sums_are_one_loop_whose_operations_are_rounded_one_by_one(compiler, monkeypatch):
    require(compiler)
    monkeypatch.setenv("CC", compiler)
    model = network()
    artifact = qcgen.compile(model)
    assert loops(artifact) == {"function": ("cast", "mul", "add"), "last": ("cast2",)}
    codes = next(call for call in artifact.plan.calls if call.op.y.name == "hq")
    assert codes.access is not None  # they may lie over the numbers that become codes
    x = np.random.default_rng(6).standard_normal((1, 2, 5, 5)).astype(np.float32)
    assert np.array_equal(artifact.load(FUSING).run(None, {"x": x})[0], judge(model, {"x": x})[0])


def test_an_output_of_the_network_ends_the_loop():
    artifact = qcgen.compile(network(), outputs=["scaled", "y"])
    assert loops(artifact) == {"mul": ("cast",), "last": ("cast2",)}


def test_a_sum_of_two_layers_is_in_the_loop_of_one_of_them():
    require("gcc")
    generator = np.random.default_rng(7)
    nodes, constants = [helper.make_node("DynamicQuantizeLinear", ["x"], ["codes", "s", "z"], "quantize")], {}
    for name in "ab":
        nodes += [
            helper.make_node("MatMulInteger", ["codes", f"w{name}", "z"], [f"sums{name}"], f"layer{name}"),
            helper.make_node("Cast", [f"sums{name}"], [f"real{name}"], f"cast{name}", to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"real{name}", "s"], [f"scaled{name}"], f"mul{name}"),
        ]
        constants[f"w{name}"] = generator.integers(-127, 128, (9, 5)).astype(np.int8)
    nodes.append(helper.make_node("Sub", ["scaledb", "scaleda"], ["y"], "difference"))
    model = graph_model(nodes, {"x": ("float", (3, 9))}, {"y": None}, constants)
    artifact = qcgen.compile(model)
    assert loops(artifact) == {"mulb": ("castb",), "difference": ("casta", "mula")}
    x = generator.standard_normal((3, 9)).astype(np.float32)
    assert np.array_equal(artifact.load(FUSING).run(None, {"x": x})[0], judge(model, {"x": x})[0])


def loops(artifact: qcgen.Artifact) -> dict[str, tuple[str, ...]]:
    """The nodes that a loop over sums computes, by its last one."""
    return {node.name: node.joined for node in artifact.report.nodes if node.kernel == "portable/float_output"}


def test_verify_follows_codes_of_inexact_numbers():
    require("gcc")
    artifact = qcgen.compile(network(between="Softplus"))
    assert artifact.report.inexact == ("function", "flat", "again", "again", "scales", "last")
    assert qcgen.verify(artifact).is_right


@pytest.mark.parametrize(("per_column", "is_biased"), [(True, True), (False, False)])
@pytest.mark.parametrize("op_type", ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])
def test_products_of_the_optimizer_are_those_of_onnxruntime(op_type, per_column, is_biased):
    require("gcc")
    generator = np.random.default_rng(5)
    columns = (5,) if per_column else ()
    b = generator.integers(0, 256, (33, 5)).astype(np.uint8)
    scale = generator.uniform(0.001, 0.02, columns).astype(np.float32)
    zero, bias = generator.integers(0, 256, columns).astype(np.uint8), generator.standard_normal(5).astype(np.float32)
    if op_type == "DynamicQuantizeMatMul":
        operands = {"x": ("float", (2, 4, 33)), "b": b, "b_scale": np.asarray(scale), "b_zero": np.asarray(zero)}
        feeds = {"x": generator.standard_normal((2, 4, 33)).astype(np.float32)}
    else:
        operands = {"x": ("uint8", (2, 4, 33)), "b": b, "s": ("float", (1,)), "b_scale": np.asarray(scale)}
        operands |= {"z": ("uint8", (1,)), "b_zero": np.asarray(zero)}
        feeds = {"x": generator.integers(0, 256, (2, 4, 33)).astype(np.uint8)}
        feeds |= {"s": np.float32([0.0173]), "z": np.uint8([117])}
    model = node_model(op_type, operands | ({"bias": bias} if is_biased else {}), domain="com.microsoft")
    artifact = qcgen.compile(model)
    [got] = artifact.load(FUSING).run(None, feeds)
    assert artifact.report.inexact == () or op_type == "MatMulIntegerToFloat"  # its scale may be any input
    assert np.array_equal(got, judge(model, feeds)[0])


RECORDED = Path(__file__).parents[2] / "shared" / "models" / "dynamic"
EXACT = (
    "s01_cnn",
    "s03_residual",
    "s02_cnn_u8",
    "s04_conv1d",
    "s06_dense",
    "s05_grouped_dilated",
    "s09_lstm",
    "s11_hand_convinteger",
    "s12_gru",
)
"""Networks without functions whose last bit depends on AVX512F or on the C library."""


@pytest.mark.parametrize("name", share_at_first(EXACT))
def test_recorded_networks_give_every_bit_of_every_case(name):
    require("gcc")
    path = RECORDED / f"{name}.onnx"
    if not path.exists():
        pytest.skip("the recorded networks are not there: no directory shared/models/dynamic beside the repository")
    recorded = np.load(path.with_suffix(".npz"))
    artifact = qcgen.compile(path)
    on_host = artifact.load(FUSING)
    for case in range(7):
        outputs = on_host.run(None, {x.name: recorded[f"in{case}.{x.name}"] for x in artifact.program.inputs})
        for tensor, got in zip(artifact.program.outputs, outputs, strict=True):
            assert np.array_equal(got, recorded[f"out{case}.{tensor.name}"]), (case, tensor.name)


@pytest.mark.parametrize("flags", [FUSING, ("-O0",)], ids=lambda f: f[0])
def test_no_option_of_the_compiler_changes_a_bit(flags):
    require("gcc")
    artifact = qcgen.compile(quantizer())
    on_host = artifact.load(flags)
    for x in tensors():
        for got, wanted in zip(on_host.run(None, {"x": x}), evaluate(artifact.program, {"x": x}).values(), strict=True):
            assert np.array_equal(got, wanted)
