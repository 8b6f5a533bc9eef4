"""Programs that reserve r9: with NAME_KEEP_R9 no instruction names it, and outputs stay the reference's."""

import re
from pathlib import Path

import numpy as np
import pytest
from emulated import require_core
from marks import some_at_first
from packages import DIGITS
from tools import require

import qcgen
from qcgen.cores import TARGETS
from qcgen.cross import run, succeed
from qcgen.emulate import Trial, cross_build, emulate, random_feeds
from qcgen.emulate.image import compile_command
from qcgen.reference import evaluate

GENERATED = Path(__file__).parents[1] / "generated"
RESERVED = ("-O2", "-ffixed-r9")
FILES = [path.stem for path in sorted(GENERATED.glob("*_cortex_m*.c")) if re.search(r"\br9\b", path.read_text())]


def compiled(name: str, folder: Path, *flags: str):
    """The outcome of compiling a file of the gallery for its core, and its instructions."""
    target = TARGETS["cortex-" + name.split("_cortex_")[1]]
    require(target.compiler)
    command = [*compile_command(target, flags, "gcc"), GENERATED / f"{name}.c", "-o", folder / "_.o"]
    outcome = run([str(word) for word in command], folder, timeout=60)
    return outcome, succeed([f"{target.tools}objdump", "-d", "_.o"], folder) if outcome.returncode == 0 else ""


def test_files_of_several_cores_take_r9():
    assert {name.split("_cortex_")[1] for name in FILES} == {"m0", "m3", "m4"}


@pytest.mark.parametrize("name", some_at_first(FILES, "dense_cortex_m4", "conv_cortex_m0", "conv_cortex_m3"))
def test_the_macro_keeps_assembly_away_from_r9(name, tmp_path):
    macro = f"-D{name.upper()}_KEEP_R9"
    assert re.search(r"\b(r9|sb)\b", compiled(name, tmp_path, *RESERVED)[1])
    assert not re.search(r"\b(r9|sb)\b", compiled(name, tmp_path, *RESERVED, macro)[1])


def test_a_compiler_that_says_that_r9_is_the_base_of_data_gets_an_error(tmp_path):
    outcome, _ = compiled("dense_cortex_m4", tmp_path, "-D__ARM_RWPI")
    assert "define DENSE_CORTEX_M4_KEEP_R9" in outcome.stderr
    assert compiled("dense_cortex_m4", tmp_path, "-D__ARM_RWPI", "-DDENSE_CORTEX_M4_KEEP_R9")[0].returncode == 0


@pytest.mark.parametrize("core", some_at_first(("cortex-m0", "cortex-m3", "cortex-m4"), "cortex-m4"))
def test_outputs_without_r9_equal_the_reference(core, tmp_path):
    require_core(core, counting=False)
    artifact = qcgen.compile(DIGITS, name="digits", target=core, io="quantized")
    assert re.search(r"\br9\b", artifact.files["digits.c"])
    image = cross_build(core, [artifact], (*RESERVED, "-DDIGITS_KEEP_R9"), tmp_path)
    feeds = [random_feeds(artifact.plan, seed) for seed in range(5)]
    outcomes = emulate(image, [Trial(each) for each in feeds])
    for each, outcome in zip(feeds, outcomes, strict=True):
        [(name, expected)] = evaluate(artifact.program, each).items()
        assert np.array_equal(outcome.outputs[name], expected)
