"""The block of weights: tables and numbers of a model as one struct, apart from the code; docs/weights.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from zlib import crc32

from qcgen.ir.plan import C_BYTES, Options, Plan, Table
from qcgen.library import without_comments
from qcgen.plan.functions import FreeStep
from qcgen.version import __version__

MAGIC = b"qcgen weights\0\0\0"
VERSION = 1
"""Of the head."""

HEAD_BYTES = 64
"""Magic (16), version, the code that it fits, all bytes, CRC-32 of what follows the head, the model's SHA-256 (32)."""

ALIGN = 8
"""The block and its size are multiples of it."""

SCHEMA = 1
"""Of NAME_weights.json."""

_IDS = re.compile(r"^.*_(?:HEADER|WEIGHTS)_ID .*$", re.MULTILINE)
_DTYPES = {"float": "<f4", "double": "<f8"}


def _tables(plan: Plan) -> list[Table]:
    """The tables in the order of the block: those with the largest elements first, so that no byte lies between."""
    found = [table for call in plan.calls for table in call.tables]
    return sorted(found, key=lambda table: -C_BYTES[table.c_type])


def _padding(tables: Iterable[Table]) -> int:
    """The bytes behind the last table."""
    return -sum(table.bytes for table in tables) % ALIGN


def _member(plan: Plan, table: Table) -> str:
    """What the struct calls a table."""
    return table.symbol.removeprefix(f"{plan.prefix}_")


def _content(plan: Plan) -> bytes:
    """What follows the head, numbers as the cores have them: the lowest byte first."""
    tables = _tables(plan)
    parts = [table.values.astype(_dtype(table.c_type)).tobytes() for table in tables]
    return b"".join(parts) + bytes(_padding(tables))


@dataclass(frozen=True)
class BlockContext:
    """What the templates show of the block of weights."""

    file: str  # its name
    magic: tuple[int, ...]
    version: int
    head: int  # bytes of it
    bytes: int  # of all
    align: int
    crc: str  # a literal of C
    sha256: tuple[int, ...]  # of the model
    tables: tuple[Table, ...]
    members: Mapping[str, str]  # the struct's, by the tables' symbols
    nodes: Mapping[str, str]  # whose they are, by the same
    padding: int  # bytes behind the last one


def block_context(plan: Plan) -> BlockContext | None:
    """The same of a plan, None if tables are not apart."""
    if plan.options.weights is None:
        return None
    tables, inside = _tables(plan), _content(plan)
    return BlockContext(
        file=plan.options.weights,
        magic=tuple(MAGIC),
        version=VERSION,
        head=HEAD_BYTES,
        bytes=HEAD_BYTES + len(inside),
        align=ALIGN,
        crc=f"0x{crc32(inside):08x}",
        sha256=tuple(bytes.fromhex(plan.sha256)),
        tables=tuple(tables),
        members={table.symbol: _member(plan, table) for table in tables},
        nodes={table.symbol: call.op.name for call in plan.calls for table in call.tables},
        padding=_padding(tables),
    )


def block(plan: Plan, fits: int) -> bytes:
    """All bytes of the block; ``fits`` is the id of the code."""
    inside = _content(plan)
    numbers = (VERSION, fits, HEAD_BYTES + len(inside), crc32(inside))
    head = MAGIC + b"".join(each.to_bytes(4, "little") for each in numbers) + bytes.fromhex(plan.sha256)
    return head + inside


def essence(plan: Plan, texts: Mapping[str, str]) -> dict[str, str]:
    """Sources without what no compiler sees, and without hashes: what a block must fit."""
    bare = {name: _IDS.sub("", without_comments(text)).replace(plan.sha256, "") for name, text in texts.items()}
    return {name: "\n".join(line.rstrip() for line in text.splitlines() if line.strip()) for name, text in bare.items()}


def record(plan: Plan, steps: Mapping[str, FreeStep], code: Mapping[str, str]) -> str:
    """The text of NAME_weights.json: how the code was made, ``steps`` by operator, and its ``essence``."""
    defaults = Options()
    given = {each.name: getattr(plan.options, each.name) for each in fields(Options)}
    own = {
        "prefix": plan.prefix,
        "node": plan.node,
        "options": {name: value for name, value in given.items() if value != getattr(defaults, name)},
        "operators": {name: asdict(step) for name, step in steps.items()},
        "code": code,
    }
    return json.dumps({"schema": SCHEMA, "qcgen": __version__, "weights": own}, indent=1) + "\n"


def id_of(essences: Mapping[str, str]) -> int:
    """The id of code that a block fits."""
    return int(sha256("\0".join(essences.values()).encode()).hexdigest()[:8], 16)


def _dtype(c_type: str) -> str:
    kind = "u" if c_type.startswith("u") else "i"
    return _DTYPES.get(c_type, f"<{kind}{C_BYTES[c_type]}")
