"""Rows of codes whose outputs come as close as can be to the steps between codes: searched, as none can be computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from qcgen.ir.program import Float32s
from qcgen.ir.types import Array

NEAR = 2.0**-10
"""A side of a step counts as reached where an output comes so near to it, in codes."""

CLOSE, MOST_CLOSE = 2.0**-15, 2**12
"""Of rows with an output within so much of a step, in codes, so many are kept besides the nearest ones."""

ROUNDS = 6  # of the search
WORK, MOST = 2**18, 2**20  # elements of the rows of a round: so many, or one change of each row up to so many
TRIALS = 2**19  # elements of the rows that are tried for ties

Values = Callable[[Array], Array]
"""Outputs (rows, m) before they are rounded, zero points added, for rows (rows, n) of codes."""


@dataclass
class Nearest:
    """Of all rows that were shown the nearest one to each side of each step between codes ``low`` and ``high``."""

    low: int
    high: int
    distances: Array = field(init=False)
    rows: dict[int, Array] = field(default_factory=dict)
    close: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.distances = np.full(2 * (self.high - self.low), np.inf)

    def show(self, rows: Array, values: Array) -> None:
        """Rows (R, n) with their outputs (R, m)."""
        below = np.floor(values)
        apart = values - (below + 0.5)
        side = 2 * (below - self.low) + (apart >= 0)
        row, place = np.nonzero((below >= self.low) & (below < self.high))
        sides, away = side[row, place].astype(np.int64), np.abs(apart[row, place])
        missing = min(MOST_CLOSE, MOST // rows.shape[1]) - sum(map(len, self.close))
        self.close.append(rows[np.unique(row[away < CLOSE])[: max(missing, 0)]])
        closer = away < self.distances[sides]
        row, sides, away = row[closer], sides[closer], away[closer]
        order = np.lexsort((away, sides))
        first = order[np.unique(sides[order], return_index=True)[1]]
        kept = {int(at): rows[at].copy() for at in np.unique(row[first])}
        for at in first:
            self.distances[sides[at]] = away[at]
            self.rows[int(sides[at])] = kept[int(row[at])]

    def found(self, like: Array) -> Array:
        """The nearest rows, each once, in the type of others."""
        rows = {id(row): row for row in self.rows.values()}
        return np.array(list(rows.values()), like.dtype).reshape(-1, like.shape[1])

    @property
    def sides(self) -> tuple[int, int]:
        """How many sides an output came near, and how many have an output within half a code."""
        return int((self.distances < NEAR).sum()), len(self.rows)


def near_rows(values: Values, start: Array, kinds: Array, nearest: Nearest, generator: np.random.Generator) -> Array:
    """Rows (R, n) near steps: the nearest of ``start``, then of their like with some elements changed, round by round.

    ``kinds`` (R', n) are rows from which changed elements are taken.
    """
    nearest.show(start, values(start))
    for _ in range(ROUNDS):
        parents = generator.permutation(nearest.found(start))[: max(1, MOST // start.shape[1])]
        if not len(parents):
            break
        children = _changed(np.repeat(parents, max(1, WORK // parents.size), axis=0), kinds, generator)
        nearest.show(children, values(children))
    return np.unique(np.concatenate([start, nearest.found(start), *nearest.close]), axis=0)


def _changed(rows: Array, kinds: Array, generator: np.random.Generator) -> Array:
    """The rows (R, n) with one or two elements changed: by little, or to one of ``kinds``."""
    bounds, each = np.iinfo(rows.dtype), np.arange(len(rows))
    for _ in range(2):
        place = generator.integers(0, rows.shape[1], len(rows))
        other = kinds[generator.integers(0, len(kinds), len(rows)), place]
        step = rows[each, place] + generator.integers(-2, 3, len(rows))
        is_step = generator.integers(0, 2, len(rows)) == 0
        rows[each, place] = np.where(is_step, np.clip(step, bounds.min, bounds.max), other)
    return rows


def softmax_rows(table: Float32s, factor: int, length: int, generator: np.random.Generator) -> Array:
    """Rows (R, length) of places in a table of exponentials, the last among them: close to ties, some of them on one.

    A share e * factor / s is in the middle of k and k + 1 where s = 2 * factor * e / (2 k + 1). For such sums s, half
    of them sums that float32 has, the other elements are chosen at random but for two, which are looked up in the sums
    of all pairs.
    """
    if length < 3:
        every = np.stack([np.arange(256), np.full(256, 255)], axis=1)[:, 2 - length :]
        return np.concatenate([every, every[:, ::-1]])
    powers = table.astype(np.float64)
    sums, own = _tie_sums(powers, factor, length, max(2, TRIALS // length), generator)
    rows = np.full((len(sums), length), 255)
    rows[:, 1] = own
    rest = sums - powers[255] - powers[own]
    for place in range(2, length - 2):
        most = np.maximum(rest, 0) / (length - place) * generator.uniform(0, 3, len(rest))
        rows[:, place] = _place(powers, np.minimum(most, rest))
        rest -= powers[rows[:, place]]
    ends = [np.arange(256)] if length == 3 else [end.reshape(-1) for end in np.indices((256, 256))]
    totals = np.asarray(sum(powers[end] for end in ends))
    order = np.argsort(totals, kind="stable")
    at = np.clip(np.searchsorted(totals[order], rest), 1, len(order) - 1)
    at -= generator.integers(0, 2, len(at))  # the pair below or the one above
    for place, end in zip(range(length - len(ends), length), ends, strict=True):
        rows[:, place] = end[order][at]
    return np.sort(rows, axis=1)  # so are the sums rounded least


def _place(powers: Array, most: Array) -> Array:
    """The places of the largest exponentials that are not larger than these numbers, or 0."""
    return np.maximum(np.searchsorted(powers, most, side="right") - 1, 0)


def _tie_sums(
    powers: Array, factor: int, length: int, count: int, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Some sums of rows under which an element's share is a tie, and the element's place in the table."""
    doubled = 2 * np.arange(min(factor, 2**12)) + 1.0
    sums = 2.0 * factor * powers[:, None] / doubled
    is_sum = (sums >= powers[255] + powers[:, None]) & (sums <= length * powers[255])
    with np.errstate(over="ignore"):  # sums beyond float32 are none of a row
        is_exact = sums.astype(np.float32) * doubled == 2.0 * factor * powers[:, None]
    chosen = []
    for each in (is_sum & is_exact, is_sum):
        pairs = np.argwhere(each)
        if len(pairs):
            chosen.append(pairs[generator.integers(0, len(pairs), count // 2)])
    places, which = np.concatenate([np.zeros((0, 2), np.int64), *chosen]).T
    return sums[places, which], places
