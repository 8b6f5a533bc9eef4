"""Operators of a .tflite network with their tensors, and why one may not be compiled."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.program import Tensor
from qcgen.ir.types import Array, DType, Layout
from qcgen.tflite.graph import ACTIVATIONS, AGAIN, TfliteCodes, TfliteGraph


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
        name = self.node.inputs[index] if len(self.node.inputs) > index else ""
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
        name = self.node.inputs[index] if len(self.node.inputs) > index else ""
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
        name = self.node.inputs[index] if len(self.node.inputs) > index else ""
        is_short = self.node.op_type == "CONV_2D" and self.graph.value(name).dtype is DType.INT32
        return self.is_wide and not is_short

    def integers(self, index: int) -> Array:
        """The constant of an input, integers."""
        name = self.node.inputs[index] if len(self.node.inputs) > index else ""
        array = self.graph.constants.get(name)
        if array is None or array.dtype not in (np.int32, np.int64):
            raise Refused(f"its input {index} is not a constant of integers", "convert the model with constant ones")
        return array

    def constant_code(self, index: int) -> int:
        """The constant of an input, one code with the scale and the zero point of the output."""
        name = self.node.inputs[index] if len(self.node.inputs) > index else ""
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
