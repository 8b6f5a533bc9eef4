"""portable/extremes, dynamic_parameter, dynamic_quantize, zero_point_correction: quantization found at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.errors import prove
from qcgen.ir.access import AccessOrder
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import DynamicParameter, DynamicQuantize, Extremes, Operator, ZeroPointCorrection
from qcgen.kernels.kernel import Constants, Kernel, Order, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, Stride, nest_of, ordered, strides
from qcgen.kernels.text import LibraryCall, library_call


@dataclass(frozen=True)
class ZeroPointCorrectionContext(Context):
    """What a computed zero point adds to sums, taken from them."""

    template: ClassVar[str] = "kernels/portable/zero_point_correction.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    is_in_place: bool  # y may lie over x
    wraps: bool  # modulo 2^32


def why_not_extremes(op: Operator, _setting: Setting) -> str | None:
    """Serves all."""
    return None if isinstance(op, Extremes) else f"{op.op_type} does not find the smallest and the largest number"


def why_not_parameter(op: Operator, _setting: Setting) -> str | None:
    """Serves all."""
    return None if isinstance(op, DynamicParameter) else f"{op.op_type} does not compute a scale or a zero point"


def why_not_quantize(op: Operator, _setting: Setting) -> str | None:
    """Serves every quantization of this kind."""
    return None if isinstance(op, DynamicQuantize) else f"{op.op_type} does not quantize by a computed scale"


def prepare_extremes(op: Operator, setting: Setting) -> Prepared:
    """Every number once, in the order of the memory; rows that come one by one extend what was found."""
    assert isinstance(op, Extremes)
    what = "y[0] is the smallest number of x, y[1] the largest; 0 counts as one of them, NaN does not."
    if setting.in_rows:
        what = "y[0] is the smallest number of x, y[1] the largest; the numbers in y count, NaN does not."
    function = "extend_range" if setting.in_rows else "find_range"
    context = library_call(op, what, "const float *restrict x, float *restrict y", function, "x", op.x.size, "y")
    return Prepared((), context, (), Certificate())


def prepare_parameter(op: Operator, _setting: Setting) -> Prepared:
    """A few operations in float32."""
    assert isinstance(op, DynamicParameter)
    what = f"The {op.kind} of codes from 0 to 255 for numbers from x[0] to x[1]."
    parameters = f"const float *restrict x, {op.y.dtype.c} *restrict y"
    return Prepared(
        (), library_call(op, what, parameters, f"{op.kind.replace(' ', '_')}_of_range", "x", "y"), (), Certificate()
    )


def prepare_quantize(op: Operator, setting: Setting) -> Prepared:
    """A division per element; codes may lie over the numbers that have been read, which are four times as large."""
    assert isinstance(op, DynamicQuantize)
    prove(setting.xs[0] == setting.y, "codes lie in the order of their numbers")
    parameters = "const float *x, const float *scale, const uint8_t *zero_point, uint8_t *y"
    arguments = ("x", op.x.size, "scale", "zero_point", "y")
    context = library_call(op, "Codes of a computed scale and zero point.", parameters, "quantize_dynamic", *arguments)
    places = np.arange(op.y.size)
    return Prepared((), context, (), Certificate(), access=AccessOrder(4 * places, places + 1, gathers=True))


def why_not_correction(op: Operator, _setting: Setting) -> str | None:
    """Serves every correction of this kind."""
    return None if isinstance(op, ZeroPointCorrection) else f"{op.op_type} has no zero point that is computed"


def prepare_correction(op: Operator, setting: Setting) -> Prepared:
    """A product and a difference an element; the sums of weights are a table, one for each kind of window."""
    assert isinstance(op, ZeroPointCorrection)
    in_sums, tables = sums_of_weights(op, setting.y)
    steps = {"x": strides(op.x.shape, setting.xs[0]), "sums": in_sums, "y": strides(op.y.shape, setting.y)}
    nest = nest_of(op.y.shape, steps)
    in_place = (0,) if "x" in nest.same_places else ()
    context = ZeroPointCorrectionContext(nest, bool(in_place), wraps(op))
    return Prepared(tables, context, (), corrected_sums(op), in_place)


def wraps(op: ZeroPointCorrection) -> bool:
    """Whether sums are taken modulo 2^32."""
    return op.bound >= 2**31


def corrected_sums(op: ZeroPointCorrection) -> Certificate:
    """What is proved of the sums."""
    return Certificate(None if wraps(op) else (-op.bound, op.bound), wraps(op))


def sums_of_weights(op: ZeroPointCorrection, order: Order) -> tuple[tuple[Stride, ...], tuple[Constants, ...]]:
    """The steps on each axis of an output in ``order`` through the table ``sums``; that table, and those of windows."""
    in_table = strides(op.sums.shape, order)
    tables = [Constants("sums", "int32_t", ordered(op.sums, order, op.sums.ndim), "sums of the weights of a window.")]
    steps: list[Stride] = []
    for axis, places in enumerate(op.places):
        step: Stride = 0
        if len(places) > 1 and places == tuple(range(len(places))):
            step = in_table[axis]
        elif any(places):
            step, distances = f"window{axis}", np.asarray(places) * in_table[axis]
            c_type = "uint16_t" if distances.max() < 2**16 else "int32_t"
            tables.append(Constants(step, c_type, distances, f"the distance in sums of each position on axis {axis}."))
        steps.append(step)
    return tuple(steps), tuple(tables)


EXTREMES = Kernel("portable/extremes", LibraryCall, frozenset(), why_not_extremes, prepare_extremes)
DYNAMIC_PARAMETER = Kernel("portable/dynamic_parameter", LibraryCall, frozenset(), why_not_parameter, prepare_parameter)
DYNAMIC_QUANTIZE = Kernel("portable/dynamic_quantize", LibraryCall, frozenset(), why_not_quantize, prepare_quantize)
ZERO_POINT_CORRECTION = Kernel(
    "portable/zero_point_correction", ZeroPointCorrectionContext, frozenset(), why_not_correction, prepare_correction
)
