"""The command line: arguments in, text and an exit status out, never a traceback."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EFBIG, EIO, ENOSPC
from types import FrameType
from typing import Protocol

from qcgen.cli import bench, compare, compile, example, inspect, lists, package, quantize, verify, weights
from qcgen.cli.options import Parser, complete, joined
from qcgen.errors import BoardFailed, EmulationFailed, ToolMissing
from qcgen.version import __version__

FAILED, WRONG_USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143


class Command(Protocol):
    """A module of this package, or a class, that is a command."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None:
        """Declares the command's arguments."""

    def run(self, args: argparse.Namespace, /) -> int:
        """Runs the command; returns the exit status."""


COMMANDS: dict[str, Command] = {
    "quantize": quantize,
    "compile": compile,
    "inspect": inspect,
    "verify": verify,
    "bench": bench,
    "compare": compare,
    "weights": weights,
    "package": package,
    "example": example,
    "ops": lists.Operators,
    "targets": lists.Targets,
}
"""Every command by its name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; returns 0, 1 for a rejected model or failed verification, 2 for wrong usage.

    130 and 143, as a shell reports them, if SIGINT or SIGTERM ended it; temporary files are removed before.
    """
    _tolerate_any_name()
    try:
        with _terminable():
            words = joined(sys.argv[1:] if argv is None else argv)
            parser = _parser()
            complete(parser)
            args = parser.parse_args(words)
            args.words = words[1:]  # behind the command's name
            status = int(args.run(args))
            if sys.stdout is not None:  # it is if it was closed before Python began
                sys.stdout.flush()
            return status
    except SystemExit as exit_:  # argparse has printed what there is to say
        return exit_.code if isinstance(exit_.code, int) else FAILED
    except KeyboardInterrupt:
        return _failure("interrupted", INTERRUPTED)
    except _Terminated:
        return _failure("terminated", TERMINATED)
    except BrokenPipeError:
        # Whoever read our output has gone; keep Python from failing again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (ToolMissing, EmulationFailed, BoardFailed) as failure:
        return _failure(str(failure))
    except OSError as error:
        # Those of files name them.
        where = error.filename or ("standard output" if error.errno in (EFBIG, EIO, ENOSPC) else None)
        return _failure(f"{where}: {error.strerror}" if where else str(error))
    except Exception as error:  # the last resort: a defect of ours must not look like one of the user's
        if os.environ.get("QCGEN_TRACEBACK"):
            raise
        what = f"internal error: {type(error).__name__}: {error}"
        return _failure(f"{what}\n    this is a defect of qcgen: please report it; QCGEN_TRACEBACK=1 shows where it is")


class _Terminated(BaseException):
    """SIGTERM came; no exception of an operation, like KeyboardInterrupt."""


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM unwinds the stack instead of ending the process at once, unless somebody handles or ignores it."""

    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _failure(text: str, status: int = FAILED) -> int:
    print(f"qcgen: {text}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="qcgen", description="Compiles quantized ONNX and TensorFlow Lite models to standalone C, bit for bit."
    )
    parser.add_argument("--version", action="version", version=f"qcgen {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.SUMMARY, description=command.__doc__)
        command.add_arguments(sub)
        sub.set_defaults(run=command.run, usage_error=sub.error)
    return parser


def _tolerate_any_name() -> None:
    """Names of models and files may hold characters that the terminal's encoding does not."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
