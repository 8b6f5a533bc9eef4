"""Parameters of which make test takes some, and make test-all every one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest


def some_at_first(values: Iterable[object], *some: object) -> list[object]:
    """The values, of which make test takes ``some``, the first if none is given, and make test-all every one."""
    first, *others = values
    some = some or (first,)
    return [value if value in some else pytest.param(value, marks=pytest.mark.all) for value in (first, *others)]


def share_at_first(values: Sequence[object], step: int = 3) -> list[object]:
    """The values, of which make test takes every ``step``-th one, and make test-all every one."""
    marks = pytest.mark.all
    return [value if i % step == 0 else pytest.param(value, marks=marks) for i, value in enumerate(values)]
