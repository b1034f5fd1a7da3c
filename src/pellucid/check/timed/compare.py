"""``check.equivalent`` of two pipelines by event time: the same answers on all runs, in whatever order rows arrive.

Both run side by side on what comes.  Step by step they must put out the same in every batch, in order; as a sequence
the same in the end, in any order, as the order across windows and keys is promised of none.  A failure (also a late
event that nothing was said about) is an observation as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pellucid.check.answer import Answer
from pellucid.check.compare.fitted import Fitted
from pellucid.check.counterexample.pushes import Pushes
from pellucid.check.decide import has_z3
from pellucid.check.timed.found import named
from pellucid.check.timed.inputs import Finish, Inputs, Move, Silent, units_of
from pellucid.check.timed.machine import At, Seen, TimedMachine, frozen
from pellucid.check.timed.question import Spot, arriving, budget_of, decided
from pellucid.check.timed.reached import Reached
from pellucid.errors import UsageError
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.model import Budget, Search, Verdict, now
from pellucid.internal.model.sheet import event_text


def equivalent_in_time(
    a: Any,
    b: Any,
    *,
    how: str = "step",
    arrival: str = "any",
    events: Any = None,
    times: Any = None,
    ints: Any = None,
    pushes: int | None = 3,
    rate: int | None = None,
    batch: int = 1,
    timeout: float | None = 60.0,
    max_states: int | None = 200_000,
    progress: Any = None,
) -> Verdict:
    """The verdict; ``a`` and ``b`` have graphs and names."""
    if how == "paper":
        raise UsageError(
            "how='paper' compares sequences without times: of pipelines by event time ask 'step' or 'sequence'"
        )
    only = arriving(arrival)
    for p in (a, b):
        if not p.graph.timed:
            raise UsageError(f"{p.name} does not work by event time, and the other one does: they cannot be compared")
    graphs = (a.graph, b.graph)
    sources, outputs = _fit(graphs)
    began = now()
    if pushes is None:
        return _for_ever(a, b, how, arrival, events, times, ints, rate, batch, budget_of(timeout, max_states, progress))
    if rate is not None:
        raise UsageError("rate= is of runs of any length: give pushes=None as well")
    inputs = Inputs.of(a.graph, events=events, ints=ints, times=times, pushes=pushes, batch=batch, also=b.graph)
    theirs = {sources[s]: found for s, found in inputs.events.items()}
    other = Inputs.of(b.graph, events=theirs, pushes=pushes, batch=batch)
    waits = {*inputs.idle} | {s for s, mine in sources.items() if mine in other.idle}
    inputs = replace(inputs, idle=tuple(s for s in sources if s in waits))
    manner = "in every batch" if how == "step" else "in the end"
    said = f"{a.name} and {b.name} put out the same {manner}{only}"
    alike = step_by_step(a.graph, b.graph, sources, outputs, timeout)
    if alike.proved:
        return Verdict("proved", said, alike.engine, now() - began, None, alike.notes)
    reached = [Reached(a.graph, inputs), Reached(b.graph, replace(other, told=inputs.told, idle=other.idle))]
    machines = [TimedMachine(one.graph, inputs) for one in reached]
    found: list[tuple[Spot, Move, str]] = []

    def steps(spot: Spot) -> Iterator[tuple[Move, Spot]]:
        left, right = spot.past.sides
        for move, pushed in machines[0].moves(left):
            one, seen = machines[0].take(left, move, pushed)
            two, also = machines[1].take(right, named(move, sources), pushed)
            for one_of, its in zip(reached, (seen, also), strict=True):
                one_of.saw(its)
            if arrival == "in time" and (seen.behind or also.behind or isinstance(move, Silent)):
                continue
            past, why = _both(spot.past, (one, two), (seen, also), move, outputs, how)
            if why and not found:
                found.append((spot, move, why))
            yield move, Spot(one, past)

    start = _Pair((machines[0].start(), machines[1].start()), {}, False)
    search: Search[Spot, Move] = Search([Spot(start.sides[0], start)], steps, budget_of(timeout, max_states, progress))
    verdict = decided(search, found, graphs, said, reached, began)
    return replace(verdict, notes=(*verdict.notes, *alike.notes)) if verdict.bounded else verdict


def _for_ever(
    a: Any, b: Any, how: str, arrival: str, events: Any, times: Any, ints: Any, rate: Any, batch: int, budget: Budget
) -> Verdict:
    """Runs of any length."""
    from pellucid.check.timed.endless import equivalent_for_ever

    if how != "step" or arrival != "any" or events is not None or batch != 1:
        raise UsageError(
            "pushes=None, runs of any length, goes with how='step', one row in a batch, and events that are made up: "
            "leave how=, arrival=, events= and batch= out, or say pushes="
        )
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int) or rate < 1):
        raise UsageError(f"rate= takes how many events may come at one time, found {rate!r}")
    if times is None:
        raise UsageError(
            "pushes=None: say times=, how far an event may be from the greatest time so far, as in times=range(-2, 4)"
        )
    clock = next(t for t in a.graph.clocks if t is not None)
    distances = units_of([a.graph], clock, times)
    sources, outputs = _fit((a.graph, b.graph))
    if max(distances) < 1:
        raise UsageError("pushes=None: none of times= is after the greatest time so far, so no time would pass")
    inputs = Inputs.of(a.graph, ints=ints, times=[0 if clock == INT else timedelta(0)])
    return equivalent_for_ever(a, b, inputs, distances, rate, sources, outputs, budget)


class _Pair:
    """Two machines, what one has put out more than the other, and whether one has failed."""

    __slots__ = ("failed", "more", "sides")

    def __init__(self, sides: tuple[At, At], more: dict[str, Counter[Any]], failed: bool) -> None:
        self.sides, self.more, self.failed = sides, more, failed

    def key(self) -> Any:
        """As a value; the first machine is in the state already."""
        more = frozenset((name, frozenset(c.items())) for name, c in self.more.items() if c)
        return self.sides[1].key, more, self.failed


def _both(
    past: _Pair,
    sides: tuple[At, At],
    seen: tuple[Seen, Seen],
    move: Move,
    outputs: Mapping[str, str],
    how: str,
) -> tuple[_Pair, str]:
    """What is so after a move of both, and how they differ, in words."""
    failed = [s.failed is not None for s in seen]
    if failed[0] != failed[1]:
        who, error = (1, seen[0].failed) if failed[0] else (2, seen[1].failed)
        return _Pair(sides, past.more, True), f"{who} fails ({error and type(error).__name__}), and the other does not"
    more = {}
    for mine, theirs in outputs.items():
        left, right = seen[0].outputs.get(mine, []), seen[1].outputs.get(theirs, [])
        if how == "step":
            if frozen(left) != frozen(right):
                return _Pair(sides, past.more, False), f"{mine}: {_texts(left)} and {_texts(right)}"
            continue
        count = Counter(past.more.get(mine, Counter()))
        count.update(map(_value, left))
        count.subtract(map(_value, right))
        more[mine] = Counter({value: n for value, n in count.items() if n})
        if more[mine] and (isinstance(move, Finish) or failed[0]):
            ones = sorted(text for (_, text), n in more[mine].items() if n > 0)
            others = sorted(text for (_, text), n in more[mine].items() if n < 0)
            return _Pair(sides, more, False), f"{mine}: in the end {_list(ones)} of one, {_list(others)} of the other"
    return _Pair(sides, more, failed[0]), ""


def _value(value: Any) -> tuple[Any, str]:
    return frozen(value), event_text(value)


def _texts(values: list[Any]) -> str:
    return _list([event_text(v) for v in values])


def _list(texts: list[str]) -> str:
    return ", ".join(texts[:3]) + (", …" if len(texts) > 3 else "") if texts else "nothing"


#: Of a step that works by event time, what its function is asked: an event, and nothing that it remembers.
_ASKS_ONE = ("at", "key_by", "dedup")
_SECONDS = 5.0  # for all functions that are not written the same


def step_by_step(
    a: Graph, b: Graph, sources: Mapping[str, str], outputs: Mapping[str, str], timeout: float | None
) -> Answer:
    """Whether two graphs have the same steps in the same places, whose functions and sub-pipelines are proved to do
    the same on all events: then they put out the same on all runs, whatever a step is told about times.

    That is asked of each pair as of a pipeline without times.  What is known less leaves it open.
    """
    from pellucid.check.questions import equivalent

    open_ = Answer("unknown", "step by step")
    if a.reads or b.reads or _places(a) != _places(b):  # what is only called may answer otherwise
        return open_
    if any(b.nodes[i].id != sources[a.nodes[i].id] for i in a.sources) or any(
        dict(a.outputs)[mine] != dict(b.outputs)[theirs] for mine, theirs in outputs.items()
    ):
        return open_
    until = now() + min(_SECONDS, timeout or _SECONDS)
    shown: list[str] = []
    words: dict[str, None] = {}
    for one, other in zip(a.nodes, b.nodes, strict=True):
        parts: list[tuple[Graph | None, Graph | None]] = [(one.sub, other.sub)]
        if [f.digest for f in one.functions] != [f.digest for f in other.functions]:
            parts.append((_alone(a, one), _alone(b, other)))
            if None in parts[-1]:
                return open_
        for mine, theirs in parts:
            if mine is None or theirs is None or mine.digest == theirs.digest:
                continue
            if mine.timed or not has_z3() or now() >= until:
                return open_
            found = equivalent(Fitted(one.id, mine), Fitted(other.id, theirs), timeout=until - now())
            if isinstance(found.counterexample, Pushes):
                pushes = "; ".join(event_text(push["in"]) for push in found.counterexample.inputs if "in" in push)
                return replace(open_, notes=(f"{one.describe()} is another one in the other: they differ on {pushes}",))
            if not found.proved:
                return open_
            shown.append(one.id)
            words |= dict.fromkeys(found.notes)
    if not shown:
        return Answer("proved", "simplification", notes=("they are the same graph",))
    note = f"step for step they do the same on all events: proved of {', '.join(dict.fromkeys(shown))}, each for itself"
    return Answer("proved", "step by step", notes=(note, *words))


def _places(graph: Graph) -> Any:
    """What each step is, without its function and its sub-pipeline."""
    return [(n.kind, n.inputs, n.type, n.k, repr(n.start), n.state, n.key, n.timing) for n in graph.nodes]


def _alone(graph: Graph, node: Node) -> Graph | None:
    """A step as a pipeline of its own; None where it is none without the others."""
    if len(node.inputs) != 1 or len(node.functions) != 1 or (node.processor.timed and node.kind not in _ASKS_ONE):
        return None
    (fn,) = node.functions
    assert fn.result is not None
    made = replace(node, inputs=(0,), key=None)
    if node.kind in _ASKS_ONE:
        made = replace(made, kind="map", type=fn.result, timing=None)
    return Graph(node.id, (Node("in", "source", (), graph.nodes[node.inputs[0]].type), made), (0,), (("out", 1),))


def _fit(graphs: tuple[Graph, Graph]) -> tuple[dict[str, str], dict[str, str]]:
    """Which source and which output of one is which of the other: by name where the names are the same, else by
    place."""
    out = []
    for word, names in (
        ("source", [[(g.nodes[i].id, g.nodes[i].type) for i in g.sources] for g in graphs]),
        ("output", [[(name, g.nodes[i].type) for name, i in g.outputs] for g in graphs]),
    ):
        one, two = names
        if len(one) != len(two):
            raise UsageError(
                f"{graphs[0].name} has {len(one)} {word}s, and {graphs[1].name} {len(two)}: they cannot be compared"
            )
        if {n for n, _ in one} == {n for n, _ in two}:
            two = [next(t for t in two if t[0] == name) for name, _ in one]
        for (mine, t), (theirs, u) in zip(one, two, strict=True):
            if t != u:
                raise UsageError(
                    f"the {word} {mine!r} of {graphs[0].name} is {t}, and {theirs!r} of {graphs[1].name} is {u}: they "
                    "cannot be compared"
                )
        out.append({mine: theirs for (mine, _), (theirs, _) in zip(one, two, strict=True)})
    return out[0], out[1]
