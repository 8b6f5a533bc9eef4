"""The output step of the scalar kernels: the upper word of a product, an offset, a shift, one or two comparisons."""

from __future__ import annotations

from qcgen.ir.plan import Certificate
from qcgen.ir.program import Conv
from qcgen.kernels import fast_output
from qcgen.kernels.fast_output import FastOutput
from qcgen.kernels.packing import Packed

SCALE = {"multiply-high": "scalar_scale", "split": "scalar_scale_split"}


def scalar_output(op: Conv, packed: Packed) -> FastOutput:
    """What ``templates/kernels/fast_output.c.jinja`` needs to know of the output step on cores without SIMD."""
    return fast_output.fast_output(op, packed, SCALE, "scalar_saturate")


def certified(op: Conv, packed: Packed) -> Certificate:
    """The certificate of a node with this output step."""
    return fast_output.certified(op, packed, scalar_output(op, packed))
