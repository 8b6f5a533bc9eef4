"""Generated code, built and run on many inputs, here or on an emulated core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.build import LoadedModel, build, build_command
from qcgen.emulate import Trial, cross_build, emulate
from qcgen.ir.types import Array
from qcgen.verify.boundary import from_boundary, run, to_boundary

Feeds = Sequence[Mapping[str, Array]]
"""Inputs by name for each case, in the model's own shapes."""

Results = list[dict[str, Array]]
"""Outputs by name for each case, in the model's own shapes."""


def run_here(artifact: Artifact, feeds: Feeds, flags: Sequence[str], folder: Path) -> tuple[tuple[str, ...], Results]:
    """The command that built the code for this machine, and what it gives."""
    loaded = LoadedModel(artifact.plan, build(artifact.files, flags, folder))
    results = [run(artifact.plan, loaded, each) for each in feeds]
    return tuple(build_command(artifact.files, flags)), results


def run_on_core(
    artifact: Artifact, feeds: Feeds, flags: Sequence[str], folder: Path, compiler: str
) -> tuple[tuple[str, ...], Results]:
    """The same for the target's emulated core; buffers are aligned well and badly by turns."""
    image = cross_build(artifact.plan.options.target, [artifact], flags, folder, compiler)
    given = [to_boundary(artifact.plan, each) for each in feeds]
    trials = [Trial(each, is_shifted=index % 2 == 1, garbage=index % 256) for index, each in enumerate(given)]
    return image.command, [from_boundary(artifact.plan, outcome.outputs) for outcome in emulate(image, trials)]
