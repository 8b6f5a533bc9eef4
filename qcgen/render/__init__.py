"""Plan to text: the templates, filled in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256

import jinja2

from qcgen.cores import TARGETS
from qcgen.ir.context import LayerField, Struct, names_of
from qcgen.ir.plan import Call, Plan, Stream
from qcgen.ir.self_test import SelfTest
from qcgen.kernels.epilogue import Y_ZERO_POINT, Output
from qcgen.library import FILES, Library, for_isa, named, templates, with_twins
from qcgen.render import output_step
from qcgen.render.block import essence, id_of
from qcgen.render.c_functions import declared, kept, layer, placeable, same, struct_of, tables_of, with_layer
from qcgen.render.c_text import (
    arguments,
    code_of,
    comment,
    element,
    extent,
    fitted,
    folded,
    indent,
    int32,
    int64,
    literal,
    one_line,
    place,
    plus,
    real,
    require_values_fit,
    rows,
    rows_at,
    struct,
    thousands,
    times,
    uint32,
)
from qcgen.render.model import accessors, hashing, model_context, self_test_context, stream_context

OUTPUT_STEP = """apply apply_line code define define_codes define_line is_near_tie load_own reads_channel stored_code
    table_codes with_function""".split()
"""The functions of the output step that templates call."""

_GIVEN = re.compile(r"(?<=[,=<>?:] )\((-\d+)\)(?=[,;) ])")
"""A negative number that needs no parentheses: an argument, the value of a constant, what is compared or chosen."""

_ID, _WEIGHTS_ID = "\0", "\1"
"""Stand where the ids of the header and of the code will be; no text of a model holds them."""


def render(plan: Plan, test: SelfTest | None = None) -> dict[str, str]:
    """The generated files by name: NAME.h and NAME.c, and those of a self-test. Same plan, same bytes.

    Raises AssertionError if a number does not fit its C type.
    """
    require_values_fit(plan)
    hashed = hashing(plan, test)
    streams = tuple(_stream(plan, stream, hashed) for stream in plan.streams)
    own = bodies(plan)
    moves = ["move_up"] if any(move.is_up and not move.is_apart for move in plan.moves) else []
    # Every function has the attribute; a test's own function is not inlined.
    shared = needed(plan, own, ["CODE_ATTR", *moves, *(["NOINLINE"] if test else [])])
    context = names_of(model_context(plan, test, own, streams, shared, _ID, _WEIGHTS_ID))
    names = {f"{plan.prefix}.h": "model.h", f"{plan.prefix}.c": "model.c"}
    of_code = tuple(names)
    if plan.options.weights is not None:
        names[f"{plan.prefix}_weights.h"] = "weights.h"
    if test is not None:
        context |= names_of(self_test_context(plan, test, {each.port.symbol: each.symbol for each in accessors(plan)}))
        names |= {f"{plan.prefix}_test.h": "test.h", f"{plan.prefix}_test.c": "test.c"}
    texts = {name: environment().get_template(f"{kind}.jinja").render(context) for name, kind in names.items()}
    texts[f"{plan.prefix}.c"] = placeable(texts[f"{plan.prefix}.c"], plan.prefix)
    texts = {name: folded(text) for name, text in texts.items()}
    header_id = f"0x{sha256(''.join(texts.values()).encode()).hexdigest()[:8]}"
    weights_id = f"0x{id_of(essence(plan, {name: texts[name] for name in of_code})):08x}"
    return {name: text.replace(_WEIGHTS_ID, weights_id).replace(_ID, header_id) for name, text in texts.items()}


def header_id(plan: Plan, files: Mapping[str, str]) -> int:
    """What ties the generated files of a plan together: a hash of their text."""
    prefix = plan.prefix
    [line] = (each for each in files[f"{prefix}.h"].splitlines() if f"#define {prefix.upper()}_HEADER_ID " in each)
    return int(line.split()[-1], 16)


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
        comment=comment,
        int32=int32,
        int64=int64,
        uint32=uint32,
        rows=rows,
        extent=extent,
        thousands=thousands,
        place=place,
    )
    engine.filters.update(rows_at=rows_at, arguments=arguments, code_of=code_of)
    engine.filters.update(one_line=one_line, real=real, indent=indent)
    engine.globals.update(fitted=fitted, times=times, plus=plus, element=element, held=_held, fixed=_fixed)
    engine.globals.update(filled_in=_filled_in)
    engine.globals.update((name, getattr(output_step, name)) for name in OUTPUT_STEP)
    return engine


@jinja2.pass_context
def _held(names: jinja2.runtime.Context, name: str, values: Struct) -> str:
    """What a layer is, as a struct of the library, in its function; that of several layers is made at each call."""
    text = struct(values, names["tables"])
    kept = "const" if values.own else names["kept"]
    return f"    {kept} struct {names['prefix']}_{values.type} {name} = {{\n        {text}\n    }};\n"


@jinja2.pass_context
def _fixed(names: jinja2.runtime.Context, name: str, values: Struct, more: str = "") -> str:
    """The same outside of functions, with ``more`` fields in front; it has no tables that may lie elsewhere."""
    prefix = names["prefix"]
    head = f"{prefix.upper()}_CONST_ATTR static const struct {prefix}_{values.type} {name}"
    return f"{head} = {{\n    {more}{struct(values, names['tables'])}\n}};\n"


@jinja2.pass_context
def _filled_in(
    names: jinja2.runtime.Context,
    text: str,
    numbers: Mapping[str, float],
    places: Mapping[str, str] | None = None,
) -> str:
    """C with its blanks filled in, which are places of elements, numbers or tables, and with a model's prefix."""
    tables = names["tables"]
    written = {name: literal(names.get(name, value)) for name, value in numbers.items()}
    blanks = {**tables, **written, **(places or {})}
    return named(_GIVEN.sub(r"\1", text.format(symbol=names["symbol"], **blanks)), names["prefix"])


def filled(template: str, context: Mapping[str, object]) -> str:
    """A file that goes with the generated ones, by its template: NAME.c for NAME.c.jinja."""
    text = environment().get_template(f"{template}.jinja").render(context)
    return folded(text) if template.endswith((".c", ".h", ".ino")) else text


@cache
def library(isa: str) -> Library:
    """The C functions that kernels call, with the assembly of an instruction set."""
    texts = (with_twins(name, (templates() / "library" / name).read_text(encoding="ascii")) for name in FILES)
    return Library(for_isa(text, isa) for text in texts)


def needed(plan: Plan, texts: Sequence[str], names: Iterable[str] = ()) -> list[str]:
    """The functions of the library that the texts of a plan's file call, or that are named."""
    return library(TARGETS[plan.options.target].isa).needed(texts, plan.prefix, names)


def _stream(plan: Plan, stream: Stream, hashed: Mapping[str, str]) -> str:
    """The function that runs layers row by row."""
    return environment().get_template("stream.c.jinja").render(names_of(stream_context(plan, stream, hashed)))


def bodies(plan: Plan) -> list[str]:
    """The functions of each node; one that several share stands before the first of them."""
    texts = [_body(plan, call) for call in plan.calls]
    for function in plan.shared:
        indices = [index for index, call in enumerate(plan.calls) if call.shared == function]
        text = with_layer(same([texts[index] for index in indices], function), function, plan.prefix)
        for index in indices:
            texts[index] = layer(plan, plan.calls[index], text)
        texts[indices[0]] = f"{declared(function, plan.prefix)}\n\n{text}\n{texts[indices[0]]}"
    return texts


def _body(plan: Plan, call: Call) -> str:
    """A node's functions, without its tables, or those that it shares."""
    template = environment().get_template(call.template)
    tables = tables_of(plan, call)
    text = template.render(
        _with_numbers(names_of(call.context), call, tables),
        prefix=plan.prefix,
        symbol=call.symbol if call.shared is None else call.shared.symbol,
        tables=tables,
        kept=kept(plan),
        op=call.op,
        layer_type="" if call.shared is None else struct_of(call.shared),
    )
    return text.replace("{\n\n", "{\n")  # of a function without numbers


def _with_numbers(names: dict[str, object], call: Call, tables: Mapping[str, str]) -> dict[str, object]:
    """The names of a template, with those numbers that are in tables of one element."""
    numbers = {each.role: LayerField(f"{tables[each.role]}[0]") for each in call.tables if each.is_number}
    output = names.get("output")
    if Y_ZERO_POINT in numbers and isinstance(output, Output):
        names["output"] = replace(output, zero_point=numbers.pop(Y_ZERO_POINT))
    return names | numbers
