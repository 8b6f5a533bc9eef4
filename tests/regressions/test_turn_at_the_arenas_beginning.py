"""Where the number of the turn lies at the arena's beginning, the function that takes a row had an unused variable."""

import subprocess
from dataclasses import replace

import pytest
from batch import require
from gallery_networks import in_rows

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.ir.plan import InArena
from qcgen.render import render


@pytest.mark.parametrize("offset", [0, 4])
def test_the_code_compiles_wherever_the_turn_lies(offset, tmp_path):
    require("gcc")
    options = {"arena": "least", "input": "rows", "layout": "nhwc", "io_memory": "arena"}
    plan = qcgen.compile(in_rows(), name="net", **options).plan
    [stream] = plan.streams
    steps = [replace(step, turn=InArena(offset)) if step is stream else step for step in plan.steps]
    for name, text in render(replace(plan, steps=steps)).items():
        (tmp_path / name).write_text(text)
    subprocess.run(["gcc", *STRICT_FLAGS, "-c", "net.c"], cwd=tmp_path, check=True)
