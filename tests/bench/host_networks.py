"""``make bench-networks``: time per inference of whole networks on this machine, beside onnxruntime.

One thread; the C for the targets portable and host takes turns with onnxruntime, and what is printed is the median of
each. The inputs are random and the same for all. Every output of the C is compared with the reference, bit for bit;
the table tells how many of onnxruntime's differ.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
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
from qcgen.cli.terminal import number, table
from qcgen.emulate import random_feeds
from qcgen.ir.types import Array
from qcgen.reference import evaluate_all
from tests.bench.whole import UINT8, Network, networks

FLAGS = "-O3 -march=native"
SECONDS = 3.0
"""How long each network is measured, at least."""

RUNS = 50
TARGETS = ("portable", "host")
HEAD = (
    "network",
    "multiply-adds",
    *(f"{target} µs" for target in TARGETS),
    "onnxruntime µs",
    "onnxruntime / host",
    "GMAC/s",
    "differ",
)
"""What differs are outputs of onnxruntime from those of the C; ratio and GMAC/s are those of the target host."""


def main() -> int:
    """Prints the table; returns 1 if an output is not the reference's."""
    parser = argparse.ArgumentParser(prog="make bench-networks", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="networks whose name contains this")
    parser.add_argument(
        "--cflags", default=FLAGS, metavar="FLAGS", help="flags for the C compiler (default: %(default)s)"
    )
    args = parser.parse_args()
    onnxruntime = installed()
    command = " ".join([*host_compiler(), args.cflags])
    print(f"--optimize speed --io model, {command}, one thread, median of runs that take turns\n")
    rows, wrong = [], []
    for each in (*networks(), *(each for each in UINT8 if each.path.is_file())):
        if args.only in each.title:
            row, is_right = _row(each, args.cflags.split(), onnxruntime)
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


def _row(each: Network, flags: Sequence[str], onnxruntime: ModuleType | None) -> tuple[tuple[str, ...], bool]:
    """A line of the table, and whether the outputs of the C are the reference's."""
    artifacts = [qcgen.compile(each.path, name="net", optimize="speed", target=target) for target in TARGETS]
    feeds = random_feeds(artifacts[0].plan, seed=1)
    values = evaluate_all(artifacts[0].program, feeds)
    expected = {port.tensor.name: values[port.tensor.name] for port in artifacts[0].plan.outputs}
    differ = None
    with tempfile.TemporaryDirectory() as folder:
        libraries = [_library(artifact, flags, Path(folder)) for artifact in artifacts]
        built = list(zip(artifacts, libraries, strict=True))
        given = [LoadedModel(artifact.plan, library).run(list(expected), feeds) for artifact, library in built]
        calls = [_c_call(artifact, library, feeds) for artifact, library in built]
        if onnxruntime is not None:
            session = _session(onnxruntime, each.path)
            differ = _differing(session.run(list(expected), dict(feeds)), expected)
            calls.append(_their_call(onnxruntime, session, feeds, list(expected)))
        medians = _medians(calls)
    cells = _cells(artifacts[0].report.unsimplified.macs, medians, differ)
    return (each.title, *cells), not any(_differing(outputs, expected) for outputs in given)


def _library(artifact: Artifact, flags: Sequence[str], folder: Path) -> Path:
    own = folder / artifact.plan.options.target
    own.mkdir()
    return build(artifact.files, flags, own)


def _differing(outputs: Sequence[Array], expected: Mapping[str, Array]) -> int:
    return sum(int((a != b).sum()) for a, b in zip(outputs, expected.values(), strict=True))


def _cells(macs: int, medians: Sequence[float], differ: int | None) -> list[str]:
    """What HEAD says, from the medians in nanoseconds; ``differ`` is None without onnxruntime."""
    host = medians[len(TARGETS) - 1]
    cells = [number(macs), *(f"{each / 1e3:.1f}" for each in medians)]
    cells += ["-", "-"] if differ is None else [f"{medians[-1] / host:.2f}"]
    return [*cells, f"{macs / host:.1f}", "-" if differ is None else number(differ)]


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
