"""Generated code, built and run on many inputs, here or on an emulated core."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.build import LoadedModel, build, build_command, defined
from qcgen.cores import TARGETS
from qcgen.emulate import Image, Trial, cross_build, emulate
from qcgen.errors import OrionPanic, ToolMissing
from qcgen.ir.plan import Plan
from qcgen.ir.types import Array
from qcgen.options import spelt
from qcgen.verification.boundary import from_boundary, run, to_boundary

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
