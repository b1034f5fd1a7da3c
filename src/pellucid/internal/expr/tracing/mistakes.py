"""Functions that cannot be traced because they are wrong: told when the pipeline is built, with the field or name that
was meant.

A function that only cannot be *traced* still runs, event by event.  One that asks an event for a field that its type
does not have runs on no event that comes there, and a task that returns no pair is refused at its first event: to say
of these that they can still run would be untrue.  What is refused here is certain: the field is looked for in a real
event of the type, and a path on which something else than a pair is returned is a path of the function.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import os
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pellucid.errors import Control, PipelineError, nearest
from pellucid.internal.expr.tracing.purity import watched
from pellucid.internal.expr.tracing.rich import Rich
from pellucid.internal.expr.tracing.symbolic import Sym, Untraceable
from pellucid.internal.expr.types import OptionalType, RecordType, TupleType, Type

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def name_of(f: Callable[..., Any]) -> str:
    """How a message calls a function."""
    name = getattr(f, "__name__", type(f).__name__)
    return "this lambda" if name == "<lambda>" else f"{name}()"


def refuse_missing_attribute(
    f: Callable[..., Any],
    params: Iterable[Type | None],
    error: AttributeError,
    sample: Callable[[Type], Any],
    tried: Sequence[BaseException],
) -> None:
    """Refuse a function that failed in its trace on an attribute, if real events do not have it either.

    ``sample`` makes a real event of a type; ``tried`` is how the function itself failed on sample events, if it failed
    on all.
    """
    thing, name = error.obj, error.name
    at = place_of(error)
    if isinstance(thing, type) and issubclass(thing, enum.Enum):
        raise PipelineError(f"{name_of(f)} asks for {thing.__name__}.{name}{at}, but {_members(thing, str(name))}")
    if isinstance(thing, enum.Enum):
        known = [a for a in dir(thing) if not a.startswith("_")]
        raise PipelineError(
            f"{name_of(f)} asks a {type(thing).__name__} for {name!r}{at}, which it does not "
            f"have{nearest(str(name), known)}"
        )
    for t in _records(params):
        # a field that a real one gets when it is made is there
        if thing.__class__ is t.cls and not hasattr(sample(t), str(name)):
            fields = [n for n, _ in t.fields]
            raise PipelineError(
                f"{name_of(f)} reads the field {name!r}{at}, which {t.cls.__name__} does not have: "
                f"its {'fields are' if len(fields) > 1 else 'only field is'} {', '.join(fields)}"
                f"{nearest(str(name), [*fields, *(a for a in dir(t.cls) if not a.startswith('_'))])}"
            )
    # A symbolic scalar takes other ways than a number where a function asks what it is: only calls of the function
    # itself can tell.
    if type(thing) is Sym and tried and all(isinstance(e, AttributeError) and e.name == name for e in tried):
        cls = type(getattr(tried[0], "obj", None))
        known = [a for a in dir(cls) if not a.startswith("_")]
        raise PipelineError(
            f"{name_of(f)} asks an event's {cls.__name__} for {name!r}{at}, which it does not "
            f"have{nearest(str(name), known)}"
        )


#: What a call gives whose body has not run yet.
UNDONE = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)


def refuse_undone(f: Any, who: str = "") -> None:
    """Refuse a function whose call does not run it: an async one, or one with a ``yield``.

    >>> refuse_undone(len)
    >>> async def ask(v): return v
    >>> refuse_undone(ask)
    Traceback (most recent call last):
    ...
    pellucid.errors.PipelineError: ask() is an async function: calling it gives a coroutine that is never awaited, and
    no value; write a plain function, without async
    """
    call = f
    while isinstance(call, functools.partial):
        call = call.func
    if not inspect.isroutine(call) and not isinstance(call, type):
        call = getattr(type(call), "__call__", call)  # noqa: B004 - whether its body runs is asked of it
    name = who or name_of(f)
    if inspect.iscoroutinefunction(call):
        raise PipelineError(
            f"{name} is an async function: calling it gives a coroutine that is never awaited, and no value; write a "
            "plain function, without async"
        )
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise PipelineError(
            f"{name} is a generator function: calling it gives a generator that is never run, and no value; return the "
            "value, or a list where several are wanted, without yield"
        )


def refuse_undone_value(name: str, value: Any) -> None:
    """Refuse what a function returned if it is, or has in it, a coroutine or a generator.

    >>> refuse_undone_value("this lambda", (1, (i for i in range(3))))
    Traceback (most recent call last):
    ...
    pellucid.errors.PipelineError: this lambda returns a generator, and no value: it is never awaited or run;
    return the value, or a list where several are wanted
    """
    for part in value if type(value) in (tuple, list) else (value,):
        if isinstance(part, UNDONE):
            if isinstance(part, types.CoroutineType):
                part.close()  # else Python warns that it was never awaited
            raise PipelineError(
                f"{name} returns {described(part)}, and no value: it is never awaited or run; return the value, "
                "or a list where several are wanted"
            )
        if type(part) in (tuple, list):
            refuse_undone_value(name, part)


def no_pair(value: Any) -> str | None:
    """What a task returned instead of ``(state, [events])``, in words; None if it is such a pair.

    >>> no_pair([1]), no_pair((0, 1, 2)), no_pair((0, 5)), no_pair((0, [5]))
    ('a list of 1', 'a tuple of 3', 'a tuple whose second item is an int instead of a list', None)
    """
    if not isinstance(value, tuple):
        return f"a list of {len(value)}" if isinstance(value, list) else described(value)
    if len(value) != 2:
        return f"a tuple of {len(value)}"
    if isinstance(value[1], (list, tuple)):
        return None
    return f"a tuple whose second item is {described(value[1])} instead of a list"


def no_triple(value: Any) -> str | None:
    """What a task with ``on_time=`` returned instead of ``(state, [events], [times])``, in words; None if it is
    such a triple.

    >>> no_triple((0, [5])), no_triple((0, [5], 7)), no_triple((0, [5], [7]))
    ('a tuple of 2', 'a tuple whose third item is an int instead of a list', None)
    """
    if not isinstance(value, tuple):
        return f"a list of {len(value)}" if isinstance(value, list) else described(value)
    if len(value) != 3:
        return f"a tuple of {len(value)}"
    for word, item in (("second", value[1]), ("third", value[2])):
        if not isinstance(item, (list, tuple)) or hasattr(item, "_fields"):
            return f"a tuple whose {word} item is {described(item)} instead of a list"
    return None


def described(value: Any) -> str:
    """What a value is, in words."""
    if value is None:
        return "None"
    name = str(value._expr.type) if type(value) is Sym else type(value).__name__
    name = str(value._type) if isinstance(value, Rich) else name
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _members(cls: type[enum.Enum], name: str) -> str:
    names = [m.name for m in cls]
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"the members of {cls.__name__} are {shown}{nearest(name, names)}"


def _records(types: Iterable[Type | None]) -> Iterable[RecordType]:
    for t in types:
        if isinstance(t, RecordType):
            yield t
            yield from _records(inner for _, inner in t.fields)
        elif isinstance(t, TupleType):
            yield from _records(t.items)


def refuse_undefined(error: BaseException | None, who: str) -> None:
    """Refuse what failed because a name is not defined: no event makes it work, so it is no failure of this event.

    A name that is defined later is found, as in Python.

    >>> try: (lambda v: vv + 1)(2)
    ... except NameError as error: refuse_undefined(error, "map: this lambda")
    Traceback (most recent call last):
    pellucid.errors.PipelineError: map: this lambda uses the name 'vv', which is not defined (...)
    """
    while error is not None and not isinstance(error, NameError):
        error = error.__cause__
    if error is None or isinstance(error, UnboundLocalError) or not error.name:
        return
    raise PipelineError(f"{who} uses the name {error.name!r}, which is not defined{place_of(error)}") from None


def place_of(error: BaseException) -> str:
    """The line that failed: often it is that of a helper, and not of the function itself."""
    found, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_OURS) and file != enum.__file__:
            found = f" ({os.path.basename(file)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found


# Functions that ask whether a record is ``None``, which a record never is: told when the pipeline is built.
#
# What an outer join did not find has ``None`` in each of its fields.  A function that asks ``both[1] is None`` runs all
# the same, and is wrong on each event that found no match; and no trace sees it, as ``is`` cannot be overloaded.  So it
# is tried: with a record that has None in each field, as events have it, and with None in the record's place.  Where
# both go well and differ, and something that is neither is taken for a record, the function asked; one that only shows
# what it gets, as ``str`` does, shows that, too.


def refuse_asking_a_record(
    f: Callable[..., Any], params: Sequence[Type], samples: Callable[[], Iterable[Sequence[Any]]]
) -> None:
    """Refuse ``f`` if it does something else on None than on a record that has None in each field.

    >>> from pellucid.internal.expr.types import type_of
    >>> kind = type_of(tuple[int, tuple[str | None, int | None]])
    >>> refuse_asking_a_record(lambda e: e[1][0] is None, [kind], lambda: [[(1, ("a", 2))]])
    >>> refuse_asking_a_record(lambda e: e[1] is None, [kind], lambda: [[(1, ("a", 2))]])
    Traceback (most recent call last):
    ...
    pellucid.errors.PipelineError: this lambda asks whether a tuple in an event is None, or true, ...
    """
    places = [(i, path, kind) for i, t in enumerate(params) for path, kind in _places(t)]
    if not places:
        return
    watch = watched(f, effects_only=True)
    for args in samples():
        for i, path, kind in places:

            def outcome(what: Any, i: int = i, path: Sequence[int] = path, args: Sequence[Any] = args) -> Any:
                with watch.captured(), watch:
                    return f(*args[:i], _put(params[i], args[i], path, what), *args[i + 1 :])

            try:
                as_it_is, again, as_none = outcome(_nothing(kind)), outcome(_nothing(kind)), outcome(None)
                if _alike(as_it_is, as_none) or not _alike(as_it_is, again):
                    continue
                asked = _alike(as_it_is, outcome(_Neither()))
            except _TakenForRecordError:
                asked = True
            except Untraceable:
                return
            except (Control, KeyboardInterrupt):
                raise
            except BaseException:
                continue  # most fail, as None has no fields: then they do not ask
            if asked:
                raise PipelineError(_message(f, kind, path))


class _TakenForRecordError(Exception):
    """Something was taken for a record: it was asked for a field."""


class _Neither:
    """What is neither None nor a record, and says when it is taken for one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _TakenForRecordError

    def __getitem__(self, at: Any) -> Any:
        raise _TakenForRecordError

    def __iter__(self) -> Any:
        raise _TakenForRecordError


def _message(f: Callable[..., Any], kind: Type, path: Sequence[int]) -> str:
    if isinstance(kind, RecordType):
        name, field = f"the {kind.cls.__name__}", f".{kind.fields[0][0]}"
    else:
        name, field = "a tuple", "[0]"
    shown = "e" + "".join(f"[{i}]" for i in path)
    return (
        f"{name_of(f)} asks whether {name} in an event is None, or true, and a record always is there: "
        f"where a join found no match, each of its fields is None; ask for one of them, as in {shown}{field} is None"
    )


def _places(t: Type | None, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Type]]:
    """The parts of a type, outermost first, that are records or tuples with nothing in them but what may be None."""
    inner = _inner(t)
    if t is None or not inner:
        return
    if _all_optional(t):
        yield path, t
    for i, part in enumerate(inner):
        yield from _places(part, (*path, i))


def _inner(t: Type | None) -> Sequence[Type]:
    if isinstance(t, RecordType):
        return [kind for _, kind in t.fields]
    return t.items if isinstance(t, TupleType) else ()


def _all_optional(t: Type) -> bool:
    inner = _inner(t)
    return all(map(_all_optional, inner)) if inner else isinstance(t, OptionalType)


def _parts(t: Type, value: Any) -> list[Any]:
    if isinstance(t, RecordType):
        return [getattr(value, name) for name, _ in t.fields]
    return list(value)


def _made(t: Type, parts: Sequence[Any]) -> Any:
    return t.made(parts) if isinstance(t, RecordType) else tuple(parts)


def _nothing(t: Type) -> Any:
    inner = _inner(t)
    return _made(t, [_nothing(part) for part in inner]) if inner else None


def _put(t: Type, value: Any, path: Sequence[int], what: Any) -> Any:
    """The event with something else in one place of it."""
    if not path:
        return what
    parts = _parts(t, value)
    parts[path[0]] = _put(_inner(t)[path[0]], parts[path[0]], path[1:], what)
    return _made(t, parts)


def _alike(a: Any, b: Any) -> bool:
    """Whether two results are one, where a record that has None in each field counts as None: who only hands it on
    does not ask."""
    return repr(_plain(a)) == repr(_plain(b))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
    if isinstance(value, _Neither):
        return None
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, tuple) and value:
        parts = tuple(map(_plain, value))
        return None if all(part is None for part in parts) else parts
    return value
