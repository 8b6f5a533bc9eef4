"""Where the elements of a nearest-neighbour Resize come from."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor

from qcgen.arithmetic import Float32
from qcgen.lower.source import Source


def _half_pixel(at: Float32, scale: Float32, _size: int, _length: Float32) -> Float32:
    return (at + Float32(0.5)) / scale - Float32(0.5)


def _pytorch_half_pixel(at: Float32, scale: Float32, size: int, length: Float32) -> Float32:
    return _half_pixel(at, scale, size, length) if length > 1 else Float32(0)


def _align_corners(at: Float32, _scale: Float32, size: int, length: Float32) -> Float32:
    return Float32(0) if length == 1 else at * Float32(size - 1) / (length - Float32(1))


def _asymmetric(at: Float32, scale: Float32, _size: int, _length: Float32) -> Float32:
    return at / scale


def _tf_half_pixel(at: Float32, scale: Float32, _size: int, _length: Float32) -> Float32:
    return (at + Float32(0.5)) / scale


Coordinate = Callable[[Float32, Float32, int, Float32], Float32]

COORDINATES: dict[str, Coordinate] = {
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_half_pixel_for_nn": _tf_half_pixel,
}
"""The place in x of an element of y, in float32: from its place, the scale, x's size and y's length.

Source: the operator document of Resize, and onnxruntime's UpsampleBase for the order of float operations.
"""

TIE = 1e-6
"""How close to the middle between two elements a place may be to count as the middle."""


def _round_prefer_floor(x: float) -> int:
    return floor(x) if abs(x - floor(x) - 0.5) <= TIE else floor(x + 0.5)


def _round_prefer_ceil(x: float) -> int:
    return ceil(x) if abs(x - floor(x) - 0.5) <= TIE else floor(x + 0.5)


NEAREST: dict[str, Callable[[float], int]] = {
    "ceil": ceil,
    "floor": floor,
    "round_prefer_ceil": _round_prefer_ceil,
    "round_prefer_floor": _round_prefer_floor,
}
"""The element that is nearest to a place. Source: onnxruntime's UpsampleBase; TIE was found by experiment."""


def nearest_places(source: Source, x: tuple[int, ...], y: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """For every axis the places in x of the elements of y, shapes ``x`` and ``y``."""
    if x == y:
        return tuple(tuple(range(size)) for size in x)  # onnxruntime copies x, whatever the scales
    scales = _scales(source, x, y)
    return tuple(_axis(source, *sizes) for sizes in zip(x, y, scales, strict=True))


def _axis(source: Source, size: int, length: int, scale: Float32) -> tuple[int, ...]:
    if scale == 1:
        return tuple(range(length))
    coordinate: Coordinate
    if source.node.version < 11:  # no attributes yet: asymmetric, and rounded up where the axis becomes shorter
        coordinate, nearest = _asymmetric, NEAREST["ceil" if scale < 1 else "floor"]
    else:
        coordinate = COORDINATES[source.text("coordinate_transformation_mode", "half_pixel")]
        nearest = NEAREST[source.text("nearest_mode", "round_prefer_floor")]
    places = (coordinate(Float32(at), scale, size, Float32(length)) for at in range(length))
    return tuple(min(max(nearest(float(place)), 0), size - 1) for place in places)


def _scales(source: Source, x: tuple[int, ...], y: tuple[int, ...]) -> list[Float32]:
    """The scales that are given, else those of the sizes."""
    index = 2 if source.node.version >= 11 else 1
    ratios = [Float32(length) / Float32(size) for size, length in zip(x, y, strict=True)]
    if source.has(3) or not source.has(index) or not source.array(index).size:
        return ratios
    axes = source.attribute_integers("axes") or tuple(range(len(x)))
    for axis, scale in zip(axes, source.array(index).reshape(-1), strict=True):
        ratios[axis % len(x)] = Float32(scale)
    return ratios
