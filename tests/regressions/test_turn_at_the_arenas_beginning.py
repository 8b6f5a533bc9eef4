"""Where the number of the turn lies at the arena's beginning, the function that takes a row had an unused variable."""

import subprocess

import pytest
from batch import require
from gallery_networks import in_rows

import qcgen
from qcgen.build import STRICT_FLAGS


@pytest.mark.parametrize(("target", "is_first"), [("portable", False), ("cortex-m23", True)])
def test_the_code_compiles_wherever_the_turn_lies(target, is_first, tmp_path):
    require("gcc")
    options = {"arena": "least", "input": "rows", "layout": "nhwc", "io_memory": "arena", "target": target}
    artifact = qcgen.compile(in_rows(), name="net", **options)
    [stream] = artifact.plan.streams
    assert (stream.turn.offset == 0) == is_first
    for name, text in artifact.files.items():
        (tmp_path / name).write_text(text)
    subprocess.run(["gcc", *STRICT_FLAGS, "-c", "net.c"], cwd=tmp_path, check=True)
