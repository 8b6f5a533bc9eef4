"""The kernel of each operator: of those that serve it on the target, the one that takes the fewest instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qcgen.ir.plan import PassedOver
from qcgen.ir.program import Operator
from qcgen.kernels import Kernel, Setting


@dataclass(frozen=True)
class Selection:
    """The chosen kernel, the instructions that it is expected to take, and why others were not chosen."""

    kernel: Kernel
    cost: int | None
    passed_over: tuple[PassedOver, ...]


def select(op: Operator, setting: Setting, kernels: Sequence[Kernel]) -> Selection:
    """The cheapest kernel whose needs the target meets and that finds no reason against the operator.

    The first of these, in the order of the list, is chosen if it has no figures for the core; else the one with the
    lowest cost, of equals the first. A kernel without figures that stands further down is not compared: it would have
    been chosen only if nothing before it served. Nor is one that needs no feature of the target where one serves that
    does: what gcc makes of portable code is known too roughly. ``passed_over``: the kernels before the chosen one that
    do not serve, and every one that would be slower. Kernels that need other features than the target has are not
    mentioned: nothing can be done about them.
    """
    able = [kernel for kernel in kernels if kernel.needs <= setting.features]
    reasons = {kernel.name: kernel.why_not(op, setting) for kernel in able}
    serving = [kernel for kernel in able if reasons[kernel.name] is None]
    if not serving:
        raise AssertionError(f"no kernel accepts {op.name}")
    chosen, costs = serving[0], _costs(op, setting, serving)
    if chosen.name in costs:
        compared = [kernel for kernel in serving if kernel.name in costs and bool(kernel.needs) == bool(chosen.needs)]
        chosen = min(compared, key=lambda kernel: costs[kernel.name])
    own = costs.get(chosen.name)
    passed_over = []
    for index, kernel in enumerate(able):
        reason = reasons[kernel.name]
        if reason is not None and index < able.index(chosen):
            passed_over.append(PassedOver(kernel.name, reason))
        elif kernel is not chosen and own is not None and costs.get(kernel.name, 0) >= own:
            passed_over.append(PassedOver(kernel.name, slower(costs[kernel.name], own), costs[kernel.name]))
    return Selection(chosen, own, tuple(passed_over))


def _costs(op: Operator, setting: Setting, serving: Sequence[Kernel]) -> dict[str, int]:
    """The costs that are known, by the kernel's name; none at all if the first kernel's is not."""
    costs: dict[str, int] = {}
    for index, kernel in enumerate(serving):
        cost = kernel.cost(op, setting)
        if cost is not None:
            costs[kernel.name] = round(cost)
        elif index == 0:
            break
    return costs


def slower(cost: int, chosen: int) -> str:
    """Why a kernel that serves was not chosen.

    >>> slower(1234567, 1000000)
    'about 1 234 567 instructions, the chosen one about 1 000 000'
    """
    counts = (f"{count:,}".replace(",", " ") for count in (cost, chosen))
    return "about {} instructions, the chosen one about {}".format(*counts)
