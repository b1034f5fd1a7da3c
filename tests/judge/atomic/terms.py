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

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import count, permutations
from typing import Any

# Recursive types: ``("rec", X, T)`` is T with itself for ``("var", X)``, and equal to what it unrolls to.

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


# Networks of the judge as text, and back: a reader and a writer of its own.
#
# A network is ``("place", n, N, entry, ...)``, ``("runs", t, P)``, ``("wire", (N, ...))`` or ``("new", n, T, N)``.

Keep = Callable[[], bool]  # whether to write the type of a variable that its context gives, too


def type_text(kind: Term) -> str:
    """A type as text."""
    match kind:
        case ("Place" | "Trans" as name,):
            return str(name)
        case ("tuple", parts):
            return f"<{', '.join(map(type_text, parts))}>"
        case ("var", name):
            return str(name)
        case ("rec", name, inner):
            return f"rec {name}. {type_text(inner)}"
        case ("proc", inner):
            text = type_text(inner)
            return f"({text}) -> ()" if inner[0] in ("proc", "rec") else f"{text} -> ()"
        case (name, inner):
            return f"{name}[{type_text(inner)}]"
    raise ValueError(kind)


def value_text(value: Term) -> str:
    """A value as text."""
    match value:
        case ("name", name):
            return str(name)
        case ("in" | "out" as way, inner):
            return f"{way} {value_text(inner)}"
        case ("path", steps):
            return ".".join(map(value_text, steps))
        case ("tuple", parts):
            return f"<{', '.join(map(value_text, parts))}>"
        case ("packet", key, inner):
            return f"{value_text(key)}[{value_text(inner)}]"
    raise ValueError(value)


def process_text(process: Term, keep: Keep = lambda: True) -> str:
    """A process as text, with more brackets than it needs."""

    def sub(inner: Term) -> str:
        return process_text(inner, keep)

    def cont(inner: Term, known: bool = True) -> str:
        kind = f": {type_text(inner[2])}" if not known or keep() else ""
        return f"({inner[1]}{kind}) ({sub(inner[3])})"

    match process:
        case ("nil",):
            return "0"
        case ("commit" | "abort" as word,):
            return str(word)
        case ("send", where, what):
            return f"send({value_text(where)}, {cont(what, False) if is_cont(what) else value_text(what)})"
        case ("receive", where, then, late):
            return f"receive({value_text(where)}, {cont(then)}, {sub(late)})"
        case ("crypt" | "decrypt" as word, key, what, then):
            return f"{word}({value_text(key)}, {value_text(what)}, {cont(then)})"
        case ("app", then, what):
            return f"({cont(then, False)})({value_text(what)})"
        case ("let", bound, what, then):
            return f"let <{', '.join(bound)}> = {value_text(what)} in ({sub(then)})"
        case ("bang", then):
            return f"!({sub(then)})"
        case ("par", parts):
            return "(" + " | ".join(f"({sub(part)})" for part in parts) + ")" if parts else "0"
        case ("new", name, kind, then):
            return f"new {name}: {type_text(kind)}. ({sub(then)})"
        case ("forward" | "open" as word, where, other, then, late):
            return f"{word}({value_text(where)}, {value_text(other)}, {sub(then)}, {sub(late)})"
        case ("child", then):
            return f"child({sub(then)})"
    raise ValueError(process)


def network_text(network: Term, keep: Keep = lambda: True) -> str:
    """A network as text."""
    match network:
        case ("place", name, inner):
            return f"{name}[ {network_text(inner, keep)} ]"
        case ("place", name, inner, *log):
            entries = "; ".join(network_text(entry, keep) for entry in log)
            return f"{name}[ {entries}, {network_text(inner, keep)} ]"
        case ("runs", trans, process):
            return f"{trans}{{ {process_text(process, keep)} }}"
        case ("wire", parts):
            return " | ".join(f"({network_text(part, keep)})" for part in parts) if parts else "0"
        case ("new", name, kind, inner):
            return f"new {name}: {type_text(kind)}. {network_text(inner, keep)}"
    raise ValueError(network)


TOKEN = re.compile(r"\s*(?:#[^\n]*\n\s*)*(->|[A-Za-z_~][\w'~]*|0|[][(){}<>|,.:;!=])")
WORDS = {"in", "out", "new", "let", "commit", "abort", "send", "receive", "recv", "crypt", "decrypt", "forward", "open",
         "child"}  # fmt: skip


class Reader:
    """Reads by descent; a bracket before a name and then ``)`` or ``:`` opens a continuation."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at = 0
        text = re.sub(r"#[^\n]*", "", text).rstrip()
        while at < len(text):
            found = TOKEN.match(text, at)
            if not found:
                raise ValueError(f"no token at {text[at : at + 20]!r}")
            self.tokens.append(found[1])
            at = found.end()
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def take(self, wanted: str | None = None) -> str:
        token = self.peek()
        if wanted is not None and token != wanted:
            raise ValueError(
                f"{wanted!r} expected, {token!r} found before {' '.join(self.tokens[self.at : self.at + 8])}"
            )
        self.at += 1
        return token

    def may(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def several(self, one: Callable[[], Any], end: str) -> tuple[Any, ...]:
        found = []
        while self.peek() != end:
            found.append(one())
            if not self.may(","):
                break
        self.take(end)
        return tuple(found)

    def type(self) -> Term:
        if self.may("rec"):
            name = self.take()
            self.take(".")
            return ("rec", name, self.type())
        if self.may("<"):
            kind: Term = ("tuple", self.several(self.type, ">"))
        elif self.may("("):
            kind = self.type()
            self.take(")")
        else:
            name = self.take()
            kind = (name,) if name in ("Place", "Trans") else ("var", name)
            if self.may("["):
                kind = (name, self.type())
                self.take("]")
        if self.may("->"):
            self.take("(")
            self.take(")")
            kind = ("proc", kind)
        return kind

    def step(self) -> Term:
        if self.peek() in ("in", "out"):
            return (self.take(), self.step())
        if self.may("<"):
            return ("tuple", self.several(self.value, ">"))
        if self.may("("):
            inner = self.value()
            self.take(")")
            return inner
        name: Term = ("name", self.take())
        if self.may("["):
            inner = self.value()
            self.take("]")
            return ("packet", name, inner)
        return name

    def value(self) -> Term:
        steps = [self.step()]
        while self.may("."):
            steps.append(self.step())
        return path(*(one for step in steps for one in path_of(step)))

    def opens_cont(self) -> bool:
        return self.peek() == "(" and re.match(r"[A-Za-z_]", self.peek(1)) is not None and (
            self.peek(2) == ":" or (self.peek(2) == ")" and self.peek(1) not in WORDS))  # fmt: skip

    def cont(self) -> Term:
        if self.opens_cont():
            self.take("(")
            name = self.take()
            kind = self.type() if self.may(":") else None
            self.take(")")
            return ("fn", name, kind, self.process())
        self.take("(")
        inner = self.cont()
        self.take(")")
        return inner

    def process(self) -> Term:
        parts = [self.one()]
        while self.may("|"):
            parts.append(self.one())
        return parts[0] if len(parts) == 1 else ("par", tuple(parts))

    def news(self, inner: Callable[[], Term]) -> Term:
        self.take("new")
        names = [self.take()]
        while self.may(","):
            names.append(self.take())
        self.take(":")
        kind = self.type()
        self.take(".")
        body = inner()
        for name in reversed(names):
            body = ("new", name, kind, body)
        return body

    def one(self) -> Term:
        word = self.peek()
        if word == "0":
            self.take()
            return NIL
        if word == "new":
            return self.news(self.process)
        if word == "!":
            self.take()
            return ("bang", self.one())
        if word in ("commit", "abort"):
            return (self.take(),)
        if word == "let":
            self.take()
            self.take("<")
            bound = self.several(self.take, ">")
            self.take("=")
            what = self.value()
            self.take("in")
            return ("let", bound, what, self.process())
        if word in WORDS:
            word = self.take()
            self.take("(")
            if word == "child":
                found: Term = ("child", self.process())
            elif word == "send":
                where = self.value()
                self.take(",")
                found = ("send", where, self.cont() if self.peek() == "(" else self.value())
            elif word in ("receive", "recv"):
                where = self.value()
                self.take(",")
                then = self.cont()
                self.take(",")
                found = ("receive", where, then, self.process())
            elif word in ("crypt", "decrypt"):
                where = self.value()
                self.take(",")
                what = self.value()
                self.take(",")
                found = (word, where, what, self.cont())
            else:
                where = self.value()
                self.take(",")
                other = self.value()
                self.take(",")
                first = self.process()
                self.take(",")
                found = (word, where, other, first, self.process())
            self.take(")")
            return found
        if self.opens_cont():  # F(V) without brackets about F: the argument ends it
            raise ValueError("a continuation where a process is expected")
        self.take("(")
        inner = self.cont() if self.opens_cont() else self.process()
        self.take(")")
        if is_cont(inner):
            self.take("(")
            what = self.value()
            self.take(")")
            return ("app", inner, what)
        return inner

    def network(self) -> Term:
        parts = [self.net()]
        while self.may("|"):
            parts.append(self.net())
        return parts[0] if len(parts) == 1 else ("wire", tuple(parts))

    def net(self) -> Term:
        if self.peek() == "new":
            return self.news(self.network)
        if self.may("0"):
            return ("wire", ())
        if self.may("("):
            inner = self.network()
            self.take(")")
            return inner
        name = self.take()
        if self.may("{"):
            process = self.process()
            self.take("}")
            return ("runs", name, process)
        self.take("[")
        log = [self.network()]
        while self.may(";"):
            log.append(self.network())
        inner = self.network() if self.may(",") else log.pop()
        self.take("]")
        return ("place", name, inner, *log)


def read(text: str) -> Term:
    """The network of a text."""
    reader = Reader(text)
    found = reader.network()
    if reader.peek():
        raise ValueError(f"left over: {reader.tokens[reader.at :]}")
    return found
