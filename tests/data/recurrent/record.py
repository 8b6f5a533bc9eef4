"""Records what onnxruntime computes for LSTM and GRU: run by hand, where onnxruntime is installed.

    PYTHONPATH=tests:. python tests/data/recurrent/record.py

It writes beside itself recorded.npz: ``NAME.OUTPUT`` for the cases in tests/recurrent_recorded.py, ``version``
onnxruntime's; and wake_word_qdq.onnx and wake_word_qop.onnx, quantized by onnxruntime.quantization with random data,
whose inputs are ``x`` and whose outputs are recorded by the model's name.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from data.recording import quantized, recorded, session
from onnxruntime.quantization import QuantFormat
from recurrent_recorded import CASES, feeds, model, wake_word

FOLDER = Path(__file__).parent
FORMS = {"wake_word_qdq": QuantFormat.QDQ, "wake_word_qop": QuantFormat.QOperator}
SHAPE = (1, 3, 21)

if __name__ == "__main__":
    models = {name: quantized(wake_word(), SHAPE, form) for name, form in FORMS.items()}
    found = recorded(FOLDER, models, SHAPE, 20)
    for name in CASES:
        run = session(model(name))
        names = [output.name for output in run.get_outputs()]
        found |= {f"{name}.{y}": given for y, given in zip(names, run.run(None, feeds(name)), strict=True)}
    np.savez_compressed(FOLDER / "recorded.npz", **found)
