"""Streams that never carry an event, and streams whose names mean something else as well: every question has an
answer."""

from __future__ import annotations

import pytest

from pellucid import apply, check, merge, pipeline


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
