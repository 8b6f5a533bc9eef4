"""Exact counts of the instructions that a model executes on an emulated core, node by node, with estimated cycles."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.build import host_compiler
from qcgen.cores import TARGETS, Board, CycleTable, Target
from qcgen.cross import lasting_folder, machine_of, qemu_major, require_tools, succeed, temporary_folder
from qcgen.emulate.cycles import CYCLES, block_cycles, entry_cycles, jump_cycles, late_cycles
from qcgen.emulate.image import EmulatedOutcome, Image, Trial, cross_build, emulate
from qcgen.emulate.listing import OUTSIDE, SHARED, Instruction, Listing, listing
from qcgen.errors import EmulationFailed, naming
from qcgen.ir.program import macs_of
from qcgen.ir.types import Array
from qcgen.library import templates
from qcgen.options import spelt
from qcgen.progress import report_progress

# The QEMU plugin that counts: built from its source, once in a process.

SOURCE = "count_blocks.c"


@cache
def plugin(emulator: str) -> Path:
    """The plugin for this emulator, in a folder that is removed when the process ends.

    ToolMissing without a C compiler for the host.
    """
    interface = 2 if qemu_major(emulator) >= 9 else 1
    command = [*host_compiler(), "-O2", "-shared", "-fPIC", f"-DQEMU_PLUGIN_VERSION={interface}"]
    command += ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    # Nothing is kept from run to run: building takes less than half a second, and what lies there need not be trusted.
    folder = lasting_folder()
    built = folder / "count_blocks.so"
    succeed([*command, str(templates() / "emulate" / SOURCE), "-o", built.name], folder)
    return built


BEGIN, END = "_measure_begin", "_measure_end"


@dataclass(frozen=True)
class Block:
    """A straight run of instructions from the address ``first`` on, run ``runs`` times for ``owner``.

    After ``jumps`` of the runs the core did not go on behind it; after ``repeats`` of those it went back from where the
    last jump back did. To ``entries`` of the runs a jump led.
    """

    first: int
    instructions: int
    owner: int
    runs: int
    jumps: int
    repeats: int
    entries: int


@dataclass(frozen=True)
class Cost:
    """Executed ``instructions``, estimated ``cycles`` without wait states, and ``code_bytes`` in flash.

    ``waits``: by the name of a board how many cycles it waits for flash besides.
    """

    instructions: int
    cycles: int
    code_bytes: int
    waits: Mapping[str, int] = field(kw_only=True, default_factory=dict)


@dataclass(frozen=True)
class NodeCost(Cost):
    """One node: library code that it calls is counted in ``instructions`` and ``cycles``, not in ``code_bytes``."""

    name: str
    op: str
    kernel: str
    macs: int
    constant_bytes: int
    scratch_bytes: int

    @property
    def flash_bytes(self) -> int:
        """The node's own code and constants."""
        return self.code_bytes + self.constant_bytes


@dataclass(frozen=True, repr=False)
class Measurement:
    """One call of a model on a core, built with ``command``, with ``outcome``; cycles are estimated by ``table``.

    ``outside``: the call itself and NAME_run between its nodes. ``library_bytes``: code that several nodes or the C
    library share. ``flash_bytes``: all code and constants that the model brings into an image.
    """

    target: str
    table: CycleTable
    command: tuple[str, ...]
    nodes: tuple[NodeCost, ...]
    outside: Cost
    library_bytes: int
    flash_bytes: int
    arena_bytes: int
    outcome: EmulatedOutcome

    def __repr__(self) -> str:
        what = f"{self.instructions} instructions, about {self.cycles} cycles, {self.flash_bytes} B of flash"
        return f"<qcgen.Measurement on {self.target}: {what}>"

    @cached_property
    def instructions(self) -> int:
        """From the call of NAME_run to its return."""
        return self.outside.instructions + sum(node.instructions for node in self.nodes)

    @cached_property
    def cycles(self) -> int:
        """The estimate for all instructions, without wait states."""
        return self.outside.cycles + sum(node.cycles for node in self.nodes)

    @property
    def boards(self) -> tuple[str, ...]:
        """The boards that were modelled."""
        return tuple(self.outside.waits)

    def cycles_on(self, board: str) -> int:
        """The estimate for a board that was modelled, waits for flash included."""
        return self.cycles + sum(cost.waits[board] for cost in (self.outside, *self.nodes))

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of all nodes."""
        return sum(node.macs for node in self.nodes)


COUNTED_FLAGS = {"gcc": ("-g", "-fno-ipa-icf"), "clang": ("-g",)}
"""Flags by the compiler's name, for code whose instructions are counted by function: debugging information has those
that were inlined, and gcc would make one of two functions that are alike."""


def measure(
    artifact: Artifact,
    feeds: Mapping[str, Array],
    *,
    flags: Sequence[str] = ("-O3",),
    compiler: str = "gcc",
    timeout: float | None = None,
    boards: Sequence[Board] = (),
    core: str | None = None,
    table: CycleTable | None = None,
) -> Measurement:
    """Builds a model for its target and counts one call with ``feeds``, in the shapes of the C function.

    The waits for flash are modelled for each of ``boards``, from empty caches on. ``core`` names the target that builds
    and runs it where that is not its own: portable C on some core. ``table`` is that of the core whose cycles are
    estimated where it is not the target's own.

    Raises ToolMissing, and EmulationFailed if the code faults or does not end.
    """
    name = core or artifact.plan.options.target
    cycles = table or CYCLES[name]
    require_tools(TARGETS[name], compiler, counting=True)
    with temporary_folder() as folder:
        report_progress(f"building for {name}")
        image = cross_build(name, [artifact], (*flags, *COUNTED_FLAGS[compiler]), Path(folder), compiler)
        listed = listing(image, artifact.plan)
        report_progress(f"running on an emulated {name}")
        [outcome] = emulate(image, [Trial(feeds)], plugin=counting(image, listed, cycles, boards), timeout=timeout)
        if outcome.status:
            what = "the function returns 1, as Orion panics on these inputs"
            raise EmulationFailed(f"{what}: count others with {spelt('seed')}")
        text = (image.folder / "counts.txt").read_text(encoding="utf-8")
        return _measurement(artifact, image, listed, cycles, read_blocks(text), _read_waits(text, boards), outcome)


def counting(image: Image, listed: Listing, table: CycleTable, boards: Sequence[Board]) -> list[str]:
    """The emulator's arguments that load the plugin."""
    code = list(listed.instructions.values())
    lines = [
        f"{each.address:x} {each.bytes} {listed.owners[each.address]} {cycles}\n"
        for each, cycles in zip(code, block_cycles(table, code), strict=True)
    ]
    rows = [f"{_board_row(image.target, board, table.jump)}\n" for board in boards]
    for name, text in (("code.txt", lines), ("flash.txt", rows)):
        with naming(image.folder / name):
            (image.folder / name).write_text("".join(text), encoding="utf-8")
    library = plugin(machine_of(image.target).emulator)
    options = {
        "begin": f"{listed.symbols[BEGIN].address:x}",
        "end": f"{listed.symbols[END].address:x}",
        "code": "code.txt",
        "out": "counts.txt",
        "flash": "flash.txt",
    }
    return [
        "-plugin",
        ",".join([str(library).replace(",", ",,"), *(f"{key}={value}" for key, value in options.items())]),
    ]


def _board_row(target: Target, board: Board, jump: int) -> str:
    """A board as the plugin reads it: the emulated machine's ROM is its flash."""
    rom = machine_of(target).rom
    numbers = [board.wait_states, board.word_bytes, board.line_bytes, int(board.has_prefetch), int(board.is_unified)]
    numbers += [board.code.bytes, board.code.ways, board.data.bytes, board.data.ways, jump]
    return " ".join([f"{rom.begin:x} {rom.begin + rom.bytes:x}", *(str(number) for number in numbers)])


def read_blocks(text: str) -> list[Block]:
    """What the plugin wrote."""
    blocks = []
    for line in text.splitlines():
        first, *numbers = line.split()
        if first != "waits":
            blocks.append(Block(int(first, 16), *(int(number) for number in numbers)))
    return blocks


def _read_waits(text: str, boards: Sequence[Board]) -> dict[int, dict[str, int]]:
    """For each owner the waits by board."""
    waits: dict[int, dict[str, int]] = {}
    for line in text.splitlines():
        if line.startswith("waits "):
            index, owner, cycles = (int(number) for number in line.split()[1:])
            waits.setdefault(owner, {})[boards[index].name] = cycles
    return waits


def _measurement(
    artifact: Artifact,
    image: Image,
    listed: Listing,
    table: CycleTable,
    blocks: Sequence[Block],
    waits: Mapping[int, Mapping[str, int]],
    outcome: EmulatedOutcome,
) -> Measurement:
    plan = artifact.plan
    instructions, cycles = [0] * (len(plan.calls) + 1), [0] * (len(plan.calls) + 1)
    for block in blocks:
        for owner, (executed, taken) in _shares(table, listed, block).items():
            instructions[owner] += executed
            cycles[owner] += taken
    nodes = tuple(
        NodeCost(
            instructions=instructions[index],
            cycles=cycles[index],
            code_bytes=listed.code_bytes(index),
            name=call.op.name,
            op=call.op.op_type,
            kernel=call.kernel,
            macs=macs_of(call.op),
            constant_bytes=listed.constant_bytes(call.symbol),
            scratch_bytes=call.scratch_bytes,
            waits=waits.get(index, {}),
        )
        for index, call in enumerate(plan.calls, start=1)
    )
    return Measurement(
        target=image.target.name,
        table=table,
        command=image.command,
        nodes=nodes,
        outside=Cost(instructions[OUTSIDE], cycles[OUTSIDE], listed.code_bytes(OUTSIDE), waits=waits.get(OUTSIDE, {})),
        library_bytes=listed.code_bytes(SHARED),
        flash_bytes=listed.flash_bytes,
        arena_bytes=plan.arena_bytes,
        outcome=outcome,
    )


def _shares(table: CycleTable, listed: Listing, block: Block) -> dict[int, tuple[int, int]]:
    """Instructions and cycles of a block by owner; code that is shared counts for whom it ran."""
    run = run_of(listed, block)
    owners = [listed.owners[each.address] for each in run]
    charged = [block.owner if owner == SHARED else owner for owner in owners]
    shares: dict[int, tuple[int, int]] = {}
    for owner, cost in zip(charged, block_cycles(table, run), strict=True):
        executed, taken = shares.get(owner, (0, 0))
        shares[owner] = (executed + block.runs, taken + block.runs * cost)
    passed = block.runs - block.entries  # runs behind the instruction before
    entered = block.entries * entry_cycles(table, run[0]) + passed * late_cycles(table, listed.before(run[0]), run[0])
    left = jump_cycles(table, run[-1], block.jumps, block.repeats)
    for owner, cost in ((charged[0], entered), (charged[-1], left)):
        shares[owner] = (shares[owner][0], shares[owner][1] + cost)
    return shares


def run_of(listed: Listing, block: Block) -> list[Instruction]:
    """A block's instructions."""
    found, address = [], block.first
    for _ in range(block.instructions):
        found.append(listed.instructions[address])
        address += found[-1].bytes
    return found
