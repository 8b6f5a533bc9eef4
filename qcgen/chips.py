"""Microcontrollers by name, with memory and clock, each with its source; and boards that emulators stand for."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from qcgen.cores import TARGETS, Machine, Target

KIBI = 1024


@dataclass(frozen=True)
class Chip:
    """``flash`` and ``ram`` in bytes; ``megahertz``: the highest clock, unless ``note`` says otherwise.

    ``ram``: the longest run of addresses that a program may fill with data, of whatever memories it consists. What the
    hardware or the vendor's tools keep for caches, stacks or a radio does not count. ``note``: what the flash or the
    RAM is, where the name does not say it.
    """

    name: str
    target: str
    flash: int
    ram: int
    megahertz: int
    source: str
    note: str = ""


@dataclass(frozen=True)
class Fit:
    """Whether a network fits a chip: bytes and percent of flash and RAM that it takes, and the time of an inference.

    ``cycles`` is an estimate without wait states; flash and RAM of the application and the stack come on top.
    """

    board: str
    fits: bool
    flash_bytes: int
    flash_percent: float
    ram_bytes: int
    ram_percent: float
    megahertz: int
    cycles: int
    milliseconds: float
    source: str


def _chip(name: str, target: str, flash: int, ram: int, megahertz: int, source: str, note: str = "") -> Chip:
    """``flash`` and ``ram`` in KiB."""
    return Chip(name, target, flash * KIBI, ram * KIBI, megahertz, source, note)


_PICO = "flash of the Raspberry Pi Pico"
_SCRATCH = "beside 8 KiB for stacks"

CHIPS = {
    chip.name: chip
    for chip in (
        _chip("stm32f072rb", "cortex-m0", 128, 16, 48, "ST DS9826"),
        _chip("stm32f103c8", "cortex-m3", 64, 20, 72, "ST DS5319"),
        _chip("stm32f401re", "cortex-m4", 512, 96, 84, "ST DS10086"),
        _chip("stm32f407", "cortex-m4", 1024, 128, 168, "ST DS8626, STM32F407VG", "beside 64 KiB of CCM"),
        _chip("stm32f411re", "cortex-m4", 512, 128, 100, "ST DS10314"),
        _chip("stm32f429zi", "cortex-m4", 2048, 192, 180, "ST DS9405", "beside 64 KiB of CCM"),
        _chip("stm32f446re", "cortex-m4", 512, 128, 180, "ST DS10693"),
        _chip("stm32f746ng", "cortex-m7", 1024, 320, 216, "ST DS10916", "64 KiB of it DTCM"),
        _chip("stm32f767zi", "cortex-m7", 2048, 512, 216, "ST DS11532", "128 KiB of it DTCM"),
        _chip("stm32g071", "cortex-m0", 128, 36, 64, "ST DS12232, STM32G071RB", "without parity check"),
        _chip("stm32g474re", "cortex-m4", 512, 128, 170, "ST DS12288", "32 KiB of it CCM"),
        _chip("stm32h743", "cortex-m7", 2048, 512, 480, "ST DS12110, STM32H743ZI", "of 1 MiB: that on the AXI bus"),
        _chip("stm32l432kc", "cortex-m4", 256, 64, 80, "ST DS11451"),
        _chip("stm32l476rg", "cortex-m4", 1024, 96, 80, "ST DS10198", "beside 32 KiB of SRAM2"),
        _chip("stm32l4r5", "cortex-m4", 2048, 640, 120, "ST DS12023, STM32L4R5ZI"),
        _chip("stm32u575zi", "cortex-m33", 2048, 768, 160, "ST DS13737"),
        _chip("stm32wb55rg", "cortex-m4", 1024, 192, 64, "ST DS11929", "beside SRAM2; the radio takes flash, too"),
        _chip("nrf52832", "cortex-m4", 512, 64, 64, "Nordic nRF52832 product specification"),
        _chip("nrf52840", "cortex-m4", 1024, 256, 64, "Nordic nRF52840 product specification"),
        _chip("nrf5340", "cortex-m33", 1024, 512, 128, "Nordic nRF5340 product specification, application core"),
        _chip("rp2040", "cortex-m0", 2048, 256, 125, "RP2040 data sheet", f"{_PICO}; {_SCRATCH}; the SDK's clock"),
        _chip("rp2350", "cortex-m33", 4096, 512, 150, "RP2350 data sheet, Arm cores", f"{_PICO} 2; {_SCRATCH}"),
        _chip("rp2350-riscv", "rv32imc", 4096, 512, 150, "RP2350 data sheet, RISC-V cores", f"{_PICO} 2; {_SCRATCH}"),
        _chip("esp32c3", "rv32imc", 4096, 384, 160, "ESP32-C3 data sheet", "flash of the ESP32-C3FH4; without cache"),
        _chip("esp32c6", "rv32imc", 4096, 512, 160, "ESP32-C6 data sheet", "flash of the ESP32-C6FH4"),
        _chip("esp32s3", "scalar32", 8192, 448, 240, "ESP32-S3FN8 data sheet; ESP-IDF memory_layout.c", "RAM for data"),
        _chip("samd21g18", "cortex-m0", 256, 32, 48, "Microchip DS40001882"),
        _chip("samd51j19", "cortex-m4", 512, 192, 120, "Microchip DS60001507"),
        _chip("imxrt1062", "cortex-m7", 8192, 512, 600, "NXP IMXRT1060CEC", "flash of the Teensy 4.1; dedicated OCRAM"),
        _chip("ra4m1", "cortex-m4", 256, 32, 48, "Renesas R01DS0355, R7FA4M1AB"),
        _chip("max78000", "cortex-m4", 512, 128, 100, "Analog Devices MAX78000 data sheet, without its accelerator"),
    )
}
"""Every chip by the name that ``compile --board`` takes; a part of a name that is unique serves, too."""

_WORDS = {
    "cortex-m0": "cortex-m0+ cortex-m0plus cortex-m1 stm32c0 stm32f0 stm32g0 stm32l0 stm32u0 nrf51 samd10 samd20"
    " samd21",
    "cortex-m3": "stm32f1 stm32f2 stm32l1 sam3x gd32f1",
    "cortex-m4": "cortex-m4f stm32f3 stm32f4 stm32g4 stm32l4 stm32wb stm32wl nrf52 samd51 same51 same53 same54 apollo3"
    " apollo4 ra4m1 ra6m1 ra6m2 ra6m3 k64f",
    "cortex-m7": "cortex-m7f stm32f7 stm32h7 imxrt10 imxrt11 same70 samv71",
    "cortex-m33": "cortex-m33f cortex-m35p stm32h5 stm32l5 stm32u5 stm32wba nrf53 nrf54l nrf91 lpc55 efr32mg24 ra6m4"
    " ra6m5",
    "cortex-m55": "cortex-m52 stm32n6 apollo510",
    "cortex-m85": "ra8",
    "rv32imc": "rv32imac rv32imafc esp32c esp32h gd32vf103 ch32v3",
    "scalar32": "xtensa esp32 esp32s2 esp32s3",
}

SERIES = {word: target for target, words in _WORDS.items() for word in words.split()}
"""Targets by the cores and series whose code they run; a chip is of the longest of these that its name begins with."""


class UnknownChip(ValueError):
    """No target, chip, core or series is called so; the text says which come near."""


def target_of(name: str) -> str:
    """The name of the target for a target, a chip, a core or a series; raises UnknownChip.

    >>> target_of("stm32f4"), target_of("STM32F407VGT6"), target_of("cortex-m4f"), target_of("esp32c3")
    ('cortex-m4', 'cortex-m4', 'cortex-m4', 'rv32imc')
    """
    word = name.lower()
    if word in TARGETS:
        return word
    known = {**SERIES, **{chip.name: chip.target for chip in CHIPS.values()}}
    begun = [start for start in known if word.startswith(start) and not start.startswith("cortex")]
    exact = [start for start in known if start == word]
    if found := exact or begun:
        return known[max(found, key=len)]
    raise UnknownChip(_unknown(name, [*TARGETS, *known], "target, chip or series"))


def chip_of(name: str) -> Chip:
    """The chip of a name, or of a part number that begins with it; raises UnknownChip."""
    word = name.lower()
    begun = [chip for chip in CHIPS.values() if word.startswith(chip.name)]
    longer = [chip for chip in CHIPS.values() if chip.name.startswith(word)]
    if word in CHIPS:
        return CHIPS[word]
    if begun:
        return max(begun, key=lambda chip: len(chip.name))
    if len(longer) == 1:
        return longer[0]
    raise UnknownChip(_unknown(name, list(CHIPS), "board"))


def target_on(chip: Chip, target: str) -> str:
    """The target for a chip: ``target`` itself, unless that is portable; ValueError if the chip does not run it."""
    if target == "portable":
        return chip.target
    if target not in (chip.target, "scalar32"):
        raise ValueError(f"the core of {chip.name} is {chip.target}, not {target}")
    return target


def fit(chip: Chip, flash: int, ram: int, cycles: float) -> Fit:
    """What a network of ``flash`` and ``ram`` bytes and so many ``cycles`` takes of a chip."""
    return Fit(
        board=chip.name,
        fits=flash <= chip.flash and ram <= chip.ram,
        flash_bytes=chip.flash,
        flash_percent=round(100 * flash / chip.flash, 1),
        ram_bytes=chip.ram,
        ram_percent=round(100 * ram / chip.ram, 1),
        megahertz=chip.megahertz,
        cycles=round(cycles),
        milliseconds=round(cycles / chip.megahertz / 1e3, 3),
        source=chip.source,
    )


def _unknown(name: str, known: list[str], what: str) -> str:
    near = get_close_matches(name.lower(), known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "qcgen targets lists them"
    return f"{name!r} is not a {what}: {hint}"


# The boards that examples are made for, as rows of data; an emulator stands for each.


@dataclass(frozen=True)
class ExampleBoard:
    """A board with the core of ``target``; ``uart`` is the address of its first serial port.

    ``startup`` names the template of board.c; ``tick`` says what a tick of its clock is in the emulator.
    """

    name: str
    description: str
    target: Target
    uart: int
    startup: str
    tick: str

    @property
    def machine(self) -> Machine:
        """The emulated machine."""
        assert self.target.machine is not None, "every board's core has one"
        return self.target.machine

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets whose code the board runs: its own first."""
        same = [target.name for target in TARGETS.values() if target.machine == self.machine]
        return tuple(dict.fromkeys([self.target.name, *same, "portable", "scalar32"]))

    def flags(self, target: str) -> tuple[str, ...]:
        """The compiler's flags for code of a target: its own, or the core's for code that runs anywhere."""
        own = TARGETS[target]
        return own.flags if own.machine == self.machine else self.target.flags


NANOSECONDS = 32
"""How long an instruction takes in the emulator, whichever it is."""


def _mps(name: str, description: str, target: str, uart: int, megahertz: int) -> ExampleBoard:
    tick = f"In the emulator the clock has {megahertz} MHz and an instruction takes {NANOSECONDS} ns, whichever it is."
    return ExampleBoard(name, description, TARGETS[target], uart, "cortex_m.c", tick)


BOARDS = {
    board.name: board
    for board in (
        _mps("mps2-an385", "Arm MPS2 with a Cortex-M3", "cortex-m3", 0x40004000, 25),
        _mps("mps2-an386", "Arm MPS2 with a Cortex-M4", "cortex-m4", 0x40004000, 25),
        _mps("mps2-an500", "Arm MPS2 with a Cortex-M7", "cortex-m7", 0x40004000, 25),
        _mps("mps2-an505", "Arm MPS2 with a Cortex-M33", "cortex-m33", 0x50200000, 20),
        _mps("mps3-an547", "Arm MPS3 with a Cortex-M55", "cortex-m55", 0x59303000, 32),
        ExampleBoard(
            "virt",
            "QEMU's RISC-V machine",
            TARGETS["rv32imc"],
            0x10000000,
            "riscv.c",
            f"In the emulator the clock has 1 GHz and an instruction takes {NANOSECONDS} ns, whichever it is.",
        ),
    )
}
"""Every board by the name that --board takes, which is the emulator's."""
