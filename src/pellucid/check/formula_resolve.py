"""From names to variables: a formula about a system, with an expression in place of each atom.

Names: a source by its parameter's name, the single source also as ``in``, an output by its name (``out``), any step by
its id.  ``x.value.price`` and ``x.price`` are the same; ``value`` alone is ``out.value``, and ``a.value`` is
``a.out.value`` where two pipelines ``a`` and ``b`` are compared.

Choices:

* An atom that speaks of **values** holds only in a step in which every stream whose value it mentions carries an event.
  So ``out.value != 3`` means "out carries an event, and it is not 3", while ``!(out.value = 3)`` holds in silence, too.
* Where a stream carries several events in a step, its value is the last one.
* Modulo N (``ints=Mod(N)``), sums, differences and products of integer values are reduced as in the pipeline; numbers
  that the formula itself mentions and the lengths of queues are not.
* An atom whose calculation fails (``% 0``) does not hold.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from pellucid.check.formula_nodes import FALSE, TRUE, Atom, Formula
from pellucid.check.formula_terms import Before, Calc, Compare, Flag, Length, Literal, Ref, Term
from pellucid.check.system import System
from pellucid.errors import UsageError
from pellucid.expr import node as n
from pellucid.expr.node import Expr
from pellucid.expr.types import BOOL, FLOAT, INT, STR, EnumType, RecordType, TupleType, Type

__all__ = ["resolve"]


def resolve(formula: Formula, system: System) -> Formula:
    """The formula with each atom as an expression (of type bool) over the system's variables.

    >>> from pellucid import Stream, pipeline
    >>> from pellucid.check.domains import domain_of
    >>> from pellucid.check.parse import parse
    >>> from pellucid.check.system import build_system
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
    return _resolve(formula, _Names(system))


def _resolve(f: Formula, names: _Names) -> Formula:
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
class _Typed:
    """A term with its type: the leaves of its value, and what must be so for it to have one (first: events)."""

    text: str
    type: Type
    leaves: tuple[Expr, ...]
    needs: Mapping[str, Expr] = field(default_factory=dict)
    event: bool = False  # made of events, so that Mod(N) applies
    presence: bool = False


@dataclass(frozen=True)
class _Names:
    system: System

    # -- atoms

    def condition(self, body: Term | Compare | Expr) -> Expr:
        assert not isinstance(body, Expr)
        if isinstance(body, Compare):
            return self.compare(body)
        typed = self.term(body)
        if typed.type != BOOL:
            raise UsageError(f"{typed.text} is {_a(typed.type)}, not a condition: compare it, as in {typed.text} = …")
        return self.guarded(typed.leaves[0], typed)

    def guarded(self, e: Expr, *parts: _Typed) -> Expr:
        out = n.TRUE
        for part in parts:
            for present in part.needs.values():
                out = n.and_(out, present)
        return n.and_(out, e)

    def compare(self, c: Compare) -> Expr:
        left, right = self.side(c.left, c.right), self.side(c.right, c.left)
        if c.op in ("=", "!="):
            if not _comparable(left.type, right.type):
                self.mismatch(c, left, right)
            e = n.TRUE
            for a, b in zip(left.leaves, right.leaves, strict=True):
                e = n.and_(e, n.eq(a, b))
            e = e if c.op == "=" else n.not_(e)
        else:
            if not ({left.type, right.type} <= {INT, FLOAT} or left.type == right.type == STR):
                self.mismatch(c, left, right)
            a, b = left.leaves[0], right.leaves[0]
            if c.op in (">", ">="):
                a, b = b, a
            e = n.lt(a, b) if c.op in ("<", ">") else n.le(a, b)
        return self.guarded(e, left, right)

    def mismatch(self, c: Compare, left: _Typed, right: _Typed) -> NoReturn:
        what = "cannot be compared" if c.op in ("=", "!=") else f"have no order that {c.op} could ask for"
        hint = ""
        for side in (left, right):
            if side.presence and {left.type, right.type} != {BOOL}:
                hint = f"; {side.text} says whether an event is there, the event itself is {side.text}.value"
        raise UsageError(
            f"in {c}: {left.text} is {_a(left.type)} and {right.text} is {_a(right.type)}: they {what}{hint}"
        )

    def side(self, term: Term, other: Term) -> _Typed:
        """A side of a comparison: the member of an enum by its name, if the other side is of that enum."""
        if isinstance(term, Ref) and isinstance(other, Ref):
            found = self.find(other)
            kind = self.typed(other, *found).type if found is not None else None
            if isinstance(kind, EnumType):
                cls, parts = kind.cls, (term.name, *term.path)
                name = parts[-1]
                if parts in ((name,), (cls.__name__, name)) and name in cls.__members__:
                    return _Typed(str(term), kind, (n.const(cls.__members__[name]),))
                if self.find(term) is None:
                    near = difflib.get_close_matches(name, list(cls.__members__), 1)
                    raise UsageError(
                        f"in {other} compared with {term}: {cls.__name__} has no member {name!r}"
                        f"{f': did you mean {near[0]!r}?' if near else ':'} It has {', '.join(cls.__members__)}"
                    )
        return self.term(term)

    # -- terms

    def term(self, term: Term) -> _Typed:
        system, text = self.system, str(term)
        if isinstance(term, Literal):
            try:
                e = n.const(term.value)
            except OverflowError:
                raise UsageError(f"the number {term} does not fit in 64 bits") from None
            return _Typed(text, e.type, (e,))
        if isinstance(term, Flag):
            return _Typed(text, BOOL, (getattr(system, term.name),))
        if isinstance(term, Length):
            if term.queue not in system.lengths:
                self.unknown("queue", term.queue, system.lengths)
            return _Typed(text, INT, (system.lengths[term.queue],))
        if isinstance(term, (Ref, Before)):
            ref = term if isinstance(term, Ref) else term.ref
            found = self.find(ref)
            if found is None:
                self.unknown("stream", ".".join((ref.name, *ref.path)), system.streams)
            return self.before(term, *found) if isinstance(term, Before) else self.typed(ref, *found)
        return self.calc(term)

    def before(self, term: Before, name: str, rest: tuple[str, ...]) -> _Typed:
        """Of the event before: a system that remembers it has it as a stream (`pellucid.check.assume`)."""
        if rest in ((), ("present",)):
            raise UsageError(f"in {term}: Y takes the value of a stream, as in {name}.value >= Y {name}.value; whether one came is O {name}")
        if f"Y {name}" not in self.system.streams:
            raise UsageError(f"{term}: the event before can be spoken of in assume= and in formulas G (…) without other temporal operators")
        return self.typed(term, f"Y {name}", rest)

    def calc(self, term: Calc) -> _Typed:
        args = [self.term(arg) for arg in term.args]
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
            if term.op == "%" and leaves[1].op == "const" and leaves[1].value == 0:
                raise UsageError(f"in {term}: nothing has a remainder by 0")
            if term.op == "%" and leaves[1].op != "const":
                zero = n.const(0) if kind == INT else n.const(0.0)
                needs[f"{args[1].text} != 0"] = n.not_(n.eq(leaves[1], zero))
            e = n.binary({"+": "add", "-": "sub", "*": "mul", "%": "mod"}[term.op], *leaves)
        event = any(arg.event for arg in args)
        if event and kind == INT and self.system.domain.modulus is not None:
            e = n.binary("mod", e, n.const(self.system.domain.modulus))
        return _Typed(str(term), kind, (e,), needs, event)

    def find(self, ref: Ref) -> tuple[str, tuple[str, ...]] | None:
        """The stream that a dotted name begins with (the longest such), and the rest of the name."""
        streams, parts = self.system.streams, (ref.name, *ref.path)
        for k in range(len(parts), 0, -1):
            name = ".".join(parts[:k])
            if name in streams:
                return name, parts[k:]
            if name == "in" and len(self.system.sources) == 1:
                return self.system.sources[0][0], parts[k:]
        if "value" in parts:
            k = parts.index("value")
            name = ".".join((*parts[:k], "out"))
            if name in streams:
                return name, parts[k:]
        return None

    def typed(self, ref: Ref | Before, name: str, rest: tuple[str, ...]) -> _Typed:
        text, present = str(ref), self.system.present(name)
        if rest in ((), ("present",)):
            return _Typed(text, BOOL, (present,), presence=True)
        kind, leaves = self.system.streams[name][0], self.system.value(name)
        fields = rest[1:] if rest[0] == "value" else rest
        for i, part in enumerate(fields):
            options: dict[str, Type] = {}
            if isinstance(kind, RecordType):
                options = dict(kind.fields)
            elif isinstance(kind, TupleType):
                options = {str(j): t for j, t in enumerate(kind.items)}
            if part not in options:
                whole = ".".join((name, "value", *fields[:i]))
                what = f"no fields: write {name} or {name}.value"
                if options:
                    what = f"no field {part!r}: {_nearest(part, options)}"
                raise UsageError(f"in {ref}: {whole} is {_a(kind)} and has {what}")
            start = sum(t.width for t in list(options.values())[: list(options).index(part)])
            kind = options[part]
            leaves = leaves[start : start + kind.width]
        return _Typed(text, kind, leaves, {name: present}, event=True)

    def unknown(self, what: str, name: str, known: Iterable[str]) -> NoReturn:
        names = list(known)
        sources = self.system.sources
        if what == "stream":
            pool = [*names, "in"] if len(sources) == 1 else names
            also = f", and 'in' for {sources[0][0]}" if len(sources) == 1 else ""
            if name.split(".")[0] == "in":
                raise UsageError(
                    f"{self.system.name} has {len(sources)} sources, so 'in' is none of them: "
                    f"write {' or '.join(s for s, _ in sources)}"
                )
            # `outt.value` is like `out`: what comes before the first dot counts as well
            near = difflib.get_close_matches(name, pool, 1) or difflib.get_close_matches(name.split(".")[0], pool, 1)
        else:
            pool, also = names, ""
            near = difflib.get_close_matches(name, pool, 1)
        hint = f": did you mean {near[0]!r}? It has" if near else ": it has"
        raise UsageError(f"{self.system.name} has no {what} {name!r}{hint} {', '.join(names) or 'none'}{also}")


def _comparable(a: Type, b: Type) -> bool:
    return a == b or {a, b} == {INT, FLOAT}


def _nearest(name: str, options: Iterable[str]) -> str:
    names = list(options)
    near = difflib.get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}? It has {', '.join(names)}" if near else f"it has {', '.join(names)}"


def _a(t: Type) -> str:
    name = str(t)
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
