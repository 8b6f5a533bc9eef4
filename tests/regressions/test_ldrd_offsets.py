"""LDRD reaches 1020 bytes: gcc once added a larger offset to a table's address, which the assembler refused."""

import subprocess

import numpy as np
import pytest
from batch import require
from models import qlinear_conv

import qcgen
from qcgen.cores import TARGETS


@pytest.mark.parametrize("optimize", ["size", "speed"])
def test_a_product_assembles(tmp_path, optimize):
    require("arm-none-eabi-gcc")
    weights = np.random.default_rng(1).integers(-127, 128, (10, 64, 1, 1)).astype(np.int8)
    model = qlinear_conv((1, 64, 1, 1), weights, x_type="int8", y_type="int8", w_zero_point=np.zeros(10), y_scale=4.0)
    artifact = qcgen.compile(model, name="product", target="cortex-m4", layout="nhwc", optimize=optimize)
    artifact.write(tmp_path)
    command = ["arm-none-eabi-gcc", *TARGETS["cortex-m4"].flags, "-std=c99", "-O3", "-c", "product.c"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[:1000]
