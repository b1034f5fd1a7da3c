"""The answer in words, and as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pellucid.errors import known
from pellucid.internal.engine.timed.clock import END, IDLE
from pellucid.internal.engine.timed.why.answer import At, Hold, Progress, SourceNow, StepNow, Waits
from pellucid.internal.expr.types import INSTANT, Type
from pellucid.internal.graph.timing import shown_length, shown_time

FORMAT = 1  # of the document


def text(found: Progress) -> str:
    """All of it, for a person."""
    lines = [head(found)]
    if not found.of_run:
        return "\n".join([*lines, *(line for step in found.steps for line in _in_general(found, step))])
    lines += ["sources", *(f"  {line}" for source in found.sources for line in _source(source))]
    if found.steps:
        lines.append("steps")
    for step in found.steps:
        lines += [f"  {line}" for line in _step(found, step)]
    return "\n".join(lines)


def head(found: Progress) -> str:
    """The first line."""
    if not found.of_run:
        return (
            f"{found.pipeline}: what waits for which clock"
            if found.steps
            else (f"{found.pipeline} knows no event time: nothing in it waits for a clock")
        )
    who = f"{found.pipeline}{' in ' + found.about['folder'] if 'folder' in found.about else ''}"
    told = [str(part) for part in found.about.get("words", ())]
    if not found.steps:
        return f"{who}: {', '.join(told)}" if told else who
    waiting = sum(waits.count for step in found.steps for waits in step.waits if waits.comes)
    told.append("nothing waits" if not waiting else f"{waiting:,} {'waits' if waiting == 1 else 'wait'} for the clock")
    return f"{who}: {', '.join(told)}"


# ---------------------------------------------------------------- sources


def _source(source: SourceNow) -> Iterable[str]:
    told = [] if source.rows is None else [f"{source.rows:,} row{'s' * (source.rows != 1)} read"]
    if source.heard is not None:
        told.append(f"{'silent since' if source.silent else 'last row read'} {moment(source.heard)}")
    parts = [_at(at, len(source.ats) > 1) for at in source.ats] or ["its times are not said"]
    if len(parts) == 1:
        yield f"{source.name}: {', '.join([*told, *parts])}"
        return
    yield f"{source.name}: {', '.join(told)}" if told else f"{source.name}:"
    yield from (f"  {part}" for part in parts)


def _at(at: At, named: bool) -> str:
    who = f"{at.step}: " if named else ""
    if at.watermark is None or at.greatest is None:
        return f"{who}no event yet, {at.status}"
    late = f", with a lateness of {shown_length(at.times, at.lateness)}" if at.lateness else ""
    return (
        f"{who}greatest event time {shown_time(at.times, at.greatest)}, watermark {shown_time(at.times, at.watermark)}"
        f"{late}, {at.status}"
    )


def moment(seconds: float) -> str:
    """A time on the wall.

    >>> moment(0.5)
    '1970-01-01 00:00:00 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


# ---------------------------------------------------------------- steps


def _title(step: StepNow) -> str:
    return f"{step.step} ({step.kind}{' ' + step.words if step.words else ''})"


def _step(found: Progress, step: StepNow) -> Iterable[str]:
    names = [name for name, _, _ in step.behind]
    clocks = [
        f"clock {_clock(step.times, clock)}" if len(names) == 1 else f"clock of {name} {_clock(step.times, clock)}"
        for name, clock in zip(names, step.clocks, strict=True)
    ]
    late = [f"{step.late:,} came too late"] if step.late else []
    yield ", ".join([f"{_title(step)}: {clocks[0]}", *clocks[1:], *late])
    if not step.waits:
        yield "  nothing waits"
        return
    if step.few:
        more = (step.keys or 0) - len(step.few)
        named = "; ".join(f"{key}: {_span(step.times, start, end)}" for key, start, end in step.few)
        yield f"  {step.keys:,} key{'s' * (step.keys != 1)}, first {named}{f'; and {more:,} more' if more > 0 else ''}"
    for waits in step.waits:
        yield from (f"  {line}" for line in _waits(found, step, waits))


def _clock(times: Type, clock: int | None) -> str:
    if clock is None:
        return "has not begun"
    return "at the end of all times" if clock >= END else f"at {shown_time(times, clock)}"


def _span(times: Type, start: int, end: int) -> str:
    return shown_time(times, start) if start == end else f"{shown_time(times, start)} to {shown_time(times, end)}"


WORDS = {
    "window": ("window is open", "windows are open"),
    "session": ("session is open", "sessions are open"),
    "correction": ("window is out, and may still be corrected", "windows are out, and may still be corrected"),
    "row": ("row waits for its answer", "rows wait for their answers"),
    "time": ("time that was asked for is not complete", "times that were asked for are not complete"),
    "change": ("row of the table is not complete", "rows of the table are not complete"),
    "left row": ("left row is held for a partner", "left rows are held for partners"),
    "right row": ("right row is held for a partner", "right rows are held for partners"),
    "left row without a partner": ("left row has found nobody yet", "left rows have found nobody yet"),
    "right row without a partner": ("right row has found nobody yet", "right rows have found nobody yet"),
}


def _waits(found: Progress, step: StepNow, waits: Waits) -> Iterable[str]:
    one, many = WORDS[waits.what]
    where = _span(step.times, *waits.first)
    if waits.last != waits.first:
        where = f"the first {where}, the last {_span(step.times, *waits.last)}"
    yield f"{waits.count:,} {one if waits.count == 1 else many}: {where}"
    if not waits.comes:
        return
    if not waits.holds:
        yield "  nothing holds this back: it goes on when the batch ends"
        return
    if not waits.each:
        names = dict.fromkeys(name for hold in waits.holds for name in hold.sources)
        yield f"  no source is active: the next event of {' or '.join(names)} moves the clock"
    for hold in waits.holds:
        yield f"  {_hold(found, step, hold)}"
    yield f"  {_until(step, waits)}"


def _hold(found: Progress, step: StepNow, hold: Hold) -> str:
    """Who holds it back, and how."""
    way = [name for name, _ in hold.path]
    nodes = [found.graph[name] for name in way[1:-1]]
    between = [node.id for node in nodes if node.processor.timed or len(node.inputs) > 1]
    silent = f", silent since {moment(hold.silent)}," if hold.silent is not None else ""
    who = f"source{'s' * (len(hold.sources) > 1)} {_listed(hold.sources)}{silent}"
    if hold.status == IDLE:
        who += " (idle)"
    steps = f" ({' → '.join([*hold.sources[:1], *way])})"
    if not hold.reaches:
        mark = "has sent nothing yet" if hold.watermark is None else (f"is at {shown_time(step.times, hold.watermark)}")
        return f"{who} {mark}: no event of it could get here in time any more, but the clock waits for it{steps}"
    if hold.through is not None:
        return f"{who} holds back what waits at {hold.through}, which comes here in time{steps}"
    what = "an event of any time" if hold.earliest is None else f"an event of {shown_time(step.times, hold.earliest)}"
    through = f", through {_listed(between)}" if between else ""
    return f"{who} could still send {what}{through}{steps}"


def _until(step: StepNow, waits: Waits) -> str:
    """What would let it go on."""
    goes = "it comes" if waits.count == 1 else "they come" if waits.first == waits.last else "the first of them comes"
    exact = waits.what == "window"  # which is out when the clock is at its end; the others when it is after their time
    parts: list[str] = []
    for hold in waits.holds:
        has = "" if parts else "has sent " if len(hold.sources) == 1 else "have sent "
        event = "one" if parts else "an event"
        when = shown_time(step.times, hold.needs[0] - (not exact))
        parts.append(f"{_listed(hold.sources)} {has}{event} " + (f"of {when} or later" if exact else f"after {when}"))
    if not waits.each:
        return f"{goes} once {', or '.join([*parts, 'all have ended'])}"
    if len(parts) == 1:
        return f"{goes} once {parts[0]}, has ended, or is idle"
    return f"{goes} once {' and '.join(parts)}; who has ended or is idle is not waited for"


def _listed(names: Iterable[str]) -> str:
    """
    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    found = list(dict.fromkeys(names))
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"


# ---------------------------------------------------------------- without a run

RULES = {
    "tumbling": "a window comes when the clock is at its end",
    "sliding": "a window comes when the clock is at its end",
    "session": "a session comes when the clock is after its last event and the gap",
    "join": "a pair comes with its second event; a row is held until the clock of the other side is after the interval",
    "as_of": "a row is answered when the clock of the other side is after its time",
    "lookup": "a row is answered when the clock of the table is after its time",
    "dedup": "a row comes when the clock is after its time",
    "timers": "an event is taken, and a time that was asked for is told, when the clock is after it",
    "iterate": "the events of a time go round when the clock is after it",
}


def _in_general(found: Progress, step: StepNow) -> Iterable[str]:
    yield f"{_title(step)}: {known(RULES, step.kind, 'what waits for which clock')}"
    ats = {at.step: (at, source.name) for source in found.sources for at in source.ats}
    fed: dict[str, list[str]] = {}
    for source in found.sources:
        for at in source.ats:
            fed.setdefault(at.step, []).append(source.name)
    for name, own, ways in step.behind:
        yield f"  the clock of {name} is {'the least of those of' if len(own) > 1 else 'that of'} {_listed(own)}"
        for begins, way in zip(own, ways, strict=True):
            one, _ = ats[begins]
            told = [f"lateness {shown_length(one.times, one.lateness)}"]
            if one.idle is not None:
                told.append(f"idle after {shown_length(INSTANT, one.idle)}")
            yield f"    {_listed(fed[begins])} → {way} ({', '.join(told)})"


# ---------------------------------------------------------------- as plain data


def document(found: Progress) -> dict[str, Any]:
    """As plain data: times as they are shown, and as numbers in the unit of their type."""
    return {
        "format": FORMAT,
        "pipeline": found.pipeline,
        "run": {key: value for key, value in found.about.items() if key != "words"} if found.of_run else None,
        "complete": found.complete if found.of_run else None,
        "sources": [
            {
                "name": source.name, "rows": source.rows,
                "last_row": None if source.heard is None else moment(source.heard), "silent": source.silent,
                "times": [
                    {
                        "step": at.step, "type": str(at.times), "greatest": _time(at.times, at.greatest),
                        "watermark": _time(at.times, at.watermark), "lateness": at.lateness, "status": at.status,
                    }
                    for at in source.ats
                ],
            }
            for source in found.sources
        ],
        "steps": [_step_document(step) for step in found.steps],
    }  # fmt: skip


def _step_document(step: StepNow) -> dict[str, Any]:
    behind = zip(step.behind, step.clocks, strict=True)
    return {
        "step": step.step, "kind": step.kind, "told": step.words, "rows": step.rows, "late": step.late,
        "keys": step.keys,
        "first_keys": [
            {"key": key, "start": _time(step.times, a), "end": _time(step.times, b)} for key, a, b in step.few
        ],
        "inputs": [
            {"stream": name, "clock": _time(step.times, clock), "waits_for": list(ats), "ways": list(ways)}
            for (name, ats, ways), clock in behind
        ],
        "waiting": [
            {
                "what": waits.what, "comes": waits.comes, "count": waits.count,
                "first": [_time(step.times, t) for t in waits.first],
                "last": [_time(step.times, t) for t in waits.last],
                "complete_at": [_time(step.times, t) for t in waits.due],
                "held_by": "each" if waits.each else "any",
                "holds": [_hold_document(step, hold) for hold in waits.holds],
            }
            for waits in step.waits
        ],
    }  # fmt: skip


def _hold_document(step: StepNow, hold: Hold) -> dict[str, Any]:
    return {
        "at": hold.at, "sources": list(hold.sources), "status": hold.status,
        "watermark": _time(step.times, hold.watermark), "could_send": _time(step.times, hold.earliest),
        "reaches": hold.reaches, "through": hold.through,
        "silent_since": None if hold.silent is None else moment(hold.silent),
        "needs": [_time(step.times, t) for t in hold.needs],
        "path": [{"step": name, "time": _time(step.times, t)} for name, t in hold.path],
    }  # fmt: skip


def _time(times: Type, units: int | None) -> dict[str, Any] | None:
    if units is None:
        return None
    return {"shown": "end", "units": None} if units >= END else {"shown": shown_time(times, units), "units": units}
