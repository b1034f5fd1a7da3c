"""Random pushes for a system, always the same ones: what a certificate is tried on.

Events are drawn near the pipeline's own constants and the edges of their types, because that is where a wrong operation
shows; silence, lost events and events that repeat are drawn as well.  Runs are short and long in turn: a wrong step
shows soon, a full window late.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pellucid.check.system.build import System
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, EnumType, Type, fits_int, simplest

_FIRST = 64  # of the events of a domain, the smallest
_EDGES = (0, 1, -1, 2**31, -(2**31), 2**32, 2**62, -(2**62), INT_MAX, INT_MIN)
_REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, 1e300, -1e300, 5e-324, math.inf, -math.inf, 100.0)


class DrawnPushes:
    """Draws pushes for a system: events by source, and the values of the system's input variables.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> s = build_system(pipeline(lambda x: x > 80, x=int).graph, domain_of({79, 80, 81}))
    >>> pushes = DrawnPushes(s)
    >>> length = pushes.begin()
    >>> push, leaves = pushes.draw()
    >>> leaves == [True, push["x"]] if push else leaves[0] is False
    True
    """

    def __init__(self, system: System, exprs: Sequence[Expr] = (), seed: int = 0) -> None:
        self.system, self.rng = system, random.Random(seed)
        constants: dict[Type, list[Any]] = {INT: [], FLOAT: [], STR: []}
        for e in walk(*system.next, *exprs, *(s.present for _, many in system.streams.values() for s in many)):
            if e.op == "const" and e.type in constants and e.value not in constants[e.type]:
                constants[e.type].append(e.value)
        near = sorted({c + d for c in constants[INT] for d in (-1, 0, 1) if fits_int(c + d)}, key=lambda v: (abs(v), v))
        given = system.domain.values
        among = set(given or ())
        self._near = [v for v in near if given is None or v in among] or list(given or (0,))[:_FIRST]
        self._reals = [
            *_REALS,
            *(
                v
                for c in (*map(float, near), *constants[FLOAT])
                for v in (c, math.nextafter(c, math.inf), math.nextafter(c, -math.inf))
            ),
        ]
        self._reals = [v for v in self._reals if v == v]
        texts = constants[STR]
        self._texts = list(
            dict.fromkeys(
                ["", "a", *texts, *(made for t in texts for made in (t[:-1], t + "x", "x" + t, t.upper())), "é😀"]
            )
        )
        self._sizes = [v.size for v in system.state if v.size is not None]
        self._places = {
            (v.role, v.of or (str(i) if v.role == "choice" else ""), v.at): i for i, v in enumerate(system.inputs)
        }
        self._sources = [
            (name, t, [self._drawer(kind) for _, kind in t.leaves()], [_silent(system, kind) for _, kind in t.leaves()])
            for name, t in system.sources
        ]
        self._often, self._mode, self._pool = 1.0, 0, dict[Any, list[Any]]()

    def begin(self) -> int:
        """A new run, in a mood of its own; how many pushes it has."""
        rng = self.rng
        self._often, self._mode = rng.choice((1.0, 1.0, 0.9, 0.6)), rng.randrange(4)
        self._pool = {}
        long = 2 * max(self._sizes, default=0) + 4
        return rng.choice((3, 6, 6, 12, min(long, 60)))

    def draw(self) -> tuple[dict[str, Any], list[Any]]:
        """One push: events by source (``lost.STEP`` where a step loses its events), and the input variables' values."""
        rng, push = self.rng, dict[str, Any]()
        leaves: list[Any] = [None] * len(self.system.inputs)
        for name, t, drawers, silent in self._sources:
            there = rng.random() < self._often
            values = [self._leaf(draw) for draw in drawers] if there else silent
            if there:  # what is not there has one form, and a text that says no list is none of the system's events
                values = list(t.tidy(values))
            self._put(leaves, ("present", name, 0), there)
            for j, v in enumerate(values):
                self._put(leaves, ("leaf", name, j), v)
            if there:
                push[name] = t.event(values)
        for i, v in enumerate(self.system.inputs):
            if v.role == "lost":
                leaves[i] = rng.random() < 0.2
                if leaves[i]:
                    push[f"lost.{v.of}"] = True
            elif leaves[i] is None:
                leaves[i] = rng.randrange(v.size) if v.size is not None else self._drawer(v.type)()
        return push, leaves

    def runs(self, most: int) -> Iterator[int]:
        """So many runs, each by its length."""
        for _ in range(most):
            yield self.begin()

    def _put(self, leaves: list[Any], what: tuple[str, str, int], value: Any) -> None:
        at = self._places.get(what)
        if at is not None:
            leaves[at] = value

    def _leaf(self, draw: Callable[[], Any]) -> Any:
        if self._mode == 0:  # few different values: so that equal ones meet
            if draw not in self._pool:
                self._pool[draw] = [draw(), draw()]
            return self.rng.choice(self._pool[draw])
        return draw()

    def _drawer(self, t: Type) -> Callable[[], Any]:
        """What draws leaves of this type."""
        rng, given = self.rng, self.system.domain.values
        if t == BOOL or isinstance(t, EnumType):
            members = t.members if isinstance(t, EnumType) else [False, True]
            return lambda: rng.choice(members)
        if t == FLOAT:
            return self._real
        if t != INT:
            return lambda: rng.choice(self._texts) if t == STR else simplest(t)
        return self._whole if given is None else lambda: rng.choice(given if rng.random() < 0.6 else self._near)

    def _real(self) -> float:
        rng, which = self.rng, self.rng.randrange(4)
        return (
            rng.choice(self._reals)
            if which < 2
            else float(rng.randint(-20, 20))
            if which == 2
            else rng.uniform(-100, 100)
        )

    def _whole(self) -> int:
        rng, which = self.rng, self.rng.randrange(4)
        if self._mode == 1 and rng.random() < 0.2:
            return rng.choice(_EDGES)
        return rng.choice(self._near) if which == 0 else rng.randint(*((-3, 4), (-30, 30), (-2000, 2000))[which - 1])


def _silent(system: System, t: Type) -> Any:
    """What the leaf of a silent source is taken for."""
    if t == INT and system.domain.values:
        return system.domain.values[0]
    return t.members[0] if isinstance(t, EnumType) else simplest(t)
