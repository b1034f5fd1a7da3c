"""Formulas as data, Python's way to write them, and what they mean.

A formula is an operation on formulas; a leaf is ``true``, ``false`` or an **atom**.  The body of an atom is what the
user wrote (a term or a comparison) or, once it is resolved against a system, an expression over its variables.  Terms
know nothing of a pipeline: names are looked up by `resolve`.

The meaning (`evaluate_lasso`, `evaluate_finite`) is written as directly as it can be: the reference for every engine.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from pellucid.errors import UsageError
from pellucid.internal.expr.node import Expr

# ---------------------------------------------------------------- what an atom talks about

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
_ARITHMETIC = {"+": 1, "-": 1, "*": 2, "%": 2}


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
            return f"-{_side(self.args[0], 3)}"
        level = _ARITHMETIC[self.op]
        return f"{_side(self.args[0], level)} {self.op} {_side(self.args[1], level + 1)}"


@dataclass(frozen=True)
class Compare:
    """``= != < <= > >=`` of two terms."""

    op: str
    left: Term
    right: Term

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


Term: TypeAlias = Literal | Ref | Before | Length | Flag | Calc


def parts(term: Term | Compare) -> list[Term]:
    """The terms that a term or a comparison is made of, itself first if it is a term.

    >>> [str(t) for t in parts(Compare("=", Calc("+", (Ref("x", ("value",)), Literal(1))), Literal(3)))]
    ['x.value + 1', 'x.value', '1', '3']
    """
    if isinstance(term, Compare):
        return [*parts(term.left), *parts(term.right)]
    inside = term.args if isinstance(term, Calc) else (term.ref,) if isinstance(term, Before) else ()
    return [term, *(part for arg in inside for part in parts(arg))]


def _side(term: Term, level: int) -> str:
    own = 4 if not isinstance(term, Calc) else 3 if len(term.args) == 1 else _ARITHMETIC[term.op]
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


# ---------------------------------------------------------------- formulas

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

    def walk(self) -> list[Formula]:
        """Every part, once for each place where it stands, the formula itself first."""
        out: list[Formula] = []
        waiting = [self]
        while waiting:
            part = waiting.pop()
            out.append(part)
            waiting += reversed(part.args)
        return out

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


def terms(formula: Formula) -> list[Term]:
    """Every term that the atoms of a formula are made of, also inside ``any(…)``; of resolved atoms none.

    >>> from pellucid.check.formula.parse import parse
    >>> [str(t) for t in terms(parse("G (out -> any(x.value + 1 = 3))"))]
    ['out', 'x.value + 1', 'x.value', '1', '3']
    """
    out: list[Term] = []
    for atom in formula.atoms():
        if isinstance(atom.body, Some):
            out += terms(atom.body.of)
        elif atom.body is not None and not isinstance(atom.body, Expr):
            out += parts(atom.body)
    return out


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
    """What the step of that id emits, where something else is called so, too.

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


def mentions_failed(f: Formula) -> bool:
    """Whether a formula speaks of failures.

    >>> from pellucid.check.formula.parse import parse
    >>> mentions_failed(parse("G (out -> !failed)")), mentions_failed(parse("G out"))
    (True, False)
    """
    return any(isinstance(term, Flag) and term.name == "failed" for term in terms(f))


def always_possible(formula: Formula) -> Formula | None:
    """The condition of one push that can always come about again, if the formula says just that; else None.

    >>> from pellucid.check.formula.parse import parse
    >>> print(always_possible(parse("AG EF (out & !x)")), always_possible(parse("AG EF AX out")))
    out & !x None
    """
    if formula.op != "AG" or formula.args[0].op != "EF":
        return None
    goal = formula.args[0].args[0]
    return goal if not any(part.op in CTL | LTL for part in goal.walk()) else None


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


# ---------------------------------------------------------------- what a formula means
# On a lasso (a run that ends in a loop) and on a finite trace (LTLf): there ``X p`` is *strong*, so false in the last
# step; ``F p`` and ``p U q`` must be met before the end; ``G p``, ``p W q`` and ``p R q`` need to hold up to the end
# only. Past operators mean the same everywhere: ``Y p`` is false in the first step.

Labels = Mapping[Formula, bool] | Collection[Formula]


def _holds(atom: Formula, label: Labels) -> bool:
    return bool(label.get(atom, False)) if isinstance(label, Mapping) else atom in label


def past_depth(formula: Formula) -> int:
    """How many past operators stand inside one another at most.

    >>> from pellucid.check.formula.parse import parse
    >>> past_depth(parse("G (a -> O (b & Y c))"))
    2
    """
    return max((past_depth(arg) for arg in formula.args), default=0) + (formula.op in PAST)


def evaluate_lasso(formula: Formula, trace: Sequence[Labels], loop: int) -> bool:
    """Whether an LTL formula holds on the run whose steps from ``loop`` on repeat for ever.

    Each step is a mapping from atoms to truth (or the set of those that hold).

    >>> from pellucid.check.formula.parse import parse
    >>> p = parse("p")
    >>> evaluate_lasso(parse("G F p"), [{p: False}, {p: True}], loop=0)
    True
    >>> evaluate_lasso(parse("F G p"), [{p: False}, {p: True}], loop=0)
    False
    """
    _check(formula)
    if not 0 <= loop < len(trace):
        raise UsageError(f"the loop must start within the trace's {len(trace)} steps, found {loop}")
    # A past operator sees how often the loop has been gone round, but only up to its depth: unroll that often.
    turns = past_depth(formula)
    steps = [*trace, *[label for _ in range(turns) for label in trace[loop:]]]
    return _linear(formula, steps, len(steps) - (len(trace) - loop), {})[0]


def evaluate_finite(formula: Formula, trace: Sequence[Labels]) -> bool:
    """Whether an LTL formula holds on a trace that ends, in the finite reading described above.

    >>> from pellucid.check.formula.parse import parse
    >>> p = parse("p")
    >>> [evaluate_finite(parse(text), [{p: False}, {p: True}]) for text in ("X p", "X X p", "X !X p", "G p", "G F p")]
    [True, False, True, False, True]
    """
    _check(formula)
    if not trace:
        raise UsageError("an empty trace has no first step to evaluate a formula in: give at least one step")
    return _linear(formula, trace, None, {})[0]


def _linear(f: Formula, steps: Sequence[Labels], loop: int | None, known: dict[Formula, list[bool]]) -> list[bool]:
    """The truth of ``f`` in each step; after the last comes step ``loop``, or nothing."""
    if f in known:
        return known[f]
    n = len(steps)
    parts = [_linear(arg, steps, loop, known) for arg in f.args]
    p = parts[0] if parts else [False] * n
    q = parts[-1] if parts else [False] * n
    op = f.op
    if op == "atom":
        out = [_holds(f, label) for label in steps]
    elif op in ("true", "false"):
        out = [op == "true"] * n
    elif op in ("!", "&", "|", "->", "<->"):
        out = [_boolean(op, a, b) for a, b in zip(p, q, strict=True)]
    elif op == "X":
        out = [p[i + 1] if i + 1 < n else loop is not None and p[loop] for i in range(n)]
    elif op in PAST:
        # Y p: the step before; O p = true S p; H p = not (true S not p).
        out = []
        for i in range(n):
            before = i > 0 and out[i - 1]
            out.append(
                {
                    "Y": i > 0 and p[i - 1],
                    "O": p[i] or before,
                    "H": p[i] and (i == 0 or before),
                    "S": q[i] or (p[i] and before),
                }[op]
            )
    else:
        # now = good or (stay and next), from below for F and U, from above for the rest.
        strong = op in ("F", "U")
        out = [not strong] * n
        for _ in range(2 if loop is not None else 1):  # twice round a loop is enough
            for i in reversed(range(n)):
                after = out[i + 1] if i + 1 < n else out[loop] if loop is not None else not strong
                out[i] = {
                    "F": p[i] or after,
                    "G": p[i] and after,
                    "U": q[i] or (p[i] and after),
                    "W": q[i] or (p[i] and after),
                    "R": q[i] and (p[i] or after),
                }[op]
    known[f] = out
    return out


def _boolean(op: str, a: bool, b: bool) -> bool:
    return {"!": not a, "&": a and b, "|": a or b, "->": not a or b, "<->": a == b}[op]


def _check(formula: Formula) -> None:
    for part in formula.walk():
        if part.op in CTL:
            raise UsageError(f"an LTL formula was expected, found {part.op} in {formula}")
