"""The dataclasses, named tuples and enums that a pipeline itself has: the only types, besides Python's own data, of a
saved state.

They are found from the pipeline, never by a name in a file: the types of its events; what its functions name (and the
functions and classes which those name, in turn), their annotations; and whatever else stands in the modules of the
functions.

>>> from typing import NamedTuple
>>> class Sale(NamedTuple):
...     shop: str
>>> own = OwnTypes([lambda seen, v: (seen, [Sale("x")])])
>>> own.label(Sale), own.find("Sale") is Sale, own.find("subprocess.Popen")
('Sale', True, None)
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from pellucid.internal.expr.tracing.reach import global_names

if TYPE_CHECKING:
    from pellucid.internal.graph.model import Graph

_MOST = 20_000  # things to look at
_LONG = 1000
_CONTAINERS = (list, tuple, set, frozenset)


class OwnTypes:
    """The types by the names under which they are saved: the name within the module; where two share it, with the
    module's."""

    def __init__(self, functions: Iterable[Callable[..., Any]] = (), others: Iterable[Any] = ()) -> None:
        self._roots = [*functions], [*others]

    @staticmethod
    def of(graph: Graph) -> OwnTypes:
        """Those of a pipeline."""
        nodes = [*graph.nodes, *(node for node, _ in graph.functions())]
        return OwnTypes(
            [fn.plain for _, fn in graph.functions()], [x for n in nodes for x in (n.type, n.state, n.key, n.start)]
        )

    @functools.cached_property
    def _found(self) -> dict[str, type | None]:
        """By both names; None where a short one has several meanings."""
        out: dict[str, type | None] = {}
        for cls in _walk(*self._roots):
            for name in (cls.__qualname__, _long(cls)):
                out[name] = cls if out.setdefault(name, cls) is cls else None
        return out

    def find(self, label: str) -> type | None:
        """The type that was saved under this name, if the pipeline has it."""
        return self._found.get(label)

    def label(self, cls: type) -> str | None:
        """The name under which a type is saved; None if it is none of the pipeline's."""
        return next((name for name in (cls.__qualname__, _long(cls)) if self._found.get(name) is cls), None)


def _long(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def is_record(cls: Any) -> bool:
    """Whether it is a dataclass, a named tuple or an enum.

    >>> from fractions import Fraction
    >>> is_record(enum.Enum), is_record(Fraction)
    (True, False)
    """
    if not isinstance(cls, type):
        return False
    return (
        dataclasses.is_dataclass(cls)
        or issubclass(cls, enum.Enum)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )


def _walk(functions: list[Any], others: list[Any]) -> list[type]:
    """All such types that can be reached."""
    found: dict[type, None] = {}
    seen: dict[int, Any] = {}
    stack = [*others, *functions]
    for f in map(_plain, functions):
        if isinstance(f, types.FunctionType):
            stack += [v for v in f.__globals__.values() if is_record(v) and not foreign(v.__module__)]
            stack += _of_function(f)
    while stack and len(seen) < _MOST:
        value = stack.pop()
        if isinstance(value, (str, bytes, int, float, type(None))) and not isinstance(value, enum.Enum):
            continue
        if id(value) in seen:
            continue
        seen[id(value)] = value  # kept alive, so that its id stays its own
        if is_record(value):
            found[value] = None
        stack += _next(value)
    return list(found)


def _plain(f: Any) -> Any:
    """The function inside a method, a partial or an object that can be called."""
    while isinstance(f, (types.MethodType, functools.partial)):
        f = f.__func__ if isinstance(f, types.MethodType) else f.func
    if hasattr(f, "__globals__") or isinstance(f, type):
        return f
    return getattr(type(f), "__call__", f)  # noqa: B004 - its code is wanted


def foreign(module: str | None) -> bool:
    """Whether it belongs to Python, NumPy or Pellucid, and not to who wrote the pipeline: nothing is looked for inside.

    >>> foreign("collections.abc"), foreign("shop.types")
    (True, False)
    """
    top = (module or "").split(".", 1)[0]
    return top in ("pellucid", "builtins", "numpy") or (top in sys.stdlib_module_names and top != "__main__")


def _next(value: Any) -> list[Any]:
    if isinstance(value, types.FunctionType):
        return [] if foreign(value.__module__) else _of_function(value)
    if isinstance(value, type):
        return [] if foreign(value.__module__) else [*value.__bases__, *_inside(value), *_hints(value)]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, dict):
        return [type(value), *_some(value), *_some(value.values())]
    if isinstance(value, _CONTAINERS):
        return [type(value), *_some(value)]
    if isinstance(value, types.ModuleType):
        return []  # what code names of it: see _of_function
    if args := typing.get_args(value):  # list[Sale], Sale | None
        return [typing.get_origin(value), *args]
    return [type(value), *getattr(value, "__dict__", {}).values(), *_slots(value)]


def _some(values: Collection[Any]) -> list[Any]:
    """What is held, but of a long table only the beginning and the types."""
    return list(values) if len(values) <= _LONG else [*islice(values, _LONG), *set(map(type, values))]


def _inside(cls: type) -> list[Any]:
    if issubclass(cls, enum.Enum):
        return []
    return [v for k, v in vars(cls).items() if not (k.startswith("__") and _written_for_it(v))]


def _written_for_it(value: Any) -> bool:
    """Whether a method was written by @dataclass: it holds the class as it was before it got its slots."""
    code = getattr(value, "__code__", None)
    return code is None or code.co_filename == "<string>"


def _slots(value: Any) -> list[Any]:
    out = []
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            with contextlib.suppress(AttributeError):
                out.append(getattr(value, field.name))
    return out


def _hints(value: Any) -> list[Any]:
    try:
        return list(typing.get_type_hints(value).values())
    except Exception:  # a name that is not there (any more): what can be read of it
        with contextlib.suppress(Exception):
            return [v for v in value.__annotations__.values() if not isinstance(v, str)]
        return []


def _of_function(f: types.FunctionType) -> list[Any]:
    out = _hints(f)
    attributes = {name for code in _codes(f.__code__) for name in code.co_names}
    for name in global_names(f.__code__):
        value = f.__globals__.get(name)
        if isinstance(value, types.ModuleType):
            out += [vars(value)[k] for k in attributes if k in vars(value)]
        elif value is not None:
            out.append(value)
    for cell in f.__closure__ or ():
        with contextlib.suppress(ValueError):  # not set yet
            out.append(cell.cell_contents)
    return [*out, *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]


def _codes(code: types.CodeType) -> Iterable[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)
