"""Questions by event time: which events are made up, what is refused, and how a run is shown, told and tested."""

from __future__ import annotations

import enum
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import pytest

from pellucid import Mod, Stream, as_of, check, join, lookup, merge, pipeline
from pellucid.check.timed.compare import Moved
from pellucid.check.timed.machine import (
    Ends,
    Finish,
    Inputs,
    Rows,
    Silent,
    TimedMachine,
    frozen,
    frozen_engine,
    usual_times,
)
from pellucid.errors import UsageError
from pellucid.internal.model import Search


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Seen(NamedTuple):
    colour: Colour
    when: datetime | None
    many: int
    name: str


def count(w: Stream[Any]) -> Stream[int]:
    return w.cumulate(lambda n, v: n + 1, start=0)


minutes = pipeline(lambda x: x.at(lambda v: v, lateness=10).tumbling(60, count, late="drop", id="minutes"), x=int)
wider = pipeline(lambda x: x.at(lambda v: v, lateness=11).tumbling(60, count, late="drop", id="minutes"), x=int)
strict = pipeline(lambda x: x.at(lambda v: v).tumbling(60, count, id="minutes"), x=int)
hours = pipeline(lambda x: x.at("when").tumbling(timedelta(hours=1), count, late="drop"), x=Seen)
two = pipeline(
    lambda x, y: merge(x.at(lambda v: v, idle=timedelta(1)), y.at(lambda v: v)).tumbling(9, count, late="drop"),
    x=int, y=int)  # fmt: skip


def test_times_are_those_at_which_something_can_change() -> None:
    assert usual_times(minutes.graph) == [0, 59, 60, 61, 70, 71]
    near = pipeline(lambda x, y: join(x.at(lambda v: v), y.at(lambda v: v), within=(-2, 30)), x=int, y=int)
    assert usual_times(near.graph) == [0, 2, 29, 30, 31]  # too many to have all: around the greatest


def test_events_are_made_up_of_small_values_and_what_was_left_out_is_said() -> None:
    inputs = Inputs.of(hours.graph, times=[timedelta(0), timedelta(hours=1)])
    assert len(inputs.events["x"]) == 16 and all(e.when is not None for e in inputs.events["x"])
    assert inputs.notes() == (
        "say which values of x.many, x.name are meant, with ints= (whole numbers) or events=",
        "events of x: colour RED, BLUE; when.there True; when 1970-01-01 00:00:00, 1970-01-01 01:00:00; many 0, 1; "
        "name 'a', 'b'",
    )
    few = Inputs.of(hours.graph, times=[timedelta(hours=h) for h in range(6)])
    assert len(few.events["x"]) == 24
    assert few.picked == ("x.many", "x.name") and "with picked values of x.many, x.name" in few.bound()
    assert few.notes()[2] == "only one value of name was tried: say events=[…] to have others"


def test_what_can_happen() -> None:
    inputs = Inputs.of(two.graph, times=[0, 9], pushes=2, batch=2)
    moves = [move for move, _ in inputs.moves(1, frozenset(), frozenset())]
    assert moves.count(Finish()) == 1 and Silent("x") in moves and Silent("y") not in moves
    assert Ends("x") in moves and Ends("y") in moves
    assert len([m for m in moves if isinstance(m, Rows)]) == 4  # one more
    assert len([m for m, _ in inputs.moves(0, frozenset(), frozenset()) if isinstance(m, Rows)]) == 4 + 16
    ended = [m for m, _ in inputs.moves(1, frozenset(), frozenset({"x"}))]
    assert Rows((("x", 0),)) not in ended and Silent("x") not in ended and Ends("y") not in ended
    assert str(Rows((("x", 0), ("y", 9)))) == "x 0; y 9" and str(Ends("x")) == "x ends"


def test_states_are_one_whatever_the_order_of_arrival() -> None:
    machine = TimedMachine(minutes.graph, Inputs.of(minutes.graph))
    exact = TimedMachine(minutes.graph, Inputs.of(minutes.graph), exact=True)
    for one, same in ((machine, True), (exact, False)):
        ends = []
        for events in ((70, 71, 61), (61, 70, 71), (70, 61, 71)):
            at = one.start()
            for n, event in enumerate(events):
                at, _ = one.take(at, Rows((("x", event),)), n + 1)
            ends.append(at)
        assert (len(set(ends)) == 1) == same


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: check.times(3), "check.times wants a pipeline as p, found 3"),
        (lambda: check.times(pipeline(lambda x: x, x=int)), "does not work by event time, so it has no promises"),
        (lambda: check.times(minutes, about="onse"), "about='onse': the promises are clock, .*did you mean 'once'"),
        (lambda: check.times(minutes, about=()), "about= takes names of promises"),
        (lambda: check.times(minutes, pushes=0), "pushes= takes a whole number of at least 1, found 0"),
        (lambda: check.times(minutes, batch=True), "batch= takes a whole number of at least 1, found True"),
        (lambda: check.times(minutes, timeout=0), "timeout= takes a number of seconds above 0"),
        (lambda: check.times(minutes, max_states=0), "max_states= takes a whole number of at least 1"),
        (lambda: check.times(minutes, times=[]), "times= is empty"),
        (lambda: check.times(minutes, times="9"), "times= takes a list of times, or a range, found '9'"),
        (lambda: check.times(minutes, times=[datetime(2024, 1, 1)]), "times= takes ints, as the times of this"),
        (lambda: check.times(hours, times=[3]), "times= takes datetimes, or timedeltas from 1970-01-01 on"),
        (lambda: check.times(minutes, ints=Mod(4)), r"ints=Mod\(N\) does not go with event time"),
        (lambda: check.times(minutes, events=[1], times=[2]), "events= lists the events: ints= and times= do not go"),
        (lambda: check.times(minutes, events=[]), "events= of x is empty"),
        (lambda: check.times(minutes, events=["a"]), "events= of x: expected int, found str 'a'"),
        (lambda: check.times(minutes, events=7), "events= takes a list of events for x, found 7"),
        (lambda: check.times(two, events=[1]), r"events= takes a list of events for each source, as in events=\{'x': "),
        (lambda: check.times(pipeline(lambda x: x.at(lambda v: v * 60), x=int)), "which of its fields an event's time"),
        (lambda: check.equivalent(minutes, pipeline(lambda x: x, x=int)), "does not work by event time, and the other"),
        (lambda: check.equivalent(minutes, two), "has 1 sources, and .* 2: they cannot be compared"),
        (lambda: check.equivalent(minutes, hours), "they cannot be compared"),
        (lambda: check.equivalent(minutes, minutes, how="paper"), "how='paper' compares sequences without times"),
        (lambda: check.equivalent(minutes, minutes, arrival="late"), "arrival= takes 'any' or 'in time', found 'late'"),
        (lambda: check.equivalent(minutes, minutes, tims=[1]), "check.equivalent has no argument 'tims': did you mean"),
        (lambda: check.live(minutes), "works by event time, which check.live does not know yet"),
        (lambda: check.holds(minutes, "out"), r"out speaks of one step only: write G \(out\) for every step"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_by_name(call: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        call()


def test_what_is_not_reached_is_unknown() -> None:
    found = check.times(minutes, max_states=50)
    assert found.unknown and not found
    assert "the limit of 50 states was reached; all runs of at most" in found.notes[0]
    assert check.equivalent(minutes, wider, max_states=5).unknown
    assert check.holds(minutes, "G !failed", max_states=5).unknown


def test_a_late_event_that_nothing_was_said_about_is_an_observation() -> None:
    found = check.holds(strict, "G !failed", times=[0, 60])
    assert found.refuted and found.counterexample is not None
    assert found.counterexample.inputs == [{"x": [60]}, {"x": [0]}]
    assert "fails" in str(found) and found.counterexample.replay()
    assert check.holds(strict, "G !failed", times=[0, 60], arrival="in time").bounded


TABLE = """\
batch              0   1  2
                          the end
x                  60  0  -
out                -   -  (start=60, end=120, value=1)
late for minutes   -   0  -
clock              60     over
                          ^ here"""


def test_a_run_is_a_table_with_times_a_document_and_a_test() -> None:
    dropped = pipeline(lambda x: x.at(lambda v: v).tumbling(60, count, late="drop", id="minutes"), x=int)
    found = check.holds(dropped, "G (out -> out.value.start < 60)", events=[60, 0])
    example = found.counterexample
    assert found.refuted and example is not None and len(example.steps) == 2
    example = type(example)(example.graphs, (*example.steps[:1], Rows((("x", 0),)), Finish()), None, "here")
    assert [line.split() for line in example.text(width=100).splitlines()] == [s.split() for s in TABLE.splitlines()]
    document = json.loads(example.to_json())["counterexample"]
    assert [step["move"] for step in document["steps"]] == ["x 60", "x 0", "the end"]
    assert document["steps"][1]["late"] == {"minutes": [0]} and document["steps"][2]["clock"] != {}
    assert "<svg" in example.picture("G …")
    text = example.as_pytest("G …", file="shop.minutes", name="minutes")
    assert "engine = minutes.engine()" in text and "assert engine.push([0]) == []" in text
    assert "assert engine.finish() == [Windowed(start=60, end=120, value=1)]" in text


def test_values_that_nobody_meant_prove_nothing() -> None:
    """A threshold that the picked values never reach: of those two no run differs, and yet they are not the same."""

    def over(f: Any) -> Any:
        return pipeline(
            lambda x: x.at(lambda e: e[0]).tumbling(10, lambda w: w.cumulate(f, start=0), late="drop")
            .filter(lambda w: w.value > 100), x=tuple[int, int],
        )  # fmt: skip

    total, most = over(lambda s, e: s + e[1]), over(lambda s, e: max(s, e[1]))
    for more in ({"pushes": 2}, {"pushes": None, "times": [-5, 0, 5]}):
        found = check.equivalent(total, most, **more)
        assert found.bounded and "with picked values of x.1" in found.bound, found
        assert any("say which values of x.1 are meant" in note for note in found.notes), found.notes
        assert any("0, 1" in note for note in found.notes), found.notes
    assert check.equivalent(total, most, pushes=2, ints=[0, 60]).refuted
    assert check.equivalent(total, total, pushes=2, ints=[0, 60]).proved
    assert check.holds(total, "G (out -> out.value.value > 1000)", pushes=2).bounded


def test_what_a_task_puts_out_stays_in_its_order_for_who_follows() -> None:
    """Behind a task that is told of times, a step by arrival sees one order, whatever came first."""

    def heard(n, v):  # type: ignore[no-untyped-def]
        return n + v, [n * 2 + v, 7], [v + 1]

    def told(n, _):  # type: ignore[no-untyped-def]
        return n + 1, [-n, n + 3], []

    task = pipeline(
        lambda x: (
            x.at(lambda v: v, lateness=1)
            .task(heard, 0, on_time=told, late="drop")
            .cumulate(lambda s, v: s * 3 + v, start=0)
        ),
        x=int,
    )
    found = check.times(task, times=[0, 1, 2], pushes=3)
    assert found.bounded and {part.status for part in found.parts.values()} == {"bounded"}, found


# A bound is no proof: what differs only beyond it is never *proved*, and what no run within it reaches is said.

TEN = timedelta(minutes=10)


class Payment(NamedTuple):
    ts: datetime
    card: str
    cents: int = 0


class Sale(NamedTuple):
    t: int
    cents: int


def total(w: Stream[Sale]) -> Stream[int]:
    return w.cumulate(lambda s, v: s + v.cents, start=0)


def timed(build: Any, lateness: int = 0, of: Any = int, at: Any = lambda v: v) -> Any:
    return pipeline(lambda x: build(x.at(at, lateness=lateness)), x=of)


def counts(keep: Any) -> Any:
    return timed(lambda x: x.tumbling(10, count, late="drop").filter(keep))


def alerts(least: int) -> Any:
    return pipeline(
        lambda x: x.at("ts", lateness=TEN).key_by("card").tumbling(TEN, count).filter(lambda w: w.value > least),
        x=Payment,
    )


def values(w: Any) -> Any:
    return w.map(lambda a: a.value)


def beside(build: Any) -> Any:
    return pipeline(lambda x, y: build(x.at(lambda v: v), y.at(lambda v: v)), x=int, y=int)


def told(after: int) -> Any:
    def heard(n: int, v: int) -> tuple[int, list[int], list[int]]:
        return n + 1, [], [v + 1]

    def due(n: int, t: int) -> tuple[int, list[int], list[int]]:
        return n, [n] if n > after else [], []

    return timed(lambda x: x.task(heard, 0, on_time=due, late="drop"))


MINUTES = [Payment(datetime(2026, 1, 1, 0, m), "a") for m in (0, 3, 6, 9)]
#: Two pipelines, what is asked of too little, and what of enough for their difference.
PAIRS: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {
    "another threshold": (alerts(3), alerts(5), {"events": MINUTES}, {"events": MINUTES[:1], "pushes": 4}),
    "a count that is capped": (
        timed(lambda x: x.tumbling(10, lambda w: count(w).map(lambda n: min(n, 3)), late="drop")),
        timed(lambda x: x.tumbling(10, count, late="drop")), {"times": [0, 10]}, {"times": [0], "pushes": 4},
    ),
    "another size of windows": (
        timed(lambda x: values(x.tumbling(10, count, late="drop"))),
        timed(lambda x: values(x.tumbling(20, count, late="drop"))), {"events": [0, 5]}, {"events": [0, 15]},
    ),
    "every fifth, every sixth": (
        timed(lambda x: x.decimate(4)), timed(lambda x: x.decimate(5)), {"times": [0]}, {"times": [0], "pushes": 5},
    ),
    "without three, without four": (
        timed(lambda x: x.trim(3)), timed(lambda x: x.trim(4)), {"times": [0, 1]}, {"times": [0], "pushes": 4},
    ),
    "events that are late for one": (
        timed(lambda x: x.tumbling(5, count, late="drop"), 10), timed(lambda x: x.tumbling(5, count, late="drop"), 12),
        {"events": [0, 10]}, {"events": [0, 16]},
    ),
    "another gap of sessions": (
        timed(lambda x: values(x.session(5, count, late="drop"))),
        timed(lambda x: values(x.session(7, count, late="drop"))), {"events": [0, 4]}, {"events": [0, 6]},
    ),
    "doubles for longer": (
        timed(lambda x: x.dedup(by=lambda v: 0, within=5, late="drop")),
        timed(lambda x: x.dedup(by=lambda v: 0, within=8, late="drop")), {"events": [0, 3]}, {"events": [0, 7]},
    ),
    "a wider join": (
        beside(lambda a, b: join(a, b, within=5)), beside(lambda a, b: join(a, b, within=9)),
        {"events": {"x": [0], "y": [0, 3]}}, {"events": {"x": [0], "y": [7]}},
    ),
    "an older partner": (
        beside(lambda a, b: as_of(a, b, within=5)), beside(lambda a, b: as_of(a, b, within=9)),
        {"events": {"x": [3], "y": [0, 3]}}, {"events": {"x": [7], "y": [0]}},
    ),
    "a sum over a hundred": (
        timed(lambda x: x.tumbling(10, total, late="drop").filter(lambda w: w.value > 100), of=Sale, at="t"),
        timed(lambda x: x.tumbling(10, total, late="drop").filter(lambda w: w.value > 150), of=Sale, at="t"),
        {"times": [0]}, {"times": [0], "ints": [120]},
    ),
    "a sum of what was said": (
        timed(lambda x: x.tumbling(10, total, late="drop").filter(lambda w: w.value > 100), of=Sale, at="t"),
        timed(lambda x: x.tumbling(10, total, late="drop").filter(lambda w: w.value > 150), of=Sale, at="t"),
        {"times": [0], "ints": [30]}, {"times": [0], "ints": [30], "pushes": 4},
    ),
    "a name that nobody picked": (
        pipeline(lambda x: x.at("ts").filter(lambda p: p.card != "gold"), x=Payment),
        pipeline(lambda x: x.at("ts").filter(lambda p: p.card != "silver"), x=Payment),
        {}, {"events": [Payment(datetime(2026, 1, 1), "gold")]},
    ),
    "a task that is told of times": (told(3), told(4), {"times": [0]}, {"times": [0], "pushes": 4}),
    "more at one time": (
        timed(lambda x: x.tumbling(2, lambda w: count(w).map(lambda n: min(n, 3)), late="drop")),
        timed(lambda x: x.tumbling(2, count, late="drop")), {"pushes": None, "times": range(-2, 4)},
        {"pushes": None, "times": range(-2, 4), "rate": 2},
    ),
    "times between the times": (
        timed(lambda x: x.tumbling(10, count, late="drop"), 0), timed(lambda x: x.tumbling(10, count, late="drop"), 1),
        {"pushes": None, "times": [15], "rate": 1}, {"pushes": None, "times": range(-2, 12), "rate": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("pair", list(PAIRS))
@pytest.mark.parametrize("how", ["step", "sequence"])
def test_what_differs_beyond_the_bound_is_not_proved(pair: str, how: str) -> None:
    a, b, little, enough = PAIRS[pair]
    if how == "sequence" and (little.get("pushes", 0) is None or pair == "events that are late for one"):
        return  # runs of any length are asked step by step; both of the late ones have all events in the end
    found = check.equivalent(a, b, how=how, **little)
    assert found.bounded and not found and found.bound in str(found).splitlines()[0], found
    assert check.equivalent(a, b, how=how, **enough).refuted


def _counts(least: int) -> Any:
    return pipeline(lambda x: x.cumulate(lambda n, v: n + 1, start=0).filter(lambda n: n > least), x=int)


def _called(limit: int) -> Any:
    return pipeline(lambda x: x.map(lambda v: hash(v) if v < limit else 0, to=int), x=int)


#: Without times: what differs only after many events, for the 65th key, or at a value that nobody tries.
BEYOND: dict[str, Any] = {
    "the 101st event": lambda: check.equivalent(_counts(100), _counts(200)),
    "the 65th of a key": lambda: check.holds(
        pipeline(lambda x: x.key_by(lambda v: v).cumulate(lambda n, v: n + 1, start=0), x=int),
        "G (out -> out.value < 65)", timeout=3,
    ),
    "the 65th key": lambda: check.holds(
        pipeline(lambda x: x.key_by(lambda v: v).trim(1).filter(lambda v: v == 64), x=int), "G !out"
    ),
    "a moment": lambda: check.holds(
        pipeline(lambda t: t.filter(lambda at: at > datetime(2035, 1, 1)), t=datetime), "G !out"
    ),
    "the 5,000th argument": lambda: check.equivalent(_called(4999), _called(10**9), ints=range(5000), timeout=5),
}  # fmt: skip


@pytest.mark.parametrize("case", list(BEYOND))
def test_without_times_what_is_beyond_is_not_proved_either(case: str) -> None:
    verdict = BEYOND[case]()
    assert not verdict and not verdict.bounded
    assert verdict.refuted == (case in ("the 101st event", "the 65th key", "a moment"))


# What timed steps hold: no run holds more than is said, and one holds as much.


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


# Runs of any length: states that are moved in time go on alike; proofs and refutations as bounded searches say.


class Reading(NamedTuple):
    t: int
    v: int


def most(w: Stream[Reading]) -> Stream[int]:
    return w.cumulate(lambda m, e: max(m, e.v), start=0)


def windows(sub: Any = count, size: int = 2, every: int = 2, lateness: int = 1, of: Any = int, when: Any = None) -> Any:
    at = when or (lambda v: v)
    return pipeline(lambda x: x.at(at, lateness=lateness).sliding(size, every, sub, late="drop", id="w"), x=of)


def _both(w: Any) -> Any:
    return {"out": w, "so far": w.early}


def _near(a: Any) -> Any:
    return join(a.filter(lambda v: True), a, within=1, how="left", late="drop")


SHAPES = {
    "tumbling": windows(),
    "sliding": windows(size=4),
    "early": pipeline(lambda x: _both(x.at(lambda v: v).tumbling(2, count, late="drop", early=3)), x=int),
    "corrected": pipeline(lambda x: x.at(lambda v: v).tumbling(2, count, late="drop", allowed_lateness=2), x=int),
    "sessions": pipeline(lambda x: x.at(lambda v: v, lateness=1).session(1, count, late="drop"), x=int),
    "dedup": pipeline(lambda x: x.at(lambda v: v).dedup(by=lambda v: 0, within=2, late="drop"), x=int),
    "join": pipeline(lambda x: _near(x.at(lambda v: v, lateness=1)), x=int),
    "windows of windows": pipeline(lambda x: x.at(lambda v: v).tumbling(2, count, late="drop").tumbling(
        4, lambda w: w.map(lambda a: a.value), late="drop"), x=int),
}  # fmt: skip


@pytest.mark.parametrize("shape", list(SHAPES))
def test_a_state_that_is_moved_goes_on_alike(shape: str) -> None:
    """Moving the state and then the event is as moving what comes of both: drawn runs, and all that is seen of them."""
    graph, rng = SHAPES[shape].graph, random.Random(3)
    moved, machine = Moved(graph), TimedMachine(graph, Inputs({"x": ()}, 99, 1, ()))
    by = moved.period * 5
    for _ in range(12):
        here, there, time = machine.start(), machine.start(), 0
        for n in range(6):
            time += rng.choice((-2, 0, 1, 2, 3))
            here, seen = machine.take(here, Rows((("x", time),)), n)
            there, also = machine.take(there, Rows((("x", time + by),)), n)
            assert {k: len(v) for k, v in seen.outputs.items()} == {k: len(v) for k, v in also.outputs.items()}
            same = machine.take(here, Rows((("x", time),)), n)[0].engine
            moved.engine(same, by)
            other = machine.take(there, Rows((("x", time + by),)), n)[0].engine
            assert frozen_engine(same) == frozen_engine(other)
        assert frozen(seen.outputs) != frozen(also.outputs) or not any(seen.outputs.values())


def test_a_refactoring_is_proved_of_all_runs_that_were_said() -> None:
    tumbling = pipeline(lambda x: x.at(lambda v: v, lateness=1).tumbling(2, count, late="drop"), x=int)
    found = check.equivalent(windows(), tumbling, pushes=None, times=range(-2, 4), rate=2)
    assert found.proved and found.details["states"] == 37, found
    assert (
        "in all runs of any length, one event in a batch, with events -2 to 3 after the greatest time so far, at most 2"
        in found.question
    )
    assert found.notes[0].startswith("no function looks at the time of an event, so states that are 2 apart are alike")
    unsaid = check.equivalent(windows(), tumbling, pushes=None, times=range(-2, 4))
    assert unsaid.bounded and unsaid.bound.endswith("so far, each time once"), unsaid  # nobody said rate=


def test_what_shows_only_in_full_windows_is_found() -> None:
    """Four events of one window, and a fifth that completes it: no bound on the run was needed, but on its rate."""
    few = windows(lambda w: count(w).map(lambda n: min(n, 3)))
    assert check.equivalent(windows(), few, pushes=None, times=range(-2, 4)).bounded
    assert check.equivalent(windows(), few, pushes=None, times=range(-2, 4), rate=1).proved  # as was said
    found = check.equivalent(windows(), few, pushes=None, times=range(-2, 4), rate=2)
    assert found.refuted and found.counterexample is not None and found.counterexample.replay()
    assert len(found.counterexample.steps) == 5
    assert check.equivalent(windows(), few, pushes=3, times=range(4)).bounded  # it is too short a run


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (windows(), windows(size=4)),
        (windows(), windows(lateness=2)),
        (windows(size=4, every=2), windows(size=4, every=4)),
    ],
)
def test_what_differs_is_refuted_as_in_short_runs(one: Any, other: Any) -> None:
    found = check.equivalent(one, other, pushes=None, times=range(-2, 4))
    short = check.equivalent(one, other, pushes=3, times=range(-3, 7))
    assert found.refuted and short.refuted
    assert found.counterexample is not None and short.counterexample is not None
    assert len(found.counterexample.steps) == len(short.counterexample.steps)
    assert found.counterexample.replay()


def test_records_and_hours() -> None:
    hour = timedelta(hours=1)
    kinds = [windows(most, of=Reading, when=lambda e: e.t), windows(most, of=Reading, when="t")]
    assert check.equivalent(*kinds, pushes=None, times=range(-1, 3), ints=range(2), rate=1).proved

    def hourly(x: Any) -> Any:
        return x.at(lambda t: t).tumbling(hour, count, late="drop")

    def gliding(x: Any) -> Any:
        return x.at(lambda t: t).sliding(hour, hour, count, late="drop")

    p, q = pipeline(hourly, x=datetime), pipeline(gliding, x=datetime)
    found = check.equivalent(p, q, pushes=None, times=[-hour, hour / 2, hour], rate=1)
    assert found.bounded and "1 h apart" in found.notes[0] and "the first at a multiple of 30 min" in found.bound


def two_sources(x: Any, y: Any) -> Any:
    return join(x.at(lambda v: v), y.at(lambda v: v), within=1)


def daily(x: Any) -> Any:
    return x.at(lambda t: t).tumbling(timedelta(days=1), count, tz="Europe/Berlin")


@pytest.mark.parametrize(
    ("p", "said", "why"),
    [
        (windows(lambda w: w.cumulate(lambda t, v: t + v, start=0)), {}, r"cumulate t \+ v.* looks at the time of an"),
        (pipeline(lambda x: x.at(lambda v: v).trim(1).tumbling(2, count), x=int), {}, r"\(trim, .* remembers"),
        (pipeline(lambda x: x.filter(lambda v: v > 3).at(lambda v: v), x=int), {}, "filter.* looks at the time"),
        (
            pipeline(two_sources, x=int, y=int),
            {},
            "two_sources has several sources, of which one may be any time ahead",
        ),
        (pipeline(daily, x=Annotated[datetime, UTC]), {"times": [timedelta(1)]}, "days of a time zone"),
        (windows(), {"times": None}, "pushes=None: say times=, how far an event may be from the greatest time"),
        (windows(), {"times": [0, -1]}, "none of times= is after the greatest time so far"),
        (windows(), {"how": "sequence"}, "pushes=None, runs of any length, goes with how='step'"),
        (windows(), {"rate": 0}, "rate= takes how many events may come at one time, found 0"),
        (windows(), {"rate": 2, "pushes": 3}, "rate= is of runs of any length: give pushes=None as well"),
    ],
)
def test_what_cannot_be_asked_is_refused(p: Any, said: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check.equivalent(p, p, **{"pushes": None, "times": range(-1, 3), **said})
