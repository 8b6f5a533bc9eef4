"""Records the codes that onnxruntime computes for single operators: run it by hand, where onnxruntime is installed.

    PYTHONPATH=tests:. python tests/data/onnxruntime/record_operators.py

It writes operators.npz beside itself: ``NAME.TYPE`` the outputs of the models in tests/operators_recorded.py,
``version`` onnxruntime's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from operators_recorded import OPERATORS, TYPES, codes, model
from record import run

FILE = Path(__file__).parent / "operators.npz"


def main() -> None:
    """Writes the file."""
    found = {f"{name}.{dtype}": run(model(name, dtype), codes(name, dtype)) for name in OPERATORS for dtype in TYPES}
    np.savez_compressed(FILE, **found, version=np.array(onnxruntime.__version__))
    print(FILE, FILE.stat().st_size, "bytes, onnxruntime", onnxruntime.__version__)


if __name__ == "__main__":
    main()
