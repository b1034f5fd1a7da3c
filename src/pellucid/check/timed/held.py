"""``check.buffers`` of a pipeline by event time: how far apart the oldest and the newest can be of what a step holds.

Let *M* be the greatest time that a stream has seen and *C* its clock; without anybody idle *C = M - lateness*, and of
several sources the least, where one may be ``skew`` ahead of another.  Each step holds what its rule says:

* a fixed window's events until *C* is at its end (and the allowed lateness): the oldest is later than
  *C - size - allowed*, so the span is *size + allowed + lateness + skew - 1*;
* a join's left events while *C of the right <= t + high*, its right ones while *C of the left <= t - low*: the spans
  are *high + lateness of the right + skew* and *-low + lateness of the left + skew*;
* ``as_of`` and ``lookup`` hold the left while *C of the right <= t*: *lateness of the right + skew*; of the right what
  is later than both clocks, and the last one before of each key;
* ``dedup`` holds events while *C <= t*: *lateness + skew*, and one time for each key and kind of event.

A span is reached by some run, so there is no smaller one (one that is negative holds nothing).  A session goes on for
as long as events come: nothing bounds it.  Sources that are not kept together (no ``skew=``) may be any time apart.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pellucid.check.given import short
from pellucid.check.timed.found import TimedRun
from pellucid.check.timed.inputs import Inputs, Rows
from pellucid.check.timed.machine import PLAIN
from pellucid.errors import UsageError
from pellucid.internal.engine.timed.clock import _before
from pellucid.internal.expr.types import INT, Type
from pellucid.internal.graph.memory import refuse_loops
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.timing import Timing, length, shown_length
from pellucid.internal.model import Verdict


@dataclass(frozen=True)
class Holds:
    """What a step holds of an input: the span in units, None if nothing bounds it, with the reason; and what it holds
    beside."""

    step: str
    side: str  # "", "left", "right"
    span: int | None
    why: str = ""
    beside: str = ""
    stated: bool = True  # whether it is known what the step holds

    @property
    def name(self) -> str:
        """The step, and the side of a join."""
        return f"{self.step}.{self.side}" if self.side else self.step


def held_in_time(p: Any, *, skew: Any = None, rate: Any = None) -> Verdict:
    """The verdict: proved, with ``details["bounds"]``, the span of what each step holds; refuted where one has none.

    ``skew`` is how far one source may be ahead of another; ``rate`` how many events of a key may come at one time of
    one input, or ``(number, length of time)``: then the note says how many events that are.

    >>> from pellucid import check, join, pipeline
    >>> def near(x, y):
    ...     a, b = x.at(lambda v: v, lateness=2), y.at(lambda v: v, lateness=1)
    ...     return join(a, b, within=(-3, 5), id="near")
    >>> p = pipeline(near, x=int, y=int)
    >>> check.buffers(p, skew=4).details["bounds"]
    {'near.left': 10, 'near.right': 9}
    >>> print(check.buffers(p).notes[0])
    near.left: one source may be any time ahead of another (x, y): say skew=, how far it can be
    """
    began, graph = time.perf_counter(), p.graph
    refuse_loops(graph, "check.buffers")
    clock = next(t for t in graph.clocks if t is not None)
    found = list(held(graph, _skew(clock, skew)))
    per = _rate(clock, rate)
    question = f"what every step of {p.name} holds is bounded"
    bounds, notes, example = {}, [], None
    for h in found:
        if h.span is None:
            notes.append(f"{h.name}: {h.why}")
            continue
        bounds[h.name] = _length(clock, h.span)
        many = ""
        if per is not None:
            number, over = per
            events = number * (h.span // over + 1) if h.span >= 0 else 0
            many = f", at most {events:,} of each key"
        told = f"events that are at most {shown_length(clock, h.span)} apart{many}" if h.span >= 0 else "nothing"
        notes.append(f"{h.name} holds {told}{h.beside}")
    unbounded = [h for h in found if h.span is None and h.stated]
    if unbounded:
        example = _grows(graph, graph[unbounded[0].step], unbounded[0])
    details = {"bounds": bounds, "grows": [h.name for h in unbounded]}
    status: Any = "refuted" if unbounded else "proved" if all(h.stated for h in found) else "unknown"
    return Verdict(status, question, "rules", time.perf_counter() - began, example, tuple(notes), details)


def held(graph: Graph, skew: int | None) -> Iterator[Holds]:
    """What each timed step holds."""
    before = _before(graph)
    lateness = {i: node.timing.lateness for i, node in enumerate(graph.nodes) if node.kind == "at" and node.timing}

    def behind(own: tuple[int, ...], other: tuple[int, ...]) -> int | None:
        """How far the clock of one stream can be behind the greatest time of another."""
        found = 0
        for at in own:
            apart = 0 if set(other) <= {at} else skew
            if apart is None:
                return None
            found = max(found, lateness[at] + apart)
        return found

    for node in graph.nodes:
        if not node.processor.timed or node.kind in PLAIN:
            continue
        t = node.timing or Timing()
        sides = [before[i] for i in node.inputs]
        apart = ", ".join(sorted({_source(graph, at) for side in sides for at in side}))
        why = f"one source may be any time ahead of another ({apart}): say skew=, how far it can be"
        if t.size is not None:
            most = behind(sides[0], sides[0])
            beside = ", and those of days that have 25 hours" if t.tz is not None else ""
            yield Holds(node.id, "", None if most is None else most + t.size + t.allowed - 1, why, beside)
        elif t.gap is not None:
            words = "a session goes on for as long as events come: no lateness bounds it"
            yield Holds(node.id, "", None, words)
        elif t.low is not None and t.high is not None:
            for side, (own, other, reach) in (("left", (1, 0, t.high)), ("right", (0, 1, -t.low))):
                most = behind(sides[own], sides[other])
                yield Holds(node.id, side, None if most is None else most + reach, why)
        elif node.kind in ("as_of", "lookup"):
            left = behind(sides[1], sides[0])
            yield Holds(node.id, "left", left, why)
            right = [behind(sides[0], sides[1]), behind(sides[1], sides[1])]
            most = None if None in right else max(r for r in right if r is not None) - 1
            yield Holds(node.id, "right", most, why, ", and the last one before them of each key")
        elif node.kind == "dedup":
            words = ", and a time for each key and kind of event"
            yield Holds(node.id, "", behind(sides[0], sides[0]), why, words)
        else:
            words = f"what {node.describe()} holds is not stated, so nothing is known of it"
            yield Holds(node.id, "", None, words, stated=False)


def _grows(graph: Graph, node: Node, h: Holds) -> TimedRun | None:
    """Events of one source that are all held, where there is no end to them."""
    try:
        inputs = Inputs.of(graph)
    except UsageError:
        return None
    side = 1 if h.side == "right" else 0
    feeding = {_source(graph, at) for at in _before(graph)[node.inputs[side]]}
    source = next(iter(sorted(feeding & set(inputs.events))), None)
    if source is None:
        return None
    rows = tuple(Rows(((source, event),)) for event in inputs.events[source][:3])
    return TimedRun((graph,), rows, None, f"{h.name} holds them all, and so on for ever")


def _source(graph: Graph, at: int) -> str:
    """The first source that a step `at` has its events from."""
    while graph.nodes[at].inputs:
        at = graph.nodes[at].inputs[0]
    return graph.nodes[at].id


def _length(clock: Type, units: int) -> Any:
    return units if clock == INT else dt.timedelta(microseconds=units)


def _skew(clock: Type, given: Any) -> int | None:
    if given is None:
        return None
    try:
        return length(clock, given, "skew=", least=0)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _rate(clock: Type, given: Any) -> tuple[int, int] | None:
    if given is None:
        return None
    number, over = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise UsageError(
            "rate= takes how many events of a key may come at one time, or (number, length of time); found "
            f"{short(given)}"
        )
    try:
        return number, 1 if over is None else length(clock, over, "rate=")
    except ValueError as error:
        raise UsageError(str(error)) from None
