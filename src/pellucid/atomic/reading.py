"""The text form of networks (``.atf``), read: a mistake is told with its line, its column and a caret.

``new`` and ``let`` reach as far to the right as they can; ``!`` takes the next process only; a continuation
``(x: T) P`` reaches to the comma or bracket that ends it.  A place with a log is ``p[ entry; entry, N ]``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

from pellucid.atomic import syntax as s
from pellucid.errors import DataError
from pellucid.internal.base.languages import parsed

if TYPE_CHECKING:
    from lark import Token, Tree

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


def parse(text: str, name: str = "") -> s.Network:
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


def read(file: str | os.PathLike[str]) -> tuple[s.Network, str]:
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


def _where(tree: Tree[Any]) -> s.At:
    return getattr(tree.meta, "line", 1), getattr(tree.meta, "column", 1)


def _names(tree: Tree[Any] | None) -> list[Token]:
    return [] if tree is None else [*tree.children]  # type: ignore[list-item]


def _network(t: Tree[Any]) -> s.Network:
    at, c = _where(t), t.children
    if t.data == "wire":
        parts = [_network(part) for part in c]
        flat = [q for p in parts for q in (p.parts if isinstance(p, s.Wire) else (p,))]
        return s.Wire(tuple(flat), at)
    if t.data == "place":
        return s.Place(str(c[0]), (), _network(c[1]), at)
    if t.data == "logged":
        return s.Place(str(c[0]), tuple(_network(entry) for entry in c[1:-1]), _network(c[-1]), at)
    if t.data == "running":
        return s.Running(str(c[0]), _process(c[1]), at)
    if t.data == "new":
        body: s.Network = _network(c[2])
        kind = _type(c[1])
        for token in reversed(_names(c[0])):
            body = s.New(str(token), kind, body, (token.line or 1, token.column or 1))
        return body
    return s.Empty(at)


def _process(t: Tree[Any]) -> s.Process:
    build = _PROCESS.get(str(t.data))
    if build is not None:
        return build(t.children, _where(t))
    assert t.data == "new_in", t.data
    body, kind = _process(t.children[2]), _type(t.children[1])
    for token in reversed(_names(t.children[0])):
        body = s.NewIn(str(token), kind, body, (token.line or 1, token.column or 1))
    return body


def _par(c: list[Any], at: s.At) -> s.Process:
    parts = [_process(part) for part in c]
    return s.Par(tuple(q for p in parts for q in (p.parts if isinstance(p, s.Par) else (p,))), at)


def _payload(t: Tree[Any]) -> s.Value | s.Cont:
    return _cont(t) if t.data == "cont" else _value(t)


_PROCESS: dict[str, Callable[[list[Any], s.At], s.Process]] = {
    "par": _par,
    "replicate": lambda c, at: s.Replicate(_process(c[0]), at),
    "let": lambda c, at: s.Let(tuple(map(str, _names(c[0]))), _value(c[1]), _process(c[2]), at),
    "apply": lambda c, at: s.Continue(_cont(c[0]), _value(c[1]), at),
    "send": lambda c, at: s.Send(_value(c[0]), _payload(c[1]), at),
    "receive": lambda c, at: s.Receive(_value(c[0]), _cont(c[1]), _process(c[2]), at),
    "crypt": lambda c, at: s.Crypt(_value(c[0]), _value(c[1]), _cont(c[2]), at),
    "decrypt": lambda c, at: s.Decrypt(_value(c[0]), _value(c[1]), _cont(c[2]), at),
    "forward": lambda c, at: s.Forward(_value(c[0]), _value(c[1]), _process(c[2]), _process(c[3]), at),
    "open": lambda c, at: s.Open(_value(c[0]), _value(c[1]), _process(c[2]), _process(c[3]), at),
    "child": lambda c, at: s.Child(_process(c[0]), at),
    "commit": lambda c, at: s.Commit(at),
    "abort": lambda c, at: s.Abort(at),
    "stop": lambda c, at: s.Stop(at),
}


def _cont(t: Tree[Any]) -> s.Cont:
    name, kind, body = t.children
    return s.Cont(str(name), None if kind is None else _type(kind), _process(body), _where(t))


def _value(t: Tree[Any]) -> s.Value:
    at, c = _where(t), [part for part in t.children if part is not None]
    if t.data == "path":
        return s.Path(tuple(_value(part) for part in c), at)
    if t.data == "tuple":
        return s.Tuple(tuple(_value(part) for part in c), at)
    name = s.Param(str(c[0]), at)
    if t.data == "packet":
        return s.Packet(name, _value(c[1]), at)
    return s.In(name, at) if t.data == "in_" else s.Out(name, at) if t.data == "out" else name


def _type(t: Tree[Any]) -> s.Type:
    c = [part for part in t.children if part is not None]
    if t.data == "place_type":
        return s.PlaceType()
    if t.data == "trans_type":
        return s.TransType()
    if t.data == "type_name":
        return s.TypeName(str(c[0]))
    if t.data == "rec_type":
        return s.RecType(str(c[0]), _type(c[1]))
    if t.data == "tuple_type":
        return s.TupleType(tuple(_type(part) for part in c))
    of = _type(c[0])
    if t.data == "chan_type":
        return s.ChanType(of)
    if t.data == "key_type":
        return s.KeyType(of)
    if t.data == "packet_type":
        return s.PacketType(of)
    return s.CapType(of) if t.data == "cap_type" else s.ContType(of)
