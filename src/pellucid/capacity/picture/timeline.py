"""What a timeline shows: when spouts emit, how long queues are, when workers work.

Both pictures read this, so they cannot disagree.  It is made of a `Replay`, that is of steps that were applied one by
one: nothing is drawn that did not happen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pellucid.capacity.steps import Replay, Worker


@dataclass(frozen=True)
class Timeline:
    """Times are exact.  ``queues`` has for each bolt its length after each step, with the time of that step; ``lanes``
    from when to when each worker is busy."""

    end: Fraction
    emits: Mapping[str, tuple[Fraction, ...]]
    queues: Mapping[str, tuple[tuple[Fraction, int], ...]]
    lanes: Mapping[Worker, tuple[tuple[Fraction, Fraction], ...]]
    limits: Mapping[str, int]  # the queues that should stay below that
    over: Fraction | None  # when the first of them did not
    title: str = ""

    def length(self, bolt: str, begin: Fraction, end: Fraction) -> int:
        """The longest that a queue is between two times, the second one left out."""
        steps = self.queues[bolt]
        inside = [n for at, n in steps if begin <= at < end]
        before = [n for at, n in steps if at < begin]
        return max([*inside, *before[-1:]], default=0)

    def longest(self, bolt: str) -> int:
        """The longest that it is at all."""
        return max((n for _, n in self.queues[bolt]), default=0)


def timeline(run: Replay, limits: Mapping[str, int] | None = None, *, title: str = "") -> Timeline:
    """The timeline of a run; ``limits`` are those that the question was about.

    >>> from fractions import Fraction
    >>> from pellucid.capacity import Bolt, Spout, Step, Topology, replay
    >>> t = Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S")})
    >>> wait = Step("time_elapse", by=Fraction(3, 2))
    >>> found = timeline(replay(t, [wait, Step("spout_emit", "S", ("B",)), Step("bolt_take", Worker("B", 0))]))
    >>> found.end, found.emits["S"], found.lanes[Worker("B", 0)]
    (Fraction(3, 2), (Fraction(3, 2),), ((Fraction(3, 2), Fraction(3, 2)),))
    """
    limits = dict(limits or {})
    end = run.times[-1]
    emits: dict[str, list[Fraction]] = {s: [] for s in run.topology.spouts}
    for step, at in zip(run.steps, run.times, strict=False):
        if step.action == "spout_emit":
            emits[str(step.who)].append(at)
    queues = {b: tuple(zip(run.times, run.lengths(b), strict=True)) for b in run.topology.bolts}
    lanes = {w: tuple((a, min(b, end)) for a, b in spans) for w, spans in run.busy().items()}
    over = [at for b, limit in limits.items() for at, n in queues[b] if n >= limit]
    return Timeline(
        end, {s: tuple(at) for s, at in emits.items()}, queues, lanes, limits, min(over, default=None),
        title or run.topology.name,
    )  # fmt: skip


def ticks(end: Fraction, most: int) -> Sequence[Fraction]:
    """Round times from 0 to ``end``, not more than so many.

    >>> [str(t) for t in ticks(Fraction(7), 5)], [str(t) for t in ticks(Fraction(3, 10), 4)]
    (['0', '2', '4', '6'], ['0', '1/10', '1/5', '3/10'])
    """
    if end <= 0:
        return [Fraction(0)]
    power = Fraction(1, 10**6)
    while True:
        for digit in (1, 2, 5):
            gap = digit * power
            if end / gap + 1 <= max(2, most):
                return [gap * i for i in range(int(end / gap) + 1)]
        power *= 10


def number(value: Fraction) -> str:
    """A time for people: as a decimal where that is exact and short, else as a fraction.

    >>> number(Fraction(5, 2)), number(Fraction(1, 3)), number(Fraction(4))
    ('2.5', '1/3', '4')
    """
    for digits in range(5):
        if value.denominator and (value * 10**digits).denominator == 1:
            return f"{float(value):.{digits}f}" if digits else str(int(value))
    return str(value)
