"""Inputs of a graph that become constants, with the elements that the user gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256

import numpy as np

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Graph, Value
from qcgen.ir.types import Array, DType


def bake(graph: Graph, constants: Mapping[str, Array]) -> Graph:
    """The graph with these inputs as constants; its sha256 is then one of the model's and of theirs.

    ModelRejected with every array that no input takes.
    """
    if not constants:
        return graph
    problems = [problem for name, array in constants.items() for problem in _problems(graph, name, array)]
    if problems:
        raise ModelRejected(problems)
    values = {name: Value(name, DType.of(array), array.shape) for name, array in constants.items()}
    digest = sha256(graph.sha256.encode())
    for name, array in sorted(constants.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return replace(
        graph,
        inputs=tuple(name for name in graph.inputs if name not in constants),
        values={**graph.values, **values},
        constants={**graph.constants, **constants},
        sha256=digest.hexdigest(),
        origin=graph.origin and replace(graph.origin, constants=constants),
    )


def _problems(graph: Graph, name: str, array: Array) -> Iterator[Problem]:
    where, value = f"tensor {name!r}", graph.value(name)
    if name not in graph.inputs:
        yield Problem(where, "it is to be a constant, but is not an input", f"inputs are {', '.join(graph.inputs)}")
    elif value.dtype is not None and DType.of(array) is not value.dtype:
        yield Problem(where, f"it is {value.dtype.value}, but the constant is {array.dtype}", "convert the array")
    elif value.shape is not None and not _fits(value.shape, array.shape):
        shape = ", ".join(map(str, value.shape))
        yield Problem(where, f"its shape is [{shape}], that of the constant {list(array.shape)}", "reshape the array")


def _fits(shape: tuple[object, ...], given: tuple[int, ...]) -> bool:
    """Whether a shape is another one whose unknown sizes are filled in."""
    pairs = zip(shape, given, strict=False)
    return len(shape) == len(given) and all(not isinstance(size, int) or size == own for size, own in pairs)
