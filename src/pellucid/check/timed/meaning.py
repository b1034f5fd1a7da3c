"""What each timed step means on rows that are all there: written from the rules of time, and from nothing else.

A row here is (keys, time, value).  Each function takes the rows of each input, tells what comes out, as (keys, time of
the answer, value), and knows no clock: with all rows at hand nothing is late.  It is what the engine's answers are
compared with, so it uses nothing of the engines of event time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from pellucid.errors import StepError
from pellucid.internal.engine.interpreter import Interpreter, call
from pellucid.internal.engine.timed.clock import ranking
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.timed import MOST_ALONE
from pellucid.internal.graph.timing import Windowed, missing, value_of

Keys: TypeAlias = tuple[Any, Any]
Timed: TypeAlias = tuple[Keys, int, Any]  # keys, time, value

_TICK, _FIRST = timedelta(microseconds=1), datetime(1970, 1, 1, tzinfo=UTC)


def windows_of(node: Node, time: int) -> list[tuple[int, int]]:
    """The fixed windows that hold a time: every one is tried.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.at(lambda v: v).sliding(10, 4, lambda w: w, origin=1), x=int)
    >>> windows_of(p.graph.nodes[2], 12)
    [(5, 15), (9, 19)]
    """
    t = node.timing
    assert t is not None and t.size is not None and t.every is not None
    if t.tz is not None:
        return _days_of(t.tz, t.size, t.every, t.origin, time)
    k = (time - t.size - t.origin) // t.every - 1
    found = []
    while t.origin + k * t.every <= time:
        start = t.origin + k * t.every
        if start <= time < start + t.size:
            found.append((start, start + t.size))
        k += 1
    return found


def _days_of(zone: str, size: int, every: int, origin: int, time: int) -> list[tuple[int, int]]:
    """Windows of whole days of a time zone: a day begins with its first instant there."""
    day, there = 86_400_000_000, ZoneInfo(zone)
    sizes, step, first = size // day, every // day, origin // day

    def begins(d: int) -> int:
        midnight = datetime(1970, 1, 1) + timedelta(days=d)
        return int((midnight.replace(tzinfo=there, fold=0).astimezone(UTC) - _FIRST) // _TICK)

    about = time // day
    starts = [d for d in range(about - sizes - 3, about + 3) if (d - first) % step == 0]
    return [(begins(d), begins(d + sizes)) for d in starts if begins(d) <= time < begins(d + sizes)]


def answer_of(graph: Graph, node: Node, events: Sequence[tuple[int, Any]]) -> list[Any]:
    """What the sub-pipeline of a window emits last, over its events by time and then by the whole event."""
    assert node.sub is not None
    rank = ranking(graph.nodes[node.inputs[0]].type)
    run, out = Interpreter(node.sub), []
    for _, value in sorted(events, key=lambda e: (e[0], rank(e[1]))):
        out += run.push({"in": value})["out"]
    return out[-1:]


def fixed(graph: Graph, node: Node, rows: Sequence[Sequence[tuple[Keys, int, Any, Any]]]) -> list[Timed]:
    """Each window of each key that has an event, of the windows that the event counts in (the fourth of a row)."""
    clock = _clock(graph, node)
    windows: dict[tuple[Keys, int, int], list[tuple[int, Any]]] = {}
    for keys, time, value, counts in rows[0]:
        for start, end in windows_of(node, time) if counts is None else counts:
            windows.setdefault((keys, start, end), []).append((time, value))
    return [
        (keys, end - 1, Windowed(value_of(clock, start), value_of(clock, end), value))
        for (keys, start, end), events in windows.items()
        for value in answer_of(graph, node, events)
    ]


def session(graph: Graph, node: Node, rows: Sequence[Sequence[tuple[Keys, int, Any, Any]]]) -> list[Timed]:
    """Of each key, events no further apart than the gap are together."""
    assert node.timing is not None and node.timing.gap is not None
    clock, gap, out = _clock(graph, node), node.timing.gap, []
    for mine in {keys: None for keys, *_ in rows[0]}:
        events = sorted([(time, value) for keys, time, value, _ in rows[0] if keys == mine], key=lambda e: e[0])
        groups: list[list[tuple[int, Any]]] = []
        for event in events:
            if groups and event[0] - groups[-1][-1][0] <= gap:
                groups[-1].append(event)
            else:
                groups.append([event])
        for group in groups:
            first, end = group[0][0], group[-1][0] + gap + 1
            for value in answer_of(graph, node, group):
                out.append((mine, end - 1, Windowed(value_of(clock, first), value_of(clock, end), value)))
    return out


def join(graph: Graph, node: Node, rows: Sequence[Sequence[tuple[Keys, int, Any, Any]]]) -> list[Timed]:
    """All pairs of one key that are no further apart than ``within``; what has no partner, as ``how`` says."""
    t = node.timing
    assert t is not None and t.low is not None and t.high is not None
    pairs = [(a, b) for a in rows[0] for b in rows[1] if a[0] == b[0] and t.low <= b[1] - a[1] <= t.high]
    out: list[Timed] = [(a[0], max(a[1], b[1]), (a[2], b[2])) for a, b in pairs]
    kinds = node.type.items  # type: ignore[attr-defined]
    if t.how in ("left", "full"):
        alone = [a for a in rows[0] if not any(a is found for found, _ in pairs)]
        out += [(a[0], max(a[1], a[1] + t.high), (a[2], missing(kinds[1]))) for a in alone]
    if t.how == "full":
        alone = [b for b in rows[1] if not any(b is found for _, found in pairs)]
        out += [(b[0], max(b[1], b[1] - t.low), (missing(kinds[0]), b[2])) for b in alone]
    return out


def as_of(graph: Graph, node: Node, rows: Sequence[Sequence[tuple[Keys, int, Any, Any]]]) -> list[Timed]:
    """Each of the left with the latest of the right that is not after it, and not too old."""
    t = node.timing
    assert t is not None
    rank, out = ranking(graph.nodes[node.inputs[1]].type), []
    for keys, time, value, _ in rows[0]:
        before = [b for b in rows[1] if b[0] == keys and b[1] <= time and (t.within is None or time - b[1] <= t.within)]
        if before:
            out.append((keys, time, (value, max(before, key=lambda b: (b[1], rank(b[2])))[2])))
        elif t.how == "left":
            out.append((keys, time, (value, missing(node.type.items[1]))))  # type: ignore[attr-defined]
    return out


def dedup(graph: Graph, node: Node, rows: Sequence[Sequence[tuple[Keys, int, Any, Any]]]) -> list[Timed]:
    """By time, then by the whole event: kept is who has no kept one like it that is at most so much older."""
    assert node.timing is not None and node.timing.within is not None and node.fn is not None
    rank, out = ranking(node.type), []
    last: dict[Any, int] = {}
    for keys, time, value, _ in sorted(rows[0], key=lambda r: (r[1], rank(r[2]))):
        like = keys, call(node, node.fn, (value,), 0)
        if like not in last or time - last[like] > node.timing.within:
            last[like] = time
            out.append((keys, time, value))
    return out


def timers(graph: Graph, node: Node, rows: Sequence[Sequence[tuple[Keys, int, Any, Any]]]) -> list[Timed]:
    """Of each key its events by time, then by the whole event; behind those of a time the time itself, once, if it was
    asked for by then."""
    assert node.fn is not None and node.on_time is not None
    clock, rank, out = _clock(graph, node), ranking(graph.nodes[node.inputs[0]].type), []
    for mine in {keys: None for keys, *_ in rows[0]}:
        events = [(time, rank(value), value) for keys, time, value, _ in rows[0] if keys == mine]
        events.sort(key=lambda e: e[:2])
        state, asked, alone = copy.deepcopy(node.start), set[int](), 0
        while events or asked:
            told = not events or (bool(asked) and min(asked) < events[0][0])
            alone = alone + 1 if told else 0
            if told:
                time = min(asked)
                asked.remove(time)
                state, put, more = call(node, node.on_time, (state, value_of(clock, time)), 0)
            else:
                time, _, value = events.pop(0)
                state, put, more = call(node, node.fn, (state, value), 0)
            out += [(mine, time, value) for value in put]
            times = {int(t) for (t,) in map(clock.flatten, more)}
            if any(t < time or (told and t == time) for t in times) or alone > MOST_ALONE:
                raise StepError(f"{node.describe()} asks for a time that is over, or has no end", step=node.id)
            asked |= times
    return out


#: What each kind means; of a kind that is not here nothing can be said.
MEANING: dict[str, Callable[..., list[Timed]]] = {
    "tumbling": fixed, "sliding": fixed, "session": session, "join": join, "as_of": as_of, "lookup": as_of,
    "dedup": dedup, "timers": timers,
}  # fmt: skip


def _clock(graph: Graph, node: Node) -> Type:
    clock = graph.clocks[node.inputs[0]]
    assert clock is not None
    return clock
