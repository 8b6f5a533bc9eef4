"""Pages, charts and figures that are written from code and benchmarks are what their program writes today."""

from pathlib import Path

import charts
import figures
import pytest
import reference_pages
from reference_pages import ROOT


@pytest.fixture(scope="module")
def pages():
    return reference_pages.pages()


def test_they_are_what_the_program_writes_today(pages):
    stale = [str(path.relative_to(ROOT)) for path, text in pages.items() if path.read_text() != text]
    assert stale == [], "make generated"


def test_the_folder_of_charts_holds_no_other_file(pages):
    folder = ROOT / "docs" / "charts"
    assert {path for path in pages if path.parent == folder} == set(folder.iterdir())


def test_the_readme_shows_every_chart_and_every_part_with_figures():
    text = Path(ROOT / "README.md").read_text()
    assert all(f"(docs/charts/{name})" in text for name in charts.CHARTS)
    assert {mark[2] for mark in reference_pages.MARKED.finditer(text)} == set(reference_pages.front_page.PARTS)


def test_figures_are_those_of_the_benchmarks():
    """A figure that changes in a page of the benchmarks changes with it."""
    found = figures.read()
    assert [network.name for network in found.networks] == [
        "ResNet8",
        "keyword spotting",
        "visual wake words",
        "autoencoder",
    ]
    benchmarks = figures.DOCS.joinpath("benchmarks.md").read_text()
    for network in found.networks:
        for cycles in network.cycles.values():
            assert f"{cycles:,}".replace(",", " ") in benchmarks


def test_columns_are_found_where_cells_are_empty():
    text = "```text\nname  a b    way\nx     1 000     \nlong      1  two\n```\n"
    assert figures.text_table(text, "name") == [
        {"name": "x", "a b": "1 000", "way": ""},
        {"name": "long", "a b": "1", "way": "two"},
    ]


def test_a_chart_has_dark_colours_a_title_and_every_value_as_text():
    for make in charts.CHARTS.values():
        svg = make(figures.read())
        assert "prefers-color-scheme:dark" in svg
        assert "<title" in svg
        assert svg.count('<rect class="own"') + svg.count('<rect class="other"') == svg.count('class="label"')
