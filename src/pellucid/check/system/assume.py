"""Assumptions: what is taken for granted of the events that come in, push by push.

An assumption is a formula about sources, with the past (``x.value.ts >= Y x.value.ts``, ``x -> !Y x``), or a Python
predicate of one event of a source, or of two that follow each other.  It speaks of what the sources bring, whether or
not the pipeline has failed, and of events that are there: where an event is missing whose value is mentioned (silence;
no event before), nothing is assumed.

In a system it is an expression over the state and the inputs, `System.assume`: a push for which it does not hold is in
no run.  What it has to know of earlier pushes is kept in cells behind the state.  Every engine reads it there; whether
there are runs at all is for `pellucid.check.decide`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pellucid.check.formula.nodes import CTL, LTL, PAST, Before, Calc, Compare, Flag, Formula, Length, Ref
from pellucid.check.formula.parse import parse
from pellucid.check.formula.resolve import resolve
from pellucid.check.functions.called import inside, ledger
from pellucid.check.history import History
from pellucid.check.smt.encode import with_texts
from pellucid.check.system.build import System
from pellucid.check.system.domains import Domain
from pellucid.check.system.run import SystemRun
from pellucid.check.system.variables import TRUE, Slot
from pellucid.errors import PipelineError, TypeMismatch, UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import has_calls, substitute
from pellucid.internal.expr.types import BOOL, Type, simplest

_WANTED = (
    'a formula about sources, as in assume="x.value >= Y x.value", a predicate of an event or of two, or {"x": '
    "predicate}"
)


@dataclass(frozen=True)
class Assumption:
    """A formula about sources, or a predicate of the events of one (``""``: of the only one)."""

    formula: Formula | None = None
    predicate: Callable[..., Any] | None = None
    source: str = ""

    def __str__(self) -> str:
        if self.formula is not None:
            return str(self.formula)
        name = getattr(self.predicate, "__name__", "a predicate")
        name = "a predicate" if name == "<lambda>" else name
        return f"{name} of {self.source}" if self.source else name


def assumptions(given: Any) -> tuple[Assumption, ...]:
    """What ``assume=`` says, one by one.

    >>> [str(a) for a in assumptions(["x.value > 0", lambda before, now: now >= before])]
    ['x.value > 0', 'a predicate']
    >>> assumptions(3)
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: assume= takes a formula about sources, as in assume="x.value >= Y x.value", ..., found 3
    """
    if given is None:
        return ()
    if isinstance(given, Assumption):
        return (given,)
    if isinstance(given, (str, Formula)):
        return (Assumption(_checked(parse(given) if isinstance(given, str) else given)),)
    if isinstance(given, Mapping):
        for name, predicate in given.items():
            if not isinstance(name, str) or not callable(predicate):
                raise UsageError(f"assume= takes {_WANTED}, found {{{name!r}: {predicate!r}}}")
        return tuple(Assumption(predicate=predicate, source=name) for name, predicate in given.items())
    if isinstance(given, (list, tuple)):
        return tuple(a for one in given for a in assumptions(one))
    if callable(given):
        return (Assumption(predicate=given),)
    raise UsageError(f"assume= takes {_WANTED}, found {given!r}")


def assumed_text(domain: Domain) -> str:
    """The assumptions of a question in words: ``""`` if there are none."""
    return " and ".join(map(str, domain.assume))


def _checked(f: Formula) -> Formula:
    while f.op in ("G", "AG"):  # an assumption is about every push anyway
        f = f.args[0]
    for part in f.walk():
        if part.op in CTL | LTL and part.op not in PAST:
            raise UsageError(
                f"assume= speaks of a push and those before it, but {part} looks ahead: say it with Y, O, H or S (x -> "
                "!Y x)"
            )
    for atom in f.atoms():
        for term in _terms(atom.body):
            if isinstance(term, (Flag, Length)):
                raise UsageError(f"assume= speaks of what the sources bring, not of {term}")
    return f


def _terms(body: Any) -> Iterator[Any]:
    """The streams, flags and lengths that an atom mentions."""
    if isinstance(body, Compare):
        yield from _terms(body.left)
        yield from _terms(body.right)
    elif isinstance(body, Calc):
        for arg in body.args:
            yield from _terms(arg)
    elif body is not None and not isinstance(body, Expr):
        yield body


@n.values_only()
def attach(system: System) -> System:
    """The system with the assumptions of its domain.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> p = pipeline(lambda x: x + 1, x=int)
    >>> s = build_system(p.graph, domain_of(None, "x.value >= Y x.value"))
    >>> [v.name for v in s.state]
    [':stopped', 'Y x.present', 'Y x.value']
    """
    said = _Said(system)
    whole: Expr = TRUE
    for a in system.domain.assume:
        for part in said.formula(a.formula) if a.formula is not None else [said.predicate(a)]:
            whole = n.and_(whole, part)
            for guessed in _of_guesses(system, part):
                whole = n.and_(whole, guessed)
    extended, (whole,) = said.history.cells.done([whole])
    return with_texts(dataclasses.replace(extended, assume=n.and_(extended.assume, whole)))


def _of_guesses(system: System, part: Expr) -> Iterator[Expr]:
    """The same of pushes that are guessed, where a part of an assumption speaks of one push alone: what waits came in a
    push of which it held."""
    states, used = len(system.state), sorted({e.value for e in walk(part) if e.op == "var"})
    if not system.guessed or any(not states <= i < states + len(system.inputs) for i in used):
        return
    place = {(v.role, v.of, v.at): states + i for i, v in enumerate(system.inputs)}
    mine = {i: system.inputs[i - states] for i in used}
    for push in system.guessed:
        if not all(v.of in push for v in mine.values()):
            continue
        leaves = [n.var(i, v.type) for i, v in enumerate((*system.state, *system.inputs))]
        there: Expr = TRUE
        for i, v in mine.items():
            leaves[i] = n.var(place[v.role, push[v.of], v.at], v.type)
        for guess in {push[v.of] for v in mine.values()}:
            there = n.and_(there, n.var(place["present", guess, 0], BOOL))
        yield n.or_(n.not_(there), substitute([part], leaves)[0])  # one that is not there is not looked at


class _Said:
    """Assumptions as expressions over a system's inputs and cells."""

    def __init__(self, system: System) -> None:
        self.system, self.history = system, History(system)
        states = len(system.state)
        self.brings: dict[str, tuple[Type, Slot]] = {}  # what each source brings
        for name, t in system.own_sources:
            own = {(v.role, v.at): n.var(states + i, v.type) for i, v in enumerate(system.inputs) if v.of == name}
            self.brings[name] = t, Slot(own["present", 0], tuple(own["leaf", j] for j in range(t.width)))
        self.memory = _Memory(self.history, self.brings)

    def named(self, name: str) -> str:
        if name == "in" and name not in self.brings and len(self.brings) == 1:
            return next(iter(self.brings))
        if name not in self.brings:
            raise UsageError(
                f"assume= speaks of sources, and {self.system.name} has no source {name!r}: it has "
                f"{', '.join(self.brings)}"
            )
        return name

    def formula(self, f: Formula) -> list[Expr]:
        for atom in f.atoms():
            for term in _terms(atom.body):
                if isinstance(term, Before):
                    self.memory.of(self.named(term.ref.name))
                elif isinstance(term, Ref) and term.name in self.system.streams:  # others may be members of an enum
                    self.named(term.name)
        streams = {name: (t, (slot,)) for name, (t, slot) in (self.brings | self.memory.before).items()}
        view = dataclasses.replace(self.system, streams=streams, lengths={}, bounds={}, outputs={})  # sources only
        return [
            n.or_(n.not_(self.there(part, view)), self.history.value(resolve(part, view), 0)) for part in _conjuncts(f)
        ]

    def there(self, f: Formula, view: System) -> Expr:
        """Whether every event is there whose value a formula mentions outside operators of the past."""
        if f.op in PAST:
            return TRUE
        out = n.all_of(self.there(arg, view) for arg in f.args)
        for term in _terms(f.body):
            if isinstance(term, Before):
                out = n.and_(out, view.present(f"Y {self.named(term.ref.name)}"))
            elif (
                isinstance(term, Ref)
                and term.path not in ((), ("present",), ("count",))
                and (term.name in self.brings or term.name == "in")
            ):
                out = n.and_(out, view.present(self.named(term.name)))
        return out

    def predicate(self, a: Assumption) -> Expr:
        f = a.predicate
        assert f is not None
        if not a.source and len(self.brings) != 1:
            names = ", ".join(self.brings)
            raise UsageError(
                f"{self.system.name} has the sources {names}: say whose events the predicate is about, as in "
                f"assume={{{next(iter(self.brings))!r}: …}}"
            )
        name = self.named(a.source or next(iter(self.brings)))
        t, slot = self.brings[name]
        many = _arity(f, str(a))
        try:
            fn = Function.make(f, (t,) * many, truth=True)
        except (PipelineError, TypeMismatch) as error:
            raise UsageError(f"assume= ({a}): {error}") from None
        inner = inside(fn, ledger(), "assume=") if fn.traced is None else None
        # that some run satisfies it must not depend on invented answers
        if inner is not None and not has_calls(*inner.roots()):
            fn = dataclasses.replace(fn, traced=inner)
        fn.need("assume=")
        there, leaves = slot.present, list(slot.leaves)
        if many == 2:
            before = self.memory.of(name)
            there, leaves = n.and_(before.present, there), [*before.leaves, *leaves]
        run = SystemRun(self.system.domain)
        (holds,) = run.call(fn, leaves, TRUE, "assume=")
        return n.or_(n.not_(there), n.and_(n.not_(run.failed), holds))


def _conjuncts(f: Formula) -> list[Formula]:
    return [part for arg in f.args for part in _conjuncts(arg)] if f.op == "&" else [f]


def _arity(f: Callable[..., Any], name: str) -> int:
    try:
        parameters = [
            p
            for p in inspect.signature(f).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        return 1
    wanted = [p for p in parameters if p.default is p.empty]
    if len(wanted) not in (1, 2):
        raise UsageError(
            f"assume= takes a predicate of one event, or of two that follow each other (the earlier first), but {name} "
            f"takes {len(wanted)}"
        )
    return len(wanted)


class _Memory:
    """The last event that each stream carried before this push, in cells."""

    def __init__(self, history: History, streams: Mapping[str, tuple[Type, Slot]]) -> None:
        self._cells, self._streams = history.cells, streams
        self.before: dict[str, tuple[Type, Slot]] = {}  # by Y and the name

    def of(self, name: str) -> Slot:
        key = f"Y {name}"
        if key not in self.before:
            t, slot = self._streams[name]
            came = self._cells.add(f"{key}.present", BOOL, False, "came", name)
            self._cells.follow(came, n.or_(came, slot.present))
            kept = []
            for j, ((path, kind), leaf) in enumerate(zip(t.leaves(), slot.leaves, strict=True)):
                cell = self._cells.add(f"{key}.{path or 'value'}", kind, simplest(kind), "before", name, j)
                self._cells.follow(cell, n.ite(slot.present, leaf, cell))
                kept.append(cell)
            self.before[key] = t, Slot(came, tuple(kept))
        return self.before[key][1]


@n.values_only()
def remembering(system: System, f: Formula) -> System:
    """The system that knows the events before of which a formula speaks (``Y out.value``), each as a stream.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> s = build_system(pipeline(lambda x: x + 1, x=int).graph, domain_of(None))
    >>> "Y out" in remembering(s, parse("G (out -> out.value > Y out.value)")).streams
    True
    """
    names = []
    for atom in f.atoms():
        for term in _terms(atom.body):
            if isinstance(term, Before):
                parts = (term.ref.name, *term.ref.path)
                names += [
                    ".".join(parts[:k]) for k in range(len(parts), 0, -1) if ".".join(parts[:k]) in system.streams
                ][:1]
                names += (
                    [system.own_sources[0][0]]
                    if term.ref.name == "in" and "in" not in system.streams and len(system.own_sources) == 1
                    else []
                )
    if not names:
        return system
    history = History(system)
    last = {name: (system.streams[name][0], Slot(system.present(name), system.value(name))) for name in names}
    memory = _Memory(history, last)
    flat = [e for name in names for slot in (memory.of(name),) for e in (slot.present, *slot.leaves)]
    extended, moved = history.cells.done(flat)
    found = iter(moved)
    streams = dict(extended.streams)
    for key, (t, slot) in memory.before.items():
        streams[key] = t, (Slot(next(found), tuple(next(found) for _ in slot.leaves)),)
    return dataclasses.replace(extended, streams=streams)
