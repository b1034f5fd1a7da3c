"""``check.times``: does a pipeline keep the promises of event time, whatever comes and in whatever order?

One search through all runs, breadth first, in which each promise is watched; the first run that breaks one is a
shortest one.  The whole is refuted if one part is.  Where none is, the answer is *bounded*: longer runs, and other
events, were not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.given import short
from pellucid.check.timed.found import TimedRun
from pellucid.check.timed.inputs import Inputs, Move
from pellucid.check.timed.machine import At, TimedMachine
from pellucid.check.timed.promises import ALL, SAYS, Past, Promises
from pellucid.check.timed.reached import Reached, unreached
from pellucid.errors import UsageError, nearest
from pellucid.internal.engine.timed.literal import Literal
from pellucid.internal.graph.model import Graph
from pellucid.internal.model import Budget, CutShort, Search, Verdict, combined, now
from pellucid.internal.model.stopping import stopping

FEW = 12  # events that are made up: what is promised does not depend on the values inside


@dataclass(frozen=True)
class TimesVerdict(Verdict):
    """The verdict of `check.times`; ``parts`` are those of its promises."""

    parts: Mapping[str, Verdict] = field(default_factory=dict)


def times(
    p: Any,
    *,
    about: str | Sequence[str] = ALL,
    events: Any = None,
    times: Any = None,
    ints: Any = None,
    pushes: int = 4,
    batch: int = 1,
    timeout: float | None = 60.0,
    max_states: int | None = 200_000,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> TimesVerdict:
    """Whether a pipeline by event time keeps its promises in all runs of at most ``pushes`` events, in any order of
    arrival, with sources that fall silent (if they have ``idle=``) or end, in batches of at most ``batch`` rows.

    The events are made up of ``times`` (of a list, or those at which something can change) and small values (``ints``
    of the ints), or listed: ``events=[…]``, for several sources a dict.  Where nothing speaks against it, the answer is
    *bounded*: it is about these.

    >>> from pellucid import check, pipeline
    >>> def counts(x):
    ...     return x.at(lambda v: v, lateness=2).tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0))
    >>> print(check.times(pipeline(counts, x=int), pushes=3, times=[0, 9, 10, 12]))
    bounded  times of counts: nothing found in runs of at most 3 events, each one of 4 made-up events  (...)
      not proved: what is beyond this bound was not looked at
      clock: bounded, no clock ever goes back
      complete: bounded, nothing is put out for a time that was complete before
      once: bounded, the answer of a window is put out once
      prompt: bounded, a window is put out as soon as the clock says that it is complete
      accounted: bounded, every event is in each of its windows' answers or came too late for it, never both
      batch: bounded, promise 1: the answers are those of a batch of the rows that were accepted
      in time: bounded, promise 2: within their lateness no rows are late, and the answers are those of a batch of ...
      events of x: 0, 9, 10, 12

    Promise 2 is not that of every pipeline: a step outside windows may depend on the order of arrival.

    >>> first = pipeline(lambda x: x.at(lambda v: v, lateness=5).trim(1).tumbling(10, lambda w: w), x=int)
    >>> found = check.times(first, about="in time", times=[0, 1])
    >>> found.status, found.counterexample.inputs
    ('refuted', [{'x': [1]}, {'x': [0]}, {}])
    """
    graph = _timed(p)
    asked = _asked_about(about)
    inputs = Inputs.of(graph, events=events, ints=ints, times=times, pushes=pushes, batch=batch, most=FEW)
    budget = budget_of(timeout, max_states, progress)
    return decide_times(graph, inputs, asked, budget, name=p.name)


def decide_times(
    graph: Graph,
    inputs: Inputs,
    asked: Sequence[str],
    budget: Budget,
    *,
    engine: type[Literal] = Literal,
    name: str = "",
    exact: bool = False,
) -> TimesVerdict:
    """The verdict on a graph; ``engine`` is the engine whose rules are asked about."""
    began = now()
    reached = Reached(graph, inputs)
    machine = TimedMachine(reached.graph, inputs, engine=engine, exact=exact)
    promises = Promises(graph)
    found: dict[str, tuple[Spot, Move, str]] = {}

    def steps(spot: Spot) -> Iterator[tuple[Move, Spot]]:
        for move, pushed in machine.moves(spot.at):
            then, seen = machine.take(spot.at, move, pushed)
            reached.saw(seen)
            past, broken = promises.after(spot.past, move, seen, then)
            for part, why in broken:
                if part in asked and part not in found:
                    found[part] = (spot, move, why)
            yield move, Spot(then, past)

    search: Search[Spot, Move] = Search([Spot(machine.start(), Past())], steps, budget)
    cut = _searched(search, lambda: len(found) == len(asked))
    parts = {}
    for part in asked:
        details = {"states": len(search.parents)}
        if part in found:
            spot, move, why = found[part]
            example = TimedRun((graph,), (*search.way(spot), move), None, why, engine)
            if not example.replay():
                raise AssertionError(f"{graph.name}: the literal engine and the one that runs differ on {example}")
            parts[part] = Verdict("refuted", SAYS[part], "explicit", 0.0, example, (why,), details)
        elif cut:
            parts[part] = Verdict("unknown", SAYS[part], "explicit", notes=(cut,), details=details)
        elif part in ("batch", "in time") and promises.unstated:
            who = ", ".join(node.describe() for node in promises.unstated)
            note = f"what {who} means on all rows at once is not stated, so nothing is compared with it"
            parts[part] = Verdict("unknown", SAYS[part], "explicit", notes=(note,), details=details)
        else:
            parts[part] = Verdict("bounded", SAYS[part], "explicit", details=details, bound=inputs.bound())
    return _whole(name or graph.name, parts, began, reached, inputs)


def _searched(search: Search[Spot, Any], enough: Callable[[], bool]) -> str:
    """Search until it is enough; why it was cut short, if it was."""
    reached = 0
    try:
        with stopping(search.budget.timeout):
            for spot, _ in search:
                reached = spot.at.pushed
                if enough():
                    break
    except CutShort as error:
        return f"{error}; all runs of at most {max(reached - 1, 0)} events were looked at"
    return ""


def _whole(name: str, parts: Mapping[str, Verdict], began: float, reached: Reached, inputs: Inputs) -> TimesVerdict:
    status = combined(part.status for part in parts.values())
    first = next((part for part in parts.values() if part.refuted), None)
    notes = tuple(
        f"{name}: {part.status}" + (f": {part.notes[0]}" if part.notes else f", {part.question}")
        for name, part in parts.items()
    )
    states = max(part.details["states"] for part in parts.values())
    return TimesVerdict(
        status,
        f"times of {name}",
        "explicit",
        now() - began,
        first.counterexample if first is not None else None,
        (*(unreached([reached], [name]) if status == "bounded" else ()), *notes, *inputs.notes()),
        {"states": states, "parts": {name: part.status for name, part in parts.items()}},
        parts,
        bound=inputs.bound() if status == "bounded" else "",
    )


class Spot:
    """A state of the search: the machine's, and what is remembered beside it."""

    __slots__ = ("_hash", "at", "key", "past")

    def __init__(self, at: At, past: Any, key: Any = None) -> None:
        self.at, self.past = at, past
        self.key = (at.key, past.key() if key is None else key)
        self._hash = hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spot) and self.key == other.key


def arriving(arrival: Any) -> str:
    """What a question says of the orders of arrival that it is asked of.

    >>> arriving("any"), arriving("in time")
    ('', ', where no event is behind by more than its lateness')
    """
    words = {"any": "", "in time": ", where no event is behind by more than its lateness"}
    if arrival not in words:
        raise UsageError(f"arrival= takes {' or '.join(map(repr, words))}, found {arrival!r}")
    return words[arrival]


def budget_of(timeout: Any, max_states: Any, progress: Any) -> Budget:
    """How much may be spent, looked at as every question does."""
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
        raise UsageError(f"timeout= takes a number of seconds above 0, or None for no limit; found {short(timeout)}")
    whole = isinstance(max_states, int) and not isinstance(max_states, bool) and max_states >= 1
    if max_states is not None and not whole:
        raise UsageError(f"max_states= takes a whole number of at least 1, found {short(max_states)}")
    return Budget(timeout, max_states, progress)


def _timed(p: Any) -> Graph:
    graph = getattr(p, "graph", None)
    if not isinstance(graph, Graph):
        raise UsageError(f"check.times wants a pipeline as p, found {short(p)}")
    if not graph.timed:
        raise UsageError(
            f"{graph.name} does not work by event time, so it has no promises of times: say what an event's time is, "
            "as in x.at(lambda e: e.when), or ask check.holds, check.live, …"
        )
    return graph


def _asked_about(about: Any) -> tuple[str, ...]:
    names = (about,) if isinstance(about, str) else tuple(about) if isinstance(about, Sequence) else ()
    if not names:
        raise UsageError(f"about= takes names of promises, found {short(about)}: they are {', '.join(ALL)}")
    for name in names:
        if name not in ALL:
            raise UsageError(f"about={name!r}: the promises are {', '.join(ALL)}{nearest(str(name), ALL)}")
    return names


def decided(
    search: Search[Spot, Move],
    found: Sequence[tuple[Spot, Move, str]],
    graphs: Sequence[Graph],
    said: str,
    reached: Sequence[Reached],
    began: float,
    premises: Mapping[Any, bool] | None = None,
) -> Verdict:
    """The answer of a search that notes down in ``found`` what denies the question, on the way to its first find;
    ``premises`` are those of the question, and whether some run came to them."""
    cut, inputs = _searched(search, lambda: bool(found)), reached[0].inputs
    details = {"states": len(search.parents)}
    if found:
        spot, move, why = found[0]
        example = TimedRun(tuple(graphs), (*search.way(spot), move), None, why)
        if not example.replay():
            names = ", ".join(graph.name for graph in graphs)
            raise AssertionError(f"{names}: the literal engine and the one that runs differ on {example}")
        return Verdict("refuted", said, "explicit", now() - began, example, (), details)
    if cut:
        return Verdict("unknown", said, "explicit", now() - began, None, (cut,), details)
    missed = tuple(
        f"no run reaches {words}, so what follows from it was never asked for"
        for words, came in (premises or {}).items() if not came
    )  # fmt: skip
    notes = (*unreached(reached, [graph.name for graph in graphs]), *missed, *inputs.notes())
    return Verdict("bounded", said, "explicit", now() - began, None, notes, details, bound=inputs.bound())
