"""Whether something stays possible, however long the queues have grown: ``AG EF p`` of pipelines without bounds.

Two ways to show a way from every state.  A few pushes that are always the same lead to ``p``: an event of each source
is enough for ``a + b``.  Or they lead to a state with **less in its queues**, from which one goes on: that cannot be
for ever, so ``p`` comes in the end.  (``a.filter(b)`` with a hundred refusals waiting needs a hundred events of ``a``
first.)  So it is enough that in every state that can be reached, some of finitely many plans leads to ``p`` or makes
the sum of the lengths smaller: an invariant, and proved as one, of a system with queues of any length.  The plans are
guessed from states of random runs.

There is no such way where ``p`` can be proved never to hold again after some pushes.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from pellucid.check.advice import suggested
from pellucid.check.answer import Answer, expression
from pellucid.check.decide import Options, by_smt
from pellucid.check.formula import CTL, Formula
from pellucid.check.smt.encode import input_leaves
from pellucid.check.system.build import System
from pellucid.check.system.cone import cone
from pellucid.check.system.guess import is_guess
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import INT, STR, Type, simplest

_LONGEST = 24  # pushes of a plan
_MOST_PUSHES = 60  # of some of the sources, tried as plans
_MOST_PLANS = 6


@n.values_only()
def stays_possible(system: System, formula: Formula, options: Options) -> Answer | None:
    """``AG EF p`` of a system with deep queues: proved by a way from every state, refuted where p never comes; None if
    neither is seen."""
    if (
        formula.op != "AG"
        or formula.args[0].op != "EF"
        or any(part.op in CTL for part in formula.args[0].args[0].walk())
    ):
        return None
    goal = formula.args[0].args[0]
    whole, (aim,) = cone(system, [expression(goal)], all_inputs=True)
    limit = options.left
    plans, hopeless = _plans(whole, aim, suggested(system, [expression(goal)]))
    if hopeless is None:
        some = n.FALSE
        for push, length in plans:
            some = n.or_(some, _works(whole, aim, push, length))
        if not _guessed(whole, some):
            answer = by_smt(whole, some, dataclasses.replace(options, engine="smt", timeout=limit and limit / 2))
            if answer.status == "proved":
                return dataclasses.replace(answer, notes=(_words(goal, plans),))
    elif hopeless.real:
        there = dataclasses.replace(
            whole,
            state=tuple(dataclasses.replace(v, start=x) for v, x in zip(whole.state, hopeless.state, strict=True)),
        )
        never = by_smt(there, n.not_(aim), dataclasses.replace(options, timeout=min(limit or 10.0, 10.0)))
        if never.status == "proved":
            after = "after these pushes " if hopeless.pushes else ""
            note = (
                f"{after}{goal} never holds again, also where queues grow without a bound (proved: "
                f"{never.details.get('certificate', '')})"
            )
            return Answer("refuted", "smt", hopeless.pushes, notes=(note,))
    return None


def _words(goal: Formula, plans: list[tuple[dict[str, Any], int]]) -> str:
    shown = "; or ".join(
        f"{length} push(es) of {', '.join(_event(name, value) for name, value in push.items())}"
        for push, length in plans
    )
    if len(plans) == 1:
        return f"from every state, with queues of any length, {goal} holds within {shown}"
    return f"from every state, with queues of any length, {goal} holds or less waits in queues within {shown}"


def _event(name: str, value: Any) -> str:
    return name if value in (0, False, "") and not isinstance(value, float) else f"{name} = {value!r}"


def _lengths(system: System) -> list[Expr]:
    return [n.var(i, v.type) for i, v in enumerate(system.state) if v.role == "length"]


def _sum(lengths: list[Expr]) -> Expr:
    out: Expr = n.const(0)
    for e in lengths:
        out = n.add(out, e)
    return out


def _works(system: System, aim: Expr, push: dict[str, Any], length: int) -> Expr:
    """Within so many of these pushes the aim is seen, or the queues have become shorter."""
    fixed = [n.const(leaf) for leaf in input_leaves(system, push)]
    state: list[Expr] = [n.var(i, v.type) for i, v in enumerate(system.state)]
    before, now = _sum(_lengths(system)), state
    out, possible = n.FALSE, n.TRUE
    for _ in range(length):
        here, taken, *now = substitute([aim, system.assume, *system.next], [*now, *fixed])
        possible = n.and_(possible, taken)  # a push that is not assumed is in no run
        (after,) = substitute([before], now)
        out = n.or_(out, n.and_(possible, n.or_(here, n.lt(after, before))))
    return out


def _guessed(system: System, e: Expr) -> bool:
    """Whether it depends on an event that was guessed: then it may be another."""
    names = [v.of for v in system.inputs]
    return any(
        part.op == "var" and part.value >= len(system.state) and is_guess(names[part.value - len(system.state)])
        for part in walk(e)
    )


@dataclass(frozen=True)
class _Reached:
    """A state of a run, and the way to it; ``real`` if nothing in it was guessed."""

    state: tuple[Any, ...]
    pushes: list[dict[str, Any]]
    real: bool


def _runs(system: System, pushes: list[dict[str, Any]]) -> list[_Reached]:
    """States of random runs of these pushes, the start first; always the same ones for the same system."""
    rng = random.Random(0)
    start = _Reached(tuple(v.start for v in system.state), [], True)
    seen = {start.state: start}
    bounds = [(i, system.bounds[v.of]) for i, v in enumerate(system.state) if v.role == "length"]
    for _ in range(24):
        at, few = start, rng.sample(pushes, min(len(pushes), rng.choice((1, 2, 4, len(pushes)))))
        for _ in range(16):
            push = rng.choice(few)
            leaves, memo = [*at.state, *input_leaves(system, push)], dict[int, Any]()
            try:
                if not evaluate(system.assume, leaves, memo):
                    continue
                after = tuple(evaluate(e, leaves, memo) for e in system.next)
            except (ArithmeticError, ValueError, UserRaise):
                break
            real = at.real and all(after[i] <= bound for i, bound in bounds)
            at = _Reached(after, [*at.pushes, push], real)
            seen.setdefault(after, at)
    return list(seen.values())


def _plans(system: System, aim: Expr, events: list[int]) -> tuple[list[tuple[dict[str, Any], int]], _Reached | None]:
    """Pushes, and how often, of which one works in every state of random runs; or a state in which none does."""
    lengths = _sum(_lengths(system))
    plans: dict[int, int] = {}
    pushes = _pushes(system, aim, events)
    leaves = [input_leaves(system, push) for push in pushes]
    for reached in sorted(_runs(system, pushes), key=lambda r: not r.real):
        best: tuple[int, int] | None = None
        for i in [*plans, *(i for i in range(len(pushes)) if i not in plans)]:
            needs = _soon(system, aim, lengths, reached.state, leaves[i])
            if needs is not None and needs <= plans.get(i, 0):
                best = None
                break
            if needs is not None and (best is None or needs < best[1]):
                best = i, needs
        else:
            if best is None or len(plans) == _MOST_PLANS:
                return [], reached
            plans[best[0]] = best[1]
    return [(pushes[i], length) for i, length in plans.items()], None


def _soon(system: System, aim: Expr, lengths: Expr, state: Any, push: list[Any]) -> int | None:
    """How many of these pushes it takes from a state; None if too many."""
    now, first = list(state), evaluate(lengths, list(state))
    for m in range(1, _LONGEST + 1):
        memo: dict[int, Any] = {}
        try:
            if not evaluate(system.assume, [*now, *push], memo):
                return None
            if evaluate(aim, [*now, *push], memo):
                return m
            after = [evaluate(e, [*now, *push], memo) for e in system.next]
            if evaluate(lengths, after) < first:
                return m
        except (ArithmeticError, ValueError, UserRaise):
            return None
        if after == now:
            return None
        now = after
    return None


def _pushes(system: System, aim: Expr, events: list[int]) -> list[dict[str, Any]]:
    """Pushes that are worth trying: all sources first, then each part of them; with the events that tell cases
    apart."""
    real = system.own_sources
    parts = [e for e in walk(aim, *system.next) if e.op == "const"]
    words = sorted({e.value for e in parts if e.type == STR})
    near = [e.value + d for e in parts if e.type == INT and abs(e.value) < 2**40 for d in (1, 0, -1)]
    choices = {name: _events(system, t, list(dict.fromkeys((0, *near, *events))), words) for name, t in real}
    out: list[dict[str, Any]] = []
    for many in range(len(real), 0, -1):
        for some in combinations([name for name, _ in real], many):
            out += [
                dict(zip(some, values, strict=True))
                for values in _simplest([choices[name] for name in some], _MOST_PUSHES)
            ]
    return out


def _simplest(pools: list[list[Any]], most: int) -> list[tuple[Any, ...]]:
    """Some of all combinations, those with the first of each pool before others."""
    places = sorted(product(*[range(len(pool)) for pool in pools]), key=lambda at: (sum(i > 0 for i in at), sum(at)))
    return [tuple(pool[i] for pool, i in zip(pools, at, strict=True)) for at in places[:most]]


def _events(system: System, t: Type, ints: list[int], words: list[str]) -> list[Any]:
    """A few events of a type."""
    domain = system.domain.values
    ints = [v for v in ints if v in domain] + [v for v in domain[:16] if v not in ints] if domain is not None else ints
    pools: list[list[Any]] = []
    for _, kind in t.leaves():
        pool = (
            [*words, "other 1"]
            if kind == STR
            else ints
            if kind == INT
            else system.domain.leaf(kind) or [simplest(kind)]
        )
        pools.append(pool[:16])
    return [t.event(list(leaves)) for leaves in _simplest(pools, 24)]
