"""Records what onnxruntime computes for networks with float16 numbers: run it by hand, where onnxruntime is installed.

    PYTHONPATH=tests:. python tests/data/onnxruntime/record_float16.py

It writes float16.npz beside itself: the outputs of the models in tests/float16_recorded.py by their names, ``version``
onnxruntime's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from float16_recorded import NETWORKS, feed, model

FILE = Path(__file__).parent / "float16.npz"


def main() -> None:
    """Writes the file."""
    found = {}
    for name in NETWORKS:
        session = onnxruntime.InferenceSession(model(name).SerializeToString(), providers=["CPUExecutionProvider"])
        found[name] = np.asarray(session.run(None, {"x": feed(name)})[0])
    np.savez_compressed(FILE, **found, version=np.array(onnxruntime.__version__))
    print(FILE.name, FILE.stat().st_size, "bytes, onnxruntime", onnxruntime.__version__)


if __name__ == "__main__":
    main()
