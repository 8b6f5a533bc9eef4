"""Where functions go: each has an attribute that the user may define."""

from __future__ import annotations

import re

_HEAD = re.compile(r"^(?!\w+_(?:NOINLINE|SHARED) )(?!static \w+_INLINE )(?=\w[^;{}()=#]*\([^;{}]*\)\n\{)", re.MULTILINE)
"""Where a function begins, unless its head has a macro of library/compiler.h, which holds the attribute."""


def placeable(source: str, prefix: str) -> str:
    """A source whose functions have PREFIX_CODE_ATTR in front.

    >>> print(placeable("static int f(int x)\\n{\\n    return x;\\n}\\nstatic const int t[] = {\\n    1\\n};\\n", "n"))
    N_CODE_ATTR static int f(int x)
    {
        return x;
    }
    static const int t[] = {
        1
    };
    <BLANKLINE>
    """
    return _HEAD.sub(f"{prefix.upper()}_CODE_ATTR ", source)
