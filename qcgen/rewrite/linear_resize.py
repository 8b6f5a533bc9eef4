"""Resize by linear interpolation: four elements for each output, weighted and added, as onnxruntime does in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.wiring import Change, Steps, Wiring

ResizedCoordinate = Callable[[Array, np.float32, int, int], Array]

HALF = np.float32(0.5)


def _half_pixel(at: Array, scale: np.float32, _size: int, _length: int) -> Array:
    return np.asarray((at + HALF) / scale - HALF)


COORDINATES: Mapping[str, ResizedCoordinate] = {
    "align_corners": lambda at, _, size, length: at * np.float32(size - 1) / np.float32(max(length - 1, 1)),
    "asymmetric": lambda at, scale, _size, _length: np.asarray(at / scale),
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": lambda at, scale, size, length: _half_pixel(at, scale, size, length) * (length > 1),
}
"""Where outputs lie in the input, in float32: of their places, the scale, the input's size and the output's."""


@dataclass(frozen=True)
class ResizedAxis:
    """For each output of an axis the elements in front of and behind it, and how far it is from each."""

    first: Array
    second: Array
    from_first: Array
    from_second: Array


def linear_resize(wiring: Wiring, node: Node) -> Change | None:
    """Resize of the last two of four axes, of float32 numbers or of codes, whose results onnxruntime truncates.

    y = from_second * from_second' * x11 + ..., products and sums rounded from left to right. Source: UpsampleBilinear.
    """
    axes = _axes(wiring, node)
    if axes is None:
        return None
    steps, x = Steps(wiring, node), node.inputs[0]
    dtype = wiring.graph.value(x).dtype
    if dtype is not None and dtype.is_quantized:
        one = [
            steps.constant("scale", np.array(1, np.float32)),
            steps.constant("zero_point", np.zeros((), dtype.numpy)),
        ]
        total = _interpolated(steps, steps.step("DequantizeLinear", x, *one), axes, is_last=False)
        size = steps.step("Floor", steps.step("Abs", total))
        whole = steps.step("Mul", steps.step("Sign", total), size)
        steps.step("QuantizeLinear", whole, *one, is_last=True)
    else:
        _interpolated(steps, x, axes, is_last=True)
    return steps.change()


def _interpolated(steps: Steps, x: str, axes: tuple[ResizedAxis, ResizedAxis], *, is_last: bool) -> str:
    """The four products, added one after the other."""
    down, across = axes
    rows = [steps.step("Gather", x, steps.constant(f"rows_{i}", at), axis=2) for i, at in enumerate(_places(down))]
    columns = [steps.constant(f"columns_{i}", at) for i, at in enumerate(_places(across))]
    total = ""
    for i, by_row in enumerate((down.from_second, down.from_first)):
        for j, by_column in enumerate((across.from_second, across.from_first)):
            weights = (by_column[None, :] * by_row[:, None]).astype(np.float32)
            taken = steps.step("Gather", rows[i], columns[j], axis=3)
            term = steps.step("Mul", taken, steps.constant(f"weights_{i}{j}", weights[None, None]))
            total = steps.step("Add", total, term, is_last=is_last and i + j == 2) if total else term
    return total


def _places(axis: ResizedAxis) -> tuple[Array, Array]:
    return axis.first, axis.second


def _axes(wiring: Wiring, node: Node) -> tuple[ResizedAxis, ResizedAxis] | None:
    """The two axes along which is interpolated; None for another Resize."""
    if (node.domain, node.op_type, node.attributes.get("mode")) != ("", "Resize", "linear"):
        return None
    x, y = (wiring.graph.value(name) for name in (node.inputs[0], node.outputs[0]))
    is_known = x.dtype is not None and (x.dtype is DType.FLOAT32 or x.dtype.is_quantized)
    if not is_known or x.fixed_shape is None or y.fixed_shape is None or len(x.fixed_shape) != 4:
        return None
    if any(node.attributes.get(name) for name in ("antialias", "axes", "exclude_outside")):
        return None
    mode = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    coordinate = COORDINATES.get(mode) if isinstance(mode, str) else None
    scales = _scales(wiring, node, x.fixed_shape, y.fixed_shape)
    if coordinate is None or scales is None or x.fixed_shape[:2] != y.fixed_shape[:2]:
        return None
    down, across = (
        _axis(coordinate, *sizes) for sizes in zip(x.fixed_shape[2:], y.fixed_shape[2:], scales[2:], strict=True)
    )
    return down, across


def _scales(wiring: Wiring, node: Node, x: tuple[int, ...], y: tuple[int, ...]) -> Array | None:
    """The scales that are given, else those of the sizes, in float32."""
    if node.version < 11:
        return None
    given = wiring.constant(node.input(2)) if node.input(2) else None
    if given is not None and given.shape == (4,) and not node.input(3):
        return given if np.isfinite(given).all() and (given > 0).all() else None
    return np.array(y, np.float32) / np.array(x, np.float32) if wiring.constant(node.input(3)) is not None else None


def _axis(coordinate: ResizedCoordinate, size: int, length: int, scale: np.float32) -> ResizedAxis:
    at = coordinate(np.arange(length, dtype=np.float32), np.float32(scale), size, length).astype(np.float32)
    at = np.clip(at, np.float32(0), np.float32(size - 1))
    first = np.minimum(at.astype(np.int64), size - 1)
    second = np.minimum(first + 1, size - 1)
    one = first == second  # the last element: both halves of it
    ways = [np.where(one, HALF, np.abs(at - end.astype(np.float32))) for end in (first, second)]
    return ResizedAxis(first, second, *ways)
