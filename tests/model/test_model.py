"""A search finds everything, by shortest ways, and ends with its budget; cycles are found where one can stay."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
import runpy
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pellucid import UsageError, check, pipeline
from pellucid.check.decide import Options
from pellucid.failures.model import Task, initial
from pellucid.internal.model import (
    Budget,
    CutShort,
    Run,
    Search,
    Verdict,
    components,
    follow,
    now,
    patiently,
    shortest_cycle,
)
from pellucid.progress.graph import Graph, Node
from tests.seeds import seeds

Edges = dict[int, list[tuple[str, int]]]


def graph(seed: int) -> Edges:
    rng = random.Random(seed)
    size = rng.randrange(1, 9)
    return {x: [(f"{x}-{y}", y) for y in range(size) if rng.random() < 0.25] for x in range(size)}


def distances(edges: Edges, start: int) -> dict[int, int]:
    """By relaxing every edge as often as there are states."""
    far = {start: 0}
    for _ in edges:
        for x, after in edges.items():
            for _, y in after:
                if x in far:
                    far[y] = min(far.get(y, len(edges)), far[x] + 1)
    return far


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(40))
def test_every_state_by_a_shortest_way(seed: int) -> None:
    edges = graph(seed)
    search = Search([0], edges.__getitem__)
    left = [x for x, _ in search]
    assert left == list(search.parents)
    assert {x: len(search.way(x)) for x in left} == distances(edges, 0)
    assert search.transitions == sum(len(edges[x]) for x in left)
    for x in left:  # the labels lead there
        at = 0
        for label in search.way(x):
            at = dict(edges[at])[label]
        assert at == x


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(40))
def test_components_are_what_reaches_each_other(seed: int) -> None:
    edges = graph(seed)
    reach = {x: set(distances(edges, x)) for x in edges}
    together = {frozenset(y for y in edges if y in reach[x] and x in reach[y]) for x in edges}
    parts = list(components({x: [y for _, y in after] for x, after in edges.items()}))
    assert {frozenset(part) for part in parts} == together and len(parts) == len(together)
    place = {x: i for i, part in enumerate(parts) for x in part}
    assert all(place[y] <= place[x] for x, after in edges.items() for _, y in after)  # what follows comes first
    for part in parts:
        entry, inside = part[0], set(part)
        cycle = shortest_cycle(edges.__getitem__, entry, inside)
        lengths = (
            [
                n
                for n in range(1, len(edges) + 1)
                for ways in product(inside, repeat=n - 1)
                if all(b in {y for _, y in edges[a]} for a, b in zip((entry, *ways), (*ways, entry), strict=True))
            ]
            if len(part) < 5
            else []
        )
        assert len(part) >= 5 or len(cycle) == min(lengths, default=0)


def test_a_search_ends_with_its_budget() -> None:
    endless = Search([0], lambda n: [("next", n + 1)], Budget(max_states=1000))
    with pytest.raises(CutShort, match="the limit of 1,000 states was reached"):
        endless.all()
    assert len(endless.parents) == 1001
    told: list[dict[str, int]] = []
    Search([0], lambda n: [("next", n + 1)] if n < 500 else [], Budget(progress=told.append)).all()
    assert [t["states"] for t in told] == [1, 129, 257, 385]
    with pytest.raises(CutShort, match=r"the time limit of 0 s was reached after 1 states"):
        Search([0], lambda n: [("next", n + 1)], Budget(0)).all()


# How much may be spent: shares of a question do not shrink because another program runs.


class Time:
    """Clocks that go on when a test says so."""

    def __init__(self) -> None:
        self.wall, self.mine, self.ready = 100.0, 10.0, 0.0

    def perf_counter(self) -> float:
        return self.wall

    def process_time(self) -> float:
        return self.mine

    def starved(self) -> float:
        return self.ready

    def go(self, wall: float, mine: float, ready: float = 0.0) -> None:
        """``ready``: without a processor, as others had it."""
        self.wall, self.mine, self.ready = self.wall + wall, self.mine + mine, self.ready + ready


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Time:
    fake = Time()
    monkeypatch.setattr("pellucid.internal.model.search.time", fake)
    monkeypatch.setattr("pellucid.internal.model.search._starved", fake.starved)
    monkeypatch.setattr("pellucid.internal.model.search.now.starved", 0.0)
    now()  # from one clock to the other
    return fake


def test_work_counts_and_waiting_counts_a_tenth(at: Time) -> None:
    before = now()
    at.go(wall=3.0, mine=1.0)
    assert now() - before == pytest.approx(1.0)
    at.go(wall=20.0, mine=0.0)
    assert now() - before == pytest.approx(3.0)
    at.go(wall=1.0, mine=2.0)  # two threads
    assert now() - before == pytest.approx(4.0)
    at.go(wall=100.0, mine=1.0, ready=99.0)  # a busy machine
    assert now() - before == pytest.approx(5.0)


def test_a_clock_is_over_when_the_work_is_done(at: Time) -> None:
    clock = Budget(1.0)
    at.go(wall=2.0, mine=0.9)
    assert not clock.over and clock.left() == pytest.approx(0.1)
    at.go(wall=0.2, mine=0.2)
    assert clock.over and clock.left() == 0.0 and clock.part(0.5, least=0.0).over


def test_a_solver_that_got_little_is_asked_again_with_more(at: Time) -> None:
    limits: list[float] = []

    def starved(limit: float) -> bool | None:
        limits.append(limit)
        at.go(wall=limit, mine=limit / 3)
        return True if limit > 2.9 else None

    assert patiently(1.0, starved) is True
    assert limits == pytest.approx([1.0, 3.6])


def test_a_solver_that_had_its_time_or_gave_up_is_not_asked_again(at: Time) -> None:
    asked: list[float] = []

    def hard(limit: float) -> bool | None:
        asked.append(limit)
        at.go(wall=limit, mine=limit)
        return None

    def hopeless(limit: float) -> bool | None:
        asked.append(limit)
        at.go(wall=limit / 10, mine=limit / 100)
        return None

    assert patiently(0.05, hard) is None and len(asked) == 1
    assert patiently(0.05, hopeless) is None and len(asked) == 2


def test_the_time_of_a_question_is_work_and_not_time_that_goes_by(at: Time) -> None:
    options = Options(timeout=10.0)
    share, budget = dataclasses.replace(options, timeout=2.0), Budget(10.0)
    at.go(wall=4.0, mine=1.5)
    assert share.left == pytest.approx(0.5) and not share.over
    assert options.left == budget.left() == pytest.approx(8.5)
    at.go(wall=600.0, mine=5.0, ready=595.0)  # a load of a hundred
    assert share.over and not options.over and options.left == pytest.approx(3.5)
    at.go(wall=4.0, mine=3.6)
    assert options.over and budget.over and Options(timeout=None).left is None


def test_a_function_that_sleeps_ends_with_the_question() -> None:
    calls = []

    def slow(v: int) -> int:
        calls.append(v)
        time.sleep(0.02)
        return math.gcd(v, 0)

    p = pipeline(lambda x: x.map(slow, to=int), x=int)
    verdict = check.holds(p, "out.value >= 0", ints=range(1000), timeout=0.2)
    assert verdict.status == "unknown"
    assert len(calls) < 500  # of at least 1,000: a second of sleep counts a tenth


def _until_asked_of(v: int) -> int:
    while math.gcd(v, 77) == 77:
        pass
    return v


def _endless() -> Iterator[int]:
    while True:
        pass
    yield 1


def _with(outputs: Callable[[], Any]) -> Any:
    return initial({"a": Task(lambda v, w: (v, outputs()), ("i",), "o")}, {"i": [[1]]}, {"a": 0})


def _graph() -> Graph:
    node = Node(lambda n, edge, m: (_until_asked_of(77), [], {}), lambda n, t: (n, [], {}), state=0)
    return Graph({"a": node}, {"in": (None, "a"), "out": ("a", None)}, times=[0], name="a")


_same = pipeline(lambda x: x.map(_until_asked_of, to=int), x=int)
_positive = pipeline(lambda x: x > 0, x=int)
_stays = check.Transitions([77], lambda s: [_until_asked_of(s)], lambda s: {"x": s})


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: check.holds(_same, "G (out -> out.value < 9)", ints={76, 77}, timeout=t),
        lambda t: check.monitor(_stays, _positive, timeout=t),
        lambda t: check.failures(_with(_endless), timeout=t),
        lambda t: check.failures(_with(lambda: filter(lambda n: n < 0, itertools.count())), timeout=t),
        lambda t: check.progress(_graph(), about="liveness", timeout=t),
    ],
    ids=["holds", "monitor", "failures", "failures, many short calls", "progress"],
)
def test_a_function_that_does_not_return_is_stopped_and_named(ask: Callable[[float], Verdict]) -> None:
    verdict = ask(0.3)
    assert verdict.unknown and "the time limit of 0.3 s was reached in" in str(verdict)
    assert check.holds(_positive, "G (in -> out)").proved  # and all is as it was


def test_outputs_without_end_are_a_limit() -> None:
    assert "10,000 outputs" in str(check.failures(_with(itertools.count), timeout=60))


# Any machine has counterexamples: found by the one search, told in every form, replayed; and all can say no.

SOURCE = """\
class Jugs:
    def start(self):
        return (0, 0)

    def steps(self, at, *, failures=True):
        small, large = at
        pour, back = min(small, 5 - large), min(large, 3 - small)
        yield "fill small", (3, large)
        yield "fill large", (small, 5)
        yield "empty small", (0, large)
        yield "empty large", (small, 0)
        yield "small to large", (small - pour, large + pour)
        yield "large to small", (small + back, large - back)

    def see(self, at):
        return {"small": at[0], "large": at[1]}

    def complete(self, at):
        return True


jugs = Jugs()
"""
space: dict[str, object] = {}
exec(SOURCE, space)
jugs = space["jugs"]
WAY = ["fill large", "large to small", "empty small", "large to small", "fill large", "large to small"]


def found() -> Run:
    search: Search[tuple[int, int], str] = Search([jugs.start()], jugs.steps)  # type: ignore[attr-defined]
    end = next(at for at, _ in search if at[1] == 4)
    return Run((), tuple(search.way(end)), None, "four litres", jugs)  # type: ignore[arg-type]


def test_the_shortest_way_in_every_form() -> None:
    run = found()
    assert list(run.steps) == WAY and run.replay()
    lines = run.text(width=200).splitlines()
    assert lines[0].split() == ["step", "0", "1", "2", "3", "4", "5"] and lines[-1].endswith("^ four litres")
    assert [line.split()[0] for line in lines[1:4]] == ["fill", "small", "large"]
    picture = ET.fromstring(run.picture("never four litres"))
    assert picture.tag.endswith("svg") and "step 5: " in "".join(picture.itertext())
    document = json.loads(run.to_json())
    assert document["pellucid"] == 1 and document["counterexample"]["start"] == {"small": 0, "large": 0}
    assert document["counterexample"]["steps"][-1] == {"step": "large to small", "seen": {"small": 3, "large": 4}}
    verdict = Verdict("refuted", "never four litres", "explicit", 0.1, run)
    assert "four litres" in str(verdict) and "<svg" in verdict._repr_html_() and not verdict
    assert json.loads(verdict.to_json())["verdict"]["counterexample"] == document["counterexample"]


def test_a_way_that_the_machine_does_not_go() -> None:
    run = found()
    assert not dataclasses.replace(run, steps=("jump", *run.steps)).replay()
    with pytest.raises(UsageError, match="step 1: 'jump' is not possible there: 'fill small', 'fill large'"):
        follow(jugs, ["fill small", "jump"])  # type: ignore[arg-type]


def test_what_never_ends_and_what_is_no_mapping() -> None:
    class Light:
        def start(self) -> int:
            return 0

        def steps(self, at: int, *, failures: bool = True) -> Iterable[tuple[str, int]]:
            yield "tick", (at + 1) % 2

        def see(self, at: int) -> int:
            return at

        def complete(self, at: int) -> bool:
            return False

    text = str(Run((), ("tick", "tick"), 0, "", Light()))
    assert "from here on it repeats" in text and "seen" in text and "^" not in text


def test_the_case_runs_and_fails_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tests/model/test_pytest_file.py` runs such files by pytest itself."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    source, case = tmp_path / "water.py", tmp_path / "test_water.py"
    source.write_text(SOURCE)
    case.write_text(found().as_pytest("never four litres", file=str(source), name="jugs", folder=str(tmp_path)))

    def run() -> None:
        monkeypatch.delitem(sys.modules, "water", raising=False)
        (test,) = (f for name, f in runpy.run_path(str(case)).items() if name.startswith("test_"))
        test()

    run()
    source.write_text(SOURCE.replace("min(large, 3 - small)", "min(large, 2 - small)"))
    with pytest.raises((AssertionError, UsageError)):
        run()
