"""What holds back what waits: the answer, as data, in words, and as a document.

The clock of a step waits for steps `at` (`Clocks.decides`), each of which may still send at its watermark: one whose
watermark is not after the time that must be complete holds it back.  In the graph of times (`flow_of`) the question
*could it result in that time* tells whether an event of it could still get there, and by which way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.errors import UsageError, known, nearest
from pellucid.internal.engine.timed.clock import BEGINNING, END, IDLE, Clocks, feeders
from pellucid.internal.engine.timed.why.flow import flow_of
from pellucid.internal.expr.types import INSTANT, Type
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.timing import shown_length, shown_time
from pellucid.progress.reachability import Location, PathSummaries, Source, Target
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
    with which it holds nothing back any more, for the first and the last of what waits.  ``path`` are the steps on the
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
        names = [one.step for one in self.steps]
        if step not in names:
            raise UsageError(
                f"{self.pipeline}: {step!r} is no step that waits for event time: it has "
                f"{', '.join(names) or 'none'}{nearest(step, names)}"
            )
        return self.steps[names.index(step)].waits

    def __str__(self) -> str:
        return text(self)

    def document(self) -> dict[str, Any]:
        """As plain data."""
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


def progress_of(
    graph: Graph,
    engines: Sequence[TimedEngine] = (),
    *,
    rows: Mapping[str, int] | None = None,
    heard: Mapping[str, float] | None = None,
    silent: Sequence[str] = (),
    about: Mapping[str, Any] | None = None,
) -> Progress:
    """How far engines of one graph are (each with some of the keys, all with the same clock), and what holds back
    what waits; without any, what waits for what in general.

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
    asking = _Asking(graph, engines[0].clocks if engines else Clocks(graph))
    found: list[Kept] = []
    if engines:
        from pellucid.internal.engine.timed.why.waits import kept_in

        found = kept_in(engines)
    sources = []
    for i in graph.sources:
        name = graph.nodes[i].id
        ats = tuple(asking.at(graph.position[at]) for at, fed in asking.feeds.items() if name in fed)
        quiet = bool(engines) and name in silent
        sources.append(SourceNow(name, ats, (rows or {}).get(name), (heard or {}).get(name), quiet))
        if quiet and heard is not None and name in heard:
            asking.silent[name] = heard[name]
    for kept in found:
        if kept.comes:
            step, out = graph.nodes[kept.step].id, int(kept.due[0])
            asking.pending[step] = min(asking.pending.get(step, out), out)
    steps = []
    for i, node in enumerate(graph.nodes):
        if not node.processor.timed or node.processor.keeps != "times" or node.timing is None:
            continue
        own = [kept for kept in found if kept.step == i]
        waits = tuple(w for kept in own for w in asking.waits(kept))
        now = tuple(_known(asking.clocks.now(j, i)) for j in node.inputs)
        times = graph.clocks[node.inputs[0]]
        assert times is not None
        first = next((kept for kept in own if kept.comes), own[0] if own else None)
        steps.append(
            StepNow(
                node.id, node.kind, node.timing.words(), times, now if engines else (None,) * len(now), waits,
                sum(kept.rows for kept in own if kept.what != "correction"), first.keys if first else None,
                first.few if first else (), sum(engine.late.get(node.id, 0) for engine in engines), asking.behind(i),
            )
        )  # fmt: skip
    return Progress(graph.name, graph, tuple(sources), tuple(steps), dict(about or {}), bool(engines))


def _known(clock: int) -> int | None:
    return None if clock == BEGINNING else clock


class _Asking:
    """What the answer is made of: a graph, its clocks, *could result in* by its times, and what is known of the run."""

    def __init__(self, graph: Graph, clocks: Clocks) -> None:
        self.graph, self.clocks, self.feeds = graph, clocks, feeders(graph)
        self.paths = PathSummaries(flow_of(graph))
        self.silent: dict[str, float] = {}  # since when a source is silent, by the clock on the wall
        self.pending: dict[str, int] = {}  # by step, when the first thing that waits there comes out

    def at(self, i: int) -> At:
        """How far a step `at` is."""
        node, mark = self.graph.nodes[i], self.clocks.marks[i]
        timing, times = node.timing, self.graph.clocks[i]
        assert timing is not None and times is not None
        greatest = None if mark == BEGINNING else mark + timing.lateness
        return At(node.id, times, greatest, _known(mark), self.clocks.status[i], timing.lateness, timing.idle)

    def behind(self, step: int) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
        """For each input of a step: its name, the steps `at` that its clock comes from, and the ways from them."""
        out = []
        for port, j in enumerate(self.graph.nodes[step].inputs):
            ats = tuple(self.graph.nodes[a].id for a in self.clocks.before[j])
            to = Target(self.graph.nodes[step].id, port)
            ways = tuple(" → ".join(name for name, _ in self.way(at, None, to, 0)) for at in ats)
            out.append((self.graph.nodes[j].id, ats, ways))
        return tuple(out)

    # ------------------------------------------------------------ ways

    def port(self, at: str, step: str, port: int) -> Location:
        """The port at which what a step `at` sends comes to a step: this one, or, where it has no way there, the other
        one (whose clock stands for both while this one is idle)."""
        here = Target(step, port)
        return here if self.paths.between(Source(at), here) else Target(step, 1 - port)

    def earliest(self, at: str, time: int, to: Location) -> int | None:
        """The least time with which an event of this time could come there; None if it never does."""
        found = [path.summary.results_in(time) for path in self.paths.between(Source(at), to)]
        return min((t for t in found if t is not None), default=None)

    def reach(self, at: str, time: int, to: Location) -> tuple[int | None, str | None]:
        """The least time with which something could still come there that waits for a step `at`: an event of it, or
        what waits on the way, with the name of the step where it does."""
        best, through = self.earliest(at, time, to), None
        for step, out in self.pending.items():
            ports = [Target(step, port) for port in range(len(self.graph[step].inputs))]
            if step != to.node and any(self.paths.between(Source(at), port) for port in ports):
                then = self.earliest(step, out, to)
                if then is not None and (best is None or then < best):
                    best, through = then, step
        return best, through

    def way(self, at: str, time: int | None, to: Location, due: int) -> tuple[tuple[str, int | None], ...]:
        """The steps on the way by which an event of a time could come there by then; or, if it could not, just the
        steps of a way."""
        if time is not None:
            found = self.paths.could_result_in(Source(at), time, to, due)
            if found is not None:
                return tuple((str(place.node), t) for place, t in found if place.is_target or place.node == at)
        places = self.paths.between(Source(at), to)[0].places
        return tuple((str(place.node), None) for place in places if place.is_target or place.node == at)

    # ------------------------------------------------------------ what waits

    def waits(self, kept: Kept) -> list[Waits]:
        """What waits, in parts that are held back by the same."""
        node = self.graph.nodes[kept.step]
        stream = node.inputs[kept.port]
        ats, each = self.clocks.decides(stream, kept.step)
        clock, after = self.clocks.now(stream, kept.step), self.clocks.after(stream, kept.step)
        points: dict[int, int] = {}  # from when on a step `at` may still send
        reach: dict[int, tuple[int | None, str | None]] = {}
        for a in ats:  # where none is active, the next event of any may not come behind the clock
            at = self.graph.nodes[a].id
            points[a] = min(max(self.clocks.marks[a] if each else after, LEAST), MOST)
            to = self.port(at, node.id, kept.port)
            reach[a] = self.reach(at, min(max(points[a], clock), MOST), to)
        # What is due at or after the time of a point is held back by it: so the parts are between those times.
        cuts = sorted({time for time in (*points.values(), *(r for r, _ in reach.values())) if time is not None})
        places = [0, *np.searchsorted(kept.due, cuts, side="left").tolist(), len(kept)]
        out = []
        for first, stop in pairwise(places):
            if first == stop:
                continue
            due = int(kept.due[first]), int(kept.due[stop - 1])
            start = int(kept.start[first])
            holds = [self.hold(kept, a, due, start, reach[a], clock) for a in ats if points[a] <= due[0]]
            count = int(kept.many[first:stop].sum()) + (kept.count - int(kept.many.sum()) if stop == len(kept) else 0)
            edges = [(int(kept.start[i]), int(kept.end[i])) for i in (first, stop - 1)]
            out.append(Waits(kept.what, kept.comes, count, edges[0], edges[1], due, tuple(holds), each))
        return out

    def hold(
        self, kept: Kept, a: int, due: tuple[int, int], start: int, reach: tuple[int | None, str | None], clock: int
    ) -> Hold:
        """How a step `at` holds back what is due from one time to another and starts there."""
        node, mark = self.graph.nodes[a], self.clocks.marks[a]
        assert node.timing is not None
        point = min(max(mark, clock, LEAST), MOST)
        least, through = reach
        reaches = least is not None and least <= due[0]
        earliest = None if max(mark, clock) == BEGINNING else point
        if kept.what in ("window", "session") and least == point and through is None and mark != BEGINNING:
            earliest = max(mark, start)  # what belongs to it counts also behind the clock; what is before it does not
        to = self.port(node.id, self.graph.nodes[kept.step].id, kept.port)
        path = self.way(node.id, point if reaches and through is None else None, to, due[0])
        needs = due[0] + 1 + node.timing.lateness, due[1] + 1 + node.timing.lateness
        sources = self.feeds[node.id]
        silent = [self.silent[s] for s in sources if s in self.silent]
        return Hold(
            node.id, sources, self.clocks.status[a], _known(mark), earliest, needs, path, reaches, through,
            max(silent) if len(silent) == len(sources) else None,
        )  # fmt: skip


# ---------------------------------------------------------------- in words

FORMAT = 1  # of the document


def text(found: Progress) -> str:
    """All of it, for a person."""
    lines = [head(found)]
    if not found.of_run:
        return "\n".join([*lines, *(line for step in found.steps for line in _in_general(found, step))])
    lines += ["sources", *(f"  {line}" for source in found.sources for line in _source(source))]
    if found.steps:
        lines.append("steps")
    for step in found.steps:
        lines += [f"  {line}" for line in _step(found, step)]
    return "\n".join(lines)


def head(found: Progress) -> str:
    """The first line."""
    if not found.of_run:
        return (
            f"{found.pipeline}: what waits for which clock"
            if found.steps
            else (f"{found.pipeline} knows no event time: nothing in it waits for a clock")
        )
    who = f"{found.pipeline}{' in ' + found.about['folder'] if 'folder' in found.about else ''}"
    words = [str(part) for part in found.about.get("words", ())]
    if not found.steps:
        return f"{who}: {', '.join(words)}" if words else who
    waiting = sum(waits.count for step in found.steps for waits in step.waits if waits.comes)
    words.append("nothing waits" if not waiting else f"{waiting:,} {'waits' if waiting == 1 else 'wait'} for the clock")
    return f"{who}: {', '.join(words)}"


# ---------------------------------------------------------------- sources


def _source(source: SourceNow) -> Iterable[str]:
    words = [] if source.rows is None else [f"{source.rows:,} row{'s' * (source.rows != 1)} read"]
    if source.heard is not None:
        words.append(f"{'silent since' if source.silent else 'last row read'} {moment(source.heard)}")
    parts = [_at_words(at, len(source.ats) > 1) for at in source.ats] or ["its times are not given"]
    if len(parts) == 1:
        yield f"{source.name}: {', '.join([*words, *parts])}"
        return
    yield f"{source.name}: {', '.join(words)}" if words else f"{source.name}:"
    yield from (f"  {part}" for part in parts)


def _at_words(at: At, named: bool) -> str:
    who = f"{at.step}: " if named else ""
    if at.watermark is None or at.greatest is None:
        return f"{who}no event yet, {at.status}"
    late = f", with a lateness of {shown_length(at.times, at.lateness)}" if at.lateness else ""
    return (
        f"{who}greatest event time {shown_time(at.times, at.greatest)}, watermark {shown_time(at.times, at.watermark)}"
        f"{late}, {at.status}"
    )


def moment(seconds: float) -> str:
    """A time on the wall.

    >>> moment(0.5)
    '1970-01-01 00:00:00 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


# ---------------------------------------------------------------- steps


def _title(step: StepNow) -> str:
    return f"{step.step} ({step.kind}{' ' + step.words if step.words else ''})"


def _step(found: Progress, step: StepNow) -> Iterable[str]:
    names = [name for name, _, _ in step.behind]
    clocks = [
        f"clock {_clock(step.times, clock)}" if len(names) == 1 else f"clock of {name} {_clock(step.times, clock)}"
        for name, clock in zip(names, step.clocks, strict=True)
    ]
    late = [f"{step.late:,} came too late"] if step.late else []
    yield ", ".join([f"{_title(step)}: {clocks[0]}", *clocks[1:], *late])
    if not step.waits:
        yield "  nothing waits"
        return
    if step.few:
        more = (step.keys or 0) - len(step.few)
        named = "; ".join(f"{key}: {_span(step.times, start, end)}" for key, start, end in step.few)
        yield f"  {step.keys:,} key{'s' * (step.keys != 1)}, first {named}{f'; and {more:,} more' if more > 0 else ''}"
    for waits in step.waits:
        yield from (f"  {line}" for line in _waits_words(found, step, waits))


def _clock(times: Type, clock: int | None) -> str:
    if clock is None:
        return "has not begun"
    return "at the end of all times" if clock >= END else f"at {shown_time(times, clock)}"


def _span(times: Type, start: int, end: int) -> str:
    return shown_time(times, start) if start == end else f"{shown_time(times, start)} to {shown_time(times, end)}"


WORDS = {
    "window": ("window is open", "windows are open"),
    "session": ("session is open", "sessions are open"),
    "correction": ("window is out, and may still be corrected", "windows are out, and may still be corrected"),
    "row": ("row waits for its answer", "rows wait for their answers"),
    "time": ("time that was asked for is not complete", "times that were asked for are not complete"),
    "change": ("row of the table is not complete", "rows of the table are not complete"),
    "left row": ("left row is held for a partner", "left rows are held for partners"),
    "right row": ("right row is held for a partner", "right rows are held for partners"),
    "left row without a partner": ("left row has found no partner yet", "left rows have found no partner yet"),
    "right row without a partner": ("right row has found no partner yet", "right rows have found no partner yet"),
}


def _waits_words(found: Progress, step: StepNow, waits: Waits) -> Iterable[str]:
    one, many = WORDS[waits.what]
    where = _span(step.times, *waits.first)
    if waits.last != waits.first:
        where = f"the first {where}, the last {_span(step.times, *waits.last)}"
    yield f"{waits.count:,} {one if waits.count == 1 else many}: {where}"
    if not waits.comes:
        return
    if not waits.holds:
        yield "  nothing holds this back: it comes when the batch ends"
        return
    if not waits.each:
        names = dict.fromkeys(name for hold in waits.holds for name in hold.sources)
        yield f"  no source is active: the next event of {' or '.join(names)} moves the clock"
    for hold in waits.holds:
        yield f"  {_hold_words(found, step, hold)}"
    yield f"  {_until(step, waits)}"


def _hold_words(found: Progress, step: StepNow, hold: Hold) -> str:
    """What holds it back, and how."""
    way = [name for name, _ in hold.path]
    nodes = [found.graph[name] for name in way[1:-1]]
    between = [node.id for node in nodes if node.processor.timed or len(node.inputs) > 1]
    silent = f", silent since {moment(hold.silent)}," if hold.silent is not None else ""
    who = f"source{'s' * (len(hold.sources) > 1)} {_listed(hold.sources)}{silent}"
    if hold.status == IDLE:
        who += " (idle)"
    steps = f" ({' → '.join([*hold.sources[:1], *way])})"
    if not hold.reaches:
        mark = "has sent nothing yet" if hold.watermark is None else (f"is at {shown_time(step.times, hold.watermark)}")
        return f"{who} {mark}: no event of it could get here in time any more, but the clock waits for it{steps}"
    if hold.through is not None:
        return f"{who} holds back what waits at {hold.through}, which comes here in time{steps}"
    what = "an event of any time" if hold.earliest is None else f"an event of {shown_time(step.times, hold.earliest)}"
    through = f", through {_listed(between)}" if between else ""
    return f"{who} could still send {what}{through}{steps}"


def _until(step: StepNow, waits: Waits) -> str:
    """What would let it go on."""
    goes = "it comes" if waits.count == 1 else "they come" if waits.first == waits.last else "the first of them comes"
    exact = waits.what == "window"  # which is out when the clock is at its end; the others when it is after their time
    parts: list[str] = []
    for hold in waits.holds:
        has = "" if parts else "has sent " if len(hold.sources) == 1 else "have sent "
        event = "one" if parts else "an event"
        when = shown_time(step.times, hold.needs[0] - (not exact))
        parts.append(f"{_listed(hold.sources)} {has}{event} " + (f"of {when} or later" if exact else f"after {when}"))
    if not waits.each:
        return f"{goes} once {', or '.join([*parts, 'all have ended'])}"
    if len(parts) == 1:
        return f"{goes} once {parts[0]}, has ended, or is idle"
    return f"{goes} once {' and '.join(parts)}; a source that has ended or is idle is not waited for"


def _listed(names: Iterable[str]) -> str:
    """
    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    found = list(dict.fromkeys(names))
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"


# ---------------------------------------------------------------- without a run

RULES = {
    "tumbling": "a window comes when the clock is at its end",
    "sliding": "a window comes when the clock is at its end",
    "session": "a session comes when the clock is after its last event and the gap",
    "join": "a pair comes with its second event; a row is held until the clock of the other side is after the interval",
    "as_of": "a row is answered when the clock of the other side is after its time",
    "lookup": "a row is answered when the clock of the table is after its time",
    "dedup": "a row comes when the clock is after its time",
    "timers": "an event is taken, and a time that was asked for is notified, when the clock is after it",
    "iterate": "the events of a time go round when the clock is after it",
}


def _in_general(found: Progress, step: StepNow) -> Iterable[str]:
    yield f"{_title(step)}: {known(RULES, step.kind, 'what waits for which clock')}"
    ats = {at.step: (at, source.name) for source in found.sources for at in source.ats}
    fed: dict[str, list[str]] = {}
    for source in found.sources:
        for at in source.ats:
            fed.setdefault(at.step, []).append(source.name)
    for name, own, ways in step.behind:
        yield f"  the clock of {name} is {'the least of those of' if len(own) > 1 else 'that of'} {_listed(own)}"
        for begins, way in zip(own, ways, strict=True):
            one, _ = ats[begins]
            words = [f"lateness {shown_length(one.times, one.lateness)}"]
            if one.idle is not None:
                words.append(f"idle after {shown_length(INSTANT, one.idle)}")
            yield f"    {_listed(fed[begins])} → {way} ({', '.join(words)})"


# ---------------------------------------------------------------- as plain data


def document(found: Progress) -> dict[str, Any]:
    """As plain data: times as they are shown, and as numbers in the unit of their type."""
    return {
        "format": FORMAT,
        "pipeline": found.pipeline,
        "run": {key: value for key, value in found.about.items() if key != "words"} if found.of_run else None,
        "complete": found.complete if found.of_run else None,
        "sources": [
            {
                "name": source.name, "rows": source.rows,
                "last_row": None if source.heard is None else moment(source.heard), "silent": source.silent,
                "times": [
                    {
                        "step": at.step, "type": str(at.times), "greatest": _time(at.times, at.greatest),
                        "watermark": _time(at.times, at.watermark), "lateness": at.lateness, "status": at.status,
                    }
                    for at in source.ats
                ],
            }
            for source in found.sources
        ],
        "steps": [_step_document(step) for step in found.steps],
    }  # fmt: skip


def _step_document(step: StepNow) -> dict[str, Any]:
    behind = zip(step.behind, step.clocks, strict=True)
    return {
        "step": step.step, "kind": step.kind, "told": step.words, "rows": step.rows, "late": step.late,
        "keys": step.keys,
        "first_keys": [
            {"key": key, "start": _time(step.times, a), "end": _time(step.times, b)} for key, a, b in step.few
        ],
        "inputs": [
            {"stream": name, "clock": _time(step.times, clock), "waits_for": list(ats), "ways": list(ways)}
            for (name, ats, ways), clock in behind
        ],
        "waiting": [
            {
                "what": waits.what, "comes": waits.comes, "count": waits.count,
                "first": [_time(step.times, t) for t in waits.first],
                "last": [_time(step.times, t) for t in waits.last],
                "complete_at": [_time(step.times, t) for t in waits.due],
                "held_by": "each" if waits.each else "any",
                "holds": [_hold_document(step, hold) for hold in waits.holds],
            }
            for waits in step.waits
        ],
    }  # fmt: skip


def _hold_document(step: StepNow, hold: Hold) -> dict[str, Any]:
    return {
        "at": hold.at, "sources": list(hold.sources), "status": hold.status,
        "watermark": _time(step.times, hold.watermark), "could_send": _time(step.times, hold.earliest),
        "reaches": hold.reaches, "through": hold.through,
        "silent_since": None if hold.silent is None else moment(hold.silent),
        "needs": [_time(step.times, t) for t in hold.needs],
        "path": [{"step": name, "time": _time(step.times, t)} for name, t in hold.path],
    }  # fmt: skip


def _time(times: Type, units: int | None) -> dict[str, Any] | None:
    if units is None:
        return None
    return {"shown": "end", "units": None} if units >= END else {"shown": shown_time(times, units), "units": units}
