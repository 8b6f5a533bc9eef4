"""arm_dsp/depthwise: one filter per channel, on planes of 16-bit elements that hold one channel each."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.arm_dsp.cost import depthwise_terms
from qcgen.kernels.arm_dsp.figures import FIGURES
from qcgen.kernels.arm_dsp.output import dsp_output, output_support
from qcgen.kernels.arm_dsp.plane_rows import Group, RowWeights, groups_of, row_weights, row_words_of
from qcgen.kernels.cost import Estimate
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import Packed, pack
from qcgen.kernels.plane import PlaneAxis, plane_axes
from qcgen.kernels.reasons import why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.text import describe, x_kind

QUAD = 4  # channels in a word of the image
MAX_TAPS = 64  # written out one by one
PLANES_BYTES = {"size": 2048, "speed": 4096}  # scratch that a band of rows may take, if more than one row fits


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes with four channels or more."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if g.in_channels < QUAD:
        return f"{g.in_channels} channels do not fill a word"
    height, width = plane_axes(g)
    too_many = why_taps(height.kernel * width.span, MAX_TAPS)
    return too_many or why_wraps(pack(op, setting.features, 0, whole_weights=True))


def _band(height: PlaneAxis, row_words: int, most_bytes: int) -> int:
    """How many rows of outputs are computed from one filling of the planes."""
    rows = most_bytes // (4 * QUAD * row_words)
    return min(height.output, max(1, (rows - height.span) // height.stride + 1))


def _words(packed: Packed, height: PlaneAxis, width: PlaneAxis, row: RowWeights) -> Int64s:
    """(M, words) int32: the weights of a channel as pairs."""
    taps = packed.weights.reshape(-1, height.kernel, width.kernel)
    zero = np.zeros_like(taps[:, :, 0])
    pairs = [[zero if t is None else taps[:, :, t] for t in word] for word in row.words]
    values = [(low & 0xFFFF) | (high & 0xFFFF) << 16 for low, high in pairs]
    stacked = np.stack(values, axis=-1).reshape(packed.weights.shape[0], -1)
    return (stacked + 2**31) % 2**32 - 2**31


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Planes of four channels as scratch; weights [channels][words] or, to save flash, [channels][taps]."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting.features, 0, whole_weights=True)
    height, width = plane_axes(g)
    row, groups = row_weights(width), groups_of(width)
    row_words = row_words_of(groups)
    band = _band(height, row_words, PLANES_BYTES[setting.optimize])
    plane_words = ((band - 1) * height.stride + height.span) * row_words
    context = {
        "g": g,
        "description": describe(op),
        "x_type": op.x.dtype.c,
        "x_kind": x_kind(op),
        "y_type": op.y.dtype.c,
        "height": height,
        "width": width,
        "is_packed": setting.optimize == "speed",
        "weight_type": packed.weights_type,
        "groups": groups,
        "row_words": row_words,
        "plane_words": plane_words,
        "rows_left": height.stride * row_words - sum(group.step * group.count for group in groups),
        "band": band,
        "x_image": g.in_channels * prod(g.input),
        "y_image": g.out_channels * prod(g.output),
        "uses_string": True,
        **_taps_context(height, width, row, row_words),
        **_planes_context(g, width, packed, row_words),
        **_output_context(op, packed),
    }
    start = Constants("start", "int32_t", packed.start, "where each accumulator starts.")
    weights = _weights(g, packed, _words(packed, height, width, row) if setting.optimize == "speed" else None)
    scratch = Scratch(4 * QUAD * plane_words, 4)
    constants = (weights, start, *output_constants(packed))
    return Prepared(constants, context, (scratch,), _support(op, packed, groups), packed.certificate)


def _taps_context(height: PlaneAxis, width: PlaneAxis, row: RowWeights, row_words: int) -> dict[str, object]:
    """The names for the rows of a window: where each lies in a plane, and where its weights are."""
    rows = range(height.kernel)
    return {
        "taps": height.kernel * width.kernel,
        "row_weights": row.words,
        "kernel_rows": rows,
        "kernel_words": height.kernel * len(row.words),
        "tap_rows": tuple(r * height.dilation * row_words for r in rows),
        "tap_weights": tuple(r * width.kernel for r in rows),
        "word_weights": tuple(r * len(row.words) for r in rows),
    }


def _planes_context(g: ConvGeometry, width: PlaneAxis, packed: Packed, row_words: int) -> dict[str, object]:
    """The names for filling the planes: the words of a row that lie wholly on the image, and what lies outside."""
    first = min(-(-width.pad // 2), row_words)
    beyond = max(min((width.input + width.pad) // 2, row_words), first)
    return {
        "has_odd_channels": g.in_channels % QUAD != 0,
        "first_whole": first,
        "beyond_whole": beyond,
        "has_whole": beyond > first,
        "whole_twos": (beyond - first) // 2 * 2,
        "is_whole_odd": (beyond - first) % 2 == 1,
        "outside": _four(packed.padding),
    }


def _output_context(op: Conv, packed: Packed) -> dict[str, object]:
    """The names for the output step, and which of its numbers stay in registers for a channel's whole plane."""
    dsp, output = dsp_output(op, packed), packed.epilogue.output
    keeps_own = dsp.is_fast and output.multiplier is None
    shared_offset = output.offset if keeps_own and not dsp.has_windows else None
    if shared_offset is not None:
        output = replace(output, offset=None)
    return {
        "output": output,
        "dsp": dsp,
        "keeps_own": keeps_own,
        "keeps_offset": keeps_own and output.offset is None,
        "shared_offset": shared_offset,
    }


def _weights(g: ConvGeometry, packed: Packed, words: Int64s | None) -> Constants:
    """The table of weights: as words of pairs or, without them, as they are."""
    if words is not None:
        return Constants("weights", "int32_t", words, f"weights [{g.out_channels} channels], two taps in a word.")
    meaning = f"weights [{g.out_channels} channels][{prod(g.kernel)} taps]{packed.weights_remark}."
    return Constants("weights", packed.weights_type, packed.weights, meaning)


def _support(op: Conv, packed: Packed, groups: tuple[Group, ...]) -> tuple[str, ...]:
    """The C functions that the text calls."""
    parts = [part for group in groups for part in group.parts]
    products = {f"dsp_{product.by}" for part in parts for word in part.words for product in word.products}
    loads = {"dsp_two_at" for part in parts for two in part.twos if len(two) == 2}
    parting = {"dsp_load_word", f"dsp_even_{x_kind(op)}", f"dsp_odd_{x_kind(op)}", "dsp_pair", "dsp_pair_high"}
    return ("dsp", *sorted(products | loads | parting), *output_support(op, packed))


def _four(padding: int) -> int:
    """A word of four elements that are padding, as int32."""
    word = (padding & 0xFF) * 0x01010101
    return word - 2**32 if word >= 2**31 else word


DEPTHWISE_COST = Estimate(prepare, depthwise_terms, FIGURES["arm_dsp/depthwise"])
DEPTHWISE = Kernel(
    "arm_dsp/depthwise", "kernels/arm_dsp/depthwise.c.jinja", frozenset({"dsp"}), why_not, prepare, DEPTHWISE_COST
)
