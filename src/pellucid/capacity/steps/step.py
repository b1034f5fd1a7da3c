"""What can happen, as values with the paper's names."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

SYSTEM: Final = ("spout_emit", "bolt_emit", "bolt_take", "time_elapse")
FLAGS: Final = (
    "setDoTake_T", "setDoTake_F1", "setDoTake_F2", "setDoTake_F2a", "setDoEmit_T", "setDoEmit_F1", "setDoEmit_F1a",
)  # fmt: skip


class Worker(NamedTuple):
    """A worker of a bolt, counted from 0; it equals the plain pair.

    >>> str(Worker("B1", 0)), Worker("B1", 0) == ("B1", 0)
    ('B1[0]', True)
    """

    bolt: str
    number: int

    def __str__(self) -> str:
        return f"{self.bolt}[{self.number}]"


Place: TypeAlias = "str | Worker"  # a queue: a bolt's name if its workers share it, else one of its workers


class Step(NamedTuple):
    """One step: what, who does it, which queues get a tuple, by how much time passes.

    ``to`` has an entry for each tuple that is put into a queue, in any order.

    >>> print(Step("spout_emit", "S1", ("B1",)))
    spout_emit S1 → B1
    >>> print(Step("bolt_take", Worker("B1", 0)))
    bolt_take B1[0]
    >>> print(Step("bolt_emit", Worker("B1", 0), ("B3", "B3")))
    bolt_emit B1[0] → B3, B3
    >>> print(Step("time_elapse", by=Fraction(9, 10)))
    time_elapse 9/10
    """

    action: str
    who: Place | None = None
    to: tuple[Place, ...] = ()
    by: Fraction | None = None

    def __str__(self) -> str:
        text = self.action
        if self.who is not None:
            text += f" {named(self.who)}"
        if self.action in ("spout_emit", "bolt_emit"):
            text += f" → {', '.join(map(named, self.to)) or 'nobody'}"
        if self.by is not None:
            text += f" {self.by}"
        return text


def named(place: Place) -> str:
    """A bolt, a spout or a worker as it is written.

    >>> named("S1"), named(("B1", 2))
    ('S1', 'B1[2]')
    """
    return place if isinstance(place, str) else str(Worker(*place))
