"""What can happen, as values with the paper's names."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, combinations_with_replacement, product
from typing import Any, Final, NamedTuple, TypeAlias

from pellucid.capacity.topology import ANY, Observation, Topology
from pellucid.errors import UsageError
from pellucid.internal.model import Run, on_time

__all__ = [
    "Flags",
    "Literal",
    "Replay",
    "Situation",
    "Step",
    "Steps",
    "Urgent",
    "Worker",
    "machine_of",
    "replay",
]

SYSTEM: Final = ("spout_emit", "bolt_emit", "bolt_take", "time_elapse")
FLAGS: Final = (
    "setDoTake_T", "setDoTake_F1", "setDoTake_F2", "setDoTake_F2a", "setDoEmit_T", "setDoEmit_F1", "setDoEmit_F1a",
)  # fmt: skip


class Worker(NamedTuple):
    """A worker of a bolt, counted from 0; it equals the plain pair.

    >>> str(Worker("B1", 0)), Worker("B1", 0) == ("B1", 0)
    ('B1[0]', True)
    """

    bolt: str
    number: int

    def __str__(self) -> str:
        return f"{self.bolt}[{self.number}]"


Place: TypeAlias = "str | Worker"  # a queue: a bolt's name if its workers share it, else one of its workers


class Step(NamedTuple):
    """One step: what, who does it, which queues get a tuple, by how much time passes.

    ``to`` has an entry for each tuple that is put into a queue, in any order.

    >>> print(Step("spout_emit", "S1", ("B1",)))
    spout_emit S1 → B1
    >>> print(Step("bolt_take", Worker("B1", 0)))
    bolt_take B1[0]
    >>> print(Step("bolt_emit", Worker("B1", 0), ("B3", "B3")))
    bolt_emit B1[0] → B3, B3
    >>> print(Step("time_elapse", by=Fraction(9, 10)))
    time_elapse 9/10
    """

    action: str
    who: Place | None = None
    to: tuple[Place, ...] = ()
    by: Fraction | None = None

    def __str__(self) -> str:
        text = self.action
        if self.who is not None:
            text += f" {named(self.who)}"
        if self.action in ("spout_emit", "bolt_emit"):
            text += f" → {', '.join(map(named, self.to)) or 'none'}"
        if self.by is not None:
            text += f" {self.by}"
        return text


def named(place: Place) -> str:
    """A bolt, a spout or a worker as it is written.

    >>> named("S1"), named(("B1", 2))
    ('S1', 'B1[2]')
    """
    return place if isinstance(place, str) else str(Worker(*place))


# What both semantics have in common: the arrays of the paper, who may be given a tuple, what a step changes.
#
# The arrays have one entry after another here, in the order of the topology:  ``stime`` for each spout, ``lengths``
# (the paper's *L*) for each queue, ``status`` (*B*:  ``I`` idle, ``X`` executing, ``E`` about to emit) and ``left``
# (*P*, as the time that is left of the tuple) for each worker.  ``owed`` is what a bolt has earned by its ratio so far.
# The global time *T* has no influence on anything:  `replay` counts it.
#
# What is enabled is decided by `why_not` alone, and what it changes by `after` alone; `steps` offers whatever `why_not`
# does not object to.

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
        """All workers are idle, no time has passed; queues hold what they hold initially."""
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
        """How many tuples a bolt emits if one of its workers emits now."""
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
        """What is wrong with a step wherever it comes: an action, or a worker or spout that is not there."""
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
                return f"{name} emits {count} here, each to one of those who hear it, and not {len(to)}"
            return None
        for group in heard:
            got = sum(place in group for place in to)
            if got != count:
                bolt = group[0] if isinstance(group[0], str) else group[0][0]
                return f"{name} emits {count} here, with a copy for each who hears it: {bolt} gets {got}"
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

    if topology.semantics == "urgent":
        return Urgent(topology, delays=delays)
    if bolt is None:
        raise UsageError("the literal semantics is of one bolt under analysis: bolt= names it.")
    return Literal(topology, bolt, delays=delays)


# The literal semantics: the transitions of the paper's appendix as they are printed, for any topology.
#
# Only one bolt is *under analysis* (the paper's bolt 1): its takes and emits come before those of spouts, by flags that
# are set again after every step, *DoTake* first, then *DoEmit*, then the system may go on (*SetFlags* = DT, DE, No).
# The other bolts take and emit when they like.  Time may pass whenever *CanTimeElapse* is true, whatever the flags say
# and beyond the end of tuples, but not twice in a row.  Transitions that set a flag to false because no worker is idle
# (or emits) come twice, as in the paper:  ``…F2``, ``…F1`` for several workers, ``…F2a``, ``…F1a`` for one.


class Flags(NamedTuple):
    """*CanTimeElapse*, *DoTake*, *DoEmit* and *SetFlags*, as they are initially (4)."""

    can_time_elapse: bool = True
    do_take: bool = False
    do_emit: bool = False
    set_flags: str = "No"


class Literal(Steps):
    """The machine of the literal semantics, with a bolt under analysis.

    >>> from pellucid.capacity import figure_1
    >>> machine = Literal(figure_1(gap="0.8"), "B1", delays=["9/10"])
    >>> [str(step) for step, _ in machine.steps(machine.start())]
    ['time_elapse 9/10']
    >>> ((_, at),) = machine.steps(machine.start())
    >>> [str(step) for step, _ in machine.steps(at)]
    ['setDoTake_F1']
    """

    def __init__(self, topology: Topology, bolt: str, *, delays: Collection[Time] = ()) -> None:
        topology.bolt(bolt)
        super().__init__(topology, delays=delays)
        self.bolt = bolt
        self.mine = [w for w, worker in enumerate(self.workers) if worker.bolt == bolt]

    def start(self) -> Situation:
        """The initial state (4), (5)."""
        return super().start()._replace(flags=Flags())

    def thinkable(self, at: Situation) -> Iterator[Step]:
        """Steps of which some are possible."""
        yield from super().thinkable(at)
        for action in FLAGS:
            yield Step(action)

    def why_not(self, at: Situation, step: Step) -> str | None:
        """Why a step is not possible, by its guard as printed; None if it is."""
        wrong = self.unnamed(step)
        if wrong is not None:
            return wrong
        flags: Flags = at.flags
        if step.action == "time_elapse":  # (13)
            return None if flags.can_time_elapse else "CanTimeElapse is false"
        if step.action in FLAGS:  # (6) to (9), and those of DoEmit
            return self._flag(at, step.action)
        if flags.set_flags != "No":
            return f"SetFlags is {flags.set_flags}: the flags are set first"
        if step.action == "spout_emit":  # (10)
            assert isinstance(step.who, str)
            s = self.spouts[step.who]
            if not self.hears[step.who]:
                return "it has no listeners"
            if at.stime[s] <= self.gap[s]:
                return f"Stime is {at.stime[s]}, and it needs more than {self.gap[s]}"
            if flags.do_take or flags.do_emit:
                return f"{'DoTake' if flags.do_take else 'DoEmit'} is true"
            return self.misdelivered(step.who, step.to, 1)
        w = self.worker[step.who]  # type: ignore[index]
        analysed = self.workers[w].bolt == self.bolt
        if step.action == "bolt_emit":  # (11)
            if at.status[w] != EMIT:
                return f"its state is {at.status[w]}, not E"
            if analysed and not flags.do_emit:
                return "DoEmit is false"
            return self.misdelivered(self.workers[w].bolt, step.to, self.due(at, self.bolt_of[w]))
        if at.status[w] != IDLE:  # bolt_take (12)
            return f"its state is {at.status[w]}, not I"
        if at.lengths[self.queue_of[w]] < 1:
            return "its queue is empty"
        return "DoTake is false" if analysed and not flags.do_take else None

    def _flag(self, at: Situation, action: str) -> str | None:
        expected = "DT" if action.startswith("setDoTake") else "DE"
        if at.flags.set_flags != expected:
            return f"SetFlags is {at.flags.set_flags}, not {expected}"
        waiting = any(at.lengths[self.queue_of[w]] > 0 for w in self.mine)
        takes = any(self.can_take(at, w) for w in self.mine)
        emits = any(at.status[w] == EMIT for w in self.mine)
        several = len(self.mine) > 1
        guards = {
            "setDoTake_T": (takes, "no worker is idle with a tuple in its queue"),
            "setDoTake_F1": (not waiting, "the queue is not empty"),
            "setDoTake_F2": (waiting and not takes and several, "it is for several workers, none of them idle"),
            "setDoTake_F2a": (waiting and not takes and not several, "it is for one worker that is not idle"),
            "setDoEmit_T": (emits, "no worker is in state E"),
            "setDoEmit_F1": (not emits and several, "it is for several workers, none of them in state E"),
            "setDoEmit_F1a": (not emits and not several, "it is for one worker that is not in state E"),
        }
        holds, why = guards[action]
        return None if holds else why

    def after(self, at: Situation, step: Step) -> Situation:
        """What comes after a step that is possible."""
        flags: Flags = at.flags
        if step.action.startswith("setDoTake"):
            return at._replace(flags=flags._replace(do_take=step.action == "setDoTake_T", set_flags="DE"))
        if step.action.startswith("setDoEmit"):
            return at._replace(flags=flags._replace(do_emit=step.action == "setDoEmit_T", set_flags="No"))
        then = super().after(at, step)
        return then._replace(flags=flags._replace(can_time_elapse=step.action != "time_elapse", set_flags="DT"))


# The urgent semantics: a worker that can take or emit does so before time passes and before any spout emits.
#
# It differs from the paper's in what the paper says that it means: takes and emits of *all* bolts are urgent (section
# 4.1), time does not pass beyond the end of a tuple, and there is no *CanTimeElapse*, with which a final bolt that ends
# on an empty queue would stop the world.


class Urgent(Steps):
    """The machine of the urgent semantics.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> machine = Urgent(Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S", initial=1)}), delays=[1, 2])
    >>> at = machine.start()
    >>> [str(step) for step, _ in machine.steps(at)]
    ['bolt_take B[0]']
    >>> ((_, at),) = machine.steps(at)
    >>> [str(step) for step, _ in machine.steps(at)]  # 2 would be beyond the end of the tuple
    ['time_elapse 1']
    >>> machine.why_not(at, Step("spout_emit", "S", ("B",)))
    'only 0 has passed since the last emit, and it needs more than 1'
    """

    def why_not(self, at: Situation, step: Step) -> str | None:
        """Why a step is not possible; None if it is."""
        wrong = self.unnamed(step)
        if wrong is not None:
            return wrong
        if step.action == "spout_emit":
            assert isinstance(step.who, str)
            s = self.spouts[step.who]
            if not self.hears[step.who]:
                return "it has no listeners"
            if at.stime[s] <= self.gap[s]:
                return f"only {at.stime[s]} has passed since the last emit, and it needs more than {self.gap[s]}"
            return self._urgent(at) or self.misdelivered(step.who, step.to, 1)
        if step.action == "bolt_take":
            w = self.worker[step.who]  # type: ignore[index]
            if at.status[w] != IDLE:
                return f"it {_DOES[at.status[w]]}"
            if at.lengths[self.queue_of[w]] < 1:
                return "its queue is empty"
            return None
        if step.action == "bolt_emit":
            w = self.worker[step.who]  # type: ignore[index]
            if at.status[w] != EMIT:
                return f"it {_DOES[at.status[w]]}"
            b = self.bolt_of[w]
            return self.misdelivered(self.workers[w].bolt, step.to, self.due(at, b))
        if step.action in FLAGS:
            return "it is a step of the literal semantics"
        assert step.by is not None
        for w, status in enumerate(at.status):
            if status == EXECUTE and at.left[w] < step.by:
                return f"{self.workers[w]} ends its tuple in {at.left[w]}"
        return self._urgent(at)

    def _urgent(self, at: Situation) -> str | None:
        w = self.acts(at)
        if w is None:
            return None
        return f"{named(self.workers[w])} can {'emit' if at.status[w] == EMIT else 'take'}, which comes first"


_DOES = {IDLE: "is idle", EXECUTE: "executes a tuple", EMIT: "has to emit first"}


# The judge: a run is what its steps make of it, one after the other, or it is refused at the first that is wrong.


@dataclass(frozen=True)
class Replay:
    """What happened: ``situations`` and ``times`` have one entry more than ``steps``, for the beginning."""

    topology: Topology
    steps: tuple[Step, ...]
    situations: tuple[Situation, ...]
    times: tuple[Fraction, ...]
    machine: Steps = field(repr=False, compare=False)

    def lengths(self, bolt: str) -> list[int]:
        """The queue of a bolt in every state; if each worker has one, the longest of them."""
        self.topology.bolt(bolt)
        return [self.machine.length(at, bolt) for at in self.situations]

    def settled(self) -> list[bool]:
        """Of which states the takes and emits of that instant are done."""
        return [self.machine.settled(at) for at in self.situations]

    def longest(self, bolt: str, observe: Observation | None = None) -> int:
        """How long the queue of a bolt got, in any state or in a settled one; as the topology says, unless told.

        >>> from pellucid.capacity import Bolt, Spout, Topology, replay
        >>> t = Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S")})
        >>> r = replay(t, [Step("time_elapse", by=Fraction(3, 2)), Step("spout_emit", "S", ("B",)),
        ...                Step("bolt_take", Worker("B", 0))])
        >>> r.longest("B"), r.longest("B", "settled")
        (1, 0)
        """
        observe = observe or self.topology.observe
        lengths = self.lengths(bolt)
        if observe == "any":
            return max(lengths)
        return max((n for n, settled in zip(lengths, self.settled(), strict=True) if settled), default=0)

    def busy(self) -> dict[Worker, list[tuple[Fraction, Fraction]]]:
        """For each worker, from when to when it has a tuple in hand; the last may end after the run does."""
        found: dict[Worker, list[tuple[Fraction, Fraction]]] = {w: [] for w in self.machine.workers}
        for step, at in zip(self.steps, self.times, strict=False):
            if step.action == "bolt_take":
                worker = Worker(*step.who)  # type: ignore[misc]
                found[worker].append((at, at + self.topology.bolts[worker.bolt].time))
        return found

    def counterexample(self, why: str = "") -> Run:
        """The run with a table, a picture, a document and a replay of its own, as every counterexample has them.

        >>> from pellucid.capacity import Bolt, Spout, Topology, replay
        >>> t = Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S")})
        >>> run = replay(t, [Step("time_elapse", by=Fraction(3, 2)), Step("spout_emit", "S", ("B",))])
        >>> print(run.counterexample("the queue is not empty"))
        step        0                1
                    time_elapse 3/2  spout_emit S → B
        queue of B                   1
        B[0]
                                     ^ the queue is not empty
        """
        bolt = getattr(self.machine, "bolt", None)
        delays = sorted({step.by for step in self.steps if step.by is not None})
        machine = machine_of(self.topology, bolt=bolt, delays=delays)
        order = machine.place
        steps = tuple(
            step._replace(
                who=step.who if step.who is None or isinstance(step.who, str) else Worker(*step.who),
                to=tuple(sorted(step.to, key=lambda place: order[place])),
            )
            for step in self.steps
        )
        return Run((), steps, None, why, machine)

    @property
    def emits(self) -> int:
        """How many tuples the spouts have emitted."""
        return sum(step.action == "spout_emit" for step in self.steps)


def replay(topology: Topology, steps: Iterable[Step], *, bolt: str | None = None) -> Replay:
    """Apply steps one by one; the first that is not possible is refused.

    ``bolt`` is the bolt under analysis, which the literal semantics needs.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> t = Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S")})
    >>> wait = Step("time_elapse", by=Fraction(3, 2))
    >>> r = replay(t, [wait, Step("spout_emit", "S", ("B",)), Step("bolt_take", Worker("B", 0))])
    >>> r.lengths("B"), r.times[-1], r.busy()[Worker("B", 0)]
    ([0, 0, 1, 0], Fraction(3, 2), [(Fraction(3, 2), Fraction(5, 2))])
    >>> replay(t, [wait, Step("spout_emit", "S", ("B",)), wait])
    Traceback (most recent call last):
        ...
    pellucid.errors.UsageError: step 2 (time_elapse 3/2) is not possible at time 3/2: B[0] can take, which comes first.
    """
    machine = machine_of(topology, bolt=bolt)
    done: list[Step] = []
    path, times = [machine.start()], [Fraction(0)]
    for i, step in enumerate(steps):
        why = machine.why_not(path[-1], step)
        if why is not None:
            raise UsageError(f"step {i} ({step}) is not possible at time {times[-1]}: {why}.")
        done.append(step)
        path.append(machine.after(path[-1], step))
        times.append(times[-1] + (step.by or 0))
    return Replay(topology, tuple(done), tuple(path), tuple(times), machine)
