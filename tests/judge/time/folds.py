"""Sub-pipelines for windows, each as text and as what it means for a list of events."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

__all__ = ["EVENTS", "TASKS", "WINDOWS", "Fold", "Task"]


class Fold(NamedTuple):
    """A sub-pipeline over ``x``; `number`: whether its answers are integers."""

    text: str
    meaning: Callable[[list[Any]], list[Any]]
    number: bool = False


def _running(start: Any, step: Callable[[Any, Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda events: list(accumulate(events, step, initial=start))[1:]


def _mean(events: list[Any]) -> list[Any]:
    known = [e.v for e in events if e.v is not None]
    return [total / (i + 1) for i, total in enumerate(_running(0.0, lambda a, b: a + b)(known))]


# over events with n: int, v: float or None, s: text or None
EVENTS = {
    "count": Fold("x.cumulate(lambda n, e: n + 1, start=0)", _running(0, lambda n, e: n + 1), True),
    "total": Fold(
        "x.map(lambda e: e.n).cumulate(lambda a, b: a + b, start=0)", _running(0, lambda a, e: a + e.n), True
    ),
    "order": Fold(
        "x.cumulate(lambda h, e: (h * 31 + e.n) % 1000003, start=7)",
        _running(7, lambda h, e: (h * 31 + e.n) % 1000003),
        True,
    ),
    "most": Fold(
        "x.cumulate(lambda m, e: e.n if e.n > m else m, start=-100)", _running(-100, lambda m, e: max(m, e.n)), True
    ),
    "floats": Fold(
        "x.map(lambda e: e.v or 0.0).cumulate(lambda a, b: a + b, start=0.0)",
        _running(0.0, lambda a, e: a + (e.v or 0.0)),
    ),
    "mean": Fold(
        "x.filter(lambda e: e.v is not None).cumulate(lambda s, e: (s[0] + 1, s[1] + (e.v or 0.0)), start=(0, 0.0))"
        ".map(lambda s: s[1] / s[0])",
        _mean,
    ),
    "last": Fold("x.filter(lambda e: True)", lambda events: events),
    "text": Fold("x.map(lambda e: e.s)", lambda events: [e.s for e in events]),
    "texts": Fold(
        'x.cumulate(lambda text, e: text + (e.s or "-"), start="")', _running("", lambda a, e: a + (e.s or "-"))
    ),
    "some": Fold(
        "x.filter(lambda e: e.n > 4).map(lambda e: e.n)", lambda events: [e.n for e in events if e.n > 4], True
    ),
    "trimmed": Fold("x.trim(1).map(lambda e: e.n)", lambda events: [e.n for e in events[1:]], True),
    "second": Fold("x.decimate(2).map(lambda e: e.n)", lambda events: [e.n for e in events[::2]], True),
    "parity": Fold(
        "x.key_by(lambda e: e.n % 2).cumulate(lambda c, e: c + 1, start=0)",
        lambda events: [sum(one.n % 2 == e.n % 2 for one in events[: i + 1]) for i, e in enumerate(events)],
        True,
    ),
}


class Task(NamedTuple):
    """A task that is told of times: both its functions as text (GAP is a length of time), and what they mean on rows
    and times that are whole numbers."""

    start: Any
    first: str
    then: str
    on_row: Callable[[Any, Any, int], tuple[Any, list[Any], list[int]]]
    on_time: Callable[[Any, int, int], tuple[Any, list[Any], list[int]]]
    what: str = "number"


TASKS = {
    "counted": Task(
        0, "(s + 1, [], [e.t + GAP])", "(0, [s], [])",
        lambda s, row, gap: (s + 1, [], [row.time + gap]), lambda s, time, gap: (0, [s], []),
    ),
    "silence": Task(
        (None, 0),
        "((e.t, s[1] + e.n), [], [e.t + GAP])",
        "((None, 0), [s[1]], []) if s[0] is not None and t == s[0] + GAP else (s, [], [])",
        lambda s, row, gap: ((row.time, s[1] + row.value.n), [], [row.time + gap]),
        lambda s, time, gap: ((None, 0), [s[1]], []) if s[0] is not None and time == s[0] + gap else (s, [], []),
    ),
    "beats": Task(
        0, "(3, [e.n], [e.t + GAP, e.t])", "(s - 1, [s, -s], [t + GAP] if s > 0 else [])",
        lambda s, row, gap: (3, [row.value.n], [row.time + gap, row.time]),
        lambda s, time, gap: (s - 1, [s, -s], [time + gap] if s > 0 else []),
    ),
    "each time": Task(
        7, "((s * 31 + e.n) % 1000003, [], [e.t])", "(7, [s], [])",
        lambda s, row, gap: ((s * 31 + row.value.n) % 1000003, [], [row.time]), lambda s, time, gap: (7, [s], []),
    ),
    "texts": Task(
        "", "(s + (e.s or '-'), [], [e.t + GAP] if e.n % 2 == 0 else [])", "('', [s], [])",
        lambda s, row, gap: (s + (row.value.s or "-"), [], [row.time + gap] if row.value.n % 2 == 0 else []),
        lambda s, time, gap: ("", [s], []),
    ),
    "whole": Task(
        False, "(e.n > 4, [e._replace(n=e.n + 1)] if s else [e, e], [e.t + GAP])", "(not s, [], [])",
        lambda s, row, gap: (
            row.value.n > 4,
            [row.value._replace(n=row.value.n + 1)] if s else [row.value, row.value],
            [row.time + gap],
        ),
        lambda s, time, gap: (not s, [], []),
        "E",
    ),
}  # fmt: skip

# over answers of windows that are integers
WINDOWS = {
    "count": EVENTS["count"],
    "sum": Fold("x.cumulate(lambda a, w: a + w.value, start=0)", _running(0, lambda a, w: a + w.value), True),
    "order": Fold(
        "x.cumulate(lambda h, w: (h * 31 + w.value) % 1000003, start=7)",
        _running(7, lambda h, w: (h * 31 + w.value) % 1000003),
        True,
    ),
}
