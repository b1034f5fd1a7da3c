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

import pytest

from tests import hunt, seeds
from tests.spark import quick_jvm
from tests.spark.fixtures import java_home, postgres, spark  # noqa: F401 - one session for all folders

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
OTHERS = ("tests/report/", "tests/")

JAVA = {"spark", "java_home"}  # the fixtures of whoever starts a Java

# Where processes are killed for real.
KILLED = (
    "tests/crash/",
    "tests/sinks/test_crash.py",
    "tests/spark/state/test_store_crashes.py",
    "tests/engine/epochs/test_crash.py",
    "tests/engine/epochs/test_together.py",
    "tests/judge/test_kills_together.py",
    "tests/judge/test_kills_places.py",
    "tests/judge/test_namespaces.py",
    "tests/sinks/group/test_crash.py",
    "tests/sinks/group/test_faults.py",
    "tests/atomic/places/test_kills.py",
    "tests/failures/crash/",
    "tests/cli/test_crash.py",
)

# What `make quick` leaves out besides: files that take more than some four seconds of a processor, by room and by how
# their names begin.  The doctests, which take a hundredth of that, are in every room.
SLOW = tuple(
    f"tests/{room}/test_{name}"
    for room, names in {
        "atomic/places": "client host kills nested patience tls",
        "capacity": "array_ budget flow judge simulation tables",
        "capacity/planning": "",
        "capacity/zones": "",
        "check": "agree bench edges given missing mutants names questions realistic rich several_events vacuity",
        "check/belief": "wide",
        "check/compare": "failing_apart fitted sequence",
        "check/endless": "bounds history joins keyed",
        "check/formula": "buchi",
        "check/functions": "opaque",
        "check/smt": "floats smt strings",
        "check/system": "assume system",
        "check/timed": "",
        "conformance": "",
        "cli/models": "capacity places",
        "cli": "audit bad_input check explain flights memory process run tables verbs",
        "data": "mutants",
        "engine": "cores forget meaning",
        "engine/epochs": "bad damage groups leftovers rich run several_files tables times",
        "engine/kernel": "kernel lists lookups mutants undo",
        "engine/saved": "carry rich values",
        "engine/timed": "columns corrected loops timers",
        "engine/timed/why": "holds",
        "expr": "lookup node opaque operations rich trace",
        "failures/audit": "audit pieces",
        "failures/checker": "explore question",
        "failures/model": "explain tasks",
        "graph": "keys",
        "judge": "fuzz_places rows verdicts",
        "judge/atomic": "",
        "judge/capacity": "",
        "judge/loops": "",
        "judge/rich": "",
        "judge/time": "",
        "model": "counterexample",
        "report": "counterexample_pytest",
        "sinks": "postgres",
        "sinks/group": "faults machine together words",
        "spark/scan": "scan",
        "spark/timed": "stream loops looking",
        "spark/state": "store_model",
    }.items()
    for name in names.split() or [""]
) + ("tests/examples/", "tests/test_docs", "tests/test_examples", "tests/test_house", "tests/test_seeds")

# Of these every run has one case in so many; the others, which go the same way through the code, are among the long.
ONE_IN = {
    f"tests/{file}.py::test_{test}": n
    for file, tests in {
        "spark/atomic/test_atomic": {"as_here": 2},
        "atomic/places/test_kills": {"killed_at_a_moment": 3},
        "capacity/test_array_random": {"random_systems": 3},
        "check/compare/test_fitted": {"the_same_and_another": 2},
        "check/compare/test_sequence": {"as_by_definition": 2, "the_same_whatever_the_delay": 4, "not_the_same": 2},
        "check/endless/test_bounds": {"what_comes_after_a_queue_is_full_counts": 4, "a_join_of_two_sources_is_live": 2},
        "check/endless/test_keyed": {"a_verdict_is_what_every_short_stream_shows": 2},
        "check/smt/test_floats": {"proved": 2},
        "check/smt/test_smt": {"shortest_refutations_agree_with_brute_force": 2},
        "check/system/test_assume": {"engines_agree_with_the_reference": 2, "over_exact_integers": 2},
        "check/test_mutants": {"every_mutant_that_changes_the_meaning_is_refuted": 4},
        "check/test_missing_values": {"every_engine_answers_as_all_runs_do": 4},
        "check/test_names": {"a_source_may_have_any_name": 2},
        "check/test_realistic": {"a_share_of_the_questions": 2},
        "cli/test_flights": {"three_delays_in_a_row": 2},
        "cli/test_process": {"what_is_no_file_is_read_like_a_pipe": 3},
        "engine/epochs/test_bad": {"once_each_whoever_is_killed": 2},
        "engine/epochs/test_crash": {"killed_at_a_point": 2, "a_damaged_last_snapshot_falls_back": 3},
        "engine/epochs/test_groups": {"killed_among_bunches": 2},
        "engine/epochs/test_ordered": {"sorted_and_killed": 3},
        "engine/epochs/test_rich": {
            "every_source_to_sqlite": 2,
            "every_source_to_a_function_and_a_folder": 2,
            "every_source_to_postgres": 2,
            "a_state_with_a_time_that_may_be_missing_goes_on": 4,
            "so_do_the_states_of_keys_in_parallel": 2,
            "a_column_that_would_round_or_mean_something_else": 3,
            "a_field_of_another_type_is_another_run": 6,
            "a_time_as_a_key": 3,
        },
        "engine/epochs/test_several_files": {
            "the_same_rows_as_without_epochs": 3,
            "killed_in_the_middle": 2,
            "what_has_changed_is_refused": 2,
            "files_that_are_added_are_read_by_the_same_command": 2,
            "columns_that_come_along": 9,
        },
        "engine/epochs/test_together": {"killed_at_a_moment_of_a_round": 2},
        "engine/kernel/test_kernel": {"windows_of_large_numbers_fall_back_to_the_definition": 3},
        "engine/saved/test_rich": {"saved_and_loaded_it_goes_on": 3},
        "engine/saved/test_carry": {
            "what_is_unchanged_goes_on": 4,
            "a_window_with_another_inside_keeps_its_events": 4,
        },
        "engine/test_meaning": {"keys_that_are_given_up": 2, "larger_random_pipelines": 2},
        "examples/test_flights": {"a_frame_as_it_comes": 3, "files": 3, "killed_and_going_on": 2},
        "expr/test_rich": {"random_functions": 4},
        "failures/audit/test_pieces": {"each_falsification": 2},
        "sinks/group/test_faults": {"crash_at_each_write_of_the_log": 2},
        "sinks/group/test_crash": {
            "whoever_dies_all_have_it_or_none": 2,
            "what_really_happens_is_a_run_of_the_machine": 3,
        },
        "sinks/test_interface": {"a_crash_does_not_show_in_a_sink_of_ones_own": 3},
        "sinks/test_partitions": {"what_comes_back_from_spark": 2, "other_names_come_back_from_spark": 2},
        "spark/audit/test_audit": {"a_tampered_run": 4},
        "spark/files/test_csv": {"random_cells": 4, "csv_is_strict": 3},
        "spark/files/test_json": {"what_is_refused": 3},
        "spark/native/test_native": {"edges": 3},
        "spark/scan/test_scan_on_spark": {"orders_of_every_kind": 4, "orders_of_every_kind_through_three_levels": 2},
        "spark/test_equal": {"streaming": 3},
        "spark/test_examples_on_spark": {"batch": 3, "streaming": 3},
        "spark/test_keep": {"every_way_keeps_every_type": 2},
        "spark/test_reading": {"what_a_row_must_not_hold": 2},
        "spark/test_stream": {"sparks_own_store_knows_what_cannot_change": 2},
    }.items()
    for test, n in tests.items()
}

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
            if cases[test] % ONE_IN[test]:
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
