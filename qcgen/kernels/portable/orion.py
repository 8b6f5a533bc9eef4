"""portable/orion_conv: a convolution in Orion's fixed point, one window at a time."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import ConvGeometry, Int64s, Operator, OrionConv
from qcgen.ir.types import Layout
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.text import counted
from qcgen.kernels.windows import CopyWindow, Images, OutputSteps, copy_window, images, output_steps
from qcgen.orion import (
    HIGHEST,
    INT32_MAX,
    LOWEST,
    MAGNITUDE_MAX,
    Tests,
    accumulators,
    certify,
    fits_int32,
    reachable,
    run_time_tests,
    safe_codes,
    thresholds,
)


@dataclass(frozen=True)
class EvenSpacing:
    """Dequantized values as the integers they come from: value = (code - zero_point) * unit, codes fit int8."""

    codes: Int64s
    zero_point: int
    unit: int


@dataclass(frozen=True)
class Panics:
    """What the C tests at run time, each time returning 1, because Orion panics there; bounds are None if not tested.

    ``lowest`` and ``highest`` bound the codes of x, ``lowest_sum`` and ``highest_sum`` the sums that are requantized.
    """

    lowest: int | None
    highest: int | None
    products: bool
    channel_sums: bool
    sums: bool
    lowest_sum: int | None
    highest_sum: int | None
    elements: int  # of x, all of which Orion dequantizes
    in_order: bool  # sums are taken input channel by input channel, as Orion does
    limits: bool  # some product or sum on the way is tested
    least: int = -MAGNITUDE_MAX  # of what is tested on the way
    most: int = MAGNITUDE_MAX

    @property
    def tested(self) -> str:
        """What is tested, as a list for people."""
        found = {
            "codes of the input": self.lowest is not None or self.highest is not None,
            "each product": self.products,
            "the sum of each input channel": self.channel_sums,
            "the sum over input channels": self.sums,
            "the sum that is requantized": self.lowest_sum is not None or self.highest_sum is not None,
        }
        return ", ".join(what for what, is_tested in found.items() if is_tested)


@dataclass(frozen=True)
class OrionConvContext(Context):
    """A convolution in Orion's fixed point."""

    template: ClassVar[str] = "kernels/portable/orion_conv.c.jinja"

    g: ConvGeometry
    copy: CopyWindow
    x_type: str  # of C
    pixels: int  # of an output image
    x_group: int  # from one group of channels to the next
    images: Images
    steps: OutputSteps
    sum_type: str  # of C
    tap_type: str  # of C, of a dequantized element
    weight_type: str  # of C, of the table
    fraction_bits: int  # of every number
    is_coded: bool  # weights are codes, dequantized as they are read
    x_codes: EvenSpacing  # what the codes of x stand for
    w_codes: EvenSpacing | None  # and those of weights
    panics: Panics | None  # None: Orion computes an output for every input
    kernel_taps: int  # of one input channel


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every convolution of Orion's arithmetic."""
    return None if isinstance(op, OrionConv) else f"{op.op_type} is not in Orion's arithmetic"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [M][taps] in the order of a window; as int8 codes, or dequantized with --optimize speed."""
    assert isinstance(op, OrionConv)
    g = op.geometry
    steps, tests = thresholds(op), run_time_tests(op)
    sum_type = "int32_t" if fits_int32(op) else "int64_t"
    prove(sum_type == "int64_t" or not (tests.products or tests.in_order), "what may leave 32 bits is summed in 64")
    tap_type = "int32_t" if _largest_operand(op) <= INT32_MAX else "int64_t"
    tap_bytes = 4 if tap_type == "int32_t" else 8
    order = Layout.CHANNELS_FIRST if tests.in_order else setting.x_layout
    weights = _window_order(op, order)
    codes = evenly_spaced(weights) if setting.optimize == "size" else None
    weight_type, values, remark = (tap_type, weights, ", dequantized") if codes is None else ("int8_t", codes.codes, "")
    constants = (
        Constants("weights", weight_type, values, _meaning(op, order, remark)),
        Constants("bias", sum_type, op.bias, f"the bias in units of 2^-{op.fraction_bits}: the initial accumulators."),
        Constants("thresholds", sum_type, steps, "the smallest sums whose codes are -127, -126, ..., 127."),
    )
    channel_step = 1 if setting.x_layout is Layout.CHANNELS_LAST else prod(g.input)
    context = OrionConvContext(
        g=g,
        copy=copy_window(g, setting.x_layout, op.x.dtype.bytes, order),
        x_type=op.x.dtype.c,
        pixels=prod(g.output),
        x_group=g.group_in * channel_step,
        images=images(g),
        steps=output_steps(g, setting.y_layout),
        sum_type=sum_type,
        tap_type=tap_type,
        weight_type=weight_type,
        fraction_bits=op.fraction_bits,
        is_coded=codes is not None,
        x_codes=_spacing_of_x(op),
        w_codes=codes,
        panics=_panics(op, tests) if tests.any else None,
        kernel_taps=prod(g.kernel),
    )
    numbers = {"kind": "staircase", "accumulator": reachable(op), "thresholds": steps}
    certificate = Certificate(reachable(op), False, {"staircase": g.out_channels}, certify(op, steps), numbers=numbers)
    scratch = Scratch(g.taps * tap_bytes, tap_bytes)
    folded = context.copy.operations
    return Prepared(constants, context, (scratch,), certificate, folded=folded, returns_status=tests.any)


def _panics(op: OrionConv, tests: Tests) -> Panics:
    """The bounds that something reachable is beyond: a comparison that is never true would be warned of."""
    codes, reached = tests.codes or (LOWEST, HIGHEST), accumulators(op)
    low, high = tests.accumulators or (int(reached.min()), int(reached.max()))
    return Panics(
        lowest=codes[0] if codes[0] > LOWEST else None,
        highest=codes[1] if codes[1] < HIGHEST else None,
        products=tests.products,
        channel_sums=tests.channel_sums,
        sums=tests.sums,
        lowest_sum=low if int(reached.min()) < low else None,
        highest_sum=high if int(reached.max()) > high else None,
        elements=prod(op.x.shape),
        in_order=tests.in_order,
        limits=tests.products or tests.in_order,
    )


def evenly_spaced(values: Int64s) -> EvenSpacing | None:
    """Values as int8 codes times a unit, None if their range has more than 256 places."""
    unit = max(1, int(np.gcd.reduce(values, axis=None)))
    multiples = values // unit
    low, high = int(multiples.min()), int(multiples.max())
    if high - low > 255:
        return None
    zero_point = 0 if low >= -128 and high <= 127 else -128 - low
    return EvenSpacing(multiples + zero_point, zero_point, unit)


def _spacing_of_x(op: OrionConv) -> EvenSpacing:
    """x_values as a function of the code itself."""
    codes = np.arange(-128, 128, dtype=np.int64)
    unit = int(op.x_values[1] - op.x_values[0])
    zero_point = -128 - int(op.x_values[0]) // unit
    prove(np.array_equal((codes - zero_point) * unit, op.x_values), "all values of x are multiples of one unit")
    return EvenSpacing(codes, zero_point, unit)


def _largest_operand(op: OrionConv) -> int:
    """The largest magnitude of a weight, and of x where its code can be dequantized."""
    low, high = safe_codes(op)
    return int(max(np.abs(op.x_values[low + 128 : high + 129]).max(), np.abs(op.weights).max()))


def _window_order(op: OrionConv, layout: Layout) -> Int64s:
    """The dequantized weights (M, taps) in the order in which a window is copied."""
    weights = op.weights
    if layout is Layout.CHANNELS_LAST:
        weights = weights.transpose(0, *range(2, weights.ndim), 1)
    return weights.reshape(op.geometry.out_channels, op.geometry.taps)


def _meaning(op: OrionConv, layout: Layout, remark: str) -> str:
    kernel = "x".join(str(size) for size in op.geometry.kernel)
    channels = counted(op.geometry.group_in, "input channel")
    window = f"[{kernel} kernel]{channels}" if layout is Layout.CHANNELS_LAST else f"{channels}[{kernel} kernel]"
    return f"weights {counted(op.geometry.out_channels, 'channel')}{window}{remark}."


ORION_CONV = Kernel("portable/orion_conv", OrionConvContext, frozenset(), why_not, prepare)
