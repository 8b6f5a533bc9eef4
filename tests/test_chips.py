"""Chips: names that stand for targets, and whether a network fits one."""

import json
from dataclasses import replace

import pytest
from gallery_networks import network_qop

import qcgen
from qcgen.chips import CHIPS, Chip, UnknownChip, chip_of, fit, target_of
from qcgen.cli import main
from qcgen.cli.report_text import fitting
from qcgen.cores import BOARDS, TARGETS

NAMES = {
    "stm32f4": "cortex-m4",
    "STM32F407VGT6": "cortex-m4",
    "stm32h7": "cortex-m7",
    "stm32f1": "cortex-m3",
    "cortex-m4f": "cortex-m4",
    "cortex-m0plus": "cortex-m0",
    "esp32c3": "rv32imc",
    "esp32": "scalar32",
    "esp32s3": "scalar32",
    "rp2040": "cortex-m0",
    "rp2350": "cortex-m33",
    "rp2350-riscv": "rv32imc",
    "nrf52840": "cortex-m4",
    "nrf5340": "cortex-m33",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_chip_a_core_or_a_series_stands_for_a_target(name):
    assert target_of(name) == NAMES[name]


def test_every_target_and_chip_is_found_by_its_own_name():
    assert [target_of(name) for name in TARGETS] == list(TARGETS)
    assert [chip_of(name) for name in CHIPS] == list(CHIPS.values())
    assert [target_of(name) for name in CHIPS] == [chip.target for chip in CHIPS.values()]


def test_every_row_is_of_a_target_and_says_where_it_is_from():
    for chip in CHIPS.values():
        assert chip.target in TARGETS
        assert chip.source
        assert chip.ram <= chip.flash
    for board in BOARDS.values():
        assert CHIPS[board.name].target in board.cores
        assert CHIPS[board.name].megahertz == board.megahertz


@pytest.mark.parametrize("name", ["cortex-m99", "cortex-m4g", "z80", "stm32", "portabel", ""])
def test_another_name_is_refused(name):
    with pytest.raises(UnknownChip, match="is not a target, chip or series: "):
        target_of(name)
    with pytest.raises(UnknownChip, match="is not a board: "):
        chip_of(name)


def test_what_comes_near_is_named():
    with pytest.raises(UnknownChip, match="did you mean portable"):
        target_of("portabel")
    assert chip_of("stm32h743zit6") == CHIPS["stm32h743"]
    assert chip_of("nrf5284") == CHIPS["nrf52840"]


def test_it_fits_up_to_the_last_byte():
    chip = Chip("c", "cortex-m4", 1000, 100, 10, "source")
    assert fit(chip, 1000, 100, 20_000) == replace(fit(chip, 1001, 100, 20_000), fits=True, flash_percent=100.0)
    own = fit(chip, 500, 25, 20_000)
    assert (own.fits, own.flash_percent, own.ram_percent, own.milliseconds) == (True, 50.0, 25.0, 2.0)
    assert not fit(chip, 1001, 100, 1).fits
    assert not fit(chip, 1000, 101, 1).fits


def test_python_takes_chips_too():
    assert qcgen.compile(network_qop(), target="stm32f4").plan.options.target == "cortex-m4"
    with pytest.raises(ValueError, match="'z80' is not a target, chip or series"):
        qcgen.compile(network_qop(), target="z80")
    with pytest.raises(ValueError, match="the core of stm32f407 is cortex-m4, not cortex-m0"):
        qcgen.compile(network_qop(), board="stm32f407", target="stm32f0")
    assert qcgen.compile(network_qop(), board="STM32F407VG").plan.options.target == "cortex-m4"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("m.onnx").write_bytes(network_qop().SerializeToString())
    return tmp_path


@pytest.mark.all
def test_the_command_line_says_whether_it_fits(folder, capsys):
    assert main(["compile", "m.onnx", "--board", "stm32f407"]) == 0
    fits, flash, ram, time, exact = capsys.readouterr().out.splitlines()[-5:]
    assert fits.startswith("stm32f407: it fits: ")
    assert " of 1 048 576 B of flash, " in fits
    assert fits.endswith("; ST DS8626, STM32F407VG")
    assert flash.startswith("flash: ")
    assert ram.startswith("RAM: ")
    assert ram.endswith(" % of stm32f407")
    assert time.startswith("time: about ")
    assert time.endswith(" ms on stm32f407 at 168 MHz, without wait states")
    assert exact == "exact: every output is that of onnxruntime, bit for bit"
    assert "--target cortex-m4" in folder.joinpath("m.c").read_text()
    assert main(["compile", "m.onnx", "--board", "stm32f407", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["board"]["ram_percent"] == round(100 * report["ram_bytes"] / 131072, 1)
    assert report["board"]["cycles"] > 0


def test_what_does_not_fit_is_told():
    report = qcgen.compile(network_qop()).report
    small = Chip("small", "cortex-m4", 100, 100, 10, "source")
    assert fitting(report) is None
    assert "small: IT DOES NOT FIT: about 1000.0 % of 100 B of flash" in fitting(
        report.with_board(fit(small, 1000, 100, 1))
    )


@pytest.mark.usefixtures("folder")
def test_a_board_with_another_core_is_wrong_usage(capsys):
    assert main(["compile", "m.onnx", "--board", "stm32f407", "--target", "rp2040"]) == 2
    assert "the core of stm32f407 is cortex-m4, not cortex-m0" in capsys.readouterr().err
    assert main(["compile", "m.onnx", "--board", "z80"]) == 2
    assert main(["targets"]) == 0
    assert "nrf52840" in capsys.readouterr().out
