"""Records the codes that onnxruntime computes of codes of 16 bits: run it by hand, where onnxruntime is installed.

    PYTHONPATH=tests:. python tests/data/onnxruntime/record_wide.py

It writes wide.npz beside itself: ``NAME.TYPE`` the outputs of the models in tests/wide_recorded.py, ``version``
onnxruntime's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from wide_recorded import OPERATORS, TYPES, feed, model

OPTIONS = {"session.qdqisint8allowed": "1", "session.qdq_matmulnbits_accuracy_level": "0"}
"""The second keeps MatMul in float: by default its input is quantized once more, to 8 bits."""

FILE = Path(__file__).parent / "wide.npz"


def run(model: bytes, x: np.ndarray) -> np.ndarray:
    """The one output of a model with one input."""
    options = onnxruntime.SessionOptions()
    for key, value in OPTIONS.items():
        options.add_session_config_entry(key, value)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def main() -> None:
    """Writes the file."""
    found = {f"{name}.{dtype}": run(model(name, dtype), feed(name, dtype)) for name in OPERATORS for dtype in TYPES}
    np.savez_compressed(FILE, **found, version=np.array(onnxruntime.__version__))
    print(FILE, FILE.stat().st_size, "bytes, onnxruntime", onnxruntime.__version__)


if __name__ == "__main__":
    main()
