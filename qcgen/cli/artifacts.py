"""A model's file and the options of a command become compiled artifacts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.cli.options import by_name, compile_options
from qcgen.cli.terminal import counted, shown
from qcgen.compiler import compile_graph, read
from qcgen.errors import ModelRejected, Problem, printable
from qcgen.ir.graph import Graph
from qcgen.plan.names import node_names, prefix_of


def read_model(args: argparse.Namespace, model: str) -> Graph:
    """The model's graph, symbolic dimensions fixed, which prints what was assumed of it; raises ModelRejected."""
    graph = read(model, by_name(args, "dims"), dict(args.constants), args.outputs, args.batch)
    _print_notes(graph.notes)
    return graph


def _print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print(f"qcgen: {printable(note)}", file=sys.stderr)


def compiled(args: argparse.Namespace, model: str, graph: Graph) -> list[Artifact]:
    """The whole model, or its nodes that --node names, each once; raises ModelRejected with the problems of all."""
    nodes = list(dict.fromkeys(args.node))
    if len(nodes) > 1:
        return _each(args, model, graph, nodes)
    node = nodes[0] if nodes else None
    found = compile_graph(graph, compile_options(args), _prefix(args, model), Path(model).name, node, args.strict)
    _print_notes(note for note in found.notes if note not in graph.notes)
    return [found]


def compiled_together(args: argparse.Namespace, models: Sequence[str]) -> list[Artifact] | None:
    """Whole models, or their nodes that --node names, for one program; None if one is rejected, which is printed.

    Ends with a usage error if two would have the same name.
    """
    if args.name and len(models) > 1:
        args.usage_error("argument --name: it names a single model")
    artifacts: list[Artifact] = []
    rejected = False
    for model in models:
        try:
            with shown():
                artifacts += compiled(args, model, read_model(args, model))
        except ModelRejected as rejection:
            print_rejection(model, rejection)
            rejected = True
    prefixes = [artifact.plan.prefix.upper() for artifact in artifacts]
    if twice := [prefix for prefix in prefixes if prefixes.count(prefix) > 1]:
        args.usage_error(f"two models would be called {twice[0].lower()}: rename a file")
    return None if rejected else artifacts


def compiled_singly(args: argparse.Namespace, model: str, graph: Graph, node: str) -> Artifact:
    """One node of a model of which every node is looked at by itself; raises ModelRejected."""
    prefix = _node_prefixes(args, model, graph, [node])[0]
    return compile_graph(graph, compile_options(args), prefix, Path(model).name, node, args.strict)


def _each(args: argparse.Namespace, model: str, graph: Graph, nodes: Sequence[str]) -> list[Artifact]:
    artifacts: list[Artifact] = []
    problems: list[Problem] = []
    for node, prefix in zip(nodes, _node_prefixes(args, model, graph, nodes), strict=True):
        try:
            artifacts.append(compile_graph(graph, compile_options(args), prefix, Path(model).name, node, args.strict))
        except ModelRejected as rejection:
            problems += rejection.problems
    if problems:
        raise ModelRejected(dict.fromkeys(problems))
    return artifacts


def _prefix(args: argparse.Namespace, model: str) -> str:
    return args.name or prefix_of(Path(model).stem)


def _node_prefixes(args: argparse.Namespace, model: str, graph: Graph, nodes: Sequence[str]) -> list[str]:
    """PREFIX_NODE for each node, all of them different."""
    operators = {node.name: node.op_type for node in graph.nodes}
    prefix = _prefix(args, model)
    parts = node_names(((node, operators.get(node, "node")) for node in nodes), prefix)
    return [f"{prefix}_{part}" for part in parts]


def print_rejection(model: str, rejection: ModelRejected, what: str = "compiled") -> None:
    """The problems, on standard error."""
    print(f"{printable(model)} cannot be {what}: {counted(len(rejection.problems), 'problem')}", file=sys.stderr)
    print(rejection, file=sys.stderr)
