"""Whether a cube covers another one, found by giving names one after another, against all names one by one."""

from __future__ import annotations

import random

import pytest

from pellucid.capacity.arrays import read_text
from pellucid.capacity.arrays.search.compiled import Compiled
from pellucid.capacity.arrays.search.cubes import NOTHING, Cube, Layout, Place
from pellucid.capacity.arrays.search.matching import Signs
from tests.seeds import seeds

TEXT = """type t = A | B | C
var G : t
var T : proc
array X[proc] : t
array P[proc] : proc
array M[proc, proc] : bool
array N[proc] : int
init (z) { X[z] = A %s }
unsafe (x) { X[x] = B }"""


def drawn(layout: Layout, r: random.Random, width: int) -> Cube | None:
    """Some cube about so many processes, if it is possible."""
    who = range(1, width + 1)
    places: list[Place] = [("G",), ("T",), *((n, i) for n in "XP" for i in who)]
    places += [("M", i, j) for i in who for j in who]
    bits, atoms = 0, NOTHING
    for place in places:
        f = layout.field(place)
        if r.random() > 0.35:
            continue
        if not f.of_process:
            bits |= layout.only(place, r.randrange(1, 1 << f.width))
        elif r.random() < 0.5:
            bits |= layout.only(place, 1 << r.choice(who))
        else:
            bits |= sum(1 << p for p in who if r.random() < 0.4) << f.shift
    if r.random() < 0.3:
        atoms = frozenset([(0, r.randrange(-1, 2), ((("N", r.choice(who)), 1),))])
    found = layout.settled(Cube(bits, atoms, width))
    return None if found is None else layout.tidy(found)[0]


def one_by_one(layout: Layout, general: Cube, special: Cube) -> bool:
    names = layout.embeddings(general.width, special.width) if general.width <= special.width else ()
    return any(layout.covers(layout.rename(general, to, special.width), special) for to in names)


@pytest.mark.parametrize("certain", ["", "&& X[#1] = A"])
def test_names_given_one_after_another(certain: str) -> None:
    layout = Compiled(read_text(TEXT % certain)).layout
    (seed,) = seeds(1)
    r, said = random.Random(seed), {True: 0, False: 0}
    for _ in range(800):
        general = drawn(layout, r, r.randrange(1, 4))
        special = drawn(layout, r, r.randrange(1, 5))
        if general is None or special is None:
            continue
        if r.random() < 0.6 and special.width >= general.width:  # one that it covers
            to = r.choice(list(layout.embeddings(general.width, special.width)))
            both = layout.conjunction(layout.rename(general, to, special.width), special)
            if both is None:
                continue
            special = layout.tidy(both)[0]
        expected = one_by_one(layout, general, special)
        assert Signs(layout, general).covers(Signs(layout, special)) == expected
        said[expected] += 1
    assert min(said.values()) > 100
