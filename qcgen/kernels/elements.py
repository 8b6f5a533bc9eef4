"""Functions of elements: in the loops of a nest, what becomes of those in one place of each operand is stored in y."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import Operator
from qcgen.kernels.loop_nest import LoopNest


@dataclass(frozen=True)
class Elements(Context):
    """The node's C function. Texts are C with blanks: {a} is the element of operand a, or the table with that role, and
    {symbol} the function's name.

    Names of the library in them begin with qcgen_ and QCGEN_, as in the library.
    """

    template: ClassVar[str] = "kernels/elements.c.jinja"

    comment: str  # above the function
    is_apart: bool  # it is not inlined
    parameters: str  # of C
    numbers: Mapping[str, float]  # what other blanks stand for; one of the tables' may be in its place
    first: tuple[str, ...]  # lines before the loops
    layer: Struct | None  # of the library, whose address calls take, if there is one
    nest: LoopNest
    pointed: Mapping[str, str]  # what pointers to tensors and tables point to, in C
    inner: tuple[str, ...]  # lines in them
    stored: str  # what becomes of the elements


def elements(
    op: Operator,
    nest: LoopNest,
    types: Mapping[str, str],
    stored: str,
    *,
    what: str = "",
    tables: Collection[str] = (),
    in_place: Collection[int] = (),
    is_apart: bool = False,
    numbers: Mapping[str, float] | None = None,
    first: Iterable[str] = (),
    inner: Iterable[str] = (),
    layer: Struct | None = None,
) -> Elements:
    """The context of an operator; ``types``: those of the elements of operands, of tables in the nest, last of y.

    Operands that are not ``tables`` are parameters; y may lie over those with the numbers in ``in_place``. ``what``:
    how the comment goes on.
    """
    qualified = "*" if in_place else "*restrict "
    pointed = {name: f"const {c_type}" for name, c_type in types.items()} | {"y": types["y"]}
    return Elements(
        comment=f"{op.name}: {op.op_type}{what or '.'}",
        is_apart=is_apart,
        parameters=", ".join(f"{kind} {qualified}{name}" for name, kind in pointed.items() if name not in tables),
        numbers=numbers or {},
        first=(*(f"{pointed[name]} *const {name} = {{{name}}};" for name in tables), *first),
        layer=layer,
        nest=nest,
        pointed=pointed,
        inner=tuple(inner),
        stored=stored,
    )


def bounded(code: str, low: int | None, high: int | None, *, is_branchless: bool = False) -> str:
    """A number in C that is no less than the lowest and no more than the highest; None: no number is.

    >>> bounded("{x}", 0, 255), bounded("{x}", 0, None), bounded("{x}", None, None)
    ('qcgen_bounded({x}, 0, 255)', 'qcgen_larger({x}, 0)', '{x}')
    """
    both, above, below = ("within", "at_least", "at_most") if is_branchless else ("bounded", "larger", "smaller")
    if low is None:
        return code if high is None else f"qcgen_{below}({code}, {high})"
    return f"qcgen_{above}({code}, {low})" if high is None else f"qcgen_{both}({code}, {low}, {high})"
