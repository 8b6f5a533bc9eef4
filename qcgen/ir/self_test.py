"""What a generated self-test gives the network, and what it expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qcgen.ir.plan import Place, Port, RowsAt, Table

BASIS, PRIME = 0x811C9DC5, 0x01000193
"""The hash of no byte at all, and by what it is multiplied behind each byte: FNV-1a in 32 bits."""

SEED, FACTOR, ADDEND = 1, 1664525, 1013904223
"""Random numbers: x -> x * FACTOR + ADDEND modulo 2^32, of which the upper byte is used."""


@dataclass(frozen=True)
class SelfTestInput:
    """An input in the order in which the caller holds it: a ``table``, or None if the test makes it of random codes.

    Random codes are given to a float input as (code - ``zero_point``) * ``scale``.
    """

    port: Port
    table: Table | None
    scale: float = 1.0
    zero_point: int = 0


@dataclass(frozen=True)
class Written:
    """What one call of a node writes."""

    at: Place | RowsAt
    bytes: int


@dataclass(frozen=True)
class SelfTest:
    """``hashes``: of each node's tables and of all bytes that it writes. ``written``: what each call of a node writes.

    It lacks nodes whose float numbers may differ from core to core, and what depends on them: only tables are hashed.
    ``seed``: where random numbers start; ``recording``: what an input that is a table is. ``table_hashes``: of each
    node's tables alone, where these are checked in slices; then ``hashes`` lack them.
    """

    inputs: tuple[SelfTestInput, ...]
    hashes: tuple[int, ...]
    written: Mapping[str, Written]
    seed: int = SEED
    recording: str = "a recorded input"
    table_hashes: tuple[int, ...] = ()

    @property
    def what(self) -> str:
        """The inputs, for people."""
        return "random codes" if self.is_random else self.recording

    @property
    def has_names(self) -> bool:
        """Whether inputs hold numbers that <math.h> names."""
        return any(each.table is not None and each.table.has_names for each in self.inputs)

    @property
    def basis(self) -> str:
        """BASIS in C."""
        return f"0x{BASIS:08x}u"

    @property
    def prime(self) -> str:
        """PRIME in C."""
        return f"0x{PRIME:08x}u"

    @property
    def is_random(self) -> bool:
        """Whether some input is made by the test."""
        return any(each.table is None for each in self.inputs)

    @property
    def table_literals(self) -> list[str]:
        """The hashes of tables in C."""
        return [f"0x{value:08x}u" for value in self.table_hashes]

    @property
    def literals(self) -> list[str]:
        """The hashes in C."""
        return [f"0x{value:08x}u" for value in self.hashes]
