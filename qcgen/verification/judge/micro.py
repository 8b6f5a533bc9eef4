"""TensorFlow Lite Micro's interpreter from PyPI, with its reference kernels, as the judge of .tflite files."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from qcgen.ir.graph import Origin
from qcgen.ir.program import Program
from qcgen.ir.types import Array
from qcgen.tflite import FlatTable, in_file, in_program, kept_by, read_tflite
from qcgen.tflite.read import Own
from qcgen.verification.judge.engines import CannotRun, refusals
from qcgen.verification.judge.rules import codes, numbers

PACKAGE = "tflite-micro"

CRITERION = "bit for bit, every tensor that a node computes"

LEAST_ARENA = 2**22
"""Bytes that an interpreter gets for what it needs beside tensors."""


def installed_micro() -> str | None:
    """The version of the interpreter; None where it is not installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None


class MicroBench:
    """The part of a .tflite file that was compiled, run by a fresh interpreter for each case.

    What variables hold is an input of that part, and what is assigned to them an output.
    Its outputs are all tensors that its nodes compute, so that the first one that differs names the node.
    """

    def __init__(self, origin: Origin, program: Program) -> None:
        assert isinstance(origin.model, bytes), "of .tflite files the bytes are kept"
        graph = read_tflite(origin.model, "model")
        wanted, kept = set(origin.outputs), []
        given = [value.name for value in origin.inputs]
        computed: list[str] = []
        self._copies: dict[str, str] = {}  # what is assigned and is something else, too: the file has one tensor
        number = {name: place for place, name in enumerate(graph.values)}
        self._own: dict[str, tuple[Own, tuple[int, ...]]] = {}  # operators' own variables, before and after
        for node in reversed(graph.nodes):
            if not wanted.isdisjoint(node.outputs):
                if node.op_type == "READ_VARIABLE":
                    raise CannotRun(f"{node.name} reads what was assigned in the same call")
                if node.op_type == "ASSIGN_VARIABLE":
                    self._copies[node.outputs[0]] = node.inputs[0]
                else:
                    kept.append(int(node.name.rpartition("_")[2]))  # the operator's number in the file
                    computed = [*node.outputs, *computed]
                    for (name, kind), after in zip(kept_by(node).items(), node.outputs[1:], strict=False):
                        number[after] = number[name]
                        self._own |= dict.fromkeys((name, after), (kind, graph.value(name).fixed_shape or ()))
                wanted |= set(node.inputs) - {*given, *graph.constants, ""}
        self._computed = computed
        self._unchanged = graph.unchanged
        given += graph.unchanged
        self._origin, self._program, self._constants = origin, program, graph.constants
        sizes = [np.prod(graph.value(name).fixed_shape or (1,)) * 8 for name in (*given, *self._computed)]
        self._arena = LEAST_ARENA + 2 * int(sum(sizes)) + 8 * len(origin.model)
        ends = ([number[name] for name in names] for names in (given, self._computed))
        self._model = _separated(origin.model, sorted(kept), *ends)

    def outputs(self, feeds: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, Array]:
        """All tensors that the reference has, too, by the program's names; CannotRun."""
        pairs = list(zip(self._origin.inputs, self._program.inputs, strict=True))
        with refusals():
            interpreter = _interpreter(self._model, self._arena)
            for place, (value, own) in enumerate(pairs):
                x = feeds[own.name] if own.name == value.name else numbers(own, feeds[own.name], value.dtype)
                x = x.reshape(value.fixed_shape or ())
                x = in_file(x, self._own[value.name][0]) if value.name in self._own else x
                interpreter.set_input(np.ascontiguousarray(x), place)
            for place, name in enumerate(self._unchanged, len(pairs)):
                interpreter.set_input(self._constants[name], place)
            interpreter.invoke()
            found = {name: interpreter.get_output(place) for place, name in enumerate(self._computed)}
        kept = ((name, *how) for name, how in self._own.items() if name in found)
        found |= {name: in_program(found[name], kind, shape) for name, kind, shape in kept}
        known = {**self._constants, **feeds, **found}
        found |= {name: known[source] for name, source in self._copies.items()}
        own_outputs = zip(self._origin.outputs, self._program.outputs, strict=True)
        ends = {own.name: found[name] if own.name == name else codes(own, found[name]) for name, own in own_outputs}
        named = {name: array for name, array in found.items() if name in values} | ends
        return {name: array.reshape(values[name].shape) for name, array in named.items()}

    def compared(
        self, got: Mapping[str, Array], values: Mapping[str, Array]
    ) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        """The outputs of the C and the reference's inner tensors; and how far they may be off: not at all."""
        ends = {tensor.name for tensor in (*self._program.outputs, *self._program.inputs)}
        every = {name: array for name, array in values.items() if name not in ends} | dict(got)
        return every, dict.fromkeys(every, np.zeros(()))


def _separated(data: bytes, nodes: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """The file with some operators of its network alone, ascending, between other tensors; all by their numbers."""
    changed = bytearray(data)
    [subgraph, *_] = FlatTable.root(data).tables(2)
    operators = subgraph.place(3)
    for slot, node in enumerate(nodes):
        [offset] = struct.unpack_from("<I", data, operators + 4 + 4 * node)
        struct.pack_into("<I", changed, operators + 4 + 4 * slot, offset + 4 * (node - slot))
    struct.pack_into("<I", changed, operators, len(nodes))
    for part, tensors in ((1, inputs), (2, outputs)):
        changed += bytes(-len(changed) % 4)
        field = subgraph.field(part)
        assert field is not None, "a network has inputs and outputs"
        struct.pack_into("<I", changed, field, len(changed) - field)
        changed += struct.pack(f"<I{len(tensors)}i", len(tensors), *tensors)
    return bytes(changed)


def _interpreter(model: bytes, arena: int) -> Any:
    from tflite_micro.python.tflite_micro import runtime

    return runtime.Interpreter.from_bytes(model, arena_size=arena)
