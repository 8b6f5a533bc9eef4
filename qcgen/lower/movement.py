"""Operators that only move elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qcgen.infer.shape import split_evenly
from qcgen.ir.program import Concat, Operator, Pad, Reshape, Resize, Slice, Transpose
from qcgen.lower.elementwise import lookup
from qcgen.lower.places import nearest_places
from qcgen.lower.source import Source


def lower_transpose(source: Source) -> tuple[Operator, ...]:
    """Transpose; the axes are reversed by default."""
    x = source.tensor(0)
    perm = source.attribute_integers("perm") or tuple(reversed(range(len(x.shape))))
    return (Transpose(*source.called, x, source.result(), perm),)


def lower_reshape(source: Source) -> tuple[Operator, ...]:
    """Reshape, Flatten, Squeeze and Unsqueeze: inference has found the shape."""
    return (Reshape(*source.called, source.tensor(0), source.result()),)


def lower_concat(source: Source) -> tuple[Operator, ...]:
    """Concat of tensors whose codes mean the same."""
    y = source.result()
    xs = tuple(source.tensor(index) for index in range(len(source.node.inputs)))
    return (Concat(*source.called, xs, y, source.integer("axis", 1) % len(y.shape)),)


def lower_qlinear_concat(source: Source) -> tuple[Operator, ...]:
    """QLinearConcat: (y_scale, y_zero_point, then X, scale, zero point of every input).

    Source: QLinearConcat copies an input of y's scale and zero point, and requantizes any other by a table of 256.
    """
    y_by = source.quantization(0, 1)
    y = source.result(y_by)
    before: list[Operator] = []
    xs = []
    for index in range(2, len(source.node.inputs), 3):
        x_by = source.quantization(index + 1, index + 2)
        x = source.tensor(index, x_by)
        if x_by != y_by:
            scaled = source.inner(f"input{index // 3}", y.dtype, x.shape, y_by)
            before.append(lookup(source, x, scaled, lambda values: values))
            x = scaled
        xs.append(x)
    axis = source.integer("axis", 1) % len(y.shape)
    return (*before, Concat(*source.called, tuple(xs), y, axis))


def lower_slice(source: Source) -> tuple[Operator, ...]:
    """Slice: (data, starts, ends, axes, steps), attributes before opset 10."""
    x, y = source.tensor(0), source.result()
    rank = len(x.shape)
    starts, ends = source.integers(1, "starts"), source.integers(2, "ends")
    assert starts is not None, "a Slice has starts"
    assert ends is not None, "a Slice has ends"
    axes = source.integers(3, "axes") or tuple(range(len(starts)))
    steps = source.integers(4, "steps") or (1,) * len(starts)
    firsts, strides = [0] * rank, [1] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[axis % rank]
        # The ends of a slice are clamped as Python's are, with one exception: steps backwards pass the front with -n-1.
        firsts[axis % rank] = slice(start, end, step).indices(size)[0]
        strides[axis % rank] = step
    return (Slice(*source.called, x, y, tuple(firsts), tuple(strides)),)


def lower_split(source: Source) -> tuple[Operator, ...]:
    """Split: one Slice for every output that is there; others take their share, too."""
    x = source.tensor(0)
    rank = len(x.shape)
    axis = source.integer("axis", 0) % rank
    lengths = source.integers(1, "split") or split_evenly(x.shape[axis], len(source.node.outputs))
    slices = []
    begin = 0
    for index, (name, length) in enumerate(zip(source.node.outputs, lengths, strict=True)):
        if not name:
            begin += length
            continue
        y = source.result(index=index)
        starts = tuple(begin if i == axis else 0 for i in range(rank))
        name = f"{source.node.name}.{index}" if index else source.node.name
        slices.append(Slice(name, source.node.op_type, x, y, starts, (1,) * rank))
        begin += length
    return tuple(slices)


def lower_pad(source: Source) -> tuple[Operator, ...]:
    """Pad: (data, pads, constant_value, axes), attributes before opset 11; the other modes repeat elements of x."""
    x, y = source.tensor(0), source.result()
    before = pad_before(source, len(x.shape))
    mode = source.text("mode", "constant")
    if mode == "constant":
        value = source.number(2, 0.0) if source.node.version >= 11 else source.real("value", 0.0)
        return (Pad(*source.called, x, y, before, value),)
    places = tuple(
        tuple(int(place) for place in _PLACES[mode](np.arange(size) - first, length))
        for size, first, length in zip(y.shape, before, x.shape, strict=True)
    )
    return (Resize(*source.called, x, y, places),)


_PLACES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "edge": lambda at, size: np.clip(at, 0, size - 1),
    "reflect": lambda at, size: size - 1 - np.abs(np.mod(at, max(2 * size - 2, 1)) - (size - 1)),
    "wrap": lambda at, size: np.mod(at, size),
}
"""Where an element outside of x comes from, by the mode of padding."""

PAD_MODES = ("constant", *_PLACES)
"""The modes of Pad."""


def pad_before(source: Source, rank: int) -> tuple[int, ...]:
    """The elements in front, axis by axis."""
    pads = source.integers(1, "pads")
    assert pads is not None, "a Pad has pads"
    axes = source.integers(3, "axes") if source.has(3) else tuple(range(rank))
    assert axes is not None, "axes is a constant"
    before = [0] * rank
    for axis, count in zip(axes, pads[: len(pads) // 2], strict=True):
        before[axis % rank] = count
    return tuple(before)


def lower_resize(source: Source) -> tuple[Operator, ...]:
    """Resize and Upsample by nearest neighbours."""
    x, y = source.tensor(0), source.result()
    return (Resize(*source.called, x, y, nearest_places(source, x.shape, y.shape)),)
