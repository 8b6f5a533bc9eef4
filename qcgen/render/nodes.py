"""A generated file made ready for verification: nodes can be called one by one, output steps show their sums."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qcgen.ir.plan import Argument, Call, InArena, Place, Plan
from qcgen.ir.program import Tensor
from qcgen.render import environment
from qcgen.render.c_functions import CFunction, changed
from qcgen.render.c_text import place

_OUTPUT_STEP = re.compile(r"(\w+)_(requantize|line|code|is_near_tie|scaled|codes|closeness)")
"""The names of output functions: which function of a node, and what it does."""

_KINDS = {
    ("requantize", "int32_t acc"): "code",
    ("line", "int32_t acc"): "code",
    ("code", "int32_t acc"): "code",
    ("is_near_tie", "int32_t acc"): "near",
    ("scaled", "mve_s32 acc"): "scaled",
    ("codes", "mve_s32 scaled"): "codes",
    ("closeness", "uint32_t so_far"): "closeness",
}
"""What an output function does, by the end of its name and its first parameter, a vector's less the prefix."""

TESTS = ("near", "closeness")
"""The kinds that test whether a sum is near a tie, where the C takes another path."""


@dataclass(frozen=True)
class SingleCall:
    """A call by itself: ``xs`` are the tensors that it reads, ``y`` the one that it writes."""

    call: Call
    xs: Sequence[Tensor]
    y: Tensor
    arguments: Sequence[Place]


def with_nodes(
    plan: Plan, source: str, nodes: Sequence[SingleCall], name: str, *, shows_words: bool
) -> tuple[str, frozenset[str]]:
    """``source``, rendered from ``plan``, made callable node by node; and the nodes whose output step tests for ties.

    Lines are added, none is changed: at the end a function
    ``name``_run, see verify/nodes.c.jinja, and, with ``shows_words``, behind each output function one that takes its
    place from there on. The nodes are given by their symbols.
    """
    tested = frozenset[str]()
    shown = {"byte": f"{name}_shown_byte", "near": f"{name}_shown_path"}
    head = "#include <stdint.h>\n#include <string.h>\n"
    if shows_words:
        source, tested = _showing(plan, source, shown)
        head += f"static int32_t {shown['byte']} = -1, {shown['near']};\n"
    template = environment().get_template("verify/nodes.c.jinja")
    shown_nodes = [_node(node, f"{name}_call_{index}") for index, node in enumerate(nodes)]
    text = template.render(name=name, nodes=shown_nodes, shows_words=shows_words, shown=shown, slow=plan.slow)
    return head + source + text, tested


def _showing(plan: Plan, source: str, shown: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    """The source with a function behind each output function, and the symbols of nodes that test for ties."""
    symbols = {_function_of(call) for call in plan.calls}
    template = environment().get_template("verify/shown.c.jinja")
    tested, found_of = set(), set()

    def followed(function: CFunction) -> str:
        named = _OUTPUT_STEP.fullmatch(function.name)
        if named is None or named[1] not in symbols:
            return function.text
        own = [parameter for parameter in function.parameters if not parameter.endswith(" *layer")]
        kind = _KINDS.get((named[2], own[0].removeprefix(f"{plan.prefix}_")))
        if kind is None:
            return function.text
        found_of.add(named[1])
        if kind in TESTS:
            tested.add(named[1])
        text = template.render(
            name=function.name,
            kind=kind,
            type=function.returns,
            parameters=", ".join(function.parameters),
            arguments=", ".join(function.arguments),
            out_type=own[-1].split()[-2],
            shown=shown,
        )
        return function.text + text

    shown_source = changed(source, followed)
    for call in plan.calls:
        if call.certificate.word and call.op.y.dtype.is_quantized and _function_of(call) not in found_of:
            raise RuntimeError(f"the output step of {call.symbol} was not found: its name or its parameters are new")
    return shown_source, frozenset(call.symbol for call in plan.calls if _function_of(call) in tested)


def _function_of(call: Call) -> str:
    """The name with which the functions of a call begin."""
    return call.symbol if call.shared is None else call.shared.symbol


def _node(node: SingleCall, function: str) -> dict[str, object]:
    """What the template needs to know of a call: its inputs lie one after the other in `in`."""
    offset = 0
    copies, arguments = [], []
    for x, where in zip(node.xs, node.arguments, strict=False):
        size = x.size * x.dtype.bytes
        if isinstance(where, Argument):
            arguments.append(f"(const void *)(in + {offset})")
        else:
            copies.append((place(where), offset, size))
            arguments.append(place(where))
        offset += size
    y, *scratch = node.arguments[len(node.xs) :]
    arguments += [place(y) if isinstance(y, InArena) else "(void *)out", *map(place, scratch)]
    return {
        "function": function,
        "symbol": node.call.symbol,
        "copies": copies,
        "arguments": arguments,
        "y": place(y) if isinstance(y, InArena) else "",
        "x_bytes": offset,
        "y_bytes": node.y.size * node.y.dtype.bytes,
    }
