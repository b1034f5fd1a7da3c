"""An event-time pipeline as a graph of `pellucid.progress`: its steps, and what each does to the time of an event.

Times begin at the steps `at`, which are the sources here.  From there on each step has a port for each stream that it
reads, and one for what it emits; its summary is the least that a time can become on the way:

==================  ===================================================================================================
step                what comes out because of an event of time *t*, at the earliest
==================  ===================================================================================================
windows             the last time of the first of its windows (end - 1)
sessions            *t* + gap
`join`              a pair has the later of the two times; a row without a partner has *t* or later
`as_of`, `lookup`   *t*; an event of the other side releases what waited for it
`timers`            *t*; what it emits when notified of later times comes later
all others          *t*
`late`, `early`     nothing: what they emit has no times
==================  ===================================================================================================

>>> from pellucid import pipeline
>>> def days(x):
...     return x.at(lambda v: v, id="at").session(3, lambda w: w, id="visit").tumbling(24, lambda w: w, id="day")
>>> flow = flow_of(pipeline(days, x=int).graph)
>>> from pellucid.progress import PathSummaries, Source, Target
>>> paths = PathSummaries(flow)
>>> [(str(place), time) for place, time in paths.could_result_in(Source("at"), 7, Target("day"), 23)]
[('at.out0', 7), ('visit.in0', 7), ('visit.out0', 10), ('day.in0', 10)]
>>> print(paths.could_result_in(Source("at"), 21, Target("day"), 23))  # it would come to the next day
None

Of this graph `pipeline_progress` asks, for all times:

* **condition 2**: no step sends into its own past; **acyclic**: no time goes round a cycle unchanged;
* **clock**: nothing comes behind the clock.  The clock of what follows a step is that of the steps `at` before it, so
  none may emit anything earlier than the event it comes from: an answer would be late although no source was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pellucid.errors import UsageError, known, nearest
from pellucid.internal.engine.timed.clock import windows_of
from pellucid.internal.expr.types.rich import DAY
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.timing import Timing
from pellucid.internal.model import Run, Verdict, now
from pellucid.progress.question import SAYS, ProgressVerdict, run_along, whole_verdict
from pellucid.progress.reachability import Builder, PathSummaries, Source, Target, standing_loop
from pellucid.progress.summaries import Step
from pellucid.progress.times import LEAST, MOST, Integers

#: What a step does to the times of its inputs: for each, a summary to its output.
Ways: TypeAlias = "Callable[[Node], list[Any]]"

_TIMES = Integers()


def _as_it_is(node: Node) -> list[Any]:
    return [0] * len(node.inputs)


def _window(node: Node) -> list[Any]:
    t = node.timing
    assert t is not None and t.size is not None and t.every is not None
    near = {n * t.every + d for n in (-2, -1, 0, 1, 2) for d in (-1, 0, 1)} | {t.size, t.origin, t.origin + t.size}
    return [Step("to the end of its window", lambda time: last_of_window(t, time), _TIMES, samples=sorted(near))]


def last_of_window(timing: Timing, time: int) -> int:
    """The last time of the first window that a time is in.

    >>> last_of_window(Timing(size=10, every=5), 12)
    14
    """
    assert timing.size is not None and timing.every is not None
    far = 3 * timing.size + abs(timing.origin) + 2 * DAY
    if LEAST + far <= time <= MOST - far:
        if timing.tz is None:
            before = (time - timing.size - timing.origin) // timing.every  # the last window that ends before it
            return timing.origin + (before + 1) * timing.every + timing.size - 1
        with contextlib.suppress(OverflowError):  # before the year 1, or after 9999
            return windows_of(timing, time)[0][1] - 1
    return time if time < 0 else MOST  # where there are no windows: monotone, and never earlier than it is


def _session(node: Node) -> list[Any]:
    assert node.timing is not None
    return [node.timing.gap]


def _join(node: Node) -> list[Any]:
    t = node.timing
    assert t is not None and t.low is not None and t.high is not None
    return [max(0, t.low), max(0, -t.high)]  # of a pair; a row without a partner comes no earlier


def _nothing(node: Node) -> list[Any]:
    return [None]


#: The timed kinds.  Ordinary steps emit events with the time of the event that they took.
SUMMARIES: Mapping[str, Ways] = {
    "tumbling": _window, "sliding": _window, "session": _session, "join": _join, "as_of": _as_it_is,
    "lookup": _as_it_is, "dedup": _as_it_is, "timers": _as_it_is, "iterate": _as_it_is, "late": _nothing,
    "early": _nothing,
}  # fmt: skip


def flow_of(graph: Graph) -> Builder:
    """The graph of a pipeline's times."""
    flow = Builder(_TIMES)
    for node in graph.nodes:
        if node.kind == "at":
            flow.add_node(node.id, 0, 1, [])
        elif node.inputs and graph.clocks[node.inputs[0]] is not None:
            ways = known(SUMMARIES, node.kind, "the graph of times") if node.processor.timed else _as_it_is
            flow.add_node(node.id, len(node.inputs), 1, [[way] for way in ways(node)])
            for port, j in enumerate(node.inputs):
                flow.add_edge(Source(graph.nodes[j].id), Target(node.id, port))
    return flow


# ---------------------------------------------------------------- what it promises

ASKED = ("condition 2", "acyclic", "clock")
_SAYS = {**SAYS, "clock": "nothing comes behind the clock of what follows"}


def pipeline_progress(graph: Graph, about: str | Sequence[str] = ASKED) -> ProgressVerdict:
    """Whether a pipeline's steps keep its times in order.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.at(lambda v: v, id="at").tumbling(10, lambda w: w, id="tens"), x=int)
    >>> print(pipeline_progress(p.graph))
    proved   progress of pipeline, for all its times  (...)
      condition 2: proved, no node sends into its own past
      acyclic: proved, no time goes round a cycle unchanged
      clock: proved, nothing comes behind the clock of what follows
    """
    asked = (about,) if isinstance(about, str) else tuple(about)
    for name in asked:
        if name not in ASKED:
            raise UsageError(
                f"about={name!r}: of a pipeline the questions are {', '.join(ASKED)}{nearest(str(name), ASKED)}"
            )
    if not graph.timed:
        raise UsageError(
            f"{graph.name} knows no event time, so there are no times to ask about: say what an event's time is, as in "
            "x.at(lambda e: e.when)"
        )
    began = now()
    arcs = flow_of(graph).arcs()
    loop = standing_loop(arcs)
    parts = {}
    for name in asked:
        run = None
        if name == "clock":
            run = _behind_the_clock(graph, PathSummaries(arcs))
        elif loop is not None and (loop.back or name == "acyclic"):
            run = run_along(loop.places, loop.time, loop.then, loop.reason)
        if run is None:
            parts[name] = Verdict("proved", _SAYS[name], "summaries", 0.0)
        else:
            parts[name] = Verdict("refuted", _SAYS[name], "summaries", 0.0, run, (run.why,))
    return whole_verdict(f"progress of {graph.name}, for all its times", parts, began, engine="summaries")


def _behind_the_clock(graph: Graph, paths: PathSummaries) -> Run | None:
    """A path from a step `at`, on which a time goes back, to a step that waits for its clock."""
    for node in graph.nodes:
        if not node.processor.timed or node.processor.keeps != "times":
            continue
        for port in range(len(node.inputs)):
            for at in graph.nodes:
                found = paths.between(Source(at.id), Target(node.id, port)) if at.kind == "at" else []
                for path in found:
                    time = path.summary.goes_back()
                    if time is not None:
                        then = path.summary.results_in(time)
                        way = " → ".join(str(place) for place in path.places)
                        why = (
                            f"what {at.id} sends at {time} comes to {node.id} with the time {then} ({way}), which its "
                            "clock may have passed: it would be late although no source was"
                        )
                        return run_along(path.places, time, then, why)
    return None
