"""The model of waits for flash: on small traces made by hand, and through bench."""

import json
import subprocess

import onnx
import pytest
from emulated import require_core
from models import qlinear_conv, random_weights

import qcgen
from qcgen.build import host_compiler
from qcgen.cli import main
from qcgen.cores import BOARDS, TARGETS, Board, Cache
from qcgen.emulate import measure, random_feeds
from qcgen.render import templates

REPLAY = """
#include <stdio.h>
#include "flash_model.h"
int main(void)
{
    unsigned n[9];
    unsigned long long address, waits;
    char kind;
    if (scanf("%u %u %u %u %u %u %u %u %u", n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8) != 9) return 1;
    struct flash flash = new_flash(0, 1 << 16, n[0], n[1], n[2], n[3] != 0, n[8] != 0, new_cache(n[4], n[2], n[5]),
                                   new_cache(n[6], n[1], n[7]), 0);
    while (scanf(" %c %llu", &kind, &address) == 2) {
        waits = kind == 'x' ? fetch(&flash, address, 4, 1) : load(&flash, address);
        printf("%llu\\n", waits);
    }
    return 0;
}
"""
RAM = 1 << 16  # the first address behind the flash


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    """What each step of a trace waits, "x" an instruction of four bytes that takes a cycle and "r" a load."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "replay.c").write_text(REPLAY)
    command = [*host_compiler(), "-std=c99", f"-I{templates() / 'emulate'}", "replay.c", "-o", "replay"]
    subprocess.run(command, cwd=folder, check=True)

    def waits(trace, wait_states=5, word=8, line=8, prefetch=False, code=(0, 0), data=(0, 0), unified=False):
        numbers = [wait_states, word, line, int(prefetch), *code, *data, int(unified)]
        text = " ".join(str(n) for n in numbers) + "\n" + "\n".join(f"{kind} {address}" for kind, address in trace)
        printed = subprocess.run([folder / "replay"], input=text, capture_output=True, text=True, check=True).stdout
        return [int(line) for line in printed.split()]

    return waits


def code(first, instructions):
    return [("x", first + 4 * i) for i in range(instructions)]


def test_sequential_code_waits_for_each_word(replay):
    assert replay(code(0, 6)) == [5, 0, 5, 0, 5, 0]


def test_prefetch_reads_while_the_word_before_runs(replay):
    # A read begins when the one before has ended and takes six cycles, two of which the word before runs.
    assert replay(code(0, 6), prefetch=True) == [5, 0, 4, 0, 4, 0]
    assert replay(code(0, 6), prefetch=True, wait_states=1) == [1, 0, 0, 0, 0, 0]


def test_an_instruction_across_two_words_waits_for_both(replay):
    assert replay([("x", 6)]) == [5 + 6]


def test_a_loop_that_fits_the_cache_waits_in_its_first_pass_only(replay):
    loop = code(0, 8)  # 32 bytes
    assert sum(replay(loop * 10, code=(32, 4))) == 4 * 5
    assert sum(replay(loop * 10, code=(32, 4), prefetch=True)) < 4 * 5 + 1


def test_a_loop_larger_than_the_cache_waits_in_every_pass(replay):
    loop = code(0, 10)  # 40 bytes: the word that comes next is always the one that was given up
    assert sum(replay(loop * 10, code=(32, 4))) == 10 * 5 * 5


def test_sets_of_a_cache_take_words_by_their_address(replay):
    apart = [("x", 0), ("x", 32)] * 5
    assert sum(replay(apart, code=(32, 1))) == 10 * 5  # the same set
    assert sum(replay(apart, code=(32, 2))) == 2 * 5


def test_the_least_recently_used_word_gives_way(replay):
    words = [("x", 8 * word) for word in (0, 1, 0, 2, 0, 1)]
    assert replay(words, code=(16, 2)) == [5, 5, 0, 5, 0, 5]


def test_literal_loads_wait_once_for_a_word_in_the_data_cache(replay):
    loads = [("r", address) for address in (256, 260, 264, 256)]
    assert replay(loads, data=(16, 2)) == [5, 0, 6, 0]  # the port is busy for a cycle after the first
    assert replay(loads)[3] > 0  # without a cache, only the last word is kept


def test_a_cache_of_code_and_constants_holds_lines_of_both_which_displace_each_other(replay):
    both = [("x", 0), ("r", 32), ("x", 64)]
    assert all(replay(both * 5, line=16, code=(32, 1), unified=True))  # the same set
    assert not any(replay(both * 5, line=16, code=(64, 4), unified=True)[3:])
    loads = [("r", address) for address in (0, 8, 16, 8)]
    assert replay(loads, line=16, code=(32, 2), unified=True) == [5, 0, 7, 0]  # a line of two words, then the port


def test_a_load_waits_for_a_prefetch_that_has_begun(replay):
    assert replay([("x", 0), ("r", 256)], prefetch=True)[1] > replay([("x", 0), ("r", 256)])[1]


def test_words_of_a_line_come_one_behind_the_other(replay):
    assert replay(code(0, 9), line=32) == [5, 0, 0, 0, 0, 0, 0, 0, 5]  # 9 cycles of the port, after 13
    assert sum(replay(code(0, 8) * 2, line=32, code=(32, 1))) == 5


def test_memory_other_than_flash_does_not_wait(replay):
    assert replay([("x", RAM), ("r", RAM + 64)]) == [0, 0]


def test_without_wait_states_only_a_busy_port_waits(replay):
    assert replay(code(0, 6), wait_states=0) == [0] * 6


# --- through the plugin


def subject():
    model = qlinear_conv((1, 4, 6, 5), random_weights((8, 4, 3, 3)), x_type="int8", y_type="int8")
    return qcgen.compile(model, name="m", target="cortex-m4", layout="nhwc")


def test_the_figure_without_wait_states_does_not_depend_on_boards():
    require_core("cortex-m4")
    artifact = subject()
    feeds = random_feeds(artifact.plan, 0)
    slow = tuple(board for board in BOARDS.values() if "cortex-m4" in board.cores)
    none = Board(
        "none", ("cortex-m4",), 1, 0, 4096, 4096, Cache(1 << 16, 16), Cache(1 << 16, 16), "", has_prefetch=False
    )
    plain, modelled = measure(artifact, feeds), measure(artifact, feeds, boards=(*slow, none))
    assert (plain.instructions, plain.cycles) == (modelled.instructions, modelled.cycles)
    assert [node.cycles for node in plain.nodes] == [node.cycles for node in modelled.nodes]
    assert modelled.cycles_on("none") == modelled.cycles
    assert plain.boards == ()
    for board in slow:
        assert modelled.cycles_on(board.name) > modelled.cycles


def test_constants_in_flash_are_seen():
    require_core("cortex-m4")
    artifact = subject()
    feeds = random_feeds(artifact.plan, 0)
    big = Cache(1 << 16, 1 << 13)
    boards = tuple(
        Board(name, ("cortex-m4",), 1, 5, 8, 8, big, data, "")
        for name, data in (("uncached", Cache()), ("cached", big))
    )
    found = measure(artifact, feeds, boards=boards)
    weights = 8 * 4 * 3 * 3
    assert found.cycles_on("cached") - found.cycles >= weights // 8 * 5  # each word of weights once
    assert found.cycles_on("uncached") > found.cycles_on("cached") + weights // 8 * 5


@pytest.mark.parametrize(
    ("x_shape", "kernel"), [((1, 64, 6, 6), 1), ((1, 16, 12, 12), 1), ((1, 8, 12, 12), 1), ((1, 64, 3, 3), 3)]
)
def test_loops_of_a_cortex_m4_fit_its_boards_instruction_cache(x_shape, kernel):
    """Beyond the first reads of constants and code, for which a core waits as long as it computes at most."""
    require_core("cortex-m4")
    cached = Board(
        "cached", ("cortex-m4",), 1, 5, 8, 8, Cache(1024, 128), Cache(1 << 16, 1 << 13), "", has_prefetch=False
    )
    model = qlinear_conv(x_shape, random_weights((32, x_shape[1], kernel, kernel)), x_type="int8", y_type="int8")
    artifact = qcgen.compile(model, name="m", target="cortex-m4", layout="nhwc", optimize="speed")
    found = measure(artifact, random_feeds(artifact.plan, 0), boards=(cached,))
    assert found.cycles_on("cached") < 2 * found.cycles


def test_bench_prints_boards_and_has_them_in_json(tmp_path, capsys):
    require_core("cortex-m4")
    model = str(tmp_path / "m.onnx")
    onnx.save(qlinear_conv((1, 4, 6, 5), random_weights((8, 4, 3, 3))), model)
    assert main(["bench", model, "--target", "cortex-m4", "--board", "stm32l4r5", "-v"]) == 0
    text = capsys.readouterr().out
    assert "stm32l4r5 at 120 MHz: about " in text
    assert "5 wait states for 8 B of flash; source: RM0432" in text
    assert "stm32f407" not in text
    assert main(["bench", model, "--target", "cortex-m4", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [board["name"] for board in report["boards"]] == ["stm32l4r5", "stm32f407"]
    for board in report["boards"]:
        [function] = report["functions"]
        [node] = function["nodes"]
        assert board["estimated_cycles"] == function["board_cycles"][board["name"]] > report["estimated_cycles"]
        assert node["estimated_cycles"] < node["board_cycles"][board["name"]] < board["estimated_cycles"]


def test_bench_calls_cycles_an_upper_bound_where_the_core_takes_fewer(tmp_path, capsys):
    require_core("cortex-m7")
    model = str(tmp_path / "m.onnx")
    onnx.save(qlinear_conv((1, 4, 6, 5), random_weights((8, 4, 3, 3))), model)
    assert main(["bench", model, "--target", "cortex-m7", "-v"]) == 0
    text = capsys.readouterr().out
    assert "at most about " in text
    assert "cycles: an upper bound for memory without wait states" in text


def test_bench_refuses_a_board_with_another_core(tmp_path, capsys):
    assert main(["bench", str(tmp_path / "m.onnx"), "--target", "cortex-m0", "--board", "stm32l4r5"]) == 2
    assert "argument --board: the core of stm32l4r5 is not a cortex-m0" in capsys.readouterr().err


def test_every_board_has_a_core_caches_of_whole_sets_and_a_source():
    for name, board in BOARDS.items():
        assert name == board.name
        assert set(board.cores) <= set(TARGETS)
        assert board.source
        for cache, unit in ((board.code, board.line_bytes), (board.data, board.word_bytes)):
            assert cache.ways == 0 or cache.bytes % (cache.ways * unit) == 0
