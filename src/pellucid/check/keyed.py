"""How many pushes together show that a formula is broken: so many keys have to be tracked at once (see
`pellucid.check.system.tracking`).

``G (out -> X !out)`` is broken in two pushes that follow each other.  ``G (out -> Y O paid)`` is broken in **one**,
before which nothing was paid: a push in which nothing was paid stays such a one if the events of other keys are left
out of the run, for then it is silent.  ``G (shipped -> H !shipped)`` is broken in two, however far apart.  So for a
formula of ``X`` and the past, to be broken in some push,

* an atom is looked at in that push, and ``X`` and ``Y`` move it;
* ``O p`` needs one push with ``p``, and ``p S q`` one with ``q``, wherever it is;
* what has to hold in **all** pushes before (``H p``, ``!O p``, the ``p`` of ``p S q``) needs none, if it holds in
  silence.  It must speak of single pushes, and, where a push may have events of several sources, only say that
  something is not there: then some of them may be left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.check.answer import Answer, expression
from pellucid.check.formula import CTL, LTL, And, Formula, Not, Or, is_invariant, terms
from pellucid.check.formula.nodes import Before, Flag, Length, Ref, Some, always_possible
from pellucid.check.history import as_invariant, pieces
from pellucid.check.system.build import Cells, System, cone
from pellucid.check.system.tracking import Track
from pellucid.errors import StepError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, INT, STR
from pellucid.internal.graph.model import Graph


@dataclass(frozen=True)
class Span:
    """So many pushes; ``thinned``: only if the events of other keys may be left out of a run."""

    pushes: int
    thinned: bool = False


def looks_at(f: Formula) -> int | None:
    """How many pushes in a row show that a formula is broken; None: any number."""
    if is_invariant(f) is not None:
        return 1
    found = pieces(f)
    if found is None:
        return None
    rows = [row for piece in found if (row := _row(piece)) is not None]
    return max((last - first + 1 for first, last in rows), default=1) if len(rows) == len(found) else None


def _row(f: Formula) -> tuple[int, int] | None:
    """The first and the last push that a formula speaks of, counted from now; None: it has no first."""
    if f.op in ("atom", "true", "false"):
        return 0, 0
    if f.op in ("O", "H", "S"):
        return None
    inner = [row for a in f.args if (row := _row(a)) is not None]
    if len(inner) < len(f.args):
        return None
    first, last = min(a for a, _ in inner), max(b for _, b in inner)
    moved = {"X": 1, "Y": -1}.get(f.op, 0)
    return first + moved, last + moved


def span_of(f: Formula, graph: Graph) -> Span | None:
    """The pushes that show that a formula about a pipeline is broken; None: any number.

    >>> from pellucid import pipeline
    >>> from pellucid.check.formula.parse import parse
    >>> p = pipeline(lambda x: x.key_by(lambda v: v).decimate(2), x=int)
    >>> formulas = "G (out -> X !out)", "G (out -> Y O x.value > 3)", "G (out -> X G !out)"
    >>> [span_of(parse(text), p.graph) for text in formulas]
    [Span(pushes=2, thinned=False), Span(pushes=1, thinned=True), Span(pushes=2, thinned=True)]
    >>> span_of(parse("G (out -> Y O !x)"), p.graph), span_of(parse("G F out"), p.graph)
    (None, None)
    """
    pushes = looks_at(f)
    if pushes is not None:
        return Span(pushes)
    # what failed, and what waits, may be under a key of an earlier push
    if any(isinstance(t, (Flag, Length)) for t in terms(f)):
        return None
    needs = [_Broken(graph).needs(piece, False) for piece in pieces(f) or [f]]
    return (
        None if None in needs else Span(max((_sum(need) for need in needs if need is not None), default=1) or 1, True)
    )


@dataclass(frozen=True)
class _Need:
    """Pushes at these distances from one, and so many others."""

    at: frozenset[int] = frozenset()
    others: int = 0


def _sum(need: _Need) -> int:
    return len(need.at) + need.others


class _Broken:
    """The pushes that it takes so that a formula holds, or does not, in some push of a run and of the same run with
    less in it."""

    def __init__(self, graph: Graph) -> None:
        self.streams = {node.id for node in graph.nodes} | {name for name, _ in graph.outputs} | {"in", "out", "value"}
        self.sources = {graph.nodes[i].id for i in graph.sources}
        self.one = len(graph.sources) == 1

    def needs(self, f: Formula, wanted: bool) -> _Need | None:
        if f.op in ("true", "false"):
            return _Need()
        if f.op == "atom":
            return _Need(frozenset((0,)))
        a = f.args[0]
        match f.op:
            case "!":
                return self.needs(a, not wanted)
            case "->":
                return self.needs(Or(Not(a), f.args[1]), wanted)
            case "<->":
                return self.needs(And(Or(Not(a), f.args[1]), Or(a, Not(f.args[1]))), wanted)
            case "&" | "|":
                parts = [self.needs(part, wanted) for part in f.args]
                others = [part.others for part in parts if part is not None]
                if None in parts:
                    return None
                at = frozenset(i for part in parts if part is not None for i in part.at)
                return _Need(at, sum(others) if (f.op == "&") == wanted else max(others))
            case "X" | "Y":
                inner = self.needs(a, wanted)
                if inner is None:
                    return None
                return _Need(frozenset(i + (1 if f.op == "X" else -1) for i in inner.at), inner.others)
            case "O" | "H":
                if (f.op == "O") == wanted:
                    return self.somewhere(a, wanted)
                return _Need() if self.lasts(a, wanted) else None
            case "S":
                p, q = f.args
                if wanted:
                    return self.somewhere(q, True) if self.lasts(p, True) else None
                # q never, or not since p failed
                return self.somewhere(And(Not(p), Not(q)), True) if self.lasts(q, False) else None
        return None

    def somewhere(self, f: Formula, wanted: bool) -> _Need | None:
        inner = self.needs(f, wanted)
        return None if inner is None else _Need(others=_sum(inner))

    def lasts(self, f: Formula, wanted: bool) -> bool:
        """Whether what holds in every push of a run still does when events are left out of it."""
        if any(part.op in CTL | LTL for part in f.walk()) or not all(map(self.falls, f.atoms())):
            return False
        return self.silent(f) == wanted and (self.one or self.only(f, not wanted))

    def silent(self, f: Formula) -> bool:
        """The value of a formula about one push where nothing is there."""
        parts = [self.silent(a) for a in f.args]
        match f.op:
            case "!":
                return not parts[0]
            case "&":
                return all(parts)
            case "|":
                return any(parts)
            case "->":
                return not parts[0] or parts[1]
            case "<->":
                return parts[0] == parts[1]
        return f.op == "true"

    def only(self, f: Formula, wanted: bool) -> bool:
        """Whether atoms help a formula to hold (or not to), never the other way."""
        match f.op:
            case "!":
                return self.only(f.args[0], not wanted)
            case "->":
                return self.only(f.args[0], not wanted) and self.only(f.args[1], wanted)
            case "<->":
                return False
            case "atom":
                return wanted and self.shrinks(f)
        return all(self.only(a, wanted) for a in f.args)

    def falls(self, atom: Formula) -> bool:
        """Whether an atom is false where the streams are silent of which it speaks."""
        found = list(terms(atom))
        if any(isinstance(t, Before) or (isinstance(t, Ref) and t.path[:1] == ("count",)) for t in found):
            return False
        return any(isinstance(t, Ref) and t.name in self.streams for t in found)

    def shrinks(self, atom: Formula) -> bool:
        """Whether an atom that is false stays so where events are left out: of a source, which has one at most, or that
        any is there."""
        refs = [t for t in terms(atom) if isinstance(t, Ref) and t.name in self.streams]
        return isinstance(atom.body, Some) or all(not t.path or t.name in self.sources for t in refs)


# Formulas about keyed pipelines, and what an answer about some keys is worth for all of them (see
# `pellucid.check.system.tracking`).


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
        return dataclasses.replace(step, notes=(*step.notes, "they emit the same in every push"))
    note = (
        "they are not known to emit the same in every push, and sequences of keyed pipelines that differ in some "
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
    if (goal := always_possible(formula)) is not None:
        return some_key_can(system, goal, options, by_invariant)
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
