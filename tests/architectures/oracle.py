"""A network quantized by onnxruntime.quantization, compiled, and held against onnxruntime."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import qcgen
from architectures.builder import CUT
from qcgen.artifact import Artifact
from qcgen.ir.program import Dequantize, Movement
from qcgen.ir.types import DType
from qcgen.reference import evaluate_all
from qcgen.reference.tolerance import tolerances

FORMS = {"QDQ": QuantFormat.QDQ, "QOperator": QuantFormat.QOperator, "dynamic": None}
"""How onnxruntime.quantization writes a network: two static forms, and that of quantize_dynamic."""

CASES = 10
CALIBRATION = 6
LARGE = 40_000_000
"""Multiply-adds from which on a network is tried with a single input."""

Feeds = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Verdict:
    """What became of a network in one form.

    ``refusal``: why it is not compiled, "" if it is; ``problems``: how many there are. Of ``outputs`` numbers
    ``differ`` are not onnxruntime's, ``beyond`` of them by more than the tolerance of float32 sums, ``most`` is the
    largest difference. ``floats``: the operators whose results are float32, but for conversions at the boundary.
    """

    refusal: str = ""
    problems: int = 0
    outputs: int = 0
    differ: int = 0
    beyond: int = 0
    most: float = 0.0
    constants: int = 0
    arena: int = 0
    floats: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """exact, within tolerance, differs or refused."""
        if self.refusal:
            return "refused"
        return "differs" if self.beyond else "within tolerance" if self.differ else "exact"


class Inputs(CalibrationDataReader):
    """Random inputs of a model, for the quantizer."""

    def __init__(self, model: ModelProto) -> None:
        self._feeds = (feeds(model, seed) for seed in range(CALIBRATION))

    def get_next(self):
        return next(self._feeds, None)


def feeds(model: ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Random inputs: normal floats, integers below 10, bytes."""
    draw, found = np.random.RandomState(seed), {}
    for each in model.graph.input:
        shape = [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type)
        is_float = dtype == np.float32
        numbers = draw.normal(0, 1, shape) if is_float else draw.randint(0, 256 if dtype == np.uint8 else 10, shape)
        found[each.name] = np.asarray(numbers).astype(dtype)
    return found


def quantized(model: ModelProto, form: str) -> ModelProto:
    """The model with int8 weights, per output channel, and int8 activations; uint8 ones of quantize_dynamic."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("float.onnx", "prepared.onnx", "quantized.onnx")]
        onnx.save(model, paths[0])
        quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
        static = FORMS[form]
        if static is None:
            quantize_dynamic(paths[1], paths[2])
            return onnx.load(paths[2])
        types = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
        quantize_static(paths[1], paths[2], Inputs(model), quant_format=static, per_channel=True, **types)
        return onnx.load(paths[2])


def session(model: ModelProto) -> onnxruntime.InferenceSession:
    """onnxruntime, with int8 codes kept as they are."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def cuts(model: ModelProto) -> tuple[str, ...]:
    """The tensors up to which a network can be compiled."""
    return tuple(name for each in model.metadata_props if each.key == CUT for name in each.value.split("\n"))


def up_to(model: ModelProto, names: tuple[str, ...]) -> ModelProto:
    """The model with these tensors as its outputs."""
    shortened = ModelProto()
    shortened.CopyFrom(model)
    del shortened.graph.output[:]
    shortened.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return shortened


def compared(model: ModelProto, outputs: tuple[str, ...] = ()) -> Verdict:
    """A quantized model compiled, up to ``outputs`` if there are any, and compared with onnxruntime."""
    try:
        artifact = qcgen.compile(model, name="net", outputs=outputs)
    except qcgen.ModelRejected as rejection:
        return Verdict(str(rejection.problems[0]), len(rejection.problems))
    return _compared(artifact, up_to(model, outputs) if outputs else model)


def _compared(artifact: Artifact, model: ModelProto) -> Verdict:
    theirs, ours, names = session(model), artifact.load(), [each.name for each in model.graph.output]
    total = differ = beyond = 0
    most = 0.0
    for seed in range(CASES if artifact.report.macs < LARGE else 1):
        given = feeds(model, 100 + seed)
        wanted = dict(zip(names, theirs.run(names, given), strict=True))
        got = dict(zip(names, ours.run(names, given), strict=True))
        is_right = all(np.array_equal(got[name], wanted[name], equal_nan=True) for name in names)
        allowed = {} if is_right else tolerances(artifact.program, evaluate_all(artifact.program, given))
        for name in names:
            error = np.abs(got[name].astype(np.float64) - wanted[name].astype(np.float64))
            total += error.size
            differ += int((got[name] != wanted[name]).sum())
            beyond += 0 if is_right else int((error > 2 * allowed[name]).sum())
            most = max(most, float(error.max(initial=0)))
    report = artifact.report
    return Verdict("", 0, total, differ, beyond, most, report.constants_bytes, report.arena_bytes, _floats(artifact))


def _floats(artifact: Artifact) -> tuple[str, ...]:
    """The operators whose results are float32 numbers, without conversions and movement."""
    ops = [call.op for call in artifact.plan.calls if call.op.y.dtype is DType.FLOAT32]
    return tuple(op.op_type for op in ops if not isinstance(op, Dequantize | Movement))
