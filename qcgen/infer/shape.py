"""Shapes of operators that move elements, and of those that slide windows over images."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil, floor

import numpy as np

from qcgen.geometry import CONVOLUTIONS, layout_of, layout_of_pool, transposed_axes, window_of
from qcgen.infer.facts import (
    AGAIN,
    Facts,
    Shape,
    TensorType,
    Unknown,
    axes_text,
    broadcast,
    contradict,
    counted,
    product,
    shape_text,
)
from qcgen.ir.graph import Dim
from qcgen.ir.types import Layout


def transpose(facts: Facts) -> Shape:
    """The axes in the order of perm, reversed by default."""
    x = facts.known_shape()
    perm = facts.node.integers("perm")
    if perm is None:
        return x[::-1]
    if sorted(perm) != list(range(len(x))):
        what = f"perm is {shape_text(perm)}, but its input has {counted(len(x), 'dimension')}"
        raise facts.wrong(what, f"name each axis from 0 to {len(x) - 1} once")
    return tuple(x[axis] for axis in perm)


def reshape(facts: Facts) -> Shape:
    """The new shape, where 0 keeps the dimension (unless allowzero) and -1 takes what is left."""
    x, target = facts.shape(0), facts.known_integers(1, "shape")
    keeps, text = not facts.node.integer("allowzero", 0), shape_text(target)
    if min(target, default=0) < -1 or target.count(-1) > 1:
        raise facts.wrong(f"its new shape is {text}", "use one -1 at most, and no other negative number")
    kept = (None,) * len(target) if x is None else x
    if keeps and 0 in target[len(kept) :]:
        what = f"its new shape {text} keeps a dimension that its input, of shape {shape_text(kept)}, does not have"
        raise facts.wrong(what, AGAIN)
    dims = [kept[index] if dim == 0 and keeps else dim for index, dim in enumerate(target)]
    elements, taken = product(kept), product([dim for dim in dims if dim != -1])
    if elements is not None and taken is not None and x is not None:
        has = f"its input of shape {shape_text(x)} has {counted(elements, 'element')}"
        if -1 in dims and (not taken or elements % taken):
            raise facts.wrong(f"{has}, which {text} cannot divide")
        if -1 not in dims and taken != elements:
            raise facts.wrong(f"{has}, but the new shape {text} has {taken}")
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
    x = facts.shape(0)
    if x is None:
        return (None, None)
    axis = facts.axis(1, len(x), behind=True)
    return (_merged(x[:axis]), _merged(x[axis:]))


def _merged(dims: Shape) -> Dim:
    others = [dim for dim in dims if dim != 1]
    return others[0] if len(others) == 1 else product(dims)


def squeeze(facts: Facts) -> Shape | None:
    """Without the named axes, or without all of length 1."""
    x, axes = facts.known_shape(), facts.integers_at(1, "axes")
    if axes is None:
        return None if product(x) is None else tuple(dim for dim in x if dim != 1)
    axes = facts.axes(axes, len(x))
    for axis in axes:
        if isinstance(size := x[axis], int) and size != 1:
            raise facts.wrong(
                f"it removes axis {axis} of its input of shape {shape_text(x)}, which has {size} elements"
            )
    return reduced(x, axes)


def unsqueeze(facts: Facts) -> Shape:
    """With axes of length 1 inserted; they count in the result."""
    x, axes = facts.known_shape(), facts.known_integers(1, "axes")
    rank = len(x) + len(axes)
    new = facts.axes(axes, rank, "result")
    old = iter(x)
    return tuple(1 if axis in new else next(old) for axis in range(rank))


def concat(facts: Facts) -> Shape:
    """The parts, one behind the other."""
    if "axis" not in facts.node.attributes:
        raise facts.wrong("it has no axis", "name the axis along which the inputs are joined")
    parts = [facts.known_shape(index) for index in range(len(facts.inputs))]
    first = parts[0]
    axis = facts.axis(1, len(first))
    for part in parts[1:]:
        if len(part) != len(first) or contradict(_but(part, axis), _but(first, axis)):
            what = f"it joins tensors of shapes {shape_text(first)} and {shape_text(part)} along axis {axis}"
            raise facts.wrong(what, "all other dimensions must be equal")
    dims: list[Dim] = []
    for index, column in enumerate(zip(*parts, strict=True)):
        numbers = [dim for dim in column if isinstance(dim, int)]
        if index == axis:
            dims.append(sum(numbers) if len(numbers) == len(column) else None)
        else:
            dims.append(numbers[0] if numbers else column[0])
    return tuple(dims)


def _but(shape: Shape, axis: int) -> Shape:
    """A shape without one of its axes."""
    return shape[:axis] + shape[axis + 1 :]


def slice_(facts: Facts) -> Shape:
    """Slice as Python slices, along the named axes."""
    x = facts.known_shape()
    starts, ends = facts.known_integers(1, "starts"), facts.known_integers(2, "ends")
    named, steps = facts.integers_at(3, "axes"), facts.integers_at(4, "steps") or (1,) * len(starts)
    axes = named or range(len(starts))
    if not len(starts) == len(ends) == len(axes) == len(steps) or (not named and len(starts) > len(x)):
        raise facts.wrong("starts, ends, axes and steps have different lengths", "give one of each for every axis")
    if 0 in steps:
        raise facts.wrong("a step is 0", "correct steps")
    dims = list(x)
    for start, end, axis, step in zip(starts, ends, facts.axes(axes, len(x)), steps, strict=True):
        size = x[axis]
        dims[axis] = len(range(*slice(start, end, step).indices(size))) if isinstance(size, int) else None
    return tuple(dims)


def split(facts: Facts) -> tuple[TensorType, ...]:
    """The lengths that are given, or equal ones, the last of which may be shorter."""
    parts = len(facts.node.outputs)
    try:
        shapes = _parts(facts, facts.known_shape(), parts)
    except Unknown:
        shapes = [None] * parts
    return tuple(TensorType(facts.dtype(0), shape) for shape in shapes)


def _parts(facts: Facts, x: Shape, parts: int) -> Sequence[Shape | None]:
    lengths, axis, outputs = facts.integers_at(1, "split"), facts.axis(0, len(x)), counted(parts, "output")
    number, size = facts.node.integer("num_outputs", parts), x[axis]
    if number != parts:
        raise facts.wrong(f"num_outputs is {number}, but it has {outputs}", "correct num_outputs")
    dims: Sequence[Dim] = (None,) * parts
    if lengths is not None:
        text, dims = f"split is {shape_text(lengths)}", lengths
        if len(lengths) != parts:
            what = f"split gives {counted(len(lengths), 'length')}, but it has {outputs}"
            raise facts.wrong(what, "give one length for every output")
        if min(lengths, default=1) < 1:
            facts.wrong(text, "every length must be at least 1")
        elif isinstance(size, int) and sum(lengths) != size:
            raise facts.wrong(f"{text}, which adds up to {sum(lengths)}, but axis {axis} has {size} elements")
    elif isinstance(size, int):
        dims = split_evenly(size, parts)
        if (size % parts and facts.node.version < 18) or dims[-1] < 1:
            facts.wrong(f"axis {axis} has {size} elements, which {parts} outputs cannot share", AGAIN)
    return [(*x[:axis], dim, *x[axis + 1 :]) for dim in dims]


def split_evenly(size: int, parts: int) -> tuple[int, ...]:
    """The lengths of the parts where a Split gives none: equal ones, the last of which may be shorter."""
    chunk = -(-size // parts)
    return (chunk,) * (parts - 1) + (size - chunk * (parts - 1),)


def pad(facts: Facts) -> Shape:
    """Every axis longer by its two pads, which may be negative."""
    dims, pads = list(facts.known_shape()), facts.known_integers(1, "pads")
    axes = facts.integers_at(3) if facts.has(3) else None
    indices = facts.axes(range(len(dims)) if axes is None else axes, len(dims))
    half, reflects = len(indices), facts.node.attributes.get("mode") == "reflect"
    if len(pads) != 2 * half:
        raise facts.wrong(
            f"it has {counted(len(pads), 'pad')} for {axes_text(half)}", "give two numbers for every axis"
        )
    for index, begin, end in zip(indices, pads[:half], pads[half:], strict=True):
        size = dims[index]
        if reflects and isinstance(size, int) and max(begin, end) >= size:
            facts.wrong(f"it reflects more than the {size} elements of axis {index}", "use smaller pads")
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
    axes = facts.axes(facts.node.integers("axes") or range(len(dims)), len(dims))
    name, count = ("scales", None if scales is None else scales.size) if sizes is None else ("sizes", len(sizes))
    if count is None:
        raise Unknown
    if count != len(axes):
        what = f"{name} has {counted(count, 'number')} for {axes_text(len(axes))}"
        raise facts.wrong(what, f"give one {name[:-1]} for every axis")
    if sizes is not None:
        for axis, length in zip(axes, sizes, strict=True):
            dims[axis] = length
    elif scales is not None:
        if not (np.isfinite(scales) & (scales > 0)).all():
            raise facts.wrong("a scale is not positive and finite", "correct scales")
        for axis, scale in zip(axes, scales.reshape(-1), strict=True):
            size = dims[axis]
            # float32, as the runtimes compute it
            dims[axis] = floor(float(np.float32(size) * np.float32(scale))) if isinstance(size, int) else None
    return tuple(dims)


def reduce(facts: Facts) -> Shape | None:
    """The named axes shrink to 1, or vanish without keepdims; all axes if none is named."""
    axes = facts.integers_at(1, "axes")
    if not axes and facts.node.integer("noop_with_empty_axes", 0):
        return facts.shape(0)
    x = facts.known_shape()
    return reduced(x, facts.axes(axes or range(len(x)), len(x)), facts.node.integer("keepdims", 1))


def reduced(x: Shape, gone: Collection[int], keepdims: int = 0) -> Shape:
    """A shape some of whose axes have shrunk to 1, or have vanished."""
    return tuple(1 if axis in gone else dim for axis, dim in enumerate(x) if keepdims or axis not in gone)


def arg_max(facts: Facts) -> Shape:
    """The axis shrunk to 1 or gone."""
    x = facts.known_shape()
    return reduced(x, (facts.axis(0, len(x)),), facts.node.integer("keepdims", 1))


def top_k(facts: Facts) -> Shape:
    """As many along the axis as K says."""
    x, is_old = facts.known_shape(), "k" in facts.node.attributes
    k = facts.node.integer("k", 0) if is_old else facts.known_integers(1, "K")[0]
    axis = facts.axis(-1, len(x))
    if isinstance(size := x[axis], int) and not 1 <= k <= size:
        raise facts.wrong(f"it looks for {k} of {counted(size, 'element')}", f"give a constant K from 1 to {size}")
    return (*x[:axis], k, *x[axis + 1 :])


def one_hot(facts: Facts) -> Shape:
    """A new axis, as long as the depth says."""
    x, depth = facts.known_shape(), facts.known_integers(1, "depth")[0]
    axis = facts.axis(-1, len(x) + 1)
    return (*x[:axis], depth, *x[axis:])


def gather(facts: Facts) -> Shape:
    """The gathered axis is replaced by the shape of the indices."""
    x, indices = facts.known_shape(0), facts.known_shape(1)
    axis = facts.axis(0, len(x))
    _find(facts, x[axis], axis)
    return x[:axis] + indices + x[axis + 1 :]


def gather_elements(facts: Facts) -> Shape:
    """The indices' shape, which is no longer than the data's but along the axis."""
    x, indices = facts.shape(0), facts.known_shape(1)
    if x is None:
        return indices
    axis = facts.axis(0, len(x))
    pairs = zip(_but(x, axis), _but(indices, axis), strict=False)
    if len(x) != len(indices) or any(isinstance(a, int) and isinstance(b, int) and b > a for a, b in pairs):
        what = f"indices have shape {shape_text(indices)}, the data {shape_text(x)}"
        raise facts.wrong(what, "give both the same axes, and the indices no more elements along the others")
    _find(facts, x[axis], axis)
    return indices


def _find(facts: Facts, size: Dim, axis: int) -> None:
    """Constant indices name elements that are there; negative ones count from the end."""
    indices = facts.constants[1]
    if indices is not None and isinstance(size, int):
        lost = indices[(indices < -size) | (indices >= size)]
        if lost.size:
            facts.wrong(f"it takes element {lost.flat[0]} of axis {axis}, which has {counted(size, 'element')}")


def shape(facts: Facts) -> Shape:
    """One element per axis from start to end."""
    x = facts.shape(0)
    if x is None:
        return (None,)
    return (len(x[facts.node.integer("start", 0) : facts.node.integer("end", len(x))]),)


def range_(facts: Facts) -> Shape:
    """As many numbers as (limit - start) / delta, rounded up."""
    start, limit, delta = facts.constants
    if start is None or limit is None or delta is None:
        raise Unknown
    return (max(0, ceil(float((limit - start).reshape(())) / float(delta.reshape(())))),)


def expand(facts: Facts) -> Shape | None:
    """The input broadcast to a constant shape."""
    x, target = facts.known_shape(), facts.known_integers(1)
    try:
        dims = broadcast(x, target)
    except ValueError:
        what = f"its input of shape {shape_text(x)} cannot be expanded to {shape_text(target)}"
        raise facts.wrong(what) from None
    if min(target, default=1) < 1:
        facts.wrong(f"its shape is {shape_text(target)}", "every dimension must be at least 1")
    return dims


def tile(facts: Facts) -> Shape:
    """Every axis as many times as long as its repeat says."""
    x, repeats = facts.known_shape(), facts.known_integers(1)
    if len(repeats) != len(x):
        what = f"repeats has {counted(len(repeats), 'number')}, but its input has {counted(len(x), 'dimension')}"
        raise facts.wrong(what, "give one for every axis")
    if min(repeats, default=1) < 1:
        facts.wrong(f"its repeats are {shape_text(repeats)}", "every repeat must be at least 1")
    return tuple(product(pair) for pair in zip(x, repeats, strict=True))


def depth_to_space(facts: Facts) -> Shape:
    """Fewer channels, more pixels."""
    (batch, channels, height, width), size = _blocks(facts)
    if isinstance(channels, int) and channels % size**2:
        what = f"its {channels} channels are not a multiple of blocksize squared = {size**2}"
        raise facts.wrong(what, AGAIN)
    return (batch, _divided(channels, size**2), product((height, size)), product((width, size)))


def space_to_depth(facts: Facts) -> Shape:
    """Fewer pixels, more channels."""
    (batch, channels, height, width), size = _blocks(facts)
    if any(isinstance(dim, int) and dim % size for dim in (height, width)):
        raise facts.wrong(f"its {height} by {width} pixels are not blocks of {size} by {size}")
    return (batch, product((channels, size**2)), _divided(height, size), _divided(width, size))


def _blocks(facts: Facts) -> tuple[Shape, int]:
    """An image of four axes, and the size of its blocks."""
    size = facts.node.integer("blocksize", 0)
    if size < 1:
        raise facts.wrong(f"blocksize is {size}", "give a blocksize of at least 1")
    x = facts.known_shape()
    if len(x) != 4:
        what = f"its input has shape {shape_text(x)}: {counted(len(x), 'dimension')}, but must have 4"
        raise facts.wrong(what, "it works on batch, channels, height and width")
    return x, size


def _divided(dim: Dim, by: int) -> Dim:
    return dim // by if isinstance(dim, int) else None


MAX_NUMBER = 2**31 - 1
"""The largest stride, dilation or pad, so that all of them fit the C type int32_t."""

MAX_PAD = 2**15
"""Kernels look at every column of a padded image when they are chosen; no network pads by as many."""

WINDOW = ("strides", "dilations", "pads")
"""What a window has numbers of."""


def convolution(facts: Facts) -> Shape | None:
    """Y of any convolution of x with w: (N, M, output...) or, channels last, (N, output..., M)."""
    spelling, x, w = CONVOLUTIONS[facts.node.domain, facts.node.op_type], facts.shape(0), facts.shape(1)
    is_last, name = layout_of(facts.node, spelling) is Layout.CHANNELS_LAST, spelling.inputs[0]
    kernel = facts.node.integers("kernel_shape")
    if x is not None:
        _require_image(facts, x, name, "convolution")
    if w is not None:
        kernel = _kernel(facts, x, w, name, is_last)
    return None if x is None else _slide(facts, x, kernel, w[0] if w else None, is_last, name)


def transposed_convolution(facts: Facts) -> Shape | None:
    """Y (N, M, output...) of X (N, C, size...) and W (C, M / group, kernel...); None if an attribute is wrong."""
    x, w = facts.known_shape(), facts.known_shape(1)
    sizes, kernel = ([size for size in shape if isinstance(size, int)] for shape in (x[2:], w))
    if not len(sizes) + 2 == len(x) == len(kernel):
        return None
    try:
        axes = transposed_axes(facts.node, (0, 0, *sizes), tuple(kernel))
    except ValueError:  # check says it
        return None
    return _image(x[0], tuple(axis.outputs for axis in axes), kernel[1] * facts.node.integer("group", 1), is_last=False)


def _kernel(facts: Facts, x: Shape | None, w: Shape, name: str, is_last: bool) -> tuple[int, ...]:
    """The spatial axes of w, which x and the attributes fit; ``name`` is that of x."""
    title, named = "W" if name == "X" else "w", facts.node.integers("kernel_shape")
    group = facts.node.integer("group", 1)
    if len(w) not in ((len(x),) if x else range(3, 7)):
        must = f"{name} has {len(x)}" if x else "must have 3 to 6"
        what = f"{title} has shape {shape_text(w)}: {counted(len(w), 'dimension')}, but {must}"
        raise facts.wrong(what, "weights are stored as (M, C/group, kernel), with one kernel axis per spatial axis")
    if 0 in w:
        what = f"{title} has shape {shape_text(w)}; every dimension must be at least 1"
        raise facts.wrong(what, "export the model again")
    kernel = tuple(dim for dim in w[2:] if isinstance(dim, int))
    if len(kernel) != len(w) - 2:
        raise Unknown
    if named not in (None, kernel):
        what = f"kernel_shape is {named}, but the kernel in {title} is {kernel}"
        facts.wrong(what, "remove kernel_shape, or correct it")
    _check_numbers(facts, WINDOW, len(kernel), title)
    if not 1 <= group <= MAX_NUMBER:
        facts.wrong(f"group is {group}, but must be at least 1", "correct group")
        return kernel
    hint, channels = "correct the weights or the attribute group", x[-1 if is_last else 1] if x else None
    if isinstance(channels, int) and isinstance(w[1], int) and channels != w[1] * group:
        groups = f"{group} groups of {w[1]}" if group > 1 else f"{w[1]}"
        facts.wrong(f"{name} has {channels} channels, but {title} needs {groups}", hint)
    if isinstance(w[0], int) and w[0] % group:
        facts.wrong(f"{title} has {w[0]} output channels, which cannot be divided into {group} groups", hint)
    return kernel


def pooling(facts: Facts) -> Shape | None:
    """Every window gives one element."""
    x, is_last = facts.known_shape(), layout_of_pool(facts.node) is Layout.CHANNELS_LAST
    _require_image(facts, x, "its input", "pooling")
    if "kernel_shape" not in facts.node.attributes:
        raise facts.wrong("it has no kernel_shape", "add the attribute kernel_shape")
    _check_numbers(facts, ("kernel_shape",), len(x) - 2, "its input")
    if not facts.problems:
        _check_numbers(facts, WINDOW, len(x) - 2, "its input")
    return _slide(facts, x, facts.node.integers("kernel_shape"), x[-1 if is_last else 1], is_last, "input")


def global_pooling(facts: Facts) -> Shape:
    """Every spatial axis shrinks to 1."""
    x, is_last = facts.known_shape(), layout_of_pool(facts.node) is Layout.CHANNELS_LAST
    _require_image(facts, x, "its input", "pooling")
    return _image(x[0], (1,) * (len(x) - 2), x[-1 if is_last else 1], is_last)


def _require_image(facts: Facts, x: Shape, name: str, operator: str) -> None:
    """Batch, channels and spatial axes."""
    if not 3 <= len(x) <= 6:
        what = f"{name} has shape {shape_text(x)}: {counted(len(x), 'dimension')}, but must have 3 to 6"
        raise facts.wrong(what, f"a {operator} works on batch, channels and 1 to 4 spatial axes")


def _check_numbers(facts: Facts, names: tuple[str, ...], rank: int, subject: str) -> None:
    """Lengths, signs and sizes of the numbers of a window; ``subject`` has so many spatial axes."""
    for name in names:
        values, least = facts.node.integers(name), 0 if name == "pads" else 1
        count = rank if least else 2 * rank
        if values is not None and len(values) != count:
            axes = f"{rank} spatial ax{'is' if rank == 1 else 'es'}"
            what = f"{name} has {counted(len(values), 'number')}, but {subject} has {axes}"
            facts.wrong(what, f"give {counted(count, 'number')}")
        if values is not None and not all(least <= value <= MAX_NUMBER for value in values):
            bound = f"at least {least}" if min(values) < least else f"at most {MAX_NUMBER}"
            facts.wrong(f"{name} is {values}, but every number must be {bound}", f"correct {name}")


def _slide(
    facts: Facts, x: Shape, kernel: tuple[int, ...] | None, channels: Dim, is_last: bool, name: str
) -> Shape | None:
    """The result of a window that slides over x; one that is malformed is told elsewhere."""
    if kernel is None or len(kernel) != len(x) - 2 or (window := window_of(facts.node, kernel)).why_not() is not None:
        return None
    outputs: list[Dim] = []
    for index, size in enumerate(x[1:-1] if is_last else x[2:]):
        axis = window.axis(index, size) if isinstance(size, int) else None
        outputs.append(None if axis is None else axis.output)
        if axis is None or not isinstance(size, int) or size < 1:
            continue
        extent, padded = (kernel[index] - 1) * window.dilations[index] + 1, axis.pad_begin + size + axis.pad_end
        if axis.output < 1:
            what = f"the kernel covers {extent} elements of spatial axis {index}, but the padded {name} has {padded}"
            facts.wrong(what, "use a smaller kernel or dilation, or more padding")
        most, hint = MAX_PAD, "use less padding"
        if window.is_pooling:
            most, hint = kernel[index] - 1, "padding must be smaller than the kernel"
        if max(axis.pad_begin, axis.pad_end) > most:
            pads = f"{axis.pad_begin} and {axis.pad_end}"
            facts.wrong(f"spatial axis {index} is padded by {pads}, more than {most}", hint)
    return _image(x[0], tuple(outputs), channels, is_last)


def _image(batch: Dim, sizes: Shape, channels: Dim, is_last: bool) -> Shape:
    return (batch, *sizes, channels) if is_last else (batch, channels, *sizes)
