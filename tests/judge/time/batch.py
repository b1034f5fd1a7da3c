"""What the same steps mean for a finite table: definitions over all rows at once, without clock, arrival or batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from tests.judge.time.canonical import canonical
from tests.judge.time.rules import Fold, Row, Task, Windowed, in_order

__all__ = ["as_of", "dedup", "join", "sessions", "timers", "windows"]


def windows(pairs: Iterable[tuple[Row, tuple[int, int]]], fold: Fold) -> list[Row]:
    """Rows with a window each (a row may come with several)."""
    groups = defaultdict(list)
    for row, (start, end) in pairs:
        groups[row.key, start, end].append(row)
    return _folded(groups, fold)


def sessions(rows: Iterable[Row], gap: int, fold: Fold) -> list[Row]:
    """A session begins where the row before, of its key, is more than a gap away."""
    groups = defaultdict(list)
    by_key = defaultdict(list)
    for row in rows:
        by_key[row.key].append(row)
    for key, its in by_key.items():
        its.sort(key=lambda row: row.time)
        cuts = [i for i, row in enumerate(its) if i == 0 or row.time - its[i - 1].time > gap] + [len(its)]
        for i, j in pairwise(cuts):
            groups[key, its[i].time, its[j - 1].time + gap + 1] = its[i:j]
    return _folded(groups, fold)


def _folded(groups: dict[tuple[Any, int, int], list[Row]], fold: Fold) -> list[Row]:
    found = []
    for (key, start, end), rows in groups.items():
        found += [
            Row(end - 1, key, Windowed(start, end, last)) for last in fold([r.value for r in in_order(rows)])[-1:]
        ]
    return found


def join(a: list[Row], b: list[Row], lo: int, hi: int, how: str) -> list[Row]:
    def fit(x: Row, y: Row) -> bool:
        return bool(x.key == y.key) and lo <= y.time - x.time <= hi

    found = [Row(max(x.time, y.time), x.key, (x.value, y.value)) for x in a for y in b if fit(x, y)]
    if how in ("left", "full"):
        found += [Row(max(x.time, x.time + hi), x.key, (x.value, None)) for x in a if not any(fit(x, y) for y in b)]
    if how == "full":
        found += [Row(max(y.time, y.time - lo), y.key, (None, y.value)) for y in b if not any(fit(x, y) for x in a)]
    return found


def as_of(a: list[Row], b: list[Row], within: int | None, how: str) -> list[Row]:
    found = []
    for x in a:
        fit = [y for y in b if y.key == x.key and y.time <= x.time and (within is None or x.time - y.time <= within)]
        best = max(fit, key=lambda y: (y.time, canonical(y.value)), default=None)
        if best is not None or how == "left":
            found.append(Row(x.time, x.key, (x.value, None if best is None else best.value)))
    return found


def timers(rows: list[Row], start: Any, on_row: Task, on_time: Task) -> list[Row]:
    """Key by key, time by time: the rows of it, and if it was asked for the news of it."""
    found = []
    for key in {row.key for row in rows}:
        mine = [row for row in rows if row.key == key]
        state, times, over = start, {row.time for row in mine}, set()
        asked: set[int] = set()
        while times - over:
            time = min(times - over)
            over.add(time)
            for row in in_order(row for row in mine if row.time == time):
                state, events, more = on_row(state, row)
                asked |= set(more)
                found += [Row(time, key, event) for event in events]
            if time in asked:
                state, events, more = on_time(state, time)
                asked |= set(more)
                found += [Row(time, key, event) for event in events]
            times |= asked
    return found


def dedup(rows: list[Row], by: Callable[[Any], Any], within: int) -> list[Row]:
    kept: list[Row] = []
    for row in in_order(rows):
        mine = (row.key, by(row.value))
        if not any((one.key, by(one.value)) == mine and 0 <= row.time - one.time <= within for one in kept):
            kept.append(row)
    return kept
