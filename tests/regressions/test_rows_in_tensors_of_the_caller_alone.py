"""Layers in rows that keep none in the arena left a variable unused; images of many rows took long to plan."""

from __future__ import annotations

import subprocess

import pytest
from batch import require
from bench.compiling import Network

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.verification import verify


def tables(height):
    """Two tables behind each other."""
    n = Network((1, 4, height, 4))
    return n.model(n.sigmoid(n.sigmoid("x")))


def test_nothing_in_the_arena_needs_no_variable(tmp_path):
    require("gcc")
    artifact = qcgen.compile(tables(6), layout="nhwc", arena="least", name="net")
    for name, text in artifact.files.items():
        (tmp_path / name).write_text(text)
    command = ["gcc", *STRICT_FLAGS, "-c", str(tmp_path / "net.c"), "-o", str(tmp_path / "net.o")]
    subprocess.run(command, check=True, timeout=60)
    assert verify(artifact, cases=2).is_right


@pytest.mark.parametrize(("height", "runs_in_rows"), [(1024, True), (1025, False), (100_000, False)])
def test_images_of_many_rows_do_not_run_row_by_row(height, runs_in_rows):
    n = Network((1, 1, height, 2))
    model = n.model(n.conv(n.conv("x", 2, 3), 2, 3))
    assert bool(qcgen.compile(model, layout="nhwc", arena="least").plan.streams) == runs_in_rows
