"""Loops to be judged: each as Pellucid builds it, and by hand from its meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pellucid import Stream, iterate

# ---------------------------------------------------------------- bodies over pairs of ints (node, value)

Pair = tuple[int, int]


def spread(x: Stream[Pair]) -> Any:
    """Monotone: the least value of each node goes to the next one, one greater; changes leave."""

    def hear(least: int, e: Pair) -> tuple[int, list[Pair]]:
        return (e[1], [e]) if e[1] < least else (least, [])

    new = x.key_by(lambda e: e[0]).task(hear, initial=99, to=Pair, id="hear")
    return new.map(lambda e: ((e[0] + 1) % 5, e[1] + 1)), new


class Spread:
    def __init__(self) -> None:
        self.least: dict[int, int] = {}

    def round(self, events: list[Pair]) -> tuple[list[Pair], list[Pair]]:
        new = []
        for node, value in events:
            if value < self.least.get(node, 99):
                self.least[node] = value
                new.append((node, value))
        return [((node + 1) % 5, value + 1) for node, value in new], new


def ordered(x: Stream[Pair]) -> Any:
    """Not monotone: what leaves depends on the order of all that ever went round."""
    return x.filter(lambda e: e[1] > 0).map(lambda e: (e[0], e[1] // 2)), x.cumulate(
        lambda h, e: (h[0] + 1, (h[1] * 31 + e[0] * 7 + e[1]) % 997), start=(0, 1)
    )


class Ordered:
    def __init__(self) -> None:
        self.seen, self.hash = 0, 1

    def round(self, events: list[Pair]) -> tuple[list[Pair], list[Pair]]:
        out = []
        for node, value in events:
            self.seen, self.hash = self.seen + 1, (self.hash * 31 + node * 7 + value) % 997
            out.append((self.seen, self.hash))
        return [(node, value // 2) for node, value in events if value > 0], out


def rest(x: Stream[Pair]) -> Any:
    """Until nothing changes: one stream."""
    return x.map(lambda e: (e[0], e[1] // 2 if e[1] > 3 else e[1]))


class Rest:
    def round(self, events: list[Pair]) -> tuple[list[Pair], None]:
        return [(node, value // 2 if value > 3 else value) for node, value in events], None


def swap(x: Stream[Pair]) -> Any:
    """It goes round for ever: for a bound."""
    return x.map(lambda e: (e[1], e[0] + 1))


class Swap:
    def round(self, events: list[Pair]) -> tuple[list[Pair], None]:
        return [(value, node + 1) for node, value in events], None


def sums(x: Stream[Pair]) -> Any:
    """Sums of a round."""

    def total(w: Stream[Pair]) -> Stream[Pair]:
        return w.cumulate(lambda t, e: (e[0] // 2, t[1] * 3 % 101 + e[1]), start=(0, 0))

    return x.key_by(lambda e: e[0] // 2).each_round(total)


class Sums:
    def round(self, events: list[Pair]) -> tuple[list[Pair], None]:
        out = []
        for key in sorted({node // 2 for node, _ in events}):
            t = 0
            for _, value in sorted(e for e in events if e[0] // 2 == key):
                t = t * 3 % 101 + value
            out.append((key, t))
        return out, None


def inner(x: Stream[Pair]) -> Any:
    """A loop in a loop: all of a round come to rest before the next one begins."""
    calm = iterate(x, rest)
    count = calm.cumulate(lambda n, e: (n[0] + 1, e[1]), start=(0, 0))
    return calm.filter(lambda e: e[0] > 0).map(lambda e: (e[0] - 1, e[1] + 4)), count


class Inner:
    def __init__(self) -> None:
        self.count = 0

    def round(self, events: list[Pair]) -> tuple[list[Pair], list[Pair]]:
        events = sorted(events)  # all of one time, in the one order
        while True:
            after = Rest().round(events)[0]
            if sorted(after) == sorted(events):
                break
            events = after
        out = []
        for _, value in after:
            self.count += 1
            out.append((self.count, value))
        return [(node - 1, value + 4) for node, value in after if node > 0], out


@dataclass(frozen=True)
class Case:
    """A loop twice."""

    build: Any
    make: Any
    said: dict[str, int] = field(default_factory=dict)


CASES = {
    "spread": Case(spread, Spread, {"limit": 200}),
    "ordered": Case(ordered, Ordered),
    "rest": Case(rest, Rest),
    "to a bound": Case(swap, Swap, {"rounds": 5}),
    "sums": Case(sums, Sums, {"rounds": 3}),
    "sums to rest": Case(sums, Sums, {"limit": 40}),
    "in a loop": Case(inner, Inner),
    "too long": Case(swap, Swap, {"limit": 6}),
}
