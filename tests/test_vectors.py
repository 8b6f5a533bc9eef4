"""Test vectors as a header: they are what onnxruntime recorded, and a program of C that runs them agrees."""

import re
import subprocess

import numpy as np
import pytest
from gallery_networks import float16, float_tail
from packages import DIGITS
from tools import require

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.cli import main
from qcgen.verification.cases import generated_cases

RECORDED = DIGITS.with_suffix(".npz")
RUN = """
#include <stdlib.h>
#include <string.h>
#include "net_vectors.h"

/* The number of cases whose outputs differ. */
int main(void)
{
    int differ = 0;

    for (int i = 0; i < NET_VECTORS; i++) {
        static NET_%(Y)s_TYPE y[NET_%(Y)s_SIZE];
        static net_arena arena;

        net_run(net_vectors_%(x)s[i], y, &arena);
        differ += memcmp(y, net_vectors_%(y)s[i], sizeof y) != 0;
    }
    return differ;
}
"""


def differing(folder, artifact, change=("", "")):
    """How many cases differ when a program runs them, with a change to the vectors."""
    require("gcc")
    for name, text in artifact.files.items():
        (folder / name).write_text(text.replace(*change, 1) if "vectors" in name else text)
    [x], [y] = artifact.plan.inputs, artifact.plan.outputs
    (folder / "main.c").write_text(RUN % {"x": x.symbol, "y": y.symbol, "Y": y.symbol.upper()})
    command = ["gcc", *STRICT_FLAGS, "-O1", "main.c", "net.c", "-lm", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run(["./main"], cwd=folder, check=False).returncode


def numbers(header, symbol):
    """The elements of a table, one row for each case."""
    table = re.search(rf"_vectors_{symbol}\[.*?= \{{\n(.*?)\n\}};", header, re.DOTALL)[1]
    rows = [re.findall(r"[-\d.e+]+", row) for row in table.split("},")]
    return np.array([[float(number) for number in row] for row in rows if row])


def test_recorded_outputs_of_onnxruntime_are_the_vectors(tmp_path, capsys):
    command = ["compile", str(DIGITS), "--name", "net", "-o", str(tmp_path), "--data", str(RECORDED)]
    assert main([*command, "--vectors", "3"]) == 0
    assert "net_vectors.h" in capsys.readouterr().out
    header, recorded = (tmp_path / "net_vectors.h").read_text(), np.load(RECORDED)
    artifact = qcgen.compile(DIGITS, name="net")
    assert "#define NET_VECTORS 3\n" in header
    for kind, [port] in (("in", artifact.plan.inputs), ("out", artifact.plan.outputs)):
        expected = [recorded[f"{kind}{case}.{port.tensor.name}"].reshape(-1) for case in range(3)]
        np.testing.assert_array_equal(numbers(header, port.symbol).astype(expected[0].dtype), expected)
    assert main([*command, "--vectors", "1000"]) == 1
    assert re.search(r"it has \d+ cases, fewer than --vectors 1000 asks for", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (lambda: DIGITS, {"arena": "least"}),
        (lambda: DIGITS.with_name("digits_qdq_s8.onnx"), {"io": "quantized", "layout": "nhwc"}),
        (lambda: DIGITS.with_name("digits_qdq_u8.onnx"), {}),
    ],
    ids=["in rows", "channels last", "floats at the boundary"],
)
def test_a_program_that_runs_them_agrees_until_a_number_is_changed(model, options, tmp_path):
    artifact = qcgen.compile(model(), name="net", **options)
    cases = [case.feeds for case in generated_cases(artifact.program, seed=1, cases=2)]
    artifact = artifact.with_vectors(cases)
    assert differing(tmp_path, artifact) == 0
    text = artifact.files["net_vectors.h"]
    last = re.findall(r"(\n +)(-?\d+)", text)[-1]
    assert (
        differing(tmp_path, artifact, (text, f"{last[0]}{int(last[1]) ^ 1}".join(text.rsplit("".join(last), 1)))) == 1
    )


def test_float16_numbers_are_words():
    artifact = qcgen.compile(float16(), name="net")
    case = next(generated_cases(artifact.program, seed=1, cases=1))
    header = artifact.with_vectors([case.feeds]).files["net_vectors.h"]
    for port in artifact.plan.inputs:
        words = case.feeds[port.tensor.name].view(np.uint16).reshape(1, -1)
        np.testing.assert_array_equal(numbers(header, port.symbol), words)


def test_outputs_whose_last_bits_may_differ_are_named():
    artifact = qcgen.compile(float_tail(), name="net")
    zeros = {port.tensor.name: np.zeros(port.tensor.shape, port.tensor.dtype.numpy) for port in artifact.plan.inputs}
    [y] = artifact.plan.outputs
    header = artifact.with_vectors([zeros]).files["net_vectors.h"]
    assert f" * Float numbers of {y.symbol} may differ in their last bits" in header
