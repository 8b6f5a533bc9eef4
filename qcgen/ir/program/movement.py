"""Operators that only move elements."""

from __future__ import annotations

from dataclasses import dataclass

from qcgen.ir.program.tensor import Tensor


@dataclass(frozen=True)
class Transpose:
    """Axis i of y is axis ``perm[i]`` of x."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    perm: tuple[int, ...]


@dataclass(frozen=True)
class Reshape:
    """The same elements in the same order under another shape (Reshape, Flatten, Squeeze, Unsqueeze, Identity)."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Concat:
    """The inputs one after the other along ``axis``; all of y's type, scale and zero point."""

    name: str
    op_type: str
    xs: tuple[Tensor, ...]
    y: Tensor
    axis: int


@dataclass(frozen=True)
class Slice:
    """y[i, j, ...] = x[starts[0] + i * steps[0], ...], one entry per axis; steps may be negative (Slice, Split)."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Pad:
    """x with ``before[i]`` elements of ``value`` (a code, or a float) in front on axis i, the rest of y behind."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    before: tuple[int, ...]
    value: float


@dataclass(frozen=True)
class Resize:
    """y[i, j, ...] = x[places[0][i], places[1][j], ...], one tuple of places per axis.

    Nearest-neighbour resizing (Resize), elements at constant indices (Gather), repeated ones (Expand, Tile).
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    places: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class GatherElements:
    """y[..., i, ...] = x[..., places[..., i, ...], ...] along ``axis``; places, int32 or int64, have y's shape.

    Numbers below 0 count from the end. onnxruntime fails beyond either end; here the first or the last one is taken.
    """

    name: str
    op_type: str
    x: Tensor
    places: Tensor
    y: Tensor
    axis: int


@dataclass(frozen=True)
class Between:
    """Where the places of an axis of y lie in x: behind the place ``first``, ``part`` 1,024ths of the way to the next.

    Both are integers, one for each place of y; ``part`` is 0 at the last place of x.
    """

    first: tuple[int, ...]
    part: tuple[int, ...]


@dataclass(frozen=True)
class Interpolate:
    """Images (N, H, W, C) of codes, resized bilinearly (arithmetic.interpolate); x and y have the same meaning.

    ``down`` and ``across`` are the axes 1 and 2.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    down: Between
    across: Between


Movement = Transpose | Reshape | Concat | Slice | Pad | Resize
"""The operators that only move elements."""
