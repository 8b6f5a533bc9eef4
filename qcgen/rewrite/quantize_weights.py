"""Float weights of layers between codes become codes, as onnxruntime makes them when it loads a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.quantization import GraphQuantization, dequantized, is_quantize
from qcgen.rewrite.wiring import Change, Wiring

LOW, HIGH = -128, 127

WEIGHTED = ("Conv", "ConvTranspose", "Gemm")
"""The operators of ai.onnx whose weights onnxruntime quantizes; those of MatMul stay float."""

MOVES = ("MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Those through which it moves QuantizeLinear and DequantizeLinear before that."""


def quantize_weights(wiring: Wiring, node: Node) -> Change | None:
    """int8 weights with a scale and a zero point of the whole tensor, an int32 bias in units x_scale * w_scale.

    Where the data is dequantized and the result leads to QuantizeLinear, through Relu and Clip at most; whether all of
    that becomes one integer operator does not matter. Nothing is done to a layer whose bias is not a constant vector.
    Source: WeightBiasQuantization of onnxruntime.
    """
    if node.domain or node.op_type not in WEIGHTED or not _leads_to_codes(wiring, node.outputs[0]):
        return None
    x, w, b = _meaning(wiring, node, node.input(0)), _numbers(wiring, node.input(1)), node.input(2)
    bias = _numbers(wiring, b) if b else None
    if x is None or w is None or w.size == 0 or (b and (bias is None or bias.ndim != 1)):
        return None
    scale, zero_point = parameters(w)
    codes = np.clip(np.rint(w / scale) + zero_point, LOW, HIGH).astype(np.int8)
    constants: dict[str, Array] = {}
    taken, nodes = [node.input(0)], []
    operands: list[tuple[str, Array, object, Array]] = [("weights", codes, scale, np.array(zero_point, np.int8))]
    if bias is not None:
        unit = np.asarray(x.scale * scale, np.float32)
        operands.append(("bias", np.rint(bias / unit).astype(np.int32), unit, np.array(0, np.int32)))
    for role, values, by, zero in operands:
        names = [wiring.fresh(f"{node.name}_{role}_{part}") for part in ("codes", "scale", "zero_point", "dequantized")]
        constants |= dict(zip(names[:3], (values, np.asarray(by), zero), strict=True))
        nodes.append(Node(f"{names[3]}_node", "DequantizeLinear", "", tuple(names[:3]), (names[3],), {}))
        taken.append(names[3])
    quantized = replace(node, inputs=tuple(taken))
    return Change(node, (*nodes, quantized), constants=constants)


def _numbers(wiring: Wiring, tensor: str) -> Array | None:
    """A constant of float32 numbers that no DequantizeLinear makes."""
    found = wiring.constant(tensor)
    return found if found is not None and found.dtype == np.float32 else None


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
    return not node.domain and node.op_type in MOVES and (node.op_type != "MaxPool" or node.version >= 12)


def _leads_to_codes(wiring: Wiring, tensor: str, *, moved: bool = False) -> bool:
    """Whether a tensor is read once all the way through Relu and Clip, then movements, to QuantizeLinear.

    As in onnxruntime, that a tensor is an output of the model, too, does not matter, except of those that are moved.
    """
    readers = {reader.name for reader in wiring.readers.get(tensor, ())}
    reader = wiring.nodes[readers.pop()] if len(readers) == 1 else None
    if reader is None or is_quantize(reader):
        return reader is not None and not (moved and tensor in wiring.outputs)
    if not moved and not reader.domain and reader.op_type in ("Clip", "Relu"):
        return _leads_to_codes(wiring, reader.outputs[0])
    return _moves(reader) and tensor not in wiring.outputs and _leads_to_codes(wiring, reader.outputs[0], moved=True)
