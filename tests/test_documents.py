"""What the documents say is so: their commands print what is shown, their links lead somewhere."""

import re
from pathlib import Path

import pytest
from documents import ROOT, Command, documents, run, steps
from emulated import require_core
from marks import some_at_first
from tools import require

from qcgen.lower import LOWERINGS

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.joinpath("docs").rglob("*.md")), ROOT / "generated" / "README.md"]
DECISIONS = ROOT / "docs" / "decisions"
NUMBERED = re.compile(r"[Ee]quations? \((\d+)\)")


def links(path):
    """The files that a document links to, as it spells them."""
    return re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", some_at_first(documents(), *documents()[1:4:2]), ids=name_of)
def test_the_commands_of_a_document_print_what_it_shows(path, tmp_path):
    require("bash", "cc")
    assert_prints_what_it_shows(path, tmp_path, cores=False)


@pytest.mark.all
@pytest.mark.parametrize("path", documents(core=True), ids=name_of)
def test_the_commands_of_a_document_for_cores_print_what_it_shows(path, tmp_path):
    require("bash", "cc", "cmake")
    for core in {step.core for step in steps(path.read_text()) if isinstance(step, Command) and step.core}:
        require_core(core)
    assert_prints_what_it_shows(path, tmp_path, cores=True)


def assert_prints_what_it_shows(path, folder, *, cores):
    count = 0
    for command, output in run(path, folder, cores=cores):
        assert output == command.prints, f"{command.line}: if this is right, run python tests/documents.py"
        count += 1
    assert count


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_the_links_of_a_document_lead_to_files(path):
    assert [link for link in links(path) if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_the_files_that_a_document_names_exist(path):
    named = re.findall(r"`((?:qcgen|templates|tests|docs|generated)/[\w./-]+\.\w+)`", path.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", sorted(DECISIONS.glob("0*.md")), ids=name_of)
def test_a_decision_has_at_most_300_words_and_is_in_the_index(path):
    assert len(path.read_text().split()) <= 300
    assert f"]({path.name})" in DECISIONS.joinpath("README.md").read_text()


def test_the_page_of_operators_names_every_operator_that_can_be_compiled():
    named = set(re.findall(r"\w+", ROOT.joinpath("docs", "operators.md").read_text()))
    assert {op_type for _, op_type in LOWERINGS} <= named


def test_the_readme_is_read_in_a_minute():
    assert len(ROOT.joinpath("README.md").read_text().splitlines()) <= 140


def test_every_document_is_reached_from_the_index():
    index = ROOT / "docs" / "README.md"
    lists = {index, DECISIONS / "README.md"}
    reached = {path.parent.joinpath(link).resolve() for path in lists for link in links(path)}
    studies = set(ROOT.joinpath("docs", "studies").glob("*.md"))
    missing = [name_of(path) for path in ROOT.joinpath("docs").rglob("*.md") if path not in reached | lists | studies]
    assert missing == []


def test_a_study_belongs_to_a_decision_that_links_to_it():
    for path in ROOT.joinpath("docs", "studies").glob("*.md"):
        assert f"](../studies/{path.name})" in DECISIONS.joinpath(path.name).read_text()


def test_all_documents_together_have_at_most_40000_words_beside_what_programs_print():
    written = {ROOT / "docs" / name for name in ("command-line.md", "operators.md", "python.md")}  # from the code
    paths = {ROOT / "README.md", *ROOT.joinpath("docs").rglob("*.md")} - written
    texts = [path.read_text() for path in paths]
    prose = [re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL) for text in texts]
    assert sum(any(map(str.isalnum, word)) for text in prose for word in text.split()) <= 40000


def test_code_that_a_page_quotes_is_what_stands_in_the_source():
    page = ROOT.joinpath("docs", "adding-a-kernel.md").read_text()
    quoted = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    lines = {line.strip() for text in quoted for line in text.splitlines() if not line.endswith("...)")} - {"", "..."}
    source = {line.strip() for path in ROOT.joinpath("qcgen").rglob("*.py") for line in path.read_text().splitlines()}
    assert len(lines) > 20
    assert lines - source == set()


def test_every_equation_that_the_code_cites_is_in_the_document():
    defined = set(re.findall(r"^\((\d+)\)", ROOT.joinpath("docs", "quantization.md").read_text(), re.MULTILINE))
    sources = [*ROOT.joinpath("qcgen").rglob("*.py"), *ROOT.joinpath("templates").rglob("*.jinja")]
    cited = {number for path in sources for number in NUMBERED.findall(Path(path).read_text())}
    assert cited
    assert cited <= defined
