"""Quantizes a tiny transformer in both forms and records onnxruntime's outputs: run by hand, where that is installed.

    PYTHONPATH=tests python tests/data/transformer/record.py

It writes beside itself tiny_qdq_s8.onnx and tiny_qop_s8.onnx, quantized by onnxruntime.quantization with random data,
and recorded.npz: ``x`` inputs, their outputs by the model's name, ``version`` onnxruntime's.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from transformers import tiny_transformer

FOLDER = Path(__file__).parent
SHAPE = (1, 6, 8)
FORMS = {"tiny_qdq_s8": QuantFormat.QDQ, "tiny_qop_s8": QuantFormat.QOperator}


class Random(CalibrationDataReader):
    """Eight random inputs."""

    def __init__(self) -> None:
        draw = np.random.RandomState(0)
        self._inputs = iter([{"x": draw.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(8)])

    def get_next(self):
        return next(self._inputs, None)


def quantized(form: QuantFormat) -> bytes:
    """The model, without what is not needed to run it."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("float.onnx", "prepared.onnx", "quantized.onnx")]
        onnx.save(tiny_transformer(), paths[0])
        quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
        per_channel = form is QuantFormat.QDQ
        types = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
        quantize_static(paths[1], paths[2], Random(), quant_format=form, per_channel=per_channel, **types)
        model = onnx.load(paths[2])
    del model.graph.value_info[:]
    return bytes(model.SerializeToString(deterministic=True))


def main() -> None:
    """Writes the files."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    x = np.random.RandomState(1).normal(0, 1, (10, *SHAPE)).astype(np.float32)
    found = {"x": x, "version": np.array(onnxruntime.__version__)}
    for name, form in FORMS.items():
        model = quantized(form)
        FOLDER.joinpath(f"{name}.onnx").write_bytes(model)
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        found[name] = np.stack([session.run(None, {"x": one})[0] for one in x])
        print(name, len(model), "bytes")
    np.savez_compressed(FOLDER / "recorded.npz", **found)


if __name__ == "__main__":
    main()
