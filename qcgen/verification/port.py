"""A serial port as a line of bytes; the only importer of pyserial."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qcgen.errors import BoardFailed, ToolMissing

BAUD = 115200
"""The speed unless somebody names another one."""

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
