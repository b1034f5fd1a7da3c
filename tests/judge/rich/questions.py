"""Questions about pipelines over rich types, as text and as what they mean: atoms of a push, formulas, and what is
true of all runs.  Nothing of Pellucid is imported here; what CTL and LTL mean over a graph of runs is told in
`tests.judge.verdict_formulas`.
"""

from __future__ import annotations

import itertools
import operator
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.judge.rich.draw import Draw
from tests.judge.rich.kinds import FIELDS, ORDERED, values
from tests.judge.rich.meaning import FAILED, Pipe, Push, Seen, begin, push, waiting
from tests.judge.verdict_formulas import BRANCHING, Graph, atoms, components, ctl, ltl_violated, operators

OPS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


# ---------------------------------------------------------------- atoms


@dataclass(frozen=True)
class Term:
    """A stream's value (each, the first, the last, how many) with a path into it, or a constant."""

    how: str  # value, first, last, count, lit; minus, plus
    stream: int = -1
    name: str = ""
    path: tuple[str, ...] = ()
    lit: Any = None
    parts: tuple[Term, ...] = ()

    def __str__(self) -> str:
        if self.how == "lit":
            return literal(self.lit)
        if self.parts:
            return f"{self.parts[0]} {'-' if self.how == 'minus' else '+'} {self.parts[1]}"
        return ".".join((self.name, self.how, *self.path))


@dataclass(frozen=True)
class Atom:
    """``present``, ``failed``, or a comparison of each event (``all``) or of one at least (``any``)."""

    kind: str
    left: Term | None = None
    op: str = ""
    right: Term | None = None

    def __str__(self) -> str:
        if self.kind in ("failed", "true"):
            return self.kind
        if self.kind == "present":
            return str(self.left.name)  # type: ignore[union-attr]
        return f"{'any' if self.kind == 'any' else ''}({self.left} {self.op} {self.right})"

    def holds(self, seen: Seen) -> bool:
        """Of a push."""
        if self.kind == "failed":
            return seen.failed
        if self.kind == "true":
            return True
        left, right = self.left, self.right
        assert left is not None
        if self.kind == "present":
            return bool(seen.streams[left.stream])
        assert right is not None
        terms = [t for side in (left, right) for t in (side.parts or (side,)) if t.how != "lit"]
        if any(t.how != "count" and not seen.streams[t.stream] for t in terms):
            return False
        each = sorted({t.stream for t in terms if t.how == "value"})

        def of(choice: tuple[Any, ...]) -> bool:
            event = dict(zip(each, choice, strict=True))
            try:
                a, b = (_value(t, event, seen) for t in (left, right))
            except Missing:
                return False
            if self.op not in ("=", "!=") and (a is None or b is None):
                return False
            return OPS[self.op](a, b)

        choices = itertools.product(*(seen.streams[s] for s in each))
        return (any if self.kind == "any" else all)(map(of, choices))


class Missing(Exception):  # noqa: N818 - not an error
    """A calculation with what is not there."""


def _value(term: Term, event: dict[int, Any], seen: Seen) -> Any:
    match term.how:
        case "minus" | "plus":
            a, b = (_value(t, event, seen) for t in term.parts)
            if a is None or b is None:
                raise Missing
            return a - b if term.how == "minus" else a + b
        case "lit":
            return term.lit
        case "count":
            return len(seen.streams[term.stream])
        case "value":
            value = event[term.stream]
        case "first":
            value = seen.streams[term.stream][0]
        case _:
            value = seen.streams[term.stream][-1]
    for name in term.path:
        value = None if value is None else getattr(value, name)
    return value


def literal(value: Any) -> str:
    """As formulas write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f'"{value.isoformat(sep=" ")}"'
    if isinstance(value, date):
        return f'"{value.isoformat()}"'
    if isinstance(value, timedelta):
        n = value // timedelta(microseconds=1)
        sign, n = ("-" if n < 0 else ""), abs(n)
        return f'"{sign}PT{n // 10**6}.{n % 10**6:06d}S"'
    if isinstance(value, Decimal):
        return str(value)
    return str(value)


def text(f: Any) -> str:
    """A formula as it is asked."""
    match f:
        case ("atom", a):
            return str(a)
        case ("EU" | "AU", a, b):
            return f"{f[0][0]} [{text(a)} U {text(b)}]"
        case ("!", a):
            return f"!({text(a)})"
        case (op, a):
            return f"{op} ({text(a)})"
        case (op, a, b):
            return f"({text(a)} {op} {text(b)})"
    raise AssertionError(f)


class Formulas:
    """Draws formulas about a pipeline."""

    def __init__(self, pipe: Pipe, draw: Draw) -> None:
        self.pipe, self.draw, self.r = pipe, draw, draw.r
        names = pipe.names()
        self.streams = [(name, at) for name, at in names.items() if not pipe.type_of(at).startswith("tup(")]
        self.known = [("out", pipe.out)] * 3 + self.streams

    def paths(self, kind: str) -> list[tuple[tuple[str, ...], str]]:
        """The ways into a value."""
        found = [((), kind)]
        for name, k in FIELDS.get(kind, {}).items():
            found += [((name, *path), end) for path, end in self.paths(k)]
        return found

    def atom(self) -> Any:
        """An atom."""
        r = self.r
        if r.random() < 0.07 and self.draw.failures:
            return ("atom", Atom("failed"))
        name, at = r.choice(self.known)
        if r.random() < 0.2:
            return ("atom", Atom("present", Term("value", at, name)))
        if r.random() < 0.06:
            return (
                "atom",
                Atom("all", Term("count", at, name), r.choice(["=", "<", ">="]), Term("lit", lit=r.randint(0, 2))),
            )
        how = self.draw.pick((6, "value"), (1, "first"), (1, "last"))
        path, kind = r.choice(
            [p for p in self.paths(self.pipe.type_of(at)) if p[1].rstrip("?") not in FIELDS] or [((), "")]
        )
        if not kind:  # a record that may be missing, or one with such only
            path, kind = r.choice(self.paths(self.pipe.type_of(at)))
        left = Term(how, at, name, path)
        if kind.endswith("?") and (r.random() < 0.4 or kind[:-1] in FIELDS):
            return ("atom", Atom(self.all_any(how), left, r.choice(["=", "!="]), Term("lit")))
        if kind in FIELDS:
            return ("atom", Atom("present", left))
        base = kind.rstrip("?")
        ops = ["=", "!=", "<", "<=", ">", ">="] if base in ORDERED else ["=", "!="]
        others = [
            Term("value", b, other, p)
            for other, b in self.streams
            for p, k in self.paths(self.pipe.type_of(b))
            if k.rstrip("?") == base and (b, p) != (at, path)
        ]
        if (
            others
            and base in ("int", "date", "datetime", "timedelta", "cents")
            and how == "value"
            and r.random() < 0.25
        ):
            how = "minus" if base in ("date", "datetime") or r.random() < 0.5 else "plus"
            span = base in ("date", "datetime", "timedelta")
            limit = self.draw.constant("timedelta") if span else self.draw.constant(base)
            if base == "date":
                limit = timedelta(days=r.randint(-2, 2))
            left = Term(how, parts=(left, r.choice(others)))
            return ("atom", Atom("all", left, r.choice(ops), Term("lit", lit=limit)))
        right = r.choice(others) if others and r.random() < 0.35 else Term("lit", lit=self.draw.constant(base))
        return ("atom", Atom(self.all_any(how), left, r.choice(ops), right))

    def all_any(self, how: str) -> str:
        """Of each event, or of one."""
        return "any" if how == "value" and self.r.random() < 0.15 else "all"

    def state(self) -> Any:
        """A formula about one push."""
        match self.draw.pick((4, "atom"), (2, "->"), (1, "&"), (1, "|"), (1, "!")):
            case "atom":
                return self.atom()
            case "!":
                return ("!", self.atom())
            case op:
                return (op, self.atom(), self.atom())

    def formula(self) -> Any:
        """One of the usual forms."""
        p, q, pick = self.state, self.state, self.draw.pick
        match pick(
            (5, "G"), (5, "AG"), (1, "G->X"), (1, "F"), (1, "GF"), (1, "EF"), (1, "AF"), (2, "AGEF"), (1, "AG->EF"),
            (1, "U"), (1, "G->F"), (1, "EG"), (1, "EU"), (0.7, "AGAF"), (0.7, "Y"), (0.7, "X"), (0.7, "FG"), (0.7, "O"),
        ):  # fmt: skip
            case ("G" | "F" | "AG" | "EF" | "AF" | "EG" | "X") as op:
                return (op, p())
            case "G->X":
                return ("G", ("->", p(), ("X", q())))
            case "GF":
                return ("G", ("F", p()))
            case "FG":
                return ("F", ("G", p()))
            case "AGEF":
                return ("AG", ("EF", p()))
            case "AGAF":
                return ("AG", ("AF", p()))
            case "AG->EF":
                return ("AG", ("->", p(), ("EF", q())))
            case "U":
                return ("U", p(), q())
            case "G->F":
                return ("G", ("->", p(), ("F", q())))
            case "EU":
                return ("EU", p(), q())
            case "Y":
                return ("G", ("->", p(), ("Y", q())))
        return ("G", ("->", p(), ("O", q())))

    def assumption(self) -> Any:
        """Something about the event of a source, in one push."""
        sources = self.pipe.sources
        self.known = self.streams = [(name, i) for i, (name, _) in enumerate(sources)]
        while True:
            f = self.atom()
            if f[1].kind == "all" and "count" not in str(f[1]) and "first" not in str(f[1]) and "last" not in str(f[1]):
                return f


def keeps_to(f: Any, pipe: Pipe, events: Push) -> bool:
    """Whether a push satisfies what is assumed: nothing is, where an event is missing that it speaks of."""
    atom: Atom = f[1]
    terms = [t for side in (atom.left, atom.right) if side is not None for t in (side.parts or (side,))]
    seen = Seen(tuple((events[name],) if name in events else () for name, _ in pipe.sources))
    if any(t.how == "value" and not seen.streams[t.stream] for t in terms):
        return True
    return atom.holds(seen)


# ---------------------------------------------------------------- what is true


@dataclass
class Truth:
    """Whether it is so (None: not all runs were seen), and the length of the shortest run that shows that it is not."""

    so: bool | None
    length: int | None = None


def all_pushes(pipe: Pipe, ints: Sequence[int], most: int = 40) -> list[Push] | None:
    """All that can come in one push; None if it is too much."""
    parts = [[None, *(((name, v),) for v in values(kind, ints))] for name, kind in pipe.sources]
    count = 1
    for part in parts:
        count *= len(part)
    if count > most:
        return None
    return [dict(item for part in choice if part for item in part) for choice in itertools.product(*parts)]


def graph_of(pipe: Pipe, f: Any, inputs: Sequence[Push], limit: int) -> Graph:
    """The pushes of all runs, with the atoms that hold; breadth first."""
    names: list[Atom] = atoms(f)
    graph = Graph([], [], [], [], [])
    index: dict[Any, int] = {}
    states: list[Any] = []
    known: dict[Any, list[tuple[Any, tuple[bool, ...], Push]]] = {}

    def after(state: Any) -> list[tuple[Any, tuple[bool, ...], Push]]:
        if state not in known:
            known[state] = []
            for events in inputs[:1] if state == FAILED else inputs:
                new, seen = push(pipe, state, events)
                known[state].append((new, tuple(a.holds(seen) for a in names), events))
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

    for new, label, events in after(begin(pipe)):
        graph.first.append(node(new, label, (None, events)))
    n = 0
    while n < len(states) and len(known) * len(inputs) < limit:
        graph.next[n] = sorted({node(new, label, (n, events)) for new, label, events in after(states[n])})
        graph.done[n] = True
        n += 1
    return graph


def now(f: Any, label: tuple[bool, ...], names: Sequence[Atom]) -> bool:
    """Whether a formula without temporal operators holds of a push."""
    match f:
        case ("atom", a):
            return label[names.index(a)]
        case ("!", a):
            return not now(a, label, names)
        case ("&", a, b):
            return now(a, label, names) and now(b, label, names)
        case ("|", a, b):
            return now(a, label, names) or now(b, label, names)
        case ("->", a, b):
            return not now(a, label, names) or now(b, label, names)
    raise AssertionError(f)


def of_formula(pipe: Pipe, f: Any, inputs: Sequence[Push], limit: int) -> Truth:
    """Whether a formula holds in every run."""
    graph = graph_of(pipe, f, inputs, limit)
    if f[0] in ("G", "AG") and operators(f[1]) <= {"!", "&", "|", "->"}:
        names = atoms(f)
        for node, label in enumerate(graph.labels):
            if not now(f[1], label, names):
                return Truth(False, len(graph.way(node)))
        return Truth(True if graph.complete else None)
    if operators(f) & BRANCHING:
        return Truth(ctl(f, graph))
    violated, full, _ = ltl_violated(f, graph)
    return Truth(False if violated else True if full else None)


def differ(how: str, a: Seen, b: Seen, pipes: Sequence[Pipe]) -> bool:
    """Whether two pipelines do not say in one push what they should: ``step`` or ``implies``."""
    one, two = a.streams[pipes[0].out], b.streams[pipes[1].out]
    if a.failed != b.failed or len(one) != len(two):
        return True
    if how == "step":
        return one != two
    return any(x and not y for x, y in zip(one, two, strict=True))


def of_two(how: str, pipes: Sequence[Pipe], inputs: Sequence[Push], limit: int) -> Truth:
    """Whether two pipelines agree in every push of every run."""
    start = tuple(map(begin, pipes))
    depth = {start: 0}
    todo = deque([start])
    while todo:
        if len(depth) * len(inputs) > limit:
            return Truth(None)
        state = todo.popleft()
        for events in inputs:
            (new, a), (other, b) = (push(p, s, events) for p, s in zip(pipes, state, strict=True))
            if differ(how, a, b, pipes):
                return Truth(False, depth[state] + 1)
            if (new, other) not in depth:
                depth[new, other] = depth[state] + 1
                todo.append((new, other))
    return Truth(True)


END = ("the end",)


def said(pipe: Pipe, before: Any, seen: Seen) -> tuple[Any, ...]:
    """What a push adds to the sequence that is put out."""
    if seen.failed:
        return () if before == FAILED else (END,)
    return seen.streams[pipe.out]


def rest(ahead: int, wait: tuple[Any, ...], new: Sequence[tuple[Any, ...]]) -> tuple[int, tuple[Any, ...]] | None:
    """Who is ahead and by what; None where two differ at one place."""
    both = [tuple(new[0]), tuple(new[1])]
    both[ahead] = wait + both[ahead]
    common = min(map(len, both))
    if both[0][:common] != both[1][:common]:
        return None
    ahead = 0 if len(both[0]) > common else 1
    return ahead, both[ahead][common:]


def of_sequence(pipes: Sequence[Pipe], inputs: Sequence[Push], limit: int) -> Truth:
    """Whether two pipelines put out the same sequence in the end."""
    start = (*map(begin, pipes), 0, ())
    known, todo, full = {start}, deque([start]), True
    stuck: dict[Any, bool | None] = {}
    while todo:
        if len(known) * len(inputs) > limit:
            return Truth(None)
        state = todo.popleft()
        if state[3]:
            behind = 1 - state[2]
            if (behind, state[behind]) not in stuck:
                stuck[behind, state[behind]] = silent_for_ever(pipes[behind], state[behind], inputs, limit // 10)
            silent = stuck[behind, state[behind]]
            if silent:
                return Truth(False)
            full = full and silent is not None
        if len(state[3]) > 5:
            full = False
            continue
        for events in inputs:
            both = [push(p, s, events) for p, s in zip(pipes, state[:2], strict=True)]
            left = rest(
                state[2], state[3], [said(p, s, seen) for p, s, (_, seen) in zip(pipes, state[:2], both, strict=True)]
            )
            if left is None:
                return Truth(False)
            new = (both[0][0], both[1][0], *left)
            if new not in known:
                known.add(new)
                todo.append(new)
    return Truth(True if full else None)


def silent_for_ever(pipe: Pipe, start: Any, inputs: Sequence[Push], limit: int) -> bool | None:
    """Whether a pipeline can be silent from here on, though every source speaks again and again."""
    index, order = {start: 0}, [start]
    follow: list[list[int]] = []
    speaks: list[list[tuple[int, Push]]] = []
    while len(follow) < len(order):
        if len(order) * len(inputs) > limit:
            return None
        edges = []
        for events in inputs:
            new, seen = push(pipe, order[len(follow)], events)
            if said(pipe, order[len(follow)], seen):
                continue
            if new not in index:
                index[new] = len(order)
                order.append(new)
            edges.append((index[new], events))
        follow.append([m for m, _ in edges])
        speaks.append(edges)
    everybody = {name for name, _ in pipe.sources}
    for component in components(follow):
        inside = set(component)
        if {name for c in component for m, events in speaks[c] if m in inside for name in events} == everybody:
            return True
    return False


def longest_queues(pipe: Pipe, inputs: Sequence[Push], limit: int) -> tuple[dict[str, int], bool]:
    """The longest that each queue can be after a push, and whether that is all."""
    start = begin(pipe)
    known, todo, most = {start}, deque([start]), waiting(pipe, start)
    while todo:
        if len(known) * len(inputs) > limit:
            return most, False
        state = todo.popleft()
        for events in inputs:
            new, _ = push(pipe, state, events)
            if new not in known:
                known.add(new)
                todo.append(new)
                for name, length in waiting(pipe, new).items():
                    most[name] = max(most[name], length)
    return most, True


def random_runs(pipe: Pipe, r: random.Random, ints: Sequence[int], count: int) -> list[list[Push]]:
    """Runs of random events and silence."""
    pools = {name: values(kind, ints) for name, kind in pipe.sources}
    return [
        [{name: r.choice(pool) for name, pool in pools.items() if r.random() < 0.85} for _ in range(r.randint(1, 7))]
        for _ in range(count)
    ]
