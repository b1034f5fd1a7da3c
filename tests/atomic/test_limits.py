"""Where a network is large: names that look alike, sets that could commit, steps to choose from, nesting."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from pellucid import check
from pellucid.atomic import Atomic, explore, parse, run
from pellucid.atomic.rules import closed_sets
from pellucid.atomic.running import MOST, offers
from pellucid.atomic.state import WITHIN
from pellucid.errors import DataError
from pellucid.internal.model import Budget, Search
from tests.atomic.networks import network

NAMES = "new t, u: Trans. new p: Place. new c: Chan[<>]. new a: Chan[Chan[<>]]. new b: Chan[<Chan[<>], Chan[<>]>]. "


@pytest.mark.parametrize("seed", range(30))
def test_closed_sets_are_all_unions_that_need_nobody_else(seed: int) -> None:
    chance = random.Random(seed)
    names = "abcdef"[: chance.randint(1, 6)]
    needs = {t: {u for u in names + "z" if u != t and chance.random() < 0.25} for t in names}
    known = [set(some) for n in range(1, len(names) + 1) for some in combinations(names, n)]
    wanted = sorted(tuple(sorted(some)) for some in known if all(needs[t] <= some for t in some))
    assert list(closed_sets(needs)) == wanted


def test_very_many_sets_come_one_by_one() -> None:
    names = [f"t{i}" for i in range(60)]
    first = next(closed_sets({t: set() for t in names}))
    assert set(first) == set(names)  # the largest
    inside = " | ".join(f"{t}{{commit}}" for t in names)
    text = f"new {', '.join(names)}: Trans. new p: Place. p[ {inside} ]"
    machine = Atomic(parse(text))
    offered, more = offers(machine, machine.start())
    assert len(offered) == MOST and more
    found = run(text, seed=1)
    assert len(found.outcome()[0]) == 60 and found.replay()
    verdict = check.atomic(text, about="A1", max_states=500)
    assert verdict.unknown and "the limit of 500 states was reached" in str(verdict)


def test_private_names_that_look_alike_and_stand_apart() -> None:
    many = " | ".join(["(new z: Chan[<>]. send(in a, z) | receive(out z, (x) 0, 0))"] * 9)
    machine = Atomic(parse(NAMES + f"p[ t{{{many} | commit}} ]"))
    found = Search([machine.start()], machine.steps, Budget(None, None)).all()
    assert len(found) == 2 * 10  # how many gave up, and whether it is committed: in whichever order
    together = " | ".join(f"send(in b, <z{i}, z{(i + 1) % 9}>)" for i in range(9))
    declared = "".join(f"new z{i}: Chan[<>]. " for i in range(9))
    ring = NAMES + f"p[ t{{{declared}{together} | commit}} ]"
    verdict = check.atomic(ring)  # 9! orders
    assert verdict.unknown and "9 private names look alike: too many orders to compare" in str(verdict)
    with pytest.raises(DataError, match=r"the network: 9 private names look alike"):
        run(ring)


@pytest.mark.parametrize("seed", [2, 9, 11, 30, 31, 33])
def test_families_of_names_give_as_many_states_as_all_orders(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = network(seed)
    counts = []
    for alike in (WITHIN, 0):  # 0: by families wherever there is a private name
        monkeypatch.setattr("pellucid.atomic.state.ALIKE", alike)
        found = explore(Atomic(parse(text), unfold=1), (), Budget(None, 3000))
        counts.append((len(found.search.parents), found.search.transitions, sorted(found.final)))
    assert counts[0] == counts[1]


def test_what_grows_too_deep_is_unknown() -> None:
    machine = Atomic(parse("new t: Trans. new p: Place. p[ t{commit} ]"))

    def deep(at: object) -> list[object]:
        raise RecursionError

    machine.steps = deep  # type: ignore[assignment]
    assert explore(machine).cut == "a process is nested too deeply after 1 states"
