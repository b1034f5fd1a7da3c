"""The product held to the judge, network by network; what differs is told in words."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pellucid import check
from pellucid.atomic import Atomic, IllTyped, explore, network_text, parse, typecheck
from pellucid.errors import DataError
from tests.judge.atomic import text as words
from tests.judge.atomic.claims import FALSE, SAFETY, Claims, Found, TooLarge
from tests.judge.atomic.meaning import EQUIVALENT, VARIANTS, Meaning, nameless
from tests.judge.atomic.terms import Term
from tests.judge.atomic.types import wrong_net

LIMIT = 1500


def plain(outcome: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(sorted(map(nameless, side))) for side in outcome)


def layers(found: Found) -> Counter[int]:
    """How many states are so many steps away."""
    depth: dict[Any, int] = {}
    for state, before in found.states.items():
        depth[state] = 0 if before is None else depth[before[0]] + 1
    return Counter(depth.values())


def differences(network: Term, seed: int, rules: str, unfold: int = 1) -> Iterator[str]:
    """What the product says otherwise about a well-typed network under these rules."""
    chance = random.Random(seed)
    text = words.network_text(network, lambda: chance.random() < 0.5)
    meaning = Meaning(network, unfold, rules)
    asked = (*SAFETY, *FALSE, "types") if rules in ("corrected", "printed", "cascade", "crash") else SAFETY
    found = Claims(meaning, LIMIT).ask((*asked, "place"))
    if "place" in found.broken:
        yield f"the judge itself: a transaction at two places after {found.trace(found.broken.pop('place'))}"
    machine = Atomic(parse(text), rules=rules, unfold=unfold)
    theirs = explore(machine, asked)

    def same(what: str, product: Any, judge: Any) -> Iterator[str]:
        if product != judge:
            yield f"{rules}: {what}: the product says {product}, the judge {judge}"

    yield from same("final outcomes", {plain(o) for o in theirs.final}, found.final)
    yield from same("reachable outcomes", {plain(o) for o in theirs.reachable}, found.reachable)
    yield from same("what sticks", {*theirs.sticks, *theirs.maybe}, found.sticks)
    yield from same("states", len(theirs.search.parents), len(found.states))
    ours = {name: found.length(name) for name in found.broken}
    yield from same("lengths", {name: len(theirs.trace(at)) for name, (at, _) in theirs.broken.items()}, ours)
    first = {nameless(step) for step, _ in found.next[meaning.start]}
    yield from same("first steps", {nameless(str(step)) for step, _ in machine.steps(machine.start())}, first)
    some = list(theirs.search.parents)
    for at in some if len(some) < 120 else chance.sample(some, 40):
        state = network_text(machine.store.network(at))
        if Meaning(words.read(state), at.left).start not in found.states:
            yield f"{rules}: after {theirs.trace(at)}, a state that the judge does not know: {state}"
            break
    theirs_by_depth = Counter(len(theirs.search.way(at)) for at in theirs.search.parents)
    yield from same("states by distance", theirs_by_depth, layers(found))


def ill_typed(text: str, system: Any = "corrected") -> str | None:
    """The rule that does not apply, by the product."""
    try:
        typecheck(parse(text), system=system)
    except IllTyped as bad:
        return bad.rule
    return None


def type_differences(network: Term, system: str = "corrected") -> Iterator[str]:
    """Whether a network is well typed, and by which rule not."""
    wrong = wrong_net(network, system)
    text = words.network_text(network)
    said = ill_typed(text, system)
    if (said is None) != (not wrong):
        yield f"types ({system}): the product says {said}, the judge {wrong}: {text}"
    elif said is not None and said not in wrong:
        yield f"types ({system}): the product says {said}, the judge one of {wrong}: {text}"


def round_trip(network: Term) -> Iterator[str]:
    """What is printed is read as the same, by the judge's own reader."""
    for indent in (None, 2):
        typed = typecheck(parse(words.network_text(network)))
        printed = network_text(typed, indent=indent) if indent else network_text(typed)
        if parse(printed) != typed and network_text(parse(printed)) != network_text(typed):
            yield f"parse and print: {printed}"
        if Meaning(words.read(printed), 1).start != Meaning(network, 1).start:
            yield f"printed is not the same network: {printed}"


def all_of(network: Term, seed: int, variants: tuple[str, ...]) -> Iterator[str]:
    """Everything about one network; nothing if it is too large for the judge."""
    yield from type_differences(network)
    yield from round_trip(network)
    for rules in variants:
        if rules in VARIANTS:
            try:
                yield from differences(network, seed, rules)
            except TooLarge:
                continue
        if rules in EQUIVALENT:
            broken = check.atomic(words.network_text(network), rules=rules, about=SAFETY, unfold=1, max_states=5 * LIMIT)
            if broken.refuted:
                yield f"{rules} is refuted: {broken}"


__all__ = ["DataError", "all_of", "differences", "ill_typed", "round_trip", "type_differences"]
