"""What is accepted of every operator besides convolutions."""

from __future__ import annotations

from qcgen.check.node import Spec
from qcgen.check.specs.microsoft import MICROSOFT
from qcgen.check.specs.parts import AVERAGE_POOL, GLOBAL_MAX_POOL, GLOBAL_POOL, MAX_POOL
from qcgen.check.specs.recurrent import DYNAMIC_LSTM as OF_DYNAMIC_LSTM
from qcgen.check.specs.standard import STANDARD
from qcgen.convolutions import NHWC_DOMAIN
from qcgen.infer.recurrent import DYNAMIC_LSTM

SPECS: dict[tuple[str, str], Spec] = {
    **STANDARD,
    **MICROSOFT,
    (NHWC_DOMAIN, "AveragePool"): AVERAGE_POOL,
    (NHWC_DOMAIN, "GlobalAveragePool"): GLOBAL_POOL,
    (NHWC_DOMAIN, "GlobalMaxPool"): GLOBAL_MAX_POOL,
    (NHWC_DOMAIN, "MaxPool"): MAX_POOL,
    DYNAMIC_LSTM: OF_DYNAMIC_LSTM,
}
"""What is accepted, by (domain, op_type)."""
