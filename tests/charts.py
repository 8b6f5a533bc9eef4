"""The charts of README.md as SVG: bars with their values, on a card of their own that follows light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from figures import LARGE, MILLION, WAYS, Figures

WIDTH, LEFT, BAR, STEP, GAP, RIGHT = 800, 390, 16, 22, 16, 90
TOP = 74
BOARD = "stm32l4r5"
SCALE = "shorter is better; each network has its own scale"

STYLE = """\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:13px;fill:#1f2328}
.title{font-size:16px;font-weight:600}.group{font-weight:600}.note,.label{fill:#59636e}
.card{fill:#fff;stroke:#d1d9e0}.own{fill:#0969da}.other{fill:#afb8c1}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.note,.label{fill:#9198a1}
.card{fill:#0d1117;stroke:#3d444d}.own{fill:#4493f8}.other{fill:#565e67}}"""


@dataclass(frozen=True)
class Bar:
    """A bar: what it stands for, its length, and how its value is written; ``own``: qcgen's."""

    label: str
    value: float
    text: str
    own: bool


@dataclass(frozen=True)
class Group:
    """Bars to one scale."""

    title: str
    bars: Sequence[Bar]


def chart(title: str, note: str, groups: Sequence[Group]) -> str:
    """The SVG; the longest bar of each group takes the whole width."""
    parts, y = [], TOP
    for group in groups:
        parts.append(f'<text class="group" x="20" y="{y + 13}">{escape(group.title)}</text>')
        longest = max(bar.value for bar in group.bars)
        for bar in group.bars:
            length = max(1, round(bar.value / longest * (WIDTH - LEFT - RIGHT)))
            parts += [
                f'<text class="label" x="{LEFT - 10}" y="{y + 13}" text-anchor="end">{escape(bar.label)}</text>',
                f'<rect class="{"own" if bar.own else "other"}" x="{LEFT}" y="{y}" width="{length}" height="{BAR}"/>',
                f'<text x="{LEFT + length + 8}" y="{y + 13}">{escape(bar.text)}</text>',
            ]
            y += STEP
        y += GAP
    height = y + 4
    spoken = "; ".join(
        f"{group.title}: " + ", ".join(f"{bar.label} {bar.text}" for bar in group.bars) for group in groups
    )
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title><desc id="desc">{escape(spoken)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
        f'<text class="title" x="20" y="31">{escape(title)}</text>',
        f'<text class="note" x="20" y="52">{escape(note)}</text>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def cycles(figures: Figures) -> str:
    """One inference on the board of the MLPerf Tiny records."""
    groups = [
        Group(
            network.name,
            (
                _cycles("qcgen, estimate", network.cycles[BOARD, "speed"], own=True),
                _cycles("record, measured", network.record),
                _cycles("microTVM with CMSIS-NN, measured", network.published),
            ),
        )
        for network in figures.networks
    ]
    title = f"Cycles of one inference on a Cortex-M4 (STM32L4R5, {figures.megahertz[BOARD]} MHz)"
    return chart(title, f"MLPerf Tiny, --optimize speed; {SCALE}", groups)


def memory(figures: Figures) -> str:
    """RAM in all: arena, inputs and outputs."""
    rams = {network.name: network.ram for network in figures.networks if len(network.ram) == len(WAYS)}
    groups = [Group(name, _ways(ram)) for name, ram in rams.items()]
    engine = Bar("TinyEngine, published", figures.tiny_engine, _bytes(figures.tiny_engine), own=False)
    groups.append(Group(LARGE, (*_ways(figures.large_ram), engine)))
    return chart("RAM of one inference", f"Arena, inputs and outputs; {SCALE}", groups)


def _ways(ram: dict[str, int]) -> list[Bar]:
    return [Bar(f"qcgen, {label.strip('`')}", ram[way], _bytes(ram[way]), own=True) for way, label in WAYS.items()]


def _cycles(label: str, count: int, *, own: bool = False) -> Bar:
    return Bar(label, count, f"{_three(count / MILLION)} M", own)


def _bytes(count: int) -> str:
    return f"{_three(count / 1000)} KB"


def _three(value: float) -> str:
    """With three digits that count, the last zeros too."""
    return f"{value:#.3g}".rstrip(".")


CHARTS = {"cycles.svg": cycles, "memory.svg": memory}
"""The charts by the names of their files in docs/charts."""
