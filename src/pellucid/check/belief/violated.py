"""A counterexample counts only if the property is violated there: judged on what the literal interpreter really puts
out.

An engine searches a system, which is one reading of the pipeline; the interpreter is another, and the one that defines
what is meant.  If the property is not violated on the interpreter, one of the two is wrong: nothing is *refuted* then,
and the verdict names the disagreement.

A run without a loop is continued by silence: what is refuted by its beginning is refuted whatever follows.  A loop is
gone round until what is seen of it repeats.  What one run cannot show (a formula that asks for another run from some
state) is tried as far as runs go.  Arithmetic modulo N is not the interpreter's, so nothing is judged there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from pellucid.check.belief.alike import alike
from pellucid.check.belief.observe import atoms_on
from pellucid.check.counterexample.pushes import Pushes
from pellucid.check.endless.history import linear
from pellucid.check.formula import CTL, Formula, evaluate_finite, evaluate_lasso, is_invariant, kind
from pellucid.check.system.domains import Domain
from pellucid.errors import IntOverflow, StepError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr.types import simplest
from pellucid.internal.graph.model import Graph

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
        flat = linear(f)
        if flat is not None:
            return _linear(flat, pushes, loop)
        if f.op == "AG" and f.args[0].op == "EF" and not any(part.op in CTL for part in f.args[0].args[0].walk()):
            return _never_again(f.args[0].args[0], pushes)
        return None

    def _linear(flat: Formula, pushes: Given, loop: int | None) -> bool | None:
        if loop is None:
            run = [*pushes, {}, {}]
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
    return _apart(example, alike)


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
    """Something differs at the same place of the two sequences, or what one puts out has not come in the other after
    many turns."""
    turn = list(pushes[loop:]) if loop is not None else []
    first = example.graphs[0]
    few = [put_out(g, pushes, first) for g in example.graphs]
    if any(not alike(x, y) for x, y in zip(*few, strict=False)):
        return True
    many = [put_out(g, [*pushes, *turn * _TURNS], first) for g in example.graphs]
    if any(not alike(x, y) for x, y in zip(*many, strict=False)):
        return True
    return loop is not None and (len(many[1]) < len(few[0]) or len(many[0]) < len(few[1]))


def paper_violated(example: Pushes, pushes: Given, loop: int | None) -> bool:
    """Both have an output at the same place of the sequence, and the two differ."""
    turn = list(pushes[loop:]) if loop is not None else []
    first, second = (put_out(g, [*pushes, *turn * _TURNS], example.graphs[0], failures=False) for g in example.graphs)
    return any(x != y for x, y in zip(first, second, strict=False))


def put_out(graph: Graph, pushes: Given, first: Graph, *, failures: bool = True) -> list[Any]:
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
    """Some event that the pipeline puts out is not true, or it fails."""
    out = example.graphs[0].outputs[0][0]
    return any(step.streams.get(out) is None or not all(step.streams[out]) for step in example.steps)
