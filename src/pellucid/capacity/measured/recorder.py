"""Records a local run while it goes: ``pellucid run --measure``.

A pipe gives what is there: what a batch finds is what came while the one before was worked on, and waited.  A file has
been there all the time: what waits is the rest of it, which is estimated by the part that is read.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pellucid.capacity.measured.local import KIND

KEPT = 10_000  # batches, the last ones: a run from a pipe may go on for months


class Recorder:
    """The batches of a run; ``clock`` is the time that passes.

    >>> ticks = iter([0.0, 0.5, 0.75, 1.0, 2.0, 3.0])
    >>> recorder = Recorder(piped=True, clock=lambda: next(ticks))
    >>> with recorder.batch(10, None):
    ...     pass
    >>> with recorder.batch(40, None):
    ...     pass
    >>> found = recorder.document("late", 50, [], {})
    >>> found["busy"], found["samples"][0]
    (1.25, {'at': 0.5, 'events': 10, 'seconds': 0.25, 'waiting': 40})
    """

    def __init__(self, *, piped: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.piped, self._clock = piped, clock
        self._start = clock()
        self._busy, self._events = 0.0, 0
        self._samples: deque[tuple[float, int, float, float | None]] = deque(maxlen=KEPT)

    @contextmanager
    def batch(self, events: int, share: float | None) -> Iterator[None]:
        """Around the work for so many events; ``share`` is the part of all input that is read with them."""
        began = self._clock()
        yield
        seconds = self._clock() - began
        self._busy += seconds
        self._events += events
        left = None if self.piped or not share else self._events * (1 - min(share, 1.0)) / share
        self._samples.append((began - self._start, events, seconds, left))

    def document(
        self, pipeline: str, events: int, steps: Sequence[Mapping[str, Any]], out: Mapping[str, int], cores: int = 1
    ) -> dict[str, Any]:
        """What is written: `pellucid.capacity.measured.local` reads it."""
        seconds = self._clock() - self._start
        samples = list(self._samples)
        found = [sample[1] for sample in samples[1:]] + [None]
        return {
            "pellucid": 1,
            "kind": KIND,
            "pipeline": pipeline,
            "input": "pipe" if self.piped else "files",
            "events": events,
            "events_out": dict(out),
            "cores": cores,
            "seconds": round(seconds, 6),
            "busy": round(self._busy, 6),
            "steps": list(steps),
            "samples": [
                {
                    "at": round(at, 6),
                    "events": count,
                    "seconds": round(spent, 6),
                    "waiting": found[i] if self.piped else None if left is None else round(left),
                }
                for i, (at, count, spent, left) in enumerate(samples)
            ],
        }
