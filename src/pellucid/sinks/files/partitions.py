"""What may be told by the names of folders (``user=ada/``) and come back exactly, and what may not.

A folder's name is text.  Texts, whole numbers, booleans and dates come back from it; a timestamp does not, because
Spark writes it in the session's time zone and a reader may have another, nor a float, a decimal or bytes, on which
Spark and Arrow do not agree.  The empty text and the null have one name in Spark, so the empty text is refused.  So is
a text with the character NUL, which ends a name for the system, one that is no UTF-8, and one whose folder's name would
be longer than file systems take.  All else is escaped as Hive and Spark do it (``%2F``), and as Arrow reads it; Arrow's
own way to write names (every byte beyond ASCII) is not used, because Spark takes such a byte for a character.

Delta keeps a partition's value in its log, so that timestamps and floats come back; but it, too, takes the empty text
for null, and the package ``deltalake`` (1.6) spoils bytes and negative decimals.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

NULL = "__HIVE_DEFAULT_PARTITION__"  # what Spark and Arrow call the folder of the nulls
LONGEST = 255  # bytes of a name, on the usual file systems
_SPECIAL = "/\\=%\"#:*?'{}[]^"  # some writers escape these in a name, and some readers do not know that
# as Spark's ExternalCatalogUtils has it, and Hive before it
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")


def check(where: object, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """Refuse a column that is not there, or that cannot be a folder's name.

    >>> import pyarrow as pa
    >>> check("out", ("day",), pa.schema({"day": pa.date32(), "sum": pa.int64()}))
    >>> check("out", ("at",), pa.schema({"at": pa.timestamp("us", "UTC"), "sum": pa.int64()}))
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: out: partition_by='at': a timestamp[us, tz=UTC] would not come back exactly from the name
    of a partition; partition by a text, a whole number, a boolean or a date made from it, such as CAST(at AS DATE)
    """
    _check_kinds(where, columns, schema, _comes_back, "a text, a whole number, a boolean or a date")
    for name in columns:
        if name.startswith(("_", ".")) or any(char in _SPECIAL or not char.isprintable() for char in name):
            raise DataError(
                f"{where}: partition_by={name!r}: this name cannot be a folder's that all readers find; rename the "
                "column before the sink"
            )


def check_delta(where: object, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """The same for a Delta table."""
    import pyarrow as pa

    t = pa.types
    _check_kinds(
        where,
        columns,
        schema,
        lambda kind: _comes_back(kind) or t.is_floating(kind) or t.is_timestamp(kind),
        "a text, a number that is no decimal, a boolean, a date or a time",
    )


def _check_kinds(
    where: object, columns: tuple[str, ...], schema: pa.Schema, comes_back: Callable[[pa.DataType], bool], instead: str
) -> None:
    if columns and set(columns) == set(schema.names):
        raise DataError(f"{where}: partition_by={list(columns)}: no column is left for the files; leave one out")
    for name in columns:
        if name not in schema.names:
            raise DataError(
                f"{where}: partition_by={name!r}: there is no such column; there are {', '.join(schema.names)}"
            )
        kind = schema.field(name).type
        if not comes_back(kind):
            made = "DATE" if str(kind).startswith("timestamp") else "STRING"
            raise DataError(
                f"{where}: partition_by={name!r}: a {kind} would not come back exactly from the name of a partition; "
                f"partition by {instead} made from it, such as CAST({name} AS {made})"
            )


def escaped(text: str) -> str:
    """A value as a part of a folder's name, as Spark and Hive write it.

    >>> escaped("a/b = 5 %"), escaped("Zürich")
    ('a%2Fb %3D 5 %25', 'Zürich')
    """
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


class FolderNames:
    """The folders of the rows of one batch of Arrow: while Arrow writes, each value is a number, and afterwards the
    folders get their names.

    Arrow itself would escape every byte beyond ASCII, which Spark does not read back (and a name would be three times
    as long). ``folds`` says that the file system takes ``A`` and ``a`` for one name.
    """

    def __init__(self, where: object, columns: tuple[str, ...], schema: pa.Schema, *, folds: bool) -> None:
        import pyarrow as pa

        self.where, self.columns, self.folds = where, columns, folds
        mark = "~"
        # no column is called so: no folder is in another's way
        while any(name.startswith(mark) for name in schema.names):
            mark += "~"
        self.numbers = [f"{mark}{place}" for place in range(len(columns))]
        self.schema = schema
        for place, name in enumerate(columns):
            self.schema = self.schema.set(schema.get_field_index(name), pa.field(self.numbers[place], pa.int64()))
        self._numbers: dict[str, dict[str, int]] = {name: {} for name in columns}
        self._seen: dict[str, dict[str, str]] = {name: {} for name in columns}

    def numbered(self, rows: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """The rows with a number for each value; what cannot be a folder's name is refused before it is written."""
        import pyarrow as pa

        for batch in checked_rows(self.where, self.columns, rows):
            columns = list(batch.columns)
            for name in self.columns:
                place = batch.schema.get_field_index(name)
                values = columns[place].cast(pa.string()).dictionary_encode()
                numbers = pa.array([self._number(name, text) for text in values.dictionary.to_pylist()], pa.int64())
                columns[place] = numbers.take(values.indices)
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _number(self, name: str, text: str) -> int:
        numbers = self._numbers[name]
        if text not in numbers:
            _check_name(self.where, name, text)
            if self.folds:
                _check_case(self.where, name, text, self._seen[name])
            numbers[text] = len(numbers)
        return numbers[text]

    def rename(self, staging: Path, level: int = 0) -> None:
        """Give the folders below ``staging`` the names of their values."""
        if level == len(self.columns) or not staging.exists():  # of an empty batch nothing is written
            return
        name = self.columns[level]
        texts = {str(number): escaped(text) for text, number in self._numbers[name].items()}
        for made in [found for found in os.scandir(staging) if found.is_dir()]:
            number = made.name.rpartition("=")[2]
            named = staging / f"{name}={texts.get(number, NULL)}"
            os.rename(made.path, named)
            self.rename(named, level + 1)


def _check_name(where: object, name: str, text: str) -> None:
    if "\0" in text:
        raise DataError(
            f"{where}: partition_by={name!r}: a row has the text {_shown(text)} there, and no folder can have the "
            f"character NUL in its name; replace it before the sink, for instance by replace({name}, '\\0', '')"
        )
    if len(f"{name}={escaped(text)}".encode()) > LONGEST:
        raise DataError(
            f"{where}: partition_by={name!r}: a row has the text {_shown(text)} there, whose folder's name would be "
            f"longer than {LONGEST} bytes; "
            f"shorten it before the sink, for instance by substr({name}, 1, 100), or partition by something shorter"
        )


def _check_case(where: object, name: str, text: str, seen: dict[str, str]) -> None:
    other = seen.setdefault(unicodedata.normalize("NFC", text).casefold(), text)
    if other != text:
        raise DataError(
            f"{where}: partition_by={name!r}: the texts {_shown(other)} and {_shown(text)} would be one folder here, "
            "because this file system does "
            "not tell their letters apart; make them one before the sink, or write to a file system that does"
        )


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}…"


def explained(where: object, columns: tuple[str, ...], failure: str) -> None:
    """Refuse the batch if Spark failed because it could not make a partition's folder; its words have the folder's
    path."""
    for path in re.findall(r"Mkdirs failed to create (.*?) \(exists=", failure, re.DOTALL):
        for name in columns:
            found = re.search(rf"/{re.escape(escaped(name))}=([^/]*)", path)
            if found:
                _check_name(where, name, re.sub("%([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), found[1]))


def metrics(columns: tuple[str, ...], *, folds: bool) -> list[Any]:
    """For Spark's ``observe``: how many values of each column (``lost0``, …) have the name of the nulls, how many are
    no UTF-8.

    Where the file system takes ``A`` and ``a`` for one name, the values themselves come, too (``values0``, …).
    """
    from pyspark.sql import functions as F

    made = []
    for place, name in enumerate(columns):
        text = F.col(spark_name(name)).cast("string")
        made.append(F.count_if(text.isin("", NULL)).alias(f"lost{place}"))
        made.append(F.count_if(~F.is_valid_utf8(text)).alias(f"broken{place}"))
        if folds:
            made.append(F.collect_set(text).alias(f"values{place}"))
    return made


def check_counted(where: object, columns: tuple[str, ...], counted: dict[str, Any]) -> None:
    """Refuse the batch if such values were counted."""
    for place, name in enumerate(columns):
        if counted[f"lost{place}"]:
            _refuse(where, name)
        if counted[f"broken{place}"]:
            _refuse_broken(where, name)
        seen: dict[str, str] = {}
        for text in counted.get(f"values{place}", ()):
            _check_case(where, name, text, seen)


def checked_rows(
    where: object, columns: tuple[str, ...], rows: Iterable[Any], nulls: tuple[str, ...] = ("", NULL)
) -> Iterator[pa.RecordBatch]:
    """The same for batches of Arrow, as they pass."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in rows:
        for name in columns:
            column = batch.column(name)
            texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            if texts and pc.any(pc.is_in(column, pa.array(nulls, column.type))).as_py():
                _refuse(where, name)
            if texts:
                try:
                    column.validate(full=True)
                except pa.ArrowInvalid:
                    _refuse_broken(where, name)
        yield batch


def spark_name(name: str) -> str:
    """A column's name as Spark's expressions take it: a dot is no field of a record, a backtick is no end.

    >>> spark_name("user.id"), spark_name("a`b")
    ('`user.id`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"


def _comes_back(kind: pa.DataType) -> bool:
    import pyarrow as pa

    t = pa.types
    return bool(
        t.is_string(kind) or t.is_large_string(kind) or t.is_integer(kind) or t.is_boolean(kind) or t.is_date32(kind)
    )


def _refuse(where: object, name: str) -> None:
    raise DataError(
        f"{where}: partition_by={name!r}: a row has the empty text there (or the text {NULL}), which would come back "
        f"as null; replace it before the sink, for instance by nullif({name}, '') or by a word of your own"
    )


def _refuse_broken(where: object, name: str) -> None:
    raise DataError(
        f"{where}: partition_by={name!r}: a row has bytes there that are no text in UTF-8, which would not come back "
        f"exactly; replace them before the sink, for instance by hex({name})"
    )
