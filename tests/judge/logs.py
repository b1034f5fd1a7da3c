"""Logs by chance, of shapes that logs have; nothing of Pellucid is imported."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

Log = tuple[dict[Any, str], list[tuple[Any, Any]]]


def _random(chance: random.Random, n: int) -> list[tuple[int, int]]:
    return [(chance.randrange(n), chance.randrange(n)) for _ in range(int(n * chance.choice([0.3, 1, 2, 4])))]


def _forward(chance: random.Random, n: int) -> list[tuple[int, int]]:
    pairs = [sorted((chance.randrange(n), chance.randrange(n))) for _ in range(2 * n)]
    return [(a, b) for a, b in pairs]


def _chains(chance: random.Random, n: int) -> list[tuple[int, int]]:
    cut = chance.randrange(1, n + 1)
    return [(i, i + 1) for i in range(n - 1) if i != cut] + [(chance.randrange(n), chance.randrange(n))]


def _tree(chance: random.Random, n: int) -> list[tuple[int, int]]:
    return [(chance.randrange(i), i) for i in range(1, n)]


def _rings(chance: random.Random, n: int) -> list[tuple[int, int]]:
    pairs, at = [], 0
    while at < n:
        size = min(chance.randint(1, 5), n - at)
        pairs += [(at + i, at + (i + 1) % size) for i in range(size)]
        at += size
    return pairs + [(chance.randrange(n), chance.randrange(n)) for _ in range(n // 6)]


def _star(chance: random.Random, n: int) -> list[tuple[int, int]]:
    hub = chance.randrange(n)
    return [(hub, i) for i in range(n)] + [(chance.randrange(n), hub)] * chance.randrange(2)


def _ladder(chance: random.Random, n: int) -> list[tuple[int, int]]:
    """Pipelines behind each other: an epoch needs the one before it, and that of the pipeline before."""
    width = chance.randint(2, 4)
    return [(i - width, i) for i in range(width, n)] + [(i - 1, i) for i in range(1, n) if i % width]


def _double(chance: random.Random, n: int) -> list[tuple[int, int]]:
    return [(i - 1, i) for i in range(1, n)] + [(i - 2, i) for i in range(2, n)]


SHAPES: dict[str, Callable[[random.Random, int], list[tuple[int, int]]]] = {
    "random": _random, "forward": _forward, "chains": _chains, "tree": _tree, "rings": _rings, "star": _star,
    "ladder": _ladder, "double chain": _double,
}  # fmt: skip


def log(seed: int, n: int, shape: str | None = None, bad: float | None = None) -> Log:
    """A log of about so many transactions; ``bad`` is the share of those that are neither pending nor committed."""
    chance = random.Random(f"{seed} {n} {shape}")
    pairs: list[tuple[Any, Any]] = list(SHAPES[shape or chance.choice(list(SHAPES))](chance, n))
    order = list(range(n))
    if chance.random() < 0.5:
        chance.shuffle(order)  # ids that say nothing of time
    pairs = [(order[a], order[b]) for a, b in pairs]
    chance.shuffle(pairs)
    bad = chance.choice([0.0, 0.02, 0.1, 0.3]) if bad is None else bad
    words = ["pending"] * 6 + ["committed"] * chance.choice([0, 1, 3])
    statuses = {
        i: chance.choice(["active", "aborted"]) if chance.random() < bad else chance.choice(words) for i in range(n)
    }
    if chance.random() < 0.3:
        pairs += [(n + chance.randrange(3), chance.randrange(n)), (chance.randrange(n), n + 5)]  # unknown to the table
    if chance.random() < 0.3:
        pairs += [(i, i) for i in range(0, n, 3)]
    return statuses, pairs


def as_text(drawn: Log) -> Log:
    """The same with texts for ids."""
    statuses, pairs = drawn
    return {f"t{t}": s for t, s in statuses.items()}, [(f"t{u}", f"t{t}") for u, t in pairs]


# What an answer about a log has to be, from the meaning of commit and abort; nothing of Pellucid is imported.
#
# A set of pending transactions can commit if each of its members needs only members and committed ones.  Two such
# sets
# together are one, too: the largest is their union.  An abort undoes whoever needs one that is undone.
#
# An answer is judged by what it shows, in time that grows with the log: sets that are closed, and no larger one;
# ways
# that go back step by step; components that hang together, in an order that has no cycle.  `by_trying` goes through
# all
# subsets.

Statuses = dict[Any, str]
Pairs = list[tuple[Any, Any]]
Rows = list[dict[str, Any]]


def by_trying(statuses: Statuses, pairs: Pairs) -> set[Any]:
    """The union of all sets that can commit, each of them tried."""
    needs = _needs(pairs)
    pending = [t for t, status in statuses.items() if status == "pending"]
    found: set[Any] = set()
    for size in range(1, len(pending) + 1):
        for chosen in combinations(pending, size):
            inside = set(chosen)
            if all(u in inside or statuses.get(u) == "committed" for t in chosen for u in needs[t]):
                found |= inside
    return found


def by_removing(statuses: Statuses, pairs: Pairs) -> set[Any]:
    """The same: of all that is pending, take away who needs one that is neither left nor committed, until nobody
    does."""
    readers = defaultdict(list)
    for u, t in pairs:
        readers[u].append(t)
    left = {t for t, status in statuses.items() if status == "pending"}
    bad = deque(u for u in readers if u not in left and statuses.get(u) != "committed")
    told = set(bad)
    # A committed one does not stop anybody, but what it needs and has not got stops whoever comes after it.
    while bad:
        for t in readers[bad.popleft()]:
            left.discard(t)
            if t not in told:
                told.add(t)
                bad.append(t)
    return left


def wrong_committable(statuses: Statuses, pairs: Pairs, rows: Rows) -> list[str]:
    """What is wrong with (id, level, set, size) as the largest committable set."""
    wrong = []
    ids = [row["id"] for row in rows]
    if len(set(ids)) < len(ids):
        wrong.append("one is there twice")
    if set(ids) != by_removing(statuses, pairs):
        wrong.append("not the largest committable set")
    part, level = {row["id"]: row["set"] for row in rows}, {row["id"]: row["level"] for row in rows}
    inner = [(u, t) for u, t in _through_committed(statuses, pairs) if u in part and t in part and u != t]
    wrong += _wrong_parts(part, inner, {row["id"]: row["size"] for row in rows})
    above: dict[Any, int] = defaultdict(int)
    for u, t in inner:
        if part[u] != part[t]:
            above[part[t]] = max(above[part[t]], level[u] + 1)
    wrong += ["a level is wrong"] if any(level[t] != above[part[t]] for t in part) else []
    return wrong


def wrong_cascade(statuses: Statuses, pairs: Pairs, abort: Iterable[Any], rows: Rows, shortest: bool) -> list[str]:
    """What is wrong with (id, status, via, steps) as what is undone if these abort."""
    wrong = []
    roots, known = set(abort), set(pairs)
    steps = {row["id"]: row["steps"] for row in rows}
    if len(steps) < len(rows):
        wrong.append("one is there twice")
    if not roots <= set(steps):
        wrong.append("one that was asked for is missing")
    if any(u in steps and t not in steps for u, t in pairs):
        wrong.append("a reader of one that is undone is missing")
    for row in rows:
        if row["status"] != statuses.get(row["id"], "unknown"):
            wrong.append("a status is wrong")
        if row["id"] in roots:
            if row["via"] is not None or row["steps"]:
                wrong.append("one that was asked for was reached")
        elif (row["via"], row["id"]) not in known or steps.get(row["via"], -2) + 1 != row["steps"]:
            wrong.append("a way does not lead back")
    if shortest and any(u in steps and t in steps and steps[t] > steps[u] + 1 for u, t in pairs):
        wrong.append("there is a shorter way")
    return sorted(set(wrong))


def wrong_cycles(statuses: Statuses, pairs: Pairs, rows: Rows) -> list[str]:
    """What is wrong with (id, status, cycle, size) as all that depend on each other."""
    wrong = []
    named = {*statuses, *(one for pair in pairs for one in pair)}
    part = {one: one for one in named} | {row["id"]: row["cycle"] for row in rows}
    if len({row["id"] for row in rows}) < len(rows):
        wrong.append("one is there twice")
    if any(row["size"] < 2 for row in rows):
        wrong.append("a cycle of one")
    if any(row["status"] != statuses.get(row["id"], "unknown") for row in rows):
        wrong.append("a status is wrong")
    inner = [(u, t) for u, t in pairs if u != t]
    sizes = dict.fromkeys(named, 1) | {row["id"]: row["size"] for row in rows}
    return wrong + _wrong_parts(part, inner, sizes)


def _wrong_parts(part: dict[Any, Any], pairs: Pairs, sizes: dict[Any, int]) -> list[str]:
    """Parts are the strongly connected components if each hangs together and there is no cycle of parts."""
    wrong = []
    members = defaultdict(list)
    for one, name in part.items():
        members[name].append(one)
    for name, inside in members.items():
        if name != min(inside):
            wrong.append("a set is not called by its least id")
        if any(sizes[one] != len(inside) for one in inside):
            wrong.append("a size is wrong")
    ways: tuple[dict[Any, list[Any]], dict[Any, list[Any]]] = (defaultdict(list), defaultdict(list))
    between = set()
    for u, t in pairs:
        if part[u] == part[t]:
            ways[0][u].append(t)
            ways[1][t].append(u)
        else:
            between.add((part[u], part[t]))
    for inside in members.values():
        if len(inside) > 1 and any(_seen(way, inside[0]) != set(inside) for way in ways):
            wrong.append("a set does not hang together")
    waits, after = dict.fromkeys(members, 0), defaultdict(list)
    for u, t in between:
        waits[t] += 1
        after[u].append(t)
    ready = [name for name, many in waits.items() if not many]
    for name in ready:
        for t in after[name]:
            waits[t] -= 1
            if not waits[t]:
                ready.append(t)
    if len(ready) < len(members):
        wrong.append("two sets need each other")
    return sorted(set(wrong))


def _through_committed(statuses: Statuses, pairs: Pairs) -> Pairs:
    """Who needs whom if committed ones are left out, each passing on to its readers what it needs."""
    readers = defaultdict(list)
    for u, t in pairs:
        readers[u].append(t)
    found = []
    for u in [one for one in readers if statuses.get(one) != "committed"]:
        told, todo = set(), list(readers[u])
        while todo:
            t = todo.pop()
            if t not in told:
                told.add(t)
                todo += readers[t] if statuses.get(t) == "committed" else []
        found += [(u, t) for t in told if statuses.get(t) != "committed"]
    return found


def broken(statuses: Statuses, pairs: Pairs) -> set[Any]:
    """Committed ones that depend, through any number of others, on one that is not."""
    named = {*statuses, *(one for pair in pairs for one in pair)}
    readers = defaultdict(list)
    for u, t in pairs:
        readers[u].append(t)
    found: set[Any] = set()
    for u in named:
        if statuses.get(u) != "committed":
            found |= {t for t in _seen(readers, u) if statuses.get(t) == "committed"}
    return found


def _seen(way: dict[Any, list[Any]], first: Any) -> set[Any]:
    found, todo = {first}, [first]
    while todo:
        for one in way[todo.pop()]:
            if one not in found:
                found.add(one)
                todo.append(one)
    return found


def _needs(pairs: Pairs) -> dict[Any, set[Any]]:
    needs = defaultdict(set)
    for u, t in pairs:
        needs[t].add(u)
    return needs
