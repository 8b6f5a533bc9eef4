"""Several operators that are one: Gelu, LayerNormalization, a product with a bias, DynamicQuantizeLinear."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from qcgen.infer.facts import integers
from qcgen.ir.graph import Node
from qcgen.ir.types import DType
from qcgen.rewrite.quantization import dequantized
from qcgen.rewrite.wiring import Change, Wiring

# x / 2 * (1 + erf(x / sqrt(2))), as exporters write it, is a Gelu: onnxruntime makes one of it, too.


def join_gelu(wiring: Wiring, node: Node) -> Change | None:
    """Erf of a quotient by sqrt(2), plus 1, times x, times 1/2 in either order of the products.

    A Gelu multiplies by sqrt(1/2) where the chain divides: some numbers differ in their last bit. What onnxruntime
    leaves alone, x * (1/2 * (1 + erf)), multiplications by sqrt(1/2) and an x that is dequantized, since it dequantizes
    it for each reader, stays. Source: GeluFusion, tried with 1.32.0.
    """
    raised = _raised(wiring, node)
    if raised is None:
        return None
    quotient = wiring.maker(node.input(0))
    x, product = quotient.input(0), _reader(wiring, raised, "Mul")
    maker = wiring.producers.get(x)
    if maker is not None and maker.op_type == "DequantizeLinear":
        return None
    products = None if product is None else _products(wiring, product, x, raised.outputs[0])
    if products is None:
        return None
    inner, last = products
    gelu = Node(last.name, "Gelu", "com.microsoft", (x,), last.outputs, {})
    return Change(last, (gelu,), remove=(quotient, node, raised, inner))


def _raised(wiring: Wiring, node: Node) -> Node | None:
    """The Add of 1 behind an Erf of a quotient by sqrt(2), where nothing else reads what is between."""
    quotient = wiring.producers.get(node.input(0))
    if _key(node) != "Erf" or quotient is None or _key(quotient) != "Div" or _reader(wiring, quotient, "Erf") is None:
        return None
    raised = _reader(wiring, node, "Add")
    if raised is None or not _is_number(wiring, quotient.input(1), sqrt(2)):
        return None
    return raised if _is_number(wiring, _other(raised, node.outputs[0]), 1) else None


def _products(wiring: Wiring, product: Node, x: str, raised: str) -> tuple[Node, Node] | None:
    """The two products, first and last, that make x / 2 * raised of x and raised; ``product`` reads raised."""
    other = _other(product, raised)
    inner = product if other == x else wiring.producers.get(other)
    if inner is None or _key(inner) != "Mul" or x not in inner.inputs:
        return None
    last = _reader(wiring, inner, "Mul")
    half = None if last is None else _other(last, product.outputs[0]) if other == x else _other(inner, x)
    return (inner, last) if last is not None and half is not None and _is_number(wiring, half, 0.5) else None


def _key(node: Node) -> str:
    """The operator of ai.onnx, "" for those of other domains."""
    return "" if node.domain else node.op_type


def _reader(wiring: Wiring, node: Node, op_type: str) -> Node | None:
    """The node that alone reads another's output, if it is of this operator."""
    reader = wiring.only_reader(node.outputs[0])
    return reader if reader is not None and _key(reader) == op_type else None


def _other(node: Node, name: str) -> str:
    """The other one of two inputs."""
    return node.input(1) if node.input(0) == name else node.input(0)


def _is_number(wiring: Wiring, name: str, number: float) -> bool:
    """Whether a tensor is this constant number, as nearly as onnxruntime demands it."""
    constant = wiring.constant(name)
    if constant is None or constant.size != 1 or constant.ndim > 1 or constant.dtype != np.float32:
        return False
    return bool(np.isclose(constant.reshape(()), np.float32(number), rtol=1e-5, atol=1e-8))


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


def join_layer_norm(wiring: Wiring, node: Node) -> Change | None:
    """(x - mean) / sqrt(mean of squares + epsilon) * scale + bias over the last axis, ``node`` being the Div.

    onnxruntime joins such nodes where no DequantizeLinear is right before them, else a part of them: of 9,600,000 codes
    of steps between codes 16 differ, by one. Steps that something else reads stay, too.
    """
    if not _is(node, "Div"):
        return None
    deviations, root = wiring.maker(node.input(0)), wiring.maker(node.input(1))
    x = deviations.input(0)
    shape, product = wiring.graph.value(x).fixed_shape, wiring.only_reader(node.outputs[0])
    if shape is None or product is None or not _is(product, "Mul") or not _is(deviations, "Sub"):
        return None
    mean, epsilon = wiring.maker(deviations.input(1)), _epsilon(wiring, deviations, root, len(shape))
    scale = _row(wiring, product, node.outputs[0], shape)
    if _averaged(wiring, mean, len(shape)) != x or epsilon is None or scale is None:
        return None
    total = wiring.only_reader(product.outputs[0])
    bias = None if total is None or not _is(total, "Add") else _row(wiring, total, product.outputs[0], shape)
    last = product if total is None or bias is None else total
    inputs = (x, scale) if bias is None else (x, scale, bias)
    joined = Node(node.name, "LayerNormalization", "", inputs, last.outputs, {"axis": -1, "epsilon": epsilon})
    return Change(last, (joined,), remove=(node,) if last is product else (node, product))


def _is(node: Node, *op_types: str) -> bool:
    return not node.domain and node.op_type in op_types


def _averaged(wiring: Wiring, node: Node, rank: int) -> str | None:
    """The tensor of which the node is the mean over the last axis, which is kept."""
    given = wiring.constant(node.input(1)) if node.input(1) else node.attributes.get("axes")
    if not _is(node, "ReduceMean") or given is None or not node.attributes.get("keepdims", 1):
        return None
    return node.input(0) if integers(given) in ((-1,), (rank - 1,)) else None


def _epsilon(wiring: Wiring, deviations: Node, root: Node, rank: int) -> float | None:
    """What is added to the mean of the squared deviations before its root is taken."""
    total = wiring.maker(root.input(0)) if _is(root, "Sqrt") else None
    if total is None or not _is(total, "Add"):
        return None
    for variance, epsilon in (total.inputs, total.inputs[::-1]):
        number = wiring.constant(epsilon)
        if number is not None and number.size == 1:
            squares = wiring.maker(_averaged(wiring, wiring.maker(variance), rank) or "")
            return float(number.reshape(())) if _is_square(wiring, squares, deviations) else None
    return None


def _is_square(wiring: Wiring, node: Node, deviations: Node) -> bool:
    """Whether the node squares the deviations, or others that were computed alike."""
    maker = wiring.maker(node.input(0))
    if (maker.op_type, maker.inputs) != (deviations.op_type, deviations.inputs):
        return False
    exponent = wiring.constant(node.input(1))
    if _is(node, "Pow"):
        return exponent is not None and exponent.size == 1 and float(exponent.reshape(())) == 2
    return _is(node, "Mul") and node.input(0) == node.input(1)


def _row(wiring: Wiring, node: Node, computed: str, shape: tuple[int, ...]) -> str | None:
    """The other operand of a node, if it is constant, quantized or not, and has a number for each of a row."""
    other = node.inputs[1] if node.inputs[0] == computed else node.inputs[0]
    constant, maker = wiring.constant(other), wiring.producers.get(other)
    if constant is None and maker is not None and maker.op_type == "DequantizeLinear":
        constant = wiring.constant(maker.input(0))
    return other if constant is not None and constant.shape == shape[-1:] else None


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

Made = str | float | tuple[object, ...]
"""A tensor by its role, a constant number, or an operator of others: (op_type, form, ...)."""

HIGHEST: Made = ("Max", ("ReduceMax", "x"), 0.0)
LOWEST: Made = ("Min", ("ReduceMin", "x"), 0.0)
CODE_OF_ZERO: Made = ("Cast", ("Round", ("Clip", ("Sub", 0.0, ("Div", LOWEST, "scale")), 0.0, 255.0)))


def join_dynamic_quantize(wiring: Wiring, node: Node) -> Change | None:
    """QuantizeLinear of x to uint8 with the scale and the zero point that DynamicQuantizeLinear finds.

    For a tensor of zeros the chain gives NaN, and the operator the scale 1.
    Source: the function body of DynamicQuantizeLinear-11 in ONNX.
    """
    if (node.domain, node.op_type) != ("", "QuantizeLinear") or len(node.inputs) != 3:
        return None
    roles = dict(zip(("x", "scale", "zero_point"), node.inputs, strict=True))
    cast = wiring.producers.get(roles["zero_point"])
    if not _is_form(wiring, roles["scale"], ("Div", ("Sub", HIGHEST, LOWEST), 255.0), roles) or cast is None:
        return None
    dtype = wiring.graph.value(roles["zero_point"]).dtype
    if dtype is not DType.UINT8 or not _is_form(wiring, roles["zero_point"], CODE_OF_ZERO, roles):
        return None
    outputs = (node.outputs[0], roles["scale"], roles["zero_point"])
    removed = (cast, wiring.producers[roles["scale"]])
    earliest = min(removed, key=list(wiring.nodes.values()).index)
    joined = Node(node.name, "DynamicQuantizeLinear", "", (roles["x"],), outputs, {})
    return Change(earliest, (joined,), remove=(*removed, node))


def _is_form(wiring: Wiring, name: str, form: object, roles: Mapping[str, str]) -> bool:
    """Whether a tensor is made so; a reduction is over all axes, to one number."""
    if isinstance(form, float):
        constant = wiring.constant(name)
        return constant is not None and constant.size == 1 and bool(constant.reshape(()) == form)
    if isinstance(form, str):
        return name == roles[form]
    maker = wiring.producers.get(name)
    if not isinstance(form, tuple) or maker is None or _key(maker) != form[0]:
        return False
    if _key(maker).startswith("Reduce") and wiring.graph.value(name).fixed_shape not in ((), (1,)):
        return False
    ways = [maker.inputs, maker.inputs[::-1]] if _key(maker) in ("Max", "Min") else [maker.inputs]
    return any(
        len(way) == len(form) - 1
        and all(_is_form(wiring, each, part, roles) for each, part in zip(way, form[1:], strict=True))
        for way in ways
    )
