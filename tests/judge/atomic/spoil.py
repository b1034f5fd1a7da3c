"""Networks with one thing changed, most of which have no type any more."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.judge.atomic.draw import CAP, CHAN, KINDS, LINK, PLACE, SELVES
from tests.judge.atomic.terms import TRANS, UNIT, Term

TYPES: tuple[Term, ...] = (
    UNIT,
    CHAN,
    PLACE,
    CAP,
    ("Key", UNIT),
    ("Packet", UNIT),
    ("Chan", CHAN),
    ("Key", CHAN),
    *SELVES,
    LINK,
    ("rec", "X", PLACE),
    ("Chan", ("rec", "X", ("tuple", ()))),
    ("rec", "X", ("tuple", (("Chan", ("var", "X")), ("Cap", ("Chan", ("var", "X")))))),
    ("rec", "X", ("Chan", ("Cap", ("rec", "Y", ("var", "X"))))),
    # and types that are none
    ("rec", "X", ("var", "X")),
    ("rec", "X", ("rec", "Y", ("var", "X"))),
    ("Chan", ("rec", "X", ("tuple", (("Cap", ("var", "X")),)))),
    ("Chan", ("rec", "X", ("Cap", ("var", "X")))),
    ("rec", "X", ("Chan", ("rec", "Y", ("tuple", (("Cap", ("var", "Y")), ("var", "X")))))),
    ("Chan", ("rec", "X", TRANS)),
    ("Key", TRANS),
    ("Chan", ("Packet", TRANS)),
    ("Chan", ("var", "X")),
    ("rec", "X", TRANS),
    TRANS,
)


def places(term: Any, way: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Term]]:
    """Every tuple in a term, and how to get there."""
    if isinstance(term, tuple):
        yield way, term
        for n, part in enumerate(term):
            yield from places(part, (*way, n))


def swapped(term: Any, way: tuple[int, ...], new: Any) -> Any:
    """The term with something else there."""
    if not way:
        return new
    return (*term[: way[0]], swapped(term[way[0]], way[1:], new), *term[way[0] + 1 :])


def spoiled(network: Term, chance: random.Random) -> Term:
    """One change: a name, a type, a step of a capability, who runs, where, or a new transaction in a process."""
    changes: list[tuple[tuple[int, ...], Term]] = []
    names = [*KINDS, "p", "q", "t1", "x", "free"]
    for way, term in places(network):
        match term:
            case ("name", str()):
                changes += [(way, ("name", chance.choice(names)))] * 3
            case ("path", steps) if len(steps) > 2:
                changes.append((way, ("path", steps[1:])))
                changes.append((way, ("path", steps[:-1])))
            case ("fn", x, _, body):
                changes.append((way, ("fn", x, chance.choice(TYPES), body)))
            case ("new", n, _, body) if n in KINDS or n == "z" or chance.random() < 0.2:
                changes.append((way, ("new", n, chance.choice(TYPES), body)))
            case ("runs", _, process):
                changes.append((way, ("runs", chance.choice(["t9", "p", "c"]), process)))
                changes.append((way, ("runs", "t1", ("new", "t7", TRANS, process))))
            case ("place", _, inner):
                changes.append((way, ("place", chance.choice(["t1", "c", "o"]), inner)))
            case ("let", bound, what, then):
                changes.append((way, ("let", (*bound, "more"), what, then)))
            case ("tuple", parts) if parts and all(isinstance(part, tuple) and part[0] == "name" for part in parts):
                changes.append((way, ("tuple", (*parts, ("name", "c")))))
    way, new = chance.choice(changes)
    made: Term = swapped(network, way, new)
    return made


def printed(term: Any) -> Any:
    """The same network with the types of the printed system."""
    if isinstance(term, tuple):
        return ("Packet", printed(term[1])) if term[:1] == ("Key",) else tuple(map(printed, term))
    return term
