"""Templates as Python, kept from run to run: what a run does without a place for them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from models import qlinear_conv, random_weights

from qcgen.render import environment

RENDER = "import qcgen; print(len(qcgen.compile('m.onnx').files))"


@pytest.fixture
def model(tmp_path):
    (tmp_path / "m.onnx").write_bytes(qlinear_conv((1, 1, 3, 3), random_weights((1, 1, 2, 2))).SerializeToString())
    return tmp_path


def compiled(folder, temporary):
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(temporary)}
    return subprocess.run([sys.executable, "-c", RENDER], cwd=folder, env=environment, capture_output=True, text=True)


def test_they_are_kept_in_a_folder_of_the_user_alone(model):
    temporary = model / "temporary"
    temporary.mkdir()
    assert compiled(model, temporary).stdout == "2\n"
    [kept] = temporary.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o700
    first = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    assert first
    assert compiled(model, temporary).stdout == "2\n"
    assert {path: path.stat().st_mtime_ns for path in kept.iterdir()} == first


def test_a_run_does_without_them_where_the_folder_is_no_folder(model):
    temporary = model / "temporary"
    temporary.mkdir()
    (temporary / f"_jinja2-cache-{os.getuid()}").write_text("a file")
    result = compiled(model, temporary)
    assert (result.stdout, result.stderr) == ("2\n", "")


def test_a_disk_that_is_full_is_no_error(monkeypatch):
    cache = environment().bytecode_cache
    bucket = cache.get_bucket(environment(), "none", None, "{{ 1 }}")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
    cache.set_bucket(bucket)
