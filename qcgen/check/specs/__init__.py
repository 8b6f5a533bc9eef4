"""What is accepted of every operator besides convolutions, and how all are spelt."""

from __future__ import annotations

from functools import cache

from qcgen.check.node import Spec
from qcgen.check.signature import INTEGER, NUMBERS, TEXT, Signature, of_onnx
from qcgen.check.specs.microsoft import MICROSOFT
from qcgen.check.specs.recurrent import DYNAMIC_LSTM as OF_DYNAMIC_LSTM
from qcgen.check.specs.standard import STANDARD
from qcgen.convolutions import CONVOLUTIONS, NHWC_DOMAIN, ConvKind
from qcgen.infer.arithmetic import DYNAMIC_LSTM

POOLS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")

SPECS: dict[tuple[str, str], Spec] = {
    **{("", op_type): spec for op_type, spec in STANDARD.items()},
    **MICROSOFT,
    **{(NHWC_DOMAIN, op_type): STANDARD[op_type] for op_type in POOLS},
    DYNAMIC_LSTM: OF_DYNAMIC_LSTM,
}
"""What is accepted, by (domain, op_type)."""

BY_KIND = {ConvKind.QUANTIZED: "QLinearConv", ConvKind.INTEGER: "ConvInteger", ConvKind.FLOAT: "Conv"}
"""ai.onnx's convolutions, of which those of other domains are spellings."""


@cache
def signature_of(domain: str, op_type: str) -> Signature:
    """How an operator is spelt that can be compiled."""
    spelling = CONVOLUTIONS.get((domain, op_type))
    if spelling is None:
        return SPECS[domain, op_type].signature or of_onnx(op_type)
    like = of_onnx(BY_KIND[spelling.kind])
    attributes = dict(like.attributes)
    if spelling.channels_last is None:
        attributes["channels_last"] = INTEGER
    if spelling.activations:
        attributes |= {"activation": TEXT, "activation_params": NUMBERS}
    return Signature(spelling.inputs, like.required, attributes)
