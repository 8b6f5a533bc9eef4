"""Sums and products of quantized tensors: the line proved for all pairs, its tables and its loop nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from qcgen import arithmetic
from qcgen.arithmetic import Quantization
from qcgen.cores import BRANCHLESS, CONSTANT_TIME
from qcgen.ir.context import Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Int64s, Operator, QuantizedBinary, Tensor
from qcgen.ir.types import Array
from qcgen.kernels.elements import bounded
from qcgen.kernels.kernel import CommonOutput, Constants, Setting, number
from qcgen.kernels.loop_nest import LoopNest, Placed, constant_order, elementwise, ordered
from qcgen.kernels.text import KINDS
from qcgen.requantize.of_codes import MAX_SHIFT, PairLine, Pairs, clamps, fit_pairs


@dataclass(frozen=True)
class PairFunction:
    """What becomes of two codes, as in ``Elements``; ``code`` is it in C before its bounds, None where it needs none.

    ``operands`` and ``y`` are types of C.
    """

    operands: Mapping[str, str]
    y: str
    tables: tuple[str, ...]
    numbers: Mapping[str, float]
    first: tuple[str, ...]
    inner: tuple[str, ...]
    code: str
    layer: Struct | None
    low: int | None
    high: int | None
    is_branchless: bool

    @property
    def stored(self) -> str:
        """The code of y, in C."""
        # One bound after the other: with both at once gcc takes up to 15 % more instructions on a Cortex-M0.
        code = bounded(self.code, self.low, None, is_branchless=self.is_branchless)
        code = bounded(code, None, self.high, is_branchless=self.is_branchless)
        return f"({self.y})({code})" if code == self.code else f"({self.y}){code}"


def why_no_binary(op: Operator) -> str | None:
    """The operator is not a sum or product of quantized tensors."""
    if not isinstance(op, QuantizedBinary):
        return f"{op.op_type} is not a sum or product of quantized tensors"
    if op.kind == "squared_difference":
        return "squares of differences are computed step by step"
    return "a tensor has 16 bits" if op.is_wide else None


@dataclass(frozen=True)
class Binary:
    """A sum or product of codes: its function with the tables and shared functions that it needs, its loops over y."""

    function: PairFunction
    nest: LoopNest
    constants: tuple[Constants, ...]
    certificate: Certificate
    in_place: tuple[int, ...]


def prepare_binary(op: QuantizedBinary, setting: Setting) -> Binary:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    a_codes, b_codes = reachable_codes(op.a, setting.constants), reachable_codes(op.b, setting.constants)
    free = setting.common if setting.is_free else None
    pairs, line, (clamps_low, clamps_high) = _fitted(_Pairs(op, a_codes, b_codes, free))
    nest, tables = binary_nest(op.a, op.b, op.y, setting)
    in_place = in_place_operands(op.a, op.b, nest, setting)
    numbers_of_line = _line_numbers(op, line)
    function = PairFunction(
        operands={"a": op.a.dtype.c, "b": op.b.dtype.c},
        y=op.y.dtype.c,
        tables=tuple(tables),
        numbers={each.role: each.values.item() for each in numbers_of_line},
        first=_first(line, numbers_of_line),
        inner=_inner(op, line, is_free=free is not None),
        code=_code(op, line),
        layer=_layer(op, line, setting) if len(line.exceptions) else None,
        low=op.bounds[0] if clamps_low or free is not None else None,
        high=op.bounds[1] if clamps_high or free is not None else None,
        is_branchless=BRANCHLESS in setting.features,
    )
    constants = [*tables.values(), *_line_tables(line, op, pairs, a_codes, b_codes)]
    constants += numbers_of_line if free is not None else ()
    numbers = _numbers(line, pairs, a_codes, b_codes)
    certificate = Certificate(None, False, {line.form: 1}, line.comparisons, numbers=numbers)
    return Binary(function, nest, tuple(constants), certificate, in_place)


def _line_numbers(op: QuantizedBinary, line: PairLine) -> tuple[Constants, ...]:
    """The numbers of a line."""
    if line.form == "table":
        return ()
    what = "the product" if op.kind == "mul" else "a code"
    numbers = [
        number("slope", "int32_t", line.slopes[0], f"what {what} is multiplied by, in units of 2^-SHIFT."),
        number("offset", "int32_t", line.offset, "zero points and half a code, in the same unit."),
    ]
    if op.kind != "mul":
        return (*numbers, number("b_slope", "int32_t", line.slopes[-1], "the same for the other code."))
    zeros = {"a_zero_point": op.a.zero_point or 0, "b_zero_point": op.b.zero_point or 0}
    return (*numbers, *(number(name, "int32_t", zero, "the code of 0.") for name, zero in zeros.items()))


def _first(line: PairLine, numbers: Sequence[Constants]) -> tuple[str, ...]:
    """The lines of C that name them."""
    named = [f"{each.role} = {{{each.role}}}" for each in numbers if not each.role.endswith("zero_point")]
    fine = [f"fine_slope = {line.fine_slopes[0]}", f"fine_offset = {line.fine_offset}"] if line.fine_shift else []
    if len(fine) and len(line.slopes) > 1:
        fine.append(f"fine_b_slope = {line.fine_slopes[-1]}")
    return tuple(f"const int32_t {', '.join(each)};" for each in (named, fine) if each)


def _inner(op: QuantizedBinary, line: PairLine, *, is_free: bool) -> tuple[str, ...]:
    """The lines of C that compute the place of {a} and {b} on the line."""
    if line.form == "table":
        return ()
    found, terms = list[str](), ["{a} * {part}slope", "{b} * {part}b_slope"]
    if op.kind == "mul":
        tensors, codes = {"a": op.a, "b": op.b}, {"a": "(int32_t){a}", "b": "{b}"}
        a, b = (
            f"({code} - {{{name}_zero_point}})" if is_free or tensors[name].zero_point else code
            for name, code in codes.items()
        )
        found, terms = [f"const int32_t product = {a} * {b};"], ["product * {part}slope"]
    coarse, fine = (
        " + ".join((f"{part}offset", *(term.replace("{part}", part) for term in terms))) for part in ("", "fine_")
    )
    scaled = f"{coarse} + (({fine}) >> {line.fine_shift})" if line.fine_shift else coarse
    return (*found, f"const int32_t scaled = {_added(scaled, line.window or 0)};")


def _code(op: QuantizedBinary, line: PairLine) -> str:
    """The code there before its bounds, in C."""
    pair = f"({_added('(int32_t){a}', -op.a.dtype.low)}) * 256 + {_added('{b}', -op.b.dtype.low)}"
    if line.form == "table":
        return f"{{codes}}[{pair}]"
    if len(line.exceptions):
        return f"qcgen_pair_code_{KINDS[op.y.dtype]}(&layer, scaled, {pair})"
    if line.window is not None:
        return f"qcgen_even_near_tie(scaled, {line.shift}, {line.window})"
    return f"scaled >> {line.shift}"


def _added(code: str, number: int) -> str:
    return f"{code} + {number}" if number else code


def _layer(op: QuantizedBinary, line: PairLine, setting: Setting) -> Struct:
    """The library's struct of a line with pairs beside it."""
    numbers = {"count": len(line.exceptions), "reach": line.exception_window, "shift": line.shift}
    numbers["window"] = -1 if line.window is None else line.window
    numbers["is_always"] = int(CONSTANT_TIME in setting.features)
    return Struct(f"pair_codes_{KINDS[op.y.dtype]}", ("pairs", "pair_codes"), numbers)


def _numbers(line: PairLine, pairs: Pairs, a_codes: Int64s, b_codes: Int64s) -> dict[str, object]:
    """What the certificate says of the line, by the names of equation (22); a's codes are the outer ones of pairs."""
    own = {name: value for name, value in asdict(line).items() if name != "comparisons"}
    values = pairs.codes if line.form == "table" else pairs.codes[line.exceptions]
    return {"kind": "pairs", "a_codes": a_codes, "b_codes": b_codes, **own, "values": values}


class _Pairs:
    """Which function of which codes: the key of a cache, equal if all numbers are."""

    def __init__(self, op: QuantizedBinary, a_codes: Int64s, b_codes: Int64s, free: CommonOutput | None = None) -> None:
        self.op, self.a_codes, self.b_codes = op, a_codes, b_codes
        self.most_shift, self.form = (MAX_SHIFT, "") if free is None else (free.shift, free.form)
        meanings = ((x.scale, x.zero_point) for x in (op.a, op.b, op.y))
        fitting = (self.most_shift, self.form)
        self._key = (op.kind, op.by, op.y.dtype, *fitting, *meanings, a_codes.tobytes(), b_codes.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pairs) and self._key == other._key


@lru_cache(maxsize=16)
def _fitted(which: _Pairs) -> tuple[Pairs, PairLine, tuple[bool, bool]]:
    """All pairs, their line, and what it clamps: each kernel that is considered for an operator asks for the same."""
    pairs = pairs_of(which.op, which.a_codes, which.b_codes)
    line = fit_pairs(pairs, which.most_shift, which.form)
    return pairs, line, clamps(line, pairs)


def reachable_codes(tensor: Tensor, constants: Mapping[str, Array]) -> Int64s:
    """The codes that an operand can have, ascending: all of its type, or those of a constant."""
    if tensor.name in constants:
        return np.unique(constants[tensor.name]).astype(np.int64)
    return np.arange(tensor.dtype.low, tensor.dtype.high + 1)


def pairs_of(op: QuantizedBinary, a_codes: Int64s, b_codes: Int64s) -> Pairs:
    """The operator at every pair of codes, a's codes outermost."""
    a, b = a_codes[:, None], b_codes[None, :]
    shape = (len(a_codes), len(b_codes))
    a_by, b_by, y_by = (_quantization(tensor) for tensor in (op.a, op.b, op.y))
    codes, bounds = arithmetic.binary(op, a, b).reshape(-1), op.bounds
    if op.kind == "mul":
        scales = (np.asarray(by.scale, np.float32) for by in (a_by, b_by, y_by))
        ratio = arithmetic.multiplier_scale(*scales)
        product = (a - a_by.zero_point) * (b - b_by.zero_point)
        return Pairs(codes, (product.reshape(-1),), (float(ratio),), float(y_by.zero_point), *bounds)
    terms = tuple(np.broadcast_to(term, shape).reshape(-1) for term in (a, b))
    if op.by is None:
        a_ratio, b_ratio, constant = map(float, arithmetic.add_terms(a_by, b_by, y_by))
    else:
        a_ratio, b_ratio = a_by.scale / y_by.scale, (-1 if op.kind == "sub" else 1) * b_by.scale / y_by.scale
        constant = y_by.zero_point - a_ratio * a_by.zero_point - b_ratio * b_by.zero_point
    return Pairs(codes, terms, (a_ratio, b_ratio), constant, *bounds)


def _quantization(tensor: Tensor) -> Quantization:
    assert tensor.scale is not None, "the tensor is quantized"
    return Quantization(tensor.scale, tensor.zero_point or 0)


def binary_nest(a: Tensor, b: Tensor, y: Tensor, setting: Setting) -> tuple[LoopNest, dict[str, Constants]]:
    """The loops over y, and the tables of the operands that are constants, by their name in C."""
    return operands_nest({"a": a, "b": b}, y, setting)


def operands_nest(operands: Mapping[str, Tensor], y: Tensor, setting: Setting) -> tuple[LoopNest, dict[str, Constants]]:
    """The same for operands by their names in C."""
    placed: dict[str, Placed] = {}
    tables: dict[str, Constants] = {}
    for (name, tensor), order in zip(operands.items(), setting.xs, strict=True):
        values = setting.constants.get(tensor.name)
        if values is None:
            placed[name] = Placed(tensor.shape, order)
            continue
        rank = len(y.shape)
        placed[name] = Placed(tensor.shape, constant_order(values.ndim, setting.y, rank))
        table = ordered(values, setting.y, rank)
        tables[name] = Constants(name, tensor.dtype.c, table, f"the operand {tensor.name}, a constant.")
    return elementwise(placed, Placed(y.shape, setting.y)), tables


def in_place_operands(a: Tensor, b: Tensor, nest: LoopNest, setting: Setting) -> tuple[int, ...]:
    """The operands that y may overwrite: read element by element in the places where y is written."""
    return tuple(
        number
        for number, (name, tensor) in enumerate((("a", a), ("b", b)))
        if name in nest.same_places and tensor.name not in setting.constants
    )


def _line_tables(
    line: PairLine, op: QuantizedBinary, pairs: Pairs, a_codes: Int64s, b_codes: Int64s
) -> list[Constants]:
    """The tables of the forms that are not pure lines; pairs are numbered 256 * (a - lowest a) + b - lowest b."""
    keys = ((a_codes - op.a.dtype.low)[:, None] * 256 + (b_codes - op.b.dtype.low)[None, :]).reshape(-1)
    if line.form == "table":
        codes = np.zeros(65536, np.int64)
        codes[keys] = pairs.codes
        return [Constants("codes", op.y.dtype.c, codes.reshape(256, 256), "the output's code for every pair of codes.")]
    if not len(line.exceptions):
        return []
    order = f"256 * (a + {-op.a.dtype.low}) + b + {-op.b.dtype.low}"
    return [
        Constants(
            "pairs", "uint16_t", keys[line.exceptions], f"pairs of codes beside the line, as {order}, ascending."
        ),
        Constants("pair_codes", op.y.dtype.c, pairs.codes[line.exceptions], "the output's codes for these pairs."),
    ]
