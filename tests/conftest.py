"""For all tests: chance is the same in every run; Javas that start quickly, wherever a test starts one; and what takes
longest comes first, so that no process ends alone."""

from __future__ import annotations

import pytest

from tests import hunt, seeds
from tests.spark import quick_jvm
from tests.spark.fixtures import java_home, postgres, spark  # noqa: F401 - one session for all folders

# Folders and files by how long their files take; the doctests, which take the least, come last.
FIRST = (
    "tests/crash/",
    "tests/spark/",
    "tests/sinks/",
    "tests/test_docs.py",
    "tests/test_examples.py",
    "tests/judge/",
    "tests/engine/",
    "tests/cli/",
    "tests/failures/",
    "tests/check/",
    "tests/report/",
    "tests/",
)

seeds.load_profile()
quick_jvm.set_up()


def pytest_configure(config: pytest.Config) -> None:
    """A hunt has a time that it ends at, and a file for what it finds."""
    if seeds.HUNT is not None:
        config.pluginmanager.register(hunt.Hunting(int(seeds.HUNT)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorted by folder alone: within one, the order of the tests stays."""
    items.sort(
        key=lambda item: next((n for n, folder in enumerate(FIRST) if item.nodeid.startswith(folder)), len(FIRST))
    )
