"""Generated code, cross-compiled and linked with a driver into the image of an emulated machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qcgen.artifact import Artifact
from qcgen.cores import TARGETS, Machine, Target
from qcgen.cross import compile_command, machine_of, require_tools, run, succeed
from qcgen.errors import ToolMissing, naming
from qcgen.ir.plan import Plan, Port
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
