"""The kernel engine: keys, growth, overflow, saved states, the cache, and what cannot be compiled."""

from __future__ import annotations

import os
import pickle
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pellucid import DataError, IntOverflow, StateError, StepError, Stream, UsageError, apply, merge, pipeline, silent
from pellucid.internal.base import files as cache
from pellucid.internal.data.columns import Batch, Strings
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel import engine as engines
from pellucid.internal.engine.kernel import lookups
from pellucid.internal.engine.kernel.emit import MOST_LINES, emit, loop
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.steps import Timers
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.model import Graph
from tests.engine.kernel.machines import machine
from tests.engine.kernel.test_kernel_random import check
from tests.engine.timed.literal_engine import LiteralEngine
from tests.seeds import seeds
from tests.strategies import Seeded, make_input, make_judged
from tests.volumes import some_seeds

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
ROOT = Path(__file__).resolve().parents[3]
MODES = ["python", "numba"]


class Sale(NamedTuple):
    shop: str
    amount: int


def test_a_million_keys_that_are_small_numbers() -> None:
    keys = np.random.default_rng(0).integers(0, 10**6, 3 * 10**6)
    (out,) = Engine(total.graph, key=INT, mode="numba").push_batch(
        Batch(len(keys), [[np.ones(len(keys), np.int64)]], [], [[keys]])
    )
    order = np.argsort(keys, kind="stable")
    starts = np.r_[0, np.flatnonzero(np.diff(keys[order])) + 1]
    counts = np.arange(len(keys)) - np.repeat(starts, np.diff(np.r_[starts, len(keys)])) + 1
    assert (out.columns[0][order] == counts).all()


def test_a_million_keys_all_over_the_place_in_chunks_and_saved() -> None:
    rng = np.random.default_rng(0)
    names = rng.integers(-(2**63), 2**63 - 1, 10**6)
    engine = Engine(total.graph, key=INT, mode="numba")
    ones = np.ones(len(names), np.int64)
    engine.push_batch(Batch(len(names), [[ones]], [], [[names]]))
    other = Engine(total.graph, key=INT, mode="numba")
    other.load(engine.save())
    (out,) = other.push_batch(Batch(len(names), [[ones]], [], [[names[::-1].copy()]]), positions=True)
    assert (out.columns[0] >= 2).all()
    assert (out.keys[0] == names[::-1]).all()  # type: ignore[index]


@pytest.mark.parametrize("mode", MODES)
def test_keys_below_above_and_beside_the_small_ones(mode: str) -> None:
    keys = [*range(5000), -1, 10**12, 4999, -1, 10**12, 70_000, -(2**63)]
    p = pipeline(lambda x: x.key_by(lambda v: v).cumulate(lambda n, v: n + 1, start=0), x=int)
    assert p.engine(mode=mode).push(keys) == [*[1] * 5002, 2, 2, 2, 1, 1]


@pytest.mark.parametrize("mode", MODES)
def test_text_keys_and_text_in_the_state(mode: str) -> None:
    def longest(last: Sale, s: Sale) -> Sale:
        return s if s.amount > last.amount else last

    p = pipeline(lambda x: x.key_by(lambda s: s.shop).cumulate(longest, start=Sale("none", 0)), x=Sale)
    sales = [Sale("a", 3), Sale("b", 1), Sale("a", 2), Sale("ü", 9), Sale("a", 7)]
    engine = p.engine(mode=mode)
    first = engine.push(sales[:3])
    again = p.engine(mode="python")
    again.load(engine.save())
    assert first + again.push(sales[3:]) == [Sale("a", 3), Sale("b", 1), Sale("a", 3), Sale("ü", 9), Sale("a", 7)]


def test_texts_are_forgotten_with_the_events_that_held_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.internal.engine.kernel.engine._MANY_STRINGS", 1000)
    p = pipeline(lambda x: x.cumulate(lambda last, s: s if last == "first" else last, start="first"), x=str)
    engine = p.engine(mode="numba")
    for chunk in range(10):
        texts = [f"{chunk}-{i}" for i in range(500)]
        (out,) = engine.push_batch(Batch(500, [[Strings(np.arange(500), texts)]]))
        assert out.events() == ["0-0"] * 500
    assert len(engine.state.strings) < 2000


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chunk", [1, 7])
def test_a_queue_grows_without_end(mode: str, chunk: int) -> None:
    p = pipeline(lambda x: apply(lambda a, b: a + b, x.decimate(3), x), x=int)  # Figure 2a
    engine = p.engine(mode=mode)
    data = list(range(3000 if chunk > 1 else 300))
    out = [e for i in range(0, len(data), chunk) for e in engine.push(data[i : i + chunk])]
    assert out == [4 * i for i in range(len(data) // 3)]
    assert list(engine.queues.values()) == [0, len(data) * 2 // 3]


@pytest.mark.parametrize("mode", MODES)
def test_overflow_is_found_at_its_push(mode: str) -> None:
    engine = total.engine(mode=mode)
    engine.push([1] * 10)
    with pytest.raises(IntOverflow) as error:
        engine.push([5, 2**63 - 20, 100])
    assert error.value.position == 12
    assert "failed at push 12" in str(error.value)
    assert "9223372036854775803, 100" in str(error.value)
    with pytest.raises(StateError, match="stopped at push 12"):
        engine.push([1])
    with pytest.raises(StateError, match="is not saved"):
        engine.save()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("k", [1, 3, 50])
def test_windows_of_large_numbers_fall_back_to_the_definition(mode: str, k: int) -> None:
    """Large events, but no window overflows: the fast way must step aside and come back."""
    rng = random.Random(k)
    data = [rng.choice([1, -3, 2**62, -(2**62), 7]) if i % 60 == 0 else rng.randint(-9, 9) for i in range(400)]
    for f in (lambda t, v: t + v, lambda t, v: max(t, v), lambda t, v: min(t, v), lambda t, v: t + v // 3):
        sub = pipeline(lambda x, f=f: x.cumulate(f, start=2), x=int)
        p = pipeline(lambda x, sub=sub: x.window(k, sub), x=int)
        run = Interpreter(p.graph)
        assert p.engine(mode=mode).push(data) == [e for v in data for e in run.push(x=v)["out"]]


@pytest.mark.parametrize("mode", MODES)
def test_a_window_overflows_where_the_definition_says(mode: str) -> None:
    p = pipeline(lambda x: x.window(3, total), x=int)
    data = [1, 2, 3, 2**63 - 1, 1, -5, 2]  # the prefix 3 + (2**63 - 1) of the window 2, 3, 2**63 - 1 …
    with pytest.raises(IntOverflow) as error:
        p.engine(mode=mode).push(data)
    run = Interpreter(p.graph)
    with pytest.raises(IntOverflow) as wanted:
        run.run({"x": v} for v in data)
    assert error.value.position == wanted.value.position == 3


def test_small_inputs_do_not_wait_for_a_compiler() -> None:
    code = (
        "import sys; from pellucid import pipeline; p = pipeline(lambda x: x.trim(1), x=int); p([1, 2]); "
        "print('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_second_start_does_not_compile_again(tmp_path: Path) -> None:
    code = (
        "import time; from pellucid import pipeline; import numba, numpy, pellucid.internal.engine.kernel.prims as p; "
        "from numba.core import event\n"
        "class L(event.Listener):\n"
        "    n = 0\n"
        "    def on_start(self, e): L.n += 1\n"
        "    def on_end(self, e): pass\n"
        "event.register('numba:compile', L())\n"
        "q = pipeline(lambda x: x.map(lambda v: v * 3 + 1).cumulate(lambda t, v: t + v, start=0), x=int)\n"
        "q.engine(mode='numba').push([1, 2]); print(L.n)"
    )
    env = os.environ | {"PELLUCID_CACHE": str(tmp_path / "cache")}
    runs = [
        int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout)
        for _ in range(2)
    ]
    assert runs[0] > 0
    assert runs[1] == 0


@pytest.mark.parametrize("place", ["file/cache", "~no_such_user_here/cache"])
def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path, place: str) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    code = (
        "from pellucid import pipeline; print(pipeline(lambda x: x.map(lambda v: v * 31 + 1), "
        "x=int).engine(mode='numba').push([1, 2]))"
    )
    env = os.environ | {"PELLUCID_CACHE": place if place[0] == "~" else str(tmp_path / place)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env, cwd=tmp_path
    )
    assert done.stdout == "[32, 63]\n" and os.listdir(tmp_path) == ["file"]


def test_a_damaged_state_is_refused() -> None:
    engine = total.engine()
    engine.push([1, 2])
    data = engine.save()
    for bad in (data[:-1], data[:-3] + bytes([data[-3] ^ 1]) + data[-2:], b"PELLUCID STATE\n"):
        with pytest.raises(StateError, match="damaged"):
            total.engine().load(bad)
    with pytest.raises(StateError, match="no saved state"):
        total.engine().load(b"hello")


def test_a_state_of_another_pipeline_is_refused_with_the_steps() -> None:
    one = pipeline(lambda x: x.trim(2, id="cut").cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
    two = pipeline(lambda x: x.window(2, total, id="win").cumulate(lambda t, v: t + v, start=0.5, id="sum"), x=int)
    with pytest.raises(StateError) as error:
        two.engine().load(one.engine().save())
    assert str(error.value) == (
        "the saved state: belongs to another run: it is of 'pipeline' as it was before a change; "
        "steps that differ: gone: cut; new: win; changed: sum. carry() takes a state over to a changed pipeline"
    )


def test_what_cannot_be_compiled_says_why() -> None:
    p = pipeline(lambda x: x.map(lambda v: v + random.randint(0, 0), to=int, id="noise"), x=int)
    assert p.engine().push([1, 2]) == [1, 2]
    with pytest.raises(UsageError, match=r"step 'noise' .* a lambda calls Random\.getrandbits\(\)"):
        p.engine(mode="numba")
    with pytest.raises(UsageError, match="'auto', 'numba' or 'python', found 'fast'"):
        p.engine(mode="fast")


def test_a_task_with_any_state_at_all() -> None:
    def unique(seen: frozenset[int], v: int) -> tuple[frozenset[int], list[int]]:
        return seen | {v}, [] if v in seen else [v]

    p = pipeline(lambda x: x.task(unique, initial=frozenset(), to=int), x=int)
    engine = p.engine()
    assert engine.push([1, 2, 1]) == [1, 2]
    other = p.engine()
    other.load(engine.save())
    assert other.push([2, 3]) == [3]


@pytest.mark.parametrize("mode", MODES)
def test_a_users_own_raise_shows_the_event_and_the_line(mode: str) -> None:
    def positive(v: int) -> int:
        if v < 0:
            raise ValueError(f"{v} is negative")
        return v

    p = pipeline(lambda x: x.map(positive, id="check"), x=int)
    with pytest.raises(StepError) as error:
        p.engine(mode=mode).push([1, 2, -3])
    first, second = str(error.value).splitlines()
    assert first.startswith("step 'check' (map positive, test_kernel.py:")
    assert first.endswith(") failed at push 2 on the event -3: ValueError: -3 is negative")
    assert second.endswith('in positive: raise ValueError(f"{v} is negative")')


@pytest.mark.parametrize("mode", MODES)
def test_several_sources_and_outputs(mode: str) -> None:
    def both(a: Stream[int], b: Stream[int]) -> tuple[Stream[int], Stream[int]]:
        return merge(a, b), apply(lambda x, y: x * y, a, b)

    p = pipeline(both, a=int, b=int)
    assert p.engine(mode=mode).push([1, 2, 3], [10, 20]) == {"out1": [1, 10, 2, 20, 3], "out2": [10, 40]}
    assert p.engine(mode=mode).push([silent, 2, silent], [silent, 10]) == {"out1": [2, 10], "out2": [20]}
    assert p.engine(mode=mode).push([silent], [silent]) == {"out1": [], "out2": []}
    assert p.engine(mode=mode).push([], []) == {"out1": [], "out2": []}
    with pytest.raises(UsageError, match="wants one chunk for each source: a, b"):
        p.engine().push([1])
    assert p.engine(mode=mode).push(np.array([1]), np.array([2]))["out1"].tolist() == [1, 2]


def test_arrays_that_do_not_fit_are_refused() -> None:
    engine = total.engine()
    for bad in (np.array([1.5]), np.array([[1]]), np.array(["a"])):
        with pytest.raises(DataError, match="expected a one-dimensional array of int"):
            engine.push(bad)
    with pytest.raises(DataError, match=r"event 1: NaN is no event"):
        pipeline(lambda x: x, x=float).engine().push(np.array([1.0, np.nan]))
    assert engine.push(np.array([1, 2], np.int32)).tolist() == [1, 3]


class Pair(NamedTuple):
    k: int
    v: int


@pytest.mark.parametrize("mode", MODES)
def test_two_keys_can_meet_in_one_push(mode: str) -> None:
    """Each input completes a pair of another key: more events than either input brought."""

    def meet(a: Stream[Pair], b: Stream[Pair]) -> Stream[int]:
        return apply(lambda x, y: x.v * 100 + y.v, a.key_by(lambda e: e.k), b.key_by(lambda e: e.k))

    p = pipeline(meet, a=Pair, b=Pair)
    left, right = [Pair(2, 1), Pair(1, 2)], [Pair(1, 3), Pair(2, 4)]
    assert p.engine(mode=mode).push(left, right) == [203, 104]
    twice = pipeline(
        lambda x: apply(lambda x, y: x.k * 100 + y.v, x.key_by(lambda e: e.k), x.key_by(lambda e: e.v)), x=Pair
    )
    data = [Pair(1, 2), Pair(2, 1), Pair(2, 2), Pair(1, 1), Pair(3, 1), Pair(1, 3)]
    assert twice.engine(mode=mode).push(data) == [202, 101, 202, 101, 101, 303]


def test_a_state_that_can_be_changed_is_not_shared() -> None:
    def collect(seen: list[int], v: int) -> tuple[list[int], list[int]]:
        seen.append(v)
        return seen, [sum(seen)]

    p = pipeline(lambda x: x.task(collect, initial=[], to=int), x=int)
    assert p([1, 2, 3]) == p([1, 2, 3]) == [1, 3, 6]
    keyed = pipeline(lambda x: x.key_by(lambda v: v % 2).task(collect, initial=[], to=int), x=int)
    assert keyed([1, 2, 3, 4]) == [1, 2, 4, 6]
    inside = pipeline(lambda x: x.window(2, lambda w: w.task(collect, initial=[], to=int)), x=int)
    assert inside([1, 2, 3]) == [3, 5]


def test_whatever_stops_a_push_stops_the_engine() -> None:
    calls = []

    def interrupted(s: int, v: int) -> tuple[int, list[int]]:
        calls.append(v)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return s + v, [s + v]

    engine = pipeline(lambda x: x.decimate(1).task(interrupted, initial=0, to=int), x=int).engine()
    with pytest.raises(KeyboardInterrupt):
        engine.push([1, 2, 3, 4])
    with pytest.raises(StateError, match="was stopped by KeyboardInterrupt"):
        engine.push([1])


def test_large_keys_of_wide_rows_do_not_take_all_memory() -> None:
    p = pipeline(lambda x: x.key_by(lambda v: v).window(1000, total), x=int)
    keys = np.random.default_rng(0).choice(np.arange(100) * 11_000, 100_000)
    engine = p.engine(mode="numba")
    engine.push(keys)
    assert sum(rows.nbytes for rows in engine.state.rows) < 10_000_000


def test_a_damaged_cache_is_thrown_away(tmp_path: Path) -> None:
    code = (
        "from pellucid import pipeline; print(pipeline(lambda x: x.map(lambda v: v * 7 + 1), "
        "x=int).engine(mode='numba').push([1]))"
    )
    cache = tmp_path / "cache"
    env = os.environ | {"PELLUCID_CACHE": str(cache)}
    said = []
    for harm in (
        lambda data: data[:100],
        lambda data: data.replace(b"_add", b"_sub").replace(b"_mul", b"_add"),
        lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 16]) + data[len(data) // 2 + 1 :],
        lambda data: pickle.dumps(Planted(str(tmp_path / "planted"))),
        lambda data: data,
    ):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
        assert run.stdout == "[8]\n" and not (tmp_path / "planted").exists()
        said.append(run.stderr)
        for kept in cache.rglob("*"):
            if kept.is_file() and kept.stat().st_size > 32:
                kept.write_bytes(harm(kept.read_bytes()))
    assert said[0] == "" and all(
        re.fullmatch(
            r"\S+/cache/kernel-\w+\.pellucid-kept: is not as Pellucid wrote it: what is not to be trusted there is "
            r"thrown away, and made anew\n",
            line,
        )
        for line in (said[1], *said[3:])
    )


class Planted:
    """A pickle that leaves a folder behind when it is read."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (self.marker,)


def test_what_others_may_have_put_into_the_cache_is_not_run(tmp_path: Path) -> None:
    """Nor is what older versions kept there; what is none of Pellucid's stays."""
    code = (
        "from pellucid import pipeline; print(pipeline(lambda x: x.map(lambda v: v * 7 + 2), "
        "x=int).engine(mode='numba').push([1]))"
    )
    cache = tmp_path / "cache"
    env = os.environ | {"PELLUCID_CACHE": str(cache)}
    runs = []
    for _ in range(3):
        runs.append(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env))
        (cache / "mine.py").write_text("x = 1")
        (cache / f"k_{24 * 'a'}.py").write_text("raise SystemExit(4)")
        kept = {path: path.stat().st_ino for path in cache.glob("*.pellucid-kept")}
        cache.chmod(0o775)
    assert [run.stdout for run in runs] == ["[9]\n"] * 3
    assert [run.stderr.count("others could write in it") for run in runs] == [0, 1, 1]
    cache.chmod(0o700)
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert (again.stdout, again.stderr) == ("[9]\n", "")
    assert {path: path.stat().st_ino for path in cache.glob("*.pellucid-kept")} == kept
    assert (cache / "mine.py").exists()


def test_a_disk_that_is_full_costs_only_time(tmp_path: Path) -> None:
    code = (
        "import resource; from pellucid import pipeline; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
        "print(pipeline(lambda x: x.map(lambda v: v * 7 + 3), x=int).engine(mode='numba').push([1]))"
    )
    env = os.environ | {"PELLUCID_CACHE": str(tmp_path / "cache")}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert (run.stdout, run.stderr) == ("[10]\n", "")


def test_many_starts_at_the_same_time_share_a_cache(tmp_path: Path) -> None:
    code = (
        "from pellucid import pipeline; print(pipeline(lambda x: x.map(lambda v: v * 7 + 4), "
        "x=int).engine(mode='numba').push([1]))"
    )
    env = os.environ | {"PELLUCID_CACHE": str(tmp_path / "cache")}
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True, env=env) for _ in range(3)
    ]
    assert [run.communicate() for run in started] == [("[11]\n", "")] * 3
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".key", ".pellucid-kept"]


def test_what_a_function_may_be_made_of_is_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of any module of its folder, of an option or of the types is another function."""
    from pellucid.internal.base.kept import kept_jit, sources

    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    package = tmp_path / "made_of"
    package.mkdir()
    for name in ("__init__", "part"):
        (package / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    counts = []
    for part, options, value in [("", {}, 1), ("", {}, 1), ("x = 1", {}, 1), ("", {"nogil": True}, 1), ("", {}, 1.5)]:
        (package / "part.py").write_text(part)
        sources.cache_clear()
        space: dict[str, Any] = {"__name__": "made_of", "__package__": "made_of"}
        exec("def same(n): return n", space)
        made = kept_jit(**options)(space["same"])  # type: ignore[arg-type]
        assert made(value) == value
        counts.append(len(list((tmp_path / "cache").glob("same-*"))))
    sources.cache_clear()
    assert counts == [1, 1, 2, 3, 4]


@pytest.mark.long
def test_no_damage_of_the_cache_is_run() -> None:
    cases = 500
    command = [sys.executable, "-m", "tests.base.cache_damage", "--cases", str(cases)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout == f"{cases} cases, {2 * cases} starts: {2 * cases} right\n"


@pytest.mark.parametrize("target", ["nowhere", cache.KEY])
def test_a_key_that_is_a_link_to_nothing_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path))
    (tmp_path / cache.KEY).symlink_to(target)
    cache.keep("loop", b"code")
    assert cache.read_kept("loop") == b"code"
    assert not (tmp_path / cache.KEY).is_symlink()


def test_a_state_that_cannot_be_saved() -> None:
    engine = pipeline(lambda x: x.task(lambda s, v: ((lambda: 1), [v]), initial=None, to=int, id="odd"), x=int).engine()
    engine.push([1])
    with pytest.raises(
        StateError,
        match=r"step 'odd' \(task λ, test_kernel.py:\d+\): its state cannot be saved: state is a function, which is "
        r"not data",
    ):
        engine.save()


def test_an_engine_per_key() -> None:
    p = pipeline(lambda v: v.cumulate(lambda n, v: n + v, start=0), v=int)
    one = p.engine(key=str)
    assert one.push([1, 2, 3], key=["a", "b", "a"]) == [1, 2, 4]
    assert one.push([silent, 5], key=["c", "b"]) == [7]
    assert one.push(np.array([1, 1]), key=np.array(["a", "b"])).tolist() == [5, 8]
    two = p.engine(key=(str, int))
    assert two.push([1, 2, 3, 4], key=[("a", 1), ("a", 2), ("b", 1), ("a", 1)]) == [1, 2, 3, 5]
    pairs = pipeline(lambda x, y: x + y, x=int, y=int).engine(key=bool)
    assert pairs.push([1, 2], [30, 40], key=[True, False]) == [31, 42]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (
            lambda p: p.engine(key="a"),
            "key= is the type of the key that comes with every event: str, int, bool, an enum, or (str, int)",
        ),
        (
            lambda p: p.engine(key=["a", "b"]),
            "to run a table by its columns, call the pipeline on it, as in p(table, key='user')",
        ),
        (lambda p: p.engine(key={}), "pipeline.engine(key={}): key= is the type"),
        (lambda p: p.engine(key=float), "pipeline.engine(key=<class 'float'>): key= is the type"),
        (lambda p: p.engine(key=()), "key= is the type"),
        (
            lambda p: p.engine(key=str).push([1]),
            "pipeline runs per key here (str): expected the key of each push, as in push(events, key=[…]), found none",
        ),
        (
            lambda p: p.engine(key=str).push([1], key="a"),
            "expected the key of each push, as in push(events, key=[…]), found 'a'",
        ),
        (lambda p: p.engine(key=str).push([1, 2], key=["a"]), "expected 2 keys, one for each push, found 1"),
        (lambda p: p.engine(key=str).push([1], key=[1]), "source 'key', event 0: expected str, found int 1"),
        (
            lambda p: p.engine(key=str).push_batch({"v": [1]}),
            "push_batch takes a Batch of columns, found dict",
        ),
    ],
)
def test_keys_that_an_engine_does_not_take(ask: Any, said: str) -> None:
    with pytest.raises((UsageError, DataError)) as caught:
        ask(pipeline(lambda v: v.trim(1), v=int))
    assert said in str(caught.value)


def test_a_table_is_no_chunk_of_events() -> None:
    """Its items are columns, or the names of columns: as texts these would be events."""
    texts = pipeline(lambda x: x.map(lambda v: v + "!"), x=str)
    for table in (pd.DataFrame({"x": ["a"]}), pa.table({"x": ["a"]}), {"x": "a"}):
        with pytest.raises(
            UsageError, match=r"source 'x': a chunk is a list of events, found .*: call the pipeline itself"
        ):
            texts.engine().push(table)


# Lists in the kernel: the elements of lists of any length, compiled, in chunks, saved and loaded, are those that plain
# Python gives.


class Item(NamedTuple):
    sku: str
    n: int
    price: float | None
    parts: list[int]


class Order(NamedTuple):
    id: int
    items: list[Item]


class Line(NamedTuple):
    order: int
    sku: str
    n: int
    parts: int


@pipeline
def lines(orders: Stream[Order]) -> tuple[Stream[Line], Stream[int], Stream[int]]:
    """The lines of all orders, how many of each kind so far, and what is in their parts."""
    pairs = orders.explode(lambda o: o.items, beside=True, id="lines")
    made = pairs.map(lambda p: Line(p[0].id, p[1].sku, p[1].n, len(p[1].parts)))
    counts = made.key_by(lambda line: line.sku).cumulate(lambda t, line: t + line.n, start=0, id="counts")
    deep = orders.filter(lambda o: o.items).lag(1, id="before").explode(lambda p: p[1].items[-1].parts, id="deep")
    return made, counts, deep


def plainly(orders: list[Order]) -> tuple[list[Line], list[int], list[int]]:
    made = [Line(o.id, i.sku, i.n, len(i.parts)) for o in orders for i in o.items]
    counts, total = [], Counter[str]()
    for line in made:
        total[line.sku] += line.n
        counts.append(total[line.sku])
    there = [o for o in orders if o.items]
    return made, counts, [part for o in there[:-1] for part in o.items[-1].parts]


def orders_of(seed: int, count: int, longest: int) -> list[Order]:
    rng = random.Random(seed)
    item = lambda: Item(
        rng.choice("abcdefgh") * rng.choice([1, 1, 2]), rng.randrange(9), rng.choice([None, 0.5]),
        [rng.randrange(100) for _ in range(rng.choice([0, 1, 3]))],
    )  # fmt: skip
    return [Order(i, [item() for _ in range(rng.choice([0, 1, 2, 5, rng.randrange(longest)]))]) for i in range(count)]


@pytest.mark.seeded
@pytest.mark.parametrize("mode", ["python", "numba"])
def test_elements_of_any_length(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer lists than the kernel was made for, more of them than the tables hold, in chunks, saved and loaded."""
    monkeypatch.setattr(lookups, "_MOST_ELEMENTS", 3_000)
    orders = orders_of(seeds(1)[0], 400, 4)[:50] + orders_of(seeds(1, 9)[0], 600, 60)
    engine = Engine(lines.graph, mode=mode)
    names, got = [name for name, _ in lines.graph.outputs], [[], [], []]  # type: ignore[var-annotated]
    for at in range(0, len(orders), 130):
        out = engine.push(orders[at : at + 130])
        for name, events in zip(names, got, strict=True):
            events += out[name]
        saved = engine.save()
        engine = Engine(lines.graph, mode=mode)
        engine.load(saved)
    assert tuple(got) == plainly(orders)


def test_a_list_too_long_to_compile_for_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_LONG", 16)
    p = pipeline(lambda x: x.explode(lambda v: v), x=list[int])
    engine = Engine(p.graph, mode="numba")
    assert engine.push([list(range(100)), [], [7]]) == [*range(100), 7]
    assert engine.push([[8]]) == [8]


def test_a_saved_state_of_another_list_is_refused() -> None:
    def made(t: Any) -> Engine:
        return pipeline(lambda x: x.lag(1, id="last"), x=t).engine()

    ints, floats = made(list[int]), made(list[float])
    ints.push([[1], [2, 3]])
    with pytest.raises(StateError, match=r"was list\[int\], and is now list\[float\]"):
        floats.load(ints.save())
    again = made(list[int])
    again.load(ints.save())
    assert again.push([[4]]) == [([4], [2, 3])]


def test_a_function_that_loops_is_called() -> None:
    p = pipeline(lambda x: x.explode(lambda o: [i.n * o.id for i in o.items if i.n], to=int, id="each"), x=Order)
    orders = orders_of(3, 40, 9)
    assert p(orders) == [i.n * o.id for o in orders for i in o.items if i.n]
    assert p.why_plain is not None and "loops over a list, whose length is not known" in p.why_plain
    wrong = pipeline(lambda x: x.explode(lambda o: [1 // i.n for i in o.items], to=int, id="each"), x=Order)
    with pytest.raises(StepError, match=r"step 'each'.*ZeroDivisionError"):
        wrong(orders)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(40, 300))
def test_random_pipelines(seed: int) -> None:
    """Of events with lists in them: what they mean is what the interpreter and the kernel say."""
    c = Seeded(seed)
    p, telling = make_judged(c, max_steps=8, sources=2, lists=True)
    pushes = make_input(c, p, c.of(range(5, 30)))
    keys = [c.of([0, 1, 2]) for _ in pushes] if seed % 2 else None
    check(p, telling, pushes, keys, [c.of(range(9)) for _ in range(5)], "python")


@pytest.mark.long
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(100, 5000))
def test_random_pipelines_compiled(seed: int) -> None:
    c = Seeded(seed)
    p, telling = make_judged(c, max_steps=8, sources=2, lists=True)
    if Engine(p.graph).why_plain is None:
        check(p, telling, make_input(c, p, 30), None, [c.of(range(9)) for _ in range(5)], "numba")


# How much is compiled: as much as a function has text, not as it has paths, and never more than takes seconds.


def loaded(text: str, name: str, folder: Path) -> ModuleType:
    """A module from a file, as a user has it."""
    (folder / f"{name}.py").write_text(text)
    module = ModuleType(name)
    module.__file__ = str(folder / f"{name}.py")
    sys.modules[name] = module  # hints of types are looked up there
    exec(compile(text, module.__file__, "exec"), module.__dict__)
    return module


def answers(engine: Any, rows: list[Any]) -> list[Any]:
    """What comes out of rows in two chunks, and at the end."""
    half = len(rows) // 2
    out = [engine.push(rows[:half]), engine.push(rows[half:])]
    return [*out, engine.finish()] if hasattr(engine, "finish") else out


def by_meaning(graph: Graph, rows: list[Any]) -> list[Any]:
    """The same from the functions themselves, which no trace is part of."""
    if graph.timed:
        return answers(LiteralEngine(graph), rows)
    run = Interpreter(graph)
    half = len(rows) // 2
    out = []
    for chunk in (rows[:half], rows[half:]):
        found: dict[str, list[Any]] = {name: [] for name, _ in graph.outputs}
        for row in chunk:
            for name, events in run.push({"x": row}).items():
                found[name] += events
            run.pushed += 1
        out.append(found)
    return out


def engine_of(graph: Graph, mode: str) -> Any:
    return TimedEngine(graph, mode=mode) if graph.timed else Engine(graph, mode=mode)


def judge(seed: int, folder: Path) -> tuple[bool, int, float]:
    """Whether a random machine is compiled, the lines of its functions, and how long until its first row; its answers
    are those of its plain functions, compiled and not."""
    begin = time.process_time()
    module = loaded(machine(seed), f"machine_{seed}", folder)
    p, rows = module.p, module.rows(seed, 400)
    compiled = p.why_plain is None
    first = engine_of(p.graph, "numba" if compiled else "auto")
    answers(first, rows[:2])
    took = time.process_time() - begin
    expected = by_meaning(p.graph, rows)
    modes = ["python", "numba"] if compiled else ["python"]
    for mode in modes:
        found = answers(engine_of(p.graph, mode), rows)
        assert [_by_name(f, p.graph) for f in found] == [_by_name(e, p.graph) for e in expected], (seed, mode)
    return compiled, lines_of(p.graph), took


def _by_name(found: Any, graph: Graph) -> dict[str, list[Any]]:
    """Outputs by their names, also where there is one."""
    return found if isinstance(found, dict) else {graph.outputs[0][0]: found}


def lines_of(graph: Graph) -> int:
    """The lines of the longest kernel."""
    graphs = [graph]
    if graph.timed:
        graphs = [s.engine.graph for s in TimedEngine(graph).stages if isinstance(s, Timers)]
    before, loop.MOST_LINES = loop.MOST_LINES, 10**9  # also where it is not compiled
    try:
        return max(
            len(emit(g, numba=not any(fn.runs is None for n in g.nodes for fn in n.functions)).source.splitlines())
            for g in graphs
        )
    finally:
        loop.MOST_LINES = before


@pytest.mark.parametrize(("seed", "compiled"), [(2, True), (64, False)])
def test_a_state_machine_is_compiled_unless_it_is_too_large(
    seed: int, compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As text of every path these were up to 300,000 lines, of which nothing was said."""
    was, lines, _ = judge(seed, tmp_path)
    assert was is compiled
    assert (lines < 700) if compiled else (MOST_LINES < lines < 4_000)
    why = sys.modules[f"machine_{seed}"].p.why_plain
    assert compiled or f"and more than {MOST_LINES:,} take too long" in why
    assert compiled or why.startswith("step 'task' (")


@pytest.mark.long
@pytest.mark.seeded
def test_first_rows_come_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Two hundred tasks of under a hundred lines or so, with nothing in the cache: the first row within five seconds of
    a processor, of which one is for the imports."""
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    engine_of(loaded(machine(0), "warm", tmp_path).p.graph, "numba")  # imports Numba
    found = {seed: judge(seed, tmp_path) for seed in seeds(200)}
    with capsys.disabled():
        times = sorted(took for _, _, took in found.values())
        print(
            f"\n{sum(c for c, _, _ in found.values())} of {len(found)} compiled, the longest "
            f"{max(n for c, n, _ in found.values() if c):,} lines (of all {max(n for _, n, _ in found.values()):,}); "
            f"first row: median {times[len(times) // 2]:.2f} s, nine in ten {times[len(times) * 9 // 10]:.2f} s, "
            f"all {times[-1]:.2f} s"
        )
    assert {seed: took for seed, (_, _, took) in found.items() if took > 4} == {}


def test_a_function_that_nests_too_deeply_is_called(tmp_path: Path) -> None:
    """A task and a list of events, whose answers are several columns."""
    tests = "".join(f"    if v == {i}:\n        return s + {i}, [v * {i} + s]\n" for i in range(95))
    g = loaded(f"def g(s, v):\n{tests}    return s, []\n", "deep", tmp_path).g
    task = pipeline(lambda x: x.task(g, 0, to=int), x=int)
    each = pipeline(lambda x: x.explode(lambda v: g(0, v)[1], to=int), x=int)
    assert task.why_plain == each.why_plain == "one of its functions nests too deeply"
    assert task([1, 2, 94, 95]) == [1, 5, 8839]
    assert each([1, 2, 94, 95]) == [1, 4, 8836]
