"""The operands of a QLinearConv as Orion's fixed point takes them: per-tensor scales, int8 codes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from qcgen.errors import Problem
from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import Int64s
from qcgen.ir.types import Array, DType
from qcgen.lower.orion_magnitudes import FORMATS, Magnitude
from qcgen.options import spelt
from qcgen.orion.arithmetic import MAGNITUDE_MAX

INPUTS = ("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", "B")
"""QLinearConv's inputs in their order, by ONNX's names."""

PER_TENSOR = "quantize per tensor: Orion's arithmetic has one scale and one zero point for a whole tensor"
INITIALIZER = "make it an initializer or a Constant node"


@dataclass
class OrionOperands:
    """Reads a node's operands; what is wrong gathers in ``problems`` and a harmless value stands in for it."""

    node: Node
    graph: Graph
    fraction_bits: int
    problems: list[Problem] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The node in messages."""
        return f"node '{self.node.name}' ({self.node.operator})"

    def x_shape(self) -> tuple[int, ...] | None:
        """The input's shape (N, C, spatial...) if it is known and x is int8."""
        value = self.graph.value(self.node.input(0))
        if value.dtype is not DType.INT8:
            self._reject("x", f"its type is {value.dtype.value if value.dtype else 'unknown'}, not int8", _int8())
        if value.fixed_shape is None:
            self._reject("x", "its shape is not known", f"fix symbolic dimensions with {spelt(dims={'NAME': 'VALUE'})}")
        elif not 3 <= len(value.fixed_shape) <= 5:
            rank = len(value.fixed_shape)
            self._reject("x", f"it has {rank} axes", "Orion convolves images with 1 to 3 spatial axes (3 to 5 in all)")
        else:
            return value.fixed_shape
        return None

    def weights(self) -> Int64s | None:
        """The codes of w (M, C/group, k...)."""
        codes = self._constant("w")
        if codes is None or not self._is_int8("w", codes):
            return None
        return codes.astype(np.int64)

    def scale(self, name: str) -> tuple[float, int]:
        """A scale as the model gives it and as Orion encodes it: truncated toward zero to f bits, 1 to 2^32 - 1."""
        array = self._scalar(name)
        if array is None:
            return 1.0, 1
        scale = float(array)
        encoded = encode_scale(scale, self.fraction_bits) if np.isfinite(scale) else 0
        name_of_format = FORMATS[self.fraction_bits]
        if not np.isfinite(scale) or scale <= 0:
            self._reject(name, f"it is {scale}", "a scale is positive and finite")
        elif encoded == 0:
            smallest = 2.0**-self.fraction_bits
            hint = f"a scale must be at least {smallest:.6g} here"
            self._reject(name, f"{scale:.6g} becomes 0 in {name_of_format}", hint)
        elif encoded > MAGNITUDE_MAX:
            hint = f"a scale must be below {2 ** (32 - self.fraction_bits)} here"
            self._reject(name, f"{scale:.6g} is {encoded} in {name_of_format}, more than {MAGNITUDE_MAX}", hint)
        else:
            return scale, encoded
        return 1.0, 1

    def zero_point(self, name: str) -> int:
        """An int8 zero point; ONNX requires it here, and without one the tensor would be uint8."""
        array = self._scalar(name)
        return int(array) if array is not None and self._is_int8(name, array) else 0

    def bias(self, channels: int, x_scale: int, w_scale: int) -> Int64s:
        """The dequantized bias (M,): B · (x_scale·w_scale), the scales' product truncated; zeros if there is none.

        Orion encodes B as B·2^f and multiplies; that magnitude and the scale's must fit 32 bits, and then the product
        needs no truncation.
        """
        absent = np.zeros(channels, dtype=np.int64)
        if not self.node.input(INPUTS.index("B")):
            return absent
        array = self._constant("B")
        if array is None:
            return absent
        if array.shape != (channels,) or array.dtype != np.int32:
            what = f"it is {array.dtype.name} of shape {array.shape}"
            self._reject("B", what, f"a bias is int32 with one element for each of the {channels} output channels")
            return absent
        codes = array.astype(np.int64)
        scale = (x_scale * w_scale) >> self.fraction_bits
        channel = int(np.argmax(np.abs(codes)))
        encoded = Magnitude("the encoded bias", abs(int(codes[channel])) << self.fraction_bits, channel)
        fits = [self._fits(encoded), self._fits(Magnitude("x_scale times w_scale, the scale of the bias,", scale))]
        return codes * scale if all(fits) else absent

    def _fits(self, magnitude: Magnitude) -> bool:
        problem = magnitude.problem(self.where, self.fraction_bits)
        if problem is not None:
            self.problems.append(problem)
        return problem is None

    def _scalar(self, name: str) -> Array | None:
        """The only element of a constant."""
        array = self._constant(name)
        if array is None:
            return None
        if array.size != 1:
            self._reject(name, f"it has {array.size} elements, not 1", PER_TENSOR)
            return None
        return array.reshape(())

    def _constant(self, name: str) -> Array | None:
        """The elements of an input that must be known at compile time."""
        array = self.graph.constants.get(self.node.input(INPUTS.index(name)))
        if array is None:
            self._reject(name, "it is not a constant", INITIALIZER)
        return array

    def _is_int8(self, name: str, array: Array) -> bool:
        if array.dtype != np.int8:
            self._reject(name, f"its type is {array.dtype.name}, not int8", _int8())
        return bool(array.dtype == np.int8)

    def _reject(self, name: str, what: str, hint: str) -> None:
        tensor = self.node.input(INPUTS.index(name))
        label = f"input {name}" if tensor in ("", name) else f"input {name} '{tensor}'"
        self.problems.append(Problem(self.where, f"{label}: {what}", hint))


def encode_scale(scale: float, fraction_bits: int) -> int:
    """scale · 2^fraction_bits truncated toward zero; a finite scale, exact because the factor is a power of two."""
    return int(scale * 2.0**fraction_bits)


def _int8() -> str:
    return f"quantize activations and weights to int8, or compile with {spelt(numerics='onnxruntime')}"
