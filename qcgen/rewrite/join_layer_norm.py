"""The steps of a layer normalization, as exporters write them one by one, are one LayerNormalization."""

from __future__ import annotations

from qcgen.infer.facts import integers
from qcgen.ir.graph import Node
from qcgen.rewrite.wiring import Change, Wiring


def join_layer_norm(wiring: Wiring, node: Node) -> Change | None:
    """(x - mean) / sqrt(mean of squares + epsilon) * scale + bias over the last axis, ``node`` being the Div.

    onnxruntime joins such nodes where no DequantizeLinear is right before them, else a part of them: of 9,600,000 codes
    of steps between codes 16 differ, by one. Steps that something else reads stay, too.
    """
    if not _is(node, "Div"):
        return None
    deviations, root = wiring.producers[node.input(0)], wiring.producers[node.input(1)]
    x = deviations.input(0)
    shape, product = wiring.graph.value(x).fixed_shape, wiring.only_reader(node.outputs[0])
    if shape is None or product is None or not _is(product, "Mul") or not _is(deviations, "Sub"):
        return None
    mean, epsilon = wiring.producers[deviations.input(1)], _epsilon(wiring, deviations, root, len(shape))
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
    total = wiring.producers[root.input(0)] if _is(root, "Sqrt") else None
    if total is None or not _is(total, "Add"):
        return None
    for variance, epsilon in (total.inputs, total.inputs[::-1]):
        number = wiring.constant(epsilon)
        if number is not None and number.size == 1:
            squares = wiring.producers[_averaged(wiring, wiring.producers[variance], rank) or ""]
            return float(number.reshape(())) if _is_square(wiring, squares, deviations) else None
    return None


def _is_square(wiring: Wiring, node: Node, deviations: Node) -> bool:
    """Whether the node squares the deviations, or others that were computed alike."""
    maker = wiring.producers[node.input(0)]
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
