"""How rows of depthwise outputs are summed column by column: what is read of the image serves all its sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from qcgen.kernels.plane import PlaneAxis, beyond_taps, first_taps

MIN_STEPS = {"size": 3, "speed": 9}  # outputs in a loop, at least
MAX_WRITTEN = {"size": 6, "speed": 9}  # outputs of a row that are written out without a loop

Tap = tuple[int, int]  # row and column of the kernel


@dataclass(frozen=True)
class ColumnWords:
    """The taps of a kernel, two in a word: rows two by two, then of a last odd row two columns in a word."""

    height: int
    width: int

    @property
    def words(self) -> tuple[tuple[Tap, Tap | None], ...]:
        """The taps in the lower and in the upper half of each word, None for a half that is zero."""
        pairs = [((y, k), (y + 1, k)) for y in range(0, self.height - 1, 2) for k in range(self.width)]
        last = self.height - 1
        odd = range(0, self.width, 2) if self.height % 2 else ()
        return (*pairs, *(((last, k), (last, k + 1) if k + 1 < self.width else None) for k in odd))

    def is_pair(self, y: int) -> bool:
        """Whether row ``y`` shares its words with the next one."""
        return y % 2 == 0 and y + 1 < self.height

    def place(self, tap: Tap) -> tuple[int, str]:
        """The word that holds a tap, and in which half."""
        [found] = [(i, pair.index(tap)) for i, pair in enumerate(self.words) if tap in pair]
        return found[0], ("low", "high")[found[1]]


@dataclass(frozen=True)
class Value:
    """What is read of a column: one row of the image or a pair of two; ``rows`` count from the first that is read."""

    name: str
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Product:
    """``sum`` = the product of ``value`` with word ``weight`` by the primitive ``by``, plus ``addend``."""

    sum: str
    by: str
    value: str
    weight: int
    addend: str


@dataclass(frozen=True)
class Column:
    """A column of the image and its products; ``index`` is None for one of zero points outside."""

    index: int | None
    products: tuple[Product, ...]


@dataclass(frozen=True)
class Step:
    """The columns that complete an output, the one with number ``output``; ``sum`` is its sum, in C."""

    columns: tuple[Column, ...]
    sum: str
    output: int


@dataclass(frozen=True)
class Part:
    """``count`` rounds of ``steps``, each ``columns`` of the image and ``outputs`` further on."""

    steps: tuple[Step, ...]
    count: int
    columns: int
    outputs: int


@dataclass(frozen=True)
class Section:
    """``count`` rows of outputs, from row ``number`` on, whose windows have the same rows on the image.

    The first of them reads ``values`` from row ``first`` of the image on. ``lost``: primitive and word of weights of
    the products with the zero point that stand for the taps outside.
    """

    number: int
    count: int
    first: int
    values: tuple[Value, ...]
    lost: tuple[tuple[str, int], ...]
    parts: tuple[Part, ...]

    @property
    def is_looped(self) -> bool:
        """Whether there is a loop along a row."""
        return any(part.count > 1 for part in self.parts)

    @property
    def reads(self) -> bool:
        """Whether anything is read of the image."""
        return any(c.index is not None for part in self.parts for step in part.steps for c in step.columns)

    @property
    def has_outside(self) -> bool:
        """Whether sums hold products of taps outside the image."""
        columns = [column for part in self.parts for step in part.steps for column in step.columns]
        return bool(self.lost) or any(c.index is None and any(p.by for p in c.products) for c in columns)

    @property
    def column_instructions(self) -> int:
        """What loading a column takes."""
        return sum(2 * len(value.rows) - 1 for value in self.values)


def instructions(section: Section, part: Part) -> int:
    """Of a round: loads, pairing of what was loaded, products."""
    columns = [column for step in part.steps for column in step.columns]
    inside = sum(column.index is not None for column in columns)
    return inside * section.column_instructions + sum(len(column.products) for column in columns)


def alive(width: PlaneAxis) -> int:
    """How many sums grow at the same time."""
    return min((width.span - 1) // width.stride + 1, width.output)


@dataclass(frozen=True)
class Planner:
    """What the sections of a convolution have in common; ``has_zero_point``: what lies outside contributes to sums."""

    height: PlaneAxis
    width: PlaneAxis
    has_zero_point: bool
    optimize: str

    @property
    def words(self) -> ColumnWords:
        """The kernel."""
        return ColumnWords(self.height.kernel, self.width.kernel)

    def sections(self) -> tuple[Section, ...]:
        """All rows of outputs."""
        both = zip(first_taps(self.height), beyond_taps(self.height), strict=True)
        cuts = [range(top, bottom) if top < bottom else range(0) for top, bottom in both]
        found, number = [], 0
        for taps, run in groupby(cuts):
            count = len(list(run))
            found.append(self._section(number, count, taps))
            number += count
        return tuple(found)

    def _section(self, number: int, count: int, taps: range) -> Section:
        """``count`` rows from ``number`` on, with these rows of the kernel on the image."""
        dilation = self.height.dilation
        values, products = self._values(taps)
        values = tuple(replace(v, rows=tuple((y - taps.start) * dilation for y in v.rows)) for v in values)
        first = number * self.height.stride - self.height.pad + taps.start * dilation if taps else 0
        lost = tuple(self._lost(taps)) if self.has_zero_point else ()
        return Section(number, count, first, values, lost, tuple(self._parts(self._steps(products))))

    def _values(self, taps: range) -> tuple[tuple[Value, ...], Products]:
        """What is read of each column, by rows of the kernel, and what it is multiplied with."""
        values: list[Value] = []
        products: Products = {k: [] for k in range(self.width.kernel)}
        left = list(taps)
        while left:
            y, name = left.pop(0), f"x{len(values)}"
            is_pair = self.words.is_pair(y) and y + 1 in left
            values.append(Value(name, (y, left.pop(0)) if is_pair else (y,)))
            for k, found in products.items():
                weight, half = self.words.place((y, k))
                found.append(("dot" if is_pair else f"low_by_{half}", name, weight))
        return tuple(values), products

    def _lost(self, taps: range) -> Iterator[tuple[str, int]]:
        for weight, pair in enumerate(self.words.words):
            low, high = (tap is not None and tap[0] not in taps for tap in pair)
            if low or high:
                yield "dot" if low and high else "low_by_low" if low else "low_by_high", weight

    def _steps(self, products: Products) -> list[Step]:
        """Each output of a row with the columns that were not read before."""
        width, found, started = self.width, [], set[int]()
        behind = -width.pad
        for output in range(width.output):
            end = output * width.stride - width.pad + width.span
            columns = [self._column(index, products, started) for index in range(behind, end)]
            behind = max(behind, end)
            if output not in started:  # no tap is on the image
                columns.append(Column(None, (Product(self._sum(output), "", "", 0, "bias"),)))
            found.append(Step(tuple(c for c in columns if c.products), self._sum(output), output))
        return found

    def _sum(self, output: int) -> str:
        return f"sum{output % alive(self.width)}"

    def _column(self, index: int, products: Products, started: set[int]) -> Column:
        """A column and its products, those of the oldest sum first."""
        width, found = self.width, []
        is_inside = 0 <= index < width.input
        for output in range(width.output if is_inside or self.has_zero_point else 0):
            tap, rest = divmod(index + width.pad - output * width.stride, width.dilation)
            for by, value, weight in () if rest else products.get(tap, ()):
                own = self._sum(output)
                found.append(Product(own, by, value, weight, own if output in started else "bias"))
                started.add(output)
        return Column(index if is_inside else None, tuple(found))

    def _parts(self, steps: list[Step]) -> Iterator[Part]:
        """Steps in a loop, where enough of them are alike, and those before and behind it."""
        stride, names = self.width.stride, alive(self.width)
        period = -(-MIN_STEPS[self.optimize] // names) * names
        run = self._alike(steps)
        count = len(run) // period
        if len(steps) <= MAX_WRITTEN[self.optimize] or count < 2:
            yield Part(tuple(steps), 1, 0, 0)
            return
        beyond = run.start + count * period
        if run.start:
            yield Part(tuple(steps[: run.start]), 1, 0, 0)
        yield Part(tuple(steps[run.start : run.start + period]), count, period * stride, period)
        if steps[beyond:]:
            moved = (_moved(step, count * period * stride, count * period) for step in steps[beyond:])
            yield Part(tuple(moved), 1, 0, 0)

    def _alike(self, steps: list[Step]) -> range:
        """The longest run of steps on the image that differ only in where they are."""
        names = alive(self.width)

        def form(step: Step) -> object:
            turned = {f"sum{i}": (i - step.output) % names for i in range(names)} | {"bias": names}
            return tuple(
                (
                    c.index is None or c.index - step.output * self.width.stride,
                    *((turned[p.sum], p.by, p.value, p.weight, turned[p.addend]) for p in c.products),
                )
                for c in step.columns
            )

        runs, begin = [range(0)], 0
        for _, run in groupby(steps, key=form):
            end = begin + len(list(run))
            if all(column.index is not None for column in steps[begin].columns):
                runs.append(range(begin, end))
            begin = end
        return max(runs, key=len)


Products = dict[int, list[tuple[str, str, int]]]
"""What a column is multiplied with, by the column of the kernel: primitive, value, word of weights."""


def _moved(step: Step, columns: int, outputs: int) -> Step:
    """A step behind a loop, where pointers have moved on."""
    moved = (c if c.index is None else replace(c, index=c.index - columns) for c in step.columns)
    return Step(tuple(moved), step.sum, step.output - outputs)
