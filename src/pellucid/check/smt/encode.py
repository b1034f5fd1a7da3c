"""A system as z3 terms: what the symbolic engine says to its solver (`solve.terms` says how)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from pellucid.check.system.build import System
from pellucid.check.system.variables import Variable
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, Overflow64, walk
from pellucid.internal.expr.rewrite import Pure, has_text
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type, simplest
from pellucid.internal.solve.terms import HIGHEST, Frames, Texts, Transition

# Which strings and functions of strings a system has, and what the functions really answer (`solve.text`).

_FACTS = 400  # about constants
_WORDS = 40  # that are tried first


def with_texts(system: System, *roots: Expr) -> System:
    """The system, marked as one whose strings are looked into if one of these expressions does.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr import node as n
    >>> s = build_system(pipeline(lambda x: x, x=str).graph, domain_of(None))
    >>> [with_texts(s, test(s.value("x")[0], n.const("b"))).texts for test in (n.eq, n.lt)]
    [False, True]
    """
    if system.texts or not has_text(*roots, *system.next, system.assume):
        return system
    return dataclasses.replace(system, texts=True)


def _parts(system: System) -> list[Expr]:
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


def about_constants(texts: Texts, system: System, *roots: Expr) -> list[Any]:
    """What the functions really answer to the constants of the system and of these expressions."""
    kinds = calls_in(system, *roots)
    return [
        fact
        for f, args, failed, value in known_answers(system, *roots)
        for fact in texts.fact(f, kinds[f], args, failed, value)
    ]


def about_words(texts: Texts, system: System, words: list[str], *roots: Expr) -> list[Any]:
    """What functions of one string really answer to these."""
    functions = [f for f, kinds in calls_in(system, *roots).items() if kinds == [STR]]
    return [fact for f in functions for w in words for fact in texts.fact(f, [STR], (w,), *f.answer(w))]


def default(system: System, t: Type) -> Any:
    """The value of a leaf of a silent source, and of an operation that fails."""
    if t == INT:
        return system.domain.values[0] if system.domain.values else 0
    return t.members[0] if isinstance(t, EnumType) else {"bool": False, "float": 0.0, "str": ""}[str(t)]


class Encoding(Transition):
    """A system as z3 terms over one frame: ``state`` and ``inputs`` are constants, ``next`` terms over them."""

    def __init__(self, system: System) -> None:
        self.system = system
        super().__init__(
            [(v.name, v.type, v.start) for v in system.state],
            [v.type for v in system.inputs],
            texts=system.texts,
            strict=system.strict,
        )
        self.sizes = [v.size for v in system.state]
        if self.text is not None:
            self.text.facts = about_constants(self.text, system)
        self.define(system.next, system.assume)

    def default(self, t: Type) -> Any:
        return default(self.system, t)

    def allowed(self, inputs: Sequence[Any] | None = None) -> list[Any]:
        """What may come in: an event of the domain, or silence (then the leaves are at their default)."""
        z3, at = self.z3, 0
        out: list[Any] = [] if self.text is None else list(self.text.facts)
        inputs = self.inputs if inputs is None else inputs
        for _, event in self.system.sources:
            present, leaves = inputs[at], inputs[at + 1 : at + 1 + event.width]
            for leaf, (_, t), guards in zip(leaves, event.leaves(), event.guards(), strict=True):
                there = z3.And([leaves[i] for i in guards])
                out += self.bounds(t, leaf)
                if t == FLOAT:  # no source takes NaN; infinities come in
                    out.append(self.not_nan(leaf))
                values = self.system.domain.values if t == INT else None
                if values is not None and self.system.domain.whole and self.system.domain.span is not None:
                    low, high = self.system.domain.span
                    out += [z3.Implies(there, b) if guards else b for b in (leaf >= low, leaf <= high)]
                elif values is not None:
                    among = z3.Or([leaf == v for v in values])
                    out.append(z3.Implies(there, among) if guards else among)
                if guards:  # what is not there has one form
                    out.append(z3.Implies(z3.And(present, z3.Not(there)), self.same(leaf, self.value(t, simplest(t)))))
                out.append(z3.Or(present, self.same(leaf, self.value(t, self.default(t)))))
            at += 1 + event.width
        return out

    def again(self) -> Encoding:
        return Encoding(self.system)

    def listing(self) -> str:
        domain, types = self.system.domain, [t for _, t in self.system.sources]
        if domain.values is not None and not domain.unlisted(types):
            return "give fewer ints= and leave engine= out"
        return domain.listing(types, "ints=range(0, 8)")

    def where(self, e: Expr) -> str:
        """The step in which an expression first appears, for a message."""
        for name, (_, slots) in self.system.streams.items():
            if any(e in walk(slot.present, *slot.leaves) for slot in slots):
                return f"{name}: "
        for v, root in zip(self.system.state, self.system.next, strict=True):
            if e in walk(root):
                return f"{v.of}: "
        return ""


# ---------------------------------------------------------------- runs that a solver found, as pushes


def pushes_of(frames: Frames, system: System, model: Any) -> list[dict[str, Any]]:
    """The pushes of a model: for each source that is not silent its event."""
    code, out = frames.code, []
    for inputs in frames.inputs:
        push, at = {}, 0
        for name, event in system.sources:
            values = [model.eval(c, model_completion=True) for c in inputs[at : at + 1 + event.width]]
            if code.z3.is_true(values[0]):
                kinds = [t for _, t in event.leaves()]
                push[name] = event.event([code.python(t, v) for t, v in zip(kinds, values[1:], strict=True)])
            at += 1 + event.width
        for v, c in zip(system.inputs[at:], inputs[at:], strict=True):  # choices that no source makes
            chosen = code.python(v.type, model.eval(c, model_completion=True))
            if v.role != "lost" or chosen:
                push[_choice(v)] = chosen
        out.append(push)
    return out


def input_leaves(system: System, push: Mapping[str, Any]) -> list[Any]:
    """The input variables' values in a push."""
    out: list[Any] = []
    for name, event in system.sources:
        out.append(name in push)
        out += event.flatten(push[name]) if name in push else [default(system, t) for _, t in event.leaves()]
    return [*out, *(push.get(_choice(v), default(system, v.type)) for v in system.inputs[len(out) :])]


def _choice(v: Variable) -> str:
    """Under which name a push has a choice that no source makes; no source has a dot in its name."""
    return f"lost.{v.of}" if v.role == "lost" else f"{v.role}.{v.of}.{v.at}"


def replay(system: System, bad: Expr, trace: Sequence[Mapping[str, Any]]) -> bool | None:
    """Whether ``bad`` holds in the last push of a trace, by plain evaluation of the system.

    None: an integer leaves 64 bits on the way (the check talks about exact integers).  Where ``bad`` itself fails, it
    does not hold; nor does it where a push is not one of those that are assumed.
    """
    state: list[Any] = [v.start for v in system.state]
    try:
        for i, push in enumerate(trace, 1):
            leaves, memo = state + input_leaves(system, push), dict[int, Any]()
            if not evaluate(system.assume, leaves, memo):
                return False
            if i == len(trace):
                return bool(evaluate(bad, leaves, memo))
            state = [evaluate(e, leaves, memo) for e in system.next]
        return False
    except Overflow64:
        return None
    except (ArithmeticError, ValueError, UserRaise):
        return False
