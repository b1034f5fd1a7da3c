"""Constant dictionaries and sets in the trace for running: looked up by Python itself, once for each key.

A dictionary that the function did not make is read as it is when the pipeline is built, like everything that is
captured.  Its values may be of several types; then the trace forks, once for each of them.

>>> table = run_stand_in({"AA": "American", "UA": "United"})
>>> table["AA"], table.get("DL", "?")
('American', '?')
"""

from __future__ import annotations

import itertools
from typing import Any, NoReturn

from pellucid.internal.expr.tracing.running import ask, unknown
from pellucid.internal.expr.tracing.symbolic import Sym, Untraceable
from pellucid.internal.expr.types import (
    BOOL,
    INT,
    EnumType,
    RecordType,
    ScalarType,
    TupleType,
    Type,
    conform,
    type_of_value,
)

_numbers = itertools.count()
_OBJECTS = 200  # values of a dictionary that are no events


class Find:
    """Reads a dictionary; a function, so that it can be called and pickled."""

    def __init__(self, values: dict[Any, Any], default: Any = ()) -> None:
        self.values, self.default = values, default

    def __call__(self, key: Any) -> Any:
        if self.default != ():
            return self.values.get(key, self.default[0])
        return self.values[key]


class Has:
    """Whether a key is there."""

    def __init__(self, keys: frozenset[Any]) -> None:
        self.keys = keys

    def __call__(self, key: Any) -> bool:
        return key in self.keys


def _type(value: Any) -> Type | None:
    t = type_of_value(value)
    if t is None or not _plain(t) or t.problem(value) is not None:
        return None
    return t if type(value) in (bool, int, float, str) or not isinstance(value, (int, float, str)) else None


def _plain(t: Type) -> bool:
    """Whether it is made of bools, numbers, texts and enums: what is richer forks, one object after the other."""
    if isinstance(t, RecordType):
        return all(_plain(sub) for _, sub in t.fields)
    if isinstance(t, TupleType):
        return all(map(_plain, t.items))
    return isinstance(t, (ScalarType, EnumType))


class RunDict(dict[Any, Any]):
    """A copy of a dictionary that the function did not make: it may be read with a key that is not known yet."""

    def __init__(self, values: dict[Any, Any]) -> None:
        super().__init__(values)
        self._kinds: dict[Any, tuple[int, Type | None, Any]] | None = None
        self._inner: dict[int, Any] = {}
        self._number = next(_numbers)

    def _sorted(self) -> dict[Any, tuple[int, Type | None, Any]]:
        """The kinds of values: a number, the type (None: an object of its own), an example."""
        if self._kinds is None:
            found: dict[Any, tuple[int, Type | None, Any]] = {}
            for value in self.values():
                t = _type(value)
                found.setdefault(t if t is not None else id(value), (len(found), t, value))
            if len(found) > _OBJECTS:
                raise Untraceable(f"looks an event's value up among more than {_OBJECTS} things that are no events")
            self._kinds = found
        return self._kinds

    def _kind(self, value: Any) -> tuple[int, Type | None, Any]:
        t = _type(value)
        return self._sorted()[t if t is not None else id(value)]

    def _of(self, key: Any, t: Type, default: Any = ()) -> Any:
        """The value, which is of this type."""
        paths, leaves = list(t.leaves()), []
        for j, (path, kind) in enumerate(paths):
            mark = ("get" if default != () else "[]", self._number, j, repr(default))
            values = {k: t.flatten(conform(t, v))[j] for k, v in self.items() if _type(v) == t}
            usual = (t.flatten(conform(t, default[0]))[j],) if default != () else ()
            leaves.append(
                ask(
                    "get" if default != () else f"look_up{path}",
                    Find(values, usual),
                    [key],
                    kind,
                    fails=not usual,
                    key=mark,
                )
            )
        return _assembled(t, leaves)[0]

    def __getitem__(self, key: Any) -> Any:
        if not unknown(key):
            return self._stand_in(super().__getitem__(key))
        kinds = list(self._sorted().values())
        if not kinds:
            raise KeyError(key)
        if len(kinds) > 1:
            which = ask("kind", Find({k: self._kind(v)[0] for k, v in self.items()}), [key], INT, key=self._number)
            kinds = [kind for kind in kinds[:-1] if which == kind[0]][:1] or kinds[-1:]  # the trace forks
        elif kinds[0][1] is None:
            ask("kind", Find(dict.fromkeys(self, 0)), [key], INT, key=self._number)  # it fails without the key
        _, t, value = kinds[0]
        return self._of(key, t) if t is not None else self._stand_in(value)

    def _stand_in(self, value: Any) -> Any:
        if type(value) not in (dict, set, frozenset, list):
            return value
        if id(value) not in self._inner:
            self._inner[id(value)] = run_stand_in(value)
        return self._inner[id(value)]

    def __contains__(self, key: Any) -> bool:
        if not unknown(key):
            return super().__contains__(key)
        return bool(ask("has", Has(frozenset(self)), [key], BOOL, fails=False, key=self._number))

    def get(self, key: Any, default: Any = None) -> Any:
        """As of a dictionary."""
        kinds = list(self._sorted().values()) if unknown(key) else []
        if len(kinds) == 1 and kinds[0][1] is not None and not _symbolic(default) and _type(default) == kinds[0][1]:
            return self._of(key, kinds[0][1], (default,))
        if key in self:  # the trace forks
            return self[key]
        return default

    def _changed(self, *args: Any, **named: Any) -> NoReturn:
        raise Untraceable("changes a dictionary that it did not make", effect=True)

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _changed


def _symbolic(value: Any) -> bool:
    return unknown(value) or value is None or not isinstance(value, (bool, int, float, str))


def _assembled(t: Type, leaves: list[Any]) -> tuple[Any, list[Any]]:
    """The value that these leaves of the trace are."""
    if isinstance(t, RecordType):
        values = []
        for _, sub in t.fields:
            value, leaves = _assembled(sub, leaves)
            values.append(value)
        if issubclass(t.cls, tuple):
            return t.cls(*values), leaves
        record = object.__new__(t.cls)
        for (name, _), value in zip(t.fields, values, strict=True):
            object.__setattr__(record, name, value)
        return record, leaves
    if isinstance(t, TupleType):
        items = []
        for sub in t.items:
            value, leaves = _assembled(sub, leaves)
            items.append(value)
        return tuple(items), leaves
    return leaves[0], leaves[1:]


class RunSet(frozenset[Any]):
    """A copy of a set that the function did not make."""

    def __contains__(self, key: Any) -> bool:
        if not unknown(key):
            return super().__contains__(key)
        return bool(ask("has", Has(frozenset(self)), [key], BOOL, fails=False, key=tuple(sorted(map(repr, self)))))


def _at(items: Any, key: Any) -> Any:
    """The item at a place that is not known yet."""
    if items._places is None:
        items._places = RunDict({i: items[i] for i in range(-len(items), len(items))})
    return items._places[key]


class RunList(list[Any]):
    """A copy of a list that the function did not make."""

    _places: RunDict | None = None

    def __getitem__(self, key: Any) -> Any:
        return _at(self, key) if type(key) is Sym else super().__getitem__(key)

    def _changed(self, *args: Any, **named: Any) -> NoReturn:
        raise Untraceable("changes a list that it did not make", effect=True)

    append = extend = insert = pop = remove = clear = sort = reverse = _changed
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _changed


class RunTuple(tuple[Any, ...]):
    """A tuple that the function did not make."""

    _places: RunDict | None = None

    def __getitem__(self, key: Any) -> Any:
        return _at(self, key) if type(key) is Sym else super().__getitem__(key)


def run_stand_in(value: Any) -> Any:
    """A dictionary, a set or a list as one that may be asked for what is not known yet; anything else as it is.

    >>> type(run_stand_in({"a": 1})).__name__, type(run_stand_in(3)).__name__
    ('RunDict', 'int')
    """
    if type(value) is dict:
        return RunDict(value)
    if type(value) in (list, tuple):
        return RunList(value) if type(value) is list else RunTuple(value)
    return RunSet(value) if type(value) in (frozenset, set) else value
