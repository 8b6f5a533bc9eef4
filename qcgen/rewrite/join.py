"""Several operators that are one: Gelu, LayerNormalization, a product with a bias, DynamicQuantizeLinear."""

from __future__ import annotations

from math import sqrt

import numpy as np

from qcgen.infer.facts import integers
from qcgen.ir.graph import Node
from qcgen.ir.types import DType
from qcgen.rewrite.expressions import Expression, Match, matched
from qcgen.rewrite.quantization import dequantized
from qcgen.rewrite.wiring import Change, Wiring

# x / 2 * (1 + erf(x / sqrt(2))), as exporters write it, is a Gelu: onnxruntime makes one of it, too.

RAISED: Expression = ("Add", ("Erf", ("Div", "x", sqrt(2))), 1.0)
GELUS: tuple[Expression, ...] = (("Mul", ("Mul", "x", RAISED), 0.5), ("Mul", ("Mul", "x", 0.5), RAISED))


def join_gelu(wiring: Wiring, node: Node) -> Change | None:
    """Erf of a quotient by sqrt(2), plus 1, times x, times 1/2 in either order of the products.

    A Gelu multiplies by sqrt(1/2) where the chain divides: some numbers differ in their last bit. What onnxruntime
    leaves alone, x * (1/2 * (1 + erf)), multiplications by sqrt(1/2) and an x that is dequantized, since it dequantizes
    it for each reader, stays. Source: GeluFusion, tried with 1.32.0.
    """
    ways = (matched(wiring, node.outputs[0], gelu, Match(is_near=True)) for gelu in GELUS if _is(node, "Mul"))
    found = next(filter(None, ways), None)
    maker = None if found is None else wiring.producers.get(found.roles["x"])
    if found is None or (maker is not None and maker.op_type == "DequantizeLinear"):
        return None
    inner = found.nodes[1:]
    if any(wiring.only_reader(each.outputs[0]) is None for each in inner):
        return None
    joined = Node(node.name, "Gelu", "com.microsoft", (found.roles["x"],), node.outputs, {})
    return Change(node, (joined,), remove=inner)


# A product of two computed matrices whose operands are scaled is scaled behind: onnxruntime's products have a factor.


def scale_behind_product(wiring: Wiring, node: Node) -> Change | None:
    """(s a) (t b) u becomes (a b) (s t u), for numbers s, t, u, where an operand is scaled.

    Source: MatMulScaleFusion, tried with 1.32.0.
    """
    if not _is(node, "MatMul") or any(wiring.constant(name) is not None for name in node.inputs):
        return None
    makers = [wiring.producers.get(name) if wiring.only_reader(name) is node else None for name in node.inputs]
    before = [None if maker is None else _scaled(wiring, maker) for maker in makers]
    if not any(before):
        return None
    reader = wiring.only_reader(node.outputs[0])
    behind = None if reader is None else _scaled(wiring, reader)
    last = node if behind is None or reader is None else reader
    factor = np.float32(1)
    for found in (*before, behind):
        factor = factor if found is None else np.float32(factor * found[1])
    inputs = tuple(name if found is None else found[0] for name, found in zip(node.inputs, before, strict=True))
    product, number = wiring.fresh(f"{node.name}_product"), wiring.fresh(f"{node.name}_factor")
    joined = Node(node.name, "MatMul", "", inputs, (product,), {})
    scaled = Node(wiring.fresh(f"{node.name}_scaled"), "Mul", "", (product, number), last.outputs, {})
    gone = [maker for maker, found in zip(makers, before, strict=True) if maker is not None and found is not None]
    return Change(last, (joined, scaled), (*gone, node), {number: np.asarray(factor)}, again=(node.name,))


def _scaled(wiring: Wiring, node: Node) -> tuple[str, np.float32] | None:
    """What a node multiplies by a constant number, and that number; None if it does not."""
    for index in (0, 1) if _is(node, "Mul") else (1,) if _is(node, "Div") else ():
        number = wiring.constant(node.input(index))
        if number is not None and number.size == 1 and number.ndim <= 1 and number.dtype == np.float32:
            value = np.float32(number.reshape(()))
            return node.input(1 - index), value if _is(node, "Mul") else np.float32(1) / value
    return None


# The steps of a layer normalization, as exporters write them one by one, are one LayerNormalization.

DEVIATIONS: Expression = ("Sub", "x", ("ReduceMean", "x"))
NORMALIZATIONS: tuple[Expression, ...] = tuple(
    ("Mul", ("Div", DEVIATIONS, ("Sqrt", ("Add", ("ReduceMean", squares), "epsilon"))), "scale")
    for squares in (("Pow", DEVIATIONS, 2.0), ("Mul", DEVIATIONS, DEVIATIONS))
)


def join_layer_norm(wiring: Wiring, node: Node) -> Change | None:
    """(x - mean) / sqrt(mean of squares + epsilon) * scale + bias over the last axis, ``node`` being the Mul.

    onnxruntime joins such nodes where no DequantizeLinear is right before them, else a part of them: of 9,600,000 codes
    of steps between codes 16 differ, by one. Steps that something else reads stay, too.
    """
    ways = (matched(wiring, node.outputs[0], steps) for steps in NORMALIZATIONS if _is(node, "Mul"))
    found = next(filter(None, ways), None)
    if found is None:
        return None
    x, scale, quotient = found.roles["x"], found.roles["scale"], found.nodes[1]
    shape, epsilon = wiring.graph.value(x).fixed_shape, wiring.known(found.roles["epsilon"])
    means = [each for each in found.nodes if each.op_type == "ReduceMean"]
    if shape is None or epsilon.size != 1 or not all(_is_of_rows(wiring, mean, len(shape)) for mean in means):
        return None
    if wiring.only_reader(quotient.outputs[0]) is not node or not _is_row(wiring, scale, shape):
        return None
    total = wiring.only_reader(node.outputs[0])
    bias = "" if total is None or not _is(total, "Add") else _other(total, node.outputs[0])
    last = node if total is None or not bias or not _is_row(wiring, bias, shape) else total
    inputs = (x, scale) if last is node else (x, scale, bias)
    attributes = {"axis": -1, "epsilon": float(epsilon.reshape(()))}
    joined = Node(quotient.name, "LayerNormalization", "", inputs, last.outputs, attributes)
    return Change(last, (joined,), remove=(quotient,) if last is node else (quotient, node))


def _is_of_rows(wiring: Wiring, node: Node, rank: int) -> bool:
    """Whether a mean is one over the last axis, which is kept."""
    given = wiring.constant(node.input(1)) if node.input(1) else node.attributes.get("axes")
    return given is not None and node.attributes.get("keepdims", 1) != 0 and integers(given) in ((-1,), (rank - 1,))


def _is_row(wiring: Wiring, name: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is constant, quantized or not, and has a number for each of a row."""
    constant, maker = wiring.constant(name), wiring.producers.get(name)
    if constant is None and maker is not None and maker.op_type == "DequantizeLinear":
        constant = wiring.constant(maker.input(0))
    return constant is not None and constant.shape == shape[-1:]


def _other(node: Node, name: str) -> str:
    """The other one of two inputs."""
    return node.input(1) if node.input(0) == name else node.input(0)


def _is(node: Node, *op_types: str) -> bool:
    return not node.domain and node.op_type in op_types


# MatMul followed by a bias is Gemm.


def join_matmul_add(wiring: Wiring, node: Node) -> Change | None:
    """MatMul of a dequantized matrix with one that is constant or dequantized, then Add of a vector of the same kind.

    Data with other than two axes is reshaped before and behind a Gemm of constant weights: as in onnxruntime, those can
    become codes, which those of a MatMul cannot. Source: MatMulAddFusion of onnxruntime.
    """
    if (node.domain, node.op_type) != ("", "MatMul"):
        return None
    add = wiring.only_reader(node.outputs[0])
    if add is None or (add.domain, add.op_type) != ("", "Add"):
        return None
    a, b = node.inputs
    has_floats = wiring.constant(b) is not None
    if dequantized(wiring, a) is None or not (has_floats or dequantized(wiring, b) is not None):
        return None
    bias = add.inputs[1] if add.inputs[0] == node.outputs[0] else add.inputs[0]
    columns = wiring.graph.value(b).fixed_shape
    if columns is None or not _is_constant(wiring, bias) or wiring.graph.value(bias).shape != columns[1:]:
        return None
    if _rank(wiring, b) != 2 or not (has_floats or _rank(wiring, a) == 2):
        return None
    if _rank(wiring, a) == 2:
        return Change(add, (Node(node.name, "Gemm", "", (a, b, bias), add.outputs, {}),), remove=(node,))
    return _reshaped(wiring, node, add, bias)


def _reshaped(wiring: Wiring, node: Node, add: Node, bias: str) -> Change | None:
    """Reshape to a matrix, Gemm, Reshape back."""
    shape = wiring.graph.value(node.inputs[0]).fixed_shape
    columns = wiring.graph.value(node.inputs[1]).fixed_shape
    if shape is None or columns is None:
        return None
    matrix, product, rows, back = (
        wiring.fresh(f"{node.name}_{role}") for role in ("matrix", "product", "matrix_shape", "shape")
    )
    constants = {
        rows: np.array((-1, shape[-1]), np.int64),
        back: np.array((*shape[:-1], columns[1]), np.int64),
    }
    nodes = (
        Node(wiring.fresh(f"{matrix}_reshape"), "Reshape", "", (node.inputs[0], rows), (matrix,), {}),
        Node(node.name, "Gemm", "", (matrix, node.inputs[1], bias), (product,), {}),
        Node(wiring.fresh(f"{product}_reshape"), "Reshape", "", (product, back), add.outputs, {}),
    )
    return Change(add, nodes, remove=(node,), constants=constants)


def _rank(wiring: Wiring, tensor: str) -> int | None:
    shape = wiring.graph.value(tensor).shape
    return None if shape is None else len(shape)


def _is_constant(wiring: Wiring, tensor: str) -> bool:
    found = dequantized(wiring, tensor)
    return wiring.constant(tensor if found is None else found.codes) is not None


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
    if not _is(node, "QuantizeLinear") or len(node.inputs) != 3:
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
