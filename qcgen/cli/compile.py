"""Compiles a model, some of its nodes, or the models of qcgen.toml to C; prints sizes, kernels and certificates."""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from qcgen.chips import target_on
from qcgen.cli.options import OptionsParser, WrongOptions, add_compile_options, add_detail_options, add_options
from qcgen.cli.terminal import shown
from qcgen.errors import ModelRejected
from qcgen.options import GROUPS, OF_COMPILE, Option

if TYPE_CHECKING:
    from qcgen.artifact import Artifact
    from qcgen.report import Report

SUMMARY = "turn a model into C"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="without it, the models of qcgen.toml are compiled",
    )
    add_compile_options(parser)
    add_detail_options(parser)
    add_options(parser, OF_COMPILE)


@dataclass(frozen=True)
class _Compiled:
    """A model, or some of its nodes, as the arguments ask for it."""

    args: argparse.Namespace
    artifacts: list[Artifact]
    reports: list[Report]

    @property
    def files(self) -> dict[str, str | bytes]:
        """What is to be written, by paths."""
        each = zip(self.artifacts, self.reports, strict=True)
        named = {name: text for artifact, report in each for name, text in _files(artifact, report, self.args).items()}
        return {str(self.args.folder / name): text for name, text in named.items()}


def run(args: argparse.Namespace) -> int:
    """Writes the files of all models and nodes together, then prints the reports; returns the exit status."""
    from qcgen.cli.terminal import fitted
    from qcgen.write import write_files

    results = [_compiled(each) for each in _models(args)]
    compiled = [each for each in results if each is not None]
    if len(compiled) < len(results):
        return 1
    files: dict[str, str | bytes] = {}
    for each in compiled:
        if twice := files.keys() & each.files.keys():
            each.args.usage_error(f"two models would be written to {min(twice)}: give one another name or folder")
        files |= each.files
    if args.check:
        return _check(files)
    folder = Path(os.path.commonpath([Path(path).parent for path in files]))
    write_files(folder, {os.path.relpath(path, folder): text for path, text in files.items()}, force=args.force)
    reports = [report for each in compiled for report in each.reports]
    print(_json(reports) if args.json else fitted("\n\n".join(map(_text, compiled))))
    return 0


def _models(args: argparse.Namespace) -> list[argparse.Namespace]:
    """The arguments for the model of the command line, or for those of qcgen.toml."""
    if args.model is not None:
        return [args]
    if not Path(_FILE).is_file():
        args.usage_error(f"the following arguments are required: MODEL, where there is no {_FILE}")
    return _models_of_file(args.words)


def _compiled(args: argparse.Namespace) -> _Compiled | None:
    """A model; None if it is rejected, which is printed."""
    from qcgen.cli.artifacts import compiled, print_rejection, read_model
    from qcgen.verification.cases import RecordingError, recorded_arrays

    if args.board is not None:
        try:
            args.target = target_on(args.board, args.target)
        except ValueError as error:
            args.usage_error(f"argument --board: {error}")
    is_tested = args.self_test or args.test_slices
    if args.bake and args.data is None:
        args.usage_error("argument --bake: give the constants as --data FILE.npz")
    try:
        is_for_labels = args.data is not None and not (is_tested or args.vectors or args.bake)
        if is_for_labels and "labels" not in recorded_arrays(args.data):
            args.usage_error(
                "argument --data: it is for --self-test and --vectors, or with --bake the constants, or has an array"
                " 'labels'"
            )
        with shown():
            if args.bake:
                args.constants = [*args.constants, *recorded_arrays(args.data).items()]
            artifacts = compiled(args, args.model, read_model(args, args.model))
            if is_tested:
                artifacts = [_tested(artifact, args) for artifact in artifacts]
            if args.vectors:
                data = None if args.bake else args.data
                artifacts = [_with_vectors(artifact, args.vectors, data) for artifact in artifacts]
            if args.banner is not None:
                artifacts = [artifact.with_banner(args.banner) for artifact in artifacts]
            reports = [replace(artifact, board=args.board).report for artifact in artifacts]
            reports = [report.with_code(report.measured) for report in reports]  # before anything is written
            if args.data is not None and not args.bake:
                reports = [_with_accuracy(*each, args) for each in zip(artifacts, reports, strict=True)]
            if "stack" in args.report:
                for artifact, report in zip(artifacts, reports, strict=True):
                    if why := _why_no_stack(artifact, report):
                        args.usage_error(f"argument --report: the stack was not measured: {why}")
    except RecordingError as error:
        print(f"qcgen: {error}", file=sys.stderr)
        return None
    except ModelRejected as rejection:
        print_rejection(args.model, rejection)
        return None
    return _Compiled(args, artifacts, reports)


def _check(files: dict[str, str | bytes]) -> int:
    """Prints what would change in files, given by their paths; 1 if anything would."""
    from qcgen.errors import printable
    from qcgen.write import differences

    changes = differences(Path(), files)
    for text in changes.values():
        print(*map(printable, text.splitlines()), sep="\n")
    same = len(files) - len(changes)
    folders = ", ".join(dict.fromkeys(printable(str(Path(path).parent)) for path in files))
    print(f"{same} of {len(files)} files in {folders} are as they would be written", file=sys.stderr)
    return 1 if changes else 0


def _tested(artifact: Artifact, args: argparse.Namespace) -> Artifact:
    """With a self-test, by the first case that was recorded if there is one."""
    from qcgen.verification.cases import recorded_cases

    has_cases = args.data is not None and not args.bake
    feeds = recorded_cases(args.data, artifact.program)[0].feeds if has_cases else None
    return artifact.with_self_test(feeds, slices=args.test_slices)


def _with_vectors(artifact: Artifact, count: int, data: Path | None) -> Artifact:
    """With test vectors of so many cases, of those that were recorded if there are any."""
    from qcgen.verification.cases import RecordingError, generated_cases, recorded_cases

    if data is None:
        cases = list(generated_cases(artifact.program, seed=0, cases=count))
    elif len(cases := recorded_cases(data, artifact.program)) < count:
        raise RecordingError(f"{data}: it has {len(cases)} cases, fewer than --vectors {count} asks for")
    return artifact.with_vectors([case.feeds for case in cases[:count]])


def _with_accuracy(artifact: Artifact, report: Report, args: argparse.Namespace) -> Report:
    """The report with the accuracy on the examples of --data, if they have labels."""
    from qcgen.verification.cases import accuracy

    return report if artifact.plan.node else replace(report, accuracy=accuracy(artifact, args.data))


def _files(artifact: Artifact, report: Report, args: argparse.Namespace) -> dict[str, str | bytes]:
    from qcgen.page import page

    files = {**artifact.files, **artifact.weights_files}
    if "json" in args.report:
        files[f"{artifact.plan.prefix}_report.json"] = report.to_json() + "\n"
    if "html" in args.report:
        files[f"{artifact.plan.prefix}_report.html"] = page(report)
    if "stack" in args.report:
        files[f"{artifact.plan.prefix}_stack.h"] = _stack_header(artifact, report)
    return {**files, **artifact.certificate_file} if args.certificate else files


def _stack_header(artifact: Artifact, report: Report) -> str:
    """The text of PREFIX_stack.h."""
    from qcgen.render import filled
    from qcgen.version import __version__

    prefix, stack = artifact.plan.prefix, report.stack_bytes or {}
    known = {level: count for level, count in stack.items() if count is not None}
    levels = [{"level": level, "bytes": count} for level, count in known.items()]
    context = {"prefix": prefix, "PREFIX": prefix.upper(), "version": __version__, "compiler": report.compiler}
    return filled("stack.h", {**context, "levels": levels, "most": max(known.values())})


def _why_no_stack(artifact: Artifact, report: Report) -> str | None:
    """Why PREFIX_stack.h cannot be written; None if it can."""
    from qcgen.cross import how_to_measure

    if report.stack_bytes is None:
        return how_to_measure(artifact.plan)
    unknown = [level for level, count in report.stack_bytes.items() if count is None]
    return f"instructions show no bound with {' and '.join(unknown)}" if unknown else None


def _json(reports: list[Report]) -> str:
    texts = [report.to_json() for report in reports]
    return texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]"


def _text(compiled: _Compiled) -> str:
    from qcgen.cli import report_text as text
    from qcgen.cli.terminal import counted
    from qcgen.errors import printable

    args, reports = compiled.args, compiled.reports
    nodes = [node for report in reports for node in report.nodes]
    if args.quiet:
        each = zip(compiled.artifacts, reports, strict=True)
        return "\n".join(line for artifact, report in each for line in _last_lines(artifact, report))
    lines = [text.node_table(nodes, is_verbose=args.verbose), ""]
    for artifact, report in zip(compiled.artifacts, reports, strict=True):
        written = ", ".join(printable(str(args.folder / name)) for name in _files(artifact, report, args))
        lines.append(f"{written}: {counted(report.macs, 'multiply-add')}")
        remarks = (
            text.stack,
            text.kept_rows,
            text.twice,
            text.budget,
            text.slow_memory,
            text.growth,
            text.bound,
            text.saved,
            text.in_float,
        )
        lines += filter(None, [text.code(report) if args.verbose else None, *(remark(report) for remark in remarks)])
        if args.verbose or args.status:
            lines += filter(None, [text.stretch(report)])
        lines += text.fallbacks(report.fallbacks)
        lines += filter(None, [text.fitting(report)])
        lines += _last_lines(artifact, report)
    return "\n".join(lines)


def _last_lines(artifact: Artifact, report: Report) -> list[str]:
    from qcgen.cli.report_text import last_lines
    from qcgen.cross import how_to_measure
    from qcgen.fallbacks import estimated

    return last_lines(report, how_to_measure(artifact.plan), estimated(artifact.plan).cycles)


# The file qcgen.toml: models with their options, which are compiled if no model is given.

_FILE = "qcgen.toml"
"""In the folder where qcgen is called; its paths start there."""

KEYS: dict[str, Option] = {
    row.flag.removeprefix("--") if row.flag.startswith("--") else row.name: row
    for row in (*(row for rows in GROUPS.values() for row in rows), *OF_COMPILE)
    if row.name not in ("check", "force", "json")
}
"""The keys of a model beside its path: the options of qcgen compile, but those that say how it runs."""


class _Wrong(Exception):
    """What is wrong with qcgen.toml."""


def _models_of_file(words: Sequence[str]) -> list[argparse.Namespace]:
    """The arguments for each model of qcgen.toml; ``words`` of the command line are added to each.

    Ends with exit status 1 if something is wrong with the file, which is printed.
    """
    parser = OptionsParser()
    add_arguments(parser)
    try:
        tables = _tables()
    except _Wrong as error:
        _fail(str(error))
    return [_arguments(number, table, words, parser) for number, table in enumerate(tables, start=1)]


def _fail(text: str) -> NoReturn:
    print(f"qcgen: {_FILE}: {text}", file=sys.stderr)
    sys.exit(1)


def _tables() -> list[object]:
    try:
        with Path(_FILE).open("rb") as file:
            content = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _Wrong(str(error)) from None
    if unknown := sorted(content.keys() - {"model"}):
        raise _Wrong(f"unknown key {unknown[0]!r}; models are tables [[model]]")
    tables = content.get("model")
    if not isinstance(tables, list) or not tables:
        raise _Wrong("it has no table [[model]]")
    return tables


def _arguments(number: int, table: object, words: Sequence[str], parser: OptionsParser) -> argparse.Namespace:
    """A model's arguments; if something is wrong with them, now or later, it is told of which model."""

    def wrong(text: str) -> NoReturn:
        _fail(f"model {number}: {text}")

    if not isinstance(table, dict) or not isinstance(table.get("path"), str):
        wrong("it has no path")
    known = ("path", *KEYS)
    if unknown := [key for key in table if key not in known]:
        wrong(f"unknown key {unknown[0]!r}; there are {', '.join(known)}")
    try:
        own = [word for key, value in table.items() if key != "path" for word in _words(key, value)]
        args = parser.parse_args([*own, *words, "--", table["path"]])
    except (_Wrong, WrongOptions) as error:
        wrong(str(error))
    args.usage_error = wrong
    return args


def _words(key: str, value: object) -> Iterator[str]:
    """A key and its value as words of a command line."""
    option = KEYS[key].flag
    match value:
        case bool():
            yield from [option] if value else []
        case str() | int() if option == "-o":
            yield from [option, str(value)]
        case str() | int():
            yield f"{option}={value}"
        case list():
            for each in value:
                yield from _words(key, each)
        case dict():
            yield from (f"{option}={name}={each}" for name, each in value.items())
        case _:
            raise _Wrong(f"{key} is neither text, a number, true, a list nor a table")
