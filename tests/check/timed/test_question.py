"""Questions by event time: which events are made up, what is refused, and how a run is shown, told and tested."""

from __future__ import annotations

import enum
import json
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest

from pellucid import Mod, Stream, check, join, merge, pipeline
from pellucid.check.timed.machine import Ends, Finish, Inputs, Rows, Silent, TimedMachine, usual_times
from pellucid.errors import UsageError


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
