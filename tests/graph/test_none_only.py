"""Steps that put out None and nothing else: they have the type that is declared, or are refused; no event is lost."""

from __future__ import annotations

import pytest

from pellucid import check, pipeline
from pellucid.errors import PipelineError, TypeMismatch
from pellucid.internal.engine.interpreter import Interpreter


def gaps(s: int, e: int) -> tuple[int, list[int | None]]:
    if s < 1:
        return e, [None]
    return 0, []


def still(s: int | None, e: int) -> tuple[int | None, list[int]]:
    return e, [s]  # type: ignore[list-item]


def twice(e: int) -> list[int | None]:
    return [None, None]


def nothing(e: int) -> int | None:
    return None


DECLARED = {
    "task": lambda x: x.task(gaps, initial=0),
    "task to": lambda x: x.task(lambda s, e: (s, [None]), initial=0, to=str | None),
    "explode": lambda x: x.explode(twice),
    "map": lambda x: x.map(nothing),
    "cumulate": lambda x: x.cumulate(lambda s, e: None, start=None, to=int | None),
    "tuple": lambda x: x.map(lambda e: (None, None), to=tuple[int | None, int | None]),
    "state": lambda x: x.task(lambda s, e: (e, [s]), initial=None),  # None at first
    "annotated otherwise": lambda x: x.task(still, initial=None),
    "behind": lambda x: x.task(gaps, initial=0).trim(1).map(lambda e: (e, e is None)),
}


@pytest.mark.parametrize("name", DECLARED)
def test_what_is_declared_is_its_type_and_no_event_is_lost(name: str) -> None:
    p = pipeline(DECLARED[name], x=int)
    events, run = [1, 2, 0, 3], Interpreter(p.graph)
    told = [run.push(x=e)["out"] for e in events]
    assert p.trace(events) == told
    assert p(events) == [e for push in told for e in push] != []


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda x: x.task(lambda s, e: (s, [None]), initial=0), "puts out None and nothing else, which is no event"),
        (
            lambda x: x.explode(lambda e: [None, None]),
            r"say what else it may be, by an annotation of its function or as in to=int \| None",
        ),
        (lambda x: x.cumulate(lambda s, e: None, start=None), "puts out None and nothing else.*to=int | None"),
        (lambda x: x.map(lambda e: (None, None)), r"puts out \(None, None\) and nothing else"),
        (lambda x: x.task(lambda s, e: (s, [None]), initial=0, to=str), "expected str, found None"),
    ],
)
def test_without_a_declaration_it_is_refused(build, words) -> None:
    with pytest.raises(TypeMismatch, match=words):
        pipeline(build, x=int)


def test_a_key_that_is_always_none_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"every event has the same key, \(None, None\): leave key_by out"):
        pipeline(lambda x: x.key_by(lambda e: (None, None)).cumulate(lambda n, e: n + 1, start=0), x=int)


def test_two_tasks_that_put_out_none_are_compared() -> None:
    def later(s: int, e: int) -> tuple[int, list[int | None]]:
        return (e, [None]) if s < 2 else (0, [])

    p, q = (pipeline(lambda x, f=f: x.task(f, initial=0), x=int) for f in (gaps, later))
    verdict = check.equivalent(p, q, ints=range(2))
    assert verdict.refuted and verdict.counterexample is not None
    assert verdict.counterexample.inputs == [{"x": 1}, {"x": 0}]
