"""What waits in an engine of event time, and until when: read from what its steps would save, and nothing is changed.

A thing that waits (a window, a session, a row) has a time that must be complete before it is emitted or given up: it is
**due** once the clock of one of the step's inputs is after that.  A window [start, end) is due at end - 1, a session at
last + gap, a row of `as_of` and `dedup` at its own time, one of a join at the last time at which it could find a
partner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pellucid.errors import known
from pellucid.internal.engine.timed.clock import END
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.rows import LEAST, leaves_of
from pellucid.internal.engine.timed.steps import Step, Timers, event_at

MANY = 100_000  # different windows of a step that are looked at one by one
FEW = 3  # keys that are named


@dataclass(frozen=True)
class Kept:
    """What a step keeps of one kind.

    ``port`` is the input whose clock it waits for.  The arrays go by when it is due: the time that must be complete,
    where it starts and ends, and how many there are of it (a window of so many keys, so many rows of one time).
    ``comes``: something comes out then; otherwise it is only given up.
    """

    step: int
    what: str  # window, session, row, left row, right row, change, correction, time
    port: int
    comes: bool
    rows: int
    due: Any
    start: Any
    end: Any
    many: Any
    count: int  # of all; more than the arrays have, where there are too many
    keys: int | None = None
    few: tuple[tuple[str, int, int], ...] = ()  # keys, each with the start and the end of what is due first

    def __len__(self) -> int:
        return len(self.due)


def kept_in(engines: Sequence[TimedEngine]) -> list[Kept]:
    """What waits in engines of one graph, each of which has some of the keys."""
    found: dict[tuple[int, str], Kept] = {}
    for engine in engines:
        for stage in engine.stages:
            if isinstance(stage, Step) and stage.op is not None:
                for kept in known(_KEPT, stage.node.kind, "what waits by event time")(engine, stage):
                    key = kept.step, kept.what
                    found[key] = kept if key not in found else _both(found[key], kept)
    return [kept for kept in found.values() if len(kept)]


def _both(a: Kept, b: Kept) -> Kept:
    columns = [np.concatenate(pair) for pair in ((a.due, b.due), (a.start, b.start), (a.end, b.end))]
    if not len(columns[0]):
        return a
    order = np.lexsort(columns[::-1])
    columns, many = [c[order] for c in columns], np.concatenate([a.many, b.many])[order]
    first = np.flatnonzero(np.append(True, np.any([c[1:] != c[:-1] for c in columns], axis=0)))
    columns, many = [c[first] for c in columns], np.add.reduceat(many, first)
    few = sorted([*a.few, *b.few], key=lambda one: (one[2], one[1], one[0]))[:FEW]
    keys = None if a.keys is None or b.keys is None else a.keys + b.keys
    return replace(
        a, rows=a.rows + b.rows, due=columns[0], start=columns[1], end=columns[2], many=many, count=a.count + b.count,
        keys=keys, few=tuple(few),
    )  # fmt: skip


# ---------------------------------------------------------------- one step


def _windows(engine: TimedEngine, stage: Step) -> list[Kept]:
    """Fixed windows: those that are open, and those that came out and may still be corrected."""
    t = stage.timing
    assert t is not None
    words, (columns,) = stage.op.saved()
    held = "since" in words
    time, key = columns[0], columns[2 if held else 1 :][: len(stage.keys)]
    spans, since = stage.op.spans, words["open"]
    out = _fixed(engine, stage, time, key, spans, since, None)
    if not held or not t.allowed or since is None:
        return [replace(out, what="window")]
    again = _fixed(engine, stage, time, key, spans, max(words["since"], LEAST), since - 1)
    return [replace(out, what="window"), replace(again, what="correction", due=again.due + t.allowed, comes=False)]


def _fixed(
    engine: TimedEngine, stage: Step, time: Any, key: list[Any], spans: Any, since: int | None, until: int | None
) -> Kept:
    """The windows with these rows, from one number to another."""
    first, last = spans.first(time), spans.last(time)
    if since is not None and since > LEAST:
        first = np.maximum(first, since)
    if until is not None:
        last = np.minimum(last, until)
    there = np.flatnonzero(first <= last)
    first, last, key = first[there], last[there], [c[there] for c in key]
    order = np.lexsort([first, *_plain(key)[::-1]]) if len(first) else there[:0]
    first, last, key = first[order], last[order], [c[order] for c in key]
    new = _changes(key, len(first))
    begin = first.copy()
    if len(begin) > 1:  # of one key, from where no row before it is
        begin[1:] = np.where(new[1:], first[1:], np.maximum(first[1:], last[:-1] + 1))
    mine = begin <= last
    begins, ends = np.sort(begin[mine]), np.sort(last[mine])
    count = int((ends - begins + 1).sum()) if len(begins) else 0
    k = _numbers(np.sort(first), np.sort(last))
    many = np.searchsorted(begins, k, side="right") - np.searchsorted(ends, k, side="left")
    start, end = spans.start(k), spans.end(k)
    heads = np.flatnonzero(new)
    firsts = [(spans.start(first[i : i + 1])[0], spans.end(first[i : i + 1])[0]) for i in _least(first[heads], heads)]
    few = [(row, int(a), int(b)) for row, (a, b) in zip(_least(first[heads], heads), firsts, strict=True)]
    return Kept(
        stage.stage.step, "window", 0, True, len(first), end - 1, start, end, many, count,
        len(heads) if stage.keys else None, _named(engine, stage, key, few),
    )  # fmt: skip


def _numbers(first: Any, last: Any) -> Any:
    """The different numbers in stretches whose ends are sorted, at most `MANY`."""
    if not len(first):
        return first
    begin = first.copy()
    begin[1:] = np.maximum(first[1:], last[:-1] + 1)
    lengths = np.maximum(last - begin + 1, 0)
    lengths = np.minimum(lengths, MANY)
    upto = int(np.searchsorted(np.cumsum(lengths), MANY)) + 1
    begin, lengths = begin[:upto], lengths[:upto]
    starts = np.cumsum(lengths) - lengths
    return (np.repeat(begin - starts, lengths) + np.arange(int(lengths.sum())))[:MANY]


def _sessions(engine: TimedEngine, stage: Step) -> list[Kept]:
    """The sessions that are open: of rows whose times are complete and of those whose are not."""
    assert stage.timing is not None and stage.timing.gap is not None
    gap, n = stage.timing.gap, len(stage.keys)
    waiting, held = stage.op.saved()[1][:2]
    time = np.concatenate([waiting[0], held[n + 1]])
    key = [np.concatenate(pair) for pair in zip(waiting[1 : 1 + n], held[:n], strict=True)]
    order = np.lexsort([time, *_plain(key)[::-1]])
    time, key = time[order], [c[order] for c in key]
    heads = _changes(key, len(time))
    new = heads.copy()
    new[1:] |= (time[1:] - time[:-1]).view(np.uint64) > np.uint64(gap)  # they rise within a key
    starts = np.flatnonzero(new)
    first, last = time[starts], time[np.append(starts[1:], len(time)) - 1] if len(starts) else time
    due, end = last + gap, last + gap + 1
    few = [(int(starts[i]), int(first[i]), int(end[i])) for i in np.argsort(due, kind="stable")[:FEW].tolist()]
    order = np.argsort(due, kind="stable")
    count = len(order)
    return [
        Kept(
            stage.stage.step, "session", 0, True, len(time), due[order], first[order], end[order],
            np.ones(count, np.int64), count, int(heads.sum()) if stage.keys else None, _named(engine, stage, key, few),
        )
    ]  # fmt: skip


def _joined(engine: TimedEngine, stage: Step) -> list[Kept]:
    """The rows that a join holds: those that come out alone if no partner comes, and those that are only given up."""
    t = stage.timing
    assert t is not None and t.low is not None and t.high is not None
    out = []
    sides = (("left row", t.high, t.how in ("left", "full")), ("right row", -t.low, t.how == "full"))
    for side, ((what, reach, alone_too), columns) in enumerate(zip(sides, stage.op.saved()[1], strict=True)):
        # What is given up already may lie there still; and a row that has found a partner does not come out alone.
        over = engine.clocks.now(stage.stage.inputs[1 - side], stage.stage.step)
        alive = _later(columns[0], reach) >= max(over, LEAST) if over < END else np.zeros(len(columns[0]), np.bool_)
        alone = alive & ~columns[-1] if alone_too else np.zeros(len(alive), np.bool_)
        rest = alive & ~alone
        for which, comes, name in ((alone, True, f"{what} without a partner"), (rest, False, what)):
            if which.any() or comes:
                rows = [c[which] for c in columns]
                out.append(_rows(engine, stage, name, 1 - side, comes, rows[0], rows[1 : 1 + len(stage.keys)], reach))
    return out


def _asked(engine: TimedEngine, stage: Step) -> list[Kept]:
    """Rows of as-of and lookup that wait for an answer, and rows of the other side that are not complete yet."""
    asked, coming, _ = stage.op.saved()[1]
    n = len(stage.keys)
    return [
        _rows(engine, stage, "row", 1, True, asked[0], asked[1 : 1 + n]),
        _rows(engine, stage, "change", 1, False, coming[0], coming[1 : 1 + n]),
    ]


def _doubled(engine: TimedEngine, stage: Step) -> list[Kept]:
    """Rows that may be the first of their kind."""
    rows = stage.op.saved()[1][0]
    return [_rows(engine, stage, "row", 0, True, rows[0], rows[1 : 1 + len(stage.keys)])]


def _timers(engine: TimedEngine, stage: Step) -> list[Kept]:
    """Rows of a task that is notified of times, and the first time that each key has asked for."""
    assert isinstance(stage, Timers)
    times, key, many = stage.asked()
    first = _rows(engine, stage, "time", 0, True, times, key)
    return [*_doubled(engine, stage), replace(first, rows=int(many.sum()))]


def _rows(
    engine: TimedEngine, stage: Step, what: str, port: int, comes: bool, time: Any, key: list[Any], reach: int = 0
) -> Kept:
    order = np.argsort(time, kind="stable")
    time, key = time[order], [c[order] for c in key]
    different, many = np.unique(time, return_counts=True)
    few: list[tuple[int, int, int]] = []
    seen = set()
    for row in range(min(len(time), 1000)):
        mine = tuple(c[row].item() for c in key)
        if mine not in seen and len(few) < FEW:
            seen.add(mine)
            few.append((row, int(time[row]), int(time[row])))
    keys = len(np.unique(np.stack(_plain(key)), axis=1)[0]) if key and len(time) else 0
    return Kept(
        stage.stage.step, what, port, comes, len(time), _later(different, reach), different, different, many,
        len(time), keys if stage.keys else None, _named(engine, stage, key, few),
    )  # fmt: skip


def _later(times: Any, by: int) -> Any:
    from pellucid.internal.engine.timed.rows import later

    return later(times, by)


def _plain(key: Sequence[Any]) -> list[Any]:
    """Columns of keys as whole numbers, equal where they are."""
    return [np.asarray(c).astype(np.int64) for c in key]


def _changes(key: Sequence[Any], n: int) -> Any:
    """Where another key begins, of rows that are sorted by it."""
    new = np.zeros(n, np.bool_)
    new[:1] = True
    for column in key:
        new[1:] |= column[1:] != column[:-1]
    return new


def _least(values: Any, rows: Any) -> list[int]:
    """The rows with the least values, a few."""
    return [int(i) for i in rows[np.argsort(values, kind="stable")[:FEW]].tolist()]


def _named(
    engine: TimedEngine, stage: Step, key: list[Any], few: Sequence[tuple[int, int, int]]
) -> tuple[tuple[str, int, int], ...]:
    """Keys as the user knows them."""
    if not stage.keys:
        return ()
    out = []
    for row, start, end in few:
        parts, at = [], 0
        for t in (engine.key, stage.node.key):
            if t is not None:
                width = len(leaves_of(t))
                value = event_at(t, key[at : at + width], row, engine.texts)
                parts.append(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
                at += width
        out.append((", ".join(parts), start, end))
    return tuple(out)


_KEPT: Mapping[str, Callable[[TimedEngine, Step], list[Kept]]] = {
    "tumbling": _windows, "sliding": _windows, "session": _sessions, "join": _joined, "as_of": _asked,
    "lookup": _asked, "dedup": _doubled, "timers": _timers, "iterate": _doubled,
}  # fmt: skip
