"""Operators of .tflite networks that only move elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, floor, prod

import numpy as np

from qcgen.arithmetic import INTERPOLATION_ONE
from qcgen.ir.program import Between, Concat, Interpolate, Operator, Pad, Reshape, Resize, Slice, Tensor, Transpose
from qcgen.ir.types import Layout
from qcgen.tflite.fixed_point import half_away
from qcgen.tflite.graph import AGAIN, Refused, TfliteOperands

MOST_PLACES = 2**16
"""Along an axis that is resized, repeated or reflected: the file could state any number."""


def lower_reshape(source: TfliteOperands) -> tuple[Operator, ...]:
    """EXPAND_DIMS, RESHAPE, SQUEEZE: to the shape that its output has in the file."""
    x, y = source.x(), source.y()
    if prod(x.shape) != prod(y.shape):
        raise Refused(f"its input has {prod(x.shape)} elements, its output {prod(y.shape)}", AGAIN)
    require_same_codes(x, y)
    return (Reshape(source.node.name, source.node.op_type, x, y),)


def lower_concatenation(source: TfliteOperands) -> tuple[Operator, ...]:
    """CONCATENATION: of tensors with the scale and the zero point of the output."""
    xs, y = tuple(source.x(index) for index in range(len(source.node.inputs))), source.y()
    if source.activation() != "NONE":
        raise Refused(f"its fused activation is {source.activation()}", AGAIN)
    return (_joined(source, xs, y, source.option("axis") + (len(y.shape) if source.option("axis") < 0 else 0)),)


def _joined(source: TfliteOperands, xs: tuple[Tensor, ...], y: Tensor, axis: int) -> Concat:
    for x in xs:
        require_same_codes(x, y)
    sizes = [x.shape[axis] if 0 <= axis < len(x.shape) else -1 for x in xs]
    others = {(*x.shape[:axis], *x.shape[axis + 1 :]) for x in (*xs, y)}
    if not xs or -1 in sizes or len(others) > 1 or sum(sizes) != y.shape[axis]:
        raise Refused(f"its inputs, one behind the other along axis {axis}, are not its output", AGAIN)
    return Concat(source.node.name, source.node.op_type, xs, y, axis)


def lower_pack(source: TfliteOperands) -> tuple[Operator, ...]:
    """PACK: the inputs one behind the other along a new axis."""
    xs, y = tuple(source.x(index) for index in range(len(source.node.inputs))), source.y()
    axis = _axis(source.option("axis"), len(y.shape))
    if any(x.shape != (*y.shape[:axis], *y.shape[axis + 1 :]) for x in xs):
        raise Refused(f"its inputs, side by side along axis {axis}, are not its output", AGAIN)
    name, op_type = source.node.name, source.node.op_type
    shape = (*y.shape[:axis], 1, *y.shape[axis + 1 :])
    parts = [source.inner(f"part{index}", x, shape) for index, x in enumerate(xs)]
    before = (Reshape(name, op_type, x, part) for x, part in zip(xs, parts, strict=True))
    return (*before, _joined(source, tuple(parts), y, axis))


def lower_unpack(source: TfliteOperands) -> tuple[Operator, ...]:
    """UNPACK: the places of an axis, which the outputs lack."""
    x, ys = source.x(), source.ys()
    axis = _axis(source.option("axis"), len(x.shape))
    if len(ys) != x.shape[axis] or any(y.shape != (*x.shape[:axis], *x.shape[axis + 1 :]) for y in ys):
        raise Refused(f"its outputs are not the places of axis {axis} of its input", AGAIN)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    found: list[Operator] = []
    for place, y in enumerate(ys):
        part = source.inner(f"part{place}", y, shape)
        found.append(_slice(source, x, part, axis, place))
        found.append(Reshape(source.node.name, source.node.op_type, part, y))
    return tuple(found)


def lower_split(source: TfliteOperands) -> tuple[Operator, ...]:
    """SPLIT: parts of equal size along a constant axis."""
    return _split(source, source.x(1), source.integers(0))


def lower_split_v(source: TfliteOperands) -> tuple[Operator, ...]:
    """SPLIT_V: parts along a constant axis, as large as the outputs."""
    return _split(source, source.x(0), source.integers(2))


def _split(source: TfliteOperands, x: Tensor, given: np.typing.NDArray[np.generic]) -> tuple[Operator, ...]:
    if given.size != 1:
        raise Refused(f"it is split along {given.size} axes, not one", AGAIN)
    axis = _axis(int(given.reshape(-1)[0]), len(x.shape))
    ys = source.ys()
    places = np.cumsum([0, *(y.shape[axis] if axis < len(y.shape) else 0 for y in ys)])
    if places[-1] != x.shape[axis] or any(
        (*y.shape[:axis], *y.shape[axis + 1 :]) != (*x.shape[:axis], *x.shape[axis + 1 :]) for y in ys
    ):
        raise Refused(f"its outputs are not parts of its input along axis {axis}", AGAIN)
    return tuple(_slice(source, x, y, axis, int(place)) for y, place in zip(ys, places, strict=False))


def _slice(source: TfliteOperands, x: Tensor, y: Tensor, axis: int, start: int) -> Slice:
    require_same_codes(x, y)
    starts = tuple(start if each == axis else 0 for each in range(len(x.shape)))
    return Slice(source.node.name, source.node.op_type, x, y, starts, (1,) * len(x.shape))


def lower_strided_slice(source: TfliteOperands) -> tuple[Operator, ...]:
    """STRIDED_SLICE: constant places and steps, which may be negative; axes may be dropped, not added."""
    x, y = source.x(), source.y()
    require_same_codes(x, y)
    if source.option("ellipsis_mask") or source.option("new_axis_mask"):
        raise Refused("it has an ellipsis or new axes", AGAIN)
    rank = len(x.shape)
    begin, end, step = ([int(each) for each in source.integers(index).reshape(-1)] for index in (1, 2, 3))
    if {len(begin), len(end), len(step)} != {rank} or 0 in step:
        raise Refused("its places are not one for each axis, or a step is 0", AGAIN)
    starts, shape, kept = [], [], []
    for axis, size in enumerate(x.shape):
        first = None if source.option("begin_mask") >> axis & 1 else begin[axis]
        last = None if source.option("end_mask") >> axis & 1 else end[axis]
        start, stop, _ = slice(first, last, step[axis]).indices(size)
        is_dropped = bool(source.option("shrink_axis_mask") >> axis & 1)
        count = 1 if is_dropped else max(0, ceil((stop - start) / step[axis]))
        starts.append(start)
        shape.append(count)
        kept += [] if is_dropped else [count]
    if tuple(kept) != y.shape or not all(0 <= start < size for start, size in zip(starts, x.shape, strict=True)):
        raise Refused(f"elements from {begin} to {end} in steps of {step} do not make its output", AGAIN)
    part = y if tuple(shape) == y.shape else source.inner("part", y, tuple(shape))
    name, op_type = source.node.name, source.node.op_type
    sliced = Slice(name, op_type, x, part, tuple(starts), tuple(step))
    return (sliced,) if part is y else (sliced, Reshape(name, op_type, part, y))


def lower_pad(source: TfliteOperands) -> tuple[Operator, ...]:
    """PAD, PADV2: constant counts of elements before and behind, which are the zero point, or a constant code."""
    x, y = source.x(), source.y()
    require_same_codes(x, y)
    before = _padded(source, x, y)
    value = source.constant_code(2) if source.node.op_type == "PADV2" else y.zero_point or 0
    return (Pad(source.node.name, source.node.op_type, x, y, before, float(value)),)


def _padded(source: TfliteOperands, x: Tensor, y: Tensor) -> tuple[int, ...]:
    """How many elements come in front, along each axis."""
    counts = source.integers(1)
    pairs = counts.reshape(-1, 2) if counts.size % 2 == 0 else counts.reshape(-1, 1)
    shape = tuple(size + int(pair.sum()) for size, pair in zip(x.shape, pairs, strict=False))
    if pairs.shape != (len(x.shape), 2) or (pairs < 0).any() or shape != y.shape:
        raise Refused(f"{counts.tolist()} elements around its input do not make its output", AGAIN)
    return tuple(int(count) for count in pairs[:, 0])


def lower_mirror_pad(source: TfliteOperands) -> tuple[Operator, ...]:
    """MIRROR_PAD: constant counts of elements before and behind, reflected, with those at the edge or without."""
    x, y = _of_few_places(source)
    before, mode = _padded(source, x, y), "symmetric" if source.option("mode") else "reflect"
    places = []
    for front, size, whole in zip(before, x.shape, y.shape, strict=True):
        behind = whole - size - front
        if max(front, behind) > size - (mode == "reflect"):
            raise Refused(f"it adds {max(front, behind)} elements to an axis of {size}", AGAIN)
        places.append(np.pad(np.arange(size), (front, behind), mode))  # type: ignore[call-overload]
    return (_placed(source, x, y, places),)


def _of_few_places(source: TfliteOperands) -> tuple[Tensor, Tensor]:
    """Input and output of an operator that says of each place of an axis where its elements come from."""
    x, y = source.x(), source.y()
    require_same_codes(x, y)
    if max((*x.shape, *y.shape, 0)) > MOST_PLACES:
        raise Refused(f"it makes {y.shape} of {x.shape}", f"use axes of {MOST_PLACES} places at most")
    return x, y


def _placed(source: TfliteOperands, x: Tensor, y: Tensor, places: Sequence[Sequence[int]]) -> Resize:
    """The elements of x at places along each axis."""
    numbers = tuple(tuple(int(place) for place in each) for each in places)
    return Resize(source.node.name, source.node.op_type, x, y, numbers)


def lower_tile(source: TfliteOperands) -> tuple[Operator, ...]:
    """TILE, BROADCAST_TO: repeated as often as its output is larger."""
    x, y = _of_few_places(source)
    shape = (*(1 for _ in y.shape[len(x.shape) :]), *x.shape)
    name, op_type = source.node.name, source.node.op_type
    is_tile = op_type == "TILE"
    if len(shape) != len(y.shape) or any(
        whole % size if is_tile else size not in (1, whole) for size, whole in zip(shape, y.shape, strict=True)
    ):
        raise Refused(f"its input {x.shape}, repeated, is not its output {y.shape}", AGAIN)
    given = x if shape == x.shape else source.inner("extended", x, shape)
    before = () if given is x else (Reshape(name, op_type, x, given),)
    places = [[place % size for place in range(whole)] for size, whole in zip(shape, y.shape, strict=True)]
    return (*before, _placed(source, given, y, places))


def lower_gather(source: TfliteOperands) -> tuple[Operator, ...]:
    """GATHER: at constant places of one axis."""
    x, y = _of_few_places(source)
    axis = _axis(source.option("axis"), len(x.shape))
    wanted = source.integers(1)
    if source.option("batch_dims") or not wanted.size or not ((wanted >= 0) & (wanted < x.shape[axis])).all():
        raise Refused("its places are beyond its input, or differ from batch to batch", AGAIN)
    shape = (*x.shape[:axis], wanted.size, *x.shape[axis + 1 :])
    if prod(shape) != prod(y.shape):
        raise Refused(f"its places do not make its output {y.shape}", AGAIN)
    places = [range(size) if each != axis else wanted.reshape(-1).tolist() for each, size in enumerate(x.shape)]
    part = y if shape == y.shape else source.inner("places", y, shape)
    after = () if part is y else (Reshape(source.node.name, source.node.op_type, part, y),)
    return (_placed(source, x, part, places), *after)


def lower_resize_nearest(source: TfliteOperands) -> tuple[Operator, ...]:
    """RESIZE_NEAREST_NEIGHBOR: any size, with align_corners or half_pixel_centers or neither.

    Source: kernels/internal/reference/resize_nearest_neighbor.h, in float32.
    """
    x, y = _of_few_places(source)
    if len(x.shape) != 4 or len(y.shape) != 4 or x.shape[::3] != y.shape[::3]:
        raise Refused(f"its input {x.shape} does not become its output {y.shape}", AGAIN)
    has_corners, offset = source.option("align_corners"), np.float32(0.5 if source.option("half_pixel_centers") else 0)
    places: list[Sequence[int]] = []
    for axis, (size, whole) in enumerate(zip(x.shape, y.shape, strict=True)):
        ends = (size - 1, whole - 1) if has_corners and whole > 1 else (size, whole)
        scale = np.float32(ends[0]) / np.float32(ends[1])
        rounded = half_away if has_corners else floor
        moved = [min(rounded(float((np.float32(place) + offset) * scale)), size - 1) for place in range(whole)]
        places.append(range(size) if axis in (0, 3) else moved)
    return (_placed(source, x, y, places),)


def lower_resize_bilinear(source: TfliteOperands) -> tuple[Operator, ...]:
    """RESIZE_BILINEAR: any size, with align_corners or half_pixel_centers or neither; in fixed point of 10 bits.

    Source: ResizeBilinearInteger in kernels/internal/reference/resize_bilinear.h.
    """
    x, y = _of_few_places(source)
    if len(x.shape) != 4 or len(y.shape) != 4 or x.shape[::3] != y.shape[::3]:
        raise Refused(f"its input {x.shape} does not become its output {y.shape}", AGAIN)
    if source.option("align_corners") and source.option("half_pixel_centers"):
        raise Refused("it has align_corners and half_pixel_centers", AGAIN)
    down, across = (_between(source, size, whole) for size, whole in zip(x.shape[1:3], y.shape[1:3], strict=True))
    x, y = (replace(tensor, layout=Layout.CHANNELS_LAST) for tensor in (x, y))
    return (Interpolate(source.node.name, source.node.op_type, x, y, down, across),)


def _between(source: TfliteOperands, size: int, whole: int) -> Between:
    """Where ``whole`` places lie among ``size`` others; what TensorFlow Lite Micro weighs with itself is a place."""
    ends = (size - 1, whole - 1) if source.option("align_corners") and whole > 1 else (size, whole)
    step = (ends[0] * INTERPOLATION_ONE + ends[1] // 2) // ends[1]
    start = step // 2 - INTERPOLATION_ONE // 2 if source.option("half_pixel_centers") else 0
    found = [divmod(max(start + place * step, 0), INTERPOLATION_ONE) for place in range(whole)]
    first = tuple(place for place, _ in found)
    if first[-1] >= size:
        what = f"it makes {whole} places of {size}, where TensorFlow Lite Micro, rounding its steps, reads beyond them"
        raise Refused(what, "resize to another size, or in two steps")
    return Between(first, tuple(part if place < size - 1 else 0 for place, part in found))


def lower_transpose(source: TfliteOperands) -> tuple[Operator, ...]:
    """TRANSPOSE: a constant order of axes."""
    x, y = source.x(), source.y()
    require_same_codes(x, y)
    order = tuple(int(axis) for axis in source.integers(1).reshape(-1))
    if sorted(order) != list(range(len(x.shape))) or tuple(x.shape[axis] for axis in order) != y.shape:
        raise Refused(f"the order {order} of axes does not make its output", AGAIN)
    return (Transpose(source.node.name, source.node.op_type, x, y, order),)


def lower_blocks(source: TfliteOperands) -> tuple[Operator, ...]:
    """DEPTH_TO_SPACE, SPACE_TO_DEPTH: blocks of pixels become channels, or the other way round."""
    x, y = source.x(), source.y()
    require_same_codes(x, y)
    block, is_deep = source.option("block_size"), source.node.op_type == "SPACE_TO_DEPTH"
    if len(x.shape) != 4 or not 0 < block < 2**15:
        raise Refused(f"its input has the shape {x.shape}, its blocks the size {block}", AGAIN)
    n, h, w, c = (x if is_deep else y).shape if len(y.shape) == 4 else (0, 0, 0, 0)
    fine, coarse = (n, h, w, c), (n, h // block, w // block, c * block * block)
    if (x.shape, y.shape) != ((fine, coarse) if is_deep else (coarse, fine)) or h % block or w % block:
        raise Refused(f"blocks of {block} do not make its output {y.shape} of {x.shape}", AGAIN)
    parted = (n, h // block, block, w // block, block, c)
    moved = (n, h // block, w // block, block, block, c)
    shapes = (parted, moved) if is_deep else (moved, parted)
    name, op_type, order = source.node.name, source.node.op_type, (0, 1, 3, 2, 4, 5)
    first, second = (source.inner(word, y, shape) for word, shape in zip(("parted", "moved"), shapes, strict=True))
    return (
        Reshape(name, op_type, x, first),
        Transpose(name, op_type, first, second, order),
        Reshape(name, op_type, second, y),
    )


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise Refused(f"there is no axis {axis} among {rank}", AGAIN)
    return axis % rank


def require_same_codes(x: Tensor, y: Tensor) -> None:
    """Refuses a movement to another scale or zero point."""
    if (x.scale, x.zero_point) != (y.scale, y.zero_point):
        raise Refused("its output has another scale or zero point than its input", AGAIN)


MOVEMENTS: dict[str, Callable[[TfliteOperands], tuple[Operator, ...]]] = {
    "BROADCAST_TO": lower_tile,
    "CONCATENATION": lower_concatenation,
    "DEPTH_TO_SPACE": lower_blocks,
    "EXPAND_DIMS": lower_reshape,
    "GATHER": lower_gather,
    "MIRROR_PAD": lower_mirror_pad,
    "PACK": lower_pack,
    "PAD": lower_pad,
    "PADV2": lower_pad,
    "RESHAPE": lower_reshape,
    "RESIZE_BILINEAR": lower_resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": lower_resize_nearest,
    "SPACE_TO_DEPTH": lower_blocks,
    "SPLIT": lower_split,
    "SPLIT_V": lower_split_v,
    "SQUEEZE": lower_reshape,
    "STRIDED_SLICE": lower_strided_slice,
    "TILE": lower_tile,
    "TRANSPOSE": lower_transpose,
    "UNPACK": lower_unpack,
}
"""How each of them is read."""
