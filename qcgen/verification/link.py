"""Requests to a firmware over a serial line that loses and damages bytes; the only importer of pyserial."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qcgen.errors import BoardFailed, ToolMissing
from qcgen.protocol import FLAG, MOST_ANSWER_BYTES, MOST_BYTES, Kind, Message, Why, message_in

PATIENCE = 10.0
"""Seconds in which an answer has to come where the board has nothing to compute."""

_BITS_PER_BYTE, _LATENCY, _LONGEST_WAIT = 10, 0.2, 4.0
"""Seconds: what a request and its answer take besides their bits, and the longest before a request is repeated."""

_MOST_TEXT = 200
"""So much of what comes outside of frames is kept, to be shown when no answer comes."""


class RequestRefused(Exception):
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
        raise RequestRefused(why, text)

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
