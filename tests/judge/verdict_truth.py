"""What is true: runs of pipelines, explored as far as a bound allows.  Nothing of Pellucid is imported here.

Every answer is True, False or None (not known: the search did not come to its end).  What is False comes with the run
that shows it.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.judge.verdict_meaning import (
    BRANCHING,
    CLASSES,
    COMPARE,
    FAILED,
    FIELDS,
    Color,
    Fit,
    Graph,
    Seen,
    Spec,
    atom_holds,
    atoms,
    begin,
    checked,
    components,
    ctl,
    longest,
    ltl_violated,
    on_lasso,
    operators,
    push,
    queues,
)

Push = dict[str, Any]
DEAD = ("end",)  # a failure, as the last thing in a sequence


@dataclass
class Truth:
    """An answer; ``pushes`` and ``loop`` are the run that shows that it is not so."""

    so: bool | None
    pushes: list[Push] = field(default_factory=list)
    loop: int | None = None


def values(kind: str, ints: Sequence[int]) -> list[Any]:
    """All events of a type."""
    if kind == "int":
        return list(ints)
    if kind == "bool":
        return [False, True]
    if kind == "Color":
        return list(Color)
    if kind in FIELDS:
        return [CLASSES[kind](*parts) for parts in itertools.product(*(values(t, ints) for t in FIELDS[kind].values()))]
    raise KeyError(kind)


def all_pushes(spec: Spec, ints: Sequence[int]) -> list[Push] | None:
    """All that can come in one push; None if that cannot be listed."""
    try:
        of = [[(name, v) for v in values(kind, ints)] + [None] for name, kind in spec.sources]
    except KeyError:
        return None
    if math.prod(map(len, of)) > 40:
        return None
    return [dict(part for part in choice if part is not None) for choice in itertools.product(*of)]


def keeps_to(assumed: Sequence[Any], before: Push, events: Push) -> bool:
    """Whether a push satisfies what is assumed; ``before`` is the last event of each source."""
    for part in assumed:
        match part:
            case ("speaks", name):
                if name not in events:
                    return False
            case ("together", a, b):
                if (a in events) != (b in events):
                    return False
            case ("value", name, op, c):
                if name in events and not COMPARE[op](events[name], c):
                    return False
            case ("sorted", name, op):
                if name in events and name in before and not COMPARE[op](events[name], before[name]):
                    return False
    return True


def assumed_text(assumed: Sequence[Any]) -> str:
    """As it is asked."""
    named = lambda n: n if n in ("x", "y", "z") else f'source("{n}")'
    words = []
    for part in assumed:
        match part:
            case ("speaks", name):
                words.append(named(name))
            case ("together", a, b):
                words.append(f"({named(a)} <-> {named(b)})")
            case ("value", name, op, c):
                words.append(f"{named(name)}.value {op} {c}")
            case ("sorted", name, op):
                words.append(f"{named(name)}.value {op} Y {named(name)}.value")
    return " & ".join(words)


def keeping(assumed: Sequence[Any], run: Sequence[Push]) -> list[Push]:
    """The pushes of a run that satisfy what is assumed, the others left out."""
    before: Push = {}
    kept = []
    for events in run:
        if keeps_to(assumed, before, events):
            kept.append(events)
            before = {**before, **events}
    return kept


def graph_of(spec: Spec, f: Any, inputs: Sequence[Push], fit: Fit, limit: int, assumed: Sequence[Any] = ()) -> Graph:
    """The pushes of all runs, with what the formula can see of them."""
    remembered = [part[1] for part in assumed if part[0] == "sorted"]
    names = atoms(f)
    index: dict[Any, int] = {}
    graph = Graph([], [], [], [], [])
    states: list[Any] = []
    known: dict[Any, list[tuple[Any, tuple[bool, ...], Push]]] = {}

    def after(state: Any) -> list[tuple[Any, tuple[bool, ...], Push]]:
        if state not in known:
            found = []
            inside, before = state
            for events in inputs[:1] if inside == FAILED and not remembered else inputs:
                if not keeps_to(assumed, dict(before), events):
                    continue
                new, seen = push(spec, inside, events, fit)
                last = {**dict(before), **{n: v for n, v in events.items() if n in remembered}}
                found.append(((new, tuple(sorted(last.items()))), tuple(atom_holds(a, seen) for a in names), events))
            known[state] = found
        return known[state]

    def node(state: Any, label: tuple[bool, ...], came: tuple[int | None, Push]) -> int:
        if (state, label) not in index:
            index[state, label] = len(states)
            states.append(state)
            graph.labels.append(label)
            graph.next.append([])
            graph.done.append(False)
            graph.path.append(came)
        return index[state, label]

    for new, label, events in after((begin(spec), ())):
        graph.first.append(node(new, label, (None, events)))
    n = 0
    while n < len(states) and len(known) * len(inputs) < limit:
        graph.next[n] = sorted({node(new, label, (n, events)) for new, label, events in after(states[n])})
        graph.done[n] = True
        n += 1
    return graph


def of_formula(spec: Spec, f: Any, inputs: Sequence[Push], fit: Fit, limit: int, assumed: Sequence[Any] = ()) -> Truth:
    """Whether a formula holds in every run."""
    graph = graph_of(spec, f, inputs, fit, limit, assumed)
    if operators(f) & BRANCHING:
        so = ctl(f, graph)
        return Truth(so)
    violated, full, node = ltl_violated(f, graph)
    if violated:
        return Truth(False, graph.way(node))
    return Truth(True if full else None)


# ---------------------------------------------------------------- two pipelines


def same(a: Any, b: Any) -> bool:
    """Whether two events are the same; a NaN is, and a zero is whatever its sign."""
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return bool(a == b)


def all_same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two pushes of an output are the same."""
    return len(a) == len(b) and all(map(same, a, b))


def agree(how: str, specs: Sequence[Spec], seen: Sequence[Seen]) -> bool:
    """Whether two pipelines say in one push what they should: ``step`` or ``implies``."""
    if seen[0].failed != seen[1].failed:
        return False
    for (_, i), (_, j) in zip(specs[0].outputs, specs[1].outputs, strict=True):
        a, b = seen[0].of(i), seen[1].of(j)
        if how == "step" and not all_same(a, b):
            return False
        if how == "implies" and (len(a) != len(b) or any(x and not y for x, y in zip(a, b, strict=True))):
            return False
    return True


def of_two(how: str, specs: Sequence[Spec], inputs: Sequence[Push], fit: Fit, limit: int) -> Truth:
    """Whether two pipelines agree in every push of every run."""
    start = tuple(begin(spec) for spec in specs)
    came: dict[Any, Any] = {start: None}
    todo = deque([start])
    while todo:
        if len(came) * len(inputs) > limit:
            return Truth(None)
        state = todo.popleft()
        for events in inputs:
            both = [push(spec, s, events, fit) for spec, s in zip(specs, state, strict=True)]
            if not agree(how, specs, [seen for _, seen in both]):
                return Truth(False, [*_way(came, state), events])
            new = tuple(s for s, _ in both)
            if new not in came:
                came[new] = state, events
                todo.append(new)
    return Truth(True)


def _way(came: dict[Any, Any], state: Any) -> list[Push]:
    found = []
    while came[state] is not None:
        state, events = came[state]
        found.append(events)
    return found[::-1]


def tokens(spec: Spec, before: Any, seen: Seen) -> tuple[Any, ...]:
    """What a push adds to the sequence of the single output."""
    if seen.failed:
        return () if before == FAILED else (DEAD,)
    return seen.of(spec.outputs[0][1])


def met(
    ahead: int, waiting: tuple[Any, ...], new: Sequence[tuple[Any, ...]], paper: bool
) -> tuple[int, tuple[Any, ...]] | None:
    """Who is ahead and by what, after both have emitted more; None where two outputs at one place differ."""
    said = [list(new[0]), list(new[1])]
    said[ahead] = [*waiting, *said[ahead]]
    if paper:
        said = [[s for s in one if s is not DEAD] for one in said]
    common = min(map(len, said))
    for a, b in zip(said[0][:common], said[1][:common], strict=True):
        if (a is DEAD) != (b is DEAD) or (a is not DEAD and not same(a, b)):
            return None
    ahead = 0 if len(said[0]) > common else 1
    return ahead, tuple(said[ahead][common:])


class Stuck:
    """Whether a pipeline can be silent for ever from a state on, though every source speaks again and again."""

    def __init__(self, spec: Spec, inputs: Sequence[Push], fit: Fit, limit: int) -> None:
        self.spec, self.inputs, self.fit, self.limit = spec, inputs, fit, limit
        self.known: dict[Any, bool] = {}

    def __call__(self, start: Any) -> bool:
        """From this state."""
        if start not in self.known:
            self.known[start] = self._search(start)
        return self.known[start]

    def _search(self, start: Any) -> bool:
        index, order = {start: 0}, [start]
        follow: list[list[int]] = []
        speaks: list[list[tuple[int, Push]]] = []
        n = 0
        while n < len(order) and len(order) * len(self.inputs) < self.limit:
            edges = []
            for events in self.inputs:
                new, seen = push(self.spec, order[n], events, self.fit)
                if tokens(self.spec, order[n], seen):
                    continue
                if new not in index:
                    index[new] = len(order)
                    order.append(new)
                edges.append((index[new], events))
            follow.append([m for m, _ in edges])
            speaks.append(edges)
            n += 1
        follow += [[] for _ in order[n:]]
        speaks += [[] for _ in order[n:]]
        everybody = {name for name, _ in self.spec.sources}
        for component in components(follow):
            inside = set(component)
            heard = {name for c in component for m, events in speaks[c] if m in inside for name in events}
            if heard == everybody:
                return True
        return False


def of_sequence(specs: Sequence[Spec], inputs: Sequence[Push], fit: Fit, limit: int, paper: bool) -> Truth:
    """Whether two pipelines emit the same sequence in the end; ``paper``: as far as both have come."""
    start = (begin(specs[0]), begin(specs[1]), 0, ())
    came: dict[Any, Any] = {start: None}
    todo, full = deque([start]), True
    stuck = [Stuck(spec, inputs, fit, limit // 8) for spec in specs]
    while todo:
        if len(came) * len(inputs) > limit:
            return Truth(None)
        state = todo.popleft()
        if state[3] and not paper and stuck[1 - state[2]](state[1 - state[2]]):
            return Truth(False, _way(came, state), -1)
        if len(state[3]) > 6:
            full = False
            continue
        for events in inputs:
            both = [push(spec, s, events, fit) for spec, s in zip(specs, state[:2], strict=True)]
            rest = met(
                state[2],
                state[3],
                [tokens(spec, s, seen) for spec, s, (_, seen) in zip(specs, state[:2], both, strict=True)],
                paper,
            )
            if rest is None:
                return Truth(False, [*_way(came, state), events])
            new = (both[0][0], both[1][0], *rest)
            if new not in came:
                came[new] = state, events
                todo.append(new)
    return Truth(True if full else None)


# ---------------------------------------------------------------- observed systems, queues


def of_monitor(spec: Spec, system: Any, fit: Fit) -> Truth:
    """Whether a pipeline says only true of every run of a finite system, and never fails."""
    initial, following, see = system
    came: dict[Any, Any] = {}
    todo: deque[Any] = deque()
    for s in initial:
        came[s, begin(spec), "start"] = None
        todo.append((s, begin(spec), "start"))
    while todo:
        if len(came) > 6000:
            return Truth(None)
        at = todo.popleft()
        s, state = at[0], at[1]
        new, seen = push(spec, state, see[s], fit)
        if seen.failed or not all(seen.of(spec.outputs[0][1])):
            return Truth(False, [*_way(came, at), see[s]])
        for t in following[s] or [s]:
            if (t, new, "") not in came:
                came[t, new, ""] = at, see[s]
                todo.append((t, new, ""))
    return Truth(True)


def queue_lengths(spec: Spec, inputs: Sequence[Push], fit: Fit, limit: int) -> tuple[dict[str, int], bool]:
    """The longest that each queue can be after a push, and whether that is all."""
    start = begin(spec)
    known, todo = {start}, deque([start])
    most = queues(spec, start)
    while todo:
        if len(known) * len(inputs) > limit:
            return most, False
        state = todo.popleft()
        for events in inputs:
            new, _ = push(spec, state, events, fit)
            if new not in known:
                known.add(new)
                todo.append(new)
                for name, length in queues(spec, new).items():
                    most[name] = max(most[name], length)
    return most, True


def of_bound(spec: Spec, asked: tuple[Any, ...], bound: int, inputs: Sequence[Push], fit: Fit, limit: int) -> Truth:
    """What is said of queues with a bound: ``("full",)``, ``("overflow",)`` or ``("length", queue, most)``, never so.
    Beyond the bound only an overflow is certain."""
    start = begin(spec)
    came: dict[Any, Any] = {start: None}
    todo, over = deque([start]), False
    while todo:
        if len(came) * len(inputs) > limit:
            return Truth(None)
        state = todo.popleft()
        for events in inputs:
            new, _ = push(spec, state, events, fit)
            if new in came:
                continue
            came[new] = state, events
            most = longest(spec, new)
            if most > bound:
                if asked[0] == "overflow":
                    return Truth(False, _way(came, new))
                over = True
                continue
            if (asked[0] == "full" and most == bound) or (
                asked[0] == "length" and queues(spec, new).get(asked[1], 0) > asked[2]
            ):
                return Truth(False, _way(came, new))
            todo.append(new)
    return Truth(None if over else True)


# ---------------------------------------------------------------- single runs


def follow(
    specs: Sequence[Spec], pushes: Sequence[Push], loop: int | None, fit: Fit = checked, turns: int = 60
) -> tuple[list[list[Seen]], int | None, bool]:
    """What is seen of a run, by each pipeline, the push from which on all repeats, and whether it really does (or only
    seems to)."""
    states = [begin(spec) for spec in specs]
    seen: list[list[Seen]] = [[] for _ in specs]

    def go(events: Push) -> None:
        for i, spec in enumerate(specs):
            states[i], now = push(spec, states[i], events, fit)
            seen[i].append(now)

    for events in pushes if loop is None else pushes[:loop]:
        go(events)
    if loop is None:
        return seen, None, True
    before = {tuple(states): len(seen[0])}
    for _ in range(turns):
        for events in pushes[loop:]:
            go(events)
        if tuple(states) in before:
            return seen, before[tuple(states)], True
        before[tuple(states)] = len(seen[0])
    return seen, len(seen[0]) - (len(pushes) - loop), False


def holds_on_run(spec: Spec, f: Any, pushes: Sequence[Push], loop: int, fit: Fit = checked) -> bool | None:
    """Whether a formula of LTL holds on a run that repeats; None if it is not known to repeat."""
    (seen,), at, sure = follow([spec], pushes, loop, fit)
    if at is None or not sure:
        names = atoms(f)
        size = len(pushes) - loop
        labels = [tuple(atom_holds(a, s) for a in names) for s in seen]
        if any(labels[-i] != labels[-i - size] for i in range(1, min(len(labels) - size, 20 * size))):
            return None
        at = len(seen) - size
    return on_lasso(f, seen, at)


EDGES = [0, 1, -1, 2, 3, 2**31, 2**32, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63), 2**63 - 2]


def random_value(kind: str, r: random.Random, ints: Sequence[int] | None, constants: Sequence[int]) -> Any:
    """An event: small, near the constants of the pipeline, or at the edge."""
    if kind == "int":
        if ints is not None:
            return r.choice(list(ints))
        way = r.random()
        if way < 0.45:
            return r.randint(-3, 5)
        if way < 0.75 and constants:
            return max(-(2**63), min(2**63 - 1, r.choice(constants) + r.choice([-1, 0, 0, 1])))
        return r.choice(EDGES)
    if kind == "float":
        return r.choice(
            [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), r.uniform(-4, 4)]
        )
    if kind == "str":
        return r.choice(["", "a", "b", "ab", "G", "zz", "é"])
    if kind in FIELDS:
        return CLASSES[kind](*(random_value(t, r, ints, constants) for t in FIELDS[kind].values()))
    return r.choice(values(kind, ()))


def random_runs(
    spec: Spec, r: random.Random, ints: Sequence[int] | None, count: int, constants: Sequence[int]
) -> Iterator[list[Push]]:
    """Runs of random events and silence."""
    for _ in range(count):
        quiet = r.choice([0.0, 0.1, 0.5])
        few = {name: [random_value(kind, r, ints, constants) for _ in range(2)] for name, kind in spec.sources}
        narrow = r.random() < 0.3
        yield [
            {
                name: r.choice(few[name]) if narrow else random_value(kind, r, ints, constants)
                for name, kind in spec.sources
                if r.random() >= quiet
            }
            for _ in range(r.randint(1, 12))
        ]
