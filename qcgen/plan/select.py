"""The kernel of each operator: the first in the list that serves it on the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qcgen.ir.plan import Rejected
from qcgen.ir.program import Operator
from qcgen.kernels import Kernel, Setting


@dataclass(frozen=True)
class Selection:
    """The chosen kernel, and why those before it in the list were not chosen."""

    kernel: Kernel
    rejected: tuple[Rejected, ...]


def select(op: Operator, setting: Setting, kernels: Sequence[Kernel], wanted: str = "") -> Selection:
    """The first kernel whose needs the target meets and that finds no reason against the operator.

    Kernels that need other features than the target has are not mentioned: nothing can be done about them. ``wanted``:
    the name of one that comes before all others.
    """
    rejected: list[Rejected] = []
    for kernel in sorted(kernels, key=lambda each: each.name != wanted):
        if not kernel.needs <= setting.features:
            continue
        reason = kernel.why_not(op, setting)
        if reason is None:
            return Selection(kernel, tuple(rejected))
        rejected.append(Rejected(kernel.name, reason))
    raise AssertionError(f"no kernel accepts {op.name}")
