"""An interrupt, a SIGTERM or a SIGHUP, told apart and never lost.

A signal becomes an exception, so that files are cleaned up on the way out.  Libraries may swallow an exception that
comes at the wrong moment (an optional import in a ``try``, for one), so the wish is also kept: ``checkpoint`` asks
whether there is one.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(BaseException):
    """A signal wants the program to end."""

    code = 0
    word = ""


class Interrupted(Stopped):
    """SIGINT: Ctrl-C."""

    code, word = 130, "interrupted"


class Terminated(Stopped):
    """SIGTERM: an orderly end."""

    code, word = 143, "terminated"


class HungUp(Stopped):
    """SIGHUP: the terminal went away."""

    code, word = 129, "hung up"


_KINDS: dict[int, type[Stopped]] = {signal.SIGINT: Interrupted, signal.SIGTERM: Terminated}
if hasattr(signal, "SIGHUP"):
    _KINDS[signal.SIGHUP] = HungUp

_wish: list[type[Stopped]] = []


def checkpoint() -> None:
    """Stop here if a signal came and was not obeyed."""
    if _wish:
        raise _wish[0]


def _handler(number: int, frame: Any) -> None:
    again = bool(_wish)
    _wish.append(_KINDS[number])
    if not again:  # a second Ctrl-C must not disturb the cleaning up
        raise _wish[0]


def _unwanted(number: int) -> bool:
    """Whether it was started so that a hangup does not end it, as with ``nohup``."""
    return _KINDS[number] is HungUp and signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def stoppable() -> Iterator[None]:
    """Signals become exceptions inside."""
    _wish.clear()
    try:
        before = {number: signal.signal(number, _handler) for number in _KINDS if not _unwanted(number)}
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _wish.clear()
