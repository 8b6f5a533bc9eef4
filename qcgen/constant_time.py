"""Code that takes as many instructions for every input: what is refused because no kernel has such code."""

from __future__ import annotations

from collections.abc import Iterator

from qcgen.cores import TARGETS, Target
from qcgen.errors import ModelRejected, Problem
from qcgen.ir.plan import Call, Plan
from qcgen.ir.program import Dequantize, Quantize
from qcgen.kernels.portable.rows import BY_DIVISION, RowsCall
from qcgen.options import spelt

SAME_STEPS = {
    "arm_dsp": "conv dense depthwise depthwise_direct depthwise_rows global_average_pool matmul pointwise"
    " quantized_binary short_window winograd winograd_in_ram",
    "scalar": "conv dense depthwise winograd",
    "portable": "conv copy depthwise_nchw depthwise_nhwc global_average_pool lookup matmul max_pool"
    " pointwise quantized_binary reduce softmax",
}
"""Kernels by family that take the same steps for every input with the feature; tests/test_constant_time.py counts."""

UNCOUNTED = {"rounded once", "integers"}
"""Forms of the output step, of 16-bit codes and of .tflite files, whose instructions no test counts."""

_KERNELS = {f"{family}/{name}" for family, names in SAME_STEPS.items() for name in names.split()}


def require_target(target: str) -> None:
    """Raises ModelRejected unless the core's code can take as many instructions for every input."""
    if not _is_able(TARGETS[target]):
        able = ", ".join(name for name, each in TARGETS.items() if _is_able(each))
        what = (
            f"{spelt(constant_time=True)} is not for {spelt(target=target)}, whose kernels or compilers choose by data"
        )
        raise ModelRejected([Problem("model", what, f"name one of {able}, or leave the option out")])


def refuse_varying(plan: Plan) -> None:
    """Raises ModelRejected with every operator that takes more instructions for some inputs than for others."""
    if problems := list(_varying(plan)):
        raise ModelRejected(problems)


def _varying(plan: Plan) -> Iterator[Problem]:
    for call in plan.calls:
        if call.kernel not in _KERNELS or _divides(call) or not UNCOUNTED.isdisjoint(call.certificate.requantize or ()):
            what = (
                f"{call.kernel} may take more instructions for some inputs, which {spelt(constant_time=True)} refuses"
            )
            advice = "leave the option out, or this node out of the model"
            if isinstance(call.op, Quantize | Dequantize):
                advice = f"{spelt(io='quantized')} leaves the conversion to the caller"
            yield Problem(f"node {call.op.name!r} ({call.op.op_type})", what, advice)


def _is_able(target: Target) -> bool:
    return target.chooses_without_branches or target.isa == "rv32m"


def _divides(call: Call) -> bool:
    """Whether a softmax divides bit by bit."""
    return isinstance(call.context, RowsCall) and call.context.row.startswith(BY_DIVISION)
