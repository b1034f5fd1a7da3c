"""A log of transactions as two tables, read and numbered: transactions (id, status) and dependencies (needs, who).

Whatever the ids are, the loops want numbers from 0 on: a transaction has that of its first row, and ids that only
dependencies know come after them.  Those are *unknown*: neither pending nor committed, so that none that needs them
can commit.  They are counted, and refused if that is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.errors import DataError, UsageError, nearest, option

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "STATUSES",
    "Cascade",
    "Committable",
    "Cycles",
    "Log",
    "Names",
    "cascade",
    "committable",
    "cycles",
    "read_log",
]

if TYPE_CHECKING:
    import pyarrow as pa

    Batches = Generator[pa.RecordBatch, None, None]

STATUSES = ("active", "pending", "committed", "aborted")
ACTIVE, PENDING, COMMITTED, ABORTED, UNKNOWN = range(5)
WORDS = (*STATUSES, "unknown")
MOST = 2**31 - 2  # numbers of 32 bits
TEXTS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json"}
_SHOWN = 3
_AT_ONCE = 1 << 20  # rows of a file of text
_WIDE = 4  # a table by value is used for numbers that are spread over up to so many times as many values


@dataclass(frozen=True)
class Names:
    """What the columns are called."""

    id: str = "id"
    status: str = "status"
    needs: str = "needs"
    who: str = "who"


NAMES = Names()


@dataclass(frozen=True, eq=False)
class Log:
    """A log, numbered: ``status[v]`` of each vertex, and ``needs[i] ⇝ who[i]``."""

    ids: Any  # an Arrow array, or a list of objects
    status: Any
    needs: Any
    who: Any
    rows: int  # of transactions
    dependencies: int  # rows
    repeated: int  # rows of transactions that say once more what another one said
    selves: int  # dependencies of a transaction on itself, which are left out
    unknown: int  # ids that only dependencies know

    @property
    def size(self) -> int:
        """How many vertices."""
        return len(self.status)

    @cached_property
    def graph(self) -> tuple[Any, Any]:
        """Who reads from each (`kernels.readers`)."""
        from pellucid.atomic.logs_kernels import readers

        return readers(self.size, self.needs, self.who)  # type: ignore[no-any-return]

    def named(self, vertices: Any) -> Any:
        """The ids of these, as an Arrow array, or as a list where ids are no columns of Arrow."""
        if isinstance(self.ids, list):
            return [self.ids[v] for v in vertices]
        import pyarrow as pa

        return self.ids.take(pa.array(vertices, pa.int32()))

    def listed(self, vertices: Any) -> list[Any]:
        """The ids of these, as Python's values."""
        found = self.named(vertices)
        return found if isinstance(found, list) else found.to_pylist()

    def number(self, one: Any) -> int:
        """The vertex of an id; refused if the log does not know it."""
        if isinstance(self.ids, list):
            at = next((v for v, name in enumerate(self.ids) if name == one), -1)
        else:
            import pyarrow as pa
            import pyarrow.compute as pc

            try:
                at = pc.index(self.ids, pa.scalar(one, self.ids.type)).as_py()
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
                at = -1
        if at < 0:
            raise DataError(f"there is no transaction {one!r}: expected an id of the log{self._like()}")
        return int(at)

    def _like(self) -> str:
        return f", as {', '.join(map(repr, self.listed(range(min(_SHOWN, self.size)))))}" if self.size else ""


def read_log(transactions: Any, dependencies: Any, *, names: Names = NAMES, unknown: str = "block") -> Log:
    """The log in two tables.

    ``transactions`` is a table of Arrow, a data frame, a file (Parquet, Arrow, CSV, JSON Lines; a folder of Parquet), a
    mapping of columns, or a mapping of ids to statuses; ``dependencies`` is one of the first, or pairs (needs, who).
    ``unknown="refuse"`` refuses ids that only dependencies know.

    >>> log = read_log({"a": "pending", "b": "pending"}, [("a", "b"), ("x", "b"), ("b", "b")])
    >>> log.listed(range(log.size)), [WORDS[s] for s in log.status], log.selves, log.unknown
    (['a', 'b', 'x'], ['pending', 'pending', 'unknown'], 1, 1)
    """
    if unknown not in ("block", "refuse"):
        raise UsageError(f"{option('unknown')}: expected block or refuse, found {unknown!r}")
    ids, words = _columns(transactions, (names.id, names.status), "transactions")
    needs, who = _columns(dependencies, (names.needs, names.who), "dependencies")
    said = _said(transactions, "transactions"), _said(dependencies, "dependencies")
    status = _statuses(words, said[0], names.status)
    for column, name, place in ((ids, names.id, said[0]), (needs, names.needs, said[1]), (who, names.who, said[1])):
        _refuse_missing(column, name, place)
    if len(ids) + len(needs) > MOST:
        raise DataError(
            f"{said[0]}: {len(ids):,} transactions with {len(needs):,} dependencies are too many: expected "
            f"no more than {MOST:,} of both"
        )
    known, first, needs_at, who_at, every = _numbered(ids, needs, who, names, said)
    status, repeated = _one_status(status, first, known, every, said[0], names)
    strangers = len(every) - known
    if strangers and unknown == "refuse":
        shown = ", ".join(map(repr, _listed(every, range(known, known + min(_SHOWN, strangers)))))
        raise DataError(
            f"{said[1]}: {strangers:,} id{'s are' if strangers > 1 else ' is'} in no row of the transactions: {shown}"
            f"{', …' if strangers > _SHOWN else ''}; add them, or say {option('unknown', 'block')}: what needs one "
            "cannot commit then"
        )
    other = needs_at != who_at
    selves = int(len(other) - np.count_nonzero(other))
    if selves:
        needs_at, who_at = needs_at[other], who_at[other]
    whole = np.concatenate([status, np.full(strangers, UNKNOWN, np.int8)])
    return Log(every, whole, needs_at, who_at, len(ids), len(needs), repeated, selves, strangers)


# ---------------------------------------------------------------- columns


def _said(given: Any, what: str) -> str:
    return str(given) if isinstance(given, (str, Path)) else what


def _columns(given: Any, names: tuple[str, str], what: str) -> tuple[Any, Any]:
    """Two columns, as Arrow arrays or, where Arrow has no type for them, as lists."""
    import pyarrow as pa

    said = _said(given, what)
    if isinstance(given, (str, Path)):
        given = read_file(str(given), names)
    if isinstance(given, Mapping):
        given = _of_mapping(given, names, what)
    elif not hasattr(given, "column_names") and not hasattr(given, "columns") and isinstance(given, Iterable):
        given = _of_pairs(list(given), names, what)
    if isinstance(given, dict):
        there = list(given)
    else:
        listed: Any = getattr(given, "column_names", None) or getattr(given, "columns", ())
        there = [str(name) for name in listed]
    _refuse_columns(said, names, there)
    made = []
    for name in names:
        column = given[name]
        if not isinstance(column, (pa.Array, pa.ChunkedArray)):
            try:
                column = _arrow(column)
            except UnicodeEncodeError as error:
                raise DataError(
                    f"{said}: {name!r} has the text {error.object!r}, which is no Unicode (half a surrogate pair): "
                    "expected text that can be written as UTF-8"
                ) from None
        made.append(column)
    if len(made[0]) != len(made[1]):
        raise DataError(f"{said}: {len(made[0]):,} values of {names[0]!r} and {len(made[1]):,} of {names[1]!r}")
    return made[0], made[1]


def _refuse_columns(said: str, names: Sequence[str], there: Sequence[str]) -> None:
    for name in names:
        if name not in there:
            raise DataError(
                f"{said}: there is no column {name!r}: there are {', '.join(there) or 'none'}{nearest(name, there)}"
            )
        if there.count(name) > 1:
            raise DataError(f"{said}: there are {there.count(name)} columns {name!r}: expected one")


def _of_mapping(given: Mapping[Any, Any], names: tuple[str, str], what: str) -> dict[str, Any]:
    """Columns by name; or of transactions a status for each id."""
    columns = all((isinstance(v, Sequence) and not isinstance(v, (str, bytes))) or hasattr(v, "__array__")
                  for v in given.values())  # fmt: skip
    if given and columns:
        return {str(name): column for name, column in given.items()}
    if what != "transactions":
        raise UsageError(f"{what}: expected columns {names[0]!r} and {names[1]!r}, or pairs")
    return {names[0]: list(given), names[1]: list(given.values())}


def _of_pairs(rows: list[Any], names: tuple[str, str], what: str) -> dict[str, Any]:
    for n, row in enumerate(rows):
        if not isinstance(row, (tuple, list)) or len(row) != 2:
            raise UsageError(f"{what}: item {n + 1:,} is {row!r}: expected a pair ({names[0]}, {names[1]})")
    return {names[0]: [row[0] for row in rows], names[1]: [row[1] for row in rows]}


def _arrow(column: Any) -> Any:
    """As a column of Arrow; a list if it has no type for it (tuples, and kinds that are mixed)."""
    import pyarrow as pa

    try:
        if hasattr(column, "to_arrow"):  # polars
            return column.to_arrow()
        made = pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return list(column)
    return list(column) if pa.types.is_nested(made.type) else made


def read_file(path: str, names: Sequence[str]) -> pa.Table:
    """The two columns of a file, or of a folder of Parquet files."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.feather as feather

    if not os.path.exists(path):
        raise DataError(f"{path}: no such file or folder")
    ending = os.path.splitext(path)[1].lower()
    forms = {**TEXTS, ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".parquet": "parquet", ".pq": "parquet"}
    form = "parquet" if os.path.isdir(path) else forms.get(ending)
    if form is None:
        raise UsageError(f"{path}: which format is it? Expected .parquet, .csv, .tsv, .jsonl or .arrow, or a folder")
    try:
        if ending in TEXTS and form != "parquet":
            schema, batches = text_batches(path, names)
            return pa.Table.from_batches(list(batches), schema)
        if form == "arrow":
            return feather.read_table(path)
        found = ds.dataset(path, format="parquet")
        return found.to_table(columns=[name for name in names if name in found.schema.names] or None)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
        raise DataError(f"{path}: cannot be read as {form}: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or str(error).splitlines()[0]}") from None


def text_batches(path: str, names: Sequence[str]) -> tuple[pa.Schema, Batches]:
    """Columns of a CSV or JSON Lines file, by the rules of all inputs, some rows at a time.

    A cell of CSV is text: 007 is not 7, and NA, null or nan are ids like others.  In JSON Lines an id is text, whatever
    it looks like, or a whole number, as its first row has it; a file without lines is a table without rows."""
    import pyarrow as pa

    from pellucid.internal.data.csv_files import OneColumnError
    from pellucid.internal.data.files import open_reader
    from pellucid.internal.expr.types import INT, STR, OptionalType

    json = TEXTS[os.path.splitext(path)[1].lower()] == "json"
    if json and not os.path.getsize(path):
        nothing = pa.schema([(name, pa.string()) for name in dict.fromkeys(names)])
        return nothing, (batch for batch in pa.Table.from_batches([], nothing).to_batches())
    try:
        reader = open_reader(path)
    except OneColumnError as error:
        raise DataError(error.words("in a file whose name ends in .tsv")) from None
    try:
        if json and getattr(reader, "bare", False):
            raise DataError(f"{path}: row 1 is no object: expected {{{', '.join(f'{name!r}: …' for name in names)}}}")
        if not json or reader.names:
            _refuse_columns(path, names, reader.names)
        kinds = {name: json and pa.types.is_integer(reader.field_type(name)) for name in names}
    except BaseException:
        reader.close()
        raise
    wanted: dict[str, Any] = {name: OptionalType(INT if whole else STR) for name, whole in kinds.items()}
    schema = pa.schema([(name, pa.int64() if whole else pa.string()) for name, whole in kinds.items()])

    def rows() -> Batches:
        try:
            for chunk in reader.chunks(wanted, rows=_AT_ONCE) if reader.names else ():
                batch = chunk.batch
                yield pa.RecordBatch.from_arrays([batch.column(name).cast(schema.field(name).type) for name in kinds],
                                                 schema=schema)  # fmt: skip
        finally:
            reader.close()

    return schema, rows()


def _refuse_missing(column: Any, name: str, said: str) -> None:
    """An id is something: neither missing nor a text, or bytes, without a letter."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, list):
        at = next((n for n, one in enumerate(column) if one is None or (type(one) in (str, bytes) and not one)), -1)
    else:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        at = pc.index(pc.is_null(column), True).as_py() if column.null_count else -1
        if str(column.type) in ("string_view", "binary_view"):
            column = column.cast(pa.large_string() if str(column.type) == "string_view" else pa.large_binary())
        if str(column.type) in ("string", "large_string", "binary", "large_binary"):
            empty = pc.index(pc.equal(pc.binary_length(column), 0), True).as_py()
            at = min((n for n in (at, empty) if n >= 0), default=-1)
    if at >= 0:
        raise DataError(f"{said}: row {at + 1:,}: {name!r} is empty: expected an id")


# ---------------------------------------------------------------- statuses


def _statuses(words: Any, said: str, name: str) -> Any:
    """As numbers; a word that is none of the four is refused, with its row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not isinstance(words, list) and pa.types.is_dictionary(words.type):
        words = words.cast(words.type.value_type)
    if not isinstance(words, list) and (pa.types.is_string(words.type) or pa.types.is_large_string(words.type)):
        found = pc.index_in(words, value_set=pa.array(STATUSES, words.type))
        if not found.null_count:
            return np.asarray(found).astype(np.int8)
        at = pc.index(pc.is_null(found), True).as_py()
        word = words[at].as_py()
    else:
        texts = words if isinstance(words, list) else words.to_pylist()
        if all(isinstance(one, str) and one in STATUSES for one in texts):
            return np.array([STATUSES.index(one) for one in texts], np.int8)
        at, word = next((n, one) for n, one in enumerate(texts) if one not in STATUSES)
    raise DataError(
        f"{said}: row {at + 1:,}: {name!r} is {word!r}: expected {', '.join(STATUSES)}"
        f"{nearest(word, STATUSES) if isinstance(word, str) else ''}"
    )


def _one_status(status: Any, first: Any, known: int, every: Any, said: str, names: Names) -> tuple[Any, int]:
    """A status for each transaction, and how many rows say what another row said; two that differ are refused.
    ``first`` has the vertex of each row, or None if each has its own."""
    if first is None:
        return status, 0
    of = np.full(known, -1, np.int8)
    of[first[::-1]] = status[::-1]  # the first row of each wins
    wrong = np.flatnonzero(of[first] != status)
    if len(wrong):
        row = int(wrong[0])
        (name,) = _listed(every, [int(first[row])])
        raise DataError(
            f"{said}: row {row + 1:,}: {names.id!r} {name!r} is {WORDS[status[row]]}, and an earlier row says "
            f"{WORDS[of[first[row]]]}: expected one status for each transaction; keep the last row of each"
        )
    return of, len(status) - known


# ---------------------------------------------------------------- numbers


def _listed(every: Any, vertices: Sequence[int]) -> list[Any]:
    return [every[v] if isinstance(every, list) else every[v].as_py() for v in vertices]


def _numbered(
    ids: Any, needs: Any, who: Any, names: Names, said: tuple[str, str]
) -> tuple[int, Any, Any, Any, Any]:  # fmt: skip
    """How many are known, the vertex of each row (None: the row's number), the vertices of both ends, all ids."""
    columns = [ids, needs, who]
    empty = [not len(column) for column in columns]
    if any(isinstance(c, list) for c, e in zip(columns, empty, strict=True) if not e):
        return _numbered_objects(*(c if isinstance(c, list) else c.to_pylist() for c in columns))
    ids, needs, who = _of_one_kind(columns, names, said)
    import pyarrow as pa

    if pa.types.is_integer(ids.type):
        found = _numbered_by_value(*(np.asarray(c) for c in (ids, needs, who)))
        if found is not None:
            return found
    return _numbered_by_hash(ids, needs, who)


def _of_one_kind(columns: list[Any], names: Names, said: tuple[str, str]) -> list[Any]:
    """All three as arrays of one type, whole numbers or text; refused if they are of different kinds."""
    import pyarrow as pa

    made, kinds = [], []
    for column, name, place in zip(
        columns, (names.id, names.needs, names.who), (said[0], said[1], said[1]), strict=True
    ):
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        t = array.type
        if pa.types.is_integer(t):
            kind: Any = pa.int64()
        elif pa.types.is_string(t) or pa.types.is_large_string(t) or str(t) == "string_view":
            kind = pa.large_string()
        elif str(t).startswith(("binary", "large_binary", "fixed_size_binary")):  # a view, too; no list of them
            kind = pa.large_binary()
        elif not len(array):
            kind = None
        else:
            raise DataError(f"{place}: {name!r} has {t}: expected whole numbers, text or bytes as ids")
        made.append(array)
        kinds.append((kind, name, place, t))
    full = [k for k, array in zip(kinds, made, strict=True) if len(array)]
    for kind, name, place, t in full[1:]:
        if kind != full[0][0]:
            raise DataError(
                f"{place}: {name!r} has {t}, and {full[0][1]!r} has {full[0][3]}: expected ids of one kind; "
                "cast one of the columns"
            )
    wanted = full[0][0] if full else pa.int64()
    try:
        return [array.cast(wanted) if len(array) else pa.array([], wanted) for array in made]
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{said[0]}: ids of 2^63 and more are not understood ({str(error).splitlines()[0]}): expected whole "
            "numbers from -2^63 to 2^63 - 1; give larger ones as text"
        ) from None


def _numbered_by_value(ids: Any, needs: Any, who: Any) -> tuple[int, Any, Any, Any, Any] | None:
    """Numbers that lie close: a table by value; None if they do not."""
    import pyarrow as pa

    full = [column for column in (ids, needs, who) if len(column)]
    if not full:
        nothing = np.zeros(0, np.int32)
        return 0, None, nothing, nothing, pa.array([], pa.int64())
    low, high = min(int(c.min()) for c in full), max(int(c.max()) for c in full)
    width = high - low + 1
    if width > _WIDE * sum(map(len, full)) + 1024 or width > MOST:
        return None
    at = np.full(width, -1, np.int32)
    at[ids[::-1] - low] = np.arange(len(ids) - 1, -1, -1, dtype=np.int32)  # the first row of each wins
    rows = at[ids - low]
    is_first = rows == np.arange(len(ids), dtype=np.int32)
    known, first = len(ids), None
    if not is_first.all():
        number = np.cumsum(is_first, dtype=np.int32) - 1
        known, first = int(is_first.sum()), number[rows]
        at[ids - low] = first
        ids = ids[is_first]
    ends = [at[needs - low], at[who - low]]
    strange = [end < 0 for end in ends]
    strangers = np.unique(np.concatenate([needs[strange[0]], who[strange[1]]]))
    if len(strangers):
        at[strangers - low] = np.arange(known, known + len(strangers), dtype=np.int32)
        ends = [at[needs - low], at[who - low]]
    return known, first, ends[0], ends[1], pa.array(np.concatenate([ids, strangers]))


def _numbered_by_hash(ids: Any, needs: Any, who: Any) -> tuple[int, Any, Any, Any, Any]:
    """Any ids of one type of Arrow's."""
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = pc.dictionary_encode(ids)
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    names = coded.dictionary
    known = len(names)
    first = np.asarray(coded.indices) if known < len(ids) else None
    ends = [pc.index_in(end, value_set=names) for end in (needs, who)]
    if any(end.null_count for end in ends):
        lost = [side.filter(pc.is_null(end)) for side, end in zip((needs, who), ends, strict=True)]
        strangers = pc.unique(pa.concat_arrays(lost))
        names = pa.concat_arrays([names, strangers])
        ends = [pc.index_in(end, value_set=names) for end in (needs, who)]
    made = [np.asarray(end).astype(np.int32, copy=False) for end in ends]
    return known, first, made[0], made[1], names


def _numbered_objects(ids: list[Any], needs: list[Any], who: list[Any]) -> tuple[int, Any, Any, Any, Any]:
    """Any hashable values."""
    at: dict[Any, int] = {}
    try:
        first = [at.setdefault(one, len(at)) for one in ids]
        known = len(at)
        ends = [np.array([at.setdefault(one, len(at)) for one in side], np.int32) for side in (needs, who)]
    except TypeError as error:
        raise DataError(f"ids: {error}: expected values that can be keys of a dict") from None
    return known, np.array(first, np.int64) if known < len(ids) else None, ends[0], ends[1], list(at)


# The questions about a log: who can commit now, what an abort takes with it, who depends on each other.
#
# u ⇝ t: t took a message of u, so t needs u.  The largest set that can commit is what is pending, minus everything that
# ⇝ reaches from a transaction that is neither pending nor committed; its least parts, each committable once those
# before it have committed, are its strongly connected components, by levels.  In a log that breaks A3, what needs
# another one through committed ones needs it, too.

NO_ROW = "there is no transaction {!r}: only the dependencies have this id, and no row of the transactions"
NAMED = 3  # transactions that are named where they are wrong


def committable(transactions: Any, dependencies: Any, *, names: Names = NAMES, unknown: str = "block") -> Committable:
    """The largest set of pending transactions that can commit now, in the order in which its parts can.

    Tables are what `read_log` takes.

    >>> found = committable({1: "pending", 2: "pending", 3: "pending", 4: "active", 5: "pending", 6: "committed"},
    ...                     [(1, 2), (2, 1), (2, 3), (4, 5), (6, 1)])
    >>> list(found.sets())
    [[1, 2], [3]]
    >>> found.table().to_pydict()
    {'id': [1, 2, 3], 'level': [0, 0, 1], 'set': [1, 1, 3], 'size': [2, 2, 1]}
    >>> found.why(5), found.why(3)
    ([4, 5], [])
    """
    return Committable(read_log(transactions, dependencies, names=names, unknown=unknown))


def cascade(
    transactions: Any, dependencies: Any, abort: Iterable[Any], *, names: Names = NAMES, unknown: str = "block"
) -> Cascade:
    """What is undone if these abort: they, and those that took a message of one that is undone.

    >>> found = cascade({"a": "active", "b": "pending", "c": "pending", "d": "pending"},
    ...                 [("a", "b"), ("b", "c"), ("d", "c")], ["a"])
    >>> found.table().to_pylist()[-1], found.path("c")
    ({'id': 'c', 'status': 'pending', 'via': 'b', 'steps': 2}, ['a', 'b', 'c'])
    """
    log = read_log(transactions, dependencies, names=names, unknown=unknown)
    if isinstance(abort, (str, bytes)):
        raise UsageError(f"{option('abort')}: expected several ids, as [{abort!r}], found one text")
    return Cascade(log, roots_of(log, list(abort)))


def cycles(transactions: Any, dependencies: Any, *, names: Names = NAMES, unknown: str = "block") -> Cycles:
    """Transactions that depend on each other: they commit together or not at all.

    >>> found = cycles({"a": "active", "b": "pending", "c": "pending"}, [("a", "b"), ("b", "a"), ("b", "c")])
    >>> list(found.sets()), found.table().to_pylist()[0]
    ([['a', 'b']], {'id': 'a', 'status': 'active', 'cycle': 'a', 'size': 2})
    """
    return Cycles(read_log(transactions, dependencies, names=names, unknown=unknown))


def roots_of(log: Log, abort: list[Any]) -> Any:
    """The vertices of ids that shall abort; a committed one is refused, and one that only dependencies have."""
    if not abort:
        raise UsageError(f"{option('abort')}: expected the id of a transaction, or several")
    found = np.array([log.number(one) for one in abort], np.int32)
    for one, v in zip(abort, found, strict=True):
        if log.status[v] == COMMITTED:
            raise DataError(f"the transaction {one!r} is committed: it cannot abort any more")
        if log.status[v] == UNKNOWN:
            raise DataError(NO_ROW.format(one))
    return found


class _Answer:
    """What every answer knows of its log."""

    log: Log

    @cached_property
    def broken(self) -> int:
        """How many committed transactions depend on one that is not, in the whole log."""
        return int(np.count_nonzero(self._after))

    @cached_property
    def _after(self) -> Any:
        return _broken(self.log)

    def broken_ids(self) -> list[Any]:
        """Some of these."""
        return self.log.listed(np.flatnonzero(self._after)[:NAMED])


class Committable(_Answer):
    """The largest committable set of a log."""

    def __init__(self, log: Log) -> None:
        from pellucid.atomic.logs_kernels import NOT_REACHED, components, in_order, levels, reached

        self.log = log
        start, out = log.graph
        stops = np.flatnonzero((log.status != PENDING) & (log.status != COMMITTED)).astype(np.int32)
        self._via, self._steps = reached(start, out, stops)
        free = self._via == NOT_REACHED
        inside = free & (log.status == PENDING)
        self.size = int(np.count_nonzero(inside))
        self.blocked = int(np.count_nonzero((log.status == PENDING) & ~free))
        # Through committed ones that need a pending one, too: they come between, and count for nothing.
        found, count = components(start, out, inside | (free & self._after) if self.broken else inside)
        level = levels(start, out, found, count, inside)
        if self.broken:
            kept = np.zeros(count, np.bool_)
            kept[found[inside]] = True
            number = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1).astype(np.int32)  # the last is that of -1
            found, level = np.where(inside, number[found], np.int32(-1)), level[kept]
        self._found, self._level = found, level
        self._members, self._begins, self._sizes = in_order(self._found, self._level)

    @property
    def count(self) -> int:
        """How many least sets."""
        return len(self._level)

    @property
    def depth(self) -> int:
        """How many levels: sets of one level can commit at the same time."""
        return int(self._level.max()) + 1 if len(self._level) else 0

    def ids(self) -> list[Any]:
        """All of them, needed ones first."""
        return self.log.listed(self._members)

    def sets(self) -> Iterator[list[Any]]:
        """The least sets, in an order in which they can commit one after the other."""
        for a, b in pairwise(self._begins):
            yield self.log.listed(self._members[a:b])

    def table(self) -> pa.Table:
        """A row for each: its id, the level and the least id of its set, and how many are in that."""
        import pyarrow as pa

        members = self._members
        own = self._found[members]
        columns = {
            "id": _array(self.log, members),
            "level": pa.array(self._level[own]),
            "set": _array(self.log, _least(self.log, members, own, self._sizes)),
            "size": pa.array(self._sizes[own]),
        }
        return pa.table(columns)

    def why(self, one: Any) -> list[Any]:
        """A shortest way from a transaction that is neither pending nor committed to this one, which therefore cannot
        commit; nothing if it can, or has."""
        v = self.log.number(one)
        return self.log.listed(_way(self._via, v)) if self.log.status[v] == PENDING else []

    def counts(self) -> dict[str, int]:
        """What a report says."""
        sizes = self._sizes
        return {
            "committable": self.size, "sets": self.count, "levels": self.depth,
            "largest set": int(sizes.max()) if len(sizes) else 0, "blocked": self.blocked, "broken": self.broken,
            **_counts(self.log),
        }  # fmt: skip


class Cascade(_Answer):
    """What an abort takes with it."""

    def __init__(self, log: Log, roots: Any) -> None:
        from pellucid.atomic.logs_kernels import NOT_REACHED, reached

        self.log = log
        start, out = log.graph
        self._via, self._steps = reached(start, out, roots)
        hit = np.flatnonzero(self._via != NOT_REACHED).astype(np.int32)
        self._hit = hit[np.argsort(self._steps[hit], kind="stable")]
        self.size = len(hit)
        self.roots = len(set(roots.tolist()))
        self.taken_back = int(np.count_nonzero(log.status[hit] == COMMITTED))

    def ids(self) -> list[Any]:
        """All that are undone, the nearest first."""
        return self.log.listed(self._hit)

    def path(self, one: Any) -> list[Any]:
        """A shortest way from one that aborts to this one; nothing if it stays."""
        return self.log.listed(_way(self._via, self.log.number(one)))

    def table(self) -> pa.Table:
        """A row for each: its id and status, from whom it was reached (none if it was asked for), in how many steps."""
        import pyarrow as pa

        hit = self._hit
        via = self._via[hit]
        known = via >= 0
        names = _array(self.log, np.where(known, via, 0))
        import pyarrow.compute as pc

        columns = {
            "id": _array(self.log, hit),
            "status": pa.array(np.array(WORDS, dtype=object)[self.log.status[hit]], pa.string()),
            "via": pc.if_else(pa.array(known), names, pa.scalar(None, names.type)),
            "steps": pa.array(self._steps[hit]),
        }
        return pa.table(columns)

    def counts(self) -> dict[str, int]:
        """What a report says."""
        farthest = int(self._steps[self._hit[-1]]) if self.size else 0
        out = {"undone": self.size, "asked": self.roots, "farthest": farthest}
        out |= {"committed undone": self.taken_back, "broken": self.broken}
        return {**out, **_counts(self.log)}


@dataclass(eq=False)
class Cycles(_Answer):
    """Transactions that depend on each other."""

    log: Log

    @cached_property
    def _parts(self) -> tuple[Any, Any, Any, Any]:
        from pellucid.atomic.logs_kernels import components, in_order

        start, out = self.log.graph
        found, count = components(start, out, np.ones(self.log.size, np.bool_))
        sizes = np.bincount(found, minlength=count)
        found = np.where(sizes[found] > 1, found, -1) if count else found
        kept = np.flatnonzero(sizes > 1)
        number = np.full(count + 1, -1, np.int32)  # the last one is that of -1
        number[kept] = np.arange(len(kept), dtype=np.int32)
        found = number[found]
        return (found, *in_order(found, np.zeros(len(kept), np.int32)))

    @property
    def count(self) -> int:
        """How many cycles."""
        return len(self._parts[3])

    @property
    def size(self) -> int:
        """How many transactions are in one."""
        return len(self._parts[1])

    def sets(self) -> Iterator[list[Any]]:
        """The members of each."""
        _, members, begins, _ = self._parts
        for a, b in pairwise(begins):
            yield self.log.listed(members[a:b])

    def table(self) -> pa.Table:
        """A row for each transaction in a cycle: its id and status, the least id of the cycle, how many are in it."""
        import pyarrow as pa

        found, members, _, sizes = self._parts
        own = found[members]
        columns = {
            "id": _array(self.log, members),
            "status": pa.array(np.array(WORDS, dtype=object)[self.log.status[members]], pa.string()),
            "cycle": _array(self.log, _least(self.log, members, own, sizes)),
            "size": pa.array(sizes[own]),
        }
        return pa.table(columns)

    def counts(self) -> dict[str, int]:
        """What a report says."""
        sizes = self._parts[3]
        largest = int(sizes.max()) if len(sizes) else 0
        out = {"cycles": self.count, "in cycles": self.size, "largest": largest, "broken": self.broken}
        return {**out, **_counts(self.log)}


def _broken(log: Log) -> Any:
    """Which committed ones depend, through any number of others, on one that is not: where A3 is broken."""
    from pellucid.atomic.logs_kernels import NOT_REACHED, reached

    done = log.status == COMMITTED
    if not np.any(done[log.who] & ~done[log.needs]):
        return np.zeros(log.size, np.bool_)
    via, _ = reached(*log.graph, np.flatnonzero(~done).astype(np.int32))
    return done & (via != NOT_REACHED)


def _counts(log: Log) -> dict[str, int]:
    """What is counted of every log."""
    many = np.bincount(log.status, minlength=len(WORDS))
    each = {word: int(many[i]) for i, word in enumerate(WORDS)}
    return {
        "transactions": log.size - log.unknown, **each, "dependencies": log.dependencies,
        "self-dependencies": log.selves, "repeated": log.repeated,
    }  # fmt: skip


def _way(via: Any, v: int) -> list[int]:
    """From a root to this one; nothing if it was not reached."""
    from pellucid.atomic.logs_kernels import NOT_REACHED

    if via[v] == NOT_REACHED:
        return []
    way = [v]
    while via[v] >= 0:
        v = int(via[v])
        way.append(v)
    return way[::-1]


def _array(log: Log, vertices: Any) -> Any:
    """The ids of these as a column."""
    import pyarrow as pa

    if not isinstance(log.ids, list):
        return log.named(vertices)
    try:
        return pa.array(log.named(vertices))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise DataError(f"ids: a table has no column for them ({error}): use sets(), ids() or path()") from None


def _least(log: Log, members: Any, own: Any, sizes: Any) -> Any:
    """For each member the one with the least id in its component; by their places where ids have no order."""
    least = members.copy()
    several = np.flatnonzero(sizes[own] > 1)
    if not len(several):
        return least
    inside = members[several]
    if isinstance(log.ids, list):
        try:
            order = sorted(range(len(inside)), key=lambda k: log.ids[inside[k]])
        except TypeError:
            order = list(np.argsort(inside, kind="stable"))
        ordered = np.array(order, np.int64)
    else:
        import pyarrow.compute as pc

        ordered = np.asarray(pc.sort_indices(log.named(inside)))
    first = np.full(len(sizes), -1, np.int32)
    backward = ordered[::-1]
    first[own[several][backward]] = inside[backward]  # the least one is written last
    least[several] = first[own[several]]
    return least
