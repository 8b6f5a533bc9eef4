"""One mutant in a child process: compiled within limits, and, if it is accepted, evaluated by the reference."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import qcgen
from fuzz.mutate import mutant
from fuzz.seeds import seeds
from qcgen.artifact import Artifact
from qcgen.ir.plan import Plan
from qcgen.ir.program import Conv, OrionConv, Program, inputs_of
from qcgen.ir.types import Array
from qcgen.reference import evaluate_all
from qcgen.reference.tolerance import NETWORK, RELATIVE, tolerances
from qcgen.verification.cases import generated_cases
from qcgen.verification.compare import leaves_a_choice
from qcgen.verification.running import to_boundary

SECONDS = 10  # of processor time
ADDRESSES = 2 << 30  # bytes that a child may map besides what it has when it starts
RESIDENT = 900 << 20  # bytes of memory that it may take besides
TEXT = 40_000  # characters of what a user is told
WORK = 3_000_000  # multiplications or elements up to which the C is run
LARGEST = min(NETWORK, RELATIVE) * float(np.finfo(np.float32).max)  # what sums of terms within float32 may be off
SMALLEST = 1e-37  # about the smallest float32 with all its digits
LONGEST = 2_000_000  # characters of C up to which it is built


@dataclass(frozen=True)
class Find:
    """What went wrong: ``kind`` in a few words that are the same for the same cause, and the whole story."""

    number: int
    kind: str
    story: str


@dataclass(frozen=True)
class Rejected:
    number: int


@dataclass(frozen=True)
class Accepted:
    """A mutant that became C; ``feeds`` and ``expected`` by tensor name, one mapping per call.

    ``leaves_a_choice``: where numbers computed in float32 are quantized, either code next to a tie is right.
    """

    number: int
    plan: Plan
    files: Mapping[str, str]
    feeds: Sequence[Mapping[str, Array]]
    expected: Sequence[Mapping[str, Array]]
    allowed: Sequence[Mapping[str, Array]]
    leaves_a_choice: bool

    @property
    def name(self) -> str:
        return self.plan.prefix

    @property
    def unity(self) -> str:
        """What a program of many models has of this one."""
        return f'#include "{self.name}.c"\n'

    @property
    def artifact(self) -> Any:
        """As ``batch.record`` and ``batch.outputs_of`` take units."""
        return SimpleNamespace(plan=self.plan)


Outcome = Find | Rejected | Accepted


def mutant_of(seed: int, number: int) -> tuple[bytes, dict[str, Any]]:
    """A mutant's bytes and options; nothing else decides about them but the seeds' models."""
    return mutant(seeds(), random.Random(f"{seed} {number}"))


def trial(number: int, content: bytes, options: Mapping[str, Any], log: Path) -> Outcome:
    """The outcome for a mutant; ``log`` is where this process's standard error goes."""
    written = log.stat().st_size
    allow(SECONDS)
    before = forget_peak()
    try:
        with warnings.catch_warnings(), mapped(ADDRESSES):
            warnings.simplefilter("error")
            artifact = qcgen.compile(content, name=f"m{number}", **options)
            allow(6 * SECONDS)
            outcome = accepted(number, artifact)
    except qcgen.ModelRejected as rejection:
        outcome = _told(number, rejection)
    except BaseException as error:
        outcome = Find(number, signature(error), traceback.format_exc())
    if not isinstance(outcome, Find):
        if log.stat().st_size > written:
            return Find(number, "standard error", log.read_text(errors="replace")[written:])
        if (most := peak() - before) > RESIDENT:
            return Find(number, "memory", f"{most >> 20} MiB")
    return outcome


def _told(number: int, rejection: qcgen.ModelRejected) -> Outcome:
    """What the user reads is text of bounded length without control characters."""
    text = str(rejection)
    if len(text) > TEXT:
        return Find(number, "long text", f"{len(text)} characters:\n{text[:1000]}")
    if any(not character.isprintable() and character != "\n" for character in text):
        return Find(number, "control characters", repr(text[:1000]))
    return Rejected(number)


def accepted(number: int, artifact: Artifact) -> Accepted:
    """What the C must give for a few inputs; none if that would take long."""
    plan, program = artifact.plan, artifact.program
    shown = replace(plan, steps=())  # what building and calling need to know of it
    feeds, expected, allowed = [], [], []
    if work_of(program) <= WORK and sum(map(len, artifact.files.values())) <= LONGEST:
        names = [tensor.name for tensor in program.outputs]
        for case in generated_cases(program, number, 2):
            values = evaluate_all(program, case.feeds)
            feeds.append(to_boundary(plan, case.feeds))
            with np.errstate(all="ignore"):
                tolerated = tolerances(program, values)
            # Whether a sum of such terms is infinite depends on their order.
            judged = [name for name in names if (tolerated[name] <= LARGEST).all() and np.isfinite(values[name]).all()]
            expected.append({name: values[name] for name in judged})
            allowed.append({name: tolerated[name] + SMALLEST for name in judged})
    return Accepted(number, shown, artifact.files, feeds, expected, allowed, leaves_a_choice(program))


def work_of(program: Program) -> int:
    """About how many steps the C takes."""
    total = 0
    for op in program.operators:
        total += prod(op.y.shape) + sum(prod(x.shape) for x in inputs_of(op))
        window = op.weights.size // max(1, op.geometry.out_channels) if isinstance(op, Conv | OrionConv) else 0
        kernel = getattr(op, "kernel", None) or getattr(getattr(op, "geometry", None), "kernel", ())
        total += prod(op.y.shape) * (window or prod(kernel))
    return total


def signature(error: BaseException) -> str:
    """The exception and the innermost place of qcgen that raised it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/qcgen/" in frame.filename]
    where = f"{Path(frames[-1].filename).parent.name}/{Path(frames[-1].filename).name}" if frames else "?"
    return f"{type(error).__name__} in {where} {frames[-1].name if frames else ''}"


def allow(seconds: float) -> None:
    """From now on the process may take so many more seconds of processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + seconds, resource.RLIM_INFINITY))


@contextlib.contextmanager
def mapped(more: int) -> Iterator[None]:
    """Limits the address space to what it is now and ``more`` bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + more, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def forget_peak() -> int:
    """The bytes in memory, from which ``peak`` begins anew: a process that ran many tests has many."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """The largest number of bytes in memory since ``forget_peak``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
