"""arm_dsp/short_window: convolutions of windows so short that the pairs of two of them stay in registers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from qcgen.ir.program import Conv, Int64s, Operator
from qcgen.kernels.arm_dsp.cost import short_window_terms
from qcgen.kernels.arm_dsp.figures import FIGURES
from qcgen.kernels.arm_dsp.lanes import LANES, Outputs
from qcgen.kernels.arm_dsp.output import dsp_output, output_support, output_tail
from qcgen.kernels.arm_dsp.scaled import pack_finely, times
from qcgen.kernels.arm_dsp.segment import Tail
from qcgen.kernels.arm_dsp.weights import pair
from qcgen.kernels.arm_dsp.window import ZERO, window
from qcgen.kernels.axes import any_at_border, axes
from qcgen.kernels.cost import Estimate
from qcgen.kernels.fast_output import parameter
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.packing import Packed
from qcgen.kernels.reasons import why_not_plain
from qcgen.kernels.text import describe, x_kind
from qcgen.kernels.unroll import unrolled

MAX_ELEMENTS = 8  # of a window: the pairs of two are then eight words, and six registers are left
KEPT_PAIRS = 3  # of a window, besides which there is a register for a number that all channels share
MAX_UNROLL = 16  # channels written out one after the other, of 22 instructions each


@dataclass(frozen=True)
class Load:
    """One or two words of a channel's constants, by their names in C, and the ``pairs`` that meet them."""

    names: tuple[str, ...]
    pairs: tuple[int, ...]


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves windows of up to eight elements side by side, wholly on the image, for --optimize speed."""
    reason = why_not_plain(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if g.taps > MAX_ELEMENTS:
        return f"a window has {g.taps} elements, more than the {MAX_ELEMENTS} that stay in registers"
    if prod(g.kernel[:-1]) > 1 or g.dilations[-1] > 1 < g.kernel[-1]:
        return "the elements of a window do not lie side by side"
    if any_at_border(axes(g, setting.x_layout)):
        return "windows leave the image"
    if prod(g.output) == 1:
        return "there is one output pixel, and two are computed at a time"
    if setting.optimize != "speed":
        return "its weights take twice the flash, which --optimize speed allows"
    dsp = dsp_output(op, pack_finely(op, setting.features, 0))
    if not dsp.is_fast or dsp.has_windows:
        return "some output step needs more than a multiplication and a saturation"
    return None


def prepare(op: Operator, setting: Setting) -> Prepared:
    """The constants of all channels as one stream of words, in the order in which they are loaded two by two."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack_finely(op, setting.features, 0)
    planned = window(g, setting.x_layout, has_border=False)
    order = planned.order[: -2 if planned.has_zero_pair else None]
    output, tail = packed.epilogue.output, output_tail(packed)
    if output.offset != 0 and order.size // 2 > KEPT_PAIRS:
        # No register is left for an offset that all channels share: it comes with each channel's constants.
        output, tail = replace(output, offset=None), replace(tail, offset=parameter(packed, "offset"))
    pixels = prod(g.output)
    context = {
        "g": g,
        "description": describe(op),
        "x_type": op.x.dtype.c,
        "x_kind": x_kind(op),
        "y": Outputs(op.y.dtype.c, 1, g.out_channels),
        "output": output,
        "dsp": dsp_output(op, packed),
        "lanes": LANES,
        "words": planned.words.copies,
        "lone": planned.lone,
        "pairs": range(order.size // 2),
        "loads": _loads(order.size // 2, tail),
        "channel_walk": unrolled(g.out_channels, MAX_UNROLL, MAX_UNROLL),
        "axes": axes(g, setting.x_layout),
        "is_walked": set(g.strides) != {1} or g.kernel[-1] > 1,
        "pixels": pixels,
        "overlaps": pixels % 2 == 1,
        "is_split": g.batch > 1,
        "x_image": g.in_channels * prod(g.input),
        "y_image": g.out_channels * pixels,
        "uses_string": True,
    }
    widening = (f"dsp_even_{x_kind(op)}", f"dsp_odd_{x_kind(op)}", "dsp_load_word") if planned.words.total else ()
    lone = ("dsp_pair",) if planned.lone else ()
    support = ("dsp", "dsp_dot", "dsp_load_two", *widening, *lone, *output_support(op, packed))
    return Prepared((_constants(packed, order, tail),), context, (), support, packed.certificate)


def _loads(pairs: int, tail: Tail) -> tuple[Load, ...]:
    names = ["start", *(f"w{i}" for i in range(pairs))]
    names += ["multiplier"] if tail.has_multipliers else []
    names += ["offset"] if tail.has_offsets else []
    twos = (tuple(names[i : i + 2]) for i in range(0, len(names), 2))
    return tuple(Load(two, tuple(int(name[1:]) for name in two if name.startswith("w"))) for two in twos)


def _constants(packed: Packed, order: Int64s, tail: Tail) -> Constants:
    channels = packed.start.size
    slots = np.where(order == ZERO, 0, packed.weights[:, order])
    weights = pair(slots[:, 0::2], slots[:, 1::2])
    words = np.concatenate([packed.start[:, None], weights, tail.words(0, channels, 1)], axis=1)
    parts = ["where its sum starts", "weights, two in a word" + times(packed.bits)]
    parts += ["multiplier"] if tail.has_multipliers else []
    parts += ["offset"] if tail.has_offsets else []
    return Constants("constants", "int32_t", words.reshape(-1), f"of each channel: {'; '.join(parts)}.")


SHORT_WINDOW_COST = Estimate(prepare, short_window_terms, FIGURES["arm_dsp/short_window"])
SHORT_WINDOW = Kernel(
    "arm_dsp/short_window",
    "kernels/arm_dsp/short_window.c.jinja",
    frozenset({"dsp"}),
    why_not,
    prepare,
    SHORT_WINDOW_COST,
)
