"""qcgen verify --serial: models whose code runs on a board."""

from __future__ import annotations

import argparse
import json
import shlex
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from qcgen.cli.options import OptionsParser, WrongOptions, add_code_options, compile_options
from qcgen.cli.terminal import counted, number, shown, table
from qcgen.cli.verify_text import PASS, differ, judges, verdict
from qcgen.errors import BoardFailed, ModelRejected, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qcgen.artifact import Artifact
    from qcgen.verification.on_board import BoardVerification, Identity, Link


MOST_COMPILED = 8
"""How many networks of a firmware are compiled to find the one that is meant."""


@dataclass(frozen=True)
class OnBoard:
    """A model whose code ran on the board."""

    model: str
    identity: Identity
    verification: BoardVerification


def run_on_board(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Verifies every model on the board, prints as it goes; returns the exit status. ``parser`` is the command's."""
    from qcgen.cli.artifacts import print_rejection
    from qcgen.verification.on_board import Link, networks, opened

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
                    print(text(args.serial, verified[-1]), flush=True)
    is_right = not rejected and all(each.verification.is_right for each in verified)
    last = verdict(is_right, (each.verification.judge for each in verified))
    print(_json(args.serial, verified, rejected, last == PASS) if args.json else last)
    return 0 if last == PASS else 1


def _verified(
    args: argparse.Namespace,
    parser: argparse.ArgumentParser,
    link: Link,
    model: str,
    identities: Sequence[Identity],
) -> OnBoard:
    from qcgen.cli.artifacts import read_model
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


def text(port: str, subject: OnBoard) -> str:
    """A verification for people."""
    verification, nodes = subject.verification, len(subject.verification.times)
    rows = [(each.group, number(each.cases), differ(each)) for each in verification.outcomes]
    parts = [
        f"{printable(subject.model)} on the board at {printable(port)}, {counted(nodes, 'node')}",
        f"firmware: {printable(subject.identity.options)}",
        f"reference: the arithmetic of {verification.reference}",
        table(("inputs", "cases", "result"), rows, right=("cases",)),
        *_skipped(verification),
        _times(verification),
        *_differences(verification),
        *judges([verification.judge]),
        f"total: {number(verification.differing)} of {number(verification.outputs)} outputs differ"
        f" ({counted(verification.cases, 'case')})",
    ]
    return "\n".join(parts)


def _skipped(verification: BoardVerification) -> list[str]:
    if not verification.skipped:
        return []
    names = ", ".join(map(printable, verification.skipped))
    return [f"not compared, as either of two codes is right: {names}"]


def _times(verification: BoardVerification) -> str:
    total = sum(each.ticks for each in verification.times)
    rows = [
        (each.node, number(each.ticks), f"{each.ticks / total:.1%}" if total else "-") for each in verification.times
    ]
    rows.append(("all", number(total), ""))
    return table(("node", "ticks", "share"), rows, right=("ticks", "share"), names=("node",))


def _differences(verification: BoardVerification) -> list[str]:
    """What differs, the first node or output of each kind; or how many hashes were the reference's."""
    wrong, first, nodes = verification.wrong, verification.first, len(verification.times)
    found = []
    if first is not None:
        found.append(f"first difference: {printable(str(first))}")
    if wrong is not None:
        where = f"of {wrong.group} case {wrong.case}"
        found.append(f"first node that differs: {printable(wrong.node)} ({wrong.operator}), {where}")
    else:
        hashed = verification.hashed
        rest = "" if hashed == nodes else f"; of {counted(nodes - hashed, 'float node')} only the tables"
        found.append(f"hashes: none differs; compared are the tables and outputs of {counted(hashed, 'node')}{rest}")
    return found


def _json(port: str, verified: Sequence[OnBoard], rejected: Sequence[str], passed: bool) -> str:
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
