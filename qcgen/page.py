"""The report as a page for a browser: one HTML file that needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from qcgen.errors import shortened
from qcgen.ir.plan import PlacedBuffer
from qcgen.render import filled
from qcgen.render.c_text import size
from qcgen.render.c_text import thousands as grouped
from qcgen.report import NodeReport, PortReport, Report

HEIGHT = 320  # of the memory map, in units of the drawing
MARGIN = 72  # left of it, for the offsets
LEAST_COLUMN, MOST_COLUMN = 14, 64  # a node's width
WIDTH = 900  # of the map, if its columns can be so wide
NUMBERS = ("multiply-adds", "constants", "scratch")  # of a node, shown as bars
NODE = ("no.", "node", "operator", "kernel")
PORT = (
    "direction", "name", "in C", "type", "shape", "layout", "size", "scale", "zero point", "helper of the header",
)  # fmt: skip
KEPT = ("tensor", "rows kept", "of", "size")
COUNTED = ("cycles", "time", "share", "instructions")  # of a node that ran on a core
LARGEST = 7  # parts of flash with a line of their own
LEVELS = 4  # offsets that are marked, at most
LETTER = 6.8  # the width of one, about
LEAST_LETTERS = 5  # of a name that is shortened
ROW, BOX = 26, 20  # heights of a row of the graph, and of the box in it
ARCS, RIGHT = 70, 362  # of the graph: where boxes begin, with arcs to the left of them, and where they end
MOST_OPACITY = 0.6  # of the costliest node, so that its name can be read


@dataclass(frozen=True)
class Label:
    """A text of the drawing, and where it is."""

    x: str
    y: str
    text: str


@dataclass(frozen=True)
class Rectangle:
    """A buffer in the memory map; ``title`` is shown where a pointer rests on it, ``label`` if it fits."""

    kind: str
    x: str
    y: str
    width: str
    height: str
    title: str
    label: Label | None


@dataclass(frozen=True)
class MemoryMap:
    """The arena over time: nodes across, offsets up; lengths are in units of the drawing, as SVG writes them.

    ``offsets`` have lines at ``levels``. ``bound``: the height of the lower bound.
    """

    view_box: str
    left: str
    right: str
    rectangles: tuple[Rectangle, ...]
    levels: tuple[str, ...]
    labels: tuple[Label, ...]
    bound: str


@dataclass(frozen=True)
class GraphNode:
    """A node of the graph: ``y`` is the top of its box, whose colour is as deep as its share of the cost."""

    y: str
    name: Label
    share: Label
    opacity: str
    title: str


@dataclass(frozen=True)
class GraphDrawing:
    """The nodes from above in the order in which they run; ``lines`` are paths from each to those that read it.

    ``cost``: of what the shares are.
    """

    cost: str
    height: str
    nodes: tuple[GraphNode, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """A cell of a table, with the head of its column, which stands beside it where the screen is narrow."""

    label: str
    text: str


@dataclass(frozen=True)
class Bar(Cell):
    """A number of a node, and how many percent it is of the largest one."""

    percent: str


@dataclass(frozen=True)
class PageRow:
    """A node in the table: ``cells`` tell what it is, then come bars, what was proved and what was rejected."""

    cells: tuple[Cell, ...]
    bars: tuple[Bar, ...]
    proof: str
    rejected: tuple[str, ...]


@dataclass(frozen=True)
class PageRun:
    """One call on an emulated core: instructions and cycles of nodes by their names, and of all; bytes of stack.

    ``where``: the board whose waits for flash are in the cycles, or the core without wait states; ``megahertz`` is the
    board's clock, None without a board.
    """

    where: str
    megahertz: int | None
    instructions: Mapping[str, int]
    cycles: Mapping[str, int]
    all_instructions: int
    all_cycles: int
    stack_bytes: int

    def milliseconds(self, cycles: int) -> str:
        """The time of so many cycles; "" without a clock."""
        return "" if self.megahertz is None else f"{cycles / self.megahertz / 1e3:.2f} ms"


@dataclass(frozen=True)
class PageTile:
    """One of the figures at the top; ``percent`` of the chip that it takes, "" where none is known."""

    name: str
    figure: str
    about: str
    percent: str = ""


@dataclass(frozen=True)
class Page:
    """What templates/report.html.jinja shows; ``ports`` and ``kept`` are the cells of tables.

    ``numbers``: what the bars of ``rows`` are, one for each, and ``totals`` their sums. ``flash``: the largest parts,
    their bytes and their percent of all.
    """

    report: Report
    tiles: tuple[PageTile, ...]
    flash: tuple[tuple[str, str, str], ...]
    totals: tuple[Cell, ...]
    facts: tuple[tuple[str, str], ...]
    ports: tuple[tuple[Cell, ...], ...]
    graph: GraphDrawing
    memory: MemoryMap | None
    kept: tuple[tuple[Cell, ...], ...]
    numbers: tuple[str, ...]
    rows: tuple[PageRow, ...]


def page(report: Report, run: PageRun | None = None) -> str:
    """The text of NAME_report.html; ``run``: what a call took on a core, if it was counted."""
    facts = {
        "model": f"{report.model}, sha256 {report.sha256}",
        "options": _listed(report.options),
        "equal to": _listed(report.arithmetic),
        "compiler": f"qcgen {report.qcgen}",
        "flash": _flash(report),
        **_budget(report),
        "RAM": f"{size(report.ram_bytes)}: {parts_of_ram(report)}; the stack comes on top, qcgen bench measures it",
        "multiply-adds": grouped(report.macs),
    }
    kept = (_cells(KEPT, (row.tensor, str(row.rows), str(row.of), size(row.bytes))) for row in report.rows)
    ports = [("input", port) for port in report.inputs] + [("output", port) for port in report.outputs]
    rows, totals = _rows(report.nodes, run)
    shown = Page(
        report=report,
        tiles=_tiles(report, run),
        flash=_parts_of_flash(report),
        totals=totals,
        facts=tuple(facts.items()),
        ports=tuple(_port(what, port) for what, port in ports),
        graph=_graph(report.nodes, run),
        memory=_memory(report) if report.buffers else None,
        kept=tuple(kept),
        numbers=(*COUNTED, *NUMBERS) if run else NUMBERS,
        rows=rows,
    )
    return filled("report.html", {"page": shown})


def _tiles(report: Report, run: PageRun | None) -> tuple[PageTile, ...]:
    board = report.board
    flash_share, ram_share = ("", "") if board is None else (_length(board.flash_percent), _length(board.ram_percent))
    constants = f"constants {size(report.constants_bytes)}"
    if report.flash_bytes is None:
        flash = PageTile("flash", size(report.constants_bytes), "constants alone: code was not measured", flash_share)
    else:
        code = size(report.flash_bytes - report.constants_bytes)
        flash = PageTile("flash", size(report.flash_bytes), f"{constants}, code {code} with -O2", flash_share)
    stack = f", stack {size(run.stack_bytes)} on top" if run else ", without the stack"
    ram = PageTile("RAM", size(report.ram_bytes), parts_of_ram(report) + stack, ram_share)
    return flash, ram, _time(report, run), _exactness(report), *_accuracy(report)


def _accuracy(report: Report) -> Iterator[PageTile]:
    if own := report.accuracy:
        about = f"{grouped(own.right)} of {grouped(own.examples)} examples with labels, by the C on the host"
        yield PageTile("accuracy", f"{own.percent:.1f} %", about)


def _time(report: Report, run: PageRun | None) -> PageTile:
    board = report.board
    if run is not None:
        figure = run.milliseconds(run.all_cycles) or f"{grouped(run.all_cycles)} cycles"
        return PageTile("time", figure, f"{grouped(run.all_cycles)} cycles on {run.where}, an estimate")
    if board is not None:
        about = f"an estimate for {board.board} at {board.megahertz} MHz, without wait states"
        return PageTile("time", f"{board.milliseconds:.2f} ms", about)
    return PageTile("time", "–", "not known: compile --board CHIP estimates it, qcgen bench counts")


def _exactness(report: Report) -> PageTile:
    floats, ties = len(report.inexact), sum(node.in_float for node in report.nodes)
    if not floats and not ties:
        return PageTile("exact", "bit for bit", f"every output is that of {judge_of(report)}")
    parts = [f"{floats} in float, within a tolerance"] if floats else []
    parts += [f"{ties} one code more or less next to a tie"] if ties else []
    return PageTile("exact", f"{len(report.nodes) - floats - ties} of {len(report.nodes)} nodes", "; ".join(parts))


def judge_of(report: Report) -> str:
    """To whose outputs those of the code are equal."""
    numerics = str(report.options["numerics"])
    return {"onnxruntime": "onnxruntime", "tflm": "TFLM"}.get(numerics, "Orion")


def _parts_of_flash(report: Report) -> tuple[tuple[str, str, str], ...]:
    """Constants of the nodes that have most, of all others, and code by whose it is: name, bytes, percent of all."""
    nodes = sorted((node for node in report.nodes if node.constant_bytes), key=lambda node: -node.constant_bytes)
    parts = [(node.name, node.constant_bytes) for node in nodes[:LARGEST]]
    if rest := nodes[LARGEST:]:
        parts.append((f"constants of {len(rest)} other nodes", sum(node.constant_bytes for node in rest)))
    if report.flash_bytes is not None:
        code = report.flash_bytes - report.constants_bytes
        own, shared = _code_of_layers(report)
        parts += [("code of one layer each", own), ("code that layers share", shared)]
        name = "code that calls them, with what is inlined there, and helpers" if own or shared else "code"
        parts.append((name, code - own - shared))
    parts = [part for part in parts if part[1]]
    whole = max(1, sum(count for _, count in parts))
    return tuple((name, size(count), _length(100 * count / whole)) for name, count in parts)


def _code_of_layers(report: Report) -> tuple[int, int]:
    """Bytes of the functions that are a single layer's, and of those through which several run.

    A function's helpers are called like it, with an ending.
    """
    shared = {node.shared_function for node in report.nodes if node.shared_function}
    single = {node.function for node in report.nodes if node.function and not node.shared_function}
    own = common = 0
    for name, count in (report.function_bytes or {}).items():
        owners = [each for each in (*shared, *single) if name == each or name.startswith(f"{each}_")]
        owner = max(owners, key=len, default="")
        own, common = own + count * (owner in single), common + count * (owner in shared)
    return own, common


def _cells(labels: Sequence[str], texts: Sequence[str]) -> tuple[Cell, ...]:
    return tuple(Cell(*each) for each in zip(labels, texts, strict=True))


def _port(what: str, port: PortReport) -> tuple[Cell, ...]:
    shape = " x ".join(map(str, port.shape))
    numbers = ("" if number is None else str(number) for number in (port.scale, port.zero_point))
    texts = (what, port.name, port.symbol, port.type, shape, port.layout, size(port.bytes), *numbers, port.helper or "")
    return _cells(PORT, texts)


def in_notebook(text: str) -> str:
    """A page as a part of another one, with its own styles."""
    style = "width: 100%; height: 48em; border: 0"
    return f'<iframe srcdoc="{escape(text)}" style="{style}"></iframe>'


def _listed(items: Mapping[str, object]) -> str:
    """Names and values, without those that are not set."""
    return ", ".join(_item(name, value) for name, value in items.items() if value not in (None, False, (), []))


def _item(name: str, value: object) -> str:
    return name if value is True else f"{name} {_value(value)}"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return f"({_listed(value)})"
    return " ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def _budget(report: Report) -> dict[str, str]:
    """What a network that was compiled for so many bytes of flash is estimated to take; nothing without a budget."""
    if report.flash is None:
        return {}
    of = f"about {grouped(report.flash.bytes)} B of {grouped(report.flash_budget)} B"
    return {"budget of flash": f"{of}, about {grouped(report.flash.cycles)} cycles"}


def _flash(report: Report) -> str:
    constants = f"{grouped(report.constants_bytes)} B of constants"
    if report.code_bytes is None:
        return f"{constants}; code was not measured: no compiler for the target is installed"
    code = ", ".join(f"{grouped(size)} B with {level}" for level, size in report.code_bytes.items())
    return f"{constants}, code {code}; {grouped(report.flash_bytes or 0)} B in all with -O2"


def parts_of_ram(report: Report) -> str:
    """What the RAM in all consists of."""
    arena, inputs, outputs = map(size, (report.arena_bytes, report.input_bytes, report.output_bytes))
    if report.state_bytes:
        kept = size(report.state_bytes)
        arena += f", state {kept}" if report.options["state"] == "caller" else f", {kept} of it state"
    arena += f", slow memory {size(report.arena_slow_bytes)}" if report.arena_slow_bytes else ""
    in_arena, in_rows = report.options["io_memory"] == "arena", report.options["input"] == "rows"
    if not in_rows:
        return (
            f"arena {arena} with inputs {inputs}, outputs {outputs} in it"
            if in_arena
            else (f"arena {arena}, inputs {inputs}, outputs {outputs}")
        )
    outside = report.ram_bytes - report.arena_bytes - (0 if in_arena else report.output_bytes)
    row = f"a row of the input {size(outside)}"
    return (
        f"arena {arena} with outputs {outputs} in it, {row}" if in_arena else f"arena {arena}, {row}, outputs {outputs}"
    )


def _graph(nodes: Sequence[NodeReport], run: PageRun | None) -> GraphDrawing:
    costs = [node.macs if run is None else run.cycles.get(node.name, 0) for node in nodes]
    whole, most = max(1, sum(costs)), max(1, *costs)
    places = {node.name: index for index, node in enumerate(nodes)}
    lines = [
        _line(places[source], index) for index, node in enumerate(nodes) for source in node.reads if source in places
    ]
    drawn = []
    for index, (node, cost) in enumerate(zip(nodes, costs, strict=True)):
        share, middle = f"{100 * cost / whole:.1f} %", _length(index * ROW + BOX / 2 + 4)
        letters = int((RIGHT - ARCS - 20) / LETTER) - len(share)
        name = Label(_length(ARCS + 6), middle, shortened(node.name, letters))
        title = f"{node.name}, {node.op}: {grouped(cost)}, {share}"
        opacity = f"{MOST_OPACITY * cost / most:.2f}"
        drawn.append(GraphNode(_length(index * ROW), name, Label(_length(RIGHT - 6), middle, share), opacity, title))
    return GraphDrawing("multiply-adds" if run is None else "cycles", str(len(nodes) * ROW), tuple(drawn), tuple(lines))


def _line(source: int, reader: int) -> str:
    """From a node to the one below, or in an arc on the left to one further down."""
    if reader == source + 1:
        return f"M {ARCS + 14} {source * ROW + BOX} V {reader * ROW}"
    begin, end = (_length(index * ROW + BOX / 2) for index in (source, reader))
    x = _length(max(-20, ARCS - 16 - 8 * (reader - source)))
    return f"M {ARCS} {begin} C {x} {begin} {x} {end} {ARCS} {end}"


def _memory(report: Report) -> MemoryMap:
    buffers, nodes = [buffer for buffer in report.buffers if not buffer.is_slow], report.nodes
    first = min(buffer.first for buffer in buffers)
    count = max(len(nodes), *(buffer.last + 1 for buffer in buffers)) - first
    column, unit = min(MOST_COLUMN, max(LEAST_COLUMN, WIDTH / count)), HEIGHT / max(1, report.arena_bytes)
    every = max(1, round(4 * LETTER / column))
    offsets = list(_offsets(report.arena_bytes))
    labels = [Label(_length(MARGIN - 12), _length(HEIGHT - each * unit + 4), size(each)) for each in offsets]
    for number in range(max(0, first), len(nodes), every):
        labels.append(Label(_length(MARGIN + (number - first + 0.6) * column), _length(HEIGHT + 16), str(number)))
    right = _length(MARGIN + count * column)
    return MemoryMap(
        view_box=f"0 -8 {right} {HEIGHT + 32}",
        left=_length(MARGIN - 8),
        right=right,
        rectangles=tuple(_rectangle(buffer, first, column, unit, nodes) for buffer in buffers),
        levels=tuple(_length(HEIGHT - each * unit) for each in offsets),
        labels=tuple(labels),
        bound=_length(HEIGHT - report.arena_lower_bound_bytes * unit),
    )


def _length(value: float) -> str:
    """A length or a place in the drawing, or a number of percent."""
    return f"{value:.1f}"


def _rectangle(buffer: PlacedBuffer, first: int, column: float, unit: float, nodes: Sequence[NodeReport]) -> Rectangle:
    end = buffer.offset + buffer.bytes
    x, y = MARGIN + (buffer.first - first) * column, HEIGHT - end * unit
    width, height = (buffer.last - buffer.first + 1) * column, buffer.bytes * unit
    name = buffer.name or {"turn": "number of the next turn"}.get(buffer.kind, buffer.kind)
    letters = int((width - 8) / LETTER)
    has_room = height >= 2 * LETTER and letters >= min(LEAST_LETTERS, len(name))
    span = f"from {_moment(buffer.first, nodes)} to {_moment(buffer.last, nodes)}"
    return Rectangle(
        kind=buffer.kind,
        x=_length(x),
        y=_length(y),
        width=_length(width),
        height=_length(height),
        title=f"{name}: {size(buffer.bytes)} at {grouped(buffer.offset)} to {grouped(end)}, {buffer.kind}, {span}",
        label=Label(_length(x + 4), _length(y + height / 2 + 4), shortened(name, letters)) if has_room else None,
    )


def _moment(number: int, nodes: Sequence[NodeReport]) -> str:
    if number < 0:
        return "before the call"
    return f"{number} {nodes[number].name}" if number < len(nodes) else "after the call"


def _offsets(arena: int) -> Iterable[int]:
    """Some round offsets: multiples of a power of two."""
    step = 1
    while arena / step > LEVELS:
        step *= 2
    return range(0, arena + 1, step)


def _rows(nodes: Sequence[NodeReport], run: PageRun | None) -> tuple[tuple[PageRow, ...], tuple[Cell, ...]]:
    """The table's rows, and its last one, which adds up; of scratch memory, which nodes share, it has the largest."""
    sizes = [(node.macs, node.constant_bytes, node.scratch_bytes) for node in nodes]
    macs, constants, scratch = zip(*sizes, strict=True)
    units = ("", " B", " B")
    most = [max(1, *column) for column in (macs, constants, scratch)]
    longest = max(1, *run.cycles.values()) if run else 1
    rows = tuple(
        PageRow(
            cells=_cells(NODE, (str(index), node.name, node.op, node.kernel)),
            bars=(
                *_counts(node.name, run, longest),
                *(_bar(*each) for each in zip(NUMBERS, own, most, units, strict=True)),
            ),
            proof=_proof(node),
            rejected=tuple(f"{kernel}: {reason}" for kernel, reason in node.rejected.items()),
        )
        for index, (node, own) in enumerate(zip(nodes, sizes, strict=True))
    )
    own = (grouped(sum(macs)), size(sum(constants)), size(max(scratch)))
    if run is None:
        return rows, _cells(NUMBERS, own)
    all_of_it = (grouped(run.all_cycles), run.milliseconds(run.all_cycles), "100 %", grouped(run.all_instructions))
    return rows, _cells((*COUNTED, *NUMBERS), (*all_of_it, *own))


def _counts(name: str, run: PageRun | None, longest: int) -> tuple[Bar, ...]:
    """The cells of COUNTED; a bar of the time, beside that of the node that takes longest."""
    if run is None:
        return ()
    cycles, instructions = run.cycles.get(name, 0), run.instructions.get(name, 0)
    share = f"{100 * cycles / max(1, run.all_cycles):.1f} %"
    texts = (run.milliseconds(cycles), share, grouped(instructions))
    return (
        _bar(COUNTED[0], cycles, longest, ""),
        *(Bar(label, text, "0.0") for label, text in zip(COUNTED[1:], texts, strict=True)),
    )


def _bar(label: str, number: int, most: int, unit: str) -> Bar:
    return Bar(label, grouped(number) + unit, _length(100 * number / most))


def _proof(node: NodeReport) -> str:
    """The accumulator's interval, the arithmetic of the output step, and the function that is not the node's own."""
    if node.arithmetic == "float32":
        return "computed in float32"
    parts = []
    if node.accumulator is not None:
        low, high = map(grouped, node.accumulator)
        parts.append("accumulator modulo 2^32" if node.wraps else f"accumulator within [{low}, {high}] for every input")
    if node.requantize:
        forms = ", ".join(f"{form} {count}" for form, count in node.requantize.items())
        parts.append(f"requantization by channel: {forms}")
    if node.comparisons:
        parts.append(f"compared at {grouped(node.comparisons)} points")
    if node.joined:
        parts.append(f"one {node.joined_by} with {', '.join(node.joined)}")
    if node.shared_function is not None:
        parts.append(f"through {node.shared_function}")
    if node.passes > 1:
        parts.append("computed twice, for the range of floats and for codes")
    return "; ".join(parts)
