"""The certificate of a compilation as a file that others can check (docs/certificate.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from hashlib import sha256

import numpy as np

from qcgen.arithmetic import meant
from qcgen.intervals import channel_ranges, image_channel_axis
from qcgen.ir.plan import Plan
from qcgen.ir.program import (
    Conv,
    Convert,
    Dequantize,
    Embedding,
    Int64s,
    Movement,
    Operator,
    Program,
    Quantize,
    Transpose,
    inputs_of,
    joined_of,
)
from qcgen.version import __version__

SCHEMA = 1


def certificate(program: Program, planned: Program, plan: Plan, files: Mapping[str, str]) -> str:
    """The text of NAME.cert.json: every number that was proved right, and of which files and model.

    ``program`` is what the model means, ``planned`` what was planned of it, ``files`` the texts by name.
    """
    body = {
        "schema": SCHEMA,
        "qcgen": __version__,
        "model": {"name": plan.model, "sha256": plan.sha256},
        "files": {name: sha256(text.encode("ascii")).hexdigest() for name, text in files.items()},
        "options": asdict(plan.options),
        "arithmetic": meant(plan.options.numerics),
        "float": [call.op.name for call in plan.calls if _is_float(call.op)],
        "nodes": list(_entries(program, planned, plan)),
    }
    return json.dumps({**body, "sha256": digest(body)}, separators=(",", ": ")).replace('{"node"', '\n{"node"') + "\n"


def _is_float(op: Operator) -> bool:
    """Whether an operator is computed in float32, or as if it were, and not what turns floats into codes or back."""
    if any(tensor.dtype.is_16_bit for tensor in (*inputs_of(op), op.y)):
        return not isinstance(op, Quantize | Dequantize | Movement)
    return op.y.dtype.is_float and not isinstance(op, Convert | Dequantize | Embedding | Movement)


def digest(body: Mapping[str, object]) -> str:
    """The sha256 of a certificate without this field, its keys sorted and without spaces."""
    return sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def _entries(program: Program, planned: Program, plan: Plan) -> Iterator[dict[str, object]]:
    """One entry for each operator whose numbers were proved, in execution order."""
    tensors = _codes_of(planned) | _codes_of(program)
    tensors |= {copy: tensors[x] for copy, x in _reordered(plan).items() if x in tensors}
    for call in plan.calls:
        if not call.certificate.numbers:
            continue
        own: dict[str, object] = {"node": call.op.name, "symbol": call.symbol}
        if joined_of(call.op):
            own |= {"joined": joined_of(call.op)}
        if isinstance(call.op, Conv):
            everything = np.arange(call.op.geometry.out_channels)
            own |= {"channels": planned.kept.get(call.op.y.name, everything), "x_range": tensors[call.op.x.name]}
        yield _plain({**own, **call.certificate.numbers})


def _reordered(plan: Plan) -> dict[str, str]:
    """The tensors that the planner copied to another order in memory, by their copies: no program names these."""
    copies = (call.op for call in plan.calls if isinstance(call.op, Transpose))
    return {op.y.name: op.x.name for op in copies if op.perm == tuple(range(len(op.perm)))}


def _codes_of(program: Program) -> dict[str, tuple[Int64s, Int64s]]:
    """The codes that each channel of what convolutions read can have, by the tensor's name."""
    ranges = channel_ranges(program)
    found: dict[str, tuple[Int64s, Int64s]] = {}
    for op in program.operators:
        for tensor in (*inputs_of(op), op.y):
            if tensor.name in ranges:
                axis = image_channel_axis(tensor)
                found[tensor.name] = ranges[tensor.name].along(axis, tensor.shape[axis] if tensor.shape else 1)
    return found


def _plain(numbers: Mapping[str, object]) -> dict[str, object]:
    """The same with lists in the place of arrays and tuples."""
    return {name: _plain_value(value) for name, value in numbers.items()}


def _plain_value(value: object) -> object:
    match value:
        case np.ndarray() | np.generic():
            return value.tolist()
        case tuple():
            return [_plain_value(part) for part in value]
        case Mapping():
            return _plain(value)
        case _:
            return value
