"""The firmware that `qcgen example` made, asked over a link: what it holds, and what its networks compute."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from qcgen.errors import BoardFailed
from qcgen.ir.plan import Plan, Port
from qcgen.ir.types import Array
from qcgen.protocol import CHUNK, MOST_NETWORKS, VERSION, Kind, What, Why
from qcgen.verification.link import Link, RequestRefused
from qcgen.verification.running import from_boundary, to_boundary

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
    except RequestRefused:
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
            except RequestRefused as refusal:
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
