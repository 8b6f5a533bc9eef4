"""Names outside of ASCII: files are UTF-8 whatever the locale, and every command gets by with an ASCII terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from emulated import require_core
from marks import some_at_first
from models import qlinear_conv, random_weights

import qcgen

NAME = "größe 層 🙂 \u202e"
LOCALES = {
    "C": {"LC_ALL": "C"},
    "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    "UTF-8": {"LC_ALL": "C.UTF-8"},
}
RUN = """
import sys, warnings
def raised(message, category, filename, *_):
    if "/qcgen/" in filename:
        sys.exit(f"{filename}: {message}")
warnings.showwarning = raised
warnings.simplefilter("always", EncodingWarning)
from qcgen.cli import main
sys.exit(main(sys.argv[1:]))
"""
FILES = [b"m.onnx", "größe.onnx".encode(), b"m\xff.onnx"]
COMMANDS = {
    "compile": ("compile", "--report", "json", "--report", "html", "--certificate", "--self-test"),
    "inspect": ("inspect",),
    "verify": ("verify", "--cases", "1"),
    "bench": ("bench", "--target", "cortex-m4"),
    "package": ("package",),
    "example": ("example", "--board", "mps2-an386"),
}


def saved(folder, name=b"m.onnx"):
    """A model all of whose names are NAME, and a number."""
    model = qlinear_conv((1, 1, 3, 3), random_weights((1, 1, 2, 2)))
    names = {}
    for node in model.graph.node:
        node.name = NAME
        for names_ in (node.input, node.output):
            names_[:] = [names.setdefault(each, f"{NAME}{len(names)}") for each in names_]
    for each in (*model.graph.initializer, *model.graph.input, *model.graph.output):
        each.name = names[each.name]
    path = os.fsencode(folder) + b"/" + name
    Path(os.fsdecode(path)).write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("file", some_at_first(FILES, *FILES[1:]))
@pytest.mark.parametrize("locale", some_at_first(LOCALES, "ASCII"))
@pytest.mark.parametrize("command", some_at_first(COMMANDS, "compile"))
def test_every_command_takes_any_name_in_any_locale(command, locale, file, tmp_path):
    if command == "bench":
        require_core("cortex-m4")
    path = os.pathsep.join([str(Path(qcgen.__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, **LOCALES[locale]}
    python = [sys.executable, "-X", "warn_default_encoding", "-c", RUN]
    words = [*COMMANDS[command], saved(tmp_path, file), "-o", str(tmp_path / "out")]
    result = subprocess.run([*python, *words], env=environment, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")
    result.stdout.decode("ascii" if locale == "ASCII" else "utf-8")
    for each in tmp_path.joinpath("out").rglob("*"):
        if each.is_file() and each.suffix not in (".pack", ".zip"):
            text = each.read_bytes().decode("utf-8" if each.suffix == ".html" else "ascii")
            assert each.suffix != ".json" or json.loads(text)
            assert each.suffix != ".html" or "größe 層 🙂" in text
