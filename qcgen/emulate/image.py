"""Generated code as the image of an emulated machine: compiled, linked with a driver, run, its failures explained."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qcgen.artifact import Artifact
from qcgen.cores import TARGETS, Machine, Target
from qcgen.cross import compile_command, machine_of, require_tools, run, succeed
from qcgen.errors import EmulationFailed, ToolMissing, naming
from qcgen.ir.plan import Plan, Port
from qcgen.ir.types import Array
from qcgen.library import templates
from qcgen.render.model import accessors

ELF = "image.elf"
STARTUP, DRIVER, MODELS = "_startup.o", "_driver.o", "_models.h"  # no model's prefix starts with an underscore

# The driver's loops must not become calls of memset: only what the model needs may be linked from the C library.
_DRIVER_FLAGS = ("-std=gnu99", "-O2", "-Wall", "-Wextra", "-fno-tree-loop-distribute-patterns", "-fno-common")

_INCLUDE_PATHS = re.compile(r"#include <\.\.\.> search starts here:\n(.*?)End of search list", re.DOTALL)


@dataclass(frozen=True)
class Image:
    """``image.elf`` in ``folder`` with these models; ``command`` compiled the first of them."""

    folder: Path
    target: Target
    artifacts: tuple[Artifact, ...]
    command: tuple[str, ...]


def cross_build(
    target_name: str,
    artifacts: Sequence[Artifact],
    flags: Sequence[str],
    folder: Path,
    compiler: str = "gcc",
    *,
    keeps_relocations: bool = False,
) -> Image:
    """Builds the models, whose prefixes differ, for a target; ToolMissing if a tool is missing or fails.

    ``compiler`` is gcc or clang; ``flags`` are added to those of the target. ``keeps_relocations``: the
    image says where the linker wrote addresses.
    """
    target = TARGETS[target_name]
    require_tools(target, compiler)
    for artifact in artifacts:
        artifact.write(folder)
    command = compile_command(target, flags, compiler)
    sources = [f"{artifact.plan.prefix}.c" for artifact in artifacts]
    succeed([*command, *c_library(target, compiler), *sources], folder)
    _link(target, [artifact.plan for artifact in artifacts], folder, ["-Wl,--emit-relocs"] if keeps_relocations else [])
    return Image(folder, target, tuple(artifacts), (*command, sources[0]))


def _link(target: Target, plans: Sequence[Plan], folder: Path, options: Sequence[str]) -> None:
    machine = machine_of(target)
    with naming(folder / MODELS):
        (folder / MODELS).write_text(models_header(plans), encoding="utf-8")
    sources = templates() / "emulate"
    for source, name in ((machine.startup, STARTUP), ("driver.c", DRIVER)):
        command = [target.compiler, *target.flags, *_DRIVER_FLAGS, "-I.", f"-I{sources}", "-c", str(sources / source)]
        succeed([*command, "-o", name], folder)
    objects = [STARTUP, DRIVER, *(f"{plan.prefix}.o" for plan in plans)]
    script = ["-nostartfiles", *options, "-T", str(sources / "memory.ld"), *_memory_symbols(machine)]
    succeed([target.compiler, *target.flags, *script, *objects, "-lm", "-o", ELF], folder)


def _memory_symbols(machine: Machine) -> list[str]:
    rom, ram = machine.rom, machine.ram
    values = {"ROM_BEGIN": rom.begin, "ROM_BYTES": rom.bytes, "RAM_BEGIN": ram.begin, "RAM_BYTES": ram.bytes}
    return [f"-Wl,--defsym={name}={value:#x}" for name, value in values.items()]


def models_header(plans: Sequence[Plan]) -> str:
    """The text that the driver includes: the type of a model, the table of all, the most tensors that one has."""
    lines = ["#include <string.h>", *(f'#include "{plan.prefix}.h"' for plan in plans)]
    lines += ["struct port { uint32_t bytes, align; int is_output; };"]
    lines += ["typedef void function(void *const *tensors, void *arena);"]
    lines += ["uint32_t _status; /* what the last call returned of those that return anything */"]
    lines += ["struct model {", "    const char *name;", "    function *put, *call, *get;"]
    lines += ["    const struct port *port;", "    uint32_t ports, arena_bytes, arena_align;", "};"]
    for index, plan in enumerate(plans):
        lines += [f"static {p.tensor.dtype.c} {_lent(plan, p)}[{p.tensor.size}];" for p in plan.lent]
        for name, statements in (
            ("put", _copies(plan, "input")),
            ("call", [_call(plan)]),
            ("get", _copies(plan, "output")),
        ):
            body = " ".join(["(void)tensors;", "(void)arena;", *statements])
            lines.append(f"static void {name}_{index}(void *const *tensors, void *arena) {{ {body} }}")
        lines.append(f"static const struct port ports_{index}[] = {{ {', '.join(_ports(plan))} }};")
    lines.append("static const struct model MODELS[] = {")
    for index, plan in enumerate(plans):
        macro = plan.prefix.upper()
        sizes = f"{len(_ports(plan))}, {macro}_ARENA_BYTES, {macro}_ARENA_ALIGN"
        functions = f"put_{index}, call_{index}, get_{index}"
        lines.append(f'    {{ "{plan.prefix}", {functions}, ports_{index}, {sizes} }},')
    most = max(len(_ports(plan)) for plan in plans)
    return "\n".join([*lines, "};", f"enum {{ MAX_PORTS = {most} }};", ""])


def _call(plan: Plan) -> str:
    """The call of the C function on tensors that do not lie in the arena, or of those for the rows of an input."""
    ports = (*plan.before, *plan.after)
    tensors = [f"tensors[{index}]" for index, port in enumerate(ports) if port in plan.arguments]
    tensors += [_lent(plan, port) for port in plan.lent]
    if plan.pushed is not None:
        push = f"{plan.prefix}_push_row(arena, (void *)((uint8_t *)tensors[0] + i * {plan.pushed.row_bytes}));"
        loop = f"for (int32_t i = 0; i < {plan.pushed.rows}; i++) {{ {push} }}"
        return f"{plan.prefix}_begin(arena); {loop} {plan.prefix}_end({', '.join(['arena', *tensors])});"
    call = f"{plan.prefix}_run({', '.join([*tensors, 'arena'])});"
    return f"_status = (uint32_t){call}" if plan.returns_status else call


def _lent(plan: Plan, port: Port) -> str:
    """The variable for memory beside the arena."""
    return f"_{port.symbol}_of_{plan.prefix}"


def _copies(plan: Plan, direction: str) -> list[str]:
    """Copies of inputs and states into the arena, or of outputs and states out of it, where they lie there."""
    numbers = {port.tensor.name: index for index, port in enumerate((*plan.before, *plan.after))}
    places = [(accessor.port, f"{accessor.symbol}(arena)") for accessor in accessors(plan)]
    for state in plan.states:
        memory = _lent(plan, plan.state[0]) if plan.state else "arena"
        places += [(port, f"(uint8_t *){memory} + {state.offset}") for port in (state.before, state.after)]
    copies = []
    for port, place in places:
        tensor = f"tensors[{numbers[port.tensor.name]}]"
        if port.direction == direction:
            pointers = (place, tensor) if direction == "input" else (tensor, place)
            copies.append(f"memcpy({', '.join(pointers)}, {port.bytes});")
    return copies


def _ports(plan: Plan) -> list[str]:
    """Inputs, then outputs, as the function takes them, each with the states behind them."""
    rows = []
    for port in (*plan.before, *plan.after):
        size = f"{plan.prefix.upper()}_{port.symbol.upper()}_SIZE * {port.tensor.dtype.bytes}"
        size = size if port in plan.ports else str(port.bytes)
        rows.append(f"{{ {size}, {port.tensor.dtype.bytes}, {int(port.direction == 'output')} }}")
    return rows


def c_library(target: Target, compiler: str) -> list[str]:
    """Where clang finds the headers of the C library: where gcc does."""
    return [f"-isystem{path}" for path in _headers(target)] if compiler == "clang" else []


def _headers(target: Target) -> tuple[str, ...]:
    result = run([target.compiler, *target.flags, "-xc", "-E", "-v", "-"], Path(), timeout=60, text="")
    found = _INCLUDE_PATHS.search(result.stderr)
    if result.returncode or not found:
        raise ToolMissing(f"{target.compiler} does not tell where its headers are:\n{result.stderr.strip()}")
    # clang brings its own counterparts of the headers that belong to gcc.
    return tuple(path for path in found[1].split() if "/gcc/" not in path or "/../" in path)


# An image run on its emulated machine: inputs in, outputs out, failures explained.

PATIENCE = 60.0
"""Seconds that an emulation may take, however little there is to compute."""

SECONDS_PER_MAC = 5e-6
"""Allowed besides, for each multiply-accumulate: twenty times what slow code on a slow machine takes."""

_FAULT = re.compile(r"fault (\d+) at ([0-9a-f]{8})")


@dataclass(frozen=True)
class Trial:
    """One call of the image's model number ``model``: ``feeds`` by tensor name, in the shapes of the C function.

    ``is_shifted``: every buffer is aligned to no more than it must be; ``garbage`` is the byte that the outputs and the
    arena hold before.
    """

    feeds: Mapping[str, Array]
    model: int = 0
    is_shifted: bool = False
    garbage: int = 0xEE


@dataclass(frozen=True)
class EmulatedOutcome:
    """What a call gave: ``outputs`` by tensor name, in the shapes of the C function, and the stack it used.

    ``status`` is what the function returned, 0 if it returns nothing; if it is 1, outputs mean nothing.
    """

    outputs: Mapping[str, Array]
    stack_bytes: int
    status: int = 0


def emulate(
    image: Image, trials: Sequence[Trial], *, plugin: Sequence[str] = (), timeout: float | None = None
) -> list[EmulatedOutcome]:
    """Makes the calls one after the other in one emulation; ``plugin`` are arguments for the emulator.

    Raises EmulationFailed if the code faults, writes beside its buffers, or does not end within ``timeout`` seconds.
    """
    machine = machine_of(image.target)
    with naming(image.folder / "inputs.bin"):
        (image.folder / "inputs.bin").write_bytes(b"".join(_record(image, trial) for trial in trials))
    command = [machine.emulator, *machine.arguments, "-display", "none", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", *plugin, "-kernel", ELF]
    result = run(command, image.folder, timeout=_patience(image, trials) if timeout is None else timeout)
    if result.returncode:
        raise EmulationFailed(_failure(image, result.returncode, result.stdout + result.stderr))
    return _outcomes(image, trials, (image.folder / "outputs.bin").read_bytes())


def _patience(image: Image, trials: Sequence[Trial]) -> float:
    macs = [artifact.report.macs for artifact in image.artifacts]
    return PATIENCE + SECONDS_PER_MAC * sum(macs[trial.model] for trial in trials)


def _record(image: Image, trial: Trial) -> bytes:
    """A call as the driver reads it."""
    head = np.array([trial.model, trial.is_shifted, trial.garbage], np.dtype("<u4")).tobytes()
    plan = image.artifacts[trial.model].plan
    return head + b"".join(_input(plan, trial, port.tensor.name) for port in plan.before)


def _input(plan: Plan, trial: Trial, name: str) -> bytes:
    [port] = [port for port in plan.before if port.tensor.name == name]
    array = trial.feeds[name]
    dtype = port.tensor.dtype.numpy
    if array.dtype != dtype or array.shape != port.shape:
        raise ValueError(f"input {name} must be {dtype} {list(port.shape)}, not {array.dtype} {list(array.shape)}")
    return array.astype(dtype.newbyteorder("<")).tobytes()


def _outcomes(image: Image, trials: Sequence[Trial], data: bytes) -> list[EmulatedOutcome]:
    outcomes, start = [], 0
    for trial in trials:
        outputs: dict[str, Array] = {}
        for port in image.artifacts[trial.model].plan.after:
            end = start + port.tensor.size * port.tensor.dtype.bytes
            held = np.frombuffer(data[start:end], port.tensor.dtype.numpy.newbyteorder("<"))
            outputs[port.tensor.name] = held.astype(port.tensor.dtype.numpy).reshape(port.shape)
            start = end
        stack, status = (int.from_bytes(data[at : at + 4], "little") for at in (start, start + 4))
        outcomes.append(EmulatedOutcome(outputs, stack, status))
        start += 8
    if start != len(data):
        raise EmulationFailed(f"the emulated core wrote {len(data)} bytes of outputs, not {start}")
    return outcomes


def _failure(image: Image, status: int, text: str) -> str:
    """Why an emulation ended with this exit status, in one line if the driver told."""
    where = f"on the emulated {image.target.name}"
    if fault := _FAULT.search(text):
        function = _function_at(image, int(fault[2], 16))
        return f"the code faulted {where}: exception {int(fault[1])} at 0x{fault[2]}{function}"
    return f"the code failed {where} (exit status {status}):\n{text.strip()[-2000:]}"


def _function_at(image: Image, address: int) -> str:
    """ " in FUNCTION", or nothing if the address is not in the image."""
    command = [f"{image.target.tools}addr2line", "-f", "-e", ELF, f"{address:#x}"]
    name = succeed(command, image.folder).split("\n")[0]
    return "" if name.startswith("?") else f" in {name}"


def random_feeds(plan: Plan, seed: int) -> dict[str, Array]:
    """Random inputs in the shapes of the C function, over the whole range of integers; the same for the same seed."""
    generator = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for port in plan.before:
        dtype = port.tensor.dtype
        if np.issubdtype(dtype.numpy, np.floating):
            feeds[port.tensor.name] = generator.standard_normal(port.shape).astype(dtype.numpy)
        else:
            values = generator.integers(dtype.low, dtype.high + 1, port.shape)
            feeds[port.tensor.name] = values.astype(dtype.numpy)
    return feeds


def end_feeds(plan: Plan, seed: int) -> list[dict[str, Array]]:
    """Four random inputs, then all at the lowest code (-10 of floats), the highest (10), 0, and both by turns."""
    drawn = [random_feeds(plan, seed + i) for i in range(4)]
    made: list[dict[str, Array]] = []
    for kind in ("low", "high", "zero", "turns"):
        feeds: dict[str, Array] = {}
        for port in plan.before:
            dtype = port.tensor.dtype
            low, high = (-10, 10) if np.issubdtype(dtype.numpy, np.floating) else (dtype.low, dtype.high)
            turns = np.where(np.arange(port.tensor.size).reshape(port.shape) % 2, low, high)
            values = {"low": np.array(low), "high": np.array(high), "zero": np.array(0), "turns": turns}[kind]
            feeds[port.tensor.name] = (np.zeros(port.shape) + values).astype(dtype.numpy)
        made.append(feeds)
    return [*drawn, *made]
