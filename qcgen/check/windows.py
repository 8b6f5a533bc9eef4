"""Rules for poolings: windows, paddings, averaged axes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from qcgen.check.model import MAX_NUMBER, counted, shape_text
from qcgen.check.node import NodeView
from qcgen.errors import Problem
from qcgen.geometry import AUTO_PADS, window_of

MAX_TAPS = 2**14
"""The most elements of a window of codes that are averaged."""


def is_image(view: NodeView) -> Iterator[Problem]:
    """Batch, channels and spatial axes."""
    x = view.fixed_shape(0)
    if x is not None and not 3 <= len(x) <= 6:
        yield no_image(view, x)


def no_image(view: NodeView, x: tuple[int, ...]) -> Problem:
    """The problem of an input that is not an image."""
    what = f"its input has shape {shape_text(x)}: {counted(len(x), 'dimension')}, but must have 3 to 6"
    return view.problem(what, "a pooling works on batch, channels and 1 to 4 spatial axes")


def window_fits(view: NodeView) -> Iterator[Problem]:
    """Kernel, strides, dilations and pads of a pooling, each of the right length and size."""
    x, kernel = view.fixed_shape(0), view.integers("kernel_shape")
    if kernel is None:
        if "kernel_shape" not in view.node.attributes:
            yield view.problem("it has no kernel_shape", "add the attribute kernel_shape")
        return
    if x is None or not 3 <= len(x) <= 6:
        return
    if len(kernel) != len(x) - 2:
        what = f"kernel_shape has {counted(len(kernel), 'number')}, but its input has {len(x) - 2} spatial"
        yield view.problem(what, "give one number for every spatial axis")
        return
    yield from _window(view, x, kernel)


def _window(view: NodeView, x: tuple[int, ...], kernel: tuple[int, ...]) -> Iterator[Problem]:
    try:
        window = window_of(view.node, kernel)
    except (TypeError, ValueError):
        if len(view.integers("pads") or ()) % 2:
            yield view.problem("pads has an odd number of elements", "give two for every spatial axis")
        return  # an attribute of a wrong kind is reported elsewhere
    reason = window.why_not()
    if reason is not None:
        hint = f"use one of {', '.join(AUTO_PADS)}" if window.auto_pad not in AUTO_PADS else "correct the attributes"
        yield view.problem(reason, hint)
        return
    largest = max((*window.kernel, *window.strides, *window.dilations, *window.pads_begin, *window.pads_end))
    if largest > MAX_NUMBER:
        yield view.problem(f"{largest} in its attributes is more than {MAX_NUMBER}", "correct the attributes")
        return
    last = view.integer("channels_last", 0) == 1 or view.node.op_type == "NhwcMaxPool" or "nhwc" in view.node.domain
    for index, size in enumerate(x[1:-1] if last else x[2:]):
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


def counts_its_padding(view: NodeView) -> Iterator[Problem]:
    """Where the last window leaves the padded image, operators disagree on what is counted."""
    if view.integer("ceil_mode", 0) and view.integer("count_include_pad", 0):
        yield view.problem("it has ceil_mode and count_include_pad", "use one of them")
