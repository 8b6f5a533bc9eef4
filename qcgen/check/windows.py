"""Rules for poolings: windows, paddings, averaged axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from qcgen.check.model import MAX_NUMBER
from qcgen.check.node import NodeView
from qcgen.convolutions import layout_of_pool
from qcgen.errors import Problem
from qcgen.geometry import AUTO_PADS, Window, window_of
from qcgen.infer.facts import counted, shape_text
from qcgen.ir.types import Layout

MAX_TAPS = 2**14
"""The most elements of a window of codes that are averaged."""


def is_image(view: NodeView) -> Iterator[Problem]:
    """Batch, channels and spatial axes."""
    x = view.fixed_shape(0)
    if x is not None and not 3 <= len(x) <= 6:
        what = f"its input has shape {shape_text(x)}: {counted(len(x), 'dimension')}, but must have 3 to 6"
        yield view.problem(what, "a pooling works on batch, channels and 1 to 4 spatial axes")


def auto_pad_exists(view: NodeView) -> Iterator[Problem]:
    """The attribute auto_pad has one of its values."""
    value = view.node.attributes.get("auto_pad", "NOTSET")
    if isinstance(value, str) and value not in AUTO_PADS:
        meant = value.strip().upper()
        hint = f"write {meant}" if meant in AUTO_PADS else f"use one of {', '.join(AUTO_PADS)}"
        yield view.problem(f"auto_pad is {value!r}, which does not exist", hint)


def numbers_fit(
    view: NodeView, rank: int | None, subject: str, names: Sequence[str] = ("strides", "dilations", "pads")
) -> Iterator[Problem]:
    """Lengths, signs and sizes of the numbers of a window; ``subject`` has ``rank`` spatial axes, if that is known."""
    for name in names:
        values, per_axis = view.integers(name), 2 if name == "pads" else 1
        least = 2 - per_axis
        if values is not None and rank is not None and len(values) != rank * per_axis:
            axes = f"{rank} spatial ax{'is' if rank == 1 else 'es'}"
            what = f"{name} has {counted(len(values), 'number')}, but {subject} has {axes}"
            yield view.problem(what, f"give {counted(rank * per_axis, 'number')}")
        if values is not None and not all(least <= value <= MAX_NUMBER for value in values):
            bound = f"at least {least}" if min(values) < least else f"at most {MAX_NUMBER}"
            yield view.problem(f"{name} is {values}, but every number must be {bound}", f"correct {name}")


def window_at(view: NodeView, kernel: tuple[int, ...]) -> Window | None:
    """The window of a node, None if one of its attributes is malformed, which is reported elsewhere."""
    try:
        window = window_of(view.node, kernel)
    except (TypeError, ValueError):
        return None
    return window if window.why_not() is None else None


def window_fits(view: NodeView) -> Iterator[Problem]:
    """Kernel, strides, dilations and pads of a pooling, each of the right length and size."""
    x, kernel = view.fixed_shape(0), view.integers("kernel_shape")
    if "kernel_shape" not in view.node.attributes:
        yield view.problem("it has no kernel_shape", "add the attribute kernel_shape")
    if x is None or kernel is None or not 3 <= len(x) <= 6:
        return
    wrong = [*numbers_fit(view, len(x) - 2, "its input", ["kernel_shape"])]
    wrong = wrong or [*numbers_fit(view, len(x) - 2, "its input")]
    yield from wrong
    window = None if wrong else window_at(view, kernel)
    if window is None:
        return
    is_last = layout_of_pool(view.node) is Layout.CHANNELS_LAST
    for index, size in enumerate(x[1:-1] if is_last else x[2:]):
        axis = window.axis(index, size)
        if axis.output < 1:
            hint = "use a smaller kernel or dilation, or more padding"
            yield view.problem(f"its window does not fit into spatial axis {index}, which has {size} elements", hint)
        if max(axis.pad_begin, axis.pad_end) >= kernel[index]:
            pads = f"{axis.pad_begin} and {axis.pad_end}"
            what = f"spatial axis {index} is padded by {pads}, but its kernel is {kernel[index]}"
            yield view.problem(what, "padding must be smaller than the kernel")


def few_taps(view: NodeView) -> Iterator[Problem]:
    """The means of all windows are proved, each with all its elements."""
    taps = prod(view.integers("kernel_shape") or ())
    if taps > MAX_TAPS:
        what = f"its window has {taps} elements, more than {MAX_TAPS}"
        yield view.problem(what, "use QLinearGlobalAveragePool, or smaller windows one after the other")
