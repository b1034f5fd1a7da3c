"""Models that show what the hypotheses are for: several workers that tell one another of their steps, and what the
specifications of two graphs say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple

from pellucid.internal.model import Budget, CutShort, Machine, Run, Search, Verdict
from pellucid.progress import Antichain, Builder, Graph, Location, PathSummaries, Semantics
from pellucid.progress.could_result_in import Relation
from pellucid.progress.reachability import arcs_of
from pellucid.progress.semantics import Action, Inp, Mess, Not, Outp, Situation
from pellucid.progress.times import Time

Stamp = tuple[Location, Time]
Change = tuple[Stamp, int]


# ---------------------------------------------------------------- variants of the machine


class OneStepClock(Semantics):
    """Its clock is the image of the pointstamps under could-result-in, which Proposition 3 says the closure is."""

    def __init__(self, graph: Graph, relation: Relation, **more: Any) -> None:
        super().__init__(graph, relation, **more)
        self.rows = relation.rows


class WithoutTest(Semantics):
    """`Not` does not look at the clock."""

    def not1(self, at: Situation, p: str, clock: int) -> Iterator[tuple[Not, Situation]]:
        return super().not1(at, p, 0)


class WithoutTestOneStep(WithoutTest, OneStepClock):
    """Both."""


# ---------------------------------------------------------------- all runs of a few workers


class World(NamedTuple):
    """A state: what is there, what each worker has counted, and what is under way from one to another."""

    there: frozenset[tuple[Stamp, int]]
    views: tuple[frozenset[tuple[Stamp, int]], ...]
    channels: tuple[tuple[tuple[Change, ...], ...], ...]  # from worker i to worker j, at i * workers + j
    steps: int


Telling = Literal["together", "increases first", "decreases first"]


class Views:
    """A few workers on a graph, as a machine: any of them may use up a pointstamp that is there and make up to two that
    it could result in, and tells the others.

    ``telling``: how the changes of a step go out, in one piece or in two; ``founded``: whether each pointstamp that is
    made needs one that is used up (if not, a worker may make one at its frontier); ``fifo``: whether channels keep
    their order.
    """

    def __init__(
        self,
        graph: Builder,
        start: Iterable[Stamp],
        *,
        workers: int = 2,
        steps: int = 2,
        telling: Telling = "together",
        founded: bool = True,
        fifo: bool = True,
    ) -> None:
        self.arcs = arcs_of(graph)
        self.paths = PathSummaries(self.arcs)
        self.first = Counter(start)
        self.workers, self.most, self.telling, self.founded, self.fifo = workers, steps, telling, founded, fifo
        self._fronts: dict[frozenset[tuple[Stamp, int]], dict[Location, Antichain]] = {}

    def start(self) -> World:
        known = frozenset(self.first.items())
        return World(known, (known,) * self.workers, ((),) * self.workers**2, 0)

    def steps(self, at: World, *, failures: bool = True) -> Iterator[tuple[str, World]]:
        for n, channel in enumerate(at.channels):
            teller, hearer = divmod(n, self.workers)
            for k in range(len(channel) if not self.fifo else min(1, len(channel))):
                views = tuple(_plus(v, channel[k]) if j == hearer else v for j, v in enumerate(at.views))
                rest = (*at.channels[:n], channel[:k] + channel[k + 1 :], *at.channels[n + 1 :])
                yield (
                    f"worker {hearer} hears of worker {teller}: {_words(channel[k])}",
                    World(at.there, views, rest, at.steps),
                )
        if at.steps < self.most:
            for changes in self._acts(at):
                for worker in range(self.workers):
                    yield f"worker {worker}: {_words(changes)}", self._told(at, worker, changes)
            if not self.founded:
                for worker in range(self.workers):
                    for place, front in self.frontiers(at.views[worker]).items():
                        for time in front if place.is_source else ():
                            made: tuple[Change, ...] = (((place, time), 1),)
                            yield f"worker {worker}: {_words(made)} from its frontier", self._told(at, worker, made)

    def _acts(self, at: World) -> Iterator[tuple[Change, ...]]:
        for stamp, count in sorted(at.there, key=str):
            if count > 0:
                leads = self._after(*stamp)
                for size in range(min(2, len(leads)) + 1):
                    for made in combinations(leads, size):
                        yield ((stamp, -1), *((one, 1) for one in made))

    def _after(self, place: Location, time: Time) -> list[Stamp]:
        n = self.arcs.at[place]
        found = [(self.arcs.places[there], way.results_in(time)) for there, way in self.arcs.ways[n]]
        if place.is_source and isinstance(time, int):
            found.append((place, time + 1))  # it keeps the right to send later
        return [stamp for stamp in found if stamp[1] is not None]

    def _told(self, at: World, worker: int, changes: tuple[Change, ...]) -> World:
        parts = [changes]
        if self.telling != "together":
            made, used = (tuple(c for c in changes if (c[1] > 0) is up) for up in (True, False))
            parts = [part for part in ((made, used) if self.telling == "increases first" else (used, made)) if part]
        channels = tuple(
            (*channel, *parts) if n // self.workers == worker != n % self.workers else channel
            for n, channel in enumerate(at.channels)
        )
        views = tuple(_plus(v, changes) if j == worker else v for j, v in enumerate(at.views))
        return World(_plus(at.there, changes), views, channels, at.steps + 1)

    def frontiers(self, counts: frozenset[tuple[Stamp, int]]) -> dict[Location, Antichain]:
        """What these counts could still lead to, at each location."""
        if counts not in self._fronts:
            found = {place: Antichain() for place in self.arcs.places}
            for (place, time), count in counts:
                for there, labels in self.paths.labels(self.arcs.at[place]).items() if count > 0 else ():
                    ends = (label.summary.results_in(time) for label in labels)
                    found[self.arcs.places[there]].extend(end for end in ends if end is not None)
            self._fronts[counts] = found
        return self._fronts[counts]

    def ahead(self, at: World) -> str:
        """Which worker is ahead of the clock, and where; empty if none is."""
        truth = self.frontiers(at.there)
        for worker, view in enumerate(at.views):
            seen = self.frontiers(view)
            for place, front in truth.items():
                for time in front:
                    if not seen[place].less_equal(time):
                        return f"worker {worker} has let {time!r} pass at {place}, where it may still come"
        return ""

    def see(self, at: World) -> Mapping[str, Hashable]:
        row = {"there": _words(sorted(at.there, key=str))}
        return row | {f"worker {n} counts": _words(sorted(view, key=str)) for n, view in enumerate(at.views)}

    def complete(self, at: World) -> bool:
        return not any(at.channels)


def _plus(counts: frozenset[tuple[Stamp, int]], changes: Iterable[Change]) -> frozenset[tuple[Stamp, int]]:
    net = Counter(dict(counts))
    for stamp, diff in changes:
        net[stamp] += diff
    return frozenset((stamp, count) for stamp, count in net.items() if count)


def _words(changes: Iterable[Change]) -> str:
    return " ".join(f"{diff:+d}({place}, {time!r})" for (place, time), diff in changes) or "nothing"


def never_ahead(views: Views, *, max_states: int | None = None) -> Verdict:
    """Whether in all runs no worker is ever ahead of the clock, and all agree with it when they have heard everything;
    the shortest run that shows otherwise."""
    question = f"no view is ahead, {views.telling}"
    bound = f"runs of {views.workers} workers with at most {views.most} steps"
    search: Search[Any, str] = Search([views.start()], views.steps, Budget(max_states=max_states))

    def answer(status: Any, **more: Any) -> Verdict:
        return Verdict(status, question, "explicit", 0.0, **more)

    try:
        for state, _ in search:
            why = views.ahead(state)
            if not why and views.complete(state) and any(view != state.there for view in state.views):
                why = "all is heard, and the views differ"
            if why:
                return answer("refuted", counterexample=Run((), tuple(search.way(state)), None, why, views))
    except CutShort as short:
        return answer("unknown", notes=(str(short),))
    return answer("bounded", details={"states": len(search.parents)}, bound=bound)


# ---------------------------------------------------------------- Spec₁₂ (section 4.3)


class Both(NamedTuple):
    """A step of the first graph and one of the second, at once; None where one does nothing."""

    first: Action | None
    second: Action | None

    def __str__(self) -> str:
        return " & ".join(str(label) for label in self if label is not None)


class Spec12(Semantics):
    """Spec₁ ∧ Spec₂ ∧ □[¬(Acts₁ ∧ Acts₂)], with the clock of the whole graph for both.

    It is a machine over the situations of the whole graph.  ``parts`` are the two graphs.
    """

    def __init__(self, parts: tuple[Graph, Graph], relation: Relation, **more: Any) -> None:
        super().__init__(relation.graph, relation, **more)
        self.parts = parts
        self.between = frozenset(set(parts[0].edges) & set(parts[1].edges))

    def steps(self, at: Situation | None, *, failures: bool = True) -> Iterator[tuple[Any, Situation]]:
        """All joint steps, except those in which neither does anything."""
        if at is None:
            yield from super().steps(at)
            return
        first, second = (list(self._of(at, part)) for part in self.parts)
        for (one, a), (two, b) in ((x, y) for x in first for y in second):
            if one is None and two is None:
                continue
            then = self._joined(at, one, a, two, b)
            if then is not None:
                yield Both(one, two), then

    def _of(self, at: Situation, part: Graph) -> Iterator[tuple[Action | None, Situation]]:
        """What one graph can do by itself, as far as the edges go that it does not share; and nothing."""
        yield None, at
        for label, then in self.acts(at):
            if label.node in part.nodes:
                yield label, then
        if at.arrivals:
            yield from self.inp(at, [e for e in part.inputs if e not in self.between])
        if self.take:
            yield from self.outp(at, [e for e in part.outputs if e not in self.between])

    def _joined(
        self, at: Situation, one: Action | None, a: Situation, two: Action | None, b: Situation
    ) -> Situation | None:
        """Both steps at once, if each graph can see it as one step of its own and not both act."""
        for graph, label, then, others in ((self.parts[1], two, a, one), (self.parts[0], one, b, two)):
            if isinstance(others, Mess | Not) and not self._seen_as_one(at, then, graph, label):
                return None
        if self._acts(at, a, self.parts[0], one) and self._acts(at, b, self.parts[1], two):
            return None
        arrivals = at.arrivals - (at.arrivals - a.arrivals) - (at.arrivals - b.arrivals)
        if arrivals < 0:
            return None
        return Situation(
            tuple(y if y != x else z for x, y, z in zip(at.queues, a.queues, b.queues, strict=True)),
            tuple(
                x if p in self.parts[0].nodes else y for p, x, y in zip(self.graph.nodes, a.local, b.local, strict=True)
            ),
            tuple(
                x if p in self.parts[0].nodes else y
                for p, x, y in zip(self.graph.nodes, a.requests, b.requests, strict=True)
            ),
            arrivals,
        )

    def _seen_as_one(self, at: Situation, then: Situation, graph: Graph, label: Action | None) -> bool:
        """What the other graph did to the shared edges, together with this one's own step, is one step of this graph:
        Inp if its inputs got longer, Outp if its outputs got shorter, anything if they stayed."""
        changed = {e for e in self.between if at.queues[self.edge[e]] != then.queues[self.edge[e]]}
        if not changed:
            return True
        if changed <= set(graph.inputs):
            return label is None or isinstance(label, Inp)
        if changed <= set(graph.outputs):
            return label is None or isinstance(label, Outp)
        return False

    def _acts(self, at: Situation, then: Situation, graph: Graph, label: Action | None) -> bool:
        """Acts_j: an input edge got shorter, or an output edge longer."""
        if not isinstance(label, Mess | Not):
            return False
        length = [
            (len(at.queues[self.edge[e]]), len(then.queues[self.edge[e]])) for e in (*graph.inputs, *graph.outputs)
        ]
        inputs = len(graph.inputs)
        return any(b < a for a, b in length[:inputs]) or any(b > a for a, b in length[inputs:])


@dataclass(frozen=True)
class Difference:
    """A sequence of visible states that one machine has and the other has not: ``only`` says which, ``labels`` are its
    steps there."""

    only: int  # 0 or 1
    seen: tuple[Any, ...]
    labels: tuple[Any, ...]


def visible_difference(one: Machine, other: Machine, budget: Budget | None = None) -> Difference | None:
    """A shortest externally visible behaviour, without stuttering, that only one of two machines has; None if they show
    the same.

    Goes through the sets of states in which each can be after what was seen so far.
    """
    budget = budget or Budget(None, 200_000)
    machines = (one, other)
    first = tuple(_still(m, {m.start(): ()}, budget) for m in machines)
    waiting: list[tuple[tuple[dict[Any, Any], dict[Any, Any]], tuple[Any, ...]]] = [((first[0], first[1]), ())]
    known = {(frozenset(first[0]), frozenset(first[1]))}
    for pair, seen in waiting:  # it grows meanwhile
        budget.look(len(known), len(waiting))
        after = tuple(_next(m, states) for m, states in zip(machines, pair, strict=True))
        for view in dict.fromkeys([*after[0], *after[1]]):
            for i in (0, 1):
                if view not in after[1 - i]:
                    labels = next(iter(after[i][view].values()))
                    return Difference(i, (*seen, view), labels)
            both = tuple(_still(m, found[view], budget) for m, found in zip(machines, after, strict=True))
            key = frozenset(both[0]), frozenset(both[1])
            if key not in known:
                known.add(key)
                waiting.append(((both[0], both[1]), (*seen, view)))
    return None


def _still(machine: Machine, states: dict[Any, Any], budget: Budget) -> dict[Any, Any]:
    """All states that are reached without anything to be seen, each with the labels that led there."""
    found, waiting = dict(states), list(states)
    for at in waiting:
        for label, then in machine.steps(at):
            if then not in found and machine.see(then) == machine.see(at):
                found[then] = (*found[at], label)
                waiting.append(then)
    return found


def _next(machine: Machine, states: dict[Any, Any]) -> dict[Any, dict[Any, Any]]:
    """By what is seen then: the states after one more visible step."""
    found: dict[Any, dict[Any, Any]] = {}
    for at, labels in states.items():
        for label, then in machine.steps(at):
            view = machine.see(then)
            if view != machine.see(at):
                found.setdefault(view, {}).setdefault(then, (*labels, label))
    return found
