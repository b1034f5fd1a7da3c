"""Strings that are looked into, as z3's strings; and functions of which only their consistency is known, as
uninterpreted ones.

Both are sequences of code points.  z3 has those below 0x30000 only, Python all below 0x110000; no operation here can
tell: each of them stays the same if the characters that no constant has are renamed one by one, in their order, and
65,536 are left above those that a constant may have.  So a run with stranger characters has a twin among z3's strings,
unless more different characters than that matter in it.  Constants beyond are refused.

``facts`` are true of the real functions: their answers to the constants of the system, and what a search has learnt
from calling them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pellucid.errors import UsageError, known
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.text import Pure
from pellucid.internal.expr.types import Type

if TYPE_CHECKING:
    from pellucid.internal.solve.terms import Terms

HIGHEST = 0x1FFFF  # the largest code point of a constant


class Texts:
    """The strings of terms."""

    def __init__(self, code: Terms) -> None:
        self.code, self.z3 = code, code.z3
        self._functions: dict[Pure, tuple[Any, Any]] = {}
        self.facts: list[Any] = []
        self.calls: dict[Expr, list[Any]] = {}  # every call, with its arguments

    def learn(self, evaluated: Callable[[Any], Any]) -> list[Any]:
        """What the functions really answer where a model, which has invented their answers, calls them."""
        learnt: list[Any] = []
        for e, terms in self.calls.items():
            kinds = [a.type for a in e.args]
            args = tuple(self.code.python(t, evaluated(term)) for t, term in zip(kinds, terms, strict=True))
            learnt += self.fact(e.value, kinds, args, *e.value.answer(*args))
        return learnt

    def value(self, text: str) -> Any:
        """A Python string as a z3 one, code point by code point (z3's own reading of a text has escapes)."""
        if any(ord(c) > HIGHEST for c in text):
            raise UsageError(
                f"the symbolic engine takes characters up to U+{HIGHEST:X}, found {text!r}: use another character, or "
                "an enum in place of the text"
            )
        z3, points = self.z3, [ord(c) for c in text]
        ctx = z3.main_ctx()
        return z3.SeqRef(z3.Z3_mk_u32string(ctx.ref(), len(points), (ctypes.c_uint * len(points))(*points)), ctx)

    def python(self, v: Any) -> str:
        """A z3 string as a Python one; what is no plain value becomes the empty one, and is not believed before it was
        run."""
        z3 = self.z3
        v = v if z3.is_string_value(v) else z3.simplify(v)
        if not z3.is_string_value(v):
            return ""
        size = z3.Z3_get_string_length(v.ctx_ref(), v.as_ast())
        points = (ctypes.c_uint * size)()
        z3.Z3_get_string_contents(v.ctx_ref(), v.as_ast(), size, points)
        return "".join(map(chr, points))

    def sort(self, t: Type) -> Any:
        """The sort of a type's terms; floats may be doubles, or numbers with an order."""
        return self.code.constant("sort", t).sort()

    def function(self, f: Pure, kinds: list[Type]) -> tuple[Any, Any]:
        """A pure function and whether it fails, uninterpreted."""
        if f not in self._functions:
            sorts, i = [self.sort(t) for t in kinds], len(self._functions)
            self._functions[f] = (
                self.z3.Function(f"call{i}", *sorts, self.sort(f.result)),
                self.z3.Function(f"fails{i}", *sorts, self.z3.BoolSort()),
            )
        return self._functions[f]

    def fact(self, f: Pure, kinds: list[Type], args: tuple[Any, ...], failed: bool, value: Any) -> list[Any]:
        """What a function really answers; nothing about strings that z3 does not have."""
        texts = [v for v in (*args, value) if isinstance(v, str)]
        if any(ord(c) > HIGHEST for t in texts for c in t):
            return []
        value_of, fails = self.function(f, kinds)
        given = [self.code.value(t, a) for t, a in zip(kinds, args, strict=True)]
        out = [fails(*given) if failed else self.z3.Not(fails(*given))] if f.may_fail else []
        return out if failed else [*out, self.code.same(value_of(*given), self.code.value(f.result, value))]

    def term(self, e: Expr, args: list[Any]) -> Any:
        """An operation on strings, or a call."""
        if e.op in ("call", "call_fails"):
            self.calls[e] = args
            return self.function(e.value, [a.type for a in e.args])[e.op == "call_fails"](*args)
        return known(_TERMS, e.op, "the solver's text", "operation")(self.z3, *args)


_TERMS: dict[str, Callable[..., Any]] = {
    "length": lambda z3, s: z3.Length(s),
    "concat": lambda z3, a, b: z3.Concat(a, b),
    "starts": lambda z3, s, t: z3.PrefixOf(t, s),
    "ends": lambda z3, s, t: z3.SuffixOf(t, s),
    "holds": lambda z3, s, t: z3.Contains(s, t),
    "find": lambda z3, s, t: z3.IndexOf(s, t, 0),
    "part": lambda z3, s, a, b: z3.SubString(s, a, b - a),
    "lt": lambda z3, a, b: a < b,
    "le": lambda z3, a, b: a <= b,
}
