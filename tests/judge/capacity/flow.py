"""Who is unbounded, by linear programs solved exactly, from the sentence that says so; and random questions about it:
``python -m tests.judge.capacity.flow --minutes 2``.

A queue is unbounded exactly if more can come for a long while than is served, where bolts that are unbounded already
are sources at full capacity.  (With copies everything goes everywhere, so that there is nothing to choose.)
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import z3

from pellucid import check
from pellucid.capacity import check_flows, flows, grow, threshold
from tests.judge.capacity.loop import hunt
from tests.judge.capacity.regions import Case, Regions, draw, lengths


def most(case: Case, bolt: str, stores: set[str]) -> Fraction:
    """The most that can come to a bolt per unit of time."""
    program = z3.Optimize()
    names = [*case.spouts, *case.bolts]
    flow = {(a, b): z3.Real(f"{a}>{b}") for a in names for b in case.listeners(a)}
    program.add(*(f >= 0 for f in flow.values()))
    for a in names:
        out = z3.Real(f"out {a}")
        program.add(out >= 0)
        if a in case.spouts:
            program.add(out <= 1 / z3.Q(*case.spouts[a].as_integer_ratio()))
        else:
            step = case.bolts[a]
            served = z3.Real(f"served {a}")
            assert step.workers is not None
            program.add(served <= z3.Q(*(step.workers / step.time).as_integer_ratio()), served >= 0)
            if a not in stores:
                program.add(served <= sum((f for (_, b), f in flow.items() if b == a), z3.RealVal(0)))
            program.add(out <= served * z3.Q(*step.ratio.as_integer_ratio()))
        to = case.listeners(a)
        if case.copies:
            program.add(*(flow[a, b] == out for b in to))
        elif to:
            program.add(sum(flow[a, b] for b in to) <= out)
    best = program.maximize(sum((f for (_, b), f in flow.items() if b == bolt), z3.RealVal(0)))
    assert program.check() == z3.sat
    value = best.value()
    return Fraction(str(value))


def unbounded(case: Case) -> set[str]:
    """All of them."""
    found: set[str] = set()
    while True:
        new = {
            b
            for b, s in case.bolts.items()
            if b not in found and most(case, b, found) > (1 if s.own else s.workers or 0) / s.time
        }
        if not new:
            return found
        found |= new


def one(seed: int, told: Counter[str]) -> str:
    """One case: all bolts of a topology without circles."""
    r = random.Random(seed)
    case = draw(r)
    mine = unbounded(case)
    found = flows(case.topology())
    said = {b for b, f in found.items() if f.status == "unbounded"}
    told["flows"] += 1
    if said != mine or any(f.status == "unknown" for f in found.values()):
        return f"unbounded {said}, but {mine}: {case}"
    if not check_flows(found):
        return f"its own proofs are not accepted: {case}"
    bolt = r.choice(list(case.bolts))
    what = seed % 4
    if what == 0 and bolt in mine:
        goal = r.randrange(2, 9)
        run = grow(case.topology(), bolt, goal)
        told["grown"] += 1
        if (got := lengths(case, bolt, run.steps)[0]["any"]) < goal:
            return f"grow {bolt} {goal}: only {got}: {case}"
    elif what == 1:
        return limits(case, bolt, told)
    elif what == 2:
        return gaps(case, bolt, told)
    elif what == 3:
        return numbers(case, bolt, r, told)
    return ""


def limits(case: Case, bolt: str, told: Counter[str]) -> str:
    """A bounded queue has a longest length: Pellucid says the same, and all is proved above it."""
    mine = Regions(case, bolt).explore(6, budget=12_000)
    if bolt in unbounded(case) or not mine.done:
        told["limits: too large"] += 1
        return ""
    for observe in ("any", "settled"):
        n = mine.longest(observe)
        above = check.capacity(case.topology(), {bolt: n + 1}, observe=observe, timeout=20)
        at = check.capacity(case.topology(), {bolt: n}, observe=observe, timeout=20) if n else None
        told["longest"] += 1
        if not above.proved or (at is not None and not at.refuted):
            return f"{bolt} {observe}: longest {n}, but {above.status} at {n + 1}, {at and at.status} at {n}: {case}"
    return ""


def gaps(case: Case, bolt: str, told: Counter[str]) -> str:
    """The threshold: bounded there, not just below."""
    found = threshold(case.topology(), bolt)
    told["threshold " + found.status] += 1
    if found.status == "at":
        gap = found.gap
        assert gap is not None
        for g, fine in (
            (gap, True),
            (gap * Fraction(1001, 1000), True),
            (gap * Fraction(999, 1000), False),
            (gap / 2, False),
        ):
            if (bolt not in unbounded(case.gap(g))) != fine:
                return f"threshold of {bolt} {gap}, but at {g} it is {'un' if fine else ''}bounded: {case}"
    elif found.status == "always":
        if bolt in unbounded(case.gap(Fraction(1, 1000))):
            return f"{bolt} is not bounded at every gap: {case}"
    elif found.status == "never":
        if bolt not in unbounded(case.gap(Fraction(1000))):
            return f"{bolt} is bounded at some gap: {case}"
    else:
        return f"threshold of {bolt} {found}: {case}"
    return ""


def numbers(case: Case, bolt: str, r: random.Random, told: Counter[str]) -> str:
    """Any number of workers, for one bolt or all of them, against many explicit ones."""
    case = replace(case, bolts={b: replace(s, own=False, initial=0) for b, s in case.bolts.items()})
    many = [b for b in case.bolts if b == bolt or r.random() < 0.4]
    many = [b for b in many if b in case.above(bolt)][:2]
    limit, observe = r.choice((1, 2, 3, 4)), r.choice(("any", "settled"))
    found = check.capacity(case.workers(**dict.fromkeys(many)).topology(), {bolt: limit}, observe=observe, timeout=20)
    reached: list[object] = []
    for numbers in [(a, b) for a in (1, 2, 3, 4, 5) for b in (1, 2, 3, 4) if len(many) > 1 or b == 1]:
        chosen = dict(zip(many, numbers, strict=False))
        mine = Regions(case.workers(**chosen), bolt).explore(limit, budget=4000)
        if mine.says(observe, limit) == "refuted":
            reached.append((chosen, mine.first[observe][limit]))
    told[f"any {found.status}{'' if reached else ' none seen'}"] += 1
    if found.status == "proved" and reached:
        return f"proved for any {many}, but {reached[:2]}: {bolt} {limit} {observe} {case}"
    if found.status == "refuted":
        run = found.counterexample
        assert run is not None
        used: Counter[str] = Counter()
        for step in run.steps:
            if step.action == "bolt_take":
                used[step.who[0]] = max(used[step.who[0]], step.who[1] + 1)
        # whatever the number was: it had at least these workers, and a larger one may forbid the run
        for extra in range(6):
            tried = case.workers(**{b: max(used[b], 1) + extra for b in many})
            try:
                if lengths(tried, bolt, run.steps)[0][observe] >= limit:
                    return ""
            except Exception:
                continue
        if not reached:
            return f"refuted for any {many}, with a run that no number has: {bolt} {limit} {observe} {case}"
    if found.status == "unknown":
        return f"unknown for any {many}, reached {reached[:1]}: {bolt} {limit} {observe} {case}: {found.notes}"
    return ""


if __name__ == "__main__":
    hunt(one)
