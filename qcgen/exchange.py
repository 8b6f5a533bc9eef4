"""Blocks of weights for code that is there: made of another model, proved anew, or refused with what does not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from qcgen.artifact import Artifact
from qcgen.compiler import compile_graph
from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Graph
from qcgen.ir.plan import Options
from qcgen.options import spelt
from qcgen.plan.functions import FreeStep
from qcgen.render.block import SCHEMA
from qcgen.version import __version__

MOST_PROBLEMS = 20
HINT = "compile the code anew from this model, or train and quantize it within what the code can do"


class WrongRecord(Exception):
    """A file is not the record of code that blocks fit; the text says why."""


class CodeInPlace:
    """Code that blocks fit, as NAME_weights.json describes it."""

    def __init__(self, text: str) -> None:
        """Raises WrongRecord."""
        try:
            record = json.loads(text)
            version, own = record["qcgen"], record["weights"]
        except (ValueError, KeyError, TypeError):
            own = spelt("weights")
            raise WrongRecord(f"it is not a file NAME_weights.json, which compile writes with {own}") from None
        if (version, record["schema"]) != (__version__, SCHEMA):
            raise WrongRecord(f"it was made by qcgen {version}: only that version makes the same code")
        self.prefix: str = own["prefix"]
        self.node: str | None = own["node"]
        given: dict[str, Any] = {name: _tuples(value) for name, value in own["options"].items()}
        self.options = Options(**given)
        self.steps = {name: FreeStep(**step) for name, step in own["operators"].items()}
        self.texts: dict[str, str] = own["code"]

    def block_of(self, graph: Graph, source: str) -> Artifact:
        """The model compiled so that its block fits; ``source`` is its name in comments.

        Raises ModelRejected with what does not fit: the code of an operator, its kernel, the interface.
        """
        artifact = compile_graph(graph, self.options, self.prefix, source, self.node, fitting=self.steps)
        if problems := list(self._problems(artifact)):
            raise ModelRejected(problems[:MOST_PROBLEMS])
        return artifact

    def _problems(self, artifact: Artifact) -> Iterator[Problem]:
        found = artifact.free_steps
        names = list(self.steps)
        if list(found) != names:
            other = next((own for own, old in zip(found, names, strict=False) if own != old), "one of them")
            what = f"the code has {len(names)} operators, called {_some(names)}; the model has {len(found)}"
            yield Problem(other, what, "blocks fit code of the same network, with the same names of operators")
            return
        for name, step in found.items():
            if step.kernel != self.steps[name].kernel:
                what = f"its kernel would be {step.kernel}, and the code has {self.steps[name].kernel}"
                yield Problem(name, f"{what}: {_why(artifact, name, self.steps[name].kernel)}", HINT)
        if too_wide := list(self._steps_beyond(found)):
            yield from too_wide
            return
        for file, text in artifact.code_essence.items():
            yield from _differences(artifact, file, self.texts[file], text)

    def _steps_beyond(self, found: Mapping[str, FreeStep]) -> Iterator[Problem]:
        """The output steps that need more than the code has."""
        for name, step in found.items():
            there = self.steps[name]
            if step.form != there.form:
                what = f"its output codes need the arithmetic {step.form!r}, and the code has {there.form!r}"
            elif step.shift != there.shift:
                what = f"its scale needs a shift of {step.shift}, and the code has {there.shift}: the scale has grown"
            elif step.guard != there.guard:
                what = "sums come nearer to a step between two codes than the code tests for"
            else:
                continue
            yield Problem(name, what, HINT)


def _tuples(value: object) -> object:
    """What JSON has as lists."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")


def _why(artifact: Artifact, name: str, kernel: str) -> str:
    """Why an operator has not the kernel of the code."""
    calls = (call for call in artifact.plan.calls if call.op.name == name)
    return next((each.reason for call in calls for each in call.rejected if each.kernel == kernel), "it does not serve")


def _differences(artifact: Artifact, file: str, there: str, needed: str) -> Iterator[Problem]:
    """Where the code of a file would differ, by operator."""
    old, new = there.splitlines(), needed.splitlines()
    told: set[str] = set()
    for tag, begin, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        where = _operator_at(artifact, old, begin) or file
        if where not in told:
            told.add(where)
            has, wants = (" ".join(lines).strip()[:160] for lines in (old[begin:end], new[first:last]))
            yield Problem(where, f"the code has `{has}`, and this model needs `{wants}`", HINT)


def _operator_at(artifact: Artifact, lines: Sequence[str], at: int) -> str | None:
    """The operator to whose functions a line belongs."""
    symbols = {call.symbol: call.op.name for call in artifact.plan.calls}
    for line in reversed(lines[: at + 1]):
        if not line.startswith((" ", "}", "#")):
            return next((name for symbol, name in symbols.items() if symbol in line), None)
    return None
