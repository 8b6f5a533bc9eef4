"""Operators that commute with quantization, because they only move, repeat or choose elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.clamps import clamp_node, clamp_of
from qcgen.rewrite.quantization import GraphQuantization
from qcgen.rewrite.wiring import Wiring

CHOICES = frozenset({"GlobalMaxPool", "ReduceMax", "ReduceMin"})
"""The operators of ai.onnx that choose one of many elements; quantization keeps the order of the numbers."""

MOVEMENTS = CHOICES | {
    *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "MaxPool", "Pad", "Reshape", "Resize", "Slice"),
    *("SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
}
"""The operators of ai.onnx that do to codes what they do to numbers; MaxPool chooses, too."""


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


def data_inputs(node: Node) -> tuple[str, ...]:
    """The tensors whose elements are moved; further inputs are shapes, axes and the like."""
    return node.inputs if node.op_type == "Concat" else node.inputs[:1]


def on_codes(
    wiring: Wiring, node: Node, inputs: tuple[str, ...], outputs: tuple[str, ...], quantization: GraphQuantization
) -> tuple[Node, Mapping[str, Array]] | None:
    """A movement, Relu or Clip on codes of this meaning, with its constants; None where it has no such form.

    ``inputs`` take the place of the data inputs. Quantizing before it gives what quantizing behind it gave.
    """
    clamp = clamp_of(wiring, node)
    if clamp is not None:
        return clamp_node(wiring, node.name, inputs[0], outputs[0], clamp.codes(quantization), quantization.dtype)
    if not is_movement(node):
        return None
    moved = replace(node, inputs=(*inputs, *node.inputs[len(inputs) :]), outputs=outputs)
    return _padded(wiring, moved, quantization) if node.op_type == "Pad" else (moved, {})


def pad_value(wiring: Wiring, node: Node) -> float | None:
    """What a Pad fills in: an attribute before opset 11, 0 if absent; None if it is not constant."""
    if not node.input(2):
        value = node.attributes.get("value", 0.0)
        return float(value) if isinstance(value, int | float) else None
    constant = wiring.constant(node.input(2))
    return None if constant is None or constant.size != 1 else float(constant.reshape(()))


def _padded(wiring: Wiring, node: Node, quantization: GraphQuantization) -> tuple[Node, Mapping[str, Array]] | None:
    """A Pad whose constant is a code."""
    if node.attributes.get("mode", "constant") != "constant":
        return node, {}
    value = pad_value(wiring, node)
    if value is None or np.isnan(value):
        return None
    code = quantization.codes(np.array(value, np.float32))
    if len(node.inputs) == 1:
        return replace(node, attributes={**node.attributes, "value": float(code)}), {}
    name = wiring.fresh(f"{node.name}_value")
    return replace(node, inputs=(*node.inputs[:2], name, *node.inputs[3:])), {name: code}
