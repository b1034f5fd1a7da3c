"""How long each step of a running pipeline takes, measured in the loop itself.

All steps are one loop, so there is nothing to time from outside.  A timed kernel looks at the clock behind every step,
in one push of 32 (the clock takes longer than most steps); what looking at it costs is measured in the same pushes and
taken off.  Events are counted in every push.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pellucid.internal.graph.model import Graph


@dataclass(frozen=True)
class StepTime:
    """One step: its kind, the events that came in and went out, its part of the loop's time."""

    step: str
    kind: str
    came: int
    put: int
    share: float
    seconds: float

    @property
    def rate(self) -> float | None:
        """Events that it takes in a second; None if it took less than the clock can tell.

        >>> StepTime("total", "cumulate", 600, 600, 0.5, 0.25).rate, StepTime("x", "source", 600, 600, 0.0, 0.0).rate
        (2400.0, None)
        """
        return self.came / self.seconds if self.seconds > 0 else None

    def document(self) -> dict[str, Any]:
        """For a program."""
        return {
            "step": self.step or None,
            "kind": self.kind,
            "events_in": self.came,
            "events_out": self.put,
            "share": round(self.share, 4),
            "events_per_second": None if self.rate is None else round(self.rate, 1),
        }


class StepTimes:
    """The times of the steps of one engine, or of several."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.seconds = 0.0  # in the loop
        self._ticks = [0] * (len(graph.nodes) + 2)
        self._events = [0] * len(graph.nodes)

    def arguments(self, compiled: bool) -> dict[str, Any]:
        """Where a kernel writes its times and counts."""
        ticks, events = [0] * len(self._ticks), [0] * len(self._events)
        if not compiled:
            return {"T": ticks, "C": events}
        import numpy as np

        return {"T": np.array(ticks, np.int64), "C": np.array(events, np.int64)}

    def add(self, written: dict[str, Any], seconds: float) -> None:
        """What a kernel has written in a call that took so long."""
        self.seconds += seconds
        for own, name in ((self._ticks, "T"), (self._events, "C")):
            for at, found in enumerate(written[name]):
                own[at] += int(found)
                written[name][at] = 0

    def join(self, other: StepTimes) -> None:
        """Add the times of another engine of the same pipeline."""
        self.seconds += other.seconds
        self._ticks = [a + b for a, b in zip(self._ticks, other._ticks, strict=True)]
        self._events = [a + b for a, b in zip(self._events, other._events, strict=True)]

    def steps(self) -> list[StepTime]:
        """Each step's part of the time; last, under the name '', what it takes to write the columns that go out."""
        *ticks, clock = self._ticks
        own = [max(t - clock, 0) for t in ticks]
        whole = sum(own) or 1
        out = []
        for at, node in enumerate(self.graph.nodes):
            came = sum(self._events[i] for i in node.inputs) if node.inputs else self._events[at]
            share = own[at] / whole
            out.append(StepTime(node.id, node.kind, came, self._events[at], share, share * self.seconds))
        put = sum(self._events[at] for _, at in self.graph.outputs)
        out.append(StepTime("", "out", put, put, own[-1] / whole, own[-1] / whole * self.seconds))
        return out
