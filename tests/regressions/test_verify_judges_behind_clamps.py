"""verify passed layers with a Relu of which onnxruntime had judged nothing: their codes may be one more or less.

Behind a table of such codes the code may be as many off as the table's largest step.
"""

import numpy as np
import pytest
from qdq import Chain
from test_verify_judges_the_model_file import judged, misread
from tools import require_modules

import qcgen
from qcgen.cli import main


def layer(between, behind=(), codes=True, bias=0):
    """A convolution between codes, and behind it operators of numbers."""
    made = Chain()
    w = np.random.default_rng(0).integers(-127, 128, (4, 4, 1, 1)).astype(np.int8)
    inputs = [made.dequantize("x", (0.1, np.int8(-5)), "values"), made.weights("w", w, (0.01, np.int8(0)))]
    inputs.append(made.constant("b", np.full(4, bias, np.float32)))
    y = made.node("Conv", inputs)
    for op_type in between:
        y = made.node(op_type, [y])
    y = made.through(y, (0.05, np.int8(4)))
    for op_type in behind:
        y = made.node(op_type, [y])
    if codes:
        made.quantize(y, (0.01, np.int8(0)), "y")
    else:
        made.node("Identity", [y], "y")
    return made.model((1, 4, 3, 3), opset=13, x_type="int8")


@pytest.mark.parametrize("codes", [True, False])
@pytest.mark.parametrize("behind", [[], ["Relu"], ["Sigmoid"]])
@pytest.mark.parametrize("between", [["Relu"], ["Relu", "Flatten"], ["Flatten", "Relu"]])
def test_codes_behind_a_clamp_are_judged(between, behind, codes):
    require_modules("onnxruntime")
    right = layer(between, behind, codes)
    assert judged(qcgen.compile(right, name="net")).judge.outputs
    assert not judged(qcgen.compile(right, name="net")).judge.differing
    found = judged(misread(right, layer(between, behind, codes, bias=3), name="net"))
    assert found.judge.differing > found.judge.outputs // 8
    assert not found.is_right


def test_a_network_whose_judge_compares_nothing_does_not_pass(tmp_path, capsys):
    require_modules("onnxruntime")
    path = tmp_path / "net.onnx"
    path.write_bytes(layer(["Relu"], ["Relu", "Softmax"], codes=False).SerializeToString())
    command = ["verify", str(path), "--no-sums", "--cases", "1"]
    assert main(command) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("NOT JUDGED: onnxruntime compared no output")
    assert main([*command, "--oracle", "own"]) == 0
