"""Commands that only list what there is: operators; cores and chips."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from qcgen.chips import CHIPS, KIBI, Chip
from qcgen.cli.terminal import fitted, table
from qcgen.cores import TARGETS

if TYPE_CHECKING:
    from qcgen.geometry import ConvSpelling

INTERNAL = "qcgen"
"""The domain of operators that rewriting makes; no model has them."""

TYPES = """\
types: codes are int8 or uint8, and float32 stays float32. Between DequantizeLinear and QuantizeLinear codes may be
int16 or uint16, too: Conv, ConvTranspose, Gemm and MatMul with constant weights, Add, Sub, Mul and GlobalAveragePool
compute on them, MaxPool, Relu, Clip and what only moves serve them. Constants behind a DequantizeLinear may be int4 or
uint4: weights per tensor or per output channel become integer operators, weights in blocks are read by float C."""
"""What no row says: of which types activations and constants may be."""


class _List:
    @staticmethod
    def add_arguments(_parser: argparse.ArgumentParser) -> None:
        """The command has no arguments."""


class Operators(_List):
    """Lists the operators that can be compiled."""

    SUMMARY = "list the supported operators"

    @staticmethod
    def run(_args: argparse.Namespace) -> int:
        """Prints the table; returns the exit status."""
        from qcgen.tflite import LOWERINGS as TFLITE

        head = ("domain", "operator", "since", "image layout", "computes")
        print(table(head, operators(), names=("domain", "image layout")))
        print()
        print(fitted(TYPES.replace("\n", " ")))
        read = ", ".join(sorted(TFLITE))
        print(fitted(f"Of .tflite files, as TensorFlow Lite Micro computes, int8, some of them int16: {read}."))
        orion = "--numerics orion-fp16x16 and orion-fp8x23 compile the QLinearConv of ai.onnx; where Orion panics,"
        print(fitted(f"{orion}\nthe function returns 1."))
        return 0


def operators() -> list[tuple[str, str, str, str, str]]:
    """The rows: everything that can be lowered."""
    from qcgen.check import since
    from qcgen.geometry import CONVOLUTIONS
    from qcgen.lower import LOWERINGS

    rows = []
    for (domain, op_type), lowering in LOWERINGS.items():
        if domain == INTERNAL:
            continue
        spelling = CONVOLUTIONS.get((domain, op_type))
        if spelling is None:
            facts = ("", "", (lowering.__doc__ or "").split("\n")[0])
        else:
            facts = (f"opset {since(domain, op_type)}", _layout(spelling), _notes(spelling))
        rows.append((domain or "ai.onnx", op_type, *facts))
    return rows + _rewritten()


def _rewritten() -> list[tuple[str, str, str, str, str]]:
    """The rows of what the C does not contain as it stands."""
    from qcgen.infer import RULES
    from qcgen.lower import LOWERINGS

    note = "becomes other operators, or is computed when the model is compiled"
    return [(domain or "ai.onnx", op_type, "", "", note) for domain, op_type in sorted(RULES.keys() - LOWERINGS.keys())]


def _layout(spelling: ConvSpelling) -> str:
    return {True: "channels last", False: "channels first", None: "attribute channels_last"}[spelling.channels_last]


def _notes(spelling: ConvSpelling) -> str:
    from qcgen.geometry import ACTIVATIONS, ConvKind

    kinds = {
        ConvKind.QUANTIZED: "int8 or uint8 to int8 or uint8, requantized per tensor or per output channel",
        ConvKind.INTEGER: "int8 or uint8 to int32, modulo 2^32",
        ConvKind.FLOAT: "float32",
    }
    parts = [kinds[spelling.kind]]
    if spelling.activations:
        parts.append(f"activation {', '.join(ACTIVATIONS)}")
    if spelling.refused:
        parts.append(f"without input {', '.join(spelling.refused)}")
    return "; ".join(parts)


class Targets(_List):
    """Lists the cores that code can be compiled for, and the chips that stand for them."""

    SUMMARY = "list the targets and chips"

    @staticmethod
    def run(_args: argparse.Namespace) -> int:
        """Prints the tables; returns the exit status."""
        cores = [
            (
                each.name,
                each.description,
                ", ".join(sorted(each.features)) or "-",
                " ".join((each.compiler, *each.flags)),
            )
            for each in TARGETS.values()
        ]
        print(table(("target", "core", "features", "compiler"), cores))
        print()
        head, right = ("chip", "target", "flash", "RAM", "clock", "source", "note"), ("flash", "RAM", "clock")
        print(table(head, [_chip(chip) for chip in CHIPS.values()], right))
        return 0


def _chip(chip: Chip) -> tuple[str, ...]:
    flash, ram = (f"{count // KIBI} KiB" for count in (chip.flash, chip.ram))
    return (chip.name, chip.target, flash, ram, f"{chip.megahertz} MHz", chip.source, chip.note)
