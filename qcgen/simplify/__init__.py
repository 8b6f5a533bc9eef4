"""The Program made smaller without a change of any output, as far as intervals prove it."""

from __future__ import annotations

from collections.abc import Callable

from qcgen.ir.program import Program
from qcgen.simplify.channels import remove_channels
from qcgen.simplify.fold import fold_clamps, fold_pads, join_steps
from qcgen.simplify.join_tables import join_tables
from qcgen.simplify.wiring import join_movement, remove_dead, remove_identities

__all__ = ["PASSES", "simplify"]

PASSES: tuple[Callable[[Program], Program], ...] = (
    remove_dead,
    join_movement,
    remove_identities,
    join_steps,
    fold_clamps,
    fold_pads,
    join_tables,
    remove_channels,
)
"""The passes in the order in which they take turns; each returns the very program that it cannot improve."""


def simplify(program: Program) -> Program:
    """The program that no pass can improve any more; its inputs and outputs are the same, bit for bit.

    What intervals have proved of single operators (``annotate``) must be proved anew.
    """
    while True:
        before = program
        for improve in PASSES:
            program = improve(program)
        if program is before:
            return program
