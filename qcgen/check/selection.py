"""Rules for operators that choose or repeat elements, and for blocks of pixels."""

from __future__ import annotations

from collections.abc import Iterator

from qcgen.check.model import counted, shape_text
from qcgen.check.movement import AGAIN, another_size, numbers_of
from qcgen.check.node import Extra, NodeView
from qcgen.errors import Problem
from qcgen.infer.facts import broadcast


def indices_inside(view: NodeView) -> Iterator[Problem]:
    """Gather: constant indices name elements that are there; negative ones count from the end."""
    x, indices, axis = view.fixed_shape(0), numbers_of(view, "indices"), view.integer("axis", 0)
    if x is None or indices is None or not -len(x) <= axis < len(x):
        return
    size = x[axis]
    wrong = next((index for index in indices if not -size <= index < size), None)
    if wrong is not None:
        what = f"it takes element {wrong} of axis {axis}, which has {counted(size, 'element')}"
        yield view.problem(what, another_size(view))


def computed_indices_of_rows(view: NodeView) -> Iterator[Problem]:
    """Gather: indices that are computed, or given, name rows of a constant table."""
    if view.array(1) is not None:
        return
    x, axis = view.shape(0), view.integer("axis", 0)
    if view.array(0) is None:
        what = f"neither its data nor its indices are constant: {view.source(1)}"
        yield view.problem(what, "store either in the model as an initializer")
    elif x is not None and 0 in x:
        yield view.problem(f"its table has shape {shape_text(x)}: it is empty", "export the model again")
    elif x is not None and axis % max(len(x), 1) != 0:
        hint = "transpose the table, so that its rows are taken"
        yield view.problem(f"it takes elements of axis {axis} of a table at places that are not constant", hint)


def gathers_elements(view: NodeView) -> Iterator[Problem]:
    """GatherElements: indices have the data's axes, none longer but the one along which they count; constants exist."""
    x, indices, axis = view.fixed_shape(0), view.fixed_shape(1), view.integer("axis", 0)
    if x is None or indices is None or not -len(x) <= axis < len(x):
        return
    others = [pair for place, pair in enumerate(zip(x, indices, strict=False)) if place != axis % len(x)]
    if len(x) != len(indices) or any(b > a for a, b in others):
        what = f"indices have shape {shape_text(indices)}, the data {shape_text(x)}"
        yield view.problem(what, "give both the same axes, and the indices no more elements along the others")
    numbers = view.array(1)
    if numbers is not None and numbers.size and not -x[axis] <= numbers.min() <= numbers.max() < x[axis]:
        what = f"it takes elements {numbers.min()} to {numbers.max()} of an axis with {counted(x[axis], 'element')}"
        yield view.problem(what, another_size(view))


def finds_what_is_there(view: NodeView) -> Iterator[Problem]:
    """TopK: at least one element, and no more than there are."""
    x, array, axis = view.fixed_shape(0), view.array(1), view.integer("axis", -1)
    if view.node.input(1) and array is None:
        return
    k = view.integer("k", 0) if array is None or array.size != 1 else int(array.reshape(-1)[0])
    if x is not None and -len(x) <= axis < len(x) and not 1 <= k <= x[axis]:
        what = f"it looks for {k} of {counted(x[axis], 'element')}"
        yield view.problem(what, f"give a constant K from 1 to {x[axis]}")


def expands(view: NodeView) -> Iterator[Problem]:
    """Expand: the shape agrees with the input's as in numpy."""
    x, shape = view.fixed_shape(0), numbers_of(view, "shape")
    if x is None or shape is None:
        return
    if min(shape, default=1) < 1:
        yield view.problem(f"its shape is {shape_text(shape)}", "every dimension must be at least 1")
        return
    try:
        broadcast(x, shape)
    except ValueError:
        what = f"its input of shape {shape_text(x)} cannot be expanded to {shape_text(shape)}"
        yield view.problem(what, another_size(view))


def repeats_every_axis(view: NodeView) -> Iterator[Problem]:
    """Tile: one repeat for every axis."""
    x, repeats = view.shape(0), numbers_of(view, "repeats")
    if x is None or repeats is None:
        return
    if len(repeats) != len(x):
        what = f"repeats has {counted(len(repeats), 'number')}, but its input has {counted(len(x), 'dimension')}"
        yield view.problem(what, "give one for every axis")
    elif min(repeats, default=1) < 1:
        yield view.problem(f"its repeats are {shape_text(repeats)}", "every repeat must be at least 1")


def has_blocks(*, of_channels: bool) -> Extra:
    """A rule: an image of four axes whose channels, or height and width, can be divided into blocks."""

    def rule(view: NodeView) -> Iterator[Problem]:
        x, size = view.fixed_shape(0), view.integer("blocksize", 0)
        if size < 1:
            yield view.problem(f"blocksize is {size}", "give a blocksize of at least 1")
            return
        if x is None:
            return
        if len(x) != 4:
            what = f"its input has shape {shape_text(x)}: {counted(len(x), 'dimension')}, but must have 4"
            yield view.problem(what, "it works on batch, channels, height and width")
        elif of_channels and x[1] % size**2:
            yield view.problem(f"its {x[1]} channels are not a multiple of blocksize squared = {size**2}", AGAIN)
        elif not of_channels and (x[2] % size or x[3] % size):
            yield view.problem(f"its {x[2]} by {x[3]} pixels are not blocks of {size} by {size}", another_size(view))

    return rule
