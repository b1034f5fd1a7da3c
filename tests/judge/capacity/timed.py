"""Verdicts on small topologies against regions of clocks: ``python -m tests.judge.capacity.timed --minutes 2``."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction

from pellucid import check
from tests.judge.capacity.loop import hunt
from tests.judge.capacity.regions import Case, Literal, Refused, Regions, draw, lengths


def judge(case: Case, bolt: str, limit: int, observe: str, *, budget: int = 20_000) -> tuple[str, str]:
    """What was compared, and what is wrong ("" if nothing)."""
    if case.literal:
        mine = Literal(case, bolt, whole=True).search(limit, budget=budget // 3)
        if not mine.done and limit not in mine.first["any"]:
            more = Literal(case, bolt).search(limit, budget=budget // 3)
            mine = more if more.says("any", limit) == "proved" else mine
    else:
        mine = Regions(case, bolt).explore(limit, budget=budget)
    said = mine.says(observe, limit)
    found = check.capacity(case.topology(observe), {bolt: limit}, observe=observe, timeout=20.0)
    if found.status == "unknown":
        return "unknown", "" if said == "unknown" else f"unknown, but {said}"
    if found.status == "proved":
        return f"proved/{said}", f"proved, but {limit} after {mine.first[observe][limit]}" if said == "refuted" else ""
    run = found.counterexample
    assert run is not None
    try:
        longest, emits, took = lengths(case, bolt, run.steps)
    except Refused as no:
        return "refuted", f"the run is not one: {no}"
    told = re.search(
        r"in more than (\S+) and as near to it as one likes \(here in ([^)]+)\)", " ".join(found.parts[bolt].notes)
    )
    if told and not Fraction(told[1]) < Fraction(told[2]) == took < Fraction(told[1]) + Fraction(1, 100):
        return "refuted", f"{told[0]}, but it took {took}"
    if longest[observe] < limit:
        return "refuted", f"the run reaches only {longest[observe]}"
    cost = len(run.steps) if case.literal else emits
    if said == "proved":
        return "refuted", "refuted, but no run reaches it"
    if said == "refuted" and mine.first[observe][limit] != cost:
        return "refuted", f"{cost} emits or steps, but {mine.first[observe][limit]} are enough or needed"
    if said == "unknown" and cost <= mine.levels:
        return "refuted", f"{cost} emits or steps, but none with at most {mine.levels}"
    return f"refuted/{said}", ""


def literal_case(r: random.Random) -> Case:
    """In the literal semantics, also with tuples that wait at the start and with ratios."""
    case, ratios = draw(r, literal=True), ("1", "1", "1/2", "2")
    return replace(
        case,
        bolts={
            b: replace(s, initial=r.choice((0, 0, 0, 1, 2)), ratio=Fraction(r.choice(ratios)))
            for b, s in case.bolts.items()
        },
    )


def circle(r: random.Random) -> Case:
    """With bolts that hear one another, or themselves."""
    case = draw(r)
    back, to = r.choice(list(case.bolts)), r.choice(list(case.bolts))
    bolts = {}
    for b, s in case.bolts.items():
        hears = (*s.hears, back) if b == to and back not in s.hears else s.hears
        bolts[b] = replace(s, hears=hears, initial=0, own=False, ratio=Fraction(r.choice(("1", "1/2", "1/2", "1/3"))))
    return replace(case, bolts=bolts)


def one(seed: int, told: Counter[str]) -> str:
    """One case."""
    r = random.Random(seed)
    case = (draw, literal_case, circle)[r.choice((0, 0, 0, 1, 2))](r)
    bolt = r.choice(list(case.bolts))
    limit = r.choice((1, 2, 2, 3, 3, 4))
    observe = "any" if case.literal else r.choice(("any", "settled"))
    kind, wrong = judge(case, bolt, limit, observe)
    told[("literal " if case.literal else "urgent ") + kind] += 1
    return f"{wrong}: {bolt} {limit} {observe} {case}" if wrong else ""


if __name__ == "__main__":
    hunt(one)
