"""A class or an alias has a name of its own, so that a reader who meets the name knows what it is."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FAMILIES = ("arm_dsp", "arm_mve", "host", "portable", "scalar")
"""Packages of kernels that do not see each other: a name of one of them may stand in another, too."""


def defined(module: ast.Module) -> Iterator[str]:
    """The names of classes and of aliases, which are written like classes, at the top of a module."""
    for statement in module.body:
        match statement:
            case ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name.lstrip("_")[:1].isupper() and not name.isupper():
                    yield name


def modules() -> Iterator[Path]:
    for path in sorted((ROOT / "qcgen").rglob("*.py")):
        if not any((ROOT / "qcgen" / "kernels" / family) in path.parents for family in FAMILIES):
            yield path


def test_no_class_or_alias_has_the_name_of_another_one():
    counts = Counter(name for path in modules() for name in set(defined(ast.parse(path.read_text(encoding="utf-8")))))
    assert {name: count for name, count in counts.items() if count > 1} == {}


def test_classes_and_aliases_are_found():
    text = (
        "class A: ...\nBy = int | str\nCase: T = 3\nMOST = 2\n_Do = list[int]\nsmall = 1\ndef f():\n    class E: ...\n"
    )
    assert list(defined(ast.parse(text))) == ["A", "By", "Case", "_Do"]
