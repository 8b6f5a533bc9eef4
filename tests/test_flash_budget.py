"""--flash BYTES: the fastest code that fits, what is refused, and estimates of code beside real builds."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from emulated import require_core
from marks import some_at_first
from tools import require

import qcgen
from qcgen import library
from qcgen.cli import main
from qcgen.cores import TARGETS
from qcgen.cross import compiled_bytes
from qcgen.estimate import _compiled, _Text
from qcgen.estimate import code_bytes as estimated
from qcgen.ir.plan import FlashUse
from qcgen.kernels import PAIRED, SIZE, SPEED
from qcgen.plan.flash import _changes, _Cost, within
from qcgen.plan.prices import MEASURED
from qcgen.render import bodies
from qcgen.render.c_functions import functions
from qcgen.verification import verify

DIGITS = Path(__file__).parent / "data" / "digits" / "digits_qop_s8.onnx"
SHARED = Path(__file__).parents[2] / "shared" / "models"
MLPERF = ("ic_resnet8_tfl_qop", "kws_dscnn_tfl_qop", "vww_mbv1_tfl_qop", "ad_fc_tfl_qop")
CORES = ("cortex-m4", "cortex-m0", "cortex-m3", "cortex-m55", "rv32imc")


def digits(**options):
    return qcgen.compile(
        DIGITS, **{"target": "cortex-m4", "layout": "nhwc", "io": "quantized", "name": "net"} | options
    )


def shared(name):
    path = SHARED / f"{name}.onnx"
    if not path.is_file():
        pytest.skip("the recorded models lie in ../shared, beside the repository, and are not there")
    return path


def run(capsys, *words):
    status = main(list(map(str, words)))
    return status, *capsys.readouterr()


def kernels(artifact):
    return [(call.kernel, call.optimize) for call in artifact.plan.calls]


# --- what fits


def test_more_flash_is_never_slower_and_never_more_than_the_budget():
    found = [digits(flash=budget).plan.flash for budget in (36_000, 45_000, 60_000, 100_000)]
    assert all(use.bytes <= budget for use, budget in zip(found, (36_000, 45_000, 60_000, 100_000), strict=True))
    assert [use.cycles for use in found] == sorted((use.cycles for use in found), reverse=True)
    assert found[0].cycles > found[-1].cycles


@pytest.mark.all
def test_the_ends_are_what_optimize_gives():
    least, size = digits(flash=least_of()), digits(optimize="size")
    assert {kernel for kernel, _ in kernels(least)} == {kernel for kernel, _ in kernels(size)}
    assert least.report.constants_bytes <= size.report.constants_bytes
    fastest, speed = digits(flash=999_999_999), digits(optimize="speed")
    assert {kernel for kernel, _ in kernels(fastest)} == {kernel for kernel, _ in kernels(speed)}
    assert fastest.plan.flash.cycles <= 1.02 * sum_of_cycles(speed)


def sum_of_cycles(artifact):
    from qcgen.plan.prices import cycles

    return sum(cycles(call, artifact.plan.options.target) for call in artifact.plan.calls)


def test_every_core_has_prices_and_one_that_is_new_those_of_any_kernel(monkeypatch):
    assert {target.priced_as or name for name, target in TARGETS.items()} == set(MEASURED)
    new = replace(TARGETS["cortex-m4"], name="cortex-m35p")
    monkeypatch.setitem(TARGETS, new.name, new)
    assert digits(flash=60_000, target=new.name).plan.flash.bytes <= 60_000


def test_a_mixture_computes_the_same_outputs_and_passes_verification(everything):
    artifact = digits(flash=45_000, target="cortex-m4")
    assert len({optimize for _, optimize in kernels(artifact)}) == 2
    assert verify(artifact, cases=4, flags=("-O1",), sums=everything).is_right


@pytest.mark.all
@pytest.mark.parametrize("core", CORES)
def test_a_mixture_computes_the_same_outputs_on_a_core(core):
    require_core(core, counting=False)
    artifact = digits(flash=least_of(target=core) + 8000, target=core)
    # Sums of the same kernels are driven on every core in test_verify_sums_cases.py.
    assert verify(artifact, cases=3, emulated=True, sums=core == "cortex-m4").is_right


# --- what does not


def refused(**options):
    with pytest.raises(qcgen.ModelRejected) as rejection:
        digits(**options)
    assert len(rejection.value.problems) == 1
    return str(rejection.value)


def least_of(**options):
    return int(refused(flash=1, **options).split("flash=")[1].split()[0])


def test_a_budget_below_the_least_is_one_problem_that_names_the_least(capsys, tmp_path):
    status, out, err = run(capsys, "compile", DIGITS, "--target", "cortex-m4", "--flash", "1000", "-o", tmp_path)
    assert status == 1
    assert "1 problem" in err
    assert "do not fit 1000 bytes of flash; the least that was reached is" in err
    assert (out, list(tmp_path.iterdir())) == ("", [])


@pytest.mark.all
def test_where_the_compiler_is_installed_what_it_makes_decides(monkeypatch):
    require("arm-none-eabi-gcc", "arm-none-eabi-size")
    least = least_of(target="cortex-m4")
    assert digits(flash=least, target="cortex-m4").report.flash_bytes == least
    refused(flash=least - 1, target="cortex-m4")
    monkeypatch.setattr("qcgen.compiler.compiled_bytes", lambda *_: None)
    assert least_of(target="cortex-m4") > least


@pytest.mark.all
def test_the_least_that_is_named_fits_and_one_byte_less_does_not():
    least = least_of()
    assert digits(flash=least).plan.flash.bytes == least
    refused(flash=least - 1)


@pytest.mark.parametrize("words", [("--flash", "0"), ("--flash", "-5"), ("--flash", "1e5"), ("--flash", "9" * 10)])
def test_what_is_no_number_of_bytes_is_wrong_usage(capsys, words):
    status, _, err = run(capsys, "compile", DIGITS, *words)
    assert status == 2
    assert "argument --flash" in err


def test_a_budget_goes_with_optimize_size_and_not_with_speed(capsys, tmp_path):
    both = ["compile", DIGITS, "--flash", "100000", "-o", tmp_path, "--optimize"]
    assert run(capsys, *both, "size")[0] == 0
    status, _, err = run(capsys, *both, "speed")
    assert status == 2
    assert "leave out --optimize speed" in err


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "least"])
def test_python_refuses_what_is_no_number_of_bytes(wrong):
    with pytest.raises(ValueError, match="flash must be a number of bytes above 0 or None"):
        digits(flash=wrong)
    with pytest.raises(ValueError, match=r'^flash: it chooses .*: leave out optimize="speed"$'):
        digits(flash=1000, optimize="speed")


# --- with other options


@pytest.mark.all
@pytest.mark.parametrize("arena", ["least", 3_300])
def test_arena_and_flash_are_both_kept(arena):
    small, both = digits(arena=arena), digits(arena=arena, flash=100_000)
    limit = small.plan.arena_bytes if arena == "least" else arena
    assert both.plan.arena_bytes <= limit
    assert both.plan.flash.bytes <= 100_000
    assert both.plan.options.arena == arena


def test_an_arena_that_has_no_room_for_tiles_does_without_them():
    free, tight = digits(flash=999_999), digits(flash=999_999, arena="least")
    assert free.plan.arena_bytes > tight.plan.arena_bytes
    assert any(optimize == "speed" for _, optimize in kernels(tight))


def test_a_single_node_and_a_portable_core_have_budgets_too():
    node = digits(node="conv4_quant", flash=100_000)
    assert kernels(node)[0][1] == "speed"
    assert digits(target="portable", flash=100_000).plan.flash.bytes <= 100_000


@pytest.mark.all
def test_the_head_of_the_file_the_report_and_the_page_tell_the_budget(capsys, tmp_path):
    words = ["compile", DIGITS, "--target", "cortex-m4", "--layout", "nhwc", "--flash", "45000", "-o", tmp_path]
    status, out, _ = run(capsys, *words, "--name", "net", "--report", "json", "--report", "html", "--self-test")
    assert status == 0
    assert "of 45 000 B of flash" in out
    assert "--flash 45000" in (tmp_path / "net.c").read_text()
    report = json.loads((tmp_path / "net_report.json").read_text())
    assert report["options"]["flash"] == 45000
    assert 0 < report["flash"]["bytes"] <= 45000
    assert {node["optimize"] for node in report["nodes"]} == {"size", "speed"}
    assert "budget of flash" in (tmp_path / "net_report.html").read_text()


@pytest.mark.all
def test_inspect_shows_what_flash_buys(capsys):
    words = ("inspect", DIGITS, "--target", "cortex-m4", "--layout", "nhwc", "--flash", "60000")
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert out.count("about ") >= 6
    points = json.loads(run(capsys, *words, "--json")[1])["flash_curve"]
    assert [point["cycles"] for point in points] == sorted((p["cycles"] for p in points), reverse=True)
    assert "flash_curve" in run(capsys, *words[:-2], "--json")[1]


# --- how it chooses


def test_the_change_that_gains_most_for_a_byte_comes_first():
    costs = {
        "a": {SIZE: _Cost(100, 1000, 0), PAIRED: _Cost(200, 900, 0), SPEED: _Cost(1100, 500, 0)},
        "b": {SIZE: _Cost(100, 1000, 0), PAIRED: _Cost(150, 800, 0), SPEED: _Cost(150, 800, 0)},
        "c": {SIZE: _Cost(100, 1000, 0), PAIRED: _Cost(90, 999, 0), SPEED: _Cost(90, 999, 0)},
    }
    assert [(c.name, c.form) for c in _changes(costs, 150, ())] == [("b", PAIRED), ("a", PAIRED)]
    assert [(c.name, c.form) for c in _changes(costs, 1050, ())] == [("b", PAIRED), ("a", SPEED)]
    assert list(_changes(costs, 10, ())) == []
    assert [(c.name, c.form) for c in _changes(costs, 2000, {("a", SPEED)})] == [("b", PAIRED), ("a", PAIRED)]


def test_room_is_found_where_every_change_costs_what_layers_shared(monkeypatch):
    def plan(forms, *_):
        """Of 40 layers, each 20 bytes for 500 cycles alone; more than ten of them share nothing, for 900 bytes."""
        more = 900 + len(forms) if len(forms) > 10 else 20 * len(forms)
        return SimpleNamespace(arena_bytes=0, flash=FlashUse(2000 + more, 40_000 - 500 * len(forms)))

    costs = {f"layer {i}": {SIZE: _Cost(100, 1000, 0), SPEED: _Cost(120, 500, 0)} for i in range(40)}
    monkeypatch.setattr("qcgen.plan.flash._costs", lambda *_: costs)
    monkeypatch.setattr("qcgen.plan.flash._used", lambda plan, _: plan)
    planner = SimpleNamespace(limit=None, plan=plan)
    assert within(planner, 2905, code_bytes=None, measured=None).flash.bytes in (2180, 2200)


# --- estimates


def test_functions_that_are_alike_are_one_that_is_called_from_several_places():
    sums, layer = "static int {0}_sums(int *x)\n{{\n{1}}}\n", "void {0}(void)\n{{\n    {0}_sums({0}_x);\n}}\n"
    body = "    *x += 1;\n" * 30
    texts = {i: [sums.format(name, body), f"static {layer.format(name)}"] for i, name in enumerate("abc")}
    assert list(_Text(texts).alone) == ["a_sums", "a", "b", "c"]
    different = {**texts, 2: [sums.format("c", body * 2), f"static {layer.format('c')}"]}
    assert list(_Text(different).alone) == ["a_sums", "a", "b", "c"]
    assert list(_Text({0: texts[0]}).alone) == ["a"]


def test_functions_that_hand_over_equal_structs_are_alike():
    struct = "static const struct net_loop {0}_loop = {{\n    .taps = {1}\n}};\n"
    text = f"{struct}NET_NOINLINE static int {{0}}_sums(int *x)\n{{{{\n    return net_sums(&{{0}}_loop, x);\n}}}}\n"
    layers = (("a", 3), ("b", 3), ("c", 4))
    assert list(_Text({name: [text.format(name, taps)] for name, taps in layers}).alone) == ["a_sums", "c_sums"]


def test_a_function_of_the_library_that_is_folded_counts_what_the_kernel_says():
    library = "static NET_INLINE void net_sums_s8(int *x)\n{\n" + "    *x += 1;\n" * 30 + "}\n"
    texts = {None: [library], 0: ["static void a(void)\n{\n    net_sums_s8(a_x);\n    net_sums_s8(a_y);\n}\n"]}
    counts = [_Text(texts, folded).alone["a"] for folded in ({}, {0: {"net_sums_s8": 7}})]
    assert counts[0] > 80
    assert counts[1] == 2 * 7


@pytest.mark.parametrize("optimize", ["size", "speed"])
@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m3", "rv32imc"])
def test_what_kernels_say_of_functions_of_the_library_is_of_some_that_are_there(core, optimize):
    folded = {name for call in digits(target=core, optimize=optimize).plan.calls for name in call.folded}
    assert folded
    assert [name for name in folded if not {name, f"{name}_s8"} & library.reserved()] == []


def test_assembly_counts_macros_that_stand_before_those_that_they_use():
    macros = '#define NET_TWICE(k) NET_ADD(k) NET_ADD(k)\n#define NET_ADD(k) "adds r0, #" k "\\n\\t"\n'
    body = '    __asm__ volatile(".rept 3\\n\\t" NET_TWICE("1") ".endr\\n\\t");\n'
    assert _Text({0: [macros, f"static void a(void)\n{{\n{body}}}\n"]}).alone["a"] == 6


@pytest.mark.parametrize("optimize", some_at_first(["size", "speed"]))
@pytest.mark.parametrize("core", some_at_first(CORES, "cortex-m4"))
@pytest.mark.parametrize("name", some_at_first(["digits", *MLPERF]))
def test_estimated_code_is_within_a_tenth_of_what_gcc_makes(name, core, optimize):
    require_core(core, counting=False)
    model = DIGITS if name == "digits" else shared(name)
    artifact = qcgen.compile(model, target=core, layout="nhwc", io="quantized", optimize=optimize, name="net")
    text = _compiled("".join(bodies(artifact.plan)))
    assert len(functions(text)) == text.count("\n{\n")
    real = compiled_bytes(artifact.plan, artifact.files)
    assert abs(sum(estimated(artifact.plan)) - real) <= 0.1 * real + 300
