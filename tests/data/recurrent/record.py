"""Records what onnxruntime computes for LSTM and GRU: run by hand, where onnxruntime is installed.

    PYTHONPATH=tests:. python tests/data/recurrent/record.py

It writes beside itself recorded.npz: ``NAME.OUTPUT`` for the cases in tests/recurrent_recorded.py, ``version``
onnxruntime's; and wake_word_qdq.onnx and wake_word_qop.onnx, quantized by onnxruntime.quantization with random data,
whose inputs are ``x`` and whose outputs are recorded by the model's name.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from recurrent_recorded import CASES, feeds, model, wake_word

FOLDER = Path(__file__).parent
FORMS = {"wake_word_qdq": QuantFormat.QDQ, "wake_word_qop": QuantFormat.QOperator}
SHAPE = (1, 3, 21)


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
        paths = [str(Path(folder) / name) for name in ("float.onnx", "quantized.onnx")]
        onnx.save(wake_word(), paths[0])
        types = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
        quantize_static(paths[0], paths[1], Random(), quant_format=form, per_channel=True, **types)
        found = onnx.load(paths[1])
    del found.graph.value_info[:]
    return bytes(found.SerializeToString(deterministic=True))


def session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def main() -> None:
    """Writes the files."""
    x = np.random.RandomState(1).normal(0, 1, (20, *SHAPE)).astype(np.float32)
    found = {"x": x, "version": np.array(onnxruntime.__version__)}
    for name in CASES:
        run = session(model(name).SerializeToString())
        names = [output.name for output in run.get_outputs()]
        found |= {f"{name}.{y}": given for y, given in zip(names, run.run(None, feeds(name)), strict=True)}
    for name, form in FORMS.items():
        data = quantized(form)
        FOLDER.joinpath(f"{name}.onnx").write_bytes(data)
        run = session(data)
        found[name] = np.stack([run.run(None, {"x": one})[0] for one in x])
        print(name, len(data), "bytes")
    np.savez_compressed(FOLDER / "recorded.npz", **found)
    print((FOLDER / "recorded.npz").stat().st_size, "bytes, onnxruntime", onnxruntime.__version__)


if __name__ == "__main__":
    main()
