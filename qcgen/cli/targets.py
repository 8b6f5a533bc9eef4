"""Lists the cores that code can be compiled for."""

from __future__ import annotations

import argparse

from qcgen.cli.table import table
from qcgen.targets import TARGETS

SUMMARY = "list the targets"


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """The command has no arguments."""


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
    return 0
