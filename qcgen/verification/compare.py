"""Outputs of generated code against what they must be, and where a difference comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from qcgen.arithmetic import meant_text
from qcgen.artifact import Artifact
from qcgen.errors import OrionPanic
from qcgen.ir.program import (
    Conv,
    DynamicParameter,
    DynamicQuantize,
    GlobalAveragePool,
    Lookup,
    Operator,
    Program,
    Quantize,
    Reshape,
    RoundOnce,
    Transpose,
    inputs_of,
    joined_of,
)
from qcgen.ir.types import Array
from qcgen.options import spelt
from qcgen.plan import plan
from qcgen.reference import evaluate_all, evaluate_operator
from qcgen.reference.tolerance import exact, tolerances
from qcgen.render import render
from qcgen.verification.cases import Case
from qcgen.verification.nodes import Nodes
from qcgen.verification.running import Builder, Running


@dataclass(frozen=True)
class Difference:
    """The first output that differs: ``index`` in the model's own shape of ``output``; ``case`` counts from 0."""

    group: str
    case: int
    output: str
    index: tuple[int, ...]
    expected: float
    got: float

    def __str__(self) -> str:
        where = f"{self.output}{list(self.index) or ''} of {self.group} case {self.case}"
        return f"{where}: expected {self.expected!r}, got {self.got!r}"


@dataclass(frozen=True)
class Outcome:
    """What the cases of one group gave: ``outputs`` compared, ``differing`` among them, the first of these.

    In ``panics`` of the cases Orion panics, and what the function returns counts as the only output.
    """

    group: str
    cases: int = 0
    outputs: int = 0
    differing: int = 0
    first: Difference | None = None
    panics: int = 0


class Compared:
    """What the outcomes of all groups add up to."""

    outcomes: tuple[Outcome, ...]

    @property
    def cases(self) -> int:
        """The number of inputs tried."""
        return sum(outcome.cases for outcome in self.outcomes)

    @property
    def outputs(self) -> int:
        """The number of outputs compared."""
        return sum(outcome.outputs for outcome in self.outcomes)

    @property
    def panics(self) -> int:
        """The number of inputs on which Orion panics, so that what the function returned was compared."""
        return sum(outcome.panics for outcome in self.outcomes)

    @property
    def differing(self) -> int:
        """The number of outputs that differ from what they must be."""
        return sum(outcome.differing for outcome in self.outcomes)

    @property
    def first(self) -> Difference | None:
        """The first output that differs, None if there is none."""
        return next((outcome.first for outcome in self.outcomes if outcome.first), None)


RETURNED = "the return value"
"""What is compared where there are no outputs: 1 where Orion panics, else 0."""


def add_returned(outcome: Outcome, expected: int, got: int) -> Outcome:
    """The outcome with one more case in which the function returned ``got``."""
    names = {RETURNED: expected}, {RETURNED: got}, {RETURNED: 0}
    added = add(outcome, *({name: np.array(value) for name, value in each.items()} for each in names))
    return replace(added, panics=outcome.panics + expected)


def differences(expected: Array, got: Array, tolerance: Array) -> Array:
    """Where |got - expected| > tolerance (same shapes); equal infinities are equal, NaN equals NaN and nothing else."""
    with np.errstate(invalid="ignore"):
        near = np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= tolerance
    different: Array = ~(near | (got == expected) | (np.isnan(got) & np.isnan(expected)))
    return different


def add(
    outcome: Outcome, expected: Mapping[str, Array], got: Mapping[str, Array], tolerances: Mapping[str, Array]
) -> Outcome:
    """The outcome with one more case."""
    outputs, differing, first = outcome.outputs, outcome.differing, outcome.first
    for name, wanted in expected.items():
        different = differences(wanted, got[name], tolerances[name])
        outputs += different.size
        differing += int(different.sum())
        if first is None and different.any():
            index = tuple(int(i) for i in np.unravel_index(int(different.argmax()), different.shape))
            pair = wanted[index].item(), got[name][index].item()
            first = Difference(outcome.group, outcome.cases, name, index, *pair)
    return replace(outcome, cases=outcome.cases + 1, outputs=outputs, differing=differing, first=first)


# What the reference expects, where float32 rounding leaves a choice: after the choice that the C has made.


def reference_text(program: Program, numerics: str) -> str:
    """The arithmetic of the reference, for people; where that is not onnxruntime's own, how it differs."""
    rounds_once = any(
        (isinstance(op, Conv) and isinstance(op.epilogue, RoundOnce) and not op.epilogue.is_up)
        or (isinstance(op, GlobalAveragePool) and isinstance(op.requantize, RoundOnce))
        for op in program.operators
    )
    own = "; sums that become codes of 16 bits are rounded once, not in float32" if rounds_once else ""
    return meant_text(numerics) + own


def leaves_a_choice(program: Program) -> bool:
    """Whether numbers that are computed in float32 are quantized: near the middle of two codes either one is right."""
    return bool(_choices(program))


def followed(program: Program, feeds: Mapping[str, Array], computed: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor by name, evaluated from the codes in ``computed`` wherever those are as right as the reference's.

    They are right if a number within the tolerance of the reference's has that code.
    """
    allowed = tolerances(program, evaluate_all(program, feeds))
    choices = _choices(program)
    values = {**program.constants, **feeds}
    for op in program.operators:
        xs = [values[x.name] for x in inputs_of(op)]
        y = evaluate_operator(op, *xs)
        got = computed.get(op.y.name)
        if op.y.name in choices and got is not None and got.shape == y.shape:
            error = allowed[inputs_of(op)[0].name].astype(xs[0].dtype)
            one, other = (evaluate_operator(op, x, *xs[1:]) for x in (xs[0] - error, xs[0] + error))
            is_right = (np.minimum(one, other) <= got) & (got <= np.maximum(one, other))
            y[is_right] = got[is_right]
        values[op.y.name] = y
    return values


def _choices(program: Program) -> frozenset[str]:
    """The names of quantized tensors that come from inexact ones."""
    known = exact(program)
    kinds = Quantize | DynamicQuantize | DynamicParameter
    codes = [op for op in program.operators if isinstance(op, kinds) and not op.y.dtype.is_float]
    return frozenset(op.y.name for op in codes if op.x.name not in known)


# Where a difference comes from: the first node that differs, or none once every tensor is an output.


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
