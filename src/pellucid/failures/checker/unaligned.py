# ruff: noqa: N806 - the paper's letters
"""Unaligned snapshots (section 7, as in Flink): nobody waits for borders; a snapshot holds the events in flight
instead.

A task's value is `Unaligned(v, buffers, taking)`.  A border of its epoch may be taken as soon as it is *somewhere* in
the unread part of a stream between tasks, before the events in front of it.  These events are in flight: they are
consumed into the task's own buffer, and are processed later.  A source has no events in flight, for it can be read
again: its log is read in order, and a task that reads from sources begins its snapshot when each of them is at its
border, and takes these borders at once.  (Else an event of a source that was noted could, after a recovery only, be put
off to a later epoch.)  The first border of an epoch makes the task note its state and pass the border on at once; what
it still takes from the other inputs before their borders is processed **and** noted.  With the last border the snapshot
is complete and goes into the archive: the state and, for each input, the events in flight.

So an event of epoch e may have its outputs in epoch e + 1: outputs are of the epoch that their task is in.  A task that
is taking a snapshot starts no other.  `lcs` stays as the paper has it: a(gce) is the state with its buffers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from pellucid.failures.checker.rules import Rules, input_streams
from pellucid.failures.model import (
    BD,
    EV,
    Actions,
    Configuration,
    Consume,
    IBorder,
    IEvent,
    Map,
    Message,
    Normal,
    Produce,
    State,
    Task,
    TraceStep,
    s_step,
)

Buffers = tuple[tuple[Any, ...], ...]  # for each input, the events in flight
Local = tuple[type[IEvent | IBorder], Actions, State]


class Taking(NamedTuple):
    """A snapshot that is being taken: the state, the events in flight so far, the inputs whose border is still to
    come."""

    v: Any
    buffers: Buffers
    waiting: frozenset[int]


class Unaligned(NamedTuple):
    """A task's value under unaligned snapshots."""

    v: Any
    buffers: Buffers
    taking: Taking | None = None


class UnalignedRules(Rules):
    """The rules with unaligned snapshots.

    >>> from pellucid.failures.model import initial
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> rules = UnalignedRules()
    >>> for label, _ in rules.steps(rules.start(c)): print(label)
    I-EVENT t  -i ⟨1, EV(1)⟩  +o ⟨1, EV(1)⟩
    """

    name = "unaligned"

    def __init__(self) -> None:
        self.sources: frozenset[str] = frozenset()

    def start(self, c: Configuration) -> Configuration:
        self.sources = frozenset(input_streams(c))
        values = {p: Unaligned(c.Sigma[p].archive[0], ((),) * len(task.inputs)) for p, task in c.Pi.items()}
        return dataclasses.replace(c, Sigma=Map({p: State(Map({0: v}), Normal(1, v)) for p, v in values.items()}))

    def steps(self, c: Configuration) -> list[tuple[TraceStep, Configuration]]:
        at = {(m.s, m.n): m for m in c.M}
        found: list[tuple[TraceStep, Configuration]] = []
        for p, task in c.Pi.items():
            state = c.Sigma[p]
            if isinstance(state.volatile, Normal):
                unread = [_unread(at, s, c.N[p][s]) for s in task.inputs]
                for j in range(len(task.inputs)):
                    for rule, X, then in (*_events(task, state, j, unread[j]), *self.borders(task, state, j, unread)):
                        after = s_step(c, p, (X, then))
                        if after is not None:
                            found.append((rule(p, c.N[p], X), after))
        return found

    def settled(self, c: Configuration, p: str) -> bool:
        return self.sources.issuperset(c.Pi[p].inputs)

    def held_up(self, c: Configuration, p: str) -> bool:
        # Others pass the first border on before their own snapshot is complete.
        return self.settled(c, p) and super().held_up(c, p)

    def borders(self, task: Task, state: State, j: int, unread: list[list[Message]]) -> Iterator[Local]:
        """The border of input j, wherever it is: what is in front of it is in flight.  The first one, with those of all
        sources."""
        assert isinstance(state.volatile, Normal)
        e, now = state.volatile.e, state.volatile.v
        taking: Taking | None = now.taking
        if taking is not None and j not in taking.waiting:
            return
        border = e if taking is None else e - 1
        sources = [k for k, s in enumerate(task.inputs) if s in self.sources] if taking is None else []
        if j in sources and j != sources[0]:
            return  # all of them at once, with the first
        taken = {*sources, j}
        ahead = {k: next((i for i, m in enumerate(unread[k]) if m.d is BD and m.e == border), None) for k in taken}
        if ahead[j] is None or any(ahead[k] != 0 for k in sources):
            return
        buffers: Buffers = now.buffers
        X: Actions = ()
        flying: tuple[Any, ...] = ()
        for k in sorted(taken):
            passed = unread[k][: (ahead[k] or 0) + 1]
            X += tuple(Consume(m.s, m.e, m.d) for m in passed)
            if k == j:
                flying = tuple(m.d.w for m in passed if isinstance(m.d, EV))
                buffers = _plus(buffers, j, flying)
        if taking is None:
            X = (*X, Produce(task.output, e, BD))
            taking, e = Taking(now.v, buffers, frozenset(range(len(task.inputs))) - taken), e + 1
        else:
            taking = Taking(taking.v, _plus(taking.buffers, j, flying), taking.waiting - {j})
        if taking.waiting:
            yield IBorder, X, State(state.archive, Normal(e, Unaligned(now.v, buffers, taking)))
            return
        archive = state.archive.updated({border: self.snapshot(taking)})
        yield IBorder, X, State(archive, Normal(e, Unaligned(now.v, buffers)))

    def snapshot(self, taking: Taking) -> Unaligned:
        """What goes into the archive."""
        return Unaligned(taking.v, taking.buffers)


class NotCaptured(UnalignedRules):
    """A mutant: the events in flight are not part of the snapshot."""

    name = "not-captured"
    wrong = "an unaligned snapshot leaves out the events in flight"

    def snapshot(self, taking: Taking) -> Unaligned:
        return Unaligned(taking.v, ((),) * len(taking.buffers))


def _events(task: Task, state: State, j: int, unread: list[Message]) -> Iterator[Local]:
    """The next event of input j: of its buffer or, if that is empty, of the stream."""
    assert isinstance(state.volatile, Normal)
    e, now = state.volatile.e, state.volatile.v
    taking: Taking | None = now.taking
    buffers: Buffers = now.buffers
    X: Actions = ()
    if buffers[j]:
        w, buffers = buffers[j][0], (*buffers[:j], buffers[j][1:], *buffers[j + 1 :])
    elif unread and isinstance(unread[0].d, EV):
        m, data = unread[0], unread[0].d
        late = taking is not None and j in taking.waiting and m.e == e - 1
        if m.e != e and not late:
            return
        w, X = data.w, (Consume(m.s, m.e, data),)
        if late and taking is not None:
            taking = Taking(taking.v, _plus(taking.buffers, j, (w,)), taking.waiting)
    else:
        return
    v, outputs = task.f(now.v, w)
    X = (*X, *(Produce(task.output, e, EV(o)) for o in outputs))
    yield IEvent, X, State(state.archive, Normal(e, Unaligned(v, buffers, taking)))


def _unread(at: dict[tuple[str, int], Message], s: str, n: int) -> list[Message]:
    found = []
    while (s, n) in at:
        found.append(at[s, n])
        n += 1
    return found


def _plus(buffers: Buffers, j: int, events: tuple[Any, ...]) -> Buffers:
    return (*buffers[:j], buffers[j] + events, *buffers[j + 1 :])
