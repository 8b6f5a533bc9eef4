"""The operator of qcgen's own domain: a table of output codes, one for every input code."""

from __future__ import annotations

from qcgen.convolutions import OWN_DOMAIN
from qcgen.infer.facts import Facts, TensorType

LOOKUP = (OWN_DOMAIN, "Lookup")
"""(domain, op_type) of y = table[x - lowest code of x's type].

Inputs: x, x_scale, x_zero_point, y_scale, y_zero_point, table. ``table`` is constant and of y's type: (256,), or
(C, 256) with a row for each place of x's axis that the attribute axis names, from 0 on. Scales and zero points are per
tensor and say what the codes mean, the table alone says what is computed.
"""


def lookup(facts: Facts) -> tuple[TensorType, ...]:
    """The first input's shape in the table's type."""
    return (TensorType(facts.dtype(5), facts.shape(0)),)
