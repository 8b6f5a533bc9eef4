"""What is computed of the codes of one tensor becomes one table, equal to onnxruntime's nodes one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from judged import assert_judged, judge
from models import graph_model
from onnx import ModelProto, helper
from qdq import Chain, Meaning
from test_certificate import checker, sealed

import qcgen
from qcgen.cli import main
from qcgen.ir.program import Lookup, QuantizedBinary

X: Meaning = (0.031, np.int8(5))
GATE: Meaning = (1 / 256, np.int8(-128))
WIDE: Meaning = (0.04, np.int8(-10))
Y: Meaning = (0.02, np.int8(-90))


def gate(chain: Chain, x: str, op_type: str = "Sigmoid", meaning: Meaning = GATE, **attributes) -> str:
    """A function of a dequantized tensor, quantized and dequantized again."""
    return chain.through(chain.node(op_type, [x], **attributes), meaning)


def silu(chain: Chain, x: str) -> str:
    return chain.node("Mul", [x, gate(chain, x)])


def of_two_tables(op_type: str) -> Callable[[Chain, str], str]:
    return lambda chain, x: chain.node(op_type, [gate(chain, x), gate(chain, x, "Tanh", (1 / 128, np.int8(-3)))])


def hard_swish(chain: Chain, x: str) -> str:
    """x * (clip(x + 3, 0, 6) / 6), each step quantized."""
    three = chain.weights("three", np.array(122, np.int8), (3 / 127, np.int8(-5)))
    sixth = chain.weights("sixth", np.array(127, np.int8), (1 / 6 / 127, np.int8(0)))
    bounds = [chain.constant("low", np.float32(0)), chain.constant("high", np.float32(6))]
    moved = chain.through(chain.node("Add", [x, three]), WIDE)
    clipped = chain.through(chain.node("Clip", [moved, *bounds]), (6 / 255, np.int8(-128)))
    return chain.node("Mul", [x, chain.through(chain.node("Mul", [clipped, sixth]), GATE)])


def deep(chain: Chain, x: str) -> str:
    """silu(silu(x)) / sigmoid(x): three steps, and one of them read twice."""
    first = gate(chain, x)
    once = chain.through(chain.node("Mul", [x, first]), Y)
    twice = chain.through(chain.node("Mul", [once, gate(chain, once)]), WIDE)
    return chain.node("Div", [twice, first])


def clamped(chain: Chain, x: str) -> str:
    relu = chain.node("Relu", [x])
    return chain.node("Relu", [chain.node("Add", [relu, gate(chain, relu, "HardSigmoid", alpha=0.3)])])


FUNCTIONS: dict[str, Callable[[Chain, str], str]] = {
    "silu": silu,
    **{f"{op_type} of two tables": of_two_tables(op_type) for op_type in ("Mul", "Add", "Sub", "Div", "Max", "Min")},
    "hard swish": hard_swish,
    "deep": deep,
    "clamped": clamped,
    "square": lambda chain, x: chain.node("Mul", [gate(chain, x), gate(chain, x)]),
    "table of a table": lambda chain, x: chain.node("Tanh", [gate(chain, x)]),
}


@cache
def model(name: str) -> bytes:
    """y of x, 256 numbers that become all codes."""
    chain = Chain()
    chain.dequantize(chain.quantize(FUNCTIONS[name](chain, chain.through("x", X)), WIDE, "codes"), WIDE, "y")
    return chain.model((1, 1, 16, 16)).SerializeToString(deterministic=True)


def every_code() -> dict[str, np.ndarray]:
    codes = np.arange(-128, 128).reshape(1, 1, 16, 16)
    return {"x": ((codes - X[1].astype(int)) * np.float32(X[0])).astype(np.float32)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_table_equals_onnxruntime_for_every_code_and_its_certificate_is_confirmed(name, tmp_path):
    (tmp_path / "m.onnx").write_bytes(model(name))
    artifact = qcgen.compile(tmp_path / "m.onnx", name="m")
    assert [node.kernel for node in artifact.report.nodes] == [
        "portable/quantize", "portable/lookup", "portable/dequantize",
    ]  # fmt: skip
    [y], [expected] = artifact.load().run(None, every_code()), judge(helper_model(name), every_code())
    np.testing.assert_array_equal(y, expected)
    artifact.write(tmp_path, certificate=True)
    assert checker.check(tmp_path / "m.onnx", tmp_path / "m.cert.json")[0] == 256


def helper_model(name: str) -> ModelProto:
    return ModelProto.FromString(model(name))


def test_operators_of_com_microsoft_are_joined_as_pairs_are():
    meaning = {"x_scale": np.float32(0.03), "x_zero": np.uint8(120), "s_scale": np.float32(1 / 255)}
    meaning |= {"s_zero": np.uint8(1), "y_scale": np.float32(0.02), "y_zero": np.uint8(20)}
    of_x, of_s, of_y = (["x_scale", "x_zero"], ["s_scale", "s_zero"], ["y_scale", "y_zero"])
    nodes = [
        helper.make_node("QLinearSigmoid", ["x", *of_x, *of_s], ["s"], "gate", domain="com.microsoft"),
        helper.make_node("QLinearMul", ["x", *of_x, "s", *of_s, *of_y], ["y"], "product", domain="com.microsoft"),
    ]
    opsets = {"com.microsoft": 1}
    proto = graph_model(nodes, {"x": ("uint8", (256,))}, {"y": None}, meaning, opset=13, opsets=opsets)
    [node] = assert_judged(proto, {"x": np.arange(256).astype(np.uint8)}, named=None, exact=True).report.nodes
    assert (node.name, node.kernel, node.joined) == ("product", "portable/lookup", ("gate",))


def test_what_others_read_keeps_its_own_table():
    chain = Chain()
    x = chain.through("x", X)
    first = gate(chain, x)
    chain.dequantize(chain.quantize(chain.node("Mul", [x, first]), Y, "codes"), Y, "y")
    chain.node("Softmax", [first], "z")
    artifact = qcgen.compile(chain.model((1, 1, 16, 16), ("y", "z")), name="m")
    tables = {op.name: op.joined for op in artifact.planned.operators if isinstance(op, Lookup)}
    assert tables == {"sigmoid2_node": (), "mul5_node": ("sigmoid2_node",)}


def test_products_of_two_tensors_stay_products():
    chain = Chain()
    x, other = chain.through("x", X), chain.through("x", WIDE)
    chain.dequantize(chain.quantize(chain.node("Mul", [x, gate(chain, other)]), Y, "codes"), Y, "y")
    artifact = qcgen.compile(chain.model((1, 1, 16, 16)), name="m")
    assert any(isinstance(op, QuantizedBinary) for op in artifact.planned.operators)
    assert not any(node.joined for node in artifact.report.nodes)


def test_sums_with_rows_of_constants_and_of_other_shapes_stay_sums():
    for constant in (np.arange(16, dtype=np.int8), np.zeros((2, 1, 16, 16), np.int8)):
        chain = Chain()
        x = gate(chain, chain.through("x", X))
        added = chain.node("Add", [x, chain.weights("c", constant, (0.02, np.int8(0)))])
        chain.dequantize(chain.quantize(added, Y, "codes"), Y, "y")
        program = qcgen.compile(chain.model((1, 1, 16, 16)), name="m").planned
        assert any(isinstance(op, QuantizedBinary) for op in program.operators)


def test_every_node_that_a_table_computes_is_named(tmp_path, capsys):
    (tmp_path / "m.onnx").write_bytes(model("deep"))
    artifact = qcgen.compile(tmp_path / "m.onnx", name="m")
    [joined] = [node.joined for node in artifact.report.nodes if node.joined]
    assert joined == ("sigmoid2_node", "mul5_node", "sigmoid8_node", "mul11_node")
    text = " ".join(artifact.files["m.c"].replace("\n *", " ").split())
    names = ", ".join(joined)
    assert f"one table for {names}, div14_node: all 256 codes went through these nodes, one by one" in text
    assert f"Div, a table; it computes {names}, too." in text
    assert main(["inspect", str(tmp_path / "m.onnx")]) == 0
    assert f"one table computes {names}, div14_node\n" in capsys.readouterr().out


# --- certificates of joined tables ---


def certified(folder: Path, change: Callable[[list[dict]], object]) -> None:
    """Compiles a network in which one gate has another reader, and checks its certificate with changed entries."""
    chain = Chain()
    x = chain.through("x", X)
    first = gate(chain, x)
    product = chain.through(chain.node("Mul", [x, first]), Y)
    chain.dequantize(chain.quantize(chain.node("Sub", [product, gate(chain, product)]), Y, "codes"), Y, "y")
    chain.dequantize(chain.quantize(chain.node("Softmax", [first]), GATE, "shares"), GATE, "z")
    proto = chain.model((1, 1, 16, 16), ("y", "z"))
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    qcgen.compile(folder / "m.onnx", name="m").write(folder, certificate=True)
    body = json.loads((folder / "m.cert.json").read_text())
    change(body["nodes"])
    (folder / "m.cert.json").write_text(json.dumps(sealed(body)))
    checker.check(folder / "m.onnx", folder / "m.cert.json")


def joint_of(nodes: list[dict]) -> dict:
    [entry] = [entry for entry in nodes if "joined" in entry]
    return entry


def test_the_certificate_with_a_gate_that_others_read_is_confirmed(tmp_path):
    certified(tmp_path, lambda nodes: joint_of(nodes))


WRONG: dict[str, tuple[Callable[[list[dict]], object], str]] = {
    "value": (lambda nodes: joint_of(nodes)["values"].__setitem__(100, 0), "values are those of the function"),
    "no entry of what others read": (
        lambda nodes: nodes.pop(0),
        "sigmoid2_q_node: an entry is missing, because others",
    ),
    "fewer nodes": (lambda nodes: joint_of(nodes)["joined"].pop(1), "mul5_node: an entry is missing"),
    "none": (lambda nodes: joint_of(nodes).update(joined=[]), "joined names the nodes"),
    "twice": (lambda nodes: joint_of(nodes)["joined"].append("mul5_node"), "joined names each node once"),
    "itself": (lambda nodes: joint_of(nodes)["joined"].append(joint_of(nodes)["node"]), "names each node once"),
    "unknown": (lambda nodes: joint_of(nodes)["joined"].append("x"), "joined names what it computes"),
    "elsewhere": (lambda nodes: joint_of(nodes)["joined"].append("softmax11_node"), "joined names what it computes"),
    "no list": (lambda nodes: joint_of(nodes).update(joined="mul5_node"), "its numbers are integers"),
    "a number": (lambda nodes: joint_of(nodes)["joined"].append(3), "its numbers are integers"),
    "lists": (lambda nodes: joint_of(nodes)["joined"].append(["mul5_node"]), "its numbers are integers"),
    "of another kind": (lambda nodes: nodes[-1].update(joined=["mul5_node"]), "joined names the nodes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_certificate_of_joined_tables_is_refused(name, tmp_path):
    change, message = WRONG[name]
    with pytest.raises(checker.Wrong, match=message):
        certified(tmp_path, change)
