"""A counterexample in words: what happened, what was seen, and why no failure-free execution shows that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.verdict import Counterexample
from pellucid.failures.checker.literal import Judged
from pellucid.failures.checker.sinks import Observation
from pellucid.failures.model import EV, Configuration, Consume, FFail, FRecover, IBorder, IEvent, Message, gce

__all__ = ["FaultyExecution", "differs", "step_words"]


@dataclass(frozen=True)
class FaultyExecution(Counterexample):
    """A faulty execution that nothing explains, or that ends without all its output.

    ``trace`` are its steps and ``start`` the configuration it starts from, ready for
    `pellucid.failures.picture.run.from_trace`; ``lines`` tell it.  It has no pushes, so ``graphs`` and ``steps`` are
    empty.
    """

    trace: tuple[Any, ...] = ()
    start: Configuration | None = None
    lines: tuple[str, ...] = ()
    seen: tuple[tuple[int, str], ...] = ()  # after which step (0: before the first) what was seen
    kind: str = "not explained"  # or: not live
    more: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kind": self.kind,
            "why": self.why,
            "loop": self.loop,
            "steps": [str(label) for label in self.trace],
            "seen": [{"after": at, "what": what} for at, what in self.seen],
        }

    def to_json(self, *, indent: int | None = None) -> str:
        document = {"pellucid": 1, "counterexample": self.document()}
        return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)

    def picture(self) -> str:
        """The space-time picture as SVG; of micro-batches, which have no messages between tasks, the lines."""
        if self.start is None:
            return self._lines_as_svg()
        from pellucid.failures.picture.run import from_trace
        from pellucid.failures.picture.svg import spacetime_svg

        drawn = [
            label for label in self.trace if getattr(label, "X", True)
        ]  # a step without messages has no place there
        return spacetime_svg(from_trace(drawn, self.start), title=self.why.split(":")[0])

    def _lines_as_svg(self) -> str:
        from html import escape

        rows = "".join(
            f'<text x="12" y="{24 + 18 * i}" xml:space="preserve">{escape(line)}</text>'
            for i, line in enumerate(self.lines)
        )
        width, height = 24 + 8 * max(map(len, self.lines), default=0), 24 + 18 * len(self.lines)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" font-family="monospace" font-size="13" fill="currentColor">{rows}</svg>'
        )

    def _repr_html_(self) -> str:
        return self.picture()

    def as_pytest(self, question: str, *, file: Any, name: Any = "", **more: str) -> str:
        """Not for faulty executions: the crash test (``pellucid crash``) reproduces them on the real engine."""
        from pellucid.errors import UsageError

        raise UsageError(
            "a faulty execution has no pushes to replay in a test: use pellucid crash to test the real engine"
        )


def step_words(label: Any, c: Configuration, then: Configuration) -> str:
    """One step in words, from one configuration to the next.

    >>> from pellucid.failures.model import Task, initial, steps
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> for label, then in steps(c): print(step_words(label, c, then))
    t takes 1 from i and gives 1 to o
    t crashes
    """
    if isinstance(label, FFail):
        return f"{label.p} crashes"
    if isinstance(label, FRecover):
        return f"all recover (greatest common epoch: {gce(c)})"
    if not isinstance(label, IEvent | IBorder):
        return str(label)
    took: dict[str, list[str]] = {}
    gave: dict[str, list[str]] = {}
    for x in label.X:
        word = repr(x.d.w) if isinstance(x.d, EV) else f"border {x.e}"
        (took if isinstance(x, Consume) else gave).setdefault(x.s, []).append(word)
    parts = []
    if took:
        parts.append("takes " + " and ".join(f"{', '.join(words)} from {s}" for s, words in took.items()))
    parts += [f"stores snapshot {e}" for e in then.Sigma[label.p].archive.keys() - c.Sigma[label.p].archive.keys()]
    if gave:
        parts.append("gives " + " and ".join(f"{', '.join(words)} to {s}" for s, words in gave.items()))
    elif not parts:
        parts.append("processes an event that it had kept")
    return f"{label.p} " + (", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else parts[0])


def tell(
    labels: Sequence[Any],
    configurations: Sequence[Any],
    observations: Sequence[Any],
    observation: Observation,
) -> tuple[list[str], list[tuple[int, str]]]:
    """The lines of a trace, with what was seen wherever that changed; and the latter alone."""
    width = len(str(len(labels)))
    first = observation.tell(observations[0])
    lines, seen = [], [(0, first)]
    for i, label in enumerate(labels):
        lines.append(f"{i + 1:{width}}  {step_words(label, configurations[i], configurations[i + 1])}")
        if observations[i + 1] != observations[i]:
            what = observation.tell(observations[i + 1])
            lines.append(f"{'':{width}}    seen: {what}")
            seen.append((i + 1, what))
    return lines, seen


def differs(judged: Judged, observation: Observation) -> str:
    """Why nothing explains the last observation of a trace."""
    last, ever = judged.observations[-1], judged.observations[-1] in set(judged.free_observations)
    close = min(judged.candidates.next_seen(judged.before), key=lambda seen: _distance(seen, last), default=None)
    mine, other = _where_they_differ(last, close)
    why = f"no failure-free execution shows this: {observation.tell(mine)}"
    if ever:
        why = f"no failure-free execution shows this after what was seen before: {observation.tell(last)}"
    elif close is not None:
        why += f"; the nearest that one shows is: {observation.tell(other)}"
    return why


def _where_they_differ(a: Any, b: Any) -> tuple[Any, Any]:
    """Of two sets of messages, those on the streams that differ."""
    if not isinstance(a, frozenset) or not isinstance(b, frozenset) or not all(isinstance(m, Message) for m in a ^ b):
        return a, b
    streams = {m.s for m in a ^ b}
    return frozenset(m for m in a if m.s in streams), frozenset(m for m in b if m.s in streams)


def _distance(a: Any, b: Any) -> tuple[int, int, str]:
    if isinstance(a, frozenset) and isinstance(b, frozenset) and all(isinstance(m, Message) for m in a ^ b):
        epochs = max((m.e for m in a), default=0) - max((m.e for m in b), default=0)
        return abs(epochs), len(a ^ b), repr(sorted(map(str, a)))
    from difflib import SequenceMatcher

    return 0, -int(1000 * SequenceMatcher(None, repr(a), repr(b), autojunk=False).ratio()), repr(a)
