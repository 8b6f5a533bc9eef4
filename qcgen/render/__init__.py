"""Plan to text: the templates, filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import jinja2

from qcgen.arithmetic import meant_text
from qcgen.ir.context import names_of
from qcgen.ir.plan import Argument, Call, InArena, Plan, Port, Step, Stream, TensorMove, View
from qcgen.ir.self_test import SelfTest
from qcgen.plan.names import SUPPORT_NAMES, accessor_names
from qcgen.render.filters import (
    arguments,
    comment,
    extent,
    int32,
    int64,
    one_line,
    place,
    real,
    rows,
    rows_at,
    thousands,
)
from qcgen.render.fold import folded
from qcgen.render.head import certificate, memory, overlap_place, summary
from qcgen.render.interface import aligned, arena_word, conditions, converted, hashing, numbers
from qcgen.render.self_test import shown
from qcgen.render.shared import declared, layer, same, tables_of, with_layer
from qcgen.targets import TARGETS
from qcgen.version import __version__

ADVICE = ("NOINLINE", "SHARED", "INLINE", "RARELY", "FENCE", "ROLLED", "SUMMED", "MOVED")
"""Macros of support/compiler.c.jinja: a file has those that its functions use."""


_ID = "\0"
"""Stands where the header's id will be; no text of a model holds it."""


def render(plan: Plan, test: SelfTest | None = None) -> dict[str, str]:
    """The generated files by name: NAME.h and NAME.c, and those of a self-test. Same plan, same bytes."""
    bodies = _bodies(plan)
    called = {name for call in plan.calls for name in call.support} | ({"compiler"} if test else set())
    called |= {"move_up"} if any(move.is_up for move in plan.moves) else set()
    written = [*bodies, *(_support(plan, name) for name in called - {"compiler"})]
    advice = [
        name
        for name in ADVICE
        if (name == "NOINLINE" and test) or any(f"{plan.prefix.upper()}_{name}" in text for text in written)
    ]
    support = [name for name in SUPPORT_NAMES if name in called and (advice or name != "compiler")]
    hashed = hashing(plan, test)
    context = {
        "plan": plan,
        "prefix": plan.prefix,
        "PREFIX": plan.prefix.upper(),
        "version": __version__,
        "header_id": _ID,
        "parameters": parameters(plan),
        "pushed": _pushed(plan),
        "accessors": accessors(plan),
        "options": options_text(plan),
        "meant": meant_text(plan.options.numerics),
        "bodies": bodies,
        "advice": advice,
        "support": support,
        "isa": TARGETS[plan.options.target].isa,
        "summary": summary(plan),
        "memory": memory(plan),
        "certificates": [certificate(call) for call in plan.calls],
        "arena_word": arena_word(plan),
        "converted": converted(plan),
        "aligned": aligned(plan),
        "conditions": list(conditions(plan)),
        "weaker": TARGETS[plan.options.target].weaker,
        "unread": _unread(plan),
        "uses_arena": plan.arena_bytes > 0,
        "uses_offsets": any(
            isinstance(p, InArena) and p.offset for step in plan.steps if isinstance(step, Call) for p in step.arguments
        ),
        "uses_string": any("string.h" in call.headers for call in plan.calls) or bool(plan.streams or plan.moves),
        "streams": [_stream(plan, stream, hashed) for stream in plan.streams],
        "statements": [statement for step in plan.steps for statement in _statements(plan, step, hashed)],
        "test": test,
        "numbers": numbers(plan),
        "has_tables": test is not None and any(call.tables for call in plan.calls),
        "is_small": len(plan.calls) < 2**10 and all(t.bytes < 2**22 for call in plan.calls for t in call.tables),
        "arguments": ", ".join(port.symbol for port in plan.arguments),
        "uses_math": any("math.h" in call.headers for call in plan.calls),
    }
    names = {f"{plan.prefix}.h": "model.h", f"{plan.prefix}.c": "model.c"}
    if test is not None:
        context |= shown(plan, test, {each.port.symbol: each.symbol for each in accessors(plan)})
        names |= {f"{plan.prefix}_test.h": "test.h", f"{plan.prefix}_test.c": "test.c"}
    texts = {name: folded(environment().get_template(f"{kind}.jinja").render(context)) for name, kind in names.items()}
    header_id = f"0x{sha256(''.join(texts.values()).encode()).hexdigest()[:8]}"
    return {name: text.replace(_ID, header_id) for name, text in texts.items()}


def header_id(plan: Plan, files: Mapping[str, str]) -> int:
    """What ties the generated files of a plan together: a hash of their text."""
    prefix = plan.prefix
    [line] = (each for each in files[f"{prefix}.h"].splitlines() if f"#define {prefix.upper()}_HEADER_ID " in each)
    return int(line.split()[-1], 16)


def _unread(plan: Plan) -> list[str]:
    """The inputs on which no output depends."""
    read = {place.symbol for call in plan.calls for place in call.arguments if isinstance(place, Argument)}
    return [port.symbol for port in plan.inputs if port in plan.arguments and port.symbol not in read]


def parameters(plan: Plan) -> str:
    """Those of NAME_run: inputs, then outputs, in the model's order, unless they lie in the arena; then the arena.

    Those of NAME_end start with the arena, as do those of the functions before it.
    """
    ports = [f"{'const ' if p.direction == 'input' else ''}{p.tensor.dtype.c} *{p.symbol}" for p in plan.arguments]
    return ", ".join(["void *arena", *ports] if plan.pushed else [*ports, "void *arena"])


@dataclass(frozen=True)
class Pushed:
    """The input whose rows are pushed, and the stream that takes them.

    The arena's start needs no offset: a function that writes nowhere else does not use ``bytes``.
    """

    port: Port
    stream: Stream

    @property
    def turn_uses_offset(self) -> bool:
        """Whether the number of the next turn lies behind the arena's start."""
        return self.stream.turn is not None and self.stream.turn.offset > 0

    @property
    def begin_uses_offset(self) -> bool:
        """Whether anything that NAME_begin writes does."""
        return self.turn_uses_offset or any(fill.at.place.offset > 0 for fill in self.stream.above)


def _pushed(plan: Plan) -> Pushed | None:
    port = plan.pushed
    return None if port is None else Pushed(port, next(each for each in plan.streams if each.turn is not None))


@dataclass(frozen=True)
class Accessor:
    """The function ``symbol`` of the header tells where ``port`` lies in the arena."""

    symbol: str
    port: Port


def accessors(plan: Plan) -> list[Accessor]:
    """One for each input and output that lies in the arena."""
    found = []
    for kind, ports in (("input", plan.inputs), ("output", plan.outputs)):
        names = accessor_names([port.symbol for port in ports], kind)
        found += [Accessor(f"{plan.prefix}_{name}", port) for name, port in zip(names, ports, strict=True)]
    return [accessor for accessor in found if accessor.port.offset is not None]


def options_text(plan: Plan) -> str:
    """The options as the user would write them."""
    return " ".join(map(one_line, option_words(plan)))


def option_words(plan: Plan) -> list[str]:
    """The options as words of a command line."""
    options = plan.options
    words = ["--target", options.target, "--layout", options.layout, "--optimize", options.optimize]
    words += ["--numerics", options.numerics]
    if options.arena is not None:
        words += ["--arena", str(options.arena)]
    if options.io_memory != "caller":
        words += ["--io-memory", options.io_memory]
    if options.input != "whole":
        words += ["--input", options.input]
    if options.io != "model":
        words += ["--io", options.io]
    words += ["--self-test"] * options.self_test
    for name in options.outputs:
        words += ["--output", name]
    words += ["--no-simplify"] * (not options.simplify)
    return words if not plan.node else [*words, "--node", plan.node]


@cache  # it keeps the templates that it has read
def environment() -> jinja2.Environment:
    """The template engine: names that are not given are errors, values reach C through the filters below."""
    engine = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=lambda name: name is not None and name.endswith(".html.jinja"),  # not C
    )
    engine.filters.update(
        comment=comment, int32=int32, int64=int64, rows=rows, extent=extent, thousands=thousands, place=place
    )
    engine.filters.update(rows_at=rows_at, arguments=arguments)
    engine.filters.update(one_line=one_line, real=real)
    return engine


def filled(template: str, context: Mapping[str, object]) -> str:
    """A file that goes with the generated ones, by its template: NAME.c for NAME.c.jinja."""
    text = environment().get_template(f"{template}.jinja").render(context)
    return folded(text) if template.endswith((".c", ".h", ".ino")) else text


def templates() -> Path:
    """The folder of the templates: inside the installed package, or beside it in a checkout."""
    package = Path(str(files("qcgen")))
    installed = package / "_templates"
    return installed if installed.is_dir() else package.parent / "templates"


def _support(plan: Plan, name: str) -> str:
    """A shared function."""
    template = environment().get_template(f"support/{name}.c.jinja")
    return template.render(prefix=plan.prefix, isa=TARGETS[plan.options.target].isa)


def _statements(plan: Plan, step: Step, hashed: Mapping[str, str]) -> list[str]:
    """What NAME_run does for a step."""
    match step:
        case Call():
            hook = f"{plan.prefix.upper()}_HOOK({numbers(plan)[step.symbol]})"
            call = f"{step.symbol}({', '.join(map(place, step.arguments))})"
            return [call, hook, *filter(None, [hashed.get(step.symbol)])]
        case Stream() if step.turn is not None:
            return []  # it has run when all rows have come
        case Stream():
            arguments = [*(port.symbol for port in _ports(plan, step)), "arena", *(["hashes"] if hashed else [])]
            return [f"{step.symbol}({', '.join(arguments)})"]
        case TensorMove():
            function = f"{plan.prefix}_move_up" if step.is_up else "memmove"
            return [f"{function}({place(step.place)}, {place(step.source)}, {step.bytes})"]
        case View():
            return []


def _ports(plan: Plan, stream: Stream) -> list[Port]:
    """The inputs and outputs of the network that a stream reads or writes."""
    places = [row.place for turn in stream.turns for row in turn.rows]
    symbols = {place.symbol for place in places if isinstance(place, Argument)}
    return [port for port in plan.ports if port.symbol in symbols]


def _stream(plan: Plan, stream: Stream, hashed: Mapping[str, str]) -> str:
    """The function that runs layers row by row."""
    template = environment().get_template("stream.c.jinja")
    return template.render(
        prefix=plan.prefix,
        PREFIX=plan.prefix.upper(),
        stream=stream,
        ports=_ports(plan, stream),
        pushed=plan.pushed,
        numbers=numbers(plan),
        hashed=hashed,
        overlap=None if stream.overlap is None else overlap_place(stream.overlap.distance),
    )


def _bodies(plan: Plan) -> list[str]:
    """The functions of each node; one that several share stands before the first of them."""
    texts = [_body(plan, call) for call in plan.calls]
    for function in plan.shared:
        indices = [index for index, call in enumerate(plan.calls) if call.shared == function]
        text = with_layer(same([texts[index] for index in indices], function), function, plan.prefix)
        for index in indices:
            texts[index] = layer(plan.calls[index], text)
        texts[indices[0]] = f"{declared(function)}\n\n{text}\n{texts[indices[0]]}"
    return texts


def _body(plan: Plan, call: Call) -> str:
    """A node's functions, without its tables, or those that it shares."""
    template = environment().get_template(call.template)
    return template.render(
        names_of(call.context),
        prefix=plan.prefix,
        symbol=call.symbol if call.shared is None else call.shared.symbol,
        tables=tables_of(call),
        op=call.op,
    )
