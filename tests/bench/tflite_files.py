"""``make networks-tflite``: .tflite files beside what TensorFlow Lite Micro was recorded to compute, in docs/tflite.md.

The C of each file runs on this machine on all recorded cases, calls one after the other where it keeps states, and on
the emulated Cortex-M4, where it is measured.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

import qcgen
from qcgen.cli.terminal import number, table
from qcgen.cores import BOARDS
from qcgen.emulate import measure, random_feeds

ROOT = Path(__file__).parents[2]
FILES = ROOT.parent / "shared" / "models" / "tflite"
DOCUMENT = ROOT / "docs" / "tflite.md"
TARGET = "cortex-m4"
HEAD = ("file", "differ", "of", "flash, B", "RAM, B", "TFLM's arena, B", "cycles")
WAKE_WORD = "mww_v2_okay_nabu"
BOARD = BOARDS["esp32c3"]
ASK = """
import sys
from tflite_micro.python.tflite_micro import runtime
runtime.Interpreter.from_file(sys.argv[1], arena_size=2**23).print_allocations()
"""


@dataclass(frozen=True)
class FileRow:
    """A file: ``differing`` of ``outputs`` in all recorded cases; or the operators for which it is ``refused``."""

    name: str
    differing: int = 0
    outputs: int = 0
    flash_bytes: int = 0
    ram_bytes: int = 0
    arena_bytes: int = 0
    cycles: int = 0
    refused: str = ""


def row_of(told: dict) -> FileRow:
    """A file of the index."""
    name = told["name"]
    try:
        artifact = qcgen.compile(FILES / f"{name}.tflite", name="model", target=TARGET)
    except qcgen.ModelRejected as error:
        where = (problem.where.removeprefix("node ").strip("'").rpartition("_")[0] for problem in error.problems)
        kinds = sorted({kind for kind in where if kind in told["operators"]})
        return FileRow(name, refused=", ".join(kinds) or "tensors of no elements")
    recorded, model = np.load(FILES / f"{name}.npz"), artifact.load(("-O1",))
    keys = [[each["key"] for each in told[part]] for part in ("inputs", "outputs")]
    differing = outputs = 0
    for case in range(told["cases"]):
        pairs = zip(model.get_inputs(), keys[0], strict=True)
        got = model.run(None, {x.name: recorded[f"in{case}.{key}"] for x, key in pairs})
        for y, key in zip(got, keys[1], strict=True):
            wanted = recorded[f"out{case}.{key}"]
            differing, outputs = differing + int((np.asarray(y) != wanted).sum()), outputs + wanted.size
    found, report = qcgen.bench(artifact), artifact.report
    theirs = arena_of_micro(FILES / f"{name}.tflite")
    return FileRow(name, differing, outputs, found.flash_bytes or 0, report.ram_bytes, theirs, found.cycles)


def arena_of_micro(path: Path) -> int:
    """The bytes of its arena that TensorFlow Lite Micro says it takes for a file."""
    told = subprocess.run([sys.executable, "-c", ASK, str(path)], capture_output=True, text=True, check=True)
    found = re.search(r"Arena allocation total (\d+) bytes", told.stdout + told.stderr)
    assert found is not None, told
    return int(found[1])


def cycles_on_board() -> int:
    """Of a frame of the wake word, with waits for flash."""
    artifact = qcgen.compile(FILES / f"{WAKE_WORD}.tflite", name="model", target="rv32imc")
    return measure(artifact, random_feeds(artifact.plan, 1), boards=(BOARD,)).cycles_on(BOARD.name)


def page(rows: list[FileRow]) -> str:
    """The document."""
    compiled = [row for row in rows if not row.refused]
    equal = sum(not row.differing for row in compiled)
    cells = [(row.name, *map(number, (*astuple(row)[1:6], row.cycles))) for row in compiled]
    others = [(row.name, row.refused) for row in rows if row.refused]
    refused = REFUSED.format(table=table(("file", "refused for"), others)) if others else ""
    board = f"ESP32-C3 at {BOARD.megahertz} MHz"
    frame = {"wake_word": WAKE_WORD, "board": board, "on_board": number(cycles_on_board())}
    return TEXT.format(**frame, equal=equal, count=len(rows), table=table(HEAD, cells, right=HEAD[1:]), refused=refused)


TEXT = """\
# .tflite files

`make networks-tflite` writes this page. {equal} of {count} files compile and give every output that was recorded from
TFLM's reference kernels, bit for bit. Cycles are estimates for a Cortex-M4; RAM includes inputs and outputs, as TFLM's
arena does, which was read on a machine of 64 bits. A frame of {wake_word} takes about {on_board} cycles of an
{board}.

```text
{table}
```
{refused}"""

REFUSED = """
Refused for these operators, or their types:

```text
{table}
```
"""


def every_row() -> Iterator[FileRow]:
    """The rows, printed as they come."""
    for told in json.loads((FILES / "index.json").read_text())["files"]:
        row = row_of(told)
        print((row.refused and f"{row.name}: refused: {row.refused}") or row, flush=True)
        yield row


def main() -> int:
    """Writes the page; 1 if an output differs."""
    if not FILES.is_dir():
        print(f"make networks-tflite skips: there is no {FILES}, with recorded models")
        return 0
    rows = list(every_row())
    DOCUMENT.write_text(page(rows))
    return int(any(row.differing for row in rows))


if __name__ == "__main__":
    sys.exit(main())
