"""From atoms to expressions: a formula about a system, with an expression in place of each atom.

Which stream a name means is found by `pellucid.check.formula.names`.

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
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import NoReturn

from pellucid.check.formula.names import Names
from pellucid.check.formula.nodes import FALSE, TRUE, Atom, Formula, Some
from pellucid.check.formula.terms import Before, Calc, Compare, Flag, Length, Literal, Ref, Term, parts
from pellucid.check.formula.typed import NONE, Typed, alike, calculated, opened
from pellucid.check.system.build import System
from pellucid.check.system.variable import Slot
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import (
    BOOL,
    FLOAT,
    INT,
    STR,
    DecimalType,
    EnumType,
    OptionalType,
    RecordType,
    TimeType,
    TupleType,
    Type,
    list_in,
    simplest,
)
from pellucid.internal.expr.types.lists import comparable

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
            found = n.FALSE
            for there, choice in self.choices(streams, str(body)):
                found = n.or_(found, n.and_(there, choice.all_of(of)))
            return found
        assert not isinstance(body, Expr)
        streams = self.mentioned(parts(body))
        some, every = n.TRUE, n.TRUE
        for name in streams:
            some = n.and_(some, self.system.present(name))
        for there, choice in self.choices(streams, str(body)):
            # Where there is one choice only, that it is there is said already.
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

    def choices(self, streams: list[str], text: str) -> list[tuple[Expr, _Atoms]]:
        """Every choice of an event for each of these streams: whether the events are there, and the atoms about
        them."""
        pools = [self.system.streams[name][1] for name in streams]
        if math.prod(map(len, pools)) > _MOST:
            many = " × ".join(f"{len(pool)} of {name}" for name, pool in zip(streams, pools, strict=True))
            raise UsageError(
                f"in {text}: so many events may come in one push ({many}) that not every choice can be tried: compare "
                ".first, .last or .count"
            )
        # a stream that never carries anything: what is said of its events must make sense all the same
        if not all(pools):
            empty = [
                Slot(n.FALSE, tuple(n.const(simplest(t)) for _, t in self.system.streams[name][0].leaves()))
                for name in streams
            ]
            pools = [pool or (slot,) for pool, slot in zip(pools, empty, strict=True)]
        out = []
        for choice in product(*pools):
            there = n.TRUE
            for slot in choice:
                there = n.and_(there, slot.present)
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
            e = n.TRUE
            for a, b in zip(left.leaves, right.leaves, strict=True):
                e = n.and_(e, n.eq(a, b))
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
                    return Typed(str(term), kind, (n.const(cls.__members__[name]),))
                if also is None:
                    near = difflib.get_close_matches(name, list(cls.__members__), 1)
                    raise UsageError(
                        f"in {other} compared with {term}: {cls.__name__} has no member {name!r}"
                        f"{f': did you mean {near[0]!r}?' if near else ':'} It has {', '.join(cls.__members__)}"
                    )
        return self.term(term)

    # -- terms

    def term(self, term: Term) -> Typed:
        system, text = self.system, str(term)
        if isinstance(term, Literal) and term.value is None:
            return NONE
        if isinstance(term, Literal):
            try:
                e = n.const(term.value)
            except OverflowError:
                raise UsageError(f"the number {term} does not fit in 64 bits") from None
            return Typed(text, e.type, (e,))
        if isinstance(term, Flag):
            self.names.refuse_ambiguous(term)
            return Typed(text, BOOL, (getattr(system, term.name),))
        if isinstance(term, Length):
            if term.queue not in system.lengths:
                self.names.unknown("queue", term.queue, system.lengths)
            return Typed(text, INT, (system.lengths[term.queue],))
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
        return Typed(str(term), kind, (e,), needs, event)

    def typed(self, ref: Ref | Before, name: str, rest: tuple[str, ...]) -> Typed:
        text, system = str(ref), self.system
        if rest in ((), ("present",)):
            return Typed(text, BOOL, (system.present(name),), presence=True)
        if rest == ("count",):
            return Typed(text, INT, (system.count(name),))
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
        return Typed(text, kind, leaves, needs, event=True)


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
