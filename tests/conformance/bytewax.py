"""Kinds of cases from bytewax: which windows an event is in, sessions, the clock, folds, joins."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

from pellucid import pipeline
from tests.conformance import Differs, Kind, OtherRule, expect
from tests.conformance.windows import (
    PAST,
    Held,
    Shape,
    Windows,
    apart,
    fold,
    known,
    product,
    refuse_apart,
    refused,
    seconds,
    sessions,
    shape,
    units,
)

ENDLESS = 10**14  # units: a lateness within which nothing of a case is late


def _wait(case: dict[str, Any]) -> int:
    wait = case.get("wait_s", 0)
    return ENDLESS if wait == "INFINITE" else units(wait)


def fixed_window_assignment(case: dict[str, Any]) -> None:
    known(case, "size_s", "slide_s", "event_s", "origin_s", "align_to_s", "expect_window_ids")
    over = shape({k: v for k, v in case.items() if k.endswith("_s") and k != "event_s"})
    if over.every > over.size:
        ids = [(start - over.origin) // over.every for start in apart(over, [units(case["event_s"])])]
        return refuse_apart(over, ids, case["expect_window_ids"])
    run = Windows(over)
    run.push([(units(case["event_s"]), "")])
    ids = sorted((w.start - over.origin) // over.every for w in run.finish().windows)
    expect("windows of the event", ids, sorted(case["expect_window_ids"]))


def _events_of(session: dict[str, Any], gap: int) -> list[int]:
    """Events that make a session with these ends: as far apart as may be."""
    first, last = units(session["first_event_s"]), units(session["last_event_s"])
    return [*range(first, last, max(gap, 1)), last]


def _bounds(wanted: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((units(one["first_event_s"]), units(one["last_event_s"])) for one in wanted)


def session_assignment(case: dict[str, Any]) -> None:
    known(case, "gap_s", "events_s", "initial_sessions", "expect_sessions", "expect_ids_of_last_event", "expect_merged",
          "expect_merges_from_into")  # fmt: skip
    gap = units(case["gap_s"])
    before = [time for one in case.get("initial_sessions", []) for time in _events_of(one, gap)]
    found = sessions([*before, *(units(time) for time in case["events_s"])], gap)
    expect("sessions (first, last)", found, _bounds(case["expect_sessions"]))
    if "expect_ids_of_last_event" in case:
        last = units(case["events_s"][-1])
        holds = [bounds for bounds in found if bounds[0] <= last <= bounds[1]]
        named = [one for one in case["expect_sessions"]
                 if {one["id"], *one.get("merged_ids", [])} & set(case["expect_ids_of_last_event"])]  # fmt: skip
        expect("the session of the last event", holds, _bounds(named))
    for gone, into in [*case.get("expect_merges_from_into", []), *case.get("expect_merged", [])]:
        of = [one["id"] for one in case["expect_sessions"] if gone in one.get("merged_ids", [gone])]
        expect(f"the session that {gone} is part of", into in of, True)


def session_late(case: dict[str, Any]) -> None:
    """The answer there is a number that stands for no session; here it is `Late`, with no session."""
    known(case, "gap_s", "expect_ids")
    gap = units(case["gap_s"])
    run = Windows(Shape("session", gap))
    run.push([(100 * gap, "")])
    put = run.push([(0, "")])
    expect("late events", put.late, [1])
    expect("sessions with it", [w for w in [*put.windows, *run.finish().windows] if 1 in w.events], [])
    expect("the session that is told", case["expect_ids"], [-1])


def session_merge_pass(case: dict[str, Any]) -> None:
    known(case, "gap_s", "input_sessions", "expect_merges_from_into", "expect_sessions")
    gap, given = units(case["gap_s"]), case["input_sessions"]
    found = sessions([time for one in given for time in _events_of(one, gap)], gap)
    expect("sessions (first, last)", found, _bounds(case["expect_sessions"]))

    def of(session: dict[str, Any]) -> Any:
        first = units(session["first_event_s"])
        return next(bounds for bounds in found if bounds[0] <= first <= bounds[1])

    by_id = {one["id"]: one for one in given}
    for gone, into in case["expect_merges_from_into"]:
        expect(f"{gone} is together with {into}", of(by_id[gone]) == of(by_id[into]), True)
    expect("how many were merged", len(given) - len(found), len(case["expect_merges_from_into"]))


# ---------------------------------------------------------------- the clock


def system_clock_watermark(case: dict[str, Any]) -> None:
    """Its end is the end of the input, as of every clock; else it is the time on the wall."""
    known(case, "steps")
    names = [name for name, *_ in case["steps"]]
    if "expect_watermark" in names[: names.index("eof") if "eof" in names else None]:
        raise OtherRule("a time is what the event says, not when it happened to arrive")
    event_clock_watermark({**case, "wait_s": 0})


def event_clock_watermark(case: dict[str, Any]) -> None:
    known(case, "wait_s", "steps")
    run = Windows(Shape("sliding", 1, 1), lateness=(_wait(case),))
    batch: list[tuple[int, str]] = []
    wait, wall, seen = _wait(case), 0, -ENDLESS  # `seen`: their clock, which goes with the wall
    walled = ended = False

    def pushed() -> None:
        if batch:
            run.push(batch)
            batch.clear()

    for name, *given in case["steps"]:
        if name == "batch":
            pushed()
        elif name == "event":
            batch.append((units(given[0]), ""))
            seen = max(seen, units(given[0]) - wait)
        elif name == "eof":
            pushed()
            run.finish()
            ended = True
        elif name == "advance_wall":
            walled, wall = True, wall + units(given[0])
            seen += units(given[0])
        elif name == "poll":
            pushed()
        elif name == "expect_watermark":
            pushed()
            if ended:  # no time can come any more
                after = refused(lambda: run.push([(PAST, "")]))
                expect("the clock", "MAX" if after is not None else "before the end of time", given[0])
                continue
            theirs = f"MIN+{seconds(wall)}" if wait == ENDLESS else seconds(seen)
            _clock(run, given[0], theirs if walled else None, wait)
        else:
            raise Differs(f"the step {name!r} is not known")


def _clock(run: Windows, wanted: Any, theirs: Any, wait: int) -> None:
    now = run.clock()
    found: Any = "MIN" if now is None or wait == ENDLESS else seconds(now)
    if found != wanted == theirs:
        raise OtherRule("time on the wall does not move the clock: greatest time seen - lateness, and a silence counts "
                        f"only where `idle` says so; here it is {found}, there {wanted}")  # fmt: skip
    expect("the clock", found, wanted)


# ---------------------------------------------------------------- folds


def _numbered(over: Shape, windows: list[Held]) -> list[tuple[int, Held]]:
    """Windows with their numbers there: fixed ones by their start, sessions as they were opened."""
    if over.kind == "session":
        return list(enumerate(sorted(windows, key=lambda w: min(w.events))))
    return [((w.start - over.origin) // over.every, w) for w in windows]


def _folded(name: str, its: list[Any]) -> Any:
    if name in ("max", "min"):  # the event, not its value alone
        best = (max if name == "max" else min)(its, key=lambda one: one[1])
        return {"t": best[0], "v": best[1]}
    return fold(name, its)


def windowed_flow(case: dict[str, Any]) -> None:
    known(case, "clock", "wait_s", "windower", "fold", "events", "expect", "expect_late", "order")
    if case["clock"] == "processing_time":
        raise OtherRule("a time is what the event says: windows of the time at which events happen to arrive would "
                        "not be the same again for the same events")  # fmt: skip
    if case["clock"] != "event_time":
        raise Differs(f"the clock {case['clock']!r} is not known")
    over, events = shape(case["windower"]), case["events"]
    by_key = case["fold"] == "count_per_key"
    run = Windows(over, (_wait(case),), keyed=by_key)
    windows: list[Held] = []
    late: list[int] = []
    for time, value in events:
        put = run.push([(units(time), str(value))])
        windows, late = windows + put.windows, late + put.late
    windows += run.finish().windows
    wanted_late = case.get("expect_late")
    if wanted_late is not None:
        expect("late events", [events[i][1] for i in late], wanted_late)
    found = []
    for number, window in _numbered(over, windows):
        its = [events[i] for i in window.events]
        found.append([its[0][1], [number, len(its)]] if by_key else [number, _folded(case["fold"], its)])
    if Counter(map(repr, found)) != Counter(map(repr, case["expect"])):
        _because_of_late(case, over, found, late)


def _because_of_late(case: dict[str, Any], over: Shape, found: list[Any], late: list[int]) -> None:
    """There every event before the clock is late; here only one whose window closed, or that no open session holds."""
    top, theirs = None, []
    for i, (time, _) in enumerate(case["events"]):
        if top is not None and units(time) < top - _wait(case):
            theirs.append(i)
        top = units(time) if top is None else max(top, units(time))
    if theirs == late:
        raise Differs(f"{case['expect']} is expected, {found} came")
    kept = {**case, "events": [e for i, e in enumerate(case["events"]) if i not in theirs]}
    windowed_flow({k: v for k, v in kept.items() if k != "expect_late"})  # without those it has to be as there
    more = [case["events"][i] for i in theirs if i not in late]
    raise OtherRule(f"an event before the clock counts while its window is open: {more} count here")


def windowed_flow_scale(case: dict[str, Any]) -> None:
    known(case, "clock", "wait_s", "windower", "events", "expect_window_ids", "expect_window_count")
    over = shape(case["windower"])
    every = re.fullmatch(r"one event per second, times (\d+)\.\.(\d+)", case["events"])
    ids = re.fullmatch(r"(-?\d+)\.\.(-?\d+) in order, each once", case["expect_window_ids"])
    if every is None or ids is None or case.get("clock") != "event_time":
        raise Differs(f"not known: {case['events']!r}, {case['expect_window_ids']!r}, {case.get('clock')!r}")
    run = Windows(over, (_wait(case),))
    times, windows = range(int(every[1]), int(every[2]) + 1), []
    for start in range(0, len(times), 10_000):
        windows += run.push([(time * units(1), "") for time in times[start : start + 10_000]]).windows
    windows += run.finish().windows
    expect("windows", [n for n, _ in _numbered(over, windows)], list(range(int(ids[1]), int(ids[2]) + 1)))
    expect("how many", len(windows), case["expect_window_count"])
    expect("events in them", sum(len(w.events) for w in windows), len(times) * (over.size // over.every))


# ---------------------------------------------------------------- joins


class Side(NamedTuple):
    """A value of one side of a join."""

    left: int | None
    right: int | None


class Known(NamedTuple):
    """The values of both sides that count."""

    left: list[int]
    right: list[int]


def _joined(insert: str, emit: str, values: list[Side]) -> list[Any]:
    """The rows of a join of values that come one after the other."""
    if insert not in ("first", "last", "product") or emit not in ("complete", "final", "running"):
        raise Differs(f"a join that inserts {insert!r} and emits {emit!r} is not known")

    def with_one(before: list[int], value: int | None) -> list[int]:
        if value is None or (insert == "first" and before):
            return before
        return [*before, value] if insert == "product" else [value]

    def step(known: Known, e: Side) -> tuple[Known, list[Side]]:
        left, right = with_one(known.left, e.left), with_one(known.right, e.right)
        if emit == "complete" and not (left and right):
            return Known(left, right), []
        rows = [Side(a, b) for a in left or [None] for b in right or [None]]
        return (Known([], []) if emit == "complete" else Known(left, right)), rows

    engine = pipeline(lambda x: x.task(step, initial=Known([], [])), x=Side).engine()
    rows = [engine.push([value]) for value in values]
    return [row for pushed in (rows[-1:] if emit == "final" else rows) for row in pushed]


def _modes(case: dict[str, Any], emit: str) -> tuple[str, str]:
    """How values are put in and rows out; what is not said is bytewax's default."""
    return case.get("insert_mode") or "last", case.get("emit_mode") or emit


def session_window_join(case: dict[str, Any]) -> None:
    """The sessions of both sides together, and in each a join of its values in the order of their times; there rows may
    come before the session is complete."""
    known(case, "clock", "wait_s", "gap_s", "left", "right", "insert_mode", "emit_mode", "expect")
    if case["clock"] != "event_time":
        raise OtherRule("a time is what the event says")
    left, right = ([(units(t), v) for t, v in case[side]] for side in ("left", "right"))
    values = [Side(value, None) for _, value in left] + [Side(None, value) for _, value in right]
    wait = _wait(case)
    run = Windows(Shape("session", units(case["gap_s"])), lateness=(wait, wait))
    put = run.push_all({0: [(time, "") for time, _ in left], 1: [(time, "") for time, _ in right]})
    rows = []
    for window in [*put.windows, *run.finish().windows]:
        rows += _joined(*_modes(case, "final"), [values[n] for n in window.events])
    expect("rows", sorted(rows, key=repr), sorted(map(tuple, case["expect"]), key=repr))


def unwindowed_join(case: dict[str, Any]) -> None:
    """Without times: the left values come first, then the right ones."""
    known(case, "left", "right", "insert_mode", "emit_mode", "expect")
    values = [Side(value, None) for value in case["left"]] + [Side(None, value) for value in case["right"]]
    expect("rows", _joined(*_modes(case, "complete"), values), case["expect"])


def join_state(case: dict[str, Any]) -> None:
    known(case, "sides", "adds", "expect")
    sides: list[list[Any]] = [[] for _ in range(case["sides"])]
    for side, value in case["adds"]:
        sides[side].append(value)
    expect("combinations", sorted(product(sides), key=repr), sorted((tuple(row) for row in case["expect"]), key=repr))


KINDS: dict[str, Kind] = {
    "fixed_window_assignment": fixed_window_assignment,
    "session_assignment": session_assignment,
    "session_late": session_late,
    "session_merge_pass": session_merge_pass,
    "event_clock_watermark": event_clock_watermark,
    "system_clock_watermark": system_clock_watermark,
    "windowed_flow": windowed_flow,
    "windowed_flow_scale": windowed_flow_scale,
    "session_window_join": session_window_join,
    "unwindowed_join": unwindowed_join,
    "join_state": join_state,
}
