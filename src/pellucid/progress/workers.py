"""The clock of several workers: each has a view of its own, from what the others broadcast.

No worker sees all pointstamps.  Each tells the others of every step it takes: which pointstamps it used up, which it
made. A message takes its time, and what one worker says may come before what another one said earlier; so a view lags
behind and may even count below zero.  It is never *ahead* (it never lets a time pass that some pointstamp could still
lead to) if

1. the changes of a step go out in one broadcast; or, over channels that keep their order, the increases before the
   decreases; and
2. each pointstamp that a step makes is strictly after one that the same step uses up: something that could result
   in it.

`Worker.commit` refuses a step that breaks the second.  `Views` is a small world of workers in which either can be
dropped; `never_ahead` goes through all its runs, and finds the shortest one that shows why it is needed.
"""

from __future__ import annotations

import time as clocks
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any, Literal, NamedTuple, get_args

from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort, Run, Search, Verdict
from pellucid.progress.antichain import Antichain, ChangeBatch
from pellucid.progress.builder import Arcs, Builder, Location, arcs_of
from pellucid.progress.given import hashed, several, whole
from pellucid.progress.paths import PathSummaries
from pellucid.progress.times import Time
from pellucid.progress.tracker import Tracker

Stamp = tuple[Location, Time]
Change = tuple[Stamp, int]


class Worker:
    """One worker's view.  A step is `update` (or what an `Operator` does), then `commit`, whose changes are for all the
    others to `hear`; a worker has heard its own steps.

    >>> from pellucid.progress import Source, Target
    >>> graph = Builder(); graph.add_node("read", 0, 1, []); graph.add_node("count", 1, 0, [[]])
    >>> graph.add_edge(Source("read"), Target("count"))
    >>> one, two = (Worker(graph, [((Source("read"), 0), 1)]) for _ in range(2))
    >>> one.update(Source("read"), 0, -1); one.update(Target("count"), 0, 1); told = one.commit()
    >>> one.frontier(Source("read")), two.frontier(Source("read"))
    (Antichain([]), Antichain([0]))
    >>> two.hear(told); two.frontier(Source("read")), two.frontier(Target("count"))
    (Antichain([]), Antichain([0]))
    >>> two.update(Source("read"), 5, 1); two.commit()
    Traceback (most recent call last):
    pellucid.errors.UsageError: a step makes (read.out0, 5) out of nothing: it uses ...
    """

    def __init__(self, graph: Builder | Arcs, start: Iterable[Change] = (), mode: str = "auto") -> None:
        """``start``: the pointstamps with which all workers begin, known to all."""
        from pellucid.progress.tracker import tracker

        self.arcs = arcs_of(graph)
        self.paths = PathSummaries(self.arcs)
        self.view: Tracker = tracker(self.arcs, mode)
        self.step = ChangeBatch()
        self.view.update_iter(start)
        self.view.propagate_all()

    def update(self, location: Location, time: Time, diff: int) -> None:
        """A change in the step that is being taken."""
        at = self.arcs.at.get(location) if hashed(location) else None
        if at is None:
            raise UsageError(f"{location!s} is not in the graph")
        self.arcs.check(at, time)
        self.step.update((location, time), diff)

    def commit(self) -> list[Change]:
        """The step is taken: what is to be told to the others, in one piece."""
        changes = self.step.drain()
        unfounded = next(from_nothing(self.paths, changes), None)
        if unfounded is not None:
            location, time = unfounded
            raise UsageError(
                f"a step makes ({location}, {time!r}) out of nothing: it uses up no pointstamp that could result in "
                "it; a worker that hears of it late would be ahead of the clock until then"
            )
        self.hear(changes)
        return changes

    def hear(self, changes: Iterable[Change]) -> None:
        """What another worker told, all of one step."""
        self.view.update_iter(changes)
        self.view.propagate_all()

    def frontier(self, location: Location) -> Antichain:
        """What may still come to a location, as far as this worker knows."""
        return self.view.frontier(location)


def from_nothing(paths: PathSummaries, changes: Iterable[Change]) -> Iterator[Stamp]:
    """The pointstamps that a step makes and that are not strictly after one that it uses up.

    >>> from pellucid.progress import Source, Target
    >>> graph = Builder(); graph.add_node(0, 1, 1, [[0]])
    >>> step = [((Target(0), 3), -1), ((Source(0), 3), 1), ((Source(0), 2), 1)]
    >>> [(str(at), time) for at, time in from_nothing(PathSummaries(graph), step)]
    [('0.out0', 2)]
    """
    known = ChangeBatch(changes).into_inner()  # changes of one pointstamp are one change: what is used is not made
    used = [stamp for stamp, diff in known if diff < 0]
    for (location, time), diff in known:
        if diff > 0 and not any(paths.could_result_in(at, t, location, time) is not None for at, t in used):
            yield location, time


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
        for stamp in (known := several(start, "start=", "[(Source('read'), 0)]")):
            if not isinstance(stamp, tuple) or len(stamp) != 2 or not hashed(stamp) or stamp[0] not in self.arcs.at:
                raise UsageError(f"start=: {stamp!r} is no pointstamp of the graph: give pairs (Source('read'), 0)")
            self.arcs.check(self.arcs.at[stamp[0]], stamp[1])
        for given, name, least in ((workers, "workers=", 1), (steps, "steps=", 0)):
            whole(given, name, least)
        if telling not in get_args(Telling):
            raise UsageError(f"telling={telling!r}: one of {', '.join(get_args(Telling))} is known")
        self.first = Counter(known)
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
            from pellucid.progress.tracker import Literal as Anew

            literal = Anew(self.arcs)
            literal.update_iter(counts)
            literal.propagate_all()
            self._fronts[counts] = {place: literal.frontier(place) for place in self.arcs.places}
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
    the shortest run that shows otherwise.

    >>> from pellucid.progress import Source, Target
    >>> graph = Builder(); graph.add_node("read", 0, 1, []); graph.add_node("count", 1, 0, [[]])
    >>> graph.add_edge(Source("read"), Target("count"))
    >>> never_ahead(Views(graph, [(Source("read"), 0)])).bound
    'runs of 2 workers with at most 2 steps'
    >>> print(never_ahead(Views(graph, [(Source("read"), 0)], telling="decreases first")).counterexample.why)
    worker 1 has let 0 pass at count.in0, where it may still come
    """
    if not isinstance(views, Views):
        raise UsageError(f"never_ahead takes Views(graph, start), found a {type(views).__name__}")
    began = clocks.perf_counter()
    question = f"no view is ahead, {views.telling}"
    bound = f"runs of {views.workers} workers with at most {views.most} steps"
    search: Search[Any, str] = Search([views.start()], views.steps, Budget(max_states=max_states))

    def answer(status: Any, **more: Any) -> Verdict:
        return Verdict(status, question, "explicit", clocks.perf_counter() - began, **more)

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
