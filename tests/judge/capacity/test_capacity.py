"""Timed verdicts against regions of clocks, which say what is known; and that the judge notices what is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from pellucid import check
from tests.judge.capacity import flow, timed
from tests.judge.capacity.regions import Case, Literal, Refused, Regions, Step, figure_1, lengths
from tests.seeds import seeds

ONE = Fraction(1)


def alone(gap: str, *, literal: bool = False) -> Case:
    return Case({"S": Fraction(gap)}, {"B": Step(ONE, ("S",))}, literal=literal)


@pytest.mark.parametrize(("gap", "urgent", "literal"), [("0.4", 5, 4), ("0.5", 6, 5), ("0.8", 12, 5), ("0.9", 22, 5)])
def test_emits_until_three_wait(gap, urgent, literal):
    assert Regions(alone(gap), "B").explore(3).first["any"][3] == urgent
    assert Literal(alone(gap, literal=True), "B", whole=True).search(3, by="emits").first["any"][3] == literal
    assert timed.judge(alone(gap), "B", 3, "any") == ("refuted/refuted", "")
    run = check.capacity(alone(gap, literal=True).topology(), {"B": 3}, fewest="emits").counterexample
    assert run is not None
    longest, emits, _ = lengths(alone(gap, literal=True), "B", run.steps)
    assert (longest["any"], emits) == (3, literal)


def test_the_trace_of_the_paper():
    case = alone("0.8", literal=True)
    assert Literal(case, "B", whole=True).search(2).first["any"][2] == 15
    assert timed.judge(case, "B", 2, "any") == ("refuted/refuted", "")


@pytest.mark.parametrize(
    ("gap", "workers", "bolt", "longest"),
    [("1", 1, "B1", (1, 0)), ("1/2", 2, "B1", (1, 0)), ("2", 1, "B2", (1, 1)), ("1", 2, "B2", (1, 0)),
     ("2/3", 3, "B2", (1, 1)), ("2", 1, "B3", (2, 1)), ("1", 2, "B3", (2, 0)), ("1", 3, "B3", (2, 0))],
)  # fmt: skip
def test_figure_1(gap, workers, bolt, longest):
    case = figure_1(gap, (workers,) * 3)
    mine = Regions(case, bolt).explore(4)
    assert mine.done and (mine.longest("any"), mine.longest("settled")) == longest
    for observe, most in zip(("any", "settled"), longest, strict=True):
        for limit in range(max(1, most), most + 2):
            assert timed.judge(case, bolt, limit, observe)[1] == ""


def test_more_workers_upstream_make_a_later_queue_longer():
    both = Case({"S": Fraction(2), "T": Fraction(2)}, {"A": Step(ONE, ("S", "T")), "B": Step(ONE, ("A",))})
    for workers, longest in ((1, (1, 0)), (2, (2, 1))):
        found = Regions(both.workers(A=workers), "B").explore(4)
        assert (found.longest("any"), found.longest("settled")) == longest
        assert timed.judge(both.workers(A=workers), "B", longest[0] + 1, "any") == ("proved/proved", "")
    fast = Case({"S": Fraction(1, 2)}, {"A": Step(ONE, ("S",)), "B": Step(ONE, ("A",))})
    assert flow.unbounded(fast) == {"A"} and flow.unbounded(fast.workers(A=2)) == {"B"}


def test_without_an_emit_the_least_time_is_attained():
    two = Step(Fraction(1, 2), ("S",), 2, initial=2)
    case = Case({"S": ONE}, {"A": two, "B": Step(ONE, ("A",))})
    assert timed.judge(case, "B", 2, "any") == ("refuted/refuted", "")
    (note,) = check.capacity(case.topology(), {"B": 2}).parts["B"].notes
    assert note == "the queue of B reaches 2 after 0 emits of the spouts, in 1/2"


def test_a_backlog_that_is_drained_at_the_wrong_moment():
    assert flow.unbounded(figure_1("0.8", (1, 3, 3))) == {"B1", "B3"}
    assert flow.unbounded(figure_1("0.8", (2, 3, 3))) == set()


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(18))
def test_verdicts(seed):
    assert timed.one(seed, Counter()) == ""


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(16))
def test_flows(seed):
    assert flow.one(seed, Counter()) == ""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 400))
def test_many(seed):
    assert timed.one(seed, Counter()) == ""
    assert flow.one(seed, Counter()) == ""


class Wrong(Case):
    """A case that Pellucid is told wrongly."""

    def topology(self, observe="any"):
        return replace(
            Case(**{f: getattr(self, f) for f in ("spouts", "bolts", "copies", "literal")}), **self.notes
        ).topology(observe)


@pytest.mark.parametrize(
    ("notes", "limit", "words"),
    [({"spouts": {"S": ONE}}, 3, "proved, but 3 after 12"),
     ({"spouts": {"S": Fraction(1, 2)}}, 3, "the run is not one"),
     ({"bolts": {"B": Step(Fraction(1, 2), ("S",))}}, 2, "proved, but 2 after 7"),
     ({"bolts": {"B": Step(ONE, ("S",), initial=1)}}, 3, "the run is not one")],
)  # fmt: skip
def test_what_is_wrong_is_noticed(notes, limit, words):
    case = alone("0.8")
    assert timed.judge(Wrong(case.spouts, case.bolts, notes=notes), "B", limit, "any")[1].startswith(words)


def test_runs_that_are_none_are_refused():
    case = alone("0.8")
    run = check.capacity(case.topology(), {"B": 2}).counterexample
    assert run is not None
    assert lengths(case, "B", run.steps)[0]["any"] == 2
    early = [replace_by(s, Fraction(4, 5)) for s in run.steps]
    for steps in (run.steps[1:], run.steps[:2] + run.steps[3:], early):
        with pytest.raises(Refused):
            lengths(case, "B", steps)


def replace_by(step, by):
    return step._replace(by=by) if step.by is not None else step
