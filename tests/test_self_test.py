"""The generated self-test: 0 where the core computes what the reference does, else the first node that does not."""

import json
import re
import struct
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from batch import require
from emulated import require_core
from gallery_networks import dynamic_in_rows, float16, float_tail, in_rows, network_qdq, network_qop
from marks import share_at_first, some_at_first

import qcgen
from qcgen.build import STRICT_FLAGS
from qcgen.cli import main
from qcgen.cores import TARGETS
from qcgen.cross import machine_of
from qcgen.emulate.image import _memory_symbols
from qcgen.render import templates
from qcgen.self_test import fnv

DIGITS = Path(__file__).parent / "data" / "digits"
DIGITS_MODEL = DIGITS / "digits_qop_s8.onnx"

ON_HOST = """
#include <stdio.h>
#include "net_test.h"
int main(void)
{
    static net_arena arena;
    printf("%d", net_test(&arena));
    return 0;
}
"""

ON_CORE = """
#include "machine.h"
#include "net_test.h"
int main(void)
{
    static net_arena arena;
    _leave(net_test(&arena));
    return 0;
}
"""

MODELS = {
    "whole": (DIGITS_MODEL, {}),
    "floats at the boundary": (DIGITS / "digits_qdq_u8.onnx", {}),
    "channels first": (DIGITS_MODEL, {"layout": "nchw"}),
    "codes": (DIGITS / "digits_qdq_s8.onnx", {"io": "quantized", "layout": "nhwc"}),
    "in rows": (DIGITS_MODEL, {"arena": "least"}),
    "all in rows": (in_rows, {"arena": "least", "layout": "nhwc"}),
    "in the arena": (DIGITS_MODEL, {"io_memory": "arena"}),
    "float layers": (float_tail, {}),
    "float16 and double": (float16, {}),
    "with a status": (in_rows, {"arena": "least", "layout": "nhwc", "status": True}),
    "in two passes": (dynamic_in_rows, {"arena": "least", "layout": "nhwc"}),
    "sums with padding that is computed, in rows": (
        partial(dynamic_in_rows, averages=True),
        {"arena": "least", "layout": "nhwc"},
    ),
    "small": (network_qop, {}),
    "small, from QDQ": (network_qdq, {}),
}


def with_test(model=DIGITS_MODEL, feeds=None, **options):
    model = model() if callable(model) else model
    return qcgen.compile(model, name="net", **options).with_self_test(feeds)


def result_on_host(folder, artifact, change=("", "")):
    require("gcc")
    for name, text in artifact.files.items():
        (folder / name).write_text(text.replace(*change) if name == "net.c" else text)
    (folder / "main.c").write_text(ON_HOST)
    command = ["gcc", *STRICT_FLAGS, "-O1", "main.c", "net.c", "net_test.c", "-lm", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    return int(subprocess.run(["./main"], cwd=folder, capture_output=True, check=True).stdout)


@pytest.mark.parametrize("name", share_at_first(list(MODELS), 6))
def test_it_is_0_on_this_machine(name, tmp_path):
    model, options = MODELS[name]
    assert result_on_host(tmp_path, with_test(model, **options)) == 0


def test_a_recorded_input_is_a_table_of_the_test(tmp_path, capsys):
    command = ["compile", str(DIGITS_MODEL), "--name", "net", "--self-test", "-o", str(tmp_path)]
    assert main([*command, "--data", str(DIGITS / "digits_qop_s8.npz")]) == 0
    capsys.readouterr()
    (tmp_path / "main.c").write_text(ON_HOST)
    recorded = np.load(DIGITS / "digits_qop_s8.npz")
    table = re.search(r"recorded.*?\{\n(.*?)\};", (tmp_path / "net_test.c").read_text(), re.DOTALL)[1]
    numbers = np.array([float(word.strip(" f\n")) for word in table.split(",")[:-1]], np.float32)
    np.testing.assert_array_equal(
        numbers, recorded[next(key for key in recorded if key.startswith("in0."))].reshape(-1)
    )
    subprocess.run(
        ["gcc", *STRICT_FLAGS, "main.c", "net.c", "net_test.c", "-lm", "-o", "main"], cwd=tmp_path, check=True
    )
    assert subprocess.run(["./main"], cwd=tmp_path, capture_output=True, check=True).stdout == b"0"


def test_a_recorded_input_of_float16_is_a_table_of_its_words(tmp_path):
    ports = qcgen.compile(float16(), name="net").plan.inputs
    feeds = {port.tensor.name: np.full(port.tensor.shape, 1.5, port.tensor.dtype.numpy) for port in ports}
    artifact = with_test(float16, feeds)
    assert f"{0x3E00}, {0x3E00}, " in artifact.files["net_test.c"]
    assert result_on_host(tmp_path, artifact) == 0


@pytest.mark.parametrize("arena", some_at_first([None, "least"]), ids=["whole", "in rows"])
def test_the_first_node_that_differs_is_named(arena, tmp_path):
    artifact = with_test(arena=arena)
    for number, call in enumerate(artifact.plan.calls[1:4], start=1):
        [found] = re.findall(rf"int32_t {call.symbol}_bias\[.*?\] = \{{\n +(-?\d+),", artifact.files["net.c"])
        text = artifact.files["net.c"]
        at = text.index(f"{call.symbol}_bias[")
        changed = text[:at] + text[at:].replace(found, str(int(found) + 100000), 1)
        assert result_on_host(tmp_path, artifact, (text, changed)) == number + 1


def test_layers_in_rows_are_checked_too():
    artifact = with_test(in_rows, arena="least", layout="nhwc")
    assert artifact.plan.streams
    source = artifact.files["net.c"]
    assert all(f"_test_hash(hashes, {number}, " in source for number in range(len(artifact.plan.calls)))


def test_float_layers_are_not_checked_and_named():
    artifact = with_test(float_tail)
    assert "some that do: mixed, y." in artifact.files["net_test.h"].replace("\n *", "")
    numbers = re.findall(r"_test_hash\(hashes, (\d+), ", artifact.files["net.c"])
    assert len(numbers) == len(artifact.plan.calls) - 2  # all but the last product and what follows


def test_the_function_itself_is_the_same_without_a_test():
    plain = qcgen.compile(DIGITS_MODEL, name="net")
    assert "hash" not in plain.files["net.c"]
    assert set(plain.with_self_test().files) == {"net.h", "net.c", "net_test.h", "net_test.c"}


def test_the_hash_is_fnv_1a():
    assert (fnv(b""), fnv(b"foobar")) == (0x811C9DC5, 0xBF9CF968)


def test_it_is_refused_where_rows_are_pushed(capsys):
    assert main(["compile", str(DIGITS_MODEL), "--test-slices", "--input", "rows"]) == 2
    assert "argument --test-slices: it brings" in capsys.readouterr().err
    assert main(["compile", str(DIGITS_MODEL), "--self-test", "--input", "rows"]) == 2
    assert "it brings an input of its own: leave out --input rows" in capsys.readouterr().err


def build(core, artifact, folder):
    """The image of a program that ends with the test's result."""
    require_core(core, counting=False)
    target, sources = TARGETS[core], templates() / "emulate"
    machine = machine_of(target)
    artifact.write(folder)
    (folder / "main.c").write_text(ON_CORE)
    command = [target.compiler, *target.flags, "-std=gnu99", "-O2", f"-I{sources}", "-I."]
    startup = [str(sources / machine.startup), "-c", "-o", "_startup.o"]
    link = ["-nostartfiles", "-T", str(sources / "memory.ld"), *_memory_symbols(machine), "-lm", "-o", "image.elf"]
    subprocess.run([*command, *startup], cwd=folder, check=True)
    subprocess.run([*command, "main.c", "-c", "-o", "_driver.o"], cwd=folder, check=True)
    subprocess.run([*command, "_startup.o", "_driver.o", "net.c", "net_test.c", *link], cwd=folder, check=True)
    return folder / "image.elf"


def result_on_core(core, image):
    machine = machine_of(TARGETS[core])
    command = [machine.emulator, *machine.arguments, "-display", "none", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", str(image)]
    return subprocess.run(command, timeout=120, check=False).returncode


def flipped(core, image, symbol, byte, bit):
    """The image with one bit of a table flipped; None if the compiler left no such table."""
    listing = subprocess.run([f"{TARGETS[core].tools}nm", image], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"^([0-9a-f]+) \w {symbol}$", listing, re.MULTILINE)
    if not found:
        return None
    data = bytearray(image.read_bytes())
    data[_offset(data, int(found[1], 16)) + byte] ^= 1 << bit
    copy = image.with_name("flipped.elf")
    copy.write_bytes(data)
    return copy


def _offset(elf, address):
    """Where in a file of 32-bit ELF the byte lies that is loaded to an address."""
    start, size, count = struct.unpack_from("<I", elf, 28)[0], *struct.unpack_from("<HH", elf, 42)
    for index in range(count):
        _, offset, virtual, _, length = struct.unpack_from("<5I", elf, start + index * size)
        if virtual <= address < virtual + length:
            return offset + address - virtual
    raise AssertionError(f"nothing is loaded to {address:#x}")


CORES = ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "rv32imc"]


@pytest.mark.parametrize("core", some_at_first(CORES, "cortex-m4"))
def test_on_a_core_it_is_0_and_a_flipped_bit_names_the_node(core, tmp_path):
    artifact = with_test(target=core, io="quantized")
    image = build(core, artifact, tmp_path)
    assert result_on_core(core, image) == 0
    number, call = 3, artifact.plan.calls[3]
    results = {result_on_core(core, copy) for copy in flips(core, image, call)}
    assert results == {number + 1}


def flips(core, image, call):
    """Images with one bit flipped in a table of a call: in the middle, then near the end."""
    places = ((table, byte) for table in call.tables for byte in (table.bytes // 2, table.bytes - 2) if byte >= 0)
    copies = (flipped(core, image, table.symbol, byte, 6) for table, byte in places)
    return (copy for copy in copies if copy is not None)


@pytest.mark.all
@pytest.mark.parametrize("arena", some_at_first([None, "least"]), ids=["whole", "in rows"])
def test_a_bit_flipped_in_a_table_of_any_node_names_it(arena, tmp_path):
    core = "cortex-m4"
    artifact = with_test(target=core, arena=arena)
    image = build(core, artifact, tmp_path)
    for number, call in enumerate(artifact.plan.calls):
        results = {result_on_core(core, copy) for copy in flips(core, image, call)}
        assert results == ({number + 1} if call.tables else set()), call.symbol


SLICES = """
#include <stdio.h>
#include "net_test.h"
int hooks;
int main(void)
{
    static net_arena arena;
    net_test_slices at = {0, 0, 0};
    printf("%d", net_test(&arena));
    printf(" %d", hooks);
    for (unsigned long bytes = 1; bytes < 100000; bytes = bytes * 3 + 1) {
        unsigned long calls = 0;
        int node;

        do {
            node = net_test_slice(&at, (uint32_t)bytes);
            calls++;
        } while (node < 0);
        printf(" %d %lu", node, calls);
    }
    return 0;
}
"""


def test_tables_are_checked_in_slices_of_any_size_and_the_watchdog_is_fed_between_them(tmp_path, capsys):
    require("gcc")
    words = ["compile", str(DIGITS_MODEL), "--name", "net", "--test-slices", "--json", "-o", str(tmp_path)]
    assert main(words) == 0
    size = json.loads(capsys.readouterr().out)["constants_bytes"]
    (tmp_path / "main.c").write_text(SLICES)
    (tmp_path / "feed.h").write_text(
        "extern int hooks;\n#define NET_TEST_HOOK() (hooks++)\n#define NET_TEST_SLICE 300\n"
    )
    slices = [1, 4, 13, 40, 121, 364, 1093, 3280, 9841, 29524, 88573]
    text = (tmp_path / "net.c").read_text()
    assert sliced(tmp_path) == [0, -(-size // 300), *(n for each in slices for n in (0, -(-size // each)))]
    for number, symbol in ((4, "conv4_quant_bias"), (1, "conv1_quant_bias"), (9, "dense6_quant_weights")):
        start = text.index("{\n", text.index(f"net_{symbol}[")) + 1
        changed = re.compile(r"-?\d+").sub(lambda found: str(int(found[0]) ^ 1), text[start:], count=1)
        (tmp_path / "net.c").write_text(text[:start] + changed)
        assert set(sliced(tmp_path)[::2]) == {number + 1}


def sliced(folder):
    """What SLICES prints."""
    command = [
        "gcc",
        *STRICT_FLAGS,
        "-O1",
        "-include",
        "./feed.h",
        "main.c",
        "net.c",
        "net_test.c",
        "-lm",
        "-o",
        "main",
    ]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def test_it_takes_less_than_a_kilobyte(tmp_path):
    core = "cortex-m4"
    require_core(core, counting=False)
    artifact = with_test(target=core, io="quantized")
    artifact.write(tmp_path)
    qcgen.compile(DIGITS_MODEL, name="plain", target=core, io="quantized").write(tmp_path)
    flags = [*TARGETS[core].flags, *STRICT_FLAGS, "-O2", "-c"]
    subprocess.run([TARGETS[core].compiler, *flags, "net.c", "plain.c", "net_test.c"], cwd=tmp_path, check=True)
    command = [f"{TARGETS[core].tools}size", "net.o", "plain.o", "net_test.o"]
    lines = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    grown, without, test = (sum(map(int, line.split()[:2])) for line in lines)
    assert grown - without + test < 1024
