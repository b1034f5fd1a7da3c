"""Random pipelines and random formulas: explicit search = the reference engine = SMT = brute force over input
streams.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pellucid import Mod, Pipeline, Stream, UsageError, check, merge, pipeline
from pellucid.check.answer import Answer, expression
from pellucid.check.decide import Options, decide
from pellucid.check.formula import Formula, evaluate_lasso, is_invariant, resolve
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
from tests.strategies import Choice, Drawn, Seeded, make_pipeline
from tests.volumes import examples, some_seeds

BRANCHING = [
    "AG EF {a}",
    "AG ({a} -> EX {b})",
    "EF ({a} & !{b})",
    "AF {a}",
    "EG !{a}",
    "A [!{a} U {b}]",
    "AG (EF {a} | EF {b})",
    "EX ({a} | EG {b})",
]
LINEAR = [
    "G F {a}",
    "F G !{a}",
    "G ({a} -> X {b})",
    "{a} U {b}",
    "G ({a} -> F {b})",
    "F ({a} & X !{a})",
    "G (O {a} | !{b})",
    "!{a} W {b}",
]
INVARIANTS = ["G !({a} & {b})", "AG ({a} -> {b})", "!EF full", "G !failed", "G (out -> out.value = out.value)"]


def small_pipeline(c: Choice) -> Pipeline:
    while True:
        p = make_pipeline(c, max_steps=4, windows=1, keys=False, sources=1)
        sources = [p.graph.nodes[i].type for i in p.graph.sources]
        if all(t in (INT, BOOL) for t in sources) and len(p.graph.outputs) == 1:
            try:
                system = build_system(p.graph, domain_of(Mod(3)), 2)
            except UsageError:
                continue
            if all(v.type in (INT, BOOL) for v in system.state) and len(system.state) <= 14:
                return p


def atom(c: Choice, p: Pipeline, system: System) -> str:
    names = ["out", p.graph.nodes[p.graph.sources[0]].id, "full"]
    if system.streams["out"][0] == INT:
        names += ["out.value = 1", "out.value > 0"]
    return str(c.of(names))


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(24, 60))
def test_explicit_is_the_reference(seed: int) -> None:
    c = Seeded(seed)
    p = small_pipeline(c)
    system = build_system(p.graph, domain_of(Mod(3)), 2)
    for shape in [c.of(BRANCHING), c.of(BRANCHING), c.of(LINEAR), c.of(INVARIANTS)]:
        text = shape.format(a=atom(c, p, system), b=atom(c, p, system))
        formula = resolve(parse(text), system)
        if formula.op in ("true", "false"):
            continue
        try:
            answer = decide(system, formula, Options(engine="explicit", max_states=3000))
        except UsageError as error:
            if "takes no floats" in str(error) or "one step only" in str(error):
                continue
            raise
        if answer.status == "unknown":
            continue
        if shape in LINEAR:
            # The reference tries lassos up to a length: what it refutes is refuted; and a lasso of ours must refute.
            if answer.status == "proved":
                assert decide_by_reference(system, formula), (p.graph, text)
            else:
                assert not evaluate_lasso(formula, *lasso(system, formula, answer)), (p.graph, text, answer)
        else:
            assert (answer.status == "proved") == decide_by_reference(system, formula), (p.graph, text)


def lasso(system: System, formula: Formula, answer: Answer) -> tuple[list[dict[Formula, bool]], int]:
    """The atoms along a counterexample; one that needs no loop goes on in silence until a state comes again."""
    # What the formula does not depend on need not come back.
    small, observed = cone(system, [expression(a) for a in formula.atoms()], all_inputs=True)
    (name, t), state = system.sources[0], tuple(v.start for v in small.state)
    pushes, seen, trace = list(answer.pushes or []), [], []
    while True:
        if len(trace) >= len(pushes):
            if answer.loop is not None:
                assert seen[answer.loop] == state, "the loop does not come back to its start"
                return trace, answer.loop
            if state in seen[len(pushes) :]:
                return trace, seen.index(state, len(pushes))
            push: dict[str, Any] = {}
        else:
            push = pushes[len(trace)]
        seen.append(state)
        leaves = [
            *state,
            name in push,
            *(t.flatten(push[name]) if name in push else map(simplest, (k for _, k in t.leaves()))),
        ]
        trace.append({a: bool(evaluate(e, leaves)) for a, e in zip(formula.atoms(), observed, strict=True)})
        state = tuple(evaluate(e, leaves) for e in small.next)


def brute_force(p: Pipeline, length: int, bad: Any) -> int | None:
    """The least number of pushes after which the bad thing has happened, trying every stream of 0, 1, 2 and silence."""
    node = p.graph.nodes[p.graph.sources[0]]
    events: list[Any] = [None, 0, 1, 2] if node.type == INT else [None, False, True]
    for size in range(1, length + 1):
        for stream in product(events, repeat=size):
            run = Interpreter(p.graph)
            try:
                outs = [run.push({} if e is None else {node.id: e})["out"] for e in stream]
            except StepError:
                continue
            if bad(outs[-1]):
                return size
    return None


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(10, 25))
def test_invariants_by_three_engines_and_brute_force(seed: int) -> None:
    """Over exact integers: the shortest counterexample is as long as brute force says, and it replays."""
    c = Seeded(500 + seed)
    p = small_pipeline(c)
    if p.graph.nodes[p.graph.outputs[0][1]].type != INT:
        return
    most = c.of([0, 1, 2, 3])
    wanted = brute_force(p, 4, lambda out: any(v > most for v in out))
    seconds = (
        10 if wanted is None else 600
    )  # what is there must be found, however long it takes; a proof is not asked for
    for engine in ("explicit", "smt"):
        verdict = check.holds(
            p,
            f"G (out -> out.value <= {most})",
            ints=range(3),
            queue=8,
            engine=engine,
            max_states=4000,
            max_depth=5,
            timeout=seconds,
        )
        if verdict.refuted:
            assert verdict.counterexample is not None
            steps = verdict.counterexample.steps
            assert max(steps[-1].streams["out"]) > most  # it really happens
            assert wanted is None or len(steps) == wanted
            assert wanted is not None or len(steps) > 4
        else:
            assert wanted is None, (engine, p.graph, most)


@settings(max_examples=examples(20, 60))
@given(st.data())
def test_explicit_is_the_reference_by_hypothesis(data: st.DataObject) -> None:
    c = Drawn(data.draw)
    p = make_pipeline(c, max_steps=3, windows=1, keys=False, sources=1)
    assume(p.graph.nodes[p.graph.sources[0]].type in (INT, BOOL) and len(p.graph.outputs) == 1)
    assume(all(t in (INT, BOOL) for node in p.graph.nodes for _, t in node.type.leaves()))
    try:
        system = build_system(p.graph, domain_of(Mod(4)), 1)
        text = c.of(BRANCHING + INVARIANTS).format(a=atom(c, p, system), b=atom(c, p, system))
        formula = resolve(parse(text), system)
        assume(formula.op not in ("true", "false"))
        answer = decide(system, formula, Options(engine="explicit", max_states=500))
    except UsageError:
        assume(False)
    if answer.status != "unknown":
        assert (answer.status == "proved") == decide_by_reference(system, formula), (p.graph, text)


@settings(max_examples=examples(7, 25))
@given(st.data())
def test_explicit_is_symbolic_is_brute_force_by_hypothesis(data: st.DataObject) -> None:
    c = Drawn(data.draw)
    p = make_pipeline(c, max_steps=3, windows=1, keys=False, sources=1)
    assume(p.graph.nodes[p.graph.sources[0]].type in (INT, BOOL) and len(p.graph.outputs) == 1)
    assume(p.graph.nodes[p.graph.outputs[0][1]].type == INT)
    assume(all(t in (INT, BOOL) for node in p.graph.nodes for _, t in node.type.leaves()))
    most = c.of([0, 1, 2])
    wanted = brute_force(p, 3, lambda out: any(v > most for v in out))
    for engine in ("explicit", "smt"):
        how = {"engine": engine, "max_states": 2000, "max_depth": 4, "timeout": 5 if wanted is None else 600}
        try:
            verdict = check.holds(p, f"G (out -> out.value <= {most})", ints=range(3), queue=8, **how)
        except UsageError:
            assume(False)
        if wanted is not None:
            assert verdict.unknown or (verdict.refuted and len(verdict.counterexample.steps) == wanted)
            assert engine != "explicit" or verdict.refuted
        elif verdict.refuted:
            assert len(verdict.counterexample.steps) > 3


def test_an_event_that_is_not_the_last_of_its_push() -> None:
    """What a hunt found: the third push puts out 3, 0 and 1, and each of them is spoken of."""

    def steps(x: Stream[int]) -> Stream[int]:
        pairs = x.lag(2).map(lambda p: p[0] if p[0] == p[1] else p[1])
        return merge(pairs, x, pairs).cumulate(lambda a, v: (a + 1) % 4, start=0)

    p = pipeline(steps, x=int)
    assert brute_force(p, 3, lambda out: any(v > 2 for v in out)) == 3
    for engine in ("explicit", "smt"):
        verdict = check.holds(p, "G (out -> out.value <= 2)", ints=range(3), queue=8, engine=engine)
        assert verdict.refuted and len(verdict.counterexample.steps) == 3


def test_an_invariant_is_recognised() -> None:
    assert isinstance(is_invariant(parse("AG (out -> in)")), Formula)


# Small breakages of 30 pipelines: each that changes the meaning is refuted, by a counterexample that replays.
#
# Whether a mutant changes the meaning is found out by brute force: both pipelines are interpreted on every stream of
# a
# few small numbers.  A mutant that brute force cannot tell apart must not be refuted by anything shorter.

LENGTH = 5


def change(graph: Graph, i: int, **fields: Any) -> Graph:
    nodes = [dataclasses.replace(n, **fields) if j == i else n for j, n in enumerate(graph.nodes)]
    return dataclasses.replace(graph, nodes=tuple(nodes))


def rewritten(fn: Function, wrap: Any) -> Function:
    return Function.make(wrap(fn.plain), fn.params, task=fn.task, truth=fn.result == BOOL and len(fn.params) == 1)


def mutants(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Off by one, swapped operands, wrong start value, lost reset, wrong width, negated condition …"""
    for i, node in enumerate(graph.nodes):
        fn = node.fn
        if node.k is not None:
            yield f"{node.kind}: k + 1", change(graph, i, k=node.k + 1)
            if node.k > 1:
                yield f"{node.kind}: k - 1", change(graph, i, k=node.k - 1)
        if node.kind == "cumulate" and node.state == INT and fn is not None:
            yield "cumulate: wrong start", change(graph, i, start=node.start + 1)
            yield (
                "cumulate: lost reset",
                change(graph, i, fn=rewritten(fn, lambda f, s=node.start: lambda a, v: f(s, v))),
            )
            yield "cumulate: one too many", change(graph, i, fn=rewritten(fn, lambda f: lambda a, v: f(a, v) + 1))
        if node.kind == "filter" and fn is not None:
            yield "filter: negated", change(graph, i, fn=rewritten(fn, lambda f: lambda v: not f(v)))
        if node.kind == "map" and fn is not None and fn.result == INT:
            yield "map: off by one", change(graph, i, fn=rewritten(fn, lambda f: lambda v: f(v) + 1))
            yield "map: sign lost", change(graph, i, fn=rewritten(fn, lambda f: lambda v: abs(f(v))))
        if node.kind == "map" and fn is not None and fn.result == BOOL:
            yield "map: negated", change(graph, i, fn=rewritten(fn, lambda f: lambda v: not f(v)))
        if node.kind == "apply" and fn is not None and len(fn.params) == 2 and fn.params[0] == fn.params[1]:
            yield "apply: operands swapped", change(graph, i, inputs=node.inputs[::-1])
        if node.kind == "merge" and len(set(node.inputs)) > 1:
            yield "merge: order turned", change(graph, i, inputs=node.inputs[::-1])
        if node.sub is not None:
            for name, sub in mutants(node.sub):
                yield f"window over ({name})", change(graph, i, sub=sub)
        for j in node.inputs:
            if graph.nodes[j].type == node.type and node.kind != "source":
                yield f"{node.kind}: left out", _without(graph, i, j)
                break


def _without(graph: Graph, i: int, j: int) -> Graph:
    nodes = [dataclasses.replace(n, inputs=tuple(j if k == i else k for k in n.inputs)) for n in graph.nodes]
    outputs = tuple((name, j if at == i else at) for name, at in graph.outputs)
    return dataclasses.replace(graph, nodes=tuple(nodes), outputs=outputs)


def as_pipeline(graph: Graph, name: str) -> Pipeline:
    types = {graph.nodes[i].id: graph.nodes[i].type for i in graph.sources}
    fn = eval(
        f"lambda {', '.join(types)}: build({', '.join(types)})",
        {"build": lambda *s: instantiate(graph, list(s), ids=False)["out"]},
    )
    fn.__name__ = name
    return pipeline(fn, **types)


def observed(p: Pipeline, stream: tuple[Any, ...]) -> list[Any]:
    run, name = Interpreter(p.graph), p.graph.nodes[p.graph.sources[0]].id
    out: list[Any] = []
    for event in stream:
        try:
            out.append(run.push({name: event})["out"])
        except StepError:
            return [*out, "failed"]
    return out


def shortest_difference(a: Pipeline, b: Pipeline) -> int | None:
    events = [False, True] if a.graph.nodes[a.graph.sources[0]].type == BOOL else [0, 1, 2]
    for length in range(1, LENGTH + 1):
        for stream in product(events, repeat=length):
            if observed(a, stream) != observed(b, stream):
                return length
    return None


@cache  # made when the first of these tests runs: whoever only collects them need not wait
def thirty() -> list[Pipeline]:
    found: list[Pipeline] = []
    seed = 0
    while len(found) < 30:
        seed += 1
        p = make_pipeline(Seeded(9000 + seed), max_steps=5, windows=1, keys=False, sources=1)
        source, out = p.graph.nodes[p.graph.sources[0]], p.graph.nodes[p.graph.outputs[0][1]]
        if len(p.graph.outputs) > 1 or source.type not in (INT, BOOL) or out.type not in (INT, BOOL):
            continue
        kinds = {t for n in p.graph.nodes for t in (n.type, *(fp for fp in (n.fn.params if n.fn else ())))}
        if kinds - {INT, BOOL} or any(n.kind == "key_by" for n in p.graph.nodes) or p.graph.opaque():
            continue
        try:
            many = len(list(mutants(p.graph)))
        except Exception:
            continue
        sample = (True, False) * 3 if source.type == BOOL else (1, 2, 0, 1, 2, 1)
        if many >= 5 and any(observed(p, sample)):  # it puts something out
            found.append(p)
    return found


@pytest.mark.parametrize("number", [k if k % 3 == 0 else pytest.param(k, marks=pytest.mark.long) for k in range(30)])
def test_every_mutant_that_changes_the_meaning_is_refuted(number: int) -> None:
    p, tried, refuted = thirty()[number], 0, 0
    original = as_pipeline(p.graph, "original")
    for name, graph in list(mutants(p.graph))[:12]:
        try:
            mutant = as_pipeline(graph, "mutant")
        except Exception:
            continue  # the breakage does not even build
        tried += 1
        wanted = shortest_difference(original, mutant)
        ints = range(3)
        try:
            verdict = check.equivalent(original, mutant, ints=ints, queue=12, engine="explicit", max_states=3000)
        except UsageError as error:
            if "takes no floats" in str(error):
                continue
            raise
        if wanted is not None:
            zeros = (False if p.graph.nodes[p.graph.sources[0]].type == BOOL else 0,) * LENGTH
            failing = "failed" in str(observed(original, zeros)) or "failed" in str(observed(mutant, zeros))
            if not verdict.refuted and failing:
                continue  # they differ in where they fail, which is another question
            assert verdict.refuted, (name, p.graph, wanted, verdict)
        if verdict.refuted:
            refuted += 1
            example = verdict.counterexample
            assert example is not None
            assert example.steps[-1].streams["1:out"] != example.steps[-1].streams["2:out"], name  # it replays
            assert wanted is None or len(example.steps) <= wanted
            assert wanted is not None or len(example.steps) > LENGTH
    assert tried >= 5
    assert refuted >= 1
