"""Visual wake words on an ESP32-C3 beside Espressif's own kernels: a part of ``make bench-cortex``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import qcgen
from qcgen.cli.terminal import number, table
from qcgen.cores import BOARDS
from qcgen.emulate import measure, random_feeds
from tests.bench.whole import MLPERF

CORE = "rv32imc"
BOARD = BOARDS["esp32c3"]
NETWORK = MLPERF[2]
MILLISECONDS, THEIR_MACS = 426, 7_157_888
"""As published; the network is ours with one channel of the image in place of three."""

SOURCE = "https://github.com/espressif/esp-tflite-micro/blob/01a78d0ab8e1640804c97149c67e5bdbeb9faaa8/README.md"
HEAD = ("network", "kernels", "MAC", "without waits", "cycles", "cycles/MAC", "kind")


@dataclass(frozen=True)
class Figures:
    """Estimated cycles of one inference, without and with waits for flash."""

    title: str
    macs: int
    cycles: int
    with_waits: int


def measured(flags: tuple[str, ...], compiler: str) -> list[Figures]:
    """The network with all its channels, and without those that are constant; nothing where its model is absent."""
    if not NETWORK.path.is_file():
        return []
    found = []
    for title, simplify in ((f"{NETWORK.title}, --no-simplify", False), (NETWORK.title, True)):
        options = {"layout": "nhwc", "optimize": "speed", "io": "quantized", "simplify": simplify}
        artifact = qcgen.compile(NETWORK.path, name="net", target=CORE, **options)
        feeds = random_feeds(artifact.plan, 1)
        counted = measure(artifact, feeds, flags=flags, compiler=compiler, boards=(BOARD,))
        found.append(Figures(title, artifact.report.macs, counted.cycles, counted.cycles_on(BOARD.name)))
    return found


def section(found: Sequence[Figures]) -> str:
    """The part of docs/benchmarks.md, "" without any figures."""
    if not found:
        return ""
    theirs = MILLISECONDS * 1000 * BOARD.megahertz
    published = number(THEIR_MACS), "-", number(theirs), f"{theirs / THEIR_MACS:.2f}"
    rows = [("person detection", "ESP-NN", *published, "measured"), *map(_row, found)]
    parts = [
        "## Beside Espressif's kernels on an ESP32-C3",
        "",
        f"Espressif's own kernels (ESP-NN, under TensorFlow Lite Micro) take {MILLISECONDS} ms for person detection",
        f"on an ESP32-C3 at {BOARD.megahertz} MHz, with internal memory: [README of esp-tflite-micro]({SOURCE}).",
        "That network is visual wake words with one channel of the image in place of three; its multiply-adds are",
        f"computed from its shapes. Ours: `--target {CORE} --layout nhwc --io quantized --optimize speed`, `-O3`,",
        "cycles of an Ibex with waits for a serial flash, by the model of [flash-model.md](flash-model.md). With",
        "`--no-simplify` all channels are there; other weights may have none that are constant.",
        "",
        "```text",
        table(HEAD, rows, right=HEAD[2:6]),
        "```",
    ]
    return "\n".join(parts)


def _row(each: Figures) -> tuple[str, ...]:
    counts = number(each.macs), number(each.cycles), number(each.with_waits), f"{each.with_waits / each.macs:.2f}"
    return (each.title, "qcgen", *counts, "estimate")
