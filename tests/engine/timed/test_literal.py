"""The literal meaning of event time: each rule at its edges, and what all runs keep."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from pellucid import IntOverflow, LateError, StepError, Stream, Windowed, as_of, join, lookup, merge, pipeline
from pellucid.errors import DataError, StateError
from pellucid.internal.engine.timed.literal import Literal, Row
from tests.seeds import seeds


class E(NamedTuple):
    t: int
    v: str = ""


def listed(w: Stream[Any]) -> Stream[str]:
    """The values of a window, in the order in which it sees them."""
    return w.cumulate(lambda text, e: text + e.v, start="")


def counted(w: Stream[Any]) -> Stream[int]:
    return w.cumulate(lambda n, _: n + 1, start=0)


def batches(p: Any, *parts: Sequence[Any], source: str = "x") -> list[list[Any]]:
    """What each batch of one source puts out, and the end."""
    run = Literal(p.graph)
    found = [run.batch([e if isinstance(e, Row) else Row(source, e) for e in part]) for part in parts]
    return [[i.value for i in out["out"]] for out in [*found, run.finish()]]


def one(build: Callable[..., Any], *parts: Sequence[Any], t: Any = int) -> list[list[Any]]:
    return batches(pipeline(build, x=t), *parts)


def short(windows: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [tuple(w) for w in windows]


# ---------------------------------------------------------------- fixed windows


def tens(x: Stream[int]) -> Any:
    return x.at(lambda v: v).tumbling(10, counted)


def test_a_window_is_out_when_the_clock_is_at_its_end_and_only_once() -> None:
    assert one(tens, [3], [9], [10], [11]) == [[], [], [Windowed(0, 10, 2)], [], [Windowed(10, 20, 2)]]


def test_an_event_is_judged_before_it_moves_the_clock() -> None:
    """In one batch 25 does not make 3 late; in the next one it does."""
    assert one(tens, [25, 3])[0] == [Windowed(0, 10, 1)]
    with pytest.raises(LateError):
        one(tens, [25], [3])


def test_a_windows_events_come_by_time_and_then_by_the_whole_event() -> None:
    p = pipeline(lambda x: x.at("t").tumbling(10, listed), x=E)
    events = [E(3, "b"), E(1, "z"), E(3, "a"), E(2, "y")]
    for order in itertools.permutations(events):
        assert batches(p, order)[-1] == [Windowed(0, 10, "zyab")]


def test_a_window_in_which_the_sub_pipeline_says_nothing_says_nothing() -> None:
    p = pipeline(lambda x: x.at(lambda v: v).tumbling(10, lambda w: w.trim(1)), x=int)
    assert p([1, 12, 13]) == [Windowed(10, 20, 13)]


def test_an_event_counts_in_its_open_windows_and_is_late_once_for_the_others() -> None:
    def p(x: Stream[int]) -> Any:
        w = x.at(lambda v: v).sliding(10, 2, counted, id="w")
        return w, w.late

    run = Literal(pipeline(p, x=int).graph)
    run.batch([Row("x", 14)])
    out = run.batch([Row("x", 7)])
    (late,) = out["out2"]
    assert tuple(late.value) == (7, 7, 14, -2, 14)  # [-2, 8) … [4, 14) are closed, [6, 16) is open
    assert run.late == {"w": 1}
    counts = {w.start: w.value for w in (i.value for i in run.finish()["out1"])}
    assert counts == {6: 2, 8: 1, 10: 1, 12: 1, 14: 1}


def test_answers_come_by_time_then_key_then_start() -> None:
    def p(x: Stream[E]) -> Any:
        return x.at("t").key_by(lambda e: e.v).sliding(4, 2, listed)

    found = pipeline(p, x=E)([E(5, "b"), E(1, "b"), E(5, "a")])
    assert short(found) == [(-2, 2, "b"), (0, 4, "b"), (2, 6, "a"), (2, 6, "b"), (4, 8, "a"), (4, 8, "b")]


def test_windows_of_windows() -> None:
    def p(x: Stream[int]) -> Any:
        fives = x.at(lambda v: v).tumbling(5, counted)
        return fives.tumbling(10, lambda w: w.cumulate(lambda most, e: max(most, e.value), start=0))

    assert one(p, [1, 7, 8], [10], [20]) == [[], [Windowed(0, 10, 2)], [Windowed(10, 20, 1)], [Windowed(20, 30, 1)]]


@pytest.mark.parametrize(
    ("time", "fine"), [(2**63 - 1, False), (2**63 - 8, True), (-(2**63), False), (-(2**63) + 8, True)]
)
def test_at_the_ends_of_64_bits_a_window_is_exact_or_an_error(time: int, fine: bool) -> None:
    p = pipeline(lambda x: x.at(lambda v: v).tumbling(7, counted), x=int)
    if fine:
        ((start, end, _),) = short(p([time]))
        assert start <= time < end and end - start == 7
    else:
        with pytest.raises(StepError, match=r"begins or ends outside 64 bits; leave such events out before"):
            p([time])


# ---------------------------------------------------------------- sessions


def visits(x: Stream[int]) -> Any:
    return x.at(lambda v: v).session(5, counted)


def test_a_session_is_closed_strictly_after_the_gap() -> None:
    assert one(visits, [1], [6]) == [[], [], [Windowed(1, 12, 2)]]  # at distance 5 they are together
    assert one(visits, [1], [7]) == [[], [Windowed(1, 7, 1)], [Windowed(7, 13, 1)]]


def test_an_event_between_two_sessions_makes_them_one() -> None:
    assert one(visits, [1, 9, 5])[-1] == [Windowed(1, 15, 3)]
    late = pipeline(lambda x: x.at(lambda v: v, lateness=9).session(5, counted), x=int)
    assert batches(late, [1, 9], [5]) == [[], [], [Windowed(1, 15, 3)]]


def test_an_event_before_the_clock_is_taken_only_inside_an_open_session() -> None:
    p = pipeline(lambda x: x.at(lambda v: v, lateness=1).session(5, counted), x=int)
    assert batches(p, [10], [15], [13]) == [[], [], [], [Windowed(10, 21, 3)]]  # the clock is at 14, inside
    with pytest.raises(LateError):  # before the session's first: nothing may begin before the clock
        batches(p, [10], [15], [9])
    with pytest.raises(LateError):  # the session from 10 is closed: 16 > 10 + 5
        batches(p, [10], [17], [14])
    assert batches(p, [10], [17], [16])[-1] == [Windowed(16, 23, 2)]  # at the clock: never late


def test_sessions_of_keys_are_apart() -> None:
    p = pipeline(lambda x: x.at("t").key_by(lambda e: e.v).session(5, listed), x=E)
    assert short(p([E(1, "a"), E(4, "b"), E(6, "a")])) == [(4, 10, "b"), (1, 12, "aa")]


def test_a_session_that_would_end_after_the_last_time_is_an_error() -> None:
    with pytest.raises(StepError, match="begins or ends outside 64 bits"):
        pipeline(visits, x=int)([2**63 - 6])
    assert pipeline(visits, x=int)([2**63 - 7])[0].end == 2**63 - 1


# ---------------------------------------------------------------- joins


class Two:
    """Two sources of events ``E``, batch by batch."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self.run = Literal(pipeline(build, a=E, b=E).graph)

    def __call__(self, *rows: tuple[str, int, str]) -> list[Any]:
        return self._shown(self.run.batch([Row(source, E(t, v)) for source, t, v in rows]))

    def end(self) -> list[Any]:
        return self._shown(self.run.finish())

    def _shown(self, out: dict[str, list[Any]]) -> list[Any]:
        pairs = [i.value for i in out["out"]]
        return [tuple(None if e.t is None else f"{e.t}{e.v}" for e in pair) for pair in pairs]


def joined(how: str = "inner", within: Any = 2, lateness: int = 0) -> Callable[..., Any]:
    def build(a: Stream[E], b: Stream[E]) -> Any:
        left, right = a.at("t", lateness=lateness), b.at("t", lateness=lateness)
        return join(left, right, within=within, how=how)

    return build


def test_a_pair_comes_when_its_second_event_does() -> None:
    run = Two(joined())
    assert run(("a", 1, "p"), ("a", 2, "q")) == []
    assert run(("b", 3, "r")) == [("1p", "3r"), ("2q", "3r")]
    assert run(("b", 5, "s")) == [] and run.end() == []


def test_both_ends_of_the_interval_count() -> None:
    run = Two(joined(within=(-1, 3)))
    assert run(("a", 10, "a"), *(("b", t, "") for t in range(8, 15))) == [("10a", f"{t}") for t in (9, 10, 11, 12, 13)]


def test_a_row_without_a_partner_comes_when_none_can_come_any_more() -> None:
    run = Two(joined("left"))
    assert run(("a", 1, "p")) == []
    assert run(("b", 3, "x")) == [("1p", "3x")]
    assert run(("a", 6, "q"), ("b", 8, "y")) == [("6q", "8y")]
    alone = Two(joined("left"))
    alone(("a", 1, "p"), ("b", 0, "o"))
    assert alone(("b", 4, "far")) == []  # 1 + 2 is before 4, but 0o was a partner
    gone = Two(joined("left"))
    gone(("a", 1, "p"), ("a", 2, "q"))
    assert gone(("b", 4, "x")) == [("2q", "4x"), ("1p", None)]  # a pair with its row, then what the clock completed


def test_a_full_join_has_the_lonely_of_both_sides() -> None:
    run = Two(joined("full"))
    assert run(("a", 1, "p"), ("b", 10, "x")) == [("1p", None)]
    assert run(("a", 20, "q")) == [(None, "10x")]
    assert run(("a", 30, "r"), ("b", 40, "y")) == [("20q", None), ("30r", None)]
    assert run.end() == [(None, "40y")]


def test_lonely_rows_of_one_time_come_left_before_right() -> None:
    def build(a: Stream[E], b: Stream[E]) -> Any:
        return join(a.at("t", lateness=9), b.at("t", lateness=9), within=(3, 3), how="full")

    run = Two(build)
    assert run(("b", 9, "b"), ("a", 3, "a")) == []
    assert run.end() == [("3a", None), (None, "9b")]  # both of time 6: 3 + 3 and 9 - 3


def test_pairs_are_of_one_key() -> None:
    def build(a: Stream[E], b: Stream[E]) -> Any:
        left, right = (s.at("t").key_by(lambda e: e.v) for s in (a, b))
        return join(left, right, within=5)

    assert Two(build)(("a", 1, "p"), ("b", 2, "q"), ("b", 3, "p")) == [("1p", "3p")]


def test_a_late_row_of_a_join_says_of_which_side_it_is() -> None:
    def build(a: Stream[E], b: Stream[E]) -> Any:
        found = join(a.at("t"), b.at("t"), within=2)
        return found, found.late

    run = Literal(pipeline(build, a=E, b=E).graph)
    run.batch([Row("a", E(10)), Row("b", E(10))])
    out = run.batch([Row("b", E(9, "b")), Row("a", E(8, "a"))])["out2"]
    assert [tuple(late.value) for late in out] == [
        ((E(None, None), E(9, "b")), 9, 10, None, None),  # type: ignore[arg-type]
        ((E(8, "a"), E(None, None)), 8, 10, None, None),  # type: ignore[arg-type]
    ]


def test_a_join_gives_up_rows_that_nobody_can_meet_any_more() -> None:
    run = Two(joined())
    for t in range(100):
        run(("a", t, ""), ("b", t, ""))
    ((a, b),) = run.run.state.values()
    assert len(a) == len(b) == 3


# ---------------------------------------------------------------- as-of, lookup, dedup


def latest(within: int | None = None, how: str = "left") -> Callable[..., Any]:
    return lambda a, b: as_of(a.at("t"), b.at("t"), within=within, how=how)


def test_the_latest_that_is_not_after_answers() -> None:
    run = Two(latest())
    assert run(("a", 5, "p"), ("b", 5, "x"), ("b", 3, "w")) == []  # another of time 5 may come
    assert run(("b", 6, "y")) == [("5p", "5x")]
    assert run(("a", 6, "q")) == [] and run.end() == [("6q", "6y")]


def test_of_equal_times_the_greatest_event_answers() -> None:
    for order in itertools.permutations([("b", 3, "x"), ("b", 3, "z"), ("b", 3, "y")]):
        run = Two(latest())
        run(("a", 4, ""), *order)
        assert run.end() == [("4", "3z")]


def test_a_tolerance_counts_its_end() -> None:
    run = Two(latest(within=2))
    run(("b", 1, ""), ("a", 3, "p"), ("a", 4, "q"))
    assert run.end() == [("3p", "1"), ("4q", None)]
    inner = Two(latest(within=2, how="inner"))
    inner(("b", 1, ""), ("a", 3, "p"), ("a", 4, "q"))
    assert inner.end() == [("3p", "1")]


def test_as_of_gives_up_what_can_answer_nobody_any_more() -> None:
    run = Two(latest())
    for t in range(100):
        run(("a", t, ""), ("b", t, ""))
    ((waiting, changes),) = run.run.state.values()
    assert len(waiting) == 1 and len(changes) <= 2


def test_a_table_that_changes_is_what_it_was_at_that_time() -> None:
    from datetime import timedelta

    def build(a: Stream[E], b: Stream[E]) -> Any:
        table = b.at("t", idle=timedelta(seconds=1)).key_by(lambda e: e.v)
        return lookup(a.at("t").key_by(lambda e: e.v), table)

    run = Two(build)
    assert run(("b", 1, "k"), ("a", 3, "k"), ("a", 3, "other"), ("b", 4, "k"), ("a", 100, "k")) == [
        ("3k", "1k"),
        ("3other", None),
    ]
    run.run.idle("b")  # nothing has come for long: the stream is not held back
    assert run(("a", 200, "k")) == [("100k", "4k")]
    assert run.end() == [("200k", "4k")]


def once(x: Stream[E]) -> Any:
    return x.at("t", lateness=3).dedup(by="v", within=4)


def test_the_first_in_event_time_is_kept_whatever_order_they_come_in() -> None:
    p = pipeline(once, x=E)
    for order in itertools.permutations([E(1, "a"), E(3, "a"), E(5, "a"), E(6, "a")]):
        assert p(list(order)) == [E(1, "a"), E(6, "a")]  # 6 is 5 after the last one that was kept


def test_dedup_puts_out_when_no_earlier_one_can_come() -> None:
    p = pipeline(once, x=E)
    assert batches(p, [E(5, "a")], [E(8, "b")], [E(9, "c")]) == [[], [], [E(5, "a")], [E(8, "b"), E(9, "c")]]


def test_without_by_equal_events_are_alike() -> None:
    p = pipeline(lambda x: x.at("t").dedup(within=10), x=E)
    assert p([E(1, "a"), E(2, "a"), E(1, "a")]) == [E(1, "a"), E(2, "a")]


def test_dedup_keeps_apart_what_keys_keep_apart() -> None:
    p = pipeline(lambda x: x.at("t").key_by(lambda e: e.t % 2).dedup(by=lambda e: e.v, within=10), x=E)
    assert p([E(1, "a"), E(2, "a"), E(3, "a")]) == [E(1, "a"), E(2, "a")]


def test_dedup_forgets() -> None:
    run = Literal(pipeline(once, x=E).graph)
    for t in range(50):
        run.batch([Row("x", E(t, str(t)))])
    ((waiting, kept),) = run.state.values()
    assert len(waiting) == 4 and len(kept) <= 5


# ---------------------------------------------------------------- late events, the clock, the end


def test_late_events_are_counted_when_they_are_dropped() -> None:
    run = Literal(pipeline(lambda x: x.at(lambda v: v).tumbling(5, counted, late="drop", id="w"), x=int).graph)
    for v in (7, 1, 2, 6):
        run.batch([Row("x", v)])
    assert run.late == {"w": 2}
    assert [tuple(i.value) for i in run.finish()["out"]] == [(5, 10, 2)]


def test_what_is_said_of_a_late_event() -> None:
    p = pipeline(lambda x: x.at(lambda v: v, lateness=2).tumbling(5, counted, id="w"), x=int)
    with pytest.raises(LateError) as found:
        p.trace([20, 7])
    said = str(found.value)
    assert said.startswith("step 'w' (tumbling, test_literal.py:")
    assert said.partition("failed ")[2] == (
        "at push 1 on the event 7: its time is 7, whose window from 5 to 10 is complete, and the clock is at 18: it is "
        "11 late; allow for so much more with lateness= in at, or with allowed_lateness= here (the answer comes again, "
        "corrected), or take late events from this step's .late, or let them go with late='drop'"
    )
    assert (found.value.step, found.value.position) == ("w", 1)


def test_a_late_event_can_have_a_time_again() -> None:
    def p(x: Stream[int]) -> Any:
        w = x.at(lambda v: v).tumbling(5, counted)
        return w.late.at(lambda e: e.time).tumbling(100, lambda w: w.cumulate(lambda n, _: n + 1, start=0))

    assert one(p, [20], [3], [4], [21])[-1] == [Windowed(0, 100, 2)]


def test_an_event_without_a_time() -> None:
    p = pipeline(lambda x: x.at(lambda v: v, id="when").tumbling(5, lambda w: w), x=int | None)
    with pytest.raises(StepError, match=r"step 'when' \(at .*\) failed at push 1 on the event None: it has no time"):
        p([1, None])


def test_a_failure_inside_a_window_names_the_window() -> None:
    p = pipeline(
        lambda x: x.at(lambda v: v).tumbling(5, lambda w: w.map(lambda v: 10 // (v - 3), id="div"), id="w"), x=int
    )
    with pytest.raises(StepError) as found:
        p([1, 3, 9])
    said = str(found.value)
    assert "step 'w'" in said and "failed in the window from 0 to 5: step 'div'" in said and "ZeroDivisionError" in said
    huge = pipeline(lambda x: x.at(lambda v: v).tumbling(5, lambda w: w.map(lambda v: v * 2**62)), x=int)
    with pytest.raises(IntOverflow, match="in the window from 0 to 5"):
        huge([4])


def test_ordinary_steps_before_a_window_hand_their_time_on() -> None:
    def p(x: Stream[int]) -> Any:
        doubled = x.at(lambda v: v).explode(lambda v: [v, 100 * v]).filter(lambda v: v != 2)
        return doubled.tumbling(10, lambda w: w.cumulate(lambda t, v: t + v, start=0))

    assert short(pipeline(p, x=int)([1, 2, 11])) == [(0, 10, 301), (10, 20, 1111)]


def test_two_sources_wait_for_each_other() -> None:
    def p(x: Stream[int], y: Stream[int]) -> Any:
        return merge(x.at(lambda v: v), y.at(lambda v: v)).tumbling(10, counted)

    run = Literal(pipeline(p, x=int, y=int).graph)
    assert run.batch([Row("x", 5), Row("x", 50)])["out"] == []
    assert [tuple(i.value) for i in run.batch([Row("y", 12)])["out"]] == [(0, 10, 1)]
    run.idle("y")
    assert [tuple(i.value) for i in run.batch([])["out"]] == [(10, 20, 1)]
    with pytest.raises(LateError):
        run.batch([Row("y", 15)])  # what comes after a silence is judged by the clock as well


def test_a_key_that_comes_with_the_data_keeps_everything_apart_but_the_clock() -> None:
    def p(x: Stream[int]) -> Any:
        return x.at(lambda v: v).cumulate(lambda t, v: t + 1, start=0).tumbling(10, lambda w: w)

    from pellucid.internal.expr.types import STR

    run = Literal(pipeline(p, x=int).graph, STR)
    run.batch([Row("x", 1, "ada"), Row("x", 2, "bob"), Row("x", 3, "ada")])
    assert [(i.outer, *i.value) for i in run.batch([Row("x", 10, "bob")])["out"]] == [
        ("ada", 0, 10, 2),
        ("bob", 0, 10, 1),
    ]


def test_nothing_comes_after_the_end() -> None:
    run = Literal(pipeline(tens, x=int).graph)
    run.finish()
    with pytest.raises(StateError, match="an event came after the end of the input"):
        run.batch([Row("x", 1)])


def test_an_event_of_another_type() -> None:
    with pytest.raises(DataError, match="source 'x', push 0: expected int, found str 'a'"):
        Literal(pipeline(tens, x=int).graph).batch([Row("x", "a")])


# ---------------------------------------------------------------- the two promises


SHAPES: dict[str, Callable[[Stream[E], int], Any]] = {
    "tumbling": lambda x, late: x.at("t", lateness=late).tumbling(4, listed),
    "sliding": lambda x, late: x.at("t", lateness=late).sliding(5, 2, listed),
    "session": lambda x, late: x.at("t", lateness=late).session(2, listed),
    "dedup": lambda x, late: x.at("t", lateness=late).dedup(by="v", within=3),
    "keyed": lambda x, late: x.at("t", lateness=late).key_by(lambda e: e.v).session(2, listed),
    "join": lambda x, late: join(
        x.at("t", lateness=late).filter(lambda e: e.v != "b"),
        x.at("t", lateness=late).filter(lambda e: e.v != "a"),
        within=(-1, 2),
        how="full",
    ),
    "as_of": lambda x, late: as_of(
        x.at("t", lateness=late), x.at("t", lateness=late).filter(lambda e: e.v == "a"), within=3
    ),
}  # fmt: skip


def drawn(rng: random.Random, count: int) -> list[E]:
    return [E(rng.randint(-6, 9), rng.choice("abc")) for _ in range(count)]


def in_pieces(rng: random.Random, events: list[E]) -> list[list[E]]:
    cuts = sorted(rng.sample(range(len(events) + 1), rng.randint(0, len(events))))
    return [events[a:b] for a, b in itertools.pairwise([0, *cuts, len(events)])]


@pytest.mark.parametrize("shape", list(SHAPES))
def test_within_lateness_the_answers_are_those_of_one_batch(shape: str) -> None:
    """Promise 2: whatever the order of arrival and the micro-batches."""
    p = pipeline(lambda x: SHAPES[shape](x, 20), x=E)
    for seed in seeds(25, 1000):
        rng = random.Random(seed)
        events = drawn(rng, rng.randint(1, 7))
        whole = sorted(map(repr, p(sorted(events))))
        rng.shuffle(events)
        parts = batches(p, *in_pieces(rng, events))
        assert sorted(repr(e) for part in parts for e in part) == whole, (seed, events)


@pytest.mark.parametrize("shape", ["tumbling", "sliding", "session", "keyed"])
def test_answers_are_those_of_the_events_that_were_accepted(shape: str) -> None:
    """Promise 1: an event is in an answer or it is late, and each window is put out once."""

    def both(x: Stream[E]) -> Any:
        w = SHAPES[shape](x, 1)
        return w, w.late

    p, alone = pipeline(both, x=E), pipeline(lambda x: SHAPES[shape](x, 1), x=E)
    lates = 0
    for seed in seeds(40, 2000):
        rng = random.Random(seed)
        events = drawn(rng, rng.randint(2, 8))
        run = Literal(p.graph)
        parts = [run.batch([Row("x", e) for e in part]) for part in in_pieces(rng, events)] + [run.finish()]
        answers = [i.value for part in parts for i in part["out1"]]
        late = [i.value for part in parts for i in part["out2"]]
        lates += len(late)
        accepted = list(events)
        if shape != "sliding":  # there an event may be in some of its windows
            for missed in late:
                accepted.remove(missed.value)
            assert sorted(map(repr, answers)) == sorted(map(repr, alone(accepted))), (seed, events)
        else:
            whole = {(w.start, w.end): w.value for w in alone(accepted)}
            assert all(set(w.value) <= set(whole[w.start, w.end]) for w in answers), (seed, events)
        if shape != "keyed":
            assert len({(w.start, w.end) for w in answers}) == len(answers)
    assert lates
