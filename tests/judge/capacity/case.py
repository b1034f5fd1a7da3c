"""A topology as the judges write it down, drawn by chance, and the same for Pellucid.

Nothing here knows how Pellucid decides anything: `Case` is plain data, and `Case.topology` is where it is told.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from fractions import Fraction

from pellucid.capacity import ANY, Bolt, Spout, Topology


@dataclass(frozen=True)
class Step:
    """A bolt: how long a tuple takes, whom it hears, its workers (None: any number), and the rest."""

    time: Fraction
    hears: tuple[str, ...]
    workers: int | None = 1
    ratio: Fraction = Fraction(1)
    own: bool = False
    initial: int = 0


@dataclass(frozen=True)
class Case:
    """A topology: gaps of spouts and bolts by name."""

    spouts: dict[str, Fraction]
    bolts: dict[str, Step]
    copies: bool = False
    literal: bool = False
    notes: dict[str, object] = field(default_factory=dict)

    def listeners(self, name: str) -> list[str]:
        """Who hears it."""
        return [b for b, step in self.bolts.items() if name in step.hears]

    def above(self, bolt: str) -> set[str]:
        """The bolts and spouts that can matter for a bolt, with itself."""
        found, todo = {bolt}, [bolt]
        while todo:
            at = todo.pop()
            new = [h for h in (self.bolts[at].hears if at in self.bolts else ()) if h not in found]
            found.update(new)
            todo += new
        return found

    def workers(self, **numbers: int | None) -> Case:
        """The same with other workers."""
        return replace(self, bolts={b: replace(s, workers=numbers.get(b, s.workers)) for b, s in self.bolts.items()})

    def gap(self, gap: Fraction) -> Case:
        """The same with one gap for every spout."""
        return replace(self, spouts=dict.fromkeys(self.spouts, gap))

    def topology(self, observe: str = "any") -> Topology:
        """The same as Pellucid has it."""
        return Topology(
            {s: Spout(gap=gap) for s, gap in self.spouts.items()},
            {
                b: Bolt(
                    time=s.time,
                    hears=list(s.hears),
                    workers=ANY if s.workers is None else s.workers,
                    ratio=s.ratio,
                    queue="per worker" if s.own else "shared",
                    initial=s.initial,
                )
                for b, s in self.bolts.items()
            },
            "all" if self.copies else "one",
            "literal" if self.literal else "urgent",
            observe,
        )


TIMES = ("1", "1", "1", "1/2", "2", "3/2", "3/4")
GAPS = ("1/2", "3/4", "4/5", "1", "1", "3/2", "2", "2", "5/2", "3")
RATIOS = ("1/2", "2", "3/2", "2/3", "1/3")


def draw(r: random.Random, *, literal: bool = False) -> Case:
    """A small topology: one or two spouts, one to three bolts, mostly without a circle."""
    spouts = {f"S{i}": Fraction(r.choice(GAPS)) for i in range(r.choice((1, 1, 2)))}
    if r.random() < 0.4:
        spouts = dict.fromkeys(spouts, next(iter(spouts.values())))
    bolts: dict[str, Step] = {}
    plain = literal or r.random() < 0.5
    for i in range(r.choice((1, 2, 2, 3))):
        sources = [*spouts, *bolts]
        hears = r.sample(sources, r.choice((1, 1, 2)) if len(sources) > 1 else 1)
        bolts[f"B{i}"] = Step(
            Fraction(r.choice(TIMES)),
            tuple(hears),
            r.choice((1, 1, 1, 2, 2, 3)),
            Fraction(1) if plain or r.random() < 0.6 else Fraction(r.choice(RATIOS)),
            not plain and r.random() < 0.2,
            0 if plain or r.random() < 0.8 else r.choice((1, 2)),
        )
    case = Case(spouts, bolts, r.random() < 0.4, literal)
    if all(case.listeners(s) for s in spouts):
        return case
    return draw(r, literal=literal)


def figure_1(
    gap: str, workers: tuple[int, int, int] = (1, 1, 1), *, copies: bool = False, literal: bool = False
) -> Case:
    """The paper's topology."""
    one = Fraction(1)
    first, second, third = workers
    return Case(
        {"S1": Fraction(gap), "S2": Fraction(gap)},
        {"B1": Step(one, ("S1",), first), "B2": Step(one, ("S1", "S2"), second), "B3": Step(one, ("B1", "B2"), third)},
        copies,
        literal,
    )
