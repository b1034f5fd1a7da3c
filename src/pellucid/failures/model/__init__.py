# ruff: noqa: N803, N806 - the paper's letters: Π, Σ, N, M, D, X
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

from collections.abc import Iterable
from typing import Any

from pellucid.failures.model.initial import initial, valid_initial
from pellucid.failures.model.syntax import (
    BD,
    EV,
    FL,
    RULE,
    Actions,
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
    Numbers,
    Produce,
    State,
    Task,
    TraceStep,
)

__all__ = [
    "BD", "EV", "FL", "RULE", "Actions", "Configuration", "Consume", "Data", "FFail", "FRecover", "IBorder",
    "IEvent", "Map", "Message", "Messages", "Normal", "Numbers", "Produce", "State", "Task", "TraceStep",
    "apply_actions", "f_fail", "f_recover", "gce", "i_border", "i_event", "initial", "lcs", "on_stream", "out",
    "s_step", "steps", "valid_initial",
]  # fmt: skip

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
