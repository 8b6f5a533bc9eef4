"""Tensors called like a macro, a keyword or the arena's bytes, and nodes called like the file's own macros."""

import re
import subprocess
from itertools import permutations

import pytest
from batch import require
from bench.compiling import Network
from marks import some_at_first
from models import graph_model
from onnx import helper

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.plan.names import is_prefix, node_names, parameter_names, prefix_of

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
    command = [compiler, *flags, "-c", str(source), "-I", str(folder), "-o", str(folder / "object.o")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[:2000]


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
