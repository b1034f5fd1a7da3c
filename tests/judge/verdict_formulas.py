"""What a formula means: atoms of a push, CTL by fixpoints, LTL with past by a tableau, LTL on streams that end.
Nothing of Pellucid is imported here.

A formula is nested tuples: ``("atom", …)``, ``("!", f)``, ``("&", f, g)``, ``("AG", f)``, ``("U", f, g)`` …  A part of
a graph of runs may be unknown (it was not explored to its end): then CTL gives what is certain and what is possible,
and LTL only violations that are certain.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.judge.verdict_meaning import CLASSES, COMPARE, Seen

PAST = {"Y", "O", "H", "S"}
FUTURE = {"X", "F", "G", "U", "W", "R"}
BRANCHING = {"EX", "EF", "EG", "AX", "AF", "AG", "EU", "AU"}
EQUAL = {"=": "=="}


# ---------------------------------------------------------------- atoms


class Undefined(Exception):  # noqa: N818 - not an error
    """The calculation of an atom fails."""


def _term(term: Any, event: dict[int, Any], seen: Seen) -> Any:
    match term:
        case ("lit", value):
            return value
        case ("value", ref, path):
            return _path(event[ref[0]], path)
        case ("first", ref, path):
            return _path(seen.of(ref[0])[0], path)
        case ("last", ref, path):
            return _path(seen.of(ref[0])[-1], path)
        case ("count", ref):
            return len(seen.of(ref[0]))
        case ("neg", a):
            return -_term(a, event, seen)
        case ("calc", op, a, b):
            left, right = _term(a, event, seen), _term(b, event, seen)
            if op == "%":
                if right == 0:
                    raise Undefined
                return left % right
            return {"+": left + right, "-": left - right, "*": left * right}[op]
    raise AssertionError(term)


def _path(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = getattr(value, name)
    return value


def refs(term: Any) -> list[tuple[str, Any]]:
    """The streams that a term or an atom speaks of, each with how."""
    if term[0] in ("value", "first", "last", "count"):
        return [(term[0], term[1])]
    return [found for part in term if isinstance(part, tuple) for found in refs(part)]


def atom_holds(atom: Any, seen: Seen) -> bool:
    """Of a push."""
    match atom:
        case ("true",):
            return True
        case ("false",):
            return False
        case ("present", ref):
            return bool(seen.of(ref[0]))
        case ("failed", _):
            return seen.failed
        case ("compare", op, a, b):
            return _choices(op, a, b, seen, all)
        case ("any", op, a, b):
            return _choices(op, a, b, seen, any)
    raise AssertionError(atom)


def _choices(op: str, a: Any, b: Any, seen: Seen, how: Callable[..., bool]) -> bool:
    spoken = refs(a) + refs(b)
    if any(kind != "count" and not seen.of(ref[0]) for kind, ref in spoken):
        return False
    streams = sorted({ref[0] for kind, ref in spoken if kind == "value"})

    def holds(choice: tuple[Any, ...]) -> bool:
        event = dict(zip(streams, choice, strict=True))
        try:
            return COMPARE[EQUAL.get(op, op)](_term(a, event, seen), _term(b, event, seen))
        except Undefined:
            return False

    return how(holds(choice) for choice in itertools.product(*(seen.of(s) for s in streams)))


def atoms(f: Any) -> list[Any]:
    """All atoms of a formula, in order, each once."""
    if f[0] == "atom":
        return [f[1]]
    return list(dict.fromkeys(a for g in f[1:] for a in atoms(g)))


def operators(f: Any) -> set[str]:
    """All operators of a formula."""
    return set() if f[0] == "atom" else {f[0]}.union(*(operators(g) for g in f[1:]))


# ---------------------------------------------------------------- as text


def literal(value: Any) -> str:
    """As formulas write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, CLASSES["Color"]):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    return repr(value)


def text(f: Any) -> str:
    """As it is asked, with brackets everywhere."""
    match f:
        case ("atom", ("present", ref)):
            return str(ref[1])
        case ("atom", ("compare", op, a, b)):
            return f"({_text(a)} {op} {_text(b)})"
        case ("atom", ("any", op, a, b)):
            return f"any({_text(a)} {op} {_text(b)})"
        case ("atom", ("failed", word) | (word,)):
            return str(word)
        case ("EU" | "AU", a, b):
            return f"{f[0][0]} [{text(a)} U {text(b)}]"
        case ("!", a):
            return f"!{text(a)}" if a[0] == "!" or (a[0] == "atom" and a[1][0] != "present") else f"!({text(a)})"
        case (op, a):
            return f"{op} ({text(a)})"
        case (op, a, b):
            return f"({text(a)} {op} {text(b)})"
    raise AssertionError(f)


def _text(term: Any) -> str:
    match term:
        case ("lit", value):
            return literal(value)
        case ("value", ref, path):
            return ".".join((ref[1], "value", *path))
        case ("first" | "last", ref, path):
            return ".".join((ref[1], term[0], *path))
        case ("count", ref):
            return f"{ref[1]}.count"
        case ("neg", a):
            return f"-({_text(a)})"
        case ("calc", op, a, b):
            return f"({_text(a)} {op} {_text(b)})"
    raise AssertionError(term)


# ---------------------------------------------------------------- graphs of runs


@dataclass
class Graph:
    """Pushes and what may follow them; ``labels`` says which atoms hold.  A node that is not ``done`` has successors
    that are not known."""

    labels: list[tuple[bool, ...]]
    next: list[list[int]]
    done: list[bool]
    first: list[int]
    path: list[Any]  # how each node was reached: the node before, and the events

    @property
    def complete(self) -> bool:
        """Whether all runs are known."""
        return all(self.done)

    def way(self, node: int | None) -> list[Any]:
        """The events that lead to a node."""
        found = []
        while node is not None:
            node, events = self.path[node]
            found.append(events)
        return found[::-1]


Sure = tuple[set[int], set[int]]  # where it holds for certain, and where it may


def ctl(f: Any, graph: Graph) -> bool | None:
    """Whether a formula of CTL holds in every first push; None where that is not known."""
    names = atoms(f)
    everywhere = set(range(len(graph.next)))
    before: list[list[int]] = [[] for _ in graph.next]
    for n, following in enumerate(graph.next):
        for m in following:
            before[m].append(n)
    open_ = {n for n in everywhere if not graph.done[n]}

    def inverse(s: Sure) -> Sure:
        return everywhere - s[1], everywhere - s[0]

    def ex(s: set[int]) -> set[int]:
        return {n for m in s for n in before[m]}

    def eu(f: set[int], g: set[int], more: set[int]) -> set[int]:
        found = g | (f & more)
        todo = list(found)
        while todo:
            for n in before[todo.pop()]:
                if n in f and n not in found:
                    found.add(n)
                    todo.append(n)
        return found

    def eg(f: set[int], more: set[int]) -> set[int]:
        found = set(f)
        degree = {n: sum(m in found for m in graph.next[n]) for n in found}
        todo = [n for n in found if not degree[n] and n not in more]
        while todo:
            n = todo.pop()
            if n not in found:
                continue
            found.discard(n)
            for m in before[n]:
                if m in found:
                    degree[m] -= 1
                    if degree[m] == 0 and m not in more:
                        todo.append(m)
        return found

    def value(f: Any) -> Sure:
        match f:
            case ("atom", a):
                at = names.index(a)
                found = {n for n in everywhere if graph.labels[n][at]}
                return found, found
            case ("!", a):
                return inverse(value(a))
            case ("&", a, b):
                x, y = value(a), value(b)
                return x[0] & y[0], x[1] & y[1]
            case ("|", a, b):
                x, y = value(a), value(b)
                return x[0] | y[0], x[1] | y[1]
            case ("->", a, b):
                return value(("|", ("!", a), b))
            case ("<->", a, b):
                return value(("|", ("&", a, b), ("&", ("!", a), ("!", b))))
            case ("EX", a):
                x = value(a)
                return ex(x[0]), ex(x[1]) | open_
            case ("EU", a, b):
                x, y = value(a), value(b)
                return eu(x[0], y[0], set()), eu(x[1], y[1], open_)
            case ("EF", a):
                x = value(a)
                return eu(everywhere, x[0], set()), eu(everywhere, x[1], open_)
            case ("EG", a):
                x = value(a)
                return eg(x[0], set()), eg(x[1], open_)
            case ("AX", a):
                return inverse(value(("EX", ("!", a))))
            case ("AF", a):
                return inverse(value(("EG", ("!", a))))
            case ("AG", a):
                return inverse(value(("EF", ("!", a))))
            case ("AU", a, b):  # not (never b, or not b until neither)
                never = ("EG", ("!", b))
                neither = ("EU", ("!", b), ("&", ("!", a), ("!", b)))
                return inverse(value(("|", never, neither)))
        raise AssertionError(f)

    sure, maybe = value(f)
    if set(graph.first) <= sure:
        return True
    return None if set(graph.first) <= maybe else False


# ---------------------------------------------------------------- LTL


def core(f: Any) -> Any:
    """In terms of atoms, ``! &``, ``X U`` and ``Y S``."""
    true = ("atom", ("true",))

    def no(g: Any) -> Any:
        return g[1] if g[0] == "!" else ("!", g)

    def either(a: Any, b: Any) -> Any:
        return no(("&", no(a), no(b)))

    if f[0] == "atom":
        return f
    parts = [core(g) for g in f[1:]]
    match f[0], parts:
        case "!", [a]:
            return no(a)
        case ("&" | "X" | "U" | "Y" | "S") as op, _:
            return (op, *parts)
        case "|", [a, b]:
            return either(a, b)
        case "->", [a, b]:
            return either(no(a), b)
        case "<->", [a, b]:
            return either(("&", a, b), ("&", no(a), no(b)))
        case "F", [a]:
            return ("U", true, a)
        case "G", [a]:
            return no(("U", true, no(a)))
        case "R", [a, b]:
            return no(("U", no(a), no(b)))
        case "W", [a, b]:
            return no(("U", no(b), ("&", no(a), no(b))))
        case "O", [a]:
            return ("S", true, a)
        case "H", [a]:
            return no(("S", true, no(a)))
    raise AssertionError(f)


class Tableau:
    """The runs that satisfy a formula: promises for the next push, memories of the last one, and what must come at
    last."""

    def __init__(self, f: Any) -> None:
        self.f, self.names = core(f), atoms(f)
        self.promised: list[Any] = []
        self.kept: list[Any] = []
        self._collect(self.f)
        self.choices = list(itertools.product((False, True), repeat=len(self.promised)))
        self.cache: dict[Any, Any] = {}

    def _collect(self, f: Any) -> None:
        if f[0] == "atom":
            return
        for g in f[1:]:
            self._collect(g)
        if f[0] in ("X", "U") and f not in self.promised:
            self.promised.append(f)
        if f[0] in ("Y", "S") and f not in self.kept:
            self.kept.append(f)

    def judge(
        self, label: tuple[bool, ...], promises: tuple[bool, ...], memory: tuple[bool, ...]
    ) -> tuple[bool, tuple[bool, ...], tuple[bool, ...], tuple[bool, ...]]:
        """Whether the formula holds here; what the push before must have promised; the memory for the next; which fair
        sets it is in."""
        key = label, promises, memory
        if key not in self.cache:
            known: dict[Any, bool] = {}

            def value(f: Any) -> bool:
                if f not in known:
                    known[f] = now(f)
                return known[f]

            def now(f: Any) -> bool:
                match f:
                    case ("atom", ("true",)):
                        return True
                    case ("atom", a):
                        return label[self.names.index(a)]
                    case ("!", a):
                        return not value(a)
                    case ("&", a, b):
                        return value(a) and value(b)
                    case ("X", _):
                        return promises[self.promised.index(f)]
                    case ("U", a, b):
                        return value(b) or (value(a) and promises[self.promised.index(f)])
                    case ("Y", _):
                        return memory[self.kept.index(f)]
                    case ("S", a, b):
                        return value(b) or (value(a) and memory[self.kept.index(f)])
                raise AssertionError(f)

            said = tuple(value(f[1]) if f[0] == "X" else value(f) for f in self.promised)
            keep = tuple(value(f[1]) if f[0] == "Y" else value(f) for f in self.kept)
            fair = tuple(not value(f) or value(f[2]) for f in self.promised if f[0] == "U")
            self.cache[key] = value(self.f), said, keep, fair
        return self.cache[key]  # type: ignore[no-any-return]


def ltl_violated(f: Any, graph: Graph, limit: int = 20_000) -> tuple[bool, bool, int | None]:
    """Whether a run violates a formula, whether the search was complete, and a node of the graph where such a run's
    loop begins."""
    tableau = Tableau(("!", f))
    index: dict[Any, int] = {}
    follow: list[list[int]] = []
    todo: list[Any] = []
    full = graph.complete

    def node(n: int, promises: tuple[bool, ...], memory: tuple[bool, ...]) -> int:
        key = n, promises, memory
        if key not in index:
            index[key] = len(follow)
            follow.append([])
            todo.append(key)
        return index[key]

    nothing = (False,) * len(tableau.kept)
    for n in graph.first:
        for promises in tableau.choices:
            if tableau.judge(graph.labels[n], promises, nothing)[0]:
                node(n, promises, nothing)
    while todo:
        if len(follow) > limit:
            full = False
            break
        key = todo.pop()
        n, promises, memory = key
        keep = tableau.judge(graph.labels[n], promises, memory)[2]
        mine = follow[index[key]]
        for m in graph.next[n]:
            for choice in tableau.choices:
                if tableau.judge(graph.labels[m], choice, keep)[1] == promises:
                    mine.append(node(m, choice, keep))
    keys = list(index)
    for component in components(follow):
        if len(component) == 1 and component[0] not in follow[component[0]]:
            continue
        met = [False] * sum(g[0] == "U" for g in tableau.promised)
        for c in component:
            n, promises, memory = keys[c]
            for i, ok in enumerate(tableau.judge(graph.labels[n], promises, memory)[3]):
                met[i] = met[i] or ok
        if all(met):
            return True, full, keys[component[0]][0]
    return False, full, None


def components(follow: Sequence[Sequence[int]]) -> list[list[int]]:
    """The strongly connected components (Tarjan, without recursion)."""
    number: list[int] = [-1] * len(follow)
    low = [0] * len(follow)
    on, stack, found, count = [False] * len(follow), [], [], 0
    for root in range(len(follow)):
        if number[root] >= 0:
            continue
        work = [(root, 0)]
        while work:
            n, at = work.pop()
            if at == 0:
                number[n] = low[n] = count
                count += 1
                stack.append(n)
                on[n] = True
            for i in range(at, len(follow[n])):
                m = follow[n][i]
                if number[m] < 0:
                    work += [(n, i + 1), (m, 0)]
                    break
                if on[m]:
                    low[n] = min(low[n], number[m])
            else:
                if low[n] == number[n]:
                    component = []
                    while True:
                        m = stack.pop()
                        on[m] = False
                        component.append(m)
                        if m == n:
                            break
                    found.append(component)
                if work:
                    up = work[-1][0]
                    low[up] = min(low[up], low[n])
    return found


def on_lasso(f: Any, seen: Sequence[Seen], loop: int) -> bool:
    """Whether a formula of LTL holds on the run whose pushes repeat from ``loop`` on."""
    names = atoms(f)
    labels = [tuple(atom_holds(a, s) for a in names) for s in seen]
    last = len(seen) - 1
    graph = Graph(labels, [[i + 1] if i < last else [loop] for i in range(len(seen))], [True] * len(seen), [0], [])
    return not ltl_violated(f, graph)[0]


def on_finite(f: Any, seen: Sequence[Seen]) -> bool:
    """Whether a formula of LTL holds on a run that ends (LTLf): in the last push ``X p`` is false."""
    known: dict[Any, bool] = {}
    end = len(seen)

    def at(f: Any, i: int) -> bool:
        if (f, i) not in known:
            known[f, i] = now(f, i)
        return known[f, i]

    def now(f: Any, i: int) -> bool:
        match f:
            case ("atom", a):
                return atom_holds(a, seen[i])
            case ("!", a):
                return not at(a, i)
            case ("&", a, b):
                return at(a, i) and at(b, i)
            case ("X", a):
                return i + 1 < end and at(a, i + 1)
            case ("U", a, b):
                return at(b, i) or (at(a, i) and i + 1 < end and at(f, i + 1))
            case ("Y", a):
                return i > 0 and at(a, i - 1)
            case ("S", a, b):
                return at(b, i) or (at(a, i) and i > 0 and at(f, i - 1))
        raise AssertionError(f)

    return at(core(f), 0)
