"""A graph with times: flights are read, corrected in a loop that takes a day, and counted when a day is complete.

`pellucid progress examples/timely.py` asks whether it keeps its promises.
"""

from __future__ import annotations

from typing import Any

from pellucid import check
from pellucid.progress import Graph, Message, Node, buffer, run, why_not

DAYS = range(1, 4)


def correct(state: Any, edge: str, flight: Message) -> Any:
    """A flight goes on to be counted; one that was just read is looked at once more, a day later."""
    return state, [], {"good": [flight], "again": [flight]} if edge == "raw" else {"good": [flight]}


def tomorrow(day: int) -> int | None:
    """Once round the loop; what would leave the days is dropped."""
    return day + 1 if day + 1 in DAYS else None


def remember(days: frozenset[int], edge: str, flight: Message) -> Any:
    """Ask to be told when the flight's day is complete."""
    return days | {flight.time}, [flight.time], {}


def tell(days: frozenset[int], day: int) -> Any:
    """No flight of this day, or of an earlier one, will come any more."""
    return days - {day}, [], {"out": [Message(day)]}


daily = Graph(
    nodes={
        "read": buffer("raw"),
        "correct": Node(correct),
        "later": buffer("back", to=tomorrow, summaries={"back": 1}),  # never before the next day
        "count": Node(remember, tell, state=frozenset()),
    },
    edges={
        "in": (None, "read"), "raw": ("read", "correct"), "good": ("correct", "count"), "again": ("correct", "later"),
        "back": ("later", "correct"), "out": ("count", None),
    },
    times=DAYS,
    name="daily",
)  # fmt: skip

if __name__ == "__main__":
    print(check.progress(daily), end="\n\n")
    print(run(daily, {"in": [Message(1), Message(3)]}).outputs, end="\n\n")
    print(why_not(daily, "count", 2, pending=[("again", 1), ("count", 2)]))
