"""The layers of a plan whose sums are taken in integers: what their output step is given, as the model means it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from qcgen.artifact import Artifact
from qcgen.intervals import INT32_MIN, accumulator_interval, channel_ranges, weight_differences
from qcgen.ir.plan import SumWord
from qcgen.ir.program import Conv, ConvGeometry, GlobalAveragePool, Program, Requantize, Reshape, Tensor, Transpose
from qcgen.ir.types import Array, DType, Layout
from qcgen.kernels.kernel import Order
from qcgen.plan.arrange import Arranged, steps_of
from qcgen.reference.reduction import taps
from qcgen.requantize.staircase import Staircase, staircase
from qcgen.verification.nodes import CalledNode

FEW = 32
"""Fewer columns than this make a product of matrices slow."""

CHUNK_BYTES = 2**22
"""Inputs that are made at a time."""

EXACT = 2**53
"""Float64 numbers below this add and multiply like integers."""


@dataclass(frozen=True)
class Layer:
    """A convolution, a product of matrices or a mean of images, as a convolution of whatever rank.

    ``weights`` (M, C/group, k...) float64 are those of the model less their zero points, ``bias`` (M,) int64. ``lo``
    and ``hi``, in the input's shape, are the codes that each element can have in the network. Where it is a part of a
    layer that computes some rows, ``padded`` are the numbers of rows above and below the image that its calls read.
    """

    node: CalledNode
    op: Conv | GlobalAveragePool
    geometry: ConvGeometry
    zero_point: int
    weights: Array
    bias: Array
    lo: Array
    hi: Array
    padded: tuple[tuple[int, int], ...] = ()

    @property
    def word(self) -> SumWord:
        """What the output step is given."""
        word = self.node.call.certificate.word
        assert word is not None, "a layer has sums"
        return word

    @property
    def together(self) -> int:
        """How many inputs and outputs there is memory for at a time."""
        return max(1, CHUNK_BYTES // max(self.node.x_bytes, self.node.y_bytes))

    @property
    def is_raw(self) -> bool:
        """Whether the layer's outputs are its sums."""
        return self.op.y.dtype is DType.INT32

    @cached_property
    def base(self) -> Array:
        """The input of zero points, or of what comes nearest to them in the network."""
        nearest: Array = np.clip(np.int64(self.zero_point), self.lo, self.hi).astype(self.op.x.dtype.numpy)
        return nearest

    @cached_property
    def stairs(self) -> Staircase | None:
        """The output codes by sums, None if sums are the output."""
        meaning = self.op.requantize if isinstance(self.op, GlobalAveragePool) else self.op.epilogue
        if not isinstance(meaning, Requantize):
            return None
        if isinstance(self.op, Conv):
            bounds = accumulator_interval(self.op)
            return staircase(meaning, bounds.lo, bounds.hi)
        ends = (np.array([self.op.pixels * (x - self.zero_point)]) for x in (int(self.lo.min()), int(self.hi.max())))
        return staircase(meaning, *ends)

    @cached_property
    def reached(self) -> tuple[Array, Array]:
        """The least and the greatest sum of each channel's widest window, (M,) each."""
        g, weights = self.geometry, self.weights
        lo, hi = (self.image(x[None]).astype(np.float64) - self.zero_point for x in (self.lo, self.hi))
        up, down = np.maximum(weights, 0), np.minimum(weights, 0)
        pixels = tuple(axis for axis in range(2 + g.rank) if axis != 1)
        least = (windows_sums(g, lo, up) + windows_sums(g, hi, down)).min(axis=pixels) + self.bias
        most = (windows_sums(g, hi, up) + windows_sums(g, lo, down)).max(axis=pixels) + self.bias
        return least, most

    def image(self, x: Array) -> Array:
        """Inputs (count, ...) as images (count * N, C, in...)."""
        g = self.geometry
        first = self._is_first(self.op.x)
        shape = (g.in_channels, *g.input) if first else (*g.input, g.in_channels)
        flat = x.reshape(-1, *shape)
        return flat if first else np.moveaxis(flat, -1, 1)

    def from_image(self, image: Array) -> Array:
        """Images (count * N, C, in...) as inputs (count, ...)."""
        moved = image if self._is_first(self.op.x) else np.moveaxis(image, 1, -1)
        return np.ascontiguousarray(moved).reshape(-1, *self.op.x.shape)

    def outputs(self, sums: Array) -> Array:
        """Something of each output, (count * N, M, out...), as outputs (count, ...)."""
        return (sums if self._is_first(self.op.y) else np.moveaxis(sums, 1, -1)).reshape(-1, *self.op.y.shape)

    def _is_first(self, tensor: Tensor) -> bool:
        """Whether channels come before pixels; where there is one pixel, both are the same."""
        if isinstance(self.op, GlobalAveragePool):
            return self.op.channel_axis == 1
        return tensor.layout is Layout.CHANNELS_FIRST

    def sums(self, x: Array) -> Array:
        """The sums (count * N, M, out...) int64 for inputs (count, ...), before anything wraps."""
        image = self.image(x).astype(np.float64) - self.zero_point
        return windows_sums(self.geometry, image, self.weights) + _column(self.bias, self.geometry)

    def words(self, x: Array) -> Array:
        """What the output steps must be given, (count, ...) uint32."""
        words = (self.sums(x) << self.word.bits) + _column(self.word.addend.astype(np.int64), self.geometry)
        return self.outputs(words % 2**32).astype(np.uint32)

    def codes(self, sums: Array) -> Array:
        """The output codes (count, ...) for sums (count * N, M, out...)."""
        assert self.stairs is not None, "sums become codes"
        wrapped = (sums - INT32_MIN) % 2**32 + INT32_MIN
        codes = self.stairs.at(np.moveaxis(wrapped, 1, 0))
        return self.outputs(np.moveaxis(codes, 0, 1)).astype(self.op.y.dtype.numpy)


def _column(values: Array, g: ConvGeometry) -> Array:
    """Numbers of channels, or one for all, to be added to (N, M, out...)."""
    return values.reshape(-1, *[1] * g.rank)


def windows_sums(g: ConvGeometry, image: Array, weights: Array) -> Array:
    """Sums of products (N, M, out...) int64 of float64 images (N, C, in...) and weights (M, C/group, k...), exactly.

    The reference sums in int64; products of float64 matrices are many times faster.
    """
    assert np.abs(image).max(initial=0) * np.abs(weights).reshape(len(weights), -1).sum(axis=1).max() < EXACT
    grouped = weights.reshape(g.group, g.group_out, g.group_in, -1)
    sums = np.zeros((len(image), g.group, g.group_out, prod(g.output)))
    for index, seen in enumerate(taps(g, image)):
        part = seen.reshape(len(image), g.group, g.group_in, -1)
        own = grouped[..., index]
        sums += own * part if g.group_in == g.group_out == 1 else _products(own, part)
    return sums.reshape(len(image), g.out_channels, *g.output).astype(np.int64)


def _products(weights: Array, part: Array) -> Array:
    """weights (group, M/group, C/group) times part (count, group, C/group, pixels), as one product for few pixels."""
    count, group, channels, pixels = part.shape
    if pixels >= FEW:
        return np.asarray(np.matmul(weights, part))
    together = part.transpose(1, 2, 0, 3).reshape(group, channels, count * pixels)
    products: Array = np.matmul(weights, together)
    return products.reshape(group, -1, count, pixels).transpose(2, 0, 1, 3)


def layers_of(artifact: Artifact, nodes: tuple[CalledNode, ...]) -> Iterator[Layer]:
    """Every call of the plan whose sums are taken in integers, those of codes of 16 bits, which have no word, too."""
    steps = steps_of(artifact.planned, artifact.plan.options.layout)
    bounds = Bounds(artifact.planned, steps)
    for node in nodes:
        op = node.op
        if isinstance(op, Conv) and op.x.dtype.is_code:
            assert isinstance(node.call.op, Conv), "a part of a convolution is one"
            lo, hi = (
                _rows(ends, op.x.shape, end)
                for ends, end in zip(bounds.of(node.call.op.x), (np.min, np.max), strict=True)
            )
            weights = weight_differences(op).reshape(op.weights.shape).astype(np.float64)
            padded = _padded(node.call.op.geometry, op.geometry)
            yield Layer(node, op, op.geometry, op.x_zero_point, weights, op.bias.astype(np.int64), lo, hi, padded)
        elif isinstance(op, GlobalAveragePool) and op.requantize is not None:
            lo, hi = bounds.of(op.x)
            g = _geometry_of_mean(op)
            weights = np.ones((g.out_channels, 1, *g.kernel))
            yield Layer(node, op, g, op.x.zero_point or 0, weights, np.zeros(g.out_channels, np.int64), lo, hi)


def _rows(ends: Array, shape: tuple[int, ...], end: Callable[..., Array]) -> Array:
    """Ends of all elements as those of some rows, ``shape``: for each, the least or greatest of all rows."""
    shorter = tuple(axis for axis, (size, part) in enumerate(zip(ends.shape, shape, strict=True)) if size != part)
    return np.broadcast_to(end(ends, axis=shorter, keepdims=True), shape)


def _padded(whole: ConvGeometry, part: ConvGeometry) -> tuple[tuple[int, int], ...]:
    """How many rows above and below the image the calls of a part read, where they read any."""
    if part == whole:
        return ()
    calls = whole.output[0] // part.output[0]
    firsts = (call * part.output[0] * whole.strides[0] - whole.pads_begin[0] for call in range(calls))
    outside = ((max(-first, 0), max(first + part.input[0] - whole.input[0], 0)) for first in firsts)
    return tuple(dict.fromkeys(pair for pair in outside if any(pair)))


def _geometry_of_mean(op: GlobalAveragePool) -> ConvGeometry:
    """A mean as a depthwise convolution whose window is the image."""
    channels = op.x.shape[op.channel_axis]
    image = tuple(size for axis, size in enumerate(op.x.shape) if axis not in (0, op.channel_axis))
    one, none = (1,) * len(image), (0,) * len(image)
    return ConvGeometry(op.x.shape[0], channels, channels, channels, image, image, one, one, none, none, one)


class Bounds:
    """The codes that the elements of tensors can have, as the arranged operators see these tensors."""

    def __init__(self, program: Program, steps: tuple[Arranged, ...]) -> None:
        self._ranges = dict(channel_ranges(program))
        copies = [step.op for step in steps if isinstance(step.op, Transpose)]
        for copy in copies:
            for one, other in ((copy.x.name, copy.y.name), (copy.y.name, copy.x.name)):
                if one in self._ranges and other not in self._ranges:  # what only changes the order in memory
                    self._ranges[other] = self._ranges[one]
        # Views that keep the order in memory of what they view, although it is not the model's.
        self._views = {step.op.y.name: (step.op, step.xs[0]) for step in steps if isinstance(step.op, Reshape)}
        self._is_view = {step.op.y.name for step in steps if step.is_view}

    def of(self, tensor: Tensor) -> tuple[Array, Array]:
        """The lowest and the highest code of each element."""
        view = self._views.get(tensor.name)
        if tensor.name in self._is_view and view is not None:
            op, order = view
            lo, hi = self._ranges[op.x.name].elements(op.x.shape)
            return _in_memory(lo, order, tensor), _in_memory(hi, order, tensor)
        return self._ranges[tensor.name].elements(tensor.shape)


def _in_memory(elements: Array, order: Order, view: Tensor) -> Array:
    return elements.transpose(order).reshape(view.shape)
