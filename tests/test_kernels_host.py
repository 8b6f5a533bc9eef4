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

import qcgen.verification.sums
from qcgen.ir.context import names_of
from qcgen.verification.nodes import Nodes
from qcgen.verification.running import Builder
from qcgen.verification.sums import measure

CPUINFO = Path("/proc/cpuinfo")
X86 = {
    "avx512_vnni": ("-mavx512f", "-mavx512vnni"),
    "avx_vnni": ("-mavx2", "-mavxvnni"),
}
"""Flags of compilers by the word for them in /proc/cpuinfo."""

INSTRUCTIONS = STREAMS / "instructions"
"""Headers with these instructions in plain C, and SDOT of AArch64, so that code for them runs on any machine."""

CHOSEN = {
    "avx512_vnni": ("__AVX512F__", "__AVX512VNNI__"),
    "avx_vnni": ("__AVX2__", "__AVXVNNI__"),
    "sdot": ("__aarch64__", "__ARM_FEATURE_DOTPROD"),
}
"""What generated code asks for, by the instruction that it chooses then."""

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


@pytest.mark.all
def test_outputs_without_such_an_instruction_equal_the_reference(tmp_path, level):
    require("gcc")
    build(tmp_path, units(), "gcc", (level,), HOST).assert_equals_reference("guarded", 255)


def in_plain_c(word: str, level: str) -> tuple[str, ...]:
    """Flags under which code is compiled for an instruction, which is a function in plain C."""
    return (level, "-isystem", str(INSTRUCTIONS), *(f"-D{name}=1" for name in CHOSEN[word]))


@pytest.mark.parametrize("word", CHOSEN)
def test_code_for_an_instruction_equals_the_reference_with_the_instruction_in_plain_c(
    word, tmp_path, level, everything
):
    require("gcc")
    chosen = units() if everything else units()[list(CHOSEN).index(word) :: 3]
    build(tmp_path, chosen, "gcc", in_plain_c(word, level), HOST).assert_equals_reference("guarded", 255)


def wrong_sum(word: str, each: Unit, folder: Path) -> object:
    """The first sum that is wrong where the unit is compiled for an instruction: outputs show few of them."""
    nodes = Nodes(each.artifact, Builder(in_plain_c(word, "-O0")), folder / each.name, shows_words=True)
    return measure(nodes, nodes, 0).wrong


@pytest.mark.parametrize("word", CHOSEN)
def test_sums_of_code_for_an_instruction_are_right_in_every_bit(word, tmp_path, everything, monkeypatch):
    require("gcc")
    monkeypatch.setattr(qcgen.verification.sums, "MOST_WORK", 2**22)
    step = 4 if everything else 24
    for each in units()[list(CHOSEN).index(word) :: step]:
        assert wrong_sum(word, each, tmp_path) is None


ONE_TOO_LOW = {
    "avx512_vnni": ("s.lanes = _mm512_loadu_si512(from);", " s.lanes.lanes[0]--;"),
    "avx_vnni": ("s.low = _mm256_loadu_si256((const __m256i *)(const void *)from);", " s.low.lanes[0]--;"),
    "sdot": ("s.a = vld1q_s32(from);", " s.a.lanes[0]--;"),
}


@pytest.mark.parametrize("word", CHOSEN)
def test_sums_that_start_one_too_low_are_found(word, mutate, tmp_path):
    require("gcc")
    line, more = ONE_TOO_LOW[word]
    mutate("library/dot.h", line, line + more)
    wrong = wrong_sum(word, unit.__wrapped__(OWN[0], "nhwc", "speed", "host"), tmp_path)
    assert wrong.got - wrong.expected == -1


@pytest.mark.all
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("word", X86)
def test_outputs_with_vnni_equal_the_reference_where_the_processor_has_it(word, compiler, tmp_path):
    assert_right_with(word, compiler, units(), tmp_path)


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
    contexts = (names_of(call.context) for each in units() for call in each.artifact.plan.calls)
    return any(value == {**names, **names["sums"].numbers}[name] for names in contexts)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("block", 1), ("block", 8), ("batch", 3), ("is_flat", True), ("y_bytes", 4), ("is_corrected", True)),
        *(
            ("channels", 16),
            ("channels", 17),
            ("pixels", 8),
            ("pixels", 9),
            ("guarded_count", 1),
            ("guarded_count", 20),
        ),
    ],
)
def test_some_case_is_so(name, value):
    assert with_any(name, value)
