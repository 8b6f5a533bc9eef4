"""``make fuzz``: mutants in child processes with limits; finds are written to a folder, the exit status is 1 if any."""

from __future__ import annotations

import argparse
import collections
import hashlib
import multiprocessing
import os
import pickle
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import qcgen
from fuzz.minimize import minimized
from fuzz.oracle import judged
from fuzz.trial import SECONDS, Accepted, Find, Outcome, mutant_of, trial
from qcgen.verification import verify

BLOCK = 100  # mutants that one child tries: a process costs more than a mutant
BATCH = 50  # accepted mutants in one program
EXAMPLES = 3  # finds of one kind that are written down
PATIENCE = 300  # seconds without a word from a child


Mutant = Callable[[int], tuple[bytes, dict[str, Any]]]
"""From a number to a model's bytes and the options to compile it with."""

Tried = Callable[[int, Path], Any]
"""From a number, and the file where standard error goes, to an outcome."""


class Session:
    """The finds so far, by kind."""

    def __init__(self, seed: int, folder: Path, skip: str, minimize: bool) -> None:
        self.seed, self.folder, self.skip, self.minimize = seed, folder, skip, minimize
        self.counts: collections.Counter[str] = collections.Counter()
        self.kinds: collections.Counter[str] = collections.Counter()

    def note_progress(self, tried: int, first: int) -> None:
        """Leaves the counts in a file, for runs of hours."""
        counts = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        (self.folder / f"progress-{self.seed}-{first}.txt").write_text(f"{tried} mutants: {counts}\n")

    def add(self, find: Find) -> None:
        if self.skip and re.search(self.skip, find.kind + find.story):
            self.counts["skipped"] += 1
            return
        self.kinds[find.kind] += 1
        if self.kinds[find.kind] > EXAMPLES:
            return
        content, options = mutant_of(self.seed, find.number)
        name = f"{self.seed}-{find.number}"
        (self.folder / f"{name}.onnx").write_bytes(content)
        if self.minimize:
            (self.folder / f"{name}-small.onnx").write_bytes(_smaller(content, options, find, self.folder))
        text = f"{find.kind}\nseed {self.seed}, number {find.number}, options {options}\n\n{find.story}\n"
        (self.folder / f"{name}.txt").write_text(text)
        print(f"{find.kind}: make fuzz SEED={self.seed} ONLY={find.number}", flush=True)


def _smaller(content: bytes, options: dict[str, Any], find: Find, folder: Path) -> bytes:
    """The mutant without what its find does not need."""

    def tried(candidate: bytes) -> Outcome:
        [outcome] = children([find.number], compiling(lambda _: (candidate, options)), folder / "minimize.log")
        return outcome

    return minimized(content, find.kind, tried)


def compiling(mutant: Mutant) -> Tried:
    """Tries mutants by compiling them."""
    return lambda number, log: trial(number, *mutant(number), log)


def children(numbers: Sequence[int], tried: Tried, log: Path) -> Iterator[Any]:
    """The outcomes of numbers, tried in forked children; one that dies takes only the number it was at with it."""
    left = list(numbers)
    while left:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            _be_child(left, tried, write, log)
        os.close(write)
        done = 0
        with os.fdopen(read, "rb") as stream:
            while True:
                try:
                    outcome = pickle.load(stream)
                except EOFError:
                    break
                done += 1
                yield outcome
        _, status = os.waitpid(pid, 0)
        if done < len(left):
            yield Find(left[done], _death(status), f"the child ended with status {status}\n{log.read_text()[-3000:]}")
            done += 1
        left = left[done:]


def _death(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"exit {status}"
    number = os.WTERMSIG(status)
    return f"more than {SECONDS} s" if number in (signal.SIGXCPU, signal.SIGALRM) else signal.Signals(number).name


def _be_child(numbers: Sequence[int], tried: Tried, write: int, log: Path) -> None:
    """Tries the numbers and ends the process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(errors, 2)
    try:
        with os.fdopen(write, "wb") as stream:
            for number in numbers:
                signal.alarm(PATIENCE)
                pickle.dump(tried(number, log), stream)
                stream.flush()
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def fuzz(session: Session, numbers: Sequence[int], build: bool, seconds: float = inf) -> None:
    """Tries mutants, for so long, and judges those that are accepted; C seen before under another name is not built."""
    end = time.monotonic() + seconds
    seen: set[bytes] = set()
    batch: list[Accepted] = []
    with tempfile.TemporaryDirectory(prefix="qcgen-fuzz-") as folder:
        for start in range(0, len(numbers), BLOCK):
            if time.monotonic() > end:
                break
            block = numbers[start : start + BLOCK]
            for outcome in children(block, compiling(partial(mutant_of, session.seed)), Path(folder, "log")):
                session.counts[type(outcome).__name__.lower()] += 1
                if isinstance(outcome, Find):
                    session.add(outcome)
                elif isinstance(outcome, Accepted) and outcome.feeds and build and _is_new(outcome, seen):
                    batch.append(outcome)
            session.note_progress(start + len(block), numbers[0])
            while len(batch) >= BATCH:
                _judge(session, batch[:BATCH], Path(folder))
                batch = batch[BATCH:]
        _judge(session, batch, Path(folder))


def _is_new(outcome: Accepted, seen: set[bytes]) -> bool:
    text = "".join(outcome.files.values()).replace(outcome.name, "m").replace(outcome.name.upper(), "M")
    key = hashlib.sha256(re.sub(r"\b[0-9a-f]{12,64}\b", "", text).encode()).digest()
    is_new = key not in seen
    seen.add(key)
    return is_new


def _judge(session: Session, batch: Sequence[Accepted], folder: Path) -> None:
    session.counts["built"] += len(batch)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for find in judged(batch, Path(place)):
            confirmed = _confirmed(session.seed, find) if find.kind == "choice" else find
            if confirmed is not None:
                session.add(confirmed)


def _confirmed(seed: int, find: Find) -> Find | None:
    """The find if outputs are wrong even where either code next to a tie is right, or if verifying that fails."""
    content, options = mutant_of(seed, find.number)
    artifact = qcgen.compile(content, name=f"m{find.number}", **options)
    try:
        return find if verify(artifact, seed=find.number, cases=2, sums=False).differing else None
    except Exception as error:
        return Find(find.number, f"{type(error).__name__} in verify", traceback.format_exc())


def _share(given: argparse.Namespace, numbers: Sequence[int]) -> Session:
    session = Session(given.seed, given.folder, given.skip, given.minimize)
    fuzz(session, numbers, not given.no_build, given.seconds)
    return session


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="mutants are the same for the same seed and number")
    parser.add_argument("--first", type=int, default=0, help="the number of the first mutant")
    parser.add_argument("--only", type=int, help="the one mutant of this number")
    parser.add_argument("--seconds", type=float, default=inf, help="begin no mutant after so long")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="where finds are written")
    parser.add_argument("--skip", default="", help="a regular expression of finds that are known")
    parser.add_argument("--minimize", action="store_true", help="write a smaller model beside each find")
    parser.add_argument("--no-build", action="store_true", help="do not build the C of mutants that are accepted")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    last = given.first + given.count
    numbers = list(range(given.first, last)) if given.only is None else [given.only]
    return _report(given, numbers)


def _report(given: argparse.Namespace, numbers: Sequence[int]) -> int:
    start = time.monotonic()
    jobs = max(1, min(given.jobs, len(numbers) // BLOCK))
    shares = [(given, numbers[job::jobs]) for job in range(jobs)]
    if jobs == 1:
        sessions = [_share(*shares[0])]
    else:
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            sessions = pool.starmap(_share, shares)
    counts = sum((session.counts for session in sessions), collections.Counter())
    kinds = sum((session.kinds for session in sessions), collections.Counter())
    tried = sum(counts[kind] for kind in ("find", "rejected", "accepted"))
    found = ", ".join(f"{counts[kind]} {kind}" for kind in ("rejected", "accepted"))
    print(f"seed {given.seed}: {tried} of {len(numbers)} mutants, {found},")
    print(
        f"{counts['built']} different ones built and run; {sum(kinds.values())} finds; {time.monotonic() - start:.0f} s"
    )
    for kind, count in kinds.most_common():
        print(f"{count:7} {kind}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
