"""Systems and what a proof owes, as SMT-LIB text: read from the expressions, not from what z3 was told.

`pellucid.check.smt.encode` says the same to z3; the two share no line, so that a mistake in one of them shows as a
disagreement.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from pellucid.check.smt.text import calls_in, known_answers
from pellucid.check.system.build import System
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.text import Pure
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, EnumType, Type, simplest
from pellucid.internal.solve.certificate import Proof


class NotWritten(Exception):  # noqa: N818
    """This cannot be said in the part of SMT-LIB that is used here."""


_INFIX = {
    "add": "(+ {} {})", "sub": "(- {} {})", "mul": "(* {} {})", "neg": "(- {})", "abs": "(ite (< {0} 0) (- {0}) {0})",
    "invert": "(- (- {}) 1)", "floordiv": "(ite (> {1} 0) (div {0} {1}) (ite (< {1} 0) (div (- {0}) (- {1})) 0))",
    "mod": "(ite (> {1} 0) (mod {0} {1}) (ite (< {1} 0) (- (mod (- {0}) (- {1}))) 0))",
}  # fmt: skip
_REAL = {
    "add": "(fp.add RNE {} {})", "sub": "(fp.sub RNE {} {})", "mul": "(fp.mul RNE {} {})",
    "truediv": "(fp.div RNE {} {})", "neg": "(fp.neg {})", "abs": "(fp.abs {})", "sqrt": "(fp.sqrt RNE {})",
}  # fmt: skip
_LOGIC = {"and": "(and {} {})", "or": "(or {} {})", "not": "(not {})", "ite": "(ite {} {} {})"}
_ORDER = {"eq": "(fp.eq {} {})", "lt": "(fp.lt {} {})", "le": "(fp.leq {} {})"}
_TEXT = {
    "length": "(str.len {})", "concat": "(str.++ {} {})", "starts": "(str.prefixof {1} {0})",
    "ends": "(str.suffixof {1} {0})", "holds": "(str.contains {} {})", "find": "(str.indexof {} {} 0)",
    "part": "(str.substr {0} {1} (- {2} {1}))",
}  # fmt: skip
_WHOLE = {"eq": "(= {} {})", "lt": "(< {} {})", "le": "(<= {} {})"}


def obligations(system: System, bad: Expr, proof: Proof) -> list[tuple[str, str]]:
    """What has to be impossible if the proof is one: each by its name, as a text that must not be satisfiable.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr import node as n
    >>> s = build_system(pipeline(lambda x: x.cumulate(lambda a, v: a + v, 0), x=int).graph, domain_of(range(3)))
    >>> total = n.var(1, s.state[1].type)
    >>> [name for name, _ in obligations(s, n.lt(total, n.const(0)), Proof(0, (n.le(n.const(0), total),)))]
    ['it holds at the start', 'a push keeps it', 'it excludes what is bad']
    """
    lemma = proof.lemma
    out = [
        ("it holds at the start", _Text(system, True).push().claim(0, lemma, False).done()),
        ("a push keeps it", _Text(system, False).push().claim(0, lemma, True).push().claim(1, lemma, False).done()),
    ]
    for t in range(proof.k):
        text = _Text(system, True)
        for _ in range(t + 1):
            text.push()
        out.append((f"nothing bad in push {t + 1}", text.claim(t, bad, True).done()))
    text = _Text(system, False)
    for t in range(proof.k + 1):
        text.push().claim(t, lemma, True).claim(t, bad, t == proof.k)
    if proof.simple:
        for t in range(1, proof.k + 1):
            for before in range(t):
                text.differ(before, t)
    return [*out, ("it excludes what is bad", text.done())]


class _Text:
    """Pushes in a row as declarations and assertions."""

    def __init__(self, system: System, start: bool) -> None:
        self.system, self.lines = system, ["(set-logic ALL)"]
        self.states: list[list[str]] = []
        self.inputs: list[list[str]] = []
        self._made: dict[tuple[int, int], str] = {}
        self._functions: dict[Pure, str] = {}
        for f, given, failed, value in known_answers(system) if system.texts else ():
            self._answer(f, calls_in(system)[f], given, failed, value)
        if start:
            self.states.append([_value(v.type, v.start) for v in system.state])
        else:
            self.states.append([self._declare(f"s{i}", v.type) for i, v in enumerate(system.state)])

    def push(self) -> _Text:
        """One more push: its inputs; from the second on, the state is the one after the push before."""
        t = len(self.inputs)
        if t:
            self.states.append([self.term(t - 1, e) for e in self.system.next])
        self.inputs.append([self._declare(f"i{i}_{t}", v.type) for i, v in enumerate(self.system.inputs)])
        named = dict(zip([(v.role, v.of, v.at) for v in self.system.inputs], self.inputs[t], strict=True))
        guards = {name: kind.guards() for name, kind in self.system.sources}
        for v, c in zip(self.system.inputs, self.inputs[t], strict=True):
            if v.role == "leaf":
                flags = [named.get(("leaf", v.of, i)) for i in guards[v.of][v.at]]
                self._of_source(v.type, c, named.get(("present", v.of, 0)), flags)
            elif v.size is not None:
                self._add(f"(and (<= 0 {c}) (< {c} {v.size}))")
        return self.claim(t, self.system.assume, True)

    def _of_source(self, t: Type, c: str, present: str | None, flags: list[str | None]) -> None:
        """What is said of a leaf; ``flags`` say whether it is there, None if that was cut away."""
        values = self.system.domain.values if t == INT else None
        nothing = f"(= {c} {_value(t, simplest(t))})"
        there = f"(and true {' '.join(flag for flag in flags if flag is not None)})"
        if values is not None:
            low, high = self.system.domain.span or (0, 0)
            among = f"(or {' '.join(f'(= {c} {_value(INT, v)})' for v in values)} false)"
            if len(values) == high - low + 1:
                among = f"(and (<= {_value(INT, low)} {c}) (<= {c} {_value(INT, high)}))"
            if None in flags:
                among = f"(or {nothing} {among})"
            self._add(f"(=> {there} {among})" if flags else among)
        if flags:
            silent = f"(not {present})" if present is not None else "false"
            if present is not None or values is None:
                self._add(f"(or {silent} {there} {nothing})")
        if t == FLOAT:
            self._add(f"(not (fp.isNaN {c}))")
        if present is not None:
            zero = values[0] if values else simplest(t)
            self._add(f"(or {present} (= {c} {_value(t, zero)}))")

    def claim(self, t: int, e: Expr, yes: bool) -> _Text:
        """That an expression holds, or does not hold, at push t."""
        self._add(self.term(t, e) if yes else f"(not {self.term(t, e)})")
        return self

    def differ(self, t: int, u: int) -> None:
        """That two states are not the same."""
        pairs = " ".join(f"(not (= {a} {b}))" for a, b in zip(self.states[t], self.states[u], strict=True))
        self._add(f"(or {pairs} false)")

    def done(self) -> str:
        """The whole text."""
        return "\n".join([*self.lines, "(check-sat)"])

    def _add(self, term: str) -> None:
        self.lines.append(f"(assert {term})")

    def _declare(self, name: str, t: Type) -> str:
        self.lines.append(f"(declare-const {name} {_sort(t)})")
        if isinstance(t, EnumType):
            self._add(f"(and (<= 0 {name}) (< {name} {len(t.members)}))")
        if t == INT and self.system.strict:
            self._add(f"(and (<= {_value(INT, INT_MIN)} {name}) (<= {name} {INT_MAX}))")
        return name

    def term(self, t: int, e: Expr) -> str:
        """The name of an expression's value at push t."""
        for part in walk(e):
            if (t, id(part)) not in self._made:
                args = [self._made[t, id(a)] for a in part.args]
                self._made[t, id(part)] = self._one(t, part, args)
        return self._made[t, id(e)]

    def _function(self, f: Pure, kinds: Sequence[Type]) -> str:
        """The name of a function of which only its consistency is known; the one that says whether it fails ends in
        "fails"."""
        if f not in self._functions:
            name = self._functions[f] = f"call{len(self._functions)}"
            sorts = " ".join(map(_sort, kinds))
            self.lines += [
                f"(declare-fun {name} ({sorts}) {_sort(f.result)})",
                f"(declare-fun {name}fails ({sorts}) Bool)",
            ]
        return self._functions[f]

    def _answer(self, f: Pure, kinds: Sequence[Type], given: Sequence[Any], failed: bool, value: Any) -> None:
        try:
            args = " ".join(_value(k, v) for k, v in zip(kinds, given, strict=True))
            answer = _value(f.result, value)
        except NotWritten:
            return
        name = self._function(f, kinds)
        if f.may_fail:
            self._add(f"({name}fails {args})" if failed else f"(not ({name}fails {args}))")
        if not failed:
            self._add(f"(= ({name} {args}) {answer})")

    def _one(self, t: int, e: Expr, args: list[str]) -> str:
        if e.op == "var":
            at, many = int(e.value), len(self.states[t])
            return self.states[t][at] if at < many else self.inputs[t][at - many]
        if e.op in ("const", "raise"):
            return _value(e.type, e.value if e.op == "const" else simplest(e.type))
        if e.op == "after":
            return args[-1]
        called = ""
        if e.op in ("call", "call_fails"):
            called = (
                f"({self._function(e.value, [a.type for a in e.args])}{'fails' if e.op == 'call_fails' else ''} "
                f"{' '.join(args)})"
            )
        name = f"v{len(self._made)}"
        self.lines.append(f"(define-fun {name} () {_sort(e.type)} {called or _apply(e, args)})")
        return name


def _apply(e: Expr, args: Sequence[str]) -> str:
    op, kinds = e.op, [a.type for a in e.args]
    if op in _LOGIC:
        return _LOGIC[op].format(*args)
    if op == "overflows":
        return f"(or (< {args[0]} {_value(INT, INT_MIN)}) (> {args[0]} {INT_MAX}))"
    if op in _WHOLE and kinds[0] == kinds[1]:
        if op != "eq" and kinds[0] == STR:
            return f"(str.<{'=' if op == 'le' else ''} {args[0]} {args[1]})"
        if op != "eq" and kinds[0] not in (INT, FLOAT):
            raise NotWritten(f"{op} of {kinds[0]}")
        return (_ORDER if kinds[0] == FLOAT else _WHOLE)[op].format(*args)
    if op in _TEXT:
        return _TEXT[op].format(*args)
    if op == "int_of_bool":
        return f"(ite {args[0]} 1 0)"
    if set(kinds) == {INT} and e.type == INT:
        if op in _INFIX:
            return _INFIX[op].format(*args)
        fixed = e.args[-1]
        if op in ("shl", "shr") and fixed.op == "const" and 0 <= fixed.value <= 256:
            return f"({'*' if op == 'shl' else 'div'} {args[0]} {2**fixed.value})"
        for x, mask in ((args[0], e.args[-1]), (args[-1], e.args[0])):
            if op == "band" and mask.op == "const" and mask.value >= 0 and mask.value & (mask.value + 1) == 0:
                return f"(mod {x} {mask.value + 1})"
    if set(kinds) == {FLOAT} and e.type == FLOAT and op in _REAL:
        return _REAL[op].format(*args)
    raise NotWritten(f"{op} of {' and '.join(map(str, kinds))}")


def _sort(t: Type) -> str:
    if t == INT or isinstance(t, EnumType):
        return "Int"
    names = {BOOL: "Bool", FLOAT: "Float64", STR: "String"}
    if t not in names:
        raise NotWritten(str(t))
    return names[t]


def _value(t: Type, v: Any) -> str:
    """A constant.

    >>> _value(INT, -3), _value(BOOL, True), _value(STR, 'a"ß')
    ('(- 3)', 'true', '"a""\\\\u{df}"')
    """
    if t == BOOL:
        return "true" if v else "false"
    if isinstance(t, EnumType):
        return str(t.members.index(v))
    if t == INT:
        return str(v) if v >= 0 else f"(- {-v})"
    if t == STR:
        return '"' + "".join(_letter(c) for c in v) + '"'
    if t != FLOAT:
        raise NotWritten(str(t))
    if math.isnan(v):
        return "(_ NaN 11 53)"
    if math.isinf(v):
        return f"(_ {'+' if v > 0 else '-'}oo 11 53)"
    bits = f"{struct.unpack('>Q', struct.pack('>d', v))[0]:064b}"
    return f"(fp #b{bits[0]} #b{bits[1:12]} #b{bits[12:]})"


def _letter(c: str) -> str:
    if ord(c) > 0x2FFFF:
        raise NotWritten(f"the character {c!r}")
    if c == '"':
        return '""'
    return c if " " <= c <= "~" and c != "\\" else f"\\u{{{ord(c):x}}}"
