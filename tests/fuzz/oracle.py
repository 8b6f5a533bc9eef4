"""Accepted mutants, many in one program: built with sanitizers, run, held against the reference."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from batch import STREAMS, outputs_of, record

from fuzz.trial import Accepted, Find
from qcgen.build import STRICT_FLAGS
from qcgen.emulate.image import models_header
from qcgen.verification.compare import differences

COMPILER = ("gcc", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
SECONDS = 600  # for building or running a batch


def judged(batch: Sequence[Accepted], folder: Path, compiler: Sequence[str] = COMPILER) -> Iterator[Find]:
    """What is wrong with the C of these mutants, one find for each at most; ``compiler`` is called with its flags."""
    left = list(batch)
    folder.mkdir(parents=True, exist_ok=True)
    while left:
        found = list(_built(left, folder, compiler)) or list(_run(left, folder))
        yield from found
        wrong = {find.number for find in found}
        # After an error nothing is known of the others; after a run all are known.
        if not found or any(find.kind == "output" for find in found):
            return
        left = [each for each in left if each.number not in wrong]


def _built(batch: Sequence[Accepted], folder: Path, compiler: Sequence[str]) -> Iterator[Find]:
    """Builds one program of all; if that fails, the finds of those that are at fault."""
    for each in batch:
        for name, text in each.files.items():
            (folder / name).write_text(text)
    (folder / "models.h").write_text(models_header([each.plan for each in batch]))
    (folder / "all.c").write_text("".join(each.unity for each in batch))
    command = [*compiler, *STRICT_FLAGS, "-c", "all.c"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=SECONDS)
    if result.returncode or result.stderr:
        yield from _blamed(batch, result.stderr)
        return
    sources = [str(STREAMS / name) for name in ("driver.c", "stdio.c")]
    command = [*compiler, "-std=c99", "-I.", "-o", "program", "all.o", *sources, "-lm"]
    subprocess.run(command, cwd=folder, check=True, timeout=SECONDS)


def _blamed(batch: Sequence[Accepted], errors: str) -> Iterator[Find]:
    names = set(re.findall(r"\b(m\d+)\.[ch]\b", "\n".join(line for line in errors.splitlines() if "error:" in line)))
    guilty = [each for each in batch if each.name in names]
    if not guilty:
        raise RuntimeError(f"the C compiler failed, and names no model:\n{errors[:3000]}")
    for each in guilty:
        lines = [line for line in errors.splitlines() if re.search(rf"\b{each.name}\.[ch]\b", line)]
        kind = re.sub(
            r"[‘'`\"].*?[’'\"]|\d+", "...", next(line for line in lines if "error:" in line).split("error:")[1]
        )
        yield Find(each.number, f"C compiler:{kind}", "\n".join(lines))


def _run(batch: Sequence[Accepted], folder: Path) -> Iterator[Find]:
    """Runs every model on its inputs: the first that a sanitizer stops, else all whose outputs are wrong."""
    calls = [(each, feeds) for each in batch for feeds in each.feeds]
    records = record(batch, calls, "=", "exact", 0xA5)
    try:
        result = subprocess.run([folder / "program"], input=records, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        yield Find(batch[0].number, "a batch does not end", ", ".join(each.name for each in batch))
        return
    if result.returncode or result.stderr:
        yield _stopped(batch, result.stderr.decode(errors="replace"))
        return
    found = iter(outputs_of(calls, result.stdout, "="))
    for each in batch:
        outputs = [next(found) for _ in each.feeds]
        story = difference(each, outputs)
        if story:
            yield Find(each.number, "choice" if each.leaves_a_choice else "output", story)


def _stopped(batch: Sequence[Accepted], errors: str) -> Find:
    name = re.search(r"\b(m\d+)(_\w+|\.c)\b", errors)
    guilty = next((each for each in batch if name and each.name == name[1]), None)
    if guilty is None:
        raise RuntimeError(f"the program failed, and names no model:\n{errors[:3000]}")
    line = next((line for line in errors.splitlines() if "ERROR:" in line or "runtime error:" in line), errors[:100])
    kind = re.sub(r"m?\d+\w*|0x[0-9a-f]+", "...", line.split("error:")[-1].split("ERROR:")[-1])
    return Find(guilty.number, f"sanitizer:{kind[:80]}", errors)


def difference(each: Accepted, outputs: Sequence[dict]) -> str:
    """What the first wrong output is, "" if all are right."""
    from qcgen.verification.running import from_boundary

    for case, (got, wanted, allowed) in enumerate(zip(outputs, each.expected, each.allowed, strict=True)):
        got = from_boundary(each.plan, got)
        for name, values in wanted.items():
            wrong = differences(values, got[name], allowed[name])
            if wrong.any():
                index = tuple(int(i) for i in np.argwhere(wrong)[0])
                pair = f"{got[name][index]} instead of {values[index]}"
                return f"{int(wrong.sum())} of {wrong.size} of {name!r} in case {case}, at {index} {pair}"
    return ""
