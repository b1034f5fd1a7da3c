"""Sessions whose answers are told before they are complete."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.internal.engine.timed.columns.inner import Inner
from pellucid.internal.engine.timed.columns.order import canonical, changes, numbers, order_by
from pellucid.internal.engine.timed.columns.rows import Kinds, Rows, behind
from pellucid.internal.engine.timed.columns.sessions import Sessions, _Part
from pellucid.internal.engine.timed.columns.texts import Texts
from pellucid.internal.engine.timed.columns.windows import Answers, LateRows
from pellucid.internal.expr.types import INT


class RunningSessions(Sessions):
    """Sessions of each key; when they are told, in ``so_far`` the answers of open ones that have got rows since.

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
        self._untold: list[list[Any]] = []  # parts: times, and the leaves of keys
        self.so_far = self._ordered([], False)

    def take(self, rows: Rows, clock: int | None) -> LateRows:
        """Judge a batch by the clock, and keep the rows that are not late."""
        late = super().take(rows, clock)
        if len(rows) > len(late):
            kept = np.ones(len(rows), np.bool_)
            kept[late.which] = False
            self._untold.append([rows.time[kept], *(c[kept] for c in rows.key)])
        return late

    def close(self, clock: int | None, tells: bool = False) -> Answers:
        """The answers of the sessions that the clock closes."""
        found = super().close(clock)
        self.so_far = self._running() if tells and clock is not None and self._untold else self._ordered([], False)
        if tells:
            self._untold = []
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
        time, *came = (np.concatenate(c) for c in zip(*self._untold, strict=True))
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
        told = np.zeros(int(session.max()) + 1, np.bool_)
        told[session[n:]] = True
        which = np.flatnonzero(told[session[:n]])
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
        parts = self._untold or [[none.time, *none.key]]
        return words, [*groups, [np.concatenate(c) for c in zip(*parts, strict=True)]]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        super().load(words, groups[:2])
        self._untold = [groups[2]] if len(groups[2][0]) else []
