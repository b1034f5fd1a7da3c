"""The judge of real tables: functions, pipelines, rows that fail, verdicts (cells and files: tests/data)."""

from __future__ import annotations

import random

import pytest

from tests.judge import row_checks, row_functions, row_judge, row_tables
from tests.judge.row_values import rows
from tests.seeds import seeds

pytestmark = pytest.mark.long


def test_a_function_that_was_picked_means_what_python_says():
    events = rows(random.Random(5), 30)
    said = {t.source: row_judge.verdict(t, events) for t in row_functions.PICKED}
    assert {source: word for source, word in said.items() if word.startswith(("WRONG", "CRASH"))} == {}


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(100))
def test_a_function_that_was_drawn_means_what_python_says(seed):
    text, events = row_judge.drawn_case(seed)
    row_judge.judge(text, events)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(80))
def test_a_pipeline_over_a_table_puts_out_what_is_told(seed):
    row_tables.judge(seed)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(60))
def test_rows_that_fail_are_as_if_they_had_never_been_there(seed):
    row_tables.judge_bad(seed)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_a_verdict_about_rows_is_true(seed):
    row_checks.judge(seed)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(20, 1000))
def test_compiled_functions_mean_what_python_says(seed):
    r = random.Random(seed)
    texts = [row_functions.drawn(r, failing=False) for _ in range(8)]
    row_judge.compiled([t for t in texts if row_judge.is_compiled(t)], rows(r, 60, calm=True))


def test_the_judge_notices_what_is_wrong():
    events = rows(random.Random(5), 30)
    right = row_functions.Text("int", "def f(e: E) -> int:\n    return e.i % 7\n")
    assert row_judge.judge(right, events) == "compiled"
    wrong = row_functions.Text("str", "def f(e: E) -> str:\n    return f'{e.i:d}'\n")
    told = row_judge.told
    row_judge.told = lambda text, of: [(fine, value + "!") for fine, value in told(text, of)]
    try:
        with pytest.raises(row_judge.Wrong, match="Python has"):
            row_judge.judge(wrong, events)
    finally:
        row_judge.told = told
