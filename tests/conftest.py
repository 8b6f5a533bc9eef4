"""Options of the test suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="run the tests that walk through all 2^32 accumulators")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--exhaustive"):
        return
    for item in items:
        if item.get_closest_marker("exhaustive"):
            item.add_marker(pytest.mark.skip(reason="runs with --exhaustive"))
