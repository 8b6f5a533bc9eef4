"""Rules for operators that move elements or reduce axes: shapes, axes and sizes must agree with their input's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from qcgen.check.model import counted, shape_text
from qcgen.check.node import CODES, Extra, NodeView
from qcgen.errors import Problem
from qcgen.ir.types import DType
from qcgen.options import spelt

AGAIN = "correct the node, or export the model again"


def numbers_of(view: NodeView, name: str) -> tuple[int, ...] | None:
    """A list of integers, an input in newer opsets and an attribute in older ones; None if absent or malformed."""
    array = view.array(name)
    if array is None:
        return None if view.has(name) else view.integers(name)
    return tuple(int(number) for number in array.reshape(-1)) if array.dtype.kind in "iu" else None


def another_size(view: NodeView) -> str:
    """What to do where a constant of the model disagrees with the size of an input."""
    fixed = spelt(dims=view.graph.fixed_dims) if view.graph.fixed_dims else ""
    if not fixed:
        return AGAIN
    what = f"the model was exported for another size than {fixed} gives it"
    return f"{what}: compile it for that size, or export it with this dimension dynamic here, too"


def _axes(count: int) -> str:
    return f"{count} ax{'is' if count == 1 else 'es'}"


def keeps_elements(view: NodeView) -> Iterator[Problem]:
    """Reshape: the new shape has as many elements as the old one."""
    x, target = view.fixed_shape(0), numbers_of(view, "shape")
    if x is None or target is None:
        return
    text = shape_text(target)
    if min(target, default=0) < -1 or target.count(-1) > 1:
        yield view.problem(f"its new shape is {text}", "use one -1 at most, and no other negative number")
        return
    copies = not view.integer("allowzero", 0)
    if copies and any(dim == 0 and axis >= len(x) for axis, dim in enumerate(target)):
        what = f"its new shape {text} keeps a dimension that its input, of shape {shape_text(x)}, does not have"
        yield view.problem(what, AGAIN)
        return
    dims = [x[axis] if dim == 0 and copies else dim for axis, dim in enumerate(target)]
    taken, elements = prod(dim for dim in dims if dim != -1), prod(x)
    if -1 in dims and (taken == 0 or elements % taken):
        what = f"its input of shape {shape_text(x)} has {counted(elements, 'element')}, which {text} cannot divide"
        yield view.problem(what, another_size(view))
    elif -1 not in dims and taken != elements:
        what = f"its input of shape {shape_text(x)} has {counted(elements, 'element')}, but the new shape {text}"
        yield view.problem(f"{what} has {taken}", another_size(view))


def wrong_axes(view: NodeView, axes: Sequence[int], rank: int, subject: str = "input") -> Iterator[Problem]:
    """Axes that are out of range, or named twice."""
    for axis in dict.fromkeys(axes):
        if not -rank <= axis < rank:
            yield view.problem(f"it names axis {axis}, but its {subject} has {counted(rank, 'dimension')}", AGAIN)
            return
    counts = Counter(axis % rank for axis in axes)
    twice = next((axis for axis, count in counts.items() if count > 1), None)
    if twice is not None:
        yield view.problem(f"it names axis {twice} twice", "name every axis once")


def removes_ones(view: NodeView) -> Iterator[Problem]:
    """Squeeze removes axes of length 1."""
    x, axes = view.fixed_shape(0), numbers_of(view, "axes")
    if x is None or axes is None:
        return
    wrong = list(wrong_axes(view, axes, len(x)))
    yield from wrong
    for axis in () if wrong else axes:
        if x[axis] != 1:
            what = f"it removes axis {axis} of its input of shape {shape_text(x)}, which has {x[axis]} elements"
            yield view.problem(what, another_size(view))


def inserts_axes(view: NodeView) -> Iterator[Problem]:
    """Unsqueeze inserts every axis once, in the range of the result."""
    x, axes = view.shape(0), numbers_of(view, "axes")
    if axes is None:
        if not view.has("axes") and "axes" not in view.node.attributes:
            yield view.problem("it has no axes", "name the axes to insert")
    elif x is not None:
        yield from wrong_axes(view, axes, len(x) + len(axes), "result")


def permutes_axes(view: NodeView) -> Iterator[Problem]:
    """Transpose names every axis once."""
    x, perm = view.shape(0), view.integers("perm")
    if x is not None and perm is not None and sorted(perm) != list(range(len(x))):
        what = f"perm is {shape_text(perm)}, but its input has {counted(len(x), 'dimension')}"
        yield view.problem(what, f"name each axis from 0 to {len(x) - 1} once")


def joins_along_an_axis(first: int, step: int) -> Extra:
    """A rule: the inputs from ``first`` on, every ``step``-th, have one shape but along the axis that joins them."""

    def rule(view: NodeView) -> Iterator[Problem]:
        shapes = [view.fixed_shape(index) for index in range(first, len(view.node.inputs), step)]
        known = [shape for shape in shapes if shape is not None]
        if "axis" not in view.node.attributes:
            yield view.problem("it has no axis", "name the axis along which the inputs are joined")
            return
        if not known:
            return
        axis, rank = view.integer("axis", 1), len(known[0])
        if not -rank <= axis < rank:
            yield view.problem(f"axis is {axis}, but its input has {counted(rank, 'dimension')}", "correct axis")
            return
        for other in known[1:]:
            if _but(other, axis) != _but(known[0], axis) or len(other) != rank:
                what = f"it joins tensors of shapes {shape_text(known[0])} and {shape_text(other)} along axis {axis}"
                yield view.problem(what, "all other dimensions must be equal")
                return

    return rule


def _but(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """A shape without one of its axes."""
    rank = len(shape)
    return tuple(size for index, size in enumerate(shape) if rank and index != axis % rank)


def cuts_each_axis_once(view: NodeView) -> Iterator[Problem]:
    """Slice has a start and an end for every axis that it names, and names each once."""
    x = view.fixed_shape(0)
    starts, ends = numbers_of(view, "starts"), numbers_of(view, "ends")
    axes, steps = numbers_of(view, "axes"), numbers_of(view, "steps")
    for name, values in (("starts", starts), ("ends", ends)):
        if values is None and not view.has(name) and name not in view.node.attributes:
            yield view.problem(f"it has no {name}", "give starts and ends")
    if starts is None or ends is None or x is None:
        return
    lengths = {len(values) for values in (starts, ends, axes or None, steps or None) if values is not None}
    if len(lengths) > 1 or (axes is None and len(starts) > len(x)):
        yield view.problem("starts, ends, axes and steps have different lengths", "give one of each for every axis")
        return
    if 0 in (steps or ()):
        yield view.problem("a step is 0", "correct steps")
    yield from wrong_axes(view, axes or range(len(starts)), len(x))


def splits_the_whole(view: NodeView) -> Iterator[Problem]:
    """Split: the parts add up to the axis, one for every output."""
    x, axis, parts = view.fixed_shape(0), view.integer("axis", 0), len(view.node.outputs)
    lengths, number = numbers_of(view, "split"), view.node.attributes.get("num_outputs")
    if isinstance(number, int) and number != parts:
        yield view.problem(f"num_outputs is {number}, but it has {counted(parts, 'output')}", "correct num_outputs")
        return
    if lengths is not None and len(lengths) != parts:
        what = f"split gives {counted(len(lengths), 'length')}, but it has {counted(parts, 'output')}"
        yield view.problem(what, "give one length for every output")
        return
    if x is None or not -len(x) <= axis < len(x):
        return
    size = x[axis]
    if lengths is None:
        chunk = -(-size // max(parts, 1))
        if (size % max(parts, 1) and view.node.version < 18) or chunk * (parts - 1) >= size:
            yield view.problem(f"axis {axis} has {size} elements, which {parts} outputs cannot share", AGAIN)
    elif min(lengths, default=1) < 1:
        yield view.problem(f"split is {shape_text(lengths)}", "every length must be at least 1")
    elif sum(lengths) != size:
        what = f"split is {shape_text(lengths)}, which adds up to {sum(lengths)}, but axis {axis} has {size} elements"
        yield view.problem(what, another_size(view))


def pads_every_axis(view: NodeView) -> Iterator[Problem]:
    """Pad has two numbers for every axis that it pads."""
    x, pads = view.shape(0), numbers_of(view, "pads")
    axes = numbers_of(view, "axes") if view.has("axes") else None
    if x is None or pads is None or (view.has("axes") and axes is None):
        return
    count = len(x) if axes is None else len(axes)
    if len(pads) != 2 * count:
        what = f"it has {counted(len(pads), 'pad')} for {_axes(count)}"
        yield view.problem(what, "give two numbers for every axis")
    elif axes is not None:
        yield from wrong_axes(view, axes, len(x))
    value, dtype = view.node.attributes.get("value", 0.0), view.dtype(0)
    if dtype in CODES and dtype and isinstance(value, float | int) and view.node.version < 11:
        yield from _no_code(view, value, dtype)


def _no_code(view: NodeView, value: float, dtype: DType) -> Iterator[Problem]:
    if value != int(np.clip(np.nan_to_num(value), dtype.low, dtype.high)):
        yield view.problem(f"it fills codes of {dtype.value} with {value:.6g}", "give a code of this type")


def resizes_every_axis(view: NodeView) -> Iterator[Problem]:
    """Resize has one positive scale, or one size, for every axis that it names."""
    x, axes = view.shape(0), view.integers("axes")
    scales, sizes = view.array(2 if view.node.version >= 11 else 1), numbers_of(view, "sizes")
    if x is None:
        return
    if axes:
        yield from wrong_axes(view, axes, len(x))
    count = len(axes) if axes else len(x)
    if sizes is not None and len(sizes) != count:
        what = f"sizes has {counted(len(sizes), 'number')} for {_axes(count)}"
        yield view.problem(what, "give one size for every axis")
    elif sizes is None and scales is not None and (scales.size or not view.has("sizes")):
        if scales.size != count:
            what = f"scales has {counted(scales.size, 'number')} for {_axes(count)}"
            yield view.problem(what, "give one scale for every axis")
        elif scales.dtype == np.float32 and not (np.isfinite(scales) & (scales > 0)).all():
            yield view.problem("a scale is not positive and finite", "correct scales")


def reduces_axes(view: NodeView) -> Iterator[Problem]:
    """Every axis is one of the input's, and is named once."""
    x, axes = view.shape(0), numbers_of(view, "axes")
    if x is not None and axes is not None:
        yield from wrong_axes(view, axes, len(x))


def norm_of_something(view: NodeView) -> Iterator[Problem]:
    """Runtimes do not agree on what a norm along no axis is."""
    if view.integer("noop_with_empty_axes", 0) and not numbers_of(view, "axes"):
        yield view.problem("it names no axes and has noop_with_empty_axes", "name the axes")
