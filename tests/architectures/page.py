"""docs/networks.md: the table of networks, and in a line each why some are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from architectures.networks import NETWORKS, PUBLISHED
from qcgen.arithmetic import meant_text
from qcgen.cli.terminal import number, table

if TYPE_CHECKING:
    from architectures.oracle import Verdict

HEAD = ("network", "form", "verdict", "outputs", "differ", "constants", "arena", "left in float")


@dataclass(frozen=True)
class Row:
    """A network in one form, up to the tensors in ``cut`` if there are any."""

    name: str
    form: str
    verdict: Verdict
    cut: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The name, with a mark where it is cut."""
        return f"{self.name}, cut" if self.cut else self.name

    @property
    def line(self) -> str:
        """All that is known, for a terminal."""
        verdict = self.verdict
        if verdict.refusal:
            return f"{self.title}, {self.form}: refused, {verdict.problems} problems: {verdict.refusal}"
        figures = f"{verdict.differ} of {verdict.outputs} differ, at most by {verdict.most:g}, {verdict.beyond} beyond"
        return f"{self.title}, {self.form}: {verdict.word}; {figures}; float: {', '.join(verdict.floats) or 'none'}"


def _cells(row: Row) -> tuple[str, ...]:
    verdict = row.verdict
    if verdict.refusal:
        return (row.title, row.form, "refused", *[""] * 5)
    counts = Counter(verdict.floats)
    floats = ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())
    figures = (verdict.outputs, verdict.differ, verdict.constants, verdict.arena)
    return (row.title, row.form, verdict.word, *map(number, figures), floats)


def summary(rows: Sequence[Row]) -> str:
    """How many networks compile, and how many are exact."""
    whole = [row for row in rows if not row.cut]
    names = {row.name for row in whole}
    forms = dict.fromkeys(row.form for row in whole)
    by_form = [f"{form}: {_counts([row for row in whole if row.form == form])}" for form in forms]
    compiled = {row.name for row in whole if not row.verdict.refusal}
    files = len(names & PUBLISHED.keys())
    lines = [
        f"{len(compiled)} of {len(names)} networks compile in one form at least.",
        f"{len(compiled - PUBLISHED.keys())} of {len(names) - files} that have their names from scripts, and"
        f" {len(compiled & PUBLISHED.keys())} of {files} that stand for published files.",
        *by_form,
    ]
    return "\n".join(lines)


def _counts(rows: Sequence[Row]) -> str:
    words = Counter(row.verdict.word for row in rows)
    return ", ".join(
        f"{words[word]} {word}" for word in ("exact", "within tolerance", "differs", "refused") if words[word]
    )


def page(rows: Sequence[Row]) -> str:
    """The document."""
    reasons = "\n".join(
        f"* **{row.title}**, {row.form}: {row.verdict.refusal.splitlines()[0]}" for row in rows if row.verdict.refusal
    )
    cuts = "\n".join(f"* **{row.name}**, {row.form}: `{', '.join(row.cut)}`" for row in rows if row.cut)
    return TEXT.format(
        count=len(NETWORKS),
        published=len(PUBLISHED),
        oracle=meant_text("onnxruntime"),
        summary="\n".join(f"* {line}" for line in summary(rows).splitlines()),
        table=table(HEAD, [_cells(row) for row in rows], right=HEAD[3:7]),
        reasons=reasons or "None.",
        cuts=cuts or "None.",
    )


TEXT = """\
# Networks

`make networks-2026` writes this page. The scripts in `tests/architectures` build {count} networks of kinds that people
put on microcontrollers, small and with random weights. onnxruntime.quantization quantizes each in both static forms,
int8 with a scale for every output channel, and dynamically; the C is built for this machine and runs beside
onnxruntime on random inputs. {published} of the names are names of published files, which are not here: what is
called so is a network of the same operators, smaller. Weights are random: nothing here tells of accuracy.

Compared with {oracle}.

{summary}

*exact*: all outputs are equal, bit for bit. *within tolerance*: some numbers that are computed in float32 differ by
rounding errors that `qcgen verify` allows. *differs*: by more, or codes differ behind float32 numbers. The last column
names operators that compute in float32, as onnxruntime does.

```text
{table}
```

## Refused

{reasons}

## Cut

Compiled up to these tensors, with `--output`:

{cuts}
"""
