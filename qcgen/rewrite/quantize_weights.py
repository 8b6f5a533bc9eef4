"""Float weights of a ConvTranspose between codes become codes, as onnxruntime makes them when it loads a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.quantization import activation, is_quantize, quantization_of
from qcgen.rewrite.wiring import Change, Wiring

LOW, HIGH = -128, 127


def quantize_weights(wiring: Wiring, node: Node) -> Change | None:
    """int8 weights with a scale and a zero point of the whole tensor, an int32 bias in units x_scale * w_scale.

    Where the data is dequantized and the result quantized, behind a Relu at most that quantization makes superfluous.
    Source: WeightBiasQuantization of onnxruntime.
    """
    if (node.domain, node.op_type) != ("", "ConvTranspose") or not _is_quantized(wiring, node.outputs[0]):
        return None
    x, w, b = activation(wiring, node.input(0)), _numbers(wiring, node.input(1)), node.input(2)
    bias = _numbers(wiring, b) if b else None
    if x is None or w is None or w.size == 0 or (b and bias is None):
        return None
    scale, zero_point = parameters(w)
    codes = np.clip(np.rint(w / scale) + zero_point, LOW, HIGH).astype(np.int8)
    constants: dict[str, Array] = {}
    taken, nodes = [node.input(0)], []
    operands: list[tuple[str, Array, object, Array]] = [("weights", codes, scale, np.array(zero_point, np.int8))]
    if bias is not None:
        unit = np.asarray(x.quantization.scale * scale, np.float32)
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


def _is_quantized(wiring: Wiring, tensor: str) -> bool:
    """Whether one QuantizeLinear alone reads a tensor, or a Relu of it that its lowest code makes superfluous."""
    reader = wiring.only_reader(tensor)
    clips = reader is not None and (reader.domain, reader.op_type) == ("", "Relu")
    if reader is not None and clips:
        reader = wiring.only_reader(reader.outputs[0])
    target = quantization_of(wiring, reader) if reader is not None and is_quantize(reader) else None
    if target is None or not target.is_8_bit_per_tensor:
        return False
    return not clips or bool(target.zero_point.reshape(()) == target.dtype.low)
