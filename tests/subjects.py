"""Models, each with inputs and whoever judges its outputs: what suites run on machines other than the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from zlib import crc32

import network_units
import numpy as np
from batch import Unit, calls_of, difference, stacked, unit
from cases import Case
from onnx import ModelProto

from qcgen.artifact import Artifact
from qcgen.compiler import compile
from qcgen.emulate import random_feeds
from qcgen.ir.types import Array
from qcgen.reference import evaluate_all

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
    artifact = compile(model, name=name, target=target)
    feeds = tuple(random_feeds(artifact.plan, seed) for seed in range(5))

    def judge(found: Sequence[Arrays]) -> str:
        values = [evaluate_all(artifact.program, each) for each in feeds]
        each = [(y, wanted[key]) for got, wanted in zip(found, values, strict=True) for key, y in got.items()]
        wrong = sum(int((y != wanted).sum()) for y, wanted in each)
        return f"{name}: {wrong} outputs differ" if wrong else ""

    return Subject(name, artifact, feeds, judge)


def problems(subjects: Iterable[Subject], found: Iterable[Arrays]) -> list[str]:
    """What is wrong with the outputs of all calls of all subjects, one after the other."""
    outputs = iter(found)
    texts = [each.judge([next(outputs) for _ in each.feeds]) for each in subjects]
    assert next(outputs, None) is None
    return [text for text in texts if text]
