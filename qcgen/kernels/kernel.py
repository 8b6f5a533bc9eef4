"""What a kernel is: a precondition, a packing and a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from qcgen.ir.plan import Certificate
from qcgen.ir.program import Operator
from qcgen.ir.types import Array, Layout


@dataclass(frozen=True)
class Setting:
    """What a kernel knows besides its operator: the order of axes in memory, the aim, the target's features."""

    x_layout: Layout
    y_layout: Layout
    optimize: str
    features: frozenset[str]


@dataclass(frozen=True)
class Constants:
    """A constant array that a kernel wants: ``role`` becomes part of the symbol, ``meaning`` the comment."""

    role: str
    c_type: str
    values: Array
    meaning: str


@dataclass(frozen=True)
class Scratch:
    """A buffer in the arena for the duration of a call, ``align`` a power of two."""

    bytes: int
    align: int


@dataclass(frozen=True)
class Prepared:
    """An operator packed for a kernel.

    ``context`` holds every name that the template uses, besides those that every template gets (COMMON_NAMES);
    ``scratch`` are the buffers that the C function takes after x and y; ``support`` names the shared C functions that
    the text calls.
    """

    constants: tuple[Constants, ...]
    context: Mapping[str, object]
    scratch: tuple[Scratch, ...]
    support: tuple[str, ...]
    certificate: Certificate


COMMON_NAMES = frozenset({"prefix", "symbol", "tables", "op"})
"""What every kernel template gets: the model's prefix, the node's symbol, its tables' symbols by role, the operator."""


@dataclass(frozen=True)
class Kernel:
    """A way to compute one operator.

    ``why_not`` answers None if the kernel can serve, else the reason in the user's words; ``needs`` are features that
    the target must have; ``prepare`` packs an operator that ``why_not`` accepted.
    """

    name: str
    template: str
    needs: frozenset[str]
    why_not: Callable[[Operator, Setting], str | None]
    prepare: Callable[[Operator, Setting], Prepared]
