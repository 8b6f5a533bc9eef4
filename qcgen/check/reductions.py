"""Rules for reductions along axes."""

from __future__ import annotations

from collections.abc import Iterator

from qcgen.check.movement import numbers_of, wrong_axes
from qcgen.check.node import NodeView
from qcgen.errors import Problem


def reduces_axes(view: NodeView) -> Iterator[Problem]:
    """Every axis is one of the input's, and is named once."""
    x, axes = view.shape(0), numbers_of(view, "axes")
    if x is not None and axes is not None:
        yield from wrong_axes(view, axes, len(x))


def norm_of_something(view: NodeView) -> Iterator[Problem]:
    """What a norm along no axis is, runtimes do not agree on."""
    if view.integer("noop_with_empty_axes", 0) and not numbers_of(view, "axes"):
        yield view.problem("it names no axes and has noop_with_empty_axes", "name the axes")
