"""The engine over columns: days of time zones, the ends of 64 bits, errors, states, memory, and many rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

from pellucid import Stream, as_of, join, merge, pipeline
from pellucid.errors import PellucidError, StateError, UsageError
from pellucid.internal.data.columns import Batch, Output, Strings, columns_of
from pellucid.internal.engine.kernel.pieces import joined
from pellucid.internal.engine.timed import engine as engine_module
from pellucid.internal.engine.timed.columns import order, windows
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.running import LiteralEngine
from pellucid.internal.expr.types import INT, STR, type_of
from pellucid.internal.pipeline import Pipeline
from tests.engine.timed.test_columns_agree import agree
from tests.seeds import seeds


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
