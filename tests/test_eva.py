"""Frama-C's Eva, an abstract interpreter, goes through the gallery with all inputs at once.

Every loop is unrolled, so addresses are exact and the elements of the inputs are the only unknowns. An alarm is a
place for which Eva cannot exclude undefined behaviour; those in the table of docs/generated-code.md are expected.
"""

import re
import subprocess
from pathlib import Path

import pytest
from tools import require

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ROOT / "generated"
NAMES = sorted(file.stem for file in GENERATED.glob("*.c"))
EXPLAINED = ROOT / "docs" / "generated-code.md"

SECONDS = 300
"""Of one file. conv3x3_int8 takes the longest, half a minute on a quiet machine."""

OPTIONS = (
    "-eva", "-machdep", "x86_64", "-eva-min-loop-unroll", "1000", "-eva-no-results", "-eva-no-show-progress",
)  # fmt: skip
"""Loops of up to 1000 turns are walked through turn by turn, each in one state: branches on data are joined."""

READS_WHOLE_VECTORS = ("conv_cortex_m55",)
"""Files that read whole vectors where a copied window ends within one: weights are zero there. Their arena is full."""

HEAD = """\
#include "{name}.h"
#include <__fc_builtin.h>
#include <math.h>

/* What the C library may return; Eva knows nothing about these two. */
float rintf(float x) {{ return Frama_C_nondet(0, 1) ? floorf(x) : ceilf(x); }}

int main(void)
{{
    int nonzero = 0;
"""
HALVES = "    for (int i = 0; i < {size}; i++) {{ {port}[i] = (uint16_t)Frama_C_interval(0, 0x7bff); }}\n"
FLOATS = "    for (int i = 0; i < {size}; i++) {{ {port}[i] = Frama_C_float_interval(-1e6f, 1e6f); }}\n"
BYTES = "    Frama_C_make_unknown((char *){port}, sizeof {port});\n"
READ = "    for (int i = 0; i < {size}; i++) {{ nonzero += {port}[i] != 0; }}\n"
TAIL = "    Frama_C_show_each_end();\n    return nonzero;\n}\n"

Alarm = tuple[str, str]
"""The function, without the file's prefix, and what Eva says, such as ``signed overflow``."""

pytestmark = pytest.mark.eva


PUSH = """\
    uint32_t arena[{macro}_ARENA_BYTES / 4 + 1];
    {dtype} row[{size}];
    {name}_begin(arena);
    for (int i = 0; i < {rows}; i++) {{
        Frama_C_make_unknown((char *)row, sizeof row);
        {name}_push_row(arena, row);
    }}
    {name}_end(arena);
    const {dtype} *const output = {name}_output(arena);
    for (int i = 0; i < {outputs}; i++) {{ nonzero += output[i] != 0; }}
"""


def pushing(name: str, header: str) -> str:
    """A main function that pushes rows of any elements, and reads the output in the arena."""
    size, rows = (re.search(rf"define (\w+_{what})\b", header)[1] for what in ("ROW_SIZE", "ROWS"))
    outputs = re.findall(r"define (\w+_SIZE) ", header)[-1]
    dtype = re.search(r"push_row\(void \*arena, const (\w+) ", header)[1]
    facts = {"macro": name.upper(), "dtype": dtype, "size": size, "rows": rows, "outputs": outputs}
    return f"{HEAD.format(name=name)}{PUSH.format(name=name, **facts)}{TAIL}"


def program(name: str, header: str) -> str:
    """A main function that calls NAME_run on any inputs, in memory of the exact sizes, and reads all outputs."""
    if f"{name}_push_row(" in header:
        return pushing(name, header)
    returned, given = re.search(rf"(void|int) {name}_run\((.*?)\);", header, re.DOTALL).groups()
    parameters = given.split(",")
    before, after = HEAD.format(name=name), ""
    for const, dtype, port in (re.fullmatch(r"\s*(const )?(\w+) \*(\w+)", each).groups() for each in parameters):
        size = f"{name.upper()}_{port.upper()}_{'BYTES' if port == 'arena' else 'SIZE'}"
        if re.search(rf"define {size} 0$", header, re.MULTILINE):
            before += f"    void *const {port} = 0;\n"
            continue
        before += f"    {'unsigned char' if dtype == 'void' else dtype} {port}[{size}];\n"
        if const or (port == "arena" and name in READS_WHOLE_VECTORS):
            given_as = {"float": FLOATS, "uint16_t": HALVES if name == "float16" else BYTES}
            before += given_as.get(dtype, BYTES).format(port=port, size=size)
        elif port != "arena":
            after += READ.format(port=port, size=size)
    before += f"    {name}_reset(arena);\n" if f"{name}_reset(" in header else ""
    names = ", ".join(each.split("*")[1] for each in parameters)
    call = f"{name}_run({names})"
    if returned == "int":  # where it returns 1 outputs need not be written, and Eva joins that state with the other
        return f"{before}    nonzero += {call};\n{TAIL}"
    return f"{before}    {call};\n{after}{TAIL}"


def analyse(name: str, source: str, folder: Path) -> tuple[set[Alarm], bool]:
    """What Eva says about one C file, and whether ``main`` can reach its end: a certain error is an end before it."""
    require("frama-c")
    header = (GENERATED / f"{name}.h").read_text()
    texts = {path.name: path.read_text() for path in GENERATED.glob(f"{name}_weights.h")}
    texts |= {f"{name}.h": header, f"{name}.c": source, "main.c": program(name, header)}
    for file, text in texts.items():
        (folder / file).write_text(text)
    # Without __GNUC__: Eva does not know what inline assembly leaves as it is.
    preprocessor = f"-cpp-extra-args=-std=c99 -U__GNUC__ -I{folder}"
    command = ["frama-c", *OPTIONS, preprocessor, folder / "main.c", folder / f"{name}.c"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    found = re.findall(r"^\[eva:alarm\] \S*?([^/\s]+):(\d+): Warning:\s+(.*?)\.\s", run.stdout, re.MULTILINE)
    # Eva counts the alarms: not one may be lost because it is printed in another form.
    count = int(re.search(r"(\d+) alarms? generated", run.stdout)[1])
    assert len(found) >= count, run.stdout
    at = {(_function(name, source, int(line)) if file == f"{name}.c" else "main", what) for file, line, what in found}
    return at, "Frama_C_show_each_end" in run.stdout


def _function(name: str, source: str, line: int) -> str:
    """The function that a line belongs to; definitions start in the first column."""
    return re.findall(rf"^[A-Za-z].*?\b{name}_(\w+)\(", "\n".join(source.splitlines()[:line]), re.MULTILINE)[-1]


def explained(name: str) -> set[Alarm]:
    """The alarms of a file that the document explains: rows of files, functions, alarm and why it is none."""
    rows = re.findall(r"^\| (`.*?) \| (`[\w`, ]+`) \| (.*?) \| .* \|$", EXPLAINED.read_text(), re.MULTILINE)
    told = [(re.findall(r"\w+", functions), what) for files, functions, what in rows if f"`{name}`" in files]
    return {(function, what) for functions, what in told for function in functions}


@pytest.mark.parametrize("name", NAMES)
def test_eva_finds_nothing_but_what_the_document_explains(name, tmp_path):
    found, ended = analyse(name, (GENERATED / f"{name}.c").read_text(), tmp_path)
    assert found == explained(name)
    assert ended


@pytest.mark.parametrize(
    ("old", "new", "alarm"),
    [
        ("(d[k] ", "(d[k + 1] ", ("wsums_add_s8_s32", "out of bounds read")),
        ("OUT_PIXELS = 16", "OUT_PIXELS = 12", ("main", "accessing uninitialized left-value")),
        ("of_c = ", "of_c = INT32_MAX - ", ("wsums_add_s8_s32", "signed overflow")),
    ],
    ids=["an index one beyond", "pixels left out", "a sum too large"],
)
def test_eva_finds_a_planted_bug(old, new, alarm, tmp_path):
    source = (GENERATED / "wide.c").read_text()
    assert source.count(old) == 1
    found, _ = analyse("wide", source.replace(old, new), tmp_path)
    assert alarm in found


def test_the_document_explains_files_of_the_gallery():
    rows = re.findall(r"^\| (`.*?) \| `\w+` \| ", EXPLAINED.read_text(), re.MULTILINE)
    assert rows
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) <= set(NAMES)
