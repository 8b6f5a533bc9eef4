"""Quantizes a tiny transformer in both forms and records onnxruntime's outputs: run by hand, where that is installed.

    PYTHONPATH=tests python tests/data/transformer/record.py

It writes beside itself tiny_qdq_s8.onnx and tiny_qop_s8.onnx, quantized by onnxruntime.quantization with random data,
and recorded.npz: ``x`` inputs, their outputs by the model's name, ``version`` onnxruntime's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from data.recording import quantized, recorded
from onnxruntime.quantization import QuantFormat
from transformers import tiny_transformer

FOLDER = Path(__file__).parent
SHAPE = (1, 6, 8)
FORMS = {"tiny_qdq_s8": QuantFormat.QDQ, "tiny_qop_s8": QuantFormat.QOperator}

if __name__ == "__main__":
    models = {
        name: quantized(tiny_transformer(), SHAPE, form, per_channel=form is QuantFormat.QDQ, prepare=True)
        for name, form in FORMS.items()
    }
    np.savez_compressed(FOLDER / "recorded.npz", **recorded(FOLDER, models, SHAPE, 10))
