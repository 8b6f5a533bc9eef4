"""``make networks-2026``: networks of today, quantized, compiled, compared with onnxruntime, in docs/networks.md.

Every network is quantized by onnxruntime.quantization in both static forms, int8 per output channel, and dynamically;
its C runs on this machine beside onnxruntime with the session option session.qdqisint8allowed=1.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

try:
    from architectures import oracle
except ImportError as missing:
    print(f"make networks-2026 skips: {missing.name} is not installed (.venv/bin/pip install onnxruntime)")
    sys.exit(0)

from architectures.networks import NETWORKS
from architectures.page import Row, page, summary

DOCUMENT = Path(__file__).parents[2] / "docs" / "networks.md"


def rows(name: str, forms: tuple[str, ...]) -> list[Row]:
    """A network in each form; where it is refused and a cut is known, the cut network, too."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    model, found = NETWORKS[name](), []
    for form in forms:
        try:
            quantized = oracle.quantized(model, form)
        except Exception as failure:  # whatever the quantizer does not take
            found.append(
                Row(name, form, oracle.Verdict(f"the quantizer fails: {' '.join(str(failure).split())[:100]}"))
            )
            continue
        found.append(Row(name, form, oracle.compared(quantized)))
        names = oracle.cuts(model)
        if names and found[-1].verdict.refusal:
            found.append(Row(name, form, oracle.compared(quantized, names), names))
    return found


def _all(names: list[str], forms: tuple[str, ...], processes: int) -> Iterator[Row]:
    with ProcessPoolExecutor(processes) as pool:
        for found in pool.map(partial(rows, forms=forms), names):
            for row in found:
                print(row.line, flush=True)
                yield row


def main() -> int:
    """Prints a line for each network; with ``--write`` writes the page. 1 if an output differs that must not."""
    parser = argparse.ArgumentParser(prog="make networks-2026", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="networks whose name contains this")
    parser.add_argument("--form", choices=list(oracle.FORMS), help="one form instead of all")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write docs/networks.md")
    arguments = parser.parse_args()
    names = [name for name in NETWORKS if arguments.only in name]
    forms = (arguments.form,) if arguments.form else tuple(oracle.FORMS)
    found = list(_all(names, forms, arguments.processes))
    print(f"\n{summary(found)}")
    if arguments.write:
        DOCUMENT.write_text(page(found))
    # Of scales that are found at run time a last place of a float convolution may turn a code.
    return 1 if any(row.verdict.word == "differs" and row.form != "dynamic" for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
