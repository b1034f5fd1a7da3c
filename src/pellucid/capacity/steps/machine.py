"""What both semantics have in common: the arrays of the paper, who may be given a tuple, what a step changes.

The arrays have one entry after another here, in the order of the topology: ``stime`` for each spout, ``lengths`` (the
paper's *L*) for each queue, ``status`` (*B*: ``I`` idle, ``X`` executing, ``E`` about to emit) and ``left`` (*P*, as
the time that is left of the tuple) for each worker.  ``owed`` is what a bolt has earned by its ratio so far.
The global time *T* has no influence on anything: `replay` counts it.

What is enabled is said by `why_not` alone, and what it changes by `after` alone; `steps` offers whatever `why_not` does
not object to.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from fractions import Fraction
from itertools import chain, combinations_with_replacement, product
from typing import Any, NamedTuple, TypeAlias

from pellucid.capacity.steps.step import FLAGS, SYSTEM, Place, Step, Worker, named
from pellucid.capacity.topology import ANY, Topology
from pellucid.errors import UsageError
from pellucid.internal.model import on_time

Time: TypeAlias = "Fraction | int"

IDLE, EXECUTE, EMIT = "I", "X", "E"


class Situation(NamedTuple):
    """A state of the machine; the module's docstring says what the entries are."""

    stime: tuple[Time, ...]
    lengths: tuple[int, ...]
    status: str
    left: tuple[Time, ...]
    owed: tuple[Time, ...]
    flags: Any = None  # of the literal semantics


class Steps:
    """The machine of a topology with given numbers of workers; `Urgent` and `Literal` say what is enabled.

    ``delays`` are the amounts of time that `steps` offers to let pass; `after` takes any.
    """

    def __init__(self, topology: Topology, *, delays: Collection[Time] = ()) -> None:
        for name, bolt in topology.bolts.items():
            if bolt.workers is ANY:
                raise UsageError(
                    f"bolt {name} has ANY number of workers, and steps need a number: "
                    "topology.given(workers=2) or given(workers={...}) says one."
                )
        self.topology, self.delays = topology, tuple(delays)
        self.spouts = {s: i for i, s in enumerate(topology.spouts)}
        self.bolts = {b: i for i, b in enumerate(topology.bolts)}
        self.gap = [plain(s.gap) for s in topology.spouts.values()]
        self.time = [plain(b.time) for b in topology.bolts.values()]
        self.ratio = [plain(b.ratio) for b in topology.bolts.values()]
        self.workers = [Worker(b, n) for b in topology.bolts for n in range(workers_of(topology, b))]
        self.worker = {w: i for i, w in enumerate(self.workers)}
        self.bolt_of = [self.bolts[w.bolt] for w in self.workers]
        places = {b: places_of(topology, b) for b in topology.bolts}
        self.places: list[Place] = list(chain.from_iterable(places.values()))
        self.place = {p: i for i, p in enumerate(self.places)}
        self.queue_of = [self.place[w.bolt if w.bolt in self.place else w] for w in self.workers]
        self.hears = {
            name: [places[b] for b in topology.listeners(name)] for name in [*topology.spouts, *topology.bolts]
        }
        self.final = [not topology.listeners(b) for b in topology.bolts]

    # ---------------------------------------------------------------- what a machine has

    def start(self) -> Situation:
        """Everybody is idle, no time has passed; queues hold what they hold initially."""
        lengths = tuple(length for b in self.topology.bolts for length in initial_of(self.topology, b))
        busy = len(self.workers)
        return Situation((0,) * len(self.gap), lengths, IDLE * busy, (0,) * busy, (0,) * len(self.time))

    def steps(self, at: Situation, *, failures: bool = True) -> Iterator[tuple[Step, Situation]]:
        """Every step that is possible; of the passing of time, by what ``delays`` has."""
        for step in self.thinkable(at):
            if self.why_not(at, step) is None:
                yield step, self.after(at, step)

    def see(self, at: Situation) -> Hashable:
        """The queues and what the workers do."""
        queues = {f"queue of {named(p)}": n for p, n in zip(self.places, at.lengths, strict=True)}
        return queues | {str(w): s for w, s in zip(self.workers, at.status, strict=True)}  # type: ignore[return-value]

    def complete(self, at: Situation) -> bool:
        """A run may end anywhere."""
        return True

    # ---------------------------------------------------------------- what is asked of a state

    def can_take(self, at: Situation, w: int) -> bool:
        """Whether this worker is idle and has something in its queue."""
        return at.status[w] == IDLE and at.lengths[self.queue_of[w]] >= 1

    def acts(self, at: Situation) -> int | None:
        """The first worker that can take or emit."""
        for w in range(len(self.workers)):
            if at.status[w] == EMIT or self.can_take(at, w):
                return w
        return None

    def settled(self, at: Situation) -> bool:
        """Whether the takes and emits of this instant are done."""
        return self.acts(at) is None

    def length(self, at: Situation, bolt: str) -> int:
        """A bolt's queue: the longest of them, if each worker has one."""
        return max(at.lengths[self.place[p]] for p in places_of(self.topology, bolt))

    def due(self, at: Situation, bolt: int) -> int:
        """How many tuples a bolt puts out if one of its workers emits now."""
        return int(at.owed[bolt] + self.ratio[bolt])

    # ---------------------------------------------------------------- what can happen, and what it changes

    def thinkable(self, at: Situation) -> Iterator[Step]:
        """Steps of which some are possible."""
        for s in self.spouts:
            for to in self.deliveries(s, 1):
                yield Step("spout_emit", s, to)
        for w, worker in enumerate(self.workers):
            if at.status[w] == EMIT:
                for to in self.deliveries(worker.bolt, self.due(at, self.bolt_of[w])):
                    yield Step("bolt_emit", worker, to)
            elif at.status[w] == IDLE:
                yield Step("bolt_take", worker)
        for delay in self.delays:
            yield Step("time_elapse", by=Fraction(delay))

    def deliveries(self, name: str, count: int) -> Iterator[tuple[Place, ...]]:
        """The ways in which so many tuples of one who emits can go to those who hear it."""
        heard = self.hears[name]
        groups = [list(chain.from_iterable(heard))] if self.topology.routing == "one" else heard
        for choice in product(*(combinations_with_replacement(group, count) for group in groups)):
            yield tuple(chain.from_iterable(choice))

    def why_not(self, at: Situation, step: Step) -> str | None:
        """Why a step is not possible; None if it is."""
        raise NotImplementedError

    def unnamed(self, step: Step) -> str | None:
        """What is wrong with a step wherever it comes: an action or somebody who is not there."""
        known: Iterable[Any]
        if step.action == "spout_emit":
            known, what = self.spouts, "spout"
        elif step.action in ("bolt_emit", "bolt_take"):
            known, what = self.worker, "worker"
        elif step.action == "time_elapse":
            if step.by is None or step.by <= 0:
                return "time passes by more than 0" + ("" if step.by is None else f", not by {step.by}")
            return None
        else:
            return None if step.action in FLAGS else f"there is no such action: {', '.join(SYSTEM)} are"
        if step.who not in known:
            return f"there is no {what} {'' if step.who is None else named(step.who)}".rstrip()
        return None

    def misdelivered(self, name: str, to: tuple[Place, ...], count: int) -> str | None:
        """What is wrong with where tuples go."""
        heard = self.hears[name]
        for place in to:
            if not any(place in group for group in heard):
                return f"{named(place)} is no queue that hears {name}"
        if self.topology.routing == "one":
            if len(to) != count:
                return f"{name} puts out {count} here, each to one of those who hear it, and not {len(to)}"
            return None
        for group in heard:
            got = sum(place in group for place in to)
            if got != count:
                bolt = group[0] if isinstance(group[0], str) else group[0][0]
                return f"{name} puts out {count} here, with a copy for each who hears it: {bolt} gets {got}"
        return None

    def after(self, at: Situation, step: Step) -> Situation:
        """What comes after a step that is possible."""
        on_time()
        lengths, status, left, owed = list(at.lengths), list(at.status), list(at.left), list(at.owed)
        for place in step.to:
            lengths[self.place[place]] += 1
        stime = at.stime
        if step.action == "spout_emit":
            assert isinstance(step.who, str)
            s = self.spouts[step.who]
            stime = (*stime[:s], 0, *stime[s + 1 :])
        elif step.action == "bolt_take":
            w = self.worker[step.who]  # type: ignore[index]
            lengths[self.queue_of[w]] -= 1
            status[w], left[w] = EXECUTE, self.time[self.bolt_of[w]]
        elif step.action == "bolt_emit":
            w = self.worker[step.who]  # type: ignore[index]
            status[w] = IDLE
            b = self.bolt_of[w]
            owed[b] += self.ratio[b] - self.due(at, b)
        elif step.action == "time_elapse":
            assert step.by is not None
            by = plain(step.by)
            stime = tuple(t + by for t in stime)
            for w, bolt in enumerate(self.bolt_of):
                if status[w] == EXECUTE and left[w] <= by:
                    status[w] = IDLE if self.final[bolt] else EMIT
                left[w] = max(left[w] - by, 0)
        return Situation(stime, tuple(lengths), "".join(status), tuple(left), tuple(owed), at.flags)


def plain(number: Fraction) -> Time:
    """An integer as an integer: it equals the fraction, and is faster.

    >>> plain(Fraction(4, 2)), plain(Fraction(1, 2))
    (2, Fraction(1, 2))
    """
    return number.numerator if number.denominator == 1 else number


def workers_of(topology: Topology, bolt: str) -> int:
    """How many workers a bolt has, as a number."""
    workers = topology.bolts[bolt].workers
    assert workers is not ANY
    return workers


def places_of(topology: Topology, bolt: str) -> list[Place]:
    """The queues of a bolt: one, or one for each worker."""
    if topology.bolts[bolt].queue == "shared":
        return [bolt]
    return [Worker(bolt, n) for n in range(workers_of(topology, bolt))]


def initial_of(topology: Topology, bolt: str) -> list[int]:
    """What the queues of a bolt hold at the beginning: dealt out to its workers one by one, if each has a queue."""
    places = len(places_of(topology, bolt))
    many, more = divmod(topology.bolts[bolt].initial, places)
    return [many + (n < more) for n in range(places)]


def machine_of(topology: Topology, *, bolt: str | None = None, delays: Collection[Time] = ()) -> Steps:
    """The machine of the semantics that the topology names; ``bolt`` is the one under analysis, of `Literal`.

    >>> from pellucid.capacity import figure_1
    >>> type(machine_of(figure_1(gap=1))).__name__
    'Urgent'
    >>> type(machine_of(figure_1(gap=1).given(semantics="literal"), bolt="B2")).__name__
    'Literal'
    """
    from pellucid.capacity.steps.literal import Literal
    from pellucid.capacity.steps.urgent import Urgent

    if topology.semantics == "urgent":
        return Urgent(topology, delays=delays)
    if bolt is None:
        raise UsageError("the literal semantics is of one bolt under analysis: bolt= names it.")
    return Literal(topology, bolt, delays=delays)
