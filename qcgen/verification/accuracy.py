"""The share of right answers of a network that classifies, given by its C on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qcgen.artifact import Artifact
from qcgen.ir.types import Array
from qcgen.report import Accuracy
from qcgen.verification.recordings import RecordingError, recorded_arrays, recorded_cases


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
