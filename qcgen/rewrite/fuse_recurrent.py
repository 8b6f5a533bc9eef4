"""LSTM and GRU whose weights are dequantized constants: the weights stay codes."""

from __future__ import annotations

import numpy as np

from qcgen.infer.recurrent import CODES, GRU, LSTM
from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.quantization import dequantized
from qcgen.rewrite.wiring import Change, Wiring

FUSED = {("", "LSTM"): LSTM, ("", "GRU"): GRU}
"""The operators of qcgen's own domain, by the operator that they compute."""


def fuse_recurrent(wiring: Wiring, node: Node) -> Change | None:
    """W, R or both dequantized from constants of 8 bits, with one scale or one for each direction or row."""
    if (node.domain, node.op_type) not in FUSED:
        return None
    found = [_codes(wiring, node.input(index)) for index in (1, 2)]
    if not any(found):
        return None
    count = CODES[node.op_type]
    inputs = [*node.inputs, *[""] * (count - len(node.inputs)), "", "", "", ""]
    constants: dict[str, Array] = {}
    for index, (role, arrays) in enumerate(zip("WR", found, strict=True)):
        if arrays is None:
            continue
        places = (1 + index, count + index, count + 2 + index)
        for place, what, array in zip(places, ("codes", "scale", "zero_point"), arrays, strict=True):
            inputs[place] = wiring.fresh(f"{node.name}_{role}_{what}")
            constants[inputs[place]] = array
    domain, op_type = FUSED[node.domain, node.op_type]
    fused = Node(node.name, op_type, domain, tuple(inputs), node.outputs, node.attributes)
    return Change(node, (fused,), constants=constants)


def _codes(wiring: Wiring, tensor: str) -> tuple[Array, Array, Array] | None:
    """Codes (D, rows, n), float32 scales (D, rows) and the int32 zero point of dequantized constants.

    Where codes less their zero points fit int8 they are stored so, with the zero point 0; where zero points differ
    from row to row they may need int16.
    """
    found = dequantized(wiring, tensor)
    codes = None if found is None else wiring.constant(found.codes)
    if found is None or codes is None or codes.ndim != 3 or not found.quantization.dtype.is_quantized:
        return None
    if found.quantization.axis not in (None, 0, 1):
        return None
    spread = [1, 1, 1]
    if found.quantization.axis is not None:
        spread[found.quantization.axis] = -1
    zero_point = found.quantization.zero_point.astype(np.int32).reshape(spread)
    scale = np.broadcast_to(found.quantization.scale.reshape(spread), (*codes.shape[:2], 1))[..., 0]
    differences = codes.astype(np.int32) - zero_point
    zero = np.zeros((), np.int32)
    if differences.min() >= -128 and differences.max() <= 127:
        return differences.astype(np.int8), np.array(scale), zero
    if np.unique(zero_point).size == 1:
        return codes, np.array(scale), zero_point.reshape(-1)[0].reshape(())
    return differences.astype(np.int16), np.array(scale), zero
