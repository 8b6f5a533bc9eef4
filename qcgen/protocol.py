"""What `qcgen verify --serial` and the firmware say to each other: frames and numbers that both sides know.

docs/serial.md has it as a table; templates/example/serve.c.jinja is the other side.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

VERSION = 2
"""Of the protocol: the first thing that a firmware tells."""

CHUNK = 128
"""The most bytes of tensors in a frame: a damaged one is sent again, so frames are short."""

MOST_BYTES = 160
"""The longest request, checksum included."""

MOST_ANSWER_BYTES = 16384
"""The longest answer as it goes over the line: options name tensors and nodes, and these have long names."""

MOST_NETWORKS = 64
"""How many networks a firmware may serve."""

FLAG, ESCAPE, INVERTED = 0x7E, 0x7D, 0x20
"""Framing as in RFC 1662: FLAG on both sides; a FLAG or ESCAPE inside is ESCAPE and the byte with a bit inverted."""


class Kind(IntEnum):
    """What a request asks for; its answer has the same kind, or REFUSE."""

    IDENTIFY = ord("I")
    WRITE = ord("W")
    RUN = ord("R")
    READ = ord("G")
    REFUSE = ord("!")


class Why(IntEnum):
    """Why a request was refused: the first byte of such an answer; a text follows."""

    NOT_UNDERSTOOD = 1
    OTHER_INPUTS = 2
    OTHER_RUN = 3
    CONDITION_FAILED = 4


class What(IntEnum):
    """What READ takes of a run."""

    OUTPUTS = 0
    HASHES = 1
    TICKS = 2


@dataclass(frozen=True)
class Message:
    """A request or an answer; an answer has its request's number."""

    kind: int
    number: int
    payload: bytes

    def framed(self) -> bytes:
        """The bytes that go over the line.

        >>> Message(Kind.RUN, 0x7E, b"").framed().hex(" ")
        '7e 52 7d 5e 00 00 00 19 bc 11 0f 7e'
        """
        content = bytes([self.kind]) + self.number.to_bytes(4, "little") + self.payload
        content += zlib.crc32(content).to_bytes(4, "little")
        return bytes([FLAG, *_escaped(content), FLAG])


def _escaped(content: bytes) -> Iterator[int]:
    for byte in content:
        yield from (ESCAPE, byte ^ INVERTED) if byte in (FLAG, ESCAPE) else (byte,)


def message_in(frame: bytes) -> Message | None:
    """The message between two flags; None if it is damaged, or no message.

    >>> message_in(Message(Kind.RUN, 0x7E, b"}").framed()[1:-1])
    Message(kind=82, number=126, payload=b'}')
    """
    content, inverted = bytearray(), 0
    for byte in frame:
        if byte == ESCAPE:
            inverted = INVERTED
        else:
            content.append(byte ^ inverted)
            inverted = 0
    if inverted or len(content) < 9 or zlib.crc32(content[:-4]) != int.from_bytes(content[-4:], "little"):
        return None
    return Message(content[0], int.from_bytes(content[1:5], "little"), bytes(content[5:-4]))
