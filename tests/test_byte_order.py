"""Shared functions that do not depend on the order of bytes in memory, or ask for it before they do.

On a big-endian machine they run (s390x, emulated, where its tools are installed); elsewhere their text is read as a
compiler for a big-endian machine reads it.
"""

from __future__ import annotations

import re
import subprocess

import batch
import pytest
from cases import CASES
from every_case import own_cases
from network_cases import UNITS
from subjects import convolutions, operator
from test_other_machines import wrong_on_s390x
from tools import require

import qcgen.render

FEATURES = ("__ARM_FEATURE_UNALIGNED", "__ARM_FEATURE_DOTPROD", "__aarch64__")
MACHINES = {"big-endian Arm": ("__ARM_BIG_ENDIAN", *FEATURES), "unknown": ()}
"""What compilers define on machines whose order is not known to be little-endian."""

REINTERPRETED = {
    *(("&word", "&number"), ("&number", "&word"), ("&of_a", "&a"), ("&of_b", "&b"), ("&of_c", "&c")),
    *(("&word", "&x"), ("&z", "&word"), ("&word", "&sum"), ("&word", "x + i"), ("&least", "range")),
    ("&most", "range + 1"),
}
"""Copies between a float and the word of its bits, which lie in one order everywhere."""

COPY = re.compile(r"memcpy\((&\w+), ([^,]+),")
BYTES_OF_A_NUMBER = re.compile(
    r"\((?:const )?(?:u?int8_t|(?:unsigned )?char) \*\)\s*(?:\((?:const )?void \*\)\s*)?&\w+(?!\[)"
)


def by_order(machine: str) -> list[str]:
    """What in the shared functions follows the order of bytes, as a compiler for a machine reads them; by function."""
    command = ["gcc", "-E", "-P", "-undef", *(f"-D{macro}=1" for macro in MACHINES[machine]), "-x", "c", "-"]
    found = []
    for piece in qcgen.render.library("").pieces:
        text = re.sub(r"^#include.*?$", "", piece.named("t"), flags=re.MULTILINE)
        if _copies(text):
            compiled = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
            found += [f"{min(piece.defined)}: {each}" for each in _copies(compiled)]
    return found


def _copies(text: str) -> list[str]:
    """Copies from bytes, and looks at the bytes of a number."""
    copies = [found[0] for found in COPY.finditer(text) if (found[1], found[2]) not in REINTERPRETED]
    return [*copies, *BYTES_OF_A_NUMBER.findall(text)]


@pytest.mark.parametrize("machine", MACHINES)
def test_no_shared_function_takes_bytes_in_the_order_of_a_machine_that_is_not_known(machine):
    require("gcc")
    assert by_order(machine) == []


LITTLE = "defined(__ARM_FEATURE_UNALIGNED) && !defined(__ARM_BIG_ENDIAN)"
MUTANTS = {
    "words copied from bytes where Arm is big-endian": (
        "library/dsp.h", LITTLE, "defined(__ARM_FEATURE_UNALIGNED)", "big-endian Arm",
        ["dsp_load_pair", "dsp_load_word"],
    ),
    "words copied from bytes everywhere": (
        "library/dsp.h", LITTLE, "1", "unknown", ["dsp_load_pair", "dsp_load_word"]
    ),
    "the sign of a float16 from the last byte": (
        "library/float32.h", "word >> 16 & 0x8000", "(uint32_t)((const uint8_t *)&number)[3] << 8 & 0x8000",
        "unknown", ["to_half"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "machine", "functions"), MUTANTS.values(), ids=MUTANTS.keys())
def test_such_a_function_is_found(name, old, new, machine, functions, mutate):
    require("gcc")
    mutate(name, old, new)
    assert [each.split(":")[0] for each in by_order(machine)] == functions


CONVERSIONS = [unit for unit in UNITS if unit.name.startswith("convert_")]
DSP_CASES = [*own_cases("cortex-m4")[::24], *CASES[5::64]]


def subjects():
    """Conversions to and from float16, and convolutions of the DSP extension in portable C."""
    return [*map(operator, CONVERSIONS), *convolutions(DSP_CASES, "cortex-m4")]


def test_conversions_and_dsp_instructions_give_the_references_outputs_on_a_big_endian_machine(tmp_path):
    assert not wrong_on_s390x(subjects(), tmp_path)


@pytest.fixture
def compiled_anew():
    """Convolutions that other tests have not compiled, and that these do not leave to them."""
    batch.unit.cache_clear()
    yield
    batch.unit.cache_clear()


@pytest.mark.all
@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize("mutant", ["words copied from bytes everywhere", "the sign of a float16 from the last byte"])
def test_the_order_of_a_little_endian_machine_gives_other_outputs_on_it(mutant, mutate, tmp_path):
    name, old, new, *_ = MUTANTS[mutant]
    mutate(name, old, new)
    assert wrong_on_s390x(subjects(), tmp_path)
