"""One table: pipelines × questions × engines, each answer held against brute force.

Brute force runs every input stream up to a length on the literal interpreter.  A formula (``G`` over atoms, ``X`` and
the past) is *broken* by a stream that shows it, however it goes on.  So of every engine:

* what is refuted is broken by its own counterexample, which is as short as the shortest stream that breaks it;
* what is proved is broken by no stream;
* *unknown* is an answer only where the row says so, or of random pipelines.

Two pipelines are compared in the same way; the second one is a mutant of the first, with one small breakage.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice, product
from typing import Any, NamedTuple

import pytest

from pellucid import Mod, Pipeline, UsageError, apply, check, merge, pipeline
from pellucid.check.answer import Answer, expression
from pellucid.check.counterexample import atoms_on
from pellucid.check.decide import Options, decide
from pellucid.check.formula import Formula, evaluate_lasso, resolve
from pellucid.check.formula.parse import parse
from pellucid.check.system.build import System, build_system, cone
from pellucid.check.system.domains import domain_of
from pellucid.errors import StepError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import BOOL, INT, simplest
from pellucid.internal.graph.build import instantiate
from pellucid.internal.graph.model import Graph
from tests.check.reference import decide_by_reference
from tests.strategies import Choice, Seeded, make_pipeline
from tests.volumes import some_seeds

Push = dict[str, Any]


# ---------------------------------------------------------------- the table


class Kind(enum.Enum):
    IN = 1
    OUT = 2


class Sale(NamedTuple):
    price: int | None
    kind: Kind | None


class Row(NamedTuple):
    """A pipeline, the integers and the length of its streams, and what is asked of it."""

    build: Callable[..., Any]
    formulas: tuple[str, ...]
    sources: dict[str, Any] = {"x": int}  # noqa: RUF012
    ints: Any = range(3)
    length: int = 4
    engines: tuple[str, ...] = ("auto", "explicit", "smt")
    unknown: bool = False  # also of formulas that an engine may leave open
    seconds: float = 5.0  # of one question


def total(x: Any) -> Any:
    return x.cumulate(lambda t, v: t + v, start=0)


def changes(x: Any) -> Any:
    return x.task(lambda s, v: (v, [v] if v != s else []), 0)


def waiting(x: Any) -> Any:
    return apply(lambda a, b: a + b, x.decimate(2), x)


def highest(top: int, v: int | None) -> int:
    return top if v is None or v < top else v


def last_price(state: tuple[int, int], e: Sale) -> tuple[tuple[int, int], list[int]]:
    price, missing = state
    if e.price is None:
        return (price, min(missing + 1, 2)), [price] if e.kind is Kind.OUT else []
    return (e.price, 0), [e.price + missing]


def twice(state: int, v: int) -> tuple[int, list[int]]:
    return v, [v, state] if v > 0 else []


PRESENCE = ("G (out -> x)", "G (out -> X !out)", "G (x & X x -> out | X out)")
VALUES = ("G (out -> out.value > 0)", "G (out -> out.value <= 2)", "G (out -> out.value = x.value)")
PAST = (
    "G (out -> Y O x.value = 1)",
    "G (out.value = 1 -> O x.value = 1)",
    "G (out -> H !(x.value = 2))",
    "G (x.value = 0 -> (!(out.value = 2) S x))",
    "G (out & Y x -> x.value = Y x.value | O x.value = 2)",
)
EVENTS = ("G (out -> any(out.value > 1))", "G (out.count < 2)", "G (out -> out.first >= out.last)")
OPTIONAL = ("G (out -> out.value <= 6)", "G (out -> out.value >= 5)", "G (out -> out.value != 0)")

TABLE: dict[str, Row] = {
    "map": Row(lambda x: x.map(lambda v: v * 2 - 1), (*VALUES, *PAST)),
    "filter": Row(lambda x: x.filter(lambda v: v % 2 == 1), (*PRESENCE, *VALUES, *PAST)),
    "filter by": Row(lambda x: x.filter(x.trim(1) > 0), ("G (out -> out.value > 0)", "G (out -> Y O x)")),
    "cumulate": Row(total, (*PRESENCE, *VALUES)),
    "decimate": Row(lambda x: x.decimate(2), (*PRESENCE, *PAST)),
    "trim": Row(lambda x: x.trim(1), (*PRESENCE, "G (x & !Y O x -> !out)", "G (out -> Y O x)")),
    "window": Row(lambda x: x.window(2, pipeline(total, x=int)), (*PRESENCE, *VALUES)),
    "task": Row(changes, (*PRESENCE, *VALUES, *PAST)),
    "several events": Row(lambda x: x.task(twice, 0), (*EVENTS, *VALUES)),
    "merge": Row(lambda x: merge(x, x.trim(1).map(lambda v: v + 1)), (*EVENTS, "G (out -> out.value <= 3)")),
    "several of a push": Row(  # found by a hunt: the third push emits 3, 0 and 1, and each of them counts
        lambda x: merge(x, x, x.lag(2).map(lambda p: p[1])).cumulate(lambda a, v: (a + 1) % 4, start=0),
        ("G (out -> out.value <= 2)", "G (out -> any(out.value = 1))"), length=3, seconds=2.0,
    ),
    "lag": Row(lambda x: x.lag(1).map(lambda p: p[0] - p[1]), (*VALUES, "G (out -> x.value != Y x.value)")),
    "apply": Row(lambda x: x - x.trim(1), (*VALUES, "G (x & Y x -> out)")),
    "a bounded queue": Row(lambda x: apply(lambda a, b: a + b, x.trim(2), x), ("G !out", *VALUES), length=5),
    "a queue that grows": Row(lambda x: x.decimate(2) + x, ("G !out", "G (out -> Y x)", "G (out -> out.value <= 3)")),
    "two sources": Row(
        lambda x, y: x + y,
        ("G !out", "G (out -> x | y)", "G (out -> out.value <= 2)", "G (x & y -> out)"),
        {"x": int, "y": int}, range(2), 3,
    ),
    "fails": Row(lambda x: x.map(lambda v: 4 // v), ("G (x -> out)", "G !failed", "G (failed -> X !out)")),
    "Booleans": Row(
        lambda x: x.cumulate(lambda a, v: a ^ v, start=False), ("G out.value", "G (out -> x)"), {"x": bool}
    ),
    "an enum": Row(
        lambda x: x.map(lambda k: 1 if k is Kind.IN else 0),
        ("G (out.value = 1 -> x.value = Kind.IN)", "G (out -> out.value = 1)"),
        {"x": Kind},
    ),
    "may be missing": Row(lambda x: x.map(lambda v: v or 0), OPTIONAL, {"x": int | None}, range(5, 8), 2),
    "highest of what is there": Row(
        lambda x: x.cumulate(highest, start=0), (*OPTIONAL, "G (out -> out.value >= 0)"), {"x": int | None}, {-1, 4}, 3
    ),
    "is it there": Row(
        lambda x: x.map(lambda v: 1 if v is None else 0),
        ("G (out.value = 1 <-> x & x.value = None)", "G (out -> out.value = 0)"),
        {"x": int | None}, range(5, 7), 2,
    ),
    "missing fields": Row(lambda x: x.task(last_price, (0, 0)), OPTIONAL, {"x": Sale}, range(5, 7), 2),
    "by key": Row(lambda x: x.key_by(lambda v: v % 2).decimate(2), (*PRESENCE, *PAST), unknown=True),
    "by its own key": Row(
        lambda x: x.key_by(lambda v: v).cumulate(lambda n, v: n + 1, start=0),
        (*VALUES, "G (out -> Y O !x)", "G (out.value = 2 -> Y O x)"), unknown=True, seconds=1.0,
    ),
    "a key within a key": Row(
        lambda x: changes(x.key_by(lambda v: v)).key_by(lambda v: v % 2).trim(1),
        PRESENCE, unknown=True,
    ),
    "a key made of what waits": Row(  # found by a hunt: such a key was looked up among the inputs
        lambda x: waiting(x.key_by(lambda v: v)).key_by(lambda v: v % 2),
        PAST[:3], length=3, engines=("auto",), unknown=True, seconds=0.5,
    ),
    "by a key that may be missing": Row(
        lambda x: x.key_by(lambda v: v).cumulate(lambda n, v: n + 1, start=0),
        ("G (out -> out.value < 2)", "G (out & x.value = None -> out.value < 2)"), {"x": int | None}, range(5, 7), 2,
    ),
}  # fmt: skip


def built(row: Row) -> Pipeline:
    return pipeline(row.build, **row.sources)


def pushes_of(row: Row) -> list[Push]:
    """Every push: an event of the domain for each source, or silence."""
    p = built(row)
    domain = domain_of(row.ints)
    pools: list[list[Push]] = []
    for i in p.graph.sources:
        node = p.graph.nodes[i]
        events = domain.events(node.type)
        assert events is not None
        pools.append([{}, *({node.id: node.type.event(leaves)} for leaves in events)])
    return [{name: event for part in parts for name, event in part.items()} for parts in product(*pools)]


def broken(p: Pipeline, f: Formula, pushes: list[Push]) -> bool:
    """Whether a stream that ends shows that ``G body`` is broken: it does not hold, however the stream goes on."""
    trace = atoms_on(p.graph, f, pushes)

    def holds(g: Formula, i: int) -> bool | None:  # None: that is seen later
        if g.op == "atom":
            return trace[i][g]
        if g.op == "X":
            return holds(g.args[0], i + 1) if i + 1 < len(trace) else None
        if g.op == "Y":
            return i > 0 and holds(g.args[0], i - 1)
        if g.op in ("O", "H"):
            found = [holds(g.args[0], j) for j in range(i + 1)]
            return any(found) if g.op == "O" else all(found)
        if g.op == "S":
            since = ([holds(g.args[1], j), *(holds(g.args[0], k) for k in range(j + 1, i + 1))] for j in range(i + 1))
            return any(map(all, since))
        parts = [holds(a, i) for a in g.args]
        match g.op:
            case "!":
                return None if parts[0] is None else not parts[0]
            case "->":
                parts[0] = None if parts[0] is None else not parts[0]
            case "<->":
                return None if None in parts else parts[0] == parts[1]
            case "&":
                return False if False in parts else None if None in parts else True
        return True if True in parts else None if None in parts else False

    return any(holds(f.args[0], i) is False for i in range(len(trace)))


def shortest(p: Pipeline, f: Formula, pushes: list[Push], most: int) -> int | None:
    """The length of the shortest stream that breaks a formula, by trying all."""
    for length in range(1, most + 1):
        for stream in product(pushes, repeat=length):
            if broken(p, f, list(stream)):
                return length
    return None


@pytest.mark.parametrize("name", TABLE)
def test_a_formula_on_every_engine(name: str) -> None:
    row = TABLE[name]
    p, pushes = built(row), pushes_of(row)
    for text in row.formulas:
        f = parse(text)
        wanted = shortest(p, f, pushes, row.length)
        for engine in row.engines:
            verdict = check.holds(
                p, f, ints=row.ints, engine=engine, warn=False, timeout=row.seconds, max_depth=row.length + 1
            )
            case = (text, engine, str(verdict), wanted)
            if verdict.refuted:
                assert verdict.counterexample is not None and verdict.counterexample.replay(), case
                assert broken(p, f, verdict.counterexample.inputs), case
                assert len(verdict.counterexample.inputs) == wanted or wanted is None, case
                assert wanted is not None or len(verdict.counterexample.inputs) > row.length, case
            else:
                assert wanted is None or (verdict.unknown and (row.unknown or engine == "smt")), case
                assert verdict.proved or row.unknown or engine != "auto", case


# ---------------------------------------------------------------- a pipeline and one that is broken in one place


def change(graph: Graph, i: int, **fields: Any) -> Graph:
    nodes = [dataclasses.replace(n, **fields) if j == i else n for j, n in enumerate(graph.nodes)]
    return dataclasses.replace(graph, nodes=tuple(nodes))


def rewritten(fn: Function, wrap: Any) -> Function:
    return Function.make(wrap(fn.plain), fn.params, task=fn.task, truth=fn.result == BOOL and len(fn.params) == 1)


def mutants(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Off by one, swapped operands, wrong start value, lost reset, wrong width, negated condition …"""
    for i, node in enumerate(graph.nodes):
        fn, kind = node.fn, node.kind
        if node.k is not None:
            yield f"{kind}: k + 1", change(graph, i, k=node.k + 1)
        if kind == "cumulate" and node.state == INT and fn is not None:
            yield "cumulate: wrong start", change(graph, i, start=node.start + 1)
            lost = rewritten(fn, lambda f, s=node.start: lambda a, v: f(s, v))
            yield "cumulate: lost reset", change(graph, i, fn=lost)
        if kind in ("map", "filter") and fn is not None and fn.result == BOOL:
            yield f"{kind}: negated", change(graph, i, fn=rewritten(fn, lambda f: lambda v: not f(v)))
        if kind == "map" and fn is not None and fn.result == INT:
            yield "map: off by one", change(graph, i, fn=rewritten(fn, lambda f: lambda v: f(v) + 1))
            yield "map: sign lost", change(graph, i, fn=rewritten(fn, lambda f: lambda v: abs(f(v))))
        if (kind == "apply" and fn is not None and len(set(fn.params)) == 1) or kind == "merge":
            yield f"{kind}: inputs swapped", change(graph, i, inputs=node.inputs[::-1])
        if node.sub is not None:
            for name, sub in mutants(node.sub):
                yield f"window over ({name})", change(graph, i, sub=sub)
        same = [j for j in node.inputs if graph.nodes[j].type == node.type and graph.nodes[j].key == node.key]
        if same:
            yield f"{kind}: left out", left_out(graph, i, same[0])


def left_out(graph: Graph, i: int, j: int) -> Graph:
    nodes = [dataclasses.replace(n, inputs=tuple(j if k == i else k for k in n.inputs)) for n in graph.nodes]
    outputs = tuple((name, j if at == i else at) for name, at in graph.outputs)
    return dataclasses.replace(graph, nodes=tuple(nodes), outputs=outputs)


def as_pipeline(graph: Graph, name: str) -> Pipeline:
    types = {graph.nodes[i].id: graph.nodes[i].type for i in graph.sources}
    names = ", ".join(types)
    build = {"build": lambda *s: instantiate(graph, list(s), ids=False)["out"]}
    fn = eval(f"lambda {names}: build({names})", build)
    fn.__name__ = name
    return pipeline(fn, **types)


def observed(p: Pipeline, pushes: list[Push]) -> list[Any]:
    run, out = Interpreter(p.graph), []
    for push in pushes:
        try:
            out.append(run.push(push)["out"])
        except StepError:
            return [*out, "failed"]
    return out


def difference(a: Pipeline, b: Pipeline, pushes: list[Push], most: int) -> int | None:
    """The length of the shortest stream on which two pipelines emit something else, by trying all."""
    for length in range(1, most + 1):
        if any(observed(a, list(s)) != observed(b, list(s)) for s in product(pushes, repeat=length)):
            return length
    return None


def compared(p: Pipeline, pushes: list[Push], ints: Any, most: int, engine: str = "auto", seconds: float = 2.0) -> int:
    """How many mutants were told apart."""
    original, refuted = as_pipeline(p.graph, "original"), 0
    for name, graph in islice(mutants(p.graph), 12):
        try:
            mutant = as_pipeline(graph, "mutant")
        except Exception:
            continue  # the breakage does not even build
        wanted = difference(original, mutant, pushes, most)
        verdict = check.equivalent(original, mutant, ints=ints, engine=engine, max_states=3000, timeout=seconds)
        case = (name, p.graph, wanted, str(verdict))
        if verdict.refuted:
            example = verdict.counterexample
            assert example is not None and observed(original, example.inputs) != observed(mutant, example.inputs), case
            assert (len(example.inputs) == wanted) if wanted else len(example.inputs) > most, case
            refuted += 1
        else:
            assert wanted is None or verdict.unknown, case
    return refuted


@pytest.mark.parametrize("name", TABLE)
def test_mutants_are_told_apart(name: str) -> None:
    row = TABLE[name]
    compared(built(row), pushes_of(row), row.ints, min(row.length, 3), seconds=min(row.seconds, 2.0))


# ---------------------------------------------------------------- random pipelines


@cache
def random_row(seed: int) -> tuple[Pipeline, list[Push]]:
    """A small random pipeline of ints and Booleans with one source and one output, and its pushes."""
    c = Seeded(9000 + seed)
    while True:
        p = make_pipeline(c, max_steps=4, windows=1, keys=False, sources=1)
        leaves = {t for node in p.graph.nodes for _, t in node.type.leaves()}
        if len(p.graph.outputs) > 1 or not leaves <= {INT, BOOL} or p.graph.opaque():
            continue
        source = p.graph.nodes[p.graph.sources[0]]
        pushes = [{}, *({source.id: v} for v in ([0, 1, 2] if source.type == INT else [False, True]))]
        try:
            build_system(p.graph, domain_of(Mod(3)), 2)
        except UsageError:
            continue
        if any(observed(p, pushes[1:] * 2)):  # it emits something
            return p, pushes


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(8, 60))
def test_random_pipelines(seed: int) -> None:
    p, pushes = random_row(seed)
    is_int = p.graph.nodes[p.graph.outputs[0][1]].type == INT
    x = p.graph.nodes[p.graph.sources[0]].id
    texts = [f"G (out -> out.value <= {seed % 4})", "G (out -> out.value != 1)"] if is_int else ["G (out -> out.value)"]
    for text in (*texts, f"G ({x} -> out)", "G (out -> X !out)", f"G (out -> Y O {x})", "G !failed"):
        f = parse(text)
        wanted = shortest(p, f, pushes, 4)
        for engine in ("explicit", "smt"):
            verdict = check.holds(
                p, f, ints=range(3), engine=engine, warn=False, max_states=4000, max_depth=5, timeout=2
            )
            case = (p.graph, text, engine, str(verdict), wanted)
            if verdict.refuted:
                assert verdict.counterexample is not None and broken(p, f, verdict.counterexample.inputs), case
                length = len(verdict.counterexample.inputs)
                assert length == wanted if wanted is not None else length > 4, case
            else:
                assert wanted is None or verdict.unknown, case
    compared(p, pushes, range(3), 4, "explicit")


# ---------------------------------------------------------------- explicit search against the reference engine

BRANCHING = (
    "AG EF {a}", "AG ({a} -> EX {b})", "EF ({a} & !{b})", "AF {a}", "EG !{a}", "A [!{a} U {b}]", "AG (EF {a} | EF {b})",
    "EX ({a} | EG {b})",
)  # fmt: skip
LINEAR = (
    "G F {a}", "F G !{a}", "G ({a} -> X {b})", "{a} U {b}", "G ({a} -> F {b})", "F ({a} & X !{a})", "G (O {a} | !{b})",
    "!{a} W {b}",
)  # fmt: skip
INVARIANTS = ("G !({a} & {b})", "AG ({a} -> {b})", "!EF full", "G !failed", "G (out -> out.value = out.value)")


def atom(c: Choice, p: Pipeline, system: System) -> str:
    names = ["out", p.graph.nodes[p.graph.sources[0]].id, "full"]
    if system.streams["out"][0] == INT:
        names += ["out.value = 1", "out.value > 0"]
    return str(c.of(names))


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(8, 60))
def test_explicit_search_is_the_reference_engine(seed: int) -> None:
    c, (p, _) = Seeded(seed), random_row(seed)
    system = build_system(p.graph, domain_of(Mod(3)), 2)
    for shape in [c.of(BRANCHING), c.of(BRANCHING), c.of(LINEAR), c.of(LINEAR), c.of(INVARIANTS)]:
        text = shape.format(a=atom(c, p, system), b=atom(c, p, system))
        formula = resolve(parse(text), system)
        if formula.op in ("true", "false"):
            continue
        answer = decide(system, formula, Options(engine="explicit", max_states=3000))
        if answer.status == "unknown":
            continue
        if shape in LINEAR and answer.status == "refuted":  # the reference tries lassos up to a length
            assert not evaluate_lasso(formula, *lasso(system, formula, answer)), (p.graph, text, answer)
        else:
            assert (answer.status == "proved") == decide_by_reference(system, formula), (p.graph, text)


def lasso(system: System, formula: Formula, answer: Answer) -> tuple[list[dict[Formula, bool]], int]:
    """The atoms along a counterexample; one that needs no loop goes on in silence until a state comes again."""
    # What the formula does not depend on need not come back.
    small, atoms = cone(system, [expression(a) for a in formula.atoms()], all_inputs=True)
    (name, t), state = system.sources[0], tuple(v.start for v in small.state)
    pushes, seen, trace = list(answer.pushes or []), [], []
    while True:
        if len(trace) >= len(pushes):
            if answer.loop is not None:
                assert seen[answer.loop] == state, "the loop does not come back to its start"
                return trace, answer.loop
            if state in seen[len(pushes) :]:
                return trace, seen.index(state, len(pushes))
        push: Push = pushes[len(trace)] if len(trace) < len(pushes) else {}
        seen.append(state)
        event = t.flatten(push[name]) if name in push else [simplest(kind) for _, kind in t.leaves()]
        leaves = [*state, name in push, *event]
        trace.append({a: bool(evaluate(e, leaves)) for a, e in zip(formula.atoms(), atoms, strict=True)})
        state = tuple(evaluate(e, leaves) for e in small.next)
