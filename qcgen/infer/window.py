"""Shapes of convolutions and poolings: images, kernels and the windows that attributes describe."""

from __future__ import annotations

from qcgen.convolutions import CONVOLUTIONS, layout_of, layout_of_pool
from qcgen.geometry import window_of
from qcgen.infer.facts import Facts, Shape, Unknown, counted, shape_text
from qcgen.ir.graph import Dim
from qcgen.ir.types import Layout

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
    kernel = facts.integers("kernel_shape")
    if x is not None:
        _require_image(facts, x, name, "convolution")
    if w is not None:
        kernel = _kernel(facts, x, w, name, is_last)
    return None if x is None else _slide(facts, x, kernel, w[0] if w else None, is_last, name)


def _kernel(facts: Facts, x: Shape | None, w: Shape, name: str, is_last: bool) -> tuple[int, ...]:
    """The spatial axes of w, which x and the attributes fit; ``name`` is that of x."""
    title, named, group = "W" if name == "X" else "w", facts.integers("kernel_shape"), facts.integer("group", 1)
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
    return _slide(facts, x, facts.integers("kernel_shape"), x[-1 if is_last else 1], is_last, "input")


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
        values, least = facts.integers(name), 0 if name == "pads" else 1
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
