"""One network in a child process: judged by onnxruntime, compiled within limits."""

from __future__ import annotations

import os
import re
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.trial import (
    ADDRESSES,
    RESIDENT,
    SECONDS,
    Accepted,
    Find,
    allow,
    forget_peak,
    mapped,
    peak,
    signature,
)

import qcgen
from fuzz_networks.generate import Recipe
from fuzz_networks.judge import Arrays, Judge
from fuzz_networks.judge import Port as ModelPort
from fuzz_networks.options import Options
from fuzz_networks.tflm import TfliteJudge
from qcgen.artifact import Artifact
from qcgen.ir.plan import Plan, Port
from qcgen.verification.running import to_boundary

CASES = 6
LEAST = re.compile(r"the least that was reached is (\d+) bytes")
DROPPED = ("arena", "input", "io_memory")
"""Options that a network may be refused with; it is tried without them, too."""


@dataclass(frozen=True)
class Network(Accepted):
    """An accepted network: ``build`` says how, ``source`` how the model was made; ``dropped``: why without options.

    ``traits``: the kernels that compute it, and what else the plan has.
    """

    build: str = ""
    source: str = ""
    dropped: str = ""
    has_test: bool = False
    traits: tuple[str, ...] = ()

    @property
    def unity(self) -> str:
        """What the program of a batch holds of it."""
        text = f'#include "{self.name}.c"\n'
        return (
            text + _SELF_TEST.replace("NAME", self.name).replace("MACRO", self.name.upper()) if self.has_test else text
        )


_SELF_TEST = """#include "NAME_test.c"
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void NAME_tested(void)
{
    void *const arena = malloc(MACRO_ARENA_BYTES + 1);
    const int status = NAME_test(MACRO_ARENA_BYTES > 0 ? arena : NULL);

    free(arena);
    if (status != 0) {
        fprintf(stderr, "error: self-test of NAME.c: %d\\n", status);
        exit(1);
    }
}
"""


@dataclass(frozen=True)
class Refused:
    """A network that its judge does not load (``by`` "the judge"), that qcgen refuses, or that was not made."""

    number: int
    by: str
    reason: str


def tried(number: int, recipe: Recipe, log: Path) -> Network | Refused | Find:
    """What comes of a network; ``log`` is where this process's standard error goes.

    From then on the process has little processor time left: see ``fuzz.__main__.children``.
    """
    allow(SECONDS)
    try:
        judge = judge_of(recipe.content)
        feeds = judge.feeds(number, CASES)
        expected = [judge.run(each) for each in feeds]
    except Exception as error:
        return Refused(number, "the judge", general(str(error)))
    os.truncate(log, 0)
    before = forget_peak()
    allow(SECONDS)
    try:
        with warnings.catch_warnings(), mapped(ADDRESSES):
            warnings.simplefilter("error")
            outcome = _compiled(number, recipe, judge, feeds, expected)
    except qcgen.ModelRejected as rejection:
        return Refused(number, "qcgen", general(f"{rejection.problems[0].what}: {rejection.problems[0].hint}"))
    except BaseException as error:
        return Find(number, signature(error), traceback.format_exc())
    if log.stat().st_size:
        return Find(number, "standard error", log.read_text(errors="replace"))
    if (most := peak() - before) > RESIDENT:
        return Find(number, "memory", f"{most >> 20} MiB")
    return outcome


def judge_of(content: bytes) -> Judge | TfliteJudge:
    """By the identifier that .tflite files have."""
    return TfliteJudge(content) if content[4:8] == b"TFL3" else Judge(content)


def general(text: str) -> str:
    """A message without names and numbers."""
    text = " ".join(text.split())
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", text)
    text = re.sub(r"node_\w+|\b(input|c|w|b)\d+\b|\b[a-z_]+\d+(\.\d)?\b", "NAME", text)
    return re.sub(r"-?\d[\d.e+-]*", "N", text)[:200]


def _compiled(
    number: int, recipe: Recipe, judge: Judge | TfliteJudge, feeds: list[Any], expected: list[Any]
) -> Network | Find:
    name = f"m{number}"
    artifact, dropped = compiled(recipe.content, name, recipe.options)
    if not _is_known(artifact.plan, judge):
        plain = replace(recipe.options, compile={**recipe.options.compile, "io": "model"})
        artifact, dropped = compiled(recipe.content, name, plain)
    budget = artifact.plan.options.arena
    held = int(re.search(r"_ARENA_BYTES (\d+)", artifact.files[f"{name}.h"])[1])
    if isinstance(budget, int) and held > budget:
        return Find(number, "arena beyond its budget", f"{held} bytes instead of {budget}")
    has_test = recipe.options.self_test and artifact.plan.pushed is None
    if has_test:
        artifact = artifact.with_self_test()
    plan = artifact.plan
    begun = {state.read: state.initial for state in artifact.program.states}
    calls = [_call(plan, judge, *each, recipe.tolerance, begun) for each in zip(feeds, expected, strict=True)]
    known = [call for call in calls if call is not None]
    own, wanted, allowed = ([call[part] for call in known] for part in range(3))
    return Network(
        number, replace(plan, steps=()), artifact.files, own, wanted, allowed, False,
        build=recipe.options.build, source=recipe.source, dropped=dropped, has_test=has_test, traits=traits(plan),
    )  # fmt: skip


def traits(plan: Plan) -> tuple[str, ...]:
    """The kernels, and whether layers run in rows, rows are pushed, tensors are moved, functions are shared."""
    found = {call.kernel for call in plan.calls}
    found |= {name for name in ("streams", "moves", "pushed", "slow") if getattr(plan, name)}
    return tuple(sorted(found))


def compiled(content: bytes, name: str, options: Options) -> tuple[Artifact, str]:
    """The network with these options, or without some that it is refused with, and what is refused then."""
    chosen = dict(options.compile)
    try:
        for kind in ("arena", "flash"):
            if getattr(options, kind):
                chosen[kind] = round(getattr(options, kind) * _least(content, name, {**chosen, kind: 1}))
        if options.fast and (need := qcgen.compile(content, name=name, **chosen).plan.arena_bytes):
            chosen["arena"] = f"{max(1, int(options.fast * need))}+{4 * need}"
        return qcgen.compile(content, name=name, **chosen), ""
    except qcgen.ModelRejected as rejection:
        plain = {key: value for key, value in chosen.items() if key not in DROPPED}
        if plain == chosen:
            raise
        return qcgen.compile(content, name=name, **plain), general(rejection.problems[0].what)


def _least(content: bytes, name: str, options: Mapping[str, Any]) -> int:
    """What the message of a refusal says would be enough."""
    try:
        qcgen.compile(content, name=name, **options)
    except qcgen.ModelRejected as rejection:
        if found := LEAST.search(str(rejection)):
            return int(found[1])
        raise
    return 1


def _origin(port: Port, ports: Sequence[ModelPort]) -> ModelPort | None:
    """The model's own input or output that a port of the C function is, or holds the codes of."""
    name = port.tensor.name
    return next((each for each in ports if name in (each.name, each.codes)), None)


def _is_known(plan: Plan, judge: Judge | TfliteJudge) -> bool:
    ports = [(port, _origin(port, judge.inputs)) for port in plan.inputs]
    ports += [(port, _origin(port, judge.outputs)) for port in plan.outputs]
    return all(
        origin is not None and (None in origin.shape or prod(port.tensor.shape) == prod(origin.shape))
        for port, origin in ports
    )  # onnxruntime does not infer every shape


def _codes(port: Port, origin: ModelPort) -> ModelPort | None:
    """The codes that the C function has for a tensor of the model, with the scale in its header; None for numbers.

    It need not be the scale of the node beside it: of two QuantizeLinear with a DequantizeLinear between them,
    onnxruntime makes one with the scale of the second.
    """
    tensor = port.tensor
    if tensor.name == origin.name:
        return None
    if tensor.scale is None or tensor.zero_point is None:
        return origin
    return replace(origin, scale=tensor.scale, zero=np.asarray(tensor.zero_point, origin.code_type))


def _call(
    plan: Plan, judge: Judge | TfliteJudge, feeds: Arrays, outputs: Arrays, tolerance: str, begun: Arrays
) -> tuple[Any, Any, Any] | None:
    """Inputs, outputs and how far these may be off, as the C function has them; None if codes cannot express them.

    ``begun``: the states that the first call finds, which the judge, begun anew for each case, has, too.
    """
    given, wanted, allowed = dict(begun), {}, {}
    off = judge.allowed(outputs, tolerance)
    for port in plan.inputs:
        origin = _origin(port, judge.inputs)
        codes, array = _codes(port, origin), feeds[origin.name]
        given[port.tensor.name] = array if codes is None else codes.quantized(array)
    for port in plan.outputs:
        origin = _origin(port, judge.outputs)
        codes, name, array = _codes(port, origin), port.tensor.name, outputs[origin.name]
        if codes is not None and not np.array_equal(codes.numbers(codes.quantized(array)), array):
            return None
        wanted[name] = array if codes is None else codes.quantized(array)
        allowed[name] = off[origin.name] / (1 if codes is None else codes.scale)
    return to_boundary(plan, given), wanted, allowed
