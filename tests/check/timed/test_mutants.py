"""Each promise is one that can be broken: engines with wrong rules are refuted, by a shortest run, which happens."""

from __future__ import annotations

import functools
import sys
import types
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pellucid import Stream, as_of, join, merge, pipeline
from pellucid.check.timed.machine import Inputs
from pellucid.check.timed.promises import ALL
from pellucid.check.timed.question import TimesVerdict, decide_times
from pellucid.internal.engine.timed import clock, literal
from pellucid.internal.engine.timed.literal import Literal
from pellucid.internal.model import Budget

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
    "an answer is put out twice": Mutant(
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
        own.__dict__.update({"Clocks": made[clock].Clocks} if clock in made else {})
        text = texts[module].replace("from pellucid.internal.engine.timed.clock import Clocks\n", "")
        exec(compile(text, f"<{name}>", "exec"), own.__dict__)
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
