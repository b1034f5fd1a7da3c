"""What a function can reach without being given it: globals, closures, defaults, the object it is a method of.

A traced function must not change any of that.  Changes by a method (``history.append(x)``) are seen before
they happen; those by a statement (``table[0] = x``) afterwards, and are then undone.
"""

from __future__ import annotations

import contextlib
import dis
import enum
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

from pellucid.internal.expr.tracing.symbolic import Untraceable

_READS_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}

#: The methods of lists, dicts, sets and bytearrays that change them.
MUTATORS = frozenset({
    "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "popitem", "setdefault", "update", "add",
    "discard", "difference_update", "intersection_update", "symmetric_difference_update", "__setitem__", "__delitem__",
    "__iadd__", "__imul__", "__ior__", "__iand__", "__isub__", "__ixor__", "__setattr__", "__delattr__",
})  # fmt: skip
_PLAIN = (bool, int, float, complex, str, bytes, enum.Enum, type(None), range, types.BuiltinFunctionType, property)
_MOST = 50_000  # how many objects to look at


class Captured:
    """The mutable things a function can reach; as a context, it puts them back and says no if one was changed."""

    def __init__(self, f: Any) -> None:
        self.f = f
        self.names: dict[int, str] = {}
        self.kept: list[tuple[str, Any, Any]] = []  # name, object, copy of its contents

    def name_of(self, value: Any) -> str | None:
        """The name by which the function reaches this object; None if it made it itself."""
        return self.names.get(id(value))

    def __enter__(self) -> None:
        self.names, self.kept = {}, []
        strange, stores = "", False
        for name, value in _reach(self.f):
            if isinstance(value, types.CodeType):
                stores = stores or _stores_items(value)
            elif isinstance(value, (list, bytearray)):
                self._keep(name, value, value[:])
            elif isinstance(value, (dict, set)):
                self._keep(name, value, value.copy())
            elif hasattr(type(value), "__next__"):
                raise Untraceable(f"uses the iterator {name!r}, which it did not make", effect=True)
            elif hasattr(type(value), "__setitem__"):
                strange = name
            else:
                self.names[id(value)] = name
        if strange and stores:
            raise Untraceable(f"may change {strange!r}, which it did not make", effect=True)

    def _keep(self, name: str, value: Any, copy: Any) -> None:
        self.names[id(value)] = name
        self.kept.append((name, value, copy))

    def __exit__(self, *error: object) -> None:
        changed = [name for name, value, copy in self.kept if not _put_back(value, copy)]
        self.kept = []
        if changed:
            raise Untraceable(f"changes {changed[0]!r}, which it did not make", effect=True)


def kept_of(f: Any) -> tuple[tuple[str, Any, Any], ...]:
    """The lists, dictionaries and sets that a function can reach: name, object, a copy of what is in it now."""
    captured = Captured(f)
    captured.__enter__()
    return tuple(captured.kept)


def same_contents(value: Any, copy: Any) -> bool:
    """Whether a list, dict or set holds what its copy holds: the very same objects, in the same order."""
    if len(value) != len(copy):
        return False
    if isinstance(value, list):
        return all(a is b for a, b in zip(value, copy, strict=True))
    if isinstance(value, dict):
        return all(a is b and value[a] is copy[b] for a, b in zip(value, copy, strict=True))
    return bool(value == copy)


def _put_back(value: Any, copy: Any) -> bool:
    """Whether the contents are as they were; if not, they are put back."""
    same = same_contents(value, copy)
    if not same:
        if isinstance(value, (list, bytearray)):
            value[:] = copy
        else:
            value.clear()
            value.update(copy)
    return same


@functools.lru_cache(maxsize=4096)
def _stores_items(code: types.CodeType) -> bool:
    return any(op.opname in ("STORE_SUBSCR", "DELETE_SUBSCR") for op in dis.get_instructions(code))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


def _reach(f: Any) -> Iterator[tuple[str, Any]]:
    """Everything that may matter, once, with a name for it; the code of every function as well."""
    seen: dict[int, Any] = {}
    stack: list[tuple[str, Any]] = [(getattr(f, "__name__", type(f).__name__), f)]
    while stack and len(seen) < _MOST:
        name, value = stack.pop()
        if isinstance(value, _PLAIN) or id(value) in seen:
            continue
        seen[id(value)] = value  # kept alive, so that its id stays its own
        if isinstance(value, types.FunctionType):
            if ours(value.__module__):
                continue
            for code in _codes(value.__code__):
                yield name, code
            stack += _of_function(value)
        elif isinstance(value, types.MethodType):
            stack += [(name, value.__func__), (type(value.__self__).__name__, value.__self__)]
        elif isinstance(value, functools.partial):
            stack += [(name, value.func), *((name, a) for a in (*value.args, *value.keywords.values()))]
        elif isinstance(value, (staticmethod, classmethod)):
            stack.append((name, value.__func__))
        elif isinstance(value, type):
            if not ours(value.__module__) and not issubclass(value, enum.Enum):
                stack += [(f"{name}.{k}", v) for k, v in vars(value).items() if not k.startswith("__") or callable(v)]
        elif isinstance(value, (tuple, frozenset)):
            stack += [(name, v) for v in value]
        elif isinstance(value, (list, set, bytearray)):
            yield name, value
            stack += [(name, v) for v in value if not isinstance(v, _PLAIN)]
        elif isinstance(value, dict):
            yield name, value
            stack += [(name, v) for v in value.values() if not isinstance(v, _PLAIN)]
        elif isinstance(value, types.ModuleType):
            continue  # what the code names of it: see _of_function
        elif hasattr(type(value), "__next__") or hasattr(type(value), "__setitem__"):
            yield name, value
        elif not type(value).__module__.startswith("pellucid."):
            yield name, value
            stack += _of_object(name, value)


def ours(module: str | None) -> bool:
    """Whether it is of Python itself or of Pellucid: what happens inside is not the user's doing."""
    top = (module or "").split(".", 1)[0]
    return top in ("pellucid", "builtins") or (top in sys.stdlib_module_names and top != "__main__")


def global_names(code: types.CodeType) -> set[str]:
    """The globals and builtins that code reads; a field of the same name (``t.total``) is none of them.

    >>> sorted(global_names((lambda t: max(t.total, limit)).__code__))
    ['limit', 'max']
    """
    return {op.argval for one in _codes(code) for op in dis.get_instructions(one) if op.opname in _READS_GLOBALS}


def _of_function(f: types.FunctionType) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    # of attributes as well: those of a module are reached so
    names = {name for code in _codes(f.__code__) for name in code.co_names}
    for name in global_names(f.__code__):
        if name in f.__globals__:
            value = f.__globals__[name]
            if isinstance(value, types.ModuleType):
                if not ours(value.__name__):
                    found += [(f"{name}.{k}", vars(value)[k]) for k in names if k in vars(value)]
            else:
                found.append((name, value))
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            found.append((name, cell.cell_contents))
    parameters = f.__code__.co_varnames[: f.__code__.co_argcount]
    defaults = f.__defaults__ or ()
    found += list(zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True))
    return found + list((f.__kwdefaults__ or {}).items())


def _of_object(name: str, value: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = [(type(value).__name__, type(value))]
    contents = getattr(value, "__dict__", None)
    if isinstance(contents, dict):
        found.append((name, contents))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            with contextlib.suppress(AttributeError):
                found.append((f"{name}.{slot}", object.__getattribute__(value, slot)))
    return found
