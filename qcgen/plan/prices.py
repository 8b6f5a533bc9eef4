"""What the code of each kernel takes, of flash and of time: a few numbers, without building it."""

from __future__ import annotations

from collections.abc import Iterable

from qcgen.ir.plan import Call, TensorMove
from qcgen.ir.program import inputs_of, macs_of
from qcgen.plan.measured import MEASURED, Price
from qcgen.targets import TARGETS

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

PER_MOVED_BYTE = 1.0
"""Cycles of memmove, about."""


def cycles_of_moves(moves: Iterable[TensorMove]) -> float:
    """What it takes to move tensors between two layers, about."""
    return PER_MOVED_BYTE * sum(move.bytes for move in moves)


def _time(call: Call, target: str) -> Price:
    """The numbers of a call's kernel, of which those for cycles are read."""
    measured = MEASURED.get(TARGETS[target].priced_as or target, {})
    is_float = any(tensor.dtype.is_float for tensor in (*inputs_of(call.op), call.op.y))
    if is_float and (call.kernel, call.optimize) not in measured:
        return IN_FLOAT[TARGETS[target].has_fpu]
    return price(target, call.kernel, call.optimize)


def cycles(call: Call, target: str) -> float:
    """Of one call of a kernel, about, without wait states: for its multiply-adds and the elements of its tensors.

    Tiles take more or less for an output by their size: their kernel counts for itself.
    """
    if call.cycles is not None:
        return call.cycles
    own = _time(call, target)
    elements = call.op.y.size + max(x.size for x in inputs_of(call.op))
    return own.per_mac * macs_of(call.op) + own.per_element * elements
