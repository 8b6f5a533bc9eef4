"""Compiled models run on an emulated core, and estimates held against what it counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from batch import Unit
from subjects import Subject, of_unit, problems

from qcgen.emulate import Trial, cross_build, emulate, measure, missing_tools, random_feeds
from qcgen.ir.program import Operator
from qcgen.ir.types import Layout
from qcgen.kernels import Setting
from qcgen.targets import TARGETS


def require_core(core: str, compiler: str = "gcc", *, counting: bool = True) -> None:
    """Skips the test if a tool for the core is missing, naming the package."""
    missing = missing_tools(TARGETS[core], compiler, counting=counting)
    if missing:
        packages = " ".join(dict.fromkeys(TARGETS[core].machine.packages[tool] for tool in missing))
        pytest.skip(f"{', '.join(missing)} is missing: apt-get install {packages}")


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


def channels_last(core: str, optimize: str) -> Setting:
    """Images channels last on a core."""
    return Setting(Layout.CHANNELS_LAST, Layout.CHANNELS_LAST, optimize, TARGETS[core])


def assert_cost_is_near(
    cost: Callable[[Operator, Setting], float | None], each: Unit, core: str, optimize: str, tolerance: float
) -> None:
    """Fails if the estimate of a unit's only node is farther from the instructions that the core counts."""
    require_core(core)
    [call] = each.artifact.plan.calls
    [node] = measure(each.artifact, random_feeds(each.artifact.plan, seed=1), flags=("-O3",)).nodes
    estimated = cost(call.op, channels_last(core, optimize))
    assert estimated == pytest.approx(node.instructions, rel=tolerance)
