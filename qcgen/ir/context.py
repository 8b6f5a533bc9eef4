"""What a kernel hands to its template: a frozen dataclass whose fields are the names that the template uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar


@dataclass(frozen=True)
class Context:
    """The names of a template, each a field, or a part of them that several templates share.

    A field whose type is a Context is such a part: its fields are names of the template like the others. ``template``
    is the file below templates/ that uses these names and no other; parts have none.
    """

    template: ClassVar[str] = ""


def names_of(context: Context) -> dict[str, object]:
    """The values of all names of a template, those of its parts among them."""
    found: dict[str, object] = {}
    for each in fields(context):
        value = getattr(context, each.name)
        found |= names_of(value) if isinstance(value, Context) else {each.name: value}
    return found


@dataclass(frozen=True)
class Struct:
    """The values of a struct of the library, by the names of its fields; what is left out is 0."""

    type: str  # without qcgen_
    tables: tuple[str, ...]  # roles, which are names of fields
    numbers: Mapping[str, int] = field(default_factory=dict)
    words: Mapping[str, int] = field(default_factory=dict)  # bits, such as those of a float32 number
    floats: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    own: Mapping[str, LayerField] = field(default_factory=dict)  # numbers that layers of several sizes have


class LayerField(str):
    """In place of a number that layers do not share, though they share the C function: how that reads it."""

    __slots__ = ()


def own(name: str) -> LayerField:
    """The C expression of what a layer has for itself.

    >>> own("multiplier")
    'layer->multiplier'
    """
    return LayerField(f"layer->{name}")
