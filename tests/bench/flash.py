"""Code of networks with and without functions that layers share, and what sharing costs: ``make bench-flash``.

Code is that of a Cortex-M4 by gcc; instructions are those of one inference, -O2, on random codes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np

import qcgen
import qcgen.plan
from qcgen.artifact import Artifact
from qcgen.cli.terminal import number, table
from qcgen.emulate import measure
from tests.bench.memory import models
from tests.bench.pages import DOCS, write_table

CORE = "cortex-m4"
DOCUMENT = DOCS / "flash.md"
GOALS = {
    "autoencoder": "3 KB, +2 %",
    "keyword spotting": "8 KB, +2 %",
    "ResNet8": "9 KB, +2.5 %",
    "visual wake words": "16 KB, +4 %",
    "MobileNetV2-0.5 128x128": "22 KB, +4 %",
}
HEAD = ("network", "layers", "-Os alone", "shared", "-O2 alone", "shared", "constants alone", "shared", "more", "goal")
BEGIN, END = "<!-- bench-flash -->", "<!-- end -->"


def instructions(artifact: Artifact) -> int:
    """Of one inference, built with -O2."""
    rng = np.random.default_rng(1)
    feeds = {
        port.symbol: rng.integers(port.tensor.dtype.low, port.tensor.dtype.high + 1, port.shape).astype(
            port.tensor.dtype.numpy
        )
        for port in artifact.plan.inputs
    }
    return measure(artifact, feeds, flags=("-O2",)).instructions


def row(title: str) -> Iterator[str]:
    """One network: sizes in bytes, each layer with functions of its own and with those that layers share."""
    options = {"target": CORE, "layout": "nhwc", "io": "quantized", "name": "net"}
    model = models()[title]()
    shared = qcgen.compile(model, **options)
    with patch.object(qcgen.plan, "share", lambda works, *_: list(works)):
        alone = qcgen.compile(model, **options)
    yield title
    yield f"{sum(len(each.nodes) for each in shared.plan.shared)} of {len(shared.plan.calls)}"
    sizes = [each.report.code_bytes or {} for each in (alone, shared)]
    for level in ("-Os", "-O2"):
        yield from (number(each[level]) for each in sizes)
    yield from (number(each.report.constants_bytes) for each in (alone, shared))
    before, after = instructions(alone), instructions(shared)
    yield f"{100 * (after - before) / before:+.1f} %"
    yield GOALS[title]


def main() -> None:
    """Prints the table; with --write, into docs/flash.md, too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    known = models()
    text = table(HEAD, [tuple(row(title)) for title in GOALS if title in known])
    print(text)
    if parser.parse_args().write:
        write_table(DOCUMENT, BEGIN, END, text)


if __name__ == "__main__":
    main()
