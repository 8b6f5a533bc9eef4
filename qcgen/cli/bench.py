"""Builds the C for a core, runs it on the emulated core and counts its instructions, node by node.

The counts are exact and the same each time; cycles are estimated from a table, without wait states and for boards whose
flash is slower than the core. A model that cannot be compiled as a
whole is measured node by node, each that can be compiled alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qcgen.cli.options import USUAL, add_compile_options, add_detail_options, add_options
from qcgen.cli.progress import shown
from qcgen.cores import BOARDS, EMULATED, RISCV_CORES, boards_of
from qcgen.errors import ModelRejected
from qcgen.options import COMPILER, FLAGS, FORCE, SEED, OneOf, Option, Switch, Text

if TYPE_CHECKING:
    from qcgen.artifact import Artifact
    from qcgen.emulate import Measurement
    from qcgen.ir.graph import Graph
    from qcgen.page import PageRun
    from qcgen.report import Fallback

SUMMARY = "count instructions on an emulated core"


OWN = (
    Option("report", Text(), "--report", "FILE.html",
        "write the report of compile --report html, too, with time and instructions of each node, and the stack"),
    FORCE,
    replace(SEED, help="of the random input (default: %(default)s)"),
    Option("board", OneOf(tuple(BOARDS)), "--board", "",
        "whose waits for flash are modelled (default: all of the core's)"),
    Option("core", OneOf(tuple(RISCV_CORES)), "--core", "",
        "the core of rv32imc whose cycles are estimated (default: ibex)"),
    Option("worst", Switch(), "--worst", "",
        "the fewest and the most instructions of a call, whatever its input; nodes without a bound are named"),
    replace(COMPILER, help="which compiles the C (default: %(default)s)"),
    replace(FLAGS, kind=Text(USUAL), help=f"flags for the C compiler, in one argument (default: {USUAL})"),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="MODEL")
    add_compile_options(parser)
    add_detail_options(parser)
    add_options(parser, OWN)


def run(args: argparse.Namespace) -> int:
    """Measures everything, then prints it; returns the exit status."""
    if args.target not in EMULATED:
        args.usage_error(f"argument --target: there is no emulated core for {args.target}: use {', '.join(EMULATED)}")
    try:
        boards = boards_of(args.target, args.board)
    except ValueError as error:
        args.usage_error(f"argument --board: {error}")
    if args.core and args.target != "rv32imc":
        args.usage_error(f"argument --core: {args.core} runs code of rv32imc, not of {args.target}")
    if args.worst:
        return _worst(args)
    from qcgen.cli.artifacts import print_rejection
    from qcgen.cli.bench_text import as_json, as_text
    from qcgen.cli.table import fitted
    from qcgen.emulate import measure, random_feeds

    try:
        artifacts = _subjects(args)
    except ModelRejected as rejection:
        print_rejection(args.model, rejection)
        return 1
    with shown():
        measurements = [
            measure(
                artifact,
                random_feeds(artifact.plan, args.seed),
                flags=args.flags,
                compiler=args.compiler,
                boards=boards,
                table=RISCV_CORES.get(args.core),
            )
            for artifact in artifacts
        ]
    if args.report:
        _write_page(args, artifacts[0], measurements[0])
    found = _fallbacks(artifacts, measurements)
    if args.json:
        print(as_json(args.model, measurements, found))
    else:
        reports = [artifact.report for artifact in artifacts]
        flags = args.flags if args.compiler == COMPILER.kind.default else (args.compiler, *args.flags)
        lines = as_text(args.model, measurements, reports, found, flags, is_verbose=args.verbose).splitlines()
        print(fitted("\n".join(lines[-4:] if args.quiet else lines)))
    return 0


def _worst(args: argparse.Namespace) -> int:
    """Bounds the whole model, or the nodes that are named; 1 if one has no bound."""
    from qcgen.cli.artifacts import compiled, print_rejection, read_model
    from qcgen.cli.bench_text import bounds_as_json, bounds_as_text
    from qcgen.emulate import BOUNDED, bound, end_feeds

    if args.target not in BOUNDED:
        args.usage_error(f"argument --worst: code for {args.target} is not followed: use {', '.join(BOUNDED)}")
    try:
        with shown():
            artifacts = compiled(args, args.model, read_model(args, args.model))
    except ModelRejected as rejection:
        print_rejection(args.model, rejection)
        return 1
    with shown():
        bounds = [
            bound(each, end_feeds(each.plan, args.seed), flags=args.flags, compiler=args.compiler) for each in artifacts
        ]
    print(bounds_as_json(args.model, bounds) if args.json else bounds_as_text(args.model, bounds))
    return int(any(each.most is None for each in bounds))


def _fallbacks(artifacts: Sequence[Artifact], measurements: Sequence[Measurement]) -> tuple[Fallback, ...]:
    """Of a model that was measured as a whole; what moves tensors was not counted by itself and is estimated."""
    from qcgen.fallbacks import Costs, fallbacks
    from qcgen.plan.prices import cycles_of_moves

    if len(artifacts) > 1:
        return ()
    [artifact], [measured] = artifacts, measurements
    nodes = {node.name: (float(node.flash_bytes), float(node.cycles)) for node in measured.nodes}
    moves = cycles_of_moves((*artifact.plan.moves, *artifact.plan.state_moves))
    costs = Costs(nodes, measured.flash_bytes, measured.cycles, moves, is_measured=True)
    return fallbacks(artifact.planned, artifact.plan, costs)


def _write_page(args: argparse.Namespace, artifact: Artifact, measurement: Measurement) -> None:
    """Of the model, or of the first of the nodes that are measured by themselves."""
    from qcgen.page import page
    from qcgen.write import write_files

    text = page(artifact.report, _run(measurement))
    path = Path(args.report)
    write_files(path.parent, {path.name: text}, force=args.force)


def _run(measured: Measurement) -> PageRun:
    """What the page shows of a call, on the first board that was modelled."""
    from qcgen.page import PageRun

    board = BOARDS[measured.boards[0]] if measured.boards else None
    return PageRun(
        where=f"{board.name} at {board.megahertz} MHz" if board else f"{measured.target}, without wait states",
        megahertz=board.megahertz if board else None,
        instructions={node.name: node.instructions for node in measured.nodes},
        cycles={node.name: node.cycles + (node.waits[board.name] if board else 0) for node in measured.nodes},
        all_instructions=measured.instructions,
        all_cycles=measured.cycles_on(board.name) if board else measured.cycles,
        stack_bytes=measured.outcome.stack_bytes,
    )


def _subjects(args: argparse.Namespace) -> list[Artifact]:
    """The whole model, the nodes that --node names, or every node that can be compiled alone; at least one."""
    from qcgen.cli.artifacts import compiled, read_model

    with shown():
        graph = read_model(args, args.model)
    try:
        with shown():
            return compiled(args, args.model, graph)
    except ModelRejected:
        if args.node or len(graph.nodes) < 2:
            raise
        with shown():
            alone = _singly(args, graph)
        if not alone:
            raise
        what = f"measured are {len(alone)} of {len(graph.nodes)} nodes, each by itself"
        print(f"{args.model} cannot be compiled as a whole: {what}", file=sys.stderr)
        return alone


def _singly(args: argparse.Namespace, graph: Graph) -> list[Artifact]:
    from qcgen.cli.artifacts import compiled_singly

    artifacts = []
    for node in graph.nodes:
        try:
            artifacts.append(compiled_singly(args, args.model, graph, node.name))
        except ModelRejected:
            continue
    return artifacts
