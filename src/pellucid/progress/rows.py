"""Times as rows of whole numbers: what summaries that add speak of."""

from __future__ import annotations

from typing import NamedTuple

from pellucid.progress.times import Integers, Lexicographic, Loop, Order, Product, Time


class Layout(NamedTuple):
    """The times of an order as rows of whole numbers: their bounds, and which of them decide together, one after the
    other (the groups; between groups all have to be before)."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    groups: tuple[int, ...]  # how many coordinates each group has


def layout(order: Order) -> Layout | None:
    """How the times of an order are rows of whole numbers; None if they are not.

    >>> layout(Loop(Loop(Integers(0, 9)))).groups, layout(Loop(Integers(0))).low
    ((1, 2), (0, 0))
    """
    if isinstance(order, Integers):
        return Layout((order.low,), (order.high,), (1,))
    if isinstance(order, Loop):
        root, counter = layout(order.root), Integers(0)
        if root is None:
            return None
        low, high = (counter.low,) * order.depth, (counter.high,) * order.depth
        return Layout(root.low + low, root.high + high, (*root.groups, order.depth))
    if isinstance(order, (Product, Lexicographic)):
        parts = [layout(part) for part in order.parts]
        if any(p is None or (isinstance(order, Lexicographic) and len(p.groups) > 1) for p in parts):
            return None
        low = tuple(n for p in parts if p for n in p.low)
        high = tuple(n for p in parts if p for n in p.high)
        groups = tuple(n for p in parts if p for n in p.groups)
        return Layout(low, high, groups if isinstance(order, Product) else (len(low),))
    return None


def pack(order: Order, time: Time) -> tuple[int, ...]:
    """A time as its coordinates.

    >>> pack(Product(Integers(), Lexicographic(Integers(), Integers())), (1, (2, 3)))
    (1, 2, 3)
    """
    if isinstance(order, Integers):
        return (time,)
    if isinstance(order, Loop):
        around = time[: order.width] if order.flat else time[0]
        return (*pack(order.root, around), *time[order.width :])
    if isinstance(order, (Product, Lexicographic)):
        return tuple(n for part, t in zip(order.parts, time, strict=True) for n in pack(part, t))
    raise AssertionError(order)


def unpack(order: Order, row: tuple[int, ...]) -> Time:
    """Coordinates as the time that they are.

    >>> unpack(Product(Integers(), Lexicographic(Integers(), Integers())), (1, 2, 3))
    (1, (2, 3))
    """
    if isinstance(order, Integers):
        return row[0]
    if isinstance(order, Loop):
        around = unpack(order.root, row[: -order.depth])
        return (around if order.flat else (around,)) + row[-order.depth :]
    if isinstance(order, (Product, Lexicographic)):
        out, at = [], 0
        for part in order.parts:
            here = layout(part)
            assert here is not None
            out.append(unpack(part, row[at : at + len(here.low)]))
            at += len(here.low)
        return tuple(out)
    raise AssertionError(order)
