"""Tracing: a plain Python function run on symbolic values becomes an expression DAG.

The function runs once for every path through it.  Where it asks for a truth value that the path so
far does not decide, the trace takes *true* and comes back later for *false*; the paths form a tree,
which is folded into ``ite`` nodes.  Hash-consing shares what the paths have in common.

Failures keep their place.  An operation that may fail (overflow, division by zero) is noted on
the path where it was computed; if its result turns out to be unused there, it is kept as a check
(``after``), since plain Python would have failed as well.

>>> from pellucid.internal.expr.types import INT
>>> def grade(points, bonus):
...     total = points + bonus
...     if total > 100:
...         return 100
...     return max(total, 0)
>>> traced = trace(grade, (INT, INT))
>>> traced.outputs[0]
100 if v0 + v1 > 100 else 0 if v0 + v1 < 0 else v0 + v1
"""

from __future__ import annotations

import contextvars
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pellucid.errors import Control, PipelineError, TypeMismatch
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import convert, replaced
from pellucid.internal.expr.tracing.mistakes import UNDONE, name_of, no_pair, no_triple, refuse_undone_value
from pellucid.internal.expr.tracing.purity import AsksIdentity, watched
from pellucid.internal.expr.tracing.rich import Rich, SymDecimal, SymList, lift_decimal, list_leaf, result_type
from pellucid.internal.expr.tracing.shadow import Maybe, assemble, raw_fields, record_type_of, shadowed, truth_of
from pellucid.internal.expr.tracing.symbolic import Sym, Untraceable, lift_scalar
from pellucid.internal.expr.tracing.times import SymLocal, SymTime, lift_time
from pellucid.internal.expr.types import (
    BOOL,
    DATETIME,
    FLOAT,
    INSTANT,
    NOTHING,
    DecimalType,
    EnumType,
    ListType,
    OptionalType,
    RecordType,
    TimeType,
    TupleType,
    Type,
    generic_fields,
    join,
    simplest,
    type_of_value,
)

MAX_WORK = 25_000  # how many truth tests all paths of a function may make; each path runs it again
MAX_DECISIONS = 400  # how many truth tests one path may make
MAX_CHECKS = 1000  # how many operations that may fail one path may perform
MAX_OUTPUTS = 64  # how many events a task may emit at once


@dataclass(frozen=True)
class Traced:
    """A function as data.

    ``outputs`` are the leaves of the result, one expression each over the leaves of the parameters.
    A task has ``emits``, which assumes nothing about how many events it emits: ``count`` is an
    expression and ``slots[i]`` the leaves of the i-th event, meaningful only where ``i < count``.
    ``raises`` describes the places where the user's function raises, by number.  With ``many`` it is no task: it has no
    state, and returns a list of these events.  A task that asks to be notified of times has ``asked``, how many, and
    ``times``, of which the i-th is meaningful only where ``i < asked``.
    """

    params: tuple[Type, ...]
    result: Type
    outputs: tuple[Expr, ...]
    count: Expr | None = None
    slots: tuple[tuple[Expr, ...], ...] = ()
    event: Type | None = None
    raises: tuple[str, ...] = ()
    many: bool = False
    asked: Expr | None = None
    times: tuple[Expr, ...] = ()
    asks: Type | None = None  # the type of the times

    def roots(self) -> tuple[Expr, ...]:
        """Every expression of the trace, in a fixed order."""
        flat = [e for slot in self.slots for e in slot]
        asked = (self.asked, *self.times) if self.asked is not None else ()
        return (*self.outputs, *((self.count,) if self.count is not None else ()), *flat, *asked)


# ---------------------------------------------------------------- one path


@dataclass
class _Path:
    prefix: list[tuple[Expr, bool]]
    identity: bool = False  # truth values become real at once, since the function compares with `is`
    text: bool = False  # it looks inside text
    run: bool = False  # for running, through calls of Python's own functions
    refused: Untraceable | None = None
    noted: int = 0
    decisions: list[tuple[Expr, bool]] = field(default_factory=list)
    checks: list[list[Expr]] = field(default_factory=lambda: [[]])
    facts: dict[Expr, bool] = field(default_factory=dict)
    orders: dict[tuple[Expr, Expr], int] = field(default_factory=dict)
    nones: list[tuple[str, Type]] = field(default_factory=list)  # what was asked for and is None here
    optional: dict[Expr, frozenset[Expr]] = field(default_factory=dict)  # the flag of an optional value, and its leaves

    def note_check(self, e: Expr) -> None:
        self.noted += 1
        if self.noted > MAX_CHECKS:
            raise Untraceable(f"does more than {MAX_CHECKS:,} operations that may fail on one path (a long loop?)")
        self.checks[-1].append(e)

    def decide(self, condition: Expr) -> bool:
        if condition.op == "const":
            return bool(condition.value)
        if condition.op == "not":
            return not self.decide(condition.args[0])
        known = self.known(condition)
        if known is not None:
            return known
        at = len(self.decisions)
        if at >= MAX_DECISIONS:
            raise Untraceable(
                f"asks for more than {MAX_DECISIONS} truth values on one path (a loop whose end depends on an event?)"
            )
        answer = True
        if at < len(self.prefix):
            expected, answer = self.prefix[at]
            if condition is not expected:
                raise Untraceable("does not do the same when it is called again with the same event", effect=True)
        self.decisions.append((condition, answer))
        self.checks.append([])
        self.learn(condition, answer)
        return answer

    def known(self, condition: Expr) -> bool | None:
        """What the path so far says about a condition."""
        if condition.op not in _HOLDS:
            return self.facts.get(condition)
        pair, holds = _relation(condition)
        possible = self.orders.get(pair, _ANY)
        return True if possible & ~holds == 0 else False if possible & holds == 0 else None

    def learn(self, condition: Expr, answer: bool) -> None:
        if condition.op == "not":
            self.learn(condition.args[0], not answer)
        elif condition.op in _HOLDS:
            pair, holds = _relation(condition)
            start = _ANY if any(e.type == FLOAT for e in pair) else _ANY & ~_UNORDERED
            self.orders[pair] = self.orders.get(pair, start) & (holds if answer else ~holds)
        else:
            self.facts[condition] = answer
            if condition.op == ("and" if answer else "or"):
                for part in condition.args:
                    self.learn(part, answer)


# How two values may compare, as bits; either of two floats may be NaN.
_LESS, _SAME, _MORE, _UNORDERED = 1, 2, 4, 8
_ANY = _LESS | _SAME | _MORE | _UNORDERED
_HOLDS = {"lt": _LESS, "le": _LESS | _SAME, "eq": _SAME}


def _relation(condition: Expr) -> tuple[tuple[Expr, Expr], int]:
    """The two values that are compared, in a fixed order, and how they compare if it holds."""
    a, b = condition.args
    holds = _HOLDS[condition.op]
    if id(a) <= id(b):
        return (a, b), holds
    return (b, a), (holds & _SAME) | (_MORE if holds & _LESS else 0)


_current: contextvars.ContextVar[_Path] = contextvars.ContextVar("pellucid_trace")


def current_path() -> _Path:
    """The path being traced."""
    try:
        return _current.get()
    except LookupError:
        raise Untraceable("uses a symbolic value after its trace has ended") from None


def note_refusal(refusal: Untraceable) -> None:
    """Keep the first refusal of the path being traced."""
    path = _current.get(None)
    if path is not None and path.refused is None:
        path.refused = refusal


# ---------------------------------------------------------------- the tree of paths


@dataclass
class _Leaf:
    checks: list[Expr]
    value: Any = None
    raised: int | None = None


@dataclass
class _Fork:
    checks: list[Expr]
    condition: Expr
    yes: _Leaf | _Fork
    no: _Leaf | _Fork


class _Explorer:
    def __init__(
        self, f: Callable[..., Any], params: Sequence[Type], truth: bool, text: bool = False, run: bool = False
    ) -> None:
        self.f = shadowed(f, text=text, run=run)
        self.text, self.run_it = text, run
        self.original = f
        self.params = params
        self.truth = truth
        self.identity = False
        self.decided = 0  # truth tests, on all paths so far
        self.raises: list[str] = []
        self.optional: dict[Expr, frozenset[Expr]] = {}

    def tree(self) -> _Leaf | _Fork:
        kinds = {kind for t in self.params for _, kind in t.leaves()}
        only_names = all(isinstance(kind, EnumType) or kind == BOOL for kind in kinds)
        self.watch = watched(self.original, identity=False, only_names=only_names)
        with self.watch.captured():
            try:
                return self.explore([])
            except AsksIdentity:
                self.identity = self.watch.identity = True
                self.decided = 0
                self.raises.clear()
                return self.explore([])

    def explore(self, prefix: list[tuple[Expr, bool]]) -> _Leaf | _Fork:
        path, leaf = self.run(prefix)
        tree: _Leaf | _Fork = leaf
        for at in range(len(path.decisions) - 1, len(prefix) - 1, -1):
            other = self.explore([*path.decisions[:at], (path.decisions[at][0], False)])
            # Below a fork, the other run repeated this one up to the fork: its tree starts after it.
            tree = _Fork(path.checks[at], path.decisions[at][0], tree, other)
        return tree

    def run(self, prefix: list[tuple[Expr, bool]]) -> tuple[_Path, _Leaf]:
        if self.decided > MAX_WORK:
            raise Untraceable(
                f"has too many paths: together they ask for more than {MAX_WORK:,} truth values; split it into steps, "
                "or use min, max, & and | instead of branches",
                large=True,
            )
        path = _Path(prefix, self.identity, self.text, self.run_it, optional=self.optional)
        token = _current.set(path)
        raised: int | None = None
        value: Any = None
        try:
            args, index = [], 0
            for t in self.params:
                arg, index = self.symbolic(t, index)
                args.append(arg)
            try:
                with self.watch:
                    value = self.f(*args)
                    if self.truth and not isinstance(value, UNDONE):
                        value = truth_of(value)
            except (Control, KeyboardInterrupt, RecursionError):
                raise
            except BaseException as error:
                _refuse_unguarded(error, path)
                raised = self.number_of(error)
            refuse_undone_value(name_of(self.original), value)
            if path.refused is not None:
                raise path.refused
        except RecursionError:
            raise Untraceable("calls itself too deeply (a recursion whose end depends on an event?)") from None
        finally:
            _current.reset(token)
        self.decided += len(path.decisions)
        return path, _Leaf(path.checks[-1], value, raised)

    def number_of(self, error: BaseException) -> int:
        text = ", ".join(a if type(a) is str else "…" for a in error.args)  # an argument may be symbolic
        if isinstance(error, (TypeError, AttributeError, NameError)):
            # Most likely code that takes no symbolic value, not a decision of the user's.
            raise Untraceable(f"fails on a symbolic value: {type(error).__name__}: {text}", cause=error)
        said = f"{type(error).__name__}: {text}"
        if said not in self.raises:
            self.raises.append(said)
        return self.raises.index(said)

    def symbolic(self, t: Type, index: int) -> tuple[Any, int]:
        """The parameter whose leaves begin at an index, and where the next one's begin."""
        leaves = [n.var(index + j, kind) for j, (_, kind) in enumerate(t.leaves())]
        return value_of(t, leaves), index + t.width


def value_of(t: Type, leaves: Sequence[Expr], name: str = "", lazy: bool = False) -> Any:
    """A value of the trace with these leaves; ``lazy`` if it is computed when it is looked at."""
    path = current_path()
    if isinstance(t, OptionalType):
        (flag, *rest), inner = leaves, t.inner
        path.optional[flag] = frozenset(rest)

        def look() -> Any:
            if current_path().decide(flag):
                return value_of(inner, rest, name)
            current_path().nones.append((name, t))
            return None

        return Maybe(t, leaves, look) if lazy else look()
    if isinstance(t, EnumType):
        kind = t

        def member() -> Any:
            tests = (m for m in kind.members[:-1] if current_path().decide(n.eq(leaves[0], n.const(m))))
            return next(tests, kind.members[-1])

        return Maybe(t, leaves, member) if lazy else member()
    if isinstance(t, (RecordType, TupleType)):
        record = isinstance(t, RecordType)
        parts, at = [], 0
        for part, sub in t.fields if isinstance(t, RecordType) else [(str(i), u) for i, u in enumerate(t.items)]:
            parts.append(value_of(sub, leaves[at : at + sub.width], part, lazy=record))
            at += sub.width
        return assemble(t, parts) if isinstance(t, RecordType) else tuple(parts)
    if t == NOTHING:
        return None
    if isinstance(t, TimeType):
        return SymTime(leaves[0], t)
    if isinstance(t, DecimalType):
        return SymDecimal(leaves[0], t)
    if isinstance(t, ListType):
        return SymList(leaves[0], t)
    return path.decide(leaves[0]) if t == BOOL and path.identity else Sym(leaves[0])


def _refuse_unguarded(error: BaseException, path: _Path) -> None:
    """Say what to write where a value that may be missing is used as if it were always there."""
    if not path.nones or not isinstance(error, (TypeError, AttributeError)) or "NoneType" not in str(error):
        return
    name, t = path.nones[-1]
    inner = t.inner if isinstance(t, OptionalType) else t
    blank = {"str": "''", "float": "0.0", "bool": "False"}.get(str(inner), "0")
    field = bool(name) and not name.isdigit()
    shown = f"e.{name}" if field else "v"
    what = f"the field {name!r}" if field else f"item {name}" if name else "its argument"
    instead = f", or take `{shown} or {blank}`" if str(inner) in ("int", "float", "str", "bool") else ""
    raise TypeMismatch(
        f"it uses {what}, which may be None ({t}), as if it were always there ({_in_python_types(error)}): ask "
        f"first, as in `{shown} is not None and …` or `if {shown} is None`{instead}"
    ) from None


def _in_python_types(error: BaseException) -> str:
    return str(error).replace("'Sym'", "'int'").replace("'SymTime'", "'datetime'").replace("'SymDecimal'", "'Decimal'")


# ---------------------------------------------------------------- results


def _result_type(value: Any) -> Type:
    if type(value) is Sym:
        return value._expr.type
    if isinstance(value, Rich):
        return value._type
    if type(value) is Maybe:
        return value.type
    if type(value) is tuple and value:
        return TupleType(tuple(_result_type(v) for v in value))
    lazy = record_type_of(value)
    if lazy is not None:
        return lazy
    nothing = result_type(value)
    if nothing is not None:
        return nothing
    generic = generic_fields(value)
    if generic is not None:
        fields = tuple((name, _result_type(getattr(value, name))) for name in generic)
        if any(t == NOTHING for _, t in fields):
            raise Untraceable(
                f"returns a {type(value).__name__} with a field that is None on every path, so its type is not known"
            )
        return RecordType(type(value), fields)
    if isinstance(value, (list, dict, set)):
        raise Untraceable(f"returns a {type(value).__name__}, which is no event")
    t = type_of_value(value)
    if t is None:
        raise Untraceable(f"returns a {type(value).__name__}, which is no event")
    return t


def _leaves(value: Any, t: Type) -> list[Expr]:
    """The expressions of a returned value, converted to the type the result has on all paths."""
    if isinstance(t, OptionalType):
        if value is None:
            return [n.FALSE, *(n.const(simplest(kind)) for _, kind in t.inner.leaves())]
        if type(value) is not Maybe:
            return [n.TRUE, *_leaves(value, t.inner)]
    if type(value) is Maybe:
        found = convert(value.leaves, value.type, t)
        if found is None:
            raise Untraceable(f"returns {value.type} on one path and {t} on another")
        return found
    if isinstance(t, RecordType):
        if not isinstance(value, t.cls):
            raise Untraceable(f"returns {_result_type(value)} on one path and {t} on another")
        out = []
        for (name, sub), field_value in zip(t.fields, raw_fields(value, t), strict=True):
            try:
                out += _leaves(field_value, sub)
            except Untraceable:
                found_type = _result_type(field_value)
                text = f"puts {found_type} into the field {name!r} of {t.cls.__name__}, which is {sub}"
                if found_type == NOTHING or isinstance(found_type, OptionalType):
                    raise TypeMismatch(
                        f"it {text}: ask first whether it is None, or declare the field as {sub} | None"
                    ) from None
                raise Untraceable(text) from None
        return out
    if isinstance(t, ListType):
        return [list_leaf(value, t)]
    if isinstance(t, TupleType):
        return [e for item, sub in zip(value, t.items, strict=True) for e in _leaves(item, sub)]
    if t == NOTHING and value is None:
        return []
    if isinstance(value, enum.Enum) and isinstance(t, EnumType):
        return [n.const(value)]
    if type(value) is SymLocal:
        value = SymTime(value._expr, INSTANT)
    rich = lift_time(value) if isinstance(t, TimeType) else lift_decimal(value) if isinstance(t, DecimalType) else None
    e = lift_scalar(value) if rich is None else rich._expr
    converted = convert([e], e.type if rich is None else rich._type, t) if e is not None else None
    if converted is None:
        raise Untraceable(f"returns {_result_type(value)} on one path and {t} on another")
    return converted


def _values(tree: _Leaf | _Fork) -> list[Any]:
    out, stack = [], [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, _Leaf):
            if item.raised is None:
                out.append(item.value)
        else:
            stack += [item.no, item.yes]
    return out


def _join_all(values: list[Any]) -> Type:
    result: Type | None = None
    for value in values:
        t = _result_type(value)
        joined = t if result is None else join(result, t)
        if joined is None:
            raise Untraceable(f"returns {result} on one path and {t} on another")
        result = joined
    if result is None:
        raise Untraceable("raises on every path")
    return result


def _refuse_nothing(result: Type) -> None:
    if result == NOTHING:
        raise Untraceable("returns None on every path, which is no event")
    if isinstance(result, ListType) and result.item == NOTHING:
        raise Untraceable("returns an empty list on every path, so the type of its elements is not known")


#: What an expression is with an enum in the place of one of its members: by the member and the enum.
_Puts: TypeAlias = dict[tuple[Expr, Expr], dict[int, Expr]]


def _folded(
    tree: _Leaf | _Fork,
    types: list[Type],
    pick: Callable[[Any], list[Expr | None]],
    optional: Mapping[Expr, frozenset[Expr]],
) -> list[Expr]:
    """The tree as one expression per leaf of the result; checks go before the first of them.

    ``pick`` gives None for what may be anything.  All of them are evaluated, so what raises stands in the first alone,
    and the others may be anything there.
    """
    out = _fold(tree, types, pick, optional, {})
    return [n.const(simplest(t)) if e is None else e for e, t in zip(out, types, strict=True)]


def _fold(
    tree: _Leaf | _Fork,
    types: list[Type],
    pick: Callable[[Any], list[Expr | None]],
    optional: Mapping[Expr, frozenset[Expr]],
    puts: _Puts,
) -> list[Expr | None]:
    if isinstance(tree, _Leaf):
        out = (
            pick(tree.value)
            if tree.raised is None
            else [n.raise_(tree.raised, t) if at == 0 else None for at, t in enumerate(types)]
        )
    else:
        yes = _fold(tree.yes, types, pick, optional, puts)
        no = _fold(tree.no, types, pick, optional, puts)
        out = [_merge(tree.condition, a, b, optional, puts) for a, b in zip(yes, no, strict=True)]
    if tree.checks and out:
        needed: frozenset[Expr] = frozenset().union(*(n.strict_parts(o) for o in out if o is not None))
        missing = tuple(c for c in tree.checks if c not in needed)
        if missing:
            assert out[0] is not None
            out[0] = n.after(missing, out[0])
    return out


def _merge(
    condition: Expr, yes: Expr | None, no: Expr | None, optional: Mapping[Expr, frozenset[Expr]], puts: _Puts
) -> Expr | None:
    if yes is no:
        return yes  # should the condition fail, that is among the checks
    if yes is None or no is None:
        known = no if yes is None else yes
        assert known is not None
        if not n.fails(known):
            return known
        any_value = n.const(simplest(known.type))
        yes, no = yes or any_value, no or any_value
    # An optional value handed through unchanged: where it is not there, its leaves are the simplest ones anyway.
    if yes in optional.get(condition, ()) and no.op == "const" and no is n.const(simplest(no.type)):
        return yes
    # An enum comes as a chain of tests, in the order of its members.  Branches that differ only in the member that the
    # test has found are one, with the enum itself in its place.
    kind = condition.args[0].type if condition.op == "eq" and condition.args[1].op == "const" else None
    if isinstance(kind, EnumType):
        e, member = condition.args
        members = [n.const(m) for m in kind.members]
        same = replaced(yes, puts.setdefault((member, e), {id(member): e}))
        last = members[-2:-1] == [member]
        if same is no or (last and same is replaced(no, puts.setdefault((members[-1], e), {id(members[-1]): e}))):
            return same
    return n.ite(condition, yes, no)


def trace(
    f: Callable[..., Any],
    params: Sequence[Type],
    *,
    task: bool = False,
    truth: bool = False,
    text: bool = False,
    run: bool = False,
    many: bool = False,
    asks: Type | None = None,
) -> Traced:
    """Trace ``f`` on parameters of these types; raises ``Untraceable`` with the reason if it cannot.

    With ``task`` the function must return ``(state, [events])``, and with ``asks``, which is the type of times, also a
    list of times; with ``truth`` only its truth counts; with ``many`` it must return a list, whose elements are events:
    one that it makes itself has slots, as those of a task.
    With ``text`` it is the trace of a check (`expr.tracing.textual`), with ``run`` the one that engines run
    where there is no plain one (`expr.tracing.running`).
    """
    explorer = _Explorer(f, params, truth, text or run, run)
    tree = explorer.tree()
    values = _values(tree)
    if task:
        return _task(explorer, tree, values, asks)
    if many and all(type(v) in (list, tuple) for v in values) and any(values):
        made = _slots(explorer, tree, NOTHING, [((), v) for v in values], lambda v: ((), v))
        return replace(made, many=True)
    result = _join_all(values)
    if many and isinstance(result, OptionalType) and isinstance(result.inner, ListType):
        raise TypeMismatch(
            f"{name_of(f)} returns {result}, and None is no list of events: write `… or []` for none, as in e.items "
            "or []"
        )
    if many and not isinstance(result, ListType):
        raise Untraceable(f"returns {result}, which is no list")
    _refuse_nothing(result)
    types = [t for _, t in result.leaves()]
    outputs = _folded(tree, types, lambda v: [*_leaves(v, result)], explorer.optional)
    return Traced(tuple(params), result, tuple(outputs), raises=tuple(explorer.raises))


def _task(explorer: _Explorer, tree: _Leaf | _Fork, values: list[Any], asks: Type | None = None) -> Traced:
    for value in values:
        if asks is not None:
            _three(explorer.original, value, asks)
            continue
        instead = no_pair(value)
        if instead is not None:
            raise PipelineError(
                f"{name_of(explorer.original)} must return a pair (state, [events]), but returns {instead}"
            )
        if (
            type(value) is not tuple
            or len(value) != 2
            or not isinstance(value[1], (list, tuple))
            or hasattr(value[1], "_fields")
        ):
            raise Untraceable("does not return a pair (state, [events])")
    state = _join_all([v[0] for v in values])
    return _slots(explorer, tree, state, values, lambda v: v[:2], asks)


def _three(f: Callable[..., Any], value: Any, asks: Type) -> None:
    """Refuse what a task with ``on_time=`` must not return."""
    instead = no_triple(value)
    if instead is not None:
        raise PipelineError(
            f"{name_of(f)} must return three things, (state, [events], [times to be called at]), as on_time= is given, "
            f"but returns {instead}; no times are an empty list"
        )
    for time in value[2]:
        found = _result_type(time)
        if found != asks:
            zones = asks in (DATETIME, INSTANT) and found in (DATETIME, INSTANT)
            hint = "; times with a time zone and without one do not mix" if zones else ""
            hint = "; no time is an empty list" if found == NOTHING or isinstance(found, OptionalType) else hint
            raise TypeMismatch(
                f"{name_of(f)} asks to be notified of a time that is {found}, and the times of this stream are {asks}: "
                f"expected {asks}, found {found}{hint}"
            )


def _slots(
    explorer: _Explorer,
    tree: _Leaf | _Fork,
    state: Type,
    values: list[Any],
    pair: Callable[[Any], tuple[Any, Any]],
    asks: Type | None = None,
) -> Traced:
    """A function that gives a state and several events, of which there are as many as the longest list has; and several
    times, if it ``asks`` for some."""
    events = [e for v in values for e in v[1]]
    event = _join_all(events) if events else None
    room = max((len(v[1]) for v in values), default=0)
    if room > MAX_OUTPUTS:
        raise Untraceable(f"emits {room} events at once; a trace takes at most {MAX_OUTPUTS}")
    asked = max((len(v[2]) for v in values), default=0) if asks is not None else 0
    if asked > MAX_OUTPUTS:
        raise Untraceable(f"asks for {asked} times at once; a trace takes at most {MAX_OUTPUTS}")
    time_types = [t for _, t in asks.leaves()] if asks is not None else []
    event_types = [t for _, t in event.leaves()] if event else []
    state_types = [t for _, t in state.leaves()]
    int_type = n.const(0).type

    def pick(value: Any) -> list[Expr | None]:
        kept, put = pair(value)
        out: list[Expr | None] = [*([] if state == NOTHING else _leaves(kept, state)), n.const(len(put))]
        for i in range(room):
            if i < len(put):
                assert event is not None
                out += _leaves(put[i], event)
            else:
                out += [None] * len(event_types)
        if asks is not None:
            out.append(n.const(len(value[2])))
            for i in range(asked):
                out += _leaves(value[2][i], asks) if i < len(value[2]) else [None] * len(time_types)
        return out

    more = [int_type, *time_types * asked] if asks is not None else []
    flat = _folded(tree, state_types + [int_type] + event_types * room + more, pick, explorer.optional)
    width, size = len(state_types), len(event_types)
    rest = flat[width + 1 :]
    slots = tuple(tuple(rest[i * size : (i + 1) * size]) for i in range(room))
    times = rest[room * size :]
    made = Traced(tuple(explorer.params), state, tuple(flat[:width]), flat[width], slots, event, tuple(explorer.raises))
    return replace(made, asked=times[0], times=tuple(times[1:]), asks=asks) if asks is not None else made
