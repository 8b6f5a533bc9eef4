"""Folders that others can write: a run trusts nothing that lies there, changes nothing, and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from emulated import require_core
from models import qlinear_conv, random_weights

COMPILE = "import qcgen; print(len(qcgen.compile('m.onnx').files))"
COUNT = """
import qcgen
from qcgen.emulate import measure, random_feeds
artifact = qcgen.compile("m.onnx", target="cortex-m4")
print(measure(artifact, random_feeds(artifact.plan, 0)).instructions > 0)
"""


@pytest.fixture
def run(tmp_path):
    """What a program of Python prints that finds a model m.onnx, a temporary folder, a cache folder and a home."""
    model = qlinear_conv((1, 1, 3, 3), random_weights((1, 1, 2, 2)))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    for name in ("temporary", "cache", "home"):
        (tmp_path / name).mkdir()

    def run_(program):
        path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
        places = {"TMPDIR": "temporary", "XDG_CACHE_HOME": "cache", "HOME": "home"}
        environment = {**os.environ, "PYTHONPATH": path, **{key: str(tmp_path / each) for key, each in places.items()}}
        command = [sys.executable, "-c", program]
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert result.stderr == ""
        return result.stdout

    return run_


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_run_leaves_nothing_behind(tmp_path, run):
    before = left(tmp_path)
    assert run(COMPILE) == "2\n"
    assert left(tmp_path) == before


def test_a_run_changes_nothing_that_a_link_in_a_temporary_folder_points_to(tmp_path, run):
    victim = tmp_path / "victim"
    victim.mkdir()
    victim.chmod(0o755)
    (tmp_path / "temporary" / f"_jinja2-cache-{os.getuid()}").symlink_to(victim)
    assert run(COMPILE) == "2\n"
    assert victim.stat().st_mode & 0o777 == 0o755
    assert left(victim) == []


@pytest.mark.all
def test_a_count_leaves_nothing_behind(tmp_path, run):
    require_core("cortex-m4")
    assert run(COUNT) == "True\n"
    kept = [path for place in ("temporary", "cache", "home") for path in (tmp_path / place).rglob("*")]
    assert kept == []
