"""Formulas about keyed pipelines, and what an answer about some keys is worth for all of them (see
`pellucid.check.system.tracking`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid.check.answer import Answer, expression
from pellucid.check.endless.history import as_invariant
from pellucid.check.formula import CTL, LTL, Formula, terms
from pellucid.check.formula.spans import looks_at, span_of
from pellucid.check.formula.terms import Before, Flag, Length
from pellucid.check.system.build import System
from pellucid.check.system.cells import Cells
from pellucid.check.system.cone import cone
from pellucid.check.system.tracking import Track
from pellucid.errors import StepError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, INT, STR
from pellucid.internal.graph.model import Graph


def weighed(system: System, answer: Answer) -> Answer:
    """An answer about the pushes of a system that tracks some keys, as one about the pipeline."""
    keys = system.keys
    if keys is None or keys.exact:
        return answer
    if answer.status == "proved" and not keys.enough:
        note = f"it holds of all runs with {_many(keys.lanes)}; beyond them it is not known: {keys.why}"
        return dataclasses.replace(answer, status="unknown", notes=(*answer.notes, note))
    if answer.status == "refuted" and answer.pushes is not None:
        pushes = [
            {name: event for name, event in push.items() if not name.startswith("key.")} for push in answer.pushes
        ]
        if keys.chosen and _fails_before_its_end(system, pushes):
            note = (
                "the run that was found fails before its end, under a key that is not among the "
                f"{_many(keys.lanes)} that were looked at together"
            )
            return dataclasses.replace(answer, status="unknown", pushes=None, notes=(*answer.notes, note))
        return dataclasses.replace(answer, pushes=pushes)
    return answer


def sequence_of_keyed(step: Answer) -> Answer:
    """What the answer about single pushes says of whole sequences: the same in every push is the same in the end.

    A sequence is made of the events of all keys, in the order in which they come; a delay under one key changes it.
    """
    if step.status == "proved":
        return dataclasses.replace(step, notes=(*step.notes, "they put out the same in every push"))
    note = (
        "they are not known to put out the same in every push, and sequences of keyed pipelines that differ in some "
        "push are not compared: ask how='step'"
    )
    return Answer("unknown", step.engine, notes=(note,))


def _many(lanes: int) -> str:
    return "one key" if lanes == 1 else f"{lanes} keys"


def _fails_before_its_end(system: System, pushes: Sequence[dict[str, Any]]) -> bool:
    """What tracked keys do is exact; another key can only spoil it by failing."""
    assert system.keys is not None
    run = Interpreter(system.keys.graph)
    names = {name for name, _ in system.own_sources}
    try:
        for push in pushes[:-1]:
            run.push({name: event for name, event in push.items() if name in names})
    except StepError:
        return True
    return False


def track_of(f: Formula, graph: Graph) -> Track:
    """Which keys a question about a formula has to track.

    >>> from pellucid import pipeline
    >>> from pellucid.check.formula.parse import parse
    >>> p = pipeline(lambda x: x.key_by(lambda v: v % 5).decimate(2), x=int)
    >>> [track_of(parse(text), p.graph).pushes for text in ("G out", "G (out -> X !out)", "G F out")]
    [1, 2, None]
    >>> track_of(parse("G (out -> Y O x.value = 7)"), p.graph)
    Track(pushes=1, more=0, lanes=None, whole=False, thinned=True)
    """
    sources = {graph.nodes[i].id for i in graph.sources} | ({"in"} if len(graph.sources) == 1 else set())
    mentioned = list(terms(f))
    before = [term.ref.name for term in mentioned if isinstance(term, Before)]
    span = span_of(f, graph) if set(before) <= sources else None
    pushes = None if span is None else span.pushes
    queues = sum(isinstance(term, Length) or (isinstance(term, Flag) and term.name != "failed") for term in mentioned)
    return Track(pushes, queues * (pushes or 1), whole=bool(before), thinned=span is not None and span.thinned)


def decide_few(system: System, formula: Formula, options: Any, by_invariant: Callable[..., Answer]) -> Answer:
    """Whether a resolved formula that is no invariant holds, where there are more keys than are tracked."""
    keys = system.keys
    assert keys is not None
    made = as_invariant(*_remembering(system, formula))
    if made is not None:
        return by_invariant(*made, options)
    if (
        formula.op == "AG"
        and formula.args[0].op == "EF"
        and not any(part.op in CTL | LTL for part in formula.args[0].args[0].walk())
    ):
        return some_key_can(system, formula.args[0].args[0], options, by_invariant)
    note = (
        f"{formula} looks at all pushes together, and the keys are too many to list: give a domain with few keys, "
        "such as ints=range(0, 3)"
    )
    return Answer("unknown", "none", notes=(note,))


def _remembering(system: System, formula: Formula) -> tuple[System, Formula]:
    """A system that does not judge a push as long as a push that the formula looks at was not known in full; and the
    formula over it."""
    pushes = looks_at(formula)
    if system.keys is None or not system.keys.chosen or pushes is None:
        return system, formula
    cells = Cells(system)
    partial = last = system.partial
    for i in range(1, pushes):
        cell = cells.add(f":unknown{i}", BOOL, False)
        cells.follow(cell, last)
        partial, last = n.or_(partial, cell), cell
    atoms = formula.atoms()
    extended, (partial, *moved) = cells.done([partial, *map(expression, atoms)])
    return dataclasses.replace(extended, partial=partial), _with(formula, dict(zip(atoms, moved, strict=True)))


def _with(f: Formula, bodies: Mapping[Formula, Expr]) -> Formula:
    """The same formula over other variables."""
    if f.op == "atom":
        return dataclasses.replace(f, body=bodies[f])
    return dataclasses.replace(f, args=tuple(_with(a, bodies) for a in f.args))


def some_key_can(
    system: System, goal: Formula, options: Any, by_invariant: Callable[..., Answer], wider: System | None = None
) -> Answer:
    """``AG EF p`` where there is always a key that never came.

    A key has no meaning of its own if it is only compared with others.  Then whatever can be reached from the start can
    be reached from every state, under keys that never came; unless the pipeline has failed: in ``wider``, a system that
    can do more, where this one's queues have a bound.
    """
    assert system.keys is not None
    aim = expression(goal)
    why = _not_fresh(system, aim)
    # for what is asked below, about single pushes
    system = dataclasses.replace(system, keys=dataclasses.replace(system.keys, enough=True))
    if why:
        return Answer(
            "unknown",
            "none",
            notes=(
                f"whether {goal} stays possible is not known: {why}; give a domain with few keys, such as "
                "ints=range(0, 3)",
            ),
        )
    reached = by_invariant(system, n.not_(aim), options)
    if reached.status == "proved" and wider is None:
        return Answer(
            "refuted", reached.engine, [{}], notes=(f"{goal} never holds, under any key",), details=reached.details
        )
    if reached.status != "refuted":
        return dataclasses.replace(reached, status="unknown")
    least = (
        system
        if wider is None or wider.keys is None
        else dataclasses.replace(wider, keys=dataclasses.replace(wider.keys, enough=True))
    )
    fails = by_invariant(least, n.not_(least.failed), options)
    if fails.status == "proved":
        assert reached.pushes is not None
        note = (
            f"a key that never came can always do what leads to {goal} from the start, in {len(reached.pushes)} "
            "push(es); nothing fails"
        )
        return Answer("proved", fails.engine, notes=(note,))
    if fails.status == "refuted" and wider is None and _never_after_failing(system, aim):
        return Answer(
            "refuted",
            fails.engine,
            fails.pushes,
            notes=(f"after these pushes the pipeline has failed, and {goal} never holds again",),
        )
    return Answer(
        "unknown",
        fails.engine,
        notes=(
            f"whether {goal} stays possible depends on whether the pipeline can fail, which is not known",
            *fails.notes,
        ),
    )


def _never_after_failing(system: System, aim: Expr) -> bool:
    leaves: list[Expr] = [n.var(i, v.type) for i, v in enumerate((*system.state, *system.inputs))]
    leaves[next(i for i, v in enumerate(system.state) if v.role == "stopped")] = n.const(2)
    (after,) = substitute([aim], leaves)
    return after.op == "const" and not after.value


def _not_fresh(system: System, aim: Expr) -> str:
    """Why it may be that no key is left which never came and does as any other; empty if there always is one."""
    keys = system.keys
    assert keys is not None
    if not keys.apart:
        return "what is kept under no key, or under another key, depends on the same events"
    small, (aim,) = cone(system, [aim])
    variables = [*small.state, *small.inputs]
    held = {i for i, v in enumerate(small.state) if v.role == "key" and v.type != BOOL}
    parts = list(walk(*small.next, aim, small.partial))
    leaves: set[int] = set()  # what comes in as a key: compared with a key that is kept, or kept as one
    kept: set[int] = set()
    for e in parts:
        if (e.op == "var" and e.value in held) or (e.op == "ite" and any(id(a) in kept for a in e.args[1:])):
            kept.add(id(e))
        if any(id(a) in kept for a in e.args) and e.op in ("eq", "ite"):
            sides = e.args if e.op == "eq" else e.args[1:]
            leaves |= {
                a.value
                for a in sides
                if a.op == "var" and a.value >= len(small.state) and variables[a.value].role == "leaf"
            }
    endless = [
        i for i in leaves if variables[i].type == STR or (variables[i].type == INT and small.domain.values is None)
    ]
    terms = {id(e) for e in parts if e.op == "var" and (e.value in held or e.value in endless)}
    of_source = {variables[i].of for i in endless}
    if any(source not in of_source for source in keys.sources) or not endless:
        return "a key is computed, or there are only so many"
    for e in parts:  # from the leaves up: what is made of keys may be kept and compared with a key, no more
        inside = [id(a) in terms for a in e.args]
        if not any(inside):
            continue
        if e.op == "ite" and not inside[0] and all(inside[1:]):
            terms.add(id(e))
        elif not (e.op == "eq" and all(inside)):
            return "what comes out depends on the key itself"
    if id(aim) in terms or any(id(e) in terms for i, e in enumerate(small.next) if i not in held):
        return "what comes out depends on the key itself"
    return ""
