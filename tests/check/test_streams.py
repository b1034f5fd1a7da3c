"""Hostile names: what a user calls a source, a step, an output or a field has no influence on any verdict."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import pytest

from pellucid import Mod, apply, check, merge, pipeline, silent
from pellucid.check.formula import any_, explain, stream
from pellucid.check.formula.parse import parse
from pellucid.errors import UsageError
from pellucid.internal.export.smv import export

WORDS = (
    "present", "value", "first", "last", "count", "full", "failed", "G", "true", "out", "stopped", "length", "lost",
)  # fmt: skip


def record(*names: str) -> type:
    return dataclasses.make_dataclass("Record", [(name, int) for name in names], frozen=True)


@pytest.mark.parametrize("field", WORDS)
def test_a_field_may_have_any_name(field):
    event = record(field, "other")
    p = pipeline(lambda x: x.map(lambda e: getattr(e, field)), x=event)
    verdict = check.holds(p, "G (out -> out.value = 1)", ints=range(3))
    assert verdict.refuted and p([event(2, 0)]) == [2]
    assert check.live(pipeline(lambda x: x.filter(lambda e: getattr(e, field) == 2), x=event), ints=range(3)).proved


STREAMS = (
    "full", "overflow", "failed", "G", "X", "U", "A", "true", "out", "value", "present", "first", "last", "count",
    "any", "stream", "source", "queue", "flag",
)  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_a_source_may_have_any_name(name):
    scope: dict = {}
    exec(f"f = lambda {name}: {name}.filter(lambda v: v > 5, id='big')", scope)
    p = pipeline(scope["f"], **{name: int})
    assert check.live(p, ints={0, 9}).proved and check.live(p, within=2, ints={0, 9}).refuted
    assert check.holds(
        p, f'G (output("out") -> source("{name}") & source("{name}").value = output("out").value)'
    ).proved
    assert check.holds(p, f'G (step("big") -> source("{name}").value > 5)').proved
    assert check.holds(p, f'G (source("{name}") -> output("out"))').refuted
    assert check.holds_on(p, f'source("{name}").value = 9 & output("out").count = 1', [9]).proved


@pytest.mark.parametrize(
    ("name", "text", "ways"),
    [
        ("full", "G !full", 'full could mean several things in pipeline: write source("full") or flag("full")'),
        (
            "failed",
            "G (failed -> out)",
            'failed could mean several things in pipeline: write source("failed") or flag("failed")',
        ),
        ("out", "G out", 'out could mean several things in pipeline: write output("out") or source("out")'),
        (
            "value",
            "G value > 3",
            'value could mean several things in pipeline: write source("value") or output("out").value',
        ),
    ],
)
def test_a_name_that_could_mean_two_things_is_refused(name, text, ways):
    scope: dict = {}
    exec(f"f = lambda {name}: {name}.filter(lambda v: v > 5)", scope)
    with pytest.raises(UsageError) as error:
        check.holds(pipeline(scope["f"], **{name: int}), text)
    assert str(error.value) == ways


def test_a_step_with_a_name_that_stands_for_another():
    p = pipeline(
        lambda x: x.map(lambda v: v + 1, id="in").map(lambda v: v + 1, id="out").filter(lambda v: v > 5, id="big"),
        x=int,
    )
    for text in ("G in", "G out"):
        with pytest.raises(UsageError, match="could mean several things"):
            check.holds(p, text)
    assert check.holds(p, 'G (x -> step("in").value = x.value + 1 & step("out").value = x.value + 2)').proved
    assert check.holds(
        p, 'G (output("out") -> output("out").value > 5) & G (stream("in") -> stream("in").value > x.value)'
    ).proved
    assert check.holds(p, 'G (flag("failed") -> false)', ints=range(9)).proved


# Several events in one push: what a formula, `implies` and `monitor` say of each of them.

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


# Streams that never carry an event, and streams whose names mean something else as well: every question has an
# answer.


def mute(state, event):
    return state, []


never = pipeline(lambda x: x.task(mute, 0, to=int, id="never"), x=int)


def test_a_task_that_never_speaks():
    assert check.holds(never, "G !out").proved
    assert check.holds(never, "G (out -> out.value > 3)").proved
    assert check.holds(never, "F out.value > 3").refuted
    assert check.live(never).refuted
    assert check.equivalent(never, pipeline(lambda x: x.filter(lambda v: v != v), x=int)).proved
    assert check.equivalent(never, pipeline(lambda x: x, x=int)).refuted
    assert check.equivalent(never, never, how="sequence", ints=range(2)).proved
    assert set(check.dead_paths(never).details["dead"]) == {"never"}


@pytest.mark.parametrize(
    "waits",
    [
        lambda x, m: apply(lambda a, b: a + b, m, x, id="sum"),
        lambda x, m: m.filter(m > 0),
        lambda x, m: x.filter(m > 0),
        lambda x, m: apply(lambda a, b: a + b, m.cumulate(lambda a, b: a + b, start=0), m, id="sum"),
    ],
)
def test_what_waits_for_it_never_speaks_either(waits):
    p = pipeline(lambda x: waits(x, x.task(mute, 0, to=int)), x=int)
    assert check.holds(p, "G !out", ints=range(2)).proved


def test_merged_with_another_it_adds_nothing():
    p = pipeline(lambda x: merge(x.task(mute, 0, to=int), x), x=int)
    assert check.equivalent(p, pipeline(lambda x: x, x=int)).proved


def test_a_window_of_it():
    inside = pipeline(lambda x: x.task(mute, 0, to=int).cumulate(lambda a, b: a + b, start=0), x=int)
    assert check.holds(pipeline(lambda x: x.window(2, inside), x=int), "G !out").proved


def test_one_that_is_called_and_not_traced():
    def quiet(state, event) -> tuple[int, list[int]]:
        return state + 0 * len(str(event)), []

    p = pipeline(lambda x: x.task(quiet, 0, to=int), x=int)
    assert check.holds(p, "G !out", ints=range(2)).proved


def test_a_keyed_one():
    p = pipeline(lambda x: x.key_by(lambda v: v % 2).task(mute, 0, to=int).trim(1), x=int)
    assert check.holds(p, "G !out", ints=range(3)).proved


def test_implied_and_monitored():
    silent = pipeline(lambda x: x.task(mute, 0, to=bool), x=int)
    assert check.implies(silent, silent, ints=range(2)).proved
    assert check.implies(silent, pipeline(lambda x: x > 0, x=int)).refuted
    assert check.monitor(check.Transitions([0], lambda s: [s], lambda s: {"x": s}), silent).proved


def test_a_monitor_with_a_source_that_it_does_not_read():
    p = pipeline(lambda x, y: apply(lambda a, b: a + 1 > b, y, y), x=int, y=int)
    system = check.Transitions([0, 1], {0: [1], 1: [0]}.__getitem__, {0: {"x": 0, "y": 0}, 1: {"y": 0}}.__getitem__)
    assert check.monitor(system, p).proved


@pytest.mark.parametrize("name", ["G", "U", "full", "failed", "out", "value", "step"])
def test_live_whatever_a_source_is_called(name):
    space: dict[str, object] = {}
    exec(f"def f({name}):\n    return {name}.decimate(2, id='half')", space)
    p = pipeline(space["f"], **{name: int})
    assert check.live(p).proved
    assert check.live(p, within=2).proved
    assert check.live(p, within=1).refuted


@pytest.mark.parametrize("name", ["G", "in", "full", "x"])
def test_live_whatever_an_output_is_called(name):
    p = pipeline(lambda x: {name: x.decimate(2), "other": x.trim(1)}, x=int)
    assert check.live(p, output=name).proved
    assert check.live(p, output=name, within=2).proved


def test_a_source_that_is_called_out_is_shown_as_it_comes():
    p = pipeline(lambda out: out.map(lambda v: v > 0), out=int)
    example = check.holds(p, 'G (source("out") -> output("out").value = true)').counterexample
    assert example.steps[-1].streams == {'source("out")': [0], "out": [False]} | {
        k: v for k, v in example.steps[-1].streams.items() if k.startswith("map")
    }
    assert 'source("out")  0' in str(example)
