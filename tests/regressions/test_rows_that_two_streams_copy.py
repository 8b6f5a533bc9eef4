"""Two streams copied rows of one tensor, and their copies had one name: the place of one of them was that of the other.

`make fuzz-networks SEED=14 ONLY=21731` found it: with `--arena least` rows lay over other rows, and outputs were wrong.
"""

import pytest
from batch import require
from bench.compiling import Network
from onnx import TensorProto, helper

import qcgen
from qcgen.verification import verify


def network():
    """Two branches, each of which begins with rows of x beside rows of padding, three and seven of them."""
    n = Network((1, 1, 24, 6))
    outputs = [n.conv(n.depthwise(n.conv("x", 8, kernel)), 2) for kernel in (3, 7)]
    model = n.model(outputs[0])
    model.graph.output.append(helper.make_tensor_value_info(outputs[1], TensorProto.INT8, (1, 2, 24, 6)))
    return model


@pytest.mark.parametrize("target", ["portable", "cortex-m4"])
def test_both_have_a_place(target):
    artifact = qcgen.compile(network(), layout="nhwc", io="quantized", arena="least", target=target)
    assert len(artifact.plan.streams) == 2
    assert len([buffer for buffer in artifact.plan.buffers if buffer.name == "x"]) == 2
    require("gcc")
    assert verify(artifact, cases=4, flags=("-O1",), oracle="own", sums=False).is_right
