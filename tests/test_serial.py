"""`qcgen verify --serial`: a board's outputs, hashes and times, over a line that may lose and damage bytes."""

import json
import re
import select
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from emulated import require_core
from gallery_networks import float_tail, network_qdq, network_qop
from hostile_orion import hostile_model
from hypothesis import given
from hypothesis import strategies as st
from marks import some_at_first
from packages import succeeds, tool
from served import bridged, build, emulated, faulty, filled_in
from test_self_test import flips

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.chips import BOARDS
from qcgen.cli import main
from qcgen.cores import TARGETS
from qcgen.errors import BoardFailed
from qcgen.example import example
from qcgen.protocol import Kind, Message, message_in
from qcgen.verification import on_board
from qcgen.verification.on_board import verify_on_board

DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"
DATA = DIGITS.with_suffix(".npz")


@pytest.fixture
def outcome(capsys):
    """What verifying at a port gives: the exit status, standard output, standard error."""

    def run(where, *words, model=DIGITS):
        status = main(["verify", "--serial", where, str(model), *map(str, words)])
        captured = capsys.readouterr()
        assert "internal error" not in captured.err
        return status, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A program that serves the digits network."""
    return build(tmp_path_factory.mktemp("digits"), qcgen.compile(DIGITS))


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory):
    """The same with one bit of a table flipped, and the node that has it."""
    artifact = qcgen.compile(DIGITS)
    call = artifact.plan.calls[3]
    [found] = re.findall(rf"int32_t {call.symbol}_bias\[.*?\] = \{{\n +-?\d+,", artifact.files["digits_qop_s8.c"])
    head, number = found.rsplit(None, 1)
    change = found, f"{head} {int(number[:-1]) ^ 1 << 12},"
    return build(tmp_path_factory.mktemp("spoiled"), artifact, change=change), call.op.name


def test_a_board_that_computes_right_passes_and_every_node_has_a_time(digits, outcome):
    with bridged(digits) as board:
        status, out, err = outcome(board.port, "--data", DATA)
    assert (status, err) == (0, "")
    plan = qcgen.compile(DIGITS).plan
    assert f"hashes: none differs; compared are the tables and outputs of {len(plan.calls)} nodes\n" in out
    assert re.search(r"recorded +3  0 of 30 outputs differ\n", out)
    table = out.partition("node ")[2]
    assert re.findall(r"^(\w+) +[\d ]+ +(?:-|[\d.]+%)$", table, re.MULTILINE) == [call.op.name for call in plan.calls]
    assert out.endswith("total: 0 of 170 outputs differ (17 cases)\nPASS\n")


def test_a_flipped_bit_of_a_table_names_the_node(spoiled, outcome):
    program, node = spoiled
    with bridged(program) as board:
        status, out, _ = outcome(board.port)
    assert status == 1
    assert f"first node that differs: {node} (QLinearConv), of random case 0\n" in out


@pytest.mark.parametrize("seed", some_at_first(range(8), 0))
def test_lost_and_damaged_bytes_change_no_verdict(seed, digits, spoiled, outcome):
    program, node = spoiled
    for served, right in ((digits, True), (program, False)):
        lines = faulty(seed, 1 / 1000, 1 / 1000), faulty(seed + 100, 1 / 1000, 1 / 1000)
        with bridged(served, *lines) as board:
            status, out, _ = outcome(board.port, "--cases", 2)
        assert status == (0 if right else 1)
        assert ("hashes: none differs" in out) is right
        assert (f"first node that differs: {node} " in out) is not right


def test_a_line_that_is_too_bad_ends_with_a_message(digits, outcome, monkeypatch):
    monkeypatch.setattr(on_board, "PATIENCE", 2.0)
    with bridged(digits, faulty(1, 0.1, 0.1), faulty(2, 0.1, 0.1)) as board:
        begin = time.monotonic()
        status, out, err = outcome(board.port)
    assert (status, out) == (1, "")
    assert re.fullmatch(r"qcgen: /dev/pts/\d+: no answer within 2 s.*\n", err)
    assert time.monotonic() - begin < 20


def test_a_silent_port_ends_with_a_message(digits, outcome, monkeypatch):
    monkeypatch.setattr(on_board, "PATIENCE", 1.0)
    with bridged(digits, from_board=lambda _: b"") as board:
        assert outcome(board.port) == (1, "", f"qcgen: {board.port}: no answer within 1 s\n")


def test_a_board_that_takes_too_long_ends_with_a_message(tmp_path, outcome):
    artifact = qcgen.compile(DIGITS)
    symbol = artifact.plan.calls[0].symbol
    forever = f"    for (volatile int i = 1; i;) {{\n    }}\n    {symbol}("
    program = build(tmp_path, artifact, change=(f"\n    {symbol}(", f"\n{forever}"))
    with bridged(program) as board:
        assert outcome(board.port, "--timeout", 1) == (1, "", f"qcgen: {board.port}: no answer within 1 s\n")


def test_what_a_board_writes_outside_of_frames_is_passed_over_or_shown(digits, outcome, monkeypatch):
    greeting = [b"boot ok\r\n"]
    with bridged(digits, from_board=lambda data: (greeting.pop() if greeting else b"") + data) as board:
        assert outcome(board.port, "--cases", 1)[0] == 0
    monkeypatch.setattr(on_board, "PATIENCE", 1.0)
    with bridged(digits, from_board=lambda _: b"the core faulted\n") as board:
        err = outcome(board.port)[2]
    assert "no answer within 1 s" in err
    assert "the board wrote: the core faulted" in err


@pytest.mark.parametrize("life", [300, 560, 700])
def test_a_board_that_starts_anew_in_the_middle_is_asked_again(life, digits, outcome):
    with bridged(digits, lives=[life]) as board:
        status, out, _ = outcome(board.port, "--cases", 1)
        assert board.starts == 2
    assert status == 0
    assert "hashes: none differs" in out


def test_a_board_that_starts_anew_all_the_time_ends_with_a_message(digits, outcome):
    with bridged(digits, lives=[350] * 1000) as board:
        status, _, err = outcome(board.port)
    assert status == 1
    assert err.startswith(f"qcgen: {board.port}: ")
    assert "restart" in err


class DeafToRuns:
    """A line that keeps back the first answer to each request to run; late answers come twice."""

    name = "line"

    def __init__(self, program):
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._kept = set()

    def write(self, data):
        self._process.stdin.write(data)

    def read(self):
        frame = b""
        if not select.select([self._process.stdout], [], [], 0.02)[0]:
            return frame
        while frame.count(b"\x7e") < 2:
            frame += self._process.stdout.read(1)
        message = message_in(frame.strip(b"\x7e"))
        if message.kind == Kind.RUN and message.number not in self._kept:
            self._kept.add(message.number)
            return b""
        return frame + frame

    def close(self):
        self._process.kill()
        self._process.communicate()


def test_a_request_that_comes_again_runs_nothing_where_inputs_are_written_over(tmp_path):
    options = {"io_memory": "arena", "io": "quantized"}
    artifact = qcgen.compile(DIGITS, **options)
    line = DeafToRuns(build(tmp_path, artifact))
    try:
        link_ = on_board.Link(line, 10**6)
        [identity] = on_board.networks(link_)
        result = verify_on_board(link_, identity, artifact.with_self_test(), cases=2)
    finally:
        line.close()
    assert result.is_right
    assert result.wrong is None


INTERFACES = {
    "codes": (DIGITS, ("--io", "quantized", "--layout", "nhwc")),
    "in the arena": (DIGITS, ("--io-memory", "arena")),
    "in rows": (DIGITS, ("--arena", "least")),
    "a node": (DIGITS, ("--node", "conv4_quant")),
    "float layers": (float_tail, ()),
    "small": (network_qop, ()),
    "an inner tensor": (DIGITS, ("--output", "residual_quantized")),
}


@pytest.mark.parametrize("name", some_at_first(INTERFACES, "in the arena", "float layers", "a node"))
def test_the_firmware_tells_the_options_that_it_was_made_with(name, tmp_path, outcome):
    model, words = INTERFACES[name]
    if callable(model):
        onnx.save(model(), tmp_path / "net.onnx")
        model = tmp_path / "net.onnx"
    if name == "an inner tensor":
        names = [each.op.y.name for each in qcgen.compile(model).plan.calls]
        words = ("--output", names[5])
    [artifact] = compiled(model, *words)
    with bridged(build(tmp_path / "program", artifact)) as board:
        status, out, err = outcome(board.port, "--cases", 2, model=model)
    assert (status, err) == (0, "")
    assert f"firmware: --name {artifact.plan.prefix} --target portable " in out


def compiled(model, *words):
    """What qcgen example compiles."""
    import argparse

    from qcgen.cli import artifacts, options

    parser = argparse.ArgumentParser()
    options.add_compile_options(parser)
    args = parser.parse_args(words)
    return artifacts.compiled(args, str(model), artifacts.read_model(args, str(model)))


@pytest.mark.parametrize("is_missed", [False, True])
def test_a_board_tells_that_the_function_returned_1(is_missed, tmp_path, outcome):
    model = tmp_path / "net.onnx"
    onnx.save(hostile_model("sum with groups"), model)
    [artifact] = compiled(model, "--numerics", "orion-fp16x16")
    missed = "        return 1;\n    }\n    NET_HOOK(0);", "    }\n    NET_HOOK(0);"
    with bridged(build(tmp_path / "program", artifact, change=missed if is_missed else ("", ""))) as board:
        status, out, _ = outcome(board.port, model=model)
    assert status == int(is_missed)
    assert ("first difference: the return value of " in out) is is_missed
    assert "Orion panics in 1 case\n" in out
    assert "hashes: none differs" in out


def test_a_firmware_of_several_networks_serves_each(tmp_path, outcome):
    other = DIGITS.with_name("digits_qdq_u8.onnx")
    with bridged(build(tmp_path, qcgen.compile(DIGITS), qcgen.compile(other))) as board:
        status, out, _ = outcome(board.port, other, "--cases", 1)
        assert status == 0
        assert out.count("hashes: none differs") == 2
        data = json.loads(outcome(board.port, "--cases", 1, "--json", model=other)[1])
    assert data["passed"]
    assert data["models"][0]["firmware"]["name"] == "digits_qdq_u8"
    assert {"node", "ticks"} == set(data["models"][0]["times"][0])


def test_a_firmware_for_another_model_is_refused(digits, outcome, tmp_path):
    onnx.save(network_qdq(), tmp_path / "net.onnx")
    with bridged(digits) as board:
        status, out, err = outcome(board.port, model=tmp_path / "net.onnx")
    assert (status, out) == (1, "")
    assert re.fullmatch(
        r"qcgen: \S+: its firmware holds digits_qop_s8 \(sha256 \w{12}\.\.\.\), not \S+ \(sha256 .*\)\n", err
    )


def test_a_firmware_that_another_qcgen_made_is_refused(digits, outcome, monkeypatch):
    monkeypatch.setattr("qcgen.verification.on_board.__version__", "9.9")
    with bridged(digits) as board:
        assert outcome(board.port)[2] == (
            f"qcgen: {board.port}: qcgen 0.1.0 made its firmware, this is 9.9: make it anew with qcgen example\n"
        )


def test_a_firmware_with_other_options_is_refused(digits, outcome):
    with bridged(digits) as board:
        status, out, err = outcome(board.port, "--io", "quantized")
    assert (status, out) == (1, "")
    assert "its firmware is not what this qcgen makes with --name digits_qop_s8 --target portable " in err


def test_a_condition_that_does_not_hold_on_the_board_is_told(tmp_path, outcome):
    change = (
        "DIGITS_QOP_S8_ASSERT((uintptr_t)arena",
        "DIGITS_QOP_S8_ASSERT((uintptr_t)arena < 2 && (uintptr_t)arena",
    )
    with bridged(build(tmp_path, qcgen.compile(DIGITS), change=change)) as board:
        status, _, err = outcome(board.port)
    assert status == 1
    assert f"{board.port}: on the board this does not hold: (uintptr_t)arena < 2 && " in err


def test_without_pyserial_the_message_tells_how_to_get_it(outcome, monkeypatch):
    monkeypatch.setitem(sys.modules, "serial", None)
    assert outcome("/dev/ttyACM0")[2] == "qcgen: serial ports need pyserial: pip install 'qcgen[board]'\n"


@pytest.mark.parametrize("where", ["/dev/no-such-port", "socket://localhost:1", "nonsense://x"])
def test_a_port_that_cannot_be_opened_is_told(where, outcome):
    status, _, err = outcome(where)
    assert status == 1
    assert err.startswith(f"qcgen: {where}: it cannot be opened: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [("--each",), ("--host",), ("--no-sums",), ("--cflags", "-O1"), ("--baud", "0")])
def test_options_that_a_board_has_no_use_for_are_refused(words, outcome):
    assert outcome("/dev/ttyACM0", *words)[0] == 2


def test_networks_whose_rows_are_pushed_are_not_served():
    artifact = qcgen.compile(DIGITS, input="rows", layout="nhwc", io="quantized")
    files = example([artifact], BOARDS["mps2-an386"])
    assert not {"serve.c", "own_board.c"} & files.keys()
    assert "serve" not in files["CMakeLists.txt"]


@given(kind=st.integers(0, 255), number=st.integers(0, 2**32 - 1), payload=st.binary(max_size=300), data=st.data())
def test_a_message_comes_out_as_it_went_in_unless_a_byte_is_changed_or_lost(kind, number, payload, data):
    message = Message(kind, number, payload)
    frame = message.framed()
    assert frame.count(b"\x7e") == 2
    assert message_in(frame[1:-1]) == message
    at = data.draw(st.integers(1, len(frame) - 2))
    assert message_in(frame[1:at] + frame[at + 1 : -1]) is None
    changed = data.draw(st.integers(0, 255).filter(lambda byte: byte != frame[at]))
    assert message_in(frame[1:at] + bytes([changed]) + frame[at + 1 : -1]) != message


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "cortex-m7", "cortex-m55", "rv32imc"])
def test_a_board_of_ones_own_compiles_once_two_functions_are_filled_in(core, tmp_path):
    require_core(core, counting=False)
    files = example([qcgen.compile(DIGITS, target=core)], next(b for b in BOARDS.values() if core in b.targets))
    assert files["own_board.c"].count("#error") == 2
    for name, text in (files | {"own_board.c": filled_in(files["own_board.c"])}).items():
        (tmp_path / name).write_text(text)
    target = TARGETS[core]
    compiler = [target.compiler, *target.flags, *STRICT_FLAGS, "-Os", "-c", "-DSERVE_WITHOUT_MAIN"]
    sources = ["serve.c"] if core == "rv32imc" else ["serve.c", "own_board.c"]  # picolibc's stdio is elsewhere
    subprocess.run([*compiler, *sources], cwd=tmp_path, check=True)


@pytest.mark.parametrize("name", some_at_first(BOARDS, "mps2-an386"))
def test_an_emulated_board_serves_and_a_flipped_bit_in_its_image_names_the_node(name, tmp_path, outcome):
    board = BOARDS[name]
    core = board.target.name
    require_core(core, counting=False)
    artifact = qcgen.compile(DIGITS, target=core)
    for file, text in example([artifact], board).items():
        (tmp_path / file).write_text(text)
    tool("ninja")
    succeeds([tool("cmake"), "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja"], tmp_path)
    assert "warning" not in succeeds([tool("cmake"), "--build", tmp_path / "build"], tmp_path)
    image, call = tmp_path / "build" / "serve", artifact.plan.calls[3]
    with emulated(serving(board, image)) as where:
        status, out, _ = outcome(where, "--cases", 2)
    assert status == 0
    ticks = [int(digits.replace(" ", "")) for digits in re.findall(r"^\w+ +(\d[\d ]*?) +[\d.]+%$", out, re.MULTILINE)]
    assert len(ticks) == len(artifact.plan.calls)
    assert min(ticks) > 0
    flipped = next(flips(core, image, call))
    with emulated(serving(board, flipped)) as where:
        status, out, _ = outcome(where, "--cases", 2)
    assert status == 1
    assert f"first node that differs: {call.op.name} (QLinearConv), of random case 0\n" in out


def serving(board, image):
    """The emulator's command, with a pseudo-terminal for the serial port."""
    machine = board.machine
    command = [machine.emulator, *machine.arguments, "-icount", "shift=5,sleep=off", "-display", "none"]
    command += ["-monitor", "none", "-serial", "pty", "-semihosting-config", "enable=on,target=native"]
    return [*command, "-kernel", str(image)]


def test_another_protocol_is_refused():
    class Other:
        name = "line"

        def write(self, data):
            number = message_in(data.strip(b"\x7e")).number
            self._answer = replace(Message(Kind.IDENTIFY, number, b"\1\1idid\0"), number=number).framed()

        def read(self):
            return self._answer

    with pytest.raises(BoardFailed, match="line: its firmware speaks another protocol: make it anew with this qcgen"):
        on_board.networks(on_board.Link(Other(), 10**6))
