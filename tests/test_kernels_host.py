"""The kernels of the host give the same outputs with each instruction for products of bytes, and without any."""

import subprocess
from functools import cache
from pathlib import Path
from platform import machine

import pytest
from batch import HOST, STREAMS, Machine, Unit, assert_sanitized, build, require, unit
from cases import CASES, U8S8, quantized
from cases_arm_mve import CONVOLUTIONS, DENSES
from cases_host import CASES as OWN

from qcgen.ir.context import names_of

CPUINFO = Path("/proc/cpuinfo")
X86 = {
    "avx512_vnni": ("-mavx512f", "-mavx512vnni"),
    "avx_vnni": ("-mavx2", "-mavxvnni"),
}
"""Flags of compilers by the word for them in /proc/cpuinfo."""

EMULATED = {bits: ("-mavx2", f"-DEMULATED_BITS={bits}", "-include", str(STREAMS / "vnni.h")) for bits in (256, 512)}
"""Flags with which code for VNNI runs on a processor that has AVX2, by the bits of a vector."""

AARCH64 = Machine(("-static",), ("qemu-aarch64",))
OTHERS = (*CASES[::6], *CONVOLUTIONS[::3], *DENSES[::3])


@cache
def units(cases=OWN) -> list[Unit]:
    """Those that the kernel serves, in both orders of axes."""
    both = [unit(case, layout, "speed", "host") for case in cases for layout in ("nhwc", "nchw")]
    return [each for each in both if "host/conv" in {call.kernel for call in each.artifact.plan.calls}]


def require_x86(word: str, compiler: str) -> None:
    """Skips the test on another machine, and if the compiler does not know the instruction."""
    require(compiler)
    if machine() != "x86_64":
        pytest.skip(f"{word} is an instruction of x86-64")
    command = [compiler, *X86[word], "-E", "-x", "c", "/dev/null"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"this {compiler} does not know {' '.join(X86[word])}")


def assert_right_with(word: str, compiler: str, built: list[Unit], folder: Path) -> None:
    """Builds the units with the instruction, and runs them where the processor has it."""
    require_x86(word, compiler)
    image = build(folder, built, compiler, ("-O2", *X86[word]), HOST)
    if CPUINFO.is_file() and word in CPUINFO.read_text().split():
        image.assert_equals_reference("guarded", 255)


def require_aarch64() -> None:
    require("aarch64-linux-gnu-gcc", "qemu-aarch64")


def test_the_kernel_serves_the_cases_made_for_it():
    assert len(units()) == 2 * len(OWN)


@pytest.mark.parametrize(("channels", "kernel"), [(8, "host/conv"), (9, "portable/depthwise_nhwc")])
def test_groups_of_few_channels_are_computed_as_one(channels, kernel):
    case = quantized("host_groups_of_channels", (1, channels, 6, 6), (channels, 1, 3, 3), U8S8, group=channels)
    [call] = unit(case, "nhwc", "speed", "host").artifact.plan.calls
    assert call.kernel == kernel


def test_outputs_without_such_an_instruction_equal_the_reference(tmp_path, level):
    require("gcc")
    build(tmp_path, units(), "gcc", (level,), HOST).assert_equals_reference("guarded", 255)


@pytest.mark.all
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("word", X86)
def test_outputs_with_vnni_equal_the_reference_where_the_processor_has_it(word, compiler, tmp_path):
    assert_right_with(word, compiler, units(), tmp_path)


@pytest.mark.parametrize("bits", EMULATED)
def test_outputs_with_vnni_made_of_avx2_equal_the_reference(bits, tmp_path):
    """The code for VNNI runs where no processor has it: the tests above skip there."""
    require("gcc")
    if machine() != "x86_64" or "avx2" not in CPUINFO.read_text().split():
        pytest.skip("this processor has no AVX2")
    built = units() if bits == 512 else units()[::3]
    build(tmp_path, built, "gcc", ("-O2", *EMULATED[bits]), HOST).assert_equals_reference("guarded", 255)


@pytest.mark.all
@pytest.mark.parametrize("flags", [("-march=armv8.2-a+dotprod",), ()], ids=["dotprod", "plain"])
def test_outputs_on_aarch64_equal_the_reference(flags, tmp_path):
    require_aarch64()
    build(tmp_path, units(), "aarch64-linux-gnu-gcc", ("-O2", *flags), AARCH64).assert_equals_reference()


@pytest.mark.all
@pytest.mark.parametrize("word", X86)
def test_other_cases_with_vnni_equal_the_reference_where_the_processor_has_it(word, tmp_path):
    assert_right_with(word, "gcc", units(OTHERS), tmp_path)


@pytest.mark.all
def test_other_cases_on_aarch64_equal_the_reference(tmp_path):
    require_aarch64()
    flags = ("-O2", "-march=armv8.2-a+dotprod")
    build(tmp_path, units(OTHERS), "aarch64-linux-gnu-gcc", flags, AARCH64).assert_equals_reference()


@pytest.mark.all
def test_nothing_is_read_beside_the_buffers_and_no_behaviour_is_undefined(tmp_path):
    assert_sanitized(tmp_path, units())


def with_any(name: str, value: object) -> bool:
    return any(names_of(call.context)[name] == value for each in units() for call in each.artifact.plan.calls)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("block", 1), ("block", 8), ("has_overlap", True), ("is_split", True), ("is_flat", True)),
        *(("rest", 0), ("rest", 1), ("guarded", 1), ("guarded", 20), ("reads_channel", False), ("is_corrected", True)),
    ],
)
def test_some_case_is_so(name, value):
    assert with_any(name, value)
