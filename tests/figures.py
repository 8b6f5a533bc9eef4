"""The figures of README.md and its charts, read from the pages that the benchmarks write: none is typed by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
MILLION = 1_000_000

Row = dict[str, str]
"""A line of a table: cells by the titles of their columns."""


def text_table(text: str, first: str) -> list[Row]:
    """The rows of the ``text`` block whose head begins with ``first``, as ``qcgen.cli.terminal`` made it.

    Columns are where every line has two spaces or more between them.
    """
    [block] = [block for block in re.findall(r"^```text\n(.*?)^```", text, re.M | re.S) if block.startswith(first)]
    lines = block.split("\n\n")[0].splitlines()
    width = max(map(len, lines))
    free = "".join(" " if all(line.ljust(width)[at] == " " for line in lines) else "x" for at in range(width))
    starts = [0, *(gap.end() for gap in re.finditer(r" {2,}", free)), width + 2]
    cells = [[line[start:end].strip() for start, end in pairwise(starts)] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


def markdown_table(text: str, first: str) -> list[Row]:
    """The rows of the Markdown table whose head begins with ``first``."""
    [table] = [found for found in re.findall(r"(?:^\|.*\n)+", text, re.M) if found.startswith(f"| {first}")]
    head, _, *rows = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in table.splitlines()]
    return [dict(zip(head, row, strict=True)) for row in rows]


def number(cell: str) -> float:
    """The number in a cell, whose thousands may be apart.

    >>> number("12 501 632"), number("+0.7%"), number("2.96")
    (12501632.0, 0.7, 2.96)
    """
    return float(re.sub(r"[\s,%+]", "", cell))


@dataclass(frozen=True)
class Network:
    """A network of MLPerf Tiny on a Cortex-M4, its tensors channels last; bytes, and cycles of one inference.

    ``cycles`` by board and --optimize are estimates; ``record`` and ``published``, the latter of CMSIS-NN as microTVM
    calls it, were measured on an STM32L4R5. ``ram`` by the way of --arena: arena, inputs and outputs together.
    """

    name: str
    flash: dict[str, int]
    arena: dict[str, int]
    cycles: dict[tuple[str, str], int]
    record: int
    published: int
    ram: dict[str, int]
    more: dict[str, str]


@dataclass(frozen=True)
class Figures:
    """All of them. ``ratios``: CMSIS-NN's instructions through qcgen's, by core and --optimize.

    ``tried``: how many of the networks of docs/networks.md in QDQ form are "exact", "within tolerance", "refused".
    ``rtl``: cycles of ``rtl_network`` for speed, measured on the RTL of cores.
    """

    networks: tuple[Network, ...]
    megahertz: dict[str, int]
    ratios: dict[tuple[str, str], float]
    rtl: dict[str, int]
    large_ram: dict[str, int]
    tiny_engine: int
    tried: dict[str, int]
    rtl_network: str = "keyword spotting"

    def range_of(self, optimize: str) -> tuple[float, float]:
        """The least and the greatest geometric mean over all cores."""
        found = [ratio for (_, how), ratio in self.ratios.items() if how == optimize]
        return min(found), max(found)


LARGE = "MobileNetV2-0.35 144x144"
"""A network of which other tools' memory was published."""

ROWS = "rows"
WAYS = {"": "whole tensors", "least": "`--arena least`", ROWS: "rows pushed"}


def read() -> Figures:
    """The figures of today's pages."""
    benchmarks, memory, model = (
        DOCS.joinpath(name).read_text() for name in ("benchmarks.md", "memory.md", "flash-model.md")
    )
    whole, ram = text_table(benchmarks, "network            --optimize         MAC"), text_table(memory, "network")
    megahertz = {board: int(clock) for board, clock in re.findall(r"^\* `(\w+)`: .* at (\d+) MHz", benchmarks, re.M)}
    published = {row["network"]: number(row["published"]) for row in markdown_table(model, "network | zero wait |")}
    names = dict.fromkeys(row["network"] for row in whole)
    ratios = text_table(benchmarks, "CMSIS-NN / qcgen")
    [tiny_engine] = re.findall(r"TinyEngine needs (\d+) kB", memory)
    return Figures(
        tuple(_network(name, whole, ram, list(megahertz), published[name]) for name in names),
        megahertz,
        {
            (row["CMSIS-NN / qcgen"], how): number(row[f"{how}: geometric mean"])
            for row in ratios
            for how in ("size", "speed")
        },
        {
            row["core"]: int(number(row["cycles"]))
            for row in text_table(benchmarks, "network            --optimize  core")
            if (row["network"], row["--optimize"]) == (Figures.rtl_network, "speed")
        },
        _ram(LARGE, ram),
        1000 * int(tiny_engine),
        _tried(DOCS.joinpath("networks.md").read_text()),
    )


def _tried(networks: str) -> dict[str, int]:
    """The line of docs/networks.md that counts verdicts of QDQ models."""
    [line] = re.findall(r"^\* QDQ: (.*)$", networks, re.M)
    return {verdict: int(count) for count, verdict in (part.split(" ", 1) for part in line.split(", "))}


def _network(name: str, whole: Sequence[Row], ram: Sequence[Row], boards: Sequence[str], published: float) -> Network:
    rows = {row["--optimize"]: row for row in whole if row["network"] == name}
    [record] = {row["record"] for row in rows.values()}
    return Network(
        name,
        {how: int(number(row["flash"])) for how, row in rows.items()},
        {how: int(number(row["arena"])) for how, row in rows.items()},
        {(board, how): int(number(row[board])) for how, row in rows.items() for board in boards},
        int(number(record)),
        round(published * MILLION),
        _ram(name, ram),
        {row["--arena"]: row["more"] for row in ram if row["network"] == name},
    )


def _ram(name: str, rows: Sequence[Row]) -> dict[str, int]:
    """RAM in all by the way of --arena; without any that a network cannot have."""
    return {
        row["--arena"]: int(number(row["RAM in all"]))
        for row in rows
        if row["network"] == name and row["--arena"] in WAYS
    }
