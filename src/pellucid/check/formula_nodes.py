"""Formulas as data, and Python's way to write them.

A formula is an operation on formulas; a leaf is ``true``, ``false`` or an **atom**.  The body of an atom is what the
user wrote (a term or a comparison) or, once it is resolved against a system, an expression over its variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pellucid.check.formula_terms import Calc, Compare, Flag, Length, Literal, Ref, Term, literal, negative
from pellucid.errors import UsageError
from pellucid.expr.node import Expr

__all__ = [
    "AF", "AG", "AU", "AX", "CTL", "EF", "EG", "EU", "EX", "FALSE", "LTL", "PAST", "TRUE", "And", "Atom", "F",
    "Formula", "G", "H", "Iff", "Implies", "Not", "O", "Operator", "Or", "QueueName", "R", "S", "StreamName", "U",
    "Value", "W", "X", "Y", "as_formula", "failed", "full", "is_invariant", "kind", "overflow", "queue", "stream",
]  # fmt: skip

CTL = frozenset(("EX", "EF", "EG", "EU", "AX", "AF", "AG", "AU"))
PAST = frozenset(("Y", "O", "H", "S"))
LTL = frozenset(("X", "F", "G", "U", "W", "R")) | PAST
_LEVEL = {"<->": 1, "->": 2, "|": 3, "&": 4, "U": 5, "W": 5, "R": 5, "S": 5}  # others: 6, prefix operators
_RIGHT = frozenset(("->", "U", "W", "R", "S"))

Body: TypeAlias = Term | Compare | Expr


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
    body: Body | None = None  # of an atom
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


TRUE, FALSE = Formula("true"), Formula("false")


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
            return f"!({inner})" if isinstance(arg.body, Compare) or " " in arg.text else f"!{inner}"
        return f"{f.op} {inner}"
    right = f.op in _RIGHT
    out = f"{_show(f.args[0], own + right)} {f.op} {_show(f.args[1], own + (not right))}"
    return out if own >= level else f"({out})"


# ---------------------------------------------------------------- what can stand for a formula


class StreamName(_Logic):
    """A stream by its name: ``.present`` is a formula, ``.value`` its event; alone it means ``.present``."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def present(self) -> Formula:
        """An event is there."""
        return Formula("atom", body=Ref(self._name))

    @property
    def value(self) -> Value:
        """The event (the last one, where the stream carries several in a step)."""
        return Value(Ref(self._name, ("value",)))


class QueueName:
    """A queue by its id: ``.length`` is how many events wait in it."""

    def __init__(self, id: str) -> None:
        self._id = id

    @property
    def length(self) -> Value:
        """How many events wait in the queue after the step."""
        return Value(Length(self._id))


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
        return Value(Ref(self._term.name, (*self._term.path, field)))

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

    def __add__(self, other: Any) -> Value:
        return _calc("+", self, other)

    def __radd__(self, other: Any) -> Value:
        return _calc("+", other, self)

    def __sub__(self, other: Any) -> Value:
        return _calc("-", self, other)

    def __rsub__(self, other: Any) -> Value:
        return _calc("-", other, self)

    def __mul__(self, other: Any) -> Value:
        return _calc("*", self, other)

    def __rmul__(self, other: Any) -> Value:
        return _calc("*", other, self)

    def __mod__(self, other: Any) -> Value:
        return _calc("%", self, other)

    def __rmod__(self, other: Any) -> Value:
        return _calc("%", other, self)

    def __neg__(self) -> Value:
        return Value(negative(self._term))


def _term(value: Any) -> Term:
    if isinstance(value, StreamName):
        return Ref(value._name)
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


full = Atom(Flag("full"))
overflow = Atom(Flag("overflow"))
failed = Atom(Flag("failed"))


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
        from pellucid.check.parse import parse

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

    >>> from pellucid.check.parse import parse
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

    >>> from pellucid.check.parse import parse
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
