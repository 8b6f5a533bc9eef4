"""What the code of each kernel takes, of flash and of time: a few numbers, without building it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from qcgen.cores import TARGETS
from qcgen.ir.plan import Call, Plan, Stream, Stretch, TensorMove, Turn
from qcgen.ir.program import Movement, Operator, Resize, Transpose, inputs_of, macs_of


@dataclass(frozen=True)
class Price:
    """``code``: bytes of an operation in C (qcgen.estimate), gcc -O2. Cycles: ``per_mac`` for each multiply-add, and
    ``per_element`` for each element of the larger input and of the output.
    """

    code: float
    per_mac: float
    per_element: float


def _measured() -> dict[str, dict[tuple[str, str], Price]]:
    found: dict[str, dict[tuple[str, str], Price]] = {}
    lines = files("qcgen.plan").joinpath("measured.csv").read_text(encoding="utf-8").splitlines()
    for core, kernel, optimize, *numbers in csv.reader(lines[1:]):
        found.setdefault(core, {})[kernel, optimize] = Price(*map(float, numbers))
    return found


MEASURED = _measured()
"""By core, and by the kernel and what it is compiled for; ``python -m tests.bench.prices`` writes the file."""

ANY_KERNEL = Price(code=2.5, per_mac=4.0, per_element=20.0)
"""Of a kernel that was not measured on the core: the order of size of the others."""

SPEED_GAIN = 0.9
"""What such a kernel is taken to need for speed, of its time for size: which of its layers come first, is right so."""


def price(target: str, kernel: str, optimize: str) -> Price:
    """The numbers of a kernel, compiled for size or for speed; those of any kernel where it was not measured."""
    measured = MEASURED.get(TARGETS[target].priced_as or target, {})
    found = measured.get((kernel, optimize))
    if found is not None:
        return found
    gain = SPEED_GAIN if optimize == "speed" else 1
    return Price(ANY_KERNEL.code, ANY_KERNEL.per_mac * gain, ANY_KERNEL.per_element * gain)


IN_FLOAT = {True: Price(ANY_KERNEL.code, per_mac=5.0, per_element=8.0), False: Price(ANY_KERNEL.code, 110.0, 60.0)}
"""Of kernels in float on cores with an FPU and without: counted on a Cortex-M4 and a Cortex-M3, rounded."""

MOVED = {True: Price(ANY_KERNEL.code, 0.0, per_element=0.7), False: Price(ANY_KERNEL.code, 0.0, per_element=4.0)}
"""Of operators that move blocks of elements, on cores that read words anywhere and on others: counted on a Cortex-M4,
M55, M0 and RV32IMC, rounded.
"""

SCATTERED = {True: Price(ANY_KERNEL.code, 0.0, per_element=2.5), False: Price(ANY_KERNEL.code, 0.0, per_element=6.0)}
"""Of Transpose and Resize, whose blocks are short."""

PER_MOVED_BYTE = 1.0
"""Cycles of memmove, about."""


def cycles_of_moves(moves: Iterable[TensorMove]) -> float:
    """What it takes to move tensors between two layers, about."""
    return PER_MOVED_BYTE * sum(move.bytes for move in moves)


def _time(op: Operator, kernel: str, optimize: str, target: str) -> Price:
    """The numbers of a kernel, of which those for cycles are read."""
    measured = MEASURED.get(TARGETS[target].priced_as or target, {})
    is_float = any(tensor.dtype.is_float for tensor in (*inputs_of(op), op.y))
    if isinstance(op, Movement):
        prices = SCATTERED if isinstance(op, Transpose | Resize) else MOVED
        return prices[TARGETS[TARGETS[target].priced_as or target].reads_words_anywhere]
    if is_float and (kernel, optimize) not in measured:
        return IN_FLOAT[TARGETS[target].has_fpu]
    return price(target, kernel, optimize)


def cycles_of_kernel(op: Operator, kernel: str, optimize: str, target: str) -> float:
    """Of one call, about, without wait states: for its multiply-adds and the elements of its tensors."""
    own = _time(op, kernel, optimize, target)
    # Of a larger input what is moved counts alone.
    elements = 2 * op.y.size if isinstance(op, Movement) else op.y.size + max(x.size for x in inputs_of(op))
    return own.per_mac * macs_of(op) + own.per_element * elements


def cycles(call: Call, target: str) -> float:
    """The same; tiles take more or less for an output by their size: their kernel counts for itself."""
    once = cycles_of_kernel(call.op, call.kernel, call.optimize, target) if call.cycles is None else call.cycles
    return call.passes * once


def longest_stretch(plan: Plan) -> Stretch | None:
    """The most that passes between two calls of the hook, or from the start to the first; None if there is none.

    What the caller does between two rows that it pushes is not counted.
    """
    return max(_stretches(plan), key=lambda each: each.cycles, default=None)


def _stretches(plan: Plan) -> Iterator[Stretch]:
    """Each stretch, in the order in which they run."""
    since = 0.0
    for call, more in _work(plan):
        since += more
        if call is not None:
            yield Stretch(call.op.name, round(since))
            since = 0.0


def _work(plan: Plan) -> Iterator[tuple[Call | None, float]]:
    """What runs and its cycles: a call, behind which the hook is called, or bytes that are moved or filled."""
    for step in plan.steps:
        match step:
            case Call():
                yield step, cycles(step, plan.options.target)
            case TensorMove():
                yield None, PER_MOVED_BYTE * step.bytes
            case Stream():
                yield from _work_in_rows(step, plan.options.target)


def _work_in_rows(stream: Stream, target: str) -> Iterator[tuple[Call | None, float]]:
    first = stream.first_pass
    if first is not None:
        yield from _work_of_turns(stream, (*stream.turns[:-1], first.turn), target)
        yield from ((call, cycles(call, target)) for call in first.calls)
    yield from _work_of_turns(stream, stream.turns, target)


def _work_of_turns(stream: Stream, turns: Sequence[Turn], target: str) -> Iterator[tuple[Call | None, float]]:
    """What one pass runs."""
    order = [int(number) for number in stream.order.values[:, 0]]
    costs = [_cycles_of_turn(turn, order.count(number), target) for number, turn in enumerate(turns)]
    yield None, PER_MOVED_BYTE * sum(fill.bytes for fill in stream.above)
    for number in order:
        if number >= len(turns):
            yield None, PER_MOVED_BYTE * stream.below[number - len(turns)].bytes
            continue
        yield turns[number].call, costs[number]
        yield None, PER_MOVED_BYTE * sum(move.bytes for move in turns[number].moves)


def _cycles_of_turn(turn: Turn, times: int, target: str) -> float:
    """Of one of so many turns: of the rows that it computes, or of its part of the layer."""
    if turn.call is None:
        return PER_MOVED_BYTE * turn.row_bytes
    if turn.part is None or turn.call.cycles is not None:
        return cycles(turn.call, target) / (turn.call.passes * times)
    return cycles_of_kernel(turn.part, turn.call.kernel, turn.call.optimize, target)
