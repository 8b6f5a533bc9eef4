"""Figures of a compiled model: flash, RAM, multiply-accumulates, kernels and certificates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from qcgen.ir.plan import Call, Plan, View
from qcgen.ir.program import macs_of


@dataclass(frozen=True)
class NodeReport:
    """One node. ``accumulator`` [lo, hi] over all channels, None for float; ``requantize`` channels by form.

    ``wraps``: some sum can leave int32; ``comparisons``: points at which the requantization was compared with the
    formula; ``passed_over``: faster kernels, each with the reason against it.
    """

    name: str
    op: str
    kernel: str
    macs: int
    constant_bytes: int
    scratch_bytes: int
    accumulator: tuple[int, int] | None
    wraps: bool
    requantize: Mapping[str, int]
    comparisons: int
    passed_over: Mapping[str, str]


@dataclass(frozen=True)
class Report:
    """A model. ``weights_bytes``: constant tables in flash; ``flash_bytes``: the same (code depends on the compiler).

    ``arena_bytes``: what the caller must lend, ``arena_lower_bound_bytes``: what no placement of its parts undercuts.
    """

    name: str
    model: str
    sha256: str
    options: Mapping[str, str]
    macs: int
    weights_bytes: int
    flash_bytes: int
    arena_bytes: int
    arena_lower_bound_bytes: int
    nodes: tuple[NodeReport, ...]

    def to_json(self) -> str:
        """The report as a JSON object, keys in the order above."""
        return json.dumps(asdict(self), indent=2)


def report(plan: Plan) -> Report:
    """The figures of a plan."""
    nodes = tuple(_node(step) if isinstance(step, Call) else _view(step) for step in plan.steps)
    constants = sum(node.constant_bytes for node in nodes)
    return Report(
        name=plan.prefix,
        model=plan.model,
        sha256=plan.sha256,
        options=asdict(plan.options),
        macs=sum(node.macs for node in nodes),
        weights_bytes=constants,
        flash_bytes=constants,
        arena_bytes=plan.arena_bytes,
        arena_lower_bound_bytes=plan.arena_lower_bound,
        nodes=nodes,
    )


def _node(call: Call) -> NodeReport:
    return NodeReport(
        name=call.op.name,
        op=call.op.op_type,
        kernel=call.kernel,
        macs=macs_of(call.op),
        constant_bytes=call.constant_bytes,
        scratch_bytes=call.scratch_bytes,
        accumulator=call.certificate.accumulator,
        wraps=call.certificate.wraps,
        requantize=dict(call.certificate.requantize or {}),
        comparisons=call.certificate.comparisons,
        passed_over={passed.kernel: passed.reason for passed in call.passed_over},
    )


def _view(view: View) -> NodeReport:
    """A node that needs no code."""
    return NodeReport(view.op.name, view.op.op_type, "none", 0, 0, 0, None, False, {}, 0, {})
