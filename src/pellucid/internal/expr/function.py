"""A user's function: plain Python, and, where it can be traced, data as well.

>>> from pellucid.internal.expr.types import INT
>>> f = Function.make(lambda total, v: total + v, (INT, INT))
>>> f.traced is not None, str(f), f.call(40, 2)
(True, 'total + v', 42)
>>> import time
>>> g = Function.make(lambda v: v + int(time.time()), (INT,), to=INT)
>>> g.traced, g.reason
(None, 'calls time.time(), which may read or change the outside world')
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import os
import random
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid.errors import Control, NotTraceable, PellucidError, PipelineError, TypeMismatch
from pellucid.internal.expr.codegen import lowered
from pellucid.internal.expr.evaluate import UserRaise, evaluate_call, wrap
from pellucid.internal.expr.identity import Identity, code_form, identity_of, sha
from pellucid.internal.expr.node import Expr, Overflow64, digest, fails, show, walk
from pellucid.internal.expr.rewrite import convert, has_text
from pellucid.internal.expr.tracing.mistakes import (
    UNDONE,
    described,
    name_of,
    no_pair,
    no_triple,
    place_of,
    refuse_asking_a_record,
    refuse_missing_attribute,
    refuse_undone,
    refuse_undone_value,
)
from pellucid.internal.expr.tracing.purity import watched
from pellucid.internal.expr.tracing.reach import Outside, outside
from pellucid.internal.expr.tracing.symbolic import Untraceable
from pellucid.internal.expr.tracing.trace import Traced, trace
from pellucid.internal.expr.types import (
    BOOL,
    DATE,
    FLOAT,
    INT,
    NOTHING,
    STR,
    DecimalType,
    EnumType,
    ListType,
    OptionalType,
    TimeType,
    TupleType,
    Type,
    annotation_of,
    conform,
    fits_int,
    join,
    type_of,
    type_of_value,
)
from pellucid.internal.expr.types.base import maybe
from pellucid.internal.expr.types.rich import DAY

_SAMPLES = 40
_MODEST = 10_000


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """A function from events to an event; for a task, to ``(state, [events])``.

    ``traced`` is the function as data, or None: then ``reason`` says why it is opaque.
    """

    plain: Callable[..., Any]
    params: tuple[Type, ...]
    result: Type | None  # of a task: the state; None: any Python object
    event: Type | None  # of a task: its events (None: it never puts one out)
    task: bool
    traced: Traced | None
    reason: str | None
    looked_up: Traced | None = None  # where it is opaque: as engines run it all the same (`expr.lookup`)
    reads: tuple[Outside, ...] = ()  # what it reads that it is not given, as it was: engines run it as it was then
    asks: Type | None = None  # of a task with on_time=: the type of the times; it returns a list of them as well

    @property
    def runs(self) -> Traced | None:
        """The function as engines run it; None: they call it, event by event."""
        return self.traced if self.traced is not None else self.looked_up

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: not what the function captured, which may be anything."""
        return {**self.__dict__, "reads": ()}

    @staticmethod
    def make(
        f: Callable[..., Any],
        params: Sequence[Type | None],
        *,
        task: bool = False,
        to: Type | None = None,
        exact: bool = True,
        truth: bool = False,
        many: bool = False,
        asks: Type | None = None,
    ) -> Function:
        """Trace ``f`` on parameters of these types (None: a state that is any Python object).

        ``to`` is the type of its result (of a task's events) where it cannot be found out; where it can, an int
        may become a float, and what does not fit is refused unless ``exact`` is false.
        ``truth`` asks only whether the result is true, as a filter does; ``many`` wants a list of events; a task that
        ``asks`` to be told of times, which are of that type, returns ``(state, [events], [times])``.
        """
        if not callable(f):
            raise PipelineError(f"expected a function, found {type(f).__name__} {f!r}")
        refuse_undone(f)
        _check_arity(f, len(params))
        known = tuple(p for p in params if p is not None)
        try:
            if len(known) != len(params):
                raise Untraceable("keeps a state that is not made of scalars")
            traced = trace(f, known, task=task, truth=truth, many=many, asks=asks)
            _spot_check(f, traced, truth)
            refuse_asking_a_record(f, known, lambda: _samples(known, 4, _constants(f, traced), modest=True))
            if traced.event == NOTHING and to is None:  # what else an event may be only its declaration tells
                to = _annotated_events(f, task)
            if to is not None or task:
                traced = _widened(f, traced, known, to, exact)
            reads = outside(f, copies=True)
            return Function(f, known, _result_of(traced), traced.event, task, traced, None, reads=reads, asks=asks)
        except Untraceable as error:
            tried = _Tried(f, params, error)
            if isinstance(error.cause, AttributeError):
                refuse_missing_attribute(f, params, error.cause, lambda t: _samples([t], 1)[0][0], tried.failures)
            if not error.effect and len(known) == len(params):
                refuse_asking_a_record(f, known, lambda: _samples(known, 4, modest=True))
            inner = None
            if not error.effect and not error.large and len(known) == len(params):
                inner = _for_running(f, known, task, truth, many, asks)
            result, event = _declared(f, params, error, task, to, truth, tried, inner, many, asks)
            inner = _fitting(f, inner, known, result, event)
            reads = outside(f, copies=True) if inner is not None else ()
            kinds: tuple[Any, ...] = tuple(params)  # None: a state that is any Python object
            return Function(f, kinds, result, event, task, None, error.reason, inner, reads, asks)

    def call(self, *args: Any) -> Any:
        """What the plain function returns on these events, with 64-bit integers."""
        return self.conformed(self.called(self.plain, args))

    def called(self, f: Callable[..., Any], args: Sequence[Any]) -> Any:
        """What ``f``, which is the plain function or one around it, returns; it fails where 64 bits are not enough."""
        if self.runs is None:
            return f(*args)
        value = f(*[wrap(t, a) for t, a in zip(self.params, args, strict=True)])
        if self._may_fail:
            # Constants, Booleans and int(…) are plain ints, so a sum of them may pass 64 bits unseen on its way.
            _overflow_of(self.runs, args)
        return value

    def conformed(self, value: Any) -> Any:
        """What the function returned, as events of its types; a `ValueError` where it does not fit."""
        if isinstance(value, UNDONE):
            raise ValueError(
                f"expected {self.result or 'a state and events'}, found {described(value)}, which is never run"
            )
        if not self.task:
            if self.result == BOOL and not isinstance(value, (bool, int, float, str)):
                value = bool(value)
            return conform(self.result, bool(value) if self.result == BOOL else value) if self.result else value
        if self.asks is not None:
            return self._conformed_triple(value, self.asks)
        if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1], (list, tuple)):
            raise ValueError(f"a task must return (state, [events]), a list of them, found {value!r}")
        return self._state_and_events(value)

    def _state_and_events(self, value: Any) -> tuple[Any, list[Any]]:
        state = conform(self.result, value[0]) if self.result else value[0]
        if self.event is None:
            if value[1]:
                raise ValueError(f"emitted {value[1]!r}, although it seemed never to emit anything")
            return state, []
        return state, [conform(self.event, e) for e in value[1]]

    def _conformed_triple(self, value: Any, asks: Type) -> tuple[Any, list[Any], list[Any]]:
        """What a task with ``on_time=`` returned."""
        instead = no_triple(value)
        if instead is not None:
            raise ValueError(
                "a task with on_time= must return three things, (state, [events], [times to be called at]), found "
                f"{instead}"
            )
        for time in value[2]:
            trouble = asks.problem(time)
            if trouble is not None:
                raise ValueError(f"a time to be called at: {trouble}")
        return (*self._state_and_events(value[:2]), list(value[2]))

    @property
    def change(self) -> str:
        """What it reads that is another than when it was built, where engines run it as it was; empty if nothing is."""
        return next(filter(None, (read.change() for read in self.reads)), "") if self.runs is not None else ""

    @functools.cached_property
    def _may_fail(self) -> bool:
        return self.runs is not None and any(map(fails, self.runs.roots()))

    def need(self, who: str) -> Traced:
        """The trace, or an error in which ``who`` says that it cannot take this function, and why."""
        if self.traced is None:
            raise NotTraceable(f"{who} needs {self.name} as data, but {self.name} {self.reason} ({self.where})")
        return self.traced

    @property
    def name(self) -> str:
        """The function's own name, for messages."""
        name = getattr(self.plain, "__name__", None) or type(self.plain).__name__
        return "a lambda" if name == "<lambda>" else f"{name}()"

    @property
    def where(self) -> str:
        """The file and line of its definition."""
        code = _code(self.plain)
        return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else "built in"

    @functools.cached_property
    def identity(self) -> Identity:
        """All that the function calls and reads; of one that is traced, nothing but the trace.

        Looked at once, when it is first asked for: by then the module is loaded, and what is below the function is
        there, too.
        """
        if self.traced is not None:
            return Identity({"its expression": self.shape})
        return identity_of(self.plain, types_used=[t for t in (*self.params, self.result, self.event) if t is not None])

    @functools.cached_property
    def digest(self) -> str:
        """Equal for functions of equal meaning (traced), or with equal code that calls and reads the same (opaque), in
        any process."""
        return self.shape if self.traced is not None else sha(self.shape, self.identity.digest)

    @functools.cached_property
    def shape(self) -> str:
        """The same without what an opaque function calls and reads: what a step is named after, before all of that is
        there."""
        if self.traced is not None:
            asks = (self.asks,) if self.asks is not None else ()
            kinds = repr((self.traced.params, self.traced.result, self.traced.event, *asks))
            return hashlib.sha256((kinds + digest(*self.traced.roots())).encode()).hexdigest()
        code = _code(self.plain)
        name = getattr(self.plain, "__qualname__", type(self.plain).__name__)
        return sha(name, ", ".join(map(str, self.params)), code_form(code) if code is not None else "")

    def __str__(self) -> str:
        name = getattr(self.plain, "__name__", None) or type(self.plain).__name__
        if name != "<lambda>":
            return str(name)
        if self.traced is None or self.traced.count is not None:
            return "λ"
        parts = [show(e, self._leaf_names(), 24) for e in self.traced.outputs]
        # an optional value that is passed on is two leaves, and one thing
        text = ", ".join(a for a, b in zip(parts, [*parts[1:], ""], strict=True) if a != f"{b} is not None")
        return text if len(text) <= 48 else text[:47] + "…"

    def _leaf_names(self) -> list[str]:
        code = _code(self.plain)
        names = list(code.co_varnames[: code.co_argcount]) if code else []
        if isinstance(self.plain, types.MethodType):
            names = names[1:]
        names += [f"v{i}" for i in range(len(names), len(self.params))]
        return [
            path if name is None else (f"{name}.{path}" if path else name)
            for name, t in zip(names, self.params, strict=False)
            for path, _ in t.leaves()
        ]


def _code(f: Any) -> types.CodeType | None:
    f = getattr(f, "__func__", getattr(f, "func", f))
    if not hasattr(f, "__code__") and not isinstance(f, type):
        f = getattr(type(f), "__call__", f)  # noqa: B004 - its code is wanted
    return getattr(f, "__code__", None)


def _check_arity(f: Callable[..., Any], count: int) -> None:
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return  # a builtin without a signature
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        name = getattr(f, "__name__", type(f).__name__)
        events = "argument" if count == 1 else "arguments"
        raise PipelineError(f"the function {name} gets {count} {events} here, but: {error}") from None


def _annotated_events(f: Callable[..., Any], task: bool) -> Type | None:
    """What a task, or a function that makes a list, emits by its annotation, as ``to=`` would say it; else None."""
    annotation = _annotation(f)
    if task:
        annotation = _events_of(annotation)
    if annotation is None or annotation is type(None):
        return None
    declared = type_of(annotation)
    item = declared if task else declared.item if isinstance(declared, ListType) else None
    return declared if item is not None and join(NOTHING, item) == item else None


def _annotation(f: Callable[..., Any]) -> Any:
    """The annotation of a function's result; None if there is none, or it cannot be read."""
    try:
        return typing.get_type_hints(f, include_extras=True).get("return") if hasattr(f, "__annotations__") else None
    except Exception:
        return None


def _result_of(traced: Traced) -> Type:
    """The type of what the function returns; one that makes a list has slots for its elements."""
    return ListType(traced.event) if traced.many and traced.event is not None else traced.result


def _for_running(
    f: Callable[..., Any],
    params: tuple[Type, ...],
    task: bool,
    truth: bool,
    many: bool = False,
    asks: Type | None = None,
) -> Traced | None:
    """The function as engines can run it although it has no plain trace; None if they cannot."""
    try:
        traced = trace(f, params, task=task, truth=truth, run=True, many=many, asks=asks)
        _spot_check(f, traced, truth)
        return lowered(traced)
    except TypeMismatch:  # what may be missing is used as if it were always there
        raise
    except (Untraceable, PellucidError):
        return None


def _fitting(
    f: Callable[..., Any], inner: Traced | None, params: tuple[Type, ...], result: Type | None, event: Type | None
) -> Traced | None:
    """The same with the declared types; None if it has others."""
    if inner is None:
        return None
    task = inner.count is not None
    try:
        inner = _widened(f, inner, params, event if task and not inner.many else result, True)
    except TypeMismatch:
        return None
    return inner if _result_of(inner) == result and (not task or inner.many or inner.event in (None, event)) else None


def _widened(f: Callable[..., Any], traced: Traced, params: tuple[Type, ...], to: Type | None, exact: bool) -> Traced:
    """The trace with its result as the type asked for (an int may become a float), a task's state like its
    parameter."""
    if traced.many:
        assert traced.event is not None
        item = to.item if isinstance(to, ListType) else None
        if item is None or item == traced.event:
            return traced
        if join(traced.event, item) != item:
            raise _not_to(f, ListType(traced.event), ListType(item))
        slots = tuple(_promoted(s, traced.event, item) for s in traced.slots)
        return dataclasses.replace(traced, event=item, slots=slots)
    if traced.count is None:
        if to is None or to == traced.result:
            return traced
        if isinstance(to, ListType) and isinstance(traced.result, ListType) and to.item == traced.result.item:
            return dataclasses.replace(traced, result=to)
        if join(traced.result, to) != to:
            if not exact:
                return traced
            raise _not_to(f, traced.result, to)
        return dataclasses.replace(traced, result=to, outputs=_promoted(traced.outputs, traced.result, to))
    if traced.result != params[0] and join(traced.result, params[0]) == params[0]:
        traced = dataclasses.replace(
            traced, result=params[0], outputs=_promoted(traced.outputs, traced.result, params[0])
        )
    if to is not None and traced.event is not None and traced.event != to:
        if join(traced.event, to) != to:
            raise _not_to(f, traced.event, to)
        slots = tuple(_promoted(s, traced.event, to) for s in traced.slots)
        traced = dataclasses.replace(traced, event=to, slots=slots)
    return traced


def _promoted(leaves: tuple[Expr, ...], have: Type, to: Type) -> tuple[Expr, ...]:
    out = convert(leaves, have, to)
    assert out is not None, (have, to)
    return tuple(out)


def _not_to(f: Callable[..., Any], found: Type, to: Type) -> TypeMismatch:
    name = getattr(f, "__name__", type(f).__name__)
    return TypeMismatch(
        f"{'this lambda' if name == '<lambda>' else name + '()'} returns {found}, not {to}: expected {to}, found "
        f"{found}"
    )


def _declared(
    f: Callable[..., Any],
    params: Sequence[Type | None],
    error: Untraceable,
    task: bool,
    to: Type | None,
    truth: bool,
    tried: _Tried,
    inner: Traced | None,
    many: bool = False,
    asks: Type | None = None,
) -> tuple[Type | None, Type | None]:
    """The result type of an opaque function: as it is declared, or as all its paths show where engines can run it.

    What it returned on a few events is no such thing: other events may give something else, None where one may be.  So
    a state that is neither annotated nor shown by the paths is any Python object.
    """
    annotation = _annotation(f)
    state = _state_of(annotation, params[0], inner) if task else None
    if truth:
        return BOOL, None
    if to is not None:
        return (state, to) if task else (to, None)
    name = name_of(f)
    if annotation is not None and not task:
        return type_of(annotation), None
    events = _events_of(annotation) if task else None
    if events is not None:
        return state, type_of(events)
    if (
        not task
        and error.reason.startswith("returns ")
        and ("on one path and" in error.reason or "returns None" in error.reason)
    ):
        raise TypeMismatch(f"{name} {error.reason}; every path must return the same type")
    _refuse_no_triple(f, tried, asks)
    found = None if inner is None else inner.event if task else _result_of(inner)
    if found is None and inner is not None and asks is not None:
        return state, None  # it emits nothing on any path: its on_time= does
    if found is None:
        what = "the type of its events" if task or many else "the type of its result"
        how = "annotate it (-> float) or pass to=…"
        if task or many:
            three = "tuple[State, list[Event], list[Time]]"
            declared = "list[Event]" if many else three if asks is not None else "tuple[State, list[Event]]"
            how = f"annotate it (-> {declared}) or pass to=…"
        if tried.failures:
            args, failure = tried.args[0], tried.failures[0]
            shown = ", ".join(map(repr, args))
            raise PipelineError(
                f"{name} fails on every event that was tried, such as {shown}: {type(failure).__name__}: "
                f"{failure}{place_of(failure)}. Correct it; if it works on other events, {what} must be given: {how}"
            )
        likely = tried.likely(task, many)
        if likely is None and tried.outcomes and not task and not (many and tried.only_lists):
            value = next(o for o in tried.outcomes if not isinstance(o, BaseException))
            if many:
                raise TypeMismatch(
                    f"{name} returns {described(value)}: expected a list of events, such as e.items or [e.a, e.b]"
                )
            hint = "a task can emit a list of events"
            if isinstance(value, (list, tuple)):
                hint = "explode emits the elements of a list; one that is an event itself needs to=list[…]"
            raise TypeMismatch(
                f"{name} returns {described(value)}, which is no event: expected a bool, an int, a float, a str, an "
                f"enum's member, a record or a tuple of those; {hint}"
            )
        if likely is not None:
            how += f", such as to={annotation_of(likely)} if what it gave on a few events is all that it can be"
        raise PipelineError(
            f"{name} cannot be traced: it {error.reason}. It can still run, but then {what} must be given: {how}"
        )
    return (state, found) if task else (found, None)


def _state_of(annotation: Any, given: Type | None, inner: Traced | None) -> Type | None:
    """The type of the state of an opaque task: as it is annotated, or shown; None: any Python object."""
    if given is None:
        return None
    if inner is not None:
        return join(given, inner.result) or inner.result
    parts = typing.get_args(annotation) if typing.get_origin(annotation) is tuple else ()
    if len(parts) not in (2, 3):
        return None
    try:
        return NOTHING if parts[0] is type(None) else type_of(parts[0])
    except TypeMismatch:  # such as a dict: no event, but a state may be anything
        return None


def _events_of(annotation: Any) -> Any:
    """The events of a task whose annotation has a state and a list of them (and a list of times); None if it has not.

    >>> _events_of(tuple[int, list[float]]), _events_of(tuple[int, tuple[str, ...]]), _events_of(int)
    (<class 'float'>, <class 'str'>, None)
    """
    parts = typing.get_args(annotation) if typing.get_origin(annotation) is tuple else ()
    events = parts[1] if len(parts) in (2, 3) else None
    items = typing.get_args(events) if typing.get_origin(events) in (list, tuple, Sequence) else ()
    return items[0] if len(items) == 1 or (len(items) == 2 and items[1] is Ellipsis) else None


def _refuse_no_triple(f: Callable[..., Any], tried: _Tried, asks: Type | None) -> None:
    """Refuse a task with ``on_time=`` that returned something else than three things each time it was tried."""
    if asks is None or not tried.outcomes or tried.failures:
        return
    found = [no_triple(value) for value in tried.outcomes if not isinstance(value, BaseException)]
    if all(found):
        raise PipelineError(
            f"{name_of(f)} must return three things, (state, [events], [times to be called at]), as on_time= is given, "
            f"but returns {found[0]}; no times are an empty list"
        )


class _Tried:
    """What a function returned, or how it failed, on a few sample events; nothing with an effect is run for this."""

    def __init__(self, f: Callable[..., Any], params: Sequence[Type | None], error: Untraceable) -> None:
        self._f, self._params, self._error = f, params, error
        self.args: list[list[Any]] = []

    @functools.cached_property
    def outcomes(self) -> list[Any]:
        """Values, and exceptions where it failed; empty if it was not called."""
        known = [p for p in self._params if p is not None]
        if self._error.effect or len(known) < len(self._params):
            return []
        watch = watched(self._f, effects_only=True)
        out: list[Any] = []
        for args in _samples(known, 12, modest=True):
            try:
                with watch.captured(), watch:
                    out.append(self._f(*args))
                refuse_undone_value(name_of(self._f), out[-1])
            except Untraceable:
                return []
            except (PipelineError, Control, KeyboardInterrupt):
                raise
            except BaseException as error:
                out.append(error)
            self.args.append(args)
        return out

    @property
    def failures(self) -> list[BaseException]:
        """How it failed, if it failed each time."""
        return list(self.outcomes) if all(isinstance(o, BaseException) for o in self.outcomes) else []

    @property
    def only_lists(self) -> bool:
        """Whether it returned lists and nothing else."""
        return all(isinstance(o, (list, tuple)) for o in self.outcomes)

    def likely(self, task: bool, many: bool) -> Type | None:
        """What holds all that it returned, or all events that it emitted: to be proposed, and never to be relied on."""
        found: Type | None = None
        for value in self.outcomes:
            if isinstance(value, BaseException):
                continue
            if task and no_pair(value) is not None and no_triple(value) is not None:
                return None
            events = value[1] if task else value if many else [value]
            if not isinstance(events, (list, tuple)):
                return None
            for event in events:
                own = type_of_value(event)
                found = own if found is None or own is None else _either(found, own)
                if found is None:
                    return None
        return None if found == NOTHING else found


def _either(a: Type, b: Type) -> Type | None:
    """What holds both, for a proposal: a record that is None at times is one that may be missing."""
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.items) == len(b.items):
        items = [_either(x, y) for x, y in zip(a.items, b.items, strict=True)]
        return TupleType(tuple(items)) if all(items) else None  # type: ignore[arg-type]
    some = b if a == NOTHING else a
    return maybe(some) if NOTHING in (a, b) and some != NOTHING else join(a, b)


# ---------------------------------------------------------------- spot check

_INTERESTING: dict[Type, list[Any]] = {
    BOOL: [False, True],
    INT: [1, 0, 2, -1, 3, 7, -5, 10, 100, -64, 12345, 2**31, -(2**40), 2**63 - 1, -(2**63)],
    FLOAT: [1.0, 0.0, -1.0, 2.5, -0.5, 100.25, 1e9, -1e-9],
    STR: ["a", "", "b", "buy", "x y"],
}


def _pool(t: Type, more: Mapping[Type, list[Any]]) -> list[Any]:
    """Values of a column to try, the simplest first."""
    if isinstance(t, OptionalType):
        return [*_pool(t.inner, more), *[None] * (1 + len(_pool(t.inner, more)) // 4)]
    if isinstance(t, EnumType):
        return list(t.members)
    if isinstance(t, ListType):
        items = [args[0] for args in _samples([t.item], 6, more)]
        if isinstance(t.item, OptionalType):
            items[1] = None
        return [t.cls(items[i : i + size]) for i, size in ((0, 2), (0, 0), (1, 1), (1, 3), (3, 3), (0, 1))]
    if isinstance(t, (TimeType, DecimalType)):
        limit = t.limits()[0] or (-(2**63), 2**63 - 1)
        numbers = more.get(INT) or (_DAYS if t == DATE else _INTERESTING[INT] if isinstance(t, DecimalType) else _TICKS)
        return [t.value(v) for v in numbers if limit[0] <= v <= limit[1]] or [t.value(0)]
    return more.get(t) or _INTERESTING.get(t) or [None]


_DAYS = [15_706, 0, -1, 11_016, 19_782, -719_162, 2_932_896]  # also a leap day and the ends of the calendar
_TICKS = [day * DAY + part for day in _DAYS for part in (18_000_000_000, 0, DAY - 1, 45_296_789_012)]


def _constants(f: Callable[..., Any], traced: Traced) -> dict[Type, list[Any]]:
    """The numbers and texts that the function or its trace mentions: where it is likely to turn."""
    values: list[Any] = [e.value for e in walk(*traced.roots()) if e.op == "const"]
    code = _code(f)
    values += code.co_consts if code else ()
    ints = {v + d for v in values if type(v) is int for d in (-1, 0, 1) if fits_int(v + d)}
    texts = {v for v in values if type(v) is str and len(v) < 40}
    return {
        INT: sorted(ints)[:40],
        FLOAT: sorted({v for v in values if type(v) is float and v == v} | {float(i) for i in ints})[:40],
        STR: sorted(texts)[:40],
    }


def _samples(
    params: Sequence[Type], count: int, more: Mapping[Type, list[Any]] | None = None, *, modest: bool = False
) -> list[list[Any]]:
    """The same few events every time: simple ones first, then mixed; ``more`` are values of interest.

    With ``modest`` no int is large: a text that is repeated 2**31 times would fill the memory.
    """
    rng = random.Random(20211)
    more = more or {}
    out = []
    for i in range(count):
        args = []
        for t in params:
            leaves: list[Any] = []
            for _, kind in t.columns():
                pool = _pool(kind, more if i % 2 else {})
                if modest:
                    pool = [v for v in pool if type(v) is not int or -_MODEST <= v <= _MODEST] or [0]
                leaves += kind.flatten(pool[0] if i == 0 else rng.choice(pool))
            args.append(t.unflatten(leaves))
        out.append(args)
    return out


def _spot_check(f: Callable[..., Any], traced: Traced, truth: bool) -> None:
    """Compare the trace with the function itself on sample events; they must agree, failures included.

    The watch over impure calls sees what a trace runs; this sees what it could not.
    """
    modest = has_text(*traced.roots())
    for args in _samples(traced.params, _SAMPLES, _constants(f, traced), modest=modest):
        want, got = _outcome(f, traced, args, truth), _traced_outcome(traced, args)
        if isinstance(want, _Failure) and isinstance(got, _Failure):
            continue  # where two things fail, the trace may come to the other one first
        if got == _Failure("overflow") and isinstance(got, _Failure):
            continue  # plain Python has larger numbers on its way: `Function.call` looks for that
        if repr(want) != repr(got):
            raise Untraceable(f"gives {want} when called with {args} where its trace gives {got}", effect=True)


def _overflow_of(traced: Traced, args: Sequence[Any]) -> None:
    try:
        evaluate_call(traced, args)
    except Overflow64:
        raise
    except (UserRaise, Exception):
        pass


class _Failure(str):
    """How a call failed."""

    __repr__ = str.__str__


def _outcome(f: Callable[..., Any], traced: Traced, args: list[Any], truth: bool) -> Any:
    try:
        value = f(*[wrap(t, a) for t, a in zip(traced.params, args, strict=True)])
        if truth:
            return bool(value)
        if traced.many:
            return list(conform(_result_of(traced), value))
        if traced.count is None:
            return conform(traced.result, value)
        events = [conform(traced.event, e) for e in value[1]] if traced.event else []
        if traced.asks is not None:
            return conform(traced.result, value[0]), events, [conform(traced.asks, t) for t in value[2]]
        return conform(traced.result, value[0]), events
    except Overflow64:
        return _Failure("overflow")
    except ValueError as error:
        return _Failure("overflow" if "64 bits" in str(error) else "an error")
    except (Control, KeyboardInterrupt):
        raise
    except BaseException:
        return _Failure("an error")


def _traced_outcome(traced: Traced, args: list[Any]) -> Any:
    try:
        return evaluate_call(traced, args)
    except Overflow64:
        return _Failure("overflow")
    except (UserRaise, Exception):
        return _Failure("an error")
