# ruff: noqa: N803 - the paper's letters
"""A run in space and time, in the one form from which it is drawn: marks on lanes, in an order that respects causality.

Both kinds of traces become this form: those of the model (`from_trace`, with an explanation if there is one), and
recorded ones (`spacetime_recorded.from_recorded`, rows with the columns of docs/explanation/failures.md).  A mark is a
step; what it consumed and produced are references to messages: the generation, the stream and the number on it.  Each
mark has a column: the length of the longest causal chain that leads to it, so steps that do not depend on each other
may stand one above the other and an arrow always points to the right.  A trace that was tampered with may have messages
that arrive before they are sent: such arrows point back, which is what is wrong with them.

A long run is folded: the events that a task takes in one epoch become one mark with their number.

>>> from pellucid.failures.model.notation import read_run
>>> from pellucid.failures.model.explain import explain
>>> c, Z = read_run("a: i -> m copy\\nb: m -> o copy\\ni: 1 | 2 |\\na a| b b| a b! ^ a")
>>> run = from_trace(Z, c, explain(Z, c))
>>> [(m.lane, m.rule, m.column, m.kept) for m in run.marks][3:7]
[('b', 'I-BORDER', 2, True), ('a', 'I-EVENT', 2, False), ('b', 'F-FAIL', 3, False), (None, 'F-RECOVER', 4, False)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pellucid.errors import UsageError
from pellucid.failures.model import BD, EV, RULE, Configuration, Consume, FFail, FRecover, IBorder
from pellucid.failures.model.explain import Explanation, NotExplained
from pellucid.internal.engine.epochs.recording import ACK

if TYPE_CHECKING:
    from pellucid.failures.model.trace import Trace

Ref = tuple[int, str, int]  # generation, stream, number

_EVENTS = ("SOURCE", "I-EVENT")


@dataclass(frozen=True)
class Mark:
    """A step, or several steps folded to one.  ``at`` is its position in the trace, ``lane`` None for a recovery."""

    at: int
    lane: str | None
    rule: str
    epoch: int | None
    generation: int
    consumed: tuple[Ref, ...] = ()
    produced: tuple[Ref, ...] = ()
    kept: bool = True  # whether it is in the explanation
    commit: bool = False  # whether it makes an epoch visible
    border: bool = False  # whether it passes a border on
    wrong: str = ""  # why it cannot be explained
    text: str = ""
    count: int = 1
    column: int = 0


@dataclass(frozen=True)
class DrawnRun:
    """Marks in an order that respects causality, their lanes, and what is known of their messages."""

    lanes: tuple[str, ...]
    marks: tuple[Mark, ...]
    borders: frozenset[Ref]
    labels: Mapping[Ref, str]
    explained: bool
    folded: bool = False
    cut: Mapping[str, float] = field(default_factory=dict)  # a snapshot: where its line crosses each lane, in columns
    judged: str = ""  # what it is worth
    marked: Mapping[Ref, str] = field(default_factory=dict)  # messages in another colour

    @property
    def steps(self) -> int:
        """How many steps there are, folded ones counted."""
        return sum(m.count for m in self.marks)


# ---------------------------------------------------------------- from the model


def from_trace(Z: Trace, c: Configuration, explanation: Explanation | NotExplained | None = None) -> DrawnRun:
    """A trace of the model; with its explanation the discarded steps are known, with `NotExplained` the wrong one
    is."""
    kept = set(explanation.steps) if isinstance(explanation, Explanation) else None
    commits = set(explanation.commits) if isinstance(explanation, Explanation) else set()
    targets = {g.stop: g.epoch for g in explanation.generations} if isinstance(explanation, Explanation) else {}
    at_fault = {explanation.at: explanation.reason} if isinstance(explanation, NotExplained) else {}
    marks: list[Mark] = []
    borders: set[Ref] = set()
    labels: dict[Ref, str] = {}
    generation = 0
    for i, z in enumerate(Z):
        consumed: list[Ref] = []
        produced: list[Ref] = []
        if not isinstance(z, FFail | FRecover):
            numbers = dict(z.N)
            for x in z.X:
                ref = (generation, x.s, numbers.get(x.s, 0))
                numbers[x.s] = ref[2] + 1
                (consumed if isinstance(x, Consume) else produced).append(ref)
                if x.d == BD:
                    borders.add(ref)
                elif isinstance(x.d, EV):
                    labels.setdefault(ref, str(x.d.w))  # as it was sent
        lane: str | None = None
        epoch: int | None = None
        if isinstance(z, FRecover):
            epoch = targets.get(i)
        else:
            lane, epoch = z.p, None if isinstance(z, FFail) or not z.X else z.epoch
        marks.append(
            Mark(
                i, lane, RULE[type(z)], epoch, generation + isinstance(z, FRecover), tuple(consumed), tuple(produced),
                kept is None or i in kept, i in commits, isinstance(z, IBorder), at_fault.get(i, ""), str(z),
            )
        )  # fmt: skip
        generation += isinstance(z, FRecover)
    return placed(tuple(c.Pi), marks, borders, labels, kept is not None)


# ---------------------------------------------------------------- columns


def by_flow(marks: Sequence[Mark]) -> tuple[str, ...]:
    """The lanes, those that send above those that receive.

    >>> heard = Mark(0, "sink", "I-EVENT", 1, 0, consumed=((0, "m", 0),))
    >>> by_flow([heard, Mark(1, "a", "SOURCE", 1, 0, produced=((0, "m", 0),))])
    ('a', 'sink')
    """
    sender = {ref: m.lane for m in marks for ref in m.produced}
    depth = dict.fromkeys((m.lane for m in marks if m.lane is not None), 0)
    edges = {(sender[ref], m.lane) for m in marks for ref in m.consumed if ref in sender and not ref[1].startswith(ACK)}
    for _ in depth:
        for a, b in edges:
            if a is not None and b is not None and a != b:
                depth[b] = min(max(depth[b], depth[a] + 1), len(depth))
    return tuple(sorted(depth, key=lambda lane: (depth[lane], lane)))


def placed(
    lanes: tuple[str, ...], marks: Iterable[Mark], borders: Iterable[Ref], labels: Mapping[Ref, str], explained: bool
) -> DrawnRun:
    """The marks with their columns; they come in an order that respects causality.

    >>> run = placed(("a",), [Mark(0, "a", "F-FAIL", None, 0), Mark(1, None, "F-RECOVER", 0, 1)], (), {}, False)
    >>> [m.column for m in run.marks]
    [0, 1]
    """
    marks = list(marks)
    unknown = next((m.lane for m in marks if m.lane is not None and m.lane not in lanes), None)
    if unknown is not None:
        lanes = (*lanes, unknown)
    first, furthest = 0, -1  # nothing stands left of the last recovery
    last: dict[str | None, int] = {}
    sent: dict[Ref, int] = {}
    placed: list[Mark] = []
    for m in marks:
        if m.lane is None:
            column = furthest + 1
            first, last = column + 1, {}
        else:
            column = max([first, last.get(m.lane, -1) + 1, *(sent[ref] + 1 for ref in m.consumed if ref in sent)])
            last[m.lane] = column
            sent |= dict.fromkeys(m.produced, column)
        furthest = max(furthest, column)
        placed.append(replace(m, column=column))
    return DrawnRun(lanes, tuple(placed), frozenset(borders), dict(labels), explained)


def fold(run: DrawnRun, most: int) -> DrawnRun:
    """The run as it is if it has at most so many columns; otherwise with the events of each epoch of a task as one
    mark.

    >>> from pellucid.failures.model.notation import read_run
    >>> c, Z = read_run("a: i -> m copy\\ni: 1 2 3 | 4 |\\na a a a| a a|")
    >>> [(m.rule, m.count) for m in fold(from_trace(Z, c), 4).marks]
    [('I-EVENT', 3), ('I-BORDER', 1), ('I-EVENT', 1), ('I-BORDER', 1)]
    """
    if most < 1:
        raise UsageError(f"a picture needs at least one column, found most={most}")
    if not run.marks or max(m.column for m in run.marks) < most:
        return run
    groups: dict[Any, list[Mark]] = {}
    for m in run.marks:
        plain = m.rule in _EVENTS and not m.border and not m.wrong
        key: Any = (m.lane, m.generation, m.epoch, m.rule, m.kept) if plain else m.at
        groups.setdefault(key, []).append(m)
    ordered = _in_order(run, [_one(several) for several in groups.values()])
    return replace(placed(run.lanes, ordered, run.borders, {}, run.explained), folded=True)


def _one(marks: Sequence[Mark]) -> Mark:
    """These events as one mark."""
    first, count = marks[0], sum(m.count for m in marks)
    if len(marks) == 1:
        return first
    return replace(
        first, count=count, text=f"{count:,} × {first.rule} {first.lane}, epoch {first.epoch}",
        consumed=tuple(ref for m in marks for ref in m.consumed),
        produced=tuple(ref for m in marks for ref in m.produced),
    )  # fmt: skip


def _in_order(run: DrawnRun, groups: list[Mark]) -> list[Mark]:
    """Folded marks, causes first: by generation, epoch and lane, borders after the events of their epoch."""
    lane = {name: k for k, name in enumerate(run.lanes)}
    flow = _flow_depth(run, lane)

    def key(m: Mark) -> tuple[int, int, int, int, int, int]:
        if m.lane is None:  # a recovery begins its generation
            return m.generation, 0, 0, 0, 0, m.at
        fails = m.rule.startswith("F-")
        rank = 0 if m.rule in _EVENTS and not m.border else 1 if m.border else 2
        epoch = m.epoch if m.epoch is not None and not fails else 0
        return m.generation, 2 if fails else 1, epoch, flow.get(m.lane, 0) if rank < 2 else len(flow), rank, m.at

    return sorted(groups, key=key)


def _flow_depth(run: DrawnRun, lane: Mapping[str, int]) -> dict[str | None, int]:
    """How far down the flow a lane is; the lanes of the model need not be in that order."""
    flow = {name: k for k, name in enumerate(by_flow(run.marks))}
    return {name: flow.get(name, lane[name]) for name in lane}
