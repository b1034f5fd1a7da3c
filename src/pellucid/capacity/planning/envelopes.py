"""An upper bound for every queue in no time: how much can come in a window of any length, bolt by bolt.

Zones are exact, and take long where there are many workers and odd numbers.  An *envelope* says that no window of
length d has more than ``burst + rate * d`` tuples (network calculus; Cruz, 1991).

- A spout: 1 and 1 / gap.
- The queue of a bolt with W workers that need t: as long as no more comes than they serve, whoever waits came not more
  than ``k * t`` after the ``k * W`` before it, for some k; so the queue is at most ``burst + k * (rate * t - W)``, that
  is ``burst``, and nobody waits longer than ``(burst - 1) * t / W``.
- What a bolt puts out in a window came in one that is longer by the time from queue to end; if more comes than it
  serves, it is what its workers can do: W and W / t.

Whoever might get a tuple is taken to get it (routing ``one``), so a queue that is finite may have no envelope.
`check_envelopes` looks at each line of the table again, by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from pellucid.capacity.topology import ANY, Topology


@dataclass(frozen=True)
class Envelope:
    """What comes to a bolt, and what it puts out: no window of length d has more than burst + rate * d."""

    burst: Fraction
    rate: Fraction
    out_burst: Fraction
    out_rate: Fraction
    keeps_up: bool

    @property
    def at_most(self) -> int | None:
        """No queue is longer; None if nothing is known."""
        return floor(self.burst) if self.keeps_up else None


def envelopes(topology: Topology) -> dict[str, Envelope] | None:
    """The envelopes of all bolts; None where there are none: bolts in a circle, ANY workers, the literal semantics.

    >>> from pellucid.capacity import figure_1
    >>> found = envelopes(figure_1(gap=2))
    >>> [found[b].at_most for b in ("B1", "B2", "B3")]  # exactly it is 1, 1 and 2
    [1, 2, None]
    >>> [envelopes(figure_1(gap=3, workers=2))[b].at_most for b in ("B1", "B2", "B3")]
    [1, 2, 4]
    """
    order = topology.order()
    if order is None or topology.semantics == "literal":
        return None
    if any(bolt.workers is ANY for bolt in topology.bolts.values()):
        return None
    table: dict[str, Envelope] = {}
    for name in order:
        burst, rate = _comes(topology, name, table)
        table[name] = _through(topology, name, burst, rate)
    return table


def _comes(topology: Topology, name: str, table: Mapping[str, Envelope]) -> tuple[Fraction, Fraction]:
    bolt = topology.bolts[name]
    burst, rate = Fraction(bolt.initial), Fraction(0)
    for heard in bolt.hears:
        if heard in topology.spouts:
            burst, rate = burst + 1, rate + 1 / topology.spouts[heard].gap
        else:
            burst, rate = burst + table[heard].out_burst, rate + table[heard].out_rate
    return burst, rate


def _through(topology: Topology, name: str, burst: Fraction, rate: Fraction) -> Envelope:
    bolt = topology.bolts[name]
    assert bolt.workers is not ANY
    serving = 1 if bolt.queue == "per worker" else bolt.workers  # all of it may go to one of the queues
    keeps_up = rate * bolt.time <= serving
    if keeps_up:
        stays = bolt.time * (1 + max(Fraction(0), burst - 1) / serving)
        most, speed = burst + rate * stays, rate
    else:
        most, speed = Fraction(bolt.workers), bolt.workers / bolt.time
    rest = Fraction(bolt.ratio.denominator - 1, bolt.ratio.denominator)  # of what was put aside before
    return Envelope(burst, rate, bolt.ratio * most + rest, bolt.ratio * speed, keeps_up)


def check_envelopes(topology: Topology, table: Mapping[str, Envelope]) -> bool:
    """Whether each line follows from those before it: nothing is computed that is not compared.

    >>> from dataclasses import replace
    >>> from pellucid.capacity import figure_1
    >>> t = figure_1(gap=3)
    >>> found = envelopes(t)
    >>> check_envelopes(t, found), check_envelopes(t, {**found, "B2": replace(found["B2"], burst=Fraction(1))})
    (True, False)
    """
    if topology.semantics != "urgent" or set(table) != set(topology.bolts):
        return False
    place = {b: i for i, b in enumerate(topology.order() or ())}
    for name, bolt in topology.bolts.items():
        line, workers = table[name], bolt.workers
        if workers is ANY or name not in place or any(place.get(h, -1) >= place[name] for h in bolt.hears):
            return False
        spouts = [topology.spouts[h] for h in bolt.hears if h in topology.spouts]
        before = [table[h] for h in bolt.hears if h in table]
        if line.burst < bolt.initial + len(spouts) + sum(b.out_burst for b in before):
            return False
        if line.rate < sum(1 / s.gap for s in spouts) + sum(b.out_rate for b in before):
            return False
        each = workers if bolt.queue == "shared" else 1
        if line.keeps_up and line.rate > each / bolt.time:
            return False
        whole = (bolt.ratio.denominator - 1) / Fraction(bolt.ratio.denominator)
        by_workers = (
            line.out_burst >= bolt.ratio * workers + whole and line.out_rate >= bolt.ratio * workers / bolt.time
        )
        longer = bolt.time + bolt.time * max(line.burst - 1, Fraction(0)) / each
        by_queue = line.keeps_up and line.out_rate >= bolt.ratio * line.rate
        by_queue = by_queue and line.out_burst >= bolt.ratio * (line.burst + line.rate * longer) + whole
        if not by_workers and not by_queue:
            return False
    return True
