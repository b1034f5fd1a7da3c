"""The papers' pipelines: the table of what 1..8 gives, by the interpreter and by the engine, whole and in chunks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pellucid import Pipeline, silent
from pellucid.internal.engine.interpreter import Interpreter

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


appendix, compare, figures = (load(f"stream_pipelines_{part}") for part in ("appendix", "compare", "figures"))
listing = load("failure_transparency_listing1")

TABLE: dict[str, tuple[Pipeline, str]] = {
    "passthrough": (appendix.passthrough, "1 2 3 4 5 6 7 8"),
    "sum on window of 3": (appendix.window_sum, "- - 6 9 12 15 18 21"),
    "sum of 1s on window": (appendix.sum_of_ones_3, "- - 3 3 3 3 3 3"),
    "output if smaller than k": (appendix.smaller_than_3, "1 2 3 - - - - -"),
    "product of 1 and k-th": (appendix.product_of_first_and_kth_3, "1 - - 8 - - 21 -"),
    "sum of doubles": (appendix.sum_of_doubles, "2 6 12 20 30 42 56 72"),
    "sum of odds": (appendix.sum_of_odds, "- 1 - 4 - 9 - 16"),
    "delayed": (appendix.delayed, "- 1 2 3 4 5 6 7"),
    "5a": (figures.figure_5a, "- 1 - 4 - 9 - 16"),
    "5b": (figures.figure_5b, "1 4 9 16 25 36 49 64"),
    "5c": (figures.figure_5c, "2 6 12 20 30 42 56 72"),
    "5a flipped": (figures.figure_5a_flipped, "- - 2 - 6 - 12 -"),
    "5a drawn": (figures.figure_5a_drawn, "- 2 - 6 - 12 - 20"),
    "5a drawn, flipped": (figures.figure_5a_drawn_flipped, "- - 3 - 8 - 15 -"),
    "window sum of 2": (compare.window_sum_2, "- 3 5 7 9 11 13 15"),
    "window sum of 2, trimmed": (compare.trimmed_sum_2, "- 3 5 7 9 11 13 15"),
    "window sum of 3, trimmed": (compare.trimmed_sum_3, "- - 6 9 12 15 18 21"),
    "compare 2": (compare.compare_window_sums_2, "- True True True True True True True"),
    "compare 3": (compare.compare_window_sums_3, "- - True True True True True True"),
}
rows = pytest.mark.parametrize(("p", "line"), TABLE.values(), ids=TABLE)
EVENTS = list(range(1, 9))


def shown(pushes: list[list[Any]]) -> str:
    assert all(len(out) <= 1 for out in pushes)
    return " ".join(str(out[0]) if out else "-" for out in pushes)


def words(line: str) -> list[str]:
    return [word for word in line.split() if word != "-"]


@rows
def test_every_engine_gives_the_line(p: Pipeline, line: str) -> None:
    run = Interpreter(p.graph)
    assert shown([run.push(x=v)["out"] for v in EVENTS]) == shown(p.trace(EVENTS)) == line
    for size in range(1, 9):
        engine, out = p.engine(mode="python"), []
        for i in range(0, 8, size):
            out.append(engine.push(EVENTS[i : i + size]))
            saved, engine = engine.save(), p.engine(mode="python")
            engine.load(saved)
        assert [str(v) for chunk in out for v in chunk] == words(line), size
        assert size > 1 or shown(out) == line


@pytest.mark.long
@rows
def test_compiled(p: Pipeline, line: str) -> None:
    assert list(map(str, p.engine(mode="numba").push(EVENTS))) == words(line)


# ---------------------------------------------------------------- Figure 2, and other values of k


def test_figure_2a() -> None:
    run = Interpreter(figures.figure_2a.graph)
    assert shown([run.push(x=v)["out"] for v in range(10)]) == "0 - - 4 - - 8 - - 12"
    upper, lower = run.queues.values()
    assert upper == [] and lower == [4, 5, 6, 7, 8, 9]  # the second queue grows without end
    for mode in ("python", "numba"):
        assert figures.figure_2a.engine(mode=mode).push(list(range(10))) == [0, 4, 8, 12]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_figure_2b_monitors(k: int) -> None:
    a = [True, False, True, True, True, False, False, True, True, True]
    b = [0] * k + [sum(a[i - k : i]) for i in range(k, len(a))]
    monitor = figures.figure_2b(k)
    assert monitor(a, b) == [True] * (len(a) - k)
    wrong = [*b[:-1], b[-1] + 1]
    assert monitor(a, wrong) == [True] * (len(a) - k - 1) + [False]
    run = Interpreter(monitor.graph)
    assert [run.push(a=x, b=y)["out"] for x, y in zip(a, wrong, strict=True)][-2:] == [[True], [False]]


@pytest.mark.parametrize("k", [1, 2, 4, 8, 9])
def test_parametric_ones(k: int) -> None:
    assert appendix.sum_of_ones(k)(EVENTS) == [k] * max(0, 9 - k)
    assert appendix.smaller_than(k)([5] * 8) == [5] * min(k, 8)
    assert appendix.product_of_first_and_kth(k)(EVENTS) == [(k * i + 1) * (i + 1) for i in range((7 // k) + 1)]


def test_figure_5a_needs_a_queue_of_one() -> None:
    longest = []
    for p in (figures.figure_5a, figures.figure_5b):
        run, most = Interpreter(p.graph), 0
        for v in range(50):
            run.push(x=v)
            most = max([most, *(len(q) for q in run.queues.values())])
        longest.append(most)
    assert longest == [1, 0]


def test_figure_5_equivalences_by_hand() -> None:
    """5a and 5b: the same sequence, not the same steps; with the condition flipped, the sequence of 5c."""
    a, b = figures.figure_5a.trace([7] * 40), figures.figure_5b.trace([7] * 40)
    assert a != b
    flat = [[v for out in pushes for v in out] for pushes in (a, b)]
    assert flat[0] == flat[1][: len(flat[0])]
    flipped, c = figures.figure_5a_flipped([7] * 40), figures.figure_5c([7] * 40)
    assert flipped == c[: len(flipped)] and len(flipped) == 19


# ---------------------------------------------------------------- Listing 1 of Failure Transparency …


def test_listing_1() -> None:
    steps: list[dict[str, Any]] = [
        {"ints": 10},
        {"ints": 20},
        {"reset": True},
        {},
        {"ints": 5},
        {"ints": 7, "reset": True},
        {"ints": 1},
    ]
    want = [[10.0], [15.0], [], [], [5.0], [6.0], [1.0]]
    run = Interpreter(listing.averages.graph)
    assert [run.push(step)["out"] for step in steps] == want
    ints = [step.get("ints", silent) for step in steps]
    reset = [step.get("reset", silent) for step in steps]
    assert listing.averages.trace(ints, reset) == want
    assert listing.averages.graph.opaque() == []
    for mode in ("python", "numba"):
        engine = listing.averages.engine(mode=mode)
        got = [engine.push(*([step[name]] if name in step else [] for name in ("ints", "reset"))) for step in steps]
        assert got == want
