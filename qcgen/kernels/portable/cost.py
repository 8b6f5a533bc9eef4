"""What the portable kernels of convolutions do, counted by kinds of work."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from qcgen.ir.program import Conv, Operator
from qcgen.kernels.cost import Names, Terms, count_kinds, near_ties, new_terms
from qcgen.kernels.kernel import Prepared

PEELED = 16
"""Up to so many rounds of a loop compilers write out, if the body is short."""


def count_windows(g: Any, axes: Any) -> tuple[int, int]:
    """Windows within the image, and other ones, of all images."""
    inside = g.batch * prod(max(0, axis.inside_end - axis.inside_begin) for axis in axes)
    return inside, g.batch * prod(g.output) - inside


def count_outputs(terms: Terms, prepared: Prepared, outputs: float) -> None:
    """The output steps of convolutions that are computed one by one."""
    names: Names = prepared.context
    count_kinds(terms, names, outputs)
    terms["window test"] += outputs * names["output"].is_guarded
    terms["emulation"] += outputs * near_ties(prepared)


def window_sums_terms(op: Operator, prepared: Prepared) -> Terms:
    """The blocks of windows that portable/conv and portable/pointwise sum."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms, block = new_terms(), names["block"]
    blocks = g.batch * g.group * -(-names["pixels"] // block)
    rounds = blocks * g.group_out
    loop = "peeled" if g.taps <= PEELED else "loop"
    terms["call"] = 1
    terms["group"] = g.batch * g.group
    terms["block"] = blocks
    for other, way in product((1, 2, 4), ("peeled", "loop")):
        terms[f"channel of {other}"] = terms[f"tap of {other} in a {way}"] = 0
    terms[f"channel of {block}"] = rounds
    terms[f"tap of {block} in a {loop}"] = rounds * g.taps
    terms["tap summed"] = blocks * block * g.taps * names["is_corrected"]
    count_outputs(terms, prepared, rounds * block)
    return terms


def conv_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/conv: the same, and windows copied before."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms = window_sums_terms(op, prepared)
    inside, border = count_windows(g, names["axes"])
    copied = g.group * (inside + border)
    terms["window"] = copied
    terms["position"] = copied * g.rank
    runs = g.taps // names["run"]
    terms["inside run"] = g.group * inside * runs
    terms["inside tap in a run of one" if names["run"] == 1 else "inside tap"] = g.group * inside * g.taps
    taps = g.group * border * prod(g.kernel)
    terms["border window"] = g.group * border
    terms["border place"] = taps * (1 if names["channels_last"] else g.group_in)
    terms["border tap"] = g.group * border * g.taps
    return terms


def pointwise_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/pointwise: the same; pixels transposed before, or found where strides are not 1."""
    assert isinstance(op, Conv)
    names: Names = prepared.context
    terms = window_sums_terms(op, prepared)
    windows = terms["block"] * names["block"]
    if not names["channels_last"]:
        terms["transposed tap"] = windows * op.geometry.taps
    elif names["is_strided"]:
        terms["window"] = windows
        terms["position"] = windows * op.geometry.rank
    return terms


def depthwise_nhwc_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/depthwise_nhwc: all channels of a pixel in one loop."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms, taps = new_terms(), prod(g.kernel)
    inside, border = count_windows(g, names["axes"])
    terms["inside window"] = inside
    terms["border window"] = border
    terms["border place"] = border * taps
    terms["inside channel"] = inside * g.out_channels
    terms["inside tap"] = inside * g.out_channels * taps
    terms["border channel"] = border * g.out_channels
    terms["border tap"] = border * g.out_channels * taps
    many = max(0, taps - 4)
    terms["inside tap beyond 4"] = inside * g.out_channels * many
    _count_lines(terms, prepared, (inside + border) * g.out_channels)
    terms["repeated output"] = (inside + border) * names["guarded"]
    return terms


def _count_lines(terms: Terms, prepared: Prepared, outputs: float) -> None:
    """The output steps of kernels that requantize channels with a tie window once more."""
    names: Names = prepared.context
    count_kinds(terms, names, outputs)
    terms["stored sum"] += outputs * names["output"].is_guarded
    terms["emulation"] += outputs * near_ties(prepared)


def depthwise_nchw_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/depthwise_nchw: one plane after the other."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms, taps = new_terms(), prod(g.kernel)
    planes = g.batch * g.out_channels
    pixels = planes * prod(g.output)
    if names["is_copied"]:
        terms["copied row"] = planes * names["height"].copied
        terms["copied element"] = planes * names["height"].copied * names["width"].copied
    terms["plane"] = planes
    terms["row"] = planes * names["height"].output
    terms["weight"] = planes * taps
    terms["output pixel"] = pixels
    terms["tap"] = pixels * taps
    terms["tap beyond 4"] = pixels * max(0, taps - 4)
    terms["tap beyond 9"] = pixels * max(0, taps - 9)
    _count_lines(terms, prepared, pixels)
    if names["output"].is_guarded:
        guarded = next(table.values for table in prepared.constants if table.role == "tie_window")
        terms["repeated output"] = pixels * float((guarded != 0).mean())
    return terms
