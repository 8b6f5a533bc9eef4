"""Weights of layers between codes: what becomes part of them, and how they become codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from qcgen.geometry import TransposedAxis, transposed_axes
from qcgen.ir.graph import Attribute, Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.fold_constants import float_constant
from qcgen.rewrite.quantization import (
    CROSSED,
    Dequantized,
    GraphQuantization,
    dequantized,
    is_dequantize,
    is_quantize,
    quantization_of,
    weights,
)
from qcgen.rewrite.wiring import Change, Steps, Wiring

# What scales and shifts the channels behind a convolution of float weights joins its weights and bias.


def fold_into_weights(wiring: Wiring, node: Node) -> Change | None:
    """Conv, then BatchNormalization, or Add or Mul of a constant of each channel: a Conv with other constants.

    A ConvTranspose takes in BatchNormalization only.

    onnxruntime does so before it quantizes the weights, in float32 and in this order of operations.
    Source: ConvBNFusion, ConvAddFusion and ConvMulFusion of onnxruntime.
    """
    w, bias = wiring.floats(node.input(1)), wiring.floats(node.input(2))
    if not node.is_a("Conv", "ConvTranspose") or w is None or (node.input(2) and bias is None):
        return None
    if not wiring.graph.dequantized.keys().isdisjoint(node.inputs[1:]):
        return None
    after = wiring.only_reader(node.outputs[0])
    if after is None or after.domain or after.input(0) != node.outputs[0]:
        return None
    is_plain, group = node.is_a("Conv"), node.integer("group", 1)
    if not is_plain and (after.op_type != "BatchNormalization" or w.ndim < 3 or group < 1 or w.shape[0] % group):
        return None
    folded = _folded(wiring, after, w if is_plain else _outputs_first(w, group), bias)
    if folded is None:
        return None
    if not is_plain:
        folded = _outputs_first(folded[0], group), folded[1]
    steps = Steps(wiring, node)
    roles = zip(("folded_weights", "folded_bias"), folded, strict=True)
    names = [steps.constant(role, array) for role, array in roles if array is not None]
    conv = replace(node, inputs=(node.inputs[0], *names), outputs=after.outputs[:1])
    return Change(after, (conv,), remove=(node,), constants=steps.constants)


def _outputs_first(w: Array, group: int) -> Array:
    """Weights of a ConvTranspose, (C, M / group, ...), as a convolution has them, (M, C / group, ...), or back."""
    parts = w.reshape(group, w.shape[0] // group, *w.shape[1:]).swapaxes(1, 2)
    return parts.reshape(-1, *parts.shape[2:])


def _folded(wiring: Wiring, after: Node, w: Array, bias: Array | None) -> tuple[Array, Array | None] | None:
    """Weights and bias with what comes ``after`` in them; None where it is of another kind."""
    if after.op_type == "BatchNormalization":
        numbers = normalization_of(after, [wiring.floats(name) for name in after.inputs[1:]], w.shape[0])
        if numbers is None:
            return None
        scale, shift, mean, variance = numbers
        factor = scale / np.sqrt(variance)
        return _scaled(w, factor), shift - mean * factor if bias is None else (bias - mean) * factor + shift
    operand = _of_channels(wiring, after, w) if after.op_type in ("Add", "Mul") else None
    if operand is None:
        return None
    if after.op_type == "Mul":
        return _scaled(w, operand), None if bias is None else bias * operand
    return w, operand if bias is None else bias + operand


def normalization_of(
    node: Node, numbers: Sequence[Array | None], channels: int | str | None
) -> tuple[Array, Array, Array, Array] | None:
    """Scale, bias, mean, and variance with epsilon of a BatchNormalization that does not train."""
    is_plain = not node.attributes.get("training_mode", 0) and node.attributes.get("spatial", 1) == 1
    found = [each for each in numbers if each is not None and each.shape == (channels,)]
    if len(found) != 4 or not is_plain or any(node.outputs[1:]):
        return None
    scale, bias, mean, variance = found
    return scale, bias, mean, np.asarray(variance + np.float32(node.number("epsilon", 1e-5)))


def _of_channels(wiring: Wiring, node: Node, w: Array) -> Array | None:
    """The second operand of an Add or Mul, (M, 1, 1) of images, as (M,); a Mul may have a scalar."""
    found = wiring.floats(node.input(1))
    if found is None or w.ndim < 4:
        return None
    if node.op_type == "Mul" and found.ndim == 0:
        return np.full(w.shape[0], found, np.float32)
    return found.reshape(-1) if found.shape == (w.shape[0], *(1,) * (w.ndim - 2)) else None


def _scaled(w: Array, factor: Array) -> Array:
    return w * factor.reshape(-1, *(1,) * (w.ndim - 1))


# Float weights of layers between codes become codes, as onnxruntime makes them when it loads a model.

LOW, HIGH = -128, 127

WEIGHTED = ("Conv", "ConvTranspose", "Gemm")
"""The operators of ai.onnx whose weights onnxruntime quantizes; those of MatMul stay float."""


def quantize_weights(wiring: Wiring, node: Node) -> Change | None:
    """int8 weights with a scale and a zero point of the whole tensor, an int32 bias in units x_scale * w_scale.

    Where the data is dequantized and the result leads to QuantizeLinear, through Relu and Clip at most; whether all of
    that becomes one integer operator does not matter. Nothing is done to a layer whose bias is not a constant vector.
    Source: WeightBiasQuantization of onnxruntime.
    """
    if node.domain or node.op_type not in WEIGHTED or not _leads_to_codes(wiring, node.outputs[0]):
        return None
    x, w, b = _meaning(wiring, node, node.input(0)), wiring.floats(node.input(1)), node.input(2)
    bias = wiring.floats(b) if b else None
    if x is None or w is None or w.size == 0 or (b and (bias is None or bias.ndim != 1)):
        return None
    scale, zero_point = parameters(w)
    steps, codes = Steps(wiring, node), np.clip(np.rint(w / scale) + zero_point, LOW, HIGH).astype(np.int8)
    named = steps.constant("weights_codes", codes)
    taken = [steps.dequantized("weights", named, np.asarray(scale), np.array(zero_point, np.int8))]
    if bias is not None:
        unit = np.asarray(x.scale * scale, np.float32)
        named = steps.constant("bias_codes", np.rint(bias / unit).astype(np.int32))
        taken.append(steps.dequantized("bias", named, unit, np.array(0, np.int32)))
    steps.nodes.append(replace(node, inputs=(node.input(0), *taken)))
    return steps.change()


def parameters(w: Array) -> tuple[np.float32, int]:
    """The scale and the zero point of codes that reach from the smallest weight, or 0, to the largest."""
    low, high = np.float32(min(w.min(), 0)), np.float32(max(w.max(), 0))
    scale = np.float32(1) if low == high else np.float32((high - low) / np.float32(HIGH - LOW))
    first = np.float32(LOW) - low / scale
    return scale, int(np.rint(np.clip(first, LOW, HIGH)))


def _meaning(wiring: Wiring, node: Node, tensor: str) -> GraphQuantization | None:
    """What the codes mean of which a tensor is dequantized, or moved then; None where there are none."""
    found, maker = dequantized(wiring, tensor), wiring.producers.get(tensor)
    if found is not None and found.quantization.is_per_tensor:
        return found.quantization
    if maker is None or maker.domain or tensor in wiring.outputs:
        return None
    is_padding = (node.op_type, maker.op_type) == ("Conv", "Pad")
    return _meaning(wiring, maker, maker.input(0)) if _moves(maker) or is_padding else None


def _moves(node: Node) -> bool:
    """Whether onnxruntime moves QuantizeLinear and DequantizeLinear through a node before it quantizes weights.

    Source: QDQPropagation; tried at opsets 10 to 25.
    """
    return not node.domain and node.op_type in CROSSED and (node.op_type != "MaxPool" or node.version >= 12)


def _leads_to_codes(wiring: Wiring, tensor: str, *, moved: bool = False) -> bool:
    """Whether a tensor is read once all the way through Relu and Clip, then movements, to QuantizeLinear.

    As in onnxruntime, that a tensor is an output of the model, too, does not matter, except of those that are moved.
    """
    readers = {reader.name for reader in wiring.readers.get(tensor, ())}
    reader = wiring.nodes[readers.pop()] if len(readers) == 1 else None
    if reader is None or is_quantize(reader):
        return reader is not None and not (moved and tensor in wiring.outputs)
    if not moved and reader.is_a("Clip", "Relu"):
        return _leads_to_codes(wiring, reader.outputs[0])
    return _moves(reader) and tensor not in wiring.outputs and _leads_to_codes(wiring, reader.outputs[0], moved=True)


# The scales of a convolution's channels become part of those of its weights, so that its codes are per tensor.


def scale_weights_by_input(wiring: Wiring, node: Node) -> Change | None:
    """A depthwise convolution of codes with a scale by channel: sum of w * s[c] * (q - zero point)."""
    w, maker = _weights(wiring, node), wiring.producers.get(node.input(0))
    x = None if maker is None or not is_dequantize(maker) else _by_channel(wiring, maker)
    if w is None or maker is None or x is None:
        return None
    outputs, per_group, *_ = wiring.graph.constants[w.codes].shape
    if per_group != 1 or node.attributes.get("group", 1) != x.scale.size or outputs % x.scale.size:
        return None
    steps = Steps(wiring, node)
    plain = steps.step("DequantizeLinear", maker.inputs[0], *steps.units(x.zero_point[0]))
    scaled = _rescaled(steps, w, np.repeat(x.scale, outputs // x.scale.size))
    steps.nodes.append(replace(node, inputs=(plain, scaled, *node.inputs[2:]), in_float=True))
    return steps.change()


def scale_weights_by_output(wiring: Wiring, node: Node) -> Change | None:
    """A convolution whose output, or its Relu, is quantized with a scale by channel: w / s[c], and bias / s[c]."""
    w, between, last = _weights(wiring, node), [node], wiring.only_reader(node.outputs[0])
    while last is not None and last.op_type == "Relu":
        between.append(last)
        last = wiring.only_reader(last.outputs[0])
    y = None if last is None or not is_quantize(last) else _by_channel(wiring, last)
    if w is None or last is None or y is None or wiring.graph.constants[w.codes].shape[0] != y.scale.size:
        return None
    steps, bias = Steps(wiring, last), float_constant(wiring, node.input(2))
    if bias is None and node.input(2):
        return None
    scaled = _rescaled(steps, w, np.float32(1) / y.scale)
    inputs = (node.inputs[0], scaled, *(() if bias is None else (steps.constant("bias", bias / y.scale),)))
    steps.nodes += (replace(node, inputs=inputs, in_float=True), *between[1:])
    steps.step("QuantizeLinear", last.inputs[0], *steps.units(y.zero_point[0]), is_last=True)
    return steps.change(remove=between)


def _by_channel(wiring: Wiring, node: Node) -> GraphQuantization | None:
    """How 8-bit codes are quantized with a scale by channel and one zero point."""
    found = quantization_of(wiring, node)
    is_alike = found is not None and found.axis == 1 and found.dtype.is_quantized and not np.ptp(found.zero_point)
    return found if is_alike else None


def _weights(wiring: Wiring, node: Node) -> Dequantized | None:
    return weights(wiring, node.input(1), 0) if node.is_a("Conv") else None


def _rescaled(steps: Steps, w: Dequantized, factors: Array) -> str:
    """The weights with their scales times ``factors`` (M,)."""
    by = w.quantization
    return steps.dequantized(
        "weights", w.codes, by.scale * factors, np.broadcast_to(by.zero_point, factors.shape), axis=0
    )


# ConvTranspose becomes a convolution whose output channels are the phases of the larger image, interleaved.


def lower_conv_transpose(wiring: Wiring, node: Node) -> Change | None:
    """ConvTranspose of one or two spatial axes with constant weights, float or of 8 bits that are dequantized.

    What a phase has too few taps for are weights of 0, or at their zero point.
    """
    if not node.is_a("ConvTranspose"):
        return None
    found, x = weights(wiring, node.input(1), 1), wiring.graph.value(node.input(0)).fixed_shape
    w = wiring.constant(node.input(1) if found is None else found.codes)
    axes, group = _transposed_axes(wiring, node), node.integer("group", 1)
    if w is None or x is None or axes is None or group < 1:
        return None
    if found is None and (w.dtype != np.float32 or w.shape[0] != x[1]):
        return None
    spread = _Spread(group, prod(axis.stride for axis in axes), w.shape[1] * group)
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
    steps.nodes.append(
        Node(node.name, "Conv", "", tuple(inputs), (image,), attributes, in_float=True, written=node.operator)
    )
    if spread.phases > 1:
        image = _interleaved(steps, image, x[0], axes, spread, is_last=not is_cut)
    if is_cut:
        first = np.array([axis.first for axis in axes], np.int64)
        ends = first, first + [axis.outputs for axis in axes], np.arange(2, 2 + len(axes), dtype=np.int64)
        named = [steps.constant(role, values) for role, values in zip(("first", "beyond", "axes"), ends, strict=True)]
        steps.step("Slice", image, *named, is_last=True, role="cut")
    return steps.change()


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


def _transposed_axes(wiring: Wiring, node: Node) -> tuple[TransposedAxis, ...] | None:
    """The spatial axes, None where the sizes are not known or the axes are more than two."""
    x, w = (wiring.graph.value(node.input(index)).fixed_shape for index in (0, 1))
    if x is None or w is None or len(x) not in (3, 4) or len(w) != len(x):
        return None
    try:
        return transposed_axes(node, x, w)
    except ValueError:  # check says it
        return None


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


def write_out_batch_normalization(wiring: Wiring, node: Node) -> Change | None:
    """x * s + (bias - mean * s), s = scale * (1 / sqrt(var + epsilon)), each operation rounded as in onnxruntime.

    Of an image in blocks of channels s = scale / sqrt(var + epsilon).
    """
    if not node.is_a("BatchNormalization") or any(node.outputs[1:]):
        return None
    if wiring.graph.dtype(node.input(0)) is not DType.FLOAT32:
        return None
    x, found = wiring.graph.value(node.inputs[0]).shape, [float_constant(wiring, name) for name in node.inputs[1:]]
    numbers = None if x is None or len(x) < 2 else normalization_of(node, found, x[1])
    if x is None or numbers is None:
        return None
    scale, bias, mean, variance = numbers
    with np.errstate(all="ignore"):
        deviation = np.sqrt(variance)
        factor = scale / deviation if node.inputs[0] in wiring.graph.in_blocks else scale * (np.float32(1) / deviation)
        addend = bias - mean * factor
    steps, shape = Steps(wiring, node), (-1, *(1,) * (len(x) - 2))
    product = steps.step("Mul", node.inputs[0], steps.constant("factor", factor.reshape(shape)))
    steps.step("Add", product, steps.constant("addend", addend.reshape(shape)), is_last=True)
    return steps.change()
