"""What the runs of a bounded check have not reached: outputs that say nothing, thresholds that stand in the code.

Nothing speaks against ``tumbling(…).filter(lambda w: w.value > 3)`` in runs of three events, whatever was asked: the
filter lets nothing through there.  So each comparison of a function with a constant is noted down while the runs are
made, and one that came out one way only is said, with a number of events after which it comes out the other way, if
runs of the same events over and over find one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.advice import neighbours
from pellucid.check.timed.inputs import Finish, Inputs, Move, Rows
from pellucid.check.timed.machine import Seen, TimedMachine
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.printing import show
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.model import Graph, Node

_MORE = 16  # events more than the bound, in a run that is tried
_KINDS = 12  # of events that are tried over and over
_SAID = 4  # thresholds that a verdict speaks of
_HAND_ON = ("filter", "key_by", "at", "trim", "decimate")  # steps that put out the source's own events


@dataclass
class Threshold:
    """A comparison with a constant in a function, and how it came out in the runs so far."""

    words: str
    test: Expr
    beside: tuple[int, int] | None  # of a field of the source's events: the neighbours that it tells apart
    found: set[bool] = field(default_factory=set)

    @property
    def missing(self) -> bool | None:
        """How it did not come out; None if it came out both ways."""
        return None if len(self.found) == 2 else self.found != {True}

    def __str__(self) -> str:
        return f"{self.words} is so in every run" if self.found == {True} else f"no run reaches {self.words}"


class Watched(Function):
    """A function that notes down how its comparisons come out."""

    thresholds: list[Threshold]
    asked: set[Any]

    @staticmethod
    def of(fn: Function, *, direct: bool) -> Watched:
        """The same function; ``direct`` says that its last parameter is an event of the source as it came."""
        made = object.__new__(Watched)
        made.__dict__.update(fn.__dict__, thresholds=list(_thresholds(fn, direct)), asked=set())
        return made

    def call(self, *args: Any) -> Any:
        if any(len(t.found) < 2 for t in self.thresholds):
            self._note(args)
        return super().call(*args)

    def _note(self, args: Sequence[Any]) -> None:
        try:
            if args in self.asked:
                return
            self.asked.add(args)
        except TypeError:  # a state that can change: it is asked about each time
            pass
        leaves = [leaf for t, value in zip(self.params, args, strict=True) for leaf in t.flatten(value)]
        for threshold in self.thresholds:
            try:
                threshold.found.add(bool(evaluate(threshold.test, leaves)))
            except Exception:  # it is asked only where it does not fail
                continue


def _thresholds(fn: Function, direct: bool) -> Iterator[Threshold]:
    if fn.runs is None:
        return
    names = fn._leaf_names()
    own = sum(t.width for t in fn.params[:-1])  # a state stands before the event
    for e in dict.fromkeys(walk(*fn.runs.roots())):
        if e.op in ("eq", "lt", "le") and [a.op for a in e.args].count("const") == 1:
            read = {part.value: part.type for part in walk(e) if part.op == "var"}
            if read:
                field_of_source = direct and len(read) == 1 and min(read) >= own and set(read.values()) == {INT}
                yield Threshold(show(e, names, 24), e, neighbours(e) if field_of_source else None)


class Reached:
    """One pipeline, watched: ``graph`` does the same as the one that it was made of."""

    def __init__(self, graph: Graph, inputs: Inputs) -> None:
        self._of, self.inputs, self.spoke = graph, inputs, False
        self.thresholds: list[Threshold] = []
        self.graph = self._watched(graph, direct=True)

    def _watched(self, graph: Graph, *, direct: bool) -> Graph:
        own: list[bool] = []  # whether a stream has the source's own events
        nodes: list[Node] = []
        for node in graph.nodes:
            before = [own[i] for i in node.inputs]
            here = all(before) if node.inputs else direct
            own.append(here and (not node.inputs or node.kind in _HAND_ON))
            fns = [None if fn is None else Watched.of(fn, direct=here) for fn in (node.fn, node.on_time)]
            self.thresholds += [t for fn in fns if fn is not None for t in fn.thresholds]
            sub = None if node.sub is None else self._watched(node.sub, direct=here)
            nodes.append(dataclasses.replace(node, fn=fns[0], on_time=fns[1], sub=sub))
        return dataclasses.replace(graph, nodes=tuple(nodes))

    def saw(self, seen: Seen) -> None:
        """One step of a run."""
        self.spoke |= any(map(len, seen.outputs.values()))

    def later(self) -> tuple[int | None, dict[int, int]]:
        """In runs of the same events over and over: after how many it speaks, and after how many each threshold, by its
        number, comes out as it did not."""
        again = Reached(self._of, self.inputs)
        machine, first, spoke = TimedMachine(again.graph, self.inputs), self.inputs.pushes, None
        runs = list(_over_and_over(self.inputs))
        ats = [machine.start() for _ in runs]
        missing = {i: t.missing for i, t in enumerate(self.thresholds) if t.missing is not None}
        found: dict[int, int] = {}
        for many in range(1, first + _MORE + 1):
            for number, run in enumerate(runs):
                if ats[number].over:
                    continue
                ats[number], seen = machine.take(ats[number], run[(many - 1) % len(run)], 0)
                again.saw(seen)
                if many > first and not ats[number].over:
                    again.saw(machine.take(ats[number], Finish(), 0)[1])
            if many > first:
                spoke = many if spoke is None and again.spoke else spoke
                found |= {i: many for i, way in missing.items() if i not in found and way in again.thresholds[i].found}
            if spoke is not None and len(found) == len(missing):
                break
        return spoke, found


def _over_and_over(inputs: Inputs) -> Iterator[tuple[Move, ...]]:
    """Runs to try: each event again and again, and all of them in turn."""
    rows: list[Move] = [Rows(((source, event),)) for source, events in inputs.events.items() for event in events]
    yield from ((row,) for row in rows[:_KINDS])
    if len(rows) > 1:
        yield tuple(rows)


def unreached(all_of: Sequence[Reached], names: Sequence[str]) -> tuple[str, ...]:
    """What to say of a bounded answer about these pipelines.

    >>> from pellucid import check, pipeline
    >>> def alerts(least):
    ...     def count(w):
    ...         return w.cumulate(lambda n, v: n + 1, start=0)
    ...     return pipeline(lambda x: x.at(lambda v: v).tumbling(10, count).filter(lambda w: w.value > least), x=int)
    >>> found = check.equivalent(alerts(3), alerts(5), events=[0])
    >>> print(*found.notes[:3], sep="\\n")
    in none of these runs does either pipeline put anything out: a run of 4 events does, so ask with pushes=4
    no run reaches w.value > 3: a run of 4 events does, so ask with pushes=4
    no run reaches w.value > 5: a run of 6 events does, so ask with pushes=6
    """
    silent = not any(one.spoke for one in all_of)
    if not silent and all(t.missing is None for one in all_of for t in one.thresholds):
        return ()
    notes: list[str] = []
    later = [one.later() for one in all_of]
    if silent:
        who = names[0] if len(names) == 1 else "either pipeline"
        many = min((spoke for spoke, _ in later if spoke is not None), default=None)
        notes.append(f"in none of these runs does {who} put anything out{_ask_for(many)}")
    said: dict[str, None] = {}
    for one, (_, found) in zip(all_of, later, strict=True):
        for number, threshold in enumerate(one.thresholds):
            if threshold.missing is not None:
                said[f"{threshold}{_ask_for(found.get(number)) or _with_values(threshold, one.inputs)}"] = None
    notes += list(said)[:_SAID]
    if len(said) > _SAID:
        notes.append(f"nor do they reach {len(said) - _SAID} other thresholds of the functions")
    return tuple(notes)


def _ask_for(many: int | None) -> str:
    return "" if many is None else f": a run of {many} events does, so ask with pushes={many}"


def _with_values(threshold: Threshold, inputs: Inputs) -> str:
    """With which values of events the threshold is reached; else what to try."""
    if threshold.beside is None:
        return ": give more events, with pushes=, or others, with events="
    last, first = threshold.beside
    if inputs.told:  # made up
        return f": ask with ints={{{', '.join(map(str, sorted({0, last, first})))}}}"
    return f": give events in which it is {last} and {first}"
