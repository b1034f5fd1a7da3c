"""For all tests: chance is the same in every run; Javas that start quickly, wherever a test starts one; what takes
longest comes first, so that no process ends alone; and marks by what a test needs, so that `make quick` can do without.
"""

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

JAVA = {"spark", "java_home"}  # the fixtures of whoever starts a Java

# Where processes are killed for real.
KILLED = (
    "tests/crash/",
    "tests/sinks/test_crash.py",
    "tests/spark/state/test_store_crashes.py",
    "tests/engine/epochs/test_crash.py",
    "tests/failures/crash/",
    "tests/cli/test_crash.py",
)

# What `make quick` leaves out besides: files that take more than some four seconds of a processor, by room and by how
# their names begin.  The doctests, which take a hundredth of that, are in every room.
SLOW = tuple(
    f"tests/{room}/test_{name}"
    for room, names in {
        "check": "agree bench edges given mutants names questions realistic several_events vacuity",
        "check/belief": "wide",
        "check/compare": "failing_apart sequence",
        "check/endless": "bounds history joins keyed",
        "check/formula": "buchi",
        "check/functions": "opaque",
        "check/smt": "floats smt strings",
        "check/system": "assume",
        "cli": "audit bad_input check memory process run",
        "data": "mutants",
        "engine": "meaning",
        "engine/epochs": "damage groups leftovers run tables",
        "engine/kernel": "kernel mutants",
        "engine/saved": "carry values",
        "expr": "node opaque trace",
        "failures/audit": "audit pieces",
        "failures/checker": "explore question",
        "failures/model": "explain tasks",
        "graph": "keys",
        "judge": "verdicts",
        "model": "counterexample",
        "report": "counterexample_pytest",
        "sinks": "postgres",
        "spark/scan": "scan",
        "spark/state": "store_model",
    }.items()
    for name in names.split()
) + ("tests/test_docs", "tests/test_examples", "tests/test_house", "tests/test_seeds")

seeds.load_profile()
quick_jvm.set_up()


def pytest_configure(config: pytest.Config) -> None:
    """A hunt has a time that it ends at, and a file for what it finds."""
    if seeds.HUNT is not None:
        config.pluginmanager.register(hunt.Hunting(int(seeds.HUNT)))


@pytest.hookimpl(tryfirst=True)  # before the tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marked, and sorted by folder alone: within one, the order of the tests stays."""
    for item in items:
        if JAVA & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)
        if item.nodeid.startswith(KILLED):
            item.add_marker(pytest.mark.crash)
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    items.sort(
        key=lambda item: next((n for n, folder in enumerate(FIRST) if item.nodeid.startswith(folder)), len(FIRST))
    )
