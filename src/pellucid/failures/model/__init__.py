"""The implementation model of Failure Transparency in Stateful Dataflow Systems (2024), section 4, literally: one
function for each rule, under the rule's name.

A configuration ⟨Π, Σ, N, M, D⟩ has tasks, their states, their sequence numbers, all messages, and the logged input.  A
task TK⟨f, S, o⟩ takes one event of its epoch (I-EVENT) or a border from every input at once (I-BORDER), or it fails
(F-FAIL); S-STEP puts such a local step into the whole.  F-RECOVER takes everything back to the latest common snapshot.
All parts are immutable and can be hashed, so a configuration is a state of a search as it stands.

Choices where the paper is silent: the first epoch is 1 and every archive begins as [0 ↦ v0] (as in Figure 10); the
inputs of a task are distinct streams and there is at least one (I-BORDER takes one border from *each*; with none it
could be taken for ever); every stream has at most one producer, and an input stream has none; all input streams have
the same epochs, each closed by its border, for otherwise a task with two of them waits for ever and Theorem 6.10 is
false.  M is a set although Figure 5 calls it a sequence: Definition 4.1 adds to it with ∪.  F-FAIL has no condition, so
a failed task may fail again, which changes nothing.  A recovery to epoch e goes on with epoch e + 1 (Definition 4.5);
Listing 2 has e, with which a task would wait for messages of an epoch that is over.  Values are compared as Python
compares them.

>>> total = Task(lambda v, w: (v + w, [v + w]), ("ints",), "sums")
>>> c = initial({"total": total}, {"ints": [[1, 2], [3]]}, {"total": 0})
>>> for _ in range(3):
...     label, c = steps(c, failures=False)[0]
...     print(label)
I-EVENT total  -ints ⟨1, EV(1)⟩  +sums ⟨1, EV(1)⟩
I-EVENT total  -ints ⟨1, EV(2)⟩  +sums ⟨1, EV(3)⟩
I-BORDER total  -ints ⟨1, BD⟩  +sums ⟨1, BD⟩
>>> c.Sigma["total"]
⟨[0 ↦ 0, 1 ↦ 3], ⟨2, 3⟩⟩
>>> c = f_recover(dict(steps(c))[FFail("total")])
>>> gce(c), [str(m) for m in sorted(on_stream(out(c), "sums"), key=lambda m: m.n)]
(1, ['0 sums ⟨1, EV(1)⟩', '1 sums ⟨1, EV(3)⟩', '2 sums ⟨1, BD⟩'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pellucid.errors import CycleError, DataError, PipelineError, UsageError

__all__ = [
    "BD",
    "EV",
    "FL",
    "RULE",
    "Actions",
    "Configuration",
    "Consume",
    "Data",
    "FFail",
    "FRecover",
    "IBorder",
    "IEvent",
    "Map",
    "Message",
    "Messages",
    "Normal",
    "Numbers",
    "Produce",
    "State",
    "Task",
    "TraceStep",
    "apply_actions",
    "f_fail",
    "f_recover",
    "gce",
    "i_border",
    "i_event",
    "initial",
    "lcs",
    "on_stream",
    "out",
    "s_step",
    "steps",
    "valid_initial",
]

# The syntax of the model (Figures 5 and 7) and the steps of traces (Definition 6.1), as immutable values.
#
# Each can be hashed and compared, and prints as the paper writes it.  `pellucid.failures.model` has the rules, and all
# of these names as well.

K = TypeVar("K")
V = TypeVar("V")


class Map(Mapping[K, V], Generic[K, V]):
    """A finite function [k ↦ t]: a mapping that cannot be changed and can be hashed (section 2.4).

    >>> a0 = Map({0: 0})
    >>> a0.updated({1: 1}), a0
    ([0 ↦ 0, 1 ↦ 1], [0 ↦ 0])
    """

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._items: dict[K, V] = dict(items)
        self._hash: int | None = None

    def updated(self, g: Mapping[K, V]) -> Map[K, V]:
        """The function update *f g*: g where g is defined, this elsewhere."""
        return Map({**self._items, **g})

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._items.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Map) and (self is other or self._items == other._items)

    def __repr__(self) -> str:
        return f"[{', '.join(f'{k} ↦ {v}' for k, v in self._items.items())}]"

    def __reduce__(self) -> Any:  # a hash of texts is of one process only
        return Map, (self._items,)


# ---------------------------------------------------------------- syntax (Figures 5 and 7)


@dataclass(frozen=True, slots=True)
class EV:
    """A normal event EV(w)."""

    w: Any

    def __repr__(self) -> str:
        return f"EV({self.w!r})"


@dataclass(frozen=True, slots=True)
class _Border:
    def __repr__(self) -> str:
        return "BD"

    def __reduce__(self) -> str:  # there is one, also after pickling
        return "BD"


BD: Final = _Border()  # an epoch border

Data = EV | _Border


@dataclass(frozen=True, slots=True)
class Message:
    """A message n s ⟨e, d⟩: number n on stream s, of epoch e."""

    n: int
    s: str
    e: int
    d: Data

    def __str__(self) -> str:
        return f"{self.n} {self.s} ⟨{self.e}, {self.d}⟩"


@dataclass(frozen=True, slots=True)
class Produce:
    """The action + s ⟨e, d⟩."""

    s: str
    e: int
    d: Data

    def __str__(self) -> str:
        return f"+{self.s} ⟨{self.e}, {self.d}⟩"


@dataclass(frozen=True, slots=True)
class Consume:
    """The action − s ⟨e, d⟩."""

    s: str
    e: int
    d: Data

    def __str__(self) -> str:
        return f"-{self.s} ⟨{self.e}, {self.d}⟩"


Actions = tuple[Produce | Consume, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """A task TK⟨f, S, o⟩ with f(v, w) = (v', outputs); f is pure and its values can be hashed."""

    f: Callable[[Any, Any], tuple[Any, Sequence[Any]]]
    inputs: tuple[str, ...]
    output: str

    def __repr__(self) -> str:
        return f"TK⟨{getattr(self.f, '__name__', 'f')}, [{', '.join(self.inputs)}], {self.output}⟩"


@dataclass(frozen=True, slots=True)
class Normal:
    """The normal volatile state ⟨e, v⟩."""

    e: int
    v: Any

    def __repr__(self) -> str:
        return f"⟨{self.e}, {self.v!r}⟩"


@dataclass(frozen=True, slots=True)
class _Failed:
    def __repr__(self) -> str:
        return "fl"

    def __reduce__(self) -> str:
        return "FL"


FL: Final = _Failed()  # the volatile state of a failed task


@dataclass(frozen=True, slots=True)
class State:
    """A task's state ⟨a, σV⟩: the archive of snapshots, which survives, and the volatile state."""

    archive: Map[int, Any]
    volatile: Normal | _Failed

    def __repr__(self) -> str:
        return f"⟨{self.archive}, {self.volatile}⟩"


Numbers = Map[str, int]  # N_p: the next number of a task on each of its streams
Messages = frozenset[Message]


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration ⟨Π, Σ, N, M, D⟩; D is the logged input M0."""

    Pi: Map[str, Task]
    Sigma: Map[str, State]
    N: Map[str, Numbers]
    M: Messages
    D: Messages

    def __hash__(self) -> int:  # Π and D are the same in all configurations of an execution
        return hash((self.Sigma, self.N, self.M))


# ---------------------------------------------------------------- trace steps (Definition 6.1): the labels of steps


@dataclass(frozen=True, slots=True)
class _TaskStep:
    p: str
    N: Numbers
    X: Actions

    def __str__(self) -> str:
        return "  ".join([f"{RULE[type(self)]} {self.p}", *map(str, self.X)])

    @property
    def epoch(self) -> int:
        """The epoch of the step: that of the messages it consumes."""
        return self.X[0].e


@dataclass(frozen=True, slots=True, repr=True)
class IEvent(_TaskStep):
    """⟨I-EVENT, p, N_p, X⟩."""

    __str__ = _TaskStep.__str__


@dataclass(frozen=True, slots=True)
class IBorder(_TaskStep):
    """⟨I-BORDER, p, N_p, X⟩."""

    __str__ = _TaskStep.__str__


@dataclass(frozen=True, slots=True)
class FFail:
    """⟨F-FAIL, p⟩."""

    p: str

    def __str__(self) -> str:
        return f"F-FAIL {self.p}"


@dataclass(frozen=True, slots=True)
class FRecover:
    """⟨F-RECOVER⟩."""

    def __str__(self) -> str:
        return "F-RECOVER"


TraceStep = IEvent | IBorder | FFail | FRecover
RULE: Final[dict[type, str]] = {IEvent: "I-EVENT", IBorder: "I-BORDER", FFail: "F-FAIL", FRecover: "F-RECOVER"}


# Valid initial configurations, Definition 6.8: acyclic tasks, states and numbers at the start, well-formed inputs.
#
# Each thing that can be wrong has its own message.  What "well-formed" means the paper does not say; the docstring of
# `pellucid.failures.model` lists our choices.

# ruff: noqa: N803, N806 - the paper's letters


def initial(
    tasks: Mapping[str, Task], inputs: Mapping[str, Sequence[Sequence[Any]]], states: Mapping[str, Any]
) -> Configuration:
    """The valid initial configuration with these inputs: for every input stream its epochs, for every epoch its events.

    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[7], []]}, {"t": 0})
    >>> [str(m) for m in sorted(c.M, key=lambda m: m.n)]
    ['0 i ⟨1, EV(7)⟩', '1 i ⟨1, BD⟩', '2 i ⟨2, BD⟩']
    """
    if set(tasks) != set(states):
        odd = sorted(set(tasks) ^ set(states))[0]
        raise UsageError(
            f"task {odd!r}: {'no initial state is given' if odd in tasks else 'a state is given, but no such task'}"
        )
    messages: list[Message] = []
    for s, epochs in inputs.items():
        n = 0
        for e, events in enumerate(epochs, 1):
            data: list[Data] = [*(EV(w) for w in events), BD]
            for d in data:
                messages.append(Message(n, s, e, d))
                n += 1
    M = frozenset(messages)
    sigma = Map({p: State(Map({0: states[p]}), Normal(1, states[p])) for p in tasks})
    numbers = Map({p: Map(dict.fromkeys((*task.inputs, task.output), 0)) for p, task in tasks.items()})
    c = Configuration(Map(tasks), sigma, numbers, M, M)
    valid_initial(c, streams=tuple(inputs))
    return c


def valid_initial(c: Configuration, *, streams: Sequence[str] = ()) -> None:
    """Refuse a configuration that is not a valid initial one, Definition 6.8, with what is wrong with it.

    ``streams``: input streams that must be there even if they have no message (and then have no epoch).

    >>> from pellucid.failures.model import FFail, steps
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[7]]}, {"t": 0})
    >>> valid_initial(c)
    >>> valid_initial(dict(steps(c))[FFail("t")])
    Traceback (most recent call last):
    pellucid.errors.PipelineError: task 't': its initial state must be ⟨[0 ↦ v], ⟨1, v⟩⟩, found ⟨[0 ↦ 0], fl⟩
    """
    if not c.Pi:
        raise PipelineError("a configuration needs at least one task")
    producers: dict[str, str] = {}
    for p, task in c.Pi.items():
        _valid_task(p, task)
        if task.output in producers:
            raise PipelineError(
                f"tasks {producers[task.output]!r} and {p!r} both produce stream {task.output!r}: "
                "a stream has at most one producer; give each task its own output"
            )
        producers[task.output] = p
    _acyclic(c.Pi, producers)
    _well_formed_inputs(c, producers, streams)
    for p, task in c.Pi.items():
        state, numbers = c.Sigma.get(p), c.N.get(p)
        if state is None or state.archive.keys() != {0} or state.volatile != Normal(1, state.archive[0]):
            raise PipelineError(f"task {p!r}: its initial state must be ⟨[0 ↦ v], ⟨1, v⟩⟩, found {state}")
        if numbers != Map(dict.fromkeys((*task.inputs, task.output), 0)):
            raise PipelineError(f"task {p!r}: its sequence numbers must be 0 for each of its streams, found {numbers}")
    if c.M != c.D:
        raise PipelineError("the messages of an initial configuration must be the logged input: M = M0")


def _valid_task(p: str, task: Task) -> None:
    if not task.inputs:
        raise PipelineError(f"task {p!r} has no input: it could take I-BORDER for ever; give it an input stream")
    if len(set(task.inputs)) < len(task.inputs):
        twice = next(s for s in task.inputs if task.inputs.count(s) > 1)
        raise PipelineError(
            f"task {p!r} reads stream {twice!r} twice: I-BORDER takes one border from each; name it once"
        )


def _acyclic(Pi: Mapping[str, Task], producers: Mapping[str, str]) -> None:
    done: set[str] = set()
    for first in Pi:
        path: list[str] = []
        stack: list[tuple[str, Iterator[str]]] = []
        at: str | None = first
        while at is not None or stack:
            if at is not None and at in path:
                loop = [*path[path.index(at) :], at]
                raise CycleError(f"the tasks form a cycle: {' → '.join(reversed(loop))}; the graph must be acyclic")
            if at is not None and at not in done:
                path.append(at)
                stack.append((at, iter([producers[s] for s in Pi[at].inputs if s in producers])))
            at = next(stack[-1][1], None) if stack else None
            if at is None and stack:
                done.add(stack.pop()[0])
                path.pop()


def _well_formed_inputs(c: Configuration, producers: Mapping[str, str], streams: Sequence[str]) -> None:
    """Every input stream is numbered 0, 1, …, with the epochs 1, 2, …, each closed by one border; all have the same."""
    by_stream: dict[str, list[Message]] = {s: [] for s in streams}
    for m in c.M:
        by_stream.setdefault(m.s, []).append(m)
    read = dict.fromkeys(s for task in c.Pi.values() for s in task.inputs)
    for s in read:
        if s not in producers and s not in by_stream:
            reader = next(p for p, task in c.Pi.items() if s in task.inputs)
            raise DataError(f"task {reader!r} reads stream {s!r}, which no task produces and no input is given for")
    last: dict[str, int] = {}
    for s, messages in by_stream.items():
        if s in producers:
            raise DataError(f"stream {s!r} is produced by task {producers[s]!r}: it cannot have input messages")
        epoch, closed = 1, True
        for n, m in enumerate(sorted(messages, key=lambda m: m.n)):
            if m.n != n:
                raise DataError(
                    f"input stream {s!r}: message number {n} is missing or there twice: numbers go 0, 1, 2, …"
                )
            if m.e < epoch:
                raise DataError(f"input stream {s!r}: message {n} is of epoch {m.e}, which was closed before")
            if m.e > epoch:
                kind = "without a border" if m.e == epoch + 1 and not closed else "missing"
                raise DataError(f"input stream {s!r}: epoch {epoch} is {kind}: message {n} is already of epoch {m.e}")
            closed = m.d is BD
            epoch += closed
        if not closed:
            raise DataError(f"input stream {s!r}: epoch {epoch} is without a border: end each epoch with BD")
        last[s] = epoch - 1
    if len(set(last.values())) > 1:
        few, many = min(last, key=last.__getitem__), max(last, key=last.__getitem__)
        raise DataError(
            f"input stream {few!r} ends with epoch {last[few]}, {many!r} with epoch {last[many]}: "
            "every input must have the same epochs (an epoch may be empty)"
        )


# ruff: noqa: N803, N806 - the paper's letters: Π, Σ, N, M, D, X


# ---------------------------------------------------------------- the streaming model (section 4.1)


def apply_actions(X: Actions, Np: Numbers, M: Messages) -> tuple[Numbers, Messages] | None:
    """Action application X(N_p, M), Definition 4.1; None where it is undefined (a message to be consumed is not there).

    >>> apply_actions((Produce("s", 1, EV(5)),), Map({"s": 0}), frozenset())
    ([s ↦ 1], frozenset({Message(n=0, s='s', e=1, d=EV(5))}))
    >>> apply_actions((Consume("s", 1, EV(5)),), Map({"s": 0}), frozenset()) is None
    True
    """
    numbers, messages = dict(Np), set(M)
    for x in X:
        n = numbers.get(x.s)
        if n is None:
            return None  # not a stream of this task
        message = Message(n, x.s, x.e, x.d)
        if isinstance(x, Produce):
            messages.add(message)
        elif message not in messages:
            return None
        numbers[x.s] = n + 1
    return Map(numbers), frozenset(messages)


LocalStep = tuple[Actions, State]  # Π_p ⊩ Σ_p --X--> Σ_p': the actions and the state after


def s_step(c: Configuration, p: str, local: LocalStep) -> Configuration | None:
    """S-STEP: a local step of task p in the whole configuration; None where its actions cannot be applied.

    >>> c = initial({"t": Task(lambda v, w: (v + w, []), ("i",), "o")}, {"i": [[7]]}, {"t": 0})
    >>> s_step(c, "t", i_event(c.Pi["t"], c.Sigma["t"], "i", 7)).Sigma["t"]
    ⟨[0 ↦ 0], ⟨1, 7⟩⟩
    >>> s_step(c, "t", i_event(c.Pi["t"], c.Sigma["t"], "i", 8)) is None
    True
    """
    X, state = local
    applied = apply_actions(X, c.N[p], c.M)
    if applied is None:
        return None
    Np, M = applied
    return Configuration(c.Pi, c.Sigma.updated({p: state}), c.N.updated({p: Np}), M, c.D)


# ---------------------------------------------------------------- the stateful dataflow model (section 4.2)


def i_event(task: Task, state: State, s: str, w: Any) -> LocalStep | None:
    """I-EVENT: take EV(w) of the current epoch from the input s; None for a failed task.

    >>> i_event(Task(lambda v, w: (v + w, []), ("s",), "o"), State(Map({0: 0}), Normal(1, 0)), "s", 4)
    ((Consume(s='s', e=1, d=EV(4)),), ⟨[0 ↦ 0], ⟨1, 4⟩⟩)
    """
    if not isinstance(state.volatile, Normal) or s not in task.inputs:
        return None
    e, v = state.volatile.e, state.volatile.v
    v_after, outputs = task.f(v, w)
    X: Actions = (Consume(s, e, EV(w)), *(Produce(task.output, e, EV(o)) for o in outputs))
    return X, State(state.archive, Normal(e, v_after))


def i_border(task: Task, state: State) -> LocalStep | None:
    """I-BORDER: take the border from every input, put the state into the archive, pass the border on.

    >>> i_border(Task(lambda v, w: (v, []), ("s",), "o"), State(Map({0: 0}), Normal(1, 7)))[1]
    ⟨[0 ↦ 0, 1 ↦ 7], ⟨2, 7⟩⟩
    """
    if not isinstance(state.volatile, Normal):
        return None
    e, v = state.volatile.e, state.volatile.v
    X: Actions = (*(Consume(s, e, BD) for s in task.inputs), Produce(task.output, e, BD))
    return X, State(state.archive.updated({e: v}), Normal(e + 1, v))


def f_fail(task: Task, state: State) -> LocalStep:
    """F-FAIL: the volatile state is lost, the archive stays.

    >>> f_fail(Task(lambda v, w: (v, []), ("s",), "o"), State(Map({0: 0}), Normal(1, 7)))
    ((), ⟨[0 ↦ 0], fl⟩)
    """
    return (), State(state.archive, FL)


def f_recover(c: Configuration) -> Configuration | None:
    """F-RECOVER: back to the latest common snapshot, if some task has failed.

    >>> c = initial({"t": Task(lambda v, w: (v + w, []), ("i",), "o")}, {"i": [[7]]}, {"t": 0})
    >>> f_recover(c) is None, f_recover(s_step(c, "t", f_fail(c.Pi["t"], c.Sigma["t"]))) == c
    (True, True)
    """
    return lcs(c) if any(state.volatile is FL for state in c.Sigma.values()) else None


def gce(c: Configuration) -> int:
    """The greatest common epoch number, Definition 4.2.

    >>> gce(initial({"t": Task(lambda v, w: (v, []), ("i",), "o")}, {"i": [[1]]}, {"t": 0}))
    0
    """
    return min(max(state.archive) for state in c.Sigma.values())


def out(c: Configuration) -> Messages:
    """The output messages, Definition 4.3: all messages of epochs up to gce(c).

    Input streams are streams, too: their messages of these epochs are part of it.

    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[]]}, {"t": 0})
    >>> out(c), sorted(str(m) for m in out(steps(c)[0][1]))
    (frozenset(), ['0 i ⟨1, BD⟩', '0 o ⟨1, BD⟩'])
    """
    e = gce(c)
    return frozenset(m for m in c.M if m.e <= e)


def on_stream(M: Iterable[Message], s: str) -> Messages:
    """M ↓ s, Definition 4.4: the messages on one stream.

    >>> on_stream([Message(0, "a", 1, BD), Message(0, "b", 1, BD)], "b")
    frozenset({Message(n=0, s='b', e=1, d=BD)})
    """
    return frozenset(m for m in M if m.s == s)


def lcs(c: Configuration) -> Configuration:
    """The latest common snapshot, Definition 4.5.

    >>> c = initial({"t": Task(lambda v, w: (v + w, [w]), ("i",), "o")}, {"i": [[5]]}, {"t": 0})
    >>> begun = steps(c)[0][1]
    >>> begun.Sigma["t"], lcs(begun).Sigma["t"], lcs(begun).N["t"]
    (⟨[0 ↦ 0], ⟨1, 5⟩⟩, ⟨[0 ↦ 0], ⟨1, 0⟩⟩, [i ↦ 0, o ↦ 0])
    """
    e, shown = gce(c), out(c)
    count: dict[str, int] = {}
    for m in shown:
        count[m.s] = count.get(m.s, 0) + 1
    sigma = {
        p: State(Map({k: v for k, v in state.archive.items() if k <= e}), Normal(e + 1, state.archive[e]))
        for p, state in c.Sigma.items()
    }
    numbers = {p: Map({s: count.get(s, 0) for s in Np}) for p, Np in c.N.items()}
    return Configuration(c.Pi, Map(sigma), Map(numbers), c.D | shown, c.D)


_places: dict[int, tuple[Messages, dict[tuple[str, int], tuple[Message, ...]]]] = {}


def _by_place(M: Messages) -> dict[tuple[str, int], tuple[Message, ...]]:
    """The messages by stream and number.

    Remembered for this very set and not for an equal one, since 3 == 3.0: the events of another pipeline are not its
    events.
    """
    known = _places.get(id(M))
    if known is not None and known[0] is M:
        return known[1]
    places: dict[tuple[str, int], tuple[Message, ...]] = {}
    for m in M:
        places[m.s, m.n] = (*places.get((m.s, m.n), ()), m)
    if len(_places) >= 128:
        _places.clear()
    _places[id(M)] = M, places
    return places


def steps(c: Configuration, *, failures: bool = True) -> list[tuple[TraceStep, Configuration]]:
    """All enabled steps of a configuration with their labels; without F-FAIL and F-RECOVER (I \\ F) if asked.

    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> [str(label) for label, after in steps(c)]
    ['I-EVENT t  -i ⟨1, EV(1)⟩  +o ⟨1, EV(1)⟩', 'F-FAIL t']
    """
    found: list[tuple[TraceStep, Configuration]] = []
    places = _by_place(c.M)
    for p, task in c.Pi.items():
        state, Np = c.Sigma[p], c.N[p]
        if isinstance(state.volatile, Normal):
            waiting = [places.get((s, Np[s]), ()) for s in task.inputs]
            for s, messages in zip(task.inputs, waiting, strict=True):
                for m in messages:
                    if isinstance(m.d, EV) and m.e == state.volatile.e:
                        _found(found, IEvent, c, p, i_event(task, state, s, m.d.w))
            if all(any(m.d is BD for m in messages) for messages in waiting):
                _found(found, IBorder, c, p, i_border(task, state))
        if failures:
            after = s_step(c, p, f_fail(task, state))
            assert after is not None
            found.append((FFail(p), after))
    recovered = f_recover(c) if failures else None
    return [*found, (FRecover(), recovered)] if recovered is not None else found


def _found(
    found: list[tuple[TraceStep, Configuration]],
    rule: type[IEvent | IBorder],
    c: Configuration,
    p: str,
    local: LocalStep | None,
) -> None:
    after = s_step(c, p, local) if local is not None else None
    if local is not None and after is not None:
        found.append((rule(p, c.N[p], local[0]), after))
