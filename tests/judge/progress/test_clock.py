"""A judge of clocks: whatever the pointstamps reach by any path, step by step."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pellucid import errors
from pellucid.progress import (
    Builder,
    Domains,
    Integers,
    Lexicographic,
    Order,
    PathSummaries,
    Product,
    Set,
    Shift,
    Source,
    Tagged,
    Target,
    why_not,
)
from tests.judge.progress.meaning import LessEqual, flooded, least, product, standing
from tests.seeds import seeds


def moved(by: Any, low: int, high: int) -> Callable[[Any], Any]:
    def one(t: int, n: Any) -> Any:
        u = n.to if isinstance(n, Set) else t + n
        return u if low <= u <= high else None

    def move(t: Any) -> Any:
        if isinstance(by, (int, Set)):
            return one(t, by)
        u = tuple(one(x, n) for x, n in zip(t, by, strict=True))
        return None if None in u else u

    return move


class Drawn:
    """A random graph of ports, as the product has it and as arcs with functions."""

    def __init__(self, r: random.Random) -> None:
        self.flat = r.random() < 0.6
        high = r.choice([3, 6, 12] if self.flat else [2, 3])
        ints = Integers(0, high)
        lexi = not self.flat and r.random() < 0.4
        self.order: Order = ints if self.flat else (Lexicographic if lexi else Product)(ints, ints)
        self.le: LessEqual = (lambda a, b: a <= b) if self.flat or lexi else product
        self.times = list(range(high + 1)) if self.flat else list(itertools.product(range(high + 1), repeat=2))
        self.builder, self.arcs, self.places, self.refused = Builder(self.order), [], [], False
        nodes = r.randrange(1, 5)
        shape = [(r.randrange(0, 3), r.randrange(0, 3)) for _ in range(nodes)]
        numbers = [0, 0, 0, 1, 1, 2] + r.choice([[], [], [high], [Set(1)], [-1]])

        def one() -> Any:
            second = [0, Set(0)] if lexi else numbers
            first = r.choice(numbers)
            if self.flat:
                return first
            return first, Set(r.choice([0, 1])) if lexi and isinstance(first, Set) else r.choice(second)

        for n, (ins, outs) in enumerate(shape):
            table = []
            for i in range(ins):
                row = []
                for o in range(outs):
                    ways = [one() for _ in range(r.choice([0, 1, 1, 1, 2]))]
                    self.arcs += [(Target(n, i), Source(n, o), moved(by, 0, high)) for by in ways]
                    row.append(ways[0] if len(ways) == 1 and r.random() < 0.5 else ways)
                table.append(row)
            lost = any(
                by(t) is None and by(u) is not None
                for _, _, by in self.arcs
                for t in self.times
                for u in self.times
                if self.le(t, u)
            )
            if lost:  # the least times, which a clock keeps, would lead nowhere, and later ones would lead on
                with pytest.raises(errors.PipelineError, match=f"node {n}, input . to output .: .*not monotone"):
                    self.builder.add_node(n, ins, outs, table)
                self.refused = True
                return
            self.builder.add_node(n, ins, outs, table)
            self.places += [Target(n, i) for i in range(ins)] + [Source(n, o) for o in range(outs)]
        for s in [p for p in self.places if p.is_source]:
            for t in [p for p in self.places if p.is_target]:
                if r.random() < 0.35:
                    self.builder.add_edge(s, t)
                    self.arcs.append((s, t, lambda x: x))


MODES = ["plain", "literal"]


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(30, 3000))
def test_a_clock_is_what_pointstamps_reach_by_any_path(seed):
    r = random.Random(seed)
    drawn = Drawn(r)
    if drawn.refused:
        return
    bad = standing(drawn.places, drawn.times, drawn.arcs, drawn.le)
    if bad:
        assert not drawn.builder.is_acyclic(), bad
        with pytest.raises(errors.PipelineError, match="the loop") as told:
            drawn.builder.build()
        assert any(str(at) in str(told.value) for at, _ in bad)
        return
    assert drawn.builder.is_acyclic()
    if not drawn.places:
        return
    clock, counts = drawn.builder.build(r.choice(MODES)), Counter()
    paths = PathSummaries(drawn.builder)
    shown: dict[Any, set] = {p: set() for p in drawn.places}
    for _ in range(12):
        for _ in range(r.randrange(1, 4)):
            at, t = r.choice(drawn.places), r.choice(drawn.times)
            alive = [k for k, n in counts.items() if n > 0]
            (at, t), diff = (r.choice(alive), -1) if alive and r.random() < 0.5 else ((at, t), r.choice([1, 1, 2, -1]))
            counts[at, t] += diff
            (clock.update_target if at.is_target else clock.update_source)(at, t, diff)
        clock.propagate_all()
        stamps = [k for k, n in counts.items() if n > 0]
        reached = flooded(stamps, drawn.arcs, lambda _: True)
        pushed = clock.pushed().drain()
        for (at, t), n in pushed:
            assert n == (-1 if t in shown[at] else 1), (at, t, n)
            (shown[at].discard if n < 0 else shown[at].add)(t)
        for at in drawn.places:
            mine = least(reached.get(at, ()), drawn.le)
            assert set(clock.frontier(at).elements()) == mine == shown[at], (str(at), mine)
        assert {k: n for k, n in clock.pointstamps() if n} == {k: n for k, n in counts.items() if n}
        at, t = r.choice(drawn.places), r.choice(drawn.times)
        inputs = [p for p in drawn.places if p.is_target and p.node == at.node]
        possible = any(drawn.le(u, t) for p in inputs for u in reached.get(p, ()))
        assert clock.complete(at.node, t) is not possible
        port = r.choice(inputs) if inputs else None
        if port is not None:
            why = why_not(clock, str(port), t)
            mine = {
                k for k in stamps if any(drawn.le(u, t) for u in flooded([k], drawn.arcs, lambda _: True).get(port, ()))
            }
            assert {s for s, _ in why.holds} == {(str(p), u) for p, u in mine}, (str(port), t)
        (a, b), u = r.choices(drawn.places, k=2), r.choice(drawn.times)
        proof = paths.could_result_in(a, t, b, u)
        assert (proof is not None) is any(
            drawn.le(x, u) for x in flooded([(a, t)], drawn.arcs, lambda _: True).get(b, ())
        )
    for k, n in counts.items():
        clock.update_iter([(k, -n)])
    clock.propagate_all()
    assert all(clock.frontier(p).is_empty() for p in drawn.places) and not clock.pointstamps()


def test_a_loop_of_three_nodes_and_what_is_refused():
    graph = Builder()
    for n, by in enumerate([0, 0, 1]):
        graph.add_node(n, 1, 1, [[by]])
    for n in range(3):
        graph.add_edge(Source(n), Target((n + 1) % 3))
    for mode in MODES:
        clock = graph.build(mode)
        for diff in (1, -1):
            clock.update_source(Source(0), 17, diff)
            clock.propagate_all()
            changes = [(str(at), t, n) for (at, t), n in clock.pushed().drain() if at.is_target]
            assert sorted(changes) == [("0.in0", 18, diff), ("1.in0", 17, diff), ("2.in0", 17, diff)]
    crossed = Builder()
    crossed.add_node(0, 2, 2, [[0, []], [[], 1]])
    crossed.add_edge(Source(0, 0), Target(0, 1))
    crossed.add_edge(Source(0, 1), Target(0, 0))
    assert crossed.is_acyclic() and crossed.build()
    still = Builder()
    for n in "abc":
        still.add_node(n, 1, 1, [[0]])
    for a, b in ("ab", "bc", "ca"):
        still.add_edge(Source(a), Target(b))
    assert not still.is_acyclic()
    with pytest.raises(errors.PipelineError, match=r"the loop .*a\.in0.* a notification at node . for .* never come"):
        still.build()


def test_a_loop_is_refused_from_whichever_place_it_leads_into_the_past():
    """From the input of ``a`` no time gets round; from that of ``b`` one comes back in another domain."""
    clocks, plus = Domains({"gmt": Integers(), "pst": Integers()}), Shift(Integers(), Integers(), [1])
    graph = Builder(clocks)
    graph.add_node("a", 1, 1, [[Tagged(clocks, {"gmt": ("gmt", plus), "pst": ("gmt", plus)})]])
    graph.add_node("b", 1, 1, [[Tagged(clocks, {"pst": ("pst", plus)})]])
    graph.add_edge(Source("a"), Target("b"))
    graph.add_edge(Source("b"), Target("a"))
    assert not graph.is_acyclic()
    with pytest.raises(errors.PipelineError, match=r"the loop b\.in0 .* into the past.*\('pst', 0\).*Condition 2"):
        graph.build()
