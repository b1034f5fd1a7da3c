"""What the runs of a bounded check have not reached: outputs that say nothing, thresholds that stand in the code.

Nothing speaks against ``tumbling(…).filter(lambda w: w.value > 3)`` in runs of three events, whatever was asked: the
filter lets nothing through there.  So each comparison of a function with a constant is noted down while the runs are
made, and one that came out one way only is reported, with a number of events after which it comes out the other way, if
runs of the same events over and over find one.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pellucid.check.answer import neighbours
from pellucid.check.timed.machine import Ends, Finish, Inputs, Move, Rows, Seen, Silent, TimedMachine
from pellucid.errors import LateError, StepError, UsageError
from pellucid.internal.draw.labels import clean, shorten
from pellucid.internal.engine.timed.clock import BEGINNING, END, feeders
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.literal import Literal
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import Expr, show, walk
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.stream import silent
from pellucid.internal.graph.timing import value_of
from pellucid.internal.model.counterexample import Counterexample
from pellucid.internal.model.pytest_file import Case, Imports, literal
from pellucid.internal.model.sheet import Row, Sheet, Word, as_json

_MORE = 16  # events more than the bound, in a run that is tried
_KINDS = 12  # of events that are tried over and over
_SAID = 4  # thresholds that a verdict speaks of


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
            own.append(here and (not node.inputs or node.processor.hands_on))
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


# Counterexamples by event time: what came, batch by batch, what came out, what was late, and where the clocks were.
#
# It is shown only after it has happened again: on the literal engine, and, where it is about that one and no other, on
# the engine that runs pipelines.


@dataclass(frozen=True)
class TimedView:
    """One move: the events that came, what each output had (None: a step has failed), what was late for which step, and
    the clock of each step `at` after it."""

    move: Move
    inputs: Mapping[str, list[Any]]
    outputs: Mapping[str, list[Any] | None]
    late: Mapping[str, list[Any]] = field(default_factory=dict)
    clocks: Mapping[str, Any] = field(default_factory=dict)
    failed: str = ""


def views_of(
    graph: Graph, moves: Sequence[Move], engine: type[Literal] = Literal, renamed: Mapping[str, str] | None = None
) -> list[TimedView]:
    """What happens on these moves; ``renamed`` are the names that the moves have for this graph's sources."""
    own = dict(renamed or {})
    machine = TimedMachine(graph, Inputs({graph.nodes[i].id: () for i in graph.sources}, 0, 1, ()), engine=engine)
    at, out = machine.start(), []
    for number, given in enumerate(moves):
        move = named(given, own)
        at, seen = machine.take(at, move, number + 1)
        inputs: dict[str, list[Any]] = {graph.nodes[i].id: [] for i in graph.sources}
        for source, event in move.rows if isinstance(move, Rows) else ():
            inputs[source].append(event)
        failed = "" if seen.failed is None else shorten(clean(str(seen.failed)), 300)
        outputs: dict[str, list[Any] | None] = {name: seen.outputs.get(name) for name, _ in graph.outputs}
        out.append(TimedView(given, inputs, outputs, _late(seen), _clocks(graph, at.engine), failed))
        if seen.failed is not None:
            break
    return out


def named(move: Move, names: Mapping[str, str]) -> Move:
    """A move of one pipeline as that of another, whose sources have other names."""
    if isinstance(move, Rows):
        return Rows(tuple((names.get(source, source), event) for source, event in move.rows))
    if isinstance(move, (Silent, Ends)):
        return type(move)(names.get(move.source, move.source))
    return move


def _late(seen: Seen) -> dict[str, list[Any]]:
    return {step: [item.value for _, item, _, _ in judged.late] for step, judged in seen.steps.items() if judged.late}


def _clocks(graph: Graph, engine: Any) -> dict[str, Any]:
    """The clock of each step `at`, as people read it."""
    out: dict[str, Any] = {}
    for i, node in enumerate(graph.nodes):
        if node.kind == "at" and engine is not None:
            clock, units = graph.clocks[i], engine.clocks.now(i)
            assert clock is not None
            ends = {BEGINNING: None, END: Word("over")}
            out[node.id] = ends[units] if units in ends else value_of(clock, units)
    return out


@dataclass(frozen=True)
class TimedRun(Counterexample):
    """A run of one pipeline by event time, or of two that were compared: ``steps`` are its moves."""

    engine: type[Literal] = field(default=Literal, compare=False, repr=False)

    @property
    def moves(self) -> list[Move]:
        """What came."""
        return list(self.steps)

    @property
    def inputs(self) -> list[dict[str, list[Any]]]:
        """The batches: the events of each source; what is no batch (an idle source, an end) has none.

        >>> from pellucid import check, pipeline
        >>> one, other = (pipeline(lambda x, n=n: x.at(lambda v: v).tumbling(n, lambda w: w), x=int) for n in (2, 3))
        >>> check.equivalent(one, other, times=[0, 2], how="sequence").counterexample.inputs
        [{'x': [0]}, {}]
        """
        out = []
        for move in self.steps:
            found: dict[str, list[Any]] = {}
            for source, event in move.rows if isinstance(move, Rows) else ():
                found.setdefault(source, []).append(event)
            out.append(found)
        return out

    def views(self) -> list[list[TimedView]]:
        """What each pipeline does on it."""
        first = [self.graphs[0].nodes[i].id for i in self.graphs[0].sources]
        out = []
        for graph in self.graphs:
            names = dict(zip(first, (graph.nodes[i].id for i in graph.sources), strict=False))
            out.append(views_of(graph, self.steps, self.engine, names))
        return out

    def sheet(self, question: str = "", *, everything: bool = False) -> Sheet:
        """Sources, outputs, what was late, and the clocks where they move; a column for each batch."""
        all_views, count = self.views(), len(self.steps)
        first = all_views[0]
        rows = []
        if any(not isinstance(move, Rows) for move in self.steps):
            texts = [" " if isinstance(move, Rows) else str(move) for move in self.steps]
            rows.append(Row("label", "", tuple([t] for t in texts), "edge"))
        for i in self.graphs[0].sources:
            name = self.graphs[0].nodes[i].id
            rows.append(Row("source", name, _cells([v.inputs[name] for v in first], count), "source"))
        last: list[Row] = []
        for n, (graph, views) in enumerate(zip(self.graphs, all_views, strict=True), 1):
            mark = f"{n}:" if len(self.graphs) > 1 else ""
            for name, at in graph.outputs:
                cells = _cells([v.outputs[name] for v in views], count)
                rows.append(Row("output", f"{mark}{name}", cells, graph.nodes[at].kind))
            for step in dict.fromkeys(step for view in views for step in view.late):
                cells = _cells([v.late.get(step, []) for v in views], count)
                last.append(Row("step", f"{mark}late for {step}", cells, graph.nodes[graph.position[step]].kind))
            steps = list(views[0].clocks) if views else []
            for step in steps:
                told = f"{mark}clock of {step}" if len(steps) > 1 else f"{mark}clock"
                now = [None, *(v.clocks.get(step) for v in views)]
                moved = [[b] if b is not None and b != a else [] for a, b in pairwise(now)]
                last.append(Row("state", told, _cells(moved, count), "edge"))
        marks = (count - 1,) if count else ()
        differ = _differ(self.graphs, rows, marks)
        return Sheet(tuple(rows + last), count, None, marks, self.why or "here", differ, unit="batch")

    def document(self) -> dict[str, Any]:
        """As plain data."""
        steps = []
        for number, of_all in enumerate(zip(*self.views(), strict=False)):
            told = [
                {"out": as_json(v.outputs), "late": as_json(v.late), "clock": as_json(v.clocks), "failed": v.failed}
                for v in of_all
            ]
            view = of_all[0]
            step = {"batch": number, "move": str(view.move), "in": as_json(view.inputs)}
            steps.append(step | (told[0] if len(told) == 1 else {"pipelines": told}))
        return {"pipelines": [graph.name for graph in self.graphs], "loop": None, "why": self.why, "steps": steps}

    def replay(self) -> bool:
        """Whether the same comes out once more, on the literal engine and on the one that runs."""
        if self.engine is not Literal:
            return repr(self.views()) == repr(self.views())
        first = [self.graphs[0].nodes[i].id for i in self.graphs[0].sources]
        for graph, views in zip(self.graphs, self.views(), strict=True):
            names = dict(zip(first, (graph.nodes[i].id for i in graph.sources), strict=False))
            if repr(_on_the_engine(graph, [named(m, names) for m in self.steps])) != repr([v.outputs for v in views]):
                return False
        return True

    def test(self, case: Case, imports: Imports) -> list[str]:
        """It pushes the batches, and says what each emits."""
        if len(case.names) != len(self.graphs) or not all(case.names):
            raise UsageError(f"a test of {len(self.graphs)} pipeline(s) needs as many names, found {case.names!r}")
        files = case.files if len(case.files) == len(case.names) else case.files * len(case.names)
        lines = [f"    # {clean(self.why)}"] if self.why else []
        first = [self.graphs[0].nodes[i].id for i in self.graphs[0].sources]
        for graph, views, file, called in zip(self.graphs, self.views(), files, case.names, strict=True):
            imports.need(file, called)
            names = dict(zip(first, (graph.nodes[i].id for i in graph.sources), strict=False))
            lines.append(f"    engine = {called}.engine()")
            for view in views:
                lines += _line(graph, named(view.move, names), view, file, imports)
        return lines


def _differ(graphs: Sequence[Graph], rows: Sequence[Row], marks: tuple[int, ...]) -> frozenset[tuple[str, int]]:
    if len(graphs) < 2 or not marks:
        return frozenset()
    return frozenset((row.name, marks[-1]) for row in rows if row.kind == "output")


def _cells(found: Sequence[Any], count: int) -> tuple[Any, ...]:
    """One for each move; after a failure nothing is known."""
    return (*found, *([None] * (count - len(found))))


def _columns(graph: Graph, move: Rows) -> dict[str, list[Any]]:
    """A batch as `Engine.push` takes it: push by push, an event or silence for each source."""
    names = [graph.nodes[i].id for i in graph.sources]
    out: dict[str, list[Any]] = {name: [] for name in names}
    for source, event in move.rows:
        for name in names:
            out[name].append(event if name == source else silent)
    return out


def _on_the_engine(graph: Graph, moves: Sequence[Move]) -> list[dict[str, list[Any] | None]]:
    """What the engine emits that runs pipelines."""
    engine, ended, out = TimedEngine(graph, mode="python"), set[str](), []
    names = [name for name, _ in graph.outputs]
    for move in moves:
        try:
            if isinstance(move, Rows):
                found = engine.push(**_columns(graph, move))
            elif isinstance(move, Silent):
                engine.idle(move.source)
                found = _shown(engine.move())
            elif isinstance(move, Ends):
                ended.add(move.source)
                position = graph.position
                engine.clocks.end(position[at] for at, by in feeders(graph).items() if ended.issuperset(by))
                found = _shown(engine.move())
            else:
                assert isinstance(move, Finish)
                found = engine.finish()
        except StepError:
            out.append(dict.fromkeys(names))
            break
        out.append({name: list(found[name] if isinstance(found, dict) else found) for name in names})
    return out


def _shown(outputs: Any) -> dict[str, list[Any]]:
    return {o.name: o.events() for o in outputs}


def _line(graph: Graph, move: Move, view: TimedView, file: str, imports: Imports) -> list[str]:
    if isinstance(move, Rows):
        columns = _columns(graph, move)
        if any(e is silent for column in columns.values() for e in column):
            imports.tools.add("silent")
        texts = {
            name: "[" + ", ".join("silent" if e is silent else literal(e, file, imports) for e in column) + "]"
            for name, column in columns.items()
        }
        call = f"engine.push({', '.join(f'{n}={t}' if len(texts) > 1 else t for n, t in texts.items())})"
    elif isinstance(move, Finish):
        call = "engine.finish()"
    elif isinstance(move, Silent):
        return [
            f"    engine.idle({json.dumps(move.source)})",
            *_said("engine.push(" + _none(graph) + ")", graph, view, file, imports),
        ]
    else:
        return [f"    # {move}: only a run with epochs knows that; what follows is without it"]
    return _said(call, graph, view, file, imports)


def _none(graph: Graph) -> str:
    names = [graph.nodes[i].id for i in graph.sources]
    return "[]" if len(names) == 1 else ", ".join(f"{name}=[]" for name in names)


def _said(call: str, graph: Graph, view: TimedView, file: str, imports: Imports) -> list[str]:
    if view.failed:
        error = "LateError" if "late" in view.failed else "StepError"
        imports.tools |= {"pytest"}
        imports.ours.add(f"from pellucid.errors import {error}")
        return [f"    with pytest.raises({error}):", f"        {call}"]
    outputs = dict(view.outputs)
    value: Any = next(iter(outputs.values())) if len(outputs) == 1 else outputs
    return [f"    assert {call} == {literal(value, file, imports)}"]


def is_late(error: StepError | None) -> bool:
    """Whether a run ended because something came too late."""
    return isinstance(error, LateError)
