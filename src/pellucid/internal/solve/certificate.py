"""Proofs: k-induction with lemmas, and the small checker that every proof has to pass.

A proof says: (1) the **lemma**, a fact about states, holds at the start and after every push from a state in which it
holds; (2) nothing bad happens in the first k pushes; (3) after k good pushes in a row, all from states in which
the lemma holds, nothing bad happens in the next one.  With k = 0 the lemma alone excludes what is bad: an inductive
invariant.  With ``simple`` the states in (3) are distinct, which is enough: a shortest bad run repeats no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.printing import show
from pellucid.internal.expr.types import BOOL, EnumType
from pellucid.internal.model.budget import Budget
from pellucid.internal.solve.session import ask
from pellucid.internal.solve.transition import Frames, Transition


@dataclass(frozen=True)
class Proof:
    """A certificate that something bad never happens, for ``check_certificate``.

    ``kind`` is ``"invariant"`` (the lemma alone is enough) or ``"k-induction"``; ``lemmas`` are expressions over the
    state variables, True where there are none.
    """

    k: int
    lemmas: tuple[Expr, ...] = ()
    simple: bool = False
    found_by: str = "induction"
    names: tuple[str, ...] = ()
    checked: str = ""  # what it has passed, in words
    notes: tuple[str, ...] = ()  # what a verdict should say of it

    @property
    def kind(self) -> str:
        """How it proves."""
        return "k-induction" if self.k else "invariant"

    @property
    def lemma(self) -> Expr:
        """All lemmas as one expression."""
        out = n.const(True)
        for e in self.lemmas:
            out = n.and_(out, e)
        return out

    @property
    def certificate(self) -> tuple[str, int | str]:
        """``("k-induction", k)`` or ``("invariant", text)``."""
        return (self.kind, self.k) if self.k else (self.kind, str(self))

    def __str__(self) -> str:
        facts = " and ".join(f"({show(e, self.names or None)})" for e in self.lemmas) or "no lemma"
        return f"{self.k}-induction with {facts}" if self.k else facts


def check_certificate(
    code: Transition, bad: Expr, proof: Proof, timeout: float | None = 60.0, *, texts: list[str] | None = None
) -> bool:
    """Whether a proof proves that ``bad`` never holds, decided from scratch by a fresh solver.

    False also where the solver does not know.  ``code`` is a transition system that was made for this; ``texts`` gets
    what z3 was asked.

    >>> from pellucid.internal.expr.types import INT
    >>> counter, count = Transition([("count", INT, 0)], []), n.var(0, INT)
    >>> counter.define([n.add(count, n.const(1))])
    >>> bad = n.lt(count, n.const(0))
    >>> check_certificate(counter, bad, Proof(0, (n.le(n.const(0), count),)))
    True
    >>> check_certificate(counter, bad, Proof(0, (n.le(n.const(1), count),)))  # not so at the start
    False
    """
    clock = Budget(timeout)
    z3, (lemma, wrong) = code.z3, code.terms([proof.lemma, bad])
    if any(e.op == "var" and e.value >= len(code.state) for e in n.walk(proof.lemma)) or proof.k < 0:
        return False  # a lemma is about states

    def never(start: bool, pushes: int, what: Any) -> bool:
        """In no run of so many pushes (plus one) does ``what(frames)`` hold."""
        solver = z3.Solver()
        frames = Frames(code, solver, start=start)
        for _ in range(pushes):
            frames.extend()
        solver.add(*what(frames))
        if texts is not None:
            texts.append(solver.to_smt2())
        return ask(solver, clock) is False

    def step(frames: Frames) -> list[Any]:
        out = [frames.at(t, [lemma])[0] for t in range(proof.k + 1)]
        out += [z3.Not(frames.at(t, [wrong])[0]) for t in range(proof.k)]
        out += [frames.distinct(t) for t in range(1, proof.k + 1)] if proof.simple else []
        return [*out, *frames.at(proof.k, [wrong])]

    return (
        never(True, 0, lambda f: [z3.Not(f.at(0, [lemma])[0])])
        and never(False, 1, lambda f: [f.at(0, [lemma])[0], z3.Not(f.at(1, [lemma])[0])])
        and all(never(True, t, lambda f, t=t: f.at(t, [wrong])) for t in range(proof.k))
        and never(False, proof.k, step)
    )


class Induction:
    """The step of k-induction, for k = 0, 1, 2, …; the base is the bounded search's."""

    def __init__(self, code: Transition, bad: Expr, lemmas: Sequence[Expr], clock: Budget) -> None:
        self.code, self.bad, self.clock = code, bad, clock
        self.lemmas = list(lemmas)
        z3 = code.z3
        self.term = code.term(bad)
        self.solver = z3.Solver()
        self.switches = [z3.Bool(f"lemma{j}") for j in range(len(self.lemmas))]
        self.frames = Frames(code, self.solver, start=False)
        self.k, self.stuck = 0, False
        self.simple = all(
            size is not None or t == BOOL or isinstance(t, EnumType)
            for size, t in zip(code.sizes, code.state_types, strict=True)
        )
        self._assume(0)

    def _assume(self, t: int) -> None:
        terms = self.frames.at(t, self.code.terms(self.lemmas))
        self.solver.add(*[self.code.z3.Implies(s, e) for s, e in zip(self.switches, terms, strict=True)])

    def deeper(self, limit: float | None = None) -> Proof | None:
        """Try this k; then go on to the next."""
        (bad,) = self.frames.at(self.k, [self.term])
        answer = ask(self.solver, self.clock, *self.switches, bad, limit=limit)
        if answer is False:
            core = {c.get_id() for c in self.solver.unsat_core()}  # not as texts: among them is all that is asked
            used = [e for s, e in zip(self.switches, self.lemmas, strict=True) if s.get_id() in core]
            return Proof(self.k, tuple(used), self.simple and self.k > 0, "induction", self.code.names)
        if answer is None:
            self.stuck = True
            return None
        self.solver.add(self.code.z3.Not(bad))
        self.frames.extend()
        self.k += 1
        self._assume(self.k)
        if self.simple:
            self.solver.add(self.frames.distinct(self.k))
        return None


def shrink(code: Transition, bad: Expr, proof: Proof, clock: Budget) -> Proof:
    """The proof with fewer lemmas: those that are used, those that these need to be inductive, and of them only what
    cannot be spared."""
    z3, solver, lemmas = code.z3, code.z3.Solver(), proof.lemmas
    safety = Induction(code, bad, lemmas, clock)
    used = safety.deeper(limit=2.0)
    while used is None and safety.k <= proof.k and not safety.stuck:
        used = safety.deeper(limit=2.0)
    if used is None or used.k != proof.k:
        return proof
    frames = Frames(code, solver, start=False)
    frames.extend()
    switches = [z3.Bool(f"lemma{j}") for j in range(len(lemmas))]
    before, after = frames.at(0, code.terms(lemmas)), frames.at(1, code.terms(lemmas))
    solver.add(*[z3.Implies(s, e) for s, e in zip(switches, before, strict=True)])
    needed = [lemmas.index(e) for e in used.lemmas]
    for j in needed:  # grows as it is gone through
        if ask(solver, clock, *switches, z3.Not(after[j]), limit=2.0) is not False:
            return proof
        core = {c.get_id() for c in solver.unsat_core()}
        needed += [i for i, s in enumerate(switches) if s.get_id() in core and i not in needed]
    kept = tuple(lemmas[j] for j in sorted(needed))
    brief = Budget(1.0)
    for e in sorted(kept, key=lambda e: -sum(1 for _ in n.walk(e))):
        if brief.over or clock.over:
            break
        fewer = replace(proof, lemmas=tuple(o for o in kept if o is not e))
        if check_certificate(code.again(), bad, fewer, 0.2):
            kept = fewer.lemmas
    return replace(proof, lemmas=kept)
