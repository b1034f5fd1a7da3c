"""The task that is told of times, over columns: events wait for their time, and a kernel calls its functions.

The kernel has the states and the times that were asked for, by key (`engine.kernel.emit.timers`).  When the
clock moves, it gets the events that are complete, by time; and then, for each key that has asked for a time which is
complete by now, the news of that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.data.columns import Batch
from pellucid.internal.engine.kernel.emit.timers import Untimely
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.timed.columns.inner import inside
from pellucid.internal.engine.timed.columns.order import canonical, numbers, order_by
from pellucid.internal.engine.timed.columns.rows import LEAST, MOST, Kinds, Rows
from pellucid.internal.engine.timed.columns.texts import Texts
from pellucid.internal.engine.timed.columns.waiting import Waiting
from pellucid.internal.engine.timed.flows import Flow, behind, event_at, moved, outside
from pellucid.internal.engine.timed.plan import MOVED, Timed
from pellucid.internal.engine.timed.stages.step import Run, Step, at_push
from pellucid.internal.engine.timed.words import endless, not_ahead
from pellucid.internal.expr.types import BOOL, INT, TupleType
from pellucid.internal.graph.model import Graph, Node

_SOME = 1 << 12


class InOrder:
    """Events that wait until their time is complete; they go by time, key and event.

    >>> from pellucid.internal.expr.types import INT
    >>> waiting = InOrder(Kinds((INT,), (INT,)), Texts())
    >>> waiting.take(Rows(np.array([7, 3, 3]), [np.array([1, 1, 1])], [np.array([70, 31, 30])]))
    >>> waiting.put(6).value[0].tolist(), len(waiting)
    ([30, 31], 1)
    """

    def __init__(self, kinds: Kinds, texts: Texts) -> None:
        self.kinds, self.texts = kinds, texts
        self._rows = Waiting(kinds.arrays)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: Rows) -> None:
        """More of them."""
        self._rows.add(rows.time, rows.columns())

    def put(self, last: int | None) -> Rows:
        """Those up to a time; None: all."""
        columns = self._rows.take(last)
        rows = Rows.made(columns[0], columns[1:], len(self.kinds.key))
        if len(rows) < 2:
            return rows
        words = [numbers(t, c, self.texts) for t, c in zip(self.kinds.key, rows.key, strict=True)]
        return rows.at(canonical([rows.time, *words], self.kinds.value, rows.value, self.texts))

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        return [[INT, *self.kinds.key, *self.kinds.value]]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        return {}, [self._rows.columns()]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self._rows.put(groups[0])


class Timers(Step):
    """The task that is told of times."""

    op: InOrder
    engine: Engine

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        self.op = InOrder(self.kinds(), self.texts)
        self.key = TupleType(tuple(self.keys)) if self.keys else None
        node = self.node
        assert self.clock is not None
        given, put = TupleType((BOOL, self.clock, self.sides[0].type)), TupleType((self.clock, node.type))
        source = Node("in" if node.id != "in" else "source", "source", (), given)
        self.task = Node(
            node.id, "task", (0,), put, node.fn, start=node.start, state=node.state, where=node.where,
            on_time=node.on_time,
        )  # fmt: skip
        graph = Graph(node.id, (source, self.task), (0,), (("out", 1),))
        self.engine = Engine(graph, key=self.key, mode=run.mode)
        self._tidied = 0

    @property
    def why_plain(self) -> str | None:
        why = self.engine.why_plain
        return None if why is None else why.replace(self.task.describe(), self.node.describe())

    def put(self, flows: list[Flow]) -> Flow:
        flow = self.in_time(flows[0])
        self.op.take(flow.rows())
        clock = self.after()
        if not self.run.moving or clock == LEAST:
            return self.nothing()
        last = MOST if clock is None else clock - 1
        rows = self.op.put(None if clock is None else last)
        parts = [self._called(rows, np.zeros(len(rows), np.bool_))]
        due = self._due(last)
        if len(due):
            parts.append(self._called(due, np.ones(len(due), np.bool_)))
        self._tidy()
        return self._in_order(behind(parts))

    def _called(self, rows: Rows, tick: Any) -> Flow:
        """What the kernel puts out on events, or on the news that times are complete."""
        n, types = len(rows), [t for _, t in self.sides[0].type.leaves()]
        if not n:
            return self.nothing()
        event = [outside(t, c, self.texts) for t, c in zip(types, rows.value, strict=True)]
        keys = [outside(t, c, self.texts) for t, c in zip(self.keys, rows.key, strict=True)]
        first = self.engine.pushed
        try:
            (output,) = self.engine.push_batch(
                Batch(n, [[tick, rows.time, *event]], [None], [keys] if self.key is not None else None), positions=True
            )
        except Untimely as wrong:
            raise self._untimely(wrong, rows, wrong.position - first) from None
        except StepError as error:
            text = str(error).replace(self.task.describe(), self.node.describe(), 1)
            same = type(error)(text, step=error.step, position=error.position, why=error.why)
            raise at_push(same, self.run.push_of(MOVED)) from error.__cause__
        time, *value = output.columns
        own = zip(self.keys, output.keys or [], strict=True)
        leaves = zip([t for _, t in self.node.type.leaves()], value, strict=True)
        return moved(
            inside(INT, time, self.texts, True),
            [inside(t, c, self.texts, True) for t, c in own],
            [inside(t, c, self.texts, True) for t, c in leaves],
        )

    def _untimely(self, wrong: Untimely, rows: Rows, row: int) -> StepError:
        assert self.clock is not None
        outer = self.run.key
        parts = [(outer, rows.key[: self.outer])] if outer is not None else []
        parts += [(self.node.key, rows.key[self.outer :])] if self.node.key is not None else []
        keys = [event_at(t, columns, row, self.texts) for t, columns in parts]
        push = self.run.push_of(MOVED)
        if wrong.endless:
            return endless(self.node, self.clock, keys, wrong.now, push)
        return not_ahead(self.node, self.clock, keys, wrong.now, wrong.asked, wrong.told, push)

    def _due(self, last: int) -> Rows:
        """The keys that have asked for a time up to ``last``, with that time; the columns of events are any."""
        times, keys, _ = self.asked(last)
        nobody = [np.zeros(len(times), c.dtype) for c in self.kinds().none().value]
        return Rows(np.full(len(times), last, np.int64), keys, nobody)

    def asked(self, last: int = MOST) -> tuple[Any, list[Any], Any]:
        """Of each key that has asked for a time up to ``last``: the first such time, the key's columns, and how many
        times it waits for in all."""
        state = self.engine.state
        r = state.layout.region_of[None]
        count = int(state.meta[state.region_at(r)])
        words = np.asarray(self._words(r, count), dtype=np.int64).reshape(2, count)
        some = np.flatnonzero(words[1] > 0)
        times = np.asarray(state.cells[0][1], dtype=np.int64)[words[0][some]]
        rows, times = some[times <= last], times[times <= last]
        keys: list[Any] = []
        if self.key is not None and len(rows):
            columns = self.engine.exchange.key_columns(self.key, r, rows if state.compiled else rows.tolist())
            keys = [inside(t, c, self.texts, True) for t, c in zip(self.keys, columns, strict=True)]
        elif self.key is not None:
            keys = self.kinds().none().key
        return times, keys, words[1][rows]

    def _words(self, r: int, count: int) -> list[Any]:
        """Of each key the first cell of the times that wait, and how many do."""
        state = self.engine.state
        width = state.layout.regions[r].width
        labels = [word.label for word in state.layout.regions[r].words]
        wanted = [labels.index(f"{self.node.id}.0.{end}") for end in ("head", "length")]
        return [state.rows[r][at : count * width : width] for at in wanted]

    def _tidy(self) -> None:
        """Give up keys whose state is as it was at the start and that wait for no time, now and then: they are as if
        they had never been."""
        state = self.engine.state
        r = state.layout.region_of[None]
        region, count = state.layout.regions[r], int(state.meta[state.region_at(r)])
        if self.key is None or self.node.any_object or count <= 2 * self._tidied + _SOME:
            return
        held = np.asarray(self._words(r, count)[1], dtype=np.int64) > 0
        for at, word in enumerate(region.words):
            if word.label.split(".")[0] == "state":
                column = state.rows[r][at : count * region.width : region.width]
                if state.compiled:  # the bits, also those of floats
                    held |= column != state.templates[r][at]
                else:
                    held |= np.array([repr(v) != repr(state.templates[r][at]) for v in column], dtype=np.bool_)
        rows = np.flatnonzero(held)
        self._tidied = state.keep_rows(r, rows if state.compiled else rows.tolist())

    def _in_order(self, flow: Flow) -> Flow:
        """By time and key; of one time and key as they were put out."""
        if len(flow) < 2:
            return flow
        words = [numbers(t, c, self.texts) for t, c in zip(self.keys, flow.key, strict=True)]
        return flow.at(order_by([flow.time, *words]))
