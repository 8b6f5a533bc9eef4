"""Several nodes that are one, other spellings of one, and nodes without effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np

from qcgen.ir.graph import NEWEST, Graph, Node, element_type, number_of
from qcgen.ir.types import Array, DType
from qcgen.rewrite.quantization import (
    GraphQuantization,
    dequantized,
    is_dequantize,
    is_quantize,
    quantization_of,
    quantizer,
)
from qcgen.rewrite.wiring import CAST_TO_FLOAT, Change, Steps, Wiring, apply

# Expressions of operators that a tensor may be computed by.

Expression = str | float | tuple[object, ...]
"""A tensor by its role, a constant number, or an operator of others: (op_type, expression, ...).

A role is one tensor wherever it stands; an expression that stands twice may be computed twice. Further inputs of an
operator, such as axes, and its attributes are for the reader of the match to judge.
"""

BOTH_WAYS = frozenset(("Add", "Max", "Min", "Mul"))
"""Operators whose two operands may change places."""


@dataclass(frozen=True)
class Match:
    """The tensors by their roles, and the nodes, the last one first. ``is_near``: numbers match as nearly as
    onnxruntime demands of those that it compares approximately.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    is_near: bool = False


def matched(wiring: Wiring, name: str, wanted: object, found: Match = Match()) -> Match | None:
    """How a tensor is computed by an expression, given what ``found`` knows of its roles; None if it is not."""
    if isinstance(wanted, float):
        return found if _is_number(wiring, name, wanted, is_near=found.is_near) else None
    if isinstance(wanted, str):
        known = found.roles.get(wanted, name)
        return replace(found, roles={**found.roles, wanted: known}) if known == name else None
    maker = wiring.producers.get(name)
    if not isinstance(wanted, tuple) or maker is None or (maker.domain, maker.op_type) != ("", wanted[0]):
        return None
    parts, operands = wanted[1:], maker.inputs[: len(wanted) - 1]
    for way in (operands, operands[::-1]) if maker.op_type in BOTH_WAYS else (operands,):
        here: Match | None = replace(found, nodes=(*found.nodes, maker)) if len(way) == len(parts) else None
        for each, part in zip(way, parts, strict=False):
            here = None if here is None else matched(wiring, each, part, here)
        if here is not None:
            return here
    return None


def _is_number(wiring: Wiring, name: str, number: float, *, is_near: bool) -> bool:
    constant = wiring.constant(name)
    if constant is None or constant.size != 1 or constant.ndim > 1:
        return False
    value, exact = constant.reshape(()), np.float32(number)
    return bool(np.isclose(value, exact, rtol=1e-5, atol=1e-8) if is_near else value == exact)


# x / 2 * (1 + erf(x / sqrt(2))), as exporters write it, is a Gelu: onnxruntime makes one of it, too.

RAISED: Expression = ("Add", ("Erf", ("Div", "x", sqrt(2))), 1.0)
GELUS: tuple[Expression, ...] = (("Mul", ("Mul", "x", RAISED), 0.5), ("Mul", ("Mul", "x", 0.5), RAISED))


def join_gelu(wiring: Wiring, node: Node) -> Change | None:
    """Erf of a quotient by sqrt(2), plus 1, times x, times 1/2 in either order of the products.

    A Gelu multiplies by sqrt(1/2) where the chain divides: some numbers differ in their last bit. What onnxruntime
    leaves alone, x * (1/2 * (1 + erf)), multiplications by sqrt(1/2) and an x that is dequantized, since it dequantizes
    it for each reader, stays. Source: GeluFusion, tried with 1.32.0.
    """
    ways = (matched(wiring, node.outputs[0], gelu, Match(is_near=True)) for gelu in GELUS if node.is_a("Mul"))
    found = next(filter(None, ways), None)
    maker = None if found is None else wiring.producers.get(found.roles["x"])
    if found is None or (maker is not None and maker.op_type == "DequantizeLinear"):
        return None
    inner = found.nodes[1:]
    if any(wiring.only_reader(each.outputs[0]) is None for each in inner):
        return None
    joined = Node(node.name, "Gelu", "com.microsoft", (found.roles["x"],), node.outputs, {})
    return Change(node, (joined,), remove=inner)


# 1 / a, times b, is b / a.


def join_reciprocal_product(wiring: Wiring, node: Node) -> Change | None:
    """A quotient of 1 that is multiplied, and read by nothing else. Source: DivMulFusion of onnxruntime."""
    product = wiring.only_reader(node.outputs[0]) if node.is_a("Div") and node.outputs else None
    if product is None or not product.is_a("Mul") or wiring.number(node.input(0)) != 1:
        return None
    inputs = (product.input_beside(node.outputs[0]), node.input(1))
    return Change(product, (Node(product.name, "Div", "", inputs, product.outputs, {}),), remove=(node,))


# The steps of a layer normalization, as exporters write them one by one, are one LayerNormalization.

DEVIATIONS: Expression = ("Sub", "x", ("ReduceMean", "x"))
NORMALIZATIONS: tuple[Expression, ...] = tuple(
    ("Mul", ("Div", DEVIATIONS, ("Sqrt", ("Add", ("ReduceMean", squares), "epsilon"))), "scale")
    for squares in (("Pow", DEVIATIONS, 2.0), ("Mul", DEVIATIONS, DEVIATIONS))
)


SKIPPING = {
    "com.microsoft.SkipLayerNormalization": "LayerNormalization",
    "com.microsoft.SkipSimplifiedLayerNormalization": "RMSNormalization",
}
"""Operators that normalize a sum, and what normalizes it."""


def join_layer_norm(wiring: Wiring, node: Node) -> Change | None:
    """(x - mean) / sqrt(mean of squares + epsilon) * scale + bias over the last axis, ``node`` being the Mul.

    onnxruntime joins such nodes where no DequantizeLinear is right before them, else a part of them: of 9,600,000 codes
    of steps between codes 16 differ, by one. Steps that something else reads stay, too.
    """
    ways = (matched(wiring, node.outputs[0], steps) for steps in NORMALIZATIONS if node.is_a("Mul"))
    found = next(filter(None, ways), None)
    if found is None:
        return None
    x, scale, quotient = found.roles["x"], found.roles["scale"], found.nodes[1]
    shape, epsilon = wiring.graph.value(x).fixed_shape, wiring.number(found.roles["epsilon"])
    means = [each for each in found.nodes if each.op_type == "ReduceMean"]
    if shape is None or epsilon is None or not all(_is_of_rows(wiring, mean, len(shape)) for mean in means):
        return None
    if wiring.only_reader(quotient.outputs[0]) is not node or not _is_row(wiring, scale, shape):
        return None
    total = wiring.only_reader(node.outputs[0])
    bias = "" if total is None or not total.is_a("Add") else total.input_beside(node.outputs[0])
    last = node if total is None or not bias or not _is_row(wiring, bias, shape) else total
    inputs = (x, scale) if last is node else (x, scale, bias)
    attributes = {"axis": -1, "epsilon": float(epsilon)}
    joined = Node(quotient.name, "LayerNormalization", "", inputs, last.outputs, attributes)
    return Change(last, (joined,), remove=(quotient,) if last is node else (quotient, node))


def _is_of_rows(wiring: Wiring, node: Node, rank: int) -> bool:
    """Whether a mean is one over the last axis, which is kept."""
    return node.integer("keepdims", 1) != 0 and wiring.integers(node, 1, "axes") in ((-1,), (rank - 1,))


def _is_row(wiring: Wiring, name: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is constant, quantized or not, and has a number for each of a row."""
    constant, maker = wiring.constant(name), wiring.producers.get(name)
    if constant is None and maker is not None and maker.op_type == "DequantizeLinear":
        constant = wiring.constant(maker.input(0))
    return constant is not None and constant.shape == shape[-1:]


def name_normalizations(wiring: Wiring, node: Node) -> Change | None:
    """SimplifiedLayerNormalization, which is RMSNormalization; it and LayerNormalization of a sum, which may be read.

    Inputs: input, skip, gamma, beta unless it is simplified, bias. Mean and deviation are no outputs.
    """
    if node.operator == "SimplifiedLayerNormalization":
        return Change(node, (replace(node, op_type="RMSNormalization", version=NEWEST, written=node.operator),))
    op_type = SKIPPING.get(node.operator)
    if op_type is None or not all(map(node.input, range(3))) or any(node.outputs[1:3]) or not node.outputs[0]:
        return None
    steps, (x, skip, *scales) = Steps(wiring, node), node.inputs
    bias = scales.pop() if len(scales) == (2 if op_type == "RMSNormalization" else 3) else ""
    total = steps.step("Add", x, skip)
    total = steps.step("Add", total, bias) if bias else total
    if any(node.outputs[3:]):
        total = node.outputs[3]
        steps.nodes[-1] = replace(steps.nodes[-1], outputs=(total,))
    epsilon = node.attributes.get("epsilon", 1e-12)
    steps.step(op_type, total, *scales, is_last=True, axis=-1, epsilon=epsilon)
    return steps.change()


# The operators that DynamicQuantizeLinear stands for, written out.

HIGHEST: Expression = ("Max", ("ReduceMax", "x"), 0.0)
LOWEST: Expression = ("Min", ("ReduceMin", "x"), 0.0)
SCALE: Expression = ("Div", ("Sub", HIGHEST, LOWEST), 255.0)
CODE_OF_ZERO: Expression = ("Cast", ("Round", ("Clip", ("Sub", 0.0, ("Div", LOWEST, "scale")), 0.0, 255.0)))


def join_dynamic_quantize(wiring: Wiring, node: Node) -> Change | None:
    """QuantizeLinear of x to uint8 with the scale and the zero point that DynamicQuantizeLinear finds.

    For a tensor of zeros the chain gives NaN, and the operator the scale 1.
    Source: the function body of DynamicQuantizeLinear-11 in ONNX.
    """
    if not node.is_a("QuantizeLinear") or len(node.inputs) != 3:
        return None
    x, scale, zero_point = node.inputs
    found = matched(wiring, scale, SCALE, Match({"x": x, "scale": scale}))
    found = None if found is None else matched(wiring, zero_point, CODE_OF_ZERO, found)
    if found is None or wiring.graph.value(zero_point).dtype is not DType.UINT8:
        return None
    extremes = (each.outputs[0] for each in found.nodes if each.op_type.startswith("Reduce"))
    if any(wiring.graph.value(name).fixed_shape not in ((), (1,)) for name in extremes):
        return None
    removed = (wiring.producers[zero_point], wiring.producers[scale])
    earliest = min(removed, key=list(wiring.nodes.values()).index)
    joined = Node(node.name, "DynamicQuantizeLinear", "", (x,), (node.outputs[0], scale, zero_point), {})
    return Change(earliest, (joined,), remove=(*removed, node))


# Sums, functions, logarithms and choices that others compute.


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


MOST_SUMMED = 64
"""How many sums a CumSum becomes."""


def write_out_running_sums(wiring: Wiring, node: Node) -> Change | None:
    """CumSum of few float32 numbers along a constant axis: each number is added to the sum of those before it."""
    shape, axis = wiring.graph.value(node.input(0)).fixed_shape, wiring.number(node.input(1))
    if not node.is_a("CumSum") or shape is None or axis is None:
        return None
    at, is_float = int(axis), wiring.graph.dtype(node.inputs[0]) is DType.FLOAT32
    if not is_float or not -len(shape) <= at < len(shape) or not 1 <= shape[at] <= MOST_SUMMED:
        return None
    steps, way = Steps(wiring, node), -1 if node.attributes.get("reverse", 0) else 1
    parts = [steps.fresh(f"part_{place}") for place in range(shape[at])]
    steps.nodes.append(Node(steps.fresh("split"), "Split", "", node.inputs[:1], tuple(parts), {"axis": at}))
    order = parts[::way]
    if node.attributes.get("exclusive", 0):
        nothing = np.zeros([1 if axis == at % len(shape) else size for axis, size in enumerate(shape)], np.float32)
        order = [steps.constant("nothing", nothing), *order[:-1]]
    sums = order[:1]
    for part in order[1:]:
        sums.append(steps.step("Add", sums[-1], part))
    steps.step("Concat", *sums[::way], is_last=True, axis=at)
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
    (x, *axes), steps = node.inputs, Steps(wiring, node)
    if node.op_type == "ReduceLogSum":
        steps.step("Log", steps.again("ReduceSum", x, *axes), is_last=True)
    else:
        number = steps.step("Exp", steps.step("Sub", x, steps.again("ReduceMax", x, *axes, keepdims=1)))
        total = steps.step("Log", steps.again("ReduceSum", number, *axes))
        steps.step("Add", total, steps.again("ReduceMax", x, *axes), is_last=True)
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


def write_out_one_hot(wiring: Wiring, node: Node) -> Change | None:
    """OneHot of integers with constant depth and values: which place each is, or is from the end, chooses a number."""
    given, depth, values = (
        wiring.graph.value(node.input(0)),
        wiring.number(node.input(1)),
        wiring.constant(node.input(2)),
    )
    axis = node.integer("axis", -1)
    if not node.is_a("OneHot") or depth is None or values is None or values.shape != (2,):
        return None
    if given.shape is None or given.dtype not in (DType.INT32, DType.INT64):
        return None
    dtype, count, rank = DType.of(values), int(depth), len(given.shape) + 1
    is_known = dtype is DType.FLOAT32 or (dtype in (DType.INT32, DType.INT64) and np.abs(values).max() < _EXACT)
    if not is_known or not 1 <= count < _EXACT or not -rank <= axis < rank:
        return None
    steps = Steps(wiring, node)
    new = steps.constant("axis", np.array([axis], np.int64))
    number = steps.step("Unsqueeze", steps.step("Cast", node.inputs[0], to=CAST_TO_FLOAT), new)
    places = np.arange(count, dtype=np.float32).reshape(-1, *(1,) * (rank - axis % rank - 1))
    ways = [steps.step("Equal", number, steps.constant(f"places_{by}", places - by)) for by in (0, count)]
    off, on = (steps.constant(f"value_{place}", values[place].astype(np.float32)[...]) for place in (0, 1))
    chosen = steps.step("Where", steps.step("Or", *ways), on, off, is_last=dtype is DType.FLOAT32)
    if dtype is not DType.FLOAT32:
        steps.step("Cast", chosen, is_last=True, to=number_of(dtype))
    return steps.change()


# Cast of 8-bit codes to float is DequantizeLinear with scale 1 and zero point 0.


def name_casts(wiring: Wiring, node: Node) -> Change | None:
    """Images that come as bytes are cast and scaled before they are quantized: with this, all of it is one table."""
    x = wiring.graph.value(node.input(0))
    if not node.is_a("Cast") or element_type(node.integer("to", 0)) is not DType.FLOAT32:
        return None
    if x.dtype is None or not x.dtype.is_quantized or wiring.constant(x.name) is not None:
        return None
    steps = Steps(wiring, node)
    steps.step("DequantizeLinear", node.inputs[0], *steps.units(np.array(0, x.dtype.numpy)), is_last=True)
    return steps.change()


# ReduceMean over all pixels is GlobalAveragePool.


def name_means(wiring: Wiring, node: Node) -> Change | None:
    """ReduceMean over every axis but the first two, which is quantized; without keepdims a Flatten follows.

    In float the two add up in other orders.
    """
    if not node.is_a("ReduceMean") or quantizer(wiring, node.outputs[0]) is None:
        return None
    axes, shape = wiring.integers(node, 1, "axes"), wiring.graph.value(node.input(0)).shape
    if axes is None or shape is None or len(shape) < 3:
        return None
    if sorted(axis % len(shape) for axis in axes) != list(range(2, len(shape))):
        return None
    pool = Node(node.name, "GlobalAveragePool", "", node.inputs[:1], node.outputs, {}, in_float=True)
    if node.attributes.get("keepdims", 1):
        return Change(node, (pool,))
    pixels = wiring.fresh(f"{node.outputs[0]}_pixels")
    flatten = Node(wiring.fresh(f"{node.name}_flatten"), "Flatten", "", (pixels,), node.outputs, {"axis": 1})
    return Change(node, (replace(pool, outputs=(pixels,)), flatten))


# Nodes that give their input unchanged vanish.


def remove_identities(wiring: Wiring, node: Node) -> Change | None:
    """Identity, Dropout outside of training, Cast to the type and Expand to the shape that the input has, addition
    of 0, multiplication by 1 and the like, unless they make an output.
    """
    if node.domain or not node.inputs or not node.outputs:
        return None
    same = 0 if _is_identity(wiring, node) else _unchanged_operand(wiring, node)
    output = node.outputs[0]
    if same is None or output in wiring.outputs or any(wiring.readers.get(name) for name in node.outputs[1:]):
        return None
    return Change(node, rename={output: node.inputs[same]})


def _is_identity(wiring: Wiring, node: Node) -> bool:
    match node.op_type:
        case "Identity":
            return True
        case "Dropout":
            training = wiring.constant(node.input(2))
            return not node.input(2) or (training is not None and not training.any())
        case "Cast":
            dtype = wiring.graph.value(node.input(0)).dtype
            return dtype is not None and element_type(node.integer("to", 0)) is dtype
        case "Expand":
            return _has_the_shape_of(wiring, node, 0)
    return False


NEUTRAL = {"Add": (0, (0, 1)), "Div": (1, (1,)), "Mul": (1, (0, 1)), "Sub": (0, (1,))}
"""By operator: the number that changes nothing, and as which operands."""


def _unchanged_operand(wiring: Wiring, node: Node) -> int | None:
    """Which operand the result equals; None if it equals neither. Source: NoopElimination of onnxruntime."""
    neutral, places = NEUTRAL.get(node.op_type, (0, ()))
    for place in places:
        is_neutral = wiring.number(node.input(place)) == neutral
        if is_neutral and wiring.constant(node.input(1 - place)) is None and _has_the_shape_of(wiring, node, 1 - place):
            return 1 - place
    return None


def _has_the_shape_of(wiring: Wiring, node: Node, index: int) -> bool:
    """Whether the result has the known shape of an operand."""
    shape = wiring.graph.value(node.input(index)).fixed_shape
    return shape is not None and shape == wiring.graph.value(node.outputs[0]).fixed_shape


# A tensor that is quantized or dequantized twice in the same way is so once.


def merge_duplicates(wiring: Wiring, node: Node) -> Change | None:
    """Readers of the second of two equal QuantizeLinear or DequantizeLinear read the first."""
    if not (is_quantize(node) or is_dequantize(node)) or node.outputs[0] in wiring.outputs:
        return None
    quantization = quantization_of(wiring, node)
    if quantization is None:
        return None
    for other in wiring.readers[node.input(0)]:
        if other.name == node.name:
            return None
        if other.op_type != node.op_type or other.input(0) != node.input(0) or not other.outputs[0]:
            continue
        first = quantization_of(wiring, other)
        if first is not None and first.same_as(quantization):
            return Change(node, rename={node.outputs[0]: other.outputs[0]})
    return None


# Pairs of DequantizeLinear and QuantizeLinear that change nothing vanish; two in a row become one.


def join_pairs(wiring: Wiring, node: Node) -> Change | None:
    """QuantizeLinear behind DequantizeLinear, where both mean the same."""
    if not is_quantize(node):
        return None
    source, target = dequantized(wiring, node.input(0)), quantization_of(wiring, node)
    if source is None or target is None or not source.quantization.same_as(target):
        return None
    output = node.outputs[0]
    if output in wiring.outputs:
        return Change(node, (Node(node.name, "Identity", "", (source.codes,), (output,), {}),))
    return Change(node, rename={output: source.codes})


# Quantized, dequantized, quantized and dequantized again: once is enough, with what both pairs can express.

EQUAL = 1e-20
"""Scales that differ by less are equal to onnxruntime, however small both are: each outer node keeps its own."""


def join_double_pairs(wiring: Wiring, node: Node) -> Change | None:
    """The DequantizeLinear in the middle of QuantizeLinear, DequantizeLinear, QuantizeLinear, DequantizeLinear.

    The outer two get the range that both pairs have in common, so the codes are others than those of two roundings.
    Only where the first two have one reader each, the third is read by DequantizeLinear alone, by all of them in one
    meaning, and both pairs have one type of 8 or 16 bits and all zero points.
    Source: DoubleQDQPairsRemover of onnxruntime.
    """
    first, second = wiring.producers.get(node.input(0)), wiring.only_reader(node.outputs[0])
    if first is None or second is None or wiring.only_reader(node.input(0)) is None:
        return None
    if not (is_dequantize(node) and is_quantize(first) and is_quantize(second)):
        return None
    last = () if second.outputs[0] in wiring.outputs else wiring.readers.get(second.outputs[0], ())
    by, then = _of_pair(wiring, first, node), _of_pairs(wiring, second, last)
    if by is None or then is None or by.dtype is not then.dtype or by.same_as(then):
        return None
    # Four pairs in a row become two, then one, as in onnxruntime: under its new name a last node is looked at later.
    last_joined = tuple(replace(each, name=wiring.fresh(f"{each.name}_joined")) for each in last)
    if int(by.zero_point) == int(then.zero_point) and abs(np.float32(by.scale) - np.float32(then.scale)) < EQUAL:
        nodes = tuple(replace(each, inputs=(node.inputs[0], *each.inputs[1:])) for each in last_joined)
        return Change(node, nodes, remove=(second, *last))
    common = _common(by, then)
    if common is None:
        return None
    steps = Steps(wiring, node)
    names = steps.constant("scale", common[0]), steps.constant("zero_point", common[1])
    nodes = (
        replace(first, inputs=(first.inputs[0], *names)),
        *(replace(each, inputs=(first.outputs[0], *names)) for each in last_joined),
    )
    return Change(node, nodes, remove=(first, second, *last), constants=steps.constants)


def _of_pairs(wiring: Wiring, quantize: Node, readers: tuple[Node, ...]) -> GraphQuantization | None:
    """The meaning of the codes that a QuantizeLinear makes for DequantizeLinear nodes that all say the same of it."""
    if not readers or not all(map(is_dequantize, readers)):
        return None
    meanings = [_of_pair(wiring, quantize, reader) for reader in readers]
    return meanings[0] if None not in meanings else None


def _of_pair(wiring: Wiring, quantize: Node, dequantize: Node) -> GraphQuantization | None:
    """The meaning of the codes between two nodes that say the same of it."""
    if not (quantize.input(2) and dequantize.input(2)):
        return None
    one, other = quantization_of(wiring, quantize), quantization_of(wiring, dequantize)
    return one if one is not None and other is not None and one.same_as(other) and one.is_per_tensor else None


def _common(first: GraphQuantization, second: GraphQuantization) -> tuple[Array, Array] | None:
    """Scale and zero point of the common range, in float32 and rounded half away from 0; None if there is none."""
    low, high = first.dtype.low, first.dtype.high
    lows, highs = (
        [np.float32(end - int(by.zero_point)) * np.float32(by.scale) for by in (first, second)] for end in (low, high)
    )
    smallest, largest = max(lows), min(highs)
    scale = np.float32((largest - smallest) / np.float32(high - low))
    place = float(np.float32(low) - smallest / scale) if scale > 0 else low - 1.0
    zero_point = int(np.floor(abs(place) + 0.5)) * (1 if place >= 0 else -1)
    if not low <= zero_point <= high:
        return None
    return np.asarray(scale, np.float32), np.asarray(zero_point, first.dtype.numpy)


# If nodes whose branches lie in the graph around them: one is taken now, or both are computed and one is chosen.


def choose_branches(graph: Graph) -> Graph:
    """The graph without If nodes whose condition is constant, and with Where nodes for those that give float32 numbers.

    Branches only compute, so what an If gives, Where gives, too. That both are computed is noted.
    """
    changed = apply(graph, _choose)
    left = {node.name for node in changed.nodes if node.op_type == "If"}
    gone = [node for node in graph.nodes if node.op_type == "If" and node.name not in left]
    notes = (
        f"node {node.name!r} (If): both branches are computed, then one is chosen"
        for node in gone
        if node.input(0) not in graph.constants
    )
    return replace(changed, notes=(*graph.notes, *notes)) if gone else graph


def _choose(wiring: Wiring, node: Node) -> Change | None:
    count = len(node.outputs)
    if not node.is_a("If") or not count or len(node.inputs) != 1 + 2 * count:
        return None
    branches = node.inputs[1 : 1 + count], node.inputs[1 + count :]
    condition = wiring.constant(node.inputs[0])
    inputs: list[tuple[str, ...]]
    if condition is not None and condition.size == 1:
        op_type, inputs = "Identity", [(name,) for name in branches[0 if condition.reshape(-1)[0] else 1]]
    elif all(_can_be_chosen(wiring, node.inputs[0], *pair) for pair in zip(*branches, strict=True)):
        op_type, inputs = "Where", [(node.inputs[0], *pair) for pair in zip(*branches, strict=True)]
    else:
        return None
    names = [node.name, *(wiring.fresh(f"{node.name}_{number}") for number in range(1, count))]
    nodes = (
        Node(name, op_type, "", reads, (output,), {})
        for name, output, reads in zip(names, node.outputs, inputs, strict=True)
        if output
    )
    return Change(node, tuple(nodes))


def _can_be_chosen(wiring: Wiring, condition: str, one: str, other: str) -> bool:
    """Whether two float32 tensors have one shape, which the condition leaves as it is."""
    shapes = [wiring.graph.value(name).fixed_shape for name in (condition, one, other)]
    types = {wiring.graph.dtype(name) for name in (one, other)}
    is_known = types == {DType.FLOAT32} and shapes[1] is not None and shapes[1] == shapes[2]
    return is_known and shapes[0] in ((), (1,)[: len(shapes[1] or ())])
