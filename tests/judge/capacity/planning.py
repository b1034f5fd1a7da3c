"""Plans against brute force: ``python -m tests.judge.capacity.planning --minutes 2``.

Least workers and least gaps by trying them on regions of clocks; backlogs by a simulation of one queue; the numbers
that Flink's autoscaler asks for by its published formula.
"""

from __future__ import annotations

import heapq
import json
import math
import random
import tempfile
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from pellucid.capacity.measured import Job, MeasuredStep, Scaling
from pellucid.capacity.measured.plan import scale
from pellucid.internal.cli.main import cli
from tests.judge.capacity.flow import most, unbounded
from tests.judge.capacity.loop import hunt
from tests.judge.capacity.regions import Case, Literal, Regions, draw
from tests.judge.capacity.timed import literal_case


def planned(case: Case, *args: str) -> dict[str, dict[str, Any]]:
    """What ``pellucid capacity FILE.toml --json`` says of each bolt."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "topology.toml"
        file.write_text(case.topology().to_toml())
        result = CliRunner().invoke(cli, ["capacity", str(file), "--json", *args])
        if result.exit_code not in (0, 1, 3):
            raise AssertionError(f"exit code {result.exit_code}: {result.output}\n{case}") from result.exception
        return {b["bolt"]: b for b in json.loads(result.stdout)["bolts"]}


def drained(backlog: int, workers: int, time: Fraction, every: Fraction | None, most: Fraction) -> Fraction | None:
    """When a queue is worked off, with a tuple more every so often; None if it is not by then."""
    free = [Fraction(0)] * workers
    waiting, coming, last = backlog, every, Fraction(0)
    while waiting:
        at = heapq.heappop(free)
        if at > most:
            return None
        while coming is not None and every is not None and coming <= at:
            waiting, coming = waiting + 1, coming + every
        waiting -= 1
        last = max(last, at + time)
        heapq.heappush(free, at + time)
    return last


def one(seed: int, told: Counter[str]) -> str:
    """One case."""
    r = random.Random(seed)
    if seed % 4 == 0:
        return production(r, told)
    if seed % 4 == 3:
        case = literal_case(r)
        return literally(case, planned(case, "--timeout", "6"), told)
    case = draw(r)
    case = replace(case, bolts={b: replace(s, initial=0) for b, s in case.bolts.items()})
    bolt = r.choice(list(case.bolts))
    if seed % 4 == 1:
        return backlog(case, bolt, r.randrange(1, 400), told)
    limit = r.choice((1, 2, 2, 3))
    found = planned(case, "--queue-limit", f"{bolt}={limit}", "--timeout", "6")
    return plans(case, bolt, limit, found, told)


def plans(case: Case, bolt: str, limit: int, found: dict[str, dict[str, Any]], told: Counter[str]) -> str:
    """Longest queues, least workers, least gap."""
    endless = unbounded(case)
    for b, row in found.items():
        mine = Regions(case, b).explore(7, budget=5000)
        if (row["longest"] == "unbounded") != (b in endless):
            return f"{b} {row['longest']}, but unbounded are {endless}: {case}"
        if mine.done and b not in endless:
            told["longest"] += 1
            if (row["longest_any"], row["longest_settled"]) != (mine.longest("any"), mine.longest("settled")):
                return f"{b}: {row['longest_any']}/{row['longest_settled']}, but {mine.first}: {case}"
    row = found[bolt]
    verdict = Regions(case, bolt).explore(limit, budget=8000).says("any", limit)
    if "unknown" not in (row["status"], verdict) and row["status"] != verdict:
        return f"{bolt} {limit}: {row['status']}, but {verdict}: {case}"
    least = row["least_workers"]
    if least is not None and least["status"] == "at":
        n = int(least["value"])
        told["least workers"] += 1
        tried = {
            k: Regions(case.workers(**{bolt: k}), bolt).explore(limit, budget=6000).says("any", limit)
            for k in range(max(1, n - 2), n + 2)
        }
        if any((said == "proved") != (k >= n) for k, said in tried.items() if said != "unknown"):
            return f"least workers of {bolt} for {limit}: {n}, but {tried}: {case}"
    elif least is not None:
        told["least workers " + least["status"]] += 1
        if least["status"] == "never":
            for k in (1, 3, 6, 9):
                if Regions(case.workers(**{bolt: k}), bolt).explore(limit, budget=6000).says("any", limit) == "proved":
                    return f"{k} workers of {bolt} are enough for {limit}: {case}"
    gap = row["least_gap"]
    if gap is not None and gap["status"] == "at":
        g = Fraction(gap["value"])
        told["least gap"] += 1
        for factor, fine in ((1, True), (Fraction(3, 2), True), (Fraction(9, 10), False), (Fraction(2, 3), False)):
            said = Regions(case.gap(g * factor), bolt).explore(limit, budget=6000).says("any", limit)
            if said != "unknown" and (said == "proved") != fine:
                return f"least gap of {bolt} for {limit}: {g}, but {said} at {g * factor}: {case}"
    elif gap is not None:
        told["least gap " + gap["status"]] += 1
        for g in (Fraction(1, 3), Fraction(1), Fraction(3), Fraction(11)):
            said = Regions(case.gap(g), bolt).explore(limit, budget=6000).says("any", limit)
            if (gap["status"], said) in (("never", "proved"), ("always", "refuted")):
                return f"gap of {bolt} for {limit}: {gap}, but {said} at {g}: {case}"
    return ""


def literally(case: Case, found: dict[str, dict[str, Any]], told: Counter[str]) -> str:
    """How long each queue gets by the printed transitions, one length after the other; nothing of the urgent flow."""
    for b, row in found.items():
        if any(row[name] is not None for name in ("load", "inflow", "utilisation", "bounded_from_gap", "drained_in")):
            return f"{b}: {row} is of the urgent semantics: {case}"
        for limit in (1, 2, 3, 5):
            said = Literal(case, b, whole=True).search(limit, budget=4000).says("any", limit)
            if said == "unknown":
                said = Literal(case, b).search(limit, budget=4000).says("any", limit)
                said = said if said == "proved" else "unknown"  # without the others more can happen
            long = limit if row["longest"] == "unbounded" else row["longest"]
            mine = "unknown" if long is None else "refuted" if long >= limit else "proved"
            told[f"literal {mine}/{said}"] += 1
            if "unknown" not in (mine, said) and mine != said:
                return f"{b} is {row['longest']} long, but {limit} is {said}: {case}"
    return ""


def backlog(case: Case, bolt: str, count: int, told: Counter[str]) -> str:
    """When it is done, alone and meanwhile."""
    row = planned(case, "--backlog", f"{bolt}={count}", "--timeout", "6")[bolt]
    step = case.bolts[bolt]
    assert step.workers is not None
    alone = drained(count, step.workers, step.time, None, Fraction(10**9))
    told["backlog"] += 1
    if Fraction(row["drained_in"]) != alone:
        return f"{bolt}: {count} are done in {row['drained_in']}, but in {alone}: {case}"
    # where each worker has a queue, what waits is spread evenly, and all that comes may go to one of them
    workers, waiting = (1, -(-count // step.workers)) if step.own else (step.workers, count)
    load, capacity = Fraction(row["inflow"]), workers / step.time
    if load > (much := most(case, bolt, unbounded(case))):
        return f"{bolt}: {load} come in the long run, but at most {much}: {case}"
    said = row["drained_in_meanwhile"]
    if load >= capacity:
        return "" if said is None else f"{bolt}: done in {said}, but {load} come and {capacity} are served: {case}"
    if said is None:
        return f"{bolt}: never done, but {load} come and {capacity} are served: {case}"
    real = drained(waiting, workers, step.time, 1 / load if load else None, Fraction(10**9))
    assert real is not None
    # by rates or tuple by tuple: what differs is the last round of the workers, and a tuple more or less
    slack = 2 * step.time + (2 * workers + 2) / (capacity - load)
    told["meanwhile"] += 1
    if abs(Fraction(said) - real) > slack:
        return f"{bolt}: {count} are done in {said} meanwhile, but in {real}: {case}"
    return ""


def production(r: random.Random, told: Counter[str]) -> str:
    """A chain of measured steps: the formula that Flink has published, from the source on."""
    wanted = Scaling(r.choice((0.5, 0.7, 0.8, 1.0)), r.choice((600.0, 1800.0, 3600.0)), r.choice((0.0, 60.0, 300.0)))
    lag, rate = r.choice((0.0, 12_345.0, 987_654.0)), r.uniform(5, 5000)
    steps: dict[str, MeasuredStep] = {}
    should: dict[str, tuple[float, int]] = {}
    coming, behind, before = rate, lag / wanted.catch_up, ()
    for i in range(r.randrange(1, 5)):
        name, ratio, busy, workers = f"s{i}", r.choice((0.25, 1.0, 1.0, 2.0)), r.uniform(0.05, 0.95), r.randrange(1, 9)
        steps[name] = MeasuredStep(
            name,
            rate=coming,
            processed=coming,
            busy=busy,
            out=coming * ratio,
            workers=workers,
            lag=lag if not i else None,
            hears=before,
        )
        # busy: the part of the time that the workers are at work, so that each can take coming / workers / busy
        capacity = coming / busy / workers
        need = behind + coming * wanted.restart / wanted.catch_up + coming / wanted.target
        should[name] = (need, math.ceil(need / capacity - 1e-9))
        coming, behind, before = coming * ratio, behind * ratio, (name,)
    found = scale(Job("j", "flink", steps), wanted)
    told["production"] += 1
    for name, (need, count) in should.items():
        got = found[name]
        close = abs(need / (steps[name].rate or 1) - 0) and abs(got.needed - need) <= 1.0
        if not close or abs((got.wanted or 0) - count) > (1 if abs(got.needed - need) > 1e-6 else 0):
            return f"{name}: {got}, but {need} and {count}: {wanted} {steps}"
    return ""


if __name__ == "__main__":
    hunt(one)
