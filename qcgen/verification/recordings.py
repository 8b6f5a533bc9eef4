"""Recorded inputs and outputs, read from an .npz file."""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from qcgen.ir.program import Program, Tensor, inputs_of
from qcgen.ir.types import Array
from qcgen.verification.inputs import Case


class RecordingError(Exception):
    """A file of recordings cannot be read, or does not fit the model; the text says why."""


_NUMBERED = re.compile(r"(?P<port>in|out)(?P<case>[0-9]+)\.(?P<tensor>.+)", re.DOTALL)
_OF_NODE = re.compile(r"node(?P<case>[0-9]+)\.(?P<node>.+)\.(?P<role>[xy])", re.DOTALL)

NO_TENSORS = frozenset(("labels",))
"""Keys that come with recordings and are none: the right answers."""

NOT_OPTIMIZED = ".noopt"
"""Ends the keys of outputs recorded with onnxruntime's optimizations off, which mean another arithmetic: not used."""


def recorded_cases(path: Path, program: Program) -> list[Case]:
    """The cases of a file: ``in<k>.<input>`` and ``out<k>.<output>``, or plainly the tensors' names for a single case.

    For a program of one node ``node<k>.<node>.x`` and ``.y`` serve, too; those of other nodes are passed by. Arrays are
    in the model's own shapes. Raises RecordingError.
    """
    inputs = {tensor.name: tensor for tensor in program.inputs}
    outputs = {tensor.name: tensor for tensor in program.outputs}
    feeds: dict[str, dict[str, Array]] = defaultdict(dict)
    expected: dict[str, dict[str, Array]] = defaultdict(dict)
    unknown = []
    for key, array in recorded_arrays(path).items():
        place = _place(key, program)
        if place is None:
            unknown += [key] if not _is_foreign(key, program) else []
            continue
        case, name = place
        feeds[case].update({name: array} if name in inputs else {})
        expected[case].update({name: array} if name in outputs else {})
    if unknown:
        raise RecordingError(f"{path}: {_unknown_text(unknown, program)}")
    if not feeds and not expected:
        raise RecordingError(f"{path}: it holds no recordings of {_wanted(program)}")
    for case in sorted({*feeds, *expected}, key=_order):
        _require(path, case, inputs, feeds[case])
        _require(path, case, outputs, expected[case])
    return [Case("recorded", feeds[case], expected[case]) for case in sorted(feeds, key=_order)]


def recorded_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a .npz file by their names; raises RecordingError."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise RecordingError(f"{path}: it is no .npz file")
            return dict(file)
    except OSError as error:
        raise RecordingError(f"{path}: it cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, KeyError, TypeError, AttributeError, zipfile.BadZipFile):
        raise RecordingError(f"{path}: it is no .npz file of plain arrays") from None


def _place(key: str, program: Program) -> tuple[str, str] | None:
    """The case ("" for plain names) and the tensor that a key means, None if it means nothing here."""
    names = {tensor.name for tensor in (*program.inputs, *program.outputs)}
    if key in names:
        return "", key
    if match := _NUMBERED.fullmatch(key):
        ports = program.inputs if match["port"] == "in" else program.outputs
        return (match["case"], match["tensor"]) if match["tensor"] in {tensor.name for tensor in ports} else None
    match = _OF_NODE.fullmatch(key)
    if match and len(program.operators) == 1 and match["node"] == program.operators[0].name:
        op = program.operators[0]
        return match["case"], inputs_of(op)[0].name if match["role"] == "x" else op.y.name
    return None


def _is_foreign(key: str, program: Program) -> bool:
    """Whether a key is rightly passed by: a recording of another node or of another arithmetic, or the labels."""
    if key.endswith(NOT_OPTIMIZED):
        return _place(key.removesuffix(NOT_OPTIMIZED), program) is not None
    return key in NO_TENSORS or _OF_NODE.fullmatch(key) is not None


def _order(case: str) -> int:
    return int(case or 0)


def _require(path: Path, case: str, tensors: Mapping[str, Tensor], arrays: Mapping[str, Array]) -> None:
    """Every tensor recorded, in its type and the model's own shape."""
    for name, tensor in tensors.items():
        which = f"case {case}" if case else "it"
        if name not in arrays:
            raise RecordingError(f"{path}: {which} has no recording of tensor {name!r}")
        array = arrays[name]
        if array.dtype != tensor.dtype.numpy or array.shape != tensor.shape:
            needed = f"{tensor.dtype.numpy} {list(tensor.shape)}"
            what = f"{which} has tensor {name!r} as {array.dtype} {list(array.shape)}, not {needed}"
            raise RecordingError(f"{path}: {what}")


def _unknown_text(keys: list[str], program: Program) -> str:
    shown = ", ".join(repr(key) for key in keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
    return f"unknown key{'s' if len(keys) > 1 else ''} {shown}; expected are {_wanted(program)}"


def _wanted(program: Program) -> str:
    keys = [f"in<k>.{tensor.name}" for tensor in program.inputs]
    keys += [f"out<k>.{tensor.name}" for tensor in program.outputs]
    if len(program.operators) == 1:
        keys += [f"node<k>.{program.operators[0].name}.{role}" for role in "xy"]
    return ", ".join(keys)
