"""Random pipelines by event time, random events for them, and random batches: out of order, doubled, gappy, late."""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from pellucid import Stream, as_of, iterate, join, lookup, merge, pipeline
from pellucid.internal.data.columns import Batch, columns_of
from pellucid.internal.expr.types import Type, type_of
from pellucid.internal.graph.model import Graph
from pellucid.internal.pipeline import Pipeline


class Colour(enum.Enum):
    """In an order that is not that of the letters."""

    RED = "r"
    BLUE = "b"
    GREEN = "g"


class Event(NamedTuple):
    """An event with a leaf of every kind."""

    t: int
    user: str | None
    n: int
    x: float | None
    colour: Colour
    on: bool


USERS = [None, "", "ada", "Zoë", "\U0001d7d8", "￿", "b"]
FLOATS = [None, 0.0, -0.0, 0.1, 1e300, -2.5, math.inf]


def event(rng: random.Random, t: int) -> Event:
    """An event of this time; few values, so that many are equal."""
    return Event(
        t, rng.choice(USERS), rng.randrange(-2, 3), rng.choice(FLOATS), rng.choice(list(Colour)), rng.random() < 0.5
    )


def _opaque(total: int, e: Event) -> int:
    return hash((total, e.n, "RED" == e.colour.name)) % 1000 if total >= 0 else int(str(total))


# What depends on the order of a window's events, and what does not put out anything for some.
SUBS: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "count": lambda w: w.cumulate(lambda n, e: n + 1, start=0),
    "fold": lambda w: w.cumulate(lambda h, e: (h * 31 + e.n + 7) % 1000003, start=1),
    "floats": lambda w: w.cumulate(lambda s, e: s * 0.5 + (e.x if e.x is not None else 3.0), start=0.0),
    "some": lambda w: w.filter(lambda e: e.n > 0).map(lambda e: e.n * 2),
    "whole": lambda w: w,
    "third": lambda w: w.trim(2).map(lambda e: e.user),
    "apart": lambda w: w.key_by(lambda e: e.on).cumulate(lambda n, e: n + e.n, start=0),
    "pairs": lambda w: w.lag(1).map(lambda p: p[0].n - p[1].n),
    "named": lambda w: w.cumulate(lambda s, e: e.user if e.user is not None else s, start="?"),
    "opaque": lambda w: w.cumulate(_opaque, start=0, to=int),
    "forgets": lambda w: w.key_by(lambda e: e.n).forget(after=2).cumulate(lambda n, e: n + 1, start=0),
}
KEYS: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "": lambda x: x,
    "user": lambda x: x.key_by(lambda e: e.user),
    "n": lambda x: x.key_by(lambda e: e.n),
    "both": lambda x: x.key_by(lambda e: (e.colour, e.n)),
    "wide": lambda x: x.key_by(lambda e: e.n * 10**17),
    "on": lambda x: x.key_by(lambda e: e.on),
}
BEFORE: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "": lambda x: x,
    "filter": lambda x: x.filter(lambda e: e.n != 1),
    "half": lambda x: x.decimate(2),
    "twice": lambda x: x.explode(lambda e: [e, e]),
}


def _counts(seen: dict[int, int], e: Event) -> tuple[dict[int, int], list[int], list[int]]:
    seen[e.n] = seen.get(e.n, 0) + 1  # a state that is any object, and changed in its place
    return seen, [seen[e.n]], [e.t + 2]


def _gone(seen: dict[int, int], t: int) -> tuple[dict[int, int], list[int], list[int]]:
    return {}, [sum(seen.values()), t], []


# Tasks that are told of times: a start, both functions, and more.
TASKS: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "silence": (0, lambda s, e: (e.t, [], [e.t + 4]), lambda s, t: (s, [t - s], []), {}),
    "beats": (
        1,
        lambda s, e: (2, [e.n], [e.t + 3, e.t]),
        lambda s, t: (s - 1, [s, -s], [t + 5] if s > 0 else []),
        {},
    ),
    "floats": (
        0.0,
        lambda s, e: (s * 0.5 + (e.x if e.x is not None else 3.0), [s], [e.t + 2]),
        lambda s, t: (0.0, [s], []),
        {},
    ),
    "named": (None, lambda s, e: (e.user, [], [e.t + 1]), lambda s, t: (None, [s], []), {"to": str | None}),
    "whole": (False, lambda s, e: (e.on, [e, e] if s else [e], [e.t + 6]), lambda s, t: (not s, [], []), {}),
    "object": ({}, _counts, _gone, {}),
    "opaque": (
        0,
        lambda s, e: (_opaque(s, e), [str(s)], list(range(e.t, e.t + abs(e.n)))),
        lambda s, t: (s + 1, [repr(t)], []),
        {"to": str},
    ),
}


def windows(
    rng: random.Random, x: Stream[Any], sub: Any, late: str, allowed: int = 0, early: Any = None
) -> Stream[Any]:
    """Windows of one of the kinds."""
    kind = rng.choice(["tumbling", "sliding", "session"])
    if kind == "session":
        return x.session(rng.choice([1, 3, 6]), sub, late=late, early=early)
    more = {"late": late, "allowed_lateness": allowed, "early": early}
    if kind == "tumbling":
        return x.tumbling(rng.choice([1, 3, 10]), sub, origin=rng.choice([None, -3, 7]), **more)
    size = rng.choice([2, 5, 10])
    return x.sliding(size, rng.randint(1, size), sub, origin=rng.choice([None, 2]), **more)


def one(rng: random.Random, only: str | None = None) -> Callable[[Stream[Any]], Any]:
    """A pipeline of one source; only of a kind, if one is said."""
    key, first, name = rng.choice(list(KEYS)), rng.choice(list(BEFORE)), rng.choice(list(SUBS))
    late, lateness = rng.choice(["fail", "drop", "take", "take"]), rng.choice([0, 0, 2, 8])
    kind = rng.choice(["windows", "windows", "windows", "dedup", "twice", "timers", "timers"])
    kind, task = only or kind, rng.choice(list(TASKS))
    by, within = rng.choice([lambda e: e.n, lambda e: (e.user, e.on), None]), rng.choice([0, 2, 7])
    if by is None:
        by = lambda e: (e.t // 4, e.n)  # not floats
    allowed, early = rng.choice([0, 0, 3, 12]), rng.choice([None, "event", 4])
    allowed = 0 if kind == "twice" else allowed
    seed = rng.random()

    def build(x: Stream[Any]) -> Any:
        again = random.Random(seed)
        timed = KEYS[key](BEFORE[first](x.at(lambda e: e.t, lateness=lateness)))
        said = "fail" if late == "take" else late
        if kind == "dedup":
            w = timed.dedup(by=by, within=within, late=said)
        elif kind == "timers":
            start, f, g, more = TASKS[task]
            w = timed.task(f, start, on_time=g, late=said, **more)
        else:
            w = windows(again, timed, SUBS[name], said, allowed, early)
        out = w
        if kind == "twice":
            out = windows(again, w.map(lambda a: a.end - a.start), SUBS["count"], "fail")
        elif kind == "timers" and early is not None:  # what it puts out has times
            out = windows(again, w, SUBS["count"], "fail")
        tells = early and kind not in ("dedup", "timers")
        found = [out, *([w.late] if late == "take" else []), *([w.early] if tells else [])]
        return tuple(found) if len(found) > 1 else out

    return build


def two(rng: random.Random) -> Callable[[Stream[Any], Stream[Any]], Any]:
    """A pipeline of two sources."""
    key = rng.choice(list(KEYS))
    late, how = rng.choice(["fail", "drop", "take", "take"]), rng.choice(["inner", "left", "full"])
    kind = rng.choice(["join", "join", "as_of", "lookup", "merge", "self"])
    low = rng.choice([-5, -2, 0, 1])
    high = low + rng.choice([0, 2, 6])
    within, late_a, late_b = rng.choice([None, 0, 3]), rng.choice([0, 2, 8]), rng.choice([0, 2, 8])
    after, seed = rng.random() < 0.3, rng.random()
    allowed, early = (0 if after else rng.choice([0, 5])), rng.choice([None, None, "event", 6])

    def build(x: Stream[Any], y: Stream[Any]) -> Any:
        again = random.Random(seed)
        said = "fail" if late == "take" else late
        a = KEYS[key](x.at(lambda e: e.t, lateness=late_a))
        b = KEYS[key](y.at(lambda e: e.t, lateness=late_b, idle=__import__("datetime").timedelta(hours=1)))
        if kind == "join":
            w = join(a, b, within=(low, high), how=how, late=said)
        elif kind == "self":
            both = merge(a, b)
            w = join(both, both.filter(lambda e: e.on), within=(low, high), how=how, late=said)
        elif kind == "as_of":
            w = as_of(a, b, within=within, how="inner" if how == "inner" else "left", late=said)
        elif kind == "lookup":
            w = (lookup if key else as_of)(a, b, late=said)
        else:
            w = windows(again, merge(a, b), SUBS["fold"], said, allowed, early)
        out = w
        if after:
            out = windows(again, w.map(lambda p: 1), lambda s: s.cumulate(lambda n, v: n + v, start=0), "drop")
        found = [out, *([w.late] if late == "take" else []), *([w.early] if early and kind == "merge" else [])]
        return tuple(found) if len(found) > 1 else out

    return build


def drawn(rng: random.Random) -> tuple[Pipeline, int]:
    """A pipeline, and how many sources it has."""
    if rng.random() < 0.5:
        return pipeline(one(rng), x=Event), 1
    return pipeline(two(rng), x=Event, y=Event), 2


def with_timers(rng: random.Random) -> tuple[Pipeline, int]:
    """A pipeline with a task that is told of times."""
    return pipeline(one(rng, "timers"), x=Event), 1


def times(rng: random.Random, count: int) -> list[int]:
    """Times that rise, more or less; with gaps, and with many that are equal."""
    now, out = rng.randint(-20, 20), []
    spread = rng.choice([0, 1, 4, 15])
    for _ in range(count):
        now += rng.choice([0, 0, 1, 1, 2, rng.choice([0, 0, 25])])
        out.append(now - rng.randint(0, spread))
    return out


def batches(rng: random.Random, graph: Graph, key: Type | None, count: int) -> list[Batch]:
    """Events for each source, cut into batches, some of them empty; a source may be silent."""
    columns, masks, keys = [], [], []
    of = [rng.choice(["u", "v", ""]) for _ in range(count)]
    for _ in graph.sources:
        columns.append([event(rng, t) for t in times(rng, count)])
        here = rng.choice([1.0, 0.7, 0.3])
        masks.append([len(graph.sources) == 1 or rng.random() < here for _ in range(count)])
        keys.append(of)
    out, at = [], 0
    kind = type_of(Event)
    while at < count:
        stop = min(count, at + rng.choice([0, 1, 1, 2, 5, 20, count]))
        out.append(
            Batch(
                stop - at,
                [columns_of(kind, c[at:stop]) for c in columns],
                [None if len(graph.sources) == 1 else m[at:stop] for m in masks],
                [columns_of(key, k[at:stop]) for k in keys] if key is not None else None,
            )
        )
        at = stop
    return out


# Random pipelines with loops, over the events of `tests.engine.timed.drawn`: with and without times and keys, nested,
# to a bound, with sums of a round, with state, and some that fail.

NOBODY = Event(0, None, 0, None, Colour.RED, False)


def less(e: Event, by: int = 1) -> Event:
    return Event(e.t, e.user, e.n - by, e.x, e.colour, e.on)


def down(x: Stream[Event]) -> Any:
    """All smaller ones, as they come."""
    return x.filter(lambda e: e.n > -2).map(less), x.map(lambda e: (e.n, e.user))


def settle(x: Stream[Event]) -> Any:
    """What comes to rest."""
    return x.map(lambda e: less(e) if e.n > 0 else less(e, -1) if e.n < 0 else e)


def changes(x: Stream[Event]) -> Any:
    """The least number of each user, and of the users behind; it remembers."""

    def hear(least: int, e: Event) -> tuple[int, list[Event]]:
        return (e.n, [e]) if e.n < least else (least, [])

    new = x.key_by(lambda e: e.user).task(hear, initial=2, to=Event)
    return new.map(lambda e: Event(e.t, "ada" if e.user is None else None, e.n - 1, e.x, e.colour, e.on)).filter(
        lambda e: e.n > -6
    ), new.map(lambda e: (e.n, e.user))


def order(x: Stream[Event]) -> Any:
    """What depends on the order of everything that ever went round."""
    seen = x.cumulate(lambda h, e: (h * 31 + e.n + 7) % 1000003, start=1)
    return x.filter(lambda e: e.n > 0).map(less), seen


def sums(x: Stream[Event]) -> Any:
    """Sums of a round, which depend on its order."""

    def fold(w: Stream[Event]) -> Stream[Event]:
        return w.cumulate(
            lambda a, e: Event(e.t, e.user, (a.n * 3 + e.n) % 7 - 3, e.x, e.colour, a.on or e.on),
            start=NOBODY,
            to=Event,
        )

    return x.key_by(lambda e: (e.on, e.n % 2)).each_round(fold)


def nested(x: Stream[Event]) -> Any:
    """A loop in a loop: what comes to rest, one lower each time."""
    rest = iterate(x, settle, limit=50)
    return rest.decimate(2).filter(lambda e: e.n == 0 and e.on).map(
        lambda e: Event(e.t, e.user, 2, e.x, e.colour, False)
    ), rest.map(lambda e: (e.n, e.user))


def alternating(x: Stream[Event]) -> Any:
    return x.map(lambda e: Event(e.t, e.user, -e.n, e.x, e.colour, not e.on))


def divides(x: Stream[Event]) -> Any:
    return x.filter(lambda e: 10 // (e.n - 1) < 3).map(less), x.map(lambda e: e.n)


BODIES: dict[str, tuple[Callable[[Stream[Event]], Any], dict[str, int]]] = {
    "down": (down, {"limit": 20}),
    "settle": (settle, {}),
    "changes": (changes, {"limit": 40}),
    "order": (order, {}),
    "sums": (sums, {"rounds": 3}),
    "nested": (nested, {"limit": 60}),
    "to a bound": (alternating, {"rounds": 3}),
    "never ends": (alternating, {"limit": 7}),
    "cut short": (down, {"rounds": 2}),
    "fails": (divides, {}),
}


def drawn_loop(rng: random.Random, *, timed: bool | None = None, keyed: bool = True) -> Pipeline:
    """A pipeline of one source with a loop."""
    names = list(BODIES) if rng.random() < 0.2 else [n for n in BODIES if n not in ("never ends", "fails")]
    name, first = rng.choice(names), rng.choice(list(BEFORE))
    key = rng.choice(list(KEYS)) if keyed and name != "fails" else ""
    timed = rng.random() < 0.7 if timed is None else timed
    late, lateness = rng.choice(["fail", "drop", "take", "take"]), rng.choice([0, 2, 8, 60])
    after = rng.choice(["", "count", "window"])
    body, said = BODIES[name]

    def build(x: Stream[Any]) -> Any:
        x = x.at(lambda e: e.t, lateness=lateness) if timed else x
        x = KEYS[key](BEFORE[first](x))
        w = iterate(x, body, late="drop" if late == "drop" else "fail", id="loop", **said)
        out = w
        if after == "count":
            out = w.cumulate(lambda n, e: n + 1, start=0)
        elif after == "window" and timed:
            out = w.map(lambda e: 1).tumbling(5, lambda s: s.cumulate(lambda n, v: n + v, start=0), late="drop")
        return (out, w.late) if late == "take" and timed else out

    return pipeline(build, x=Event)
