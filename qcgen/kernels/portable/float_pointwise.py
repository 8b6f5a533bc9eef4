"""portable/float_unary, float_binary, float_output: float32 numbers element by element, by functions of the library.

float_output makes floats of integer sums in one loop, without a tensor between its operations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qcgen.ir.plan import Certificate
from qcgen.ir.program import (
    FloatActivation,
    FloatBinary,
    FloatOutput,
    FloatUnary,
    Operator,
    Tensor,
    ZeroPointCorrection,
)
from qcgen.ir.types import DType
from qcgen.kernels.binary import binary_nest, in_place_operands
from qcgen.kernels.elements import Elements, elements
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import (
    Placed,
    Stride,
    broadcast_strides,
    constant_order,
    elementwise,
    nest_of,
    ordered,
    strides,
)
from qcgen.kernels.portable.convert import corrected_sums, sums_of_weights

_STANDARD = {
    "Abs": "fabsf",
    "Ceil": "ceilf",
    "Cos": "cosf",
    "Floor": "floorf",
    "Log": "logf",
    "Pow": "powf",
    "Round": "rintf",
    "Sin": "sinf",
    "Sqrt": "sqrtf",
}
"""What <math.h> calls them."""

_FUSED = {"Erf": "fused_erf", "Exp": "fused_exponential", "Sigmoid": "fused_logistic", "Tanh": "fused_tangent"}
"""Those of the library that are not called as onnxruntime spells them."""

_PRODUCTS = {2.0: "float_square", 3.0: "float_cube"}
"""Powers that are computed as products, by their exponents."""


@dataclass(frozen=True)
class NumberFunction:
    """A function of a number and of ``params`` in C, of the library or standard; "": the number itself."""

    function: str = ""
    params: tuple[float, ...] = ()
    is_standard: bool = False

    def of(self, number: str, cast: str = "") -> str:
        """The function of a number in C, where ``numbers`` are blanks; ``cast`` stands before them."""
        name = self.function if self.is_standard else f"qcgen_{self.function}"
        return (
            f"{name}({', '.join([number, *(f'{cast}{{{each}}}' for each in self.numbers)])})"
            if self.function
            else number
        )

    @property
    def numbers(self) -> dict[str, float]:
        """The parameters by the names of their blanks."""
        return {f"parameter_{index}": float(value) for index, value in enumerate(self.params)}


def number_function(activation: FloatActivation, dtype: DType = DType.FLOAT32) -> NumberFunction:
    """What computes an activation; nothing where it is a Clip without bounds."""
    kind, params = activation.kind, activation.params
    if kind in ("Relu", "Clip"):
        low, high = params or (0.0, np.inf)
        return _clip(low, high, dtype.c)
    if kind == "Pow" and params[0] in _PRODUCTS:
        return NumberFunction(_PRODUCTS[params[0]])
    if not kind or kind in _STANDARD:
        return NumberFunction(_STANDARD.get(kind, ""), params, is_standard=True)
    name = "_".join(re.findall("[A-Z][a-z]*", kind)).lower()
    return NumberFunction(_FUSED.get(kind, f"float_{name}"), params)


def _clip(low: float, high: float, number: str) -> NumberFunction:
    """Infinite bounds count where every output is infinite.

    A maximum below the minimum wins, as in onnxruntime: min(max(x, low), high).
    """
    low = min(low, high)
    if high == np.inf:
        return NumberFunction() if low == -np.inf else NumberFunction(f"{number}_at_least", (low,))
    if low == -np.inf:
        return NumberFunction(f"{number}_at_most", (high,))
    return NumberFunction(f"{number}_clip", (low, high))


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_FUNCTIONS = {"max": "float_larger", "min": "float_smaller", "pow": "float_power", "prelu": "float_prelu"}


def why_not_unary(op: Operator, _setting: Setting) -> str | None:
    """Serves every activation of float32 numbers."""
    return None if isinstance(op, FloatUnary) else f"{op.op_type} is not a function of one float32 number"


def why_not_binary(op: Operator, _setting: Setting) -> str | None:
    """Serves every operation on two float32 numbers."""
    return None if isinstance(op, FloatBinary) else f"{op.op_type} is not a function of two float32 numbers"


def prepare_unary(op: Operator, setting: Setting) -> Prepared:
    """The activation of convolutions; y may lie over x."""
    assert isinstance(op, FloatUnary)
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    in_place = (0,) if "x" in nest.same_places else ()
    function, number = number_function(op.activation, op.x.dtype), op.x.dtype.c
    stored = function.of("{x}", "(double)" if op.x.dtype is DType.FLOAT64 else "")
    types = {"x": number, "y": number}
    context = elements(op, nest, types, stored, in_place=in_place, numbers=function.numbers)
    return Prepared((), context, (), Certificate(), in_place)


def prepare_binary(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    assert isinstance(op, FloatBinary)
    nest, tables = binary_nest(op.a, op.b, op.y, setting)
    in_place = in_place_operands(op.a, op.b, nest, setting)
    sign = _SIGNS.get(op.kind)
    stored = f"{{a}} {sign} {{b}}" if sign else f"qcgen_{_FUNCTIONS[op.kind]}({{a}}, {{b}})"
    apart = ". Not inlined, so that no compiler makes one rounding of this and of a sum behind it."
    context = elements(
        op,
        nest,
        dict.fromkeys(("a", "b", "y"), "float"),
        stored,
        what=apart if sign == "*" else "",
        tables=tables,
        in_place=in_place,
        is_apart=sign == "*",
    )
    return Prepared(tuple(tables.values()), context, (), Certificate(), in_place)


FLOAT_UNARY = Kernel("portable/float_unary", Elements, frozenset(), why_not_unary, prepare_unary)
FLOAT_BINARY = Kernel("portable/float_binary", Elements, frozenset(), why_not_binary, prepare_binary)


@dataclass(frozen=True)
class _Operand:
    """What a step reads besides: its name in C, and its steps in memory on the axes of y."""

    name: str
    tensor: Tensor
    steps: tuple[Stride, ...]

    @property
    def is_single(self) -> bool:
        """Whether one element serves all."""
        return self.tensor.size == 1

    @property
    def number(self) -> str:
        """The name of the only element."""
        return "zero" if self.name == "zero_point" else f"{self.name}_0"

    def read(self, *, is_table: bool) -> str:
        """The line of C that reads it."""
        c_type = "int32_t" if self.name == "zero_point" else "float"
        return f"const {c_type} {self.number} = {f'{{{self.name}}}' if is_table else self.name}[0];"


def why_not_float_output(op: Operator, _setting: Setting) -> str | None:
    """Serves every output step that the planner has made."""
    return None if isinstance(op, FloatOutput) else f"{op.op_type} does not make floats of sums"


def prepare_float_output(op: Operator, setting: Setting) -> Prepared:
    """One pass; y may lie over x. Constants become tables in the order of y."""
    assert isinstance(op, FloatOutput)
    operands, tables = _operands(op, setting)
    passing: dict[str, Sequence[Stride]] = {"x": strides(op.x.shape, setting.xs[0])}
    first, last = op.steps[0], op.steps[-1]
    certificate, number, corrected = Certificate(), "{x}", ""
    if isinstance(first, ZeroPointCorrection):
        passing["sums"], of_weights = sums_of_weights(first, setting.y)
        tables += of_weights
        certificate, number = corrected_sums(first), "{x} - zero * {sums}"
        corrected = " What the zero point has added to a sum, once for each weight that met a code, is subtracted"
        if certificate.wraps:
            number = "(int32_t)((uint32_t){x} - (uint32_t)zero * (uint32_t){sums})"
            corrected += " modulo 2^32"
        corrected += "."
    passing |= {each.name: each.steps for each in operands if not each.is_single}
    nest = nest_of(op.y.shape, {**passing, "y": strides(op.y.shape, setting.y)})
    roles = {table.role for table in tables}
    read = {each.name: each.tensor.dtype.c for each in operands if not (each.is_single and each.name in roles)}
    types = {"x": "int32_t", **read, **({"sums": "int32_t"} if corrected else {}), "y": "float"}
    in_place = (0,) if "x" in nest.same_places else ()
    function = number_function(last.activation) if isinstance(last, FloatUnary) else NumberFunction()
    context = elements(
        op,
        nest,
        types,
        function.of(_stepped(op, operands)),
        tables=[name for name in types if name in roles],
        in_place=in_place,
        is_apart=True,
        numbers=function.numbers,
        inner=[f"const int32_t sum = {number};"],
        first=[each.read(is_table=each.name in roles) for each in operands if each.is_single],
    )
    what = f"what becomes of sums in float32, each operation rounded by itself.{corrected}"
    context = replace(context, comment=f"{', '.join((*op.joined, op.name))}: {what}")
    return Prepared(tuple(tables), context, (), certificate, in_place)


NAMES = {"add": "addend", "mul": "factor"}
"""What an operand is called in C, by the kind of its operation."""


def _operands(op: FloatOutput, setting: Setting) -> tuple[list[_Operand], list[Constants]]:
    """The operands of the steps, in their order, and the tables of those that are constants."""
    read = [step for step in op.steps if isinstance(step, ZeroPointCorrection | FloatBinary)]
    found: list[_Operand] = []
    tables: list[Constants] = []
    seen: Counter[str] = Counter()
    for step, tensor, order in zip(read, op.operands, setting.xs[1:], strict=True):
        base = NAMES.get(step.kind, "operand") if isinstance(step, FloatBinary) else "zero_point"
        seen[base] += 1
        name = base if seen[base] == 1 else f"{base}_{seen[base]}"
        values = setting.constants.get(tensor.name)
        if values is not None:
            order = constant_order(values.ndim, setting.y, len(op.y.shape))
            tables.append(
                Constants(
                    name,
                    tensor.dtype.c,
                    ordered(values, setting.y, len(op.y.shape)),
                    f"the operand {tensor.name}, a constant.",
                )
            )
        found.append(_Operand(name, tensor, broadcast_strides(tensor.shape, order, op.y.shape)))
    return found, tables


def _stepped(op: FloatOutput, operands: Sequence[_Operand]) -> str:
    """The operations with operands, in their order, on the sum in C."""
    by_name = iter(each for each in operands if each.name != "zero_point")
    number, is_rounded = "(float)sum", True
    for before, step in zip(op.steps, op.steps[1:], strict=False):
        if isinstance(step, FloatBinary):
            operand, sign = next(by_name), _SIGNS[step.kind]
            other = operand.number if operand.is_single else f"{{{operand.name}}}"
            number = number if is_rounded else f"({number})"
            number = f"{other} {sign} {number}" if step.b.name == before.y.name else f"{number} {sign} {other}"
            is_rounded = sign == "*"
            if is_rounded:
                number = f"qcgen_rounded({number})"  # it must not become a part of the next operation
    return number


FLOAT_OUTPUT = Kernel("portable/float_output", Elements, frozenset(), why_not_float_output, prepare_float_output)
