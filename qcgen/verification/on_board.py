"""A firmware on a board, asked over a serial line and held against the reference; the only importer of pyserial."""

from __future__ import annotations

import secrets
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qcgen.artifact import Artifact
from qcgen.errors import BoardFailed, OrionPanic, ToolMissing
from qcgen.ir.plan import Plan, Port
from qcgen.ir.types import Array
from qcgen.progress import report_progress
from qcgen.protocol import (
    CHUNK,
    FLAG,
    MOST_ANSWER_BYTES,
    MOST_BYTES,
    MOST_NETWORKS,
    VERSION,
    Kind,
    Message,
    What,
    Why,
    message_in,
)
from qcgen.reference import evaluate_all
from qcgen.reference.tolerance import tolerances
from qcgen.render import header_id
from qcgen.self_test import same_everywhere, self_test
from qcgen.verification.cases import Case, generated_cases, recorded_cases
from qcgen.verification.compare import Compared, Outcome, add, add_returned, leaves_a_choice, reference_text
from qcgen.verification.judge import AUTOMATIC, Judge, Judgement, judge_of
from qcgen.verification.running import from_boundary, to_boundary
from qcgen.version import __version__

# Requests to a firmware over a serial line that loses and damages bytes.

PATIENCE = 10.0
"""Seconds in which an answer has to come where the board has nothing to compute."""

_BITS_PER_BYTE, _LATENCY, _LONGEST_WAIT = 10, 0.2, 4.0
"""Seconds: what a request and its answer take besides their bits, and the longest before a request is repeated."""

_MOST_TEXT = 200
"""So much of what comes outside of frames is kept, to be shown when no answer comes."""


class _RequestRefused(Exception):
    """The firmware refused a request: ``why`` is a code of the protocol, the text is the firmware's."""

    def __init__(self, why: int, text: str) -> None:
        self.why = why
        super().__init__(text)


class Link:
    """Asks and waits for answers. A request is repeated until its answer comes or time is up; so nothing hangs.

    Every request has a number of its own, from a random one on: a late answer is never taken for another request's,
    not even for one of an earlier program's. ``clock`` is that of ``time.monotonic``.
    """

    def __init__(self, line: Line, baud: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self.clock = line.name, clock
        self._line = line
        self._number = secrets.randbits(31)
        self._wait = _LATENCY + 2 * 2 * MOST_BYTES * _BITS_PER_BYTE / baud
        self._came = b""
        self._damaged, self._noise = 0, b""

    def ask(self, kind: Kind, payload: bytes = b"", patience: float | None = None) -> Message:
        """The answer to a request; BoardFailed if none comes within ``patience`` seconds, Refused if it is refused."""
        self._number = self._number % 0xFFFFFFFF + 1
        request = Message(kind, self._number, payload)
        patience = PATIENCE if patience is None else patience
        end, wait = self.clock() + patience, self._wait
        self._damaged, self._noise = 0, b""
        while self.clock() < end:
            self._line.write(request.framed())
            answer = self._answer(request, min(self.clock() + wait, end))
            if answer is not None:
                return answer
            wait = min(2 * wait, _LONGEST_WAIT)
        raise BoardFailed(f"{self.name}: {self._silence(patience)}")

    def _answer(self, request: Message, end: float) -> Message | None:
        """The answer, if it comes in time; others are late answers to earlier requests."""
        while self.clock() < end:
            message = self._next()
            if message is None or message.number != request.number:
                continue
            if message.kind == Kind.REFUSE and message.payload:
                self._refused(message.payload[0], message.payload[1:].rstrip(b"\0").decode(errors="replace"))
            if message.kind == request.kind:
                return message
        return None

    def _refused(self, why: int, text: str) -> None:
        if why == Why.CONDITION_FAILED:
            raise BoardFailed(f"{self.name}: on the board this does not hold: {text}")
        raise _RequestRefused(why, text)

    def _next(self) -> Message | None:
        """The next message that has come undamaged; None if there is none yet."""
        frame, flag, rest = self._came.partition(bytes([FLAG]))
        if not flag:
            if len(frame) > MOST_ANSWER_BYTES:  # no frame: it is passed over up to the next flag
                self._damaged, self._noise, self._came = self._damaged + 1, frame[-_MOST_TEXT:], b""
            self._came += self._line.read()
            return None
        self._came = rest
        message = message_in(frame)
        if frame and message is None:
            self._damaged += 1
            self._noise = (self._noise + frame)[-_MOST_TEXT:]
        return message

    def _silence(self, patience: float) -> str:
        """What to say if no answer came."""
        noise = self._noise + self._came
        text = f"no answer within {patience:g} s"
        if self._damaged:
            text += f", though something came {self._damaged} times: is it another speed, or a bad line?"
        if b"fault" in noise or (noise and all(32 <= byte < 127 or byte in b"\r\n" for byte in noise)):
            words = noise[-_MOST_TEXT:].decode("ascii", "replace").strip()
            return f"{text}; the board wrote: {words}"
        return text


# A serial port as a line of bytes.

_WAIT, _WRITE_WAIT = 0.02, 5.0
"""Seconds that one read waits for a byte, and one write until the port takes more."""


class Line:
    """A port that is open."""

    def __init__(self, name: str, port: Any, failures: tuple[type[Exception], ...]) -> None:
        self.name = name
        self._port, self._failures = port, failures

    def write(self, data: bytes) -> None:
        """Sends bytes; BoardFailed if the port takes none."""
        try:
            self._port.write(data)
        except self._failures as failure:
            raise BoardFailed(f"{self.name}: {_text(failure)}") from None

    def read(self) -> bytes:
        """What has come, after a short wait if that is nothing; BoardFailed if the port is gone."""
        try:
            data: bytes = self._port.read(1)
            return data + self._port.read(self._port.in_waiting) if data else data
        except self._failures as failure:
            raise BoardFailed(f"{self.name}: {_text(failure)}") from None


@contextmanager
def opened(name: str, baud: int) -> Iterator[Line]:
    """The port of a name that pyserial takes: a device, COM3, socket://HOST:PORT.

    ToolMissing without pyserial, BoardFailed if the port cannot be opened.
    """
    try:
        import serial
    except ImportError:
        raise ToolMissing("serial ports need pyserial: pip install 'qcgen[board]'") from None
    failures = (serial.SerialException, OSError, ValueError, TypeError)
    try:
        port = serial.serial_for_url(name, baudrate=baud, timeout=_WAIT, write_timeout=_WRITE_WAIT)
    except failures as failure:
        raise BoardFailed(f"{name}: it cannot be opened: {_text(failure)}") from None
    try:
        yield Line(name, port, failures)
    finally:
        port.close()


def _text(failure: Exception) -> str:
    """What the system says, without what pyserial repeats around it."""
    inner = failure.__context__ if isinstance(failure.__context__, OSError) else failure
    return getattr(inner, "strerror", None) or str(inner)


# The firmware that `qcgen example` made: what it holds, and what its networks compute.

TRIES = 5
"""How often a run is tried again whose inputs or results the board has lost."""

TELLING = 20.0
"""Seconds in which a board has to tell its networks."""


@dataclass(frozen=True)
class Identity:
    """A network of a firmware: its place there, the hash of its files, and what they were made of, by which qcgen.

    The texts are as the board sent them.
    """

    index: int
    id: int
    name: str
    version: str
    sha256: str
    options: str


@dataclass(frozen=True)
class BoardRun:
    """What a run gave: outputs by name in the model's own shapes, and a hash and a time of each node.

    Nodes are hashed or timed, as was asked; the others are as if nothing had been hashed, or mean nothing.
    ``status``: what the function returned, 0 if it returns nothing; if it is 1, all of these mean nothing.
    """

    outputs: Mapping[str, Array]
    hashes: tuple[int, ...]
    ticks: tuple[int, ...]
    status: int = 0


def networks(link: Link) -> list[Identity]:
    """The networks of the firmware; BoardFailed if it speaks another protocol, has too many, or takes too long."""
    found: list[Identity] = []
    count, end = 1, link.clock() + TELLING
    while len(found) < count:
        if link.clock() > end:
            raise BoardFailed(f"{link.name}: its firmware has told {len(found)} of {count} networks in {TELLING:g} s")
        payload = _identity(link, len(found))
        count = payload[1]
        if not 0 < count <= MOST_NETWORKS:
            raise BoardFailed(f"{link.name}: its firmware tells of {count} networks, not of 1 to {MOST_NETWORKS}")
        texts = [text.decode(errors="replace") for text in payload[6:].split(b"\0")]
        name, version, sha256, options = [*texts, "", "", "", ""][:4]
        found.append(
            Identity(len(found), int.from_bytes(payload[2:6], "little"), name, version, sha256, options),
        )
    return found


def _identity(link: Link, index: int) -> bytes:
    """What the firmware tells of a network: six bytes, then texts."""
    try:
        payload = link.ask(Kind.IDENTIFY, bytes([index])).payload
    except _RequestRefused:
        payload = b""
    if len(payload) < 6 or payload[0] != VERSION:
        raise BoardFailed(f"{link.name}: its firmware speaks another protocol: make it anew with this qcgen")
    return payload


@dataclass(frozen=True)
class Firmware:
    """A network of the firmware, whose files are those of ``plan``; a run may take ``patience`` seconds."""

    link: Link
    index: int
    plan: Plan
    patience: float

    def run(self, feeds: Mapping[str, Array], *, with_hashes: bool) -> BoardRun:
        """What the network computes of inputs in the model's own shapes.

        If the board has lost its inputs or results, as it does when it restarts, all is done again.
        """
        inputs = _bytes_of(self.plan, feeds)
        for _ in range(TRIES):
            try:
                return self._run(inputs, with_hashes)
            except _RequestRefused as refusal:
                if refusal.why not in (Why.OTHER_INPUTS, Why.OTHER_RUN):
                    raise BoardFailed(f"{self.link.name}: the firmware refuses a request: {refusal}") from None
        raise BoardFailed(f"{self.link.name}: the board loses what it was sent: does it restart all the time?")

    def _run(self, inputs: bytes, with_hashes: bool) -> BoardRun:
        for offset in range(0, len(inputs), CHUNK):
            payload = struct.pack("<BI", self.index, offset) + inputs[offset : offset + CHUNK]
            self.link.ask(Kind.WRITE, payload)
        asked = struct.pack("<BBI", self.index, with_hashes, zlib.crc32(inputs))
        answer = self.link.ask(Kind.RUN, asked, self.patience)
        if answer.payload not in (b"\0", b"\1"):
            raise BoardFailed(f"{self.link.name}: the firmware does not tell what the function returned")
        number, [status] = answer.number, answer.payload
        outputs = self._read(number, What.OUTPUTS, sum(port.bytes for port in self.plan.after))
        nodes = 4 * len(self.plan.calls)
        hashes, ticks = (self._read(number, what, nodes) for what in (What.HASHES, What.TICKS))
        return BoardRun(_tensors(self.plan, outputs), _words(hashes), _words(ticks), status)

    def _read(self, run: int, what: What, size: int) -> bytes:
        """So many bytes of what a run gave."""
        parts = []
        for offset in range(0, size, CHUNK):
            count = min(CHUNK, size - offset)
            parts.append(self.link.ask(Kind.READ, struct.pack("<IBIB", run, what, offset, count)).payload)
            if len(parts[-1]) != count:
                raise BoardFailed(f"{self.link.name}: the firmware has fewer results than the model")
        return b"".join(parts)


def _bytes_of(plan: Plan, feeds: Mapping[str, Array]) -> bytes:
    """The inputs and the states before the call as they lie in the board's memory, one behind the other."""
    arrays = to_boundary(plan, feeds)
    return b"".join(np.ascontiguousarray(arrays[p.tensor.name]).astype(_dtype(p)).tobytes() for p in plan.before)


def _tensors(plan: Plan, data: bytes) -> dict[str, Array]:
    return from_boundary(plan, dict(_cut(plan, data)))


def _cut(plan: Plan, data: bytes) -> Iterator[tuple[str, Array]]:
    offset = 0
    for port in plan.after:
        array = np.frombuffer(data, _dtype(port), port.tensor.size, offset).astype(port.tensor.dtype.numpy)
        yield port.tensor.name, array.reshape(port.shape)
        offset += port.bytes


def _dtype(port: Port) -> np.dtype[np.generic]:
    return np.dtype(port.tensor.dtype.numpy).newbyteorder("<")


def _words(data: bytes) -> tuple[int, ...]:
    return tuple(int(word) for word in np.frombuffer(data, "<u4"))


# Its outputs, and a hash of what each node wrote, held against the reference.


@dataclass(frozen=True)
class WrongNode:
    """The first node whose tables or output on the board are not the reference's, with which input."""

    node: str
    operator: str
    group: str
    case: int


@dataclass(frozen=True)
class NodeTime:
    """How long a node took, in ticks of the board's clock."""

    node: str
    ticks: int


@dataclass(frozen=True)
class BoardVerification(Compared):
    """What a board computed, compared with ``reference``: ``outcomes`` one for each group of inputs.

    ``judge`` is what the model file gives on the same inputs.

    ``wrong`` is the first node that differs, of the first input for which one does; ``times`` are of the first input.
    ``hashed`` of the nodes have their output compared, all of them their tables. ``skipped`` are outputs that depend on
    how float32 numbers were rounded before they were quantized: either code is right, so they are not compared.
    """

    reference: str
    judge: Judgement
    outcomes: tuple[Outcome, ...]
    wrong: WrongNode | None
    times: tuple[NodeTime, ...]
    hashed: int
    skipped: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether every output and every hash is the reference's, and every output the judge's."""
        return self.wrong is None and not self.differing and not self.judge.differing


def require_same(link: Link, model: str, sha256: str, identities: Sequence[Identity]) -> list[Identity]:
    """The networks of the firmware that were made of the model by this qcgen; BoardFailed if there is none."""
    of_model = [each for each in identities if each.sha256 == sha256]
    if not of_model:
        held = ", ".join(f"{each.name} (sha256 {each.sha256[:12]}...)" for each in identities)
        raise BoardFailed(f"{link.name}: its firmware holds {held}, not {model} (sha256 {sha256[:12]}...)")
    same = [each for each in of_model if each.version == __version__]
    if not same:
        made = f"qcgen {of_model[0].version} made its firmware, this is {__version__}"
        raise BoardFailed(f"{link.name}: {made}: make it anew with qcgen example")
    return same


def made_otherwise(link: Link, identity: Identity, model: str) -> BoardFailed:
    """What to say of a network whose files are not those that this qcgen makes of a file called ``model``."""
    how = f"{identity.options}, from a file called {model}"
    return BoardFailed(f"{link.name}: its firmware is not what this qcgen makes with {how}: make it anew")


def verify_on_board(
    link: Link,
    identity: Identity,
    artifact: Artifact,
    *,
    seed: int = 0,
    cases: int = 10,
    data: Path | None = None,
    patience: float = 60.0,
    oracle: str = AUTOMATIC,
) -> BoardVerification:
    """Sends random inputs, extremes and recordings to the board, and compares what it gives with the reference.

    ``oracle`` runs the model file on the same inputs, as in ``qcgen.verification.verify``.

    ``artifact``, which has a self-test, is what the firmware must have been made of: BoardFailed if it was not, if the
    board is silent or takes more than ``patience`` seconds for a run; RecordingError for recordings that do not fit.
    """
    if identity.id != header_id(artifact.plan, artifact.files):
        raise made_otherwise(link, identity, artifact.plan.model)
    recorded = [] if data is None else recorded_cases(data, artifact.program)
    every = [*generated_cases(artifact.program, seed, cases), *recorded]
    firmware = Firmware(link, identity.index, artifact.plan, patience)
    judge = judge_of(artifact, oracle, [case.feeds for case in every])
    return _verified(artifact, firmware, every, judge)


def _verified(artifact: Artifact, firmware: Firmware, cases: Sequence[Case], judge: Judge) -> BoardVerification:
    plan, compared = artifact.plan, _compared_outputs(artifact)
    outcomes: dict[str, Outcome] = {}
    wrong: WrongNode | None = None
    hashed = 0
    report_progress("the board runs for times")
    timed = firmware.run(cases[0].feeds, with_hashes=False)
    for number, case in enumerate(cases, start=1):
        report_progress(f"the board runs input {number} of {len(cases)}")
        got = firmware.run(case.feeds, with_hashes=True)
        before = outcomes.get(case.group, Outcome(case.group))
        try:
            test = self_test(artifact.planned, plan, case.feeds)
        except OrionPanic:
            outcomes[case.group] = add_returned(before, int(case.expected is None), got.status)
            continue
        if got.status:
            outcomes[case.group] = add_returned(before, 0, got.status)
            continue
        values = evaluate_all(artifact.program, case.feeds)
        outcomes[case.group] = _added(before, artifact, case, got.outputs, values, compared)
        judge.hear(case.group, before.cases, case.feeds, {name: got.outputs[name] for name in compared}, values)
        wrong = wrong or _wrong_node(plan, case.group, before.cases, test.hashes, got.hashes)
        hashed = len(test.written)
    times = tuple(NodeTime(call.op.name, ticks) for call, ticks in zip(plan.calls, timed.ticks, strict=True))
    skipped = tuple(tensor.name for tensor in artifact.program.outputs if tensor.name not in compared)
    reference = reference_text(artifact.program, plan.options.numerics)
    return BoardVerification(reference, judge.judgement, tuple(outcomes.values()), wrong, times, hashed, skipped)


def _compared_outputs(artifact: Artifact) -> list[str]:
    """The outputs that have one right value, or one within a tolerance."""
    program = artifact.program
    known = same_everywhere(program)
    return [each.name for each in program.outputs if each.name in known or not leaves_a_choice(program)]


def _added(
    before: Outcome,
    artifact: Artifact,
    case: Case,
    got: Mapping[str, Array],
    values: Mapping[str, Array],
    compared: Sequence[str],
) -> Outcome:
    allowed = tolerances(artifact.program, values, is_alike=case.expected is None)
    # Recorded float outputs have rounding errors of their own.
    factor, right = (1, values) if case.expected is None else (2, case.expected)
    return add(before, {name: right[name] for name in compared}, got, {n: factor * allowed[n] for n in compared})


def _wrong_node(plan: Plan, group: str, case: int, expected: Sequence[int], hashes: Sequence[int]) -> WrongNode | None:
    """The first node with another hash than the reference's."""
    for call, right, got in zip(plan.calls, expected, hashes, strict=True):
        if got != right:
            return WrongNode(call.op.name, call.op.op_type, group, case)
    return None
