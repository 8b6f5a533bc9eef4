"""Channels that are constant for every input, or that nobody reads, are removed, and all that feeds only them.

What a constant channel adds to the accumulators of a convolution joins the bias. That is exact where the channel has
the zero point, because padding has it too; other constants only where no window sees more padding than another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar, assert_never

import numpy as np

from qcgen.intervals import (
    INT32_MIN,
    Range,
    channel_ranges,
    image_channel_axis,
    is_large,
    move,
    weight_differences,
    window_kinds,
    window_patterns,
)
from qcgen.ir.program import (
    ArgMax,
    AveragePool,
    ChannelLookup,
    Concat,
    Conv,
    Convert,
    ConvGeometry,
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
    Int32s,
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
    Requantize,
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
from qcgen.ir.types import Array, Bools
from qcgen.simplify.wiring import inner_names


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
