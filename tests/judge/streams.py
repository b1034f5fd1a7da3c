"""What a pipeline means, said a second time: over whole streams, without graph, queue, state or chunk.

A stream is the list of all its events, each with the push that it belongs to and its key.  Every processor is its
definition on such lists (Model Checking of Stream Processing Pipelines, 2021, section 2), and a pipeline that is called
on streams is its steps written there. Nothing of Pellucid's graph or engines is used here, so this judges also how a
pipeline is *built*: a nested pipeline that loses a key or a step is wrong here, too.

A `Judged` stream is a stream under construction with its meant beside it: what is done to it is done to both.

A function that fails ends the stream that it makes, and marks the push.  The whole fails at the first push that is
marked anywhere in what the outputs are made of; what comes out before that push is as if nothing had failed.
"""

from __future__ import annotations

import copy
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pellucid import Stream, apply, merge
from pellucid.internal.expr.types import (
    INT,
    INT_MAX,
    INT_MIN,
    ListType,
    OptionalType,
    RecordType,
    TupleType,
    Type,
    conform,
    list_in,
)

__all__ = ["Judged", "StreamMeaning", "meant_outputs"]


class Happened(NamedTuple):
    """An event of a stream."""

    push: int
    key: Any
    value: Any


class Overflow(Exception):  # noqa: N818 - reads as what it is
    """An integer that does not fit 64 bits."""


class Whole(int):
    """An integer of 64 bits: what is computed from it fits, or fails."""

    __slots__ = ()


def _whole(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        if not INT_MIN <= value <= INT_MAX:
            raise Overflow
        return Whole(value)
    return value


def _checked(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)
    return lambda *args: _whole(plain(*args))


for _name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift", "pow"):
    for _side in ("__", "__r"):
        setattr(Whole, f"{_side}{_name}__", _checked(f"{_side}{_name}__"))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Whole, f"__{_name}__", _checked(f"__{_name}__"))


def _of(t: Type, value: Any) -> Any:
    """A value as an event of this type, with integers that know their size."""
    if isinstance(t, RecordType) and list_in(t) is not None:
        return t.made([_of(part, getattr(value, name)) for name, part in t.fields])
    if isinstance(t, TupleType):
        return tuple(_of(part, v) for part, v in zip(t.items, value, strict=True))
    if isinstance(t, OptionalType):
        return None if value is None else _of(t.inner, value)
    if isinstance(t, ListType):
        return t.cls(_of(t.item, v) for v in value)
    return t.unflatten(
        [_whole(v) if kind == INT else v for (_, kind), v in zip(t.leaves(), t.flatten(conform(t, value)), strict=True)]
    )


@dataclass(eq=False)
class StreamMeaning:
    """A stream, by what it is made of; ``events_in`` gives them in a world."""

    made: str
    inputs: tuple[StreamMeaning, ...] = ()
    by: dict[str, Any] = field(default_factory=dict)

    def events_in(self, world: World) -> list[Happened]:
        """All events, where the sources are as this world has them."""
        if self not in world.known:
            if self.made != "source":
                world.known[self] = getattr(self, f"_{self.made}")(
                    world, *(made.events_in(world) for made in self.inputs)
                )
            else:
                world.known[self] = world.sources[self]
        return world.known[self]

    def over(self, given: dict[StreamMeaning, StreamMeaning]) -> StreamMeaning:
        """The same steps over other sources: what it means to call a pipeline; ``given`` gets all that was made."""
        if self not in given:
            given[self] = StreamMeaning(self.made, tuple(made.over(given) for made in self.inputs), self.by)
        return given[self]

    # ------------------------------------------------------------ one event after the other

    def _each(self, world: World, events: Sequence[Happened], f: Callable[[Happened], list[Any]]) -> list[Happened]:
        out = []
        for e in events:
            try:
                out += [Happened(e.push, e.key, v) for v in f(e)]
            except Exception:  # whatever a user's function raises
                world.failed.add(e.push)
                break
        return out

    def _map(self, world: World, events: list[Happened]) -> list[Happened]:
        return self._each(world, events, lambda e: [_of(self.by["type"], self.by["f"](e.value))])

    def _filter(self, world: World, events: list[Happened]) -> list[Happened]:
        return self._each(world, events, lambda e: [e.value] if self.by["f"](e.value) else [])

    def _key_by(self, world: World, events: list[Happened]) -> list[Happened]:
        keys: list[Any] = []

        def key(e: Happened) -> list[Any]:
            keys.append(_of(self.by["key"], self.by["f"](e.value)))
            return [e.value]

        return [e._replace(key=k) for e, k in zip(self._each(world, events, key), keys, strict=False)]

    def _forget(self, world: World, events: list[Happened]) -> list[Happened]:
        """Under its key and the place at which its session began: anew where as many events or more came
        since the key's last one as ``after`` says."""
        out: list[Happened] = []
        for i, e in enumerate(self._key_by(world, events)):
            before = [j for j in range(i) if out[j].key[0] == e.key]
            fresh = not before or i - before[-1] - 1 >= self.by["after"]
            out.append(e._replace(key=(e.key, i if fresh else out[before[-1]].key[1])))
        return out

    def _cumulate(self, world: World, events: list[Happened]) -> list[Happened]:
        last: dict[Any, Any] = defaultdict(lambda: _of(self.by["type"], self.by["start"]))

        def add(e: Happened) -> list[Any]:
            last[e.key] = _of(self.by["type"], self.by["f"](last[e.key], e.value))
            return [last[e.key]]

        return self._each(world, events, add)

    def _task(self, world: World, events: list[Happened]) -> list[Happened]:
        states: dict[Any, Any] = defaultdict(lambda: _of(self.by["state"], copy.deepcopy(self.by["start"])))

        def step(e: Happened) -> list[Any]:
            state, out = self.by["f"](states[e.key], e.value)
            made = [_of(self.by["type"], v) for v in out]
            states[e.key] = _of(self.by["state"], state)
            return made

        return self._each(world, events, step)

    def _explode(self, world: World, events: list[Happened]) -> list[Happened]:
        def elements(e: Happened) -> list[Any]:
            found = self.by["f"](e.value)
            return [_of(self.by["type"], (e.value, v) if self.by["beside"] else v) for v in found]

        return self._each(world, events, elements)

    def _window(self, world: World, events: list[Happened]) -> list[Happened]:
        came: dict[Any, list[Any]] = defaultdict(list)
        k, hole, inner = self.by["k"], self.by["hole"], self.by["inner"]

        def over(e: Happened) -> list[Any]:
            came[e.key].append(e.value)
            if len(came[e.key]) < k:
                return []
            alone = World({hole: [Happened(i, None, v) for i, v in enumerate(came[e.key][-k:])]})
            found = inner.events_in(alone)
            if alone.failed:
                raise ValueError
            return [found[-1].value] if found else []

        return self._each(world, events, over)

    def _lag(self, world: World, events: list[Happened]) -> list[Happened]:
        came: dict[Any, list[Any]] = defaultdict(list)

        def pair(e: Happened) -> list[Any]:
            came[e.key].append(e.value)
            return [(e.value, came[e.key][-1 - self.by["k"]])] if len(came[e.key]) > self.by["k"] else []

        return self._each(world, events, pair)

    # ------------------------------------------------------------ by their number

    def _decimate(self, world: World, events: list[Happened]) -> list[Happened]:
        return [e for e, n in _numbered(events) if n % self.by["k"] == 0]

    def _trim(self, world: World, events: list[Happened]) -> list[Happened]:
        return [e for e, n in _numbered(events) if n >= self.by["k"]]

    def _take(self, world: World, events: list[Happened]) -> list[Happened]:
        return [e for e, n in _numbered(events) if n < self.by["k"]]

    # ------------------------------------------------------------ several streams

    def _merge(self, world: World, *inputs: list[Happened]) -> list[Happened]:
        return sorted(
            (e for events in inputs for e in events), key=lambda e: e.push
        )  # in a push, in the order of the inputs

    def _together(self, inputs: Sequence[list[Happened]]) -> list[Happened]:
        """The n-th event of each input under a key, when the last of them comes: by its push, its input, its place
        there."""
        rows: dict[Any, list[tuple[tuple[int, int, int], Any] | None]] = defaultdict(lambda: [None] * len(inputs))
        for i, events in enumerate(inputs):
            for at, (e, n) in enumerate(_numbered(events)):
                rows[e.key, n][i] = ((e.push, i, at), e.value)
        whole = [
            (max(at for at, _ in row), key, [v for _, v in row]) for (key, _), row in rows.items() if None not in row
        ]  # type: ignore[misc, union-attr]
        return [Happened(at[0], key, values) for at, key, values in sorted(whole, key=operator.itemgetter(0))]

    def _apply(self, world: World, *inputs: list[Happened]) -> list[Happened]:
        return self._each(world, self._together(inputs), lambda e: [_of(self.by["type"], self.by["f"](*e.value))])

    def _filter_by(self, world: World, *inputs: list[Happened]) -> list[Happened]:
        return self._each(world, self._together(inputs), lambda e: [e.value[0]] if e.value[1] else [])


@dataclass
class World:
    """What the sources have, what is known of the streams made of them, and at which pushes something failed."""

    sources: dict[StreamMeaning, list[Happened]]
    known: dict[StreamMeaning, list[Happened]] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)


def _numbered(events: Sequence[Happened]) -> list[tuple[Happened, int]]:
    """Each event with its number among those of its key."""
    seen: Counter[Any] = Counter()
    out = []
    for e in events:
        out.append((e, seen[e.key]))
        seen[e.key] += 1
    return out


def meant_outputs(
    sources: dict[str, tuple[StreamMeaning, Type]], outputs: dict[str, StreamMeaning], pushes: Sequence[dict[str, Any]]
) -> tuple[dict[str, list[Happened]], int | None]:
    """The events of all outputs, and the push at which the pipeline fails, if it does."""
    came = {
        source: [Happened(i, None, _of(t, push[name])) for i, push in enumerate(pushes) if name in push]
        for name, (source, t) in sources.items()
    }
    world = World(came)
    found = {name: stream.events_in(world) for name, stream in outputs.items()}
    return found, min(world.failed, default=None)


# ---------------------------------------------------------------- a stream and its meant


class Judged:
    """A stream, and what it means."""

    def __init__(self, stream: Stream[Any], meaning: StreamMeaning) -> None:
        self.stream, self.meaning = stream, meaning
        self.type, self._step = stream.type, stream._step

    @classmethod
    def source(cls, stream: Stream[Any]) -> Judged:
        """One that comes from outside."""
        return cls(stream, StreamMeaning("source"))

    def _made(self, stream: Stream[Any], made: str, *others: Judged, **by: Any) -> Judged:
        return Judged(
            stream, StreamMeaning(made, (self.meaning, *(o.meaning for o in others)), {"type": stream.type} | by)
        )

    def map(self, f: Any, to: Any = None) -> Judged:
        return self._made(self.stream.map(f, to=to), "map", f=f)

    def filter(self, by: Any) -> Judged:
        if isinstance(by, Judged):
            return self._made(self.stream.filter(by.stream), "filter_by", by)
        return self._made(self.stream.filter(by), "filter", f=by)

    def key_by(self, f: Any) -> Judged:
        made = self.stream.key_by(f)
        return self._made(made, "key_by", f=f, key=made._step.key)

    def forget(self, *, after: int) -> Judged:
        by = {**self.meaning.by, "after": after}
        return Judged(self.stream.forget(after=after), StreamMeaning("forget", self.meaning.inputs, by))

    def cumulate(self, f: Any, start: Any) -> Judged:
        return self._made(self.stream.cumulate(f, start), "cumulate", f=f, start=start)

    def task(self, f: Any, initial: Any) -> Judged:
        made = self.stream.task(f, initial)
        return self._made(made, "task", f=f, start=initial, state=made._step.state)

    def explode(self, f: Any, *, beside: bool = False) -> Judged:
        return self._made(self.stream.explode(f, beside=beside), "explode", f=f, beside=beside)

    def decimate(self, k: int) -> Judged:
        return self._made(self.stream.decimate(k), "decimate", k=k)

    def take(self, k: int) -> Judged:
        return self._made(self.stream.take(k), "take", k=k)

    def trim(self, k: int) -> Judged:
        return self._made(self.stream.trim(k), "trim", k=k)

    def lag(self, k: int) -> Judged:
        return self._made(self.stream.lag(k), "lag", k=k)

    def window(self, k: int, inner: Callable[[Judged], Judged]) -> Judged:
        made: list[Judged] = []

        def build(w: Stream[Any]) -> Stream[Any]:
            made[:] = [Judged.source(w)]
            made.append(inner(made[0]))
            return made[-1].stream

        stream = self.stream.window(k, build)
        return self._made(stream, "window", k=k, hole=made[0].meaning, inner=made[-1].meaning)

    @staticmethod
    def apply(f: Any, *streams: Judged, to: Any = None) -> Judged:
        return streams[0]._made(apply(f, *(s.stream for s in streams), to=to), "apply", *streams[1:], f=f)

    @staticmethod
    def merge(*streams: Judged) -> Judged:
        return streams[0]._made(merge(*(s.stream for s in streams)), "merge", *streams[1:])
