"""What is accepted of every operator besides convolutions."""

from __future__ import annotations

from dataclasses import replace

from qcgen.check import limits, normalization, reductions, windows
from qcgen.check.node import CODES, FLOAT, INTEGER, INTEGERS, NUMBER, Q8, TEXT, Spec
from qcgen.check.specs.microsoft import MICROSOFT
from qcgen.check.specs.parts import AVERAGE_POOL, BINARY, GLOBAL_MAX_POOL, GLOBAL_POOL, MAX_POOL, ONE, UNARY
from qcgen.check.specs.recurrent import DYNAMIC_LSTM as OF_DYNAMIC_LSTM
from qcgen.check.specs.recurrent import of_codes
from qcgen.check.specs.standard import STANDARD
from qcgen.convolutions import NHWC_DOMAIN
from qcgen.infer.lookup import LOOKUP
from qcgen.infer.normalization import INSTANCE_NORM, LAYER_NORM
from qcgen.infer.recurrent import DYNAMIC_LSTM, GRU, LSTM
from qcgen.infer.reduction import REDUCE_MEAN, REDUCE_SUM
from qcgen.infer.select import COMPARISONS, SELECT
from qcgen.infer.wide import WIDE_ADD, WIDE_GEMM, WIDE_MATMUL, WIDE_MEAN, WIDE_MUL, WIDE_SUB

QUANTIZED_REDUCE = replace(
    UNARY,
    same=(("X_zero_point", "X"),),
    attributes={"axes": INTEGERS, "keepdims": INTEGER},
    extra=(reductions.reduces_axes_of_codes, reductions.sums_in_range),
)


def of_16_bits(spec: Spec, *roles: str) -> Spec:
    """The same operator where operands of these ``roles`` have 8 or 16 bits, each its own."""
    types = {**spec.types, **dict.fromkeys(roles, CODES)}
    same = tuple((one, other) for one, other in spec.same if one.lower() == f"{other.lower()}_zero_point")
    return replace(spec, types=types, same=same, since=1)


WIDE_BINARY = replace(
    of_16_bits(BINARY, "A", "A_zero_point", "B", "B_zero_point", "C_zero_point"),
    same=(("A_zero_point", "A"), ("B_zero_point", "B")),
)

SPECS: dict[tuple[str, str], Spec] = {
    **STANDARD,
    **MICROSOFT,
    (NHWC_DOMAIN, "AveragePool"): AVERAGE_POOL,
    (NHWC_DOMAIN, "GlobalAveragePool"): GLOBAL_POOL,
    (NHWC_DOMAIN, "GlobalMaxPool"): GLOBAL_MAX_POOL,
    (NHWC_DOMAIN, "MaxPool"): MAX_POOL,
    LOOKUP: Spec(
        (*ONE, "table"),
        6,
        {**UNARY.types, "table": Q8},
        constant=(*ONE[1:], "table"),
        numbers=ONE[1:],
        scales=UNARY.scales,
        same=(("X_zero_point", "X"), ("Y_zero_point", "table")),
        attributes={"axis": INTEGER},
        extra=(limits.has_a_code_each,),
    ),
    WIDE_ADD: WIDE_BINARY,
    WIDE_MEAN: replace(
        of_16_bits(MICROSOFT["com.microsoft", "QLinearGlobalAveragePool"], "X", "X_zero_point", "Y_zero_point"),
        same=(("X_zero_point", "X"),),
    ),
    WIDE_MUL: WIDE_BINARY,
    WIDE_SUB: WIDE_BINARY,
    WIDE_GEMM: of_16_bits(MICROSOFT["com.microsoft", "QGemm"], "A", "a_zero_point", "y_zero_point"),
    WIDE_MATMUL: of_16_bits(STANDARD["", "QLinearMatMul"], "a", "a_zero_point", "y_zero_point"),
    SELECT: Spec(
        ("A", "B", "X", "Y"),
        4,
        dict.fromkeys(("A", "B", "X", "Y"), FLOAT),
        attributes={"comparison": TEXT, "negated": INTEGER},
        extra=(limits.broadcasts_all, limits.finite_constants, limits.one_of("comparison", *COMPARISONS.values())),
    ),
    GRU: of_codes(STANDARD["", "GRU"]),
    LSTM: of_codes(STANDARD["", "LSTM"]),
    DYNAMIC_LSTM: OF_DYNAMIC_LSTM,
    INSTANCE_NORM: Spec(
        (*ONE, "Scale", "B"),
        7,
        {**UNARY.types, "Scale": FLOAT, "B": FLOAT},
        constant=(*ONE[1:], "Scale", "B"),
        numbers=ONE[1:],
        scales=UNARY.scales,
        same=(("X_zero_point", "X"),),
        attributes={"epsilon": NUMBER},
        extra=(
            windows.is_image,
            normalization.channels_fit,
            normalization.positive_epsilon,
            normalization.scales_in_range,
        ),
    ),
    LAYER_NORM: Spec(
        (*ONE, "Scale", "B"),
        3,
        {**UNARY.types, "Scale": FLOAT, "B": FLOAT},
        constant=(*ONE[1:], "Scale", "B"),
        numbers=ONE[1:],
        scales=UNARY.scales,
        same=(("X_zero_point", "X"),),
        attributes={"axis": INTEGER, "epsilon": NUMBER, "stash_type": INTEGER},
        extra=(
            limits.axis_exists(-1),
            normalization.has_what_it_needs,
            normalization.row_fits,
            normalization.positive_epsilon,
            normalization.scales_in_range,
        ),
    ),
    REDUCE_MEAN: QUANTIZED_REDUCE,
    REDUCE_SUM: QUANTIZED_REDUCE,
}
"""What is accepted, by (domain, op_type)."""
