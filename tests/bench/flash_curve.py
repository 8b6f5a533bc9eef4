"""What --flash buys: bytes and cycles of networks between --optimize size and speed: ``make bench-flash``.

Code and constants as gcc -O2 makes them; cycles of one inference are estimated from counted instructions, without wait
states.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import qcgen
from qcgen.artifact import Artifact
from qcgen.cli.terminal import number, table
from qcgen.emulate import measure, random_feeds
from tests.bench.flash import DOCUMENT
from tests.bench.pages import write_table
from tests.bench.whole import networks

BEGIN, END = "<!-- bench-flash-curve -->", "<!-- end of curve -->"
RUNS = (
    ("cortex-m4", "ResNet8", (110_000, 120_000, 154_636, 220_000)),
    ("cortex-m4", "keyword spotting", (45_000, 50_000)),
    ("cortex-m4", "visual wake words", (100_000, 115_000)),
    ("cortex-m4", "autoencoder", (280_000, 300_000)),
    ("cortex-m0", "autoencoder", (300_000, 400_000)),
)
HEAD = ("core", "network", "--flash", "estimated", "flash", "of it code", "cycles", "estimated", "arena")


def row(core: str, title: str, path: Path, **options: object) -> tuple[str, ...]:
    """One network for one budget, or at an end of the curve."""
    artifact: Artifact = qcgen.compile(path, name="net", target=core, layout="nhwc", io="quantized", **options)
    code = (artifact.report.code_bytes or {})["-O2"]
    counted = measure(artifact, random_feeds(artifact.plan, 1), flags=("-O2",))
    use = artifact.plan.flash
    expected = ("", "") if use is None else (number(use.bytes), number(use.cycles))
    way = number(options["flash"]) if use else str(options["optimize"])
    flash = number(artifact.report.constants_bytes + code)
    arena = number(artifact.plan.arena_bytes)
    return core, title, way, expected[0], flash, number(code), number(counted.cycles), expected[1], arena


def rows() -> Iterator[tuple[str, ...]]:
    """All of them, for the networks that are there."""
    paths = {network.title: network.path for network in networks()}
    for core, title, budgets in RUNS:
        if title in paths:
            yield row(core, title, paths[title], optimize="size")
            yield from (row(core, title, paths[title], flash=budget) for budget in budgets)
            yield row(core, title, paths[title], optimize="speed")


def main() -> None:
    """Prints the table; with --write, into docs/flash.md, too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    text = table(HEAD, list(rows()), HEAD[2:])
    print(text)
    if parser.parse_args().write:
        write_table(DOCUMENT, BEGIN, END, text)


if __name__ == "__main__":
    main()
