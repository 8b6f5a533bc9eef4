"""What qcgen bench estimates is what the RTL of cores takes; make bench-rtl compares more networks and cores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tools import require, require_modules

from qcgen.cores import RISCV_CORES
from qcgen.emulate import measure
from tests.bench.rtl.networks import Task, measured, subject
from tests.bench.whole import DIGITS, MLPERF, networks

pytestmark = pytest.mark.all

NETWORKS = [each for each in MLPERF if each.title in ("keyword spotting", "autoencoder")]
MOST = 0.015
"""How far an estimate may be from the cycles, relative."""


def require_simulators():
    require("verilator", "riscv64-unknown-elf-gcc", "qemu-system-riscv32")
    require_modules("pythondata_cpu_ibex", "pythondata_cpu_cv32e40p")


@pytest.mark.parametrize("core", ["ibex", "cv32e40p"])
@pytest.mark.parametrize("network", NETWORKS if networks() == MLPERF else DIGITS[:1], ids=lambda each: each.title)
def test_outputs_instructions_and_cycles_are_those_of_the_rtl(network, core):
    require_simulators()
    found = measured(Task(network, "speed", core))
    assert found.wrong == 0
    assert abs(found.instructions - found.counted) <= 1
    assert abs(found.off) < MOST


def test_a_wrong_row_of_the_table_is_further_off_than_may_be():
    require_simulators()
    found = measured(Task(DIGITS[0], "speed", "ibex"))
    assert abs(found.off) < MOST
    artifact, feeds, _ = subject(DIGITS[0], "speed")
    for wrong in ({"load": 2}, {"store": 2}, {"jump": 2}, {"multiply": 2}):
        estimate = measure(artifact, feeds, table=replace(RISCV_CORES["ibex"], **wrong)).cycles
        assert abs(estimate / found.cycles - 1) > MOST, wrong
