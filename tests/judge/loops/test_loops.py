"""Every engine's loops against their meaning by hand: random events, orders, batches and restarts; and the judge
itself, which must find what is wrong with engines that are wrong on purpose."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pellucid import StepError, iterate, pipeline
from pellucid.internal.engine.timed import loops
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.running import LiteralEngine
from tests.judge.loops.cases import CASES, Case, Pair
from tests.judge.loops.meaning import TooLong, by_push, by_time
from tests.seeds import HUNT, seeds

Row = tuple[int, int, int]  # time, node, value
LATENESS = 6


def timed(case: Case, keyed: bool) -> Any:
    """The loop over rows with times; what comes out has its time by a window of one unit."""

    def build(x: Any) -> Any:
        events = x.at(lambda r: r[0], lateness=LATENESS)
        events = events.key_by(lambda r: r[1] % 3) if keyed else events
        return iterate(events.map(lambda r: (r[1], r[2])), case.build, id="loop", **case.said)

    return pipeline(build, x=Row)


def rows_of(rng: random.Random, count: int) -> list[Row]:
    """Rows that come within the lateness."""
    now, out = 0, []
    for _ in range(count):
        now += rng.choice([0, 0, 1, 2])
        out.append((now - rng.randint(0, LATENESS), rng.randrange(5), rng.randrange(20)))
    top = -99
    for i, row in enumerate(out):  # none is behind what is complete
        out[i] = (max(row[0], top - LATENESS), *row[1:])
        top = max(top, out[i][0])
    return out


def in_batches(p: Any, rows: list[Row], rng: random.Random, engine: Any) -> list[Pair] | str:
    """Batch by batch, the fast engine saved and loaded between them, as after a kill at a border."""
    run, out = engine(p.graph), []
    try:
        while rows:
            some, rows = rows[: (cut := rng.choice([1, 2, 5, 30]))], rows[cut:]
            out += run.push(some)
            if engine is TimedEngine and rng.random() < 0.5:
                other = engine(p.graph)
                other.load(run.save())
                run = other
        return out + run.finish()
    except StepError as error:
        return "too long" if "still go" in str(error) else str(error)


def judged(case: Case, seed: int, engine: Any = TimedEngine) -> int:
    """One case; how many events were compared."""
    rng = random.Random(seed)
    keyed = rng.random() < 0.5
    rows, p = rows_of(rng, 40), timed(case, keyed)
    try:
        told = by_time(case.make, [(t, n % 3 if keyed else 0, (n, v)) for t, n, v in rows], **_said(case))
        wanted: Any = [event for _, _, event in told]
    except TooLong:
        wanted = "too long"
    assert in_batches(p, rows, rng, engine) == wanted, (seed, keyed)
    if wanted != "too long":
        assert p(rng.sample(rows, len(rows))) == wanted  # whatever order they come in
    return len(wanted)


def _said(case: Case) -> dict[str, int]:
    return case.said if case.said else {"limit": 10_000}


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(1, 20))
@pytest.mark.parametrize("name", CASES)
def test_loops_with_times(name: str, first: int) -> None:
    for seed in range(first * 1000, first * 1000 + 4):
        events = judged(CASES[name], seed)
        assert HUNT or events > 0
    judged(CASES[name], first, LiteralEngine)


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(1, 20))
@pytest.mark.parametrize("name", CASES)
def test_loops_push_by_push(name: str, first: int) -> None:
    rng, case = random.Random(first), CASES[name]
    events = [(rng.randrange(5), rng.randrange(20)) for _ in range(25)]
    p = pipeline(lambda x: iterate(x, case.build, **case.said), x=Pair)
    try:
        wanted = by_push(case.make, events, **_said(case))
    except TooLong:
        with pytest.raises(StepError, match="after 6 rounds 1 event still goes round"):
            p(events)
        return
    assert p.trace(events) == [*wanted, []]
    assert p(events) == [e for out in wanted for e in out]


def test_what_is_monotone_comes_to_the_same_end_in_any_order() -> None:
    """Without times, where the order of pushes is the user's: the last word of each node."""
    rng, p = random.Random(5), pipeline(lambda x: iterate(x, CASES["spread"].build), x=Pair)
    events = [(rng.randrange(5), rng.randrange(20)) for _ in range(30)]
    ends = {tuple(sorted(dict(p(rng.sample(events, len(events)))).items())) for _ in range(10)}
    assert len(ends) == 1


# ---------------------------------------------------------------- engines that are wrong on purpose


def stops_early(self: Any, took: Any, puts: Any) -> Any:
    """A loop of one stream that is over a round early: when as many events come as went in."""
    import numpy as np

    return np.full(len(puts), len(took) == len(puts))


def forgets(round: Any) -> Any:
    def wrong(self: Any, events: Any) -> Any:
        again, out = round(self, events)
        return again.at(slice(0, -1)) if len(again) > 2 else again, out

    return wrong


def ends_early(round: Any) -> Any:
    """What would go round for the fourth time is dropped."""

    def wrong(self: Any, events: Any) -> Any:
        again, out = round(self, events)
        self.gone = getattr(self, "gone", 0) + 1
        return again if self.gone % 4 else again.at(slice(0, 0)), out

    return wrong


def leaks(round: Any) -> Any:
    """Some of what goes round waits until the next time: beyond a border, if there is one in between."""

    def wrong(self: Any, events: Any) -> Any:
        held = getattr(self, "held", None)
        again, out = round(self, events if held is None else type(events).behind([held, events]))
        self.held = again.at(slice(-1, None)) if len(again) > 1 else None
        return again.at(slice(0, -1)) if len(again) > 1 else again, out

    return wrong


def unordered(canonical: Any) -> Any:
    """Events of one time as they came."""

    def wrong(front: Any, *more: Any) -> Any:
        import numpy as np

        return np.argsort(front[0], kind="stable")

    return wrong


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "stops a round early": (loops.LoopStep, "_settled", lambda _: stops_early),
    "drops a round": (loops.Body, "round", ends_early),
    "forgets an event": (loops.Body, "round", forgets),
    "leaks a round across a border": (loops.Body, "round", leaks),
    "takes events as they came": (loops, "canonical", unordered),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_judge_finds_what_is_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, what, wrong = MUTANTS[name]
    monkeypatch.setattr(place, what, wrong(getattr(place, what)))
    found = 0
    for case in CASES.values():
        try:
            judged(case, 1)
        except (AssertionError, StepError):
            found += 1
    assert found
