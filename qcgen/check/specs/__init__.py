"""What is accepted of every operator, and how it is spelt."""

from __future__ import annotations

from qcgen.check.conv import conv_spec
from qcgen.check.node import Spec
from qcgen.check.recurrent import DYNAMIC
from qcgen.check.signature import Signature, of_onnx
from qcgen.check.specs.microsoft import MICROSOFT
from qcgen.check.specs.standard import STANDARD
from qcgen.convolutions import CONVOLUTIONS, NHWC_DOMAIN
from qcgen.infer.arithmetic import DYNAMIC_LSTM

POOLS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")

SPECS: dict[tuple[str, str], Spec] = {
    **{("", op_type): spec for op_type, spec in STANDARD.items()},
    **MICROSOFT,
    **{(NHWC_DOMAIN, op_type): STANDARD[op_type] for op_type in POOLS},
    DYNAMIC_LSTM: DYNAMIC,
    **{key: conv_spec(spelling) for key, spelling in CONVOLUTIONS.items()},
}
"""What is accepted, by (domain, op_type)."""


def signature_of(domain: str, op_type: str) -> Signature:
    """How an operator is spelt that can be compiled."""
    return SPECS[domain, op_type].signature or of_onnx(op_type)
