"""The kernels for Arm's DSP extension, built for the host, where each instruction has its portable meaning."""

from __future__ import annotations

import re
from functools import cache
from unittest import mock

import pytest
from batch import Image, Unit, assert_right, assert_sanitized, build, require, unit
from cases import CASES, S8, Case, quantized
from cases_arm_dsp import DEPTHWISE, DEPTHWISE_PLANES, DIRECT, EXTREMES, OF_4_BITS, PLANES, SHAPES
from marks import share_at_first

from qcgen.ir.context import Context, names_of
from qcgen.ir.plan import Call
from qcgen.kernels import ARM_DSP
from qcgen.kernels.arm_dsp.depthwise import PLANES_BYTES
from qcgen.kernels.arm_dsp.depthwise_direct import MAX_OUTPUTS, OUTPUTS
from qcgen.kernels.arm_dsp.segment import Segment
from qcgen.kernels.windows import beyond_taps, first_taps, plane_axes

AIMS = ("size", "speed")


DSP_CASES = (*CASES, *EXTREMES, *SHAPES, *OF_4_BITS, *DEPTHWISE, *DEPTHWISE_PLANES, *DIRECT, *PLANES)


def dsp_unit(case: Case, optimize: str, core: str = "cortex-m4") -> Unit:
    """The case compiled for a core, channels last but for PLANES."""
    return unit(case, "nchw" if case in PLANES else "nhwc", optimize, core)


def dsp_units(case: Case) -> list[Unit]:
    """The case in all ways: for speed also with longer loops and with constants copied, where a kernel has such."""
    speed = dsp_unit(case, "speed")
    others = [dsp_unit(case, "speed", "cortex-m33"), copying_unit(case)]
    return [dsp_unit(case, "size"), speed, *(each for each in others if text_of(each) != text_of(speed))]


@cache
def copying_unit(case: Case) -> Unit:
    """The case with a copy of its constants, if the kernel can make one."""
    with mock.patch("qcgen.plan.storage.FEWEST_PASSES", 1):
        return unit.__wrapped__(case, "nchw" if case in PLANES else "nhwc", "speed", "cortex-m4", 2**20)


def text_of(each: Unit) -> str:
    """What the context shows, arrays shortened."""
    return repr(context_of(each))


def context_of(each: Unit) -> Context:
    [call] = each.artifact.plan.calls
    return call.context


def kernel_of(case: Case, optimize: str) -> str:
    [call] = dsp_unit(case, optimize).artifact.plan.calls
    return call.kernel


@pytest.fixture(scope="module")
def image(tmp_path_factory, level, selected) -> Image:
    """All cases that a DSP kernel serves in one program."""
    require("gcc")
    units = [each for case in selected(DSP_CASES) for each in dsp_units(case)]
    units = [each for each in units if each.artifact.plan.calls[0].kernel.startswith("arm_dsp")]
    return build(tmp_path_factory.mktemp("dsp"), units, "gcc", (level,))


@pytest.mark.parametrize("case", share_at_first(DSP_CASES, 12), ids=lambda case: case.name)
def test_the_portable_meaning_equals_the_reference(case, outputs):
    assert_right([each for each in dsp_units(case) if each.name in outputs], outputs)


@pytest.mark.parametrize("fill", [0, 255])
def test_buffers_at_odd_addresses_are_enough_and_nothing_beside_them_is_written(image, fill):
    image.assert_equals_reference("guarded", fill)


@pytest.mark.all
def test_nothing_is_read_beside_the_buffers_and_no_behaviour_is_undefined(tmp_path):
    # Dense and pointwise kernels read their input word by word, the others find their windows in it.
    units = [
        each
        for case in (*EXTREMES, *SHAPES, *OF_4_BITS, *DEPTHWISE, *DEPTHWISE_PLANES, *DIRECT, *PLANES)
        for each in dsp_units(case)
    ]
    units = [each for each in units if each.artifact.plan.calls[0].kernel.startswith("arm_dsp")]
    assert_sanitized(tmp_path, units)


NEAR_TIE = re.compile(
    r" (\d+)\);\n\n    out\[0\] = .*>> (\d+)\)[^;]*;\n    return \w+_within_step\(scaled, (\d+), (\d+)\);"
)


def test_the_bits_that_tell_a_tie_from_the_rest_begin_where_the_widest_window_ends():
    """The mask was proved together with the guard: in the C it has all bits below the shift from 2 * guard on."""
    cases = [case for case in CASES if case.name.startswith("ties")]
    texts = [each.artifact.files[f"{each.name}.c"] for case in cases for each in [dsp_unit(case, "size")]]
    found = [tuple(map(int, numbers)) for text in texts for numbers in NEAR_TIE.findall(text)]
    assert found
    assert all([guard, shift] == added_to for *added_to, shift, guard in found)
    assert all(
        "(scaled & ((INT32_C(1) << shift) - 2 * guard)) == 0" in text for text in texts if "_is_near_tie" in text
    )


KERNELS = ("conv", "depthwise", "depthwise_direct", "depthwise_rows", "dense", "pointwise", "short_window", "winograd")


def test_every_case_has_a_name_of_its_own():
    assert len({case.name for case in DSP_CASES}) == len(DSP_CASES)


@pytest.mark.all
@pytest.mark.parametrize("kernel", KERNELS)
def test_some_case_uses_the_kernel(kernel):
    assert any(kernel_of(case, aim) == f"arm_dsp/{kernel}" for case in DSP_CASES for aim in AIMS)


@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize("case", PLANES, ids=lambda case: case.name)
def test_channels_first_need_no_portable_kernel(case, aim):
    assert kernel_of(case, aim) in ("arm_dsp/conv", "arm_dsp/dense")


def test_many_channels_first_are_left_to_the_portable_kernels():
    case = quantized("dsp_planes_of_40_channels", (1, 40, 5, 5), (4, 40, 3, 3), S8, pads=[1, 1, 1, 1])
    [call] = unit(case, "nchw", "size", "cortex-m4").artifact.plan.calls
    [reason] = [each.reason for each in call.rejected if each.kernel == "arm_dsp/conv"]
    assert reason.startswith("words of four leave 360 elements of a window over")


@pytest.mark.all
@pytest.mark.parametrize("form", ["int16", "shared", "bytes"])
@pytest.mark.parametrize("width", [1, 2, 4, 6])
def test_some_case_has_blocks_of_each_width_in_each_form(form, width):
    if (form, width) in {("shared", 1), ("bytes", 6), ("int16", 6)}:
        return  # one channel shares its words with none; bytes and int16 of six channels need too many registers
    assert any(
        segment.form == form and segment.width == width
        for case in DSP_CASES
        for aim in AIMS
        for segment in names_of(dsp_unit(case, aim).artifact.plan.calls[0].context).get("segments", ())
        if isinstance(segment, Segment)
    )


@pytest.mark.all
@pytest.mark.parametrize("form", ["shared", "bytes"])
@pytest.mark.parametrize("apart", [True, False])
def test_what_dense_channels_share_is_found_in_a_narrow_block_by_some_case_and_apart_by_some(form, apart):
    dense = [dsp_unit(case, "speed").artifact.plan.calls[0] for case in SHAPES if "dense" in case.name]
    names = [names_of(call.context) for call in dense if call.kernel == "arm_dsp/dense"]
    assert any(bool(each["products"]) == apart and each["segments"][0].form == form for each in names)


def depthwise_contexts() -> list[dict[str, object]]:
    calls = [call for case in DSP_CASES for aim in AIMS for call in dsp_unit(case, aim).artifact.plan.calls]
    return [names_of(call.context) for call in calls if call.kernel == "arm_dsp/depthwise"]


@pytest.mark.all
@pytest.mark.parametrize("has_windows", [False, True])
@pytest.mark.parametrize("is_looped", [False, True])
def test_some_case_sums_rows_in_loops_and_some_without(is_looped, has_windows):
    def rounds(numbers):
        return numbers["out_columns"] // numbers["together"] // numbers["parts"]

    assert any(
        (rounds(names["planes"].numbers) > 1) == is_looped and names["dsp"].has_windows == has_windows
        for names in depthwise_contexts()
    )


def direct_calls() -> list[Call]:
    calls = [call for case in DSP_CASES for aim in AIMS for call in dsp_unit(case, aim).artifact.plan.calls]
    return [call for call in calls if call.kernel in ("arm_dsp/depthwise_direct", "arm_dsp/depthwise_rows")]


@pytest.mark.all
def test_depthwise_kernels_take_no_scratch_with_optimize_size():
    calls = [call for case in DSP_CASES for call in dsp_unit(case, "size").artifact.plan.calls]
    depthwise = [call for call in calls if call.kernel.startswith("arm_dsp/depthwise")]
    assert depthwise
    assert all(not call.scratch_bytes for call in depthwise)


@pytest.mark.all
@pytest.mark.parametrize(
    ("outputs", "has_windows"), [("1", False), ("1", True), ("2", False), ("2", True), ("alone", False)]
)
def test_some_case_sums_columns_in_each_way(outputs, has_windows):
    assert any(
        names_of(call.context)["outputs"] == f"dsp_depthwise_outputs_{outputs}"
        and names_of(call.context)["dsp"].has_windows == has_windows
        for call in direct_calls()
        if call.kernel == "arm_dsp/depthwise_direct"
    )


def is_cut_by_the_image(call: Call) -> bool:
    """Whether a window has a row above the image or below it."""
    height, _ = plane_axes(call.op.geometry)
    return max(first_taps(height)) > 0 or min(beyond_taps(height)) < height.kernel


def inner_groups(call: Call) -> int:
    """How often as many outputs as are summed together have windows between the image's columns."""
    _, width = plane_axes(call.op.geometry)
    together = width.output if width.output <= MAX_OUTPUTS else OUTPUTS
    begins = [o * width.stride - width.pad for o in range(width.output)]
    inside = [0 <= begin <= width.input - width.span for begin in begins]
    return sum(all(inside[i : i + together]) for i in range(0, width.output - together + 1, together))


@pytest.mark.all
@pytest.mark.parametrize("has_windows", [False, True])
@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("is_looped", [False, True])
def test_some_case_sums_rows_of_the_kernel_in_each_way(is_looped, is_cut, has_windows):
    assert any(
        is_cut_by_the_image(call) == is_cut
        and (inner_groups(call) > 1) == is_looped
        and names_of(call.context)["dsp"].has_windows == has_windows
        for call in direct_calls()
        if call.kernel == "arm_dsp/depthwise_rows"
    )


def test_one_output_pixel_is_read_where_it_lies():
    for taps, size, kernel in ((5, 5, "rows"), (5, 6, ""), (3, 3, "rows"), (3, 4, "direct")):
        case = quantized(f"dsp_{taps}_of_{size}", (1, 8, size, size), (8, 1, taps, taps), S8, group=8)
        [call] = unit(case, "nhwc", "speed", "cortex-m4").artifact.plan.calls
        assert call.kernel == f"arm_dsp/depthwise_{kernel}".rstrip("_")


def test_short_windows_of_one_pixel_are_not_left_to_pointwise():
    names = [kernel.name for kernel in ARM_DSP]
    assert names.index("arm_dsp/short_window") < names.index("arm_dsp/pointwise")


def test_a_kernel_of_many_weights_leaves_its_rows_to_a_loop():
    [case] = [case for case in DIRECT if case.name == "dsp_direct_5_by_5_strided"]
    [call] = dsp_unit(case, "size").artifact.plan.calls
    reasons = {each.kernel: each.reason for each in call.rejected}
    assert call.kernel == "arm_dsp/depthwise_rows"
    assert reasons["arm_dsp/depthwise"] == "its planes take scratch, which --optimize speed allows"
    assert reasons["arm_dsp/depthwise_direct"] == "its kernel is 5x5, more than 5 rows or 3 columns"


@pytest.mark.all
def test_planes_of_a_channel_stay_within_their_memory_if_more_than_one_row_fits():
    for names in depthwise_contexts():
        assert 16 * names["planes"].numbers["plane_words"] <= PLANES_BYTES or names["band"] == 1


@pytest.mark.all
@pytest.mark.parametrize("has_loop", [True, False])
def test_some_case_writes_several_blocks_out_in_each_way(has_loop):
    found = [
        segment
        for case in DSP_CASES
        for segment in names_of(context_of(dsp_unit(case, "speed", "cortex-m33"))).get("segments", ())
        if isinstance(segment, Segment)
    ]
    rounds = [(divmod(segment.size // segment.width, segment.together), segment.together) for segment in found]
    assert all(rest == 0 for (_, rest), _ in rounds)
    assert any((count > 1) == has_loop and together > 1 for (count, _), together in rounds)


@pytest.mark.all
@pytest.mark.parametrize("kernel", ["conv", "short_window"])
@pytest.mark.parametrize("is_split", [True, False])
def test_some_case_copies_its_constants(kernel, is_split):
    calls = [call for case in DSP_CASES for call in copying_unit(case).artifact.plan.calls]
    found = [names_of(call.context) for call in calls if call.kernel == f"arm_dsp/{kernel}"]
    assert all(names["copied_words"] > 0 for names in found)
    assert any(names["is_split"] == is_split for names in found)


@pytest.mark.all
@pytest.mark.parametrize("form", ["shared", "int16"])
@pytest.mark.parametrize("has_rest", [True, False])
def test_some_case_loads_words_one_by_one_in_a_loop(form, has_rest):
    assert any(
        segment.loads_in_row and segment.form == form and segment.steps.count > 1
        for case in DSP_CASES
        for segment in names_of(context_of(dsp_unit(case, "speed"))).get("segments", ())
        if isinstance(segment, Segment) and (segment.steps.rest > 0) == has_rest
    )


def test_sums_are_scaled_up_where_that_keeps_lines_away_from_ties():
    [case] = [case for case in SHAPES if case.name == "dsp_ties_in_some_blocks"]
    dsp = {aim: names_of(dsp_unit(case, aim).artifact.plan.calls[0].context) for aim in AIMS}
    rate = {aim: 2 * names["dsp"].guard / 2 ** names["output"].shift for aim, names in dsp.items()}
    assert 0 < 4 * rate["speed"] <= rate["size"]


def test_only_channels_that_have_a_guard_band_in_some_block_are_tested():
    [case] = [case for case in SHAPES if case.name == "dsp_even_9_in_6_out"]
    [call] = dsp_unit(case, "speed").artifact.plan.calls
    [windows] = [table.values for table in call.tables if table.role == "guard_band"]
    assert [m for m, window in enumerate(windows) if window] == [0, 5]
    assert [(s.first, s.tested) for s in names_of(call.context)["segments"]] == [(0, 0b1), (4, 0b10)]


def test_windows_of_more_elements_than_registers_hold_are_left_to_the_general_kernel():
    case = quantized("dsp_pointwise_of_9_channels", (1, 9, 4, 4), (8, 9, 1, 1), S8)
    [call] = unit(case, "nhwc", "speed", "cortex-m4").artifact.plan.calls
    [reason] = [each.reason for each in call.rejected if each.kernel == "arm_dsp/short_window"]
    assert reason == "a window has 9 elements, more than the 8 that stay in registers"


@pytest.mark.parametrize("optimize", AIMS)
def test_weights_at_minus_128_do_not_share_words(optimize):
    [case] = [case for case in EXTREMES if case.name == "dsp_all_minus_128"]
    [call] = dsp_unit(case, optimize).artifact.plan.calls
    forms = {s.form for s in names_of(call.context)["segments"] if isinstance(s, Segment)}
    assert "shared" not in forms


def nibbles_of(name: str) -> bool:
    [case] = [case for case in OF_4_BITS if case.name == f"dsp_nibbles_{name}"]
    [call] = dsp_unit(case, "size").artifact.plan.calls
    return any(s.form == "nibbles" for s in names_of(call.context)["segments"] if isinstance(s, Segment))


@pytest.mark.all
def test_weights_of_4_bits_are_packed_where_zero_is_among_16_numbers_and_sums_fit():
    others = {"sums_of_21_bits"}
    names = {case.name.removeprefix("dsp_nibbles_") for case in OF_4_BITS}
    assert {name for name in names if not nibbles_of(name)} == others


def test_weights_of_4_bits_are_half_as_large_with_optimize_size():
    [case] = [case for case in OF_4_BITS if case.name == "dsp_nibbles_dense_40_in_16_out"]
    size, speed = (dsp_unit(case, aim).artifact.plan.calls[0].tables[0].bytes for aim in AIMS)
    assert speed - size >= 16 * 40 // 2 - 4  # a block more, which names its first channel


@pytest.mark.all
def test_weights_keep_their_size_in_flash_with_optimize_size():
    for case in (*SHAPES, *DEPTHWISE):
        each = dsp_unit(case, "size")
        [call] = each.artifact.plan.calls
        if not call.kernel.startswith("arm_dsp"):
            continue
        [table] = [table for table in call.tables if table.role in ("weights", "constants")]
        g = each.op.geometry
        others = 4 * 4 if table.role == "constants" else 0  # start, multiplier, offset, channel
        remainder = g.taps if g.taps < 4 else -g.taps % 4  # elements that fill half a pair, or half a word
        assert table.bytes <= g.out_channels * (g.taps + remainder + 4 + others), case.name
