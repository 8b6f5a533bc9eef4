"""``make fuzz-networks``: random networks against onnxruntime, or .tflite files against TensorFlow Lite Micro.

Finds are written to a folder; exit status 1 if there are any.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path

try:
    from fuzz_networks import judge, tflm
except ImportError as missing:
    print(f"make fuzz-networks skips: {missing.name} is not installed (.venv/bin/pip install onnxruntime)")
    sys.exit(0)

from fuzz.__main__ import children
from fuzz.minimize import minimized
from fuzz.trial import Find

from fuzz_networks.batches import finds, size_of
from fuzz_networks.generate import Recipe, recipe
from fuzz_networks.options import of_tflite, random_options
from fuzz_networks.tflite import random_tflite
from fuzz_networks.trial import Network, Refused, tried

BLOCK = 100  # networks that one child tries
EXAMPLES = 5  # finds of one kind that are written down


class Session:
    """What came of networks so far."""

    def __init__(self, seed: int, folder: Path, skip: str, made: Callable[[int, int], Recipe] | None = None) -> None:
        self.seed, self.folder, self.skip = seed, folder, skip
        self.made = made or of_onnx
        self.tried = 0
        self.counts: collections.Counter[str] = collections.Counter()
        self.refusals: collections.Counter[str] = collections.Counter()
        self.kinds: collections.Counter[str] = collections.Counter()
        self.traits: collections.Counter[str] = collections.Counter()
        self.builds: collections.Counter[str] = collections.Counter()

    def run(self, numbers: Sequence[int], seconds: float = inf) -> Session:
        """Tries networks, for so long, builds and runs those that are accepted; gives itself."""
        end = time.monotonic() + seconds
        waiting: dict[str, list[Network]] = collections.defaultdict(list)
        with tempfile.TemporaryDirectory(prefix="qcgen-networks-") as place:
            for start in range(0, len(numbers), BLOCK):
                if time.monotonic() > end:
                    break
                block = numbers[start : start + BLOCK]
                self.tried += len(block)
                for outcome in children(block, partial(_tried, self.seed, self.made), Path(place, "log")):
                    self._note(outcome)
                    if not isinstance(outcome, Network):
                        continue
                    batch = waiting[outcome.build]
                    batch.append(outcome)
                    if len(batch) >= size_of(outcome.build):
                        self._judge(waiting.pop(outcome.build), Path(place))
                self._write_progress(start + len(block), numbers[0])
            for batch in waiting.values():
                self._judge(batch, Path(place))
        return self

    def _note(self, outcome: Network | Refused | Find) -> None:
        match outcome:
            case Refused():
                self.counts[f"refused by {outcome.by}"] += 1
                self.refusals[f"{outcome.by}: {outcome.reason}"] += 1
            case Network():
                self.counts["accepted"] += 1
                self.traits.update(outcome.traits)
                if outcome.dropped:
                    self.refusals[f"without options: {outcome.dropped}"] += 1
            case Find():
                self._add(outcome)

    def _judge(self, batch: Sequence[Network], place: Path) -> None:
        self.builds[batch[0].build] += len(batch)
        self.counts["outputs"] += sum(array.size for each in batch for call in each.expected for array in call.values())
        self.counts["calls"] += sum(len(each.feeds) for each in batch)
        with tempfile.TemporaryDirectory(dir=place) as folder:
            for find in finds(batch, Path(folder)):
                self._add(find)

    def _add(self, find: Find) -> None:
        if self.skip and re.search(self.skip, find.kind + find.story):
            self.counts["skipped"] += 1
            return
        self.kinds[find.kind] += 1
        if self.kinds[find.kind] > EXAMPLES:
            return
        made = self.made(self.seed, find.number)
        name = f"{self.seed}-{find.number}"
        (self.folder / f"{name}.{FORMATS[self.made]}").write_bytes(made.content)
        story = f"{find.kind}\n{made.source}, {made.tolerance}\n{made.options}\n\n{find.story}\n"
        (self.folder / f"{name}.txt").write_text(story)
        option = "" if self.made is of_onnx else f"FORMAT={FORMATS[self.made]} "
        print(f"{find.kind}: make fuzz-networks {option}SEED={self.seed} ONLY={find.number}", flush=True)

    def _write_progress(self, done: int, first: int) -> None:
        text = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        (self.folder / f"progress-{self.seed}-{first}.txt").write_text(f"{done} networks: {text}\n")


def of_onnx(seed: int, number: int) -> Recipe:
    """An ONNX model that onnxruntime on this processor can judge."""
    return recipe(seed, number, judge.is_narrow())


def tflite_file(seed: int, number: int) -> Recipe:
    """A .tflite file."""
    rng = random.Random(f"tflite {seed} {number}")
    return Recipe(random_tflite(rng), "exact", ".tflite", of_tflite(random_options(rng)))


FORMATS: dict[Callable[[int, int], Recipe], str] = {of_onnx: "onnx", tflite_file: "tflite"}
"""From what makes models to how their files' names end."""


def _tried(seed: int, recipe_of: Callable[[int, int], Recipe], number: int, log: Path) -> Network | Refused | Find:
    try:
        made = recipe_of(seed, number)
    except Exception as error:
        if "onnxruntime" not in str(getattr(error, "__module__", "")) and not _is_of_quantizer(error):
            raise
        return Refused(number, "the quantizer", f"{type(error).__name__}: {' '.join(str(error).split())[:80]}")
    return tried(number, made, log)


def _is_of_quantizer(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if "onnxruntime" in trace.tb_frame.f_code.co_filename:
            return True
        trace = trace.tb_next
    return False


def smaller(seed: int, number: int, kind: str, folder: Path) -> bytes:
    """The network without what its find does not need."""
    made = of_onnx(seed, number)

    def attempt(content: bytes) -> Network | Refused | Find:
        candidate = replace(made, content=content)
        [outcome] = children([number], partial(_tried_again, candidate), folder / "minimize.log")
        return outcome

    return minimized(made.content, kind, attempt, _kind_of)


def _tried_again(made, number: int, log: Path) -> Network | Refused | Find:
    return tried(number, made, log)


def _kind_of(outcome: Network | Refused | Find) -> str:
    if isinstance(outcome, Find):
        return outcome.kind
    if not isinstance(outcome, Network) or not outcome.feeds:
        return ""
    with tempfile.TemporaryDirectory(prefix="qcgen-networks-") as folder:
        return next((find.kind for find in finds([outcome], Path(folder))), "")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make fuzz-networks", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many networks")
    parser.add_argument("--seed", type=int, default=1, help="networks are the same for the same seed and number")
    parser.add_argument("--first", type=int, default=0, help="the number of the first network")
    parser.add_argument("--only", type=int, help="the one network of this number, made smaller if it is a find")
    parser.add_argument("--seconds", type=float, default=inf, help="begin no network after so long")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz-networks"), help="where finds are written")
    parser.add_argument("--skip", default="", help="a regular expression of finds that are known")
    parser.add_argument("--format", choices=FORMATS.values(), default="onnx", help="what the networks are written as")
    given = parser.parse_args(arguments)
    given.made = next(made for made, name in FORMATS.items() if name == given.format)
    if given.made is tflite_file and not tflm.is_here():
        print(
            "make fuzz-networks FORMAT=tflite skips: tflite-micro is not installed (.venv/bin/pip install tflite-micro)"
        )
        return 0
    print(tflm.description() if given.made is tflite_file else judge.description(), flush=True)
    if given.made is of_onnx and (why := judge.unfit()):
        print(f"onnxruntime on this processor is not a judge of bits: {why}")
        return 2
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.only is not None:
        return _replay(given)
    start = time.monotonic()
    sessions = _sessions(given, range(given.first, given.first + given.count))
    print(summary(sessions, sum(session.tried for session in sessions), time.monotonic() - start))
    return 1 if any(session.kinds for session in sessions) else 0


def _sessions(given: argparse.Namespace, numbers: Sequence[int]) -> list[Session]:
    jobs = max(1, min(given.jobs, len(numbers) // BLOCK))
    sessions = [Session(given.seed, given.folder, given.skip, given.made) for _ in range(jobs)]
    if jobs == 1:
        return [sessions[0].run(numbers, given.seconds)]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        shares = [(session, numbers[job::jobs], given.seconds) for job, session in enumerate(sessions)]
        return pool.starmap(Session.run, shares)


def _replay(given: argparse.Namespace) -> int:
    """One network: what it is, what comes of it, and the smallest model found that shows the same."""
    made = given.made(given.seed, given.only)
    print(f"{made.source}; outputs {made.tolerance}\n{made.options}")
    session = Session(given.seed, given.folder, "", given.made).run([given.only])
    if not session.kinds:
        print(*session.refusals, "no find", sep="\n")
        return 0
    [kind] = session.kinds
    path = given.folder / f"{given.seed}-{given.only}"
    print(path.with_suffix(".txt").read_text())
    if given.made is tflite_file:
        print(command(path.with_suffix(".tflite"), made.options.compile))
        return 1
    small = Path(f"{path}-small.onnx")
    small.write_bytes(smaller(given.seed, given.only, kind, given.folder))
    print(f"{path}.onnx, made smaller: {small}\n{command(small, made.options.compile)}")
    return 1


def command(path: Path, options: Mapping[str, object]) -> str:
    """The command that compiles a model with these options."""
    words = ["qcgen", "compile", str(path)]
    for name, value in options.items():
        words += ["--no-simplify"] if name == "simplify" else [f"--{name.replace('_', '-')}", str(value)]
    return " ".join(words)


def summary(sessions: Sequence[Session], count: int, seconds: float) -> str:
    """Counts, refusals by reason, builds and finds, as lines."""

    def total(name: str) -> collections.Counter[str]:
        return sum((getattr(session, name) for session in sessions), collections.Counter())

    counts, kinds, jobs = total("counts"), total("kinds"), len(sessions)
    refused = ", ".join(f"{n} {what}" for what, n in counts.items() if what.startswith("refused"))
    lines = [
        f"{count} networks: {counts['accepted']} accepted, {refused or 'none refused'}",
        f"{counts['outputs']} outputs of {counts['calls']} calls compared; {sum(kinds.values())} finds, "
        f"{counts['skipped']} known ones; {seconds:.0f} s, {seconds * jobs / max(1, count):.2f} s per network and core",
        "built: " + ", ".join(f"{n} {build}" for build, n in total("builds").most_common()),
    ]
    lines.append("with: " + ", ".join(f"{n} {trait}" for trait, n in total("traits").most_common()))
    lines += [f"{n:7} refused by {reason}" for reason, n in total("refusals").most_common()]
    return "\n".join([*lines, *(f"{n:7} find: {kind}" for kind, n in kinds.most_common())])


if __name__ == "__main__":
    sys.exit(main())
