"""Generated code, built and run on many inputs of the model's own shapes, here or on an emulated core."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from qcgen.artifact import Artifact
from qcgen.build import LoadedModel, build, build_command, defined
from qcgen.cores import TARGETS
from qcgen.emulate import Image, Trial, cross_build, emulate
from qcgen.errors import OrionPanic, ToolMissing
from qcgen.ir.plan import Plan, Port
from qcgen.ir.types import Array, Layout
from qcgen.options import spelt
from qcgen.plan.arrange import boundary_layout

Feeds = Sequence[Mapping[str, Array]]
"""Inputs by name for each case, in the model's own shapes."""

Results = list[dict[str, Array] | None]
"""Outputs by name for each case, in the model's own shapes; None where the function returned that Orion panics."""


@dataclass(frozen=True)
class Builder:
    """How code is built: with ``flags``, for this machine or, if ``core`` is one, for it with ``compiler``."""

    flags: Sequence[str]
    core: str | None = None
    compiler: str = "gcc"


def usual_flags(target: str, emulated: bool) -> tuple[str, ...]:
    """Flags of the C compiler for a target; code for the host gets the instructions that this machine has."""
    if emulated or not TARGETS[target].instructions:
        return ("-O2",)
    return ("-O3", "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native")


def not_run(plan: Plan, builder: Builder) -> str:
    """Which instructions the code has that are not run, in a sentence; "" if it has none, or they are."""
    macros = TARGETS[plan.options.target].instructions
    uses = any(call.kernel.startswith("host/") for call in plan.calls)
    if builder.core is not None or not uses or not defined(builder.flags).isdisjoint(macros):
        return ""
    return (
        f"built with {shlex.join(builder.flags)} the code has neither VNNI nor SDOT here: these instructions were not"
        " run, only their portable meaning"
    )


@dataclass(frozen=True)
class Running:
    """An artifact's code, built in ``folder``, which is made, when it is first asked for."""

    artifact: Artifact
    builder: Builder
    folder: Path

    @property
    def command(self) -> tuple[str, ...]:
        """The command that built it."""
        if isinstance(self._built, Image):
            return self._built.command
        return tuple(build_command(self.artifact.files, self.builder.flags))

    def run(self, feeds: Feeds) -> Results:
        """What the code gives; on an emulated core buffers are aligned well and badly by turns."""
        plan = self.artifact.plan
        if isinstance(self._built, LoadedModel):
            loaded = self._built
            return [_outputs(plan, loaded, each) for each in feeds]
        given = [to_boundary(plan, each) for each in feeds]
        trials = [Trial(each, is_shifted=index % 2 == 1, garbage=index % 256) for index, each in enumerate(given)]
        outcomes = emulate(self._built, trials)
        return [None if outcome.status else from_boundary(plan, outcome.outputs) for outcome in outcomes]

    @cached_property
    def _built(self) -> LoadedModel | Image:
        self.folder.mkdir()
        return built(self.artifact, self.builder, self.folder)


def _outputs(plan: Plan, loaded: LoadedModel, feeds: Mapping[str, Array]) -> dict[str, Array] | None:
    try:
        return run(plan, loaded, feeds)
    except OrionPanic:
        return None


def built(artifact: Artifact, builder: Builder, folder: Path) -> LoadedModel | Image:
    """The code of an artifact, ready to be run; ToolMissing if its flags ask for instructions that are not there."""
    if builder.core is None:
        loaded = LoadedModel(artifact.plan, build(artifact.files, builder.flags, folder))
        asks = any(flag.startswith("-m") and flag != "-march=native" for flag in builder.flags)
        if asks and loaded.lacks_an_instruction():
            raise ToolMissing(
                f"built with {shlex.join(builder.flags)} the code has instructions that this processor lacks: "
                f"leave out of {spelt('flags')} what names them, or verify on a machine that has them"
            )
        return loaded
    return cross_build(builder.core, [artifact], builder.flags, folder, builder.compiler)


# Arrays in the model's own shapes to those of the C function's boundary, and back.


def run(plan: Plan, loaded: LoadedModel, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """What a call of the generated code gives by name, for inputs by name; all of them in the model's own shapes.

    States that the call finds are inputs here, those that it leaves are outputs.
    """
    return from_boundary(plan, loaded.run_from(to_boundary(plan, feeds)))


def to_boundary(plan: Plan, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs by name as the C function takes them."""
    states = {state.before.tensor.name: feeds[state.before.tensor.name] for state in plan.states}
    inputs = {p.tensor.name: _to_boundary(p, feeds[p.tensor.name], plan.options.layout) for p in plan.inputs}
    return inputs | states


def from_boundary(plan: Plan, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """What the C function gave, by name, in the model's own shapes."""
    states = {state.after.tensor.name: outputs[state.after.tensor.name] for state in plan.states}
    found = {p.tensor.name: _from_boundary(p, outputs[p.tensor.name], plan.options.layout) for p in plan.outputs}
    return found | states


def _to_boundary(port: Port, array: Array, option: str) -> Array:
    """An array in the model's own shape as the C function takes it."""
    wanted = boundary_layout(port.tensor, option)
    if wanted is port.tensor.layout:
        return array
    return np.ascontiguousarray(
        np.moveaxis(array, 1, -1) if wanted is Layout.CHANNELS_LAST else np.moveaxis(array, -1, 1)
    )


def _from_boundary(port: Port, array: Array, option: str) -> Array:
    """An array that the C function gave in the model's own shape."""
    held = boundary_layout(port.tensor, option)
    if held is port.tensor.layout:
        return array
    return np.moveaxis(array, -1, 1) if held is Layout.CHANNELS_LAST else np.moveaxis(array, 1, -1)
