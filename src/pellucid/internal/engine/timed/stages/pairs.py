"""Timed steps with two inputs over columns: the interval join, as-of and lookup."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.internal.engine.timed.columns.asof import AsOf
from pellucid.internal.engine.timed.columns.inner import inside
from pellucid.internal.engine.timed.columns.joins import IntervalJoin
from pellucid.internal.engine.timed.columns.rows import Rows, later, leaves_of
from pellucid.internal.engine.timed.flows import (
    Flow,
    behind,
    event_at,
    in_order,
    maybe_columns,
    missing_columns,
    moved,
    together,
)
from pellucid.internal.engine.timed.plan import Timed
from pellucid.internal.engine.timed.stages.step import Run, Step
from pellucid.internal.engine.timed.words import no_such_time
from pellucid.internal.expr.types import TupleType, Type
from pellucid.internal.graph.timing import missing


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
        """Rows without a partner, with the last time at which they could have found one, but none before their own."""
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
        nobody = missing(t)
        if t.problem(nobody) is not None:
            return np.zeros(len(flow), np.int64)
        same = np.ones(len(flow), np.bool_)
        for leaf, value, column in zip(leaves_of(t), t.flatten(nobody), flow.value, strict=False):
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
