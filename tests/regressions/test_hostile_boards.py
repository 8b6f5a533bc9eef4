"""A board that sends what no firmware of qcgen example would: one line says so, soon, and nothing else happens."""

import json
import re
import shlex
import struct
import time
import tracemalloc
import warnings
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from marks import some_at_first

import qcgen.cli.artifacts
from qcgen.cli import main
from qcgen.compiler import compile_graph
from qcgen.errors import BoardFailed
from qcgen.protocol import MOST_NETWORKS, VERSION, Kind, Message, message_in
from qcgen.render import header_id
from qcgen.render.model import option_words
from qcgen.verification import on_board
from qcgen.verification.on_board import verify_on_board
from qcgen.version import __version__

DIGITS = Path(__file__).parents[1] / "data" / "digits" / "digits_qop_s8.onnx"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\r\n"
COMPILED = {}


@cache
def artifact():
    """What an honest board runs."""
    return qcgen.compile(DIGITS).with_self_test()


def compiled_once(graph, *options):
    """The artifact of the graph, which is always that of DIGITS, with options."""
    if options not in COMPILED:
        COMPILED[options] = compile_graph(graph, *options)
    return COMPILED[options]


@cache
def texts():
    """The name, the version, the model and the options that an honest board tells."""
    plan = artifact().plan
    words = [word for word in option_words(plan) if word != "--self-test"]
    return plan.prefix, __version__, plan.sha256, shlex.join(["--name", plan.prefix, *words])


def identity(networks=1, told=None, id_=None):
    """What a firmware tells of a network, an honest one if nothing is given."""
    number = header_id(artifact().plan, artifact().files) if id_ is None else id_
    words = "".join(f"{each}\0" for each in told or texts()).encode()
    return bytes([VERSION, networks]) + number.to_bytes(4, "little") + words


class Clock:
    """A clock that goes on a little whenever somebody looks at it, and 20 ms when a line has nothing."""

    now = 0.0

    def __call__(self):
        self.now += 0.0005
        return self.now


class Board:
    """A line to a board. ``answers`` has what it answers to a kind of request, bytes or a payload's message."""

    name = "line"

    def __init__(self, answers=None, clock=None):
        self._answers, self._clock, self._pending = answers or {}, clock, b""

    def write(self, data):
        request = message_in(data.strip(b"\x7e"))
        answer = self._answers.get(request.kind, honest)(request)
        self._pending += answer.framed() if isinstance(answer, Message) else answer

    def read(self):
        if self._clock is not None and not self._pending:
            self._clock.now += 0.02
        data, self._pending = self._pending[:4096], self._pending[4096:]
        return data


def honest(request):
    """An honest board's answer, but that all results are 0."""
    match request.kind:
        case Kind.IDENTIFY:
            payload = identity()
        case Kind.RUN:
            payload = b"\0"
        case Kind.READ:
            payload = bytes(struct.unpack("<IBIB", request.payload)[3])
        case _:
            payload = b""
    return Message(request.kind, request.number, payload)


def telling(**changes):
    """A board that tells this of each network."""
    return {Kind.IDENTIFY: lambda request: Message(request.kind, request.number, identity(**changes))}


@pytest.fixture
def verified(monkeypatch, capsys):
    """What the command prints of a board with these answers: the exit status, standard output, standard error."""

    def run(answers, *words):
        @contextmanager
        def opened(*_):
            yield Board(answers)

        monkeypatch.setattr("qcgen.verification.on_board.opened", opened)
        monkeypatch.setattr("qcgen.cli.artifacts.compile_graph", compiled_once)
        monkeypatch.setattr(on_board, "PATIENCE", 0.5)
        status = main(["verify", "--serial", "line", "--cases", "1", str(DIGITS), *words])
        out, err = capsys.readouterr()
        assert "internal error" not in err
        assert all(c.isprintable() or c == "\n" for c in out + err)
        return status, out, err

    return run


def test_a_board_whose_results_are_wrong_is_asked_to_the_end(verified):
    status, out, err = verified({})
    assert (status, err) == (1, "")
    assert "first node that differs: " in out


# --- options


@pytest.mark.parametrize(
    "options",
    [
        "{TOLD} --constant x=FILE",
        "{TOLD} --constant=x=FILE",
        "{TOLD} --data FILE",
        "{TOLD} -oFILE",
        "{TOLD} -o FILE",
        "{TOLD} --dim N=1",
        "{TOLD} --cflags=-fplugin=FILE",
        "{TOLD} --serial socket://localhost:1",
        "{TOLD} --json",
        "{TOLD} --hel",
        "{TOLD} FILE",
        "{TOLD} 'unbalanced",
        "{TOLD} unbalanced\\",
        f"{{TOLD}} --arena {'9' * 5000}",
        f"{{TOLD}} --target {ESCAPES}",
        "{TOLD} --flash 1000 --optimize speed",
        "{TOLD} --node conv1_quant --node conv4_quant",
        "--name int",
        "'",
    ],
)
def test_a_board_tells_no_options_but_those_that_choose_the_code(options, tmp_path, verified):
    file = tmp_path / "read.npy"
    file.write_bytes(b"no array")
    told = options.replace("{TOLD}", texts()[3]).replace("FILE", str(file))
    status, out, err = verified(telling(told=(*texts()[:3], told)))
    assert (status, out) == (1, "")
    assert re.fullmatch(r"qcgen: line: its firmware tells .*\n", err)
    assert "no .npy file" not in err  # it was not read
    assert sorted(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("options", ["--io quantized", "--node conv4_quant", "--name digits --arena least"])
def test_options_that_choose_other_code_are_refused(options, verified):
    status, out, err = verified(telling(told=(*texts()[:3], options)))
    assert (status, out) == (1, "")
    assert re.fullmatch(r"qcgen: line: its firmware is not what this qcgen makes with .*: make it anew\n", err)


# --- texts


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("text", [ESCAPES, ESCAPES * 500, "", "\ud7ff\uffff"])
def test_no_text_of_a_board_drives_the_terminal(place, text, verified):
    told = [*texts()]
    told[place] = text
    status, _, err = verified(telling(told=told))
    assert status == 1
    assert len(err) < 2000


@pytest.mark.parametrize("why", some_at_first([1, 2, 3, 4, 255]))
@pytest.mark.parametrize("kind", [Kind.IDENTIFY, Kind.WRITE, Kind.RUN, Kind.READ])
def test_a_refusal_is_told_on_a_line(kind, why, verified):
    refusal = bytes([why]) + ESCAPES.encode() + b"\xff\xfe\0"
    status, out, err = verified({kind: lambda request: Message(Kind.REFUSE, request.number, refusal)})
    assert (status, out) == (1, "")
    assert re.fullmatch(r"qcgen: line: .*\n", err)


def test_what_is_written_outside_of_frames_is_told_on_a_line(verified):
    status, out, err = verified({Kind.IDENTIFY: lambda _: b"fault" + ESCAPES.encode()})
    assert (status, out) == (1, "")
    assert re.fullmatch(r"qcgen: line: no answer within 0.5 s.*; the board wrote: fault.*\n", err)


def test_json_is_json_whatever_a_board_tells(verified):
    status, out, _ = verified({}, "--json")
    assert (status, json.loads(out)["passed"]) == (1, False)


# --- numbers


@pytest.mark.parametrize("networks", [0, MOST_NETWORKS + 1, 255])
def test_too_many_networks_are_refused_at_once(networks, verified):
    begin = time.monotonic()
    status, _, err = verified(telling(networks=networks))
    assert (status, err) == (1, f"qcgen: line: its firmware tells of {networks} networks, not of 1 to 64\n")
    assert time.monotonic() - begin < 5


def test_few_of_many_networks_of_a_model_are_compiled(verified, monkeypatch):
    compiled = []
    real = qcgen.cli.artifacts.compiled
    monkeypatch.setattr("qcgen.cli.artifacts.compiled", lambda *args: compiled.append(args) or real(*args))
    status, _, err = verified(telling(networks=MOST_NETWORKS, id_=1))
    assert (status, err.count("\n")) == (1, 1)
    assert len(compiled) == 8


def test_a_board_that_is_slow_to_tell_its_networks_is_left():
    clock = Clock()

    def slow(request):
        clock.now += 9
        return Message(request.kind, request.number, identity(networks=MOST_NETWORKS))

    with pytest.raises(BoardFailed, match="has told 3 of 64 networks in 20 s"):
        on_board.networks(on_board.Link(Board({Kind.IDENTIFY: slow}, clock), 115200, clock))


@pytest.mark.parametrize(
    "data", some_at_first([b"\x7e" + b"R" * 15, b"\0", b"\x7e", b"\x7d", honest(Message(73, 1, b"")).framed()])
)
def test_a_stream_without_an_end_takes_neither_memory_nor_more_than_the_time_for_an_answer(data):
    clock = Clock()
    board = Board({}, clock)
    board.read = lambda: data * (4096 // len(data))
    tracemalloc.start()
    with pytest.raises(BoardFailed, match="line: no answer within 10 s"):
        on_board.networks(on_board.Link(board, 115200, clock))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10**6
    assert clock.now < 11


@pytest.mark.parametrize("payload", [b"", b"\2", b"\xff", b"\0\0", bytes(10000)])
def test_a_run_returns_one_byte_that_is_0_or_1(payload, verified):
    status, out, err = verified({Kind.RUN: lambda request: Message(request.kind, request.number, payload)})
    assert (status, out) == (1, "")
    assert err == "qcgen: line: the firmware does not tell what the function returned\n"


@pytest.mark.parametrize("payload", [b"", b"\0", bytes(200), bytes(10000)])
def test_results_of_another_size_are_refused(payload, verified):
    status, out, err = verified({Kind.READ: lambda request: Message(request.kind, request.number, payload)})
    assert (status, out) == (1, "")
    assert err == "qcgen: line: the firmware has fewer results than the model\n"


# --- anything


PAYLOADS = st.one_of(
    st.binary(max_size=40),
    st.builds(identity, st.integers(0, 255), st.tuples(*[st.text(max_size=20)] * 4), st.integers(0, 2**32 - 1)),
    st.text(max_size=30).map(lambda text: identity(told=(*texts()[:3], text))),
)


@settings(max_examples=25, deadline=None)
@given(answers=st.lists(st.tuples(st.sampled_from([*Kind, 0, 255]), PAYLOADS, st.booleans()), max_size=12))
@example(answers=[(Kind.IDENTIFY, None, True)])
def test_whatever_a_board_sends_a_message_or_a_verdict_comes_of_it(answers):
    """The answers come one after the other, behind them nothing; with the flag the right number is on them.

    None is what an honest board tells of its network.
    """
    clock, left = Clock(), list(answers)

    def next_(request):
        if not left:
            return b""
        kind, payload, is_numbered = left.pop(0)
        told = identity() if payload is None else payload
        return Message(kind, request.number if is_numbered else 7, told)

    board = on_board.Link(Board(dict.fromkeys(Kind, next_), clock), 115200, clock)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = ""
        try:
            for each in on_board.networks(board):
                verify_on_board(board, each, artifact(), cases=1)
        except BoardFailed as failure:
            text = str(failure)
    assert text.isprintable()
    assert clock.now < 200


@settings(max_examples=4, deadline=None)
@given(noise=st.randoms(use_true_random=False))
def test_results_of_noise_are_differences(noise):
    def random(request):
        answer = honest(request)
        return Message(answer.kind, answer.number, noise.randbytes(len(answer.payload)))

    board = on_board.Link(Board({Kind.READ: random}), 115200)
    [each] = on_board.networks(board)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not verify_on_board(board, each, artifact(), cases=1).is_right
