"""Rules for the attributes of convolutions and for the windows that they describe."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan, prod

from qcgen.check.limits import flag
from qcgen.check.model import MAX_ELEMENTS, MAX_NUMBER
from qcgen.check.node import attribute_problems
from qcgen.check.operands import ConvOperands
from qcgen.check.signature import NUMBERS, fits
from qcgen.check.windows import auto_pad_exists, numbers_fit, window_at
from qcgen.convolutions import ACTIVATIONS, layout_of
from qcgen.errors import Problem
from qcgen.geometry import AUTO_PADS
from qcgen.infer.facts import counted
from qcgen.ir.types import Layout

MAX_PAD = 2**15
"""Kernels look at every column of a padded image when they are chosen; no network pads by as many."""


def conv_attribute_problems(it: ConvOperands) -> Iterator[Problem]:
    """Attributes that are unknown, of a wrong kind, or have values without a meaning."""
    yield from attribute_problems(it)
    yield from _auto_pad(it)
    yield from _numbers(it)
    yield from _kernel_shape(it)
    if it.spelling.activations:
        yield from _activation(it)


def group_of(it: ConvOperands) -> int | None:
    """The attribute group, None if it is malformed."""
    group = it.node.attributes.get("group", 1)
    return group if isinstance(group, int) and group >= 1 else None


def _auto_pad(it: ConvOperands) -> Iterator[Problem]:
    yield from auto_pad_exists(it)
    value = it.node.attributes.get("auto_pad", "NOTSET")
    if isinstance(value, str) and value in AUTO_PADS[1:] and "pads" in it.node.attributes:
        yield it.problem(f"it has pads and auto_pad {value}", "give one of them")


def _numbers(it: ConvOperands) -> Iterator[Problem]:
    """Lengths, signs and sizes of the numbers."""
    group = it.node.attributes.get("group")
    if isinstance(group, int) and not 1 <= group <= MAX_NUMBER:
        yield it.problem(f"group is {group}, but must be at least 1", "correct group")
    if it.spelling.channels_last is None:
        yield from flag("channels_last", 0, 1)(it)
    yield from numbers_fit(it, None if it.kernel is None else len(it.kernel), it.title("w"))


def _kernel_shape(it: ConvOperands) -> Iterator[Problem]:
    values, kernel = it.integers("kernel_shape"), it.kernel
    if values is not None and kernel is not None and values != kernel:
        what = f"kernel_shape is {values}, but the kernel in {it.title('w')} is {kernel}"
        yield it.problem(what, "remove kernel_shape, or correct it")


def _activation(it: ConvOperands) -> Iterator[Problem]:
    kind, params = it.node.attributes.get("activation", ""), it.node.attributes.get("activation_params", ())
    if not isinstance(kind, str) or not isinstance(params, tuple) or not fits(NUMBERS, params) or not kind:
        return
    if kind not in ACTIVATIONS:
        yield it.problem(f"the activation {kind!r} is unknown", f"use one of {', '.join(ACTIVATIONS)}")
        return
    names = ACTIVATIONS[kind]
    if names and len(params) != len(names):
        what = f"the activation {kind} has {counted(len(params), 'parameter')}, but needs {len(names)}"
        yield it.problem(what, f"give {' and '.join(names)} in activation_params")
    elif any(isinstance(value, float) and isnan(value) for value in params):
        yield it.problem("activation_params holds NaN", "export the model again")


def window_problems(it: ConvOperands) -> Iterator[Problem]:
    """Kernels larger than the padded image, and images too large to be indexed."""
    x, kernel, channels = it.shape("x"), it.kernel, it.channels
    if x is None or kernel is None or len(x) != len(kernel) + 2 or min(kernel) < 1:
        return
    window = window_at(it, kernel)
    if window is None:
        return
    sizes = x[1:-1] if layout_of(it.node, it.spelling) is Layout.CHANNELS_LAST else x[2:]
    outputs = []
    for index, size in enumerate(sizes):
        if not isinstance(size, int) or size < 1:
            return
        axis = window.axis(index, size)
        outputs.append(axis.output)
        extent, padded = (kernel[index] - 1) * window.dilations[index] + 1, axis.pad_begin + size + axis.pad_end
        if axis.output < 1:
            image = f"the padded {it.title('x')} has {padded}"
            what = f"the kernel covers {extent} elements of spatial axis {index}, but {image}"
            yield it.problem(what, "use a smaller kernel or dilation, or more padding")
        elif max(extent, padded) > MAX_NUMBER:
            yield it.problem(f"spatial axis {index} with its padding has {padded} elements", "use less padding")
        elif max(axis.pad_begin, axis.pad_end) > MAX_PAD:
            pads = f"{axis.pad_begin} and {axis.pad_end}"
            yield it.problem(f"spatial axis {index} is padded by {pads}, more than {MAX_PAD}", "use less padding")
    total = prod([x[0] if isinstance(x[0], int) else 1, channels or 1, *outputs])
    if total > MAX_ELEMENTS:
        yield it.problem(f"the result has {total} elements, more than {MAX_ELEMENTS}", "use less padding")
