"""The Graph of a .tflite file, what the codes of its tensors mean, and names and numbers of the schema, version 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qcgen.ir.graph import Graph
from qcgen.ir.program import State
from qcgen.ir.types import Array, DType

AGAIN = "convert the model again"


@dataclass(frozen=True)
class TfliteCodes:
    """What codes mean: real value = (q - zero_points) * scales, both (1,), or (C,) along ``axis``; scales float32.

    Several scales are as the file has them: they need not fit the axis.
    """

    scales: Array
    zero_points: Array
    axis: int


@dataclass(frozen=True)
class TfliteGraph(Graph):
    """The graph of a .tflite file; ``codes`` has the tensors that are quantized, by name.

    The tensors of ``states``, which variables hold from call to call, are the last inputs and outputs. ``unchanged``
    are the constants that variables hold to which nothing is assigned.
    """

    codes: Mapping[str, TfliteCodes] = field(default_factory=dict)
    states: tuple[State, ...] = ()
    unchanged: tuple[str, ...] = ()

    def unused(self, name: str) -> str:
        """The name, or a longer one, that no tensor has."""
        while name in self.values:
            name += "_"
        return name


# The schema of .tflite files: tensorflow/compiler/mlir/lite/schema/schema.fbs, version 3.

OPERATORS = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM
MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS
SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN
EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2
GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG
SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT
UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU
SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE
MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND
SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D
IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE
READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
DYNAMIC_UPDATE_SLICE RELU_0_TO_1
""".split()
"""Operators by the number that their code has."""

EXTENDED = OPERATORS.index("PLACEHOLDER_FOR_GREATER_OP_CODES")
"""The number that the older field of a code has if the newer one holds the operator."""

TYPES = {
    0: DType.FLOAT32,
    1: DType.FLOAT16,
    2: DType.INT32,
    3: DType.UINT8,
    4: DType.INT64,
    6: DType.BOOL,
    7: DType.INT16,
    9: DType.INT8,
    10: DType.FLOAT64,
    12: DType.UINT64,
    15: DType.UINT32,
    16: DType.UINT16,
}
"""Element types by their number; of others there are no elements that qcgen could read."""

_POOL = {
    "padding": (0, "b", 0),
    "stride_w": (1, "i", 0),
    "stride_h": (2, "i", 0),
    "filter_w": (3, "i", 0),
    "filter_h": (4, "i", 0),
    "activation": (5, "b", 0),
}

_NONE = """
ABS ARG_MAX ARG_MIN BROADCAST_TO DEQUANTIZE ELU EXPAND_DIMS HARD_SWISH LOGISTIC LOG_SOFTMAX MAXIMUM MEAN MINIMUM PAD
PADV2 PRELU QUANTIZE REDUCE_MAX REDUCE_MIN RELU RELU6 RESHAPE RSQRT SPLIT SPLIT_V SQUARED_DIFFERENCE SQUEEZE SUM TANH
TILE TRANSPOSE
""".split()
"""Operators without options, or with such as the shapes say, too."""

OPTIONS: dict[str, dict[str, tuple[int, str, int]]] = {
    **{key: {} for key in _NONE},
    "CONV_2D": {
        "padding": (0, "b", 0),
        "stride_w": (1, "i", 0),
        "stride_h": (2, "i", 0),
        "activation": (3, "b", 0),
        "dilation_w": (4, "i", 1),
        "dilation_h": (5, "i", 1),
    },
    "DEPTHWISE_CONV_2D": {
        "padding": (0, "b", 0),
        "stride_w": (1, "i", 0),
        "stride_h": (2, "i", 0),
        "activation": (4, "b", 0),
        "dilation_w": (5, "i", 1),
        "dilation_h": (6, "i", 1),
    },
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), _POOL),
    **{key: {"activation": (0, "b", 0)} for key in ("ADD", "MUL", "SUB")},
    "BATCH_MATMUL": {"adj_x": (0, "b", 0), "adj_y": (1, "b", 0)},
    "CONCATENATION": {"axis": (0, "i", 0), "activation": (1, "b", 0)},
    **{key: {"block_size": (0, "i", 0)} for key in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")},
    "GATHER": {"axis": (0, "i", 0), "batch_dims": (1, "i", 0)},
    "MIRROR_PAD": {"mode": (0, "b", 0)},
    "PACK": {"axis": (1, "i", 0)},
    "UNPACK": {"axis": (1, "i", 0)},
    "RESIZE_BILINEAR": {"align_corners": (2, "b", 0), "half_pixel_centers": (3, "b", 0)},
    "RESIZE_NEAREST_NEIGHBOR": {"align_corners": (0, "b", 0), "half_pixel_centers": (1, "b", 0)},
    "STRIDED_SLICE": {
        f"{key}_mask": (at, "i", 0) for at, key in enumerate("begin end ellipsis new_axis shrink_axis".split())
    },
    "TRANSPOSE_CONV": {
        "padding": (0, "b", 0),
        "stride_w": (1, "i", 0),
        "stride_h": (2, "i", 0),
        "activation": (3, "b", 0),
    },
    "LEAKY_RELU": {"alpha": (0, "f", 0)},
    "SOFTMAX": {"beta": (0, "f", 0)},
    "SVDF": {"rank": (0, "i", 0)},
    "UNIDIRECTIONAL_SEQUENCE_LSTM": {"activation": (0, "b", 0), "cell_clip": (1, "f", 0), "time_major": (3, "b", 0)},
    "FULLY_CONNECTED": {"activation": (0, "b", 0), "weights_format": (1, "b", 0)},
    "CALL_ONCE": {"subgraph": (0, "i", 0)},
    "VAR_HANDLE": {"container": (0, "s", 0), "shared_name": (1, "s", 0)},
    **{key: {} for key in ("ASSIGN_VARIABLE", "READ_VARIABLE")},
}
"""The options of each operator that are read: field, type, which is "s" of texts, and default, of texts none."""

ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
"""Fused activations by their number."""

PADDINGS = ("SAME", "VALID")
