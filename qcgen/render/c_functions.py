r"""The functions in a text of C that templates printed, as objects; no other module looks for functions in C.

Templates print a function as ``head name(parameters)``, its braces at the beginning of lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

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
