"""The library of C functions: its files are C as they stand, and a generated file gets what it uses."""

import re
import subprocess
from collections import defaultdict
from dataclasses import fields

import pytest
from emulated import require_core
from gallery_networks import layer_norm
from network_cases import UNITS
from tools import require

import qcgen
from qcgen import library
from qcgen.build import STRICT_FLAGS
from qcgen.cores import TARGETS
from qcgen.ir.program import (
    FloatSoftmax,
    InstanceNorm,
    IntegerLogSoftmax,
    IntegerSoftmax,
    LayerNorm,
    QuantizedBinary,
    Softmax,
    WideSoftmax,
)
from qcgen.kernels.arm_dsp.window import DspWindows
from qcgen.library import Library, standard_headers
from qcgen.plan.names import node_names
from qcgen.render import library as rendered

SOFTMAXES = (FloatSoftmax, IntegerLogSoftmax, IntegerSoftmax, Softmax, WideSoftmax)
ISAS = ("", *sorted({target.isa for target in TARGETS.values()} - {""}))
FILES = [name for name in library.FILES if name.endswith(".h")]
DSP_CORES = ("cortex-m4", "cortex-m33")
DSP_FILES = [name for name in FILES if name.startswith("dsp")]
MVE_FILES = [name for name in FILES if name == "helium.h" or name.startswith("mve")]
SCALAR_CORES = ("cortex-m0", "cortex-m3", "rv32imc")
CORES = {
    **dict.fromkeys(MVE_FILES, ("cortex-m55",)),
    **dict.fromkeys(DSP_FILES, DSP_CORES),
    **dict.fromkeys(("scalar.h", "scalar_sums.h"), SCALAR_CORES),
}
"""The cores whose instructions a file has."""

PREAMBLE = '/* Of what. */\n#pragma once\n#include "compiler.h"\n\n'


def compiled(name, compiler, flags):
    """What a compiler says of a source that includes a file of the library."""
    command = [compiler, *flags, "-Wno-unused-function", f"-I{library.templates() / 'library'}", "-fsyntax-only"]
    source = f'#include "{name}"\nint declared;\n'
    return subprocess.run([*command, "-x", "c", "-"], input=source, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_compiles_as_it_stands(name, compiler):
    require(compiler)
    assert compiled(name, compiler, STRICT_FLAGS) == ""


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_tidy_text(name):
    text = (library.templates() / "library" / name).read_text(encoding="ascii")
    assert max(map(len, text.splitlines())) <= 120
    assert "\t" not in text.replace("\\t", "")
    assert not any(line.endswith(" ") for line in text.splitlines())


@pytest.mark.parametrize(("name", "core"), [(name, core) for name, cores in CORES.items() for core in cores])
def test_a_file_compiles_for_the_cores_whose_instructions_it_has(name, core):
    require_core(core)
    assert compiled(name, TARGETS[core].compiler, [*TARGETS[core].flags, *STRICT_FLAGS]) == ""


def fields_of(struct):
    """The names of a struct's fields, as a file of the library declares them."""
    text = "\n".join((library.templates() / "library" / name).read_text(encoding="ascii") for name in FILES)
    [body] = re.findall(rf"^struct qcgen_{struct} {{\n(.*?)^}};", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^ [^/;]*\b(\w+);", body, re.MULTILINE)


def test_a_layer_gives_every_field_of_its_struct_a_value():
    [call] = qcgen.compile(layer_norm(), io="quantized").plan.calls
    for given in (call.context.layer, call.context.line):
        assert sorted(given_to(given)) == sorted(fields_of(given.type))


def given_to(struct):
    """The names of the fields that a layer has values for."""
    return [*struct.tables, *struct.numbers, *struct.words, *struct.floats]


def test_every_field_of_a_struct_has_a_value_in_some_layer():
    given = defaultdict(set)
    for unit in UNITS:
        if isinstance(unit.op, (InstanceNorm, LayerNorm, QuantizedBinary, *SOFTMAXES)):
            context = unit.kernel.prepare(unit.op, unit.setting).context
            if context.layer is not None:
                given[context.layer.type] |= set(given_to(context.layer))
    assert len(given) == 11
    assert given == {name: set(fields_of(name)) for name in given}


def out_of_order(found):
    """The functions and types that a piece uses before they are defined, by the names that it defines."""
    later = [piece.defined for piece in found.pieces]
    return {
        name: min(piece.defined)
        for i, piece in enumerate(found.pieces)
        for name in piece.used
        if any(name in defined for defined in later[i + 1 :]) and not name.isupper()
    }


@pytest.mark.parametrize("isa", ISAS)
def test_a_piece_stands_behind_what_it_uses_and_has_names_of_its_own(isa):
    found = rendered(isa)
    assert out_of_order(found) == {}
    names = [name for piece in found.pieces for name in piece.defined]
    assert all(piece.defined for piece in found.pieces)
    assert len(names) == len(set(names))


def test_a_piece_in_front_of_what_it_uses_is_found():
    first = "/* One. */\nstatic int qcgen_one(void)\n{\n    return qcgen_two();\n}\n"
    second = "/* Two. */\nstatic int qcgen_two(void)\n{\n    return 2;\n}\n"
    assert out_of_order(Library([f"{PREAMBLE}{first}\n{second}"])) == {"two": "one"}
    assert out_of_order(Library([f"{PREAMBLE}{second}\n{first}"])) == {}


def test_what_only_a_comment_names_is_not_copied():
    first = "/* One. */\nstatic int qcgen_one(void)\n{\n    return 1;\n}\n"
    second = "/* As qcgen_one, but greater. */\nstatic int qcgen_two(void)\n{\n    return 2;\n}\n"
    found = Library([f"{PREAMBLE}{first}\n{second}"])
    assert found.needed(["x = net_two(); /* not net_one */\n"], "net") == [found.pieces[1].named("net")]


def test_comments_name_what_is_copied_with_them():
    """Structs may be named anywhere: no comment about a layer stands in a file without the layer's struct."""
    for piece in rendered("").pieces:
        for comment in re.findall(r"/\*.*?\*/", piece.text, re.DOTALL):
            named = set(re.findall(r"\bqcgen_(\w+)", comment)) - set(re.findall(r"struct qcgen_(\w+)", comment))
            assert named <= piece.defined | piece.used, piece.text


def test_a_struct_is_a_piece_that_functions_need():
    struct = "struct qcgen_pair {\n    int32_t low, high;\n};\n"
    function = "static int32_t qcgen_sum(const struct qcgen_pair *pair)\n{\n    return pair->low + pair->high;\n}\n"
    found = Library([f"{PREAMBLE}{struct}\n{function}"])
    assert [sorted(piece.defined) for piece in found.pieces] == [["pair"], ["sum"]]
    assert found.needed(["net_sum(&x);"], "net") == [each.replace("qcgen_", "net_") for each in (struct, function)]


@pytest.mark.parametrize("isa", ISAS)
def test_a_node_with_the_name_of_a_function_gets_another_symbol(isa):
    names = {name for piece in rendered(isa).pieces for name in piece.defined}
    assert {name for name in names if node_names([(name, "Relu")], "net") == (name,)} == set()


def test_a_file_has_no_assembly_of_another_instruction_set():
    call = "net_scalar_sums_of(&l, &l, p, w, 0, s, s + 1, net_scalar_group);"
    assembly = {isa: "".join(rendered(isa).needed([call], "net")) for isa in ISAS}
    assert "__asm__" not in assembly[""]
    assert "ldmia %[words]!" in assembly["armv6-m"]
    assert "mla r8" in assembly["armv7-m"]
    assert "#if NET_IS_ARMV7_M && !defined(NET_KEEP_R9)" in assembly["armv7-m"]
    assert "mla r8" not in assembly["armv6-m"]
    assert assembly["rv32m"] == assembly[""]


def test_branches_for_other_instruction_sets_are_left_out():
    text = "#if QCGEN_IS_THUMB1\none\n#elif QCGEN_IS_RV32M\ntwo\n#else\n#if OTHER\nthree\n#endif\nfour\n#endif\n"
    assert library.for_isa(text, "") == "#if OTHER\nthree\n#endif\nfour\n"
    assert library.for_isa(text, "rv32m") == (
        "#if QCGEN_IS_RV32M\ntwo\n#else\n#if OTHER\nthree\n#endif\nfour\n#endif\n"
    )
    assert library.for_isa("#if QCGEN_IS_THUMB1\n#if OTHER\none\n#else\ntwo\n#endif\n#endif\n", "") == ""


def test_a_file_gets_the_functions_that_it_calls_what_these_need_and_no_other():
    text = "".join(rendered("").needed(["int32_t y = net_round_twice(x, 1, 2);"], "net"))
    assert "net_round_twice(" in text
    assert "QCGEN" not in text.upper().replace("NET_", "")
    assert "net_divide_away" not in text


@pytest.mark.parametrize("prefix", ["qcgen", "my_QCGEN", "QCGEN_net", "NET"])
def test_a_prefix_may_hold_the_librarys_own(prefix):
    text = "".join(rendered("").needed([f"{prefix}_round_twice(x, 1, 2)"], prefix))
    assert f"static int32_t {prefix}_round_twice(" in text
    assert f"{prefix.upper()}_{prefix.upper()}" not in text
    assert f"{prefix}_{prefix}" not in text


def test_a_function_of_int8_t_is_there_for_uint8_t():
    signed = "".join(rendered("").needed(["net_dsp_widen_words_s8(x, 8, pairs);"], "net"))
    unsigned = "".join(rendered("").needed(["net_dsp_widen_words_u8(x, 8, pairs);"], "net"))
    assert "net_dsp_widen_words_u8(const uint8_t *x, " in unsigned
    assert "_s8" not in unsigned
    assert "_u8" not in signed


def test_windows_have_the_fields_of_their_struct():
    [text] = rendered("").needed([], "net", ["dsp_windows"])
    body = text[text.index("{") : text.index("}")]
    listed = re.findall(r"int32_t ([\w, ]+);", body)
    assert ", ".join(listed).split(", ") == [each.name for each in fields(DspWindows)]


def test_a_name_that_the_library_does_not_have_is_an_error():
    with pytest.raises(KeyError):
        rendered("").needed([], "net", ["soft_float"])


def test_what_a_text_assumes_of_the_compiler_is_checked():
    assert "net_right_shift_is_arithmetic" in "".join(rendered("").needed(["y = x >> 1;"], "net"))
    assert "net_double_has_64_bits" in "".join(rendered("").needed(["const double *x"], "net"))
    assert rendered("").needed(["const double mean = 0.0;"], "net") == []


def test_headers_are_those_that_declare_what_is_used():
    assert standard_headers(["y = rintf(x);"]) == ["math.h"]
    assert standard_headers(["/* 1 / sqrt(variance) */", "(void)memcpy(y, x, 4);"]) == ["string.h"]
