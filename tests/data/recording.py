"""Recordings of onnxruntime, which scripts beside them make: sessions, and networks that it quantizes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

INT8 = {"session.qdqisint8allowed": "1"}


def session(model: bytes | ModelProto, entries: Mapping[str, str] = INT8) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    content = model if isinstance(model, bytes) else model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


class _Random(CalibrationDataReader):
    """Eight random inputs."""

    def __init__(self, shape: Sequence[int]) -> None:
        draw = np.random.RandomState(0)
        self._inputs = iter([{"x": draw.normal(0, 1, shape).astype(np.float32)} for _ in range(8)])

    def get_next(self):
        return next(self._inputs, None)


def quantized(
    model: ModelProto, shape: Sequence[int], form: QuantFormat, *, per_channel: bool = True, prepare: bool = False
) -> bytes:
    """The model quantized with random data, without what is not needed to run it."""
    with tempfile.TemporaryDirectory() as folder:
        given, prepared, written = (
            str(Path(folder) / name) for name in ("float.onnx", "prepared.onnx", "quantized.onnx")
        )
        onnx.save(model, given)
        if prepare:
            quant_pre_process(given, prepared, skip_symbolic_shape=True)
        types = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
        reader, source = _Random(shape), prepared if prepare else given
        quantize_static(source, written, reader, quant_format=form, per_channel=per_channel, **types)
        found = onnx.load(written)
    del found.graph.value_info[:]
    return bytes(found.SerializeToString(deterministic=True))


def recorded(folder: Path, models: Mapping[str, bytes], shape: Sequence[int], count: int) -> dict[str, np.ndarray]:
    """Writes the models into the folder: random inputs ``x``, their outputs by the model's name, and the version."""
    x = np.random.RandomState(1).normal(0, 1, (count, *shape)).astype(np.float32)
    found = {"x": x, "version": np.array(onnxruntime.__version__)}
    for name, model in models.items():
        folder.joinpath(f"{name}.onnx").write_bytes(model)
        run = session(model)
        found[name] = np.stack([run.run(None, {"x": one})[0] for one in x])
        print(name, len(model), "bytes")
    return found
