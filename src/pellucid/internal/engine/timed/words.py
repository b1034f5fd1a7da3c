"""What is said when a step that works by event time cannot go on, the same in every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.errors import LateError, StepError
from pellucid.internal.engine.failure import short
from pellucid.internal.engine.timed.calendar import windows_of
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Node
from pellucid.internal.graph.timers import MOST_ALONE
from pellucid.internal.graph.timing import shown_length, shown_time


def late_error(
    node: Node,
    clock: Type,
    value: Any,
    time: int,
    now: int,
    push: int,
    start: int | None = None,
    end: int | None = None,
) -> LateError:
    """An event came too late, and nothing was said about such events."""
    missed, corrected = "", ""
    if node.timing is not None and node.timing.size is not None:  # of sessions and joins there is no correction
        corrected = "or with allowed_lateness= here (the answer comes again, corrected), "
        missed = _missed(clock, windows_of(node.timing, time), now - node.timing.allowed)
    elif node.processor.puts == "many" and start is not None and end is not None and node.sub is not None:
        missed = _missed(clock, [(start, end)], end)
    why = (
        f"on the event {short(value)}: its time is {shown_time(clock, time)}{missed}, and the clock is at "
        f"{shown_time(clock, now)}: it is {shown_length(clock, now - time)} late; allow for so much more with "
        f"lateness= in at, {corrected}or take late events from this step's .late, or let them go with late='drop'"
    )
    return LateError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def _missed(clock: Type, windows: Sequence[tuple[int, int]], until: int) -> str:
    """Which of an event's windows are complete.

    >>> from pellucid.internal.expr.types import INT
    >>> _missed(INT, [(0, 10)], 12), _missed(INT, [(0, 10), (5, 15)], 16)
    (', whose window from 0 to 10 is complete', ', whose windows from 0 to 10 and from 5 to 15 are complete')
    >>> _missed(INT, [(0, 10), (5, 15)], 12)
    ', whose window from 0 to 10 is complete (it would count in the 1 that is open)'
    """
    over = [f"from {shown_time(clock, a)} to {shown_time(clock, b)}" for a, b in windows if b <= until]
    left = len(windows) - len(over)
    said = " and ".join(over) if len(over) < 3 else f"{over[0]} up to the one {over[-1]}, {len(over)} in all,"
    more = f" (it would count in the {left} that {'is' if left == 1 else 'are'} open)" if left else ""
    return f", whose window{'s' * (len(over) > 1)} {said} {'is' if len(over) == 1 else 'are'} complete{more}"


def no_time(node: Node, value: Any, push: int) -> StepError:
    """An event has no time."""
    why = (
        f"on the event {short(value)}: it has no time (None); leave such events out before, with filter, or say which "
        "time they have"
    )
    return StepError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def no_such_time(node: Node, value: Any, time: int, clock: Type, push: int) -> StepError:
    """A window, a session or a time of waiting would begin or end where there are no times any more."""
    limits = "64 bits" if clock.limits()[0] is None else "the years 1 to 9999"
    why = (
        f"on the event {short(value)} of {shown_time(clock, time)}: what it belongs to begins or ends outside {limits}"
        "; leave such events out before, with filter"
    )
    return StepError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def not_ahead(node: Node, clock: Type, keys: Sequence[Any], now: int, asked: int, told: bool, push: int) -> StepError:
    """A task asks to be told of a time that is over."""
    when = f"told of {shown_time(clock, now)}" if told else f"on an event of {shown_time(clock, now)}"
    least = "a time after the one that it is told of" if told else "the time of its event, or a later one"
    why = f"{of_key(keys)}{when}: it asks to be told of {shown_time(clock, asked)}, which is over: expected {least}"
    return StepError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def endless(node: Node, clock: Type, keys: Sequence[Any], now: int, push: int) -> StepError:
    """A task asks for one time after the other."""
    why = (
        f"{of_key(keys)}told of {shown_time(clock, now)}: on_time was called {MOST_ALONE:,} times in a row, without an "
        "event between, and asked for one more time each time; at the end of the input every time is complete, so this "
        "would never end: let it ask for none when there is nothing left to wait for"
    )
    return StepError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def of_key(keys: Sequence[Any]) -> str:
    """Of which key something is, for messages.

    >>> of_key(["ada"]), of_key([])
    ("for the key 'ada', ", '')
    """
    return f"for the key {', '.join(short(key) for key in keys)}, " if keys else ""


def sub_failed(node: Node, clock: Type, start: int, end: int, error: StepError, push: int) -> StepError:
    """A step inside a window failed: which window, for no single push is to blame."""
    what = str(error).replace(f" failed at push {error.position:,} ", " failed ", 1)
    why = f"in the window from {shown_time(clock, start)} to {shown_time(clock, end)}: {what}"
    return type(error)(f"{node.describe()} failed {why}", step=node.id, position=push, why=why)


def goes_on(
    node: Node, clock: Type | None, time: int | None, rounds: int, events: Sequence[Any], push: int
) -> StepError:
    """A loop is not over after as many rounds as it may have, or has more events than any that ends."""
    some = ", ".join(short(event) for event in events[:3]) + (", …" if len(events) > 3 else "")
    what = "1 event still goes" if len(events) == 1 else f"{len(events):,} events still go"
    why = (
        f"{_when(clock, time)}: after {_rounds(rounds)} {what} round: {some}; have the body put out only what changes, "
        f"allow more with limit=, or say rounds={rounds} to stop there"
    )
    return StepError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def body_failed(
    node: Node, clock: Type | None, time: int | None, rounds: int, error: StepError, push: int
) -> StepError:
    """A step in the body of a loop failed: in which round (the first is 1)."""
    what = str(error).replace(f" failed at push {error.position:,} ", " failed ", 1)
    why = f"{_when(clock, time)} in round {rounds:,}: {what}"
    return type(error)(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def _when(clock: Type | None, time: int | None) -> str:
    return f"at time {shown_time(clock, time)}" if clock is not None and time is not None else "on its events"


def _rounds(rounds: int) -> str:
    return "1 round" if rounds == 1 else f"{rounds:,} rounds"
