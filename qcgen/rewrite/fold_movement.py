"""Constant folding of operators that make, move and repeat elements."""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from qcgen.ir.types import Array
from qcgen.rewrite.operands import Operands, integers
from qcgen.rewrite.sizes import range_size

CONSTANT_TYPES: dict[str, type[np.generic]] = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
}
"""The types of the constants that Constant has as plain attributes."""


def constant(operands: Operands) -> tuple[Array, ...] | None:
    """The tensor in the attribute value, or the number or list in value_int, value_floats and so on."""
    for name, value in operands.node.attributes.items():
        if name == "value" and isinstance(value, np.ndarray):
            return (value,)
        if name in CONSTANT_TYPES:
            return (np.array(value, CONSTANT_TYPES[name]),)
        if name in ("value_string", "value_strings"):
            return (np.array(value, object),)
    return None


def constant_of_shape(operands: Operands) -> tuple[Array, ...]:
    """The shape that the input holds, filled with the attribute value, a float 0 by default."""
    value = operands.attribute("value")
    fill = value.reshape(-1)[:1] if isinstance(value, np.ndarray) else np.zeros(1, np.float32)
    return (np.full(integers(operands[0]), fill[0], fill.dtype),)


def range_(operands: Operands) -> tuple[Array, ...]:
    """Numbers from the first input up to before the second one, each the third more than the one before."""
    numbers = np.full(range_size(operands), operands[2], operands[2].dtype)
    numbers[:1] = operands[0]
    return (np.add.accumulate(numbers, dtype=numbers.dtype),)


def identity(operands: Operands) -> tuple[Array, ...]:
    """The input."""
    return (operands[0],)


def concat(operands: Operands) -> tuple[Array, ...]:
    """The inputs one behind the other."""
    parts = [operands[index] for index in range(len(operands.arrays))]
    if len({part.dtype for part in parts}) != 1:
        raise TypeError("the parts have different types")
    return (np.concatenate(parts, axis=operands.integer("axis", 1)),)


def reshape(operands: Operands) -> tuple[Array, ...]:
    """The new shape, where 0 keeps the dimension (unless allowzero) and -1 takes what is left."""
    x, target = operands[0], operands.integers_at(1, "shape")
    if target is None:
        raise ValueError("the shape is absent")
    if not operands.integer("allowzero", 0):
        target = tuple(x.shape[index] if dim == 0 else dim for index, dim in enumerate(target))
    return (x.reshape(target),)


def flatten(operands: Operands) -> tuple[Array, ...]:
    """Two dimensions: the product of those before the axis and of those from it on."""
    x, axis = operands[0], operands.integer("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return (x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:])),)


def transpose(operands: Operands) -> tuple[Array, ...]:
    """The axes in the order of perm, reversed by default."""
    return (np.transpose(operands[0], operands.integers("perm")),)


def squeeze(operands: Operands) -> tuple[Array, ...]:
    """Without the named axes, or without all of length 1."""
    return (np.squeeze(operands[0], operands.integers_at(1, "axes")),)


def unsqueeze(operands: Operands) -> tuple[Array, ...]:
    """With axes of length 1 inserted; they count in the result."""
    axes = operands.integers_at(1, "axes")
    if axes is None:
        raise ValueError("the axes are absent")
    return (np.expand_dims(operands[0], axes),)


def slice_(operands: Operands) -> tuple[Array, ...]:
    """Slice as Python slices, along the named axes."""
    x = operands[0]
    starts, ends = operands.integers_at(1, "starts"), operands.integers_at(2, "ends")
    if starts is None or ends is None:
        raise ValueError("starts or ends are absent")
    axes = operands.integers_at(3, "axes") or tuple(range(len(starts)))
    steps = operands.integers_at(4, "steps") or (1,) * len(starts)
    cut = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        first, stop, stride = slice(start, end, step).indices(x.shape[axis])
        # A stop of -1 on the way down means "through element 0", which Python spells None.
        cut[axis] = slice(first, None if stop < 0 else stop, stride)
    return (x[tuple(cut)],)


def gather(operands: Operands) -> tuple[Array, ...]:
    """The elements at the indices along one axis; negative indices count from the end."""
    indices = operands[1]
    if indices.dtype.kind not in "iu":
        raise TypeError("indices must be integers")
    return (np.take(operands[0], indices, axis=operands.integer("axis", 0)),)


def expand(operands: Operands) -> tuple[Array, ...]:
    """The input broadcast with a shape, which may be narrower."""
    shape = np.broadcast_shapes(operands[0].shape, integers(operands[1]))
    return (np.broadcast_to(operands[0], shape),)


def pad(operands: Operands) -> tuple[Array, ...] | None:
    """Elements added around the input: a constant, the edge, its reflection; not for negative pads."""
    x, pads = operands[0], operands.integers_at(1, "pads")
    axes = integers(operands[3]) if operands.has(3) else tuple(range(x.ndim))
    if pads is None or min(pads, default=0) < 0 or len(pads) != 2 * len(axes):
        return None
    width = [(0, 0)] * x.ndim
    for index, axis in enumerate(axes):
        width[axis] = (pads[index], pads[index + len(axes)])
    mode = _pad_mode(operands)
    if mode != "constant":
        return (np.pad(x, width, mode=mode),)
    fill = operands[2].reshape(-1)[0] if operands.has(2) else operands.attribute("value") or 0
    return (np.pad(x, width, mode="constant", constant_values=np.asarray(fill).astype(x.dtype)),)


def _pad_mode(operands: Operands) -> Literal["constant", "edge", "reflect", "wrap"]:
    match operands.attribute("mode"):
        case None | "constant":
            return "constant"
        case "edge":
            return "edge"
        case "reflect":
            return "reflect"
        case "wrap":
            return "wrap"
    raise ValueError("unknown mode")
