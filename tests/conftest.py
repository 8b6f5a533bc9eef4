"""Options of the test suite, and which of its tests are left out or may be skipped."""

from __future__ import annotations

import gc
import os
import shutil
from collections import defaultdict
from collections.abc import Generator
from importlib.util import find_spec

import pytest
from tools import NOT_IN_CI

import qcgen.render

gc.set_threshold(100_000, 20, 20)  # the default looks through all tests again and again: a seventh of the time

collect_ignore = [] if find_spec("onnxruntime") else ["architectures/oracle.py", "fuzz_networks"]
"""Modules without tests that need what is not a dependency of the tests."""

NO_SKIPS = os.environ.get("QCGEN_NO_SKIPS", "") not in ("", "0")
"""Set where every tool is installed: there a test that is skipped has lost something, and fails."""

OPTIONS = {
    "all": "run what make test leaves to make test-all: other compilers, levels and cores, sanitizers, every case",
    "exhaustive": "run the tests that walk through all 2^32 accumulators",
    "emulated": "run every case on every emulated machine",
    "eva": "let Frama-C's Eva go through the gallery",
}
"""The marks of tests that run only with an option called like them."""

ALLOWED = ("beside the repository", NOT_IN_CI)
"""Words of the reasons that stay allowed: material that is not a part of the repository, and frameworks."""


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, text in OPTIONS.items():
        parser.addoption(f"--{name}", action="store_true", help=text)
    parser.addoption("--at-most", type=int, metavar="N", help="run N cases of each test, evenly chosen among all")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests of options that are not given: to skip them one by one takes half a minute."""
    left_out = _left_out(config)
    kept = [item for item in items if not any(map(item.get_closest_marker, left_out))]
    if most := config.getoption("--at-most"):
        kept = _some(kept, most)
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def _some(items: list[pytest.Item], most: int) -> list[pytest.Item]:
    """At most so many cases of each test function, the first one and others at equal distances."""
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    chosen = {item for each in cases.values() for item in each[:: -(-len(each) // most)]}
    return [item for item in items if item in chosen]


def pytest_collection_finish() -> None:
    """Keeps the garbage collector away from what lives to the end: the modules and the tests."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    options = ", ".join(f"--{name}" for name in _left_out(config))
    terminalreporter.write_line(f"left out: tests that run with {options}")


def _left_out(config: pytest.Config) -> list[str]:
    return [name for name in OPTIONS if not config.getoption(f"--{name}")]


@pytest.fixture(scope="session")
def everything(request) -> bool:
    """Whether make test-all runs, not make test."""
    return request.config.getoption("--all")


@pytest.fixture(scope="session")
def exhaustive(request) -> bool:
    """Whether nothing is left out, however long it takes."""
    return request.config.getoption("--exhaustive")


@pytest.fixture(scope="session")
def level() -> str:
    """The level at which gcc compiles many small cases for the host: it takes a fifth of the time of -O1."""
    return "-O0"


@pytest.fixture(scope="module")
def selected(request):
    """Takes a file's cases or units and gives those that the selected tests name, or all if none names any."""
    items = [item for item in request.session.items if item.path == request.path and "selected" in item.fixturenames]
    if not request.config.getoption("--all"):
        items = [item for item in items if not item.get_closest_marker("all")]
    parameters = [item.callspec.params if hasattr(item, "callspec") else {} for item in items]
    named = {_name_of(each.get("case", each.get("unit", each.get("name")))) for each in parameters} - {None}
    return lambda cases: [case for case in cases if not named or _name_of(case) in named]


def _name_of(case):
    return getattr(case, "name", case)


@pytest.fixture(scope="module")
def outputs(image):
    """What the program of a file's fixture ``image`` (``batch.Image``) gives, by the units' names."""
    return image.run()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not hasattr(report, "wasxfail"):
        _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turns a skip into a failure where QCGEN_NO_SKIPS is set and the reason is not the allowed one."""
    if not (NO_SKIPS and report.skipped) or any(words in str(report.longrepr) for words in ALLOWED):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid} must not be skipped here (QCGEN_NO_SKIPS is set). {reason}"


@pytest.fixture
def mutate(tmp_path, monkeypatch):
    """Renders with templates of which one is changed."""

    def changed(name, old, new):
        folder = tmp_path / "templates"
        shutil.copytree(qcgen.render.templates(), folder)
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))
        monkeypatch.setattr(qcgen.render, "templates", lambda: folder)
        forget()

    def forget():
        qcgen.render.environment.cache_clear()
        qcgen.render.library.cache_clear()

    forget()
    yield changed
    monkeypatch.undo()
    forget()
