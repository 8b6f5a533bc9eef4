"""A float model becomes a quantized one: onnxruntime's ``quantize_static`` with the settings of docs/quantizing.md."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

from qcgen.compiler import compile
from qcgen.errors import ModelRejected, Problem, ToolMissing
from qcgen.ir.types import Array
from qcgen.load import parsed
from qcgen.progress import report_progress
from qcgen.quantize.fold import fold_normalizations
from qcgen.verification.judge.engines import CannotRun, OnnxRuntime
from qcgen.verification.recordings import NO_TENSORS, RecordingError, classes, recorded_arrays

__all__ = ["CALIBRATED", "CannotRun", "Quantized", "quantize", "save"]

CALIBRATED = 200
"""Examples that ranges are measured on: more widen them by single outliers."""

WARNING, FATAL = 2, 4
"""Levels of onnxruntime's log, of which the first is its default."""

OLDEST = 13
"""The first opset whose QuantizeLinear has a scale for each channel."""


@dataclass(frozen=True)
class Quantized:
    """A quantized model: its bytes, how many normalizations were folded, how many examples gave the ranges.

    ``judged`` examples were run by the float model, the quantized one and its C: their share of right answers,
    None without labels; ``are_new``: ranges were not measured on them. ``error``: root of the mean square of what
    quantization changed in the first output, over that of the output. ``differing`` of ``outputs``: where the C is not
    equal to onnxruntime.
    """

    model: bytes
    folded: int
    calibrated: int
    judged: int
    are_new: bool
    accuracy: tuple[float, float, float] | None
    error: float
    differing: int
    outputs: int


def quantize(path: Path, data: Path, calibrated: int = CALIBRATED) -> Quantized:
    """The model at ``path`` with int8 weights, a scale for each channel, and int8 activations, as QDQ.

    Ranges are the smallest and largest values of the first ``calibrated`` examples of ``data``, an .npz file with
    arrays called like the inputs. Raises ModelRejected, RecordingError, and ToolMissing without onnxruntime.
    """
    tools = _tools()
    model = _with_batch_of_one(_float_model(path))
    examples = _read_examples(data, _shapes(model))
    folded = fold_normalizations(model)
    used = min(calibrated, examples.count)
    with tempfile.TemporaryDirectory(prefix="qcgen-") as name, _quietly(tools):
        source, prepared, target = (Path(name, each) for each in ("float.onnx", "prepared.onnx", "quantized.onnx"))
        onnx.save(model, source)  # the quantizer would change the model itself
        try:
            report_progress("preparing the model")
            tools.prepare(source, prepared, skip_symbolic_shape=True)
            tools.quantize_static(
                prepared,
                target,
                _Calibration(examples, used),
                quant_format=tools.QuantFormat.QDQ,
                per_channel=True,
                activation_type=tools.QuantType.QInt8,
                weight_type=tools.QuantType.QInt8,
                calibrate_method=tools.CalibrationMethod.MinMax,
            )
        except Exception as error:
            text = " ".join(str(error).split()) or type(error).__name__
            what = f"onnxruntime's quantizer refuses it: {text}"
            raise ModelRejected([Problem(f"file {str(path)!r}", what, "check that onnxruntime runs it")]) from error
        content = target.read_bytes()
    return _judged(model, content, examples, used, folded)


def _judged(model: ModelProto, content: bytes, examples: _Examples, used: int, folded: int) -> Quantized:
    """All that is said of the quantized model, by the examples that gave no ranges, or all if there are none left."""
    are_new = examples.count > used
    numbers = range(used, examples.count) if are_new else range(examples.count)
    exact = _answers(OnnxRuntime(model), model, examples, numbers, "float")
    coded = _answers(OnnxRuntime(onnx.load_from_string(content)), model, examples, numbers, "int8")
    own = _own_answers(content, examples, numbers)
    error = float(np.sqrt(np.mean((coded - exact) ** 2) / max(np.mean(exact**2), np.finfo(np.float32).tiny)))
    accuracy = None
    if examples.labels is not None:
        right = examples.labels[numbers.start : numbers.stop].reshape(-1)
        of_float, of_int8, of_c = (float(np.mean(classes(each) == right)) for each in (exact, coded, own))
        accuracy = (of_float, of_int8, of_c)
    differing = int(np.count_nonzero(coded != own))
    return Quantized(content, folded, used, len(numbers), are_new, accuracy, error, differing, own.size)


def _answers(session: OnnxRuntime, model: ModelProto, examples: _Examples, numbers: range, what: str) -> Array:
    """The first output for each example."""
    first = model.graph.output[0].name
    found = []
    for index, number in enumerate(numbers, start=1):
        report_progress(f"running the {what} model: example {index} of {len(numbers)}")
        found.append(session.run(examples.feeds(number))[first])
    return np.concatenate([each.reshape(1, -1) for each in found])


def _own_answers(content: bytes, examples: _Examples, numbers: range) -> Array:
    """Those of the C, on this machine."""
    loaded = compile(content, name="network").load()
    found = []
    for index, number in enumerate(numbers, start=1):
        report_progress(f"running the C: example {index} of {len(numbers)}")
        found.append(loaded.run(None, examples.feeds(number))[0].reshape(1, -1))
    return np.concatenate(found)


@dataclass(frozen=True)
class _Examples:
    """``inputs`` by name, each with ``count`` examples along its first axis; ``labels`` the right classes, if known."""

    inputs: Mapping[str, Array]
    labels: Array | None
    count: int

    def feeds(self, number: int) -> dict[str, Array]:
        """One example, as a batch of one."""
        return {name: array[number : number + 1] for name, array in self.inputs.items()}


def _read_examples(path: Path, shapes: Mapping[str, Sequence[int]]) -> _Examples:
    """The examples of a file for inputs of these shapes, whose batch is 1; raises RecordingError.

    An array of another name serves if the model has one input and the file one array beside ``labels``.
    """
    arrays = recorded_arrays(path)
    labels = next((arrays[name] for name in NO_TENSORS if name in arrays), None)
    others = {name: array for name, array in arrays.items() if name not in NO_TENSORS}
    if len(others) == len(shapes) == 1:
        others = dict(zip(shapes, others.values(), strict=True))
    if missing := [name for name in shapes if name not in others]:
        raise RecordingError(f"{path}: it has no array {missing[0]!r}; it has {', '.join(others) or 'none'}")
    inputs = {name: np.ascontiguousarray(others[name]) for name in shapes}
    for name, shape in shapes.items():
        if inputs[name].shape[1:] != tuple(shape)[1:]:
            wanted, given = ("x".join(map(str, each[1:])) for each in (tuple(shape), inputs[name].shape))
            raise RecordingError(f"{path}: an example of {name!r} is {given or 'one number'}, the model takes {wanted}")
    counts = {len(array) for array in inputs.values()} | ({len(labels)} if labels is not None else set())
    if len(counts) != 1:
        raise RecordingError(f"{path}: its arrays have different numbers of examples: {sorted(counts)}")
    if not (count := counts.pop()):
        raise RecordingError(f"{path}: it has no examples")
    return _Examples({name: array.astype(np.float32) for name, array in inputs.items()}, labels, count)


def _float_model(path: Path) -> ModelProto:
    """The model, of an opset that has scales for channels; raises ModelRejected."""
    model = parsed(path)
    where = f"file {str(path)!r}"
    if any("Quantize" in node.op_type or "QLinear" in node.op_type for node in model.graph.node):
        raise ModelRejected([Problem(where, "it is quantized already", "compile it as it is")])
    opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)
    if opset >= OLDEST:
        return model
    try:
        return onnx.version_converter.convert_version(model, OLDEST)
    except Exception as error:
        what = f"it is of opset {opset}, which onnx cannot convert to {OLDEST}"
        raise ModelRejected([Problem(where, what, f"export it with opset {OLDEST} or later")]) from error


def _with_batch_of_one(model: ModelProto) -> ModelProto:
    """The same for one example at a time, where the batch is open; shapes inside are forgotten."""
    held = {each.name for each in model.graph.initializer}
    problems = []
    for info in model.graph.input:
        if info.name in held:
            continue
        tensor = info.type.tensor_type
        if tensor.shape.dim and not tensor.shape.dim[0].dim_value > 0:
            tensor.shape.dim[0].dim_value = 1
        dims = [dim.dim_value for dim in tensor.shape.dim]
        if tensor.elem_type != TensorProto.FLOAT or not dims or dims[0] != 1 or min(dims) < 1:
            what = f"its shape is ({', '.join(str(dim or '?') for dim in dims)})"
            what += "" if tensor.elem_type == TensorProto.FLOAT else ", and its elements are not float"
            hint = "export the model with float inputs, a batch of 1 and other dimensions that are fixed"
            problems.append(Problem(f"input {info.name!r}", what, hint))
    if problems:
        raise ModelRejected(problems)
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model


def _shapes(model: ModelProto) -> dict[str, Sequence[int]]:
    held = {each.name for each in model.graph.initializer}
    return {
        info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        for info in model.graph.input
        if info.name not in held
    }


def _tools() -> SimpleNamespace:
    """What is used of onnxruntime's quantizer; ToolMissing without it."""
    try:
        import onnxruntime
        from onnxruntime import quantization
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError:
        raise ToolMissing("onnxruntime is missing: pip install 'qcgen[quantize]'") from None
    return SimpleNamespace(
        **vars(quantization), prepare=quant_pre_process, set_log_level=onnxruntime.set_default_logger_severity
    )


class _Calibration:
    """What quantize_static runs to see the range of every tensor: the first examples, then None."""

    def __init__(self, examples: _Examples, used: int) -> None:
        self._examples, self._used, self._next = examples, used, 0

    def get_next(self) -> dict[str, Array] | None:
        """The inputs of the next example."""
        if self._next == self._used:
            return None
        self._next += 1
        report_progress(f"measuring ranges: example {self._next} of {self._used}")
        return self._examples.feeds(self._next - 1)


@contextmanager
def _quietly(tools: SimpleNamespace) -> Iterator[None]:
    """The quantizer's advice goes to the log of the root, that of onnxruntime to standard error."""
    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    tools.set_log_level(FATAL)
    try:
        yield
    finally:
        logger.setLevel(before)
        tools.set_log_level(WARNING)


def save(content: bytes, path: Path) -> None:
    """Writes the model whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
