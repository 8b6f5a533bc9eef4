"""Expressions of operators that a tensor may be computed by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.rewrite.wiring import Wiring

Expression = str | float | tuple[object, ...]
"""A tensor by its role, a constant number, or an operator of others: (op_type, expression, ...).

A role is one tensor wherever it stands; an expression that stands twice may be computed twice. Further inputs of an
operator, such as axes, and its attributes are for the reader of the match to judge.
"""

BOTH_WAYS = frozenset(("Add", "Max", "Min", "Mul"))
"""Operators whose two operands may change places."""


@dataclass(frozen=True)
class Match:
    """The tensors by their roles, and the nodes, the last one first. ``is_near``: numbers match as nearly as
    onnxruntime demands of those that it compares approximately.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    is_near: bool = False


def matched(wiring: Wiring, name: str, wanted: object, found: Match = Match()) -> Match | None:
    """How a tensor is computed by an expression, given what ``found`` knows of its roles; None if it is not."""
    if isinstance(wanted, float):
        return found if _is_number(wiring, name, wanted, is_near=found.is_near) else None
    if isinstance(wanted, str):
        known = found.roles.get(wanted, name)
        return replace(found, roles={**found.roles, wanted: known}) if known == name else None
    maker = wiring.producers.get(name)
    if not isinstance(wanted, tuple) or maker is None or (maker.domain, maker.op_type) != ("", wanted[0]):
        return None
    parts, operands = wanted[1:], maker.inputs[: len(wanted) - 1]
    for way in (operands, operands[::-1]) if maker.op_type in BOTH_WAYS else (operands,):
        here: Match | None = replace(found, nodes=(*found.nodes, maker)) if len(way) == len(parts) else None
        for each, part in zip(way, parts, strict=False):
            here = None if here is None else matched(wiring, each, part, here)
        if here is not None:
            return here
    return None


def _is_number(wiring: Wiring, name: str, number: float, *, is_near: bool) -> bool:
    constant = wiring.constant(name)
    if constant is None or constant.size != 1 or constant.ndim > 1:
        return False
    value, exact = constant.reshape(()), np.float32(number)
    return bool(np.isclose(value, exact, rtol=1e-5, atol=1e-8) if is_near else value == exact)
