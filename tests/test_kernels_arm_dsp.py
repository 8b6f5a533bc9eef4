"""The kernels for Arm's DSP extension, built for the host, where each instruction has its portable meaning."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from batch import Image, Unit, build, difference, require
from cases import CASES, S8, U8, U8S8, Case, integer, quantized

from qcgen.compiler import compile_graph
from qcgen.ir.plan import Options
from qcgen.kernels.arm_dsp.weights import Segment

AIMS = ("size", "speed")


def full(shape, value):
    """Weights that are all the same."""
    return np.full(shape, value, np.int8)


def edge(shape, seed):
    """Weights at the ends of int8 only, -128 among them."""
    return np.random.default_rng(seed).choice(np.int8([-128, 127]), shape)


EXTREMES = (
    quantized("dsp_all_minus_128", (1, 9, 6, 6), (6, 9, 3, 3), S8, w=full((6, 9, 3, 3), -128), pads=[1, 1, 1, 1]),
    quantized("dsp_all_minus_128_u8", (1, 9, 6, 6), (6, 9, 3, 3), U8S8, w=full((6, 9, 3, 3), -128)),
    quantized("dsp_all_minus_127", (1, 8, 6, 6), (8, 8, 3, 3), S8, w=full((8, 8, 3, 3), -127), pads=[1, 1, 1, 1]),
    quantized("dsp_all_127_u8", (1, 12, 6, 6), (7, 12, 3, 3), U8S8, w=full((7, 12, 3, 3), 127), pads=[1, 1, 1, 1]),
    quantized("dsp_ends_of_int8", (1, 16, 7, 6), (12, 16, 3, 3), U8S8, w=edge((12, 16, 3, 3), 5), pads=[1, 0, 1, 1]),
    quantized("dsp_ends_pointwise", (1, 33, 3, 3), (9, 33, 1, 1), S8, w=edge((9, 33, 1, 1), 6)),
    quantized("dsp_depthwise_minus_128", (1, 8, 6, 7), (8, 1, 3, 3), S8, w=full((8, 1, 3, 3), -128), group=8),
    quantized("dsp_depthwise_ends", (1, 9, 7, 7), (9, 1, 3, 3), U8S8, w=edge((9, 1, 3, 3), 7), group=9, pads=[1] * 4),
    quantized("dsp_dense_ends", (1, 67, 1, 1), (13, 67, 1, 1), U8S8, w=edge((13, 67, 1, 1), 8)),
    quantized("dsp_sums_beyond_24_bits", (1, 700, 2, 2), (5, 700, 1, 1), S8, w=full((5, 700, 1, 1), 127)),
    quantized("dsp_dense_beyond_24_bits", (1, 700, 1, 1), (6, 700, 1, 1), U8S8, w=full((6, 700, 1, 1), 127)),
)


def even(shape, seed):
    """Weights within -127..127, as quantizers make them: two channels may share a word."""
    return np.random.default_rng(seed).integers(-127, 128, shape, np.int8)


SHAPES = (
    *(
        quantized(f"dsp_even_{c}_in_{m}_out", (1, c, 5, 5), (m, c, 3, 3), S8, w=even((m, c, 3, 3), m), pads=[1] * 4)
        for c, m in ((1, 2), (2, 3), (4, 4), (5, 9), (9, 6), (16, 7), (20, 11))
    ),
    *(
        quantized(f"dsp_even_dense_{c}_in_{m}_out", (1, c, 1, 1), (m, c, 1, 1), U8S8, w=even((m, c, 1, 1), m))
        for c, m in ((1, 8), (2, 10), (3, 15), (40, 12), (61, 31))
    ),
    *(
        quantized(f"dsp_{c}_channels_in_{m}_out", (1, c, 4, 5), (m, c, 3, 3), U8S8, pads=[1, 1, 1, 1])
        for c, m in ((1, 1), (2, 3), (4, 4), (5, 9), (6, 7), (8, 8), (11, 5), (15, 6), (16, 16), (20, 11), (32, 8))
    ),
    *(
        quantized(f"dsp_pointwise_{c}_in_{m}_out", (1, c, 3, 3), (m, c, 1, 1), S8)
        for c, m in ((1, 5), (2, 2), (3, 8), (4, 6), (7, 1), (34, 10), (64, 4))
    ),
    *(
        quantized(f"dsp_dense_{c}_in_{m}_out", (2, c, 1, 1), (m, c, 1, 1), S8)
        for c, m in ((1, 1), (2, 9), (3, 15), (4, 8), (5, 12), (46, 10), (80, 11))
    ),
    *(quantized(f"dsp_line_{k}_taps", (1, 12, 9), (5, 12, k), U8, pads=[k // 2, k // 2]) for k in (2, 5, 8)),
    *(
        quantized(
            f"dsp_depthwise_{k}_by_{k}_stride_{s}",
            (1, 10, 13, 11),
            (10, 1, k, k),
            S8,
            group=10,
            strides=[s, s],
            pads=[k // 2] * 4,
        )
        for k in (1, 2, 3, 4, 5, 7)
        for s in (1, 2, 3)
    ),
    *(
        quantized(f"dsp_depthwise_row_of_{w}", (1, 4, 3, w), (4, 1, 3, 3), U8, group=4, pads=[1, 1, 1, 1])
        for w in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13)
    ),
    quantized("dsp_depthwise_in_bands", (1, 5, 40, 50), (5, 1, 3, 3), U8S8, group=5, pads=[1, 1, 1, 1]),
    quantized("dsp_depthwise_dilated", (1, 8, 11, 12), (8, 1, 3, 3), S8, group=8, pads=[2, 3, 2, 3], dilations=[2, 3]),
    quantized("dsp_dilated_in_tiles", (1, 8, 9, 13), (8, 8, 3, 3), S8, pads=[2, 3, 2, 3], dilations=[2, 3]),
    *(
        quantized(f"dsp_tiles_{h}_by_{w}", (1, 8, h, w), (6, 8, 3, 3), U8S8, pads=[1, 1, 1, 1])
        for h, w in ((2, 4), (3, 5), (2, 7), (8, 9), (1, 8), (5, 3))
    ),
    quantized("dsp_tiles_without_padding", (2, 16, 7, 9), (9, 16, 3, 3), U8),
    quantized("dsp_kernel_10_by_4", (1, 1, 25, 10), (8, 1, 10, 4), S8, pads=[4, 1, 5, 1], strides=[2, 2]),
    quantized("dsp_kernel_7_by_7", (1, 3, 14, 12), (9, 3, 7, 7), U8, pads=[3, 3, 3, 3], strides=[2, 2]),
    quantized("dsp_relu_tighter_than_the_type", (1, 8, 5, 5), (8, 8, 3, 3), U8, y_zero_point=0, pads=[1, 1, 1, 1]),
    integer("dsp_integer", (1, 9, 5, 4), (7, 9, 3, 3), ("int8", "int8"), pads=[1, 1, 1, 1]),
    integer("dsp_integer_dense", (1, 21, 1, 1), (11, 21, 1, 1), ("uint8", "int8")),
)

DSP_CASES = (*CASES, *EXTREMES, *SHAPES)


@cache
def dsp_unit(case: Case, optimize: str) -> Unit:
    """The case compiled for a Cortex-M4, channels last."""
    name = f"{case.name}_{optimize}"
    options = Options(target="cortex-m4", layout="nhwc", optimize=optimize, numerics=case.numerics)
    return Unit(name, case, compile_graph(case.graph, options, name, f"{case.name}.onnx"))


def kernel_of(case: Case, optimize: str) -> str:
    [call] = dsp_unit(case, optimize).artifact.plan.calls
    return call.kernel


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Image:
    """All cases that a DSP kernel serves in one program."""
    require("gcc")
    units = [dsp_unit(case, aim) for case in DSP_CASES for aim in AIMS if kernel_of(case, aim).startswith("arm_dsp")]
    return build(tmp_path_factory.mktemp("dsp"), units, "gcc", ("-O1",))


@pytest.fixture(scope="module")
def outputs(image):
    return image.run()


@pytest.mark.parametrize("case", DSP_CASES, ids=lambda case: case.name)
def test_the_portable_meaning_equals_the_reference(case, outputs):
    units = [dsp_unit(case, aim) for aim in AIMS]
    wrong = [text for each in units if each.name in outputs and (text := difference(each, outputs[each.name]))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kernel", ["conv", "depthwise", "dense", "winograd"])
def test_some_case_uses_the_kernel(kernel):
    assert any(kernel_of(case, aim) == f"arm_dsp/{kernel}" for case in DSP_CASES for aim in AIMS)


@pytest.mark.parametrize("form", ["int16", "shared", "bytes"])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_some_case_has_blocks_of_each_width_in_each_form(form, width):
    if (form, width) in {("shared", 1), ("bytes", 8)}:
        return  # one channel shares its words with none; bytes of eight channels would need 16 registers and more
    assert any(
        segment.form == form and segment.width == width
        for case in DSP_CASES
        for aim in AIMS
        for segment in dsp_unit(case, aim).artifact.plan.calls[0].context.get("segments", ())
        if isinstance(segment, Segment)
    )


@pytest.mark.parametrize("optimize", AIMS)
def test_weights_at_minus_128_do_not_share_words(optimize):
    [case] = [case for case in EXTREMES if case.name == "dsp_all_minus_128"]
    [call] = dsp_unit(case, optimize).artifact.plan.calls
    forms = {s.form for s in call.context["segments"] if isinstance(s, Segment)}
    assert "shared" not in forms


def test_weights_keep_their_size_in_flash_with_optimize_size():
    for case in SHAPES:
        unit = dsp_unit(case, "size")
        [call] = unit.artifact.plan.calls
        if not call.kernel.startswith("arm_dsp"):
            continue
        [table] = [table for table in call.tables if table.role in ("weights", "constants")]
        g = unit.op.geometry
        others = 4 * 4 if table.role == "constants" else 0  # start, multiplier, offset, channel
        lone = g.taps if g.taps < 4 else -g.taps % 4  # elements that fill half a pair, or half a word
        assert table.bytes <= g.out_channels * (g.taps + lone + 4 + others), case.name
