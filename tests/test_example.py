"""Programs for boards: they boot in the emulator, test themselves, tell time per node and the depth of the stack."""

import re
import shutil
from pathlib import Path

import pytest
from emulated import require_core
from marks import some_at_first
from packages import attempt, spoil_test, succeeds, tool

import qcgen
from qcgen.chips import BOARDS
from qcgen.cli import main
from qcgen.example import example

DIGITS = Path(__file__).parent / "data" / "digits"
FIRST, SECOND = DIGITS / "digits_qop_u8.onnx", DIGITS / "digits_qdq_s8.onnx"
BUILT_FOR = [(board.name, board.target.name) for board in BOARDS.values()]
BUILT_FOR += [("mps2-an385", "cortex-m0"), ("virt", "portable")]


def made(folder, *words):
    """The folder of a program of two networks."""
    assert main(["example", str(FIRST), str(SECOND), "-o", str(folder), *words]) == 0
    return folder


def build(folder):
    """Builds a program, where nothing may be warned of."""
    tool("ninja")
    succeeds([tool("cmake"), "-S", folder, "-B", folder / "build", "-G", "Ninja"], folder)
    text = succeeds([tool("cmake"), "--build", folder / "build"], folder)
    assert "warning" not in text


def printed(folder):
    """What a program prints in the emulator, and whether ctest takes it as passed."""
    result = attempt(["ctest", "--test-dir", folder / "build", "--verbose"], folder)
    return re.sub(r"^1: ?", "", result.stdout, flags=re.MULTILINE), result.returncode == 0


@pytest.mark.parametrize("built_for", some_at_first(BUILT_FOR, ("mps2-an386", "cortex-m4")), ids="-".join)
def test_two_networks_run_on_the_board_in_one_arena(built_for, tmp_path):
    board, target = built_for
    require_core(BOARDS[board].target.name, counting=False)
    folder = made(tmp_path, "--board", board, "--target", target)
    build(folder)
    text, passed = printed(folder)
    assert passed
    arenas = []
    for model, name in ((FIRST, "digits_qop_u8"), (SECOND, "digits_qdq_s8")):
        artifact = qcgen.compile(model, target=target)
        [table] = re.findall(rf"{name}: self-test passed\nnode .*\n((?:.*\n)*?)arena (\d+) B, stack (\d+) B\n", text)
        rows = [line.split() for line in table[0].splitlines()]
        *nodes, (last, total) = rows
        assert [row[0] for row in nodes] == [call.op.name for call in artifact.plan.calls]
        assert last == "all"
        assert sum(int(row[1]) for row in nodes) == int(total)
        assert all(int(row[1]) > 0 for row in nodes)
        assert int(table[1]) == artifact.plan.arena_bytes
        assert 100 < int(table[2]) < 2000
        arenas.append(artifact.plan.arena_bytes)
    assert f"one arena for all: {max(arenas)} B" in text


@pytest.mark.parametrize("name", ["network", "most", "networks", "run", "node", "number", "request", "checksum"])
def test_names_of_models_and_those_of_the_program_differ(name, tmp_path):
    require_core("cortex-m4", counting=False)
    assert main(["example", str(FIRST), "--name", name, "--board", "mps2-an386", "-o", str(tmp_path)]) == 0
    target = BOARDS["mps2-an386"].target
    flags = [*BOARDS["mps2-an386"].flags(target.name), "-std=c99", "-Wall", "-Wextra", "-Werror", "-I", tmp_path]
    for file in ("main.c", "serve.c"):
        succeeds([tool("arm-none-eabi-gcc"), *flags, "-fsyntax-only", tmp_path / file], tmp_path)


@pytest.mark.parametrize("name", ["serve", "board", "Hooks", "own_board"])
def test_a_name_whose_files_are_those_of_the_program_is_refused(name, tmp_path, capsys):
    assert main(["example", str(FIRST), "--name", name, "--board", "mps2-an386", "-o", str(tmp_path)]) == 2
    assert f"{name}.c and {name}.h are files of the program: --name calls a model otherwise" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_node_that_differs_is_named_and_fails_the_test(tmp_path):
    require_core("cortex-m4", counting=False)
    folder = made(tmp_path, "--board", "mps2-an386")
    shutil.copytree(folder, tmp_path / "copy" / "src")
    spoil_test(tmp_path / "copy", "digits_qdq_s8")
    build(tmp_path / "copy" / "src")
    text, passed = printed(tmp_path / "copy" / "src")
    assert not passed
    assert "digits_qop_u8: self-test passed" in text
    first = qcgen.compile(SECOND, target="cortex-m4").plan.calls[0].op.name
    assert f"digits_qdq_s8: self-test failed at node {first}\n" in text


@pytest.mark.all
def test_the_stack_is_as_deep_as_what_runs(tmp_path):
    require_core("cortex-m4", counting=False)
    folder, depths = made(tmp_path, "--board", "mps2-an386"), []
    main_c = (folder / "main.c").read_text()
    for block in ("", "volatile uint8_t block[4096];"):
        call = re.search(r"    digits_qop_u8_run\(.*\);\n", main_c)[0]
        (folder / "main.c").write_text(main_c.replace(call, f"{block}{call}{'(void)block[0];' if block else ''}"))
        build(folder)
        depths.append(int(re.search(r"stack (\d+) B", printed(folder)[0])[1]))
    assert 4096 <= depths[1] - depths[0] < 4160


@pytest.mark.all
@pytest.mark.parametrize(
    "options",
    [("--input", "rows", "--layout", "nhwc", "--io", "quantized"), ("--io-memory", "arena"), ("--status",)],
)
def test_networks_of_every_interface_run(options, tmp_path):
    require_core("cortex-m4", counting=False)
    build(made(tmp_path, "--board", "mps2-an386", *options))
    text, passed = printed(tmp_path)
    assert passed
    assert text.count("\nall ") == 2


def test_a_misaligned_arena_is_told():
    text = example([qcgen.compile(FIRST, name="net")], BOARDS["mps2-an386"])["hooks.h"]
    assert "#define NET_ASSERT(condition)" in text
    assert "#define NET_HOOK(node)" in text


def test_a_target_that_the_board_does_not_run_is_refused(capsys, tmp_path):
    command = ["example", str(FIRST), "--board", "mps2-an385", "--target", "cortex-m55", "-o", str(tmp_path)]
    assert main(command) == 2
    assert "mps2-an385 runs code for cortex-m3, cortex-m0, " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_examples_are_written_again_but_not_over_a_program_of_somebodys(capsys, tmp_path):
    made(made(tmp_path, "--board", "virt"), "--board", "mps2-an386")
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    assert main(["example", str(FIRST), "--board", "virt", "-o", str(tmp_path)]) == 1
    assert "main.c: qcgen did not generate this file" in capsys.readouterr().err
