"""The operator of qcgen's own domain: a table of output codes, one for every input code."""

from __future__ import annotations

from qcgen.infer.facts import Facts, TensorType

LOOKUP = ("qcgen", "Lookup")
"""(domain, op_type) of y = table[x - lowest code of x's type].

Inputs: x, x_scale, x_zero_point, y_scale, y_zero_point, table. ``table`` (256,) is constant and of y's type; scales and
zero points are per tensor and say what the codes mean, the table alone says what is computed.
"""


def lookup(facts: Facts) -> tuple[TensorType, ...]:
    """The first input's shape in the table's type."""
    return (TensorType(facts.dtype(5), facts.shape(0)),)
