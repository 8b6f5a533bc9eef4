"""Bounds of the instructions of a call as text for people and as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from qcgen.cli.table import number, table
from qcgen.errors import printable

if TYPE_CHECKING:
    from qcgen.emulate import Bound, NodeBound

_HEAD = ("node", "kernel", "least", "most", "why there is no bound")


def as_text(model: str, bounds: Sequence[Bound]) -> str:
    """One line for each node, then what holds for a call of each function."""
    first = bounds[0]
    rows = [(node.name, node.kernel, *_range(node), node.obstacle) for each in bounds for node in each.nodes]
    lines = [f"{printable(model)} on {first.target}, built with: {shlex.join(first.command)}", ""]
    lines += [table(_HEAD, rows, _HEAD[2:4], _HEAD[:2]), "", *(_sentence(each) for each in bounds)]
    return "\n".join(lines)


def _range(node: NodeBound) -> tuple[str, str]:
    return ("", "") if node.most is None else (number(node.least), number(node.most))


def _sentence(bound: Bound) -> str:
    tried = f"{len(bound.counted)} calls counted: {number(min(bound.counted))} to {number(max(bound.counted))}"
    if bound.most is None:
        without = sum(node.most is None for node in bound.nodes)
        return f"no bound: {without} of {len(bound.nodes)} nodes have none; {tried}"
    if bound.least == bound.most:
        return f"{number(bound.most)} instructions for every input; {tried}"
    return f"{number(bound.least)} to {number(bound.most)} instructions for every input; {tried}"


def as_json(model: str, bounds: Sequence[Bound]) -> str:
    """The same for machines: a list of functions; most is null where there is no bound."""
    functions = [
        {
            "least": None if each.most is None else each.least,
            "most": each.most,
            "outside": {"least": each.outside[0], "most": each.outside[1]},
            "counted": list(each.counted),
            "command": list(each.command),
            "nodes": [asdict(node) | ({"least": None} if node.most is None else {}) for node in each.nodes],
        }
        for each in bounds
    ]
    return json.dumps({"model": model, "target": bounds[0].target, "functions": functions}, indent=2)
