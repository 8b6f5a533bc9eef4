"""Tables of a flatbuffer, read with every offset and length checked: a model file is hostile input."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qcgen.ir.types import Array


class DamagedFile(Exception):
    """A flatbuffer leads beyond its end; the text says what lies there."""


class FileBytes:
    """The bytes of a file, and how many elements of vectors may yet be read.

    Vectors may overlap, so a small file could stand for endless ones; a converter writes few things that are shared.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._left = 4 * len(data) + 2**20

    def number(self, at: int, kind: str) -> int:
        """A number at an offset."""
        size = struct.calcsize(f"<{kind}")
        if not 0 <= at <= len(self.data) - size:
            raise DamagedFile(f"an offset leads to byte {at} of {len(self.data)}")
        [value] = struct.unpack_from(f"<{kind}", self.data, at)
        return value  # type: ignore[no-any-return]  # a float where the letter is f

    def require(self, start: int, count: int, size: int) -> None:
        """That a vector lies within the file, and is not read once more than a file can be."""
        if start + count * size > len(self.data):
            raise DamagedFile(f"a vector of {count} elements leaves the file")
        self._left -= count
        if self._left < 0:
            raise DamagedFile("its vectors overlap")


@dataclass(frozen=True)
class FlatTable:
    """A table at ``position`` of ``file``; fields are numbered in the order in which the schema declares them.

    An absent field is its default, an absent vector or text is empty. Raises DamagedFile for whatever leaves the file.
    """

    file: FileBytes
    position: int

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        """The table that a file begins with."""
        file = FileBytes(data)
        return cls(file, file.number(0, "I"))

    def number(self, field: int, kind: str, default: float = 0) -> float:
        """A number, ``kind`` being the letter that its type has in Python's struct."""
        at = self.field(field)
        return default if at is None else self.file.number(at, kind)

    def integer(self, field: int, kind: str = "i", default: int = 0) -> int:
        """A number that is an integer."""
        return int(self.number(field, kind, default))

    def table(self, field: int) -> FlatTable | None:
        """Another table."""
        at = self.field(field)
        return None if at is None else FlatTable(self.file, at + self.file.number(at, "I"))

    def tables(self, field: int) -> Sequence[FlatTable]:
        """A vector of tables."""
        start, count = self._vector(field, 4)
        places = range(start, start + 4 * count, 4)
        return [FlatTable(self.file, at + self.file.number(at, "I")) for at in places]

    def array(self, field: int, dtype: str) -> Array:
        """A vector of numbers, ``dtype`` being numpy's name of their type, little-endian."""
        kind = np.dtype(dtype).newbyteorder("<")
        start, count = self._vector(field, kind.itemsize)
        return np.frombuffer(self.file.data, kind, count, start)

    def integers(self, field: int) -> tuple[int, ...]:
        """A vector of int32."""
        return tuple(self.array(field, "int32").tolist())

    def text(self, field: int) -> str:
        """A text; bytes that are not UTF-8 are replaced."""
        return self.array(field, "uint8").tobytes().decode(errors="replace")

    def place(self, field: int) -> int:
        """Where a vector begins with its length."""
        at = self.field(field)
        return 0 if at is None else at + self.file.number(at, "I")

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
        start = self.place(field)
        if not start:
            return 0, 0
        count = self.file.number(start, "I")
        self.file.require(start + 4, count, size)
        return start + 4, count

    def field(self, field: int) -> int | None:
        """Where a field's number or offset lies; None if it is absent."""
        table = self.position - self.file.number(self.position, "i")
        place = 4 + 2 * field
        if place + 2 > self.file.number(table, "H"):
            return None
        offset = self.file.number(table + place, "H")
        return self.position + offset if offset else None
