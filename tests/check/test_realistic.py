"""Questions that people ask have the answers that are right: a share of them here, all of them in `make test-long` and
in `bench/questions.py`.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import tests.check.realistic_more  # noqa: F401  they join the others
from pellucid import Mod, check
from pellucid.check.formula import as_formula, resolve
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import domain_of
from tests.check.realistic import QUESTIONS, Question
from tests.check.reference import decide_by_reference
from tests.export.nusmv import Checked, find_nusmv

SHARE, FIRST = 12, 1
OPEN = [  # not decided yet
    ("settled", "the same with its inputs the other way round, if they come one at a time"),
]


def _asked(q: Question) -> None:
    """Never the opposite of what is true; and not undecided, unless that is known."""
    status = q.ask().status
    assert status == q.answer or (status == "unknown" and (q.about, q.words) in OPEN), f"{status}: {q.about}: {q.words}"


def _name(q: Question) -> str:
    return f"{q.about}: {q.words}"


@pytest.mark.parametrize("q", QUESTIONS[FIRST::SHARE], ids=_name)
def test_a_share_of_the_questions(q: Question) -> None:
    _asked(q)


@pytest.mark.long
@pytest.mark.parametrize("q", [q for i, q in enumerate(QUESTIONS) if i % SHARE != FIRST], ids=_name)
def test_the_other_questions(q: Question) -> None:
    _asked(q)


def test_there_are_as_many_as_is_said() -> None:
    assert len(QUESTIONS) >= 180 and len({q.about for q in QUESTIONS}) >= 45
    assert len(OPEN) / len(QUESTIONS) < 0.05 and {*OPEN} <= {(q.about, q.words) for q in QUESTIONS}
    assert len({(q.about, q.words) for q in QUESTIONS}) == len(QUESTIONS)


# bench/check.py on tiny sizes: it runs, its verdicts agree, and it says so where they do not.

BENCH = Path(__file__).parents[2] / "bench" / "check.py"


@pytest.fixture(scope="module")
def bench() -> Any:
    spec = importlib.util.spec_from_file_location("bench_check", BENCH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module


def test_explicit_search_finds_as_many_states_as_there_are(bench: Any) -> None:
    cases = [
        bench.window(3, 3),
        bench.Big("counters", bench.two_counters(3, 4), 2, states=12),
        bench.Big("sums", bench.two_sums(), 5, states=25),
    ]
    assert cases[0].states == 1 + 3 + 9
    for case in cases:
        r = bench.rate(case, repeat=1)
        assert r["agrees"] and r["states"] == case.states
        assert r["transitions_per_s"] == pytest.approx(r["states_per_s"] * r["choices"])
    wrong = bench.Big("wrong", bench.two_counters(3, 4), 2, states=13)
    assert not bench.rate(wrong, repeat=1)["agrees"]


def test_its_questions_have_the_verdict_of_the_reference_engine(bench: Any) -> None:
    asked = bench.questions(quick=True)
    assert {q.name for q in asked} == {q.name for q in bench.questions()}
    for q in asked:
        r = bench.beside(q, nusmv=False)
        system = build_system(q.pipeline.graph, domain_of(Mod(q.n)), q.q)
        truth = decide_by_reference(system, resolve(as_formula(q.formula), system))
        assert r["verdict"] == ("proved" if truth else "refuted"), q
        assert r["agrees"] is None and r["nusmv"] is None


def test_a_verdict_that_nusmv_does_not_share_shows(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    q = bench.questions(quick=True)[0]
    assert check.holds(q.pipeline, q.formula, ints=Mod(q.n), queue=q.q).proved

    def says(answer: bool) -> Any:
        return lambda text, timeout=60.0: [Checked("", answer)]

    monkeypatch.setattr(bench, "run_nusmv", says(True))
    assert bench.beside(q, repeat=1)["agrees"] is True
    monkeypatch.setattr(bench, "run_nusmv", says(False))
    assert bench.beside(q, repeat=1)["agrees"] is False

    def late(text: str, timeout: float = 60.0) -> Any:
        raise TimeoutError

    monkeypatch.setattr(bench, "run_nusmv", late)
    r = bench.beside(q, timeout=7)
    assert r["agrees"] is None and r["nusmv"] == "not done in 7 s"


def test_nusmv_agrees(bench: Any) -> None:
    if find_nusmv() is None:
        pytest.skip("no NuSMV here")
    for q in bench.questions(quick=True)[:6]:
        r = bench.beside(q, repeat=1)
        assert r["agrees"] and r["ratio"] > 0, q


@pytest.mark.parametrize(("along", "size"), [("N", 2), ("Q", 1), ("k", 2)])
def test_growth_agrees_with_the_whole_system(bench: Any, along: str, size: int) -> None:
    for name in bench.GROWING:
        r = bench.growth(name, along, size)
        assert r["agrees"] and r[along] == size
        assert r["verdict"] == ("refuted" if name.startswith("Product") else "proved")
        assert r["states"] <= r["whole_states"]


@pytest.mark.parametrize("lying", [False, True])
def test_it_ends_with_1_where_verdicts_disagree(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, lying: bool
) -> None:
    monkeypatch.setattr(bench, "find_nusmv", lambda: None)
    monkeypatch.setattr(bench, "big", lambda quick: [bench.window(2, 2)])
    few = bench.questions(quick=True)[:1]
    monkeypatch.setattr(bench, "questions", lambda quick: few)
    monkeypatch.setattr(bench, "GROWING", bench.GROWING[2:])
    if lying:
        monkeypatch.setattr(bench, "always_possible", lambda space: True)
    assert bench.main(["--quick", "--json", str(tmp_path / "figures.json")]) == lying
    shown = capsys.readouterr().out
    assert "NOT FOUND" in shown and f"disagreements: {9 * lying}" in shown
    assert ("SAYS OTHERWISE" in shown) == lying
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [len(figures[part]) for part in ("explicit", "nusmv", "growth")] == [1, 1, 9]
