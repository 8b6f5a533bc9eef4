"""Cast of 8-bit codes to float is DequantizeLinear with scale 1 and zero point 0."""

from __future__ import annotations

import numpy as np

from qcgen.ir.element_types import element_type
from qcgen.ir.graph import Node
from qcgen.ir.types import DType
from qcgen.rewrite.wiring import Change, Wiring


def name_casts(wiring: Wiring, node: Node) -> Change | None:
    """Images that come as bytes are cast and scaled before they are quantized: with this, all of it is one table."""
    to, x = node.attributes.get("to"), wiring.graph.value(node.input(0))
    if (node.domain, node.op_type) != ("", "Cast") or not isinstance(to, int) or x.dtype is None:
        return None
    if element_type(to) is not DType.FLOAT32 or not x.dtype.is_quantized or wiring.constant(x.name) is not None:
        return None
    scale, zero_point = wiring.fresh(f"{node.name}_scale"), wiring.fresh(f"{node.name}_zero_point")
    constants = {scale: np.array(1, np.float32), zero_point: np.array(0, x.dtype.numpy)}
    dequantize = Node(node.name, "DequantizeLinear", "", (node.inputs[0], scale, zero_point), node.outputs, {})
    return Change(node, (dequantize,), constants=constants)
