"""The targets: what each core can do, how code for it is built and which emulated machine runs it, as rows of data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


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
class CycleTable:
    """Cycles per class of instruction; ``source`` says where they are from and what they leave out.

    ``load`` and ``store`` move one register; such a load costs ``load_in_row`` behind another whose result it does not
    take as an address. ``late_address`` is added to what addresses memory by the result of the instruction before, if
    that does not access memory itself. ``transfer_start`` + ``transfer_each`` per register: LDM, STM, PUSH, POP, LDRD,
    STRD and the like. ``jump`` is added whenever a branch is taken, a function called or left; for conditional branches
    ``taken`` instead, and ``repeated`` if the last jump back was the same, where they are given. ``late_load`` is added
    to an instruction that computes with what the one before it loaded, ``late_store`` to one that stores it;
    ``late_result`` to one that takes what the one before it multiplied, saturated or computed with a shifted operand;
    ``unaligned`` to a jump to an instruction of four bytes that lies across two words. A store whose offset is a
    register costs ``store_indexed`` if that is given, unless it is behind a load, and a load behind a load that moves
    its address ``load_update``.
    ``is_upper_bound``: the core is known to take fewer.
    """

    source: str
    plain: int = 1
    load: int = 2
    load_in_row: int = 1
    store: int = 1
    late_address: int = 1
    transfer_start: int = 1
    transfer_each: int = 1
    multiply: int = 1
    accumulate: int = 1
    long_multiply: int = 1
    long_accumulate: int = 1
    divide: int = 6
    root: int = 14
    vector: int = 1
    jump: int = 2
    taken: int | None = None
    repeated: int | None = None
    late_load: int = 0
    late_store: int = 0
    late_result: int = 0
    store_indexed: int | None = None
    load_update: int | None = None
    unaligned: int = 0
    is_upper_bound: bool = False


CONSTANT_TIME = "constant-time"
"""A feature that ``Target.with_constant_time`` adds: kernels then take the same steps for every input."""

BRANCHLESS = "branchless"
"""It adds this one where compilers choose by branches: bounds are then computed."""


@dataclass(frozen=True)
class Target:
    """A core: ``features`` that kernels ask for, ``compiler`` and ``flags`` that build for it.

    Features: "dsp" and "mve" are Arm's extensions for two and sixteen bytes at a time. A "scalar" core computes one
    product at a time, so that two in the halves of a word pay; "multiply-add" says that it adds in the same
    instruction. "no-wide-product": products of 64 bits are function calls. "byte-dot": an instruction adds four
    products of bytes to each of many sums (VNNI on x86, SDOT on AArch64); the C asks the compiler whether it has one.

    ``isa`` is the instruction set of a scalar core, of which its kernels have some assembly: "armv6-m" (ARMv8-M
    baseline, too), "armv7-m" or "rv32m"; "" where none has. ``registers`` are those that its arithmetic takes operands
    from, less what compilers keep for themselves: kernels choose by it how much they compute at the same time.

    ``clang`` are the flags for clang, which then replaces the compiler, but not the linker. ``machine`` is None where
    no emulator is needed; ``cycles`` are those of the core that is emulated. ``loop_bytes`` is what a
    loop that runs again for every pixel may take with --optimize speed. ``constant_wait``: the cycles that its boards
    wait for a byte of constants in flash, about; a copy in RAM of what is read again and again saves them.
    ``priced_as``: the core whose kernels' prices it takes (``qcgen/plan/measured.csv``), where its own are not known.
    """

    name: str
    description: str
    features: frozenset[str]
    compiler: str
    flags: tuple[str, ...]
    clang: tuple[str, ...] = ()
    machine: Machine | None = None
    isa: str = ""
    registers: int = 13
    cycles: CycleTable = CycleTable("not published")
    loop_bytes: int = 3200
    constant_wait: float = 0.0
    priced_as: str = ""

    @property
    def chooses_without_branches(self) -> bool:
        """Whether ``a < b ? a : b`` is as many instructions whatever the numbers are; known of Thumb's second set."""
        return self.reads_words_anywhere and "mve" not in self.features

    @property
    def with_constant_time(self) -> Target:
        """The same, for code that takes as many instructions for every input."""
        own = {CONSTANT_TIME} if self.chooses_without_branches else {CONSTANT_TIME, BRANCHLESS}
        return replace(self, features=self.features | own)

    @property
    def is_small(self) -> bool:
        """Whether it is a certain microcontroller, for whose few registers code is planned."""
        return bool(self.features) and "byte-dot" not in self.features

    @property
    def has_fpu(self) -> bool:
        """Whether it has instructions for float32."""
        return "-mfloat-abi=hard" in self.flags or "byte-dot" in self.features

    @property
    def reads_words_anywhere(self) -> bool:
        """Whether it reads words that are not aligned: memcpy moves four bytes at a time."""
        return self.isa == "armv7-m" or not self.features.isdisjoint({"dsp", "mve"})

    @property
    def instructions(self) -> tuple[str, ...]:
        """Macros of compilers for the instructions of the host, one of which the C needs to do more than portable C."""
        return ("__AVX512VNNI__", "__AVXVNNI__", "__ARM_FEATURE_DOTPROD") if "byte-dot" in self.features else ()

    @property
    def weaker(self) -> tuple[str, ...]:
        """Conditions of the preprocessor under which the core compiled for lacks what this one has.

        They hold on microcontrollers only, so that the same file builds on a desktop.
        """
        needed = next((feature for feature in ("mve", "dsp") if feature in self.features), self.isa)
        return (_AVR, *_LACKS.get(needed, ())) if self.is_small else ()

    @property
    def tools(self) -> str:
        """What the names of the compiler's companions start with: "arm-none-eabi-"."""
        return self.compiler.removesuffix("gcc")


_AVR = "defined(__AVR__)"
_RV32 = "defined(__riscv) && __riscv_xlen == 32"
_LACKS = {
    "mve": ("__ARM_ARCH_PROFILE == 'M' && !defined(__ARM_FEATURE_MVE)", _RV32),
    "dsp": ("__ARM_ARCH_PROFILE == 'M' && !defined(__ARM_FEATURE_SIMD32)", _RV32),
    "armv7-m": ("__ARM_ARCH_PROFILE == 'M' && !defined(__thumb2__)",),
    "rv32m": ("defined(__riscv) && !defined(__riscv_mul)",),
}
"""Conditions under which a microcontroller lacks a feature or an instruction set."""

MEBI = 2**20

_LOOP_BYTES = 800
"""Where common boards have an instruction cache of 1 KB: docs/decisions/0026-loops-that-fit-the-cache.md."""

_CONSTANT_WAIT = 0.3
"""Of the boards with a Cortex-M4 that BOARDS knows, the STM32F407 waits so long, the STM32L4R5 twice as long."""

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


_M0_CYCLES = CycleTable(
    "Cortex-M0 Technical Reference Manual (DDI 0432C), table 3-1, with the one-cycle multiplier: no pair of "
    "instructions waits",
    load_in_row=2,
    store=2,
    late_address=0,
)
_M3_CYCLES = CycleTable(
    "Cortex-M3 Technical Reference Manual (DDI 0337I), table 3-1 and page 3-9, load/store timings; long products in "
    "the middle of their range",
    accumulate=2,
    long_multiply=4,
    long_accumulate=6,
    store_indexed=2,
    load_update=2,
)
_M4_CYCLES = CycleTable(
    "Cortex-M4 Technical Reference Manual (DDI 0439), table 3-1, and load/store timings; addresses count as aligned, "
    "divisions take 6 cycles",
    store_indexed=2,
)
# LLVM's model (ARMScheduleM7.td) lets words be used in the next cycle, and bytes, halves, addresses and shifted
# operands one later. Each run of loads costs a cycle more here, which covers that.
_M7_CYCLES = replace(
    _M4_CYCLES,
    source="not published: the Cortex-M4's, an upper bound, since a Cortex-M7 issues two at a time",
    is_upper_bound=True,
)
_M23_CYCLES = replace(_M0_CYCLES, source="not published: the Cortex-M0's, with the one-cycle multiplier")
_M33_CYCLES = replace(_M4_CYCLES, source="not published: the Cortex-M4's")
_M55_CYCLES = replace(
    _M4_CYCLES,
    source="not published: the Cortex-M4's, late results by LLVM's model (ARMScheduleM55.td), and two cycles per "
    "Helium instruction, an upper bound, since they overlap",
    vector=2,
    late_result=1,
    is_upper_bound=True,
)
_M85_CYCLES = replace(
    _M55_CYCLES, source="not published: the Cortex-M55's, an upper bound, since a Cortex-M85 issues two at a time"
)
_RTL = "measured on the core's RTL: docs/benchmarks.md; memory that answers in the next cycle"
_IBEX = CycleTable(
    f"Ibex, configuration maxperf; {_RTL}",
    load=1,
    late_address=0,
    long_multiply=2,
    divide=37,
    jump=1,
    late_load=1,
    late_store=1,
    unaligned=1,
)
_IBEX_SMALL = replace(
    _IBEX,
    source=f"Ibex, configuration small; {_RTL}",
    load=2,
    load_in_row=2,
    store=2,
    multiply=3,
    long_multiply=4,
    taken=2,
    late_load=0,
    late_store=0,
)
_CV32E40P = replace(
    _IBEX, source=f"CV32E40P; {_RTL}; divisions in the middle of their range", long_multiply=5, divide=28, taken=2
)
_HAZARD3 = replace(
    _IBEX,
    source="Hazard3 as in the RP2350, measured on its RTL outside this project; memory that answers in the next cycle",
    long_multiply=1,
    divide=19,
    repeated=0,
    late_store=0,
)

RISCV_CORES = {"ibex": _IBEX, "ibex-small": _IBEX_SMALL, "cv32e40p": _CV32E40P, "hazard3": _HAZARD3}
"""Cores that run the code of rv32imc; the first stands for those that are not named."""


def _thumb1(name: str, core: str, machine: Machine, cycles: CycleTable) -> Target:
    """A core with eight registers: Thumb's first instruction set."""
    features = frozenset({"scalar", "no-wide-product"})
    return replace(
        _cortex_m(name, core, machine, "-mfloat-abi=soft", cycles), features=features, isa="armv6-m", registers=8
    )


def _cortex_m(
    name: str,
    core: str,
    machine: Machine,
    flags: str,
    cycles: CycleTable,
    features: str = "",
    isa: str = "",
    cpu: str = "",
) -> Target:
    """``cpu`` is what compilers call a core like it, where they do not know its own name."""
    own = (f"-mcpu={cpu or name}", "-mthumb", *flags.split())
    # Bare-metal clang avoids unaligned words, which these cores can read, and keeps r7 for frames, unless it is told.
    told = ("-fomit-frame-pointer", *(("-munaligned-access",) if features or isa else ()))
    return Target(
        name,
        f"Arm {core}",
        frozenset(features.split()),
        "arm-none-eabi-gcc",
        own,
        ("--target=arm-none-eabi", *own, *told),
        machine,
        isa,
        cycles=cycles,
    )


_M55 = _cortex_m("cortex-m55", "Cortex-M55", _AN547, "-mfloat-abi=hard", _M55_CYCLES, "dsp mve")
_M3 = _cortex_m("cortex-m3", "Cortex-M3", _AN385, "-mfloat-abi=soft", _M3_CYCLES, "scalar multiply-add", "armv7-m")
_HARD, _FPV5 = "-mfloat-abi=hard -mfpu=fpv4-sp-d16", "-mfloat-abi=hard -mfpu=fpv5-sp-d16"

TARGETS = {
    target.name: target
    for target in (
        Target("portable", "any core, C99", frozenset(), "cc", (), priced_as="cortex-m3"),
        Target(
            "host",
            "x86-64 with VNNI, AArch64",
            frozenset({"byte-dot"}),
            "cc",
            ("-march=native",),
            priced_as="cortex-m3",
        ),
        _thumb1("cortex-m0", "Cortex-M0", _AN385, _M0_CYCLES),
        replace(_thumb1("cortex-m23", "Cortex-M23", _AN505, _M23_CYCLES), priced_as="cortex-m0"),
        _M3,
        replace(
            _cortex_m("cortex-m4", "Cortex-M4", _AN386, _HARD, _M4_CYCLES, "dsp"),
            loop_bytes=_LOOP_BYTES,
            constant_wait=_CONSTANT_WAIT,
        ),
        replace(_cortex_m("cortex-m7", "Cortex-M7", _AN500, _FPV5, _M7_CYCLES, "dsp"), priced_as="cortex-m4"),
        replace(_cortex_m("cortex-m33", "Cortex-M33", _AN505, _FPV5, _M33_CYCLES, "dsp"), priced_as="cortex-m4"),
        _M55,
        replace(
            _cortex_m("cortex-m85", "Cortex-M85", _AN547, "-mfloat-abi=hard", _M85_CYCLES, "dsp mve", cpu=_M55.name),
            priced_as=_M55.name,
        ),
        Target(
            "rv32imc",
            "RISC-V RV32IMC",
            frozenset({"scalar"}),
            "riscv64-unknown-elf-gcc",
            ("-march=rv32imc", "-misa-spec=2.2", "-mabi=ilp32", "--specs=picolibc.specs"),
            ("--target=riscv32-unknown-elf", "-march=rv32imc", "-mabi=ilp32"),
            _VIRT,
            "rv32m",
            26,
            _IBEX,
        ),
        # A Cortex-M3 stands for it: its registers are as few as those of Xtensa and of older Arm cores.
        replace(
            _M3,
            name="scalar32",
            description="any 32-bit core, C99",
            features=frozenset({"scalar"}),
            isa="",
            priced_as=_M3.name,
        ),
    )
}
"""Every target by the name that --target takes."""

EMULATED = tuple(name for name, target in TARGETS.items() if target.machine)
"""The targets that an emulated core runs."""


@dataclass(frozen=True)
class Cache:
    """``bytes`` in sets of ``ways`` lines of code or words of constants; none if 0."""

    bytes: int = 0
    ways: int = 0


@dataclass(frozen=True)
class Board:
    """A microcontroller whose flash is slower than its core, at a clock; ``source`` says where the figures are from.

    A read of ``word_bytes`` takes ``wait_states`` more than one cycle; code is read in lines of ``line_bytes``, their
    first word so, the others one a cycle. ``has_prefetch``: the line behind the one that runs is read ahead.
    ``is_unified``: the cache of code holds constants, too, in lines. ``cores`` are the targets that it may stand for.
    """

    name: str
    cores: tuple[str, ...]
    megahertz: int
    wait_states: int
    word_bytes: int
    line_bytes: int
    code: Cache
    data: Cache
    source: str
    has_prefetch: bool = True
    is_unified: bool = False


BOARDS = {
    board.name: board
    for board in (
        Board(
            "stm32l4r5", ("cortex-m4",), 120, 5, 8, 32, Cache(1024, 32), Cache(256, 32),
            "RM0432 section 3.3, read access latency and ART accelerator; flash words as with two banks (DBANK = 1)",
        ),
        Board(
            "stm32f407", ("cortex-m4",), 168, 5, 16, 16, Cache(1024, 64), Cache(128, 8),
            "RM0090 sections 3.2 and 3.5, read access latency at 2.7 to 3.6 V and ART accelerator",
        ),
        Board(
            "stm32g071", ("cortex-m0",), 64, 2, 8, 8, Cache(16, 2), Cache(),
            "RM0444 section 3.3, read access latency in range 1, prefetch and instruction cache of two lines",
        ),
        # 8 address and mode, 4 dummy and 16 data clocks of the serial flash, each of two cycles.
        Board(
            "rp2040", ("cortex-m0",), 125, 55, 8, 8, Cache(16384, 2), Cache(),
            "RP2040 datasheet section 2.6.3, XIP cache; quad reads of W25Q flash at half the core's clock",
            has_prefetch=False, is_unified=True,
        ),
        # Five cycles of a bus at half the core's clock; what bus and caches add is not known.
        Board(
            "stm32h743", ("cortex-m7",), 480, 9, 32, 32, Cache(16384, 2), Cache(16384, 4),
            "RM0433 section 4.3, read latency at 240 MHz of AXI; Cortex-M7 TRM, caches; RAM is DTCM",
            has_prefetch=False,
        ),
        # 8 command, 8 address and mode, 4 dummy and 64 data clocks of the serial flash, each of two cycles.
        Board(
            "esp32c3", ("rv32imc",), 160, 167, 32, 32, Cache(16384, 8), Cache(),
            "ESP32-C3 datasheet section 3.1, cache; quad reads of flash at 80 MHz",
            has_prefetch=False, is_unified=True,
        ),
    )
}  # fmt: skip
"""Every board that bench knows by its name. Caches count as fully associative where the manual names no sets."""


def boards_of(target: str, name: str | None = None) -> list[Board]:
    """The boards that a target may stand on, or the one that is named; ValueError if that has another core."""
    if name is not None and name not in BOARDS:
        raise ValueError(f"board must be one of {', '.join(BOARDS)}, not {name!r}")
    boards = [board for board in BOARDS.values() if target in board.cores and name in (None, board.name)]
    if name is not None and not boards:
        raise ValueError(f"the core of {name} is not a {target}")
    return boards
