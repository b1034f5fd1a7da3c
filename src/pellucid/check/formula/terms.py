"""What an atom of a formula talks about, as data: streams, queues, literals, arithmetic, comparisons.

Terms know nothing of a pipeline: names are looked up by `resolve`.  Each term prints as text that parses back.

>>> print(Compare(">", Ref("out", ("value",)), Literal(3)))
out.value > 3
>>> Literal(1) == Literal(True)
False
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from pellucid.errors import UsageError

NAME = re.compile(r"[^\W\d]\w*(?:[-/]\w+)*")  # a step's id: letters, digits, _, and - or / inside
_RAW = re.compile(r"[\w./-]+")  # what may stand in queue(…) and stream(…) without quotes
FLAGS = ("full", "overflow", "failed")
KINDS = ("stream", "source", "output", "step")  # how a formula says which stream of a name it means: source("out")
RESERVED = frozenset(  # words that are no name, unless in stream(…)
    (
        "X",
        "F",
        "G",
        "U",
        "W",
        "R",
        "Y",
        "O",
        "H",
        "S",
        "EX",
        "EF",
        "EG",
        "AX",
        "AF",
        "AG",
        "A",
        "E",
        "true",
        "false",
        "None",
        *FLAGS,
    )
)
_SHORT = frozenset(("in", "out", "value"))  # names that also stand for a stream of another name
_LEVEL = {"+": 1, "-": 1, "*": 2, "%": 2}


@dataclass(frozen=True)
class Literal:
    """A bool, int, float, str or None; ``1``, ``1.0`` and ``True`` are three literals."""

    value: bool | int | float | str | None
    exact: Decimal | None = (
        None  # what was written, where the nearest float is another number: beside a decimal it counts
    )
    kind: str = field(init=False)

    @classmethod
    def number(cls, text: str) -> Literal:
        """The number that a text spells.

        >>> print(Literal.number("1.50"), Literal.number("90071992547409.93"))
        1.5 90071992547409.93
        """
        if text.isdigit():
            return cls(int(text))
        value, exact = float(text), Decimal(text)
        return cls(value, exact if math.isfinite(value) and exact != Decimal(repr(value)) else None)

    def __post_init__(self) -> None:
        if isinstance(self.value, float) and not math.isfinite(self.value):
            raise UsageError(f"a formula cannot mention {self.value}: give a finite number")
        object.__setattr__(self, "kind", type(self.value).__name__)

    def __str__(self) -> str:
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if self.exact is not None:
            return str(self.exact)
        return json.dumps(self.value, ensure_ascii=False) if isinstance(self.value, str) else repr(self.value)


@dataclass(frozen=True)
class Ref:
    """A stream, or a part of what it carries: no path means "an event is there".

    The path begins with ``value`` (each event), ``first``, ``last`` or ``count``, or with a field of each event.
    ``kind`` says that the name is that of a source, an output or a step; ``exact``, that it is a stream's own name, and
    no short form such as ``in``.

    >>> print(Ref("x", ("value", "price")), Ref("full", exact=True), Ref("out", ("count",), "source"))
    x.value.price stream("full") source("out").count
    """

    name: str
    path: tuple[str, ...] = ()
    kind: str = ""
    exact: bool = field(default=False, compare=False)  # where it makes a difference, the bare name is refused

    def __str__(self) -> str:
        plain = (
            NAME.fullmatch(self.name) is not None
            and self.name not in RESERVED
            and not (self.exact and self.name in _SHORT)
        )
        first = (
            self.name
            if plain and not self.kind
            else f"{self.kind or 'stream'}({json.dumps(self.name, ensure_ascii=False)})"
        )
        return ".".join((first, *self.path))


@dataclass(frozen=True)
class Before:
    """A part of the event before: of the last one that the stream carried in an earlier push.

    >>> print(Compare(">=", Ref("x", ("value",)), Before(Ref("x", ("value",)))))
    x.value >= Y x.value
    """

    ref: Ref

    def __str__(self) -> str:
        return f"Y {self.ref}"


@dataclass(frozen=True)
class Length:
    """How many events wait in a queue after the step."""

    queue: str

    def __str__(self) -> str:
        return f"queue({_quoted(self.queue)}).length"


@dataclass(frozen=True)
class Flag:
    """``full``, ``overflow`` or ``failed``; ``exact`` if it was said that no stream of that name is meant."""

    name: str
    exact: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f'flag("{self.name}")' if self.exact else self.name


@dataclass(frozen=True)
class Calc:
    """``+ - * %`` of two terms, or ``-`` of one."""

    op: str
    args: tuple[Term, ...]

    def __str__(self) -> str:
        if len(self.args) == 1:
            return f"-{_show(self.args[0], 3)}"
        level = _LEVEL[self.op]
        return f"{_show(self.args[0], level)} {self.op} {_show(self.args[1], level + 1)}"


@dataclass(frozen=True)
class Compare:
    """``= != < <= > >=`` of two terms."""

    op: str
    left: Term
    right: Term

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


Term: TypeAlias = Literal | Ref | Before | Length | Flag | Calc


def parts(term: Term | Compare) -> Iterator[Term]:
    """The terms that a term or a comparison is made of, itself first if it is a term.

    >>> [str(t) for t in parts(Compare("=", Calc("+", (Ref("x", ("value",)), Literal(1))), Literal(3)))]
    ['x.value + 1', 'x.value', '1', '3']
    """
    if isinstance(term, Compare):
        yield from parts(term.left)
        yield from parts(term.right)
        return
    yield term
    for arg in term.args if isinstance(term, Calc) else (term.ref,) if isinstance(term, Before) else ():
        yield from parts(arg)


def _show(term: Term, level: int) -> str:
    own = 4 if not isinstance(term, Calc) else 3 if len(term.args) == 1 else _LEVEL[term.op]
    return str(term) if own >= level else f"({term})"


def _quoted(id: str) -> str:
    return id if _RAW.fullmatch(id) else json.dumps(id, ensure_ascii=False)


def negative(term: Term) -> Term:
    """``-term``; a number takes its sign at once.

    >>> print(negative(Literal(3)), negative(Ref("x", ("value",))))
    -3 -x.value
    """
    if isinstance(term, Literal) and term.kind in ("int", "float"):
        return Literal(-term.value, None if term.exact is None else -term.exact)  # type: ignore[operator]
    return Calc("-", (term,))


def literal(value: Any) -> Term:
    """The term for a Python value: a scalar, or an enum member by its name.

    >>> print(literal("a"), literal(True), literal(-2))
    "a" true -2
    """
    if isinstance(value, enum.Enum):
        return Ref(type(value).__name__, (value.name,))
    for cls in (bool, int, float, str):
        if isinstance(value, cls):
            return Literal(cls(value))
    raise UsageError(f"a formula compares with a bool, int, float, str or enum member, found {value!r}")
