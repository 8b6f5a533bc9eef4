"""Operators that move, choose or repeat elements, at places that are known when the model is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil, floor

import numpy as np

from qcgen.arithmetic import INTERPOLATION_ONE, Float32
from qcgen.geometry import COORDINATES
from qcgen.infer.shape import split_evenly
from qcgen.ir.program import (
    Between,
    Concat,
    Embedding,
    GatherElements,
    Interpolate,
    Operator,
    Pad,
    Reshape,
    Resize,
    Slice,
    Tensor,
    Transpose,
)
from qcgen.ir.types import Layout
from qcgen.lower.elementwise import lookup
from qcgen.lower.source import Source


def lower_transpose(source: Source) -> Operator:
    """Transpose; the axes are reversed by default."""
    rank = len(source.tensor(0).shape)
    return Transpose(*source.ends, source.node.integers("perm") or tuple(reversed(range(rank))))


def lower_reshape(source: Source) -> Operator:
    """Reshape, Flatten, Squeeze and Unsqueeze: inference has found the shape."""
    return Reshape(*source.ends)


def lower_concat(source: Source) -> Operator:
    """Concat of tensors whose codes mean the same."""
    xs = tuple(source.tensor(index) for index in range(len(source.node.inputs)))
    return Concat(*source.called, xs, source.result(), source.axis(1))


def lower_qlinear_concat(source: Source) -> tuple[Operator, ...]:
    """QLinearConcat: (y_scale, y_zero_point, then X, scale, zero point of every input).

    Source: QLinearConcat copies an input of y's scale and zero point, and requantizes any other by a table of 256.
    """
    y_by = source.quantization(0, 1)
    y, before, xs = source.result(y_by), list[Operator](), []
    for index in range(2, len(source.node.inputs), 3):
        x_by = source.quantization(index + 1, index + 2)
        x = source.tensor(index, x_by)
        if x_by != y_by:
            scaled = source.inner(f"input{index // 3}", y.dtype, x.shape, y_by)
            before.append(lookup(source, x, scaled, lambda values: values))
            x = scaled
        xs.append(x)
    return (*before, Concat(*source.called, tuple(xs), y, source.node.integer("axis", 1) % len(y.shape)))


def _taken(name: str, op_type: str, x: Tensor, y: Tensor, along: Mapping[int, Sequence[int]]) -> Slice | Resize:
    """The elements of x at these places ``along`` axes, all of the others: a Slice where the places are ranges."""
    places = [along.get(axis, range(size)) for axis, size in enumerate(x.shape)]
    ranges = [each for each in places if isinstance(each, range)]
    if len(ranges) < len(places):
        return Resize(name, op_type, x, y, tuple(map(tuple, places)))
    return Slice(name, op_type, x, y, tuple(each.start for each in ranges), tuple(each.step for each in ranges))


def lower_slice(source: Source) -> Operator:
    """Slice: (data, starts, ends, axes, steps), attributes before opset 10."""
    shape, starts, ends = source.tensor(0).shape, source.integers(1, "starts"), source.integers(2, "ends")
    assert starts is not None, "a Slice has starts"
    axes = source.integers(3, "axes") or range(len(starts))
    steps = source.integers(4, "steps") or (1,) * len(starts)
    parts = map(slice, starts, ends or (), steps)
    return _taken(
        *source.ends, {axis % len(shape): range(shape[axis])[part] for axis, part in zip(axes, parts, strict=True)}
    )


def lower_split(source: Source) -> tuple[Operator, ...]:
    """Split: one Slice for every output that is there; others take their share, too."""
    (name, op_type), x, axis = source.called, source.tensor(0), source.axis(0)
    outputs, begin, slices = source.node.outputs, 0, []
    lengths = source.integers(1, "split") or split_evenly(x.shape[axis], len(outputs))
    for index, length in enumerate(lengths):
        if outputs[index]:
            called, part = (f"{name}.{index}" if index else name, op_type), range(begin, begin + length)
            slices.append(_taken(*called, x, source.result(index=index), {axis: part}))
        begin += length
    return tuple(slices)


def lower_pad(source: Source) -> Operator:
    """Pad: (data, pads, constant_value, axes), attributes before opset 11; the other modes repeat elements of x."""
    name, op_type, x, y = source.ends
    mode, before, pads = source.node.text("mode", "constant"), [0] * len(x.shape), source.integers(1, "pads")
    assert pads is not None, "a Pad has pads"
    axes = source.integers(3, "axes") if source.has(3) else range(len(x.shape))
    for axis, count in zip(axes or (), pads[: len(pads) // 2], strict=True):
        before[axis] = count
    if mode == "constant":
        value = source.number(2, 0.0) if source.node.version >= 11 else source.real("value", 0.0)
        return Pad(name, op_type, x, y, tuple(before), value)
    sizes = zip(y.shape, before, x.shape, strict=True)
    places = (OUTSIDE[mode](np.arange(size) - first, length).tolist() for size, first, length in sizes)
    return _taken(name, op_type, x, y, dict(enumerate(places)))


OUTSIDE: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "edge": lambda at, size: np.clip(at, 0, size - 1),
    "reflect": lambda at, size: size - 1 - np.abs(np.mod(at, max(2 * size - 2, 1)) - (size - 1)),
    "wrap": lambda at, size: np.mod(at, size),
}
"""Where an element outside of x comes from, by the mode of padding."""


def lower_gather(source: Source) -> tuple[Operator, ...]:
    """Gather along any axis with constant indices, of codes or floats; rows of a constant table at computed ones."""
    if not source.is_constant(1):
        return (Embedding(*source.called, source.tensor(1), source.result(), source.array(0)),)
    (name, op_type, x, y), axis, indices = source.ends, source.axis(0), source.array(1).astype(np.int64)
    places: Sequence[int] = (indices.reshape(-1) % x.shape[axis]).tolist()
    first, step = places[0] if places else 0, places[1] - places[0] if len(places) > 1 else 1
    if step and all(later - earlier == step for earlier, later in pairwise(places)):
        places = range(first, first + step * len(places), step)
    shape = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
    taken = y if indices.ndim == 1 else source.inner("taken", x.dtype, shape)
    found = _taken(name, op_type, x, taken, {axis: places})
    return (found,) if taken is y else (found, Reshape(name, op_type, taken, y))


def lower_gather_elements(source: Source) -> Operator:
    """GatherElements of codes or floats, at computed places or at constant ones."""
    return GatherElements(*source.called, source.tensor(0), source.tensor(1), source.result(), source.axis(0))


def lower_tile(source: Source) -> tuple[Operator, ...]:
    """Expand or Tile as constants say, of codes or floats."""
    # x again and again along every axis on which y is longer.
    x, y = source.tensor(0), source.result()
    shape = (1,) * (len(y.shape) - len(x.shape)) + x.shape
    sizes = enumerate(zip(shape, y.shape, strict=True))
    places = {axis: [at % size for at in range(length)] for axis, (size, length) in sizes}
    if shape == x.shape:
        return (_taken(*source.called, x, y, places),)
    inner = source.inner("of_more_axes", x.dtype, shape)
    return Reshape(*source.called, x, inner), _taken(*source.called, inner, y, places)


# Blocks of pixels that become channels, and channels that become blocks of pixels.

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""What brings the channels of an image behind its pixels, where they lie in memory, and back: mostly no code."""


def lower_depth_to_space(source: Source) -> tuple[Operator, ...]:
    """DepthToSpace, DCR and CRD: the channels of a pixel become a block of pixels."""
    batch, channels, height, width = source.tensor(0).shape
    size = source.node.integer("blocksize", 1)
    depth = channels // size**2
    if source.node.text("mode", "DCR") == "DCR":
        split, perm = (batch, height, width, size, size, depth), (0, 1, 3, 2, 4, 5)
    else:
        split, perm = (batch, height, width, depth, size, size), (0, 1, 4, 2, 5, 3)
    return _rearranged(source, split, perm, (batch, height * size, width * size, depth))


def lower_space_to_depth(source: Source) -> tuple[Operator, ...]:
    """SpaceToDepth: a block of pixels becomes the channels of one."""
    batch, channels, height, width = source.tensor(0).shape
    size = source.node.integer("blocksize", 1)
    split = (batch, height // size, size, width // size, size, channels)
    return _rearranged(source, split, (0, 1, 3, 2, 4, 5), (batch, height // size, width // size, channels * size**2))


def _rearranged(
    source: Source, split: tuple[int, ...], perm: tuple[int, ...], joined: tuple[int, ...]
) -> tuple[Operator, ...]:
    """An image, channels last, cut into blocks, whose axes change places, and joined again."""
    called, x = source.called, source.tensor(0)
    shapes = tuple(x.shape[axis] for axis in TO_LAST), split, tuple(split[axis] for axis in perm), joined
    names = ("last", "blocks", "moved", "image")
    last, blocks, moved, image = (source.inner(name, x.dtype, shape) for name, shape in zip(names, shapes, strict=True))
    return (
        Transpose(*called, x, last, TO_LAST),
        Reshape(*called, last, blocks),
        Transpose(*called, blocks, moved, perm),
        Reshape(*called, moved, image),
        Transpose(*called, image, source.result(), TO_FIRST),
    )


# Where the elements of a nearest-neighbour Resize come from.

TIE = 1e-6
"""How close to the middle between two elements a place may be to count as the middle."""


def _is_tie(x: float) -> bool:
    return abs(x - floor(x) - 0.5) <= TIE


NEAREST: dict[str, Callable[[float], int]] = {
    "ceil": ceil,
    "floor": floor,
    "round_prefer_ceil": lambda x: ceil(x) if _is_tie(x) else floor(x + 0.5),
    "round_prefer_floor": lambda x: floor(x) if _is_tie(x) else floor(x + 0.5),
}
"""The element that is nearest to a place. Source: onnxruntime's UpsampleBase; TIE was found by experiment."""


def lower_resize(source: Source) -> Operator:
    """Resize: nearest neighbours; linear along two of four axes, as sums of products or in fixed point."""
    x, y = source.tensor(0).shape, source.result().shape
    # Where no size changes onnxruntime copies x, whatever the scales.
    scales = [Float32(1)] * len(x) if x == y else _scales(source, x, y)
    if source.node.text("mode", "nearest") == "linear" and x != y:
        return _interpolate(source, scales)
    return Resize(*source.ends, tuple(_axis(source, *sizes) for sizes in zip(x, y, scales, strict=True)))


def _interpolate(source: Source, scales: list[Float32]) -> Interpolate:
    """The weights of onnxruntime's SetupUpsampleBilinearInteger: places in units of 1 / 1024, truncated."""
    x, y = source.tensor(0, layout=Layout.CHANNELS_LAST), source.result(layout=Layout.CHANNELS_LAST)
    mode = source.node.text("coordinate_transformation_mode", "half_pixel")
    down, across = (_between(mode, x.shape[axis], y.shape[axis], scales[axis]) for axis in (1, 2))
    return Interpolate(*source.called, x, y, down, across, truncates=True)


def _between(mode: str, size: int, length: int, scale: Float32) -> Between:
    """Where ``length`` places lie among ``size`` others; behind the last of these nothing is weighed."""
    at = COORDINATES[mode](np.arange(length, dtype=np.float32), scale, size, length).astype(np.float32)
    places = (np.clip(at, Float32(0), Float32(size - 1)) * Float32(INTERPOLATION_ONE)).astype(np.int64)
    first = np.minimum(places // INTERPOLATION_ONE, size - 1)
    part = np.where(first < size - 1, places - first * INTERPOLATION_ONE, 0)
    return Between(tuple(map(int, first)), tuple(map(int, part)))


def _axis(source: Source, size: int, length: int, scale: Float32) -> tuple[int, ...]:
    """For every element of y along an axis its place in x."""
    if scale == 1:
        return tuple(range(length))
    if source.node.version < 11:  # no attributes yet: asymmetric, and rounded up where the axis becomes shorter
        coordinate, nearest = COORDINATES["asymmetric"], NEAREST["ceil" if scale < 1 else "floor"]
    else:
        coordinate = COORDINATES[source.node.text("coordinate_transformation_mode", "half_pixel")]
        nearest = NEAREST[source.node.text("nearest_mode", "round_prefer_floor")]
    places = coordinate(np.arange(length, dtype=np.float32), scale, size, length)
    return tuple(min(max(nearest(float(place)), 0), size - 1) for place in places)


def _scales(source: Source, x: tuple[int, ...], y: tuple[int, ...]) -> list[Float32]:
    """The scales that are given, else those of the sizes."""
    index = 2 if source.node.version >= 11 else 1
    ratios = [Float32(length) / Float32(size) for size, length in zip(x, y, strict=True)]
    if source.has(3) or not source.has(index) or not source.array(index).size:
        return ratios
    axes = source.node.integers("axes") or tuple(range(len(x)))
    for axis, scale in zip(axes, source.array(index).reshape(-1), strict=True):
        ratios[axis] = Float32(scale)
    return ratios
