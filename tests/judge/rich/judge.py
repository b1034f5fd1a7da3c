"""A judge of verdicts about rich types: values that may be missing, enums, records in records, times, decimals.

    python -m tests.judge.rich --minutes 2 --seed 1

Pipelines are drawn as Python text (`draw`), questions as text (`questions`); what is true is found by
listing all runs over few integers, with a meaning of its own (`meaning`).  Pellucid is used by its public names
only.  An answer that is not true, a counterexample that shows nothing or is not the shortest, a run that puts out
something else, an exception that is none of Pellucid's, and an *unknown* that blames Pellucid itself are found; other
*unknowns* are counted with their reason.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pellucid import errors, silent
from tests.judge.rich.draw import Draw, Drawn
from tests.judge.rich.kinds import PRELUDE, SPACE, numbers, values, written
from tests.judge.rich.meaning import FAILED, Pipe, Push, begin, push, run, waiting
from tests.judge.rich.questions import (
    Atom,
    Formulas,
    Term,
    Truth,
    all_pushes,
    differ,
    keeps_to,
    longest_queues,
    now,
    of_formula,
    of_sequence,
    of_two,
    random_runs,
    rest,
    said,
    text,
)
from tests.judge.rich.variants import variant
from tests.judge.verdict_formulas import BRANCHING, Graph, atoms, ltl_violated, operators

LIMIT = 5000  # pushes that a search for what is true may make
SECONDS = 5
QUESTIONS = ["holds", "holds", "holds", "live", "step", "step", "sequence", "implies", "dead_paths", "buffers"]
BLAME = re.compile(r"Pellucid|please report|disagree|not replay", re.I)


@dataclass
class Case:
    """One question."""

    question: str
    source: str  # of the pipelines p and, of two, q
    drawn: tuple[Drawn, ...]
    pipes: tuple[Pipe, ...]
    space: dict[str, Any]
    ints: tuple[int, ...] | None
    ints_text: str
    formula: Any = None
    engine: str = "auto"
    assumed: Any = None
    within: int = 0

    def call(self) -> str:
        """As Python."""
        more = (f", ints={self.ints_text}" if self.ints_text else "") + f", timeout={SECONDS}"
        more += f", engine={self.engine!r}" if self.engine != "auto" else ""
        if self.assumed is not None:
            more = (f", assume={text(self.assumed)[1:-1]!r}" if self.assumed[0] == "atom" else ", assume=given") + more
        if self.within:
            more = f", within={self.within}{more}"
        match self.question:
            case "holds":
                return f"check.holds(p, {text(self.formula)!r}{more})"
            case "step" | "implies":
                return f"check.{'equivalent' if self.question == 'step' else 'implies'}(p, q{more})"
            case "sequence":
                return f"check.equivalent(p, q, how='sequence'{more})"
        return f"check.{self.question}(p{more})"

    def program(self) -> str:
        """A script that stands alone."""
        return f"{PRELUDE}\n\n{self.source}print({self.call()})\n"

    def pushes(self) -> list[Push] | None:
        """All that can come in one push, of what is tried; None if it is too much."""
        found = all_pushes(self.pipes[0], self.sample)
        return None if found is None else [events for events in found if self.may_come(events)]

    def may_come(self, events: Push) -> bool:
        """Whether a push satisfies what is assumed."""
        if self.assumed is None:
            return True
        if self.assumed[0] == "atom":
            return keeps_to(self.assumed, self.pipes[0], events)
        try:
            return all(self.space["given"](event) for event in events.values())
        except Exception:
            return False

    @property
    def sample(self) -> tuple[int, ...]:
        """The integers that are tried: all of the domain, or a few."""
        return (-1, 0, 1, 2) if self.ints is None else self.ints


def built(source: str) -> dict[str, Any]:
    """The names that a source defines."""
    space = dict(SPACE)
    exec(compile(source, "<case>", "exec", dont_inherit=True), space)
    return space


class Unbuilt(Exception):  # noqa: N818 - not an error
    """The pipeline was refused when it was built."""


def draw(seed: int) -> list[Case]:
    """The questions of one seed."""
    r = random.Random(seed)
    domain = r.choices(["range", "set", "mod", "exact"], [5, 2, 2, 2])[0]
    ints: tuple[int, ...] | None = None
    ints_text, low, high = "", -1, 4
    if domain == "range":
        start = r.choice([0, 0, -1, 1, 5])
        ints = tuple(range(start, start + r.randint(1, 3)))
        ints_text, low, high = f"range({ints[0]}, {ints[-1] + 1})", min(0, start), start + 3
    elif domain == "set":
        ints = tuple(sorted(r.sample([-2, -1, 0, 1, 2, 3, 7], r.randint(1, 3))))
        ints_text, low, high = f"{{{', '.join(map(str, ints))}}}", -2, 7
    elif domain == "mod":
        ints = tuple(range(r.randint(2, 3)))
        ints_text, low, high = f"Mod({len(ints)})", 0, len(ints) - 1
    d = Draw(
        r,
        failures=r.random() < 0.4,
        times=domain != "mod" and r.random() < 0.4,
        called=domain != "mod" and r.random() < 0.4,
        low=low,
        high=high,
    )
    first = d.drawn()
    boolean = d.drawn(first.sources, result="bool")
    others = {"p": first, "v": variant(d, first), "o": d.drawn(first.sources, result=first.type_of(first.out))}
    cases = []
    for question in r.sample(QUESTIONS, 4):
        pair: tuple[Drawn, ...] = (first,)
        if question in ("step", "sequence"):
            pair = (first, others["v"] if r.random() < 0.9 else others["o"])
        elif question == "implies":
            pair = (boolean, variant(d, boolean))
        source = "".join(p.source(name) for name, p in zip("pq", pair, strict=False))
        assumed: Any = None
        if r.random() < 0.2 and question in ("holds", "live", "step", "implies"):
            assumed = ("predicate",)
            if len(first.sources) == 1 and r.random() < 0.5:
                kind = first.sources[0][1]
                source = d.text((("e", kind),), "bool").source("given") + "\n\n" + source
            else:
                plain = Pipe(first.sources, (), 0)
                assumed = Formulas(plain, d).assumption()
        if domain == "mod" and re.search(r" [-+*%] |//|-\w|min\(|max\(|abs\(|\.(?:day|week)", source):
            continue  # modulo N an expression has a meaning of its own: only what computes nothing is asked
        try:
            space = built(source)
        except errors.PellucidError as error:
            raise Unbuilt(f"{type(error).__name__}: {error}\n{source}") from error
        pipes = tuple(p.pipe(name, space) for name, p in zip("pq", pair, strict=False))
        case = Case(question, source, pair, pipes, space, ints, ints_text)
        case.engine = r.choices(["auto", "explicit", "smt"], [3, 1, 1])[0] if question != "buffers" else "auto"
        if question == "holds":
            case.formula = Formulas(pipes[0], d).formula()
        if question == "live":
            out: Any = ("atom", Atom("present", Term("value", pipes[0].out, "out")))
            case.formula = ("AG", ("EF", out))
            if r.random() < 0.3:
                case.within = r.randint(1, 3)
                case.formula = lively(pipes[0], out, case.within)
        case.assumed = assumed
        cases.append(case)
    return cases


def lively(pipe: Pipe, out: Any, within: int) -> Any:
    """Where all sources speak in so many pushes, one of those has an output."""
    spoken: Any = ("atom", Atom("true"))
    for i, (name, _) in enumerate(pipe.sources):
        spoken = ("&", spoken, ("atom", Atom("present", Term("value", i, name))))
    every, heard = spoken, out
    for _ in range(within - 1):
        every, heard = ("&", spoken, ("X", every)), ("|", out, ("X", heard))
    return ("G", ("->", every, heard))


# ---------------------------------------------------------------- judging


@dataclass
class Outcome:
    """An answer, and what is wrong with it."""

    status: str  # proved, refuted, unknown, refused, crashed
    wrong: str = ""
    notes: str = ""
    compared: bool = False
    seconds: float = 0.0


def judge(case: Case) -> Outcome:
    """Ask, and hold the answer against what is true."""
    began = time.monotonic()
    try:
        verdict = eval(case.call(), case.space)
    except errors.PellucidError as error:
        return Outcome("refused", notes=f"{type(error).__name__}: {error}")
    except Exception:
        return Outcome("crashed", traceback.format_exc(limit=-5))
    status = "proved" if verdict.proved else "refuted" if verdict.refuted else "unknown"
    out = Outcome(status, notes="; ".join(verdict.notes), seconds=time.monotonic() - began)
    if status == "unknown":
        if BLAME.search(out.notes):
            out.wrong = f"unknown, and Pellucid is to blame: {out.notes}"
        return out
    out.wrong, out.compared = wrong_with(case, status, verdict)
    return out


def wrong_runs(case: Case) -> str:
    """What is wrong with how the pipelines run, on a few random inputs."""
    for name, pipe in zip("pq", case.pipes, strict=False):
        for pushes in random_runs(pipe, random.Random(5), case.sample, 6):
            data = {source: [events.get(source, silent) for events in pushes] for source, _ in pipe.sources}
            told = [None if seen.failed else list(seen.streams[pipe.out]) for seen in run(pipe, pushes)]
            try:
                found = case.space[name].trace(**data)
            except errors.StepError:
                found = None
            except Exception:
                return f"{name} on {pushes}: {traceback.format_exc(limit=-4)}"
            if (None in told) != (found is None) or (found is not None and found != told):
                return f"{name} puts out {found} on {pushes}, where {told} is right"
    return ""


def wrong_with(case: Case, status: str, verdict: Any) -> tuple[str, bool]:
    """What is wrong with a verdict, and whether it could be compared with all runs."""
    pipes = case.pipes
    inputs = case.pushes()
    whole = case.ints is not None or not any(kind in str(pipes[0].sources) for kind in NUMBERS)
    if case.question == "buffers":
        return wrong_bounds(case, status, verdict, inputs if whole else None), inputs is not None and whole
    if case.question == "dead_paths":
        return wrong_dead(case, verdict, inputs if whole else None), True
    truth = Truth(None)
    if inputs is not None:
        truth = true_of(case, inputs)
        if not whole:
            linear = case.question in ("step", "implies", "sequence") or (
                case.question in ("holds", "live")
                and (one_push(case.formula) or not operators(case.formula) & BRANCHING)
            )
            truth = truth if truth.so is False and linear else Truth(None)
    if status == "proved" and truth.so is False:
        return f"proved, but a run of {truth.length} pushes shows that it is not so", True
    if status == "refuted" and truth.so is True:
        return f"refuted, but all runs were tried, and it is so: {shown(verdict)}", True
    if status == "refuted":
        return wrong_run(case, verdict, truth, whole), True
    if truth.so is None:
        return attacked(case), True
    return "", True


NUMBERS = ["int", "Pos", "Sale", "Nest", "Bill", "Stamp", "Deep", "date", "cents", "timedelta"]


def one_push(f: Any) -> bool:
    """Whether a formula says something of every push alone."""
    return f[0] in ("G", "AG") and operators(f[1]) <= {"!", "&", "|", "->"}


def true_of(case: Case, inputs: Sequence[Push]) -> Truth:
    """What is true, as far as the search comes."""
    match case.question:
        case "holds" | "live":
            return of_formula(case.pipes[0], case.formula, inputs, LIMIT)
        case "sequence":
            return of_sequence(case.pipes, inputs, LIMIT)
    return of_two(case.question, case.pipes, inputs, LIMIT)


def shown(verdict: Any) -> str:
    """A counterexample, readable."""
    c = verdict.counterexample
    if c is None:
        return "no counterexample"
    runs = ", ".join("{" + ", ".join(f"{n!r}: {written(v)}" for n, v in e.items()) + "}" for e in c.inputs)
    return f"[{runs}] loop={c.loop}"


def large(pushes: Sequence[Push]) -> bool:
    """Whether numbers come that may leave 64 bits, which Python's own never do."""
    return any(abs(n) > 2**40 for events in pushes for v in events.values() for n in numbers(v))


def wrong_run(case: Case, verdict: Any, truth: Truth, whole: bool) -> str:
    """What is wrong with a counterexample."""
    c = verdict.counterexample
    if c is None:
        return "refuted without a counterexample"
    pushes, loop = [dict(e) for e in c.inputs], c.loop
    kinds = dict(case.pipes[0].sources)
    for events in pushes:
        for name, value in events.items():
            fits = value in values(kinds[name], case.ints if case.ints is not None else sorted({0, *numbers(value)}))
            if not fits:
                return f"{name} = {written(value)} cannot come: {shown(verdict)}"
        if not case.may_come(events):
            return f"{events} is not what is assumed: {shown(verdict)}"
    if large(pushes):
        return ""
    if case.ints_text[:3] != "Mod" and not c.replay():
        return f"its replay says no: {shown(verdict)}"
    bad = f"its counterexample shows nothing: {shown(verdict)}"
    if case.question in ("step", "implies"):
        a, b = (run(p, pushes) for p in case.pipes)
        if not any(differ(case.question, x, y, case.pipes) for x, y in zip(a, b, strict=True)):
            return bad
    elif case.question == "sequence":
        return "" if sequences_differ(case.pipes, pushes, loop) else bad
    elif case.question == "holds" and one_push(case.formula):
        names = atoms(case.formula)
        seen = run(case.pipes[0], pushes)
        if all(now(case.formula[1], tuple(a.holds(s) for a in names), names) for s in seen):
            return bad
    elif case.question in ("holds", "live") and not operators(case.formula) & BRANCHING:
        return "" if violated(case.pipes[0], case.formula, pushes, loop) else bad
    if truth.length is not None and (len(pushes) > truth.length or (whole and len(pushes) < truth.length)):
        return f"{len(pushes)} pushes where the shortest has {truth.length}: {shown(verdict)}"
    return ""


def lasso(pipes: Sequence[Pipe], pushes: Sequence[Push], loop: int | None) -> tuple[list[list[Any]], int]:
    """What is seen of a run that goes round (without a loop: in silence), until all repeats, and where that begins."""
    pushes = [*pushes, {}] if loop is None else list(pushes)
    loop = len(pushes) - 1 if loop is None else loop
    states = [begin(p) for p in pipes]
    seen: list[list[Any]] = [[] for _ in pipes]
    before: dict[Any, int] = {}
    for turn in range(60):
        for events in pushes if turn == 0 else pushes[loop:]:
            if turn == 0 and len(seen[0]) == loop:
                before[tuple(states)] = loop
            for i, p in enumerate(pipes):
                states[i], now_seen = push(p, states[i], events)
                seen[i].append(now_seen)
        if tuple(states) in before:
            return seen, before[tuple(states)]
        before[tuple(states)] = len(seen[0])
    return seen, len(seen[0]) - (len(pushes) - loop)


def violated(pipe: Pipe, f: Any, pushes: Sequence[Push], loop: int | None) -> bool:
    """Whether a run violates a formula of LTL."""
    (seen,), at = lasso([pipe], pushes, loop)
    names = atoms(f)
    labels = [tuple(a.holds(s) for a in names) for s in seen]
    follow = [[i + 1] for i in range(len(seen) - 1)] + [[at]]
    return ltl_violated(f, Graph(labels, follow, [True] * len(seen), [0], []))[0]


def sequences_differ(pipes: Sequence[Pipe], pushes: Sequence[Push], loop: int | None) -> bool:
    """Whether two sequences differ on a run: at one place, or because one of them never comes."""
    states = [begin(p) for p in pipes]
    left: tuple[int, tuple[Any, ...]] | None = (0, ())
    turns = 1 if loop is None else 25
    history = []
    for turn in range(turns):
        for events in pushes if turn == 0 else pushes[loop:]:
            new = []
            for i, p in enumerate(pipes):
                after, seen = push(p, states[i], events)
                new.append(said(p, states[i], seen))
                states[i] = after
            assert left is not None
            left = rest(left[0], left[1], new)
            if left is None:
                return True
            history.append((left[0], len(left[1]), len(new[1 - left[0]])))
    if loop is None:
        return False
    last = history[-10 * (len(pushes) - loop) :]
    return all(n > 0 and behind == 0 for _, n, behind in last)


def attacked(case: Case) -> str:
    """Random runs against what was proved of more than can be listed."""
    r = random.Random(7)
    ints = case.sample if case.ints is not None else (-2, -1, 0, 1, 2, 3, 4, 5, 6, 7)
    names = atoms(case.formula) if case.formula else []
    for drawn in random_runs(case.pipes[0], r, ints, 60):
        pushes = [events for events in drawn if case.may_come(events)]
        if not pushes:
            continue
        broken = False
        match case.question:
            case "step" | "implies":
                a, b = (run(p, pushes) for p in case.pipes)
                broken = any(differ(case.question, x, y, case.pipes) for x, y in zip(a, b, strict=True))
            case "sequence":
                broken = sequences_differ(case.pipes, pushes, None)
            case "holds" if one_push(case.formula):
                seen = run(case.pipes[0], pushes)
                broken = not all(now(case.formula[1], tuple(a.holds(s) for a in names), names) for s in seen)
            case "holds" | "live" if not operators(case.formula) & BRANCHING and (case.may_come({})):
                broken = violated(case.pipes[0], case.formula, pushes, r.choice([None, r.randrange(len(pushes))]))
        if broken:
            return f"proved, but it is not so on {pushes}"
    return ""


def wrong_bounds(case: Case, status: str, verdict: Any, inputs: Sequence[Push] | None) -> str:
    """What is wrong with the bounds of queues."""
    pipe = case.pipes[0]
    if status == "refuted":
        c = verdict.counterexample
        if c is None or c.loop is None:
            return f"no loop: {shown(verdict)}"
        pushes, sums = [dict(e) for e in c.inputs], []
        for turns in (1, 4, 7):
            state = begin(pipe)
            for events in [*pushes[: c.loop], *(pushes[c.loop :] * turns)]:
                state, _ = push(pipe, state, events)
            sums.append(0 if state == FAILED else sum(waiting(pipe, state).values()))
        inside = any(s.kind in ("apply", "filter_by") for step in pipe.steps if step.sub for s in step.sub.steps)
        return "" if sums[0] < sums[1] < sums[2] or inside else f"no queue grows on {shown(verdict)}: {sums}"
    if inputs is None:
        return ""
    most, full = longest_queues(pipe, inputs, LIMIT)
    bounds = verdict.details.get("bounds", {})
    for name, length in most.items():
        if name in bounds and (bounds[name] < length or (full and bounds[name] > length)):
            return f"the bound of {name} is {bounds[name]}, but {length} wait at most (all seen: {full})"
    return ""


def wrong_dead(case: Case, verdict: Any, inputs: Sequence[Push] | None) -> str:
    """What is wrong with the steps that are said to be of no use."""
    pipe = case.pipes[0]
    dead = dict(verdict.details.get("dead", {}))
    named = pipe.names()
    runs = [run(pipe, pushes) for pushes in random_runs(pipe, random.Random(4), case.sample, 40)]
    for step in pipe.steps:
        if step.id not in named:
            continue
        why = dead.get(step.id, "")
        mine, given = named[step.id], step.inputs[0]
        if "lets every" in why and any(len(s.streams[mine]) != len(s.streams[given]) for seen in runs for s in seen):
            return f"{step.id}: {why}; but it drops an event"
        if "never" in why and any(s.streams[mine] for seen in runs for s in seen):
            return f"{step.id}: {why}; but it puts out an event"
        if step.kind == "filter" and not why and inputs is not None:
            all_through = [replace(s, f=lambda e: True) if s is step else s for s in pipe.steps]
            if of_two("step", (pipe, replace(pipe, steps=tuple(all_through))), inputs, LIMIT).so:
                return f"{step.id} can be left out, as all runs show, but is not called dead: {dead}"
    return ""


# ---------------------------------------------------------------- the run


class Run:
    """Seeds, counted."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.unknown: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.found: list[tuple[int, str, str]] = []
        self.compared = self.unbuilt = self.seeds = 0
        self.slow: list[tuple[float, int, str]] = []

    def seed(self, seed: int) -> None:
        """All questions of one seed."""
        self.seeds += 1
        try:
            cases = draw(seed)
        except Unbuilt as error:
            self.unbuilt += 1
            self.refused[re.sub(r"\d+|'[^']*'", "_", str(error).split("\n")[0])[:150]] += 1
            return
        for case in cases:
            wrong = wrong_runs(case)
            if wrong:
                self.found.append((seed, wrong, case.program()))
            outcome = judge(case)
            self.counts[case.question, outcome.status] += 1
            self.compared += outcome.compared
            if outcome.seconds > 3 * SECONDS:
                self.slow.append((outcome.seconds, seed, case.call()))
            if outcome.status in ("unknown", "refused"):
                self.unknown[
                    f"{case.engine} {case.question} {outcome.status}: {outcome.notes[:200]} (as seed {seed})"
                ] += 1
            if outcome.wrong:
                self.found.append((seed, outcome.wrong, case.program()))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.judge.rich", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--notes", action="store_true", help="print the reasons of what is unknown or refused, too")
    asked = parser.parse_args(argv)
    whole, seed, until = Run(), asked.seed, time.monotonic() + 60 * asked.minutes
    while time.monotonic() < until:
        told = len(whole.found)
        try:
            whole.seed(seed)
        except Exception:
            print(f"seed {seed}: the judge itself fails", file=sys.stderr)
            raise
        for at, wrong, program in whole.found[told:]:
            print(f"# seed {at}: {wrong}\n{program}", flush=True)
        seed += 1
    for (question, status), n in sorted(whole.counts.items()):
        print(f"{question:11} {status:8} {n}")
    if asked.notes:
        for reason, n in [*whole.unknown.most_common(60), *whole.refused.most_common(20)]:
            print(f"{n:4} {reason}")
    for seconds, at, call in whole.slow:
        print(f"slow: {seconds:.1f} s, seed {at}: {call}")
    print(
        f"{sum(whole.counts.values())} answers about {whole.seeds} pipelines (seeds {asked.seed} to {seed - 1}, "
        f"{whole.unbuilt} not built), {whole.compared} compared: {len(whole.found)} wrong"
    )
    return 1 if whole.found else 0
