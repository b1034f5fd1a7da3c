"""A monitor inside the checker (Model Checking of Stream Processing Pipelines, 2021, section 4.3): a finite system
observed by a pipeline that must always say true.

The system is small and written in Python: where it starts, where it can go, what can be seen.  In every step the
pipeline's sources get what is seen of the present state; so a property that is clumsy in temporal logic is written as
the pipeline that would monitor it, and holds for **all** runs of the system.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pellucid.check.certify import certify_space, distrust
from pellucid.check.counterexample import Pushes, disagreement, monitor_violated, replay
from pellucid.check.decide import Options
from pellucid.check.explicit import explore
from pellucid.check.functions.called import asks
from pellucid.check.question_arguments import short
from pellucid.check.system.build import System, build_system, cone
from pellucid.check.system.domains import Domain
from pellucid.check.system.tracking import Track
from pellucid.check.system.variables import Variable
from pellucid.check.trial_runs import LiteralRun
from pellucid.errors import StepError, UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, INT, conform, simplest
from pellucid.internal.graph.model import Graph
from pellucid.internal.model import Budget, CutShort, Search
from pellucid.internal.model.verdict import Verdict

_KEYS = 12  # that a monitor keeps apart

_LIMIT, _RUNS = 100_000, 60
_SIZES = (4, 8, 16, 32)  # of queues, larger and larger


@dataclass(frozen=True)
class Transitions:
    """A finite system: its initial states, the successors of a state, and what is seen of it.

    ``see(state)`` gives an event for each source of the pipeline, by name (a source that is left out is silent).  A
    state without successors stays as it is.

    >>> light = Transitions(["red"], {"red": ["green"], "green": ["red"]}.__getitem__, lambda s: {"x": s == "green"})
    >>> light.states()
    ['red', 'green']
    """

    initial: Iterable[Hashable]
    next: Callable[[Any], Iterable[Hashable]]
    see: Callable[[Any], Mapping[str, Any]]

    def __post_init__(self) -> None:
        try:
            first = tuple(dict.fromkeys(self.initial))  # once: it may be an iterator
        except TypeError as error:
            raise UsageError(
                f"Transitions takes the initial states first, a list of hashable values; found {short(self.initial)} "
                f"({error})"
            ) from None
        if not first:
            raise UsageError(
                "Transitions takes at least one initial state, found none: a system without states has no runs"
            )
        object.__setattr__(self, "initial", first)
        for name, value in (("next", self.next), ("see", self.see)):
            if not callable(value):
                raise UsageError(f"Transitions: {name} is a function of a state, found {short(value)}")

    def states(self) -> list[Any]:
        """Every state that can be reached."""
        try:
            return self._states()
        except UsageError:
            raise
        except Exception as error:  # the user's own
            raise UsageError(
                f"Transitions: the successors of a state cannot be found: {type(error).__name__}: {error}"
            ) from error

    def seen(self, state: Any) -> dict[str, Any]:
        """What is seen of a state."""
        try:
            return dict(self.see(state))
        except Exception as error:  # the user's own
            raise UsageError(
                f"Transitions: what is seen of the state {short(state)} cannot be told: {type(error).__name__}: {error}"
            ) from error

    def _states(self) -> list[Any]:
        search = Search(self.initial, lambda s: [(None, after) for after in self.next(s)], Budget(max_states=_LIMIT))
        try:
            search.all()
        except CutShort:
            raise UsageError(
                f"the system has more than {_LIMIT:,} states: monitor takes a small finite system"
            ) from None
        return list(search.parents)


@asks(lambda system, p, **settings: f"{p.name} says true in every run of the system")
def monitor(system: Transitions, p: Any, *, queue: int = 3, **settings: Any) -> Verdict:
    """Whether the pipeline says true in every step of every run of the system.

    >>> from pellucid import check, pipeline
    >>> counter = check.Transitions([0], lambda s: [(s + 1) % 3, s], lambda s: {"x": s})
    >>> never_three = pipeline(lambda x: x < 3, x=int)
    >>> check.monitor(counter, never_three).proved
    True
    >>> always_moves = pipeline(lambda x: x.trim(1) != x, x=int)
    >>> check.monitor(counter, always_moves).counterexample.inputs
    [{'x': 0}, {'x': 0}]
    """
    started = time.perf_counter()
    options = Options(**settings)
    if not isinstance(system, Transitions):
        raise UsageError(
            f"check.monitor takes a system first, as in check.Transitions(initial, next, see); found {short(system)}"
        )
    if len(p.graph.outputs) != 1 or p.graph.nodes[p.graph.outputs[0][1]].type != BOOL:
        raise UsageError(f"a monitor emits Booleans, but {p.name} does not")
    states = system.states()
    # as many keys as the system shows, unless a key is computed from what is remembered
    lanes = min(len(states), _KEYS)
    events = _events(system, states, p.graph) if p.graph.opaque() else None
    out, budget = p.graph.outputs[0][0], options.budget()
    # until no queue needs more: up to there all is as it really is
    for size in dict.fromkeys((queue, *(s for s in _SIZES if s > queue))):
        # A failure is seen, also one because an integer leaves 64 bits.
        inner = build_system(p.graph, Domain(), size, strict=True, events=events, track=Track(lanes=lanes))
        whole, pushes = _observed(system, states, inner)
        bad = n.any_of(n.and_(slot.present, n.not_(slot.leaves[0])) for slot in whole.streams[out][1])
        small, observed = cone(whole, [bad, whole.overflow, whole.failed, whole.present(out), whole.partial])
        space = explore(small, observed, stop_on=[0, 2], budget=budget)
        if space.found is not None or space.why or not space.holds(1).any():
            break
    question = f"{p.name} says true in every run of the system"
    seconds = time.perf_counter() - started
    details: dict[str, Any] = {"states": space.count, "system states": len(states)}
    if space.found is not None:
        way = [*space.path(space.found[0]), space.found[1]]
        seen = _follow(system, states, small, [space.program.choices[c] for c in way], pushes)
        example = Pushes((p.graph,), replay([p.graph], [pushes[s] for s in seen]), None)
        if not monitor_violated(example, example.inputs, None):
            why = disagreement([p.graph], example.inputs)
            return Verdict("unknown", question, "explicit", seconds, None, (why,), details)
        trail = " → ".join(repr(states[s]) for s in seen)
        notes = (
            f"the system goes {trail}",
            *(["the pipeline fails there"] if out not in example.steps[-1].streams else []),
        )
        return Verdict("refuted", question, "explicit", seconds, example, notes, details)
    if space.why or space.holds(1).any() or space.holds(4).any():
        more = f"the monitor keeps things apart by more than {lanes} keys" if space.holds(4).any() else ""
        why = space.why or more or f"needs more than {size} events in a queue of the monitor"
        return Verdict("unknown", question, "explicit", seconds, None, (why,), details)
    certified = certify_space(space, observed, spent=seconds, never=(0, 1, 2))
    problem = _tried(system, p.graph) if certified.passed else ""
    if problem or not certified.passed:
        return Verdict(
            "unknown",
            question,
            "explicit",
            seconds,
            None,
            (distrust(problem),) if problem else certified.notes,
            details,
        )
    details["checked"] = f"{certified.words}; tried on {_RUNS} runs of the system with the interpreter as the monitor"
    notes = () if space.holds(3).any() else (f"it says nothing: {p.name} never emits anything in a run of the system",)
    return Verdict("proved", question, "explicit", time.perf_counter() - started, None, notes, details)


def _tried(system: Transitions, graph: Graph) -> str:
    """Random runs of the system, with the interpreter as the monitor: what it says that is not true."""
    rng, out = random.Random(0), graph.outputs[0][0]
    for _ in range(_RUNS):
        literal, state, trail = LiteralRun(graph), rng.choice(list(system.initial)), []
        for _ in range(12):
            trail.append(state)
            try:
                said = literal.observe(system.seen(state))[out]
            except StepError as error:
                return str(error)
            if not all(said):
                return f"the interpreter says {said} in the run {' → '.join(map(repr, trail))}"
            state = rng.choice(list(system.next(state)) or [state])
    return ""


def _events(system: Transitions, states: list[Any], graph: Graph) -> dict[str, list[tuple[Any, ...]]]:
    """All that the sources of the pipeline can get."""
    out: dict[str, list[tuple[Any, ...]]] = {graph.nodes[i].id: [] for i in graph.sources}
    for s in states:
        for name, value in system.seen(s).items():
            if name in out:
                with contextlib.suppress(ValueError):  # what fits no source is refused when the systems are joined
                    t = graph[name].type
                    out[name].append(tuple(t.flatten(conform(t, value))))
    return out


@n.values_only()
def _observed(system: Transitions, states: list[Any], inner: System) -> tuple[System, list[dict[str, Any]]]:
    """The monitor's system with its inputs read off the state of the observed one."""
    number = {s: i for i, s in enumerate(states)}
    first = [number[s] for s in dict.fromkeys(system.initial)]
    follow = [[number[t] for t in system.next(s)] or [i] for i, s in enumerate(states)]
    pushes: list[dict[str, Any]] = []
    for s in states:
        seen = system.seen(s)
        push = {}
        for name, t in inner.sources:
            if name in seen:
                try:
                    push[name] = conform(t, seen.pop(name))
                except ValueError as error:
                    raise UsageError(f"what is seen of the state {s!r} as {name!r}: {error}") from None
        if seen:
            raise UsageError(
                f"the pipeline has no source {next(iter(seen))!r}: it has {', '.join(dict(inner.sources))}"
            )
        pushes.append(push)
    have, many = len(inner.state), max(map(len, follow))
    variables = (
        *inner.state,
        Variable("system", INT, len(states), len(states) + 1),  # the last number: not started yet
    )
    inputs = (Variable("start", INT, None, len(first)), Variable("choice", INT, None, many))
    held, start, choice = n.var(have, INT), n.var(have + 1, INT), n.var(have + 2, INT)
    now = n.ite(n.eq(held, n.const(len(states))), _table(start, [n.const(s) for s in first]), held)
    after = _table(now, [_table(choice, [n.const(t) for t in targets]) for targets in follow])
    leaves: list[Expr] = [n.var(i, v.type) for i, v in enumerate(inner.state)]
    for name, t in inner.sources:
        leaves.append(_table(now, [n.const(name in push) for push in pushes]))
        for j, (_, kind) in enumerate(t.leaves()):
            zero = next((t.flatten(p[name])[j] for p in pushes if name in p), None)
            values = [t.flatten(p[name])[j] if name in p else zero for p in pushes]
            leaves.append(_table(now, [n.const(v) for v in values]) if zero is not None else n.const(simplest(kind)))
    seen_by = inner.mapped(lambda exprs: substitute(exprs, leaves))
    whole = dataclasses.replace(
        seen_by, state=variables, inputs=inputs, next=(*seen_by.next, after), sources=(), graph=None
    )
    return whole, pushes


def _table(index: Expr, values: list[Expr]) -> Expr:
    """``values[index]``; beyond the end, the last."""
    out = values[-1]
    for i in range(len(values) - 2, -1, -1):
        out = n.ite(n.eq(index, n.const(i)), values[i], out)
    return out


def _follow(
    system: Transitions, states: list[Any], small: System, choices: list[Any], pushes: list[dict[str, Any]]
) -> list[int]:
    """The states that the observed system goes through under these choices."""
    number = {s: i for i, s in enumerate(states)}
    names = [v.name for v in small.inputs]
    first = [number[s] for s in dict.fromkeys(system.initial)]
    at: int | None = None
    seen = []
    for row in choices:
        made = dict(zip(names, (int(v) for v in row), strict=True))
        if at is None:
            at = first[min(made.get("start", 0), len(first) - 1)]
        seen.append(at)
        targets = [number[t] for t in system.next(states[at])] or [at]
        at = targets[min(made.get("choice", 0), len(targets) - 1)]
    return seen
