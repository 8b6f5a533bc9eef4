"""How operators are spelt: the names of their inputs, and their attributes with the kinds that these have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from qcgen.ir.graph import Attribute
from qcgen.schemas import NEWEST_READ, OLDEST, AttrType, version_at, versions

INTEGER, NUMBER, TEXT = "an integer", "a number", "a string"
INTEGERS, NUMBERS, TEXTS = "a list of integers", "a list of numbers", "a list of strings"

KINDS = {
    AttrType.INT: INTEGER,
    AttrType.INTS: INTEGERS,
    AttrType.FLOAT: NUMBER,
    AttrType.FLOATS: NUMBERS,
    AttrType.STRING: TEXT,
    AttrType.STRINGS: TEXTS,
}
"""What attributes may be, by ONNX's word for it."""

SCALARS: dict[str, type | tuple[type, ...]] = {INTEGER: int, NUMBER: (float, int), TEXT: str}
LISTS = {INTEGERS: int, NUMBERS: float, TEXTS: str}


def fits(kind: str, value: Attribute) -> bool:
    """Whether an attribute is of a kind; an empty list is of each."""
    if kind in SCALARS:
        return isinstance(value, SCALARS[kind])
    return isinstance(value, tuple) and all(isinstance(item, LISTS[kind]) for item in value)


def kind_of(value: Attribute) -> str:
    """What an attribute is, in words."""
    match value:
        case bytes():
            return "a string that is no text"
        case np.ndarray():
            return "a tensor"
        case ():
            return "an empty list"
    return next((kind for kind in KINDS.values() if fits(kind, value)), "neither a number nor text")


@dataclass(frozen=True)
class Signature:
    """How an operator is spelt.

    ``inputs`` names them in order, ``required`` of them must be there; with ``repeated`` the last so many may come
    again and again. ``attributes`` with their kinds.
    """

    inputs: tuple[str, ...]
    required: int
    attributes: Mapping[str, str] = field(default_factory=dict)
    repeated: int = 0

    def role(self, index: int) -> str:
        """The name of an input."""
        start = len(self.inputs) - self.repeated
        if index >= start and self.repeated:
            return self.inputs[start + (index - start) % self.repeated]
        return self.inputs[index] if index < len(self.inputs) else f"input {index}"


@cache
def of_onnx(op_type: str) -> Signature:
    """How ai.onnx spells an operator in any opset: load has seen that nodes are spelt as their own opset says.

    Of an attribute that came after NEWEST_READ nobody here knows what it means.
    """
    oldest = version_at(op_type, OLDEST) or versions(op_type)[-1]
    known = [each for each in versions(op_type) if oldest.since_version <= each.since_version <= NEWEST_READ]
    # One that may be repeated is called data_0 by some operators.
    inputs = tuple(each.name.removesuffix("_0") for each in known[0].inputs)
    kinds = {each.name: each.type for schema in known[::-1] for each in schema.attributes.values()}
    attributes = {name: KINDS[kind] for name, kind in sorted(kinds.items()) if kind in KINDS}
    required = min(each.min_input for each in known)
    return Signature(inputs, required, attributes, repeated=int(known[0].max_input > len(inputs)))
