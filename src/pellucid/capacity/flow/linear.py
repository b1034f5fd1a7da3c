"""Linear programs, solved exactly: the most of a sum under limits that are all 0 or more.

Floating point would not do: whether a queue is bounded turns on equality.  The programs here are small (a variable for
each subscription), and get smaller before they are solved (`smaller`), so the simplex method over fractions is enough;
by Bland's rule it ends.  An optimum comes with its *prices* (the dual solution), from which it can be checked that no
more is possible: `certified` does.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from pellucid.internal.model import on_time

# A linear program made smaller before it is solved, in a way that gives the prices back.
#
# Most of the network of a topology needs no simplex method: what comes to a bolt through one pipe alone *is* what its
# one source emits, and a bolt that serves more than can ever come to it serves all that comes.  So variables are taken
# out that are in one limit only with a plus sign, and alone there: the goal never loses if they are as large as that
# limit lets them be.  And a limit is left out if others keep what it says.  What is left has the choices, and little
# else.

Rows = dict[Hashable, dict[Hashable, Fraction]]
ZERO = Fraction(0)


class Smaller:
    """The program: ``goal``, ``rows`` (the terms of each limit by its name) and ``most``; and what was taken out.

    >>> one = Fraction(1)
    >>> rows = {"emits": {"x": one}, "speed": {"y": one}, "comes": {"y": one, "x": -one}}
    >>> p = Smaller({"y": one}, rows, {"emits": one, "speed": Fraction(3), "comes": Fraction(0)})
    >>> p.rows, p.goal, str(p.value)
    ({}, {}, '1')
    >>> solution, prices = {}, {}
    >>> p.give_back(solution, prices)
    >>> {k: str(v) for k, v in solution.items()}, {k: str(v) for k, v in prices.items()}
    ({'x': '1', 'y': '1'}, {'emits': '1', 'comes': '1'})
    """

    def __init__(self, goal: dict[Hashable, Fraction], rows: Rows, most: dict[Hashable, Fraction]) -> None:
        self.goal, self.rows, self.most, self.value = goal, rows, most, ZERO
        self.out: list[tuple[Hashable, Hashable, dict[Hashable, Fraction], Fraction, dict[Hashable, Fraction]]] = []
        self.within: dict[Hashable, dict[Hashable, None]] = {}  # the limits that a variable is in, in order
        for name, row in rows.items():
            for v in row:
                self.within.setdefault(v, {})[name] = None
        self._leave_out()
        waiting = list(self.within)
        while waiting:
            on_time()
            v = waiting.pop()
            limit = self._alone(v) if v in self.within else None
            if limit is not None:
                waiting += self._take_out(v, limit)

    def _positive(self, v: Hashable) -> list[Hashable]:
        """The limits on a variable."""
        return [name for name in self.within[v] if self.rows[name][v] > 0]

    def _leave_out(self) -> None:
        """Limits on one variable that another limit keeps already, from the sources on: what is known of a variable is
        known from those before it, so that no two limits are left out because of each other."""
        most: dict[Hashable, Fraction] = {}
        positive = {v: self._positive(v) for v in self.within}
        waits = {v: {u for name in names for u, c in self.rows[name].items() if c < 0} for v, names in positive.items()}
        behind: dict[Hashable, list[Hashable]] = {}
        for v, before in waits.items():
            for u in before:
                behind.setdefault(u, []).append(v)
        ready = [v for v, before in waits.items() if not before and positive[v]]
        while ready:
            on_time()
            v = ready.pop()
            bounds = {}
            for name in positive[v]:
                row = self.rows[name]
                rest = sum((-c * most[u] for u, c in row.items() if c < 0), ZERO)
                bounds[name] = (self.most[name] + rest) / row[v]
            most[v] = min(bounds.values())
            alone = [name for name in bounds if sum(c > 0 for c in self.rows[name].values()) == 1]
            fixed = [name for name in alone if len(self.rows[name]) == 1]
            for name in fixed:
                if any(bounds[other] <= bounds[name] for other in alone if other != name):
                    alone.remove(name)
                    self.within[v].pop(name, None)
                    del self.rows[name], self.most[name]
            for u in behind.get(v, ()):
                waits[u].discard(v)
                if not waits[u] and u not in most:
                    ready.append(u)

    def _alone(self, v: Hashable) -> Hashable | None:
        """The one limit on a variable, if it is on no other."""
        positive = self._positive(v)
        if len(positive) != 1 or self.goal.get(v, ZERO) < 0:
            return None
        return positive[0] if sum(c > 0 for c in self.rows[positive[0]].values()) == 1 else None

    def _take_out(self, v: Hashable, limit: Hashable) -> list[Hashable]:
        """The variable becomes what its limit lets it be; those that this may concern."""
        row, most = self.rows.pop(limit), self.most.pop(limit)
        for u in row:
            self.within[u].pop(limit, None)
        concerned = [u for u in row if u != v]
        lost: dict[Hashable, Fraction] = {}
        for name in self.within.pop(v):
            other = self.rows[name]
            factor = other[v] / row[v]
            lost[name] = -factor
            self.most[name] -= factor * most
            concerned += self._subtract(name, other, row, factor)
        factor = self.goal.get(v, ZERO) / row[v]
        if factor:
            self.value += factor * most
            for u, c in row.items():
                self.goal[u] = self.goal.get(u, ZERO) - factor * c
            del self.goal[v]
        self.out.append((v, limit, row, most, {**lost, limit: factor}))
        return [u for u in concerned if u in self.within]

    def _subtract(
        self, name: Hashable, other: dict[Hashable, Fraction], row: dict[Hashable, Fraction], factor: Fraction
    ) -> list[Hashable]:
        for u, c in row.items():
            left = other.get(u, ZERO) - factor * c
            if left:
                other[u] = left
                if u in self.within:
                    self.within[u][name] = None
            else:
                other.pop(u, None)
                if u in self.within:
                    self.within[u].pop(name, None)
        return list(other)

    def give_back(self, solution: dict[Hashable, Fraction], prices: dict[Hashable, Fraction]) -> None:
        """Put the variables that were taken out into a solution of the rest, and their limits into its prices."""
        for v, limit, row, most, factors in reversed(self.out):
            rest = sum((c * solution.get(u, ZERO) for u, c in row.items() if u != v), ZERO)
            solution[v] = (most - rest) / row[v]
            own = factors[limit]
            prices[limit] = own + sum(
                (factor * prices.get(name, ZERO) for name, factor in factors.items() if name != limit), ZERO
            )


Row: TypeAlias = Mapping[Hashable, Fraction]


@dataclass(frozen=True)
class Limit:
    """A sum of variables that is at most ``most``; ``name`` says what it is."""

    name: Hashable
    terms: Row
    most: Fraction


@dataclass(frozen=True)
class Optimum:
    """The most, a way to have it, and the price of each limit: the most is the sum of prices times limits."""

    value: Fraction
    solution: dict[Hashable, Fraction]
    prices: dict[Hashable, Fraction]


def maximum(goal: Row, limits: Sequence[Limit]) -> Optimum | None:
    """The most that ``goal`` can be with variables from 0 on; None if there is no end to it.

    >>> one = Fraction(1)
    >>> limits = [Limit("a", {"x": one, "y": Fraction(2)}, Fraction(3)), Limit("b", {"x": one}, one)]
    >>> found = maximum({"x": one, "y": one}, limits)
    >>> str(found.value), {k: str(v) for k, v in found.solution.items()}, {k: str(v) for k, v in found.prices.items()}
    ('2', {'x': '1', 'y': '1'}, {'a': '1/2', 'b': '1/2'})
    >>> maximum({"z": one}, limits) is None
    True
    """
    needed = _needed(goal, limits)
    everything, every = list(dict.fromkeys([*goal, *(v for limit in limits for v in limit.terms)])), limits
    names = [v for v in everything if v in needed]
    limits = [
        Limit(limit.name, {v: c for v, c in limit.terms.items() if v in needed}, limit.most)
        for limit in limits
        if any(c > 0 and v in needed for v, c in limit.terms.items())
    ]
    given = {limit.name: {v: c for v, c in limit.terms.items() if c} for limit in limits}
    if any(limit.most < 0 for limit in limits):
        raise ValueError("a limit is below 0")
    known = {limit.name: Fraction(limit.most) for limit in limits}
    less = Smaller({v: Fraction(c) for v, c in goal.items() if c and v in needed}, given, known)
    gone = {v for v, *_ in less.out}
    names = [v for v in names if v not in gone]
    column = {v: i for i, v in enumerate(names)}
    limits = [Limit(name, row, less.most[name]) for name, row in less.rows.items()]
    n, m = len(names), len(limits)
    # Each row: coefficients of variables and slacks that are not 0, and what the row's own (basic) variable is.
    rows = [{column[v]: c for v, c in limit.terms.items() if c} | {n + i: Fraction(1)}
            for i, limit in enumerate(limits)]  # fmt: skip
    values = [limit.most for limit in limits]
    basis = list(range(n, n + m))
    costs = {column[v]: c for v, c in less.goal.items() if c}
    value = less.value
    while True:
        entering = min((j for j, c in costs.items() if c > 0), default=None)
        if entering is None:
            break
        on_time()
        ratios = [(values[i] / row[entering], basis[i], i) for i, row in enumerate(rows) if row.get(entering, 0) > 0]
        if not ratios:
            return None
        _, _, leaving = min(ratios)
        pivot = rows[leaving][entering]
        row = rows[leaving] = {j: c / pivot for j, c in rows[leaving].items()}
        values[leaving] /= pivot
        for i, other in enumerate(rows):
            factor = other.get(entering) if i != leaving else None
            if factor:
                _subtract(other, row, factor)
                values[i] -= factor * values[leaving]
        factor = costs[entering]
        _subtract(costs, row, factor)
        value += factor * values[leaving]
        basis[leaving] = entering
    solution = {v: Fraction(0) for v in everything}
    for i, j in enumerate(basis):
        if j < n:
            solution[names[j]] = values[i]
    prices = dict.fromkeys((limit.name for limit in every), Fraction(0))
    prices |= {limit.name: -costs.get(n + i, Fraction(0)) for i, limit in enumerate(limits)}
    less.give_back(solution, prices)
    return Optimum(value, solution, prices)


def _needed(goal: Row, limits: Sequence[Limit]) -> set[Hashable]:
    """The variables that can make the goal larger: those in it, and those that let one of these be larger.  All others
    only take something away, and are 0; no price is needed for a limit on them alone."""
    lets: dict[Hashable, list[Hashable]] = {}
    for limit in limits:
        by = [v for v, c in limit.terms.items() if c < 0]
        for v, c in limit.terms.items():
            if c > 0 and by:
                lets.setdefault(v, []).extend(by)
    found = {v for v, c in goal.items() if c > 0}
    left = list(found)
    while left:
        new = set(lets.get(left.pop(), ())) - found
        found |= new
        left += new
    return found


def _subtract(row: dict[int, Fraction], other: Mapping[int, Fraction], factor: Fraction) -> None:
    for j, c in other.items():
        left = row.get(j, 0) - factor * c
        if left:
            row[j] = Fraction(left)
        else:
            row.pop(j, None)


def certified(goal: Row, limits: Sequence[Limit], value: Fraction, prices: Mapping[Hashable, Fraction]) -> bool:
    """Whether the prices show that the goal is never above ``value``: no price is below 0, each variable costs at least
    what it brings, and all limits together cost ``value``.

    >>> limits = [Limit("a", {"x": Fraction(2)}, Fraction(3))]
    >>> [certified({"x": Fraction(1)}, limits, Fraction(3, 2), {"a": Fraction(price)}) for price in ("1/2", "1/3", "1")]
    [True, False, False]
    """
    paid = {limit.name: prices.get(limit.name, Fraction(0)) for limit in limits}
    if any(price < 0 for price in paid.values()):
        return False
    if sum((paid[limit.name] * limit.most for limit in limits), Fraction(0)) != value:
        return False
    variables = {*goal, *(v for limit in limits for v in limit.terms)}
    return all(
        sum((paid[limit.name] * limit.terms.get(v, 0) for limit in limits), Fraction(0)) >= goal.get(v, 0)
        for v in variables
    )
