"""Integer sums that become floats and then codes by constants: integers alone in the C, onnxruntime's codes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from judged import judge
from models import graph_model
from onnx import ModelProto, TensorProto, helper
from tools import require

import qcgen
from qcgen.arithmetic import dequantize
from qcgen.intervals import accumulator_interval
from qcgen.ir.program import Conv, RoundInSteps
from qcgen.reference import evaluate_all
from qcgen.requantize.lines import staircase

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
import check_certificate

Step = tuple[str, np.ndarray | float, bool]
"""An operator, a constant, and whether that is its first operand."""

CHANNELS, ZERO = 6, 117
DRAW = np.random.RandomState(5)
SCALES = np.float32(DRAW.uniform(1e-5, 9e-5, CHANNELS))
BIASES = np.float32(DRAW.normal(0, 0.7, CHANNELS))


def chain(
    op_type: str,
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    steps: Sequence[Step],
    y: tuple[type, float, int] = (np.uint8, 0.02, 128),
    w: int | None = None,
    **attributes: object,
) -> ModelProto:
    """x quantized, sums of products with weights, operations with constants, a QuantizeLinear, floats again."""
    y_type, y_scale, y_zero = y
    constants: dict[str, np.ndarray] = {
        "scale": np.float32(0.02),
        "zero": np.uint8(ZERO),
        "w": (DRAW.randint(-127, 128, w_shape) if w is None else np.full(w_shape, w)).astype(np.int8),
        "y_scale": np.float32(y_scale),
        "y_zero": np.array(y_zero, y_type),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["codes"], "codes"),
        helper.make_node(op_type, ["codes", "w", "zero"], ["sums"], "sums", **attributes),
        helper.make_node("Cast", ["sums"], ["t"], "cast", to=1),
    ]
    name, rank = "t", len(x_shape) - 2 if op_type == "ConvInteger" else 0
    for number, (kind, value, is_first) in enumerate(steps):
        operands = [name]
        if kind != "Relu":
            operand = np.float32(value)
            constants[f"c{number}"] = operand.reshape(-1, *(1,) * rank) if operand.ndim else operand
            operands = [f"c{number}", name] if is_first else [name, f"c{number}"]
        name = f"t{number}"
        nodes.append(helper.make_node(kind, operands, [name], f"step{number}"))
    nodes.append(helper.make_node("QuantizeLinear", [name, "y_scale", "y_zero"], ["y_codes"], "y_codes"))
    nodes.append(helper.make_node("DequantizeLinear", ["y_codes", "y_scale", "y_zero"], ["y"], "y"))
    return graph_model(nodes, {"x": ("float", tuple(x_shape))}, {"y": None}, constants)


IMAGE, KERNEL = (1, 4, 9, 7), (CHANNELS, 4, 3, 3)
MUL, ADD, RELU = ("Mul", SCALES, False), ("Add", BIASES, True), ("Relu", 0.0, False)

CHAINS: Mapping[str, ModelProto] = {
    "convolution": chain("ConvInteger", IMAGE, KERNEL, [MUL, ADD], pads=[1] * 4),
    "relu": chain("ConvInteger", IMAGE, KERNEL, [MUL, ADD, RELU], strides=[2, 2], y=(np.uint8, 0.01, 0)),
    "two factors": chain("ConvInteger", IMAGE, KERNEL, [("Mul", 0.02, True), ("Mul", SCALES * 50, False), ADD]),
    "a divisor": chain("ConvInteger", IMAGE, KERNEL, [("Div", 1 / SCALES, False), ("Sub", BIASES, False)]),
    "int8": chain("ConvInteger", IMAGE, KERNEL, [("Mul", 4e-5, False), ADD], y=(np.int8, 0.03, -7)),
    "depthwise": chain("ConvInteger", (1, 6, 9, 7), (6, 1, 3, 3), [MUL, ADD], group=6, pads=[1] * 4),
    "product": chain("MatMulInteger", (5, 24), (24, CHANNELS), [MUL, ADD, RELU]),
    "no addend": chain("MatMulInteger", (2, 3, 24), (24, CHANNELS), [MUL]),
    "an addend before": chain("MatMulInteger", (5, 24), (24, CHANNELS), [("Add", 700.0, False), MUL]),
}
KEPT: Mapping[str, ModelProto] = {
    "a factor below 0": chain("ConvInteger", IMAGE, KERNEL, [("Mul", -SCALES, False), ADD]),
    "a difference from a constant": chain("ConvInteger", IMAGE, KERNEL, [MUL, ("Sub", BIASES, True)]),
    "halves to even at every other sum": chain(
        "MatMulInteger", (5, 4), (4, 6), [("Mul", 0.5, False)], y=(np.uint8, 1, 9)
    ),
}


@cache
def artifact(name: str, target: str = "portable", layout: str = "model") -> qcgen.Artifact:
    return qcgen.compile({**CHAINS, **KEPT}[name], target=target, layout=layout)


def inputs(model: ModelProto) -> list[dict[str, np.ndarray]]:
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    drawn = np.random.RandomState(1)
    xs = [drawn.normal(0, 1.5, shape) for _ in range(4)] + [np.full(shape, end) for end in (-9, 9)]
    return [{"x": x.astype(np.float32)} for x in xs]


def is_joined(name: str) -> bool:
    operators = artifact(name).plan.calls
    return any(isinstance(call.op, Conv) and isinstance(call.op.epilogue, RoundInSteps) for call in operators)


@pytest.mark.parametrize("name", [*CHAINS, *KEPT])
def test_codes_are_those_of_onnxruntime(name):
    require("gcc")
    model = {**CHAINS, **KEPT}[name]
    loaded = artifact(name).load()
    for feeds in inputs(model):
        [wanted] = judge(model, feeds)
        [got] = loaded.run(None, feeds)
        assert np.array_equal(got, wanted)
        assert np.array_equal(evaluate_all(artifact(name).program, feeds)["y"], wanted)


@pytest.mark.parametrize("name", CHAINS)
def test_no_float_is_left_between_codes(name):
    assert is_joined(name)
    assert len(artifact(name, layout="nhwc").plan.calls) == 3  # from floats, sums, to floats


@pytest.mark.parametrize("name", KEPT)
def test_what_no_line_equals_stays_in_float(name):
    assert not is_joined(name)


@pytest.mark.parametrize("target", ["portable", "cortex-m0", "cortex-m4", "cortex-m55"])
def test_the_independent_program_confirms_every_line(target, tmp_path):
    for model in CHAINS.values():
        path = tmp_path / "m.onnx"
        path.write_bytes(model.SerializeToString())
        qcgen.compile(path, name="m", target=target, layout="nhwc").write(tmp_path, certificate=True, force=True)
        points, in_float = check_certificate.check(path, tmp_path / "m.cert.json")
        assert points >= 2 * CHANNELS
        assert not in_float


TERMS = 300


@pytest.mark.parametrize(
    "steps", [[MUL, ADD], [("Div", 1 / SCALES, False), ("Sub", BIASES, False)], [("Mul", 0.02, True), MUL]]
)
def test_every_step_is_where_it_is_in_onnxruntime(steps):
    """Sums on both sides of each step of each channel: the same weight everywhere makes each sum of its own codes."""
    shape = 1, TERMS
    model = chain("MatMulInteger", shape, (TERMS, CHANNELS), steps, w=1)
    [conv] = [call.op for call in qcgen.compile(model).plan.calls if isinstance(call.op, Conv)]
    interval = accumulator_interval(conv)
    stairs = staircase(conv.epilogue, interval.lo, interval.hi)
    sums = np.unique(np.concatenate([stairs.thresholds[stairs.steps], stairs.thresholds[stairs.steps] - 1]))
    assert len(sums) > 2 * CHANNELS
    base, rest = np.divmod(sums, TERMS)
    codes = ZERO + base[:, None] + (np.arange(TERMS) < rest[:, None])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = len(sums)
    [got] = judge(model, {"x": (codes - ZERO).astype(np.float32) * np.float32(0.02)})
    wanted = dequantize(stairs.at(np.broadcast_to(sums, (CHANNELS, len(sums)))).T, conv.y.scale, conv.y.zero_point)
    assert np.array_equal(got, wanted)


def test_a_chain_that_is_read_elsewhere_stays():
    model = CHAINS["convolution"]
    changed = ModelProto()
    changed.CopyFrom(model)
    changed.graph.output.append(helper.make_tensor_value_info("t1", TensorProto.FLOAT, (1, CHANNELS, 9, 7)))
    operators = [call.op for call in qcgen.compile(changed).plan.calls]
    assert not any(isinstance(op, Conv) and isinstance(op.epilogue, RoundInSteps) for op in operators)
