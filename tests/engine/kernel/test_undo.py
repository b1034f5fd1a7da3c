"""A push that fails is undone whole: what comes later is as if it had never been.

The judge tells the meaning of the pushes that are left (`tests.judge.told`): one more push is bad if, with it at the
end of those that were good, something fails.  It copies no state and undoes nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from pellucid import Pipeline, StepError, Stream, apply, merge, pipeline
from pellucid.internal.data.columns import Batch
from pellucid.internal.engine.in_memory import OnCores
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import INT
from tests.engine.kernel.test_kernel_random import batch_of, cut
from tests.seeds import seeds
from tests.strategies import Seeded, Telling, make_input, make_judged
from tests.volumes import some_seeds

Pushes = list[dict[str, Any]]


def told(telling: Telling, pushes: Pushes) -> tuple[dict[str, list[Any]], list[int]]:
    """What comes out of the pushes that are good, and which are bad."""
    good: Pushes = []
    bad = []
    for i, push in enumerate(pushes):
        if telling([*good, push])[1] is None:
            good.append(push)
        else:
            bad.append(i)
    return {name: [e.value for e in found] for name, found in telling(good)[0].items()}, bad


def pushed(engines: list[Engine], chunks: list[Batch]) -> tuple[dict[str, list[Any]], list[int]]:
    """The same by engines: the i-th chunk goes to the i-th, which takes over the state."""
    values: dict[str, list[Any]] = {name: [] for name, _ in engines[0].graph.outputs}
    failed: list[StepError] = []
    for i, batch in enumerate(chunks):
        if i and engines[i] is not engines[i - 1]:
            engines[i].load(engines[i - 1].save())
        for o in engines[i].push_batch(batch, positions=True, failed=failed):
            values[o.name] += o.events()
            assert not {int(at) for at in o.positions} & {error.position for error in failed}
    return values, [error.position for error in failed]


def check(p: Pipeline, telling: Telling, pushes: Pushes, sizes: list[int], modes: tuple[str, ...]) -> int:
    want, bad = told(telling, pushes)
    parts = cut(pushes, sizes)
    chunks = [batch_of(p, part) for part in parts]
    one = p.engine(mode=modes[0])
    handed = [p.engine(mode=modes[i % len(modes)]) for i in range(len(parts))]
    for engines, batches in (
        ([p.engine(mode=modes[0])], [batch_of(p, pushes)]),
        ([one] * len(parts), chunks),
        (handed, chunks),
    ):
        found, failed = pushed(engines, batches)
        assert (repr(found), failed) == (repr(want), bad), (p.graph, pushes)
    return len(bad)


@pytest.mark.seeded
def test_plain_kernels() -> None:
    for seed in seeds(40):
        c = Seeded(7000 + seed)
        p, telling = make_judged(c, max_steps=8, forgets=bool(seed % 2))
        pushes = make_input(c, p, c.of(range(5, 25)))
        check(p, telling, pushes, [c.of(range(6)) for _ in range(5)], ("python",))


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(1, 60))
def test_compiled_kernels(seed: int) -> None:
    """Fewer, since each has to be compiled; chunks alternate between the compiled and the plain form."""
    c = Seeded(8000 + seed)
    while True:
        p, telling = make_judged(c, max_steps=10)
        pushes = make_input(c, p, 30)
        if p.engine().why_plain is None and 0 < len(told(telling, pushes)[1]) < 20:
            break
    check(p, telling, pushes, [c.of(range(9)) for _ in range(6)], ("numba", "python"))


@pipeline
def every_memory(x: Stream[int], y: Stream[float]) -> Stream[float]:
    """Something that fails behind words, rings, blocks of a window, and queues of both kinds."""
    greatest = pipeline(lambda v: v.cumulate(lambda m, e: max(m, e), start=0), v=int)
    keyed = x.key_by(lambda v: v % 3)
    moved = merge(
        keyed.cumulate(lambda t, v: t + v, start=0), keyed.window(3, greatest), keyed.lag(2).map(lambda p: p[1])
    )
    ratio = moved.map(lambda v: 60.0 / (v - 7), id="ratio")
    return apply(lambda a, b: a + b, ratio.key_by(lambda v: v > 0), (y * 2.0).key_by(lambda v: v > 0))


def test_every_kind_of_memory() -> None:
    import copy

    rng = Seeded(5).rng
    pushes: Pushes = []
    for _ in range(400):
        push: dict[str, Any] = {"x": rng.randint(-4, 9)} if rng.random() < 0.9 else {}
        pushes.append(push | ({"y": rng.choice([-1.5, 2.5, 0.25])} if rng.random() < 0.7 else {}))
    keys = [rng.randint(0, 2) for _ in pushes]
    runs: dict[int, Interpreter] = {}
    want, bad = [], []
    for i, (push, key) in enumerate(zip(pushes, keys, strict=True)):  # each push is tried on a copy
        tried = copy.deepcopy(runs.get(key, Interpreter(every_memory.graph)))
        try:
            want += tried.push(**push)["out"]
            runs[key] = tried
        except StepError:
            bad.append(i)
    assert 20 < len(bad) < 200 and len(want) > 100
    for mode in ("numba", "python"):
        engine = Engine(every_memory.graph, key=INT, mode=mode)
        found, failed = pushed([engine], [batch_of(every_memory, pushes, keys)])
        assert (found["out"], failed) == (want, bad)
    failures: list[StepError] = []
    several = OnCores(every_memory.graph, key=INT, cores=2)
    (out,) = several.push_batch(batch_of(every_memory, pushes, keys), positions=True, failed=failures)
    assert (out.events(), [e.position for e in failures], several.cores) == (want, bad, 2)


def test_a_state_that_is_changed_in_place() -> None:
    def add(seen: list[int], v: int) -> tuple[list[int], list[int]]:
        seen.append(v)
        if v < 0:
            raise KeyError(v)
        return seen, [len(seen)]

    counted = pipeline(lambda x: x.task(add, [], to=int, id="add"), x=int)
    engine, failed = counted.engine(), list[StepError]()
    (out,) = engine.push_batch(Batch(5, [[[1, -1, 2, -2, 3]]]), failed=failed)
    assert out.events() == [1, 2, 3]
    assert [(e.position, e.step, e.why.splitlines()[0]) for e in failed] == [
        (1, "add", "on the arguments [1, -1], -1: KeyError: -1"),
        (3, "add", "on the arguments [1, 2, -2], -2: KeyError: -2"),
    ]
    assert engine.push([4]) == [4]  # and the engine goes on


def test_rows_that_are_masked_are_no_events() -> None:
    total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    (out,) = total.engine().push_batch(Batch(3, [[[1, 2, 3]]], [[True, False, True]]), failed=[])
    assert out.events() == [1, 4]
