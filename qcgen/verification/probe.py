"""The generated code once more, with every tensor as an output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.ir.program import Conv, Operator, Program, Reshape, Transpose, inputs_of
from qcgen.ir.types import Array
from qcgen.plan import plan
from qcgen.render import render
from qcgen.verification.running import Builder, Running

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
