"""One or several inputs, in lock-step, as batches for an engine.

The i-th push takes the i-th row of each input; one that ends before the others is refused, unless ``short="silent"``
says that it is silent from then on.  One input can also hold several
sources, each in the columns of its name: there a null is silence.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError, StepError, UsageError, nearest, option
from pellucid.internal.data.arrow import arrow_type, column_at, key_type, source_columns
from pellucid.internal.data.bind import (
    NO_ROW,
    SHORT,
    Binding,
    Place,
    bind,
    keeps_nan,
    kept_columns,
    missing_keys,
    refuse_order_names,
    type_of_key,
)
from pellucid.internal.data.cells import check_formats, check_nulls, is_spelled, missing_in
from pellucid.internal.data.columns import Batch, Column, Strings
from pellucid.internal.data.csv_files import CsvReader
from pellucid.internal.data.dead_letters import BadRow, of_row, set_aside
from pellucid.internal.data.files import Reader
from pellucid.internal.data.json_files import JsonLinesReader
from pellucid.internal.data.order import (
    OrderTypes,
    is_text,
    order_type,
    order_types,
    order_values,
    sorted_feed,
    with_order,
)
from pellucid.internal.data.passthrough import Along, fits
from pellucid.internal.data.text import Chunk
from pellucid.internal.expr.types import BOOL, FLOAT, STR, Type
from pellucid.internal.graph.model import Graph, refuse_answer_names

# Read ahead: the next batches are read by a thread while the present one is worked on.

T = TypeVar("T")

_AHEAD = 1  # items that are made or wait: memory follows it
_END = object()


@contextmanager
def ahead(items: Iterable[T]) -> Iterator[Iterator[T]]:
    """The same items in the same order, made by a thread, each while the one before is used.

    What goes wrong there is raised here, behind the items that came before.  Leaving the block ends the thread.

    >>> with ahead(range(3)) as items:
    ...     list(items)
    [0, 1, 2]
    """
    waiting: queue.Queue[Any] = queue.Queue()
    room = threading.Semaphore(_AHEAD)
    over = threading.Event()

    def make() -> None:
        made = iter(items)
        try:
            while room.acquire() and not over.is_set():
                waiting.put([next(made, _END)])  # nothing here keeps an item: it may be large
        except BaseException as error:
            waiting.put(error)

    def found() -> Iterator[T]:
        while True:
            item = waiting.get()
            if isinstance(item, BaseException):
                raise item
            if item[0] is _END:
                return
            room.release()
            yield item.pop()

    said = contextvars.copy_context()  # who is spoken to: messages name options as that one writes them
    thread = threading.Thread(target=said.run, args=(make,), name="pellucid-read", daemon=True)
    thread.start()
    try:
        yield found()
    finally:
        over.set()
        room.release()
        thread.join()


ROWS = 1 << 17


@dataclass
class Fed:
    """A batch and how far the inputs are read; ``first`` is the number of its first push."""

    batch: Batch
    first: int
    share: float | None
    places: list[Place] = field(default_factory=list)
    along: dict[str, Any] = field(default_factory=dict)  # columns that come along, a value for each push
    parts: list[Any] = field(default_factory=list)  # what the places speak of: the rows as they were read
    bad: list[tuple[int, BadRow]] = field(default_factory=list)  # rows that cannot be read, with their pushes
    fills: list[int] = field(default_factory=list)  # for each place the last source that it feeds

    def letters(self, failed: Sequence[StepError]) -> list[BadRow]:
        """The rows that are set aside: those that cannot be read, and those in whose push a step failed."""
        out = list(self.bad)
        for error in failed:
            i = error.position - self.first
            for place, part in zip(self.places, self.parts, strict=True):
                if place.row(i) != NO_ROW:
                    out.append((i, of_row(place, i, error.why, part, step=error.step)))
        return [row for _, row in sorted(out, key=lambda one: one[0])]

    def set_aside(self, *, apart: bool = False) -> None:
        """Make silent every push with a row that cannot be read, and write down its rows; ``apart``: the row alone, as
        rows of several inputs do not go together."""
        if apart:
            for place, part, s in zip(self.places, self.parts, self.fills, strict=True):
                found = set_aside([place], [part])
                self.bad += found
                self._silence(sorted({i for i, _ in found}), [s])
            return
        self.bad = set_aside(self.places, self.parts)
        self._silence(sorted({i for i, _ in self.bad}), range(len(self.batch.masks)))

    def _silence(self, gone: list[int], sources: Iterable[int]) -> None:
        for s in sources if gone else ():
            mask = self.batch.masks[s]
            there = np.ones(self.batch.count, dtype=bool) if mask is None else np.array(mask, dtype=bool)
            there[gone] = False
            self.batch.masks[s] = there


def wanted_columns(bound: Sequence[Binding], key: Mapping[str, Type]) -> dict[str, Type]:
    """The columns that these sources and the key read, and as what."""
    wanted: dict[str, Type] = {}
    for binding in bound:
        wanted.update(zip(binding.columns, (t for _, t in binding.type.columns()), strict=True))
    return {**key, **wanted}


def uneven(ended: str, rows: int, other: str) -> str:
    """What is said of an input that ends before another."""
    return (
        f"{ended}: ends after {rows:,} row{'s' * (rows != 1)}, but {other} goes on: the i-th push takes the i-th row "
        f"of each; complete it, or say {option('short', 'silent')} if an input that has ended is to be silent from "
        "then on"
    )


def source_types(graph: Graph) -> dict[str, Type]:
    """The sources of a graph and what they carry."""
    return {graph.nodes[i].id: graph.nodes[i].type for i in graph.sources}


class Feed:
    """The batches that some readers give to a graph's sources.

    ``readers`` maps each source to its reader; a single reader under the name ``None`` holds all sources.
    """

    def __init__(
        self,
        graph: Graph,
        readers: Mapping[str | None, Reader],
        *,
        value: str | None = None,
        key: Sequence[str] = (),
        rows: int = ROWS,
        limit: int | None = None,
        short: str = "fail",
        order: Sequence[str] = (),
        late: str = "fail",
        keep: Any = (),
        nan: str = "fail",
        formats: Mapping[str, str] = MappingProxyType({}),
        nulls: Sequence[str] = (),
        again: Callable[[Reader], Reader] | None = None,
        lenient: bool = False,
    ) -> None:
        self.lenient = lenient  # rows that cannot be read are set aside
        if short not in SHORT:
            raise UsageError(f"{option('short', short)}: expected fail or silent")
        self.short, keeps = short, keeps_nan(nan)
        self.graph, self.limit = graph, limit
        self.rows = rows if limit is None else max(1, min(rows, limit))
        self.sources = source_types(graph)
        self.key: dict[str, Type] = {}  # the key's columns and what they hold
        if value is not None and len(self.sources) > 1:
            raise UsageError(
                f"{graph.name} has several sources ({', '.join(self.sources)}): {option('value')} goes with one only"
            )
        self.wide = None in readers and len(self.sources) > 1
        if None in readers and not self.wide:
            readers = {next(iter(self.sources)): readers[None]}
        self._check_names(readers)
        self._lanes: list[tuple[Reader, list[Binding]]] = []
        if self.wide:
            reader = readers[None]
            names = _wide_names(reader, self.sources)
            said: dict[str, Any] = {
                "place": reader.name,
                "key": key,
                "wide": True,
                "nan": keeps,
                "nothing": reader.nothing,
            }
            bound = [bind(s, t, names, **said) for s, t in self.sources.items()]
            self._lanes.append((reader, bound))
        else:
            for source, t in self.sources.items():
                reader = readers[source]
                names, at = reader.names, value
                if getattr(reader, "blank", False):  # no line, so no names: no events
                    names = [*([value] if value else [path or source for path, _ in t.columns()]), *key]
                if at is None and getattr(reader, "bare", False):
                    at = reader.names[0] if len(list(t.columns())) == 1 else None
                nothing = reader.nothing
                made = bind(source, t, names, place=reader.name, value=at, key=key, nan=keeps, nothing=nothing)
                self._lanes.append((reader, [made]))
        read = wanted_columns([binding for _, bound in self._lanes for binding in bound], {})
        missing = missing_keys(read.items(), key)
        check_formats(formats, read.items(), graph.name)
        self._lanes = [
            (reader, [replace(b, missing=missing, formats=formats) for b in bound]) for reader, bound in self._lanes
        ]
        self._take_words(nulls, read)
        for column in key:
            self._find_key_type(column, missing.get(column))
        refuse_answer_names(graph, key)
        self._formats = formats
        self.order, self.late, self._again = tuple(order), late, again
        self.orders = [order_types(reader, order) for reader, _ in self._lanes]
        self.along = self._along(keep)

    def _take_words(self, words: Sequence[str], read: Mapping[str, Type]) -> None:
        """Tell the readers of CSV files which words are nothing, and in which columns."""
        readers: list[Any] = [reader for reader, _ in self._lanes]
        texts = [isinstance(getattr(reader, "head", reader), CsvReader) for reader in readers]
        check_nulls(words, read.items(), self.graph.name, text=any(texts))
        self.missing = [missing_in(words, wanted_columns(bound, {}).items()) for _, bound in self._lanes]
        for reader, text, missing in zip(readers, texts, self.missing, strict=True):
            if text:
                reader.missing = missing

    def _check_names(self, readers: Mapping[str | None, Reader]) -> None:
        if self.wide:
            return
        for name in readers:
            if name not in self.sources:
                raise UsageError(
                    f"{self.graph.name} has no source {name!r}: its sources are {', '.join(self.sources)}"
                    f"{nearest(str(name), list(self.sources))}"
                )
        missing = [s for s in self.sources if s not in readers]
        if missing:
            raise UsageError(
                f"{self.graph.name} has {len(self.sources)} sources ({', '.join(self.sources)}): no input for "
                f"{', '.join(missing)}; give {option('in', f'{missing[0]}=FILE')}"
            )

    def _find_key_type(self, key: str, missing: Type | None) -> None:
        for reader, bound in self._lanes:
            declared = wanted_columns(bound, {}).get(key)
            holds = reader.field_type(key)
            if declared is not None and is_text(reader):  # a cell is read as what a source declares
                holds = pa.string() if is_spelled(declared) else arrow_type(declared)
            found = key_type(holds, key, reader.name, missing)
            if self.key.setdefault(key, found) != found:
                raise DataError(
                    f"{reader.name}: the key column {key!r} holds {found}, but in the first input {self.key[key]}: "
                    "they must be of one type"
                )

    def _along(self, keep: Any) -> Along:
        """The columns that come along, and their types."""
        outputs = {name: self.graph.nodes[i].type for name, i in self.graph.outputs}
        refuse_order_names(outputs, self.order)
        names = ["*"] if self.wide else list(self.sources)
        readers = dict(zip(names, (reader for reader, _ in self._lanes), strict=True))
        if keep:
            for reader in readers.values():
                if getattr(reader, "bare", False):
                    raise DataError(f"{reader.name}: holds bare values: there are no other columns to keep")
        kept = kept_columns(
            keep,
            {name: reader.columns for name, reader in readers.items()},
            outputs,
            there=[*self.key, *self.order],
            place={name: reader.name for name, reader in readers.items()},
            graph=self.graph.name,
        )
        types = {}
        self.kept_as: list[dict[str, Type]] = [{} for _ in names]
        self.order_as: dict[str, Type] = {}  # the order's columns of the first input, as what a text is read
        for at, (_, reader) in enumerate(readers.items()):
            read = wanted_columns(self._lanes[at][1], self.key)
            for column in kept.from_input(names[at]):
                as_read = column in read and is_text(reader) and not is_spelled(read[column])
                types[column] = arrow_type(read[column]) if as_read else reader.kept_type(column)
                if as_read:
                    self.kept_as[at][column] = read[column]
            if at == 0:
                typed = dict(self.orders[0].typed)
                self.order_as = {c: read.get(c) or typed[c] for c in self.order if is_text(reader)}
                types |= {c: order_type(reader, c, read, self.orders[0]) for c in self.order}
        self._keeps = [kept.from_input(name) for name in names]
        return Along(self.order, kept, types, self._formats)

    @property
    def one_key(self) -> bool:
        """Whether all sources have the same key in a push: of one row, or lined up by key and order."""
        return self.wide or bool(self.order)

    @property
    def key_type(self) -> Type | None:
        """What an engine calls the key: one column's type, or a tuple of several."""
        return type_of_key(self.key)

    def __iter__(self) -> Iterator[Fed]:
        if self.order:
            found = sorted_feed(self, self._lanes, self._keeps, self._again)
            if found is not None:
                yield from found
                return
        lanes = [
            _Lane(
                reader,
                bound,
                self.key,
                self.rows,
                self.wide,
                keep=keep,
                order=order,
                lenient=self.lenient,
                alone=len(self._lanes) == 1,
            )
            for (reader, bound), keep, order in zip(self._lanes, self._keeps, self.orders, strict=True)
        ]
        first = 0
        while self.limit is None or first < self.limit:
            live = [lane for lane in lanes if lane.ready()]
            if not live:
                return
            if len(live) < len(lanes) and self.short == "fail":
                ended = next(lane for lane in lanes if lane not in live)
                raise DataError(uneven(ended.reader.name, ended.taken, live[0].reader.name))
            count = min(lane.left for lane in live)
            if self.limit is not None:
                count = min(count, self.limit - first)
            fed = Fed(Batch(count, [], [], [] if self.key else None), first, _share(lanes))
            for lane in lanes:
                lane.take(count, fed, self.along)
            fed.set_aside(apart=self.graph.timed and not self.wide)
            yield fed
            del fed
            first += count


def _share(lanes: list[_Lane]) -> float | None:
    """How much of the inputs is read: the least of them, as the slowest decides."""
    shares = [lane.share for lane in lanes if lane.share is not None]
    return min(shares) if shares else None


def _wide_names(reader: Reader, sources: Mapping[str, Type]) -> list[str]:
    """The columns of a file for several sources; in JSON Lines a source that is silent at first is not there yet."""
    names = list(reader.names)
    if isinstance(reader, JsonLinesReader):
        if reader.bare:
            raise DataError(
                f"{reader.name}: holds bare values, but there are several sources: expected objects such as "
                f"{{{', '.join(f'{chr(34)}{s}{chr(34)}: …' for s in sources)}}}"
            )
        heads = {name.split(".")[0] for name in names}
        if heads & set(sources) or not names:
            wanted = [f"{s}.{p}" if p else s for s, t in sources.items() if s not in heads for p, _ in t.columns()]
            names += [w for w in wanted if w not in names]
    return names


class _Lane:
    """A reader, its current chunk and how much of it was taken."""

    def __init__(
        self,
        reader: Reader,
        bound: list[Binding],
        key: Mapping[str, Type],
        rows: int,
        wide: bool,
        *,
        keep: Sequence[str] = (),
        order: OrderTypes,
        lenient: bool = False,
        alone: bool = False,
    ) -> None:
        self.lenient = lenient
        self.reader, self.bound, self.key, self.wide = reader, bound, key, wide
        self.keep, self.order = list(keep), list(order.names)
        self.taken = 0
        self.alone = alone  # no other input: the key of a row is that of its push
        self.read = wanted_columns(bound, key)
        wanted, also = with_order(self.read, order)
        nulls = wanted if wide else {*key, *order.typed}
        self.chunks = reader.chunks(wanted, rows=rows, nulls=nulls, keep=[*also, *keep], lenient=lenient)
        self.chunk: Chunk | None = None
        self.at = 0
        self.ended = False

    @property
    def left(self) -> int:
        return self.chunk.batch.num_rows - self.at if self.chunk is not None else 0

    @property
    def share(self) -> float | None:
        if self.ended:
            return 1.0
        return self.chunk.done / self.chunk.total if self.chunk is not None and self.chunk.total else None

    def ready(self) -> bool:
        """Whether there is a row to take."""
        while not self.ended and not self.left:
            self.chunk = None  # not kept while the next one is read
            self.chunk, self.at = next(self.chunks, None), 0
            self.ended = self.chunk is None
        return not self.ended

    def take(self, count: int, fed: Fed, along: Along) -> None:
        """Give the next rows to the sources of this lane."""
        if self.ended or self.chunk is None:
            fed.along |= {name: pa.nulls(count, along.types[name]) for name in self.keep}
            for binding in self.bound:
                leaves = [leaf for _, leaf in binding.type.leaves()]
                fed.batch.columns.append([_blank(leaf, count) for leaf in leaves])
                fed.batch.masks.append(np.zeros(count, dtype=bool))
                if fed.batch.keys is not None:
                    fed.batch.keys.append([_blank(leaf, count) for t in self.key.values() for _, leaf in t.leaves()])
            return
        part = self.chunk.batch.slice(self.at, count)
        place = self.chunk.place.shifted(self.at)
        if self.lenient:
            place = replace(place, bad={i: note for i, note in (place.bad or {}).items() if i < count})
        for binding in self.bound:
            columns, mask, keys = source_columns(binding, part, place, silent=self.wide)
            fed.batch.columns.append(columns)
            fed.batch.masks.append(mask)
            if fed.batch.keys is not None:
                fed.batch.keys.append(keys or [])
        fed.along |= {name: column_at(part, name) for name in self.keep}
        if self.alone and self.keep:
            own = {name: column_at(part, name) for name in self.key}
            fed.along |= {name: c for name, c in own.items() if fits(c.type, arrow_type(self.key[name]))}
        for name in self.order:
            form = self.bound[0].formats.get(name)
            fed.along[name] = order_values(column_at(part, name), name, self.read.get(name), place, form)
        fed.places.append(place)
        fed.parts.append(part)
        fed.fills.append(len(fed.batch.masks) - 1)
        self.at += count
        self.taken += count


def _blank(t: Type, count: int) -> Column:
    """A column for rows that are no events."""
    if t == STR:
        return Strings(np.zeros(count, dtype=np.int64), [""])
    return np.zeros(count, dtype=np.float64 if t == FLOAT else np.bool_ if t == BOOL else np.int64)
