"""Recorded inputs and outputs, read from an .npz file, and the share of right answers if it has labels."""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from qcgen.artifact import Artifact
from qcgen.ir.program import Program, Tensor, inputs_of
from qcgen.ir.types import Array
from qcgen.reference import evaluate_frames
from qcgen.report import Accuracy
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
    """The cases of a file: ``in<k>.<input>`` and ``out<k>.<output>``, or plainly the tensors' names.

    Plain names are those of a single case, or of several along the first axis: in place of a first dimension of 1, or
    in front of the shape. Where no case has outputs, the reference judges alone. For a program of one node
    ``node<k>.<node>.x`` and ``.y`` serve, too; those of other nodes are passed by. Arrays are in the model's own
    shapes. Of a network with states the cases are calls one after the other, and get the states that the reference
    leaves. Raises RecordingError.
    """
    own_inputs, own_outputs = program.of_caller
    cases = _cases_of(path, replace(program, inputs=own_inputs, outputs=own_outputs, states=()))
    if not program.states:
        return cases
    frames = evaluate_frames(program, [case.feeds for case in cases])
    names = [tensor.name for tensor in program.inputs]
    return [
        replace(case, feeds={name: values[name] for name in names}) for case, values in zip(cases, frames, strict=True)
    ]


def _cases_of(path: Path, program: Program) -> list[Case]:
    """Those of a program without states."""
    inputs = {tensor.name: tensor for tensor in program.inputs}
    outputs = {tensor.name: tensor for tensor in program.outputs}
    feeds: dict[str, dict[str, Array]] = defaultdict(dict)
    expected: dict[str, dict[str, Array]] = defaultdict(dict)
    unknown = []
    for key, array in _taken_apart(path, _called(recorded_arrays(path), inputs, outputs), inputs, outputs).items():
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
    has_outputs = any(expected.values())
    for case in sorted({*feeds, *expected}, key=_order):
        _require(path, case, inputs, feeds[case])
        if has_outputs:
            _require(path, case, outputs, expected[case])
    group = "recorded" if has_outputs else "recorded, without outputs"
    return [Case(group, feeds[case], expected[case] if has_outputs else None) for case in sorted(feeds, key=_order)]


def _called(
    arrays: Mapping[str, Array], inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> Mapping[str, Array]:
    """The arrays; a single one beside labels that fits is the only input's, whatever it is called, as in quantize."""
    others = [name for name in arrays if name not in NO_TENSORS]
    if not len(others) == len(inputs) == 1 or others[0] in outputs:
        return arrays
    if _NUMBERED.fullmatch(others[0]) or _OF_NODE.fullmatch(others[0]):
        return arrays
    [(name, tensor)] = inputs.items()
    return arrays if _cases(arrays[others[0]], tensor) is None else {name: arrays[others[0]]}


def _taken_apart(
    path: Path, arrays: Mapping[str, Array], inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> Mapping[str, Array]:
    """Arrays of several cases that are called plainly as tensors, as one for each case; raises RecordingError."""
    plain = {name: tensor for name, tensor in {**inputs, **outputs}.items() if name in arrays}
    cases = {name: _cases(arrays[name], tensor) for name, tensor in plain.items()}
    if all(arrays[name].shape == tensor.shape for name, tensor in plain.items()) or any(
        each is None for each in cases.values()
    ):
        return arrays  # of one case, or of a wrong shape, which is said later
    counts = {name: len(each) for name, each in cases.items() if each is not None}
    if len(set(counts.values())) > 1:
        each = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise RecordingError(f"{path}: as many cases are needed of each tensor, not {each}")
    apart = {
        f"{'in' if name in inputs else 'out'}{number}.{name}": case
        for name, each in cases.items()
        for number, case in enumerate(each if each is not None else ())
    }
    rest = {name: array for name, array in arrays.items() if name not in plain}
    if twice := rest.keys() & apart.keys():
        raise RecordingError(f"{path}: {min(twice)!r} is a case of an array called plainly, too")
    return rest | apart


def _cases(array: Array, tensor: Tensor) -> Array | None:
    """The cases along a first axis, of a tensor's shape each; None if the shape is another."""
    if array.shape == tensor.shape:
        return array[np.newaxis]
    if array.shape[1:] == tensor.shape and array.ndim:
        return array
    is_batched = array.ndim > 0 and tensor.shape[:1] == (1,) and array.shape[1:] == tensor.shape[1:]
    return array[:, np.newaxis] if is_batched else None


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


# The share of right answers of a network that classifies, given by its C on this machine.


def classes(outputs: Array) -> Array:
    """The class that each row of outputs names: that of its largest number, or of a single one whether it is > 0.5."""
    flat = outputs.reshape(len(outputs), -1)
    return np.asarray(flat.argmax(1) if flat.shape[1] > 1 else (flat[:, 0] > 0.5).astype(np.int64))


def accuracy(artifact: Artifact, path: Path) -> Accuracy | None:
    """Of the first output, for the examples of a file by its array ``labels``; None if it has none.

    Raises RecordingError, and ToolMissing without a compiler.
    """
    labels = recorded_arrays(path).get("labels")
    if labels is None:
        return None
    cases = recorded_cases(path, artifact.program)
    if labels.size != len(cases):
        raise RecordingError(f"{path}: its labels are {labels.size}, its examples {len(cases)}")
    loaded = artifact.load()
    names = {each.name for each in loaded.get_inputs()}
    given = [{name: case.feeds[name] for name in names} for case in cases]
    outputs = np.concatenate([loaded.run(None, feeds)[0].reshape(1, -1) for feeds in given])
    return Accuracy(int(np.count_nonzero(classes(outputs) == labels.reshape(-1))), len(cases))
