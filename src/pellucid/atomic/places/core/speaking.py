"""What every part of a place does: write, send, reply, refuse, wake up later."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pellucid.atomic.places.core.events import Effects
from pellucid.atomic.places.core.paths import Tree
from pellucid.atomic.places.core.state import State
from pellucid.atomic.places.records import Record, make
from pellucid.errors import UsageError

KEPT = 1000  # refusals that are written down
_LONGEST = 60.0  # what a jump of the clock may count for
MOST = 1000  # names in one message


@dataclass(frozen=True)
class Timing:
    """How long to wait before something is said again, in seconds."""

    resend: float = 0.5  # what was not acknowledged
    ask: float = 0.5  # what others have not told yet
    greet: float = 3.0  # after a start, for places to show what they have heard of earlier ones
    attempt: float = 10.0  # a vote that does not come: the attempt is given up, and nothing else


DEFAULT = Timing()


class Speaker:
    """The state, the effects of the event that is being handled, and alarms."""

    def __init__(self, name: str, tree: Tree, records: Iterable[Record], timing: Timing) -> None:
        if name not in tree.parents:
            raise UsageError(f"{name!r} is not a place of the network; there are: {', '.join(sorted(tree.parents))}")
        self.name, self.tree, self.timing = name, tree, timing
        self.state = State(name)
        for record in records:
            self.state.apply(record)
        self.now = self.clock = 0.0  # as told, and as counted here: it never goes back
        self.refusals = 0  # of this start
        self._out = Effects()
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()

    def _write(self, kind: str, *, sync: bool = False, **fields: Any) -> None:
        record = make(kind, **fields)
        record.when = self.now
        self.state.apply(record)
        self._out.writes.append(record)
        self._out.sync |= sync

    def _send(self, peer: str, kind: str, **fields: Any) -> None:
        if peer != self.name and peer in self.tree.parents:
            self._out.sends.append((peer, {"kind": kind, **fields}))

    def _reply(self, request: Any, **answer: Any) -> None:
        self._out.replies.append((request, answer))

    def _error(self, request: Any, code: str, message: str, **more: Any) -> None:
        self._out.replies.append((request, {"error": code, "message": message, **more}))

    def _refuse(self, what: str, source: str) -> None:
        """Said once in the log, as long as it is not full of that; nothing else happens."""
        self.refusals += 1
        if self.state.refused < KEPT:
            self._write("refused", what=what[:300], source=source[:100])

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._alarms, (self.clock + seconds, next(self._number), do))

    def _pass_time(self, now: float) -> None:
        if self.now:
            self.clock += min(max(now - self.now, 0.0), _LONGEST)
        self.now = now
        while self._alarms and self._alarms[0][0] <= self.clock:
            heapq.heappop(self._alarms)[2]()
