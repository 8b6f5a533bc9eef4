"""Nodes as a model has them: names, order, how their opset spells them; and narrow codes, which get a byte each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np

from qcgen.errors import Problem
from qcgen.ir.graph import Node, number_of
from qcgen.ir.types import Array, DType
from qcgen.schemas import version_at, versions

DUPLICATE = "give every tensor a name of its own"


def unique_names(nodes: Sequence[tuple[str, str]]) -> list[str]:
    """A name for every node, given as (name, op_type): its own if it is the first of that name, else with a number.

    Nodes without a name are called by their operator: "Conv_0".
    """
    taken = {name for name, _ in nodes if name}
    used: set[str] = set()
    numbers: dict[str, int] = {}
    names = []
    for name, op_type in nodes:
        if not name or name in used:
            stem = name or op_type
            number = numbers.get(stem, 1 if name else 0)
            while f"{stem}_{number}" in taken:
                number += 1
            numbers[stem] = number + 1
            name = f"{stem}_{number}"
            taken.add(name)
        used.add(name)
        names.append(name)
    return names


def sorted_nodes(nodes: Sequence[Node], known: Collection[str]) -> tuple[Node, ...]:
    """The nodes so that each comes after those that compute its inputs; otherwise their order is kept.

    ``known`` are the tensors that need no node. Nodes whose inputs never become known are left out.
    """
    available = set(known) | {""}
    waiting: dict[str, list[int]] = {}
    missing = []
    for index, node in enumerate(nodes):
        needs = {name for name in node.inputs if name not in available}
        missing.append(len(needs))
        for name in needs:
            waiting.setdefault(name, []).append(index)
    ready = [index for index, count in enumerate(missing) if count == 0]
    heapify(ready)
    order = []
    while ready:
        index = heappop(ready)
        order.append(nodes[index])
        for name in nodes[index].outputs:
            for user in waiting.pop(name, ()):
                missing[user] -= 1
                if missing[user] == 0:
                    heappush(ready, user)
    return tuple(order)


def order_problems(
    nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str], constants: Collection[str]
) -> Iterator[Problem]:
    """Why the nodes cannot run in any order: names given twice, tensors nobody computes, cycles, no output.

    ``inputs`` and ``outputs`` are the declared ones of the model, ``constants`` its initializers.
    """
    yield from _repeated("input", inputs)
    yield from _repeated("output", outputs)
    produced = set(inputs) | set(constants)
    for node in nodes:
        for name in filter(None, node.outputs):
            if name in produced:
                what = f"it computes tensor {name!r}, which is already an input, an initializer or a node's output"
                yield Problem(_where(node), what, DUPLICATE)
            produced.add(name)
    for node in nodes:
        for name in filter(None, dict.fromkeys(node.inputs)):
            if name not in produced:
                what = f"it reads tensor {name!r}, which is not an input, an initializer or a node's output"
                yield Problem(_where(node), what, "export the model again")
    if not outputs:
        yield Problem("model", "it has no output", "declare the tensors that it computes as outputs of the graph")
    for name in outputs:
        if name not in produced:
            yield Problem(f"output {name!r}", "no node computes it", "export the model again")
    yield from _cycle(nodes)


def _repeated(kind: str, names: Iterable[str]) -> Iterator[Problem]:
    for name, count in Counter(names).items():
        if count > 1:
            yield Problem(f"{kind} {name!r}", f"the model declares it {count} times", DUPLICATE)
        if not name:
            yield Problem(kind, f"the model has an {kind} without a name", DUPLICATE)


def _cycle(nodes: Sequence[Node]) -> Iterator[Problem]:
    """One cycle, if there is any: the nodes of it in the order of the data."""
    computed = {name for node in nodes for name in node.outputs if name}
    others = {name for node in nodes for name in node.inputs} - computed
    placed = {node.name for node in sorted_nodes(nodes, others)}
    producers = {name: node for node in nodes if node.name not in placed for name in node.outputs}
    if not producers:
        return
    node = next(iter(producers.values()))
    path: dict[str, Node] = {}
    while node.name not in path:
        path[node.name] = node
        node = next(producers[name] for name in node.inputs if name in producers)
    members = list(path.values())
    ring = members[list(path).index(node.name) :][::-1]
    names = ", ".join(repr(member.name) for member in ring[:3])
    more = f" and {len(ring) - 3} more" if len(ring) > 3 else ""
    yield Problem(
        f"nodes {names}{more}", "each needs the output of the one before it, in a circle", "export the model again"
    )


def _where(node: Node) -> str:
    return f"node {node.name!r} ({node.operator})"


# Nodes of ai.onnx must be spelt as the opset that the model imports spells them, and yes and no as 1 and 0.

FLAGS = frozenset(
    "allowzero antialias ceil_mode count_include_pad exclude_outside input_forget keepdims layout"
    " linear_before_reset noop_with_empty_axes output_sequence saturate select_last_index storage_order training_mode"
    " transA transB".split()
)
"""Attributes that are 1 or 0; of other numbers operators of onnxruntime think differently."""

AGAIN = "export the model again, all of it with one opset"


def spelling_problems(node: Node) -> Iterator[Problem]:
    """Attributes and inputs that the node's operator has in other opsets alone; onnxruntime refuses such a node.

    Of what no opset has ``check`` says more.
    """
    yield from _flag_problems(node)
    own = None if node.domain else version_at(node.op_type, node.version)
    if own is None:
        return
    where, imported = f"node {node.name!r} ({node.operator})", f"opset {node.version}, which the model imports"
    for name in node.attributes:
        if name not in own.attributes and any(name in other.attributes for other in versions(node.op_type)):
            yield Problem(where, f"{node.op_type} has no attribute {name!r} in {imported}", AGAIN)
    count = len(node.inputs)
    if count > own.max_input and any(count <= other.max_input for other in versions(node.op_type)):
        what = f"it has {count} inputs; {node.op_type} has at most {own.max_input} in {imported}"
        yield Problem(where, what, AGAIN)


def _flag_problems(node: Node) -> Iterator[Problem]:
    for name, value in node.attributes.items():
        if name in FLAGS and isinstance(value, int) and value not in (0, 1):
            what = f"{name} is {value}, but must be 0 or 1"
            yield Problem(f"node {node.name!r} ({node.operator})", what, f"correct {name}")


# Codes of 4 and of 2 bits are codes of 8 bits in a smaller range: a byte each, at the boundary, too.


@dataclass(frozen=True)
class _Narrow:
    """A type of fewer than 8 bits by ONNX's ``number``: the type of 8 bits that has its codes, and their ends."""

    number: int
    dtype: DType
    low: int
    high: int


NARROW: Mapping[str, _Narrow] = {
    "int4": _Narrow(22, DType.INT8, -8, 7),
    "uint4": _Narrow(21, DType.UINT8, 0, 15),
    "int2": _Narrow(26, DType.INT8, -2, 1),
    "uint2": _Narrow(25, DType.UINT8, 0, 3),
}
"""By the names that ml_dtypes has for numpy. Source of the numbers: TensorProto.DataType of onnx.proto."""

IN_BYTES: Mapping[int, DType] = {narrow.number: narrow.dtype for narrow in NARROW.values()}
"""By ONNX's number of a type: the type of 8 bits."""


@dataclass(frozen=True)
class InBytes:
    """Nodes and constants with codes of 8 bits; the ``narrow`` ones are the tensors that had fewer."""

    nodes: tuple[Node, ...]
    constants: dict[str, Array]
    narrow: frozenset[str]


def in_bytes(nodes: Iterable[Node], constants: Mapping[str, Array], types: Mapping[str, int]) -> InBytes:
    """Codes of 8 bits for all; behind what quantizes to fewer, a Clip keeps these codes.

    ``types`` are the numbers of the types that the model declares, by tensor.
    """
    found = {name: each for name, number in types.items() for each in NARROW.values() if each.number == number}
    found |= {name: NARROW[array.dtype.name] for name, array in constants.items() if array.dtype.name in NARROW}
    wide = {
        name: array.astype(NARROW[array.dtype.name].dtype.numpy) if array.dtype.name in NARROW else array
        for name, array in constants.items()
    }
    changed: list[Node] = []
    for node in nodes:
        narrow = _of_quantize(node, found)
        if narrow is None:
            changed.append(node)
            continue
        y = node.outputs[0]
        codes, low, high = (f"{y} in {part}" for part in ("8 bits", "8 bits, lowest", "8 bits, highest"))
        found[y] = narrow
        wide |= {name: np.asarray(end, narrow.dtype.numpy) for name, end in ((low, narrow.low), (high, narrow.high))}
        attributes = {**node.attributes, "output_dtype": number_of(narrow.dtype)}
        changed.append(replace(node, outputs=(codes,), attributes=attributes, in_float=True))
        changed.append(Node(f"{node.name} in its range", "Clip", "", (codes, low, high), (y,), {}, node.version))
    return InBytes(tuple(changed), wide, frozenset(found))


def _of_quantize(node: Node, found: Mapping[str, _Narrow]) -> _Narrow | None:
    """To which narrow type a node quantizes, None if it does not."""
    if node.op_type != "QuantizeLinear" or not node.outputs:
        return None
    number = node.attributes.get("output_dtype", 0)
    return found.get(node.input(2)) or next(
        (each for each in NARROW.values() if isinstance(number, int) and each.number == number), None
    )
