"""Numbers of 16 and of 64 bits: at the boundary, and converted, in every bit as onnxruntime converts them."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
from batch import require
from gallery_networks import float16
from models import node_model
from onnx import TensorProto

import qcgen
from qcgen import arithmetic
from qcgen.build import STRICT_FLAGS
from qcgen.verification import verify

TYPES = {"float16": TensorProto.FLOAT16, "float": TensorProto.FLOAT, "double": TensorProto.DOUBLE}


def cast(before, after, size):
    return node_model("Cast", {"x": (before, (size,))}, to=TYPES[after])


def converted(x, before, after):
    [y] = qcgen.compile(cast(before, after, x.size), name="net").load().run(None, {"x": x})
    return y


def words(array):
    return array.view(f"u{array.itemsize}")


def test_all_float16_numbers_are_widened_in_every_bit():
    """NaNs become quiet ones, as in onnxruntime 1.32.0."""
    require("gcc")
    halves = np.arange(65536).astype(np.uint16)
    y = converted(halves.view(np.float16), "float16", "float")
    sign, exponent, rest = (halves >> 15).astype(np.uint32), halves >> 10 & 31, (halves & 1023).astype(np.uint32)
    finite = np.where(exponent == 0, rest * 2.0**-24, (1024 + rest) * 2.0 ** (exponent.astype(float) - 25))
    quiet = ((rest > 0) & (exponent == 31)).astype(np.uint32) << 22
    special = sign << 31 | np.uint32(0x7F800000) | rest << 13 | quiet
    numbers = np.where(sign == 1, -finite, finite).astype(np.float32)
    assert np.array_equal(words(y), np.where(exponent == 31, special, words(numbers)))
    assert np.array_equal(words(converted(y, "float", "float16")), np.where(quiet > 0, halves | 0x200, halves))


RECORDED = {
    0x3F801000: 0x3C00,  # a tie between 1 and the next: to the even one
    0x3F801001: 0x3C01,
    0x3F803000: 0x3C02,
    0x477FEFFF: 0x7BFF,
    0x477FF000: 0x7C00,
    0xC77FF000: 0xFC00,
    0x33000000: 0x0000,  # half of the least number
    0x33000001: 0x0001,
    0x33C00000: 0x0002,
    0x387FC000: 0x03FF,
    0x387FE000: 0x0400,  # subnormal numbers end here
    0x80000001: 0x8000,
    0xFF8D3814: 0xFE69,
    0x7F9C3CDB: 0x7EE1,
    0x7FC00000: 0x7E00,
}
"""float32 words and those of float16 that onnxruntime 1.32.0 makes of them."""


def test_numbers_are_rounded_as_in_onnxruntime():
    require("gcc")
    x = np.array([*RECORDED], np.uint32).view(np.float32)
    assert words(converted(x, "float", "float16")).tolist() == [*RECORDED.values()]
    assert words(arithmetic.convert(x, np.dtype(np.float16))).tolist() == [*RECORDED.values()]


def test_doubles_become_float16_by_way_of_float32():
    """As in onnxruntime 1.32.0: each but the last two would be the next number if it were rounded once."""
    require("gcc")
    x = np.array([1 + 2.0**-11 + 2.0**-40, 2049 + 1e-9, 2.0**-25 + 2.0**-60, 65519.9999999, 65520])
    y = converted(x, "double", "float16")
    assert y.tolist() == [1, 2048, 0, np.inf, np.inf]


@pytest.mark.parametrize("level", ["-O0", "-Os", "-O3"])
def test_a_network_with_all_types_passes_verify(level):
    require("gcc")
    verification = verify(qcgen.compile(float16(), name="net"), flags=(level, "-fsanitize=undefined"), sums=False)
    assert verification.is_right, verification.first


def test_verify_finds_wrong_rounding():
    require("gcc")
    artifact = qcgen.compile(cast("float", "float16", 100), name="net")
    assert verify(artifact).is_right
    source = artifact.files["net.c"].replace("+ 0xfff + (magnitude >> 13 & 1)) >> 13", ") >> 13")
    assert source != artifact.files["net.c"]
    assert not verify(replace(artifact, files={**artifact.files, "net.c": source})).is_right


def test_the_header_says_what_the_words_are(tmp_path):
    require("gcc")
    artifact = qcgen.compile(float16(), name="net")
    assert "const uint16_t *x, uint16_t *y, double *z" in artifact.files["net.h"]
    assert artifact.files["net.h"].count("IEEE 754 binary16") == 2
    assert "A double has 64 bits" in artifact.files["net.h"]
    assert "sizeof(double) == 8" in artifact.files["net.c"]
    assert "sizeof(double)" not in qcgen.compile(cast("float", "float16", 4), name="net").files["net.c"]
    for name, text in artifact.files.items():
        (tmp_path / name).write_text(text)
    subprocess.run(["gcc", *STRICT_FLAGS, "-Wdouble-promotion", "-c", "net.c"], cwd=tmp_path, check=True)


def test_other_conversions_are_refused():
    with pytest.raises(qcgen.ModelRejected, match="it converts float16 to uint64"):
        qcgen.compile(node_model("Cast", {"x": ("float16", (3,))}, to=TensorProto.UINT64))
