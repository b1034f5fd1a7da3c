"""The model checker measured: the explicit engine's rate, ours beside NuSMV, and growth, in one run.

    python bench/check.py [--quick] [--json FILE]

1. States and transitions per second of explicit search, on systems with many states.  The compiled machine is loaded
   before; building the system is not counted, turning it into a program is.
2. Our answer and NuSMV's (found by PELLUCID_NUSMV, on the PATH, or brought by make setup) on the same models: ours
   from the pipeline to the verdict, NuSMV's from the exported text to its answer, its start included and also shown
   apart.
3. Milliseconds and states as N, Q and k grow, one at a time from N=4, Q=3, k=3: of the question `AG EF out`, for which
   what does not matter is cut away first, and of the whole system, from which nothing is cut.

It ends with 1 where two verdicts disagree, or where a system does not have the number of states it must have.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the tests, whose oracles are asked, too
sys.path.insert(0, str(Path(__file__).parent))  # stream_pipelines.py, which makes the examples known

import stream_pipelines
from tests.export.nusmv import find_nusmv, run_nusmv

from pellucid import Mod, Pipeline, merge, pipeline
from pellucid.check.answer import Answer
from pellucid.check.decide import Options, decide
from pellucid.check.explicit import Space, explore
from pellucid.check.formula import as_formula, resolve
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import domain_of
from pellucid.errors import UsageError
from pellucid.internal.export.smv import export

GROWING = ["Sum of 1s on window", "Sum of window of width 3", "Product of 1 and k-th"]
TITLES = {"Sum of window of width 3": "Sum of window of width k"}
BASE = {"N": 4, "Q": 3, "k": 3}


def timed(run: Callable[[], Any], repeat: int, enough: float = 1.0) -> tuple[float, Any]:
    """The median seconds of a few runs, of fewer where they take long, and the last result."""
    took: list[float] = []
    result = None
    while len(took) < repeat and sum(took) < enough:
        start = time.perf_counter()
        result = run()
        took.append(time.perf_counter() - start)
    return statistics.median(took), result


def whole(p: Pipeline, n: int, q: int) -> Callable[[], Space]:
    """Explicit search of the whole system of a pipeline, built already."""
    system = build_system(p.graph, domain_of(Mod(n)), q)
    return lambda: explore(system, [system.present("out")])


def load() -> float:
    """Load the compiled machine (the first time ever: compile it); how many seconds that took."""
    start = time.perf_counter()
    whole(stream_pipelines.appendix.passthrough, 2, 1)()
    return time.perf_counter() - start


# ---------------------------------------------------------------- 1: the rate of explicit search


@dataclass(frozen=True)
class Big:
    name: str
    pipeline: Pipeline
    n: int
    q: int = 1
    states: int | None = None  # how many there must be, where that is plain


def two_counters(a: int, b: int) -> Pipeline:
    return pipeline(lambda x, y: merge(x.decimate(a), y.decimate(b)), x=int, y=int)


def two_sums() -> Pipeline:
    """The sum, and the sum of the squares: all pairs, where N is odd."""
    total = stream_pipelines.appendix.total
    return pipeline(lambda x: total(x) + total(x * x), x=int)


def window(k: int, n: int) -> Big:
    return Big(f"window sum, width {k}", stream_pipelines.window_sum(k), n, states=sum(n**i for i in range(k)))


def big(quick: bool = False) -> list[Big]:
    product = stream_pipelines.appendix.product_of_first_and_kth
    side, odd = (100, 31) if quick else (700, 199)
    return [
        *(window(k, 8) for k in ((4, 5) if quick else (4, 5, 6, 7))),
        *(Big(f"product of 1 and 3rd, Q={q}", product(3), 8, q) for q in ((3, 4) if quick else (3, 4, 5, 6))),
        Big(f"two counters to {side}", two_counters(side, side), 2, states=side * side),
        Big(f"two sums modulo {odd}", two_sums(), odd, states=odd * odd),
    ]


def rate(case: Big, repeat: int = 3) -> dict[str, Any]:
    seconds, space = timed(whole(case.pipeline, case.n, case.q), repeat, 3.0)
    choices = len(space.program.pushes)
    return {
        "name": case.name,
        "N": case.n,
        "Q": case.q,
        "states": space.count,
        "choices": choices,
        "instructions": len(space.program.code),
        "seconds": seconds,
        "states_per_s": space.count / seconds,
        "transitions_per_s": space.expanded * choices / seconds,
        "agrees": space.complete and case.states in (None, space.count),
    }


def show_rates(cases: list[Big]) -> list[dict[str, Any]]:
    print(
        "\n1. Explicit search of whole systems (steps: instructions of the register machine for each transition, at "
        "most)"
    )
    print(
        f"{'system':26}{'N':>4}{'states':>11}{'choices':>9}{'steps':>7}{'seconds':>9}"
        f"{'states/s':>12}{'transitions/s':>15}"
    )
    rows = []
    for case in cases:
        r = rate(case)
        rows.append(r)
        print(
            f"{r['name']:26}{r['N']:>4}{r['states']:11,}{r['choices']:9,}{r['instructions']:7}{r['seconds']:9.3f}"
            f"{r['states_per_s']:12,.0f}{r['transitions_per_s']:15,.0f}"
            + (
                ""
                if r["agrees"]
                else f"  WRONG: not complete, or not {case.states:,} states"
                if case.states
                else "  NOT COMPLETE"
            ),
            flush=True,
        )
    return rows


# ---------------------------------------------------------------- 2: beside NuSMV


@dataclass(frozen=True)
class Question:
    name: str
    pipeline: Pipeline
    formula: str
    n: int
    q: int
    k: int = 3


def questions(quick: bool = False) -> list[Question]:
    both = [stream_pipelines.FORMULAS["no full queue"], stream_pipelines.FORMULAS["liveness"]]
    sizes = [(3, 2, 3)] if quick else [(4, 1, 3), (4, 3, 3), (5, 4, 3), (3, 2, 5)]
    out = []
    for name in ("Sum of window of width 3", "Sum of odds", "Product of 1 and k-th"):
        for n, q, k in sizes:
            if k == 3 or name in stream_pipelines.PARAMETRIC:
                p = stream_pipelines.SEVEN[name](k)
                out += [Question(TITLES.get(name, name), p, f, n, q, k) for f in both]
    for n, formula in [(2, "AG (out -> out.value)")] if quick else [(3, f) for f in (*both, "AG (out -> out.value)")]:
        out.append(Question("compare_window_sums_3", stream_pipelines.compare.compare_window_sums_3, formula, n, 2))
    return out


def within(p: Pipeline, formula: str, ints: Mod, queue: int) -> Answer:
    """The paper's question, as NuSMV has it: a full queue ends the run.  (`check.holds` asks about queues without a
    bound.)"""
    system = build_system(p.graph, domain_of(ints), queue)
    return decide(system, resolve(as_formula(formula), system), Options())


def beside(question: Question, nusmv: bool = True, timeout: float = 120.0, repeat: int = 3) -> dict[str, Any]:
    """One question to both: verdicts and seconds; ``agrees`` is None where NuSMV was not asked or not done."""
    p, formula, ints = question.pipeline, question.formula, Mod(question.n)
    ours, verdict = timed(lambda: within(p, formula, ints, question.q), 5)
    out: dict[str, Any] = {
        "name": question.name,
        "formula": formula,
        "N": question.n,
        "Q": question.q,
        "k": question.k,
        "verdict": verdict.status,
        "states": verdict.details.get("states"),
        "ms": ours * 1e3,
        "nusmv": None,
        "nusmv_ms": None,
        "ratio": None,
        "agrees": None,
    }
    if not nusmv:
        return out
    text = export(p, domain=ints, queue=question.q, properties=[formula])
    try:
        seconds, answers = timed(lambda: run_nusmv(text, timeout=timeout), repeat, 2.0)
    except TimeoutError:
        return out | {"nusmv": f"not done in {timeout:g} s"}
    said = "proved" if answers[0].holds else "refuted"
    return out | {"nusmv": said, "nusmv_ms": seconds * 1e3, "ratio": seconds / ours, "agrees": said == verdict.status}


def start_of_nusmv() -> float:
    """The milliseconds NuSMV takes for next to nothing."""
    text = export(stream_pipelines.appendix.passthrough, domain=Mod(2), queue=1, properties=["AG EF out"])
    return timed(lambda: run_nusmv(text), 5)[0] * 1e3


def show_beside(asked: list[Question], nusmv: str | None) -> list[dict[str, Any]]:
    print(f"\n2. Ours beside NuSMV on the exported models (medians); NuSMV: {nusmv or 'NOT FOUND, ours alone'}")
    start = 0.0
    if nusmv:
        start = start_of_nusmv()
        print(f"   NuSMV's start takes {start:.1f} ms; the last column leaves it out")
    print(
        f"{'pipeline':26}{'formula':24}{'N':>3}{'Q':>3}{'k':>3}  {'ours':9}{'ms':>8}{'states':>8}  "
        f"{'NuSMV':9}{'ms':>10}{'NuSMV/ours':>12}{'less start':>12}"
    )
    rows = []
    for question in asked:
        r = beside(question, nusmv is not None)
        rows.append(r)
        line = (
            f"{r['name']:26}{r['formula']:24}{r['N']:>3}{r['Q']:>3}{r['k']:>3}  {r['verdict']:9}{r['ms']:8.1f}"
            f"{r['states'] if r['states'] is not None else '-':>8}  {r['nusmv'] or '-':9}"
        )
        if r["ratio"] is not None:
            r["ratio_less_start"] = max(r["nusmv_ms"] - start, 0.0) / r["ms"]
            line += f"{r['nusmv_ms']:10.1f}{r['ratio']:11.1f}x{r['ratio_less_start']:11.1f}x"
        print(line + ("  THEY DISAGREE" if r["agrees"] is False else ""), flush=True)
    ratios = [r["ratio"] for r in rows if r["ratio"] is not None]
    if ratios:
        less = [r["ratio_less_start"] for r in rows if r["ratio"] is not None]
        print(
            f"   NuSMV/ours: median {statistics.median(ratios):.0f}x, from {min(ratios):.1f}x to {max(ratios):,.0f}x; "
            f"less its start: median {statistics.median(less):.1f}x, from {min(less):.1f}x to {max(less):,.0f}x"
        )
    return rows


# ---------------------------------------------------------------- 3: growth


def growth(name: str, along: str, size: int) -> dict[str, Any]:
    """One point of a curve: liveness, and the whole system, with one size away from the base."""
    at = BASE | {along: size}
    p = stream_pipelines.SEVEN[name](at["k"])
    ms, verdict = timed(lambda: within(p, "AG EF out", Mod(at["N"]), at["Q"]), 3)
    search = whole(p, at["N"], at["Q"])
    all_ms, space = timed(search, 3)
    return {
        "name": TITLES.get(name, name),
        "along": along,
        **at,
        "verdict": verdict.status,
        "states": verdict.details.get("states"),
        "ms": ms * 1e3,
        "whole_states": space.count,
        "whole_ms": all_ms * 1e3,
        # Another way to the same verdict, from the whole space: from every state some state that puts out can be
        # reached.
        "agrees": verdict.status == ("proved" if always_possible(space) else "refuted"),
    }


def always_possible(space: Space) -> bool:
    """Whether observation 0 can be reached from every state of a complete space: plain, backwards, with NumPy alone."""
    can = space.holds(0).any(axis=1)
    while True:
        more = can | can[space.successor].any(axis=1)
        if (more == can).all():
            return space.complete and bool(can.all())
        can = more


def show_growth(curves: dict[str, list[int]]) -> list[dict[str, Any]]:
    print("\n3. Growth from N=4, Q=3, k=3: `AG EF out` (what does not matter cut away), and the whole system")
    rows = []
    for name in GROWING:
        for along, sizes in curves.items():
            print(f"{TITLES.get(name, name) + ', ' + along + ' =':34}" + "".join(f"{s:>11}" for s in sizes))
            curve = [growth(name, along, s) for s in sizes]
            rows += curve
            for label, key, shape in (
                ("AG EF out", "verdict", ">11"),
                ("  states", "states", "11,"),
                ("  ms", "ms", "11.1f"),
                ("whole system: states", "whole_states", "11,"),
                ("  ms", "whole_ms", "11.1f"),
            ):
                print(f"  {label:32}" + "".join(f"{r[key]:{shape}}" for r in curve), flush=True)
            if not all(r["agrees"] for r in curve):
                print("  THE WHOLE SYSTEM SAYS OTHERWISE: " + " ".join(str(r[along]) for r in curve if not r["agrees"]))
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes: seconds instead of minutes")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to a file")
    args = parser.parse_args(argv)
    try:
        nusmv = find_nusmv()
    except UsageError as e:
        parser.error(str(e))
    print(
        f"Python {platform.python_version()}, {platform.machine()}; the compiled machine loaded in {load():.2f} s, not "
        "counted below"
    )
    sizes = {"N": [2, 4, 6], "Q": [1, 2, 4], "k": [2, 4, 6]}
    if not args.quick:
        sizes = {"N": list(range(2, 9)), "Q": list(range(1, 9)), "k": list(range(2, 9))}
    figures = {
        "explicit": show_rates(big(args.quick)),
        "nusmv": show_beside(questions(args.quick), nusmv),
        "growth": show_growth(sizes),
    }
    wrong = sum(r["agrees"] is False for rows in figures.values() for r in rows)
    unasked = sum(r["agrees"] is None for r in figures["nusmv"])
    print(
        f"\ndisagreements: {wrong}"
        + (f"; {unasked} questions without an answer from NuSMV to compare with" if unasked else "")
    )
    if args.json:
        Path(args.json).write_text(json.dumps(figures | {"found_nusmv": nusmv is not None}, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
