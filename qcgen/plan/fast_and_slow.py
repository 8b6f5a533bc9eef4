"""An arena over two memories: what is read and written most, for each of its bytes, lies in the fast one.

Accesses are estimated from what operators do, not from how their kernels do it: a convolution reads each element of its
windows once for each four output channels, or gathers the windows in scratch memory and reads that as often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.program import Conv, Operator, inputs_of, macs_of
from qcgen.kernels import Prepared
from qcgen.options import spelt
from qcgen.plan.arrange import Arranged
from qcgen.plan.memory import Buffer, BufferName, Placement, ScratchMemory, lower_bound, place
from qcgen.plan.sharing import Storage, bytes_of

CHANNELS = 4  # of the output, which kernels compute together: each element that is read serves all of them


@dataclass(frozen=True)
class Memories:
    """How many bytes an arena may have in the fast memory, and how many in the slow one."""

    fast: int
    slow: int


@dataclass(frozen=True)
class Split:
    """The placements of an arena's two parts; ``share`` of all accesses, by the estimate, go to the fast one."""

    fast: Placement
    slow: Placement
    share: float


def accesses(
    steps: Sequence[Arranged], prepared: Sequence[Prepared | None], storages: Mapping[str, Storage]
) -> Counter[BufferName]:
    """Bytes that one inference reads and writes of each buffer: an estimate."""
    found: Counter[BufferName] = Counter()
    for index, (step, packed) in enumerate(zip(steps, prepared, strict=True)):
        if packed is None:
            continue
        op, scratch = step.op, sum(each.bytes for each in packed.scratch)
        found[storages[op.y.name].root] += bytes_of(op.y)
        for x in inputs_of(op):
            if x.name in storages:
                found[storages[x.name].root] += _gathered(op, bytes_of(x)) if scratch else _read(op, bytes_of(x))
        for number, each in enumerate(packed.scratch):
            reads = _read(op, bytes_of(inputs_of(op)[0])) * each.bytes // max(1, scratch)
            found[ScratchMemory(index, index, number)] += each.bytes + reads
    return found


def _read(op: Operator, least: int) -> int:
    """Bytes of an input that a kernel reads where it computes some output channels together."""
    if isinstance(op, Conv):
        return max(least, macs_of(op) // min(CHANNELS, op.geometry.out_channels // op.geometry.group))
    return max(least, macs_of(op) // CHANNELS)


def _gathered(op: Operator, least: int) -> int:
    """Bytes of an input that a kernel reads which copies each window, for all output channels."""
    if isinstance(op, Conv):
        g = op.geometry
        return max(least, g.batch * prod(g.output) * prod(g.kernel) * g.in_channels)
    return least


def split(
    buffers: Sequence[Buffer], counts: Mapping[BufferName, int], kept: Sequence[BufferName], most: Memories
) -> Split:
    """A place for every buffer in one of two memories; those that are ``kept`` from call to call lie in the fast one.

    The others go there in the order of their accesses for each byte, as long as it has room. Raises ModelRejected if
    what is left does not fit the slow one, and if nothing is left.
    """
    order = sorted(buffers, key=lambda each: (each.name not in kept, -counts[each.name] / max(1, each.bytes)))
    fast: list[Buffer] = []
    placed = Placement({}, 0, 0)
    for buffer in order:
        wanted = [*fast, buffer]
        if lower_bound(wanted) > most.fast:
            continue
        tried = place(wanted, most.fast)
        if tried.bytes <= most.fast:
            fast, placed = wanted, tried
    names = {buffer.name for buffer in fast}
    # In the slow memory outputs lie beside their inputs, not over them: nothing then depends on the order of accesses.
    rest = [replace(buffer, over={}) for buffer in buffers if buffer.name not in names]
    slow = place(rest)
    if problem := _problem(rest, slow, kept, most):
        raise ModelRejected([problem])
    total = sum(counts[buffer.name] for buffer in buffers)
    return Split(placed, slow, sum(counts[name] for name in names) / max(1, total))


def _problem(rest: Sequence[Buffer], slow: Placement, kept: Sequence[BufferName], most: Memories) -> Problem | None:
    where = f"{most.fast}+{most.slow}"
    if not rest:
        what = "all tensors fit into the fast memory"
        return Problem(spelt(arena=where), what, f"use {spelt(arena=most.fast)}")
    if any(buffer.name in kept for buffer in rest):
        what = f"states, which stay from call to call, do not fit {most.fast} bytes of fast memory"
        return Problem(spelt(arena=where), what, f"give it more, or use {spelt(state='caller')}")
    if slow.bytes > most.slow:
        what = f"beside {most.fast} bytes of fast memory tensors need {slow.bytes} bytes of slow memory"
        return Problem("the network", what, f"use {spelt(arena=f'{most.fast}+{slow.bytes}')}")
    return None
