"""Operators besides convolutions, several elements in an instruction.

arm_dsp/matmul: products of two computed matrices; arm_dsp/integer_lstm: LSTM by the integers of TensorFlow Lite;
arm_dsp/quantized_binary: sums and products of quantized tensors; arm_dsp/global_average_pool: means of four channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import GlobalAveragePool, Int64s, IntegerLstm, MatMul, Operator, QuantizedBinary, RoundOnce
from qcgen.kernels.binary import binary_nest, prepare_binary, why_no_binary
from qcgen.kernels.integer_lstm import prepare_lstm, why_no_integer_lstm
from qcgen.kernels.kernel import Kernel, Prepared, Scratch, Setting
from qcgen.kernels.pooling import ROW_BY_ROW, MeansContext, are_lanes, prepare_means, why_no_mean
from qcgen.kernels.products import CodeProduct, prepare_product, tile_operations, why_no_packed_product
from qcgen.kernels.reasons import CHANNELS_APART
from qcgen.kernels.text import KINDS, LibraryCall


@dataclass(frozen=True)
class MatMulContext(Context):
    """A product of two computed matrices: columns of b are widened to pairs in the arena, rows of a when read."""

    template: ClassVar[str] = "kernels/arm_dsp/matmul.c.jinja"

    product: CodeProduct


def why_not_matmul(op: Operator, setting: Setting) -> str | None:
    """Serves rows of a whose terms lie side by side."""
    return why_no_packed_product(op, setting)


def prepare_matmul(op: Operator, setting: Setting) -> Prepared:
    """Scratch for the pairs of a tile's columns."""
    assert isinstance(op, MatMul)
    product, constants, certificate = prepare_product(op, setting)
    scratch = Scratch(2 * (op.terms - op.terms % 4) * min(op.b.shape[-1], 2), 4)
    folded = {
        "dsp_matrix_product": 50.0,
        "dsp_matrix_rows_of": 1.2 * tile_operations(op) + (24.0 if op.terms % 4 else 0.0),
    }
    return Prepared(constants, MatMulContext(product), (scratch,), certificate, folded=folded)


MATMUL = Kernel("arm_dsp/matmul", MatMulContext, frozenset({"dsp"}), why_not_matmul, prepare_matmul)


def why_not_integer_lstm(op: Operator, _setting: Setting) -> str | None:
    """Serves every one."""
    return why_no_integer_lstm(op)


def prepare_integer_lstm(op: Operator, _setting: Setting) -> Prepared:
    """Weights in words: for each unit, for four terms, a word of each gate."""
    assert isinstance(op, IntegerLstm)
    return prepare_lstm(op, "integer_lstm_by_words", "words", _in_words)


def _in_words(weights: Int64s) -> tuple[str, Int64s, str]:
    units, terms, gates = weights.shape
    padded = np.pad(weights, ((0, 0), (0, -terms % 4), (0, 0))).reshape(units, -1, 4, gates)
    words = ((padded & 255) << (8 * np.arange(4)).reshape(4, 1)).sum(axis=2)
    signed = np.where(words >= 2**31, words - 2**32, words)
    return "int32_t", signed.reshape(units, -1), "of four terms a word for each of the four gates"


INTEGER_LSTM = Kernel(
    "arm_dsp/integer_lstm", LibraryCall, frozenset({"dsp"}), why_not_integer_lstm, prepare_integer_lstm
)


@dataclass(frozen=True)
class QuantizedBinaryContext(Context):
    """A sum or product of codes, four elements in a round of the loop."""

    template: ClassVar[str] = "kernels/arm_dsp/quantized_binary.c.jinja"

    types: Mapping[str, str]  # of C, by "a", "b", "y"
    given: tuple[str, ...]  # operands that are parameters: "a", "b"
    constant: tuple[str, ...]  # operands that are tables
    is_in_place: bool  # y may lie over an operand
    numbers: Mapping[str, float]  # what blanks in the function of two codes stand for
    first: tuple[str, ...]  # lines before it
    inner: tuple[str, ...]  # lines in it
    layer: Struct | None  # of the library, if there are pairs beside the line of all others
    stored: str  # their code, in C
    fours: int  # rounds of the loop
    rest: range  # elements behind it


def why_not_quantized_binary(op: Operator, setting: Setting) -> str | None:
    """Serves operands that neither are broadcast nor lie in another order than the output."""
    reason = why_no_binary(op)
    if reason is not None:
        return reason
    assert isinstance(op, QuantizedBinary)
    nest, _ = binary_nest(op.a, op.b, op.y, setting)
    if nest.outer or not nest.contiguous:
        return "an operand is broadcast or lies in another order"
    return None


def prepare_quantized_binary(op: Operator, setting: Setting) -> Prepared:
    """The line and its tables, without a nest."""
    assert isinstance(op, QuantizedBinary)
    found = prepare_binary(op, setting)
    function, stored, count = found.function, found.function.stored, found.nest.count
    if op.bounds == (op.y.dtype.low, op.y.dtype.high) and (function.low, function.high) != (None, None):
        stored = f"({function.y})qcgen_dsp_saturate_{KINDS[op.y.dtype]}({function.code})"
    context = QuantizedBinaryContext(
        types={**function.operands, "y": function.y},
        given=tuple(name for name in function.operands if name not in function.tables),
        constant=function.tables,
        is_in_place=bool(found.in_place),
        numbers=function.numbers,
        first=function.first,
        inner=function.inner,
        layer=function.layer,
        stored=stored,
        fours=count // 4,
        rest=range(count % 4),
    )
    return Prepared(found.constants, context, (), found.certificate, found.in_place)


QUANTIZED_BINARY = Kernel(
    "arm_dsp/quantized_binary",
    QuantizedBinaryContext,
    frozenset({"dsp"}),
    why_not_quantized_binary,
    prepare_quantized_binary,
)


QUAD = 4  # channels in a word
MEANS_OPERATIONS = 95.0  # that the library's function becomes


def why_not_global_average_pool(op: Operator, setting: Setting) -> str | None:
    """Serves codes whose channels lie side by side, four or more."""
    reason = why_no_mean(op)
    if reason is not None:
        return reason
    assert isinstance(op, GlobalAveragePool)
    if op.requantize is None:
        return "its numbers are float32"
    if op.x.dtype.is_16_bit or op.y.dtype.is_16_bit or isinstance(op.requantize, RoundOnce):
        return "activations have 16 bits"
    if setting.in_rows:
        return ROW_BY_ROW
    if not are_lanes(op, setting):
        return CHANNELS_APART
    channels = op.x.shape[op.channel_axis]
    return None if channels >= QUAD else f"{channels} channels do not fill a word"


def prepare_global_average_pool(op: Operator, setting: Setting) -> Prepared:
    """The sums and the output step, without scratch for sums."""
    assert isinstance(op, GlobalAveragePool)
    return prepare_means(op, setting, "dsp_means", operations={"dsp_means": MEANS_OPERATIONS})


GLOBAL_AVERAGE_POOL = Kernel(
    "arm_dsp/global_average_pool",
    MeansContext,
    frozenset({"dsp"}),
    why_not_global_average_pool,
    prepare_global_average_pool,
)
