"""A program that runs compiled models on a board, for people to copy from."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from qcgen.artifact import Artifact
from qcgen.chips import NANOSECONDS, ExampleBoard
from qcgen.ir.plan import Plan, Port
from qcgen.ir.self_test import BASIS
from qcgen.options import OPTIONS
from qcgen.protocol import MOST_BYTES, VERSION
from qcgen.render import filled
from qcgen.render.c_text import one_line
from qcgen.render.model import option_words, usage, variable
from qcgen.version import __version__

STACK_BYTES = 16384
"""What board.ld gives the stack."""

_FILES = {
    "main.c": "main.c",
    "hooks.h": "hooks.h",
    "board.h": "board.h",
    "board.ld": "board.ld",
    "CMakeLists.txt": "CMakeLists.txt",
    "toolchain.cmake": "toolchain.cmake",
    "README.md": "README.md",
}

_SERVED = {"serve.c": "serve.c", "own_board.c": "own_board.c"}
"""The files behind qcgen verify --serial, which needs hashes: those of the self-test."""

TAKEN = frozenset(name.partition(".")[0] for name in (*_FILES, *_SERVED, "board.c"))
"""Prefixes that no model of a program can have: their files would be those of the program."""


def example(artifacts: Sequence[Artifact], board: ExampleBoard) -> dict[str, str]:
    """The files of a program for models, all compiled for the same of the board's targets, whose prefixes differ.

    With the self-tests of those whose caller does not push rows of the input.
    """
    tested = [each if each.plan.pushed else each.with_self_test() for each in artifacts]
    files = {name: text for each in tested for name, text in each.files.items()}
    context = _context(tested, board)
    served = _SERVED if any(each.plan.options.self_test for each in tested) else {}
    for name, template in {**_FILES, **served, "board.c": board.startup}.items():
        files[name] = filled(f"example/{template}", context)
    return files


def _context(artifacts: Sequence[Artifact], board: ExampleBoard) -> dict[str, object]:
    machine, networks = board.machine, [_network(artifact) for artifact in artifacts]
    clock = f"shift={NANOSECONDS.bit_length() - 1},sleep=off"
    emulator = [machine.emulator, *machine.arguments, "-icount", clock, "-display", "none", "-monitor", "none"]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    return {
        "version": __version__,
        "board": board,
        "machine": machine,
        "networks": networks,
        "some_stop": any(artifact.plan.options.status for artifact in artifacts),
        "has_states": any(artifact.plan.states for artifact in artifacts),
        "most_nodes": max(1, *(len(artifact.plan.calls) for artifact in artifacts)),
        "name_width": max(len(name) for artifact in artifacts for name in _node_names(artifact)),
        "stack_bytes": STACK_BYTES,
        "compiler": board.target.compiler,
        "flags": " ".join(board.flags(artifacts[0].plan.options.target)),
        "nanoseconds": NANOSECONDS,
        "emulator": [*emulator, "-serial", "stdio", *semihosting, "-kernel"],
        "serving": shlex.join([*emulator, "-serial", "tcp:localhost:7890,server=on", *semihosting]),
        "served": [_served(artifact.plan) for artifact in artifacts if artifact.plan.options.self_test],
        "protocol": VERSION,
        "most_bytes": MOST_BYTES,
        "basis": f"0x{BASIS:08x}u",
        "what_a_tick_is": board.tick,
    }


def _network(artifact: Artifact) -> dict[str, object]:
    plan = artifact.plan
    return {
        "prefix": plan.prefix,
        "PREFIX": plan.prefix.upper(),
        "is_tested": plan.options.self_test,
        "stops": plan.options.status,
        "usage": usage(plan, f"&arena.{plan.prefix}"),
        "nodes": [_literal(name) for name in _node_names(artifact)],
    }


def _served(plan: Plan) -> dict[str, object]:
    """What serve.c has of a network: its tensors, what runs it, and the options that it was made with."""
    told = option_words(replace(plan, options=replace(plan.options, self_test=False, test_slices=False)))
    return {
        "prefix": plan.prefix,
        "PREFIX": plan.prefix.upper(),
        "model": shlex.quote(one_line(plan.model)),
        "options": _literal(shlex.join([*OPTIONS["name"].words(plan.prefix), *told])),
        "variables": usage(plan).variables,
        "inputs": [_tensor(plan, port) for port in plan.before],
        "outputs": [_tensor(plan, port) for port in plan.after],
        "arguments": [*(variable(plan, port) for port in plan.arguments), "&arena"],
        "returns_status": plan.returns_status,
    }


def _tensor(plan: Plan, port: Port) -> dict[str, object]:
    """Where a tensor lies, and its bytes."""
    is_callers = plan.state and any(port in (state.before, state.after) for state in plan.states)
    inside = f"(uint8_t *){variable(plan, plan.state[0]) if is_callers else '&arena'} + {port.offset}"
    return {"at": variable(plan, port) if port.offset is None else inside, "bytes": port.bytes}


def _node_names(artifact: Artifact) -> list[str]:
    """What the table calls the nodes; C has no array without elements."""
    return [one_line(call.op.name) for call in artifact.plan.calls] or ["-"]


def _literal(text: str) -> str:
    """What stands between the quotes of a string in C; "??" would begin a trigraph.

    >>> print(_literal('a "b" \\n??'))
    a \\"b\\" \\012?\\?
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("??", "?\\?")
    return "".join(c if c.isprintable() else "".join(f"\\{byte:03o}" for byte in c.encode()) for c in escaped)
