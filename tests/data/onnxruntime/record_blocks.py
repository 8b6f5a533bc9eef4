"""Records what onnxruntime computes of weights in blocks and of 4 bits: run it by hand, where onnxruntime is installed.

    PYTHONPATH=tests:. python tests/data/onnxruntime/record_blocks.py

It writes blocks.npz beside itself: the outputs of the models in tests/blocks_recorded.py by their names or types,
``version`` onnxruntime's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from blocks_recorded import CASES, NETWORKS, feed, images, model, name, network
from record_wide import run

FILE = Path(__file__).parent / "blocks.npz"


def main() -> None:
    """Writes the file."""
    found = {name(*case): run(model(*case), feed(case[-1])) for case in CASES}
    found |= {dtype: np.concatenate([run(network(dtype), x) for x in images()]) for dtype in NETWORKS}
    np.savez_compressed(FILE, **found, version=np.array(onnxruntime.__version__))
    print(FILE, FILE.stat().st_size, "bytes, onnxruntime", onnxruntime.__version__)


if __name__ == "__main__":
    main()
