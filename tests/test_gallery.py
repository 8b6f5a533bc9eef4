"""The gallery in generated/ is what the compiler makes today, and it is right."""

import re

import gallery
import pytest
from gallery import ENTRIES, GENERATED, LAYERS, NETWORKS
from marks import share_at_first
from test_eva import explained

from qcgen.build import host_compiler
from qcgen.errors import ToolMissing
from qcgen.kernels import KERNELS
from qcgen.requantize.fixed_point import FORMS
from qcgen.verification import verify

LONGEST = {"layer": 550, "network": 950}  # lines that one reads in a sitting, and layer by layer


@pytest.fixture(scope="module")
def files():
    return gallery.gallery()


@pytest.fixture(scope="module")
def reports():
    return {entry.name: entry.compile().report for entry in ENTRIES}


def test_the_folder_holds_the_generated_files_and_no_others(files):
    assert {path.name for path in GENERATED.iterdir()} == set(files)


@pytest.mark.parametrize("name", ["README.md", *(f"{entry.name}.{end}" for entry in ENTRIES for end in "hc")])
def test_a_file_is_what_the_compiler_makes_today(files, name):
    committed = GENERATED.joinpath(name).read_bytes()
    assert committed.decode() == files[name], "if the change is meant: make generated, and say why in the commit"


def test_the_document_explains_alarms_of_functions_that_the_files_have():
    for entry in ENTRIES:
        text = (GENERATED / f"{entry.name}.c").read_text() + " main("
        for function, _ in explained(entry.name):
            assert re.search(rf"\b(?:{entry.name}_)?{function}\(", text), f"{entry.name}: {function}"


def test_lines_fit_120_columns(files):
    long = [f"{name}: {line}" for name, text in files.items() for line in text.splitlines() if len(line) > 120]
    assert [line for line in long if not line.startswith("README.md")] == []


@pytest.mark.parametrize("entry", share_at_first(ENTRIES, 4), ids=lambda entry: entry.name)
def test_an_entry_computes_what_the_reference_computes(entry, level, everything):
    try:
        host_compiler()
    except ToolMissing as missing:
        pytest.skip(str(missing))
    verification = verify(entry.compile(), cases=4, flags=(level,), sums=everything)
    assert verification.differing == 0, verification.first


def test_every_kernel_is_shown(reports):
    shown = {node.kernel for report in reports.values() for node in report.nodes if node.kernel != "none"}
    assert shown == {kernel.name for kernel in KERNELS}


def test_every_form_of_a_line_is_shown(reports):
    shown = {form for report in reports.values() for node in report.nodes for form in node.requantize}
    # The other two compute the rounding itself where no line equals it, which no real layer needed.
    assert shown >= set(FORMS) - {"constant", "soft-float", "integers"}


def test_files_stay_short_enough_to_be_read(files):
    for kind, entries in (("layer", LAYERS), ("network", NETWORKS)):
        lines = {entry.name: files[f"{entry.name}.c"].count("\n") for entry in entries}
        assert max(lines.values()) < LONGEST[kind], lines


def test_a_file_includes_the_header_of_what_it_calls(files):
    for name, text in files.items():
        if name.endswith(".c") and re.search(r"\bmem(cpy|set|move)\(", text):
            assert "#include <string.h>" in text, name


def test_a_file_is_tidy_text(files):
    for name, text in files.items():
        assert text.isascii(), name
        assert text.endswith("\n"), name
        assert not re.search(r"[ \t]+$|\t|\n\n\n|\{\n\n|\n\n *\}", text, re.MULTILINE), name
