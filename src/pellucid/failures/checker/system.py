"""The system that is checked: tasks, rules, sinks, and how often it may crash; explored here literally.

A `Situation` is a configuration with what the sinks hold and how many crashes may still come.  `CrashSystem.steps`
gives its successors by the literal rules, one by one, with nothing packed, remembered or left out: it is what
counterexamples are replayed on, and the yardstick for the fast search in `pellucid.failures.checker.search`.

The user's functions, called as rarely as possible and watched: is a task a function of its state and its event?

The paper assumes pure functions (section 4.3), for after a crash they are called again.  A search needs each result
once, so answers are kept by (task, state, event): what is explored is a function, whatever the task is.  Whether it
says anything about the task is another question.  Each call is made **twice**, on copies, before it is believed, and
once more at the end, in another order; what a function does meanwhile is watched (`expr.tracing.purity`).  Of
one that answers differently, or that reads a clock, draws a number or keeps something hidden, nothing is known: what
calls it is stopped by `MayDiffer`, before any answer of it is used.  So no counterexample rests on it, and it is no
matter of chance whether there is one.

>>> import time
>>> from pellucid.failures.model import Task
>>> calls = Calls({"stamp": Task(lambda v, w: (v, [(w, time.time())]), ("i",), "o")})
>>> calls.tasks["stamp"].f(0, "a")
Traceback (most recent call last):
pellucid.failures.checker.system.MayDiffer: task 'stamp': a lambda calls time.time(): after a crash it may answer
otherwise, so nothing is known of it; what it reads must come with the events, or be in its state
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pellucid.errors import Control, PellucidError, StepError, UsageError
from pellucid.failures.model import (
    BD,
    EV,
    FL,
    Actions,
    Configuration,
    Consume,
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
    f_fail,
    f_recover,
    gce,
    on_stream,
    out,
    s_step,
    steps,
)
from pellucid.internal.expr.tracing.mistakes import refuse_undefined
from pellucid.internal.expr.tracing.purity import Witness
from pellucid.internal.model import CutShort, on_time

# Sets of rules: the paper's, and room for others that differ in one place.
#
# A set of rules R says three things about configurations: which failure-free steps there are (R \ F), what a failure
# leaves, and where a recovery leads.  Here they are the literal functions of `pellucid.failures.model`;
# `UnalignedRules`, and rules of a user's own, override some of them.  Every search, replay and description asks an
# object of these rules.
#
# Three promises let a search do less: ``settled`` says when no other task can add or take away a step of a task, so
# that it commutes with the steps of others (Lemma 6.5); ``held_up``, that gce cannot pass a task's border before it is
# taken, even if the task is left out of it; ``paper_recovery``, that a recovery leads to `lcs` of the paper, which does
# not look at volatile states.  A subclass that changes a rule makes these promises itself, or they do not hold.


def _not_promised(self: Rules, c: Configuration, p: str) -> bool:
    return False


class Rules:
    """The paper's rules I (Definition 6.6).

    >>> from pellucid.failures.model import Task, initial
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> [str(label) for label, _ in Rules().steps(c)]
    ['I-EVENT t  -i ⟨1, EV(1)⟩  +o ⟨1, EV(1)⟩']
    """

    name = "aligned"
    paper_recovery = True

    def __init_subclass__(cls) -> None:
        """A promise is about the rules of the class that makes it: one that changes a rule makes its promises itself,
        or none."""
        super().__init_subclass__()
        own = vars(cls)
        if not {"start", "steps", "fail", "recover"} & own.keys():
            return
        if "recover" in own and "paper_recovery" not in own:
            cls.paper_recovery = False
        for promise in ("settled", "held_up"):
            if promise not in own:
                setattr(cls, promise, _not_promised)

    def start(self, c: Configuration) -> Configuration:
        """The initial configuration as these rules need it."""
        return c

    def steps(self, c: Configuration) -> list[tuple[TraceStep, Configuration]]:
        """The failure-free steps, I \\ F.  Each depends only on one task and the messages on its streams."""
        return steps(c, failures=False)

    def settled(self, c: Configuration, p: str) -> bool:
        """Whether no step of another task can change which steps p has: every input has its next message."""
        at = {(m.s, m.n) for m in c.M}
        return all((s, c.N[p][s]) in at for s in c.Pi[p].inputs)

    def held_up(self, c: Configuration, p: str) -> bool:
        """Whether some other task cannot finish an epoch before p has: one that reads from p."""
        return any(c.Pi[p].output in task.inputs for task in c.Pi.values())

    def fail(self, c: Configuration, p: str) -> Configuration:
        """F-FAIL in the whole."""
        after = s_step(c, p, f_fail(c.Pi[p], c.Sigma[p]))
        assert after is not None
        return after

    def recover(self, c: Configuration) -> Configuration | None:
        """F-RECOVER; None where no task has failed."""
        return f_recover(c)


class NotReplayable(Rules):
    """A source that cannot be replayed: an event that was read before the recovery is gone; borders are recreated.

    A socket, a queue that forgets.  The events that are left move up, so that numbers stay without gaps.
    """

    paper_recovery = False

    def __init__(self, base: Rules) -> None:
        self.base = base
        self.name = f"{base.name}, source not replayable"

    def start(self, c: Configuration) -> Configuration:
        return self.base.start(c)

    def steps(self, c: Configuration) -> list[tuple[TraceStep, Configuration]]:
        return self.base.steps(c)

    def settled(self, c: Configuration, p: str) -> bool:
        return self.base.settled(c, p)

    def held_up(self, c: Configuration, p: str) -> bool:
        return self.base.held_up(c, p)

    def recover(self, c: Configuration) -> Configuration | None:
        after = self.base.recover(c)
        if after is None:
            return None
        left: set[Message] = set()
        for s in input_streams(c):
            read = max((Np[s] for Np in c.N.values() if s in Np), default=0)
            kept = max((Np[s] for Np in after.N.values() if s in Np), default=0)
            stay = [m for m in sorted(c.D, key=lambda m: m.n) if m.s == s and (m.d is BD or m.n < kept or m.n >= read)]
            left |= {Message(n, s, m.e, m.d) for n, m in enumerate(stay)}
        D = frozenset(left)
        return dataclasses.replace(after, M=(after.M - c.D) | D, D=D)


def input_streams(c: Configuration) -> tuple[str, ...]:
    """The streams that no task produces, in the order in which they are read; last, those that are not read."""
    made = {task.output for task in c.Pi.values()}
    read = [s for task in c.Pi.values() for s in task.inputs if s not in made]
    return tuple(dict.fromkeys([*read, *sorted({m.s for m in c.D})]))


def sink_streams(c: Configuration) -> tuple[str, ...]:
    """The streams that no task reads: what the outside gets."""
    read = {s for task in c.Pi.values() for s in task.inputs}
    return tuple(task.output for task in c.Pi.values() if task.output not in read)


# Unaligned snapshots (section 7, as in Flink): no task waits for borders; a snapshot holds the events in flight
# instead.
#
# A task's value is `Unaligned(v, buffers, taking)`.  A border of its epoch may be taken as soon as it is *somewhere* in
# the unread part of a stream between tasks, before the events in front of it.  These events are in flight: they are
# consumed into the task's own buffer, and are processed later.  A source has no events in flight, for it can be read
# again: its log is read in order, and a task that reads from sources begins its snapshot when each of them is at its
# border, and takes these borders at once.  (Else an event of a source that was noted could, after a recovery only, be
# put off to a later epoch.)  The first border of an epoch makes the task note its state and pass the border on at once;
# what it still takes from the other inputs before their borders is processed **and** noted.  With the last border the
# snapshot is complete and goes into the archive: the state and, for each input, the events in flight.
#
# So an event of epoch e may have its outputs in epoch e + 1: outputs are of the epoch that their task is in.  A task
# that is taking a snapshot starts no other.  `lcs` stays as the paper has it: a(gce) is the state with its buffers.

# ruff: noqa: N806 - the paper's letters


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


# What the outside sees: sinks, and observability functions (Definition 5.3).
#
# A sink is part of the system.  ``transactional`` shows an epoch when it is complete everywhere: this is the paper's
# `out` (Definition 4.3), a function of the configuration.  ``idempotent`` and ``append`` write at once, to a place that
# no recovery takes back: what they hold is a part of its own beside the configuration.  ``idempotent`` writes the i-th
# event of an epoch under (epoch, i), so a replay overwrites; ``append`` adds a row each time.
#
# An observability function of one's own takes a `Configuration` and gives a value that can be hashed.

Held = Map[str, Any]  # what each sink holds, by its stream


class Observation:
    """What is seen; ``durable`` sinks hold something that is no part of the configuration."""

    name = ""
    durable = False

    def empty(self) -> Any:
        """What a sink holds at the start."""
        return ()

    def write(self, held: Any, message: Message, before: frozenset[Message]) -> Any:
        """What a sink holds after this message was produced on its stream, on which ``before`` was already."""
        return held

    def see(self, c: Configuration, held: Held) -> Hashable:
        """The observation."""
        return held

    def tell(self, seen: Any) -> str:
        """The observation in words."""
        return repr(seen)


class Transactional(Observation):
    """The paper's `out`: all messages of epochs that every task has completed.

    >>> from pellucid.failures.model import Task, initial
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> Transactional().see(c, Map())
    frozenset()
    """

    name = "transactional"

    def see(self, c: Configuration, held: Held) -> Hashable:
        return out(c)

    def tell(self, seen: Any) -> str:
        return _messages(seen)


class Append(Observation):
    """Rows are added as they come.

    >>> Append().write(("a",), Message(1, "o", 1, EV("b")), frozenset())
    ('a', 'b')
    """

    name = "append"
    durable = True

    def write(self, held: Any, message: Message, before: frozenset[Message]) -> Any:
        return (*held, message.d.w) if isinstance(message.d, EV) else held

    def tell(self, seen: Any) -> str:
        return "; ".join(f"{s}: {', '.join(map(repr, rows)) or 'nothing'}" for s, rows in seen.items())


class Idempotent(Observation):
    """The i-th event of an epoch is written under (epoch, i): the same key is the same row.

    >>> first = Idempotent().write((), Message(0, "o", 1, EV("a")), frozenset())
    >>> first, Idempotent().write(first, Message(0, "o", 1, EV("b")), frozenset())
    (((1, 0, 'a'),), ((1, 0, 'b'),))
    """

    name = "idempotent"
    durable = True

    def write(self, held: Any, message: Message, before: frozenset[Message]) -> Any:
        if not isinstance(message.d, EV):
            return held
        nth = len({m.n for m in before if m.e == message.e and m.n < message.n and isinstance(m.d, EV)})
        others = [row for row in held if row[:2] != (message.e, nth)]
        return tuple(sorted([*others, (message.e, nth, message.d.w)], key=lambda row: row[:2]))

    def tell(self, seen: Any) -> str:
        rows = (
            f"{s}: " + (", ".join(f"({e}, {i}) {w!r}" for e, i, w in held) or "nothing") for s, held in seen.items()
        )
        return "; ".join(rows)


class Own(Observation):
    """An observability function of the user's own."""

    name = "own"

    def __init__(self, function: Callable[[Configuration], Hashable]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", "observe")

    def see(self, c: Configuration, held: Held) -> Hashable:
        return self.function(c)


SINKS = {sink.name: sink for sink in (Transactional, Idempotent, Append)}


def _messages(seen: frozenset[Message]) -> str:
    """Messages by stream, in their order."""
    by: dict[str, list[Message]] = {}
    for m in sorted(seen, key=lambda m: (m.s, m.n)):
        by.setdefault(m.s, []).append(m)
    told = []
    for s, messages in by.items():
        rows = " ".join(f"{m.d.w!r}" if isinstance(m.d, EV) else "|" for m in messages)
        told.append(f"{s}: {rows}")
    return "; ".join(told) or "nothing"


Answer = tuple[Any, tuple[Any, ...]]
MOST_OUTPUTS = 10_000  # of one call: a search keeps each as a message, so a call that gives more gives without end
MORE_CALLS = 20  # of what cannot be looked into, such as a library in C


class MayDiffer(Exception):  # noqa: N818 - no error: it is not known
    """A task need not answer after a crash as it did before."""


class Calls:
    """The answers of every task's function; ``tasks`` are the tasks with them."""

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self._real = dict(tasks)
        self._answers: dict[str, dict[tuple[Any, Any], Answer]] = {p: {} for p in tasks}
        self._watched: dict[str, Sequence[tuple[str, Witness]]] = {}  # the functions behind each, by their names
        self._run: dict[str, Callable[[Any, Any], Answer]] = {}
        for p, task in tasks.items():
            whole = partial(_whole, p)
            inside: Sequence[tuple[str, Witness]] | None = getattr(task.f, "watched", None)  # of steps of a pipeline
            witness = Witness(task.f, whole)
            self._watched[p] = [(f"task {p!r}: {_name(task.f)}", witness)] if inside is None else inside
            self._run[p] = witness.call if inside is None else _then(whole, task.f)
        self.tasks = Map({p: Task(self._function(p), t.inputs, t.output) for p, t in tasks.items()})
        self.count = 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What one assumes who believes these answers."""
        said = [
            text
            for watched in self._watched.values()
            for name, witness in watched
            for text in witness.assumptions(name.rpartition(": ")[2])
        ]
        return tuple(dict.fromkeys(said))

    @property
    def silent(self) -> tuple[str, ...]:
        """The tasks that gave nothing in any call."""
        return tuple(p for p, answers in self._answers.items() if not any(outputs for _, outputs in answers.values()))

    def ask_again(self) -> None:
        """Call everything once more, in another order: what is hidden may have moved meanwhile."""
        for p, answers in self._answers.items():
            for (v, w), known in reversed(list(answers.items())):
                self._same(p, v, w, known, self._call(p, v, w))

    def _function(self, p: str) -> Callable[[Any, Any], Answer]:
        answers = self._answers[p]

        def f(v: Any, w: Any) -> Answer:
            known = answers.get((v, w))
            if known is None:
                first = self._call(p, v, w)
                self._same(p, v, w, first, self._call(p, v, w))
                if any(witness.doubts for _, witness in self._watched[p]):  # a coin may fall the same way twice
                    for _ in range(MORE_CALLS):
                        self._same(p, v, w, first, self._call(p, v, w))
                if isinstance(first, PellucidError):
                    raise first
                known = answers[v, w] = first
            return known

        f.__name__ = getattr(self._real[p].f, "__name__", "f")
        return f

    def _same(self, p: str, v: Any, w: Any, first: Answer | PellucidError, second: Answer | PellucidError) -> None:
        for name, witness in self._watched[p]:
            if witness.fickle:
                raise MayDiffer(
                    f"{name} {witness.fickle[0]}: after a crash it may answer otherwise, so nothing is known of it; "
                    "what it reads must come with the events, or be in its state"
                )
        if repr(first) != repr(second) and (isinstance(first, PellucidError) or first != second):  # nan is not nan
            raise MayDiffer(
                f"task {p!r} is not a function of its state and event: f({v!r}, {w!r}) gave {_told(first)} and then "
                f"{_told(second)}"
            )

    def _call(self, p: str, v: Any, w: Any) -> Answer | PellucidError:
        """What the task answers; a failure is an answer, too: one that fails now and then is no function."""
        self.count += 1
        try:
            given = copy.deepcopy((v, w))
        except Exception:  # a value that cannot be copied is given as it is
            given = (v, w)
        try:
            answer = self._run[p](*given)
        except (CutShort, UsageError, Control, KeyboardInterrupt):
            raise
        except PellucidError as error:
            refuse_undefined(error, f"task {p!r}")
            return error
        except BaseException as error:
            refuse_undefined(error, f"task {p!r}")
            failed = StepError(f"task {p!r} failed on f({v!r}, {w!r}): {type(error).__name__}: {error}", step=p)
            failed.__cause__ = error
            return failed
        try:
            hash(answer)
        except TypeError:
            raise UsageError(
                f"task {p!r}: f({v!r}, {w!r}) gave ({answer[0]!r}, {list(answer[1])!r}), which cannot be hashed: "
                "a search compares states; use tuples and frozensets instead of lists, dicts and sets"
            ) from None
        return answer


def _name(f: Callable[..., Any]) -> str:
    name = getattr(f, "__name__", type(f).__name__)
    return "a lambda" if name == "<lambda>" else f"{name}()"


def _then(g: Callable[[Any], Answer], f: Callable[..., Any]) -> Callable[..., Answer]:
    return lambda *args: g(f(*args))


def _whole(p: str, answer: Any) -> Answer:
    """A task's answer with its outputs, which may be a generator: asked one by one, for they need not end."""
    if not isinstance(answer, Sequence) or isinstance(answer, str) or len(answer) != 2:
        raise UsageError(f"task {p!r} must give (state, [outputs]), found {answer!r}")
    outputs: list[Any] = []
    if not isinstance(answer[1], Iterable):
        raise UsageError(f"task {p!r} must give (state, [outputs]), found {answer!r}")
    try:
        for output in answer[1]:
            if len(outputs) == MOST_OUTPUTS:
                raise CutShort(f"the limit of {MOST_OUTPUTS:,} outputs was reached")
            on_time()
            outputs.append(output)
    except CutShort as cut:
        raise CutShort(f"{cut} while task {p!r} gave its outputs for one event (do they end?)") from None
    return answer[0], tuple(outputs)


def _told(answer: Answer | PellucidError) -> str:
    return str(answer) if isinstance(answer, PellucidError) else f"({answer[0]!r}, {list(answer[1])!r})"


@dataclass(frozen=True, slots=True)
class Situation:
    """A configuration and what surrounds it."""

    c: Configuration
    held: Map[str, Any]  # of every durable sink
    crashes: int  # how many may still come


class CrashSystem:
    """An initial configuration under a set of rules, seen through an observation.

    >>> from pellucid.failures.model import Task, initial
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> system = CrashSystem(c, crashes=1)
    >>> [str(label) for label, _ in system.steps(system.start())]
    ['I-EVENT t  -i ⟨1, EV(1)⟩  +o ⟨1, EV(1)⟩', 'F-FAIL t']
    """

    def __init__(
        self,
        c: Configuration,
        *,
        crashes: int,
        rules: Rules | None = None,
        observation: Observation | None = None,
        sinks: Sequence[str] | None = None,
    ) -> None:
        self.rules = rules if rules is not None else Rules()
        self.observation = observation if observation is not None else Transactional()
        self.crashes = crashes
        self.calls = Calls(c.Pi)
        self.c = self.rules.start(dataclasses.replace(c, Pi=self.calls.tasks))
        self.inputs = input_streams(c)
        self.sinks = tuple(sinks) if sinks is not None else sink_streams(c)
        self.last = max((m.e for m in c.D), default=0)  # the last epoch of the input

    def start(self, *, crashes: int | None = None) -> Situation:
        """Before the first step."""
        held = Map({s: self.observation.empty() for s in self.sinks} if self.observation.durable else {})
        return Situation(self.c, held, self.crashes if crashes is None else crashes)

    def steps(self, at: Situation, *, failures: bool = True) -> list[tuple[TraceStep, Situation]]:
        """All steps from here; a task that has failed already does not fail again, for that changes nothing."""
        c = at.c
        found: list[tuple[TraceStep, Situation]] = []
        for label, after in self.rules.steps(c):
            found.append((label, Situation(after, written(self, c, label, at.held), at.crashes)))
        if failures and at.crashes:
            for p in c.Pi:
                if c.Sigma[p].volatile is not FL:
                    found.append((FFail(p), dataclasses.replace(at, c=self.rules.fail(c, p), crashes=at.crashes - 1)))
        recovered = self.rules.recover(c) if failures else None
        if recovered is not None:
            found.append((FRecover(), dataclasses.replace(at, c=recovered)))
        return found

    def see(self, at: Situation) -> Hashable:
        """What is observed."""
        return self.observation.see(at.c, at.held)

    def complete(self, at: Situation) -> bool:
        """Whether every input epoch is in the output (Theorem 6.10)."""
        return gce(at.c) >= self.last


def written(system: CrashSystem, c: Configuration, label: TraceStep, held: Map[str, Any]) -> Map[str, Any]:
    """What the sinks hold after a step of a task."""
    if not held or isinstance(label, FFail | FRecover):
        return held
    numbers, changed = dict(label.N), dict[str, Any]()
    there: dict[str, set[Message]] = {}
    for x in label.X:
        n = numbers[x.s]
        numbers[x.s] = n + 1
        if isinstance(x, Produce) and x.s in held:
            message = Message(n, x.s, x.e, x.d)
            on = there.setdefault(x.s, set(on_stream(c.M, x.s)))
            changed[x.s] = system.observation.write(changed.get(x.s, held[x.s]), message, frozenset(on))
            on.add(message)
    return held.updated(changed) if changed else held
