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
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Any, TypeAlias

from pellucid.check.answer import Answer, expression, suggested
from pellucid.check.decide import Options, by_smt, decide_invariant, ending, has_z3, in_domain, listable
from pellucid.check.explicit import Branching, explore
from pellucid.check.formula import Formula
from pellucid.check.formula.nodes import always_possible
from pellucid.check.history import as_invariant
from pellucid.check.smt.encode import input_leaves
from pellucid.check.smt.lemmas import sample_states
from pellucid.check.system.build import System, cone
from pellucid.check.system.domains import Domain
from pellucid.check.system.queues import is_guess
from pellucid.check.system.variables import Variable
from pellucid.check.trial_runs import straight
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, Overflow64, show, walk
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type, simplest
from pellucid.internal.model.search import Budget

_LONGEST = 24  # pushes of a plan
_MOST_PUSHES = 60  # of some of the sources, tried as plans
_MOST_PLANS = 6


@n.values_only()
def stays_possible(system: System, formula: Formula, options: Options) -> Answer | None:
    """``AG EF p`` of a system with deep queues: proved by a way from every state, refuted where p never comes; None if
    neither is seen."""
    goal = always_possible(formula)
    if goal is None:
        return None
    whole, (aim,) = cone(system, [expression(goal)], all_inputs=True)
    limit = options.left
    plans, hopeless = _plans(whole, aim, suggested(system, [expression(goal)]))
    if hopeless is None:
        some = n.any_of(_works(whole, aim, push, length) for push, length in plans)
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


# A way from every state: ``AG EF p`` proved, or refuted by a state that has none, where there are too many states to
# list.
#
# Ways are short plans of pushes with events at the pipeline's own constants. For states of random runs plans are looked
# for by trying; that from every state that can be reached one of the plans leads to the goal is then an invariant. A
# state that refutes it gets a plan of its own, and the question is asked again; if it has none, that the goal never
# holds after it is another invariant, and the way to the state refutes.

Plan: TypeAlias = tuple[int, ...]  # pushes by their number

_LONG, _DEEP, _WIDE, _TRIED, _ROUNDS = 8, 5, 150, 40, 6


@n.values_only()
def by_ways(system: System, aim: Expr, goal: str, options: Options) -> Answer | None:
    """Whether ``aim`` can be reached from every state; None: not known.

    >>> from pellucid import check, pipeline
    >>> from typing import NamedTuple
    >>> class Log(NamedTuple):
    ...     level: str
    ...     took: float
    >>> slow = pipeline(lambda x: x.filter(lambda e: (e.level == "error") & (e.took > 2.5)), x=Log)
    >>> check.live(slow).proved
    True
    """
    whole, (aim,) = cone(system, [aim], all_inputs=True)
    floats = any(v.type == FLOAT for v in whole.state)  # z3 seldom decides what becomes of them
    clock = Budget(min(options.left or 8.0, 4.0 if floats else 8.0))
    ways = _Ways(whole, aim)
    for state in sample_states(whole, [aim])[:_TRIED]:
        ways.find(list(state))
    for _ in range(_ROUNDS):
        if clock.over or not ways.plans:
            break
        answer = decide_invariant(whole, ways.soon(), dataclasses.replace(options, timeout=clock.left(), engine="auto"))
        if answer.status == "proved":
            note = f"from every state {goal} holds within {max(map(len, ways.plans))} push(es): {ways.words()}"
            return dataclasses.replace(answer, notes=(note, *answer.notes))
        if answer.status != "refuted" or answer.pushes is None:
            return None
        way = answer.pushes[:-1]
        there = _after(whole, way)
        if there is None or not ways.find(there):
            return _stuck(whole, aim, goal, way, there, options)
    if not ways.plans:
        return _stuck(whole, aim, goal, [], [v.start for v in whole.state], options)
    return None


def _stuck(
    system: System, aim: Expr, goal: str, way: list[dict[str, Any]], state: list[Any] | None, options: Options
) -> Answer | None:
    """Refuted, if after these pushes the goal never holds again."""
    if state is None:
        return None
    there = tuple(dataclasses.replace(v, start=value) for v, value in zip(system.state, state, strict=True))
    moved = dataclasses.replace(system, state=there, lead=(*system.lead, *way))
    answer = by_smt(moved, n.not_(aim), dataclasses.replace(options, timeout=min(options.left or 10.0, 10.0)))
    if answer.status != "proved":
        return None
    note = f"after these pushes {goal} never holds again (proved: {answer.details.get('certificate', '')})"
    return Answer("refuted", "smt", way, notes=(note,))


def _after(system: System, pushes: Sequence[dict[str, Any]]) -> list[Any] | None:
    step, state = straight(system.next), [v.start for v in system.state]
    try:
        for push in pushes:
            given = input_leaves(system, push)
            lost = [f"lost.{v.of}" in push for v in system.inputs[len(given) :]]
            state = list(step([*state, *given, *lost]))
    except Overflow64:
        return None
    return state


class _Ways:
    """Pushes to try, and plans that lead to the goal from the states that were met."""

    def __init__(self, system: System, aim: Expr) -> None:
        self.system, self.aim = system, aim
        self.pushes = _pushes_ways(system, aim)
        self.plans: list[Plan] = []
        self._names = tuple(v.name for v in system.state)
        self._step = straight([aim, system.assume, *system.next])
        self._rows = [straight([in_domain(system, push), *push]) for push in self.pushes]

    def _go(self, state: list[Any], push: int) -> tuple[bool, list[Any]] | None:
        """Whether the goal holds in the push, and the state after it; None if it cannot be made."""
        try:
            fits, *given = self._rows[push]([*state, *[None] * len(self.system.inputs)])
            found, assumed, *after = self._step([*state, *given])
        except Overflow64:
            return None
        return (bool(found), list(after)) if fits and assumed else None

    def _leads(self, plan: Plan, state: list[Any]) -> int | None:
        """After how many of its pushes the goal holds."""
        for i, push in enumerate(plan, 1):
            went = self._go(state, push)
            if went is None:
                return None
            if went[0]:
                return i
            state = went[1]
        return None

    def find(self, state: list[Any]) -> bool:
        """Have a plan for this state."""
        if any(self._leads(plan, state) for plan in self.plans):
            return True
        for often in (1, _LONG):  # one event; then the same one again and again
            for push in range(len(self.pushes)):
                many = self._leads((push,) * often, state)
                if many is not None:
                    self._keep((push,) * many)
                    return True
        ends: list[tuple[Plan, list[Any]]] = [((), state)]
        seen = {tuple(state)}
        for _ in range(_DEEP):
            further: list[tuple[Plan, list[Any]]] = []
            for plan, here in ends:
                for push in range(len(self.pushes)):
                    went = self._go(here, push)
                    if went is None:
                        continue
                    if went[0]:
                        self._keep((*plan, push))
                        return True
                    if tuple(went[1]) not in seen:
                        seen.add(tuple(went[1]))
                        further.append(((*plan, push), went[1]))
            ends = further[:_WIDE]
        return False

    def _keep(self, plan: Plan) -> None:
        """A longer plan of the same pushes takes the place of a shorter one: it does what that does."""
        self.plans = [p for p in self.plans if p != plan[: len(p)]] + [plan]

    def soon(self) -> Expr:
        """One of the plans leads to the goal: a fact about the state."""
        out: Expr = n.FALSE
        for plan in self.plans:
            now: list[Expr] = [n.var(i, v.type) for i, v in enumerate(self.system.state)]
            may: Expr = n.TRUE
            for push in plan:
                row = self.pushes[push]
                fits, *given = substitute([in_domain(self.system, row), *row], now)
                here, assumed, *now = substitute([self.aim, self.system.assume, *self.system.next], [*now, *given])
                may = n.and_(n.and_(may, fits), assumed)
                out = n.or_(out, n.and_(may, here))
        return out

    def words(self) -> str:
        """The plans, for people."""
        return ", or ".join("; ".join(self._push(push) for push in plan) for plan in sorted(self.plans, key=len)[:3])

    def _push(self, number: int) -> str:
        row, said = self.pushes[number], []
        comes = {v.of for v, e in zip(self.system.inputs, row, strict=True) if v.role == "present" and e is n.TRUE}
        for v, e in zip(self.system.inputs, row, strict=True):
            if v.role == "leaf" and v.of in comes:
                said.append(f"{v.name} = {e.value!r}" if e.op == "const" else f"{v.name} = {show(e, self._names)}")
        return ", ".join(said[:4]) or ("an event" if comes else "silence")


def _pushes_ways(system: System, aim: Expr) -> list[list[Expr]]:
    """Pushes to go on with, as expressions over the state: events at the constants that matter, and silence."""
    small, _ = cone(system, [aim])
    matter = {(v.role, v.of, v.at) for v in small.inputs}
    many = sum((v.role, v.of, v.at) in matter for v in system.inputs if v.role == "leaf")
    most = {0: 1, 1: 12, 2: 4, 3: 3}.get(many, 2)
    pools: list[list[Expr]] = []
    for v in system.inputs:
        if v.role != "leaf":
            pools.append([n.const(v.role == "present") if v.type == BOOL else n.const(simplest(v.type))])
        else:
            values = _pool(system, aim, v)
            pools.append([n.const(c) for c in values[: most if (v.role, v.of, v.at) in matter else 1]])
    rows = [list(row) for row in islice(product(*pools), 24)]
    ordered = [change for row in rows[:8] for change in _in_order(system, row)]
    ordered += _to_a_sum(system, rows[0], matter, _numbers(system, aim))
    silence = [n.FALSE if v.role == "present" else e for v, e in zip(system.inputs, rows[0], strict=True)]
    return [*rows, *_alone(system, rows), *ordered, silence]


def _alone(system: System, rows: list[list[Expr]]) -> list[list[Expr]]:
    """Pushes of one source each, where there are several: a tick without a heartbeat."""
    sources = [v.of for v in system.inputs if v.role == "present"]
    out = [
        [n.const(v.of == name) if v.role == "present" else e for v, e in zip(system.inputs, row, strict=True)]
        for name in sources if len(sources) > 1
        for row in rows[:8]
    ]  # fmt: skip
    return [list(row) for row in dict.fromkeys(map(tuple, out))]


def _pool(system: System, aim: Expr, v: Variable) -> list[Any]:
    """Values of a leaf at the constants that it may be compared with; all that can be listed."""
    if v.type == BOOL or isinstance(v.type, EnumType):
        return system.domain.leaf(v.type) or [simplest(v.type)]
    given = system.domain.values
    found = [e.value for e in walk(aim, *system.next) if e.op == "const" and e.type == v.type]
    if v.type == INT:
        near = [*_numbers(system, aim)[::-1], *suggested(system, [aim])]
        own = list(given[:8]) if given is not None else [*near[::-1], 1]
        return list(dict.fromkeys(c for c in (*[x for x in near[::-1] if given is None or x in given], *own)))
    if v.type == FLOAT:
        ints = [
            float(e.value)
            for e in walk(aim, *system.next)
            if e.op == "const" and e.type == INT and abs(e.value) < 2**53
        ]
        reals = [x for c in (*found, *ints) for x in (c + 1.0, c, c - 1.0) if math.isfinite(x)]
        return list(dict.fromkeys([*reals, 0.0, 1.0]))
    return list(dict.fromkeys([*found, "", "other 1"]))


def _numbers(system: System, aim: Expr) -> list[int]:
    """Above and below the constants of the goal, and of the pipeline where it has none."""
    for exprs in ([aim], [aim, *system.next]):
        found = [e.value for e in walk(*exprs) if e.op == "const" and e.type == INT and 1 < abs(e.value) < 10**9]
        if found:
            break
    return list(dict.fromkeys(c + d for d in (1, -1) for c in sorted(set(found), key=abs)[-3:]))[:6] or [1, -1]


def _to_a_sum(
    system: System, row: list[Expr], matter: set[tuple[str, str, int]], values: Sequence[int]
) -> list[list[Expr]]:
    """Events that depend on what is kept: so much above it, and what is missing to so much."""
    leaves = [
        i for i, v in enumerate(system.inputs) if v.type == INT and v.role == "leaf" and (v.role, v.of, v.at) in matter
    ]
    kept = [
        n.var(i, v.type)
        for i, v in enumerate(system.state)
        if v.type == INT and v.size is None and v.role in ("state", "item", "event")
    ]
    if system.domain.modulus is not None:
        return []
    out = []
    for i in leaves[:2]:
        for e in kept[:4]:
            for c in values:
                for made in (n.sub(n.const(c), e), n.add(e, n.const(c))):
                    out.append([*row[:i], made, *row[i + 1 :]])
    return out


def _in_order(system: System, row: list[Expr]) -> list[list[Expr]]:
    """The push changed so that it keeps to an order, where an assumption remembers the event before."""
    known = {(v.of, v.at): n.var(i, v.type) for i, v in enumerate(system.state) if v.role == "before" and v.type == INT}
    came = {v.of: n.var(i, v.type) for i, v in enumerate(system.state) if v.role == "came"}
    changes: tuple[Callable[[Expr, Expr], Expr], ...] = (
        lambda old, e: n.ite(n.lt(old, e), e, old),
        lambda old, e: n.ite(n.lt(e, old), e, old),
        lambda old, e: n.ite(n.lt(old, e), e, n.add(old, n.const(1))),
        lambda old, e: n.ite(n.lt(e, old), e, n.sub(old, n.const(1))),
    )
    out = []
    for change in changes if known else ():
        made = []
        for v, e in zip(system.inputs, row, strict=True):
            old = known.get((v.of, v.at)) if v.role == "leaf" else None
            made.append(e if old is None else n.ite(came.get(v.of, n.TRUE), change(old, e), e))
        out.append(made)
    return out


# Whether something stays possible, where there are too many states to list: ``AG EF p`` over exact integers.
#
# Proved by a way from every state, refuted by a state that can be reached and from which there is none.


def possible(
    system: System, roots: list[Expr], formula: Formula, number: dict[Any, int], options: Options
) -> Answer | None:
    """``AG EF p`` in an endless space: a way from every state, or a state that can be reached from which there is
    none."""
    goal = always_possible(formula)
    if goal is None or not has_z3():
        return None
    if ending(system):  # what looks possible may lie on no run
        return None
    events = [v for v in suggested(system, roots) if system.domain.values is None or v in system.domain.values]
    finite = system
    if system.domain.values is None:
        finite = dataclasses.replace(system, domain=Domain(tuple(sorted(events, key=abs))))
    few, observed = cone(finite, roots)
    if listable(few, observed):
        trapped = _trap(*cone(system, roots, all_inputs=True), few, observed, formula, number, options)
        if trapped is not None:
            return trapped
    return by_ways(system, expression(goal), str(goal), options)


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
    few = explore(system, observed, budget=Budget(max_states=400))
    aim = expression(goal, dict(zip(number, roots, strict=True)))
    import numpy as np

    marks = np.zeros(few.count, bool)
    where = Branching(few, number).where(goal)
    marks[[s for s in range(few.expanded) if where[s].any()]] = True
    for _ in range(few.count):  # what can still reach the goal in the explored part
        grown = marks.copy()
        grown[: few.expanded] |= marks[few.successor].any(axis=1)
        if (grown == marks).all():
            break
        marks = grown
    for s in np.flatnonzero(~marks[: few.expanded])[:8]:
        values = dict(zip(map(_identity, system.state), few.values(int(s)), strict=True))
        way = few.pushes(few.path(int(s)))
        moved = dataclasses.replace(
            whole, state=tuple(dataclasses.replace(v, start=values[_identity(v)]) for v in whole.state), lead=tuple(way)
        )
        answer = by_smt(moved, n.not_(aim), dataclasses.replace(options, timeout=min(options.left or 10.0, 10.0)))
        if answer.status == "proved":
            note = f"after these pushes {goal} never holds again (proved: {answer.details.get('certificate', '')})"
            return Answer("refuted", "explicit, smt", way, notes=(note,))
    return None


def _identity(v: Variable) -> tuple[str, str, str]:
    """The same in every cone of a system."""
    return v.role, v.of, v.name


# ---------------------------------------------------------------- events that cannot be listed
# Exact integers, strings, records of them.
# Tried in turn: as an invariant with a little history (`pellucid.check.history`); a way from every state, or
# a state without one (`possible`). What neither decides is *unknown*.


def unlisted(system: System, roots: list[Expr], formula: Formula, number: dict[Any, int], options: Options) -> Answer:
    """Whether a resolved formula holds, without listing what comes in."""
    if not has_z3():
        return Answer("unknown", "none", notes=("the solver z3 is not installed: pip install 'pellucid[check]'",))
    made = as_invariant(system, formula)
    if made is not None:
        return decide_invariant(*made, options)
    found = possible(system, roots, formula, number, options)
    return found if found is not None else Answer("unknown", "none")
