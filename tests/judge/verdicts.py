"""A judge of verdicts: random pipelines × all questions × finite and exact domains, against a meaning of its own.

    python -m tests.judge.verdicts --minutes 60 --seed 1

What a pipeline, a formula and a question mean is told in ``verdict_meaning``, ``verdict_formulas`` and
``verdict_truth`` from ``docs/explanation/meaning.md``; Pellucid is used by its public names only.  Every answer is
counted; *proved* and *refuted* are held against what is true, and each disagreement is printed as a script that shows
it.  An exception that is none of Pellucid's is a disagreement, too.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.judge.verdict_cases import Case, Found, ask, judge
from tests.judge.verdict_meaning import Spec
from tests.judge.verdict_pipelines import Ask, Draw, Style, observed, relative, two_meanings
from tests.judge.verdict_truth import random_runs, random_value, values

SECONDS = 2.0


def draw(seed: int, *, calm: bool = False) -> list[Case]:
    """The questions of one seed: one pipeline or two, and a few questions about them."""
    r = random.Random(seed)
    domain: Any = r.choices(["range", "set", "mod", "exact"], [4, 1, 2, 3])[0]
    style = Style(
        finite=domain != "exact",
        opaque=r.random() < 0.3,
        keys=r.random() < 0.2,
        hostile=r.random() < 0.15,
        several=r.random() < 0.7,
        failures=r.random() < 0.6,
    )
    if calm:
        style = Style(finite=domain != "exact", several=False, failures=False)
    ints: tuple[Any, ...] | None = None
    if domain == "range":
        low = r.choice([0, 0, 0, -1, -2])
        ints = ("range", low, low + r.randint(1, 4))
    elif domain == "set":
        ints = ("set", frozenset(r.sample([-3, -1, 0, 1, 2, 5, 2**31, 2**62, 2**63 - 1, -(2**63)], r.randint(1, 3))))
        style.big = True
    elif domain == "mod":
        n = r.randint(2, 4)
        ints, style.mod, style.opaque = ("mod", n), n, False
    else:
        style.big = r.random() < 0.2
    style.impure = r.random() < 0.03 and not calm
    d = Draw(r, style)
    spec = d.spec(steps=r.choice([1, 2, 3, 4]))
    how: tuple[tuple[str, Any], ...] = (("timeout", SECONDS),)
    engine = r.choices([None, "explicit", "smt"], [8, 1, 1])[0]
    if engine:
        how += (("engine", engine),)
    cases = []
    questions = [
        "holds",
        "holds",
        "holds",
        "live",
        "step",
        "sequence",
        "paper",
        "implies",
        "monitor",
        "buffers",
        "dead_paths",
        "holds_on",
        "queues",
        "names",
    ]
    for question in r.sample(questions, 5):
        ask = Ask(spec, d)
        case = Case(question, (spec,), ints, how=how)
        listed = {
            name: [random_value(t, r, case.values, ()) for _ in range(3)]
            if t in ("float", "str") or case.values is None
            else values(t, case.values)
            for name, t in spec.sources
        }
        if question == "holds":
            case = replace(case, formula=ask.branching() if r.random() < 0.45 else ask.linear())
        elif question == "holds_on":
            run = next(random_runs(spec, r, [-2, -1, 0, 1, 2, 3], 1, ()))
            case = replace(case, formula=ask.linear(), extra=run, ints=None, how=())
        elif question == "live":
            case = replace(case, extra=r.choice([None, None, 1, 2, 3]))
        elif question == "queues":
            waiting = [
                f"{step.id}.{i}"
                for step in spec.steps
                if step.id and step.kind in ("apply", "filter_by")
                for i in (0, 1)
            ]
            inside = [s.kind for step in spec.walk() if step.kind == "window" and step.sub for s in step.sub.walk()]
            if not waiting or {"apply", "filter_by"} & set(inside):
                continue
            case = replace(
                case,
                extra=(
                    r.choice([("full",), ("overflow",), ("length", r.choice(waiting), r.randint(0, 2))]),
                    r.randint(1, 4),
                ),
            )
        elif question == "names":
            unclear = two_meanings(spec)
            if not unclear:
                continue
            case = replace(case, extra=r.choice(unclear))
        elif question in ("implies", "monitor"):
            boolean = (
                spec
                if question == "monitor" and spec.type_of(spec.outputs[0][1]) == "bool"
                else d.spec(spec.sources, 3, result="bool")
            )
            if len(boolean.outputs) > 1:
                continue
            case = replace(case, specs=(boolean, relative(boolean, d)) if question == "implies" else (boolean,))
            if question == "monitor":
                case = replace(case, extra=observed(spec, d, listed), ints=None, how=())
        elif question in ("step", "sequence", "paper"):
            if len(spec.outputs) > 1:
                continue
            case = replace(case, specs=(spec, relative(spec, d)))
        if question in ("holds", "live", "step", "implies", "sequence", "paper", "queues") and r.random() < 0.12:
            case = replace(case, assumed=an_assumption(spec, r, style))
        cases.append(case)
    return cases


def an_assumption(spec: Spec, r: random.Random, style: Style) -> tuple[Any, ...]:
    """Something about the sources that can go on for ever, if it can begin."""
    parts: list[Any] = []
    for name, kind in spec.sources:
        if kind == "int" and r.random() < 0.6:
            parts.append(
                ("sorted", name, r.choice([">=", "<="]))
                if r.random() < 0.4
                else ("value", name, r.choice([">=", "<", "!=", ">"]), r.randint(style.low, style.high))
            )
        if r.random() < 0.25:
            parts.append(("speaks", name))
    if len(spec.sources) > 1 and r.random() < 0.3:
        parts.append(("together", spec.sources[0][0], spec.sources[1][0]))
    return tuple(parts)


# ---------------------------------------------------------------- the run


class Run:
    """Cases of seeds, counted."""

    def __init__(self, folder: Path | None = None, *, quiet: bool = False, calm: bool = False) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.slow: list[tuple[float, str]] = []
        self.refusals: Counter[str] = Counter()
        self.found: list[tuple[int, Found, str]] = []
        self.kinds: Counter[str] = Counter()
        self.folder, self.quiet, self.calm = folder, quiet, calm
        self.pipelines = 0

    def seed(self, seed: int) -> None:
        """All questions of one seed."""
        self.pipelines += 1
        for case in draw(seed, calm=self.calm):
            start = time.monotonic()
            answer = ask(case)
            answer.seconds = time.monotonic() - start
            self.counts[case.question, answer.status] += 1
            if answer.status == "refused":
                self.refusals[f"{case.question}: {answer.message[:110]}"] += 1
            if answer.seconds > 2.5 * SECONDS:
                self.slow.append((answer.seconds, case.program(f"seed {seed}: {answer.seconds:.1f} s")))
            found = judge(case, answer)
            if found:
                self.report(seed, case, found)

    def report(self, seed: int, case: Case, found: Found) -> None:
        """A disagreement, as a script."""
        self.kinds[found.kind] += 1
        program = case.program(f"seed {seed}: {found.kind}\n{found.told}")
        self.found.append((seed, found, program))
        if not self.quiet:
            print("-" * 100, program, sep="\n", flush=True)
        if self.folder:
            (self.folder / f"{found.kind.replace(' ', '_').replace('/', '')}_{seed}.py").write_text(program)

    def table(self) -> str:
        """The counts."""
        words = ["proved", "refuted", "unknown", "refused", "fault"]
        rows = [f"{'question':<12}" + "".join(f"{w:>10}" for w in words)]
        for question in sorted({q for q, _ in self.counts}):
            rows.append(f"{question:<12}" + "".join(f"{self.counts[question, w]:>10}" for w in words))
        rows.append(
            f"{'all':<12}" + "".join(f"{sum(n for (_, s), n in self.counts.items() if s == w):>10}" for w in words)
        )
        rows.append(
            f"{self.pipelines} pipelines, {sum(self.counts.values())} answers, {sum(self.kinds.values())} "
            f"disagreements {dict(self.kinds)}, {len(self.slow)} slow"
        )
        return "\n".join(rows)


def main() -> int:
    """From the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.judge.verdicts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one seed alone, as a disagreement names it")
    parser.add_argument("--folder", type=Path, help="where each disagreement is written as a script")
    parser.add_argument("--calm", action="store_true", help="one event per push, no failures, plain names")
    args = parser.parse_args()
    if args.folder:
        args.folder.mkdir(parents=True, exist_ok=True)
    run = Run(args.folder, calm=args.calm)
    if args.only is not None:
        run.seed(args.only)
    else:
        until, seed = time.monotonic() + 60 * args.minutes, args.seed * 10_000_000
        while time.monotonic() < until:
            run.seed(seed)
            seed += 1
            if run.pipelines % 500 == 0:
                print(run.table(), flush=True)
    print(run.table())
    for message, n in run.refusals.most_common(25):
        print(f"{n:>6} {message}")
    for _, program in sorted(run.slow, reverse=True)[:3]:
        print(program)
    return 1 if run.found else 0


if __name__ == "__main__":
    sys.exit(main())
