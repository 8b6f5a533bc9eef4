"""What is accepted of every operator besides convolutions."""

from __future__ import annotations

from qcgen.check import limits
from qcgen.check.node import Q8, Spec
from qcgen.check.specs.microsoft import MICROSOFT
from qcgen.check.specs.parts import AVERAGE_POOL, GLOBAL_POOL, MAX_POOL, ONE, UNARY
from qcgen.check.specs.standard import STANDARD
from qcgen.convolutions import NHWC_DOMAIN
from qcgen.infer.lookup import LOOKUP

SPECS: dict[tuple[str, str], Spec] = {
    **STANDARD,
    **MICROSOFT,
    (NHWC_DOMAIN, "AveragePool"): AVERAGE_POOL,
    (NHWC_DOMAIN, "GlobalAveragePool"): GLOBAL_POOL,
    (NHWC_DOMAIN, "MaxPool"): MAX_POOL,
    LOOKUP: Spec(
        (*ONE, "table"),
        6,
        {**UNARY.types, "table": Q8},
        constant=(*ONE[1:], "table"),
        numbers=ONE[1:],
        scales=UNARY.scales,
        same=(("X_zero_point", "X"), ("Y_zero_point", "table")),
        extra=(limits.has_a_code_each,),
    ),
}
"""What is accepted, by (domain, op_type)."""
