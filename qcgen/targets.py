"""The targets: what each core can do and how code for it is built, as rows of data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A core: ``features`` that kernels ask for, ``compiler`` and ``flags`` that build for it."""

    name: str
    description: str
    features: frozenset[str]
    compiler: str
    flags: tuple[str, ...]


def _cortex_m(name: str, core: str, flags: str, features: str = "") -> Target:
    return Target(
        name,
        f"Arm {core}",
        frozenset(features.split()),
        "arm-none-eabi-gcc",
        (f"-mcpu={name}", "-mthumb", *flags.split()),
    )


TARGETS = {
    target.name: target
    for target in (
        Target("portable", "any core, C99", frozenset(), "cc", ()),
        _cortex_m("cortex-m0", "Cortex-M0", "-mfloat-abi=soft", "no-wide-product"),
        _cortex_m("cortex-m3", "Cortex-M3", "-mfloat-abi=soft"),
        _cortex_m("cortex-m4", "Cortex-M4", "-mfloat-abi=hard -mfpu=fpv4-sp-d16", "dsp"),
        _cortex_m("cortex-m7", "Cortex-M7", "-mfloat-abi=hard -mfpu=fpv5-sp-d16", "dsp"),
        _cortex_m("cortex-m33", "Cortex-M33", "-mfloat-abi=hard -mfpu=fpv5-sp-d16", "dsp"),
        _cortex_m("cortex-m55", "Cortex-M55", "-mfloat-abi=hard", "dsp mve"),
        Target(
            "rv32imc",
            "RISC-V RV32IMC",
            frozenset(),
            "riscv64-unknown-elf-gcc",
            ("-march=rv32imc", "-misa-spec=2.2", "-mabi=ilp32", "--specs=picolibc.specs"),
        ),
    )
}
"""Every target by the name that --target takes."""
