"""Where a difference comes from: the first node that differs, or none once every tensor is an output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.errors import OrionPanic
from qcgen.ir.program import Conv, Lookup, Operator, Program, Reshape, Transpose, inputs_of, joined_of
from qcgen.ir.types import Array
from qcgen.options import spelt
from qcgen.plan import plan
from qcgen.reference import evaluate_all
from qcgen.reference.tolerance import tolerances
from qcgen.render import render
from qcgen.verification.cases import Case
from qcgen.verification.compare import Difference, Outcome, add, followed
from qcgen.verification.nodes import Nodes
from qcgen.verification.running import Builder, Running


@dataclass(frozen=True)
class Cause:
    """Why outputs differ, in a sentence; ``node`` and ``first`` where a node computes something else."""

    text: str
    node: str | None = None
    first: Difference | None = None


RECORDING = "the C equals the reference: the recording was made with another model or another arithmetic"
SHARING = (
    "no node differs when every tensor is an output, nor where each is called by itself: the fault lies in how"
    " tensors share memory"
)
IN_ROWS = (
    "no node differs when every tensor is an output: the fault lies in how layers run row by row, or in how tensors"
    " share memory"
)
PROBED = "; it does not if every tensor is an output"


def locate(
    artifact: Artifact, case: Case, number: int, got: Mapping[str, Array] | None, probe: Probe, nodes: Nodes
) -> Cause:
    """Why the code gives ``got`` for a case, the ``number``th of its group, where something else was expected.

    ``probe`` and ``nodes`` are the code itself with more outputs, and node by node, built like it for the same machine.
    """
    try:
        values = evaluate_all(artifact.program, case.feeds)
    except OrionPanic as panic:
        return Cause(f"{panic}; there can be no outputs")
    if got is None:
        return Cause("the function returns 1, but Orion does not panic")
    if case.expected is not None and _agree(artifact.program, values, got):
        return Cause(RECORDING)
    planned = artifact.planned
    if not _agree(artifact.program, values, evaluate_all(planned, case.feeds)):
        return Cause(f"simplification changes the outputs: {spelt(simplify=False)} avoids it")
    computed = probe.computed(case.feeds)
    values = followed(planned, case.feeds, computed)
    allowed = tolerances(planned, values)
    for op in planned.operators:
        if op.y.name not in computed:
            continue
        before = Outcome(case.group, cases=number)
        first = add(before, {op.y.name: values[op.y.name]}, computed, allowed).first
        if first is not None:
            return Cause(f"node {_called(op)} is the first that differs", op.name, first)
    return _alone(nodes, case, number) or Cause(IN_ROWS if artifact.plan.streams else SHARING)


def _alone(nodes: Nodes, case: Case, number: int) -> Cause | None:
    """The first node that differs where it is called by itself, on the reference's tensors."""
    for node, xs, expected, tolerance in nodes.evaluated(case.feeds):
        [got] = nodes.call(node, [x[None] for x in xs])
        name = node.op.y.name
        before = Outcome(case.group, cases=number)
        first = add(before, {name: expected}, {name: got[0]}, {name: tolerance}).first
        if first is not None:
            text = f"node {_called(node.op)} differs where it is called by itself{PROBED}"
            return Cause(text, node.op.name, first)
    return None


def _called(op: Operator) -> str:
    """An operator with its type, and what it computes, too."""
    joined = joined_of(op)
    what = "table" if isinstance(op, Lookup) else "loop"
    return f"{op.name} ({op.op_type}{f', one {what} with ' if joined else ''}{', '.join(joined)})"


def _agree(program: Program, values: Mapping[str, Array], got: Mapping[str, Array]) -> bool:
    """Whether outputs are what the reference computes, whose tensors are ``values``."""
    outputs = {tensor.name: values[tensor.name] for tensor in program.outputs}
    return not add(Outcome(""), outputs, got, tolerances(program, values)).differing


# The generated code once more, with every tensor as an output.

_SUFFIX = "\nprobe"
"""Ends the names of copies; no tensor of a model is called like this."""


@dataclass(frozen=True)
class Probe:
    """Built when it is first asked, in ``folder``, which is made, as the code itself was."""

    artifact: Artifact
    builder: Builder
    folder: Path

    def computed(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Every tensor that the code computes by name, for inputs by name; in the shapes of the planned program.

        None at all where the function returns that Orion panics.
        """
        [found] = self._running.run([feeds])
        if found is None:
            return {}
        return {name.removesuffix(_SUFFIX): array for name, array in found.items()}

    @cached_property
    def _running(self) -> Running:
        own = self.artifact.plan
        program = probed(self.artifact.planned)
        options = replace(
            own.options, arena=None, io_memory="caller", input="whole", rename=()
        )  # every tensor is whole
        every = plan(program, options, own.prefix, own.model, own.node)
        return Running(Artifact(program, program, every, render(every)), self.builder, self.folder)


def probed(program: Program) -> Program:
    """The program with a copy of every inner tensor as an additional output; no operator gets another kernel by it."""
    outputs = {tensor.name for tensor in program.outputs}
    operators: list[Operator] = []
    copies: list[Transpose] = []
    for op in program.operators:
        operators.append(op)
        if op.y.name not in outputs and _can_be_probed(op, program):
            copies.append(_copy(op))
            operators.append(copies[-1])
    return replace(program, outputs=(*program.outputs, *(copy.y for copy in copies)), operators=tuple(operators))


def _copy(op: Operator) -> Transpose:
    copy = replace(op.y, name=f"{op.y.name}{_SUFFIX}")
    return Transpose(f"copy of {op.y.name}", "Transpose", op.y, copy, tuple(range(len(op.y.shape))))


def _can_be_probed(op: Operator, program: Program) -> bool:
    """Not where one more reader would change what is planned: a flattened image read by products only is not a copy."""
    if not isinstance(op, Reshape):
        return True
    readers = [reader for reader in program.operators if op.y in inputs_of(reader)]
    return not all(isinstance(reader, Conv) and reader.x.layout is None for reader in readers)
