"""The syntax of the calculus as immutable data: types, values, processes, networks (sections 2, 3, 6, and 7's child).

Where a piece stood in the text (``at``: line and column) is carried along and does not count when pieces are compared.
A capability is flat: ``in p.out q.in c`` is one `Path` of its parts, so that composition is associative by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

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
