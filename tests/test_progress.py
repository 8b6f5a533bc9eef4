"""Progress: shown on a terminal, for work that takes long, and gone when it ends."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from emulated import require_core
from marks import some_at_first
from tools import open_terminal

import qcgen
from qcgen.cli import terminal
from qcgen.emulate import measure, random_feeds
from qcgen.progress import report_progress, told

MODEL = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"
AT_ONCE = "import sys; from qcgen.cli import main, terminal; terminal.PATIENCE = terminal.PERIOD = 0; sys.exit(main())"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("patience", "stream", "expected"),
    [(0, Terminal, "\r\x1b[Kpacking\r\x1b[K"), (60, Terminal, ""), (0, io.StringIO, "")],
)
def test_a_line_is_shown_on_a_terminal_if_it_takes_long(patience, stream, expected, monkeypatch):
    monkeypatch.setattr("sys.stderr", stream())
    monkeypatch.setattr(terminal, "PATIENCE", patience)
    with terminal.shown():
        report_progress("packing")
    assert sys.stderr.getvalue() == expected


def test_a_name_cannot_drive_the_terminal_or_break_the_line(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr(terminal, "PATIENCE", 0)
    with terminal.shown():
        report_progress("a\x1b[2J\n" + "b" * 500)
    shown = sys.stderr.getvalue().removeprefix("\r\x1b[K").removesuffix("\r\x1b[K")
    assert "\x1b" not in shown
    assert "\n" not in shown
    assert len(shown) < 80


def test_every_node_is_told_of_while_it_is_compiled():
    heard = []
    with told(heard.append):
        artifact = qcgen.compile(MODEL)
        artifact.with_self_test()
    assert [f"choosing the kernel of {call.op.name}" for call in artifact.plan.calls] == [
        text for text in heard if text.startswith("choosing")
    ]
    assert "evaluating the reference for the self-test" in heard
    report_progress("nobody listens")
    assert heard[-1] != "nobody listens"


def test_a_measurement_tells_what_it_is_at():
    require_core("cortex-m4")
    artifact, heard = qcgen.compile(MODEL, node="max", target="cortex-m4"), []
    with told(heard.append):
        measure(artifact, random_feeds(artifact.plan, 0))
    assert [each for each in heard if each.endswith("cortex-m4")] == [
        "building for cortex-m4",
        "running on an emulated cortex-m4",
    ]


@pytest.mark.parametrize(
    "words",
    some_at_first(
        [
            ["compile"],
            ["compile", "none.onnx"],
            ["verify", "--node", "max"],
            ["bench", "--node", "max", "--target", "cortex-m4"],
        ]
    ),
)
def test_nothing_of_it_is_left_on_the_terminal(words, tmp_path):
    if words[0] == "bench":
        require_core("cortex-m4")
    words = words if "none.onnx" in words else [*words, str(MODEL)]
    reader, writer = open_terminal()
    command = [sys.executable, "-c", AT_ONCE, *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    text = b""
    try:
        while part := os.read(reader, 65536):
            text += part
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(reader)
    process.communicate()
    assert process.returncode == (1 if "none.onnx" in words else 0)
    *_, last = text.decode().split("\r\x1b[K")
    assert last == "" or last.startswith("none.onnx cannot be compiled")
    assert b"reading" in text
