"""The judge of real tables, as much of it as there is time for in every run: functions, pipelines, cells, files."""

from __future__ import annotations

import random

import pytest

from tests.judge import row_cells, row_checks, row_files, row_functions, row_judge, row_tables
from tests.judge.row_values import rows
from tests.seeds import seeds


@pytest.mark.parametrize("case", row_cells.CELLS, ids=lambda case: case.name)
def test_a_cell_is_read_as_it_is_or_refused(case):
    found = row_cells.read(case)
    if case.wanted is row_cells.NO:
        assert isinstance(found, tuple), found
        assert "\n" not in found[1]
    else:
        assert found == case.wanted


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_text_is_read_as_what_it_spells_or_refused(tmp_path, form):
    assert list(row_files.cells(tmp_path, form)) == []


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(1))
def test_rows_go_through_every_kind_of_file(tmp_path, seed):
    assert list(row_files.there_and_back(tmp_path, seed)) == []


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 10))])
def test_a_function_that_was_picked_means_what_python_says(part):
    events = rows(random.Random(5), 30)
    said = {t.source: row_judge.verdict(t, events) for t in row_functions.PICKED[part::10]}
    assert {source: word for source, word in said.items() if word.startswith(("WRONG", "CRASH"))} == {}


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(10))
def test_a_function_that_was_drawn_means_what_python_says(seed):
    text, events = row_judge.drawn_case(seed)
    row_judge.judge(text, events)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(8))
def test_a_pipeline_over_a_table_puts_out_what_is_told(seed):
    row_tables.judge(seed)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(6))
def test_rows_that_fail_are_as_if_they_had_never_been_there(seed):
    row_tables.judge_bad(seed)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_a_verdict_about_rows_is_true(seed):
    row_checks.judge(seed)


@pytest.mark.long
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
