"""What `import qcgen` gives a program in Python."""

from pathlib import Path

import numpy as np
import pytest

import qcgen

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
