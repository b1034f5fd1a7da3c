"""What ``pellucid run --measure FILE`` writes: how fast the steps of a local run were, and what waited.

All steps are one loop, so they share one worker; a step's busy time is its part of the time in the loop (measured in
one push of 32) and its capacity what it could take alone.  The run as a whole is a step of its own, called as the
pipeline: that is the one whose queue is the input.  Of files nobody knows at which rate they came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pellucid.capacity.measured.batches import batch_cost
from pellucid.capacity.measured.job import Job, MeasuredStep, Sample, number, only
from pellucid.errors import DataError

KIND = "measured run"


def is_local(document: Any) -> bool:
    """Whether a local run wrote this.

    >>> is_local({"pellucid": 1, "kind": "measured run"}), is_local({"pellucid": 1, "verb": "check"})
    (True, False)
    """
    return isinstance(document, Mapping) and document.get("kind") == KIND and "pellucid" in document


def of_local(document: Mapping[str, Any], *, where: str = "the measurements") -> Job:
    """The run and its steps.

    >>> steps = [{"step": "slow", "events_in": 50, "events_out": 25, "seconds": 0.8}]
    >>> job = of_local({"pellucid": 1, "kind": "measured run", "pipeline": "late", "seconds": 2.0, "busy": 1.0,
    ...                 "input": "pipe", "events": 50, "steps": steps, "samples": []})
    >>> job.steps["late"].capacity, job.steps["slow"].capacity, job.steps["slow"].ratio
    (50.0, 62.5, 0.5)
    """
    try:
        name = str(document["pipeline"])
        seconds = number(document["seconds"], f"{where}: seconds") or 0.0
        busy = number(document["busy"], f"{where}: busy") or 0.0
        events = int(document["events"])
        samples = tuple(
            Sample(float(s["at"]), int(s["events"]), float(s["seconds"]), number(s.get("waiting"), "waiting"))
            for s in document["samples"]
        )
        per = 1 / seconds if seconds else 0.0
        waiting = [s.waiting for s in samples if s.waiting is not None]
        piped = document.get("input") == "pipe"
        cost = batch_cost(samples)
        span = samples[-1].at - samples[0].at if samples else 0.0
        whole = MeasuredStep(
            name,
            rate=sum(s.events for s in samples[1:]) / span if piped and span else None,
            processed=events * per if piped else None,
            busy=min(1.0, busy * per),
            able=cost.capacity if cost is not None and cost.row > 0 else events / busy if busy and events else None,
            lag=waiting[-1] if waiting else None,
            growth=(waiting[-1] - waiting[0]) / span if piped and len(waiting) > 1 and span else None,
        )
        steps = [
            MeasuredStep(
                str(s["step"]),
                rate=s["events_in"] * per if piped else None,
                processed=s["events_in"] * per if piped else None,
                busy=min(1.0, s["seconds"] * per),
                able=s["events_in"] / s["seconds"] if s["seconds"] and s["events_in"] else None,
                out=s["events_out"] * per if piped else None,
            )
            for s in document["steps"]
            if s["step"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{where}: not whole: {error!r}; make it again with pellucid run --measure") from None
    notes = ["the steps of a local run share one worker: what waits, waits for the pipeline as a whole"]
    if not piped:
        notes.append("its input was there from the start: at which rate it comes is not known (--rate says it)")
    return Job(name, "local", only([whole, *steps]), seconds=seconds, samples=samples, notes=tuple(notes))
