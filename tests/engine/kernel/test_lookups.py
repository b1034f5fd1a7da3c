"""Answers that only Python can give, in a running engine: whole, in chunks, saved and loaded, and many of them."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from pellucid import Pipeline, Stream, apply, merge, pipeline
from pellucid.errors import IntOverflow, StepError
from pellucid.internal.data.columns import Batch, Strings
from pellucid.internal.engine.in_memory import OnCores
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel import engine as kernel_engine
from pellucid.internal.engine.kernel import lookups
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.rewrite import Direct
from pellucid.internal.expr.types import INT
from tests.engine.kernel.test_kernel_random import batch_of, cut
from tests.expr.written import TEXTS
from tests.seeds import seeds
from tests.strategies import PipelineMeaning, Seeded, make_input, make_judged
from tests.volumes import some_seeds

NAMES = {"AA": "American", "UA": "United", "ß": "Sharp"}


class Row(NamedTuple):
    carrier: str
    flight: int
    late: float


def named(x: Any) -> Any:
    named = x.map(lambda e: (NAMES.get(e.carrier.upper(), e.carrier) + "-" + str(e.flight), e.late))
    return named.filter(lambda e: e[0].startswith(("A", "S", "x")) or len(e[0]) > 3).cumulate(
        lambda last, e: (last + e[0])[-12:], start=""
    )


rows_of = [Row(c, f, 1.5) for c in ("aa", "UA", "x", "ß", "") for f in (1, 22, -3)]


def by_meaning(p: Any, rows: list[Any]) -> list[Any]:
    run = Interpreter(p.graph)
    return [v for row in rows for v in run.push({"x": row})["out"]]


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_whole_chunked_saved_and_loaded(mode: str) -> None:
    p = pipeline(named, x=Row)
    assert p.engine().why_plain is None
    rng = random.Random(next(iter(seeds(1))))
    rows = [rng.choice(rows_of) for _ in range(200)]
    want = by_meaning(p, rows)
    assert p.engine(mode=mode).push(rows) == want
    engine, got, at = p.engine(mode=mode), [], 0
    while at < len(rows):
        size = rng.choice([1, 2, 7, 30])
        got += engine.push(rows[at : at + size])
        at += size
        saved = engine.save()
        engine = p.engine(mode=mode)
        engine.load(saved)
    assert got == want


def test_from_plain_to_compiled_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_engine, "COMPILE_FROM", 50)
    p = pipeline(named, x=Row)
    rows = [rows_of[i % len(rows_of)] for i in range(120)]
    engine = p.engine()
    assert [v for i in range(0, 120, 24) for v in engine.push(rows[i : i + 24])] == by_meaning(p, rows)


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_more_texts_than_a_table_has_room_for(mode: str) -> None:
    p = pipeline(lambda x: x.map(lambda s: s[::-1]).map(lambda s: s + "!").map(lambda s: (s, len(s), s < "5")), x=str)
    texts = [f"{i}" for i in range(6000)]
    want = [(s[::-1] + "!", len(s) + 1, s[::-1] + "!" < "5") for s in texts]
    assert p.engine(mode=mode).push(texts) == want
    engine = p.engine(mode=mode)
    assert [v for i in range(0, 6000, 1500) for v in engine.push(texts[i : i + 1500])] == want


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_more_pairs_than_are_kept(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "_MOST", 1 << 13)
    p = pipeline(lambda x: x.map(lambda e: e[0] + str(e[1])), x=tuple[str, int])
    rows = [("ab"[i % 2], i % 20_000) for i in range(40_000)]
    assert p.engine(mode=mode).push(rows) == [s + str(n) for s, n in rows]


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_texts_are_forgotten_and_made_again(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_engine, "_MANY_STRINGS", 100)
    p = pipeline(lambda x: x.cumulate(lambda last, s: s.upper() + last[:3], start=""), x=str)
    texts = [f"a{i % 300}" for i in range(2000)]
    want = by_meaning(p, texts)
    engine = p.engine(mode=mode)
    assert [v for i in range(0, 2000, 50) for v in engine.push(texts[i : i + 50])] == want
    assert len(engine.state.strings) < 1000


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_a_failure_names_the_event_and_its_place(mode: str) -> None:
    p = pipeline(lambda x: x.map(lambda s: int(s.split(",")[1]), id="cut"), x=str)
    with pytest.raises(StepError, match=r"step 'cut' .* failed at push 2 on the event 'x': IndexError: list index"):
        p.engine(mode=mode).push(["a,1", "b,2", "x", "y"])
    with pytest.raises(StepError, match="ValueError: invalid literal for int"):
        p.engine(mode=mode).push(["a,b"])
    with pytest.raises(IntOverflow, match="an integer left the signed 64-bit range"):
        p.engine(mode=mode).push(["a,9223372036854775808"])


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_an_answer_that_nobody_asks_for_does_not_fail(mode: str) -> None:
    p = pipeline(lambda x: x.filter(lambda s: s.isdigit()).map(lambda s: int(s)), x=str)
    assert p.engine(mode=mode).push(["x", "12", "", "7"]) == [12, 7]
    q = pipeline(lambda x: x.map(lambda s: int(s) if s.isascii() and s.isdigit() else -1), x=str)
    assert q.engine(mode=mode).push(["x", "12", "²", "٣"]) == [-1, 12, -1, -1]


def test_what_stops_the_host_stops_the_kernel() -> None:
    p = pipeline(lambda x: x.map(lambda s: s.upper(), id="up"), x=str)
    engine = p.engine(mode="numba")
    assert engine.push(["a"]) == ["A"]

    def interrupted(given: Any) -> Any:
        raise KeyboardInterrupt

    (found,) = [t for one in engine._lookups.values() for t in one.tables]
    found.answer = interrupted
    with pytest.raises(KeyboardInterrupt):
        engine.push(["a", "b", "c"])


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_keys_windows_and_tasks(mode: str) -> None:
    keyed = pipeline(
        lambda x: x.key_by(lambda s: s[:1].lower()).cumulate(lambda t, s: t + len(s.strip()), start=0), x=str
    )
    assert keyed.engine(mode=mode).push(["Ab", "a ", "b", "B!"]) == [2, 3, 1, 3]
    windows = pipeline(
        lambda x: x.window(
            2, lambda w: w.map(lambda s: len(s) + NUMBER.get(s, 0)).cumulate(lambda a, b: a + b, start=0)
        ),
        x=str,
    )
    assert windows.engine(mode=mode).push(["aa", "b", "ccc"]) == [13, 4]

    def words(last: str, s: str) -> tuple[str, list[str]]:
        first, _, rest = s.partition(" ")
        return first, [rest, last + "/" + first] if rest else [s]

    tasks = pipeline(lambda x: x.task(words, initial=""), x=str)
    assert tasks.engine(mode=mode).why_plain is None
    assert tasks.engine(mode=mode).push(["a b", "c", "d e"]) == ["b", "/a", "c", "e", "c/d"]


NUMBER = {"aa": 10}


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_columns_with_a_dictionary(mode: str) -> None:
    import numpy as np

    p = pipeline(lambda x: x.map(lambda s: s.casefold()), x=str)
    codes = np.array([i % len(TEXTS) for i in range(500)])
    (out,) = p.engine(mode=mode).push_batch(Batch(500, [[Strings(codes, TEXTS)]]))
    assert out.events() == [TEXTS[c].casefold() for c in codes.tolist()]


def test_each_text_is_asked_for_once() -> None:
    asked: list[str] = []

    def f(s: str) -> str:
        asked.append(s)
        return s + "x"

    table = lookups.Lookups([(Direct("f", f, pipeline(lambda x: x, x=str).graph["x"].type, False), (STRING,))], False)
    from pellucid.internal.engine.state import TextTable

    strings = TextTable(["a", "b"])
    table.of(strings)
    known = table.arguments()["L0"]
    assert [known[c] for c in (0, 1, 0, 1)] == [2, 3, 2, 3] and asked == ["a", "b"]
    assert strings.texts == ["a", "b", "ax", "bx"]


STRING = pipeline(lambda x: x, x=str).graph["x"].type


# A push that fails is undone whole: what comes later is as if it had never been.
#
# The judge tells the meaning of the pushes that are left (`tests.judge.streams`): one more push is bad if, with it at
# the
# end of those that were good, something fails.  It copies no state and undoes nothing.

Pushes = list[dict[str, Any]]


def expected(meant: PipelineMeaning, pushes: Pushes) -> tuple[dict[str, list[Any]], list[int]]:
    """What comes out of the pushes that are good, and which are bad."""
    good: Pushes = []
    bad = []
    for i, push in enumerate(pushes):
        if meant([*good, push])[1] is None:
            good.append(push)
        else:
            bad.append(i)
    return {name: [e.value for e in found] for name, found in meant(good)[0].items()}, bad


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


def check(p: Pipeline, meant: PipelineMeaning, pushes: Pushes, sizes: list[int], modes: tuple[str, ...]) -> int:
    want, bad = expected(meant, pushes)
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
        p, meant = make_judged(c, max_steps=8, forgets=bool(seed % 2))
        pushes = make_input(c, p, c.of(range(5, 25)))
        check(p, meant, pushes, [c.of(range(6)) for _ in range(5)], ("python",))


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(1, 60))
def test_compiled_kernels(seed: int) -> None:
    """Fewer, since each has to be compiled; chunks alternate between the compiled and the plain form."""
    c = Seeded(8000 + seed)
    while True:
        p, meant = make_judged(c, max_steps=10)
        pushes = make_input(c, p, 30)
        if p.engine().why_plain is None and 0 < len(expected(meant, pushes)[1]) < 20:
            break
    check(p, meant, pushes, [c.of(range(9)) for _ in range(6)], ("numba", "python"))


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
