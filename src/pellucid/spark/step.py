"""The columnar step: Arrow rows of a frame, in order, through the local engine, to Arrow rows.

This is what runs in Spark's Python workers, for batch and streaming alike.  It holds no Spark: rows in, rows out.

Whether the rows of a key come in order: what is fresh, late, doubled, or after a gap.

The judge is itself a pipeline, run per key by the same engine: its state is the last order that was applied, and it
puts out an event only for a row that must not be applied now.

>>> judge = Judge((("seq", INT),), None)
>>> judge.refused(3, [[1, 3, 2]], None)  # 2 comes after 3
[Refusal(row=2, why='late', last=(3,))]
>>> judge = Judge((("seq", INT),), None, sequence=1)
>>> judge.refused(2, [[1, 3]], None)
[Refusal(row=1, why='gap', last=(1,))]

Two rows of one key and one order are the same row twice only if they are equal; else nothing says which is first, and
the answers would depend on how they came.  Where late rows are left out, the judge therefore remembers a digest of the
last row of each key: a row of the same order with another digest is ``different``, in one micro-batch or in several.

>>> judge = Judge((("seq", INT),), None, sources=1)
>>> judge.refused(3, [[1, 2, 2]], None, [[7, 8, 8]])
[Refusal(row=2, why='late', last=(2,))]
>>> judge.refused(1, [[2]], None, [[9]])
[Refusal(row=0, why='different', last=(2,))]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError, PellucidError, StateError, StepError, UsageError, option
from pellucid.internal.data.arrow import array_of, column_leaves, event_arrays, event_fields, nested_type, one_mask
from pellucid.internal.data.bind import BadRow, Binding, Place, as_text, one_line
from pellucid.internal.data.bind import schema as letters_schema
from pellucid.internal.data.bind import table_of as letters_of
from pellucid.internal.data.columns import Batch, Column, Output, Strings
from pellucid.internal.data.outputs import refuse_other_columns
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import INT, OptionalType, TupleType, Type
from pellucid.internal.graph.build import build
from pellucid.internal.graph.model import Graph
from pellucid.spark.frames import BAD, FILE, LATE, SparkJob, late_columns

_APPLIED, _LATE, _GAP, _DIFFERENT = range(4)
_WHY = {_LATE: "late", _GAP: "gap", _DIFFERENT: "different"}


@dataclass(frozen=True)
class Refusal:
    """A row that must not be applied now: it is ``late`` (or doubled), it stands after a ``gap``, or it is
    ``different`` from the last row that was applied, whose key and order it has."""

    row: int
    why: str
    last: tuple[Any, ...] | None  # the order applied before it; None: none of this key


class Judge:
    """The last applied order of each key.

    ``sequence`` is the first number of a sequence that has no gaps: then a row is applied only if its number is the
    next.  ``sources`` is how many digests a row comes with (0: rows are not compared): one, or one for each source, 0
    where a source has no row.
    """

    def __init__(
        self, order: tuple[tuple[str, Type], ...], key: Type | None, *, sequence: int | None = None, sources: int = 0
    ) -> None:
        self._engine = Engine(_graph(tuple(t for _, t in order), sequence, sources), key=key)
        self.sources = sources

    def refused(
        self, count: int, order: Sequence[Column], keys: list[Column] | None, digests: Sequence[Column] = ()
    ) -> list[Refusal]:
        """Take rows in this order; return those that were refused, by row. All others are applied."""
        base = self._engine.pushed
        batch = Batch(count, [[*order, *digests]], [None], [keys] if keys is not None else None)
        (output,) = self._engine.push_batch(batch, positions=True)
        if not len(output):
            return []
        out = []
        for event, position in zip(output.events(), output.positions, strict=True):
            code, seen, *last = event
            out.append(Refusal(int(position) - base, _WHY[code], tuple(last) if seen else None))
        return out

    def save(self) -> bytes:
        """The state as bytes."""
        return bytes(self._engine.save())

    def load(self, data: bytes) -> None:
        """Go on from a saved state, also of a judge that did not compare rows, or that this one need not."""
        try:
            self._engine.load(data)
        except StateError:  # of another pipeline
            self._engine.carry(data, drop=["row"])


@lru_cache(maxsize=64)
def _graph(kinds: tuple[Type, ...], sequence: int | None, sources: int = 0) -> Graph:
    """The judge's pipeline for orders of these types."""
    zero = tuple(0 if t == INT else "" for t in kinds)
    width = len(kinds)

    def judged(seen: Any, last: Sequence[Any], order: Sequence[Any]) -> Any:
        """What a row of this order is after that one."""
        if sequence is None:
            return _LATE if seen and not _after(order, last) else _APPLIED
        due = last[0] + 1 if seen else sequence
        return _APPLIED if order[0] == due else _LATE if order[0] < due else _GAP

    def alone(state: Any, row: Any) -> Any:
        seen, *last = state
        order = (row,) if width == 1 else row
        code = judged(seen, last, order)
        if code == _APPLIED:
            return (True, *order), []
        return state, [(code, seen, *last)]

    def with_digests(state: Any, row: Any) -> Any:
        seen, *last = state
        order, digests = row[:width], row[width:]
        code = judged(seen, last, order)
        said = (code, seen, *last, *order, *digests)
        return ((True, *order) if code == _APPLIED else state), [said]

    def compared(known: Any, said: Any) -> Any:
        code, seen = said[:2]
        last, order, digests = said[2 : 2 + width], said[2 + width : 2 + 2 * width], said[2 + 2 * width :]
        if code == _APPLIED:
            return digests, []
        differs = False
        for now, then in zip(digests, known, strict=True):
            differs = differs or (now != 0 and then != 0 and now != then)  # 0: none, or of a time when none was kept
        same = code == _LATE
        for a, b in zip(order, last, strict=True):
            same = same and a == b
        return known, [(_DIFFERENT if same and differs else code, seen, *last)]

    if not sources:
        row = kinds[0] if width == 1 else TupleType(kinds)
        return build(lambda o: o.task(alone, (False, *zero), id="order"), "pipeline", {"o": row})[0]

    def both(o: Any) -> Any:
        return o.task(with_digests, (False, *zero), id="order").task(compared, (0,) * sources, id="row")

    return build(both, "pipeline", {"o": TupleType((*kinds, *[INT] * sources))})[0]


def _after(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Whether one order comes after another, column by column."""
    for x, y in zip(a, b, strict=True):
        if x != y:
            return x > y
    return False


def check_sequence(order: tuple[tuple[str, Type], ...], sequence: int | None, gaps: str) -> None:
    """Whether these arguments go together."""
    if gaps not in ("fail", "wait"):
        raise UsageError(f"{option('gaps')} must be 'fail' or 'wait', found {gaps!r}")
    if sequence is None:
        if gaps == "wait":
            raise UsageError(
                f"{option('gaps', 'wait')} needs {option('sequence', any='N')}, the first number of each key's sequence"
            )
        return
    if isinstance(sequence, bool) or not isinstance(sequence, int):
        raise UsageError(
            f"{option('sequence')} is the first number of each key's sequence, a whole number, found {sequence!r}"
        )
    if len(order) != 1 or order[0][1] != INT:
        raise UsageError(f"{option('sequence')} needs {option('order')} to be one column of whole numbers")


def shown(value: object, kind: Any = None) -> str:
    """A key or an order as its user would write it; ``kind`` is the Arrow type of its column, if it is given as the
    engine keeps it.

    >>> import pyarrow as pa
    >>> shown("a"), shown(7), shown(None)
    ("'a'", '7', 'None')
    >>> shown(19723, pa.date32()), shown(1704153600000000, pa.timestamp("us", tz="UTC"))
    ('2024-01-01', '2024-01-02 00:00:00+00:00')
    """
    import pyarrow as pa

    if kind is not None and pa.types.is_date(kind):
        value = pa.scalar(value, pa.int32()).cast(pa.date32()).as_py()
    elif kind is not None and pa.types.is_timestamp(kind):
        value = pa.scalar(value, pa.int64()).cast(kind).as_py()
    return repr(value) if isinstance(value, (str, int)) or value is None else str(value)


# Rows of a frame, as Arrow has them, as columns for an engine; and what is said of a row that cannot be read.


class Reader:
    """What the columns of a job's frame hold."""

    def __init__(self, job: SparkJob) -> None:
        self.job, self.fields = job, job.fields
        # for messages: the user's names
        self._bindings = [
            Binding(s.name, s.type, s.columns, nan=s.nan, formats=dict(s.formats)) for s in job.fields.sources
        ]

    def _leaves(self, t: Type, array: Any, name: str, what: str, table: Any) -> list[Column]:
        if array.null_count and not isinstance(t, OptionalType):
            i = int(np.argmin(np.asarray(array.combine_chunks().is_valid().to_numpy(zero_copy_only=False))))
            raise DataError(f"{self._row(table, i)}: {self._no_leaf(what, name)}")
        if pa.types.is_date(array.type):
            array = array.cast(pa.int32())
        elif pa.types.is_timestamp(array.type):
            array = array.cast(pa.int64())
        elif pa.types.is_decimal(array.type):
            array = array.cast(pa.string())
        return column_leaves(t, array, column=name, place=Place("the DataFrame", lambda i: self._row(table, i)))[0]

    @staticmethod
    def _no_leaf(what: str, name: str) -> str:
        give = "a key" if what == "key" else "an order"
        return f"the {what} column {name!r} is null: give every row {give}, or leave such rows out"

    def _columns(self, binding: Binding, s: int, part: Any, place: Place | None = None) -> tuple[list[Column], Any]:
        place = place or Place("the DataFrame", lambda i: self._row(part, i))
        leaves: list[Column] = []
        masks = []
        for (_, t), path, column in zip(binding.type.columns(), binding.columns, self.fields.values(s), strict=True):
            said: dict[str, Any] = {"nan": binding.nan, "form": binding.formats.get(path), "silent": self.fields.wide}
            values, mask = column_leaves(t, part.column(column), column=path, place=place, **said)
            leaves += values
            masks.append(mask)
        return leaves, one_mask(binding, masks, place, part.num_rows) if self.fields.wide else None

    def _row(self, table: Any, i: int) -> str:
        """A row for messages: its key and order."""
        names = [
            (n, c)
            for (n, _), c in zip(
                (*self.fields.key, *self.fields.order), (*self.fields.keys, *self.fields.orders), strict=True
            )
        ]
        return ", ".join(f"{n}={shown(table.column(c)[i].as_py())}" for n, c in names) or f"row {i + 1} of a batch"


def row_digests(columns: Sequence[Any], count: int) -> Any:
    """A number for each row, never 0: the same for rows with equal values in all of these Arrow columns, in whatever
    batch they come.

    >>> a, b, c = row_digests([pa.array([1, 2, 1]), pa.array(["x", "x", "x"])], 3)
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    out = np.full(count, len(columns), np.uint64)
    for column in columns:
        out = _mixed(out * np.uint64(31) + _mixed(_value_digests(column)))
    out[out == 0] = 1
    return out.view(np.int64)


def _value_digests(column: Any) -> Any:
    """A number for each value of a column."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    t, kinds = column.type, pa.types
    if kinds.is_floating(t):
        floats = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).copy()
        floats[np.isnan(floats)] = np.nan
        out = floats.view(np.uint64).copy()
    elif kinds.is_integer(t) or kinds.is_boolean(t) or kinds.is_temporal(t):
        whole = column.view(pa.int32()) if kinds.is_date32(t) else column
        whole = whole.view(pa.int64()) if kinds.is_timestamp(t) or kinds.is_duration(t) else whole
        out = whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64).copy()
    else:
        from pandas.util import hash_array

        if kinds.is_nested(t) or kinds.is_null(t):
            out = hash_array(np.array([repr(v) for v in column.to_pylist()] or [""], dtype=object))[: len(column)]
        else:  # each value once
            found = column.dictionary_encode("encode")
            values = [v if isinstance(v, str) else repr(v) for v in found.dictionary.to_pylist()]
            out = hash_array(np.array(values or [""], dtype=object))[found.indices.to_numpy(zero_copy_only=False)]
    out[~column.is_valid().to_numpy(zero_copy_only=False)] = 0x9E3779B97F4A7C15
    return out


def _mixed(x: Any) -> Any:
    """The bits of some numbers well shaken (the end of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


_ROWS = 1 << 17  # rows per call of the kernel: Spark's Arrow batches are smaller


@dataclass
class Done:
    """What became of some rows: events, and rows that must wait (after a gap in a sequence)."""

    out: list[Any]  # Arrow record batches
    held: Any = None  # an Arrow table, or None


class Runner(Reader):
    """A pipeline at work on rows of a frame."""

    def __init__(self, job: SparkJob) -> None:
        super().__init__(job)
        self.engine = Engine(job.graph, key=job.fields.key_type if job.external else None, mode=job.engine)
        self.judge: Judge | None = None
        if job.ordered:
            compared = 0 if job.late.policy == "fail" else len(job.fields.sources) if job.fields.tagged else 1
            self.judge = Judge(job.fields.order, job.fields.key_type, sequence=job.late.sequence, sources=compared)

    # ------------------------------------------------------------ rows in, events out

    def push(self, table: Any, *, readable: bool = False) -> Done:
        """Push rows that are sorted by order; where sources are tagged, by order, key and source.  ``readable``: those
        that cannot be read were set aside already."""
        held, late = None, []
        letters: list[Any] = []
        if not readable:
            table, letters = self.set_aside(table)
        pushes = self._pushes(table)
        if self.judge is not None:
            if self.judge.sources and self.fields.tagged:
                table, again = self._once(table, pushes)
                if again.num_rows:
                    late.append(again)
                    pushes = self._pushes(table)
            digests = self._digests(table, pushes) if self.judge.sources else []
            refused = self.judge.refused(pushes.count, pushes.order, pushes.keys, digests)
            if refused:
                table, held, more = self._refuse(table, pushes, refused)
                late.append(more)
                pushes = self._pushes(table)
        out: list[Any] = letters
        failed: list[StepError] | None = None if self.job.bad == "fail" else []
        if pushes.count:
            batch = Batch(pushes.count, *self._sources(table, pushes))
            if self.job.external and pushes.keys is not None:
                batch.keys = [pushes.keys for _ in self.fields.sources]
            base = self.engine.pushed
            try:
                outputs = self.engine.push_batch(batch, positions=True, failed=failed)
            except StepError as error:
                raise self._placed(error, table, pushes, error.position - base) from None
            wanted = {name for name, _ in self.job.outputs}
            out += [self._events(o, table, pushes, base) for o in outputs if o.name in wanted and len(o)]
            for failure in failed or ():
                rows = np.flatnonzero(pushes.group == failure.position - base)
                out += self._letters(table.take(rows), [(None, failure.step, failure.why)] * len(rows))
        if self.job.late.policy == "keep":
            out += [self._late(rows) for rows in late if rows.num_rows]
        return Done(out, held)

    def set_aside(self, table: Any) -> tuple[Any, list[Any]]:
        """The rows that can be read, and the letters of the others, if they are wanted; or, as ever, the first of them
        is an error."""
        if self.job.bad == "fail" or not table.num_rows:
            return table, []
        place = Place("the DataFrame", lambda i: self._row(table, i), bad={})
        for what, names, columns in (
            ("key", self.fields.key, self.fields.keys),
            ("order", self.fields.order, self.fields.orders),
        ):
            for (name, t), column in zip(names, columns, strict=True):
                if isinstance(t, OptionalType):
                    continue
                gone = table.column(column).combine_chunks().is_null().to_numpy(zero_copy_only=False)
                why = self._no_leaf(what, name)
                place.refuse_all(np.flatnonzero(gone).tolist(), lambda _, why=why: why, name)  # type: ignore[misc]
        tags = table.column("s").to_numpy() if self.fields.tagged else None
        for s, binding in enumerate(self._bindings):
            if tags is None:
                self._columns(binding, s, table, place)
            else:
                rows = np.flatnonzero(tags == s)
                mine = place.picked(lambda i, rows=rows: int(rows[i]))  # type: ignore[misc]
                self._columns(binding, s, table.take(rows), mine)
        if not place.bad:
            return table, []
        bad = sorted(place.bad)
        good = np.ones(table.num_rows, dtype=bool)
        good[bad] = False
        notes = [(place.bad[i][0], None, place.bad[i][1]) for i in bad]
        return table.filter(pa.array(good)), self._letters(table.take(bad), notes)

    def _placed(self, error: StepError, table: Any, pushes: _Pushes, at: int) -> StepError:
        """The failure with its row; and without the number of its push, where that is one of a partition and says
        nothing to the user."""
        said, position = (str(error), error.position) if self.job.counted else (unnumbered(error), -1)
        where = f"\n  from {self._row(table, int(pushes.first[at]))}" if 0 <= at < pushes.count else ""
        return type(error)(f"{said}{where}", step=error.step, position=position)

    def check(self, table: Any) -> None:
        """Refuse what no push could take, as `push` would: of rows that are put aside, so that none is refused ever
        after."""
        if table.num_rows:
            self._sources(table, self._pushes(table))

    def _pushes(self, table: Any) -> _Pushes:
        """Which rows are one push, with its key and order."""
        keys = [
            column
            for (n, t), c in zip(self.fields.key, self.fields.keys, strict=True)
            for column in self._leaves(t, table.column(c), n, "key", table)
        ]
        order = [
            column
            for (n, t), c in zip(self.fields.order, self.fields.orders, strict=True)
            for column in self._leaves(t, table.column(c), n, "order", table)
        ]
        count = table.num_rows
        first = np.arange(count)
        group = first
        if self.fields.tagged and count:
            new = np.ones(count, dtype=bool)
            new[1:] = np.logical_or.reduce([_codes(c)[1:] != _codes(c)[:-1] for c in [*keys, *order]])
            group, first = np.cumsum(new) - 1, np.flatnonzero(new)
            keys, order = [_take(c, first) for c in keys], [_take(c, first) for c in order]
            count = len(first)
        return _Pushes(count, keys or None, order, first, group)

    def _sources(self, table: Any, pushes: _Pushes) -> tuple[list[list[Column]], list[Any]]:
        columns: list[list[Column]] = []
        masks: list[Any] = []
        tags = table.column("s").to_numpy() if self.fields.tagged else None
        for s, binding in enumerate(self._bindings):
            part, at = table, None
            if tags is not None:
                rows = np.flatnonzero(tags == s)
                part, at = table.take(rows), pushes.group[rows]
                double = np.flatnonzero(at[1:] == at[:-1])
                if len(double):
                    raise DataError(
                        f"{self._row(part, int(double[0]))}: the source {binding.source!r} has two rows of this "
                        f"order: add a column to {option('order')} that tells them apart"
                    )
            leaves, mask = self._columns(binding, s, part)
            if at is not None:
                mask = np.zeros(pushes.count, dtype=bool)
                mask[at] = True
                leaves = [spread(c, at, pushes.count) for c in leaves]
            columns.append(leaves)
            masks.append(mask)
        return columns, masks

    # ------------------------------------------------------------ rows out of order

    def _row_digests(self, table: Any, s: int) -> Any:
        """A number for each row, of all that a source reads of it and that passes through."""
        return row_digests([table.column(c) for c in (*self.fields.values(s), *self.fields.keeps)], table.num_rows)

    def _digests(self, table: Any, pushes: _Pushes) -> list[Any]:
        """A number for each push, or of several DataFrames one for each source, 0 where it has no row."""
        if not self.fields.tagged:
            every = [c for s in range(len(self.fields.sources)) for c in self.fields.values(s)]
            return [row_digests([table.column(c) for c in (*every, *self.fields.keeps)], table.num_rows)]
        tags, out = table.column("s").to_numpy(), []
        for s in range(len(self.fields.sources)):
            mine = np.flatnonzero(tags == s)
            found = np.zeros(pushes.count, np.int64)
            found[pushes.group[mine]] = self._row_digests(table.take(pa.array(mine)), s)
            out.append(found)
        return out

    def _once(self, table: Any, pushes: _Pushes) -> tuple[Any, Any]:
        """Of several DataFrames: the rows without those that are there twice in a push, and these."""
        again = np.zeros(table.num_rows, dtype=bool)
        tags = table.column("s").to_numpy()
        again[1:] = (pushes.group[1:] == pushes.group[:-1]) & (tags[1:] == tags[:-1])
        for i in np.flatnonzero(again).tolist():
            two = self._row_digests(table.slice(i - 1, 2), int(tags[i]))
            if two[0] != two[1]:
                raise DataError(self._different(table, i, i - 1))
        return table.filter(pa.array(~again)), table.filter(pa.array(again))

    def _different(self, table: Any, i: int, before: int | None) -> str:
        """What is said of a row that has the key and order of another one, but not its values."""
        how = f"add a column to {option('order')} that tells them apart, or leave one of them out"
        row = self._row(table, i)
        names = {
            c: n
            for s, source in enumerate(self.fields.sources)
            for n, c in zip(source.columns, self.fields.values(s), strict=True)
        }
        names |= dict(zip(self.fields.keeps, self.fields.along, strict=True))
        values = {n: table.column(c) for c, n in names.items()}
        if before is None:
            what = ", ".join(f"{n}={shown(column[i].as_py())}" for n, column in values.items() if column[i].is_valid)
            return (
                f"{row}: a row of this order was applied before, with other values than this one ({what}), so which of "
                f"the two is first is not known: {how}"
            )
        two = {n: sorted(shown(column[j].as_py()) for j in (before, i)) for n, column in values.items()}
        what = ", ".join(f"{n}={one} and {n}={other}" for n, (one, other) in two.items() if one != other)
        return (
            f"{row}: two rows have this order but not the same values ({what}), so which is first is not known: {how}"
        )

    def _refuse(self, table: Any, pushes: _Pushes, refused: list[Refusal]) -> tuple[Any, Any, Any]:
        """The rows without those that were refused, those that wait, and those that are late."""
        late = self.job.late
        for r in refused:
            if r.why == "different":
                first = int(pushes.first[r.row])
                same = np.flatnonzero(self._same(pushes, r.row))
                before = None if not len(same) else int(pushes.first[same[0]])
                raise DataError(self._different(table, first, before if not self.fields.tagged else None))
            if r.why == "late" and late.policy == "fail":
                raise DataError(self._late_message(table, pushes, r))
            if r.why == "gap" and late.gaps == "fail":
                due = r.last[0] + 1 if r.last else late.sequence
                name = self.fields.order[0][0]
                raise DataError(
                    f"{self._row(table, int(pushes.first[r.row]))}: {name} {due} is missing: the sequence must go up "
                    f"by one from {late.sequence}; find the missing rows, or in a stream hold back what comes after "
                    f"them with {option('gaps', 'wait')}"
                )
        state = np.zeros(pushes.count, dtype=np.int8)
        for r in refused:
            state[r.row] = 1 if r.why == "late" else 2
        rows = state[pushes.group]
        split = [table.filter(pa.array(rows == v)) for v in (0, 1, 2)]
        self.check(split[2])
        return split[0], split[2] if split[2].num_rows else None, split[1]

    @staticmethod
    def _same(pushes: _Pushes, row: int) -> Any:
        """Which of the pushes before this one have its key and order."""
        columns = [_codes(c) for c in (*(pushes.keys or ()), *pushes.order)]
        return np.logical_and.reduce([c[:row] == c[row] for c in columns])

    def _late_message(self, table: Any, pushes: _Pushes, r: Refusal) -> str:
        row = self._row(table, int(pushes.first[r.row]))
        if self._same(pushes, r.row).any():
            return (
                f"{row}: two rows have this order: add a column to {option('order')} that tells them apart, or if they "
                f"are the same row twice choose {option('late', 'drop')}"
            )
        if r.last is None:
            return (
                f"{row}: the sequence of a key begins with {self.job.late.sequence}; leave such rows out, or choose "
                f"{option('late', 'drop')} or {option('late', 'keep')}"
            )
        kinds = [table.schema.field(c).type for c in self.fields.orders]
        last = ", ".join(
            f"{n}={shown(v, kind)}" for (n, _), v, kind in zip(self.fields.order, r.last, kinds, strict=True)
        )
        return (
            f"{row}: the row is late or doubled: {last} of the same key was applied before; choose "
            f"{option('late', 'drop')} or {option('late', 'keep')}, or allow for it with {option('wait')} (in a stream)"
        )

    # ------------------------------------------------------------ what comes out

    def _events(self, output: Output, table: Any, pushes: _Pushes, base: int) -> Any:
        at = np.asarray(output.positions, dtype=np.int64) - base
        rows = at if not self.fields.tagged else pushes.first[at]
        whole = len(rows) == table.num_rows and not self.fields.tagged and (rows == np.arange(len(rows))).all()
        names, arrays = [], []
        for name, column in self.job.kept:
            names.append(name)
            found = table.column(column)
            arrays.append(found if whole else found.take(pa.array(rows)))
        for met in self.job.met:
            found = table.column(met.column)
            given = [(met.name, found if whole else found.take(pa.array(rows)))]
            where = lambda i: self._row(table, int(rows[i]))
            refuse_other_columns(met.what, output, given, where, met.formats)
        if self.job.tag is not None:
            names.append(self.job.tag)
            arrays.append(pa.array([output.name], pa.string()).take(pa.array(np.zeros(len(rows), np.int64))))
        if self.job.nth is not None:
            names.append(self.job.nth)
            arrays.append(pa.array(_numbered(at)))
        leaves = [array_of(t, c) for (_, t), c in zip(output.type.leaves(), output.columns, strict=True)]
        inner_names, inner = event_arrays(output.type, output.name, leaves)
        if self.job.tag is None:
            return joined_batch(names + inner_names, arrays + inner)
        return self._tagged(names, arrays, output.name, one_column(output.name, inner_names, inner), table)

    def _tagged(self, names: list[str], arrays: list[Any], own: str, value: Any, table: Any) -> Any:
        """A batch with a column for each output: null in all but its own."""
        count = len(value)
        for name, t in self.job.outputs:
            names.append(name)
            arrays.append(value if name == own else pa.nulls(count, column_type(name, t)))
        if self.job.late.policy == "keep":
            names.append(LATE)
            arrays.append(value if own == LATE else pa.nulls(count, self._late_type(table)))
        if self.job.bad == "keep":
            names.append(BAD)
            arrays.append(value if own == BAD else pa.nulls(count, pa.struct(list(letters_schema()))))
        return joined_batch(names, arrays)

    def _late_type(self, table: Any) -> Any:
        return pa.struct([(name, table.schema.field(column).type) for name, column in late_columns(self.fields)])

    def _late(self, rows: Any) -> Any:
        inner = late_columns(self.fields)
        struct = pa.StructArray.from_arrays(
            [rows.column(c).combine_chunks() for _, c in inner], names=[n for n, _ in inner]
        )
        return self._beside(rows, LATE, struct)

    def _beside(self, rows: Any, own: str, value: Any) -> Any:
        """Rows that were not pushed, as an output of their own."""
        names = [name for name, _ in self.job.kept]
        arrays = [rows.column(column) for _, column in self.job.kept]
        assert self.job.tag is not None
        names.append(self.job.tag)
        arrays.append(pa.array([own] * rows.num_rows, pa.string()))
        if self.job.nth is not None:
            names.append(self.job.nth)
            arrays.append(pa.array(np.zeros(rows.num_rows, np.int32)))
        return self._tagged(names, arrays, own, value, rows)

    def _letters(self, rows: Any, notes: Sequence[tuple[str | None, str | None, str]]) -> list[Any]:
        """The letters of rows that were set aside: of each the column, the step, and why."""
        if self.job.bad != "keep" or not notes:
            return []
        named = zip((*self.fields.key, *self.fields.order), (*self.fields.keys, *self.fields.orders), strict=True)
        columns = [*((name, column) for (name, _), column in named), *late_columns(self.fields)]
        texts = rows.select([column for _, column in columns]).rename_columns([name for name, _ in columns])
        files = rows.column(FILE).to_pylist() if FILE in rows.schema.names else [None] * rows.num_rows
        letters = [
            BadRow(file or None, None, column, step, one_line(why), as_text(row))
            for file, row, (column, step, why) in zip(files, texts.to_pylist(), notes, strict=True)
        ]
        return [self._beside(rows, BAD, letters_of(letters).to_struct_array())]


@dataclass
class _Pushes:
    """Rows as pushes: of each its first row; of each row its push."""

    count: int
    keys: list[Column] | None
    order: list[Column]
    first: Any
    group: Any


def unnumbered(error: PellucidError) -> str:
    """The message without the number of the push, where that is not the stream's.

    >>> unnumbered(StepError("step 'twelfth' failed at push 1,002 on the event 0: ZeroDivisionError"))
    "step 'twelfth' failed on the event 0: ZeroDivisionError"
    """
    return re.sub(r" failed at push [\d,]+ ", " failed ", str(error), count=1)


def in_chunks(batches: Iterator[Any], tagged: bool) -> Iterator[Any]:
    """Small record batches as tables of some hundred thousand rows; pushes of several rows are not cut."""
    waiting: list[Any] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS:
            table = pa.Table.from_batches(waiting)
            keep = 0 if not tagged else _open(table)
            if keep < rows:
                yield table.slice(0, rows - keep).combine_chunks()
                rest = table.slice(rows - keep)
                waiting, rows = rest.to_batches() if keep else [], keep
    if rows:
        yield pa.Table.from_batches(waiting).combine_chunks()


def _open(table: Any) -> int:
    """How many rows at the end may belong to a push that goes on."""
    last = table.num_rows - 1
    names = [n for n in table.schema.names if n[0] in "ko" and n[1:].isdigit()]
    values = [table.column(n)[last] for n in names]
    keep = 1
    while keep <= last and all(table.column(n)[last - keep] == v for n, v in zip(names, values, strict=True)):
        keep += 1
    return keep


def one_column(name: str, names: list[str], arrays: list[Any]) -> Any:
    """An event as one column: itself, or a struct.

    >>> one_column("out", ["out_0", "out_1"], [pa.array([1]), pa.array([2])]).to_pylist()
    [{'out_0': 1, 'out_1': 2}]
    """
    return arrays[0] if names == [name] else pa.StructArray.from_arrays(arrays, names=names)


@lru_cache(maxsize=256)
def column_type(name: str, t: Type) -> Any:
    """The Arrow type of an event as one column.

    >>> from pellucid.internal.expr.types import INT, TupleType
    >>> print(column_type("out", INT), column_type("out", TupleType((INT, INT))))
    int64 struct<out_0: int64, out_1: int64>
    """
    fields = event_fields(t, name)
    return nested_type(t) if fields == [(name, t)] else pa.struct([(n, nested_type(inner)) for n, inner in fields])


def joined_batch(names: list[str], arrays: list[Any]) -> Any:
    """Columns as one record batch, whatever chunks they are in.

    >>> joined_batch(["a"], [pa.chunked_array([[1], [2]])]).to_pydict()
    {'a': [1, 2]}
    """
    flat = [a.combine_chunks() if isinstance(a, pa.ChunkedArray) else a for a in arrays]
    flat = [pa.concat_arrays(a.chunks) if isinstance(a, pa.ChunkedArray) else a for a in flat]
    return pa.RecordBatch.from_arrays(flat, names=names)


def _codes(column: Column) -> Any:
    return column.codes if isinstance(column, Strings) else column


def _take(column: Any, rows: Any) -> Column:
    return Strings(column.codes[rows], column.values) if isinstance(column, Strings) else column[rows]


def spread(column: Any, at: Any, count: int) -> Column:
    """The values of some pushes as a column of all; a mask says which count.

    >>> spread(np.array([7, 8]), np.array([0, 2]), 4).tolist()
    [7, 0, 8, 0]
    """
    codes = _codes(column)
    out = np.zeros(count, dtype=codes.dtype)
    out[at] = codes
    if isinstance(column, Strings):
        return Strings(out, column.values if len(column.values) else [""])
    return out


def _numbered(positions: Any) -> Any:
    """0, 1, … for the events of each push.

    >>> _numbered(np.array([0, 0, 2, 3, 3, 3])).tolist()
    [0, 1, 0, 0, 1, 2]
    """
    count = len(positions)
    new = np.ones(count, dtype=bool)
    new[1:] = positions[1:] != positions[:-1]
    starts = np.flatnonzero(new)
    return (np.arange(count) - np.repeat(starts, np.diff(np.append(starts, count)))).astype(np.int32)
