"""Emulated cores: outputs, exact counts and to whom they belong, and what is said when something fails."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from cases import CASES
from emulated import require_core, wrong_outputs
from marks import some_at_first
from models import graph_model, qlinear_conv, random_weights
from network_cases import UNITS
from subjects import convolution, on_core, operator
from tflite_models import MODELS as TFLITE
from tools import require

import qcgen
from qcgen.cli import main
from qcgen.cores import EMULATED, RISCV_CORES, TARGETS
from qcgen.emulate import CYCLES, Trial, cross_build, emulate, measure, random_feeds
from qcgen.emulate.counts import block_cycles, entry_cycles, jump_cycles
from qcgen.emulate.listing import Instruction
from qcgen.errors import EmulationFailed
from qcgen.plan import prices

DIGITS = Path(__file__).parent / "data" / "digits"
HANDFUL = CASES[:: len(CASES) // 12]
ARMS = tuple(core for core in EMULATED if not core.startswith("rv"))  # scalar32 runs on an Arm core


def small(core, **options):
    """A small convolution for a core."""
    content = qlinear_conv((1, 4, 6, 5), random_weights((8, 4, 3, 3)), x_type="int8", y_type="int8")
    return qcgen.compile(content, name="m", target=core, **options)


def written(core, body):
    """The small convolution, its C file replaced by another one."""
    artifact = small(core)
    return replace(artifact, files={"m.h": artifact.files["m.h"], "m.c": f'#include "m.h"\n{body}\n'})


RUN = "void m_run(const int8_t *x, int8_t *y, void *arena)"
UNUSED = "(void)x; (void)y; (void)arena;"


each_core = pytest.mark.parametrize("core", some_at_first(EMULATED, "cortex-m4"))


# --- outputs


def some(core):
    """A handful of convolutions and of other operators for the core."""
    return on_core(HANDFUL, core) + [operator(each, core) for each in UNITS[:: len(UNITS) // 12]]


@each_core
def test_outputs_on_the_emulated_core_equal_the_reference(core, tmp_path):
    require_core(core)
    assert not wrong_outputs(core, some(core), tmp_path)


@pytest.mark.all
@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "cortex-m55", "rv32imc"])
def test_outputs_of_code_that_clang_compiled_equal_the_reference(core, tmp_path):
    require_core(core, "clang")
    assert not wrong_outputs(core, some(core)[::4], tmp_path, "clang")


@pytest.mark.all
def test_a_model_may_have_more_tensors_than_64(tmp_path):
    require_core("cortex-m3")
    ports = range(150)
    nodes = [onnx.helper.make_node("Transpose", [f"x{i}"], [f"y{i}"], perm=[1, 0]) for i in ports]
    xs, ys = ({f"{name}{i}": ("int8", shape) for i in ports} for name, shape in (("x", (2, 3)), ("y", (3, 2))))
    artifact = qcgen.compile(graph_model(nodes, xs, ys), name="m", target="cortex-m3")
    image = cross_build("cortex-m3", [artifact], ("-O1",), tmp_path)
    feeds = random_feeds(artifact.plan, 0)
    [outcome] = emulate(image, [Trial(feeds)])
    assert len(feeds) + len(outcome.outputs) == 300
    assert all(np.array_equal(outcome.outputs[f"y{i}"], feeds[f"x{i}"].T) for i in ports)


def test_a_wrong_output_on_the_emulated_core_is_found(tmp_path):
    require_core("cortex-m4")
    each = convolution(HANDFUL[0], "nhwc", "size")  # portable code, which runs on every core
    name = f"{each.name}.c"
    assert ", -128, 127)" in each.artifact.files[name]
    files = {**each.artifact.files, name: each.artifact.files[name].replace(", -128, 127)", ", -128, 100)")}
    [text] = wrong_outputs("cortex-m4", [replace(each, artifact=replace(each.artifact, files=files))], tmp_path)
    assert "outputs differ" in text


@each_core
def test_verify_runs_on_the_emulated_core_of_the_target(core, tmp_path, capsys):
    require_core(core)
    onnx.save(qlinear_conv((1, 4, 6, 5), random_weights((8, 4, 3, 3))), tmp_path / "m.onnx")
    assert main(["verify", str(tmp_path / "m.onnx"), "--target", core]) == 0
    out = capsys.readouterr().out
    assert f"built with: {TARGETS[core].compiler} " in out
    assert f"run on: an emulated {core}" in out
    assert "total: 0 of " in out


def test_verify_with_host_runs_code_for_a_core_on_this_machine(tmp_path, capsys, monkeypatch):
    onnx.save(qlinear_conv((1, 2, 4, 4), random_weights((3, 2, 3, 3))), tmp_path / "m.onnx")
    monkeypatch.setenv("CC", "gcc")
    require("gcc")
    assert main(["verify", str(tmp_path / "m.onnx"), "--target", "cortex-m4", "--host"]) == 0
    out = capsys.readouterr().out
    assert "built with: gcc " in out
    assert "run on" not in out


def test_verify_finds_outputs_that_differ_on_the_core(tmp_path, capsys, monkeypatch):
    require_core("cortex-m4")
    model = qlinear_conv((1, 4, 6, 5), random_weights((8, 4, 3, 3)))
    right = qcgen.compile(model, name="m", target="cortex-m4")
    source = right.files["m.c"].removesuffix("}\n") + "    *y ^= 1;\n}\n"
    wrong = replace(right, files=right.files | {"m.c": source})
    monkeypatch.setattr("qcgen.cli.artifacts.compile_graph", lambda *_: wrong)
    onnx.save(model, tmp_path / "m.onnx")
    assert main(["verify", str(tmp_path / "m.onnx"), "--target", "cortex-m4"]) == 1
    out = capsys.readouterr().out
    assert "first difference: y[0, 0, 0, 0] of random case 0" in out
    assert "cause: no node differs when every tensor is an output, nor where each is called by itself" in out
    assert "sums of 1 layer: 0 wrong" in out


@pytest.mark.all
def test_verify_names_the_node_that_only_the_core_computes_wrongly(tmp_path, capsys, mutate):
    require_core("cortex-m4")
    mutate("library/dsp.h", "__smlad(a, b, sum)", "__smlad(a, b, sum) + 1")
    onnx.save(qlinear_conv((1, 4, 6, 5), random_weights((8, 4, 3, 3))), tmp_path / "m.onnx")
    assert main(["verify", str(tmp_path / "m.onnx"), "--target", "cortex-m4", "--layout", "nhwc"]) == 1
    out = capsys.readouterr().out
    assert "cause: node conv1 (QLinearConv) is the first that differs" in out
    assert "first wrong sum: the sum at " in out
    assert main(["verify", str(tmp_path / "m.onnx"), "--target", "cortex-m4", "--layout", "nhwc", "--host"]) == 0


# --- counts

LOOPS = {
    **dict.fromkeys(ARMS, ".syntax unified\\n movs r3, #100\\n 1: subs r3, #1\\n bne 1b\\n bx lr"),
    "rv32imc": "li t0, 100\\n 1: addi t0, t0, -1\\n bnez t0, 1b\\n ret",
}
"""One instruction, 100 times two, and the return: 202; 99 of the branches and the return jump."""


def counted(core, body, **changes):
    """The measurement of a C file with the symbols of the small convolution."""
    artifact = written(core, body)
    plan = replace(artifact.plan, **changes)
    return measure(replace(artifact, plan=plan), random_feeds(plan, 0))


def node_of(core):
    """The symbol of the small convolution's node."""
    return small(core).plan.calls[0].symbol


def loop(core, symbol, attributes="naked, noinline"):
    return f'__attribute__(({attributes})) static void {symbol}(void) {{ __asm__ volatile("{LOOPS[core]}"); }}'


@each_core
def test_a_loop_of_known_length_is_counted_exactly(core):
    require_core(core)
    symbol = node_of(core)
    found = counted(core, f"{loop(core, symbol)}\n{RUN} {{ {UNUSED} {symbol}(); }}")
    [node] = found.nodes
    assert node.instructions == 202
    assert node.cycles == 202 + 100 * CYCLES[core].jump
    assert found.instructions == node.instructions + found.outside.instructions
    assert found.outside.instructions < 60


@each_core
def test_what_was_inlined_into_the_public_function_belongs_to_its_node(core):
    require_core(core)
    symbol = node_of(core)
    text = LOOPS[core].rsplit("\\n", 1)[0]  # without the return
    clobbers = '"t0"' if core == "rv32imc" else '"r3", "cc"'
    node = f"static inline __attribute__((always_inline)) void {symbol}(void)"
    body = f'{node} {{ __asm__ volatile("{text}" ::: {clobbers}); }}\n{RUN} {{ {UNUSED} {symbol}(); }}'
    found = counted(core, body)
    assert found.nodes[0].instructions == 201
    assert found.nodes[0].code_bytes > 0


ARM_SUPPORT = ".syntax unified\\n 1: subs r0, #1\\n bne 1b\\n bx lr"
ARM_CALLER = "push {lr}\\n movs r0, #COUNT\\n bl m_support\\n pop {pc}"
RISCV_SUPPORT = "1: addi a0, a0, -1\\n bnez a0, 1b\\n ret"
RISCV_CALLER = "mv t1, ra\\n li a0, COUNT\\n call m_support\\n jr t1"
SUPPORT = {**dict.fromkeys(ARMS, (ARM_SUPPORT, ARM_CALLER)), "rv32imc": (RISCV_SUPPORT, RISCV_CALLER)}
"""A function of the generated file that several nodes call, two instructions COUNT times and the return; a node."""


@each_core
def test_shared_code_counts_for_the_node_that_calls_it(core):
    require_core(core)
    support, caller = SUPPORT[core]
    [call] = small(core).plan.calls
    calls = (call, replace(call, symbol="m_second"))
    functions = [("m_support", support), (call.symbol, caller.replace("COUNT", "10"))]
    functions.append(("m_second", caller.replace("COUNT", "20")))
    head = "__attribute__((naked, noinline, used)) static void"
    texts = [f'{head} {name}(void) {{ __asm__ volatile("{text}"); }}' for name, text in functions]
    found = counted(core, "\n".join([*texts, f"{RUN} {{ {UNUSED} {call.symbol}(); m_second(); }}"]), steps=calls)
    assert [node.instructions for node in found.nodes] == [4 + 21, 4 + 41]
    assert found.library_bytes > 0


@each_core
def test_counts_are_the_same_each_time(core):
    require_core(core)
    artifact = small(core, layout="nhwc")
    first, second = (measure(artifact, random_feeds(artifact.plan, 3)) for _ in range(2))
    assert first.nodes == second.nodes
    assert (first.outside, first.flash_bytes) == (second.outside, second.flash_bytes)
    assert first.outcome.stack_bytes == second.outcome.stack_bytes > 0


def test_optimization_flags_reach_the_compiler():
    require_core("cortex-m4")
    artifact = small("cortex-m4")
    feeds = random_feeds(artifact.plan, 0)
    assert measure(artifact, feeds, flags=("-O0",)).instructions > 2 * measure(artifact, feeds).instructions


@pytest.mark.parametrize("arena", [None, "least"])
def test_the_longest_stretch_between_two_hooks_is_about_what_the_core_counts(arena):
    require_core("cortex-m4")
    path = DIGITS / "digits_qop_s8.onnx"
    artifact = qcgen.compile(path, name="net", target="cortex-m4", layout="nhwc", arena=arena)
    hooks = dict.fromkeys((call.op.name for call in artifact.plan.whole_calls), 1)
    text = artifact.files["net.c"]
    for stream in artifact.plan.streams:
        table = re.search(rf"{stream.order.symbol}\[.*?\{{(.*?)\}};", text, re.DOTALL)[1]
        numbers = [int(line.split(",")[0]) for line in table.strip().splitlines()]
        hooks |= {t.call.op.name: numbers.count(i) for i, t in enumerate(stream.turns) if t.call is not None}
    counted = {
        node.name: node.cycles / hooks[node.name] for node in measure(artifact, random_feeds(artifact.plan, 0)).nodes
    }
    found = artifact.report.longest_stretch
    assert counted[found.node] > 0.95 * max(counted.values())
    assert found.cycles == pytest.approx(max(counted.values()), rel=0.15)


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4"])
@pytest.mark.parametrize("name", ["concatenation", "pad", "split", "transpose"])
def test_what_moving_elements_takes_is_known_to_a_factor_of_four(core, name):
    """It was up to fifty times as much as counted, so a wake word seemed to do little else."""
    require_core(core)
    artifact = qcgen.compile(TFLITE[name], name="net", target=core)
    counted = sum(node.cycles for node in measure(artifact, random_feeds(artifact.plan, 0)).nodes)
    estimated = sum(prices.cycles(call, core) for call in artifact.plan.calls)
    assert counted / 4 < estimated < counted * 4


def test_the_stack_that_the_code_uses_is_measured():
    require_core("cortex-m4")
    body = f"{RUN} {{ volatile int8_t big[3000]; {UNUSED} (void)big; for (int i = 0; i < 3000; i++) big[i] = 0; }}"
    assert 3000 <= counted("cortex-m4", body).outcome.stack_bytes < 3100


def test_bench_prints_nodes_and_totals(tmp_path, capsys):
    require_core("cortex-m4")
    onnx.save(qlinear_conv((1, 4, 6, 5), random_weights((8, 4, 3, 3))), tmp_path / "m.onnx")
    assert main(["bench", str(tmp_path / "m.onnx"), "--target", "cortex-m4"]) == 0
    text = capsys.readouterr().out
    assert "conv1  arm_dsp/conv " in text
    assert "an estimate for memory without wait states" not in text
    flash, ram, time, exact = text.splitlines()[-4:]
    same = qcgen.compile(tmp_path / "m.onnx", target="cortex-m4").report.flash_bytes
    assert flash.startswith(f"flash: {same:,} B: constants ".replace(",", " "))
    assert flash.endswith(" B with -O2; the C library's part left out")
    assert re.fullmatch(r"RAM: [\d ]+ B: arena [\d ]+ B, inputs 120 B, outputs 96 B, stack [\d ]+ B", ram)
    assert re.fullmatch(r"time: about [\d.]+ ms on stm32l4r5, [\d.]+ ms on stm32f407", time)
    assert exact == "exact: every output is that of onnxruntime, bit for bit"
    assert main(["bench", str(tmp_path / "m.onnx"), "--target", "cortex-m4", "-v", "--cflags", "-O3"]) == 0
    more = capsys.readouterr().out
    assert "conv1  QLinearConv" in more
    assert "an estimate for memory without wait states" in more
    assert " with -O3; the C library's part included" in more
    assert main(["bench", str(tmp_path / "m.onnx"), "--target", "cortex-m4", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    [function] = report["functions"]
    [node] = function["nodes"]
    assert node["instructions"] + function["call_instructions"] == function["instructions"] == report["instructions"]
    assert node["instructions_per_mac"] == node["instructions"] / (8 * 4 * 3 * 36)
    assert node["flash_bytes"] <= function["flash_bytes"]
    assert f"{node['instructions']:,}".replace(",", " ") in text


def test_bench_measures_the_nodes_of_a_model_that_is_no_whole(capsys):
    require_core("cortex-m4")
    model = DIGITS / "digits_qop_s8.onnx"
    nodes = ["--node", "conv1_quant", "--node", "pointwise3_quant"]
    assert main(["bench", str(model), "--target", "cortex-m4", *nodes]) == 0
    out = capsys.readouterr().out
    assert "conv1_quant " in out
    assert "pointwise3_quant " in out


# --- cycles


def cycles(core, *lines):
    """The cycles of a straight run of instructions, given as "mnemonic operands"."""
    block = [Instruction(0, 2, *(*line.split(" ", 1), "")[:2], "f", ".text") for line in lines]
    return block_cycles(CYCLES[core], block)


def test_loads_in_a_row_overlap_on_a_cortex_m4_but_not_on_a_cortex_m0():
    run = ("ldr r0, [r1, #0]", "ldr.w r2, [r1, #4]", "adds r0, r0, r2", "ldrsb.w r0, [r3], #1", "str r0, [r1, #8]")
    assert cycles("cortex-m4", *run) == [2, 1, 1, 2, 1]
    assert cycles("cortex-m0", *run) == [2, 2, 1, 2, 2]


def test_a_load_waits_for_a_store_and_for_its_address_on_a_cortex_m4():
    run = ("ldr r0, [r1, #0]", "ldr r2, [r0, #4]", "str r2, [r1, #8]", "ldr r3, [r1, #0]", "ldrb r4, [r1, r3]")
    assert cycles("cortex-m4", *run) == [2, 2, 1, 2, 2]


def test_an_address_that_was_just_computed_costs_a_cycle_more():
    run = (
        "adds r0, #4",
        "ldr r1, [r0, #0]",
        "smull r4, r5, r1, r2",
        "ldrd r2, r3, [r5]",
        "cmp r2, r3",
        "strb r1, [r2, #1]",
    )
    assert cycles("cortex-m4", *run) == [1, 3, 1, 4, 1, 1]
    assert cycles("cortex-m0", *run[:2]) == [1, 2]
    assert cycles("cortex-m4", "sub sp, #8", "push {r4, lr}") == [1, 4]
    assert cycles("cortex-m4", "add.w r3, r1, #16", "ldmia.w r3!, {r4-r7}") == [1, 6]


def riscv_cycles(core, *lines):
    """The same on a core that runs the code of rv32imc."""
    block = [Instruction(0, 4, *(*line.split(" ", 1), "")[:2], "f", ".text") for line in lines]
    return block_cycles(RISCV_CORES[core], block)


WAITING = {
    "lw a0,4(a1)|add a2,a3,a0": "late_load",
    "lw a0,4(a1)|mul a0,a0,a4": "late_load",
    "lbu a0,4(a1)|lw a2,0(a0)": "late_load",
    "lh a0,4(a1)|sw a2,0(a0)": "late_load",
    "lw a0,4(a1)|bnez a0,80000010": "late_load",
    "lw a0,4(a1)|bltu a2,a0,80000010": "late_load",
    "lw t1,4(a1)|jr t1": "late_load",
    "lw a0,4(a1)|sw a0,0(a2)": "late_store",
    "lw a0,4(a1)|add a0,a3,a4": "",
    "lw a0,4(a1)|lw a0,8(a1)": "",
    "lw a0,4(a1)|j 800000a0": "",
    "add a0,a1,a2|add a3,a0,a4": "",
    "sw a0,4(a1)|add a3,a0,a1": "",
}
"""What a RISC-V core adds to the second of two instructions."""


@pytest.mark.parametrize("core", RISCV_CORES)
@pytest.mark.parametrize("pair", WAITING)
def test_what_needs_a_load_at_once_waits_for_it(core, pair):
    lines = pair.split("|")
    alone = [riscv_cycles(core, line)[0] for line in lines]
    waits = getattr(RISCV_CORES[core], WAITING[pair]) if WAITING[pair] else 0
    assert riscv_cycles(core, *lines) == [alone[0], alone[1] + waits]


LATE = {
    "mul r0, r1, r2|adds r3, r0, r4": 1,
    "mla r0, r1, r2, r3|mla r0, r4, r5, r0": 1,
    "smull r0, r1, r2, r3|subs r4, r4, r1": 1,
    "ssat r0, #8, r1|strb r0, [r2, #0]": 1,
    "add.w r0, r1, r2, lsl #2|adds r3, r0": 1,
    "asrs r3, r0|cmp r3, r1": 0,
    "mul r0, r1, r2|cmp r0, r3": 1,
    "mul r0, r1, r2|smlal r0, r4, r5, r6": 1,
    "mul r0, r1, r2|adds r3, r4, r5": 0,
    "mul r0, r1, r2|mov r0, r3": 0,
    "adds r0, r1, r2|adds r3, r0, r4": 0,
    "mul r0, r1, r2|vmladava.s8 r0, q0, q1": 0,
}
"""What a Cortex-M55 adds to the second of two instructions."""


@pytest.mark.parametrize("pair", LATE)
def test_what_needs_a_late_result_at_once_waits_for_it_on_a_cortex_m55(pair):
    lines = pair.split("|")
    alone = [cycles("cortex-m55", line)[0] for line in lines]
    assert cycles("cortex-m55", *lines) == [alone[0], alone[1] + LATE[pair]]
    assert cycles("cortex-m4", *lines) == [cycles("cortex-m4", line)[0] for line in lines]


RULES = {
    "load_in_row": ("cortex-m4", "ldr r0, [r1, #0]|ldr r2, [r1, #4]", "ldr r0, [r1, #0]|ldr r2, [r0, #4]"),
    "late_address": ("cortex-m4", "adds r0, #4|ldr r1, [r0, #0]", "adds r0, #4|ldr r1, [r2, #0]"),
    "store_indexed": ("cortex-m3", "adds r0, #4|str r1, [r2, r3]", "ldr r0, [r4, #0]|str r1, [r2, r3]"),
    "load_update": ("cortex-m3", "ldr r0, [r1, #0]|ldr r2, [r1], #4", "ldr r0, [r1, #0]|ldr r2, [r1, #4]"),
    "late_result": ("cortex-m55", "mul r0, r1, r2|adds r3, r0, r4", "mul r0, r1, r2|adds r3, r4, r5"),
    "late_load": ("ibex", "lw a0,4(a1)|add a2,a3,a0", "lw a0,4(a1)|add a0,a3,a4"),
    "late_store": ("ibex", "lw a0,4(a1)|sw a0,0(a2)", "lw a0,4(a1)|sw a3,0(a2)"),
}
"""For each rule about pairs of instructions a core, a pair that it is about and one that it is not."""


@pytest.mark.parametrize("rule", RULES)
def test_a_wrong_rule_is_seen_where_it_applies_and_nowhere_else(rule):
    core, about, other = RULES[rule]
    table = RISCV_CORES.get(core) or CYCLES[core]
    wrong = replace(table, **{rule: getattr(table, rule) + 1})
    for pair, more in ((about, 1), (other, 0)):
        block = [Instruction(0, 4, *(*line.split(" ", 1), "")[:2], "f", ".text") for line in pair.split("|")]
        assert sum(block_cycles(wrong, block)) - sum(block_cycles(table, block)) == more


def test_a_store_whose_offset_is_a_register_takes_two_cycles_unless_behind_a_load():
    run = ("adds r0, #4", "str r1, [r2, r3]", "ldr r0, [r4, #0]", "strb r1, [r2, r3]", "str r1, [r2, #4]")
    assert cycles("cortex-m3", *run) == cycles("cortex-m4", *run) == [1, 2, 2, 1, 1]
    assert cycles("cortex-m0", *run) == [1, 2, 2, 2, 2]


def test_a_load_that_moves_its_address_takes_two_cycles_behind_a_load_on_a_cortex_m3():
    run = ("ldr r0, [r1, #0]", "ldr r2, [r1], #4", "ldr r3, [r1, r2]")
    assert cycles("cortex-m3", *run[:2]) == cycles("cortex-m3", run[0], "ldr r2, [r1, #4]!") == [2, 2]
    assert cycles("cortex-m3", *run[::2]) == cycles("cortex-m4", *run[:2]) == [2, 1]


def test_cores_of_riscv_take_what_was_measured_on_their_rtl():
    run = (
        "lw a0,4(a1)",
        "add a0,a0,a2",
        "lw a3,0(a1)",
        "sw a3,0(a2)",
        "mul a0,a1,a2",
        "mulh a0,a1,a2",
        "divu a0,a1,a2",
    )
    assert riscv_cycles("ibex", *run) == [1, 2, 1, 2, 1, 2, 37]
    assert riscv_cycles("ibex-small", *run) == [2, 1, 2, 2, 3, 4, 37]
    assert riscv_cycles("cv32e40p", *run) == [1, 2, 1, 2, 1, 5, 28]
    assert riscv_cycles("hazard3", *run) == [1, 2, 1, 1, 1, 1, 19]


def test_jumps_of_riscv_cost_what_their_kind_and_their_target_ask():
    branch, jump = (Instruction(0, 2, *each, "f", ".text") for each in (("bnez", "a0,80000010"), ("ret", "")))
    costs = {
        core: [jump_cycles(table, branch, 10, 4), jump_cycles(table, jump, 10, 4)]
        for core, table in RISCV_CORES.items()
    }
    assert costs == {"ibex": [10, 10], "ibex-small": [20, 10], "cv32e40p": [20, 10], "hazard3": [6, 10]}
    targets = [
        Instruction(address, size, "add", "a0,a0,a1", "f", ".text") for address, size in ((0, 4), (2, 2), (2, 4))
    ]
    assert [entry_cycles(RISCV_CORES["ibex"], each) for each in targets] == [0, 0, 1]
    assert [entry_cycles(CYCLES["cortex-m4"], each) for each in targets] == [0, 0, 0]


RISCV_LOOP = (
    ".balign 4\\n .option push\\n .option {first}\\n nop\\n li t0, 100\\n .option {second}\\n 1: addi t0, t0, -1\\n"
)
RISCV_LOOP += " bnez t0, 1b\\n ret\\n .option pop"


@pytest.mark.parametrize(("first", "second", "waits"), [("norvc", "norvc", 0), ("rvc", "norvc", 99), ("rvc", "rvc", 0)])
def test_the_plugin_counts_jumps_to_instructions_across_words(first, second, waits):
    require_core("rv32imc")
    symbol = node_of("rv32imc")
    text = RISCV_LOOP.format(first=first, second=second)
    node = f'__attribute__((naked, noinline)) static void {symbol}(void) {{ __asm__ volatile("{text}"); }}'
    [found] = counted("rv32imc", f"{node}\n{RUN} {{ {UNUSED} {symbol}(); }}").nodes
    assert found.cycles - waits == 203 + 100 * RISCV_CORES["ibex"].jump


def test_bench_refuses_a_core_that_does_not_run_the_targets_code(capsys):
    assert main(["bench", str(DIGITS / "digits_qop_s8.onnx"), "--target", "cortex-m4", "--core", "ibex"]) == 2
    assert "argument --core: ibex runs code of rv32imc, not of cortex-m4" in capsys.readouterr().err


def test_ldrd_and_ldm_cost_a_cycle_for_each_register():
    run = ("ldrd r0, r1, [r2]", "ldmia.w r0!, {r1, r4-r6}", "push {r4, r5, lr}", "vldmia r0, {s0-s3}")
    assert cycles("cortex-m4", *run) == [3, 5, 4, 5]


def test_long_products_are_dear_on_a_cortex_m3_only():
    run = ("smull r0, r1, r2, r3", "mla r0, r1, r2, r3", "smlal r0, r1, r2, r3", "smlad r0, r1, r2, r3")
    assert cycles("cortex-m3", *run) == [4, 2, 6, 1]
    assert cycles("cortex-m4", *run) == [1, 1, 1, 1]


def test_helium_instructions_take_two_cycles():
    run = ("vmladava.s8 r0, q0, q1", "vldrb.8 q0, [r1], #16", "vldr s0, [r0]", "vmov r0, s0")
    assert cycles("cortex-m55", *run) == [2, 2, 2, 1]


# --- failures


def fail(core, body, tmp_path, timeout=None):
    """What is said of code that does not come to a good end."""
    require_core(core)
    artifact = written(core, body)
    image = cross_build(core, [artifact], ("-O2", "-Wno-error"), tmp_path)
    with pytest.raises(EmulationFailed) as failure:
        emulate(image, [Trial(random_feeds(artifact.plan, 0))], timeout=timeout)
    return str(failure.value)


@each_core
def test_a_fault_is_reported_with_the_function(core, tmp_path):
    text = fail(core, f"{RUN} {{ {UNUSED} __builtin_trap(); }}", tmp_path)
    assert text.startswith(f"the code faulted on the emulated {core}: exception ")
    assert text.endswith(" in m_run") or core == "cortex-m0"  # there __builtin_trap is abort of the C library


@pytest.mark.parametrize("core", some_at_first(["cortex-m3", "rv32imc"]))
def test_code_that_hangs_is_stopped(core, tmp_path):
    text = fail(core, f'{RUN} {{ {UNUSED} for (;;) __asm__ volatile(""); }}', tmp_path, timeout=2)
    assert "had not come to its end after 2 s" in text


@pytest.mark.parametrize("core", some_at_first(["cortex-m0", "cortex-m33", "rv32imc"]))
def test_a_write_beside_a_buffer_is_reported(core, tmp_path):
    text = fail(core, f"{RUN} {{ (void)x; (void)arena; y[M_Y_SIZE] = 0; }}", tmp_path)
    assert "a write beside a buffer, in m" in text


@pytest.mark.parametrize("core", some_at_first(["cortex-m33", "cortex-m55", "rv32imc"]))
def test_a_stack_that_overflows_is_reported(core, tmp_path):
    deep = (
        "static __attribute__((noinline)) int deep(volatile int *n) { volatile int m = *n + 1; return deep(&m) + m; }"
    )
    text = fail(core, f"{deep}\n{RUN} {{ {UNUSED} volatile int n = 0; deep(&n); }}", tmp_path)
    assert f"on the emulated {core}" in text


UNALIGNED = f"{RUN} {{ (void)arena; y[0] = (int8_t)*(volatile const uint32_t *)(const void *)(x + 1); }}"


def test_an_unaligned_word_faults_on_a_cortex_m0(tmp_path):
    assert "faulted on the emulated cortex-m0" in fail("cortex-m0", UNALIGNED, tmp_path)


def test_an_unaligned_word_is_read_on_a_cortex_m4(tmp_path):
    require_core("cortex-m4")
    artifact = written("cortex-m4", UNALIGNED)
    image = cross_build("cortex-m4", [artifact], ("-O2",), tmp_path)
    feeds = random_feeds(artifact.plan, 0)
    [outcome] = emulate(image, [Trial(feeds)])
    assert next(iter(outcome.outputs.values())).reshape(-1)[0] == next(iter(feeds.values())).reshape(-1)[1]


def test_a_fault_ends_the_command_with_status_1(tmp_path, capsys, monkeypatch):
    require_core("cortex-m4")
    wrong = written("cortex-m4", f"{RUN} {{ {UNUSED} __builtin_trap(); }}")
    monkeypatch.setattr("qcgen.cli.artifacts.compile_graph", lambda *_: wrong)
    onnx.save(qlinear_conv((1, 4, 6, 5), random_weights((8, 4, 3, 3))), tmp_path / "m.onnx")
    for command in ("bench", "verify"):
        assert main([command, str(tmp_path / "m.onnx"), "--target", "cortex-m4"]) == 1
        assert "qcgen: the code faulted on the emulated cortex-m4: exception" in capsys.readouterr().err


# --- missing tools


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """The only folder of programs; the model m.onnx in the current folder."""
    monkeypatch.chdir(tmp_path)
    onnx.save(qlinear_conv((1, 2, 4, 4), random_weights((3, 2, 3, 3))), "m.onnx")
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put(folder, name, text="exit 0"):
    folder.joinpath(name).write_text(f"#!/bin/sh\n{text}\n")
    folder.joinpath(name).chmod(0o755)


MISSING = {
    "cortex-m4": (
        "cortex-m4 needs tools that were not found: arm-none-eabi-gcc, qemu-system-arm, arm-none-eabi-objdump,"
        " arm-none-eabi-addr2line (Debian: apt-get install gcc-arm-none-eabi qemu-system-arm binutils-arm-none-eabi)"
    ),
    "rv32imc": (
        "rv32imc needs tools that were not found: riscv64-unknown-elf-gcc, qemu-system-riscv32,"
        " riscv64-unknown-elf-objdump, riscv64-unknown-elf-addr2line"
        " (Debian: apt-get install gcc-riscv64-unknown-elf qemu-system-misc binutils-riscv64-unknown-elf)"
    ),
}


@pytest.mark.parametrize("core", MISSING)
@pytest.mark.usefixtures("programs")
def test_bench_names_the_tools_that_are_missing_and_their_packages(core, capsys):
    assert main(["bench", "m.onnx", "--target", core]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"qcgen: {MISSING[core]}\n")


def test_verify_names_only_what_it_needs(programs, capsys):
    put(programs, "qemu-system-arm")
    assert main(["verify", "m.onnx", "--target", "cortex-m0"]) == 1
    expected = (
        "cortex-m0 needs tools that were not found: arm-none-eabi-gcc (Debian: apt-get install gcc-arm-none-eabi)"
    )
    assert capsys.readouterr().err == f"qcgen: {expected}\n"


def test_a_missing_clang_is_named(programs, capsys):
    put(programs, "qemu-system-arm")
    put(programs, "arm-none-eabi-gcc", "echo /lib/libc.a")
    assert main(["verify", "m.onnx", "--target", "cortex-m0", "--compiler", "clang"]) == 1
    assert "not found: clang (Debian: apt-get install clang)" in capsys.readouterr().err


def test_a_missing_c_library_is_named(programs, capsys):
    put(programs, "qemu-system-arm")
    put(programs, "arm-none-eabi-gcc", "echo libc.a")  # what gcc says of a file that it does not find
    assert main(["verify", "m.onnx", "--target", "cortex-m3"]) == 1
    assert "not found: libc.a (Debian: apt-get install libnewlib-arm-none-eabi)" in capsys.readouterr().err


def test_the_messages_of_a_compiler_that_fails_are_shown(programs, capsys):
    put(programs, "qemu-system-arm")
    put(programs, "arm-none-eabi-gcc", 'case "$*" in -print*) echo /lib/libc.a;; *) echo broken >&2; exit 1;; esac')
    assert main(["verify", "m.onnx", "--target", "cortex-m3"]) == 1
    assert "arm-none-eabi-gcc failed:\nbroken" in capsys.readouterr().err


@pytest.mark.usefixtures("programs")
def test_bench_refuses_a_target_without_an_emulated_core(capsys):
    assert main(["bench", "m.onnx"]) == 2
    assert "there is no emulated core for portable: use cortex-m0, " in capsys.readouterr().err


def test_every_tool_of_every_emulated_target_has_a_package():
    for name in EMULATED:
        target = TARGETS[name]
        tools = [target.compiler, target.machine.emulator, target.machine.library, "clang"]
        tools += [f"{target.tools}objdump", f"{target.tools}addr2line"]
        assert [tool for tool in tools if tool not in target.machine.packages] == []
        assert name in CYCLES


def test_the_plugin_is_built_once_in_a_process():
    require_core("cortex-m4")
    from qcgen.emulate.counts import plugin

    first = plugin("qemu-system-arm")
    assert first.is_file()
    assert first.parent.stat().st_mode & 0o777 == 0o700
    assert plugin("qemu-system-arm") == first
