"""No argument of any question is a traceback; the time of a question is for all of it."""

from __future__ import annotations

import time

import pytest

from pellucid import check, merge, pipeline
from pellucid.check.decide import Options
from pellucid.errors import PellucidError, UsageError

p = pipeline(lambda x: x * x, x=int)
two = pipeline(lambda x, y: x + y, x=int, y=int)
says = pipeline(lambda x: x < 3, x=int)
T = check.Transitions

WRONG = {
    "no pipeline": lambda: check.live(3),
    "no pipelines": lambda: check.equivalent(p, None),
    "nothing": lambda: check.holds(),
    "unknown keyword": lambda: check.live(p, foo=1),
    "nearly a keyword": lambda: check.holds(p, "G out", timout=3),
    "keyword of another": lambda: check.buffers(p, within=3),
    "no formula": lambda: check.holds(p, None),
    "a number for a formula": lambda: check.holds(p, 3),
    "a list for a formula": lambda: check.holds_on(p, ["G out"], [1]),
    "ints beyond 64 bits": lambda: check.holds(p, "G (out -> out.value > 0)", ints={2**70}),
    "ints of texts": lambda: check.holds(p, "G out", ints="abc"),
    "ints=5": lambda: check.live(p, ints=5),
    "queue='a'": lambda: check.holds(two, "G !full", queue="a"),
    "queue=-1": lambda: check.holds(two, "G !out", queue=-1),
    "queue=True": lambda: check.holds(two, "G !full", queue=True),
    "queue of another": lambda: check.holds(two, "G !full", queue={"nowhere.0": 1}),
    "queue by a number": lambda: check.equivalent(two, two, queue={1: 1}),
    "within=1.5": lambda: check.live(p, within=1.5),
    "within=0": lambda: check.live(p, within=0),
    "output=3": lambda: check.live(p, output=3),
    "output of another": lambda: check.live(p, output="nowhere"),
    "timeout=-1": lambda: check.live(p, timeout=-1),
    "timeout='a'": lambda: check.dead_paths(p, timeout="a"),
    "engine='x'": lambda: check.implies(says, says, engine="x"),
    "engine=[]": lambda: check.implies(says, says, engine=[]),
    "max_states=0": lambda: check.live(p, max_states=0),
    "max_depth=None": lambda: check.live(p, max_depth=None),
    "progress=3": lambda: check.live(p, progress=3),
    "how='else'": lambda: check.equivalent(p, p, how="else"),
    "lossy of nothing": lambda: check.holds(p, "G out", lossy=["nowhere"]),
    "lossy as a text": lambda: check.holds(p, "G out", lossy="x"),
    "lossy=3": lambda: check.holds(p, "G out", lossy=3),
    "monitor: no system": lambda: check.monitor(3, says),
    "monitor: no initial state": lambda: check.monitor(T([], lambda s: [s], lambda s: {"x": s}), says),
    "monitor: initial is a number": lambda: T(3, lambda s: [s], lambda s: {"x": s}),
    "monitor: next is no function": lambda: T([0], [0], lambda s: {"x": s}),
    "monitor: next fails": lambda: check.monitor(T([0], lambda s: [1 // s], lambda s: {"x": s}), says),
    "monitor: see fails": lambda: check.monitor(T([0], lambda s: [s], lambda s: {"x": 1 // s}), says),
    "monitor: no Booleans": lambda: check.monitor(T([0], lambda s: [s], lambda s: {"x": s}), p),
    "implies of integers": lambda: check.implies(p, p),
    "holds_on without a stream": lambda: check.holds_on(p, "G out"),
    "holds_on with a number": lambda: check.holds_on(p, "G out", 3),
    "holds_on with a wrong event": lambda: check.holds_on(p, "G out", ["a"]),
    "holds_on with nothing in it": lambda: check.holds_on(p, "G out", []),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_one_message(case):
    with pytest.raises(PellucidError) as error:
        WRONG[case]()
    assert str(error.value) and "Traceback" not in str(error.value)


def test_messages_say_what_was_given_and_what_was_expected():
    with pytest.raises(UsageError, match=r"check\.holds has no argument 'timout': did you mean 'timeout'\?"):
        check.holds(p, "G out", timout=3)
    with pytest.raises(UsageError, match=r"lossy= takes a list .* found 'x': write \['x'\]"):
        check.holds(p, "G out", lossy="x")


@pytest.mark.parametrize("many", [10**5, pytest.param(10**6, marks=pytest.mark.long)])
def test_many_integers_are_no_matter_of_memory(many: int):
    assert not check.holds(p, "AG EF out.value = 0", ints=range(many), timeout=3).refuted


def test_states_from_an_iterator():
    assert check.monitor(T(iter([0]), lambda s: [s], lambda s: {"x": s}), says).proved


def test_a_stream_that_loses_events_over_exact_integers():
    copy = pipeline(lambda x: x.map(lambda v: v, id="copy").cumulate(lambda t, v: t + v, start=0), x=int)
    assert check.holds(copy, "G (x.value = 5 -> out)", lossy=["copy"]).refuted


def test_what_is_made_from_options_ends_with_them():
    options = Options(timeout=0.2)
    import dataclasses

    longer = dataclasses.replace(options, timeout=50.0)
    assert longer.left <= 0.2 and dataclasses.replace(options, timeout=0.1).left <= 0.1
    assert Options(timeout=None).left is None


@pytest.mark.parametrize(
    "ask",
    [
        lambda **how: check.equivalent(
            pipeline(lambda x, y: x * x * y - y * x, x=int, y=int),
            pipeline(lambda y, x: y * (x * x - x) * 1, y=int, x=int),
            **how,
        ),
        lambda **how: check.dead_paths(
            pipeline(lambda x, y: merge(x * y * x, y * x * x).filter(lambda v: v % 7 != 3), x=int, y=int), **how
        ),
    ],
    ids=["equivalent", "dead_paths"],
)
def test_the_time_is_for_the_whole_question(ask):
    began = time.process_time()
    ask(timeout=2)
    assert time.process_time() - began < 30  # a decision that has begun may take a little longer


# ---------------------------------------------------------------- what is too large


def test_more_atoms_than_a_search_looks_at_is_one_message() -> None:
    next_ = pipeline(lambda x: x.map(lambda v: v + 1), x=int)
    some = " | ".join(f"out.value = {i}" for i in range(70))
    with pytest.raises(UsageError, match="no more than 64 different atoms at once, and the formula has 71"):
        check.holds(next_, f"G (x -> F ({some}))", ints=range(3))
    few = " | ".join(f"out.value = {i}" for i in range(63))
    assert check.holds(next_, f"G (x -> F ({few}))", ints=range(3)).proved


def test_more_pushes_than_explicit_search_tries_is_unknown() -> None:
    keyed = pipeline(lambda x: x.key_by(lambda v: v).cumulate(lambda t, v: t + 1, start=0), x=int)
    verdict = check.holds(keyed, "G (out -> out.value >= 0)", engine="explicit", ints=range(5000))
    assert verdict.unknown and "too many for explicit search to try" in verdict.notes[0]


def test_a_large_domain_takes_no_longer_than_a_small_one() -> None:
    """Its events are not gone through again and again: a span says as much."""
    began = time.process_time()
    verdict = check.holds(
        pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int),
        "G (out -> out.value >= 0)",
        ints=range(10**6),
        timeout=5,
    )
    assert not verdict.refuted and time.process_time() - began < 6
