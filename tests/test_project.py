"""The file qcgen.toml: qcgen compile without a model compiles those that it names."""

import json
from pathlib import Path

import pytest

from qcgen.cli import main
from qcgen.cli.compile import KEYS

DIGITS = Path(__file__).parent / "data" / "digits"
PROJECT = f"""
[[model]]
path = "{DIGITS / "digits_qop_s8.onnx"}"
name = "digits"
folder = "firmware/digits"
target = "cortex-m4"
io = "quantized"
self-test = true

[[model]]
path = "{DIGITS / "digits_qdq_u8.onnx"}"
name = "other"
folder = "firmware"
node = ["conv1", "max"]
no-simplify = false
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, in which qcgen is called."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.[ch]")}


@pytest.mark.all
def test_all_models_are_compiled_with_their_options(here, capsys):
    Path("qcgen.toml").write_text(PROJECT)
    assert main(["compile"]) == 0
    expected = {f"firmware/digits/digits{end}" for end in (".c", ".h", "_test.c", "_test.h")}
    expected |= {f"firmware/other_{node}.{end}" for node in ("conv1", "max") for end in "ch"}
    assert written(here) == expected
    assert "firmware/digits/digits.h, " in capsys.readouterr().out
    project = here.joinpath("firmware", "digits", "digits.c").read_text()
    words = ["--name", "digits", "--target", "cortex-m4", "--io", "quantized", "--self-test", "-o", "single"]
    assert main(["compile", str(DIGITS / "digits_qop_s8.onnx"), *words]) == 0
    assert here.joinpath("single", "digits.c").read_text() == project


def test_options_of_the_command_line_win_and_are_for_all_models(here, capsys):
    Path("qcgen.toml").write_text(PROJECT)
    assert main(["compile", "--target", "cortex-m3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3
    for path in written(here):
        if path.endswith(".c"):
            assert "--target cortex-m3" in Path(path).read_text()


@pytest.mark.all
def test_a_check_compares_all_models(here, capsys):
    Path("qcgen.toml").write_text(PROJECT)
    assert main(["compile"]) == 0
    assert main(["compile", "--check"]) == 0
    assert "8 of 8 files in firmware/digits, firmware are as they would be" in capsys.readouterr().err
    changed = here / "firmware" / "other_max.c"
    changed.write_text(changed.read_text() + "\n")
    assert main(["compile", "--check"]) == 1


@pytest.mark.usefixtures("here")
def test_tables_are_options_that_have_names(capsys):
    Path("qcgen.toml").write_text(f'[[model]]\npath = "{DIGITS / "digits_qop_s8.onnx"}"\ndim = {{N = 1, M = 2}}\n')
    assert main(["compile"]) == 1
    told = capsys.readouterr().err
    assert "dimension 'N': the model has no symbolic dimension of this name" in told
    assert "dimension 'M'" in told


@pytest.mark.all
def test_models_are_written_together_or_not_at_all(here, capsys):
    Path("qcgen.toml").write_text(PROJECT + '\n[[model]]\npath = "none.onnx"\n')
    assert main(["compile"]) == 1
    assert "none.onnx cannot be compiled" in capsys.readouterr().err
    assert not written(here)
    Path("qcgen.toml").write_text(PROJECT)
    here.joinpath("firmware").mkdir()
    here.joinpath("firmware", "other_max.c").write_text("int mine;\n")
    assert main(["compile"]) == 1
    assert "firmware/other_max.c: qcgen did not generate this file" in capsys.readouterr().err
    assert written(here) == {"firmware/other_max.c"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no table [[model]]"),
        ("[[model]", "Expected"),
        ("\xff", "'utf-8' codec"),
        ('[[modell]]\npath = "a"', "unknown key 'modell'"),
        ('[model]\npath = "a"', "it has no table [[model]]"),
        ("[[model]]\npath = 3", "model 1: it has no path"),
        ('[[model]]\npath = "a"\n[[model]]\npath = "b"\ntaget = "c"', "model 2: unknown key 'taget'; there are path, "),
        ('[[model]]\npath = "a"\ntarget = "z80"', "model 1: argument --target: 'z80' is not a target, chip or series"),
        ('[[model]]\npath = "a"\nself-test = "yes"', "model 1: argument --self-test: ignored explicit argument"),
        ('[[model]]\npath = "a"\narena = 1.5', "model 1: arena is neither text, a number"),
        ('[[model]]\npath = "a"\nbake = true', "model 1: argument --bake: give the constants as --data FILE.npz"),
    ],
)
def test_what_is_wrong_with_the_file_is_told(text, said, here, capsys):
    Path("qcgen.toml").write_bytes(text.encode("latin-1"))
    assert main(["compile"]) == 1
    assert f"qcgen: qcgen.toml: {said}" in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["qcgen.toml"]


def test_two_models_of_one_name_are_refused(here, capsys):
    Path("qcgen.toml").write_text(f'[[model]]\npath = "{DIGITS / "digits_qop_s8.onnx"}"\n' * 2)
    assert main(["compile"]) == 1
    assert "model 2: two models would be written to digits_qop_s8." in capsys.readouterr().err
    assert not written(here)


@pytest.mark.usefixtures("here")
def test_without_a_file_the_model_is_required(capsys):
    assert main(["compile"]) == 2
    assert "the following arguments are required: MODEL, where there is no qcgen.toml" in capsys.readouterr().err


def test_every_option_of_a_model_can_stand_in_the_file(capsys):
    assert main(["compile", "--help"]) == 0
    text = capsys.readouterr().out
    listed = {word.strip(",]") for word in text.replace("[", " ").split() if word.startswith("--")}
    assert listed - {"--help", "--check", "--force", "--json", "--quiet", "--verbose"} == {
        row.flag for row in KEYS.values() if row.flag != "-o"
    }
    assert [key for key, row in KEYS.items() if row.flag == "-o"] == ["folder"]
