"""Leading dimensions of inputs that a model leaves open become a number: exporters name the batch anew each time."""

from __future__ import annotations

from dataclasses import replace

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Dim, Graph, Value
from qcgen.options import spelt

BATCH = 1
"""On a microcontroller there is mostly one case at a time."""


def fix_batch(graph: Graph, batch: int | None) -> Graph:
    """The graph with ``batch`` in place of open leading dimensions, 1 if it is None; that is noted then.

    Vectors have no batch. Raises ModelRejected if the batch of the user is not positive or not that of an input.
    """
    if problems := _problems(graph, batch):
        raise ModelRejected(problems)
    size = BATCH if batch is None else batch
    opened = [value for value in map(graph.value, graph.inputs) if _leads(value) and not isinstance(_first(value), int)]
    if not opened:
        return graph
    symbols = {_first(value) for value in opened} - {None}
    names = {value.name for value in opened}
    values = {name: _fixed(value, symbols, size, name in names) for name, value in graph.values.items()}
    named = (f"{name} of" if (name := _first(value)) else "of" for value in opened)
    what = ", ".join(f"{name} input {value.name!r}" for name, value in zip(named, opened, strict=True))
    note = f"batch: the leading dimension {what} is open and taken as {size}; {spelt(batch='N')} takes another"
    return replace(graph, values=values, notes=(*graph.notes, note) if batch is None else graph.notes)


def _problems(graph: Graph, batch: int | None) -> list[Problem]:
    if batch is None:
        return []
    if batch < 1:
        return [Problem("batch", f"it is set to {batch}", "set it to a positive number")]
    hint = f"export the model with an open batch, or leave out {spelt('batch')}"
    return [
        Problem(f"input {value.name!r}", f"its first dimension is {first}, not {batch} as {spelt('batch')} says", hint)
        for value in map(graph.value, graph.inputs)
        if _leads(value) and isinstance(first := _first(value), int) and first != batch
    ]


def _leads(value: Value) -> bool:
    return value.shape is not None and len(value.shape) > 1


def _first(value: Value) -> Dim:
    return value.shape[0] if value.shape else None


def _fixed(value: Value, symbols: set[Dim], size: int, is_opened: bool) -> Value:
    if value.shape is None:
        return value
    shape = tuple(size if dim in symbols else dim for dim in value.shape)
    return replace(value, shape=(size, *shape[1:]) if is_opened else shape)
