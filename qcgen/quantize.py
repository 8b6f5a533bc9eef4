"""A float model becomes a quantized one: onnxruntime's ``quantize_static`` with the settings of docs/quantizing.md."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from qcgen.compiler import compile
from qcgen.errors import ModelRejected, Problem, ToolMissing
from qcgen.infer.facts import counted
from qcgen.ir.types import Array
from qcgen.load import parsed
from qcgen.progress import report_progress
from qcgen.verification.cases import NO_TENSORS, RecordingError, classes, recorded_arrays
from qcgen.verification.judge.engines import CannotRun, OnnxRuntime

__all__ = ["CALIBRATED", "CannotRun", "Quantized", "quantize", "save"]

CALIBRATED = 200
"""Examples that ranges are measured on: more widen them by single outliers."""

INPUT_TYPES: Mapping[int, type[np.generic]] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
}
"""The types that inputs may have: numbers, and places in tables."""

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
    examples = _read_examples(data, _inputs(model))
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
    return _judged(model, content, data, examples, used, folded)


def _judged(model: ModelProto, content: bytes, data: Path, examples: _Examples, used: int, folded: int) -> Quantized:
    """All that is said of the quantized model, by the examples that gave no ranges, or all if there are none left."""
    are_new = examples.count > used
    numbers = range(used, examples.count) if are_new else range(examples.count)
    exact = _answers(OnnxRuntime(model), model, examples, numbers, "float")
    if (lost := np.flatnonzero(~np.isfinite(exact).all(axis=1))).size:
        what = "the first output of the float model is not finite"
        raise RecordingError(f"{data}: example {numbers[lost[0]]}: {what}: leave it out")
    coded = _answers(OnnxRuntime(onnx.load_from_string(content)), model, examples, numbers, "int8")
    own = _own_answers(content, examples, numbers)
    changed = np.subtract(coded, exact, dtype=np.float64)
    error = _root_mean_square(changed) / max(_root_mean_square(exact), float(np.finfo(np.float32).tiny))
    accuracy = None
    if examples.labels is not None:
        right = examples.labels[numbers.start : numbers.stop].reshape(-1)
        of_float, of_int8, of_c = (float(np.mean(classes(each) == right)) for each in (exact, coded, own))
        accuracy = (of_float, of_int8, of_c)
    differing = int(np.count_nonzero(coded != own))
    return Quantized(content, folded, used, len(numbers), are_new, accuracy, error, differing, own.size)


def _root_mean_square(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))


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


@dataclass(frozen=True)
class _Input:
    """An input of the model, whose batch is 1."""

    shape: tuple[int, ...]
    dtype: type[np.generic]


def _read_examples(path: Path, wanted: Mapping[str, _Input]) -> _Examples:
    """The examples of a file for these inputs; raises RecordingError.

    An array of another name serves if the model has one input and the file one array beside ``labels``.
    """
    arrays = recorded_arrays(path)
    labels = next((np.atleast_1d(arrays[name]) for name in NO_TENSORS if name in arrays), None)
    others = {name: array for name, array in arrays.items() if name not in NO_TENSORS}
    if len(others) == len(wanted) == 1:
        others = dict(zip(wanted, others.values(), strict=True))
    if missing := [name for name in wanted if name not in others]:
        raise RecordingError(f"{path}: it has no array {missing[0]!r}; it has {', '.join(others) or 'none'}")
    inputs = {name: np.ascontiguousarray(others[name]) for name in wanted}
    for name, each in wanted.items():
        if inputs[name].shape[1:] != each.shape[1:]:
            own, given = ("x".join(map(str, shape[1:])) for shape in (each.shape, inputs[name].shape))
            raise RecordingError(f"{path}: an example of {name!r} is {given or 'one number'}, the model takes {own}")
    if labels is not None and labels.size != len(labels):
        shape = "x".join(map(str, labels.shape))
        raise RecordingError(f"{path}: its labels are {shape}: give one number for each example, that of its class")
    counts = {len(array) for array in inputs.values()} | ({len(labels)} if labels is not None else set())
    if len(counts) != 1:
        raise RecordingError(f"{path}: its arrays have different numbers of examples: {sorted(counts)}")
    if not (count := counts.pop()):
        raise RecordingError(f"{path}: it has no examples")
    numbers = {name: _as_input(path, name, array, wanted[name].dtype) for name, array in inputs.items()}
    return _Examples(numbers, labels, count)


def _as_input(path: Path, name: str, array: Array, dtype: type[np.generic]) -> Array:
    """The examples in the input's type; raises RecordingError where that has no such number."""
    with np.errstate(over="ignore", invalid="ignore"):
        found: Array = array.astype(dtype)
    is_float = np.issubdtype(dtype, np.floating)
    lost = ~np.isfinite(found) if is_float else found != array
    rows = np.flatnonzero(lost.reshape(len(array), -1).any(axis=1))
    if rows.size == 0:
        return found
    numbers = array[rows[0]]
    held = next((what for what, test in (("NaN", np.isnan), ("infinity", np.isinf)) if test(numbers).any()), "")
    held = held or ("infinity in float32" if is_float else f"a number that is not an {dtype.__name__}")
    more = f", like {counted(rows.size - 1, 'more example')}: leave them out" if rows.size > 1 else ": leave it out"
    raise RecordingError(f"{path}: example {rows[0]} of {name!r} has {held}{more}")


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
        is_known = tensor.elem_type in INPUT_TYPES
        if not is_known or not dims or dims[0] != 1 or min(dims) < 1:
            what = f"its shape is ({', '.join(str(dim or '?') for dim in dims)})"
            what += "" if is_known else ", and its elements are neither float nor int32 nor int64"
            hint = "export the model with such inputs, a batch of 1 and other dimensions that are fixed"
            problems.append(Problem(f"input {info.name!r}", what, hint))
    if problems:
        raise ModelRejected(problems)
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model


def _inputs(model: ModelProto) -> dict[str, _Input]:
    held = {each.name for each in model.graph.initializer}
    types = {info.name: info.type.tensor_type for info in model.graph.input if info.name not in held}
    return {
        name: _Input(tuple(dim.dim_value for dim in tensor.shape.dim), INPUT_TYPES[tensor.elem_type])
        for name, tensor in types.items()
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


# Normalizations behind convolutions become a part of their weights: a quantizer would take them one by one.

_LINES = {"BatchNormalization": 1, "Add": 2, "Sub": 2, "Mul": 2, "Div": 2}
"""Operators that do the same to all elements of a channel, and the number of inputs that may be data."""


def fold_normalizations(model: ModelProto) -> int:
    """Changes the model: BatchNormalization, and what stands for it, goes into the convolution before it; how many did.

    Exporters of Keras write Sub, Mul and Add in its place, also behind a Transpose to channels last.
    """
    count = 0
    while _fold_one(model):
        count += 1
    unused = [each for each in model.graph.initializer if not _readers(model, each.name)]
    for tensor in unused:
        model.graph.initializer.remove(tensor)
    return count


def _fold_one(model: ModelProto) -> bool:
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if node.domain or node.op_type not in _LINES:
            continue
        for index, name in enumerate(node.input[: _LINES[node.op_type]]):
            axis, between = 1, makers.get(name)
            if between is not None and between.op_type == "Transpose" and _readers(model, name) == 1:
                perm = next((tuple(each.ints) for each in between.attribute if each.name == "perm"), ())
                axis, name = (perm.index(1) if 1 in perm else -1), between.input[0]
            conv = makers.get(name)
            if conv is None or conv.op_type != "Conv" or conv.domain or axis < 0 or _readers(model, name) != 1:
                continue
            if conv.input[1] not in constants or any(each and each not in constants for each in conv.input[2:]):
                continue
            weights = constants[conv.input[1]]
            line = _line(node, index, constants, len(weights), axis, weights.ndim)
            if line is not None:
                _take(model, conv, node, index, constants, line)
                return True
    return False


def _readers(model: ModelProto, name: str) -> int:
    """How often a tensor is used."""
    read = [used for node in model.graph.node for used in node.input]
    return [*read, *(output.name for output in model.graph.output)].count(name)


def _line(
    node: NodeProto, index: int, constants: dict[str, Array], channels: int, axis: int, rank: int
) -> tuple[Array, Array] | None:
    """Factor and summand of each channel, None if the node does something else."""
    if node.op_type == "BatchNormalization":
        if axis != 1 or len(node.output) != 1 or any(name not in constants for name in node.input[1:5]):
            return None
        gamma, beta, mean, variance = (constants[name].astype(np.float64) for name in node.input[1:5])
        epsilon = next((each.f for each in node.attribute if each.name == "epsilon"), 1e-5)
        factor = gamma / np.sqrt(variance + epsilon)
        return factor, beta - mean * factor
    other = constants.get(node.input[1 - index])
    if other is None or other.dtype != np.float32:
        return None
    value = _of_channels(other.astype(np.float64), channels, axis, rank)
    if value is None:
        return None
    one, zero = np.ones(channels), np.zeros(channels)
    match node.op_type, index:
        case "Add", _:
            return one, value
        case "Sub", 0:
            return one, -value
        case "Sub", 1:
            return -one, value
        case "Mul", _:
            return value, zero
        case "Div", 0:
            return 1 / value, zero
    return None


def _of_channels(value: Array, channels: int, axis: int, rank: int) -> Array | None:
    """A number for each channel of an array that is the same along all other axes."""
    shape = (1,) * (rank - value.ndim) + value.shape
    wanted = tuple(channels if each == axis else 1 for each in range(rank))
    if len(shape) != rank or any(own not in (1, other) for own, other in zip(shape, wanted, strict=True)):
        return None
    return np.array(np.broadcast_to(value.reshape(shape), wanted).reshape(channels))


def _take(
    model: ModelProto,
    conv: NodeProto,
    node: NodeProto,
    index: int,
    constants: dict[str, Array],
    line: tuple[Array, Array],
) -> None:
    """The convolution takes up the line of each channel; the node goes."""
    factor, summand = line
    weights = constants[conv.input[1]]
    bias = constants[conv.input[2]] if len(conv.input) > 2 and conv.input[2] else np.zeros(len(weights), np.float32)
    scaled = weights * factor.reshape(-1, *[1] * (weights.ndim - 1))
    fresh = _fresh(model, conv)
    for part, values in (("weights", scaled), ("bias", bias * factor + summand)):
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), f"{fresh}_{part}"))
    del conv.input[1:]
    conv.input.extend([f"{fresh}_weights", f"{fresh}_bias"])
    # What made the node's input makes its output now.
    source, target = node.input[index], node.output[0]
    for other in model.graph.node:
        if other is not node:
            other.output[:] = [target if name == source else name for name in other.output]
    model.graph.node.remove(node)


def _fresh(model: ModelProto, conv: NodeProto) -> str:
    """The beginning of names that the model does not have."""
    taken = {each.name for each in model.graph.initializer}
    number = 0
    while f"{conv.output[0]}_folded{number}_weights" in taken:
        number += 1
    return f"{conv.output[0]}_folded{number}"
