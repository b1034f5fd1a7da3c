"""What the engine over columns is made of, each held to something that anybody can read."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

from pellucid import Stream, as_of, join, lookup, merge, pipeline, silent
from pellucid.errors import LateError, PellucidError, StateError, UsageError
from pellucid.internal.data.columns import Batch, Output, Strings, columns_of
from pellucid.internal.engine.kernel.exchange import joined
from pellucid.internal.engine.timed import engine as engine_module
from pellucid.internal.engine.timed import sorting as order
from pellucid.internal.engine.timed import sorting as order_module
from pellucid.internal.engine.timed import windows
from pellucid.internal.engine.timed.clock import ranking
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.rows import LEAST, MOST, Texts, Waiting, later
from pellucid.internal.engine.timed.sorting import Index, Keys, Numbers, by_key_and_time, canonical, numbers, order_by
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, type_of
from pellucid.internal.pipeline import Pipeline
from tests.engine.timed.drawn import batches, drawn
from tests.engine.timed.literal_engine import LiteralEngine
from tests.seeds import HUNT, seeds

MANY = 40_000


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(3))
def test_sorting_many_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    near = np.arange(MANY) - rng.integers(0, 9, MANY)
    far = rng.integers(LEAST, MOST, MANY)
    few = rng.integers(-3, 3, MANY)
    same = np.full(MANY, 7)
    for columns in (
        [near],
        [far],
        [few],
        [same],
        [few, near],
        [few, far],
        [far, few],
        [same, near],
        [few, same],
        [far, far],
    ):
        assert (order_by(columns) == np.lexsort(columns[::-1])).all()
        order, new, times = by_key_and_time(columns[:-1], columns[-1], (), (), Texts())
        assert (order == np.lexsort(columns[::-1])).all() and (times == columns[-1][order]).all()
        expected = [i == 0 or any(c[order[i]] != c[order[i - 1]] for c in columns[:-1]) for i in range(MANY)]
        assert new.tolist() == expected


@pytest.mark.seeded
@pytest.mark.parametrize("count", [50, MANY])
def test_the_canonical_order_is_that_of_the_literal_engine(count: int) -> None:
    rng = random.Random(count)
    t = type_of(tuple[str, float, bool, int])
    choices = ["", "a", "B", "Zoë", "\U0001d7d8", "￿"], [0.0, -0.0, 1.5, -1.5, float("inf"), float("nan")]
    events = [
        (rng.choice(choices[0]), rng.choice(choices[1]), rng.random() < 0.5, rng.randrange(3)) for _ in range(count)
    ]
    when = np.array([rng.randrange(count // 10) for _ in range(count)])
    texts = Texts()
    leaves = [
        texts.taken([e[0] for e in events]), np.array([e[1] for e in events]), np.array([e[2] for e in events]),
        np.array([e[3] for e in events]),
    ]  # fmt: skip
    order = canonical([when], (STR, FLOAT, BOOL, INT), leaves, texts)
    rank = ranking(t)
    assert order.tolist() == sorted(range(count), key=lambda i: (when[i], rank(events[i])))


def test_numbers_of_leaves_keep_their_order() -> None:
    floats = np.array([-np.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 2.5, np.inf, np.nan])
    assert numbers(FLOAT, floats, Texts()).argsort(kind="stable").tolist() == list(range(9))
    assert numbers(FLOAT, np.array([np.nan, -np.nan]), Texts()).tolist() == [MOST, MOST]


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(5))
def test_rows_that_wait_go_when_they_are_due(seed: int) -> None:
    rng = random.Random(seed)
    waiting, plain, name, now = Waiting([np.int64]), [], 0, 0
    for _ in range(300):
        due = [now + rng.randrange(-5, 60) for _ in range(rng.choice([0, 1, 3, 50]))]
        names = list(range(name, name + len(due)))
        name += len(due)
        waiting.add(np.array(due, np.int64), [np.array(names, np.int64)])
        plain += zip(due, names, strict=True)
        now += rng.randrange(4)
        found = waiting.take(now)
        assert sorted(zip(found[0].tolist(), found[1].tolist(), strict=True)) == sorted(p for p in plain if p[0] <= now)
        plain = [p for p in plain if p[0] > now]
        assert len(waiting) == len(plain) and waiting.least == min((p[0] for p in plain), default=None)
        if rng.random() < 0.1:
            columns = waiting.columns()
            waiting = Waiting([np.int64])
            waiting.put(columns)
    assert len(waiting.take(None)[0]) == len(plain)


@pytest.mark.seeded
@pytest.mark.parametrize("wide", [False, True])
def test_rows_are_found_by_key_and_time(wide: bool) -> None:
    """Also where key and time do not go into one number."""
    rng = random.Random(wide)
    scale = 2**58 if wide else 1
    index, plain = Index(), []
    for _ in range(60):
        some = [(rng.randrange(5), rng.randrange(-30, 30) * scale, len(plain) + i) for i in range(rng.randrange(20))]
        plain += some
        index.add(*(np.array([row[j] for row in some], np.int64) for j in range(3)))
        asked = [(rng.randrange(-1, 7), rng.randrange(-31, 31) * scale, rng.randrange(4) * scale) for _ in range(10)]
        key, low = (np.array([a[j] for a in asked]) for j in range(2))
        high = np.array([a[1] + a[2] for a in asked])
        probe, row = index.between(key, low, high)
        found = sorted(zip(probe.tolist(), row.tolist(), strict=True))
        assert found == sorted(
            (i, name)
            for i, (k, at, long) in enumerate(asked)
            for key, t, name in plain
            if key == k and at <= t <= at + long
        )
        for at, last in enumerate(index.last(key, low).tolist()):
            before = [t for k, t, _ in plain if k == asked[at][0] and t <= asked[at][1]]
            assert (last < 0) == (not before) and (last < 0 or plain[last][1] == max(before))


@pytest.mark.parametrize("many", [order_module.MANY, 15])
def test_numbers_get_places_as_they_come(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a dictionary, and in a table that compiled code looks at, which grows."""
    monkeypatch.setattr(order_module, "MANY", many)
    rng = random.Random(1)
    places, plain = Numbers(), {}
    for _ in range(200):
        values = [
            rng.choice([rng.randrange(10), rng.randrange(5000), rng.randrange(-(2**63), 2**63)])
            for _ in range(rng.choice([3, 20, 90]))
        ]
        if rng.random() < 0.3:
            assert places.places(np.array(values), False).tolist() == [plain.get(v, -1) for v in values]
        found = places.places(np.array(values), True).tolist()
        for value, place in zip(values, found, strict=True):
            assert plain.setdefault(value, place) == place
        assert sorted(plain.values()) == list(range(places.count))


def test_keys_of_several_leaves() -> None:
    keys = Keys((INT, BOOL, STR))
    columns = [np.array([1, 1, 2, 1]), np.array([True, False, True, True]), np.array([0, 0, 0, 0])]
    assert keys.of(columns, 4).tolist() == [0, 1, 2, 0]
    assert keys.of([np.array([1, 3]), np.array([False, True]), np.array([0, 0])], 2, add=False).tolist() == [1, -1]
    keys.keep(np.array([2, 0]))
    assert [c.tolist() for c in keys.columns()] == [[2, 1], [True, True], [0, 0]]
    assert keys.of(columns, 4).tolist() == [1, 2, 0, 1]


def test_many_keys_of_several_leaves_and_of_any_width() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.integers(-(2**62), 2**62, 900)[rng.integers(0, 900, MANY)], rng.integers(0, 30, MANY)
    keys, plain = Keys((INT, INT)), {}
    for part in np.split(np.arange(MANY), [33_000, 33_010]):
        found = keys.of([first[part], second[part]], len(part))
        for own, place in zip(
            zip(first[part].tolist(), second[part].tolist(), strict=True), found.tolist(), strict=True
        ):
            assert plain.setdefault(own, place) == place
    assert sorted(plain.values()) == list(range(keys.count))
    assert list(zip(*(c.tolist() for c in keys.columns()), strict=True)) == sorted(plain, key=plain.__getitem__)


def test_times_stay_within_64_bits() -> None:
    times = np.array([LEAST, -1, 0, MOST])
    assert later(times, 5).tolist() == [LEAST + 5, 4, 5, MOST]
    assert later(times, -5).tolist() == [LEAST, -6, -5, MOST - 5]
    assert later(times, 2**63).tolist() == [0, MOST, MOST, MOST]  # of a length that does not fit itself


# The engine over columns is the literal one, only faster: the same events in the same order, batch by batch, whatever
# is saved and loaded in between; and the same errors.


def agree(seed: int, count: int, mode: str = "auto") -> tuple[int, bool]:
    """One run of both engines; how many events came out, and whether it ended with an error."""
    rng = random.Random(seed)
    p, several = drawn(rng)
    key = STR if rng.random() < 0.3 else None
    literal = LiteralEngine(p.graph, key=key)
    fast = TimedEngine(p.graph, key=key, mode=mode)
    events = 0
    for batch in [*batches(rng, p.graph, key, count), None]:
        if rng.random() < 0.1 and several == 2:
            source = rng.choice("xy")
            literal.idle(source)
            fast.idle(source)
        if rng.random() < 0.5:
            other = TimedEngine(p.graph, key=key, mode=mode)
            other.load(fast.save())
            fast = other
        found = []
        for engine in (literal, fast):
            try:
                out = engine.finish_batch() if batch is None else engine.push_batch(batch)
                events += sum(map(len, out))
                found.append(plain(out, key))
            except PellucidError as error:
                found.append(f"{type(error).__name__}: {error}")
        assert found[0] == found[1], f"seed {seed}: {p.graph}"
        assert literal.late == fast.late
        if isinstance(found[0], str):
            return events, True
    return events, False


def agree_in_parts(seed: int, count: int) -> int:
    """The literal engine batch by batch, the other one with each batch's rows in several parts (and saved between
    them), or moved by what another engine has seen; how many events came out."""
    rng = random.Random(seed)
    p, several = drawn(rng)
    key = STR if rng.random() < 0.3 else None
    literal = LiteralEngine(p.graph, key=key)
    fast = TimedEngine(p.graph, key=key)
    events = 0
    for batch in batches(rng, p.graph, key, count):
        if rng.random() < 0.1 and several == 2:
            source = rng.choice("xy")
            literal.idle(source)
            fast.idle(source)
        found: list[Any] = []
        try:
            found.append(plain(literal.push_batch(batch), key))
        except PellucidError as error:
            found.append(type(error))
        try:
            outs = []
            for part in parts(rng, batch):
                outs.append(plain(fast.take(part), key))
                if rng.random() < 0.3:
                    other = TimedEngine(p.graph, key=key)
                    other.load(fast.save())
                    assert other.seen() == fast.seen()
                    fast = other
            outs.append(plain(fast.move(fast.seen() if rng.random() < 0.5 else None), key))
            assert fast.seen() == {}
            found.append(
                [
                    (name, [e for out in outs for e in out[i][1]], [k for out in outs for k in out[i][2] or []])
                    for i, (name, _, _) in enumerate(outs[0])
                ]
            )
        except PellucidError as error:
            found.append(type(error))
        if isinstance(found[0], list):
            found[0] = [(name, shown, keys or []) for name, shown, keys in found[0]]
            events += sum(len(shown) for _, shown, _ in found[0])
        # Which error comes first may differ: an early part is at its end before a later one begins.
        assert isinstance(found[0], type) == isinstance(found[1], type), f"seed {seed}: {found}"
        if isinstance(found[0], type):
            return events
        assert found[0] == found[1], f"seed {seed}: {p.graph}"
        assert literal.late == fast.late
    return events


def parts(rng: random.Random, batch: Batch) -> list[Batch]:
    """A batch cut into several."""
    out, at = [], 0
    while at < batch.count or not out:
        stop = min(batch.count, at + rng.choice([0, 1, 3, 10]))
        if stop == at and out and rng.random() < 0.5:
            continue
        cut = slice(at, stop)
        columns = [[c[cut] for c in columns] for columns in batch.columns]
        masks = [None if m is None else m[cut] for m in batch.masks]
        keys = None if batch.keys is None else [[c[cut] for c in columns] for columns in batch.keys]
        out.append(Batch(stop - at, columns, masks, keys))
        at = stop
    return out


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(2))
def test_rows_may_come_in_parts_before_the_clock_moves(first: int) -> None:
    events = sum(agree_in_parts(seed, 25) for seed in range(first * 1000, first * 1000 + 30))
    assert HUNT or events > 300


@pytest.mark.seeded
@pytest.mark.long
@pytest.mark.parametrize("first", seeds(10, 50))
def test_rows_in_parts_at_length(first: int) -> None:
    for seed in range(first * 1000, first * 1000 + 300):
        agree_in_parts(seed, 60)


def test_marks_are_of_steps_that_say_times() -> None:
    p = pipeline(lambda x: x.at(lambda v: v, id="when").tumbling(10, lambda w: w, id="w"), x=int)
    engine = TimedEngine(p.graph)
    with pytest.raises(UsageError, match="no step 'w' that says what an event's time is: it has when"):
        engine.move({"w": 3})
    engine.take(Batch(1, [[[3]]]))
    assert engine.seen() == {"when": 3}
    assert [o.events() for o in engine.move({"when": 12})] == [[(0, 10, 3)]]
    with pytest.raises(LateError, match="9"):
        engine.take(Batch(1, [[[9]]]))


def plain(outputs: list[Any], key: Any) -> Any:
    """Events, and the keys that came with the data."""
    from pellucid.internal.data.columns import events_of

    return [
        (o.name, [repr(e) for e in o.events()], events_of(key, o.keys) if key is not None else None) for o in outputs
    ]


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(4))
def test_both_engines_agree(first: int) -> None:
    put, failed = 0, 0
    for seed in range(first * 1000, first * 1000 + 40):
        events, error = agree(seed, 25)
        put, failed = put + events, failed + error
    assert HUNT or (put > 1000 and failed < 30)  # most runs say something


def test_sessions_that_end_together_come_by_key() -> None:
    """All of them were held open before: in the order in which their keys came."""
    p = pipeline(lambda x: x.at(lambda e: e[0]).key_by(lambda e: e[1]).session(5, lambda w: w), x=tuple[int, str])
    for engine in (LiteralEngine(p.graph), TimedEngine(p.graph)):
        assert engine.push([(1, "b"), (2, "z")]) == engine.push([(4, "b"), (4, "a"), (5, "z")]) == []
        assert [w.value for w in engine.push([(30, "z")])] == [(4, "a"), (4, "b"), (5, "z")]


@pytest.mark.seeded
@pytest.mark.long
@pytest.mark.parametrize("first", seeds(20, 100))
def test_both_engines_agree_at_length(first: int) -> None:
    for seed in range(first * 1000, first * 1000 + 300):
        agree(seed, 60)


# The engine over columns: days of time zones, the ends of 64 bits, errors, states, memory, and many rows.


class Moment(NamedTuple):
    when: Annotated[datetime, UTC]
    n: int


class Late(NamedTuple):
    t: int | None
    n: int


def count(w: Stream[Any]) -> Stream[int]:
    return w.cumulate(lambda n, e: n + 1, start=0)


def both(p: Pipeline, chunks: list[Any]) -> tuple[Any, Any]:
    """What the literal engine and the one over columns say to these chunks, each one for every source; an error is its
    words."""
    found = []
    for run in (LiteralEngine(p.graph), TimedEngine(p.graph)):
        said: list[Any] = []
        try:
            said += [run.push(*chunk) if isinstance(chunk, tuple) else run.push(chunk) for chunk in chunks]
            said.append(run.finish())
        except PellucidError as error:
            said.append(f"{type(error).__name__}: {error}")
        found.append(said)
    return found[0], found[1]


def agrees(p: Pipeline, chunks: list[Any]) -> Any:
    literal, fast = both(p, chunks)
    assert fast == literal
    return fast


@pytest.mark.seeded
@pytest.mark.parametrize("tz", ["Europe/Berlin", "America/New_York", "Asia/Beirut", "Pacific/Apia", "Asia/Tehran"])
def test_days_of_a_time_zone(tz: str) -> None:
    rng = random.Random(tz)
    for size, every in ((1, 1), (7, 1), (3, 2)):
        days, step = timedelta(days=size), timedelta(days=every)
        p = pipeline(
            lambda x, days=days, step=step: x.at("when", lateness=timedelta(hours=30)).sliding(
                days, step, count, tz=tz, late="drop"
            ),
            x=Moment,
        )
        for first in (datetime(2024, 3, 25, tzinfo=UTC), datetime(2011, 12, 27, tzinfo=UTC)):
            events = [Moment(first + timedelta(minutes=rng.randrange(15_000)), i) for i in range(60)]
            events.sort(key=lambda e: e.when + timedelta(hours=rng.randrange(40)))
            agrees(p, [events[i : i + 7] for i in range(0, 60, 7)])


def test_a_clock_before_all_days() -> None:
    p = pipeline(
        lambda x: x.at("when", lateness=timedelta(days=1_000_000)).tumbling(timedelta(days=1), count, tz="Asia/Tokyo"),
        x=Moment,
    )
    for year in (1, 2, 2024, 9999):
        agrees(p, [[Moment(datetime(year, 1, 1, tzinfo=UTC), 1)], [Moment(datetime(year, 12, 31, 23, tzinfo=UTC), 1)]])


ENDS = [-(2**63), -(2**63) + 1, -(2**62), -5, 0, 7, 2**62, 2**63 - 12, 2**63 - 2, 2**63 - 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.tumbling(10, count),
        lambda x: x.tumbling(2**61, count, origin=5),
        lambda x: x.sliding(2**62, 2**60, count),
        lambda x: x.sliding(3, 1, count, origin=-(2**62)),
        lambda x: x.session(5, count),
        lambda x: x.session(2**62, count),
        lambda x: x.dedup(by=lambda v: v % 2, within=2**62),
        lambda x: x.dedup(by=lambda v: 1, within=0),
        lambda x: join(x, x, within=(2**61, 2**62)),
        lambda x: join(x, x, within=(-3, 2**62), how="left"),
        lambda x: join(x, x, within=2**63 - 1, how="full"),
        lambda x: as_of(x, x.filter(lambda v: v % 2 == 0), within=2**62),
        lambda x: as_of(x, x.filter(lambda v: v % 2 == 0)),
    ],
)
def test_the_ends_of_64_bits(make: Callable[[Any], Any]) -> None:
    p = pipeline(lambda x: make(x.at(lambda v: v, lateness=2**62)), x=int)
    for few in ([0, 7], ENDS[2:6], ENDS[1:7], ENDS[:3], ENDS[-3:], ENDS[4:8], ENDS):
        agrees(p, [few])
        agrees(p, [[v] for v in few])
        agrees(p, [[v] for v in reversed(few)])


def test_errors_are_those_of_the_literal_engine() -> None:
    def run(make: Callable[[Any], Any], chunks: list[Any], kind: Any = Late) -> str:
        said = agrees(pipeline(make, x=kind), chunks)
        assert isinstance(said[-1], str)
        return str(said[-1])

    ok, none = Late(5, 1), Late(None, 2)
    timed: Callable[[Any], Any] = lambda x: x.at(lambda e: e.t, id="when")
    assert "it has no time" in run(timed, [[ok, ok], [ok, none, none]])
    divided = run(lambda x: timed(x.map(lambda e: Late(10 // e.n, e.n))), [[ok, Late(3, 0)]])
    assert "failed at push 1" in divided and "ZeroDivisionError" in divided
    assert "failed at push 1" in run(lambda x: x.at(lambda e: 10 // e.n), [[ok, Late(3, 0), none]])
    inside = run(lambda x: timed(x).tumbling(10, lambda w: w.map(lambda e: 10 // e.n)), [[ok, Late(13, 0)]])
    assert "in the window from 10 to 20" in inside and "Late(t=13, n=0)" in inside
    assert "in the window from 13 to 17" in run(
        lambda x: timed(x).session(3, lambda w: w.map(lambda e: 10 // e.n)), [[ok, Late(13, 0)]]
    )
    assert "failed at push 2" in run(
        lambda x: timed(x).dedup(by=lambda e: 10 // e.n, within=1), [[ok], [ok, Late(9, 0)]]
    )
    later = run(lambda x: timed(x).key_by(lambda e: 10 // e.n).tumbling(10, count), [[ok], [ok, Late(9, 0)]])
    assert "failed at push 2" in later
    late = run(lambda x: timed(x).tumbling(10, count, id="w"), [[Late(25, 1)], [Late(31, 1), Late(19, 1), ok]])
    assert "step 'w'" in late and "6 late" in late and "failed at push 2" in late


def test_an_error_inside_a_compiled_window_shows_the_whole_event() -> None:
    """What a sub-pipeline does not look at is not given to it; the words of an error need it all the same."""
    p = pipeline(lambda x: x.at("t").tumbling(10, lambda w: w.map(lambda e: 10 // e.n)), x=Late)
    assert p.graph.nodes[-1].sub is not None
    n = 40_000
    columns = [np.ones(n, bool), np.arange(n), np.ones(n, np.int64)]
    columns[2][-1] = 0
    engine = TimedEngine(p.graph)
    engine.push_batch(Batch(n, [columns]))
    with pytest.raises(PellucidError, match=r"on the event Late\(t=39999, n=0\)"):
        engine.finish_batch()


def test_after_an_error_the_engine_stands_still() -> None:
    engine = TimedEngine(pipeline(lambda x: x.at("t"), x=Late).graph)
    with pytest.raises(PellucidError):
        engine.push([Late(None, 1)])
    with pytest.raises(StateError, match="this engine was stopped at push 0"):
        engine.push([Late(1, 1)])
    with pytest.raises(StateError, match="not saved"):
        engine.save()
    fresh = TimedEngine(engine.graph)
    engine.load(fresh.save())
    assert engine.push([Late(1, 1)]) == [Late(1, 1)]


def test_after_the_end_nothing_comes() -> None:
    engine = TimedEngine(pipeline(lambda x: x.at(lambda v: v), x=int).graph)
    assert engine.finish() == []
    other = TimedEngine(engine.graph)
    other.load(engine.save())
    for ended in (engine, other):
        with pytest.raises(StateError, match="after the end of the input"):
            ended.push([1])


def counted(size: int) -> Pipeline:
    return pipeline(lambda x: x.at(lambda v: v, lateness=3).tumbling(size, count), x=int)


def test_the_state_of_another_is_refused() -> None:
    engine = TimedEngine(counted(10).graph)
    engine.push([1, 2, 30])
    saved = engine.save()
    TimedEngine(counted(10).graph).load(saved)
    with pytest.raises(StateError, match="is of another pipeline, or another version of 'pipeline'"):
        TimedEngine(counted(11).graph).load(saved)
    with pytest.raises(StateError, match="is of another key of 'pipeline'"):
        TimedEngine(counted(10).graph, key=STR).load(saved)
    with pytest.raises(StateError, match="no saved state of Pellucid"):
        engine.load(b"something else")
    with pytest.raises(StateError, match="it holds a state"):
        engine.load(pipeline(lambda x: x.trim(1), x=int).engine().save())


def test_a_damaged_state_is_refused_wherever_it_is_damaged() -> None:
    p = pipeline(lambda x: x.at("t").key_by(lambda e: e.n).session(5, count), x=Late)
    engine = TimedEngine(p.graph)
    engine.push([Late(1, 1), Late(2, 2), Late(9, 1)])
    saved = engine.save()
    for at in range(0, len(saved), 37):
        with pytest.raises(StateError):
            TimedEngine(p.graph).load(saved[:at] + bytes([saved[at] ^ 1]) + saved[at + 1 :])
    for size in range(0, len(saved), 101):
        with pytest.raises(StateError):
            TimedEngine(p.graph).load(saved[:size])


def test_a_state_that_was_made_up_is_refused() -> None:
    """The checksum is right, but what stands there cannot be."""
    from pellucid.internal.base import container

    p = pipeline(lambda x: x.at(lambda e: e[0]).key_by(lambda e: e[1]).tumbling(5, count), x=tuple[int, str])
    engine = TimedEngine(p.graph)
    engine.push([(1, "a"), (2, "b")])
    found = container.unpack(engine.save(), "times")
    blocks = [bytes(b) for b in found.blocks]
    for wrong in (blocks[:-1], [*blocks, b"more"], [b"", b"", *blocks[2:]], [*blocks[:-1], blocks[-1] + bytes(8)]):
        made = container.pack("times", {k: v for k, v in found.head.items() if k != "blocks"}, wrong)
        with pytest.raises(StateError, match="damaged"):
            TimedEngine(p.graph).load(made)


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(2, 50))
def test_the_ways_of_many_rows_agree_on_few(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled sorting and loops, which a few rows would not see."""
    monkeypatch.setattr(order, "MANY", 2)
    monkeypatch.setattr(windows, "_SLICE", 3)
    for seed in range(first * 1000, first * 1000 + 20):
        agree(seed, 25)


@pytest.mark.seeded
def test_texts_that_nothing_mentions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_MANY_TEXTS", 4)
    for seed in seeds(25, 70_000):
        agree(seed, 30)
    p = pipeline(lambda x: x.at(lambda e: e[0]).key_by(lambda e: e[1]).session(3, lambda w: w), x=tuple[int, str])
    engine = TimedEngine(p.graph)
    found = [engine.push([(t, f"text {t}"), (t, "b")]) for t in range(200)]
    assert len(engine.texts) < 40
    assert [w.value[1] for w in found[-1]] == ["text 195"]


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.tumbling(10, count),
        lambda x: x.sliding(10, 3, count),
        lambda x: x.session(5, count),
        lambda x: x.dedup(by=lambda v: v, within=20),
        lambda x: join(x, x.filter(lambda v: v % 2 == 0), within=4, how="full"),
        lambda x: as_of(x, x.filter(lambda v: v % 3 == 0)),
    ],
)
def test_what_is_kept_does_not_grow_with_what_came(make: Callable[[Any], Any]) -> None:
    p = pipeline(lambda x: make(x.at(lambda v: v, lateness=5).key_by(lambda v: v % 7)), x=int)
    engine = TimedEngine(p.graph)
    most = 0
    for at in range(0, 60_000, 1000):
        engine.push(np.arange(at, at + 1000))
        most = max(most, *engine.waiting.values())
    assert most < 14_000  # once half of it is of no use, it goes: so it is a multiple of a batch
    assert len(engine.save()) < 400_000


def windows_by_hand(kind: str, events: list[tuple[int, str, float]]) -> list[Any]:
    """The answers, from the rules and nothing else: sorted events, windows one by one, sums in the order of events."""
    found: list[tuple[int, str, int, float]] = []
    for user in {e[1] for e in events}:
        own = sorted(e for e in events if e[1] == user)
        groups: dict[tuple[int, int], list[Any]] = {}
        if kind == "session":
            since = 0
            for i, e in enumerate(own):
                if i + 1 == len(own) or own[i + 1][0] - e[0] > 150:
                    groups[own[since][0], e[0] + 151] = own[since : i + 1]
                    since = i + 1
        else:
            size, every = (1000, 1000) if kind == "tumbling" else (1000, 600)
            for e in own:
                for k in range((e[0] - size) // every + 1, e[0] // every + 1):
                    groups.setdefault((k * every, k * every + size), []).append(e)
        for (start, end), inside in groups.items():
            total = 0.0
            for e in inside:
                total += e[2]
            found.append((end, user, start, total))
    return [(start, end, total) for end, _, start, total in sorted(found)]


@pytest.mark.parametrize("kind", ["tumbling", "sliding", "session"])
def test_many_rows_are_as_by_hand(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to be compiled, and cut into slices, in one batch and in several; floats, whose sums depend on the
    order."""
    monkeypatch.setattr(windows, "_SLICE", 4000)

    def make(x: Any) -> Any:
        timed = x.at(lambda e: e[0], lateness=50).key_by(lambda e: e[1])
        total: Any = lambda w: w.cumulate(lambda s, e: s + e[2], start=0.0)
        if kind == "tumbling":
            return timed.tumbling(1000, total)
        return timed.sliding(1000, 600, total) if kind == "sliding" else timed.session(150, total)

    p = pipeline(make, x=tuple[int, str, float])
    rng = np.random.default_rng(3)
    n = 36_000
    t = 4 * np.arange(n) - rng.integers(0, 50, n)
    users, x = rng.integers(0, 30, n), rng.random(n)
    texts = Strings(users, [f"u{i}" for i in range(30)])
    events = list(zip(t.tolist(), [texts.values[u] for u in users.tolist()], x.tolist(), strict=True))
    expected = windows_by_hand(kind, events)
    for size in (n, 5000):
        fast, found = TimedEngine(p.graph), []
        for at in range(0, n, size):
            part = slice(at, at + size)
            columns = [t[part], Strings(users[part], texts.values), x[part]]
            found += fast.push_batch(Batch(len(columns[0]), [columns]))[0].events()
        found += fast.finish_batch()[0].events()
        assert found == expected


@pytest.mark.parametrize("ties", [False, True])
def test_many_pairs_are_as_by_hand(ties: bool) -> None:
    """Enough to be paired in compiled code, in one batch and in several; with partners whose times are equal, too."""
    rng = np.random.default_rng(4)
    n, apart = 20_000, 1 if ties else 7
    sides = [(apart * np.arange(n) - rng.integers(0, 40, n), rng.integers(0, 400, n)) for _ in range(2)]
    near = 60 * apart

    def made(x: Any) -> Any:
        return x.at(lambda e: e[0], lateness=50).key_by(lambda e: e[1] % 40 * 2**40)

    p = pipeline(lambda a, b: join(made(a), made(b), within=(-near, 2)), a=tuple[int, int], b=tuple[int, int])
    rows = [list(zip(t.tolist(), v.tolist(), strict=True)) for t, v in sides]
    for size in (n, 3000):
        came: list[tuple[int, int, tuple[int, int]]] = []  # batch by batch, push by push, in each the left one first
        fast, found, expected = TimedEngine(p.graph), [], []
        of: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for at in range(0, n, size):
            columns = [[t[at : at + size], v[at : at + size]] for t, v in sides]
            found += fast.push_batch(Batch(len(columns[0][0]), columns, [None, None]))[0].events()
            came = [(i, s, rows[s][i]) for i in range(at, min(at + size, n)) for s in (0, 1)]
            for _, s, event in came:
                own = event[1] % 40
                there = of.get((1 - s, own), [])
                low, high = (-near, 2) if s == 0 else (-2, near)
                partners = sorted(e for e in there if low <= e[0] - event[0] <= high)
                expected += [(event, e) if s == 0 else (e, event) for e in partners]
                of[s, own] = [*(e for e in of.get((s, own), []) if e[0] > event[0] - 200 * apart), event]
        assert found == expected and len(found) > n


def test_positions_of_what_came_with_a_row_and_of_what_the_clock_let_out() -> None:
    p = pipeline(lambda x: merge(x.at(lambda v: v), x.at(lambda v: v).tumbling(5, count).map(lambda w: w.value)), x=int)
    engine = TimedEngine(p.graph)
    (out,) = engine.push_batch(Batch(3, [[[1, 2, 7]]]), positions=True)
    assert (out.events(), out.positions.tolist()) == ([1, 2, 7, 2], [0, 1, 2, -1])


def test_keys_that_are_given_up_after_a_timed_step() -> None:
    def make(x: Any) -> Any:
        counted = x.at(lambda v: v).tumbling(3, count)
        return counted.key_by(lambda w: w.value).forget(after=2).cumulate(lambda n, w: n + 1, start=0)

    p = pipeline(make, x=int)
    said = agrees(p, [[1, 2, 4, 7, 8], [10, 11, 13, 16, 17], [19, 22, 23]])
    assert said[-1] and p.why_plain is None


def test_why_a_part_is_called_in_plain_python() -> None:
    names: Any = lambda w: w.map(lambda v: hash((v, 1)) * 0, to=int, id="name")
    p = pipeline(lambda x: x.at(lambda v: v).tumbling(5, names, id="w"), x=int)
    assert p.why_plain is not None and p.why_plain.startswith("step 'name' (map") and "hash()" in p.why_plain
    assert p([1, 2, 7]) == [(0, 5, 0), (5, 10, 0)]
    with pytest.raises(UsageError, match="cannot be compiled"):
        p.engine(mode="numba")


def test_texts_of_two_tables_are_joined() -> None:
    kind = type_of(str)
    parts = [
        Output("out", kind, [Strings(np.array([0, 1]), ["a", "b"])]),
        Output("out", kind, [Strings(np.array([0]), ["c"])]),
    ]
    assert joined(parts).events() == ["a", "b", "c"]


def test_both_keys_of_a_kernel() -> None:
    """Where a key comes with the data, what is under a key_by has both."""
    from pellucid.internal.engine.kernel.engine import Engine

    p = pipeline(lambda x: x.key_by(lambda v: v % 3).cumulate(lambda t, v: t + v, start=0), x=int)
    for mode in ("python", "numba"):
        engine = Engine(p.graph, key=STR, mode=mode)
        batch = Batch(4, [[[1, 2, 4, 5]]], [None], [columns_of(STR, ["a", "b", "a", "a"])])
        (out,) = engine.push_batch(batch, positions=True)
        assert out.keys is not None and out.inner is not None
        assert list(out.inner[0]) == [1, 2, 1, 2]


def test_what_is_kept_is_nobody_elses() -> None:
    """Who pushed an array, or got one, may write into it; who has a table of texts may change it."""
    p = pipeline(lambda x: ((y := x.at(lambda v: v, lateness=9)), y.tumbling(10, lambda w: w)), x=int)
    engine = TimedEngine(p.graph)
    given = np.array([1, 2, 3])
    out = engine.push(given)["out1"]
    given[:] = out[:] = 99
    assert engine.finish()["out2"] == [(0, 10, 3)]
    texts = ["a", "b"]
    named = pipeline(lambda x: x.at(lambda e: e[0]).dedup(within=0, by=lambda e: e[1]), x=tuple[int, str])
    engine = TimedEngine(named.graph)
    for t in (1, 2):
        engine.push_batch(Batch(2, [[np.array([t, t]), Strings(np.array([0, 1]), texts)]]))
        texts[0] = "c"
    assert engine.finish() == [(2, "b"), (2, "c")]


def test_a_batch_without_the_keys_of_its_events() -> None:
    engine = TimedEngine(counted(5).graph, key=INT)
    with pytest.raises(UsageError, match="runs per key here, but the batch has no key columns"):
        engine.push_batch(Batch(1, [[[1]]]))
    with pytest.raises(UsageError, match="has no source 'y': it has x"):
        engine.idle("y")


# What random cases against independent rules have found.


class Keyed(NamedTuple):
    t: int
    k: str


class KeyedMoment(NamedTuple):
    t: Annotated[datetime, UTC]
    k: str


def counted_all(x: Any) -> Any:
    return x.cumulate(lambda n, e: n + 1, start=0)


def test_a_table_that_is_idle_holds_nobody_back() -> None:
    def known(x: Any, y: Any) -> Any:
        table = y.at("t", lateness=8, idle=timedelta(seconds=1)).key_by(lambda e: e.k)
        return lookup(x.at("t").key_by(lambda e: e.k), table).map(lambda pair: (pair[0].t, pair[1].t))

    engine = pipeline(known, x=Keyed, y=Keyed).engine()
    assert engine.push(x=[Keyed(-3, "c"), silent], y=[silent, Keyed(1, "b")]) == []
    engine.idle("y")
    assert engine.push(x=[], y=[]) == []
    assert engine.push(x=[Keyed(-1, "b")], y=[silent]) == [(-3, None)]


def test_days_of_a_zone_without_rows() -> None:
    p = pipeline(lambda x: x.at("t").tumbling(timedelta(days=1), counted_all, tz="America/New_York"), x=KeyedMoment)
    engine = p.engine()
    assert p([]) == engine.push([]) == []
    assert engine.push([KeyedMoment(datetime(2024, 3, 10, 12, tzinfo=UTC), "a")]) == []
    assert engine.finish() == [(datetime(2024, 3, 10, 5, tzinfo=UTC), datetime(2024, 3, 11, 4, tzinfo=UTC), 1)]


def test_joins_at_the_ends_of_64_bits() -> None:
    def pairs(low: int, high: int, x: list[int], y: list[int]) -> Any:
        p = pipeline(lambda a, b: join(a.at(lambda v: v), b.at(lambda v: v), within=(low, high)), a=int, b=int)
        return p(x, y)

    assert pairs(4, MOST, [MOST], [MOST]) == []
    assert pairs(-3, -3, [LEAST + 1], [LEAST]) == []
    assert pairs(0, 0, [LEAST, MOST], [LEAST, MOST]) == [(LEAST, LEAST), (MOST, MOST)]
