"""How the outputs of a plane's row are summed: which words of the row are multiplied with which words of weights."""

from __future__ import annotations

from dataclasses import dataclass

from qcgen.kernels.plane import PlaneAxis

MAX_ALONE = 6  # outputs of a row that are summed at the same time if there are no more in the row
PART = 4  # else so many at a time, an even number,
PARTS = 2  # and this twice in a loop


@dataclass(frozen=True)
class Product:
    """``output`` of a group += the product of a word of the row with word ``weight``, by the primitive ``by``."""

    output: int
    by: str
    weight: int


@dataclass(frozen=True)
class Word:
    """A word of a plane's row, counted from where a group starts, and what it is multiplied with."""

    index: int
    products: tuple[Product, ...]


@dataclass(frozen=True)
class Part:
    """Neighbours of a row that are summed at the same time: ``outputs`` of a group, ``words`` that they need."""

    outputs: range
    words: tuple[Word, ...]

    @property
    def twos(self) -> tuple[tuple[Word, ...], ...]:
        """The words two by two where they lie side by side."""
        found: list[tuple[Word, ...]] = []
        for word in self.words:
            if found and len(found[-1]) == 1 and found[-1][0].index + 1 == word.index:
                found[-1] = (found[-1][0], word)
            else:
                found.append((word,))
        return tuple(found)

    @property
    def sums(self) -> tuple[tuple[str, str], ...]:
        """Each sum and where its code goes, in C."""
        return tuple((f"sum{i}", f"out + {i} * CHANNELS" if i else "out") for i in self.outputs)


@dataclass(frozen=True)
class Group:
    """``outputs`` neighbours of a row in ``parts``, one after the other; ``count`` groups, each ``step`` words on."""

    outputs: int
    count: int
    step: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class RowWeights:
    """A row of the kernel as words, each two taps (``low``, ``high``), None for a half that is zero."""

    words: tuple[tuple[int | None, int | None], ...]


def row_weights(width: PlaneAxis) -> RowWeights:
    """The words of a kernel row: neighbours from each even tap on, then from each odd one, if windows start there."""
    taps = width.span

    def tap(t: int) -> int | None:
        return t // width.dilation if t < taps and t % width.dilation == 0 else None

    even: list[tuple[int | None, int | None]] = [(tap(2 * j), tap(2 * j + 1)) for j in range(taps // 2)]
    odd: list[tuple[int | None, int | None]] = []
    if width.stride % 2 == 1 and width.output > 1 and taps > 1:
        odd = [(tap(2 * j + 1), tap(2 * j + 2)) for j in range((taps - 1) // 2)]
    elif taps % 2:
        odd = [(tap(taps - 1), None)]
    return RowWeights((*even, *odd))


def _products(width: PlaneAxis, start: int) -> list[tuple[int, str, int]]:
    """(word of the row, primitive, word of weights) of a window that starts at element ``start``."""
    taps, even = width.span, width.span // 2
    first = start // 2
    if start % 2 == 0:
        found = [(first + j, "dot", j) for j in range(even)]
        if taps % 2:
            has_pairs = width.stride % 2 == 1 and width.output > 1 and taps > 1
            last = even + (taps - 1) // 2 - 1 if has_pairs else even
            found.append((first + even, "low_by_high" if has_pairs else "dot", last))
        return found
    found = [(first, "high_by_low", 0)]
    found += [(first + 1 + j, "dot", even + j) for j in range((taps - 1) // 2)]
    if taps % 2 == 0:
        found.append((first + even, "low_by_high", even - 1))
    return found


def _part(width: PlaneAxis, outputs: range) -> Part:
    words: dict[int, list[Product]] = {}
    for output in outputs:
        for word, by, weight in _products(width, output * width.stride):
            words.setdefault(word, []).append(Product(output, by, weight))
    return Part(outputs, tuple(Word(word, tuple(words[word])) for word in sorted(words)))


def _group(width: PlaneAxis, part: int, parts: int, count: int) -> Group:
    outputs = part * parts
    found = tuple(_part(width, range(first, first + part)) for first in range(0, outputs, part))
    return Group(outputs, count, outputs * width.stride // 2, found)


def groups_of(width: PlaneAxis) -> tuple[Group, ...]:
    """The outputs of a row: all at once if they are few, else in groups and what these leave over."""
    if width.output <= MAX_ALONE:
        return (_group(width, width.output, 1, 1),)
    fours, rest = divmod(width.output, PART)
    groups = [_group(width, PART, PARTS, fours // PARTS)] if fours >= PARTS else []
    if fours % PARTS:
        groups.append(_group(width, PART, fours % PARTS, 1))
    if rest:
        groups.append(_group(width, rest, 1, 1))
    return tuple(groups)


def row_words_of(groups: tuple[Group, ...]) -> int:
    """The words of a plane's row that are read."""
    start, words = 0, 0
    for group in groups:
        words = max(words, start + group.step * (group.count - 1) + group.parts[-1].words[-1].index + 1)
        start += group.step * group.count
    return words
