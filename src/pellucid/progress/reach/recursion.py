"""Recursion (3.4): a graph that calls itself, with the stack of open calls as the time.

A `Recursion` has a node ``in``, a node ``out``, ordinary nodes and call nodes.  A call node *c* is split into
``call-c``, from which one goes to ``in`` with *c* on the stack, and ``ret-c``, to which one comes back from ``out``.
*(p, f) reaches (p′, f′)* is the least reflexive and transitive relation with these steps and the ordinary edges (the
stack stays).  At each node it is a pre-order of stacks: `Recursion.before`, and the times of that node are its classes.

Whether (p, f) reaches (p′, f′) can be decided without going through stacks: leave the calls of f down to a common
prefix, walk inside one call, enter the calls of f′.  The paper takes the *longest* common prefix
(``decision="printed"``).  That is wrong where a cycle goes through a call: with in→a, a→c, c→a, a→out, from (a, [c])
one comes to (in, [c]) by leaving the call and making it again.  Right is to try *every* common prefix
(``decision="corrected"``, the default).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Literal, get_args

from pellucid.errors import PipelineError, UsageError, nearest
from pellucid.internal.model import Search
from pellucid.progress.given import several
from pellucid.progress.graph import Graph, Message, Node
from pellucid.progress.times import Order, Time

Stack = tuple[str, ...]
Place = tuple[str, Stack]
Decision = Literal["corrected", "printed"]


class Recursion:
    """A graph that calls itself: edges as pairs of nodes, and which nodes are calls.

    >>> fib = Recursion([("in", "a"), ("a", "c"), ("c", "a"), ("a", "out")], calls=["c"])
    >>> fib.reaches(("a", ("c",)), ("in", ("c",)))
    True
    >>> fib.reaches(("a", ("c",)), ("in", ("c",)), decision="printed")
    False
    >>> fib.way(("a", ("c",)), ("in", ("c",)))
    [('a', ('c',)), ('out', ('c',)), ('ret-c', ()), ('a', ()), ('call-c', ()), ('in', ('c',))]
    """

    def __init__(self, edges: Iterable[tuple[str, str]], calls: Iterable[str] = ()) -> None:
        self.calls = tuple(dict.fromkeys(several(calls, "recursion: calls=", "['c']")))
        pairs = several(edges, "recursion: edges=", "[('in', 'a'), ('a', 'out')]")
        for pair in pairs:
            named = isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(p, str) for p in pair)
            if not named:
                raise PipelineError(f"recursion: the edge {pair!r}: a pair of names is expected, as in ('in', 'a')")
        self.edges = tuple(dict.fromkeys(pairs))
        ends = dict.fromkeys(p for edge in self.edges for p in edge)
        self._check(ends)
        split = [(self._leaving(a), self._entering(b)) for a, b in self.edges]
        names = dict.fromkeys(p for edge in split for p in edge)
        names.update(dict.fromkeys(part for c in self.calls for part in (f"call-{c}", f"ret-{c}")))
        self.nodes = tuple(names)
        self._inside = {p: [b for a, b in split if a == p] for p in self.nodes}  # ordinary steps
        forward = {p: [*self._inside[p], *(f"ret-{p[5:]}" for _ in [0] if self._is_call(p))] for p in self.nodes}
        self._walks = {p: Search([p], _following(forward)).all() for p in self.nodes}

    def _check(self, ends: Iterable[str]) -> None:
        known = list(ends)
        for needed in ("in", "out", *self.calls):
            if needed not in known:
                raise PipelineError(f"recursion: no edge touches {needed!r}: it needs in, out, and every call")
        for p in known:
            if p.startswith(("call-", "ret-")):
                raise PipelineError(
                    f"recursion: {p!r}: names that begin with call- or ret- are made here: take another"
                )
        for bad, side in (("in", 1), ("out", 0)):
            if bad in self.calls:
                raise PipelineError(f"recursion: {bad!r} cannot be a call")
            if any(edge[side] == bad for edge in self.edges):
                raise PipelineError(f"recursion: no edge may {'enter in' if side else 'leave out'}")
        plain = {p: [b for a, b in self.edges if a == p] for p in known}
        back = {p: [a for a, b in self.edges if b == p] for p in known}
        lost = [p for p in known if p not in Search(["in"], _following(plain)).all()]
        stuck = [p for p in known if p not in Search(["out"], _following(back)).all()]
        if lost or stuck:
            where = f"{lost[0]!r} is not reached from in" if lost else f"out is not reached from {stuck[0]!r}"
            raise PipelineError(f"recursion: {where}: every node must be on a way from in to out")
        base = {p: [b for b in plain[p] if b not in self.calls] for p in known}
        if "out" not in Search(["in"], _following(base)).all():
            raise PipelineError("recursion: every way from in to out makes a call: it would never end; add one without")

    def _is_call(self, p: str) -> bool:
        return p.startswith("call-") and p[5:] in self.calls

    def _leaving(self, p: str) -> str:
        return f"ret-{p}" if p in self.calls else p

    def _entering(self, p: str) -> str:
        return f"call-{p}" if p in self.calls else p

    def _known(self, place: Place) -> Place:
        if not isinstance(place, tuple) or len(place) != 2 or not isinstance(place[1], (tuple, list)):
            raise UsageError(f"recursion: {place!r}: a node and its stack are expected, as in ('in', ('c',))")
        p, f = place
        if p not in self.nodes:
            raise UsageError(f"recursion: {p!r} is no node: {', '.join(self.nodes)} are{nearest(str(p), self.nodes)}")
        for c in f:
            if c not in self.calls:
                raise UsageError(
                    f"recursion: {c!r} is no call: {', '.join(self.calls) or 'none'} is{nearest(c, self.calls)}"
                )
        return p, tuple(f)

    # ---------------------------------------------------------------- the relation

    def steps(self, place: Place) -> Iterator[tuple[str, Place]]:
        """The steps of the relation from a node and a stack, by the number that the paper gives them."""
        p, f = place
        if self._is_call(p):
            yield "1", ("in", (*f, p[5:]))
        elif p == "out" and f:
            yield "2", (f"ret-{f[-1]}", f[:-1])
        for q in self._inside[p]:
            yield "3", (q, f)

    def closure(self, place: Place, depth: int) -> set[Place]:
        """All that is reached with stacks of at most this depth on the way: by brute force."""
        start = self._known(place)
        return Search([start], lambda x: (s for s in self.steps(x) if len(s[1][1]) <= depth)).all()

    def way(self, a: Place, b: Place) -> list[Place] | None:
        """A shortest way from one to the other, None if there is none."""
        a, b = self._known(a), self._known(b)
        if not self.reaches(a, b):
            return None
        deep = max(len(a[1]), len(b[1])) + 1
        search = Search([a], lambda x: ((then, then) for _, then in self.steps(x) if len(then[1]) <= deep))
        search.all()
        return [a, *search.way(b)]

    def reaches(self, a: Place, b: Place, *, decision: Decision = "corrected") -> bool:
        """Whether (p, f) reaches (p′, f′), decided from the stacks' common prefixes."""
        if decision not in get_args(Decision):
            raise UsageError(f"decision={decision!r}: {' or '.join(map(repr, get_args(Decision)))} is expected")
        (p, f), (q, g) = self._known(a), self._known(b)
        longest = next((i for i, (x, y) in enumerate(zip(f, g, strict=False)) if x != y), min(len(f), len(g)))
        for prefix in range(longest, -1, -1):
            leave = f"ret-{f[prefix]}" if len(f) > prefix else p
            enter = f"call-{g[prefix]}" if len(g) > prefix else q
            if enter in self._walks[leave]:
                return True
            if decision == "printed":
                return False
        return False

    # ---------------------------------------------------------------- stacks as times

    def before(self, node: str, *, decision: Decision = "corrected") -> Callable[[Stack, Stack], bool]:
        """The pre-order of stacks at a node, for `pellucid.progress.Stacks`.

        >>> from pellucid.progress.times import Stacks
        >>> fib = Recursion([("in", "a"), ("a", "l"), ("l", "r"), ("r", "out"), ("a", "out")], calls=["l", "r"])
        >>> at_a = Stacks(fib.calls, fib.before("a"))
        >>> at_a.less_equal(("l",), ("r",)), at_a.less_equal(("r",), ("l",))
        (True, False)
        """
        self._known((node, ()))
        return lambda f, g: self.reaches((node, f), (node, g), decision=decision)

    def stacks(self, depth: int) -> Iterator[Stack]:
        """All stacks of at most this depth."""
        for n in range(depth + 1):
            yield from product(self.calls, repeat=n)

    def times(self, node: str, depth: int) -> dict[Stack, Stack]:
        """The classes of stacks at a node, up to a depth: each stack with the first one that is the same time."""
        before, first = self.before(node), dict[Stack, Stack]()
        for f in self.stacks(depth):
            first[f] = next((g for g in dict.fromkeys(first.values()) if before(f, g) and before(g, f)), f)
        return first

    def graph(self, node: Callable[[str, Recursion, int], Node], depth: int) -> Graph:
        """The graph with the back edges of calls, for stacks up to a depth, its times tagged by their nodes; ``node``
        makes each node."""
        edges: dict[str, tuple[str | None, str | None]] = {}
        for p in self.nodes:
            for q in [*self._inside[p], *(["in"] if self._is_call(p) else [])]:
                edges[f"{p}>{q}"] = (p, q)
        for c in self.calls:
            edges[f"out>ret-{c}"] = ("out", f"ret-{c}")
        times: dict[str, Sequence[Time]] = {
            p: [(p, f) for f in dict.fromkeys(self.times(p, depth).values())] for p in self.nodes
        }
        times.update({e: times[b] for e, (_, b) in edges.items() if b is not None})
        nodes = {p: node(p, self, depth) for p in self.nodes}
        return Graph(nodes, edges, order=TaggedStacks(self), times=times, name="recursion")


class TaggedStacks(Order):
    """The times of a recursion: a node's name and a stack, compared at that node; the disjoint union of the orders of
    all nodes.

    >>> fib = Recursion([("in", "a"), ("a", "c"), ("c", "a"), ("a", "out")], calls=["c"])
    >>> TaggedStacks(fib).less_equal(("in", ()), ("in", ("c",))), TaggedStacks(fib).less_equal(("in", ()), ("a", ()))
    (True, False)
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion

    def holds(self, time: Time) -> bool:
        """Whether it is a pair of a node and a stack."""
        return (
            isinstance(time, tuple)
            and len(time) == 2
            and time[0] in self.recursion.nodes
            and isinstance(time[1], tuple)
            and all(c in self.recursion.calls for c in time[1])
        )

    def le(self, a: Time, b: Time) -> bool:
        """Whether both are of one node, and the stacks in its order."""
        return bool(a[0] == b[0]) and self.recursion.reaches(a, b)

    def example(self) -> Time:
        """Some time."""
        return ("in", ())

    def _key(self) -> tuple[object, ...]:
        return self.recursion.edges, self.recursion.calls

    def __str__(self) -> str:
        return "stacks, tagged by nodes"


def conforming(name: str, recursion: Recursion, depth: int) -> Node:
    """A node that sends, from each message at a stack of its own, to all that the recursion says it reaches in one
    step.

    >>> fib = Recursion([("in", "a"), ("a", "c"), ("c", "a"), ("a", "out")], calls=["c"])
    >>> fib.graph(conforming, 1).times_at("in")
    (('in', ()), ('in', ('c',)))
    """
    classes = {q: recursion.times(q, depth) for q in recursion.nodes}

    def send(state: object, time: Time) -> object:
        sent: dict[str, list[Message]] = {}
        if time[0] == name:
            for stack, first in classes[name].items():
                if first == time[1]:
                    for _, (q, f) in recursion.steps((name, stack)):
                        if len(f) <= depth:
                            sent.setdefault(f"{name}>{q}", []).append(Message((q, classes[q][f])))
        return state, (), {edge: list(dict.fromkeys(several)) for edge, several in sent.items()}

    return Node(lambda state, edge, message: send(state, message.time), send)


def _following(graph: dict[str, list[str]]) -> Callable[[str], Iterator[tuple[str, str]]]:
    return lambda p: ((q, q) for q in graph[p])
