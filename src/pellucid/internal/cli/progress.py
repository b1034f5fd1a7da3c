"""A progress bar on stderr, only where a person is looking."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import click

from pellucid.errors import printable

_UNKNOWN: Mapping[str, float] = MappingProxyType({})


def count_text(count: int, word: str) -> str:
    """A count with its word.

    >>> count_text(1, "event"), count_text(1234, "event")
    ('1 event', '1,234 events')
    """
    return f"{count:,} {word}{'s' * (count != 1)}"


def tell(text: str) -> None:
    """Put a message on stderr: nothing that steers a terminal, whatever name or value is in it."""
    click.echo(printable(text), err=True)


def rate_text(rate: float) -> str:
    """A rate that fits in a line.

    >>> rate_text(950), rate_text(12_345_678)
    ('950 events/s', '12.3 M events/s')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rate >= size:
            return f"{rate / size:.1f} {letter} events/s"
    return f"{rate:.0f} events/s"


class TellPlain:
    """Says of each step that keeps a pipeline from being compiled that it does, and why: once, when some events have
    gone through; and which part of the time of all steps it took, where that was measured.

    Not before: where a run fails at its start, its error stands alone.
    """

    def __init__(self, why: str | None, steps: Sequence[str] = ()) -> None:
        self._lines = (why or "").splitlines()
        self._steps = steps  # of each line, where they are known

    def __call__(self, shares: Mapping[str, float] = _UNKNOWN) -> None:
        lines, self._lines = self._lines, []
        for i, line in enumerate(lines):
            share = shares.get(self._steps[i]) if i < len(self._steps) else None
            part = "" if share is None else f"; it took {100 * share:.0f} % of the time of all steps so far"
            tell(f"slower, as it runs in plain Python: {line}{part}")


def tell_left_out(outputs: Collection[str], wanted: Collection[str]) -> None:
    """A line about outputs that go nowhere: it may have been forgotten."""
    left = [name for name in outputs if name not in wanted]
    if left:
        tell(f"not written: {', '.join(left)} (no --out {left[0]}=…)")


class StatusLine:
    """A line on stderr that is drawn over itself, only where a person is looking."""

    def __init__(self) -> None:
        self._stream = sys.stderr
        self.shown = bool(getattr(self._stream, "isatty", lambda: False)())
        self._begin, self._last, self._width = time.monotonic(), 0.0, 0

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._begin

    def due(self) -> bool:
        """Whether it is time to draw it again: a few times a second."""
        now = time.monotonic()
        if not self.shown or now - self._last < 0.2:
            return False
        self._last = now
        return True

    def draw(self, *parts: str) -> None:
        """Draw it with these parts."""
        line = printable("  ".join(parts))
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def clear(self) -> None:
        """Take it away."""
        if self.shown and self._width:
            with contextlib.suppress(OSError):  # the terminal may be gone
                self._stream.write("\r" + " " * self._width + "\r")
                self._stream.flush()
            self._width = 0


class Progress(StatusLine):
    """Events, rate and position."""

    def update(self, events: int, share: float | None) -> None:
        """Draw the line again, if it is time to."""
        if not self.due():
            return
        seconds = max(self.seconds, 1e-9)
        parts = [count_text(events, "event"), rate_text(events / seconds)]
        if share is not None:
            filled = int(20 * min(share, 1.0))
            parts.insert(0, f"{100 * min(share, 1.0):3.0f}% {'█' * filled}{'░' * (20 - filled)}")
            if share > 0.01 and seconds > 1:
                left = int(seconds / share - seconds)
                parts.append(f"{left // 60}:{left % 60:02} left")
        self.draw(*parts)
