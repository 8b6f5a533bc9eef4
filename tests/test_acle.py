"""Compilers that do not read GNU assembly: the C has DSP instructions by Arm's intrinsics, and outputs stay right."""

import re
from pathlib import Path

import pytest
from emulated import require_core
from marks import some_at_first
from packages import DIGITS
from tools import require

import qcgen
from qcgen.cores import TARGETS
from qcgen.cross import compile_command, succeed
from qcgen.emulate import Trial, cross_build, emulate, random_feeds
from qcgen.reference import evaluate

GENERATED = Path(__file__).parents[1] / "generated"
# What gcc says of itself is taken back. Its own intrinsics then warn of their types.
FOREIGN = ("-O2", "-U__GNUC__", "-Wno-sign-conversion")
FILES = sorted(path.stem for path in GENERATED.glob("*_cortex_m4.c") if "__smlad" in path.read_text())


@pytest.mark.parametrize("name", some_at_first(FILES, "conv_cortex_m4", "dense_4_bits_cortex_m4"))
def test_files_have_dsp_instructions_without_gnu_assembly(name, tmp_path):
    target = TARGETS["cortex-m4"]
    require(target.compiler)
    source = GENERATED / f"{name}.c"
    succeed([*compile_command(target, FOREIGN, "gcc"), str(source), "-o", "_.o"], tmp_path)
    listing = succeed([f"{target.tools}objdump", "-d", "_.o"], tmp_path)
    own = [text for text in re.split(r"^\w+ <", listing, flags=re.MULTILINE) if text.startswith(name)]
    assert any("smlad" in text or "smuad" in text for text in own)
    seen = succeed([*compile_command(target, FOREIGN, "gcc"), str(source), "-E", "-P", "-o", "-"], tmp_path)
    assert "__asm__" not in seen[seen.index(f"{name}_dsp_") :]


@pytest.mark.parametrize("model", ["digits_qdq_u8", "digits_qop_s8"])
def test_outputs_equal_the_reference(model, tmp_path):
    require_core("cortex-m4", counting=False)
    artifact = qcgen.compile(DIGITS.with_name(f"{model}.onnx"), name="net", target="cortex-m4", io="quantized")
    image = cross_build("cortex-m4", [artifact], FOREIGN, tmp_path)
    feeds = [random_feeds(artifact.plan, seed) for seed in range(5)]
    outcomes = emulate(image, [Trial(each) for each in feeds])
    for each, outcome in zip(feeds, outcomes, strict=True):
        [(name, expected)] = evaluate(artifact.program, each).items()
        assert (outcome.outputs[name].reshape(-1) == expected.reshape(-1)).all()
