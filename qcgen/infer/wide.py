"""The operators of qcgen's own domain on activations of 16 bits: onnxruntime has none, it computes them in float."""

from __future__ import annotations

from qcgen.convolutions import OWN_DOMAIN

WIDE_ADD = (OWN_DOMAIN, "QLinearAdd")
WIDE_CONV = (OWN_DOMAIN, "QLinearConv")
WIDE_GEMM = (OWN_DOMAIN, "QGemm")
WIDE_MATMUL = (OWN_DOMAIN, "QLinearMatMul")
WIDE_MEAN = (OWN_DOMAIN, "QLinearGlobalAveragePool")
WIDE_MUL = (OWN_DOMAIN, "QLinearMul")
WIDE_SUB = (OWN_DOMAIN, "QLinearSub")
"""(domain, op_type), with the inputs of the operators of these names, QLinearSub with those of QLinearAdd;
activations have 8 or 16 bits, weights 8."""
