"""What layers fall back to is told, with its costs and its causes; --strict refuses floats."""

import json

import numpy as np
import pytest
from gallery_networks import network_qop
from models import graph_model, problems
from qdq import A, B, Chain

import qcgen
from qcgen.cli import main
from qcgen.cli.report_text import fallbacks

W: tuple[float, np.ndarray] = (0.01, np.int8(0))


def weights(n, name, shape, is_quantized=True):
    """The name of weights of a chain: codes, dequantized, or floats."""
    drawn = np.random.RandomState(len(n.nodes)).normal(0, 0.1, shape)
    if not is_quantized:
        return n.constant(name, drawn.astype(np.float32))
    codes = n.constant(f"{name}_codes", np.clip(np.rint(drawn / 0.01), -128, 127).astype(np.int8))
    return n.dequantize(codes, W, name)


def conv_network(*, first=True, second=True, is_quantized=True):
    """Two convolutions of an image, each with its Relu; which results are quantized."""
    n = Chain()
    x = n.through("x", A) if is_quantized else "x"
    one = n.node("Relu", [n.node("Conv", [x, weights(n, "w1", (8, 2, 3, 3), is_quantized)], "conv1")], "relu1")
    one = n.through(one, B) if first else one
    two = n.node("Relu", [n.node("Conv", [one, weights(n, "w2", (4, 8, 3, 3), is_quantized)], "conv2")], "relu2")
    two = n.through(two, B) if second else two
    n.node("Flatten", [two], "y")
    return graph_model(n.nodes, {"x": ("float", (1, 2, 10, 10))}, {"y": None}, n.constants, opset=13)


def told(model, **options):
    return {each.kind: each for each in qcgen.compile(model, **options).report.fallbacks}


def test_a_network_of_integers_has_no_layer_in_float():
    assert "float" not in told(conv_network())


def test_the_node_behind_which_a_quantizelinear_is_missing_is_named():
    found = told(conv_network(second=False))["float"]
    assert found.what == "1 of 2 weight layers runs in float"
    assert found.advice == "a QuantizeLinear is missing behind relu2_node; docs/quantizing.md"
    assert "conv2_node" in found.nodes
    assert "conv1_node" not in found.nodes


def test_a_model_without_any_codes_is_told_so():
    found = told(conv_network(first=False, second=False, is_quantized=False), target="cortex-m3")["float"]
    assert found.what == "2 of 2 weight layers run in float"
    assert found.advice == "the model is not quantized: qcgen quantize does it; docs/quantizing.md"
    assert found.flash_percent > 90
    assert found.cycles_percent > 90


def test_weights_that_are_not_quantized_are_named():
    """onnxruntime quantizes the weights of Conv and Gemm when it loads a model, those of MatMul stay float."""
    n = Chain()
    product = n.node("MatMul", [n.through("x", A), weights(n, "w", (6, 4), is_quantized=False)], "product")
    n.dequantize(n.quantize(product, B), B, "y")
    model = graph_model(n.nodes, {"x": ("float", (1, 6))}, {"y": None}, n.constants, opset=13)
    assert told(model)["float"].advice == "the weights of product_node are not quantized; docs/quantizing.md"


def test_the_input_is_named_where_it_is_not_quantized():
    n = Chain()
    one = n.node("Conv", ["x", weights(n, "w", (4, 2, 3, 3))], "conv")
    n.node("Flatten", [n.through(one, B)], "y")
    model = graph_model(n.nodes, {"x": ("float", (1, 2, 6, 6))}, {"y": None}, n.constants, opset=13)
    advice = told(model)["float"].advice
    assert advice == "a QuantizeLinear is missing behind input x; docs/quantizing.md"


def test_many_causes_are_counted():
    n = Chain()
    taken = n.through("x", A)
    for i in range(5):
        n.node("Conv", [taken, weights(n, f"w{i}", (1, 1, 3, 3))], f"y{i}")
    outputs = {f"y{i}": None for i in range(5)}
    model = graph_model(n.nodes, {"x": ("float", (1, 1, 6, 6))}, outputs, n.constants, opset=13)
    advice = told(model)["float"].advice
    assert "missing behind y0_node, y1_node, y2_node and 2 more;" in advice


def test_portable_kernels_are_told_on_a_core_that_has_its_own():
    found = told(network_qop(), target="cortex-m4")["portable"]
    assert found.what == "3 of 7 nodes run through portable kernels (max_pool, global_average_pool, softmax)"
    assert found.nodes == ("pooled", "mean", "y")
    assert 0 < found.flash_percent < 50
    assert 0 < found.cycles_percent < 50
    assert "portable" not in told(network_qop())


def test_copies_are_told():
    n = Chain()
    x = n.through("x", A)
    turned = n.through(n.node("Transpose", [x], "turned", perm=[0, 2, 1]), A)
    both = n.node("Concat", [x, turned], "both", axis=1)
    n.through(n.node("Relu", [n.through(both, A)], "relu"), A, "y")
    model = graph_model(n.nodes, {"x": ("float", (1, 6, 6))}, {"y": None}, n.constants, opset=13)
    found = told(model, io="quantized")["moves"]
    assert found.what == "2 nodes only move elements (turned_q to memory order, both_node)"
    assert found.cycles_percent > 0


def test_shares_add_up_to_all_that_was_measured_or_estimated():
    """What is in float costs more on a core without an FPU."""
    model = conv_network(second=False)
    slow, fast = (told(model, target=target)["float"].cycles_percent for target in ("cortex-m3", "cortex-m4"))
    assert 100 >= slow > fast > 0


def test_a_line_says_what_it_costs():
    [line] = [line for line in fallbacks(tuple(told(conv_network(second=False)).values())) if "float" in line]
    assert line.startswith("float: 1 of 2 weight layers runs in float: about ")
    assert " % of the flash, " in line
    assert " % of the cycles; a QuantizeLinear is missing behind relu2_node" in line


def test_a_single_node_is_not_summed_up():
    artifact = qcgen.compile(conv_network(second=False), node="conv2_node")
    assert artifact.report.fallbacks == ()


def test_strict_refuses_floats_and_names_what_is_missing():
    conv, relu = problems(qcgen.compile, conv_network(second=False), strict=True)
    assert (conv.where, conv.what) == ("node 'conv2_node' (Conv)", "it computes in float, which strict=True refuses")
    assert conv.hint == "a QuantizeLinear is missing behind relu2_node"
    assert relu.where == "node 'relu2_node' (Relu)"


def test_strict_takes_networks_of_integers_with_floats_at_their_boundary():
    model = conv_network()
    assert qcgen.compile(model, strict=True, name="m").files == qcgen.compile(model, name="m").files


@pytest.mark.parametrize("command", ["compile", "inspect"])
def test_the_command_line_ends_with_what_falls_back(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("m.onnx").write_bytes(conv_network(second=False).SerializeToString())
    assert main([command, "m.onnx"]) == 0
    lines = capsys.readouterr().out.splitlines()
    last, moves = lines[-6:-4] if command == "compile" else lines[-2:]
    assert last.startswith("float: 1 of 2 weight layers runs in float: about ")
    assert moves.startswith("moves: 1 node only moves elements (relu2 to memory order): about ")
    assert main([command, "m.onnx", "--json"] + ["--force"] * (command == "compile")) == 0
    found, _ = json.loads(capsys.readouterr().out)["fallbacks"]
    assert (found["kind"], found["is_measured"]) == ("float", False)
    assert main(["compile", "m.onnx", "--strict"]) == 1
    assert "node 'conv2_node' (Conv): it computes in float, which --strict refuses" in capsys.readouterr().err
