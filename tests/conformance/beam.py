"""Kinds of cases from Beam: which windows an event is in, sessions, groups, transcripts of a watermark."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from pellucid import pipeline
from tests.conformance import Differs, Kind, OtherRule, expect
from tests.conformance.windows import (
    SECOND,
    Event,
    Held,
    Windows,
    apart,
    fold,
    known,
    refuse_apart,
    refused,
    seconds,
    sessions,
    shape,
    tags,
    units,
)


def assign(case: dict[str, Any]) -> None:
    known(case, "size", "period", "offset", "t", "expect")
    over = shape({k: case[k] for k in ("size", "period", "offset") if k in case})
    if over.every > over.size:
        theirs = [[seconds(start), seconds(start + over.size)] for start in apart(over, [units(case["t"])])]
        return refuse_apart(over, theirs, case["expect"])
    run = Windows(over)
    run.push([(units(case["t"]), "")])
    found = sorted([seconds(w.start), seconds(w.end)] for w in run.finish().windows)
    expect("windows of the event", found, sorted(case["expect"]))


def _apart(times: list[int], gap: int) -> list[tuple[int, int]]:
    """Sessions by Beam's rule, (first, last): one gap apart is apart."""
    found: list[tuple[int, int]] = []
    for time in sorted(times):
        if found and time - found[-1][1] < gap:
            found[-1] = (found[-1][0], time)
        else:
            found.append((time, time))
    return found


def _because_of_the_gap(times: list[int], gap: int, theirs: list[Any], ours: list[Any]) -> None:
    """What is not as there is by one rule alone, or differs."""
    if theirs != ours and theirs == sorted([seconds(a), seconds(b + gap)] for a, b in _apart(times, gap)):
        raise OtherRule(f"events exactly one gap apart are one session: {ours} here, {theirs} there")


def session_merge(case: dict[str, Any]) -> None:
    """The end of a session there is the first time that does not belong to it; here a gap belongs to it, so its end is
    one unit later."""
    known(case, "gap", "events", "expect")
    gap, times = units(case["gap"]), [units(t) for t in case["events"]]
    found = sorted([seconds(first), seconds(last + gap)] for first, last in sessions(times, gap))
    _because_of_the_gap(times, gap, sorted(case["expect"]), found)
    expect("sessions", found, sorted(case["expect"]))


def _held(over: Any, windows: list[Held], events: list[Any]) -> list[Any]:
    """[[start, end], events] of each window, as there."""
    more = 1 if over.kind == "session" else 0
    return sorted([[seconds(w.start), seconds(w.end - more)], sorted(events[i] for i in w.events)] for w in windows)


def group(case: dict[str, Any]) -> None:
    known(case, "window", "events", "combine", "expect")
    combine, times = case.get("combine", "list"), [units(t) for t in case["events"]]

    def put(values: list[Any]) -> Any:
        return sorted(values) if combine == "list" else fold(combine, [[t, t] for t in values])

    wanted = sorted([bounds, sorted(v) if isinstance(v, list) else v] for bounds, v in case["expect"])
    if case["window"].get("type") == "global":  # no window: what is made of the whole stream
        text = pipeline(tags, x=Event)([Event(t, "", f"{n};") for n, t in enumerate(times)])[-1]
        its = [case["events"][int(n)] for n in text.split(";")[:-1]]
        return expect("the one group", [put(its)], [v for _, v in wanted])
    over = shape(case["window"])
    if over.every > over.size:
        theirs = {start: [seconds(t) for t in its] for start, its in apart(over, times).items()}
        bounds = [[[seconds(at), seconds(at + over.size)], put(its)] for at, its in sorted(theirs.items())]
        return refuse_apart(over, bounds, wanted)
    run = Windows(over, lateness=(10**14,))
    run.push([(t, "") for t in times])
    found = [[bounds, put(its)] for bounds, its in _held(over, run.finish().windows, case["events"])]
    if over.kind == "session":
        _because_of_the_gap(times, over.size, [bounds for bounds, _ in wanted], [bounds for bounds, _ in found])
    expect("groups", found, wanted)


# ---------------------------------------------------------------- transcripts


class Output(Differs):
    """What came is not what a transcript expects."""


_TIMES = (None, "end_of_window", "earliest", "latest", "earliest_transformed")  # of an answer
_COUNT = r"(?:every|after count) \d+"


def trigger_transcript(case: dict[str, Any]) -> None:
    """A source holds the clock where the transcript's watermark is; elements are their times.  With ``error`` the
    transcript is one that must not be as it says."""
    known(case, "window", "trigger", "steps", "allowed_lateness", "accumulation", "timestamp", "error")
    if "error" not in case:
        return _transcript(case)
    if not re.match(r"un(matched|expected) output", case["error"].lower()):
        raise Differs(f"the error {case['error']!r} is not known")
    try:
        _transcript(case)
    except Output:
        return
    raise Differs(f"{case['error']} is expected, but all is as the transcript says")


def _transcript(case: dict[str, Any]) -> None:
    found = re.fullmatch(
        rf"(default|after watermark(?:, early (?P<early>{_COUNT}))?(?:, late (?P<late>{_COUNT}))?|(?P<count>{_COUNT}))",
        case["trigger"],
    )
    if found is None:
        raise Differs(f"the trigger {case['trigger']!r} is not known")
    if case.get("accumulation", "accumulating") not in ("accumulating", "discarding"):
        raise Differs(f"panes that are {case['accumulation']!r} are not known")
    if case.get("timestamp") not in _TIMES:
        raise Differs(f"the time {case['timestamp']!r} of an answer is not known")
    over = shape(case["window"])._replace(allowed=units(case.get("allowed_lateness", 0)))
    if over.allowed and over.kind == "session":
        raise OtherRule(f"sessions are not corrected: {refused(lambda: Windows(over))}")
    run = Windows(over, held=True)
    if found["count"] or any(pane.get("early") for name, its in case["steps"] if name == "expect" for pane in its):
        return _told_early(case, over, run, bool(found["count"]))
    elements: list[Any] = []
    open_: list[Held] = []
    other: list[str] = []
    count: Counter[tuple[int, int]] = Counter()
    for name, given in case["steps"]:
        if name == "input":
            elements += given
            open_ += run.push([(units(t), "") for t in given]).windows
        elif name == "watermark":
            open_ += run.hold(units(given)).windows
        elif name == "expect":
            if found["late"] not in (None, "every 1", "after count 1") and len(open_) > len(given):
                other.append("a window is corrected with each batch that brings it late events, not after so many")
                open_ = [w for n, w in enumerate(open_) if all(_bounds(w) != _bounds(v) for v in open_[n + 1 :])]
                open_ = open_ if given else []
            try:
                _panes(over, open_, elements, given, other, count, case.get("timestamp"))
            except Differs as why:
                raise Output(str(why)) from None
            open_ = []
        else:
            raise Differs(f"the step {name!r} is not known")
    if open_:
        raise Output(f"came, but nobody expects them: {_held(over, open_, elements)}")
    if other:
        raise OtherRule("; ".join(dict.fromkeys(other)))


def _bounds(window: Held) -> tuple[int, int]:
    return window.start, window.end


def _told_early(case: dict[str, Any], over: Any, run: Windows, counted: bool) -> None:
    """Panes before a window is complete come there after so many elements, here with each batch, from a stream of their
    own: all that a window's panes have had until then is what it has here, so far or complete.  ``counted``: there the
    number of elements decides alone, and a window need not be complete."""
    elements: list[Any] = []
    now: dict[tuple[int, int], list[Any]] = {}  # what a window has, so far
    done: set[tuple[int, int]] = set()
    panes: dict[tuple[int, int], list[Any]] = {}
    adds = case.get("accumulation") == "discarding"
    for name, given in case["steps"]:
        if name == "expect":
            for pane in given:
                start, last = pane["w"]
                window = units(start), units(last) + SECOND
                if window not in now:
                    raise Output(f"nothing has come of {pane['w']}")
                had = pane.get("v", now[window])
                panes[window] = sorted([*(panes.get(window, []) if adds and "v" in pane else []), *had])
                expect(f"what {pane['w']} has had", now[window], panes[window])
                if "early" in pane or not counted:
                    expect(f"{pane['w']} is complete", window in done, not pane.get("early", False))
                if not counted and not pane["early"] and pane.get("late"):
                    raise Differs("corrections beside early answers are not known")
            continue
        if name == "state":
            for start, last in given.get("present", []):
                window = units(start), units(last) + SECOND
                expect(f"[{start}, {last}] is open", window in now and window not in done, True)
            continue
        if name == "input":
            elements += given
            put = run.push([(units(t), "") for t in given])
        elif name == "watermark":
            put = run.hold(units(given))
        else:
            raise Differs(f"the step {name!r} is not known")
        for held in [*put.early, *put.windows]:
            now[held.start, held.end] = sorted(elements[i] for i in held.events)
        done |= {(held.start, held.end) for held in put.windows}
    if not counted:
        expect("windows that are complete", sorted(done), sorted(panes))
    raise OtherRule(
        "what a window has so far comes with each batch that brings it events, from a stream of its own; it is always "
        "all of it, and has no number"
    )


def _panes(
    over: Any,
    came: list[Held],
    elements: list[Any],
    wanted: list[dict[str, Any]],
    other: list[str],
    count: Counter[tuple[int, int]],
    timestamp: str | None,
) -> None:
    """Answers as panes: the first of its window, or a correction."""
    found = []
    for window in came:
        nth = count[window.start, window.end]
        count[window.start, window.end] += 1
        more = 1 if over.kind == "session" else 0
        last = (window.end - more - 1) // SECOND
        its = sorted(elements[i] for i in window.events)
        found.append({"w": [seconds(window.start), last], "v": its, "ts": last, "index": nth, "late": nth > 0,
                      "early": False, "nonspeculative_index": nth})  # fmt: skip
    if len(found) != len(wanted):
        raise Differs(f"{wanted} are expected, {found} came")
    for pane, want in zip(_by_window(found), _by_window(wanted), strict=True):
        for field, value in want.items():
            if field == "final":
                if over.allowed:
                    other.append("an answer does not say whether it is the last one")
                elif not value:
                    other.append("a window's answer is its only one, always final")
            elif field == "ts":
                if value != pane["ts"] and (value in pane["v"] or timestamp == "earliest_transformed"):
                    other.append(f"the time of an answer is the end of its window less one unit, not {value}")
                else:
                    expect("ts", pane["ts"], value)
            elif field not in pane:
                raise Differs(f"{field}: nobody here knows what that is")
            else:
                expect(field, pane[field], sorted(value) if field == "v" else value)


def _by_window(panes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(panes, key=lambda pane: list(pane["w"]))


KINDS: dict[str, Kind] = {
    "fixed_assign": assign,
    "sliding_assign": assign,
    "session_merge": session_merge,
    "group": group,
    "trigger_transcript": trigger_transcript,
}
