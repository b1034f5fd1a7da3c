"""Verdicts on small topologies against regions of clocks: ``python -m tests.judge.capacity.timed --minutes 2``."""

from __future__ import annotations

import random
from collections import Counter

from pellucid import check

from .case import Case, draw
from .interpreter import Refused, lengths
from .loop import hunt
from .regions import Literal, Regions


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
        longest, emits, _ = lengths(case, bolt, run.steps)
    except Refused as no:
        return "refuted", f"the run is not one: {no}"
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


def one(seed: int, told: Counter[str]) -> str:
    """One case."""
    r = random.Random(seed)
    case = draw(r, literal=r.random() < 0.2)
    bolt = r.choice(list(case.bolts))
    limit = r.choice((1, 2, 2, 3, 3, 4))
    observe = "any" if case.literal else r.choice(("any", "settled"))
    kind, wrong = judge(case, bolt, limit, observe)
    told[("literal " if case.literal else "urgent ") + kind] += 1
    return f"{wrong}: {bolt} {limit} {observe} {case}" if wrong else ""


if __name__ == "__main__":
    hunt(one)
