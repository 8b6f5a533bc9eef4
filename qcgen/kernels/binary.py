"""Sums and products of quantized tensors: the line proved for all pairs, its tables and its loop nest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from qcgen import arithmetic
from qcgen.arithmetic import Quantization
from qcgen.cores import BRANCHLESS, CONSTANT_TIME
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import BinaryKind, Int64s, Operator, QuantizedBinary, Tensor
from qcgen.ir.types import Array
from qcgen.kernels.kernel import CommonOutput, Constants, Setting, number
from qcgen.kernels.loop_nest import LoopNest, Placed, constant_order, elementwise, ordered
from qcgen.requantize.of_codes import MAX_SHIFT, PairLine, Pairs, clamps, fit_pairs


@dataclass(frozen=True)
class PairFunction(Context):
    """The function of two codes (templates/kernels/portable/pair_line.c.jinja), and where the operands are."""

    kind: BinaryKind  # of the function: a difference is a sum with a negative slope
    types: Mapping[str, str]  # of C, by "a", "b", "y"
    given: tuple[str, ...]  # operands that are parameters: "a", "b"
    constant: tuple[str, ...]  # operands that are tables
    is_in_place: bool  # y may lie over an operand
    line: PairLine
    a_first: int  # what is added to a code of a for its place in tables of pairs
    b_first: int  # the same for b
    a_zero_point: int  # of a's codes
    b_zero_point: int  # of b's codes
    slope: int  # of the line: by a's codes, or by products
    b_slope: int  # the same by b's codes
    offset: int  # of the line
    low: int  # the lowest code of y
    high: int  # the highest code of y
    clamps_low: bool  # some sum is below the lowest code
    clamps_high: bool  # some sum is above the highest code
    fraction_mask: int  # the bits of a scaled sum below its code
    exceptions: int  # pairs beside the line
    is_float: bool  # what rounds to even next to a tie is float32
    is_constant: bool  # exceptions are looked for at every pair, near a tie or not
    is_branchless: bool  # the code's bounds are computed, not chosen


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
    function = PairFunction(
        kind="mul" if op.kind == "mul" else "add",
        types={"a": op.a.dtype.c, "b": op.b.dtype.c, "y": op.y.dtype.c},
        given=tuple(name for name in ("a", "b") if name not in tables),
        constant=tuple(sorted(tables)),
        is_in_place=bool(in_place),
        line=line,
        a_first=-op.a.dtype.low,
        b_first=-op.b.dtype.low,
        a_zero_point=op.a.zero_point or 0,
        b_zero_point=op.b.zero_point or 0,
        slope=line.slopes[0] if line.slopes else 0,
        b_slope=line.slopes[-1] if line.slopes else 0,
        offset=line.offset,
        low=op.bounds[0],
        high=op.bounds[1],
        clamps_low=clamps_low or free is not None,
        clamps_high=clamps_high or free is not None,
        fraction_mask=(1 << line.shift) - 1,
        exceptions=len(line.exceptions),
        is_float=op.by is None,
        is_constant=CONSTANT_TIME in setting.features,
        is_branchless=BRANCHLESS in setting.features,
    )
    constants = [*tables.values(), *_line_tables(line, op, pairs, a_codes, b_codes)]
    constants += _free_numbers(function) if free is not None and line.form != "table" else ()
    numbers = _numbers(line, pairs, a_codes, b_codes)
    certificate = Certificate(None, False, {line.form: 1}, line.comparisons, numbers=numbers)
    return Binary(function, nest, tuple(constants), certificate, in_place)


def _free_numbers(function: PairFunction) -> tuple[Constants, ...]:
    """The numbers of a line."""
    what = "a code" if function.kind == "add" else "the product"
    numbers = [
        number("slope", "int32_t", function.slope, f"what {what} is multiplied by, in units of 2^-SHIFT."),
        number("offset", "int32_t", function.offset, "zero points and half a code, in the same unit."),
    ]
    if function.kind == "add":
        return (*numbers, number("b_slope", "int32_t", function.b_slope, "the same for the other code."))
    zeros = {"a_zero_point": function.a_zero_point, "b_zero_point": function.b_zero_point}
    return (*numbers, *(number(name, "int32_t", zero, "the code of 0.") for name, zero in zeros.items()))


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
