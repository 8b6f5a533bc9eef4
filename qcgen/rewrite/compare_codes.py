"""Where the largest of many numbers is, their codes tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.rewrite.quantization import activation
from qcgen.rewrite.wiring import Change, Wiring


def compare_codes(wiring: Wiring, node: Node) -> Change | None:
    """ArgMax and ArgMin of a dequantized tensor read its codes, if different codes are different numbers."""
    if (node.domain, node.op_type) not in (("", "ArgMax"), ("", "ArgMin")):
        return None
    x = activation(wiring, node.input(0))
    if x is None:
        return None
    with np.errstate(over="ignore"):
        numbers = x.quantization.real_values(x.quantization.all_codes())
    if not (numbers[1:] > numbers[:-1]).all():
        return None
    return Change(node, (replace(node, inputs=(x.codes, *node.inputs[1:])),))
