"""How far right outputs may be from a judge's: not at all where both round alike, else a code or what float32 loses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from qcgen.functions import UNSTEADY
from qcgen.ir.program import (
    ChannelLookup,
    Conv,
    Convert,
    Dequantize,
    DynamicQuantize,
    InstanceNorm,
    LayerNorm,
    Lookup,
    MatMul,
    MaxPool,
    Movement,
    Operator,
    Program,
    Quantize,
    Requantize,
    Tensor,
    inputs_of,
)
from qcgen.ir.types import Array, DType
from qcgen.reference.tolerance import exact, magnitude, normalized_error, tolerances

LAST_PLACES = 2.0**-22
"""What float32 may lose of a number in the few operations before it is normalized."""

MOST_CODES = 2**17
"""More codes than there are of any type: how far they may be off is not known."""

LARGEST_PAIR = 32767 // 255
"""Two weights of int8 whose products with 255 and 255 add up within int16 have at most these magnitudes together."""


@dataclass(frozen=True)
class Rules:
    """For a ``program`` whose judge rounds as we do if ``is_exact``.

    ``names`` are the tensors that nodes of the model file compute, ``words`` the types of its nodes and constants.
    ``aliases`` lead from tensors of the program to others of the file that hold the same. ``float_weights`` are nodes
    of the file whose weights nothing dequantizes: between codes onnxruntime and the program quantize them.
    """

    program: Program
    is_exact: bool
    names: Collection[str]
    words: Collection[str]
    aliases: Mapping[str, str] = field(default_factory=dict)
    float_weights: Collection[str] = ()

    @cached_property
    def loose(self) -> frozenset[str]:
        """Codes that may be one more or less: not computed as the judge does, or by rounded numbers."""
        loose: set[str] = set()
        for op in self.program.operators:
            moves = isinstance(op, Movement | MaxPool | Lookup)
            is_moved = moves and any(self._is_hidden(x.name, loose) for x in inputs_of(op))
            if not op.y.dtype.is_float and (is_moved or self._is_loose(op)):
                loose.add(op.y.name)
        return frozenset(loose)

    def _is_hidden(self, name: str, loose: Collection[str]) -> bool:
        return name in loose and self.in_file(name) is None

    def in_file(self, name: str) -> str | None:
        """What a tensor of the program is called in the file; None if the file has none that holds the same."""
        seen: set[str] = set()
        while name not in self.names and name in self.aliases and name not in seen:
            seen.add(name)
            name = self.aliases[name]
        return name if name in self.names else None

    @cached_property
    def followed(self) -> Mapping[str, str]:
        """Those of them that the file has, by its names: the judge can go on from the codes of the reference there."""
        found = {op.y.name: self.in_file(op.y.name) for op in self.program.operators if op.y.name in self.loose}
        return {called: name for name, called in found.items() if called is not None}

    def _is_loose(self, op: Operator) -> bool:
        if not self.is_exact:
            return not isinstance(op, Movement)
        match op:
            case Lookup() | ChannelLookup() if not UNSTEADY.isdisjoint(self.words):
                return True
            case _:
                return op.name in self.program.in_float or op.y.dtype.is_16_bit or self._is_choice(op)

    def _is_choice(self, op: Operator) -> bool:
        return isinstance(op, Quantize | DynamicQuantize | Convert) and op.x.name not in self._exact

    @cached_property
    def _exact(self) -> frozenset[str]:
        return exact(self.program, is_alike=self.is_exact, is_judge=True)

    @cached_property
    def lost(self) -> tuple[str, ...]:
        """Outputs that depend on loose codes that the file has not: how far they may be off is not known."""
        if not self.is_exact:
            return ()
        lost: set[str] = set()
        for op in self.program.operators:
            if op.y.name not in self.loose and any(
                x.name in lost or self._is_hidden(x.name, self.loose) for x in inputs_of(op)
            ):
                lost.add(op.y.name)
        return tuple(tensor.name for tensor in self.program.outputs if self._is_lost(tensor, lost))

    def _is_lost(self, tensor: Tensor, lost: Collection[str]) -> bool:
        """Whether a tensor is one of these, and is not just dequantized from loose codes, and moved."""
        op = self._producers.get(tensor.name)
        if tensor.name in lost and isinstance(op, Movement):
            return any(self._is_lost(x, lost) for x in inputs_of(op))
        return tensor.name in lost and not (isinstance(op, Dequantize) and op.x.name in self.loose)

    @property
    def criterion(self) -> str:
        """In a sentence."""
        if not self.is_exact:
            one = "at most one code more or less at each quantized tensor"
            if any(isinstance(op, Conv) and self._has_float_weights(op) for op in self.program.operators):
                one += ", and half a unit of each weight that is float in the file"
        elif self.loose:
            one = (
                f"bit for bit; at most one code more or less at {len(self.loose)} tensors, where qcgen rounds otherwise"
            )
        else:
            one = "bit for bit"
        rest = any(tensor.name not in self._exact for tensor in self.program.outputs)
        return one + ("; float numbers within twice the tolerance of the reference" if rest else "")

    def apart(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """How many codes loose tensors may be off, where ``values`` are the reference's: one, or what float32 loses."""
        allowed = tolerances(self.program, values, is_alike=self.is_exact, is_judge=True)
        return {name: np.asarray(1 + self._rounded(self._producers[name], values, allowed)) for name in self.loose}

    def _rounded(self, op: Operator, values: Mapping[str, Array], allowed: Mapping[str, Array]) -> Array | float:
        """How far in codes the number may be off of which a code is made."""
        if isinstance(op, Movement | MaxPool):
            made = (self._producers[x.name] for x in inputs_of(op) if self._is_hidden(x.name, self.loose))
            return max((float(np.max(self._rounded(each, values, allowed))) for each in made), default=0.0)
        if isinstance(op, Lookup) and self.is_exact and self._is_hidden(op.x.name, self.loose):
            apart = 1 + float(np.max(self._rounded(self._producers[op.x.name], values, allowed)))
            return max(min(apart * float(np.abs(np.diff(op.table)).max()), MOST_CODES) - 1, 0.0)
        if isinstance(op, Conv) and isinstance(op.epilogue, Requantize) and self._has_float_weights(op):
            return np.ceil(_half_units(op, values[op.x.name]) * float(op.epilogue.scale.max()))
        error: Array | float = self._alike(op.y, values)
        if isinstance(op, Quantize | Convert):
            error += 2 * allowed.get(op.x.name, np.zeros(op.x.shape)) + self._alike(op.x, values)
        return np.minimum(np.floor(error / float(op.y.scale or 1)), MOST_CODES)

    def _has_float_weights(self, op: Conv) -> bool:
        """Whether the judge multiplies by weights before they were quantized."""
        return not self.is_exact and any(f"{op.name}_".startswith(f"{name}_") for name in self.float_weights)

    def _alike(self, tensor: Tensor, values: Mapping[str, Array]) -> float:
        """How far numbers normalized by the judge may be off, since it rounds what is nearly alike otherwise."""
        op = self._producers.get(tensor.name)
        if self.is_exact or not isinstance(op, Movement | LayerNorm | InstanceNorm):
            return 0.0
        if isinstance(op, Movement):
            return max(self._alike(x, values) for x in inputs_of(op))
        x = values[op.x.name]
        real = x.astype(np.float64) if op.x.dtype.is_float else numbers(op.x, x, DType.FLOAT64)
        return 2 * float(np.max(normalized_error(op, real, LAST_PLACES * np.abs(real)), initial=0.0))

    def bounds(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """The largest |error| of every output that is judged, where ``values`` are the reference's tensors."""
        allowed, apart = tolerances(self.program, values, is_alike=self.is_exact, is_judge=True), self.apart(values)
        return {
            tensor.name: np.asarray(
                2 * allowed.get(tensor.name, np.zeros(tensor.shape)) + self._step(tensor, apart, values)
            )
            for tensor in self.program.outputs
            if tensor.name not in self.lost
        }

    def _step(self, tensor: Tensor, apart: Mapping[str, Array], values: Mapping[str, Array]) -> Array | float:
        """What codes and normalized numbers that may be off make of an output."""
        op = self._producers.get(tensor.name)
        if tensor.name in self.loose:
            return apart[tensor.name]
        if isinstance(op, Dequantize):
            return (
                self._step(op.x, apart, values) * float(op.x.scale or 1)
                if op.x.name not in self.followed.values()
                else 0.0
            )
        if isinstance(op, Movement | Convert):
            return max(float(np.max(self._step(x, apart, values))) for x in inputs_of(op))
        return self._alike(tensor, values)

    @cached_property
    def _producers(self) -> Mapping[str, Operator]:
        return {op.y.name: op for op in self.program.operators}


def _half_units(op: Conv, x: Array) -> Array:
    """How far sums may be off because weights and biases were rounded to units: half the sum of the magnitudes of x."""
    alike = replace(op, weights=np.ones(op.weights.shape), bias=np.ones(op.bias.shape))
    return magnitude(alike, x.astype(np.float64) - op.x_zero_point) / 2


def nearer(ours: Array, theirs: Array, apart: Array) -> Array:
    """Our codes where they are at most so many from the judge's, else the judge's."""
    return np.where(np.abs(ours.astype(np.int64) - theirs.astype(np.int64)) <= apart, ours, theirs).astype(ours.dtype)


def numbers(tensor: Tensor, codes: Array, dtype: DType | None) -> Array:
    """The numbers that codes stand for, which have these codes again when they are quantized."""
    scale, zero_point = np.float32(tensor.scale or 1), tensor.zero_point or 0
    return ((codes.astype(np.int64) - zero_point).astype(np.float32) * scale).astype((dtype or DType.FLOAT32).numpy)


def codes(tensor: Tensor, numbers: Array) -> Array:
    """The codes of numbers that were dequantized."""
    found = np.rint(numbers.astype(np.float64) / float(tensor.scale or 1)) + (tensor.zero_point or 0)
    return found.astype(tensor.dtype.numpy)


def saturating(program: Program) -> Iterator[str]:
    """The nodes that multiply uint8 by int8 codes whose products may leave 16 bits, two added up."""
    for op in program.operators:
        if isinstance(op, Conv) and op.x.dtype is DType.UINT8 and op.weights.dtype == np.int8:
            if _has_large_pair(op.weights.reshape(len(op.weights), -1)):
                yield op.name
        elif isinstance(op, MatMul) and op.a.dtype is DType.UINT8 and op.b.dtype is DType.INT8:
            b = program.constants.get(op.b.name)
            if b is None or _has_large_pair(np.moveaxis(b, -2, -1).reshape(-1, b.shape[-2])):
                yield op.name


def _has_large_pair(rows: Array) -> bool:
    """Whether two numbers of a row have magnitudes that are too large together."""
    largest = np.sort(np.abs(rows.astype(np.int64)), axis=1)[:, -2:]
    return rows.shape[1] > 1 and bool((largest.sum(axis=1) > LARGEST_PAIR).any())


# The ranges that Clip and Relu leave of the tensors of a model file: no rounding before them leads outside.

ClampRange = tuple[float, float]

MOVING = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))
"""Operators that only move elements."""


class Clamps:
    """The clamps of a model file; ``range_of`` gives the values that a tensor can have."""

    def __init__(self, model: ModelProto) -> None:
        self._producers = {name: node for node in model.graph.node for name in node.output if name}
        self._constants: Mapping[str, Array] = {
            each.name: numpy_helper.to_array(each) for each in model.graph.initializer if np.prod(each.dims) == 1
        }

    def range_of(self, tensor: str) -> ClampRange | None:
        """The least and the greatest value, numbers or codes; None where nothing clamps the tensor."""
        node = self._behind_movement(tensor)
        if node is None:
            return None
        if node.op_type == "DequantizeLinear":
            codes = self._codes(self._behind_movement(node.input[0]))
            return None if codes is None else self._numbers(node, codes)
        return self._numbers_left(node) or self._codes(node)

    def _behind_movement(self, tensor: str) -> NodeProto | None:
        node = self._producers.get(tensor)
        while node is not None and node.op_type in MOVING:
            node = self._producers.get(node.input[0])
        return node

    def _numbers_left(self, node: NodeProto | None) -> ClampRange | None:
        if node is None or node.op_type not in ("Clip", "Relu"):
            return None
        if node.op_type == "Relu":
            return 0.0, np.inf
        ends = {each.name: each.f for each in node.attribute}
        for name, tensor in zip(("min", "max"), node.input[1:], strict=False):
            if tensor and tensor not in self._constants:
                return None
            if tensor:
                ends[name] = float(self._constants[tensor].reshape(()))
        low, high = ends.get("min", -np.inf), ends.get("max", np.inf)
        return (low, high) if low <= high else None

    def _codes(self, node: NodeProto | None) -> ClampRange | None:
        """The codes of clamped numbers; None for dequantized numbers, because onnxruntime joins such pairs."""
        if node is None or node.op_type != "QuantizeLinear" or (meaning := self._meaning(node)) is None:
            return None
        numbers = self._numbers_left(self._behind_movement(node.input[0]))
        if numbers is None:
            return None
        scale, zero_point = meaning
        low, high = (float(np.rint(np.float32(number) / scale)) + int(zero_point) for number in numbers)
        ends = np.iinfo(zero_point.dtype)
        return max(low, ends.min), min(high, ends.max)

    def _numbers(self, node: NodeProto, codes: ClampRange) -> ClampRange | None:
        meaning = self._meaning(node)
        if meaning is None:
            return None
        low, high = (np.float32(code - int(meaning[1])) * meaning[0] for code in codes)
        return float(low), float(high)

    def _meaning(self, node: NodeProto) -> tuple[np.float32, Array] | None:
        """Scale and zero point; None unless both are given, one for all elements, as float32 and an integer."""
        found = [self._constants.get(name) for name in node.input[1:]]
        if len(found) != 2 or found[0] is None or found[1] is None or found[1].dtype.kind not in "iu":
            return None
        return np.float32(found[0].reshape(())), found[1].reshape(())


def only_inside(bound: Array, got: Array, inside: ClampRange | None) -> Array:
    """The largest |error| of every element: -1, which allows none, where it lies outside of the range."""
    if inside is None:
        return bound
    return np.where((got < inside[0]) | (got > inside[1]), -1.0, bound)
