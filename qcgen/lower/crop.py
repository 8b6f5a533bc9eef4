"""Windows that begin behind the first elements of an image: the image is cropped before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qcgen.geometry import WindowAxis
from qcgen.ir.graph import Graph
from qcgen.ir.program import AveragePool, Conv, MaxPool, Operator, Slice
from qcgen.ir.types import Layout

Windowed = Conv | MaxPool | AveragePool


def cropped(op: Windowed, axes: Sequence[WindowAxis], graph: Graph) -> tuple[Operator, ...]:
    """The operator, behind a Slice where ``axes`` leave out elements before the first window."""
    crops = tuple(axis.crop for axis in axes)
    if not any(crops):
        return (op,)
    is_last = op.x.layout is Layout.CHANNELS_LAST
    starts = (0, *crops, 0) if is_last else (0, 0, *crops)
    shape = tuple(size - start for size, start in zip(op.x.shape, starts, strict=True))
    name = f"{op.y.name}.cropped"
    while name in graph.values or name in graph.constants:
        name += "_"
    x = replace(op.x, name=name, shape=shape)
    geometry = replace(op.geometry, input=shape[1:-1] if is_last else shape[2:])
    crop = Slice(op.name, op.op_type, op.x, x, starts, (1,) * len(shape))
    return (crop, replace(op, x=x, geometry=geometry))
