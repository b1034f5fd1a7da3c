"""Functions that ask whether a record is ``None``, which a record never is: told when the pipeline is built.

What an outer join did not find has ``None`` in each of its fields.  A function that asks ``both[1] is None`` runs all
the same, and is wrong on each event that found nobody; and no trace sees it, as ``is`` cannot be overloaded.  So it is
tried: with a record that has None in each field, as events have it, and with None in the record's place.  Where both
go well and differ, and something that is neither is taken for a record, the function asked; one that only shows what
it gets, as ``str`` does, shows that, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pellucid.errors import Control, PipelineError
from pellucid.internal.expr.tracing.mistakes import name_of
from pellucid.internal.expr.tracing.purity import watched
from pellucid.internal.expr.tracing.symbolic import Untraceable
from pellucid.internal.expr.types import OptionalType, RecordType, TupleType, Type


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
        f"where a join found nobody, each of its fields is None; ask for one of them, as in {shown}{field} is None"
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
