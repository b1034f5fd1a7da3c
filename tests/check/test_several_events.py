"""Several events in one push: what a formula, `implies` and `monitor` say of each of them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pellucid import Mod, apply, check, merge, pipeline, silent
from pellucid.check.formula import any_, explain, stream
from pellucid.check.formula.parse import parse
from pellucid.errors import UsageError
from pellucid.internal.export.smv.model import export

BURSTS = [[], [4], [3], [4, 5], [3, 5], [5, 3], [0, 6, 2]]


def burst(state, v):
    if v == 0:
        return state, []
    if v == 1:
        return state, [4]
    if v == 2:
        return state, [3]
    if v == 3:
        return state, [4, 5]
    if v == 4:
        return state, [3, 5]
    return state, [5, 3] if v == 5 else [0, 6, 2]


p = pipeline(lambda x: x.task(burst, 0, id="burst"), x=int)

ATOMS = {
    "out": lambda v, e: e != [],
    "out.value > 3": lambda v, e: e != [] and all(a > 3 for a in e),
    "out.value != 3": lambda v, e: e != [] and all(a != 3 for a in e),
    "any(out.value > 3)": lambda v, e: any(a > 3 for a in e),
    "any(out.value > 2 & out.value < 4)": lambda v, e: 3 in e,
    "any(!(out.value > 3))": lambda v, e: any(not a > 3 for a in e),
    "out.first > 3": lambda v, e: e != [] and e[0] > 3,
    "out.last > 3": lambda v, e: e != [] and e[-1] > 3,
    "out.count = 2": lambda v, e: len(e) == 2,
    "out.count != 1": lambda v, e: len(e) != 1,
    "x.value < out.value": lambda v, e: e != [] and all(v < a for a in e),
    "any(x.value < out.value)": lambda v, e: any(v < a for a in e),
    "out.value = burst.value": lambda v, e: e != [],  # one stream under two names: the same event both times
    "out.value + burst.value = 2 * out.value": lambda v, e: e != [],
    "out.value >= out.first": lambda v, e: e != [] and all(a >= e[0] for a in e),
    "12 % out.value = 0": lambda v, e: e != [] and all(a and 12 % a == 0 for a in e),
    "any(12 % out.value = 0)": lambda v, e: any(a and 12 % a == 0 for a in e),
}


BY_SMT = ("out.value > 3", "any(x.value < out.value)", "out.value >= out.first", "any(12 % out.value = 0)")


@pytest.mark.parametrize(
    ("atom", "engine"), [*((atom, "explicit") for atom in ATOMS), *((atom, "smt") for atom in BY_SMT)]
)
def test_an_atom_speaks_of_every_event(atom, engine):
    means = ATOMS[atom]
    for v, events in enumerate(BURSTS):
        assert p.trace([v]) == [events]
    # For each event: the atom holds exactly where it should, for all inputs at once.
    for wanted, sign in ((True, ""), (False, "!")):
        those = [v for v, events in enumerate(BURSTS) if means(v, events) is wanted]
        where = " | ".join(f"x.value = {v}" for v in those) or "false"
        assert check.holds(p, f"G ({where} -> {sign}({atom}))", ints=range(len(BURSTS)), engine=engine).proved
    assert [check.holds_on(p, atom, [v]).proved for v in range(len(BURSTS))] == [
        means(v, e) for v, e in enumerate(BURSTS)
    ]


def test_two_streams_each_with_each():
    pairs = pipeline(lambda x, y: merge(x, y, id="both").task(lambda s, v: (s, [v]), 0), x=int, y=int)
    verdict = check.holds(pairs, "G (x & y -> x.value < out.value)", ints=range(3))
    assert verdict.refuted  # x itself is among them
    assert check.holds(pairs, "G (x & y -> any(both.value = x.value) & both.count = 2)").proved
    assert check.holds(pairs, "G (x & y -> both.first = x.value & both.last = y.value)").proved
    assert check.holds(pairs, "G (both.value = x.value -> !y | x.value = y.value)").proved


class Trade(NamedTuple):
    price: int
    count: int


def test_fields_of_the_first_and_the_last():
    two = pipeline(lambda x: x.task(lambda s, t: (s, [t, Trade(t.price + 1, t.count)]), 0), x=Trade)
    assert check.holds(two, "G (x -> out.first.price = x.price & out.last.price = x.value.price + 1)").proved
    assert check.holds(two, "G (x -> out.value.count = x.value.count & out.count = 2)").proved  # a field called count
    assert check.holds(two, "G (x -> out.price > x.price)").refuted
    with pytest.raises(UsageError, match=r"out\.count has no fields; a field of that name is out\.value\.count\.price"):
        check.holds(two, "G out.count.price > 1")


def test_safety_of_the_last_event_is_not_safety():
    both = pipeline(lambda x: x.task(lambda s, v: (s, [-1, 1]), 0), x=bool)
    assert check.holds(both, "G (out -> out.value > 0)").refuted
    assert check.holds(both, "G (out -> out.last > 0)").proved


def test_modulo_n_counts_are_not_reduced():
    four = pipeline(lambda x: x.task(lambda s, v: (s, [v, v, v, v]), 0), x=int)
    assert check.holds(four, "G (x -> out.count = 4 & out.value + 3 = x.value + 3)", ints=Mod(3), warn=False).proved


def test_a_stream_that_never_carries_anything():
    quiet = pipeline(lambda x: x.task(lambda s, v: (s, [] if v == v else [v]), 0, to=int), x=int)
    assert check.holds(
        quiet, "G (out.count = 0 & !(out.value > 0) & !any(out.value = out.value) & !(out.first > 0))", ints=range(2)
    ).proved
    with pytest.raises(UsageError, match="they cannot be compared"):
        check.holds(quiet, 'G out.value = "a"', ints=range(2))


def test_implies_compares_one_by_one():
    a = pipeline(lambda x: merge(x > 0, x < 0), x=int)
    b = pipeline(lambda x: merge(x > 5, x < 0), x=int)
    assert check.implies(b, a).proved
    verdict = check.implies(a, b)
    assert verdict.refuted
    (push,) = verdict.counterexample.inputs
    assert any(left and not right for left, right in zip(a.trace([push["x"]])[0], b.trace([push["x"]])[0], strict=True))
    once = pipeline(lambda x: x > 0, x=int)
    assert check.implies(a, once).refuted  # not as many


def test_a_monitor_says_true_each_time_and_does_not_fail():
    still = check.Transitions([0], lambda s: [s], lambda s: {"x": s})
    assert check.monitor(still, pipeline(lambda x: merge(x < 0, x >= 0), x=int)).refuted
    assert check.monitor(still, pipeline(lambda x: merge(x <= 0, x >= 0), x=int)).proved
    assert check.monitor(still, pipeline(lambda x: x.trim(9) > 3, x=int)).refuted
    assert check.monitor(still, pipeline(lambda x: x.filter(lambda v: v > 0) > 3, x=int)).proved  # silence is fine
    fails = check.monitor(still, pipeline(lambda x: x.map(lambda v: 5 // v > 0), x=int))
    assert fails.refuted and "the pipeline fails there" in fails.notes
    wide = check.Transitions([2**62], lambda s: [s], lambda s: {"x": s})
    fails = check.monitor(wide, pipeline(lambda x: x.map(lambda v: v + v > 0), x=int))
    assert fails.refuted and "the pipeline fails there" in fails.notes


def test_one_stream_is_judged_on_what_the_push_really_carried():
    three = lambda s, e: (s, [e, e, e])
    bursts = pipeline(
        lambda x, y: apply(lambda a, b: a + b, x.task(three, 0).task(three, 0), y, id="sum"), x=int, y=int
    )
    assert bursts.trace([1, silent], [silent, 1]) == [[], [2]]
    assert check.holds_on(bursts, "F out", [1, silent], [silent, 1]).proved
    assert check.holds_on(
        bursts, "queue(sum.0).length = 9 & X queue(sum.0).length = 8", [1, silent], [silent, 1]
    ).proved
    with pytest.raises(UsageError, match="nothing is ever full"):
        check.holds_on(bursts, "G !full", [1], [1])
    fails = pipeline(lambda x: x.map(lambda v: 6 // v), x=int)
    assert check.holds_on(fails, "!failed & X (failed & !x & !out & X (failed & !x))", [1, 0, 1]).proved
    assert check.holds_on(
        fails, "out.value + 9223372036854775807 > 0", [1]
    ).proved  # a formula's own integers are exact
    assert check.holds_on(fails, "X out.value > Y out.value", [3, 2]).proved


def test_in_python_and_in_words():
    out = stream("out")
    assert any_(out.value > 3) == parse("any(out.value > 3)") and str(parse("!any(a.value>3)")) == "!any(a.value > 3)"
    assert parse(str(out.count + 1 > 2)) == (out.count + 1 > 2)
    assert (
        explain(parse("G any(out.value > 3)"))
        == "On every run, in every step, for some event of out the value of out is more than 3."
    )
    assert explain(parse("out.count = 2")) == "In the first step, out carries exactly 2 events."
    with pytest.raises(UsageError, match="any\\(…\\) is about the events of one push, so there is no X in it"):
        parse("any(X out)")
    with pytest.raises(UsageError, match="any\\(…\\) is about the events of one push"):
        any_(any_(out.value > 3))
    assert check.holds(pipeline(lambda x: x.trim(1), x=int), "G (any -> any.count = 1)".replace("any", "x")).proved


def test_nusmv_gets_the_same_meaning():
    half = pipeline(lambda x: x.decimate(2), x=int)
    text = export(
        half, domain=Mod(3), properties=["G (out.count = 1 -> any(out.value = x.value) & out.first = out.last)"]
    )
    assert "INVARSPEC" in text
    with pytest.raises(UsageError, match="may carry several events"):
        export(pipeline(lambda x: merge(x, x), x=int), domain=Mod(3), properties=["G out.value > 0"])


def test_a_push_that_fails_leaves_the_queues_as_they_were() -> None:
    """For all runs as for one: the lengths are those after the push before."""
    quotient = pipeline(lambda a, b: apply(lambda u, v: u // v, a, b, id="j"), a=int, b=int)
    ahead = "G (failed -> queue(j.0).length >= queue(j.1).length)"
    verdict = check.holds(quotient, ahead, ints=range(2))
    assert verdict.refuted and verdict.counterexample is not None
    pushes = verdict.counterexample.inputs
    columns = [[push.get(name, silent) for push in pushes] for name in "ab"]
    assert check.holds_on(quotient, ahead, *columns).refuted
    assert check.holds_on(
        quotient, "F (failed & queue(j.0).length = 1 & queue(j.1).length = 0)", [1, 1], [silent, 0]
    ).proved
    assert check.holds(quotient, "G (failed & queue(j.0).length = 1 -> X queue(j.0).length = 1)", ints=range(2)).proved
