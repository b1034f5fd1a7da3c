"""``x.lag(k)``: each event beside the one k events before it, in every engine and in the checks."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from pellucid import StateError, apply, check, merge, pipeline
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import INT

MODES = ["python", "numba"]


class Reading(NamedTuple):
    sensor: str
    value: float
    good: bool


def by_hand(s: tuple[int, int, int], v: int) -> tuple[tuple[int, int, int], list[tuple[int, int]]]:
    first, second, seen = s
    return (second, v, min(seen + 1, 2)), [(v, first)] if seen == 2 else []


SHAPES = {
    "alone": lambda x: x.lag(2),
    "keyed": lambda x: x.key_by(lambda v: v % 3).lag(2),
    "several events at once": lambda x: merge(x, x + 1, x.trim(1)).lag(2),
    "several events under keys": lambda x: merge(x, x + 1).key_by(lambda v: v % 2).lag(1),
    "behind a filter": lambda x: x.filter(lambda v: v % 4 != 1).lag(1).map(lambda p: p[0] - p[1]),
    "in a window": lambda x: x.window(4, lambda w: w.lag(2).map(lambda p: p[0] * 10 + p[1])),
    "of pairs": lambda x: x.lag(1).lag(1),
    "with a partner": lambda x: apply(lambda p, v: (p[1], v), x.lag(2), x),
}


@pytest.mark.parametrize("name", list(SHAPES))
@pytest.mark.parametrize("mode", ["python", *(pytest.param("numba", marks=pytest.mark.long),)])
def test_the_kernel_does_what_the_interpreter_does(name: str, mode: str) -> None:
    p = pipeline(SHAPES[name], x=int)
    rng = random.Random(7)
    events = [rng.randrange(9) for _ in range(40)]
    run, engine = Interpreter(p.graph), Engine(p.graph, mode=mode)
    at = 0
    while at < len(events):
        size = rng.choice([1, 2, 7])
        part = events[at : at + size]
        assert engine.push(x=part) == [v for e in part for v in run.push(x=e)["out"]]
        at += size


@pytest.mark.parametrize("mode", MODES)
def test_every_type_of_event(mode: str) -> None:
    p = pipeline(lambda x: x.lag(1), x=Reading)
    events = [Reading("a", 0.5, True), Reading("b", -0.0, False), Reading("é", 2.0, True)]
    got = Engine(p.graph, mode=mode).push(x=events)
    assert got == [(events[1], events[0]), (events[2], events[1])] == p(events)
    assert repr(got[0][0].value) == "-0.0"


@pytest.mark.parametrize("key", [None, INT])
def test_a_saved_state_goes_on_and_is_carried_over(key: Any) -> None:
    p = pipeline(lambda x: x.lag(3, id="back"), x=int)
    more = pipeline(lambda x: (x.lag(3, id="back"), x.trim(1, id="rest")), x=int)
    whole, first, second, changed = (Engine(q.graph, key=key, mode="python") for q in (p, p, p, more))
    events, keys = list(range(10, 22)), [i % 2 for i in range(12)]

    def push(engine: Engine, a: int, b: int) -> Any:
        return engine.push(x=events[a:b], **({"key": keys[a:b]} if key is not None else {}))

    head, tail = push(whole, 0, 8), push(whole, 8, 12)
    assert push(first, 0, 8) == head
    saved = first.save()
    second.load(saved)
    changed.carry(saved)
    assert push(second, 8, 12) == tail
    assert push(changed, 8, 12)["out1"] == tail


def test_another_k_is_another_memory() -> None:
    old, new = (pipeline(lambda x, k=k: x.lag(k, id="back"), x=int).engine(mode="python") for k in (2, 3))
    with pytest.raises(StateError, match=r"'back' \(lag\) has changed: ring0 was"):
        new.carry(old.save())
    trimmed = pipeline(lambda x: x.trim(2, id="back"), x=int).engine(mode="python")
    with pytest.raises(StateError, match=r"'back' \(lag\) is a trim now"):
        trimmed.carry(old.save())


# ---------------------------------------------------------------- the checks


@pytest.mark.parametrize("how", [{"ints": range(2)}, {"engine": "smt"}])
def test_it_is_the_task_that_one_would_write(how: dict[str, Any]) -> None:
    lag = pipeline(lambda x: x.lag(2).map(lambda p: p[0] - p[1]), x=int)
    task = pipeline(lambda x: x.task(by_hand, (0, 0, 0)).map(lambda p: p[0] - p[1]), x=int)
    assert check.equivalent(lag, task, **how).proved
    late = pipeline(lambda x: x.lag(1).map(lambda p: p[0] - p[1]).trim(1), x=int)
    verdict = check.equivalent(lag, late, **how)
    assert verdict.refuted and verdict.counterexample is not None


def test_it_is_two_streams_side_by_side() -> None:
    lag = pipeline(lambda x: x.lag(1).map(lambda p: p[0] + p[1]), x=int)
    queued = pipeline(lambda x: x.trim(1) + x, x=int)
    assert check.equivalent(lag, queued, ints=range(3)).proved


def test_keys_are_kept_apart() -> None:
    p = pipeline(lambda x: x.key_by(lambda v: v % 2).lag(1).map(lambda p: (p[0] - p[1]) % 2), x=int)
    assert check.holds(p, "AG (out -> out.value = 0)", ints=range(4)).proved
    mixed = pipeline(lambda x: x.lag(1).map(lambda p: (p[0] - p[1]) % 2), x=int)
    assert check.holds(mixed, "AG (out -> out.value = 0)", ints=range(4)).refuted


def test_a_function_behind_it_is_called_on_what_can_come() -> None:
    p = pipeline(lambda x: x.lag(1).map(lambda p: int(str(p[0])) - p[1], to=int), x=int)
    assert check.holds(p, "AG (out -> out.value < 3)", ints=range(3)).proved
    assert check.holds(p, "AG (out -> out.value < 2)", ints=range(3)).refuted
