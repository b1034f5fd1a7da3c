"""A pipeline by event time as a machine: its states are those of the literal engine, in a canonical form.

A state is a running engine that nobody touches any more: whoever takes a step takes it with a copy.  Two are the same
if they hold the same, whatever the order in which rows came that wait for a clock: the engine sorts them before it uses
them (``exact`` keeps the order, for engines of which that is not known).

What a step of the machine is watched for (`Seen`): the rows that came to each timed step and how it judged them, what
it put out, and how the clocks moved.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pellucid.check.timed.inputs import Ends, Finish, Inputs, Move, Rows, Silent
from pellucid.errors import LateError, StepError
from pellucid.internal.engine.timed.clock import Clocks, feeders
from pellucid.internal.engine.timed.literal import Item, Literal, Row
from pellucid.internal.engine.timed.plan import Plan, Timed
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph, Node

#: Steps that put out what they are given, at once: nothing is promised of them but what the others promise.
PLAIN = ("at", "late", "early")


@dataclass
class Judged:
    """A timed step in one batch: what came to each of its inputs, what of it came too late (with the edges of what it
    missed), its windows' answers with the events in them, what it put out; and its clocks, before and after."""

    came: list[tuple[int, Item]] = field(default_factory=list)
    late: list[tuple[int, Item, int | None, int | None]] = field(default_factory=list)
    answers: list[tuple[tuple[Any, Any], int, int, tuple[Any, ...]]] = field(default_factory=list)
    put: list[Item] = field(default_factory=list)
    clock: int = 0  # of the step's own stream, when the batch began


@dataclass
class Seen:
    """What one step of the machine showed."""

    outputs: dict[str, list[Any]] = field(default_factory=dict)
    steps: dict[str, Judged] = field(default_factory=dict)
    streams: dict[str, list[Any]] = field(default_factory=dict)
    clocks: list[tuple[str, int, int]] = field(default_factory=list)  # of steps: before and after
    times: dict[str, list[int]] = field(default_factory=dict)  # of the events that came to each step `at`
    behind: bool = False  # an event came that is further behind than was said
    failed: StepError | None = None

    @property
    def late(self) -> bool:
        """Whether something came too late for a step."""
        return isinstance(self.failed, LateError) or any(judged.late for judged in self.steps.values())


# A class that stands before an engine in the order of classes; for the type checker it is one.
if TYPE_CHECKING:
    _Engine = Literal
else:
    _Engine = object


class Watching(_Engine):
    """Beside an engine, before it in the order of classes: notes what its steps do."""

    seen: Seen

    def _through(self, streams: Any) -> Any:
        before = dict(self.clocks._now)
        try:
            return super()._through(streams)
        finally:
            graph = self.graph
            self.seen.streams = {n.id: [i.value for i in streams[at]] for at, n in enumerate(graph.nodes)}
            for clock, now in self.clocks._now.items():
                self.seen.clocks.append((", ".join(graph.nodes[i].id for i in clock[0]), before[clock], now))

    def _timed(self, stage: Timed, streams: list[list[Item]]) -> list[Item]:
        graph: Graph = self.graph
        clocks: Clocks = self.clocks
        node = graph.nodes[stage.step]
        if node.kind in PLAIN:
            put: list[Item] = super()._timed(stage, streams)
            if node.kind == "at":
                self.seen.times[node.id] = [item.at for item in put]
            return put
        judged = self.seen.steps.setdefault(node.id, Judged())
        judged.clock = clocks.now(stage.step)
        judged.came = [(number, item) for number, j in enumerate(stage.inputs) for item in streams[j]]
        judged.put = super()._timed(stage, streams)
        return judged.put

    def _too_late(
        self, stage: Timed, item: Item, number: int = 0, start: int | None = None, end: int | None = None
    ) -> None:
        node = self.graph.nodes[stage.step]
        self.seen.steps.setdefault(node.id, Judged()).late.append((number, item, start, end))
        super()._too_late(stage, item, number, start, end)

    def _so_far(self, stage: Timed, node: Node, windows: Any) -> None:
        judged = self.seen.steps.setdefault(node.id, Judged())
        kept = list(judged.answers)
        super()._so_far(stage, node, windows)
        judged.answers = kept

    def _answer(self, node: Node, keys: tuple[Any, Any], start: int, end: int, events: list[Any]) -> None:
        held = tuple((event[0], event[1]) for event in events)
        self.seen.steps.setdefault(node.id, Judged()).answers.append((keys, start, end, held))
        super()._answer(node, keys, start, end, events)


def watched(engine: type[Literal]) -> type[Literal]:
    """An engine that is watched."""
    return type(f"Watched{engine.__name__}", (Watching, engine), {})


@dataclass(frozen=True)
class At:
    """A state of the machine.  ``key`` is what it is; ``engine`` is one that is there."""

    key: Any
    engine: Any = field(compare=False, repr=False)
    pushed: int = field(compare=False, default=0)
    idle: frozenset[str] = field(compare=False, default=frozenset())
    ended: frozenset[str] = field(compare=False, default=frozenset())
    over: bool = field(compare=False, default=False)  # the input has ended, or a step has failed
    greatest: Mapping[str, int] = field(compare=False, default_factory=dict)  # the times that each step `at` has seen


class TimedMachine:
    """One pipeline by event time.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.at(lambda v: v).tumbling(10, lambda w: w), x=int)
    >>> machine = TimedMachine(p.graph, Inputs.of(p.graph, times=[3, 12]))
    >>> at, seen = machine.take(machine.start(), Rows((("x", 3),)), 1)
    >>> at, seen = machine.take(at, Rows((("x", 12),)), 2)
    >>> seen.outputs, seen.steps[p.graph.nodes[2].id].answers
    ({'out': [Windowed(start=0, end=10, value=3)]}, [((None, None), 0, 10, ((3, 3),))])
    """

    def __init__(self, graph: Graph, inputs: Inputs, *, engine: type[Literal] = Literal, exact: bool = False) -> None:
        self.graph, self.inputs, self.kind, self.exact = graph, inputs, watched(engine), exact
        self._feeders = feeders(graph)

    def start(self) -> At:
        """Before the first event."""
        engine = self.kind(self.graph)
        return At((frozen_engine(engine, self.exact), frozenset(), 0, frozenset(), frozenset(), False), engine)

    def moves(self, at: At) -> Iterator[tuple[Move, int]]:
        """What can come next."""
        return iter(()) if at.over else self.inputs.moves(at.pushed, at.idle, at.ended)

    def take(self, at: At, move: Move, pushed: int) -> tuple[At, Seen]:
        """The state after a move, and what was seen of it."""
        engine = fork(at.engine)
        engine.seen = seen = Seen()
        idle, ended, over = at.idle, at.ended, False
        try:
            if isinstance(move, Rows):
                idle -= {source for source, _ in move.rows}
                rows = [Row(source, event, push=at.pushed + n) for n, (source, event) in enumerate(move.rows)]
                found = engine.batch(rows)
            elif isinstance(move, Silent):
                idle |= {move.source}
                engine.idle(move.source)
                found = engine.batch([])
            elif isinstance(move, Ends):
                ended |= {move.source}
                found = engine.batch([], [step for step, by in self._feeders.items() if ended.issuperset(by)])
            else:
                assert isinstance(move, Finish)
                over, found = True, engine.finish()
            seen.outputs = {name: [item.value for item in items] for name, items in found.items()}
        except StepError as error:
            seen.failed = error
            self._behind(at.greatest, seen)
            return At(("failed", error.step, type(error).__name__, pushed), None, pushed, idle, ended, True), seen
        greatest = self._behind(at.greatest, seen)
        key = (frozen_engine(engine, self.exact), frozenset(greatest.items()), pushed, idle, ended, over)
        return At(key, engine, pushed, idle, ended, over, greatest), seen

    def _behind(self, before: Mapping[str, int], seen: Seen) -> dict[str, int]:
        """The greatest time of each step `at`; and whether an event was further behind it than its lateness."""
        greatest = dict(before)
        for step, times in seen.times.items():
            timing = self.graph[step].timing
            assert timing is not None
            for time in times:
                seen.behind |= step in greatest and time < greatest[step] - timing.lateness
                greatest[step] = max(greatest.get(step, time), time)
        return greatest


# ---------------------------------------------------------------- copies and canonical forms of what an engine holds

_SHARED = (Graph, Plan, Type, Item, Node, str, bytes, int, float, enum.Enum, type(None), frozenset, Exception)


def fork(value: Any) -> Any:
    """A copy of what can change; all else is shared."""
    kind = type(value)
    if kind is dict:
        return {k: fork(v) for k, v in value.items()}
    if kind is list:
        return [fork(v) for v in value]
    if kind is tuple:
        return tuple([fork(v) for v in value])
    if kind is set:
        return set(value)
    if kind is deque:
        return deque(map(fork, value))
    if isinstance(value, (*_SHARED, tuple)) or callable(value):
        return value
    if kind.__module__.startswith("pellucid."):
        if dataclasses.is_dataclass(value) and kind.__dataclass_params__.frozen:
            return value
        made = object.__new__(kind)
        for name, part in vars(value).items():
            made.__dict__[name] = fork(part) if name != "seen" else part
        return made
    return copy.deepcopy(value)  # a user's own state of a task


_APART = frozenset({"graph", "outer", "plan", "late", "_late_now", "_early_now", "_moved", "_push", "seen", "pushed"})
_CLOCKS = ("marks", "status", "_now")


def frozen_engine(engine: Any, exact: bool = False) -> Any:
    """What an engine holds, as a value: equal if it goes on alike."""
    clocks = tuple(frozen(getattr(engine.clocks, name)) for name in _CLOCKS)
    more = {k: v for k, v in vars(engine).items() if k not in _APART and k not in ("clocks", "state", "_ordinary")}
    ordinary = {k: (run.state, run._waiting) for k, run in engine._ordinary.items()}
    state = {k: v for k, v in engine.state.items() if not _empty(v)}
    return clocks, frozen(state, exact), frozen(ordinary, True), frozen(more, True)


def _empty(value: Any) -> bool:
    """Whether a step holds nothing, as if nothing had come yet."""
    return not value or (type(value) in (tuple, list) and all(type(v) in (dict, list, set) and not v for v in value))


def frozen(value: Any, exact: bool = True) -> Any:
    """A value that can be hashed; without ``exact``, lists whose order does not matter are sorted."""
    kind = type(value)
    if kind is float:
        return "float", repr(value)
    if kind in (int, str, bool) or value is None:
        return value
    if kind is dict:
        return "dict", frozenset((frozen(k), frozen(v, exact)) for k, v in value.items())
    if kind in (list, deque):
        parts = [frozen(v, exact) for v in value]
        return "list", tuple(parts if exact else sorted(parts, key=repr))
    if kind is tuple:
        return tuple([frozen(v, exact) for v in value])
    if kind in (set, frozenset):
        return "set", frozenset(frozen(v) for v in value)
    if kind.__name__ == "Item":  # of any engine: without its place in the batch
        return value.time, frozen(value.outer), frozen(value.key), frozen(value.value)
    if isinstance(value, tuple):  # a record
        return kind.__name__, tuple([frozen(v) for v in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return kind.__name__, tuple([frozen(getattr(value, f.name), exact) for f in dataclasses.fields(value)])
    try:
        hash(value)
    except TypeError:
        return kind.__name__, repr(value)
    return value
