"""Breadth first through anything that has steps, each state once, with the way that led there."""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

from pellucid.errors import Control
from pellucid.internal import PACKAGE

# How much may be spent: time that is worked, rather than time that goes by, for what is decided must not depend on
# what else the machine does.
#
# A question is given seconds (``timeout=``), and its parts are given shares of them.  On a quiet machine a second of
# work is a second of the clock.  On a busy one the work takes longer, and a limit on the clock would cut a search short
# that is done in time elsewhere: *proved* at noon, *unknown* at night.  So all of these seconds are processor time of
# this process.  Time in which it sleeps or waits counts a tenth, so that a function that sleeps ends, too; time in
# which it is ready and other programs have the processors counts nothing, where the system tells it (Linux does).

T = TypeVar("T")

_SLOWEST = 10.0  # how many seconds a second of work takes at most where a function sleeps


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
    """How much may be spent on a question or a part of it: seconds of work, states.  None is no limit; ``progress`` is
    called now and then.

    >>> Budget(None).left() is None, Budget(0).over
    (True, True)
    >>> Budget(max_states=10).look(11, 5)
    Traceback (most recent call last):
    pellucid.internal.model.search.CutShort: the limit of 10 states was reached
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
        """In this block a call of `on_time` stops when the time is up: for code that knows nothing of budgets, such
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
    """Stop here if a budget is kept (`Budget.kept`) whose time is up.

    >>> on_time()
    >>> with Budget(0).kept():
    ...     on_time()
    Traceback (most recent call last):
    pellucid.internal.model.search.CutShort: the time limit of 0 s was reached
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


# A machine: what can be searched.


class Machine(Protocol):
    """A system with steps.  States are hashable values; a label says in words which step it was."""

    def start(self) -> Any:
        """Before the first step."""

    def steps(self, at: Any, *, failures: bool = True) -> Iterable[tuple[Any, Any]]:
        """Labels and what comes after; without ``failures``, only what the system does by itself."""

    def see(self, at: Any) -> Hashable:
        """What is observed."""

    def complete(self, at: Any) -> bool:
        """Whether it may end here."""


S = TypeVar("S", bound=Hashable)
L = TypeVar("L")


class Search(Generic[S, L]):
    """The states that can be reached, nearest first; each is given with all its steps when it is left.

    ``parents`` says of each state how it was reached first: from which state, by which label.  It is in the order in
    which states were found, so the first that satisfies something is a nearest one.

    >>> search = Search([1], lambda n: [("double", 2 * n), ("less", n - 1)] if 0 < n < 9 else [])
    >>> search.all() == {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16} or sorted(search.all())
    True
    >>> search.way(3)
    ['double', 'double', 'less']
    """

    def __init__(
        self, start: Iterable[S], steps: Callable[[S], Iterable[tuple[L, S]]], budget: Budget | None = None
    ) -> None:
        self.parents: dict[S, tuple[S, L] | None] = dict.fromkeys(start)
        self.steps, self.budget = steps, budget or Budget(None, None)
        self.transitions = 0

    def __iter__(self) -> Iterator[tuple[S, list[tuple[L, S]]]]:
        parents, waiting = self.parents, list(self.parents)
        for done, state in enumerate(waiting):  # it grows meanwhile
            if not done & 127 or self.budget.full(len(parents)):
                self.budget.look(len(parents), len(waiting) - done)
            after: list[tuple[L, S]] = []
            for label, then in self.steps(state):
                after.append((label, then))
                if then not in parents:
                    parents[then] = state, label
                    waiting.append(then)
                if not len(after) & 1023:  # one state may have more steps than there is time for
                    self.budget.look(len(parents), len(waiting) - done)
            self.transitions += len(after)
            yield state, after

    def all(self) -> set[S]:
        """Every state that can be reached."""
        for _ in self:
            pass
        return set(self.parents)

    def way(self, end: S) -> list[L]:
        """The labels of a shortest way from a start."""
        labels = []
        while (before := self.parents[end]) is not None:
            end, label = before
            labels.append(label)
        return labels[::-1]


# A user's function that does not return is stopped when the time of a question is up.
#
# What knows of budgets looks at them itself; a ``while True`` in a function that a check calls does not.  So where a
# question may call such functions it is asked in a block of `stopping`.  When its time is up a second thread looks
# whether the question is in a function of the user's, and has Python raise an exception there.  That reaches whatever
# runs as Python; one long call of C (``sum(range(10**15))``, ``time.sleep``) ends first.

_AGAIN = 0.2  # seconds between two looks
_NOT_THE_USERS = (
    PACKAGE,
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


class _Stop(Control):
    """Raised in a function that does not return; no ``except Exception`` of the user's own takes it."""


class _Watch:
    def __init__(self, seconds: float, base: FrameType) -> None:
        self.seconds, self.thread, self.base = seconds, threading.get_ident(), base
        self.done, self.lock, self.where = threading.Event(), threading.Lock(), ""

    def run(self) -> None:
        spent, end = Spent(), self.seconds + _AGAIN  # what knows of budgets has stopped by then
        while not self.done.wait(max(_AGAIN, end - spent())):
            frame = self._of_the_user(sys._current_frames().get(self.thread)) if spent() >= end else None
            if frame is None:
                continue
            code = frame.f_code
            with self.lock:
                if self.done.is_set():
                    return
                self.where = f"{code.co_qualname}() ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread), ctypes.py_object(_Stop))

    def _of_the_user(self, frame: FrameType | None) -> FrameType | None:
        """The user's function that was called in the block and has not returned, if there is one."""
        found = None
        while frame is not None and frame is not self.base:
            if not os.path.abspath(frame.f_code.co_filename).startswith(_NOT_THE_USERS):
                found = frame
            frame = frame.f_back
        return found

    def end(self) -> None:
        """From here on nothing is raised any more; what was raised and has not arrived arrives here."""
        with self.lock:
            self.done.set()
        if self.where:
            with suppress(_Stop):
                for _ in range(1000):
                    pass


_here = threading.local()


@contextmanager
def stopping(seconds: float | None) -> Iterator[None]:
    """In this block a user's function that still runs after so many seconds of work is stopped: `CutShort`, which names
    it.  Inside another such block, and with no limit, it does nothing.

    >>> with stopping(0.1):  # what our own code waits for is stopped; what stands in the block itself is not
    ...     done = sum(range(10))
    """
    if seconds is None or getattr(_here, "watch", None) is not None:
        yield
        return
    watch = _here.watch = _Watch(seconds, sys._getframe(2))
    _thread.start_new_thread(watch.run, ())  # not waited for: most questions are over before it begins
    try:
        try:
            yield
        finally:
            watch.end()
            _here.watch = None
    except _Stop:
        raise CutShort(
            f"the time limit of {seconds:g} s was reached in {watch.where}, which had not returned"
        ) from None


# ---------------------------------------------------------------- parts of a graph in which a run can stay for ever

_END = object()  # None may be a state


def components(graph: Mapping[Any, Iterable[Any]]) -> Iterator[list[Any]]:
    """Strongly connected components (Tarjan, without recursion).

    >>> [sorted(part) for part in components({1: [2], 2: [1, 3], 3: []})]
    [[3], [1, 2]]
    """
    index: dict[Any, int] = {}
    low: dict[Any, int] = {}
    on: set[Any] = set()
    path: list[Any] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        path.append(root)
        on.add(root)
        while work:
            at, more = work[-1]
            following = next(more, _END)
            if following is _END:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    part: list[Any] = []
                    while not part or part[-1] != at:
                        part.append(path.pop())
                        on.discard(part[-1])
                    yield part
            elif following not in index:
                index[following] = low[following] = len(index)
                path.append(following)
                on.add(following)
                work.append((following, iter(graph[following])))
            elif following in on:
                low[at] = min(low[at], index[following])


def shortest_cycle(
    edges: Callable[[Any], Iterable[tuple[L, Hashable]]],
    entry: Hashable,
    inside: Collection[Any],
    *,
    wanted: Callable[[list[L]], bool] = lambda labels: True,
) -> list[L]:
    """The labels of a shortest way from the entry back to it that stays inside: one that is wanted, if there is one.

    >>> follow = {1: [("a", 1), ("b", 2)], 2: [("c", 1)]}.__getitem__
    >>> shortest_cycle(follow, 1, {1, 2}), shortest_cycle(follow, 1, {1, 2}, wanted=lambda labels: "b" in labels)
    (['a'], ['b', 'c'])
    """
    best: list[L] = []
    search: Search[Hashable, L] = Search([entry], lambda x: [(label, y) for label, y in edges(x) if y in inside])
    for x, after in search:
        for label, y in after:
            if y == entry:
                cycle = [*search.way(x), label]
                if wanted(cycle):
                    return cycle
                best = best or cycle
    return best
