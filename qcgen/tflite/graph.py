"""The Graph of a .tflite file, its operators with their tensors, and names and numbers of the file's schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import State, Tensor
from qcgen.ir.types import Array, DType, Layout

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


# Operators with their tensors, and why one may not be compiled.


class Refused(Exception):
    """A node cannot be compiled: ``args`` are what is wrong with it and what to do."""


CONVERT_INT8 = "quantize the network to int8 in whole: TFLITE_BUILTINS_INT8 and a representative data set"
MOST_BITS = 60
"""Scales of tensors lie between 2^-60 and 2^60, so that no quotient of two leaves float32."""


WIDE = frozenset(
    """
    ABS ADD AVERAGE_POOL_2D BROADCAST_TO CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEQUANTIZE EXPAND_DIMS FULLY_CONNECTED
    LEAKY_RELU LOGISTIC MAXIMUM MAX_POOL_2D MEAN MINIMUM MUL PACK PAD PADV2 RELU RELU6 RESHAPE RESIZE_NEAREST_NEIGHBOR
    SPLIT SPLIT_V SQUEEZE STRIDED_SLICE SUB SUM TANH TRANSPOSE TRANSPOSE_CONV UNPACK
    """.split()
)
"""Operators whose codes may have 16 bits: if one of their tensors has, all have."""


class TfliteOperands:
    """A node with its tensors: what is wrong with them is refused here, once."""

    def __init__(self, node: Node, graph: TfliteGraph) -> None:
        self.node, self.graph = node, graph
        names = (*node.inputs, *node.outputs) if node.op_type in WIDE else ()
        self.is_wide = any(graph.value(name).dtype is DType.INT16 for name in names)
        self._types = (DType.INT16,) if self.is_wide else (DType.INT8,)

    def x(self, index: int = 0, layout: Layout | None = None, types: Collection[DType] | None = None) -> Tensor:
        """An input of codes, of one of these types; None: of the operator's own."""
        if index >= len(self.node.inputs) or not self.node.inputs[index]:
            raise Refused(f"it has no input {index}", AGAIN)
        return self._tensor(self.node.inputs[index], layout, types or self._types)

    def y(self, layout: Layout | None = None, types: Collection[DType] | None = None, of: int = 1) -> Tensor:
        """The output, of so many: those behind it are what the operator keeps for the next call."""
        if len(self.node.outputs) != of:
            raise Refused(f"it has {len(self.node.outputs)} outputs, not {of}", AGAIN)
        return self._tensor(self.node.outputs[0], layout, types or self._types)

    def kept(self, index: int, like: Tensor) -> Tensor:
        """What the operator keeps, behind the output, of a variable: ``like`` it."""
        return replace(like, name=self.node.outputs[1 + index])

    def x_in_float(self) -> Tensor | None:
        """Input 0 if it is float32."""
        value = self.graph.value(self.node.inputs[0] if self.node.inputs else "")
        if value.dtype is not DType.FLOAT32:
            return None
        return Tensor(value.name, DType.FLOAT32, value.fixed_shape or ())

    def y_in_float(self) -> Tensor:
        """The output, float32."""
        return self.y_of_numbers(DType.FLOAT32)

    def y_of_numbers(self, dtype: DType) -> Tensor:
        """The output, of numbers that are not quantized."""
        value = self.graph.value(self.node.outputs[0] if self.node.outputs else "")
        if value.dtype is not dtype:
            raise Refused(f"its output is not {dtype.value}", AGAIN)
        return Tensor(value.name, dtype, value.fixed_shape or ())

    def ys(self) -> tuple[Tensor, ...]:
        """All outputs."""
        return tuple(self._tensor(name, None, self._types) for name in self.node.outputs)

    def _tensor(self, name: str, layout: Layout | None, types: Collection[DType]) -> Tensor:
        value, by = self.graph.value(name), self.graph.codes.get(name)
        shape, dtype = value.fixed_shape, value.dtype
        assert shape is not None, f"the shape of {name!r} is fixed"
        assert dtype is not None, f"the type of {name!r} is known"
        if dtype not in types or by is None:
            what = f"tensor {name!r} is {dtype.value}" if by else f"tensor {name!r} is not quantized ({dtype.value})"
            known = " or ".join(each.value for each in types)
            raise Refused(f"{what}: only {known} is read here", CONVERT_INT8)
        if by.scales.size != 1:
            raise Refused(f"tensor {name!r} has {by.scales.size} scales, where one is expected", AGAIN)
        if not 2.0**-MOST_BITS <= float(by.scales[0]) <= 2.0**MOST_BITS:
            raise Refused(f"the scale of tensor {name!r} is {float(by.scales[0]):g}", AGAIN)
        zero_point = int(by.zero_points[0])
        if not dtype.low <= zero_point <= dtype.high:
            raise Refused(f"the zero point of tensor {name!r} is {zero_point}, beyond its type", AGAIN)
        if self.is_wide and zero_point:
            raise Refused(f"the zero point of tensor {name!r} is {zero_point}: of int16 codes it is 0", AGAIN)
        return Tensor(name, dtype, shape, layout, float(by.scales[0]), zero_point)

    def weights(
        self, rank: int, index: int = 1, types: Collection[type[np.generic]] = (np.int8,)
    ) -> tuple[Array, TfliteCodes]:
        """The constant of an input, int8, or of one of these types."""
        name = self.node.input(index)
        array, by = self.graph.constants.get(name), self.graph.codes.get(name)
        if array is None:
            raise Refused("its weights are computed, not constant", "convert the model with constant weights")
        if array.dtype not in types or by is None:
            raise Refused(f"its weights are {DType.of(array).value}, not quantized int8", CONVERT_INT8)
        if array.ndim != rank:
            raise Refused(f"its weights have {array.ndim} axes, not {rank}", AGAIN)
        return array, by

    def slopes(self) -> tuple[Array, TfliteCodes]:
        """The constant of input 1, int8 with one scale, of at least one axis."""
        self.x(1)
        array, by = self.weights(len(self.graph.value(self.node.inputs[1]).shape or ()))
        return np.atleast_1d(array), by

    def bias(self, channels: int, index: int = 2) -> Array:
        """The constant of an input, (channels,) int32; zeros if there is none. Of int16 layers int64 in the file."""
        name = self.node.input(index)
        if not name:
            return np.zeros(channels, np.int32)
        array, types = self.graph.constants.get(name), (np.int32, np.int64) if self.is_wide else (np.int32,)
        if array is None or array.dtype not in types or array.size != channels:
            raise Refused(f"its bias is not a constant of {channels} {types[-1].__name__} numbers", AGAIN)
        if (np.abs(array.astype(np.int64)) >= 2**31).any():
            raise Refused("its bias is beyond int32", "quantize with a larger scale of weights")
        return array.reshape(-1).astype(np.int32)

    def sums_in_64_bits(self, index: int = 2) -> bool:
        """Whether TensorFlow Lite Micro sums in int64: in int16 layers, but in CONV_2D with a bias of int32."""
        name = self.node.input(index)
        is_short = self.node.op_type == "CONV_2D" and self.graph.value(name).dtype is DType.INT32
        return self.is_wide and not is_short

    def integers(self, index: int) -> Array:
        """The constant of an input, integers."""
        name = self.node.input(index)
        array = self.graph.constants.get(name)
        if array is None or array.dtype not in (np.int32, np.int64):
            raise Refused(f"its input {index} is not a constant of integers", "convert the model with constant ones")
        return array

    def constant_code(self, index: int) -> int:
        """The constant of an input, one code with the scale and the zero point of the output."""
        name = self.node.input(index)
        array, y = self.graph.constants.get(name), self.y()
        x = self.x(index)
        if array is None or array.size != 1 or (x.scale, x.zero_point) != (y.scale, y.zero_point):
            raise Refused(f"its input {index} is not a constant code, of the output's scale", AGAIN)
        return int(array.reshape(-1)[0])

    def option(self, name: str, default: int | None = None) -> int:
        """An option of the operator; ``default`` is for operators that do not have it."""
        value = self.node.attributes.get(name, default)
        assert isinstance(value, int), f"{name} is an integer"
        return value

    def activation(self) -> str:
        """The fused activation's name."""
        number = self.option("activation", 0)
        kind = ACTIVATIONS[number] if 0 <= number < len(ACTIVATIONS) else f"number {number}"
        if kind not in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"):
            raise Refused(f"its fused activation is {kind}", "convert the model with an activation of its own")
        return kind

    def inner(self, suffix: str, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        """A tensor between two operators that one node becomes; its name is no other tensor's."""
        name = self.graph.unused(f"{self.node.outputs[0]}.{suffix}")
        return Tensor(name, like.dtype, shape, None, like.scale, like.zero_point)
