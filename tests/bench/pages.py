"""Pages of the documentation that hold measured tables."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def write_table(page: Path, begin: str, end: str, text: str) -> None:
    """Puts a table between two comments of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    page.write_text(f"{before}{begin}\n\n```text\n{text.rstrip()}\n```\n\n{end}{after}", encoding="utf-8")
