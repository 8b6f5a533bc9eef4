"""Layers row by row on the emulated cores: garbage in all memory, buffers aligned to no more than they must be."""

from pathlib import Path

import numpy as np
import pytest
from emulated import require_core
from marks import some_at_first
from row_networks import NETWORKS

import qcgen
from qcgen.artifact import Artifact
from qcgen.emulate import Trial, cross_build, emulate, random_feeds
from qcgen.reference import evaluate_all
from qcgen.verification.running import from_boundary, to_boundary

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m33", "cortex-m55", "rv32imc")
WAYS = {
    "rows": {"arena": "least"},
    "inside": {"arena": "least", "io_memory": "arena"},
    "pushed": {"arena": "least", "input": "rows"},
    "both": {"arena": "least", "input": "rows", "io_memory": "arena"},
}

SHARE = (("residual", "rows"), ("separable", "inside"), ("separable", "pushed"), ("residual", "both"))


def artifacts(core: str) -> list[Artifact]:
    """Two networks, in all ways to pass inputs and outputs."""
    options = {"target": core, "layout": "nhwc", "io": "quantized"}
    return [
        qcgen.compile(NETWORKS[network](), name=f"{network}_{way}", **options, **WAYS[way]) for network, way in SHARE
    ]


def outputs(folder: Path, core: str, models: list[Artifact]) -> list[bool]:
    """Whether the outputs of each model equal the reference, for two inputs."""
    image = cross_build(core, models, ("-O1",), folder)
    trials, expected = [], []
    for index, each in enumerate(models):
        for number, garbage in enumerate((0x7F, 0x81)):
            feeds = {x.name: random_feeds(each.plan, number)[x.name].transpose(0, 3, 1, 2) for x in each.program.inputs}
            given = to_boundary(each.plan, feeds)
            trials.append(Trial(given, index, is_shifted=number == 1, garbage=garbage))
            expected.append(evaluate_all(each.program, feeds))
    found = [
        from_boundary(models[trial.model].plan, outcome.outputs)
        for trial, outcome in zip(trials, emulate(image, trials), strict=True)
    ]
    return [
        all(np.array_equal(y, values[name]) for name, y in each.items())
        for each, values in zip(found, expected, strict=True)
    ]


@pytest.mark.parametrize("core", some_at_first(CORES, "cortex-m4"))
def test_outputs_in_rows_equal_the_reference(core, tmp_path):
    require_core(core, counting=False)
    assert outputs(tmp_path, core, artifacts(core)) == [True] * 8
