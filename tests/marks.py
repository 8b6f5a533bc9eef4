"""Parameters of which make test takes some, and make test-all every one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def some_at_first(values: Iterable[object], *some: object) -> list[object]:
    """The values, of which make test takes ``some``, the first if none is given, and make test-all every one."""
    first, *others = values
    some = some or (first,)
    return [value if value in some else pytest.param(value, marks=pytest.mark.all) for value in (first, *others)]
