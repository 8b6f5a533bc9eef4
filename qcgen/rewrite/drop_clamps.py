"""Clamps of codes that clamp nothing vanish, and those behind a table join it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.infer.lookup import LOOKUP
from qcgen.ir.graph import Node
from qcgen.ir.types import DType
from qcgen.rewrite.clamps import code_bounds
from qcgen.rewrite.wiring import Change, Wiring


def drop_clamps(wiring: Wiring, node: Node) -> Change | None:
    """Clip between the ends of the type gives its input; Clip of a Lookup that nothing else reads changes the table."""
    bounds = code_bounds(wiring, node)
    if bounds is None:
        return None
    low, high = bounds
    dtype, output = DType.of(low), node.outputs[0]
    maker = wiring.producers.get(node.inputs[0])
    alone = maker is not None and wiring.only_reader(node.inputs[0]) is not None
    if int(low) <= dtype.low and int(high) >= dtype.high:
        if output not in wiring.outputs:
            return Change(node, rename={output: node.inputs[0]})
        if maker is not None and alone:
            outputs = tuple(output if name == node.inputs[0] else name for name in maker.outputs)
            return Change(node, (replace(maker, outputs=outputs),), remove=(maker,))
        return None
    if maker is None or not alone or (maker.domain, maker.op_type) != LOOKUP:
        return None
    name = wiring.fresh(f"{maker.name}_clamped")
    table = np.minimum(np.maximum(wiring.graph.constants[maker.inputs[5]], low), high)
    lookup = replace(maker, inputs=(*maker.inputs[:5], name), outputs=node.outputs)
    return Change(node, (lookup,), remove=(maker,), constants={name: table})
