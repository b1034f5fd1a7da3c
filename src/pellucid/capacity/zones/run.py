"""A way as a run of the whole topology, with exact times, as `replay` accepts it.

The bolts that the search left out take, end and emit whenever they can: under the `urgent` semantics they must, and it
changes nothing upstream; under the `literal` one they need not do anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pellucid.capacity.steps import Literal, Replay, Step, Urgent, Worker, machine_of, replay
from pellucid.capacity.steps.machine import EMIT, EXECUTE, Situation, Steps
from pellucid.capacity.steps.step import Place
from pellucid.capacity.topology import Number, Observation, Topology, exact
from pellucid.capacity.zones.network import Network, Seen
from pellucid.capacity.zones.search import Zones
from pellucid.capacity.zones.way import Event, Way
from pellucid.internal.model import Run

WITHIN = Fraction(1, 100)


@dataclass(frozen=True)
class Trace:
    """A run that reaches a limit: ``steps`` with exact times.

    ``infimum`` is the least time that runs of the same steps approach; none attains it, unless it is 0.  It is not
    known (None) of a run that was not found by zones.
    """

    topology: Topology
    bolt: str
    limit: int
    observe: Seen
    steps: tuple[Step, ...]
    emits: int
    infimum: Fraction | None
    way: Way | None

    @property
    def duration(self) -> Fraction:
        """How long this run takes."""
        return sum((step.by or Fraction(0) for step in self.steps), Fraction(0))

    def replayed(self) -> Replay:
        """What the judge of all runs makes of it."""
        return replay(self.topology, self.steps, bolt=self.bolt)

    @property
    def confirmed(self) -> bool:
        """Whether the replay reaches the limit."""
        observe: Observation = "settled" if self.observe == "settled" else "any"
        return self.replayed().longest(self.bolt, observe) >= self.limit

    @property
    def why(self) -> str:
        """In words."""
        settled = "a settled queue" if self.observe == "settled" else "the queue"
        emits = f"{self.emits} emit{'' if self.emits == 1 else 's'} of the spouts"
        return f"{settled} of {self.bolt} reaches {self.limit} after {emits}"

    def run(self) -> Run:
        """As a counterexample."""
        delays = sorted({step.by for step in self.steps if step.by is not None})
        machine = machine_of(self.topology, bolt=self.bolt, delays=delays)
        return Run((), self.steps, None, self.why, machine)


def trace(found: Zones, *, within: Number = WITHIN) -> Trace:
    """The run that a search has found, its time less than ``within`` above the infimum.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> from pellucid.capacity.zones.search import search
    >>> t = Topology({"S": Spout(gap="0.4")}, {"B": Bolt(time=1, hears="S")})
    >>> shown = trace(search(Network.of(t, "B"), limit=2))
    >>> [str(step) for step in shown.steps]
    ['time_elapse 401/1000', 'spout_emit S → B', 'bolt_take B[0]', 'time_elapse 401/1000', 'spout_emit S → B',
     'time_elapse 401/1000', 'spout_emit S → B']
    >>> shown.infimum, shown.duration, shown.confirmed
    (Fraction(6, 5), Fraction(1203, 1000), True)
    """
    assert found.way is not None, "nothing was found"
    network = found.network
    way = Way(network, found.way, found.observe)
    times, infimum = way.moments.times(network.topology, exact(within, "within"))
    if network.topology.semantics == "literal":
        steps = _literally(network, way, times, found.observe)
    else:
        steps = _Urgently(network, way, times, found.observe).steps
    shown = Trace(network.topology, network.bolt, found.limit, found.observe, tuple(steps), way.emits, infimum, way)
    assert shown.confirmed, f"the replay does not confirm the run that zones have found: {shown.why}"
    return shown


def given_run(topology: Topology, bolt: str, limit: int, observe: Seen, steps: tuple[Step, ...]) -> Trace:
    """A run that somebody else has found."""
    emits = sum(step.action == "spout_emit" for step in steps)
    shown = Trace(topology, bolt, limit, observe, steps, emits, None, None)
    assert shown.confirmed, f"the replay does not confirm a run: {shown.why}"
    return shown


def _places(network: Network, event: Event) -> tuple[Place, ...]:
    """Where the tuples of an event go, those for bolts that were left out besides."""
    assert event.who is not None
    name = event.who if isinstance(event.who, str) else event.who[0]
    others = network.elsewhere(name)
    if network.topology.routing == "one":
        others = others[:1]
    return (*event.to, *(_first(network, b) for b in others for _ in range(event.away)))


def _first(network: Network, bolt: str) -> Place:
    return bolt if network.topology.bolts[bolt].queue == "shared" else Worker(bolt, 0)


class _Urgently:
    """The machine of the whole topology, driven by the events of a way."""

    def __init__(self, network: Network, way: Way, times: list[Fraction], observe: Seen) -> None:
        self.network, self.machine = network, Urgent(network.topology)
        self.at: Situation = self.machine.start()
        self.now, self.steps = Fraction(0), list[Step]()
        self.others = [w for w, worker in enumerate(self.machine.workers) if worker.bolt not in network.bolts]
        for event in way.events:
            self._pass(times[event.moment])
            if event.action == "spout_emit":
                self._rest()
            elif event.action == "bolt_emit" and not network.topology.listeners(event.who[0]):  # type: ignore[index]
                continue  # the end of a tuple in a final bolt is no step
            to = () if event.action == "bolt_take" else _places(network, event)
            self._do(Step(event.action, event.who, to))
        if observe == "settled":
            self._rest()

    def _do(self, step: Step) -> None:
        self.steps.append(step)
        self.at = self.machine.after(self.at, step)

    def _rest(self) -> None:
        """What the bolts that were left out can take and emit at this moment."""
        machine, done = self.machine, False
        while not done:
            done = True
            for w in self.others:
                worker = machine.workers[w]
                if self.at.status[w] == EMIT:
                    count = machine.due(self.at, machine.bolt_of[w])
                    self._do(Step("bolt_emit", worker, next(iter(machine.deliveries(worker.bolt, count)))))
                    done = False
                elif machine.can_take(self.at, w):
                    self._do(Step("bolt_take", worker))
                    done = False

    def _pass(self, time: Fraction) -> None:
        """Let time pass, with what the other bolts do meanwhile."""
        while self.now < time:
            self._rest()
            left = [Fraction(self.at.left[w]) for w in self.others if self.at.status[w] == EXECUTE]
            by = min([time - self.now, *left])
            self._do(Step("time_elapse", by=by))
            self.now += by


def _literally(network: Network, way: Way, times: list[Fraction], observe: Seen) -> list[Step]:
    """The steps as they are; for a settled state the bolts that were left out take and emit in the end."""
    steps, now = list[Step](), Fraction(0)
    for event in way.events:
        if event.action == "time_elapse":
            steps.append(Step("time_elapse", by=times[event.moment] - now))
            now = times[event.moment]
        elif event.action in ("spout_emit", "bolt_emit"):
            steps.append(Step(event.action, event.who, _places(network, event)))
        else:
            steps.append(Step(event.action, event.who))
    if observe == "settled":
        machine: Steps = Literal(network.topology, network.bolt)
        at = machine.start()
        for step in steps:
            at = machine.after(at, step)
        while not machine.settled(at):
            found = next(
                (step, then) for step, then in machine.steps(at)
                if step.who is None or (isinstance(step.who, tuple) and step.who[0] not in network.bolts)
            )  # fmt: skip
            steps.append(found[0])
            at = found[1]
    return steps
