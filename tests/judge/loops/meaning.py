"""What a loop means, from docs/how-to-loops.md and nothing else: plain Python, which imports nothing that it judges.

A body is a class with a method ``round``: the events that go in, in order, to those that go round and those that leave;
None for the latter where the body returns one stream.  What it remembers is in its attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol


class TooLong(Exception):  # noqa: N818 - reads as what it is
    """More rounds than the limit."""


class Body(Protocol):
    """A body at work."""

    def round(self, events: list[Any]) -> tuple[list[Any], list[Any] | None]: ...


def loop(body: Body, events: list[Any], limit: int | None, rounds: int | None) -> list[Any]:
    """What leaves the loop that begins with these events."""
    left: list[Any] = []
    done, alone = 0, False
    while events:
        if done == rounds:
            return left + (events if alone else [])
        if done == limit:
            raise TooLong(events)
        again, out = body.round(events)
        done, alone = done + 1, out is None
        left += out or []
        if alone and rounds is None and Counter(again) == Counter(events):
            return left + again
        events = again
    return left


def by_time(
    make: Callable[[], Body],
    rows: Iterable[tuple[int, Any, Any]],
    limit: int | None = None,
    rounds: int | None = None,
) -> list[tuple[int, Any, Any]]:
    """A stream with times: rows (time, key, event), in any order, to rows in the order in which they leave."""
    bodies: dict[Any, Body] = {}
    found: dict[tuple[int, Any], list[Any]] = {}
    for time, key, event in rows:
        found.setdefault((time, key), []).append(event)
    out = []
    for time, key in sorted(found):
        body = bodies.setdefault(key, make())
        out += [(time, key, event) for event in loop(body, sorted(found[time, key]), limit, rounds)]
    return out


def by_push(
    make: Callable[[], Body], events: Iterable[Any], limit: int | None = None, rounds: int | None = None
) -> list[list[Any]]:
    """A stream without times and keys: push by push."""
    body = make()
    return [loop(body, [event], limit, rounds) for event in events]
