"""What a check knows of functions that engines call and do not trace, where their arguments cannot be listed.

1. Traced once more, as a check sees it (`expr.tracing.textual`): it looks inside text, and into constant dictionaries.
    No engine runs that.
2. Otherwise the function is **uninterpreted**: of its answers only this is used, that the same arguments give the same
   one, also where it fails.  So what does not depend on them is decided.  In a counterexample it is really called; a
   run that depends on an invented answer refutes nothing.

Unlike a traced function one that is called computes in Python's own integers: only its results must have 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pellucid.check.functions.called import Answers, Failed, Fickle, Leaves, Ledger, OutOfTime
from pellucid.errors import PellucidError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.function import Function, _samples, _spot_check, _widened
from pellucid.internal.expr.identity import identity_of
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.text import Pure, call
from pellucid.internal.expr.tracing.symbolic import Untraceable
from pellucid.internal.expr.tracing.textual import text_trace
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.tracing.witness import fickle_reason
from pellucid.internal.expr.types import BOOL, INT, INT_MAX, INT_MIN

_TRIED = 12  # calls of a function before anything is said about it


def inside(fn: Function, made: Ledger, who: str) -> Traced | None:
    """The function as data of a check, found once for each question; None if there is none.

    >>> from pellucid.internal.expr.types import STR
    >>> f = Function.make(lambda s: s.startswith("a") and "b" in s, (STR,), to=BOOL)
    >>> f.traced, inside(f, Ledger(), "a step").outputs
    (None, (starts(v0, 'a') and holds(v0, 'b'),))
    >>> split = Function.make(lambda s: s.split(",")[0], (STR,), to=STR)
    >>> inside(split, Ledger(), "a step").outputs
    (<lambda>(v0),)
    """
    if fn not in made.inside:
        made.inside[fn] = _traced(fn) or _uninterpreted(fn, made, who)
    return made.inside[fn]


def _traced(fn: Function) -> Traced | None:
    if any(p is None for p in fn.params) or fn.result is None:
        return None
    truth = fn.result == BOOL and not fn.task
    try:
        traced: Traced = text_trace(fn.plain, fn.params, task=fn.task, truth=truth)
        _spot_check(fn.plain, traced, truth)
        if fn.task and fn.event is None and traced.event is not None:
            return None
        return _widened(fn.plain, traced, fn.params, fn.event if fn.task else fn.result, True)
    except Untraceable:
        return None
    except PellucidError:  # its results are of another type than was said
        return None


def _uninterpreted(fn: Function, made: Ledger, who: str) -> Traced | None:
    """One pure function for each leaf of its result; that it fails is said by the first."""
    if fn.task or any(p is None for p in fn.params) or fn.result is None or fickle_reason(fn.reason):
        return None
    answers = made.of(fn, who, None)
    try:
        for args in _samples(fn.params, _TRIED, modest=True):
            answers.of(tuple(leaf for t, a in zip(fn.params, args, strict=True) for leaf in t.flatten(a)))
        answers.confirm()
    except OutOfTime:
        return None
    identity = identity_of(fn.plain, types_used=[*fn.params, fn.result])
    # two functions with the same code and surroundings are one
    key = id(fn) if identity.unseen else (identity.digest, fn.params, fn.result)
    if key not in made.pure:
        name = getattr(fn.plain, "__name__", "") or type(fn.plain).__name__
        leaves = list(fn.result.leaves())
        made.pure[key] = tuple(
            Pure(f"{name}.{path}" if len(leaves) > 1 else name, _leaf(answers, who, j), kind, j == 0)
            for j, (path, kind) in enumerate(leaves)
        )
        made.words.append(
            f"of {fn.name}, which {fn.reason}, only this was used: the same arguments give the same answer"
        )
    variables = [n.var(i, t) for i, t in enumerate(t for p in fn.params for _, t in p.leaves())]
    return Traced(fn.params, fn.result, tuple(call(f, variables) for f in made.pure[key]))


def _leaf(answers: Answers, who: str, at: int) -> Callable[..., Any]:
    def answer(*args: Any) -> Any:
        try:
            found: Leaves | Failed = answers.of(args)
        except OutOfTime:
            raise Fickle(f"{who}: {answers.fn.name} takes too long to be called again and again") from None
        if isinstance(found, Failed):
            raise ValueError("it fails")
        return found[at]

    return answer


def beyond(root: Expr) -> Expr:
    """Whether the integer that a function returns does not have 64 bits; on its way it may be larger.

    >>> x = n.var(0, INT)
    >>> beyond(n.ite(n.lt(x, n.const(0)), n.const(0), n.add(x, n.const(1))))
    not v0 < 0 and overflows(v0 + 1)
    """
    if root.op == "ite":
        return n.ite(root.args[0], beyond(root.args[1]), beyond(root.args[2]))
    if root.op == "after":
        return beyond(root.args[-1])
    if root.type != INT or root.op in ("const", "var", "raise", "length", "find", "call", "int_of_bool"):
        return n.FALSE
    large = n.or_(n.lt(n.const(INT_MAX), root), n.lt(root, n.const(INT_MIN)))
    return n.overflows(root) if n.overflows(root) is not n.FALSE else large
