"""Compiles models and makes a program of them for a board: self-tests, time per node, depth of the stack."""

from __future__ import annotations

import argparse

from qcgen.chips import BOARDS
from qcgen.cli.options import add_compile_options, add_options
from qcgen.options import FORCE, OneOf, Option

SUMMARY = "make a program that runs models on a board"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("models", metavar="MODEL", nargs="+")
    board = Option("board", OneOf(tuple(BOARDS)), "--board", "", "as the emulator calls it", is_required=True)
    add_options(parser, (board, FORCE))
    add_compile_options(parser)
    parser.set_defaults(target=None)  # the board's


def run(args: argparse.Namespace) -> int:
    """Writes the program's files together; returns the exit status."""
    from qcgen.cli.artifacts import compiled_together
    from qcgen.cli.terminal import counted
    from qcgen.errors import printable
    from qcgen.example import TAKEN, example
    from qcgen.protocol import MOST_NETWORKS
    from qcgen.write import write_files

    board = BOARDS[args.board]
    args.target = args.target or board.target.name
    if args.target not in board.targets:
        args.usage_error(f"argument --target: {args.board} runs code for {', '.join(board.targets)}")
    artifacts = compiled_together(args, args.models)
    if artifacts is None:
        return 1
    if len(artifacts) > MOST_NETWORKS:
        args.usage_error(f"a program can have {MOST_NETWORKS} networks, not {len(artifacts)}")
    for prefix in (artifact.plan.prefix for artifact in artifacts):
        if prefix.lower() in TAKEN:
            args.usage_error(f"{prefix}.c and {prefix}.h are files of the program: --name calls a model otherwise")
    files = example(artifacts, board)
    write_files(args.folder, files, force=args.force)
    folder = printable(str(args.folder))
    print(f"{folder}: {counted(len(files), 'file')} for {args.board}, {counted(len(artifacts), 'network')}")
    print(f"to build: cmake -B {folder}/build {folder} && cmake --build {folder}/build")
    print(f"to run it in the emulator: ctest --test-dir {folder}/build --verbose")
    return 0
