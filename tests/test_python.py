"""What `import qcgen` gives a program in Python."""

import argparse
import ast
import inspect
import pickle
import pydoc
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from emulated import require_core
from models import float_conv, qlinear_conv, random_weights
from tools import require_modules

import qcgen
from qcgen import chips, options
from qcgen.cli.options import add_code_options, compile_options
from qcgen.cores import TARGETS
from qcgen.emulate import measure, random_feeds
from qcgen.ir.plan import Options
from qcgen.ir.types import Layout
from qcgen.lower import NUMERICS

DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"


@pytest.fixture(scope="module")
def artifact():
    return qcgen.compile(DIGITS, name="digits", layout="nhwc", io="quantized")


@pytest.fixture(scope="module")
def session(artifact):
    return artifact.load("-O0")


def test_an_artifact_shows_itself_in_a_line(artifact):
    constants, arena = artifact.report.constants_bytes, artifact.report.arena_bytes
    what = f"11 nodes, {constants} B of constants, arena {arena} B; digits.h, digits.c"
    assert repr(artifact) == f"<qcgen.Artifact digits for portable: {what}>"


def test_inputs_and_outputs_are_described_as_onnxruntime_describes_them(session):
    require_modules("onnxruntime")
    from onnxruntime import InferenceSession

    ort = InferenceSession(DIGITS)
    of_model = qcgen.compile(DIGITS, name="digits").load("-O0")
    for own, theirs in ((of_model.get_inputs(), ort.get_inputs()), (of_model.get_outputs(), ort.get_outputs())):
        assert [(x.name, x.type, x.shape) for x in own] == [(x.name, x.type, x.shape) for x in theirs]
    [x], [y] = session.get_inputs(), session.get_outputs()
    assert (x.name, x.type, x.shape, y.shape) == ("image_quantized", "tensor(int8)", [1, 8, 8, 1], [1, 10])


@pytest.mark.parametrize("names", [None, [], "probabilities_quantized", ["probabilities_quantized"]], ids=str)
def test_outputs_are_named_as_for_onnxruntime(names, session):
    [y] = session.run(names, {"image_quantized": np.zeros((1, 8, 8, 1), np.int8)})
    assert y.shape == (1, 10)


def test_a_type_checker_knows_every_target_and_no_other():
    assert get_args(options.CoreName) == tuple(TARGETS), "options.CoreName lists the targets in their order"
    assert set(get_args(options.ChipName)) == set(chips.CHIPS)
    assert set(get_args(options.SeriesName)) == chips.SERIES.keys() - chips.CHIPS.keys()
    hints = get_type_hints(qcgen.compile, localns={"ModelProto": object})
    assert hints["target"] == options.CoreName | options.SeriesName | options.ChipName
    assert hints["board"] == options.ChipName | None


def test_the_other_words_are_those_of_the_code():
    assert get_args(options.NumericsName) == tuple(NUMERICS)
    assert set(get_args(options.LayoutName)) == {"model", *(layout.value for layout in Layout)}


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("layout", "model, nhwc, nchw"),
        ("optimize", "size, speed"),
        ("io", "model, quantized"),
        ("io_memory", "caller, arena"),
        ("state", "arena, caller"),
        ("input", "whole, rows"),
    ],
)
def test_a_word_that_an_option_does_not_have_is_refused(option, known):
    with pytest.raises(ValueError, match=f"^{option} must be one of {known}, not 'z'$"):
        qcgen.compile(DIGITS, **{option: "z"})


def test_the_package_shows_what_it_is_for():
    names = {"compile", "Artifact", "verify", "bench", "targets"}
    assert names <= set(dir(qcgen))
    page = pydoc.render_doc(qcgen, renderer=pydoc.plaintext)
    assert all(f"qcgen.{name}(" in page.partition("PACKAGE CONTENTS")[0] for name in names - {"Artifact"})
    assert all(re.search(rf"^    (class )?{name}\(", page, re.MULTILINE) for name in names)


def test_targets_are_those_of_the_command_line():
    found = qcgen.targets()
    assert [*found] == [*TARGETS]
    assert {chip.name for core in found.values() for chip in core.chips} == {*chips.CHIPS}
    assert (found["cortex-m4"].is_emulated, found["portable"].is_emulated) == (True, False)
    assert "stm32f407" in {chip.name for chip in found["cortex-m4"].chips}


@pytest.fixture(scope="module")
def small():
    """A layer, and the same with one weight of the C changed."""
    artifact = qcgen.compile(qlinear_conv((1, 2, 4, 4), random_weights((4, 2, 3, 3))), name="net", target="cortex-m4")
    text = artifact.files["net.c"]
    word = re.search(r"_constants\[24\] = \{\s*0,\s*0,\s*(-?\d+)", text)
    spoilt = text[: word.start(1)] + str(int(word[1]) ^ 64) + text[word.end(1) :]
    return artifact, replace(artifact, files={**artifact.files, "net.c": spoilt})


def test_verify_judges_the_code(small):
    right, wrong = (qcgen.verify(each, host=True, cases=2, flags="-O0", sums=False, oracle="own") for each in small)
    assert (right.is_right, right.differing, right.core, wrong.is_right) == (True, 0, None, False)
    counts = f"0 of {right.outputs} outputs differ in {right.cases} cases"
    assert repr(right) == f"<qcgen.Verification on this machine: right; {counts}>"
    assert "WRONG" in repr(wrong)


def test_bench_counts_on_the_emulated_core(small):
    require_core("cortex-m4")
    feeds = random_feeds(small[0].plan, 0)
    found = qcgen.bench(small[0], feeds, board="stm32f407", flags="-O2")
    assert found.instructions == measure(small[0], feeds, flags=("-O2",)).instructions
    assert found.boards == ("stm32f407",)
    assert repr(found).startswith(f"<qcgen.Measurement on cortex-m4: {found.instructions} instructions, about ")


REFUSED = {
    "there is no emulated core for portable: compile with target= one of": ("bench", 0, {}),
    "board must be one of": ("bench", 1, {"board": "moon"}),
    "the core of rp2040 is not a cortex-m4": ("bench", 1, {"board": "rp2040"}),
    "core must be one of ibex, ": ("bench", 1, {"core": "ibex"}),
    "oracle must be one of auto, onnxruntime, onnx, tflm, own, not 'me'": ("verify", 0, {"oracle": "me"}),
    "it takes what qcgen.compile returns, not str": ("verify", 2, {}),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_verify_and_bench_do_not_know_is_refused(text, small, artifact):
    name, subject, options = REFUSED[text]
    with pytest.raises((ValueError, TypeError), match=re.escape(text)):
        getattr(qcgen, name)((artifact, small[0], "net.onnx")[subject], **options)


def problem_of(model, **options):
    with pytest.raises(qcgen.ModelRejected) as rejection:
        qcgen.compile(model, **options)
    return str(rejection.value)


def test_problems_speak_python():
    model = qlinear_conv((1, 2, 4, 4), random_weights((4, 2, 3, 3)))
    assert "not 2 as batch says" in problem_of(model, batch=2)
    assert "use arena=" in problem_of(DIGITS, arena=1)
    float_layer = float_conv((1, 2, 4, 4), np.ones((1, 2, 3, 3), np.float32))
    assert "it computes in float, which strict=True refuses" in problem_of(float_layer, strict=True)
    first, _, height, _ = model.graph.input[0].type.tensor_type.shape.dim
    height.dim_param = "H"
    assert 'add dims={"H": SIZE}' in problem_of(model)
    height.dim_value, first.dim_param = 4, "N"
    assert qcgen.compile(model).notes[0].endswith("is open and taken as 1; batch=N takes another")


def test_a_file_of_somebody_else_is_left_with_python_s_words(tmp_path, artifact):
    (tmp_path / "digits.c").write_text("int mine;")
    with pytest.raises(FileExistsError, match="choose another name or folder, or say force=True"):
        artifact.write(tmp_path)


def texts(path):
    """The strings of a module that are not docstrings, those of an f-string with their blanks as X."""
    tree = ast.parse(path.read_text())
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value


def test_texts_outside_the_command_line_spell_no_option_themselves():
    """But commands of others, and pages that say what the command line does."""
    root = Path(qcgen.__file__).parent
    paths = [path for path in root.rglob("*.py") if path.name not in ("options.py", "page.py")]
    found = [text for path in paths if path.parent.name != "cli" for text in texts(path)]
    flags = {row.flag for row in options.OPTIONS.values()} - {"-o"}
    assert len(flags) > 30
    named = [text for text in found if flags & {*re.findall(r"--[a-z-]+(?!\S*=)", text)}]
    assert [text for text in named if "model.onnx" not in text.lower()] == []


def test_every_option_is_one_of_the_table():
    """What the signatures say, and what the Program is compiled for."""
    for function in (qcgen.compile, qcgen.verify):
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY:
                default = options.OPTIONS[parameter.name].kind.default
                assert parameter.default == default or (parameter.default, default) == (None, ()), (function, parameter)
    rows = [options.OPTIONS[each.name] for each in fields(Options)]
    assert [each.default for each in fields(Options)] == [row.kind.default for row in rows]


MISTAKES = {
    "dims must be numbers by names: that of 'N' is '1'": {"dims": {"N": "1"}},
    "constants must be arrays by names: that of 'x' is [1]": {"constants": {"x": [1]}},
    "rename must be names by names: that of 'x' is 5": {"rename": {"x": 5}},
    "batch must be a number or None, not 'x'": {"batch": "x"},
    "board must be a name, not 5": {"board": 5},
    "target must be a name, not 4": {"target": 4},
    "node must be a name, not ['a']": {"node": ["a"]},
    "outputs must be a name or several, not 5": {"outputs": 5},
}


@pytest.mark.parametrize("text", MISTAKES)
def test_an_option_of_another_type_is_refused(text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        qcgen.compile(DIGITS, **MISTAKES[text])


def test_an_artifact_travels_to_another_process(artifact):
    travelled = pickle.loads(pickle.dumps(artifact))
    assert (travelled.files, travelled.report, repr(travelled)) == (artifact.files, artifact.report, repr(artifact))


def test_what_generated_files_say_of_options_is_what_the_command_line_reads():
    of_code = {*options.CODE_OPTIONS}
    assert {each.name for each in fields(Options)} - {"self_test", "test_slices"} == of_code - {"name", "node"}
    chosen = Options(
        target="cortex-m4", arena=9, outputs=("a", "b"), rename=(("a", "c"),), simplify=False, self_test=True
    )
    words = chosen.words
    assert " ".join(words[8:]) == "--arena 9 --self-test --output a --output b --rename a=c --no-simplify"
    parser = argparse.ArgumentParser()
    add_code_options(parser)
    read = compile_options(parser.parse_args([word for word in words if word != "--self-test"]))
    assert replace(read, self_test=True) == chosen
