"""``make bench-networks``: time per inference of whole networks on this machine, beside onnxruntime.

One thread; the portable C and onnxruntime take turns, and what is printed is the median of each. The inputs are
random and the same for both. Every output of the C is compared with the reference, bit for bit; the table tells how
many of onnxruntime's differ.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
from cffi import FFI

import qcgen
from qcgen.artifact import Artifact
from qcgen.build import LoadedModel, build, host_compiler
from qcgen.cli.table import number, table
from qcgen.emulate import random_feeds
from qcgen.ir.types import Array
from qcgen.reference import evaluate_all
from tests.bench.whole import Network, networks

FLAGS = ("-O3", "-march=native")
SECONDS = 3.0
"""How long each network is measured, at least."""

RUNS = 50
HEAD = ("network", "multiply-adds", "qcgen µs", "onnxruntime µs", "ratio", "GMAC/s", "differ from onnxruntime")


def main() -> int:
    """Prints the table; returns 1 if an output is not the reference's."""
    parser = argparse.ArgumentParser(prog="make bench-networks", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="networks whose name contains this")
    only = parser.parse_args().only
    onnxruntime = installed()
    command = " ".join([*host_compiler(), *FLAGS])
    print(f"--target portable --optimize speed --io model, {command}, one thread, median of runs that take turns\n")
    rows, wrong = [], []
    for each in networks():
        if only in each.title:
            row, is_right = _row(each, onnxruntime)
            rows.append(row)
            wrong += [] if is_right else [each.title]
    print(table(HEAD, rows, right=HEAD[1:]))
    for title in wrong:
        print(f"WRONG OUTPUTS: {title}", file=sys.stderr)
    return 1 if wrong else 0


def installed() -> ModuleType | None:
    """onnxruntime, or None and a word about how to get it."""
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not installed (.venv/bin/pip install onnxruntime): its column stays empty")
        return None
    return onnxruntime


def _row(each: Network, onnxruntime: ModuleType | None) -> tuple[tuple[str, ...], bool]:
    """A line of the table, and whether the outputs of the C are the reference's."""
    artifact = qcgen.compile(each.path, name="net", optimize="speed")
    feeds = random_feeds(artifact.plan, seed=1)
    values = evaluate_all(artifact.program, feeds)
    with tempfile.TemporaryDirectory() as folder:
        library = build(artifact.files, FLAGS, Path(folder))
        names = [port.tensor.name for port in artifact.plan.outputs]
        given = dict(zip(names, LoadedModel(artifact.plan, library).run(names, feeds), strict=True))
        is_right = all(np.array_equal(given[name], values[name]) for name in names)
        calls = [_c_call(artifact, library, feeds)]
        if onnxruntime is not None:
            session = _session(onnxruntime, each.path)
            theirs = session.run(names, dict(feeds))
            differ = sum(int((a != given[name]).sum()) for name, a in zip(names, theirs, strict=True))
            calls.append(_their_call(onnxruntime, session, feeds, names))
        medians = _medians(calls)
    ours, macs = medians[0], artifact.report.unsimplified.macs
    cells = [number(macs), f"{ours / 1e3:.1f}"]
    cells += [f"{medians[1] / 1e3:.1f}", f"{medians[1] / ours:.2f}"] if len(medians) > 1 else ["-", "-"]
    cells += [f"{macs / ours:.1f}", number(differ) if len(medians) > 1 else "-"]
    return (each.title, *cells), is_right


def _c_call(artifact: Artifact, library: Path, feeds: Mapping[str, Array]) -> Callable[[], object]:
    """A call of the C function on buffers that stay where they are."""
    plan, ffi = artifact.plan, FFI()
    ffi.cdef(f"void net_run({', '.join(['void *'] * (len(plan.ports) + 1))});")
    function = ffi.dlopen(str(library)).net_run
    arrays = [np.ascontiguousarray(feeds[port.tensor.name]) for port in plan.inputs]
    arrays += [np.zeros(port.shape, port.tensor.dtype.numpy) for port in plan.outputs]
    arrays.append(np.zeros(plan.arena_bytes // 8 + 8, np.uint64))
    return partial(function, *(ffi.from_buffer(array.view(np.uint8)) for array in arrays))


def _session(onnxruntime: Any, model: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _their_call(onnxruntime: Any, session: Any, feeds: Mapping[str, Array], names: list[str]) -> Callable[[], object]:
    """A run of the session on buffers that are bound once."""
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for name in names:
        binding.bind_output(name)
    return lambda: session.run_with_iobinding(binding)


def _medians(calls: list[Callable[[], object]]) -> list[float]:
    """The median nanoseconds of each call; they take turns."""
    times: list[list[int]] = [[] for _ in calls]
    for call in calls:
        call()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or len(times[0]) < RUNS:
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter_ns()
            call()
            taken.append(time.perf_counter_ns() - start)
    return [median(taken) for taken in times]


if __name__ == "__main__":
    sys.exit(main())
