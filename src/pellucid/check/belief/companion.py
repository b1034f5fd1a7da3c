"""Proofs over systems that are not the pipeline itself: the property is tried on the interpreter all the same.

A system that knows only the first events of a queue, or one that leaves queues out, does more than the pipeline;
integers modulo N are none of its integers.  No interpreter can run beside those.  So a system that *is* the pipeline,
up to the first push that needs longer queues, is tried in their place: its streams and its state against the
interpreter's, and the property on what is seen.
"""

from __future__ import annotations

import dataclasses

from pellucid.check.answer import Answer
from pellucid.check.belief.certify import distrust
from pellucid.check.belief.trial import budget, try_out
from pellucid.check.endless.history import as_invariant
from pellucid.check.formula import Formula
from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Domain
from pellucid.errors import PellucidError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr


def on_interpreter(answer: Answer, system: System, wrong: Formula | Expr, spent: float) -> Answer:
    """A proof, once it was tried on the interpreter: by whoever found it, or here, on a system of the same pipeline.

    ``wrong`` is what must not happen in a push, or the formula that is proved; of a formula that no push alone can
    break, only the system is tried.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> s = build_system(pipeline(lambda a, b: a + b, a=int, b=int).graph, domain_of(range(4)))
    >>> large = n.and_(s.present("out"), n.lt(n.const(5), s.value("out")[0]))
    >>> on_interpreter(Answer("proved", "smt"), s, large, 0.1).status
    'unknown'
    """
    if (
        answer.status != "proved"
        or system.graph is None
        or "of the interpreter" in str(answer.details.get("checked", ""))
    ):
        return answer
    try:
        if system.domain.modulus is not None:
            tried, bad = _exact(system), n.FALSE
        elif isinstance(wrong, Formula):
            made = as_invariant(system, wrong)
            tried, bad = (made[0], n.not_(made[1])) if made is not None else (system, n.FALSE)
        else:
            tried, bad = system, wrong
        judged = n.not_(
            n.or_(tried.overflow, tried.partial)
        )  # what a push shows of keys that are not tracked is not known
        trial = try_out(tried, n.and_(bad, judged), seconds=budget(spent))
    except PellucidError:  # an exact system cannot be made of it: there is nothing to try it on
        return answer
    if trial.problem:
        return dataclasses.replace(answer, status="unknown", notes=(distrust(trial.problem),))
    done = "; ".join(filter(None, [answer.details.get("checked"), str(trial)]))
    return dataclasses.replace(answer, details={**answer.details, "checked": done})


def _exact(system: System) -> System:
    """The system of the same pipeline over exact integers: what a step does with them is all that is different."""
    assert system.graph is not None
    lossy = [v.of for v in system.inputs if v.role == "lost"]
    return build_system(system.graph, Domain(system.domain.values), dict(system.bounds), lossy, strict=system.strict)
