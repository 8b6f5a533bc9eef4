"""What the depthwise kernels that need no scratch do, counted."""

from __future__ import annotations

from math import prod

from qcgen.ir.program import Conv, Operator
from qcgen.kernels.arm_dsp.column_steps import instructions
from qcgen.kernels.arm_dsp.cost import count_outputs, windowed_channels
from qcgen.kernels.cost import Names, Terms, new_terms
from qcgen.kernels.kernel import Prepared
from qcgen.kernels.plane import beyond_taps, first_taps

WRITTEN = 40  # statements of all rows of outputs that the compiler writes out, borders included
REGISTERS = 9  # for words of weights and sums, besides what is read of the image and pointers


def depthwise_direct_terms(op: Operator, prepared: Prepared) -> Terms:
    """arm_dsp/depthwise_direct: channel by channel, column by column."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms = new_terms()
    channels = g.batch * g.out_channels
    terms["channel"] = channels
    terms["packed weight" if names["is_packed"] else "paired weight"] = channels * len(names["words"])
    spilled = max(0, len(names["words"]) + len(names["sums"]) - REGISTERS)
    for section in names["sections"]:
        rows = channels * section.count
        terms["section"] += channels
        terms["row"] += rows * (section.count > 1)
        for part in section.parts:
            terms["multiply"] += rows * part.count * instructions(section, part)
            terms["spilled word"] += rows * part.count * len(part.steps) * spilled
            terms["round"] += rows * part.count * (part.count > 1)
    _count_channel_outputs(terms, op, prepared)
    return terms


def depthwise_rows_terms(op: Operator, prepared: Prepared) -> Terms:
    """arm_dsp/depthwise_rows: channel by channel, a few outputs of a row at a time, kernel row by kernel row."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms, height = new_terms(), names["height"]
    channels = g.batch * g.out_channels
    taps = [max(0, end - first) for first, end in zip(first_taps(height), beyond_taps(height), strict=True)]
    terms["channel"] = channels
    # A loop over all rows of the kernel is one that the compiler writes out, and one over few rows of outputs.
    statements = height.output * sum(len(group.statements) for group in names["groups"])
    is_cut = min(taps) < height.kernel and statements > WRITTEN
    loop = "" if is_cut else " of all"
    terms["row"] = channels * height.output
    terms["cut row"] = is_cut * channels * sum(n < height.kernel for n in taps)
    terms["lost tap"] = is_cut * channels * names["width"].kernel * sum(height.kernel - n for n in taps)
    for group in names["groups"]:
        times = channels * group.count
        terms["group" + loop] += times * height.output
        terms["kernel row" + loop] += times * sum(taps)
        terms["multiply"] += times * sum(taps) * len(group.statements)
    _count_channel_outputs(terms, op, prepared)
    return terms


def _count_channel_outputs(terms: Terms, op: Conv, prepared: Prepared) -> None:
    """The output steps of kernels that compute one channel after the other, those near a tie in a function apart."""
    outputs, share = prod(op.y.shape), windowed_channels(prepared)
    terms["output apart"] += outputs * share
    count_outputs(terms, prepared, outputs, share, 1)
