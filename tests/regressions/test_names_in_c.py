"""Names of models that mean something else in C, or cannot be written there."""

import json
import os
import re
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import onnx
import pytest
from batch import call, require
from bench.compiling import Network
from emulated import require_core
from marks import some_at_first
from models import graph_model, qlinear_conv, random_weights
from onnx import helper
from packages import DIGITS

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.plan.names import is_prefix, node_names, parameter_names, prefix_of


def test_a_node_called_less_has_a_symbol_of_its_own():
    """A node called `less` had the symbol of a function of the library with --constant-time on RV32IMC."""
    model = onnx.load(DIGITS)
    for node in model.graph.node:
        if node.op_type == "MaxPool":
            node.name = "less"
    artifact = qcgen.compile(model, name="net", target="rv32imc", layout="nhwc", io="quantized", constant_time=True)
    text = artifact.files["net.c"]
    assert "int32_t net_less(int32_t a, int32_t b)" in text
    assert "net_n6_less(" in text


@pytest.mark.parametrize("tensor", ["int8_t", "uint8_t", "size_t"])
def test_a_tensor_may_be_called_like_a_name_of_stdint(tensor):
    """A tensor called int8_t became a parameter of that name, which hid the type."""
    require("gcc")
    model = qlinear_conv((1, 2, 5, 5), random_weights((3, 2, 3, 3)))
    model.graph.input[0].name = model.graph.node[0].input[0] = tensor
    artifact = qcgen.compile(model, name="net")
    assert [port.symbol for port in artifact.plan.inputs] == [f"{tensor}_"]
    artifact.load()


# A tensor called like the function of a node hid it: NAME_run called its own parameter.
@pytest.mark.parametrize("tensor", ["net_conv1", "net_conv1_weights", "net_conv1_tap"])
def test_a_tensor_may_be_called_like_a_symbol_of_the_file(tensor):
    require("gcc")
    model = qlinear_conv((1, 2, 5, 5), random_weights((3, 2, 3, 3)), node_name="conv1")
    model.graph.input[0].name = model.graph.node[0].input[0] = tensor
    artifact = qcgen.compile(model, name="net")
    assert [port.symbol for port in artifact.plan.inputs] == [f"tensor_{tensor}"]
    artifact.load()


def test_a_tensor_that_only_begins_like_the_model_keeps_its_name():
    model = qlinear_conv((1, 2, 5, 5), random_weights((3, 2, 3, 3)), node_name="conv1")
    model.graph.input[0].name = model.graph.node[0].input[0] = "net_conv10"
    assert [port.symbol for port in qcgen.compile(model, name="net").plan.inputs] == ["net_conv10"]


# Tensors called like a macro, a keyword or the arena's bytes, and nodes called like the file's own macros.
KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while _Bool _Complex
    alignas alignof and and_eq asm bitand bitor bool catch char8_t char16_t char32_t class co_await co_return co_yield
    compl concept const_cast consteval constexpr constinit decltype delete dynamic_cast explicit export false friend
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast
    requires static_assert static_cast template this thread_local throw true try typeid typename typeof using virtual
    wchar_t xor xor_eq
""".split()
STANDARD = """
    bytes arena run NULL NAN INFINITY HUGE_VAL HUGE_VALF M_PI FP_NAN math_errhandling signgam I complex errno stdin
    EOF assert linux unix int8_t uint8_t size_t INT32_MAX INT8_C FLT_MAX isnan memcpy memset exp fabsf index y1 std
    main net net_run NET_H NET_ARENA_BYTES NET_CONST_ATTR NET_INLINE net_node __FILE__ __cplusplus __func__ L_tmpnam
""".split()
HEADERS = """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdarg stdbool stddef stdint
    stdio stdlib string tgmath time wchar wctype
""".split()
NODES = [*"H h NOINLINE INLINE RARELY FENCE SUMMED ROLLED CONST_ATTR ARENA_BYTES ARENA_ALIGN DSP MVE_LOOPS".split()]
NODES += ["X_SIZE", "run", "RUN", "MAX", "t", "eq", "weights", "0", "", "*/", "multiply_high", "\u00e9"]


def nasty_model():
    """A Concat of floats named in every nasty way, and behind it a Tanh for every nasty node."""
    names = list(dict.fromkeys([*KEYWORDS, *STANDARD]))
    nodes = [helper.make_node("Concat", names, ["x"], axis=1)]
    for index, name in enumerate(NODES):
        nodes.append(helper.make_node("Tanh", [f"t{index}" if index else "x"], [f"t{index + 1}"], name=name))
    inputs = dict.fromkeys(names, ("float", (1, 2)))
    return graph_model(nodes, inputs, {f"t{len(NODES)}": None})


def compiled(compiler, flags, source, folder):
    call([compiler, *flags, "-c", source.name, "-I", ".", "-o", "object.o"], folder)


@pytest.mark.parametrize("prefix", some_at_first(["net", "NET", "INT8"]))
def test_every_nasty_name_compiles_as_c_and_the_header_as_cpp(tmp_path, prefix):
    require("gcc")
    require("g++")
    artifact = qcgen.compile(nasty_model(), name=prefix)
    for name, text in artifact.files.items():
        (tmp_path / name).write_text(text)
    compiled("gcc", [*STRICT_FLAGS], tmp_path / f"{prefix}.c", tmp_path)
    compiled("gcc", ["-std=gnu17", "-Wall", "-Wextra", "-Wshadow", "-Werror"], tmp_path / f"{prefix}.c", tmp_path)
    includes = "".join(f"#include <{header}.h>\n" for header in HEADERS) + f'#include "{prefix}.h"\n'
    (tmp_path / "all.c").write_text(includes)
    compiled("gcc", ["-std=gnu17", "-Wall", "-Wextra", "-Wshadow", "-Werror"], tmp_path / "all.c", tmp_path)
    (tmp_path / "all.cpp").write_text(includes)
    for standard in ("c++98", "gnu++17", "c++20"):
        compiled("g++", [f"-std={standard}", "-Wall", "-Wextra", "-Wshadow", "-Werror"], tmp_path / "all.cpp", tmp_path)


@pytest.mark.parametrize(("compiler", "language"), [("gcc", "c"), ("g++", "c++"), ("arm-none-eabi-gcc", "c")])
def test_no_parameter_is_called_like_a_macro_of_any_standard_header(compiler, language):
    require(compiler)
    text = "".join(f"#include <{header}.h>\n" for header in HEADERS)
    command = [compiler, "-x", language, "-dM", "-E", "-"]
    macros = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=True).stdout
    names = re.findall(r"^#define ([A-Za-z]\w*) ", macros, re.MULTILINE)
    assert len(names) > 300
    assert [name for name in names if parameter_names([name])[0] == name] == []


@pytest.mark.parametrize("node", NODES)
def test_no_node_is_called_like_a_macro_of_the_file(node):
    [part] = node_names([(node, "Relu")], "NET")
    assert re.fullmatch(r"[A-Za-z0-9_]+", part)
    assert any(c.islower() for c in part)


def test_a_node_makes_no_type_of_its_prefix():
    assert node_names([("t", "Relu")], "uint8") == ("n0_t",)
    assert node_names([("eq", "Relu"), ("t", "Relu")], "not") == ("n0_eq", "t")


def test_names_in_capitals_are_parameters_in_small_letters():
    assert parameter_names(["INPUT", "X", "I", "Input", "HUGE_VALF"]) == ("input", "X", "i_", "Input_2", "huge_valf")


@pytest.mark.parametrize("header", ["math", "stdint", "String", "time"])
def test_no_generated_header_is_called_like_a_standard_one(header):
    assert not is_prefix(header)
    assert prefix_of(header) == f"model_{header}"


def test_symbols_of_all_nasty_names_are_different():
    symbols = [call.symbol for call in qcgen.compile(nasty_model(), name="NET").plan.calls]
    assert len(set(symbols)) == len(symbols)
    assert not any(symbol == symbol.upper() for symbol in symbols)


def in_rows(x, y):
    """Layers that run row by row, from an input called ``x`` to an output called ``y``."""
    network = Network((1, 2, 18, 4))
    total = network.conv(network.sum("x", network.conv(network.conv("x", 2, 3), 2, 3)), 3)
    model = network.model(total)
    names = {"x": x, total: y}
    for node in model.graph.node:
        for tensors in (node.input, node.output):
            tensors[:] = [names.get(name, name) for name in tensors]
    model.graph.input[0].name, model.graph.output[0].name = x, y
    return model


IN_ROWS = (
    "start",
    "to",
    "i",
    "bytes",
    "TURNS",
    "memcpy",
    "memmove",
    "memset",
    "rows",
    "net_rows_0",
    "net_rows_0_order",
)


@pytest.mark.parametrize(("x", "y"), [(x, y) for x, y in permutations(IN_ROWS, 2) if IN_ROWS.index(y) in (0, 1)])
def test_functions_that_run_row_by_row_have_no_parameter_like_what_is_in_them(x, y, tmp_path):
    require("gcc")
    artifact = qcgen.compile(in_rows(x, y), name="net", layout="nhwc", arena="least")
    assert artifact.plan.streams
    for name, text in artifact.files.items():
        (tmp_path / name).write_text(text)
    compiled("gcc", [*STRICT_FLAGS], tmp_path / "net.c", tmp_path)


# Names outside of ASCII: files are UTF-8 whatever the locale, and every command gets by with an ASCII terminal.
NAME = "größe 層 🙂 \u202e"
LOCALES = {
    "C": {"LC_ALL": "C"},
    "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    "UTF-8": {"LC_ALL": "C.UTF-8"},
}
RUN = """
import sys, warnings
def raised(message, category, filename, *_):
    if "/qcgen/" in filename:
        sys.exit(f"{filename}: {message}")
warnings.showwarning = raised
warnings.simplefilter("always", EncodingWarning)
from qcgen.cli import main
sys.exit(main(sys.argv[1:]))
"""
FILES = [b"m.onnx", "größe.onnx".encode(), b"m\xff.onnx"]
COMMANDS = {
    "compile": ("compile", "--report", "json", "--report", "html", "--certificate", "--self-test"),
    "inspect": ("inspect",),
    "verify": ("verify", "--cases", "1"),
    "bench": ("bench", "--target", "cortex-m4"),
    "package": ("package",),
    "example": ("example", "--board", "mps2-an386"),
}


def saved(folder, name=b"m.onnx"):
    """A model all of whose names are NAME, and a number."""
    model = qlinear_conv((1, 1, 3, 3), random_weights((1, 1, 2, 2)))
    names = {}
    for node in model.graph.node:
        node.name = NAME
        for names_ in (node.input, node.output):
            names_[:] = [names.setdefault(each, f"{NAME}{len(names)}") for each in names_]
    for each in (*model.graph.initializer, *model.graph.input, *model.graph.output):
        each.name = names[each.name]
    path = os.fsencode(folder) + b"/" + name
    Path(os.fsdecode(path)).write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("file", some_at_first(FILES, *FILES[1:]))
@pytest.mark.parametrize("locale", some_at_first(LOCALES, "ASCII"))
@pytest.mark.parametrize("command", some_at_first(COMMANDS, "compile"))
def test_every_command_takes_any_name_in_any_locale(command, locale, file, tmp_path):
    if command == "bench":
        require_core("cortex-m4")
    path = os.pathsep.join([str(Path(qcgen.__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, **LOCALES[locale]}
    python = [sys.executable, "-X", "warn_default_encoding", "-c", RUN]
    words = [*COMMANDS[command], saved(tmp_path, file), "-o", str(tmp_path / "out")]
    result = subprocess.run([*python, *words], env=environment, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")
    result.stdout.decode("ascii" if locale == "ASCII" else "utf-8")
    for each in tmp_path.joinpath("out").rglob("*"):
        if each.is_file() and each.suffix not in (".pack", ".zip"):
            text = each.read_bytes().decode("utf-8" if each.suffix == ".html" else "ascii")
            assert each.suffix != ".json" or json.loads(text)
            assert each.suffix != ".html" or "größe 層 🙂" in text
