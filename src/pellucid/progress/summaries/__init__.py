"""Summaries: how the least time of a message grows on its way from one place to another.

A `Summary` takes a time of one domain to the least time of another at which something may come, or nowhere: beyond the
last time of a domain (an overflow) no message can come; before its first one, from the first on.  Every summary is
monotone.  One is *less or equal* another if, wherever the other leads, it leads at least as early: then the other says
nothing more.

- `Shift`: for times of whole numbers (`Integers`, products of them, lexicographic ones, loop counters): each coordinate
  has something added, or is set, or is dropped or begun at the end; `enter`, `leave` and `feedback` are such;
- `Tagged`: for `Domains`: which domain becomes which, and how;
- `Step`: a function of your own, tried on samples;
- `Same`: the time as it is, for any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pellucid.errors import UsageError
from pellucid.progress.given import whole
from pellucid.progress.rows import layout
from pellucid.progress.summaries.own import Step, Tagged
from pellucid.progress.summaries.shift import Set, Shift
from pellucid.progress.summaries.way import Chain, Same, Summary
from pellucid.progress.times import Integers, Loop, Order, Product  # noqa: F401 - the examples use them

__all__ = [
    "Chain", "Same", "Set", "Shift", "Step", "Summary", "Tagged", "advance", "enter", "feedback", "leave", "summary",
]  # fmt: skip


def summary(order: Order, given: Any, to: Order | None = None, where: str = "") -> Summary:
    """What a user gives for a summary: a `Summary`, or for times of whole numbers what is added: a number, or a tuple
    of numbers in the form of a time; 0 is the time as it is, of any order.

    >>> summary(Integers(), 1), summary(Product(Integers(), Integers()), (0, 1))
    (+1, (+0, +1))
    >>> summary(Integers(), (0, 1), where="node 3, input 0 to output 0")
    Traceback (most recent call last):
    pellucid.errors.UsageError: node 3, input 0 to output 0: (0, 1) is no summary of times of integers of 64 bits: ...
    """
    target = order if to is None else to
    at = f"{where}: " if where else ""
    if isinstance(given, Summary):
        if (given.source, given.target) != (order, target):
            raise UsageError(
                f"{at}the summary {given} goes from times of {given.source} to times of {given.target}; here times of "
                f"{order} come in and times of {target} go out"
            )
        return given
    shape = layout(order)
    if order == target and shape is not None and not isinstance(given, bool):
        flat = [given] if isinstance(given, (int, Set)) else list(_flat(given))
        if flat == [0]:
            flat = [0] * len(shape.low)
        if len(flat) == len(shape.low) and all(isinstance(n, (int, Set)) for n in flat):
            return Shift(order, target, flat)
    elif order == target and given == 0:
        return Same(order)
    example = order.example() if shape is not None else 0
    raise UsageError(
        f"{at}{given!r} is no summary of times of {order}{'' if order == target else f' to times of {target}'}: "
        f"give what is added, in the form of a time (such as {example!r}), or a Shift, Tagged or Step"
    )


def _flat(given: Any) -> Iterable[Any]:
    if isinstance(given, (tuple, list)) and not isinstance(given, Set):
        for part in given:
            yield from _flat(part)
    else:
        yield given


def advance(order: Order, by: Any) -> Summary:
    """Something is added.

    >>> advance(Integers(), 3).results_in(4)
    7
    """
    return summary(order, by)


def enter(outer: Order) -> Summary:
    """Into a loop: its counter begins at 0.

    >>> enter(Integers()).results_in(7), enter(Loop(Integers())).results_in((7, 3))
    ((7, 0), (7, 3, 0))
    """
    shape = layout(outer)
    return Shift(outer, Loop(outer), [0] * (len(shape.low) if shape else 0) + [Set(0)])


def leave(inner: Order) -> Summary:
    """Out of a loop: its counter is dropped.

    >>> leave(Loop(Integers())).results_in((7, 3))
    7
    """
    if not isinstance(inner, Loop):
        raise UsageError(f"leave: {inner} are not the times of a loop; give the Loop that is left")
    shape = layout(inner)
    return Shift(inner, inner.outer, [0] * (len(shape.low) - 1 if shape else 0))


def feedback(inner: Order, by: int = 1) -> Summary:
    """Once more round the loop.

    >>> feedback(Loop(Integers())).results_in((7, 3))
    (7, 4)
    """
    if not isinstance(inner, Loop):
        raise UsageError(f"feedback: {inner} are not the times of a loop; give the Loop that goes round")
    shape = layout(inner)
    whole(by, "feedback: by=")
    return Shift(inner, inner, [0] * (len(shape.low) - 1 if shape else 0) + [by])
