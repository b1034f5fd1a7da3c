r"""The explanation of a faulty trace: the four steps of the proof of Theorem 6.9, carried out and checked.

Given a trace Z valid from c, there is a failure-free trace Z' from c that shows the same:

1. *split* Z at its recoveries into generations;
2. *reorder* each generation: first the steps of epochs up to the greatest common epoch e at its end, then the others;
3. *discard* the others, the failures and the recovery;
4. *concatenate* what is left.

Every configuration of Z maps to the one after the closest committing border before it (a border that raises the
greatest common epoch), wherever that step now stands in Z'; before the first commit, to the first configuration.

It takes time linear in the trace.  Z and Z' are replayed side by side (`stepwise`): each step must be valid where it
stands, each commit must commit the same epoch in both, and after each generation what Z' has reached must be the latest
common snapshot of what Z had reached.  ``literally=True`` checks each of the four steps on whole configurations with
the definitions of `model` instead.  Where a step fails, `NotExplained` says at which step of Z and why.

What does not work as printed: ``epoch(x)`` is not defined for F-FAIL and F-RECOVER (here: such steps are always
discarded); ``gce(g_{|g|-1})`` takes a step where it needs a configuration, and an empty generation has none (here: the
generation's last configuration, which is its first if it is empty); the last generation may end without a recovery and
without a failure, and then the filter throws away its steps after the last commit although nothing failed (here as
printed: nothing of them can be observed).  Definition 5.2 asks for C_{i-1} at i = 0.  Observations are those of
``out``, which also shows the input streams up to the greatest common epoch; so the message that Theorem 6.10 finds in
the output may be the input message itself.  Lemma 5.7 (an explanation can always be made monotone) needs one partial
order for both observability functions: with a ⊑ b on one side and b ⊑ a on the other it is false; here both are ``out``
with ⊆.

>>> from pellucid.failures.model import Task, initial
>>> from pellucid.failures.model.notation import read
>>> c = initial({"t": Task(lambda v, w: (v + w, [v + w]), ("i",), "o")}, {"i": [[1], [2, 3]]}, {"t": 0})
>>> found = explain(read("t t| t t t! ^ t t t|", c), c)
>>> print(found)
explained: 5 of 9 steps remain, in 2 generations
generation 0: steps 0-5, recovery to epoch 1 by step 5; 2 kept, discarded: 2 (I-EVENT t of epoch 2), 3 (I-EVENT t of
epoch 2), 4 (F-FAIL t)
generation 1: steps 6-8, ends after epoch 2; 3 kept, discarded: none
>>> found.steps, found.mapping
((0, 1, 6, 7, 8), (0, 0, 2, 2, 2, 2, 2, 2, 2, 5))

Traces (Failure Transparency in Stateful Dataflow Systems, 2024, section 6.1): application, validity, causal order,
and what a permutation may change.

A trace is a sequence of steps, each a short form of a derivation (Definition 6.1: `IEvent`, `IBorder`, `FFail`,
`FRecover`).  Applied to a configuration it gives an execution (6.2), if every step can be derived where it stands
(6.3). `apply_trace` does this with the rules of `model`, literally; `stepwise` does the same in linear time.

The causal order (6.4) is made of few edges: a step follows the step before it on the same task, the steps that
produced what it consumes, and the recovery before it; a recovery follows the last step of each task.  Everything
else is their transitive closure.  A permutation that keeps the edges keeps the order, and by Lemma 6.5 it is valid and
ends in the same configuration.

>>> from pellucid.failures.model import Task, initial
>>> from pellucid.failures.model.notation import read
>>> copy = lambda v, w: (v, [w])
>>> c = initial({"a": Task(copy, ("i",), "m"), "b": Task(copy, ("m",), "o")}, {"i": [[1]]}, {"a": 0, "b": 0})
>>> Z = read("a! ^ a b a| b|", c)
>>> print(*Z, sep="\n")
F-FAIL a
F-RECOVER
I-EVENT a  -i ⟨1, EV(1)⟩  +m ⟨1, EV(1)⟩
I-EVENT b  -m ⟨1, EV(1)⟩  +o ⟨1, EV(1)⟩
I-BORDER a  -i ⟨1, BD⟩  +m ⟨1, BD⟩
I-BORDER b  -m ⟨1, BD⟩  +o ⟨1, BD⟩
>>> CausalOrder(Z).edges
[(), (0,), (1,), (1, 2), (2,), (3, 4)]

The rules of `model`, step by step on one configuration that changes in place: a trace is replayed in linear time.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.errors import DataError, UsageError
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
    Messages,
    Normal,
    Produce,
    State,
    Task,
    TraceStep,
    f_fail,
    f_recover,
    gce,
    i_border,
    i_event,
    lcs,
    out,
    s_step,
    valid_initial,
)

# ruff: noqa: N803, N806 - the paper's letters


Trace = Sequence[TraceStep]


@dataclass(frozen=True)
class TraceFault:
    """The first step that cannot be taken where it stands: its position, what kind of fault, and why, in words.

    Kinds: ``task`` (no such task), ``failed`` (the task has failed and was not recovered), ``recover`` (nothing has
    failed), ``shape`` (the actions are not those of the rule), ``numbers`` (other sequence numbers than the task has),
    ``unsent`` (consumes what was not sent), ``altered`` (consumes another message than was sent), ``epoch`` (of another
    epoch than the task's), ``alignment`` (a border not from every input), ``outputs`` (other outputs than the function
    gives).
    """

    at: int
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"step {self.at}: {self.reason}"


class InvalidTrace(DataError):  # noqa: N818 - reads as what it is
    """A trace is not valid from its configuration; ``fault`` tells where and why."""

    def __init__(self, fault: TraceFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def apply_trace(Z: Trace, c: Configuration) -> list[Configuration]:
    """Z(c), Definition 6.2: the configurations of the execution, one more than steps; `InvalidTrace` if Z is not valid.

    >>> from pellucid.failures.model import Task, gce, initial, steps
    >>> c = initial({"t": Task(lambda v, w: (v, []), ("i",), "o")}, {"i": [[]]}, {"t": 0})
    >>> [gce(after) for after in apply_trace([label for label, _ in steps(c)[:1]], c)]
    [0, 1]
    """
    C = [c]
    for at, z in enumerate(Z):
        after = _apply_step(C[-1], z)
        if isinstance(after, tuple):
            raise InvalidTrace(TraceFault(at, *after))
        C.append(after)
    return C


def _apply_step(c: Configuration, z: TraceStep) -> Configuration | tuple[str, str]:
    """The configuration after the step, or the kind of its fault and why."""
    if isinstance(z, FRecover):
        return f_recover(c) or ("recover", "F-RECOVER, but no task has failed")
    if z.p not in c.Pi:
        return "task", f"there is no task {z.p!r}: there are {', '.join(c.Pi)}"
    task, state = c.Pi[z.p], c.Sigma[z.p]
    if isinstance(z, FFail):
        after = s_step(c, z.p, f_fail(task, state))
        assert after is not None  # it has no actions
        return after
    if not isinstance(state.volatile, Normal):
        return "failed", f"{z.p} has failed and was not recovered, so it cannot take {RULE[type(z)]}"
    if fault := shape(z, task.inputs, task.output):
        return fault
    if c.N[z.p] != z.N:
        return "numbers", wrong_numbers(z, c.N[z.p])
    if z.epoch != state.volatile.e:
        return "epoch", wrong_epoch(z, state.volatile.e)
    for x in z.X:
        if isinstance(x, Consume) and Message(z.N[x.s], x.s, x.e, x.d) not in c.M:
            there = [m for m in c.M if m.s == x.s and m.n == z.N[x.s]]
            return not_there(z, x, there[0] if there else None)
    consumed = z.X[0]
    local = i_event(task, state, consumed.s, consumed.d.w) if isinstance(consumed.d, EV) else i_border(task, state)
    assert local is not None
    if local[0] != z.X:
        return "outputs", wrong_outputs(z, [x.d for x in local[0] if isinstance(x, Produce)])
    after = s_step(c, z.p, local)
    assert after is not None
    return after


# ---------------------------------------------------------------- what can be wrong with a step, in words


def shape(z: IEvent | IBorder, inputs: Sequence[str], output: str) -> tuple[str, str] | None:
    """Whether the actions are of the rule's form: (kind, reason) if not."""
    name = f"{RULE[type(z)]} of {z.p}"
    taken = [x for x in z.X if isinstance(x, Consume)]
    if not taken or any(isinstance(x, Consume) for x in z.X[len(taken) :]):
        return "shape", f"{name} must consume first and produce then"
    if odd := next((x for x in z.X if x.s not in (inputs if isinstance(x, Consume) else (output,))), None):
        word = "consumes from" if isinstance(odd, Consume) else "produces to"
        return "shape", f"{name} {word} stream {odd.s!r}, which is not its own"
    if isinstance(z, IEvent):
        if len(taken) != 1 or any(not isinstance(x.d, EV) for x in z.X):
            return "shape", f"{name} must consume one event and produce only events"
    elif [x.s for x in taken] != list(inputs):
        missing = [s for s in inputs if s not in [x.s for x in taken]]
        which = f"not from {', '.join(missing)}" if missing else "not from each input once, in the order of the inputs"
        return "alignment", f"{name} takes a border {which}: it must take one from every input at once"
    elif any(x.d != BD for x in z.X) or len(z.X) != len(taken) + 1:
        return "shape", f"{name} must consume borders and produce one border"
    if len({x.e for x in z.X}) > 1:
        return "epoch", f"{name} has actions of several epochs: {sorted({x.e for x in z.X})}"
    return None


def wrong_numbers(z: IEvent | IBorder, numbers: Mapping[str, int]) -> str:
    """Why the step's sequence numbers are not the task's."""
    s = next(s for s in [*z.N, *numbers] if z.N.get(s) != numbers.get(s))
    said, there = z.N.get(s), numbers.get(s)
    if said is None or there is None:
        return f"{RULE[type(z)]} of {z.p} has {'no ' if said is None else 'a '}number for stream {s!r}"
    why = "this step was taken before, or steps changed places"
    if said > there:
        why = "an earlier step of this task is missing"
    return f"{RULE[type(z)]} of {z.p} is at number {said} of stream {s!r}, but the task is at {there}: {why}"


def wrong_epoch(z: IEvent | IBorder, epoch: int) -> str:
    """Why the step's epoch is not the task's."""
    why = f"the border of epoch {epoch} was not taken" if z.epoch > epoch else f"epoch {z.epoch} is closed already"
    return f"{RULE[type(z)]} of {z.p} is of epoch {z.epoch}, but the task is in epoch {epoch}: {why}"


def not_there(z: IEvent | IBorder, x: Consume, there: Message | None) -> tuple[str, str]:
    """Why the message is not there: (kind, reason)."""
    n = z.N[x.s]
    if there is None:
        return "unsent", f"{z.p} consumes message {n} {x.s} ⟨{x.e}, {x.d}⟩, which was not sent before"
    return "altered", f"{z.p} consumes message {n} {x.s} ⟨{x.e}, {x.d}⟩, but what was sent is ⟨{there.e}, {there.d}⟩"


def wrong_outputs(z: IEvent | IBorder, wanted: Sequence[object]) -> str:
    """Why the step's outputs are not those of the task's function."""
    said = [x.d for x in z.X if isinstance(x, Produce)]
    return (
        f"{z.p} produces [{', '.join(map(str, said))}] from {z.X[0].d}, but its function gives "
        f"[{', '.join(map(str, wanted))}]: the trace was altered, or the function is not deterministic"
    )


# ---------------------------------------------------------------- the causal order (Definition 6.4)


class CausalOrder:
    """The causal order of a trace, as vector clocks: which step happens before which.

    >>> from pellucid.failures.model import Map
    >>> def event(p, n, m, *X): return IEvent(p, Map({f"in{p}": n, f"out{p}": m}), X)
    >>> Z = [event("a", 0, 0, Consume("ina", 1, EV(1)), Produce("outa", 1, EV(1))), FFail("b"), FRecover()]
    >>> order = CausalOrder(Z)
    >>> order.before(0, 1), order.before(0, 2), order.before(1, 2)
    (False, True, True)
    """

    def __init__(self, Z: Trace) -> None:
        self.edges: list[tuple[int, ...]] = []  # the direct predecessors of each step
        self._generation: list[int] = []
        self._task: list[str | None] = []
        self._count: list[int] = []  # the step's own number on its task in this generation, from 1
        self._clock: list[dict[str, int]] = []  # how many steps of each task happen before or at the step
        generation, recovery = 0, None
        last: dict[str, int] = {}
        producer: dict[tuple[str, int], int] = {}
        for i, z in enumerate(Z):
            self._generation.append(generation)
            if isinstance(z, FRecover):
                before = set(last.values()) | ({recovery} if recovery is not None else set())
                self.edges.append(tuple(sorted(before)))
                self._task.append(None)
                self._count.append(0)
                self._clock.append({})
                generation, recovery, last, producer = generation + 1, i, {}, {}
                continue
            before = {last[z.p]} if z.p in last else {recovery} if recovery is not None else set()
            if not isinstance(z, FFail):
                before |= {producer[place] for place in _places(z, Consume) if place in producer}
                producer |= dict.fromkeys(_places(z, Produce), i)
            self.edges.append(tuple(sorted(before)))
            clock: dict[str, int] = {}
            for j in before:
                for p, n in self._clock[j].items():
                    clock[p] = max(n, clock.get(p, 0))
            clock[z.p] = clock.get(z.p, 0) + 1
            self._task.append(z.p)
            self._count.append(clock[z.p])
            self._clock.append(clock)
            last[z.p] = i

    def before(self, i: int, j: int) -> bool:
        """Whether step i happens before step j."""
        if i >= j:
            return False
        p = self._task[i]
        if p is None or self._task[j] is None or self._generation[i] != self._generation[j]:
            return True  # a recovery is one of them or lies between them
        return self._clock[j].get(p, 0) >= self._count[i]

    def keeps(self, permutation: Sequence[int]) -> bool:
        """Whether a permutation of the steps preserves the causal order."""
        place = {i: at for at, i in enumerate(permutation)}
        if len(place) != len(self.edges) or set(place) != set(range(len(self.edges))):
            return False
        return all(place[j] < place[i] for i, before in enumerate(self.edges) for j in before)


def _places(z: IEvent | IBorder, kind: type[Consume | Produce]) -> list[tuple[str, int]]:
    """The streams and numbers of the messages that a step consumes or produces."""
    numbers, places = dict(z.N), []
    for x in z.X:
        n = numbers.get(x.s, 0)
        numbers[x.s] = n + 1
        if isinstance(x, kind):
            places.append((x.s, n))
    return places


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


# ruff: noqa: N803, N806 - the paper's letters


@dataclass(frozen=True)
class ExplainedGeneration:
    """The steps between two recoveries, by their positions in the trace."""

    start: int
    stop: int  # the recovery's position, or the trace's length
    recovered: bool  # whether a recovery ends it
    epoch: int  # the greatest common epoch at its end
    kept: tuple[int, ...]
    discarded: tuple[int, ...]

    @property
    def reordered(self) -> tuple[int, ...]:
        """The steps after the reordering: those that are kept, those that are not, the recovery."""
        return (*self.kept, *self.discarded, *([self.stop] if self.recovered else []))


@dataclass(frozen=True)
class Explanation:
    """A failure-free trace that explains a faulty one; true, as `NotExplained` is false."""

    trace: tuple[TraceStep, ...]
    start: Configuration
    generations: tuple[ExplainedGeneration, ...]
    commits: tuple[int, ...]  # the committing border steps: that of epoch 1, of epoch 2, …
    mapping: tuple[int, ...]  # for each configuration of the trace, the one of the explanation that shows the same

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps of the explanation, by their positions in the trace."""
        return tuple(i for g in self.generations for i in g.kept)

    @property
    def explaining(self) -> tuple[TraceStep, ...]:
        """Z', the failure-free trace."""
        return tuple(self.trace[i] for i in self.steps)

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        kept = sum(len(g.kept) for g in self.generations)
        lines = [f"explained: {kept:,} of {len(self.trace):,} steps remain, in {len(self.generations):,} generations"]
        for k, g in enumerate(self.generations):
            end = f"recovery to epoch {g.epoch} by step {g.stop}" if g.recovered else f"ends after epoch {g.epoch}"
            last = g.stop if g.recovered else g.stop - 1
            span = f"steps {g.start}-{last}" if last >= g.start else "no steps"
            lines.append(f"generation {k}: {span}, {end}; {len(g.kept):,} kept, discarded: {self._names(g.discarded)}")
        return "\n".join(lines)

    def _names(self, steps: Sequence[int], most: int = 5) -> str:
        if not steps:
            return "none"
        named = [f"{i} ({_short(self.trace[i])})" for i in steps[:most]]
        rest = len(steps) - most
        return ", ".join(named) + (f" and {rest:,} more" if rest > 0 else "")


@dataclass(frozen=True)
class NotExplained:
    """Why a trace has no explanation: the first step that cannot be explained, what kind of fault, and why, in words.

    Kinds are those of `pellucid.failures.model.explain.TraceFault`; ``observation`` where something else was seen than
    the explanation shows; and ``construction`` where all steps are valid and yet one of the four steps of the proof
    does not do what the theorem says.
    """

    at: int
    kind: str
    reason: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"not explained: step {self.at}: {self.reason}"


def explain(
    Z: Trace, c: Configuration, *, observed: Sequence[Messages] | None = None, literally: bool = False
) -> Explanation | NotExplained:
    """The explanation of a trace from a valid initial configuration, checked; or the first step that has none.

    ``observed``: what was seen of the output before each step and after the last, if something other than the rules
    made it (a real system, a broken protocol): then the explanation must show that, too.

    >>> from pellucid.failures.model import FFail, FRecover, Task, initial
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> explain([FFail("t"), FRecover()], c).explaining
    ()
    >>> print(explain([FRecover()], c))
    not explained: step 0: F-RECOVER, but no task has failed
    """
    Z = tuple(Z)
    try:
        found = _construct(Z, c)
        if observed is not None:
            _check_observed(found, observed)
        if literally:
            _check_literally(found)
    except _Failed as failed:
        return failed.why
    return found


class _Failed(Exception):  # noqa: N818
    def __init__(self, at: int, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.why = NotExplained(at, kind, reason)


def _short(z: TraceStep) -> str:
    if isinstance(z, FFail | FRecover):
        return str(z)
    return f"{RULE[type(z)]} {z.p} of epoch {z.epoch}"


def _construct(Z: tuple[TraceStep, ...], c: Configuration) -> Explanation:
    """The construction, with the replay of both traces side by side."""
    faulty, ideal = Stepwise(c), Stepwise(c)
    generations: list[ExplainedGeneration] = []
    commits: list[int] = []
    recommitted: list[int] = []  # the same in the explanation
    new_place: dict[int, int] = {}  # where a step stands in the explanation
    start = shown = 0  # the generation's first step; the epoch that both had reached
    stops = [i for i, z in enumerate(Z) if isinstance(z, FRecover)]
    for stop in [*stops, len(Z)]:
        recovered = stop < len(Z)
        for i in range(start, stop):  # (1) the generation is valid from where the last one ended
            before = faulty.gce
            _take(faulty, Z[i], i, "")
            if faulty.gce != before:
                commits.append(i)
        if recovered and (wrong := faulty.take(Z[stop])):
            raise _Failed(stop, *wrong)
        generation = _generation(Z, start, stop, recovered, faulty.gce)  # (2)
        generations.append(generation)
        for i in generation.kept:  # (3), (4)
            before = ideal.gce
            new_place[i] = len(new_place)
            _take(ideal, Z[i], i, "without failures and discarded steps, ")
            if ideal.gce != before:
                recommitted.append(i)
        if commits != recommitted:
            i = next(iter(set(commits) ^ set(recommitted)))
            raise _Failed(i, "construction", "it commits an epoch in the trace only, or in the explanation only")
        faulty.recover()  # of a recovered configuration: itself
        if difference := faulty.differs(ideal, shown):
            raise _Failed(
                max(stop - 1, start),
                "construction",
                f"generation {len(generations) - 1} does not end in the latest common snapshot of the trace: "
                f"{difference}",
            )
        start, shown = stop + 1, faulty.gce
    return Explanation(Z, c, tuple(generations), tuple(commits), _mapping(len(Z), commits, new_place))


def _take(run: Stepwise, z: TraceStep, i: int, where: str) -> None:
    if wrong := run.take(z):
        raise _Failed(i, "construction" if where else wrong[0], where + wrong[1])


def _generation(Z: tuple[TraceStep, ...], start: int, stop: int, recovered: bool, epoch: int) -> ExplainedGeneration:
    """Step 2: the steps of epochs up to the common one before the others; failures are among the others."""
    kept: list[int] = []
    discarded: list[int] = []
    for i in range(start, stop):
        z = Z[i]
        keep = not isinstance(z, FFail | FRecover) and z.epoch <= epoch
        (kept if keep else discarded).append(i)
    return ExplainedGeneration(start, stop, recovered, epoch, tuple(kept), tuple(discarded))


def _mapping(n: int, commits: Sequence[int], new_place: dict[int, int]) -> tuple[int, ...]:
    """For each of the n + 1 configurations: the one after the closest commit before it."""
    mapping, committing, at = [0], set(commits), 0
    for i in range(n):
        at = new_place[i] + 1 if i in committing else at
        mapping.append(at)
    return tuple(mapping)


def _check_observed(found: Explanation, observed: Sequence[Messages]) -> None:
    """Whether what was seen is what the explanation shows, at each configuration."""
    n = len(found.trace)
    if len(observed) != n + 1:
        raise UsageError(
            f"{n + 1} observations are needed for {n} steps, one before each and one after the last; found "
            f"{len(observed)}"
        )
    ideal, shown, at = Stepwise(found.start), out(found.start), 0
    for m, seen in enumerate(observed):
        if found.mapping[m] != at:
            for z in found.explaining[at : found.mapping[m]]:
                ideal.take(z)
            at, shown = found.mapping[m], out(ideal.configuration())
        if seen != shown:
            extra = sorted(map(str, seen - shown))
            what = f"shows {extra[0]}" if extra else f"does not show {min(map(str, shown - seen))}"
            where = "which the explanation does not show there" if extra else "which the explanation shows there"
            raise _Failed(
                max(m - 1, 0), "observation", f"{'after it' if m else 'before it'} the output {what}, {where}"
            )


# ---------------------------------------------------------------- the same, on whole configurations


def _check_literally(found: Explanation) -> None:
    """Each of the four steps as the proof words it, with the definitions of the model; quadratic in the trace."""
    Z, c = found.trace, found.start
    C = _apply(Z, range(len(Z)), c)
    first = c
    for k, g in enumerate(found.generations):
        steps = range(g.start, g.stop + g.recovered)
        executed = _apply(Z, steps, first)  # (1) a contiguous part of a valid trace is valid
        last = executed[len(steps) - g.recovered]  # before the recovery
        if gce(last) != g.epoch:
            raise _Failed(g.start, "construction", f"generation {k} ends with epoch {gce(last)}, not {g.epoch}")
        moved = [i - g.start for i in g.reordered]  # (2) keeps the causal order, so it is valid and ends in the same
        if not CausalOrder([Z[i] for i in steps]).keeps(moved):
            raise _Failed(g.start, "construction", f"the reordering of generation {k} breaks the causal order")
        reordered = _apply(Z, g.reordered, first)
        if reordered[-1] != executed[-1]:
            raise _Failed(g.start, "construction", f"the reordering of generation {k} ends in another configuration")
        stripped = _apply(Z, g.kept, first)  # (3) a prefix; it ends in the latest common snapshot
        if stripped[-1] != lcs(last):
            raise _Failed(
                g.start, "construction", f"generation {k}, stripped, does not end in the latest common snapshot"
            )
        if g.recovered and executed[-1] != stripped[-1]:
            raise _Failed(
                g.stop, "construction", f"the recovery of generation {k} does not go to the latest common snapshot"
            )
        first = stripped[-1]
    explaining = _apply(Z, found.steps, c)  # (4)
    if any(a > b for a, b in zip(found.mapping, found.mapping[1:], strict=False)):
        raise _Failed(0, "construction", "the mapping of observations is not monotone")
    for m, at in enumerate(found.mapping):
        if out(C[m]) != out(explaining[at]):
            raise _Failed(
                max(m - 1, 0), "construction", f"configurations {m} and {at} of the explanation show different outputs"
            )
    for i in found.commits:
        if not isinstance(Z[i], IBorder) or gce(C[i]) == gce(C[i + 1]):
            raise _Failed(i, "construction", "it is no committing border step")


def _apply(Z: Sequence[TraceStep], chosen: Sequence[int], c: Configuration) -> list[Configuration]:
    """These steps, applied in this order."""
    try:
        return apply_trace([Z[i] for i in chosen], c)
    except InvalidTrace as error:
        raise _Failed(chosen[error.fault.at], error.fault.kind, error.fault.reason) from None
