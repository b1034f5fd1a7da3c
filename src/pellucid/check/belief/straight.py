"""Expressions as one plain Python function: many values at once, quickly, and by no solver.

Every part is computed, eagerly, in the order of the expression; where an operation fails, its value is the simplest one
of its type (that it fails is told apart, by ``System.failed``).  Integers are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid.internal.expr import evaluate as _evaluate
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.expr.types import simplest

_MOST = 6000  # parts: beyond, compiling them takes longer than evaluating them
_PLAIN = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "neg": "-{}", "abs": "abs({})", "invert": "~{}",
    "eq": "{} == {}", "lt": "{} < {}", "le": "{} <= {}", "not": "not {}", "and": "{} and {}", "or": "{} or {}",
    "ite": "{1} if {0} else {2}", "int_of_bool": "int({})",
}  # fmt: skip


def straight(roots: Sequence[Expr]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function from the variables' values to those of the roots.

    >>> from pellucid.internal.expr import node as n
    >>> from pellucid.internal.expr.types import INT
    >>> with n.values_only():
    ...     half = n.binary("floordiv", n.const(10), n.var(0, INT))
    >>> both = straight([n.add(n.var(0, INT), n.const(2)), half])
    >>> both([4]), both([0])
    ((6, 2), (2, 0))
    """
    parts = list(walk(*roots))
    known = set(_evaluate._OPS) | set(_PLAIN) | {"var", "const", "raise", "after", "overflows", "call", "call_fails"}
    if len(parts) > _MOST or any(e.op not in known for e in parts):
        return lambda leaves: _one_by_one(roots, leaves)
    space: dict[str, Any] = {}
    lines, name = ["def compute(leaves):"], dict[int, str]()
    for i, e in enumerate(parts):
        me, args = f"v{i}", [name[id(a)] for a in e.args]
        name[id(e)] = me
        if e.op == "var":
            lines.append(f" {me} = leaves[{e.value}]")
        elif e.op in ("const", "raise"):
            space[me] = e.value if e.op == "const" else simplest(e.type)
        elif e.op == "after":
            name[id(e)] = args[-1]
        elif e.op == "overflows":
            space[f"f{i}"] = _overflows(e.args[0].op)
            lines.append(f" {me} = f{i}({', '.join(name[id(a)] for a in e.args[0].args)})")
        elif e.op in ("call", "call_fails"):
            space[f"f{i}"] = e.value.answer  # what it really answers
            lines.append(f" {me} = f{i}({', '.join(args)})[{int(e.op == 'call')}]")
        elif e.op in _PLAIN:
            lines.append(f" {me} = {_PLAIN[e.op].format(*args)}")
        else:
            space[f"f{i}"] = _total(_evaluate._OPS[e.op], simplest(e.type))
            lines.append(f" {me} = f{i}({', '.join(args)})")
    lines.append(f" return ({''.join(name[id(r)] + ', ' for r in roots)})")
    exec("\n".join(lines), space)  # only names made here, and values that are looked up by them
    made: Callable[[Sequence[Any]], tuple[Any, ...]] = space["compute"]
    return made


def _one_by_one(roots: Sequence[Expr], leaves: Sequence[Any]) -> tuple[Any, ...]:
    memo: dict[int, Any] = {}
    out = []
    for e in roots:
        try:
            out.append(evaluate(e, leaves, memo))
        except Overflow64:
            raise
        except (ArithmeticError, ValueError, UserRaise):
            out.append(simplest(e.type))
    return tuple(out)


def _total(op: Callable[..., Any], otherwise: Any) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        try:
            return op(*args)
        except (ArithmeticError, ValueError, UserRaise):
            return otherwise

    return call


def _overflows(op: str) -> Callable[..., bool]:
    return lambda *args: _evaluate._overflows(op, list(args))
