"""The transition system does what the interpreter does, step by step, on random pipelines."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid import IntOverflow, Mod, Pipeline, StepError, UsageError, check, pipeline
from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Domain, domain_of
from pellucid.check.system.tracking import Track
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr.evaluate import evaluate
from tests.engine.kernel.test_kernel_random import by_interpreter
from tests.seeds import seeds
from tests.strategies import Seeded, make_input, make_pipeline


def zero(t: Any) -> Any:
    return getattr(t, "members", [None])[0] or {"bool": False, "int": 0, "float": 0.0, "str": ""}[str(t)]


class TooLongError(Exception):
    """A queue is longer than the system can tell."""


def by_system(
    p: Pipeline, s: System, pushes: list[dict[str, Any]]
) -> tuple[dict[str, list[Any]], dict[str, list[int]], int | None]:
    state = [v.start for v in s.state]
    values: dict[str, list[Any]] = {name: [] for name, _ in p.graph.outputs}
    places: dict[str, list[int]] = {name: [] for name in values}
    for i, push in enumerate(pushes):
        leaves = list(state)
        for name, t in s.sources:
            leaves += [name in push, *(t.flatten(push[name]) if name in push else [zero(k) for _, k in t.leaves()])]
        memo: dict[int, Any] = {}
        if evaluate(s.failed, leaves, memo):
            return values, places, i
        if evaluate(s.overflow, leaves, memo):
            raise TooLongError(i)
        for name in values:
            t, slots = s.streams[name]
            for slot in slots:
                if evaluate(slot.present, leaves, memo):
                    values[name].append(t.unflatten([evaluate(e, leaves, memo) for e in slot.leaves]))
                    places[name].append(i)
        state = [evaluate(e, leaves, memo) for e in s.next]
    return values, places, None


FOUND = [25140000099, 25140000109, 743000016, 743000103]  # queues longer than the bound; a window's queue without room


@pytest.mark.seeded
@pytest.mark.parametrize("seed", [*seeds(120), *FOUND])
def test_the_system_is_the_pipeline(seed: int) -> None:
    c = Seeded(seed)
    p = make_pipeline(c, max_steps=7, keys=seed % 2 == 1)
    compare(p, make_input(c, p, 8))


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(60))
def test_keys_that_are_given_up(seed: int) -> None:
    c = Seeded(7000 + seed)
    while True:
        p = make_pipeline(c, max_steps=6, forgets=True)
        if any(by is not None for by in p.graph.forgotten_by):
            break
    try:
        build_system(p.graph, Domain(), queue=12, track=Track(lanes=10))
    except UsageError:
        with pytest.raises(UsageError, match="checks do not follow forget"):
            build_system(p.graph, Domain(), queue=12, track=Track(lanes=10))
        return
    compare(p, make_input(c, p, 12))


def compare(p: Pipeline, pushes: list[dict[str, Any]]) -> None:
    values, places, _, failure = by_interpreter(p, pushes)
    if failure is not None and failure[0] is IntOverflow:
        return  # checks use exact integers
    try:
        got = by_system(p, build_system(p.graph, Domain(), queue=12, track=Track(lanes=10)), pushes)
    except TooLongError:  # and it says so: longer queues are not among what this system does
        run, longest = Interpreter(p.graph), 0
        for push in pushes:
            try:
                run.push(push)
            except StepError:
                break
            longest = max([longest, *map(len, run.queues.values())])
        assert longest > 4  # what waits within a push is more than what waits after it, but not by much
        queue = 60 + 2 * longest
        got = by_system(p, build_system(p.graph, Domain(), queue=queue, track=Track(lanes=10)), pushes)
    if failure is not None:
        assert got[2] == failure[2]
    else:
        assert (repr(got[0]), got[1], got[2]) == (repr(values), places, None)


def test_a_constant_that_is_not_there_modulo_n() -> None:
    p = pipeline(lambda x: x.map(lambda v: v * 2, id="double"), x=int)
    with pytest.raises(
        UsageError, match=r"step 'double' .* the constant 2 is not among the integers modulo 2: use Mod\(3\)"
    ):
        build_system(p.graph, domain_of(Mod(2)))


def test_bad_domains_and_queues() -> None:
    p = pipeline(lambda x: x.trim(1) - x, x=int)
    with pytest.raises(UsageError, match="has no queue 'nothing': it has apply-"):
        build_system(p.graph, Domain(), {"nothing": 2})
    with pytest.raises(UsageError, match=r"Mod\(N\) wants a whole number N of at least 2, found 1"):
        Mod(1)
    with pytest.raises(
        UsageError, match=r"ints= takes Mod\(N\), range\(lo, hi\) or a set of whole numbers, found 'many'"
    ):
        domain_of("many")


def test_a_constant_on_a_branch_is_reduced() -> None:
    p = pipeline(lambda x: x.map(lambda v: -1 if v > 0 else v), x=int)
    assert check.holds(p, "AG (out -> out.value >= 0)", ints=Mod(3), warn=False).proved
    pairs = pipeline(lambda x: x.task(lambda s, v: (v, [s, v]), initial=0), x=int)
    assert check.live(pairs, ints=Mod(2)).proved  # the number of a task's events is no integer modulo 2
