"""The stack that a call needs at most: no run on an emulated core takes more; where there is no bound, that is said."""

import re

import pytest
from emulated import require_core
from marks import some_at_first
from packages import DIGITS
from tools import require

import qcgen
from qcgen.cli import main
from qcgen.cross import NoBound, stack_bytes, succeed
from qcgen.emulate import Trial, cross_build, emulate, random_feeds
from qcgen.emulate.image import ELF

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc")
QDQ = DIGITS.with_name("digits_qdq_u8.onnx")


@pytest.mark.parametrize("core", some_at_first(CORES, "cortex-m0"))
def test_no_run_takes_more_stack_than_the_bound_of_its_image(core, tmp_path):
    require_core(core, counting=True)
    artifact = qcgen.compile(QDQ, name="qdq", target=core)
    image = cross_build(core, [artifact], ("-O2",), tmp_path)
    listing = succeed([f"{image.target.tools}objdump", "-d", "--no-show-raw-insn", ELF], tmp_path)
    outcomes = emulate(image, [Trial(random_feeds(artifact.plan, seed)) for seed in range(4)])
    most = max(outcome.stack_bytes for outcome in outcomes)
    assert most <= stack_bytes(listing, ["call_0"]) < 1.5 * most


LISTING = """
00008000 <m_run>:
    8000:\tpush\t{r4, r5, lr}
    8002:\tsub\tsp, #20
    8004:\tbl\t8010 <leaf>
    8008:\tb.n\t8020 <m_end+0x2>
    800a:\tadd\tsp, #20
00008010 <leaf>:
    8010:\tstr.w\tr4, [sp, #-8]!
    8014:\tvpush\t{d8-d9}
    8018:\tbx\tlr
00008020 <m_end>:
    8020:\tstmdb\tsp!, {r4, r5, r6, r7, r8, r9, sl, fp, ip, lr}
"""


def test_pushes_add_up_along_the_deepest_path():
    assert stack_bytes(LISTING, ["leaf"]) == 8 + 16
    assert stack_bytes(LISTING, ["m_end"]) == 40
    assert stack_bytes(LISTING, ["m_run"]) == 12 + 20 + 40
    assert stack_bytes(LISTING.replace("<m_end+0x2>", "<m_run+0x2>"), ["m_run", "leaf"]) == 12 + 20 + 24


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("bl\t8010 <leaf>", "blx\tr3", "m_run has 'blx r3'"),
        ("sub\tsp, #20", "add\tsp, r4", "m_run has 'add sp, r4'"),
        ("bx\tlr", "b.w\t8000 <m_run>", "m_run calls itself"),
        ("<m_end+0x2>", "<gone>", "gone is not in the image"),
    ],
)
def test_what_has_no_bound_is_said(old, new, why):
    with pytest.raises(NoBound, match=re.escape(why)):
        stack_bytes(LISTING.replace(old, new), ["m_run"])


def test_riscv_code_moves_the_stack_pointer_by_additions():
    listing = "80000000 <m_run>:\n80000000:\taddi\tsp,sp,-48\n80000004:\tjal\t80000010 <f>\n80000008:\taddi\tsp,sp,48\n"
    assert stack_bytes(listing + "80000010 <f>:\n80000010:\tadd\tsp,sp,-16\n", ["m_run"]) == 64


def test_a_function_that_saves_registers_for_another_is_added_to_it():
    saved = "80000000 <m_run>:\n80000000:\tjal\tt0,80000010 <__riscv_save_4>\n80000004:\tjal\t80000020 <f>\n"
    assert stack_bytes(saved + "80000020 <f>:\n80000020:\taddi\tsp,sp,-16\n", ["m_run"]) == 64 + 16


def test_compile_prints_the_stack_and_writes_it_for_programs(tmp_path, capsys):
    require("arm-none-eabi-gcc", "arm-none-eabi-size")
    command = ["compile", str(DIGITS), "--name", "digits", "--target", "cortex-m4", "-o", str(tmp_path)]
    assert main([*command, "--report", "stack"]) == 0
    [size, fast] = re.search(r"stack: at most (\d+) B with -Os, (\d+) B with -O2", capsys.readouterr().out).groups()
    header = tmp_path.joinpath("digits_stack.h").read_text()
    assert f"#define DIGITS_STACK_BYTES_OS {size}\n#define DIGITS_STACK_BYTES_O2 {fast}\n" in header
    assert f"#define DIGITS_STACK_BYTES {max(int(size), int(fast))}\n" in header


def test_a_stack_that_nobody_measured_is_not_written(tmp_path, capsys):
    assert main(["compile", str(DIGITS), "--report", "stack", "-o", str(tmp_path)]) == 2
    assert "the stack was not measured: it depends on the core" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
