"""Logs are sequences, and a commit of several writes several records: names must not tell in which order.

A state that is printed and read again has its children declared, with other names; whoever renames transactions has the
same network.  Both have as many states as before.
"""

from __future__ import annotations

import re
from itertools import combinations, permutations

import pytest

from pellucid.atomic import Atomic, network_text, parse
from pellucid.atomic.rules import one_by_one
from pellucid.atomic.state import State
from pellucid.internal.model import Budget, CutShort, Search
from tests.atomic.networks import network

NAMES = "new t, u, v: Trans. new p, q: Place. new c, d, e: Chan[<>]. "
TEXTS = [
    "p[ t{child(commit) | commit} ]",  # the child is called before its parent, and comes after it
    "p[ t{child(commit | send(in c, <>)) | receive(out c, (x) commit, 0)} ]",
    "p[ t{child(receive(out c, (x) commit, 0) | send(in d, <>)) | child(receive(out d, (x) commit, 0) | "
    "send(in c, <>)) | commit} ]",  # a circle of two children
    "p[ t{receive(out c, (x) commit, 0) | send(in d, <>)} | u{receive(out d, (x) commit, 0) | send(in c, <>)} ]",
    "p[ t{receive(out c, (x) commit, 0)} | u{send(in c, <>) | commit} | v{commit} ]",
    "p[ t{child(commit) | child(abort) | commit} | u{commit} ]",
]


def count(machine: Atomic, at: State, most: int | None = None) -> int:
    """How many states can be reached."""
    return len(Search([at], machine.steps, Budget(None, most)).all())


@pytest.mark.parametrize("text", TEXTS)
def test_a_state_that_is_read_again_has_as_many(text: str) -> None:
    machine = Atomic(parse(NAMES + text))
    for at in Search([machine.start()], machine.steps).all():
        again = Atomic(parse(network_text(machine.store.network(at))))
        assert count(again, again.start()) == count(machine, at), network_text(machine.store.network(at))


@pytest.mark.parametrize("text", TEXTS)
def test_names_do_not_count(text: str) -> None:
    counts = set()
    for names in permutations("tuv"):
        other = dict(zip("tuv", names, strict=True))
        swapped = "".join(other.get(part, part) for part in re.split(r"\b([tuv])(?=\{)", text))
        machine = Atomic(parse(NAMES + swapped))
        counts.add(count(machine, machine.start()))
    assert len(counts) == 1


@pytest.mark.parametrize("seed", range(25))
def test_random_networks_read_again_and_renamed(seed: int) -> None:
    text = network(seed, mobile=False)
    machine = Atomic(parse(text), unfold=1)
    search = Search([machine.start()], machine.steps, Budget(None, 400))
    try:
        states = sorted(search.all())
    except CutShort:
        return
    swap = {"t1": "t3", "t2": "t1", "t3": "t2"}
    renamed = Atomic(parse(re.sub(r"\bt[123]\b", lambda name: swap[name[0]], text)), unfold=1)
    assert count(renamed, renamed.start()) == len(states)
    for at in states[:: max(1, len(states) // 4)]:
        again = Atomic(parse(network_text(machine.store.network(at))), unfold=at.left)
        assert count(again, again.start()) == count(machine, at), network_text(machine.store.network(at))


def test_every_log_of_a_commit_of_several_comes_about_one_by_one() -> None:
    """The same states with commits of those only who need each other."""
    for text in TEXTS:
        machine = Atomic(parse(NAMES + text))
        everything = machine.committable

        def fewest(at: State, everything=everything) -> list[tuple[str, ...]]:  # type: ignore[no-untyped-def]
            found = list(everything(at))
            return [one for one in found if not any({*other} < {*one} for other in found)]

        whole = Search([machine.start()], machine.steps).all()
        machine.committable = fewest  # type: ignore[assignment, method-assign]
        assert Search([machine.start()], machine.steps).all() == whole


@pytest.mark.parametrize("size", [2, 3, 4])
def test_an_order_has_what_is_needed_first(size: int) -> None:
    names = "abcd"[:size]
    edges = list(permutations(names, 2))
    for chosen in (some for n in range(min(4, len(edges)) + 1) for some in combinations(edges, n)):
        first = {t: (1, names.index(t)) for _, t in chosen}
        order = one_by_one(names, chosen, first)
        assert sorted(order) == list(names) and order == one_by_one(names[::-1], chosen[::-1], first)
        for u, t in chosen:  # t depends on u
            if order.index(u) > order.index(t):
                assert reaches(chosen, t, u), (chosen, order)


def reaches(edges: tuple[tuple[str, str], ...], one: str, other: str) -> bool:
    """Whether there is a way over edges."""
    found = {one}
    while more := {t for u, t in edges if u in found} - found:
        found |= more
    return other in found
