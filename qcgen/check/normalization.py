"""Rules for normalizations: scale and bias fit the rows or channels."""

from __future__ import annotations

from collections.abc import Iterator

from qcgen.check.node import NodeView, spreads
from qcgen.errors import Problem
from qcgen.infer.facts import counted, shape_text

OPERANDS = ("Scale", "B")


def row_fits(view: NodeView) -> Iterator[Problem]:
    """LayerNormalization: scale and bias fit the rows."""
    x, axis = view.fixed_shape(0), view.integer("axis", -1)
    if x is None or not -len(x) <= axis < len(x):
        return
    row = x[axis:]
    for role in OPERANDS:
        array = view.array(role)
        if array is None:
            continue
        if not spreads(array.shape, row):
            what = f"{role} has shape {shape_text(array.shape)}, but the rows have shape {shape_text(row)}"
            yield view.problem(what, f"give {role} an element for each of a row")


def computes_in_float32(view: NodeView) -> Iterator[Problem]:
    """The mean and the variance have type float32."""
    if view.integer("stash_type", 1) != 1:
        yield view.problem(f"stash_type is {view.integer('stash_type', 1)}", "only 1, float32, is supported")


def channels_fit(view: NodeView) -> Iterator[Problem]:
    """InstanceNormalization: scale and bias have a number for each channel."""
    x = view.fixed_shape(0)
    if x is None:
        return
    if len(x) < 3:
        what = f"its input has shape {shape_text(x)}, but must have batch, channels and spatial axes"
        yield view.problem(what, "give it 3 dimensions or more")
        return
    for role in OPERANDS:
        array = view.array(role)
        if array is not None and array.shape != (x[1],):
            what = f"{role} has shape {shape_text(array.shape)}, but x has {counted(x[1], 'channel')}"
            yield view.problem(what, f"give {role} a number for each channel")
