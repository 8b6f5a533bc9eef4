"""The share of right answers that compile reports where --data has labels, of the C as it ships."""

import json
from pathlib import Path

import numpy as np
import pytest
from tools import require

from qcgen.cli import main

DIGITS = Path(__file__).parent / "data" / "digits"
MODEL = str(DIGITS / "digits_qdq_s8.onnx")


@pytest.fixture
def examples(tmp_path):
    """A function that writes recorded images with labels: those that onnxruntime gives, but for some."""
    require("gcc")

    def write(wrong, count=None):
        with np.load(DIGITS / "digits_qdq_s8.npz") as recorded:
            names = sorted(name for name in recorded if name.startswith("in"))
            images = np.concatenate([recorded[name] for name in names])
            outputs = [recorded[name.replace("in", "out", 1).replace("image", "probabilities")] for name in names]
        labels = np.array([int(each.argmax()) for each in outputs])
        labels[:wrong] = (labels[:wrong] + 1) % 10
        np.savez(tmp_path / "examples.npz", images=images, labels=labels[:count])
        return len(names)

    return write


def test_text_json_and_page_have_the_accuracy(examples, tmp_path, capsys):
    count = examples(wrong=1)
    arguments = ["compile", MODEL, "--name", "m", "-o", str(tmp_path / "out"), "--report", "json", "--report", "html"]
    assert main([*arguments, "--data", str(tmp_path / "examples.npz")]) == 0
    share = f"{100 * (count - 1) / count:.1f} %"
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"accuracy: {share}, {count - 1} of {count} examples, by the C on the host"
    )
    report = json.loads((tmp_path / "out" / "m_report.json").read_text())
    assert report["accuracy"] == {"right": count - 1, "examples": count}
    assert f"<h2>accuracy</h2><strong>{share}</strong>" in (tmp_path / "out" / "m_report.html").read_text()


def test_labels_that_are_missing_or_too_few_are_refused(examples, tmp_path, capsys):
    count = examples(wrong=0, count=1)
    arguments = ["compile", MODEL, "-o", str(tmp_path / "out"), "--data", str(tmp_path / "examples.npz")]
    assert main(arguments) == 1
    assert f"its labels are 1, its examples {count}" in capsys.readouterr().err
    np.savez(tmp_path / "examples.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    assert main(arguments) == 2
    assert "argument --data: it is for --self-test and --vectors" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
