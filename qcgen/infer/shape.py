"""Shapes of operators that move elements: reshapes, transpositions, slices, paddings."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor

import numpy as np

from qcgen.infer.facts import Facts, Shape, TensorType, Unknown, axis_of, broadcast, product
from qcgen.ir.graph import Dim


def transpose(facts: Facts) -> Shape:
    """The axes in the order of perm, reversed by default."""
    x = facts.known_shape()
    perm = facts.integers("perm") or tuple(reversed(range(len(x))))
    if sorted(perm) != list(range(len(x))):
        raise ValueError("perm is not a permutation of the axes")
    return tuple(x[axis] for axis in perm)


def reshape(facts: Facts) -> Shape:
    """The new shape, where 0 keeps the dimension (unless allowzero) and -1 takes what is left."""
    x, target = facts.shape(0), facts.known_integers(1, "shape")
    keeps = not facts.integer("allowzero", 0)
    kept = (None,) * len(target) if x is None else x
    dims = [kept[index] if dim == 0 and keeps else dim for index, dim in enumerate(target)]
    if -1 in dims:
        index = dims.index(-1)
        dims[index] = _rest(x, dims[:index] + dims[index + 1 :])
    return tuple(dims)


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


def flatten(facts: Facts) -> Shape:
    """Two dimensions: the product of those before the axis and of those from it on."""
    x, axis = facts.shape(0), facts.integer("axis", 1)
    if x is None:
        return (None, None)
    return (_merged(x[:axis]), _merged(x[axis:]))


def _merged(dims: Shape) -> Dim:
    others = [dim for dim in dims if dim != 1]
    return others[0] if len(others) == 1 else product(dims)


def squeeze(facts: Facts) -> Shape | None:
    """Without the named axes, or without all of length 1."""
    x, axes = facts.known_shape(), facts.integers_at(1, "axes")
    if axes is None:
        return None if product(x) is None else tuple(dim for dim in x if dim != 1)
    return reduced(x, axes)


def unsqueeze(facts: Facts) -> Shape:
    """With axes of length 1 inserted; they count in the result."""
    x, axes = facts.known_shape(), facts.known_integers(1, "axes")
    rank = len(x) + len(axes)
    new = {axis_of(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise ValueError("an axis is inserted twice")
    old = iter(x)
    return tuple(1 if axis in new else next(old) for axis in range(rank))


def concat(facts: Facts) -> Shape | None:
    """The parts, one behind the other."""
    parts = [facts.known_shape(index) for index in range(len(facts.inputs))]
    if len({len(part) for part in parts}) != 1:
        return None
    axis = axis_of(facts.integer("axis", 1), len(parts[0]))
    dims: list[Dim] = []
    for index, column in enumerate(zip(*parts, strict=True)):
        numbers = [dim for dim in column if isinstance(dim, int)]
        if index == axis:
            dims.append(sum(numbers) if len(numbers) == len(column) else None)
        elif len(set(numbers)) > 1:
            raise ValueError("the parts do not agree")
        else:
            dims.append(numbers[0] if numbers else column[0])
    return tuple(dims)


def slice_(facts: Facts) -> Shape:
    """Slice as Python slices, along the named axes."""
    x = facts.known_shape()
    starts, ends = facts.known_integers(1, "starts"), facts.known_integers(2, "ends")
    axes = facts.integers_at(3, "axes") or tuple(range(len(starts)))
    steps = facts.integers_at(4, "steps") or (1,) * len(starts)
    dims = list(x)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index = axis_of(axis, len(x))
        size = x[index]
        dims[index] = len(range(*slice(start, end, step).indices(size))) if isinstance(size, int) else None
    return tuple(dims)


def split(facts: Facts) -> tuple[TensorType, ...]:
    """The lengths that are given, or equal ones, the last of which may be shorter."""
    x, parts = facts.shape(0), len(facts.node.outputs)
    try:
        lengths = facts.integers_at(1, "split")
    except Unknown:
        x = None
    if x is None:
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


def pad(facts: Facts) -> Shape:
    """Every axis longer by its two pads, which may be negative."""
    dims, pads = list(facts.known_shape()), facts.known_integers(1, "pads")
    axes = facts.integers_at(3) if facts.has(3) else None
    indices = range(len(dims)) if axes is None else [axis_of(axis, len(dims)) for axis in axes]
    half = len(pads) // 2
    for index, begin, end in zip(indices, pads[:half], pads[half:], strict=True):
        size = dims[index]
        if begin or end:
            dims[index] = size + begin + end if isinstance(size, int) else None
    return tuple(dims)


def resize(facts: Facts) -> Shape | None:
    """The sizes that are given, or the scaled ones, rounded down. Not for the keep_aspect_ratio_policies."""
    if facts.node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    place = 2 if facts.node.version >= 11 else 1
    dims, sizes = list(facts.known_shape()), facts.integers_at(3, "sizes")
    scales = facts.constants[place] if facts.has(place) else None
    axes = [axis_of(axis, len(dims)) for axis in facts.integers("axes") or range(len(dims))]
    if sizes is not None:
        for axis, length in zip(axes, sizes, strict=True):
            dims[axis] = length
    elif scales is not None and scales.size:
        for axis, scale in zip(axes, scales.reshape(-1), strict=True):
            size = dims[axis]
            # float32, as the runtimes compute it
            dims[axis] = floor(float(np.float32(size) * np.float32(scale))) if isinstance(size, int) else None
    else:
        raise Unknown
    return tuple(dims)


def reduce(facts: Facts) -> Shape | None:
    """The named axes shrink to 1, or vanish without keepdims; all axes if none is named."""
    axes = facts.integers_at(1, "axes")
    if not axes and facts.integer("noop_with_empty_axes", 0):
        return facts.shape(0)
    x = facts.known_shape()
    return reduced(x, axes or range(len(x)), facts.integer("keepdims", 1))


def reduced(x: Shape, axes: Iterable[int], keepdims: int = 0) -> Shape:
    """A shape whose named axes have shrunk to 1, or have vanished."""
    gone = {axis_of(axis, len(x)) for axis in axes}
    return tuple(1 if axis in gone else dim for axis, dim in enumerate(x) if keepdims or axis not in gone)


def arg_max(facts: Facts) -> Shape:
    """The axis shrunk to 1 or gone."""
    return reduced(facts.known_shape(), (facts.integer("axis", 0),), facts.integer("keepdims", 1))


def top_k(facts: Facts) -> Shape:
    """As many along the axis as K says."""
    x, found = facts.known_shape(), facts.known_integers(1, "k")
    axis = axis_of(facts.integer("axis", -1), len(x))
    return (*x[:axis], found[0], *x[axis + 1 :])


def gather(facts: Facts) -> Shape:
    """The gathered axis is replaced by the shape of the indices."""
    x, indices = facts.known_shape(0), facts.known_shape(1)
    axis = axis_of(facts.integer("axis", 0), len(x))
    return x[:axis] + indices + x[axis + 1 :]


def shape(facts: Facts) -> Shape:
    """One element per axis from start to end."""
    x = facts.shape(0)
    if x is None:
        return (None,)
    end = facts.integers("end")
    return (len(x[facts.integer("start", 0) : end[0] if end else None]),)


def range_(facts: Facts) -> Shape:
    """As many numbers as (limit - start) / delta, rounded up."""
    start, limit, delta = facts.constants
    if start is None or limit is None or delta is None:
        raise Unknown
    return (max(0, ceil(float((limit - start).reshape(())) / float(delta.reshape(())))),)


def expand(facts: Facts) -> Shape | None:
    """The input broadcast to a constant shape."""
    return broadcast(facts.known_shape(), facts.known_integers(1))


def tile(facts: Facts) -> Shape:
    """Every axis as many times as long as its repeat says."""
    pairs = zip(facts.known_shape(), facts.known_integers(1), strict=True)
    return tuple(product((size, times)) for size, times in pairs)


def depth_to_space(facts: Facts) -> Shape:
    """Fewer channels, more pixels."""
    batch, channels, height, width = facts.known_shape()
    size = facts.integer("blocksize", 0)
    return (batch, _divided(channels, size**2), product((height, size)), product((width, size)))


def space_to_depth(facts: Facts) -> Shape:
    """Fewer pixels, more channels."""
    batch, channels, height, width = facts.known_shape()
    size = facts.integer("blocksize", 0)
    return (batch, product((channels, size**2)), _divided(height, size), _divided(width, size))


def _divided(dim: Dim, by: int) -> Dim:
    if not isinstance(dim, int):
        return None
    if by < 1 or dim % by:
        raise ValueError("a dimension cannot be divided")
    return dim // by
