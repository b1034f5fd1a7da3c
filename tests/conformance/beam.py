"""Kinds of cases from Beam: which windows an event is in, sessions, groups, transcripts of a watermark."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tests.conformance import Differs, Kind, OtherRule, expect
from tests.conformance.windows import SECOND, Held, Windows, known, refused, seconds, sessions, shape, units


def assign(case: dict[str, Any]) -> None:
    known(case, "size", "period", "offset", "t", "expect")
    over = shape({k: case[k] for k in ("size", "period", "offset") if k in case})
    if over.every > over.size:
        said = refused(lambda: Windows(over))
        if said is None or case["expect"] == "error":
            return expect("refused", said is not None, True)
        raise OtherRule(f"every > size leaves events in no window, and is refused: {said}")
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
    known(case, "window", "events", "expect")
    over = shape(case["window"])
    run = Windows(over, lateness=(10**14,))
    run.push([(units(t), "") for t in case["events"]])
    found = _held(over, run.finish().windows, case["events"])
    wanted = sorted([bounds, sorted(values)] for bounds, values in case["expect"])
    if over.kind == "session":
        times = [units(t) for t in case["events"]]
        _because_of_the_gap(times, over.size, [bounds for bounds, _ in wanted], [bounds for bounds, _ in found])
    expect("groups", found, wanted)


# ---------------------------------------------------------------- transcripts


def trigger_transcript(case: dict[str, Any]) -> None:
    """A source holds the clock where the transcript's watermark is; elements are their times."""
    known(case, "window", "trigger", "steps", "allowed_lateness", "accumulation", "timestamp")
    trigger = re.fullmatch(r"default|after watermark(, early every \d+)?(, late every 1)?", case["trigger"])
    if trigger is None:
        raise Differs(f"the trigger {case['trigger']!r} is not known")
    if case.get("accumulation", "accumulating") not in ("accumulating", "discarding"):
        raise Differs(f"panes that are {case['accumulation']!r} are not known")
    if case.get("timestamp") not in (None, "end_of_window", "earliest", "latest"):
        raise Differs(f"the time {case['timestamp']!r} of an answer is not known")
    over = shape(case["window"])._replace(allowed=units(case.get("allowed_lateness", 0)))
    if over.allowed and over.kind == "session":
        raise OtherRule(f"sessions are not corrected: {refused(lambda: Windows(over))}")
    run = Windows(over, held=True)
    if trigger[0] != "default" and any(pane.get("early") for name, its in case["steps"] if name == "expect"
                                       for pane in its):  # fmt: skip
        return _told_early(case, over, run)
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
            _panes(over, open_, elements, given, other, count)
            open_ = []
        else:
            raise Differs(f"the step {name!r} is not known")
    if open_:
        raise Differs(f"came, but nobody expects them: {_held(over, open_, elements)}")
    if other:
        raise OtherRule("; ".join(dict.fromkeys(other)))


def _told_early(case: dict[str, Any], over: Any, run: Windows) -> None:
    """Panes before a window is complete come there after so many elements, here with each batch, from a stream of their
    own: all that a window's panes have had until then is what it has here, so far or complete."""
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
                panes[window] = sorted([*(panes.get(window, []) if adds else []), *pane["v"]])
                expect(f"what {pane['w']} has had", now.get(window), panes[window])
                expect(f"{pane['w']} is complete", window in done, not pane["early"])
                if not pane["early"] and pane.get("late"):
                    raise Differs("corrections beside early answers are not known")
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
                if value != pane["ts"] and value in pane["v"]:
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
