"""Shows what a model holds and what each node becomes: kernel, sizes, certificate; writes nothing.

A model that cannot be compiled as a whole is shown node by node: each that can be compiled alone with what it becomes,
the others with the reason.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING

from qcgen.cli.options import add_compile_options
from qcgen.errors import ModelRejected, Problem

if TYPE_CHECKING:
    from qcgen.ir.graph import Graph, Node, Value
    from qcgen.report import NodeReport

SUMMARY = "show what a model holds and what its nodes become"


@dataclass(frozen=True)
class Inspection:
    """``nodes`` that can be compiled; ``refused`` the others with all their problems.

    ``is_whole``: the nodes are compiled together; otherwise each by itself, and ``arena_bytes`` is the largest of them.
    """

    is_whole: bool
    arena_bytes: int
    nodes: tuple[NodeReport, ...]
    refused: tuple[tuple[Node, tuple[Problem, ...]], ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="MODEL.onnx")
    add_compile_options(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the inspection; returns the exit status."""
    from qcgen.cli.artifacts import print_rejection, read_model

    try:
        graph = read_model(args, args.model)
        found = _inspect(args, graph)
    except ModelRejected as rejection:
        print_rejection(args.model, rejection)
        return 1
    print(_json(args, graph, found) if args.json else _text(args, graph, found))
    return 0


def _inspect(args: argparse.Namespace, graph: Graph) -> Inspection:
    """Whole if that is possible or --node chose; else node by node, unless no node can be compiled."""
    from qcgen.cli.artifacts import compiled

    try:
        artifacts = compiled(args, args.model, graph)
    except ModelRejected:
        if args.nodes or len(graph.nodes) < 2:
            raise
        found = _singly(args, graph)
        if not found.nodes:
            raise
        return found
    arena = max(artifact.report.arena_bytes for artifact in artifacts)
    return Inspection(not args.nodes, arena, tuple(node for artifact in artifacts for node in artifact.report.nodes))


def _singly(args: argparse.Namespace, graph: Graph) -> Inspection:
    from qcgen.cli.artifacts import compiled_singly

    nodes: list[NodeReport] = []
    refused: list[tuple[Node, tuple[Problem, ...]]] = []
    arena = 0
    for node in graph.nodes:
        try:
            report = compiled_singly(args, args.model, graph, node.name).report
        except ModelRejected as rejection:
            refused.append((node, rejection.problems))
        else:
            nodes += report.nodes
            arena = max(arena, report.arena_bytes)
    return Inspection(False, arena, tuple(nodes), tuple(refused))


def _text(args: argparse.Namespace, graph: Graph, found: Inspection) -> str:
    from qcgen.cli.report_text import node_table, passed_over
    from qcgen.cli.table import counted, printable, size, table

    parts = [f"{printable(args.model)}, sha256 {graph.sha256}", _holdings(graph)]
    if not found.is_whole:
        parts.append(f"{counted(len(found.nodes), 'node')} compiled, each by itself (compile takes them with --node):")
    parts.append(node_table(found.nodes))
    parts.append(passed_over(found.nodes))
    if found.refused:
        head = f"{counted(len(found.refused), 'node')} that cannot be compiled:\n"
        rows = [(node.name, node.operator, _reason(problems)) for node, problems in found.refused]
        parts.append(head + table(("node", "operator", "reason"), rows))
    flash = sum(node.constant_bytes for node in found.nodes)
    macs = counted(sum(node.macs for node in found.nodes), "multiply-add")
    parts.append(f"total: flash {size(flash)} of constants, RAM {size(found.arena_bytes)} of arena, {macs}")
    return "\n\n".join(parts)


def _reason(problems: tuple[Problem, ...]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return problems[0].what + more


def _holdings(graph: Graph) -> str:
    """Opsets, operators, inputs and outputs."""
    from qcgen.cli.table import counted, table

    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in graph.opsets.items())
    operators = Counter(node.operator for node in graph.nodes)
    rows = [("opsets", opsets, "", "", "")]
    rows += [(counted(count, "node"), operator, "", "", "") for operator, count in operators.items()]
    rows += [("input", *_tensor_row(graph.value(name))) for name in graph.inputs]
    rows += [("output", *_tensor_row(graph.value(name))) for name in graph.outputs]
    return table(("", "", "", "", ""), rows).lstrip("\n")


def _tensor_row(value: Value) -> tuple[str, str, str, str]:
    from qcgen.cli.table import size
    from qcgen.ir.types import DType

    known = value.dtype is not None and value.dtype is not DType.OTHER and value.fixed_shape is not None
    bytes_ = size(prod(value.fixed_shape or ()) * value.dtype.bytes) if known and value.dtype else ""
    dtype = "unknown type" if value.dtype is None else value.dtype.value
    shape = "unknown shape" if value.shape is None else "x".join("?" if d is None else str(d) for d in value.shape)
    return value.name, dtype, shape or "scalar", bytes_


def _json(args: argparse.Namespace, graph: Graph, found: Inspection) -> str:
    """The figures of a report, and what the model holds."""
    from qcgen.cli.options import compile_options

    flash = sum(node.constant_bytes for node in found.nodes)
    return json.dumps(
        {
            "model": args.model,
            "sha256": graph.sha256,
            "opsets": {domain or "ai.onnx": version for domain, version in graph.opsets.items()},
            "inputs": [_tensor_json(graph.value(name)) for name in graph.inputs],
            "outputs": [_tensor_json(graph.value(name)) for name in graph.outputs],
            "options": asdict(compile_options(args)),
            "whole": found.is_whole,
            "macs": sum(node.macs for node in found.nodes),
            "weights_bytes": flash,
            "flash_bytes": flash,
            "arena_bytes": found.arena_bytes,
            "nodes": [asdict(node) for node in found.nodes],
            "refused": [
                {"name": node.name, "op": node.operator, "problems": [asdict(problem) for problem in problems]}
                for node, problems in found.refused
            ],
        },
        indent=2,
    )


def _tensor_json(value: Value) -> dict[str, object]:
    return {"name": value.name, "type": value.dtype and value.dtype.value, "shape": value.shape and list(value.shape)}
