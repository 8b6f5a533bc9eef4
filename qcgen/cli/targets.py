"""Lists the cores that code can be compiled for, and the chips that stand for them."""

from __future__ import annotations

import argparse

from qcgen.chips import CHIPS, KIBI, Chip
from qcgen.cli.terminal import table
from qcgen.cores import TARGETS

SUMMARY = "list the targets and chips"


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """The command has no arguments."""


_RIGHT = ("flash", "RAM", "clock")


def _row(chip: Chip) -> tuple[str, ...]:
    flash, ram = (f"{count // KIBI} KiB" for count in (chip.flash, chip.ram))
    return (chip.name, chip.target, flash, ram, f"{chip.megahertz} MHz", chip.source, chip.note)


def run(_args: argparse.Namespace) -> int:
    """Prints the table; returns the exit status."""
    rows = [
        (
            target.name,
            target.description,
            ", ".join(sorted(target.features)) or "-",
            " ".join((target.compiler, *target.flags)),
        )
        for target in TARGETS.values()
    ]
    print(table(("target", "core", "features", "compiler"), rows))
    print()
    print(
        table(
            ("chip", "target", "flash", "RAM", "clock", "source", "note"),
            [_row(chip) for chip in CHIPS.values()],
            _RIGHT,
        )
    )
    return 0
