"""What timed steps hold: no run holds more than is said, and one holds as much."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pellucid import Stream, as_of, check, join, lookup, pipeline
from pellucid.check.timed.machine import Inputs, Rows, TimedMachine
from pellucid.errors import UsageError
from pellucid.internal.model import Search


def count(w: Stream[int]) -> Stream[int]:
    return w.cumulate(lambda n, v: n + 1, start=0)


def both(x: Stream[int], y: Stream[int]) -> tuple[Any, Any]:
    return x.at(lambda v: v, lateness=1), y.at(lambda v: v)


PIPELINES = {
    "join": (pipeline(lambda x, y: join(*both(x, y), within=(-1, 2), late="drop", id="w"), x=int, y=int), 1),
    "as_of": (pipeline(lambda x, y: as_of(*both(x, y), late="drop", id="w"), x=int, y=int), 1),
    "tumbling": (pipeline(lambda x: x.at(lambda v: v, lateness=2).tumbling(3, count, late="drop", id="w"), x=int), 0),
    "corrected": (pipeline(lambda x: x.at(lambda v: v, lateness=1).tumbling(
        2, count, late="drop", allowed_lateness=2, id="w"), x=int), 0),
    "sliding": (pipeline(lambda x: x.at(lambda v: v, lateness=1).sliding(4, 2, count, late="drop", id="w"), x=int), 0),
    "dedup": (pipeline(lambda x: x.at(lambda v: v, lateness=2).dedup(within=1, late="drop", id="w"), x=int), 0),
}  # fmt: skip


def spans(kind: str, state: Any) -> dict[str, list[int]]:
    """The times of what the literal engine holds."""
    if kind == "join":
        return {name: [w.item.at for w in side] for name, side in zip(("w.left", "w.right"), state, strict=True)}
    if kind == "as_of":
        waiting, changes = state
        return {"w.left": [a.at for a in waiting], "w.right": [b.at for b in changes]}
    if kind == "dedup":
        return {"w": [item.at for item, _ in state[0]]}
    return {"w": [time for events in state[0].values() for time, _ in events]}


@pytest.mark.parametrize("kind", list(PIPELINES))
def test_a_span_is_exact(kind: str) -> None:
    p, skew = PIPELINES[kind]
    bounds = check.buffers(p, skew=skew).details["bounds"]
    inputs = Inputs.of(p.graph, times=range(8), pushes=99)
    machine = TimedMachine(p.graph, inputs)
    most = dict.fromkeys(bounds, 0)

    def steps(at: Any) -> Any:
        for move, pushed in machine.moves(at):
            if isinstance(move, Rows):
                ((source, event),) = move.rows
                seen = dict(at.greatest)
                mine = p.graph.nodes[
                    next(
                        i
                        for i, n in enumerate(p.graph.nodes)
                        if n.kind == "at" and p.graph.nodes[n.inputs[0]].id == source
                    )
                ].id
                if event <= seen.get(mine, -1):
                    continue  # each time once, and in order: what is held does not depend on more
                greatest = {**seen, mine: event}
                known = list(greatest.values())
                if len(inputs.events) > 1 and (max(known) - min(known) > skew or (len(known) < 2 and event > 0)):
                    continue
                then, _ = machine.take(at, move, min(pushed, 1))
                yield move, then

    for at, _ in Search([machine.start()], steps):
        for side, times in spans(kind, at.engine.state.get(p.graph.position["w"], _nothing(kind))).items():
            if kind == "as_of" and side == "w.right":
                now = [at.engine.clocks.now(i, p.graph.position["w"]) for i in p.graph["w"].inputs]
                times = [t for t in times if t > min(now)]  # beside the last one before
            most[side] = max(most[side], max(times) - min(times) if times else 0)
    assert most == bounds


def _nothing(kind: str) -> Any:
    return [[], []] if kind == "join" else ([], []) if kind in ("as_of", "dedup") else ({}, set())


def test_what_no_lateness_bounds_is_refuted_by_name() -> None:
    session = pipeline(lambda x: x.at(lambda v: v).session(3, count, id="visits"), x=int)
    found = check.buffers(session)
    assert found.refuted and found.notes == (
        "visits: a session goes on for as long as events come: no lateness bounds it",
    )
    assert found.counterexample is not None and len(found.counterexample.steps) == 3
    found = check.buffers(PIPELINES["join"][0])
    assert found.refuted and "one source may be any time ahead of another (x, y): say skew=" in found.notes[0]


def test_a_join_of_a_stream_with_itself_needs_no_skew() -> None:
    def near(x: Stream[int]):  # type: ignore[no-untyped-def]
        a = x.at(lambda v: v, lateness=2)
        return join(a.filter(lambda v: v > 1), a, within=3, id="near")

    assert check.buffers(pipeline(near, x=int)).details["bounds"] == {"near.left": 5, "near.right": 5}


def test_how_many_events_that_are() -> None:
    p = PIPELINES["join"][0]
    assert (
        check.buffers(p, skew=1, rate=2).notes[0]
        == "w.left holds events that are at most 3 apart, at most 8 of each key"
    )
    assert check.buffers(p, skew=1, rate=(3, 2)).notes[0].endswith("at most 6 of each key")


def test_a_table_holds_its_last_row_of_each_key() -> None:
    def priced(x: Stream[int], y: Stream[int]):  # type: ignore[no-untyped-def]
        a, b = x.at(lambda v: v).key_by(lambda v: 0), y.at(lambda v: v, idle=timedelta(1)).key_by(lambda v: 0)
        return lookup(a, b, id="price")

    found = check.buffers(pipeline(priced, x=int, y=int), skew=2)
    assert found.proved and "the last one before them of each key" in found.notes[1]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"skew": timedelta(1)}, "skew= must be an int, as the times of this stream are ints"),
        ({"skew": -1}, "skew= must be at least 0, found -1"),
        ({"rate": 0}, r"rate= takes how many events of a key may come at one time, or \(number, length of time\)"),
        ({"rate": (1, 0)}, "rate= must be positive, found 0"),
    ],
)
def test_wrong_words(said: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check.buffers(PIPELINES["join"][0], **said)
