"""Rules of MISRA C:2012 that generated C violates: those that docs/misra.md lists, as often as it says."""

import re

import misra
import pytest
from tools import require


@pytest.mark.all
def test_the_page_counts_what_cppcheck_counts():
    require("cppcheck")
    assert misra.PAGE.read_text() == misra.page(misra.PAGE.read_text()), "PYTHONPATH=tests python -m misra writes it"


def test_a_new_violation_is_counted(tmp_path):
    require("cppcheck")
    name = "network_qop"
    text = (misra.ROOT / "generated" / f"{name}.c").read_text()
    (tmp_path / f"{name}.c").write_text(f"{text}\nint {name}_octal(void)\n{{\n    return 010;\n}}\n")
    assert misra.counts(name, tmp_path)["7.1"] == 1


def test_no_result_of_memcpy_is_dropped_without_a_word():
    """cppcheck does not know the functions of string.h."""
    for path in (misra.ROOT / "generated").glob("*.c"):
        assert not re.search(r"^ *mem(cpy|move|set)\(", path.read_text(), re.MULTILINE), path.name
