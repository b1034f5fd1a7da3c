"""What the outside sees: sinks, and observability functions (Definition 5.3).

A sink is part of the system.  ``transactional`` shows an epoch when it is complete everywhere: this is the paper's
`out` (Definition 4.3), a function of the configuration.  ``idempotent`` and ``append`` write at once, to a place that
no recovery takes back: what they hold is a part of its own beside the configuration.  ``idempotent`` writes the i-th
event of an epoch under (epoch, i), so a replay overwrites; ``append`` adds a row each time.

An observability function of one's own takes a `Configuration` and gives a value that can be hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from pellucid.failures.model import EV, Configuration, Map, Message, out

Held = Map[str, Any]  # what each sink holds, by its stream


class Observation:
    """What is seen; ``durable`` sinks hold something that is no part of the configuration."""

    name = ""
    durable = False

    def empty(self) -> Any:
        """What a sink holds at the start."""
        return ()

    def write(self, held: Any, message: Message, before: frozenset[Message]) -> Any:
        """What a sink holds after this message was produced on its stream, on which ``before`` was already."""
        return held

    def see(self, c: Configuration, held: Held) -> Hashable:
        """The observation."""
        return held

    def tell(self, seen: Any) -> str:
        """The observation in words."""
        return repr(seen)


class Transactional(Observation):
    """The paper's `out`: all messages of epochs that every task has completed.

    >>> from pellucid.failures.model import Task, initial
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> Transactional().see(c, Map())
    frozenset()
    """

    name = "transactional"

    def see(self, c: Configuration, held: Held) -> Hashable:
        return out(c)

    def tell(self, seen: Any) -> str:
        return _messages(seen)


class Uncommitted(Observation):
    """A wrong `out`, for a mutant: it shows every message at once, committed or not."""

    name = "uncommitted"

    def see(self, c: Configuration, held: Held) -> Hashable:
        return c.M

    def tell(self, seen: Any) -> str:
        return _messages(seen)


class Append(Observation):
    """Rows are added as they come.

    >>> Append().write(("a",), Message(1, "o", 1, EV("b")), frozenset())
    ('a', 'b')
    """

    name = "append"
    durable = True

    def write(self, held: Any, message: Message, before: frozenset[Message]) -> Any:
        return (*held, message.d.w) if isinstance(message.d, EV) else held

    def tell(self, seen: Any) -> str:
        return "; ".join(f"{s}: {', '.join(map(repr, rows)) or 'nothing'}" for s, rows in seen.items())


class Idempotent(Observation):
    """The i-th event of an epoch is written under (epoch, i): the same key is the same row.

    >>> first = Idempotent().write((), Message(0, "o", 1, EV("a")), frozenset())
    >>> first, Idempotent().write(first, Message(0, "o", 1, EV("b")), frozenset())
    (((1, 0, 'a'),), ((1, 0, 'b'),))
    """

    name = "idempotent"
    durable = True

    def write(self, held: Any, message: Message, before: frozenset[Message]) -> Any:
        if not isinstance(message.d, EV):
            return held
        nth = len({m.n for m in before if m.e == message.e and m.n < message.n and isinstance(m.d, EV)})
        others = [row for row in held if row[:2] != (message.e, nth)]
        return tuple(sorted([*others, (message.e, nth, message.d.w)], key=lambda row: row[:2]))

    def tell(self, seen: Any) -> str:
        rows = (
            f"{s}: " + (", ".join(f"({e}, {i}) {w!r}" for e, i, w in held) or "nothing") for s, held in seen.items()
        )
        return "; ".join(rows)


class Own(Observation):
    """An observability function of the user's own."""

    name = "own"

    def __init__(self, function: Callable[[Configuration], Hashable]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", "observe")

    def see(self, c: Configuration, held: Held) -> Hashable:
        return self.function(c)


SINKS = {sink.name: sink for sink in (Transactional, Idempotent, Append)}


def _messages(seen: frozenset[Message]) -> str:
    """Messages by stream, in their order."""
    by: dict[str, list[Message]] = {}
    for m in sorted(seen, key=lambda m: (m.s, m.n)):
        by.setdefault(m.s, []).append(m)
    told = []
    for s, messages in by.items():
        rows = " ".join(f"{m.d.w!r}" if isinstance(m.d, EV) else "|" for m in messages)
        told.append(f"{s}: {rows}")
    return "; ".join(told) or "nothing"
