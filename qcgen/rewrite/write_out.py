"""Operators that several simpler ones compute: ConvTranspose, normalized batches, products, resizing, scales."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from qcgen.geometry import COORDINATES, HALF, ResizedCoordinate, TransposedAxis, transposed_axes
from qcgen.infer.facts import integers
from qcgen.ir.graph import MOST_ELEMENTS, Attribute, Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.channels_last import CHANNELS_FIRST, CHANNELS_LAST, SUMS, Perm, without_axes
from qcgen.rewrite.fold_constants import MALFORMED, Result, by_reference, float_constant
from qcgen.rewrite.quantization import (
    by_element,
    dequantized,
    is_dequantize,
    is_quantize,
    quantizer,
    weights,
)
from qcgen.rewrite.weights import normalization_of
from qcgen.rewrite.wiring import CAST_TO_FLOAT, Change, NoMatch, Steps, Wiring


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


def write_out_sums(wiring: Wiring, node: Node) -> Change | None:
    """Sum and Mean of several tensors: added from left to right; a Mean is multiplied by 1 / n, rounded, in the end."""
    if not node.is_a("Mean", "Sum") or not node.inputs or not all(node.inputs):
        return None
    steps, count, is_sum = Steps(wiring, node), len(node.inputs), node.op_type == "Sum"
    if wiring.graph.dtype(node.inputs[0]) is not DType.FLOAT32:
        return None
    if count == 1:
        steps.step("Identity", node.inputs[0], is_last=True)
        return steps.change()
    total = node.inputs[0]
    for place, name in enumerate(node.inputs[1:], 2):
        total = steps.step("Add", total, name, is_last=is_sum and place == count)
    if not is_sum:
        share = steps.constant("share", np.asarray(np.float32(1) / np.float32(count)))
        steps.step("Mul", total, share, is_last=True)
    return steps.change()


def write_out_gelus(wiring: Wiring, node: Node) -> Change | None:
    """FastGelu and BiasGelu: Gelu of x + bias, the former by tanh. Swish, x * sigmoid(alpha * x): QuickGelu."""
    ways = {"BiasGelu": "none", "FastGelu": "tanh"}
    if node.is_a("Swish"):
        alpha = {"alpha": node.attributes.get("alpha", 1.0)}
        quick = Node(node.name, "QuickGelu", "com.microsoft", node.inputs, node.outputs, alpha, written=node.operator)
        return Change(node, (quick,))
    if node.domain != "com.microsoft" or node.op_type not in ways or not node.inputs:
        return None
    steps, x = Steps(wiring, node), node.inputs[0]
    x = steps.step("Add", x, node.input(1)) if node.input(1) else x
    steps.step("Gelu", x, is_last=True, approximate=ways[node.op_type])
    return steps.change()


def write_out_logarithms(wiring: Wiring, node: Node) -> Change | None:
    """ReduceLogSum, and ReduceLogSumExp: log of the sum of e^(x - m), and m again, the largest of what is summed."""
    if not node.is_a("ReduceLogSum", "ReduceLogSumExp") or not node.inputs:
        return None
    if node.attributes.get("noop_with_empty_axes") or wiring.graph.dtype(node.inputs[0]) is not DType.FLOAT32:
        return None
    (x, *axes), steps, is_plain = node.inputs, Steps(wiring, node), node.op_type == "ReduceLogSum"

    def reduced(op_type: str, x: str, keepdims: Attribute) -> str:
        name = steps.fresh(f"{op_type.lower()}_{len(steps.nodes)}")
        attributes = {**node.attributes, "keepdims": keepdims}
        inner = replace(node, name=name, op_type=op_type, inputs=(x, *axes), outputs=(f"{name}_y",))
        steps.nodes.append(replace(inner, attributes=attributes))
        return f"{name}_y"

    keepdims, number = node.attributes.get("keepdims", 1), x
    if not is_plain:
        number = steps.step("Exp", steps.step("Sub", x, reduced("ReduceMax", x, 1)))
    total = steps.step("Log", reduced("ReduceSum", number, keepdims), is_last=is_plain)
    if not is_plain:
        steps.step("Add", total, reduced("ReduceMax", x, keepdims), is_last=True)
    return steps.change()


# What is left divides or multiplies by the scales in float32, each number as onnxruntime does.


def write_out_scales(wiring: Wiring, node: Node) -> Change | None:
    """QuantizeLinear and DequantizeLinear of computed tensors by axis or block."""
    x = wiring.graph.value(node.input(0))
    scale, zero = wiring.constant(node.input(1)), wiring.constant(node.input(2))
    if not (is_quantize(node) or is_dequantize(node)) or scale is None or scale.size < 2 or x.fixed_shape is None:
        return None
    if scale.dtype != np.float32 or (node.input(2) and (zero is None or zero.shape != scale.shape)):
        return None
    coded = wiring.graph.value(node.outputs[0]) if is_quantize(node) else x
    dtype = coded.dtype if zero is None else DType.of(zero)
    if dtype is None or (is_quantize(node) and not dtype.is_code):
        return None
    zero = np.zeros(scale.shape, dtype.numpy) if zero is None else zero
    is_one, steps = not np.ptp(zero), Steps(wiring, node)
    only = zero.reshape(-1)[0] if is_one else np.zeros((), zero.dtype)
    scales = _by_element(node, scale, x.fixed_shape)
    zeros = None if is_one else _by_element(node, zero, x.fixed_shape).astype(np.float32)
    if is_quantize(node):  # x / scale, which QuantizeLinear rounds and saturates; several zero points are added between
        number = steps.step("Div", node.inputs[0], steps.constant("scales", scales))
        if zeros is not None:
            number = steps.step("Add", steps.step("Round", number), steps.constant("zero_points", zeros))
        steps.step("QuantizeLinear", number, *steps.units(only), is_last=True)
    else:  # (code - zero point) * scale
        number = steps.step("DequantizeLinear", node.inputs[0], *steps.units(only))
        if zeros is not None:
            number = steps.step("Sub", number, steps.constant("zero_points", zeros))
        steps.step("Mul", number, steps.constant("scales", scales), is_last=True)
    return steps.change()


def _by_element(node: Node, parameter: Array, shape: tuple[int, ...]) -> Array:
    axis, block = node.attributes.get("axis", 1), node.attributes.get("block_size", 0)
    if not isinstance(axis, int) or not isinstance(block, int):
        raise NoMatch
    found = by_element(parameter, shape, axis, block)
    if found is None:
        raise NoMatch
    return found


# Operators that move elements to constant places take them from there.

MOVED: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Compress", "GatherND", "ReverseSequence", "Trilu"), (0,)),
    **dict.fromkeys(("ScatterElements", "ScatterND"), (0, 2)),
}
"""The inputs whose elements become those of the result, by operator."""

MOST_NUMBERS = 2**22
"""The most elements that are numbered."""


def move_to_places(wiring: Wiring, node: Node) -> Change | None:
    """Gather, along the only axis of what is moved: what the operator makes of numbers says where each element is from.

    They are numbered from 1 on; where 0 comes out, there is a zero.
    """
    moved = () if node.domain else MOVED.get(node.op_type, ())
    if not moved or len(node.inputs) <= moved[-1] or node.attributes.get("reduction", "none") != "none":
        return None
    operands, parts, total = [wiring.constant(name) for name in node.inputs], list[str](), 1
    steps, to, dtype = Steps(wiring, node), np.array([-1], np.int64), wiring.graph.dtype(node.inputs[0])
    for index in moved:
        shape = wiring.graph.value(node.inputs[index]).fixed_shape
        if shape is None or total + prod(shape) > MOST_NUMBERS:
            return None
        operands[index] = np.arange(total, total + prod(shape)).reshape(shape)
        total += prod(shape)
        parts.append(steps.step("Reshape", node.inputs[index], steps.constant(f"shape_{index}", to)))
    if dtype is None or any(name and array is None for name, array in zip(node.inputs, operands, strict=True)):
        return None
    try:
        places = by_reference(Result(node, DType.INT64, ()), *operands)
    except MALFORMED as malformed:
        raise NoMatch from malformed
    if not places.all():
        parts.append(steps.constant("zero", np.zeros(1, dtype.numpy)))
    row = parts[0] if len(parts) == 1 else steps.step("Concat", *parts, axis=0)
    steps.step("Gather", row, steps.constant("places", (places - 1) % total), is_last=True, axis=0)
    return steps.change()


# Comparisons of integers with constants, such as of words with the number that fills a text.

_COMPARED = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_EXACT = 2**24
"""Integers of a smaller magnitude are float32 numbers, and rounding takes no other one to or beyond them."""


def compare_as_floats(wiring: Wiring, node: Node) -> Change | None:
    """A comparison of int32 or int64 with small constants: float32 numbers compare alike."""
    if node.domain or node.op_type not in _COMPARED or len(node.inputs) != 2:
        return None
    first, second = map(wiring.constant, node.inputs)
    constant, computed = (second, node.inputs[0]) if first is None else (first, node.inputs[1])
    if constant is None or wiring.graph.value(computed).dtype not in (DType.INT32, DType.INT64):
        return None
    if constant.dtype not in (np.int32, np.int64) or (np.abs(constant.astype(np.float64)) >= _EXACT).any():
        return None
    steps = Steps(wiring, node)
    number = steps.step("Cast", computed, to=CAST_TO_FLOAT)
    numbers = steps.constant("numbers", constant.astype(np.float32))
    steps.step(node.op_type, *((number, numbers) if first is None else (numbers, number)), is_last=True)
    return steps.change()


def name_upsamples(wiring: Wiring, node: Node) -> Change | None:
    """Upsample, which opset 10 removed, is the Resize that it means: places are asymmetric, and rounded down.

    onnxruntime refuses scales below 1.
    """
    mode, x = node.attributes.get("mode", "nearest"), node.input(0)
    if not node.is_a("Upsample") or mode not in ("linear", "nearest") or not x:
        return None
    given = node.attributes.get("scales")
    scales = wiring.floats(node.input(1)) if given is None else np.array(given, np.float32)
    if scales is None or scales.ndim != 1 or not (scales >= 1).all():
        return None
    steps = Steps(wiring, node)
    steps.step(
        "Resize",
        *(x, "", steps.constant("scales", scales)),
        is_last=True,
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return steps.change()


# Resize by linear interpolation: four elements for each output, weighted and added, as onnxruntime does in float32.

Halves = tuple[tuple[Array, Array], tuple[Array, Array]]
"""Of an axis: for each output the place of the element in front of it and its weight; the same of that behind it."""


def resize_channels_last(names: Collection[str], wiring: Wiring, node: Node) -> Change | None:
    """One of these Resizes, which onnxruntime computes with channels last: there it is one of the axes 1 and 2."""
    if node.name not in names or _axes(wiring, node) is None:
        return None
    steps = Steps(wiring, node)
    inputs = [steps.step("Transpose", node.inputs[0], perm=CHANNELS_LAST)]
    for number, name in enumerate(node.inputs[1:], 1):
        given = wiring.constant(name)
        if number > 1 and given is not None and given.shape == (4,):  # scales or sizes
            name = steps.constant(f"input_{number}", given[[*CHANNELS_LAST]])
        inputs.append(name)
    resized = steps.fresh("channels_last")
    steps.nodes.append(replace(node, inputs=tuple(inputs), outputs=(resized,)))
    steps.step("Transpose", resized, perm=CHANNELS_FIRST, is_last=True, role="channels_first")
    return steps.change()


def reduce_before(orders: Mapping[str, Perm], wiring: Wiring, node: Node) -> Change | None:
    """One of these reductions, which onnxruntime has in front of a transposition: it adds up in the order there."""
    perm = orders.get(node.name) if node.op_type in SUMS else None
    x = wiring.graph.value(node.input(0))
    if perm is None or x.shape is None or x.dtype is not DType.FLOAT32 or len(x.shape) != len(perm):
        return None
    if dequantized(wiring, x.name) is not None and quantizer(wiring, node.outputs[0]) is not None:
        return None  # integers
    given = wiring.known(node.input(1)) if node.input(1) else node.attributes.get("axes")
    named = tuple(range(len(perm))) if given is None else integers(given)
    axes = tuple(sorted(perm[axis % len(perm)] for axis in named))
    steps, keeps_axes = Steps(wiring, node), bool(node.attributes.get("keepdims", 1))
    source = steps.step("Transpose", x.name, perm=tuple(np.argsort(perm).tolist()))
    attributes = {key: value for key, value in node.attributes.items() if key != "axes"}
    inputs = [source]
    if node.input(1):
        inputs.append(steps.constant("axes", np.array(axes, np.int64)))
    elif given is not None:
        attributes["axes"] = axes
    reduced = steps.fresh("before")
    steps.nodes.append(replace(node, inputs=tuple(inputs), outputs=(reduced,), attributes=attributes))
    behind = perm if keeps_axes else without_axes(perm, axes)
    steps.step("Transpose", reduced, perm=behind, is_last=True, role="behind")
    return steps.change()


def linear_resize(wiring: Wiring, node: Node) -> Change | None:
    """Resize of the last two of four axes, of float32 numbers or of codes, whose results onnxruntime truncates.

    Of the middle two, channels last, only float32 numbers: there onnxruntime weighs codes by integers.

    y = from_second * from_second' * x11 + ..., products and sums rounded from left to right. Source: UpsampleBilinear.
    """
    found = _axes(wiring, node)
    if found is None:
        return None
    place, axes = found
    steps, x = Steps(wiring, node), node.inputs[0]
    dtype = wiring.graph.value(x).dtype
    if dtype is not None and dtype.is_quantized:
        one = steps.units(np.zeros((), dtype.numpy))
        total = _interpolated(steps, steps.step("DequantizeLinear", x, *one), place, *axes, is_last=False)
        size = steps.step("Floor", steps.step("Abs", total))
        whole = steps.step("Mul", steps.step("Sign", total), size)
        steps.step("QuantizeLinear", whole, *one, is_last=True)
    else:
        _interpolated(steps, x, place, *axes, is_last=True)
    return steps.change()


def _interpolated(steps: Steps, x: str, place: int, down: Halves, across: Halves, *, is_last: bool) -> str:
    """The four products, added one after the other; ``place`` is the first of the two axes."""
    rows = [steps.step("Gather", x, steps.constant(f"rows_{i}", at), axis=place) for i, (at, _) in enumerate(down)]
    columns = [steps.constant(f"columns_{i}", at) for i, (at, _) in enumerate(across)]
    total = ""
    for i, (_, by_row) in enumerate(down):
        for j, (_, by_column) in enumerate(across):
            weights = (by_column[None, :] * by_row[:, None]).astype(np.float32)
            taken = steps.step("Gather", rows[i], columns[j], axis=place + 1)
            shaped = weights[None, None] if place == 2 else weights[None, :, :, None]
            term = steps.step("Mul", taken, steps.constant(f"weights_{i}{j}", shaped))
            total = steps.step("Add", total, term, is_last=is_last and i + j == 2) if total else term
    return total


def _axes(wiring: Wiring, node: Node) -> tuple[int, tuple[Halves, Halves]] | None:
    """The two axes along which is interpolated, and the place of the first; None for another Resize."""
    if (node.domain, node.op_type, node.attributes.get("mode")) != ("", "Resize", "linear"):
        return None
    x, y = (wiring.graph.value(name) for name in (node.inputs[0], node.outputs[0]))
    is_known = x.dtype is not None and (x.dtype is DType.FLOAT32 or x.dtype.is_quantized)
    if not is_known or x.fixed_shape is None or y.fixed_shape is None or len(x.fixed_shape) != 4:
        return None
    if any(node.attributes.get(name) for name in ("antialias", "axes", "exclude_outside")):
        return None
    mode = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    coordinate = COORDINATES.get(mode) if isinstance(mode, str) and mode != "tf_half_pixel_for_nn" else None
    scales = _scales(wiring, node, x.fixed_shape, y.fixed_shape)
    if coordinate is None or scales is None:
        return None
    kept = [a == b for a, b in zip(x.fixed_shape, y.fixed_shape, strict=True)]
    is_last = x.dtype is DType.FLOAT32 and kept[0] and kept[3] and scales[0] == scales[3] == 1
    place = 2 if kept[0] and kept[1] else 1
    if place == 1 and not is_last:
        return None
    if max(x.fixed_shape + y.fixed_shape) > MOST_ELEMENTS:  # check refuses it
        return None
    down, across = (_axis(coordinate, x.fixed_shape[at], y.fixed_shape[at], scales[at]) for at in (place, place + 1))
    return place, (down, across)


def _scales(wiring: Wiring, node: Node, x: tuple[int, ...], y: tuple[int, ...]) -> Array | None:
    """The scales that are given, else those of the sizes, in float32."""
    if node.version < 11:
        return None
    given = wiring.constant(node.input(2)) if node.input(2) else None
    if given is not None and given.shape == (4,) and not node.input(3):
        return given if np.isfinite(given).all() and (given > 0).all() else None
    return np.array(y, np.float32) / np.array(x, np.float32) if wiring.constant(node.input(3)) is not None else None


def _axis(coordinate: ResizedCoordinate, size: int, length: int, scale: np.float32) -> Halves:
    at = coordinate(np.arange(length, dtype=np.float32), np.float32(scale), size, length).astype(np.float32)
    at = np.clip(at, np.float32(0), np.float32(size - 1))
    first = np.minimum(at.astype(np.int64), size - 1)
    second = np.minimum(first + 1, size - 1)
    one = first == second  # the last element: both halves of it
    from_first, from_second = (np.where(one, HALF, np.abs(at - end.astype(np.float32))) for end in (first, second))
    return (first, from_second), (second, from_first)


# ConvTranspose becomes a convolution whose output channels are the phases of the larger image, interleaved.


def lower_conv_transpose(wiring: Wiring, node: Node) -> Change | None:
    """ConvTranspose of one or two spatial axes with constant weights, float or of 8 bits that are dequantized.

    What a phase has too few taps for are weights of 0, or at their zero point.
    """
    if not node.is_a("ConvTranspose"):
        return None
    found, x = weights(wiring, node.input(1), 1), wiring.graph.value(node.input(0)).fixed_shape
    w = wiring.constant(node.input(1) if found is None else found.codes)
    axes, group = _transposed_axes(wiring, node), node.attributes.get("group", 1)
    if w is None or x is None or axes is None or not isinstance(group, int) or group < 1:
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
