"""Terms of the calculus as tuples, and their normal form up to congruence.

A value is ``("name", n)``, ``("in", V)``, ``("out", V)``, ``("path", (V, ...))`` with two or more,
``("tuple", (V, ...))`` or ``("packet", V, V)``.  A continuation is ``("fn", x, T, P)``.  A process is
``("send", M, V or F)``, ``("receive", M, F, P)``, ``("crypt" or "decrypt", M, V, F)``, ``("app", F, V)``,
``("let", (x, ...), V, P)``, ``("bang", P)``, ``("par", (P, ...))``, ``("new", n, T, P)``,
``("forward" or "open", M, M, P, P)``, ``("child", P)``, ``("commit",)``, ``("abort",)`` or ``("nil",)``.
A type is ``("Place",)``, ``("Trans",)``, ``("Chan", T)``,
``("Key", T)``, ``("Packet", T)``, ``("Cap", T)``, ``("tuple", (T, ...))``, ``("proc", T)``, ``("rec", X, T)`` or
``("var", X)``.

In the normal form types are canonical, bound names are called by the depth of their binder, parallel parts are sorted,
unused private names are dropped, and private names stand in front of the parts that they bind in the order that gives
the least term: all orders are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import count, permutations
from typing import Any

from tests.judge.atomic.rec import canonical

Term = tuple[Any, ...]
Names = dict[str, Term]  # what stands for a free name

NIL: Term = ("nil",)
UNIT: Term = ("tuple", ())
TRANS: Term = ("Trans",)

_fresh = count()


def path_of(value: Term) -> tuple[Term, ...]:
    """A capability as its sequence of steps."""
    return value[1] if value[0] == "path" else (value,)


def path(*values: Term) -> Term:
    """Composition, which is associative."""
    steps = tuple(step for value in values for step in path_of(value))
    return steps[0] if len(steps) == 1 else ("path", steps)


def put(term: Term, names: Names) -> Term:
    """A value with its free names replaced."""
    match term:
        case ("name", name):
            return names.get(name, term)
        case ("in" | "out" as way, value):
            return (way, put(value, names))
        case ("path", steps):
            return path(*(put(step, names) for step in steps))
        case ("tuple", parts):
            return ("tuple", tuple(put(part, names) for part in parts))
        case ("packet", key, value):
            return ("packet", put(key, names), put(value, names))
    raise ValueError(term)


def is_cont(term: Term) -> bool:
    """Whether this is a continuation."""
    return bool(term[0] == "fn")


def split(process: Term, names: Names, fresh: Callable[[Term], str]) -> Iterator[tuple[Term, Names]]:
    """The parallel parts of a process, each with what stands for its free names; ``fresh`` names what is private."""
    match process:
        case ("nil",):
            return
        case ("par", parts):
            for part in parts:
                yield from split(part, names, fresh)
        case ("new", name, kind, body):
            yield from split(body, names | {name: ("name", fresh(kind))}, fresh)
        case _:
            yield process, names


def free(term: Any) -> set[str]:
    """Every name that is mentioned anywhere; binders of normal forms are no names of others."""
    if not isinstance(term, tuple):
        return set()
    if term[:1] == ("name",):
        return {term[1]}
    return {name for part in term for name in free(part)}


def prime(process: Term, names: Names, depth: int) -> Term:
    """The normal form of a process that is no parallel composition and makes no name at its top."""

    def value(term: Term) -> Term:
        return put(term, names)

    def body(term: Term) -> Term:
        return normal(term, names, depth)

    def either(term: Term) -> Term:
        if not is_cont(term):
            return value(term)
        bound = f"_{depth + 1}"
        kind = canonical(term[2]) if term[2] else None
        return ("fn", bound, kind, normal(term[3], names | {term[1]: ("name", bound)}, depth + 1))

    match process:
        case ("commit",) | ("abort",):
            return process
        case ("send", where, what):
            return ("send", value(where), either(what))
        case ("receive", where, cont, late):
            return ("receive", value(where), either(cont), body(late))
        case ("crypt" | "decrypt" as kind, key, what, cont):
            return (kind, value(key), value(what), either(cont))
        case ("app", cont, what):
            return ("app", either(cont), value(what))
        case ("let", bound, what, then):
            new = tuple(f"_{depth + n + 1}" for n in range(len(bound)))
            inner = names | {x: ("name", y) for x, y in zip(bound, new, strict=True)}
            return ("let", new, value(what), normal(then, inner, depth + len(new)))
        case ("bang", then):
            return ("bang", body(then))
        case ("forward" | "open" as kind, where, other, then, late):
            return (kind, value(where), value(other), body(then), body(late))
        case ("child", then):
            return ("child", body(then))
    raise ValueError(process)


def normal(process: Term, names: Names | None = None, depth: int = 0) -> Term:
    """The normal form of a process."""
    private: dict[str, Term] = {}

    def fresh(kind: Term) -> str:
        name = f"?{next(_fresh)}"
        private[name] = canonical(kind)
        return name

    parts = [prime(part, inner, depth + 99) for part, inner in split(process, names or {}, fresh)]
    used = [name for name in private if any(name in free(part) for part in parts)]
    choices = []
    for order in permutations(used):
        bound = [f"_{depth + n + 1}" for n in range(len(order))]
        inner = {name: ("name", to) for name, to in zip(order, bound, strict=True)}
        sorted_parts = tuple(sorted((prime(part, inner, depth + len(order)) for part in parts), key=repr))
        choices.append((tuple(private[name] for name in order), sorted_parts, bound))
    kinds, found, bound = min(choices, key=lambda choice: (repr(choice[0]), repr(choice[1])))
    made: Term = found[0] if len(found) == 1 else ("par", found) if found else NIL
    for name, kind in reversed(list(zip(bound, kinds, strict=True))):
        made = ("new", name, kind, made)
    return made


@lru_cache(maxsize=200_000)
def closed(process: Term) -> Term:
    """The normal form of a process that runs: no variable is free in it."""
    return prime(process, {}, 0)
