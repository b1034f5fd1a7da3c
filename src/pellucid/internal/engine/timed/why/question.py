"""Does a pipeline by event time keep its promises about times?  Asked of its own graph (`flow_of`), for all times.

* **condition 2**: no step sends into its own past; **acyclic**: no time goes round a cycle unchanged;
* **clock**: nothing comes behind the clock.  The clock of what follows a step is that of the steps `at` before it, so
  none may put out what is earlier than the event that it is from: then an answer would be late although no source was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pellucid.errors import UsageError, nearest
from pellucid.internal.engine.timed.why.flow import flow_of
from pellucid.internal.graph.model import Graph
from pellucid.internal.model import Run, Verdict, now
from pellucid.progress.question import SAYS, ProgressVerdict, Round
from pellucid.progress.reachability import Location, Path, PathSummaries, Source, Target, standing_loop

ASKED = ("condition 2", "acyclic", "clock")
_SAYS = {**SAYS, "clock": "nothing comes behind the clock of what follows"}


def pipeline_progress(graph: Graph, about: str | Sequence[str] = ASKED) -> ProgressVerdict:
    """Whether a pipeline's steps keep its times in order.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.at(lambda v: v, id="at").tumbling(10, lambda w: w, id="tens"), x=int)
    >>> print(pipeline_progress(p.graph))
    proved   progress of pipeline, for all its times  (...)
      condition 2: proved, no node sends into its own past
      acyclic: proved, no time goes round a cycle unchanged
      clock: proved, nothing comes behind the clock of what follows
    """
    asked = (about,) if isinstance(about, str) else tuple(about)
    for name in asked:
        if name not in ASKED:
            raise UsageError(
                f"about={name!r}: of a pipeline the questions are {', '.join(ASKED)}{nearest(str(name), ASKED)}"
            )
    if not graph.timed:
        raise UsageError(
            f"{graph.name} knows no event time, so there are no times to ask about: say what an event's time is, as in "
            "x.at(lambda e: e.when)"
        )
    began = now()
    arcs = flow_of(graph).arcs()
    loop = standing_loop(arcs)
    parts = {}
    for name in asked:
        run = None
        if name == "clock":
            run = _behind_the_clock(graph, PathSummaries(arcs))
        elif loop is not None and (loop.back or name == "acyclic"):
            run = Run((), tuple(map(str, loop.places[1:])), None, loop.reason, Round(loop))
        status: Literal["proved", "refuted"] = "proved" if run is None else "refuted"
        parts[name] = Verdict(status, _SAYS[name], "summaries", 0.0, run, () if run is None else (run.why,))
    first = next((part for part in parts.values() if part.refuted), None)
    notes = tuple(
        f"{name}: {part.status}" + (f": {part.notes[0]}" if part.notes else f", {part.question}")
        for name, part in parts.items()
    )
    return ProgressVerdict(
        "refuted" if first is not None else "proved", f"progress of {graph.name}, for all its times", "summaries",
        now() - began, first.counterexample if first is not None else None, notes,
        {"parts": {name: part.status for name, part in parts.items()}}, parts,
    )  # fmt: skip


def _behind_the_clock(graph: Graph, paths: PathSummaries) -> Run | None:
    """A way from a step `at` on which a time goes back, to a step that waits for its clock."""
    for node in graph.nodes:
        if not node.processor.timed or node.processor.keeps != "times":
            continue
        for port in range(len(node.inputs)):
            for at in graph.nodes:
                found = paths.between(Source(at.id), Target(node.id, port)) if at.kind == "at" else []
                for path in found:
                    time = path.summary.goes_back()
                    if time is not None:
                        return _walk(path, time, node.id)
    return None


def _walk(path: Path, time: int, step: str) -> Run:
    then = path.summary.results_in(time)
    way = " → ".join(str(place) for place in path.places)
    why = (
        f"what {path.places[0].node} sends at {time} comes to {step} with the time {then} ({way}), which its clock may "
        "have passed: it would be late although no source was"
    )
    return Run((), tuple(map(str, path.places[1:])), None, why, _Along(path.places, time, then))


class _Along:
    """A way through a graph as a machine: from port to port."""

    def __init__(self, places: Sequence[Location], time: int, then: Any) -> None:
        self.places, self.time, self.then = places, time, then

    def start(self) -> int:
        """At the first port."""
        return 0

    def steps(self, at: int, *, failures: bool = True) -> Iterator[tuple[str, int]]:
        """To the next one."""
        if at + 1 < len(self.places):
            yield str(self.places[at + 1]), at + 1

    def see(self, at: int) -> Any:
        """The time, where it is known: at the beginning and at the end."""
        return {"time": self.time if at == 0 else self.then if at + 1 == len(self.places) else "…"}

    def complete(self, at: int) -> bool:
        """It may end anywhere."""
        return True
