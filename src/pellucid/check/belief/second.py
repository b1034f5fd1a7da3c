"""A second solver: what a proof owes, asked of cvc5 where it is installed, from the expressions alone."""

from __future__ import annotations

from pellucid.check.belief.smtlib import NotWritten, obligations
from pellucid.check.system.build import System
from pellucid.internal.expr.node import Expr
from pellucid.internal.solve.certificate import Proof
from pellucid.internal.solve.second import Opinion, has_cvc5, opinion_on


def second_opinion(system: System, bad: Expr, proof: Proof, seconds: float) -> Opinion:
    """Whether cvc5 finds the proof to be one, from the expressions alone.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr import node as n
    >>> s = build_system(pipeline(lambda x: x.cumulate(lambda a, v: a + v, 0), x=int).graph, domain_of(range(3)))
    >>> total = n.var(1, s.state[1].type)
    >>> wrong = Proof(0, (n.le(n.const(-1), total),))
    >>> second_opinion(s, n.lt(total, n.const(0)), wrong, 1.0).word if has_cvc5() else "contradicts"
    'contradicts'
    """
    if not has_cvc5():
        return Opinion("was not asked", "cvc5 is not installed")
    try:
        owed = obligations(system, bad, proof)
    except NotWritten as error:
        return Opinion("was not asked", f"cvc5 does not do {error}")
    return opinion_on(owed, seconds)
