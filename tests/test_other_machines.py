"""Portable code where bytes lie the other way round, and where an int has 16 bits.

A big-endian machine runs everything, the portable meanings of Arm's DSP instructions included. An AVR copies
constants to its 8 KiB of RAM: what does not fit is left out, and a test below says what that is.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import avr
import numpy as np
import pytest
from batch import Machine, build
from cases import CASES
from every_case import own_cases
from gallery_networks import network_qop
from hostile_orion import HOSTILE, hostile_inputs, hostile_model, numerics
from network_cases import PORTABLE, UNITS
from network_units import thinned
from subjects import SETTINGS, Arrays, Subject, compiled, convolution, convolutions, network, operator, problems
from tools import require

import qcgen
from qcgen.reference import evaluate
from qcgen.verification.cases import Case, border_cases, panics

DIGITS = Path(__file__).parent / "data" / "digits"
NETWORKS = ("digits_qop_s8", "digits_qop_u8", "digits_qdq_s8", "digits_qdq_u8")

S390X = Machine(("-static",), ("qemu-s390x",), ">")

DSP_CORE = "cortex-m4"

NO_OUTPUTS = 0x55
"""What streams/driver.c writes to outputs where the function returned 1."""


@cache
def plane():
    """A small convolution."""
    return convolution(next(case for case in CASES if case.name == "plane"), "nhwc", "size")


def wrong_on_s390x(subjects, folder):
    """What is wrong with the outputs; buffers are guarded, and aligned to no more than they must be."""
    require("s390x-linux-gnu-gcc", "qemu-s390x")
    image = build(folder, subjects, "s390x-linux-gnu-gcc", ("-O1",), S390X)
    return problems(subjects, image.call([call for each in subjects for call in each.calls], "guarded", 0xEE))


def wrong_on_avr(subjects, folder):
    """What is wrong with the outputs of those that fit; buffers are guarded."""
    require("avr-gcc", "simavr")
    fitting = [each for each in subjects if avr.fits(each)]
    return problems(fitting, avr.run(fitting, folder))


@pytest.mark.parametrize("wrong", [wrong_on_s390x, wrong_on_avr])
def test_a_handful_of_operators_gives_the_references_outputs(wrong, tmp_path):
    others = [operator(each) for each in UNITS[:: len(UNITS) // 12]]
    assert not wrong([plane(), *convolutions(CASES[1::16]), *others], tmp_path)


@pytest.mark.parametrize("wrong", [wrong_on_s390x, wrong_on_avr])
def test_a_wrong_output_is_found(wrong, tmp_path):
    text = plane().artifact.files[f"{plane().name}.c"]
    assert ", 0, 255)" in text
    [found] = wrong([with_text(text.replace(", 0, 255)", ", 0, 200)"))], tmp_path)
    assert "outputs differ" in found


def with_text(text):
    """The plane with another C file."""
    artifact = plane().artifact
    files = {**artifact.files, f"{plane().name}.c": text}
    return replace(plane(), artifact=replace(artifact, files=files))


@pytest.mark.parametrize("wrong", [wrong_on_s390x, wrong_on_avr])
@pytest.mark.parametrize(
    ("statement", "complaint"),
    [("y[PLANE_NHWC_SIZE_Y_SIZE] = 0;", "a write beside a buffer, in plane"), ("*(uint8_t *)x ^= 1;", "an input is")],
)
def test_a_write_where_none_may_be_is_found(wrong, statement, complaint, tmp_path):
    name = plane().name
    head = f'#include "{name}.h"\nvoid {name}_run(const uint8_t *x, uint8_t *y, void *arena)\n'
    with pytest.raises(AssertionError, match=complaint):
        wrong([with_text(f"{head}{{\n    (void)x;\n    (void)y;\n    (void)arena;\n    {statement}\n}}\n")], tmp_path)


@pytest.mark.parametrize("model", NETWORKS)
def test_a_whole_network_gives_what_onnxruntime_gave_on_a_big_endian_machine(model, tmp_path):
    assert not wrong_on_s390x([network(DIGITS / f"{model}.onnx")], tmp_path)


@pytest.mark.parametrize("wrong", [wrong_on_s390x, wrong_on_avr])
def test_a_small_network_gives_the_references_outputs(wrong, tmp_path):
    assert avr.fits(small_network())
    assert not wrong([small_network()], tmp_path)


@pytest.mark.parametrize("wrong", [wrong_on_s390x, wrong_on_avr])
def test_where_orion_panics_the_function_returns_1(wrong, tmp_path):
    assert not wrong([panicking(name) for name in ("sum with groups", "wide product", "quotient")], tmp_path)


def panicking(name: str) -> Subject:
    """A convolution on inputs on both sides of Orion's panics; the driver marks outputs where it returned 1."""
    artifact = qcgen.compile(hostile_model(name), name=name.replace(" ", "_"), numerics=numerics(name))
    cases = [Case("", {"x": x}) for x in hostile_inputs(HOSTILE[name][1], 32)]
    feeds = [case.feeds for case in border_cases(artifact.program, cases)]
    assert len(feeds) == 16

    def judge(found: Sequence[Arrays]) -> str:
        marked = [bool((y["y"] == NO_OUTPUTS).all()) for y in found]
        right = [None if panics(artifact.program, each) else evaluate(artifact.program, each)["y"] for each in feeds]
        same = [y is None or np.array_equal(y, got["y"]) for y, got in zip(right, found, strict=True)]
        return "" if all(same) and marked == [y is None for y in right] else f"{name}: outputs or status differ"

    return Subject(artifact.plan.prefix, artifact, tuple(feeds), judge)


def small_network() -> Subject:
    """Convolutions, a sum, poolings, a product of matrices and a softmax: all within 8 KiB."""
    return compiled("network_qop", network_qop())


@pytest.mark.emulated
def test_every_convolution_gives_the_references_outputs_on_a_big_endian_machine(tmp_path):
    assert not wrong_on_s390x(convolutions(CASES), tmp_path)


@pytest.mark.emulated
def test_dsp_instructions_in_portable_c_give_the_references_outputs_on_a_big_endian_machine(tmp_path):
    subjects = convolutions((*CASES, *own_cases(DSP_CORE)), DSP_CORE)
    assert not wrong_on_s390x([each for each in subjects if "arm_dsp" in kernel_of(each)], tmp_path)


@pytest.mark.emulated
def test_every_other_operator_gives_the_references_outputs_on_a_big_endian_machine(tmp_path):
    assert not wrong_on_s390x([operator(each) for each in UNITS], tmp_path)


@pytest.mark.emulated
def test_every_convolution_that_fits_gives_the_references_outputs_on_an_avr(tmp_path):
    assert not wrong_on_avr(convolutions(CASES), tmp_path)


@pytest.mark.emulated
def test_every_other_operator_that_fits_gives_the_references_outputs_on_an_avr(tmp_path):
    assert not wrong_on_avr(small_operators(), tmp_path)


def small_operators() -> list[Subject]:
    """Every unit of other operators; of tensors that do not fit into the RAM, evenly spread elements."""
    return [each if avr.fits(each := operator(unit)) else operator(thinned(unit)) for unit in PORTABLE]


TOO_LARGE_FOR_AVR = {
    "integer_wraps_pointwise",  # 33,100 channels
    "integer_wraps_window",  # 16,600 channels
    "taps_700",
    "add_s8_huge",  # tables of all pairs
    "add_u8_huge",
    "mul_s8_huge",
    "mul_u8_huge",
    *(
        f"matmul_long_{a}_{b}{how}" for a in ("s8", "u8") for b in ("s8", "u8") for how in ("", "_transposed")
    ),  # matrices of 8,000 codes
    *(f"float_matmul_long{how}" for how in ("", "_transposed", "_constant_a", "_constant_b")),
    *(
        f"wide_mean_{kind}_128_{where}"
        for kind in ("int16", "uint16", "to_bytes", "from_bytes")
        for where in ("first", "last")
    ),
    *(f"integer_log_softmax_{name}" for name in ("0_003_300", "0_1_300", "1_7_300", "20_0_300", "columns")),  # tables
    # An AVR's double has 32 bits:
    *(f"convert_{types}" for types in ("float16_to_double", "float_to_double", "double_to_float16", "double_to_float")),
    *(f"mean_{kind}_{size}" for kind in ("s8", "u8") for size in ("7_of_16_by_16", "4_of_17_by_31", "7_of_17_by_31")),
}


@pytest.mark.all
def test_what_is_left_out_on_an_avr_has_tensors_or_constants_beyond_its_ram():
    left_out = [each.name for each in (*convolutions(CASES), *small_operators()) if not avr.fits(each)]
    endings = tuple(f"_{layout}_{optimize}" for layout, optimize in SETTINGS)
    assert {re.sub(f"({'|'.join(endings)})$", "", name) for name in left_out} == TOO_LARGE_FOR_AVR
    assert sum(avr.fits(each) for each in convolutions(CASES)) > 0.9 * len(CASES)


def kernel_of(each: Subject) -> str:
    [call] = each.artifact.plan.calls
    return call.kernel
