"""What a function can reach without being given it: globals, closures, defaults, the object it is a method of.

A traced function must not change any of that.  Changes by a method (``history.append(x)``) are seen before
they happen; those by a statement (``table[0] = x``) afterwards, and are then undone.

`outside` lists what a function reads of that: who reads it, under which name, what it was, and how to see what it is
now.  What can change (a list, a dict, an object, a global that some function sets) is named by a verdict that relies on
it; what has changed since a pipeline was built is reported by name.

>>> limits, width = [3, 4], 2
>>> def scaled(v): return v * limits[0] * width
>>> reads = outside(scaled)
>>> [(read.name, read.may_change) for read in reads]
[('its code', False), ('limits', True), ('width', False)]
>>> width = 5
>>> [read.change().replace(read.who, "scaled()") for read in reads]
['', '', 'scaled() reads width, which is 5 now and was 2 when the pipeline was built']
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import dis
import enum
import functools
import os
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from pellucid.internal.expr.identity import chains, code_form, codes, file_of, owner_of
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
            for code in codes(value.__code__):
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
    return {op.argval for one in codes(code) for op in dis.get_instructions(one) if op.opname in _READS_GLOBALS}


def _of_function(f: types.FunctionType) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    # of attributes as well: those of a module are reached so
    names = {name for code in codes(f.__code__) for name in code.co_names}
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


# ---------------------------------------------------------------- what a function reads

_MOST_READ = 2000  # functions and values to look at
_SETTLED = (
    bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented), range, slice, enum.Enum, type,
    re.Pattern, types.ModuleType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType, types.GetSetDescriptorType, types.MemberDescriptorType, types.GenericAlias,
    types.UnionType,
)  # fmt: skip
_CALLED = (types.FunctionType, types.MethodType, functools.partial, staticmethod, classmethod, property)
_CHANGERS = ("__setitem__", "append", "add", "__next__", "write")


@dataclasses.dataclass(frozen=True)
class Outside:
    """One thing that a function reads: its name there, who reads it, what it was."""

    name: str
    who: str  # the function, with its file and line
    was: Any
    now: Callable[[], Any]
    may_change: bool
    copy: tuple[tuple[str, Any, Any], ...] = ()  # the lists, dicts and sets in it, as they were

    def change(self) -> str:
        """How it is another than it was, in words; empty if it is not."""
        now = self.now()
        if now is _GONE:
            return f"{self.who} reads {self.name}, which is gone since the pipeline was built"
        if not _alike(now, self.was):
            if isinstance(now, types.CodeType):
                return f"{self.who} has other code now than when the pipeline was built"
            values = f"{_short(now)} now and was {_short(self.was)} when the pipeline was built"
            return f"{self.who} reads {self.name}, which is {values}"
        if not all(same_contents(value, copy) for _, value, copy in self.copy):
            return f"{self.who} reads {self.name}, whose contents have changed since the pipeline was built"
        return ""


_GONE = object()


def outside(f: Any, *, copies: bool = False) -> tuple[Outside, ...]:
    """What a function reads, with the functions of the user's that it calls; ``copies`` keeps what is in it now."""
    walk = _Walk(copies)
    walk.look(f)
    return tuple(walk.found.values())


class _Walk:
    def __init__(self, copies: bool) -> None:
        self.copies = copies
        self.found: dict[tuple[int, str, int], Outside] = {}
        self._seen: dict[int, Any] = {}
        self._set: dict[int, frozenset[str]] = {}

    def look(self, value: Any, name: str = "", reader: Any = None, now: Callable[[], Any] | None = None) -> None:
        """Look at a function, or at what may hold some; ``reader`` is the function that reads it, ``now`` tells what it
        reads now: a class or a function that is defined once more is another object."""
        if id(value) in self._seen or len(self._seen) >= _MOST_READ:
            return
        self._seen[id(value)] = value
        if isinstance(value, (types.MethodType, staticmethod, classmethod)):
            self.look(value.__func__)
            own = getattr(value, "__self__", None)
            if own is not None and not isinstance(own, type):
                self._read(type(own).__name__, value.__func__, own, lambda: own, False)
        elif isinstance(value, functools.partial):
            self.look(value.func)
            for given in (*value.args, *value.keywords.values()):
                self._read("an argument of partial()", value.func, given, functools.partial(_itself, given), False)
        elif isinstance(value, property):
            self.look(value.fget)
        elif isinstance(value, types.FunctionType):
            if owner_of(value.__code__.co_filename) == "user":
                self._function(value, functools.partial(_current, now, value))
        elif hasattr(value, "__wrapped__"):
            self.look(value.__wrapped__)
        elif isinstance(value, type):
            for cls in value.__mro__:
                if owner_of(file_of(cls.__module__)) == "user" and not issubclass(cls, enum.Enum):
                    self._members(cls, reader or value, now if cls is value else None)
        elif isinstance(value, (tuple, list, set, frozenset)):
            for item in value:
                self._held(item, reader)
        elif isinstance(value, dict):
            for item in value.values():
                self._held(item, reader)
        elif not isinstance(value, _SETTLED) and not ours(type(value).__module__):
            self.look(type(value), reader=reader)
            called = getattr(type(value), "__call__", None)  # noqa: B004 - its code is wanted
            if isinstance(called, types.FunctionType) and not name:  # the object is the function itself
                self._read(type(value).__name__, called, value, lambda: value, False)

    def _held(self, item: Any, reader: Any) -> None:
        if isinstance(item, _CALLED) or not isinstance(item, _SETTLED):
            self.look(item, "held", reader)

    def _members(self, cls: type, reader: Any, again: Callable[[], Any] | None) -> None:
        """The methods of a class, and its attributes."""
        for name, member in list(vars(cls).items()):
            if isinstance(member, _CALLED) or not name.startswith("__"):
                now = functools.partial(_of_class, functools.partial(_current, again, cls), name)
                self._read(f"{cls.__name__}.{name}", reader, member, now, False, private=name.startswith("_"))

    def _function(self, f: types.FunctionType, again: Callable[[], Any]) -> None:
        code = functools.partial(_code_of, again)
        self.found[id(f), "its code", 0] = Outside("its code", _who(f), f.__code__, code, False)
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        for chain in sorted(chains(f.__code__)):
            first = chain[0]
            if first in cells:
                now: Callable[[], Any] = functools.partial(_of_cell, cells[first])
                self._follow(f, chain, now, False)
            elif first in f.__globals__:
                now = functools.partial(dict.get, f.__globals__, first, _GONE)
                self._follow(f, chain, now, first in self._names_set(f.__globals__))
            elif hasattr(builtins, first):
                now = functools.partial(_of_builtins, f.__globals__, first)
                self._follow(f, chain, now, first in self._names_set(f.__globals__))
        for given, value in _defaults(f).items():
            self._read(f"the default of {given}", f, value, functools.partial(_default, again, given), False)

    def _follow(self, f: types.FunctionType, chain: tuple[str, ...], now: Callable[[], Any], rebound: bool) -> None:
        """A name with attributes: of modules what is asked of them, of all else the whole."""
        name, value = chain[0], now()
        for attribute in chain[1:]:
            if not isinstance(value, types.ModuleType):
                break
            now = functools.partial(_of_module, value, attribute)
            users = owner_of(getattr(value, "__file__", None)) == "user"
            rebound = users and attribute in self._names_set(vars(value))
            name, value = f"{name}.{attribute}", now()
        if value is not _GONE and not isinstance(value, types.ModuleType):
            self._read(name, f, value, now, rebound)

    def _read(
        self, name: str, f: Any, value: Any, now: Callable[[], Any], rebound: bool, *, private: bool = False
    ) -> None:
        key = id(f), name, id(value)
        if key not in self.found:
            copy = () if not self.copies or isinstance(value, (*_SETTLED, *_CALLED)) else _copies(value)
            may_change = rebound or not (private or settled(value))
            self.found[key] = Outside(name, _who(f), value, now, may_change, copy)
        self.look(value, name, f, now)

    def _names_set(self, names: dict[str, Any]) -> frozenset[str]:
        """The globals of a module that one of its functions sets."""
        if id(names) not in self._set:
            held = list(names.values())
            held += [member for one in held if isinstance(one, type) for member in vars(one).values()]
            made = [f.__code__ for f in held if isinstance(f, types.FunctionType) and f.__globals__ is names]
            self._set[id(names)] = frozenset(name for code in made for name in _sets(code))
        return self._set[id(names)]


@functools.lru_cache(maxsize=4096)
def _sets(code: types.CodeType) -> frozenset[str]:
    ops = (op for one in codes(code) for op in dis.get_instructions(one))
    return frozenset(str(op.argval) for op in ops if op.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"))


def _who(f: Any) -> str:
    code = getattr(f, "__code__", None)
    name = getattr(f, "__name__", type(f).__name__)
    called = "a lambda" if name == "<lambda>" else f"{name}()"
    return f"{called} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code is not None else called


def _itself(value: Any) -> Any:
    return value


def _of_cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return _GONE


def _of_module(module: types.ModuleType, name: str) -> Any:
    return vars(module).get(name, _GONE)


def _current(now: Callable[[], Any] | None, was: Any) -> Any:
    """A function or class that is there now, in place of one that was."""
    found = was if now is None else now()
    return found if isinstance(found, type(was)) else was


def _code_of(again: Callable[[], Any]) -> types.CodeType:
    return again().__code__  # type: ignore[no-any-return]


def _of_class(again: Callable[[], Any], name: str) -> Any:
    return vars(again()).get(name, _GONE)


def _of_builtins(names: dict[str, Any], name: str) -> Any:
    """A builtin, unless there is a global of its name now."""
    return names.get(name, getattr(builtins, name, _GONE))


def _defaults(f: types.FunctionType) -> dict[str, Any]:
    arguments = f.__code__.co_varnames[: f.__code__.co_argcount]
    return dict(zip(arguments[::-1], (f.__defaults__ or ())[::-1], strict=False)) | (f.__kwdefaults__ or {})


def _default(again: Callable[[], Any], given: str) -> Any:
    return _defaults(again()).get(given, _GONE)


def _copies(value: Any) -> tuple[tuple[str, Any, Any], ...]:
    try:
        return kept_of(functools.partial(_nothing, value))
    except Exception:  # it holds an iterator, which cannot be looked at without moving it
        return ()


def _nothing(*given: Any) -> None:
    """Reads nothing."""


def settled(value: Any) -> bool:
    """Whether a value stays what it is: a number, a text, a tuple of such, a frozen record.

    >>> settled((1, "a", frozenset({2}))), settled((1, [2])), settled({}), settled(re.compile("a"))
    (True, False, False, True)
    """
    if isinstance(value, (*_SETTLED, *_CALLED)):
        return True
    if isinstance(value, (tuple, frozenset)):
        return all(map(settled, value))
    kind = type(value)
    if dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return all(settled(getattr(value, field.name, None)) for field in dataclasses.fields(kind))
    if isinstance(value, (list, dict, set, bytearray)) or any(hasattr(kind, name) for name in _CHANGERS):
        return False
    return ours(kind.__module__) or not (hasattr(value, "__dict__") or "__slots__" in vars(kind))


def _alike(now: Any, was: Any) -> bool:
    if now is was:
        return True
    if isinstance(now, types.CodeType) and isinstance(was, types.CodeType):
        return code_form(now) == code_form(was)
    if isinstance(now, types.FunctionType) and isinstance(was, types.FunctionType):  # a cell that is run once more
        return code_form(now.__code__) == code_form(was.__code__)
    if isinstance(now, type) and isinstance(was, type):
        return now.__qualname__ == was.__qualname__
    try:
        return type(now) is type(was) and (bool(now == was) or repr(now) == repr(was))
    except Exception:  # such as an array
        return False


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def changing(f: Any) -> Iterator[Outside]:
    """What a function reads that can change while it is the same function."""
    return (read for read in outside(f) if read.may_change)
