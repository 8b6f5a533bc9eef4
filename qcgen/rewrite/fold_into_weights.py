"""What scales and shifts the channels behind a convolution of float weights joins its weights and bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.wiring import Change, Wiring


def fold_into_weights(wiring: Wiring, node: Node) -> Change | None:
    """Conv, then BatchNormalization, or Add or Mul of a constant of each channel: a Conv with other constants.

    onnxruntime does so before it quantizes the weights, in float32 and in this order of operations.
    Source: ConvBNFusion, ConvAddFusion and ConvMulFusion of onnxruntime.
    """
    w = _floats(wiring, node.input(1))
    bias = _floats(wiring, node.input(2))
    if (node.domain, node.op_type) != ("", "Conv") or w is None or (node.input(2) and bias is None):
        return None
    after = wiring.only_reader(node.outputs[0])
    if after is None or after.domain or after.input(0) != node.outputs[0] or after.outputs[0] in wiring.outputs:
        return None
    folded = _folded(wiring, after, w, bias)
    if folded is None:
        return None
    names = tuple(wiring.fresh(f"{node.name}_folded_{role}") for role in ("weights", "bias"))
    constants: Mapping[str, Array] = {
        name: array for name, array in zip(names, folded, strict=True) if array is not None
    }
    conv = replace(node, inputs=(node.inputs[0], *constants), outputs=after.outputs[:1])
    return Change(after, (conv,), remove=(node,), constants=constants)


def _folded(wiring: Wiring, after: Node, w: Array, bias: Array | None) -> tuple[Array, Array | None] | None:
    """Weights and bias with what comes ``after`` in them; None where it is of another kind."""
    match after.op_type:
        case "BatchNormalization":
            found = [_floats(wiring, name) for name in after.inputs[1:]]
            epsilon = after.attributes.get("epsilon", 1e-5)
            is_plain = not after.attributes.get("training_mode", 0) and after.attributes.get("spatial", 1) == 1
            parts = [part for part in found if part is not None and part.shape == w.shape[:1]]
            if len(parts) != 4 or not is_plain or not isinstance(epsilon, int | float) or any(after.outputs[1:]):
                return None
            scale, shift, mean, variance = parts
            factor = scale / np.sqrt(variance + np.float32(epsilon))
            moved = shift - mean * factor if bias is None else (bias - mean) * factor + shift
            return _scaled(w, factor), moved
        case "Mul":
            of_channels = _of_channels(wiring, after, w, scalar=True)
            if of_channels is None:
                return None
            return _scaled(w, of_channels), None if bias is None else bias * of_channels
        case "Add":
            of_channels = _of_channels(wiring, after, w, scalar=False)
            if of_channels is None:
                return None
            return w, of_channels if bias is None else bias + of_channels
    return None


def _of_channels(wiring: Wiring, node: Node, w: Array, *, scalar: bool) -> Array | None:
    """The second operand, (M, 1, 1) of images, as (M,); a scalar where that is allowed."""
    found = _floats(wiring, node.input(1))
    if found is None or w.ndim < 4:
        return None
    if scalar and found.ndim == 0:
        return np.full(w.shape[0], found, np.float32)
    return found.reshape(-1) if found.shape == (w.shape[0], *(1,) * (w.ndim - 2)) else None


def _scaled(w: Array, factor: Array) -> Array:
    return w * factor.reshape(-1, *(1,) * (w.ndim - 1))


def _floats(wiring: Wiring, name: str) -> Array | None:
    found = wiring.constant(name) if name else None
    return found if found is not None and found.dtype == np.float32 else None
