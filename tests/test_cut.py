"""A model compiled up to some of its tensors."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import qcgen
from qcgen.cli import main
from qcgen.errors import ModelRejected
from qcgen.reference import evaluate_all

ROOT = Path(__file__).parents[1]
DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"
TENSORS = [node.output[0] for node in onnx.load(DIGITS).graph.node]
MIDDLE = TENSORS[5]


def test_it_computes_what_the_whole_model_computes_there():
    part, whole = qcgen.compile(DIGITS, outputs=[TENSORS[3], MIDDLE]), qcgen.compile(DIGITS)
    assert [port.tensor.name for port in part.plan.outputs] == [TENSORS[3], MIDDLE]
    x = np.random.default_rng(2).random(whole.program.inputs[0].shape, np.float32)
    expected = evaluate_all(whole.program, {"image": x})
    y = evaluate_all(part.program, {"image": x})
    assert all(np.array_equal(y[name], expected[name]) for name in (TENSORS[3], MIDDLE))


def test_nothing_behind_it_is_left():
    report = qcgen.compile(DIGITS, outputs=[TENSORS[1]]).report
    assert len(report.nodes) == 2
    assert report.options["outputs"] == (TENSORS[1],)


def test_verify_and_the_head_of_the_file_know_it(tmp_path, capsys):
    assert main(["verify", str(DIGITS), "--output", MIDDLE, "--cases", "1", "--no-sums"]) == 0
    assert main(["compile", str(DIGITS), "--output", MIDDLE, "-o", str(tmp_path)]) == 0
    assert f"--output {MIDDLE}" in (tmp_path / "digits_qop_s8.c").read_text()
    assert "0 of " in capsys.readouterr().out


def test_its_certificate_is_confirmed(tmp_path):
    assert main(["compile", str(DIGITS), "--output", MIDDLE, "--certificate", "-o", str(tmp_path)]) == 0
    certificate = tmp_path / "digits_qop_s8.cert.json"
    assert json.loads(certificate.read_text())["options"]["outputs"] == [MIDDLE]
    command = [sys.executable, str(ROOT / "docs" / "check_certificate.py"), str(DIGITS), str(certificate)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("confirmed: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("image", "tensor 'image': it is to be an output, but is an input"),
        (f"{MIDDLE}x", f"no node computes a tensor of this name\n    did you mean '{MIDDLE}'"),
        ("", "tensor '': no node computes a tensor of this name\n    the last node computes 'probabilities'"),
    ],
)
def test_other_names_are_refused(name, text):
    with pytest.raises(ModelRejected) as rejection:
        qcgen.compile(DIGITS, outputs=[name])
    assert text in str(rejection.value)
