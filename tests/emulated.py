"""Compiled cases run on an emulated core, on the inputs that batch.py makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from batch import Unit, difference, from_boundary, inputs, to_boundary

from qcgen.emulate import Trial, cross_build, emulate, missing_tools
from qcgen.targets import TARGETS


def assert_equals_reference(
    core: str, units: Sequence[Unit], folder: Path, compiler: str = "gcc", flags: Sequence[str] = ("-O3",)
) -> None:
    """Fails with the units whose outputs on the core are not the reference's; every second call is shifted."""
    if missing := missing_tools(TARGETS[core], compiler, counting=False):
        pytest.skip(f"{', '.join(missing)} is missing")
    image = cross_build(core, [each.artifact for each in units], flags, folder, compiler)
    trials = []
    for index, each in enumerate(units):
        [port] = each.artifact.plan.inputs
        for number, x in enumerate(to_boundary(each, inputs(each.case))):
            trials.append(Trial({port.tensor.name: x}, index, is_shifted=number % 2 == 1, garbage=number))
    results = iter(emulate(image, trials))
    wrong = []
    for each in units:
        [port] = each.artifact.plan.outputs
        arrays = [next(results).outputs[port.tensor.name] for _ in inputs(each.case)]
        wrong += [text] if (text := difference(each, from_boundary(each, np.stack(arrays)))) else []
    assert not wrong, "\n".join(wrong)
