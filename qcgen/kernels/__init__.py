"""The kernels, in order of preference: the first that serves an operator computes it.

What a kernel leaves to one behind it, because that one is faster, its ``why_not`` says (docs/decisions/0010).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qcgen.ir.plan import Rejected
from qcgen.ir.program import Operator
from qcgen.kernels.arm_dsp.conv import CONV as DSP_CONV
from qcgen.kernels.arm_dsp.dense import DENSE as DSP_DENSE
from qcgen.kernels.arm_dsp.dense import POINTWISE as DSP_POINTWISE
from qcgen.kernels.arm_dsp.depthwise import DEPTHWISE as DSP_DEPTHWISE
from qcgen.kernels.arm_dsp.depthwise_direct import DEPTHWISE_DIRECT as DSP_DEPTHWISE_DIRECT
from qcgen.kernels.arm_dsp.depthwise_direct import DEPTHWISE_ROWS as DSP_DEPTHWISE_ROWS
from qcgen.kernels.arm_dsp.other_operators import GLOBAL_AVERAGE_POOL as DSP_GLOBAL_AVERAGE_POOL
from qcgen.kernels.arm_dsp.other_operators import INTEGER_LSTM as DSP_INTEGER_LSTM
from qcgen.kernels.arm_dsp.other_operators import MATMUL as DSP_MATMUL
from qcgen.kernels.arm_dsp.other_operators import QUANTIZED_BINARY as DSP_QUANTIZED_BINARY
from qcgen.kernels.arm_dsp.short_window import SHORT_WINDOW as DSP_SHORT_WINDOW
from qcgen.kernels.arm_dsp.winograd import WINOGRAD as DSP_WINOGRAD
from qcgen.kernels.arm_dsp.winograd import WINOGRAD_IN_RAM as DSP_WINOGRAD_IN_RAM
from qcgen.kernels.arm_mve.conv import CONV as MVE_CONV
from qcgen.kernels.arm_mve.conv import DENSE as MVE_DENSE
from qcgen.kernels.arm_mve.depthwise import DEPTHWISE as MVE_DEPTHWISE
from qcgen.kernels.arm_mve.other_operators import MATMUL as MVE_MATMUL
from qcgen.kernels.arm_mve.other_operators import MAX_POOL as MVE_MAX_POOL
from qcgen.kernels.host import CONV as HOST_CONV
from qcgen.kernels.kernel import COMMON_NAMES, Constants, Kernel, Prepared, Scratch, Setting, TileWeights
from qcgen.kernels.portable.code_pointwise import (
    CHANNEL_LOOKUP,
    CLAMP,
    INTEGER_BINARY,
    INTEGER_UNARY,
    LOOKUP,
    QUANTIZED_BINARY,
    WIDE_BINARY,
)
from qcgen.kernels.portable.conv import CONV, CONV_FLOAT, POINTWISE
from qcgen.kernels.portable.convert import (
    CONVERT,
    DEQUANTIZE,
    DYNAMIC_PARAMETER,
    DYNAMIC_QUANTIZE,
    EXTREMES,
    QUANTIZE,
    ZERO_POINT_CORRECTION,
)
from qcgen.kernels.portable.copy import COPY
from qcgen.kernels.portable.depthwise import DEPTHWISE_NCHW, DEPTHWISE_NHWC
from qcgen.kernels.portable.float_pointwise import FLOAT_BINARY, FLOAT_OUTPUT, FLOAT_UNARY
from qcgen.kernels.portable.matmul import MATMUL, MATMUL_FLOAT
from qcgen.kernels.portable.orion import ORION_CONV
from qcgen.kernels.portable.pool import AVERAGE_POOL, INTERPOLATE, MAX_POOL
from qcgen.kernels.portable.recurrent import DYNAMIC_LSTM, INTEGER_LSTM, RECURRENT
from qcgen.kernels.portable.reduce import (
    FLOAT_MEAN,
    FLOAT_MEAN_OF_ROWS,
    FLOAT_SUM,
    GLOBAL_AVERAGE_POOL,
    MEAN_OF_ROWS,
    REDUCE,
)
from qcgen.kernels.portable.rows import (
    FLOAT_INSTANCE_NORM,
    FLOAT_LAYER_NORM,
    FLOAT_SOFTMAX,
    INSTANCE_NORM,
    INTEGER_LOG_SOFTMAX,
    INTEGER_SOFTMAX,
    LAYER_NORM,
    SOFTMAX,
    WIDE_SOFTMAX,
)
from qcgen.kernels.portable.selection import ARG_MAX, EMBEDDING, GATHER_ELEMENTS, SELECT, TOP_K
from qcgen.kernels.scalar.conv import CONV as SCALAR_CONV
from qcgen.kernels.scalar.dense import DENSE as SCALAR_DENSE
from qcgen.kernels.scalar.depthwise import DEPTHWISE as SCALAR_DEPTHWISE
from qcgen.kernels.scalar.winograd import WINOGRAD as SCALAR_WINOGRAD

ARM_MVE: tuple[Kernel, ...] = (MVE_DEPTHWISE, MVE_DENSE, MVE_CONV, MVE_MATMUL, MVE_MAX_POOL)
ARM_DSP: tuple[Kernel, ...] = (
    DSP_DEPTHWISE,
    DSP_DEPTHWISE_DIRECT,
    DSP_DEPTHWISE_ROWS,
    DSP_DENSE,
    DSP_SHORT_WINDOW,
    DSP_POINTWISE,
    DSP_WINOGRAD,
    DSP_WINOGRAD_IN_RAM,
    DSP_CONV,
    DSP_QUANTIZED_BINARY,
    DSP_MATMUL,
    DSP_GLOBAL_AVERAGE_POOL,
    DSP_INTEGER_LSTM,
)
SCALAR: tuple[Kernel, ...] = (SCALAR_DEPTHWISE, SCALAR_DENSE, SCALAR_WINOGRAD, SCALAR_CONV)
HOST: tuple[Kernel, ...] = (HOST_CONV,)
PORTABLE: tuple[Kernel, ...] = (
    POINTWISE,
    DEPTHWISE_NHWC,
    DEPTHWISE_NCHW,
    CONV,
    CONV_FLOAT,
    ORION_CONV,
    MAX_POOL,
    AVERAGE_POOL,
    GLOBAL_AVERAGE_POOL,
    FLOAT_MEAN,
    FLOAT_SUM,
    FLOAT_MEAN_OF_ROWS,
    MEAN_OF_ROWS,
    REDUCE,
    ARG_MAX,
    LOOKUP,
    CLAMP,
    EMBEDDING,
    CHANNEL_LOOKUP,
    QUANTIZED_BINARY,
    INTEGER_BINARY,
    WIDE_BINARY,
    MATMUL,
    MATMUL_FLOAT,
    CONVERT,
    RECURRENT,
    DYNAMIC_LSTM,
    SOFTMAX,
    INTEGER_SOFTMAX,
    INTEGER_LOG_SOFTMAX,
    INTEGER_LSTM,
    INTEGER_UNARY,
    WIDE_SOFTMAX,
    INTERPOLATE,
    LAYER_NORM,
    INSTANCE_NORM,
    FLOAT_LAYER_NORM,
    FLOAT_INSTANCE_NORM,
    QUANTIZE,
    DEQUANTIZE,
    EXTREMES,
    DYNAMIC_PARAMETER,
    DYNAMIC_QUANTIZE,
    ZERO_POINT_CORRECTION,
    FLOAT_OUTPUT,
    COPY,
    FLOAT_UNARY,
    FLOAT_BINARY,
    SELECT,
    TOP_K,
    GATHER_ELEMENTS,
    FLOAT_SOFTMAX,
)
KERNELS: tuple[Kernel, ...] = (*ARM_MVE, *ARM_DSP, *SCALAR, *HOST, *PORTABLE)

__all__ = [
    "ARM_DSP",
    "ARM_MVE",
    "COMMON_NAMES",
    "FORMS",
    "HOST",
    "KERNELS",
    "PAIRED",
    "PORTABLE",
    "SCALAR",
    "SIZE",
    "SPEED",
    "TRANSFORMING",
    "TRANSFORMING_MORE",
    "Constants",
    "Form",
    "Kernel",
    "Prepared",
    "Scratch",
    "Selection",
    "Setting",
    "TileWeights",
    "select",
]


@dataclass(frozen=True)
class Selection:
    """The chosen kernel, and why those before it in the list were not chosen."""

    kernel: Kernel
    rejected: tuple[Rejected, ...]


def select(op: Operator, setting: Setting, kernels: Sequence[Kernel], wanted: str = "") -> Selection:
    """The first kernel whose needs the target meets and that finds no reason against the operator.

    Kernels that need other features than the target has are not mentioned: nothing can be done about them. ``wanted``:
    the name of one that comes before all others.
    """
    rejected: list[Rejected] = []
    for kernel in sorted(kernels, key=lambda each: each.name != wanted):
        if not kernel.needs <= setting.features:
            continue
        reason = kernel.why_not(op, setting)
        if reason is None:
            return Selection(kernel, tuple(rejected))
        rejected.append(Rejected(kernel.name, reason))
    raise AssertionError(f"no kernel accepts {op.name}")


# What a layer spends flash on: the ways to compile it between --optimize size and speed.


@dataclass(frozen=True)
class Form:
    """``optimize`` is "size" or "speed".

    ``tile_weights``: where those lie that are transformed for tiles of outputs, in RAM with so much ``tile_scratch``.
    """

    name: str
    optimize: str
    tile_weights: TileWeights = TileWeights.NONE
    tile_scratch: int = 0


SIZE = Form("size", "size")
PAIRED = Form("paired", "speed")
TRANSFORMING = Form("transforming", "speed", TileWeights.IN_RAM, 24 * 1024)
TRANSFORMING_MORE = Form("transforming more", "speed", TileWeights.IN_RAM, 48 * 1024)
SPEED = Form("speed", "speed", TileWeights.IN_FLASH)

FORMS = (SIZE, PAIRED, TRANSFORMING, TRANSFORMING_MORE, SPEED)
"""From the least flash to the most, for most layers."""
