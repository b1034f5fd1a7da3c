# ruff: noqa: N803, N806 - the paper's letters
"""Traces (Failure Transparency in Stateful Dataflow Systems, 2024, section 6.1): application, validity, causal order,
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
>>> print(*Z, sep="\\n")
F-FAIL a
F-RECOVER
I-EVENT a  -i ⟨1, EV(1)⟩  +m ⟨1, EV(1)⟩
I-EVENT b  -m ⟨1, EV(1)⟩  +o ⟨1, EV(1)⟩
I-BORDER a  -i ⟨1, BD⟩  +m ⟨1, BD⟩
I-BORDER b  -m ⟨1, BD⟩  +o ⟨1, BD⟩
>>> CausalOrder(Z).edges
[(), (0,), (1,), (1, 2), (2,), (3, 4)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pellucid.errors import DataError
from pellucid.failures.model import (
    BD,
    EV,
    RULE,
    Configuration,
    Consume,
    FFail,
    FRecover,
    IBorder,
    IEvent,
    Message,
    Normal,
    Produce,
    TraceStep,
    f_fail,
    f_recover,
    i_border,
    i_event,
    s_step,
)

Trace = Sequence[TraceStep]


@dataclass(frozen=True)
class TraceFault:
    """The first step that cannot be taken where it stands: its position, what kind of fault, and why, in words.

    Kinds: ``task`` (no such task), ``failed`` (the task has failed and was not recovered), ``recover`` (nothing has
    failed), ``shape`` (the actions are not those of the rule), ``numbers`` (other sequence numbers than the task has),
    ``unsent`` (consumes what nobody sent), ``altered`` (consumes another message than was sent), ``epoch`` (of another
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
        return "unsent", f"{z.p} consumes message {n} {x.s} ⟨{x.e}, {x.d}⟩, which nobody has sent before"
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
