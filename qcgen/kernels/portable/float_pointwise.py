"""portable/float_unary, float_binary, float_output: float32 numbers element by element, by functions of the library.

float_output makes floats of integer sums in one loop, without a tensor between its operations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
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
    LoopNest,
    Placed,
    Stride,
    Term,
    broadcast_strides,
    constant_order,
    elementwise,
    nest_of,
    ordered,
    strides,
)
from qcgen.kernels.portable.convert import corrected_sums, sums_of_weights, wraps

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
class Held:
    """A pointer in C to elements of this type."""

    name: str
    c_type: str


@dataclass(frozen=True)
class Single:
    """An operand of one element, which is read before the loops."""

    name: str  # of the number
    c_type: str
    operand: str  # the parameter or the role of the table
    is_table: bool


@dataclass(frozen=True)
class FloatStep:
    """An operation on the number so far and on an operand."""

    sign: str
    operand: str  # the name of its number, or of its pointer
    is_single: bool  # it has one element
    is_first: bool  # it stands before the sign
    is_rounded: bool  # what comes of it must not become a part of the next operation


@dataclass(frozen=True)
class FloatOutputContext(Context):
    """What becomes of sums."""

    template: ClassVar[str] = "kernels/portable/float_output.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    nodes: tuple[str, ...]  # those that are computed
    types: Mapping[str, str]  # of C, behind the pointers of the loops
    given: tuple[Held, ...]  # operands that are parameters
    constant: tuple[Held, ...]  # tables that the loops go through
    single: tuple[Single, ...]  # operands of one element
    is_corrected: bool  # a zero point is subtracted
    wraps: bool  # modulo 2^32
    steps: tuple[FloatStep, ...]  # behind the Cast
    activation: NumberFunction
    is_in_place: bool  # y may lie over x
    layer: Struct | None  # for the library's function, where its loops are those of this layer


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


def why_not_float_output(op: Operator, _setting: Setting) -> str | None:
    """Serves every output step that the planner has made."""
    return None if isinstance(op, FloatOutput) else f"{op.op_type} does not make floats of sums"


def prepare_float_output(op: Operator, setting: Setting) -> Prepared:
    """One pass; y may lie over x. Constants become tables in the order of y."""
    assert isinstance(op, FloatOutput)
    operands, tables = _operands(op, setting)
    passing: dict[str, Sequence[Stride]] = {"x": strides(op.x.shape, setting.xs[0])}
    types = {"x": "const int32_t", "y": "float"}
    first, last = op.steps[0], op.steps[-1]
    certificate = Certificate()
    if isinstance(first, ZeroPointCorrection):
        passing["sums"], of_weights = sums_of_weights(first, setting.y)
        tables += of_weights
        types["sums"] = "const int32_t"
        certificate = corrected_sums(first)
    passing |= {each.name: each.steps for each in operands if not each.is_single}
    types |= {each.name: "const float" for each in operands if not each.is_single}
    nest = nest_of(op.y.shape, {**passing, "y": strides(op.y.shape, setting.y)})
    roles = {table.role for table in tables}
    in_place = (0,) if "x" in nest.same_places else ()
    steps, function = _steps(op, operands), NumberFunction()
    if isinstance(last, FloatUnary):
        function = number_function(last.activation)
    layer, tables = _layer(nest, steps, function, certificate, tables)
    context = FloatOutputContext(
        nest=nest,
        nodes=(*op.joined, op.name),
        types=types,
        given=tuple(Held(each.name, each.tensor.dtype.c) for each in operands if each.name not in roles),
        constant=tuple(Held(name, types[name].removeprefix("const ")) for name in types if name in roles),
        single=tuple(
            Single(each.number, "int32_t" if each.name == "zero_point" else "float", each.name, each.name in roles)
            for each in operands
            if each.is_single
        ),
        is_corrected=isinstance(first, ZeroPointCorrection),
        wraps=isinstance(first, ZeroPointCorrection) and wraps(first),
        steps=steps,
        activation=function,
        is_in_place=bool(in_place),
        layer=layer,
    )
    return Prepared(tuple(tables), context, (), certificate, in_place)


_BOUNDS = {"": (), "float_at_least": ("low",), "float_clip": ("low", "high")}
"""What functions of numbers are given that only bound them."""


def _layer(
    nest: LoopNest,
    steps: Sequence[FloatStep],
    function: NumberFunction,
    certificate: Certificate,
    tables: Sequence[Constants],
) -> tuple[Struct | None, list[Constants]]:
    """The library's struct of a layer whose sums are scaled by one number, then get an addend for each channel.

    With the tables as it calls them: those of windows are of rows and of columns.
    """
    terms = {run.tensor: run.terms for run in nest.runs}
    windows = {term.variable: term.table for term in terms.get("sums", ())}
    axes = zip(reversed(nest.outer), ("columns", "rows"), strict=False)
    called = {windows[loop.variable]: name for loop, name in axes if loop.variable in windows}
    roles = [called.get(table.role, table.role) for table in tables]
    is_one_by_one = all(element.term == Term("i", "", "") for element in nest.elements.values())
    if (
        [(step.sign, step.is_single) for step in steps] != [("*", True), ("+", False)]
        or {"sums", "addend", *called.values()} != set(roles)
        or any(table.c_type == "int32_t" and table.role != "sums" for table in tables)
        or not is_one_by_one
        or terms.get("addend")
        or len(nest.outer) > 2
        or certificate.wraps
        or function.function not in _BOUNDS
    ):
        return None, list(tables)
    counts = [loop.numbers[0].value for loop in nest.outer]
    height, width = [*(1,) * (2 - len(counts)), *counts]
    sizes = {"height": height, "width": width, "channels": nest.count, "bounds": len(function.params)}
    floats = dict(zip(_BOUNDS[function.function], function.params, strict=True))
    renamed = [replace(table, role=role) for table, role in zip(tables, roles, strict=True)]
    return Struct("floats_of_sums", tuple(roles), sizes, floats=floats), renamed


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


def _steps(op: FloatOutput, operands: Sequence[_Operand]) -> tuple[FloatStep, ...]:
    """The operations with operands, in their order."""
    by_name = iter(each for each in operands if each.name != "zero_point")
    found = []
    for before, step in zip(op.steps, op.steps[1:], strict=False):
        if isinstance(step, FloatBinary):
            operand = next(by_name)
            name = operand.number if operand.is_single else operand.name
            is_first = step.b.name == before.y.name
            found.append(FloatStep(_SIGNS[step.kind], name, operand.is_single, is_first, step.kind == "mul"))
    return tuple(found)


FLOAT_OUTPUT = Kernel(
    "portable/float_output", FloatOutputContext, frozenset(), why_not_float_output, prepare_float_output
)
