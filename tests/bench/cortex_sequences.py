"""A keyword transformer and a GRU on emulated cores, beside what portable C takes: a part of ``make bench-cortex``.

Both are networks of ``make networks-2026``, quantized by onnxruntime.quantization, without which they are left out.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import numpy as np

import qcgen
from qcgen.artifact import Artifact
from qcgen.cli.terminal import number, table
from qcgen.emulate import Measurement, measure
from qcgen.ir.types import Array
from qcgen.reference import evaluate_all
from qcgen.reference.tolerance import tolerances
from qcgen.verification.compare import differences
from qcgen.verification.running import from_boundary, to_boundary

NETWORKS = {"kwt_keyword_transformer": "keyword transformer", "gru_kws": "GRU"}
FORMS = ("portable", "size", "speed")
HEAD = ("network", "core", "MAC", "cycles", *FORMS, "portable / speed", "flash", "arena")


@dataclass(frozen=True)
class Task:
    """A network by its name, to be measured on a core."""

    name: str
    core: str


@dataclass(frozen=True)
class Figures:
    """What was measured, by FORMS; ``wrong`` outputs differ from the reference by more than is allowed of them."""

    task: Task
    macs: int
    found: dict[str, Measurement]
    wrong: int


def chosen(cores: Sequence[str], only: str) -> list[Task]:
    """What to measure on these cores, of the networks whose titles contain ``only``; none without onnxruntime."""
    if find_spec("onnxruntime") is None:
        return []
    return [Task(name, core) for name, title in NETWORKS.items() if only in title for core in cores]


def measured(task: Task, flags: tuple[str, ...], compiler: str) -> Figures:
    """Counts one inference on random inputs: of portable C, and of what is made for the core."""
    networks, oracle = import_module("architectures.networks"), import_module("architectures.oracle")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    model = oracle.quantized(networks.NETWORKS[task.name](), "QDQ")
    feeds = oracle.feeds(model, 1)
    found, wrong = {}, 0
    for form in FORMS:
        target, optimize = ("portable", "size") if form == "portable" else (task.core, form)
        artifact = qcgen.compile(model, name="net", target=target, optimize=optimize)
        given = to_boundary(artifact.plan, feeds)
        found[form] = measure(artifact, given, core=task.core, flags=flags, compiler=compiler)
        wrong += _wrong(artifact, feeds, from_boundary(artifact.plan, found[form].outcome.outputs))
    return Figures(task, artifact.report.unsimplified.macs, found, wrong)


def _wrong(artifact: Artifact, feeds: Mapping[str, Array], outputs: Mapping[str, Array]) -> int:
    values = evaluate_all(artifact.program, feeds)
    allowed = tolerances(artifact.program, values)
    return sum(
        int(differences(values[name], y, allowed.get(name, np.zeros(y.shape))).sum()) for name, y in outputs.items()
    )


def section(found: Sequence[Figures]) -> str:
    """The part of docs/benchmarks.md, "" without any figures."""
    if not found:
        return ""
    parts = [
        "## A transformer and a recurrent network",
        "",
        "Networks of [networks.md](networks.md): `kwt_keyword_transformer`, two blocks of attention in integers, and",
        "`gru_kws`, a convolution and a GRU in float32, in software where a core has none. Instructions of one",
        "inference on random inputs; outputs compared with the reference as `qcgen verify` does. `portable` is C of",
        "`--target portable`, built for the core; estimated cycles, flash and arena are those of `--optimize speed`.",
        "",
        "```text",
        table(HEAD, [_row(each) for each in found], right=HEAD[2:]),
        "```",
    ]
    return "\n".join(parts)


def _row(each: Figures) -> tuple[str, ...]:
    speed, counts = each.found["speed"], [each.found[form].instructions for form in FORMS]
    gain = f"{counts[0] / counts[-1]:.2f}{' WRONG' if each.wrong else ''}"
    cells = [number(each.macs), number(speed.cycles), *(number(count) for count in counts), gain]
    cells += [number(speed.flash_bytes), number(speed.arena_bytes)]
    return (NETWORKS[each.task.name], each.task.core, *cells)
