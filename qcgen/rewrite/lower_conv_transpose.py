"""ConvTranspose becomes a convolution whose output channels are the phases of the larger image, interleaved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from qcgen.geometry import MOST_PHASES, TransposedAxis
from qcgen.ir.graph import Attribute, Node
from qcgen.ir.types import Array
from qcgen.rewrite.quantization import Dequantized, dequantized, weights
from qcgen.rewrite.wiring import Change, NoMatch, Wiring


def lower_conv_transpose(wiring: Wiring, node: Node) -> Change | None:
    """ConvTranspose of one or two spatial axes with constant weights, float or of 8 bits that are dequantized.

    What a phase has too few taps for are weights of 0, or at their zero point.
    """
    if (node.domain, node.op_type) != ("", "ConvTranspose"):
        return None
    w: Dequantized | Array | None = weights(wiring, node.input(1), 1)
    w, axes = _float_weights(wiring, node) if w is None else w, _axes(wiring, node)
    if w is None or axes is None:
        return None
    group, phases = node.attributes.get("group", 1), prod(axis.stride for axis in axes)
    if not isinstance(group, int) or group < 1 or phases > MOST_PHASES:
        return None
    channels = (w if isinstance(w, np.ndarray) else wiring.graph.constants[w.codes]).shape[1] * group
    return _change(wiring, node, w, axes, _Spread(group, phases, channels))


def _float_weights(wiring: Wiring, node: Node) -> Array | None:
    """Constant weights that are numbers, of a node that reads numbers."""
    found, x = wiring.constant(node.input(1)), wiring.graph.value(node.input(0)).shape
    fits = found is not None and x is not None and found.dtype == np.float32 and found.ndim == len(x) > 2
    return found if fits and found is not None and x is not None and found.shape[0] == x[1] else None


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
        """A number of each channel for each of the convolution's."""
        return np.tile(own, self.phases) if self.group == 1 else np.repeat(own, self.phases)


def _axes(wiring: Wiring, node: Node) -> tuple[TransposedAxis, ...] | None:
    """The spatial axes, None where the sizes are not known, are more than two, or not of the plain form."""
    x, w = (wiring.graph.value(name).fixed_shape for name in node.inputs[:2])
    attributes = node.attributes
    if x is None or w is None or len(x) not in (3, 4) or "output_shape" in attributes:
        return None
    if attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    rank = len(x) - 2
    strides, dilations = (_numbers(attributes.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    more = _numbers(attributes.get("output_padding", (0,) * rank))
    pads = _numbers(attributes.get("pads", (0,) * 2 * rank))
    found = []
    for i in range(rank):
        reached = strides[i] * (x[2 + i] - 1) + more[i] + (w[2 + i] - 1) * dilations[i] + 1
        axis = TransposedAxis(x[2 + i], w[2 + i], strides[i], dilations[i], pads[i], reached - pads[i] - pads[rank + i])
        if min(pads) < 0 or min(axis.pads) < 0 or axis.outputs < 1 or min(strides[i], dilations[i]) < 1:
            return None
        found.append(axis)
    return tuple(found)


def _numbers(value: object) -> tuple[int, ...]:
    if not isinstance(value, tuple) or not all(isinstance(number, int) for number in value):
        raise NoMatch
    return value


def _change(
    wiring: Wiring, node: Node, w: Dequantized | Array, axes: tuple[TransposedAxis, ...], spread: _Spread
) -> Change:
    constants: dict[str, Array] = {}

    def constant(role: str, values: Array) -> str:
        name = wiring.fresh(f"{node.name}_{role}")
        constants[name] = values
        return name

    nodes, taps = _weights(wiring, node, w, axes, spread, constant)
    inputs = [node.input(0), taps]
    if node.input(2):
        made, name = _bias(wiring, node, spread, constant)
        nodes += made
        inputs.append(name)
    pads = [axis.pads for axis in axes]
    attributes: dict[str, Attribute] = {
        "group": spread.group,
        "kernel_shape": tuple(axis.reach for axis in axes),
        "pads": (*(before for before, _ in pads), *(after for _, after in pads)),
    }
    phases = wiring.fresh(f"{node.name}_phases") if spread.phases > 1 or _is_cut(axes) else node.outputs[0]
    nodes.append(Node(node.name, "Conv", "", tuple(inputs), (phases,), attributes, in_float=True))
    image = phases
    if spread.phases > 1:
        image = wiring.fresh(f"{node.name}_image") if _is_cut(axes) else node.outputs[0]
        nodes += _interleaved(wiring, node, axes, spread, phases, image, constant)
    if _is_cut(axes):
        rank = len(axes)
        first = constant("first", np.array([axis.first for axis in axes], np.int64))
        beyond = constant("beyond", np.array([axis.first + axis.outputs for axis in axes], np.int64))
        which = constant("axes", np.arange(2, 2 + rank, dtype=np.int64))
        nodes.append(
            Node(wiring.fresh(f"{node.name}_cut"), "Slice", "", (image, first, beyond, which), node.outputs, {})
        )
    return Change(node, tuple(nodes), constants=constants)


def _weights(
    wiring: Wiring,
    node: Node,
    w: Dequantized | Array,
    axes: tuple[TransposedAxis, ...],
    spread: _Spread,
    constant: Callable[[str, Array], str],
) -> tuple[list[Node], str]:
    """The convolution's weights: constant numbers, or dequantized codes."""
    if isinstance(w, np.ndarray):
        return [], constant("weights", _codes(w, np.zeros((), w.dtype), axes, spread))
    codes = _codes(wiring.graph.constants[w.codes], w.quantization.zero_point, axes, spread)
    zero_point, scale = (
        spread.values(np.tile(values, spread.group)) if values.ndim else values
        for values in (w.quantization.zero_point, w.quantization.scale)
    )
    parameters = (constant("weights", codes), constant("scale", scale), constant("zero_point", zero_point))
    taps = wiring.fresh(f"{node.name}_taps")
    dequantize = wiring.fresh(f"{node.name}_dequantized")
    return [Node(dequantize, "DequantizeLinear", "", parameters, (taps,), {"axis": 0})], taps


def _is_cut(axes: tuple[TransposedAxis, ...]) -> bool:
    return any(axis.is_cut for axis in axes)


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


def _bias(wiring: Wiring, node: Node, spread: _Spread, constant: Callable[[str, Array], str]) -> tuple[list[Node], str]:
    """The bias of each phase: a constant, or a dequantized one."""
    found, name = dequantized(wiring, node.input(2)), node.input(2)
    if found is None:
        return [], constant("bias", spread.values(wiring.known(name)))
    codes = constant("bias_codes", spread.values(wiring.known(found.codes)))
    by = found.quantization
    scale, zero_point = (spread.values(values) if values.ndim else values for values in (by.scale, by.zero_point))
    parameters = (codes, constant("bias_scale", scale), constant("bias_zero_point", zero_point))
    taken = wiring.fresh(f"{node.name}_bias")
    dequantize = wiring.fresh(f"{node.name}_bias_dequantized")
    return [Node(dequantize, "DequantizeLinear", "", parameters, (taken,), {"axis": 0})], taken


def _interleaved(
    wiring: Wiring,
    node: Node,
    axes: tuple[TransposedAxis, ...],
    spread: _Spread,
    phases: str,
    image: str,
    constant: Callable[[str, Array], str],
) -> list[Node]:
    """The nodes that put the phases, which are channels, side by side.

    They work on pixels whose channels lie side by side, so that of all five the one in the middle alone moves anything
    in memory where images lie channels last.
    """
    x = wiring.graph.value(node.input(0)).fixed_shape
    assert x is not None, "its axes are known"
    rank, strides = len(axes), [axis.stride for axis in axes]
    counts = [axis.size + sum(axis.pads) - axis.reach + 1 for axis in axes]
    inner = [*strides, spread.channels] if spread.group == 1 else [spread.channels, *strides]
    phase, channel = (rank + 1, 2 * rank + 1) if spread.group == 1 else (rank + 2, rank + 1)
    large = [count * stride for count, stride in zip(counts, strides, strict=True)]
    steps: list[tuple[str, tuple[int, ...] | list[int]]] = [
        ("Transpose", (0, *range(2, rank + 2), 1)),
        ("Reshape", [x[0], *counts, *inner]),
        ("Transpose", (0, *(at for i in range(rank) for at in (1 + i, phase + i)), channel)),
        ("Reshape", [x[0], *large, spread.channels]),
        ("Transpose", (0, rank + 1, *range(1, rank + 1))),
    ]
    nodes, source = [], phases
    for number, (op_type, numbers) in enumerate(steps):
        target = image if number == len(steps) - 1 else wiring.fresh(f"{node.name}_step_{number}")
        name = wiring.fresh(f"{node.name}_interleaved_{number}")
        if op_type == "Reshape":
            shape = constant(f"shape_{number}", np.array(numbers, np.int64))
            nodes.append(Node(name, op_type, "", (source, shape), (target,), {}))
        else:
            nodes.append(Node(name, op_type, "", (source,), (target,), {"perm": tuple(numbers)}))
        source = target
    return nodes
