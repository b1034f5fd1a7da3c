"""Types: every rule of sections 2.1, 3.1, 3.2 and 6 by its name.

The *corrected* system has ``Key[T]`` for names of packets, apart from ``Packet[T]`` for packets, and lets a capability
for a channel of packets be followed by one for their key.  The *printed* system has ``Packet[T]`` for both: there
Lemma 1 is false, as `counterexample_to_lemma_1` shows, and ``in c.in k`` has no type.  Both are asked by name.

A continuation without a type gets the one that its place gives it; the network that comes back has them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from pellucid.atomic import syntax as s
from pellucid.atomic.syntax import type_text, value_text
from pellucid.errors import DataError, UsageError, nearest
from pellucid.internal.base.languages import caret

System: TypeAlias = Literal["corrected", "printed"]
SYSTEMS = ("corrected", "printed")
Context: TypeAlias = "Mapping[str, s.Type]"

NAMES_OF = {"corrected": "Place, Trans, Chan[T] or Key[T]", "printed": "Place, Trans, Chan[T] or Packet[T]"}


class IllTyped(DataError):  # noqa: N818 - what it is
    """A rule does not apply: which, where, what was expected and what was found."""

    def __init__(self, message: str, rule: str, at: s.At, expected: str, found: str) -> None:
        super().__init__(message)
        self.rule, self.at, self.expected, self.found = rule, at, expected, found


# ---------------------------------------------------------------- types as such


def unfolded(t: s.Type) -> s.Type:
    """``rec X. T`` with itself for X, until it is no ``rec`` any more.

    >>> type_text(unfolded(s.RecType("X", s.ChanType(s.TypeName("X")))))
    'Chan[rec X. Chan[X]]'
    """
    while isinstance(t, s.RecType):
        t = _with(t.body, t.name, t)
    return t


def _with(t: s.Type, name: str, other: s.Type) -> s.Type:
    match t:
        case s.TypeName(own):
            return other if own == name else t
        case s.RecType(own, body):
            return t if own == name else s.RecType(own, _with(body, name, other))
        case s.TupleType(parts):
            return s.TupleType(tuple(_with(part, name, other) for part in parts))
        case s.PlaceType() | s.TransType():
            return t
        case _:
            return type(t)(_with(t.of, name, other))


def same(a: s.Type, b: s.Type, seen: frozenset[tuple[s.Type, s.Type]] = frozenset()) -> bool:
    """Whether two types are equal, ``rec`` as often unfolded as one likes.

    >>> chans = s.RecType("X", s.ChanType(s.TypeName("X")))
    >>> same(chans, s.ChanType(s.ChanType(chans))), same(chans, s.ChanType(s.TupleType()))
    (True, False)
    """
    if a == b or (a, b) in seen:
        return True
    seen = seen | {(a, b)}
    x, y = unfolded(a), unfolded(b)
    match x, y:
        case s.TupleType(p), s.TupleType(q):
            return len(p) == len(q) and all(same(i, j, seen) for i, j in zip(p, q, strict=True))
        case (
            (s.ChanType(p), s.ChanType(q)) | (s.KeyType(p), s.KeyType(q)) | (s.PacketType(p), s.PacketType(q))
            | (s.CapType(p), s.CapType(q)) | (s.ContType(p), s.ContType(q))
        ):  # fmt: skip
            return same(p, q, seen)
        case _:
            return x == y


def formed(t: s.Type, system: System) -> str | None:
    """What is wrong with a type as such; None if nothing is.

    >>> formed(s.RecType("X", s.ChanType(s.CapType(s.TypeName("X")))), "corrected")
    >>> formed(s.RecType("X", s.TupleType((s.CapType(s.TypeName("X")),))), "corrected")
    'Cap[…] is of Place, Chan[T] or Key[T], not of rec X. <Cap[X]>'
    """
    return _variables(t) or _inner(t, system, set())


def _variables(t: s.Type, bound: tuple[str, ...] = (), bare: tuple[str, ...] = ()) -> str | None:
    """Whether every variable is bound by a ``rec``, with something around it; ``bare`` are those without."""
    match t:
        case s.TypeName(name):
            if name not in bound:
                known = ["Place", "Trans", "Chan", "Key", "Packet", "Cap", *bound]
                return f"there is no type {name}{nearest(name, known)}"
            return f"{name} stands for itself: something must stand around it" if name in bare else None
        case s.RecType(name, body):
            return _variables(body, (*bound, name), (*bare, name))
        case s.TupleType(parts):
            return next((wrong for part in parts if (wrong := _variables(part, bound)) is not None), None)
        case s.PlaceType() | s.TransType():
            return None
        case _:
            return _variables(t.of, bound)


def _inner(t: s.Type, system: System, seen: set[s.Type]) -> str | None:
    """What is wrong inside a type without free variables: asked of all that it unfolds to, each once."""
    if t in seen:
        return None
    seen.add(t)
    match unfolded(t):
        case s.PlaceType() | s.TransType() | s.TypeName() | s.RecType():
            return None
        case s.KeyType() if system == "printed":
            return "Key[T] is of the corrected system: as printed, the name of packets is a Packet[T], too"
        case s.TupleType(parts) as whole:
            inside = parts
        case whole:
            inside = (whole.of,)
    for part in inside:
        own = unfolded(part)
        if isinstance(own, s.TransType):
            return "a transaction's name is no value: Trans stands in no other type"
        if (wrong := _inner(part, system, seen)) is not None:
            return wrong
        if isinstance(whole, s.CapType) and not _ambient(own, system):
            return f"Cap[…] is of {_ambients(system)}, not of {type_text(part)}"
        if isinstance(own, s.ContType) and not isinstance(whole, (s.KeyType, s.PacketType)):
            return f"processes are no values: {type_text(whole)} needs a Packet[…] or Key[…] around the process"
    return None


def _ambient(t: s.Type, system: System) -> bool:
    return isinstance(t, (s.PlaceType, s.ChanType, s.KeyType if system == "corrected" else s.PacketType))


def _ambients(system: System) -> str:
    return "Place, Chan[T] or Key[T]" if system == "corrected" else "Place, Chan[T] or Packet[T]"


# ---------------------------------------------------------------- the rules


@dataclass(frozen=True)
class Checker:
    """The rules, for one text."""

    system: System = "corrected"
    text: str = ""
    name: str = ""

    def no(self, rule: str, at: s.At, what: str, expected: str, found: str) -> NoReturn:
        """A rule that does not apply."""
        message = f"{rule}: {what}: expected {expected}, found {found}"
        if at is not None and self.text:
            message = str(caret(self.text, *at, message, self.name))
        elif at is not None:
            message = f"line {at[0]}, column {at[1]}: {message}"
        raise IllTyped(message, rule, at, expected, found)

    # networks

    def network(self, n: s.Network, gamma: Context) -> s.Network:
        """Γ ⊢ N net."""
        match n:
            case s.Place(name, log, body):
                self._declared("NET PLACE", name, n.at, gamma, s.PlaceType(), "the name of a place")
                entries = tuple(self.network(entry, gamma) for entry in log)  # LOG NET, LOG EXTEND
                return s.Place(name, entries, self.network(body, gamma), n.at)
            case s.Running(trans, process):
                self._declared("NET PROCESS", trans, n.at, gamma, s.TransType(), "the name of a transaction")
                return s.Running(trans, self.process(process, gamma), n.at)
            case s.Wire(parts):  # NET WIRE
                return s.Wire(tuple(self.network(part, gamma) for part in parts), n.at)
            case s.New(name, kind, body):
                kind = self._name_type("NET NEW", name, kind, n.at)
                return s.New(name, kind, self.network(body, {**gamma, name: kind}), n.at)
            case s.Empty():  # NET EMPTY, which the paper leaves out
                return n

    def _declared(self, rule: str, name: str, at: s.At, gamma: Context, kind: s.Type, words: str) -> None:
        if name not in gamma:
            hint = nearest(name, list(gamma))
            self.no(rule, at, f"{name} is free", f"new {name}: {type_text(kind)}", f"no declaration{hint}")
        if gamma[name] != kind:
            self.no(rule, at, f"{name} is used as {words}", type_text(kind), type_text(gamma[name]))

    def _name_type(self, rule: str, name: str, kind: s.Type, at: s.At) -> s.Type:
        """The type of a name; ``rec X. Place`` is the same as ``Place``."""
        if rule == "NET NEW" and "'" in name:
            self.no(rule, at, f"new {name}", "a name without '", f"{name}: such names are for variables in states")
        wrong = formed(kind, self.system)
        if wrong is not None:
            self.no(rule, at, f"new {name}", "a well-formed type", f"{type_text(kind)} ({wrong})")
        head = unfolded(kind)
        if not isinstance(head, s.TransType) and not _ambient(head, self.system):
            self.no(rule, at, f"new {name}", NAMES_OF[self.system], type_text(kind))
        return head if isinstance(head, (s.TransType, s.PlaceType)) else kind

    # processes

    def process(self, p: s.Process, gamma: Context) -> s.Process:
        """Γ ⊢ P : ()."""
        match p:
            case s.Send(to, what) if isinstance(what, s.Cont):
                of = self._cap_of("PROC SEND PROCESS", to, gamma, "key", "the process' key")
                self._carries_process("PROC SEND PROCESS", to, of)
                return s.Send(to, self.cont("PROC SEND PROCESS", what, gamma, _argument(of)), p.at)
            case s.Send(to, what):
                of = self._cap_of("PROC SEND", to, gamma, "chan", "where it is sent")
                self._value("PROC SEND", what, gamma, of, "what is sent")  # type: ignore[arg-type]
                return p
            case s.Receive(source, then, otherwise):
                of = self._cap_of("PROC RECEIVE", source, gamma, "chan", "the channel")
                f = self.cont("PROC RECEIVE", then, gamma, of)
                return s.Receive(source, f, self.process(otherwise, gamma), p.at)
            case s.Crypt(key, value, then):
                of = self._cap_of("PROC CRYPT", key, gamma, "key", "the key")
                self._value("PROC CRYPT", value, gamma, of, "what is put into the packet")
                return s.Crypt(key, value, self.cont("PROC CRYPT", then, gamma, s.PacketType(of)), p.at)
            case s.Decrypt(key, value, then):
                of = self._cap_of("PROC DECRYPT", key, gamma, "key", "the key")
                self._value("PROC DECRYPT", value, gamma, s.PacketType(of), "the packet")
                return s.Decrypt(key, value, self.cont("PROC DECRYPT", then, gamma, of), p.at)
            case s.Continue(cont, value):
                given = self.value(value, gamma)
                return s.Continue(self.cont("PROC CONTINUE", cont, gamma, given), value, p.at)
            case s.Let(names, value, body):
                t = unfolded(self.value(value, gamma))
                if not isinstance(t, s.TupleType) or len(t.parts) != len(names):
                    self.no("PROC LET", p.at, f"let <{', '.join(names)}>", _so_many(len(names)), type_text(t))
                if len(set(names)) < len(names):
                    self.no("PROC LET", p.at, f"let <{', '.join(names)}>", "different names", "one of them twice")
                inner = {**gamma, **dict(zip(names, t.parts, strict=True))}
                return s.Let(names, value, self.process(body, inner), p.at)
            case s.Replicate(body):  # PROC REPLICATE
                return s.Replicate(self.process(body, gamma), p.at)
            case s.Par(parts):  # PROC PAR
                return s.Par(tuple(self.process(part, gamma) for part in parts), p.at)
            case s.NewIn(name, kind, body):
                if _variables(kind) is None and isinstance(unfolded(kind), s.TransType):
                    expected = NAMES_OF[self.system].replace("Trans, ", "")
                    found = "Trans (child(P) makes a transaction)"
                    self.no("PROC NEW", p.at, f"new {name} inside a process", expected, found)
                kind = self._name_type("PROC NEW", name, kind, p.at)
                return s.NewIn(name, kind, self.process(body, {**gamma, name: kind}), p.at)
            case s.Forward(source, to, then, otherwise):
                first = self._cap_of("PROC FORWARD", source, gamma, "chan", "the channel")
                second = self._cap_of("PROC FORWARD", to, gamma, "chan", "where it goes")
                self._packed_process("PROC FORWARD", source, first)
                self._packed_process("PROC FORWARD", to, second)
                if not same(first, second):
                    want, got = type_text(s.ChanType(first)), type_text(s.ChanType(second))
                    self.no("PROC FORWARD", p.at, f"{value_text(to)} does not carry what comes", want, got)
                return s.Forward(source, to, self.process(then, gamma), self.process(otherwise, gamma), p.at)
            case s.Open(source, give, then, otherwise):
                of = self._cap_of("PROC OPEN", source, gamma, "key", "the channel and the key")
                self._carries_process("PROC OPEN", source, of)
                self._value("PROC OPEN", give, gamma, _argument(of), "what the process is given")
                return s.Open(source, give, self.process(then, gamma), self.process(otherwise, gamma), p.at)
            case s.Child(body):  # PROC CHILD, of section 7
                return s.Child(self.process(body, gamma), p.at)
            case s.Commit() | s.Abort() | s.Stop():  # PROC COMMIT and PROC ABORT, which the paper leaves out; PROC NULL
                return p

    def cont(self, rule: str, f: s.Cont, gamma: Context, of: s.Type) -> s.Cont:
        """Γ ⊢ F : T → (), with the T that is needed here."""
        if f.type is not None:
            wrong = formed(f.type, self.system)
            if wrong is not None:
                self.no("PROC CONT", f.at, f"({f.name}: …)", "a well-formed type", f"{type_text(f.type)} ({wrong})")
            if not same(f.type, of):
                expected, found = type_text(s.ContType(of)), type_text(s.ContType(f.type))
                self.no(rule, f.at, f"the continuation ({f.name}: …)", expected, found)
        if isinstance(unfolded(of), s.ContType):
            self.no("PROC CONT", f.at, f"({f.name}) would be a process", "a type of values", type_text(of))
        return s.Cont(f.name, of if f.type is None else f.type, self.process(f.body, {**gamma, f.name: of}), f.at)

    def _cap_of(self, rule: str, m: s.Value, gamma: Context, kind: Literal["chan", "key"], words: str) -> s.Type:
        t = unfolded(self.value(m, gamma))
        wanted = s.ChanType if kind == "chan" else s.KeyType if self.system == "corrected" else s.PacketType
        inner = unfolded(t.of) if isinstance(t, s.CapType) else None
        if not isinstance(inner, wanted):
            form = {s.ChanType: "Cap[Chan[T]]", s.KeyType: "Cap[Key[T]]", s.PacketType: "Cap[Packet[T]]"}[wanted]
            self.no(rule, m.at, f"{words}, {value_text(m)}", form, type_text(t))
        return inner.of

    def _carries_process(self, rule: str, m: s.Value, of: s.Type) -> None:
        t = unfolded(of)
        arg = unfolded(t.of) if isinstance(t, s.ContType) else None
        if not isinstance(arg, s.CapType) or not isinstance(unfolded(arg.of), s.ChanType):
            key = "Key" if self.system == "corrected" else "Packet"
            self.no(rule, m.at, value_text(m), f"Cap[{key}[Cap[Chan[T]] -> ()]]", f"Cap[{key}[{type_text(of)}]]")

    def _packed_process(self, rule: str, m: s.Value, of: s.Type) -> None:
        t = unfolded(of)
        inner = unfolded(t.of) if isinstance(t, s.PacketType) else None
        if not isinstance(inner, s.ContType):
            self.no(rule, m.at, value_text(m), "Cap[Chan[Packet[Cap[Chan[T]] -> ()]]]", f"Cap[Chan[{type_text(of)}]]")
        self._carries_process(rule, m, inner)

    # values

    def _value(self, rule: str, v: s.Value, gamma: Context, of: s.Type, words: str) -> None:
        found = self.value(v, gamma)
        if not same(found, of):
            self.no(rule, v.at, f"{words}, {value_text(v)}", type_text(of), type_text(found))

    def value(self, v: s.Value, gamma: Context) -> s.Type:
        """Γ ⊢ V : T."""
        match v:
            case s.Param(name):
                if name not in gamma:
                    hint = nearest(name, list(gamma))
                    self.no("VAL PARAM", v.at, f"{name} is free", "a declared name", f"no declaration{hint}")
                if isinstance(gamma[name], s.TransType):
                    self.no("VAL PARAM", v.at, name, "a value", "Trans: the name of a transaction is no value")
                return gamma[name]
            case s.In(of):
                return self._capability("VAL INPUT CAP", v, of, gamma)
            case s.Out(of):
                return self._capability("VAL OUTPUT CAP", v, of, gamma)
            case s.Path(parts):
                return self._path(v, [self.value(part, gamma) for part in parts])
            case s.Packet(key, value):
                t = unfolded(self.value(key, gamma))
                if not isinstance(key, s.Param):
                    self.no("VAL PACKET", v.at, value_text(v), "the name of a key", value_text(key))
                if not isinstance(t, s.KeyType if self.system == "corrected" else s.PacketType):
                    form = "Key[T]" if self.system == "corrected" else "Packet[T]"
                    self.no("VAL PACKET", v.at, value_text(key), form, type_text(t))
                self._value("VAL PACKET", value, gamma, t.of, "what is in the packet")
                return s.PacketType(t.of)
            case s.Tuple(parts):  # VAL TUPLE
                return s.TupleType(tuple(self.value(part, gamma) for part in parts))

    def _capability(self, rule: str, v: s.In | s.Out, of: s.Value, gamma: Context) -> s.Type:
        if not isinstance(of, s.Param):
            self.no(rule, v.at, value_text(v), "a name", f"the value {value_text(of)}, which is outside the grammar")
        t = self.value(of, gamma)
        if not _ambient(unfolded(t), self.system):
            self.no(rule, v.at, value_text(v), _ambients(self.system), type_text(t))
        return s.CapType(t)

    def _path(self, v: s.Path, types: list[s.Type]) -> s.Type:
        """VAL COMPOSE CAP, and in the corrected system VAL COMPOSE KEY: a channel of packets, then their key."""
        *_, last = types
        for i, t in enumerate(types):
            if not isinstance(unfolded(t), s.CapType):
                self.no("VAL COMPOSE CAP", v.parts[i].at, value_text(v.parts[i]), "Cap[A]", type_text(t))
        for i, t in enumerate(types[:-1]):
            inner = unfolded(unfolded(t).of)  # type: ignore[union-attr]
            if isinstance(inner, s.PlaceType):
                continue
            after = unfolded(unfolded(types[i + 1]).of)  # type: ignore[union-attr]
            packets = unfolded(inner.of) if isinstance(inner, s.ChanType) else None
            if (
                self.system == "corrected" and i == len(types) - 2
                and isinstance(packets, s.PacketType) and isinstance(after, s.KeyType) and same(packets.of, after.of)
            ):  # fmt: skip
                continue
            expected = "Cap[Place]" if i < len(types) - 2 or self.system == "printed" else (
                "Cap[Place], or a channel of packets before their key"
            )  # fmt: skip
            what = f"{value_text(v.parts[i])} before {value_text(v.parts[i + 1])}"
            self.no("VAL COMPOSE CAP", v.parts[i].at, what, expected, type_text(t))
        return last


def _argument(of: s.Type) -> s.Type:
    t = unfolded(of)
    assert isinstance(t, s.ContType)
    return t.of


def _so_many(n: int) -> str:
    return f"a tuple of {n}"


def typecheck(network: s.Network, *, system: System = "corrected", text: str = "", name: str = "") -> s.Network:
    """Γ ⊢ N net for the empty Γ: the network with all its types, or `IllTyped`, which says the rule, where, what was
    expected and what was found.  ``text`` is what the network was read from, for the caret.

    >>> from pellucid.atomic import network_text, parse
    >>> text = "new t: Trans. new p: Place. new c: Chan[<>]. p[ t{receive(out c, (x) send(in c, x), 0)} ]"
    >>> print(network_text(typecheck(parse(text))).rpartition("p[")[2])
     t{receive(out c, (x: <>) send(in c, x), 0)} ]
    >>> typecheck(parse("new t: Trans. new p: Place. p[ t{send(in p, <>)} ]"))
    Traceback (most recent call last):
    pellucid.atomic.typing.IllTyped: line 1, column 39: PROC SEND: where it is sent, in p: expected Cap[Chan[T]],
    found Cap[Place]
    """
    if system not in SYSTEMS:
        raise UsageError(f"system= is one of {', '.join(SYSTEMS)}, found {system!r}")
    try:
        return Checker(system, text, name).network(network, {})
    except RecursionError:
        raise DataError(f"{name or 'the network'} is nested too deeply to be type checked") from None


def counterexample_to_lemma_1() -> s.Network:
    """Well typed as printed, and its second step leaves the grammar: a packet where the name of a key belongs.

    >>> from pellucid.atomic import parse
    >>> typecheck(counterexample_to_lemma_1(), system="printed") == counterexample_to_lemma_1()
    True
    """
    from pellucid.atomic.syntax import parse

    return parse(
        "new t: Trans. new p: Place. new k: Packet[<>]. "
        "p[ t{crypt(in k, <>, (x: Packet[<>]) decrypt(out x, x, (y: <>) commit))} ]"
    )
