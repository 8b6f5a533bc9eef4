"""clang takes "2 ^ X" and "10 ^ X" for powers and warns: a zero point of 2 stood there as the padding of windows."""

import subprocess

import pytest
from models import qlinear_conv, random_weights
from tools import require

import qcgen
from qcgen.build import STRICT_FLAGS


@pytest.mark.parametrize("zero_point", [2, 10])
def test_clang_takes_windows_padded_with_it(zero_point, tmp_path):
    require("clang")
    options = {"x_type": "int8", "y_type": "int8", "x_zero_point": zero_point, "pads": [1, 1, 1, 1]}
    model = qlinear_conv((1, 16, 5, 5), random_weights((16, 16, 3, 3)), **options)
    qcgen.compile(model, target="host", layout="nhwc", name="net").write(tmp_path)
    result = subprocess.run(
        ["clang", *STRICT_FLAGS, "-c", "net.c"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
