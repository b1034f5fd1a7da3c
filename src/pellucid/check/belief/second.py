"""A second solver: what a proof owes, asked of cvc5 where it is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

from pellucid.check.belief.smtlib import NotWritten, obligations
from pellucid.check.smt.proof import Proof
from pellucid.check.system.build import System
from pellucid.expr.node import Expr
from pellucid.model.budget import now, patiently

__all__ = ["Opinion", "ask_cvc5", "has_cvc5", "opinion_on", "second_opinion"]


@dataclass(frozen=True)
class Opinion:
    """What another solver says of a proof: ``"confirms"``, ``"contradicts"``, ``"did not decide"`` or ``"was not
    asked"``; and where or why."""

    word: str
    why: str = ""


@cache
def has_cvc5() -> bool:
    """Whether the second solver is installed."""
    return importlib.util.find_spec("cvc5") is not None


def ask_cvc5(text: str, seconds: float) -> bool | None:
    """Whether an SMT-LIB text can be satisfied; None if the time was not enough or it cannot be read.

    >>> ask_cvc5("(set-logic ALL)(declare-const x Int)(assert (< x x))(check-sat)", 1.0) if has_cvc5() else False
    False
    """
    import cvc5

    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(max(1, int(seconds * 1000))))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    answers = []
    try:
        while not (command := parser.nextCommand()).isNull():
            answers.append(str(command.invoke(solver, parser.getSymbolManager())).strip())
    except RuntimeError:  # it has no way to say this
        return None
    return {"sat": True, "unsat": False}.get(answers[-1] if answers else "")


def opinion_on(texts: Sequence[str], seconds: float) -> Opinion:
    """Whether cvc5 finds impossible, too, what z3 was asked in these words."""
    if not has_cvc5():
        return Opinion("was not asked", "cvc5 is not installed")
    end = now() + seconds
    for text in texts:
        answer = patiently(end - now(), partial(ask_cvc5, f"(set-logic ALL)\n{text}"))
        if answer is None:
            return Opinion("did not decide", f"in {seconds:.1f} s")
        if answer:
            return Opinion("contradicts", "what z3 was asked")
    return Opinion("confirms", " (of floats as an order)")


def second_opinion(system: System, bad: Expr, proof: Proof, seconds: float) -> Opinion:
    """Whether cvc5 finds the proof to be one, from the expressions alone.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.expr import node as n
    >>> s = build_system(pipeline(lambda x: x.cumulate(lambda a, v: a + v, 0), x=int).graph, domain_of(range(3)))
    >>> total = n.var(1, s.state[1].type)
    >>> wrong = Proof(0, (n.le(n.const(-1), total),))
    >>> second_opinion(s, n.lt(total, n.const(0)), wrong, 1.0).word if has_cvc5() else "contradicts"
    'contradicts'
    """
    if not has_cvc5():
        return Opinion("was not asked", "cvc5 is not installed")
    end = now() + seconds
    try:
        owed = obligations(system, bad, proof)
    except NotWritten as error:
        return Opinion("was not asked", f"cvc5 does not do {error}")
    for name, text in owed:
        left = end - now()
        answer = patiently(left, partial(ask_cvc5, text))
        if answer is None:
            return Opinion("did not decide", f"in {seconds:.1f} s")
        if answer:
            return Opinion("contradicts", name)
    return Opinion("confirms")
