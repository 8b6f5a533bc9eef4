"""``make demo``: a trained network of this repository, from .onnx to C that computes what onnxruntime computed.

Every step is a qcgen command, printed as one would type it.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from qcgen.cli import main

ROOT = Path(__file__).resolve().parents[1]
MODEL = "tests/data/digits/digits_qop_s8.onnx"
RECORDED = "tests/data/digits/digits_qop_s8_nodes.npz"
OUTPUT = "build/demo"
NODES = ("conv1_quant", "depthwise2_quant", "pointwise3_quant", "conv4_quant", "conv5_quant")


@dataclass(frozen=True)
class Step:
    """``title`` says what the user gets from the qcgen command with these ``arguments``."""

    title: str
    arguments: tuple[str, ...]


STEPS = (
    Step(
        "A network that reads handwritten digits, trained on 8x8 images, int8: each convolution becomes a C function",
        ("compile", MODEL, *(word for node in NODES for word in ("--node", node)), "--name", "digits", "-o", OUTPUT),
    ),
    Step(
        "The C, built on this machine, against the reference and the outputs recorded from onnxruntime",
        ("verify", MODEL, "--data", RECORDED),
    ),
)

LOOK = f"""\
What to look at now
  {OUTPUT}/digits_conv1_quant.h   the function, its sizes, scales and zero points
  {OUTPUT}/digits_conv1_quant.c   the code; its head says what is proved of it
  README.md                         from an .onnx file to a C program, step by step
  .venv/bin/qcgen inspect {MODEL}
                                    what else the network holds, and why each kernel was chosen"""


def demo() -> int:
    """Runs the steps from the repository's folder; returns the first exit status that is not 0."""
    os.chdir(ROOT)
    for number, step in enumerate(STEPS, 1):
        print(f"{number}. {step.title}\n\n$ {shlex.join(('qcgen', *step.arguments))}\n", flush=True)
        status = main(step.arguments)
        if status:
            return status
        print()
    print(LOOK)
    return 0


if __name__ == "__main__":
    sys.exit(demo())
