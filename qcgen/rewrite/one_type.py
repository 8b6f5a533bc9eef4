"""Operands of operators that want one 8-bit type throughout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.quantization import Dequantized, named
from qcgen.rewrite.wiring import Wiring


@dataclass(frozen=True)
class Operand:
    """(codes, scale, zero point) of a tensor, with the nodes and constants to be made for them."""

    names: tuple[str, str, str]
    nodes: tuple[Node, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)


def operand_of_type(wiring: Wiring, tensor: Dequantized, dtype: DType, node: Node, role: str) -> Operand:
    """A tensor as an operand whose codes have this type.

    Codes of the other 8-bit type are shifted together with their zero point: constants now, others by way of numbers,
    which becomes a table. New names are made of the node's and the operand's ``role``.
    """
    codes, meaning = tensor.codes, tensor.quantization
    if meaning.dtype is dtype:
        meaning, constants = named(wiring, meaning, codes)
        return Operand((codes, *meaning.names), (), constants)
    base = f"{node.name}_{role}"
    shifted, zero_point = wiring.fresh(f"{base}_{dtype.value}"), wiring.fresh(f"{base}_zero_point")
    target = replace(meaning, dtype=dtype, zero_point=recode(meaning.zero_point, dtype), zero_point_name=zero_point)
    constants = {zero_point: target.zero_point}
    constant = wiring.constant(codes)
    names = (shifted, target.scale_name, zero_point)
    if constant is not None:
        return Operand(names, (), {**constants, shifted: recode(constant, dtype)})
    numbers = wiring.fresh(f"{base}_numbers")
    read, read_constants = named(wiring, meaning, codes)
    shift = (
        Node(wiring.fresh(f"{base}_read"), "DequantizeLinear", "", (codes, *read.names), (numbers,), {}),
        Node(wiring.fresh(f"{base}_shift"), "QuantizeLinear", "", (numbers, *target.names), (shifted,), {}),
    )
    return Operand(names, shift, {**constants, **read_constants})


def recode(codes: Array, to: DType) -> Array:
    """Codes shifted into the other 8-bit type: the smallest becomes the smallest."""
    return (codes.astype(np.int64) - DType.of(codes).low + to.low).astype(to.numpy)
