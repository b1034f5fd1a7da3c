"""CTL: where a formula holds, and a way to see that it does not."""

from __future__ import annotations

from collections import deque
from typing import Any

from pellucid.check.explicit.search import Space
from pellucid.check.formula import Formula


class Branching:
    """Evaluates CTL on an explored space; a set of points is a Boolean array over states and choices."""

    def __init__(self, space: Space, number: dict[Any, int]) -> None:
        self.space, self.number = space, number
        self.known: dict[Formula, Any] = {}

    def where(self, f: Formula) -> Any:
        """The points at which the formula holds."""
        if f not in self.known:
            self.known[f] = self._where(f)
        return self.known[f]

    def _where(self, f: Formula) -> Any:
        import numpy as np

        space = self.space
        if f.op == "atom":
            return space.holds(self.number[f])
        if f.op in ("true", "false"):
            return np.full(space.seen.shape, f.op == "true")
        parts = [self.where(a) for a in f.args]
        everywhere = np.ones(space.seen.shape, bool)
        match f.op:
            case "!":
                return ~parts[0]
            case "&":
                return parts[0] & parts[1]
            case "|":
                return parts[0] | parts[1]
            case "->":
                return ~parts[0] | parts[1]
            case "<->":
                return parts[0] == parts[1]
            case "EX":
                return ex(space, parts[0])
            case "AX":
                return ~ex(space, ~parts[0])
            case "EF":
                return eu(space, everywhere, parts[0])
            case "AG":
                return ~eu(space, everywhere, ~parts[0])
            case "EG":
                return eg(space, parts[0])
            case "AF":
                return ~eg(space, ~parts[0])
            case "EU":
                return eu(space, parts[0], parts[1])
        assert f.op == "AU"
        p, q = parts
        return ~(eu(space, ~q, ~p & ~q) | eg(space, ~q))

    def refute(self, f: Formula) -> tuple[list[int], int | None] | None:
        """None if the formula holds at every initial point; else choices that show that it does not, and their loop."""
        import numpy as np

        wrong = np.flatnonzero(~self.where(f)[0])
        if not len(wrong):
            return None
        return self._against(f, 0, int(wrong[0]))

    def _against(self, f: Formula, state: int, choice: int) -> tuple[list[int], int | None]:
        """From a point at which the formula fails, steps that show it as far as one run can."""
        match f.op:
            case "&":
                failing = next(a for a in f.args if not self.where(a)[state, choice])
                return self._against(failing, state, choice)
            case "|" | "->":
                return self._against(f.args[-1], state, choice)
            case "AX":
                state = int(self.space.successor[state, choice])
                after = int((~self.where(f.args[0])[state]).nonzero()[0][0])
                more, loop = self._against(f.args[0], state, after)
                return [choice, *more], None if loop is None else loop + 1
            case "AG":
                way, s, c = self._nearest(state, choice, ~self.where(f.args[0]))
                more, loop = self._against(f.args[0], s, c)
                return [*way, *more], None if loop is None else loop + len(way)
            case "AF":
                return self._stay(state, choice, eg(self.space, ~self.where(f.args[0])))
        return [choice], None

    def _nearest(self, state: int, choice: int, target: Any) -> tuple[list[int], int, int]:
        """The choices before the nearest point of the target, starting at a point; and that point."""
        if target[state, choice]:
            return [], state, choice
        first = int(self.space.successor[state, choice])
        # At the initial state every first choice is possible: take the best of all.
        waiting: deque[tuple[int, list[int]]] = deque([(state, [])] if state == 0 else [(first, [choice])])
        seen = {waiting[0][0]}
        while waiting:
            s, way = waiting.popleft()
            here = target[s].nonzero()[0]
            if len(here):
                return way, s, int(here[0])
            for c in range(target.shape[1]):
                after = int(self.space.successor[s, c])
                if after not in seen:
                    seen.add(after)
                    waiting.append((after, [*way, c]))
        raise AssertionError("the target cannot be reached")

    def _stay(self, state: int, choice: int, inside: Any) -> tuple[list[int], int]:
        """Stay inside a set, from one of its points, until a state repeats."""
        place: dict[int, int] = {}
        choices: list[int] = []
        while state not in place:
            place[state] = len(choices)
            if choices:
                options = [int(c) for c in inside[state].nonzero()[0]]
                back = [c for c in options if int(self.space.successor[state, c]) in place]
                choice = (back or options)[0]
            choices.append(choice)
            state = int(self.space.successor[state, choice])
        return choices, place[state]


# ---------------------------------------------------------------- fixpoints over arrays
# A point of the Kripke structure is a state together with the push that leaves it, since that is where streams are
# seen; it is one cell of a Boolean array over states and choices. After the push ``c`` in the state ``s`` every
# choice is possible in the state ``successor[s, c]``.


def ex(space: Space, p: Any) -> Any:
    """EX p: some next point satisfies p."""
    return p.any(axis=1)[space.successor]


def eu(space: Space, p: Any, q: Any) -> Any:
    """E [p U q]: the least fixpoint of q or (p and EX)."""
    found = q.copy()
    while True:
        more = found | (p & ex(space, found))
        if (more == found).all():
            return found
        found = more


def eg(space: Space, p: Any) -> Any:
    """EG p: the greatest fixpoint of p and EX."""
    found = p.copy()
    while True:
        less = found & ex(space, found)
        if (less == found).all():
            return found
        found = less
