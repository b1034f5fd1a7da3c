"""Which engine answers, and what its answer is worth.

Explicit search where the events that matter can be listed, after everything that does not matter has been cut away
(`pellucid.check.cone`); SMT for invariants over infinite domains.  A bound that is reached gives *unknown*.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.advice import advice, suggested
from pellucid.check.cone import cone
from pellucid.check.domains import Domain
from pellucid.check.explicit import Limits, Space, explore
from pellucid.check.formula import CTL, Formula, Not, is_invariant, kind
from pellucid.check.program import choices_of
from pellucid.check.system import System
from pellucid.errors import UsageError
from pellucid.expr import node as n
from pellucid.expr.evaluate import UserRaise, evaluate
from pellucid.expr.node import Expr
from pellucid.expr.rewrite import substitute
from pellucid.expr.types import BOOL, FLOAT, INT, simplest

__all__ = ["Answer", "Options", "decide", "decide_invariant"]

ENGINES = ("auto", "explicit", "smt")


@dataclass(frozen=True)
class Options:
    """How to decide."""

    engine: str = "auto"
    timeout: float | None = 60.0
    max_states: int = 5_000_000
    max_depth: int = 20
    progress: Callable[[dict[str, Any]], None] | None = None

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UsageError(f"engine= takes {', '.join(map(repr, ENGINES))}, found {self.engine!r}")

    def limits(self) -> Limits:
        """The same for explicit search."""
        return Limits(self.max_states, self.timeout, self.progress)


@dataclass(frozen=True)
class Answer:
    """A status with its evidence: pushes that refute (from ``loop`` on repeating), or what was proved and how."""

    status: str
    engine: str
    pushes: list[dict[str, Any]] | None = None
    loop: int | None = None
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


def listable(system: System) -> bool:
    """Whether explicit search can try every push."""
    try:
        choices_of(system)
    except UsageError:
        return False
    return not any(v.type == FLOAT for v in (*system.state, *system.inputs))


def decide_invariant(system: System, good: Expr, options: Options) -> Answer:
    """Whether ``good`` holds in every step of every run."""
    small, (bad,) = cone(system, [n.not_(good)])
    if bad.op == "const" and not bad.value:
        return Answer("proved", "simplification", details={"states": 0})
    use_explicit = options.engine == "explicit" or (options.engine == "auto" and listable(small))
    if use_explicit:
        space = explore(small, [bad], stop_on=[0], limits=_limits(small, options))
        details = {"states": space.count, "variables": len(small.state)}
        if space.found is not None:
            choices = [*space.path(space.found[0]), space.found[1]]
            return Answer("refuted", "explicit", space.pushes(choices), details=details)
        if space.complete:
            return Answer("proved", "explicit", details=details)
        if options.engine == "explicit" or not _has_z3():
            return Answer("unknown", "explicit", notes=(space.why,), details=details)
    small, (bad,) = cone(system, [n.not_(good)], all_inputs=True)
    return _by_smt(small, n.not_(bad), options)


def _limits(system: System, options: Options) -> Limits:
    """How far to search: not far where an integer may grow for ever and another engine can take over."""
    endless = any(v.type == INT and v.size is None for v in system.state)
    if endless and options.engine == "auto" and _has_z3():
        return Limits(min(options.max_states, 50_000), options.timeout, options.progress)
    return options.limits()


def _has_z3() -> bool:
    import importlib.util

    return importlib.util.find_spec("z3") is not None


def _by_smt(system: System, good: Expr, options: Options) -> Answer:
    from pellucid.check.smt import invariant

    status, trace, proof, notes = invariant(system, good, max_depth=options.max_depth, timeout=options.timeout)
    details = {"certificate": str(proof)} if proof is not None else {}
    return Answer(status, "smt", trace, notes=notes, details=details)


def decide(system: System, formula: Formula, options: Options) -> Answer:
    """Whether a resolved formula holds."""
    body = is_invariant(formula)
    if body is not None:
        return decide_invariant(system, expression(body), options)
    branching = kind(formula)
    if branching == "state":
        raise UsageError(f"{formula} speaks of one step only: write AG ({formula}) or G ({formula}) for every step")
    atoms = formula.atoms()
    roots = [_expr(a) for a in atoms]
    small, observed = cone(system, roots)
    number = {a: i for i, a in enumerate(atoms)}
    if options.engine == "smt" or not listable(small):
        decided = _possible(system, roots, formula, number, options) if options.engine == "auto" else None
        note = f"{formula} is no invariant and depends on events that cannot be listed ({small.domain}): {advice(system, roots)}"
        return decided if decided is not None else Answer("unknown", "none", notes=(note,))
    space = explore(small, observed, limits=_limits(small, options))
    details = {"states": space.count, "variables": len(small.state)}
    if not space.complete:
        if branching == "ctl" and options.engine == "auto":
            decided = _possible(system, roots, formula, number, options)
            if decided is not None:
                return dataclasses.replace(decided, details={**decided.details, **details})
        elif branching == "ltl":  # a lasso in the part that was seen refutes all the same
            part = explore(small, observed, limits=Limits(2000))
            found = _lasso(part, formula, number)
            if found is not None:
                return Answer("refuted", "explicit, automaton", part.pushes(found[0]), found[1], details=details)
        return Answer("unknown", "explicit", notes=(space.why, *_endless(small)), details=details)
    if branching == "ctl":
        from pellucid.check.branching import Branching

        found = Branching(space, number).refute(formula)
        engine = "explicit, fixpoints"
    else:
        found = _lasso(space, formula, number)
        engine = "explicit, automaton"
    if found is None:
        return Answer("proved", engine, details=details)
    choices, loop = found
    return Answer("refuted", engine, space.pushes(choices), loop, details=details)


def _lasso(space: Space, formula: Formula, number: dict[Any, int]) -> tuple[list[int], int | None] | None:
    from pellucid.check.buchi import automaton
    from pellucid.check.fair import accepting_lasso

    return accepting_lasso(space, automaton(Not(formula)), number)


def _endless(system: System) -> tuple[str, ...]:
    """A word on the integers that may grow for ever."""
    names = [v.name for v in system.state if v.type == INT and v.size is None]
    return (f"integers without a bound: {', '.join(names)}; ints=Mod(N) bounds them, at the price of arithmetic modulo N",) if names else ()


def _possible(system: System, roots: list[Expr], formula: Formula, number: dict[Any, int], options: Options) -> Answer | None:
    """``AG EF p`` in an endless space: a way from every state, or a state that can be reached from which there is none."""
    if formula.op != "AG" or formula.args[0].op != "EF" or not _has_z3() or any(part.op in CTL for part in formula.args[0].args[0].walk()):
        return None
    events = [v for v in suggested(system, roots) if system.domain.values is None or v in system.domain.values]
    finite = system if system.domain.values is not None else dataclasses.replace(system, domain=Domain(tuple(sorted(events, key=abs))))
    few, observed = cone(finite, roots)
    if listable(few):
        trapped = _trap(*cone(system, roots, all_inputs=True), few, observed, formula, number, options)
        if trapped is not None:
            return trapped
    return _always_soon(system, formula, events, options)


def _trap(
    whole: System,
    roots: list[Expr],
    system: System,
    observed: list[Expr],
    formula: Formula,
    number: dict[Any, int],
    options: Options,
) -> Answer | None:
    """Refute ``AG EF p`` in an endless space: a state that can be reached, from which SMT proves that p never comes.

    States are looked for with the events of ``system``; the proof speaks of all those of ``whole``.
    """
    goal = formula.args[0].args[0]
    few = explore(system, observed, limits=Limits(400))
    aim = expression(goal, dict(zip(number, roots, strict=True)))
    import numpy as np

    marks = np.zeros(few.count, bool)
    hit = [int(s) for s in range(few.expanded) if _some(few, s, goal, number)]
    marks[hit] = True
    for _ in range(few.count):  # what can still reach the goal in the explored part
        grown = marks.copy()
        grown[: few.expanded] |= marks[few.successor].any(axis=1)
        if (grown == marks).all():
            break
        marks = grown
    for s in np.flatnonzero(~marks[: few.expanded])[:8]:
        values = few.values(int(s))
        moved = dataclasses.replace(
            whole, state=tuple(dataclasses.replace(v, start=values[v.name]) for v in whole.state)
        )
        answer = _by_smt(moved, n.not_(aim), dataclasses.replace(options, timeout=min(options.timeout or 10.0, 10.0)))
        if answer.status == "proved":
            note = f"after these pushes {goal} never holds again (proved: {answer.details.get('certificate', '')})"
            return Answer("refuted", "explicit, smt", few.pushes(few.path(int(s))), notes=(note,))
    return None


@n.values_only()
def _always_soon(system: System, formula: Formula, events: list[int], options: Options) -> Answer | None:
    """Prove ``AG EF p`` in an endless space: from every state, p holds within m pushes of one event.

    Which event, and how often, is guessed on states of random runs; that it is so from every state is proved.
    """
    from pellucid.check.smt_lemmas import sample_states

    goal = formula.args[0].args[0]
    whole, (aim,) = cone(system, [expression(goal)], all_inputs=True)
    states = sample_states(whole, [aim])
    own = list(whole.domain.values or ())
    for value in list(dict.fromkeys([*own[:1], *events, *own[:8]])):
        push = [v.name.endswith(".present") if v.type == BOOL else _event(whole, v.type, value) for v in whole.inputs]
        often = _often_enough(whole, aim, push, states)
        if often is None:
            continue
        fixed = [n.const(leaf) for leaf in push]
        now: list[Expr] = [n.var(i, v.type) for i, v in enumerate(whole.state)]
        soon: Expr = n.const(False)
        for _ in range(often):
            here, *now = substitute([aim, *whole.next], [*now, *fixed])
            soon = n.or_(soon, here)
        answer = decide_invariant(whole, soon, dataclasses.replace(options, timeout=min(options.timeout or 20.0, 20.0)))
        if answer.status == "proved":
            which = f"the event {value}" if any(v.type == INT for v in whole.inputs) else "an event"
            note = f"from every state {goal} holds within {often} push(es) of {which}"
            return dataclasses.replace(answer, notes=(note,))
    return None


def _event(system: System, t: Any, value: int) -> Any:
    pool = system.domain.leaf(t) if t != INT else None
    return value if t == INT else pool[0] if pool else simplest(t)


def _often_enough(system: System, aim: Expr, push: list[Any], states: list[Any]) -> int | None:
    """After how many of these pushes the aim has been seen from each of the states; None if not soon from one."""
    most = 1
    for state in states:
        now = list(state)
        for m in range(1, 9):
            memo: dict[int, Any] = {}
            try:
                if evaluate(aim, [*now, *push], memo):
                    most = max(most, m)
                    break
                now = [evaluate(e, [*now, *push], memo) for e in system.next]
            except (ArithmeticError, ValueError, UserRaise):
                return None
        else:
            return None
    return most


def _some(space: Space, state: int, goal: Formula, number: dict[Any, int]) -> bool:
    from pellucid.check.branching import Branching

    return bool(Branching(space, number).where(goal)[state].any())


def _expr(atom: Formula) -> Expr:
    assert isinstance(atom.body, Expr)
    return atom.body


def expression(f: Formula, atoms: dict[Any, Expr] | None = None) -> Expr:
    """A formula without temporal operators as one expression."""
    if f.op in ("true", "false"):
        return n.const(f.op == "true")
    if f.op == "atom":
        return atoms[f] if atoms is not None else _expr(f)
    parts = [expression(a, atoms) for a in f.args]
    if f.op == "!":
        return n.not_(parts[0])
    if f.op == "&":
        return n.and_(parts[0], parts[1])
    if f.op == "|":
        return n.or_(parts[0], parts[1])
    if f.op == "->":
        return n.or_(n.not_(parts[0]), parts[1])
    assert f.op == "<->"
    return n.eq(parts[0], parts[1])
