"""Where a difference comes from: the first node that computes something else than the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.build import LoadedModel, build
from qcgen.ir.program import Conv, Operator, Program, Reshape, Transpose, inputs_of
from qcgen.ir.types import Array
from qcgen.plan import plan
from qcgen.reference import evaluate_all
from qcgen.reference.tolerance import tolerances
from qcgen.render import render
from qcgen.verify.boundary import run
from qcgen.verify.compare import Difference, Outcome, add
from qcgen.verify.inputs import Case


@dataclass(frozen=True)
class Cause:
    """Why outputs differ, in a sentence; ``node`` and ``first`` where a node computes something else."""

    text: str
    node: str | None = None
    first: Difference | None = None


RECORDING = "the C equals the reference: the recording was made with another model or another arithmetic"
SIMPLIFICATION = "simplification changes the outputs: --no-simplify avoids it"
SHARING = "no node differs when every tensor is an output: the fault lies in how tensors share memory"


def locate(artifact: Artifact, case: Case, got: Mapping[str, Array], flags: Sequence[str], folder: Path) -> Cause:
    """Why the code gives ``got`` for a case; every tensor is made an output for that, and the code built once more.

    ``folder`` is empty.
    """
    if case.expected is not None and _agrees(artifact.program, case, got):
        return Cause(RECORDING)
    values = evaluate_all(artifact.planned, case.feeds)
    if not _agrees(artifact.program, case, values):
        return Cause(SIMPLIFICATION)
    probed = _probed(artifact.planned)
    own = artifact.plan
    probe = plan(probed, own.options, own.prefix, own.model, own.node)
    computed = run(probe, LoadedModel(probe, build(render(probe), flags, folder)), case.feeds)
    allowed = tolerances(artifact.planned, values)
    for op in artifact.planned.operators:
        name = op.y.name
        if (key := name if name in computed else _probe_name(name)) in computed:
            outcome = add(Outcome(case.group), {name: values[name]}, {name: computed[key]}, allowed)
            if outcome.first is not None:
                return Cause(f"node {op.name} ({op.op_type}) is the first that differs", op.name, outcome.first)
    return Cause(SHARING)


def _agrees(program: Program, case: Case, got: Mapping[str, Array]) -> bool:
    """Whether outputs are what the reference computes."""
    values = evaluate_all(program, case.feeds)
    outputs = {tensor.name: values[tensor.name] for tensor in program.outputs}
    return not add(Outcome(case.group), outputs, got, tolerances(program, values)).differing


def _probed(program: Program) -> Program:
    """The program with a copy of every inner tensor as an additional output; no operator gets another kernel by it."""
    outputs = {tensor.name for tensor in program.outputs}
    copies = [_copy(op) for op in program.operators if op.y.name not in outputs and _can_be_probed(op, program)]
    by_source = {copy.x.name: copy for copy in copies}
    operators: list[Operator] = []
    for op in program.operators:
        operators += [op, *([by_source[op.y.name]] if op.y.name in by_source else [])]
    return replace(program, outputs=(*program.outputs, *(copy.y for copy in copies)), operators=tuple(operators))


def _copy(op: Operator) -> Transpose:
    copy = replace(op.y, name=_probe_name(op.y.name))
    return Transpose(f"copy of {op.y.name}", "Transpose", op.y, copy, tuple(range(len(op.y.shape))))


def _probe_name(name: str) -> str:
    """No tensor of a model is called like this."""
    return f"{name}\nprobe"


def _can_be_probed(op: Operator, program: Program) -> bool:
    """Not where one more reader would change what is planned: a flattened image that only products read is no copy."""
    if not isinstance(op, Reshape):
        return True
    readers = [reader for reader in program.operators if op.y in inputs_of(reader)]
    return not all(isinstance(reader, Conv) and reader.x.layout is None for reader in readers)
