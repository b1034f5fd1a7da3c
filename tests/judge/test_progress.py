"""A judge of graphs with times: small random graphs whose nodes are tables, and everything about them by the letter of
the paper: its relation path by path, the conditions, and all runs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pellucid import check
from pellucid.progress import Graph, Integers, Message, Node, Product, conservative, exact, inferred, why_not
from tests.seeds import seeds

pytestmark = pytest.mark.long

LessEqual = Callable[[Any, Any], bool]


def product(a: Any, b: Any) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


class Model:
    """A small random graph whose nodes are tables, and everything about it by the letter of the paper."""

    def __init__(self, r: random.Random, tame: bool) -> None:
        self.le: LessEqual
        if r.random() < 0.6:
            self.times, self.order, self.le = [0, 1], Integers(), lambda a, b: a <= b
        else:
            self.times, self.order, self.le = [(0, 0), (0, 1), (1, 0)], Product(Integers(), Integers()), product
        names = ["p", "q"][: r.randrange(1, 3)]
        self.edges: dict[str, tuple[str | None, str | None]] = {"i": (None, "p"), "o": (names[-1], None)}
        for k in range(r.randrange(1, 4)):
            self.edges[f"e{k}"] = (r.choice(names), r.choice(names))
        self.table: dict[Any, Any] = {}
        self.starts = {n: frozenset(r.sample(self.times, r.choice([0, 0, 1]))) for n in names}
        for n in names:
            outs = [e for e, (a, _) in self.edges.items() if a == n]
            for state, event in itertools.product((0, 1), self.events(n)):
                t = event[1]
                later = [u for u in self.times if self.le(t, u)] if tame else self.times
                asks = frozenset(r.sample(later, 1)) if r.random() < 0.4 else frozenset()
                sends = {e: [r.choice(later)] for e in outs if r.random() < 0.35}
                self.table[n, state, event] = (r.choice([0, state, 1]), asks, sends)
        self.names = names
        nodes = {n: self.node(n) for n in names}
        self.graph = Graph(nodes, self.edges, order=self.order, times=self.times, name="tables")

    def events(self, n: str) -> list[tuple[str | None, Any]]:
        return [(e, t) for e, (_, b) in self.edges.items() if b == n for t in self.times] + [
            (None, t) for t in self.times
        ]

    def node(self, n: str) -> Node:
        def does(state: int, event: tuple[str | None, Any]) -> Any:
            state, asks, sends = self.table[n, state, event]
            return state, asks, {e: [Message(t) for t in ts] for e, ts in sends.items()}

        return Node(lambda s, e, m: does(s, (e, m.time)), lambda s, t: does(s, (None, t)), 0, self.starts[n])

    def local(self, n: str) -> set[tuple[int, frozenset]]:
        """The states and requests to which local histories lead."""
        seen, todo = {(0, self.starts[n])}, [(0, self.starts[n])]
        while todo:
            s, asked = todo.pop()
            for event in self.events(n):
                then, asks, _ = self.table[n, s, event]
                new = (then, (asked - {event[1]} if event[0] is None else asked) | asks)
                if new not in seen:
                    seen.add(new)
                    todo.append(new)
        return seen

    def one_step(self) -> set[tuple[str, Any, str, Any]]:
        """Definition 1."""
        return {
            (n, event[1], e, u)
            for n in self.names
            for s in {s for s, _ in self.local(n)}
            for event in self.events(n)
            for e, us in self.table[n, s, event][2].items()
            for u in us
        }

    def relation(self) -> set[tuple[Any, Any]]:
        """Definition 2, path by path."""
        one, le, times = self.one_step(), self.le, self.times
        found = set()

        def go(start: Any, x: str, t: Any, been: tuple[str, ...]) -> None:
            for u in times:
                if le(t, u):
                    found.add((start, (x, u)))
            if x in self.edges:
                to = self.edges[x][1]
                if to is not None and to not in been:
                    go(start, to, t, (*been, to))
                return
            for p, u, e, v in one:
                if p == x and le(t, u) and e not in been:  # to rise on the way adds nothing: any later u may be taken
                    go(start, e, v, (*been, e))

        for x in [*self.names, *self.edges]:
            for t in times:
                go((x, t), x, t, (x,))
        return found

    def closed(self, relation: set[tuple[Any, Any]], points: Iterable[Any]) -> set[Any]:
        seen, todo = set(points), list(points)
        while todo:
            a = todo.pop()
            for x, y in relation:
                if x == a and y not in seen:
                    seen.add(y)
                    todo.append(y)
        return seen

    def runs(self, relation: set[tuple[Any, Any]], taken: list[Any], limit: int) -> dict[str, bool] | None:
        """Whether Theorem 2, completeness and liveness hold in all runs from these messages; None: too many."""
        ups = {x: self.closed(relation, [x]) for x in itertools.product([*self.names, *self.edges], self.times)}
        messages = tuple((e, tuple(taken) if e == "i" else ()) for e in self.edges)
        first = (messages, tuple((n, 0, self.starts[n]) for n in self.names))
        holds = {"theorem 2": True, "completeness": True, "liveness": True}

        def clock(at: Any) -> set[Any]:
            points = {(e, t) for e, ts in at[0] for t in ts} | {(n, t) for n, _, asked in at[1] for t in asked}
            return set().union(*(ups[x] for x in points))

        def steps(at: Any) -> Iterable[tuple[Any, Any]]:
            queues, nodes = dict(at[0]), {n: (s, asked) for n, s, asked in at[1]}
            now = clock(at)
            some: list[tuple[str, tuple[str | None, Any]]] = []
            for e, (_, to) in self.edges.items():
                if to is not None and queues[e]:
                    some.append((to, (e, queues[e][0])))
                if to is None:
                    for k in range(len(queues[e])):
                        rest = {**queues, e: queues[e][:k] + queues[e][k + 1 :]}
                        yield None, (tuple(rest.items()), at[1])
            for n, (_, asked) in nodes.items():
                ins = [e for e, (_, to) in self.edges.items() if to == n]
                some += [(n, (None, t)) for t in asked if all((e, t) not in now for e in ins)]
            for n, event in some:
                s, asked = nodes[n]
                then, asks, sends = self.table[n, s, event]
                after = dict(queues)
                if event[0] is None:
                    asked = asked - {event[1]}
                else:
                    after[event[0]] = after[event[0]][1:]
                for e, ts in sends.items():
                    after[e] = (*after[e], *ts)
                changed = {**nodes, n: (then, asked | asks)}
                yield (n, event), (tuple(after.items()), tuple((m, *x) for m, x in changed.items()))

        everything = set(itertools.product(self.edges, self.times))
        begin = (first, frozenset(everything - clock(first)), frozenset())
        seen, todo = {begin}, [begin]
        onward: dict[Any, list[tuple[Any, Any]]] = {}
        while todo:
            at, passed, told = todo.pop()
            if at not in onward:
                onward[at] = list(steps(at))
            if any((e, u) in passed for e, ts in at[0] for t in ts for u in self.times if self.le(t, u)):
                holds["theorem 2"] = False
            for what, to in onward[at]:
                done = told
                if what is not None:
                    n, (e, t) = what
                    if e is None:
                        done = told | {(n, t)}
                    elif any((n, u) in told for u in self.times if self.le(t, u)):
                        holds["completeness"] = False
                new = (to, passed | (everything - clock(to)), done)
                if new not in seen:
                    if len(seen) > limit:
                        return None
                    seen.add(new)
                    todo.append(new)
        for at in onward:
            for n, _, asked in at[1]:
                for t in asked:
                    reach, todo2, comes = {at}, [at], False
                    while todo2 and not comes:
                        for what, to in onward[todo2.pop()]:
                            comes |= what == (n, (None, t))
                            if to not in reach:
                                reach.add(to)
                                todo2.append(to)
                    holds["liveness"] &= comes
        return holds


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(16, 7000))
def test_a_graph_is_what_the_paper_says(seed):
    r = random.Random(seed)
    model = Model(r, tame=seed % 3 > 0)
    relation, le = model.relation(), model.le
    told = exact(model.graph)
    summed = conservative(inferred(model.graph))
    stamps = list(itertools.product([*model.names, *model.edges], model.times))
    for a, b in itertools.product(stamps, stamps):
        assert told.holds(a, b) is ((a, b) in relation), (a, b)
        assert (a, b) not in relation or summed.holds(a, b), (a, b)
    condition1 = all(
        le(event[1], t)
        for n in model.names
        for s, asked in model.local(n)
        for event in model.events(n)
        for t in model.table[n, s, event][1] - asked
    )
    internal = [(e, b) for e, (a, b) in model.edges.items() if a and b]
    condition2 = all(
        le(t, u) for e, n in internal for t in model.times for u in model.times if ((n, t), (e, u)) in relation
    )
    transitive = all((a, c) in relation for a, b in relation for x, c in relation if x == b)
    assert transitive is condition2  # Theorem 1
    assert (told.not_transitive() is None) is transitive
    start = r.choice(stamps)
    assert set(told.close([start])) == model.closed(relation, [start])

    inputs = [r.choice(model.times) for _ in range(r.randrange(3))]
    verdict = check.progress(model.graph, inputs={"i": [Message(t) for t in inputs]}, max_states=300)
    parts = {name: part.status for name, part in verdict.parts.items()}
    said = {"condition 1": condition1, "condition 2": condition2}
    if condition2:
        said["acyclic"] = not any(((n, t), (e, t)) in relation for e, n in internal for t in model.times)
    mine = model.runs(relation, inputs, 150)
    for name, holds in {**said, **(mine or {})}.items():
        assert parts[name] in (("proved", "bounded") if holds else ("refuted",)), (name, parts, holds)
    if mine is not None and condition1:
        assert mine["theorem 2"]  # Condition 1 alone

    for _ in range(3):
        pending = r.sample(stamps, 3)
        location, t = r.choice(stamps)
        ends = (
            [(e, t) for e, (_, b) in model.edges.items() if b == location]
            if location in model.names
            else [(location, t)]
        )
        why = why_not(model.graph, location, t, pending=pending)
        blocking = {x for x in pending if any(y in model.closed(relation, [x]) for y in ends)}
        assert {x for x, _ in why.holds} == blocking and bool(why) is bool(blocking), (location, t, pending)
