"""A counterexample in words: what happened, what was seen, and why no failure-free execution shows that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from html import escape
from typing import Any, TypeAlias

from pellucid.errors import UsageError
from pellucid.failures.checker.search.literal import Judged
from pellucid.failures.checker.sinks import Observation
from pellucid.failures.model import EV, Configuration, Consume, FFail, FRecover, IBorder, IEvent, Message, gce
from pellucid.failures.picture.run import from_trace
from pellucid.failures.picture.svg import spacetime_svg
from pellucid.internal.draw.labels import clean
from pellucid.internal.model import Counterexample, Machine, follow
from pellucid.internal.model.show.pytest_file import Case, Imports

Told: TypeAlias = tuple[list[str], list[tuple[int, str]], list[Any]]


@dataclass(frozen=True)
class FaultyExecution(Counterexample):
    """A faulty execution that nothing explains, or that ends without all its output: ``steps`` are the rules applied.

    ``start`` is the configuration it starts from, ready for `pellucid.failures.picture.run.from_trace`; ``lines`` tell
    it; ``tell`` follows its steps on the literal rules and tells what is seen.
    """

    start: Configuration | None = None
    lines: tuple[str, ...] = ()
    seen: tuple[tuple[int, str], ...] = ()  # after which step (0: before the first) what was seen
    kind: str = "not explained"  # or: not live
    tell: Callable[[Sequence[Any]], Told] | None = field(default=None, compare=False, repr=False)
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)  # of `check.failures`

    @property
    def trace(self) -> tuple[Any, ...]:
        """The steps, by the name that the paper gives them."""
        return self.steps

    def text(self, question: str = "", *, width: int | None = None) -> str:
        """The lines."""
        return "\n".join(self.lines)

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kind": self.kind,
            "why": self.why,
            "loop": self.loop,
            "steps": [str(label) for label in self.steps],
            "seen": [{"after": at, "what": what} for at, what in self.seen],
        }

    def picture(self, question: str = "") -> str:
        """The space-time picture as SVG; of micro-batches, which have no messages between tasks, the lines."""
        if self.start is None:
            return self._lines_as_svg()
        drawn = [label for label in self.steps if getattr(label, "X", True)]  # one without messages has no place there
        return spacetime_svg(from_trace(drawn, self.start), title=self.why.split(":")[0])

    def _lines_as_svg(self) -> str:
        rows = "".join(
            f'<text x="12" y="{24 + 18 * i}" xml:space="preserve">{escape(line)}</text>'
            for i, line in enumerate(self.lines)
        )
        width, height = 24 + 8 * max(map(len, self.lines), default=0), 24 + 18 * len(self.lines)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" font-family="monospace" font-size="13" fill="currentColor">{rows}</svg>'
        )

    def replay(self) -> bool:
        """Whether the literal rules take these steps once more, and show the same."""
        assert self.tell is not None
        try:
            return tuple(self.tell(self.steps)[1]) == self.seen
        except UsageError:
            return False

    def test(self, case: Case, imports: Imports) -> list[str]:
        """The question is asked once more, and its shortest answer is followed on the literal rules."""
        if not self.graphs or not all(case.names):
            raise UsageError(
                "a test of a faulty execution needs a pipeline with a name: a bare graph of tasks has none"
            )
        odd = [name for name, value in self.asked.items() if not _is_plain(value)]
        if odd:
            raise UsageError(f"a test cannot name the object given as {odd[0]}=: write one by hand, with replay()")
        imports.need(case.files[0], case.names[0])
        imports.tools.add("check")
        more = "".join(f", {name}={value!r}" for name, value in self.asked.items())
        return [
            f"    # {clean(self.why)}",
            f"    example = check.failures({case.names[0]}{more}).counterexample",
            "    assert example is not None and example.replay()",
            "    assert [str(step) for step in example.steps] == [",
            *(f"        {str(label)!r}," for label in self.steps),
            "    ]",
        ]


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, [*value, *value.values()]))
    return isinstance(value, str | int | float | None) or (isinstance(value, list) and all(map(_is_plain, value)))


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


def told(machine: Machine, labels: Sequence[Any], observation: Observation) -> Told:
    """The lines of a trace, followed on the literal rules, with what was seen wherever that changed; that alone; and
    the situations on the way."""
    path = follow(machine, labels)
    configurations = [getattr(at, "c", at) for at in path]
    observations = [machine.see(at) for at in path]
    width = len(str(len(labels)))
    first = observation.tell(observations[0])
    lines, seen = [], [(0, first)]
    for i, label in enumerate(labels):
        lines.append(f"{i + 1:{width}}  {step_words(label, configurations[i], configurations[i + 1])}")
        if observations[i + 1] != observations[i]:
            what = observation.tell(observations[i + 1])
            if what == observation.tell(observations[i]):
                what = _in_full(observations[i + 1])
            lines.append(f"{'':{width}}    seen: {what}")
            seen.append((i + 1, what))
    return lines, seen, path


def differs(judged: Judged, observation: Observation) -> str:
    """Why nothing explains the last observation of a trace."""
    last, ever = judged.observations[-1], judged.observations[-1] in set(judged.free_observations)
    close = min(judged.candidates.next_seen(judged.before), key=lambda seen: _distance(seen, last), default=None)
    mine, other = _where_they_differ(last, close)
    words, others = observation.tell(mine), observation.tell(other)
    if close is not None and words == others:
        words, others = _in_full(mine), _in_full(other)
    if close is not None and words == others:
        words, others = (f"{words} ({type(seen).__name__} object {i})" for i, seen in enumerate((mine, other), 1))
    why = f"no failure-free execution shows this: {words}"
    if ever:
        why = f"no failure-free execution shows this after what was seen before: {observation.tell(last)}"
    elif close is not None:
        why += f"; the nearest that one shows is: {others}"
    return why


def _in_full(seen: Any) -> str:
    """An observation with all that it is made of, where its words leave out what makes the difference.

    >>> _in_full(frozenset({Message(0, "x", 1, EV("a")), Message(2, "x", 1, EV("b"))}))
    "x: 'a' (number 0, epoch 1), 'b' (number 2, epoch 1)"
    """
    if not isinstance(seen, frozenset) or not all(isinstance(m, Message) for m in seen):
        return repr(seen)
    by: dict[str, list[str]] = {}
    for m in sorted(seen, key=lambda m: (m.s, m.n, m.e)):
        what = repr(m.d.w) if isinstance(m.d, EV) else "border"
        by.setdefault(m.s, []).append(f"{what} (number {m.n}, epoch {m.e})")
    return "; ".join(f"{s}: {', '.join(messages)}" for s, messages in by.items()) or "nothing"


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
    return 0, -int(1000 * SequenceMatcher(None, repr(a), repr(b), autojunk=False).ratio()), repr(a)
