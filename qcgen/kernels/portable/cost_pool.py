"""What the portable kernels of poolings do, counted by kinds of work."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from qcgen.ir.program import AveragePool, MaxPool, Operator
from qcgen.kernels.axes import Axis
from qcgen.kernels.cost import Names, Terms, count_bounds, immediates, new_terms
from qcgen.kernels.kernel import Prepared
from qcgen.kernels.portable.cost import PEELED, count_outputs, count_windows

SHORTEST, SHORT = 4, 8
"""A loop over windows of so many rounds is gone; so is one of less than SHORT that would be written out in copies."""
FEW = 10
"""Up to so many rounds of a loop whose body is longer compilers write out."""
MOST_ROUNDS, MOST_INSTRUCTIONS = 16, 200
"""A loop of no more rounds, and all of them of no more instructions by gcc's count, is written out."""
VECTOR = 16
"""Elements that a core with vectors computes at once, where a loop over them remains."""

INSIDE_KINDS = (
    *(kind + where for kind in ("load", "operation", "output") for where in ("", " in vectors", " of int8")),
    *("tap in vectors", "start", "carried element", "step", "step over channels"),
)
"""What windows within the image may take: some layers do some of it, and each kind has a figure."""
AT_ONE_PLACE = "one channel at one place"
LANES = {"one channel": 1, "few channels": 4, "some channels": MOST_ROUNDS, "many channels": 2**31}
"""How many channels a window has at most: one stays in a register, a few may, some are written out, many are a loop."""


def pool_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/max_pool and average_pool: runs of outputs within the image, others tap by tap."""
    assert isinstance(op, MaxPool | AveragePool)
    names: Names = prepared.context
    terms = new_terms()
    if names["type"] == "float":
        terms["float"] = 1  # not measured
        return terms
    terms["call"] = 1
    terms["row"] = op.geometry.batch * names["planes"] * prod(axis.output for axis in names["axes"][:-1])
    inside = _count_inside(terms, op, names)
    if isinstance(op, MaxPool):
        _count_border(terms, op, names)
    else:
        _count_means(terms, op, names, inside)
    return terms


def _count_inside(terms: Terms, op: MaxPool | AveragePool, names: Names) -> int:
    """Outputs whose windows lie within the image; returns how many there are."""
    g = op.geometry
    shared, loop = _shared(names), _loop(names)
    terms |= dict.fromkeys(INSIDE_KINDS, 0.0)
    if not names["has_inside"]:
        return 0
    across, taps = _walked(names), prod(g.kernel)
    steps, lanes = _inside_outputs(across), int(names["lanes"])
    starts = g.batch * int(names["planes"]) * prod(_inside_outputs(axis) for axis in names["axes"]) // steps
    column = taps // across.kernel
    outputs = starts * steps * lanes
    # A column that the window before has seen is loaded and combined once.
    first = starts * lanes * shared.values
    fresh = outputs * (across.kernel - shared.columns) + first
    is_short = steps <= SHORTEST or (lanes == 1 and shared.copies > 1 and steps < SHORT)
    if shared.copies > 1 and steps >= 2 * shared.copies and not is_short:
        fresh += starts * lanes * shared.copies * shared.columns
    operations = fresh * (column - 1) + outputs * (across.kernel - 1)
    # Maxima of columns are shared; sums are not.
    is_max = isinstance(op, MaxPool)
    work = {"load": fresh * column, "operation": operations if is_max else outputs * (taps - 1), "output": outputs}
    share = _in_vectors(names, steps)
    for kind, times in work.items():
        terms[kind] = times * (1 - share)
        terms[f"{kind} in vectors"] = times * share
        terms[f"{kind} of int8"] = times * (op.x.dtype.low < 0)
    terms["tap in vectors"] = outputs * taps * share / VECTOR
    terms["start"] = starts
    terms["carried element"] = outputs * shared.values * (not is_short)
    terms["step"] = starts * steps * (loop != "none" and not is_short)
    terms["step over channels"] = outputs * (loop == "channels")
    return outputs


@dataclass(frozen=True)
class Shared:
    """What a window shares with those before it: ``columns`` of it, ``values`` that stay in registers for that.

    The loop over windows is written out in so many ``copies``.
    """

    columns: int
    values: int
    copies: int


def _loop(names: Names) -> str:
    """The innermost loop that remains: over the channels of a window, over windows, or none."""
    instructions = names["run"] * (2 * len(names["taps"]) + 1)
    is_long = names["run"] > MOST_ROUNDS or instructions > MOST_INSTRUCTIONS
    if names["channels_last"]:
        return "channels" if is_long else "windows"
    return "windows" if is_long or names["is_rolled"] else "none"


def _in_vectors(names: Names, steps: int) -> float:
    """The share of outputs that a core with vectors computes as such: of channels, or of windows side by side."""
    lanes: int = names["lanes"]
    if _loop(names) == "channels":
        return lanes // VECTOR * VECTOR / lanes
    if _loop(names) == "none" or _walked(names).stride != 1:
        return 0.0
    windows = VECTOR // gcd(lanes, VECTOR)
    return steps // windows * windows / steps


def _walked(names: Names) -> Axis:
    """The axis of the innermost loop over windows: a row of one window has none."""
    across = names["across"]
    is_alone = _inside_outputs(across) == 1 and not names["has_row_border"] and names["rows"]
    walked: Axis = names["rows"][-1] if is_alone and not names["channels_last"] else across
    return walked


def _inside_outputs(axis: Axis) -> int:
    return axis.inside_end - axis.inside_begin


def _shared(names: Names) -> Shared:
    """gcc keeps the columns of a window that the next one has, too, if no loop over channels lies between them."""
    across = _walked(names)
    if _loop(names) != "windows" or _inside_outputs(across) <= 1:
        return Shared(0, 0, 1)
    windows = across.dilation // gcd(across.stride, across.dilation)  # until one meets the same columns
    columns = max(0, across.kernel - windows * across.stride // across.dilation)
    copies = (across.kernel - 1) * across.dilation // across.stride if columns else 1
    instructions = names["lanes"] * (2 * len(names["taps"]) + 1)
    return Shared(columns, columns * windows, copies if copies * instructions <= MOST_INSTRUCTIONS else 1)


def _inside_taps(axis: Axis) -> int:
    """The taps of all windows along an axis that lie within the image."""
    return sum(
        0 <= o * axis.stride + k * axis.dilation - axis.pad < axis.input
        for o in range(axis.output)
        for k in range(axis.kernel)
    )


def _border_counts(op: MaxPool | AveragePool, names: Names) -> tuple[int, int, int]:
    """Windows beyond the image, in one plane of each image; their rows of taps within it, and these taps."""
    g, axes = op.geometry, names["axes"]
    inside, border = count_windows(g, axes) if names["has_inside"] else (0, g.batch * prod(g.output))
    rows = g.batch * prod(_inside_taps(axis) for axis in axes[:-1]) * axes[-1].output
    taps = g.batch * prod(_inside_taps(axis) for axis in axes)
    return border, rows - inside * prod(g.kernel[:-1]), taps - inside * prod(g.kernel)


def _count_border(terms: Terms, op: MaxPool, names: Names) -> None:
    windows, rows, taps = (names["planes"] * n for n in _border_counts(op, names))
    where = next(lanes for lanes, most in LANES.items() if names["lanes"] <= most)
    if names["lanes"] == 1 and _is_at_one_place(names):
        where = AT_ONE_PLACE
    for lanes in (*LANES, AT_ONE_PLACE):
        for kind in ("window", "output", "row", "tap", "element"):
            terms[f"border {kind} of {lanes}"] = 0
    terms[f"border window of {where}"] = windows
    terms[f"border output of {where}"] = windows * names["lanes"] * (names["lanes"] > 1)
    terms[f"border row of {where}"] = rows
    terms[f"border tap of {where}"] = taps
    vectors, rest = divmod(names["lanes"], VECTOR)
    terms["sixteen border elements"] = taps * vectors
    terms[f"border element of {where}"] = taps * rest * (names["lanes"] > 1)


def _is_at_one_place(names: Names) -> bool:
    """Whether compilers know where in a row the windows beyond the image are."""
    across = names["across"]
    places = across.inside_begin + across.output - across.inside_end
    return bool(names["has_inside"]) and not names["has_row_border"] and (places == 1 or not names["rows"])


def _count_means(terms: Terms, op: AveragePool, names: Names, inside: float) -> None:
    """The codes of sums; near a step and at the border by additions of float32 numbers."""
    channels = op.geometry.in_channels
    exact, rows, added = (float(channels * n) for n in _border_counts(op, names))
    terms["tie test"] = inside * names["is_guarded"]
    count_bounds(terms, names, inside)
    terms["immediate of an offset"] = inside * immediates(names["start"]) if inside else 0
    if names["is_guarded"]:
        near = inside * _near(op, names)
        exact, added = exact + near, added + near * names["tap_count"]
        rows += near * prod(op.geometry.kernel[:-1])
    terms["exact output"] = exact
    terms["exact row"] = rows
    terms["exact addition"] = added


def _near(op: AveragePool, names: Names) -> float:
    """The share of sums that lie near a step, for codes that are spread evenly."""
    line, taps, low = names["line"], names["tap_count"], op.x.dtype.low
    share = np.ones(1)
    for _ in range(taps):
        share = np.convolve(share, np.full(256, 1 / 256))
    sums = np.arange(share.size) + taps * low
    near = (sums * line.slope + names["start"] + line.guard & names["fraction_mask"]) <= 2 * line.guard
    return float(share[near].sum())


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
        short = " of few channels" if names["channels"] <= FEW else ""
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
