"""One question to Pellucid, and what is wrong with its answer.

A `Case` is data: pipelines, the question, the domain.  `ask` writes it as Python and runs that; `judge` compares the
answer with what is true.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pellucid import Mod, Stream, apply, check, errors, merge, pipeline, silent
from tests.judge import verdict_meaning as meaning
from tests.judge.verdict_meaning import (
    BRANCHING,
    FAILED,
    Fit,
    Spec,
    atom_holds,
    atoms,
    checked,
    modulo,
    on_finite,
    operators,
    plain,
    push,
    queues,
    text,
)
from tests.judge.verdict_pipelines import PRELUDE, script, value_text
from tests.judge.verdict_truth import (
    DEAD,
    Push,
    Truth,
    agree,
    all_pushes,
    assumed_text,
    follow,
    holds_on_run,
    keeping,
    keeps_to,
    met,
    of_bound,
    of_formula,
    of_monitor,
    of_sequence,
    of_two,
    queue_lengths,
    random_runs,
    tokens,
)

LIMIT = 12_000  # pushes that are tried to find out what is true


@dataclass(frozen=True)
class Case:
    """A question about one pipeline or two."""

    question: str  # holds, live, step, sequence, paper, implies, monitor, buffers, dead_paths, holds_on
    specs: tuple[Spec, ...]
    ints: tuple[Any, ...] | None = None  # ("range", low, high), ("set", values), ("mod", n); None: exact
    formula: Any = None
    extra: Any = None  # the system of a monitor; the pushes of holds_on; within
    how: tuple[tuple[str, Any], ...] = ()
    assumed: tuple[Any, ...] = ()

    @property
    def values(self) -> list[int] | None:
        """The integers that come in."""
        match self.ints:
            case ("range", low, high):
                return list(range(low, high))
            case ("set", values):
                return sorted(values)
            case ("mod", n):
                return list(range(n))
        return None

    @property
    def fit(self) -> Fit:
        """The arithmetic."""
        return modulo(self.ints[1]) if self.ints and self.ints[0] == "mod" else checked

    def call(self) -> str:
        """The question as Python."""
        words = [f"{k}={v!r}" for k, v in self.how]
        if self.assumed:
            words.insert(0, f"assume={assumed_text(self.assumed)!r}")
        match self.ints:
            case ("range", low, high):
                words.insert(0, f"ints=range({low}, {high})")
            case ("set", values):
                words.insert(0, f"ints={{{', '.join(map(repr, sorted(values)))}}}")
            case ("mod", n):
                words.insert(0, f"ints=Mod({n})")
        more = "".join(", " + word for word in words)
        match self.question:
            case "holds":
                return f"check.holds(p, {text(self.formula)!r}{more})"
            case "live":
                within = f", within={self.extra}" if self.extra else ""
                output = f", output={self.specs[0].outputs[0][0]!r}" if len(self.specs[0].outputs) > 1 else ""
                return f"check.live(p{within}{output}{more})"
            case "queues":
                asked, bound = self.extra
                plain_name = asked[0] not in {n for n, _ in (*self.specs[0].sources, *self.specs[0].outputs)} | {
                    s.id for s in self.specs[0].steps
                }
                word = asked[0] if plain_name else f'flag("{asked[0]}")'
                formula = f'G (queue("{asked[1]}").length <= {asked[2]})' if asked[0] == "length" else f"!EF {word}"
                return f"check.holds(p, {formula!r}, queue={bound}{more})"
            case "names":
                return f"check.holds(p, 'G {self.extra}'{more})"
            case "step":
                return f"check.equivalent(p, q{more})"
            case "sequence" | "paper":
                return f"check.equivalent(p, q, how={self.question!r}{more})"
            case "implies":
                return f"check.implies(p, q{more})"
            case "buffers" | "dead_paths":
                return f"check.{self.question}(p{more})"
            case "monitor":
                initial, following, see = self.extra
                seen = "{" + ", ".join(f"{s}: {pushed(e)}" for s, e in see.items()) + "}"
                return (
                    f"check.monitor(check.Transitions({initial}, {following}.__getitem__, {seen}.__getitem__), p{more})"
                )
            case "holds_on":
                streams = ", ".join(
                    f"{n}=[{', '.join(value_text(e[n]) if n in e else 'silent' for e in self.extra)}]"
                    for n, _ in self.specs[0].sources
                )
                return f"check.holds_on(p, {text(self.formula)!r}, {streams})"
        raise AssertionError(self.question)

    def source(self) -> str:
        """The pipelines as Python."""
        return script(dict(zip("pq", self.specs, strict=False)))

    def program(self, said: str) -> str:
        """A script that stands alone."""
        comment = "".join(f"# {line}\n" for line in said.splitlines())
        return f"{comment}{PRELUDE}\n{self.source()}\nprint({self.call()})\n"


def pushed(events: Push) -> str:
    """A push as Python."""
    return "{" + ", ".join(f"{n!r}: {value_text(v)}" for n, v in events.items()) + "}"


@dataclass
class Answer:
    """What came back."""

    status: str  # proved, refuted, unknown; refused; fault
    verdict: Any = None
    message: str = ""
    seconds: float = 0.0


@dataclass
class Found:
    """A disagreement."""

    kind: str
    told: str
    pushes: Any = field(default=None)


NAMES = {
    "Mod": Mod,
    "Stream": Stream,
    "apply": apply,
    "check": check,
    "merge": merge,
    "pipeline": pipeline,
    "silent": silent,
    "random": random,
}


def ask(case: Case) -> Answer:
    """Build the pipelines and ask."""

    def need(condition: Any, value: Any) -> Any:
        if not condition:
            raise ValueError("needed")
        return value

    space: dict[str, Any] = {
        **NAMES,
        "Color": meaning.Color,
        "Pair": meaning.Pair,
        "Odd": meaning.Odd,
        "need": need,
        "CALLS": [0],
        "__name__": "case",
    }
    try:
        exec(compile(case.source(), "<case>", "exec"), space)
        verdict = eval(case.call(), space)
    except errors.PellucidError as error:
        return Answer("refused", message=f"{type(error).__name__}: {error}")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Answer(
            "fault", message=f"{type(error).__name__} in {place.name}: {error}\n{traceback.format_exc(limit=-4)}"
        )
    status = "proved" if verdict.proved else "refuted" if verdict.refuted else "unknown"
    return Answer(status, verdict)


# ---------------------------------------------------------------- judging


def constants(spec: Spec) -> list[int]:
    """The numbers that a pipeline mentions."""

    def within(e: Any) -> list[int]:
        if isinstance(e, tuple):
            return [c for part in e for c in within(part)]
        return [e] if isinstance(e, int) and not isinstance(e, bool) else []

    return [c for step in spec.walk() if step.fn for c in within(step.fn.body)] + [
        c for step in spec.walk() if step.task for c in within((step.task.yes, step.task.no, step.task.condition))
    ]


def truth(case: Case, fit: Fit) -> Truth:
    """What is true, as far as a complete search can tell; of exact domains nothing."""
    spec = case.specs[0]
    if case.question == "monitor":
        return of_monitor(spec, case.extra, fit)
    if case.question == "holds_on":
        return Truth(on_finite(case.formula, meaning.run(spec, case.extra, fit)))
    values = case.values
    inputs = (
        all_pushes(spec, values if values is not None else [0])
        if values is not None or all(t in ("bool", "Color") for _, t in spec.sources)
        else None
    )
    if inputs is None:
        return Truth(None)
    inputs = [events for events in inputs if keeps_to(case.assumed, {}, events)]
    match case.question:
        case "holds":
            return of_formula(spec, case.formula, inputs, fit, LIMIT, case.assumed)
        case "live":
            return of_formula(spec, lively(case), inputs, fit, LIMIT, case.assumed)
        case _ if any(part[0] == "sorted" for part in case.assumed):
            return Truth(None)
        case "queues":
            return of_bound(spec, case.extra[0], case.extra[1], inputs, fit, LIMIT)
        case "step" | "implies":
            return of_two(case.question, case.specs, inputs, fit, LIMIT)
        case "sequence" | "paper":
            return of_sequence(case.specs, inputs, fit, LIMIT, case.question == "paper")
    return Truth(None)


def lively(case: Case) -> Any:
    """What `live` asks; within k: where all sources speak in k pushes, one of those has an output."""
    spec = case.specs[0]
    out: Any = ("atom", ("present", (spec.outputs[0][1], "out")))
    if case.extra is None:
        return ("AG", ("EF", out))
    spoken: Any = ("atom", ("true",))
    for i, (name, _) in enumerate(spec.sources):
        spoken = ("&", spoken, ("atom", ("present", (i, name))))
    heard: Any = ("!", ("atom", ("true",)))
    every: Any = ("atom", ("true",))
    for _ in range(case.extra):
        heard, every = ("|", out, ("X", heard)), ("&", spoken, ("X", every))
    return ("G", ("->", every, heard))


def judge(case: Case, answer: Answer) -> Found | None:
    """What is wrong with an answer, if anything is."""
    if answer.status == "fault":
        return Found("exception " + answer.message.split(":")[0], answer.message)
    if (
        answer.status == "refused"
        and case.question not in ("holds", "holds_on", "names")
        and ("expected a" in answer.message or "could mean" in answer.message)
    ):
        return Found("refused because of a name", answer.message)
    if answer.status in ("refused", "unknown"):
        return None
    if case.question == "names":
        return Found(
            "ambiguous name accepted", f"{case.extra} could mean two things, but the answer is {answer.status}"
        )
    notes = " ".join(answer.verdict.notes)
    if (
        case.assumed
        and case.values is not None
        and (possible := all_pushes(case.specs[0], case.values))
        and not any(keeps_to(case.assumed, {}, e) for e in possible)
    ):
        return Found(
            "nothing satisfies what is assumed",
            f"{answer.status}, but no run satisfies what is assumed; notes {answer.verdict.notes}",
        )
    if not all(spec.pure for spec in case.specs):
        if answer.status == "proved" and not any(
            word in notes for word in ("pure", "opaque", "called", "random", "remember", "clock", "again")
        ):
            return Found(
                "impure proved", f"proved of a function that is not pure, without a word: notes {answer.verdict.notes}"
            )
        return None
    wide = case.fit is checked and "64 bits" in notes
    if case.question == "buffers":
        return judge_buffers(case, answer)
    if case.question == "dead_paths":
        return judge_dead(case, answer)
    so = truth(case, case.fit).so
    if so is False and answer.status == "proved" and not (wide and truth(case, plain).so is not False):
        run = truth(case, case.fit)
        return Found(
            f"{case.question} wrongly proved",
            f"proved, but it is violated on {told(run.pushes)}{' and then for ever' if run.loop else ''}; notes "
            f"{answer.verdict.notes}",
            run.pushes,
        )
    if so is True and answer.status == "refuted":
        return Found(
            f"{case.question} wrongly refuted",
            f"refuted, but every run was tried, and it holds; its counterexample: {shown(answer)}",
        )
    if answer.status == "refuted":
        return judge_counterexample(case, answer, so)
    if so is None:
        return attack(case, wide)
    return None


def told(pushes: Sequence[Push]) -> str:
    """A run, readable."""
    return "[" + ", ".join(pushed(e) for e in pushes) + "]"


def shown(answer: Answer) -> str:
    """A counterexample, readable."""
    c = answer.verdict.counterexample
    return "none" if c is None else f"{told(c.inputs)} loop={c.loop}"


def in_domain(case: Case, pushes: Sequence[Push]) -> str | None:
    """Whether the events of a counterexample may come."""
    types = dict(case.specs[0].sources)
    for events in pushes:
        for name, value in events.items():
            if name not in types:
                return f"no source {name}"
            parts = (
                [value]
                if types[name] not in meaning.FIELDS
                else [getattr(value, f) for f in meaning.FIELDS[types[name]]]
            )
            for part in parts:
                if isinstance(part, float) and part != part:
                    return "NaN comes in"
                if isinstance(part, int) and not isinstance(part, bool):
                    if case.values is not None and part not in case.values:
                        return f"{part} is not in the domain"
                    if not meaning.LOW <= part <= meaning.HIGH:
                        return f"{part} has no 64 bits"
    return None


def judge_counterexample(case: Case, answer: Answer, so: bool | None) -> Found | None:
    """A refutation must come with a run that violates the question."""
    c = answer.verdict.counterexample
    if c is None:
        return (
            Found(f"{case.question} no counterexample", "refuted without a counterexample")
            if case.question not in ("holds_on",)
            else None
        )
    pushes, loop = [dict(e) for e in c.inputs], c.loop
    if case.question not in ("monitor", "holds_on") and (strange := in_domain(case, pushes)):
        return Found("counterexample outside its domain", f"{strange}: {shown(answer)}")
    if len(keeping(case.assumed, [*pushes, *(pushes[loop:] if loop is not None else ())])) < len(pushes) + (
        len(pushes) - loop if loop is not None else 0
    ):
        return Found("counterexample against what is assumed", f"it does not satisfy what is assumed: {shown(answer)}")
    if case.fit is checked and len(case.specs) == 1 and (strange := misshown(case.specs[0], c)):
        return Found("counterexample misshown", strange)
    bad = Found(
        f"{case.question} counterexample shows nothing",
        f"refuted, but its counterexample {shown(answer)} does not violate it (what is true: {so})",
    )
    fit = case.fit
    match case.question:
        case "step" | "implies":
            runs, _, _ = follow(case.specs, pushes, loop, fit)
            return None if any(not agree(case.question, case.specs, pair) for pair in zip(*runs, strict=True)) else bad
        case "sequence" | "paper":
            return None if differs(case, pushes, loop) else bad
        case "monitor":
            seen = meaning.run(case.specs[0], pushes, fit)
            return None if any(s.failed or not all(s.of(case.specs[0].outputs[0][1])) for s in seen) else bad
        case "holds":
            return None if violated(case, pushes, loop) is not False else bad
        case "live" if case.extra is None:
            return None if silent_after(case, pushes) else bad
        case "live":
            return None if violated(replace(case, formula=lively(case)), pushes, loop) is not False else bad
        case "queues":
            state, most = meaning.begin(case.specs[0]), 0
            for events in pushes:
                state, _ = push(case.specs[0], state, events, fit)
                most = max(
                    most,
                    queues(case.specs[0], state).get(case.extra[0][1], 0)
                    if case.extra[0][0] == "length"
                    else meaning.longest(case.specs[0], state),
                )
            return (
                None
                if most
                > (case.extra[0][2] if case.extra[0][0] == "length" else case.extra[1] - (case.extra[0][0] == "full"))
                else bad
            )
    return None


def misshown(spec: Spec, c: Any) -> str | None:
    """Whether a counterexample shows other events than those that come."""
    named = {name: i for i, (name, _) in enumerate(spec.sources)}
    ids = {step.id: len(spec.sources) + i for i, step in enumerate(spec.steps) if step.id and step.id not in named}
    taken = {name for name, _ in spec.outputs}
    named = {f'source("{name}")' if name in taken else name: i for name, i in named.items()}
    ids = {name: i for name, i in ids.items() if name not in taken}
    outs = dict(spec.outputs)
    state = meaning.begin(spec)
    for at, step in enumerate(c.steps):
        state, seen = push(spec, state, step.inputs)
        if seen.failed:
            return None
        for name, i in {**named, **ids, **outs}.items():
            if name in step.streams and repr(list(step.streams[name])) != repr(list(seen.of(i))):
                return (
                    f"in push {at} {name} is shown with {step.streams[name]}, but has {list(seen.of(i))}: "
                    f"{told(c.inputs)}"
                )
        for name, length in queues(spec, state).items():
            if (
                name in step.queues
                and isinstance(step.queues[name], list)
                and len(step.queues[name]) != length
                and not any(spec.key_of(i) for i in range(len(spec.sources) + len(spec.steps)))
            ):
                return (
                    f"after push {at} the queue {name} is shown with {step.queues[name]}, but {length} events wait: "
                    f"{told(c.inputs)}"
                )
    return None


def differs(case: Case, pushes: list[Push], loop: int | None) -> bool:
    """Whether two sequences differ on a run: at one place, or one of them never comes."""
    runs, _, _ = follow(case.specs, pushes, loop, case.fit)
    rest: tuple[int, tuple[Any, ...]] | None = (0, ())
    dead = [False, False]
    last = 0
    for at, pair in enumerate(zip(*runs, strict=True)):
        new = []
        for i, seen in enumerate(pair):
            new.append(tokens(case.specs[i], FAILED if dead[i] else None, seen))
            dead[i] = dead[i] or seen.failed
        assert rest is not None
        before = rest
        rest = met(rest[0], rest[1], new, case.question == "paper")
        if rest is None:
            return True
        if not (before[1] and before[0] == rest[0] and len(rest[1]) >= len(before[1]) and not new[1 - rest[0]]):
            last = at + 1  # nothing is awaited since
    if loop is None or case.question == "paper":
        return False
    heard = {name for events in pushes[loop:] for name in events}
    size = len(pushes) - loop
    return (
        bool(rest[1]) and heard == {n for n, _ in case.specs[0].sources} and len(runs[0]) - last >= size
        if rest
        else True
    )


def violated(case: Case, pushes: list[Push], loop: int | None) -> bool | None:
    """Whether a counterexample violates a formula; None where one run cannot tell."""
    spec, f = case.specs[0], case.formula
    if operators(f) & BRANCHING:
        inner = f[1] if f[0] == "AG" else ("!", f[1][1]) if f[0] == "!" and f[1][0] == "EF" else None
        if inner is None or operators(inner) & BRANCHING or loop is not None:
            return None
        seen = meaning.run(spec, pushes, case.fit)
        return any(not of_push(inner, s) for s in seen)
    if loop is not None:
        so = holds_on_run(spec, f, pushes, loop, case.fit)
        return None if so is None else not so
    r = random.Random(1)
    after = [[{}]]
    after += [next(random_runs(spec, r, case.values, 1, ()))[:2] for _ in range(6)]
    return all(not holds_on_run(spec, f, [*pushes, *more], len(pushes), case.fit) for more in after)


def of_push(f: Any, seen: Any) -> bool:
    """Whether a formula without temporal operators holds of a push."""
    return on_finite(f, [seen])


def silent_after(case: Case, pushes: list[Push]) -> bool:
    """Whether nothing comes any more after a run (as far as random events can tell)."""
    spec, state = case.specs[0], meaning.begin(case.specs[0])
    for events in pushes:
        state, _ = push(spec, state, events, case.fit)
    r = random.Random(2)
    for run in random_runs(spec, r, case.values, 40, constants(spec)):
        now = state
        for events in keeping(case.assumed, [*pushes, *run])[len(pushes) :]:
            now, seen = push(spec, now, events, case.fit)
            if seen.of(spec.outputs[0][1]):
                return False
    return True


def attack(case: Case, wide: bool) -> Found | None:
    """Random runs against what was proved of more than can be listed."""
    spec = case.specs[0]
    r = random.Random(3)
    where = [c for s in case.specs for c in constants(s)]
    f = case.formula
    for run in random_runs(spec, r, case.values, 150, where):
        broken = False
        run = keeping(case.assumed, run)
        if not run:
            continue
        quiet = keeps_to(case.assumed, {}, {})
        runs = [meaning.run(s, run, case.fit) for s in case.specs]
        left = any(s.left for one in runs for s in one)
        if left and wide:
            continue
        match case.question:
            case "queues" if case.extra[0][0] != "length":
                broken = crowded(spec, run, case)
            case "step" | "implies":
                broken = any(not agree(case.question, case.specs, pair) for pair in zip(*runs, strict=True))
            case "sequence" | "paper":
                broken = differs(case, run, None)
            case "live" if case.extra is None:
                broken = runs[0][-1].failed
            case "live" if quiet:
                broken = holds_on_run(spec, lively(case), [*run, {}], len(run), case.fit) is False
            case "holds" if operators(f) & BRANCHING:
                inner = f[1] if f[0] == "AG" else ("!", f[1][1]) if f[0] == "!" and f[1][0] == "EF" else None
                if inner is not None and not operators(inner) & BRANCHING:
                    broken = any(not of_push(inner, s) for s in runs[0])
                elif inner is not None and inner[0] == "EF" and not operators(inner[1]) & BRANCHING:
                    broken = runs[0][-1].failed and not of_push(inner[1], runs[0][-1])
            case "holds":
                at = r.randrange(len(run))
                for pushes, loop in (([*run, {}], len(run)), (run, at)):
                    if len(keeping(case.assumed, [*pushes, *pushes[loop:]])) < 2 * len(pushes) - loop:
                        continue
                    so = holds_on_run(spec, f, pushes, loop, case.fit)
                    if so is False and not (wide and any(s.left for s in follow([spec], pushes, loop, case.fit)[0][0])):
                        return Found(
                            "holds wrongly proved", f"proved, but it is violated on {told(pushes)} loop={loop}", pushes
                        )
        if broken:
            return Found(f"{case.question} wrongly proved", f"proved, but it is violated on {told(run)}", run)
    return None


def crowded(spec: Spec, run: Sequence[Push], case: Case) -> bool:
    """Whether a queue comes to its bound."""
    state = meaning.begin(spec)
    for events in run:
        state, _ = push(spec, state, events, case.fit)
        most = meaning.longest(spec, state)
        if most >= case.extra[1]:
            return bool(most > case.extra[1]) if case.extra[0][0] == "overflow" else most == case.extra[1]
    return False


def judge_buffers(case: Case, answer: Answer) -> Found | None:
    """The least bound of each queue."""
    spec = case.specs[0]
    inputs = all_pushes(spec, case.values or [0])
    if inputs is None:
        return None
    inputs = [events for events in inputs if keeps_to(case.assumed, {}, events)]
    most, full = queue_lengths(spec, inputs, case.fit, LIMIT)
    if answer.status == "refuted":
        if full and case.values is not None and all(len(step.inputs) < 2 or step.id for step in spec.walk()):
            return Found(
                "buffers wrongly refuted",
                f"refuted, but all queues are bounded: {most}; its counterexample: {shown(answer)}",
            )
        c = answer.verdict.counterexample
        if c is None or c.loop is None:
            return Found("buffers counterexample shows nothing", f"no loop: {shown(answer)}")
        lengths = []
        pushes = [dict(e) for e in c.inputs]
        for turns in (1, 4, 7):
            state = meaning.begin(spec)
            for events in [*pushes[: c.loop], *(pushes[c.loop :] * turns)]:
                state, _ = push(spec, state, events, case.fit)
            lengths.append(sum(waiting_in(state)))
        return (
            None
            if lengths[0] < lengths[1] < lengths[2]
            else Found("buffers counterexample shows nothing", f"no queue grows on {shown(answer)}: {lengths}")
        )
    bounds = answer.verdict.details.get("bounds", {})
    for name, length in most.items():
        if name in bounds and (bounds[name] < length or (full and case.values is not None and bounds[name] > length)):
            return Found(
                "buffers wrong bound",
                f"{name} has the bound {bounds[name]}, but {length} events can wait; all bounds {dict(bounds)}, true "
                f"{most} (complete: {full})",
            )
    return None


def waiting_in(state: Any) -> list[int]:
    """How much is kept, roughly: it grows if a queue does."""
    if isinstance(state, tuple):
        return [1 if not isinstance(part, tuple) else sum(waiting_in(part)) for part in state]
    return [1]


def judge_dead(case: Case, answer: Answer) -> Found | None:
    """A filter that is dead lets all through in every run; one that is not called dead makes a difference."""
    spec = case.specs[0]
    dead = dict(answer.verdict.details.get("dead", {}))
    n = len(spec.sources)
    inputs = all_pushes(spec, case.values or [0]) if case.values is not None else None
    r = random.Random(4)
    runs = (
        [meaning.run(spec, run, case.fit) for run in random_runs(spec, r, case.values, 60, constants(spec))]
        if dead
        else []
    )
    for i, step in enumerate(spec.steps):
        if step.id is None:
            continue
        if step.kind == "filter":
            without = replace(
                spec,
                steps=(
                    *spec.steps[:i],
                    replace(step, fn=replace(step.fn, body=("const", True), guards=(), style="")),
                    *spec.steps[i + 1 :],
                ),
            )
            if step.id in dead:
                if "lets every" in dead[step.id] and any(
                    len(s.of(n + i)) != len(s.of(step.inputs[0])) for run in runs for s in run
                ):
                    return Found("dead_paths wrong", f"{step.id}: {dead[step.id]}; but it drops an event")
            elif inputs is not None and of_two("step", (spec, without), inputs, case.fit, LIMIT).so:
                return Found("dead_paths missed", f"{step.id} can be left out, every run was tried: dead are {dead}")
        if step.id in dead and "never" in dead[step.id] and any(s.of(n + i) for run in runs for s in run):
            return Found("dead_paths wrong", f"{step.id}: {dead[step.id]}; but it emits an event")
    return None


__all__ = ["DEAD", "Answer", "Case", "Found", "ask", "atom_holds", "atoms", "judge", "queues"]
