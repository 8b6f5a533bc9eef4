"""``make networks``: whole networks, compiled and run on this machine, against outputs recorded from onnxruntime.

For each model its form, how far it became integers, outputs that differ, memory beside its lower bound and a yardstick,
multiply-adds before and after simplification, and the time of compiling; then the accuracy of the keyword-spotting
models on labelled inputs, and which compilers take the generated C without a warning.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import qcgen
from qcgen.artifact import Artifact
from qcgen.build import STRICT_FLAGS, LoadedModel, build
from qcgen.cli.terminal import number, table
from qcgen.cores import TARGETS
from qcgen.ir.program import Dequantize, Movement
from qcgen.ir.types import Array, DType
from qcgen.load import load
from qcgen.reference import evaluate_all
from qcgen.reference.tolerance import exact, tolerances
from qcgen.verification.compare import differences
from qcgen.verification.running import run

ROOT = Path(__file__).resolve().parents[2]
SHARED, OWN = ROOT.parent / "shared" / "models", ROOT / "tests" / "data" / "digits"

YARDSTICKS = {"kws_dscnn": 16_000, "ic_resnet8": 49_152, "vww_mbv1": 55_296, "ad_fc": 768}
"""Bytes of live activations of an int8 model, by how the names of models start."""

LABELLED = "eval_kws01_1000.npz"
LABELLED_MODELS = "kws_dscnn_tfl"
EXPECTED_ACCURACY = 0.902
MAX_SECONDS = 5.0

COMPILERS = {
    "gcc": ("gcc",),
    "clang": ("clang",),
    **{target.compiler: (target.compiler, *target.flags) for target in map(TARGETS.get, ("cortex-m4", "rv32imc"))},
}
"""Commands that compile C, by the compiler's name."""

HEAD = (
    "model", "form", "becomes", "outputs", "differ", "from noopt", "meets", "arena", "bound", "yardstick", "constants",
    "multiply-adds", "simplified", "seconds",
)  # fmt: skip
RIGHT = HEAD[3:6] + HEAD[7:]


@dataclass(frozen=True)
class Recorded:
    """Outputs compared with recordings: all, those that differ from the default session's, and from the unoptimized."""

    outputs: int = 0
    differ: int = 0
    noopt_differ: int = 0

    @property
    def meets(self) -> str:
        """Which of onnxruntime's two answers the C gives."""
        if not self.outputs:
            return "no recording"
        names = [name for name, count in (("default", self.differ), ("noopt", self.noopt_differ)) if not count] or [
            "neither"
        ]
        return "both" if len(names) == 2 else names[0]


LEFT_IN_FLOAT = {"ic_resnet8_tfl_qdq": ("ic_resnet8_tfl_qop", 4)}
"""Models of which onnxruntime leaves a part in float that is integers here (docs/decisions/0008): the same network as
a QOperator model, whose recordings the integers meet, and how many of its own recorded outputs differ.
"""


@dataclass
class Totals:
    """What is counted over all models; ``failed`` and ``explained`` in words."""

    failed: list[str] = field(default_factory=list)
    explained: list[str] = field(default_factory=list)
    built: dict[str, int] = field(default_factory=dict)


def main() -> int:
    """Prints the table and the lines below it; returns 1 if something is not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.networks", description=__doc__)
    parser.add_argument("paths", metavar="MODEL.onnx or FOLDER", nargs="*", type=Path)
    paths = parser.parse_args().paths or [SHARED if SHARED.is_dir() else OWN]
    models = [model for path in paths for model in (sorted(path.glob("*.onnx")) if path.is_dir() else [path])]
    totals, rows, artifacts = Totals(), [], {}
    qcgen.compile(OWN / "digits_qop_u8.onnx")  # imports and templates are read once, before the clock runs
    for model in models:
        row, artifact = _row(model, totals)
        rows.append(row)
        if artifact is not None:
            artifacts[model] = artifact
    print(table(HEAD, rows, RIGHT))
    print("\noutputs computed in float32 differ if they are further from the recording than qcgen verify allows")
    _print_accuracies(models, totals)
    _print_strict(artifacts, totals)
    print("\n".join(["", *totals.explained]))
    print("\n".join(["", *totals.failed]) if totals.failed else "\neverything is as it must be")
    return 1 if totals.failed else 0


def _row(model: Path, totals: Totals) -> tuple[tuple[str, ...], Artifact | None]:
    form = _form(model)
    start = time.perf_counter()
    try:
        artifact = qcgen.compile(model)
    except qcgen.ModelRejected as rejection:
        totals.failed.append(f"{model.stem} is rejected: {rejection.problems[0]}")
        return (model.stem, form, "rejected", *[""] * (len(HEAD) - 3)), None
    seconds = time.perf_counter() - start
    report, recorded = artifact.report, _against_recordings(artifact, model.with_suffix(".npz"))
    if recorded.meets == "neither" and LEFT_IN_FLOAT.get(model.stem, ("", 0))[1] == recorded.differ:
        twin = LEFT_IN_FLOAT[model.stem][0]
        what = f"{recorded.differ} of {recorded.outputs} recorded outputs differ"
        totals.explained.append(f"{model.stem}: {what}, because onnxruntime leaves its residuals in float; see {twin}")
    elif recorded.meets == "neither":
        totals.failed.append(f"{model.stem}: {recorded.differ} of {recorded.outputs} recorded outputs differ")
    if seconds > MAX_SECONDS:
        totals.failed.append(f"{model.stem}: compiling takes {seconds:.1f} s")
    yardstick = next((size for start, size in YARDSTICKS.items() if model.stem.startswith(start)), None)
    figures = (
        recorded.outputs, recorded.differ, recorded.noopt_differ, report.arena_bytes, report.arena_lower_bound_bytes,
        yardstick, report.weights_bytes, report.unsimplified.macs, report.macs,
    )  # fmt: skip
    cells = ["-" if figure is None else number(figure) for figure in figures]
    row = (model.stem, form, _becomes(artifact), *cells[:3], recorded.meets, *cells[3:], f"{seconds:.2f}")
    return row, artifact


def _form(model: Path) -> str:
    """How the model spells its quantization."""
    operators = {node.op_type for node in load(model).nodes}
    is_qoperator = any(name.startswith(("QLinear", "QGemm")) for name in operators)
    return "QOperator" if is_qoperator else "QDQ" if "DequantizeLinear" in operators else "float"


def _becomes(artifact: Artifact) -> str:
    """ "integers" but for conversions and copies, or the operators that stay float."""
    floats = [call.op for call in artifact.plan.calls if call.op.y.dtype is DType.FLOAT32]
    left = dict.fromkeys(op.op_type for op in floats if not isinstance(op, Dequantize | Movement))
    return f"float {', '.join(left)}" if left else "integers"


def _against_recordings(artifact: Artifact, path: Path) -> Recorded:
    """Every recorded case, run through the compiled C."""
    if not path.is_file():
        return Recorded()
    with np.load(path) as arrays:
        recorded = dict(arrays)
    program = artifact.program
    total = Recorded()
    with tempfile.TemporaryDirectory() as folder:
        loaded = LoadedModel(artifact.plan, build(artifact.files, ("-O2",), Path(folder)))
        for case in range(len(recorded)):
            feeds = {tensor.name: recorded.get(f"in{case}.{tensor.name}") for tensor in program.inputs}
            if any(array is None for array in feeds.values()):
                break
            got = run(artifact.plan, loaded, feeds)
            values = {} if _is_exact(artifact) else evaluate_all(program, feeds)
            allowed = tolerances(program, values) if values else {}
            for name, y in got.items():
                total = _added(total, recorded, f"out{case}.{name}", y, 2 * allowed.get(name, np.zeros(y.shape)))
    return total


def _is_exact(artifact: Artifact) -> bool:
    return exact(artifact.program).issuperset(tensor.name for tensor in artifact.program.outputs)


def _added(total: Recorded, recorded: dict[str, Array], key: str, y: Array, allowed: Array) -> Recorded:
    default, noopt = recorded[key], recorded.get(f"{key}.noopt", recorded[key])
    return Recorded(
        total.outputs + y.size,
        total.differ + int(differences(default, y, allowed).sum()),
        total.noopt_differ + int(differences(noopt, y, allowed).sum()),
    )


def _print_accuracies(models: list[Path], totals: Totals) -> None:
    """The models that take the labelled inputs: int8, MLPerf Tiny's own keyword spotting."""
    for model in models:
        path = model.with_name(LABELLED)
        if not model.stem.startswith(LABELLED_MODELS) or not path.is_file():
            continue
        with np.load(path) as arrays:
            images, labels = arrays["x_int8_nhwc"], arrays["labels"]
        artifact = qcgen.compile(model, layout="nhwc")
        with tempfile.TemporaryDirectory() as folder:
            loaded = LoadedModel(artifact.plan, build(artifact.files, ("-O2",), Path(folder)))
            name = artifact.plan.inputs[0].tensor.name
            predicted = [int(loaded.run(None, {name: image[None]})[0].argmax()) for image in images]
        accuracy = float(np.mean(np.array(predicted) == labels))
        print(f"{model.stem}: {100 * accuracy:.1f} % of {len(labels)} labelled inputs right, expected 90.2 %")
        if round(accuracy, 3) != EXPECTED_ACCURACY:
            totals.failed.append(f"{model.stem}: {100 * accuracy:.1f} % instead of {100 * EXPECTED_ACCURACY:.1f} %")


def _print_strict(artifacts: dict[Path, Artifact], totals: Totals) -> None:
    """One line for each compiler."""
    print(f"\n{' '.join(STRICT_FLAGS)} -O2")
    for name, command in COMPILERS.items():
        if not shutil.which(name):
            print(f"  {name}: not installed")
            continue
        refused = [model.stem for model, artifact in artifacts.items() if not _is_clean(command, artifact)]
        print(f"  {name}: {len(artifacts) - len(refused)} of {len(artifacts)} models compile without a warning")
        totals.failed += [f"{name} does not take {model}" for model in refused]


def _is_clean(command: tuple[str, ...], artifact: Artifact) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        artifact.write(folder)
        source = f"{artifact.plan.prefix}.c"
        words = [*command, *STRICT_FLAGS, "-O2", "-c", source, "-o", "model.o"]
        return subprocess.run(words, cwd=folder, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
