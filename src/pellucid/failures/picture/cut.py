"""A snapshot over a run, in the form from which it is drawn: the cut as a line through all lanes (Failure Transparency
in Stateful Dataflow Systems, 2024, Figure 3).

Messages that the snapshot has as received but not as sent are red; those in flight over the cut are violet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pellucid.failures.model.cut import Local, Receive, Send, SpaceTime, judge
from pellucid.failures.picture.run import DrawnRun, Mark, Ref, placed

__all__ = ["from_cut"]


def from_cut(run: SpaceTime, cut: Mapping[str, int]) -> DrawnRun:
    """A run in space and time with a cut through it, judged.

    >>> from pellucid.failures.model.notation import read_cut
    >>> made = from_cut(*read_cut("p: | >m  q: <m |"))
    >>> made.cut, made.judged
    ({'p': -0.5, 'q': 1.5}, 'inconsistent: message m is received by q, but not sent by p')
    """
    found = judge(run, cut)
    names = {
        m: (0, str(m), 0)
        for events in run.processes.values()
        for e in events
        if not isinstance(e, Local)
        for m in [e.message]
    }
    inside = {(p, i): i < cut[p] for p, events in run.processes.items() for i in range(len(events))}
    marks: list[Mark] = []
    at = dict.fromkeys(run.processes, 0)
    sent = set(run.inputs)
    while (
        True
    ):  # whoever can take its next event does; a run that is no run at all goes on in the order of its processes
        ready = [p for p, i in at.items() if i < len(run.processes[p])]
        able = [p for p in ready if not isinstance(e := run.processes[p][at[p]], Receive) or e.message in sent]
        if not ready:
            break
        for p in able or ready[:1]:
            event = run.processes[p][at[p]]
            consumed: tuple[Ref, ...] = (names[event.message],) if isinstance(event, Receive) else ()
            produced: tuple[Ref, ...] = (names[event.message],) if isinstance(event, Send) else ()
            what = {Send: "sends", Receive: "receives"}.get(type(event), "does")
            text = f"{p} {what} {event.name if isinstance(event, Local) else event.message}"
            epoch = 1 if inside[p, at[p]] else 2
            marks.append(Mark(len(marks), p, "I-EVENT", epoch, 0, consumed, produced, text=text))
            sent |= {event.message} if isinstance(event, Send) else set()
            at[p] += 1
    made = placed(tuple(run.processes), marks, (), {names[m]: str(m) for m in names}, False)
    columns = {p: [m.column for m in made.marks if m.lane == p] for p in run.processes}
    line = {p: _between(columns[p], cut[p]) for p in run.processes}
    wrong = {names[f.message]: "crash" for f in found.not_sent} | {names[f.message]: "frame" for f in found.in_flight}
    return replace(made, cut=line, judged=str(found), marked=wrong)


def _between(columns: list[int], n: int) -> float:
    """Where the line crosses a lane: right after the last event of the snapshot."""
    if n == 0:
        return columns[0] - 0.5 if columns else 0.5
    return columns[n - 1] + 0.5
