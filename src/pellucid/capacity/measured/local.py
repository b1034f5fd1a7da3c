"""What ``pellucid run --measure FILE`` writes: how fast the steps of a local run were, and what waited.

All steps are one loop, so they share one worker; a step's busy time is its part of the time in the loop (measured in
one push of 32) and its capacity what it could take alone.  The run as a whole is a step of its own, called as the
pipeline: that is the one whose queue is the input.  Of files nobody knows at which rate they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pellucid.capacity.measured.batches import batch_cost
from pellucid.capacity.measured.job import Job, MeasuredStep, Sample, counted, number, only
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
        seconds = counted(document["seconds"], f"{where}: seconds")
        busy = counted(document["busy"], f"{where}: busy")
        events = int(counted(document["events"], f"{where}: events"))
        samples = tuple(_sample(s, f"{where}: sample {i}") for i, s in enumerate(document["samples"]))
        if any(after.at < before.at for before, after in pairwise(samples)):
            raise DataError(f"{where}: the samples are not in the order of time")
        per = 1 / seconds if seconds else 0.0
        alone = _alone(document, events, where)
        waiting = [s.waiting for s in samples if s.waiting is not None]
        piped = document.get("input") == "pipe"
        span = samples[-1].at - samples[0].at if samples else 0.0
        whole = MeasuredStep(
            name,
            rate=sum(s.events for s in samples[1:]) / span if piped and span else None,
            processed=events * per if piped else None,
            busy=min(1.0, busy * per),
            able=_able(samples, events, busy, alone),
            lag=waiting[-1] if waiting else None,
        )
        steps = [_step(s, f"{where}: step {s['step']}", per, piped=piped) for s in document["steps"] if s["step"]]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{where}: not whole: {error!r}; make it again with pellucid run --measure") from None
    notes = ["the steps of a local run share one worker: what waits, waits for the pipeline as a whole"]
    same = len(samples) > 1 and len({s.events for s in samples}) == 1
    if piped and same and alone is not None and alone > (whole.able or 0):
        notes.append(
            "its batches are all as long: how much of one is there before its first event is not known, so that longer "
            f"ones could take more, up to {alone:.4g} events a second"
        )
    if not piped:
        notes.append("its input was there from the start: at which rate it comes is not known (--rate says it)")
    return Job(name, "local", only([whole, *steps]), seconds=seconds, samples=samples, notes=tuple(notes))


def _alone(document: Mapping[str, Any], events: int, where: str) -> float | None:
    """What the steps could take if nothing were to be done around them; None if they were not one loop on one core."""
    inside = sum(counted(s["seconds"], f"{where}: step {s['step']}: seconds") for s in document["steps"])
    return events / inside if inside > 0 and events and document.get("cores", 1) == 1 else None


def _able(samples: Sequence[Sample], events: int, busy: float, alone: float | None) -> float | None:
    """Events per second in long batches.  A few short ones say little of that: it is never less than what was done
    while it was busy, and never more than the steps could take by themselves.

    >>> few = [Sample(float(i), 1, 0.003) for i in range(9)] + [Sample(9.0, 2, 0.0031)]
    >>> round(_able(few, 11, 0.0301, None)), round(_able(few, 11, 0.0301, 500.0)), round(_able(few, 11, 0.0301, 300.0))
    (10000, 500, 365)
    """
    done = events / busy if busy and events else None
    cost = batch_cost(samples)
    if done is None or cost is None or cost.row <= 0:
        return done
    return max(done, cost.capacity if alone is None else min(cost.capacity, alone))


def _sample(given: Mapping[str, Any], where: str) -> Sample:
    at, events, seconds = (counted(given[name], f"{where}: {name}") for name in ("at", "events", "seconds"))
    return Sample(at, int(events), seconds, number(given.get("waiting"), f"{where}: waiting"))


def _step(given: Mapping[str, Any], where: str, per: float, *, piped: bool) -> MeasuredStep:
    came, out, seconds = (counted(given[n], f"{where}: {n}") for n in ("events_in", "events_out", "seconds"))
    return MeasuredStep(
        str(given["step"]),
        rate=came * per if piped else None,
        processed=came * per if piped else None,
        busy=min(1.0, seconds * per),
        able=came / seconds if seconds and came else None,
        out=out * per if piped else None,
    )
