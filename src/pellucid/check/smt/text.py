"""Which strings and functions of strings a system has, and what the functions really answer (`solve.text`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import product
from typing import Any

from pellucid.check.system.build import System
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.text import Pure, has_text
from pellucid.internal.expr.types import BOOL, INT, STR, EnumType, Type
from pellucid.internal.solve.text import HIGHEST, Texts

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
