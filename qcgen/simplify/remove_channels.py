"""Channels that are constant for every input, or that nobody reads, and all that feeds only them.

What a constant channel adds to the accumulators of a convolution joins the bias. That is exact where the channel has
the zero point, because padding has it too; other constants only where no window sees more padding than another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import TypeVar

import numpy as np

from qcgen.intervals import INT32_MIN, image_channel_axis, weight_differences, window_patterns
from qcgen.ir.program import (
    AveragePool,
    Concat,
    Conv,
    ConvGeometry,
    GlobalAveragePool,
    Int32s,
    Lookup,
    MaxPool,
    Operator,
    Pad,
    Program,
    QuantizedBinary,
    Requantize,
    Reshape,
    Resize,
    Slice,
    Tensor,
    Transpose,
)
from qcgen.ir.types import Array, Bools
from qcgen.simplify.channels import Channels, needed_channels
from qcgen.simplify.wiring import inner_names

Entry = TypeVar("Entry")


def remove_channels(program: Program) -> Program:
    """The program without them."""
    channels = Channels(program)
    needed = needed_channels(program, channels, inner_names(program) & channels.axes.keys())
    keep = {name: mask for name, mask in needed.items() if not mask.all()}
    if not keep:
        return program
    cut = _Cut(channels, keep, dict(program.constants))
    live = (op for op in program.operators if op.y.name not in keep or keep[op.y.name].any())
    operators = tuple(cut.operator(op) for op in live)
    numbers = {name: program.kept.get(name, np.arange(mask.size))[mask] for name, mask in keep.items()}
    return replace(program, operators=operators, constants=cut.constants, kept={**program.kept, **numbers})


class _Cut:
    """``keep``: the channels that stay of the tensors that lose some; ``constants`` grows by parts of constants."""

    def __init__(self, channels: Channels, keep: Mapping[str, Bools], constants: dict[str, Array]) -> None:
        self.constants = constants
        self._channels = channels
        self._keep = keep

    def operator(self, op: Operator) -> Operator:
        """The operator on the channels that stay."""
        match op:
            case Conv() if op.x.name in self._keep or op.y.name in self._keep:
                return self._conv(op)
            case MaxPool() | AveragePool():
                g = _of_channels(op.geometry, self._count(op.x, op.geometry.in_channels))
                return replace(op, x=self._tensor(op.x), y=self._tensor(op.y), geometry=g)
            case Lookup() | GlobalAveragePool() | Transpose() | Reshape():
                return replace(op, x=self._tensor(op.x), y=self._tensor(op.y))
            case QuantizedBinary():
                a, b = (self._operand(op, x) for x in (op.a, op.b))
                return replace(op, a=a, b=b, y=self._tensor(op.y))
            case Concat():
                return self._concat(op)
            case Slice() | Pad() | Resize() if op.y.name in self._keep or op.x.name in self._keep:
                return self._moved(op)
            case _:
                return op

    def _tensor(self, tensor: Tensor) -> Tensor:
        if tensor.name not in self._keep:
            return tensor
        shape = list(tensor.shape)
        shape[self._channels.axes[tensor.name]] = int(self._keep[tensor.name].sum())
        return replace(tensor, shape=tuple(shape))

    def _mask(self, tensor: Tensor, size: int) -> Bools:
        return self._keep.get(tensor.name, np.ones(size, np.bool_))

    def _count(self, tensor: Tensor, size: int) -> int:
        return int(self._mask(tensor, size).sum())

    def _conv(self, op: Conv) -> Conv:
        g = op.geometry
        xs, ys = self._mask(op.x, g.in_channels), self._mask(op.y, g.out_channels)
        groups = ys.reshape(g.group, g.group_out).any(axis=1) if g.group > 1 else np.ones(1, np.bool_)
        geometry = replace(g, group=int(groups.sum()), in_channels=int(xs.sum()), out_channels=int(ys.sum()))
        epilogue = op.epilogue
        if isinstance(epilogue, Requantize):
            epilogue = epilogue.take(ys)
        return replace(
            op,
            x=self._tensor(op.x),
            y=self._tensor(op.y),
            geometry=geometry,
            weights=op.weights[ys][:, xs] if g.group == 1 else op.weights[ys],
            w_zero_point=op.w_zero_point[ys],
            bias=self._bias(op, xs)[ys],
            epilogue=epilogue,
            accumulator_range=None,
        )

    def _bias(self, op: Conv, xs: Bools) -> Int32s:
        """The bias and what the lost input channels add, modulo 2^32 as the accumulator; groups lose none alone."""
        g = op.geometry
        bias = op.bias.astype(np.int64)
        if g.group == 1:
            constant, _ = self._channels.ranges[op.x.name].along(image_channel_axis(op.x), g.in_channels)
            weights = weight_differences(op).reshape(g.out_channels, g.in_channels, -1)
            # Where windows differ in the padding they see, the constant is the zero point and adds nothing anywhere.
            seen = (weights * window_patterns(g)[0]).sum(axis=2)
            bias = bias + (seen * (constant - op.x_zero_point))[:, ~xs].sum(axis=1)
        wrapped: Int32s = ((bias - INT32_MIN) % 2**32 + INT32_MIN).astype(np.int32)
        return wrapped

    def _operand(self, op: QuantizedBinary, x: Tensor) -> Tensor:
        """An operand, of a constant the part that meets the channels that stay."""
        if x.name not in self.constants or op.y.name not in self._keep:
            return self._tensor(x)
        mask, axis = self._keep[op.y.name], self._channels.axes[op.y.name] - (len(op.y.shape) - len(x.shape))
        if mask.all() or axis < 0 or x.shape[axis] != mask.size:
            return x
        values = np.compress(mask, self.constants[x.name], axis=axis)
        name = f"{x.name} of {op.y.name}"
        while name in self.constants:
            name += " again"
        self.constants[name] = values
        return replace(x, name=name, shape=values.shape)

    def _concat(self, op: Concat) -> Operator:
        xs = [self._tensor(x) for x in op.xs]
        left = tuple(x for x in xs if prod(x.shape))
        if len(left) == 1 and len(xs) > 1:
            return Reshape(op.name, op.op_type, left[0], self._tensor(op.y))
        return replace(op, xs=left, y=self._tensor(op.y))

    def _moved(self, op: Slice | Pad | Resize) -> Operator:
        """The operator with new places on the axis of the channels."""
        axis = self._channels.axes[op.y.name]
        xs, ys = self._mask(op.x, op.x.shape[axis]), self._mask(op.y, op.y.shape[axis])
        moved = replace(op, x=self._tensor(op.x), y=self._tensor(op.y))
        sources = self._channels.sources(op)
        assert sources is not None, "only operators that move whole channels lose some"
        # The new number of each channel of y's source.
        places = (np.cumsum(xs) - 1)[sources][ys]
        match moved:
            case Slice():
                return replace(moved, starts=_with(moved.starts, axis, int(places[0])))
            case Pad():
                in_front = int(ys[: op.before[axis]].sum()) if isinstance(op, Pad) else 0
                return replace(moved, before=_with(moved.before, axis, in_front))
            case Resize():
                return replace(moved, places=_with(moved.places, axis, tuple(places.tolist())))


def _of_channels(g: ConvGeometry, count: int) -> ConvGeometry:
    """The geometry of a pooling of this many channels."""
    return replace(g, group=count, in_channels=count, out_channels=count)


def _with(entries: tuple[Entry, ...], index: int, entry: Entry) -> tuple[Entry, ...]:
    """The tuple with another entry."""
    return (*entries[:index], entry, *entries[index + 1 :])
