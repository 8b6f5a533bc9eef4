"""Accepted networks in programs of many: built as their options say, run on this machine or an emulated core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

from fuzz.oracle import difference, judged
from fuzz.trial import Find

from fuzz_networks.options import BUILDS
from fuzz_networks.trial import Network
from qcgen.emulate import Trial, cross_build, emulate
from qcgen.errors import EmulationFailed

PATIENCE = 120.0
"""Seconds for an emulated batch."""


def size_of(build: str) -> int:
    """How many networks become one program."""
    return 40 if build in BUILDS else 6


def finds(batch: Sequence[Network], folder: Path) -> Iterator[Find]:
    """What is wrong with networks of the same build, one find for each at most."""
    build = batch[0].build
    if build in BUILDS:
        yield from judged(batch, folder, BUILDS[build])
        return
    try:
        yield from _emulated(build, batch, folder)
    except Exception as error:
        if len(batch) == 1:
            kind = "emulation" if isinstance(error, EmulationFailed) else "building for a core"
            yield Find(batch[0].number, f"{kind}: {build}", str(error))
            return
        for each in batch:  # the others are right or wrong by themselves
            yield from finds([each], folder / each.name)


def _emulated(core: str, batch: Sequence[Network], folder: Path) -> Iterator[Find]:
    folder.mkdir(parents=True, exist_ok=True)
    image = cross_build(core, [_written(each) for each in batch], ("-O1",), folder)
    trials = [
        Trial(feeds, index, is_shifted=number % 2 == 1, garbage=number)
        for index, each in enumerate(batch)
        for number, feeds in enumerate(each.feeds)
    ]
    found = iter([outcome.outputs for outcome in emulate(image, trials, timeout=PATIENCE)])
    for each in batch:
        if story := difference(each, [next(found) for _ in each.feeds]):
            yield Find(each.number, f"output on {core}", story)


def _written(each: Network) -> SimpleNamespace:
    """As ``cross_build`` takes artifacts; a self-test stays behind."""

    def write(folder: Path) -> None:
        for name, text in each.files.items():
            if "_test." not in name:
                (folder / name).write_text(text)

    return SimpleNamespace(plan=each.plan, write=write)
