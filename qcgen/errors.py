"""What a user is told when a model cannot be compiled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One reason why a model cannot be compiled, in the model's own names.

    ``where`` names the node or tensor ("node 'conv1', input w"), ``what`` says what is wrong there and ``hint`` what
    the user can do about it.
    """

    where: str
    what: str
    hint: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}\n    {self.hint}"


class ModelRejected(Exception):
    """The model cannot be compiled; ``problems`` holds every reason that was found, at least one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        assert self.problems, "a rejection needs a reason"
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class ProofFailed(Exception):
    """Numbers that were to go into the C are not what is claimed of them: a defect of qcgen, and nothing is written."""


def prove(holds: bool, claim: str) -> None:
    """Raises ProofFailed unless the claim holds; an ``assert`` would be gone under ``python -O``."""
    if not holds:
        raise ProofFailed(f"not proved: {claim}")


class ToolMissing(Exception):
    """A tool outside Python, such as a C compiler, is needed and was not found, or failed."""


class EmulationFailed(Exception):
    """Code on an emulated core faulted, did not end in time, or wrote where it must not; the text says which."""
