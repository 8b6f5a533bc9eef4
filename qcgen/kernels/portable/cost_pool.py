"""What the portable kernels of poolings do, counted by kinds of work."""

from __future__ import annotations

from math import prod

from qcgen.ir.program import AveragePool, MaxPool, Operator
from qcgen.kernels.cost import Names, Terms, new_terms
from qcgen.kernels.kernel import Prepared
from qcgen.kernels.portable.cost import PEELED, count_outputs, count_windows

SHORT = 10
"""Up to so many rounds of a loop whose body is longer compilers write out."""

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
    inside, border = count_windows(g, axes) if names["has_inside"] else (0, g.batch * prod(g.output))
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
    count_outputs(terms, prepared, outputs)
    return terms
