"""Damaged files of every format (``mutants``): the right rows or one line, and never a signal.  ``make test-long`` has
six thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data import mutants
from tests.seeds import seeds


@pytest.mark.seeded
def test_damaged_files(tmp_path: Path) -> None:
    wrong = {seed: said for seed in seeds(130) if (said := mutants.judged(seed, tmp_path)) is not None}
    assert wrong == {}


def test_the_judge_sees_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would notice a row that is lost, one that is refused without need, and an internal error."""
    whole = b'{"a":1,"b":2,"s":"","t":true,"e":"RED"}\n'
    monkeypatch.setattr(mutants, "mutant", lambda seed: ("jsonl", whole))
    assert mutants.judged(0, tmp_path) is None
    rows = mutants.from_json
    with monkeypatch.context() as patch:
        patch.setattr(mutants, "from_json", lambda data: rows(data) * 2)
        assert "but it is [(1, 2.0, '', True, 'RED'), (1, " in str(mutants.judged(0, tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr("pellucid.internal.data.formats.jsonl.JsonLinesReader._batch", lambda *_: 1 / 0)
        assert str(mutants.judged(0, tmp_path)).startswith("exit ")
    monkeypatch.setattr(mutants, "from_json", lambda data: [])
    monkeypatch.setattr(mutants, "mutant", lambda seed: ("jsonl", whole[5:]))
    assert str(mutants.judged(0, tmp_path)).startswith("refused ")


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 6000, 1000))
def test_thousands_of_damaged_files(first: int) -> None:
    assert mutants.hunt(first, 1000) == []
