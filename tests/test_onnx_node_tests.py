"""ONNX's own node tests: those for Conv, ConvInteger and QLinearConv, and with --all those of every operator."""

import warnings
from unittest import mock

import node_tests
import numpy as np
import onnx
import pytest
from batch import require
from onnx import ModelProto, numpy_helper

import qcgen
from qcgen.ir.types import DType

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # making a case may overflow
    from onnx.backend.test.case import node
    from onnx.backend.test.case.node import conv, convinteger, qlinearconv  # noqa: F401 - importing makes the cases

    with mock.patch.object(node, "import_recursive"):  # else the cases of all operators are made, which takes seconds
        COLLECTED = node.collect_testcases(None)

OPERATORS = ("Conv", "ConvInteger", "QLinearConv")


def is_of_a_convolution(case):
    return case.model is not None and [node.op_type in OPERATORS for node in case.model.graph.node] == [True]


CASES = [case for case in COLLECTED if is_of_a_convolution(case)]


def bake(model: ModelProto, values):
    """The model with every input but the first as an initializer: generated code knows weights and scales."""
    baked = ModelProto()
    baked.CopyFrom(model)
    for declared, value in list(zip(baked.graph.input, values, strict=True))[1:]:
        baked.graph.initializer.append(numpy_helper.from_array(value, declared.name))
        baked.graph.input.remove(declared)
    return baked


def test_all_node_tests_of_convolutions_are_here():
    assert {case.name for case in CASES} >= {
        "test_basic_conv_with_padding",
        "test_basic_conv_without_padding",
        "test_conv_with_strides_padding",
        "test_conv_with_strides_no_padding",
        "test_conv_with_strides_and_asymmetric_padding",
        "test_conv_with_autopad_same",
        "test_convinteger_without_padding",
        "test_convinteger_with_padding",
        "test_qlinearconv",
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_generated_c_gives_the_outputs_of_the_node_test(case):
    """Integers are equal, QLinearConv's too: its only case meets no tie, where rounding rules would part."""
    require("gcc")
    for values, wanted in case.data_sets:
        values = [np.asarray(value) for value in values]
        artifact = qcgen.compile(bake(case.model, values), name=case.name)
        [x], [y] = artifact.plan.inputs, artifact.plan.outputs
        [got] = artifact.load().run(None, {x.tensor.name: values[0]})
        if y.tensor.dtype is DType.FLOAT32:
            np.testing.assert_allclose(got, wanted[0], rtol=case.rtol, atol=case.atol)
        else:
            assert got.dtype == wanted[0].dtype
            np.testing.assert_array_equal(got, wanted[0])


def test_the_page_counts_no_test_that_compiles_and_fails():
    [line] = [line for line in node_tests.DOCUMENT.read_text().splitlines() if line.startswith("all ")]
    _, tests, compile_, pass_ = line.split()
    assert int(tests) >= 647
    assert int(pass_) == int(compile_) >= 382


@pytest.mark.all
def test_the_page_has_the_verdicts_of_every_operator():
    """What onnx makes depends on its version, so the page is compared only if it is that of the page."""
    require("gcc")
    found = list(node_tests.verdicts(node_tests.cases(), processes=2))
    assert [each for each in found if each.wrong] == []
    if f"onnx {onnx.__version__} " in node_tests.DOCUMENT.read_text():
        assert node_tests.page(found) == node_tests.DOCUMENT.read_text()
