"""A way from every state: ``AG EF p`` proved, or refuted by a state that has none, where there are too many states to
list.

Ways are short plans of pushes with events at the pipeline's own constants.  For states of random runs plans are looked
for by trying; that from every state that can be reached one of the plans leads to the goal is then an invariant.  A
state that refutes it gets a plan of its own, and the question is asked again; if it has none, that the goal never holds
after it is another invariant, and the way to the state refutes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import islice, product
from typing import Any, TypeAlias

from pellucid.check.advice import suggested
from pellucid.check.answer import Answer
from pellucid.check.belief.straight import straight
from pellucid.check.decide import Options, by_smt, decide_invariant
from pellucid.check.endless.assumed_runs import in_domain
from pellucid.check.smt.encode import input_leaves
from pellucid.check.smt.lemmas import sample_states
from pellucid.check.system.build import System
from pellucid.check.system.cone import cone
from pellucid.check.system.variable import Variable
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.expr.printing import show
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, FLOAT, INT, EnumType, simplest
from pellucid.internal.model.budget import Budget

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
        self.pushes = _pushes(system, aim)
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


def _pushes(system: System, aim: Expr) -> list[list[Expr]]:
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
