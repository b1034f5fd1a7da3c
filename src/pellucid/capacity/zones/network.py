"""A topology as tables of whole numbers, for the compiled search.

Only what can come to the bolt in question is in them: the spouts and bolts upstream of it.  A bolt puts nothing back
on those that it hears, and what it takes or ends takes no time, so the others do not change what happens here.  They
remain as one thing: another listener that may get a tuple.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Literal, NamedTuple, TypeAlias

from pellucid.capacity.topology import ANY, Topology
from pellucid.capacity.zones import layout as y
from pellucid.errors import UsageError

Seen: TypeAlias = Literal["any", "settled", "blocked"]  # blocked: something waits, and no worker is idle
INF = 2**60  # no bound
_FAR = 2**57  # what fits beside twice its sums into 64 bits
NO_END = 2**40  # a queue that is counted however long it gets


class Tables(NamedTuple):
    """The tables for the compiled code: numbers and arrays by the register that has them, and the first state."""

    numbers: dict[int, int]
    arrays: dict[int, list[int]]
    start: list[int]


def cone(topology: Topology, bolt: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The spouts and the bolts from which tuples can come to a bolt, with itself.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> t = Topology({"S": Spout(1), "R": Spout(1)}, {"A": Bolt(1, "S"), "B": Bolt(1, "A"), "C": Bolt(1, ["A", "R"])})
    >>> cone(t, "B")
    (('S',), ('A', 'B'))
    """
    found, waiting = {bolt}, [bolt]
    while waiting:
        for heard in topology.bolts[waiting.pop()].hears:
            if heard not in found:
                found.add(heard)
                if heard in topology.bolts:
                    waiting.append(heard)
    return tuple(s for s in topology.spouts if s in found), tuple(b for b in topology.bolts if b in found)


@dataclass(frozen=True)
class Network:
    """What is upstream of a bolt, with times as whole numbers of ``1 / scale``."""

    topology: Topology
    bolt: str
    spouts: tuple[str, ...]
    bolts: tuple[str, ...]
    scale: int

    @staticmethod
    def of(topology: Topology, bolt: str) -> Network:
        """The network of a bolt; its workers are numbers."""
        topology.bolt(bolt)
        spouts, bolts = cone(topology, bolt)
        for b in bolts:
            if topology.bolts[b].workers is ANY:
                raise UsageError(f"bolt {b} has ANY number of workers: zones need a number.")
        numbers = [topology.spouts[s].gap for s in spouts] + [topology.bolts[b].time for b in bolts]
        scale = lcm(*(n.denominator for n in numbers))
        if max(numbers) * scale >= _FAR:
            raise UsageError(
                f"the times of {topology.name} have no common unit that is coarse enough: the longest would have "
                f"{_size(max(numbers) * scale)}. Round them, or take a larger unit of time."
            )
        if topology.semantics == "literal" and any(topology.bolts[b].queue == "per worker" for b in bolts):
            raise UsageError('semantics="literal" has one queue for each bolt: queue="per worker" is for "urgent".')
        return Network(topology, bolt, spouts, bolts, scale)

    def listeners(self, name: str) -> tuple[str, ...]:
        """The listeners of a source that are looked at."""
        return tuple(b for b in self.topology.listeners(name) if b in self.bolts)

    def elsewhere(self, name: str) -> tuple[str, ...]:
        """The listeners of a source that are not looked at."""
        return tuple(b for b in self.topology.listeners(name) if b not in self.bolts)

    def workers(self, bolt: str) -> int:
        """How many workers a bolt has."""
        many = self.topology.bolts[bolt].workers
        assert many is not ANY
        return many

    def whole(self, number: Fraction) -> int:
        """A time in whole units."""
        return int(number * self.scale)

    @property
    def rows(self) -> int:
        """The rows of the largest zone."""
        return 1 + len(self.spouts) + sum(map(self.workers, self.bolts))

    def tables(self, *, limit: int, observe: Seen, caps: dict[str, int], by_steps: bool = False) -> Tables:
        """The tables and the first state."""
        t, bolts = self.topology, [self.topology.bolts[b] for b in self.bolts]
        at, width = [], y.HEAD
        for name, bolt in zip(self.bolts, bolts, strict=True):
            at.append(width)
            width += y.QUEUES + (self.workers(name) if bolt.queue == "per worker" else 0)
        literal = t.semantics == "literal"  # where any step lets time go on
        first, heard, outside = [0], list[int](), []
        for name in (*self.spouts, *self.bolts):
            heard += [self.bolts.index(b) for b in self.listeners(name)]
            first.append(len(heard))
            # a spout that emits to others only loses time; a copy for others changes nothing here
            matters = not self.listeners(name) or (t.routing == "one" and (name in self.bolts or literal))
            outside.append(int(matters and bool(self.elsewhere(name))))
        gaps = [self.whole(t.spouts[s].gap) for s in self.spouts]
        times = [self.whole(b.time) for b in bolts]
        start = [0] * width
        start[y.PHASE] = y.CAN if literal else 0
        for name, bolt, i in zip(self.bolts, bolts, at, strict=True):
            if bolt.queue == "shared":
                start[i + y.LENGTH] = bolt.initial
            else:  # dealt out one by one
                many, rest = divmod(bolt.initial, self.workers(name))
                for w in range(self.workers(name)):
                    start[i + y.QUEUES + w] = many + (w < rest)
        numbers = {
            y.SPOUTS: len(self.spouts),
            y.BOLTS: len(self.bolts),
            y.WIDTH: width,
            y.ALL: int(t.routing == "all"),
            y.LITERAL: int(literal),
            y.SETTLED: ("any", "settled", "blocked").index(observe),
            y.TARGET: self.bolts.index(self.bolt),
            y.LIMIT: limit,
            y.INF: INF,
            y.BY_STEPS: int(by_steps),
            y.ROWS: self.rows,
        }
        arrays = {
            y.GAP: gaps,
            y.TIME: times,
            y.WORKERS: [self.workers(b) for b in self.bolts],
            y.APART: [int(b.queue == "per worker") for b in bolts],
            y.OVER: [b.ratio.numerator for b in bolts],
            y.UNDER: [b.ratio.denominator for b in bolts],
            y.CAP: [caps.get(b, NO_END) for b in self.bolts],
            y.AT: at,
            y.FIRST: first,
            y.HEARD: heard,
            y.OUTSIDE: outside,
        }
        return Tables(numbers, arrays, start)


def _size(number: Fraction) -> str:
    """A number that may have hundreds of digits."""
    digits = len(str(int(number)))
    return f"{int(number):,} units" if digits < 22 else f"a number of units with {digits:,} digits"
