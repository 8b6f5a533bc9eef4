"""qcgen verify --target host was built with -O2: the instructions of its code never ran, and nothing said so."""

import pytest
from batch import require
from models import qlinear_conv, random_weights

import qcgen
from qcgen.cli import main
from qcgen.verification import running, verify

MODEL = qlinear_conv((1, 4, 6, 7), random_weights((16, 4, 3, 3), seed=5))
HAS, HAS_NOT = frozenset(("__AVX2__", "__AVXVNNI__")), frozenset(("__AVX2__",))
SAID = "the code has neither VNNI nor SDOT here: these instructions were not run, only their portable meaning"


def flags_of(monkeypatch, target, macros, **options):
    """The flags built with, and what is said of instructions that were not run."""
    require("gcc")
    monkeypatch.setattr(running, "defined", lambda _: macros)
    found = verify(qcgen.compile(MODEL, target=target), sums=False, cases=0, oracle="own", **options)
    return [word for word in found.command if word.startswith(("-O", "-m"))], found.unrun


def test_code_for_the_host_is_built_for_the_host(monkeypatch):
    monkeypatch.setattr(running.platform, "machine", lambda: "x86_64")
    assert flags_of(monkeypatch, "host", HAS) == (["-O3", "-march=native"], "")
    assert running.usual_flags("cortex-m4", emulated=True) == ("-O2",)
    monkeypatch.setattr(running.platform, "machine", lambda: "aarch64")
    assert running.usual_flags("host", emulated=False) == ("-O3", "-mcpu=native")


def test_code_for_other_targets_is_built_as_before(monkeypatch):
    assert flags_of(monkeypatch, "portable", HAS_NOT) == (["-O2"], "")


@pytest.mark.parametrize("flags", [None, ("-O0",)])
def test_instructions_that_do_not_run_are_named(monkeypatch, flags):
    assert flags_of(monkeypatch, "host", HAS_NOT, flags=flags)[1].endswith(SAID)


def test_the_compiler_is_asked_for_them():
    require("gcc")
    assert "__AVXVNNI__" not in running.defined(("-O2",))
    assert "__AVXVNNI__" in running.defined(("-O2", "-D__AVXVNNI__=1"))
    assert running.defined(("--no-such-option",)) == frozenset()


def test_the_command_says_what_did_not_run(monkeypatch, tmp_path, capsys):
    require("gcc")
    monkeypatch.setattr(running, "defined", lambda _: HAS_NOT)
    path = tmp_path / "m.onnx"
    path.write_bytes(MODEL.SerializeToString())
    assert main(("verify", str(path), "--target", "host", "--cflags", "-O0", "--cases", "0", "--no-sums")) == 0
    assert f"note: built with -O0 {SAID}\n" in capsys.readouterr().out
