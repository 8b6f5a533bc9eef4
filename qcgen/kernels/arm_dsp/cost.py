"""What the DSP kernels do, counted: straight code instruction by instruction, the rest by kinds of work."""

from __future__ import annotations

from math import ceil, prod
from typing import Any

import numpy as np

from qcgen.ir.program import Conv, Operator
from qcgen.kernels.cost import Names, Terms, count_kinds, count_pair_lines, near_ties, new_terms
from qcgen.kernels.kernel import Prepared

WINDOW_KINDS = (
    *("found window", "border window apart", "gathered row apart", "gathered byte apart"),
    *("run of one window", "word of one window", "lone pair"),
    *("inside window", "inside run", "border window", "border run", "gathered window", "gathered row", "gathered byte"),
    *("widened run", "widened word", "widened round"),
)
"""What may be done to find and widen windows: some layers do some of it, and each kind has a figure."""
REGISTERS = 10  # for words of weights and sums, besides two words of the image and pointers


def conv_terms(op: Operator, prepared: Prepared) -> Terms:
    """arm_dsp/conv: windows found, widened, multiplied block by block."""
    assert isinstance(op, Conv)
    names: Names = prepared.context
    terms = new_terms()
    terms.update(dict.fromkeys(WINDOW_KINDS, 0.0))
    pairs = op.geometry.batch * ceil(prod(op.geometry.output) / 2)
    terms["two windows"] = pairs
    _find_windows(terms, op, names)
    _widen(terms, pairs, names)
    for segment in names["segments"]:
        blocks = pairs * segment.size // segment.width
        terms["segment"] += pairs
        loads = 2 if segment.form == "bytes" else 1
        step = loads + 2 * segment.loads_in_row + weight_instructions(segment.form, segment.width, 2)
        terms["multiply"] += blocks * segment.steps.total * step
        terms["round"] += blocks * segment.steps.count * (segment.steps.count > 1)
        place = "apart" if segment.is_apart else "in place"
        terms[f"block {place}"] += blocks
        terms[f"sum {place}"] += blocks * 2 * segment.width
        _count_block_outputs(terms, prepared, segment, blocks, 2)
    return terms


def weight_instructions(form: str, width: int, lanes: int) -> int:
    """Loads and unpacking of a step's weights for ``width`` channels, and the products for ``lanes`` windows.

    >>> weight_instructions("int16", 4, 2), weight_instructions("shared", 4, 2), weight_instructions("bytes", 2, 2)
    (10, 11, 13)
    """
    match form:
        case "int16":
            return ceil(width / 2) + lanes * width
        case "shared":
            words = width // 2
            return ceil(words / 2) + words * (1 + 2 * lanes)
        case _:
            return ceil(width / 2) + width * (2 + 2 * lanes)


def _find_windows(terms: Terms, op: Conv, names: Names) -> None:
    if not names["is_walked"]:
        return
    window = names["window"]
    inside = op.geometry.batch * prod(max(0, axis.inside_end - axis.inside_begin) for axis in names["axes"])
    border = op.geometry.batch * prod(op.geometry.output) - inside
    if names["is_regular"]:
        terms["found window"] += inside
        terms["border window apart"] += border
        terms["gathered row apart"] += border * window.runs
        terms["gathered byte apart"] += border * window.runs * window.run
        return
    terms["inside window"] += inside
    terms["inside run"] += inside * window.runs
    if window.is_gathered:
        terms["gathered window"] += border
        terms["gathered row"] += border * window.runs
        terms["gathered byte"] += border * window.runs * window.run
    else:
        terms["border window"] += border
        terms["border run"] += border * window.runs


def _widen(terms: Terms, pairs: int, names: Names) -> None:
    window = names["window"]
    runs = pairs * window.runs
    if names["is_regular"]:
        terms["run of one window"] += 2 * runs
        terms["word of one window"] += 2 * runs * window.words.total
        terms["lone pair"] += pairs * len(window.lone)
        return
    if window.words.total:
        terms["widened run"] += runs
        terms["widened word"] += runs * window.words.total
        terms["widened round"] += runs * window.words.count * (window.words.count > 1)
    terms["lone pair"] += pairs * len(window.lone)


def short_window_terms(op: Operator, prepared: Prepared) -> Terms:
    """arm_dsp/short_window: windows widened to registers, then channel by channel."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms = new_terms()
    twos = g.batch * ceil(prod(g.output) / 2)
    terms["call"] = 1
    terms["two windows"] = twos
    terms["two windows apart"] = twos * names["is_apart"]
    terms["division"] = 2 * twos * names["is_walked"] * (len(names["axes"]) - 1)
    terms["window found"] = 2 * twos * names["is_walked"]
    terms["widened word"] = 2 * twos * len(names["words"])
    terms["lone pair"] = 2 * twos * len(names["lone"])
    terms["multiply"] = twos * g.out_channels * (len(names["loads"]) + 2 * len(names["pairs"]))
    terms["unpacked pair"] = twos * g.out_channels * len(names["pairs"]) * names["is_unpacked"]
    terms["round"] = twos * names["channel_walk"].count * (names["channel_walk"].count > 1)
    count_outputs(terms, prepared, 2 * twos * g.out_channels, 0.0, 2)
    return terms


def _count_block_outputs(terms: Terms, prepared: Prepared, s: Any, blocks: float, lanes: int) -> None:
    """The output steps of blocks of a segment: some blocks may hold a channel with a tie window."""
    names: Names = prepared.context
    width, tail = s.width, s.tail
    share, tested = 0.0, width
    if names["dsp"].has_windows:
        channel = tail.channel[s.first : s.beyond].reshape(-1, width)
        share = float((channel.max(axis=1) >= 0).mean())
        tested = len(s.tested) if names["dsp"].near else width
    terms["own multipliers"] += blocks * width * tail.has_multipliers
    terms["own offsets"] += blocks * width * tail.has_offsets
    terms["window test"] += blocks * tail.has_channel
    outputs = blocks * lanes * width
    terms["upper sum"] += outputs / 2 * (s.form == "shared")
    count_outputs(terms, prepared, outputs, share * tested / width, lanes * tested, again=width / max(tested, 1))


def count_outputs(
    terms: Terms, prepared: Prepared, outputs: float, share: float, together: int, again: float = 1
) -> None:
    """Outputs by the way in which their codes are found, ``share`` of them tested for being near a tie.

    So many ``together`` are tested; if one is near, they are found once more, and others too: ``again`` for each.
    """
    names: Names = prepared.context
    dsp, output = names["dsp"], names["output"]
    for kind in ("raw", "wide", "narrow", "emulated"):
        terms[f"{kind} output"] += outputs * (output.kind == kind)
    fast = outputs * dsp.is_fast
    near = 2 * dsp.near / 2.0**output.shift
    terms["output"] += fast * (1 - share)
    terms["output near a tie"] += fast * share * bool(dsp.near)
    terms["repeated output"] += fast * share * again * (1 - (1 - near) ** together)
    terms["always exact output"] += fast * share * (not dsp.near)
    terms["clamp"] += outputs * (dsp.clamps_low + dsp.clamps_high) * (output.kind != "raw")
    terms["emulation"] += outputs * (1.0 if output.kind == "emulated" else near_ties(prepared))


def dense_terms(op: Operator, prepared: Prepared) -> Terms:
    """arm_dsp/dense and arm_dsp/pointwise: each word of a vector is unpacked for every block."""
    assert isinstance(op, Conv)
    vectors = op.geometry.batch * prod(op.geometry.output)
    names: Names = prepared.context
    terms = new_terms()
    lone = len(names["lone"])
    terms["crossed word"] = vectors * names["words"].total * names["crosses_apart"]
    for segment in names["segments"]:
        blocks = vectors * segment.size // segment.width
        # What the pairs of four elements take: loads of weights, products and unpacking of them.
        quad = ceil(segment.width / 4) + segment.width * (5 / 2 if segment.form == "shared" else 3)
        quad += segment.finds_crossed
        terms["multiply"] += blocks * (names["words"].total * (3 + quad) + bool(lone) * quad)
        terms["round"] += blocks * segment.steps.count * (segment.steps.count > 1)
        terms["lone pair"] += blocks * lone
        terms["segment"] += vectors
        terms["block"] += blocks
        terms["sum"] += blocks * segment.width
        _count_block_outputs(terms, prepared, segment, blocks, 1)
    terms["call"] = 1
    return terms


def depthwise_terms(op: Operator, prepared: Prepared) -> Terms:
    """arm_dsp/depthwise: planes filled band by band, then each channel row by row."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms, height = new_terms(), names["height"]
    quads = g.batch * ceil(g.out_channels / 4)
    bands = [(oy, min(names["band"], height.output - oy)) for oy in range(0, height.output, names["band"])]
    # With a single row the compiler knows all counts and drops the loops over rows.
    alone = " of one row" if height.output == 1 else ""
    whole = names["beyond_whole"] - names["first_whole"]
    for begin, rows in bands:
        first = begin * height.stride - height.pad
        filled = range(first, first + (rows - 1) * height.stride + height.span)
        inside = sum(0 <= y < height.input for y in filled)
        terms["planes" + alone] += quads
        terms["row of planes"] += quads * len(filled)
        terms["parted word"] += quads * inside * whole
        terms["parted border word"] += quads * inside * (names["row_words"] - whole)
        terms["parted outside word"] += quads * (len(filled) - inside) * names["row_words"]
    channels = 4 * quads * len(bands)
    terms["channel" + alone] = channels
    terms["packed weight"] = channels * len(names["words"])
    share = windowed_channels(prepared)
    rows = 4 * quads * height.output
    _count_walk(terms, prepared, rows * (1 - share), 0.0)
    _count_walk(terms, prepared, rows * share, 1.0)
    return terms


def _count_walk(terms: Terms, prepared: Prepared, times: float, near: float) -> None:
    """A row of outputs, ``times`` times; ``near`` is the share of channels that have a tie window."""
    names: Names = prepared.context
    words = len(names["words"])
    terms["row"] += times
    for group in names["walk"].groups:
        for part in group.parts:
            often, outputs = times * group.count, len(part.sums)
            terms["multiply"] += often * (part.products + len(part.loads))
            terms["weight not in a register"] += often * max(0, words + outputs - REGISTERS)
            terms["part"] += often
            terms["sum beyond four"] += often * max(0, outputs - 4)
            terms["own multipliers"] += often * (names["output"].multiplier is None)
            count_outputs(terms, prepared, often * outputs, near, outputs)
        terms["round"] += times * group.count * (group.count > 1)


def windowed_channels(prepared: Prepared) -> float:
    """The share of channels that have a tie window, for kernels that compute one channel after the other."""
    for table in prepared.constants:
        if table.role == "has_window":
            return float(np.mean(table.values))
    return 0.0


def binary_terms(_op: Operator, prepared: Prepared) -> Terms:
    """arm_dsp/quantized_binary: elements one by one, four in a round."""
    names: Names = prepared.context
    terms = new_terms()
    elements = 4 * names["fours"] + len(names["rest"])
    terms["call"] = 1
    terms["round"] = names["fours"]
    terms["element"] = elements
    count_pair_lines(terms, names, elements)
    terms["saturation"] = elements * bool(names["saturate"])
    return terms


def global_average_terms(_op: Operator, prepared: Prepared) -> Terms:
    """arm_dsp/global_average_pool: four channels at a time, four pixels in a round."""
    names: Names = prepared.context
    terms = new_terms()
    quads = names["batch"] * ceil(names["channels"] / 4)
    terms["call"] = 1
    terms["quad"] = quads
    terms["four pixels"] = quads * names["fours"]
    terms["pixel"] = quads * len(names["rest"])
    terms["run"] = quads * ceil(names["fours"] / names["run"]) * names["is_long"]
    count_kinds(terms, names, 4 * quads)
    terms["window test"] = 4 * quads * names["output"].is_guarded
    terms["emulation"] += 4 * quads * near_ties(prepared)
    return terms
