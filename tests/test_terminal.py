"""What commands print fits a terminal of 80 columns, whatever nodes are called; elsewhere names are whole."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from emulated import require_core
from marks import some_at_first

import qcgen
from qcgen.cli import main, terminal
from qcgen.cli.bench import as_text
from qcgen.cli.terminal import fitted
from qcgen.cores import BOARDS
from qcgen.emulate import measure, random_feeds
from qcgen.errors import shortened

DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"
LONG = "StatefulPartitionedCall/functional_1_1/sequential_2/{0}_1/BiasAdd;StatefulPartitionedCall/{0}_1"
"""Of such names tf2onnx makes the names of nodes and tensors."""


def named_by_tf2onnx() -> onnx.ModelProto:
    model = onnx.load(DIGITS)
    for node in model.graph.node:
        node.name = LONG.format(node.name)
    return model


@pytest.fixture(scope="module", params=["short names", "names of tf2onnx"])
def network(request, tmp_path_factory):
    if request.param == "short names":
        return DIGITS
    path = tmp_path_factory.mktemp("named") / "digits.onnx"
    onnx.save(named_by_tf2onnx(), path)
    return path


COMMANDS = {
    "compile": ["compile", "--layout", "nhwc", "--arena", "least"],
    "compile -v": ["compile", "-v", "--layout", "nhwc"],
    "inspect": ["inspect", "--target", "cortex-m4"],
    "inspect -v": ["inspect", "-v", "--target", "cortex-m4"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())
def test_no_line_is_wider_than_the_terminal(network, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(terminal, "columns", lambda: 80)
    command, *options = words
    assert main([command, str(network), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    number = r"(147 456|1 152 B|10 144 B)"
    assert sum(len(re.findall(number, line)) >= 2 for line in lines) >= 2, "numbers of nodes are whole, on one line"


@pytest.fixture(scope="module")
def measured():
    require_core("cortex-m4")
    artifact = qcgen.compile(DIGITS, target="cortex-m4", layout="nhwc")
    boards = [BOARDS["stm32l4r5"], BOARDS["stm32f407"]]
    return measure(artifact, random_feeds(artifact.plan, 0), boards=boards), artifact.report


@pytest.mark.parametrize("is_verbose", [False, True])
@pytest.mark.parametrize("name", ["{0}", LONG])
def test_what_bench_prints_fits_the_terminal(measured, name, is_verbose, monkeypatch):
    monkeypatch.setattr(terminal, "columns", lambda: 80)
    measurement, report = measured
    nodes = tuple(replace(node, name=name.format(node.name)) for node in measurement.nodes)
    text = as_text("m.onnx", [replace(measurement, nodes=nodes)], [report], (), ["-O3"], is_verbose=is_verbose)
    lines = fitted(text).splitlines()
    assert max(map(len, lines)) <= 80
    [conv4] = [node for node in measurement.nodes if node.name == "conv4_quant"]
    count = f" {conv4.instructions:,} ".replace(",", " ")
    assert len([line for line in lines if count in line]) == 1


def on_a_terminal(columns: int, *words: str) -> list[str]:
    """The lines that a command prints on a terminal so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    with subprocess.Popen([sys.executable, "-m", "qcgen", *words], stdout=theirs, env=environment):
        os.close(theirs)
        text = b""
        while chunk := _read(ours):
            text += chunk
    os.close(ours)
    return text.decode().splitlines()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so that nobody writes any more
        return b""


def test_the_width_is_that_of_the_terminal():
    wide, narrow = on_a_terminal(300, "targets"), on_a_terminal(80, "targets")
    assert 80 < max(map(len, wide)) <= 300
    assert max(map(len, narrow)) <= 80
    assert sum(line.startswith("cortex-m4 ") for line in narrow) == 2, "columns without room follow below"


ON_A_TERMINAL = {
    "verify": ["verify", "MODEL", "--cases", "1", "--no-sums"],
    "verify --each": ["verify", "MODEL", "--each", "--cases", "1", "--no-sums"],
    "package": ["package", "MODEL", "-o", "FOLDER"],
    "ops": ["ops"],
}


@pytest.mark.parametrize("command", some_at_first(ON_A_TERMINAL, "ops"))
def test_no_row_of_other_commands_wraps(command, network, tmp_path):
    given = {"MODEL": str(network), "FOLDER": str(tmp_path / "a folder")}
    lines = on_a_terminal(80, *(given.get(word, word) for word in ON_A_TERMINAL[command]))
    assert lines
    assert max(map(len, lines)) <= 80


def test_names_are_whole_where_the_output_is_no_terminal(tmp_path, capsys):
    onnx.save(named_by_tf2onnx(), tmp_path / "digits.onnx")
    assert main(["inspect", str(tmp_path / "digits.onnx")]) == 0
    assert LONG.format("conv4_quant") in capsys.readouterr().out


def test_a_shortened_name_keeps_its_beginning_and_its_end():
    assert shortened("StatefulPartitionedCall/conv1", 12) == "Statef…conv1"
    assert all(len(shortened("x" * 40, width)) == width for width in range(2, 41))


@pytest.mark.parametrize("width", [40, 61, 80])
def test_tables_fit_any_width(width):
    head = ("node", "kernel", "constants", "scratch", "reason")
    rows = [("n" * 70, "k" * 30, "1 000 000 B", "9 B", "it has five taps and that is too many " * 3)] * 2
    lines = terminal.table(head, rows, ("constants", "scratch"), ("node", "kernel"), width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum("1 000 000 B" in line for line in lines) == 2
    words = " ".join(line for line in lines).split()
    assert words.count("taps") == 6
