"""From atoms to expressions: a formula about a system, with an expression in place of each atom.

Which stream a name means is found by `pellucid.check.formula.resolve`.

Choices:

* What speaks of **values** speaks of every event of the push: ``out.value > 3`` holds where the stream carries an event
  and each of its events is above 3; of several streams each event with each of the others; ``any(…)`` holds where it is
  so for one choice of an event for each stream. So ``out.value != 3`` means "out carries events, and none is 3", while
  ``!(out.value = 3)`` holds in silence, too.
* ``out.first``, ``out.last`` are single events; ``out.count`` is their number, 0 in silence.
* Modulo N (``ints=Mod(N)``), sums, differences and products of integer values are reduced as in the pipeline; numbers
  that the formula itself mentions, counts and the lengths of queues are not.
* An atom whose calculation fails (``% 0``) does not hold.  It calculates with exact integers.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any, NoReturn

from pellucid.check.formula.nodes import (
    FALSE,
    TRUE,
    Atom,
    Before,
    Calc,
    Compare,
    Flag,
    Formula,
    Length,
    Literal,
    Ref,
    Some,
    Term,
    parts,
)
from pellucid.check.system.build import HIDDEN, System
from pellucid.check.system.variables import Slot
from pellucid.errors import UsageError
from pellucid.internal.data.cells import number_of
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import convert
from pellucid.internal.expr.types import (
    BOOL,
    DATE,
    DATETIME,
    FLOAT,
    INSTANT,
    INT,
    NOTHING,
    STR,
    TIMEDELTA,
    DecimalType,
    EnumType,
    OptionalType,
    RecordType,
    TimeType,
    TupleType,
    Type,
    join,
    list_in,
    simplest,
    type_of_value,
)
from pellucid.internal.expr.types.rich import DAY, comparable

# Which stream a name in a formula means.
#
# A source goes by its parameter's name, the single source also as ``in``; an output by its name, a single one also as
# ``out``; any step by its id. ``x.value.price`` and ``x.price`` are the same; ``value`` alone is ``out.value``, and
# ``a.value`` is ``a.out.value`` where a system has the streams of two pipelines ``a`` and ``b``.
#
# A name that could mean two things is refused, with the ways to say which: ``stream("full")``, ``source("out")``,
# ``output("out")``, ``step("in")``, ``flag("full")``.

Found = tuple[str, tuple[str, ...]]  # a stream by its key in the system, and what of it


class Names:
    """The names of a system's streams.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> s = build_system(pipeline(lambda x: x.map(abs, id="size").trim(1, id="rest"), x=int).graph, domain_of(None))
    >>> names = Names(s)
    >>> names.find(Ref("in", ("value",))), names.find(Ref("size")), names.identity("out")
    (('x', ('value',)), ('size', ()), 'rest')
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.sources = [name for name, _ in system.own_sources]
        self._found: dict[tuple[str, str, bool, tuple[str, ...]], Found | None] = {}

    def identity(self, key: str) -> str:
        """The same for all names of one stream: the id of the source or step that it is."""
        return self.system.outputs.get(key, key.removeprefix(HIDDEN))

    def find(self, ref: Ref, missing: bool = False) -> Found | None:
        """The stream that a reference means, and the rest of its path.  One that means none is refused; with
        ``missing`` it is None."""
        asked = ref.name, ref.kind, ref.exact, ref.path
        if asked not in self._found:
            self._found[asked] = self._find(ref)
        found = self._found[asked]
        if found is None and not missing:
            self._refuse(ref)
        return found

    def _find(self, ref: Ref) -> Found | None:
        found = {(self.identity(key), rest): (key, rest) for key, rest in self._candidates(ref)}
        if len(found) > 1:
            self._ambiguous(str(ref), [self._way(key, rest) for key, rest in found.values()])
        return next(iter(found.values()), None)

    def _candidates(self, ref: Ref) -> list[Found]:
        """Every stream that a reference could mean."""
        streams, outputs = self.system.streams, self.system.outputs
        if ref.kind:
            keys = {
                "source": [self.system.node(ref.name)] if ref.name in self.sources else [],
                "output": [ref.name] if ref.name in outputs else [],
                "step": [self.system.node(ref.name)] if self._is_step(ref.name) else [],
            }[ref.kind]
            return [(key, ref.path) for key in keys]
        words = (ref.name, *ref.path)
        out: list[Found] = []
        for k in range(1 if ref.exact else len(words), 0, -1):
            name = ".".join(words[:k])
            own = [key for key in (name, f"{HIDDEN}{name}") if key in streams]
            if not (own and ref.exact):  # the short forms
                if name == "in" and len(self.sources) == 1:
                    own.append(self.system.node(self.sources[0]))
                if name == "out" and len(outputs) == 1 and "out" not in outputs:
                    own += outputs
            out += [(key, words[k:]) for key in own]
        if "value" in words and not ref.exact:
            k = words.index("value")
            name = ".".join((*words[:k], "out"))
            if name in streams and (k == 0 or not out):
                out.append((name, words[k:]))
        return out

    def _is_step(self, id: str) -> bool:
        return id not in self.sources and self.system.node(id) in self.system.streams

    def shown(self, key: str) -> str:
        """A stream for people."""
        return key.removeprefix(HIDDEN)

    def _way(self, key: str, rest: tuple[str, ...]) -> str:
        """How to say that this stream is meant."""
        id = self.identity(key)
        kind = "source" if id in self.sources else "output" if key in self.system.outputs else "step"
        name = key if kind == "output" else id
        return ".".join((f"{kind}({json.dumps(name, ensure_ascii=False)})", *rest))

    def refuse_ambiguous(self, flag: Flag) -> None:
        """A flag where a stream has its name, unless it was said that the flag is meant."""
        keys = [key for key in (flag.name, f"{HIDDEN}{flag.name}") if key in self.system.streams]
        if keys and not flag.exact:
            self._ambiguous(flag.name, [*(self._way(key, ()) for key in keys), f'flag("{flag.name}")'])

    def _ambiguous(self, text: str, ways: list[str]) -> NoReturn:
        raise UsageError(
            f"{text} could mean several things in {self.system.name}: write {' or '.join(dict.fromkeys(ways))}"
        )

    def _refuse(self, ref: Ref) -> NoReturn:
        if not ref.kind:
            self.unknown("stream", ".".join((ref.name, *ref.path)), self.system.streams)
        known = {
            "source": self.sources,
            "output": list(self.system.outputs),
            "step": [
                key.removeprefix(HIDDEN) for key in self.system.streams if self._is_step(key.removeprefix(HIDDEN))
            ],
        }[ref.kind]
        self.unknown(ref.kind, ref.name, known)

    def unknown(self, what: str, name: str, known: Iterable[str]) -> NoReturn:
        """There is nothing of that name."""
        names = list(dict.fromkeys(key.removeprefix(HIDDEN) for key in known if not key.startswith("Y ")))
        pool, also, near = names, "", []
        if what == "stream":
            pool = [*names, "in"] if len(self.sources) == 1 else names
            also = f", and 'in' for {self.sources[0]}" if len(self.sources) == 1 else ""
            if name.split(".")[0] == "in":
                raise UsageError(
                    f"{self.system.name} has {len(self.sources)} sources, so 'in' is none of them: write "
                    f"{' or '.join(self.sources)}"
                )
            # `outt.value` is like `out`: what comes before the first dot counts as well
            near = difflib.get_close_matches(name.split(".")[0], pool, 1)
        near = difflib.get_close_matches(name, pool, 1) or near
        hint = f": did you mean {near[0]!r}? It has" if near else ": it has"
        raise UsageError(f"{self.system.name} has no {what} {name!r}{hint} {', '.join(names) or 'none'}{also}")


# Terms of a formula with their types, and what is done with times, decimals and values that may be missing.
#
# Equality is Python's: what is missing equals ``None`` and nothing else. An order, or a calculation, is of values:
# where one is missing, the comparison does not hold. A text beside a time is the time that it spells (ISO 8601), a
# number beside a decimal is that decimal.


@dataclass(frozen=True)
class Typed:
    """A term with its type: the leaves of its value, and what must be so for it to have one (first: events)."""

    term: Any  # as it was written, for messages
    type: Type
    leaves: tuple[Expr, ...]
    needs: Mapping[str, Expr] = field(default_factory=dict)
    event: bool = False  # made of events, so that Mod(N) applies
    presence: bool = False

    @property
    def text(self) -> str:
        return str(self.term)


def opened(term: Typed) -> Typed:
    """The value of an optional term, which must be there."""
    if not isinstance(term.type, OptionalType):
        return term
    needs = {**term.needs, f"{term.text} != None": term.leaves[0]}
    return dataclasses.replace(term, type=term.type.inner, leaves=term.leaves[1:], needs=needs)


def alike(left: Typed, right: Typed, op: str) -> tuple[Typed, Typed]:
    """Two sides of a comparison as values of one type, where there is one that holds both."""
    if op not in ("=", "!="):
        left, right = opened(left), opened(right)
    left, right = _read(left, right.type), _read(right, left.type)
    rich = (OptionalType, TimeType, DecimalType)
    if left.type == right.type or not (isinstance(left.type, rich) or isinstance(right.type, rich)):
        return left, right
    common = join(left.type, right.type)
    if common is None:
        return left, right
    return _as(left, common), _as(right, common)


def _as(term: Typed, t: Type) -> Typed:
    leaves = convert(term.leaves, term.type, t)
    return term if leaves is None else dataclasses.replace(term, type=t, leaves=tuple(leaves))


def _read(term: Typed, beside: Type) -> Typed:
    """A constant as what stands beside it would have it."""
    inner = beside.inner if isinstance(beside, OptionalType) else beside
    if len(term.leaves) != 1 or term.leaves[0].op != "const":
        return term
    value = term.leaves[0].value
    if isinstance(inner, TimeType) and term.type == STR:
        try:
            return dataclasses.replace(term, type=inner, leaves=(n.const(number_of(inner, value)),))
        except ValueError as error:
            raise UsageError(f"{term.text} beside {inner}: {error}") from None
    if isinstance(inner, DecimalType) and term.type == FLOAT:
        try:
            exact = Decimal(term.text)  # as it is written: a float is another number beyond 15 digits
        except InvalidOperation:
            exact = Decimal(repr(value))
        t = type_of_value(exact)
        if isinstance(t, DecimalType) and t.problem(exact) is None:
            return dataclasses.replace(term, type=t, leaves=(n.const(t.flatten(exact)[0]),))
    return term


def calculated(term: Calc, args: Sequence[Typed]) -> Typed | None:
    """A sum, a difference or a product in which there are times or decimals; None where there are none."""
    if len(args) == 2:
        args = [_read(args[0], _span_of(args[1].type)), _read(args[1], _span_of(args[0].type))]
    kinds = [arg.type for arg in args]
    if not any(isinstance(kind, (TimeType, DecimalType)) for kind in kinds):
        return None
    found = _decimals(term.op, args) if any(isinstance(k, DecimalType) for k in kinds) else _times(term.op, args)
    if found is None:
        shown = " and ".join(f"{arg.text} is {arg.type}" for arg in args)
        raise UsageError(f"in {term}: {shown}: {term.op} has no meaning there")
    t, e = found
    needs: dict[str, Any] = {name: needed for arg in args for name, needed in arg.needs.items()}
    return Typed(term, t, (e,), needs, any(arg.event for arg in args))


def _span_of(t: Type) -> Type:
    """What a text beside a time means in a sum: a span of time."""
    return TIMEDELTA if isinstance(t, TimeType) else t


def _times(op: str, args: Sequence[Typed]) -> tuple[Type, Expr] | None:
    kinds, leaves = [arg.type for arg in args], [arg.leaves[0] for arg in args]
    if len(args) == 1:
        return (TIMEDELTA, n.neg(leaves[0])) if kinds == [TIMEDELTA] else None
    if op == "*" and sorted(map(str, kinds)) == ["int", "timedelta"]:
        return TIMEDELTA, n.mul(*leaves)
    if op not in ("+", "-"):
        return None
    made = n.add if op == "+" else n.sub
    if kinds == [TIMEDELTA, TIMEDELTA] or (kinds[0] in (DATETIME, INSTANT) and kinds[1] == TIMEDELTA):
        return kinds[0], made(*leaves)
    if op == "-" and kinds[0] == kinds[1]:
        apart = n.sub(*leaves)
        return TIMEDELTA, n.mul(apart, n.const(DAY)) if kinds[0] == DATE else apart
    return None


def _decimals(op: str, args: Sequence[Typed]) -> tuple[Type, Expr] | None:
    if any(arg.type != INT and not isinstance(arg.type, DecimalType) for arg in args):
        return None
    if len(args) == 1:
        return args[0].type, n.neg(args[0].leaves[0])
    places = [arg.type.places if isinstance(arg.type, DecimalType) else 0 for arg in args]
    if op == "*":
        return DecimalType(sum(places)), n.mul(args[0].leaves[0], args[1].leaves[0])
    common = DecimalType(max(places))
    a, b = (_as(arg, common).leaves[0] for arg in args)
    return (common, n.add(a, b) if op == "+" else n.sub(a, b)) if op in ("+", "-") else None


NONE = Typed("None", NOTHING, ())


_MOST = 4096  # choices of events that an atom is written out for


def resolve(formula: Formula, system: System) -> Formula:
    """The formula with each atom as an expression (of type bool) over the system's variables.

    >>> from pellucid import Stream, pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.formula.parse import parse
    >>> from pellucid.check.system.build import build_system
    >>> @pipeline
    ... def odd(x: Stream[int]) -> Stream[int]:
    ...     return x.filter(lambda v: v % 2 == 1)
    >>> system = build_system(odd.graph, domain_of(range(4)))
    >>> [atom.body.type for atom in resolve(parse("G (out -> in.value > 0)"), system).atoms()]
    [bool, bool]
    >>> resolve(parse("G outt"), system)
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: odd has no stream 'outt': did you mean 'out'? It has x, filter-..., out, and 'in' for x
    """
    return _resolve(formula, _Atoms(system, Names(system)))


def conditions(formula: Formula, system: System) -> list[tuple[Formula, Expr]]:
    """Each atom of a formula with its expression."""
    atoms = _Atoms(system, Names(system))
    return [(atom, atoms.condition(atom.body)) for atom in formula.atoms() if atom.body is not None]


def _resolve(f: Formula, names: _Atoms) -> Formula:
    if f.op != "atom":
        return Formula(f.op, tuple(_resolve(arg, names) for arg in f.args)) if f.args else f
    if isinstance(f.body, Expr):
        return f
    assert f.body is not None
    e = names.condition(f.body)
    if e.op == "const":
        return TRUE if e.value else FALSE
    return Atom(e, str(f))


@dataclass(frozen=True)
class _Atoms:
    system: System
    names: Names
    chosen: Mapping[str, Slot] = field(default_factory=dict)  # of each stream whose values are mentioned one event

    # -- atoms

    def condition(self, body: Term | Compare | Expr | Some) -> Expr:
        """What must be so in a push for the atom to hold of it."""
        if isinstance(body, Some):
            of = body.of
            bodies = [atom.body for atom in of.atoms()]
            streams = self.mentioned(
                part for b in bodies if b is not None and not isinstance(b, (Expr, Some)) for part in parts(b)
            )
            found = n.any_of(n.and_(there, choice.all_of(of)) for there, choice in self.choices(streams, body))
            return found
        assert not isinstance(body, Expr)
        streams = self.mentioned(parts(body))
        some, every = n.TRUE, n.TRUE
        for name in streams:
            some = n.and_(some, self.system.present(name))
        for there, choice in self.choices(streams, body):
            # Where there is one choice only, its presence is required already.
            holds = choice.holds(body)
            every = n.and_(every, holds if there is some else n.or_(n.not_(there), holds))
        return n.and_(some, every)

    def mentioned(self, terms: Iterable[Term]) -> list[str]:
        """The streams whose values the terms speak of, each once, whatever it is called."""
        out: dict[str, str] = {}
        for term in terms:
            if isinstance(term, Ref):
                found = self.names.find(term, missing=True)  # perhaps the member of an enum
                if found is not None and found[1] and found[1][0] not in ("present", "count", "first", "last"):
                    out.setdefault(self.names.identity(found[0]), found[0])
            elif isinstance(term, Before):
                found = self.names.find(term.ref)
                if found is not None and f"Y {found[0]}" in self.system.streams:
                    out.setdefault(f"Y {found[0]}", f"Y {found[0]}")
        return list(out.values())

    def choices(self, streams: list[str], body: Any) -> list[tuple[Expr, _Atoms]]:
        """Every choice of an event for each of these streams: whether the events are there, and the atoms about
        them."""
        pools = [self.system.streams[name][1] for name in streams]
        if math.prod(map(len, pools)) > _MOST:
            many = " × ".join(f"{len(pool)} of {name}" for name, pool in zip(streams, pools, strict=True))
            raise UsageError(
                f"in {body}: so many events may come in one push ({many}) that not every choice can be tried: compare "
                ".first, .last or .count"
            )
        # a stream that never carries anything: what is written about its events must still make sense
        if not all(pools):
            empty = [
                Slot(n.FALSE, tuple(n.const(simplest(t)) for _, t in self.system.streams[name][0].leaves()))
                for name in streams
            ]
            pools = [pool or (slot,) for pool, slot in zip(pools, empty, strict=True)]
        out = []
        for choice in product(*pools):
            there = n.all_of(slot.present for slot in choice)
            chosen = {self.names.identity(name): slot for name, slot in zip(streams, choice, strict=True)}
            out.append((there, dataclasses.replace(self, chosen=chosen)))
        return out

    def all_of(self, f: Formula) -> Expr:
        """A formula without temporal operators, of the chosen events."""
        if f.op in ("true", "false"):
            return n.const(f.op == "true")
        if f.op == "atom":
            assert f.body is not None and not isinstance(f.body, (Expr, Some))
            return self.holds(f.body)
        args = [self.all_of(a) for a in f.args]
        made: dict[str, Callable[..., Expr]] = {
            "!": n.not_, "&": n.and_, "|": n.or_, "->": lambda p, q: n.or_(n.not_(p), q), "<->": n.eq,
        }  # fmt: skip
        return made[f.op](*args)

    def holds(self, body: Term | Compare) -> Expr:
        """Whether it is so of the chosen events."""
        if isinstance(body, Compare):
            return self.compare(body)
        typed = self.term(body)
        if typed.type != BOOL:
            raise UsageError(f"{typed.text} is {_a(typed.type)}, not a condition: compare it, as in {typed.text} = …")
        return self.guarded(typed.leaves[0], typed)

    def guarded(self, e: Expr, *parts: Typed) -> Expr:
        out = n.TRUE
        for part in parts:
            for needed in part.needs.values():
                out = n.and_(out, needed)
        return n.and_(out, e)

    def compare(self, c: Compare) -> Expr:
        left, right = alike(self.side(c.left, c.right), self.side(c.right, c.left), c.op)
        if c.op in ("=", "!="):
            if left.type != right.type and {left.type, right.type} != {INT, FLOAT}:
                self.mismatch(c, left, right)
            found = list_in(left.type)
            if found is not None and not comparable(found):
                raise UsageError(
                    f"in {c}: {left.text} holds {_a(found)}: lists with floats in them are not compared in a formula, "
                    "as 0.0 and -0.0 are one number; compare other fields"
                )
            e = n.all_of(n.eq(a, b) for a, b in zip(left.leaves, right.leaves, strict=True))
            e = e if c.op == "=" else n.not_(e)
        else:
            ordered = left.type == right.type and (left.type == STR or isinstance(left.type, (TimeType, DecimalType)))
            if not ({left.type, right.type} <= {INT, FLOAT} or ordered):
                self.mismatch(c, left, right)
            a, b = left.leaves[0], right.leaves[0]
            if c.op in (">", ">="):
                a, b = b, a
            e = n.lt(a, b) if c.op in ("<", ">") else n.le(a, b)
        return self.guarded(e, left, right)

    def mismatch(self, c: Compare, left: Typed, right: Typed) -> NoReturn:
        what = "cannot be compared" if c.op in ("=", "!=") else f"have no order that {c.op} could ask for"
        hint = ""
        if NONE in (left, right):
            hint = "; what can be missing is declared as T | None"
        for side in (left, right):
            if side.presence and {left.type, right.type} != {BOOL}:
                hint = f"; {side.text} says whether an event is there, the event itself is {side.text}.value"
        raise UsageError(
            f"in {c}: {left.text} is {_a(left.type)} and {right.text} is {_a(right.type)}: they {what}{hint}"
        )

    def side(self, term: Term, other: Term) -> Typed:
        """A side of a comparison: the member of an enum by its name, if the other side is of that enum, or may be."""
        if isinstance(term, Ref) and isinstance(other, Ref):
            found = self.names.find(other, missing=True)
            kind = _present(self.typed(other, *found).type) if found is not None else None
            if isinstance(kind, EnumType):
                cls, words = kind.cls, (term.name, *term.path)
                name = words[-1]
                member = (
                    words in ((name,), (cls.__name__, name))
                    and name in cls.__members__
                    and not term.kind
                    and not term.exact
                )
                also = self.names.find(term, missing=True)
                if member and also is not None and _present(self.typed(term, *also).type) == kind:
                    raise UsageError(
                        f"{term} could be the member {name} of {cls.__name__} or the stream: write stream(…) for the "
                        "stream, or rename it"
                    )
                if member:
                    return Typed(term, kind, (n.const(cls.__members__[name]),))
                if also is None:
                    near = difflib.get_close_matches(name, list(cls.__members__), 1)
                    raise UsageError(
                        f"in {other} compared with {term}: {cls.__name__} has no member {name!r}"
                        f"{f': did you mean {near[0]!r}?' if near else ':'} It has {', '.join(cls.__members__)}"
                    )
        return self.term(term)

    # -- terms

    def term(self, term: Term) -> Typed:
        system = self.system
        if isinstance(term, Literal) and term.value is None:
            return NONE
        if isinstance(term, Literal):
            try:
                e = n.const(term.value)
            except OverflowError:
                raise UsageError(f"the number {term} does not fit in 64 bits") from None
            return Typed(term, e.type, (e,))
        if isinstance(term, Flag):
            self.names.refuse_ambiguous(term)
            return Typed(term, BOOL, (getattr(system, term.name),))
        if isinstance(term, Length):
            if term.queue not in system.lengths:
                self.names.unknown("queue", term.queue, system.lengths)
            return Typed(term, INT, (system.lengths[term.queue],))
        if isinstance(term, (Ref, Before)):
            ref = term if isinstance(term, Ref) else term.ref
            found = self.names.find(ref)
            assert found is not None
            return self.before(term, *found) if isinstance(term, Before) else self.typed(ref, *found)
        return self.calc(term)

    def before(self, term: Before, name: str, rest: tuple[str, ...]) -> Typed:
        """Of the event before: a system that remembers it has it as a stream (`pellucid.check.system.assume`)."""
        if rest in ((), ("present",)):
            raise UsageError(
                f"in {term}: Y takes the value of a stream, as in {name}.value >= Y {name}.value; whether one came is "
                f"O {name}"
            )
        if rest[0] in ("first", "last", "count"):
            raise UsageError(f"in {term}: Y takes the value of the last event before: write Y {name}.value")
        if f"Y {name}" not in self.system.streams:
            raise UsageError(
                f"{term}: the event before can be spoken of in assume= and in formulas G (…) without other temporal "
                "operators"
            )
        return self.typed(term, f"Y {name}", rest)

    def calc(self, term: Calc) -> Typed:
        args = [opened(self.term(arg)) for arg in term.args]
        rich = calculated(term, args)
        if rich is not None:
            return rich
        for arg in args:
            if arg.type not in (INT, FLOAT):
                hint = f"; the event itself is {arg.text}.value" if arg.presence else ""
                raise UsageError(f"in {term}: {arg.text} is {_a(arg.type)}: {term.op} wants numbers{hint}")
        kind = INT if all(arg.type == INT for arg in args) else FLOAT
        leaves = [n.float_of_int(arg.leaves[0]) if arg.type != kind else arg.leaves[0] for arg in args]
        needs = {name: present for arg in args for name, present in arg.needs.items()}
        if len(leaves) == 1:
            e = n.neg(leaves[0])
        else:
            if term.op == "%":
                if (
                    not any(isinstance(part, (Ref, Before, Length)) for part in parts(term.args[1]))
                    and leaves[1].op == "const"
                    and leaves[1].value == 0
                ):
                    raise UsageError(f"in {term}: nothing has a remainder by 0")
                zero, one = (n.const(0), n.const(1)) if kind == INT else (n.const(0.0), n.const(1.0))
                needs[f"{args[1].text} != 0"] = n.not_(n.eq(leaves[1], zero))
                if leaves[1].op == "const" and leaves[1].value == 0:  # an event that is always 0
                    leaves[1] = one
            e = n.binary({"+": "add", "-": "sub", "*": "mul", "%": "mod"}[term.op], *leaves)
        event = any(arg.event for arg in args)
        if event and kind == INT and self.system.domain.modulus is not None:
            e = n.binary("mod", e, n.const(self.system.domain.modulus))
        return Typed(term, kind, (e,), needs, event)

    def typed(self, ref: Ref | Before, name: str, rest: tuple[str, ...]) -> Typed:
        system = self.system
        if rest in ((), ("present",)):
            return Typed(ref, BOOL, (system.present(name),), presence=True)
        if rest == ("count",):
            return Typed(ref, INT, (system.count(name),))
        kind, needs = system.streams[name][0], {}
        if rest[0] in ("first", "last"):
            leaves = system.first(name) if rest[0] == "first" else system.last(name)
            needs = {name: system.present(name)}
        elif self.names.identity(name) in self.chosen:
            leaves = self.chosen[self.names.identity(name)].leaves
        else:  # asked for its type only
            leaves = tuple(n.const(simplest(t)) for _, t in kind.leaves())
        fields = rest[1:] if rest[0] in ("value", "first", "last", "present", "count") else rest
        if rest[0] in ("present", "count"):
            raise UsageError(
                f"in {ref}: {name}.{rest[0]} has no fields; a field of that name is {name}.value.{'.'.join(rest)}"
            )
        for i, part in enumerate(fields):
            options: dict[str, Type] = {}
            if isinstance(kind, RecordType):
                options = dict(kind.fields)
            elif isinstance(kind, TupleType):
                options = {str(j): t for j, t in enumerate(kind.items)}
            if part not in options:
                shown = self.names.shown(name)
                whole = ".".join((shown, rest[0] if rest[0] in ("first", "last") else "value", *fields[:i]))
                what = f"no fields: write {shown} or {shown}.value"
                if options:
                    what = f"no field {part!r}: {_nearest(part, options)}"
                raise UsageError(f"in {ref}: {whole} is {_a(kind)} and has {what}")
            start = sum(t.width for t in list(options.values())[: list(options).index(part)])
            kind = options[part]
            leaves = leaves[start : start + kind.width]
        return Typed(ref, kind, leaves, needs, event=True)


def _nearest(name: str, options: Iterable[str]) -> str:
    names = list(options)
    near = difflib.get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}? It has {', '.join(names)}" if near else f"it has {', '.join(names)}"


def _a(t: Type) -> str:
    name = str(t)
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _present(t: Type) -> Type:
    """Of what may be missing the type where it is not."""
    return t.inner if isinstance(t, OptionalType) else t
