"""A Pad in front of convolutions or poolings becomes padding of their own."""

from __future__ import annotations

from dataclasses import replace

from qcgen.intervals import all_meet_image, channel_ranges, image_channel_axis
from qcgen.ir.program import Conv, ConvGeometry, MaxPool, Operator, Pad, Program
from qcgen.simplify.wiring import inner_names, readers_of


def fold_pads(program: Program) -> Program:
    """The program without the Pads all of whose readers can do the padding themselves."""
    pads = [op for op in program.operators if isinstance(op, Pad)]
    if not pads:
        return program
    readers, inner, ranges = readers_of(program), inner_names(program), channel_ranges(program)
    for pad in pads:
        if pad.y.name not in inner or pad.x.name not in ranges:
            continue
        lowest = int(ranges[pad.x.name].lo.min())
        padded = {op.y.name: _padding(op, pad, lowest) for op in readers.get(pad.y.name, ())}
        folded = {name: op for name, op in padded.items() if op is not None}
        if len(folded) == len(padded):
            kept = (folded.get(op.y.name, op) for op in program.operators if op is not pad)
            # Readers of this Pad may be followed by others: what is known of them must not grow old.
            return fold_pads(replace(program, operators=tuple(kept)))
    return program


def _padding(op: Operator, pad: Pad, lowest: int) -> Operator | None:
    """The operator on the image without the Pad, None if the two would differ.

    A tap that holds the zero point adds as little as padding does. A pooling passes over what is nowhere above
    ``lowest``, the smallest code of the image, as it does over padding, if every window sees a part of the image.
    """
    match op:
        case Conv() if op.x.dtype.is_code and pad.value == op.x_zero_point:
            g = _padded(op.geometry, pad, image_channel_axis(op.x))
            return None if g is None else replace(op, x=replace(pad.x, layout=op.x.layout), geometry=g)
        case MaxPool() if pad.value <= lowest:
            g = _padded(op.geometry, pad, image_channel_axis(op.x))
            if g is None or not all_meet_image(g):
                return None
            return replace(op, x=replace(pad.x, layout=op.x.layout), geometry=g)
        case _:
            return None


def _padded(g: ConvGeometry, pad: Pad, channel_axis: int) -> ConvGeometry | None:
    """The geometry on the image without the Pad; None if it pads the batch or the channels."""
    shapes = zip(pad.before, pad.x.shape, pad.y.shape, strict=True)
    sides = [(before, after - before - size) for before, size, after in shapes]
    spatial = [axis for axis in range(1, len(sides)) if axis != channel_axis]
    if len(spatial) != g.rank or any(sides[0]) or any(sides[channel_axis]):
        return None
    return replace(
        g,
        input=tuple(pad.x.shape[axis] for axis in spatial),
        pads_begin=tuple(own + sides[axis][0] for own, axis in zip(g.pads_begin, spatial, strict=True)),
        pads_end=tuple(own + sides[axis][1] for own, axis in zip(g.pads_end, spatial, strict=True)),
    )
