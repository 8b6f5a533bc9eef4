"""Compiles a model, or some of its nodes, to C; prints sizes, kernels and certificates."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qcgen.cli.options import add_compile_options
from qcgen.errors import ModelRejected

if TYPE_CHECKING:
    from qcgen.artifact import Artifact
    from qcgen.report import Report

SUMMARY = "turn a model into C"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="MODEL.onnx")
    add_compile_options(parser)
    parser.add_argument(
        "--certificate", action="store_true", help="write PREFIX.cert.json, too: what was proved, for others to check"
    )
    parser.add_argument("--report", action="store_true", help="write the report to PREFIX_report.json, too")
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="write PREFIX_test.h and PREFIX_test.c, too: a function that says on the core which node computes"
        " something else than the reference",
    )
    parser.add_argument(
        "--data",
        metavar="FILE.npz",
        type=Path,
        help="the input of --self-test, recorded as for verify (default: random)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing: print how the files that lie there differ from those that would be written, exit with 1 if"
        " any does; for continuous integration",
    )
    parser.add_argument("--force", action="store_true", help="overwrite files that qcgen did not generate, too")


def run(args: argparse.Namespace) -> int:
    """Writes the files of all nodes together, then prints the report; returns the exit status."""
    from qcgen.cli.artifacts import compiled, print_rejection, read_model
    from qcgen.emulate.code_size import code_bytes
    from qcgen.verify.recordings import RecordingError
    from qcgen.write import write_files

    if args.self_test and args.input == "rows":
        args.usage_error("argument --self-test: not with --input rows, whose caller brings the input")
    if args.data is not None and not args.self_test:
        args.usage_error("argument --data: it is the input of --self-test")
    try:
        artifacts = compiled(args, args.model, read_model(args, args.model))
        if args.self_test:
            artifacts = [_tested(artifact, args.data) for artifact in artifacts]
    except RecordingError as error:
        print(f"qcgen: {error}", file=sys.stderr)
        return 1
    except ModelRejected as rejection:
        print_rejection(args.model, rejection)
        return 1
    reports = [artifact.report.with_code(code_bytes(artifact)) for artifact in artifacts]
    each = zip(artifacts, reports, strict=True)
    files = {name: text for artifact, report in each for name, text in _files(artifact, report, args).items()}
    if args.check:
        return _check(args.output, files)
    write_files(args.output, files, force=args.force)
    print(_json(reports) if args.json else _text(args, artifacts, reports))
    return 0


def _check(folder: Path, files: dict[str, str]) -> int:
    """Prints what would change in a folder; 1 if anything would."""
    from qcgen.cli.table import printable
    from qcgen.write import differences

    changes = differences(folder, files)
    for text in changes.values():
        print(*map(printable, text.splitlines()), sep="\n")
    same = len(files) - len(changes)
    print(f"{same} of {len(files)} files in {printable(str(folder))} are as they would be written", file=sys.stderr)
    return 1 if changes else 0


def _tested(artifact: Artifact, data: Path | None) -> Artifact:
    """With a self-test, by the first case that was recorded if there is one."""
    from qcgen.verify.recordings import recorded_cases

    feeds = None if data is None else recorded_cases(data, artifact.program)[0].feeds
    return artifact.with_self_test(feeds)


def _files(artifact: Artifact, report: Report, args: argparse.Namespace) -> dict[str, str]:
    files = dict(artifact.files)
    if args.report:
        files[f"{artifact.plan.prefix}_report.json"] = report.to_json() + "\n"
    return files | artifact.certificate_file if args.certificate else files


def _json(reports: list[Report]) -> str:
    texts = [report.to_json() for report in reports]
    return texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]"


def _text(args: argparse.Namespace, artifacts: list[Artifact], reports: list[Report]) -> str:
    from qcgen.cli.report_text import bound, code, memory, node_table, saved, summary
    from qcgen.cli.table import printable
    from qcgen.emulate.code_size import how_to_measure

    lines = [node_table([node for report in reports for node in report.nodes]), ""]
    for artifact, report in zip(artifacts, reports, strict=True):
        written = ", ".join(printable(str(args.output / name)) for name in _files(artifact, report, args))
        lines += [f"{written}: {summary(report)}", code(report, how_to_measure(artifact)), *memory(report)]
        lines += filter(None, [bound(report), saved(report)])
    return "\n".join(lines)
