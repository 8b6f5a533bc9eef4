"""Builds the C for a core, runs it on the emulated core and counts its instructions, node by node.

The counts are exact and the same each time; cycles are estimated from a table, without wait states and for boards whose
flash is slower than the core. A model that cannot be compiled as a
whole is measured node by node, each that can be compiled alone.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from qcgen.cli.options import USUAL, add_compile_options, add_detail_options, add_options
from qcgen.cli.terminal import counted, number, percent, shown, size, table
from qcgen.cores import BOARDS, EMULATED, RISCV_CORES, boards_of
from qcgen.errors import ModelRejected, printable
from qcgen.options import COMPILER, FLAGS, FORCE, SEED, OneOf, Option, Switch, Text

if TYPE_CHECKING:
    from qcgen.artifact import Artifact
    from qcgen.emulate import Bound, Measurement, NodeBound, NodeCost
    from qcgen.ir.graph import Graph
    from qcgen.page import PageRun
    from qcgen.report import Fallback, Report

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
    from qcgen.cli.terminal import fitted
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
        print(_as_json(args.model, measurements, found))
    else:
        reports = [artifact.report for artifact in artifacts]
        flags = args.flags if args.compiler == COMPILER.kind.default else (args.compiler, *args.flags)
        lines = as_text(args.model, measurements, reports, found, flags, is_verbose=args.verbose).splitlines()
        print(fitted("\n".join(lines[-4:] if args.quiet else lines)))
    return 0


def _worst(args: argparse.Namespace) -> int:
    """Bounds the whole model, or the nodes that are named; 1 if one has no bound."""
    from qcgen.cli.artifacts import compiled, print_rejection, read_model
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
    print(_bounds_as_json(args.model, bounds) if args.json else _bounds_as_text(args.model, bounds))
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


# Measurements as text for people and as JSON.

_HEAD = (
    "node", "operator", "kernel", "multiply-adds", "instructions", "per MAC", "share", "est. cycles",
)  # fmt: skip
_SIZES = ("code", "constants", "flash", "scratch")
_NAMES = _HEAD[:3]
_SHOWN = ("node", "kernel", "instructions", "share", "est. cycles", "flash")


def as_text(
    model: str,
    measurements: Sequence[Measurement],
    reports: Sequence[Report],
    found: Sequence[Fallback],
    flags: Sequence[str],
    *,
    is_verbose: bool,
) -> str:
    """One line for each node, and one for what belongs to no node; what nodes fall back to; what comes of all.

    ``reports`` of the functions that were measured, built with ``flags``; ``is_verbose``: all columns, and sources.
    """
    from qcgen.cli.report_text import exactness, fallbacks

    first = measurements[0]
    head = (*_HEAD, *first.boards, *_SIZES)
    columns = [column for column, title in enumerate(head) if is_verbose or title in _SHOWN]
    rows = [[row[column] for column in columns] for row in _rows(measurements)]
    shown = [head[column] for column in columns]
    sources = [
        f"cycles: {_kind(first)} for memory without wait states; source: {first.table.source}",
        *(_board_line(measurements, board) for board in first.boards),
    ]
    return "\n".join(
        [
            f"{printable(model)} on an emulated {first.target}, built with: {shlex.join(first.command)}",
            "",
            table(shown, rows, head[3:], _NAMES),
            "",
            _total(measurements),
            *(sources if is_verbose else ()),
            *fallbacks(found),
            _flash(measurements, reports, flags),
            _ram(measurements, reports),
            _time(measurements),
            exactness(reports),
        ]
    )


def _flash(measurements: Sequence[Measurement], reports: Sequence[Report], flags: Sequence[str]) -> str:
    """As compile says it, where the same flags were taken; else of the image that ran."""
    constants = sum(report.constants_bytes for report in reports)
    if list(flags) == [USUAL] and all(report.flash_bytes is not None for report in reports):
        flash, library = sum(report.flash_bytes or 0 for report in reports), "the C library's part left out"
    else:
        flash, library = sum(each.flash_bytes for each in measurements), "the C library's part included"
    own = f"constants {size(constants)}, code {size(flash - constants)} with {printable(shlex.join(flags))}"
    return f"flash: {size(flash)}: {own}; {library}"


def _ram(measurements: Sequence[Measurement], reports: Sequence[Report]) -> str:
    """Of the call that needs the most."""
    from qcgen.page import parts_of_ram

    total, report, stack = max(
        (
            (report.ram_bytes + each.outcome.stack_bytes, report, each.outcome.stack_bytes)
            for each, report in zip(measurements, reports, strict=True)
        ),
        key=lambda found: found[0],
    )
    return f"RAM: {size(total)}: {parts_of_ram(report)}, stack {size(stack)}"


def _time(measurements: Sequence[Measurement]) -> str:
    boards = [BOARDS[name] for name in measurements[0].boards]
    times = [
        f"{sum(m.cycles_on(board.name) for m in measurements) / board.megahertz / 1e3:.2f} ms on {board.name}"
        for board in boards
    ]
    cycles = counted(sum(m.cycles for m in measurements), "cycle")
    return f"time: about {', '.join(times)}" if times else f"time: about {cycles} without wait states"


def _board_line(measurements: Sequence[Measurement], name: str) -> str:
    board = BOARDS[name]
    cycles = sum(m.cycles_on(name) for m in measurements)
    milliseconds = cycles / board.megahertz / 1e3
    return (
        f"{name} at {board.megahertz} MHz: about {counted(cycles, 'cycle')}, {milliseconds:.2f} ms; an estimate,"
        f" {counted(board.wait_states, 'wait state')} for {board.word_bytes} B of flash; source: {board.source}"
    )


def _rows(measurements: Sequence[Measurement]) -> list[tuple[str, ...]]:
    total = sum(measurement.instructions for measurement in measurements)
    nodes = [node for measurement in measurements for node in measurement.nodes]
    rows = [_row(node, total) for node in nodes]
    outside = [measurement.outside for measurement in measurements]
    instructions, cycles = sum(o.instructions for o in outside), sum(o.cycles for o in outside)
    share = percent(instructions, total)
    code = size(sum(o.code_bytes for o in outside))
    boards = [number(cycles + sum(o.waits[name] for o in outside)) for name in measurements[0].boards]
    rows.append(("calls", "", "", "", number(instructions), "", share, number(cycles), *boards, code, "", code, ""))
    library = sum(measurement.library_bytes for measurement in measurements)
    if library:
        rows.append(("shared code", *[""] * (len(_HEAD) + len(boards) - 1), size(library), "", size(library), ""))
    return rows


def _row(node: NodeCost, total: int) -> tuple[str, ...]:
    return (
        node.name,
        node.op,
        node.kernel,
        number(node.macs),
        number(node.instructions),
        per_mac(node.instructions, node.macs),
        percent(node.instructions, total),
        number(node.cycles),
        *(number(node.cycles + waits) for waits in node.waits.values()),
        size(node.code_bytes),
        size(node.constant_bytes),
        size(node.flash_bytes),
        size(node.scratch_bytes),
    )


def per_mac(count: int, macs: int) -> str:
    """Instructions or cycles for each multiply-accumulate.

    >>> per_mac(10, 3), per_mac(10, 0)
    ('3.33', '-')
    """
    return f"{count / macs:.2f}" if macs else "-"


def _kind(measurement: Measurement) -> str:
    return "an upper bound" if measurement.table.is_upper_bound else "an estimate"


def _total(measurements: Sequence[Measurement]) -> str:
    instructions, cycles = sum(m.instructions for m in measurements), sum(m.cycles for m in measurements)
    macs = sum(m.macs for m in measurements)
    bound = "at most about" if measurements[0].table.is_upper_bound else "about"
    return (
        f"total: {counted(instructions, 'instruction')} ({per_mac(instructions, macs)} per MAC), {bound}"
        f" {counted(cycles, 'cycle')} without wait states"
    )


def _as_json(model: str, measurements: Sequence[Measurement], found: Sequence[Fallback]) -> str:
    """All figures; ``functions`` has one entry, or one for each node that was measured by itself."""
    first = measurements[0]
    document = {
        "model": model,
        "target": first.target,
        "cycles_source": first.table.source,
        "instructions": sum(m.instructions for m in measurements),
        "estimated_cycles": sum(m.cycles for m in measurements),
        "boards": [_board(measurements, name) for name in first.boards],
        "macs": sum(m.macs for m in measurements),
        "fallbacks": [asdict(each) for each in found],
        "functions": [_function(m) for m in measurements],
    }
    return json.dumps(document, indent=2)


def _board(measurements: Sequence[Measurement], name: str) -> dict[str, object]:
    board = BOARDS[name]
    return {
        "name": name,
        "megahertz": board.megahertz,
        "wait_states": board.wait_states,
        "flash_word_bytes": board.word_bytes,
        "source": board.source,
        "estimated_cycles": sum(m.cycles_on(name) for m in measurements),
    }


def _function(measurement: Measurement) -> dict[str, object]:
    return {
        "command": shlex.join(measurement.command),
        "instructions": measurement.instructions,
        "estimated_cycles": measurement.cycles,
        "board_cycles": {name: measurement.cycles_on(name) for name in measurement.boards},
        "macs": measurement.macs,
        "flash_bytes": measurement.flash_bytes,
        "shared_code_bytes": measurement.library_bytes,
        "arena_bytes": measurement.arena_bytes,
        "stack_bytes": measurement.outcome.stack_bytes,
        "call_instructions": measurement.outside.instructions,
        "nodes": [_node(node, measurement.instructions) for node in measurement.nodes],
    }


def _node(node: NodeCost, total: int) -> dict[str, object]:
    return {
        "name": node.name,
        "op": node.op,
        "kernel": node.kernel,
        "macs": node.macs,
        "instructions": node.instructions,
        "instructions_per_mac": node.instructions / node.macs if node.macs else None,
        "share": node.instructions / total,
        "estimated_cycles": node.cycles,
        "board_cycles": {name: node.cycles + waits for name, waits in node.waits.items()},
        "code_bytes": node.code_bytes,
        "constant_bytes": node.constant_bytes,
        "flash_bytes": node.flash_bytes,
        "scratch_bytes": node.scratch_bytes,
    }


# Bounds of the instructions of a call as text for people and as JSON.

_BOUNDS_HEAD = ("node", "kernel", "least", "most", "why there is no bound")


def _bounds_as_text(model: str, bounds: Sequence[Bound]) -> str:
    """One line for each node, then what holds for a call of each function."""
    first = bounds[0]
    rows = [(node.name, node.kernel, *_range(node), node.obstacle) for each in bounds for node in each.nodes]
    lines = [f"{printable(model)} on {first.target}, built with: {shlex.join(first.command)}", ""]
    lines += [table(_BOUNDS_HEAD, rows, _BOUNDS_HEAD[2:4], _BOUNDS_HEAD[:2]), "", *(_sentence(each) for each in bounds)]
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


def _bounds_as_json(model: str, bounds: Sequence[Bound]) -> str:
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
