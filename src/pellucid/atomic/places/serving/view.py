"""What a place has, as plain data without any value of a user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pellucid.atomic.places.core.state import State
from pellucid.atomic.places.records import Record

MINUTE = 60.0


def view(
    state: State, doubt: dict[str, Any], channels: Sequence[str], met: Mapping[str, tuple[str, int]]
) -> dict[str, Any]:
    """The counts of a place, and what it told of its doubts; no value, and no token.  ``met`` is what it has heard of
    other places, which can be newer than what it has written down of that."""
    undecided = {"active": 0, "pending": 0, "prepared": 0}
    taken: dict[str, int] = {}
    for own in state.live.values():
        undecided[own.state] += 1
        for lying in own.takes.values():
            taken[lying.channel] = taken.get(lying.channel, 0) + 1
    waiting = {channel: len(state.channels.get(channel, ())) for channel in channels}
    return {
        "starts": state.boot,
        "channels": {c: {"waiting": n, "at_least": n, "taken": taken.get(c, 0)} for c, n in waiting.items()},
        "undecided": undecided,
        "committed": state.commits,
        "aborted": dict(state.why),
        "outbox": len(state.outbox),
        "refused": state.refused,
        "behind": [{"stand": f"{start}/{n}", "by": source} for start, (source, n) in state.behind.items()],
        "accepted": [f"{start}/{n}" for start, n in state.accepted.items()],
        "accepted_in": dict(state.accepted_in),
        "met": {place: f"{start}/{n}" for place, (start, n) in met.items()},
        "ends": {**state.ends, state.start: state.records},
        "doubt": doubt,
    }


def commits_a_second(records: Iterable[Record], until: float | None = None) -> float:
    """Of the last minute before a time; of the last record, if none is given.

    >>> members = {"members": ["p:1:1", "p:1:2"], "attempt": None}
    >>> commits_a_second([Record("commit", members, at) for at in (10.0, 100.0, 130.0)], until=130.0)
    0.06666666666666667
    """
    times = [(record.when, len(record.fields["members"])) for record in records if record.kind == "commit"]
    if not times:
        return 0.0
    end = until if until is not None else max(when for when, _ in times)
    return sum(n for when, n in times if end - MINUTE <= when <= end) / MINUTE
