"""A plain string where the Python API takes several: it is one, not one for each letter."""

import numpy as np
import pytest
from models import graph_model
from onnx import helper

import qcgen
from qcgen.build import host_compiler
from qcgen.errors import ToolMissing


def chain():
    nodes = [helper.make_node("Relu", ["x"], ["linear"]), helper.make_node("Tanh", ["linear"], ["y"])]
    return graph_model(nodes, {"x": ("float", (2, 3))}, {"y": ("float", (2, 3))})


def test_an_output_is_that_tensor():
    one = qcgen.compile(chain(), outputs="linear")
    assert one.files == qcgen.compile(chain(), outputs=["linear"]).files
    assert [each.name for each in one.program.outputs] == ["linear"]


@pytest.mark.parametrize("option", ["dims", "constants"])
@pytest.mark.parametrize("value", ["N=1", ["N"], 3])
def test_what_is_no_mapping_is_an_error_of_the_caller(option, value):
    with pytest.raises(ValueError, match=f"{option} must be a mapping by names, not "):
        qcgen.compile(chain(), **{option: value})


def test_an_output_of_a_loaded_model_and_a_flag_may_be_a_string():
    try:
        host_compiler()
    except ToolMissing as missing:
        pytest.skip(str(missing))
    loaded = qcgen.compile(chain()).load("-O1")
    x = np.ones((2, 3), np.float32)
    [y] = loaded.run("y", {"x": x})
    assert y.shape == (2, 3)
