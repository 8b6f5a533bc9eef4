"""Compares two reports of compile --report json: sizes in bytes, options, and the nodes that differ.

Nodes are found by their names. The exit status is 0, whether anything differs or not.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from qcgen.cli.terminal import counted, fitted, number, table
from qcgen.errors import printable

SUMMARY = "compare two reports"

FIGURES = {
    "flash_bytes": "flash", "constants_bytes": "constants", "ram_bytes": "RAM", "arena_bytes": "arena",
    "macs": "multiply-adds",
}  # fmt: skip
"""Of a report, beside what they are called."""

OF_NODE = {"kernel": "kernel", "constant_bytes": "constants", "scratch_bytes": "scratch", "macs": "multiply-adds"}


class _NoReport(Exception):
    """A file is no report; the text says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("before", metavar="A.json", type=Path)
    parser.add_argument("after", metavar="B.json", type=Path)


def run(args: argparse.Namespace) -> int:
    """Prints the tables; returns the exit status."""
    try:
        before, after = _report(args.before), _report(args.after)
        text = _text(before, after)
    except _NoReport as error:
        print(f"qcgen: {error}", file=sys.stderr)
        return 1
    print(fitted(text))
    return 0


def _report(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise _NoReport(f"{path}: it is no JSON") from None
    needed = {"qcgen", "name", "nodes", "options", *FIGURES}
    if not isinstance(found, dict) or not needed <= found.keys():
        raise _NoReport(f"{path}: it is no report of one model: qcgen compile --report json writes them")
    return found


def _text(before: dict[str, Any], after: dict[str, Any]) -> str:
    rows = [(title, *_change(before[key], after[key])) for key, title in FIGURES.items()]
    parts = [table(("", "A", "B", "change"), rows, ("A", "B", "change"))]
    options = [
        (name, str(before["options"].get(name)), str(after["options"].get(name)))
        for name in dict.fromkeys((*before["options"], *after["options"]))
        if before["options"].get(name) != after["options"].get(name)
    ]
    if options:
        parts.append(table(("option", "A", "B"), options, names=("A", "B")))
    nodes = _nodes(before, after)
    if nodes:
        parts.append(table(("node", "", "A", "B", "change"), nodes, ("change",), ("node", "A", "B")))
    differing = len({node for node, *_ in nodes})
    every = len({node["name"] for report in (before, after) for node in report["nodes"]})
    parts.append(f"A {printable(before['name'])}, B {printable(after['name'])}: {_of(differing, every)} differ")
    return "\n\n".join(parts)


def _of(some: int, every: int) -> str:
    return f"{number(some)} of {counted(every, 'node')}"


def _nodes(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, ...]]:
    """What differs of nodes; of one that only one report has, its kernel."""
    one, other = ({node["name"]: node for node in report["nodes"]} for report in (before, after))
    rows = []
    for name in dict.fromkeys((*one, *other)):
        if name not in one or name not in other:
            rows.append((name, "kernel", *(own[name]["kernel"] if name in own else "-" for own in (one, other)), ""))
            continue
        for key, title in OF_NODE.items():
            values = one[name][key], other[name][key]
            if values[0] != values[1]:
                rows.append((name, title, *(_change(*values) if key != "kernel" else (*values, ""))))
    return rows


def _change(before: int | None, after: int | None) -> tuple[str, str, str]:
    """Both numbers and by how much they differ; flash is None where code was not measured."""
    one, other = ("-" if value is None else number(value) for value in (before, after))
    if before is None or after is None or before == after:
        return one, other, ""
    share = f" ({100 * (after - before) / before:+.1f} %)" if before else ""
    return one, other, f"{'+' if after > before else ''}{number(after - before)}{share}"
