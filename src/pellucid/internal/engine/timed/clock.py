"""How far event time has come: a clock for each stream, moved by the steps `at`.

A step `at` with lateness *L* has the watermark *W* = greatest time seen - *L* (before its first event: none).  It is
active, idle (somebody said so, after a silence) or ended.  A stream's candidate is the least *W* of the active steps
`at` before it; if none is active, `END` if all have ended, else the greatest *W* there is.  Its clock is the greatest
candidate so far: it never goes back.

A step that reads two streams has a clock for each, by which it gives up what the other one has brought.  While one is
idle as a whole, it would stand still, and hold the other back: so that its candidate is then that of both together.

Events of a batch are judged by the clock at its beginning (`Clocks.now`); the clock moves once, at its end, to
`Clocks.after`, and `Clocks.settle` closes the batch.  An idle step's next event makes it active.

>>> from pellucid import merge, pipeline
>>> both = pipeline(lambda x, y: merge(x.at(lambda v: v, lateness=2), y.at(lambda v: v)), x=int, y=int)
>>> clocks = Clocks(both.graph)
>>> x, y, out = (i for i, node in enumerate(both.graph.nodes) if node.kind in ("at", "merge"))
>>> clocks.saw(x, 10)
>>> clocks.after(out) == BEGINNING  # y may still bring anything
True
>>> clocks.saw(y, 9)
>>> clocks.now(out) == BEGINNING, clocks.after(out)
(True, 8)
>>> clocks.settle()
>>> clocks.now(out)
8
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from pellucid.errors import StateError
from pellucid.internal.graph.model import Graph

#: Before every time, and after every time and every sum of a time and a length.
BEGINNING, END = -(2**64), 2**64

ACTIVE, IDLE, ENDED = "active", "idle", "ended"


#: A clock: the steps `at` before a stream, and those before all that a step reads beside it.
_Clock: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"


class Clocks:
    """The clocks of all streams of a graph.  A stream is called by the position of its step."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        #: The steps `at` that a stream's times come from, by position.
        self.before: list[tuple[int, ...]] = _before(graph)
        self.marks: dict[int, int] = {i: BEGINNING for i, node in enumerate(graph.nodes) if node.kind == "at"}
        #: The greatest time that each of them has seen in this batch.
        self.seen: dict[int, int] = {}
        self.status: dict[int, str] = dict.fromkeys(self.marks, ACTIVE)
        self._ending: set[int] = set()  # those that end with this batch
        pairs = [(self.before[j], self._both(i)) for i, node in enumerate(graph.nodes) for j in node.inputs]
        self._now: dict[_Clock, int] = dict.fromkeys([*((own, own) for own in self.before), *pairs], BEGINNING)

    def saw(self, at: int, time: int) -> None:
        """A step `at` has seen an event of this time (or several, of which this is the greatest)."""
        if self.status[at] == ENDED:
            raise StateError(f"{self.graph.nodes[at].describe()}: an event came after the end of its input")
        timing = self.graph.nodes[at].timing
        assert timing is not None
        self.status[at] = ACTIVE
        self.seen[at] = max(self.seen.get(at, time), time)
        self.marks[at] = max(self.marks[at], time - timing.lateness)

    def idle(self, at: int) -> None:
        """From here on a step `at` holds nobody back, until its next event."""
        if self.status[at] == ACTIVE:
            self.status[at] = IDLE

    def end(self, steps: Iterable[int] | None = None) -> None:
        """The input ends with this batch: every time is complete.  Or that of some steps `at` alone does."""
        self._ending |= set(self.marks if steps is None else steps)

    def now(self, stream: int, step: int | None = None) -> int:
        """A stream's clock, as it was when the batch began; for a step that reads it beside another one, that step's
        clock of it."""
        return self._now[self._clock(stream, step)]

    def after(self, stream: int, step: int | None = None) -> int:
        """What a stream's clock moves to at the end of the batch; asked when all that the steps `at` before it (and
        before the step that reads it) see in this batch is known."""
        return max(self.now(stream, step), self._candidate(*self._clock(stream, step)))

    def settle(self) -> None:
        """The end of a batch: the clocks have moved."""
        self.seen = {}
        for clock in self._now:
            self._now[clock] = max(self._now[clock], self._candidate(*clock))
        self.status |= dict.fromkeys(self._ending, ENDED)
        self._ending = set()

    def _clock(self, stream: int, step: int | None) -> _Clock:
        return self.before[stream], self.before[stream] if step is None else self._both(step)

    def _both(self, step: int) -> tuple[int, ...]:
        """The steps `at` before all that a step reads."""
        return tuple(sorted({at for j in self.graph.nodes[step].inputs for at in self.before[j]}))

    def _candidate(self, own: tuple[int, ...], both: tuple[int, ...]) -> int:
        active = [self.marks[i] for i in own if self.status[i] == ACTIVE and i not in self._ending]
        if active:
            return min(active)
        if all(self.status[i] == ENDED or i in self._ending for i in own):
            return END
        return self._candidate(both, both) if both != own else max(self.marks[i] for i in own)

    def decides(self, stream: int, step: int | None = None) -> tuple[tuple[int, ...], bool]:
        """The steps `at` that a stream's clock waits for, and whether for each of them: the active ones.  Where none is
        active, the next event of any that has not ended moves it; if all have ended, nobody is waited for.

        >>> from pellucid import merge, pipeline
        >>> both = pipeline(lambda x, y: merge(x.at(lambda v: v), y.at(lambda v: v)), x=int, y=int)
        >>> clocks = Clocks(both.graph)
        >>> clocks.idle(2)
        >>> clocks.decides(4)
        ((3,), True)
        >>> clocks.idle(3)
        >>> clocks.decides(4)
        ((2, 3), False)
        """
        own, both = self._clock(stream, step)
        for steps in (own, both):
            active = tuple(i for i in steps if self.status[i] == ACTIVE and i not in self._ending)
            if active:
                return active, True
            left = tuple(i for i in steps if self.status[i] != ENDED and i not in self._ending)
            if not left:
                return (), True
        return left, False

    def save(self) -> dict[str, Any]:
        """All of it, by the ids of steps."""
        name = [node.id for node in self.graph.nodes]
        return {
            "marks": {name[i]: mark for i, mark in self.marks.items()},
            "seen": {name[i]: time for i, time in self.seen.items()},
            "status": {name[i]: status for i, status in self.status.items()},
            "now": [([name[i] for i in own], [name[i] for i in both], now) for (own, both), now in self._now.items()],
        }

    def load(self, saved: dict[str, Any]) -> None:
        """What `save` gave, of the same graph."""
        at = self.graph.position
        self.marks = {at[step]: mark for step, mark in saved["marks"].items()}
        self.seen = {at[step]: time for step, time in saved["seen"].items()}
        self.status = {at[step]: status for step, status in saved["status"].items()}
        self._now = {
            (tuple(at[step] for step in own), tuple(at[step] for step in both)): now for own, both, now in saved["now"]
        }


def _before(graph: Graph) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for i, node in enumerate(graph.nodes):
        clock = node.processor.clock
        own = {i} if clock == "makes" else set() if clock == "drops" else {a for j in node.inputs for a in found[j]}
        found.append(tuple(sorted(own)))
    return found


def feeders(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The sources that the events of each step `at` come from, by their ids.

    >>> from pellucid import merge, pipeline
    >>> p = pipeline(lambda x, y: merge(x, y).at(lambda v: v, id="when"), x=int, y=int)
    >>> feeders(p.graph)
    {'when': ('x', 'y')}
    """
    sources: list[set[int]] = []
    for i, node in enumerate(graph.nodes):
        sources.append({i} if node.kind == "source" else {s for j in node.inputs for s in sources[j]})
    return {
        node.id: tuple(graph.nodes[s].id for s in sorted(sources[i]))
        for i, node in enumerate(graph.nodes)
        if node.kind == "at"
    }
