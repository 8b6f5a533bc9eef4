"""Templates show what kernels decided: they use every name they are given, no other, and compute nothing."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import get_args, get_type_hints

import jinja2
import network_units
import pytest
from batch import unit
from cases import CASES
from cases_arm_dsp import SHAPES
from cases_arm_mve import CONVOLUTIONS, DENSES
from cases_host import CASES as HOST_CASES
from cases_mve_depthwise import DEPTHWISE
from cases_scalar import SHAPES as SCALAR_SHAPES
from cases_tiles import TILES, TILES_OF_BYTES, tiled
from gallery_networks import dynamic_in_rows
from jinja2 import meta, nodes
from network_cases import UNITS
from row_networks import residual

import qcgen
from qcgen.ir.context import Context, LayerField, names_of
from qcgen.kernels import COMMON_NAMES, KERNELS, TRANSFORMING_MORE, Kernel
from qcgen.kernels.arm_dsp.winograd import WINOGRAD_IN_RAM
from qcgen.kernels.windows import Axis
from qcgen.render import environment, templates
from qcgen.render.model import ModelContext, SelfTestContext, StreamContext

ARITHMETIC = (
    nodes.Add,
    nodes.Sub,
    nodes.Mul,
    nodes.Div,
    nodes.FloorDiv,
    nodes.Mod,
    nodes.Pow,
    nodes.Neg,
    nodes.Pos,
)
FILTERS = {
    # C from values
    "arguments",
    "code_of",
    "comment",
    "extent",
    "int32",
    "int64",
    "one_line",
    "place",
    "real",
    "rows",
    "rows_at",
    "uint32",
    # text and order
    "format",
    "indent",
    "items",
    "join",
    "last",
    "length",
    "map",
    "trim",
    "reverse",
    "upper",
}
TEMPLATES = sorted(path.relative_to(templates()).as_posix() for path in templates().rglob("*.jinja"))
every_template = pytest.mark.parametrize("name", TEMPLATES)
SHARE = 11  # make test takes one of so many cases of convolutions

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


def source(name: str) -> str:
    return (templates() / name).read_text()


@cache
def tree(name: str) -> nodes.Template:
    return environment().parse(source(name))


def closure(name: str) -> set[str]:
    """The template and everything that it extends, includes or imports."""
    found, waiting = set(), [name]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            referred = list(meta.find_referenced_templates(tree(each)))
            assert None not in referred, f"{each} computes the name of a template"
            waiting += [other for other in referred if other]
    return found


def names_used(name: str) -> set[str]:
    """Names that must be given, less those that templates set or import for each other."""
    used: set[str] = set()
    made: set[str] = set()
    for each in closure(name):
        ast = tree(each)
        used |= meta.find_undeclared_variables(ast)
        for node in ast.body:
            if isinstance(node, nodes.Assign):
                made |= {name.name for name in node.target.find_all(nodes.Name)} | {getattr(node.target, "name", "")}
            elif isinstance(node, nodes.Macro):
                made.add(node.name)
            elif isinstance(node, nodes.FromImport):
                made |= {name if isinstance(name, str) else name[1] for name in node.names}
    return used - made


@dataclass(frozen=True)
class Use:
    """A template filled in for an operator: what its kernel gave, and what every template gets."""

    name: str
    context: Context
    common: Mapping[str, object]

    @property
    def names(self) -> dict[str, object]:
        return {**names_of(self.context), **self.common}


def common(op, prefix, symbol, tables):
    """The names that every template gets; ``tables`` have roles."""
    roles = {t.role: f"{symbol}_{t.role}" for t in tables}
    given = {"prefix": prefix, "symbol": symbol, "tables": roles, "op": op}
    return {**given, "kept": "static const", "layer_type": ""}


def declared_names(kind: type[Context]) -> list[str]:
    """The names that a template may use, by the fields of its context's type and those of its parts."""
    types = get_type_hints(kind)
    found = []
    for field in fields(kind):
        is_part = isinstance(types[field.name], type) and issubclass(types[field.name], Context)
        found += declared_names(types[field.name]) if is_part else [field.name]
    return found


@pytest.fixture(scope="module")
def uses(everything) -> dict[str, list[Use]]:
    """Cases of convolutions in both layouts and for both aims, and all units of other operators, by kernel."""
    found: dict[str, list[Use]] = {kernel.name: [] for kernel in KERNELS}
    settings = [(case, layout, "portable") for case in CASES for layout in ("nhwc", "nchw")]
    settings += [(case, "nhwc", "cortex-m55") for case in (*DEPTHWISE, *CONVOLUTIONS, *DENSES)]
    settings += [(case, "nhwc", "cortex-m4") for case in (*CASES, *SHAPES, *TILES)]
    settings += [(case, "nhwc", core) for core in ("cortex-m0", "cortex-m3") for case in CASES]
    settings += [(case, "nhwc", core) for case in SCALAR_SHAPES for core in ("cortex-m3", "rv32imc")]
    settings += [(case, layout, "host") for case in HOST_CASES for layout in ("nhwc", "nchw")]
    depthwise = [each for each in settings if "depthwise" in each[0].name and each[2] == "cortex-m4"]
    for case, layout, target in settings if everything else (*settings[::SHARE], *depthwise[::6]):
        for optimize in ("size", "speed"):
            plan = unit(case, layout, optimize, target).artifact.plan
            for call in plan.calls:
                given = common(call.op, plan.prefix, call.symbol, call.tables)
                found[call.kernel].append(Use(case.name, call.context, given))
    for case in TILES_OF_BYTES:
        plan = tiled(case, WINOGRAD_IN_RAM, TRANSFORMING_MORE).artifact.plan
        given = common(plan.calls[0].op, plan.prefix, plan.calls[0].symbol, plan.calls[0].tables)
        found[WINOGRAD_IN_RAM.name].append(Use(case.name, plan.calls[0].context, given))
    few = {each.kernel: each for each in UNITS}.values()  # one of each kernel
    for each in UNITS if everything else few:
        packed = each.kernel.prepare(each.op, each.setting)
        given = common(each.op, network_units.PREFIX, each.name, packed.constants)
        found[each.kernel.name].append(Use(each.name, packed.context, given))
    networks = ((residual(), "quantized"), (dynamic_in_rows(averages=True), "model"))
    for in_rows in (qcgen.compile(model, layout="nhwc", io=io, arena="least").plan for model, io in networks):
        for call in (call for stream in in_rows.streams for call in stream.calls):
            given = common(call.op, in_rows.prefix, call.symbol, call.tables)
            found[call.kernel].append(Use(call.op.name, call.context, given))
    return found


def parts_of(kind: type[Context]) -> set[type[Context]]:
    """The type of a context and those of its parts."""
    parts = [each for each in get_type_hints(kind).values() if isinstance(each, type) and issubclass(each, Context)]
    return {kind}.union(*map(parts_of, parts))


def fields_without_meaning(source: str, types: Mapping[str, object]) -> list[str]:
    """Fields of a class without a comment, unless their type tells what they are in a docstring of its own."""
    found = []
    for name, rest in re.findall(r"^    (\w+): (.*)$", source, re.MULTILINE):
        if name in types and "  # " not in rest and members(types[name]) is None and name != "template":
            found.append(name)
    return found


@every_kernel
def test_every_field_of_a_context_says_what_it_is(kernel: Kernel):
    parts = parts_of(kernel.context)
    assert not [
        (part.__name__, name)
        for part in parts
        for name in fields_without_meaning(inspect.getsource(part), get_type_hints(part))
    ]


def test_a_field_without_meaning_is_found():
    source = "    axis: Axis\n    size: int\n    count: int  # of all\n"
    assert fields_without_meaning(source, {"axis": Axis, "size": int, "count": int}) == ["size"]


@every_kernel
def test_a_context_declares_the_names_that_its_template_uses_and_no_other(kernel: Kernel):
    declared = declared_names(kernel.context)
    assert sorted(declared) == sorted(names_used(kernel.template) - COMMON_NAMES)


FILES = {
    ModelContext: ["model.h.jinja", "model.c.jinja", "weights.h.jinja"],
    StreamContext: ["stream.c.jinja"],
    SelfTestContext: ["test.h.jinja", "test.c.jinja"],
}


@pytest.mark.parametrize("context", FILES, ids=lambda context: context.__name__)
def test_what_the_files_show_besides_nodes_is_declared_with_its_meaning_and_used(context: type[Context]):
    used = set().union(*(meta.find_undeclared_variables(tree(name)) for name in FILES[context]))
    declared = set(declared_names(context))
    assert declared <= used
    if context is not SelfTestContext:  # it comes beside a ModelContext
        assert used - declared <= {"name"}
    assert fields_without_meaning(inspect.getsource(context), get_type_hints(context)) == []


def declared_types(kind: type[Context]) -> dict[str, object]:
    """The type of each name that a template may use."""
    found: dict[str, object] = {}
    for name, each in get_type_hints(kind).items():
        if isinstance(each, type) and issubclass(each, Context):
            found |= declared_types(each)
        elif name != "template":
            found[name] = each
    return found


def members(given: object) -> dict[str, object] | None:
    """The types of what a value of a type has; None where nothing is known: of mappings, sequences and numbers."""
    every = get_args(given) if isinstance(given, UnionType) else (given,)
    [kind] = [each for each in every if each not in (type(None), LayerField)] if len(every) > 1 else every
    if not is_dataclass(kind):
        return None
    properties = {name: each for name, each in inspect.getmembers(kind) if isinstance(each, property)}
    others = {name: object for name in dir(kind) if not name.startswith("_")}
    return others | get_type_hints(kind) | {n: get_type_hints(p.fget).get("return") for n, p in properties.items()}


def chains(ast: nodes.Template) -> Iterator[tuple[str, ...]]:
    """The names of attributes that a template follows, such as ("window", "row", "label")."""
    for node in ast.find_all(nodes.Getattr):
        chain, at = [node.attr], node.node
        while isinstance(at, nodes.Getattr):
            chain, at = [at.attr, *chain], at.node
        if isinstance(at, nodes.Name):
            yield (at.name, *chain)


def unknown_attributes(kind: type[Context], ast: nodes.Template) -> list[str]:
    """Attributes in a template that the type of the name which they begin with does not have."""
    types, found = declared_types(kind), []
    for first, *rest in chains(ast):
        known = members(types.get(first))
        for attribute in rest:
            if known is not None and attribute not in known:
                found.append(".".join((first, *rest)))
            known = None if known is None else members(known.get(attribute))
    return found


@every_kernel
def test_a_template_follows_attributes_that_their_types_have(kernel: Kernel):
    assert not [each for name in closure(kernel.template) for each in unknown_attributes(kernel.context, tree(name))]


def test_an_attribute_that_its_type_does_not_have_is_found():
    [conv] = [kernel for kernel in KERNELS if kernel.name == "arm_mve/conv"]
    ast = environment().parse("{{ found.struct.arays }}{{ found.struct.arrays }}{{ blocks.row }}{{ mve.rare }}")
    assert unknown_attributes(conv.context, ast) == ["found.struct.arays", "blocks.row"]


@every_kernel
def test_a_kernel_gives_its_template_the_names_that_its_context_declares(kernel: Kernel, uses):
    assert uses[kernel.name]
    for use in uses[kernel.name]:
        assert type(use.context) is kernel.context, use.name
        assert set(use.names) == {*declared_names(kernel.context), *COMMON_NAMES}, use.name


@every_kernel
def test_a_name_that_is_missing_is_an_error(kernel: Kernel, uses):
    use = uses[kernel.name][0]
    template = environment().get_template(kernel.template)
    assert template.render(use.names)
    with pytest.raises(jinja2.UndefinedError):
        template.render(use.common)
    with pytest.raises(jinja2.UndefinedError):
        template.render({name: value for name, value in use.names.items() if name != "symbol"})


def functions(text: str) -> list[str]:
    """The bodies of the functions of a C text without comments."""
    code = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.findall(r"^\{\n(.*?)^\}", code, re.MULTILINE | re.DOTALL)


def idle_enumerators(body: str) -> list[str]:
    """Those that a function defines and does not use."""
    enums = re.findall(r"\benum \{(.*?)\}", body, re.DOTALL)
    names = [name for enum in enums for name in re.findall(r"(\w+) =", enum)]
    return [name for name in names if len(re.findall(rf"\b{name}\b", body)) < 2]


def test_an_enumerator_that_nothing_uses_is_found():
    [body] = functions("void f(void)\n{\n    enum { A = 1, B = 2 * A, /* C */\n        C = 3 };\n    g(B);\n}\n")
    assert idle_enumerators(body) == ["C"]


@every_kernel
def test_every_enumerator_of_a_function_is_used_in_it(kernel: Kernel, uses):
    template = environment().get_template(kernel.template)
    texts = {template.render(use.names) for use in uses[kernel.name]}
    idle = {name for text in texts for body in functions(text) for name in idle_enumerators(body)}
    assert not idle


@every_template
def test_a_template_computes_nothing(name):
    found = [f"line {node.lineno}: {type(node).__name__}" for node in tree(name).find_all(ARITHMETIC)]
    assert not found, found


@every_template
def test_a_template_decides_no_defaults(name):
    ast = tree(name)
    assert not [node.lineno for node in ast.find_all(nodes.Test) if node.name in ("defined", "undefined")]
    assert {node.name for node in ast.find_all(nodes.Filter)} <= FILTERS


@every_template
def test_control_lines_stand_in_column_0(name):
    lines = source(name).splitlines()
    assert not [line for line in lines if re.fullmatch(r"\s+\{[%#].*[%#]\}\s*", line)]


@every_template
def test_a_template_is_tidy_text(name):
    text = source(name)
    assert text.isascii()
    assert text.endswith("\n")
    assert "\t" not in text
    assert not re.search(r"[ \t]+$", text, re.MULTILINE)


def test_every_template_is_used_by_a_kernel_or_by_the_file():
    reached = {"model.c.jinja", "model.h.jinja", "stream.c.jinja", "test.c.jinja", "test.h.jinja", "report.html.jinja"}
    reached |= {"stack.h.jinja", "vectors.h.jinja", "weights.h.jinja"}
    reached |= {name for name in TEMPLATES if name.startswith("verify/")}  # what qcgen verify adds to the file
    reached |= {name for name in TEMPLATES if name.startswith(("example/", "package/"))}  # files that go with it
    for kernel in KERNELS:
        reached |= closure(kernel.template)
    assert reached == set(TEMPLATES)


def test_templates_are_found_beside_the_package_or_in_it():
    assert (Path(templates()) / "model.c.jinja").is_file()
