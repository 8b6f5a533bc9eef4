"""Every tool that a test needs has a package, which its skip names and .ci/run installs.

A machine with all tools never skips, so it cannot see a skip that fails: these tests read the tests instead.
"""

import ast
import re
from pathlib import Path

import pytest
from tools import DEBIAN, PYPI, install, require, require_modules, skip_without

TESTS = Path(__file__).parent
SOURCES = [path for path in sorted(TESTS.rglob("*.py")) if path.name != "tools.py" and "bench" not in path.parts]
ASKS = {"require", "require_modules", "tool"}
"""Functions that skip a test, called with the names of tools."""


def tools_asked_for() -> set[tuple[str, str]]:
    """Each file and tool that it names in a call of one of ASKS."""
    found = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKS:
                names = {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
                found |= {(path.name, name) for name in names}
    return found


def test_every_tool_that_a_test_asks_for_has_a_package():
    asked = tools_asked_for()
    assert len({name for _, name in asked}) > 10
    assert [pair for pair in sorted(asked) if pair[1] not in DEBIAN | PYPI] == []


def test_only_tools_py_decides_whether_a_tool_is_there():
    decides = re.compile(r"shutil\.which\(|importorskip\(|skip\([^)]*(?:is missing|not installed)")
    assert [path.name for path in SOURCES if path != Path(__file__) and decides.search(path.read_text())] == []


def test_ci_installs_every_package():
    run = TESTS.parent / ".ci" / "run"
    if not run.is_file():
        pytest.skip("the archive of the sources, beside the repository, has no .ci")
    words = run.read_text().split()
    assert [
        package for packages in DEBIAN.values() for package in packages.split() if package not in (*words, "bash")
    ] == []


@pytest.mark.parametrize("ask", [require, require_modules])
def test_a_tool_without_a_package_is_a_failure_where_it_is_installed_too(ask):
    with pytest.raises(KeyError, match="sys"):
        ask("sys")


def test_what_is_missing_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_args, **_options: None)
    with pytest.raises(pytest.skip.Exception, match="avr-gcc is missing: apt-get install gcc-avr avr-libc"):
        require("avr-gcc")
    with pytest.raises(pytest.skip.Exception, match="reuse is missing: pip install reuse"):
        require("reuse")
    skip_without("gcc", "reuse", missing=[])
    assert install("gcc", "cc", "reuse") == "apt-get install gcc and pip install reuse"
