"""What `import qcgen` gives a program in Python."""

from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

import qcgen
from qcgen import chips, options
from qcgen.cores import TARGETS
from qcgen.ir.types import Layout
from qcgen.lower import NUMERICS

DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"


@pytest.fixture(scope="module")
def artifact():
    return qcgen.compile(DIGITS, name="digits", layout="nhwc", io="quantized")


@pytest.fixture(scope="module")
def session(artifact):
    return artifact.load("-O0")


def test_an_artifact_shows_itself_in_a_line(artifact):
    constants, arena = artifact.report.constants_bytes, artifact.report.arena_bytes
    what = f"11 nodes, {constants} B of constants, arena {arena} B; digits.h, digits.c"
    assert repr(artifact) == f"<qcgen.Artifact digits for portable: {what}>"


def test_inputs_and_outputs_are_described_as_onnxruntime_describes_them(session):
    ort = pytest.importorskip("onnxruntime").InferenceSession(DIGITS)
    of_model = qcgen.compile(DIGITS, name="digits").load("-O0")
    for own, theirs in ((of_model.get_inputs(), ort.get_inputs()), (of_model.get_outputs(), ort.get_outputs())):
        assert [(x.name, x.type, x.shape) for x in own] == [(x.name, x.type, x.shape) for x in theirs]
    [x], [y] = session.get_inputs(), session.get_outputs()
    assert (x.name, x.type, x.shape, y.shape) == ("image_quantized", "tensor(int8)", [1, 8, 8, 1], [1, 10])


@pytest.mark.parametrize("names", [None, [], "probabilities_quantized", ["probabilities_quantized"]], ids=str)
def test_outputs_are_named_as_for_onnxruntime(names, session):
    [y] = session.run(names, {"image_quantized": np.zeros((1, 8, 8, 1), np.int8)})
    assert y.shape == (1, 10)


def test_one_output_may_be_given_as_text():
    alone, listed = (qcgen.compile(DIGITS, outputs=each) for each in ("logits_quantized", ["logits_quantized"]))
    assert alone.files == listed.files
    assert [port.tensor.name for port in alone.plan.outputs] == ["logits_quantized"]


def test_a_type_checker_knows_every_target_and_no_other():
    assert get_args(options.CoreName) == tuple(TARGETS)
    assert set(get_args(options.ChipName)) == set(chips.CHIPS)
    assert set(get_args(options.SeriesName)) == chips.SERIES.keys() - chips.CHIPS.keys()
    hints = get_type_hints(qcgen.compile, localns={"ModelProto": object})
    assert hints["target"] == options.CoreName | options.SeriesName | options.ChipName
    assert hints["board"] == options.ChipName | None


def test_the_other_words_are_those_of_the_code():
    assert get_args(options.NumericsName) == tuple(NUMERICS)
    assert set(get_args(options.LayoutName)) == {"model", *(layout.value for layout in Layout)}


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("layout", "model, nhwc, nchw"),
        ("optimize", "size, speed"),
        ("io", "model, quantized"),
        ("io_memory", "caller, arena"),
        ("input", "whole, rows"),
    ],
)
def test_a_word_that_an_option_does_not_have_is_refused(option, known):
    with pytest.raises(ValueError, match=f"^{option} must be one of {known}, not 'z'$"):
        qcgen.compile(DIGITS, **{option: "z"})
