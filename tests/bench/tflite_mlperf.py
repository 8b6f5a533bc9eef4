"""The networks of MLPerf Tiny as .tflite files beside CMSIS-NN: the same files, the same outputs, bit for bit.

CMSIS-NN follows TensorFlow Lite Micro's reference kernels, and so does the C. Its layers were counted one by one
(cmsis_nn.json); the sums here are those of the layers of a network that are among them. A part of
``make bench-cortex``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import qcgen
from qcgen.artifact import Artifact
from qcgen.cli.terminal import number, table
from qcgen.emulate import measure, random_feeds
from qcgen.ir.program import Conv, ConvGeometry
from tests.bench.cortex_text import CMSIS_NN
from tests.bench.layers import LAYERS, Layer

FILES = Path(__file__).parents[3] / "shared" / "models" / "tflite"
NETWORKS = {
    "pretrainedResnet_quant": "ResNet8",
    "kws_ref_model": "keyword spotting",
    "vww_96_int8": "visual wake words",
    "toycar_fullint_micro_intio": "autoencoder",
    "str_ww_ref_model": "streaming wake word",
}
"""Files of the consortium, the last one of v1.4, and what they are."""
CORE = "cortex-m4"
HEAD = ("network", "--optimize", "MAC", "cycles", "instructions", "of their layers", "CMSIS-NN", "qcgen", "ratio")


@dataclass(frozen=True)
class Row:
    """A network for an aim: ``theirs`` and ``ours``, instructions of ``counted`` of its layers with ``macs`` of all."""

    title: str
    optimize: str
    macs: int
    cycles: int
    instructions: int
    counted: int
    layers: int
    theirs: int
    ours: int


def measured(flags: tuple[str, ...], compiler: str) -> list[Row]:
    """Every network for both aims; nothing where the files are absent."""
    return list(_rows(flags, compiler)) if FILES.is_dir() else []


def _rows(flags: tuple[str, ...], compiler: str) -> Iterator[Row]:
    for name, title in NETWORKS.items():
        for optimize in ("speed", "size"):
            artifact = qcgen.compile(FILES / f"{name}.tflite", name="net", target=CORE, optimize=optimize)
            counted = measure(artifact, random_feeds(artifact.plan, 1), flags=flags, compiler=compiler)
            ours = {node.name: node.instructions for node in counted.nodes}
            layers = dict(_layers(artifact))
            theirs = {op: found for op, found in layers.items() if found is not None}
            yield Row(
                title=title,
                optimize=optimize,
                macs=artifact.report.macs,
                cycles=counted.cycles,
                instructions=counted.instructions,
                counted=len(theirs),
                layers=len(layers),
                theirs=sum(theirs.values()),
                ours=sum(ours[op] for op in theirs),
            )


def _layers(artifact: Artifact) -> Iterator[tuple[str, int | None]]:
    """The layers with weights, and how many instructions CMSIS-NN takes; None where its layer was not counted."""
    known = {_key(layer): CMSIS_NN["instructions"][layer.name][CORE] for layer in LAYERS}
    for op in artifact.program.operators:
        if isinstance(op, Conv):
            yield op.name, known.get(_key(_layer(op.geometry, op.op_type)))


def _layer(g: ConvGeometry, op_type: str) -> Layer:
    is_depthwise = op_type == "DEPTHWISE_CONV_2D"
    if op_type == "FULLY_CONNECTED":
        return Layer("", is_depthwise, (1, 1, g.in_channels), g.out_channels, (1, 1))
    height, width = g.input
    down, across = g.kernel
    steps, dilations = (g.strides[0], g.strides[1]), (g.dilations[0], g.dilations[1])
    return Layer("", is_depthwise, (height, width, g.in_channels), g.out_channels, (down, across), steps, dilations)


def _key(layer: Layer) -> Layer:
    return replace(layer, name="")


def section(rows: Sequence[Row]) -> str:
    """The part of docs/benchmarks.md, "" without rows."""
    if not rows:
        return ""
    cells = [
        (
            each.title,
            each.optimize,
            *map(number, (each.macs, each.cycles, each.instructions)),
            f"{each.counted} of {each.layers}",
            *((number(each.theirs), number(each.ours), f"{each.theirs / each.ours:.2f}") if each.counted else "---"),
        )
        for each in rows
    ]
    parts = [
        "## `.tflite` files of MLPerf Tiny, beside CMSIS-NN",
        "",
        "The consortium's files on an emulated Cortex-M4; outputs equal TensorFlow Lite Micro's, as CMSIS-NN's do. The",
        "last columns are instructions of the layers that CMSIS-NN was counted for (below); cycles are estimates",
        "without wait states. Constant channels are left out, half of visual wake words.",
        "",
        "```text",
        table(HEAD, cells, right=HEAD[2:]),
        "```",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    print(section(measured(("-O3",), "gcc")))
