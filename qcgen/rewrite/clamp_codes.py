"""Clamps of codes: earlier, or gone."""

from __future__ import annotations

from dataclasses import replace

from qcgen.ir.graph import Node
from qcgen.ir.types import DType
from qcgen.rewrite.clamps import code_bounds
from qcgen.rewrite.movement import is_movement
from qcgen.rewrite.wiring import Change, Wiring

# Clamps of codes move in front of movements, to the operator that can do them along with its own work.

SINGLE = frozenset({"Flatten", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Movements of one tensor that neither add elements nor give several outputs."""


def clamp_earlier(wiring: Wiring, node: Node) -> Change | None:
    """Clip of the codes that a movement gives to nothing else becomes the movement of clamped codes."""
    if code_bounds(wiring, node) is None:
        return None
    between = node.inputs[0]
    mover = wiring.producers.get(between)
    if mover is None or mover.op_type not in SINGLE or not is_movement(mover) or wiring.only_reader(between) is None:
        return None
    clamped = wiring.fresh(f"{mover.inputs[0]}_clamped")
    clip = replace(node, inputs=(mover.inputs[0], *node.inputs[1:]), outputs=(clamped,))
    moved = replace(mover, inputs=(clamped, *mover.inputs[1:]), outputs=(node.outputs[0], *mover.outputs[1:]))
    return Change(node, (clip, moved), remove=(mover,))


# Clamps of codes that clamp nothing vanish.


def drop_clamps(wiring: Wiring, node: Node) -> Change | None:
    """Clip between the ends of the type gives its input."""
    bounds = code_bounds(wiring, node)
    if bounds is None:
        return None
    low, high = bounds
    dtype, output = DType.of(low), node.outputs[0]
    maker = wiring.producers.get(node.inputs[0])
    alone = maker is not None and wiring.only_reader(node.inputs[0]) is not None
    if int(low) > dtype.low or int(high) < dtype.high:
        return None
    if output not in wiring.outputs:
        return Change(node, rename={output: node.inputs[0]})
    if maker is None or not alone:
        return None
    outputs = tuple(output if name == node.inputs[0] else name for name in maker.outputs)
    return Change(node, (replace(maker, outputs=outputs),), remove=(maker,))
