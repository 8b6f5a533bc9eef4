"""Nodes that look the output code up in a table, and clamps of codes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qcgen.infer.lookup import LOOKUP
from qcgen.ir.graph import Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.quantization import GraphQuantization, named
from qcgen.rewrite.wiring import Wiring


def lookup_node(
    wiring: Wiring, name: str, x: str, y: str, meaning: tuple[GraphQuantization, GraphQuantization], table: Array
) -> tuple[Node, Mapping[str, Array]]:
    """y = table[x] as a node called ``name``, and the constants that it needs.

    ``meaning`` is the quantization of x and of y; ``table`` (256,) in y's type, from the smallest code of x on.
    """
    domain, op_type = LOOKUP
    x_meaning, x_constants = named(wiring, meaning[0], x)
    y_meaning, y_constants = named(wiring, meaning[1], y)
    elements = wiring.fresh(f"{name}_table")
    inputs = (x, *x_meaning.names, *y_meaning.names, elements)
    return Node(name, op_type, domain, inputs, (y,), {}), {**x_constants, **y_constants, elements: table}


def clamp_node(
    wiring: Wiring, name: str, x: str, y: str, bounds: tuple[int, int], dtype: DType
) -> tuple[Node, Mapping[str, Array]]:
    """Clip of the codes themselves between two codes, as a node called ``name``, and its constants."""
    low, high = wiring.fresh(f"{name}_low"), wiring.fresh(f"{name}_high")
    constants = {low: np.array(bounds[0], dtype.numpy), high: np.array(bounds[1], dtype.numpy)}
    return Node(name, "Clip", "", (x, low, high), (y,), {}), constants


def recode(codes: Array, to: DType) -> Array:
    """Codes shifted into the other 8-bit type: the smallest becomes the smallest."""
    return (codes.astype(np.int64) - DType.of(codes).low + to.low).astype(to.numpy)
