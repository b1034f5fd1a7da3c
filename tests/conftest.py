"""For all tests: Javas that start quickly, wherever a test starts one; and what takes longest comes first, so that no process ends alone."""

from __future__ import annotations

import pytest

from tests.spark import quick_jvm

FIRST = ("tests/crash/", "tests/spark/")

quick_jvm.set_up()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorted by folder alone: within one, the order of the tests stays."""
    items.sort(key=lambda item: next((n for n, folder in enumerate(FIRST) if item.nodeid.startswith(folder)), len(FIRST)))
