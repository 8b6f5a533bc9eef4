"""Every number of a generated file fits the C type that it is written in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qcgen.ir.plan import C_BYTES, Plan, Table


def require_values_fit(plan: Plan) -> None:
    """Raises AssertionError, a defect of qcgen, for a table or a layer's own number that its C type cannot hold."""
    for call in plan.calls:
        types = {field.name: field.c_type for field in call.shared.fields} if call.shared else {}
        own = [Table(name, name, types[name], np.array([value]), "") for name, value in call.numbers.items()]
        for table in (*call.tables, *own):
            _require_fit(table, f"node {call.op.name!r} ({call.op.op_type})")
    for table in plan.initial_tables:
        _require_fit(table, "a state")
    for stream in plan.streams:
        _require_fit(stream.order, f"the rows of {stream.symbol}")


def _require_fit(table: Table, where: str) -> None:
    beyond = next(_beyond(table), None)
    if beyond is not None:
        raise AssertionError(f"{where}: {table.symbol} holds {beyond}, which does not fit {table.c_type}")


def _beyond(table: Table) -> Iterator[object]:
    """The values that the type cannot hold: of integers those out of its range, of float those that become infinite."""
    values = np.asarray(table.values)
    if table.c_type == "double":
        return
    if table.c_type == "float":
        finite = values[np.isfinite(values)]
        yield from finite[np.abs(finite) > np.finfo(np.float32).max]
        return
    bits, is_unsigned = 8 * C_BYTES[table.c_type], table.c_type.startswith("u")
    low, high = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    ends = (int(values.min()), int(values.max())) if values.size else ()
    yield from (end for end in ends if not low <= end <= high)
