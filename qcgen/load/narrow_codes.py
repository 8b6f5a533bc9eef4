"""Codes of 4 and of 2 bits are codes of 8 bits in a smaller range: a byte each, at the boundary, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from qcgen.ir.element_types import number_of
from qcgen.ir.graph import Node
from qcgen.ir.types import Array, DType


@dataclass(frozen=True)
class Narrow:
    """A type of fewer than 8 bits by ONNX's ``number``: the type of 8 bits that has its codes, and their ends."""

    number: int
    dtype: DType
    low: int
    high: int


NARROW: Mapping[str, Narrow] = {
    "int4": Narrow(22, DType.INT8, -8, 7),
    "uint4": Narrow(21, DType.UINT8, 0, 15),
    "int2": Narrow(26, DType.INT8, -2, 1),
    "uint2": Narrow(25, DType.UINT8, 0, 3),
}
"""By the names that ml_dtypes has for numpy. Source of the numbers: TensorProto.DataType of onnx.proto."""

IN_BYTES: Mapping[int, DType] = {narrow.number: narrow.dtype for narrow in NARROW.values()}
"""By ONNX's number of a type: the type of 8 bits."""


@dataclass(frozen=True)
class InBytes:
    """Nodes and constants with codes of 8 bits; the ``narrow`` ones are the tensors that had fewer."""

    nodes: tuple[Node, ...]
    constants: dict[str, Array]
    narrow: frozenset[str]


def in_bytes(nodes: Iterable[Node], constants: Mapping[str, Array], types: Mapping[str, int]) -> InBytes:
    """Codes of 8 bits for all; behind what quantizes to fewer, a Clip keeps these codes.

    ``types`` are the numbers of the types that the model declares, by tensor.
    """
    found = {name: each for name, number in types.items() for each in NARROW.values() if each.number == number}
    found |= {name: NARROW[array.dtype.name] for name, array in constants.items() if array.dtype.name in NARROW}
    wide = {
        name: array.astype(NARROW[array.dtype.name].dtype.numpy) if array.dtype.name in NARROW else array
        for name, array in constants.items()
    }
    changed: list[Node] = []
    for node in nodes:
        narrow = _of_quantize(node, found)
        if narrow is None:
            changed.append(node)
            continue
        y = node.outputs[0]
        codes, low, high = (f"{y} in {part}" for part in ("8 bits", "8 bits, lowest", "8 bits, highest"))
        found[y] = narrow
        wide |= {name: np.asarray(end, narrow.dtype.numpy) for name, end in ((low, narrow.low), (high, narrow.high))}
        attributes = {**node.attributes, "output_dtype": number_of(narrow.dtype)}
        changed.append(replace(node, outputs=(codes,), attributes=attributes, in_float=True))
        changed.append(Node(f"{node.name} in its range", "Clip", "", (codes, low, high), (y,), {}, node.version))
    return InBytes(tuple(changed), wide, frozenset(found))


def _of_quantize(node: Node, found: Mapping[str, Narrow]) -> Narrow | None:
    """To which narrow type a node quantizes, None if it does not."""
    if node.op_type != "QuantizeLinear" or not node.outputs:
        return None
    number = node.attributes.get("output_dtype", 0)
    return found.get(node.input(2)) or next(
        (each for each in NARROW.values() if isinstance(number, int) and each.number == number), None
    )
