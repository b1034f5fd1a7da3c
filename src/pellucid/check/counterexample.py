"""Counterexamples of pipelines: the pushes, what every stream carried, what waits; as tables and as tests."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pellucid.check.formula import (
    CTL,
    Formula,
    evaluate_finite,
    evaluate_lasso,
    explain,
    is_invariant,
    kind,
    terms,
)
from pellucid.check.formula.nodes import Flag, always_possible
from pellucid.check.formula.parse import parse
from pellucid.check.formula.resolve import conditions
from pellucid.check.functions.called import Fickle
from pellucid.check.history import linear
from pellucid.check.side_by_side import same_event
from pellucid.check.system.build import HIDDEN, System
from pellucid.check.system.domains import Domain
from pellucid.check.system.variables import Slot
from pellucid.errors import IntOverflow, StepError, UsageError
from pellucid.internal.draw.labels import clean, shorten
from pellucid.internal.engine.in_memory import trace_in_memory
from pellucid.internal.engine.interpreter import Event, Interpreter
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.tracing.mistakes import refuse_undefined
from pellucid.internal.expr.types import BOOL, INT, Type, conform, simplest
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.stream import silent
from pellucid.internal.model.counterexample import Counterexample
from pellucid.internal.model.pytest_file import Case, Imports, literal
from pellucid.internal.model.sheet import Row, Sheet, as_json

# Counterexamples happen: the pushes are run on the interpreter and on the kernel engine before they are shown.


@dataclass(frozen=True)
class StepView:
    """One push of a counterexample: what came in, what every stream carried, what waits after it.

    ``inputs`` has an entry for each source that is not silent; ``streams`` the events of every named stream (an empty
    list: silence); ``queues`` the contents of every queue after the push.
    """

    inputs: Mapping[str, Any]
    streams: Mapping[str, list[Any]] = field(default_factory=dict)
    queues: Mapping[str, list[Any]] = field(default_factory=dict)


class WatchedInterpreter(Interpreter):
    """An interpreter that remembers what every stream carried in the last push."""

    carried: dict[str, list[Any]]
    lost: frozenset[str] = frozenset()

    def push(self, events: Any = None, **more: Any) -> dict[str, list[Any]]:
        self.carried = {}
        given = {**(events or {}), **more}
        try:
            out = super().push(given)
        except StepError as error:
            refuse_undefined(error, f"step {error.step!r}" if error.step else self.graph.name)
            raise
        sources = [self.graph.nodes[i] for i in self.graph.sources]
        self.carried |= {node.id: [conform(node.type, given[node.id])] if node.id in given else [] for node in sources}
        return out

    def step(self, node: Node, inputs: Sequence[list[Event]]) -> list[Event]:
        out = super().step(node, inputs)  # it runs, and loses what it emits
        out = [] if node.id in self.lost else out
        self.carried[node.id] = [value for _, value in out]
        return out


def _second(g: Graph, on_engine: bool) -> Callable[[dict[str, Any]], dict[str, list[Any]]] | None:
    """What runs the pipeline a second time: the kernel engine, or the interpreter where functions are called."""
    if not on_engine:
        return Interpreter(g).push if g.opaque() else None
    engine, names = Engine(g, mode="python"), [g.nodes[at].id for at in g.sources]

    def push(events: dict[str, Any]) -> dict[str, list[Any]]:
        out = engine.push(**{name: [events[name]] if name in events else [] for name in names})
        return out if isinstance(out, dict) else {g.outputs[0][0]: out}

    return push


def _compare(g: Graph, out: dict[str, list[Any]], again: dict[str, list[Any]]) -> None:
    """Both runs must emit the same; if not, one of them is wrong, or a function is, and no counterexample is shown."""
    if repr(again) == repr(out):
        return
    if called := list(dict.fromkeys(fn.name for _, fn in g.opaque())):
        raise Fickle(
            f"{g.name} emits {out} and then {again} on the same events: {', '.join(called)} is no function of its "
            "arguments, so nothing is proved or refuted of it"
        )
    raise AssertionError(f"{g.name}: the interpreter emits {out}, the kernel engine {again}")


def _called(g: Graph, *, alone: bool) -> dict[str, str]:
    """How sources and steps are shown whose name is that of another stream, an output."""
    kinds = {g.nodes[at].id: "source" for at in g.sources}
    taken = [
        name for name, at in g.outputs if name in g.position and g.position[name] != at and (alone or name not in kinds)
    ]
    return {name: f'{kinds.get(name, "step")}("{name}")' for name in taken}


def replay(
    graphs: Sequence[Graph], pushes: Sequence[dict[str, Any]], *, on_engine: bool = False
) -> tuple[StepView, ...]:
    """What really happens on these pushes: every stream and every queue, step by step.

    A pipeline that fails is silent from there on, and where all have the replay ends; the view of that push has the
    streams that were reached.  Of several graphs the names of steps and queues get the graph's place in front
    (``1:out``, ``2:out``), and the pushes name the sources of the first: the others have theirs in the same order.
    ``lost.STEP`` in a push makes that stream lose its events; ``on_engine`` runs the kernel engine as well, which must
    emit the same.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.trim(1, id="rest"), x=int)
    >>> [view.streams["rest"] for view in replay([p.graph], [{"x": 1}, {}, {"x": 2}])]
    [[], [], [2]]
    """
    runs = [WatchedInterpreter(g) for g in graphs]
    lossy = any(key.startswith("lost.") for push in pushes for key in push)  # a second run loses nothing
    seconds = [None if lossy else _second(g, on_engine) for g in graphs]
    views = []
    first = [graphs[0].nodes[at].id for at in graphs[0].sources]
    failed: set[int] = set()
    for push in pushes:
        if len(failed) == len(graphs):
            break
        shown = dict(push)
        streams: dict[str, list[Any]] = {}
        queues: dict[str, list[Any]] = {}
        for i, (g, run) in enumerate(zip(graphs, runs, strict=True), 1):
            mark = f"{i}:" if len(graphs) > 1 else ""
            names = [g.nodes[at].id for at in g.sources]
            called = _called(g, alone=len(graphs) == 1)
            if i > 1:
                given = {mine: push[name] for mine, name in zip(names, first, strict=True) if name in push}
                shown |= {name: event for name, event in given.items() if name not in first}
            else:
                given = {name: push[name] for name in names if name in push}
            streams |= {
                called.get(name, name): [given[name]] if name in given else []
                for name in names
                if i == 1 or name not in first
            }
            if i in failed:  # each fails for itself, and is silent from there on
                streams |= {f"{mark}{name}": [] for name, _ in g.outputs}
                continue
            run.lost = frozenset(key[5:] for key in push if key.startswith("lost."))
            try:
                out = run.push({name: event for name, event in given.items() if name not in run.lost})
            except StepError:
                out = {}
                failed.add(i)
            second = seconds[i - 1]
            if i not in failed and second is not None:
                _compare(g, out, second(given))
            streams |= {
                f"{mark}{called.get(id, id)}": list(values) for id, values in run.carried.items() if id not in names
            }
            streams |= {f"{mark}{name}": list(values) for name, values in out.items()}
            queues |= {f"{mark}{id}": list(values) for id, values in run.queues.items()}
        views.append(StepView(shown, streams, queues))
    return tuple(views)


# The sheet of a pipeline's counterexample: sources first, then outputs and the steps that were asked about, then the
# queues whose contents change.

_DERIVED = re.compile(r"\w+-[0-9a-f]{6}(-\d+)?")  # an id that the user did not choose: filter-21ef3c


def asked_about(example: Pushes, question: str) -> set[str]:
    """The streams that a question names, so that they are shown.

    >>> from pellucid import check, pipeline
    >>> p = pipeline(lambda x: x.map(abs, id="size").trim(1), x=int)
    >>> example = check.holds(p, "AG (size -> size.value < 3)").counterexample
    >>> sorted(asked_about(example, "AG (size -> size.value < 3)"))
    ['size']
    """
    words = set(re.findall(r"[\w/-]+", question))
    return {name for step in example.steps for name in step.streams if name in words}


def sheet_of(example: Pushes, *, show: Collection[str] = (), steps: bool = False) -> Sheet:
    """The table of a counterexample; ``show`` names more streams, ``steps`` shows all that the user gave an id.

    >>> from pellucid import check, pipeline
    >>> late = pipeline(lambda x: x.trim(1) - x, x=int)
    >>> sheet = sheet_of(check.holds(late, "G (x -> out)").counterexample)
    >>> [(row.kind, row.cells) for row in sheet.rows if row.kind != "queue"]
    [('source', ([0],)), ('output', ([],))]
    """
    two = len(example.graphs) > 1
    rows: list[Row] = []
    for i, graph in enumerate(example.graphs, 1):
        mark = f"{i}:" if two else ""
        rows += _sources(example, graph, rows if i > 1 else None)
        outputs = {name: graph.nodes[at].kind for name, at in graph.outputs}
        rows += [_row(example, "output", f"{mark}{name}", kind) for name, kind in outputs.items()]
        named = {n.id: n.kind for n in graph.nodes if n.kind != "source" and n.id not in outputs}
        for id, family in named.items():
            wanted = f"{mark}{id}" in show or id in show or (steps and not _DERIVED.fullmatch(id))
            if wanted and id not in {graph.nodes[at].id for _, at in graph.outputs}:
                rows.append(_row(example, "step", f"{mark}{id}", family))
    for id in dict.fromkeys(id for step in example.steps for id in step.queues):
        cells = tuple(step.queues.get(id, []) for step in example.steps)
        if any(cells):
            rows.append(Row("queue", id, cells, "queue"))
    order = {"source": 0, "output": 1, "step": 2, "queue": 3}
    rows.sort(key=lambda row: order[row.kind])
    return _marked(example, tuple(rows))


def _row(example: Pushes, kind: str, name: str, family: str) -> Row:
    own = f'{kind}("{name}")'  # where an output has the same name
    name = own if any(own in step.streams for step in example.steps) else name
    return Row(kind, name, tuple(step.streams.get(name) for step in example.steps), family)


def _sources(example: Pushes, graph: Graph, before: list[Row] | None) -> list[Row]:
    """The sources; of the second of two graphs none is new, only its name may be."""
    names = [graph.nodes[at].id for at in graph.sources]
    if before is None:
        return [_row(example, "source", name, "source") for name in names]
    for i, name in enumerate(names):
        if before[i].name != name:
            before[i] = dataclasses.replace(before[i], name=f"{before[i].name} (2:{name})")
    return []


def first_difference(example: Pushes) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Where the i-th events of two pipelines' first outputs differ: (push, place in it) in each.

    >>> from pellucid import check, pipeline
    >>> a, b = pipeline(lambda x: x.trim(1), x=int), pipeline(lambda x: x.trim(2), x=int)
    >>> first_difference(check.equivalent(a, b, how="sequence").counterexample)
    ((1, 0), (2, 0))
    """
    places = []
    for i, graph in enumerate(example.graphs, 1):
        name = f"{i}:{graph.outputs[0][0]}"
        carried = [step.streams.get(name) or [] for step in example.steps]
        places.append([(push, at, event) for push, events in enumerate(carried) for at, event in enumerate(events)])
    for (p, i, left), (q, j, right) in zip(*places, strict=False):
        if left != right:
            return (p, i), (q, j)
    return None


def _marked(example: Pushes, rows: tuple[Row, ...]) -> Sheet:
    last = len(example.steps) - 1
    failed = [row.name for row in rows if row.kind == "output" and row.cells and row.cells[-1] is None]
    sheet = Sheet(rows, len(example.steps), example.loop, (last,) if last >= 0 else (), example.why)
    if len(example.graphs) == 2:
        names = [f"{i}:{graph.outputs[0][0]}" for i, graph in enumerate(example.graphs, 1)]
        pairs = [(step.streams.get(names[0]), step.streams.get(names[1])) for step in example.steps]
        apart = [push for push, (a, b) in enumerate(pairs) if a != b]
        found = first_difference(example)
        # Of a shortest step-wise difference only the last push differs; earlier ones are a delay, which is allowed.
        if apart and (apart[0] == last or found is None):
            differ = frozenset((name, apart[0]) for name in names)
            return dataclasses.replace(
                sheet,
                marks=(apart[0],),
                differ=differ,
                words=example.why or (_failure(example) if failed else "they differ here"),
            )
        if found is not None:
            (p, _), (q, _) = found
            marks = tuple(sorted({p, q}))
            differ = frozenset([(names[0], p), (names[1], q)])
            return dataclasses.replace(sheet, marks=marks, differ=differ, words=example.why or "these should be equal")
    if failed:
        return dataclasses.replace(sheet, words=example.why or _failure(example))
    if example.loop is not None:
        return dataclasses.replace(sheet, marks=())
    return dataclasses.replace(sheet, words=example.why or "here")


def _failure(example: Pushes) -> str:
    """What the step that fails says: the pushes are run once more."""
    for graph in example.graphs:
        own = {graph.nodes[at].id for at in graph.sources}
        try:
            Interpreter(graph).run([{k: v for k, v in push.items() if k in own} for push in example.inputs])
        except StepError as error:
            return shorten(clean(str(error).partition("\n")[0]), 200)
    return "a step fails here"


# The input stream, push by push, that breaks a property; a liveness property is refuted by a lasso.


@dataclass(frozen=True)
class Pushes(Counterexample):
    """A counterexample of one pipeline, or of two that were compared: ``steps`` are views of its pushes."""

    steps: tuple[StepView, ...] = ()

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """The pushes, ready for ``Interpreter.run`` or an engine."""
        return [dict(step.inputs) for step in self.steps]

    def sheet(self, question: str = "", *, everything: bool = False) -> Sheet:
        return sheet_of(self, show=asked_about(self, question), steps=everything)

    def document(self) -> dict[str, Any]:
        return {
            "pipelines": [graph.name for graph in self.graphs],
            "loop": self.loop,
            "why": self.why,
            "steps": [
                {
                    "push": i,
                    "in": as_json(step.inputs),
                    "streams": as_json(step.streams),
                    "queues": as_json(step.queues),
                }
                for i, step in enumerate(self.steps)
            ],
        }

    def test(self, case: Case, imports: Imports) -> list[str]:
        return lines_of(self, case, imports)

    def replay(self) -> bool:
        """Whether these pushes have these events and queues once more, on the interpreter and on the engine."""
        return repr(replay(self.graphs, self.inputs, on_engine=True)) == repr(self.steps)  # NaN is itself


# ---------------------------------------------------------------- as a test on the real engine

_ROUNDS = 3  # of a stream that repeats for ever


def lines_of(example: Pushes, case: Case, imports: Imports) -> list[str]:
    """The lines of a test, below its name."""
    if len(case.names) != len(example.graphs) or not all(case.names):
        raise UsageError(f"a test of {len(example.graphs)} pipeline(s) needs as many names, found {case.names!r}")
    files = case.files if len(case.files) == len(case.names) else case.files * len(case.names)
    lines = [f"    # {line}" for line in _comment(example, case.question)]
    sources = [example.graphs[0].nodes[at].id for at in example.graphs[0].sources]
    pushes = example.inputs
    if example.loop is not None:
        pushes = pushes[: example.loop] + _ROUNDS * pushes[example.loop :]
    for source in sources:
        lines.append(f"    {_variable(source, case.names)} = {_column(example, source, files[0], imports)}")
    for graph, file, called in zip(example.graphs, files, case.names, strict=True):
        imports.need(file, called)
        lines += _observed(graph, called, [_variable(s, case.names) for s in sources], pushes, file, imports)
    return lines


def _comment(example: Pushes, question: str) -> list[str]:
    lines = []
    with contextlib.suppress(UsageError):  # a question with a name is a sentence already
        lines.append(explain(parse(question)))
    if example.why:
        lines.append(clean(example.why))
    if example.loop is not None:
        lines.append(f"What is after the + is pushed again and again; here {_ROUNDS} times.")
    return lines


def _column(example: Pushes, source: str, file: str, imports: Imports) -> str:
    """The events of a source as Python; what repeats is written once."""
    texts = []
    for push in example.inputs:
        if source in push:
            texts.append(literal(push[source], file, imports))
        else:
            imports.tools.add("silent")
            texts.append("silent")
    if example.loop is None:
        return f"[{', '.join(texts)}]"
    before, again = texts[: example.loop], texts[example.loop :]
    return (f"[{', '.join(before)}] + " if before else "") + f"{_ROUNDS} * [{', '.join(again)}]"


def _observed(
    graph: Graph, called: str, variables: list[str], pushes: list[dict[str, Any]], file: str, imports: Imports
) -> list[str]:
    """What the real engine does on these pushes, as assertions."""
    own = [graph.nodes[at].id for at in graph.sources]
    given = ", ".join(a if len(own) == 1 else f"{b}={a}" for a, b in zip(variables, own, strict=True))
    data = {b: [push.get(b, silent) for push in pushes] for b in own}
    try:
        trace = trace_in_memory(graph, (), data)
    except StepError as error:
        imports.tools |= {"pytest", "StepError"}
        return [
            "    with pytest.raises(StepError) as failure:",
            f"        {called}.trace({given})",
            f"    assert (failure.value.step, failure.value.position) == ({json.dumps(error.step)}, {error.position})",
        ]
    lines = [f"    assert {called}.trace({given}) == {literal(trace, file, imports)}"]
    run = Interpreter(graph)
    run.run([{b: push[b] for b in own if b in push} for push in pushes])
    waiting = {id: len(queue) for id, queue in run.queues.items()}
    if any(waiting.values()):
        lines.append(f"    engine = {called}.engine()")
        lines.append(f"    engine.push({given})")
        lines.append(f"    assert engine.queues == {json.dumps(waiting, ensure_ascii=False)}")
    return lines


def _variable(source: str, taken: tuple[str, ...]) -> str:
    """A name for the events of a source that hides nothing the test needs."""
    hidden = (*taken, "StepError", "engine", "failure", "pytest", "silent")
    return f"{source}_events" if source in hidden else source


# Formulas on what really happened: the pushes are run on the interpreter, and each atom is judged on what every stream
# carried.
#
# No queue has a bound here, and nothing is made symbolic but the names: in each push a stream has as many places as it
# carried events.


def atoms_on(
    graph: Graph, formula: Formula, pushes: Sequence[Mapping[str, Any]], *, bounds: Mapping[str, int] | None = None
) -> list[dict[Formula, bool]]:
    """For each push, which atoms of the formula hold.

    With ``bounds`` for the queues a push that needs a longer one is the last: there is an overflow, and silence from
    there on.

    >>> from pellucid import pipeline
    >>> from pellucid.check.formula.parse import parse
    >>> p = pipeline(lambda x: x.task(lambda s, v: (s, [v, v + 1]), 0), x=int)
    >>> f = parse("any(out.value > 3) & out.value > 3 & out.count = 2")
    >>> [list(holds.values()) for holds in atoms_on(p.graph, f, [{"x": 3}, {}, {"x": 4}])]
    [[True, False, True], [False, False, False], [True, True, True]]
    """
    for term in terms(formula):
        if isinstance(term, Flag) and term.name != "failed" and bounds is None:
            raise UsageError(
                f"{formula}: one stream is run with queues of any length, so nothing is ever full: "
                "compare queue(ID).length, or ask check.holds with queue="
            )
    run, failed, out = WatchedInterpreter(graph), False, []
    before: dict[str, Any] = {}  # the last event of each stream in an earlier push
    lengths = dict.fromkeys(run.queues, 0)
    over = False
    for push in pushes:
        carried: Mapping[str, list[Any]] = {}
        now = lengths
        if not failed and not over:
            run.lost = frozenset(key[5:] for key in push if key.startswith("lost."))
            try:
                run.push(
                    {
                        name: event
                        for name, event in push.items()
                        if not name.startswith("lost.") and name not in run.lost
                    }
                )
                now = run.lengths()
                over = bounds is not None and any(length > bounds[id] for id, length in now.items())
            except StepError:
                failed = True
            if not failed and not over:
                carried, lengths = run.carried, now
        seen = _Seen()
        system = seen.system(graph, carried, before, now, failed)
        if bounds is not None:
            system = dataclasses.replace(system, bounds=bounds, overflow=seen.var(BOOL, over))
        out.append(_judged(formula, seen, system))
        before = {**before, **{id: events[-1] for id, events in carried.items() if events}}
    return out


@dataclass
class _Seen:
    """The values that were seen in a push, as variables of a system."""

    values: list[Any] = field(default_factory=list)

    def var(self, t: Type, value: Any) -> Expr:
        self.values.append(value)
        return n.var(len(self.values) - 1, t)

    def slots(self, t: Type, events: Sequence[Any]) -> tuple[Slot, ...]:
        if not events:
            return ()
        kinds = [kind for _, kind in t.leaves()]
        return tuple(Slot(n.TRUE, tuple(map(self.var, kinds, t.flatten(event)))) for event in events)

    def system(
        self,
        graph: Graph,
        carried: Mapping[str, list[Any]],
        before: Mapping[str, Any],
        lengths: Mapping[str, int],
        failed: bool,
    ) -> System:
        """A system whose only push is this one."""
        outputs = {name: graph.nodes[i].id for name, i in graph.outputs}
        place = dict(graph.position)
        place |= {f"{HIDDEN}{id}": i for id, i in place.items() if outputs.get(id, id) != id} | dict(graph.outputs)
        streams = {}
        for name, i in place.items():
            node = graph.nodes[i]
            streams[name] = node.type, self.slots(node.type, carried.get(node.id, []))
            streams[f"Y {name}"] = node.type, self.slots(node.type, [before[node.id]] if node.id in before else [])
        sources = tuple((graph.nodes[i].id, graph.nodes[i].type) for i in graph.sources)
        shown = {id: self.var(INT, length) for id, length in lengths.items()}
        return System(
            graph.name,
            Domain(),
            (),
            (),
            (),
            streams,
            shown,
            {},
            n.FALSE,
            self.var(BOOL, failed),
            sources,
            strict=True,
            outputs=outputs,
        )


def _judged(formula: Formula, seen: _Seen, system: System) -> dict[Formula, bool]:
    out = {}
    memo: dict[int, Any] = {}
    for atom, condition in conditions(formula, system):
        try:
            out[atom] = bool(evaluate(condition, seen.values, memo, exact=True))
        except (ArithmeticError, ValueError):  # an atom whose own calculation fails does not hold
            out[atom] = False
    return out


# A counterexample counts only if the property is violated there: judged on what the literal interpreter really puts
# out.
#
# An engine searches a system, which is one reading of the pipeline; the interpreter is another, and the one that
# defines what is meant. If the property is not violated on the interpreter, one of the two is wrong: nothing is
# *refuted* then, and the verdict names the disagreement.
#
# A run without a loop is continued by silence: what is refuted by its beginning is refuted whatever follows. A loop is
# gone round until what is seen of it repeats. What one run cannot show (a formula that asks for another run from some
# state) is tried as far as runs go. Arithmetic modulo N is not the interpreter's, so nothing is judged there.

_TURNS = 12  # of a loop
Given = Sequence[Mapping[str, Any]]
Violated = Callable[[Pushes, Given, int | None], bool | None]


def disagreement(graphs: Sequence[Graph], pushes: Given) -> str:
    """The word for a counterexample that is none."""
    run = "; ".join(", ".join(f"{name} = {value!r}" for name, value in push.items()) or "silence" for push in pushes)
    for graph in graphs:
        names = {graph.nodes[i].id for i in graph.sources}
        literal = Interpreter(graph)
        try:
            for push in pushes:
                literal.push({name: value for name, value in push.items() if name in names})
        except IntOverflow:
            return (
                f"refuted over exact integers only: on {run} the pipeline fails, because an integer leaves 64 bits, "
                "before the property is violated"
            )
        except StepError:
            continue
    return (
        f"internal disagreement: a search found {run}, but on the interpreter the property is not violated there; "
        "please report it"
    )


def formula_violated(graph: Graph, f: Formula, domain: Domain, bounds: Mapping[str, int] | None) -> Violated:
    """Of a formula; ``bounds`` are those of the queues, where the formula speaks of them."""

    def violated(_: Pushes, pushes: Given, loop: int | None) -> bool | None:
        flat = linear(f) if any(part.op in CTL for part in f.walk()) else f
        if flat is not None:
            return _linear(flat, pushes, loop)
        goal = always_possible(f)
        return None if goal is None else _never_again(goal, pushes)

    def _linear(flat: Formula, pushes: Given, loop: int | None) -> bool | None:
        if loop is None:
            # what is refuted in some push of its own needs no silence after it
            run = [*pushes] if pushes and is_invariant(f) is not None else [*pushes, {}, {}]
            if not evaluate_lasso(flat, atoms_on(graph, flat, run, bounds=bounds), len(run) - 1):
                return True
            # Of a formula of CTL the run may be the beginning only of one that shows it.
            return False if is_invariant(f) is not None or kind(f) == "ltl" else None
        turn = list(pushes[loop:])
        seen = atoms_on(graph, flat, [*pushes, *turn * _TURNS], bounds=bounds)
        last = len(seen) - len(turn)
        if seen[last:] != seen[last - len(turn) : last]:
            return None  # it has not come to repeat what is seen
        return not evaluate_lasso(flat, seen, last)

    def _never_again(goal: Formula, pushes: Given) -> bool | None:
        if domain.assume:
            return None  # what comes then must be such as is assumed
        for push in [{}, *pushes, *_some_pushes(graph, domain)]:
            more = atoms_on(graph, goal, [*pushes, *[push] * _TURNS], bounds=bounds)[len(pushes) :]
            if any(evaluate_finite(goal, [label]) for label in more):
                return False
        return True

    return violated


def _some_pushes(graph: Graph, domain: Domain) -> list[dict[str, Any]]:
    """A few pushes with an event of every source."""
    few = domain if domain.values is not None else dataclasses.replace(domain, values=(0, 1, -1, 7))
    kinds = {graph.nodes[i].id: graph.nodes[i].type for i in graph.sources}
    pools = {}
    for name, t in kinds.items():
        events = [t.event(leaves) for leaves in islice(few.events(t) or [], 8)]
        pools[name] = events or [t.event([simplest(kind) for _, kind in t.leaves()])]
    return [{name: pool[i % len(pool)] for name, pool in pools.items()} for i in range(max(map(len, pools.values())))]


def _carried(example: Pushes, side: int) -> list[list[Any] | None]:
    """What the output of one of two pipelines carried in each push; None where it failed."""
    name = f"{side}:{example.graphs[side - 1].outputs[0][0]}"
    return [step.streams.get(name) for step in example.steps]


def step_violated(example: Pushes, pushes: Given, loop: int | None) -> bool:
    """In some push the two do not carry the same events, or one of them fails and the other does not."""
    return _apart(example, same_event)


def implication_violated(example: Pushes, pushes: Given, loop: int | None) -> bool:
    """In some push the two do not carry as many Booleans, the second says false where the first says true, or one alone
    fails."""
    return _apart(example, lambda x, y: bool(not x or y))


def _apart(example: Pushes, fit: Callable[[Any, Any], bool]) -> bool:
    for a, b in zip(_carried(example, 1), _carried(example, 2), strict=True):
        if a is None or b is None:
            return a is not b
        if len(a) != len(b) or not all(map(fit, a, b)):
            return True
    return False


def sequence_violated(example: Pushes, pushes: Given, loop: int | None) -> bool:
    """Something differs at the same place of the two sequences, or what one emits has not come in the other after
    many turns."""
    turn = list(pushes[loop:]) if loop is not None else []
    first = example.graphs[0]
    few = [emitted(g, pushes, first) for g in example.graphs]
    if any(not same_event(x, y) for x, y in zip(*few, strict=False)):
        return True
    many = [emitted(g, [*pushes, *turn * _TURNS], first) for g in example.graphs]
    if any(not same_event(x, y) for x, y in zip(*many, strict=False)):
        return True
    return loop is not None and (len(many[1]) < len(few[0]) or len(many[0]) < len(few[1]))


def paper_violated(example: Pushes, pushes: Given, loop: int | None) -> bool:
    """Both have an output at the same place of the sequence, and the two differ."""
    turn = list(pushes[loop:]) if loop is not None else []
    first, second = (emitted(g, [*pushes, *turn * _TURNS], example.graphs[0], failures=False) for g in example.graphs)
    return any(x != y for x, y in zip(first, second, strict=False))


def emitted(graph: Graph, pushes: Given, first: Graph, *, failures: bool = True) -> list[Any]:
    """What comes out on these pushes, which name the sources of the first graph: the other has its own in the same
    order; at last that it fails."""
    names = {first.nodes[i].id: graph.nodes[j].id for i, j in zip(first.sources, graph.sources, strict=True)}
    out = graph.outputs[0][0]
    literal, made = Interpreter(graph), []
    for push in pushes:
        try:
            made += [
                ("event", event) for event in literal.push({names[k]: v for k, v in push.items() if k in names})[out]
            ]
        except StepError:
            return [*made, ("failed", None)] if failures else made
    return made


def monitor_violated(example: Pushes, pushes: Given, loop: int | None) -> bool:
    """Some event that the pipeline emits is not true, or it fails."""
    out = example.graphs[0].outputs[0][0]
    return any(step.streams.get(out) is None or not all(step.streams[out]) for step in example.steps)
