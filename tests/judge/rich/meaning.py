"""What a pipeline over rich types means: push by push, on plain Python values, from ``docs/explanation/meaning.md``.
Nothing of Pellucid is imported here.

A step is a `Step`; its functions are the plain Python functions of the case.  The state of a pipeline is a tuple with
an entry for each step, which is a frozenset of (key, what is kept for it); so runs are listed by a search over states.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FAILED = "failed"
State = Any
Push = Mapping[str, Any]
Item = tuple[Any, Any]  # a key and an event
NOBODY = ("no key",)


@dataclass(frozen=True)
class Step:
    """One step: what it does to which streams; ``key`` is the step whose keys its events are under (-1: none)."""

    kind: str
    inputs: tuple[int, ...]
    type: str
    id: str
    key: int = -1
    f: Callable[..., Any] | None = field(default=None, compare=False)
    k: int = 0
    start: Any = None
    sub: Pipe | None = None


@dataclass(frozen=True)
class Pipe:
    """Sources, steps and the stream that is put out; streams are numbered, sources first."""

    sources: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    out: int

    def type_of(self, at: int) -> str:
        """What a stream carries."""
        n = len(self.sources)
        return self.sources[at][1] if at < n else self.steps[at - n].type

    def key_of(self, at: int) -> int:
        """Whose keys a stream is under."""
        n = len(self.sources)
        return -1 if at < n else self.steps[at - n].key

    @functools.cached_property
    def used(self) -> set[int]:
        """The streams that the output is made of: a step that it does not depend on is no part of the pipeline."""
        used, todo = {self.out}, [self.out]
        while todo:
            at = todo.pop() - len(self.sources)
            new = set(self.steps[at].inputs) - used if at >= 0 else set()
            used |= new
            todo += new
        return used

    def names(self) -> dict[str, int]:
        """The streams by name: sources, the output, and the steps that it is made of."""
        n = len(self.sources)
        found = {name: i for i, (name, _) in enumerate(self.sources)}
        found.update((step.id, n + i) for i, step in enumerate(self.steps) if n + i in self.used)
        return {**found, "out": self.out}


@dataclass(frozen=True)
class Seen:
    """What can be seen of a push."""

    streams: tuple[tuple[Any, ...], ...]
    failed: bool = False


def begin(pipe: Pipe) -> State:
    """Before the first push."""
    return tuple(frozenset() for _ in pipe.steps)


def push(pipe: Pipe, state: State, events: Push) -> tuple[State, Seen]:
    """One push."""
    nothing = tuple(() for _ in range(len(pipe.sources) + len(pipe.steps)))
    if state == FAILED:
        return FAILED, Seen(nothing, True)
    try:
        after, streams = _push(pipe, state, events)
    except Exception:
        return FAILED, Seen(nothing, True)
    return after, Seen(tuple(tuple(e for _, e in items) for items in streams))


def _push(pipe: Pipe, state: State, events: Push) -> tuple[State, list[list[Item]]]:
    streams: list[list[Item]] = [[(NOBODY, events[name])] if name in events else [] for name, _ in pipe.sources]
    kept: list[dict[Any, Any]] = []
    for step, memory in zip(pipe.steps, state, strict=True):
        mine = dict(memory)
        if len(streams) not in pipe.used:
            streams.append([])
            kept.append({})
            continue
        streams.append(_step(step, mine, [streams[i] for i in step.inputs]))
        kept.append(mine)
    n = len(pipe.sources)
    for at, step in enumerate(pipe.steps):
        if step.kind == "forget":
            _forget(at + n, step, kept[at], [(s, m) for s, m in zip(pipe.steps, kept, strict=True)])
    return tuple(frozenset(memory.items()) for memory in kept), streams


def _forget(me: int, step: Step, ages: dict[Any, Any], all_steps: list[tuple[Step, dict[Any, Any]]]) -> None:
    """Give up what no event can ask for again, and number the sessions that are left from 0."""
    for key in [key for key, (_, age) in ages.items() if age >= step.k]:
        del ages[key]
    live = {(key, session): (key, 0) for key, (session, _) in ages.items()}
    for other, memory in all_steps:
        if other.key == me and other.kind != "forget":
            kept = {live[key]: value for key, value in memory.items() if key in live}
            memory.clear()
            memory.update(kept)
    for key, (_, age) in list(ages.items()):
        ages[key] = (0, age)


def _step(step: Step, mine: dict[Any, Any], given: list[list[Item]]) -> list[Item]:
    out: list[Item] = []
    f = step.f
    if step.kind == "merge":
        return [item for items in given for item in items]
    if step.kind in ("apply", "filter_by"):
        for i, items in enumerate(given):
            for key, event in items:
                queues = list(mine.get(key, ((),) * len(given)))
                queues[i] = (*queues[i], event)
                if all(queues):
                    heads = [q[0] for q in queues]
                    queues = [q[1:] for q in queues]
                    if step.kind == "apply":
                        assert f is not None
                        out.append((key, f(*heads)))
                    elif heads[1]:
                        out.append((key, heads[0]))
                if any(queues):
                    mine[key] = tuple(queues)
                else:
                    mine.pop(key, None)
        return out
    for key, event in given[0]:
        match step.kind:
            case "map":
                out.append((key, f(event)))  # type: ignore[misc]
            case "filter":
                if f(event):  # type: ignore[misc]
                    out.append((key, event))
            case "explode":
                out += [(key, e) for e in f(event)]  # type: ignore[misc]
            case "key_by":
                out.append((f(event), event))  # type: ignore[misc]
            case "forget":
                session, age = mine.get(key, (-1, step.k))
                if age >= step.k:
                    session += 1
                for other, (s, a) in list(mine.items()):
                    mine[other] = (s, a + 1)
                mine[key] = (session, 0)
                out.append(((key, session), event))
            case "cumulate":
                mine[key] = f(mine.get(key, step.start), event)  # type: ignore[misc]
                out.append((key, mine[key]))
            case "task":
                mine[key], said = f(mine.get(key, step.start), event)  # type: ignore[misc]
                out += [(key, e) for e in said]
            case "decimate":
                n = mine.get(key, 0)
                if n == 0:
                    out.append((key, event))
                mine[key] = (n + 1) % step.k
            case "trim":
                n = mine.get(key, 0)
                if n >= step.k:
                    out.append((key, event))
                mine[key] = min(n + 1, step.k)
            case "lag":
                last = (*mine.get(key, ()), event)
                if len(last) > step.k:
                    out.append((key, f((event, last[0]))))  # type: ignore[misc]
                    last = last[1:]
                mine[key] = last
            case "window":
                last = (*mine.get(key, ()), event)
                if len(last) == step.k:
                    assert step.sub is not None
                    said = [e for seen in run(step.sub, [{"w": e} for e in last], loud=True) for e in seen]
                    out += [(key, said[-1])] if said else []
                    last = last[1:]
                mine[key] = last
            case _:
                raise AssertionError(step.kind)
    return out


def run(pipe: Pipe, pushes: Sequence[Push], *, loud: bool = False) -> list[Any]:
    """What is seen of a run; ``loud``: what is put out, and a failure is raised."""
    state, seen = begin(pipe), []
    for events in pushes:
        if loud:
            state, streams = _push(pipe, state, events)
            seen.append([e for _, e in streams[pipe.out]])
        else:
            state, now = push(pipe, state, events)
            seen.append(now)
    return seen


def waiting(pipe: Pipe, state: State) -> dict[str, int]:
    """The length of each queue, of the key that has most."""
    found = {}
    for step, memory in zip(pipe.steps, () if state == FAILED else state, strict=False):
        if step.kind in ("apply", "filter_by"):
            for i in range(len(step.inputs)):
                found[f"{step.id}.{i}"] = max((len(queues[i]) for _, queues in memory), default=0)
    return found
