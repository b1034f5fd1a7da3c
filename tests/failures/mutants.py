# ruff: noqa: N803, N806 - the paper's letters
"""Rules, sinks and micro-batches that are wrong in one place each: what `check.failures` must be able to refute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from pellucid.failures.checker.microbatch import BatchStep, MicroBatch, Query
from pellucid.failures.checker.system import Observation, Rules, Taking, Unaligned, UnalignedRules
from pellucid.failures.model import (
    BD,
    EV,
    FL,
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
    TraceStep,
    f_recover,
    lcs,
    s_step,
)

Steps = list[tuple[TraceStep, Configuration]]


class _Changed(Rules):
    """Rules whose steps or recovery are not the paper's."""

    paper_recovery = False

    def settled(self, c: Configuration, p: str) -> bool:
        return False

    def held_up(self, c: Configuration, p: str) -> bool:
        return False


class NoAlignment(_Changed):
    """A task does not wait for the borders of its other inputs: the first one makes it take its snapshot."""

    name = "no-alignment"

    def steps(self, c: Configuration) -> Steps:
        found: Steps = []
        for p, s, m in _heads(c):
            state, task = c.Sigma[p], c.Pi[p]
            assert isinstance(state.volatile, Normal)
            e, v = state.volatile.e, state.volatile.v
            X: Actions
            if isinstance(m.d, EV) and m.e <= e:
                after, outputs = task.f(v, m.d.w)
                X = (Consume(s, m.e, m.d), *(Produce(task.output, e, EV(o)) for o in outputs))
                _add(found, IEvent, c, p, X, State(state.archive, Normal(e, after)))
            elif m.d is BD and m.e == e:
                X = (Consume(s, e, BD), Produce(task.output, e, BD))
                _add(found, IBorder, c, p, X, State(state.archive.updated({e: v}), Normal(e + 1, v)))
            elif m.d is BD and m.e < e:  # a late border: nobody waits for it any more
                _add(found, IBorder, c, p, (Consume(s, m.e, BD),), state)
        return found


class _Pair(NamedTuple):
    before: object  # the state before the last event
    now: object


class EarlySnapshot(_Changed):
    """The snapshot of an epoch is the state before the epoch's last event."""

    name = "early-snapshot"
    paper_recovery = True

    def start(self, c: Configuration) -> Configuration:
        both = {p: _Pair(state.archive[0], state.archive[0]) for p, state in c.Sigma.items()}
        return dataclasses.replace(c, Sigma=Map({p: State(Map({0: v}), Normal(1, v)) for p, v in both.items()}))

    def steps(self, c: Configuration) -> Steps:
        found: Steps = []
        for p, s, m in _heads(c):
            state, task = c.Sigma[p], c.Pi[p]
            assert isinstance(state.volatile, Normal)
            e, v = state.volatile.e, state.volatile.v
            if isinstance(m.d, EV) and m.e == e:
                after, outputs = task.f(v.now, m.d.w)
                X: Actions = (Consume(s, e, m.d), *(Produce(task.output, e, EV(o)) for o in outputs))
                _add(found, IEvent, c, p, X, State(state.archive, Normal(e, _Pair(v.now, after))))
            elif m.d is BD and s == task.inputs[0]:  # once for all inputs
                X = (*(Consume(i, e, BD) for i in task.inputs), Produce(task.output, e, BD))
                archive = state.archive.updated({e: _Pair(v.before, v.before)})
                _add(found, IBorder, c, p, X, State(archive, Normal(e + 1, _Pair(v.now, v.now))))
        return found


class BorderBeforeSnapshot(_Changed):
    """I-BORDER in two steps: the border goes on; the snapshot is stored later, of the state as it then is."""

    name = "border-before-snapshot"
    paper_recovery = True

    def steps(self, c: Configuration) -> Steps:
        found: Steps = []
        for p, state in c.Sigma.items():
            if isinstance(state.volatile, Normal) and max(state.archive) < state.volatile.e - 1:
                stored = State(state.archive.updated({state.volatile.e - 1: state.volatile.v}), state.volatile)
                _add(found, IBorder, c, p, (), stored)
        for label, after in super().steps(c):
            if isinstance(label, IBorder):
                before, done = c.Sigma[label.p], after.Sigma[label.p]
                if max(before.archive) < label.epoch - 1:
                    continue  # the snapshot before this one is still to be stored
                state = State(before.archive, done.volatile)
                after = dataclasses.replace(after, Sigma=after.Sigma.updated({label.p: state}))
            found.append((label, after))
        return found


class NotCommon(_Changed):
    """Recovery goes to the newest epoch that *some* task has: max in place of min in Definition 4.2."""

    name = "not-common"

    def recover(self, c: Configuration) -> Configuration | None:
        if not any(state.volatile is FL for state in c.Sigma.values()):
            return None
        e = max(max(state.archive) for state in c.Sigma.values())
        shown = frozenset(m for m in c.M if m.e <= e)
        sigma = {p: State(s.archive, Normal(e + 1, s.archive[max(s.archive)])) for p, s in c.Sigma.items()}
        numbers = {p: Map({s: sum(m.s == s for m in shown) for s in Np}) for p, Np in c.N.items()}
        return Configuration(c.Pi, Map(sigma), Map(numbers), c.D | shown, c.D)


class NotPurged(_Changed):
    """Recovery leaves the messages of discarded epochs where they are: M' = M."""

    name = "not-purged"

    def recover(self, c: Configuration) -> Configuration | None:
        after = f_recover(c)
        return dataclasses.replace(after, M=c.M) if after is not None else None


class NotReset(_Changed):
    """Recovery leaves the sequence numbers as they are: N' = N."""

    name = "not-reset"

    def recover(self, c: Configuration) -> Configuration | None:
        after = f_recover(c)
        return dataclasses.replace(after, N=c.N) if after is not None else None


class NotRecovered(_Changed):
    """Recovery forgets one task (the last, unless named): its state and numbers stay."""

    name = "not-recovered"

    def __init__(self, task: str = "") -> None:
        self.task = task

    def recover(self, c: Configuration) -> Configuration | None:
        if not any(state.volatile is FL for state in c.Sigma.values()):
            return None
        after, q = lcs(c), self.task or list(c.Pi)[-1]
        return dataclasses.replace(after, Sigma=after.Sigma.updated({q: c.Sigma[q]}), N=after.N.updated({q: c.N[q]}))


class NotCaptured(UnalignedRules):
    """The events in flight are not part of the snapshot."""

    name = "not-captured"

    def snapshot(self, taking: Taking) -> Unaligned:
        return Unaligned(taking.v, ((),) * len(taking.buffers))


class CommitBeforeSink(MicroBatch):
    """The commit log is written before the sink."""

    name = "commit-before-sink"
    order = ("planned", "computed", "stored", "committed", "sunk")

    def commit(self, at: Query, b: int) -> list[tuple[BatchStep, Query]]:
        return [(BatchStep("COMMIT", b), dataclasses.replace(at, commits=b, phase="committed"))]

    def write(self, at: Query, b: int) -> list[tuple[BatchStep, Query]]:
        done = super().write(at, b)
        return [(label, self._next(after) if after.phase == "sunk" else after) for label, after in done]


class NoOffsetLog(MicroBatch):
    """After a restart the batch is planned anew: nobody knows what it was."""

    name = "no-offset-log"

    def restarted(self, at: Query) -> Query:
        return dataclasses.replace(at, phase="idle", offsets=at.offsets[: at.commits])


class NewestState(MicroBatch):
    """A batch that is run again starts from the newest state version, which may be its own."""

    name = "newest-state"

    def version(self, at: Query, b: int) -> int:
        return max(at.store)


class Uncommitted(Observation):
    """A wrong `out`, it shows every message at once, committed or not."""

    name = "uncommitted"

    def see(self, c: Configuration, held: Any) -> Any:
        return c.M

    def tell(self, seen: Any) -> str:
        return ", ".join(sorted(map(str, seen)))


RULES: dict[str, Callable[[], Rules]] = {
    found.name: found
    for found in (
        NoAlignment,
        EarlySnapshot,
        BorderBeforeSnapshot,
        NotCommon,
        NotPurged,
        NotReset,
        NotRecovered,
        NotCaptured,
    )
}
BATCHES: dict[str, type[MicroBatch]] = {found.name: found for found in (CommitBeforeSink, NoOffsetLog, NewestState)}


def _heads(c: Configuration) -> list[tuple[str, str, Message]]:
    """The next message of every input of every task that has not failed."""
    at: dict[tuple[str, int], list[Message]] = {}
    for m in c.M:
        at.setdefault((m.s, m.n), []).append(m)
    return [
        (p, s, m)
        for p, task in c.Pi.items()
        if isinstance(c.Sigma[p].volatile, Normal)
        for s in task.inputs
        for m in at.get((s, c.N[p][s]), ())
    ]


def _add(found: Steps, rule: type[IEvent | IBorder], c: Configuration, p: str, X: Actions, state: State) -> None:
    after = s_step(c, p, (X, state))
    if after is not None:
        found.append((rule(p, c.N[p], X), after))
