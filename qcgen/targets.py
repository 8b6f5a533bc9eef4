"""The targets: what each core can do, how code for it is built and which emulated machine runs it, as rows of data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Memory:
    """A range of addresses."""

    begin: int
    bytes: int


@dataclass(frozen=True)
class Machine:
    """An emulated machine: the ``emulator`` with its ``arguments``, where code and data go, the file that starts it.

    ``library`` is a file that the compiler finds if the C library is there. ``packages`` names the Debian package of
    each tool and of the library.
    """

    emulator: str
    arguments: tuple[str, ...]
    rom: Memory
    ram: Memory
    startup: str
    library: str
    packages: Mapping[str, str]


@dataclass(frozen=True)
class Target:
    """A core: ``features`` that kernels ask for, ``compiler`` and ``flags`` that build for it.

    Features: "dsp" and "mve" are Arm's extensions for two and sixteen bytes at a time. A "scalar" core computes one
    product at a time, so that two in the halves of a word pay; "multiply-add" says that it adds in the same
    instruction. "no-wide-product": products of 64 bits are function calls.

    ``isa`` is the instruction set of a scalar core, of which its kernels have some assembly: "armv6-m", "armv7-m" or
    "rv32m"; "" where none has.

    ``clang`` are the flags for clang, which then replaces the compiler, but not the linker. ``machine`` is None where
    no emulator is needed.
    """

    name: str
    description: str
    features: frozenset[str]
    compiler: str
    flags: tuple[str, ...]
    clang: tuple[str, ...] = ()
    machine: Machine | None = None
    isa: str = ""

    @property
    def tools(self) -> str:
        """What the names of the compiler's companions start with: "arm-none-eabi-"."""
        return self.compiler.removesuffix("gcc")


MEBI = 2**20

_ARM_PACKAGES = {
    "arm-none-eabi-gcc": "gcc-arm-none-eabi",
    "arm-none-eabi-objdump": "binutils-arm-none-eabi",
    "arm-none-eabi-addr2line": "binutils-arm-none-eabi",
    "libc.a": "libnewlib-arm-none-eabi",
    "qemu-system-arm": "qemu-system-arm",
    "clang": "clang",
}

_RISCV_PACKAGES = {
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf",
    "riscv64-unknown-elf-objdump": "binutils-riscv64-unknown-elf",
    "riscv64-unknown-elf-addr2line": "binutils-riscv64-unknown-elf",
    "picolibc.specs": "picolibc-riscv64-unknown-elf",
    "qemu-system-riscv32": "qemu-system-misc",
    "clang": "clang",
}


def _arm_machine(board: str, rom: Memory, ram: Memory) -> Machine:
    return Machine("qemu-system-arm", ("-M", board), rom, ram, "cortex_m.c", "libc.a", _ARM_PACKAGES)


_LOW = Memory(0x00000000, 4 * MEBI)
_SRAM = Memory(0x20000000, 4 * MEBI)
_AN385 = _arm_machine("mps2-an385", _LOW, _SRAM)  # a Cortex-M3, which runs the code of a Cortex-M0, too
_AN386 = _arm_machine("mps2-an386", _LOW, _SRAM)
_AN500 = _arm_machine("mps2-an500", _LOW, _SRAM)
_AN505 = _arm_machine("mps2-an505", Memory(0x10000000, 4 * MEBI), Memory(0x38000000, 4 * MEBI))
_AN547 = _arm_machine("mps3-an547", Memory(0x10000000, MEBI // 2), Memory(0x31000000, 4 * MEBI))
_VIRT = Machine(
    "qemu-system-riscv32",
    ("-M", "virt", "-bios", "none"),
    Memory(0x80000000, 16 * MEBI),
    Memory(0x81000000, 16 * MEBI),
    "riscv.c",
    "picolibc.specs",
    _RISCV_PACKAGES,
)


def _cortex_m(name: str, core: str, machine: Machine, flags: str, features: str = "", isa: str = "") -> Target:
    own = (f"-mcpu={name}", "-mthumb", *flags.split())
    # Bare-metal clang avoids unaligned words, which these cores can read, and keeps r7 for frames, unless it is told.
    told = ("-fomit-frame-pointer", *(() if name == "cortex-m0" else ("-munaligned-access",)))
    return Target(
        name,
        f"Arm {core}",
        frozenset(features.split()),
        "arm-none-eabi-gcc",
        own,
        ("--target=arm-none-eabi", *own, *told),
        machine,
        isa,
    )


TARGETS = {
    target.name: target
    for target in (
        Target("portable", "any core, C99", frozenset(), "cc", ()),
        _cortex_m("cortex-m0", "Cortex-M0", _AN385, "-mfloat-abi=soft", "scalar no-wide-product", "armv6-m"),
        _cortex_m("cortex-m3", "Cortex-M3", _AN385, "-mfloat-abi=soft", "scalar multiply-add", "armv7-m"),
        _cortex_m("cortex-m4", "Cortex-M4", _AN386, "-mfloat-abi=hard -mfpu=fpv4-sp-d16", "dsp"),
        _cortex_m("cortex-m7", "Cortex-M7", _AN500, "-mfloat-abi=hard -mfpu=fpv5-sp-d16", "dsp"),
        _cortex_m("cortex-m33", "Cortex-M33", _AN505, "-mfloat-abi=hard -mfpu=fpv5-sp-d16", "dsp"),
        _cortex_m("cortex-m55", "Cortex-M55", _AN547, "-mfloat-abi=hard", "dsp mve"),
        Target(
            "rv32imc",
            "RISC-V RV32IMC",
            frozenset({"scalar"}),
            "riscv64-unknown-elf-gcc",
            ("-march=rv32imc", "-misa-spec=2.2", "-mabi=ilp32", "--specs=picolibc.specs"),
            ("--target=riscv32-unknown-elf", "-march=rv32imc", "-mabi=ilp32"),
            _VIRT,
            "rv32m",
        ),
    )
}
"""Every target by the name that --target takes."""

EMULATED = tuple(name for name, target in TARGETS.items() if target.machine)
"""The targets that an emulated core runs."""
