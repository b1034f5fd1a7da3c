"""The 162 model checking problems, each decided by two engines, beside the paper's own figures.

    python bench/stream_pipelines.py [--exact] [--no-oracle] [--json FILE]

The paper (Bédard and Hallé, TIME 2021, section 5) counts 162 problems and has the times of 65 of them in its tables;
`grid` is a grid of as many in which those are: seven pipelines with queue sizes Q, integers modulo N and parameters k;
*no full queue*, *liveness*, *bounded liveness*; comparisons step by step and as sequences.  The second engine is SMT
for invariants and the reference engine for the rest; the third is NuSMV on the exported model, where one can be found
(PELLUCID_NUSMV, the PATH, or what make setup brings).  ``--exact`` asks the same questions over exact integers.
The paper's times are of NuXmv 2.0.0 on a 12-core 3.6 GHz Xeon.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the tests, whose oracles are asked, too
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import stream_pipelines_appendix as appendix
import stream_pipelines_compare as compare
from tests.check.reference import decide_by_reference

from pellucid import Mod, Pipeline, check, pipeline
from pellucid.check.decide import Options, decide, decide_invariant
from pellucid.check.formula import Formula, resolve
from pellucid.check.formula.parse import parse
from pellucid.check.sequences import all_equal
from pellucid.check.side_by_side import beside, differs
from pellucid.check.smt.engine import invariant
from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Domain, domain_of
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.model.verdict import Verdict


def window_sum(k: int) -> Pipeline:
    return pipeline(lambda x: x.window(k, appendix.total), x=int)


SEVEN: dict[str, Callable[[int], Pipeline]] = {
    "Sum of odds": lambda k: appendix.sum_of_odds,
    "Sum of 1s on window": appendix.sum_of_ones,
    "Passthrough": lambda k: appendix.passthrough,
    "Sum of doubles": lambda k: appendix.sum_of_doubles,
    "Product of 1 and k-th": appendix.product_of_first_and_kth,
    "Sum of window of width 3": window_sum,
    "Output if smaller than k": appendix.smaller_than,
}
PARAMETRIC = ["Sum of 1s on window", "Product of 1 and k-th", "Sum of window of width 3", "Output if smaller than k"]
FORMULAS = {
    "no full queue": "!EF full",
    "liveness": "AG EF out",
    "bounded liveness": "G (out | X (out | X out))",
}
BRANCHING = {"bounded liveness": "AG (out | AX (out | AX out))"}  # the same, for the reference engine

# Milliseconds in the paper: tables 7a (N=4, Q=3), 7b (no full queue, by Q) and 7c (N=2, Q=2).
PAPER_7A = {
    "Output if smaller than k": (53, 56, 88),
    "Passthrough": (24, 25, 26),
    "Product of 1 and k-th": (387, 342, 1139),
    "Sum of 1s on window": (1317, 1330, 5231),
    "Sum of doubles": (1269, 1116, 11220),
    "Sum of odds": (612, 526, 2075),
    "Sum of window of width 3": (4842, 4948, 15641),
}
PAPER_7B = {
    "Sum of odds": (719, 2992, 2249, 8207),
    "Sum of 1s on window": (4761, 4525, 4513, 4458),
    "Passthrough": (23, 23, 24, 23),
    "Sum of doubles": (175, 1694, 17012, 95619),
    "Product of 1 and k-th": (78, 206, 823, 4158),
    "Sum of window of width 3": (23216, 23385, 22901, 23018),
    "Output if smaller than k": (49, 58, 67, 95),
}
PAPER_7C = {
    "Passthrough": (26, 34),
    "Passthrough vs delay": (31, 44),
    "Product of 1 and k-th": (176, 450),
    "Sum of 1s on window": (2085, 10868),
    "Sum of odds": (1259, 1423),
    "Sum of window of width 3": (468, 10966),
    "Window sum of 2": (488, 963),
    "Window sum of 3": (16107, 116959),
}


@dataclass(frozen=True)
class Problem:
    name: str
    asks: str
    n: int
    q: int
    k: int = 3

    @property
    def possible(self) -> bool:
        if self.name == "Sum of doubles" and self.n < 3:
            return False
        return not (self.name == "Output if smaller than k" and self.n <= self.k)

    @property
    def paper(self) -> str:
        """The paper's milliseconds, with the table; 7b is at N=5."""
        if self.asks in FORMULAS and (self.n, self.q, self.k) == (4, 3, 3):
            return f"{PAPER_7A[self.name][list(FORMULAS).index(self.asks)]} (7a)"
        if self.asks == "no full queue" and self.n == 5 and self.k == 3:
            return f"{PAPER_7B[self.name][self.q - 1]} (7b)"
        if self.asks in ("step", "sequence"):
            return f"{PAPER_7C[self.name][self.asks == 'sequence']} (7c)"
        return ""


def grid() -> list[Problem]:
    two = ["no full queue", "liveness"]
    out = [Problem(p, f, 4, q) for p in SEVEN for f in two for q in (1, 2, 3, 4)]
    out += [Problem(p, f, n_, 3) for p in SEVEN for f in two for n_ in (2, 3, 4, 5)]
    out += [Problem(p, "no full queue", 5, q) for p in SEVEN for q in (1, 2, 3, 4)]
    out += [Problem(p, f, 3, 2, k) for p in PARAMETRIC for f in two for k in (2, 3, 4, 5)]
    out += [Problem(p, f, 4, 3) for p in SEVEN for f in FORMULAS]
    both = [*SEVEN, "Passthrough vs delay", "Window sum of 2", "Window sum of 3"]
    out += [Problem(p, how, 2, 2) for p in both for how in ("step", "sequence")]
    return [p for p in dict.fromkeys(out) if p.possible]


def pair(name: str) -> tuple[Pipeline, Pipeline]:
    """The two pipelines of a comparison: two copies of one, or two implementations."""
    if name == "Passthrough vs delay":
        return appendix.passthrough, appendix.delayed
    if name == "Window sum of 2":
        return compare.window_sum_2, compare.trimmed_sum_2
    if name == "Window sum of 3":
        return compare.window_sum_3, compare.trimmed_sum_3
    return SEVEN[name](3), SEVEN[name](3)


def ask(problem: Problem, ints: Any) -> Any:
    """The paper's question, within the bound for queues; over exact integers, where nothing is bounded, ours."""
    a, b = pair(problem.name) if problem.asks not in FORMULAS else (SEVEN[problem.name](problem.k),) * 2
    if ints is None:
        if problem.asks in FORMULAS:
            return check.holds(a, FORMULAS[problem.asks], queue=problem.q, warn=False)
        how = (
            "paper" if problem.asks == "sequence" else problem.asks
        )  # the paper's own formula, which is weaker than ours
        return check.equivalent(a, b, how=how, queue=problem.q)
    started = time.perf_counter()
    if problem.asks in FORMULAS:
        system = build_system(a.graph, domain_of(ints), problem.q)
        answer = decide(system, resolve(parse(FORMULAS[problem.asks]), system), Options())
    else:
        answer = decide_invariant(*compared(problem, a, b, domain_of(ints)), Options(engine="explicit"))
    return Verdict(
        answer.status, problem.asks, answer.engine, time.perf_counter() - started, None, answer.notes, answer.details
    )


def compared(problem: Problem, a: Pipeline, b: Pipeline, domain: Domain) -> tuple[System, Expr]:
    """Two pipelines side by side, within the bound for queues; for sequences an equality step stands after both (Figure
    4b)."""
    system = build_system(beside(a, b, joined=problem.asks == "sequence"), domain, problem.q)
    if problem.asks == "step":
        return system, n.not_(differs(system))
    return system, all_equal(system)


def second(problem: Problem) -> tuple[str, str]:
    """The same question to another engine: its name and its answer."""
    domain = domain_of(Mod(problem.n))
    if problem.asks in FORMULAS:
        graph = SEVEN[problem.name](problem.k).graph
        system = build_system(graph, domain, problem.q)
        if problem.asks == "no full queue":
            return "smt", invariant(system, n.not_(system.full), timeout=60)[0]
        text = BRANCHING.get(problem.asks, FORMULAS[problem.asks])
        return "reference", "proved" if decide_by_reference(system, resolve(parse(text), system)) else "refuted"
    system, good = compared(problem, *pair(problem.name), domain)
    atom = Formula("AG", (Formula("atom", body=good, text="good"),))
    return "reference", "proved" if decide_by_reference(system, atom) else "refuted"


SIDE_BY_SIDE = {"step": "G ((a <-> b) & (a -> a.value = b.value))", "sequence": "G (same -> same.value = true)"}


def nusmv(problem: Problem) -> str:
    """What NuSMV says of the exported model."""
    from tests.export.nusmv import run_nusmv

    from pellucid.internal.export.smv import export

    if problem.asks in FORMULAS:
        graph, formula = SEVEN[problem.name](problem.k).graph, FORMULAS[problem.asks]
    else:
        graph, formula = beside(*pair(problem.name), joined=problem.asks == "sequence"), SIDE_BY_SIDE[problem.asks]
    text = export(graph, domain=Mod(problem.n), queue=problem.q, properties=[parse(formula)])
    return "proved" if run_nusmv(text, timeout=300)[0].holds else "refuted"


def has_nusmv() -> bool:
    try:
        from tests.export.nusmv import find_nusmv
    except ImportError:
        return False
    return find_nusmv() is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exact", action="store_true", help="over exact integers instead of modulo N")
    parser.add_argument("--no-oracle", action="store_true", help="leave NuSMV out")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    problems = grid()
    if args.exact:
        problems = list(dict.fromkeys(Problem(p.name, p.asks, 0, p.q, p.k) for p in problems))
    oracle = not args.no_oracle and not args.exact and has_nusmv()
    ask(Problem("Passthrough", "liveness", 2, 1), Mod(2))  # the machine is compiled once, or read from the cache
    print(f"{len(problems)} problems; NuSMV: {'yes' if oracle else 'not used'}")
    print(
        f"{'pipeline':26}{'asks':18}{'N':>3}{'Q':>3}{'k':>3}  {'verdict':9}{'engine':22}{'ms':>8}  "
        f"{'second':20}{'NuSMV':22}paper ms"
    )
    rows, wrong, worst, total = [], 0, 0.0, 0.0
    for p in problems:
        verdict = ask(p, None if args.exact else Mod(p.n))
        worst, total = max(worst, verdict.seconds), total + verdict.seconds
        other = by_nusmv = ""
        if not args.exact:
            start = time.perf_counter()
            name, answer = second(p)
            other = f"{answer} ({name})"
            wrong += answer != verdict.status
            if oracle:
                start = time.perf_counter()
                said = nusmv(p)
                by_nusmv = f"{said} {(time.perf_counter() - start) * 1e3:.0f} ms"
                wrong += said != verdict.status
        print(
            f"{p.name:26}{p.asks:18}{p.n or '-':>3}{p.q:>3}{p.k:>3}  {verdict.status:9}{verdict.engine:22}"
            f"{verdict.seconds * 1e3:8.1f}  {other:20}{by_nusmv:22}{'' if args.exact else p.paper}",
            flush=True,
        )
        rows.append(
            {
                "name": p.name,
                "asks": p.asks,
                "N": p.n,
                "Q": p.q,
                "k": p.k,
                "verdict": verdict.status,
                "engine": verdict.engine,
                "ms": verdict.seconds * 1e3,
                "second": other,
                "nusmv": by_nusmv,
            }
        )
    counts = Counter(r["verdict"] for r in rows)
    print(f"\n{dict(counts)}; {total:.2f} s in all, {worst * 1e3:.0f} ms at most; disagreements: {wrong}")
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
