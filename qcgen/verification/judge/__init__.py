"""Somebody else's opinion: the user's model file, run by onnxruntime, onnx.reference or TFLM, on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from onnx import ModelProto

from qcgen.arithmetic import ONNXRUNTIME
from qcgen.artifact import Artifact
from qcgen.errors import ToolMissing, printable
from qcgen.ir.graph import Origin
from qcgen.ir.program import Program, Tensor
from qcgen.ir.types import Array
from qcgen.options import spelt
from qcgen.reference import evaluate_all
from qcgen.verification.compare import Difference, Outcome, add
from qcgen.verification.judge.engines import (
    MICRO_CRITERION,
    MICRO_PACKAGE,
    OPTIONS,
    CannotRun,
    Engine,
    MicroBench,
    NotSeparable,
    OnnxRuntime,
    Processor,
    Reference,
    computed,
    cut_out,
    float_weights,
    installed,
    installed_micro,
    misread_products,
    read,
    this_processor,
    words,
)
from qcgen.verification.judge.rules import Clamps, Rules, codes, nearer, numbers, only_inside, saturating

AUTOMATIC = "auto"
"""onnxruntime where it is installed and can judge, else onnx, else own; of .tflite files tflm, else own."""


@dataclass(frozen=True)
class Judgement:
    """What ``oracle`` said of the C's outputs, by which ``criterion``: of ``outputs`` in ``cases`` ``differing``.

    ``name`` is for people, with version, options and instruction set; ``notes`` are what it did not judge, and why
    others did not. In ``unjudged`` cases it gave no outputs.
    """

    oracle: str
    name: str
    criterion: str
    notes: tuple[str, ...] = ()
    cases: int = 0
    outputs: int = 0
    differing: int = 0
    unjudged: int = 0
    first: Difference | None = None

    @property
    def is_silent(self) -> bool:
        """Whether it was asked and compared nothing."""
        return bool(self.cases + self.unjudged) and not self.outputs


class Judge:
    """Hears what the C gave, case after case; ``judgement`` is what it said so far."""

    def __init__(self, judgement: Judgement, bench: Bench | MicroBench | None = None) -> None:
        """``bench`` is None for qcgen's own reference, which judges elsewhere."""
        self.judgement = judgement
        self.bench = bench

    def hear(
        self, group: str, number: int, feeds: Mapping[str, Array], got: Mapping[str, Array], values: Mapping[str, Array]
    ) -> None:
        """Compares the outputs ``got`` that the C gave for inputs, the ``number``th of a group.

        ``values`` are the reference's tensors; outputs that are not in ``got`` are passed by.
        """
        before = self.judgement
        if self.bench is None:
            return
        try:
            expected = self.bench.outputs(feeds, values)
        except CannotRun:  # such as numbers of rows that a table has not
            self.judgement = replace(before, unjudged=before.unjudged + 1)
            return
        ours, bounds = self.bench.compared(got, values)
        judged = {name: array for name, array in expected.items() if name in bounds}
        after = add(Outcome(group, cases=number), judged, ours, bounds)
        self.judgement = replace(
            before,
            cases=before.cases + 1,
            outputs=before.outputs + after.outputs,
            differing=before.differing + after.differing,
            first=before.first or after.first,
        )


@dataclass(frozen=True)
class Bench:
    """An engine with the part of the model file that was compiled; ``rules`` say how it is to be understood.

    ``clamps`` know what Clip and Relu leave of its tensors.
    """

    engine: Engine
    origin: Origin
    rules: Rules
    clamps: Clamps

    def outputs(self, feeds: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by the compiled network's names, in its shapes.

        Tensors that the engine may round otherwise are fed with the reference's codes wherever these are as right as
        the engine's own: as often as codes that are not right, and so its own, change what it computes behind them.
        """
        given, apart = self.inputs(feeds), self.rules.apart(values)
        ours = self.rules.followed
        apart |= {
            name: only_inside(apart[name], values[name], self.clamps.range_of(called)) for called, name in ours.items()
        }
        followed = {called: values[name] for called, name in ours.items()}
        for _ in range(len(followed) + 1):
            found = self.engine.run(given | followed)
            again = {called: nearer(values[name], found[called], apart[name]) for called, name in ours.items()}
            if all(np.array_equal(followed[called], again[called]) for called in ours):
                break
            followed = again
        return self._outputs(found)

    def compared(
        self, got: Mapping[str, Array], values: Mapping[str, Array]
    ) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        """The outputs of the C; and how far those that are judged may be off."""
        bounds = self.rules.bounds(values).items()
        ranges = {name: self.clamps.range_of(name) for name in got}
        return got, {name: only_inside(bound, got[name], ranges[name]) for name, bound in bounds if name in got}

    def inputs(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The file's inputs: numbers where the network takes their codes (``--io quantized``)."""
        pairs = zip(self.origin.inputs, self.rules.program.inputs, strict=True)
        return {
            value.name: np.asarray(
                feeds[own.name] if own.name == value.name else numbers(own, feeds[own.name], value.dtype)
            )
            for value, own in pairs
        }

    def _outputs(self, found: Mapping[str, Array]) -> dict[str, Array]:
        outputs = {}
        for name, own in zip(self.origin.outputs, self.rules.program.outputs, strict=True):
            array = found[name] if own.name == name else codes(own, found[name])
            outputs[own.name] = array.reshape(own.shape)
        return outputs


def judge_of(artifact: Artifact, oracle: str, cases: Sequence[Mapping[str, Array]]) -> Judge:
    """Who judges the code, if it can on one of these inputs; ``oracle`` is an OracleName.

    Raises ToolMissing if that is onnxruntime or tflm, and it is not installed.
    """
    if oracle == "own":
        return _own()
    if artifact.plan.options.numerics == "tflm":
        return _micro(artifact, oracle, cases)
    if oracle == "tflm":
        return _own("tflm runs .tflite files only")
    if artifact.plan.options.numerics != "onnxruntime":
        return _own()
    if artifact.origin is None:
        return _own("the model file is not known")
    notes: list[str] = []
    if oracle != "onnx":
        why_not = why_not_onnxruntime(artifact)
        if why_not == NOT_INSTALLED and oracle == "onnxruntime":
            raise ToolMissing(f"{NOT_INSTALLED}, or judge by {spelt(oracle='onnx')}")
        judge = why_not or _appointed(artifact, "onnxruntime", cases)
        if isinstance(judge, Judge):
            return judge
        notes.append(judge)
    judge = _appointed(artifact, "onnx", cases)
    if isinstance(judge, Judge):
        judge.judgement = replace(judge.judgement, notes=(*notes, *judge.judgement.notes))
        return judge
    return _own(*notes, judge)


NOT_INSTALLED = "onnxruntime, which would judge bits, is not installed: pip install 'onnxruntime>=1.32'"


NO_MICRO = f"{MICRO_PACKAGE}, which would judge bits, is not installed: pip install '{MICRO_PACKAGE}>=0.dev0'"


def _micro(artifact: Artifact, oracle: str, cases: Sequence[Mapping[str, Array]]) -> Judge:
    """TensorFlow Lite Micro, for a .tflite file."""
    if oracle not in (AUTOMATIC, "tflm"):
        return _own(f"{oracle} does not run .tflite files")
    if installed_micro() is None:
        if oracle == "tflm":
            raise ToolMissing(NO_MICRO)
        return _own(NO_MICRO)
    assert artifact.origin is not None, "that of .tflite files is known"
    try:
        bench = MicroBench(artifact.origin, artifact.program)
        bench.outputs(cases[0], evaluate_all(artifact.program, cases[0]))
    except CannotRun as error:
        return _own(f"tflm cannot run this: {error}")
    name = f"TensorFlow Lite Micro's reference kernels, of {MICRO_PACKAGE} {installed_micro()}"
    return Judge(Judgement("tflm", name, MICRO_CRITERION), bench)


def _own(*notes: str) -> Judge:
    return Judge(Judgement("own", "qcgen's own reference only, nothing independent of it", "", notes))


def why_not_onnxruntime(artifact: Artifact) -> str:
    """Why onnxruntime is not a judge of this network here; "" if it is."""
    if installed() is None:
        return NOT_INSTALLED
    processor = this_processor()
    layer = None if processor.has_dot_products else next(saturating(artifact.program), None)
    if layer is None:
        return ""
    what = f"products of uint8 and int8 codes saturate in 16 bits, in node {printable(layer)!r}"
    return f"onnxruntime cannot judge here ({processor}): {what}"


def _appointed(artifact: Artifact, oracle: str, cases: Sequence[Mapping[str, Array]]) -> Judge | str:
    """A judge that has run the model on one of the inputs, or why it cannot."""
    make: Callable[[ModelProto], Engine] = OnnxRuntime if oracle == "onnxruntime" else Reference
    is_exact = oracle == "onnxruntime" and _is_meant(installed(), this_processor())
    origin, program = artifact.origin, artifact.program
    assert origin is not None, "asked only where the model file is known"
    try:
        model = read(origin)
        if oracle == "onnxruntime" and (misread := next(misread_products(model), None)) is not None:
            return (
                f"onnxruntime misreads node {printable(misread)!r}: its weights have a scale for each term of a sum, "
                "which it takes for those of the columns"
            )
        names = computed(model)
        trial = Rules(program, is_exact, names, words(model), origin.aliases, float_weights(model))
        engine = make(cut_out(model, origin.inputs, (*origin.outputs, *trial.followed)))
        clamps = Clamps(model)
        found = _first_run(engine, Bench(engine, origin, trial, clamps), cases)
        _require_shapes(found, origin, program)
        tensors = {op.y.name: op.y for op in program.operators}
        known = {called for called, name in trial.followed.items() if _fits(tensors[name], found[called])}
        rules = replace(trial, names=known)
        if rules.followed:
            given = {called: tensors[name] for called, name in rules.followed.items()}
            engine = make(cut_out(model, origin.inputs, origin.outputs, given))
        bench = Bench(engine, origin, rules, clamps)
    except (CannotRun, NotSeparable) as error:
        return f"{oracle} cannot run this: {error}"
    lost = [
        f"{oracle} does not judge output {name!r}: it depends on roundings that leave a choice" for name in rules.lost
    ]
    return Judge(Judgement(oracle, _name(oracle), rules.criterion, tuple(lost)), bench)


def _first_run(engine: Engine, bench: Bench, cases: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """What an engine gives for the first inputs that it takes; raises what it does if it takes none."""
    for case in cases[:-1]:
        with suppress(CannotRun):
            return engine.run(bench.inputs(case))
    return engine.run(bench.inputs(cases[-1]))


def _require_shapes(found: Mapping[str, Array], origin: Origin, program: Program) -> None:
    """Raises CannotRun for outputs of other sizes, as onnx.reference gives of some windows."""
    for name, own in zip(origin.outputs, program.outputs, strict=True):
        if found[name].size != own.size:
            raise CannotRun(f"it gives output {printable(name)!r} the shape {list(found[name].shape)}")


def _fits(tensor: Tensor, array: Array) -> bool:
    return array.dtype == tensor.dtype.numpy and array.shape == tensor.shape


def _name(oracle: str) -> str:
    """For people."""
    if oracle == "onnx":
        return "onnx.reference, which evaluates the model file node by node"
    chosen = ", ".join(f"{key}={value}" for key, value in OPTIONS.items())
    version = installed()
    meant = "" if version == ONNXRUNTIME else f" (not {ONNXRUNTIME}, whose bits are meant)"
    return f"onnxruntime {version}{meant}, {chosen}, {this_processor()}"


def _is_meant(version: str | None, processor: Processor) -> bool:
    """Whether an onnxruntime rounds as ours does: the version that is meant, on x86-64 with fused multiply-add."""
    return version == ONNXRUNTIME and processor.is_x86 and processor.has_fma
