"""The parts of README.md that hold figures, written from those of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from figures import MILLION, ROWS, Figures, Network

BOARDS = {"stm32l4r5": "STM32L4R5", "stm32f407": "STM32F407"}
BOARD = "stm32l4r5"
RTL_CORES = ("ibex", "cv32e40p")
IN_ROWS = "--layout nhwc --io quantized --arena least --input rows --io-memory arena"
"""The options of the figures with rows."""


def _why(figures: Figures) -> str:
    """What is fast and small, in figures."""
    size, speed = (figures.range_of(how) for how in ("size", "speed"))
    below = [each for each in figures.networks if each.cycles[BOARD, "speed"] < each.record]
    [smallest] = (each for each in figures.networks if each.name == "visual wake words")
    less, more = (f"{least:.1f} to {most:.1f}" for least, most in (size, speed))
    record = f"{len(below)} of {len(figures.networks)}"
    on_rtl = " and ".join(f"{figures.rtl[core] / MILLION:.1f}" for core in RTL_CORES)
    extra = smallest.more[ROWS].strip("+").replace("%", " %")
    least, whole = smallest.ram[ROWS], smallest.ram[""]
    exact, rounded = figures.tried["exact"], figures.tried.get("within tolerance", 0)
    equal = "equal onnxruntime bit for bit"
    rest = f"{exact} {equal}, {rounded} with float layers within a tolerance" if rounded else f"all {equal}"
    lines = [
        f"* **Tried.** Of {sum(figures.tried.values())} networks of today, in QDQ form, {exact + rounded}"
        f" compile: {rest}.",
        f"* **Fast.** {figures.rtl_network.capitalize()} takes {on_rtl} million cycles, measured on the RTL of Ibex"
        " and CV32E40P; estimated cycles on an",
        f"  STM32L4R5 are below the MLPerf Tiny record in {record} networks. CMSIS-NN takes {less} times the"
        f" instructions for size, {more} for speed.",
        f"* **Small in RAM.** Layers can run row by row: {smallest.name} needs {least:,} bytes in all instead of",
        f"  {whole:,}, for {extra} more instructions (`{IN_ROWS}`).",
    ]
    return "\n".join(lines)


def _cost(figures: Figures) -> str:
    """A row for each network: flash, RAM in all, and for both boards milliseconds of code for size and for speed."""
    boards = [f"{name}, {figures.megahertz[board]} MHz" for board, name in BOARDS.items()]
    head = [
        "network",
        "RAM",
        "flash",
        *boards,
        "RAM, speed",
        "flash, speed",
        *(f"{name}, speed" for name in BOARDS.values()),
    ]
    head.append(f"record, {figures.megahertz[BOARD]} MHz")
    lines = [
        f"| {' | '.join(head)} |",
        f"|---|{'---:|' * (len(head) - 1)}",
        *(_row(each, figures) for each in figures.networks),
    ]
    return "\n".join(lines)


def _row(network: Network, figures: Figures) -> str:
    cells = [network.name]
    for how in ("size", "speed"):
        ram = network.ram[""] + network.arena[how] - network.arena["size"]
        cells += [f"{ram:,} B", f"{network.flash[how]:,} B"]
        cells += [_milliseconds(network.cycles[board, how], figures.megahertz[board]) for board in BOARDS]
    cells.append(_milliseconds(network.record, figures.megahertz[BOARD]))
    return f"| {' | '.join(cells)} |"


def _milliseconds(cycles: int, megahertz: int) -> str:
    milliseconds = 1000 * cycles / (megahertz * MILLION)
    return f"{milliseconds:.1f} ms" if milliseconds >= 10 else f"{milliseconds:.2f} ms"


PARTS: Mapping[str, Callable[[Figures], str]] = {"why": _why, "cost": _cost}
"""By the names in the marks ``<!-- figures: NAME -->``."""
