"""Which engine answers, and what its answer is worth.

Explicit search where the events that matter can be listed, after everything that does not matter has been cut away
(`pellucid.check.system.build`); SMT for invariants over infinite domains.  A bound that is reached gives *unknown*.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from pellucid.check.answer import Answer, advice, expression
from pellucid.check.certify import certify_space, distrust
from pellucid.check.explicit import (
    Space,
    TooManyPushes,
    accepting_lasso,
    choices_of,
    computes_floats,
    explore,
    looks_inside_text,
)
from pellucid.check.formula import F, Formula, Not, Or, is_invariant, kind
from pellucid.check.formula.buchi import automaton
from pellucid.check.functions.called import ledger
from pellucid.check.keyed import decide_few, weighed
from pellucid.check.question_arguments import short
from pellucid.check.smt.encode import Encoding, input_leaves
from pellucid.check.smt.engine import invariant
from pellucid.check.system.build import System, cone
from pellucid.check.system.variables import FALSE
from pellucid.check.trial_runs import budget, try_out
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, EnumType, simplest
from pellucid.internal.model.search import Budget, now
from pellucid.internal.solve.terms import Frames, ask

# Which runs an assumption leaves: whether there are any, whether each beginning goes on, and whether a question notices
# the assumption at all.
#
# A run is endless. Where from every state that can be met some push is assumed, each beginning is the beginning of a
# run, and engines that look at beginnings are right. That push is looked for among a few: silence, the event before
# again, one more or less, constants that are mentioned.
#
# Where for **every** choice of what a question depends on (whether an event comes, say) the rest (its value) can be
# chosen so that the assumption holds, the question has the same answer without it; `loosened` leaves it out then, and
# `filled` puts values into a counterexample that keep to it.

NO_RUN = "no run satisfies what is assumed, so there is nothing to prove or refute"

_MOST = 400  # pushes that are tried


@n.values_only()
def ending(system: System) -> str:
    """What is wrong with the runs that satisfy the assumption: ``"none"`` there is none, ``"some"`` a beginning may not
    go on, ``""`` nothing.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> p = pipeline(lambda x: x + 1, x=int)
    >>> rising, always, never = "x.value > Y x.value", "x & x.value > Y x.value", "x.value > 9 & x"
    >>> [ending(build_system(p.graph, domain_of(range(3), a))) for a in (rising, always, never)]
    ['', 'none', 'none']
    """
    if system.assume is n.TRUE:
        return ""
    alone, _ = cone(system, [], all_inputs=True)
    pushes = _candidates(alone, set())
    if _always(alone, pushes):
        return ""
    return "some" if _goes_on(alone) else "none"


def _always(system: System, pushes: Sequence[Sequence[Expr]]) -> bool:
    """Whether in every state, after any push that is assumed, one of these pushes is."""
    fitting: Expr = n.FALSE
    for push in pushes:
        leaves = [n.var(i, v.type) for i, v in enumerate(system.state)]
        fits = n.and_(in_domain(system, push), substitute([system.assume], [*leaves, *push])[0])
        if fits is n.TRUE:
            return True
        fitting = n.or_(fitting, fits)
    return _valid(system, fitting)


def _valid(system: System, fact: Expr) -> bool:
    """Whether a fact holds at the start and after every push that is assumed, by z3; False also where that is not
    known."""

    if not has_z3():
        return False
    try:
        free = Encoding(dataclasses.replace(system, assume=n.TRUE))  # what is assumed of the last push is the question
        code = free.terms([fact, system.assume])
    except UsageError:
        return False
    for start in (True, False):
        solver = free.z3.Solver()
        frames = Frames(free, solver, start=start)
        if not start:
            solver.add(*frames.at(0, [code[1]]))
            frames.extend()
        solver.add(free.z3.Not(frames.at(0 if start else 1, [code[0]])[0]))
        if ask(solver, Budget(2.0)) is not False:
            return False
    return True


def _goes_on(system: System, pushes: int = 12) -> bool:
    """Whether so many pushes in a row can satisfy the assumption; True where that is not known."""
    from pellucid.check.explicit import explore

    if listable(system):
        space = explore(system, [], budget=Budget(max_states=20_000))
        if not space.why:
            return True
        if space.expanded == space.count:
            return False
    if not has_z3():
        return True
    code = Encoding(system)
    solver, clock = code.z3.Solver(), Budget(3.0)
    frames = Frames(code, solver, start=True)
    for _ in range(pushes):
        if ask(solver, clock) is False:
            return False
        frames.extend()
    return True


def endless(system: System, pushes: Sequence[dict[str, Any]], more: int = 6) -> bool:
    """Whether these pushes are the beginning of a run: what the assumption remembers repeats itself a few pushes later.
    False: not known."""

    if not has_z3():
        return False
    alone, _ = cone(system, [], all_inputs=True)
    state: list[Any] = [v.start for v in alone.state]
    for push in pushes:
        state = [evaluate(e, [*state, *_given(alone, push)]) for e in alone.next]
    there = tuple(dataclasses.replace(v, start=value) for v, value in zip(alone.state, state, strict=True))
    code = Encoding(dataclasses.replace(alone, state=there))
    solver, clock = code.z3.Solver(), Budget(2.0)
    frames = Frames(code, solver, start=True)
    for t in range(1, more + 1):
        frames.extend()
        if ask(solver, clock, code.z3.Not(frames.distinct(t))):
            return True
    return False


@n.values_only()
def loosened(system: System, roots: Sequence[Expr]) -> System:
    """The system without its assumption, where these roots cannot tell; else as it is."""
    if system.assume is n.TRUE:
        return system
    free = dataclasses.replace(system, assume=n.TRUE)
    small, _ = cone(free, roots)
    seen = {(v.role, v.of, v.at) for v in small.inputs}
    if len(seen) == len(system.inputs):
        return system
    alone, _ = cone(system, [], all_inputs=True)
    fixed = {i for i, v in enumerate(alone.inputs) if (v.role, v.of, v.at) in seen}
    pushes = _candidates(alone, fixed)
    # What is fixed may be anything of its domain here: the fact has to hold for every value of it.
    return free if _always(alone, pushes) else system


def filled(system: System, roots: Sequence[Expr], pushes: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The pushes with values that satisfy the assumption, in what the roots do not depend on; None if none is found."""
    small, _ = cone(dataclasses.replace(system, assume=n.TRUE), roots)
    seen = {(v.role, v.of, v.at) for v in small.inputs}
    alone, _ = cone(system, [], all_inputs=True)
    fixed = {i for i, v in enumerate(alone.inputs) if (v.role, v.of, v.at) in seen}
    tried = _candidates(alone, fixed)
    state: list[Any] = [v.start for v in alone.state]
    out = []
    for push in pushes:
        given = _given(alone, push)
        for candidate in ([n.const(v) for v in given], *tried):
            row = [evaluate(e, [*state, *given]) for e in candidate]
            try:
                good = evaluate(in_domain(alone, candidate), [*state, *given]) and evaluate(
                    alone.assume, [*state, *row]
                )
            except (ArithmeticError, ValueError, UserRaise):
                continue
            if good:
                break
        else:
            return None
        made = {name: value for name, value in push.items() if name.startswith("lost.")}
        values = {(v.role, v.of, v.at): leaf for v, leaf in zip(alone.inputs, row, strict=True)}
        for name, t in alone.sources:
            if values["present", name, 0]:
                made[name] = t.event([values["leaf", name, j] for j in range(t.width)])
        out.append(made)
        state = [evaluate(e, [*state, *row]) for e in alone.next]
    return out


def _given(system: System, push: dict[str, Any]) -> list[Any]:
    given = input_leaves(system, push)
    return [*given, *(f"lost.{v.of}" in push for v in system.inputs[len(given) :])]


def in_domain(system: System, push: Sequence[Expr]) -> Expr:
    """Whether the ints of a push are among those that may come in; those that are inputs themselves are."""
    values, out = system.domain.values, n.TRUE
    if values is None and system.strict:
        values = (INT_MIN, INT_MAX)
    guards = {name: dict(enumerate(t.guards())) for name, t in system.sources}
    by = {(v.of, v.at): e for v, e in zip(system.inputs, push, strict=False) if v.role == "leaf"}
    for v, e in zip(system.inputs, push, strict=False) if values is not None else ():
        if e.type == INT and not (e.op == "var" and e.value >= len(system.state)):
            assert values is not None
            low, high = (min(values), max(values)) if system.domain.span is None else system.domain.span
            among = n.and_(n.le(n.const(low), e), n.le(e, n.const(high)))
            if system.domain.values is not None and high - low + 1 != len(values):
                among = n.any_of(n.eq(e, n.const(value)) for value in values)
            flags = [by.get((v.of, i), n.TRUE) for i in guards.get(v.of, {}).get(v.at, ())] if v.role == "leaf" else []
            if flags:  # of what is not there, or of a source that is silent
                nothing = n.or_(n.eq(e, n.const(0)), n.eq(e, n.const(values[0])))
                among = n.ite(functools.reduce(n.and_, flags), among, nothing)
            out = n.and_(out, among)
    return out


def _candidates(system: System, fixed: set[int]) -> list[list[Expr]]:
    """Pushes to try, as expressions over the state and, where an input is fixed, that input."""
    states = len(system.state)
    pools: list[list[Expr]] = []
    for i, v in enumerate(system.inputs):
        own = n.var(states + i, v.type)
        pools.append([own] if i in fixed else _pool(system, v))
    return [list(row) for row in islice(product(*pools), _MOST)]


def _pool(system: System, v: Any) -> list[Expr]:
    """A few values for an input."""
    if v.type == BOOL:
        return [n.FALSE, n.TRUE]
    if isinstance(v.type, EnumType):
        return [n.const(m) for m in v.type.members]
    before = [
        n.var(i, s.type)
        for i, s in enumerate(system.state)
        if s.type == v.type and s.of == v.of and s.at == v.at and s.role == "before"
    ]
    mentioned = [n.const(e.value) for e in walk(system.assume) if e.op == "const" and e.type == v.type]
    if v.type == INT:
        one = n.const(1)
        near = [e for c in [*before, *mentioned] for e in (n.add(c, one), n.sub(c, one))]
        listed = [n.const(c) for c in (system.domain.values or (0, 1))[:8]]
        return list(dict.fromkeys([*before, *mentioned, *near, *listed]))[:24]
    return list(
        dict.fromkeys(
            [
                *before,
                *mentioned,
                n.const(simplest(v.type)),
                *([n.const("other 1")] if v.type == STR else []),
                *([n.const(1.0)] if v.type == FLOAT else []),
            ]
        )
    )[:24]


_FLOATS = 8.0  # seconds
ENGINES = ("auto", "explicit", "smt")


@dataclass(frozen=True)
class Options:
    """How to decide."""

    engine: str = "auto"
    timeout: float | None = 60.0
    max_states: int = 5_000_000
    max_depth: int = 20
    progress: Callable[[dict[str, Any]], None] | None = None
    until: float | None = (
        # when this share of the work is done (`model.budget`); what is made from these options ends no later
        None
    )

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UsageError(f"engine= takes {', '.join(map(repr, ENGINES))}, found {short(self.engine)}")
        number = isinstance(self.timeout, (int, float)) and not isinstance(self.timeout, bool)
        if self.timeout is not None and not (number and self.timeout > 0):
            raise UsageError(
                f"timeout= takes a number of seconds above 0, or None for no limit; found {short(self.timeout)}"
            )
        for name, value in (("max_states", self.max_states), ("max_depth", self.max_depth)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{name}= takes a whole number of at least 1, found {short(value)}")
        if self.progress is not None and not callable(self.progress):
            raise UsageError(f"progress= takes a function, found {short(self.progress)}")
        if self.timeout is not None:
            end = now() + self.timeout
            object.__setattr__(self, "until", end if self.until is None else min(end, self.until))

    @property
    def left(self) -> float | None:
        """The seconds that are left, never quite none; None where there is no limit."""
        return None if self.until is None else max(0.05, self.until - now())

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.until is not None and now() >= self.until

    def budget(self) -> Budget:
        """The same for explicit search."""
        return Budget(self.left, self.max_states, self.progress)


def listable(system: System, observed: Sequence[Expr] = ()) -> bool:
    """Whether explicit search can try every push, and compute what is observed there."""
    try:
        choices_of(system)
    except UsageError:
        return False
    return not computes_floats(system, observed) and not looks_inside_text(system, observed)


def decide_invariant(system: System, good: Expr, options: Options) -> Answer:
    """Whether ``good`` holds in every step of every run."""
    if system.outside is not FALSE:
        if _never_outside(system, options):
            return decide_invariant(dataclasses.replace(system, outside=FALSE), good, options)
        return if_refuted(decide_invariant(_alone(system), n.or_(good, system.outside), options))
    return _assumed(system, [good], lambda loose: _tried(_invariant, loose, good, options), beginnings=True)


def _tried(ask: Callable[[System, Any, Options], Answer], system: System, what: Any, options: Options) -> Answer:
    """An answer; *unknown* where explicit search was asked for, and has too many pushes to try."""
    try:
        return ask(system, what, options)
    except TooManyPushes as error:
        return Answer("unknown", "explicit", notes=(str(error),))


def _assumed(system: System, roots: Sequence[Expr], answer: Callable[[System], Answer], *, beginnings: bool) -> Answer:
    """An answer about the runs that satisfy the assumption; ``beginnings`` are what the engine looked at, and must go
    on."""
    if system.assume is n.TRUE:
        return answer(system)
    how = ending(system)
    if how == "none":
        return Answer("unknown", "none", notes=(NO_RUN,))
    loose = loosened(system, roots)
    found = answer(loose)
    if found.pushes is None:
        return found
    pushes = found.pushes if loose is system else filled(system, roots, found.pushes)
    if pushes is None or (how and beginnings and not endless(system, pushes)):
        note = "a run that refutes it was found, but not one that satisfies what is assumed for ever"
        return Answer("unknown", found.engine, notes=(*found.notes, note), details=found.details)
    return dataclasses.replace(found, pushes=pushes)


def _invariant(system: System, good: Expr, options: Options) -> Answer:
    wrong = n.and_(n.not_(good), n.not_(system.partial))
    small, (bad,) = cone(system, [wrong])
    if bad.op == "const" and not bad.value:
        return _simplified(system)
    use_explicit = options.engine == "explicit" or (options.engine == "auto" and listable(small, [bad]))
    if use_explicit:
        started = time.perf_counter()
        space = explore(small, [bad], stop_on=[0], budget=_budget(small, options))
        details = {"states": space.count, "variables": len(small.state)}
        if space.found is not None:
            choices = [*space.path(space.found[0]), space.found[1]]
            return Answer("refuted", "explicit", space.pushes(choices), details=details)
        if space.complete:
            found = Answer("proved", "explicit", details=details)
            return weighed(system, _believed(found, space, [bad], time.perf_counter() - started, never=(0,)))
        if options.engine == "explicit" or not has_z3():
            return Answer("unknown", "explicit", notes=(space.why,), details=details)
    if len(small.inputs) < len(system.inputs):  # the solver chooses what the property does not depend on, too
        small, (bad,) = cone(system, [wrong], all_inputs=True)
    return by_smt(small, n.not_(bad), options)


def _believed(answer: Answer, space: Space, observed: list[Expr], spent: float, never: tuple[int, ...] = ()) -> Answer:
    """A proof by a complete search, once the search has passed its check."""
    certified = certify_space(space, observed, spent=spent, never=never)
    if not certified.passed:
        return dataclasses.replace(answer, status="unknown", notes=(*answer.notes, *certified.notes))
    return dataclasses.replace(answer, details={**answer.details, "checked": certified.words})


def _simplified(system: System) -> Answer:
    """What is bad is false by the rules of expressions alone: the system that says so must do what the interpreter
    does."""
    trial = try_out(system, seconds=budget(0.0), most=200)
    if trial.problem:
        return Answer("unknown", "simplification", notes=(distrust(trial.problem),))
    return Answer("proved", "simplification", details={"states": 0, "checked": str(trial)})


def _never_outside(system: System, options: Options) -> bool:
    """Whether no run ever brings a function an argument on which it was not called."""
    return decide_invariant(_alone(system), n.not_(system.outside), options).status == "proved"


def _alone(system: System) -> System:
    """A system in which going outside is nothing special; it then does not do what the interpreter does, which knows no
    outside."""
    return dataclasses.replace(system, outside=FALSE, graph=None)


def if_refuted(answer: Answer) -> Answer:
    """What was asked of the runs in which all arguments are known: a counterexample among them stands, a proof says
    nothing about the others."""
    if answer.status == "refuted":
        return answer
    notes = tuple(
        f"{a.who}: {a.fn.name} {a.fn.reason}, so it was called on {len(a.rows):,} arguments; there are others, which "
        "were not tried"
        for a in ledger().answers.values() if not a.closed
    )  # fmt: skip
    return dataclasses.replace(answer, status="unknown", notes=(*notes, *answer.notes))


def _budget(system: System, options: Options) -> Budget:
    """How far to search: not far where an integer may grow for ever and another engine can take over."""
    endless = any(v.type == INT and v.size is None for v in system.state)
    if endless and options.engine == "auto" and has_z3():
        return Budget(options.left, min(options.max_states, 50_000), options.progress)
    return options.budget()


def has_z3() -> bool:
    """Whether the solver is installed."""
    return importlib.util.find_spec("z3") is not None


def by_smt(system: System, good: Expr, options: Options) -> Answer:
    """Whether ``good`` holds in every step of every run, by the symbolic engine alone."""
    if system.outside is not FALSE:  # the caller has not excluded it
        return if_refuted(Answer("unknown", "smt"))
    # what z3 does not decide of doubles and texts in seconds it does not decide in minutes
    if computes_floats(system, [good]) or system.texts:
        options = dataclasses.replace(options, timeout=min(options.left or _FLOATS, _FLOATS))
    status, trace, proof, notes = invariant(system, good, max_depth=options.max_depth, timeout=options.left)
    details = {"certificate": str(proof), "checked": proof.checked} if proof is not None else {}
    answer = Answer(status, "smt", trace, notes=notes, details=details)
    return answer if system.keys is None else weighed(system, answer)


def decide(system: System, formula: Formula, options: Options) -> Answer:
    """Whether a resolved formula holds."""
    body = is_invariant(formula)
    if body is not None:
        return decide_invariant(system, expression(body), options)
    if system.outside is not FALSE:
        if _never_outside(system, options):
            return decide(dataclasses.replace(system, outside=FALSE), formula, options)
        if kind(formula) != "ltl":
            return if_refuted(Answer("unknown", "none"))
        return if_refuted(decide(_alone(system), Or(F(Formula("atom", body=system.outside)), formula), options))
    roots = [expression(a) for a in formula.atoms()]
    return _assumed(system, roots, lambda loose: _tried(_temporal, loose, formula, options), beginnings=False)


def _temporal(system: System, formula: Formula, options: Options) -> Answer:
    branching = kind(formula)
    if branching == "state":
        raise UsageError(f"{formula} speaks of one step only: write AG ({formula}) or G ({formula}) for every step")
    if system.keys is not None and not system.keys.exact:
        return decide_few(system, formula, options, decide_invariant)
    atoms = formula.atoms()
    roots = [expression(a) for a in atoms]
    small, observed = cone(system, roots)
    number = {a: i for i, a in enumerate(atoms)}
    from pellucid.check.possible import unlisted

    if options.engine == "smt" or not listable(small, observed):
        decided = (
            unlisted(system, roots, formula, number, options)
            if options.engine != "explicit"
            else Answer("unknown", "none")
        )
        if decided.status == "unknown":
            if listable(small, observed):
                note = (
                    f"{formula} is no invariant, and engine='smt' did not decide it: its events can be listed, so "
                    "leave engine= out, or use engine='explicit'"
                )
            else:
                note = (
                    f"{formula} is no invariant and depends on events that cannot be listed ({small.domain}): "
                    f"{advice(system, roots)}"
                )
            return dataclasses.replace(decided, notes=(note, *decided.notes))
        return decided
    started = time.perf_counter()
    space = explore(small, observed, budget=_budget(small, options))
    details = {"states": space.count, "variables": len(small.state)}
    if not space.complete:
        if options.engine == "auto" and has_z3():
            decided = unlisted(system, roots, formula, number, options)
            if decided.status != "unknown":
                return dataclasses.replace(decided, details={**details, **decided.details})
        if branching == "ltl":  # a lasso in the part that was seen refutes all the same
            part = explore(small, observed, budget=Budget(max_states=2000))
            found = _lasso(part, formula, number)
            if found is not None:
                return Answer("refuted", "explicit, automaton", part.pushes(found[0]), found[1], details=details)
        return Answer("unknown", "explicit", notes=(space.why, *_endless(small)), details=details)
    if branching == "ctl":
        from pellucid.check.explicit import Branching

        found = Branching(space, number).refute(formula)
        engine = "explicit, fixpoints"
    else:
        found = _lasso(space, formula, number)
        engine = "explicit, automaton"
    if found is None:
        return _believed(Answer("proved", engine, details=details), space, observed, time.perf_counter() - started)
    choices, loop = found
    return Answer("refuted", engine, space.pushes(choices), loop, details=details)


def _lasso(space: Space, formula: Formula, number: dict[Any, int]) -> tuple[list[int], int | None] | None:
    return accepting_lasso(space, automaton(Not(formula)), number)


def _endless(system: System) -> tuple[str, ...]:
    """A word on the integers that may grow for ever."""
    names = [v.name for v in system.state if v.type == INT and v.size is None]
    return (
        (f"integers without a bound: {', '.join(names)}; ints=Mod(N) bounds them, at the price of arithmetic modulo N",)
        if names
        else ()
    )
