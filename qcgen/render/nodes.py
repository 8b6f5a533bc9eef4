"""A generated file made ready for verification: nodes can be called one by one, output steps show their sums."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qcgen.ir.plan import Argument, Call, InArena, Place, Plan
from qcgen.ir.program import Tensor
from qcgen.render import environment
from qcgen.render.filters import place

_OUTPUT_STEP = re.compile(
    r"^(?:\w+_CODE_ATTR )?static\s+(?:\w+\s+)?(?P<type>\w+)\s+(?P<name>\w+)_"
    r"(?P<step>requantize|line|code|is_near_tie|scaled|codes|closeness)\(\s*(?P<parameters>[^)]*)\)\n\{.*?^\}\n",
    re.MULTILINE | re.DOTALL,
)

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

    def followed(found: re.Match[str]) -> str:
        parameters = " ".join(found["parameters"].split())
        own = [parameter for parameter in parameters.split(", ") if not parameter.endswith(" *layer")]
        first = own[0].removeprefix(f"{plan.prefix}_")
        kind = _KINDS.get((found["step"], first))
        if kind is None or found["name"] not in symbols:
            return found[0]
        found_of.add(found["name"])
        if kind in TESTS:
            tested.add(found["name"])
        arguments = [parameter.split()[-1].lstrip("*") for parameter in parameters.split(",")]
        text = template.render(
            name=f"{found['name']}_{found['step']}",
            kind=kind,
            type=found["type"],
            parameters=parameters,
            arguments=", ".join(arguments),
            out_type=parameters.split()[-2],
            shown=shown,
        )
        return found[0] + text

    changed = _OUTPUT_STEP.sub(followed, source)
    for call in plan.calls:
        if call.certificate.word and call.op.y.dtype.is_quantized and _function_of(call) not in found_of:
            raise RuntimeError(f"the output step of {call.symbol} was not found: its name or its parameters are new")
    return changed, frozenset(call.symbol for call in plan.calls if _function_of(call) in tested)


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
