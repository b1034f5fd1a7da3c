"""Which engine answers, and what its answer is worth.

Explicit search where the events that matter can be listed, after everything that does not matter has been cut away
(`pellucid.check.system.cone`); SMT for invariants over infinite domains.  A bound that is reached gives *unknown*.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.check.advice import advice
from pellucid.check.answer import Answer, expression
from pellucid.check.belief.certify import certify_space, distrust
from pellucid.check.belief.trial import budget, try_out
from pellucid.check.endless.assumed_runs import NO_RUN, ending, endless, filled, loosened
from pellucid.check.endless.keyed import decide_few, weighed
from pellucid.check.explicit.fair import accepting_lasso
from pellucid.check.explicit.program import TooManyPushes, choices_of, computes_floats, looks_inside_text
from pellucid.check.explicit.search import Space, explore
from pellucid.check.formula import F, Formula, Not, Or, is_invariant, kind
from pellucid.check.formula.buchi import automaton
from pellucid.check.functions.called import ledger
from pellucid.check.given import short
from pellucid.check.smt.engine import invariant
from pellucid.check.system.build import System
from pellucid.check.system.cone import cone
from pellucid.check.system.variable import FALSE
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import INT
from pellucid.internal.model.budget import Budget, now

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
    if system.outside is not FALSE:  # nobody took care of it
        return if_refuted(Answer("unknown", "smt"))
    # what z3 does not decide of doubles and texts in seconds it does not decide in minutes
    if computes_floats(system, [good]) or system.texts:
        options = dataclasses.replace(options, timeout=min(options.left or _FLOATS, _FLOATS))
    status, trace, proof, notes = invariant(system, good, max_depth=options.max_depth, timeout=options.left)
    details = {"certificate": str(proof), "checked": proof.checked} if proof is not None else {}
    return weighed(system, Answer(status, "smt", trace, notes=notes, details=details))


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
    from pellucid.check.endless.possible import unlisted

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
        from pellucid.check.explicit.branching import Branching

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
