"""Compiled models run on an emulated core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from batch import Unit
from subjects import Subject, of_unit, problems
from tools import skip_without

from qcgen.cores import TARGETS
from qcgen.emulate import Trial, cross_build, emulate, missing_tools


def require_core(core: str, compiler: str = "gcc", *, counting: bool = True) -> None:
    """Skips the test if a tool for the core is missing, naming the package."""
    target = TARGETS[core]
    used = (*target.machine.packages, *(("clang",) if compiler == "clang" else ()))
    skip_without(*used, missing=list(missing_tools(target, compiler, counting=counting)))


def wrong_outputs(
    core: str, subjects: Sequence[Subject], folder: Path, compiler: str = "gcc", flags: Sequence[str] = ("-O1",)
) -> list[str]:
    """What is wrong with the outputs on the core; buffers are aligned to no more than they must be by turns."""
    folder.mkdir(exist_ok=True)
    image = cross_build(core, [each.artifact for each in subjects], flags, folder, compiler)
    trials = [
        Trial(feeds, index, is_shifted=number % 2 == 1, garbage=number)
        for index, each in enumerate(subjects)
        for number, feeds in enumerate(each.feeds)
    ]
    return problems(subjects, [outcome.outputs for outcome in emulate(image, trials)])


def assert_equals_reference(
    core: str, units: Sequence[Unit], folder: Path, compiler: str = "gcc", flags: Sequence[str] = ("-O3",)
) -> None:
    """Fails with the units whose outputs on the core are not the reference's."""
    require_core(core, compiler, counting=False)
    wrong = wrong_outputs(core, [of_unit(each) for each in units], folder, compiler, flags)
    assert not wrong, "\n".join(wrong)
