"""For all tests: chance is the same in every run; Javas that start quickly, wherever a test starts one; what waits
comes beside what works, and what takes least comes last, so that no core is idle; and marks by what a test needs, so
that `make quick` can do without.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests import hunt, seeds
from tests.spark import quick_jvm
from tests.spark.fixtures import java_home, postgres, spark  # noqa: F401 - one session for all folders
from tests.thinned import ONE_IN

# Folders and files that wait much of their time (for a Java, a disk, a process that was killed), those that work all of
# it, and the others; each by how long their files take.  The doctests, which take the least, come last.
WAIT = (
    "tests/crash/",
    "tests/spark/",
    "tests/cli/spark/",
    "tests/sinks/",
    "tests/test_docs.py",
    "tests/test_examples.py",
    "tests/examples/",
)
WORK = ("tests/check/", "tests/failures/", "tests/engine/", "tests/cli/", "tests/judge/")
OTHERS = ("tests/",)

JAVA = {"spark", "java_home"}  # the fixtures of whoever starts a Java

# Where processes are killed for real.
KILLED = (
    "tests/atomic/places/test_kills.py",
    "tests/cli/test_crash.py",
    "tests/crash/test_campaign.py",
    "tests/crash/test_epochs.py",
    "tests/crash/test_full_disk.py",
    "tests/crash/test_retries.py",
    "tests/engine/epochs/test_crash.py",
    "tests/engine/epochs/test_group_commit.py",
    "tests/failures/crash/test_crash.py",
    "tests/failures/test_crash.py",
    "tests/judge/test_kills_places.py",
    "tests/judge/test_kills_together.py",
    "tests/judge/test_namespaces.py",
    "tests/sinks/group/test_faults.py",
    "tests/sinks/group/test_recovery.py",
    "tests/sinks/test_crash.py",
    "tests/spark/state/test_store_crashes.py",
)

# What `make quick` leaves out besides: files that take more than some four seconds of a processor, by room and by how
# their names begin.  The doctests, which take a hundredth of that, are in every room.
SLOW = tuple(
    f"{room}/test_{name}.py"
    for room, names in {
        "tests/atomic/places": "client host kills nested network patience",
        "tests/capacity": "array_search arrays flow planning simulation source_mutants steps zones",
        "tests/check/formula": "buchi",
        "tests/check/functions": "opaque",
        "tests/check/smt": "smt",
        "tests/check/system": "system",
        "tests/check": "compare conformance keyed overflow questions realistic smt streams strings unbounded values",
        "tests/check/timed": "agree questions",
        "tests/cli/models": "capacity places",
        "tests/cli": "audit bad_input check process run run_epochs tables verbs",
        "tests/conformance": "conformance",
        "tests/data": "damaged",
        "tests/engine/epochs": "crash damage groups inputs rich run store tables times",
        "tests/engine/kernel": "kernel kernel_random lookups",
        "tests/engine/saved": "carry values",
        "tests/engine": "cores forget",
        "tests/engine/timed": "columns loops running timers why",
        "tests/examples": "flights flights_time_on_spark loops on_spark",
        "tests/expr": "function lookup node rich trace",
        "tests/failures": "audit explain explore question tasks",
        "tests/graph": "processors",
        "tests/judge/atomic": "judge",
        "tests/judge/capacity": "capacity",
        "tests/judge": "fuzz_places rows verdicts",
        "tests/model": "model",
        "tests/sinks/group": "faults machine together",
        "tests/sinks": "postgres",
        "tests/spark/state": "store",
        "tests/spark/timed": "looking query stream",
        "tests": "docs examples house seeds",
    }.items()
    for name in names.split()
)

seeds.load_profile()
quick_jvm.set_up()


def pytest_configure(config: pytest.Config) -> None:
    """A hunt has a time that it ends at, and a file for what it finds."""
    if seeds.HUNT is not None:
        config.pluginmanager.register(hunt.Hunting(int(seeds.HUNT)))


@pytest.hookimpl(tryfirst=True)  # before the tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marked, and sorted by folder alone: within one, the order of the tests stays."""
    cases: Counter[str] = Counter()
    for item in items:
        if (test := item.nodeid.partition("[")[0]) in ONE_IN and item.get_closest_marker("long") is None:
            one_in = ONE_IN[test]
            if cases[test] % one_in if one_in else seeds.HUNT is None:  # a hunt draws from each
                item.add_marker(pytest.mark.long)
            cases[test] += 1
        if JAVA & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)
        if item.nodeid.startswith(KILLED):
            item.add_marker(pytest.mark.crash)
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    order = {file: n for n, file in enumerate(in_turns(item.nodeid.partition("::")[0] for item in items))}
    items.sort(key=lambda item: order[item.nodeid.partition("::")[0]])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Only xdist asks, so it is there: without it every test can still be collected and run, one after the other."""
    from tests.one_spark import OneSpark

    return OneSpark(config, log) if config.getvalue("dist") == "loadfile" else None


def in_turns(files: Iterable[str]) -> list[str]:
    """Files in the order in which they begin: of those that wait and of those that work by turns, as many of each as
    there are; those that wait are through when a fifth of the others is still to come.

    >>> in_turns(["src/a.py", "tests/check/test_b.py", "tests/test_c.py", "tests/check/test_d.py", "tests/spark/e.py"])
    ['tests/spark/e.py', 'tests/check/test_b.py', 'tests/check/test_d.py', 'tests/test_c.py', 'src/a.py']
    """
    groups: tuple[list[tuple[int, str]], ...] = ([], [], [])
    for file in dict.fromkeys(files):
        places = [
            (group, n) for group, of in enumerate((WAIT, WORK, OTHERS)) for n, f in enumerate(of) if file.startswith(f)
        ]
        group, n = places[0] if places else (2, len(OTHERS))
        groups[group].append((n, file))
    waiting, working, others = ([file for _, file in sorted(g, key=lambda found: found[0])] for g in groups)
    turns = [(0.8 * n / len(waiting), file) for n, file in enumerate(waiting)]
    turns += [(n / len(working), file) for n, file in enumerate(working)]
    return [file for _, file in sorted(turns, key=lambda turn: turn[0])] + others


def pytest_collection_finish() -> None:
    """What was collected stays to the end: nobody need look through it for garbage."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """What goes at the end goes as ever: some libraries tell of what is left over then."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def no_modules_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A user's module that a test loads from its own folder goes with it: another test's file of that name, in the same
    process, is not the same module, and which tests share a process changes from run to run."""
    before = set(sys.modules)
    path = list(sys.path)
    yield
    folder = getattr(request.node, "funcargs", {}).get("tmp_path")
    if folder is None:
        return
    inside = f"{folder}{os.sep}"
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(inside):
            del sys.modules[name]
    sys.path[:] = [p for p in sys.path if p in path or not f"{p}{os.sep}".startswith(inside)]
