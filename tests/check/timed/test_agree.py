"""Verdicts by event time beside every run that there is, one after the other.

Nothing is merged here, and nothing of the checks is used but the verdict: runs are sequences of events, pushed one by
one, and what they emit is compared by hand.
"""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections import Counter
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pellucid import Stream, as_of, check, join, merge, pipeline
from pellucid.check.formula import evaluate_finite
from pellucid.check.formula.parse import parse
from pellucid.check.timed.machine import Inputs
from pellucid.check.timed.promises import ALL
from pellucid.check.timed.question import TimesVerdict, decide_times
from pellucid.errors import LateError
from pellucid.internal.engine.timed import clock, literal
from pellucid.internal.engine.timed.literal import Literal, Row
from pellucid.internal.model import Budget

# Each promise is one that can be broken: engines with wrong rules are refuted, by a shortest run, which happens.

# Engines whose rules are a little wrong: the text of the literal engine, or of its clocks, with one place changed.


class Mutant(NamedTuple):
    """A wrong rule: the text that is changed and what it becomes, the pipeline that shows it, at which times, and the
    promises that it breaks."""

    text: str
    wrong: str
    pipeline: Any
    times: Any
    breaks: set[str]
    length: int  # of a shortest run that shows it
    more: Any = ()  # what else the check is told


def count(w: Stream[int]) -> Stream[int]:
    return w.cumulate(lambda n, v: n + 1, start=0)


def last(w: Stream[int]) -> Stream[int]:
    return w


class Reading(NamedTuple):
    t: int
    v: int


fixed = pipeline(lambda x: x.at(lambda v: v, lateness=1).tumbling(2, count, late="drop", id="w"), x=int)
strict = pipeline(lambda x: x.at(lambda v: v, lateness=1).tumbling(2, count, id="w"), x=int)
slide = pipeline(lambda x: x.at(lambda v: v, lateness=1).sliding(2, 1, count, late="drop", id="w"), x=int)
visits = pipeline(lambda x: x.at(lambda v: v, lateness=1).session(2, count, late="drop", id="w"), x=int)
ordered = pipeline(
    lambda x: x.at(lambda e: e.t, lateness=2).tumbling(4, lambda w: w.map(lambda e: e.v), late="drop", id="w"),
    x=Reading,
)
pairs = pipeline(
    lambda x, y: join(x.at(lambda v: v, lateness=1), y.at(lambda v: v, lateness=1), within=(-1, 1), how="full",
                      late="drop", id="w"), x=int, y=int)  # fmt: skip
latest = pipeline(
    lambda x, y: as_of(x.at(lambda v: v, lateness=1), y.at(lambda v: v, lateness=1), within=2, late="drop", id="w"),
    x=int, y=int)  # fmt: skip
once = pipeline(lambda x: x.at(lambda v: v, lateness=1).dedup(by=lambda v: 0, within=2, late="drop", id="w"), x=int)


def _heard(n, e):  # type: ignore[no-untyped-def]
    return n + e.v, [n * 2 + e.v], [e.t + 1]


def _told(n, t):  # type: ignore[no-untyped-def]
    return n + 1, [-n], []


waking = pipeline(
    lambda x: x.at(lambda e: e.t, lateness=1).task(_heard, 0, on_time=_told, late="drop", id="w"), x=Reading
)
two = pipeline(
    lambda x, y: merge(x.at(lambda v: v), y.at(lambda v: v)).tumbling(2, count, late="drop", id="w"), x=int, y=int
)
waits = pipeline(
    lambda x, y: merge(x.at(lambda v: v, idle=timedelta(1)), y.at(lambda v: v)).tumbling(2, count, late="drop", id="w"),
    x=int, y=int)  # fmt: skip
twice = pipeline(
    lambda x: (
        x.at(lambda v: v)
        .tumbling(2, count, late="drop", id="w")
        .tumbling(4, lambda w: w.map(lambda a: a.value), late="drop", id="v")
    ),
    x=int,
)

MUTANTS: dict[str, Mutant] = {
    "a window is closed one later": Mutant(
        "[w for w in kept if after >= w[2]]",
        "[w for w in kept if after > w[2]]",
        twice,
        range(4),
        {"prompt", "accounted", "batch"},
        2,
    ),
    "a window is closed one too early": Mutant(
        "[w for w in kept if after >= w[2]]",
        "[w for w in kept if after >= w[2] - 1]",
        fixed,
        range(4),
        {"once", "batch", "in time"},
        3,
    ),
    "an event is late one too early": Mutant(
        "now >= w[1] + allowed]", "now >= w[1] + allowed - 1]", fixed, range(4), {"in time"}, 2
    ),
    "an event is late one too late": Mutant(
        "now >= w[1] + allowed]",
        "now > w[1] + allowed]",
        fixed,
        range(4),
        {"complete", "once", "accounted", "batch"},
        2,
    ),
    "a slow clock": Mutant("return min(active)", "return min(active) - 1", fixed, range(4), {"prompt"}, 2),
    "a late event goes in silence": Mutant(
        "                self._too_late(stage, item, 0, missed[0][0], missed[-1][1])\n",
        "                pass\n",
        fixed,
        range(4),
        {"prompt", "accounted", "batch"},
        2,
    ),
    "a late event is put in all the same": Mutant(
        "                if (start, end) not in missed:\n",
        "                if True:\n",
        fixed,
        range(4),
        {"complete", "once", "accounted", "batch"},
        2,
    ),
    "an answer is emitted twice": Mutant(
        "            self._put(keys, end - 1, Windowed(value_of(clock, start), value_of(clock, end), last[-1]))",
        "            for _ in 'ab':\n                self._put(keys, end - 1, Windowed(value_of(clock, start), "
        "value_of(clock, end), last[-1]))",
        fixed,
        range(4),
        {"once", "batch", "in time"},
        2,
    ),
    "an answer has the time of its end": Mutant(
        "self._put(keys, end - 1, Windowed(", "self._put(keys, end, Windowed(", twice, range(4), {"batch", "in time"}, 2
    ),
    "the events of a window by arrival": Mutant(
        "sorted(events, key=lambda e: (e[0], rank(e[1])))",
        "events",
        ordered,
        None,
        {"batch", "in time"},
        3,
        {"events": [Reading(0, 0), Reading(1, 1)]},
    ),
    "sessions with >=": Mutant(
        "if self._after(stage) > _last(session) + gap:",
        "if self._after(stage) >= _last(session) + gap:",
        visits,
        range(6),
        {"once", "accounted", "batch", "in time"},
        3,
    ),
    "a session takes less than its gap": Mutant(
        "near = [s for s in mine if _first(s) - gap <= t <= _last(s) + gap]",
        "near = [s for s in mine if _first(s) - gap < t < _last(s) + gap]",
        visits,
        range(6),
        {"prompt", "batch", "in time"},
        3,
    ),
    "sessions merge backwards": Mutant(
        "not any(_first(s) <= t <= _last(s) + gap for s in mine)",
        "not any(_first(s) - gap <= t <= _last(s) + gap for s in mine)",
        visits,
        range(6),
        {"prompt", "batch"},
        4,
    ),
    "a late event makes a session": Mutant(
        "            if t < self._now(stage) and not any(",
        "            if t < self._now(stage) - gap and not any(",
        visits,
        range(6),
        {"prompt", "batch"},
        4,
    ),
    "a join gives up one too early": Mutant(
        "sides[number] = [w for w in sides[number] if over <= w.item.at + late_by]",
        "sides[number] = [w for w in sides[number] if over < w.item.at + late_by]",
        pairs,
        range(3),
        {"batch", "in time"},
        3,
    ),
    "a join's end is not in it": Mutant(
        "timing.low <= b.at - a.at <= timing.high:",
        "timing.low <= b.at - a.at < timing.high:",
        pairs,
        range(3),
        {"batch", "in time"},
        3,
    ),
    "rows without a partner come too early": Mutant(
        "if over > last and not waiting.found",
        "if over >= last and not waiting.found",
        pairs,
        range(3),
        {"batch", "in time"},
        3,
    ),
    "as-of takes what is not too old yet for too old": Mutant(
        "a.at - before[-1].at <= within", "a.at - before[-1].at < within", latest, range(3), {"batch", "in time"}, 3
    ),
    "as-of answers one too early": Mutant(
        "for a in [a for a in waiting if self._after(stage, 1) > a.at]:",
        "for a in [a for a in waiting if self._after(stage, 1) >= a.at]:",
        latest,
        range(3),
        {"batch", "in time"},
        3,
    ),
    "dedup keeps the first to arrive": Mutant(
        "waiting.sort(key=lambda w: (w[0].at, rank(w[0].value)))", "pass", once, range(4), {"batch", "in time"}, 3
    ),
    "dedup forgets too early": Mutant(
        "if self._after(stage) > t + within]:",
        "if self._after(stage) >= t + within - 1]:",
        once,
        range(5),
        {"batch", "in time"},
        3,
    ),
    "a task sees an event one too early": Mutant(
        "for item in [i for i in waiting if over > i.at]:",
        "for item in [i for i in waiting if over >= i.at]:",
        waking,
        None,
        {"batch", "in time"},
        3,
        {"events": [Reading(0, 1), Reading(1, 0), Reading(1, 1)]},
    ),
    "a task sees events by arrival": Mutant(
        "(0, rank(event.value))",
        "(0, ())",
        waking,
        None,
        {"batch", "in time"},
        3,
        {"events": [Reading(0, 1), Reading(0, 2)]},
    ),
    "a task is told of a time before its events": Mutant(
        "*((1, ()) if event is None",
        "*((-1, ()) if event is None",
        waking,
        None,
        {"batch", "in time"},
        3,
        {"events": [Reading(0, 1), Reading(1, 1)]},
    ),
    "a task is told twice": Mutant(
        "                mine.times.discard(time)\n",
        "                pass\n",
        waking,
        None,
        {"complete", "batch", "in time"},
        3,
        {"events": [Reading(0, 1), Reading(3, 1)]},
    ),
    "judged after the clock moves": Mutant(
        "return self.clocks.now(stage.inputs[number], stage.step)",
        "return self.clocks.after(stage.inputs[number], stage.step)",
        fixed,
        range(5),
        {"prompt", "accounted", "batch", "in time"},
        1,
        {"batch": 2},
    ),
    "the clock goes back": Mutant(
        "self._now[clock] = max(self._now[clock], self._candidate(*clock))",
        "self._now[clock] = self._candidate(*clock)",
        waits,
        range(3),
        {"clock", "prompt"},
        2,
    ),
    "the clock goes with the last event": Mutant(
        "self.marks[at] = max(self.marks[at], time - timing.lateness)",
        "self.marks[at] = time - timing.lateness",
        two,
        range(3),
        {"prompt"},
        3,
    ),
    "the clock is that of the fastest source": Mutant(
        "return min(active)", "return max(active)", two, range(3), {"in time"}, 2
    ),
    "lateness is forgotten": Mutant(
        "self.marks[at] = max(self.marks[at], time - timing.lateness)",
        "self.marks[at] = max(self.marks[at], time)",
        fixed,
        range(4),
        {"in time"},
        2,
    ),
}


@functools.cache
def engine(name: str) -> Any:
    """The engine with this wrong rule."""
    mutant = MUTANTS[name]
    texts = {module: Path(str(module.__file__)).read_text(encoding="utf-8") for module in (clock, literal)}
    here = [module for module in texts if mutant.text in texts[module]]
    assert len(here) == 1, f"{name}: what it changes is not there once: {mutant.text}"
    assert texts[here[0]].count(mutant.text) == 1, name
    texts[here[0]] = texts[here[0]].replace(mutant.text, mutant.wrong)
    made: dict[Any, Any] = {}
    for module in (clock, literal):
        own = types.ModuleType(f"pellucid.mutant_{module.__name__.rpartition('.')[2]}_{len(sys.modules)}")
        sys.modules[own.__name__] = own
        exec(compile(texts[module], f"<{name}>", "exec"), own.__dict__)
        own.__dict__.update({"Clocks": made[clock].Clocks} if clock in made else {})
        made[module] = own
    return made[literal].Literal


def asked(name: str, kind: type[Literal]) -> TimesVerdict:
    mutant = MUTANTS[name]
    more = dict(mutant.more)
    batch = more.pop("batch", 1)
    times = None if "events" in more else list(mutant.times)
    inputs = Inputs.of(mutant.pipeline.graph, times=times, pushes=3, batch=batch, **more)
    return decide_times(mutant.pipeline.graph, inputs, ALL, Budget(None, 100_000), engine=kind, exact=True)


@pytest.mark.parametrize("name", list(MUTANTS))
def test_a_wrong_rule_is_refuted_by_a_shortest_run(name: str) -> None:
    found = asked(name, engine(name))
    assert found.refuted, f"{name}: {found}"
    broken = {part for part, verdict in found.parts.items() if verdict.refuted}
    assert broken == MUTANTS[name].breaks, found
    example = found.counterexample
    assert example is not None and example.replay()
    shortest = min(len(v.counterexample.steps) for v in found.parts.values() if v.counterexample is not None)
    assert shortest == MUTANTS[name].length, found


@pytest.mark.parametrize("pipeline", {id(m.pipeline): n for n, m in MUTANTS.items()}.values())
def test_nothing_is_found_against_the_right_rules(pipeline: str) -> None:
    found = asked(pipeline, Literal)
    assert found.bounded, found


TIMES = (0, 1, 2, 4)


def total(w: Stream[int]) -> Stream[int]:
    return w.cumulate(lambda t, v: t + v, start=0)


def windows(lateness: int = 1, size: int = 2, every: int | None = None, sub: Any = count, late: str = "drop") -> Any:
    return pipeline(lambda x: x.at(lambda v: v, lateness=lateness).sliding(size, every or size, sub, late=late), x=int)


def visits_agree(gap: int, lateness: int = 1) -> Any:
    return pipeline(lambda x: x.at(lambda v: v, lateness=lateness).session(gap, count, late="drop"), x=int)


@functools.cache
def run(p: Any, events: tuple[int, ...]) -> list[Any]:
    """What each push and the end emit; the last entry says that it failed."""
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
    "another gap": (visits_agree(1), visits_agree(2)),
    "sessions and windows": (visits_agree(1), windows()),
    "a gap that no time is in": (visits_agree(2, 0), visits_agree(2, 0)),
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
