"""Who holds back what waits, against trying it: the literal engine is run again with what would happen if a source sent
or did not, and that says who held what back.  Mutants of what is judged are found out.
"""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import pytest

from pellucid import Pipeline, Stream, as_of, check, iterate, join, lookup, merge, pipeline
from pellucid.errors import UsageError
from pellucid.internal.data.columns import Batch as Columns
from pellucid.internal.engine.timed.clock import Clocks
from pellucid.internal.engine.timed.literal import Literal, Row
from pellucid.internal.engine.timed.why import flow
from pellucid.internal.engine.timed.why import waits as kept_waits
from pellucid.internal.engine.timed.why.answer import RULES, Progress, StepNow, Waits, progress_of
from pellucid.internal.engine.timed.why.flow import SUMMARIES, flow_of, last_of_window
from pellucid.internal.engine.timed.why.waits import _KEPT
from pellucid.internal.graph.processors import PROCESSORS
from pellucid.internal.graph.timing import Timing
from pellucid.progress import Source, Target
from pellucid.progress.reachability import PathSummaries
from tests.seeds import HUNT, seeds

FAR = 10_000


def count(w: Stream[Any]) -> Stream[Any]:
    """How many events."""
    return w.cumulate(lambda n, v: n + 1, start=0)


def sums(w: Stream[Any]) -> Stream[Any]:
    """Of the values of windows."""
    return w.cumulate(lambda n, v: n + v.value, start=0)


# ---------------------------------------------------------------- pipelines, each with all its steps as outputs


def windows(rng: random.Random, *given: Stream[Any]) -> dict[str, Any]:
    size = rng.randint(4, 12)
    one = merge(*given, id="all") if len(given) > 1 else given[0].map(lambda v: v, id="all")
    if rng.random() < 0.5:
        return {"first": one.tumbling(size, count, late="drop", origin=rng.randint(0, 3), id="first")}
    return {"first": one.sliding(size, rng.randint(2, size), count, late="drop", id="first")}


def of_windows(rng: random.Random, *given: Stream[Any]) -> dict[str, Any]:
    one = merge(*given, id="all") if len(given) > 1 else given[0]
    first = one.tumbling(rng.randint(3, 9), count, late="drop", id="first")
    second = first.tumbling(rng.randint(5, 25), sums, late="drop", id="second")
    return {"first": first, "second": second}


def of_sessions(rng: random.Random, *given: Stream[Any]) -> dict[str, Any]:
    one = merge(*given, id="all") if len(given) > 1 else given[0]
    first = one.session(rng.randint(2, 8), count, late="drop", id="first")
    return {"first": first, "second": first.tumbling(rng.randint(5, 25), sums, late="drop", id="second")}


def joined(rng: random.Random, *given: Stream[Any]) -> dict[str, Any]:
    low = rng.randint(-6, 3)
    within = (low, low + rng.randint(0, 9))
    pair = join(given[0], given[1], within=within, how=rng.choice(["left", "full"]), late="drop", id="first")
    return {"first": pair}


def answered(rng: random.Random, *given: Stream[Any]) -> dict[str, Any]:
    some = as_of if rng.random() < 0.5 else lookup
    first = some(*(g.key_by(lambda v: v * 0) for g in given), late="drop", id="first")
    return {"first": first, "second": first.tumbling(rng.randint(4, 12), count, late="drop", id="second")}


def doubled(rng: random.Random, *given: Stream[Any]) -> dict[str, Any]:
    one = merge(*given, id="all") if len(given) > 1 else given[0]
    first = one.dedup(by=lambda v: v, within=rng.randint(1, 6), late="drop", id="first")
    return {"first": first, "second": first.tumbling(rng.randint(4, 12), count, late="drop", id="second")}


SHAPES: list[tuple[Callable[..., dict[str, Any]], int]] = [
    (windows, 1), (windows, 2), (windows, 3), (of_windows, 1), (of_windows, 2), (of_sessions, 1), (of_sessions, 2),
    (joined, 2), (answered, 2), (doubled, 1), (doubled, 2),
]  # fmt: skip


# ---------------------------------------------------------------- runs


@dataclass
class Batch:
    """What happens: sources that are said to be idle before it, its rows, and those that end with it."""

    idle: list[str] = field(default_factory=list)
    rows: list[tuple[str, int]] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)


@dataclass
class World:
    """A pipeline and what has happened to it."""

    p: Pipeline
    names: list[str]
    lateness: dict[str, int]
    batches: list[Batch]

    def literally(self, more: list[Batch], finish: bool = False) -> dict[str, Counter[Any]]:
        """All that came out, with some more batches."""
        run, out = Literal(self.p.graph), {name: Counter[Any]() for name, _ in self.p.graph.outputs}
        for batch in [*self.batches, *more]:
            for source in batch.idle:
                run.idle(source)
            found = run.batch([Row(s, t) for s, t in batch.rows], [f"{s}-at" for s in batch.ends])
            for name, items in found.items():
                out[name].update((item.time, item.value) for item in items)
        for name, items in run.finish().items() if finish else ():
            out[name].update((item.time, item.value) for item in items)
        return out

    def status(self) -> dict[str, str]:
        """Of each source, by the words of the rules."""
        found = dict.fromkeys(self.names, "active")
        for batch in self.batches:
            found |= {s: "idle" for s in batch.idle if found[s] == "active"}
            found |= {s: "active" for s, _ in batch.rows}
            found |= dict.fromkeys(batch.ends, "ended")
        return found

    def mark(self, source: str) -> int | None:
        """Its watermark."""
        times = [t for batch in self.batches for s, t in batch.rows if s == source]
        return max(times) - self.lateness[source] if times else None

    def engine(self) -> Any:
        """The engine that is asked."""
        engine = self.p.engine(mode="python")
        for batch in self.batches:
            for source in batch.idle:
                engine.idle(source)
            engine.clocks.end(self.p.graph.position[f"{s}-at"] for s in batch.ends)
            columns = {name: [t for s, t in batch.rows if s == name] for name in self.names}
            for n, times in enumerate(columns.values()):  # one source after the other; the clock moves once
                blank = [0] * len(times)
                masks: list[Any] = [[i == n] * len(times) for i in range(len(self.names))]
                given: list[Any] = [[times if i == n else blank] for i in range(len(self.names))]
                engine.take(Columns(len(times), given, masks))
            engine.move()
        return engine


def world(seed: int) -> World:
    """A small pipeline and a run of it that is under way."""
    rng = random.Random(seed)
    shape, several = rng.choice(SHAPES)
    names = ["x", "y", "z"][:several]
    lateness = {name: rng.choice([0, 0, 2, 5]) for name in names}

    def build(*given: Stream[Any]) -> dict[str, Any]:
        silence = timedelta(hours=1)
        timed = [
            g.at(lambda v: v, lateness=lateness[n], idle=silence, id=f"{n}-at")
            for n, g in zip(names, given, strict=True)
        ]
        return shape(rng, *timed)

    body: Any = {1: lambda x: build(x), 2: lambda x, y: build(x, y), 3: lambda x, y, z: build(x, y, z)}[several]
    p = pipeline(body, **dict.fromkeys(names, int))
    batches, ended, now = [], set(), 0
    for _ in range(rng.randint(1, 5)):
        now += rng.randint(0, 9)
        open_ = [n for n in names if n not in ended]
        idle = [n for n in open_ if rng.random() < 0.15]
        speaking = [n for n in open_ if rng.random() < 0.75 and n not in idle]
        rows = [(n, now + rng.randint(-6, 8)) for n in speaking for _ in range(rng.randint(1, 3))]
        ends = [n for n in open_ if rng.random() < 0.06]
        ended |= set(ends)
        batches.append(Batch(idle, rows, ends))
    return World(p, names, lateness, batches)


# ---------------------------------------------------------------- the oracle


def came_out(w: World, step: str, waits: Waits, which: int, more: list[Batch]) -> int:
    """How many answers of one thing come out in what happens next."""
    start, end = (waits.first, waits.last)[which]
    due = waits.due[which]
    before, after = w.literally([])[step], w.literally(more)[step]

    def is_it(item: tuple[Any, Any]) -> bool:
        time, value = item
        if waits.what in ("window", "session"):
            return bool((value.start, value.end) == (start, end))
        if waits.what.startswith("left row"):
            return bool(value[0] == start and value[1] is None and time == max(start, due))
        if waits.what.startswith("right row"):
            return bool(value[1] == start and value[0] is None and time == max(start, due))
        return bool(time == start)

    return sum(n for item, n in (after - before).items() if is_it(item))


def far(w: World, sources: list[str]) -> list[Batch]:
    """These sources send an event that is later than all there is."""
    return [Batch(rows=[(s, FAR) for s in sources])]


def holders(w: World, step: str, waits: Waits, which: int) -> tuple[bool, set[str]]:
    """By trying: an active source holds a thing back if it stays though all other active ones go on.  If there is none,
    an idle one does whose next event lets the thing out."""
    status = w.status()
    active = [s for s in w.names if status[s] == "active"]
    each = {s for s in active if not came_out(w, step, waits, which, far(w, [o for o in active if o != s]))}
    if each:
        return True, each
    idle = [s for s in w.names if status[s] == "idle"]
    return False, {s for s in idle if came_out(w, step, waits, which, far(w, [s]))}


def changes(w: World, step: str, waits: Waits, source: str) -> bool:
    """By trying: an event that its source may still send, not before its watermark, changes the answer of a window."""
    mark = w.mark(source)
    since = mark if mark is not None else -20
    still = w.literally([], finish=True)[step]

    def answer(found: Counter[Any]) -> list[Any]:
        return [value for time, value in found.elements() if (value.start, value.end) == waits.first]

    for t in range(since, max(since, waits.due[0]) + 30):
        found = w.literally([Batch(rows=[(source, t)])], finish=True)[step]
        if answer(found) != answer(still):
            return True
    return False


def wrong(w: World, found: Progress) -> Iterator[str]:
    """Where an answer is not what trying says."""
    for step in found.steps:
        for waits in step.waits:
            if not waits.comes:
                continue
            for which in (0, 1):
                each, names = holders(w, step.step, waits, which)
                told = {s for hold in waits.holds for s in hold.sources}
                if (waits.each, told) != (each, names):
                    yield f"{step.step} {waits}: {told} ({waits.each}) for {names} ({each})"
            yield from _wrong_reach(w, step, waits, not found.waiting("first"))
            if step.step == "second" and waits.each:
                yield from _wrong_by_rule(w, step, waits, [one.due[0] for one in found.waiting("first") if one.comes])


def _wrong_reach(w: World, step: StepNow, waits: Waits, fresh: bool) -> Iterator[str]:
    """``fresh``: no session is open that an event might join, and so come later than by itself."""
    kind = w.p.graph["first"].kind
    if waits.what != "window" or w.status()[waits.holds[0].sources[0]] != "active":
        return
    for hold in waits.holds:
        could = changes(w, step.step, waits, hold.sources[0])
        if could and not hold.reaches:
            yield f"{step.step} {waits.first}: an event of {hold.sources} gets there"
        exact = kind in ("tumbling", "sliding") or (kind == "session" and fresh)  # where every event shows
        if exact and not could and hold.reaches and hold.through is None:
            yield f"{step.step} {waits.first}: no event of {hold.sources} gets there"


def _wrong_by_rule(w: World, step: StepNow, waits: Waits, pending: list[int]) -> Iterator[str]:
    """Behind a window or sessions, by the rules' own words: an answer has the time end - 1, of a session last + gap."""
    first = w.p.graph["first"]
    for hold in waits.holds if first.kind in ("tumbling", "session") else ():
        mark = w.mark(hold.sources[0])
        times = [t for t in (mark, step.clocks[0]) if t is not None]
        if not times:
            continue
        t, timing = max(times), first.timing
        assert timing is not None
        if timing.gap is not None:
            out = t + timing.gap
        else:
            size = timing.size or 1
            out = next(e for e in range(t + 1, FAR) if e % size == 0) - 1
        if hold.reaches != (min([out, *pending]) <= waits.due[0]):
            yield f"second {waits.first}: {hold} at {t} comes at {out}, or at {pending}; told: {hold.reaches}"


def all_wrong(first: int, some: int) -> tuple[int, list[str]]:
    """Over some worlds: how many things were looked at, and what is wrong."""
    looked, found = 0, []
    for seed in range(first, first + some):
        w = world(seed)
        answer = w.p.progress(w.engine())
        looked += sum(len(step.waits) for step in answer.steps)
        found += [f"seed {seed}: {text}" for text in wrong(w, answer)]
    return looked, found


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(2))
def test_who_holds_what_back(first: int) -> None:
    looked, found = all_wrong(first * 1000, 30)
    assert found == []
    assert HUNT or looked > 15


def forgets_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session's answer would come with the time of its event."""
    monkeypatch.setitem(flow.SUMMARIES, "session", lambda node: [0])


def forgets_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """So would a window's."""
    monkeypatch.setitem(flow.SUMMARIES, "tumbling", lambda node: [0])


def takes_the_next_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window's answer would come one window later than it does."""
    true = flow.last_of_window
    monkeypatch.setattr(flow, "last_of_window", lambda t, time: true(t, time) + t.size)


def waits_for_the_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle sources would hold others back."""

    def decides(self: Clocks, stream: int, step: int | None = None) -> Any:
        own, _ = self._clock(stream, step)
        return tuple(i for i in own if self.status[i] != "ended"), True

    monkeypatch.setattr(Clocks, "decides", decides)


def knows_one_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle side would stand still alone, where the clock of both counts."""
    true = Clocks.decides
    monkeypatch.setattr(Clocks, "decides", lambda self, stream, step=None: true(self, stream))


def due_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window would wait for its end to be complete, not for the time before it."""
    _due(monkeypatch, lambda kept: kept.due + (kept.what == "window"))


def due_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of a join would be given up at its own time, and not at the end of the interval."""
    _due(monkeypatch, lambda kept: kept.start if "partner" in kept.what else kept.due)


def _due(monkeypatch: pytest.MonkeyPatch, due: Callable[[Any], Any]) -> None:
    true = kept_waits.kept_in
    monkeypatch.setattr(kept_waits, "kept_in", lambda engines: [replace(kept, due=due(kept)) for kept in true(engines)])


def late_in_four() -> World:
    """A window of windows that an event may still reach by a window in which there is none yet."""

    def build(x: Stream[int]) -> dict[str, Any]:
        first = x.at(lambda v: v, lateness=5, id="x-at").tumbling(4, count, late="drop", id="first")
        return {"first": first, "second": first.tumbling(10, sums, late="drop", id="second")}

    return World(pipeline(build, x=int), ["x"], {"x": 5}, [Batch(rows=[("x", 1)]), Batch(rows=[("x", 12)])])


MUTANTS = [
    forgets_the_gap, forgets_the_window, takes_the_next_window, waits_for_the_idle, knows_one_side, due_at_the_end,
    due_at_its_time,
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_found_out(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    w = late_in_four()
    assert list(wrong(w, w.p.progress(w.engine()))) == []
    mutant(monkeypatch)
    w = late_in_four()
    assert list(wrong(w, w.p.progress(w.engine()))) or any(all_wrong(seed, 1)[1] for seed in (*FOUND, *range(400)))


FOUND = (0, 1, 9, 15, 17, 41)  # worlds that show a mutant


# The answer in words, as data and as a picture; what waits of every kind; promises of a pipeline's own graph.

MINUTE = timedelta(minutes=1)


class Click(NamedTuple):
    """Somebody clicked."""

    when: datetime
    user: str


def number(w: Stream[Any]) -> Stream[Any]:
    """How many."""
    return w.cumulate(lambda n, v: n + 1, start=0)


@pipeline
def shop(clicks: Stream[Click], prices: Stream[Click]) -> Any:
    """Clicks beside prices, counted by the hour for each user."""
    clicked = clicks.at("when", lateness=5 * MINUTE, id="clicked").key_by(lambda c: c.user, id="by")
    priced = prices.at("when", id="priced").key_by(lambda c: c.user, id="by2")
    pair = join(clicked, priced, within=10 * MINUTE, how="left", id="join")
    return pair.tumbling(60 * MINUTE, number, id="hours")


def at(minute: int) -> datetime:
    """A time on a day in May."""
    return datetime(2024, 5, 1, 11) + minute * MINUTE


def test_in_words() -> None:
    """With what is known of a run in a folder: rows, and when they were read."""
    engine = shop.engine(mode="python")
    engine.push([Click(at(5), "ada"), Click(at(64), "bob")], prices=[Click(at(4), "ada"), Click(at(59), "ada")])
    wall = datetime(2024, 5, 1, 12, 4, tzinfo=UTC).timestamp()
    found = progress_of(
        shop.graph, [engine], rows={"clicks": 2, "prices": 2}, heard={"clicks": wall + 100, "prices": wall},
        silent=["prices"], about={"folder": "state", "words": ["not running", "epoch 1 complete"]},
    )  # fmt: skip
    assert str(found).splitlines() == [
        "shop in state: not running, epoch 1 complete, 2 wait for the clock",
        "sources",
        "  clicks: 2 rows read, last row read 2024-05-01 12:05:40 UTC, greatest event time 2024-05-01 12:04:00, "
        "watermark 2024-05-01 11:59:00, with a lateness of 5 min, active",
        "  prices: 2 rows read, silent since 2024-05-01 12:04:00 UTC, greatest event time 2024-05-01 11:59:00, "
        "watermark 2024-05-01 11:59:00, active",
        "steps",
        "  join (join within 10 min, left): clock of by at 2024-05-01 11:59:00, clock of by2 at 2024-05-01 11:59:00",
        "    1 key, first bob: 2024-05-01 12:04:00",
        "    1 left row has found no partner yet: 2024-05-01 12:04:00",
        "      source prices, silent since 2024-05-01 12:04:00 UTC, could still send an event of 2024-05-01 11:59:00 "
        "(prices → priced → by2 → join)",
        "      it comes once prices has sent an event after 2024-05-01 12:14:00, has ended, or is idle",
        "    1 right row is held for a partner: 2024-05-01 11:59:00",
        "  hours (tumbling 1 h): clock at 2024-05-01 11:59:00",
        "    1 key, first ada: 2024-05-01 11:00:00 to 2024-05-01 12:00:00",
        "    1 window is open: 2024-05-01 11:00:00 to 2024-05-01 12:00:00",
        "      source clicks could still send an event of 2024-05-01 11:59:00, through join "
        "(clicks → clicked → by → join → hours)",
        "      source prices, silent since 2024-05-01 12:04:00 UTC, could still send an event of 2024-05-01 11:59:00, "
        "through join (prices → priced → by2 → join → hours)",
        "      it comes once clicks has sent an event of 2024-05-01 12:05:00 or later and prices one of "
        "2024-05-01 12:00:00 or later; a source that has ended or is idle is not waited for",
    ]
    document = json.loads(json.dumps(found.document()))
    assert document["format"] == 1 and document["complete"] is False
    hours = next(step for step in document["steps"] if step["step"] == "hours")
    (waits,) = hours["waiting"]
    assert [hold["sources"] for hold in waits["holds"]] == [["clicks"], ["prices"]]
    assert [step["step"] for step in waits["holds"][1]["path"]] == ["priced", "by2", "join", "hours"]
    assert waits["holds"][1]["silent_since"] == "2024-05-01 12:04:00 UTC"
    picture = ET.fromstring(found.picture())
    lanes = [
        e.get("data-source") or e.get("data-step")
        for e in picture.iter()
        if "data-source" in e.attrib or "data-step" in e.attrib
    ]
    assert lanes == ["clicks", "prices", "join", "hours"]


def test_before_anything_came() -> None:
    engine = shop.engine(mode="python")
    found = shop.progress(engine)
    assert found.complete and "nothing waits" in str(found)
    engine.push([Click(at(5), "ada")], prices=[])
    lines = str(shop.progress(engine)).splitlines()
    assert "  prices: no event yet, active" in lines
    assert "      source prices could still send an event of any time (prices → priced → by2 → join)" in lines
    engine.finish()
    found = shop.progress(engine)
    assert found.complete and "  hours (tumbling 1 h): clock at the end of all times" in str(found)
    assert found.document()["steps"][1]["inputs"][0]["clock"] == {"shown": "end", "units": None}
    assert found.picture().startswith("<svg")


def test_in_general() -> None:
    assert str(shop.progress()).splitlines() == [
        "shop: what waits for which clock",
        "join (join within 10 min, left): a pair comes with its second event; a row is held until the clock of the "
        "other side is after the interval",
        "  the clock of by is that of clicked",
        "    clicks → clicked → by → join (lateness 5 min)",
        "  the clock of by2 is that of priced",
        "    prices → priced → by2 → join (lateness 0 s)",
        "hours (tumbling 1 h): a window comes when the clock is at its end",
        "  the clock of join is the least of those of clicked and priced",
        "    clicks → clicked → by → join → hours (lateness 5 min)",
        "    prices → priced → by2 → join → hours (lateness 0 s)",
    ]
    assert shop.progress().document()["run"] is None
    ordinary = pipeline(lambda x: x.map(lambda v: v + 1), x=int)
    assert str(ordinary.progress()) == "pipeline knows no event time: nothing in it waits for a clock"
    assert shop.progress().picture().startswith("<svg") and ordinary.progress().picture().startswith("<svg")


def test_what_cannot_get_there_any_more() -> None:
    """A window of windows that do not fit: the clock is waited for, though no event could come."""

    def odd(x: Stream[int]) -> Any:
        return x.at(lambda v: v, id="at").tumbling(7, number, id="sevens").tumbling(10, number, id="tens")

    p = pipeline(odd, x=int)
    engine = p.engine(mode="python")
    engine.push([1, 8])
    (waits,) = p.progress(engine).waiting("tens")
    assert [hold.reaches for hold in waits.holds] == [False] and waits.first == (0, 10)
    assert (
        "source x is at 8: no event of it could get here in time any more, but the clock waits for it "
        "(x → at → sevens → tens)"
    ) in str(p.progress(engine))
    assert engine.push([10])[0].end == 10  # which is what it waited for


def test_what_waits_on_the_way() -> None:
    """An event would come too late, but a session that is open on the way does not."""

    def visits(x: Stream[int]) -> Any:
        timed = x.at(lambda v: v, id="at").key_by(lambda v: v % 2, id="odd")
        return timed.session(4, number, id="visit").tumbling(12, number, id="dozen")

    p = pipeline(visits, x=int)
    engine = p.engine(mode="python")
    engine.push([0, 7])
    engine.push([10])  # the session of 7 is open until 11, and an event of 10 would be in one until 14
    found = p.progress(engine)
    (waits,) = found.waiting("dozen")
    assert [(hold.reaches, hold.through) for hold in waits.holds] == [(True, "visit")]
    assert "source x holds back what waits at visit, which comes here in time (x → at → odd → visit → dozen)" in str(
        found
    )
    engine.push([12])  # now it is there, and nothing else can come
    assert p.progress(engine).waiting("dozen") == ()


def kinds(p: Pipeline, *columns: list[int]) -> list[tuple[str, bool, int, tuple[int, int], tuple[int, int]]]:
    """What waits, of every step."""
    engine = p.engine(mode="python")
    engine.push(*columns)
    return [(w.what, w.comes, w.count, w.first, w.due) for step in p.progress(engine).steps for w in step.waits]


def test_every_kind_that_waits() -> None:
    def key(s: Any, name: str, **more: Any) -> Any:
        return s.at(lambda v: v, id=name, **more).key_by(lambda v: v * 0)

    corrected = pipeline(lambda x: x.at(lambda v: v).tumbling(10, number, allowed_lateness=20, id="w"), x=int)
    assert kinds(corrected, [3, 14]) == [
        ("window", True, 1, (10, 20), (19, 19)), ("correction", False, 1, (0, 10), (29, 29)),
    ]  # fmt: skip
    early = pipeline(lambda x: x.at(lambda v: v).sliding(10, 5, number, early="event", id="w"), x=int)
    assert kinds(early, [3, 14]) == [("window", True, 2, (5, 15), (14, 19))]
    once = pipeline(lambda x: x.at(lambda v: v).dedup(by=lambda v: v, within=3, id="w"), x=int)
    assert kinds(once, [3, 14, 14]) == [("row", True, 2, (14, 14), (14, 14))]
    asked = pipeline(lambda x, y: as_of(key(x, "a"), key(y, "b"), id="w"), x=int, y=int)
    assert kinds(asked, [3, 9], [1, 5]) == [("row", True, 1, (9, 9), (9, 9)), ("change", False, 1, (5, 5), (5, 5))]
    table = pipeline(
        lambda x, y: lookup(key(x, "a"), key(y, "b", idle=MINUTE), id="w").map(lambda p: p[0]), x=int, y=int
    )
    assert kinds(table, [3, 9], [1, 5])[0] == ("row", True, 1, (9, 9), (9, 9))
    full = pipeline(lambda x, y: join(key(x, "a"), key(y, "b"), within=(-1, 4), how="full", id="w"), x=int, y=int)
    assert kinds(full, [3, 9], [1, 5]) == [
        ("left row without a partner", True, 1, (9, 9), (13, 13)),
        ("left row", False, 1, (3, 3), (7, 7)),
    ]
    assert kinds(full, [3, 4], [1, 9]) == [("right row without a partner", True, 1, (9, 9), (10, 10))]
    told = pipeline(
        lambda x: key(x, "a").task(
            lambda s, v: (s + v, [], [v + 5]), 0, on_time=lambda s, t: (s, [t], []), id="w"
        ),
        x=int,
    )  # fmt: skip
    assert kinds(told, [3, 9]) == [("row", True, 1, (9, 9), (9, 9))]  # of 3 and 8 it has been told
    assert kinds(told, [3, 7]) == [("row", True, 1, (7, 7), (7, 7)), ("time", True, 1, (8, 8), (8, 8))]
    round_ = pipeline(lambda x: iterate(key(x, "a"), lambda v: v.map(lambda n: n // 2), id="w"), x=int)
    assert kinds(round_, [3, 9]) == [("row", True, 1, (9, 9), (9, 9))]


def test_every_timed_kind_has_a_summary() -> None:
    timed = {kind for kind, p in PROCESSORS.items() if p.timed}
    assert timed - {"at"} == set(SUMMARIES)
    assert {kind for kind in timed if PROCESSORS[kind].keeps == "times"} == set(_KEPT) == set(RULES)


def test_the_ends_of_windows() -> None:
    for size, every, origin in ((10, 10, 0), (10, 5, 3), (7, 2, -4)):
        timing = Timing(size=size, every=every, origin=origin)
        for t in range(-30, 30):
            ends = [s + size for s in range(-200, 200) if (s - origin) % every == 0 and s <= t < s + size]
            assert last_of_window(timing, t) == min(ends) - 1
    zone = pipeline(
        lambda x: x.at(lambda v: v, id="at").tumbling(timedelta(days=1), number, tz="Europe/Berlin", id="day")
        .tumbling(timedelta(days=2), number, id="two"), x=Annotated[datetime, UTC],
    )  # fmt: skip
    paths = PathSummaries(flow_of(zone.graph))
    spring = int(datetime(2024, 3, 30, 23, 30, tzinfo=UTC).timestamp() * 1e6)  # the day there has 23 hours
    (path,) = paths.between(Source("at"), Target("two"))
    assert path.summary.results_in(spring) == int(datetime(2024, 3, 31, 22, tzinfo=UTC).timestamp() * 1e6) - 1
    for time in (-(2**63), 2**63 - 1):
        assert path.summary.results_in(time) is not None


def test_promises_of_a_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check.progress(shop).proved

    def late(x: Stream[int], y: Stream[int]) -> Any:
        pair = join(x.at(lambda v: v, id="a"), y.at(lambda v: v, id="b"), within=(5, 10), how="full", id="pair")
        return pair.tumbling(2, number, late="drop", id="w")

    p = pipeline(late, x=int, y=int)
    assert check.progress(p).proved
    engine = p.engine(mode="python")  # and so it is
    found: list[Any] = []
    for x, y in ((10, 10), (100, 12), (101, 13), (102, 14)):
        found += engine.push([x], y=[y])
    assert not engine.late
    assert sorted([*found, *engine.finish()]) == sorted(p([10, 100, 101, 102], [10, 12, 13, 14]))

    # If a row that found nobody had the last time at which it could have found one, whatever its own:
    monkeypatch.setattr(flow, "SUMMARIES", {**SUMMARIES, "join": lambda node: [0, -node.timing.low]})
    verdict = check.progress(p)
    assert verdict.refuted and [name for name, part in verdict.parts.items() if part.refuted] == ["clock"]
    assert "what b sends at 0 comes to w with the time -5" in verdict.parts["clock"].notes[0]
    inner = pipeline(lambda x, y: late(x, y).map(lambda w: w.value), x=int, y=int)
    assert check.progress(inner, about="acyclic").proved
    with pytest.raises(UsageError, match="of a pipeline the questions are condition 2, acyclic, clock"):
        check.progress(p, about="liveness")
    with pytest.raises(UsageError, match="messages= is for graphs with times"):
        check.progress(p, messages=2)
    with pytest.raises(UsageError, match="knows no event time"):
        check.progress(pipeline(lambda x: x.map(lambda v: v), x=int))


def test_a_join_that_only_pairs_keeps_its_promise() -> None:
    def pairs(x: Stream[int], y: Stream[int]) -> Any:
        pair = join(x.at(lambda v: v), y.at(lambda v: v), within=(5, 10), id="pair")
        return merge(pair, id="same").tumbling(2, number, id="w")

    assert check.progress(pipeline(pairs, x=int, y=int)).proved


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="an engine of this pipeline or a state folder is expected, found int"):
        shop.progress(3)
    other = pipeline(lambda x: x.map(lambda v: v), x=int)
    with pytest.raises(UsageError, match="an engine of this pipeline"):
        shop.progress(other.engine())
    with pytest.raises(UsageError, match="knows no event time, so nothing in an engine of it waits"):
        other.progress(other.engine())
    with pytest.raises(UsageError, match=r"'houres' is no step that waits for event time: it has join, hours; did you"):
        shop.progress().waiting("houres")
