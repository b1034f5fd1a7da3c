"""Steps that read two streams, over columns: the interval join, as-of, and lookup in a table that changes.

**Interval join**: pairs of events of one key with low ≤ b.t - a.t ≤ high.  Both sides are kept in pools, and found by
key and time.  A row whose time for a partner is over matches nothing that can still come, so it may stay until it is
worthwhile to drop such rows; only where it must come out alone if it finds no partner does it wait for the clock.

**As-of**: for each event of one stream the latest of another that is not after it.  An event waits until nothing of the
other stream can come any more that is not after it.  Of the other stream's events whose times are complete only one of
each key and time can be an answer: the greatest in the canonical order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.internal.engine.timed.clock import no_such_time
from pellucid.internal.engine.timed.plan import Timed
from pellucid.internal.engine.timed.rows import LEAST, MOST, Kinds, Rows, Texts, Waiting, inside, later, leaves_of
from pellucid.internal.engine.timed.sorting import (
    Index,
    Keys,
    Pool,
    by_number_and_time,
    canonical,
    changes,
    longer,
    many,
    order_by,
)
from pellucid.internal.engine.timed.steps import (
    Flow,
    Run,
    Step,
    behind,
    event_at,
    in_order,
    maybe_columns,
    missing_columns,
    moved,
    together,
)
from pellucid.internal.expr.types import BOOL, INT, TupleType, Type
from pellucid.internal.graph.timing import missing

_SOME = 1 << 12
_NONE = np.zeros(0, np.int64)


@dataclass
class Pairs:
    """Rows of both sides that belong together, and the place of the later one of each pair in its batch."""

    left: Rows
    right: Rows
    place: Any

    def __len__(self) -> int:
        return len(self.place)


class Side:
    """What is kept of one input: a row is given up when the other side's clock is after its time + ``reach``."""

    def __init__(self, kinds: Kinds, reach: int, unpaired: bool) -> None:
        self.kinds, self.reach, self.unpaired = kinds, reach, unpaired
        self.start()

    def start(self) -> None:
        """Nothing is kept."""
        self.pool = Pool([np.dtype(np.int64), *self.kinds.arrays])  # time, key, value
        self.index = Index()
        self.found = np.zeros(16, np.bool_)  # a partner, by row
        self.due = Waiting([np.int64])
        self.tidied = 0

    def add(self, key: Any, rows: Rows) -> Any:
        """More rows, whose keys have these numbers; the numbers of the rows."""
        at = self.pool.add([rows.time, *rows.columns()])
        self.index.add(key, rows.time, at)
        if self.unpaired:
            self.found = longer(self.found, self.pool.size)
            self.found[at] = False
            self.due.add(later(rows.time, self.reach), [at])
        return at

    def rows(self, at: Any) -> Rows:
        """The rows of these numbers."""
        columns = self.pool.at(at)
        return Rows.made(columns[0], columns[1:], len(self.kinds.key))

    def alone(self, clock: int | None) -> Rows:
        """The rows that the other side's clock gives up now, and that have found no partner."""
        if not self.unpaired:
            return self.kinds.none()
        _, at = self.due.take(None if clock is None else clock - 1)
        alone = at[~self.found[at]]
        self.found[alone] = True  # they come out once
        return self.rows(alone)

    def kept(self, clock: int | None) -> list[Any]:
        """The columns of the rows that are not given up: time, key, value, and whether a partner was found."""
        columns = self.pool.all()
        found = longer(self.found, self.pool.size)[: self.pool.size]
        if clock is None:  # the end: nothing can come any more
            return [c[:0] for c in [*columns, found]]
        alive = np.flatnonzero(later(columns[0], self.reach) >= clock)
        return [c[alive] for c in [*columns, found]]

    def restore(self, columns: list[Any], keys: Keys) -> None:
        """Keep these rows instead."""
        self.start()
        if not len(columns[0]):
            return
        rows = Rows.made(columns[0], columns[1:-1], len(self.kinds.key))
        at = self.add(keys.of(rows.key, len(rows)), rows)
        if self.unpaired:
            self.found[at] = columns[-1]
            again = columns[-1]  # those that found a partner do not come out alone
            if again.any():
                self.due = Waiting([np.int64])
                alone = np.flatnonzero(~again)
                self.due.add(later(rows.time[alone], self.reach), [at[alone]])
        self.tidied = len(rows)


class _Sorted:
    """New rows of one side by the number of their key and their time: the sorting order, and both in that order."""

    __slots__ = ("key", "order", "row_time", "time")

    def __init__(self, key: Any, time: Any) -> None:
        self.row_time = time  # as the rows came
        self.order: Any = _NONE
        self.key: Any = _NONE
        self.time: Any = _NONE
        if len(key):
            self.order, self.key, self.time = by_number_and_time(key, time)

    def __len__(self) -> int:
        return len(self.order)


def _partners(index: Index, rows: _Sorted, low: int, high: int) -> tuple[Any, Any]:
    """Rows of the same key from ``low`` to ``high`` after each time: pairs (number of the time, row)."""
    if not len(rows) or not len(index):
        return _NONE, _NONE
    key, time = rows.key, rows.time
    if int(time.max()) + low > MOST or int(time.min()) + high < LEAST:
        # A whole interval lies beyond 64 bits, where no time is; `later` would put its ends back inside.
        key = np.where((later(time, low - 1) == MOST) | (later(time, high + 1) == LEAST), -1, key)
    asked, row = index.between(key, later(time, low), later(time, high))
    return rows.order[asked].astype(np.int64), row


class IntervalJoin:
    """Pairs of two streams within an interval.  Of a ``left`` or ``full`` join, rows without a partner come as well.

    >>> from pellucid.internal.expr.types import INT
    >>> kinds = Kinds((), (INT,))
    >>> join = IntervalJoin(-2, 2, "left", kinds, kinds, Texts())
    >>> a, b = Rows(np.array([10, 20]), [], [np.array([1, 2])]), Rows(np.array([11]), [], [np.array([7])])
    >>> pairs = join.take(a, b, np.array([0, 1]), np.array([2]))
    >>> pairs.left.value[0].tolist(), pairs.right.value[0].tolist(), pairs.place.tolist()
    ([1], [7], [2])
    >>> left, right = join.give_up(23, 23)
    >>> left.value[0].tolist(), left.time.tolist(), len(right)
    ([2], [20], 0)
    """

    def __init__(self, low: int, high: int, how: str, left: Kinds, right: Kinds, texts: Texts) -> None:
        self.low, self.high, self.how, self.texts = low, high, how, texts
        self._keys = Keys(left.key)
        self.left = Side(left, high, how in ("left", "full"))
        self.right = Side(right, -low, how == "full")

    def __len__(self) -> int:
        return self.left.pool.size + self.right.pool.size

    def take(self, left: Rows, right: Rows, left_at: Any, right_at: Any) -> Pairs:
        """The pairs that a batch completes, by the place of the later event in the batch, then by the earlier one (its
        time, then the event).  The rows are not late; their places in the batch are given."""
        key, other = self._keys.of(left.key, len(left)), self._keys.of(right.key, len(right))
        lefts, rights = _Sorted(key, left.time), _Sorted(other, right.time)
        # Those that came before wait on the other side: each of them is the earlier one of its pairs.
        asked, old = _partners(self.left.index, rights, -self.high, -self.low)
        mine, row = _partners(self.right.index, lefts, self.low, self.high)
        here, there, both_at, ordered = self._fresh(lefts, rights, left_at, right_at)
        before = self.left.pool.size, self.right.pool.size
        self.left.add(key, left)
        self.right.add(other, right)
        if not len(old) and not len(row):
            from_left = None if ordered else left_at[here] > right_at[there]
            return self._noted(here + before[0], there + before[1], both_at, from_left, ordered)
        a = np.concatenate([old, mine + before[0], here + before[0]])
        b = np.concatenate([asked + before[1], row, there + before[1]])
        place = np.concatenate([right_at[asked], left_at[mine], both_at])
        own = left_at[here] > right_at[there]
        from_left = np.concatenate([np.zeros(len(old), np.bool_), np.ones(len(row), np.bool_), own])
        return self._noted(a, b, place, from_left, False)

    def _fresh(self, left: _Sorted, right: _Sorted, left_at: Any, right_at: Any) -> tuple[Any, Any, Any, bool]:
        """The pairs of two new rows: which, the place of the later one, and whether they are in order already."""
        if not len(left) or not len(right):
            return _NONE, _NONE, _NONE, True
        far = max(abs(self.low), abs(self.high))
        near = all(LEAST + far <= int(r.time.min()) and int(r.time.max()) <= MOST - far for r in (left, right))
        if near and many(len(left) + len(right)):
            from pellucid.internal.engine.timed.compiled import met, reaches, rising

            if rising(left_at) and rising(right_at):
                ends = [np.empty(len(r), np.int64) for r in (left, left, right, right)]
                a, b = (np.ascontiguousarray(r.order, np.int64) for r in (left, right))
                total = reaches(left.key, left.time, a, right.key, right.time, self.low, self.high, *ends[:2])
                reaches(right.key, right.time, b, left.key, left.time, -self.high, -self.low, *ends[2:])
                found = [np.empty(total, np.int64) for _ in range(3)]
                ties = met(left_at, right_at, left.row_time, right.row_time, a, b, *ends, *found)
                return found[0], found[1], found[2], not ties
        index = Index()
        index.add(right.key, right.time, right.order.astype(np.int64))
        mine, row = _partners(index, left, self.low, self.high)
        return mine, row, np.maximum(left_at[mine], right_at[row]), False

    def _noted(self, a: Any, b: Any, place: Any, from_left: Any, ordered: bool) -> Pairs:
        """Pairs of rows by their numbers, put in order; they have found a partner."""
        if self.left.unpaired:
            self.left.found[a] = True
        if self.right.unpaired:
            self.right.found[b] = True
        if not ordered and len(a):
            order = self._order(a, b, place, from_left)
            a, b, place = a[order], b[order], place[order]
        return Pairs(self.left.rows(a), self.right.rows(b), place)

    def _order(self, a: Any, b: Any, place: Any, from_left: Any) -> Any:
        """By the place of the later event, then by the earlier one: its time, then the event."""
        times = [side.pool.at(at)[0] for side, at in ((self.left, a), (self.right, b))]
        earlier = np.where(from_left, times[1], times[0])
        order = order_by([place, earlier])
        places, times = place[order], earlier[order]
        if not ((places[1:] == places[:-1]) & (times[1:] == times[:-1])).any():
            return order
        # Of partners of one event that have equal times, by the event: the one side is the same for all of them.
        types = [*self.left.kinds.value, *self.right.kinds.value]
        values = [*self.left.rows(a).value, *self.right.rows(b).value]
        return canonical([place, earlier], types, values, self.texts)

    def give_up(self, left_clock: int | None, right_clock: int | None) -> tuple[Rows, Rows]:
        """The rows without a partner that the clocks give up now (None: the end), of either side, in no order."""
        out = self.left.alone(right_clock), self.right.alone(left_clock)
        if any(side.pool.size > 2 * side.tidied + _SOME for side in (self.left, self.right)):
            self.restore(self.left.kept(right_clock), self.right.kept(left_clock))
        return out

    def restore(self, left: list[Any], right: list[Any]) -> None:
        """Throw away what nothing can match any more: keep just these rows."""
        self._keys = Keys(self.left.kinds.key)
        self.left.restore(left, self._keys)
        self.right.restore(right, self._keys)

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        return [[INT, *side.kinds.key, *side.kinds.value, BOOL] for side in (self.left, self.right)]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        return {}, [side.kept(LEAST) for side in (self.left, self.right)]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self.restore(*groups)


class AsOf:
    """The latest of the right stream for each event of the left one, at most ``within`` older (None: however old).

    >>> from pellucid.internal.expr.types import INT
    >>> kinds = Kinds((), (INT,))
    >>> as_of = AsOf(5, kinds, kinds, Texts())
    >>> as_of.take(Rows(np.array([4, 20]), [], [np.array([1, 2])]), Rows(np.array([3, 1]), [], [np.array([30, 10])]))
    >>> asked, found, there = as_of.put(21, 21)
    >>> asked.value[0].tolist(), found.value[0].tolist(), there.tolist()
    ([1, 2], [30, 30], [True, False])
    """

    def __init__(self, within: int | None, left: Kinds, right: Kinds, texts: Texts) -> None:
        self.within, self.left, self.right, self.texts = within, left, right, texts
        self.asked, self.coming = Waiting(left.arrays), Waiting(right.arrays)
        self._start()

    def _start(self) -> None:
        self._keys = Keys(self.right.key)
        self._pool = Pool([np.dtype(np.int64), *self.right.arrays])
        self._index = Index()
        self._tidied = 0

    def __len__(self) -> int:
        return len(self.asked) + len(self.coming) + self._pool.size

    def take(self, left: Rows, right: Rows) -> None:
        """Events that are not late."""
        self.asked.add(left.time, left.columns())
        self.coming.add(right.time, right.columns())

    def put(self, left_clock: int | None, right_clock: int | None) -> tuple[Rows, Rows, Any]:
        """The events that can be answered, as they wait; beside each the answer, and whether there is one (if not, what
        stands there means nothing).  None is the end."""
        limit = None if right_clock is None else right_clock - 1
        columns = self.coming.take(limit)
        self._changed(Rows.made(columns[0], columns[1:], len(self.right.key)))
        columns = self.asked.take(limit)
        asked = Rows.made(columns[0], columns[1:], len(self.left.key))
        key = self._keys.of(asked.key, len(asked), add=False)
        at = self._index.last(key, asked.time)
        there = at >= 0
        if self._pool.size:
            found = self._pool.at(np.where(there, at, 0))
            if self.within is not None and there.any():
                there &= later(found[0], self.within) >= asked.time
            answers = Rows.made(found[0], found[1:], len(self.right.key))
        else:
            answers = Rows(
                asked.time, [], [np.zeros(len(asked), kind) for kind in self.right.arrays[len(self.right.key) :]]
            )
        self._tidy(left_clock, right_clock)
        return asked, answers, there

    def _changed(self, rows: Rows) -> None:
        """Events of the right stream whose times are complete."""
        if not len(rows):
            return
        key = self._keys.of(rows.key, len(rows))
        order = canonical([key, rows.time], self.right.value, rows.value, self.texts)
        key, rows = key[order], rows.at(order)
        last = np.append(changes([key, rows.time], len(rows))[1:], True)
        self._add(key[last], rows.at(last))

    def _add(self, key: Any, rows: Rows) -> None:
        self._index.add(key, rows.time, self._pool.add([rows.time, *rows.columns()]))

    def _tidy(self, left_clock: int | None, right_clock: int | None) -> None:
        """An event that is still to be answered has a time that is not before both clocks: of what is up to there, only
        the last of each key can be its partner."""
        if self._pool.size <= 2 * self._tidied + _SOME:
            return
        columns = self._pool.all()
        clocks = [c for c in (left_clock, right_clock) if c is not None]
        key = self._keys.of(columns[1 : 1 + len(self.right.key)], len(columns[0]))
        order = canonical([key, columns[0]], (), (), self.texts)
        over = min(clocks) if len(clocks) == 2 else max(clocks, default=2**63 - 1)
        before = columns[0][order] <= over
        # The last of a key up to there: the next one is after it, or of another key.
        last = before & np.append(~before[1:] | (key[order][1:] != key[order][:-1]), True)
        self.restore([c[order[last | ~before]] for c in columns])

    def restore(self, columns: list[Any]) -> None:
        """Keep just these."""
        self._start()
        if len(columns[0]):
            rows = Rows.made(columns[0], columns[1:], len(self.right.key))
            self._add(self._keys.of(rows.key, len(rows)), rows)
        self._tidied = len(columns[0])

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        left, right = ([INT, *kinds.key, *kinds.value] for kinds in (self.left, self.right))
        return [left, right, right]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        return {}, [self.asked.columns(), self.coming.columns(), self._pool.all()]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self.asked.put(groups[0])
        self.coming.put(groups[1])
        self.restore(groups[2])


class TwoSides(Step):
    """Steps with two inputs: which of their events are late, in the order in which they came."""

    def judged(self, flows: list[Flow]) -> tuple[list[Flow], list[Any], Any]:
        """What is not late; the places of those among all events of the batch, and the stamps by places."""
        order = [0, 1] if self.stage.inputs[0] <= self.stage.inputs[1] else [1, 0]
        sequence = together([flows[i] for i in order])
        place = np.empty(len(sequence), np.int64)
        place[sequence] = np.arange(len(sequence))
        places = [np.zeros(0, np.int64)] * 2
        places[order[0]], places[order[1]] = place[: len(flows[order[0]])], place[len(flows[order[0]]) :]
        stamps = np.concatenate([flows[i].stamp for i in order])[sequence]
        late = [self.behind_clock(flows[i], i) for i in (0, 1)]
        first = [int(places[i][late[i].which[0]]) if len(late[i]) else len(place) for i in (0, 1)]
        sent = [(i, self.too_late(flows[i], late[i], i)) for i in sorted((0, 1), key=lambda i: first[i])]
        found = [(i, flow) for i, flow in sent if flow is not None]
        if len(found) == 2:
            both = behind([flow for _, flow in found])
            at = np.argsort(np.concatenate([places[i][late[i].which] for i, _ in found]), kind="stable")
            self.note(both.at(at))
        elif found:
            self.note(found[0][1])
        for i in (0, 1):
            if len(late[i]):
                kept = np.ones(len(flows[i]), np.bool_)
                kept[late[i].which] = False
                flows = [flow.at(kept) if j == i else flow for j, flow in enumerate(flows)]
                places[i] = places[i][kept]
        return flows, places, stamps


class Join(TwoSides):
    """The interval join."""

    op: IntervalJoin

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        t = self.timing
        assert t is not None and t.low is not None and t.high is not None
        self.low, self.high, self.how = t.low, t.high, t.how
        self.op = IntervalJoin(t.low, t.high, t.how, self.kinds(0), self.kinds(1), self.texts)

    def put(self, flows: list[Flow]) -> Flow:
        (left, right), places, stamps = self.judged(flows)
        pairs = self.op.take(left.rows(), right.rows(), *places)
        a, b = pairs.left, pairs.right
        value = [
            *(maybe_columns(self.sides[0].type, a.value, None, self.texts) if self.how == "full" else a.value),
            *(b.value if self.how == "inner" else maybe_columns(self.sides[1].type, b.value, None, self.texts)),
        ]
        out = Flow(stamps[pairs.place], np.maximum(a.time, b.time), a.key, value)
        if not self.run.moving:
            return out
        alone = self.op.give_up(self.after(0), self.after(1))
        if self.how == "inner" or not any(map(len, alone)):
            return out
        return behind([out, self._alone(*alone)])

    def _alone(self, left: Rows, right: Rows) -> Flow:
        """Rows without a partner, with the last time at which they could have found one, but never before their own."""
        parts = []
        for number, rows, by in ((0, left, max(0, self.high)), (1, right, max(0, -self.low))):
            least, most = self.limits()
            wrong = [t for t in rows.time.tolist() if not least <= t + by <= most] if len(rows) else []
            if wrong:
                at = int(np.argmax(rows.time == wrong[0]))
                event = event_at(self.sides[number].type, rows.value, at, self.texts)
                assert self.clock is not None
                raise no_such_time(self.node, event, wrong[0], self.clock, self.run.push_of(2**62))
            types = [side.type for side in self.sides]
            own = rows.value
            if number or self.how == "full":
                own = maybe_columns(types[number], rows.value, None, self.texts)
            other = missing_columns(types[1 - number], len(rows), self.texts)
            if number or len(rows):
                value = [*other, *own] if number else [*own, *other]
                parts.append(moved(later(rows.time, by), rows.key, value))
        flow = behind(parts) if self.how == "full" else parts[0]
        assert isinstance(self.node.type, TupleType)
        return in_order(flow, self.keys, self.node.type, self.texts, [self._second(flow, self.node.type.items[0])])

    def _second(self, flow: Flow, t: Type) -> Any:
        """1 where the left event is missing, or might as well be: such rows come after the others."""
        nothing = missing(t)
        if t.problem(nothing) is not None:
            return np.zeros(len(flow), np.int64)
        same = np.ones(len(flow), np.bool_)
        for leaf, value, column in zip(leaves_of(t), t.flatten(nothing), flow.value, strict=False):
            same &= column == inside(leaf, [value], self.texts)[0]
        return same.astype(np.int64)


class AsOfStep(TwoSides):
    """As-of, and lookup in a table that changes."""

    op: AsOf

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        assert self.timing is not None
        self.how = self.timing.how
        self.op = AsOf(self.timing.within, self.kinds(0), self.kinds(1), self.texts)

    def put(self, flows: list[Flow]) -> Flow:
        (left, right), _, _ = self.judged(flows)
        self.op.take(left.rows(), right.rows())
        if not self.run.moving:
            return self.nothing()
        asked, found, there = self.op.put(self.after(0), self.after(1))
        flow = moved(asked.time, asked.key, [*asked.value, *found.value])
        if self.how == "left":
            flow.value = [*asked.value, *maybe_columns(self.sides[1].type, found.value, there, self.texts)]
        else:
            flow = flow.at(there)
        return in_order(flow, self.keys, self.node.type, self.texts)
