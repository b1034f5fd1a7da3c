"""``check.times``: does a pipeline keep the promises of event time, whatever comes and in whatever order?

One search through all runs, breadth first, in which each promise is watched; the first run that breaks one is a
shortest one.  The whole is refuted if one part is.  Where none is, the answer is *bounded*: longer runs, and other
events, were not looked at.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.caveats import premises
from pellucid.check.counterexample import _judged, _Seen
from pellucid.check.formula import FALSE, TRUE, And, F, Formula, Not, Or, as_formula, is_invariant, kind, terms
from pellucid.check.formula.nodes import PAST, Before, Flag
from pellucid.check.question_arguments import short
from pellucid.check.timed.machine import PLAIN, At, Finish, Inputs, Move, Rows, Seen, TimedMachine
from pellucid.check.timed.promises import ALL, SAYS, Past, Promises
from pellucid.check.timed.runs import Reached, TimedRun, unreached
from pellucid.errors import UsageError, nearest
from pellucid.internal.engine.timed.clock import _before
from pellucid.internal.engine.timed.literal import Literal
from pellucid.internal.expr.types import INT, Type
from pellucid.internal.graph.model import Graph, Node, refuse_loops
from pellucid.internal.graph.timing import Timing, length, shown_length
from pellucid.internal.model import Budget, CutShort, Search, Verdict, combined, now
from pellucid.internal.model.search import stopping

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
      complete: bounded, nothing is emitted for a time that was complete before
      once: bounded, the answer of a window is emitted once
      prompt: bounded, a window is emitted as soon as the clock says that it is complete
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


# ``check.holds`` of a pipeline by event time: a formula of LTL on all its runs, each of which ends.
#
# A step of a run is a batch, and the last one is the end of the input: ``X p`` is false there, ``F p`` means now (the
# finite reading, as in `check.holds_on`). The formula goes along with the run: after each step it is what is still to
# be asked of the rest, so that runs which lead to the same state and leave the same to ask are one.

YES, NO = TRUE, FALSE
SOME = F(TRUE)  # there is another step


def holds_in_time(
    p: Any,
    formula: Any,
    *,
    arrival: str = "any",
    events: Any = None,
    times: Any = None,
    ints: Any = None,
    pushes: int = 3,
    batch: int = 1,
    timeout: float | None = 60.0,
    max_states: int | None = 200_000,
    progress: Any = None,
) -> Verdict:
    """The verdict on one formula."""
    f, said = linear(as_formula(formula)), f"{as_formula(formula)}{arriving(arrival)}"
    inputs = Inputs.of(p.graph, events=events, ints=ints, times=times, pushes=pushes, batch=batch)
    reached, began = Reached(p.graph, inputs), now()
    machine, premise_held = TimedMachine(reached.graph, inputs), dict.fromkeys(premises(f), False)
    found: list[tuple[Spot, Move, str]] = []

    def steps(spot: Spot) -> Iterator[tuple[Move, Spot]]:
        for move, pushed in machine.moves(spot.at):
            then, seen = machine.take(spot.at, move, pushed)
            if arrival == "in time" and seen.behind:
                continue
            reached.saw(seen)
            atoms = atoms_of(p.graph, f, seen)
            for premise in premise_held:
                premise_held[premise] |= progressed(premise, atoms) != NO
            rest = progressed(spot.past.rest, atoms)
            ends = isinstance(move, Finish) or seen.failed is not None
            if not found and (rest == NO or (ends and not at_the_end(rest))):
                found.append((spot, move, "here" if rest == NO else "the run ends, and it has not come"))
            if rest != NO and rest != YES:
                yield move, Spot(then, _Rest(rest))

    search: Search[Spot, Move] = Search(
        [Spot(machine.start(), _Rest(f))], steps, budget_of(timeout, max_states, progress)
    )
    return decided(search, found, (p.graph,), said, [reached], began, premise_held)


class _Rest:
    """What is still to be asked."""

    __slots__ = ("rest",)

    def __init__(self, rest: Formula) -> None:
        self.rest = rest

    def key(self) -> Any:
        """As a value."""
        return self.rest


def linear(f: Formula) -> Formula:
    """A formula that can be asked of runs that end; others are refused by name."""
    body = is_invariant(f)
    if body is not None:
        f = Formula("G", (body,))
    if kind(f) == "ctl":
        raise UsageError(
            f"{f} asks for runs that there may be: by event time a formula is asked of all runs, each of which ends; "
            "write G, F, X, U, W or R, or AG of a formula without them"
        )
    if kind(f) == "state":
        raise UsageError(f"{f} speaks of one step only: write G ({f}) for every step")
    for part in f.walk():
        if part.op in PAST:
            raise UsageError(
                f"{f}: {part.op} looks back, which is not asked by event time yet: write it with U, W or R"
            )
    for term in terms(f):
        if isinstance(term, Before):
            raise UsageError(f"{f}: Y looks back, which is not asked by event time yet")
        if isinstance(term, Flag) and term.name != "failed":
            raise UsageError(
                f"{f}: no queue has a bound by event time, so nothing is ever full: ask check.buffers what is held"
            )
    return f


def atoms_of(graph: Graph, f: Formula, seen: Seen) -> Mapping[Formula, bool]:
    """Which atoms hold of a batch."""
    values = _Seen()
    failed = seen.failed is not None
    system = values.system(graph, {} if failed else seen.streams, {}, {}, failed)
    return _judged(f, values, system)


def progressed(f: Formula, holds: Mapping[Formula, bool]) -> Formula:
    """What is to be asked of the rest of a run after a step in which these atoms hold; ``X p`` that there is a rest.

    >>> from pellucid.check.formula.parse import parse
    >>> f = parse("G (p -> X q)")
    >>> progressed(f, {parse("p"): True, parse("q"): False}) == parse("(F true) & (G (p -> X q)) & q")
    True
    """
    op, args = f.op, f.args
    if op in ("true", "false"):
        return f
    if op == "atom":
        return YES if holds.get(f, False) else NO
    if op == "X":
        return _and(SOME, args[0])
    now_ = [progressed(a, holds) for a in args]
    if op == "!":
        return _not(now_[0])
    if op == "&":
        return _and(now_[0], now_[1])
    if op == "|":
        return _or(now_[0], now_[1])
    if op == "->":
        return _or(_not(now_[0]), now_[1])
    if op == "<->":
        return _or(_and(now_[0], now_[1]), _and(_not(now_[0]), _not(now_[1])))
    if op == "G":
        return _and(now_[0], f)
    if op == "F":
        return _or(now_[0], f)
    if op in ("U", "W"):
        return _or(now_[1], _and(now_[0], f))
    assert op == "R", op
    return _and(now_[1], _or(now_[0], f))


def at_the_end(f: Formula) -> bool:
    """Whether what was still to be asked holds where nothing comes any more."""
    op, args = f.op, f.args
    if op == "!":
        return not at_the_end(args[0])
    if op == "&":
        return at_the_end(args[0]) and at_the_end(args[1])
    if op == "|":
        return at_the_end(args[0]) or at_the_end(args[1])
    if op == "->":
        return not at_the_end(args[0]) or at_the_end(args[1])
    if op == "<->":
        return at_the_end(args[0]) == at_the_end(args[1])
    return op in ("true", "G", "W", "R")


def _not(f: Formula) -> Formula:
    return NO if f == YES else YES if f == NO else f.args[0] if f.op == "!" else Not(f)


def _and(a: Formula, b: Formula) -> Formula:
    return _joined("&", a, b, YES, NO)


def _or(a: Formula, b: Formula) -> Formula:
    return _joined("|", a, b, NO, YES)


def _joined(op: str, a: Formula, b: Formula, nothing: Formula, all_: Formula) -> Formula:
    """Each part once, in one order: so that what is still to be asked does not grow."""
    parts = {part: str(part) for f in (a, b) for part in _parts(op, f) if part != nothing}
    if all_ in parts:
        return all_
    ordered = sorted(parts, key=lambda part: parts[part])
    found = ordered[0] if ordered else nothing
    for part in ordered[1:]:
        found = (And if op == "&" else Or)(found, part)
    return found


def _parts(op: str, f: Formula) -> list[Formula]:
    return [p for arg in f.args for p in _parts(op, arg)] if f.op == op else [f]


# ``check.buffers`` of a pipeline by event time: how far apart the oldest and the newest can be of what a step holds.
#
# Let *M* be the greatest time that a stream has seen and *C* its clock; without idle sources *C = M - lateness*, and of
# several sources the least, where one may be ``skew`` ahead of another. Each step holds what its rule says:
#
# * a fixed window's events until *C* is at its end (and the allowed lateness): the oldest is later than *C - size -
#   allowed*, so the span is *size + allowed + lateness + skew - 1*;
# * a join's left events while *C of the right <= t + high*, its right ones while *C of the left <= t - low*: the spans
#   are *high + lateness of the right + skew* and *-low + lateness of the left + skew*;
# * ``as_of`` and ``lookup`` hold the left while *C of the right <= t*: *lateness of the right + skew*; of the right
#   what is later than both clocks, and the last one before of each key;
# * ``dedup`` holds events while *C <= t*: *lateness + skew*, and one time for each key and kind of event.
#
# A span is reached by some run, so there is no smaller one (one that is negative holds nothing). A session goes on for
# as long as events come: nothing bounds it. Sources that are not kept together (no ``skew=``) may be any time apart.


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
