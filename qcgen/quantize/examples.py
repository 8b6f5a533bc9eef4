"""Calibration data: an .npz file whose arrays are called like the inputs, with the examples along the first axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qcgen.ir.types import Array
from qcgen.verification.recordings import NO_TENSORS, RecordingError, recorded_arrays


@dataclass(frozen=True)
class Examples:
    """``inputs`` by name, each with ``count`` examples along its first axis; ``labels`` the right classes, if known."""

    inputs: Mapping[str, Array]
    labels: Array | None
    count: int

    def feeds(self, number: int) -> dict[str, Array]:
        """One example, as a batch of one."""
        return {name: array[number : number + 1] for name, array in self.inputs.items()}


def read_examples(path: Path, shapes: Mapping[str, Sequence[int]]) -> Examples:
    """The examples of a file for inputs of these shapes, whose batch is 1; raises RecordingError.

    An array of another name serves if the model has one input and the file one array beside ``labels``.
    """
    arrays = recorded_arrays(path)
    labels = next((arrays[name] for name in NO_TENSORS if name in arrays), None)
    others = {name: array for name, array in arrays.items() if name not in NO_TENSORS}
    if len(others) == len(shapes) == 1:
        others = dict(zip(shapes, others.values(), strict=True))
    if missing := [name for name in shapes if name not in others]:
        raise RecordingError(f"{path}: it has no array {missing[0]!r}; it has {', '.join(others) or 'none'}")
    inputs = {name: np.ascontiguousarray(others[name]) for name in shapes}
    for name, shape in shapes.items():
        if inputs[name].shape[1:] != tuple(shape)[1:]:
            wanted, given = ("x".join(map(str, each[1:])) for each in (tuple(shape), inputs[name].shape))
            raise RecordingError(f"{path}: an example of {name!r} is {given or 'one number'}, the model takes {wanted}")
    counts = {len(array) for array in inputs.values()} | ({len(labels)} if labels is not None else set())
    if len(counts) != 1:
        raise RecordingError(f"{path}: its arrays have different numbers of examples: {sorted(counts)}")
    if not (count := counts.pop()):
        raise RecordingError(f"{path}: it has no examples")
    return Examples({name: array.astype(np.float32) for name, array in inputs.items()}, labels, count)
