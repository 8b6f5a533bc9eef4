"""Where the channels of every tensor are, and which channels cannot stay without which others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from qcgen.intervals import Range, channel_ranges, image_channel_axis, is_large, weight_differences, window_kinds
from qcgen.intervals.propagate import move
from qcgen.ir.program import (
    ArgMax,
    AveragePool,
    ChannelLookup,
    Concat,
    Conv,
    Convert,
    Dequantize,
    DynamicParameter,
    DynamicQuantize,
    Embedding,
    Extremes,
    FloatBinary,
    FloatOutput,
    FloatSoftmax,
    FloatUnary,
    GatherElements,
    GlobalAveragePool,
    InstanceNorm,
    Int64s,
    IntegerLogSoftmax,
    IntegerLstm,
    IntegerSoftmax,
    IntegerUnary,
    Interpolate,
    LayerNorm,
    Lookup,
    MatMul,
    MaxPool,
    Movement,
    Operator,
    OrionConv,
    Pad,
    Program,
    Quantize,
    QuantizedBinary,
    Recurrent,
    Reduce,
    Reshape,
    Resize,
    RoundOnce,
    Select,
    Slice,
    Softmax,
    Tensor,
    TopK,
    Transpose,
    WideSoftmax,
    ZeroPointCorrection,
    inputs_of,
)
from qcgen.ir.types import Bools


@dataclass(frozen=True)
class Tie:
    """Channel ``i[k]`` of the tensor ``one`` cannot stay without channel ``j[k]`` of ``other``, for all k."""

    one: str
    i: Int64s
    other: str
    j: Int64s


Demand = Tie | Tensor
"""What an operator asks for; a Tensor: all channels of it."""


class Channels:
    """The channels of a program: ``axes`` and ``ranges`` of tensors of codes, by name."""

    def __init__(self, program: Program) -> None:
        self.ranges: Mapping[str, Range] = channel_ranges(program)
        self.constants = program.constants
        self.axes: dict[str, int] = {
            tensor.name: image_channel_axis(tensor)
            for tensor in program.inputs
            if tensor.layout is not None and not is_large(tensor.shape[image_channel_axis(tensor)])
        }
        for op in program.operators:
            axis = self._output_axis(op) if op.y.name in self.ranges else None
            if axis is not None and not is_large(op.y.shape[axis]):
                self.axes[op.y.name] = axis

    def demands(self, op: Operator) -> Iterator[Demand]:
        """What must stay with what, so that the operator can be done to the channels that stay."""
        match op:
            case Conv() if _loses_channels(op) and self._lies(op.x, image_channel_axis(op.x)):
                yield from _dense(op, self) if op.geometry.group == 1 else _grouped(op)
            case Conv() if _loses_channels(op) and op.geometry.group == 1:
                yield op.x  # as a whole; each output channel stands alone
            case Lookup() if op.x.name in self.axes:
                yield from _both(op.x.name, op.y.name, np.arange(op.x.shape[self.axes[op.x.name]]))
            case MaxPool() | AveragePool() if self._lies(op.x, image_channel_axis(op.x)):
                yield from _both(op.x.name, op.y.name, np.arange(op.geometry.in_channels))
            case GlobalAveragePool() if self._lies(op.x, op.channel_axis):
                yield from _both(op.x.name, op.y.name, np.arange(op.x.shape[op.channel_axis]))
            case QuantizedBinary() if op.y.name in self.axes:
                yield from self._binary(op)
            case Transpose() | Reshape() | Concat() | Slice() | Pad() | Resize():
                yield from self._moved(op)
            case _:
                yield from (*inputs_of(op), op.y)

    def sources(self, op: Movement) -> Int64s | None:
        """For every channel of y the channel of the inputs, counted through, that it consists of; -1: only of padding.

        None if a channel is a mixture, or if the channels of an input are not known.
        """
        if op.y.name not in self.axes:
            return None
        labels = self._labels(op)
        return None if labels is None else _single(labels, self.axes[op.y.name])

    def _labels(self, op: Movement) -> Int64s | None:
        """For every element of y the channel of the inputs that it comes from."""
        if is_large(*op.y.shape):
            return None
        first, labels = 0, []
        for x in inputs_of(op):
            if x.name not in self.axes:
                return None
            axis = self.axes[x.name]
            shape = [-1 if other == axis else 1 for other in range(len(x.shape))]
            numbers = np.arange(first, first + x.shape[axis]).reshape(shape)
            labels.append(np.broadcast_to(numbers, x.shape))
            first += x.shape[axis]
        return move(op, labels, -1)

    def _lies(self, tensor: Tensor, axis: int) -> bool:
        """Whether the tensor's channels are where an operator looks for them."""
        return self.axes.get(tensor.name) == axis

    def _output_axis(self, op: Operator) -> int | None:
        match op:
            case Conv() | OrionConv() | MaxPool() | AveragePool():
                return image_channel_axis(op.y)
            case GlobalAveragePool():
                return op.channel_axis if len(op.y.shape) == len(op.x.shape) else 1
            case Transpose():
                return op.perm.index(self.axes[op.x.name]) if op.x.name in self.axes else None
            case Reshape():
                return self._reshaped_axis(op)
            case Concat():
                return self.axes.get(op.xs[0].name)
            case QuantizedBinary():
                axes = [self.axes[x.name] + len(op.y.shape) - len(x.shape) for x in (op.a, op.b) if x.name in self.axes]
                return axes[0] if axes else None
            case Lookup() | Slice() | Pad() | Resize():
                return self.axes.get(op.x.name)
            case ArgMax() | TopK() | ChannelLookup() | Embedding() | GatherElements():
                return None
            case (
                MatMul()
                | Reduce()
                | Softmax()
                | IntegerLogSoftmax()
                | IntegerSoftmax()
                | IntegerLstm()
                | IntegerUnary()
                | WideSoftmax()
                | Interpolate()
                | LayerNorm()
                | InstanceNorm()
                | Quantize()
                | Extremes()
                | DynamicParameter()
                | DynamicQuantize()
                | ZeroPointCorrection()
                | FloatOutput()
                | Dequantize()
                | Convert()
            ):
                return None
            case FloatUnary() | FloatBinary() | Select() | FloatSoftmax() | Recurrent():
                return None
            case _:
                assert_never(op)

    def _reshaped_axis(self, op: Reshape) -> int | None:
        """The axis of y each place of which belongs to one channel; the longest if there are several."""
        labels = self._labels(op)
        if labels is None:
            return None
        axes = [axis for axis in range(labels.ndim) if _single(labels, axis) is not None]
        return max(axes, key=lambda axis: labels.shape[axis], default=None)

    def _binary(self, op: QuantizedBinary) -> Iterator[Demand]:
        axis = self.axes[op.y.name]
        for x in (op.a, op.b):
            own = axis - (len(op.y.shape) - len(x.shape))
            if x.name in self.constants or own < 0:
                continue
            if not self._lies(x, own):
                yield from (x, op.y)
            elif x.shape[own] == op.y.shape[axis]:
                yield from _both(x.name, op.y.name, np.arange(x.shape[own]))
            else:
                yield x

    def _moved(self, op: Movement) -> Iterator[Demand]:
        sources = self.sources(op)
        if sources is None or (isinstance(op, Slice) and abs(op.steps[self.axes[op.y.name]]) != 1):
            yield from (*inputs_of(op), op.y)
            return
        y, first = np.arange(sources.size), 0
        for x in inputs_of(op):
            number = sources - first
            size = x.shape[self.axes[x.name]]
            of_x = (number >= 0) & (number < size)
            yield Tie(op.y.name, y[of_x], x.name, number[of_x])
            yield Tie(x.name, number[of_x], op.y.name, y[of_x])
            first += size
        if isinstance(op, Pad):  # something must be left to be padded
            padding = y[sources < 0]
            yield Tie(op.y.name, padding, op.x.name, np.zeros_like(padding))


def _both(x: str, y: str, channels: Int64s) -> Iterator[Demand]:
    """Each channel of x stays if and only if that of y does."""
    yield Tie(x, channels, y, channels)
    yield Tie(y, channels, x, channels)


def _loses_channels(op: Conv) -> bool:
    """Whether channels can be removed: not where activations have 16 bits."""
    return op.x.dtype.is_quantized and not isinstance(op.epilogue, RoundOnce)


def _dense(op: Conv, channels: Channels) -> Iterator[Demand]:
    """An output channel needs the input channels that it reads, but for constants that its bias can take in."""
    g = op.geometry
    weights = weight_differences(op).reshape(g.out_channels, g.in_channels, -1)
    lo, hi = channels.ranges[op.x.name].along(image_channel_axis(op.x), g.in_channels)
    padding_differs = window_kinds(g) > 1
    absorbed = (lo == hi) & ((lo == op.x_zero_point) | (not padding_differs))
    needed = weights.any(axis=2) & ~absorbed
    # A convolution has at least one input channel.
    needed[~needed.any(axis=1), int(needed.any(axis=0).argmax())] = True
    outputs, inputs = np.nonzero(needed)
    yield Tie(op.y.name, outputs, op.x.name, inputs)


def _grouped(op: Conv) -> Iterator[Demand]:
    """A group stays with all its channels or not at all."""
    g = op.geometry
    x, y = np.arange(g.in_channels), np.arange(g.out_channels)
    x_first, y_first = x // g.group_in, y // g.group_out
    yield Tie(op.x.name, x, op.y.name, x_first * g.group_out)
    yield Tie(op.y.name, y_first * g.group_out, op.y.name, y)
    yield Tie(op.y.name, y, op.y.name, y_first * g.group_out)
    for channel in range(g.group_in):
        yield Tie(op.y.name, y, op.x.name, y_first * g.group_in + channel)


def _single(labels: Int64s, axis: int) -> Int64s | None:
    """The one label, besides -1, at each place of an axis; None if there are several somewhere."""
    others = tuple(other for other in range(labels.ndim) if other != axis)
    highest = labels.max(axis=others)
    lowest = np.where(labels < 0, labels.max(initial=0), labels).min(axis=others)
    return highest if bool(((lowest == highest) | (highest < 0)).all()) else None


def needed_channels(program: Program, channels: Channels, free: set[str]) -> Mapping[str, Bools]:
    """The channels of the tensors ``free`` to lose some that must stay, because an output depends on them."""
    keep = {
        op.y.name: np.zeros(op.y.shape[channels.axes[op.y.name]], np.bool_)
        for op in program.operators
        if op.y.name in free
    }
    ties: list[Tie] = []
    for op in program.operators:
        for demand in channels.demands(op):
            if isinstance(demand, Tie):
                ties.append(demand)
            elif demand.name in keep:
                keep[demand.name][:] = True
    _settle(ties, keep)
    return keep


def _settle(ties: Sequence[Tie], keep: Mapping[str, Bools]) -> None:
    """Adds to ``keep`` what the ties ask for, until they ask for nothing more; tensors not in it stay whole."""
    relevant = [tie for tie in reversed(ties) if tie.other in keep]
    moving = True
    while moving:
        moving = False
        for tie in relevant:
            wanted = tie.j if tie.one not in keep else tie.j[keep[tie.one][tie.i]]
            if not keep[tie.other][wanted].all():
                keep[tie.other][wanted] = True
                moving = True
