"""Quantizes a float model with calibration data: int8 weights by channel and int8 activations, ready for compile.

onnxruntime quantizes (pip install 'qcgen[quantize]'): normalizations are folded into convolutions, ranges are the
smallest and largest values of the examples, QuantizeLinear and DequantizeLinear stand around every operator.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from qcgen.cli.options import add_options
from qcgen.cli.terminal import shown
from qcgen.errors import ModelRejected
from qcgen.options import FORCE, OPTIONS, Count, Option, Text

if TYPE_CHECKING:
    from qcgen.quantize import Quantized

SUMMARY = "quantize a float model with calibration data"

NO_DATA = (
    "the following arguments are required: --data FILE.npz, some hundred inputs like those that the device will see, on"
    " which ranges are measured. Without calibration data there is only dynamic quantization (onnxruntime's"
    " quantize_dynamic), which measures them on the device in floating point: larger and slower"
)


OWN = (
    Option("data", Text(), "--data", "FILE.npz",
        "arrays called like the model's inputs, with the examples along the first axis; an array called labels has"
        " the right classes"),
    Option("output", Text(), "-o", "FILE.onnx", "where the quantized model goes", is_required=True),
    Option("calibrate", Count(0, 200), "--calibrate", "N",
        "measure ranges on the first N examples; the others judge the result (default: %(default)s)"),
    replace(FORCE, help="overwrite the output"),
    OPTIONS["json"],
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="FLOAT.onnx")
    add_options(parser, OWN)


def run(args: argparse.Namespace) -> int:
    """Writes the quantized model, then prints what it costs in accuracy; returns the exit status."""
    if args.data is None:
        args.usage_error(NO_DATA)
    if args.calibrate < 1:
        args.usage_error("argument --calibrate: at least one example is needed")
    if args.output.exists() and not args.force:
        print(f"qcgen: {args.output} exists: give another -o, or --force to overwrite it", file=sys.stderr)
        return 1
    from qcgen.cli.artifacts import print_rejection
    from qcgen.quantize import CannotRun, quantize, save
    from qcgen.verification.cases import RecordingError

    try:
        with shown():
            found = quantize(Path(args.model), args.data, args.calibrate)
    except (RecordingError, CannotRun) as error:
        print(f"qcgen: {error}", file=sys.stderr)
        return 1
    except ModelRejected as rejection:
        print_rejection(args.model, rejection, "quantized")
        return 1
    save(found.model, args.output)
    from qcgen.cli.terminal import fitted

    print(_json(found) if args.json else fitted(_text(args.output, found)))
    return 0


def _json(found: Quantized) -> str:
    return json.dumps({name: value for name, value in asdict(found).items() if name != "model"}, indent=2)


def _text(output: Path, found: Quantized) -> str:
    from qcgen.cli.terminal import counted, number
    from qcgen.errors import printable

    lines = [
        f"{printable(str(output))}: int8, a scale for each channel, QDQ; ranges of"
        f" {counted(found.calibrated, 'example')}, {counted(found.folded, 'normalization')} folded"
    ]
    of = counted(found.judged, "example")
    whose = f"{of} that gave no ranges" if found.are_new else f"{of}, those that gave the ranges"
    if found.accuracy is not None:
        shares = ", ".join(
            f"{name} {share:.1%}" for name, share in zip(("float", "int8", "C"), found.accuracy, strict=True)
        )
        lines.append(f"right answers: {shares}, of {whose}")
    lines.append(f"error of the first output by quantization: {found.error:.1%} of its size, on {whose}")
    equal = number(found.outputs - found.differing)
    lines.append(f"C equals onnxruntime: {equal} of {counted(found.outputs, 'output')}")
    return "\n".join(lines)
