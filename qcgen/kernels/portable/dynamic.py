"""portable/extremes, dynamic_parameter and dynamic_quantize: scale and zero point are found when the C runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import DynamicParameter, DynamicQuantize, Extremes, Operator
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, Placed, elementwise


@dataclass(frozen=True)
class ExtremesContext(Context):
    """The smallest and the largest number."""

    template: ClassVar[str] = "kernels/portable/extremes.c.jinja"

    count: int  # elements of x


@dataclass(frozen=True)
class DynamicParameterContext(Context):
    """A scale or a zero point of these."""

    template: ClassVar[str] = "kernels/portable/dynamic_parameter.c.jinja"

    is_scale: bool  # else it is the zero point


@dataclass(frozen=True)
class DynamicQuantizeContext(Context):
    """From float32 to codes."""

    template: ClassVar[str] = "kernels/portable/dynamic_quantize.c.jinja"

    nest: LoopNest  # the loops over the elements of y


def why_not_extremes(op: Operator, _setting: Setting) -> str | None:
    """Serves all."""
    return None if isinstance(op, Extremes) else f"{op.op_type} does not find the smallest and the largest number"


def why_not_parameter(op: Operator, _setting: Setting) -> str | None:
    """Serves all."""
    return None if isinstance(op, DynamicParameter) else f"{op.op_type} does not compute a scale or a zero point"


def why_not_quantize(op: Operator, _setting: Setting) -> str | None:
    """Serves every quantization of this kind."""
    return None if isinstance(op, DynamicQuantize) else f"{op.op_type} does not quantize by a computed scale"


def prepare_extremes(op: Operator, _setting: Setting) -> Prepared:
    """Every number once, in the order of the memory."""
    assert isinstance(op, Extremes)
    return Prepared((), ExtremesContext(op.x.size), (), (), Certificate())


def prepare_parameter(op: Operator, _setting: Setting) -> Prepared:
    """A few operations in float32."""
    assert isinstance(op, DynamicParameter)
    is_scale = op.kind == "scale"
    headers = () if is_scale else ("math.h",)
    return Prepared((), DynamicParameterContext(is_scale), (), (), Certificate(), headers=headers)


def prepare_quantize(op: Operator, setting: Setting) -> Prepared:
    """A division per element; y cannot lie over x, whose elements are larger."""
    assert isinstance(op, DynamicQuantize)
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    return Prepared((), DynamicQuantizeContext(nest), (), (), Certificate(), headers=("math.h",))


EXTREMES = Kernel("portable/extremes", ExtremesContext, frozenset(), why_not_extremes, prepare_extremes)
DYNAMIC_PARAMETER = Kernel(
    "portable/dynamic_parameter", DynamicParameterContext, frozenset(), why_not_parameter, prepare_parameter
)
DYNAMIC_QUANTIZE = Kernel(
    "portable/dynamic_quantize", DynamicQuantizeContext, frozenset(), why_not_quantize, prepare_quantize
)
