"""The boards that examples are made for, as rows of data; an emulator stands for each."""

from __future__ import annotations

from dataclasses import dataclass

from qcgen.cores import TARGETS, Machine, Target


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
