"""The fewest and the most instructions of a call: reached where inputs reach them, refused where nothing is known."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from emulated import require_core
from marks import some_at_first
from models import qlinear_conv, random_weights
from packages import DIGITS

import qcgen
from qcgen.cli import main
from qcgen.emulate import bound, bounds, end_feeds, flow, measure
from qcgen.errors import EmulationFailed
from qcgen.render import library

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m33")
QDQ = DIGITS.with_name("digits_qdq_s8.onnx")
HEAD = '#include "m.h"\nvoid m_run(const int8_t *x, int8_t *y, void *arena)\n{ (void)x; (void)y; (void)arena; '
each_core = pytest.mark.parametrize("core", some_at_first(CORES, "cortex-m0"))


def written(core, body, before=""):
    """A function of 120 codes with this body."""
    require_core(core, counting=True)
    content = qlinear_conv((1, 4, 6, 5), random_weights((8, 4, 3, 3)), x_type="int8", y_type="int8")
    artifact = qcgen.compile(content, name="m", target=core)
    return replace(
        artifact, files={"m.h": artifact.files["m.h"], "m.c": f"#include <stdint.h>\n{before}{HEAD}{body} }}\n"}
    )


def with_first(artifact, *codes):
    """Inputs of 0 that begin with each of these codes."""
    [port] = artifact.plan.before
    feeds = []
    for code in codes:
        x = np.zeros(port.shape, np.int8)
        x.reshape(-1)[0] = code
        feeds.append({port.tensor.name: x})
    return feeds


def bounded(artifact, inputs, flags=("-O2",)):
    return bound(artifact, inputs, flags=flags)


WORK = "__asm__ volatile(" + " ".join(['"nop\\n"'] * 9) + ");"
BRANCH = f"y[0] = 0; if (x[0] > 5) {{ {WORK} if (x[0] > 9) {{ {WORK} y[0] = 1; }} }}"


@each_core
def test_both_ends_are_reached_where_inputs_decide(core):
    artifact = written(core, BRANCH)
    found = bounded(artifact, with_first(artifact, 0, 7, 20))
    assert (found.least, found.most) == (found.counted[0], found.counted[2])
    assert found.counted[0] < found.counted[1] < found.counted[2]


@each_core
def test_a_call_behind_a_branch_counts(core):
    helper = f"__attribute__((noinline)) static void help(int8_t *y) {{ {WORK} y[1] = 2; }}\n"
    artifact = written(core, "y[0] = 0; if (x[0] > 5) { help(y); y[0] = 1; }", helper)
    found = bounded(artifact, with_first(artifact, 0, 20))
    assert (found.least, found.most) == found.counted


HIDDEN = '__asm__ volatile("" : "+r"(n));'  # the compiler cannot make a loop for each number
LOOP = 'for (int i = 0; i < {}; i++) {{ __asm__ volatile("nop"); }}'
ACROSS = '__asm__ volatile("mov r3, sp\\n bl still\\n {}" : : "r"(x) : "r0", "r3", "lr", "memory");'
FRAME = "volatile int a[4]; a[2] = 3; {} " + LOOP.replace("{}", "a[2]", 1)
REFUSED = {
    "a loop as long as data say": 'for (int i = 0; i < x[0]; i++) { __asm__ volatile("nop"); }',
    "a number that a branch decides": f"int n = 3; if (x[0] > 0) {{ {WORK} n = 7; }} {HIDDEN} {LOOP.format('n')}",
    "through memory": 'y[0] = x[0]; for (int i = 0; i < y[0]; i++) { __asm__ volatile("nop"); }',
    "through the frame": FRAME.format("fill(a, x);"),
    "through the frame as a third argument": FRAME.format("fill_third(2, 0, a, x);"),
    "through a register that a call leaves": FRAME.format(ACROSS.format("ldrb r0, [%0]\\n str r0, [r3, #8]")),
    "through a call": 'int n = give(x); for (int i = 0; i < n; i++) { __asm__ volatile("nop"); }',
    "through a table": 'for (int i = 0; i < T[x[0] & 3]; i++) { __asm__ volatile("nop"); }',
    "a loop behind a branch": "if (x[0] > 0) { for (int i = 0; i < 20; i++) { y[i] = x[i] * 3; } }",
}
HELPERS = """static const int8_t T[4] = {1, 2, 3, 4};
__attribute__((noinline)) static void fill(volatile int *a, const int8_t *x) { a[2] = x[0]; (void)T; }
__attribute__((noinline)) static void fill_third(int i, int j, volatile int *a, const int8_t *x) { a[i + j] = x[0]; }
__attribute__((noinline, used)) static void still(void) { __asm__ volatile(""); }
__attribute__((noinline)) static int give(const int8_t *x) { __asm__ volatile(""); return x[0]; }
__attribute__((unused)) static void unused(void)
{ fill((volatile int *)0, T); fill_third(2, 0, (volatile int *)0, T); (void)give(T); }
"""


@each_core
@pytest.mark.parametrize("what", REFUSED)
def test_no_bound_where_the_length_of_a_loop_depends_on_data(core, what):
    artifact = written(core, REFUSED[what], HELPERS)
    with pytest.raises(EmulationFailed, match=r"no bound: m_run has a loop (whose|behind)"):
        bounded(artifact, with_first(artifact, 2, 3), flags=("-O1",))


@each_core
@pytest.mark.parametrize("behind", ["ldrb r0, [%0]", "mov r3, sp\\n mov r0, #0\\n ldrsb r0, [r3, r0]"])
def test_what_a_function_does_not_take_tells_it_no_address(core, behind):
    artifact = written(core, FRAME.format(ACROSS.format(f"{behind}\\n mov r3, #0")), HELPERS)
    found = bounded(artifact, with_first(artifact, 2, 3), flags=("-O1",))
    assert {found.least, found.most} == set(found.counted)


@each_core
def test_constants_in_flash_and_the_frame_say_how_long_loops_are(core):
    table = "static const int T[3] = {4, 9, 2};\n"
    inner = f"for (int i = 0; i < ((volatile const int *)T)[k]; i++) {{ {WORK} }}"
    body = f"for (int k = 0; k < 3; k++) {{ {inner} }} y[0] = x[0];"
    artifact = written(core, body, table)
    found = bounded(artifact, with_first(artifact, 0, 20))
    assert found.least == found.most == found.counted[0] == found.counted[1]


SAVED = "str %0, [sp]\\n mov %0, #1\\n ldr %0, [sp]"


def around_a_branch(rare, common=""):
    """A loop of n rounds behind a branch on the input, which runs this assembly: %0 is n, %2 another number."""
    branch = f" cmp %1, #5\\n ble 1f\\n {rare}\\n b 2f\\n 1: {common}\\n 2:"
    operands = '"+l"(n) : "l"((int)x[0]), "l"(k) : "cc", "memory"'
    assembly = f'__asm__ volatile("sub sp, #8\\n{branch} add sp, #8" : {operands});'
    return f"int n = 3, k = 4; {HIDDEN} {HIDDEN.replace('(n)', '(k)')} {assembly} {LOOP.format('n')} y[0] = 0;"


@each_core
def test_a_register_that_a_branch_saves_and_restores_keeps_its_number(core):
    artifact = written(core, around_a_branch(SAVED))
    found = bounded(artifact, with_first(artifact, 0, 20), ("-O1",))
    least, most = found.counted
    assert (found.least, found.most, most - least) == (least, most, 4)


@each_core
@pytest.mark.parametrize(
    "ways",
    [
        ("mov %0, #1\\n str %0, [sp]\\n ldr %0, [sp]",),
        ("str %2, [sp]\\n ldr %0, [sp]",),
        (SAVED.replace("mov %0, #1\\n", "mov %0, #1\\n str %0, [sp]\\n"),),
        ("str %0, [sp]", "str %0, [sp]\\n 2: add %0, #1\\n cmp %1, #5\\n ble 2f\\n ldr %0, [sp]"),
    ],
    ids=["saved too late", "another register", "saved again", "restored behind another branch"],
)
def test_a_register_that_is_restored_otherwise_has_no_number(core, ways):
    artifact = written(core, around_a_branch(*ways))
    with pytest.raises(EmulationFailed, match=r"no bound: m_run has a loop (whose|behind)"):
        bounded(artifact, with_first(artifact, 0, 20), flags=("-O1",))


LAYERS = """typedef struct { const int16_t *lengths; const int16_t *others; int32_t count; } layer_t;
static const int16_t A[3] = {4, 9, 2}, B[3] = {1, 2, 3}, C[3] = {5, 5, 6};
static const layer_t FIRST = {A, B, 3}, SECOND = {C, B, 2};
"""
WALK = f"""__attribute__((noinline)) static void walk(const layer_t *layer, const int8_t *x, int8_t *y, int from)
{{
    volatile int8_t kept[4];
    fill(kept, x);
    for (int k = from; k < layer->count; k++) {{
        for (int i = 0; i < layer->PLACE[k]; i++) {{ {WORK} }}
        y[k] = kept[k];
    }}
}}
"""
KEPT = "__attribute__((noinline)) static void fill(volatile int8_t *kept, const int8_t *x) { kept[x[1] & 3] = x[0]; }\n"


@each_core
@pytest.mark.parametrize("level", ["-O2", "-Os"])
def test_tables_that_constant_structs_name_say_how_long_loops_are(core, level):
    body = "walk(&FIRST, x, y, 0); walk(&SECOND, x, y, 1);"
    artifact = written(core, body, LAYERS + KEPT + WALK.replace("PLACE", "lengths"))
    found = bounded(artifact, with_first(artifact, 0, 20, -5), (level,))
    assert {found.least, found.most} == set(found.counted)


@each_core
def test_what_a_struct_in_memory_that_changes_names_is_not_known(core):
    before = LAYERS + KEPT + WALK.replace("PLACE", "lengths").replace("const layer_t *", "const volatile layer_t *")
    body = "layer_t own = x[0] > 0 ? FIRST : SECOND; walk(&own, x, y, 0);"
    artifact = written(core, body, before)
    with pytest.raises(EmulationFailed, match=r"no bound: \w+ has a loop (whose|behind)"):
        bounded(artifact, with_first(artifact, 0, 20), flags=("-O1",))


def test_a_fault_of_the_analysis_is_found_by_counting(monkeypatch):
    artifact = written("cortex-m4", REFUSED["through memory"])
    monkeypatch.setattr(flow, "_is_data", lambda _: False)
    with pytest.raises(EmulationFailed, match="the bound is wrong"):
        bounded(artifact, with_first(artifact, 2, 90), flags=("-O1",))


@each_core
def test_a_function_that_is_not_followed_has_no_bound(core):
    body = 'y[0] = x[0]; __asm__ volatile("cpsie i");'
    with pytest.raises(EmulationFailed, match="there is no bound: m_run has 'cpsie"):
        bounded(written(core, body), [])
    helper = '__attribute__((noinline)) static void help(int8_t *y) { __asm__ volatile("cpsie i"); y[0] = 1; }\n'
    artifact = written(core, "help(y); y[1] = 1;", helper)
    with pytest.raises(EmulationFailed, match="no bound: help has 'cpsie"):
        bounded(artifact, with_first(artifact, 0))


@pytest.mark.all
def test_far_jumps_of_cortex_m0_are_followed():
    require_core("cortex-m0", counting=True)
    artifact = qcgen.compile(QDQ, name="d", target="cortex-m0", layout="nhwc", io="quantized")
    found = bounded(artifact, end_feeds(artifact.plan, 0))
    assert [node.name for node in found.nodes if node.most is None] == ["residual"]


# --- generated code


@pytest.mark.all
@each_core
def test_counts_of_nodes_lie_within_their_bounds(core):
    require_core(core, counting=True)
    artifact = qcgen.compile(QDQ, name="d", target=core, layout="nhwc")
    inputs = end_feeds(artifact.plan, 0)
    found = bounded(artifact, inputs, ("-O3",))
    known = (
        {"max", "mean", "dense6", "softmax"} if core == "cortex-m3" else {"conv1", "conv5", "max", "mean", "softmax"}
    )
    assert known <= {node.name for node in found.nodes if node.most is not None}
    for feeds, total in zip(inputs[3:5], found.counted[3:5], strict=True):
        measured = measure(artifact, feeds, flags=("-O3",))
        assert measured.instructions == total
        for node, own in zip(measured.nodes, found.nodes, strict=True):
            assert own.most is None or own.least <= node.instructions <= own.most, node


@pytest.mark.parametrize("node", ["depthwise2", "residual", "max"])
def test_layers_without_a_branch_on_data_take_as_many_instructions_for_every_input(node):
    require_core("cortex-m4", counting=True)
    artifact = qcgen.compile(QDQ, name="d", target="cortex-m4", layout="nhwc", node=node)
    found = bounded(artifact, end_feeds(artifact.plan, 0))
    assert {found.least, found.most} == set(found.counted)


def in_bytes(first):
    """Four codes as the bits of one number, in C."""
    parts = (f"(uint32_t)(uint8_t)x[{first + i}] << {24 - 8 * i}" for i in range(4))
    return f"(uint32_t)({' | '.join(parts)})"


def soft_float(core, name, call):
    """A function of codes that calls one function of float32 numbers in integers, unless the ninth code is 0."""
    require_core(core, counting=True)
    text = "".join(library("").needed([], "m", [name]))
    return written(core, f"y[0] = x[8] ? (int8_t)m_{name}({call}) : 0;", text)


def with_numbers(artifact, *pairs):
    """Inputs of 0 that begin with the bits of these pairs of numbers of 32 bits, and 1."""
    feeds = with_first(artifact, *[0] * len(pairs))
    for each, pair in zip(feeds, pairs, strict=True):
        [x] = each.values()
        x.reshape(-1)[:9] = [*np.array(pair, ">i4").view(np.int8), 1]
    return feeds


@each_core
def test_loops_of_the_soft_float_run_no_more_rounds_than_is_said(core, monkeypatch):
    artifact = soft_float(core, "soft_float_add", f"{in_bytes(0)}, {in_bytes(4)}")
    one, minus = 0x3F800000, -(2**31)
    differences = [(one, one + 1 + minus), (one + 1, one + minus), (one, one - 1 + minus), (0x4B800000, one + minus)]
    driven = with_numbers(artifact, (0, 0), (one, one), (one, one + minus), *differences)
    found = bounded(artifact, driven)
    assert found.least <= min(found.counted) < max(found.counted) <= found.most
    monkeypatch.setitem(bounds.ROUNDS, "soft_float_add", 1)
    with pytest.raises(EmulationFailed, match="the bound is wrong"):
        bounded(artifact, driven)


@each_core
def test_a_code_near_a_tie_takes_as_many_instructions_for_every_accumulator(core):
    artifact = soft_float(core, "soft_float_code", f"(int32_t){in_bytes(0)}, 0x900000, (int8_t)x[7]")
    sums = [0, 1, -1, 2, 1 << 23, (1 << 24) + 1, 2**31 - 1, -(2**31), 3 << 29]
    driven = with_numbers(artifact, *[(each, exponent) for each in sums for exponent in (-128, -30, 0)])
    counted = set(bounded(artifact, driven).counted)
    # Thumb's first instructions choose by branches.
    assert len(counted) == 1 or (core == "cortex-m0" and max(counted) - min(counted) <= 10)


def test_the_command_says_what_holds_and_what_has_no_bound(capsys):
    require_core("cortex-m4", counting=True)
    arguments = ["bench", "--worst", str(QDQ), "--target", "cortex-m4", "--layout", "nhwc"]
    assert main([*arguments, "--node", "depthwise2"]) == 0
    assert re.search(
        r"\n15 \d\d\d instructions for every input; 8 calls counted: 15 \d\d\d to 15 \d\d\d\n", capsys.readouterr().out
    )
    small = ["bench", "--worst", str(QDQ), "--target", "cortex-m0", "--layout", "nhwc", "--node", "residual"]
    assert main(small) == 1
    assert "no bound: 1 of 1 nodes have none" in capsys.readouterr().out
    assert main([*small, "--json"]) == 1
    [function] = json.loads(capsys.readouterr().out)["functions"]
    assert (function["most"], function["least"], function["nodes"][0]["most"]) == (None, None, None)


@pytest.mark.parametrize("level", some_at_first(["-O2", "-O3", "-Os"]))
def test_a_whole_network_has_a_bound(level):
    require_core("cortex-m4", counting=True)
    artifact = qcgen.compile(QDQ, name="d", target="cortex-m4", layout="nhwc")
    found = bounded(artifact, end_feeds(artifact.plan, 0), (level,))
    assert [node.name for node in found.nodes if node.most is None] == []
    assert found.least <= min(found.counted) <= max(found.counted) <= found.most


def summing(core):
    """A function that adds two numbers as a softmax does: their bits are the first eight codes."""
    require_core(core, counting=True)
    text = "".join(library("").needed([], "m", ["soft_float_add"]))
    words = [" | ".join(f"(uint32_t)(uint8_t)x[{4 * n + i}] << {24 - 8 * i}" for i in range(4)) for n in (0, 1)]
    body = (
        f"const uint32_t sum = m_soft_float_add({words[0]}, {words[1]}); y[0] = (int8_t)sum; y[1] = (int8_t)(sum >> 8);"
    )
    return written(core, body, text)


@each_core
def test_additions_of_floats_run_no_more_rounds_than_is_said(core, monkeypatch):
    artifact = summing(core)
    feeds = with_first(artifact, *[0] * 6)
    near = [(1.0, 1.0), (1.0, -1.0), (1.0, np.nextafter(np.float32(-1), np.float32(0))), (2.0**-126, -(2.0**-149))]
    near += [(3e38, -1e-38), (1.5, 2.0**-24)]
    for feed, pair in zip(feeds, near, strict=True):
        [x] = feed.values()
        x.reshape(-1)[:8] = np.frombuffer(np.array(pair, ">f4").tobytes(), np.int8)
    found = bounded(artifact, feeds)
    assert found.least <= min(found.counted) < max(found.counted) <= found.most
    monkeypatch.setitem(bounds.ROUNDS, "soft_float_add", 1)
    with pytest.raises(EmulationFailed, match="the bound is wrong"):
        bounded(artifact, feeds)


EXACT = """
static inline __attribute__((always_inline)) int32_t m_{inner}(int32_t n)
{{
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {{ __asm__ volatile("nop"); sum += i; }}
    return sum;
}}
__attribute__((noinline)) static void m_{outer}(const int8_t *x, int8_t *y)
{{
    for (int32_t c = 0; c < 6; c++) {{ y[c] = (int8_t)m_{inner}(x[c]); }}
}}
"""


def test_a_loop_in_a_loop_counts_for_each_round_of_both():
    """Each of a function that says how often; a function says it of its own loop, not of one within that."""
    call = "y[0] = 0; if (x[0] > 0) {{ m_{outer}(x, y); }}"

    def found(**names):
        artifact = written("cortex-m4", call.format(**names), EXACT.format(**names))
        return bounded(artifact, with_first(artifact, 0, 5))

    assert found(outer="exact6", inner="soft_float_add").most > 7 * 27
    for names in ({"outer": "exact6", "inner": "other"}, {"outer": "other", "inner": "soft_float_add"}):
        with pytest.raises(EmulationFailed, match="has a loop behind a branch that depends on the input"):
            found(**names)


def test_a_core_whose_code_is_not_followed_is_refused(capsys):
    for core in ("rv32imc", "cortex-m55"):
        assert main(["bench", "--worst", str(QDQ), "--target", core]) == 2
        assert f"argument --worst: code for {core} is not followed: use cortex-m0" in capsys.readouterr().err
