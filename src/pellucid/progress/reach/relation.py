"""Could-result-in over finitely many pointstamps: Definition 2, proofs, transitivity, closure.

A relation is made of **links**, one step of computation each: from an edge to the node that it leads to, at the same
time; from a node to an edge that leaves it, at the times that Definition 1 (`pellucid.progress.reach.exact`) or the
declared summaries give.  Definition 2 follows links along locations that are all different.  That can take
exponentially many paths, so the least relation over *all* paths is made first: if no time comes back to its location
earlier than it left, going round a cycle gains nothing and the two are the same; only otherwise are the simple paths
gone through one by one.

Sets of times are whole numbers, a bit for each time.  The closure of a set of pointstamps (3.3) is the image under the
relation over all paths; the image under the relation itself is what Proposition 3 says, and what it is not when
Condition 2 fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort, Search
from pellucid.progress.given import hashed
from pellucid.progress.graph import Graph
from pellucid.progress.times import Time


class Pointstamp(NamedTuple):
    """A location and a time."""

    location: str
    time: Time

    def __str__(self) -> str:
        return f"({self.location}, {self.time})"


@dataclass(frozen=True)
class Link:
    """From one location to the next: ``because`` says, for pairs of times, how; None where the time stays as it is."""

    target: str
    because: Mapping[tuple[Time, Time], str] | None = None


@dataclass(frozen=True)
class Proof:
    """That one pointstamp could result in another: the path with its times, and why each step is possible.

    The times are those of Definition 2: the first is at or after the time asked, the last at or before the one reached.
    """

    start: Pointstamp
    end: Pointstamp
    path: tuple[Pointstamp, ...]
    because: tuple[str, ...]  # one less than the path

    def __str__(self) -> str:
        head = f"{self.start} could result in {self.end}"
        if len(self.path) == 1:
            return f"{head}: it is the same location, and {self.start.time} ≤ {self.end.time}"
        steps = (f"  {b}: {why}" for b, why in zip(self.path[1:], self.because, strict=True))
        return "\n".join([f"{head}:", f"  {self.path[0]}", *steps])

    def __len__(self) -> int:
        return len(self.path)


def bits(mask: int) -> Iterator[int]:
    """The positions of the bits that are set.

    >>> list(bits(0b1101))
    [0, 2, 3]
    """
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass
class Relation:
    """Could-result-in between the pointstamps of a graph with finitely many times.

    >>> from pellucid.progress.reach.exact import exact
    >>> from pellucid.progress.graph import Graph, buffer
    >>> r = exact(Graph({"a": buffer("o")}, {"i": (None, "a"), "o": ("a", None)}, times=range(3)))
    >>> r.holds(("i", 0), ("o", 2)), r.holds(("i", 2), ("o", 1))
    (True, False)
    >>> print(r.prove(("i", 0), ("o", 2)))
    (i, 0) could result in (o, 2):
      (i, 0)
      (a, 0): i leads to a
      (o, 0): a, at its start, on message 0 on i sends 0 on o
    """

    graph: Graph
    links: Mapping[str, Sequence[Link]] = field(repr=False)
    budget: Budget = field(default_factory=lambda: Budget(None, 1_000_000), repr=False)
    name: str = "could-result-in"

    def __post_init__(self) -> None:
        self.times = self.graph.times
        self.at = {t: i for i, t in enumerate(self.times)}
        le = self.graph.order.le  # the graph has looked at its times
        self.up, self.down = [0] * len(self.times), [0] * len(self.times)
        for i, t in enumerate(self.times):
            self._in_time()
            for j, u in enumerate(self.times):
                if le(t, u):
                    self.up[i] |= 1 << j
                    self.down[j] |= 1 << i
        self.index = {x: i for i, x in enumerate(self.graph.locations)}
        self._moves = {x: [(k.target, self._masks(k)) for k in ks] for x, ks in self.links.items()}
        self._everywhere = {x: [self._all_paths(x, i) for i in range(len(self.times))] for x in self.index}
        rounds = (seen[x] == self.up[i] for x, per in self._everywhere.items() for i, seen in enumerate(per))
        self._reach = self._everywhere if all(rounds) else {x: self._simple_paths(x) for x in self.index}
        self.rows = self._rows(self._reach)  # by the number of a pointstamp: to which ones
        self.closed = self._rows(self._everywhere)

    # ---------------------------------------------------------------- making it

    def _masks(self, link: Link) -> list[int]:
        """For each time: the times at the other end, all later ones with them."""
        if link.because is None:
            return self.up
        masks = [0] * len(self.times)
        for u, v in link.because:
            if u in self.at and v in self.at:  # what leaves the times that are looked at leads nowhere there
                for i in bits(self.down[self.at[u]]):
                    masks[i] |= self.up[self.at[v]]
        return masks

    def _all_paths(self, x: str, time: int) -> dict[str, int]:
        """Where one gets from a location and a time: the times at each, whatever the path."""
        self._in_time()
        seen = {x: self.up[time]}
        waiting = deque([(x, seen[x])])
        while waiting:
            y, new = waiting.popleft()
            for z, masks in self._moves.get(y, ()):
                got = 0
                for i in bits(new):
                    got |= masks[i]
                more = got & ~seen.get(z, 0)
                if more:
                    seen[z] = seen.get(z, 0) | more
                    waiting.append((z, more))
        return seen

    def _in_time(self) -> None:
        if self.budget.over:
            raise CutShort(
                f"the time limit of {self.budget.timeout:g} s was reached while could-result-in was computed"
            )

    def _simple_paths(self, x: str) -> list[dict[str, int]]:
        """The same along paths whose locations are all different."""
        out: list[dict[str, int]] = [{} for _ in self.times]
        stack: list[tuple[str, frozenset[str], list[int]]] = [(x, frozenset([x]), self.up)]
        count = 0
        while stack:
            y, visited, now = stack.pop()
            count += 1
            if not count & 1023:
                self.budget.look(count, len(stack))
            for i, mask in enumerate(now):
                if mask:
                    out[i][y] = out[i].get(y, 0) | mask
            for z, masks in self._moves.get(y, ()):
                if z not in visited:
                    then = [_image(mask, masks) for mask in now]
                    if any(then):
                        stack.append((z, visited | {z}, then))
        return out

    def _rows(self, reach: Mapping[str, Sequence[Mapping[str, int]]]) -> list[int]:
        count = len(self.times)
        return [
            sum(mask << (self.index[y] * count) for y, mask in reach[x][i].items())
            for x in self.index
            for i in range(count)
        ]

    # ---------------------------------------------------------------- asking it

    def number(self, point: tuple[str, Time]) -> int:
        """The number of a pointstamp, the position of its bit."""
        x, t = point
        self.graph.known(x)
        if not hashed(t) or t not in self.at:
            self.graph.order.check(t)
            raise UsageError(f"{self.graph.name}: {t!r} is not among its times: {', '.join(map(repr, self.times))}")
        if type(t) is bool:  # Python takes it for a number
            self.graph.order.check(t)
        return self.index[x] * len(self.times) + self.at[t]

    def pointstamp(self, number: int) -> Pointstamp:
        """The pointstamp with a number."""
        i, j = divmod(number, len(self.times))
        return Pointstamp(self.graph.locations[i], self.times[j])

    def pointstamps(self) -> list[Pointstamp]:
        """All of them."""
        return [Pointstamp(x, t) for x in self.index for t in self.times]

    def holds(self, a: tuple[str, Time], b: tuple[str, Time]) -> bool:
        """Whether a message or notification at ``a`` may lead to one at ``b``."""
        return bool(self.rows[self.number(a)] >> self.number(b) & 1)

    def then(self, a: str, time: int, b: str) -> int:
        """The times, as a number with a bit for each, to which ``a`` at one of the times leads at ``b``."""
        return self._reach[a][time].get(b, 0)

    def close(self, points: Iterable[tuple[str, Time]]) -> frozenset[Pointstamp]:
        """Close↑: the least set with these pointstamps that has, with each, all that it could result in."""
        return self._set(self.closed, points)

    def image(self, points: Iterable[tuple[str, Time]]) -> frozenset[Pointstamp]:
        """What Proposition 3 says that Close↑ is: all that these pointstamps could result in."""
        return self._set(self.rows, points)

    def _set(self, rows: Sequence[int], points: Iterable[tuple[str, Time]]) -> frozenset[Pointstamp]:
        mask = 0
        for point in points:
            mask |= rows[self.number(point)]
        return frozenset(map(self.pointstamp, bits(mask)))

    def prove(self, a: tuple[str, Time], b: tuple[str, Time], *, closed: bool = False) -> Proof | None:
        """A shortest proof that ``a`` could result in ``b``, None if it could not.

        With ``closed``, that ``b`` is in the closure of ``a``: then the path may come to a location twice.
        """
        rows = self.closed if closed else self.rows
        if not rows[self.number(a)] >> self.number(b) & 1:
            return None
        a, b = Pointstamp(*a), Pointstamp(*b)
        if (
            closed or self._reach is self._everywhere
        ):  # a shortest path does not come to a location twice if that gains nothing
            return self._walked(a, b)
        waiting: deque[tuple[tuple[str, ...], int]] = deque([((a.location,), self.up[self.at[a.time]])])
        while True:
            path, mask = waiting.popleft()
            if path[-1] == b.location and mask >> self.at[b.time] & 1:
                return self._with_times(a, b, path)
            for z, masks in self._moves.get(path[-1], ()):
                if z not in path and (got := _image(mask, masks)):
                    waiting.append(((*path, z), got))

    def _walked(self, a: Pointstamp, b: Pointstamp) -> Proof:
        leq = self.graph.order.less_equal
        search: Search[Pointstamp, str] = Search([a], self.follow)
        for at, _ in search:
            if at.location == b.location and leq(at.time, b.time):
                path = [at]
                while (before := search.parents[path[-1]]) is not None:
                    path.append(before[0])
                return Proof(a, b, tuple(path[::-1]), tuple(search.way(at)))
        raise AssertionError((a, b))

    def follow(self, at: Pointstamp) -> Iterator[tuple[str, Pointstamp]]:
        """One link from a pointstamp: why it is there, and where it leads."""
        leq = self.graph.order.less_equal
        for link in self.links.get(at.location, ()):
            if link.because is None:
                yield f"{at.location} leads to {link.target}", Pointstamp(link.target, at.time)
                continue
            for (u, v), why in link.because.items():
                if v in self.at and leq(at.time, u):
                    yield why, Pointstamp(link.target, v)

    def _with_times(self, a: Pointstamp, b: Pointstamp, path: tuple[str, ...]) -> Proof:
        links = [[k for k in self.links[x] if k.target == y] for x, y in pairwise(path)]
        need = [self.down[self.at[b.time]]]  # the times from which the rest of the path leads to b
        for step in reversed(links):
            need.insert(0, sum(1 << i for i in range(len(self.times)) if self._pair(step, i, need[0]) is not None))
        at, points, because = self.at[a.time], [a], []
        for (x, y), step, then in zip(pairwise(path), links, need[1:], strict=True):
            found = self._pair(step, at, then)
            assert found is not None
            at, why = found
            points.append(Pointstamp(y, self.times[at]))
            because.append(why or f"{x} leads to {y}")
        return Proof(a, b, tuple(points), tuple(because))

    def _pair(self, step: Sequence[Link], time: int, need: int) -> tuple[int, str] | None:
        """How one of these links gets from a time to one that is needed: the time there, and why."""
        for link in step:
            if link.because is None:
                if need >> time & 1:
                    return time, ""
                continue
            for (u, v), why in link.because.items():
                if u in self.at and v in self.at and self.up[time] >> self.at[u] & 1 and need >> self.at[v] & 1:
                    return self.at[v], why
        return None

    # ---------------------------------------------------------------- Theorem 1, Proposition 2

    def not_transitive(self) -> tuple[Pointstamp, Pointstamp, Pointstamp] | None:
        """Three pointstamps that show that it is not transitive; None if it is."""
        for a, row in enumerate(self.rows):
            for b in bits(row):
                lost = self.rows[b] & ~row
                if lost:
                    return self.pointstamp(a), self.pointstamp(b), self.pointstamp(next(bits(lost)))
        return None

    def universal_time(self) -> UniversalTime | None:
        """Proposition 2: one order into which all pointstamps go; None if there is none, as it is not transitive."""
        if self.not_transitive() is not None:
            return None
        first: dict[int, int] = {}
        for a, row in enumerate(self.rows):
            first[a] = next((b for b in range(a) if row >> b & 1 and self.rows[b] >> a & 1), a)
        after = {a: frozenset(first[b] for b in bits(self.rows[a])) for a in set(first.values())}
        return UniversalTime({self.pointstamp(a): b for a, b in first.items()}, after)


@dataclass(frozen=True)
class UniversalTime:
    """Proposition 2's (T′, ⪯) and the mapping ℰ: ``of`` gives each pointstamp's time, ``after`` the times that are
    after one or the same."""

    of: Mapping[Pointstamp, int]
    after: Mapping[int, frozenset[int]]

    def less_equal(self, a: int, b: int) -> bool:
        """Whether one universal time is before another or the same."""
        return b in self.after[a]


def _image(mask: int, masks: Sequence[int]) -> int:
    got = 0
    for i in bits(mask):
        got |= masks[i]
    return got


def same(a: Relation, b: Relation) -> bool:
    """Whether two relations on the same graph hold between the same pointstamps."""
    return a.rows == b.rows


def within(a: Relation, b: Relation) -> tuple[Pointstamp, Pointstamp] | None:
    """None if all of ``a`` is in ``b``; else a pair that is not."""
    for i, (row, other) in enumerate(zip(a.rows, b.rows, strict=True)):
        if row & ~other:
            return a.pointstamp(i), a.pointstamp(next(bits(row & ~other)))
    return None
