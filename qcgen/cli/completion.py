"""Completion of command lines in a shell, where argcomplete is installed."""

from __future__ import annotations

import argparse
import os


def complete(parser: argparse.ArgumentParser) -> None:
    """Answers a shell that asks what may stand at the cursor, and ends the process; otherwise returns.

    Commands, options and choices are those of ``parser``; elsewhere files are offered.
    """
    if "_ARGCOMPLETE" not in os.environ:
        return
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(parser)
