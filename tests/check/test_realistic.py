"""Questions that people ask have the answers that are right: a share of them here, all of them in `make test-long` and
in `bench/questions.py`.
"""

from __future__ import annotations

import pytest

import tests.check.realistic_more  # noqa: F401  they join the others
from tests.check.realistic import QUESTIONS, Question

SHARE, FIRST = 12, 1
OPEN = [  # not decided yet
    ("settled", "the same with its inputs the other way round, if they come one at a time"),
]


def _asked(q: Question) -> None:
    """Never the opposite of what is true; and not undecided, unless that is known."""
    status = q.ask().status
    assert status == q.answer or (status == "unknown" and (q.about, q.words) in OPEN), f"{status}: {q.about}: {q.words}"


def _name(q: Question) -> str:
    return f"{q.about}: {q.words}"


@pytest.mark.parametrize("q", QUESTIONS[FIRST::SHARE], ids=_name)
def test_a_share_of_the_questions(q: Question) -> None:
    _asked(q)


@pytest.mark.long
@pytest.mark.parametrize("q", [q for i, q in enumerate(QUESTIONS) if i % SHARE != FIRST], ids=_name)
def test_the_other_questions(q: Question) -> None:
    _asked(q)


def test_there_are_as_many_as_is_said() -> None:
    assert len(QUESTIONS) >= 180 and len({q.about for q in QUESTIONS}) >= 45
    assert len(OPEN) / len(QUESTIONS) < 0.05 and {*OPEN} <= {(q.about, q.words) for q in QUESTIONS}
    assert len({(q.about, q.words) for q in QUESTIONS}) == len(QUESTIONS)
