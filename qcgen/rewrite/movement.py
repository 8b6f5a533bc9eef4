"""Operators that move elements to places that are known, and Resize by linear interpolation."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import prod

import numpy as np

from qcgen.geometry import COORDINATES, HALF, ResizedCoordinate
from qcgen.ir.graph import MOST_ELEMENTS, Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.channels_last import CHANNELS_FIRST, CHANNELS_LAST
from qcgen.rewrite.fold_constants import MALFORMED, Result, by_reference
from qcgen.rewrite.wiring import Change, NoMatch, Steps, Wiring

# GatherND at constant places is Gather along one axis.


def gather_places(wiring: Wiring, node: Node) -> Change | None:
    """The axes that the places name become one, along which their numbers are taken; without batch_dims."""
    if not node.is_a("GatherND") or node.attributes.get("batch_dims", 0):
        return None
    places, shape = wiring.constant(node.input(1)), wiring.graph.value(node.input(0)).fixed_shape
    if places is None or shape is None or places.ndim < 1 or not 1 <= places.shape[-1] <= len(shape):
        return None
    axes = places.shape[-1]
    sizes = np.array(shape[:axes])
    if places.size == 0 or (places < -sizes).any() or (places >= sizes).any():
        return None
    numbers = np.ravel_multi_index(tuple(np.moveaxis(places % sizes, -1, 0)), shape[:axes])
    steps, to = Steps(wiring, node), np.array([-1, *shape[axes:]], np.int64)
    joined = steps.step("Reshape", node.inputs[0], steps.constant("shape", to), role="joined")
    steps.step("Gather", joined, steps.constant("numbers", np.asarray(numbers, np.int64)), is_last=True, axis=0)
    return steps.change()


# Operators that move elements to constant places take them from there.

MOVED: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Compress", "GatherND", "ReverseSequence", "Trilu"), (0,)),
    **dict.fromkeys(("ScatterElements", "ScatterND"), (0, 2)),
}
"""The inputs whose elements become those of the result, by operator."""

MOST_NUMBERS = 2**22
"""The most elements that are numbered."""


def move_to_places(wiring: Wiring, node: Node) -> Change | None:
    """Gather, along the only axis of what is moved: what the operator makes of numbers says where each element is from.

    They are numbered from 1 on; where 0 comes out, there is a zero.
    """
    moved = () if node.domain else MOVED.get(node.op_type, ())
    if not moved or len(node.inputs) <= moved[-1] or node.attributes.get("reduction", "none") != "none":
        return None
    operands, parts, total = [wiring.constant(name) for name in node.inputs], list[str](), 1
    steps, to, dtype = Steps(wiring, node), np.array([-1], np.int64), wiring.graph.dtype(node.inputs[0])
    for index in moved:
        shape = wiring.graph.value(node.inputs[index]).fixed_shape
        if shape is None or total + prod(shape) > MOST_NUMBERS:
            return None
        operands[index] = np.arange(total, total + prod(shape)).reshape(shape)
        total += prod(shape)
        parts.append(steps.step("Reshape", node.inputs[index], steps.constant(f"shape_{index}", to)))
    if dtype is None or any(name and array is None for name, array in zip(node.inputs, operands, strict=True)):
        return None
    try:
        places = by_reference(Result(node, DType.INT64, ()), *operands)
    except MALFORMED as malformed:
        raise NoMatch from malformed
    if not places.all():
        parts.append(steps.constant("zero", np.zeros(1, dtype.numpy)))
    row = parts[0] if len(parts) == 1 else steps.step("Concat", *parts, axis=0)
    steps.step("Gather", row, steps.constant("places", (places - 1) % total), is_last=True, axis=0)
    return steps.change()


def name_upsamples(wiring: Wiring, node: Node) -> Change | None:
    """Upsample, and a Resize of opset 10 that enlarges, become a Resize of today: places are asymmetric, rounded down.

    onnxruntime refuses an Upsample with scales below 1.
    """
    mode, x = node.attributes.get("mode", "nearest"), node.input(0)
    if (
        not (node.is_a("Upsample") or (node.is_a("Resize") and node.version == 10))
        or mode not in ("linear", "nearest")
        or not x
    ):
        return None
    given = node.attributes.get("scales")
    scales = wiring.floats(node.input(1)) if given is None else np.array(given, np.float32)
    if scales is None or scales.ndim != 1 or not (scales >= 1).all():
        return None
    steps = Steps(wiring, node)
    steps.step(
        "Resize",
        *(x, "", steps.constant("scales", scales)),
        is_last=True,
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return steps.change()


# Resize by linear interpolation: four elements for each output, weighted and added, as onnxruntime does in float32.

Halves = tuple[tuple[Array, Array], tuple[Array, Array]]
"""Of an axis: for each output the place of the element in front of it and its weight; the same of that behind it."""


def resize_channels_last(names: Collection[str], wiring: Wiring, node: Node) -> Change | None:
    """One of these Resizes, which onnxruntime computes with channels last: there it is one of the axes 1 and 2."""
    if node.name not in names or _axes(wiring, node) is None:
        return None
    steps = Steps(wiring, node)
    inputs = [steps.step("Transpose", node.inputs[0], perm=CHANNELS_LAST)]
    for number, name in enumerate(node.inputs[1:], 1):
        given = wiring.constant(name)
        if number > 1 and given is not None and given.shape == (4,):  # scales or sizes
            name = steps.constant(f"input_{number}", given[[*CHANNELS_LAST]])
        inputs.append(name)
    resized = steps.fresh("channels_last")
    steps.nodes.append(replace(node, inputs=tuple(inputs), outputs=(resized,)))
    steps.step("Transpose", resized, perm=CHANNELS_FIRST, is_last=True, role="channels_first")
    return steps.change()


def linear_resize(wiring: Wiring, node: Node) -> Change | None:
    """Resize of the last two of four axes, of float32 numbers or of codes, whose results onnxruntime truncates.

    Of the middle two, channels last, only float32 numbers: there onnxruntime weighs codes by integers.

    y = from_second * from_second' * x11 + ..., products and sums rounded from left to right. Source: UpsampleBilinear.
    In blocks of channels products are added in pairs, of weights whose sum is 1. Source: NchwcUpsample.
    """
    in_pairs = any(node.outputs) and node.outputs[0] in wiring.graph.in_blocks
    found = _axes(wiring, node, in_pairs=in_pairs)
    if found is None:
        return None
    place, axes = found
    steps, x = Steps(wiring, node), node.inputs[0]
    dtype = wiring.graph.value(x).dtype
    if dtype is not None and dtype.is_quantized:
        one = steps.units(np.zeros((), dtype.numpy))
        total = _interpolated(steps, steps.step("DequantizeLinear", x, *one), place, *axes)
        size = steps.step("Floor", steps.step("Abs", total))
        whole = steps.step("Mul", steps.step("Sign", total), size)
        steps.step("QuantizeLinear", whole, *one, is_last=True)
    else:
        _interpolated(steps, x, place, *axes, in_pairs=in_pairs, is_last=True)
    return steps.change()


def _interpolated(
    steps: Steps, x: str, place: int, down: Halves, across: Halves, *, in_pairs: bool = False, is_last: bool = False
) -> str:
    """The four products, added; ``place`` is the first of the two axes."""
    columns = [steps.constant(f"columns_{i}", at) for i, (at, _) in enumerate(across)]

    def products() -> Iterator[str]:
        """Each is made where it is added, so that few take memory at once."""
        for i, (at, by_row) in enumerate(down):
            row = steps.step("Gather", x, steps.constant(f"rows_{i}", at), axis=place)
            for j, (_, by_column) in enumerate(across):
                weights = (by_column[None, :] * by_row[:, None]).astype(np.float32)
                shaped = weights[None, None] if place == 2 else weights[None, :, :, None]
                taken = steps.step("Gather", row, columns[j], axis=place + 1)
                yield steps.step("Mul", taken, steps.constant(f"weights_{i}{j}", shaped))

    term = products()
    total = steps.step("Add", next(term), next(term))
    if in_pairs:
        return steps.step("Add", total, steps.step("Add", next(term), next(term)), is_last=is_last)
    return steps.step("Add", steps.step("Add", total, next(term)), next(term), is_last=is_last)


def _axes(wiring: Wiring, node: Node, *, in_pairs: bool = False) -> tuple[int, tuple[Halves, Halves]] | None:
    """The two axes along which is interpolated, and the place of the first; None for another Resize."""
    if (node.domain, node.op_type, node.attributes.get("mode")) != ("", "Resize", "linear"):
        return None
    x, y = (wiring.graph.value(name) for name in (node.inputs[0], node.outputs[0]))
    is_known = x.dtype is not None and (x.dtype is DType.FLOAT32 or x.dtype.is_quantized)
    if not is_known or x.fixed_shape is None or y.fixed_shape is None or len(x.fixed_shape) != 4:
        return None
    if any(node.attributes.get(name) for name in ("antialias", "axes", "exclude_outside")):
        return None
    mode = node.text("coordinate_transformation_mode", "half_pixel")
    coordinate = COORDINATES.get(mode) if mode != "tf_half_pixel_for_nn" else None
    scales = _scales(wiring, node, x.fixed_shape, y.fixed_shape)
    if coordinate is None or scales is None:
        return None
    kept = [a == b for a, b in zip(x.fixed_shape, y.fixed_shape, strict=True)]
    is_last = x.dtype is DType.FLOAT32 and kept[0] and kept[3] and scales[0] == scales[3] == 1
    place = 2 if kept[0] and kept[1] else 1
    if place == 1 and not is_last:
        return None
    if max(x.fixed_shape + y.fixed_shape) > MOST_ELEMENTS:  # check refuses it
        return None
    sizes = zip(x.fixed_shape, y.fixed_shape, scales, strict=True)
    down, across = (_axis(coordinate, *each, in_pairs=in_pairs) for each in list(sizes)[place : place + 2])
    return place, (down, across)


def _scales(wiring: Wiring, node: Node, x: tuple[int, ...], y: tuple[int, ...]) -> Array | None:
    """The scales that are given, else those of the sizes, in float32."""
    if node.version < 11:
        return None
    given = wiring.constant(node.input(2)) if node.input(2) else None
    if given is not None and given.shape == (4,) and not node.input(3):
        return given if np.isfinite(given).all() and (given > 0).all() else None
    return np.array(y, np.float32) / np.array(x, np.float32) if wiring.constant(node.input(3)) is not None else None


def _axis(coordinate: ResizedCoordinate, size: int, length: int, scale: np.float32, *, in_pairs: bool) -> Halves:
    at = coordinate(np.arange(length, dtype=np.float32), np.float32(scale), size, length).astype(np.float32)
    at = np.clip(at, np.float32(0), None if in_pairs else np.float32(size - 1))
    first = np.minimum(at.astype(np.int64), size - 1)
    second = np.minimum(first + 1, size - 1)
    if in_pairs:
        part = at - first.astype(np.float32)
        return (first, np.float32(1) - part), (second, part)
    one = first == second  # the last element: both halves of it
    from_first, from_second = (np.where(one, HALF, np.abs(at - end.astype(np.float32))) for end in (first, second))
    return (first, from_second), (second, from_first)
