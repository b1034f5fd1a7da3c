"""Random pipelines with loops, over the events of `tests.engine.timed.drawn`: with and without times and keys, nested,
to a bound, with sums of a round, with state, and some that fail."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pellucid import Stream, iterate, pipeline
from pellucid.internal.pipeline import Pipeline
from tests.engine.timed.drawn import BEFORE, KEYS, Colour, Event

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
