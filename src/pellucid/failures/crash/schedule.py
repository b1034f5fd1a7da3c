"""What a crash test kills, and when: drawn from a seed, written down, and played again.

A *strike* is one kill -9.  It hits either at a named point of the runtime (between two lines of code, as in "the
snapshot is durable, but the coordinator has not heard of it"), or at a moment of the clock.  A *round* is one run of
the pipeline from its first event to its last, with one strike for each generation: the strike ends the generation, the
recovery begins the next. Strikes at points hit at the same place whenever they are played again; one at a moment may
come a little earlier or later.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.errors import DataError, UsageError, nearest, option
from pellucid.internal.base.faults import POINTS, RUNTIME

VICTIMS = ("task", "coordinator", "tree")
MOMENT = "moment"

# What a user asks for, and the points that belong to it.
GROUPS: dict[str, tuple[str, ...]] = {
    "snapshot": tuple(p for p in RUNTIME if p.startswith("snapshot:")),
    "commit": ("sink:write", "sink:staged", "sink:before-commit", "sink:after-commit", "sink:merge", "sink:merged",
               "coordinator:complete", "coordinator:committed", "coordinator:recorded"),
    "recovery": ("recover:load", "recover:loaded", "source:replay", "coordinator:start", "coordinator:fork",
                 "coordinator:forked", "coordinator:recover"),
    "work": ("source:read", "source:border", "worker:event", "worker:border"),
    "finish": ("sink:finish", "sink:finished", "coordinator:finish", "coordinator:finished"),
    MOMENT: (MOMENT,),
}  # fmt: skip


@dataclass(frozen=True)
class Strike:
    """One kill -9: at a point of the runtime, or of a victim at a share of the time that a run takes.

    >>> Strike("sink:before-commit", "tree", hit=2).fault(3)
    'sink:before-commit=tree@2/3'
    >>> str(Strike("moment", "coordinator", share=0.25))
    'coordinator at 25%'
    """

    point: str
    victim: str = "task"
    hit: int = 1
    share: float = 0.0
    task: str | None = None  # which, if not any

    def fault(self, generation: int) -> str | None:
        """How the runtime is told (PELLUCID_FAULTS); None for a moment of the clock."""
        if self.point == MOMENT:
            return None
        action = "tree" if self.victim == "tree" else "kill"
        own = f"{self.point}={action}@{self.hit}/{generation}"
        # There is a recovery within a generation only if something else has failed first.
        return f"worker:event=kill@1/{generation};{own}" if self.point == "coordinator:recover" else own

    def __str__(self) -> str:
        if self.point == MOMENT:
            return f"{self.task or self.victim} at {self.share:.0%}"
        return f"{self.point}{'+tree' if self.victim == 'tree' else ''}@{self.hit}"


@dataclass
class Round:
    """One run with its strikes, one for each generation; ``hits`` and ``seconds`` are known afterwards."""

    strikes: list[Strike]
    hits: int = 0
    starts: int = 0
    seconds: float = 0.0


def points_of(names: Sequence[str]) -> list[str]:
    """Points from groups and points; all of them from nothing.

    >>> points_of(["finish"])
    ['sink:finish', 'sink:finished', 'coordinator:finish', 'coordinator:finished']
    >>> points_of(["comit"])
    Traceback (most recent call last):
    pellucid.errors.UsageError: points='comit': no such point or group; did you mean 'commit'? Groups: snapshot,
    commit, recovery, work, finish, moment
    """
    out: list[str] = []
    for name in names or list(GROUPS):
        found = GROUPS.get(name) or ((name,) if name in POINTS else ())
        if not found:
            hint = nearest(name, [*GROUPS, *POINTS])
            raise UsageError(
                f"{option('points', name)}: no such point or group{hint or '.'} Groups: {', '.join(GROUPS)}"
            )
        out += [point for point in found if point not in out]
    return out


def draw(rng: random.Random, points: Sequence[str], tasks: Sequence[str]) -> Strike:
    """The next strike: a third at a moment of the clock (if that is wanted), the others at points."""
    named = [p for p in points if p != MOMENT]
    if MOMENT in points and (not named or rng.random() < 0.34):
        victim = rng.choice(VICTIMS)
        return Strike(
            MOMENT,
            victim,
            share=round(rng.random(), 3),
            task=rng.choice(list(tasks)) if victim == "task" and tasks else None,
        )
    point = rng.choice(named)
    victim = "tree" if rng.random() < 0.3 else "coordinator" if point.startswith("coordinator:") else "task"
    return Strike(point, victim, hit=rng.choice((1, 1, 1, 2, 2, 3)) if _often(point) else 1)


def _often(point: str) -> bool:
    """Whether a point comes more than once in a generation."""
    once = (*GROUPS["recovery"], *GROUPS["finish"])
    return point not in once


def save_rounds(path: Path, seed: int, rounds: Sequence[Round]) -> None:
    """Write a schedule down."""
    document = {"pellucid": 1, "seed": seed, "rounds": [[asdict(s) for s in r.strikes] for r in rounds]}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def load_rounds(path: str | Path) -> tuple[int, list[Round]]:
    """Read a schedule."""
    try:
        document: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        rounds = [Round([Strike(**strike) for strike in strikes]) for strikes in document["rounds"]]
        seed = int(document["seed"])
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: is no schedule of pellucid crash ({type(error).__name__}: {error})") from None
    for r in rounds:
        for strike in r.strikes:
            if strike.point != MOMENT and strike.point not in POINTS:
                raise DataError(f"{path}: there is no point {strike.point!r}{nearest(strike.point, list(POINTS))}")
    return seed, rounds
