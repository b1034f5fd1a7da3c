# ruff: noqa: N803, N806 - the paper's letters
"""Valid initial configurations, Definition 6.8: acyclic tasks, states and numbers at the start, well-formed inputs.

Each thing that can be wrong has its own message.  What "well-formed" means the paper does not say; the docstring of
`pellucid.failures.model` lists our choices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pellucid.errors import CycleError, DataError, PipelineError, UsageError
from pellucid.failures.model.syntax import BD, EV, Configuration, Data, Map, Message, Normal, State, Task


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
            raise DataError(f"task {reader!r} reads stream {s!r}, which nobody produces and no input is given for")
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
