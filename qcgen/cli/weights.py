"""Makes a block of weights of a model that fits code which compile made with --weights, or says what does not fit."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from qcgen.cli.options import add_options
from qcgen.cli.terminal import shown
from qcgen.errors import ModelRejected, printable
from qcgen.options import CODE, OF_COMPILE, PARTS

SUMMARY = "make a block of another model's weights for code that is there"

_SHARED = ("folder", "name", "dims", "batch", "constants", "certificate", "force")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="MODEL", help="a model with the same network as the code's")
    parser.add_argument(
        "--for",
        dest="code",
        metavar="NAME_weights.json",
        type=Path,
        required=True,
        help="what compile wrote beside the code",
    )
    add_options(parser, (row for rows in (CODE, PARTS, OF_COMPILE) for row in rows if row.name in _SHARED))


def run(args: argparse.Namespace) -> int:
    """Writes NAME.bin, and NAME_weights.h with the same, and what is proved of it; returns the exit status."""
    from qcgen.cli.artifacts import print_rejection, read_model
    from qcgen.exchange import CodeInPlace, WrongRecord
    from qcgen.plan.names import prefix_of
    from qcgen.write import write_files

    try:
        code = CodeInPlace(args.code.read_text(encoding="utf-8"))
    except (WrongRecord, UnicodeDecodeError) as problem:
        what = problem if isinstance(problem, WrongRecord) else "it is not text"
        print(f"qcgen: {printable(str(args.code))}: {what}", file=sys.stderr)
        return 1
    name = args.name or prefix_of(Path(args.model).stem)
    try:
        with shown():
            args.outputs = code.options.outputs
            graph = read_model(args, args.model)
            artifact = code.block_of(graph, Path(args.model).name)
    except ModelRejected as rejection:
        print_rejection(args.model, rejection, f"a block for {printable(code.prefix)}.c")
        return 1
    files: dict[str, str | bytes] = {
        f"{name}.bin": artifact.block,
        f"{name}_weights.h": artifact.files[f"{code.prefix}_weights.h"],
    }
    if args.certificate:
        files[f"{name}.cert.json"] = artifact.certificate
    write_files(args.folder, files, force=args.force)
    written = ", ".join(printable(str(args.folder / each)) for each in files)
    print(f"{written}: {len(artifact.block)} bytes of weights for {printable(code.prefix)}.c")
    return 0
