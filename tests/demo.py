"""``make demo``: a trained network of this repository, from .onnx to C that computes what onnxruntime computed.

Every step but the last is a qcgen command, printed as one would type it.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import qcgen
from qcgen.cli import main
from qcgen.cli.terminal import percent, table

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "tests/data/digits"
OUTPUT = "build/demo"
MODELS = ("digits_qop_s8", "digits_qop_u8", "digits_qdq_s8", "digits_qdq_u8")
SHOWN = MODELS[2]
SHADES = " .:-=+*#%"


@dataclass(frozen=True)
class Step:
    """``title`` says what the user gets from the qcgen command with these ``arguments``."""

    title: str
    arguments: tuple[str, ...]


STEPS = (
    Step(
        "A network that reads handwritten digits, 8x8 pixels, quantized to int8 (QDQ form), becomes two files of C",
        ("compile", f"{FOLDER}/{SHOWN}.onnx", "--name", "digits", "--report", "json", "--report", "html", "-o", OUTPUT),
    ),
    Step(
        "The C, built on this machine, against the reference and against outputs recorded from onnxruntime",
        ("verify", f"{FOLDER}/{SHOWN}.onnx", "--data", f"{FOLDER}/{SHOWN}.npz"),
    ),
)

LOOK = f"""\
What to look at now
  {OUTPUT}/digits.h             the function, its sizes, scales and zero points
  {OUTPUT}/digits.c             the code; its head says what is proved of it
  {OUTPUT}/digits_report.html   the same for a browser, with a map of the memory and sizes per node
  {OUTPUT}/digits_report.json   flash, RAM, multiply-adds and kernels, for programs
  docs/tutorial.md                from an .onnx file to a C program, step by step
  .venv/bin/qcgen inspect {FOLDER}/{SHOWN}.onnx
                                  what the network holds, and why each kernel was chosen"""


def demo() -> int:
    """Runs the steps from the repository's folder; returns the first exit status that is not 0."""
    os.chdir(ROOT)
    for number, step in enumerate(STEPS, 1):
        print(f"{number}. {step.title}\n\n$ {shlex.join(('qcgen', *step.arguments))}\n", flush=True)
        status = main(step.arguments)
        if status:
            return status
        print()
    print(f"{len(STEPS) + 1}. Images in, digits out: the compiled C, beside what onnxruntime said of the same images\n")
    status = recognize()
    print(f"\n{LOOK}")
    return status


def recognize() -> int:
    """All four quantizations of the network on all test images; returns 1 if an output is not the recorded one."""
    with np.load(f"{FOLDER}/digits_test.npz") as arrays:
        tests = dict(arrays)
    images = tests["test_images"].astype(np.float32) * tests["pixel_scale"]
    rows, differing = [], 0
    for name in MODELS:
        model = qcgen.compile(f"{FOLDER}/{name}.onnx").load()
        probabilities = np.concatenate([model.run(None, {"image": image[None]})[0] for image in images])
        if name == SHOWN:
            print(_pictures(tests["test_images"], probabilities))
        different = int((probabilities != tests[f"probabilities.{name}"]).sum())
        differing += different
        right = int((probabilities.argmax(axis=1) == tests["labels"]).sum())
        recorded = percent(int((tests[f"predicted.{name}"] == tests["labels"]).sum()), len(images))
        rows.append((name, percent(right, len(images)), recorded, f"{different} of {probabilities.size}"))
    print(table(("model", "compiled C", "onnxruntime", "probabilities that differ"), rows))
    return 1 if differing else 0


def _pictures(images: np.ndarray, probabilities: np.ndarray, count: int = 6) -> str:
    """The first images side by side, with what the network says of each."""
    lines = [
        "".join("".join(SHADES[p // 2] * 2 for p in image[0, row]) + "  " for image in images[:count])
        for row in range(8)
    ]
    found = [f"{p.argmax()}  ({100 * p.max():.1f} %)" for p in probabilities[:count]]
    return "\n".join([*(line.rstrip() for line in lines), "".join(f"{text:18}" for text in found).rstrip(), ""])


if __name__ == "__main__":
    sys.exit(demo())
