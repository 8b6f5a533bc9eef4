"""The sums of every case that a kernel has: all coefficients are measured, and right."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest
from batch import Unit, family_unit, require, unit
from cases import CASES, Case
from emulated import require_core

import qcgen.verification.sums
from qcgen.cores import EMULATED
from qcgen.verification.nodes import Nodes
from qcgen.verification.running import Builder
from qcgen.verification.sums import measure

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55")

SETTINGS = (
    ("nhwc", "size", "portable"),
    ("nchw", "speed", "portable"),
    *(("nhwc", aim, core) for core in CORES for aim in ("size", "speed")),
)
"""Layout, aim and target, by turns."""

FAMILIES = {
    "cases_arm_dsp": ("arm_dsp", ("cortex-m4",)),
    "cases_tiles": ("arm_dsp", ("cortex-m4",)),
    "cases_arm_mve": ("arm_mve", ("cortex-m55",)),
    "cases_mve_depthwise": ("arm_mve", ("cortex-m55",)),
    "cases_scalar": ("scalar", ("cortex-m0", "cortex-m3", "rv32imc")),
    "cases_scalar_planes": ("scalar", ("cortex-m0", "cortex-m3", "rv32imc")),
}
"""The family and the targets of the cases in a file, by turns."""

WORK = 2**22  # multiply-accumulates for a layer: enough for all coefficients of nearly all cases
EMULATED_SHARE = 10  # one of so many cases runs on a core
SHARE = 4  # one of so many cases of a family, where not all are asked for


def units_of(name: str) -> list[Unit]:
    """Each case of a file, once."""
    if name == "cases":
        return [unit(case, *SETTINGS[index % len(SETTINGS)]) for index, case in enumerate(CASES)]
    family, cores = FAMILIES[name]
    tables = [value for value in vars(import_module(name)).values() if isinstance(value, tuple)]
    own = dict.fromkeys(case for table in tables for case in table if isinstance(case, Case))
    turns = [(case, index) for index, case in enumerate(case for case in own if case not in CASES)]
    return [family_unit(case, ("size", "speed")[i // 2 % 2], cores[i % len(cores)], family) for case, i in turns]


def wrong_sums(units: Sequence[Unit], builder: Builder, folder: Path) -> tuple[list[str], int]:
    """What is wrong with the sums of these units, and how many coefficients were measured."""
    each = [Nodes(one.artifact, builder, folder / one.name, shows_words=True) for one in units]
    each = [nodes for nodes in each if any(node.call.certificate.word for node in nodes.nodes)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda nodes: measure(nodes, nodes, 0), each))
    return [str(sums.wrong) for sums in found if sums.wrong], sum(sums.total("coefficients") for sums in found)


def assert_measured_right(units: Sequence[Unit], builder: Builder, folder: Path) -> None:
    wrong, coefficients = wrong_sums(units, builder, folder)
    assert not wrong, "\n".join(wrong)
    assert coefficients > 1000


@pytest.fixture(autouse=True)
def little_work(monkeypatch):
    monkeypatch.setattr(qcgen.verification.sums, "MOST_WORK", WORK)


@pytest.mark.all
@pytest.mark.parametrize("name", ["cases", *FAMILIES])
def test_every_coefficient_is_right_of_every_case_or_a_share_of_a_familys(name, tmp_path):
    require("gcc")
    share = 1 if name == "cases" else SHARE
    assert_measured_right(units_of(name)[::share], Builder(("-O0",)), tmp_path)


@pytest.mark.emulated
@pytest.mark.parametrize("name", FAMILIES)
def test_every_coefficient_of_every_case_of_a_family_is_right(name, tmp_path):
    require("gcc")
    assert_measured_right(units_of(name), Builder(("-O0",)), tmp_path)


@pytest.mark.emulated
@pytest.mark.parametrize("core", EMULATED)
def test_every_coefficient_of_a_share_of_the_cases_is_right_on_the_core(core, tmp_path):
    require_core(core)
    chosen = CASES[EMULATED.index(core) % EMULATED_SHARE :: EMULATED_SHARE]
    units = [unit(case, "nhwc", ("size", "speed")[index % 2], core) for index, case in enumerate(chosen)]
    assert_measured_right(units, Builder(("-O2",), core), tmp_path)
