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
import dataclasses
from collections.abc import Callable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from pellucid.check.system.build import System
from pellucid.errors import UsageError
from pellucid.expr.node import Expr, walk
from pellucid.expr.text import Pure, has_text
from pellucid.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type

if TYPE_CHECKING:
    from pellucid.check.smt.encode import Encoding

__all__ = ["HIGHEST", "Texts", "calls_in", "constants_of", "known_answers", "with_texts", "words_near"]

HIGHEST = 0x1FFFF  # the largest code point of a constant
_FACTS = 400  # about constants
_WORDS = 40  # that are tried first


def with_texts(system: System, *roots: Expr) -> System:
    """The system, marked as one whose strings are looked into if one of these expressions does.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.expr import node as n
    >>> s = build_system(pipeline(lambda x: x, x=str).graph, domain_of(None))
    >>> [with_texts(s, test(s.value("x")[0], n.const("b"))).texts for test in (n.eq, n.lt)]
    [False, True]
    """
    return (
        system
        if system.texts or not has_text(*roots, *system.next, system.assume)
        else dataclasses.replace(system, texts=True)
    )


def _parts(system: System) -> Iterator[Expr]:
    streams = [e for _, slots in system.streams.values() for s in slots for e in (s.present, *s.leaves)]
    return walk(*system.next, system.failed, system.assume, *streams)


def calls_in(system: System, *roots: Expr) -> dict[Pure, list[Type]]:
    """The functions that are called in a system, with the types of their arguments."""
    found = [*_parts(system), *walk(*roots)]
    return {e.value: [a.type for a in e.args] for e in found if e.op in ("call", "call_fails")}


def constants_of(system: System, *roots: Expr) -> list[str]:
    """The strings that a system or these expressions name, and the empty one."""
    found = {e.value: None for e in (*_parts(system), *walk(*roots)) if e.op == "const" and e.type == STR}
    return [t for t in {"": None, **found} if all(ord(c) <= HIGHEST for c in t)]


def words_near(system: System, *roots: Expr) -> list[str]:
    """The same, and a few strings close to them: where a function is likely to answer in another way."""
    own = constants_of(system, *roots)
    made = [made for t in own for made in (t.lower(), t.upper(), f" {t}", f"{t}x", t[:-1])]
    return list(dict.fromkeys([*own, "a", "A", "1", *made]))[:_WORDS]


def known_answers(system: System, *roots: Expr) -> list[tuple[Pure, tuple[Any, ...], bool, Any]]:
    """What the functions of a system really answer to its own constants: the function, the arguments, whether it fails,
    the answer."""
    out: list[tuple[Pure, tuple[Any, ...], bool, Any]] = []
    calls = calls_in(system, *roots)
    numbers = (
        {0: None, 1: None}
        | {e.value: None for e in (*_parts(system), *walk(*roots)) if e.op == "const" and e.type == INT}
        if calls
        else {}
    )
    pools: dict[Type, list[Any]] = {STR: constants_of(system, *roots), INT: list(numbers), BOOL: [False, True]}
    for f, kinds in calls.items():
        for args in product(*[list(t.members) if isinstance(t, EnumType) else pools.get(t, []) for t in kinds]):
            if len(out) >= _FACTS:
                return out
            out.append((f, args, *f.answer(*args)))
    return out


class Texts:
    """The strings of an encoding."""

    def __init__(self, code: Encoding) -> None:
        self.code, self.z3 = code, code.z3
        self._functions: dict[Pure, tuple[Any, Any]] = {}
        self.facts: list[Any] = []
        self.calls: dict[Expr, list[Any]] = {}  # every call, with its arguments

    def about_constants(self, *roots: Expr) -> list[Any]:
        """What the functions really answer to the constants of the system and of these expressions."""
        system = self.code.system
        kinds = calls_in(system, *roots)
        return [
            fact
            for f, args, failed, value in known_answers(system, *roots)
            for fact in self.fact(f, kinds[f], args, failed, value)
        ]

    def about_words(self, words: list[str], *roots: Expr) -> list[Any]:
        """What functions of one string really answer to these."""
        functions = [f for f, kinds in calls_in(self.code.system, *roots).items() if kinds == [STR]]
        return [fact for f in functions for w in words for fact in self.fact(f, [STR], (w,), *f.answer(w))]

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
                f"the symbolic engine takes characters up to U+{HIGHEST:X}, found {text!r}: give a finite domain for "
                "explicit search"
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
        """The sort of a type's values."""
        z3 = self.z3
        if t == FLOAT:
            return z3.Float64()
        return z3.BoolSort() if t == BOOL else z3.StringSort() if t == STR else z3.IntSort()

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
        return _TERMS[e.op](self.z3, *args)


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
