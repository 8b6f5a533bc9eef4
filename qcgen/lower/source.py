"""What a lowering reads of a node: its operands by position, its attributes, its tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from qcgen.arithmetic import Quantization
from qcgen.ir.graph import Graph, Node, fresh
from qcgen.ir.program import Tensor
from qcgen.ir.types import Array, DType, Layout


@dataclass(frozen=True)
class Source:
    """A node that check has accepted, in its graph: assertions here, not problems."""

    node: Node
    graph: Graph

    @property
    def called(self) -> tuple[str, str]:
        """The name and the op_type of what the node becomes."""
        return self.node.name, self.node.op_type

    @property
    def ends(self) -> tuple[str, str, Tensor, Tensor]:
        """The same, the first input and the first output: what most operators begin with."""
        return (*self.called, self.tensor(0), self.result())

    def has(self, index: int) -> bool:
        """Whether an input is there."""
        return self.node.input(index) != ""

    def array(self, index: int) -> Array:
        """The elements of a constant input."""
        array = self.graph.constants.get(self.node.input(index))
        assert array is not None, f"input {index} of {self.node.name!r} is not a constant"
        return array

    def is_constant(self, index: int) -> bool:
        """Whether the elements of an input are known."""
        return self.node.input(index) in self.graph.constants

    def number(self, index: int, default: float | None = None) -> float:
        """A constant of one element, or the default of an absent one; a scale as a float holds its float32 exactly."""
        if not self.has(index):
            assert default is not None, f"input {index} of {self.node.name!r} is absent"
            return default
        return float(self.array(index).reshape(()))

    def quantization(self, scale: int, zero_point: int) -> Quantization:
        """Per-tensor scale and zero point at two inputs; an absent zero point is 0."""
        return Quantization(self.number(scale), int(self.number(zero_point, 0)))

    def integers(self, index: int, name: str) -> tuple[int, ...] | None:
        """A list of integers: an input in newer opsets, an attribute in older ones; None if absent."""
        if self.has(index):
            return tuple(int(value) for value in self.array(index).reshape(-1))
        return self.node.integers(name)

    def axis(self, default: int) -> int:
        """The attribute axis, one of those of the first input, from 0 on."""
        return self.node.integer("axis", default) % len(self.tensor(0).shape)

    def real(self, name: str, default: float) -> float:
        """A float attribute, as the float32 that it is."""
        return float(np.float32(self.node.number(name, default)))

    def tensor(self, index: int, by: Quantization | None = None, layout: Layout | None = None) -> Tensor:
        """An input; ``by`` says what its codes mean here."""
        return tensor_of(self.graph, self.node.input(index), by, layout)

    def result(self, by: Quantization | None = None, layout: Layout | None = None, index: int = 0) -> Tensor:
        """An output."""
        return tensor_of(self.graph, self.node.outputs[index], by, layout)

    def dequantized(self, index: int) -> Source | None:
        """The DequantizeLinear that makes an input, a constant or not; None if it is made otherwise."""
        maker = self.graph.dequantizer(self.node.input(index))
        return None if maker is None else Source(maker, self.graph)

    def codes(self, index: int, *dtypes: DType) -> Tensor | None:
        """The codes, of one of these types, that an input is dequantized from, per tensor; None if it is not."""
        maker = self.dequantized(index)
        if maker is None or maker.array(1).size > 1:
            return None
        x = maker.tensor(0, maker.quantization(1, 2))
        return x if x.dtype in dtypes else None

    def quantized(self, *dtypes: DType) -> Tensor | None:
        """The codes, of one of these types, that a QuantizeLinear makes of the only output, which nothing else reads.

        An operator that computes them leaves nothing to be done for that node.
        """
        reader = self.graph.quantizer(self.node)
        if reader is None:
            return None
        quantize = Source(reader, self.graph)
        y = quantize.result(quantize.quantization(1, 2))
        return y if y.dtype in dtypes else None

    def inner(self, suffix: str, dtype: DType, shape: tuple[int, ...], by: Quantization | None = None) -> Tensor:
        """A tensor between two operators that one node becomes; its name is no other tensor's."""
        name = fresh(f"{next(filter(None, self.node.outputs))}.{suffix}", self.graph.names)
        return _quantized(Tensor(name, dtype, shape), by)

    def reshaped(self, suffix: str, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The same of what a tensor holds, in another shape."""
        return replace(self.inner(suffix, x.dtype, shape), scale=x.scale, zero_point=x.zero_point)


def tensor_of(graph: Graph, name: str, by: Quantization | None = None, layout: Layout | None = None) -> Tensor:
    """A tensor of the graph, whose type and shape are known."""
    value = graph.value(name)
    assert value.dtype is not None, f"the type of {name!r} is not known"
    assert value.fixed_shape is not None, f"the shape of {name!r} is not known"
    return _quantized(Tensor(name, value.dtype, value.fixed_shape, layout), by)


def _quantized(tensor: Tensor, by: Quantization | None) -> Tensor:
    if by is None:
        return tensor
    return Tensor(tensor.name, tensor.dtype, tensor.shape, tensor.layout, by.scale, by.zero_point)


def quantization_of(tensor: Tensor) -> Quantization:
    """What the codes of a quantized tensor mean."""
    assert tensor.scale is not None, f"the scale of {tensor.name!r} is not known"
    assert tensor.zero_point is not None, f"the zero point of {tensor.name!r} is not known"
    return Quantization(tensor.scale, tensor.zero_point)
