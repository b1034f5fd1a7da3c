"""The rules of `model`, step by step on one configuration that changes in place: a trace is replayed in linear time.

`model` copies a configuration at each step, which is right for a search and quadratic for a long trace.  Here a
step costs what it touches, and a recovery costs what it throws away.  It says for each step whether it can be taken
where it stands, with the same words as `trace.apply_trace`; the tests hold the two against each other.

>>> from pellucid.failures.model import FFail, FRecover, Task, initial, steps
>>> c = initial({"t": Task(lambda v, w: (v + w, [v + w]), ("i",), "o")}, {"i": [[4], [5]]}, {"t": 0})
>>> run = Stepwise(c)
>>> run.take(steps(c)[0][0]), run.take(FRecover()), run.take(FFail("t")), run.take(FRecover())
(None, ('recover', 'F-RECOVER, but no task has failed'), None, None)
>>> run.gce, run.volatile["t"], run.numbers["t"]
(0, (1, 0), {'i': 0, 'o': 0})
"""

from __future__ import annotations

from typing import Any

from pellucid.failures.model import (
    BD,
    EV,
    FL,
    RULE,
    Configuration,
    Consume,
    Data,
    FFail,
    FRecover,
    IBorder,
    IEvent,
    Map,
    Message,
    Normal,
    Produce,
    State,
    Task,
    TraceStep,
    valid_initial,
)
from pellucid.failures.model.trace import not_there, shape, wrong_epoch, wrong_numbers, wrong_outputs

Wrong = tuple[str, str]  # the kind of a fault, and the reason


class Stepwise:
    """A configuration that goes from step to step, starting from a valid initial one."""

    def __init__(self, c: Configuration) -> None:
        valid_initial(c)
        self.start = c
        self.tasks: dict[str, Task] = dict(c.Pi)
        self.produced = [task.output for task in self.tasks.values()]
        self.gce = 0
        self.volatile: dict[str, tuple[int, Any] | None] = {}
        self.archive: dict[str, list[Any]] = {}  # by epoch: archives have every epoch from 0 on
        for p, state in c.Sigma.items():
            self.volatile[p] = (1, state.archive[0])
            self.archive[p] = [state.archive[0]]
        self.numbers: dict[str, dict[str, int]] = {p: dict(numbers) for p, numbers in c.N.items()}
        self.streams: dict[str, list[tuple[int, Data]]] = {s: [] for s in self.produced}
        # by epoch e: how many messages are of epochs <= e
        self.ends: dict[str, list[int]] = {s: [0] for s in self.produced}
        for m in sorted(c.M, key=lambda m: m.n):
            self.streams.setdefault(m.s, []).append((m.e, m.d))
            ends = self.ends.setdefault(m.s, [0])
            if m.d == BD:
                ends.append(m.n + 1)
        self._stored = [len(self.tasks)]  # by epoch: how many archives have it
        self._failed: set[str] = set()

    def take(self, z: TraceStep) -> Wrong | None:
        """Take the step; or, if it cannot be taken, the kind of its fault and why (and nothing changes)."""
        if isinstance(z, FRecover):
            if not self._failed:
                return "recover", "F-RECOVER, but no task has failed"
            self.recover()
            return None
        if z.p not in self.tasks:
            return "task", f"there is no task {z.p!r}: there are {', '.join(self.tasks)}"
        if isinstance(z, FFail):
            self.volatile[z.p] = None
            self._failed.add(z.p)
            return None
        return self._step(z)

    def _step(self, z: IEvent | IBorder) -> Wrong | None:
        task, volatile, numbers = self.tasks[z.p], self.volatile[z.p], self.numbers[z.p]
        if volatile is None:
            return "failed", f"{z.p} has failed and was not recovered, so it cannot take {RULE[type(z)]}"
        if wrong := shape(z, task.inputs, task.output):
            return wrong
        if dict(z.N) != numbers:
            return "numbers", wrong_numbers(z, numbers)
        epoch, value = volatile
        if z.epoch != epoch:
            return "epoch", wrong_epoch(z, epoch)
        for x in z.X:
            if isinstance(x, Consume):
                n, stream = numbers[x.s], self.streams[x.s]
                if n >= len(stream) or stream[n] != (x.e, x.d):
                    return not_there(z, x, Message(n, x.s, *stream[n]) if n < len(stream) else None)
        if isinstance(z, IBorder):
            self._border(z, task, epoch, value)
            return None
        taken = z.X[0].d
        assert isinstance(taken, EV)
        after, outputs = task.f(value, taken.w)
        wanted = [EV(w) for w in outputs]
        if wanted != [x.d for x in z.X[1:]]:
            return "outputs", wrong_outputs(z, wanted)
        self.volatile[z.p] = (epoch, after)
        self._count(z)
        return None

    def _count(self, z: IEvent | IBorder) -> None:
        numbers = self.numbers[z.p]
        for x in z.X:
            numbers[x.s] += 1
            if isinstance(x, Produce):
                self.streams[x.s].append((x.e, x.d))

    def _border(self, z: IBorder, task: Task, epoch: int, value: Any) -> None:
        self._count(z)
        self.archive[z.p].append(value)
        self.volatile[z.p] = (epoch + 1, value)
        self.ends[task.output].append(len(self.streams[task.output]))
        if epoch == len(self._stored):
            self._stored.append(0)
        self._stored[epoch] += 1
        if epoch == self.gce + 1 and self._stored[epoch] == len(self.tasks):
            self.gce = epoch

    def recover(self) -> None:
        """Become the latest common snapshot (Definition 4.5), whether or not something has failed."""
        e = self.gce
        for s in self.produced:
            del self.streams[s][self.ends[s][e] :]
            del self.ends[s][e + 1 :]
        for p, numbers in self.numbers.items():
            del self.archive[p][e + 1 :]
            self.volatile[p] = (e + 1, self.archive[p][e])
            for s in numbers:
                numbers[s] = self.ends[s][e]
        del self._stored[e + 1 :]
        self._failed.clear()

    def differs(self, other: Stepwise, since: int) -> str | None:
        """What differs from another run of the same tasks, in words; archives and messages are compared after an
        epoch."""
        if self.gce != other.gce:
            return f"the greatest common epoch is {self.gce} there and {other.gce} here"
        for p in self.tasks:
            if self.volatile[p] != other.volatile[p]:
                return f"the state of {p} is {self.volatile[p]} there and {other.volatile[p]} here"
            if self.archive[p][since + 1 :] != other.archive[p][since + 1 :]:
                return f"the archive of {p} differs after epoch {since}"
            if self.numbers[p] != other.numbers[p]:
                return f"the sequence numbers of {p} are {self.numbers[p]} there and {other.numbers[p]} here"
        for s in self.produced:
            if self.ends[s][since:] != other.ends[s][since:]:
                return f"stream {s!r} has other epochs after {since}"
            first = self.ends[s][since]
            if self.streams[s][first:] != other.streams[s][first:]:
                return f"the messages on {s!r} differ after epoch {since}"
        return None

    def configuration(self) -> Configuration:
        """This as a configuration of `model`."""
        volatile = {p: FL if state is None else Normal(*state) for p, state in self.volatile.items()}
        sigma = {p: State(Map(enumerate(self.archive[p])), now) for p, now in volatile.items()}
        messages = frozenset(
            Message(n, s, e, d) for s, stream in self.streams.items() for n, (e, d) in enumerate(stream)
        )
        numbers = Map({p: Map(n) for p, n in self.numbers.items()})
        return Configuration(self.start.Pi, Map(sigma), numbers, messages, self.start.D)
