"""Records what onnxruntime computes for rows and matrices of codes: run it by hand, where onnxruntime is installed.

    PYTHONPATH=tests python tests/data/onnxruntime/record_rows.py

It writes rows.npz beside itself: the output of each case of tests/rows_recorded.py by its name, and ``version``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from rows_recorded import CASES, feeds

FILE = Path(__file__).parent / "rows.npz"


def main() -> None:
    """Writes the file."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    found = {"version": np.array(onnxruntime.__version__)}
    for name, (build, _) in CASES.items():
        model = build().SerializeToString()
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        found[name] = np.asarray(session.run(None, dict(feeds(name)))[0])
    np.savez_compressed(FILE, **found)
    print(FILE, FILE.stat().st_size, "bytes, onnxruntime", onnxruntime.__version__)


if __name__ == "__main__":
    main()
