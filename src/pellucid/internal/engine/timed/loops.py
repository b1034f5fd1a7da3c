"""Loops over columns: each round is a batch of the engine that runs the body.

Loops of different keys have nothing to do with each other: those of one time go round together, one batch for a round
of all of them, with the key beside each event.  What waits for its time and what the body remembers is saved with a
snapshot; nothing ever goes round at a border, as a loop is over before what it emits leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.data.columns import Batch, events_of
from pellucid.internal.engine.timed.clock import body_failed, too_many_rounds
from pellucid.internal.engine.timed.joins import AsOfStep, Join
from pellucid.internal.engine.timed.plan import MOVED, Timed
from pellucid.internal.engine.timed.rows import Kinds, Rows, Texts, Waiting, behind, inside, leaves_of
from pellucid.internal.engine.timed.sessions import Session
from pellucid.internal.engine.timed.sorting import Keys, canonical, numbers, order_by
from pellucid.internal.engine.timed.steps import (
    At,
    DedupStep,
    EarlyStep,
    Flow,
    LateStep,
    Run,
    Step,
    Timers,
    moved,
    outside,
)
from pellucid.internal.engine.timed.windows import Fixed
from pellucid.internal.expr.types import INT, TupleType, Type
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.timed import AGAIN, MOST_EVENTS, OUT, pair_form

_NONE = np.zeros(0, np.int64)


class LoopRun(Run, Protocol):
    """What a loop knows of the run that it is in: what runs its body."""

    def body(self, graph: Graph, key: Type | None) -> Any: ...


@dataclass
class _Event:
    """Some events inside a loop: their keys and themselves; the time is that of all."""

    key: list[Any]
    value: list[Any]

    def __len__(self) -> int:
        return len(self.value[0])

    def at(self, which: Any) -> _Event:
        return _Event([c[which] for c in self.key], [c[which] for c in self.value])

    @staticmethod
    def behind(parts: Sequence[_Event]) -> _Event:
        """One part after the other."""
        if len(parts) == 1:
            return parts[0]
        return _Event(
            [np.concatenate(c) for c in zip(*[p.key for p in parts], strict=True)],
            [np.concatenate(c) for c in zip(*[p.value for p in parts], strict=True)],
        )


class Body:
    """The body of a loop, and the events that wait for their time to be complete.

    ``key`` is the type of both keys of its events: the body runs once for each.
    """

    def __init__(self, graph: Graph, kinds: Kinds, key: Type | None, texts: Texts, engine: Any) -> None:
        self.graph, self.kinds, self.key, self.texts, self.engine = graph, kinds, key, texts, engine
        self.waiting = Waiting(kinds.arrays)
        self.rounds = 0  # of all times, where they are the times of the body
        self.puts = {name: leaves_of(graph.nodes[i].type) for name, i in graph.outputs}

    def __len__(self) -> int:
        return len(self.waiting)

    def round(self, events: _Event) -> tuple[_Event, _Event | None]:
        """One round: what goes round, and what leaves the loop if the body says so."""
        n, first = len(events), self.engine.pushed
        timed = [np.full(n, self.rounds, np.int64)] if self.graph.timed else []
        given = [*timed, *(outside(t, c, self.texts) for t, c in zip(self.kinds.value, events.value, strict=True))]
        keys = [outside(t, c, self.texts) for t, c in zip(self.kinds.key, events.key, strict=True)]
        batch = Batch(n, [given], [None], [keys] if self.key is not None else None)
        self.rounds += 1
        found = {}
        for output in self.engine.push_batch(batch, positions=True):
            at = np.asarray(output.positions, dtype=np.int64) - first
            values = zip(self.puts[output.name], output.columns, strict=True)
            # What the end of a round emits came with no event: its key stands beside it.
            own = output.keys if self.graph.timed and self.key is not None else None
            found[output.name] = _Event(
                [c[at] for c in events.key]
                if own is None
                else [inside(t, c, self.texts, True) for t, c in zip(self.kinds.key, own, strict=True)],
                [inside(t, c, self.texts, True) for t, c in values],
            )
        return found[AGAIN], found.get(OUT)

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        return [[INT, *self.kinds.key, *self.kinds.value], [INT]]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns; the engine's state as whole numbers of eight bytes."""
        state = self.engine.save()
        words = np.frombuffer(bytes(state) + bytes(-len(state) % 8), dtype=np.int64)
        return {"rounds": self.rounds, "bytes": len(state)}, [self.waiting.columns(), [words]]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self.waiting.put(groups[0])
        self.rounds = int(words["rounds"])
        self.engine.load(groups[1][0].tobytes()[: int(words["bytes"])])


class LoopStep(Step):
    """A loop."""

    op: Body

    def __init__(self, run: LoopRun, stage: Timed) -> None:
        super().__init__(run, stage)
        assert self.node.sub is not None and self.timing is not None
        both = [t for t in (run.key, self.node.key) if t is not None]
        key = TupleType(tuple(both)) if len(both) == 2 else both[0] if both else None
        self.op = Body(self.node.sub, self.kinds(), key, self.texts, run.body(self.node.sub, key))
        self.pairs = pair_form(self.node.sub)
        self.puts = leaves_of(self.node.type)

    @property
    def why_plain(self) -> str | None:
        why: str | None = self.op.engine.why_plain
        return why

    def put(self, flows: list[Flow]) -> Flow:
        (flow,) = flows
        return self._by_row(flow) if self.clock is None else self._by_time(flow)

    def _by_row(self, flow: Flow) -> Flow:
        """Without times: the events that came with one row go round together."""
        order = np.argsort(flow.stamp, kind="stable")
        stamps = flow.stamp[order]
        parts, counts, first = (
            [],
            [],
            np.flatnonzero(np.append(True, stamps[1:] != stamps[:-1])) if len(flow) else _NONE,
        )
        for start, stop in zip(first.tolist(), [*first[1:].tolist(), len(stamps)], strict=True) if len(flow) else ():
            some = flow.at(order[start:stop])
            left = self._loop(_Event(some.key, some.value), None, self.push(some, 0))
            parts.append(left)
            counts.append(len(left))
        if not any(counts):
            return self.nothing()
        out = _Event.behind(parts)
        return Flow(np.repeat(stamps[first], counts), None, out.key, out.value)

    def _by_time(self, flow: Flow) -> Flow:
        """With times: all events of one time go round together when it is complete, in the one order of events."""
        flow = self.in_time(flow)
        op = self.op
        op.waiting.add(flow.time, [*flow.key, *flow.value])
        if not self.run.moving:
            return self.nothing()
        clock = self.after()
        columns = op.waiting.take(None if clock is None else clock - 1)
        rows = Rows.made(columns[0], columns[1:], len(self.keys))
        if not len(rows):
            return self.nothing()
        words = [numbers(t, c, self.texts) for t, c in zip(self.keys, rows.key, strict=True)]
        rows = rows.at(canonical([rows.time, *words], op.kinds.value, rows.value, self.texts))
        first = np.flatnonzero(np.append(True, rows.time[1:] != rows.time[:-1]))
        parts = []
        for start, stop in zip(first.tolist(), [*first[1:].tolist(), len(rows)], strict=True):
            some, time = rows.at(slice(start, stop)), int(rows.time[start])
            left = self._loop(_Event(some.key, some.value), time, self.run.push_of(MOVED))
            parts.append(Rows(np.full(len(left), time, np.int64), left.key, left.value))
        out = behind(parts)
        return moved(out.time, out.key, out.value)

    # ------------------------------------------------------------ rounds

    def _loop(self, going: _Event, time: int | None, push: int) -> _Event:
        """What leaves the loops that begin with these events, one for each key; by key, and in each as it left."""
        assert self.timing is not None
        left: list[_Event] = []
        rounds, fixed = 0, self.timing.rounds
        while len(going) and rounds != fixed:
            if rounds == self.timing.limit or len(going) > MOST_EVENTS:
                raise too_many_rounds(self.node, self.clock, time, rounds, self._first_of(going), push)
            rounds += 1
            took = going
            try:
                going, out = self.op.round(took)
            except StepError as error:
                raise body_failed(self.node, self.clock, time, rounds, error, push) from error.__cause__
            if out is not None:
                left.append(out)
            elif fixed is None:
                over = self._settled(took, going)
                if over.any():
                    left.append(going.at(over))
                    going = going.at(~over)
        if not self.pairs and fixed is not None:
            left.append(going)
        if not left:
            return self._none()
        found = _Event.behind(left)
        if not self.keys or len(found) < 2:
            return found
        words = [numbers(t, c, self.texts) for t, c in zip(self.keys, found.key, strict=True)]
        return found.at(order_by(words))

    def _none(self) -> _Event:
        nothing = self.nothing()
        return _Event(nothing.key, nothing.value)

    def _settled(self, took: _Event, puts: _Event) -> Any:
        """For each event that a round emits, whether it has emitted of its key what it took, in any order."""
        if not len(puts):
            return np.zeros(0, np.bool_)
        keys, kinds = Keys(self.keys), self.op.kinds.value
        a, b = keys.of(took.key, len(took)), keys.of(puts.key, len(puts))
        had, has = (np.bincount(k, minlength=keys.count) for k in (a, b))
        same = had == has
        sides = []
        for k, events in ((a, took), (b, puts)):
            rows = np.flatnonzero(same[k])
            some, number = events.at(rows), k[rows]
            order = canonical([number], kinds, some.value, self.texts) if len(rows) else rows
            sides.append(
                (number[order], [numbers(t, c, self.texts)[order] for t, c in zip(kinds, some.value, strict=True)])
            )
        (number, before), (_, after) = sides
        if len(number):
            other = np.zeros(len(number), np.bool_)
            for x, y in zip(before, after, strict=True):
                other |= x != y
            same[number[other]] = False
        return same[b]

    def _first_of(self, going: _Event) -> list[Any]:
        """The events that go round, of the first key that has some."""
        if self.keys:
            words = [numbers(t, c, self.texts) for t, c in zip(self.keys, going.key, strict=True)]
            order = order_by(words)
            mine = np.ones(len(going), np.bool_)
            for word in words:
                mine &= word == word[order[0]]
            going = going.at(mine)
        t = self.sides[0].type
        return events_of(t, [outside(leaf, c, self.texts) for leaf, c in zip(leaves_of(t), going.value, strict=True)])


#: The step that runs each kind of stage at which a graph is cut.
STEPS: dict[str, Callable[[Any, Timed], Step]] = {
    "at": At, "tumbling": Fixed, "sliding": Fixed, "session": Session, "join": Join, "as_of": AsOfStep,
    "lookup": AsOfStep, "dedup": DedupStep, "timers": Timers, "late": LateStep, "early": EarlyStep, "iterate": LoopStep,
}  # fmt: skip
