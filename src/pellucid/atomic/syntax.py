"""The syntax of the calculus as immutable data: types, values, processes, networks (sections 2, 3, 6, and 7's child).

Where a piece stood in the text (``at``: line and column) is carried along and does not count when pieces are compared.
A capability is flat: ``in p.out q.in c`` is one `Path` of its parts, so that composition is associative by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, TypeAlias

from pellucid.errors import DataError
from pellucid.internal.base.languages import parsed

if TYPE_CHECKING:
    from lark import Token, Tree

At: TypeAlias = "tuple[int, int] | None"


# where it stood: not compared, not shown

# ---------------------------------------------------------------- types


@dataclass(frozen=True)
class PlaceType:
    """``Place``: the type of a place's name.  ``said``, here and below, is what the text calls the private name that a
    state has of this type; it does not count when types are compared."""

    said: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class TransType:
    """``Trans``: the type of a transaction's name."""


@dataclass(frozen=True)
class ChanType:
    """``Chan[T]``: a channel that carries T."""

    of: Type
    said: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class KeyType:
    """``Key[T]``: the *name* of packets with a T inside; as printed this is ``Packet[T]``, too."""

    of: Type
    said: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class PacketType:
    """``Packet[T]``: a packet, which is a value."""

    of: Type
    said: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class CapType:
    """``Cap[A]``: a capability for a place, a channel or a key."""

    of: Type


@dataclass(frozen=True)
class TupleType:
    """``<T, …>``; ``<>`` carries nothing."""

    parts: tuple[Type, ...] = ()


@dataclass(frozen=True)
class ContType:
    """``T -> ()``: a continuation that waits for a T."""

    of: Type


@dataclass(frozen=True)
class TypeName:
    """A type variable, bound by ``rec``."""

    name: str


@dataclass(frozen=True)
class RecType:
    """``rec X. T``: the type that is T with itself for X."""

    name: str
    body: Type
    said: str = field(default="", compare=False, repr=False)


Type: TypeAlias = (
    "PlaceType | TransType | ChanType | KeyType | PacketType | CapType | TupleType | ContType | TypeName | RecType"
)

# ---------------------------------------------------------------- values


@dataclass(frozen=True)
class Param:
    """A name (bound by ``new``) or a variable (bound by a continuation or ``let``)."""

    name: str
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class In:
    """``in p``: enter a place, write to a channel, make a packet.  Inside the grammar ``of`` is a `Param`; what steps
    of ill-typed networks make of it may be another value, and has no type."""

    of: Value
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Out:
    """``out p``: leave a place, read a channel, read a packet."""

    of: Value
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Path:
    """``M1.M2. …``: capabilities one after another, two or more."""

    parts: tuple[Value, ...]
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Packet:
    """``k[V]``: a value in a packet."""

    key: Value
    value: Value
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Tuple:
    """``<V, …>``."""

    parts: tuple[Value, ...] = ()
    at: At = field(default=None, compare=False, repr=False)


Value: TypeAlias = "Param | In | Out | Path | Packet | Tuple"

# ---------------------------------------------------------------- processes


@dataclass(frozen=True)
class Cont:
    """``(x: T) P``: a continuation.  Without a type (``(x) P``) the type checker finds it from where it stands."""

    name: str
    type: Type | None
    body: Process
    at: At = field(default=None, compare=False, repr=False)
    said: str = field(default="", compare=False, repr=False)  # the name in the text, where this one is canonical


@dataclass(frozen=True)
class Send:
    """``send(M, V)``, which is also the message on its way; ATF_M: ``send(M, F)``."""

    to: Value
    what: Value | Cont
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Receive:
    """``receive(M, F, P)``: F with what comes, or P after a time-out."""

    source: Value
    then: Cont
    otherwise: Process
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Crypt:
    """``crypt(M, V, F)``."""

    key: Value
    value: Value
    then: Cont
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Decrypt:
    """``decrypt(M, V, F)``."""

    key: Value
    value: Value
    then: Cont
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Continue:
    """``F(V)``, written ``((x: T) P)(V)``."""

    cont: Cont
    value: Value
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Let:
    """``let <x, y> = V in P``."""

    names: tuple[str, ...]
    value: Value
    body: Process
    at: At = field(default=None, compare=False, repr=False)
    said: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Replicate:
    """``!P``."""

    body: Process
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Par:
    """``P | Q | …``."""

    parts: tuple[Process, ...]
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class NewIn:
    """``new n: T. P``: a private name."""

    name: str
    type: Type
    body: Process
    at: At = field(default=None, compare=False, repr=False)
    said: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Commit:
    """``commit``."""

    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Abort:
    """``abort``."""

    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Stop:
    """``0``: nothing more."""

    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Forward:
    """``forward(M, M', P1, P2)`` of ATF_M: send the message on, unread."""

    source: Value
    to: Value
    then: Process
    otherwise: Process
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Open:
    """``open(M, M', P1, P2)`` of ATF_M: run the process in the message, with M' for its parameter."""

    source: Value
    give: Value
    then: Process
    otherwise: Process
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Child:
    """``child(P)`` of section 7: P in a transaction of its own that depends on this one."""

    body: Process
    at: At = field(default=None, compare=False, repr=False)


Process: TypeAlias = (
    "Send | Receive | Crypt | Decrypt | Continue | Let | Replicate | Par | NewIn | Commit | Abort | Stop | Forward"
    " | Open | Child"
)

# ---------------------------------------------------------------- networks


@dataclass(frozen=True)
class Place:
    """``n[L, N]``: a domain or host with its log; ``n[N]`` has an empty one."""

    name: str
    log: tuple[Network, ...]
    body: Network
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Running:
    """``t{P}``: a process in a transaction."""

    trans: str
    process: Process
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Wire:
    """``N1 | N2 | …``."""

    parts: tuple[Network, ...]
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class New:
    """``new n: T. N``."""

    name: str
    type: Type
    body: Network
    at: At = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Empty:
    """``0``: the empty network."""

    at: At = field(default=None, compare=False, repr=False)


Network: TypeAlias = "Place | Running | Wire | New | Empty"


# Networks, processes, values and types as text: what `parse` reads back as the same data.


def type_text(t: Type) -> str:
    """A type.

    >>> type_text(ChanType(ContType(CapType(PlaceType()))))
    'Chan[Cap[Place] -> ()]'
    """
    match t:
        case PlaceType():
            return "Place"
        case TransType():
            return "Trans"
        case ChanType(of):
            return f"Chan[{type_text(of)}]"
        case KeyType(of):
            return f"Key[{type_text(of)}]"
        case PacketType(of):
            return f"Packet[{type_text(of)}]"
        case CapType(of):
            return f"Cap[{type_text(of)}]"
        case TupleType(parts):
            return f"<{', '.join(map(type_text, parts))}>"
        case ContType(of):
            inner = type_text(of)
            return f"({inner}) -> ()" if isinstance(of, (ContType, RecType)) else f"{inner} -> ()"
        case RecType(name, body):
            return f"rec {name}. {type_text(body)}"
        case TypeName(name):
            return name


def value_text(v: Value) -> str:
    """A value.

    >>> value_text(Path((Out(Param("p")), In(Param("c")))))
    'out p.in c'
    """
    match v:
        case Param(name):
            return name
        case In(of):
            return f"in {value_text(of)}"
        case Out(of):
            return f"out {value_text(of)}"
        case Path(parts):
            return ".".join(map(value_text, parts))
        case Packet(key, value):
            return f"{value_text(key)}[{value_text(value)}]"
        case Tuple(parts):
            return f"<{', '.join(map(value_text, parts))}>"


def cont_text(f: Cont) -> str:
    """A continuation."""
    typed = "" if f.type is None else f": {type_text(f.type)}"
    return f"({f.name}{typed}) {process_text(f.body)}"


def process_text(p: Process) -> str:
    """A process.

    >>> process_text(Par((Send(In(Param("c")), Tuple()), Commit())))
    'send(in c, <>) | commit'
    """
    match p:
        case Send(to, what):
            return f"send({value_text(to)}, {cont_text(what) if isinstance(what, Cont) else value_text(what)})"
        case Receive(source, then, otherwise):
            return f"receive({value_text(source)}, {cont_text(then)}, {process_text(otherwise)})"
        case Crypt(key, value, then):
            return f"crypt({value_text(key)}, {value_text(value)}, {cont_text(then)})"
        case Decrypt(key, value, then):
            return f"decrypt({value_text(key)}, {value_text(value)}, {cont_text(then)})"
        case Continue(cont, value):
            return f"({cont_text(cont)})({value_text(value)})"
        case Let(names, value, body):
            return f"let <{', '.join(names)}> = {value_text(value)} in {process_text(body)}"
        case Replicate(body):
            return f"!{_alone(body)}"
        case Par(parts):
            *first, last = parts
            inner = process_text(last) if not isinstance(last, Par) else f"({process_text(last)})"
            return " | ".join([*map(_alone, first), inner])
        case NewIn(name, kind, body):
            return f"new {name}: {type_text(kind)}. {process_text(body)}"
        case Commit():
            return "commit"
        case Abort():
            return "abort"
        case Stop():
            return "0"
        case Forward(source, to, then, otherwise):
            words = [value_text(source), value_text(to), process_text(then), process_text(otherwise)]
            return f"forward({', '.join(words)})"
        case Open(source, give, then, otherwise):
            words = [value_text(source), value_text(give), process_text(then), process_text(otherwise)]
            return f"open({', '.join(words)})"
        case Child(body):
            return f"child({process_text(body)})"


def _alone(p: Process) -> str:
    """In brackets, if it would reach further to the right."""
    text = process_text(p)
    return f"({text})" if isinstance(p, (Par, NewIn, Let)) else text


def network_text(n: Network, *, indent: int | None = None, depth: int = 0) -> str:
    """A network on one line, or with a line for each of its parts.

    >>> from pellucid.atomic import parse
    >>> network_text(parse("new t: Trans. new p: Place. p[t{commit} | t{0}] | 0"))
    'new t: Trans. new p: Place. p[ t{commit} | t{0} ] | 0'
    >>> print(network_text(parse("new t: Trans. new p: Place. p[t{commit} | p[0]]"), indent=2))
    new t: Trans.
    new p: Place.
    p[
      t{commit}
      | p[ 0 ]
    ]
    """
    lines = indent is not None
    pad = "\n" + " " * ((indent or 0) * depth) if lines else " "
    match n:
        case Place(name, log, body):
            deeper = "\n" + " " * ((indent or 0) * (depth + 1)) if lines else " "
            short = isinstance(body, (Empty, Running)) and not log
            inner = network_text(body, indent=indent, depth=depth + 1)
            if short:
                return f"{name}[ {inner} ]"
            entries = f";{deeper}".join(_entry(entry) for entry in log)
            said = f"{entries},{deeper}" if log else ""
            return f"{name}[{deeper}{said}{inner}{pad}]"
        case Running(trans, process):
            return f"{trans}{{{process_text(process)}}}"
        case Wire(parts):
            *first, last = (_brackets(part, network_text(part, indent=indent, depth=depth)) for part in parts)
            end = parts[-1]
            final = network_text(end, indent=indent, depth=depth) if isinstance(end, New) else last
            return f"{pad}| ".join([*first, final])
        case New(name, kind, body):
            return f"new {name}: {type_text(kind)}.{pad}{network_text(body, indent=indent, depth=depth)}"
        case Empty():
            return "0"


def _brackets(n: Network, text: str) -> str:
    return f"({text})" if isinstance(n, (Wire, New)) else text


def _entry(n: Network) -> str:
    return network_text(n)


# The text form of networks (``.atf``), read: a mistake is reported with its line, its column and a caret.
#
# ``new`` and ``let`` reach as far to the right as they can; ``!`` takes the next process only; a continuation
# ``(x: T) P`` reaches to the comma or bracket that ends it.  A place with a log is ``p[ entry; entry, N ]``.

GRAMMAR = r"""
start: network

?network: part
    | part ("|" part)+                                          -> wire
?part: NAME "[" network "]"                                     -> place
    | NAME "[" network (";" network)* "," network "]"           -> logged
    | NAME "{" process "}"                                      -> running
    | "new" names ":" type "." network                          -> new
    | "(" network ")"
    | ZERO                                                      -> empty

?process: prefixed
    | prefixed ("|" prefixed)+                                  -> par
?prefixed: "!" prefixed                                         -> replicate
    | "new" names ":" type "." process                          -> new_in
    | "let" "<" [names] ">" "=" value "in" process              -> let
    | "(" process ")"
    | "(" cont ")" "(" value ")"                                -> apply
    | "send" "(" value "," value ")"                            -> send
    | "send" "(" value "," cont ")"                             -> send
    | ("receive" | "recv") "(" value "," cont "," process ")"   -> receive
    | "crypt" "(" value "," value "," cont ")"                  -> crypt
    | "decrypt" "(" value "," value "," cont ")"                -> decrypt
    | "forward" "(" value "," value "," process "," process ")" -> forward
    | "open" "(" value "," value "," process "," process ")"    -> open
    | "child" "(" process ")"                                   -> child
    | "commit"                                                  -> commit
    | "abort"                                                   -> abort
    | ZERO                                                      -> stop

cont: "(" NAME [":" type] ")" process

?value: step
    | step ("." step)+                                          -> path
?step: "in" NAME                                                -> in_
    | "out" NAME                                                -> out
    | NAME                                                      -> param
    | NAME "[" value "]"                                        -> packet
    | "<" [value ("," value)*] ">"                              -> tuple

?type: basic "->" "(" ")"                                       -> cont_type
    | "rec" NAME "." type                                       -> rec_type
    | basic
?basic: "Place"                                                 -> place_type
    | "Trans"                                                   -> trans_type
    | "Chan" "[" type "]"                                       -> chan_type
    | "Key" "[" type "]"                                        -> key_type
    | "Packet" "[" type "]"                                     -> packet_type
    | "Cap" "[" type "]"                                        -> cap_type
    | "<" [type ("," type)*] ">"                                -> tuple_type
    | "(" type ")"
    | NAME                                                      -> type_name

names: NAME ("," NAME)*

NAME: /~[0-9]+|[A-Za-z_][A-Za-z0-9_']*/
ZERO: "0"
%ignore /[ \t\f\r\n]+/
%ignore /#[^\n]*/
"""

_WORDS = {
    "LBRACE": "{", "RBRACE": "}", "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "SEMICOLON": ";", "COLON": ":",
    "EQUAL": "=", "COMMA": ",", "DOT": ".", "VBAR": "|", "BANG": "!", "LESSTHAN": "<", "MORETHAN": ">",
    "__ANON_0": "->", "NAME": "a name", "ZERO": "0", "$END": "the end", "CHAN": "Chan", "PLACE": "Place", "KEY": "Key",
    "TRANS": "Trans", "PACKET": "Packet", "CAP": "Cap",
}  # fmt: skip

_HINT = "a name is made of A-Z, a-z, 0-9, _ and ', and begins with a letter or _"


def parse(text: str, name: str = "") -> Network:
    """A network from its text; ``name`` is the file's, for messages.

    >>> parse("new t: Trans. new p: Place. p[ t{commit} ]")
    New(name='t', type=TransType(), body=New(name='p', type=PlaceType(), body=Place(name='p', log=(),
    body=Running(trans='t', process=Commit()))))
    >>> parse("new t: Trans. p[ t{commit) ]")
    Traceback (most recent call last):
    pellucid.errors.DataError: line 1, column 26: `)` is not expected here: `}` would be
      new t: Trans. p[ t{commit) ]
                               ^
    """
    if not isinstance(text, str):
        raise DataError(f"atomic.parse takes the text of a network, found a {type(text).__name__}")
    try:
        tree = parsed(text, GRAMMAR, "a network", words=_WORDS, name=name, gaps=True, hint=_HINT)
        return _network(tree.children[0])
    except RecursionError:
        raise DataError(f"{name or 'the network'} is nested too deeply to be read") from None


def read(file: str | os.PathLike[str]) -> tuple[Network, str]:
    """The network in a file, and its text."""
    text = text_in(file)
    return parse(text, str(file)), text


def text_in(file: str | os.PathLike[str]) -> str:
    """The text in a file: UTF-8, with a byte order mark or without."""
    try:
        return File(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: byte {error.start} is no UTF-8: a network is a text file") from None


# ---------------------------------------------------------------- trees become data


def _where(tree: Tree[Any]) -> At:
    return getattr(tree.meta, "line", 1), getattr(tree.meta, "column", 1)


def _names(tree: Tree[Any] | None) -> list[Token]:
    return [] if tree is None else [*tree.children]  # type: ignore[list-item]


def _network(t: Tree[Any]) -> Network:
    at, c = _where(t), t.children
    if t.data == "wire":
        parts = [_network(part) for part in c]
        flat = [q for p in parts for q in (p.parts if isinstance(p, Wire) else (p,))]
        return Wire(tuple(flat), at)
    if t.data == "place":
        return Place(str(c[0]), (), _network(c[1]), at)
    if t.data == "logged":
        return Place(str(c[0]), tuple(_network(entry) for entry in c[1:-1]), _network(c[-1]), at)
    if t.data == "running":
        return Running(str(c[0]), _process(c[1]), at)
    if t.data == "new":
        body: Network = _network(c[2])
        kind = _type(c[1])
        for token in reversed(_names(c[0])):
            body = New(str(token), kind, body, (token.line or 1, token.column or 1))
        return body
    return Empty(at)


def _process(t: Tree[Any]) -> Process:
    build = _PROCESS.get(str(t.data))
    if build is not None:
        return build(t.children, _where(t))
    assert t.data == "new_in", t.data
    body, kind = _process(t.children[2]), _type(t.children[1])
    for token in reversed(_names(t.children[0])):
        body = NewIn(str(token), kind, body, (token.line or 1, token.column or 1))
    return body


def _par(c: list[Any], at: At) -> Process:
    parts = [_process(part) for part in c]
    return Par(tuple(q for p in parts for q in (p.parts if isinstance(p, Par) else (p,))), at)


def _payload(t: Tree[Any]) -> Value | Cont:
    return _cont(t) if t.data == "cont" else _value(t)


_PROCESS: dict[str, Callable[[list[Any], At], Process]] = {
    "par": _par,
    "replicate": lambda c, at: Replicate(_process(c[0]), at),
    "let": lambda c, at: Let(tuple(map(str, _names(c[0]))), _value(c[1]), _process(c[2]), at),
    "apply": lambda c, at: Continue(_cont(c[0]), _value(c[1]), at),
    "send": lambda c, at: Send(_value(c[0]), _payload(c[1]), at),
    "receive": lambda c, at: Receive(_value(c[0]), _cont(c[1]), _process(c[2]), at),
    "crypt": lambda c, at: Crypt(_value(c[0]), _value(c[1]), _cont(c[2]), at),
    "decrypt": lambda c, at: Decrypt(_value(c[0]), _value(c[1]), _cont(c[2]), at),
    "forward": lambda c, at: Forward(_value(c[0]), _value(c[1]), _process(c[2]), _process(c[3]), at),
    "open": lambda c, at: Open(_value(c[0]), _value(c[1]), _process(c[2]), _process(c[3]), at),
    "child": lambda c, at: Child(_process(c[0]), at),
    "commit": lambda c, at: Commit(at),
    "abort": lambda c, at: Abort(at),
    "stop": lambda c, at: Stop(at),
}


def _cont(t: Tree[Any]) -> Cont:
    name, kind, body = t.children
    return Cont(str(name), None if kind is None else _type(kind), _process(body), _where(t))


def _value(t: Tree[Any]) -> Value:
    at, c = _where(t), [part for part in t.children if part is not None]
    if t.data == "path":
        return Path(tuple(_value(part) for part in c), at)
    if t.data == "tuple":
        return Tuple(tuple(_value(part) for part in c), at)
    name = Param(str(c[0]), at)
    if t.data == "packet":
        return Packet(name, _value(c[1]), at)
    return In(name, at) if t.data == "in_" else Out(name, at) if t.data == "out" else name


def _type(t: Tree[Any]) -> Type:
    c = [part for part in t.children if part is not None]
    if t.data == "place_type":
        return PlaceType()
    if t.data == "trans_type":
        return TransType()
    if t.data == "type_name":
        return TypeName(str(c[0]))
    if t.data == "rec_type":
        return RecType(str(c[0]), _type(c[1]))
    if t.data == "tuple_type":
        return TupleType(tuple(_type(part) for part in c))
    of = _type(c[0])
    if t.data == "chan_type":
        return ChanType(of)
    if t.data == "key_type":
        return KeyType(of)
    if t.data == "packet_type":
        return PacketType(of)
    return CapType(of) if t.data == "cap_type" else ContType(of)
