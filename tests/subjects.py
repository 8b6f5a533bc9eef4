"""Models, each with inputs and whoever judges its outputs: what suites run on machines other than the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from zlib import crc32

import network_units
import numpy as np
from batch import Unit, build, calls_of, difference, stacked, unit
from cases import Case
from onnx import ModelProto

from qcgen.artifact import Artifact
from qcgen.compiler import compile
from qcgen.emulate import random_feeds
from qcgen.ir.plan import Port
from qcgen.ir.types import Array, Layout
from qcgen.reference import evaluate

Arrays = Mapping[str, Array]
SETTINGS = tuple((layout, optimize) for optimize in ("size", "speed") for layout in ("nhwc", "nchw"))


@dataclass(frozen=True)
class Subject:
    """A model: ``feeds`` and the outputs that ``judge`` gets are by tensor name, as the C function takes them.

    ``judge`` says what is wrong with the outputs of all feeds, "" if nothing.
    """

    name: str
    artifact: Artifact
    feeds: tuple[Arrays, ...]
    judge: Callable[[Sequence[Arrays]], str]

    @property
    def calls(self) -> list[tuple[Subject, Arrays]]:
        return [(self, feeds) for feeds in self.feeds]


def convolution(case: Case, layout: str, optimize: str, target: str = "portable") -> Subject:
    """A case of the common table."""
    return of_unit(unit(case, layout, optimize, target))


def of_unit(each: Unit) -> Subject:
    """A case that is compiled."""
    feeds = tuple(feeds for _, feeds in calls_of([each]))
    return Subject(each.name, each.artifact, feeds, lambda found: difference(each, stacked(each, found)))


def convolutions(cases: Iterable[Case], target: str = "portable") -> list[Subject]:
    """Every case once: its name decides about layout and aim."""
    return [convolution(case, *SETTINGS[crc32(case.name.encode()) % len(SETTINGS)], target) for case in cases]


def on_core(cases: Iterable[Case], target: str) -> list[Subject]:
    """Every case channels last with both aims, where the core has kernels of its own; else as its name decides."""
    found = []
    for case in cases:
        aims = [convolution(case, "nhwc", optimize, target) for optimize in ("size", "speed")]
        own = [each for each in aims if not each.artifact.plan.calls[0].kernel.startswith("portable/")]
        found += own or convolutions([case], target)
    return found


def operator(each: network_units.Unit, target: str = "portable") -> Subject:
    """A unit of another operator."""
    each = replace(each, target=target)
    return Subject(each.name, network_units.artifact(each), (each.held,), partial(_judge_operator, each))


def _judge_operator(each: network_units.Unit, found: Sequence[Arrays]) -> str:
    [outputs] = found
    return network_units.difference(each, outputs[each.op.y.name].transpose(np.argsort(each.setting.y)))


def network(model: Path, target: str = "portable") -> Subject:
    """A whole network against the outputs that were recorded from onnxruntime beside it."""
    artifact = compile(model, target=target)
    with np.load(model.with_suffix(".npz")) as arrays:
        recorded = dict(arrays)
    count = len({key.split(".")[0] for key in recorded if key.startswith("in")})

    def side(direction: str, ports: Iterable) -> tuple[Arrays, ...]:
        names = [port.tensor.name for port in ports]
        return tuple({name: recorded[f"{direction}{i}.{name}"] for name in names} for i in range(count))

    wanted = side("out", artifact.plan.outputs)

    def judge(found: Sequence[Arrays]) -> str:
        wrong = sum(
            int((got[name] != y).sum()) for got, want in zip(found, wanted, strict=True) for name, y in want.items()
        )
        return f"{model.stem}: {wrong} recorded outputs differ" if wrong else ""

    return Subject(model.stem, artifact, side("in", artifact.plan.inputs), judge)


def compiled(name: str, model: ModelProto, target: str = "portable") -> Subject:
    """A whole integer network on random inputs, against the reference."""
    return of_artifact(name, compile(model, name=name, target=target))


def of_artifact(name: str, artifact: Artifact, tolerance: float = 0) -> Subject:
    """A whole network on random inputs, against the reference; floats may be ``tolerance`` away."""
    plan = artifact.plan
    drawn = [random_feeds(plan, seed) for seed in range(5)]
    wanted = [evaluate(artifact.program, from_caller(plan.inputs, each)) for each in drawn]

    def judge(found: Sequence[Arrays]) -> str:
        pairs = [
            (y, outputs[key])
            for got, outputs in zip(found, wanted, strict=True)
            for key, y in from_caller(plan.outputs, got).items()
        ]
        wrong = sum(int((np.abs(y.astype(float) - want.astype(float)) > tolerance).sum()) for y, want in pairs)
        return f"{name}: {wrong} outputs differ" if wrong else ""

    return Subject(name, artifact, tuple(drawn), judge)


def from_caller(ports: Iterable[Port], arrays: Arrays) -> Arrays:
    """Arrays by name as a caller of the C function holds them, in the model's own shapes."""
    return {port.tensor.name: moved(arrays[port.tensor.name], port) for port in ports}


def moved(array: Array, port: Port) -> Array:
    is_own = (port.tensor.layout is Layout.CHANNELS_LAST) == (port.layout == "channels last")
    if is_own or port.tensor.layout is None:
        return array
    return np.moveaxis(array, 1, -1) if port.tensor.layout is Layout.CHANNELS_LAST else np.moveaxis(array, -1, 1)


def wrong_on_host(artifacts: Mapping[str, Artifact], folder: Path, tolerance: float = 0) -> list[str]:
    """What is wrong with the outputs of networks by their names in C, all of them in one program of the host."""
    subjects = [of_artifact(name, artifact, tolerance) for name, artifact in artifacts.items()]
    image = build(folder, subjects, "gcc", ("-O0",))
    return problems(subjects, image.call([call for each in subjects for call in each.calls]))


def problems(subjects: Iterable[Subject], found: Iterable[Arrays]) -> list[str]:
    """What is wrong with the outputs of all calls of all subjects, one after the other."""
    outputs = iter(found)
    texts = [each.judge([next(outputs) for _ in each.feeds]) for each in subjects]
    assert next(outputs, None) is None
    return [text for text in texts if text]
