"""Micro-batches, as Spark's Structured Streaming runs them: a second system under the same question.

A batch b goes through five steps: the offset log says what it will read (OFFSETS), the job runs over it from version b
- 1 of the state store (COMPUTE), version b is written (STATE), ``foreachBatch`` writes its rows to the sink (SINK), and
  the
commit log says that it is done (COMMIT).  A CRASH may come between any two of them, and between two rows; RESTART looks
at both logs, and a batch that has offsets but no commit is run again with the same offsets.

What a batch reads is not fixed: any number of pushes may have arrived when it is planned.  In which order a task with
several inputs sees the events of a batch is not fixed, either (a shuffle keeps no order), so COMPUTE may end in every
way in which the model's failure-free rules can (`pellucid.failures.model`).  Sinks: ``append`` and ``idempotent``
(under batch and row number) write row by row; ``transactional`` writes a batch at once and remembers its number.  A
sink of one's own (`pellucid.failures.checker.system.Observation`, durable) is written row by row, the batch as the
epoch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pellucid.failures.checker.system import Calls, Observation, input_streams, sink_streams
from pellucid.failures.model import EV, Configuration, Map, Message, Normal, State, initial, steps

Rows = tuple[tuple[str, Any], ...]  # the sink's stream and the value
States = Map[str, Any]


class BatchStep(NamedTuple):
    """A step of the query."""

    rule: str
    batch: int
    what: str = ""

    def __str__(self) -> str:
        return f"{self.rule} batch {self.batch}{': ' + self.what if self.what else ''}"


@dataclass(frozen=True, slots=True)
class Query:
    """What is durable (both logs, the state store, the sink) and what a crash takes (``phase``, ``rows``,
    ``states``)."""

    offsets: tuple[int, ...]  # the offset log: where each batch ends
    commits: int  # the commit log: how many batches are done
    store: Map[int, States]  # the state store: a version for each batch
    held: Map[str, Any]  # what the sinks hold
    sunk: int  # the last batch that is in the sink as a whole
    lost: frozenset[int] = frozenset()  # pushes that no source can give again
    crashes: int = 0  # how many may still come
    phase: str = "idle"  # down, idle, planned, computed, stored, sunk, committed
    rows: Rows = ()
    wrote: int = 0  # how many of them are written
    states: States = dataclasses.field(default_factory=Map)


class MicroBatch:
    """A query over an initial configuration's tasks and input, which is cut into pushes.

    >>> from pellucid.failures.model import Task
    >>> c = initial({"sum": Task(lambda v, w: (v + w, [v + w]), ("x",), "out")}, {"x": [[1], [2]]}, {"sum": 0})
    >>> query = MicroBatch(c, sink="transactional", crashes=1)
    >>> [str(label) for label, _ in query.steps(query.start())]
    ['OFFSETS batch 1: pushes 0 to 0', 'OFFSETS batch 1: pushes 0 to 1', 'CRASH batch 1']
    """

    name = "microbatch"
    order = ("planned", "computed", "stored", "sunk", "committed")

    def __init__(
        self,
        c: Configuration,
        *,
        sink: str | Observation,
        crashes: int,
        replayable: bool = True,
        sinks: tuple[str, ...] | None = None,
    ) -> None:
        self.own = sink if isinstance(sink, Observation) else None
        self.c, self.sink, self.crashes, self.replayable = (
            c,
            sink if isinstance(sink, str) else sink.name,
            crashes,
            replayable,
        )
        self.calls = Calls(c.Pi)
        self.sinks = sinks if sinks is not None else sink_streams(c)
        self.inputs = input_streams(c)
        events = {s: [m.d.w for m in sorted(c.D, key=_number) if m.s == s and isinstance(m.d, EV)] for s in self.inputs}
        self.pushes = [
            {s: w[i] for s, w in events.items() if i < len(w)} for i in range(max(map(len, events.values()), default=0))
        ]
        self._ends: dict[tuple[States, int, int, frozenset[int]], list[tuple[States, Rows]]] = {}

    def start(self) -> Query:
        """Before the first batch."""
        states = Map({p: state.archive[0] for p, state in self.c.Sigma.items()})
        return Query(
            (),
            0,
            Map({0: states}),
            Map({s: self.own.empty() if self.own is not None else () for s in self.sinks}),
            0,
            crashes=self.crashes,
        )

    def see(self, at: Query) -> Hashable:
        """What the sinks hold."""
        return at.held if self.own is None else self.own.see(self.c, at.held)

    def complete(self, at: Query) -> bool:
        """Everything was read, and every batch is in the sink and committed."""
        read = at.offsets[at.commits - 1] if at.commits else 0
        return read == len(self.pushes) and at.sunk == at.commits == len(at.offsets)

    def steps(self, at: Query, *, failures: bool = True) -> list[tuple[BatchStep, Query]]:
        """All steps from here."""
        if at.phase == "down":
            return [(BatchStep("RESTART", at.commits + 1), self.restarted(at))]
        do: dict[str, Callable[[Query, int], list[tuple[BatchStep, Query]]]] = {
            "planned": self.plan, "computed": self.compute, "stored": self.store, "sunk": self.write,
            "committed": self.commit,
        }  # fmt: skip
        where = -1 if at.phase == "idle" else self.order.index(at.phase)
        found = do[self.order[where + 1]](at, self.number(at)) if where + 1 < len(self.order) else []
        if failures and at.crashes:
            down = dataclasses.replace(
                at, phase="down", rows=(), wrote=0, states=Map(), crashes=at.crashes - 1, lost=at.lost | self._read(at),
            )  # fmt: skip
            found.append((BatchStep("CRASH", self.number(at)), down))
        return found

    # ------------------------------------------------------------ the five steps

    def number(self, at: Query) -> int:
        """The batch at hand."""
        return at.commits + 1 if at.phase in ("idle", "down") else len(at.offsets)

    def plan(self, at: Query, _: int) -> list[tuple[BatchStep, Query]]:
        """OFFSETS: write to the log what the next batch will read."""
        start = at.offsets[-1] if at.offsets else 0
        return [
            (
                BatchStep("OFFSETS", len(at.offsets) + 1, f"pushes {start} to {end - 1}"),
                dataclasses.replace(at, offsets=(*at.offsets, end), phase="planned"),
            )
            for end in range(start + 1, len(self.pushes) + 1)
        ]

    def compute(self, at: Query, b: int) -> list[tuple[BatchStep, Query]]:
        """COMPUTE: run the tasks over the batch, in every order."""
        start = at.offsets[b - 2] if b > 1 else 0
        version = self.version(at, b)
        found = []
        for states, rows in self._run(at.store[version], start, at.offsets[b - 1], at.lost):
            what = f"from state version {version}: {', '.join(f'{w!r}' for _, w in rows) or 'no rows'}"
            found.append(
                (
                    BatchStep("COMPUTE", b, what),
                    dataclasses.replace(at, phase="computed", rows=rows, states=states, wrote=0),
                )
            )
        return found

    def version(self, at: Query, b: int) -> int:
        """The version of the state that batch b starts from."""
        return b - 1

    def store(self, at: Query, b: int) -> list[tuple[BatchStep, Query]]:
        """STATE: write version b."""
        kept = Map({**{k: v for k, v in at.store.items() if k >= b - 1}, b: at.states})
        return [(BatchStep("STATE", b, f"version {b} is stored"), dataclasses.replace(at, store=kept, phase="stored"))]

    def write(self, at: Query, b: int) -> list[tuple[BatchStep, Query]]:
        """SINK: foreachBatch writes the rows: one by one, or as one transaction."""
        if self.sink == "transactional" and self.own is None:
            if at.sunk >= b:
                return [(BatchStep("SINK", b, "was written before"), dataclasses.replace(at, phase="sunk"))]
            held = at.held
            for s, w in at.rows:
                held = held.updated({s: (*held[s], w)})
            return [
                (BatchStep("SINK", b, "all rows at once"), dataclasses.replace(at, held=held, sunk=b, phase="sunk"))
            ]
        if at.wrote == len(at.rows):
            return [(BatchStep("SINK", b, "done"), dataclasses.replace(at, sunk=max(at.sunk, b), phase="sunk"))]
        s, w = at.rows[at.wrote]
        if self.own is not None:
            same = [value for stream, value in at.rows[: at.wrote] if stream == s]
            there = frozenset(Message(i, s, b, EV(value)) for i, value in enumerate(same))
            rows = self.own.write(at.held[s], Message(len(same), s, b, EV(w)), there)
        elif self.sink == "append":
            rows = (*at.held[s], w)
        else:
            nth = sum(before == s for before, _ in at.rows[: at.wrote])
            others = [row for row in at.held[s] if row[:2] != (b, nth)]
            rows = tuple(sorted([*others, (b, nth, w)], key=lambda row: row[:2]))
        after = dataclasses.replace(at, held=at.held.updated({s: rows}), wrote=at.wrote + 1)
        return [(BatchStep("SINK", b, f"row {w!r} to {s}"), after)]

    def commit(self, at: Query, b: int) -> list[tuple[BatchStep, Query]]:
        """COMMIT: the batch is done, and the query goes on."""
        return [(BatchStep("COMMIT", b), self._next(dataclasses.replace(at, commits=b)))]

    def restarted(self, at: Query) -> Query:
        """RESTART: a batch with offsets and no commit is run again."""
        return dataclasses.replace(at, phase="planned" if len(at.offsets) > at.commits else "idle")

    def _next(self, at: Query) -> Query:
        return dataclasses.replace(at, phase="idle", rows=(), wrote=0, states=Map())

    # ------------------------------------------------------------ what a batch reads and gives

    def _read(self, at: Query) -> frozenset[int]:
        """The pushes that a crash loses."""
        if self.replayable or at.phase in ("idle", "down", "planned"):
            return frozenset()
        b = len(at.offsets)
        return frozenset(range(at.offsets[b - 2] if b > 1 else 0, at.offsets[b - 1]))

    def _run(self, states: States, start: int, end: int, lost: frozenset[int]) -> list[tuple[States, Rows]]:
        key = states, start, end, lost
        found = self._ends.get(key)
        if found is None:
            found = self._ends[key] = self._every_end(states, start, end, lost)
        return found

    def _every_end(self, states: States, start: int, end: int, lost: frozenset[int]) -> list[tuple[States, Rows]]:
        pushes = [push for i, push in enumerate(self.pushes[start:end], start) if i not in lost]
        inputs: Mapping[str, Any] = {s: [[push[s] for push in pushes if s in push]] for s in self.inputs}
        c = initial(self.calls.tasks, inputs, states)
        c = dataclasses.replace(c, Sigma=Map({p: State(Map({0: v}), Normal(1, v)) for p, v in states.items()}))
        seen, waiting = {c}, [c]
        ends: dict[tuple[States, Rows], None] = {}
        while waiting:
            at = waiting.pop()
            after = steps(at, failures=False)
            for _, then in after:
                if then not in seen:
                    seen.add(then)
                    waiting.append(then)
            if not after:
                rows = tuple(
                    (m.s, m.d.w) for m in sorted(at.M, key=_number) if m.s in self.sinks and isinstance(m.d, EV)
                )
                ends[Map({p: state.archive[1] for p, state in at.Sigma.items()}), rows] = None
        return list(ends)


def _number(m: Message) -> int:
    return m.n
