"""The command line: what it prints and writes, its exit statuses, and that it never shows a traceback."""

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from marks import some_at_first
from models import NHWC, float_conv, graph_model, qlinear_conv, random_weights
from tools import require_modules

import qcgen
from qcgen import cli
from qcgen.check import since
from qcgen.chips import CHIPS
from qcgen.cli import main, options
from qcgen.cores import TARGETS
from qcgen.geometry import CONVOLUTIONS
from qcgen.lower import LOWERINGS
from qcgen.options import GROUPS

DIGITS = Path(__file__).parent / "data" / "digits"
QOPERATOR_MODELS = ("digits_qop_s8", "digits_qop_u8")
CONVOLUTION_NODES = ("conv1_quant", "depthwise2_quant", "pointwise3_quant", "conv4_quant", "conv5_quant")


@pytest.fixture
def model(tmp_path, monkeypatch):
    """One small convolution as model.onnx in the current folder."""
    monkeypatch.chdir(tmp_path)
    content = qlinear_conv((1, 2, 6, 6), random_weights((4, 2, 3, 3)), x_type="int8", y_type="int8")
    onnx.save(content, "model.onnx")
    return "model.onnx"


@pytest.fixture
def outcome(capsys):
    """Runs a command line: the exit status, standard output, standard error."""

    def run(*argv):
        status = main([str(word) for word in argv])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        assert "internal error" not in captured.err
        return status, captured.out, captured.err

    return run


def python_m(*argv, **kwargs):
    path = os.pathsep.join([str(Path(qcgen.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, **kwargs.pop("environment", {})}
    return subprocess.run(
        [sys.executable, "-m", "qcgen", *map(str, argv)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        **kwargs,
    )


def listing(folder="."):
    return sorted(path.name for path in Path(folder).iterdir())


# --- compile


def test_compile_writes_two_files_here_and_prints_a_table(model, outcome):
    status, out, err = outcome("compile", model)
    assert (status, err) == (0, "")
    assert listing() == ["model.c", "model.h", "model.onnx"]
    head, row, *_ = out.splitlines()
    assert head.split() == "node operator kernel multiply-adds constants scratch".split()
    assert row.startswith("conv1  QLinearConv  portable/")
    assert "1 152" in row  # 4 channels * 4 * 4 outputs * 18 taps
    assert "model.h, model.c: 1 152 multiply-adds\n" in out
    assert "\nflash: constants " in out


def test_compile_writes_what_the_python_interface_gives(model, outcome):
    outcome("compile", model, "-o", "out", "--name", "kws", "--layout", "nhwc", "--optimize", "speed", "--json")
    artifact = qcgen.compile(model, name="kws", layout="nhwc", optimize="speed")
    assert {name: Path("out", name).read_text() for name in listing("out")} == artifact.files


def test_compile_json_prints_nothing_but_the_report(model, outcome):
    status, out, _ = outcome("compile", model, "--json")
    assert status == 0
    assert out == qcgen.compile(model).report.to_json() + "\n"


def test_report_option_writes_the_report_beside_the_files(model, outcome):
    outcome("compile", model, "-o", "out", "--report", "json")
    assert listing("out") == ["model.c", "model.h", "model_report.json"]
    assert json.loads(Path("out/model_report.json").read_text()) == json.loads(qcgen.compile(model).report.to_json())


def test_one_node_has_the_prefix_of_the_model(outcome, tmp_path):
    assert outcome("compile", DIGITS / "digits_qop_s8.onnx", "--node", "conv4_quant", "-o", tmp_path)[0] == 0
    assert listing(tmp_path) == ["digits_qop_s8.c", "digits_qop_s8.h"]


def test_several_nodes_become_files_of_their_own_and_a_list_of_reports(outcome, tmp_path):
    nodes = ["--node", "conv1_quant", "--node", "conv4_quant", "--node", "conv1_quant"]
    status, out, _ = outcome("compile", DIGITS / "digits_qop_s8.onnx", *nodes, "--name", "d", "-o", tmp_path, "--json")
    assert status == 0
    names = ["d_conv1_quant.c", "d_conv1_quant.h", "d_conv4_quant.c", "d_conv4_quant.h"]
    assert listing(tmp_path) == names
    assert [report["nodes"][0]["name"] for report in json.loads(out)] == ["conv1_quant", "conv4_quant"]


def test_several_nodes_are_added_up_in_the_table(outcome, tmp_path):
    nodes = ["--node", "conv1_quant", "--node", "depthwise2_quant"]
    _, out, _ = outcome("compile", DIGITS / "digits_qop_s8.onnx", *nodes, "-v", "-o", tmp_path)
    row = next(line for line in out.splitlines() if line.startswith("all "))
    assert "18 432" in row
    assert "(100.0 %)" in row or "guard band" in row


def test_nodes_whose_names_become_the_same_identifier_get_different_files(outcome, tmp_path):
    first = qlinear_conv((1, 2, 4, 4), random_weights((2, 2, 1, 1)), node_name="a/b")
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in first.graph.initializer}
    nodes = []
    for name, output in (("a/b", "y"), ("a.b", "z")):
        node = onnx.NodeProto()
        node.CopyFrom(first.graph.node[0])
        node.name, node.output[0] = name, output
        nodes.append(node)
    onnx.save(
        graph_model(nodes, {"x": ("uint8", (1, 2, 4, 4))}, {"y": None, "z": None}, constants), tmp_path / "m.onnx"
    )
    assert outcome("compile", tmp_path / "m.onnx", "--node", "a/b", "--node", "a.b", "-o", tmp_path / "out")[0] == 0
    assert len(listing(tmp_path / "out")) == 4


def test_problems_of_all_nodes_are_told_and_nothing_is_written(outcome, unsupported, tmp_path):
    nodes = ["--node", "conv1_quant", "--node", "nowhere", "--node", "max"]
    status, out, err = outcome("compile", unsupported, *nodes, "-o", tmp_path / "out")
    assert (status, out) == (1, "")
    assert "m.onnx cannot be compiled: 2 problems\n" in err
    assert "node 'nowhere': the model has no node of this name" in err
    assert "the operator Median is not supported" in err
    assert not (tmp_path / "out").exists()


def test_a_rejected_model_gets_all_its_problems_on_standard_error(outcome, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = qlinear_conv((1, 2, 6, 6), random_weights((4, 2, 3, 3)), x_scale=-1.0, bias=[1, 2, 3])
    onnx.save(wrong, "wrong.onnx")
    with pytest.raises(qcgen.ModelRejected) as rejection:
        qcgen.compile("wrong.onnx")
    problems = rejection.value.problems
    assert len(problems) == 2
    for command in ("compile", "inspect", "verify"):
        status, out, err = outcome(command, "wrong.onnx")
        assert (status, out) == (1, "")
        assert err == "".join(f"{line}\n" for line in ["wrong.onnx cannot be compiled: 2 problems", *problems])
    assert listing() == ["wrong.onnx"]


def test_a_symbolic_dimension_is_fixed_by_dim(outcome, tmp_path):
    onnx.save(qlinear_conv(("N", 2, 6, "W"), random_weights((4, 2, 3, 3))), tmp_path / "m.onnx")
    assert outcome("compile", tmp_path / "m.onnx", "-o", tmp_path)[0] == 1
    arguments = ["--dim", "N=2", "--dim", "W=7", "-o", tmp_path, "--json"]
    status, out, _ = outcome("compile", tmp_path / "m.onnx", *arguments)
    assert status == 0
    assert json.loads(out)["macs"] == 2 * 4 * (4 * 5) * 18


@pytest.mark.parametrize(
    "content", [None, b"", b"\x08\x08garbage", b"\xff" * 40], ids=["missing", "empty", "cut", "noise"]
)
def test_a_file_that_is_no_model_is_rejected(outcome, tmp_path, content):
    if content is not None:
        (tmp_path / "m.onnx").write_bytes(content)
    for command in ("compile", "inspect", "verify"):
        status, _, err = outcome(command, tmp_path / "m.onnx")
        assert status == 1
        assert "m.onnx cannot be compiled: 1 problem" in err


def test_a_folder_is_no_model(outcome, tmp_path):
    status, _, err = outcome("compile", tmp_path)
    assert status == 1
    assert "cannot be read" in err


def test_an_output_folder_that_cannot_be_made_is_one_clear_line(model, outcome):
    status, out, err = outcome("compile", model, "-o", f"{model}/out")
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert model in err


def test_nothing_is_written_where_one_file_cannot_be(model, outcome):
    Path("out/model.h").mkdir(parents=True)
    status, _, err = outcome("compile", model, "-o", "out")
    assert status == 1
    assert "model.h" in err
    assert listing("out") == ["model.h"]


# --- usage

WRONG_USAGE = {
    "no command": [],
    "unknown command": ["build"],
    "no model": ["compile"],
    "two models": ["compile", "a.onnx", "b.onnx"],
    "unknown option": ["compile", "m.onnx", "--fast"],
    "abbreviated option": ["compile", "m.onnx", "--opt", "size"],
    "unknown target": ["compile", "m.onnx", "--target", "cortex-m99"],
    "unknown layout": ["compile", "m.onnx", "--layout", "NHWC"],
    "unknown numerics": ["compile", "m.onnx", "--numerics", "tflite"],
    "unknown optimize": ["compile", "m.onnx", "--optimize", "3"],
    "unknown io": ["compile", "m.onnx", "--io", "float"],
    "each and some": ["verify", "m.onnx", "--each", "--node", "a"],
    "name with a dash": ["compile", "m.onnx", "--name", "my-model"],
    "name that starts with a digit": ["compile", "m.onnx", "--name", "1st"],
    "name that is a keyword": ["compile", "m.onnx", "--name", "int"],
    "empty name": ["compile", "m.onnx", "--name", ""],
    "dim without value": ["compile", "m.onnx", "--dim", "N"],
    "dim without name": ["compile", "m.onnx", "--dim", "=1"],
    "dim that is not a number": ["inspect", "m.onnx", "--dim", "N=one"],
    "dim of zero": ["verify", "m.onnx", "--dim", "N=0"],
    "negative cases": ["verify", "m.onnx", "--cases", "-1"],
    "unbalanced cflags": ["verify", "m.onnx", "--cflags", "'-O2"],
    "data for two models": ["verify", "a.onnx", "b.onnx", "--data", "d.npz"],
    "cflags without value": ["verify", "m.onnx", "--cflags"],
}


@pytest.mark.parametrize("argv", WRONG_USAGE.values(), ids=WRONG_USAGE.keys())
def test_wrong_usage_is_status_2_and_two_lines(outcome, argv):
    status, out, err = outcome(*argv)
    assert (status, out) == (2, "")
    command = f"qcgen {argv[0]}" if argv and argv[0] in cli.COMMANDS else "qcgen"
    what, how = err.splitlines()
    assert what.startswith(f"{command}: error: ")
    assert how == f"{command} --help shows what there is"


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["compile", "m.onnx", "--ouput=y"], "unknown argument '--ouput=y': did you mean --output?"),
        (["bench", "m.onnx", "--layuot", "nhwc"], "unknown argument '--layuot': did you mean --layout?"),
        (["compile", "m.onnx", "--layout", "nhcw"], "argument --layout: unknown 'nhcw': did you mean nhwc?"),
        (["compile", "m.onnx", "--io", "0"], "argument --io: unknown '0': there are model, quantized"),
        (["complie", "m.onnx"], "argument COMMAND: unknown 'complie': did you mean compile?"),
        (["ops", "more"], "unknown argument 'more'"),
    ],
)
def test_wrong_usage_names_what_was_probably_meant(outcome, argv, hint):
    assert outcome(*argv)[2].splitlines()[0].endswith(f": error: {hint}")


def test_sizes_may_have_units():
    parser = argparse.ArgumentParser()
    options.add_compile_options(parser)
    args = parser.parse_args(["--arena", "4k", "--flash", "64KiB"])
    assert (args.arena, args.flash) == (4096, 65536)


def test_a_c_file_is_not_taken_for_a_folder(model, outcome):
    status, out, err = outcome("compile", model, "-o", "out/net.c")
    assert (status, out) == (2, "")
    assert "'out/net.c' is not a folder's name" in err
    assert "--name net calls them net.c and net.h" in err
    assert listing() == ["model.onnx"]
    Path("net.c").mkdir()
    assert outcome("compile", model, "-o", "net.c")[0] == 0


def test_a_dimension_with_two_values_is_wrong_usage(model, outcome):
    status, _, err = outcome("compile", model, "--dim", "N=1", "--dim", "N=2")
    assert status == 2
    assert "N is set to 1 and to 2" in err


def test_version_and_help_succeed(outcome):
    assert outcome("--version") == (0, f"qcgen {qcgen.__version__}\n", "")
    for argv in (["--help"], *([command, "--help"] for command in cli.COMMANDS)):
        status, out, err = outcome(*argv)
        assert (status, err) == (0, "")
        assert out.startswith("usage: qcgen")


def test_the_commands_that_compile_have_the_same_options(outcome):
    shared = (
        "-o --name --target --layout --numerics --optimize --node --dim --io --arena --io-memory --input --no-simplify"
    )
    for command in ("compile", "inspect", "verify"):
        text = outcome(command, "--help")[1]
        assert [option for option in [*shared.split(), "--json"] if option not in text] == []


def test_the_defaults_are_those_of_the_python_interface(model):
    parser = argparse.ArgumentParser()
    options.add_compile_options(parser)
    assert options.compile_options(parser.parse_args([])) == qcgen.compile(model).plan.options


@pytest.mark.parametrize(
    "option",
    [
        {"target": "z80"},
        {"layout": "chw"},
        {"numerics": "exact"},
        {"optimize": "0"},
        {"io": "int8"},
        {"io_memory": "heap"},
        {"input": "row"},
        {"name": "a-b"},
    ],
)
def test_the_python_interface_refuses_values_that_do_not_exist(model, option):
    with pytest.raises(ValueError, match=next(iter(option))):
        qcgen.compile(model, **option)


def test_usage_questions_are_answered_without_onnx_and_numpy():
    code = "import sys; from qcgen.cli import main; main(['targets']); main(['compile', '-x']); main(['--help']); "
    code += "sys.exit(any(name in sys.modules for name in ('onnx', 'numpy', 'jinja2', 'cffi')))"
    folder = Path(qcgen.__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, check=False).returncode == 0


# --- as a program


def test_python_m_compiles(model, tmp_path):
    result = python_m("compile", model, "--json", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["name"] == "model"
    assert listing() == ["model.c", "model.h", "model.onnx"]


def test_python_m_gives_the_exit_status(tmp_path):
    assert python_m("compile", "missing.onnx", cwd=tmp_path).returncode == 1
    assert python_m("compile", cwd=tmp_path).returncode == 2


def test_names_that_the_terminal_cannot_show_do_no_harm(tmp_path):
    onnx.save(qlinear_conv((1, 2, 4, 4), random_weights((2, 2, 1, 1)), node_name="тест\x1b\n"), tmp_path / "m.onnx")
    result = python_m("inspect", "m.onnx", cwd=tmp_path, environment={"PYTHONIOENCODING": "ascii"})
    assert result.returncode == 0
    assert "\\u0442" in result.stdout
    assert "\x1b" not in result.stdout


def test_a_reader_that_goes_away_causes_no_traceback():
    command = f"{sys.executable} -m qcgen inspect {DIGITS / 'digits_qop_s8.onnx'} | true"
    folder = Path(qcgen.__file__).parents[1]
    result = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    assert result.stderr == ""


def test_an_interruption_causes_no_traceback(model, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("qcgen.write.write_files", interrupted)
    assert main(["compile", model]) == cli.INTERRUPTED
    assert capsys.readouterr().err == "qcgen: interrupted\n"


def test_a_defect_of_qcgen_is_reported_as_such(model, capsys, monkeypatch):
    def defective(*_, **__):
        raise ZeroDivisionError("oops")

    monkeypatch.delenv("QCGEN_TRACEBACK", raising=False)
    monkeypatch.setattr("qcgen.write.write_files", defective)
    assert main(["compile", model]) == 1
    assert "internal error: ZeroDivisionError: oops\n    this is a defect of qcgen" in capsys.readouterr().err


# --- inspect


def test_inspect_shows_a_model_that_can_be_compiled_and_writes_nothing(model, outcome):
    status, out, err = outcome("inspect", model)
    assert (status, err) == (0, "")
    assert listing() == ["model.onnx"]
    for line in ("opsets  ai.onnx 13", "1 node  QLinearConv"):
        assert line in out
    assert "x            int8  1x2x6x6  72 B" in out
    assert "conv1  portable/depthwise_nchw  not depthwise: 1 groups, 2 input and 4 output channels" in out
    assert "accumulator" not in out
    assert "total: flash " in out


def test_verbose_shows_what_is_proved_and_all_kernels_rejected(model, outcome):
    out = outcome("inspect", model, "-v")[1]
    assert "accumulator" in out
    assert "portable/pointwise was rejected, because the kernel has more than one tap: conv1" in out
    assert "portable/depthwise_nchw was rejected, because not depthwise" in out
    assert "accumulator" in outcome("compile", model, "-v")[1]


def test_quiet_leaves_the_last_lines(model, outcome):
    lines = outcome("compile", model, "-q")[1].splitlines()
    assert [line.partition(":")[0] for line in lines] == ["flash", "RAM", "time", "exact"]
    assert outcome("compile", model)[1].splitlines()[-4:] == lines
    assert outcome("inspect", model, "-q")[1].startswith("total: ")
    assert outcome("verify", model, "-q", "--no-sums", "--cases", 1, "--oracle", "own") == (0, "PASS\n", "")
    assert outcome("compile", model, "-q", "-v")[0] == 2


def test_options_are_in_groups_with_an_example_each(outcome):
    for command in ("compile", "inspect", "verify", "bench", "package", "example"):
        text = outcome(command, "--help")[1]
        for title, example in GROUPS:
            assert f"\n{title}:\n" in text
            assert f"  Such as {example}\n" in text


@pytest.mark.parametrize("example", [example for _, example in GROUPS])
def test_examples_of_options_are_right(example):
    parser = cli.Parser(prog="qcgen")
    options.add_compile_options(parser)
    parser.parse_args(shlex.split(example))


def test_inspect_json_has_the_figures_of_the_report(model, outcome):
    found = json.loads(outcome("inspect", model, "--json")[1])
    report = json.loads(qcgen.compile(model).report.to_json())
    for key in ("sha256", "options", "macs", "weights_bytes", "flash_bytes", "arena_bytes", "nodes"):
        assert found[key] == report[key]
    assert found["whole"]
    assert found["opsets"] == {"ai.onnx": 13}
    assert found["inputs"] == [{"name": "x", "type": "int8", "shape": [1, 2, 6, 6]}]
    assert found["refused"] == []


@pytest.fixture
def unsupported(tmp_path):
    """The digits network with an operator that nobody supports in its midst."""
    content = onnx.load(DIGITS / "digits_qop_s8.onnx")
    node = next(node for node in content.graph.node if node.name == "max")
    node.op_type, node.domain = "Median", ""
    onnx.save(content, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_inspect_shows_each_node_of_a_model_that_cannot_be_compiled_whole(outcome, unsupported):
    status, out, err = outcome("inspect", unsupported, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert not found["whole"]
    assert any("the operator Median is not supported" in problem["what"] for problem in found["problems"])
    assert found["macs"] == sum(node["macs"] for node in found["nodes"])
    compiled, refused = ({node["name"] for node in found[key]} for key in ("nodes", "refused"))
    assert compiled.issuperset(CONVOLUTION_NODES)
    assert "max" in refused
    assert compiled | refused == {node.name for node in onnx.load(unsupported).graph.node}
    assert all(node["problems"] for node in found["refused"])
    text = outcome("inspect", unsupported)[1]
    assert all(f"\n{node}" in text for node in compiled | refused)
    assert "it cannot be compiled as a whole: " in text


def test_inspect_of_a_node_is_strict(outcome, unsupported):
    assert outcome("inspect", unsupported, "--node", "max")[0] == 1
    status, out, _ = outcome("inspect", unsupported, "--node", "conv4_quant", "--json")
    assert status == 0
    assert [node["name"] for node in json.loads(out)["nodes"]] == ["conv4_quant"]


# --- verify


@pytest.mark.parametrize("name", QOPERATOR_MODELS)
@pytest.mark.parametrize("layout", some_at_first(["nhwc", "model"]))
def test_every_convolution_of_the_digits_models_verifies_against_its_recordings(outcome, name, layout):
    recordings = DIGITS / f"{name}_nodes.npz"
    arguments = ["--each", "--data", recordings, "--layout", layout, "--cases", 2, "--json", "--no-sums"]
    status, out, err = outcome("verify", DIGITS / f"{name}.onnx", *arguments)
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["passed"]
    assert found["differing"] == 0
    assert tuple(node["node"] for node in found["nodes"]) == CONVOLUTION_NODES
    for node in found["nodes"]:
        recorded = next(outcome for outcome in node["outcomes"] if outcome["group"] == "recorded")
        assert recorded["cases"] == 3
        with np.load(recordings) as arrays:
            assert recorded["outputs"] == 3 * arrays[f"node0.{node['node']}.y"].size
    assert found["requantize"] == {
        form: sum(node["requantize"].get(form, 0) for node in found["nodes"]) for form in found["requantize"]
    }
    assert sum(found["requantize"].values()) == 128


def test_verify_takes_several_models_and_adds_them_up(outcome):
    models = [DIGITS / f"{name}.onnx" for name in QOPERATOR_MODELS]
    status, out, _ = outcome("verify", *models, "--each", "--no-sums", "--cases", 1, "--cflags", "-O0")
    assert status == 0
    lines = out.splitlines()
    assert sum("outputs differ" in line for line in lines) == 12
    assert sum(line.startswith("judge: 0 of ") for line in lines) == 1
    assert lines[-3].startswith("total: 0 of ")
    assert "(10 nodes, " in lines[-3]
    assert lines[-2].startswith("requantization of 256 channels: ")


def test_verify_of_one_function_tells_criterion_command_and_groups(model, outcome):
    status, out, err = outcome("verify", model, "--cases", 3, "--cflags", "-O0", "--oracle", "onnx")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "model.onnx, conv1"
    assert lines[1] == "criterion: every output equals the reference, bit for bit"
    assert lines[2].startswith("reference: the arithmetic of onnxruntime 1.")
    assert "-Werror -O0 -shared" in lines[3]
    groups = ["random", "random extremes", "all low", "all high", "all zero points", "accumulator ends"]
    assert [line[: len(group)] for line, group in zip(lines[5:11], groups, strict=True)] == groups
    assert lines[5].split()[1:] == "2 0 of 128 outputs differ".split()
    assert lines[11] == "both ends of the accumulator's interval reached: 4 of 4 channels"
    assert lines[12].startswith("sums of 1 layer: 0 wrong; measured 1 152 of 1 152 coefficients")
    assert lines[13].startswith("sums driven to ")
    assert lines[14] == "judge: onnx.reference, which evaluates the model file node by node"
    assert lines[15].startswith("judge: 0 of ")
    assert lines[15].endswith("criterion: at most one code more or less at each quantized tensor")
    assert lines[16].startswith("total: 0 of ")
    assert lines[-1] == "PASS"
    assert listing() == ["model.onnx"]


def test_a_recording_that_differs_fails_with_its_place(model, outcome):
    x = np.zeros((1, 2, 6, 6), np.int8)
    artifact = qcgen.compile(model)
    [y] = artifact.load().run(None, {"x": x})
    got = int(y[0, 2, 1, 3])
    y[0, 2, 1, 3] = got ^ 1
    np.savez("data.npz", x=x, y=y)
    status, out, _ = outcome("verify", model, "--data", "data.npz", "--layout", "nhwc")
    assert status == 1
    assert out.endswith("\nFAIL\n")
    assert "1 of 64 outputs differ" in out
    assert f"first difference: y[0, 2, 1, 3] of recorded case 0: expected {got ^ 1}, got {got}" in out
    status, out, _ = outcome("verify", model, "--data", "data.npz", "--json")
    assert status == 1
    assert not json.loads(out)["passed"]


def test_recordings_that_do_not_fit_are_an_error_message(model, outcome):
    np.savez("data.npz", z=np.zeros(3))
    status, _, err = outcome("verify", model, "--data", "data.npz")
    assert status == 1
    assert "data.npz: unknown key 'z'; expected are in<k>.x, out<k>.y" in err
    assert outcome("verify", model, "--data", "nowhere.npz")[0] == 1


def test_a_missing_compiler_is_named_with_its_package(model, outcome, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    status, _, err = outcome("verify", model)
    assert status == 1
    assert "apt-get install gcc" in err
    monkeypatch.setenv("CC", "no-such-compiler")
    status, _, err = outcome("verify", model)
    assert status == 1
    assert "no-such-compiler cannot be run" in err


def test_a_rejected_model_among_several_does_not_hide_the_others(model, outcome):
    status, out, err = outcome("verify", "missing.onnx", model)
    assert status == 1
    assert "missing.onnx cannot be compiled" in err
    assert "total: 0 of " in out


# --- ops, targets


def test_ops_lists_everything_that_can_be_lowered(outcome):
    status, out, _ = outcome("ops")
    assert status == 0
    of_models = [(domain or "ai.onnx", operator) for domain, operator in LOWERINGS]
    rows = [line.split()[:4] for line in out.splitlines()[1 : 1 + len(of_models)]]
    assert [tuple(row[:2]) for row in rows] == of_models
    assert all(name in out.split("types: ")[1] for name in ("int8", "uint16", "uint4", "float32"))
    expected = [
        [domain or "ai.onnx", operator, "opset", str(since(domain, operator))]
        for domain, operator in LOWERINGS
        if (domain, operator) in CONVOLUTIONS
    ]
    assert [row for row in rows if (row[0].replace("ai.onnx", ""), row[1]) in CONVOLUTIONS] == expected


def test_targets_lists_every_target(outcome):
    status, out, _ = outcome("targets")
    assert status == 0
    targets, chips = (part.splitlines()[1:] for part in out.split("\n\n"))
    assert [line.split()[0] for line in targets] == list(TARGETS)
    assert [line.split()[0] for line in chips] == list(CHIPS)


def test_float_models_state_their_criterion(outcome, tmp_path):
    model = float_conv((1, 5, 5, 2), random_weights((3, 2, 3, 3), "float32"), domain=NHWC)
    onnx.save(model, tmp_path / "m.onnx")
    status, out, _ = outcome("verify", tmp_path / "m.onnx")
    assert status == 0
    assert "criterion: |y - reference| <= 2e-6 * max(sum |x| |w| + |bias|, |reference|)" in out


COMPLETED = {
    "qcgen comp": ["compile", "compare"],
    "qcgen compile m.onnx --layout n": ["nhwc", "nchw"],
    "qcgen verify --no": ["--node", "--no-simplify", "--no-sums"],
}


@pytest.mark.parametrize(("line", "words"), COMPLETED.items(), ids=COMPLETED.keys())
def test_a_shell_completes_commands_options_and_choices(line, words, tmp_path):
    require_modules("argcomplete")
    answer = tmp_path / "answer"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}
    asked |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
    subprocess.run([sys.executable, "-m", "qcgen"], env={**os.environ, **asked}, check=True)
    assert sorted(word.strip() for word in answer.read_text().split("\n")) == sorted(words)


def test_without_argcomplete_nothing_is_completed(monkeypatch):
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    assert main(["ops"]) == 0
