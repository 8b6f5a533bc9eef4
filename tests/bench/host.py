"""``make bench``: time per layer on this machine beside a plain loop and onnxruntime, and the time of compiling.

Everything is measured in one run, on one core, with the same compiler and flags; figures of other machines differ.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import qcgen
from qcgen.build import host_compiler
from tests.bench.layers import GOAL, LAYERS, Layer, model_of

FLAGS = ["-O3", "-march=native", "-std=c99"]

TIMER = """
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "layer.h"

static int8_t x[LAYER_X_SIZE], y[LAYER_Y_SIZE];
static int64_t arena[LAYER_ARENA_BYTES / 8 + 1];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void)
{
    double best = 1e18, spent = 0;
    for (int i = 0; i < LAYER_X_SIZE; i++) {
        x[i] = (int8_t)rand();
    }
    for (int runs = 0; runs < 20 || (spent < 1e8 && runs < 20000); runs++) {
        const double start = now();
        double time;
        layer_run(x, y, arena);
        time = now() - start;
        spent += time;
        best = time < best ? time : best;
    }
    printf("%.0f\\n", best);
    return 0;
}
"""

PLAIN = """
#include "layer.h"
#include <math.h>
#include "weights.h"
/* The reference as a loop nest: what one writes first. */
void layer_run(const int8_t *x, int8_t *y, void *arena)
{
    (void)arena;
    for (int oy = 0; oy < OH; oy++)
        for (int ox = 0; ox < OW; ox++)
            for (int m = 0; m < M; m++) {
                int32_t acc = bias[m];
                for (int ky = 0; ky < KH; ky++)
                    for (int kx = 0; kx < KW; kx++) {
                        const int iy = oy * SH + ky * DH - PH, ix = ox * SW + kx * DW - PW;
                        if (iy < 0 || iy >= H || ix < 0 || ix >= W) continue;
                        for (int c = 0; c < CG; c++)
                            acc += (x[(iy * W + ix) * C + m / MG * CG + c] - XZ)
                                * weights[((m * CG + c) * KH + ky) * KW + kx];
                    }
                float v = rintf((float)acc * scale[m]) + YZ;
                y[(oy * OW + ox) * M + m] = (int8_t)(v < -128 ? -128 : v > 127 ? 127 : v);
            }
}
"""


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", help="layers whose name contains this")
    only = parser.parse_args().only
    session = _onnxruntime()
    print(f"{' '.join(host_compiler())} {' '.join(FLAGS)}, one core, best of many runs, channels last\n")
    print(
        f"{'layer':28}{'MAC':>12}{'size':>12}{'speed':>12}{'plain loop':>12}{'ort s8':>12}{'ort u8':>12}{'GMAC/s':>9}"
    )
    print(f"{'':28}{'':>12}{'ns':>12}{'ns':>12}{'ns':>12}{'ns':>12}{'ns':>12}{'size':>9}")
    for layer in (*LAYERS, GOAL):
        if not only or only in layer.name:
            _row(layer, session)
    _compile_times()
    return 0


def _row(layer: Layer, session: object) -> None:
    model = model_of(layer)
    size = _time(qcgen.compile(model, name="layer", layout="nhwc").files)
    speed = _time(qcgen.compile(model, name="layer", layout="nhwc", optimize="speed").files)
    plain = _time(_plain(model))
    s8 = _time_onnxruntime(session, model)
    u8 = _time_onnxruntime(session, model_of(layer, np.uint8))
    cells = [f"{value:>12,.0f}".replace(",", " ") if value else f"{'-':>12}" for value in (size, speed, plain, s8, u8)]
    print(
        f"{layer.name:28}{layer.macs:>12,}".replace(",", " ") + "".join(cells) + f"{layer.macs / size:>9.1f}",
        flush=True,
    )


def _time(files: dict[str, str]) -> float:
    """Nanoseconds of one call, the best of many."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**files, "main.c": TIMER}.items():
            Path(folder, name).write_text(text)
        command = [*host_compiler(), *FLAGS, "main.c", "layer.c", "-lm", "-o", "bench"]
        subprocess.run(command, cwd=folder, check=True)
        return float(subprocess.run(["./bench"], cwd=folder, check=True, capture_output=True, text=True).stdout)


def _plain(model: bytes) -> dict[str, str]:
    artifact = qcgen.compile(model, name="layer", layout="nhwc")
    op = artifact.program.operators[0]
    g = op.geometry
    sizes = {
        "H W": g.input, "OH OW": g.output, "KH KW": g.kernel, "SH SW": g.strides, "DH DW": g.dilations,
        "PH PW": g.pads_begin, "C M CG MG": (g.in_channels, g.out_channels, g.group_in, g.group_out),
        "XZ YZ": (op.x_zero_point, op.epilogue.zero_point),
    }  # fmt: skip
    numbers = {name: v for names, values in sizes.items() for name, v in zip(names.split(), values, strict=True)}
    text = "".join(f"#define {name} ({value})\n" for name, value in numbers.items())
    for name, c_type, values in (
        ("weights", "int8_t", op.weights), ("bias", "int32_t", op.bias), ("scale", "float", op.epilogue.scale),
    ):  # fmt: skip
        text += f"static const {c_type} {name}[] = {{{','.join(str(value) for value in values.reshape(-1))}}};\n"
    return {"layer.h": artifact.files["layer.h"], "layer.c": PLAIN, "weights.h": text}


def _onnxruntime() -> object:
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not installed (pip install onnxruntime): its columns stay empty")
        return None
    return onnxruntime


def _time_onnxruntime(onnxruntime: object, model: bytes) -> float:
    if onnxruntime is None:
        return 0.0
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    info = session.get_inputs()[0]
    dtype = np.uint8 if "uint8" in info.type else np.int8
    feeds = {"x": np.random.default_rng(1).integers(0, 100, info.shape).astype(dtype)}
    best = float("inf")
    for _ in range(200):
        start = time.perf_counter_ns()
        session.run(None, feeds)
        best = min(best, time.perf_counter_ns() - start)
    return best


def _compile_times() -> None:
    """The whole command, and the compilation of one layer after import."""
    print("\ncompile time, largest layer of the table")
    layer = max(LAYERS, key=lambda layer: layer.macs)
    model = model_of(layer)
    qcgen.compile(model, name="layer")
    start = time.perf_counter()
    qcgen.compile(model, name="layer")
    print(f"  qcgen.compile() after import        {time.perf_counter() - start:6.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "layer.onnx").write_bytes(model)
        start = time.perf_counter()
        command = [sys.executable, "-m", "qcgen", "compile", "layer.onnx"]
        path = os.pathsep.join([str(Path(qcgen.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        subprocess.run(command, cwd=folder, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": path})
        print(f"  qcgen compile layer.onnx, in total  {time.perf_counter() - start:6.2f} s")


if __name__ == "__main__":
    sys.exit(main())
