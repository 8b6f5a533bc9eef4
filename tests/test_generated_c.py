"""The generated files as a firmware engineer gets them: clean with every compiler, self-contained, readable."""

import datetime
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from batch import build, expected, inputs, require, to_boundary, unit
from cases import CASES

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.ir.types import DType

SETTINGS = [(layout, optimize) for layout in ("nhwc", "nchw") for optimize in ("size", "speed")]
CHOSEN = [(case, *SETTINGS[index % len(SETTINGS)]) for index, case in enumerate(CASES)]
"""Every case once, its layout and aim taken in turn; test_kernels has all combinations."""

OTHER_LAYOUT = [(case, *SETTINGS[(index + 2) % len(SETTINGS)]) for index, case in enumerate(CASES)]
"""Every case in the layout that it does not have in CHOSEN."""

COMPILERS = [
    ("gcc", "-O0"),
    *(
        pytest.param(pair, marks=pytest.mark.all)
        for pair in (("gcc", "-O3"), ("gcc", "-Os"), ("clang", "-O0"), ("clang", "-O2"), ("clang", "-Os"))
    ),
]
SANITIZERS = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
LIBRARY = {"memcpy", "memset", "memmove"}
MATHEMATICS = {"expf", "fmaf"}
INTEGER_LIBRARY = {
    *LIBRARY,
    *("__aeabi_memcpy", "__aeabi_memmove", "__aeabi_memset", "__aeabi_memclr", "__aeabi_memclr4", "__aeabi_memset4"),
    *("__aeabi_llsl", "__aeabi_llsr", "__aeabi_lasr", "__ashldi3", "__lshrdi3", "__ashrdi3"),
    *("__aeabi_lmul", "__muldi3", "__mulsi3"),
    *("__aeabi_idiv", "__aeabi_uidiv", "__aeabi_idivmod", "__aeabi_uidivmod"),
    *("__divsi3", "__udivsi3", "__modsi3", "__umodsi3"),
}
"""What integer code may need of a small core's compiler: copies, shifts and products of 64 bits, divisions of 32."""

GENERATED = Path(__file__).parents[1] / "generated"

each_unit = pytest.mark.parametrize(
    "each",
    [
        pytest.param(each, id="_".join((each[0].name, *each[1:])), marks=[] if i % 3 == 0 else pytest.mark.all)
        for i, each in enumerate(CHOSEN)
    ],
    indirect=True,
)


def units_of(chosen):
    return [unit(*each) for each in chosen]


@pytest.fixture
def each(request):
    """One of CHOSEN, compiled."""
    return unit(*request.param)


@pytest.fixture(scope="module", params=COMPILERS, ids=" ".join)
def image(request, tmp_path_factory, everything):
    """Cases in one program, each file compiled by itself; the strict flags are among those of the build."""
    compiler, level = request.param
    require(compiler)
    folder = tmp_path_factory.mktemp(f"{compiler}{level}")
    return build(folder, units_of(CHOSEN if everything else CHOSEN[::3]), compiler, (level,), apart=True)


def is_float(each):
    return any(tensor.dtype is DType.FLOAT32 for tensor in each.artifact.program.inputs)


def code_of(each):
    """NAME.c without its comments."""
    text = each.artifact.files[f"{each.name}.c"]
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


def test_strict_flags_are_those_of_the_contract():
    wanted = "-std=c99 -pedantic -Wall -Wextra -Wshadow -Wconversion -Wcast-align -Wvla -Werror"
    assert " ".join(STRICT_FLAGS) == wanted


@pytest.mark.parametrize("fill", [0, 255])
def test_every_compiler_and_level_gives_the_reference_whatever_the_arena_holds(image, fill):
    """Each buffer stands between guard zones and is aligned to no more than the header says."""
    image.assert_equals_reference("guarded", fill)


def test_only_run_is_external_and_every_symbol_is_prefixed(image):
    require("nm")
    names = [f"{each.name}.o" for each in image.units]
    listing = subprocess.run(["nm", "-P", "-A", *names], cwd=image.folder, capture_output=True, text=True, check=True)
    symbols = {each.name: [] for each in image.units}
    for line in listing.stdout.splitlines():
        name, symbol, kind = re.match(r"(\w+)\.o: (\S+) (\w)", line).groups()
        if not symbol.startswith("."):  # labels that the compiler made for constants
            symbols[name].append((symbol, kind))
    found = [text for each in image.units for text in symbol_problems(each, symbols[each.name])]
    assert not found, "\n".join(found)


def symbol_problems(each, symbols):
    """What is wrong with the symbols (name, kind) of one object file."""
    allowed = LIBRARY | (MATHEMATICS if is_float(each) else set())
    for name, kind in symbols:
        if kind == "U":
            if name not in allowed:
                yield f"{each.name} needs {name}"
        elif not name.startswith(f"{each.name}_"):
            yield f"{each.name} defines {name}"
        elif kind in "bBdDcCsSgG":
            yield f"{each.name} has a variable {name}"
        elif kind.isupper() and name != f"{each.name}_run":
            yield f"{each.name} exports {name}"
    if (f"{each.name}_run", "T") not in symbols:
        yield f"{each.name} does not export its function"


@pytest.mark.all
@pytest.mark.parametrize(("compiler", "chosen"), [("gcc", CHOSEN), ("clang", OTHER_LAYOUT)], ids=["gcc", "clang"])
def test_sanitizers_find_nothing_in_exact_buffers(compiler, chosen, tmp_path):
    require(compiler)
    build(tmp_path, units_of(chosen), compiler, SANITIZERS).assert_equals_reference("exact", 0xFF)


@pytest.mark.all
@pytest.mark.parametrize(
    ("target", "chosen"),
    [("thumbv6m-none-eabi", CHOSEN[::2]), ("riscv32-unknown-elf", CHOSEN[1::2])],
    ids=["thumbv6m", "riscv32"],
)
def test_small_cores_need_no_division_of_64_bits_and_no_float(target, chosen, tmp_path):
    """Clang has these targets built in: what the code needs of the compiler's library shows in the symbols."""
    require("clang", "nm")
    units = [each for each in units_of(chosen) if not is_float(each)]
    for each in units:
        each.artifact.write(tmp_path)
    assert functions_needed(target, tmp_path, [each.name for each in units]) <= INTEGER_LIBRARY


@pytest.mark.all
@pytest.mark.parametrize("target", ["thumbv6m-none-eabi", "riscv32-unknown-elf"])
def test_integer_networks_of_the_gallery_need_no_division_of_64_bits_and_no_float(target, tmp_path):
    require("clang", "nm")
    texts = {path.stem: path.read_text() for path in sorted(GENERATED.glob("*.c"))}
    codes = {name: re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL) for name, text in texts.items()}
    portable = [name for name, text in texts.items() if "--target portable" in text]
    names = [name for name in portable if not re.search(r"\b(float|double)\b", codes[name])]
    assert {"attention", "layer_norm", "network_qop"} <= set(names)
    for path in GENERATED.glob("*.[ch]"):
        (tmp_path / path.name).write_text(path.read_text())
    assert functions_needed(target, tmp_path, names) <= INTEGER_LIBRARY


def functions_needed(target: str, folder: Path, names: Sequence[str]) -> set[str]:
    """What object files of these C files need of any library."""
    # All of <string.h> that the code may use.
    (folder / "string.h").write_text(
        "#include <stddef.h>\n"
        "void *memcpy(void *to, const void *from, size_t n);\n"
        "void *memmove(void *to, const void *from, size_t n);\n"
        "void *memset(void *to, int c, size_t n);\n"
    )
    flags = [f"--target={target}", "-ffreestanding", "-Os", "-isystem", ".", "-c"]
    command = ["clang", *STRICT_FLAGS, *flags, *(f"{name}.c" for name in names)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[:3000]
    objects = [f"{name}.o" for name in names]
    listing = subprocess.run(["nm", "-u", *objects], cwd=folder, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"U (\w+)", listing))


@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=pytest.mark.all)])
def test_headers_are_valid_cpp_and_may_be_included_twice(compiler, tmp_path):
    require(compiler)
    units, lines = units_of(CHOSEN), []
    for each in units:
        (tmp_path / f"{each.name}.h").write_text(each.artifact.files[f"{each.name}.h"])
        lines += [f'#include "{each.name}.h"'] * 2
    lines += [f'static_assert({each.name.upper()}_ARENA_BYTES >= 0, "");' for each in units]
    lines += ["int main() {", *(f"    (void)&{each.name}_run;" for each in units), "}", ""]
    (tmp_path / "all.cpp").write_text("\n".join(lines))
    flags = ["-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
    result = subprocess.run([compiler, *flags, "all.cpp"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[:3000]


def test_tables_take_the_attribute_that_the_user_gives(tmp_path):
    require("gcc")
    each = unit(*CHOSEN[0])
    each.artifact.write(tmp_path)
    macro = f'-D{each.name.upper()}_CONST_ATTR=__attribute__((section(".flash_fast")))'
    subprocess.run(["gcc", *STRICT_FLAGS, macro, "-S", f"{each.name}.c"], cwd=tmp_path, check=True)
    assembly = (tmp_path / f"{each.name}.s").read_text()
    tables = len(each.artifact.plan.calls[0].tables)
    assert tables > 0
    assert assembly.count("_conv1_weights:") == 1
    assert ".flash_fast" in assembly
    assert ".rodata" not in assembly


@each_unit
def test_integer_code_has_no_float_and_calls_nothing_but_string_functions(each):
    code = code_of(each)
    words = set(re.findall(r"[A-Za-z_]\w*", code))
    forbidden = {
        "malloc",
        "calloc",
        "realloc",
        "free",
        "alloca",
        "printf",
        "stdio",
        "goto",
        "volatile",
        "extern",
        "double",
    }
    if not is_float(each):
        forbidden |= {"float", "math", "long", "INFINITY"}
        assert not re.search(r"\b\d+\.\d", code)
    if f"{each.name}_rounded" in words:
        forbidden.discard("volatile")  # where the compiler is not known, it keeps products from becoming part of sums
    assert not words & forbidden
    headers = set(re.findall(r"#include (\S+)", code))
    assert headers <= {f'"{each.name}.h"', "<string.h>"} | ({"<math.h>"} if is_float(each) else set())


@each_unit
def test_functions_call_only_functions_above_them(each):
    """So there is no recursion."""
    code, defined = code_of(each), set()
    bodies = re.findall(
        r"^(?:[A-Z]\w+ )?(?:static )?(?:inline |\w+_INLINE )?(?:const )?\w+\s+\**(\w+)\([^;{]*\)\n\{\n(.*?)^\}",
        code,
        re.MULTILINE | re.DOTALL,
    )
    assert [name for name, _ in bodies][-1] == f"{each.name}_run"
    for name, body in bodies:
        called = set(re.findall(rf"\b({re.escape(each.name)}\w*)\(", body))
        assert called <= defined, name
        defined.add(name)
    assert all(re.search(rf"\b{name}\(", code) for name in defined)


@each_unit
def test_the_text_is_tidy(each):
    for name, text in each.artifact.files.items():
        assert text.isascii()
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        assert "\t" not in text
        assert "\r" not in text
        assert not re.search(r" +$", text, re.MULTILINE), name
        assert "\n\n\n" not in text, name
        assert "{\n\n" not in text, name
        assert "\n\n}" not in text, name
        assert not re.search(r"^( *)(?! )(\}.*|.*;)\n\1\}", text, re.MULTILINE), name


@each_unit
def test_lines_fit_120_columns(each):
    for name, text in each.artifact.files.items():
        long = [line for line in text.splitlines() if len(line) > 120 > len(max(line.split(), key=len))]
        assert not long, f"{name}:\n" + "\n".join(long)


@each_unit
def test_the_text_holds_no_path_and_no_date(each):
    for text in each.artifact.files.values():
        assert str(Path.cwd()) not in text
        assert str(Path.home()) not in text
        assert datetime.datetime.now().strftime("%Y-%m") not in text


DIGESTS = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from cases import CASES
from qcgen.compiler import compile_graph
from qcgen.compiler import compile_graph
from qcgen.ir.plan import Options
for case in CASES[::15]:
    files = compile_graph(case.graph, Options(layout="nhwc", numerics=case.numerics), "net", "net.onnx").files
    print(case.name, *(hashlib.sha256(files[name].encode()).hexdigest() for name in sorted(files)))
"""


@pytest.mark.all
def test_the_same_input_gives_the_same_bytes_in_every_process(tmp_path):
    tests = Path(__file__).parent
    outputs = set()
    for seed, folder in (("0", tests), ("7", tmp_path)):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(tests.parent)}
        command = [sys.executable, "-c", DIGESTS, str(tests)]
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        assert len(result.stdout.splitlines()) == len(CASES[::15])
        outputs.add(result.stdout)
    assert len(outputs) == 1


def test_the_folder_of_a_model_does_not_show(tmp_path):
    model = CASES[0].build().SerializeToString()
    files = []
    for folder in (tmp_path / "a", tmp_path / "b" / "c"):
        folder.mkdir(parents=True)
        (folder / "net.onnx").write_bytes(model)
        files.append(qcgen.compile(folder / "net.onnx").files)
    assert files[0] == files[1]


@pytest.mark.parametrize("name", ["taps_700", "groups", "depthwise_5_by_5", "one_by_one_batch_of_3", "float_groups"])
def test_calls_may_run_at_the_same_time_with_arenas_of_their_own(name):
    require("gcc")
    [case] = [case for case in CASES if case.name == name]
    each = unit(case, "nchw", "size")
    loaded = each.artifact.load(("-O1",))
    [x], [y] = each.artifact.plan.inputs, each.artifact.plan.outputs
    images = to_boundary(each, inputs(case))
    alone = [loaded.run([y.tensor.name], {x.tensor.name: image})[0] for image in images]
    np.testing.assert_allclose(np.stack(alone), expected(case)[0], atol=1e-4)

    def repeat(image):
        return [loaded.run([y.tensor.name], {x.tensor.name: image})[0] for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        for wanted, results in zip(alone, pool.map(repeat, images), strict=True):
            for got in results:
                np.testing.assert_array_equal(got, wanted)
