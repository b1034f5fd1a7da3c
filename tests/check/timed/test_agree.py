"""Verdicts by event time beside every run that there is, one after the other.

Nothing is merged here, and nothing of the checks is used but the verdict: runs are sequences of events, pushed one by
one, and what they put out is compared by hand.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from itertools import chain
from typing import Any

import pytest

from pellucid import Stream, as_of, check, join, merge, pipeline
from pellucid.check.formula import evaluate_finite
from pellucid.check.formula.parse import parse
from pellucid.errors import LateError
from pellucid.internal.engine.timed.literal import Literal, Row

TIMES = (0, 1, 2, 4)


def count(w: Stream[int]) -> Stream[int]:
    return w.cumulate(lambda n, v: n + 1, start=0)


def total(w: Stream[int]) -> Stream[int]:
    return w.cumulate(lambda t, v: t + v, start=0)


def windows(lateness: int = 1, size: int = 2, every: int | None = None, sub: Any = count, late: str = "drop") -> Any:
    return pipeline(lambda x: x.at(lambda v: v, lateness=lateness).sliding(size, every or size, sub, late=late), x=int)


def visits(gap: int, lateness: int = 1) -> Any:
    return pipeline(lambda x: x.at(lambda v: v, lateness=lateness).session(gap, count, late="drop"), x=int)


@functools.cache
def run(p: Any, events: tuple[int, ...]) -> list[Any]:
    """What each push and the end put out; the last entry says that it failed."""
    engine, out = Literal(p.graph), []
    for event in events:
        try:
            out.append([item.value for item in engine.batch([Row("x", event)])["out"]])
        except LateError:
            return [*out, "failed"]
    return [*out, [item.value for item in engine.finish()["out"]]]


def shortest(a: Any, b: Any, how: str, pushes: int = 3) -> int | None:
    """How many moves a shortest run has on which two differ."""
    found: list[int] = []
    for many in range(pushes + 1):
        for events in itertools.product(TIMES, repeat=many):
            one, two = run(a, events), run(b, events)
            if how == "step" and one != two:
                found.append(next(i for i, (x, y) in enumerate(zip(one, two, strict=False)) if x != y) + 1)
            elif how == "step":
                continue
            elif ("failed" in one) != ("failed" in two):
                found.append(next(i for i, x in enumerate(one if "failed" in one else two) if x == "failed") + 1)
            elif "failed" not in one and Counter(chain(*one)) != Counter(chain(*two)):
                found.append(many + 1)
    return min(found, default=None)


PAIRS = {
    "the same": (windows(), windows()),
    "tumbling and sliding": (windows(), windows(every=1)),
    "sum and count": (windows(), windows(sub=total)),
    "another lateness": (windows(), windows(lateness=2)),
    "another size": (windows(), windows(size=3)),
    "late ones fail": (windows(), windows(late="fail")),
    "another gap": (visits(1), visits(2)),
    "sessions and windows": (visits(1), windows()),
    "a gap that no time is in": (visits(2, 0), visits(2, 0)),
}


@pytest.mark.parametrize("how", ["step", "sequence"])
@pytest.mark.parametrize("pair", list(PAIRS))
def test_two_pipelines_as_all_their_runs_say(pair: str, how: str) -> None:
    a, b = PAIRS[pair]
    found = check.equivalent(a, b, how=how, times=TIMES)
    wanted = shortest(a, b, how)
    same = a.graph.digest == b.graph.digest
    assert found.status == ("proved" if same else "bounded" if wanted is None else "refuted"), found
    if wanted is not None:
        example = found.counterexample
        assert example is not None and len(example.steps) == wanted and example.replay()


def test_within_lateness_another_lateness_is_the_same_in_the_end() -> None:
    a, b, times = windows(lateness=1), windows(lateness=2), (0, 1, 3)
    assert check.equivalent(a, b, how="sequence", times=times).refuted
    assert check.equivalent(a, b, how="sequence", arrival="in time", times=times).bounded
    assert check.equivalent(a, b, how="step", arrival="in time", times=times).refuted


FORMULAS = ["G (out -> out.value.value < 2)", "G (out -> out.value.start >= 0)", "F out", "G !failed", "X X !out",
            "(!out) U x", "G (x -> X (x | out))", "!F (out & X out)", "G (x.value > 1 -> X out)"]  # fmt: skip


@pytest.mark.parametrize("late", ["drop", "fail"])
@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_as_all_runs_say(text: str, late: str) -> None:
    """The atoms are judged by hand, the formula by its definition on finite traces."""
    p, f = windows(late=late), parse(text)
    judged: dict[str, Any] = {
        "x": lambda x, out: x is not None, "out": lambda x, out: bool(out), "failed": lambda x, out: out == "failed",
        "x.value > 1": lambda x, out: x is not None and x > 1,
        "out.value.value < 2": lambda x, out: out != "failed" and bool(out) and all(w.value < 2 for w in out),
        "out.value.start >= 0": lambda x, out: out != "failed" and bool(out) and all(w.start >= 0 for w in out),
    }  # fmt: skip
    wrong = False
    for many in range(4):
        for events in itertools.product(TIMES, repeat=many):
            out = run(p, events)
            seen = [(x, o) for x, o in zip([*events, None], out, strict=False)]
            trace = [
                {a: judged[str(a)](None if o == "failed" else x, [] if o == "failed" and str(a) == "out" else o)
                 for a in f.atoms()} for x, o in seen
            ]  # fmt: skip
            wrong |= not evaluate_finite(f, trace)
    assert check.holds(p, text, times=TIMES).status == ("refuted" if wrong else "bounded")


SHAPES = {
    "windows": windows(late="fail"),
    "sessions": pipeline(lambda x: x.at(lambda v: v, lateness=1).session(1, count), x=int),
    "first come": pipeline(lambda x: x.at(lambda v: v, lateness=2).trim(1).tumbling(2, count), x=int),
    "a running sum": pipeline(lambda x: x.at(lambda v: v, lateness=1).tumbling(2, count).map(lambda w: w.value)
                              .cumulate(lambda t, v: 2 * t + v, start=0), x=int),
    "once": pipeline(lambda x: x.at(lambda v: v, lateness=1).dedup(by=lambda v: 0, within=1), x=int),
}  # fmt: skip


def at_once(p: Any, events: tuple[int, ...]) -> list[Any]:
    """A batch of all of them, by time."""
    engine = Literal(p.graph)
    found = engine.batch([Row("x", event) for event in sorted(events)], [n.id for n in p.graph.nodes if n.kind == "at"])
    return [item.value for item in found["out"]]


@pytest.mark.parametrize("shape", list(SHAPES))
def test_promise_two_as_all_runs_say(shape: str) -> None:
    p = SHAPES[shape]
    lateness = next(n.timing.lateness for n in p.graph.nodes if n.kind == "at")
    lengths = []
    for many in range(4):
        for events in itertools.product(TIMES, repeat=many):
            if any(e < max(events[:i], default=e) - lateness for i, e in enumerate(events)):
                continue
            out = run(p, events)
            if "failed" in out or Counter(map(repr, chain(*out))) != Counter(map(repr, at_once(p, events))):
                lengths.append(many + 1)
    found = check.times(p, about="in time", times=TIMES, pushes=3)
    assert found.status == ("refuted" if lengths else "bounded"), found
    if lengths:
        assert found.counterexample is not None and len(found.counterexample.steps) == min(lengths)


def sides(x: Stream[int], y: Stream[int]) -> tuple[Any, Any]:
    return x.at(lambda v: v, lateness=1), y.at(lambda v: v, lateness=1)


TWO = {
    "join": pipeline(lambda x, y: join(*sides(x, y), within=(0, 1), how="full", late="drop"), x=int, y=int),
    "as_of": pipeline(lambda x, y: as_of(*sides(x, y), within=2, late="drop"), x=int, y=int),
    "merge": pipeline(lambda x, y: merge(*sides(x, y)).tumbling(2, count, late="drop"), x=int, y=int),
}


@pytest.mark.parametrize("shape", list(TWO))
def test_the_promises_hold_with_two_sources(shape: str) -> None:
    assert check.times(TWO[shape], times=(0, 1, 3), pushes=3).bounded
