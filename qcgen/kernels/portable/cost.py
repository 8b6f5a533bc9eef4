"""What the portable kernels of convolutions do, counted by kinds of work."""

from __future__ import annotations

from math import prod
from typing import Any

from qcgen.ir.program import Conv, Operator
from qcgen.kernels.cost import Names, Terms, count_kinds, near_ties, new_terms
from qcgen.kernels.kernel import Prepared


def count_windows(g: Any, axes: Any) -> tuple[int, int]:
    """Windows within the image, and other ones, of all images."""
    inside = g.batch * prod(max(0, axis.inside_end - axis.inside_begin) for axis in axes)
    return inside, g.batch * prod(g.output) - inside


def count_positions(terms: Terms, axes: Any, windows: float) -> None:
    """Where windows are, found by divisions: by multiplications or, on a Cortex-M0, by calls of a function."""
    sizes = [axis.output for axis in axes]
    inner = [prod(sizes[i:]) for i in range(1, len(sizes))]
    divisors = (*inner, *sizes[1:])
    terms["position"] += windows * len(sizes)
    terms["division"] += windows * sum(each & (each - 1) != 0 for each in divisors)


def taps_inside(axes: Any) -> int:
    """How many taps of all windows lie on the image, of one channel and image."""
    return prod(sum(_inside(axis, o) for o in range(axis.output)) for axis in axes)


def _inside(axis: Any, output: int) -> int:
    places = (output * axis.stride + k * axis.dilation - axis.pad for k in range(axis.kernel))
    return sum(0 <= place < axis.input for place in places)


_WAYS = ("written out", "in a loop")
FEW_TAPS, BYTE = 3, 255

SUM_KINDS = (
    *(f"channel of {block} {way}" for block in (1, 2, 4) for way in _WAYS),
    *(f"tap of {each} written out" for each in ("1", "2", "4")),
    "tap of 4 few written out",
    "tap of 4 raw sums written out",
    *(f"{kind}tap of {block} in a loop" for kind in ("", "signed ", "wide ") for block in (1, 2, 4)),
    *(f"{kind}tap of 4 in a long loop" for kind in ("", "signed ", "wide ")),
)
"""How sums may be taken: each has a figure, because there are layers with each."""

COPY_KINDS = (
    *(f"{what} {way}" for what in ("run", "shifted word", "shifted byte", "widened tap") for way in _WAYS),
    *(f"padded tap {way}" for way in _WAYS),
    *("shifted tap", "moved run", "moved word", "moved byte", "padded run", "padded word", "padded byte"),
    *("run moved by memcpy", "byte moved by memcpy", "run filled by memset", "byte filled by memset"),
    *("border place", "border tap", "border tap inside"),
)
"""How windows may be copied."""

PEELED = 16
"""Up to so many rounds of a loop compilers write out, if the body is short."""

MOVED = 64
"""So many bytes gcc moves or fills word by word, for more it calls memcpy and memset."""

FEW_CHANNELS = 50
"""Up to so many taps, and two for each output, gcc writes out a loop over channels, with weights as constants."""

FEW_WEIGHTS, SOME_WEIGHTS = 4, 16
"""So many weights stay in registers while a plane is computed, on cores with 16 registers and with 32."""

OUTPUT_KINDS = ("raw", "high word", "split", "wide", "narrow", "emulated")


def count_outputs(terms: Terms, prepared: Prepared, outputs: float) -> None:
    """The output steps of kernels that compute them one by one."""
    names: Names = prepared.context
    count_kinds(terms, names, outputs)
    terms["window test"] += outputs * names["output"].is_guarded
    terms["emulation"] += outputs * near_ties(prepared)


def count_codes(terms: Terms, prepared: Prepared, outputs: float, rounds: float, *, tested: bool) -> None:
    """Output steps; what a channel's outputs share is loaded once in each of the ``rounds``.

    ``tested``: those of channels with a tie window are tested for being near one.
    """
    names: Names = prepared.context
    output = names["output"]
    for kind in OUTPUT_KINDS:
        terms[f"{kind} output"] += outputs * (output.kind == kind)
    fixed = output.kind not in ("raw", "emulated")
    full = (output.low, output.high)
    terms["own multipliers"] += rounds * (fixed and output.multiplier is None)
    terms["own offsets"] += rounds * (fixed and output.offset is None)
    terms["signed code"] += outputs * (full == (-128, 127))
    terms["other code"] += outputs * (output.kind != "raw" and full not in ((-128, 127), (0, 255)))
    terms["tie window"] += rounds * (tested and output.is_guarded)
    terms["window test"] += outputs * (tested and output.is_guarded)
    terms["emulation"] += outputs * near_ties(prepared)


def window_sums_terms(op: Operator, prepared: Prepared) -> Terms:
    """The blocks of windows that portable/conv and portable/pointwise sum."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms, block = new_terms(), names["block"]
    blocks = g.batch * g.group * -(-names["pixels"] // block)
    rounds = blocks * g.group_out
    way = "in a loop" if names["sums_apart"] else "written out"
    terms["call"] = 1
    terms["group"] = g.batch * g.group
    terms["block"] = blocks
    terms.update(dict.fromkeys(SUM_KINDS, 0.0))
    terms[f"channel of {block} {way}"] = rounds
    terms[_tap_kind(names, g.taps)] = rounds * g.taps
    terms["tap kept for all channels"] = blocks * block * g.taps * (not names["sums_apart"])
    terms["tap summed"] = blocks * block * g.taps * names["is_corrected"]
    count_codes(terms, prepared, rounds * block, rounds, tested=True)
    return terms


def _tap_kind(names: Names, taps: int) -> str:
    """How gcc sums: some cores address taps of some types in more instructions, and four windows need all registers.

    Then few taps stay in registers, and the loop's end needs one more unless it is a byte.
    """
    block = names["block"]
    if not names["sums_apart"]:
        if block < 4:
            return f"tap of {block} written out"
        if names["output"].kind == "raw":
            return "tap of 4 raw sums written out"
        return f"tap of 4 {'few ' * (taps <= FEW_TAPS)}written out"
    kind = "wide " * names["wide_taps"] if names["has_scratch"] else "signed " * (names["x_type"] == "int8_t")
    return f"{kind}tap of {block} in a {'long ' * (block == 4 and taps > BYTE)}loop"


def conv_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/conv: the same, and windows copied before."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms = window_sums_terms(op, prepared)
    terms.update(dict.fromkeys(COPY_KINDS, 0.0))
    inside, border = count_windows(g, names["axes"])
    windows = terms["block"] * names["block"]
    share = windows / (inside + border)  # some windows are copied a second time
    terms["window"] = windows
    count_positions(terms, names["axes"], windows)
    runs = g.taps // names["run"]
    _count_copies(terms, names, share * inside * runs, names["run"])
    terms["border window"] = share * border
    reached = g.batch * taps_inside(names["axes"]) - inside * prod(g.kernel)
    beyond = border * prod(g.kernel) - reached
    if names["channels_last"]:
        terms["border place"] = share * border * prod(g.kernel)
        _count_copies(terms, names, share * reached, g.group_in)
        _count_padding(terms, names, share * beyond, g.group_in)
    else:
        terms["border tap"] = share * border * g.taps
        terms["border tap inside"] = share * reached * g.group_in
    return terms


def _count_copies(terms: Terms, names: Names, runs: float, run: int) -> None:
    """Runs of elements that become taps: bytes that need no change are moved, others changed word by word."""
    changes = bool(names["shift_text"])
    way = "in a loop" if run > PEELED else "written out"
    if names["wide_taps"]:
        terms[f"run {way}"] += runs
        terms[f"widened tap {way}"] += runs * run
        terms["shifted tap"] += runs * run * changes
    elif changes:
        terms[f"run {way}"] += runs
        terms[f"shifted word {way}"] += runs * (run // 4)
        terms[f"shifted byte {way}"] += runs * (run % 4)
    else:
        _count_moves(terms, runs, run)


def _count_moves(terms: Terms, runs: float, run: int) -> None:
    """Runs of bytes that memcpy moves, or gcc in its place."""
    if run > MOVED:
        terms["run moved by memcpy"] += runs
        terms["byte moved by memcpy"] += runs * run
    else:
        terms["moved run"] += runs
        terms["moved word"] += runs * (run // 4)
        terms["moved byte"] += runs * (run % 4)


def _count_padding(terms: Terms, names: Names, runs: float, run: int) -> None:
    """Runs of taps outside the image."""
    if names["wide_taps"]:
        terms["padded run"] += runs
        terms[f"padded tap {'in a loop' if run > PEELED else 'written out'}"] += runs * run
    elif run > MOVED:
        terms["run filled by memset"] += runs
        terms["byte filled by memset"] += runs * run
    else:
        terms["padded run"] += runs
        terms["padded word"] += runs * (run // 4)
        terms["padded byte"] += runs * (run % 4)


def pointwise_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/pointwise: the same; pixels transposed before, or found where strides are not 1."""
    assert isinstance(op, Conv)
    names: Names = prepared.context
    terms = window_sums_terms(op, prepared)
    windows = terms["block"] * names["block"]
    terms.update(dict.fromkeys(("transposed tap", "window", "position", "division"), 0.0))
    if not names["channels_last"]:
        terms["transposed tap"] = windows * op.geometry.taps
    elif names["is_strided"]:
        terms["window"] = windows
        count_positions(terms, names["axes"], windows)
    return terms


def depthwise_nhwc_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/depthwise_nhwc: all channels of a pixel in one loop."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    terms, taps = new_terms(), prod(g.kernel)
    inside, border = count_windows(g, names["axes"])
    way = "written out" if g.out_channels * (taps + 2) <= FEW_CHANNELS else "in a loop"
    count_positions(terms, names["axes"], inside + border)
    terms["inside window"] = inside
    terms["border window"] = border
    terms["border place"] = border * taps
    for place, windows in (("inside", inside), ("border", border)):
        for each in _WAYS:
            count = windows * g.out_channels * (way == each)
            terms[f"{place} channel {each}"] = count
            terms[f"{place} tap {each}"] = count * taps
    terms["border tap beyond 16"] = border * g.out_channels * max(0, taps - SOME_WEIGHTS)
    outputs = (inside + border) * g.out_channels
    _count_lines(terms, prepared, outputs, outputs)
    terms["repeated output"] = (inside + border) * names["guarded"]
    return terms


def _count_lines(terms: Terms, prepared: Prepared, outputs: float, rounds: float) -> None:
    """The output steps of kernels that requantize channels with a tie window once more."""
    names: Names = prepared.context
    count_codes(terms, prepared, outputs, rounds, tested=False)
    terms["stored sum"] += outputs * names["output"].is_guarded


def depthwise_nchw_terms(op: Operator, prepared: Prepared) -> Terms:
    """portable/depthwise_nchw: one plane after the other, blocks of windows written out."""
    assert isinstance(op, Conv)
    g = op.geometry
    names: Names = prepared.context
    height, width, block = names["height"], names["width"], len(names["lanes"])
    terms, taps = new_terms(), prod(g.kernel)
    planes = g.batch * g.out_channels
    rows = planes * height.output
    blocks = rows * -(-width.output // block)
    terms["plane"] = planes
    terms["row"] = rows
    terms["block"] = blocks
    terms["overlapping block"] = blocks * names["has_overlap"]
    some = "few" if taps <= FEW_WEIGHTS else "some" if taps <= SOME_WEIGHTS else "many"
    for each in ("few", "some", "many"):
        terms[f"weight of {each}"] = blocks * taps * (each == some and block > 1)
    terms["tap of a lone window"] = blocks * taps * (block == 1)
    terms["block of one window"] = blocks * (block == 1)
    terms["read element"] = blocks * height.kernel * _columns(width, block)
    terms["product"] = blocks * block * taps
    terms["product beyond 3 windows"] = blocks * max(0, block - 3) * taps
    kinds = ("filled plane", "filled byte", "moved run", "moved word", "moved byte")
    terms.update(dict.fromkeys((*kinds, "run moved by memcpy", "byte moved by memcpy"), 0.0))
    if names["is_copied"]:
        terms["filled plane"] = 1
        terms["filled byte"] = names["plane_height"] * names["plane_width"]
        _count_moves(terms, planes * height.copied, width.copied)
    count_codes(terms, prepared, blocks * block, blocks, tested=True)
    return terms


def _columns(width: Any, block: int) -> int:
    """Different elements of a row that a block of windows reads."""
    return len({w * width.stride + k * width.dilation for w in range(block) for k in range(width.kernel)})
