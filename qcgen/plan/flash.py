"""The fastest plan whose code and constants fit into so many bytes of flash: what each layer spends is chosen.

Each layer has a form: size, paired weights, tiles whose weights are transformed in RAM or lie in flash. From all
layers for size on, the change that gains most for each byte that it takes is made next, as long as there is room.
Changes are priced alone; the plan with all of them is then made and measured as a whole, and the room is corrected by
what it takes more or less. Where several such plans in a row are too large, because layers no longer share functions,
the next room is half way to that of the last plan that fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.plan import FlashUse, Plan
from qcgen.kernels import FORMS, SIZE, Form
from qcgen.options import spelt
from qcgen.plan import Planner
from qcgen.plan.prices import cycles

CodeBytes = Callable[[Plan], Sequence[int]]
"""Estimates the code of a plan: of each call, then of the rest."""

MARGIN = 1.1
"""Code is counted for so many times its estimate, which is up to a tenth off."""

LEAST_GAIN = 0.01
"""Of a layer's cycles: what gains less is within what estimates are off, and is left as it is."""

TRIES = 8
"""Plans that are made at most before the best of them is taken."""

TOO_LARGE = 3
"""After so many plans in a row that are too large the room is bisected, not corrected."""


@dataclass(frozen=True)
class FormChange:
    """An operator, by its name, gets another form: more ``bytes`` of flash and of ``scratch``, fewer ``cycles``."""

    name: str
    form: Form
    bytes: float
    cycles: float
    scratch: int


@dataclass(frozen=True)
class _Cost:
    bytes: float
    cycles: float
    scratch: int


FlashBytes = Callable[[Plan], int | None]
"""Measures code and constants of a plan; None where no compiler for its target is installed."""


def within(planner: Planner, budget: int, code_bytes: CodeBytes, measured: FlashBytes) -> Plan:
    """The fastest plan found that takes ``budget`` bytes of flash at most; ``arena`` of the options holds, too.

    With ``--arena least`` the arena is that of all layers for size. Where no plan fits by its estimate, the smallest is
    taken if it fits as ``measured``; ModelRejected if it does not.
    """
    arena = planner.limit
    small = _used(planner.plan({}, SIZE, arena), code_bytes)
    if arena == "least":
        arena = small.arena_bytes
    costs = _costs(planner, code_bytes)
    found, room = [small], float(budget - _bytes(small))
    refused: set[tuple[str, Form]] = set()
    tried: list[Mapping[str, Form]] = [{}]
    least, most, too_large = 0.0, inf, 0  # room of the last plan that fitted, and of the last one that did not
    while len(tried) <= TRIES + len(refused):
        changes = list(_changes(costs, room, refused))
        forms = {change.name: change.form for change in changes}
        if forms in tried:
            break
        tried.append(forms)
        try:
            plan = _used(planner.plan(forms, SIZE, arena), code_bytes)
        except ModelRejected:  # the arena has no room for what the forms copy or transform
            largest = max(changes, key=lambda change: change.scratch)
            refused.add((largest.name, largest.form))
            continue
        found.append(plan)
        if _bytes(plan) > budget:
            most, too_large = room, too_large + 1
        else:
            least, too_large = room, 0
        expected = _bytes(small) + sum(change.bytes for change in changes)
        corrected = budget - _bytes(small) - (_bytes(plan) - expected)
        is_bisected = most < inf and (too_large >= TOO_LARGE or not least < corrected < most)
        room = (least + most) / 2 if is_bisected else corrected
    fitting = [plan for plan in found if _bytes(plan) <= budget]
    return min(fitting, key=_cycles) if fitting else _smallest(found, budget, measured)


def _smallest(found: Sequence[Plan], budget: int, measured: FlashBytes) -> Plan:
    """The smallest plan, as small as the compiler makes it; the same on every machine that does not refuse it."""
    plan = min(found, key=_bytes)
    count = measured(plan)
    plan = plan if count is None else replace(plan, flash=FlashUse(count, _cycles(plan)))
    if _bytes(plan) > budget:
        raise _too_small(budget, _bytes(plan))
    return plan


def curve(planner: Planner, code_bytes: CodeBytes) -> tuple[FlashUse, ...]:
    """What the network takes, of flash and of time, change by change: each alone priced, from size on.

    The arena is as large as the forms want it.
    """
    small = _used(planner.plan({}, SIZE, None), code_bytes)
    costs = _costs(planner, code_bytes)
    points = [_flash(small)]
    for change in _changes(costs, float("inf"), set(), is_each=True):
        last = points[-1]
        points.append(replace(last, bytes=last.bytes + round(change.bytes), cycles=last.cycles - round(change.cycles)))
    return tuple(points)


def _costs(planner: Planner, code_bytes: CodeBytes) -> dict[str, dict[Form, _Cost]]:
    """What each operator costs in each form, where all have this form."""
    target = planner.options.target
    costs: dict[str, dict[Form, _Cost]] = {}
    for form in FORMS:
        plan = planner.plan({}, form, None)
        for call, code in zip(plan.calls, code_bytes(plan), strict=False):
            cost = _Cost(call.constant_bytes + MARGIN * code, cycles(call, target), call.scratch_bytes)
            costs.setdefault(call.op.name, {})[form] = cost
    return {name: own for name, own in costs.items() if len(own) == len(FORMS)}


def _changes(
    costs: Mapping[str, Mapping[Form, _Cost]],
    room: float,
    refused: Collection[tuple[str, Form]],
    *,
    is_each: bool = False,
) -> Iterator[FormChange]:
    """The changes that are made, the best first, those that take no flash in any case.

    Of an operator the last one, or with ``is_each`` one after the other.
    """
    now = dict.fromkeys(costs, SIZE)
    made: dict[str, FormChange] = {}
    while True:
        steps = [
            FormChange(name, form, own[form].bytes - own[now[name]].bytes, own[now[name]].cycles - own[form].cycles, 0)
            for name, own in costs.items()
            for form in own
            if (name, form) not in refused
        ]
        least = {name: LEAST_GAIN * own[SIZE].cycles for name, own in costs.items()}
        useful = [step for step in steps if step.cycles > least[step.name] and step.bytes <= max(room, 0)]
        if not useful:
            break
        step = max(useful, key=lambda step: step.cycles / max(step.bytes, 1))
        room -= step.bytes
        now[step.name] = step.form
        own = costs[step.name]
        made[step.name] = replace(
            step, bytes=own[step.form].bytes - own[SIZE].bytes, scratch=own[step.form].scratch - own[SIZE].scratch
        )
        if is_each:
            yield step
    if not is_each:
        yield from made.values()


def _used(plan: Plan, code_bytes: CodeBytes) -> Plan:
    """The plan with what it takes of flash and of time."""
    code = ceil(MARGIN * sum(code_bytes(plan)))
    constants = sum(call.constant_bytes for call in plan.calls) + sum(s.order.bytes for s in plan.streams)
    time = round(sum(cycles(call, plan.options.target) for call in plan.calls))
    return replace(plan, flash=FlashUse(constants + code, time))


def _flash(plan: Plan) -> FlashUse:
    assert plan.flash is not None, "it was measured"
    return plan.flash


def _bytes(plan: Plan) -> int:
    return _flash(plan).bytes


def _cycles(plan: Plan) -> int:
    return _flash(plan).cycles


def _too_small(budget: int, least: int) -> ModelRejected:
    what = f"its code and constants do not fit {budget} bytes of flash; the least that was reached is {least} bytes"
    return ModelRejected([Problem("the network", what, f"use {spelt(flash=least)} or more")])
