"""Builds the C, runs it and compares it with the reference.

Code for the portable target runs on this machine, code for another one on its emulated core; with --host, on this
machine, too, in its portable meaning.

The model file itself is run on the same inputs, by onnxruntime where it is installed, else by onnx's reference
evaluator; a .tflite file by TensorFlow Lite Micro (the package tflite-micro). --oracle names the judge.

The inputs are random ones, extremes, those that drive accumulators to both ends of their intervals, and with --data
recorded ones. A model is verified as a whole; with --each every convolution of it is, by itself. The reference is not
simplified. If outputs differ, the first node that does is named.

Then every layer with integer sums is called by itself, in the places that it has in the network: every coefficient of
its sums is measured, and sums are driven to both sides of every step of the output codes. All other output steps are
driven to both sides as well, to ties and next to them. --no-sums leaves that out.

With --serial a board runs the code, whose firmware qcgen example made: it gets the inputs, and gives outputs, a hash of
what each node wrote, and each node's time. Options that chose the code are the firmware's.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from qcgen.cli.options import (
    OptionsParser,
    WrongOptions,
    add_code_options,
    add_compile_options,
    add_detail_options,
    add_options,
    compile_options,
)
from qcgen.cli.terminal import fitted, shown
from qcgen.cores import EMULATED
from qcgen.errors import BoardFailed, ModelRejected, printable
from qcgen.options import OF_VERIFY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qcgen.artifact import Artifact
    from qcgen.cli.verify_text import OnBoard, Verified
    from qcgen.ir.graph import Graph
    from qcgen.verification.on_board import Identity, Link

SUMMARY = "compare the generated C with the reference, and with the model file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("models", metavar="MODEL", nargs="+")
    add_compile_options(parser)
    add_detail_options(parser)
    add_options(parser, OF_VERIFY)


def run(args: argparse.Namespace) -> int:
    """Verifies every model, prints as it goes; returns the exit status."""
    if len(args.models) > 1 and (args.data or args.name or args.node):
        args.usage_error("--data, --name and --node are for a single model")
    if args.each and args.node:
        args.usage_error("--each takes all convolutions, --node some: give one of the two")
    from qcgen.verification import RecordingError

    try:
        return _run(args) if args.serial is None else _run_on_board(args)
    except RecordingError as error:
        print(f"qcgen: {error}", file=sys.stderr)
        return 1


def _run(args: argparse.Namespace) -> int:
    from qcgen.cli.verify_text import PASS, totals, verdict

    verified: list[Verified] = []
    rejected: list[str] = []
    for model in args.models:
        try:
            with shown():
                artifacts, rejections = _subjects(args, model)
        except ModelRejected as rejection:
            artifacts, rejections = [], [rejection]
        verified += _verify_all(args, model, artifacts)
        rejected += [model] * len(rejections)
        _print_rejections(model, rejections)
    is_right = not rejected and all(subject.verification.is_right for subject in verified)
    last = verdict(is_right, (subject.verification.judge for subject in verified))
    if args.json:
        print(_json(verified, rejected, last == PASS))
    elif verified:
        print(fitted(last if args.quiet else f"{totals(verified)}\n{last}"))
    return 0 if last == PASS else 1


def _subjects(args: argparse.Namespace, model: str) -> tuple[list[Artifact], list[ModelRejected]]:
    """What is to be verified of a model, and the convolutions among it that cannot be compiled."""
    from qcgen.cli.artifacts import compiled, read_model
    from qcgen.geometry import spelling_of

    graph = read_model(args, model)
    convolutions = [node.name for node in graph.nodes if spelling_of(node) is not None]
    if args.each and convolutions:
        return _singly(args, model, graph, convolutions)
    return compiled(args, model, graph), []


def _singly(
    args: argparse.Namespace, model: str, graph: Graph, nodes: list[str]
) -> tuple[list[Artifact], list[ModelRejected]]:
    from qcgen.cli.artifacts import compiled_singly

    artifacts, rejections = [], []
    for node in nodes:
        try:
            artifacts.append(compiled_singly(args, model, graph, node))
        except ModelRejected as rejection:
            rejections.append(rejection)
    return artifacts, rejections


def _print_rejections(model: str, rejections: list[ModelRejected]) -> None:
    from qcgen.cli.artifacts import print_rejection

    if rejections:
        sys.stdout.flush()
        print_rejection(model, ModelRejected(dict.fromkeys(p for rejection in rejections for p in rejection.problems)))


def _verify_all(args: argparse.Namespace, model: str, artifacts: list[Artifact]) -> Iterator[Verified]:
    from qcgen.cli.verify_text import Verified, detail, line, title
    from qcgen.verification import verify

    is_alone = len(args.models) == 1 and len(artifacts) == 1
    width = max((len(title(_node(artifact), artifact.report.nodes)) for artifact in artifacts), default=0)
    if artifacts and not is_alone and not (args.json or args.quiet):
        print(f"{printable(model)}:")
    options = {"seed": args.seed, "cases": args.cases, "data": args.data, "flags": args.flags}
    options |= {"emulated": args.target in EMULATED and not args.host, "compiler": args.compiler}
    options |= {"sums": args.sums, "oracle": args.oracle}
    for artifact in artifacts:
        with shown():
            result = verify(artifact, **options)
        subject = Verified(model, _node(artifact), artifact.report.nodes, result)
        if not (args.json or args.quiet):
            print(fitted(detail(subject) if is_alone else line(subject, width)), flush=True)
        yield subject


def _node(artifact: Artifact) -> str | None:
    """The node that an artifact is of; None for a network."""
    return artifact.program.operators[0].name if len(artifact.program.operators) == 1 else None


def _json(verified: list[Verified], rejected: list[str], passed: bool) -> str:
    from qcgen.cli.report_text import forms

    nodes = [
        {
            "model": subject.model,
            "node": subject.node,
            "cases": subject.verification.cases,
            "outputs": subject.verification.outputs,
            "differing": subject.verification.differing,
            "requantize": forms(subject.reports),
            **asdict(subject.verification),
        }
        for subject in verified
    ]
    every = [node for subject in verified for node in subject.reports]
    totals = {key: sum(getattr(s.verification, key) for s in verified) for key in ("cases", "outputs", "differing")}
    return json.dumps(
        {"passed": passed, **totals, "requantize": forms(every), "rejected": rejected, "nodes": nodes}, indent=2
    )


# Models whose code runs on a board.

MOST_COMPILED = 8
"""How many networks of a firmware are compiled to find the one that is meant."""


def _run_on_board(args: argparse.Namespace) -> int:
    from qcgen.cli.artifacts import print_rejection
    from qcgen.cli.verify_text import PASS, board_detail, verdict
    from qcgen.verification.on_board import Link, networks, opened

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_arguments(parser)
    without = ("each", "host", "compiler", "flags", "sums")
    if any(getattr(args, name) != parser.get_default(name) for name in without):
        args.usage_error("--each, --host, --compiler, --cflags and --no-sums are not for a board")
    if not args.baud:
        args.usage_error("argument --baud: 0 is not a speed")
    verified: list[OnBoard] = []
    rejected: list[str] = []
    with opened(args.serial, args.baud) as line:
        link = Link(line, args.baud)
        with shown():
            identities = networks(link)
        for model in args.models:
            try:
                with shown():
                    verified.append(_verified(args, parser, link, model, identities))
            except ModelRejected as rejection:
                rejected.append(model)
                print_rejection(model, rejection)
            else:
                if not (args.json or args.quiet):
                    print(board_detail(args.serial, verified[-1]), flush=True)
    is_right = not rejected and all(each.verification.is_right for each in verified)
    last = verdict(is_right, (each.verification.judge for each in verified))
    print(_board_json(args.serial, verified, rejected, last == PASS) if args.json else last)
    return 0 if last == PASS else 1


def _verified(
    args: argparse.Namespace,
    parser: argparse.ArgumentParser,
    link: Link,
    model: str,
    identities: Sequence[Identity],
) -> OnBoard:
    from qcgen.cli.artifacts import read_model
    from qcgen.cli.verify_text import OnBoard
    from qcgen.verification.on_board import require_same, verify_on_board

    graph = read_model(args, model)
    same = require_same(link, model, graph.sha256, identities)
    identity, artifact = _made(args, parser, link, model, same)
    options = {"seed": args.seed, "cases": args.cases, "data": args.data, "patience": float(args.timeout)}
    options |= {"oracle": args.oracle}
    return OnBoard(model, identity, verify_on_board(link, identity, artifact, **options))


def _made(
    args: argparse.Namespace,
    parser: argparse.ArgumentParser,
    link: Link,
    model: str,
    identities: Sequence[Identity],
) -> tuple[Identity, Artifact]:
    """The network of the firmware that was made with the options given, and what this qcgen makes of the model so.

    BoardFailed if none of the first MOST_COMPILED that may be it is.
    """
    from qcgen.cli.artifacts import compiled, read_model
    from qcgen.render import header_id
    from qcgen.verification.on_board import made_otherwise

    every = ((each, _with_told(args, parser, _told(link, each))) for each in identities)
    fitting = ((each, own) for each, own in every if own is not None)
    for identity, own in islice(fitting, MOST_COMPILED):
        [found] = compiled(own, model, read_model(own, model))
        artifact = found.with_self_test()
        if identity.id == header_id(artifact.plan, artifact.files):
            return identity, artifact
    raise made_otherwise(link, identities[0], Path(model).name)


def _told(link: Link, identity: Identity) -> argparse.Namespace:
    """The options of a network of the firmware; BoardFailed for any but those that choose the code."""
    parser = OptionsParser()
    add_code_options(parser)
    try:
        told = parser.parse_args(shlex.split(identity.options))
        told.usage_error = parser.error
        compile_options(told)
    except (WrongOptions, ValueError) as error:
        raise BoardFailed(f"{link.name}: its firmware tells options that it may not, or wrong ones: {error}") from None
    if len(told.node) > 1:
        raise BoardFailed(f"{link.name}: its firmware tells of {len(told.node)} nodes in one network")
    return told


def _with_told(
    args: argparse.Namespace, parser: argparse.ArgumentParser, told: argparse.Namespace
) -> argparse.Namespace | None:
    """The command line's options, the others as the firmware was made; None if it was made with others than given."""
    own = argparse.Namespace(**vars(told))
    for name in ("node", "outputs", "rename"):
        if getattr(args, name):
            setattr(own, name, [])  # or those given would be added to those told
    parser.parse_args(args.words, own)
    if any(getattr(own, name) != value for name, value in vars(told).items()):
        return None
    own.usage_error = args.usage_error
    return own


def _board_json(port: str, verified: Sequence[OnBoard], rejected: Sequence[str], passed: bool) -> str:
    models = [
        {
            "model": each.model,
            "firmware": asdict(each.identity),
            "cases": each.verification.cases,
            "outputs": each.verification.outputs,
            "differing": each.verification.differing,
            **asdict(each.verification),
        }
        for each in verified
    ]
    return json.dumps({"passed": passed, "port": port, "rejected": list(rejected), "models": models}, indent=2)
