"""When spouts emit: at a constant gap, by chance, in bursts, or as it was recorded.

A spout of a topology needs strictly more than its gap between two tuples, and worst cases are about such runs.  What is
measured or drawn by chance need not keep to that: `Simulation.kept_gaps` says which spouts did.  Chance is that of
NumPy's `RandomState`, whose numbers never change between versions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from pellucid.capacity.flow.bounds import circles, judged
from pellucid.capacity.steps import Place, Step, Worker, initial_of, places_of, workers_of
from pellucid.capacity.topology import ANY, Number, Observation, Spout, Topology, exact
from pellucid.errors import UsageError, nearest
from pellucid.internal.model import on_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Arrivals", "Bursts", "Constant", "Poisson", "Recorded", "Simulation", "simulate"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ticks = NDArray[np.int64]


class Arrivals(Protocol):
    """How a spout emits."""

    def numbers(self, spout: Spout) -> list[Fraction]:
        """The times that have to be whole ticks."""

    def ticks(self, spout: Spout, many: int, unit: Fraction, seed: Any) -> Ticks:
        """The times of the first ``many`` emits, in ticks of ``unit``."""


@dataclass(frozen=True)
class Constant:
    """A tuple every so often; without a number, as often as the spout may: one tick more than its gap.

    >>> Constant(2).every
    Fraction(2, 1)
    """

    every: Fraction | None = None

    def __init__(self, every: Number | None = None) -> None:
        object.__setattr__(self, "every", None if every is None else exact(every, "every"))

    def numbers(self, spout: Spout) -> list[Fraction]:
        """Its period."""
        return [self.every or spout.gap]

    def ticks(self, spout: Spout, many: int, unit: Fraction, seed: Any) -> Ticks:
        """Multiples of the period."""
        import numpy as np

        period = _whole(self.every / unit) if self.every is not None else _whole(spout.gap / unit) + 1
        _near(period * many)
        return period * np.arange(1, many + 1, dtype=np.int64)


@dataclass(frozen=True)
class Poisson:
    """Tuples by chance, one in ``every`` on average, each independent of the others; with ``keep_gap`` the gap of the
    spout passes first, and what remains is by chance.

    >>> Poisson("0.5").keep_gap
    False
    """

    every: Fraction
    keep_gap: bool = False

    def __init__(self, every: Number, *, keep_gap: bool = False) -> None:
        object.__setattr__(self, "every", exact(every, "every"))
        object.__setattr__(self, "keep_gap", keep_gap)

    def numbers(self, spout: Spout) -> list[Fraction]:
        """The gap, if it is kept."""
        return [spout.gap] if self.keep_gap else []

    def ticks(self, spout: Spout, many: int, unit: Fraction, seed: Any) -> Ticks:
        """Sums of exponential times, each rounded to a tick."""
        import numpy as np

        mean, least = self.every / unit, 0
        if self.keep_gap:
            least = _whole(spout.gap / unit) + 1
            if self.every <= spout.gap:
                raise UsageError(f"one in {self.every} on average cannot be with more than {spout.gap} between two.")
            mean -= least
        times = np.random.RandomState(seed).standard_exponential(many) * float(mean)
        _near(int(times.sum()) + least * many)
        return np.cumsum(np.rint(times).astype(np.int64) + least)


@dataclass(frozen=True)
class Bursts:
    """``size`` tuples at once (as fast as the spout may, a tick more than its gap apart), and again ``every`` so often.

    >>> Bursts(10, every=60).size
    10
    """

    size: int
    every: Fraction

    def __init__(self, size: int, every: Number) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UsageError(f"the size of a burst: expected 1 or more, got {size!r}.")
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "every", exact(every, "every"))

    def numbers(self, spout: Spout) -> list[Fraction]:
        """The gap and the time between bursts."""
        return [spout.gap, self.every]

    def ticks(self, spout: Spout, many: int, unit: Fraction, seed: Any) -> Ticks:
        """One burst after another."""
        import numpy as np

        step, every = _whole(spout.gap / unit) + 1, _whole(self.every / unit)
        if step * self.size > every:
            raise UsageError(
                f"a burst of {self.size} tuples, more than {spout.gap} apart, does not fit into {self.every}."
            )
        _near(every * (1 + many // self.size))
        number = np.arange(many, dtype=np.int64)
        return every * (number // self.size) + step * (1 + number % self.size)


@dataclass(frozen=True)
class Recorded:
    """The times at which tuples came, in the unit of the topology, none before the one before it.

    >>> Recorded([0, "0.5", 2]).times
    (Fraction(0, 1), Fraction(1, 2), Fraction(2, 1))
    >>> Recorded([3, 2])
    Traceback (most recent call last):
        ...
    pellucid.errors.UsageError: recorded time 1: 2 comes after 3.
    """

    times: tuple[Fraction, ...]

    def __init__(self, times: Sequence[Number]) -> None:
        found = tuple(exact(t, f"recorded time {i}", least=Fraction(0)) for i, t in enumerate(times))
        for i in range(1, len(found)):
            if found[i] < found[i - 1]:
                raise UsageError(f"recorded time {i}: {found[i]} comes after {found[i - 1]}.")
        object.__setattr__(self, "times", found)

    def numbers(self, spout: Spout) -> list[Fraction]:
        """All of them."""
        return [t for t in self.times if t]

    def ticks(self, spout: Spout, many: int, unit: Fraction, seed: Any) -> Ticks:
        """All of them, however many are asked for."""
        import numpy as np

        _near(_whole(max(self.times, default=Fraction(0)) / unit))
        return np.array([_whole(t / unit) for t in self.times], dtype=np.int64)


def _whole(number: Fraction) -> int:
    assert number.denominator == 1, number  # the unit divides all that `numbers` has
    return number.numerator


FAR = 1 << 61


def _near(tick: int) -> None:
    """Whether a time can be counted in ticks."""
    if tick >= FAR:
        raise OverflowError(tick)


# One run of a topology: what comes when, who is chosen, and what is reported about it afterwards.

PAUSE = 1_000_000  # events between two looks at the time
CHOICES = ("random", "round robin", "given", "longest", "shortest")
FINEST = 1000  # ticks in the shortest time that is named


@dataclass(frozen=True)
class Simulation:
    """What happened: ``time`` is when the last tuple was done (or where it was cut), ``events`` how many emits, takes
    and ends there were, ``emitted`` how many tuples the spouts brought.

    >>> from pellucid.capacity import figure_1, simulate
    >>> run = simulate(figure_1(gap=1, workers=2), tuples=1000)
    >>> run.longest("B2"), run.longest("B2", "settled"), run.emitted
    (1, 0, 2000)
    """

    topology: Topology
    time: Fraction
    events: int
    emitted: int
    unit: Fraction
    kept_gaps: Mapping[str, bool]
    _places: Mapping[str, list[int]] = field(repr=False)
    _longest: Any = field(repr=False)  # for each queue: in any state, in a settled one
    _histogram: Any = field(repr=False)  # for each queue: how many ticks it had each length
    _records: Any = field(repr=False)  # for each tuple that was done: bolt, time from its queue on, from its spout on
    _log: Any = field(default=None, repr=False)

    def longest(self, bolt: str, observe: Observation | None = None) -> int:
        """The longest that the queue of a bolt was; as the topology observes it, unless told."""
        self.topology.bolt(bolt)
        column = 0 if (observe or self.topology.observe) == "any" else 1
        return int(self._longest[self._places[bolt], column].max())

    def length(self, bolt: str, percent: float) -> int:
        """The length that the queue of a bolt did not exceed for so many percent of the time.

        >>> from pellucid.capacity import Bolt, Spout, Topology, simulate
        >>> run = simulate(Topology({"S": Spout("0.5")}, {"B": Bolt(1, "S")}), tuples=1000)
        >>> run.length("B", 50), run.length("B", 100)
        (249, 500)
        """
        self.topology.bolt(bolt)
        weights = self._histogram[self._places[bolt]].sum(axis=0)
        return _percentile(None, weights, percent)

    def latency(self, percent: float, bolt: str | None = None) -> Fraction:
        """The time that so many percent of tuples did not exceed: at a bolt, from its queue to the end; without one,
        from the spout to the end of a final bolt.

        >>> from pellucid.capacity import figure_1, simulate
        >>> run = simulate(figure_1(gap=4), tuples=1000)
        >>> str(run.latency(100, "B1")), str(run.latency(50))
        ('1', '2')
        """
        import numpy as np

        if self._records is None:
            raise UsageError("latencies were not kept: simulate(…, latencies=True) keeps them.")
        names = list(self.topology.bolts)
        if bolt is not None:
            self.topology.bolt(bolt)
            times = self._records[self._records[:, 0] == names.index(bolt), 1]
        else:
            final = [i for i, b in enumerate(names) if not self.topology.listeners(b)]
            times = self._records[np.isin(self._records[:, 0], final), 2]
        if not len(times):
            raise UsageError(f"no tuple was done{f' at {bolt}' if bolt else ''}: there is no latency.")
        values, counts = np.unique(times, return_counts=True)
        return _percentile(values, counts, percent) * self.unit

    def steps(self) -> tuple[Step, ...]:
        """The run as steps, which `replay` accepts if the gaps were kept; only if the log was kept."""
        if self._log is None:
            raise UsageError("the steps were not kept: simulate(…, log=True) keeps them.")
        return tuple(_steps(self.topology, self._log, self.unit))

    def __str__(self) -> str:
        lines = [f"{self.emitted:,} tuples, {self.events:,} events, time {_about(self.time)}"]
        for b in self.topology.bolts:
            lengths = ", ".join(f"{p}%: {self.length(b, p)}" for p in (50, 95, 99))
            longest, settled = self.longest(b, "any"), self.longest(b, "settled")
            lines.append(f"{b}: longest {longest}, settled {settled}; most of the time {lengths}")
        return "\n".join(lines)


def simulate(
    topology: Topology,
    *,
    tuples: int = 10_000,
    until: Number | None = None,
    arrivals: Arrivals | Mapping[str, Arrivals] | None = None,
    choose: str | Mapping[str, Sequence[str]] = "round robin",
    seed: int = 0,
    latencies: bool = True,
    log: bool = False,
) -> Simulation:
    """Run a topology: every spout emits ``tuples`` (recorded ones: all); it ends when all are done, or at ``until``.

    ``arrivals`` says when spouts emit, for all or by name; without, each as fast as it may.  ``choose`` says who gets a
    tuple, with routing ``one`` and with a queue for each worker: ``"round robin"``, ``"random"``, the ``"longest"``
    queue (which is what makes queues long), the ``"shortest"`` (which is what makes them short); or by name of who
    emits, a list of bolts that is gone through again and again.  The same arguments give the same run everywhere.
    Latencies are kept of each tuple (24 bytes for each bolt on its way), unless ``latencies`` is false; ``log`` keeps
    every step.

    >>> from pellucid.capacity import Poisson, figure_1
    >>> run = simulate(figure_1(gap=1, workers=2), tuples=5000, arrivals=Poisson("1.1"), choose="random", seed=1)
    >>> run.emitted, run.kept_gaps
    (10000, {'S1': False, 'S2': False})
    >>> run.longest("B2") > 1  # tuples came faster than the gap says
    True
    """
    for name, bolt in topology.bolts.items():
        if bolt.workers is ANY:
            raise UsageError(f"bolt {name} has ANY number of workers: a simulation needs one, as in given(workers=2).")
    if topology.semantics != "urgent":
        raise UsageError("a simulation is of the urgent semantics: given(semantics='urgent') asks for it.")
    if isinstance(tuples, bool) or not isinstance(tuples, int) or tuples < 0:
        raise UsageError(f"tuples: expected 0 or more, got {tuples!r}.")
    if until is None:
        for group in circles(topology):
            dies, _, why = judged(topology, group)
            if not dies:
                raise UsageError(f"{why}: the run may never end, so until= has to say when.")
    plan = _arrivals(topology, arrivals)
    end = None if until is None else exact(until, "until")
    unit = _unit(topology, plan)
    times = {}
    for i, (s, spout) in enumerate(topology.spouts.items()):
        try:
            heard = len(topology.listeners(s)) > 0  # a spout without listeners emits nothing, recorded or not
            times[s] = plan[s].ticks(spout, tuples if heard else 0, unit, [seed, i])[: None if heard else 0]
        except OverflowError:
            raise UsageError(f"spout {s} emits for too many ticks of {unit}: fewer or rounder numbers.") from None
    for b, bolt in topology.bolts.items():
        if bolt.time / unit > FAR >> 24:
            raise UsageError(f"a tuple at {b} takes too many ticks of {unit}: rounder numbers.")
    kept = {s: _kept(times[s], spout.gap / unit) for s, spout in topology.spouts.items()}
    return _Arrays(topology, times, unit, choose, seed, end, latencies, log).run(kept)


def _arrivals(topology: Topology, given: Arrivals | Mapping[str, Arrivals] | None) -> dict[str, Arrivals]:
    if given is None or not isinstance(given, Mapping):
        return dict.fromkeys(topology.spouts, Constant() if given is None else given)
    for s in given:
        if s not in topology.spouts:
            raise UsageError(f"arrivals: there is no spout {s}{nearest(s, list(topology.spouts))}")
    return {s: given.get(s, Constant()) for s in topology.spouts}


def _unit(topology: Topology, plan: Mapping[str, Arrivals]) -> Fraction:
    """The tick: it divides every time that is named, and is much shorter than all of them."""
    numbers = [b.time for b in topology.bolts.values()]
    for s, spout in topology.spouts.items():
        numbers += plan[s].numbers(spout)
    common = math.lcm(*(n.denominator for n in numbers))
    if all(isinstance(a, Recorded) for a in plan.values()):
        return Fraction(1, common)
    shortest = min(n for n in [*numbers, *(s.gap for s in topology.spouts.values())])
    return Fraction(1, common * math.ceil(FINEST / (shortest * common)))


def _kept(times: NDArray[Any], gap: Fraction) -> bool:
    """Whether more than the gap passed before each tuple."""
    import numpy as np

    return not len(times) or bool(np.diff(times, prepend=0).min() > gap)


class _Arrays:
    """The arrays that the loop works on."""

    def __init__(
        self,
        topology: Topology,
        times: Mapping[str, NDArray[Any]],
        unit: Fraction,
        choose: str | Mapping[str, Sequence[str]],
        seed: int,
        until: Fraction | None,
        latencies: bool,
        log: bool,
    ) -> None:
        import numpy as np

        from pellucid.capacity import simulation_kernel as k

        self.topology, self.unit, self.until, self.np, self.k = topology, unit, until, np, k
        names, ints = list(topology.bolts), np.int64
        ends = np.cumsum([0, *(len(t) for t in times.values())])
        self.spouts = np.array([(ends[i], ends[i + 1]) for i in range(len(times))], dtype=ints)
        self.arrivals = np.concatenate([*times.values(), np.zeros(1, ints)]).astype(ints)
        self.bolts = np.zeros((len(names), k.BOLT), ints)
        self.of: dict[str, list[int]] = {}
        rings = places = 0
        for i, b in enumerate(names):
            bolt, workers, many = topology.bolts[b], workers_of(topology, b), len(places_of(topology, b))
            row = self.bolts[i]
            row[[k.TIME, k.WORKERS, k.PLACES]] = int(bolt.time / unit), workers, many
            row[[k.UP, k.DOWN, k.FINAL]] = bolt.ratio.numerator, bolt.ratio.denominator, not topology.listeners(b)
            row[[k.FIRST_PLACE, k.RING, k.IDLE]] = k.PLACE * places, k.WORK * rings, rings
            row[k.SENDS] = k.SOURCE * (len(times) + i)
            self.of[b] = list(range(places, places + many))
            places, rings = places + many, rings + workers
        self.ring = np.zeros((rings, k.WORK), ints)
        self.idle = np.concatenate([np.arange(workers_of(topology, b))[::-1] for b in names]).astype(ints)
        heard = [[names.index(b) for b in topology.listeners(s)] for s in [*topology.spouts, *names]]
        given = self._given(choose, heard, names)
        self.sources = np.zeros((len(heard), k.SOURCE), ints)
        for first, last, lists in ((k.HEARD, k.HEARD_END, heard), (k.GIVES, k.GIVES_END, given)):
            self.sources[:, last] = np.cumsum([len(part) for part in lists])
            self.sources[1:, first] = self.sources[:-1, last]
        self.hears = k.BOLT * np.array([*chain.from_iterable(heard), 0], dtype=ints)
        self.gives = np.array([*chain.from_iterable(given), 0], dtype=ints)
        ratios = [math.ceil(b.ratio) for b in topology.bolts.values()]
        most_out = 1 + max([1, *ratios]) * (max(map(len, heard)) if topology.routing == "all" else 1)
        initial = [n for b in names for n in initial_of(topology, b)]
        self.reg = reg = np.zeros(k.REGISTERS, ints)
        reg[[k.ALL_HEAR, k.MODE, k.MOST_OUT]] = topology.routing == "all", self.mode, most_out
        reg[[k.UNTIL, k.KEEPS_LOG]] = -1 if until is None else int(until // unit), log
        reg[[k.SPOUTS, k.BOLTS, k.KEEPS_RECORDS]] = len(times), len(names), latencies
        reg[k.CHANCE] = np.uint64(seed & 0xFFFFFFFFFFFFFFFF).astype(ints)
        reg[k.FREES] = 1024 + 2 * sum(initial) + 2 * most_out
        self.pool = np.zeros((reg[k.FREES], k.TUPLE), ints)
        self.pool[:, k.AFTER] = k.TUPLE * np.arange(1, len(self.pool) + 1)
        self.histogram = np.zeros((places, 64 + max(initial) + 2 * most_out), ints)
        self.places = np.zeros((places, k.PLACE), ints)
        self.places[:, k.OF] = [k.BOLT * i for i, b in enumerate(names) for _ in self.of[b]]
        self.todo = np.zeros((places, 2), ints)
        self.records = np.zeros((4096, k.RECORD), ints)
        self.log = np.zeros((4096 + 2 * most_out if log else 1, k.LINE), ints)
        table = self._table()
        for p, count in enumerate(initial):
            k.put_all(table, k.PLACE * p, count)

    def _table(self) -> Any:
        """The addresses of the arrays, in the order in which the loop has them; and how much room there is now."""
        k, reg = self.k, self.reg
        reg[[k.WIDTH, k.RECORD_ROOM, k.LOG_ROOM]] = self.histogram.shape[1], len(self.records), len(self.log)
        self.places[:, k.TICKS] = self.histogram.shape[1] * self.np.arange(len(self.places))
        arrays = (
            reg, self.spouts, self.arrivals, self.bolts, self.ring, self.idle, self.sources, self.hears, self.gives,
            self.log, self.places, self.pool, self.histogram, self.todo, self.records,
        )  # fmt: skip
        assert all(a.flags.c_contiguous and a.dtype == self.np.int64 for a in arrays)
        return self.np.array([a.ctypes.data for a in arrays], dtype=self.np.int64)

    def _given(
        self, choose: str | Mapping[str, Sequence[str]], heard: list[list[int]], names: list[str]
    ) -> list[list[int]]:
        """For each who emits, who gets its tuples in turn, as places among those who hear it."""
        sources = [*self.topology.spouts, *names]
        given: list[list[int]] = [[] for _ in sources]
        if isinstance(choose, str):
            if choose not in CHOICES or choose == "given":
                words = ", ".join(repr(c) for c in CHOICES if c != "given")
                raise UsageError(f"choose: expected {words} or a list of bolts for each who emits, got {choose!r}.")
            self.mode = CHOICES.index(choose)
            return given
        self.mode = CHOICES.index("given")
        for source, targets in choose.items():
            if source not in sources:
                raise UsageError(f"choose: there is no spout and no bolt {source}{nearest(source, sources)}")
            at = sources.index(source)
            for b in targets:
                if b not in self.topology.listeners(source):
                    raise UsageError(f"choose: {b} does not hear {source}.")
                given[at].append(heard[at].index(names.index(b)))
        return given

    def run(self, kept: Mapping[str, bool]) -> Simulation:
        """The whole run; where the loop lacks room, it gets twice as much."""
        np, k, reg = self.np, self.k, self.reg
        while True:
            reg[k.PAUSE] = reg[k.EVENTS] + PAUSE
            said = k.run(self._table())
            if said == k.DONE:
                break
            on_time()
            if said == k.PAUSED:
                continue
            if said == k.MORE_POOL:
                old = len(self.pool)
                self.pool = _twice(self.pool)
                self.pool[old:, k.AFTER] = k.TUPLE * np.arange(old + 1, 2 * old + 1)
                self.pool[-1, k.AFTER] = reg[k.FREE]
                reg[k.FREE], reg[k.FREES] = k.TUPLE * old, reg[k.FREES] + old
            elif said == k.MORE_WIDTH:
                self.histogram = np.pad(self.histogram, ((0, 0), (0, self.histogram.shape[1])))
            elif said == k.MORE_RECORDS:
                self.records = _twice(self.records)
            else:
                self.log = _twice(self.log)
        end = self.until if self.until is not None else int(reg[k.LAST]) * self.unit
        for p, (length, since) in enumerate(self.places[:, [k.LENGTH, k.SINCE]]):
            self.histogram[p, length] += int(end // self.unit) - since
        records = self.records[: reg[k.RECORDS]]
        records[:, 0] //= k.BOLT
        return Simulation(
            self.topology, end, int(reg[k.EVENTS]), int(reg[k.EMITTED]), self.unit, kept, self.of,
            self.places[:, [k.LONGEST_ANY, k.LONGEST_SETTLED]], self.histogram,
            records if reg[k.KEEPS_RECORDS] else None,
            self.log[: reg[k.LOGGED]] if reg[k.KEEPS_LOG] else None,
        )  # fmt: skip


def _twice(array: Any) -> Any:
    import numpy as np

    return np.concatenate([array, np.zeros_like(array)])


def _percentile(values: Any, weights: Any, percent: float) -> int:
    """The least value that so many percent of the weight do not exceed."""
    import numpy as np

    if not 0 <= percent <= 100:
        raise UsageError(f"a percentile is from 0 to 100, not {percent}.")
    total = np.cumsum(weights)
    if not total[-1]:  # no time passed
        return 0
    at = int(np.searchsorted(total, math.ceil(Fraction(repr(float(percent))) / 100 * int(total[-1])), side="left"))
    while at < len(weights) - 1 and not weights[at]:  # 0 percent is the least that there was
        at += 1
    return at if values is None else int(values[at])


def _steps(topology: Topology, log: Any, unit: Fraction) -> list[Step]:
    from pellucid.capacity import simulation_kernel as k

    spouts, bolts = list(topology.spouts), list(topology.bolts)
    places: list[Place] = [p for b in bolts for p in places_of(topology, b)]
    found: list[Step] = []
    now = 0
    for at, what, who, which in log.tolist():
        if at > now:
            found.append(Step("time_elapse", by=(at - now) * unit))
            now = at
        if what == k.SPOUT_EMIT:
            found.append(Step("spout_emit", spouts[who // k.SPOUT]))
        elif what == k.BOLT_EMIT:
            found.append(Step("bolt_emit", Worker(bolts[who // k.BOLT], which)))
        elif what == k.BOLT_TAKE:
            found.append(Step("bolt_take", Worker(bolts[who // k.BOLT], which)))
        elif what == k.INTO:
            found[-1] = found[-1]._replace(to=(*found[-1].to, places[which // k.PLACE]))
    return found


def _about(time: Fraction) -> str:
    return str(time) if time.denominator <= 1000 else f"about {float(time):g}"
