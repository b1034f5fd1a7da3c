"""Python values as bytes: data only.  Reading them imports nothing, calls nothing by a name from the file, and runs no
code.

Values are written in columns: first a **tag** for each value (which kind it is), then for each kind that occurs what
its values hold.  Numbers are arrays, texts one long text with lengths; lists, dicts and records have only their
lengths, and what they hold are columns of the next level: the keys, the values, each field; short columns are put
together.  So a million entries cost a few passes in C, as with pickle.

* A type is exact: ``1``, ``True`` and ``1.0`` differ, as do ``-0.0`` and ``0.0``; a float keeps all its bits, a dict
  its order.
* What can be changed and is held in two places (a list in two entries) is one thing again when it is read, and may hold
  itself.  What cannot be changed is a value: two equal tuples or one, nobody can tell.
* The kinds are a fixed table (`value_kinds`), and the dataclasses, named tuples and enums of the pipeline itself
  (`value_records`, `own_types`).  The file has their names, which are looked up among those; any other name is refused.
* Every value costs at least a byte, and there are at most `DEEPEST` levels: a damaged or hostile file is refused with
  `Damage` before it takes more than a multiple of its own size in memory.

>>> data = encode([{"a": (1, True, 1.0)}, None])
>>> decode(data)
[{'a': (1, True, 1.0)}, None]
>>> same = []
>>> (first, second), = decode(encode([[same, same]]))
>>> first is second
True
"""

from __future__ import annotations

import dataclasses
import gc
import json
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from sys import getrefcount
from typing import Any

import numpy as np

from pellucid.internal.engine.saved.own_types import OwnTypes
from pellucid.internal.engine.saved.value_columns import ColumnReader, ColumnWriter, Damage
from pellucid.internal.engine.saved.value_kinds import MANY, Box, Column, Leaf, Unfit, ValueKind
from pellucid.internal.engine.saved.value_records import Misfit, kind_named, kind_of

DEEPEST = 500  # levels: Python's own recursion ends at about a thousand calls
_LENGTH = struct.Struct("<I")


# ---------------------------------------------------------------- writing


def encode(values: list[Any], own: OwnTypes | None = None, *, name: str = "state") -> bytes:
    """The values as bytes; `Unfit` says what is no data, and where it is (``name`` is what a value is called).

    >>> encode([[1, print]])
    Traceback (most recent call last):
    pellucid.internal.engine.saved.value_kinds.Unfit: state[1] is a builtin_function_or_method, which is not data
    """
    encoder, out = _Encoder(own or OwnTypes()), ColumnWriter()
    level: list[Column] = [values] if values else []
    depth = 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise Unfit(
                f"nests more than {DEEPEST} levels deep",
                advice="keep it flatter: a list or a dict in place of a chain",
                where=name,
            )
        below: list[Column] = []
        try:
            for column in level:
                encoder.column(column, out, below)
        except Unfit as error:
            raise error.at(_place(values, encoder.tags, name)) from None
        long, short = _parted(list(map(len, below)))
        level = [below[i] for i in long] + ([[v for i in short for v in below[i]]] if short else [])
    head = {"count": len(values), "kinds": [kind.about for kind in encoder.kinds], "columns": out.about}
    text = json.dumps(head).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *out.pieces])


class _Tags(dict[type, int]):
    """The number of each type's kind; a type that is new gets the next."""

    def __init__(self, own: OwnTypes, kinds: list[ValueKind]) -> None:
        super().__init__()
        self.own, self.kinds = own, kinds

    def __missing__(self, cls: type) -> int:
        kind = kind_of(cls, self.own)
        self.kinds.append(kind)
        self[cls] = len(self.kinds) - 1
        return self[cls]


def _parted(sizes: list[int]) -> tuple[list[int], list[int]]:
    """The columns of a level that are written by themselves, and those that are written as one."""
    return [i for i, n in enumerate(sizes) if n >= MANY], [i for i, n in enumerate(sizes) if 0 < n < MANY]


class _Encoder:
    def __init__(self, own: OwnTypes) -> None:
        self.kinds: list[ValueKind] = []
        self.tags = _Tags(own, self.kinds)
        self.counts: Counter[int] = Counter()  # for each kind that can be changed: how many there were
        self.seen: dict[int, int] = {}  # and the numbers of those that may come again, by their ids

    def column(self, values: Column, out: ColumnWriter, below: list[Column]) -> None:
        """Write a column; what its values hold is added below."""
        types = set(map(type, values))
        if len(types) == 1:
            tag = self.tags[types.pop()]
            out.ints([tag] if self.kinds[tag].paid else np.full(len(values), tag))
            self._group(tag, values, _ONCE, out, below)
            return
        tags = np.fromiter(map(self.tags.__getitem__, map(type, values)), np.int64, len(values))
        out.ints(tags)
        for tag in np.flatnonzero(np.bincount(tags)).tolist():
            self._group(tag, list(compress(values, (tags == tag).tobytes())), _ONCE + 1, out, below)

    def _group(self, tag: int, group: Column, once: int, out: ColumnWriter, below: list[Column]) -> None:
        kind = self.kinds[tag]
        if isinstance(kind, Box):
            group = self._distinct(tag, group, once, out) if kind.mutable else self._values(group, once, out)
        kind.write(group, out, below)

    def _distinct(self, tag: int, group: Column, once: int, out: ColumnWriter) -> Column:
        """Of what can be changed, those that are new, each once; the numbers of all are written, unless all are new."""
        before = self.counts[tag]
        if max(map(getrefcount, group)) <= once:  # nobody else holds any of them
            self.counts[tag] += len(group)
            out.ints([])
            return group
        new: Column = []
        numbers = []
        for value in group:
            number = self.seen.setdefault(id(value), before + len(new))
            if number == before + len(new):
                new.append(value)
            numbers.append(number)
        self.counts[tag] += len(new)
        out.ints(numbers if len(new) < len(group) else [])
        return new

    @staticmethod
    def _values(group: Column, once: int, out: ColumnWriter) -> Column:
        """Of what cannot be changed, each once in a column: enough that shared parts do not multiply."""
        if max(map(getrefcount, group)) <= once:
            out.ints([])
            return group
        places: dict[int, int] = {}
        numbers = [places.setdefault(id(value), len(places)) for value in group]
        if len(places) == len(group):
            out.ints([])
            return group
        out.ints(numbers)
        return list({id(value): value for value in group}.values())


def _held_once() -> int:
    """What getrefcount says of a value that one box and one column hold."""
    box = [object()]
    column = list(box)
    return max(map(getrefcount, column))


_ONCE = _held_once()


def _place(values: Sequence[Any], tags: _Tags, name: str) -> str:
    """Where the first value is that cannot be saved, as Python would write it."""
    stack = [(name, value) for value in reversed(values)]
    seen: set[int] = set()
    while stack:
        where, value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        below: list[Column] = []
        try:
            tags.kinds[tags[type(value)]].write([value], ColumnWriter(), below)
        except Unfit:
            return where
        stack += reversed(list(_parts(where, value, below)))
    return name


def _parts(where: str, value: Any, below: list[Column]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"a key of {where}", key) for key in value)
        yield from ((f"{where}[{_short(key)}]", held) for key, held in value.items())
    elif dataclasses.is_dataclass(value):
        yield from ((f"{where}.{f.name}", getattr(value, f.name)) for f in dataclasses.fields(value))
    elif hasattr(value, "_fields"):
        yield from ((f"{where}.{field}", held) for field, held in zip(value._fields, value, strict=True))
    elif isinstance(value, Sequence):
        yield from ((f"{where}[{i}]", held) for i, held in enumerate(value))
    else:
        yield from ((f"something in {where}", held) for column in below for held in column)


def _short(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 40 else text[:39] + "…"


# ---------------------------------------------------------------- reading


def decode(data: bytes | memoryview, own: OwnTypes | None = None) -> list[Any]:
    """The values again; `Damage` if the bytes are not what `encode` gave, `Misfit` if they need a type that the
    pipeline has not.

    >>> decode(b"cos\\nsystem\\n(S'id'\\ntR.")
    Traceback (most recent call last):
    pellucid.internal.engine.saved.value_columns.Damage: it does not begin as it must
    """
    collecting = gc.isenabled()
    gc.disable()  # a million new objects, none of which is garbage
    try:
        return _Decoder(memoryview(data).cast("B"), own or OwnTypes()).values()
    except (Damage, Misfit):
        raise
    except Exception as error:  # whatever a constructor says of parts that no value has
        raise Damage(f"{type(error).__name__}: {error}") from None
    finally:
        if collecting:
            gc.enable()


@dataclass
class _Part:
    """The boxes of one kind in one column."""

    box: Box
    new: int
    numbers: list[int] | None  # which box each value is; None: each its own
    shape: Any
    sizes: list[int]  # of the columns that they hold
    table: list[Any]  # of what is mutable: all boxes of the kind
    first: int  # where the new ones begin there


@dataclass
class _Read:
    """A column that was read: tags, unless there is one kind only, and for each kind its values, or its boxes."""

    tags: Any
    groups: list[tuple[int, list[Any] | _Part]]


class _Decoder:
    def __init__(self, view: memoryview, own: OwnTypes) -> None:
        if len(view) < _LENGTH.size or _LENGTH.unpack_from(view)[0] > len(view) - _LENGTH.size:
            raise Damage("it does not begin as it must")
        start = _LENGTH.size + _LENGTH.unpack_from(view)[0]
        match json.loads(bytes(view[_LENGTH.size : start])):
            case {"count": int(count), "kinds": list(kinds), "columns": list(columns)}:
                self.count = count
                self.kinds = [kind_named(about, own) for about in kinds]
                self.found = ColumnReader(columns, view[start:])
            case _:
                raise Damage("it does not begin as it must")
        self.room = len(view)  # how many values there may be still: each costs a byte
        self.made: dict[int, list[Any]] = {}  # for each mutable kind: all its boxes, empty until they are filled

    def values(self) -> list[Any]:
        """Down the levels for what is there, and up again to put it together."""
        levels: list[tuple[list[_Read], list[int]]] = []
        sizes = [self.count] if self.count else []
        while any(sizes):
            if len(levels) >= DEEPEST:
                raise Damage("it nests too deeply")
            long, short = _parted(sizes)
            if not levels:  # the first column is by itself, however short it is
                long, short = [0], []
            counts = [sizes[i] for i in long] + ([sum(sizes[i] for i in short)] if short else [])
            level = [self._column(count) for count in counts]
            levels.append((level, sizes))
            sizes = [n for column in level for _, part in column.groups if isinstance(part, _Part) for n in part.sizes]
        self.found.end()
        below: list[Column] = [[] for _ in sizes]
        for level, sizes in reversed(levels):
            held = iter(below)
            columns = [self._built(column, held) for column in level]
            below = _apart(columns, sizes) if level is not levels[0][0] else columns
        return below[0] if below else []

    def _column(self, count: int) -> _Read:
        self.room -= count
        if count < 0 or self.room < 0:
            raise Damage("it says that it holds more values than it has bytes")
        tags = self.found.ints(low=0, below=len(self.kinds))
        if len(tags) == 1 and (count == 1 or self.kinds[tags[0]].paid):
            return _Read(None, [self._group(int(tags[0]), count)])
        if len(tags) != count:
            raise Damage("a column has another length than its values")
        return _Read(tags, [self._group(tag, many) for tag, many in enumerate(np.bincount(tags).tolist()) if many])

    def _group(self, tag: int, many: int) -> tuple[int, list[Any] | _Part]:
        kind = self.kinds[tag]
        if isinstance(kind, Leaf):
            return tag, kind.get(self.found, many)
        assert isinstance(kind, Box)
        table = self.made.setdefault(tag, []) if kind.mutable else []
        first, new = len(table), many
        numbers = self.found.ints(low=0, below=first + many)
        if len(numbers):
            if len(numbers) != many:
                raise Damage("a column has another length than its values")
            new = max(int(numbers.max()) + 1 - first, 0)
        shape, sizes = kind.shape(new, self.found)
        if kind.mutable:
            table += kind.made(new, shape)
        return tag, _Part(kind, new, numbers.tolist() if len(numbers) else None, shape, sizes, table, first)

    @staticmethod
    def _built(column: _Read, below: Iterator[Column]) -> Column:
        groups = []
        for tag, part in column.groups:
            group: Column
            if isinstance(part, _Part):
                made = part.table[part.first : part.first + part.new]
                group = part.box.build(part.new, part.shape, [next(below) for _ in part.sizes], made)
                if part.numbers is not None:
                    group = list(map((part.table if part.box.mutable else group).__getitem__, part.numbers))
            else:
                group = part
            groups.append((tag, group))
        if column.tags is None or len(groups) == 1:
            return groups[0][1]
        out = np.empty(len(column.tags), dtype=object)
        for tag, group in groups:
            out[column.tags == tag] = np.fromiter(group, dtype=object, count=len(group))
        return list(out.tolist())


def _apart(columns: list[Column], sizes: list[int]) -> list[Column]:
    """The columns of a level as they were before the short ones were put together."""
    long, short = _parted(sizes)
    out: list[Column] = [[] for _ in sizes]
    for i, column in zip(long, columns, strict=False):
        out[i] = column
    at = 0
    for i in short:
        out[i] = columns[-1][at : at + sizes[i]]
        at += sizes[i]
    return out
