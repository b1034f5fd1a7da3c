"""How much is compiled: as much as a function has text, not as it has paths, and never more than takes seconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pellucid import pipeline
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.emit import MOST_LINES, emit, loop
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.running import LiteralEngine
from pellucid.internal.engine.timed.stages.timers import Timers
from pellucid.internal.graph.model import Graph
from tests.engine.kernel.machines import machine
from tests.seeds import seeds


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


@pytest.mark.parametrize(("seed", "compiled"), [(2, True), (23, True), (4, True), (64, False)])
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
