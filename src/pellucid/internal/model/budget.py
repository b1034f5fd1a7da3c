"""How much may be spent: time that is worked, rather than time that goes by, for what is decided must not depend on
what else the machine does.

A question is given seconds (``timeout=``), and its parts are given shares of them.  On a quiet machine a second of work
is a second of the clock.  On a busy one the work takes longer, and a limit on the clock would cut a search short that
is done in time elsewhere: *proved* at noon, *unknown* at night.  So all of these seconds are processor time of this
process.  Time in which it sleeps or waits counts a tenth, so that a function that sleeps ends, too; time in which it is
ready and other programs have the processors counts nothing, where the system tells it (Linux does).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_SLOWEST = 10.0  # how long a second of work lasts at most where a function sleeps


def _starved() -> float:
    """Seconds for which this process was ready and had no processor, as Linux counts them; 0 elsewhere."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as counts:
            return int(counts.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class Spent:
    """Seconds of work so far: no more than went by, and no less than a tenth of those in which there was a processor
    for it."""

    def __init__(self) -> None:
        self.wall, self.work, self.total = time.perf_counter(), time.process_time(), 0.0
        self.starved = _starved()

    def __call__(self) -> float:
        wall, work = time.perf_counter(), time.process_time()
        gone, worked = wall - self.wall, work - self.work
        if worked < gone / _SLOWEST:  # it sleeps, or others have the processors
            starved = _starved()
            worked = max(worked, (gone - (starved - self.starved)) / _SLOWEST)
            self.starved = starved
        self.total += max(0.0, min(gone, worked))
        self.wall, self.work = wall, work
        return self.total


now = Spent()


class CutShort(Exception):  # noqa: N818 - a bound, not a mistake
    """A bound was reached."""


class Budget:
    """How much may be spent on a question or a part of it: seconds of work, states; and who is told about it.  None is
    no limit.

    >>> Budget(None).left() is None, Budget(0).over
    (True, True)
    >>> Budget(max_states=10).look(11, 5)
    Traceback (most recent call last):
    pellucid.internal.model.budget.CutShort: the limit of 10 states was reached
    """

    def __init__(
        self,
        timeout: float | None = None,
        max_states: int | None = None,
        progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.timeout, self.max_states, self.progress = timeout, max_states, progress
        self.end = None if timeout is None else now() + timeout

    def left(self) -> float | None:
        """The seconds left."""
        return None if self.end is None else max(0.0, self.end - now())

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.end is not None and now() >= self.end

    def full(self, states: int) -> bool:
        """Whether these are too many states."""
        return self.max_states is not None and states > self.max_states

    def part(self, share: float, least: float = 0.5) -> Budget:
        """A budget that ends when this share of what is left is spent."""
        left = self.left()
        return Budget(None if left is None else min(left, max(least, left * share)), self.max_states, self.progress)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """In this block whoever asks `on_time` is stopped when the time is up: for what knows nothing of budgets, such
        as a linear program or a parser, and can last all the same."""
        before = _KEPT.set((*_KEPT.get(), self))
        try:
            yield
        finally:
            _KEPT.reset(before)

    def look(self, states: int, waiting: int) -> None:
        """Tell how far it is; stop here if a bound is reached."""
        if self.progress is not None:
            self.progress({"states": states, "waiting": waiting})
        if self.full(states):
            raise CutShort(f"the limit of {self.max_states:,} states was reached")
        if self.over:
            raise CutShort(f"the time limit of {self.timeout:g} s was reached after {states:,} states")


_KEPT: ContextVar[tuple[Budget, ...]] = ContextVar("kept budgets", default=())


def on_time() -> None:
    """Stop here if the time of a budget is up that somebody keeps (`Budget.kept`).

    >>> on_time()
    >>> with Budget(0).kept():
    ...     on_time()
    Traceback (most recent call last):
    pellucid.internal.model.budget.CutShort: the time limit of 0 s was reached
    """
    for budget in _KEPT.get():
        if budget.over:
            raise CutShort(f"the time limit of {budget.timeout:g} s was reached")


def patiently(seconds: float, attempt: Callable[[float], T | None]) -> T | None:
    """What a solver finds in so many seconds of work, where it counts the time that goes by: if other programs had much
    of that, it is asked again, with more.

    >>> patiently(1.0, lambda limit: "found")
    'found'
    >>> patiently(0.0, lambda limit: "found")
    """
    patience = seconds
    for _ in range(3 if seconds > 0 else 0):
        before, began = now(), time.perf_counter()
        found = attempt(patience)
        spent, gone = now() - before, time.perf_counter() - began
        if found is not None or spent > 0.8 * seconds or gone < 0.8 * patience:
            return found
        patience *= min(_SLOWEST, 1.2 * seconds / max(spent, 0.001))
    return None
