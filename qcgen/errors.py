"""What a user is told when a model cannot be compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MOST_PROBLEMS = 20
"""How many problems the text of a rejection holds; the others are counted."""

MOST_CHARACTERS = 500
"""The length of one line of a problem's text."""


def printable(text: str) -> str:
    """Text of a model or a board that cannot drive a terminal or break a line; of a long one the beginning and the end.

    >>> printable("a\\x1b[2J\\n")
    'a\\\\x1b[2J\\\\n'
    """
    if len(text) > MOST_CHARACTERS:
        text = f"{text[: MOST_CHARACTERS - 100]} ... {text[-95:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, width: int) -> str:
    """A text whose middle is left out where it is too long.

    >>> shortened("StatefulPartitionedCall/conv1", 12), shortened("conv1", 12)
    ('Statef…conv1', 'conv1')
    """
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError within the block names this file or folder: that of a write to a full disk names none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@dataclass(frozen=True)
class Problem:
    """One reason why a model cannot be compiled, in the model's own names.

    ``where`` names the node or tensor ("node 'conv1', input w"), ``what`` says what is wrong there and ``hint`` what
    the user can do about it, each on one line: control characters of the model are escaped, long texts cut.
    """

    where: str
    what: str
    hint: str

    def __post_init__(self) -> None:
        for name in ("where", "what", "hint"):
            object.__setattr__(self, name, printable(getattr(self, name)))

    def __str__(self) -> str:
        return f"{self.where}: {self.what}\n    {self.hint}"


class ModelRejected(Exception):
    """The model cannot be compiled; ``problems`` holds every reason that was found, at least one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        assert self.problems, "a rejection needs a reason"
        super().__init__(self.problems)

    def __str__(self) -> str:
        texts = [str(problem) for problem in self.problems[:MOST_PROBLEMS]]
        more = len(self.problems) - len(texts)
        return "\n".join([*texts, f"... and {more} more"] if more else texts)


class ProofFailed(Exception):
    """Numbers that were to go into the C are not what is claimed of them: a defect of qcgen, and nothing is written."""


def prove(holds: bool, claim: str) -> None:
    """Raises ProofFailed unless the claim holds; an ``assert`` would be gone under ``python -O``."""
    if not holds:
        raise ProofFailed(f"not proved: {claim}")


class ToolMissing(Exception):
    """A tool outside Python, such as a C compiler, is needed and was not found, or failed."""


class OrionPanic(Exception):
    """Orion panics on these inputs, whose numbers leave 32 bits there: there are no outputs."""


class EmulationFailed(Exception):
    """Code on an emulated core faulted, did not end in time, or wrote where it must not; the text says which."""


class BoardFailed(Exception):
    """A board on a serial port is silent, holds another firmware or fails; the text says which port, and what.

    Its text is printable, whatever the board sent.
    """

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))
