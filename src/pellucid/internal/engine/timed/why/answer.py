"""Who holds back what waits: the answer, as data.

The clock of a step waits for steps `at` (`Clocks.decides`).  In the graph of clocks (`flow_of(…, clock=True)`) each of
them is a pointstamp: the right to send at its watermark.  One that *could result in* the time that must be complete
holds it back; in the graph of times the same question tells whether an event of it could still get there, and by which
way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.internal.engine.timed.clock import BEGINNING, IDLE, Clocks, feeders
from pellucid.internal.engine.timed.why.flow import flow_of
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph
from pellucid.progress.builder import Location, Source, Target
from pellucid.progress.paths import PathSummaries
from pellucid.progress.times import LEAST, MOST

if TYPE_CHECKING:
    from pellucid.internal.engine.timed.engine import TimedEngine
    from pellucid.internal.engine.timed.why.waits import Kept


@dataclass(frozen=True)
class At:
    """A step `at`: the greatest time that it has seen (None: none yet), its watermark, and whether it is active, idle
    or ended."""

    step: str
    times: Type
    greatest: int | None
    watermark: int | None
    status: str
    lateness: int = 0
    idle: int | None = None  # after how long a silence on the wall, in microseconds, it is


@dataclass(frozen=True)
class SourceNow:
    """A source: how many rows were read (None: not known), when the last one was (seconds since 1970), whether none
    came lately, and the steps that say what its times are."""

    name: str
    ats: tuple[At, ...]
    rows: int | None = None
    heard: float | None = None
    silent: bool = False


@dataclass(frozen=True)
class Hold:
    """A pointstamp that holds something back: a step `at` that may still send at its watermark.

    ``earliest`` is the earliest time of an event that would still count (None: any), ``needs`` the time of an event
    with which it holds nobody back any more, of the first and of the last of what waits.  ``path`` are the steps on the
    way with the least time at each; ``reaches``: an event could still get there in time.
    """

    at: str
    sources: tuple[str, ...]
    status: str
    watermark: int | None
    earliest: int | None
    needs: tuple[int, int]
    path: tuple[tuple[str, int | None], ...]
    reaches: bool
    through: str | None = None  # not by a new event, but by what waits at this step on the way
    silent: float | None = None  # since when, by the clock on the wall

    def __str__(self) -> str:
        return f"{'+'.join(self.sources)} by {' → '.join(step for step, _ in self.path)}"


@dataclass(frozen=True)
class Waits:
    """Things that wait at a step and are held back by the same: how many, the first and the last of them."""

    what: str
    comes: bool
    count: int
    first: tuple[int, int]  # start and end
    last: tuple[int, int]
    due: tuple[int, int]
    holds: tuple[Hold, ...]
    each: bool = True  # all of those hold it back; otherwise the next event of any of them moves the clock


@dataclass(frozen=True)
class StepNow:
    """A step by event time: its clocks, one for each input (None: it has not begun), and what waits there."""

    step: str
    kind: str
    words: str
    times: Type
    clocks: tuple[int | None, ...]
    waits: tuple[Waits, ...]
    rows: int = 0
    keys: int | None = None
    few: tuple[tuple[str, int, int], ...] = ()
    late: int = 0
    behind: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()  # input, its steps `at`, and their ways


@dataclass(frozen=True)
class Progress:
    """How far a run is, and why what is not done is not; or of no run, what waits for what."""

    pipeline: str
    graph: Graph = field(repr=False)
    sources: tuple[SourceNow, ...] = ()
    steps: tuple[StepNow, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)  # of the run: where, how far, whether it runs
    of_run: bool = False  # there is a run; otherwise it is what holds in general

    @property
    def complete(self) -> bool:
        """Whether nothing waits."""
        return not any(waits.comes for step in self.steps for waits in step.waits)

    def waiting(self, step: str) -> tuple[Waits, ...]:
        """What waits at a step."""
        from pellucid.errors import UsageError, nearest

        names = [one.step for one in self.steps]
        if step not in names:
            raise UsageError(
                f"{self.pipeline}: {step!r} is no step that waits for event time: it has "
                f"{', '.join(names) or 'none'}{nearest(step, names)}"
            )
        return self.steps[names.index(step)].waits

    def __str__(self) -> str:
        from pellucid.internal.engine.timed.why.words import text

        return text(self)

    def document(self) -> dict[str, Any]:
        """As plain data."""
        from pellucid.internal.engine.timed.why.words import document

        return document(self)

    def picture(self) -> str:
        """Event time from left to right, as SVG: sources as lanes, watermarks, clocks, and what waits.  Of no run, the
        pipeline itself."""
        if not self.of_run or not self.steps:
            from pellucid.internal.draw.graph import draw

            return draw(self.graph, "svg")
        from pellucid.internal.engine.timed.why.picture import lanes_svg

        return lanes_svg(self)

    def _repr_html_(self) -> str:
        return self.picture()


class Ways:
    """*Could result in*, by the graphs of a pipeline's clocks and times."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.clocks, self.times = PathSummaries(flow_of(graph, clock=True)), PathSummaries(flow_of(graph))

    def ports(self, at: str, step: str, port: int) -> Location:
        """The port at which what a step `at` sends comes to a step: this one, or, where it has no way there, the other
        one (whose clock stands for both while this one is idle)."""
        here = Target(step, port)
        return here if self.clocks.between(Source(at), here) else Target(step, 1 - port)

    def earliest(self, at: str, time: int, to: Location) -> int | None:
        """The least time with which an event of this time could come there; None if it never does."""
        found = [path.summary.results_in(time) for path in self.times.between(Source(at), to)]
        return min((t for t in found if t is not None), default=None)

    def reach(self, at: str, time: int, to: Location, pending: Mapping[str, int]) -> tuple[int | None, str | None]:
        """The least time with which something could still come there that waits for a step `at`: an event of it, or
        what waits on the way (``pending``: at which step, and when it comes out), with the name of that step."""
        best, through = self.earliest(at, time, to), None
        for step, out in pending.items():
            ports = [Target(step, port) for port in range(len(self.graph[step].inputs))]
            if step != to.node and any(self.clocks.between(Source(at), port) for port in ports):
                then = self.earliest(step, out, to)
                if then is not None and (best is None or then < best):
                    best, through = then, step
        return best, through

    def way(self, at: str, time: int | None, to: Location, due: int) -> tuple[tuple[str, int | None], ...]:
        """The steps on the way by which an event of a time could come there by then; or, if it could not, just the
        steps of a way."""
        if time is not None:
            found = self.times.could_result_in(Source(at), time, to, due)
            if found is not None:
                return tuple((str(place.node), t) for place, t in found if place.is_target or place.node == at)
        places = self.clocks.between(Source(at), to)[0].places
        return tuple((str(place.node), None) for place in places if place.is_target or place.node == at)


def progress_of(
    graph: Graph,
    engines: Sequence[TimedEngine] = (),
    *,
    rows: Mapping[str, int] | None = None,
    heard: Mapping[str, float] | None = None,
    silent: Sequence[str] = (),
    about: Mapping[str, Any] | None = None,
) -> Progress:
    """How far engines of one graph are (each with some of the keys, all with the same clock), and what is held back by
    whom; without any, what waits for what in general.

    >>> from pellucid import merge, pipeline
    >>> def counts(x, y):
    ...     both = merge(x.at(lambda v: v, id="x-at", lateness=2), y.at(lambda v: v, id="y-at"), id="both")
    ...     return both.tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0), id="tens")
    >>> p = pipeline(counts, x=int, y=int)
    >>> engine = p.engine()
    >>> engine.push([3, 14], y=[21])
    [Windowed(start=0, end=10, value=1)]
    >>> for waits in progress_of(p.graph, [engine]).waiting("tens"):
    ...     print(waits.first, waits.last, *waits.holds)
    (10, 20) (10, 20) x by x-at → both → tens
    (20, 30) (20, 30) x by x-at → both → tens y by y-at → both → tens
    """
    clocks = engines[0].clocks if engines else Clocks(graph)
    found: list[Kept] = []
    if engines:
        from pellucid.internal.engine.timed.why.waits import kept_in

        found = kept_in(engines)
    feeds = feeders(graph)
    sources = []
    for i in graph.sources:
        name = graph.nodes[i].id
        ats = tuple(_at(graph, clocks, graph.position[at]) for at, fed in feeds.items() if name in fed)
        sources.append(
            SourceNow(name, ats, (rows or {}).get(name), (heard or {}).get(name), bool(engines) and name in silent)
        )
    ways = Ways(graph)
    pending: dict[str, int] = {}
    for kept in found:
        if kept.comes:
            step, out = graph.nodes[kept.step].id, int(kept.due[0])
            pending[step] = min(pending.get(step, out), out)
    since = {s.name: s.heard for s in sources if s.silent and s.heard is not None}
    steps = []
    for i, node in enumerate(graph.nodes):
        if not node.processor.timed or node.processor.keeps != "times" or node.timing is None:
            continue
        own = [kept for kept in found if kept.step == i]
        waits = tuple(w for kept in own for w in _waits(ways, clocks, feeds, since, pending, kept))
        now = tuple(_known(clocks.now(j, i)) for j in node.inputs)
        times = graph.clocks[node.inputs[0]]
        assert times is not None
        first = next((kept for kept in own if kept.comes), own[0] if own else None)
        steps.append(
            StepNow(
                node.id, node.kind, node.timing.words(), times, now if engines else (None,) * len(now), waits,
                sum(kept.rows for kept in own if kept.what not in ("correction",)), first.keys if first else None,
                first.few if first else (), sum(engine.late.get(node.id, 0) for engine in engines),
                _behind(graph, ways, clocks, i),
            )
        )  # fmt: skip
    return Progress(graph.name, graph, tuple(sources), tuple(steps), dict(about or {}), bool(engines))


def _at(graph: Graph, clocks: Clocks, i: int) -> At:
    node, mark = graph.nodes[i], clocks.marks[i]
    timing, times = node.timing, graph.clocks[i]
    assert timing is not None and times is not None
    greatest = None if mark == BEGINNING else mark + timing.lateness
    return At(node.id, times, greatest, _known(mark), clocks.status[i], timing.lateness, timing.idle)


def _known(clock: int) -> int | None:
    return None if clock == BEGINNING else clock


def _behind(
    graph: Graph, ways: Ways, clocks: Clocks, step: int
) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
    """For each input of a step: its name, the steps `at` that its clock comes from, and the ways from them."""
    out = []
    for port, j in enumerate(graph.nodes[step].inputs):
        ats = [graph.nodes[a].id for a in clocks.before[j]]
        shown = []
        for at in ats:
            steps = ways.way(at, None, Target(graph.nodes[step].id, port), 0)
            shown.append(" → ".join(name for name, _ in steps))
        out.append((graph.nodes[j].id, tuple(ats), tuple(shown)))
    return tuple(out)


def _waits(
    ways: Ways,
    clocks: Clocks,
    feeds: Mapping[str, tuple[str, ...]],
    since: Mapping[str, float],
    pending: Mapping[str, int],
    kept: Kept,
) -> list[Waits]:
    """What waits, in parts that are held back by the same."""
    graph = ways.graph
    node = graph.nodes[kept.step]
    stream = node.inputs[kept.port]
    ats, each = clocks.decides(stream, kept.step)
    clock = clocks.now(stream, kept.step)
    after = clocks.after(stream, kept.step)
    points: dict[int, int] = {}
    reach: dict[int, tuple[int | None, str | None]] = {}
    for a in ats:  # where none is active, whoever comes next may not come behind the clock
        at = graph.nodes[a].id
        points[a] = min(max(clocks.marks[a] if each else after, LEAST), MOST)
        reach[a] = ways.reach(at, min(max(points[a], clock), MOST), ways.ports(at, node.id, kept.port), pending)
    # What is due at or after the time of a pointstamp is held back by it: so the parts are between those times.
    cuts = sorted({time for time in (*points.values(), *(r for r, _ in reach.values())) if time is not None})
    places = [0, *np.searchsorted(kept.due, cuts, side="left").tolist(), len(kept)]
    out = []
    for first, stop in pairwise(places):
        if first == stop:
            continue
        due = int(kept.due[first]), int(kept.due[stop - 1])
        holds = []
        for a in ats:
            at = graph.nodes[a].id
            to = ways.ports(at, node.id, kept.port)
            if ways.clocks.could_result_in(Source(at), points[a], to, due[0]) is None:
                continue
            holds.append(_hold(ways, clocks, feeds, since, kept, a, to, due, int(kept.start[first]), reach[a], clock))
        last = stop - 1
        count = int(kept.many[first:stop].sum()) + (kept.count - int(kept.many.sum()) if stop == len(kept) else 0)
        edges = [(int(kept.start[i]), int(kept.end[i])) for i in (first, last)]
        out.append(Waits(kept.what, kept.comes, count, edges[0], edges[1], due, tuple(holds), each))
    return out


def _hold(
    ways: Ways,
    clocks: Clocks,
    feeds: Mapping[str, tuple[str, ...]],
    since: Mapping[str, float],
    kept: Kept,
    a: int,
    to: Location,
    due: tuple[int, int],
    start: int,
    reach: tuple[int | None, str | None],
    clock: int,
) -> Hold:
    node = ways.graph.nodes[a]
    assert node.timing is not None
    mark = clocks.marks[a]
    point = min(max(mark, clock, LEAST), MOST)
    least, through = reach
    reaches = least is not None and least <= due[0]
    earliest = None if max(mark, clock) == BEGINNING else point
    if kept.what in ("window", "session") and least == point and through is None and mark != BEGINNING:
        earliest = max(mark, start)  # whatever belongs to it counts, also behind the clock; what is before it does not
    path = ways.way(node.id, point if reaches and through is None else None, to, due[0])
    needs = due[0] + 1 + node.timing.lateness, due[1] + 1 + node.timing.lateness
    sources = feeds[node.id]
    silent = [since[s] for s in sources if s in since]
    return Hold(
        node.id, sources, IDLE if clocks.status[a] == IDLE else clocks.status[a], _known(mark), earliest, needs, path,
        reaches, through, max(silent) if len(silent) == len(sources) else None,
    )  # fmt: skip
