"""What looks inside text, as engines run it: calls of pure functions, whose answers they keep.

A text is a number in a kernel, and many events have the same one.  So every part of a function that depends on one text
alone becomes one call, `Inner`: Python's own methods, in the order of the trace, and lazily as there.  What needs two
texts, or a text and a number (``a + b``, ``a < b``, ``s[:n]``), becomes a call of both.

>>> from pellucid.internal.expr.tracing.trace import trace
>>> from pellucid.internal.expr.types import INT, STR
>>> f = trace(lambda s, n: n + 1 if s[:2].upper() == "AB" and s.isalpha() else n, (STR, INT), text=True)
>>> lowered(f).outputs[0]
v1 + 1 if looked_up(v0) else v1
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.codegen import OVERFLOW, PLAIN, CodeWriter, ExpressionCode, TooLarge
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.expr.rewrite import rebuild, replaced
from pellucid.internal.expr.text import TEXT_OPS, CallFails, Direct, call, order_of_text
from pellucid.internal.expr.tracing.running import MOST_ARGUMENTS
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import FLOAT, INT, INT_MAX, INT_MIN, STR, Type


class Inner:
    """An expression over a few leaves as a function of Python's own values."""

    def __init__(self, e: Expr, kinds: Sequence[Type]) -> None:
        self.e, self.kinds = e, tuple(kinds)
        self._f: Callable[..., Any] | None = None

    def __call__(self, *leaves: Any) -> Any:
        if self._f is None:
            self._f = _function(self.e, self.kinds)
        return self._f(*leaves)

    def __reduce__(self) -> tuple[Any, ...]:
        return Inner, (self.e, self.kinds)


# ---------------------------------------------------------------- the function of an expression


_TEXT = {
    "length": "len({0})",
    "concat": "{0} + {1}",
    "starts": "{0}.startswith({1})",
    "ends": "{0}.endswith({1})",
    "holds": "{1} in {0}",
    "find": "{0}.find({1})",
    "part": "{0}[{1}:{2}]",
    "eq": "{0} == {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
}


class _Writer(CodeWriter):
    """Writes with the values themselves, where a kernel has their codes."""

    def __init__(self) -> None:
        super().__init__(False)
        self.space: dict[str, Any] = {**PLAIN, "_Overflow64": Overflow64, "_CallFails": CallFails}

    def named(self, value: Any) -> str:
        """A name for an object."""
        name = self.fresh("g")
        self.space[name] = value
        return name

    def constant(self, e: Expr) -> str:
        """A constant as text."""
        if isinstance(e.value, enum.Enum):
            return self.named(e.value)
        return repr(e.value) if isinstance(e.value, str) else super().constant(e)


class _Code(ExpressionCode):
    w: _Writer

    def leave(self, code: int | str) -> None:
        self.w.line(f"raise _Overflow64 if {code} == {OVERFLOW} else _CallFails")

    def _operation(self, e: Expr, args: list[str]) -> str:
        if e.op == "call":
            name = self.w.fresh()
            self.w.line(f"{name} = {self.w.named(e.value.f)}({', '.join(args)})")
            if e.type == INT:
                self.fail_if(f"not {INT_MIN} <= {name} <= {INT_MAX}", OVERFLOW)
            return name
        if e.op == "call_fails":
            name = self.w.fresh()
            self.w.line(f"{name} = {self.w.named(e.value.answer)}({', '.join(args)})[0]")
            return name
        if e.op in TEXT_OPS or (e.args and e.args[0].type == STR and e.op in _TEXT):
            name = self.w.fresh()
            self.w.line(f"{name} = {_TEXT[e.op].format(*args)}")
            return name
        return super()._operation(e, args)


def _function(e: Expr, kinds: Sequence[Type]) -> Callable[..., Any]:
    if e.op == "call" and [a.value for a in e.args] == list(range(len(e.args))) and all(a.op == "var" for a in e.args):
        return e.value  # type: ignore[no-any-return]
    w = _Writer()
    names = [f"v{i}" for i in range(len(kinds))]
    try:
        (result,) = _Code(w, [e], names, kinds, 0).run()
    except TooLarge:
        return lambda *leaves: evaluate(e, leaves)
    text = "\n".join([f"def f({', '.join(names)}):", *w.lines, f"    return {result}"])
    exec(compile(text, "<pellucid text>", "exec"), w.space)
    return w.space["f"]  # type: ignore[no-any-return]


# ---------------------------------------------------------------- which parts are looked up


_made: dict[
    tuple[Expr, tuple[Type, ...]], Direct
] = {}  # one function for one expression: a kernel has one table for it


def _call(e: Expr, inputs: Sequence[Expr], args: Sequence[Expr]) -> Expr:
    """A call of the expression as a function of ``inputs``, which are parts of it; ``args`` stand for these."""
    kinds = tuple(i.type for i in inputs)
    inner = replaced(e, {id(i): n.var(at, i.type) for at, i in enumerate(inputs)})
    if inner.op == "const":
        return inner
    key = inner, kinds
    if key not in _made:
        _made[key] = Direct("looked_up", Inner(inner, kinds), e.type, n.fails(inner))
    return call(_made[key], args)


def _asks(e: Expr) -> bool:
    """Whether only Python can do the operation itself."""
    return e.op in TEXT_OPS or order_of_text(e)


class _Lowering:
    def __init__(self, roots: Sequence[Expr]) -> None:
        self.leaves: dict[int, frozenset[Expr]] = {}
        self.deep: set[int] = set()
        self.apart: set[int] = set()
        for e in walk(*roots):
            of = [self.leaves[id(a)] for a in e.args]
            self.leaves[id(e)] = frozenset((e,)) if e.op == "var" else frozenset().union(*of)
            if _asks(e) or any(id(a) in self.deep for a in e.args):
                self.deep.add(id(e))
            if (e.op == "call" and e.value.apart) or any(id(a) in self.apart for a in e.args):
                self.apart.add(id(e))
        self.made: dict[int, Expr] = {}
        for root in roots:
            self.lower(root)

    def lower(self, e: Expr) -> None:
        stack = [e]
        while stack:
            top = stack[-1]
            if id(top) in self.made:
                stack.pop()
                continue
            needs = self.inputs(top)
            missing = [a for a in needs if id(a) not in self.made]
            if missing:
                stack += missing
                continue
            stack.pop()
            args = [self.made[id(a)] for a in needs]
            if id(top) not in self.deep:
                self.made[id(top)] = top
            elif self.alone(top) or _asks(top):
                self.made[id(top)] = _call(top, needs, args) if needs else _settled(top)
            else:
                self.made[id(top)] = rebuild(top, args)

    def alone(self, e: Expr) -> bool:
        """Whether it depends on one leaf only, and not on a float: of those there are too many."""
        leaves = self.leaves[id(e)]
        return id(e) not in self.apart and len(leaves) <= 1 and all(v.type != FLOAT for v in leaves)

    def inputs(self, e: Expr) -> list[Expr]:
        """What must be computed before it."""
        if id(e) not in self.deep:
            return []
        if self.alone(e):
            return list(self.leaves[id(e)])
        if not _asks(e):
            return list(e.args)
        found: dict[Expr, None] = {}
        stack = list(reversed(e.args))
        while stack:  # f"{a}-{b}-{c}" is one call of three texts
            a = stack.pop()
            if _asks(a) and a.type == STR:
                stack.extend(reversed(a.args))
            elif a.op != "const":
                found[a] = None
        few = found if len(found) <= MOST_ARGUMENTS else dict.fromkeys(a for a in e.args if a.op != "const")
        return list(few)


def _settled(e: Expr) -> Expr:
    """What depends on nothing: its value, or that it fails."""
    try:
        return n.const(evaluate(e, []))
    except Exception:
        return n.raise_(0, e.type)


def lowered(traced: Traced) -> Traced:
    """The trace with calls alone where it looked inside text: an engine can run that."""
    made = _Lowering(traced.roots()).made

    def of(roots: Iterable[Expr]) -> tuple[Expr, ...]:
        return tuple(made[id(r)] for r in roots)

    return dataclasses.replace(
        traced,
        outputs=of(traced.outputs),
        count=None if traced.count is None else made[id(traced.count)],
        slots=tuple(map(of, traced.slots)),
        asked=None if traced.asked is None else made[id(traced.asked)],
        times=of(traced.times),
    )
