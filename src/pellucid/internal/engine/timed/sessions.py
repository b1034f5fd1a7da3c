"""Session windows over columns: events of a key at most a gap apart are together.

A row waits until its time is complete.  Then the rows of a key, by time, fall into sessions; the last may go on, and is
held open: its first and last time by the number of its key, its rows in a log, in stretches that are linked.  What
comes behind the clock is taken only inside such a session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.internal.engine.timed.plan import Timed
from pellucid.internal.engine.timed.rows import LEAST, Failed, Inner, Kinds, Rows, Texts, Waiting, behind, later
from pellucid.internal.engine.timed.sorting import Keys, by_key_and_time, canonical, changes, longer, numbers, order_by
from pellucid.internal.engine.timed.steps import Flow, LateRows, Run
from pellucid.internal.engine.timed.windows import Answers, WindowFailed, Windows, all_of
from pellucid.internal.expr.types import INT

_SOME = 1 << 12
_DENSE = 4  # keys for each row of a batch, up to which all of them are looked at


@dataclass
class _Part:
    """Sessions that are over: their rows, an order by session and time, where each begins in that, its first and last
    time."""

    rows: Rows
    order: Any
    starts: Any
    first: Any
    last: Any
    by_key: bool = False  # sessions come in the canonical order of keys


class Sessions:
    """Sessions of each key.

    >>> from pellucid import pipeline
    >>> from pellucid.internal.expr.types import INT
    >>> texts, total = Texts(), pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> sessions = Sessions(5, Inner(total.graph, texts), Kinds.of(None, INT), texts)
    >>> len(sessions.take(Rows(np.array([1, 4, 20]), [], [np.array([1, 2, 3])]), None))
    0
    >>> found = sessions.close(10)
    >>> found.start.tolist(), found.end.tolist(), found.value[0].tolist()
    ([1], [10], [3])
    """

    so_far: Answers | None = None  # the running answers, where they are asked for

    def __init__(self, gap: int, inner: Inner, kinds: Kinds, texts: Texts) -> None:
        self.gap, self.inner, self.kinds, self.texts = gap, inner, kinds, texts
        self._rows = Waiting(kinds.arrays)
        self._start()

    def _start(self) -> None:
        """No session is held open."""
        self._keys = Keys(self.kinds.key)
        self._first, self._last, self._tail = (np.zeros(16, np.int64) for _ in range(3))
        self._held = np.zeros(16, np.bool_)  # by the number of the key
        self._holds = 0
        # last + gap, the key's number, last: of a last that may have moved.  None: all that are held are looked at.
        self._ends: Waiting | None = None
        self._log = _Log([np.dtype(np.int64), *self.kinds.arrays[len(self.kinds.key) :]])

    def __len__(self) -> int:
        return len(self._rows) + self._log.live

    def take(self, rows: Rows, clock: int | None) -> LateRows:
        """Judge a batch by the clock, and keep the rows that are not late."""
        none = np.zeros(0, np.int64)
        if clock is None or not len(rows) or int(rows.time.min()) >= clock:
            self._rows.add(rows.time, rows.columns())
            return LateRows(none, none, none)
        before = rows.time < clock
        behind_it = np.flatnonzero(before)
        old = rows.at(behind_it)
        key = self._keys.of(old.key, len(old), add=False)
        here = key >= 0
        here[here] = self._held[key[here]] & (self._first[key[here]] <= old.time[here])
        self._join(key[here], old.at(here))
        rest = rows.at(~before)
        self._rows.add(rest.time, rest.columns())
        which = behind_it[~here]
        times = rows.time[which]
        return LateRows(which, times, later(later(times, self.gap), 1))

    def _join(self, key: Any, rows: Rows) -> None:
        """Add rows to sessions that are held open, inside of them."""
        if not len(rows):
            return
        order = order_by([key])
        key, rows = key[order], rows.at(order)
        starts = np.flatnonzero(changes([key], len(key)))
        self._extend(key[starts], rows, starts)

    def _extend(self, of: Any, rows: Rows, starts: Any) -> None:
        """Add rows to the sessions of these keys, each of which has those from one start to the next."""
        self._tail[of] = self._log.add([rows.time, *rows.value], starts, self._tail[of])
        latest = np.maximum.reduceat(rows.time, starts)
        moved = latest > self._last[of]
        self._last[of] = np.maximum(latest, self._last[of])
        self._due(of[moved])

    def _due(self, keys: Any) -> None:
        if self._ends is not None:
            last = self._last[keys]
            self._ends.add(later(last, self.gap), [keys, last])

    def _look(self, rows: int) -> None:
        """Choose how sessions that are over are found, for a batch of so many rows: where keys are few beside them, by
        looking at all; else they wait in the order in which they end, so that a small batch costs no more than it
        brings."""
        if self._keys.count <= max(_SOME, _DENSE * rows):
            self._ends = None
        elif self._ends is None:
            self._ends = Waiting([np.int64, np.int64])
            self._due(np.flatnonzero(self._held))

    def _ended(self, limit: int | None) -> Any:
        """The numbers of the keys whose sessions are over, rising."""
        if self._ends is None:
            key = np.flatnonzero(self._held)
            return key if limit is None or not len(key) else key[later(self._last[key], self.gap) <= limit]
        _, key, last = self._ends.take(limit)
        return np.unique(key[self._held[key] & (self._last[key] == last)])

    def close(self, clock: int | None, tells: bool = False) -> Answers:
        """The answers of the sessions that the clock closes."""
        limit = None if clock is None else clock - 1  # closed just if last + gap is before the clock
        columns = self._rows.take(limit)
        rows = Rows.made(columns[0], columns[1:], len(self.kinds.key))
        self._look(len(rows) if limit is not None else self._keys.count)  # at the end all of them are over
        found = [*(self._fall(rows, limit) if len(rows) else []), *self._over(limit)]
        return self._ordered([self._answers(part) for part in found], len(found) == 1 and found[0].by_key)

    def _answers(self, part: _Part) -> Answers:
        try:
            answered, values = self.inner.last(part.starts, part.rows.value, part.order)
        except Failed as failed:
            first, last = int(part.first[failed.group]), int(part.last[failed.group])
            raise WindowFailed(first, last + self.gap + 1, failed.error) from None
        at = part.order[part.starts[answered]]
        return Answers(
            [c[at] for c in part.rows.key], part.first[answered], part.last[answered] + (self.gap + 1), values
        )

    def _ordered(self, parts: list[Answers], by_key: bool) -> Answers:
        """By end and key; where they come by key already, sorting by the end keeps that."""
        if not parts:
            none = np.zeros(0, np.int64)
            return Answers(self.kinds.none().key, none, none, [np.zeros(0, c) for c in self.inner.kinds])
        found = all_of(parts)
        if not len(found):
            return found
        words: list[Any] = []
        if not by_key:
            words = [numbers(t, c, self.texts) for t, c in zip(self.kinds.key, found.key, strict=True)]
        order = order_by([found.end, *words])
        return Answers(
            [c[order] for c in found.key], found.start[order], found.end[order], [c[order] for c in found.value]
        )

    def _fall(self, rows: Rows, limit: int | None) -> list[_Part]:
        """Rows whose times are complete fall into sessions; what is closed already among them."""
        words = [numbers(t, c, self.texts) for t, c in zip(self.kinds.key, rows.key, strict=True)]
        order, new_key, times = by_key_and_time(words, rows.time, self.kinds.value, rows.value, self.texts)
        n = len(rows)
        new = new_key.copy()
        # Times rise within a key, so a difference is right as a number without sign, however far apart they are.
        new[1:] |= (times[1:] - times[:-1]).view(np.uint64) > np.uint64(self.gap)
        starts = np.flatnonzero(new)
        ends = np.append(starts[1:], n)
        first, last = times[starts], times[ends - 1]
        goes_on = np.zeros(len(starts), np.bool_)
        if limit is not None:  # the last session of a key may go on
            goes_on = np.append(new_key[starts[1:]], True) & (later(last, self.gap) > limit)
        joined = np.zeros(len(starts), np.bool_)
        if self._holds:
            begins = np.flatnonzero(new_key[starts])
            at = order[starts[begins]]
            key = self._keys.of([c[at] for c in rows.key], len(at), add=False)
            near = key >= 0
            of = key[near]
            since = (rows.time[at[near]] - self._last[of]).view(np.uint64)
            near[near] = self._held[of] & (since <= np.uint64(self.gap))
            joined[begins[near]] = True
            if near.any():
                which = begins[near]
                some = rows.at(order[_stretch(starts[which], ends[which])])
                lengths = (ends - starts)[which]
                self._extend(key[near], some, np.cumsum(lengths) - lengths)
        hold = np.flatnonzero(goes_on & ~joined)
        done = ~(goes_on | joined)
        out = []
        if done.all():
            out = [_Part(rows, order, starts, first, last, True)]
        elif done.any():
            lengths = (ends - starts)[done]
            some = order[_stretch(starts[done], ends[done])]
            out = [_Part(rows, some, np.cumsum(lengths) - lengths, first[done], last[done], True)]
        if len(hold):  # a key may begin a session while its former one is closed by the same clock
            out += self._over(limit)
            lengths = (ends - starts)[hold]
            fresh = rows.at(order[_stretch(starts[hold], ends[hold])])
            self._hold(fresh, np.cumsum(lengths) - lengths)
        return out

    def _hold(self, rows: Rows, starts: Any) -> None:
        """Hold sessions open, one for each key that begins at these rows."""
        key = self._keys.of([c[starts] for c in rows.key], len(starts))
        size = self._keys.count
        self._first, self._last = longer(self._first, size), longer(self._last, size)
        self._tail, self._held = longer(self._tail, size), longer(self._held, size)
        self._first[key], self._held[key] = rows.time[starts], True
        self._last[key] = rows.time[np.append(starts[1:], len(rows)) - 1]
        self._tail[key] = self._log.add([rows.time, *rows.value], starts, np.full(len(starts), -1))
        self._holds += len(key)
        self._due(key)

    def _over(self, limit: int | None) -> list[_Part]:
        """The sessions that were held open and are over."""
        key = self._ended(limit)
        if not len(key):
            return []
        at, owner = self._log.rows(self._tail[key])
        columns = self._log.take(at)
        leaves = [c[key][owner] for c in self._keys.columns()]
        rows = Rows(columns[0], leaves, columns[1:])
        order = canonical([owner, rows.time], self.kinds.value, rows.value, self.texts)
        starts = np.flatnonzero(changes([owner[order]], len(owner)))
        self._held[key] = False
        self._holds -= len(key)
        out = [_Part(rows, order, starts, self._first[key], self._last[key])]
        self._tidy()
        return out

    def _tidy(self) -> None:
        """Give memory back, once more than half of it is of no use."""
        if self._log.size > 2 * self._log.live + _SOME or self._keys.count > 2 * self._holds + _SOME:
            self._restore(self._kept())

    def _kept(self) -> list[Any]:
        """The sessions that are held open: for each row its session's key and its own columns."""
        key = np.flatnonzero(self._held)
        at, owner = self._log.rows(self._tail[key])
        order = order_by([owner]) if len(owner) else owner
        return [*(c[key][owner[order]] for c in self._keys.columns()), owner[order], *self._log.copy(at[order])]

    def _restore(self, columns: list[Any]) -> None:
        self._start()
        keys = len(self.kinds.key)
        owner, rows = columns[keys], Rows(columns[keys + 1], list(columns[:keys]), list(columns[keys + 2 :]))
        if len(owner):
            order = order_by([owner, rows.time])
            self._hold(rows.at(order), np.flatnonzero(changes([owner[order]], len(owner))))

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        return [[INT, *self.kinds.key, *self.kinds.value], [*self.kinds.key, INT, INT, *self.kinds.value]]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        return {}, [self._rows.columns(), self._kept()]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self._rows.put(groups[0])
        self._restore(groups[1])


class _Log:
    """Rows in stretches, each linked to an earlier one of the same session (-1: none)."""

    def __init__(self, kinds: list[Any]) -> None:
        self._columns = [np.zeros(16, kind) for kind in kinds]
        self._starts, self._ends, self._before = (np.zeros(16, np.int64) for _ in range(3))
        self.size = self.live = self._stretches = 0

    def add(self, columns: list[Any], starts: Any, before: Any) -> Any:
        """Rows that fall into stretches at these places; the numbers of the stretches."""
        n, more = len(columns[0]), len(starts)
        for j, column in enumerate(columns):
            self._columns[j] = longer(self._columns[j], self.size + n)
            self._columns[j][self.size : self.size + n] = column
        first, stop = self._stretches, self._stretches + more
        self._starts, self._ends = longer(self._starts, stop), longer(self._ends, stop)
        self._before = longer(self._before, stop)
        self._starts[first:stop] = self.size + starts
        self._ends[first:stop] = self.size + np.append(starts[1:], n)
        self._before[first:stop] = before
        self.size += n
        self.live += n
        self._stretches = stop
        return np.arange(first, stop)

    def rows(self, tails: Any) -> tuple[Any, Any]:
        """Where the rows are that these stretches lead to, and which of them leads there."""
        at, owners, owner = [], [], np.arange(len(tails))
        while len(tails):
            at.append(tails)
            owners.append(owner)
            tails = self._before[tails]
            owner, tails = owner[tails >= 0], tails[tails >= 0]
        if not at:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        stretches, owner = np.concatenate(at), np.concatenate(owners)
        starts, ends = self._starts[stretches], self._ends[stretches]
        return _stretch(starts, ends), np.repeat(owner, ends - starts)

    def take(self, at: Any) -> list[Any]:
        """The columns of these rows, which are not needed any more."""
        self.live -= len(at)
        return self.copy(at)

    def copy(self, at: Any) -> list[Any]:
        """The columns of these rows."""
        return [c[at] for c in self._columns]


def _stretch(starts: Any, ends: Any) -> Any:
    """All numbers from each start to before its end."""
    lengths = ends - starts
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))


class RunningSessions(Sessions):
    """Sessions of each key; when running answers are due, in ``so_far`` those of open ones that have got rows since.

    What has come since is kept beside the sessions, as keys and times: sessions of one key do not overlap, so that says
    which of them have got rows.

    >>> from pellucid import pipeline
    >>> texts, total = Texts(), pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> sessions = RunningSessions(5, Inner(total.graph, texts), Kinds.of(None, INT), texts)
    >>> len(sessions.take(Rows(np.array([1, 4, 20]), [], [np.array([1, 2, 3])]), None)), len(sessions.close(6, True))
    (0, 0)
    >>> sessions.so_far.start.tolist(), sessions.so_far.value[0].tolist()
    ([1, 20], [3, 3])
    >>> len(sessions.close(7, True)), len(sessions.so_far)
    (0, 0)
    """

    def __init__(self, gap: int, inner: Inner, kinds: Kinds, texts: Texts) -> None:
        super().__init__(gap, inner, kinds, texts)
        self._fresh: list[list[Any]] = []  # parts: times, and the leaves of keys
        self.so_far = self._ordered([], False)

    def take(self, rows: Rows, clock: int | None) -> LateRows:
        """Judge a batch by the clock, and keep the rows that are not late."""
        late = super().take(rows, clock)
        if len(rows) > len(late):
            kept = np.ones(len(rows), np.bool_)
            kept[late.which] = False
            self._fresh.append([rows.time[kept], *(c[kept] for c in rows.key)])
        return late

    def close(self, clock: int | None, tells: bool = False) -> Answers:
        """The answers of the sessions that the clock closes."""
        found = super().close(clock)
        self.so_far = self._running() if tells and clock is not None and self._fresh else self._ordered([], False)
        if tells:
            self._fresh = []
        return found

    def _running(self) -> Answers:
        """The answers so far of the open sessions that have got rows."""
        keys = len(self.kinds.key)
        waiting, held = self._rows.columns(), self._kept()
        rows = behind(
            [
                Rows.made(waiting[0], waiting[1:], keys),
                Rows(held[keys + 1], list(held[:keys]), list(held[keys + 2 :])),
            ]
        )
        n = len(rows)
        if not n:
            return self._ordered([], False)
        time, *came = (np.concatenate(c) for c in zip(*self._fresh, strict=True))
        words = [
            numbers(t, np.concatenate([a, b]), self.texts)
            for t, a, b in zip(self.kinds.key, rows.key, came, strict=True)
        ]
        times = np.concatenate([rows.time, time])
        order = order_by([*words, times])
        rising = times[order]
        new = changes([w[order] for w in words], len(order))
        new[1:] |= (rising[1:] - rising[:-1]).view(np.uint64) > np.uint64(self.gap)
        session = np.empty(len(order), np.int64)
        session[order] = np.cumsum(new) - 1
        shown = np.zeros(int(session.max()) + 1, np.bool_)
        shown[session[n:]] = True
        which = np.flatnonzero(shown[session[:n]])
        if not len(which):
            return self._ordered([], False)
        some, of = rows.at(which), session[which]
        order = canonical([of, some.time], self.kinds.value, some.value, self.texts)
        starts = np.flatnonzero(changes([of[order]], len(order)))
        ends = np.append(starts[1:], len(order))
        rising = some.time[order]
        part = _Part(some, order, starts, rising[starts], rising[ends - 1])
        return self._ordered([self._answers(part)], False)

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        return [*super().layout(), [INT, *self.kinds.key]]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        words, groups = super().saved()
        none = self.kinds.none()
        parts = self._fresh or [[none.time, *none.key]]
        return words, [*groups, [np.concatenate(c) for c in zip(*parts, strict=True)]]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        super().load(words, groups[:2])
        self._fresh = [groups[2]] if len(groups[2][0]) else []


class Session(Windows):
    """Sessions."""

    op: Sessions

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        assert self.timing is not None and self.timing.gap is not None
        self.gap = self.timing.gap
        kind = Sessions if self.timing.early is None else RunningSessions
        self.op = kind(self.gap, self.inner, self.kinds(), self.texts)

    def first_wrong(self, flow: Flow) -> int | None:
        last = self.limits()[1] - self.gap - 1
        if int(flow.time.max()) <= last:
            return None
        return int(np.argmax(flow.time > max(last, LEAST))) if last >= LEAST else 0
