"""What the portable kernels do, counted by kinds of work."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from qcgen.ir.program import AveragePool, Conv, MaxPool, Operator, Softmax
from qcgen.kernels.cost import Names, Terms, count_kinds, count_pair_lines, near_ties, new_terms
from qcgen.kernels.kernel import Prepared
from qcgen.kernels.walk import Walk

PEELED = 16
"""Up to so many rounds of a loop compilers write out, if the body is short."""


SHORT = 10
"""The same for bodies that are longer."""


def _borders(g: Any, axes: Any) -> tuple[int, int]:
    """Windows within the image, and other ones, of all images."""
    inside = g.batch * prod(max(0, axis.inside_end - axis.inside_begin) for axis in axes)
    return inside, g.batch * prod(g.output) - inside


def _count_outputs(terms: Terms, prepared: Prepared, outputs: float) -> None:
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
    _count_outputs(terms, prepared, rounds * block)
    return terms


def conv_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/conv: the same, and windows copied before."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms = window_sums_terms(op, prepared)
    inside, border = _borders(g, names["axes"])
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
    inside, border = _borders(g, names["axes"])
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


_PLACES = ("of a pixel", "of a pixel of few channels", "of a plane")


def _place(channels_last: bool, run: int) -> str:
    """How a pooling walks: over the channels of a pixel, or over the pixels of a plane."""
    if not channels_last:
        return "of a plane"
    return "of a pixel of few channels" if run <= SHORT else "of a pixel"


def pool_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/max_pool and average_pool: runs of outputs within the image, others tap by tap."""
    assert isinstance(op, MaxPool | AveragePool)
    g = op.geometry
    names: Names = prepared.context
    terms, taps = new_terms(), prod(g.kernel)
    axes = names["axes"]
    inside, border = _borders(g, axes) if names["has_inside"] else (0, g.batch * prod(g.output))
    on_image = g.batch * prod(
        sum(0 <= o * a.stride + k * a.dilation - a.pad < a.input for o in range(a.output) for k in range(a.kernel))
        for a in axes
    )
    outside = on_image - inside * taps  # taps on the image of the windows that reach beyond it
    lanes, planes = names["lanes"], names["planes"]
    if names["type"] == "float":
        terms["float"] = 1  # not measured
        return terms
    terms["call"] = 1
    terms["row"] = g.batch * planes * prod(axis.output for axis in axes[:-1])
    terms["run"] = inside * g.in_channels // max(names["run"], 1)
    where = _place(names["channels_last"], names["run"])
    for other in _PLACES:
        terms[f"output {other}"] = terms[f"tap {other}"] = 0
        terms[f"border place {other}"] = terms[f"border tap {other}"] = terms[f"border output {other}"] = 0
    terms[f"output {where}"] = inside * g.in_channels
    terms[f"tap {where}"] = inside * g.in_channels * (taps - 1)
    windows = planes * border
    if isinstance(op, MaxPool):
        terms["border window"] = windows
        terms[f"border place {where}"] = windows * taps
        terms[f"border tap {where}"] = planes * outside * lanes
        terms[f"border output {where}"] = windows * lanes
        return terms
    terms["tie test"] = 0
    exact = border * g.in_channels
    added = outside * g.in_channels
    if names["is_guarded"]:
        near = min(1.0, (2 * names["line"].guard + 1) / (names["fraction_mask"] + 1))
        terms["tie test"] = inside * g.in_channels
        exact += inside * g.in_channels * near
        added += inside * g.in_channels * near * taps
    terms["exact output"] = exact
    terms["exact place"] = border * g.in_channels * taps
    terms["exact addition"] = added
    return terms


def global_average_terms(_op: Operator, prepared: Prepared) -> Terms:
    """portable/global_average_pool: sums in memory, pixel by pixel, or channel by channel."""
    names: Names = prepared.context
    terms = new_terms()
    if names["is_float"]:
        terms["float"] = 1  # not measured
        return terms
    outputs = names["batch"] * names["channels"]
    terms["call"] = 1
    for kind in ("pixel", "channel", "stored sum", "run of a channel"):
        terms[kind] = 0
    for kind in ("element", "element of few channels", "element of a channel", "element of a channel in a short run"):
        terms[kind] = 0
    if names["channels_last"]:
        terms["pixel"] = names["batch"] * names["pixels"]
        short = " of few channels" if names["channels"] <= SHORT else ""
        terms["element" + short] = outputs * names["pixels"]
        terms["stored sum"] = outputs
    else:
        walk = names["pixels_walk"]
        terms["channel"] = outputs
        short = " in a short run" if walk.count <= PEELED else ""
        terms["element of a channel" + short] = outputs * names["pixels"]
        terms["run of a channel"] = outputs * names["pixels"] // walk.count
    _count_outputs(terms, prepared, outputs)
    return terms


def _count_walk(terms: Terms, walk: Walk, name: str = "") -> None:
    """The loops over the elements of an output."""
    terms["call"] += 1
    terms["run"] += walk.size // walk.count
    terms[("element" if walk.contiguous else "element with steps") + name] += walk.size


def elementwise_terms(_op: Operator, prepared: Prepared) -> Terms:
    """portable/lookup, quantize, dequantize."""
    terms = new_terms()
    _count_walk(terms, prepared.context["walk"])  # type: ignore[arg-type]
    return terms


def binary_terms(_op: Operator, prepared: Prepared) -> Terms:
    """portable/quantized_binary: an element of a sum or product by the line's form."""
    names: Names = prepared.context
    terms, walk = new_terms(), names["walk"]
    terms["call"] = 1
    terms["run"] = walk.size // walk.count
    terms["element" if walk.contiguous else "element with steps"] = walk.size
    count_pair_lines(terms, names, walk.size)
    return terms


def softmax_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/softmax: additions and divisions of float32 numbers in integers."""
    assert isinstance(op, Softmax)
    names: Names = prepared.context
    terms = new_terms()
    rows = names["walk"].size
    terms["row"] = rows
    terms["element"] = rows * names["length"]
    return terms


def copy_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/copy: blocks by memcpy, other elements one by one."""
    names: Names = prepared.context
    terms = new_terms()
    bytes_ = op.y.dtype.bytes
    terms["call"] = 1
    if names["is_whole"]:
        terms["moved byte"] = names["size"] * bytes_
        return terms
    if names["fill"]:
        terms["filled byte" if names["fill"].byte is not None else "filled element"] = names["size"] * (
            bytes_ if names["fill"].byte is not None else 1
        )
    for copy in names["copies"]:
        walk = copy.walk
        runs = walk.size // walk.count
        if copy.is_block:
            small = walk.count * bytes_ < SMALL_BLOCK
            terms["small block" if small else "block"] += runs
            terms["byte of a small block" if small else "byte of a block"] += walk.size * bytes_
        else:
            terms["run"] += runs
            terms["element by element"] += walk.size
    return terms


SMALL_BLOCK = 16
"""Bytes below which memcpy copies one by one."""
