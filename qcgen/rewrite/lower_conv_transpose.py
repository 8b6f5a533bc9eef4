"""ConvTranspose becomes a convolution whose output channels are the phases of the larger image, interleaved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from qcgen.geometry import MOST_PHASES, TransposedAxis
from qcgen.ir.graph import Attribute, Node
from qcgen.ir.types import Array
from qcgen.rewrite.quantization import dequantized, weights
from qcgen.rewrite.wiring import Change, NoMatch, Steps, Wiring


def lower_conv_transpose(wiring: Wiring, node: Node) -> Change | None:
    """ConvTranspose of one or two spatial axes with constant weights, float or of 8 bits that are dequantized.

    What a phase has too few taps for are weights of 0, or at their zero point.
    """
    if (node.domain, node.op_type) != ("", "ConvTranspose"):
        return None
    found, x = weights(wiring, node.input(1), 1), wiring.graph.value(node.input(0)).fixed_shape
    w = wiring.constant(node.input(1) if found is None else found.codes)
    axes, group = _axes(wiring, node), node.attributes.get("group", 1)
    if w is None or x is None or axes is None or not isinstance(group, int) or group < 1:
        return None
    if found is None and (w.dtype != np.float32 or w.shape[0] != x[1]):
        return None
    spread = _Spread(group, prod(axis.stride for axis in axes), w.shape[1] * group)
    if spread.phases > MOST_PHASES:
        return None
    steps = Steps(wiring, node)
    if found is None:
        taps = steps.constant("weights", _codes(w, np.zeros((), w.dtype), axes, spread))
    else:
        by = found.quantization
        codes = _codes(w, by.zero_point, axes, spread)
        scale, zero_point = (
            spread.values(np.tile(values, group) if values.ndim else values) for values in (by.scale, by.zero_point)
        )
        taps = steps.dequantized("weights", steps.constant("weights", codes), scale, zero_point, axis=0)
    inputs = [node.input(0), taps, *([_bias(wiring, steps, node.input(2), spread)] if node.input(2) else ())]
    pads, is_cut = [axis.pads for axis in axes], any(axis.is_cut for axis in axes)
    attributes: dict[str, Attribute] = {
        "group": group,
        "kernel_shape": tuple(axis.reach for axis in axes),
        "pads": (*(before for before, _ in pads), *(after for _, after in pads)),
    }
    image = steps.fresh("phases") if spread.phases > 1 or is_cut else node.outputs[0]
    steps.nodes.append(Node(node.name, "Conv", "", tuple(inputs), (image,), attributes, in_float=True))
    behind = Steps(wiring, node)
    if spread.phases > 1:
        image = _interleaved(behind, image, x[0], axes, spread, is_last=not is_cut)
    if is_cut:
        first = np.array([axis.first for axis in axes], np.int64)
        ends = first, first + [axis.outputs for axis in axes], np.arange(2, 2 + len(axes), dtype=np.int64)
        named = [behind.constant(role, values) for role, values in zip(("first", "beyond", "axes"), ends, strict=True)]
        behind.step("Slice", image, *named, is_last=True, role="cut")
    return Change(node, (*steps.nodes, *behind.nodes), constants={**steps.constants, **behind.constants})


@dataclass(frozen=True)
class _Spread:
    """How ``channels`` become channels of the convolution, each as often as there are ``phases``.

    Of one group the phases come first, so that the pixels of a row lie side by side in memory.
    """

    group: int
    phases: int
    channels: int

    def index(self, channel: int, phase: int) -> int:
        """The channel of the convolution."""
        return phase * self.channels + channel if self.group == 1 else channel * self.phases + phase

    def values(self, own: Array) -> Array:
        """A number of each channel for each of the convolution's; one of all of them as it is."""
        if not own.ndim:
            return own
        return np.tile(own, self.phases) if self.group == 1 else np.repeat(own, self.phases)


def _axes(wiring: Wiring, node: Node) -> tuple[TransposedAxis, ...] | None:
    """The spatial axes, None where the sizes are not known, are more than two, or not of the plain form."""
    x, w = (wiring.graph.value(node.input(index)).fixed_shape for index in (0, 1))
    attributes = node.attributes
    if x is None or w is None or len(x) not in (3, 4) or len(w) != len(x) or "output_shape" in attributes:
        return None
    if attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    rank = len(x) - 2
    strides, dilations = (_numbers(node, name, (1,) * rank) for name in ("strides", "dilations"))
    more, pads = _numbers(node, "output_padding", (0,) * rank), _numbers(node, "pads", (0,) * 2 * rank)
    if min(pads) < 0 or min(*strides, *dilations) < 1:
        return None
    found = []
    for i in range(rank):
        reached = strides[i] * (x[2 + i] - 1) + more[i] + (w[2 + i] - 1) * dilations[i] + 1
        axis = TransposedAxis(x[2 + i], w[2 + i], strides[i], dilations[i], pads[i], reached - pads[i] - pads[rank + i])
        if min(axis.pads) < 0 or axis.outputs < 1:
            return None
        found.append(axis)
    return tuple(found)


def _numbers(node: Node, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """An attribute, as many numbers as its default has; NoMatch where it is malformed."""
    value: object = node.attributes.get(name, default)
    if not isinstance(value, tuple) or len(value) != len(default) or not all(isinstance(each, int) for each in value):
        raise NoMatch
    return value


def _codes(old: Array, zero_point: Array, axes: tuple[TransposedAxis, ...], spread: _Spread) -> Array:
    """Weights (M * phases, C/group, reach...) of the convolution, from the operator's (C, M/group, kernel...)."""
    inputs, outputs = old.shape[0] // spread.group, old.shape[1]
    shape = (spread.channels * spread.phases, inputs, *(axis.reach for axis in axes))
    own = np.tile(zero_point, spread.group) if zero_point.ndim else np.full(spread.channels, zero_point)
    new = np.empty(shape, old.dtype)
    phases = list(product(*(range(axis.stride) for axis in axes)))
    for channel, (number, phase) in product(range(spread.channels), enumerate(phases)):
        group, of_group = divmod(channel, outputs)
        taken = new[spread.index(channel, number)]
        taken[...] = own[channel]
        for taps in product(*(axis.taps(r) for axis, r in zip(axes, phase, strict=True))):
            places, kernel = tuple(place for place, _ in taps), tuple(k for _, k in taps)
            taken[(slice(None), *places)] = old[(slice(group * inputs, (group + 1) * inputs), of_group, *kernel)]
    return new


def _bias(wiring: Wiring, steps: Steps, name: str, spread: _Spread) -> str:
    """The bias of each phase: a constant, or a dequantized one."""
    found = dequantized(wiring, name)
    if found is None:
        return steps.constant("bias", spread.values(wiring.known(name)))
    codes, by = spread.values(wiring.known(found.codes)), found.quantization
    taken = steps.constant("bias_codes", codes)
    return steps.dequantized("bias", taken, spread.values(by.scale), spread.values(by.zero_point), axis=0)


def _interleaved(
    steps: Steps, image: str, batch: int, axes: Sequence[TransposedAxis], spread: _Spread, *, is_last: bool
) -> str:
    """The image whose phases, which are channels, are put side by side.

    The nodes work on pixels whose channels lie side by side, so that of all five the one in the middle alone moves
    anything in memory where images lie channels last.
    """
    rank, strides = len(axes), [axis.stride for axis in axes]
    counts = [axis.size + sum(axis.pads) - axis.reach + 1 for axis in axes]
    inner = [*strides, spread.channels] if spread.group == 1 else [spread.channels, *strides]
    phase, channel = (rank + 1, 2 * rank + 1) if spread.group == 1 else (rank + 2, rank + 1)
    large = [count * stride for count, stride in zip(counts, strides, strict=True)]
    perms = (
        (0, *range(2, rank + 2), 1),
        (0, *(at for i in range(rank) for at in (1 + i, phase + i)), channel),
        (0, rank + 1, *range(1, rank + 1)),
    )
    shapes = [batch, *counts, *inner], [batch, *large, spread.channels]
    for number, perm in enumerate(perms):
        is_end = number == len(shapes)
        role = "image" if is_end else ""
        image = steps.step("Transpose", image, is_last=is_last and is_end, role=role, perm=perm)
        if not is_end:
            shape = steps.constant(f"shape_{number}", np.array(shapes[number], np.int64))
            image = steps.step("Reshape", image, shape)
    return image
