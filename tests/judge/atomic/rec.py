"""Recursive types: ``("rec", X, T)`` is T with itself for ``("var", X)``, and equal to what it unrolls to."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

Term = tuple[Any, ...]

NONE: Term = ("none",)  # what unrolls for ever


def filled(kind: Term, name: str, by: Term) -> Term:
    """A type with another one for a variable."""
    match kind:
        case ("var", other):
            return by if other == name else kind
        case ("rec", other, body):
            return kind if other == name else ("rec", other, filled(body, name, by))
        case ("tuple", parts):
            return ("tuple", tuple(filled(part, name, by) for part in parts))
        case (word, inner):
            return (word, filled(inner, name, by))
    return kind


def unrolled(kind: Term) -> Term:
    """A type that begins with no ``rec``; `NONE` if there is nothing but ``rec``."""
    seen = set()
    while kind[0] == "rec":
        if kind in seen:
            return NONE
        seen.add(kind)
        kind = filled(kind[2], kind[1], kind)
    return kind


def parts_of(kind: Term) -> tuple[Term, ...]:
    """What stands inside a type that begins with no ``rec``."""
    return kind[1] if kind[0] == "tuple" else kind[1:] if kind[0] != "var" else ()


def same(one: Term, two: Term) -> bool:
    """Whether two types are the same infinite tree."""
    queue, seen = [(one, two)], set()
    while queue:
        pair = queue.pop()
        if pair in seen:
            continue
        seen.add(pair)
        a, b = map(unrolled, pair)
        inner = parts_of(a), parts_of(b)
        if a[0] != b[0] or len(inner[0]) != len(inner[1]) or (a[0] in ("var", "none") and a != b):
            return False
        queue += zip(*inner, strict=True)
    return True


@lru_cache(maxsize=20_000)
def canonical(kind: Term) -> Term:
    """One way to write all types that are the same tree: unrolled until it comes to what stands around it."""

    def told(one: Term, around: tuple[Term, ...]) -> Term:
        for level, other in enumerate(around):
            if same(one, other):
                return ("var", f"R{level}")
        head, own = unrolled(one), f"R{len(around)}"
        inner = tuple(told(part, (*around, one)) for part in parts_of(head))
        made: Term = head if head[0] == "var" else (head[0], inner) if head[0] == "tuple" else (head[0], *inner)
        return ("rec", own, made) if mentions(made, own) else made

    return told(kind, ())


def mentions(kind: Term, name: str) -> bool:
    """Whether a variable stands in a type."""
    if kind[0] == "var":
        return bool(kind[1] == name)
    if kind[0] == "rec":
        return bool(kind[1] != name and mentions(kind[2], name))
    return any(mentions(part, name) for part in parts_of(kind))
