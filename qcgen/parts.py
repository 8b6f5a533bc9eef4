"""What is compiled of a model: which inputs are constants, the tensors up to which, the batch, one node."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from hashlib import sha256

import numpy as np

from qcgen.errors import ModelRejected, Problem
from qcgen.geometry import spelling_of
from qcgen.ir.graph import Dim, Graph, Node, Value
from qcgen.ir.types import Array, DType
from qcgen.options import spelt

# Inputs of a graph that become constants, with the elements that the user gives.


def bake(graph: Graph, constants: Mapping[str, Array]) -> Graph:
    """The graph with these inputs as constants; its sha256 is then one of the model's and of theirs.

    ModelRejected with every array that no input takes.
    """
    if not constants:
        return graph
    problems = [problem for name, array in constants.items() for problem in _bake_problems(graph, name, array)]
    if problems:
        raise ModelRejected(problems)
    digest = sha256(graph.sha256.encode())
    for name, array in sorted(constants.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return replace(
        graph,
        inputs=tuple(name for name in graph.inputs if name not in constants),
        constants={**graph.constants, **constants},
        sha256=digest.hexdigest(),
        origin=graph.origin and replace(graph.origin, constants=constants),
    )


def _bake_problems(graph: Graph, name: str, array: Array) -> Iterator[Problem]:
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


# A graph up to some of its tensors, which become its outputs.


def cut(graph: Graph, outputs: Sequence[str]) -> Graph:
    """The nodes that ``outputs`` depend on, and no other; without ``outputs`` the graph as it is.

    Inputs that nothing reads any more go, too. ModelRejected with every name that no node computes.
    """
    if not outputs:
        return graph
    producers = {name: node for node in graph.nodes for name in node.outputs if name}
    problems = list(_cut_problems(graph, producers.keys(), outputs))
    if problems:
        raise ModelRejected(problems)
    needed: set[str] = set()
    open_ = list(outputs)
    while open_:
        name = open_.pop()
        if name and name not in needed:
            needed.add(name)
            open_ += producers[name].inputs if name in producers else ()
    return replace(
        graph,
        nodes=tuple(node for node in graph.nodes if not needed.isdisjoint(node.outputs)),
        inputs=tuple(name for name in graph.inputs if name in needed),
        outputs=tuple(dict.fromkeys(outputs)),
    )


def _cut_problems(graph: Graph, computed: Collection[str], outputs: Sequence[str]) -> Iterator[Problem]:
    for name in dict.fromkeys(outputs):
        where = f"tensor {name!r}"
        if name in graph.inputs:
            yield Problem(where, "it is to be an output, but is an input", "name a tensor that a node computes")
        elif name not in computed:
            close = " or ".join(repr(each) for each in get_close_matches(name, computed, n=3))
            hint = f"did you mean {close}?" if close else f"the last node computes {_last(graph.nodes)}"
            yield Problem(where, "no node computes a tensor of this name", hint)


def _last(nodes: Sequence[Node]) -> str:
    names = [name for name in nodes[-1].outputs if name] if nodes else []
    return ", ".join(map(repr, names)) or "nothing"


# Leading dimensions of inputs that a model leaves open become a number: exporters name the batch anew each time.

BATCH = 1
"""On a microcontroller there is mostly one case at a time."""


def fix_batch(graph: Graph, batch: int | None) -> Graph:
    """The graph with ``batch`` in place of open leading dimensions, 1 if it is None; that is noted then.

    Vectors have no batch. Raises ModelRejected if the batch of the user is not positive, or if no input leaves it open
    and one has another.
    """
    opened = [value for value in map(graph.value, graph.inputs) if _leads(value) and not isinstance(_first(value), int)]
    if problems := _batch_problems(graph, batch, is_open=bool(opened)):
        raise ModelRejected(problems)
    size = BATCH if batch is None else batch
    if not opened:
        return graph
    symbols = {_first(value) for value in opened} - {None}
    names = {value.name for value in opened}
    values = {name: _fixed(value, symbols, size, name in names) for name, value in graph.values.items()}
    named = (f"{name} of" if (name := _first(value)) else "of" for value in opened)
    what = ", ".join(f"{name} input {value.name!r}" for name, value in zip(named, opened, strict=True))
    note = f"batch: the leading dimension {what} is open and taken as {size}; {spelt(batch='N')} takes another"
    return replace(graph, values=values, notes=(*graph.notes, note) if batch is None else graph.notes)


def _batch_problems(graph: Graph, batch: int | None, *, is_open: bool) -> list[Problem]:
    if batch is not None and batch < 1:
        return [Problem("batch", f"it is set to {batch}", "set it to a positive number")]
    if batch is None or is_open:
        return []
    hint = f"export the model with an open batch, or leave out {spelt('batch')}"
    return [
        Problem(f"input {value.name!r}", f"its first dimension is {first}, not {batch} as {spelt('batch')} says", hint)
        for value in map(graph.value, graph.inputs)
        if _leads(value) and isinstance(first := _first(value), int) and first != batch
    ]


def _leads(value: Value) -> bool:
    return value.shape is not None and len(value.shape) > 1


def _first(value: Value) -> Dim:
    return value.shape[0] if value.shape else None


def _fixed(value: Value, symbols: set[Dim], size: int, is_opened: bool) -> Value:
    if value.shape is None:
        return value
    shape = tuple(size if dim in symbols else dim for dim in value.shape)
    return replace(value, shape=(size, *shape[1:]) if is_opened else shape)


# A graph restricted to one of its nodes.


def select_node(graph: Graph, name: str, *, with_codes: bool = False) -> Graph:
    """The graph of one node: its inputs that are not constant are the graph's inputs, its outputs the graph's.

    ``with_codes``: and of the DequantizeLinear nodes in front of it and the QuantizeLinear behind it, if there is one.
    ``graph`` is inferred, so that the new inputs have types and shapes. A name that no node has raises ModelRejected.
    """
    node = next((node for node in graph.nodes if node.name == name), None)
    if node is None:
        what = "the model has no node of this name"
        raise ModelRejected([Problem(f"node {name!r}", what, _suggestions(graph, name))])
    nodes = _between_codes(graph, node) if with_codes else (node,)
    made, read = ([name for each in nodes for name in names(each)] for names in (_outputs, _inputs))
    codes = [name for each in read if each in graph.dequantized for name in _inputs(graph.dequantized[each])]
    used = {*made, *read, *codes}
    return replace(
        graph,
        nodes=nodes,
        inputs=tuple(dict.fromkeys(name for name in read if name not in graph.constants and name not in made)),
        outputs=tuple(_outputs(nodes[-1])),
        values={name: value for name, value in graph.values.items() if name in used},
        constants={name: array for name, array in graph.constants.items() if name in used},
    )


def _inputs(node: Node) -> list[str]:
    return [name for name in node.inputs if name]


def _outputs(node: Node) -> list[str]:
    return [name for name in node.outputs if name]


def _between_codes(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The node with what converts the codes that it reads and those that are made of its only output; else alone."""
    outputs = _outputs(node)
    readers = graph.readers.get(outputs[0], ()) if len(outputs) == 1 and outputs[0] not in graph.outputs else ()
    if len(readers) != 1 or readers[0].op_type != "QuantizeLinear":
        return (node,)
    makers = {maker.name: maker for name in _inputs(node) if (maker := graph.producers.get(name))}
    before = (maker for maker in makers.values() if maker.op_type == "DequantizeLinear")
    return (*before, node, readers[0])


def _suggestions(graph: Graph, name: str) -> str:
    names = [node.name for node in graph.nodes]
    close = get_close_matches(name, names, n=3)
    convolutions = [node.name for node in graph.nodes if spelling_of(node) is not None]
    shown, what = (convolutions, "convolutions") if convolutions else (names, "nodes")
    parts = [f"did you mean {' or '.join(map(repr, close))}?"] if close else []
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    parts += [f"the model's {what} are {', '.join(map(repr, shown[:3]))}{more}" if shown else "it has no nodes"]
    return " ".join(parts)
