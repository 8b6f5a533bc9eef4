"""What the header offers beside the function, and what the source asks of its surroundings."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from batch import require
from gallery_networks import in_rows, network_qop
from models import qlinear_conv, random_weights

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.cores import EMULATED, TARGETS
from qcgen.cross import compile_command, succeed

PAIRS = ((0.02, -5, "int8"), (1 / 255, -128, "int8"), (3.4e38, 127, "int8"), (1e-45, 0, "uint8"), (0.1, 255, "uint8"))
"""Scales and zero points: usual ones, the largest and the smallest scale, both ends of zero points."""


def compiled(model=None, **options):
    return qcgen.compile(model or network_qop(), name="net", **options)


def layer(scale=0.02, zero_point=0, dtype="uint8", **options):
    """A layer whose input and output are quantized like this."""
    quantized = {"x_scale": scale, "x_zero_point": zero_point, "x_type": dtype}
    quantized |= {"y_scale": scale, "y_zero_point": zero_point, "y_type": dtype}
    model = qlinear_conv((1, 1, 2, 2), np.ones((1, 1, 1, 1), np.int8), w_scale=1.0, w_zero_point=0, **quantized)
    return compiled(model, **options)


def build(folder, artifact, main, *flags, cc="gcc"):
    """A program of the files and ``main``; what the compiler says if it fails."""
    artifact.write(folder)
    (folder / "main.c").write_text(main)
    command = [cc, *STRICT_FLAGS, *flags, "main.c", "net.c", "-o", "main"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def output_of(folder, artifact, main, *flags):
    """What the program prints."""
    require("gcc")
    result = build(folder, artifact, main, *flags)
    assert result.returncode == 0, result.stderr
    return subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_an_image_can_be_traced_and_tensors_are_described(tmp_path):
    artifact = compiled(layout="nhwc")
    main = """
#include <stdio.h>
#include "net.h"
int main(void)
{
    static const NET_X_TYPE x[NET_X_SIZE];
    static const int shape[NET_X_RANK] = NET_X_SHAPE;
    printf("%s %s %d %d", NET_QCGEN_VERSION, NET_MODEL_SHA256, NET_NODES, (int)sizeof x);
#if NET_QCGEN_VERSION_MAJOR >= 0 && NET_QCGEN_VERSION_MINOR >= 0 && NET_QCGEN_VERSION_PATCH >= 0
    printf(" %d.%d.%d", NET_QCGEN_VERSION_MAJOR, NET_QCGEN_VERSION_MINOR, NET_QCGEN_VERSION_PATCH);
#endif
    for (int i = 0; i < NET_X_RANK; i++) {
        printf(" %d", shape[i]);
    }
    return 0;
}
"""
    words = output_of(tmp_path, artifact, main).split()
    assert words == [qcgen.__version__, artifact.plan.sha256, "7", "128", qcgen.__version__, "1", "8", "8", "2"]


def test_nodes_are_numbered_as_in_the_table_of_the_source():
    text = compiled().files["net.c"]
    table = re.findall(r"^ \* +(\d+)  (\w+) ", text, re.MULTILINE)
    calls = re.findall(r"net_(\w+)\(.*\);\n    NET_HOOK\((\d+)\);", text)
    assert [number for number, _ in table] == [str(i) for i in range(7)]
    assert [(number, name) for name, number in calls] == table


def test_two_models_share_an_arena(tmp_path):
    artifact = compiled()
    main = """
#include <stdio.h>
#include "net.h"
typedef union other_arena { uint8_t bytes[7]; uint32_t align; } other_arena;
int main(void)
{
    static union { net_arena net; other_arena other; } shared;
    static const int8_t x[NET_X_SIZE];
    static int8_t y[NET_Y_SIZE];
    net_run(x, y, &shared);
    printf("%d", sizeof shared >= NET_ARENA_BYTES && sizeof shared < NET_ARENA_BYTES + 4);
    return 0;
}
"""
    assert output_of(tmp_path, artifact, main) == "1"


CONVERSIONS = """
#include <stdio.h>
#include <string.h>
#include "net.h"
#include <math.h>

/* QuantizeLinear, in double precision where that is exact, with the functions of <math.h>. */
static int expected(float value)
{
    const float quotient = value / NET_X_SCALE;
    const double code = rint((double)quotient) + NET_X_ZERO_POINT;

    return isnan(value) || code < LOWEST ? LOWEST : code > HIGHEST ? HIGHEST : (int)code;
}

int main(void)
{
    for (uint64_t at = FIRST; at < BEHIND; at += STEP) {
        const uint32_t bits = (uint32_t)at;
        float value;

        memcpy(&value, &bits, sizeof value);
        if (net_quantize_x(value) != expected(value)) {
            printf("%08lx: %d, not %d", (unsigned long)bits, net_quantize_x(value), expected(value));
            return 0;
        }
    }
    for (int code = LOWEST; code <= HIGHEST; code++) {
        if (net_dequantize_y((NET_Y_TYPE)code) != (float)(code - NET_Y_ZERO_POINT) * NET_Y_SCALE) {
            printf("%d", code);
        }
    }
    return 0;
}
"""


def conversions(folder, pair, step, change=("", ""), words=(0, 2**32)):
    """What differs first between the header's functions and QuantizeLinear, over each ``step``-th float of these."""
    artifact = layer(*pair)
    limits = np.iinfo(pair[2])
    files = {**artifact.files, "net.h": artifact.files["net.h"].replace(*change)}
    assert change == ("", "") or files["net.h"] != artifact.files["net.h"]
    for name, text in (*files.items(), ("main.c", CONVERSIONS)):
        (folder / name).write_text(text)
    flags = [f"-DSTEP={step}u", f"-DLOWEST=({limits.min})", f"-DHIGHEST=({limits.max})", "-O2"]
    flags += [f"-D{name}={word}ull" for name, word in zip(("FIRST", "BEHIND"), words, strict=True)]
    subprocess.run(["gcc", *STRICT_FLAGS, *flags, "main.c", "-lm", "-o", "main"], cwd=folder, check=True)
    return subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_codes_are_those_of_quantizelinear_for_some_floats(pair, tmp_path):
    require("gcc")
    assert conversions(tmp_path, pair, 4099) == ""


@pytest.mark.exhaustive
@pytest.mark.parametrize("words", [(0, 2**31), (2**31, 2**32)], ids=["above 0", "below 0"])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_codes_are_those_of_quantizelinear_for_every_float(pair, words, tmp_path):
    require("gcc")
    assert conversions(tmp_path, pair, 1, words=words) == ""


@pytest.mark.parametrize(
    "change", [("rest == 0.5f && code % 2 != 0", "rest == 0.5f"), ("!(quotient > -123.0f)", "quotient < -123.0f")]
)
def test_a_wrong_rounding_and_a_forgotten_nan_are_found(change, tmp_path):
    require("gcc")
    assert "not" in conversions(tmp_path, (0.5, -5, "int8"), 1024, change)


def test_a_tensor_of_floats_has_no_functions_for_codes():
    artifact = compiled(Path(__file__).parent / "data" / "digits" / "digits_qdq_s8.onnx")
    assert "quantize_" not in artifact.files["net.h"]


HOOKED = """
#include <stdio.h>
#include "net.h"
int main(void)
{
    static const NET_X_TYPE x[NET_X_SIZE];
    static NET_Y_TYPE y[NET_Y_SIZE];
    static net_arena arena;
    net_run(x, y, &arena);
    return 0;
}
"""


def test_the_hook_comes_behind_each_node(tmp_path):
    (tmp_path / "hook.h").write_text('#include <stdio.h>\n#define NET_HOOK(node) printf("%d ", node)\n')
    assert output_of(tmp_path, compiled(), HOOKED, "-include", "hook.h") == "0 1 2 3 4 5 6 "


def test_the_hook_comes_behind_each_part_of_layers_in_rows(tmp_path):
    (tmp_path / "hook.h").write_text('#include <stdio.h>\n#define NET_HOOK(node) printf("%d ", node)\n')
    artifact = compiled(in_rows(), arena="least", layout="nhwc")
    numbers = output_of(tmp_path, artifact, HOOKED, "-include", "hook.h").split()
    assert set(numbers) == {str(i) for i in range(len(artifact.plan.calls))}
    assert len(numbers) > len(artifact.plan.calls)


ASSERTING = """
#include <stdio.h>
#include "net.h"
extern int broken;
int broken;
int main(void)
{
    static NET_X_TYPE x[NET_X_SIZE];
    static net_arena arenas[3];
    NET_Y_TYPE *const y = (NET_Y_TYPE *)(void *)arenas[2].words;
    net_run(x, y, &arenas[0]);
    printf("%d", broken);
    net_run(x, y, (uint8_t *)&arenas[0] + 2);
    net_run(x, (NET_Y_TYPE *)(void *)((uint8_t *)&arenas[0] + NET_ARENA_BYTES - 1), &arenas[0]);
    net_run(x, (NET_Y_TYPE *)(void *)x, &arenas[0]);
    printf(" %d", broken);
    return 0;
}
"""


def test_assertions_hold_for_right_calls_and_fail_for_a_misaligned_arena_and_for_overlaps(tmp_path):
    (tmp_path / "assert.h").write_text(
        "extern int broken;\n#define NET_ASSERT(condition) do { if (!(condition)) { broken++; } } while (0)\n"
    )
    text = output_of(tmp_path, compiled(), ASSERTING, "-include", "./assert.h")
    assert text == "0 3"


def test_what_is_not_defined_takes_no_byte(tmp_path):
    require("arm-none-eabi-gcc", "arm-none-eabi-size")
    artifact = compiled(target="cortex-m4")
    artifact.write(tmp_path)
    text = artifact.files["net.c"]
    (tmp_path / "bare.c").write_text(re.sub(r"^ +NET_(HOOK|ASSERT)\(.*\);\n", "", text, flags=re.MULTILINE))
    assert (tmp_path / "bare.c").read_text().count("HOOK(") < 3
    (tmp_path / "hooked.c").write_text(f"void hook(int node);\n#define NET_HOOK(node) hook(node)\n{text}")
    flags = [*TARGETS["cortex-m4"].flags, *STRICT_FLAGS, "-O2", "-c"]
    subprocess.run(["arm-none-eabi-gcc", *flags, "net.c", "bare.c", "hooked.c"], cwd=tmp_path, check=True)
    objects = ["net.o", "bare.o", "hooked.o"]
    sizes = subprocess.run(["arm-none-eabi-size", *objects], cwd=tmp_path, capture_output=True, text=True, check=True)
    with_macros, bare, hooked = (line.split()[:3] for line in sizes.stdout.splitlines()[1:])
    assert with_macros == bare
    assert int(hooked[0]) > int(bare[0])


WEAK = {"cortex-m0", "cortex-m23", "cortex-m3", "rv32imc", "rv32ic", "avr"}
STRENGTHS = {
    "cortex-m0": {"avr"},
    "cortex-m3": {"cortex-m0", "cortex-m23", "avr"},
    "cortex-m4": WEAK,
    "cortex-m33": WEAK,
    "cortex-m55": {"cortex-m4", "cortex-m7", "cortex-m33", *WEAK},
    "rv32imc": {"avr", "rv32ic"},
    "portable": set(),
}
"""The cores for which a file for a target refuses to be compiled."""

CORES = {name: [TARGETS[name].compiler, *TARGETS[name].flags] for name in EMULATED if name != "scalar32"}
CORES["rv32ic"] = [word.replace("rv32imc", "rv32ic") for word in CORES["rv32imc"]]
CORES |= {"portable": ["cc"], "avr": ["avr-gcc", "-mmcu=atmega2560"]}


@pytest.mark.parametrize("target", STRENGTHS)
def test_a_file_for_one_core_refuses_weaker_ones_unless_it_is_told(target, tmp_path):
    require("arm-none-eabi-gcc", "riscv64-unknown-elf-gcc", "avr-gcc")
    compiled(qlinear_conv((1, 2, 4, 4), random_weights((4, 2, 3, 3))), target=target).write(tmp_path)
    refused = {core for core in CORES if not preprocesses(core, tmp_path)}
    assert refused == STRENGTHS[target]
    assert all(preprocesses(core, tmp_path, "-DNET_ANY_CORE") for core in CORES)


def preprocesses(core, folder, *flags):
    command = [*CORES[core], *flags, "-E", "net.c"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0 or "this core lacks instructions" in result.stderr, result.stderr
    return result.returncode == 0


STOPPED = """
#include <stdio.h>
#include <string.h>
#include "net.h"
int calls, last;
int main(void)
{
    static net_arena arena;
    static NET_X_TYPE x[NET_X_SIZE];
    static NET_Y_TYPE y[NET_Y_SIZE], again[NET_Y_SIZE];
    int all, after;

    for (int i = 0; i < NET_X_SIZE; i++) {
        x[i] = (NET_X_TYPE)(i % 7);
    }
    last = 1000000;
    net_run(x, y, &arena);
    all = calls;
    for (last = 1; last < all; last++) {
        calls = 0;
        net_run(x, again, &arena);
        after = calls - last;
        if (after < 0 || after > BEHIND) {
            printf("%d hooks behind that which ended the run", after);
        }
    }
    last = 1000000;
    memset(again, 0, sizeof again);
    net_run(x, again, &arena);
    printf("%d", memcmp(y, again, sizeof y));
    return 0;
}
"""


@pytest.mark.parametrize("model", [network_qop, in_rows])
def test_a_hook_may_end_the_run_and_the_next_one_starts_anew(model, tmp_path):
    options = {"arena": "least", "layout": "nhwc"} if model is in_rows else {}
    hook = "#define NET_HOOK(node) do { if (++calls >= last) { return; } } while (0)\n"
    artifact = compiled(model(), **options)
    behind = len(artifact.plan.steps) if artifact.plan.streams else 0  # steps that follow a stream ask once more
    (tmp_path / "hook.h").write_text(f"extern int calls, last;\n#define BEHIND {behind}\n{hook}")
    assert output_of(tmp_path, artifact, STOPPED, "-include", "hook.h") == "0"
    (tmp_path / "hook.h").write_text(f"extern int calls, last;\n#define BEHIND {behind}\n{hook.replace('return', '')}")
    assert "hooks behind that which ended the run" in output_of(tmp_path, artifact, STOPPED, "-include", "hook.h")


RETURNING = """
#include <stdio.h>
#include <string.h>
#include "net.h"
int calls, last;
static NET_X_TYPE x[NET_X_SIZE];
static net_arena arena;

static int once(NET_Y_TYPE *y)
{
#ifdef NET_X_ROWS
    net_begin(&arena);
    for (int row = 0; row < NET_X_ROWS; row++) {
        const int status = net_push_row(&arena, &x[row * NET_X_ROW_SIZE]);

        if (status != 0) {
            return status;
        }
    }
    return net_end(&arena, y);
#else
    return net_run(x, y, &arena);
#endif
}

int main(void)
{
    static NET_Y_TYPE y[NET_Y_SIZE], again[NET_Y_SIZE];
    int all;

    for (int i = 0; i < NET_X_SIZE; i++) {
        x[i] = (NET_X_TYPE)(i % 7);
    }
    printf("%d", once(y)); /* last is 0: no call is the last */
    all = calls;
    for (last = 1; last <= all; last++) {
        calls = 0;
        if (once(again) != 100 + last || calls != last) {
            printf(" %d hooks, not %d", calls, last);
        }
    }
    calls = 0;
    memset(again, 0, sizeof again);
    printf(" %d", once(again));
    printf(" %d %d", calls == all, memcmp(y, again, sizeof y));
    return 0;
}
"""

IN_PARTS = {
    "whole": (network_qop, {}),
    "in rows": (in_rows, {"arena": "least", "layout": "nhwc"}),
    "pushed": (in_rows, {"input": "rows", "layout": "nhwc"}),
}


@pytest.mark.parametrize("name", IN_PARTS)
def test_with_status_a_hook_ends_the_run_at_once_and_the_caller_learns_it(name, tmp_path):
    model, options = IN_PARTS[name]
    hook = "extern int calls, last;\n#define NET_HOOK(node) (++calls == last ? 100 + last + 0 * (node) : 0)\n"
    (tmp_path / "hook.h").write_text(hook)
    artifact = compiled(model(), status=True, **options)
    assert output_of(tmp_path, artifact, RETURNING, "-include", "hook.h") == "0 0 1 0"
    files = {name: text.replace("return status;", "") for name, text in artifact.files.items()}  # a planted bug
    assert "hooks, not" in output_of(tmp_path, replace(artifact, files=files), RETURNING, "-include", "hook.h")


def test_with_status_no_input_is_called_as_the_variable_that_holds_it():
    assert compiled(rename={"x": "status"}).plan.inputs[0].symbol == "status"
    with pytest.raises(qcgen.ModelRejected, match="such as status_"):
        compiled(rename={"x": "status"}, status=True)


# --- what the file counts on


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        ("portable", ""),
        ("cortex-m0", ""),
        ("rv32imc", ""),
        ("cortex-m3", "UNALIGN_TRP"),
        ("cortex-m4", "UNALIGN_TRP CPACR"),
        ("cortex-m55", "UNALIGN_TRP CPACR"),
    ],
)
def test_the_header_lists_what_its_core_must_have(target, asked):
    header = compiled(target=target).files["net.h"]
    assert "conversions to signed types wrap" in header
    assert [word for word in ("UNALIGN_TRP", "CPACR") if word in header] == asked.split()


def test_the_arena_is_an_array_of_words_no_larger_than_it_must_be(tmp_path):
    artifact = compiled()
    main = """
#include <stdio.h>
#include "net.h"
int main(void)
{
    printf("%d", sizeof(net_arena) == (NET_ARENA_BYTES + 3) / 4 * 4 && sizeof((net_arena *)0)->words[0] == 4);
    return 0;
}
"""
    assert output_of(tmp_path, artifact, main) == "1"


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize(
    ("core", "source"),
    [
        ("cortex-m0", "narrow_cortex_m0"),
        ("cortex-m4", "sizes_cortex_m4"),
        ("cortex-m55", "depthwise_cortex_m55"),
        ("cortex-m4", "network_in_rows"),
        ("cortex-m4", "lstm"),
    ],
)
def test_functions_go_where_the_attribute_says(core, source, level, tmp_path):
    require("arm-none-eabi-gcc", "arm-none-eabi-size")
    target, path = TARGETS[core], Path(__file__).parents[1] / "generated" / f"{source}.c"
    attribute = f'-D{source.upper()}_CODE_ATTR=__attribute__((section(".itcm")))'
    succeed([*compile_command(target, (level, attribute), "gcc"), str(path), "-o", "_.o"], tmp_path)
    sizes = dict(re.findall(r"^(\.\S+) +(\d+)", succeed([f"{target.tools}size", "-A", "_.o"], tmp_path), re.MULTILINE))
    assert int(sizes[".itcm"]) > 0
    assert not [each for each, size in sizes.items() if each.startswith(".text") and int(size)]


def test_tables_and_structs_of_layers_go_where_the_attribute_says(tmp_path):
    require("arm-none-eabi-gcc", "arm-none-eabi-size")
    target, source = TARGETS["cortex-m4"], Path(__file__).parents[1] / "generated" / "sizes_cortex_m4.c"
    assert "_CONST_ATTR static const struct" in source.read_text()
    attribute = '-DSIZES_CORTEX_M4_CONST_ATTR=__attribute__((section(".here")))'
    succeed([*compile_command(target, ("-O2", attribute), "gcc"), str(source), "-o", "_.o"], tmp_path)
    sizes = dict(re.findall(r"^(\.\S+) +(\d+)", succeed([f"{target.tools}size", "-A", "_.o"], tmp_path), re.MULTILINE))
    assert int(sizes[".here"]) > 0
    assert not [each for each, size in sizes.items() if each.startswith(".rodata") and int(size)]
