"""Networks of the judge as text, and back: a reader and a writer of its own.

A network is ``("place", n, N, entry, ...)``, ``("runs", t, P)``, ``("wire", (N, ...))`` or ``("new", n, T, N)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.judge.atomic.terms import NIL, Term, is_cont, path, path_of

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
