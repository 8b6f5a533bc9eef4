"""What arm_dsp/winograd does, counted: tiles evaluated, multiplied, interpolated."""

from __future__ import annotations

from math import ceil

from qcgen.ir.program import Conv, Operator
from qcgen.kernels.arm_dsp.cost import count_outputs, weight_instructions, windowed_channels
from qcgen.kernels.arm_dsp.tile import Tile
from qcgen.kernels.arm_dsp.toom_cook import ToomCook
from qcgen.kernels.cost import Names, Terms, new_terms
from qcgen.kernels.kernel import Prepared
from qcgen.kernels.plane import PlaneAxis


def winograd_terms(op: Operator, prepared: Prepared) -> Terms:
    """arm_dsp/winograd: the values of each tile at all points; for two tiles products of matrices and outputs."""
    assert isinstance(op, Conv)
    names: Names = prepared.context
    terms = new_terms()
    tile: Tile = names["tile"]
    tiles = op.geometry.batch * tile.count(names["height"], names["width"])
    pairs = ceil(tiles / 2)
    terms["tile"] = tiles
    _count_gathered(terms, op, names)
    _count_values(terms, tile, tiles * names["channels"] // 4)
    for block in names["segments"]:
        blocks = pairs * (block.beyond - block.first) // block.width
        points = blocks * tile.products
        step = 1 + weight_instructions("int16", block.width, 2)
        terms["multiply"] += points * (block.steps.total + 1) * step
        terms["round"] += points * block.steps.count * (block.steps.count > 1)
        terms["point"] += points
        terms["stored sum"] += points * block.sums
        terms["block"] += blocks
    channels = 2 * pairs * op.geometry.out_channels
    terms["channel of a tile"] = channels
    _count_interpolation(terms, tile, channels)
    outputs = channels * tile.height.outputs * tile.width.outputs
    terms["odd divisor"] = outputs * (tile.inverse != 1)
    terms["own multipliers"] = channels * (names["output"].multiplier is None)
    count_outputs(terms, prepared, outputs, windowed_channels(prepared), tile.axes[-1].outputs)
    return terms


def _count_values(terms: Terms, tile: Tile, quads: float) -> None:
    """Four channels of tiles at all points: pixels widened and evaluated along one axis, then along the other."""
    for size in (4, 6):
        for what in ("column of pixels", "row of values", "lone axis"):
            terms[f"{what} at {size} points"] = 0
    if len(tile.axes) == 1:
        terms[f"lone axis at {tile.axes[0].size} points"] = quads
        return
    terms["quad of two axes"] = quads
    terms[f"column of pixels at {tile.height.size} points"] = quads * tile.width.size
    terms[f"row of values at {tile.width.size} points"] = quads * 2 * tile.height.size


def _count_interpolation(terms: Terms, tile: Tile, channels: float) -> None:
    """The outputs of channels of tiles from their products, along one axis, then along the other."""
    last = tile.axes[-1]
    rows = tile.height.outputs if len(tile.axes) == 2 else 1
    if len(tile.axes) == 2:
        terms["interpolated column"] = channels * tile.width.size
        terms["row of codes"] = channels * rows
        terms["interpolate"] = (
            channels * tile.width.size * (interpolation_instructions(tile.height) + tile.height.outputs)
        )
    terms["interpolate"] += channels * rows * interpolation_instructions(last)


def interpolation_instructions(axis: ToomCook) -> int:
    """Loads of the products of one axis and additions; shifts cost nothing beside these.

    >>> interpolation_instructions(ToomCook(2, 3))
    8
    """
    return axis.size + 2 * len(axis.opposites) + sum(len(result.terms) - 1 for result in axis.results)


def _count_gathered(terms: Terms, op: Conv, names: Names) -> None:
    """The pixels of tiles that do not lie on the image row by row."""
    g, tile = op.geometry, names["tile"]
    if not names["gathers"]:
        return
    ys, xs = _starts(names["height"], tile.height), _starts(names["width"], tile.width)
    count = len(ys) * len(xs)
    if not names["gathers_all"]:
        count -= _inside(ys, names["height"], tile.height) * _inside(xs, names["width"], tile.width)
    gathered = g.batch * count
    terms["gathered tile"] = gathered
    terms["gathered row"] = gathered * tile.height.size
    terms["gathered pixel"] = gathered * tile.products * (not names["is_run"])
    bytes_ = gathered * tile.products * g.in_channels
    terms["gathered byte"] = bytes_ * names["x_is_last"]
    terms["gathered element"] = bytes_ * (not names["x_is_last"])


def _starts(axis: PlaneAxis, algorithm: ToomCook) -> list[int]:
    """The pixels where tiles start on an axis; the last of each phase of the dilation ends with the image."""
    starts = []
    for phase in range(axis.dilation):
        count = ceil((axis.output - phase) / axis.dilation)
        for i in range(0, count, algorithm.outputs):
            starts.append(phase + min(i, count - algorithm.outputs) * axis.dilation - axis.pad)
    return starts


def _inside(starts: list[int], axis: PlaneAxis, algorithm: ToomCook) -> int:
    """How many of the tiles lie wholly on the image."""
    return sum(0 <= start <= axis.input - algorithm.size for start in starts)
