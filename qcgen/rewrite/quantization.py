"""What QuantizeLinear and DequantizeLinear say of tensors, and how they move through operators, forward and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from qcgen import arithmetic
from qcgen.ir.graph import Node, element_type
from qcgen.ir.types import Array, DType
from qcgen.rewrite.wiring import Change, NoMatch, Steps, Wiring

DOMAINS = ("", "com.microsoft")
"""The domains in which QuantizeLinear and DequantizeLinear mean the same."""


@dataclass(frozen=True)
class GraphQuantization:
    """real value = (code - zero_point) * scale.

    ``scale`` float32, positive and finite; ``zero_point`` in the codes' type ``dtype``. Both are scalars where ``axis``
    is None (per tensor), else (n,) along that axis. The names are those of the constants; ``zero_point_name`` is ""
    where the model leaves it out.
    """

    dtype: DType
    scale: Array
    zero_point: Array
    axis: int | None
    scale_name: str
    zero_point_name: str

    @property
    def names(self) -> tuple[str, str]:
        """Scale and zero point as operands of a node."""
        return (self.scale_name, self.zero_point_name)

    def same_as(self, other: GraphQuantization) -> bool:
        """Whether the codes mean the same, however the constants are called."""
        return (
            self.dtype is other.dtype
            and self.axis == other.axis
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    @property
    def is_per_tensor(self) -> bool:
        """Whether this is how activations are quantized, to 8 or 16 bits."""
        return self.dtype.is_code and self.axis is None

    def real_values(self, codes: Array) -> Array:
        """The float32 values of codes, as DequantizeLinear computes them; per tensor."""
        return arithmetic.dequantize(codes, float(self.scale), int(self.zero_point))

    def codes(self, values: Array) -> Array:
        """The codes of float32 values, as QuantizeLinear computes them; per tensor."""
        ends = self.dtype.low, self.dtype.high
        codes = arithmetic.quantize(values, float(self.scale), int(self.zero_point), *ends)
        return np.asarray(codes.astype(self.dtype.numpy))


@dataclass(frozen=True)
class Dequantized:
    """A float tensor that DequantizeLinear makes of ``codes``.

    ``in_float``: onnxruntime computes what reads it in float.
    """

    codes: str
    quantization: GraphQuantization
    in_float: bool = False


def by_element(node: Node, parameter: Array, shape: tuple[int, ...]) -> Array:
    """A scale or zero point in a shape that broadcasts with a tensor: per tensor, along an axis, or in blocks of it.

    NoMatch if it has not one element for each place or block. Source: ONNX DequantizeLinear-21; the last block may be
    shorter.
    """
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    if parameter.size == 1 and not block:
        return parameter.reshape(())
    if not -len(shape) <= axis < len(shape) or block < 0:
        raise NoMatch
    if block:
        of_blocks = list(shape)
        of_blocks[axis] = -(-shape[axis] // block)
        if parameter.shape != tuple(of_blocks):
            raise NoMatch
        return np.take(parameter, np.arange(shape[axis]) // block, axis=axis)
    if parameter.shape != (shape[axis],):
        raise NoMatch
    return parameter.reshape(-1, *(1,) * (len(shape) - axis % len(shape) - 1))


def is_quantize(node: Node) -> bool:
    """Whether this is a QuantizeLinear."""
    return node.op_type == "QuantizeLinear" and node.domain in DOMAINS


def is_dequantize(node: Node) -> bool:
    """Whether this is a DequantizeLinear."""
    return node.op_type == "DequantizeLinear" and node.domain in DOMAINS


def quantization_of(wiring: Wiring, node: Node) -> GraphQuantization | None:
    """The parameters of a QuantizeLinear or DequantizeLinear; None unless they are constant and well-formed."""
    scale, zero_point = wiring.constant(node.input(1)), wiring.constant(node.input(2))
    if scale is None or scale.dtype != np.float32 or scale.ndim > 1 or node.attributes.get("block_size"):
        return None
    if not np.all(np.isfinite(scale) & (scale > 0)) or (node.input(2) and zero_point is None):
        return None
    if zero_point is None:
        named = element_type(node.integer("output_dtype", 0)) or DType.UINT8
        dtype = wiring.graph.dtype(node.input(0)) if is_dequantize(node) else named
        if dtype is None or dtype is DType.OTHER:
            return None
        zero_point = np.zeros(scale.shape, dtype.numpy)
    if zero_point.dtype.kind not in "iu" or zero_point.size != scale.size or zero_point.ndim > 1:
        return None
    one = scale.size == 1
    return GraphQuantization(
        DType.of(zero_point),
        scale.reshape(()) if one else scale,
        zero_point.reshape(()) if one else zero_point,
        None if one else _axis(wiring, node),
        node.input(1),
        node.input(2),
    )


def _axis(wiring: Wiring, node: Node) -> int:
    axis, shape = node.integer("axis", 1), wiring.graph.value(node.input(0)).shape
    return axis + len(shape) if axis < 0 and shape is not None else axis


def dequantized(wiring: Wiring, tensor: str) -> Dequantized | None:
    """How a tensor is dequantized, None if it comes from anything but a well-formed DequantizeLinear."""
    node = wiring.producers.get(tensor)
    if node is None or not is_dequantize(node):
        return None
    quantization = quantization_of(wiring, node)
    return None if quantization is None else Dequantized(node.input(0), quantization, node.in_float)


def weights(wiring: Wiring, tensor: str, axis: int) -> Dequantized | None:
    """Constant 8-bit weights, dequantized per tensor or along an axis."""
    found = dequantized(wiring, tensor)
    if found is None or wiring.constant(found.codes) is None or not found.quantization.dtype.is_quantized:
        return None
    return found if found.quantization.axis in (None, axis) else None


def quantizer(wiring: Wiring, tensor: str) -> tuple[Node, GraphQuantization] | None:
    """The QuantizeLinear to 8 or 16 bits, per tensor, that alone reads a tensor."""
    node = wiring.only_reader(tensor)
    if node is None or not is_quantize(node) or node.input(0) != tensor:
        return None
    by = quantization_of(wiring, node)
    return (node, by) if by is not None and by.is_per_tensor else None


# Relu and Clip as bounds on real numbers or on codes.


@dataclass(frozen=True)
class Clamp:
    """min(max(x, low), high) in float32: where the bounds are crossed the upper one wins."""

    low: float
    high: float

    def of(self, values: Array) -> Array:
        """The clamped values."""
        return np.asarray(np.minimum(np.maximum(values, np.float32(self.low)), np.float32(self.high)))

    def codes(self, quantization: GraphQuantization) -> tuple[int, int]:
        """The clamp of codes that equals clamping first and quantizing then.

        Quantization never decreases, so Q(min(max(x, low), high)) = min(max(Q(x), Q(low)), Q(high)), whether or not a
        bound lies on a code.
        """
        low, high = quantization.codes(np.array([self.low, self.high], np.float32))
        return int(low), int(high)


def clamp_of(wiring: Wiring, node: Node) -> Clamp | None:
    """The bounds of a float Relu or Clip, None for other nodes and for bounds that are not constant numbers."""
    match (node.domain, node.op_type):
        case ("", "Relu"):
            return Clamp(0.0, float("inf"))
        case ("", "Clip"):
            low = _number(wiring, node, 1, "min", float("-inf"))
            high = _number(wiring, node, 2, "max", float("inf"))
            is_known = low is not None and high is not None and not np.isnan([low, high]).any()
            return None if low is None or high is None or not is_known or are_crossed(node) else Clamp(low, high)
    return None


def are_crossed(node: Node) -> bool:
    """Whether a Clip has attributes, those before opset 11, whose min is above its max: onnxruntime refuses that."""
    low, high = (node.attributes.get(name) for name in ("min", "max"))
    return isinstance(low, int | float) and isinstance(high, int | float) and low > high


def _number(wiring: Wiring, node: Node, index: int, attribute: str, default: float) -> float | None:
    """A number of float32, an attribute before opset 11; None if it is not constant."""
    if not node.input(index):
        return float(node.number(attribute, default))
    constant = wiring.floats(node.input(index))
    return None if constant is None or constant.size != 1 else float(constant.reshape(()))


def code_bounds(wiring: Wiring, node: Node) -> tuple[Array, Array] | None:
    """The bounds of a Clip of codes, None for other nodes."""
    if not node.is_a("Clip"):
        return None
    low, high = wiring.constant(node.input(1)), wiring.constant(node.input(2))
    if low is None or high is None or low.size != 1 or high.size != 1 or low.dtype != high.dtype:
        return None
    return (low.reshape(()), high.reshape(())) if DType.of(low).is_code else None


def drop_clamps(wiring: Wiring, node: Node) -> Change | None:
    """Clip of codes between the ends of the type gives its input."""
    bounds, output = code_bounds(wiring, node), node.outputs[0]
    if bounds is None or int(bounds[0]) > DType.of(bounds[0]).low or int(bounds[1]) < DType.of(bounds[0]).high:
        return None
    if output not in wiring.outputs:
        return Change(node, rename={output: node.inputs[0]})
    maker = wiring.producers.get(node.inputs[0])
    if maker is None or wiring.only_reader(node.inputs[0]) is None:
        return None
    outputs = tuple(output if name == node.inputs[0] else name for name in maker.outputs)
    return Change(node, (replace(maker, outputs=outputs),), remove=(maker,))


# Operators that commute with quantization.

CHOICES = frozenset({"GlobalMaxPool", "ReduceMax", "ReduceMin"})
"""The operators of ai.onnx that choose one of many elements; quantization keeps the order of the numbers."""

IN_ORDER = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""Those that give elements another shape."""

SINGLE = IN_ORDER | {"MaxPool", "Transpose"}
"""Movements of one tensor that neither add elements nor give several outputs; MaxPool chooses, too."""

MOVEMENTS = (
    CHOICES
    | SINGLE
    | {"Concat", "DepthToSpace", "Expand", "Gather", "Pad", "Resize", "Slice", "SpaceToDepth", "Split", "Tile"}
)
"""The operators of ai.onnx that do to codes what they do to numbers."""

CROSSED = frozenset({"MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Those through which onnxruntime, too, moves QuantizeLinear and DequantizeLinear."""


def is_movement(node: Node) -> bool:
    """Whether a node has the same meaning on codes, but for the constant that Pad fills in."""
    if node.domain or node.op_type not in MOVEMENTS:
        return False
    match node.op_type:
        case "MaxPool":
            return not any(node.outputs[1:])
        case "Resize":
            interpolates = node.attributes.get("mode", "nearest") != "nearest"
            extends = node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
            return not interpolates and not extends
    return True


def clamp_earlier(wiring: Wiring, node: Node) -> Change | None:
    """Clip of the codes that a movement gives to nothing else becomes the movement of clamped codes.

    The operator in front of the movement may clamp along with its own work.
    """
    if code_bounds(wiring, node) is None:
        return None
    between = node.inputs[0]
    mover = wiring.producers.get(between)
    if mover is None or mover.op_type not in SINGLE or not is_movement(mover) or wiring.only_reader(between) is None:
        return None
    clamped = wiring.fresh(f"{mover.inputs[0]}_clamped")
    clip = replace(node, inputs=(mover.inputs[0], *node.inputs[1:]), outputs=(clamped,))
    moved = replace(mover, inputs=(clamped, *mover.inputs[1:]), outputs=(node.outputs[0], *mover.outputs[1:]))
    return Change(node, (clip, moved), remove=(mover,))


def _data_inputs(node: Node) -> tuple[str, ...]:
    """The tensors whose elements are moved; further inputs are shapes, axes and the like."""
    return node.inputs if node.op_type == "Concat" else node.inputs[:1]


def _on_codes(
    wiring: Wiring, steps: Steps, node: Node, inputs: tuple[str, ...], outputs: tuple[str, ...], by: GraphQuantization
) -> Node | None:
    """A movement, Relu or Clip on codes of this meaning, its constants in ``steps``; None where it has no such form.

    ``inputs`` take the place of the data inputs. Quantizing before it gives what quantizing behind it gave.
    """
    clamp = clamp_of(wiring, node)
    if clamp is not None:
        low, high = (np.array(code, by.dtype.numpy) for code in clamp.codes(by))
        ends = steps.constant("low", low), steps.constant("high", high)
        return Node(node.name, "Clip", "", (inputs[0], *ends), outputs[:1], {})
    if not is_movement(node):
        return None
    moved = replace(node, inputs=(*inputs, *node.inputs[len(inputs) :]), outputs=outputs)
    if not _fills(node):
        return moved
    value = _number(wiring, node, 2, "value", 0.0)
    if value is None or np.isnan(value):
        return None
    code = by.codes(np.array(value, np.float32))
    if len(node.inputs) == 1:
        return replace(moved, attributes={**node.attributes, "value": float(code)})
    return replace(moved, inputs=(*moved.inputs[:2], steps.constant("value", code), *moved.inputs[3:]))


def _fills(node: Node) -> bool:
    """Whether a node is a Pad with a number."""
    return node.op_type == "Pad" and node.attributes.get("mode", "constant") == "constant"


# Quantization moves in front of operators that commute with it.


def quantize_earlier(wiring: Wiring, node: Node) -> Change | None:
    """A movement, MaxPool, Relu or Clip that QuantizeLinear alone reads works on the codes instead.

    Split is left out: it has several readers. What chooses one of many elements that are dequantized stays: there is
    less to quantize behind it.
    """
    clamp = clamp_of(wiring, node)
    if not (is_movement(node) or clamp is not None) or len(node.outputs) != 1 or _recodes(wiring, node):
        return None
    found, source = quantizer(wiring, node.outputs[0]), dequantized(wiring, node.input(0))
    if found is None or (node.op_type in CHOICES and source is not None and source.quantization.is_per_tensor):
        return None
    (quantize, by), steps = found, Steps(wiring, node)
    by_source = {name: wiring.fresh(f"{name}_quantized") for name in _data_inputs(node)}
    codes = tuple(by_source[name] for name in _data_inputs(node))
    moved = _on_codes(wiring, steps, node, codes, quantize.outputs, by)
    if moved is None or (clamp is not None and _may_be_nan(wiring, node.input(0))):
        return None
    # In onnxruntime a QuantizeLinear stays behind a node that is not CROSSED, or that clamps codes, so that what is in
    # front of it stays in float. Source: models as 1.32.0 optimizes them, with session.qdqisint8allowed=1.
    clamps = clamp is not None and clamp.codes(by) != (by.dtype.low, by.dtype.high)
    stops = clamps if clamp is not None else node.op_type not in CROSSED
    earlier = tuple(
        replace(
            quantize,
            name=quantize.name if index == 0 else wiring.fresh(f"{quantize.name}_of_{source}"),
            inputs=(source, *quantize.inputs[1:]),
            outputs=(codes,),
            in_float=quantize.in_float or stops,
        )
        for index, (source, codes) in enumerate(by_source.items())
    )
    # On through all movements at once; a clamp may become part of what is in front of it, and waits for that.
    before = (wiring.producers.get(source) for source in by_source)
    again = tuple(maker.name for maker in before if maker is not None and is_movement(maker))
    return Change(node, (*earlier, moved), remove=(quantize,), constants=steps.constants, again=again)


def name_clamped(wiring: Wiring, node: Node) -> Change | None:
    """A product that onnxruntime leaves in float: a Relu or Clip, with one reader, alone reads it.

    Unless that is a QuantizeLinear whose codes end with the bounds. A Relu in front of a Clip is part of it. What
    quantizes to fewer than 8 bits keeps a product in float, too. Source: NodeGroupSelector::GetQDQSelection.
    """
    if node.in_float or not node.is_a("Gemm", "MatMul"):
        return None
    last, low, is_clamped, bounds = node, float("-inf"), False, None
    reader = wiring.only_reader(node.outputs[0])
    for op_type in ("Relu", "Clip"):
        if reader is not None and (reader.domain, reader.op_type) == ("", op_type):
            last, is_clamped, bounds = reader, True, clamp_of(wiring, reader)
            reader = wiring.only_reader(reader.outputs[0])
            if bounds is not None:
                low = max(low, bounds.low)
    is_read = reader is not None
    while reader is not None and reader.op_type in CROSSED and is_movement(reader):
        last, reader = reader, wiring.only_reader(reader.outputs[0])
    found = quantizer(wiring, last.outputs[0])
    if found is None:
        is_kept = is_clamped and is_read
    else:
        quantize, by = found
        ends = None if bounds is None else replace(bounds, low=low).codes(by)
        is_kept = quantize.in_float or (is_clamped and ends != (by.dtype.low, by.dtype.high))
    return Change(node, (replace(node, in_float=True),)) if is_kept else None


MAKE_NAN = frozenset({"Div", "Log", "Pow", "Sqrt"})
"""Operators that may give NaN for finite numbers."""


def _may_be_nan(wiring: Wiring, tensor: str) -> bool:
    """Whether a tensor may hold NaN, which gives the lowest code, also behind a Relu: not the code of its bound."""
    left, seen = [tensor], set[str]()
    while left:
        maker = wiring.producers.get(left.pop())
        if maker is None or maker.name in seen or is_dequantize(maker):
            continue
        seen.add(maker.name)
        divisor = wiring.constant(maker.input(1)) if maker.op_type == "Div" else None
        if maker.op_type in MAKE_NAN and (divisor is None or not divisor.all()):
            return True
        left += maker.inputs
    return False


def _recodes(wiring: Wiring, node: Node) -> bool:
    """Whether this is a Relu or Clip between 8-bit codes of two meanings: one table does it all."""
    source, found = dequantized(wiring, node.input(0)), quantizer(wiring, node.outputs[0]) if node.outputs else None
    if source is None or found is None or clamp_of(wiring, node) is None:
        return False
    ends = source.quantization, found[1]
    return all(end.is_per_tensor and end.dtype.is_quantized for end in ends) and not ends[0].same_as(ends[1])


# Dequantization moves behind operators that commute with it.


def dequantize_later(wiring: Wiring, node: Node) -> Change | None:
    """A movement, MaxPool, Relu or Clip whose data are all dequantized alike works on the codes instead.

    Only where the values stay what they were, to the last bit: bounds and the constant of a Pad must be values of
    codes, or bounds beyond all of them.
    """
    if not (is_movement(node) or clamp_of(wiring, node) is not None) or _recodes(wiring, node):
        return None
    sources = [dequantized(wiring, name) for name in _data_inputs(node)]
    first = sources[0] if sources else None
    if first is None or not all(source and source.quantization.same_as(first.quantization) for source in sources):
        return None
    after = _meaning_after(wiring, node, first)
    if after is None:
        return None
    codes = tuple(wiring.fresh(f"{name}_quantized") if name else "" for name in node.outputs)
    inputs, steps = tuple(source.codes for source in sources if source is not None), Steps(wiring, node)
    moved = _on_codes(wiring, steps, node, inputs, codes, first.quantization)
    if moved is None:
        return None
    attributes: Mapping[str, int] = {} if after.axis is None else {"axis": after.axis}
    pairs = ((wiring.fresh(f"{y}_dequantize"), x, y) for x, y in zip(codes, node.outputs, strict=True) if y)
    in_float = _keeps_numbers(wiring, node) or any(source.in_float for source in sources if source is not None)
    later = (
        Node(name, "DequantizeLinear", "", (x, *after.names), (y,), attributes, in_float=in_float)
        for name, x, y in pairs
    )
    return Change(node, (moved, *later), constants=steps.constants)


PADDED = frozenset({"AveragePool", "Conv", "MaxPool"})
"""The operators that onnxruntime joins with a Pad of zeros in front of them."""


def _keeps_numbers(wiring: Wiring, node: Node) -> bool:
    """Whether onnxruntime leaves DequantizeLinear in front of a node, and so computes what is behind it in float."""
    if _fills(node) and _number(wiring, node, 2, "value", 0.0) == 0:
        reader = wiring.only_reader(node.outputs[0])
        return reader is None or reader.op_type not in PADDED
    return node.op_type not in CROSSED


def _meaning_after(wiring: Wiring, node: Node, source: Dequantized) -> GraphQuantization | None:
    """What the codes mean behind the node; None if a value would change."""
    by, codes, clamp = source.quantization, wiring.constant(source.codes), clamp_of(wiring, node)
    if by.axis is not None:  # scales along an axis survive a Transpose of constants, and nothing else
        if node.op_type != "Transpose" or codes is None:
            return None
        perm = node.attributes.get("perm", tuple(reversed(range(codes.ndim))))
        return replace(by, axis=perm.index(by.axis)) if isinstance(perm, tuple) and by.axis in perm else None
    if not by.dtype.is_code:
        return by if node.op_type in IN_ORDER | {"Transpose"} else None
    if clamp is not None:
        every = np.arange(by.dtype.low, by.dtype.high + 1).astype(by.dtype.numpy)
        clamped = np.minimum(np.maximum(every, clamp.codes(by)[0]), clamp.codes(by)[1])
        return by if np.array_equal(by.real_values(clamped), clamp.of(by.real_values(every))) else None
    if _fills(node):
        value = _number(wiring, node, 2, "value", 0.0)
        if value is None or np.isnan(value):
            return None
        number = np.array(value, np.float32)
        return by if by.real_values(by.codes(number)) == number else None
    return by


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
    scales = by_element(node, scale, x.fixed_shape)
    zeros = None if is_one else by_element(node, zero, x.fixed_shape).astype(np.float32)
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
