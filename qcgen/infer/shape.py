"""Types and shapes of operators that move elements: reshapes, transpositions, slices, paddings."""

from __future__ import annotations

from math import floor

import numpy as np

from qcgen.infer.facts import Facts, Shape, TensorType, axis_of, integers, product
from qcgen.ir.graph import Dim
from qcgen.ir.types import DType


def transpose(facts: Facts) -> tuple[TensorType, ...]:
    """The axes in the order of perm, reversed by default."""
    x = facts.shape(0)
    if x is None:
        return (facts.same(0),)
    perm = facts.integers("perm") or tuple(reversed(range(len(x))))
    if sorted(perm) != list(range(len(x))):
        raise ValueError("perm is not a permutation of the axes")
    return (TensorType(facts.dtype(0), tuple(x[axis] for axis in perm)),)


def reshape(facts: Facts) -> tuple[TensorType, ...]:
    """The new shape, where 0 keeps the dimension (unless allowzero) and -1 takes what is left."""
    x, target = facts.shape(0), facts.integers_at(1, "shape")
    if target is None:
        return (TensorType(facts.dtype(0), None),)
    keeps = not facts.integer("allowzero", 0)
    dims: list[Dim] = []
    for index, dim in enumerate(target):
        if dim == 0 and keeps:
            dims.append(x[index] if x is not None else None)
        else:
            dims.append(dim)
    if -1 in dims:
        index = dims.index(-1)
        dims[index] = _rest(x, dims[:index] + dims[index + 1 :])
    return (TensorType(facts.dtype(0), tuple(dims)),)


def _rest(x: Shape | None, others: list[Dim]) -> Dim:
    """The dimension that -1 stands for: elements left after the other dimensions, symbolic ones cancelled."""
    if x is None:
        return None
    dims: list[Dim] = list(x)
    for dim in [dim for dim in others if isinstance(dim, str) and dim in dims]:
        dims.remove(dim)
        others.remove(dim)
    symbolic = [dim for dim in dims if not isinstance(dim, int)]
    elements, taken = product([dim for dim in dims if isinstance(dim, int)]), product(others)
    if elements is None or not taken or elements % taken:
        return None
    if not symbolic:
        return elements // taken
    return symbolic[0] if len(symbolic) == 1 and elements == taken else None


def flatten(facts: Facts) -> tuple[TensorType, ...]:
    """Two dimensions: the product of those before the axis and of those from it on."""
    x = facts.shape(0)
    if x is None:
        return (TensorType(facts.dtype(0), (None, None)),)
    axis = facts.integer("axis", 1)
    axis = axis + len(x) if axis < 0 else axis
    return (TensorType(facts.dtype(0), (_merged(x[:axis]), _merged(x[axis:]))),)


def _merged(dims: Shape) -> Dim:
    others = [dim for dim in dims if dim != 1]
    return others[0] if len(others) == 1 else product(dims)


def squeeze(facts: Facts) -> tuple[TensorType, ...]:
    """Without the named axes, or without all of length 1."""
    x, axes = facts.shape(0), facts.integers_at(1, "axes")
    if x is None or (facts.has(1) and axes is None) or (axes is None and product(x) is None):
        return (TensorType(facts.dtype(0), None),)
    if axes is None:
        return (TensorType(facts.dtype(0), tuple(dim for dim in x if dim != 1)),)
    gone = {axis_of(axis, len(x)) for axis in axes}
    return (TensorType(facts.dtype(0), tuple(dim for axis, dim in enumerate(x) if axis not in gone)),)


def unsqueeze(facts: Facts) -> tuple[TensorType, ...]:
    """With axes of length 1 inserted; they count in the result."""
    x, axes = facts.shape(0), facts.integers_at(1, "axes")
    if x is None or axes is None:
        return (TensorType(facts.dtype(0), None),)
    rank = len(x) + len(axes)
    new = {axis_of(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise ValueError("an axis is inserted twice")
    old = iter(x)
    return (TensorType(facts.dtype(0), tuple(1 if axis in new else next(old) for axis in range(rank))),)


def concat(facts: Facts) -> tuple[TensorType, ...]:
    """Concat: every input is a part."""
    return (_concatenated(facts, range(len(facts.inputs)), facts.dtype(0)),)


def quantized_concat(facts: Facts) -> tuple[TensorType, ...]:
    """QLinearConcat: (Y_scale, Y_zero_point, then x, scale, zero point of every part)."""
    return (_concatenated(facts, range(2, len(facts.inputs), 3), facts.dtype(1)),)


def _concatenated(facts: Facts, parts: range, dtype: DType | None) -> TensorType:
    known = [shape for shape in (facts.shape(index) for index in parts) if shape is not None]
    if len(known) != len(parts) or not known or len({len(shape) for shape in known}) != 1:
        return TensorType(dtype, None)
    axis = axis_of(facts.integer("axis", 1), len(known[0]))
    dims: list[Dim] = []
    for index, column in enumerate(zip(*known, strict=True)):
        numbers = [dim for dim in column if isinstance(dim, int)]
        if index == axis:
            dims.append(sum(numbers) if len(numbers) == len(column) else None)
        elif len(set(numbers)) > 1:
            raise ValueError("the parts do not agree")
        else:
            dims.append(numbers[0] if numbers else column[0])
    return TensorType(dtype, tuple(dims))


def slice_(facts: Facts) -> tuple[TensorType, ...]:
    """Slice as Python slices, along the named axes."""
    x = facts.shape(0)
    starts, ends = facts.integers_at(1, "starts"), facts.integers_at(2, "ends")
    if x is None or starts is None or ends is None:
        return (TensorType(facts.dtype(0), None if x is None else (None,) * len(x)),)
    axes = facts.integers_at(3, "axes") or tuple(range(len(starts)))
    steps = facts.integers_at(4, "steps") or (1,) * len(starts)
    dims = list(x)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index = axis_of(axis, len(x))
        size = x[index]
        dims[index] = len(range(*slice(start, end, step).indices(size))) if isinstance(size, int) else None
    return (TensorType(facts.dtype(0), tuple(dims)),)


def split(facts: Facts) -> tuple[TensorType, ...]:
    """The lengths that are given, or equal ones, the last of which may be shorter."""
    x, lengths, parts = facts.shape(0), facts.integers_at(1, "split"), len(facts.node.outputs)
    if x is None or (facts.has(1) and lengths is None):
        return (TensorType(facts.dtype(0), None),) * parts
    axis = axis_of(facts.integer("axis", 0), len(x))
    size = x[axis]
    dims: tuple[Dim, ...] = (None,) * parts
    if lengths is not None:
        dims = lengths
    elif isinstance(size, int):
        dims = split_evenly(size, parts)
    return tuple(TensorType(facts.dtype(0), (*x[:axis], dim, *x[axis + 1 :])) for dim in dims)


def split_evenly(size: int, parts: int) -> tuple[int, ...]:
    """The lengths of the parts where a Split gives none: equal ones, the last of which may be shorter."""
    chunk = -(-size // parts)
    return (chunk,) * (parts - 1) + (size - chunk * (parts - 1),)


def pad(facts: Facts) -> tuple[TensorType, ...]:
    """Every axis longer by its two pads, which may be negative."""
    x, pads = facts.shape(0), facts.integers_at(1, "pads")
    if x is None or pads is None or (facts.has(3) and facts.constant(3) is None):
        return (TensorType(facts.dtype(0), None if x is None else (None,) * len(x)),)
    axes = facts.integers_at(3, "axes") if facts.has(3) else None
    indices = range(len(x)) if axes is None else [axis_of(axis, len(x)) for axis in axes]
    dims = list(x)
    half = len(pads) // 2
    for index, begin, end in zip(indices, pads[:half], pads[half:], strict=True):
        size = dims[index]
        if begin or end:
            dims[index] = size + begin + end if isinstance(size, int) else None
    return (TensorType(facts.dtype(0), tuple(dims)),)


def resize(facts: Facts) -> tuple[TensorType, ...]:
    """The sizes that are given, or the scaled ones, rounded down. Not for the keep_aspect_ratio_policies."""
    x = facts.shape(0)
    scales = facts.constant(2 if facts.node.version >= 11 else 1)
    sizes = facts.integers_at(3, "sizes")
    if x is None or facts.node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return (TensorType(facts.dtype(0), None),)
    axes = [axis_of(axis, len(x)) for axis in facts.integers("axes") or range(len(x))]
    dims = list(x)
    if sizes is not None:
        for axis, length in zip(axes, sizes, strict=True):
            dims[axis] = length
    elif scales is not None and scales.size:
        for axis, scale in zip(axes, scales.reshape(-1), strict=True):
            size = dims[axis]
            # float32, as the runtimes compute it
            dims[axis] = floor(float(np.float32(size) * np.float32(scale))) if isinstance(size, int) else None
    else:
        return (TensorType(facts.dtype(0), (None,) * len(x)),)
    return (TensorType(facts.dtype(0), tuple(dims)),)


def reduce(facts: Facts) -> tuple[TensorType, ...]:
    """The named axes shrink to 1, or vanish without keepdims; all axes if none is named."""
    axes = facts.integers_at(1, "axes")
    if facts.has(1) and axes is None:
        return (TensorType(facts.dtype(0), None),)
    if not axes and facts.integer("noop_with_empty_axes", 0):
        return (facts.same(0),)
    return (TensorType(facts.dtype(0), reduced(facts.shape(0), axes, facts.integer("keepdims", 1))),)


def reduced(x: Shape | None, axes: tuple[int, ...] | None, keepdims: int) -> Shape | None:
    """A shape whose named axes, or all, have shrunk to 1, or have vanished."""
    if x is None:
        return None
    gone = {axis_of(axis, len(x)) for axis in axes or range(len(x))}
    kept: Shape = (1,) if keepdims else ()
    dims = [kept if axis in gone else (dim,) for axis, dim in enumerate(x)]
    return tuple(dim for part in dims for dim in part)


def arg_max(facts: Facts) -> tuple[TensorType, ...]:
    """ArgMax and ArgMin: int64, the axis shrunk to 1 or gone."""
    axes = (facts.integer("axis", 0),)
    return (TensorType(DType.INT64, reduced(facts.shape(0), axes, facts.integer("keepdims", 1))),)


def top_k(facts: Facts) -> tuple[TensorType, ...]:
    """TopK: values and their places, int64, as many along the axis as K says."""
    x, found = facts.shape(0), facts.integers_at(1, "k")
    if x is None or found is None:
        return (TensorType(facts.dtype(0), None), TensorType(DType.INT64, None))
    axis = axis_of(facts.integer("axis", -1), len(x))
    shape = (*x[:axis], found[0], *x[axis + 1 :])
    return (TensorType(facts.dtype(0), shape), TensorType(DType.INT64, shape))


def gather_elements(facts: Facts) -> tuple[TensorType, ...]:
    """The shape of the indices."""
    return (TensorType(facts.dtype(0), facts.shape(1)),)


def gather(facts: Facts) -> tuple[TensorType, ...]:
    """The gathered axis is replaced by the shape of the indices."""
    x, indices = facts.shape(0), facts.shape(1)
    if x is None or indices is None:
        return (TensorType(facts.dtype(0), None),)
    axis = axis_of(facts.integer("axis", 0), len(x))
    return (TensorType(facts.dtype(0), x[:axis] + indices + x[axis + 1 :]),)


def shape(facts: Facts) -> tuple[TensorType, ...]:
    """One int64 per axis from start to end."""
    x = facts.shape(0)
    if x is None:
        return (TensorType(DType.INT64, (None,)),)
    end = facts.integers("end")
    axes = x[facts.integer("start", 0) : end[0] if end else None]
    return (TensorType(DType.INT64, (len(axes),)),)


def expand(facts: Facts) -> tuple[TensorType, ...]:
    """The input broadcast to a constant shape."""
    from_shape, target = facts.shape(0), facts.constant(1)
    if from_shape is None or target is None:
        return (TensorType(facts.dtype(0), None),)
    numbers = integers(target)
    rank = max(len(from_shape), len(numbers))
    padded = (1,) * (rank - len(from_shape)) + from_shape
    wide = (1,) * (rank - len(numbers)) + numbers
    return (TensorType(facts.dtype(0), tuple(b if a == 1 else a for a, b in zip(padded, wide, strict=True))),)


def tile(facts: Facts) -> tuple[TensorType, ...]:
    """Every axis as many times as long as its repeat says."""
    x, repeats = facts.shape(0), facts.constant(1)
    if x is None or repeats is None:
        return (TensorType(facts.dtype(0), None if x is None else (None,) * len(x)),)
    pairs = zip(x, integers(repeats), strict=True)
    return (TensorType(facts.dtype(0), tuple(product((size, times)) for size, times in pairs)),)


def depth_to_space(facts: Facts) -> tuple[TensorType, ...]:
    """Fewer channels, more pixels."""
    x, size = _image(facts), facts.integer("blocksize", 0)
    if x is None:
        return (TensorType(facts.dtype(0), None),)
    batch, channels, height, width = x
    shape = (batch, _divided(channels, size**2), product((height, size)), product((width, size)))
    return (TensorType(facts.dtype(0), shape),)


def space_to_depth(facts: Facts) -> tuple[TensorType, ...]:
    """Fewer pixels, more channels."""
    x, size = _image(facts), facts.integer("blocksize", 0)
    if x is None:
        return (TensorType(facts.dtype(0), None),)
    batch, channels, height, width = x
    shape = (batch, product((channels, size**2)), _divided(height, size), _divided(width, size))
    return (TensorType(facts.dtype(0), shape),)


def _image(facts: Facts) -> Shape | None:
    x = facts.shape(0)
    if x is not None and len(x) != 4:
        raise ValueError("an image has four axes")
    return x


def _divided(dim: Dim, by: int) -> Dim:
    if not isinstance(dim, int):
        return None
    if by < 1 or dim % by:
        raise ValueError("a dimension cannot be divided")
    return dim // by
