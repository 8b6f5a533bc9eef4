"""The functions in a text of C that templates printed, as objects, and what becomes of those that layers share.

Templates print a function as ``head name(parameters)``, its braces at the beginning of lines. No other module looks for
functions in C.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from qcgen.ir.context import own
from qcgen.ir.plan import Call, Field, Plan, SharedFunction, table_at
from qcgen.render.c_text import comment, int32

_DEFINITION = re.compile(r"^(\w[^;{}()=#]*?)(\w+)\(([^;{}]*)\)\n\{\n(.*?)^\}\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class CFunction:
    r"""A function: ``head`` is what stands before its name, ``listed`` what stands between its parentheses.

    >>> [function] = functions("/* Doubles. */\nstatic inline int f(int x,\n    int y[])\n{\n    return 2 * x;\n}\n")
    >>> function.head, function.name, function.parameters, function.arguments, function.returns
    ('static inline int ', 'f', ('int x', 'int y[]'), ('x', 'y'), 'int')
    """

    head: str
    name: str
    listed: str
    body: str

    @property
    def parameters(self) -> tuple[str, ...]:
        """The declaration of each parameter."""
        return tuple(" ".join(self.listed.split()).split(", "))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(re.findall(r"\w+", parameter)[-1] for parameter in self.parameters)

    @property
    def returns(self) -> str:
        """The type of the result."""
        return self.head.split()[-1]

    @property
    def text(self) -> str:
        """The function as C."""
        return f"{self.head}{self.name}({self.listed})\n{{\n{self.body}}}\n"


def functions(text: str) -> list[CFunction]:
    """The functions of a text, in order."""
    return [CFunction(*found.groups()) for found in _DEFINITION.finditer(text)]


def changed(text: str, change: Callable[[CFunction], str]) -> str:
    """The text with what ``change`` makes of each function in its place."""
    return _DEFINITION.sub(lambda found: change(CFunction(*found.groups())), text)


def placeable(source: str, prefix: str) -> str:
    r"""A source whose functions have PREFIX_CODE_ATTR in front, which the user may define.

    >>> print(placeable("static int f(int x)\n{\n    return x;\n}\nstatic const int t[] = {\n    1\n};\n", "n"))
    N_CODE_ATTR static int f(int x)
    {
        return x;
    }
    static const int t[] = {
        1
    };
    <BLANKLINE>
    """
    own = prefix.upper()
    with_attribute = (f"{own}_NOINLINE", f"{own}_SHARED", f"{own}_INLINE", f"{own}_OS_INLINE")

    def placed(function: CFunction) -> str:
        has_one = any(word in with_attribute for word in function.head.split())
        return function.text if has_one else f"{own}_CODE_ATTR {function.text}"

    return changed(source, placed)


# Functions that layers share: each gets the struct of a layer, from which it takes the layer's tables and numbers.


def kept(plan: Plan) -> str:
    """How the struct of a layer is declared: it is constant, unless its tables may lie elsewhere in each call."""
    return f"{plan.prefix.upper()}_CONST_ATTR static const" if plan.options.weights is None else "const"


def struct_of(shared: SharedFunction) -> str:
    """The type of what a layer has for itself."""
    return f"struct {shared.symbol}"


def declared(shared: SharedFunction, prefix: str) -> str:
    """The declaration of this type."""
    lines = dict.fromkeys(f"    {_member(each, prefix)};" for each in shared.fields)
    return "\n".join([f"{struct_of(shared)} {{", *lines, "};"])


def _member(field: Field, prefix: str) -> str:
    if field.is_table:
        return f"const {field.c_type} *{field.name}"
    struct, dot, _ = field.name.partition(".")
    return f"struct {prefix}_{struct} {struct}" if dot else f"{field.c_type} {field.name}"


def tables_of(plan: Plan, call: Call) -> dict[str, str]:
    """How the text of a call's function names its tables, by their roles."""
    if call.shared is None:
        return {table.role: table_at(table.symbol, plan.prefix, plan.options) for table in call.tables}
    return {each.name: own(each.name) for each in call.shared.fields if each.is_table}


def with_layer(text: str, shared: SharedFunction, prefix: str) -> str:
    """The text of a function that layers share, and of those that it calls: all that need the layer get it.

    Those are the functions that name one of its fields, and those that call one of them, which stand behind it. What
    must stand alone for its registers must not be copied for each layer either.
    """
    for name, value in shared.literals:
        text = text if value else re.sub(rf" \+ {re.escape(own(name))}\b", "", text)
        text = re.sub(rf"{re.escape(own(name))}\b", int32(value), text)
    parameter = f"const {struct_of(shared)} *layer"
    given: set[str] = set()

    def passed(function: CFunction) -> str:
        body = _called(function.body, given)
        is_named = body != function.body or "layer->" in body or "(layer, " in body
        is_own = is_named and "*const layer = " not in body  # which it is handed
        listed = f"{parameter}, {function.listed.lstrip()}" if is_own else function.listed
        head = function.head.replace(f"{prefix.upper()}_NOINLINE ", f"{prefix.upper()}_SHARED ")
        if function.name == shared.symbol:
            head = f"{prefix.upper()}_SHARED {function.head}"
        if is_own:
            given.add(function.name)
        return CFunction(head, function.name, listed, body).text

    return changed(text, passed)


def _called(body: str, given: set[str]) -> str:
    """A function's body that passes the layer on to the functions that are ``given`` one."""
    if not given:
        return body
    return re.sub(rf"\b({'|'.join(sorted(given))})\((\s*)", r"\1(\2layer, ", body)


def layer(plan: Plan, call: Call, text: str) -> str:
    """The function of one layer: calls the function that it shares, whose ``text`` it is, with what is its own."""
    shared = call.shared
    assert shared is not None, "the layer has a function of its own"
    [function] = [each for each in functions(text) if each.name == shared.symbol]
    _, *parameters = function.parameters
    _, *names = function.arguments
    values = [f"        .{name} = {value}," for name, value in _values(plan, call).items()]
    return "\n".join(
        [
            comment(f"{call.op.name}: {call.op.op_type}, by {shared.symbol}."),
            f"static void {call.symbol}({', '.join(parameters)})",
            "{",
            f"    {kept(plan)} {struct_of(shared)} layer = {{",
            *values,
            "    };",
            "",
            f"    {shared.symbol}({', '.join(['&layer', *names])});",
            "}",
            "",
        ]
    )


def _values(plan: Plan, call: Call) -> Mapping[str, str]:
    """What a layer has for itself, as C; tables that it does not need are left out."""
    assert call.shared is not None
    tables = {table.role: table_at(table.symbol, plan.prefix, plan.options) for table in call.tables}
    values = {each.name: tables.get(each.name) for each in call.shared.fields if each.is_table}
    known = {name: value for name, value in values.items() if value is not None}
    return known | {name: str(number) for name, number in call.numbers.items()}


def same(texts: Sequence[str], shared: SharedFunction) -> str:
    """The text of a function as each of its layers has it, which must be the same."""
    if len(set(texts)) != 1:
        raise AssertionError(f"{shared.symbol} is not the same function for {', '.join(shared.nodes)}")
    return texts[0]
