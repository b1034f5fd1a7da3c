"""A linear program made smaller before it is solved, in a way that gives the prices back.

Most of the network of a topology needs no simplex method: what comes to a bolt through one pipe alone *is* what its one
source puts out, and a bolt that serves more than can ever come to it serves all that comes.  So variables are taken out
that are in one limit only with a plus sign, and alone there: the goal never loses if they are as large as that limit
lets them be.  And a limit is left out if others keep what it says.  What is left has the choices, and little else.
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

from pellucid.internal.model import on_time

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
