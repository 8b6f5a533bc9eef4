"""Generated code, built and run on many inputs, here or on an emulated core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.build import LoadedModel, build, build_command
from qcgen.emulate import Image, Trial, cross_build, emulate
from qcgen.errors import OrionPanic
from qcgen.ir.plan import Plan
from qcgen.ir.types import Array
from qcgen.verify.boundary import from_boundary, run, to_boundary

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
    """The code of an artifact, ready to be run."""
    if builder.core is None:
        return LoadedModel(artifact.plan, build(artifact.files, builder.flags, folder))
    return cross_build(builder.core, [artifact], builder.flags, folder, builder.compiler)
