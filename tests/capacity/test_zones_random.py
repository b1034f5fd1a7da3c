"""Random small topologies: zones, grid, simulation, replay and the checker of certificates never disagree; and mutants
of the transitions are found out by them.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import gcd, lcm

import pytest

from pellucid.capacity import Topology
from pellucid.capacity.zones import layout as y
from pellucid.capacity.zones.decide import decide, decide_any, least_gap, longest
from pellucid.capacity.zones.network import Network, Tables
from pellucid.capacity.zones.search import search, trace
from pellucid.errors import UsageError
from pellucid.internal.model import Budget
from tests.capacity.grid import grid
from tests.capacity.judges import Tally, judge, small


def judged(numbers: range, semantics: str = "urgent") -> Tally:
    tally = Tally()
    for number in numbers:
        judge(*small(number, semantics=semantics), tally)
    return tally


def test_urgent() -> None:
    tally = judged(range(150))
    assert tally.wrong == [] and tally.safe > 50 and tally.unsafe > 50 and tally.certified > 50 and tally.cut < 10


def test_literal() -> None:
    tally = judged(range(40), "literal")
    assert tally.wrong == [] and tally.safe > 5 and tally.unsafe > 15


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
@pytest.mark.parametrize("semantics", ["urgent", "literal"])
def test_many(part: int, semantics: str) -> None:
    tally = judged(range(1_000 + 150 * part, 1_150 + 150 * part), semantics)
    print(f"{semantics} {part}: {tally}")
    assert tally.wrong == []


def unit(t: Topology) -> Fraction:
    """The greatest time of which all times are multiples."""
    times = [s.gap for s in t.spouts.values()] + [b.time for b in t.bolts.values()]
    below = lcm(*(time.denominator for time in times))
    return Fraction(gcd(*(int(time * below) for time in times)), below)


def test_a_grid_that_is_fine_enough_finds_the_same() -> None:
    """A run with n emits needs n + 1 different littles: a step below the unit of all times ÷ (n + 1) has them."""
    compared = 0
    for number in range(100):
        t, bolt, limit = small(number)
        found = search(Network.of(t, bolt), limit=limit, budget=Budget(5.0, 2_000))
        if found.way is None or (emits := trace(found).emits) > 2:
            continue
        step = unit(t) / (emits + 2)
        near = grid(t, step=step, most=limit + 2, bolt=bolt, limit=limit, budget=Budget(None, 3_000))
        if near.why.startswith("the limit of"):
            continue
        assert near.longest[bolt] >= limit, t
        compared += 1
    assert compared > 25


def test_the_longest_queue_is_the_least_limit_that_is_kept() -> None:
    for number in range(40):
        t, bolt, _ = small(number)
        found = longest(t, bolt, budget=Budget(2.0, 3_000))
        if found.any is None or found.settled is None:
            continue
        for length, observe in ((found.any, "any"), (found.settled, "settled")):
            kept = decide(t, bolt, length + 1, observe=observe, budget=Budget(2.0, 3_000))  # type: ignore[arg-type]
            assert kept.status == "proved"
            if length:
                assert decide(t, bolt, length, observe=observe, budget=Budget(2.0, 3_000)).status == "refuted"  # type: ignore[arg-type]


def test_a_threshold_is_one() -> None:
    """At the threshold and above it the limit is kept, below it is not; where there is none, nowhere, or everywhere."""
    seen: dict[str, int] = {}
    for number in range(45):
        t, bolt, limit = small(number)

        def status(gap: Fraction, t: Topology = t, bolt: str = bolt, limit: int = limit) -> str:
            return decide(t.given(gap=gap), bolt, limit + 1, show=False, budget=Budget(1.0, 3_000)).status

        found = least_gap(t, bolt, limit + 1, budget=Budget(1.0, 3_000))
        seen[found.status] = seen.get(found.status, 0) + 1
        if found.status == "at":
            assert found.gap is not None and status(found.gap) == "proved" and status(found.gap * 2) != "refuted"
            assert status(found.gap * Fraction(9, 10)) != "proved"
        elif found.status == "never":
            assert all(status(gap) != "proved" for gap in (Fraction(1, 2), Fraction(40)))
        elif found.status == "always" and found.gap == 0:
            assert all(status(gap) != "refuted" for gap in (Fraction(1, 9), Fraction(40)))
    assert seen["at"] > 15 and seen["never"] > 3


def test_any_number_of_workers_is_each_of_them() -> None:
    from itertools import product

    from pellucid.capacity import ANY

    proved = refuted = 0
    for number in range(40):
        t, bolt, limit = small(number)
        if any(b.queue == "per worker" for b in t.bolts.values()):
            continue
        found = decide_any(t.given(workers=ANY), bolt, limit + 1, budget=Budget(2.0, 3_000))
        if found.status == "refuted":
            refuted += 1
            given = decide(t.given(workers=dict(found.numbers)), bolt, limit + 1, budget=Budget(2.0, 3_000))
            assert given.status == "refuted"
        elif found.status == "proved":
            proved += 1
            assert found.certificate.check() is None
            for numbers in product((1, 2, 3), repeat=len(t.bolts)):
                given = t.given(workers=dict(zip(t.bolts, numbers, strict=True)))
                assert decide(given, bolt, limit + 1, budget=Budget(2.0, 3_000)).status != "refuted"
    assert proved > 5 and refuted > 5


# ---------------------------------------------------------------- mutants


def changed(register: int, change: Callable[[int], int]) -> Callable[[Tables], Tables]:
    """Every number of a table is another."""
    return lambda tables: tables._replace(
        arrays={**tables.arrays, register: [change(n) for n in tables.arrays[register]]}
    )


def flipped(register: int) -> Callable[[Tables], Tables]:
    return lambda tables: tables._replace(numbers={**tables.numbers, register: 1 - tables.numbers[register]})


MUTANTS: dict[str, Callable[[Tables], Tables]] = {
    "a spout waits too long": changed(y.GAP, lambda n: n + 1),
    "a spout does not wait long enough": changed(y.GAP, lambda n: max(n - 1, 0)),
    "a tuple takes too long": changed(y.TIME, lambda n: n + 1),
    "a tuple ends too early": changed(y.TIME, lambda n: max(n - 1, 1)),
    "a worker too many": changed(y.WORKERS, lambda n: n + 1),
    "one worker only": changed(y.WORKERS, lambda n: 1),
    "nothing is put out": changed(y.OVER, lambda n: 0),
    "one more is put out": lambda t: t._replace(
        arrays={**t.arrays, y.OVER: [a + b for a, b in zip(t.arrays[y.OVER], t.arrays[y.UNDER], strict=True)]}
    ),
    "a queue holds one only": changed(y.CAP, lambda n: 1),
    "nobody else hears": changed(y.OUTSIDE, lambda n: 0),
    "a listener is forgotten": lambda t: t._replace(
        arrays={**t.arrays, y.FIRST: [min(n, max(t.arrays[y.FIRST]) - 1) for n in t.arrays[y.FIRST]]}
    ),
    "the other routing": flipped(y.ALL),
    "queues are empty at the beginning": lambda t: t._replace(start=[t.start[0], *[0] * (len(t.start) - 1)]),
    "the other observation": flipped(y.SETTLED),
}


def caught(number: int) -> bool:
    """Whether the judges do not believe what zones say."""
    tally = Tally()
    try:
        judge(*small(number), tally)
    except (UsageError, AssertionError, IndexError):  # its way is no way of the machine
        return True
    return bool(tally.wrong)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found_out(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, rows = Network.tables, Network.rows.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Network, "tables", lambda self, **given: MUTANTS[mutant](right(self, **given)))
    monkeypatch.setattr(Network, "rows", property(lambda self: rows(self) + len(self.bolts)))  # room for one more each
    assert any(caught(number) for number in range(150))
