"""Functions that cannot be traced because they are wrong: told when the pipeline is built, with the field or name that
was meant.

A function that only cannot be *traced* still runs, event by event.  One that asks an event for a field that its type
does not have runs on no event that comes there, and a task that returns no pair is refused at its first event: to say
of these that they can still run would be untrue.  What is refused here is certain: the field is looked for in a real
event of the type, and a path on which something else than a pair is returned is a path of the function.
"""

from __future__ import annotations

import enum
import functools
import inspect
import os
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pellucid.errors import PipelineError, nearest
from pellucid.internal.expr.tracing.rich import Rich
from pellucid.internal.expr.tracing.symbolic import Sym
from pellucid.internal.expr.types import RecordType, TupleType, Type

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
    pellucid.errors.PipelineError: ask() is an async function: calling it gives a coroutine that nobody waits for, and
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
            f"{name} is an async function: calling it gives a coroutine that nobody waits for, and no value; write a "
            "plain function, without async"
        )
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise PipelineError(
            f"{name} is a generator function: calling it gives a generator that nobody runs, and no value; return the "
            "value, or a list where several are wanted, without yield"
        )


def refuse_undone_value(name: str, value: Any) -> None:
    """Refuse what a function returned if it is, or has in it, a coroutine or a generator.

    >>> refuse_undone_value("this lambda", (1, (i for i in range(3))))
    Traceback (most recent call last):
    ...
    pellucid.errors.PipelineError: this lambda returns a generator, and no value: nobody waits for it, or runs it;
    return the value, or a list where several are wanted
    """
    for part in value if type(value) in (tuple, list) else (value,):
        if isinstance(part, UNDONE):
            if isinstance(part, types.CoroutineType):
                part.close()  # else Python warns that nobody waited for it
            raise PipelineError(
                f"{name} returns {described(part)}, and no value: nobody waits for it, or runs it; return the value, "
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
    """What a task that is told of times returned instead of ``(state, [events], [times])``, in words; None if it is
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
