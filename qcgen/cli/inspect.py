"""Shows what a model holds and what each node becomes: kernel, sizes, certificate; writes nothing.

A model that cannot be compiled as a whole is shown node by node: each that can be compiled alone with what it becomes,
the others with the reason.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING

from qcgen.cli.options import add_compile_options, add_detail_options
from qcgen.errors import ModelRejected, Problem

if TYPE_CHECKING:
    from qcgen.ir.graph import Graph, Node, Value
    from qcgen.ir.plan import FlashUse
    from qcgen.report import Figures, NodeReport, Report

SUMMARY = "show what a model holds and what its nodes become"


@dataclass(frozen=True)
class Inspection:
    """``reports`` of what can be compiled; ``refused`` the other nodes with all their problems.

    ``is_whole``: the model is compiled as one function; otherwise each node by itself, unless --node chose, because of
    the ``problems`` of the whole. ``curve``: what --flash chose from, of one function; none without a budget.
    """

    is_whole: bool
    reports: tuple[Report, ...]
    refused: tuple[tuple[Node, tuple[Problem, ...]], ...] = ()
    problems: tuple[Problem, ...] = ()
    curve: tuple[FlashUse, ...] = ()

    @property
    def nodes(self) -> tuple[NodeReport, ...]:
        """All that can be compiled."""
        return tuple(node for report in self.reports for node in report.nodes)

    @property
    def arena_lower_bound(self) -> int:
        """Of the function that needs the most."""
        return max(report.arena_lower_bound_bytes for report in self.reports)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="MODEL")
    add_compile_options(parser)
    add_detail_options(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the inspection; returns the exit status."""
    from qcgen.cli.artifacts import print_rejection, read_model
    from qcgen.cli.terminal import fitted

    try:
        graph = read_model(args, args.model)
        found = _inspect(args, graph)
    except ModelRejected as rejection:
        print_rejection(args.model, rejection)
        return 1
    print(_json(args, graph, found) if args.json else fitted(_text(args, graph, found)))
    return 0


def _inspect(args: argparse.Namespace, graph: Graph) -> Inspection:
    """Whole if that is possible or --node chose; else node by node, unless no node can be compiled."""
    from qcgen.cli.artifacts import compiled

    try:
        artifacts = compiled(args, args.model, graph)
    except ModelRejected as rejection:
        if args.node or len(graph.nodes) < 2:
            raise
        found = _singly(args, graph, rejection.problems)
        if not found.reports:
            raise
        return found
    curve = artifacts[0].flash_curve if args.flash is not None and len(artifacts) == 1 else ()
    return Inspection(not args.node, tuple(artifact.report.with_code(None) for artifact in artifacts), curve=curve)


def _singly(args: argparse.Namespace, graph: Graph, problems: tuple[Problem, ...]) -> Inspection:
    from qcgen.cli.artifacts import compiled_singly

    reports: list[Report] = []
    refused: list[tuple[Node, tuple[Problem, ...]]] = []
    for node in graph.nodes:
        try:
            reports.append(compiled_singly(args, args.model, graph, node.name).report.with_code(None))
        except ModelRejected as rejection:
            refused.append((node, rejection.problems))
    return Inspection(False, tuple(reports), tuple(refused), problems)


def _total(each: Iterable[Figures]) -> Figures:
    """Functions together: the arena is shared, so the largest counts."""
    from qcgen.report import Figures

    every = list(each)
    arena = max(figures.arena_bytes for figures in every)
    return Figures(sum(f.macs for f in every), sum(f.weights_bytes for f in every), arena)


def _text(args: argparse.Namespace, graph: Graph, found: Inspection) -> str:
    from qcgen.cli.report_text import flash_curve, joined, nearest, node_table, overlaps, packed, rejected, shared
    from qcgen.cli.terminal import counted, table
    from qcgen.errors import printable

    if args.quiet:
        return _totals(found)
    parts = [f"{printable(args.model)}, sha256 {graph.sha256}", _holdings(graph)]
    if found.problems:
        count = counted(len(found.problems), "problem")
        parts.append(f"it cannot be compiled as a whole: {count}\n{ModelRejected(found.problems)}")
    if not found.is_whole:
        parts.append(f"{counted(len(found.nodes), 'node')} compiled, each by itself (compile takes them with --node):")
    parts.append(node_table(found.nodes, is_verbose=args.verbose))
    parts.append(rejected(found.nodes) if args.verbose else nearest(found.nodes))
    parts += filter(None, (joined(found.nodes), packed(found.nodes), shared(found.nodes)))
    if found.is_whole and args.verbose:
        parts.append(overlaps(found.nodes))
    if found.refused:
        head = f"{counted(len(found.refused), 'node')} that cannot be compiled:\n"
        rows = [(node.name, node.operator, _reason(problems)) for node, problems in found.refused]
        parts.append(head + table(("node", "operator", "reason"), rows, names=("node", "operator")))
    if found.curve:
        parts.append(flash_curve(found.curve))
    parts.append(_totals(found))
    return "\n\n".join(parts)


def _totals(found: Inspection) -> str:
    """All figures, with and without simplification."""
    from qcgen.cli.report_text import (
        bound,
        budget,
        fallbacks,
        figures,
        growth,
        kept_rows,
        ram,
        saved,
        slow_memory,
        stretch,
        twice,
    )

    lines = [f"total: {figures(_total(report.figures for report in found.reports))}"]
    if len(found.reports) == 1:
        lines += filter(None, [budget(found.reports[0])])
    if found.is_whole and len(found.nodes) > 1:
        [report] = found.reports
        lines.append(ram(report))
        lines += filter(
            None,
            [
                kept_rows(report),
                twice(report),
                slow_memory(report),
                growth(report),
                bound(report),
                saved(report) or "without simplification: the same",
            ],
        )
        lines += filter(None, [stretch(report)])
        lines += fallbacks(report.fallbacks)
    return "\n".join(lines)


def _reason(problems: tuple[Problem, ...]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return problems[0].what + more


def _kept(graph: Graph) -> set[str]:
    """The inputs and outputs that stay from call to call."""
    from qcgen.tflite import TfliteGraph

    states = graph.states if isinstance(graph, TfliteGraph) else ()
    return {name for state in states for name in (state.read, state.written)}


def _holdings(graph: Graph) -> str:
    """Opsets, operators, inputs, states and outputs."""
    from qcgen.cli.terminal import counted, table

    used = {"tflite", *(node.domain for node in graph.nodes)}  # exporters import a dozen domains that no node is of
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in graph.opsets.items() if domain in used)
    operators = Counter(node.operator for node in graph.nodes)
    rows = [("opsets", opsets, "", "", "")]
    rows += [(counted(count, "node"), operator, "", "", "") for operator, count in operators.items()]
    kept = _kept(graph)
    rows += [("state" if name in kept else "input", *_tensor_row(graph.value(name))) for name in graph.inputs]
    rows += [("output", *_tensor_row(graph.value(name))) for name in graph.outputs if name not in kept]
    return table(("", "", "", "", ""), rows, names=("",)).lstrip("\n")


def _tensor_row(value: Value) -> tuple[str, str, str, str]:
    from qcgen.cli.terminal import size
    from qcgen.ir.types import DType

    known = value.dtype is not None and value.dtype is not DType.OTHER and value.fixed_shape is not None
    bytes_ = size(prod(value.fixed_shape or ()) * value.dtype.bytes) if known and value.dtype else ""
    dtype = "unknown type" if value.dtype is None else value.dtype.value
    shape = "unknown shape" if value.shape is None else "x".join("?" if d is None else str(d) for d in value.shape)
    return value.name, dtype, shape or "scalar", bytes_


def _json(args: argparse.Namespace, graph: Graph, found: Inspection) -> str:
    """The figures of a report, and what the model holds."""
    from qcgen.cli.options import compile_options

    own, kept = _total(report.figures for report in found.reports), _kept(graph)
    report = found.reports[0]
    return json.dumps(
        {
            "model": args.model,
            "sha256": graph.sha256,
            "opsets": {domain or "ai.onnx": version for domain, version in graph.opsets.items()},
            "inputs": [_tensor_json(graph.value(name)) for name in graph.inputs if name not in kept],
            "outputs": [_tensor_json(graph.value(name)) for name in graph.outputs if name not in kept],
            "states": [_tensor_json(graph.value(name)) for name in graph.inputs if name in kept],
            "options": asdict(compile_options(args)),
            "whole": found.is_whole,
            "macs": own.macs,
            "weights_bytes": own.weights_bytes,
            "constants_bytes": own.weights_bytes,
            "flash_bytes": None,  # nothing is built
            "flash": report.flash and asdict(report.flash) if len(found.reports) == 1 else None,
            "flash_curve": [asdict(point) for point in found.curve],
            "arena_bytes": own.arena_bytes,
            "arena_lower_bound_bytes": found.arena_lower_bound,
            "arena_growth": report.arena_growth and asdict(report.arena_growth) if len(found.reports) == 1 else None,
            "longest_stretch": report.longest_stretch and asdict(report.longest_stretch) if found.is_whole else None,
            "unsimplified": asdict(_total(report.unsimplified for report in found.reports)),
            "nodes": [asdict(node) for node in found.nodes],
            "fallbacks": [asdict(each) for report in found.reports for each in report.fallbacks],
            "refused": [
                {"name": node.name, "op": node.operator, "problems": [asdict(problem) for problem in problems]}
                for node, problems in found.refused
            ],
            "problems": [asdict(problem) for problem in found.problems],
        },
        indent=2,
    )


def _tensor_json(value: Value) -> dict[str, object]:
    return {"name": value.name, "type": value.dtype and value.dtype.value, "shape": value.shape and list(value.shape)}
