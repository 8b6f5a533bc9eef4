"""Refusals were floods: hundreds of lines for one cause, every node named, control characters unescaped."""

import re

import numpy as np
import onnx
import pytest
from models import graph_model
from onnx import TensorProto, helper

import qcgen
from qcgen.cli import main
from qcgen.errors import MOST_PROBLEMS, ModelRejected, Problem

EIGHT_BITS = "quantize weights and activations to 8 bits (onnxruntime's quantize_static: QuantType.QInt8 or QUInt8)"
FOLD = "if it only computes shapes or constants, export with fixed shapes and do_constant_folding, or run onnxsim"


def number(value):
    return np.array(value, np.float32)


def network(activations=np.uint8, layers=6, height=4, between=None):
    """Convolutions in QDQ form, ``between`` an operator behind each; then a Reshape to a shape that is computed."""
    nodes, last = [], "x"
    constants = {"s": number(0.1), "z": np.zeros((), activations), "ws": number(0.01), "wz": np.zeros((), np.int8)}
    for i in range(layers):
        constants |= {f"w{i}": np.ones((2, 2, 1, 1), np.int8), f"b{i}": number([1, 1])}
        nodes += [
            helper.make_node("QuantizeLinear", [last, "s", "z"], [f"q{i}"], name=f"Q{i}"),
            helper.make_node("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}"], name=f"DQ{i}"),
            helper.make_node("DequantizeLinear", [f"w{i}", "ws", "wz"], [f"wd{i}"], name=f"WDQ{i}"),
            helper.make_node("Conv", [f"d{i}", f"wd{i}", f"b{i}"], [f"c{i}"], name=f"conv{i}"),
        ]
        last = f"c{i}"
        if between is not None:
            nodes.append(helper.make_node(between, [last], [f"t{i}"], name=f"{between}{i}"))
            last = f"t{i}"
    constants |= {"zero": np.array(0), "first": np.array([0]), "rest": np.array([-1])}
    nodes += [
        helper.make_node("Shape", [last], ["shape"], name="shape"),
        helper.make_node("Gather", ["shape", "zero"], ["n"], name="gather"),
        helper.make_node("Unsqueeze", ["n", "first"], ["rows"], name="unsqueeze"),
        helper.make_node("Concat", ["rows", "rest"], ["target"], name="concat", axis=0),
        helper.make_node("Reshape", [last, "target"], ["flat"], name="flatten"),
        helper.make_node("QuantizeLinear", ["flat", "s", "z"], ["q"], name="Q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="DQ"),
    ]
    inputs = {"x": ("float", (1, 2, height, 4))}
    return graph_model(nodes, inputs, {"y": None}, constants, opset=21, ir_version=10)


CASES = {
    "32-bit activations": (
        network(np.int32, 50),
        "nodes 'Q0', 'Q1', 'Q2' and 48 more (QuantizeLinear): y_zero_point is int32, but must be int8 or uint8 or "
        f"int16 or uint16\n    {EIGHT_BITS}",
    ),
    "a dynamic height": (
        network(height="N"),
        "input 'x': its shape is (1, 2, N, 4); every dimension must be a known number\n    add dims={\"N\": SIZE}",
    ),
    "an operator with advice of its own": (
        network(between="BatchNormalization"),
        "nodes 'BatchNormalization0', 'BatchNormalization1', 'BatchNormalization2' and 3 more (BatchNormalization): "
        "the operator BatchNormalization is not supported\n"
        "    fuse it into the convolution before it: export in inference mode, or preprocess the model "
        "(python -m onnxruntime.quantization.preprocess), or quantize its input and its output",
    ),
    "control characters": (
        graph_model(
            [helper.make_node("Bad\x1b[2J\nOp", ["x"], ["y"], name="n\x1b]0;evil\x07\u202e", domain="d\x1b[31m")],
            {"x": ("float", (3, "N\x1b[2J\n"))},
            {"y": None},
        ),
        "input 'x': its shape is (3, N\\x1b[2J\\n); every dimension must be a known number\n"
        '    add dims={"N\\x1b[2J\\n": SIZE}\n'
        "node 'n\\x1b]0;evil\\x07\\u202e' (d\\x1b[31m.Bad\\x1b[2J\\nOp): the domain 'd\\x1b[31m' is unknown\n"
        "    the operators that can be compiled are listed by: qcgen ops; export the model with these, or compile it "
        'up to there with outputs="TENSOR", or single nodes with node',
    ),
}


def refusal(model):
    with pytest.raises(ModelRejected) as rejection:
        qcgen.compile(model)
    return rejection.value


@pytest.mark.parametrize("name", CASES)
def test_the_cause_alone_is_told_in_these_words(name):
    model, text = CASES[name]
    assert str(refusal(model)) == text


def test_the_network_compiles_when_nothing_is_wrong():
    assert qcgen.compile(network()).plan.calls


def test_problems_are_counted_when_there_are_many():
    nodes = [helper.make_node("Softmax", ["x"], [f"y{i}"], name="n" * 1000 + str(i), axis=9 + i) for i in range(200)]
    rejected = refusal(graph_model(nodes, {"x": ("float", (1, 3))}, {f"y{i}": None for i in range(200)}))
    lines = str(rejected).splitlines()
    assert len(rejected.problems) == 200
    assert lines[-1] == "... and 180 more"
    assert len(lines) == 2 * MOST_PROBLEMS + 1
    assert max(map(len, lines)) < 1100


def test_a_problem_is_one_line_of_each():
    problem = Problem("node 'a\nb'", "x" * 10**6, "do\r\nthis")
    assert str(problem).count("\n") == 1
    assert len(str(problem)) < 600


@pytest.mark.parametrize("op_type", ["Where", "Range", "GatherND"])
def test_operators_of_shapes_have_their_own_advice(op_type):
    inputs = {"x": ("float", (2, 3)), "i": ("int64", (1,))}
    node = helper.make_node(op_type, ["x", "i", *(["i"] if op_type == "Where" else [])], ["y"], name="node")
    problem = refusal(graph_model([node], inputs, {"y": None})).problems[0]
    assert problem.hint.startswith(FOLD)
    assert problem.hint.endswith('with outputs="TENSOR"') == (op_type == "Where")


def test_inspect_prints_as_many_problems_as_compile(tmp_path, capsys):
    nodes = [helper.make_node("Softmax", ["x"], [f"y{i}"], axis=9 + i) for i in range(50)]
    nodes.append(helper.make_node("Relu", ["x"], ["y50"]))
    path = tmp_path / "model.onnx"
    model = graph_model(nodes, {"x": ("float", (1, 3))}, {f"y{i}": None for i in range(51)})
    path.write_bytes(model.SerializeToString())
    assert main(["inspect", str(path)]) == 0
    text = capsys.readouterr().out
    assert "it cannot be compiled as a whole: 50 problems\n" in text
    assert "\n... and 30 more\n" in text


def test_weights_of_4_bits_are_those_of_8_bits_with_the_same_codes():
    model, twin = network(), network()
    for tensor in model.graph.initializer:
        if tensor.name in ("wz", *(f"w{i}" for i in range(6))):
            codes = [(7 * i) % 16 - 8 if tensor.name != "wz" else 0 for i in range(int(np.prod(tensor.dims)))]
            [own] = [each for each in twin.graph.initializer if each.name == tensor.name]
            own.CopyFrom(helper.make_tensor(tensor.name, TensorProto.INT8, tensor.dims, codes))
            tensor.CopyFrom(helper.make_tensor(tensor.name, TensorProto.INT4, tensor.dims, codes))
    bodies = [qcgen.compile(each, name="m").files["m.c"].partition("#include")[2] for each in (model, twin)]
    without_ids = [re.sub(r"0x[0-9a-f]{8}", "", body) for body in bodies]
    assert without_ids[0] == without_ids[1]


def problems_of(model):
    with pytest.raises(ModelRejected) as rejection:
        qcgen.compile(model)
    return [(problem.where, problem.what) for problem in rejection.value.problems]


def test_an_opset_that_is_too_old_is_one_problem():
    """It was one for each operator, and two for each convolution."""
    constants = {"s": number(0.1), "z": np.array(3, np.uint8), "w": np.ones((2, 2, 1, 1), np.uint8)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"], name="Q"),
        helper.make_node("QLinearConv", ["b", "s", "z", "w", "s", "z", "s", "z"], ["c"], name="conv"),
        helper.make_node("DequantizeLinear", ["b", "s", "z"], ["d"], name="DQ0"),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["e"], name="DQ1"),
    ]
    inputs = {"x": ("float", (1, 2, 4, 4)), "b": ("uint8", (1, 2, 4, 4))}
    model = graph_model(nodes, inputs, dict.fromkeys("ade"), constants, opset=7)
    what = "QuantizeLinear, QLinearConv and DequantizeLinear need opset 10 of ai.onnx; the model imports 7"
    assert problems_of(model) == [("model", what)]
    model = graph_model(nodes[2:3], inputs, {"d": None}, constants, opset=9)
    what = "DequantizeLinear needs opset 10 of ai.onnx; the model imports 9"
    assert problems_of(model) == [("node 'DQ0' (DequantizeLinear)", what)]


def test_a_missing_file_of_weights_is_one_problem(tmp_path):
    """It was one for each tensor, and one more for each that is declared as an input, too: with a shape of (0,)."""
    model = network(layers=2)
    model.graph.input.append(helper.make_tensor_value_info("w0", TensorProto.INT8, (2, 2, 1, 1)))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    content = (tmp_path / "weights.bin").read_bytes()
    (tmp_path / "weights.bin").unlink()
    count = len(model.graph.initializer) - 1
    [(where, what)] = problems_of(path)
    more = f"({count} more tensors have this problem)"
    assert (where, what) == ("tensor 's'", f"its data is in the file 'weights.bin', which does not exist {more}")
    (tmp_path / "weights.bin").write_bytes(content[:-1])
    [(where, what)] = problems_of(path)
    assert what.endswith(f"of the file 'weights.bin', which has {len(content) - 1}")
