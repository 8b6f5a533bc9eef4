"""Cases to verify with: inputs worth trying, random ones, extremes, such as make Orion panic, and recorded ones."""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qcgen.artifact import Artifact
from qcgen.errors import OrionPanic
from qcgen.ir.program import (
    Conv,
    Convert,
    Embedding,
    FloatUnary,
    GatherElements,
    OrionConv,
    Program,
    Quantize,
    Reshape,
    Slice,
    Tensor,
    Transpose,
    inputs_of,
)
from qcgen.ir.types import Array, DType
from qcgen.orion import run_time_tests
from qcgen.reference import evaluate, evaluate_frames
from qcgen.report import Accuracy
from qcgen.verification.layers import driving_inputs

# Inputs worth trying: seeded random ones, extremes, what drives sums to their ends and Orion to panics.


@dataclass(frozen=True)
class Case:
    """Inputs by name in the model's own shapes; ``expected`` are recorded outputs, None if the reference judges."""

    group: str
    feeds: Mapping[str, Array]
    expected: Mapping[str, Array] | None = None


@dataclass(frozen=True)
class Reached:
    """How many output channels are driven to both ends of their accumulator's interval; float operators have none."""

    channels: int
    of: int


def generated_cases(program: Program, seed: int, cases: int) -> Iterator[Case]:
    """``cases`` random inputs, half of them of extremes only, then the extremes; the same for the same seed.

    Float inputs that are quantized get one more case: numbers halfway between codes, where rounding decides.
    """
    generator = np.random.default_rng(seed)
    spans = {tensor: _span_of(program, tensor) for tensor in program.inputs}
    for index in range(cases):
        pick = _random_ends if index % 2 else _random
        group = "random extremes" if index % 2 else "random"
        yield Case(group, {tensor.name: pick(tensor, span, generator) for tensor, span in spans.items()})
    for group, value in (("all low", "low"), ("all high", "high"), ("all zero points", "zero")):
        yield Case(group, {tensor.name: _filled(tensor, getattr(span, value)) for tensor, span in spans.items()})
    if any(span.quantized is not None for span in spans.values()):
        feeds = {tensor.name: _halfway(tensor, span, generator) for tensor, span in spans.items()}
        yield Case("halfway between codes", feeds)


def end_cases(program: Program) -> tuple[list[Case], Reached]:
    """Inputs that drive the accumulators of every convolution that reads an input of the model to both ends.

    An input that is quantized first counts as read: it gets the numbers that the codes stand for.
    """
    spans = {tensor: _span_of(program, tensor) for tensor in program.inputs}
    rest = {tensor.name: _filled(tensor, span.zero) for tensor, span in spans.items()}
    sources = _sources(program)
    cases, reached, channels = [], 0, 0
    for op in program.operators:
        if not isinstance(op, Conv | OrionConv) or op.x.name not in sources:
            continue
        source = sources[op.x.name]
        span = _span_of(program, op.x)
        driven = driving_inputs(op, span.low, span.zero, span.high)
        for x in driven.inputs:
            feed = x if source.name == op.x.name else _decoded(op.x, x)
            cases.append(Case("accumulator ends", rest | {source.name: feed}))
        if not op.x.dtype.is_float and not _can_panic(op):  # sums are not reached that Orion panics at
            reached += driven.reached
            channels += op.geometry.out_channels
    return cases, Reached(reached, channels)


def _can_panic(op: Conv | OrionConv) -> bool:
    return isinstance(op, OrionConv) and run_time_tests(op).any


def _sources(program: Program) -> dict[str, Tensor]:
    """The inputs, by their own names and by those of what they are quantized to."""
    named = {tensor.name: tensor for tensor in program.inputs}
    quantizers = [op for op in program.operators if isinstance(op, Quantize) and op.x.name in named]
    return named | {op.y.name: named[op.x.name] for op in quantizers}


def _decoded(tensor: Tensor, codes: Array) -> Array:
    """The float numbers that codes stand for; to quantize them gives the codes again."""
    return _finite((codes.astype(np.int64) - (tensor.zero_point or 0)) * float(tensor.scale or 1))


def _random(tensor: Tensor, span: _Span, generator: np.random.Generator) -> Array:
    if not tensor.dtype.is_float:
        return generator.integers(int(span.low), int(span.high) + 1, tensor.shape).astype(tensor.dtype.numpy)
    if span.quantized is None:
        return generator.standard_normal(tensor.shape).astype(tensor.dtype.numpy)
    return _finite(generator.uniform(span.low, span.high, tensor.shape), tensor.dtype)


def _random_ends(tensor: Tensor, span: _Span, generator: np.random.Generator) -> Array:
    ends = np.array([_filled(tensor, value).reshape(-1)[0] for value in (span.low, span.zero, span.high)])
    chosen: Array = ends[generator.integers(0, 3, tensor.shape)]
    return chosen


def _halfway(tensor: Tensor, span: _Span, generator: np.random.Generator) -> Array:
    """(code + 1/2 - zero_point) * scale for codes of the whole range, and one beyond at either end."""
    to = span.quantized
    if to is None:
        return _random(tensor, span, generator)
    assert to.zero_point is not None, "what is quantized has a zero point"
    codes = generator.integers(to.dtype.low - 1, to.dtype.high + 1, tensor.shape) - to.zero_point
    return _finite((codes + 0.5) * float(to.scale or 1), tensor.dtype)


def _finite(numbers: Array, dtype: DType = DType.FLOAT32) -> Array:
    """As floats of a type, the largest one for what is beyond."""
    limit = np.finfo(dtype.numpy).max
    return np.clip(numbers, -limit, limit).astype(dtype.numpy)


def _filled(tensor: Tensor, value: float) -> Array:
    if tensor.dtype.is_float:
        return _finite(np.full(tensor.shape, value), tensor.dtype)
    return np.full(tensor.shape, value, tensor.dtype.numpy)


# What numbers are worth giving to an input: the range of its type, or what the first Quantize behind it covers.

FLOAT_REACH = 4.0
"""The extremes tried for float inputs that nothing quantizes are -4 and 4: beyond the bends of every activation."""

BEYOND = 0.25
"""How far beyond what is covered quantized float inputs go at either end, as a part of the range."""


@dataclass(frozen=True)
class _Span:
    """``low`` and ``high`` are the extremes to try, ``zero`` is 0; ``quantized`` is what a float input becomes."""

    low: float
    zero: float
    high: float
    quantized: Tensor | None = None


def _span_of(program: Program, tensor: Tensor) -> _Span:
    """The span of an input, or of a tensor that is quantized."""
    rows = _rows_of(program, tensor)
    if rows:
        return _Span(-rows - 1, 0, rows)
    if not tensor.dtype.is_float:
        return _Span(tensor.dtype.low, tensor.zero_point or 0, tensor.dtype.high)
    quantized = _first_quantized(program, tensor)
    if quantized is None:
        return _Span(-FLOAT_REACH, 0.0, FLOAT_REACH)
    scale, zero_point = float(quantized.scale or 1), quantized.zero_point or 0
    low, high = ((end - zero_point) * scale for end in (quantized.dtype.low, quantized.dtype.high))
    beyond = BEYOND * (high - low)
    limit = float(np.finfo(np.float32).max)
    return _Span(max(low - beyond, -limit), 0.0, min(high + beyond, limit), quantized)


def _rows_of(program: Program, tensor: Tensor) -> int:
    """The rows of the largest table or axis of which the elements of a tensor are numbers, 0 if there is none."""
    tables = [len(op.table) for op in program.operators if isinstance(op, Embedding) and op.x.name == tensor.name]
    axes = [op.x.shape[op.axis] for op in program.operators if isinstance(op, GatherElements) and op.places == tensor]
    return max((*tables, *axes), default=0)


def _first_quantized(program: Program, tensor: Tensor) -> Tensor | None:
    """What the first Quantize behind a float tensor makes of it; what only moves or clamps elements is passed by."""
    names = {tensor.name}
    for op in program.operators:
        if names.isdisjoint(x.name for x in inputs_of(op)):
            continue
        if isinstance(op, Quantize):
            return op.y
        if isinstance(op, Transpose | Reshape | Slice | FloatUnary | Convert):
            names.add(op.y.name)
    return None


# Inputs on both sides of Orion's panics: on one it panics, on the other, which differs in one code, it does not.

MOST_PAIRS = 8
"""The inputs that panic from which such pairs are made."""


def panics(program: Program, feeds: Mapping[str, Array]) -> bool:
    """Whether Orion panics on inputs by name."""
    try:
        evaluate(program, feeds)
    except OrionPanic:
        return True
    return False


def border_cases(program: Program, cases: Sequence[Case]) -> Iterator[Case]:
    """Pairs of inputs, made from cases on which Orion panics and from one on which it does not; none without either."""
    fine = next((case.feeds for case in cases if not panics(program, case.feeds)), None)
    if fine is None:
        return
    beyond = [case.feeds for case in cases if panics(program, case.feeds)]
    for feeds in beyond[:MOST_PAIRS]:
        for side in _pair(program, fine, feeds):
            yield Case("next to a panic", side)


def _pair(program: Program, fine: Mapping[str, Array], beyond: Mapping[str, Array]) -> tuple[Mapping[str, Array], ...]:
    """Inputs between ``fine`` and ``beyond`` that differ in one code by 1: Orion panics on the second alone."""
    low, high = _flat(fine), _flat(beyond)

    def with_first(count: int) -> Array:
        return np.concatenate([high[:count], low[count:]])

    def panics_at(codes: Array) -> bool:
        return panics(program, _shaped(codes, fine))

    count = _last(high.size, lambda n: not panics_at(with_first(n)))
    step = int(np.sign(high[count].astype(int) - low[count].astype(int)))

    def moved(steps: int) -> Array:
        codes = with_first(count)
        codes[count] += step * steps
        return codes

    steps = _last(abs(int(high[count]) - int(low[count])), lambda n: not panics_at(moved(n)))
    return tuple(_shaped(moved(n), fine) for n in (steps, steps + 1))


def _last(end: int, holds: Callable[[int], bool]) -> int:
    """A number below ``end`` at which something holds that does not one further on; it holds at 0, not at ``end``."""
    first, last = 0, end
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if holds(middle) else (first, middle)
    return first


def _flat(feeds: Mapping[str, Array]) -> Array:
    """All codes of all inputs, which are int8 in Orion's arithmetic."""
    return np.concatenate([array.reshape(-1) for array in feeds.values()]).astype(np.int16)


def _shaped(codes: Array, like: Mapping[str, Array]) -> dict[str, Array]:
    found, start = {}, 0
    for name, array in like.items():
        found[name] = codes[start : start + array.size].reshape(array.shape).astype(array.dtype)
        start += array.size
    return found


# Recorded inputs and outputs, read from an .npz file, and the share of right answers if it has labels.


class RecordingError(Exception):
    """A file of recordings cannot be read, or does not fit the model; the text says why."""


_NUMBERED = re.compile(r"(?P<port>in|out)(?P<case>[0-9]+)\.(?P<tensor>.+)", re.DOTALL)
_OF_NODE = re.compile(r"node(?P<case>[0-9]+)\.(?P<node>.+)\.(?P<role>[xy])", re.DOTALL)

NO_TENSORS = frozenset(("labels",))
"""Keys that come with recordings and are none: the right answers."""

NOT_OPTIMIZED = ".noopt"
"""Ends the keys of outputs recorded with onnxruntime's optimizations off, which mean another arithmetic: not used."""


def recorded_cases(path: Path, program: Program) -> list[Case]:
    """The cases of a file: ``in<k>.<input>`` and ``out<k>.<output>``, or plainly the tensors' names.

    Plain names are those of a single case, or of several along the first axis: in place of a first dimension of 1, or
    in front of the shape. Where no case has outputs, the reference judges alone. For a program of one node
    ``node<k>.<node>.x`` and ``.y`` serve, too; those of other nodes are passed by. Arrays are in the model's own
    shapes. Of a network with states the cases are calls one after the other, and get the states that the reference
    leaves. Raises RecordingError.
    """
    own_inputs, own_outputs = program.of_caller
    cases = _cases_of(path, replace(program, inputs=own_inputs, outputs=own_outputs, states=()))
    if not program.states:
        return cases
    frames = evaluate_frames(program, [case.feeds for case in cases])
    names = [tensor.name for tensor in program.inputs]
    return [
        replace(case, feeds={name: values[name] for name in names}) for case, values in zip(cases, frames, strict=True)
    ]


def _cases_of(path: Path, program: Program) -> list[Case]:
    """Those of a program without states."""
    inputs = {tensor.name: tensor for tensor in program.inputs}
    outputs = {tensor.name: tensor for tensor in program.outputs}
    feeds: dict[str, dict[str, Array]] = defaultdict(dict)
    expected: dict[str, dict[str, Array]] = defaultdict(dict)
    unknown = []
    for key, array in _taken_apart(path, _called(recorded_arrays(path), inputs, outputs), inputs, outputs).items():
        place = _place(key, program)
        if place is None:
            unknown += [key] if not _is_foreign(key, program) else []
            continue
        case, name = place
        feeds[case].update({name: array} if name in inputs else {})
        expected[case].update({name: array} if name in outputs else {})
    if unknown:
        raise RecordingError(f"{path}: {_unknown_text(unknown, program)}")
    if not feeds and not expected:
        raise RecordingError(f"{path}: it holds no recordings of {_wanted(program)}")
    has_outputs = any(expected.values())
    for case in sorted({*feeds, *expected}, key=_order):
        _require(path, case, inputs, feeds[case])
        if has_outputs:
            _require(path, case, outputs, expected[case])
    group = "recorded" if has_outputs else "recorded, without outputs"
    return [Case(group, feeds[case], expected[case] if has_outputs else None) for case in sorted(feeds, key=_order)]


def _called(
    arrays: Mapping[str, Array], inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> Mapping[str, Array]:
    """The arrays; a single one beside labels that fits is the only input's, whatever it is called, as in quantize."""
    others = [name for name in arrays if name not in NO_TENSORS]
    if not len(others) == len(inputs) == 1 or others[0] in outputs:
        return arrays
    if _NUMBERED.fullmatch(others[0]) or _OF_NODE.fullmatch(others[0]):
        return arrays
    [(name, tensor)] = inputs.items()
    return arrays if _cases(arrays[others[0]], tensor) is None else {name: arrays[others[0]]}


def _taken_apart(
    path: Path, arrays: Mapping[str, Array], inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> Mapping[str, Array]:
    """Arrays of several cases that are called plainly as tensors, as one for each case; raises RecordingError."""
    plain = {name: tensor for name, tensor in {**inputs, **outputs}.items() if name in arrays}
    cases = {name: _cases(arrays[name], tensor) for name, tensor in plain.items()}
    if all(arrays[name].shape == tensor.shape for name, tensor in plain.items()) or any(
        each is None for each in cases.values()
    ):
        return arrays  # of one case, or of a wrong shape, which is said later
    counts = {name: len(each) for name, each in cases.items() if each is not None}
    if len(set(counts.values())) > 1:
        each = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise RecordingError(f"{path}: as many cases are needed of each tensor, not {each}")
    apart = {
        f"{'in' if name in inputs else 'out'}{number}.{name}": case
        for name, each in cases.items()
        for number, case in enumerate(each if each is not None else ())
    }
    rest = {name: array for name, array in arrays.items() if name not in plain}
    if twice := rest.keys() & apart.keys():
        raise RecordingError(f"{path}: {min(twice)!r} is a case of an array called plainly, too")
    return rest | apart


def _cases(array: Array, tensor: Tensor) -> Array | None:
    """The cases along a first axis, of a tensor's shape each; None if the shape is another."""
    if array.shape == tensor.shape:
        return array[np.newaxis]
    if array.shape[1:] == tensor.shape and array.ndim:
        return array
    is_batched = array.ndim > 0 and tensor.shape[:1] == (1,) and array.shape[1:] == tensor.shape[1:]
    return array[:, np.newaxis] if is_batched else None


def recorded_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a .npz file by their names; raises RecordingError."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise RecordingError(f"{path}: it is no .npz file")
            return dict(file)
    except OSError as error:
        raise RecordingError(f"{path}: it cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, KeyError, TypeError, AttributeError, zipfile.BadZipFile):
        raise RecordingError(f"{path}: it is no .npz file of plain arrays") from None


def _place(key: str, program: Program) -> tuple[str, str] | None:
    """The case ("" for plain names) and the tensor that a key means, None if it means nothing here."""
    names = {tensor.name for tensor in (*program.inputs, *program.outputs)}
    if key in names:
        return "", key
    if match := _NUMBERED.fullmatch(key):
        ports = program.inputs if match["port"] == "in" else program.outputs
        return (match["case"], match["tensor"]) if match["tensor"] in {tensor.name for tensor in ports} else None
    match = _OF_NODE.fullmatch(key)
    if match and len(program.operators) == 1 and match["node"] == program.operators[0].name:
        op = program.operators[0]
        return match["case"], inputs_of(op)[0].name if match["role"] == "x" else op.y.name
    return None


def _is_foreign(key: str, program: Program) -> bool:
    """Whether a key is rightly passed by: a recording of another node or of another arithmetic, or the labels."""
    if key.endswith(NOT_OPTIMIZED):
        return _place(key.removesuffix(NOT_OPTIMIZED), program) is not None
    return key in NO_TENSORS or _OF_NODE.fullmatch(key) is not None


def _order(case: str) -> int:
    return int(case or 0)


def _require(path: Path, case: str, tensors: Mapping[str, Tensor], arrays: Mapping[str, Array]) -> None:
    """Every tensor recorded, in its type and the model's own shape."""
    for name, tensor in tensors.items():
        which = f"case {case}" if case else "it"
        if name not in arrays:
            raise RecordingError(f"{path}: {which} has no recording of tensor {name!r}")
        array = arrays[name]
        if array.dtype != tensor.dtype.numpy or array.shape != tensor.shape:
            needed = f"{tensor.dtype.numpy} {list(tensor.shape)}"
            what = f"{which} has tensor {name!r} as {array.dtype} {list(array.shape)}, not {needed}"
            raise RecordingError(f"{path}: {what}")


def _unknown_text(keys: list[str], program: Program) -> str:
    shown = ", ".join(repr(key) for key in keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
    return f"unknown key{'s' if len(keys) > 1 else ''} {shown}; expected are {_wanted(program)}"


def _wanted(program: Program) -> str:
    keys = [f"in<k>.{tensor.name}" for tensor in program.inputs]
    keys += [f"out<k>.{tensor.name}" for tensor in program.outputs]
    if len(program.operators) == 1:
        keys += [f"node<k>.{program.operators[0].name}.{role}" for role in "xy"]
    return ", ".join(keys)


# The share of right answers of a network that classifies, given by its C on this machine.


def classes(outputs: Array) -> Array:
    """The class that each row of outputs names: that of its largest number, or of a single one whether it is > 0.5."""
    flat = outputs.reshape(len(outputs), -1)
    return np.asarray(flat.argmax(1) if flat.shape[1] > 1 else (flat[:, 0] > 0.5).astype(np.int64))


def accuracy(artifact: Artifact, path: Path) -> Accuracy | None:
    """Of the first output, for the examples of a file by its array ``labels``; None if it has none.

    Raises RecordingError, and ToolMissing without a compiler.
    """
    labels = recorded_arrays(path).get("labels")
    if labels is None:
        return None
    cases = recorded_cases(path, artifact.program)
    if labels.size != len(cases):
        raise RecordingError(f"{path}: its labels are {labels.size}, its examples {len(cases)}")
    loaded = artifact.load()
    names = {each.name for each in loaded.get_inputs()}
    given = [{name: case.feeds[name] for name in names} for case in cases]
    outputs = np.concatenate([loaded.run(None, feeds)[0].reshape(1, -1) for feeds in given])
    return Accuracy(int(np.count_nonzero(classes(outputs) == labels.reshape(-1))), len(cases))
