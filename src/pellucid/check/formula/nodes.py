"""Formulas as data, and Python's way to write them.

A formula is an operation on formulas; a leaf is ``true``, ``false`` or an **atom**.  The body of an atom is what the
user wrote (a term or a comparison) or, once it is resolved against a system, an expression over its variables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pellucid.check.formula.terms import (
    FLAGS,
    Calc,
    Compare,
    Flag,
    Length,
    Literal,
    Ref,
    Term,
    literal,
    negative,
    parts,
)
from pellucid.errors import UsageError
from pellucid.internal.expr.node import Expr

CTL = frozenset(("EX", "EF", "EG", "EU", "AX", "AF", "AG", "AU"))
PAST = frozenset(("Y", "O", "H", "S"))
LTL = frozenset(("X", "F", "G", "U", "W", "R")) | PAST
_LEVEL = {"<->": 1, "->": 2, "|": 3, "&": 4, "U": 5, "W": 5, "R": 5, "S": 5}  # others: 6, prefix operators
_RIGHT = frozenset(("->", "U", "W", "R", "S"))


class _Logic:
    """The operators ``& | ~ >>`` for whatever can stand for a formula."""

    def __and__(self, other: Any) -> Formula:
        return And(self, other)

    def __rand__(self, other: Any) -> Formula:
        return And(other, self)

    def __or__(self, other: Any) -> Formula:
        return Or(self, other)

    def __ror__(self, other: Any) -> Formula:
        return Or(other, self)

    def __rshift__(self, other: Any) -> Formula:
        return Implies(self, other)

    def __rrshift__(self, other: Any) -> Formula:
        return Implies(other, self)

    def __invert__(self) -> Formula:
        return Not(self)

    def __bool__(self) -> bool:
        raise UsageError(
            "a formula has no truth value of its own: combine formulas by & | ~ >> instead of and, or, not, "
            "and do not chain comparisons"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Formula(_Logic):
    """A formula of CTL or LTL; equal formulas compare equal and hash equal.

    ``op`` is one of ``true false atom ! & | -> <->``, of LTL's ``X F G U W R`` and past ``Y O H S``, or of CTL's
    ``EX EF EG EU AX AF AG AU``.

    >>> out = stream("out")
    >>> print(G(out.present >> F(out.value > 3)))
    G (out -> F out.value > 3)
    """

    op: str
    args: tuple[Formula, ...] = ()
    body: Term | Compare | Expr | Some | None = None  # of an atom
    text: str = ""  # what the user wrote, for an atom that has been resolved
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.op, self.args, self.body)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Formula)
            and self._hash == other._hash
            and (self.op, self.args, self.body) == (other.op, other.args, other.body)
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:  # hashes differ between processes
        return Formula, (self.op, self.args, self.body, self.text)

    def __str__(self) -> str:
        return _show(self, 0)

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def walk(self) -> Iterator[Formula]:
        """Every part, once for each place where it stands, the formula itself first."""
        yield self
        for arg in self.args:
            yield from arg.walk()

    def atoms(self) -> list[Formula]:
        """The atoms, each once, in order.

        >>> a = stream("a").present
        >>> [str(atom) for atom in G(a >> X(a)).atoms()]
        ['a']
        """
        return list(dict.fromkeys(part for part in self.walk() if part.op == "atom"))


@dataclass(frozen=True)
class Some:
    """``any(…)``: it is so for some choice of an event for each stream whose value is mentioned.

    >>> from pellucid.check.formula.parse import parse
    >>> print(parse("G any(out.value > 3 & out.value < 9)"))
    G any(out.value > 3 & out.value < 9)
    """

    of: Formula

    def __str__(self) -> str:
        return f"any({self.of})"


Body: TypeAlias = Term | Compare | Expr | Some
TRUE, FALSE = Formula("true"), Formula("false")


def terms(formula: Formula) -> Iterator[Term]:
    """Every term that the atoms of a formula are made of, also inside ``any(…)``; of resolved atoms none.

    >>> from pellucid.check.formula.parse import parse
    >>> [str(t) for t in terms(parse("G (out -> any(x.value + 1 = 3))"))]
    ['out', 'x.value + 1', 'x.value', '1', '3']
    """
    for atom in formula.atoms():
        if isinstance(atom.body, Some):
            yield from terms(atom.body.of)
        elif atom.body is not None and not isinstance(atom.body, Expr):
            yield from parts(atom.body)


def _show(f: Formula, level: int) -> str:
    if f.op == "atom":
        return f.text or str(f.body)
    if not f.args:
        return f.op
    if f.op in ("AU", "EU"):
        return f"{f.op[0]} [{_show(f.args[0], 6)} U {_show(f.args[1], 6)}]"
    own = _LEVEL.get(f.op, 6)
    if own == 6:
        (arg,) = f.args
        inner = _show(arg, 6)
        if f.op == "!":  # `!x = 3` parses, but reads as something else
            if isinstance(arg.body, Compare) or (" " in arg.text and not arg.text.startswith("any(")):
                return f"!({inner})"
            return f"!{inner}"
        return f"{f.op} {inner}"
    right = f.op in _RIGHT
    out = f"{_show(f.args[0], own + right)} {f.op} {_show(f.args[1], own + (not right))}"
    return out if own >= level else f"({out})"


# ---------------------------------------------------------------- what can stand for a formula


class StreamName(_Logic):
    """A stream by its name: ``.present`` is a formula, ``.value`` each of its events; alone it means ``.present``.

    >>> out = stream("out")
    >>> print((out.first > 3) & (out.last.price > 3) & (out.count == 2))
    out.first > 3 & out.last.price > 3 & out.count = 2
    """

    def __init__(self, name: str, kind: str = "") -> None:
        if not isinstance(name, str):
            raise UsageError(f"a stream goes by its name, a text; found {name!r}")
        self._ref = Ref(name, (), kind)

    def _part(self, word: str) -> Value:
        return Value(dataclasses.replace(self._ref, path=(word,)))

    @property
    def present(self) -> Formula:
        """An event is there."""
        return Formula("atom", body=self._ref)

    @property
    def value(self) -> Value:
        """The event; where the stream carries several in a push, each of them."""
        return self._part("value")

    @property
    def first(self) -> Value:
        """The first event of the push."""
        return self._part("first")

    @property
    def last(self) -> Value:
        """The last event of the push."""
        return self._part("last")

    @property
    def count(self) -> Value:
        """How many events the stream carries in the push; 0 in silence."""
        return self._part("count")


class QueueName:
    """A queue by its id: ``.length`` is how many events wait in it."""

    def __init__(self, id: str) -> None:
        self._id = id

    @property
    def length(self) -> Value:
        """How many events wait in the queue after the step."""
        return Value(Length(self._id))


def _operator(op: str) -> tuple[Callable[[Value, Any], Value], Callable[[Value, Any], Value]]:
    """An operator, and the same with the value on its right."""
    return lambda self, other: _calc(op, self, other), lambda self, other: _calc(op, other, self)


class Value(_Logic):
    """A value in a formula: compare it, calculate with it, or take a field of a record.

    >>> trade = stream("trade")
    >>> print((trade.value.price * 2 >= 10) & (trade.value.side != "buy"))
    trade.value.price * 2 >= 10 & trade.value.side != "buy"
    """

    __slots__ = ("_term",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, term: Term) -> None:
        self._term = term

    def __getattr__(self, field: str) -> Value:
        if field.startswith("__") or not isinstance(self._term, Ref):
            raise AttributeError(field)
        return Value(dataclasses.replace(self._term, path=(*self._term.path, field)))

    def __repr__(self) -> str:
        return str(self._term)

    def __eq__(self, other: Any) -> Formula:  # type: ignore[override]
        return _compare("=", self, other)

    def __ne__(self, other: Any) -> Formula:  # type: ignore[override]
        return _compare("!=", self, other)

    def __lt__(self, other: Any) -> Formula:
        return _compare("<", self, other)

    def __le__(self, other: Any) -> Formula:
        return _compare("<=", self, other)

    def __gt__(self, other: Any) -> Formula:
        return _compare(">", self, other)

    def __ge__(self, other: Any) -> Formula:
        return _compare(">=", self, other)

    __add__, __radd__ = _operator("+")
    __sub__, __rsub__ = _operator("-")
    __mul__, __rmul__ = _operator("*")
    __mod__, __rmod__ = _operator("%")

    def __neg__(self) -> Value:
        return Value(negative(self._term))


def _term(value: Any) -> Term:
    if isinstance(value, StreamName):
        return value._ref
    return value._term if isinstance(value, Value) else literal(value)


def _compare(op: str, left: Any, right: Any) -> Formula:
    return Formula("atom", body=Compare(op, _term(left), _term(right)))


def _calc(op: str, left: Any, right: Any) -> Value:
    return Value(Calc(op, (_term(left), _term(right))))


def stream(name: str) -> StreamName:
    """A stream by its name, for formulas in Python.

    >>> print(stream("out").value == stream("x").value + 1)
    out.value = x.value + 1
    """
    return StreamName(name)


def source(name: str) -> StreamName:
    """The source of that name, where a step or an output is called so, too.

    >>> print(source("out").value > 3)
    source("out").value > 3
    """
    return StreamName(name, "source")


def output(name: str) -> StreamName:
    """The output of that name, where a source or a step is called so, too.

    >>> print(output("x").present)
    output("x")
    """
    return StreamName(name, "output")


def step(name: str) -> StreamName:
    """What the step of that id puts out, where something else is called so, too.

    >>> print(step("in").count == 2)
    step("in").count = 2
    """
    return StreamName(name, "step")


def flag(name: str) -> Formula:
    """``full``, ``overflow`` or ``failed``, where a stream is called so, too.

    >>> print(flag("full"))
    flag("full")
    """
    if name not in FLAGS:
        raise UsageError(f"flag(…) takes {', '.join(map(repr, FLAGS))}, found {name!r}")
    return Atom(Flag(name, exact=True))


def any_(formula: Any) -> Formula:
    """It is so for at least one event of each stream that is mentioned: ``any(…)`` in formulas as text.

    >>> print(G(any_(stream("out").value > 3)))
    G any(out.value > 3)
    """
    of = as_formula(formula)
    for part in of.walk():
        if part.op in CTL | LTL or isinstance(part.body, Some):
            what = "any(…)" if isinstance(part.body, Some) else part.op
            raise UsageError(f"any({of}): any(…) is about the events of one push, so there is no {what} in it")
    return Atom(Some(of))


def queue(id: str) -> QueueName:
    """A queue by its id, for formulas in Python.

    >>> print(queue("apply-3f.0").length <= 2)
    queue(apply-3f.0).length <= 2
    """
    return QueueName(id)


def Atom(body: Body, text: str = "") -> Formula:  # noqa: N802 - it stands among the constructors And, Or, Not
    """A leaf: a term, a comparison or, in a resolved formula, an expression of type bool with the user's text.

    >>> print(Atom(Ref("out")))
    out
    """
    return Formula("atom", body=body, text=text)


full, overflow, failed = (Atom(Flag(name)) for name in FLAGS)


def as_formula(value: Any) -> Formula:
    """The formula that a value stands for: a formula, a stream, a Boolean value, a bool or a text to parse.

    >>> print(as_formula(stream("out")), as_formula("AG EF out"), as_formula(True))
    out AG EF out true
    """
    if isinstance(value, Formula):
        return value
    if isinstance(value, StreamName):
        return value.present
    if isinstance(value, str):
        from pellucid.check.formula.parse import parse

        return parse(value)
    term = _term(value)
    if isinstance(term, Literal) and term.kind == "bool":
        return TRUE if term.value else FALSE
    if isinstance(term, (Ref, Flag)):
        return Atom(term)
    raise UsageError(f"{term} is not a condition: compare it with something")


# ---------------------------------------------------------------- constructors


@dataclass(frozen=True)
class Operator:
    """Makes formulas of one kind; ``&`` and ``|`` take any number of arguments.

    >>> print(G(Implies("in", Or("out", X("out")))))
    G (in -> out | X out)
    """

    op: str
    arity: int | None = 1

    def __call__(self, *args: Any) -> Formula:
        parts = [as_formula(arg) for arg in args]
        if self.arity is not None and len(parts) != self.arity:
            raise UsageError(f"{self.op} takes {self.arity} formula{'s' * (self.arity > 1)}, found {len(parts)}")
        if self.arity is not None:
            return Formula(self.op, tuple(parts))
        if not parts:
            return TRUE if self.op == "&" else FALSE
        out = parts[0]
        for part in parts[1:]:
            out = Formula(self.op, (out, part))
        return out


Not, And, Or = Operator("!"), Operator("&", None), Operator("|", None)
Implies, Iff = Operator("->", 2), Operator("<->", 2)
X, F, G, U, W, R = Operator("X"), Operator("F"), Operator("G"), Operator("U", 2), Operator("W", 2), Operator("R", 2)
Y, O, H, S = Operator("Y"), Operator("O"), Operator("H"), Operator("S", 2)  # noqa: E741
EX, EF, EG, EU = Operator("EX"), Operator("EF"), Operator("EG"), Operator("EU", 2)
AX, AF, AG, AU = Operator("AX"), Operator("AF"), Operator("AG"), Operator("AU", 2)


# ---------------------------------------------------------------- questions about a formula


def kind(formula: Formula) -> str:
    """``'state'`` (no temporal operator), ``'ctl'`` or ``'ltl'``; a mixture is an error.

    >>> from pellucid.check.formula.parse import parse
    >>> kind(parse("AG EF out")), kind(parse("G F out")), kind(parse("out & !full"))
    ('ctl', 'ltl', 'state')
    """
    ops = [part.op for part in formula.walk()]
    branching = next((op for op in ops if op in CTL), None)
    linear = next((op for op in ops if op in LTL), None)
    if branching and linear:
        raise UsageError(
            f"{formula} mixes {branching} of CTL with {linear} of LTL: "
            "write all of it in CTL (AG, EF, AX, A [p U q] …) or all of it in LTL (G, F, X, p U q …)"
        )
    return "ctl" if branching else "ltl" if linear else "state"


def is_invariant(formula: Formula) -> Formula | None:
    """The state formula that must hold in every step, if the formula says just that; else None.

    >>> from pellucid.check.formula.parse import parse
    >>> print(is_invariant(parse("AG (out -> in)")), is_invariant(parse("!EF full")), is_invariant(parse("AG EF out")))
    out -> in !full None
    """
    if formula.op == "&":
        left, right = map(is_invariant, formula.args)
        return And(left, right) if left is not None and right is not None else None
    if formula.op in ("G", "AG"):
        body = formula.args[0]
    elif formula.op == "!" and formula.args[0].op in ("F", "EF"):
        inner = formula.args[0].args[0]
        body = inner.args[0] if inner.op == "!" else Not(inner)
    else:
        return None
    return body if not any(part.op in CTL | LTL for part in body.walk()) else None
