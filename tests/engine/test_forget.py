"""``key_by(f).forget(after=N)``: what a key's next event finds, how much is held, what is counted and what is refused.

The meaning itself, over random pipelines, is in `test_meaning`; here the oracle is a dozen lines of plain Python.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from pellucid import Pipeline, PipelineError, StateError, UsageError, apply, check, merge, pipeline
from pellucid.internal.cli.main import cli
from pellucid.internal.data.columns import Batch
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.graph.build import instantiate
from pellucid.spark.plan import choose
from tests.engine.saved.test_carry import compare
from tests.strategies import Seeded, make_input, make_pipeline
from tests.volumes import some_seeds


def counts(users: list[Any], after: int) -> list[int]:
    """How many events of its session each is: by hand."""
    last: dict[Any, tuple[int, int]] = {}
    out = []
    for i, user in enumerate(users):
        at, n = last.get(user, (-(10**9), 0))
        last[user] = (i, n + 1 if i - at <= after else 1)
        out.append(last[user][1])
    return out


def sessions(after: int, kind: Any = int) -> Pipeline:
    return pipeline(
        lambda x: x.key_by(lambda v: v).forget(after=after, id="users").cumulate(lambda n, v: n + 1, start=0, id="n"),
        x=kind,
    )


def clicks(count: int, users: int, seed: int = 1) -> list[int]:
    """A few users click again and again, most of them once."""
    rng = random.Random(seed)
    return [rng.choice([rng.randrange(5), rng.randrange(users)]) for _ in range(count)]


def held(engine: Engine) -> int:
    """Rows of keys in memory, also of those that were given up and not taken back yet."""
    state = engine.state
    return int(state.meta[state.region_at(state.layout.region_of["users"])])


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_at_most_so_many_keys_are_held(mode: str) -> None:
    users, after = clicks(60_000, 20_000), 300
    engine, got, sizes = sessions(after).engine(mode=mode), [], []
    for start in range(0, len(users), 7_000):
        got += engine.push(np.array(users[start : start + 7_000])).tolist()
        assert held(engine) <= 2 * after + 1024
        sizes.append(len(engine.save()))
        assert held(engine) <= after
    assert got == counts(users, after)
    assert max(sizes) < 16 * after + 2_000  # a key and two words each: 20,000 keys would take 480,000
    begun = got.count(1)
    assert engine.forgotten == {"users": begun - held(engine)}
    ends = len(set(users[-after:]))  # whoever is among the last events
    assert held(engine) == ends


def test_texts_of_users_that_are_gone_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    from pellucid.internal.engine.kernel import engine as module

    monkeypatch.setattr(module, "_MANY_STRINGS", 1000)
    engine = sessions(50, str).engine(mode="python")
    users = [f"user {v}" for v in clicks(9_000, 9_000)]
    got = [n for i in range(0, 9_000, 500) for n in engine.push(users[i : i + 500])]
    assert got == counts(users, 50)
    assert len(engine.state.strings) < 2_500


@pytest.mark.parametrize("after", [1, 2, 3])
def test_the_boundary(after: int) -> None:
    """The event before the last that still counts, and the first that does not."""
    for others in range(5):
        users = [7, *range(100, 100 + others), 7]
        want = 2 if others < after else 1
        for mode in ("python", "numba"):
            assert sessions(after).engine(mode=mode).push(users)[-1] == want
        run = Interpreter(sessions(after).graph)
        assert [run.push(x=v)["out"][0] for v in users][-1] == want == counts(users, after)[-1]


def test_several_events_in_one_push() -> None:
    """A key may be given up and begin anew within one push: the first event still finds what was kept."""

    def burst(s: int, v: int) -> tuple[int, list[int]]:
        return s, [v, v + 1, v]

    p = pipeline(lambda x: x.task(burst, initial=0).key_by(lambda v: v).forget(after=1).lag(1), x=int)
    flat = [w for v in (1, 1, 2) for w in (v, v + 1, v)]
    want = [(v, flat[i - 1]) for i, v in enumerate(flat) if i and flat[i - 1] == v]
    assert p([1, 1, 2]) == want
    for mode in ("python", "numba"):
        assert p.engine(mode=mode).push([1, 1, 2]) == want


def test_events_that_wait_are_given_up_with_their_key() -> None:
    def build(x: Any) -> Any:
        mine = x.key_by(lambda v: v % 10).forget(after=2, id="users")
        return apply(lambda a, b: (a, b), mine.filter(lambda v: v < 50), mine.filter(lambda v: v >= 50), id="both")

    p = pipeline(build, x=int)
    events = [1, 2, 51, 3, 4, 53, 52, 2, 52]
    run = Interpreter(p.graph)
    want = [v for e in events for v in run.push(x=e)["out"]]
    assert want == [(1, 51), (3, 53), (2, 52)]
    for mode in ("python", "numba"):
        engine = p.engine(mode=mode)
        assert [v for e in events for v in engine.push([e])] == want
        assert engine.queues == {id: len(waiting) for id, waiting in run.queues.items()}
        for _ in range(500):  # cells are used again
            engine.push([11, 12, 13, 14])
        assert all(len(cells) <= 3_100 for cells in engine.state.cells[0])


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_a_push_that_is_undone_leaves_no_trace(mode: str) -> None:
    """A key that begins anew in a push that fails is as it was before."""

    def burst(s: int, v: int) -> tuple[int, list[int]]:
        return s, [v, v + 1, v + 2, v] if v % 2 else [v]

    def build(x: Any) -> Any:
        mine = x.task(burst, initial=0).key_by(lambda v: v % 100).forget(after=2)
        return mine.cumulate(lambda n, v: n + 1000 // (v // 100 - 3), start=0)

    p = pipeline(build, x=int)
    rng = random.Random(5)
    events = [rng.choice([1, 2, 3, 4, 5]) + 100 * rng.choice([0, 1, 2, 3, 4]) for _ in range(400)]
    good = [v for v in events if v // 100 != 3]
    failed: list[Any] = []
    engine = p.engine(mode=mode)
    (out,) = engine.push_batch(Batch(len(events), [[events]]), failed=failed)
    assert len(failed) == len(events) - len(good) > 50
    alone = p.engine(mode=mode)
    assert out.events() == alone.push(good)
    assert engine.forgotten == alone.forgotten


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(12, 60))
def test_a_state_goes_on_in_a_changed_pipeline(seed: int) -> None:
    c = Seeded(8000 + seed)
    while True:
        p = make_pipeline(c, max_steps=8, forgets=True)
        if any(by is not None for by in p.graph.forgotten_by):
            break
    extra = make_pipeline(c, max_steps=4, forgets=True)
    pushes = make_input(c, p, c.of(range(5, 40)))
    compare(p, extra, pushes, make_input(c, extra, len(pushes)), None, c.of(range(len(pushes))), "python")


def test_what_cannot_be_carried_over() -> None:
    total: Any = lambda x: x.cumulate(lambda n, v: n + 1, start=0, id="n")
    ever = pipeline(lambda x: total(x.key_by(lambda v: v)), x=int)
    old, now = ever.engine(), sessions(3)
    old.push([1, 2, 1])
    with pytest.raises(StateError, match=r"step 'n' \(cumulate\) is given up by step 'users' \(forget\) now"):
        now.engine().carry(old.save())
    begun = now.engine()
    begun.push([1, 2, 1])
    with pytest.raises(StateError, match=r"step 'users' .* is gone"):
        ever.engine().carry(begun.save())
    back = ever.engine()
    back.carry(begun.save(), drop=["users"])
    assert back.push([1, 2]) == [3, 2]
    with pytest.raises(StateError, match=r"step 'n' .* is given up by step 'users'"):
        now.engine().carry(begun.save(), drop=["users"])
    longer = sessions(30).engine()  # another number: what is held goes on under it
    longer.carry(begun.save())
    assert longer.push([9, 8, 7, 6, 5, 1]) == [1, 1, 1, 1, 1, 3]
    texts = pipeline(lambda x: x.key_by(lambda v: v > 1).forget(after=3, id="users").map(lambda v: v), x=int).engine()
    with pytest.raises(StateError, match="was kept by keys of type"):
        texts.carry(begun.save(), drop=["n"])


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x.forget(after=3), r"forget \(.*\): comes right after key_by, as in x.key_by\(f\).forget\(after=1000\)"),
    (lambda x: x.key_by(lambda v: v).map(lambda v: v).forget(after=3), "comes right after key_by"),
    (lambda x: x.key_by(lambda v: v).forget(after=0), "after= is a number of events, at least 1, found int 0"),
    (lambda x: x.key_by(lambda v: v).forget(after=True), "after= is a number of events, at least 1, found bool True"),
    (lambda x: x.key_by(lambda v: v).forget(after=timedelta(hours=1)), "found timedelta datetime.timedelta"),
    (
        lambda x: merge(x.key_by(lambda v: v).forget(after=3), x.key_by(lambda v: v), id="both"),
        r"step 'both' .* joins streams of which one gives up keys on its own \(forget\): write x.key_by\(…\)",
    ),
    (
        lambda x: x.key_by(lambda v: v).forget(after=3) + x.key_by(lambda v: v).forget(after=3),
        "gives up keys on its own",
    ),
]


@pytest.mark.parametrize(("build", "why"), REFUSED)
def test_what_is_refused(build: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        pipeline(build, x=int)


def test_a_key_that_comes_with_the_data_is_refused(tmp_path: Path) -> None:
    """Its runs do not see each other's events, so nothing is known of the whole stream."""
    p, why = sessions(3), "step 'users' .* counts the events of the whole stream, and with key="
    table = [{"user": "ada", "x": 1}]
    for run in (
        lambda: p(table, key="user"),
        lambda: p.engine(key=str),
        lambda: p.run_epochs("in.csv", "out.csv", state=tmp_path / "s", pushes=2, key="user"),
    ):
        with pytest.raises(UsageError, match=why):
            run()
    assert "with key= the pipeline runs once" in str(choose(p.graph, key=True, order=True).problem)
    assert choose(p.graph, key=False, order=True).way == "one"
    assert choose(p.graph, key=False, order=True, streaming=True).way == "one"


def test_it_is_called_by_its_key_by_and_part_of_what_a_pipeline_is() -> None:
    a, b = (pipeline(lambda x, n=n: x.key_by(lambda v: v).forget(after=n).trim(1), x=int).graph for n in (3, 4))
    assert a.digest != b.digest and a.nodes[1].id != b.nodes[1].id
    named = pipeline(lambda x: x.key_by(lambda v: v, id="who").forget(after=3).trim(1), x=int)
    assert [n.id for n in named.graph.nodes][:2] == ["x", "who"] and named.graph["who"].kind == "forget"
    inner = pipeline(lambda x: x.cumulate(lambda n, v: n + 1, start=0), x=int)
    called = pipeline(lambda x: inner(x.key_by(lambda v: v).forget(after=2)), x=int)
    users = clicks(200, 9)
    assert called(users) == counts(users, 2)
    assert pipeline(lambda y: instantiate(called.graph, [y])["out"], y=int)(users) == counts(users, 2)
    assert "key by v and forget after 2" in called.show()
    assert "gives up a key after 2 events of others" in called.show("svg")


def test_checks_know_it() -> None:
    """However many keys there are, no more than so many are held: nothing is left out."""
    once = pipeline(
        lambda x: (
            x.key_by(lambda v: v).forget(after=1).task(lambda seen, v: (True, [] if seen else [v]), initial=False)
        ),
        x=int,
    )
    changes = pipeline(
        lambda x: x.task(lambda s, v: ((v, True), [] if s[1] and s[0] == v else [v]), initial=(0, False)), x=int
    )
    assert check.equivalent(once, changes).proved
    late = pipeline(lambda x: x.key_by(lambda v: v).forget(after=2).decimate(2), x=int)
    ever = pipeline(lambda x: x.key_by(lambda v: v).decimate(2), x=int)
    found = check.equivalent(late, ever)
    assert found.refuted and len(found.counterexample.steps) == 4
    many = pipeline(lambda x: x.key_by(lambda v: v).forget(after=50).trim(1), x=int)
    with pytest.raises(UsageError, match=r"up to 50 keys are held at a time, and a check follows 12 of them"):
        check.live(many)
    assert check.live(many, ints=range(0, 2)).proved
    burst = pipeline(
        lambda x: x.task(lambda s, v: (s, [v, v]), initial=0).key_by(lambda v: v).forget(after=2).trim(1), x=int
    )
    with pytest.raises(UsageError, match="do not follow forget on a stream that may carry several events in one push"):
        check.live(burst)


def invoked(*args: Any) -> Result:
    result = CliRunner().invoke(cli, [str(a) for a in args])
    assert result.exit_code == 0, result.output
    return result


def test_it_is_counted_and_explained(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        "from pellucid import pipeline\nvisits = pipeline(lambda x: x.key_by(lambda v: v, id='users').forget(after=2)"
        ".cumulate(lambda n, v: n + 1, start=0), x=int)\n"
    )
    users = clicks(300, 40)
    (tmp_path / "in.csv").write_text("x\n" + "\n".join(map(str, users)) + "\n")
    place = [f"{tmp_path}/p.py:visits", "--in", tmp_path / "in.csv", "--out", tmp_path / "out.csv"]
    given_up = counts(users, 2).count(1) - len(set(users[-2:]))
    done = invoked("run", *place)
    assert f"300 in, 300 out, {given_up} keys forgotten, " in done.stderr
    assert json.loads(invoked("run", *place, "--json").stdout)["forgotten"] == {"users": given_up}
    told = invoked("explain", place[0]).stdout
    assert "remembers: when each key came last, of 2 keys at most" in told
    state = ["--state", tmp_path / "state", "--epoch-size", 50]
    part = tmp_path / "part.csv"
    part.write_text("x\n" + "\n".join(map(str, users[:120])) + "\n")
    again = [place[0], "--in", part, "--out", tmp_path / "epochs.csv", *state]
    first = counts(users[:120], 2).count(1) - len(set(users[118:120]))
    assert f"120 in, 120 out, {first} keys forgotten, " in invoked("run", *again).stderr
    part.write_text((tmp_path / "in.csv").read_text())  # it has grown: the run goes on, and so does what it counts
    assert json.loads(invoked("run", *again, "--json").stdout)["forgotten"] == {"users": given_up}
    assert [int(v) for v in (tmp_path / "epochs.csv").read_text().split()[1:]] == counts(users, 2)
