"""Every coefficient of every integer sum, measured in the C itself; and the steps of the output codes, from both sides.

The argument is in docs/quantization.md, "The sum".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, product
from math import prod

import numpy as np

from qcgen.ir.types import Array
from qcgen.progress import report_progress
from qcgen.verification.layers import Drive, Layer, Wanted, drives, layers_of, windows_sums
from qcgen.verification.nodes import Nodes, Shown, WrongValue

MOST_WORK = 2**36
"""Multiply-accumulates that a layer may take, for its coefficients and for its steps; beyond it, a part is measured."""

RANDOM = 4  # inputs of random codes, and as many of random ends
BYTES = range(4)


@dataclass(frozen=True)
class LayerSums:
    """What was found of a layer.

    ``coefficients`` that were measured, ``of`` those that it has, one for each tap of each output that lies on an
    element of the image; ``starts`` one for each output. ``inputs`` is how often the node was called to see all of its
    words. ``sides`` of steps that sums were driven to, ``sides_of`` those that lie within the intervals. ``wrong`` is
    the first word, or the first code there, that is not what it must be.
    """

    node: str
    coefficients: int
    of: int
    starts: int
    inputs: int
    sides: int
    sides_of: int
    wrong: WrongValue | None


@dataclass(frozen=True)
class MeasuredSums:
    """The sums of all layers that have integer ones; of those that run row by row, the sums of one call."""

    layers: tuple[LayerSums, ...]

    @property
    def wrong(self) -> WrongValue | None:
        """The first wrong word of all."""
        return next((layer.wrong for layer in self.layers if layer.wrong), None)

    def total(self, what: str) -> int:
        """The sum of a number over all layers."""
        return sum(int(getattr(layer, what)) for layer in self.layers)


def measure(codes: Nodes, words: Nodes, seed: int) -> MeasuredSums:
    """Measures every layer of a plan: its sums in ``words``, where output steps show them, its codes in ``codes``."""
    layers = (each for each in layers_of(words.artifact, words.nodes) if each.node.call.certificate.word)
    return MeasuredSums(tuple(_measured(layer, codes, words, np.random.default_rng(seed)) for layer in layers))


def _measured(layer: Layer, codes: Nodes, words: Nodes, generator: np.random.Generator) -> LayerSums:
    report_progress(f"measuring the sums of {layer.op.name}")
    run = _Run(layer, words)
    changed = np.zeros(layer.op.x.shape, np.bool_)
    for what, x in chain(_whole_inputs(layer, generator), _ends(layer)):
        run.compare(what, x)
    for x in _patterns(layer, _affordable(layer, words), generator):
        changed |= (x != layer.base).any(axis=0)
        run.compare("the sum where single elements leave the zero point", x)
    sides, sides_of = _steps(layer, codes, run)
    coefficients, of = _coefficients(layer, changed), _coefficients(layer, layer.lo < layer.hi)
    starts = prod(layer.op.y.shape)
    return LayerSums(layer.op.name, coefficients, of, starts, run.inputs, sides, sides_of, run.wrong)


@dataclass
class _Run:
    """Calls of one layer whose words are compared; ``wrong`` is the first that differs."""

    layer: Layer
    words: Nodes
    inputs: int = 0
    wrong: WrongValue | None = None

    @property
    def shown(self) -> tuple[Shown, ...]:
        """All bytes of the word, by both paths where there are two."""
        if self.layer.is_raw:
            return (Shown(),)
        paths = (False, True) if self.words.has_paths(self.layer.node) else (False,)
        return tuple(Shown(byte, path) for path in paths for byte in BYTES)

    def compare(self, what: str, x: Array) -> None:
        """Calls the node on inputs (count, ...) and compares its words."""
        shown, expected = self.shown, self.layer.words(x)
        self.inputs += len(x) * len(shown)
        got = self.words.call(self.layer.node, [x], shown)
        if self.layer.is_raw:
            self.check(what, expected, got[0].view(np.uint32))
        for start in range(0, len(got) if not self.layer.is_raw else 0, len(BYTES)):
            self.check(what, expected, _joined(got[start : start + len(BYTES)]))

    def check(self, what: str, expected: Array, got: Array) -> None:
        """Keeps the first difference between arrays (count, ...)."""
        if self.wrong is not None or np.array_equal(expected, got):
            return
        first = np.unravel_index(int((expected != got).argmax()), got.shape)
        pair = (int(each[first].astype(np.int32)) for each in (expected, got))
        index = tuple(int(i) for i in first[1:])
        self.wrong = WrongValue(self.layer.op.name, self.layer.op.op_type, what, index, *pair)


def _joined(parts: Sequence[Array]) -> Array:
    """Words of their four bytes, the lowest first."""
    words = np.zeros(parts[0].shape, np.uint32)
    for byte, part in enumerate(parts):
        words |= part.astype(np.uint32) << np.uint32(8 * byte)
    return words


def _whole_inputs(layer: Layer, generator: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Inputs that change everything: zero points, the lowest and highest codes, random ones."""
    dtype = layer.op.x.dtype.numpy
    yield "the sum at zero points", layer.base[None]
    yield "the sum at the lowest codes", layer.lo.astype(dtype)[None]
    yield "the sum at the highest codes", layer.hi.astype(dtype)[None]
    shape = (RANDOM, *layer.op.x.shape)
    yield "the sum at random codes", generator.integers(layer.lo, layer.hi + 1, shape).astype(dtype)
    yield "the sum at random ends", np.where(generator.integers(0, 2, shape) == 1, layer.hi, layer.lo).astype(dtype)
    for above, below in layer.padded:
        image = layer.image(generator.integers(layer.lo, layer.hi + 1, shape).astype(dtype))
        image[:, :, :above] = image[:, :, layer.geometry.input[0] - below :] = layer.zero_point
        yield "the sum beside rows of padding", layer.from_image(image)


def _ends(layer: Layer) -> Iterator[tuple[str, Array]]:
    """Inputs that put every channel's sum at both ends of its interval, and with it every part of the sum."""
    lo, hi = layer.reached
    channels = np.repeat(np.arange(layer.geometry.out_channels), 2)
    for drive in drives(layer, Wanted(channels, np.stack([lo, hi], 1).ravel()), layer.together):
        yield "the sum at an end of its interval", drive.x


def _patterns(layer: Layer, most: int, generator: np.random.Generator) -> Iterator[Array]:
    """Inputs with single elements away from the zero point, so far apart that no window holds two, in chunks.

    For each set of such elements there are two inputs: every element of it is at one end of its range in one of them
    and at the other end in the other, at random which. At ``most`` so many sets are taken, at random.
    """
    g = layer.geometry
    steps = [min((k - 1) * d + 1, i) for k, d, i in zip(g.kernel, g.dilations, g.input, strict=True)]
    sets = list(product(*(range(step) for step in steps), range(g.group_in)))
    if len(sets) > most:
        sets = [sets[int(i)] for i in generator.choice(len(sets), most, replace=False)]
    lo, hi, base = (layer.image(x[None]) for x in (layer.lo, layer.hi, layer.base))

    def inputs() -> Iterator[Array]:
        for *firsts, channel in sets:
            places = (
                slice(None),
                slice(channel, None, g.group_in),
                *(slice(first, None, step) for first, step in zip(firsts, steps, strict=True)),
            )
            is_high = generator.integers(0, 2, lo[places].shape) == 1
            for ends in (is_high, ~is_high):
                image = base.copy()
                image[places] = np.where(ends, hi[places], lo[places])
                yield layer.from_image(image)[0]

    return _chunks(layer, inputs())


def _chunks(layer: Layer, inputs: Iterable[Array]) -> Iterator[Array]:
    """Inputs (...), some at a time, as (count, ...)."""
    rest = iter(inputs)
    while some := list(islice(rest, layer.together)):
        yield np.stack(some)


def _affordable(layer: Layer, words: Nodes) -> int:
    """How many sets of elements may be changed."""
    calls = 2 * len(_Run(layer, words).shown)
    return max(1, MOST_WORK // (calls * max(layer.geometry.macs, 1)))


def _coefficients(layer: Layer, elements: Array) -> int:
    """The number of pairs of an output and a tap that lies on one of these elements."""
    image = layer.image(elements[None]).astype(np.float64)
    return int(windows_sums(layer.geometry, image, np.ones_like(layer.weights)).sum())


def _steps(layer: Layer, codes: Nodes, run: _Run) -> tuple[int, int]:
    """Drives sums to both sides of every step of the output codes: how many were reached, and how many there are."""
    wanted = _sides(layer)
    affordable = max(1, MOST_WORK // max(layer.geometry.macs, 1))
    together = min(affordable, layer.together)
    some = islice(drives(layer, wanted, together), affordable // together)
    return sum(_driven(layer, codes, run, drive) for drive in some), len(wanted.sums)


def _sides(layer: Layer) -> Wanted:
    """The sums on both sides of every step."""
    if layer.stairs is None:
        return Wanted(np.zeros(0, np.int64), np.zeros(0, np.int64))
    shape = (layer.geometry.out_channels, layer.stairs.codes.size)
    channels, steps = np.nonzero(np.broadcast_to(layer.stairs.steps, shape))
    at = np.broadcast_to(layer.stairs.thresholds, shape)[channels, steps]
    return Wanted(np.repeat(channels, 2), np.stack([at, at - 1], axis=1).reshape(-1))


def _driven(layer: Layer, codes: Nodes, run: _Run, drive: Drive) -> int:
    """How many of the wanted sums these inputs reach; the node's codes are compared."""
    sums = layer.sums(drive.x)
    [got] = codes.call(layer.node, [drive.x])
    run.inputs += len(drive.x)
    run.check("the code beside a step", layer.codes(sums), got)
    numbers, images, *position = drive.places.T
    there = sums[(numbers * layer.geometry.batch + images, drive.wanted.channels, *position)]
    return int((there == drive.wanted.sums).sum())
