"""What is accepted of every operator besides convolutions, and how all are spelt."""

from __future__ import annotations

from functools import cache

from qcgen.check.node import Spec
from qcgen.check.signature import INTEGER, NUMBERS, TEXT, Signature, of_onnx
from qcgen.check.specs.microsoft import MICROSOFT
from qcgen.check.specs.recurrent import DYNAMIC_LSTM as OF_DYNAMIC_LSTM
from qcgen.check.specs.standard import STANDARD
from qcgen.convolutions import CONVOLUTIONS, NHWC_DOMAIN
from qcgen.infer.recurrent import DYNAMIC_LSTM

POOLS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")

SPECS: dict[tuple[str, str], Spec] = {
    **{("", op_type): spec for op_type, spec in STANDARD.items()},
    **MICROSOFT,
    **{
        (NHWC_DOMAIN, name): STANDARD[name] for name in ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")
    },
    DYNAMIC_LSTM: OF_DYNAMIC_LSTM,
}
"""What is accepted, by (domain, op_type)."""


@cache
def signature_of(domain: str, op_type: str) -> Signature:
    """How an operator is spelt that can be compiled."""
    spelling = CONVOLUTIONS.get((domain, op_type))
    if spelling is None:
        return SPECS[domain, op_type].signature or of_onnx(op_type)
    attributes = dict(of_onnx("Conv").attributes)
    if spelling.channels_last is None:
        attributes["channels_last"] = INTEGER
    if spelling.activations:
        attributes |= {"activation": TEXT, "activation_params": NUMBERS}
    return Signature(spelling.inputs, spelling.required, attributes)
