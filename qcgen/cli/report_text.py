"""Reports as text for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from qcgen.cli.terminal import counted, number, percent, size, table
from qcgen.errors import printable
from qcgen.ir.plan import FlashUse
from qcgen.page import judge_of, parts_of_ram
from qcgen.report import Fallback, Figures, NodeReport, Report
from qcgen.requantize.fixed_point import FORMS

_NAMES = ("node", "operator", "kernel")
_SIZES = ("multiply-adds", "constants", "scratch")
_PROOF = ("accumulator", "requantization")


def node_table(nodes: Sequence[NodeReport], *, is_verbose: bool) -> str:
    """One line for each node; a last line adds up several (scratch is shared: the largest counts).

    ``is_verbose``: with the columns of what is proved.
    """
    head = (*_NAMES, *_SIZES, *_PROOF) if is_verbose else (*_NAMES, *_SIZES)
    rows = [_row(node) for node in nodes]
    if len(nodes) > 1:
        macs, constants = sum(node.macs for node in nodes), sum(node.constant_bytes for node in nodes)
        scratch = max(node.scratch_bytes for node in nodes)
        rows.append(("all", "", "", number(macs), size(constants), size(scratch), "", forms_text(forms(nodes))))
    return table(head, [row[: len(head)] for row in rows], _SIZES, _NAMES)


def _row(node: NodeReport) -> tuple[str, ...]:
    sizes = (number(node.macs), size(node.constant_bytes), size(node.scratch_bytes))
    return (node.name, node.op, node.kernel, *sizes, _interval(node), forms_text(node.requantize) or "-")


def _interval(node: NodeReport) -> str:
    if node.accumulator is None:
        return "float32" if node.arithmetic == "float32" else "-"
    if node.wraps:
        return "modulo 2^32"
    low, high = node.accumulator
    return f"[{number(low)}, {number(high)}]"


def nearest(nodes: Sequence[NodeReport]) -> str:
    """Of each node the last kernel that was rejected before its own, and why: those before it are further off."""
    rows = [(node.name, *list(node.rejected.items())[-1]) for node in nodes if node.rejected]
    head = ("node", "nearest kernel", "rejected, because")
    return table(head, rows, names=head[:2]) if rows else NONE_REJECTED


NONE_REJECTED = "no faster kernel was rejected"


def rejected(nodes: Sequence[NodeReport]) -> str:
    """Which kernels do not serve which nodes, and why, one line for each kernel and reason."""
    concerned: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node in nodes:
        for kernel, reason in node.rejected.items():
            concerned[kernel, reason].append(printable(node.name))
    lines = [
        f"{kernel} was rejected, because {reason}: {', '.join(names)}" for (kernel, reason), names in concerned.items()
    ]
    return "\n".join(lines) or NONE_REJECTED


def packed(nodes: Sequence[NodeReport]) -> str:
    """Which weights lie several to a byte; nothing if none do."""
    by_bits: dict[int, list[str]] = defaultdict(list)
    for node in nodes:
        if node.packed_bits is not None:
            by_bits[node.packed_bits].append(printable(node.name))
    lines = [f"weights of {bits} bits, packed {8 // bits} to a byte: {', '.join(by_bits[bits])}" for bits in by_bits]
    return "\n".join(lines)


def shared(nodes: Sequence[NodeReport]) -> str:
    """Which nodes run through which C function together; nothing if each has its own."""
    groups: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if node.shared_function is not None:
            groups[node.shared_function].append(printable(node.name))
    return "\n".join(f"{function} serves {', '.join(names)}" for function, names in groups.items())


def joined(nodes: Sequence[NodeReport]) -> str:
    """Which nodes are one table together, or in float one loop; nothing if none are."""
    return "\n".join(
        f"one {node.joined_by} computes {', '.join(map(printable, (*node.joined, node.name)))}"
        for node in nodes
        if node.joined
    )


def overlaps(nodes: Sequence[NodeReport]) -> str:
    """Which outputs lie over the inputs they are computed from, and which kernels rule that out."""
    over = [f"{printable(node.name)} ({_distance(node.overlap)})" for node in nodes if node.overlap is not None]
    lines = [f"outputs that lie over the input, bytes before its start: {', '.join(over)}"] if over else []
    without: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if node.kernel != "none" and not node.has_order:
            without[node.kernel].append(printable(node.name))
    text = "tells no order of its reads and writes, so its output lies over no input"
    lines += [f"{kernel} {text}: {', '.join(names)}" for kernel, names in without.items()]
    return "\n".join(lines)


def _distance(distance: int) -> str:
    return f"-{number(-distance)}" if distance < 0 else number(distance)


def last_lines(report: Report, how: str | None, cycles: float) -> list[str]:
    """Flash, RAM, time and exactness, a line each, and how many examples with labels are classified right.

    ``how`` code can be measured, where it was not; ``cycles`` an estimate for the target.
    """
    return [_flash(report, how), ram(report), _time(report, cycles), exactness([report]), *_accuracy(report)]


def _accuracy(report: Report) -> list[str]:
    own = report.accuracy
    if own is None:
        return []
    of = counted(own.examples, "example")
    return [f"accuracy: {own.percent:.1f} %, {number(own.right)} of {of}, by the C on the host"]


def _flash(report: Report, how: str | None) -> str:
    constants = f"constants {size(report.constants_bytes)}"
    if report.flash_bytes is None or report.code_bytes is None:
        return f"flash: {constants}, code not measured: {how}"
    share = f"; {report.board.flash_percent:.1f} % of {report.board.board}" if report.board else ""
    return f"flash: {size(report.flash_bytes)}: {constants}, code {size(report.code_bytes['-O2'])} with -O2{share}"


def ram(report: Report) -> str:
    """What a network needs of RAM in all, and for what."""
    share = f"; {report.board.ram_percent:.1f} % of {report.board.board}" if report.board else ""
    return f"RAM: {size(report.ram_bytes)} without the stack: {parts_of_ram(report)}{share}"


def _time(report: Report, cycles: float) -> str:
    board, target = report.board, report.options["target"]
    if board is not None:
        return f"time: about {board.milliseconds:.2f} ms on {board.board} at {board.megahertz} MHz, without wait states"
    if target in ANY_CORE:
        return "time: it depends on the core: --board names a chip, --target a core"
    return f"time: about {number(round(cycles))} cycles on {target}, without wait states; --board for milliseconds"


def stretch(report: Report) -> str | None:
    """The most that passes between two calls of the hook; None where a cycle says nothing."""
    own = report.longest_stretch
    if own is None or report.options["target"] in ANY_CORE:
        return None
    time = "" if report.board is None else f" ({own.cycles / report.board.megahertz / 1e3:.2f} ms)"
    about = f"about {number(own.cycles)} cycles{time} without wait states"
    return f"hook: between two calls at most {about}: {printable(own.node)}"


ANY_CORE = ("portable", "host", "scalar32")
"""Targets of which a cycle says nothing."""


def exactness(reports: Sequence[Report]) -> str:
    """To what the outputs are equal, and how many nodes are so only nearly."""
    of = judge_of(reports[0])
    nodes = [node for report in reports for node in report.nodes]
    floats, ties = sum(len(report.inexact) for report in reports), sum(node.in_float for node in nodes)
    if not floats and not ties:
        return f"exact: every output is that of {of}, bit for bit"
    text = f"exact: {number(len(nodes) - floats - ties)} of {counted(len(nodes), 'node')} bit for bit as {of}"
    parts = [f"{number(floats)} in float, within a tolerance"] if floats else []
    parts += [f"{number(ties)} one code more or less next to a tie"] if ties else []
    return "; ".join([text, *parts])


def code(report: Report) -> str | None:
    """Code by the compiler's levels, and flash in all; None where it was not measured."""
    if report.code_bytes is None:
        return None
    levels = ", ".join(f"{size(count)} with {level}" for level, count in report.code_bytes.items())
    flash = ", ".join(size(report.constants_bytes + count) for count in report.code_bytes.values())
    return f"code: {levels}; flash in all {flash}, the C library's part left out"


def stack(report: Report) -> str | None:
    """The most stack that a call needs, where it was measured."""
    if report.stack_bytes is None:
        return None
    known = {level: "not known" if count is None else size(count) for level, count in report.stack_bytes.items()}
    most = ", ".join(f"{count} with {level}" for level, count in known.items())
    return f"stack: at most {most}; libraries and assembly included; {report.compiler}"


def fallbacks(found: Sequence[Fallback]) -> list[str]:
    """What layers fall back to, one line for each kind, with what it costs."""
    return [_fallback(each) for each in found]


def _fallback(found: Fallback) -> str:
    about = "" if found.is_measured else "about "
    costs = f"{about}{found.flash_percent:.0f} % of the flash, {found.cycles_percent:.0f} % of the cycles"
    return printable("; ".join(filter(None, [f"{found.kind}: {found.what}: {costs}", found.advice])))


def fitting(report: Report) -> str | None:
    """Whether the network fits the chip of --board; None without one."""
    if report.board is None:
        return None
    own = report.board
    verdict = "it fits" if own.fits else "IT DOES NOT FIT"
    about = "about " if report.flash_bytes is None else ""
    flash = f"{about}{own.flash_percent:.1f} % of {size(own.flash_bytes)} of flash"
    return f"{own.board}: {verdict}: {flash}, {own.ram_percent:.1f} % of {size(own.ram_bytes)} of RAM; {own.source}"


def in_float(report: Report) -> str | None:
    """The nodes of codes that onnxruntime computes in float; None if there are none."""
    names = [printable(node.name) for node in report.nodes if node.in_float]
    if not names:
        return None
    return f"onnxruntime computes in float, one code more or less next to a tie: {', '.join(names)}"


def budget(report: Report) -> str | None:
    """What a network that was compiled for so many bytes of flash takes of them; None without a budget."""
    if report.flash is None:
        return None
    spent = sum(node.optimize == "speed" for node in report.nodes)
    of = f"{size(report.flash.bytes)} of {size(report.flash_budget)}"
    layers = f"{counted(spent, 'node')} of {number(len(report.nodes))} for speed"
    return f"budget: about {of} of flash, {layers}; about {number(report.flash.cycles)} cycles"


def flash_curve(points: Sequence[FlashUse]) -> str:
    """What more flash buys, in rows between the ends that differ by a tenth of all cycles that it saves."""
    step = (points[0].cycles - points[-1].cycles) / 10
    shown = [points[0]]
    for point in points[1:]:
        if point is points[-1] or shown[-1].cycles - point.cycles >= step:
            shown.append(point)
    rows = [(f"about {size(p.bytes)}", f"about {number(p.cycles)}") for p in shown]
    return table(("flash", "cycles"), rows)


def bound(report: Report) -> str | None:
    """How good the placement of a network's tensors in the arena is; None for single nodes."""
    if len(report.nodes) < 2 or report.arena_slow_bytes:
        return None
    least = size(report.arena_lower_bound_bytes)
    return f"arena: no placement of these tensors needs less than {least}"


def slow_memory(report: Report) -> str | None:
    """What lies in each of an arena's two memories; None if it is in one."""
    if not report.arena_slow_bytes:
        return None
    there = [f"{printable(each.name) or 'scratch'} {size(each.bytes)}" for each in report.buffers if each.is_slow]
    return (
        f"arena in two memories: {size(report.arena_bytes)} fast, {size(report.arena_slow_bytes)} slow; the fast one"
        f" serves about {100 * report.arena_fast_share:.0f} % of all accesses (an estimate); slow: {', '.join(there)}"
    )


def growth(report: Report) -> str | None:
    """By how much the arena has grown for speed, and what that saves; None if it has not."""
    grown = report.arena_growth
    if grown is None:
        return None
    least, saved_cycles = report.arena_bytes - grown.bytes, grown.cycles_without - grown.cycles
    return (
        f"arena: {size(grown.bytes)} more than it needs, for copies of constants, save about"
        f" {percent(saved_cycles, grown.cycles_without)} of {number(grown.cycles_without)} cycles where flash is slow"
        f" (an estimate); --arena {least} goes without"
    )


def kept_rows(report: Report) -> str | None:
    """Which tensors are never there as a whole; None if all are."""
    rows = [f"{printable(kept.tensor)} {kept.rows} of {kept.of} ({size(kept.bytes)})" for kept in report.rows]
    return f"row by row, rows that are kept: {', '.join(rows)}" if rows else None


def twice(report: Report) -> str | None:
    """Which layers are computed twice, and what that costs; None if none are."""
    nodes = [node for node in report.nodes if node.passes > 1]
    macs = sum(node.macs for node in nodes)
    if not nodes:
        return None
    return (
        "computed twice (for the range of floats, then for codes, which alone are kept):"
        f" {', '.join(printable(node.name) for node in nodes)}; {counted(macs, 'multiply-add')} more"
        f" ({percent(macs, max(report.macs, 1))})"
    )


def saved(report: Report) -> str | None:
    """What the same model costs without simplification; None if that is the same."""
    if report.unsimplified == report.figures:
        return None
    return f"without simplification: {figures(report.unsimplified)}"


def figures(costs: Figures) -> str:
    """Flash, RAM and multiply-accumulates in a few words."""
    flash, arena = size(costs.weights_bytes), size(costs.arena_bytes)
    return f"flash {flash} of constants, arena {arena}, {counted(costs.macs, 'multiply-add')}"


def forms(nodes: Iterable[NodeReport]) -> dict[str, int]:
    """Channels by requantization form, added up over nodes, cheapest form first."""
    counts: Counter[str] = Counter()
    for node in nodes:
        counts.update(node.requantize)
    order = [*(form for form in FORMS if form in counts), *(form for form in counts if form not in FORMS)]
    return {form: counts[form] for form in order}


def forms_text(counts: Mapping[str, int]) -> str:
    """Channels by form: "multiply-high 15 (93.8 %), guard band 1 (6.3 %)"."""
    total = sum(counts.values())
    return ", ".join(f"{form} {number(count)} ({percent(count, total)})" for form, count in counts.items())
